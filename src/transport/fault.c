/* The fault-injecting wrapper. fault.h lists the faults and the promises that still hold.
 *
 * Every operation becomes a record. The wrapper refuses it, or issues it at once, or defers it: a
 * later progress call then issues it from its context's list of deferred records. When the wrapped
 * transport has completed it, the completion may wait in the list of finished ones. Fences and
 * flushes first issue all deferred records that they concern. Sizes are those of tests: lists are
 * walked, records come from a pool, both are bounded.
 *
 * The file has more than 500 lines: a transport is a table of some thirty functions, and all of
 * these work on the same two lists. */
#include "transport/fault.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"
#include "transport/wrap.h"

#define DEFERRED_MAX 256
#define CLOSE_NS     PGASI_NS_PER_S

typedef enum { OP_PUT, OP_GET, OP_AMO, OP_AM, OP_FLUSH } kind_t;

typedef struct {
    pgasi_wrap_t super;
    pgasi_fault_plan_t plan;
    uint64_t seed;
    int rank;
    int n_registered;
} fault_t;

typedef struct op {
    pgasi_tp_comp_t inner_comp;
    struct op *next;
    struct fault_ctx *ctx;
    kind_t kind;
    int peer;
    pgasi_tp_key_t *key; /* of the wrapped transport */
    uint64_t remote_addr;
    const void *src;
    void *dst; /* of a get; result of an atomic */
    size_t bytes;
    pgasi_amo_t amo;
    uint64_t operand, compare;
    size_t header_bytes;
    unsigned char header[PGASI_TP_AM_HEADER_MAX];
    pgasi_tp_comp_t *comp;
    uint64_t due; /* the progress call that issues or completes it */
    pgas_status_t status;
} op_t;

typedef struct fault_ctx {
    pgasi_wrap_ctx_t super;
    pgasi_rng_t rng;
    pgasi_pool_t ops;
    uint64_t now; /* progress calls so far */
    op_t *deferred, **deferred_end;
    size_t n_deferred;
    op_t *finished; /* their completions wait */
    int n_refusals; /* refusals that still follow in this run */
    bool was_refused;
    bool progressing;
    bool draining; /* operations that are not complete when the context is closed are given up */
} fault_ctx_t;

static struct {
    const pgasi_tp_ops_t *ops;
    pgasi_fault_plan_t plan;
    uint64_t seed;
} wrapped;

static const pgasi_tp_ops_t table;

static fault_ctx_t *ctx_of(pgasi_tp_ctx_t *ctx)
{
    return (fault_ctx_t *)(void *)ctx;
}

static const pgasi_fault_plan_t *plan_of(const fault_ctx_t *ctx)
{
    return &((const fault_t *)(const void *)ctx->super.tp)->plan;
}

/* Draws a number of progress calls in 0 .. n. */
static uint64_t draw(fault_ctx_t *ctx, int n)
{
    return n == 0 ? 0 : pgasi_rng_below(&ctx->rng, (uint64_t)n + 1);
}

static bool refuses(fault_ctx_t *ctx)
{
    int most = plan_of(ctx)->again;
    if (most == 0)
        return false;
    if (ctx->n_refusals == 0 && !ctx->was_refused && pgasi_rng_below(&ctx->rng, 3) == 0)
        ctx->n_refusals = 1 + (int)pgasi_rng_below(&ctx->rng, (uint64_t)most);
    ctx->was_refused = ctx->n_refusals > 0;
    ctx->n_refusals -= ctx->was_refused;
    return ctx->was_refused;
}

static void complete(op_t *op)
{
    pgasi_tp_comp_t *comp = op->comp;
    pgas_status_t status = op->status;
    pgasi_pool_release(&op->ctx->ops, op);
    if (comp)
        comp->fn(comp, status);
}

/* Delays a completion, or not. @return true: it is delayed */
static bool hold_completion(op_t *op)
{
    fault_ctx_t *ctx = op->ctx;
    uint64_t calls = draw(ctx, PGASI_MAX(plan_of(ctx)->delay, plan_of(ctx)->reorder));
    if (!op->comp || calls == 0)
        return false;
    op->due = ctx->now + calls;
    op->next = ctx->finished;
    ctx->finished = op;
    return true;
}

static void inner_done(pgasi_tp_comp_t *self, pgas_status_t status)
{
    op_t *op = PGASI_CONTAINER_OF(self, op_t, inner_comp);
    op->status = status;
    if (!hold_completion(op))
        complete(op);
}

/* Passes an operation to the wrapped transport. PGAS_INPROGRESS: the record is kept if there is a
 * completion to call. */
static pgas_status_t issue(op_t *op)
{
    pgasi_tp_ctx_t *inner = op->ctx->super.inner;
    pgasi_tp_comp_t *comp = NULL;
    if (op->comp) {
        op->inner_comp = (pgasi_tp_comp_t){ .fn = inner_done, .once = op->comp->once };
        comp = &op->inner_comp;
    }
    switch (op->kind) {
    case OP_PUT:
        return inner->ops->put(inner, op->peer, op->key, op->remote_addr, op->src, op->bytes, comp);
    case OP_GET:
        return inner->ops->get(inner, op->peer, op->key, op->remote_addr, op->dst, op->bytes, comp);
    case OP_AMO:
        return inner->ops->amo(inner, op->peer, op->key, op->remote_addr, op->amo, op->bytes,
                               op->operand, op->compare, op->dst, comp);
    case OP_AM:
        return inner->ops->am(inner, op->peer, op->header, op->header_bytes, op->src, op->bytes,
                              comp);
    case OP_FLUSH:
        return inner->ops->flush(inner, op->peer, comp);
    }
    return PGAS_ERR_INTERNAL;
}

static void defer(op_t *op, uint64_t calls)
{
    fault_ctx_t *ctx = op->ctx;
    op->due = ctx->now + calls;
    op->next = NULL;
    *ctx->deferred_end = op;
    ctx->deferred_end = &op->next;
    ctx->n_deferred++;
}

static bool has_earlier_message(const fault_ctx_t *ctx, int peer, const op_t *before)
{
    for (const op_t *op = ctx->deferred; op != before; op = op->next)
        if (op->kind == OP_AM && op->peer == peer)
            return true;
    return false;
}

/* The most progress calls for which an operation may be deferred. */
static int deferral_max(const op_t *op)
{
    const pgasi_fault_plan_t *plan = plan_of(op->ctx);
    if (op->kind == OP_FLUSH)
        return 0;
    return op->kind == OP_AM ? PGASI_MAX(plan->delay, plan->reorder) : plan->reorder;
}

static pgas_status_t submit(op_t *op)
{
    fault_ctx_t *ctx = op->ctx;
    uint64_t calls = draw(ctx, deferral_max(op));
    if (calls > 0 || (op->kind == OP_AM && has_earlier_message(ctx, op->peer, NULL))) {
        defer(op, calls);
        return PGAS_INPROGRESS;
    }
    pgas_status_t status = issue(op);
    if (status == PGAS_OK) {
        op->status = PGAS_OK;
        if (hold_completion(op))
            return PGAS_INPROGRESS;
    }
    if (status != PGAS_INPROGRESS || !op->comp)
        pgasi_pool_release(&ctx->ops, op);
    return status;
}

/* Makes a record of an operation and submits it. */
static pgas_status_t submit_new(pgasi_tp_ctx_t *tp_ctx, const op_t *operation)
{
    fault_ctx_t *ctx = ctx_of(tp_ctx);
    if (ctx->n_deferred >= DEFERRED_MAX || refuses(ctx))
        return PGAS_ERR_AGAIN;
    op_t *op = pgasi_pool_acquire(&ctx->ops);
    if (!op)
        return PGAS_ERR_AGAIN;
    *op = *operation;
    op->ctx = ctx;
    return submit(op);
}

/* Issues the operation at *at and removes it from the deferred list. If the transport says AGAIN,
 * it stays there. */
static pgas_status_t issue_deferred(fault_ctx_t *ctx, op_t **at)
{
    op_t *op = *at;
    op_t *next = op->next;
    pgas_status_t status = issue(op);
    if (status == PGAS_ERR_AGAIN)
        return status;
    *at = next;
    if (!next)
        ctx->deferred_end = at;
    ctx->n_deferred--;
    if (status == PGAS_INPROGRESS && op->comp)
        return status;
    op->status = status;
    if (status == PGAS_INPROGRESS) { /* only a flush reports its completion */
        pgasi_pool_release(&ctx->ops, op);
    } else if (ctx->progressing) {
        complete(op);
    } else { /* outside of progress: completions wait for the next progress */
        op->due = ctx->now;
        op->next = ctx->finished;
        ctx->finished = op;
    }
    return PGAS_OK;
}

/* Issues all that is deferred for the peer. Messages keep their order; all else may change it. */
static pgas_status_t issue_all(fault_ctx_t *ctx, int peer)
{
    for (op_t **at = &ctx->deferred; *at != NULL;)
        if (peer != PGASI_TP_ALL_PEERS && (*at)->peer != peer)
            at = &(*at)->next;
        else if (issue_deferred(ctx, at) == PGAS_ERR_AGAIN)
            return PGAS_ERR_AGAIN;
    return PGAS_OK;
}

static op_t **choose_due(fault_ctx_t *ctx)
{
    op_t **chosen = NULL;
    uint64_t n_due = 0;
    for (op_t **at = &ctx->deferred; *at != NULL; at = &(*at)->next)
        if ((*at)->due <= ctx->now &&
            !((*at)->kind == OP_AM && has_earlier_message(ctx, (*at)->peer, *at)) &&
            (plan_of(ctx)->reorder == 0 ? n_due++ == 0 : pgasi_rng_below(&ctx->rng, ++n_due) == 0))
            chosen = at;
    return chosen;
}

static op_t *choose_finished(fault_ctx_t *ctx)
{
    op_t **chosen = NULL;
    uint64_t n_due = 0;
    for (op_t **at = &ctx->finished; *at != NULL; at = &(*at)->next)
        if ((*at)->due <= ctx->now && pgasi_rng_below(&ctx->rng, ++n_due) == 0)
            chosen = at;
    if (!chosen)
        return NULL;
    op_t *op = *chosen;
    *chosen = op->next;
    return op;
}

static int fault_progress(pgasi_tp_ctx_t *tp_ctx)
{
    fault_ctx_t *ctx = ctx_of(tp_ctx);
    ctx->progressing = true;
    int n = ctx->super.inner->ops->progress(ctx->super.inner);
    ctx->now++;
    for (op_t **at; (at = choose_due(ctx)) != NULL; n++)
        if (issue_deferred(ctx, at) == PGAS_ERR_AGAIN)
            break;
    for (op_t *op; (op = choose_finished(ctx)) != NULL; n++)
        complete(op);
    ctx->progressing = false;
    return n;
}

static pgas_status_t fault_put(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, const void *src, size_t bytes,
                               pgasi_tp_comp_t *comp)
{
    const op_t op = { .kind = OP_PUT,
                      .peer = peer,
                      .key = pgasi_wrap_key(key),
                      .remote_addr = remote_addr,
                      .src = src,
                      .bytes = bytes,
                      .comp = comp };
    return submit_new(ctx, &op);
}

static pgas_status_t fault_get(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    const op_t op = { .kind = OP_GET,
                      .peer = peer,
                      .key = pgasi_wrap_key(key),
                      .remote_addr = remote_addr,
                      .dst = dst,
                      .bytes = bytes,
                      .comp = comp };
    return submit_new(ctx, &op);
}

static pgas_status_t fault_amo(pgasi_tp_ctx_t *ctx, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, pgasi_amo_t amo, size_t bytes,
                               uint64_t operand, uint64_t compare, void *result,
                               pgasi_tp_comp_t *comp)
{
    const op_t op = { .kind = OP_AMO,
                      .peer = peer,
                      .key = pgasi_wrap_key(key),
                      .remote_addr = remote_addr,
                      .amo = amo,
                      .bytes = bytes,
                      .operand = operand,
                      .compare = compare,
                      .dst = result,
                      .comp = comp };
    return submit_new(ctx, &op);
}

static pgas_status_t fault_am(pgasi_tp_ctx_t *ctx, int peer, const void *header,
                              size_t header_bytes, const void *data, size_t bytes,
                              pgasi_tp_comp_t *comp)
{
    op_t op = { .kind = OP_AM,
                .peer = peer,
                .header_bytes = header_bytes,
                .src = data,
                .bytes = bytes,
                .comp = comp };
    if (header_bytes > PGASI_TP_AM_HEADER_MAX)
        return PGAS_ERR_LIMIT;
    if (header_bytes > 0)
        memcpy(op.header, header, header_bytes);
    return submit_new(ctx, &op);
}

static pgas_status_t fault_fence(pgasi_tp_ctx_t *tp_ctx)
{
    fault_ctx_t *ctx = ctx_of(tp_ctx);
    pgas_status_t status = issue_all(ctx, PGASI_TP_ALL_PEERS);
    return status == PGAS_OK ? ctx->super.inner->ops->fence(ctx->super.inner) : status;
}

static pgas_status_t fault_flush(pgasi_tp_ctx_t *tp_ctx, int peer, pgasi_tp_comp_t *comp)
{
    const op_t op = { .kind = OP_FLUSH, .peer = peer, .comp = comp };
    pgas_status_t status = issue_all(ctx_of(tp_ctx), peer);
    return status == PGAS_OK ? submit_new(tp_ctx, &op) : status;
}

static pgas_status_t fault_arm(pgasi_tp_ctx_t *tp_ctx)
{
    const fault_ctx_t *ctx = ctx_of(tp_ctx);
    return ctx->deferred || ctx->finished ? PGAS_ERR_BUSY : pgasi_wrap_arm(tp_ctx);
}

/* Whether this registration must fail. */
static bool fails_registration(pgasi_tp_t *tp_base, size_t bytes)
{
    fault_t *tp = (fault_t *)(void *)tp_base;
    if (tp->plan.drop_reg != tp->rank || tp->n_registered++ < tp->plan.drop_reg_after)
        return false;
    PGASI_WARN("fault", "PGAS_FAULT drop-reg: registering %zu bytes fails on this rank", bytes);
    return true;
}

static pgas_status_t fault_mem_alloc(pgasi_tp_t *tp, size_t bytes, pgasi_tp_mem_t **mem_p,
                                     void **addr_p)
{
    return fails_registration(tp, bytes) ? PGAS_ERR_NO_MEMORY
                                         : pgasi_wrap_mem_alloc(tp, bytes, mem_p, addr_p);
}

static pgas_status_t fault_mem_register(pgasi_tp_t *tp, void *addr, size_t bytes,
                                        pgasi_tp_mem_t **mem_p)
{
    return fails_registration(tp, bytes) ? PGAS_ERR_NO_MEMORY
                                         : pgasi_wrap_mem_register(tp, addr, bytes, mem_p);
}

static pgas_status_t fault_open(const pgasi_tp_opts_t *opts, pgasi_tp_t **tp_p)
{
    fault_t *tp = calloc(1, sizeof *tp);
    if (!tp)
        return PGAS_ERR_NO_MEMORY;
    tp->super.super.ops = &table;
    tp->plan = wrapped.plan;
    tp->seed = wrapped.plan.has_seed ? wrapped.plan.seed : wrapped.seed;
    tp->rank = opts->rank;
    pgas_status_t status = wrapped.ops->open(opts, &tp->super.inner);
    if (status != PGAS_OK) {
        free(tp);
        return status;
    }
    *tp_p = &tp->super.super;
    return PGAS_OK;
}

static void fault_close(pgasi_tp_t *tp)
{
    pgasi_tp_t *inner = pgasi_wrap_of(tp)->inner;
    inner->ops->close(inner);
    free(tp);
}

static pgas_status_t fault_ctx_open(pgasi_tp_t *tp_base, int index, pgasi_tp_ctx_t **ctx_p)
{
    fault_t *tp = (fault_t *)(void *)tp_base;
    fault_ctx_t *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return PGAS_ERR_NO_MEMORY;
    ctx->super.super.ops = &table;
    ctx->super.tp = &tp->super;
    pgas_status_t status =
        tp->super.inner->ops->ctx_open(tp->super.inner, index, &ctx->super.inner);
    if (status != PGAS_OK) {
        free(ctx);
        return status;
    }
    ctx->deferred_end = &ctx->deferred;
    pgasi_pool_init(&ctx->ops, sizeof(op_t), 0, 64, 1 << 16);
    pgasi_rng_seed(&ctx->rng, tp->seed * 1000003u + (uint64_t)tp->rank * 4099u + (uint64_t)index);
    *ctx_p = &ctx->super.super;
    return PGAS_OK;
}

static pgas_status_t fault_ctx_drain(pgasi_tp_ctx_t *tp_ctx)
{
    fault_ctx_t *ctx = ctx_of(tp_ctx);
    ctx->draining = true;
    bool issued = issue_all(ctx, PGASI_TP_ALL_PEERS) != PGAS_ERR_AGAIN;
    if (!issued || pgasi_wrap_ctx_drain(tp_ctx) == PGAS_INPROGRESS || ctx->finished)
        return PGAS_INPROGRESS;
    return PGAS_OK;
}

static void fault_ctx_close(pgasi_tp_ctx_t *tp_ctx)
{
    fault_ctx_t *ctx = ctx_of(tp_ctx);
    uint64_t deadline = pgasi_now_ns() + CLOSE_NS;
    while (!ctx->draining && issue_all(ctx, PGASI_TP_ALL_PEERS) == PGAS_ERR_AGAIN &&
           pgasi_now_ns() < deadline)
        ctx->super.inner->ops->progress(ctx->super.inner);
    ctx->super.inner->ops->ctx_close(ctx->super.inner);
    ctx->now = UINT64_MAX;
    for (op_t *op; !ctx->draining && (op = choose_finished(ctx));)
        complete(op);
    pgasi_pool_fini(&ctx->ops);
    free(ctx);
}

/* The wrapper uses its own completions, so it cannot offer am_arrived. */
static void fault_query(pgasi_tp_t *tp, pgasi_tp_attr_t *attr_p)
{
    pgasi_wrap_query(tp, attr_p);
    attr_p->am_bulk_max = 0;
}

static const pgasi_tp_ops_t table = {
    .open = fault_open,
    .close = fault_close,
    .query = fault_query,
    .address = pgasi_wrap_address,
    .set_peers = pgasi_wrap_set_peers,
    .ctx_open = fault_ctx_open,
    .ctx_drain = fault_ctx_drain,
    .ctx_close = fault_ctx_close,
    .mem_alloc = fault_mem_alloc,
    .mem_register = fault_mem_register,
    .mem_release = pgasi_wrap_mem_release,
    .key_pack = pgasi_wrap_key_pack,
    .key_unpack = pgasi_wrap_key_unpack,
    .key_map = pgasi_wrap_key_map,
    .key_release = pgasi_wrap_key_release,
    .put = fault_put,
    .get = fault_get,
    .amo = fault_amo,
    .am = fault_am,
    .fence = fault_fence,
    .flush = fault_flush,
    .progress = fault_progress,
    .event_fd = pgasi_wrap_event_fd,
    .arm = fault_arm,
    .wake = pgasi_wrap_wake,
    .am_arrived = pgasi_wrap_am_arrived,
    .am_release = pgasi_wrap_am_release,
    .peer_dead = pgasi_wrap_peer_dead,
};

const pgasi_tp_ops_t *pgasi_tp_fault_wrap(const pgasi_tp_ops_t *ops, const char *text,
                                          uint64_t seed, char *why, size_t why_bytes)
{
    pgasi_fault_plan_t plan;
    if (!text || *text == '\0')
        return ops;
    if (pgasi_fault_parse(text, &plan, why, why_bytes) != PGAS_OK)
        return NULL;
    wrapped.ops = ops;
    wrapped.plan = plan;
    wrapped.seed = seed;
    return &table;
}
