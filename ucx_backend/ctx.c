/* A context is a UCX worker, which one thread at a time uses (thread mode SERIALIZED: UCX takes no
 * lock). Peers address context 0, which receives active messages. */
#include "ucx_backend/ucx.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/clock.h"

#define CURE_OF_OPENING                                                                           \
    "fewer contexts (PGAS_LANES) need less of /dev/shm and fewer descriptors (ulimit -n); if an " \
    "interface was removed meanwhile, exclude it with PGAS_UCX_NET_DEVICES"

static pgas_status_t open_worker(pgasi_ucx_ctx_t *ctx)
{
    ucp_worker_params_t params;
    memset(&params, 0, sizeof params);
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    ucs_status_t status = pgasi_ucx_lib.ucp_worker_create(ctx->tp->context, &params, &ctx->worker);
    if (status != UCS_OK) {
        char doing[64];
        snprintf(doing, sizeof doing, "opening context %d (ucp_worker_create)", ctx->index);
        return pgasi_ucx_failed_again(&ctx->tp->logged_ctx, status, doing, CURE_OF_OPENING);
    }
    ucp_worker_attr_t attr = { .field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE };
    status = pgasi_ucx_lib.ucp_worker_query(ctx->worker, &attr);
    if (status != UCS_OK || attr.thread_mode == UCS_THREAD_MODE_SINGLE) {
        pgasi_ucx_lib.ucp_worker_destroy(ctx->worker);
        return pgasi_ucx_failed(UCS_ERR_UNSUPPORTED,
                                "opening a context for use by several threads in turn",
                                "this UCX was built without --enable-mt");
    }
    return PGAS_OK;
}

static size_t table_bytes(const pgasi_ucx_ctx_t *ctx)
{
    return (size_t)ctx->tp->opts.n_ranks * sizeof ctx->eps[0];
}

/* The count of openings outlives the context. */
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

static pgas_status_t init_tables(pgasi_ucx_ctx_t *ctx)
{
    void *table = mmap(NULL, table_bytes(ctx), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    ctx->eps = table;
    pgasi_pool_init(&ctx->sends, sizeof(pgasi_ucx_send_t), 0, 64, PGASI_UCX_PENDING_MAX + 1);
    pgasi_pool_init(&ctx->flushes, sizeof(pgasi_ucx_flush_t), 0, 32, 0);
    pgasi_pool_init(&ctx->flush_parts, sizeof(pgasi_ucx_flush_part_t), 0, 64, 0);
    pgasi_ucx_journal_pools(ctx);
    ctx->spare = pgasi_pool_acquire(&ctx->sends);
    ctx->flush_mark = 1;
    return PGAS_OK;
}

static void fini_tables(pgasi_ucx_ctx_t *ctx)
{
    pgasi_pool_fini(&ctx->large_entries);
    pgasi_pool_fini(&ctx->small_entries);
    pgasi_pool_fini(&ctx->flush_parts);
    pgasi_pool_fini(&ctx->flushes);
    pgasi_pool_fini(&ctx->sends);
    munmap(ctx->eps, table_bytes(ctx));
}

pgas_status_t pgasi_ucx_ctx_open(pgasi_tp_t *tp_base, int index, pgasi_tp_ctx_t **ctx_p)
{
    pgasi_ucx_t *tp = pgasi_ucx_of(tp_base);
    if (index < 0 || index >= PGASI_UCX_CTXS_MAX)
        return PGAS_ERR_RANGE;
    pgasi_ucx_ctx_t *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return PGAS_ERR_NO_MEMORY;
    ctx->super.ops = &pgasi_ucx_table;
    ctx->tp = tp;
    ctx->index = index;
    ctx->gate = PGASI_UCX_GATE_IDLE;
    pgas_status_t status = remember_openings(tp, index);
    if (status == PGAS_OK)
        status = init_tables(ctx);
    if (status != PGAS_OK)
        goto free_ctx;
    status = open_worker(ctx);
    if (status != PGAS_OK)
        goto free_tables;
    if (index == 0) {
        status = pgasi_ucx_rx_open(ctx);
        if (status != PGAS_OK)
            goto destroy_worker;
    }
    pthread_mutex_lock(&tp->lock);
    bool taken = tp->ctxs[index] != NULL;
    if (!taken)
        tp->ctxs[index] = ctx;
    pthread_mutex_unlock(&tp->lock);
    if (taken) {
        status = PGAS_ERR_EXISTS;
        goto close_rx;
    }
    *ctx_p = &ctx->super;
    return PGAS_OK;
close_rx:
    pgasi_ucx_rx_stop(ctx);
destroy_worker:
    pgasi_ucx_lib.ucp_worker_destroy(ctx->worker);
    pgasi_ucx_rx_close(ctx);
free_tables:
    fini_tables(ctx);
free_ctx:
    free(ctx);
    return status;
}

static void drained(pgasi_tp_comp_t *self, pgas_status_t status)
{
    (void)status;
    self->fn = NULL;
}

static void begin_drain(pgasi_ucx_ctx_t *ctx)
{
    ctx->phase = PGASI_UCX_DRAINING;
    ctx->drain_comp.fn = drained;
    if (pgasi_ucx_flush_peer(&ctx->super, PGASI_TP_ALL_PEERS, &ctx->drain_comp) != PGAS_INPROGRESS)
        ctx->drain_comp.fn = NULL;
    if (ctx->index == 0) /* from now on peers may end */
        __atomic_store_n(&ctx->tp->closing, true, __ATOMIC_RELAXED);
}

pgas_status_t pgasi_ucx_ctx_drain(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    if (ctx->phase == PGASI_UCX_OPEN)
        begin_drain(ctx);
    if (ctx->phase == PGASI_UCX_DRAINING && !ctx->drain_comp.fn && ctx->n_pending == 0) {
        ctx->phase = PGASI_UCX_CLOSING;
        pgasi_ucx_eps_begin_close(ctx);
    }
    return ctx->phase == PGASI_UCX_CLOSING && ctx->n_closing == 0 ? PGAS_OK : PGAS_INPROGRESS;
}

/* Gives up the operations that were not drained, without calling completions: their owners may not
 * exist any more. */
static void give_up(pgasi_ucx_ctx_t *ctx)
{
    bool closing = ctx->phase == PGASI_UCX_CLOSING;
    ctx->phase = PGASI_UCX_GIVEN_UP;
    for (pgasi_ucx_flush_t *flush = ctx->running; flush != NULL; flush = flush->next)
        flush->parts.comp = NULL; /* its owner and this context may not exist any more */
    if (!closing)
        pgasi_ucx_eps_begin_close(ctx);
    pgasi_ucx_eps_give_up(ctx);
}

/* Drains a context that was not drained together with others. */
static void drain_alone(pgasi_ucx_ctx_t *ctx)
{
    uint64_t deadline_ns = pgasi_now_ns() + PGASI_UCX_CLOSE_NS;
    while (pgasi_ucx_ctx_drain(&ctx->super) == PGAS_INPROGRESS && pgasi_now_ns() < deadline_ns)
        pgasi_ucx_progress(&ctx->super);
}

void pgasi_ucx_ctx_close(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    pgasi_ucx_t *tp = ctx->tp;
    if (ctx->phase == PGASI_UCX_OPEN)
        drain_alone(ctx);
    pthread_mutex_lock(&tp->lock);
    tp->ctxs[ctx->index] = NULL;
    pthread_mutex_unlock(&tp->lock);
    pgasi_ucx_rx_stop(ctx);
    give_up(ctx);
    pgasi_ucx_lib.ucp_worker_destroy(ctx->worker);
    pgasi_ucx_eps_free(ctx);
    pgasi_ucx_rx_close(ctx);
    fini_tables(ctx);
    free(ctx);
}

pgas_status_t pgasi_ucx_address(pgasi_tp_t *tp_base, const void **addr_p, size_t *bytes_p)
{
    pgasi_ucx_t *tp = pgasi_ucx_of(tp_base);
    if (!tp->address) {
        if (!tp->ctxs[0])
            return PGAS_ERR_NOT_INIT;
        ucp_address_t *address;
        size_t bytes;
        ucs_status_t status =
            pgasi_ucx_lib.ucp_worker_get_address(tp->ctxs[0]->worker, &address, &bytes);
        if (status != UCS_OK)
            return pgasi_ucx_failed(status, "asking for our address", NULL);
        pgasi_ucx_address_t *ours = malloc(sizeof *ours + bytes);
        if (ours) {
            *ours = (pgasi_ucx_address_t){ .magic = PGASI_UCX_ADDRESS_MAGIC, .cookie = tp->cookie };
            memcpy(ours + 1, address, bytes);
            tp->address = ours;
            tp->address_bytes = sizeof *ours + bytes;
        }
        pgasi_ucx_lib.ucp_worker_release_address(tp->ctxs[0]->worker, address);
        if (!ours)
            return PGAS_ERR_NO_MEMORY;
    }
    *addr_p = tp->address;
    *bytes_p = tp->address_bytes;
    return PGAS_OK;
}

int pgasi_ucx_progress(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_ucx_ctx_t *ctx = pgasi_ucx_ctx_of(tp_ctx);
    ctx->gate = 0;
    int n = (int)pgasi_ucx_lib.ucp_worker_progress(ctx->worker);
    if (PGAS_UNLIKELY(ctx->n_ready > 0))
        n += pgasi_ucx_rx_deliver(ctx);
    ctx->gate = PGASI_UCX_GATE_IDLE;
    if (PGAS_UNLIKELY(__atomic_load_n(&ctx->repairs, __ATOMIC_RELAXED) != 0))
        n += pgasi_ucx_repair(ctx);
    return n;
}

pgas_status_t pgasi_ucx_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p)
{
    return pgasi_ucx_status(pgasi_ucx_lib.ucp_worker_get_efd(pgasi_ucx_ctx_of(ctx)->worker, fd_p));
}

pgas_status_t pgasi_ucx_arm(pgasi_tp_ctx_t *ctx)
{
    return pgasi_ucx_status(pgasi_ucx_lib.ucp_worker_arm(pgasi_ucx_ctx_of(ctx)->worker));
}

pgas_status_t pgasi_ucx_wake(pgasi_tp_ctx_t *ctx)
{
    return pgasi_ucx_status(pgasi_ucx_lib.ucp_worker_signal(pgasi_ucx_ctx_of(ctx)->worker));
}
