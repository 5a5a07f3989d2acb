/* Calls and replies with archives (pgas/call_archive.h). src/bulk transfers them; see bulk.h.
 *
 * A call without chunks is one message, from which the handler reads in place. Otherwise the
 * message contains the table of chunks, and the target reads all of them at once into objects. A
 * reply is a call of PGASI_DESC_ARGS_REPLY, an internal handler, at the rank that made the call. It
 * names the record of the call (call/token.h). The death of the target also ends this record. */
#include "pgas/call_archive.h"

#include <stdlib.h>
#include <string.h>

#include "archive/archive.h"
#include "archive/in_flight.h"
#include "boot/boot.h"
#include "bulk/bulk.h"
#include "call/call.h"
#include "call/sync.h"
#include "mem/rma_object.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"

/* ---- sending ---- */

/* The properties of a call or reply, besides its archive. */
typedef struct {
    uint8_t flags;
    uint64_t reply_to;
    bool keep; /* the program learns when its memory is free */
    void (*done)(void *arg);
    void *arg;
} sending_t;

/* What is counted when an archive has been sent. Its record may have ended then. */
typedef struct {
    uint64_t bytes, n_registered, n_pointers;
} sizes_t;

static sizes_t sizes_of(const pgasi_in_flight_t *flight, uint64_t stream_bytes)
{
    sizes_t sizes = { .bytes = stream_bytes };
    size_t n_chunks = flight->n - flight->pulls_stream;
    for (size_t i = 0; i < flight->n; i++)
        sizes.bytes += flight->buffers[i].bytes;
    for (size_t i = 0; i < n_chunks; i++)
        sizes.n_registered += flight->buffers[i].target != PGAS_NULL;
    sizes.n_pointers = n_chunks - sizes.n_registered;
    return sizes;
}

static void count_sent(const sizes_t *sizes)
{
    pgasi_rma_counts_t *counts = pgasi_rma_counts();
    pgasi_rma_count(&counts->n_calls_sent, 1);
    pgasi_rma_count(&counts->bytes_sent, sizes->bytes);
    pgasi_rma_count(&counts->n_registered_sent, sizes->n_registered);
    pgasi_rma_count(&counts->n_pointers_sent, sizes->n_pointers);
}

static pgas_status_t send_stream(const pgasi_call_to_t *call, pgas_archive_t *archive,
                                 const sending_t *s)
{
    size_t bytes = pgasi_archive_stream_bytes(archive);
    pgasi_bulk_archive_t a = {
        .flags = s->flags, .stream = archive->begin, .stream_bytes = bytes, .reply_to = s->reply_to
    };
    pgas_status_t status = pgasi_bulk_call_archive(call, &a);
    if (status != PGAS_OK)
        return status;
    count_sent(&(sizes_t){ .bytes = bytes });
    pgas_archive_clear(archive);
    if (s->done)
        s->done(s->arg);
    return PGAS_OK;
}

/* The target may end the record `flight` as soon as the call is sent. */
static pgas_status_t send_chunks(const pgasi_call_to_t *call, pgas_archive_t *archive,
                                 const sending_t *s)
{
    pgasi_in_flight_t *flight;
    pgas_status_t status = pgasi_in_flight_begin(archive, call->rank, s->keep, &flight);
    if (status != PGAS_OK)
        return status;
    flight->done = s->done;
    flight->arg = s->arg;
    uint64_t bytes = flight->pulls_stream ? 0 : pgasi_archive_stream_bytes(&flight->archive);
    pgasi_bulk_archive_t a = { .flags = s->flags | (flight->pulls_stream ? PGASI_BULK_STREAM : 0),
                               .stream = flight->archive.begin,
                               .stream_bytes = bytes,
                               .chunks = flight->buffers,
                               .n_chunks = flight->n,
                               .reply_to = s->reply_to,
                               .ended = pgasi_in_flight_end,
                               .arg = flight };
    sizes_t sizes = sizes_of(flight, bytes);
    status = pgasi_bulk_call_archive(call, &a);
    if (status == PGAS_OK)
        count_sent(&sizes);
    else
        pgasi_in_flight_undo(flight, archive);
    return status;
}

static pgas_status_t send_archive(const pgasi_call_to_t *call, pgas_archive_t *archive,
                                  const sending_t *s)
{
    if (archive->n_chunks || pgasi_archive_stream_bytes(archive) > PGASI_BULK_STREAM_MAX)
        return send_chunks(call, archive, s);
    return send_stream(call, archive, s);
}

static pgas_status_t check_archive(const pgas_archive_t *archive)
{
    if (!archive || archive->reading)
        return PGAS_ERR_INVALID;
    return archive->status;
}

/* ---- calls ---- */

static pgas_status_t call_archive(pgas_target_t target, pgas_handler_t handler,
                                  pgas_archive_t *archive, const pgas_call_opts_t *o, uint8_t flags)
{
    pgasi_call_to_t call;
    pgas_status_t status = pgasi_call_describe(target, handler, o, &call);
    if (status == PGAS_OK)
        status = check_archive(archive);
    if (status != PGAS_OK)
        return status;
    sending_t s = { .flags = flags, .keep = o->local || o->sync };
    return send_archive(&call, archive, &s);
}

static pgas_status_t read_opts(const pgas_call_opts_t *opts, const pgas_call_opts_t **o_p)
{
    pgas_status_t status = pgasi_call_read_opts(opts, o_p);
    if (status != PGAS_OK)
        return status;
    const pgas_call_opts_t *o = *o_p;
    return o->n_buffers || o->buffers || o->result || o->spawn ? PGAS_ERR_UNSUPPORTED : PGAS_OK;
}

pgas_status_t pgas_call_args(pgas_target_t target, pgas_handler_t handler, pgas_archive_t *archive,
                             const pgas_call_opts_t *opts)
{
    const pgas_call_opts_t *o;
    pgas_status_t status = read_opts(opts, &o);
    return status == PGAS_OK ? call_archive(target, handler, archive, o, 0) : status;
}

/* Makes the result an empty reader, so that the program may free it in every case. */
static void be_empty(pgas_archive_t *result_p)
{
    pgasi_archive_read(result_p, NULL, 0, NULL, 0, 0);
}

pgas_status_t pgas_call_args_return_nb(pgas_target_t target, pgas_handler_t handler,
                                       pgas_archive_t *archive, const pgas_call_opts_t *opts,
                                       pgas_archive_t *result_p, pgas_sync_t *sync)
{
    const pgas_call_opts_t *given;
    pgas_status_t status = read_opts(opts, &given);
    if (result_p)
        be_empty(result_p);
    if (status != PGAS_OK)
        return status;
    if (!result_p || !sync || given->sync || given->when != PGAS_EXECUTED)
        return PGAS_ERR_INVALID;
    pgas_call_opts_t o = *given;
    o.sync = sync;
    o.result = result_p;
    return call_archive(target, handler, archive, &o, PGASI_BULK_WANTS_ARCHIVE);
}

pgas_status_t pgas_call_args_return(pgas_target_t target, pgas_handler_t handler,
                                    pgas_archive_t *archive, pgas_archive_t *result_p)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_status_t status = pgasi_thread_check_wait();
    if (result_p)
        be_empty(result_p);
    if (status == PGAS_OK)
        status = pgas_call_args_return_nb(target, handler, archive, NULL, result_p, &done);
    return status == PGAS_OK ? pgasi_sync_wait_own(&done) : status;
}

/* ---- in the handler ---- */

static bool is_in_handler(void)
{
    return pgasi_self.in_handler || pgasi_self.in_task || pgasi_call_at_hand();
}

/* The stream may be the last part of a message; the others are chunks. */
static size_t chunks_of(const pgasi_bulk_t *p)
{
    return p->n_parts - (p->head.flags & PGASI_BULK_STREAM ? 1 : 0);
}

static void fill_chunks(const pgasi_bulk_t *p, pgas_archive_chunk_t *chunk)
{
    for (size_t i = 0; i < p->n_parts; i++)
        chunk[i] = (pgas_archive_chunk_t){ p->part[i].here.address, p->part[i].here.bytes,
                                           p->part[i].object };
}

pgas_status_t pgas_archive_from_call(pgas_archive_t *in_p)
{
    if (!in_p)
        return PGAS_ERR_INVALID;
    pgasi_bulk_t *p = pgasi_bulk_running();
    if (!p && !is_in_handler())
        return pgasi_running ? PGAS_ERR_CONTEXT : PGAS_ERR_NOT_INIT;
    if (!p || !(p->head.flags & PGASI_BULK_ARCHIVE))
        return PGAS_ERR_INVALID;
    pgas_archive_chunk_t *chunk = pgasi_bulk_chunks(p);
    fill_chunks(p, chunk);
    pgasi_archive_read(in_p, p->args, p->args_bytes, chunk, chunks_of(p), 0);
    return PGAS_OK;
}

static pgas_status_t send_reply(const pgasi_call_t *call, pgas_archive_t *archive,
                                const sending_t *s)
{
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    if (pgasi_self.in_handler)
        o.full = PGASI_FULL_ANSWER;
    pgasi_call_to_t to = { .rank = pgas_thread_rank(call->source),
                           .ep = PGASI_EP_ANY,
                           .handler = PGASI_DESC_ARGS_REPLY,
                           .o = &o };
    return send_archive(&to, archive, s);
}

pgas_status_t pgas_reply_args(pgas_archive_t *archive, void (*done)(void *arg), void *arg)
{
    pgasi_call_t *call = pgasi_call_at_hand();
    pgas_status_t status = check_archive(archive);
    if ((!call && !is_in_handler()) || (call && call->replied))
        return PGAS_ERR_CONTEXT;
    if (status != PGAS_OK)
        return status;
    const pgasi_bulk_t *p = pgasi_bulk_running();
    if (!call || !p || !(p->head.flags & PGASI_BULK_WANTS_ARCHIVE) || p->head.wire != call->wire)
        return PGAS_ERR_INVALID;
    sending_t s = {
        .reply_to = pgasi_wire_token(call->wire), .keep = done != NULL, .done = done, .arg = arg
    };
    call->replied = true;
    pgasi_call_t copy = *call; /* a wait for room may run other calls */
    status = send_reply(&copy, archive, &s);
    if (status != PGAS_OK)
        pgasi_call_at_hand()->replied = false;
    return status;
}

/* ---- replies arrive ---- */

/* Makes *result_p a reader with memory of its own. The reader takes the objects of the message. */
static pgas_status_t take_reply(pgasi_bulk_t *p, pgas_archive_t *result_p)
{
    bool pulled = p->head.flags & PGASI_BULK_STREAM;
    pgas_archive_chunk_t *table = malloc((p->n_parts + 1) * sizeof *table);
    char *stream = pulled ? (char *)(uintptr_t)p->args : malloc(p->args_bytes + 1);
    if (!table || !stream) {
        free(table);
        if (!pulled)
            free(stream);
        return PGAS_ERR_NO_MEMORY;
    }
    if (!pulled && p->args_bytes)
        memcpy(stream, p->args, p->args_bytes);
    fill_chunks(p, table);
    for (size_t i = 0; i < p->n_parts; i++)
        p->part[i].object = NULL;
    pgasi_archive_read(result_p, stream, p->args_bytes, table, p->n_parts,
                       PGAS_ARCHIVE_OWNS_TABLE | PGAS_ARCHIVE_OWNS_OBJECTS |
                           (pulled ? 0 : PGAS_ARCHIVE_OWNS_STREAM));
    return PGAS_OK;
}

static void on_reply(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)context;
    pgasi_bulk_t *p = pgasi_bulk_running();
    uint32_t token = p ? (uint32_t)p->head.reply_address : 0;
    const pgasi_token_entry_t *e = pgasi_token_find(token);
    int rank = pgas_thread_rank(source);
    /* records of calls that want other results have reply_bytes */
    if (!e || !e->reply || e->reply_bytes || e->rank != rank ||
        !(p->head.flags & PGASI_BULK_ARCHIVE))
        return;
    pgas_archive_t *result = e->reply;
    pgas_sync_t *sync = e->sync;
    uint32_t handler = e->handler;
    pgas_status_t status = p->status == PGAS_OK ? take_reply(p, result) : p->status;
    if (pgasi_token_give(token))
        pgasi_sync_lower(sync, status, rank, PGAS_OPERATION_CALL, handler);
}

static __attribute__((constructor)) void register_reply(void)
{
    pgasi_handler_set_internal(PGASI_DESC_ARGS_REPLY, on_reply);
}
