/* Calls built in place: pgas_call_begin returns memory for the arguments, pgas_call_commit sends
 * the call.
 *
 * To a rank of the node the memory is in the receiver's chunk, behind the tail, which does not move
 * before the commit. To another node it is in the buffer that becomes the message. The memory is a
 * separate block, which is copied later, in four cases: there is no room now; the caller is a
 * handler; the call goes through the shared context; the thread is not attached.
 *
 * A thread builds one call at a time. Meanwhile its context sends nothing else to that
 * destination. */
#include "msg/send.h"

#include <stdlib.h>
#include <string.h>

#include "boot/boot.h"
#include "call/call.h"
#include "call/sync.h"
#include "mem/ahead.h"
#include "mem/thread.h"

/* The call that a thread has begun: a descriptor at the tail of a channel, or in a buffer of its
 * own. */
typedef struct {
    bool begun;
    /* The call belongs to this run of the library: after another pgas_init it is void. */
    uint64_t epoch;
    int rank, ep;
    bool shared;
    pgas_full_t full;
    uint64_t header, wire;
    pgasi_sync_call_t sync;
    bool has_sync;
    pgasi_sendq_t *sq; /* the send queue, if the call is built in place */
    buffer_t *buffer;  /* the message, if the call goes to another node */
    bool own_buffer;   /* malloc allocated the buffer */
    char *block;       /* or a block with the arguments, which are copied later */
    char *args;
} begun_t;
static __thread begun_t begun;

static size_t desc_head(const begun_t *b)
{
    return 8 + (b->header & PGASI_DESC_TOKEN ? 8 : 0);
}

/* Reserves memory in the channel, or in a buffer that is sent without a copy. False: there is none
 * now. The context is locked. */
static bool reserve(begun_t *b, pgasi_sendq_t *sq, int dest)
{
    out_t *out = out_of(sq, dest);
    size_t room = pgasi_desc_room(b->header);
    pgasi_sendq_publish(sq, dest, PGASI_PUBLISH_ORDER);
    if (out->dead || out->batch || out->waiting)
        return false;
    if (out->kind == OUT_NODE) {
        if (!ring_room(out, room))
            return false;
        b->args = out->w->pos + desc_head(b);
        out->begun = true;
        close_window(out);
    } else {
        if (pgasi_ctx_open(sq->ctx) != PGAS_OK || !(b->buffer = pgasi_send_buffer(sq, room, false)))
            return false;
        b->own_buffer = b->buffer->slot < 0;
        b->args = b->buffer->data + desc_head(b);
        out->begun = true;
    }
    b->sq = sq;
    return true;
}

static void fill_token(const begun_t *b, char *desc)
{
    if (b->header & PGASI_DESC_TOKEN)
        memcpy(desc + 8, &b->wire, 8);
}

/* The bytes that were built remain behind the tail. There they could pass for valid bits, so the
 * channel must clear them before use. */
static void leave_dirty(out_t *out, size_t room)
{
    uint32_t end =
        (uint32_t)(out->w->pos - out->chunk) + (uint32_t)PGASI_ALIGN_UP(room, PGASI_RING_UNIT);
    chunk_t *c = &out->chunks[out->current];
    out->clean_from = PGASI_MAX(out->clean_from, end);
    c->written = PGASI_MAX(c->written, end);
}

/* Makes the call visible to the receiver, or sends it, or drops it. */
static pgas_status_t finish(begun_t *b, bool send_it)
{
    pgasi_sendq_t *sq = b->sq;
    int dest = b->ep * (int)sq->n_ranks + b->rank;
    pgasi_ctx_lock(sq->ctx);
    out_t *out = &sq->out[dest];
    pgas_status_t status = pgasi_boot_is_dead(b->rank) ? PGAS_ERR_PEER : PGAS_OK;
    out->begun = false;
    send_it = send_it && status == PGAS_OK;
    if (!b->buffer && send_it) {
        fill_token(b, out->w->pos);
        make_valid(out, pgasi_desc_room(b->header), b->header);
        wake_receiver(out);
    } else if (!b->buffer) {
        leave_dirty(out, pgasi_desc_room(b->header));
    } else {
        memcpy(b->buffer->data, &b->header, 8);
        fill_token(b, b->buffer->data);
        b->buffer->used = pgasi_desc_room(b->header);
        if (send_it)
            status = pgasi_send_publish(sq, out, b->buffer);
        else
            buffer_release(b->buffer);
        if (status == PGAS_ERR_AGAIN) {
            pgasi_send_let_wait(sq, out, b->buffer);
            status = PGAS_OK;
        }
    }
    if (out->kind == OUT_NODE)
        update_window(out);
    pgasi_ctx_unlock(sq->ctx);
    return status;
}

void pgasi_call_forget(void)
{
    if (pgasi_self.ctx)
        pgasi_ahead_end(&pgasi_self.ctx->ahead);
    if (!begun.begun)
        return;
    if (begun.epoch == pgasi_epoch) {
        pgas_call_abandon();
        return;
    }
    free(begun.block);
    if (begun.own_buffer)
        free(begun.buffer);
    begun.begun = false;
}

/* Fills in all that does not depend on the memory for the arguments, and announces the call to its
 * counter. Statuses: those of pgas_call_begin. */
static pgas_status_t describe(begun_t *b, pgas_target_t target, pgas_handler_t handler,
                              size_t bytes, const pgas_call_opts_t *o)
{
    b->rank = target.rank;
    pgas_status_t status = check_call(b->rank, handler, "", bytes, o->way == PGAS_WAY_SEND);
    if (status != PGAS_OK)
        return status;
    if (begun.begun)
        return PGAS_ERR_BUSY;
    b->ep = pgasi_ep_of_slot(target.slot);
    if (b->ep < 0)
        return PGAS_ERR_LIMIT;
    if (pgasi_boot_is_dead(b->rank))
        return PGAS_ERR_PEER;
    if (o->sync)
        status = pgasi_sync_issue(&b->sync, o->sync, b->rank, handler, o->when,
                                  PGASI_ISSUE_QUEUED | pgasi_issue_wait(o->full));
    if (status != PGAS_OK)
        return status;
    b->has_sync = o->sync != NULL;
    b->wire = b->has_sync ? b->sync.wire : 0;
    b->shared = o->way == PGAS_WAY_SEND;
    b->full = o->full;
    b->header =
        pgasi_desc_header(handler, bytes, pgasi_self.slot) | (b->wire ? PGASI_DESC_TOKEN : 0);
    return PGAS_OK;
}

static bool begin_in_place(begun_t *b)
{
    pgasi_sendq_t *sq = NULL;
    if (b->shared || pgasi_self.in_handler || pgasi_self.ctx->shared ||
        pgasi_sendq_of(pgasi_self.ctx, &sq) != PGAS_OK)
        return false;
    pgasi_ctx_lock(sq->ctx);
    bool in_place = reserve(b, sq, b->ep * (int)sq->n_ranks + b->rank);
    pgasi_ctx_unlock(sq->ctx);
    return in_place;
}

pgas_status_t pgas_call_begin(pgas_target_t target, pgas_handler_t handler, size_t bytes,
                              const pgas_call_opts_t *opts, void **args_p)
{
    if (begun.epoch != pgasi_epoch)
        pgasi_call_forget();
    const pgas_call_opts_t *o;
    pgas_status_t status = args_p ? pgasi_call_read_opts(opts, &o) : PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    if (target.slot < 0 || o->spawn || o->n_buffers || o->local || o->result)
        return PGAS_ERR_UNSUPPORTED;
    begun_t b;
    memset(&b, 0, sizeof b);
    status = describe(&b, target, handler, bytes, o);
    if (status != PGAS_OK)
        return status;
    if (!begin_in_place(&b)) {
        b.args = b.block = malloc(bytes ? bytes : 1);
        if (!b.block)
            return b.has_sync ? pgasi_sync_issued(&b.sync, PGAS_ERR_NO_MEMORY) : PGAS_ERR_NO_MEMORY;
    }
    b.begun = true;
    b.epoch = pgasi_epoch;
    begun = b;
    *args_p = b.args;
    return PGAS_OK;
}

static pgas_status_t end_call(bool send_it)
{
    if (begun.epoch != pgasi_epoch)
        pgasi_call_forget();
    begun_t b = begun;
    if (!b.begun)
        return pgasi_running ? PGAS_ERR_NOT_FOUND : PGAS_ERR_NOT_INIT;
    begun.begun = false;
    pgas_status_t status = PGAS_OK;
    if (!b.block)
        status = finish(&b, send_it);
    else if (send_it)
        status = pgasi_sendq_call_ep(b.rank, b.ep, b.shared, pgasi_desc_handler(b.header), b.block,
                                     pgasi_desc_bytes(b.header), b.wire ? &b.wire : NULL, b.full);
    free(b.block);
    if (!send_it) {
        if (b.has_sync)
            pgasi_sync_issued(&b.sync, PGAS_ERR_AGAIN);
        return PGAS_OK;
    }
    return b.has_sync ? pgasi_sync_issued(&b.sync, status) : status;
}

pgas_status_t pgas_call_commit(void)
{
    return end_call(true);
}

pgas_status_t pgas_call_abandon(void)
{
    return end_call(false);
}
