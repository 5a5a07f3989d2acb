/* Broadcasts of calls: see pgas/broadcast.h. A rank that receives one forwards it, then runs its
 * handler. Both happen inside the handler that received the message. */
#include <string.h>

#include "bcast/bcast.h"
#include "boot/boot.h"
#include "call/sync.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"

/* ---- down the tree ---- */

static pgas_status_t send_down(const pgasi_bcast_head_t *h, const pgasi_bcast_child_t *c,
                               const void *args, size_t bytes, pgas_full_t full)
{
    pgasi_bcast_head_t theirs = *h;
    theirs.low = c->low;
    theirs.high = c->high;
    return pgasi_sendq_call_pair(c->rank, PGASI_EP_ANY, false, PGASI_DESC_BCAST, &theirs,
                                 sizeof theirs, args, bytes, full);
}

/* Sends to the children from `first` on. A child to which this fails counts as answered. */
static void send_on(const pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan, int first,
                    const void *args, size_t bytes, pgasi_bcast_entry_t *entry)
{
    for (int i = first; i < plan->n; i++) {
        pgas_status_t status = send_down(h, &plan->child[i], args, bytes, pgasi_bcast_full());
        if (status == PGAS_OK)
            pgasi_bcast_count(&pgasi_bcast_stats.n_down);
        else
            pgasi_bcast_child_done(entry, plan->child[i].rank, status);
    }
}

static void on_bcast(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    static const pgasi_bcast_run_t plain = { NULL, NULL, 0 };
    (void)context;
    pgasi_bcast_head_t h;
    pgasi_bcast_plan_t plan;
    if (bytes >= sizeof h)
        memcpy(&h, args, sizeof h);
    if (bytes < sizeof h || !pgasi_bcast_is_sane(&h)) {
        pgasi_bcast_drop(source);
        return;
    }
    args = (const char *)args + sizeof h;
    bytes -= sizeof h;
    pgasi_bcast_entry_t *entry = NULL;
    if (h.flags & PGASI_BCAST_SELF) {
        entry = pgasi_bcast_known(&h);
    } else {
        pgasi_bcast_plan(&h, &plan);
        entry = pgasi_bcast_enter(&h, pgas_thread_rank(source), &plan);
        send_on(&h, &plan, 0, args, bytes, entry);
    }
    pgasi_bcast_run(&h, args, bytes, entry, &plain);
}

/* ---- the root ---- */

/* Sends the first message, by the rules of the caller: to a child, or to this rank if there is
 * none. */
static pgas_status_t send_first(const pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan,
                                const pgasi_bcast_child_t *self, const void *args, size_t bytes,
                                pgas_full_t full)
{
    pgas_status_t status = send_down(h, plan->n ? &plan->child[0] : self, args, bytes, full);
    if (status == PGAS_OK && plan->n)
        pgasi_bcast_count(&pgasi_bcast_stats.n_down);
    return status;
}

/* token: of the counter that waits, or 0. */
static pgas_status_t start(pgasi_bcast_head_t *h, const void *args, size_t bytes, uint32_t token,
                           pgas_full_t full)
{
    pgasi_bcast_child_t self = { pgasi_boot.rank, 0, 1 };
    pgasi_bcast_entry_t *entry = NULL;
    pgasi_bcast_plan_t plan;
    pgasi_bcast_plan(h, &plan);
    pgas_status_t status = PGAS_OK;
    if (token || pgasi_bcast_is_turn())
        status = pgasi_bcast_root(h, &plan, token, full, NULL, &entry);
    if (status != PGAS_OK)
        return status;
    pgasi_bcast_head_t mine = *h;
    mine.flags |= PGASI_BCAST_SELF;
    status = send_first(plan.n ? h : &mine, &plan, &self, args, bytes, full);
    if (status == PGAS_ERR_PEER && plan.n) {
        pgasi_bcast_child_done(entry, plan.child[0].rank, status); /* it has just died */
        status = PGAS_OK;
    }
    if (status != PGAS_OK) {
        if (entry)
            pgasi_bcast_undo(entry);
        return status;
    }
    send_on(h, &plan, 1, args, bytes, entry);
    if (plan.n)
        status = send_down(&mine, &self, args, bytes, pgasi_bcast_full());
    if (status != PGAS_OK)
        pgasi_bcast_part_done(entry, status);
    return PGAS_OK;
}

pgas_status_t pgas_call_broadcast(pgas_handler_t handler, const void *args, size_t bytes,
                                  pgas_scope_t scope, const pgas_call_opts_t *opts)
{
    pgas_call_opts_t o;
    size_t head_bytes = scope == PGAS_SCOPE_THREADS ? PGASI_BCAST_THREAD_BYTES : 0;
    pgas_status_t status = pgasi_bcast_check(handler, args, bytes, head_bytes, scope, opts, &o);
    pgasi_sync_call_t c = { .wire = 0 };
    if (status == PGAS_OK && o.sync)
        status = pgasi_sync_issue_own(&c, o.sync, handler, o.when);
    if (status != PGAS_OK)
        return status;
    pgasi_bcast_head_t h;
    pgasi_bcast_begin(&h, handler, scope, o.when);
    status = start(&h, args, bytes, pgasi_wire_token(c.wire), o.full);
    return o.sync ? pgasi_sync_issued(&c, status) : status;
}

void pgasi_bcast_call_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_BCAST, on_bcast);
}
