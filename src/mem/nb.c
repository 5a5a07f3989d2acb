/* Non-blocking operations: records of those with a counter, and a count of those without.
 *
 * A record completes when its operation is locally complete, remotely complete, or both. Remote
 * completion comes from flushes. A put has a number among the context's operations to its rank. A
 * flush completes all numbers up to its own. At most one flush to a rank is in flight, and it
 * starts in progress, so puts that are issued in a row share one. Everything here runs under the
 * context's lock, except for waiting. Records come from a table of fixed size. */
#include "mem/rma.h"

#include <stdlib.h>

#include "boot/wait.h"

/* Operations without a counter, of one generation. A flush waits for the generation that was
 * current when it began; meanwhile others go to the next one. */
typedef struct {
    pgasi_tp_comp_t comp;
    pgasi_ctx_t *ctx;
    uint32_t n;
} nameless_t;

typedef struct pgasi_nb {
    pgasi_record_t *records; /* [PGASI_RECORDS_MAX], touched as they are needed */
    pgasi_record_t *free;    /* used before */
    uint32_t n_used;
    bool closed;
    pgasi_ctx_flush_t *wanted; /* flushes that records wait for */
    nameless_t nameless[2];
    uint32_t generation;
    int32_t nameless_status;
} nb_t;

static void nameless_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    nameless_t *nameless = PGASI_CONTAINER_OF(comp, nameless_t, comp);
    pgasi_ctx_t *ctx = nameless->ctx;
    if (status != PGAS_OK && ctx->nb->nameless_status == PGAS_OK)
        ctx->nb->nameless_status = status;
    __atomic_store_n(&nameless->n, nameless->n - 1, __ATOMIC_RELEASE);
    pgasi_ctx_count(ctx, -1);
}

static nb_t *nb_create(pgasi_ctx_t *ctx)
{
    nb_t *nb = calloc(1, sizeof *nb);
    if (!nb)
        return NULL;
    nb->records = pgasi_lazy_alloc(PGASI_RECORDS_MAX * sizeof *nb->records);
    if (!nb->records) {
        free(nb);
        return NULL;
    }
    for (int i = 0; i < 2; i++)
        nb->nameless[i] = (nameless_t){ { .fn = nameless_done }, ctx, 0 };
    return nb;
}

void pgasi_nb_destroy(pgasi_ctx_t *ctx)
{
    if (!ctx->nb)
        return;
    pgasi_lazy_free(ctx->nb->records, PGASI_RECORDS_MAX * sizeof *ctx->nb->records);
    free(ctx->nb);
    ctx->nb = NULL;
}

uint64_t pgasi_nb_bytes(void)
{
    return sizeof(nb_t) + PGASI_RECORDS_MAX * sizeof(pgasi_record_t);
}

/* ---- records ---- */

static pgasi_record_t *take_record(nb_t *nb)
{
    pgasi_record_t *r = nb->free;
    if (r)
        nb->free = r->next;
    else if (nb->n_used < PGASI_RECORDS_MAX)
        r = &nb->records[nb->n_used++];
    return r;
}

static void give_record(nb_t *nb, pgasi_record_t *r)
{
    r->next = nb->free;
    nb->free = r;
}

/* The operation no longer needs something. The counter's function cannot run here, under the
 * lock. */
static void advance(pgasi_record_t *r, uint16_t need, pgas_status_t status)
{
    if (status != PGAS_OK && r->status == PGAS_OK)
        r->status = status;
    r->needs = (uint16_t)(r->needs & ~need);
    if (r->needs)
        return;
    pgas_sync_t *sync = r->sync;
    pgas_operation_t operation = (pgas_operation_t)r->operation;
    int rank = r->rank;
    status = (pgas_status_t)r->status;
    give_record(r->ctx->nb, r);
    pgasi_ctx_count(r->ctx, -1);
    pgasi_sync_lower_locked(sync, status, rank, operation, 0);
}

static void local_done(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    advance(PGASI_CONTAINER_OF(comp, pgasi_record_t, comp), PGASI_NEEDS_LOCAL, status);
}

/* ---- remote completion ---- */

static void await_flush(nb_t *nb, pgasi_ctx_flush_t *f, pgasi_record_t *r)
{
    r->next = NULL;
    if (f->first)
        f->last->next = r;
    else
        f->first = r;
    f->last = r;
    if (f->listed)
        return;
    f->listed = true;
    f->next = nb->wanted;
    nb->wanted = f;
}

void pgasi_nb_flushed(pgasi_ctx_flush_t *f, uint64_t number, pgas_status_t status)
{
    for (pgasi_record_t *r; (r = f->first) && r->number <= number;) {
        f->first = r->next;
        advance(r, PGASI_NEEDS_REMOTE, status);
    }
}

int pgasi_nb_progress(pgasi_ctx_t *ctx)
{
    int n = 0;
    for (pgasi_ctx_flush_t **at = &ctx->nb->wanted, *f; (f = *at);) {
        pgasi_nb_flushed(f, ctx->peer[f->rank].flushed, PGAS_OK);
        if (f->first && !f->running && !ctx->nb->closed) {
            pgasi_ctx_flush_start(f);
            n++;
        }
        if (f->first) {
            at = &f->next;
        } else {
            f->listed = false;
            *at = f->next;
        }
    }
    return n;
}

/* ---- issuing ---- */

static pgas_operation_t operation_of(const pgasi_rma_t *rma)
{
    static const pgas_operation_t of[] = { [PGASI_RMA_PUT] = PGAS_OPERATION_PUT,
                                           [PGASI_RMA_GET] = PGAS_OPERATION_GET,
                                           [PGASI_RMA_ATOMIC] = PGAS_OPERATION_ATOMIC };
    return of[rma->kind];
}

static pgas_status_t issue_nameless(pgasi_ctx_t *ctx, const pgasi_rma_t *rma,
                                    pgasi_issue_fn_t issue)
{
    nameless_t *nameless = &ctx->nb->nameless[ctx->nb->generation & 1];
    __atomic_store_n(&nameless->n, nameless->n + 1, __ATOMIC_RELAXED);
    pgasi_ctx_count(ctx, 1);
    pgas_status_t status = issue(ctx, rma, &nameless->comp);
    if (status != PGAS_INPROGRESS) {
        __atomic_store_n(&nameless->n, nameless->n - 1, __ATOMIC_RELEASE);
        pgasi_ctx_count(ctx, -1);
    }
    return status;
}

static pgas_status_t issue_record(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, uint16_t needs,
                                  pgas_sync_t *sync, pgasi_issue_fn_t issue)
{
    int rank = pgas_gptr_rank(rma->ptr);
    pgasi_ctx_flush_t *f = NULL;
    if (needs & PGASI_NEEDS_REMOTE && !(f = pgasi_ctx_flush_of(ctx, rank)))
        return PGAS_ERR_NO_MEMORY;
    pgasi_record_t *r = take_record(ctx->nb);
    if (!r)
        return PGAS_ERR_AGAIN;
    *r = (pgasi_record_t){ .comp.fn = local_done,
                           .ctx = ctx,
                           .sync = sync,
                           .rank = rank,
                           .operation = (uint16_t)operation_of(rma),
                           .needs = (uint16_t)(needs | PGASI_NEEDS_ISSUE) };
    pgasi_ctx_count(ctx, 1);
    pgas_status_t status = issue(ctx, rma, &r->comp);
    if (status == PGAS_OK)
        r->needs = (uint16_t)(r->needs & ~PGASI_NEEDS_LOCAL);
    r->needs = (uint16_t)(r->needs & ~PGASI_NEEDS_ISSUE);
    if (status < PGAS_OK || !r->needs) {
        pgas_status_t failed = (pgas_status_t)r->status;
        give_record(ctx->nb, r);
        pgasi_ctx_count(ctx, -1);
        return failed < PGAS_OK ? failed : status;
    }
    pgasi_sync_raise(sync);
    r->number = ctx->peer[rank].issued + 1; /* the caller counts the operation */
    if (f)
        await_flush(ctx->nb, f, r);
    return status;
}

pgas_status_t pgasi_nb_issue(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, pgas_when_t when,
                             pgas_sync_t *sync, pgasi_issue_fn_t issue)
{
    if (PGAS_UNLIKELY(!ctx->nb)) {
        nb_t *nb = nb_create(ctx);
        if (!nb)
            return PGAS_ERR_NO_MEMORY;
        __atomic_store_n(&ctx->nb, nb, __ATOMIC_RELEASE);
    }
    bool remote = when == PGAS_REMOTE && pgasi_rma_writes(rma);
    if (sync)
        return issue_record(ctx, rma,
                            (uint16_t)(PGASI_NEEDS_LOCAL | (remote ? PGASI_NEEDS_REMOTE : 0)), sync,
                            issue);
    return issue_nameless(ctx, rma, issue);
}

/* ---- waiting for operations without a counter ---- */

static uint32_t n_of(const nb_t *nb, uint32_t generation)
{
    return __atomic_load_n(&nb->nameless[generation & 1].n, __ATOMIC_ACQUIRE);
}

/* The generation before the current one ends first, because only one place is left for a new
 * one. */
static bool is_through(pgasi_ctx_t *ctx, uint32_t mine, bool *closed)
{
    nb_t *nb = ctx->nb;
    pgasi_ctx_lock(ctx);
    *closed = *closed || nb->generation != mine;
    if (!*closed && n_of(nb, mine + 1) == 0) {
        nb->generation++;
        *closed = true;
    }
    bool through = nb->generation - mine > 1 || (*closed && n_of(nb, mine) == 0);
    pgasi_ctx_unlock(ctx);
    return through;
}

pgas_status_t pgasi_nb_wait(pgasi_ctx_t *ctx)
{
    nb_t *nb = ctx->nb;
    if (!nb || (!n_of(nb, 0) && !n_of(nb, 1)))
        return PGAS_OK;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    uint64_t limit_ns = 0;
    pgasi_ctx_lock(ctx);
    uint32_t mine = nb->generation;
    pgasi_ctx_unlock(ctx);
    pgas_status_t status = PGAS_OK;
    for (bool closed = false; status == PGAS_OK && !is_through(ctx, mine, &closed);)
        if (pgasi_ctx_give_up(&limit_ns))
            status = PGAS_ERR_PEER;
        else
            pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return status;
}

pgas_status_t pgasi_nb_take_error(pgasi_ctx_t *ctx)
{
    nb_t *nb = ctx->nb;
    if (!nb || PGAS_LIKELY(!__atomic_load_n(&nb->nameless_status, __ATOMIC_RELAXED)))
        return PGAS_OK;
    return (pgas_status_t)__atomic_exchange_n(&nb->nameless_status, PGAS_OK, __ATOMIC_RELAXED);
}

void pgasi_nb_close(pgasi_ctx_t *ctx)
{
    if (ctx->nb)
        ctx->nb->closed = true;
}
