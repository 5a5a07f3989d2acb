/* Messages of the array, the sending side.
 *
 * Contents travel in one of three ways:
 *  - where heaps are mapped (ranks of one host that count as several nodes), they do not travel. A
 *    cache that has the right to a chunk reads or writes it in the home's heap. No other rank
 *    changes it there, because the home gives that right to one writer or to readers;
 *  - by puts where messages are puts, too (put.h): the home puts elements into the cache's line,
 *    and a cache puts elements that it writes back into the home's chunk;
 *  - otherwise as messages of pieces. Contributions travel in this way unless heaps are mapped.
 *    Then the cache merges them at the home (cache.c), or the home merges them in the cache's line,
 *    which does not change before WB_ACK.
 * With the first two ways the message has no contents. */
#include "array/wire.h"

#include <stdlib.h>
#include <string.h>

#include "array/put.h"
#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "msg/descriptor.h"
#include "msg/send_queue.h"
#include "mem/segment.h"

#define LIST_MAX    64
#define APPLIES_MAX 256

static struct {
    uint8_t *knows_heap; /* by rank: it has received the key of this rank's heap */
    /* A list, between begin and end: messages without data to one rank that differ only in their
     * chunks and lines, or applies with one operator. They travel as one message, followed by
     * chunks and lines, or by applies. */
    int depth, to;
    uint32_t n, room; /* entries; at most */
    pgasi_array_t *array;
    pgasi_array_message_t first;
    union {
        pgasi_array_list_entry_t entry[LIST_MAX];
        pgasi_array_apply_entry_t apply[APPLIES_MAX];
    };
    pgasi_array_access_t *last_apply; /* M_APPLIES: of the last entry */
} out;

pgas_status_t pgasi_array_send_start(void)
{
    free(out.knows_heap);
    out.knows_heap = calloc((size_t)pgasi_boot.n_ranks, 1);
    return out.knows_heap ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static void post(pgasi_array_t *a, int to, const pgasi_array_message_t *m, const void *data,
                 size_t bytes)
{
    pgasi_array_count(&a->info.messages, 1);
    if (bytes)
        pgasi_array_count(&a->info.data_bytes, bytes);
    pgasi_sendq_answer(to, PGASI_DESC_ARRAY, m, sizeof *m, data, bytes);
}

static void send_list(void)
{
    uint32_t n = out.n;
    if (!n)
        return;
    out.n = 0;
    if (out.first.kind == PGASI_ARRAY_M_APPLIES) {
        post(out.array, out.to, &out.first, out.apply, n * sizeof out.apply[0]);
        return;
    }
    out.first.list = n > 1;
    post(out.array, out.to, &out.first, out.entry, n > 1 ? n * sizeof out.entry[0] : 0);
}

void pgasi_array_list_begin(void)
{
    out.depth++;
}

void pgasi_array_list_end(void)
{
    if (--out.depth == 0)
        send_list();
}

/* Sends the list first, so that messages stay in order. */
static void send(pgasi_array_t *a, int to, const pgasi_array_message_t *m, const void *data,
                 size_t bytes)
{
    send_list();
    post(a, to, m, data, bytes);
}

/* The rest of what messages of a list have in common, beside kind and event. */
PGAS_INLINE bool extends(const pgasi_array_t *a, int to, uint32_t op, int64_t distance)
{
    return out.n < out.room && to == out.to && a == out.array && op == out.first.op &&
           distance == (int32_t)distance;
}

static bool continues_list(const pgasi_array_t *a, int to, const pgasi_array_message_t *m,
                           int64_t distance)
{
    const pgasi_array_message_t *first = &out.first;
    return out.n && m->kind == first->kind && m->event == first->event && m->pull == first->pull &&
           extends(a, to, m->op, distance);
}

static void start_list(pgasi_array_t *a, int to, const pgasi_array_message_t *m)
{
    bool applies = m->kind == PGASI_ARRAY_M_APPLIES;
    size_t entry_bytes = applies ? sizeof out.apply[0] : sizeof out.entry[0];
    size_t fit = (pgasi_param.call_max - sizeof *m) / entry_bytes;
    send_list();
    out.room = (uint32_t)PGASI_MIN(fit, (size_t)(applies ? APPLIES_MAX : LIST_MAX));
    out.first = *m;
    out.array = a;
    out.to = to;
}

static void send_to_list(pgasi_array_t *a, int to, const pgasi_array_message_t *m)
{
    int64_t distance = (int64_t)(m->chunk - out.first.chunk);
    if (!continues_list(a, to, m, distance)) {
        start_list(a, to, m);
        distance = 0;
    }
    out.entry[out.n++] = (pgasi_array_list_entry_t){ m->line, (int32_t)distance };
    if (!out.depth)
        send_list();
}

/* ---- making a message ---- */

static pgasi_array_message_t message_of(const pgasi_array_t *a, pgasi_array_message_kind_t kind,
                                        uint64_t chunk)
{
    return (
        pgasi_array_message_t){ .array = (uint16_t)a->id, .kind = (uint8_t)kind, .chunk = chunk };
}

static pgasi_array_message_t event_message(const pgasi_array_t *a, pgasi_array_message_kind_t kind,
                                           uint64_t chunk, pgasi_array_event_t event)
{
    pgasi_array_message_t m = message_of(a, kind, chunk);
    m.event = (uint8_t)event;
    return m;
}

/* ---- memory of other ranks ---- */

void pgasi_array_send_heap(pgasi_array_t *a, int to)
{
    pgasi_segment_wire_t wire;
    if (out.knows_heap[to] || pgasi_boot.local_of[to] >= 0)
        return;
    out.knows_heap[to] = 1;
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_HEAP, 0);
    if (pgasi_segment_describe(PGASI_HEAP_OFFSET, &wire) == PGAS_OK)
        send(a, to, &m, &wire, sizeof wire);
}

/* The address in this process of an offset of a rank's heap; NULL: the heap is not mapped. */
static char *mapped(int rank, uint64_t offset, uint64_t bytes)
{
    const pgasi_ctx_peer_t *peer = &pgasi_ctxs[PGASI_CTX_SERVICE]->peer[rank];
    offset -= PGASI_HEAP_OFFSET;
    return offset <= peer->heap_bytes && bytes <= peer->heap_bytes - offset ? peer->heap + offset
                                                                            : NULL;
}

/* The offset of a chunk in its home's heap. */
static uint64_t chunk_offset(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    return a->home_offset[loc->home] + loc->index * a->stride;
}

char *pgasi_array_mapped_chunk(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    return mapped(a->global[loc->home], chunk_offset(a, loc), a->stride);
}

pgasi_array_grant_t *pgasi_array_mapped_grant(const pgasi_array_t *a,
                                              const pgasi_array_location_t *loc)
{
    return (pgasi_array_grant_t *)(void *)mapped(a->global[loc->home],
                                                 a->grant_offset[loc->home] +
                                                     loc->index * sizeof(pgasi_array_grant_t),
                                                 sizeof(pgasi_array_grant_t));
}

static uint64_t line_offset(const pgasi_array_t *a, int member, uint32_t line)
{
    return a->line_offset[member] + line * a->stride;
}

const char *pgasi_array_mapped_line(const pgasi_array_t *a, int member, uint32_t line)
{
    return mapped(a->global[member], line_offset(a, member, line), a->stride);
}

/* ---- contents ---- */

/* last: the event of the last piece; 0: none. */
static void send_pieces(pgasi_array_t *a, int to, pgasi_array_message_t m, const char *data,
                        size_t bytes, pgasi_array_event_t last)
{
    size_t most = (pgasi_param.call_max - sizeof m) & ~(size_t)7;
    for (size_t done = 0; done < bytes; done += most) {
        m.offset = done;
        m.event = (uint8_t)(bytes - done <= most ? last : 0);
        send(a, to, &m, data + done, PGASI_MIN(bytes - done, most));
    }
}

void pgasi_array_send_data(pgasi_array_t *a, int member, uint64_t chunk, pgasi_array_event_t event,
                           uint32_t line, const void *data, bool pull)
{
    int to = a->global[member];
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_FILL, chunk);
    m.line = line;
    if (!pull && !pgasi_array_put(a, to, line_offset(a, member, line), data, a->stride)) {
        send_pieces(a, to, m, data, a->stride, event);
        return;
    }
    m.kind = PGASI_ARRAY_M_TO_CACHE;
    m.event = (uint8_t)event;
    m.pull = pull;
    send_to_list(a, to, &m);
}

void pgasi_array_send_elements(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                               const void *data, size_t bytes)
{
    pgasi_array_location_t loc;
    pgasi_array_locate_chunk(&a->map, chunk, &loc);
    char *there = pgasi_array_mapped_chunk(a, &loc);
    if (there) {
        memcpy(there, data, bytes);
        pgasi_array_count(&a->info.data_bytes, bytes);
        pgasi_array_send_answer(a, to, chunk, event);
    } else if (pgasi_array_put(a, to, chunk_offset(a, &loc), data, bytes)) {
        pgasi_array_send_answer(a, to, chunk, event);
    } else {
        send_pieces(a, to, message_of(a, PGASI_ARRAY_M_ELEMENTS, chunk), data, bytes, event);
    }
}

void pgasi_array_send_contribution(pgasi_array_t *a, int to, uint64_t chunk, uint32_t op,
                                   const void *data, size_t bytes)
{
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_CONTRIBUTION, chunk);
    m.op = op;
    if (bytes <= pgasi_param.call_max - sizeof m) {
        m.event = PGASI_E_WB_O;
        send(a, to, &m, data, bytes);
        return;
    }
    send_pieces(a, to, m, data, bytes, 0);
    pgasi_array_send_answer(a, to, chunk, PGASI_E_WB_O);
}

void pgasi_array_send_contribution_in_line(pgasi_array_t *a, int to, uint64_t chunk, uint32_t op,
                                           uint32_t line)
{
    pgasi_array_message_t m = event_message(a, PGASI_ARRAY_M_ANSWER, chunk, PGASI_E_WB_O);
    m.op = op;
    m.line = line;
    m.pull = true;
    send_to_list(a, to, &m);
}

/* ---- requests, answers, events ---- */

void pgasi_array_send_request(pgasi_array_t *a, int member, uint64_t chunk,
                              pgasi_array_event_t event, uint32_t line, uint32_t op)
{
    int to = a->global[member];
    const pgasi_array_message_t *first = &out.first;
    int64_t distance = (int64_t)(chunk - first->chunk);
    if (out.depth && out.n && first->kind == PGASI_ARRAY_M_REQUEST && first->event == event &&
        extends(a, to, op, distance)) {
        out.entry[out.n++] = (pgasi_array_list_entry_t){ line, (int32_t)distance };
        return;
    }
    pgasi_array_send_heap(a, to);
    pgasi_array_message_t m = event_message(a, PGASI_ARRAY_M_REQUEST, chunk, event);
    m.line = line;
    m.op = op;
    m.pull = mapped(to, a->home_offset[member], a->stride) != NULL; /* all of the heap is mapped */
    send_to_list(a, to, &m);
}

void pgasi_array_send_answer(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event)
{
    pgasi_array_message_t m = event_message(a, PGASI_ARRAY_M_ANSWER, chunk, event);
    send_to_list(a, to, &m);
}

void pgasi_array_send_event(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                            uint32_t line)
{
    pgasi_array_message_t m = event_message(a, PGASI_ARRAY_M_TO_CACHE, chunk, event);
    m.line = line;
    send_to_list(a, to, &m);
}

void pgasi_array_send_grant_o(pgasi_array_t *a, int member, uint64_t chunk, uint32_t line)
{
    pgasi_array_message_t m = event_message(a, PGASI_ARRAY_M_TO_CACHE, chunk, PGASI_E_GRANT_O);
    m.line = line;
    m.pull = line != PGASI_ARRAY_NONE && pgasi_array_mapped_line(a, member, line) != NULL;
    send_to_list(a, a->global[member], &m);
}

void pgasi_array_send_unpinned(pgasi_array_t *a, int to, uint64_t chunk)
{
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_UNPINNED, chunk);
    send(a, to, &m, NULL, 0);
}

/* ---- sparse contributions ---- */

void pgasi_array_send_sparse(pgasi_array_t *a, int member,
                             const pgasi_array_sparse_entry_t *entries, uint32_t n)
{
    uint64_t first = a->map.offsets[member] + entries[0].element;
    pgasi_array_message_t m =
        message_of(a, PGASI_ARRAY_M_SPARSE, pgasi_array_locate(&a->map, first).chunk);
    send(a, a->global[member], &m, entries, n * sizeof entries[0]);
}

void pgasi_array_send_sparse_done(pgasi_array_t *a, int to, uint64_t chunk)
{
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_SPARSE_DONE, chunk);
    send(a, to, &m, NULL, 0);
}

/* ---- accesses that the home carries out ---- */

/* The first apply of a message has the token; the others are linked to it. */
static pgas_status_t send_apply(pgasi_array_t *a, int to, pgasi_array_access_t *x, size_t bytes)
{
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_APPLIES, x->chunk);
    int64_t distance = (int64_t)(m.chunk - out.first.chunk);
    m.op = x->op;
    if (continues_list(a, to, &m, distance)) {
        out.last_apply->next = x;
    } else {
        pgas_status_t status = pgasi_array_token_open(x, &m.token);
        if (status != PGAS_OK)
            return status;
        start_list(a, to, &m);
        distance = 0;
    }
    pgasi_array_apply_entry_t *entry = &out.apply[out.n++];
    *entry = (pgasi_array_apply_entry_t){ .k = x->k, .distance = (int32_t)distance };
    memcpy(entry->operand, x->in, bytes);
    out.last_apply = x;
    return PGAS_OK;
}

pgas_status_t pgasi_array_send_op(pgasi_array_t *a, int to, pgasi_array_access_t *x)
{
    size_t bytes = pgasi_array_in_bytes(x, a->pub.elem_bytes);
    x->next = NULL;
    if (x->kind == PGASI_ARRAY_APPLY && out.depth && bytes <= sizeof out.apply[0].operand)
        return send_apply(a, to, x, bytes);
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_OP, x->chunk);
    m.op = x->op;
    m.access.k = x->k;
    m.access.n = x->n & PGASI_ARRAY_OP_N_MAX;
    m.access.kind = x->kind & 0x3f;
    m.access.pin = x->pin & 0xf;
    pgas_status_t status = pgasi_array_token_open(x, &m.token);
    if (status != PGAS_OK)
        return status;
    char both[2 * PGASI_ARRAY_VALUE_MAX];
    const void *data = x->in;
    if (x->kind == PGASI_ARRAY_CAS) {
        memcpy(both, x->in, bytes / 2);
        memcpy(both + bytes / 2, x->in2, bytes / 2);
        data = both;
    }
    send(a, to, &m, data, bytes);
    return PGAS_OK;
}

void pgasi_array_send_reply(pgasi_array_t *a, int to, const pgasi_array_access_t *x,
                            const void *data, size_t bytes)
{
    pgasi_array_message_t m = message_of(a, PGASI_ARRAY_M_REPLY, x->chunk);
    m.token = x->token;
    m.status = (int16_t)x->status;
    send(a, to, &m, data, bytes);
}
