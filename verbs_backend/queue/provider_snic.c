/* The provider "snic": queues of our own bytes (raw.h) on the software NIC (snic/snic.h). Devices,
 * memory and completion queues; snic_qp.c has the rest. */
#include "verbs_backend/queue/snic_qp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/log.h"

/** The content of a packed description. */
typedef struct {
    pgasi_snic_id_t id;
    uint32_t key;
    uint32_t padding;
} packed_t;

/* ---- devices ---- */

static const pgas_verbs_info_t info = { .size = sizeof info,
                                        .name = "snic",
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
    pgasi_snic_dev_t *dev = calloc(1, sizeof *dev);
    if (!dev)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_raw_dev_init(&dev->raw);
    if (status != PGAS_OK)
        goto free_dev;
    const pgas_verbs_snic_opts_t *knobs = opts->snic;
    const pgasi_snic_opts_t snic_opts = { .engine = knobs && knobs->step ? PGASI_SNIC_ENGINE_STEP
                                                                         : opts->engine,
                                          .adversary = knobs ? knobs->adversary : 0,
                                          .seed = knobs ? knobs->seed : 0,
                                          .engine_name = opts->engine_name };
    status = pgasi_snic_open(&snic_opts, &dev->snic);
    if (status != PGAS_OK)
        goto fini_raw;
    dev->pd = pgasi_snic_pd_open(dev->snic);
    dev->start = snic_opts.adversary & PGAS_VERBS_SNIC_WRAP ? PGASI_SNIC_WRAP_START : 0;
    pgasi_snic_id(dev->snic, &dev->id);
    dev->raw.super.info = info;
    pgasi_verbs_limits_t *limits = &dev->raw.super.limits;
    limits->send_depth_max = limits->recv_depth_max = PGASI_SNIC_QUEUE_MAX;
    limits->reads_max = PGASI_SNIC_READS_MAX;
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
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base);
    pgasi_snic_close(dev->snic);
    pgasi_raw_dev_fini(&dev->raw);
    free(dev);
}

static bool snic_step(pgas_verbs_dev_t *dev)
{
    return pgasi_snic_step(pgasi_snic_dev_of(dev)->snic);
}

/* ---- memory ---- */

/* Allocated memory is a memfd of its own. Its descriptor is kept in a field that users do not read;
 * 0 means that the memory was only registered. */
static pgas_status_t enter_memory(pgasi_snic_dev_t *dev, void *addr, size_t bytes, uint32_t access,
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
        /* MS_ASYNC only checks that the range is mapped */
        (uintptr_t)addr + bytes > (uintptr_t)addr &&
        (msync((void *)first, (uintptr_t)addr - first + bytes, MS_ASYNC) == 0 || errno != ENOMEM);
    return mapped ? enter_memory(pgasi_snic_dev_of(dev), addr, bytes, access, -1, mem_p)
                  : PGAS_ERR_INVALID;
}

static pgas_status_t snic_mem_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                    pgas_verbs_mem_t *mem_p)
{
    int fd = pgasi_snic_memory("pgas-verbs", bytes);
    if (fd < 0)
        return errno == EMFILE || errno == ENFILE ? PGAS_ERR_LIMIT : PGAS_ERR_NO_MEMORY;
    void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    pgas_status_t status =
        addr == MAP_FAILED ? PGAS_ERR_NO_MEMORY
                           : enter_memory(pgasi_snic_dev_of(dev), addr, bytes, access, fd, mem_p);
    if (status != PGAS_OK) {
        if (addr != MAP_FAILED)
            munmap(addr, bytes);
        close(fd);
    }
    return status;
}

/* Shares the file of the first device, which closes it. */
static pgas_status_t snic_mem_again(pgas_verbs_dev_t *dev, const pgas_verbs_mem_t *first,
                                    uint32_t access, pgas_verbs_mem_t *mem_p)
{
    pgas_status_t status = enter_memory(pgasi_snic_dev_of(dev), first->addr, first->bytes, access,
                                        (int)(intptr_t)first->inside - 1, mem_p);
    if (status == PGAS_OK)
        mem_p->inside = NULL;
    return status;
}

static void snic_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem)
{
    int fd = (int)(intptr_t)mem->inside - 1;
    pgasi_snic_mr_close(pgasi_snic_dev_of(dev)->snic, mem->lkey);
    if (fd >= 0) {
        munmap(mem->addr, mem->bytes);
        close(fd);
    }
}

static pgas_status_t snic_mem_pack(pgas_verbs_dev_t *dev, const pgas_verbs_mem_t *mem, void *buffer,
                                   size_t *bytes_io)
{
    packed_t packed = { .id = pgasi_snic_dev_of(dev)->id, .key = mem->rkey };
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
    if (packed.id.machine != pgasi_snic_dev_of(dev)->id.machine)
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
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base);
    pgasi_snic_cq_queue_t *cq = calloc(1, sizeof *cq);
    if (!cq)
        return PGAS_ERR_NO_MEMORY;
    uint32_t log = pgasi_log2_up(depth);
    void *ring;
    pgas_status_t status = PGAS_ERR_NO_MEMORY;
    cq->event_fds[0] = cq->event_fds[1] = -1;
    cq->queue_bytes = ((size_t)PGASI_WQE_BB << log) + PGASI_SNIC_RECORD_BYTES;
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
    pgasi_snic_cq_queue_t *cq = pgasi_snic_cq_of(base);
    pgasi_snic_dev_t *dev = pgasi_snic_dev_of(base->dev);
    pgasi_raw_leave_cq(&dev->raw, &cq->raw);
    pgasi_snic_cq_close(dev->snic, cq->raw.number);
    pgasi_snic_arena_give(dev->snic, cq->queue, cq->queue_bytes);
    if (cq->event_fds[0] >= 0) {
        close(cq->event_fds[0]);
        close(cq->event_fds[1]);
    }
    free(cq);
}

/* If the queue is empty, the polling thread executes what is left, where the engine's mode says
 * so. */
static int snic_cq_poll(pgas_verbs_cq_t *base, pgas_verbs_completion_t *completions, int n)
{
    int got = pgasi_raw_poll(base, completions, n);
    if (got > 0)
        return got;
    pgasi_snic_t *snic = pgasi_snic_dev_of(base->dev)->snic;
    if (pgasi_snic_run(snic))
        got = pgasi_raw_poll(base, completions, n);
    bool dead = got == 0 && (pgasi_snic_cq_dead(snic, pgasi_snic_cq_of(base)->raw.number) ||
                             pgasi_snic_process_gone(snic));
    return PGAS_UNLIKELY(dead) ? -1 : got;
}

static pgas_status_t snic_cq_fd(pgas_verbs_cq_t *cq, int *fd_p)
{
    *fd_p = pgasi_snic_cq_of(cq)->event_fds[0];
    return PGAS_OK;
}

static pgas_status_t snic_cq_arm(pgas_verbs_cq_t *base, bool solicited)
{
    pgasi_snic_cq_queue_t *cq = pgasi_snic_cq_of(base);
    char bytes[64];
    while (read(cq->event_fds[0], bytes, sizeof bytes) == (ssize_t)sizeof bytes) {
    }
    return pgasi_snic_cq_arm(pgasi_snic_dev_of(base->dev)->snic, cq->raw.number, solicited)
               ? PGAS_OK
               : PGAS_ERR_BUSY;
}

const pgasi_verbs_ops_t pgasi_verbs_snic = {
    .name = "snic",
    .list = snic_list,
    .open = snic_open,
    .close = snic_close,
    .step = snic_step,
    .mem_register = snic_mem_register,
    .mem_alloc = snic_mem_alloc,
    .mem_again = snic_mem_again,
    .mem_release = snic_mem_release,
    .mem_pack = snic_mem_pack,
    .mem_map = snic_mem_map,
    .mem_unmap = snic_mem_unmap,
    .cq_open = snic_cq_open,
    .cq_close = snic_cq_close,
    .cq_poll = snic_cq_poll,
    .cq_fd = snic_cq_fd,
    .cq_arm = snic_cq_arm,
    .srq_open = pgasi_verbs_snic_srq_open,
    .srq_close = pgasi_verbs_snic_srq_close,
    .srq_recv = pgasi_verbs_snic_srq_recv,
    .qp_open = pgasi_verbs_snic_qp_open,
    .qp_close = pgasi_verbs_snic_qp_close,
    .qp_address = pgasi_verbs_snic_qp_address,
    .qp_connect = pgasi_verbs_snic_qp_connect,
    .qp_write = pgasi_raw_write,
    .qp_write_one = pgasi_raw_write_one,
    .qp_ring = pgasi_raw_ring,
    .qp_position = pgasi_raw_position,
    .qp_recv = pgasi_verbs_snic_qp_recv,
    .qp_buffer = pgasi_verbs_snic_qp_buffer,
};
