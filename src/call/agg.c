/* Aggregators: a thread's (or the handlers') cursors, published late. */
#include "pgas/agg.h"

#include <stdlib.h>

#include "base/param.h"
#include "boot/boot.h"
#include "call/handler.h"
#include "call/inbox.h"
#include "call/outbox.h"
#include "call/progress.h"
#include "mem/thread.h"

typedef struct {
    pgas_agg_t visible; /* first: what the inline path sees */
    pgasi_outbox_t *outbox;
    pgasi_lane_t *lane;
    bool for_handlers;
} agg_t;

static agg_t *agg_of(pgas_agg_t *agg)
{
    return (agg_t *)(void *)agg;
}

pgas_status_t pgas_agg_create(const pgas_agg_opts_t *opts, pgas_agg_t **agg_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    pgas_agg_opts_t o = PGAS_AGG_OPTS_INIT;
    if (!agg_p || !PGASI_OPTS_SANE(opts, sizeof o))
        return PGAS_ERR_INVALID;
    if (opts)
        o = *opts;
    agg_t *a = calloc(1, sizeof *a);
    if (!a)
        return PGAS_ERR_NO_MEMORY;
    a->for_handlers = o.for_handlers;
    a->lane = o.for_handlers ? pgasi_lanes[PGASI_LANE_SERVICE] : pgasi_self.lane;
    /* The service's lane belongs to whoever holds the inbox, the shared one to whoever locks it. */
    bool lock_inbox = o.for_handlers && !pgasi_self.in_handler;
    if (lock_inbox)
        pgasi_inbox_lock();
    pgasi_lane_lock(a->lane);
    status = pgasi_outbox_of(a->lane, &a->outbox);
    if (status == PGAS_OK && o.publish_bytes)
        pgasi_outbox_set_publish_bytes(a->outbox, o.publish_bytes);
    pgasi_lane_unlock(a->lane);
    if (lock_inbox)
        pgasi_inbox_unlock();
    if (status != PGAS_OK) {
        free(a);
        return status;
    }
    pgasi_call_path_open();
    a->visible.cursor = pgasi_outbox_cursors(a->outbox);
    /* A shared lane is locked for every call, so nothing goes through the inline path there. */
    a->visible.n_ranks = a->lane->shared ? 0 : (uint32_t)pgasi_boot.n_ranks;
    a->visible.context = o.for_handlers ? PGAS_CALL_HANDLERS : (uint32_t)pgasi_self.slot + 1;
    *agg_p = &a->visible;
    return PGAS_OK;
}

/* Who may use it now: its thread outside of handlers, or any handler. */
static pgas_status_t check_user(const agg_t *a)
{
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK && (a->for_handlers != (pgasi_self.in_handler > 0) ||
                              (a->for_handlers && a->lane != pgasi_self.handler_lane)))
        status = PGAS_ERR_CONTEXT;
    return status;
}

pgas_status_t pgas_agg_call_far(pgas_agg_t *agg, int rank, pgas_handler_t handler, const void *args, size_t bytes)
{
    if (!agg)
        return PGAS_ERR_INVALID;
    agg_t *a = agg_of(agg);
    pgas_status_t status = pgasi_call_check(rank, handler, args, bytes);
    if (status == PGAS_OK)
        status = check_user(a);
    if (status != PGAS_OK)
        return status;
    pgasi_lane_lock(a->lane);
    status = pgasi_outbox_append(a->outbox, rank, handler, args, bytes, PGASI_FULL_WAIT);
    pgasi_lane_unlock(a->lane);
    return status;
}

pgas_status_t pgas_agg_flush(pgas_agg_t *agg, int rank)
{
    if (!agg)
        return PGAS_ERR_INVALID;
    agg_t *a = agg_of(agg);
    pgas_status_t status = check_user(a);
    if (status != PGAS_OK)
        return status;
    if (rank < 0 || rank >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    pgasi_lane_lock(a->lane);
    status = pgasi_outbox_flush(a->outbox, rank);
    pgasi_lane_unlock(a->lane);
    return status;
}

pgas_status_t pgas_agg_flush_all(pgas_agg_t *agg)
{
    if (!agg)
        return PGAS_ERR_INVALID;
    agg_t *a = agg_of(agg);
    pgas_status_t status = check_user(a);
    if (status != PGAS_OK)
        return status;
    if (!a->for_handlers)
        return pgasi_call_complete();
    return pgasi_outbox_publish_all(a->outbox, PGASI_PUBLISH_EXPLICIT);
}

pgas_status_t pgas_agg_destroy(pgas_agg_t *agg)
{
    if (!agg)
        return PGAS_OK;
    agg_t *a = agg_of(agg);
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK && !a->for_handlers) /* what handlers gather is published behind them */
        status = pgas_agg_flush_all(agg);
    if (status == PGAS_OK || status == PGAS_ERR_NOT_INIT)
        free(a);
    return status;
}
