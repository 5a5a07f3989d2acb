/* what: Queue pairs of a device work between two sides: every operation, selective signaling,
 *       shared receive queues, events. Each error has its own status.
 * env: TAP_DEVICE=snic | TAP_DEVICE=
 * log: warn: .*(has no WAIT and ENABLE|does not know the addresses of its queues)
 * timeout: 300
 * source: include/pgas/verbs.h; the InfiniBand architecture on errors
 *
 * TAP_DEVICE names the device (pgas_verbs_open); without it the first active one of hardware is
 * taken, or of the kernel's soft RoCE as in the machines of t/vm/run --rxe. */
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include "pgas/verbs.h"
#include "t/queue_pairs.h"
#include "t/rxe/sides.h"

/* the lower half of the memory is sent, the upper half receives */
#define HALF        (1u << 19)
#define PATIENCE_US INT64_C(30000000)

static pgas_verbs_dev_t *dev;
static pgas_verbs_info_t info = { .size = sizeof info };
static bool is_rxe; /* which takes two errors of one's own for bad requests, unlike hardware */
static pgas_verbs_cq_t *cq;
static pgas_verbs_mem_t mem, peer; /* ours and the other side's */

static unsigned char *bytes_at(uint32_t offset)
{
    return (unsigned char *)mem.addr + offset;
}

static void must(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK) {
        fprintf(stderr, "side %d: %s: %s\n", side, what, pgas_status_name(status));
        sides_fail_("cannot go on");
    }
}

/* A request with its span. */
typedef struct {
    pgas_verbs_request_t r;
    pgas_verbs_span_t span;
} ask_t;

static void ask(ask_t *a, pgas_verbs_op_t op, uint32_t here, uint32_t n_bytes, uint32_t there,
                uint32_t flags, uint64_t id)
{
    memset(a, 0, sizeof *a);
    a->span = (pgas_verbs_span_t){ .addr = (uintptr_t)bytes_at(here),
                                   .bytes = n_bytes,
                                   .lkey = mem.lkey };
    a->r = (pgas_verbs_request_t){ .op = op,
                                   .flags = flags,
                                   .id = id,
                                   .spans = &a->span,
                                   .n_spans = 1,
                                   .remote_addr = (uintptr_t)peer.addr + there,
                                   .rkey = peer.rkey };
}

static pgas_status_t post(pgas_verbs_qp_t *qp, const ask_t *a)
{
    return pgas_verbs_qp_post(qp, &a->r, 1, NULL);
}

/* The next completion of a queue. */
static bool next_of(pgas_verbs_cq_t *queue, pgas_verbs_completion_t *c)
{
    memset(c, 0, sizeof *c);
    return pgas_verbs_cq_wait(queue, PATIENCE_US) == PGAS_OK &&
           pgas_verbs_cq_poll(queue, c, 1) == 1;
}

/* ... is that of this request, and good. */
static bool done_with(uint64_t id)
{
    pgas_verbs_completion_t c;
    return HOLDS(next_of(cq, &c)) && HOLDS(c.status == PGAS_OK) && HOLDS(c.id == id);
}

/* ... is that of this request, and bad. */
static bool fails_with(uint64_t id, pgas_status_t status)
{
    pgas_verbs_completion_t c;
    bool good = HOLDS(next_of(cq, &c)) && HOLDS(c.id == id) && HOLDS(c.status == status) &&
                HOLDS(c.syndrome != 0);
    if (!good)
        fprintf(stderr, "side %d: id %d status %s syndrome 0x%x\n", side, (int)c.id,
                pgas_status_name(c.status), c.syndrome);
    return good;
}

static pgas_verbs_qp_opts_t defaults(void)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_cq = opts.recv_cq = cq;
    return opts;
}

/* A queue pair that is connected with one of the other side. */
static pgas_verbs_qp_t *join(const pgas_verbs_qp_opts_t *opts)
{
    pgas_verbs_qp_t *qp = NULL;
    pgas_verbs_address_t mine, theirs;
    must(pgas_verbs_qp_create(dev, opts, &qp), "qp_open");
    qp_address(qp, &mine);
    swap(&mine, &theirs, sizeof mine);
    must(pgas_verbs_qp_connect(qp, &theirs), "qp_connect");
    both();
    return qp;
}

/* Both sides are done with it. Completions that were not polled are dropped too. */
static void part(pgas_verbs_qp_t *qp)
{
    pgas_verbs_completion_t c;
    both();
    pgas_verbs_qp_destroy(qp);
    while (pgas_verbs_cq_poll(cq, &c, 1) > 0)
        ;
    both();
}

static unsigned char pattern(int from, uint32_t at, uint32_t salt)
{
    return (unsigned char)(at * 7 + at / 251 + salt * 13 + (uint32_t)from * 101 + 1);
}

static void paint(uint32_t offset, uint32_t n_bytes, uint32_t salt)
{
    for (uint32_t i = 0; i < n_bytes; i++)
        bytes_at(offset)[i] = pattern(side, i, salt);
}

/* @return whether the memory has the pattern of the other side */
static bool is_painted(uint32_t offset, uint32_t n_bytes, uint32_t salt)
{
    for (uint32_t i = 0; i < n_bytes; i++) {
        if (bytes_at(offset)[i] != pattern(1 - side, i, salt)) {
            fprintf(stderr, "side %d: byte %u of %u is wrong\n", side, i, n_bytes);
            return false;
        }
    }
    return true;
}

/* Looks at a word that the other side will write. */
static bool becomes(const volatile uint64_t *word, uint64_t value)
{
    time_t end = time(NULL) + (time_t)(PATIENCE_US / 1000000);
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
        if (time(NULL) > end)
            return false;
        sched_yield();
    }
    return true;
}

/* ---- promises ---- */

static void describes(void)
{
    bool good = HOLDS(info.active) & HOLDS(info.port >= 1) & HOLDS(info.link[0] != '\0');
    if (strcmp(info.provider, "verbs") == 0)
        good &= HOLDS(!info.chains) & HOLDS(info.chains_why[0] != '\0');
    if (is_rxe) /* a card with an IPv4 address */
        good &= HOLDS(strcmp(info.link, "RoCE v2") == 0) & HOLDS(info.gid[10] == 0xff) &
                HOLDS(info.gid_index > 0) & HOLDS(info.n_gids > 1);
    promise(good, "the device reports its kind");
}

static void writes(pgas_verbs_qp_t *qp)
{
    static const uint32_t sizes[] = { 1, 8, 255, 4096, 65537, 300000 };
    bool good = true;
    for (uint32_t i = 0; i < 6; i++) {
        ask_t a;
        paint(0, sizes[i], i);
        ask(&a, PGAS_VERBS_WRITE, 0, sizes[i], HALF, PGAS_VERBS_SIGNAL, 100 + i);
        good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(100 + i);
        both();
        good &= is_painted(HALF, sizes[i], i);
        both();
    }
    promise(good, "writes of 1 to 300000 bytes arrive");
}

static void gathers(pgas_verbs_qp_t *qp)
{
    static const uint32_t sizes[] = { 3, 0, 1000, 64, 1 }; /* 1068 */
    pgas_verbs_span_t spans[5];
    ask_t a;
    uint32_t at = 0;
    paint(0, 1068, 9);
    for (int i = 0; i < 5; i++) {
        spans[i] = (pgas_verbs_span_t){ .addr = (uintptr_t)bytes_at(at),
                                        .bytes = sizes[i],
                                        .lkey = mem.lkey };
        at += sizes[i];
    }
    ask(&a, PGAS_VERBS_WRITE, 0, 0, HALF, PGAS_VERBS_SIGNAL, 1);
    a.r.spans = spans;
    a.r.n_spans = 5;
    bool good = HOLDS(post(qp, &a) == PGAS_OK) && done_with(1);
    both();
    good &= is_painted(HALF, 1068, 9);
    a.r.n_spans = 1000;
    good &= HOLDS(post(qp, &a) == PGAS_ERR_LIMIT);
    promise(good,
            "five spans are gathered, one of them empty; more than were asked for are refused");
}

static void inlines(pgas_verbs_qp_t *qp)
{
    unsigned char buffer[3][60];
    pgas_verbs_span_t spans[3];
    ask_t a;
    uint32_t taken = 0;
    bool good = true;
    /* 60 bytes in one, two and three pieces, none of them registered */
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < 60; k++)
            buffer[i][k] = pattern(side, k, i);
        for (uint32_t k = 0; k <= i; k++)
            spans[k] = (pgas_verbs_span_t){ .addr = (uintptr_t)buffer[i] + 60 / (i + 1) * k,
                                            .bytes = 60 / (i + 1) };
        ask(&a, PGAS_VERBS_WRITE, 0, 0, HALF + i * 64,
            PGAS_VERBS_INLINE | (i == 2 ? PGAS_VERBS_SIGNAL : 0), i);
        a.r.spans = spans;
        a.r.n_spans = i + 1;
        good &= HOLDS(qp_write(qp, &a.r, &taken) == PGAS_OK) & HOLDS(taken == 1);
        memset(buffer[i], 0, 60);
    }
    good &= HOLDS(pgas_verbs_qp_post(qp, NULL, 0, NULL) == PGAS_OK) && done_with(2);
    both();
    for (uint32_t i = 0; i < 3; i++)
        good &= is_painted(HALF + i * 64, 60, i);
    ask(&a, PGAS_VERBS_WRITE, 0, 65536, HALF, PGAS_VERBS_INLINE, 3);
    good &= HOLDS(qp_write(qp, &a.r, &taken) == PGAS_ERR_LIMIT) & HOLDS(taken == 0);
    promise(good, "inlined bytes may be changed before the doorbell; too many are refused");
}

static void reads(pgas_verbs_qp_t *qp)
{
    ask_t a;
    pgas_verbs_completion_t c;
    paint(0, 100000, 3);
    memset(bytes_at(HALF), 0, 100000);
    both();
    ask(&a, PGAS_VERBS_READ, HALF, 100000, 0, PGAS_VERBS_SIGNAL, 5);
    bool good = HOLDS(post(qp, &a) == PGAS_OK) && HOLDS(next_of(cq, &c)) &&
                HOLDS(c.status == PGAS_OK) && HOLDS(c.bytes == 100000) &&
                HOLDS(c.op == PGAS_VERBS_READ) && HOLDS(c.qp == qp) && is_painted(HALF, 100000, 3);
    promise(good, "a read brings the bytes");
}

/* Takes two completions in any order: one of our request, one that came. */
static bool sent_and_got(uint64_t id, pgas_verbs_completion_t *got)
{
    pgas_verbs_completion_t c[2];
    if (!HOLDS(next_of(cq, &c[0])) || !HOLDS(next_of(cq, &c[1])))
        return false;
    int own = c[0].op == PGAS_VERBS_RECV || c[0].op == PGAS_VERBS_RECV_WRITE_IMM;
    *got = c[1 - own];
    return HOLDS(c[own].id == id) && HOLDS(c[own].status == PGAS_OK) &&
           HOLDS(got->status == PGAS_OK);
}

static void immediates(pgas_verbs_qp_t *qp)
{
    pgas_verbs_span_t room = { .addr = (uintptr_t)bytes_at(HALF), .bytes = 4096, .lkey = mem.lkey };
    pgas_verbs_recv_t recv = { .id = 70, .spans = &room, .n_spans = 1 };
    pgas_verbs_completion_t got;
    ask_t a;
    bool good = HOLDS(pgas_verbs_qp_recv(qp, &recv, 1, NULL) == PGAS_OK);
    recv.id = 71;
    good &= HOLDS(pgas_verbs_qp_recv(qp, &recv, 1, NULL) == PGAS_OK);
    paint(0, 500, 4);
    both();
    ask(&a, PGAS_VERBS_WRITE_IMM, 0, 500, HALF + 8192, PGAS_VERBS_SIGNAL, 6);
    a.r.imm = 0xfeed0000u + (uint32_t)side;
    good &= HOLDS(post(qp, &a) == PGAS_OK) && sent_and_got(6, &got) &&
            HOLDS(got.op == PGAS_VERBS_RECV_WRITE_IMM) && HOLDS(got.has_imm) &&
            HOLDS(got.imm == 0xfeed0001u - (uint32_t)side) && HOLDS(got.bytes == 500) &&
            HOLDS(got.id == 70) && HOLDS(got.qp == qp) && is_painted(HALF + 8192, 500, 4);
    both();
    ask(&a, PGAS_VERBS_SEND_IMM, 0, 400, 0, PGAS_VERBS_SIGNAL, 7);
    a.r.imm = 42;
    good &= HOLDS(post(qp, &a) == PGAS_OK) && sent_and_got(7, &got) &&
            HOLDS(got.op == PGAS_VERBS_RECV) && HOLDS(got.imm == 42) && HOLDS(got.bytes == 400) &&
            HOLDS(got.id == 71) && is_painted(HALF, 400, 4);
    promise(good,
            "writes and sends with immediate data say so, in order, with the ids of the buffers");
}

/* A counter at the start of side 0's upper half. */
static void adds(pgas_verbs_qp_t *qp)
{
    volatile uint64_t *here = (volatile uint64_t *)(void *)bytes_at(HALF);
    uint64_t *old = (uint64_t *)(void *)bytes_at(0);
    bool good = true;
    ask_t a;
    here[0] = 1000;
    here[1] = 7;
    both();
    for (uint64_t i = 0; i < 50; i++) {
        ask(&a, PGAS_VERBS_FADD, 0, 8, HALF, PGAS_VERBS_SIGNAL, i);
        a.r.operand = 3;
        good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(i) && HOLDS(*old == 1000 + 3 * i);
    }
    ask(&a, PGAS_VERBS_CSWAP, 0, 8, HALF + 8, PGAS_VERBS_SIGNAL, 60);
    a.r.compare = 8;
    a.r.operand = 99;
    good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(60) && HOLDS(*old == 7);
    both();
    good &= HOLDS(here[0] == 1150) & HOLDS(here[1] == 7); /* not swapped */
    both();
    a.r.compare = 7;
    a.r.id = 61;
    good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(61) && HOLDS(*old == 7);
    both();
    good &= HOLDS(here[1] == 99);
    a.r.remote_addr += 4;
    if (strcmp(info.provider, "verbs") == 0)
        good &= HOLDS(post(qp, &a) == PGAS_ERR_INVALID);
    promise(good, "atomics: sums, old values, a swap only if equal");
}

static void fences(pgas_verbs_qp_t *qp)
{
    ask_t a[2];
    bool good = true;
    for (uint32_t i = 0; i < 20; i++) { /* the bytes read there are sent back, to another address */
        memset(bytes_at(0), 0, 4096);
        paint(4096, 4096, i);
        both();
        ask(&a[0], PGAS_VERBS_READ, 0, 4096, 4096, 0, 1);
        ask(&a[1], PGAS_VERBS_WRITE, 0, 4096, HALF, PGAS_VERBS_SIGNAL | PGAS_VERBS_FENCE, 2);
        const pgas_verbs_request_t two[2] = { a[0].r, a[1].r };
        uint32_t taken = 0;
        good &= HOLDS(pgas_verbs_qp_post(qp, two, 2, &taken) == PGAS_OK) && HOLDS(taken == 2) &&
                done_with(2);
        both();
        for (uint32_t k = 0; k < 4096; k++)
            good &= bytes_at(HALF)[k] == pattern(side, k, i);
        both();
    }
    promise(good, "a fence waits for what reads bring");
}

static void nothing(pgas_verbs_qp_t *qp)
{
    pgas_verbs_request_t r = { .op = PGAS_VERBS_NOP, .flags = PGAS_VERBS_SIGNAL, .id = 88 };
    pgas_verbs_completion_t c;
    bool good = HOLDS(pgas_verbs_qp_post(qp, &r, 1, NULL) == PGAS_OK) && HOLDS(next_of(cq, &c)) &&
                HOLDS(c.id == 88) && HOLDS(c.op == PGAS_VERBS_NOP) && HOLDS(c.status == PGAS_OK);
    promise(good, "a request to do nothing completes");
}

/* One of 16 is signaled, in a queue of 64. */
static void signals(void)
{
    enum { N = 4000, EVERY = 16, DEPTH = 64 };
    pgas_verbs_qp_opts_t opts = defaults();
    opts.send_depth = DEPTH;
    pgas_verbs_qp_t *qp = join(&opts);
    uint64_t posted = 0, completions = 0, told = 0;
    volatile uint64_t *there = (volatile uint64_t *)(void *)bytes_at(HALF);
    pgas_verbs_completion_t c;
    bool good = true;
    *there = 0;
    both();
    while (good && posted < N) {
        uint64_t value = posted + 1;
        pgas_verbs_span_t span = { .addr = (uintptr_t)&value, .bytes = 8 };
        pgas_verbs_request_t r = { .op = PGAS_VERBS_WRITE,
                                   .flags = PGAS_VERBS_INLINE,
                                   .id = value,
                                   .spans = &span,
                                   .n_spans = 1,
                                   .remote_addr = (uintptr_t)peer.addr + HALF,
                                   .rkey = peer.rkey };
        r.flags |= value % EVERY == 0 ? PGAS_VERBS_SIGNAL : 0;
        pgas_status_t status = qp_write(qp, &r, NULL);
        posted += status == PGAS_OK;
        good &= status == PGAS_OK || status == PGAS_ERR_AGAIN;
        if (status == PGAS_ERR_AGAIN || posted % 8 == 0)
            good &= HOLDS(pgas_verbs_qp_post(qp, NULL, 0, NULL) == PGAS_OK);
        if (status == PGAS_ERR_AGAIN) {
            good &= HOLDS(posted - told >= DEPTH) && HOLDS(next_of(cq, &c)) &&
                    HOLDS(c.status == PGAS_OK) && HOLDS(c.id == told + EVERY);
            told = c.id;
            completions++;
        }
    }
    while (good && completions < N / EVERY) {
        good &= HOLDS(next_of(cq, &c)) && HOLDS(c.id == told + EVERY);
        told = c.id;
        completions++;
    }
    both();
    good &= HOLDS(*there == N) & HOLDS(pgas_verbs_cq_poll(cq, &c, 1) == 0);
    promise(good, "one completion covers 16 requests, and frees their room");
    part(qp);
}

static void fills(void)
{
    pgas_verbs_qp_opts_t opts = defaults();
    opts.send_depth = 8;
    pgas_verbs_qp_t *qp = join(&opts);
    volatile uint64_t *there = (volatile uint64_t *)(void *)bytes_at(HALF);
    pgas_verbs_completion_t c;
    uint64_t n = 0;
    *there = 0;
    both();
    pgas_status_t status = PGAS_OK;
    while (status == PGAS_OK && n < 100000) {
        uint64_t value = n + 1;
        pgas_verbs_span_t span = { .addr = (uintptr_t)&value, .bytes = 8 };
        pgas_verbs_request_t r = { .op = PGAS_VERBS_WRITE,
                                   .flags = PGAS_VERBS_INLINE,
                                   .spans = &span,
                                   .n_spans = 1,
                                   .remote_addr = (uintptr_t)peer.addr + HALF,
                                   .rkey = peer.rkey };
        status = pgas_verbs_qp_post(qp, &r, 1, NULL);
        n += status == PGAS_OK;
    }
    bool good = HOLDS(status == PGAS_ERR_AGAIN) & HOLDS(n >= 8) & HOLDS(n < 100000);
    uint64_t theirs;
    swap(&n, &theirs, sizeof n);
    /* all requests are done, but no completion has reported it */
    good &= HOLDS(becomes(there, theirs));
    ask_t a;
    ask(&a, PGAS_VERBS_WRITE, 0, 8, HALF, PGAS_VERBS_SIGNAL, 1);
    good &= HOLDS(post(qp, &a) == PGAS_ERR_AGAIN) & HOLDS(pgas_verbs_cq_poll(cq, &c, 1) == 0);
    promise(good, "a queue in which nothing is signaled gets full, and stays it");
    part(qp);
}

/* Two queue pairs, one receive queue of 16 buffers, 100 messages on each. */
static void shares(void)
{
    enum { ROOMS = 16, N = 100, BYTES = 256 };
    pgas_verbs_srq_t *srq = NULL;
    pgas_verbs_qp_opts_t opts = defaults();
    must(pgas_verbs_srq_create(dev, ROOMS, 2, &srq), "srq_open");
    pgas_verbs_cq_t *arrivals = NULL;
    must(pgas_verbs_cq_create(dev, 256, 0, &arrivals), "cq_open");
    opts.srq = srq;
    opts.recv_cq = arrivals;
    pgas_verbs_qp_t *qps[2] = { join(&opts), join(&opts) };
    uint32_t sent[2] = { 0, 0 }, got[2] = { 0, 0 };
    bool posted[ROOMS] = { false }, good = true;
    uint32_t taken = 0, n_rooms = 0;
    for (uint32_t i = 0; i < ROOMS + 4; i++) { /* each buffer in two pieces */
        pgas_verbs_span_t spans[2] = { { (uintptr_t)bytes_at(HALF + i * BYTES), 100, mem.lkey },
                                       { (uintptr_t)bytes_at(HALF + i * BYTES + 100), BYTES - 100,
                                         mem.lkey } };
        pgas_verbs_recv_t recv = { .id = i, .spans = spans, .n_spans = 2 };
        if (i < ROOMS - 1)
            good &=
                HOLDS(pgas_verbs_srq_recv(srq, &recv, 1, &taken) == PGAS_OK) & HOLDS(taken == 1);
        n_rooms = i < ROOMS - 1 ? i + 1 : n_rooms;
        if (i < ROOMS)
            posted[i] = i < ROOMS - 1;
    }
    both();
    while (good && got[0] + got[1] < 2 * N) {
        for (int q = 0; q < 2; q++) { /* not more under way than there is room for there */
            if (sent[q] < N && sent[0] + sent[1] < got[0] + got[1] + n_rooms / 2) {
                ask_t a;
                paint((uint32_t)q * BYTES, 180, (uint32_t)q);
                ask(&a, PGAS_VERBS_SEND, (uint32_t)q * BYTES, 180, 0,
                    sent[q] % 8 == 7 ? PGAS_VERBS_SIGNAL : 0, 9);
                good &= HOLDS(post(qps[q], &a) == PGAS_OK);
                sent[q]++;
            }
        }
        pgas_verbs_completion_t c;
        while (pgas_verbs_cq_poll(cq, &c, 1) == 1)
            good &= HOLDS(c.status == PGAS_OK);
        good &= HOLDS(next_of(arrivals, &c)) && HOLDS(c.status == PGAS_OK) &&
                HOLDS(c.op == PGAS_VERBS_RECV) && HOLDS(c.id < ROOMS) && HOLDS(posted[c.id]) &&
                HOLDS(c.qp == qps[0] || c.qp == qps[1]) && HOLDS(c.bytes == 180);
        if (!good)
            break;
        int q = c.qp == qps[1];
        got[q]++;
        uint32_t room = HALF + (uint32_t)c.id * BYTES;
        good &= is_painted(room, 180, (uint32_t)q);
        pgas_verbs_span_t whole = { (uintptr_t)bytes_at(room), BYTES, mem.lkey };
        pgas_verbs_recv_t again = { .id = c.id, .spans = &whole, .n_spans = 1 };
        good &= HOLDS(pgas_verbs_srq_recv(srq, &again, 1, NULL) == PGAS_OK);
    }
    good &= HOLDS(got[0] == N) & HOLDS(got[1] == N) &
            HOLDS(pgas_verbs_srq_destroy(srq) == PGAS_ERR_BUSY);
    promise(good, "two queue pairs receive from one queue, whose buffers come back by id");
    part(qps[0]);
    part(qps[1]);
    must(pgas_verbs_srq_destroy(srq), "srq_close");
    must(pgas_verbs_cq_destroy(arrivals), "cq_close");
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd wanted = { .fd = fd, .events = POLLIN };
    return poll(&wanted, 1, timeout_ms) == 1;
}

static void sleeps(void)
{
    pgas_verbs_cq_t *arrivals = NULL;
    pgas_verbs_qp_opts_t opts = defaults();
    must(pgas_verbs_cq_create(dev, 64, PGAS_VERBS_CQ_EVENTS, &arrivals), "cq_open");
    opts.recv_cq = arrivals;
    pgas_verbs_qp_t *qp = join(&opts);
    pgas_verbs_span_t room = { .addr = (uintptr_t)bytes_at(HALF), .bytes = 64, .lkey = mem.lkey };
    pgas_verbs_recv_t recv = { .id = 1, .spans = &room, .n_spans = 1 };
    pgas_verbs_completion_t c;
    int fd = -1;
    ask_t a;
    bool good = HOLDS(pgas_verbs_cq_fd(arrivals, &fd) == PGAS_OK) &
                HOLDS(pgas_verbs_cq_fd(cq, &fd) == PGAS_ERR_UNSUPPORTED);
    pgas_verbs_cq_fd(arrivals, &fd);
    for (int i = 0; i < 4; i++)
        good &= HOLDS(pgas_verbs_qp_recv(qp, &recv, 1, NULL) == PGAS_OK);
    good &= HOLDS(pgas_verbs_cq_arm(arrivals, true) == PGAS_OK) & HOLDS(!readable(fd, 0));
    both();
    ask(&a, PGAS_VERBS_SEND, 0, 8, 0, PGAS_VERBS_SIGNAL, 1);
    good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(1);
    both();
    good &= HOLDS(!readable(fd, 0)); /* not solicited, so no thread is woken */
    both();
    a.r.flags |= PGAS_VERBS_SOLICITED;
    good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(1);
    good &= HOLDS(readable(fd, (int)(PATIENCE_US / 1000)));
    good &=
        HOLDS(pgas_verbs_cq_arm(arrivals, false) == PGAS_ERR_BUSY) & HOLDS(next_of(arrivals, &c));
    good &= HOLDS(next_of(arrivals, &c));
    both();
    while (pgas_verbs_cq_arm(arrivals, false) == PGAS_ERR_BUSY)
        good &= HOLDS(pgas_verbs_cq_poll(arrivals, &c, 1) == 0);
    good &= HOLDS(!readable(fd, 0));
    both();
    a.r.flags = PGAS_VERBS_SIGNAL;
    good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(1) &&
            HOLDS(readable(fd, (int)(PATIENCE_US / 1000))) && HOLDS(next_of(arrivals, &c)) &&
            HOLDS(c.status == PGAS_OK);
    promise(good, "a descriptor wakes for what comes, or only for what is solicited");
    part(qp);
    must(pgas_verbs_cq_destroy(arrivals), "cq_close");
}

/* Side 0 makes a request without the right to it. All later requests are flushed. */
static void is_refused(const char *text, pgas_verbs_op_t op, uint32_t change_rkey,
                       uint64_t change_addr, uint32_t change_lkey, const pgas_verbs_mem_t *target)
{
    pgas_status_t reason = change_lkey != 0 && is_rxe ? PGAS_ERR_INVALID : PGAS_ERR_RANGE;
    pgas_verbs_qp_opts_t opts = defaults();
    pgas_verbs_qp_t *qp = join(&opts);
    uint32_t taken = 0;
    bool good = true;
    if (side == 0) {
        ask_t a[3];
        for (uint64_t i = 0; i < 3; i++)
            ask(&a[i], op, 0, 64, HALF, i == 1 ? 0 : PGAS_VERBS_SIGNAL, 10 + i);
        a[1].r.remote_addr = (uintptr_t)target->addr + change_addr;
        a[1].r.rkey = target->rkey + change_rkey;
        a[1].span.lkey += change_lkey;
        /* first: rxe loses it together with later ones */
        good &= HOLDS(post(qp, &a[0]) == PGAS_OK) && done_with(10);
        const pgas_verbs_request_t two[2] = { a[1].r, a[2].r };
        good &= HOLDS(pgas_verbs_qp_post(qp, two, 2, &taken) == PGAS_OK) && HOLDS(taken == 2) &&
                fails_with(11, reason) && fails_with(12, PGAS_ERR_PEER) &&
                HOLDS(post(qp, &a[0]) == PGAS_ERR_PEER);
    }
    promise(good, text);
    part(qp);
}

static void guards(void)
{
    pgas_verbs_mem_t closed, theirs;
    must(pgas_verbs_mem_register(dev, NULL, 4096, PGAS_VERBS_LOCAL_WRITE | PGAS_VERBS_REMOTE_READ,
                                 &closed),
         "mem_alloc");
    swap(&closed, &theirs, sizeof theirs);
    is_refused("a wrong key is told from the rest, and ends the connection", PGAS_VERBS_WRITE,
               0x100, HALF, 0, &peer);
    is_refused("so is a read beyond the memory", PGAS_VERBS_READ, 0, 2 * HALF - 32, 0, &peer);
    is_refused("and a write to read-only memory", PGAS_VERBS_WRITE, 0, 0, 0, &theirs);
    is_refused("and a wrong key of one's own", PGAS_VERBS_WRITE, 0, HALF, 0x100, &peer);
    pgas_verbs_mem_release(dev, &closed);
}

static void starves(void)
{
    pgas_verbs_qp_opts_t opts = defaults();
    opts.rnr_retry = 1;
    pgas_verbs_qp_t *qp = join(&opts);
    bool good = true;
    if (side == 0) {
        ask_t a;
        ask(&a, PGAS_VERBS_SEND, 0, 8, 0, PGAS_VERBS_SIGNAL, 3);
        good = HOLDS(post(qp, &a) == PGAS_OK) && fails_with(3, PGAS_ERR_AGAIN);
    }
    promise(good, "no buffer there, to the last try");
    part(qp);
}

static void overruns_a_buffer(void)
{
    pgas_verbs_qp_opts_t opts = defaults();
    pgas_verbs_qp_t *qp = join(&opts);
    pgas_verbs_span_t room = { .addr = (uintptr_t)bytes_at(HALF), .bytes = 8, .lkey = mem.lkey };
    pgas_verbs_recv_t recv = { .id = 5, .spans = &room, .n_spans = 1 };
    bool good = true;
    if (side == 1)
        good = HOLDS(pgas_verbs_qp_recv(qp, &recv, 1, NULL) == PGAS_OK);
    memset(bytes_at(HALF), 0, 64);
    paint(0, 64, 1);
    both();
    if (side == 0) {
        ask_t a;
        ask(&a, PGAS_VERBS_SEND, 0, 64, 0, PGAS_VERBS_SIGNAL, 4);
        good = HOLDS(post(qp, &a) == PGAS_OK) &&
               fails_with(4, is_rxe ? PGAS_ERR_TRANSPORT : PGAS_ERR_INVALID);
    } else {
        good &= fails_with(5, is_rxe ? PGAS_ERR_INVALID : PGAS_ERR_LIMIT) &
                HOLDS(bytes_at(HALF)[8] == 0);
    }
    promise(good, "a message longer than its buffer fails on both sides, and spoils nothing");
    part(qp);
}

static void loses_its_peer(void)
{
    pgas_verbs_qp_opts_t opts = defaults();
    opts.retry = 1;
    pgas_verbs_qp_t *qp = join(&opts);
    bool good = true;
    if (side == 1)
        pgas_verbs_qp_destroy(qp);
    both();
    if (side == 0) {
        ask_t a;
        ask(&a, PGAS_VERBS_WRITE, 0, 8, HALF, PGAS_VERBS_SIGNAL, 3);
        good = HOLDS(post(qp, &a) == PGAS_OK) && fails_with(3, PGAS_ERR_PEER) &&
               HOLDS(post(qp, &a) == PGAS_ERR_PEER);
        pgas_verbs_qp_destroy(qp);
    }
    promise(good, "a peer that is gone is noticed");
    both();
}

static void is_its_own_peer(void)
{
    pgas_verbs_qp_opts_t opts = defaults();
    pgas_verbs_qp_t *qp = NULL;
    pgas_verbs_address_t address;
    ask_t a;
    must(pgas_verbs_qp_create(dev, &opts, &qp), "qp_open");
    ask(&a, PGAS_VERBS_WRITE, 0, 1000, 0, PGAS_VERBS_SIGNAL, 2);
    a.r.remote_addr = (uintptr_t)bytes_at(HALF);
    a.r.rkey = mem.rkey;
    bool good = HOLDS(post(qp, &a) == PGAS_ERR_NOT_INIT);
    memset(&address, 7, sizeof address);
    good &= HOLDS(pgas_verbs_qp_connect(qp, &address) == PGAS_ERR_FORMAT);
    qp_address(qp, &address);
    good &= HOLDS(pgas_verbs_qp_connect(qp, &address) == PGAS_OK);
    good &= HOLDS(pgas_verbs_qp_connect(qp, &address) == PGAS_ERR_EXISTS);
    paint(0, 1000, 5);
    memset(bytes_at(HALF), 0, 1000);
    good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(2) &&
            HOLDS(memcmp(bytes_at(0), bytes_at(HALF), 1000) == 0);
    promise(good, "a queue pair that is connected with itself");
    part(qp);
}

/* Completions of a queue pair that was closed do not come as those of another. */
static void forgets(void)
{
    bool good = true;
    for (int round = 0; round < 3; round++) {
        pgas_verbs_qp_opts_t opts = defaults();
        pgas_verbs_qp_t *qp = join(&opts);
        volatile uint64_t *there = (volatile uint64_t *)(void *)bytes_at(HALF);
        pgas_verbs_completion_t c;
        ask_t a;
        *there = 0;
        *(uint64_t *)(void *)bytes_at(0) = 77;
        both();
        ask(&a, PGAS_VERBS_WRITE, 0, 8, HALF, PGAS_VERBS_SIGNAL, 50);
        good &= HOLDS(post(qp, &a) == PGAS_OK) & HOLDS(becomes(there, 77));
        both();
        pgas_verbs_qp_destroy(qp);
        while (pgas_verbs_cq_poll(cq, &c, 1) == 1)
            good &= HOLDS(!c.qp);
        qp = join(&opts);
        ask(&a, PGAS_VERBS_WRITE, 0, 8, HALF, PGAS_VERBS_SIGNAL, 51);
        good &= HOLDS(post(qp, &a) == PGAS_OK) && done_with(51);
        part(qp);
    }
    promise(good, "completions that were not polled end with their queue pair");
}

/* No thread polls a small queue. */
static void overruns_a_queue(void)
{
    pgas_verbs_cq_t *small = NULL;
    pgas_verbs_qp_opts_t opts = defaults();
    must(pgas_verbs_cq_create(dev, 8, 0, &small), "cq_open");
    opts.send_cq = small;
    opts.send_depth = 200;
    pgas_verbs_qp_t *qp = join(&opts);
    pgas_verbs_completion_t c;
    ask_t a;
    int n = 0;
    bool good = true;
    for (uint64_t i = 0; i < 200; i++) {
        ask(&a, PGAS_VERBS_WRITE, 0, 8, HALF, PGAS_VERBS_SIGNAL, i);
        pgas_status_t status = post(qp, &a);
        good &= HOLDS(status == PGAS_OK || status == PGAS_ERR_AGAIN);
    }
    /* as many ways there and back as the requests have, which do not wait for each other */
    for (int i = 0; i < 200; i++)
        both();
    pgas_status_t status = PGAS_OK;
    while (n < 200 && (status = pgas_verbs_cq_wait(small, PATIENCE_US)) == PGAS_OK)
        n += pgas_verbs_cq_poll(small, &c, 1) == 1;
    good &= HOLDS(status == PGAS_ERR_TRANSPORT) & HOLDS(n < 200);
    good &= HOLDS(pgas_verbs_cq_poll(small, &c, 1) == -1);
    promise(good, "a completion queue that overruns is dead, and says so");
    part(qp);
    must(pgas_verbs_cq_destroy(small), "cq_close");
}

static void has_limits(pgas_verbs_qp_t *qp)
{
    pgas_verbs_request_t wait = { .op = PGAS_VERBS_WAIT, .cq = cq };
    pgas_verbs_qp_opts_t opts = defaults();
    pgas_verbs_qp_t *none = NULL;
    ask_t a;
    bool good = true;
    if (!info.chains) {
        opts.flags = PGAS_VERBS_QP_MASTER;
        good &= HOLDS(pgas_verbs_qp_create(dev, &opts, &none) == PGAS_ERR_UNSUPPORTED);
        opts.flags = PGAS_VERBS_QP_REMOTE_SLOTS;
        good &= HOLDS(pgas_verbs_qp_create(dev, &opts, &none) == PGAS_ERR_UNSUPPORTED);
        good &= HOLDS(pgas_verbs_qp_post(qp, &wait, 1, NULL) == PGAS_ERR_UNSUPPORTED);
    }
    ask(&a, PGAS_VERBS_WRITE, 0, 0, 0, PGAS_VERBS_SIGNAL, 1);
    pgas_verbs_span_t huge[2] = { { (uintptr_t)mem.addr, 1u << 31, mem.lkey },
                                  { (uintptr_t)mem.addr, 1u << 31, mem.lkey } };
    a.r.spans = huge;
    a.r.n_spans = 2;
    good &= HOLDS(post(qp, &a) == PGAS_ERR_LIMIT) &
            HOLDS(pgas_verbs_cq_destroy(cq) == PGAS_ERR_BUSY) &
            HOLDS(pgas_verbs_close(dev) == PGAS_ERR_BUSY) & HOLDS(!none);
    promise(good, "impossible operations are refused, and objects in use are not closed");
}

int main(void)
{
    const char *device = find_device();
    if (!device)
        skip_all("no RDMA device here; make check-rxe has one");
    sides_begin();
    if (side == 0)
        plan(26);
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    opts.device = device;
    must(pgas_verbs_open(&opts, &dev), "open");
    pgas_verbs_info(dev, &info);
    is_rxe = strncmp(info.name, "rxe", 3) == 0;
    must(pgas_verbs_mem_register(dev, NULL, 2 * HALF, PGAS_VERBS_ACCESS_ALL, &mem), "mem_alloc");
    must(pgas_verbs_cq_create(dev, 1024, 0, &cq), "cq_open");
    swap(&mem, &peer, sizeof mem);

    describes();
    pgas_verbs_qp_opts_t qp_opts = defaults();
    pgas_verbs_qp_t *qp = join(&qp_opts);
    writes(qp);
    gathers(qp);
    inlines(qp);
    reads(qp);
    immediates(qp);
    adds(qp);
    fences(qp);
    nothing(qp);
    has_limits(qp);
    part(qp);
    signals();
    fills();
    shares();
    sleeps();
    guards();
    starves();
    overruns_a_buffer();
    loses_its_peer();
    is_its_own_peer();
    forgets();
    overruns_a_queue();
    pgas_verbs_completion_t c;
    promise(HOLDS(pgas_verbs_cq_poll(cq, &c, 1) == 0), "nothing is left over");
    bool good = HOLDS(pgas_verbs_cq_destroy(cq) == PGAS_OK);
    pgas_verbs_mem_release(dev, &mem);
    good &= HOLDS(pgas_verbs_close(dev) == PGAS_OK);
    promise(good, "all is closed");
    return sides_end();
}
