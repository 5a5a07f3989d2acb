/* The way verbs on a replica: any card, no WAIT. Messages arrive in staging slots. The service
 * thread takes their completions, executes the pieces, and sends the slots on.
 *
 *      prev     receives. Entry k is staging slot k % slots
 *      next     sends the slots on; the last replica sends the old words to the client
 *      control  is connected to the client, which reads the status words through it
 *
 *      sent <= executed <= armed = sent + slots
 *
 * All three have one completion queue, on which the thread sleeps. It takes pieces in batches and
 * rings once for a batch. It sends large pieces on at once, so that replicas overlap. After some
 * pieces of one client the thread serves the others first. A piece is checked after it was copied
 * out of its slot, because the peer can write there at any time. */
#include "group/replica.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/log.h"
#include "group/device.h"

#define BATCH        32u                 /* pieces that are sent on by one call */
#define BATCH_BYTES  (16u << 10)         /* bytes of a batch that are sent on at once */
#define TURN         128u                /* pieces of one client before others have their turn */
#define RUNS         2u                  /* sends that may wait for a completion, in slots */
#define RECEIVED     (UINT64_C(1) << 63) /* ids of receive entries */
#define STATUS_BYTES 64u
#define MEMORY_MAX   (UINT64_C(1) << 30) /* staging slots of one client */

typedef struct {
    pgas_verbs_cq_t *cq;
    pgas_verbs_qp_t *prev, *next, *control;
    pgas_verbs_mem_t mem; /* staging slots, then the status words */
    uint64_t stride;
    uint32_t slots, quarter;
    uint64_t executed, sent, armed;
    uint64_t unsent_bytes; /* executed since the last send */
    uint32_t *bytes;       /* [slots] of the messages */
    uint64_t *words;       /* [slots] old words of this replica */
    int again_fd;          /* wakes the thread after a turn */
    bool is_again;
    pgas_status_t broken;
} forward_t;

static forward_t *forward_of(const pgasi_session_t *s)
{
    return s->way;
}

static unsigned char *slot_at(const forward_t *f, uint64_t k)
{
    return (unsigned char *)f->mem.addr + (k & (f->slots - 1)) * f->stride;
}

/* ---- sending on ---- */

/* Makes the slots of pieces that were sent on ready for new messages. */
static pgas_status_t arm(forward_t *f)
{
    pgas_verbs_recv_t recvs[BATCH];
    pgas_verbs_span_t spans[BATCH];
    while (f->armed < f->sent + f->slots) {
        uint32_t n = (uint32_t)PGASI_MIN(f->sent + f->slots - f->armed, (uint64_t)BATCH);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t k = f->armed + i;
            spans[i] =
                (pgas_verbs_span_t){ (uintptr_t)slot_at(f, k), (uint32_t)f->stride, f->mem.lkey };
            recvs[i] = (pgas_verbs_recv_t){ RECEIVED | k, &spans[i], 1 };
        }
        pgas_status_t status = pgas_verbs_qp_recv(f->prev, recvs, n, &n);
        f->armed += n;
        if (status != PGAS_OK)
            return status;
    }
    return PGAS_OK;
}

/* The part of a message that goes to the next replica, or to the client. */
static pgas_verbs_span_t part_of(const pgasi_session_t *s, uint64_t k)
{
    const forward_t *f = forward_of(s);
    uint32_t n = s->open.n, i = s->open.position;
    uint64_t at = (uintptr_t)slot_at(f, k);
    if (i + 1 < n)
        return (pgas_verbs_span_t){ at, f->bytes[k & (f->slots - 1)], f->mem.lkey };
    return (pgas_verbs_span_t){ at + pgasi_group_old_at(false, n, i),
                                pgasi_group_message_bytes(false, n, n, 0), f->mem.lkey };
}

/* If the queue is full, the rest waits: the completion of an earlier send wakes the thread. */
static pgas_status_t send_on(pgasi_session_t *s)
{
    forward_t *f = forward_of(s);
    pgas_verbs_span_t spans[BATCH];
    pgas_verbs_request_t requests[BATCH];
    pgas_status_t status = PGAS_OK;
    while (f->sent < f->executed && status == PGAS_OK) {
        uint32_t n = (uint32_t)PGASI_MIN(f->executed - f->sent, (uint64_t)BATCH);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t k = f->sent + i;
            spans[i] = part_of(s, k);
            requests[i] =
                (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND,
                                        .flags = (k + 1) % f->quarter == 0 ? PGAS_VERBS_SIGNAL : 0,
                                        .id = k,
                                        .spans = &spans[i],
                                        .n_spans = 1 };
        }
        status = pgas_verbs_qp_post(f->next, requests, n, &n);
        f->sent += n;
    }
    f->unsent_bytes = 0;
    return status == PGAS_ERR_AGAIN ? PGAS_OK : status;
}

/* ---- executing ---- */

/* The bytes that the message of a piece must have. */
static uint32_t right_bytes(const pgasi_session_t *s, const pgasi_group_piece_t *piece)
{
    uint32_t data_bytes = piece->kind == PGAS_GROUP_WRITE ? piece->bytes : 0;
    return pgasi_group_message_bytes(false, s->open.n, s->open.position, data_bytes);
}

static pgas_status_t execute(const pgasi_session_t *s, uint64_t k, uint32_t bytes)
{
    forward_t *f = forward_of(s);
    const pgas_replica_t *replica = s->replica;
    uint32_t n = s->open.n, i = s->open.position;
    unsigned char *slot = slot_at(f, k);
    uint64_t *old = (uint64_t *)(void *)(slot + pgasi_group_old_at(false, n, i));
    pgasi_group_piece_t piece;
    if (bytes < pgasi_group_message_bytes(false, n, i, 0))
        return PGAS_ERR_FORMAT;
    memcpy(&piece, slot, sizeof piece);
    bool is_whole = piece.kind != PGAS_GROUP_WRITE || piece.bytes <= s->open.piece;
    if (piece.number != k || !is_whole || bytes != right_bytes(s, &piece))
        return PGAS_ERR_FORMAT;
    pgas_status_t status = pgasi_group_execute(&piece, i, replica->region, replica->region_bytes,
                                               old, slot + pgasi_group_data_at(false, n, i));
    if (status != PGAS_OK)
        return status;
    f->bytes[k & (f->slots - 1)] = bytes;
    f->words[k & (f->slots - 1)] = old[i];
    bool changes = piece.kind != PGAS_GROUP_FLUSH && (piece.skip_map >> i & 1) == 0;
    if (changes && pgasi_session_is_noting(s))
        pgasi_session_note(s, piece.offset, piece.bytes);
    return PGAS_OK;
}

/* A good message is executed. Sends that are complete say nothing new. */
static pgas_status_t take_one(pgasi_session_t *s, const pgas_verbs_completion_t *c)
{
    forward_t *f = forward_of(s);
    if (c->status != PGAS_OK)
        return c->status;
    if ((c->id & RECEIVED) == 0)
        return PGAS_OK;
    pgas_status_t status = execute(s, f->executed, c->bytes);
    if (status != PGAS_OK) {
        PGASI_WARN("group", "%s: a client has sent a wrong piece (%s): its chain ends",
                   s->replica->address, pgas_status_name(status));
        return status;
    }
    f->executed++;
    f->unsent_bytes += c->bytes;
    s->executed = f->executed;
    return f->unsent_bytes >= BATCH_BYTES ? send_on(s) : PGAS_OK;
}

/* Takes up to n completions. @return their number */
static uint32_t take_some(pgasi_session_t *s, uint32_t n)
{
    forward_t *f = forward_of(s);
    pgas_verbs_completion_t got[BATCH];
    int n_got = pgas_verbs_cq_poll(f->cq, got, (int)PGASI_MIN(n, BATCH));
    if (n_got < 0)
        f->broken = PGAS_ERR_TRANSPORT;
    for (int i = 0; i < n_got && f->broken == PGAS_OK; i++)
        f->broken = take_one(s, &got[i]);
    if (f->broken == PGAS_OK)
        f->broken = send_on(s);
    if (f->broken == PGAS_OK)
        f->broken = arm(f);
    return n_got > 0 ? (uint32_t)n_got : 0;
}

/* The thread comes again after it has looked at its other descriptors. */
static void come_again(forward_t *f, bool again)
{
    uint64_t count = 1;
    if (f->is_again == again)
        return;
    f->is_again = again;
    ssize_t n =
        again ? write(f->again_fd, &count, sizeof count) : read(f->again_fd, &count, sizeof count);
    (void)n; /* a counter that is 0 or 1 */
}

static pgas_status_t poll_forward(pgasi_session_t *s)
{
    forward_t *f = forward_of(s);
    uint64_t begin_ns = pgasi_session_cpu_ns(), armed = f->armed;
    uint32_t left = TURN, n;
    do {
        while (left > 0 && f->broken == PGAS_OK && (n = take_some(s, left)) > 0)
            left -= PGASI_MIN(left, n);
        if (f->broken != PGAS_OK)
            return f->broken;
    } while (left > 0 && pgas_verbs_cq_arm(f->cq, false) != PGAS_OK);
    come_again(f, left == 0);
    if (f->armed != armed)
        pgasi_session_refilled(s, f->armed, begin_ns);
    return PGAS_OK;
}

/* ---- the session ---- */

static pgas_status_t make_qp(const pgasi_session_t *s, uint32_t send_depth, uint32_t recv_depth,
                             uint32_t access, pgas_verbs_qp_t **qp_p)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_cq = opts.recv_cq = forward_of(s)->cq;
    opts.send_depth = send_depth;
    opts.recv_depth = recv_depth;
    opts.send_spans = opts.recv_spans = 1;
    opts.inline_max = 8;
    opts.access = access;
    return pgas_verbs_qp_create(s->replica->dev, &opts, qp_p);
}

static pgas_status_t make_queues(const pgasi_session_t *s, forward_t *f)
{
    uint32_t n = f->slots;
    /* errors complete without a signal: room for all entries */
    pgas_status_t status =
        pgas_verbs_cq_create(s->replica->dev, (RUNS + 1) * n + 2, PGAS_VERBS_CQ_EVENTS, &f->cq);
    if (status == PGAS_OK)
        status = make_qp(s, 1, n, PGAS_VERBS_LOCAL_WRITE, &f->prev);
    if (status == PGAS_OK)
        status = make_qp(s, RUNS * n, 1, PGAS_VERBS_LOCAL_WRITE, &f->next);
    if (status == PGAS_OK)
        status = make_qp(s, 1, 1, PGAS_VERBS_LOCAL_WRITE | PGAS_VERBS_REMOTE_READ, &f->control);
    return status;
}

static pgas_status_t make_memory(pgasi_session_t *s, forward_t *f)
{
    uint32_t n = s->open.n, i = s->open.position;
    f->stride = PGASI_ALIGN_UP(pgasi_group_message_bytes(false, n, i, s->open.piece), 64u);
    uint64_t bytes = f->stride * f->slots;
    if (bytes > MEMORY_MAX)
        return PGAS_ERR_LIMIT;
    f->bytes = calloc(f->slots, sizeof f->bytes[0]);
    f->words = calloc(f->slots, sizeof f->words[0]);
    if (!f->bytes || !f->words)
        return PGAS_ERR_NO_MEMORY;
    f->again_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (f->again_fd < 0)
        return PGAS_ERR_LIMIT;
    pgas_status_t status =
        pgas_verbs_mem_register(s->replica->dev, NULL, bytes + STATUS_BYTES,
                                PGAS_VERBS_LOCAL_WRITE | PGAS_VERBS_REMOTE_READ, &f->mem);
    if (status == PGAS_OK)
        s->status = (pgasi_group_status_t *)(void *)((char *)f->mem.addr + bytes);
    return status;
}

static void free_forward(pgasi_session_t *s)
{
    forward_t *f = forward_of(s);
    pgas_verbs_qp_destroy(f->prev);
    pgas_verbs_qp_destroy(f->next);
    pgas_verbs_qp_destroy(f->control);
    pgas_verbs_cq_destroy(f->cq);
    pgas_verbs_mem_release(s->replica->dev, &f->mem);
    if (f->again_fd >= 0)
        close(f->again_fd);
    free(f->bytes);
    free(f->words);
    free(f);
    s->way = NULL;
    s->status = NULL;
}

static void describe(pgasi_session_t *s, const forward_t *f)
{
    pgasi_group_opened_t *o = &s->opened;
    o->member.staging = (uintptr_t)f->mem.addr;
    o->member.staging_stride = f->stride;
    o->member.staging_lkey = f->mem.lkey;
    o->member.slots = f->slots;
    o->status = (uintptr_t)s->status;
    o->status_rkey = f->mem.rkey;
    o->prev = pgasi_group_qp_address(f->prev);
    o->next = pgasi_group_qp_address(f->next);
    o->control = pgasi_group_qp_address(f->control);
}

static pgas_status_t open_forward(pgasi_session_t *s)
{
    forward_t *f = calloc(1, sizeof *f);
    if (!f)
        return PGAS_ERR_NO_MEMORY;
    s->way = f;
    f->again_fd = -1;
    f->slots = s->open.slots;
    f->quarter = PGASI_MAX(f->slots / 4, 1u);
    pgas_status_t status = make_memory(s, f);
    if (status == PGAS_OK)
        status = make_queues(s, f);
    if (status != PGAS_OK) {
        free_forward(s);
        return status;
    }
    describe(s, f);
    return PGAS_OK;
}

static pgas_status_t connect_forward(pgasi_session_t *s, const pgasi_group_connect_t *connect)
{
    forward_t *f = forward_of(s);
    int fd = -1;
    pgas_status_t status = pgas_verbs_qp_connect(f->prev, &connect->prev);
    if (status == PGAS_OK)
        status = pgas_verbs_qp_connect(f->next, &connect->next);
    if (status == PGAS_OK)
        status = pgas_verbs_qp_connect(f->control, &connect->control);
    if (status == PGAS_OK)
        status = arm(f);
    if (status == PGAS_OK)
        status = pgas_verbs_cq_fd(f->cq, &fd);
    if (status == PGAS_OK)
        status = pgasi_session_watch(s, fd);
    if (status == PGAS_OK)
        status = pgasi_session_watch(s, f->again_fd);
    if (status != PGAS_OK)
        return status;
    __atomic_store_n(&s->status->armed, f->armed, __ATOMIC_RELEASE);
    return poll_forward(s);
}

/* The client sends pieces again that have arrived and were not executed. */
static void end_input(pgasi_session_t *s)
{
    forward_t *f = forward_of(s);
    pgas_verbs_qp_destroy(f->prev);
    f->prev = NULL;
}

static bool is_drained(pgasi_session_t *s)
{
    (void)s;
    return true;
}

static uint64_t old_word(const pgasi_session_t *s, uint64_t k)
{
    const forward_t *f = forward_of(s);
    return f->words[k & (f->slots - 1)];
}

static void close_forward(pgasi_session_t *s)
{
    const forward_t *f = forward_of(s);
    if (s->state == PGASI_SESSION_RUNNING)
        pgasi_session_keep(s, f->executed, f->slots, old_word);
    free_forward(s);
}

const pgasi_session_ops_t pgasi_session_forward = { .open = open_forward,
                                                    .connect = connect_forward,
                                                    .poll = poll_forward,
                                                    .end_input = end_input,
                                                    .is_drained = is_drained,
                                                    .close = close_forward };
