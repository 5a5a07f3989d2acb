/* The limit of the way chain: the same entries as a chain of n replicas has, executed without their
 * order and without the protocol. For each piece
 *
 *     the client and each replica send one message of the same bytes to the next one; the last
 *         replica sends n words to the client
 *     replicas receive it with entries of three spans, as there
 *     a replica's second queue executes the operation on its region
 *     a replica's third queue executes WAIT, ENABLE, WAIT, ENABLE. The WAITs are for a completion
 *         that exists, and the ENABLEs for positions that have passed, so none of them waits and
 *         none starts anything.
 *
 * All queues are rings that were written once. Each process lets its own queues run by an ENABLE
 * for many pieces, posts receive entries anew in batches, and counts completions. */
#include "benchmarks/group_work.h"

#include "pgas/verbs.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN     512u
#define SLOTS_MAX     4096u
#define STAGING_BYTES ((size_t)16 << 20) /* of a rank, unless SLOTS_MIN need more */
#define ENTRY_BYTES   64u
#define SEGMENT_BYTES 16u
#define BATCH         64u    /* receive entries that are posted together; pieces of one ENABLE */
#define SIGNALED_EACH 64u    /* of entries whose completion only frees a ring */
#define WAIT_NS       200000 /* other queues are looked at, too */
#define MASTER_EACH   4u     /* entries of a piece in the master's queue */
#define RING \
    (PGAS_VERBS_QP_MANAGED_SEND | PGAS_VERBS_QP_IGNORE_OVERRUN | PGAS_VERBS_QP_REMOTE_SLOTS)

/* A ring that runs again and again. */
typedef struct {
    pgas_verbs_qp_t *qp;
    pgas_verbs_cq_t *cq;
    uint32_t each, signaled_each; /* entries of a piece; pieces of a completion */
    uint32_t pieces, first;       /* that the ring holds; position of the first entry */
    uint64_t enabled, done;       /* pieces, ever */
} ring_t;

static struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_mem_t mem;
    int n_replicas;
    uint32_t slots, stride, carried;
    ring_t next, loop, master;
    pgas_verbs_qp_t *prev, *starter; /* receives; lets the rings run */
    pgas_verbs_qp_t *still;          /* has executed one entry, and no more follow */
    pgas_verbs_cq_t *recv_cq, *starter_cq, *still_cq;
    uint64_t n_received, unposted;
    pgas_gptr_t posted; /* a word of each rank: receive entries that it has posted, ever */
    pgas_verbs_recv_t recvs[BATCH];
    pgas_verbs_span_t spans[BATCH][3];
} e;

static bool is_replica(const group_run_t *run)
{
    return run->rank > 0;
}

/* ---- memory: region | programs | staging ---- */

static uint64_t region_at(uint64_t offset)
{
    return (uintptr_t)e.mem.addr + offset;
}

static uint64_t staging_at(uint64_t k)
{
    return region_at(GROUP_REGION_BYTES) + (uint64_t)e.slots * (ENTRY_BYTES + SEGMENT_BYTES) +
           k % e.slots * e.stride;
}

/* Bytes of the message of this rank. */
static uint32_t message_bytes(const group_run_t *run)
{
    uint32_t left = (uint32_t)(e.n_replicas - run->rank), words = (uint32_t)e.n_replicas * 8;
    return left * (ENTRY_BYTES + SEGMENT_BYTES) + words + (left > 0 ? e.carried : 0);
}

/* ---- objects ---- */

static pgas_verbs_cq_t *open_cq(uint32_t flags)
{
    pgas_verbs_cq_t *cq;
    bench_check(pgas_verbs_cq_create(e.dev, 2 * e.slots, flags, &cq), "pgas_verbs_cq_create");
    return cq;
}

static pgas_verbs_qp_t *open_qp(pgas_verbs_cq_t *send_cq, pgas_verbs_cq_t *recv_cq,
                                uint32_t send_depth, uint32_t recv_depth, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp;
    opts.send_cq = send_cq;
    opts.recv_cq = recv_cq;
    opts.send_depth = send_depth;
    opts.recv_depth = recv_depth;
    opts.send_spans = 1;
    opts.recv_spans = 3;
    opts.inline_max = 0;
    opts.flags = flags;
    bench_check(pgas_verbs_qp_create(e.dev, &opts, &qp), "pgas_verbs_qp_create");
    return qp;
}

static pgas_verbs_address_t address_of(const pgas_verbs_qp_t *qp)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    bench_check(pgas_verbs_qp_info(qp, &info), "pgas_verbs_qp_info");
    return info.address;
}

static void connect_to(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer)
{
    bench_check(pgas_verbs_qp_connect(qp, peer), "pgas_verbs_qp_connect");
}

static void connect_self(pgas_verbs_qp_t *qp)
{
    pgas_verbs_address_t own = address_of(qp);
    connect_to(qp, &own);
}

static void post(pgas_verbs_qp_t *qp, pgas_verbs_request_t request)
{
    bench_check(pgas_verbs_qp_post(qp, &request, 1, NULL), "pgas_verbs_qp_post");
}

/* ---- rings ---- */

static void open_ring(ring_t *ring, uint32_t each, uint32_t signaled_each, uint32_t flags)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    ring->cq = open_cq(0);
    ring->qp = open_qp(ring->cq, ring->cq, each * e.slots, 1, RING | flags);
    bench_check(pgas_verbs_qp_info(ring->qp, &info), "pgas_verbs_qp_info");
    ring->each = each;
    ring->signaled_each = signaled_each;
    ring->pieces = (uint32_t)(info.slots.bytes / info.slot_bytes) / each;
    ring->first = pgas_verbs_qp_position(ring->qp);
}

static void close_ring(ring_t *ring)
{
    if (!ring->qp)
        return;
    pgas_verbs_qp_destroy(ring->qp);
    bench_check(pgas_verbs_cq_destroy(ring->cq), "pgas_verbs_cq_destroy");
    *ring = (ring_t){ 0 };
}

static uint32_t signal_of(const ring_t *ring, uint32_t k)
{
    return k % ring->signaled_each == ring->signaled_each - 1 ? PGAS_VERBS_SIGNAL : 0;
}

static void fill_next(const group_run_t *run)
{
    for (uint32_t k = 0; k < e.next.pieces; k++) {
        const pgas_verbs_span_t span = { staging_at(k), message_bytes(run), e.mem.lkey };
        bool wakes = k % (e.slots / 4) == e.slots / 4 - 1;
        post(e.next.qp, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND,
                                                .flags = PGAS_VERBS_MORE | signal_of(&e.next, k) |
                                                         (wakes ? PGAS_VERBS_SOLICITED : 0),
                                                .spans = &span,
                                                .n_spans = 1 });
    }
}

/* The operation on the region. */
static void fill_loop(const group_run_t *run)
{
    for (uint32_t k = 0; k < e.loop.pieces; k++) {
        uint32_t bytes = run->kind == PGAS_GROUP_CAS ? 8
                         : run->bytes < run->piece   ? (uint32_t)run->bytes
                                                     : run->piece;
        uint64_t at = k % (GROUP_REGION_BYTES / 2 / bytes) * bytes;
        pgas_verbs_span_t span = { staging_at(k), bytes, e.mem.lkey };
        pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                         .flags = PGAS_VERBS_MORE | signal_of(&e.loop, k),
                                         .spans = &span,
                                         .n_spans = 1,
                                         .remote_addr = region_at(GROUP_REGION_BYTES / 2 + at),
                                         .rkey = e.mem.rkey,
                                         .compare = k,
                                         .operand = k };
        if (run->kind == PGAS_GROUP_MEMCPY)
            span.addr = region_at(at);
        else if (run->kind == PGAS_GROUP_FLUSH)
            request.op = PGAS_VERBS_READ;
        else if (run->kind == PGAS_GROUP_CAS)
            request.op = PGAS_VERBS_CSWAP;
        post(e.loop.qp, request);
    }
}

/* Each piece as in a chain, but every entry of it refers to what has happened already. */
static void fill_master(void)
{
    for (uint32_t k = 0; k < e.master.pieces; k++) {
        const pgas_verbs_request_t wait = { .op = PGAS_VERBS_WAIT,
                                            .flags = PGAS_VERBS_MORE,
                                            .cq = e.still_cq };
        pgas_verbs_request_t enable = { .op = PGAS_VERBS_SEND_ENABLE,
                                        .flags = PGAS_VERBS_MORE,
                                        .qp = e.still,
                                        .index = pgas_verbs_qp_position(e.still) };
        post(e.master.qp, wait);
        post(e.master.qp, enable);
        post(e.master.qp, wait);
        enable.flags |= signal_of(&e.master, k);
        post(e.master.qp, enable);
    }
}

static void open_still(void)
{
    e.still_cq = open_cq(0);
    e.still = open_qp(e.still_cq, e.still_cq, 1, 1, PGAS_VERBS_QP_MANAGED_SEND);
    connect_self(e.still);
    post(e.still, (pgas_verbs_request_t){ .op = PGAS_VERBS_NOP, .flags = PGAS_VERBS_SIGNAL });
    post(e.starter, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND_ENABLE,
                                            .flags = PGAS_VERBS_SIGNAL,
                                            .qp = e.still,
                                            .index = pgas_verbs_qp_position(e.still) });
}

/* ---- receive entries ---- */

static void describe_receives(const group_run_t *run, uint64_t first)
{
    for (uint32_t i = 0; i < BATCH; i++) {
        uint64_t k = (first + i) % e.slots, n = 0;
        uint64_t programs = region_at(GROUP_REGION_BYTES) + k * (ENTRY_BYTES + SEGMENT_BYTES);
        if (is_replica(run)) {
            e.spans[i][n++] = (pgas_verbs_span_t){ programs, ENTRY_BYTES, e.mem.lkey };
            e.spans[i][n++] =
                (pgas_verbs_span_t){ programs + ENTRY_BYTES, SEGMENT_BYTES, e.mem.lkey };
        }
        e.spans[i][n++] = (pgas_verbs_span_t){ staging_at(k), e.stride, e.mem.lkey };
        e.recvs[i] = (pgas_verbs_recv_t){ .spans = e.spans[i], .n_spans = (uint32_t)n };
    }
}

static void receive_batch(const group_run_t *run, uint64_t first)
{
    uint32_t taken;
    describe_receives(run, first);
    bench_check(pgas_verbs_qp_recv(e.prev, e.recvs, BATCH, &taken), "pgas_verbs_qp_recv");
    bench_check(pgas_put_u64(pgas_gptr_at(e.posted, run->rank), first + BATCH), "pgas_put_u64");
}

/* ---- open and close ---- */

static void connect_all(const group_run_t *run)
{
    pgas_verbs_address_t mine[2] = { address_of(e.prev), address_of(e.next.qp) };
    pgas_verbs_address_t *all = calloc((size_t)run->n_ranks, sizeof mine);
    int after = (run->rank + 1) % run->n_ranks,
        before = (run->rank + run->n_ranks - 1) % run->n_ranks;
    if (!all)
        bench_die("out of memory");
    bench_check(pgas_allgather(NULL, mine, all, sizeof mine), "pgas_allgather");
    connect_to(e.prev, &all[2 * before + 1]);
    connect_to(e.next.qp, &all[2 * after]);
    free(all);
    if (is_replica(run)) {
        connect_self(e.loop.qp);
        connect_self(e.master.qp);
    }
}

static bool open_device(void)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_info_t info = { .size = sizeof info };
    opts.device = group_device;
    opts.engine = PGAS_VERBS_ENGINE_PROCESS;
    pgas_status_t status = pgas_verbs_open(&opts, &e.dev);
    bool can = status == PGAS_OK && pgas_verbs_info(e.dev, &info) == PGAS_OK && info.chains;
    if (!can)
        bench_say("engine: %s", status != PGAS_OK ? pgas_status_text(status) : info.chains_why);
    int32_t mine = can, least = 0;
    bench_check(pgas_allreduce(NULL, &mine, &least, 1, PGAS_I32, PGAS_MIN), "pgas_allreduce");
    if (!least)
        pgas_verbs_close(e.dev);
    return least != 0;
}

static bool open_engine(const group_run_t *run)
{
    memset(&e, 0, sizeof e);
    if (!open_device())
        return false;
    if (run->rank == 0)
        group_place_nic();
    e.n_replicas = run->n_ranks - 1;
    e.carried = run->kind != PGAS_GROUP_WRITE ? 0
                : run->bytes < run->piece     ? (uint32_t)run->bytes
                                              : run->piece;
    uint32_t data = run->kind == PGAS_GROUP_FLUSH && run->bytes > e.carried
                        ? (uint32_t)(run->bytes < run->piece ? run->bytes : run->piece)
                        : e.carried;
    e.stride = ((uint32_t)e.n_replicas * (ENTRY_BYTES + SEGMENT_BYTES + 8) + data + 63) / 64 * 64;
    for (e.slots = SLOTS_MIN;
         e.slots < SLOTS_MAX && 2 * e.slots * (size_t)e.stride <= STAGING_BYTES;)
        e.slots *= 2;
    bench_check(pgas_verbs_mem_register(
                    e.dev, NULL,
                    GROUP_REGION_BYTES + (size_t)e.slots * (ENTRY_BYTES + SEGMENT_BYTES + e.stride),
                    PGAS_VERBS_ACCESS_ALL, &e.mem),
                "pgas_verbs_mem_register");
    e.recv_cq = open_cq(PGAS_VERBS_CQ_EVENTS);
    e.starter_cq = open_cq(0);
    e.starter = open_qp(e.starter_cq, e.starter_cq, 64, 1, PGAS_VERBS_QP_MASTER);
    connect_self(e.starter);
    open_still();
    open_ring(&e.next, 1, SIGNALED_EACH, 0);
    e.prev = open_qp(e.recv_cq, e.recv_cq, 1, e.slots, 0);
    if (is_replica(run)) {
        open_ring(&e.loop, 1, 1, 0);
        open_ring(&e.master, MASTER_EACH, SIGNALED_EACH, PGAS_VERBS_QP_MASTER);
    }
    bench_check(pgas_alloc(64, &e.posted), "pgas_alloc");
    connect_all(run);
    fill_next(run);
    if (is_replica(run)) {
        fill_loop(run);
        fill_master();
    }
    for (uint32_t k = 0; k < e.slots; k += BATCH)
        receive_batch(run, k);
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    return true;
}

static void close_engine(void)
{
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    close_ring(&e.master);
    close_ring(&e.loop);
    close_ring(&e.next);
    pgas_verbs_qp_destroy(e.prev);
    pgas_verbs_qp_destroy(e.starter);
    pgas_verbs_qp_destroy(e.still);
    bench_check(pgas_verbs_cq_destroy(e.still_cq), "pgas_verbs_cq_destroy");
    bench_check(pgas_verbs_cq_destroy(e.recv_cq), "pgas_verbs_cq_destroy");
    bench_check(pgas_verbs_cq_destroy(e.starter_cq), "pgas_verbs_cq_destroy");
    pgas_verbs_mem_release(e.dev, &e.mem);
    bench_check(pgas_verbs_close(e.dev), "pgas_verbs_close");
    bench_check(pgas_free(e.posted), "pgas_free");
}

/* ---- a loop ---- */

static uint64_t poll_good(pgas_verbs_cq_t *cq)
{
    pgas_verbs_completion_t completions[BATCH];
    int n = pgas_verbs_cq_poll(cq, completions, BATCH);
    for (int i = 0; i < n; i++)
        bench_check(completions[i].status, "an entry");
    if (n < 0)
        bench_die("a completion queue has overrun");
    return (uint64_t)n;
}

/* Lets a ring run up to a piece. */
static bool enable(ring_t *ring, uint64_t upto)
{
    if (upto <= ring->enabled)
        return false;
    ring->enabled = upto;
    post(e.starter, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND_ENABLE,
                                            .flags = PGAS_VERBS_SIGNAL,
                                            .qp = ring->qp,
                                            .index = ring->first + (uint32_t)(upto * ring->each) });
    return true;
}

/* A whole batch ahead of what is complete, if the pieces are there. */
static uint64_t next_stop(const ring_t *ring, uint64_t end, uint64_t room)
{
    uint64_t upto = ring->done + e.slots;
    upto = upto < room ? upto : room;
    if (upto >= end)
        return end;
    return upto - upto % BATCH;
}

static bool drive(ring_t *ring, uint64_t end, uint64_t room)
{
    bool moved = false;
    if (!ring->qp)
        return false;
    for (uint64_t n; ring->done < end && (n = poll_good(ring->cq)) > 0; moved = true)
        ring->done += n * ring->signaled_each;
    return enable(ring, next_stop(ring, end, room)) || moved;
}

static bool receive(const group_run_t *run)
{
    uint64_t n = poll_good(e.recv_cq);
    e.n_received += n;
    for (e.unposted += n; e.unposted >= BATCH; e.unposted -= BATCH)
        receive_batch(run, e.n_received - e.unposted + e.slots);
    return n > 0;
}

static bool is_over(const ring_t *ring, uint64_t end)
{
    return !ring->qp || ring->done >= end;
}

/* Sleeps until a quarter of the ring has been received: the software NIC needs the core. */
static void rest(void)
{
    const struct timespec limit = { 0, WAIT_NS };
    struct pollfd wanted = { .events = POLLIN };
    bench_check(pgas_verbs_cq_fd(e.recv_cq, &wanted.fd), "pgas_verbs_cq_fd");
    if (pgas_verbs_cq_arm(e.recv_cq, true) == PGAS_OK)
        ppoll(&wanted, 1, &limit, NULL);
}

static void loop_engine(const group_run_t *run, group_result_t *result_p)
{
    /* whole batches: so the last entry of a ring is signaled */
    uint64_t n = (run->n * group_pieces(run) + BATCH - 1) / BATCH * BATCH, room = 0;
    uint64_t end = e.next.enabled + n;
    double limits[2], all[2], cpu_ns;
    *result_p = (group_result_t){ 0 };
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    cpu_ns = group_cpu_ns();
    limits[0] = -(double)bench_now();
    while (e.n_received < end || !is_over(&e.next, end) || !is_over(&e.loop, end) ||
           !is_over(&e.master, end)) {
        bool moved = receive(run);
        bench_check(pgas_get_u64(pgas_gptr_at(e.posted, (run->rank + 1) % run->n_ranks), &room),
                    "pgas_get_u64");
        moved |= drive(&e.next, end, room);
        moved |= drive(&e.loop, end, UINT64_MAX);
        moved |= drive(&e.master, end, UINT64_MAX);
        while (poll_good(e.starter_cq) > 0)
            continue;
        if (!moved)
            rest();
    }
    limits[1] = (double)bench_now();
    cpu_ns = is_replica(run) ? group_cpu_ns() - cpu_ns : 0;
    bench_check(pgas_allreduce(NULL, limits, all, 2, PGAS_F64, PGAS_MAX), "pgas_allreduce");
    bench_check(pgas_reduce(NULL, &cpu_ns, 1, PGAS_F64, PGAS_ADD, 0), "pgas_reduce");
    result_p->ns = (all[1] + all[0]) * (double)(run->n * group_pieces(run)) / (double)n;
    result_p->cpu_ns = cpu_ns;
}

const group_way_t group_engine = {
    .name = "engine",
    .doc = "the bare engine: the entries of chain, without their order and without the protocol",
    .is_engine = true,
    .n_entries = SLOTS_MAX,
    .open = open_engine,
    .loop = loop_engine,
    .close = close_engine
};
