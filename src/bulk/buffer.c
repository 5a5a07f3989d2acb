/* Calls with buffers or an archive, the source's side. pgas/call.h and pgas/call_archive.h define
 * them. bulk.h describes their messages.
 *
 * Pushed buffers are put and flushed before the message is sent. The message is one stream: a small
 * head that this file makes, and the copied buffers, which are sent without another copy. Pulled
 * buffers are offered (offer.c), or copied if they are small. The stream of an archive is the
 * second section of the message and is not copied either. */
#include "bulk/bulk.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "call/sync.h"
#include "mem/rma.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"

#define SMALL_HEAD 1024 /* bytes; a larger head is allocated */
#define SMALL_PULL 1024 /* bytes of all pulled buffers that are copied instead: a read costs more */

/* ---- the stream ---- */

/* The stream of a message, and a position in it. */
typedef struct {
    const char *head, *archive;
    const pgas_buffer_t *buffers;
    bool pulls_copied;
    size_t n, head_bytes, archive_bytes;
    size_t at;       /* the section: 0: the head, 1: an archive's stream, i + 2: buffer i */
    uint64_t inside; /* bytes of the section before the position */
} stream_t;

static bool is_copied(const pgas_buffer_t *b, bool pulls_copied)
{
    return b->mode == PGAS_BUFFER_COPY || (pulls_copied && b->mode == PGAS_BUFFER_PULL);
}

static uint64_t section_bytes(const stream_t *s)
{
    if (s->at < 2)
        return s->at == 0 ? s->head_bytes : s->archive_bytes;
    const pgas_buffer_t *b = &s->buffers[s->at - 2];
    return is_copied(b, s->pulls_copied) ? b->bytes : 0;
}

/* Skips sections that are complete. From the position on, the section has bytes at *from_p, whose
 * number is returned, or only *pad_p bytes of padding. */
static uint64_t contiguous(stream_t *s, const char **from_p, uint64_t *pad_p)
{
    uint64_t bytes = section_bytes(s);
    while (s->inside >= PGASI_ALIGN_UP(bytes, 8) && s->at < s->n + 1) {
        s->at++;
        s->inside = 0;
        bytes = section_bytes(s);
    }
    const char *base = s->at == 0 ? s->head : s->archive;
    if (s->at >= 2)
        base = s->buffers[s->at - 2].address;
    *pad_p = PGASI_ALIGN_UP(bytes, 8) - PGASI_MAX(bytes, s->inside);
    *from_p = s->inside < bytes ? base + s->inside : NULL;
    return s->inside < bytes ? bytes - s->inside : 0;
}

/* The next `bytes` bytes: their address if they are contiguous, otherwise a copy in `gathered`. */
static const char *next_bytes(stream_t *s, size_t bytes, char *gathered)
{
    const char *from;
    uint64_t pad, have = contiguous(s, &from, &pad);
    if (have >= bytes) {
        s->inside += bytes;
        return from;
    }
    for (size_t done = 0; done < bytes;) {
        have = contiguous(s, &from, &pad);
        uint64_t n = PGASI_MIN(have ? have : pad, bytes - done);
        if (have)
            memcpy(gathered + done, from, n);
        else
            memset(gathered + done, 0, n);
        s->inside += n;
        done += n;
    }
    return gathered;
}

/* A call that is being sent. */
typedef struct {
    const pgasi_call_to_t *call;
    int rank, ep;
    bool shared; /* through the context that threads without one of their own share */
    const void *args;
    size_t bytes;
    const pgas_buffer_t *buffers;
    size_t n;
    const pgasi_bulk_archive_t *archive; /* or NULL */
    bool some_push, some_pull, pulls_copied;
    uint64_t copied, pulled; /* bytes; copied with padding */
    pgas_full_t full;
    pgasi_bulk_head_t head;
} call_t;

static pgas_status_t send_piece(const call_t *o, const pgasi_bulk_piece_t *piece, const char *data,
                                size_t bytes, pgas_full_t full)
{
    return pgasi_call_deliver_pair(o->call, PGASI_DESC_BULK, piece, sizeof *piece, data, bytes,
                                   full);
}

/* The first piece follows `full`. Later pieces wait for room; in a handler they queue, and the room
 * for all of them was checked before. */
static pgas_status_t send_stream(const call_t *o, stream_t *s, uint64_t total, pgas_full_t full)
{
    static uint64_t last_id;
    char gathered[PGASI_BULK_PIECE_MAX];
    size_t piece_max = pgasi_bulk_piece_max(o->rank);
    pgasi_bulk_piece_t piece = { 0, total, 0 };
    if (total > piece_max)
        piece.id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    pgas_status_t status = PGAS_OK;
    while (piece.offset < total && status == PGAS_OK) {
        size_t bytes = PGASI_MIN(total - piece.offset, piece_max);
        const char *data = next_bytes(s, bytes, gathered);
        status = send_piece(o, &piece, data, bytes, full);
        if (status == PGAS_ERR_AGAIN && piece.offset > 0 && !pgasi_self.in_handler)
            status = send_piece(o, &piece, data, bytes, PGAS_FULL_WAIT);
        piece.offset += bytes;
    }
    return status;
}

/* ---- the head ---- */

static pgas_gptr_t ptr_of(const void *address, uint64_t bytes)
{
    pgas_gptr_t ptr = bytes ? pgas_gptr_of(address) : PGAS_NULL;
    return ptr && pgasi_segment_address(pgas_gptr_offset(ptr), bytes) ? ptr : PGAS_NULL;
}

static size_t head_room(const call_t *o)
{
    bool far = pgasi_boot.local_of[o->rank] < 0;
    size_t key = sizeof(pgasi_segment_wire_t) + 8;
    size_t keys = (o->some_pull ? o->n : 0) + (o->head.reply_ptr != PGAS_NULL);
    return sizeof o->head + o->n * sizeof(pgasi_bulk_part_t) + (far ? keys * key : 0) +
           PGASI_ALIGN_UP(o->bytes, 8) + 8;
}

/* Adds the key of the segment that contains ptr, once for consecutive buffers in one segment.
 * @return its offset in the head, divided by 8; 0: there is no key */
static uint32_t add_key(char *head, size_t *used, pgas_gptr_t ptr, pgasi_segment_wire_t *last,
                        uint32_t last_at)
{
    uint64_t offset = pgas_gptr_offset(ptr);
    if (last_at && offset - last->offset < last->bytes)
        return last_at;
    memset(last, 0, sizeof *last);
    if (pgasi_segment_describe(offset, last) != PGAS_OK)
        return 0;
    uint32_t at = (uint32_t)(*used / 8);
    size_t bytes = offsetof(pgasi_segment_wire_t, key) + last->key_bytes;
    memset(head + *used, 0, PGASI_ALIGN_UP(bytes, 8));
    memcpy(head + *used, last, bytes);
    *used += PGASI_ALIGN_UP(bytes, 8);
    return at;
}

static void write_head(call_t *o, char *to)
{
    pgasi_segment_wire_t last;
    uint32_t key_at = 0;
    size_t used = sizeof o->head + o->n * sizeof(pgasi_bulk_part_t);
    bool far = pgasi_boot.local_of[o->rank] < 0;
    for (size_t i = 0; i < o->n; i++) {
        const pgas_buffer_t *b = &o->buffers[i];
        bool copied = is_copied(b, o->pulls_copied), pull = !copied && b->mode == PGAS_BUFFER_PULL;
        pgas_gptr_t ptr = b->target;
        if (pull && !(o->archive && ptr))
            ptr = ptr_of(b->address, b->bytes);
        if (pull && ptr && far)
            key_at = add_key(to, &used, ptr, &last, key_at);
        pgasi_bulk_part_t part = { b->bytes,  (uint64_t)(uintptr_t)b->address,
                                   ptr,       copied ? PGAS_BUFFER_COPY : b->mode,
                                   b->helper, pull && ptr && far ? key_at : 0 };
        memcpy(to + sizeof o->head + i * sizeof part, &part, sizeof part);
    }
    if (o->head.reply_ptr && far)
        o->head.reply_key_at_8 = add_key(to, &used, o->head.reply_ptr, &last, 0);
    if (o->archive) {
        memset(to + used, 0, PGASI_ALIGN_UP(used, 16) - used);
        used = PGASI_ALIGN_UP(used, 16);
        o->head.args_at = (uint32_t)used;
        o->head.args_bytes = (uint32_t)o->archive->stream_bytes;
        o->head.head_bytes = o->head.args_at + o->head.args_bytes;
        memcpy(to, &o->head, sizeof o->head);
        return;
    }
    o->head.args_at = (uint32_t)used;
    o->head.args_bytes = (uint32_t)o->bytes;
    o->head.head_bytes = (uint32_t)(used + PGASI_ALIGN_UP(o->bytes, 8));
    if (o->bytes)
        memcpy(to + used, o->args, o->bytes);
    memset(to + used + o->bytes, 0, o->head.head_bytes - used - o->bytes);
    memcpy(to, &o->head, sizeof o->head);
}

static pgas_status_t send_call(call_t *o, pgas_full_t full)
{
    _Alignas(8) char small[SMALL_HEAD];
    pgasi_bulk_piece_t piece = { 0, 0, 0 };
    size_t room = head_room(o) + sizeof piece;
    char *whole = room <= sizeof small ? small : malloc(room), *head = whole + sizeof piece;
    if (!whole)
        return PGAS_ERR_NO_MEMORY;
    write_head(o, head);
    pgas_status_t status;
    piece.total = o->head.head_bytes + o->copied;
    if (o->archive && piece.total <= pgasi_bulk_piece_max(o->rank)) {
        memcpy(whole, &piece, sizeof piece);
        status =
            pgasi_call_deliver_pair(o->call, PGASI_DESC_BULK, whole, sizeof piece + o->head.args_at,
                                    o->archive->stream, o->archive->stream_bytes, full);
    } else {
        stream_t s = { .head = head,
                       .buffers = o->buffers,
                       .pulls_copied = o->pulls_copied,
                       .n = o->n,
                       .head_bytes = o->archive ? o->head.args_at : o->head.head_bytes,
                       .archive = o->archive ? o->archive->stream : NULL,
                       .archive_bytes = o->archive ? o->archive->stream_bytes : 0 };
        status = send_stream(o, &s, piece.total, full);
    }
    if (whole != small)
        free(whole);
    return status;
}

/* ---- room ---- */

static pgas_status_t probe(const call_t *o, uint64_t bytes, bool queue)
{
    return pgasi_sendq_probe(o->rank, o->ep, o->shared, bytes, queue);
}

/* Decides how the pieces wait for room, before any step is taken. A call that pushes, or has
 * several pieces, cannot be taken back when a later step finds no room. */
static pgas_status_t choose_full(const call_t *o, pgas_full_t *full_p)
{
    uint64_t total = head_room(o) + o->copied;
    size_t piece_max = pgasi_bulk_piece_max(o->rank);
    *full_p = o->full;
    if (!o->some_push && total <= piece_max)
        return PGAS_OK;
    uint64_t all = total + (total / piece_max + 1) * (sizeof(pgasi_bulk_piece_t) + 16);
    if (pgasi_self.in_handler) {
        *full_p = PGASI_FULL_ANSWER;
        pgas_status_t status = o->full == PGAS_FULL_AGAIN ? probe(o, piece_max, false) : PGAS_OK;
        return status == PGAS_OK ? probe(o, all, true) : status;
    }
    if (o->full == PGAS_FULL_WAIT)
        return PGAS_OK;
    *full_p = o->full == PGAS_FULL_AGAIN ? PGAS_FULL_WAIT : PGAS_FULL_QUEUE;
    return o->full == PGAS_FULL_AGAIN ? probe(o, PGASI_MIN(total, piece_max), false)
                                      : probe(o, all, true);
}

/* ---- pushes ---- */

static pgas_status_t check_push(const call_t *o, const pgas_buffer_t *b)
{
    pgasi_where_t where;
    void *address;
    if (!b->bytes)
        return PGAS_OK;
    if (!b->target || pgas_gptr_rank(b->target) != o->rank)
        return PGAS_ERR_RANGE;
    pgas_status_t status = pgasi_resolve(b->target, b->bytes, &where, &address);
    return status == PGAS_OK && where != PGASI_WHERE_HERE && pgasi_self.in_handler
               ? PGAS_ERR_CONTEXT
               : status;
}

static pgas_status_t push_all(const call_t *o)
{
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < o->n && status == PGAS_OK; i++) {
        const pgas_buffer_t *b = &o->buffers[i];
        if (b->mode == PGAS_BUFFER_PUSH && b->bytes)
            status = pgas_put(b->target, b->address, b->bytes);
    }
    return status == PGAS_OK && pgasi_boot.local_of[o->rank] < 0 ? pgas_flush(o->rank) : status;
}

/* ---- the call ---- */

static void copy_pulls(call_t *o)
{
    o->pulls_copied = true;
    o->some_pull = false;
    o->copied += o->pulled;
    o->head.flags |= PGASI_BULK_ORDERED;
}

static pgas_status_t check_buffers(call_t *o)
{
    pgas_status_t status = PGAS_OK;
    bool helper = false;
    if (o->n > (o->archive ? PGASI_BULK_PARTS_MAX : PGAS_BUFFERS_MAX))
        return PGAS_ERR_LIMIT;
    if (o->n && !o->buffers)
        return PGAS_ERR_INVALID;
    for (size_t i = 0; i < o->n && status == PGAS_OK; i++) {
        const pgas_buffer_t *b = &o->buffers[i];
        if ((unsigned)b->mode > PGAS_BUFFER_PULL || (b->bytes && !b->address))
            return PGAS_ERR_INVALID;
        if (b->mode == PGAS_BUFFER_PUSH)
            status = check_push(o, b);
        else if (b->bytes > pgasi_param.buffer_limit)
            status = PGAS_ERR_LIMIT;
        else
            *(b->mode == PGAS_BUFFER_COPY ? &o->copied : &o->pulled) += PGASI_ALIGN_UP(b->bytes, 8);
        o->some_push = o->some_push || b->mode == PGAS_BUFFER_PUSH;
        o->some_pull = o->some_pull || b->mode == PGAS_BUFFER_PULL;
        helper = helper || (b->mode == PGAS_BUFFER_PULL && b->helper);
    }
    if (status == PGAS_OK &&
        PGASI_MAX(o->copied, o->pulled) > PGASI_ALIGN_UP(pgasi_param.buffer_limit, 8))
        status = PGAS_ERR_LIMIT;
    if (o->some_pull && !o->archive && !helper && o->pulled <= SMALL_PULL &&
        o->copied + o->pulled <= PGASI_ALIGN_UP(pgasi_param.buffer_limit, 8))
        copy_pulls(o);
    return status;
}

/* All steps that may fail. *offered_p: the offer is open. */
static pgas_status_t open_push_and_send(call_t *o, pgas_sync_t *local, bool *offered_p)
{
    pgas_full_t full;
    pgasi_offer_call_t call = { o->rank, o->head.handler, local, NULL, NULL };
    if (o->archive) {
        call.ended = o->archive->ended;
        call.arg = o->archive->arg;
    }
    pgas_status_t status = choose_full(o, &full);
    if (status == PGAS_OK && o->some_pull) {
        status = pgasi_offer_open(&call, o->buffers, o->n, o->full, &o->head.offer);
        *offered_p = status == PGAS_OK;
    }
    if (status == PGAS_OK && o->some_push)
        status = push_all(o);
    return status == PGAS_OK ? send_call(o, full) : status;
}

/* Raises the counter of the call's end. */
static pgas_status_t issue_end(call_t *o, const pgas_call_opts_t *opts, pgasi_sync_call_t *s)
{
    int flags = PGASI_ISSUE_QUEUED | pgasi_issue_wait(o->full);
    pgasi_token_for_t call = { opts->sync, o->rank, o->head.handler, opts->result,
                               opts->result_bytes };
    pgas_status_t status = PGAS_OK;
    *s = (pgasi_sync_call_t){ NULL, 0, 0 };
    if (opts->result)
        status = pgasi_sync_ask(s, &call, flags);
    else if (opts->sync)
        status = pgasi_sync_issue(s, opts->sync, o->rank, o->head.handler, opts->when, flags);
    o->head.wire = s->wire;
    return status;
}

/* Sends the call and raises its counters. The target reports all completions that are not local. A
 * call that was sent has not arrived yet: the target may have no memory for it.
 *
 * If the call fails because the rank dies, the death may have lowered one of the counters, or ended
 * the archive. The call then counts as accepted, and the other counter is lowered, too. */
static pgas_status_t issue(call_t *o, const pgas_call_opts_t *opts)
{
    pgasi_sync_call_t s;
    bool offered = false;
    pgas_sync_t *local = opts->when == PGAS_LOCAL && opts->sync ? opts->sync : opts->local;
    pgas_status_t status = issue_end(o, opts, &s);
    if (status != PGAS_OK)
        return status;
    if (!o->some_pull)
        local = NULL; /* the buffers may be reused on return */
    int64_t before = local ? pgasi_sync_raise(local) : 0;
    status = open_push_and_send(o, local, &offered);
    if (status == PGAS_OK)
        return PGAS_OK;
    if (offered && !pgasi_offer_withdraw(o->head.offer, o->rank) && (local || o->archive)) {
        pgasi_sync_fail(&s, PGAS_ERR_PEER, o->rank, o->head.handler);
        return PGAS_OK;
    }
    bool refused = pgasi_sync_take_back(&s);
    if (!refused && o->archive && o->archive->ended)
        o->archive->ended(o->archive->arg);
    if (local && refused)
        pgasi_sync_refuse(local, before);
    else if (local)
        pgasi_sync_lower(local, PGAS_ERR_PEER, o->rank, PGAS_OPERATION_CALL, o->head.handler);
    return refused ? status : PGAS_OK;
}

pgas_status_t pgasi_bulk_call(const pgasi_call_to_t *c)
{
    const pgas_call_opts_t *opts = c->o;
    call_t o = { .call = c,
                 .rank = c->rank,
                 .ep = c->ep,
                 .shared = c->shared,
                 .args = c->args,
                 .bytes = c->bytes,
                 .buffers = opts->buffers,
                 .n = opts->n_buffers,
                 .full = opts->full };
    pgas_status_t status = check_buffers(&o);
    if (status != PGAS_OK)
        return status;
    if (opts->when == PGAS_LOCAL && opts->local && opts->sync)
        return PGAS_ERR_INVALID; /* both would count the same completion */
    if (opts->result_bytes > pgasi_param.buffer_limit || opts->result_bytes > UINT32_MAX)
        return PGAS_ERR_LIMIT;
    o.head.handler = c->handler;
    o.head.n_parts = (uint32_t)opts->n_buffers;
    o.head.spawn = opts->spawn;
    o.head.ep = (uint32_t)c->ep;
    if (opts->result) {
        o.head.reply_bytes = opts->result_bytes;
        o.head.reply_address = (uint64_t)(uintptr_t)opts->result;
        o.head.reply_ptr = ptr_of(opts->result, opts->result_bytes);
    }
    return issue(&o, opts);
}

pgas_status_t pgasi_bulk_call_archive(const pgasi_call_to_t *c, const pgasi_bulk_archive_t *a)
{
    call_t o = { .call = c,
                 .rank = c->rank,
                 .ep = c->ep,
                 .shared = c->shared,
                 .buffers = a->chunks,
                 .n = a->n_chunks,
                 .archive = a,
                 .full = c->o->full };
    pgas_status_t status = check_buffers(&o);
    if (status != PGAS_OK)
        return status;
    if (c->o->when == PGAS_LOCAL && c->o->local && c->o->sync)
        return PGAS_ERR_INVALID; /* both would count the same completion */
    o.head.handler = c->handler;
    o.head.flags = a->flags | PGASI_BULK_ARCHIVE;
    o.head.n_parts = (uint32_t)a->n_chunks;
    o.head.ep = (uint32_t)c->ep;
    o.head.reply_address = a->reply_to;
    return issue(&o, c->o);
}
