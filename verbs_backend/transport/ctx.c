/* A context: completion queues for its sends, its endpoints, and a descriptor to sleep on. Context
 * 0 also receives, and executes connect requests of peers. One thread at a time uses a context. */
#include "verbs_backend/transport/inside.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"

#define LOOK_EVERY 64 /* idle rounds of context 0 between two runs of the connection manager */

static size_t table_bytes(const pgasi_verbs_ctx_t *ctx)
{
    return (size_t)ctx->tp->opts.n_ranks * sizeof ctx->eps[0];
}

pgas_status_t pgasi_verbs_ctx_watch(const pgasi_verbs_ctx_t *ctx, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    return epoll_ctl(ctx->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? PGAS_OK : PGAS_ERR_IO;
}

static pgas_status_t add_cq(pgasi_verbs_ctx_t *ctx, int rail)
{
    pgasi_verbs_send_cq_t *cqs = realloc(ctx->cqs, (size_t)(ctx->n_cqs + 1) * sizeof cqs[0]);
    int fd;
    if (!cqs)
        return PGAS_ERR_NO_MEMORY;
    ctx->cqs = cqs;
    pgasi_verbs_send_cq_t *added = &cqs[ctx->n_cqs];
    *added = (pgasi_verbs_send_cq_t){ .rail = rail };
    pgas_status_t status = pgas_verbs_cq_create(ctx->tp->rails[rail].dev, PGASI_VERBS_CQ_DEPTH,
                                                PGAS_VERBS_CQ_EVENTS, &added->cq);
    if (status != PGAS_OK)
        goto failed;
    status = pgas_verbs_cq_fd(added->cq, &fd);
    if (status == PGAS_OK)
        status = pgasi_verbs_ctx_watch(ctx, fd);
    if (status != PGAS_OK) { /* a sleeping thread would not be woken by its completions */
        pgas_verbs_cq_destroy(added->cq);
        goto failed;
    }
    ctx->n_cqs++;
    return PGAS_OK;
failed:
    PGASI_ERROR("verbs", "opening a completion queue for context %d failed: %s%s", ctx->index,
                pgas_status_text(status), status == PGAS_ERR_LIMIT ? "; see ulimit -n" : "");
    return status;
}

pgas_status_t pgasi_verbs_ctx_cq(pgasi_verbs_ctx_t *ctx, int rail, uint32_t depth, int *index_p)
{
    int i = 0;
    while (i < ctx->n_cqs &&
           (ctx->cqs[i].rail != rail || ctx->cqs[i].reserved + depth > PGASI_VERBS_CQ_DEPTH))
        i++;
    pgas_status_t status = i < ctx->n_cqs ? PGAS_OK : add_cq(ctx, rail);
    if (status == PGAS_OK) {
        ctx->cqs[i].reserved += depth;
        *index_p = i;
    }
    return status;
}

void pgasi_verbs_ctx_cq_leave(pgasi_verbs_ctx_t *ctx, uint32_t depth, int index)
{
    ctx->cqs[index].reserved -= depth;
}

pgas_status_t pgasi_verbs_ctx_tx_open(pgasi_verbs_ctx_t *ctx, int cq, pgas_verbs_qp_t *qp,
                                      const pgas_verbs_tx_opts_t *opts, pgas_verbs_tx_t **tx_p)
{
    pgas_status_t status = pgas_verbs_tx_create(qp, opts, tx_p);
    if (status == PGAS_OK && !ctx->cqs[cq].tx)
        ctx->cqs[cq].tx = *tx_p;
    return status;
}

void pgasi_verbs_ctx_tx_close(pgasi_verbs_ctx_t *ctx, int cq, pgas_verbs_tx_t *tx)
{
    pgas_verbs_tx_destroy(tx);
    if (ctx->cqs[cq].tx != tx)
        return;
    ctx->cqs[cq].tx = ctx->receiver != NULL ? pgasi_verbs_receiver_tx(ctx, cq) : NULL;
    for (const pgasi_verbs_ep_t *ep = ctx->all_eps; ep != NULL && !ctx->cqs[cq].tx; ep = ep->next)
        ctx->cqs[cq].tx = ep->cq == cq && ep->tx != tx ? ep->tx : NULL;
}

static pgas_status_t init_tables(pgasi_verbs_ctx_t *ctx)
{
    void *table = mmap(NULL, table_bytes(ctx), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    ctx->eps = table;
    pgasi_pool_init(&ctx->pending_pool, sizeof(pgasi_verbs_pending_t), 0, 64,
                    PGASI_VERBS_PENDING_MAX);
    pgasi_pool_init(&ctx->pieces, sizeof(pgasi_verbs_pending_t), 0, 32,
                    PGASI_VERBS_N_SMALL + PGASI_VERBS_N_LARGE);
    pgasi_pool_init(&ctx->flushes, sizeof(pgasi_verbs_flush_t), 0, 32, 0);
    return PGAS_OK;
}

static void fini_tables(pgasi_verbs_ctx_t *ctx)
{
    pgasi_pool_fini(&ctx->flushes);
    pgasi_pool_fini(&ctx->pieces);
    pgasi_pool_fini(&ctx->pending_pool);
    munmap(ctx->eps, table_bytes(ctx));
}

static pgas_status_t open_descriptors(pgasi_verbs_ctx_t *ctx)
{
    ctx->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ctx->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pgas_status_t status = ctx->wake_fd >= 0 && ctx->epoll_fd >= 0
                               ? pgasi_verbs_ctx_watch(ctx, ctx->wake_fd)
                               : PGAS_ERR_IO;
    if (status == PGAS_OK && ctx->index == 0)
        status = pgasi_verbs_ctx_watch(ctx, pgasi_verbs_cm_fd(ctx->tp));
    if (status != PGAS_OK) {
        PGASI_ERROR(
            "verbs",
            "context %d has no descriptors; fewer contexts (PGAS_LANES) need fewer, see ulimit -n",
            ctx->index);
    }
    return status;
}

static void close_descriptors(const pgasi_verbs_ctx_t *ctx)
{
    if (ctx->wake_fd >= 0)
        close(ctx->wake_fd);
    if (ctx->epoll_fd >= 0)
        close(ctx->epoll_fd);
}

static void close_cqs(pgasi_verbs_ctx_t *ctx)
{
    for (int i = 0; i < ctx->n_cqs; i++)
        pgas_verbs_cq_destroy(ctx->cqs[i].cq);
    free(ctx->cqs);
}

pgas_status_t pgasi_verbs_ctx_open(pgasi_tp_t *tp_base, int index, pgasi_tp_ctx_t **ctx_p)
{
    pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(tp_base);
    if (index < 0 || index >= PGASI_VERBS_CTXS_MAX)
        return PGAS_ERR_RANGE;
    pgasi_verbs_ctx_t *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return PGAS_ERR_NO_MEMORY;
    ctx->super.ops = &pgasi_verbs_table;
    ctx->tp = tp;
    ctx->index = index;
    ctx->turn = (uint32_t)(tp->opts.rank + index);
    ctx->wake_fd = ctx->epoll_fd = -1;
    ctx->large_bytes = PGASI_MAX(8192u, (uint32_t)PGASI_ALIGN_UP(tp->address.message_bytes +
                                                                     sizeof(pgasi_verbs_prefix_t),
                                                                 64));
    pthread_mutex_lock(&tp->lock);
    bool taken = tp->ctxs[index] != NULL;
    if (!taken)
        tp->ctxs[index] = ctx;
    pthread_mutex_unlock(&tp->lock);
    if (taken) {
        free(ctx);
        return PGAS_ERR_EXISTS;
    }
    pgas_status_t status = init_tables(ctx);
    if (status != PGAS_OK)
        goto free_ctx;
    status = open_descriptors(ctx);
    if (status == PGAS_OK)
        status = pgasi_verbs_slots_init(ctx);
    if (status == PGAS_OK)
        status = add_cq(ctx, pgasi_verbs_rail_first(ctx));
    /* opened now, because context 0 cannot report later that it has no buffers for replies */
    if (status == PGAS_OK && index == 0)
        status = pgasi_verbs_buffers_init(ctx);
    if (status == PGAS_OK && index == 0)
        status = pgasi_verbs_receiver_open(ctx);
    if (status != PGAS_OK)
        goto close_queues;
    *ctx_p = &ctx->super;
    return PGAS_OK;
close_queues:
    close_cqs(ctx);
    pgasi_verbs_buffers_fini(ctx);
    close_descriptors(ctx);
    fini_tables(ctx);
free_ctx:
    pthread_mutex_lock(&tp->lock);
    tp->ctxs[index] = NULL;
    pthread_mutex_unlock(&tp->lock);
    free(ctx);
    return status;
}

/* ---- progress ---- */

static int poll_cqs(const pgasi_verbs_ctx_t *ctx)
{
    int n = 0;
    for (int i = 0; i < ctx->n_cqs; i++)
        n += ctx->cqs[i].tx != NULL ? pgas_verbs_tx_poll(ctx->cqs[i].tx) : 0;
    return n;
}

static bool must_run_cm(pgasi_verbs_ctx_t *ctx)
{
    return ctx->n_connecting > 0 ||
           (ctx->index == 0 && (ctx->n_idle % LOOK_EVERY == 0 || pgasi_verbs_cm_has_jobs(ctx->tp)));
}

int pgasi_verbs_progress(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    int n = 0;
    if (PGAS_UNLIKELY(must_run_cm(ctx)))
        n += pgasi_verbs_cm_run(ctx);
    n += poll_cqs(ctx);
    for (pgasi_verbs_ep_t *ep = ctx->active_eps, *next; ep != NULL; ep = next) {
        next = ep->active_next;
        n += pgasi_verbs_ep_progress(ep);
    }
    if (ctx->receiver)
        n += pgasi_verbs_receive(ctx);
    ctx->n_idle = n > 0 ? 1 : ctx->n_idle + 1;
    return n;
}

pgas_status_t pgasi_verbs_event_fd(pgasi_tp_ctx_t *ctx, int *fd_p)
{
    *fd_p = pgasi_verbs_ctx_of(ctx)->epoll_fd;
    return PGAS_OK;
}

/* A context may not sleep if it was woken, or if completions, connect requests or jobs are pending.
 * It may not sleep either while it awaits a reply, because replies arrive without a completion. */
pgas_status_t pgasi_verbs_arm(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    uint64_t count;
    bool busy = read(ctx->wake_fd, &count, sizeof count) == sizeof count;
    for (int i = 0; i < ctx->n_cqs; i++)
        busy |= pgas_verbs_cq_arm(ctx->cqs[i].cq, false) != PGAS_OK;
    for (const pgasi_verbs_ep_t *ep = ctx->active_eps; ep != NULL; ep = ep->active_next)
        busy |= ep->requested.first || pgasi_verbs_end_of(ctx->tp, ep->peer) != PGAS_OK;
    if (ctx->index != 0)
        busy |= ctx->n_connecting > 0; /* context 0 may be asleep */
    else
        busy |= pgasi_verbs_cm_has_jobs(ctx->tp) || !pgasi_verbs_receiver_arm(ctx);
    ctx->n_idle = 0; /* the connection manager runs first after a wakeup */
    return busy ? PGAS_ERR_BUSY : PGAS_OK;
}

pgas_status_t pgasi_verbs_wake(pgasi_tp_ctx_t *ctx)
{
    uint64_t one = 1;
    ssize_t n = write(pgasi_verbs_ctx_of(ctx)->wake_fd, &one, sizeof one);
    return n == sizeof one || errno == EAGAIN ? PGAS_OK : PGAS_ERR_IO;
}

/* ---- closing ---- */

static void drained(pgasi_tp_comp_t *self, pgas_status_t status)
{
    (void)status;
    self->fn = NULL;
}

static void begin_drain(pgasi_verbs_ctx_t *ctx)
{
    ctx->phase = PGASI_VERBS_DRAINING;
    ctx->drain_comp.fn = drained;
    pgas_status_t status =
        pgasi_verbs_flush_peer(&ctx->super, PGASI_TP_ALL_PEERS, &ctx->drain_comp);
    if (status == PGAS_ERR_AGAIN)
        ctx->phase = PGASI_VERBS_OPEN;
    else if (status != PGAS_INPROGRESS)
        ctx->drain_comp.fn = NULL;
}

pgas_status_t pgasi_verbs_ctx_drain(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    if (ctx->phase == PGASI_VERBS_OPEN)
        begin_drain(ctx);
    if (ctx->phase == PGASI_VERBS_OPEN ||
        (ctx->phase == PGASI_VERBS_DRAINING && ctx->drain_comp.fn))
        return PGAS_INPROGRESS;
    if (ctx->phase == PGASI_VERBS_DRAINING) {
        ctx->phase = PGASI_VERBS_DRAINED;
        pgasi_verbs_eps_close(ctx);
        if (ctx->index == 0)
            pgasi_verbs_cm_leave(ctx->tp);
    }
    return PGAS_OK;
}

void pgasi_verbs_ctx_close(pgasi_tp_ctx_t *tp_ctx)
{
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(tp_ctx);
    pgasi_verbs_tp_t *tp = ctx->tp;
    if (ctx->phase == PGASI_VERBS_OPEN) {
        uint64_t limit = pgasi_now_ns() + PGASI_VERBS_CLOSE_NS;
        while (pgasi_verbs_ctx_drain(tp_ctx) == PGAS_INPROGRESS && pgasi_now_ns() < limit)
            if (pgasi_verbs_progress(tp_ctx) == 0)
                sched_yield();
    }
    ctx->phase = PGASI_VERBS_CLOSING;
    pgasi_verbs_eps_close(ctx);
    if (ctx->index == 0) {
        pgasi_verbs_cm_leave(tp);
        pgasi_verbs_receiver_close(ctx);
    }
    pthread_mutex_lock(&tp->lock);
    tp->ctxs[ctx->index] = NULL;
    pthread_mutex_unlock(&tp->lock);
    close_cqs(ctx);
    pgasi_verbs_buffers_fini(ctx);
    close_descriptors(ctx);
    fini_tables(ctx);
    free(ctx);
}
