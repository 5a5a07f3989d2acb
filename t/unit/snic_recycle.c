/* t/unit/snic_recycle.c
 *   what:   A chain of three replicas whose queues are posted once and never again: receive
 *           entries, the entries that execute and forward, and the master that enables them, and
 *           itself. The next indices of the master come in messages, or a queue of the replica
 *           counts them by atomics. Thousands of mixed operations are right on all replicas under
 *           every adversary, while no replica's CPU does anything. Chains with errors stop, or are
 *           wrong. With --bench: what an operation costs, also with queues that a CPU fills again.
 *   source: docs/chains.md, Chains without refill; seeded test against plain arrays */
#include <time.h>
#include "group/program.h"
#include "t/queue_pairs.h"
#include "t/unit/snic.h"
#include "verbs_backend/wqe.h"

#define N           3u    /* replicas */
#define REGION      2048u /* bytes */
#define DATA        128u  /* bytes of an operation at most */
#define STRIDE      640u  /* of a staging slot, and of a message */
#define STEPS       4u    /* entries of the master for one piece that are posted again */
#define BLOCK       8u    /* the same if they are posted once */
#define WORDS       6u    /* indices in them that messages bring */
#define CLOCK       16u   /* slots of the clock for one piece */
#define WORDS_BYTES (WORDS * 4u)
#define INDEX_AT    24u /* in an entry */
#define BATCH       48u /* operations between two comparisons */
#define SLOTS_MAX   64u
#define MANAGED \
    (PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_REMOTE_SLOTS | PGAS_VERBS_QP_IGNORE_OVERRUN)

typedef enum {
    REFILLED,   /* the CPU posts entries again */
    BY_MESSAGE, /* none does: messages bring indices */
    BY_ATOMICS  /* none does: the clock queue counts indices */
} how_t;

typedef enum {
    RIGHT,
    NO_INDICES,   /* indices that arrive are not stored */
    NO_FENCE,     /* indices are read while they are being counted */
    MASTER_EARLY, /* the master enables itself before the indices are there */
    LOOP_EARLY    /* the master enables the entry for the next message, too */
} fault_t;

typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_mem_t mem;
    unsigned char *bytes;
} machine_t;

typedef struct {
    pgas_verbs_qp_t *qp;
    pgas_verbs_mem_t mem;
    uint32_t n, first;
} ring_t;

typedef struct {
    machine_t m; /* the region, then staging slots, then a place for unused bytes */
    pgas_verbs_cq_t *recv_cq, *loop_cq, *next_cq, *master_cq, *clock_cq;
    pgas_verbs_qp_t *prev, *starter;
    ring_t loop, next, master, clock;
    pgasi_group_member_t member;
    uint32_t indices[BLOCK]; /* of block 0 of the master */
    uint32_t armed;          /* refilled: pieces that can be taken */
    unsigned char expected[REGION];
} replica_t;

typedef struct {
    pgasi_group_piece_t piece;
    unsigned char data[DATA];
} operation_t;

typedef struct {
    machine_t m; /* messages, then acknowledgements */
    pgas_verbs_cq_t *send_cq, *ack_cq;
    pgas_verbs_qp_t *out, *ack;
    replica_t r[N];
    how_t how;
    fault_t fault;
    uint32_t slots; /* the window */
    operation_t under_way[SLOTS_MAX];
    uint32_t n_sent, n_acked;
    int n_wrong;
    bool failed;
    pgasi_rng_t rng;
} group_t;

/* ---- places ---- */

static bool posts_once(const group_t *g)
{
    return g->how != REFILLED;
}

static unsigned char *entry_at(const ring_t *ring, uint32_t k)
{
    return (unsigned char *)ring->mem.addr +
           (size_t)((ring->first + k) & (ring->n - 1)) * PGASI_WQE_BB;
}

static unsigned char *slot_at(const group_t *g, const replica_t *r, uint32_t k)
{
    return r->m.bytes + REGION + (size_t)(k % g->slots) * STRIDE;
}

/* The clock's counters, and a place for unused bytes. */
enum { PIECES, BUFFERS, CLOCKS, BLOCKS, N_COUNTERS, OLD = N_COUNTERS, THROWN, N_WORDS };

static uint64_t *words_of(const replica_t *r)
{
    return (uint64_t *)(void *)(r->m.bytes + REGION + SLOTS_MAX * STRIDE);
}

/* The indices of a message are in front of the program of each replica. */
static uint32_t words_bytes(const group_t *g)
{
    return g->how == BY_MESSAGE ? WORDS_BYTES : 0;
}

static uint32_t message_bytes(const group_t *g, uint32_t i, uint32_t data_bytes)
{
    return pgasi_group_message_bytes(true, N, i, data_bytes) + (N - i) * words_bytes(g);
}

/* ---- making queues ---- */

static void open_machine(machine_t *m, pgas_verbs_engine_t engine, uint32_t adversary,
                         uint64_t seed)
{
    m->dev = snic_device(engine, adversary, seed);
    must(pgas_verbs_mem_register(m->dev, NULL, REGION + 2 * SLOTS_MAX * STRIDE,
                                 PGAS_VERBS_ACCESS_ALL, &m->mem),
         "memory");
    m->bytes = m->mem.addr;
}

static pgas_verbs_cq_t *open_cq(const machine_t *m, uint32_t flags)
{
    pgas_verbs_cq_t *cq = NULL;
    must(pgas_verbs_cq_create(m->dev, 4 * SLOTS_MAX, flags, &cq), "a completion queue");
    return cq;
}

static pgas_verbs_qp_t *open_qp(const machine_t *m, pgas_verbs_cq_t *send_cq,
                                pgas_verbs_cq_t *recv_cq, uint32_t send_depth, uint32_t recv_depth,
                                uint32_t send_spans, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.send_depth = send_depth;
    opts.recv_depth = recv_depth;
    opts.send_spans = send_spans;
    opts.recv_spans = 3 + WORDS;
    opts.inline_max = 8; /* so that each entry is one slot */
    opts.flags = flags;
    return snic_qp(m->dev, opts, NULL);
}

/* @param n  slots that the ring must have */
static void find_ring(ring_t *ring, pgas_verbs_qp_t *qp, uint32_t n)
{
    uint32_t slot_bytes;
    ring->qp = qp;
    must(qp_slots(qp, &ring->mem, &slot_bytes), "the slots");
    ring->n = (uint32_t)(ring->mem.bytes / slot_bytes);
    ring->first = pgas_verbs_qp_position(qp);
    if (ring->n != n)
        bail("a ring has %u slots instead of %u", ring->n, n);
}

static void fill_ring(const ring_t *ring, const pgas_verbs_request_t *request)
{
    for (uint32_t i = 0; i < ring->n; i++)
        snic_post(ring->qp, request);
}

/* Entry k scatters the message of piece k. */
static void post_receive(const group_t *g, replica_t *r, uint32_t k)
{
    pgas_verbs_span_t spans[3 + WORDS];
    pgas_verbs_recv_t recv = { k, spans, 0 };
    for (uint32_t w = 0; w < words_bytes(g) / 4; w++) {
        unsigned char *place = entry_at(&r->master, (k + g->slots) * BLOCK + w) + INDEX_AT;
        pgas_verbs_span_t stored = { (uintptr_t)place, 4, r->master.mem.lkey },
                          thrown = { (uintptr_t)&words_of(r)[THROWN], 4, r->m.mem.lkey };
        spans[recv.n_spans++] = g->fault == NO_INDICES ? thrown : stored;
    }
    spans[recv.n_spans++] =
        (pgas_verbs_span_t){ (uintptr_t)entry_at(&r->loop, k), PGASI_WQE_BB, r->loop.mem.lkey };
    spans[recv.n_spans++] =
        (pgas_verbs_span_t){ (uintptr_t)entry_at(&r->next, k) + PGASI_WQE_SEGMENT,
                             PGASI_WQE_SEGMENT, r->next.mem.lkey };
    spans[recv.n_spans++] =
        (pgas_verbs_span_t){ (uintptr_t)slot_at(g, r, k), STRIDE, r->m.mem.lkey };
    must(pgas_verbs_qp_recv(r->prev, &recv, 1, NULL), "a receive entry");
}

static pgas_verbs_request_t wait_for(pgas_verbs_cq_t *cq, uint32_t k)
{
    return (pgas_verbs_request_t){ .op = PGAS_VERBS_WAIT, .cq = cq, .index = k & 0xffffff };
}

static pgas_verbs_request_t enable(pgas_verbs_op_t op, pgas_verbs_qp_t *qp, uint32_t position)
{
    return (pgas_verbs_request_t){ .op = op, .qp = qp, .index = position };
}

/* Entries that are posted again for each piece. */
static void post_steps(replica_t *r, uint32_t k)
{
    pgas_verbs_request_t steps[STEPS] = {
        wait_for(r->recv_cq, k),
        enable(PGAS_VERBS_SEND_ENABLE, r->loop.qp, r->loop.first + k + 1),
        wait_for(r->loop_cq, k),
        enable(PGAS_VERBS_SEND_ENABLE, r->next.qp, r->next.first + k + 1),
    };
    steps[STEPS - 1].flags = PGAS_VERBS_SIGNAL | PGAS_VERBS_MORE;
    must(pgas_verbs_qp_post(r->master.qp, steps, STEPS, NULL), "entries of the master");
}

/* Entries that are posted once. Before block k ends, it enables block k + slots. The indices of
 * that block came with message k; or the clock has counted them meanwhile. Block k - slots, which
 * was in the same place, has ended: message k was sent after the acknowledgement of piece k -
 * slots. */
static void post_block(const group_t *g, replica_t *r, uint32_t k)
{
    uint32_t ahead = g->slots + (g->fault == MASTER_EARLY ? g->slots : 1),
             next = k + 1 + (g->fault == LOOP_EARLY);
    pgas_verbs_request_t itself = enable(PGAS_VERBS_SEND_ENABLE, r->master.qp,
                                         r->master.first + (k + ahead) * BLOCK),
                         nop = { .op = PGAS_VERBS_NOP };
    bool ticks = g->how == BY_ATOMICS;
    pgas_verbs_request_t steps[BLOCK] = {
        wait_for(r->recv_cq, k),
        enable(PGAS_VERBS_SEND_ENABLE, r->loop.qp, r->loop.first + next),
        enable(PGAS_VERBS_RECV_ENABLE, r->prev, k + g->slots + 1),
        ticks ? enable(PGAS_VERBS_SEND_ENABLE, r->clock.qp, r->clock.first + (k + 1) * CLOCK)
              : itself,
        wait_for(r->loop_cq, k),
        enable(PGAS_VERBS_SEND_ENABLE, r->next.qp, r->next.first + k + 1),
        ticks ? wait_for(r->clock_cq, k) : nop,
        ticks ? itself : nop,
    };
    must(pgas_verbs_qp_post(r->master.qp, steps, BLOCK, NULL), "entries of the master");
}

static void post_count(replica_t *r, uint32_t counter, uint64_t summand)
{
    pgas_verbs_span_t old = { (uintptr_t)&words_of(r)[counter == PIECES ? OLD : THROWN], 8,
                              r->m.mem.lkey };
    snic_post(r->clock.qp, &(pgas_verbs_request_t){ .op = PGAS_VERBS_FADD,
                                                    .spans = &old,
                                                    .n_spans = 1,
                                                    .remote_addr = (uintptr_t)&words_of(r)[counter],
                                                    .rkey = r->m.mem.rkey,
                                                    .operand = summand });
}

/* Copies a word to the index of an entry. Counters have the host's byte order, the lowest byte
 * first; indices have the other one. So each byte is a span. */
static void post_copy(replica_t *r, uint32_t word, uint32_t entry, uint32_t flags)
{
    pgas_verbs_span_t spans[3];
    uint32_t n = word == OLD ? 3 : 2;
    for (uint32_t i = 0; i < n; i++)
        spans[i] =
            (pgas_verbs_span_t){ (uintptr_t)&words_of(r)[word] + n - 1 - i, 1, r->m.mem.lkey };
    snic_post(r->clock.qp,
              &(pgas_verbs_request_t){ .op = PGAS_VERBS_WRITE,
                                       .flags = flags,
                                       .spans = spans,
                                       .n_spans = n,
                                       .remote_addr = (uintptr_t)entry_at(&r->master, entry) +
                                                      INDEX_AT + 4 - n,
                                       .rkey = r->master.mem.rkey });
}

/* Group k of the clock counts, then writes all indices of block k + slots of the master. 15 slots
 * and a NOP: WAITs have 24 bits and three spans, ENABLEs 16 bits and two. */
static void post_clock(const group_t *g, replica_t *r, uint32_t k)
{
    uint32_t block = (k + g->slots) * BLOCK;
    post_count(r, PIECES, 1);
    post_count(r, BUFFERS, 1);
    post_count(r, CLOCKS, CLOCK);
    post_count(r, BLOCKS, BLOCK);
    snic_post(r->clock.qp, &(pgas_verbs_request_t){ .op = PGAS_VERBS_NOP });
    post_copy(r, OLD, block, g->fault == NO_FENCE ? 0 : PGAS_VERBS_FENCE);
    post_copy(r, PIECES, block + 1, 0);
    post_copy(r, BUFFERS, block + 2, 0);
    post_copy(r, CLOCKS, block + 3, 0);
    post_copy(r, OLD, block + 4, 0);
    post_copy(r, PIECES, block + 5, 0);
    post_copy(r, OLD, block + 6, 0);
    post_copy(r, BLOCKS, block + 7, PGAS_VERBS_SIGNAL);
}

static uint32_t index_of(const unsigned char *entry)
{
    uint32_t word;
    memcpy(&word, entry + INDEX_AT, sizeof word);
    return be32toh(word);
}

/* The counters before group 0 of the clock. */
static void set_clock(const group_t *g, replica_t *r)
{
    uint64_t *words = words_of(r);
    const uint32_t *at = r->indices;
    if (at[0] != at[4] || at[0] != at[6] || (uint16_t)(at[0] + 1) != at[1] || at[1] != at[5])
        bail("queues begin with different indices");
    words[PIECES] = at[0] + g->slots;
    words[BUFFERS] = at[2] + g->slots - 1;
    words[CLOCKS] = at[3] + (g->slots - 1) * CLOCK;
    words[BLOCKS] = at[7] + (g->slots - 1) * BLOCK;
}

/* The entries that are posted once, and the first ENABLEs. */
static void begin_once(const group_t *g, replica_t *r)
{
    for (uint32_t k = 0; k < 2 * g->slots; k++) {
        post_receive(g, r, k);
        post_block(g, r, k);
        if (g->how == BY_ATOMICS)
            post_clock(g, r, k);
    }
    for (uint32_t i = 0; i < BLOCK; i++)
        r->indices[i] = index_of(entry_at(&r->master, i));
    if (g->how == BY_ATOMICS)
        set_clock(g, r);
    pgas_verbs_request_t go[2] = { enable(PGAS_VERBS_RECV_ENABLE, r->prev, g->slots),
                                   enable(PGAS_VERBS_SEND_ENABLE, r->master.qp,
                                          r->master.first + g->slots * BLOCK) };
    must(pgas_verbs_qp_post(r->starter, go, 2, NULL), "the first ENABLEs");
}

/* The CPU's part with queues that are posted again. */
static void refill(group_t *g, replica_t *r, uint32_t n_free)
{
    pgas_verbs_completion_t got[16];
    int n;
    pgas_verbs_cq_t *cqs[] = { r->recv_cq, r->loop_cq, r->master_cq };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cqs); i++)
        while ((n = pgas_verbs_cq_poll(cqs[i], got, 16)) != 0) {
            for (int k = 0; k < n; k++)
                g->failed |= got[k].status != PGAS_OK;
            g->failed |= n < 0;
            if (g->failed)
                return;
        }
    for (; r->armed < n_free; r->armed++) {
        post_receive(g, r, r->armed);
        post_steps(r, r->armed);
    }
    must(pgas_verbs_qp_post(r->master.qp, NULL, 0, NULL), "a doorbell");
}

static void open_replica(group_t *g, replica_t *r)
{
    uint32_t unseen = posts_once(g) ? PGAS_VERBS_CQ_IGNORE_OVERRUN : 0, n = g->slots;
    r->recv_cq = open_cq(&r->m, unseen);
    r->loop_cq = open_cq(&r->m, unseen);
    r->next_cq = open_cq(&r->m, PGAS_VERBS_CQ_IGNORE_OVERRUN);
    r->master_cq = open_cq(&r->m, unseen);
    r->clock_cq = open_cq(&r->m, unseen);
    if (posts_once(g))
        r->prev = open_qp(&r->m, r->recv_cq, r->recv_cq, 1, 2 * n, 1,
                          PGAS_VERBS_QP_MANAGED_RECV | PGAS_VERBS_QP_IGNORE_OVERRUN);
    else
        r->prev = open_qp(&r->m, r->recv_cq, r->recv_cq, 1, n, 1, 0);
    find_ring(&r->loop, open_qp(&r->m, r->loop_cq, r->loop_cq, n, 1, 1, MANAGED), n);
    find_ring(&r->next, open_qp(&r->m, r->next_cq, r->next_cq, n, 1, 1, MANAGED), n);
    find_ring(&r->clock, open_qp(&r->m, r->clock_cq, r->clock_cq, n * CLOCK, 1, 3, MANAGED),
              2 * n * CLOCK); /* entries of three spans take two slots */
    uint32_t depth = posts_once(g) ? 2 * n * BLOCK : n * STEPS,
             flags = posts_once(g) ? MANAGED : PGAS_VERBS_QP_REMOTE_SLOTS;
    find_ring(&r->master,
              open_qp(&r->m, r->master_cq, r->master_cq, depth, 1, 1,
                      PGAS_VERBS_QP_MASTER | PGAS_VERBS_QP_IGNORE_OVERRUN | flags),
              depth);
    r->starter = open_qp(&r->m, r->master_cq, r->master_cq, 2, 1, 1, PGAS_VERBS_QP_MASTER);
    snic_connect(r->clock.qp, r->clock.qp);
    snic_connect(r->loop.qp, r->loop.qp);
    snic_connect(r->master.qp, r->master.qp);
    snic_connect(r->starter, r->starter);
}

static uint32_t number_of(const ring_t *ring)
{
    uint32_t word;
    memcpy(&word, entry_at(ring, 0) + 4, sizeof word);
    return be32toh(word) >> 8;
}

static void begin_replica(group_t *g, replica_t *r)
{
    pgas_verbs_span_t span = { (uintptr_t)r->m.bytes, 8, r->m.mem.lkey };
    fill_ring(&r->loop,
              &(pgas_verbs_request_t){ .op = PGAS_VERBS_NOP, .flags = PGAS_VERBS_SIGNAL });
    fill_ring(&r->next,
              &(pgas_verbs_request_t){ .op = PGAS_VERBS_SEND, .spans = &span, .n_spans = 1 });
    if (posts_once(g))
        begin_once(g, r);
    else
        refill(g, r, g->slots);
    r->member = (pgasi_group_member_t){ .region = (uintptr_t)r->m.bytes,
                                        .region_bytes = REGION,
                                        .staging = (uintptr_t)slot_at(g, r, 0),
                                        .staging_stride = STRIDE,
                                        .region_lkey = r->m.mem.lkey,
                                        .region_rkey = r->m.mem.rkey,
                                        .staging_lkey = r->m.mem.lkey,
                                        .loop_qpn = number_of(&r->loop),
                                        .loop_first = r->loop.first,
                                        .slots = g->slots };
}

static void connect_both(pgas_verbs_qp_t *a, pgas_verbs_qp_t *b)
{
    snic_connect(a, b);
    snic_connect(b, a);
}

static void open_group(group_t *g, pgas_verbs_engine_t engine, uint32_t adversary, uint64_t seed)
{
    pgasi_rng_seed(&g->rng, seed);
    open_machine(&g->m, engine, adversary, seed * 4);
    for (uint32_t i = 0; i < N; i++)
        open_machine(&g->r[i].m, engine, adversary, seed * 4 + 1 + i);
    g->send_cq = open_cq(&g->m, 0);
    g->ack_cq = open_cq(&g->m, 0);
    g->out = open_qp(&g->m, g->send_cq, g->send_cq, 2 * g->slots, 1, 1, 0);
    g->ack = open_qp(&g->m, g->ack_cq, g->ack_cq, 1, g->slots, 1, 0);
    for (uint32_t i = 0; i < N; i++)
        open_replica(g, &g->r[i]);
    connect_both(g->out, g->r[0].prev);
    for (uint32_t i = 0; i < N; i++)
        connect_both(g->r[i].next.qp, i + 1 < N ? g->r[i + 1].prev : g->ack);
    for (uint32_t i = 0; i < N; i++)
        begin_replica(g, &g->r[i]);
}

static void close_machine(machine_t *m)
{
    pgas_verbs_mem_release(m->dev, &m->mem);
    must(pgas_verbs_close(m->dev), "close a device");
}

static void close_group(group_t *g)
{
    pgas_verbs_qp_destroy(g->out);
    pgas_verbs_qp_destroy(g->ack);
    for (uint32_t i = 0; i < N; i++) {
        replica_t *r = &g->r[i];
        pgas_verbs_qp_t *qps[] = { r->prev,      r->loop.qp,  r->next.qp,
                                   r->master.qp, r->clock.qp, r->starter };
        for (size_t k = 0; k < PGASI_ARRAY_LENGTH(qps); k++)
            pgas_verbs_qp_destroy(qps[k]);
    }
    for (uint32_t i = 0; i < N; i++) {
        replica_t *r = &g->r[i];
        pgas_verbs_cq_t *cqs[] = { r->recv_cq, r->loop_cq, r->next_cq, r->master_cq, r->clock_cq };
        for (size_t k = 0; k < PGASI_ARRAY_LENGTH(cqs); k++)
            must(pgas_verbs_cq_destroy(cqs[k]), "close a completion queue");
        close_machine(&r->m);
    }
    must(pgas_verbs_cq_destroy(g->send_cq), "close a completion queue");
    must(pgas_verbs_cq_destroy(g->ack_cq), "close a completion queue");
    close_machine(&g->m);
}

/* ---- operations ---- */

static uint32_t random_below(group_t *g, uint32_t n)
{
    return (uint32_t)pgasi_rng_below(&g->rng, n);
}

/* Small words at few places, so that a compare-and-swap often succeeds. */
static void choose(group_t *g, operation_t *o, uint32_t number)
{
    pgasi_group_piece_t *p = &o->piece;
    uint32_t half = REGION / 2;
    *p = (pgasi_group_piece_t){ .number = number,
                                .kind = PGAS_GROUP_WRITE + random_below(g, 4),
                                .bytes = 1 + random_below(g, DATA) };
    p->offset = random_below(g, half - DATA);
    if (p->kind == PGAS_GROUP_MEMCPY)
        p->source = half + random_below(g, half - DATA);
    if (p->kind == PGAS_GROUP_WRITE && random_below(g, 2) == 0)
        p->offset += half;
    if (p->kind == PGAS_GROUP_CAS) {
        p->bytes = 8;
        p->offset = 8 * (uint64_t)random_below(g, 4);
        p->source = random_below(g, 2);
        p->desired = random_below(g, 2);
        p->execute_map = 1 + random_below(g, 7);
    }
    fill(o->data, DATA, pgasi_rng_u64(&g->rng));
    if (p->kind == PGAS_GROUP_WRITE && p->offset < 32)
        memset(o->data, 0, DATA);
}

/* Writes the message of an operation. @return its bytes */
static uint32_t build(const group_t *g, const operation_t *o, unsigned char *at)
{
    unsigned char programs[N * PGASI_GROUP_PROGRAM_BYTES];
    pgasi_group_member_t members[N];
    const pgasi_group_piece_t *p = &o->piece;
    uint32_t extra = words_bytes(g), k = (uint32_t)p->number,
             data_bytes = p->kind == PGAS_GROUP_WRITE ? p->bytes : 0;
    for (uint32_t i = 0; i < N; i++) { /* old words and data are behind the indices */
        members[i] = g->r[i].member;
        members[i].staging += (N - 1 - i) * extra;
    }
    pgasi_group_programs(p, members, N, programs);
    for (uint32_t i = 0; i < N; i++) {
        const replica_t *r = &g->r[i];
        for (uint32_t w = 0; w < WORDS && extra > 0; w++, at += 4) {
            uint32_t block = k + g->slots, step = w == 3 ? BLOCK : 1,
                     mask = w == 0 || w == 4 ? 0xffffff : 0xffff,
                     word = htobe32((r->indices[w] + block * step) & mask);
            memcpy(at, &word, 4);
        }
        memcpy(at, programs + (size_t)i * PGASI_GROUP_PROGRAM_BYTES, PGASI_GROUP_PROGRAM_BYTES);
        pgasi_wqe_set_data((void *)(at + PGASI_WQE_BB), (uintptr_t)slot_at(g, r, k),
                           message_bytes(g, i + 1, data_bytes), r->m.mem.lkey);
        at += PGASI_GROUP_PROGRAM_BYTES;
    }
    memset(at, 0, N * 8);
    memcpy(at + N * 8, o->data, data_bytes);
    return message_bytes(g, 0, data_bytes);
}

static void submit(group_t *g)
{
    uint32_t number = g->n_sent++, slot = number % g->slots;
    operation_t *o = &g->under_way[slot];
    unsigned char *message = g->m.bytes + (size_t)slot * STRIDE,
                  *answer = g->m.bytes + (size_t)(SLOTS_MAX + slot) * STRIDE;
    choose(g, o, number);
    pgas_verbs_span_t from = { (uintptr_t)message, build(g, o, message), g->m.mem.lkey },
                      to = { (uintptr_t)answer, N * 8, g->m.mem.lkey };
    pgas_verbs_recv_t recv = { number, &to, 1 };
    must(pgas_verbs_qp_recv(g->ack, &recv, 1, NULL), "room for an answer");
    snic_post(g->out, &(pgas_verbs_request_t){ .op = PGAS_VERBS_SEND,
                                               .flags = PGAS_VERBS_SIGNAL,
                                               .spans = &from,
                                               .n_spans = 1 });
}

/* The same on plain arrays. @return whether the old words that came back are right */
static bool check(group_t *g, const operation_t *o, const unsigned char *answer)
{
    const pgasi_group_piece_t *p = &o->piece;
    bool right = true;
    for (uint32_t i = 0; i < N; i++) {
        unsigned char *at = g->r[i].expected + p->offset;
        uint64_t word, old;
        if (p->kind == PGAS_GROUP_WRITE)
            memcpy(at, o->data, p->bytes);
        if (p->kind == PGAS_GROUP_MEMCPY)
            memcpy(at, g->r[i].expected + p->source, p->bytes);
        if (p->kind != PGAS_GROUP_CAS)
            continue;
        memcpy(&word, at, 8);
        memcpy(&old, answer + (size_t)i * 8, 8);
        right = right && old == word;
        if ((p->execute_map >> i & 1) && word == p->source)
            memcpy(at, &p->desired, 8);
    }
    return right;
}

static void take_answers(group_t *g)
{
    pgas_verbs_completion_t got;
    while (!g->failed && pgas_verbs_cq_poll(g->send_cq, &got, 1) == 1)
        g->failed = got.status != PGAS_OK;
    while (!g->failed && pgas_verbs_cq_poll(g->ack_cq, &got, 1) == 1) {
        uint32_t slot = g->n_acked % g->slots;
        g->failed = got.status != PGAS_OK || got.id != g->n_acked;
        g->n_wrong += !g->failed && !check(g, &g->under_way[slot],
                                           g->m.bytes + (size_t)(SLOTS_MAX + slot) * STRIDE);
        g->n_acked++;
    }
}

/* All that was sent is complete. */
static void compare(group_t *g)
{
    for (uint32_t i = 0; i < N; i++)
        g->n_wrong += memcmp(g->r[i].m.bytes, g->r[i].expected, REGION) != 0;
}

/* One step of a random card. @return false: all have nothing to do */
static bool step(group_t *g)
{
    uint32_t first = random_below(g, N + 1);
    for (uint32_t k = 0; k <= N; k++) {
        uint32_t i = (first + k) % (N + 1);
        if (pgas_verbs_snic_step(i < N ? g->r[i].m.dev : g->m.dev))
            return true;
    }
    return false;
}

typedef struct {
    how_t how;
    fault_t fault;
    uint32_t slots, adversary, n; /* operations */
} plan_t;

typedef struct {
    uint32_t n_done; /* acknowledged */
    int n_wrong;     /* old words and comparisons */
    bool failed;
} outcome_t;

static void serve_all(group_t *g)
{
    take_answers(g);
    for (uint32_t i = 0; i < N && g->how == REFILLED; i++)
        refill(g, &g->r[i], g->n_acked + g->slots);
}

/* One batch of operations. @return false: the chain has stopped, or has failed */
static bool run_batch(group_t *g, uint32_t end)
{
    while (g->n_acked < end && !g->failed) {
        uint32_t limit = PGASI_MIN(end, g->n_acked + g->slots), before = g->n_acked;
        if (g->n_sent < limit && random_below(g, 3) == 0)
            submit(g);
        bool stepped = step(g);
        serve_all(g);
        if (!stepped && g->n_acked == before && g->n_sent == limit)
            return false;
    }
    return !g->failed;
}

/* @return what came of the operations; the chain may stop before */
static outcome_t run(plan_t p, uint64_t seed)
{
    static group_t g;
    memset(&g, 0, sizeof g);
    g.how = p.how;
    g.fault = p.fault;
    g.slots = p.slots;
    open_group(&g, PGASI_SNIC_ENGINE_STEP, p.adversary, seed);
    while (g.n_acked < p.n && run_batch(&g, PGASI_MIN(p.n, g.n_acked + BATCH)))
        compare(&g);
    outcome_t outcome = { g.n_acked, g.n_wrong, g.failed };
    close_group(&g);
    return outcome;
}

static const char *const ways[] = { "refilled", "indices by messages", "indices by atomics" };

static void all_are_right(plan_t p, uint64_t seed)
{
    outcome_t o = run(p, seed);
    ok(o.n_done == p.n && o.n_wrong == 0 && !o.failed,
       "%s: %u operations, %u slots, adversary %u: %u done, %d wrong%s", ways[p.how], p.n, p.slots,
       (unsigned)p.adversary, o.n_done, o.n_wrong, o.failed ? ", failed" : "");
}

static void is_noticed(plan_t p, uint64_t seed, const char *what)
{
    outcome_t o = run(p, seed);
    ok(o.n_done < p.n || o.n_wrong > 0 || o.failed,
       "%s: %s, adversary %u: %u of %u done, %d wrong%s", ways[p.how], what, (unsigned)p.adversary,
       o.n_done, p.n, o.n_wrong, o.failed ? ", failed" : "");
}

static void prove(void)
{
    const how_t once[] = { BY_MESSAGE, BY_ATOMICS };
    plan(2 * (SNIC_N_ADVERSARIES + 4) + 4);
    uint64_t seed = tap_seed(17);
    for (size_t w = 0; w < PGASI_ARRAY_LENGTH(once); w++) {
        how_t how = once[w];
        for (int i = 0; i < SNIC_N_ADVERSARIES; i++)
            all_are_right((plan_t){ how, RIGHT, 16, snic_adversaries[i], tap_steps(10000) },
                          seed + (uint64_t)i);
        if (TAP_SANITIZED)
            skip(1, "indices wrap in other builds");
        else
            all_are_right((plan_t){ how, RIGHT, 16, 0, 80000 }, seed);
        all_are_right((plan_t){ how, RIGHT, 2, PGAS_VERBS_SNIC_ALL, 3000 }, seed);
        is_noticed((plan_t){ how, MASTER_EARLY, 16, PGAS_VERBS_SNIC_PREFETCH, 1000 }, seed,
                   "the master enables itself early");
        is_noticed((plan_t){ how, MASTER_EARLY, 16, PGAS_VERBS_SNIC_ALL, 1000 }, seed,
                   "the master enables itself early");
    }
    is_noticed((plan_t){ BY_MESSAGE, LOOP_EARLY, 16, PGAS_VERBS_SNIC_PREFETCH, 1000 }, seed,
               "an entry is enabled before its message");
    is_noticed((plan_t){ BY_MESSAGE, NO_INDICES, 16, 0, 1000 }, seed, "no new indices");
    is_noticed((plan_t){ BY_ATOMICS, NO_FENCE, 16, PGAS_VERBS_SNIC_DELAY, 1000 }, seed,
               "indices are read while they are counted");
    all_are_right((plan_t){ REFILLED, RIGHT, 16, PGAS_VERBS_SNIC_ALL, 3000 }, seed);
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A card runs when its owner polls. So one thread runs all cards, without sleeps, and its CPU time
 * does not depend on what else the machine does. */
static void run_cards(const group_t *g)
{
    pgas_verbs_completion_t none;
    for (uint32_t i = 0; i < N; i++)
        pgas_verbs_cq_poll(g->r[i].next_cq, &none, 1);
}

static void measure(how_t how)
{
    static group_t g;
    static const uint32_t entries[] = { STEPS + 2, BLOCK + 2, BLOCK + 2 + 13 };
    const uint32_t n = 200000;
    uint64_t refill_ns = 0;
    memset(&g, 0, sizeof g);
    g.how = how;
    g.slots = SLOTS_MAX;
    open_group(&g, PGAS_VERBS_ENGINE_CALLER, 0, 1);
    uint64_t begin_ns = cpu_ns();
    for (uint32_t armed = g.slots; g.n_acked < n && !g.failed;) {
        while (g.n_sent < n && g.n_sent - g.n_acked < g.slots &&
               (how != REFILLED || g.n_sent < armed))
            submit(&g);
        run_cards(&g);
        take_answers(&g);
        if (how == REFILLED && g.n_acked + g.slots >= armed + g.slots / 4) {
            uint64_t now_ns = cpu_ns();
            armed = g.n_acked + g.slots;
            for (uint32_t i = 0; i < N; i++)
                refill(&g, &g.r[i], armed);
            refill_ns += cpu_ns() - now_ns;
        }
    }
    double ns = (double)(cpu_ns() - begin_ns - refill_ns) / n;
    printf("%-20s %5.0f ns of CPU for an operation, %6.0f operations/s, "
           "%2u entries per replica, %4.1f million entries/s, refill %4.0f ns%s\n",
           ways[how], ns, 1e9 / ns, entries[how], 1e3 / ns * entries[how] * N,
           (double)refill_ns / n, g.failed || g.n_wrong > 0 ? ", WRONG" : "");
    close_group(&g);
}

int main(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--bench") != 0) {
        prove();
        return done();
    }
    for (int round = 0; round < 3; round++)
        for (how_t how = REFILLED; how <= BY_ATOMICS; how++)
            measure(how);
    return 0;
}
