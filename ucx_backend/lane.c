/* A lane is a UCX worker, used by one thread at a time (thread mode SERIALIZED: UCX takes no lock).
 * Lane 0 is the one that peers address and that receives active messages. */
#include "ucx_backend/ucx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"

#define CURE_OF_OPENING                                                                        \
    "fewer lanes (PGAS_LANES) need less of /dev/shm and fewer descriptors (ulimit -n); if an " \
    "interface was removed meanwhile, exclude it with PGAS_UCX_NET_DEVICES"

static pgas_status_t open_worker(pgasi_ucx_lane_t *lane)
{
    ucp_worker_params_t params;
    memset(&params, 0, sizeof params);
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucs_status_t status = ucp_worker_create(lane->tp->context, &params, &lane->worker);
    if (status != UCS_OK) {
        char doing[64];
        snprintf(doing, sizeof doing, "opening lane %d (ucp_worker_create)", lane->index);
        return pgasi_ucx_failed_again(&lane->tp->told_lane, status, doing, CURE_OF_OPENING);
    }
    ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE };
    status = ucp_worker_query(lane->worker, &attr);
    if (status != UCS_OK || attr.thread_mode == UCS_THREAD_MODE_SINGLE) {
        ucp_worker_destroy(lane->worker);
        return pgasi_ucx_failed(UCS_ERR_UNSUPPORTED,
                                "opening a lane for use by several threads in turn",
                                "this UCX was built without --enable-mt");
    }
    return PGAS_OK;
}

static size_t table_bytes(const pgasi_ucx_lane_t *lane)
{
    return (size_t)lane->tp->opts.n_ranks * sizeof lane->eps[0];
}

/* The count of openings outlives the lane. */
static pgas_status_t remember_openings(pgasi_ucx_t *tp, int index)
{
    pthread_mutex_lock(&tp->lock);
    if (!tp->n_openings[index]) {
        void *table = mmap(NULL, (size_t)tp->opts.n_ranks, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        tp->n_openings[index] = table == MAP_FAILED ? NULL : table;
    }
    bool there = tp->n_openings[index] != NULL;
    pthread_mutex_unlock(&tp->lock);
    return there ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t init_tables(pgasi_ucx_lane_t *lane)
{
    void *table = mmap(NULL, table_bytes(lane), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    lane->eps = table;
    pgasi_pool_init(&lane->sends, sizeof(pgasi_ucx_send_t), 0, 64, PGASI_UCX_PENDING_MAX + 1);
    pgasi_pool_init(&lane->flushes, sizeof(pgasi_ucx_flush_t), 0, 32, 0);
    pgasi_pool_init(&lane->flush_parts, sizeof(pgasi_ucx_flush_part_t), 0, 64, 0);
    pgasi_ucx_journal_pools(lane);
    lane->spare = pgasi_pool_acquire(&lane->sends);
    lane->flush_mark = 1;
    return PGAS_OK;
}

static void fini_tables(pgasi_ucx_lane_t *lane)
{
    pgasi_pool_fini(&lane->large_entries);
    pgasi_pool_fini(&lane->small_entries);
    pgasi_pool_fini(&lane->flush_parts);
    pgasi_pool_fini(&lane->flushes);
    pgasi_pool_fini(&lane->sends);
    munmap(lane->eps, table_bytes(lane));
}

pgas_status_t pgasi_ucx_lane_open(pgasi_tp_t *tp_base, int index, pgasi_tp_lane_t **lane_p)
{
    pgasi_ucx_t *tp = pgasi_ucx_of(tp_base);
    if (index < 0 || index >= PGASI_UCX_LANES_MAX)
        return PGAS_ERR_RANGE;
    pgasi_ucx_lane_t *lane = calloc(1, sizeof *lane);
    if (!lane)
        return PGAS_ERR_NO_MEMORY;
    lane->super.ops = &pgasi_ucx_table;
    lane->tp = tp;
    lane->index = index;
    lane->gate = PGASI_UCX_GATE_IDLE;
    pgas_status_t status = remember_openings(tp, index);
    if (status == PGAS_OK)
        status = init_tables(lane);
    if (status != PGAS_OK)
        goto free_lane;
    status = open_worker(lane);
    if (status != PGAS_OK)
        goto free_tables;
    if (index == 0) {
        status = pgasi_ucx_rx_open(lane);
        if (status != PGAS_OK)
            goto destroy_worker;
    }
    pthread_mutex_lock(&tp->lock);
    bool taken = tp->lanes[index] != NULL;
    if (!taken)
        tp->lanes[index] = lane;
    pthread_mutex_unlock(&tp->lock);
    if (taken) {
        status = PGAS_ERR_EXISTS;
        goto close_rx;
    }
    *lane_p = &lane->super;
    return PGAS_OK;
close_rx:
    pgasi_ucx_rx_stop(lane);
destroy_worker:
    ucp_worker_destroy(lane->worker);
    pgasi_ucx_rx_close(lane);
free_tables:
    fini_tables(lane);
free_lane:
    free(lane);
    return status;
}

static void drained(pgasi_tp_comp_t *self, pgas_status_t status)
{
    (void)status;
    self->fn = NULL;
}

static void begin_drain(pgasi_ucx_lane_t *lane)
{
    lane->phase = PGASI_UCX_DRAINING;
    lane->drain_comp.fn = drained;
    if (pgasi_ucx_flush_peer(&lane->super, PGASI_TP_ALL_PEERS, &lane->drain_comp) !=
        PGAS_INPROGRESS)
        lane->drain_comp.fn = NULL;
    if (lane->index == 0) /* from now on peers may go */
        __atomic_store_n(&lane->tp->closing, true, __ATOMIC_RELAXED);
}

pgas_status_t pgasi_ucx_lane_drain(pgasi_tp_lane_t *tp_lane)
{
    pgasi_ucx_lane_t *lane = pgasi_ucx_lane_of(tp_lane);
    if (lane->phase == PGASI_UCX_OPEN)
        begin_drain(lane);
    if (lane->phase == PGASI_UCX_DRAINING && !lane->drain_comp.fn && lane->n_pending == 0) {
        lane->phase = PGASI_UCX_CLOSING;
        pgasi_ucx_eps_begin_close(lane);
    }
    return lane->phase == PGASI_UCX_CLOSING && lane->n_closing == 0 ? PGAS_OK : PGAS_INPROGRESS;
}

/* What was not drained is given up, and nobody hears of it: what it was sent from may be gone. */
static void give_up(pgasi_ucx_lane_t *lane)
{
    bool closing = lane->phase == PGASI_UCX_CLOSING;
    lane->phase = PGASI_UCX_GIVEN_UP;
    for (pgasi_ucx_flush_t *flush = lane->running; flush != NULL; flush = flush->next)
        flush->comp = NULL; /* whoever waits is gone, we among them */
    if (!closing)
        pgasi_ucx_eps_begin_close(lane);
    pgasi_ucx_eps_give_up(lane);
}

/* Nobody has drained it together with others. */
static void drain_alone(pgasi_ucx_lane_t *lane)
{
    uint64_t deadline_ns = pgasi_now_ns() + PGASI_UCX_CLOSE_NS;
    while (pgasi_ucx_lane_drain(&lane->super) == PGAS_INPROGRESS && pgasi_now_ns() < deadline_ns)
        pgasi_ucx_progress(&lane->super);
}

void pgasi_ucx_lane_close(pgasi_tp_lane_t *tp_lane)
{
    pgasi_ucx_lane_t *lane = pgasi_ucx_lane_of(tp_lane);
    pgasi_ucx_t *tp = lane->tp;
    if (lane->phase == PGASI_UCX_OPEN)
        drain_alone(lane);
    pthread_mutex_lock(&tp->lock);
    tp->lanes[lane->index] = NULL;
    pthread_mutex_unlock(&tp->lock);
    pgasi_ucx_rx_stop(lane);
    give_up(lane);
    ucp_worker_destroy(lane->worker);
    pgasi_ucx_eps_free(lane);
    pgasi_ucx_rx_close(lane);
    fini_tables(lane);
    free(lane);
}

pgas_status_t pgasi_ucx_address(pgasi_tp_t *tp_base, const void **addr_p, size_t *bytes_p)
{
    pgasi_ucx_t *tp = pgasi_ucx_of(tp_base);
    if (!tp->address) {
        if (!tp->lanes[0])
            return PGAS_ERR_NOT_INIT;
        ucp_address_t *address;
        size_t bytes;
        ucs_status_t status = ucp_worker_get_address(tp->lanes[0]->worker, &address, &bytes);
        if (status != UCS_OK)
            return pgasi_ucx_failed(status, "asking for our address", NULL);
        pgasi_ucx_address_t *ours = malloc(sizeof *ours + bytes);
        if (ours) {
            *ours = (pgasi_ucx_address_t){ .magic = PGASI_UCX_ADDRESS_MAGIC, .cookie = tp->cookie };
            memcpy(ours + 1, address, bytes);
            tp->address = ours;
            tp->address_bytes = sizeof *ours + bytes;
        }
        ucp_worker_release_address(tp->lanes[0]->worker, address);
        if (!ours)
            return PGAS_ERR_NO_MEMORY;
    }
    *addr_p = tp->address;
    *bytes_p = tp->address_bytes;
    return PGAS_OK;
}

int pgasi_ucx_progress(pgasi_tp_lane_t *tp_lane)
{
    pgasi_ucx_lane_t *lane = pgasi_ucx_lane_of(tp_lane);
    lane->gate = 0;
    int n = (int)ucp_worker_progress(lane->worker);
    if (PGAS_UNLIKELY(lane->n_ready > 0))
        n += pgasi_ucx_rx_deliver(lane);
    lane->gate = PGASI_UCX_GATE_IDLE;
    if (PGAS_UNLIKELY(__atomic_load_n(&lane->repairs, __ATOMIC_RELAXED) != 0))
        n += pgasi_ucx_repair(lane);
    return n;
}

pgas_status_t pgasi_ucx_event_fd(pgasi_tp_lane_t *lane, int *fd_p)
{
    return pgasi_ucx_status(ucp_worker_get_efd(pgasi_ucx_lane_of(lane)->worker, fd_p));
}

pgas_status_t pgasi_ucx_arm(pgasi_tp_lane_t *lane)
{
    return pgasi_ucx_status(ucp_worker_arm(pgasi_ucx_lane_of(lane)->worker));
}

pgas_status_t pgasi_ucx_wake(pgasi_tp_lane_t *lane)
{
    return pgasi_ucx_status(ucp_worker_signal(pgasi_ucx_lane_of(lane)->worker));
}
