/* Calls to targets: pgas_call_to reads its options and chooses how the call is carried out. Calls
 * with buffers or large results belong to src/bulk, calls to teams to src/bcast (hooks.h). */
#include "msg/send.h"

#include <stdlib.h>
#include <string.h>

#include "boot/boot.h"
#include "boot/hooks.h"
#include "call/agg.h"
#include "call/call.h"
#include "call/sync.h"
#include "mem/thread.h"

pgas_status_t pgasi_call_read_opts(const pgas_call_opts_t *opts, const pgas_call_opts_t **o_p)
{
    static const pgas_call_opts_t defaults = PGAS_CALL_OPTS_INIT;
    if (!opts) {
        *o_p = &defaults;
        return PGAS_OK;
    }
    if (!PGASI_OPTS_SANE(opts, sizeof *opts) || (unsigned)opts->when > PGAS_LOCAL ||
        (unsigned)opts->full > PGAS_FULL_QUEUE || (unsigned)opts->way > PGAS_WAY_SEND)
        return PGAS_ERR_INVALID;
    if (opts->result ? !opts->sync || opts->when != PGAS_EXECUTED : opts->result_bytes > 0)
        return PGAS_ERR_INVALID;
    *o_p = opts;
    return PGAS_OK;
}

/* ---- calls of one descriptor ---- */

static pgas_status_t deliver(const pgasi_call_to_t *c, uint32_t number, const void *args,
                             size_t bytes, const uint64_t *wire)
{
    if (!c->agg)
        return pgasi_sendq_call_ep(c->rank, c->ep, c->shared, number, args, bytes, wire,
                                   c->o->full);
    message_t m = { pgasi_desc_header(number, bytes, pgasi_self.slot) |
                        (wire ? PGASI_DESC_TOKEN : 0),
                    wire,
                    NULL,
                    args,
                    0,
                    bytes };
    return pgasi_agg_append(c->agg, c->rank, c->ep, &m, c->o->full);
}

pgas_status_t pgasi_call_deliver_pair(const pgasi_call_to_t *c, uint32_t number, const void *head,
                                      size_t head_bytes, const void *data, size_t bytes,
                                      pgas_full_t full)
{
    if (!c->agg)
        return pgasi_sendq_call_pair(c->rank, c->ep, c->shared, number, head, head_bytes, data,
                                     bytes, full);
    message_t m = { pgasi_desc_header(number, head_bytes + bytes, pgasi_self.slot),
                    NULL,
                    head,
                    data,
                    head_bytes,
                    bytes };
    return pgasi_agg_append(c->agg, c->rank, c->ep, &m, full);
}

pgas_status_t pgasi_call_send(const pgasi_call_to_t *c, uint32_t number, const void *args,
                              size_t bytes)
{
    const pgas_call_opts_t *o = c->o;
    if (!o->sync)
        return deliver(c, number, args, bytes, NULL);
    pgasi_sync_call_t s;
    pgasi_token_for_t call = { o->sync, c->rank, c->handler, o->result, o->result_bytes };
    bool queued = pgasi_self.in_handler || o->full == PGAS_FULL_QUEUE || c->agg;
    int flags = (queued ? PGASI_ISSUE_QUEUED : 0) | pgasi_issue_wait(o->full);
    pgas_status_t status = o->result
                               ? pgasi_sync_ask(&s, &call, flags)
                               : pgasi_sync_issue(&s, o->sync, c->rank, c->handler, o->when, flags);
    if (status != PGAS_OK)
        return status;
    status = deliver(c, number, args, bytes, s.wire ? &s.wire : NULL);
    return pgasi_sync_issued(&s, status);
}

static pgas_status_t spawn(const pgasi_call_to_t *c)
{
    uint64_t handler = c->handler;
    if (c->bytes + sizeof handler > pgasi_param.call_max)
        return PGAS_ERR_LIMIT;
    char *block = malloc(sizeof handler + c->bytes);
    if (!block)
        return PGAS_ERR_NO_MEMORY;
    memcpy(block, &handler, sizeof handler);
    if (c->bytes)
        memcpy(block + sizeof handler, c->args, c->bytes);
    pgas_status_t status = pgasi_call_send(c, PGASI_DESC_SPAWN, block, sizeof handler + c->bytes);
    free(block);
    return status;
}

pgas_status_t pgasi_call_describe(pgas_target_t target, pgas_handler_t handler,
                                  const pgas_call_opts_t *o, pgasi_call_to_t *c)
{
    if (target.slot < 0)
        return PGAS_ERR_UNSUPPORTED;
    bool shared = o->way == PGAS_WAY_SEND;
    pgas_status_t status = check_call(target.rank, handler, NULL, 0, shared);
    if (status != PGAS_OK)
        return status;
    *c = (pgasi_call_to_t){ .rank = target.rank,
                            .ep = pgasi_ep_of_slot(target.slot),
                            .shared = shared,
                            .handler = handler,
                            .target = target,
                            .o = o };
    return c->ep < 0 ? PGAS_ERR_LIMIT : PGAS_OK;
}

/* A call to a rank, a thread or a service. */
static pgas_status_t call_point(pgasi_call_to_t *c)
{
    const pgas_call_opts_t *o = c->o;
    c->ep = pgasi_ep_of_slot(c->target.slot);
    if (c->ep < 0)
        return PGAS_ERR_LIMIT;
    if (o->spawn && c->target.slot != PGAS_SLOT_ANY)
        return PGAS_ERR_UNSUPPORTED;
    if (o->n_buffers || o->local || o->result_bytes > pgasi_param.call_max)
        return pgasi_hooks.call_bulk(c);
    return o->spawn ? spawn(c) : pgasi_call_send(c, c->handler, c->args, c->bytes);
}

/* ---- public functions ---- */

pgas_status_t pgas_call_to(pgas_target_t target, pgas_handler_t handler, const void *args,
                           size_t bytes, const pgas_call_opts_t *opts)
{
    const pgas_call_opts_t *o;
    bool team = target.slot < 0;
    pgas_status_t status = pgasi_call_read_opts(opts, &o);
    if (status != PGAS_OK)
        return status;
    bool shared = o->way == PGAS_WAY_SEND;
    status = check_call(team ? pgasi_boot.rank : target.rank, handler, args, bytes, shared);
    if (status != PGAS_OK)
        return status;
    pgasi_call_to_t c = { .rank = target.rank,
                          .shared = shared,
                          .handler = handler,
                          .args = args,
                          .bytes = bytes,
                          .target = target,
                          .o = o };
    if (team)
        return pgasi_hooks.call_team(&c);
    return call_point(&c);
}

pgas_status_t pgasi_call_by_agg(pgas_agg_t *agg, pgas_target_t target, pgas_handler_t handler,
                                const void *args, size_t bytes, const pgas_call_opts_t *o)
{
    pgas_status_t status = check_call(target.rank, handler, args, bytes, false);
    pgasi_call_to_t c = { .rank = target.rank,
                          .handler = handler,
                          .args = args,
                          .bytes = bytes,
                          .target = target,
                          .o = o,
                          .agg = agg };
    return status == PGAS_OK ? call_point(&c) : status;
}

pgas_status_t pgas_call_return(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                               void *result, size_t result_bytes)
{
    static char nothing;
    pgas_sync_t done = PGAS_SYNC_INIT;
    if (!result && result_bytes)
        return PGAS_ERR_INVALID;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    o.sync = &done;
    o.result = result ? result : &nothing;
    o.result_bytes = result_bytes;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK)
        status = pgas_call_to(pgas_on_rank(rank), handler, args, bytes, &o);
    return status == PGAS_OK ? pgasi_sync_wait_own(&done) : status;
}
