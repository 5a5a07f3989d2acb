/* The fault-injecting wrapper; fault.h says what it may do, transport.h what it may not.
 *
 * Every operation becomes a record. It is refused, or issued at once, or put into its lane's list
 * of deferred ones and issued by a later progress call; when the wrapped transport has completed
 * it, the completion may wait in the list of finished ones. Fences and flushes first issue whatever
 * is deferred and concerns them. Sizes are those of tests: lists are walked, records come from a
 * pool, both are bounded. */
#include "transport/fault.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/pool.h"
#include "base/rng.h"
#include "transport/wrap.h"

#define DEFERRED_MAX 256
#define CLOSE_NS     UINT64_C(1000000000)

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
    struct fault_lane *lane;
    kind_t kind;
    int peer;
    pgasi_tp_key_t *key; /* the wrapped one */
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

typedef struct fault_lane {
    pgasi_wrap_lane_t super;
    pgasi_rng_t rng;
    pgasi_pool_t ops;
    uint64_t now; /* progress calls so far */
    op_t *deferred, **deferred_end;
    size_t n_deferred;
    op_t *finished; /* their completions wait */
    int n_refusals; /* still to come in this run */
    bool was_refused;
    bool progressing;
    bool draining; /* what is not through when the lane is closed is given up */
} fault_lane_t;

static struct {
    const pgasi_tp_ops_t *ops;
    pgasi_fault_plan_t plan;
    uint64_t seed;
} wrapped;

static const pgasi_tp_ops_t table;

static fault_lane_t *lane_of(pgasi_tp_lane_t *lane)
{
    return (fault_lane_t *)(void *)lane;
}

static const pgasi_fault_plan_t *plan_of(const fault_lane_t *lane)
{
    return &((const fault_t *)(const void *)lane->super.tp)->plan;
}

/* A number of progress calls in 0 .. n. */
static uint64_t draw(fault_lane_t *lane, int n)
{
    return n == 0 ? 0 : pgasi_rng_below(&lane->rng, (uint64_t)n + 1);
}

static bool refuses(fault_lane_t *lane)
{
    int most = plan_of(lane)->again;
    if (most == 0)
        return false;
    if (lane->n_refusals == 0 && !lane->was_refused && pgasi_rng_below(&lane->rng, 3) == 0)
        lane->n_refusals = 1 + (int)pgasi_rng_below(&lane->rng, (uint64_t)most);
    lane->was_refused = lane->n_refusals > 0;
    lane->n_refusals -= lane->was_refused;
    return lane->was_refused;
}

static void complete(op_t *op)
{
    pgasi_tp_comp_t *comp = op->comp;
    pgas_status_t status = op->status;
    pgasi_pool_release(&op->lane->ops, op);
    if (comp)
        comp->fn(comp, status);
}

/* Holds a completion back, perhaps. */
static bool hold_completion(op_t *op)
{
    fault_lane_t *lane = op->lane;
    uint64_t calls = draw(lane, PGASI_MAX(plan_of(lane)->delay, plan_of(lane)->reorder));
    if (!op->comp || calls == 0)
        return false;
    op->due = lane->now + calls;
    op->next = lane->finished;
    lane->finished = op;
    return true;
}

static void inner_done(pgasi_tp_comp_t *self, pgas_status_t status)
{
    op_t *op = PGASI_CONTAINER_OF(self, op_t, inner_comp);
    op->status = status;
    if (!hold_completion(op))
        complete(op);
}

/* Hands an operation to the wrapped transport. PGAS_INPROGRESS: the record is kept if somebody
 * waits for it. */
static pgas_status_t issue(op_t *op)
{
    pgasi_tp_lane_t *inner = op->lane->super.inner;
    pgasi_tp_comp_t *comp = NULL;
    if (op->comp) {
        op->inner_comp.fn = inner_done;
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
    fault_lane_t *lane = op->lane;
    op->due = lane->now + calls;
    op->next = NULL;
    *lane->deferred_end = op;
    lane->deferred_end = &op->next;
    lane->n_deferred++;
}

static bool has_earlier_message(const fault_lane_t *lane, int peer, const op_t *before)
{
    for (const op_t *op = lane->deferred; op != before; op = op->next)
        if (op->kind == OP_AM && op->peer == peer)
            return true;
    return false;
}

static pgas_status_t submit(op_t *op)
{
    fault_lane_t *lane = op->lane;
    const pgasi_fault_plan_t *plan = plan_of(lane);
    int most = op->kind == OP_FLUSH ? 0
               : op->kind == OP_AM  ? PGASI_MAX(plan->delay, plan->reorder)
                                    : plan->reorder;
    uint64_t calls = draw(lane, most);
    if (calls > 0 || (op->kind == OP_AM && has_earlier_message(lane, op->peer, NULL))) {
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
        pgasi_pool_release(&lane->ops, op);
    return status;
}

/* A record for an operation, or PGAS_ERR_AGAIN. */
static pgas_status_t make_op(pgasi_tp_lane_t *tp_lane, kind_t kind, int peer, pgasi_tp_comp_t *comp,
                             op_t **op_p)
{
    fault_lane_t *lane = lane_of(tp_lane);
    if (lane->n_deferred >= DEFERRED_MAX || refuses(lane))
        return PGAS_ERR_AGAIN;
    op_t *op = pgasi_pool_acquire(&lane->ops);
    if (!op)
        return PGAS_ERR_AGAIN;
    memset(op, 0, sizeof *op);
    op->lane = lane;
    op->kind = kind;
    op->peer = peer;
    op->comp = comp;
    *op_p = op;
    return PGAS_OK;
}

/* Takes the operation at *at out of the deferred list and issues it; puts it back if the transport
 * says AGAIN. */
static pgas_status_t issue_deferred(fault_lane_t *lane, op_t **at)
{
    op_t *op = *at;
    op_t *next = op->next;
    pgas_status_t status = issue(op);
    if (status == PGAS_ERR_AGAIN)
        return status;
    *at = next;
    if (!next)
        lane->deferred_end = at;
    lane->n_deferred--;
    if (status == PGAS_INPROGRESS && op->comp)
        return status;
    op->status = status;
    if (status == PGAS_INPROGRESS) { /* a flush will tell */
        pgasi_pool_release(&lane->ops, op);
    } else if (lane->progressing) {
        complete(op);
    } else { /* not inside progress: completions have to wait for it */
        op->due = lane->now;
        op->next = lane->finished;
        lane->finished = op;
    }
    return PGAS_OK;
}

/* Issues all that is deferred for the peer, in any order that keeps messages in theirs. */
static pgas_status_t issue_all(fault_lane_t *lane, int peer)
{
    for (op_t **at = &lane->deferred; *at != NULL;)
        if (peer != PGASI_TP_ALL_PEERS && (*at)->peer != peer)
            at = &(*at)->next;
        else if (issue_deferred(lane, at) == PGAS_ERR_AGAIN)
            return PGAS_ERR_AGAIN;
    return PGAS_OK;
}

static op_t **choose_due(fault_lane_t *lane)
{
    op_t **chosen = NULL;
    uint64_t n_due = 0;
    for (op_t **at = &lane->deferred; *at != NULL; at = &(*at)->next)
        if ((*at)->due <= lane->now &&
            !((*at)->kind == OP_AM && has_earlier_message(lane, (*at)->peer, *at)) &&
            (plan_of(lane)->reorder == 0 ? n_due++ == 0
                                         : pgasi_rng_below(&lane->rng, ++n_due) == 0))
            chosen = at;
    return chosen;
}

static op_t *choose_finished(fault_lane_t *lane)
{
    op_t **chosen = NULL;
    uint64_t n_due = 0;
    for (op_t **at = &lane->finished; *at != NULL; at = &(*at)->next)
        if ((*at)->due <= lane->now && pgasi_rng_below(&lane->rng, ++n_due) == 0)
            chosen = at;
    if (!chosen)
        return NULL;
    op_t *op = *chosen;
    *chosen = op->next;
    return op;
}

static int fault_progress(pgasi_tp_lane_t *tp_lane)
{
    fault_lane_t *lane = lane_of(tp_lane);
    lane->progressing = true;
    int n = lane->super.inner->ops->progress(lane->super.inner);
    lane->now++;
    for (op_t **at; (at = choose_due(lane)) != NULL; n++)
        if (issue_deferred(lane, at) == PGAS_ERR_AGAIN)
            break;
    for (op_t *op; (op = choose_finished(lane)) != NULL; n++)
        complete(op);
    lane->progressing = false;
    return n;
}

static pgas_status_t fault_put(pgasi_tp_lane_t *lane, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, const void *src, size_t bytes,
                               pgasi_tp_comp_t *comp)
{
    op_t *op;
    pgas_status_t status = make_op(lane, OP_PUT, peer, comp, &op);
    if (status != PGAS_OK)
        return status;
    op->key = pgasi_wrap_key(key);
    op->remote_addr = remote_addr;
    op->src = src;
    op->bytes = bytes;
    return submit(op);
}

static pgas_status_t fault_get(pgasi_tp_lane_t *lane, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, void *dst, size_t bytes, pgasi_tp_comp_t *comp)
{
    op_t *op;
    pgas_status_t status = make_op(lane, OP_GET, peer, comp, &op);
    if (status != PGAS_OK)
        return status;
    op->key = pgasi_wrap_key(key);
    op->remote_addr = remote_addr;
    op->dst = dst;
    op->bytes = bytes;
    return submit(op);
}

static pgas_status_t fault_amo(pgasi_tp_lane_t *lane, int peer, pgasi_tp_key_t *key,
                               uint64_t remote_addr, pgasi_amo_t amo, size_t bytes,
                               uint64_t operand, uint64_t compare, void *result,
                               pgasi_tp_comp_t *comp)
{
    op_t *op;
    pgas_status_t status = make_op(lane, OP_AMO, peer, comp, &op);
    if (status != PGAS_OK)
        return status;
    op->key = pgasi_wrap_key(key);
    op->remote_addr = remote_addr;
    op->amo = amo;
    op->bytes = bytes;
    op->operand = operand;
    op->compare = compare;
    op->dst = result;
    return submit(op);
}

static pgas_status_t fault_am(pgasi_tp_lane_t *lane, int peer, const void *header,
                              size_t header_bytes, const void *data, size_t bytes,
                              pgasi_tp_comp_t *comp)
{
    op_t *op;
    if (header_bytes > PGASI_TP_AM_HEADER_MAX)
        return PGAS_ERR_LIMIT;
    pgas_status_t status = make_op(lane, OP_AM, peer, comp, &op);
    if (status != PGAS_OK)
        return status;
    op->header_bytes = header_bytes;
    if (header_bytes > 0)
        memcpy(op->header, header, header_bytes);
    op->src = data;
    op->bytes = bytes;
    return submit(op);
}

static pgas_status_t fault_fence(pgasi_tp_lane_t *tp_lane)
{
    fault_lane_t *lane = lane_of(tp_lane);
    pgas_status_t status = issue_all(lane, PGASI_TP_ALL_PEERS);
    return status == PGAS_OK ? lane->super.inner->ops->fence(lane->super.inner) : status;
}

static pgas_status_t fault_flush(pgasi_tp_lane_t *tp_lane, int peer, pgasi_tp_comp_t *comp)
{
    op_t *op;
    pgas_status_t status = issue_all(lane_of(tp_lane), peer);
    if (status == PGAS_OK)
        status = make_op(tp_lane, OP_FLUSH, peer, comp, &op);
    return status == PGAS_OK ? submit(op) : status;
}

static pgas_status_t fault_arm(pgasi_tp_lane_t *tp_lane)
{
    const fault_lane_t *lane = lane_of(tp_lane);
    return lane->deferred || lane->finished ? PGAS_ERR_BUSY : pgasi_wrap_arm(tp_lane);
}

/* Whether this registration is one of those that fail. */
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

static pgas_status_t fault_lane_open(pgasi_tp_t *tp_base, int index, pgasi_tp_lane_t **lane_p)
{
    fault_t *tp = (fault_t *)(void *)tp_base;
    fault_lane_t *lane = calloc(1, sizeof *lane);
    if (!lane)
        return PGAS_ERR_NO_MEMORY;
    lane->super.super.ops = &table;
    lane->super.tp = &tp->super;
    pgas_status_t status =
        tp->super.inner->ops->lane_open(tp->super.inner, index, &lane->super.inner);
    if (status != PGAS_OK) {
        free(lane);
        return status;
    }
    lane->deferred_end = &lane->deferred;
    pgasi_pool_init(&lane->ops, sizeof(op_t), 0, 64, 1 << 16);
    pgasi_rng_seed(&lane->rng, tp->seed * 1000003u + (uint64_t)tp->rank * 4099u + (uint64_t)index);
    *lane_p = &lane->super.super;
    return PGAS_OK;
}

static pgas_status_t fault_lane_drain(pgasi_tp_lane_t *tp_lane)
{
    fault_lane_t *lane = lane_of(tp_lane);
    lane->draining = true;
    bool issued = issue_all(lane, PGASI_TP_ALL_PEERS) != PGAS_ERR_AGAIN;
    if (!issued || pgasi_wrap_lane_drain(tp_lane) == PGAS_INPROGRESS || lane->finished)
        return PGAS_INPROGRESS;
    return PGAS_OK;
}

static void fault_lane_close(pgasi_tp_lane_t *tp_lane)
{
    fault_lane_t *lane = lane_of(tp_lane);
    uint64_t deadline = pgasi_now_ns() + CLOSE_NS;
    while (!lane->draining && issue_all(lane, PGASI_TP_ALL_PEERS) == PGAS_ERR_AGAIN &&
           pgasi_now_ns() < deadline)
        lane->super.inner->ops->progress(lane->super.inner);
    lane->super.inner->ops->lane_close(lane->super.inner);
    lane->now = UINT64_MAX;
    for (op_t *op; !lane->draining && (op = choose_finished(lane));)
        complete(op);
    pgasi_pool_fini(&lane->ops);
    free(lane);
}

static const pgasi_tp_ops_t table = {
    .open = fault_open,
    .close = fault_close,
    .query = pgasi_wrap_query,
    .address = pgasi_wrap_address,
    .set_peers = pgasi_wrap_set_peers,
    .lane_open = fault_lane_open,
    .lane_drain = fault_lane_drain,
    .lane_close = fault_lane_close,
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
