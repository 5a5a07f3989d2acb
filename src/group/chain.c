/* The way chain on a replica. The card executes and forwards all pieces. This file makes its queues
 * and arms them again, off the path of pieces, once for each quarter of the slots.
 *
 *      prev     receives. Entry k scatters the message of piece k: 64 bytes to entry k of loop, 16
 *               bytes to the data segment of entry k of next, the rest to staging slot k
 *      loop     is connected to itself and executes the pieces. Its entries are posted once
 *      next     sends the staging slots on. Its entries are posted once
 *      control  is connected to the client, which reads the status words through it. Its send queue
 *               is the master: for each piece WAIT (received), ENABLE (loop), WAIT (executed),
 *               ENABLE (next)
 *
 * Thus piece k + 1 begins after piece k has been executed. The master's last entry of each quarter
 * of the slots is signaled. Its completion wakes the service thread, and means that all pieces up
 * to there have been executed. Errors of loop and next wake it, too. A drain may find that next
 * has failed, because the next replica was drained before: that changes nothing here. */
#include "group/replica.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "group/device.h"
#include "verbs_backend/wqe.h"

#define STEPS        4u  /* entries of the master for one piece */
#define BATCH        32u /* pieces that are armed by one call */
#define PARTS        3u  /* spans of a receive entry */
#define STATUS_BYTES 64u
#define MEMORY_MAX   (UINT64_C(1) << 30) /* staging slots of one client */

/* A send queue whose entries are rewritten: a ring of slots. */
typedef struct {
    pgas_verbs_qp_t *qp;
    pgas_verbs_mem_t mem;
    uint32_t n;     /* slots, a power of two */
    uint32_t first; /* position of the entry for piece 0 */
} ring_t;

typedef struct {
    pgas_verbs_cq_t *recv_cq, *loop_cq, *next_cq, *master_cq;
    pgas_verbs_qp_t *prev, *control;
    ring_t loop, next;
    pgas_verbs_mem_t mem; /* staging slots, then the status words */
    uint64_t stride;
    uint32_t slots, quarter;
    uint64_t received, executed; /* good completions taken */
    uint64_t released;           /* pieces whose entries of the master are done */
    uint64_t armed;
    pgas_status_t broken; /* the first bad completion of prev, loop or control */
    pgas_status_t cut;    /* the same of next */
} chain_t;

static chain_t *chain_of(const pgasi_session_t *s)
{
    return s->way;
}

/* ---- places ---- */

static unsigned char *entry_at(const ring_t *ring, uint64_t k)
{
    uint32_t slot = (ring->first + (uint32_t)k) & (ring->n - 1);
    return (unsigned char *)ring->mem.addr + (size_t)slot * PGASI_GROUP_ENTRY_BYTES;
}

static unsigned char *slot_at(const chain_t *c, uint64_t k)
{
    return (unsigned char *)c->mem.addr + (k & (c->slots - 1)) * c->stride;
}

/* ---- making queues ---- */

static pgas_status_t make_cq(const pgasi_session_t *s, uint32_t depth, uint32_t flags,
                             pgas_verbs_cq_t **cq_p)
{
    return pgas_verbs_cq_create(s->replica->dev, depth, flags, cq_p);
}

static pgas_status_t make_qp(const pgasi_session_t *s, pgas_verbs_cq_t *send_cq,
                             pgas_verbs_cq_t *recv_cq, uint32_t send_depth, uint32_t recv_depth,
                             uint32_t flags, uint32_t access, pgas_verbs_qp_t **qp_p)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.send_depth = send_depth;
    opts.recv_depth = recv_depth;
    opts.send_spans = 1;
    opts.recv_spans = PARTS;
    opts.inline_max = 8; /* so that each entry is one slot */
    opts.flags = flags;
    opts.access = access;
    return pgas_verbs_qp_create(s->replica->dev, &opts, qp_p);
}

/* Registers the slots of a queue pair. */
static pgas_status_t find_ring(ring_t *ring)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    pgas_status_t status = pgas_verbs_qp_info(ring->qp, &info);
    if (status != PGAS_OK)
        return status;
    if (info.slot_bytes != PGASI_GROUP_ENTRY_BYTES || !info.slots.addr)
        return PGAS_ERR_UNSUPPORTED;
    ring->mem = info.slots;
    ring->n = (uint32_t)(info.slots.bytes / info.slot_bytes);
    ring->first = pgas_verbs_qp_position(ring->qp);
    return PGAS_OK;
}

static pgas_status_t make_queues(const pgasi_session_t *s, chain_t *c)
{
    const uint32_t ring = PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_REMOTE_SLOTS |
                          PGAS_VERBS_QP_IGNORE_OVERRUN,
                   local = PGAS_VERBS_LOCAL_WRITE;
    uint32_t n = c->slots;
    pgas_status_t status = make_cq(s, 2 * n, 0, &c->recv_cq);
    if (status == PGAS_OK)
        status = make_cq(s, 2 * n, PGAS_VERBS_CQ_EVENTS, &c->loop_cq);
    if (status == PGAS_OK)
        status = make_cq(s, n, PGAS_VERBS_CQ_EVENTS | PGAS_VERBS_CQ_IGNORE_OVERRUN, &c->next_cq);
    if (status == PGAS_OK)
        status = make_cq(s, 4 * STEPS, PGAS_VERBS_CQ_EVENTS, &c->master_cq);
    if (status == PGAS_OK)
        status = make_qp(s, c->master_cq, c->recv_cq, 1, n, 0, local, &c->prev);
    if (status == PGAS_OK)
        status = make_qp(s, c->loop_cq, c->loop_cq, n, 1, ring, PGAS_VERBS_ACCESS_ALL, &c->loop.qp);
    if (status == PGAS_OK)
        status = make_qp(s, c->next_cq, c->next_cq, n, 1, ring, local, &c->next.qp);
    if (status == PGAS_OK)
        status = make_qp(s, c->master_cq, c->master_cq, STEPS * n, 1,
                         PGAS_VERBS_QP_MASTER | PGAS_VERBS_QP_IGNORE_OVERRUN,
                         local | PGAS_VERBS_REMOTE_READ, &c->control);
    if (status == PGAS_OK)
        status = find_ring(&c->loop);
    return status == PGAS_OK ? find_ring(&c->next) : status;
}

/* The number of a queue pair, which its entries repeat: the one of the last entry posted. */
static uint32_t number_of(const ring_t *ring)
{
    uint32_t word;
    memcpy(&word, entry_at(ring, 0) + sizeof(uint32_t), sizeof word);
    return be32toh(word) >> 8;
}

/* Fills a ring with entries. One of `solicited_each` wakes a client that waits for it; 0: none. */
static pgas_status_t fill_ring(const ring_t *ring, pgas_verbs_request_t request,
                               uint32_t solicited_each)
{
    pgas_status_t status = PGAS_OK;
    uint32_t flags = request.flags;
    for (uint32_t i = 0; i < ring->n && status == PGAS_OK; i++) {
        bool solicited = solicited_each > 0 && (i + 1) % solicited_each == 0;
        request.flags = flags | (solicited ? PGAS_VERBS_SOLICITED : 0);
        status = pgas_verbs_qp_post(ring->qp, &request, 1, NULL);
    }
    return status;
}

/* ---- arming ---- */

uint32_t pgasi_session_early;

static pgas_status_t post_receives(const chain_t *c, uint64_t from, uint32_t n)
{
    pgas_verbs_recv_t recvs[BATCH];
    pgas_verbs_span_t spans[BATCH][PARTS];
    for (uint32_t i = 0; i < n; i++) {
        uint64_t k = from + i;
        spans[i][0] = (pgas_verbs_span_t){ (uintptr_t)entry_at(&c->loop, k),
                                           PGASI_GROUP_ENTRY_BYTES, c->loop.mem.lkey };
        spans[i][1] =
            (pgas_verbs_span_t){ (uintptr_t)entry_at(&c->next, k) + PGASI_GROUP_SEGMENT_BYTES,
                                 PGASI_GROUP_SEGMENT_BYTES, c->next.mem.lkey };
        spans[i][2] =
            (pgas_verbs_span_t){ (uintptr_t)slot_at(c, k), (uint32_t)c->stride, c->mem.lkey };
        recvs[i] = (pgas_verbs_recv_t){ k, spans[i], PARTS };
    }
    return pgas_verbs_qp_recv(c->prev, recvs, n, NULL);
}

/* See pgasi_session_early: as if the queues were not managed, and rung before messages come. */
static uint32_t early(uint32_t queue)
{
    return pgasi_session_early & queue ? 1 : 0;
}

static pgas_status_t post_master(const chain_t *c, uint64_t from, uint32_t n)
{
    pgas_verbs_request_t steps[STEPS * BATCH], *step = steps;
    for (uint32_t i = 0; i < n; i++, step += STEPS) {
        uint32_t k = (uint32_t)(from + i);
        bool signaled = (k + 1) % c->quarter == 0;
        step[0] = (pgas_verbs_request_t){ .op = PGAS_VERBS_WAIT,
                                          .cq = c->recv_cq,
                                          .index = k & 0xffffff };
        step[1] = (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND_ENABLE,
                                          .qp = c->loop.qp,
                                          .index = c->loop.first + k + 1 + early(1) };
        step[2] = (pgas_verbs_request_t){ .op = PGAS_VERBS_WAIT,
                                          .cq = c->loop_cq,
                                          .index = k & 0xffffff };
        step[3] = (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND_ENABLE,
                                          .qp = c->next.qp,
                                          .index = c->next.first + k + 1 + early(2),
                                          .id = from + i + 1,
                                          .flags = signaled ? PGAS_VERBS_SIGNAL : 0 };
    }
    steps[STEPS * n - 1].flags |= PGAS_VERBS_MORE;
    return pgas_verbs_qp_post(c->control, steps, STEPS * n, NULL);
}

/* Makes pieces below this number ready, with one doorbell. */
static pgas_status_t arm(chain_t *c, uint64_t end)
{
    pgas_status_t status = PGAS_OK;
    while (c->armed < end && status == PGAS_OK) {
        uint32_t n = (uint32_t)PGASI_MIN(end - c->armed, (uint64_t)BATCH);
        status = post_receives(c, c->armed, n);
        if (status == PGAS_OK)
            status = post_master(c, c->armed, n);
        c->armed += n;
    }
    return status == PGAS_OK ? pgas_verbs_qp_post(c->control, NULL, 0, NULL) : status;
}

/* ---- completions ---- */

/* Notes the range that a piece has changed: its entry in loop has it. */
static void note(const pgasi_session_t *s, const chain_t *c, uint64_t k)
{
    const unsigned char *entry = entry_at(&c->loop, k);
    pgasi_wqe_t wqe;
    if (!pgasi_wqe_decode(entry, PGASI_WQE_BB, 0, &wqe))
        return;
    uint64_t offset = wqe.remote_addr - (uintptr_t)s->replica->region;
    if (wqe.op == PGASI_WQE_CSWAP)
        pgasi_session_note(s, offset, 8);
    else if (wqe.op == PGASI_WQE_WRITE && wqe.n_data > 0)
        pgasi_session_note(s, offset, pgasi_wqe_data(entry, PGASI_WQE_BB, 0, &wqe, 0).bytes);
}

/* Takes completions of one queue. @return the good ones */
static uint64_t take(pgas_verbs_cq_t *cq, uint64_t *last_id, pgas_status_t *bad)
{
    pgas_verbs_completion_t got[BATCH];
    uint64_t n_good = 0;
    int n;
    while ((n = pgas_verbs_cq_poll(cq, got, (int)BATCH)) > 0) {
        for (int i = 0; i < n; i++) {
            n_good += got[i].status == PGAS_OK;
            if (*bad == PGAS_OK)
                *bad = got[i].status;
            if (got[i].status == PGAS_OK && last_id)
                *last_id = got[i].id;
        }
    }
    if (n < 0 && *bad == PGAS_OK)
        *bad = PGAS_ERR_TRANSPORT;
    return n_good;
}

/* A card may flush a queue that runs its ring again any number of times, so its completions may be
 * overwritten. The event alone says that next has failed: its sends are not signaled. */
static bool has_event(pgas_verbs_cq_t *cq)
{
    struct pollfd wanted = { .events = POLLIN };
    return pgas_verbs_cq_fd(cq, &wanted.fd) == PGAS_OK && poll(&wanted, 1, 0) > 0;
}

/* A good completion of the loop is a piece that has been executed. */
static void take_all(pgasi_session_t *s)
{
    chain_t *c = chain_of(s);
    uint64_t executed = c->executed;
    take(c->master_cq, &c->released, &c->broken);
    c->executed += take(c->loop_cq, NULL, &c->broken);
    c->received += take(c->recv_cq, NULL, &c->broken);
    if (has_event(c->next_cq) && c->cut == PGAS_OK)
        c->cut = PGAS_ERR_PEER;
    if (pgasi_session_is_noting(s))
        for (uint64_t k = executed; k < c->executed; k++)
            note(s, c, k);
    s->executed = c->executed;
}

/* Arms the descriptors. @return false: there are completions already */
static bool arm_events(chain_t *c)
{
    bool quiet = pgas_verbs_cq_arm(c->master_cq, false) == PGAS_OK;
    quiet = pgas_verbs_cq_arm(c->loop_cq, true) == PGAS_OK && quiet;
    if (pgas_verbs_cq_arm(c->next_cq, true) != PGAS_OK)
        c->cut = PGAS_ERR_PEER;
    return quiet && c->cut == PGAS_OK;
}

static pgas_status_t poll_chain(pgasi_session_t *s)
{
    chain_t *c = chain_of(s);
    pgas_status_t status = PGAS_OK;
    do {
        uint64_t begin_ns = pgasi_session_cpu_ns();
        take_all(s);
        uint64_t done = PGASI_MIN(PGASI_MIN(c->received, c->executed), c->released);
        if (c->broken != PGAS_OK || c->cut != PGAS_OK)
            return c->broken != PGAS_OK ? c->broken : c->cut;
        if (done + c->slots > c->armed) {
            status = arm(c, done + c->slots);
            if (status == PGAS_OK)
                pgasi_session_refilled(s, c->armed, begin_ns);
        }
    } while (status == PGAS_OK && !arm_events(c));
    return status;
}

/* ---- the session ---- */

static void destroy_qp(pgas_verbs_qp_t **qp)
{
    pgas_verbs_qp_destroy(*qp);
    *qp = NULL;
}

static void free_chain(pgasi_session_t *s)
{
    chain_t *c = chain_of(s);
    destroy_qp(&c->prev);
    destroy_qp(&c->control);
    destroy_qp(&c->loop.qp);
    destroy_qp(&c->next.qp);
    pgas_verbs_cq_destroy(c->recv_cq);
    pgas_verbs_cq_destroy(c->loop_cq);
    pgas_verbs_cq_destroy(c->next_cq);
    pgas_verbs_cq_destroy(c->master_cq);
    pgas_verbs_mem_release(s->replica->dev, &c->mem);
    free(c);
    s->way = NULL;
    s->status = NULL;
}

static pgas_status_t make_memory(pgasi_session_t *s, chain_t *c)
{
    uint32_t n = s->open.n, i = s->open.position;
    c->stride = PGASI_ALIGN_UP(pgasi_group_message_bytes(true, n, i, s->open.piece) -
                                   PGASI_GROUP_PROGRAM_BYTES,
                               64u);
    uint64_t bytes = c->stride * c->slots;
    if (bytes > MEMORY_MAX)
        return PGAS_ERR_LIMIT;
    pgas_status_t status = pgas_verbs_mem_register(s->replica->dev, NULL, bytes + STATUS_BYTES,
                                                   PGAS_VERBS_ACCESS_ALL, &c->mem);
    if (status == PGAS_OK)
        s->status = (pgasi_group_status_t *)(void *)((char *)c->mem.addr + bytes);
    return status;
}

static void describe(pgasi_session_t *s, const chain_t *c)
{
    pgasi_group_opened_t *o = &s->opened;
    o->member.staging = (uintptr_t)c->mem.addr;
    o->member.staging_stride = c->stride;
    o->member.staging_lkey = c->mem.lkey;
    o->member.slots = c->slots;
    o->member.loop_first = c->loop.first;
    o->member.loop_qpn = number_of(&c->loop);
    o->status = (uintptr_t)s->status;
    o->status_rkey = c->mem.rkey;
    o->rank = -1;
    o->prev = pgasi_group_qp_address(c->prev);
    o->next = pgasi_group_qp_address(c->next.qp);
    o->control = pgasi_group_qp_address(c->control);
}

static pgas_status_t watch(pgasi_session_t *s, const pgas_verbs_cq_t *cq)
{
    int fd = -1;
    pgas_status_t status = pgas_verbs_cq_fd((pgas_verbs_cq_t *)(uintptr_t)cq, &fd);
    return status == PGAS_OK ? pgasi_session_watch(s, fd) : status;
}

static pgas_status_t open_chain(pgasi_session_t *s)
{
    const pgas_verbs_request_t nop = { .op = PGAS_VERBS_NOP, .flags = PGAS_VERBS_SIGNAL };
    pgas_verbs_address_t self;
    chain_t *c = calloc(1, sizeof *c);
    if (!c)
        return PGAS_ERR_NO_MEMORY;
    s->way = c;
    c->slots = s->open.slots;
    c->quarter = PGASI_MAX(c->slots / 4, 1u);
    pgas_status_t status = make_memory(s, c);
    if (status == PGAS_OK)
        status = make_queues(s, c);
    if (status == PGAS_OK) {
        self = pgasi_group_qp_address(c->loop.qp);
        status = pgas_verbs_qp_connect(c->loop.qp, &self);
    }
    if (status == PGAS_OK)
        status = fill_ring(&c->loop, nop, 0);
    if (status != PGAS_OK) {
        free_chain(s);
        return status;
    }
    describe(s, c);
    return PGAS_OK;
}

static pgas_status_t connect_chain(pgasi_session_t *s, const pgasi_group_connect_t *connect)
{
    chain_t *c = chain_of(s);
    const pgas_verbs_span_t any = { (uintptr_t)s->status, sizeof(uint64_t), c->mem.lkey };
    const pgas_verbs_request_t send = { .op = PGAS_VERBS_SEND, .spans = &any, .n_spans = 1 };
    pgas_status_t status = pgas_verbs_qp_connect(c->prev, &connect->prev);
    if (status == PGAS_OK)
        status = pgas_verbs_qp_connect(c->next.qp, &connect->next);
    if (status == PGAS_OK)
        status = pgas_verbs_qp_connect(c->control, &connect->control);
    if (status == PGAS_OK)
        status = fill_ring(&c->next, send, pgasi_group_solicited_each(c->slots));
    if (status == PGAS_OK)
        status = arm(c, c->slots);
    if (status == PGAS_OK)
        status = watch(s, c->master_cq);
    if (status == PGAS_OK)
        status = watch(s, c->loop_cq);
    if (status == PGAS_OK)
        status = watch(s, c->next_cq);
    if (status != PGAS_OK)
        return status;
    __atomic_store_n(&s->status->armed, c->armed, __ATOMIC_RELEASE);
    return poll_chain(s);
}

static void end_input(pgasi_session_t *s)
{
    destroy_qp(&chain_of(s)->prev);
}

static bool is_drained(pgasi_session_t *s)
{
    const chain_t *c = chain_of(s);
    take_all(s);
    return c->executed == c->received || c->broken != PGAS_OK;
}

static uint64_t old_word(const pgasi_session_t *s, uint64_t k)
{
    uint32_t i = s->open.position;
    uint64_t word;
    memcpy(&word,
           slot_at(chain_of(s), k) + pgasi_group_old_at(true, s->open.n, i) + i * sizeof word,
           sizeof word);
    return word;
}

/* If the drain took too long, the master may still run. So it ends first, then the loop. A piece
 * has been executed if the loop has completed it by then. */
static void close_chain(pgasi_session_t *s)
{
    chain_t *c = chain_of(s);
    if (s->state == PGASI_SESSION_RUNNING) {
        take_all(s);
        destroy_qp(&c->control);
        for (uint64_t k = c->executed; k < c->received && pgasi_session_is_noting(s); k++)
            note(s, c, k); /* the loop, which has the entries, may execute them until it ends */
        destroy_qp(&c->loop.qp);
        c->executed += take(c->loop_cq, NULL, &c->broken);
        pgasi_session_keep(s, c->executed, c->slots, old_word);
    }
    free_chain(s);
}

const pgasi_session_ops_t pgasi_session_chain = { .open = open_chain,
                                                  .connect = connect_chain,
                                                  .poll = poll_chain,
                                                  .end_input = end_input,
                                                  .is_drained = is_drained,
                                                  .close = close_chain };
