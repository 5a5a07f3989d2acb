/* Calls to teams: see pgas/call.h. A rank that receives one forwards it, then runs its
 * handler. Both happen inside the handler that received the message. */
#include <string.h>

#include "base/param.h"
#include "bcast/bcast.h"
#include "bcast/buffer.h"
#include "boot/boot.h"
#include "base/sync.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"

/* ---- down the tree ---- */

typedef struct {
    const void *args;
    size_t bytes;
    bool shared; /* PGAS_WAY_SEND, at the root */
} message_t;

static pgas_status_t send_down(const pgasi_bcast_head_t *h, const pgasi_bcast_child_t *c,
                               const message_t *m, pgas_full_t full)
{
    pgasi_bcast_head_t theirs = *h;
    theirs.low = c->low;
    theirs.high = c->high;
    return pgasi_sendq_call_pair(c->rank, PGASI_EP_ANY, m->shared, PGASI_DESC_BCAST, &theirs,
                                 sizeof theirs, m->args, m->bytes, full);
}

/* Sends to the children from `first` on. A child to which this fails counts as answered. */
static void send_on(const pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan, int first,
                    const message_t *m, pgasi_bcast_entry_t *entry)
{
    for (int i = first; i < plan->n; i++) {
        pgas_status_t status = send_down(h, &plan->child[i], m, pgasi_bcast_full());
        if (status == PGAS_OK)
            pgasi_bcast_count(&pgasi_bcast_stats.n_down);
        else
            pgasi_bcast_child_done(entry, plan->child[i].rank, status);
    }
}

static void on_bcast(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    static const pgasi_bcast_run_t plain = { NULL, NULL, 0, false, false };
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
        pgas_status_t status = pgasi_bcast_plan(&h, &plan);
        entry = pgasi_bcast_enter(&h, pgas_thread_rank(source), &plan);
        if (status != PGAS_OK) {
            pgasi_bcast_part_done(entry, status);
            return;
        }
        send_on(&h, &plan, 0, &(message_t){ args, bytes, false }, entry);
    }
    pgasi_bcast_run(&h, args, bytes, entry, &plain);
}

/* ---- the root ---- */

/* Sends the first message, by the rules of the caller: to a child, or to this rank if there is
 * none. */
static pgas_status_t send_first(const pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan,
                                const pgasi_bcast_child_t *self, const message_t *m,
                                pgas_full_t full)
{
    pgas_status_t status = send_down(h, plan->n ? &plan->child[0] : self, m, full);
    if (status == PGAS_OK && plan->n)
        pgasi_bcast_count(&pgasi_bcast_stats.n_down);
    return status;
}

/* sync: the counter that waits, or NULL. */
static pgas_status_t start(const pgasi_bcast_head_t *root, const pgasi_call_to_t *c,
                           pgas_sync_t *sync)
{
    pgasi_bcast_head_t copy = *root, *h = &copy;
    message_t m = { c->args, c->bytes, c->shared };
    pgas_full_t full = c->o->full;
    pgasi_bcast_child_t self = { pgasi_boot.rank, 0, 1 };
    pgasi_bcast_entry_t *entry = NULL;
    pgasi_bcast_plan_t plan;
    pgas_status_t status = pgasi_bcast_plan(h, &plan);
    if (status != PGAS_OK)
        return status;
    if (sync || pgasi_bcast_is_turn())
        status = pgasi_bcast_root(h, &plan, sync, full, NULL, &entry);
    if (status != PGAS_OK)
        return status;
    pgasi_bcast_head_t mine = *h;
    mine.flags |= PGASI_BCAST_SELF;
    status = send_first(plan.n ? h : &mine, &plan, &self, &m, full);
    if (status == PGAS_ERR_PEER && plan.n) {
        pgasi_bcast_child_done(entry, plan.child[0].rank, status); /* it has just died */
        status = PGAS_OK;
    }
    if (status != PGAS_OK) {
        if (entry)
            pgasi_bcast_undo(entry);
        return status;
    }
    send_on(h, &plan, 1, &m, entry);
    if (plan.n)
        status = send_down(&mine, &self, &m, pgasi_bcast_full());
    if (status != PGAS_OK)
        pgasi_bcast_part_done(entry, status);
    return PGAS_OK;
}

/* What the arguments share a message with counts as part of them. */
static size_t bytes_beside(const pgasi_call_to_t *c)
{
    if (c->o->n_buffers)
        return PGASI_BCAST_BUFFER_BYTES;
    return c->target.slot == PGAS_TARGET_TEAM_THREADS ? PGASI_BCAST_THREAD_BYTES : 0;
}

/* Several buffers travel as one block, which the ranks pull. */
static bool can_pack(const pgas_call_opts_t *o)
{
    for (size_t i = 0; o->n_buffers > 1 && o->buffers && i < o->n_buffers; i++)
        if (o->buffers[i].mode == PGAS_BUFFER_PUSH || o->buffers[i].mode == PGAS_BUFFER_SCATTER)
            return false;
    return true;
}

static pgas_status_t check(const pgasi_call_to_t *c)
{
    const pgas_call_opts_t *o = c->o;
    size_t beside = bytes_beside(c);
    if (c->target.slot < PGAS_TARGET_TEAM_THREADS || (o->local && o->sync && o->when == PGAS_LOCAL))
        return PGAS_ERR_INVALID;
    if (o->n_buffers > PGAS_BUFFERS_MAX)
        return PGAS_ERR_LIMIT;
    if (o->result || !can_pack(o) || (o->spawn && c->target.slot == PGAS_TARGET_TEAM_THREADS))
        return PGAS_ERR_UNSUPPORTED;
    return beside && c->bytes + beside > pgasi_param.call_max ? PGAS_ERR_LIMIT : PGAS_OK;
}

static pgas_status_t call(const pgasi_call_to_t *c, pgas_sync_t *sync)
{
    pgasi_bcast_head_t h;
    if (c->o->n_buffers)
        return pgasi_bcast_buffer(c, sync);
    pgasi_bcast_begin(&h, c);
    return start(&h, c, sync);
}

/* Buffers may always be reused on return, so the local counter is never raised. */
pgas_status_t pgasi_bcast_call(const pgasi_call_to_t *c)
{
    pgas_status_t status = check(c);
    if (status != PGAS_OK)
        return status;
    pgas_sync_t *sync = c->o->when == PGAS_LOCAL ? NULL : c->o->sync;
    int64_t before = sync ? pgasi_sync_raise(sync) : 0;
    status = call(c, sync);
    if (status != PGAS_OK && sync)
        pgasi_sync_refuse(sync, before);
    return status;
}

void pgasi_bcast_call_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_BCAST, on_bcast);
}
