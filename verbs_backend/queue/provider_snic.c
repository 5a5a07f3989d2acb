/* The provider "snic": queues of our own bytes (raw.h) on the software NIC (snic/snic.h). */
#include "verbs_backend/queue/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/log.h"
#include "verbs_backend/snic/snic.h"

#define RECORD_BYTES 64
#define READS_MAX    64

typedef struct {
    pgasi_raw_dev_t raw;
    pgasi_snic_t *snic;
    pgasi_snic_id_t id;
    uint32_t pd;
    uint32_t start; /* of indices */
} snic_dev_t;

typedef struct {
    pgasi_raw_cq_t raw;
    pgasi_snic_ref_t queue;
    size_t queue_bytes;
    int event_fds[2];
} snic_cq_queue_t;

typedef struct {
    pgasi_raw_srq_t raw;
    pgasi_snic_ref_t queue;
    size_t queue_bytes;
} snic_srq_queue_t;

typedef struct {
    pgasi_raw_qp_t raw;
    pgasi_snic_t *snic;
    pgasi_snic_ref_t queue; /* send ring, receive ring, record */
    size_t queue_bytes, sq_bytes;
    uint32_t slots_key; /* of the send ring, if peers may write to it */
} snic_qp_queue_t;

typedef struct {
    pgasi_verbs_address_head_t head;
    uint32_t qpn;
    uint32_t psn;
    pgasi_snic_id_t id;
} address_t;
PGASI_STATIC_ASSERT(sizeof(address_t) <= sizeof(pgas_verbs_address_t), "an address fits");

/** What mem_pack tells. */
typedef struct {
    pgasi_snic_id_t id;
    uint32_t key;
    uint32_t padding;
} packed_t;

static snic_dev_t *dev_of(pgas_verbs_dev_t *dev)
{
    return (snic_dev_t *)(void *)dev;
}

static snic_qp_queue_t *qp_of(pgas_verbs_qp_t *qp)
{
    return (snic_qp_queue_t *)(void *)qp;
}

static snic_cq_queue_t *cq_of(pgas_verbs_cq_t *cq)
{
    return (snic_cq_queue_t *)(void *)cq;
}

/* ---- devices ---- */

static const pgas_verbs_info_t info = { .name = "snic",
                                        .provider = "snic",
                                        .port = 1,
                                        .active = true,
                                        .link = "memory",
                                        .gid_index = -1,
                                        .numa_node = -1,
                                        .chains = true };

static pgas_status_t snic_list(pgas_verbs_info_t *infos, int n_max, int *n_p)
{
    if (*n_p < n_max)
        infos[*n_p] = info;
    (*n_p)++;
    return PGAS_OK;
}

static pgas_status_t snic_open(const pgas_verbs_dev_opts_t *opts, const char *device, int port,
                               pgas_verbs_dev_t **dev_p)
{
    if (strcmp(device, "snic") != 0 || port > 1)
        return PGAS_ERR_NOT_FOUND;
    snic_dev_t *dev = calloc(1, sizeof *dev);
    if (!dev)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_raw_dev_init(&dev->raw);
    if (status != PGAS_OK)
        goto free_dev;
    const pgasi_snic_opts_t snic_opts = { .engine = opts->engine,
                                          .adversary = opts->adversary,
                                          .seed = opts->seed,
                                          .engine_name = opts->engine_name };
    status = pgasi_snic_open(&snic_opts, &dev->snic);
    if (status != PGAS_OK)
        goto fini_raw;
    dev->pd = pgasi_snic_pd_open(dev->snic);
    dev->start = opts->adversary & PGAS_VERBS_SNIC_WRAP ? PGASI_SNIC_WRAP_START : 0;
    pgasi_snic_id(dev->snic, &dev->id);
    dev->raw.super.info = info;
    pgasi_verbs_limits_t *limits = &dev->raw.super.limits;
    limits->send_depth_max = limits->recv_depth_max = PGASI_SNIC_QUEUE_MAX;
    limits->reads_max = READS_MAX;
    limits->nop = limits->cpu_atomic = limits->chains = true;
    *dev_p = &dev->raw.super;
    return PGAS_OK;
fini_raw:
    pgasi_raw_dev_fini(&dev->raw);
free_dev:
    free(dev);
    return status;
}

static void snic_close(pgas_verbs_dev_t *base)
{
    snic_dev_t *dev = dev_of(base);
    pgasi_snic_close(dev->snic);
    pgasi_raw_dev_fini(&dev->raw);
    free(dev);
}

static bool snic_step(pgas_verbs_dev_t *dev)
{
    return pgasi_snic_step(dev_of(dev)->snic);
}

/* ---- memory ---- */

/* What was allocated lies in a memfd of its own, whose number is kept where users do not look: 0
 * means that it was registered. */
static pgas_status_t enter_memory(snic_dev_t *dev, void *addr, size_t bytes, uint32_t access,
                                  int fd, pgas_verbs_mem_t *mem_p)
{
    uint32_t key = pgasi_snic_mr_open(dev->snic, dev->pd, addr, bytes, access, fd, 0);
    if (key == 0)
        return PGAS_ERR_LIMIT;
    *mem_p = (pgas_verbs_mem_t){
        .addr = addr, .bytes = bytes, .lkey = key, .rkey = key, .inside = (void *)(intptr_t)(fd + 1)
    };
    return PGAS_OK;
}

static pgas_status_t snic_mem_register(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                       uint32_t access, pgas_verbs_mem_t *mem_p)
{
    uintptr_t first = (uintptr_t)addr & ~(uintptr_t)4095;
    bool mapped =
        (uintptr_t)addr + bytes > (uintptr_t)addr && /* MS_ASYNC does nothing but look */
        (msync((void *)first, (uintptr_t)addr - first + bytes, MS_ASYNC) == 0 || errno != ENOMEM);
    return mapped ? enter_memory(dev_of(dev), addr, bytes, access, -1, mem_p) : PGAS_ERR_INVALID;
}

static pgas_status_t snic_mem_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                    pgas_verbs_mem_t *mem_p)
{
    int fd = pgasi_snic_memory("pgas-verbs", bytes);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? PGAS_ERR_LIMIT : PGAS_ERR_NO_MEMORY;
    void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    pgas_status_t status = addr == MAP_FAILED
                               ? PGAS_ERR_NO_MEMORY
                               : enter_memory(dev_of(dev), addr, bytes, access, fd, mem_p);
    if (status != PGAS_OK) {
        if (addr != MAP_FAILED)
            munmap(addr, bytes);
        close(fd);
    }
    return status;
}

static void snic_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem)
{
    int fd = (int)(intptr_t)mem->inside - 1;
    pgasi_snic_mr_close(dev_of(dev)->snic, mem->lkey);
    if (fd >= 0) {
        munmap(mem->addr, mem->bytes);
        close(fd);
    }
}

static pgas_status_t snic_mem_pack(pgas_verbs_dev_t *dev, const pgas_verbs_mem_t *mem, void *buffer,
                                   size_t *bytes_io)
{
    packed_t packed = { .id = dev_of(dev)->id, .key = mem->rkey };
    if (*bytes_io < sizeof packed)
        return PGAS_ERR_LIMIT;
    memcpy(buffer, &packed, sizeof packed);
    *bytes_io = sizeof packed;
    return PGAS_OK;
}

static pgas_status_t snic_mem_map(pgas_verbs_dev_t *dev, const void *buffer, size_t bytes,
                                  void **addr_p)
{
    packed_t packed;
    if (bytes < sizeof packed)
        return PGAS_ERR_FORMAT;
    memcpy(&packed, buffer, sizeof packed);
    if (packed.id.machine != dev_of(dev)->id.machine)
        return PGAS_ERR_UNSUPPORTED;
    return pgasi_snic_map(&packed.id, packed.key, addr_p);
}

static void snic_mem_unmap(pgas_verbs_dev_t *dev, const void *buffer, size_t bytes, void *addr)
{
    packed_t packed;
    (void)dev, (void)addr;
    if (bytes >= sizeof packed) {
        memcpy(&packed, buffer, sizeof packed);
        pgasi_snic_unmap(&packed.id);
    }
}

/* ---- completion queues ---- */

static pgas_status_t snic_cq_open(pgas_verbs_dev_t *base, uint32_t depth, uint32_t flags,
                                  pgas_verbs_cq_t **cq_p)
{
    snic_dev_t *dev = dev_of(base);
    snic_cq_queue_t *cq = calloc(1, sizeof *cq);
    if (!cq)
        return PGAS_ERR_NO_MEMORY;
    uint32_t log = pgasi_log2_up(depth);
    void *ring;
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    cq->event_fds[0] = cq->event_fds[1] = -1;
    cq->queue_bytes = ((size_t)PGASI_WQE_BB << log) + RECORD_BYTES;
    cq->queue = pgasi_snic_arena_take(dev->snic, cq->queue_bytes, PGASI_WQE_BB, &ring);
    if (cq->queue == 0)
        goto free_cq;
    if ((flags & PGAS_VERBS_CQ_EVENTS) != 0 && pipe2(cq->event_fds, O_NONBLOCK | O_CLOEXEC) != 0) {
        status = PGAS_ERR_LIMIT;
        goto give_queue;
    }
    size_t ring_bytes = (size_t)PGASI_WQE_BB << log;
    pgasi_raw_cq_init(&cq->raw, ring, 1u << log, (uint32_t *)(void *)((char *)ring + ring_bytes));
    pgasi_raw_cq_start(&cq->raw, dev->start);
    const pgasi_snic_cq_opts_t opts = { .log_entries = log,
                                        .ring = cq->queue,
                                        .record = cq->queue + ring_bytes,
                                        .ignore_overrun = flags & PGAS_VERBS_CQ_IGNORE_OVERRUN,
                                        .event_fd = cq->event_fds[1] };
    cq->raw.number = pgasi_snic_cq_open(dev->snic, &opts);
    status = PGAS_ERR_LIMIT;
    if (cq->raw.number == 0)
        goto close_fds;
    cq->raw.super.depth = 1u << log;
    pgasi_raw_enter_cq(&dev->raw, &cq->raw);
    *cq_p = &cq->raw.super;
    return PGAS_OK;
close_fds:
    if (cq->event_fds[0] >= 0) {
        close(cq->event_fds[0]);
        close(cq->event_fds[1]);
    }
give_queue:
    pgasi_snic_arena_give(dev->snic, cq->queue, cq->queue_bytes);
free_cq:
    free(cq);
    return status;
}

static void snic_cq_close(pgas_verbs_cq_t *base)
{
    snic_cq_queue_t *cq = cq_of(base);
    snic_dev_t *dev = dev_of(base->dev);
    pgasi_raw_leave_cq(&dev->raw, &cq->raw);
    pgasi_snic_cq_close(dev->snic, cq->raw.number);
    pgasi_snic_arena_give(dev->snic, cq->queue, cq->queue_bytes);
    if (cq->event_fds[0] >= 0) {
        close(cq->event_fds[0]);
        close(cq->event_fds[1]);
    }
    free(cq);
}

/* An empty queue is the moment to carry out what is left, if that is ours to do. */
static int snic_cq_poll(pgas_verbs_cq_t *base, pgas_verbs_completion_t *completions, int n)
{
    int got = pgasi_raw_poll(base, completions, n);
    if (got > 0)
        return got;
    pgasi_snic_t *snic = dev_of(base->dev)->snic;
    if (pgasi_snic_run(snic))
        got = pgasi_raw_poll(base, completions, n);
    bool dead = got == 0 && (pgasi_snic_cq_dead(snic, cq_of(base)->raw.number) ||
                             pgasi_snic_process_gone(snic));
    return PGAS_UNLIKELY(dead) ? -1 : got;
}

static pgas_status_t snic_cq_fd(pgas_verbs_cq_t *cq, int *fd_p)
{
    *fd_p = cq_of(cq)->event_fds[0];
    return PGAS_OK;
}

static pgas_status_t snic_cq_arm(pgas_verbs_cq_t *base, bool solicited)
{
    snic_cq_queue_t *cq = cq_of(base);
    char bytes[64];
    while (read(cq->event_fds[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
    }
    return pgasi_snic_cq_arm(dev_of(base->dev)->snic, cq->raw.number, solicited) ? PGAS_OK
                                                                                 : PGAS_ERR_BUSY;
}

/* ---- shared receive queues ---- */

static pgas_status_t snic_srq_open(pgas_verbs_dev_t *base, uint32_t depth, uint32_t spans,
                                   pgas_verbs_srq_t **srq_p)
{
    snic_dev_t *dev = dev_of(base);
    snic_srq_queue_t *srq = calloc(1, sizeof *srq);
    if (!srq)
        return PGAS_ERR_NO_MEMORY;
    /* one slot stays free */
    uint32_t log = pgasi_log2_up(depth + 1), stride = pgasi_raw_stride(spans, true);
    size_t ring_bytes = (size_t)stride << log;
    void *ring;
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    srq->queue_bytes = ring_bytes + RECORD_BYTES;
    srq->queue = pgasi_snic_arena_take(dev->snic, srq->queue_bytes, PGASI_WQE_BB, &ring);
    if (srq->queue == 0)
        goto free_srq;
    status = pgasi_raw_srq_init(&srq->raw, ring, 1u << log, stride,
                                (uint32_t *)(void *)((char *)ring + ring_bytes));
    if (status != PGAS_OK)
        goto give_queue;
    pgasi_raw_srq_start(&srq->raw, dev->start);
    const pgasi_snic_srq_opts_t opts = { .log_entries = log,
                                         .stride = stride,
                                         .ring = srq->queue,
                                         .record = srq->queue + ring_bytes,
                                         .pd = dev->pd };
    srq->raw.number = pgasi_snic_srq_open(dev->snic, &opts);
    status = srq->raw.number == 0 ? PGAS_ERR_LIMIT
                                  : pgasi_raw_enter_srq(&dev->raw, srq->raw.number, &srq->raw);
    if (status != PGAS_OK)
        goto fini_raw;
    srq->raw.super.depth = (1u << log) - 1;
    srq->raw.super.spans = spans;
    *srq_p = &srq->raw.super;
    return PGAS_OK;
fini_raw:
    if (srq->raw.number != 0)
        pgasi_snic_srq_close(dev->snic, srq->raw.number);
    pgasi_raw_srq_fini(&srq->raw);
give_queue:
    pgasi_snic_arena_give(dev->snic, srq->queue, srq->queue_bytes);
free_srq:
    free(srq);
    return status;
}

static void snic_srq_close(pgas_verbs_srq_t *base)
{
    snic_srq_queue_t *srq = (snic_srq_queue_t *)(void *)base;
    snic_dev_t *dev = dev_of(base->dev);
    pgasi_snic_srq_close(dev->snic, srq->raw.number);
    pgasi_raw_enter_srq(&dev->raw, srq->raw.number, NULL);
    pgasi_raw_srq_fini(&srq->raw);
    pgasi_snic_arena_give(dev->snic, srq->queue, srq->queue_bytes);
    free(srq);
}

static pgas_status_t snic_srq_recv(pgas_verbs_srq_t *base, const pgas_verbs_recv_t *recvs,
                                   uint32_t n, uint32_t *n_p)
{
    pgas_status_t status = pgasi_raw_srq_recv(base, recvs, n, n_p);
    pgasi_snic_srq_posted(dev_of(base->dev)->snic,
                          ((const snic_srq_queue_t *)(const void *)base)->raw.number);
    return status;
}

/* ---- queue pairs ---- */

static void ring_doorbell(pgasi_raw_qp_t *raw)
{
    pgasi_snic_ring(((snic_qp_queue_t *)(void *)raw)->snic, raw->number, raw->sq.pi);
}

/* A card that is told of a managed queue's entries would run them. */
static void ring_nothing(pgasi_raw_qp_t *raw)
{
    (void)raw;
}

static uint32_t snic_flags(uint32_t flags)
{
    return (flags & PGAS_VERBS_QP_MASTER ? PGASI_SNIC_MASTER : 0) |
           (flags & PGAS_VERBS_QP_MANAGED_SEND ? PGASI_SNIC_MANAGED_SEND : 0) |
           (flags & PGAS_VERBS_QP_MANAGED_RECV ? PGASI_SNIC_MANAGED_RECV : 0) |
           (flags & PGAS_VERBS_QP_IGNORE_OVERRUN ? 0 : PGASI_SNIC_CHECK_OVERRUN);
}

static pgas_status_t make_queues(snic_dev_t *dev, snic_qp_queue_t *qp,
                                 pgasi_snic_qp_opts_t *snic_opts)
{
    const pgas_verbs_qp_opts_t *opts = &qp->raw.super.opts;
    uint32_t blocks = pgasi_raw_blocks(opts), stride = pgasi_raw_stride(opts->recv_spans, false);
    uint32_t strides = opts->recv_depth > 0 ? 1u << pgasi_log2_up(opts->recv_depth) : 0;
    if (blocks > PGASI_SNIC_QUEUE_MAX || strides > PGASI_SNIC_QUEUE_MAX)
        return PGAS_ERR_LIMIT;
    void *memory;
    size_t rq_bytes = (size_t)strides * stride;
    qp->sq_bytes = (size_t)blocks * PGASI_WQE_BB;
    qp->queue_bytes = qp->sq_bytes + PGASI_ALIGN_UP(rq_bytes, (size_t)64) + RECORD_BYTES;
    qp->queue = pgasi_snic_arena_take(dev->snic, qp->queue_bytes, 64, &memory);
    if (qp->queue == 0)
        return PGAS_ERR_NO_MEMORY;
    char *record = (char *)memory + qp->queue_bytes - RECORD_BYTES;
    snic_opts->log_sq_blocks = pgasi_log2_up(blocks);
    snic_opts->log_rq_entries = strides > 0 ? pgasi_log2_up(strides) : 0;
    snic_opts->rq_stride = strides > 0 ? stride : 0;
    snic_opts->sq = qp->queue;
    snic_opts->rq = qp->queue + qp->sq_bytes;
    snic_opts->record = qp->queue + qp->queue_bytes - RECORD_BYTES;
    pgas_status_t status =
        pgasi_raw_qp_init(&qp->raw, memory, blocks, (char *)memory + qp->sq_bytes, strides, stride,
                          (uint32_t *)(void *)record);
    if (status == PGAS_OK)
        pgasi_raw_qp_start(&qp->raw, dev->start);
    return status;
}

static void free_queues(snic_dev_t *dev, snic_qp_queue_t *qp)
{
    pgasi_raw_qp_fini(&qp->raw);
    if (qp->queue != 0)
        pgasi_snic_arena_give(dev->snic, qp->queue, qp->queue_bytes);
}

static pgas_status_t snic_qp_open(pgas_verbs_dev_t *base, const pgas_verbs_qp_opts_t *opts,
                                  pgas_verbs_qp_t **qp_p)
{
    snic_dev_t *dev = dev_of(base);
    snic_qp_queue_t *qp = calloc(1, sizeof *qp);
    if (!qp)
        return PGAS_ERR_NO_MEMORY;
    qp->raw.super.dev = base;
    qp->raw.super.opts = *opts;
    qp->snic = dev->snic;
    qp->raw.ring_doorbell = opts->flags & PGAS_VERBS_QP_MANAGED_SEND ? ring_nothing : ring_doorbell;
    pgasi_snic_qp_opts_t snic_opts = {
        .pd = dev->pd,
        .send_cqn = cq_of(opts->send_cq)->raw.number,
        .recv_cqn = cq_of(opts->recv_cq)->raw.number,
        .srqn = opts->srq != NULL ? ((snic_srq_queue_t *)(void *)opts->srq)->raw.number : 0,
        .flags = snic_flags(opts->flags)
    };
    pgas_status_t status = make_queues(dev, qp, &snic_opts);
    if (status != PGAS_OK)
        goto free_qp;
    qp->raw.number = pgasi_snic_qp_open(dev->snic, &snic_opts);
    status = qp->raw.number == 0 ? PGAS_ERR_LIMIT
                                 : pgasi_raw_enter_qp(&dev->raw, qp->raw.number, &qp->raw);
    if (status != PGAS_OK)
        goto free_qp;
    const pgasi_snic_qp_state_t state = { .state = PGASI_SNIC_INIT, .access = opts->access };
    status = pgasi_snic_qp_modify(dev->snic, qp->raw.number, &state);
    if (status != PGAS_OK)
        goto free_qp;
    qp->raw.super.opts.inline_max = PGASI_MAX(opts->inline_max, 1u);
    *qp_p = &qp->raw.super;
    return PGAS_OK;
free_qp:
    if (qp->raw.number != 0) {
        pgasi_raw_enter_qp(&dev->raw, qp->raw.number, NULL);
        pgasi_snic_qp_close(dev->snic, qp->raw.number);
    }
    free_queues(dev, qp);
    free(qp);
    return status;
}

static void snic_qp_close(pgas_verbs_qp_t *base)
{
    snic_qp_queue_t *qp = qp_of(base);
    snic_dev_t *dev = dev_of(base->dev);
    pgasi_snic_qp_close(dev->snic, qp->raw.number);
    pgasi_raw_enter_qp(&dev->raw, qp->raw.number, NULL);
    if (qp->slots_key != 0)
        pgasi_snic_mr_close(dev->snic, qp->slots_key);
    free_queues(dev, qp);
    free(qp);
}

/* The number of the first message: any will do that both ends know. */
static uint32_t first_psn(const snic_dev_t *dev, uint32_t qpn)
{
    return (dev->start != 0 ? dev->start : qpn) & 0xffffffu;
}

static void snic_qp_address(const pgas_verbs_qp_t *base, pgas_verbs_address_t *address_p)
{
    const pgasi_raw_qp_t *qp = (const pgasi_raw_qp_t *)(const void *)base;
    const address_t address = { .head = { PGASI_VERBS_ADDRESS_MAGIC, PGASI_VERBS_WIRE_SNIC },
                                .qpn = qp->number,
                                .psn = first_psn(dev_of(base->dev), qp->number),
                                .id = dev_of(base->dev)->id };
    memcpy(address_p->bytes, &address, sizeof address);
}

static pgas_status_t snic_qp_connect(pgas_verbs_qp_t *base, const pgas_verbs_address_t *peer)
{
    snic_qp_queue_t *qp = qp_of(base);
    snic_dev_t *dev = dev_of(base->dev);
    address_t address;
    memcpy(&address, peer->bytes, sizeof address);
    if (address.head.provider != PGASI_VERBS_WIRE_SNIC)
        return PGAS_ERR_MISMATCH;
    pgasi_snic_qp_state_t state = { .state = PGASI_SNIC_RTR,
                                    .access = base->opts.access,
                                    .peer = &address.id,
                                    .peer_qpn = address.qpn,
                                    .reads_max_in = READS_MAX,
                                    .reads_max = base->opts.reads_max,
                                    .retry = base->opts.retry,
                                    .rnr_retry = base->opts.rnr_retry,
                                    .psn_in = address.psn,
                                    .psn = first_psn(dev, qp->raw.number) };
    pgas_status_t status = pgasi_snic_qp_modify(dev->snic, qp->raw.number, &state);
    if (status != PGAS_OK)
        return status;
    state.state = PGASI_SNIC_RTS;
    status = pgasi_snic_qp_modify(dev->snic, qp->raw.number, &state);
    bool ended = status == PGAS_ERR_INVALID &&
                 pgasi_snic_qp_query(dev->snic, qp->raw.number) == PGASI_SNIC_ERROR;
    /* the peer has posted already, what is refused: completions tell */
    return ended ? PGAS_OK : status;
}

static pgas_status_t snic_qp_recv(pgas_verbs_qp_t *base, const pgas_verbs_recv_t *recvs, uint32_t n,
                                  uint32_t *n_p)
{
    pgas_status_t status = pgasi_raw_recv(base, recvs, n, n_p);
    pgasi_snic_recv_posted(qp_of(base)->snic, qp_of(base)->raw.number);
    return status;
}

static pgas_status_t snic_qp_buffer(pgas_verbs_qp_t *base, pgas_verbs_mem_t *mem_p,
                                    uint32_t *slot_bytes_p)
{
    snic_qp_queue_t *qp = qp_of(base);
    snic_dev_t *dev = dev_of(base->dev);
    if (qp->slots_key == 0) {
        uint64_t offset = qp->queue;
        qp->slots_key =
            pgasi_snic_mr_open(dev->snic, dev->pd, qp->raw.sq.ring, qp->sq_bytes,
                               PGAS_VERBS_ACCESS_ALL, pgasi_snic_devmem_fd(dev->snic), offset);
    }
    if (qp->slots_key == 0)
        return PGAS_ERR_LIMIT;
    *mem_p = (pgas_verbs_mem_t){
        .addr = qp->raw.sq.ring, .bytes = qp->sq_bytes, .lkey = qp->slots_key, .rkey = qp->slots_key
    };
    *slot_bytes_p = PGASI_WQE_BB;
    return PGAS_OK;
}

const pgasi_verbs_ops_t pgasi_verbs_snic = {
    .name = "snic",
    .list = snic_list,
    .open = snic_open,
    .close = snic_close,
    .step = snic_step,
    .mem_register = snic_mem_register,
    .mem_alloc = snic_mem_alloc,
    .mem_release = snic_mem_release,
    .mem_pack = snic_mem_pack,
    .mem_map = snic_mem_map,
    .mem_unmap = snic_mem_unmap,
    .cq_open = snic_cq_open,
    .cq_close = snic_cq_close,
    .cq_poll = snic_cq_poll,
    .cq_fd = snic_cq_fd,
    .cq_arm = snic_cq_arm,
    .srq_open = snic_srq_open,
    .srq_close = snic_srq_close,
    .srq_recv = snic_srq_recv,
    .qp_open = snic_qp_open,
    .qp_close = snic_qp_close,
    .qp_address = snic_qp_address,
    .qp_connect = snic_qp_connect,
    .qp_write = pgasi_raw_write,
    .qp_write_one = pgasi_raw_write_one,
    .qp_ring = pgasi_raw_ring,
    .qp_position = pgasi_raw_position,
    .qp_recv = snic_qp_recv,
    .qp_buffer = snic_qp_buffer,
};
