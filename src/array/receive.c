/* Messages of the array, the receiving side. Each message goes to the home's side or to the
 * cache's side, or completes an access. A malformed message is dropped, and the first
 * one is logged. */
#include "array/wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/op.h"
#include "array/policy.h"
#include "array/registry.h"
#include "array/contribution.h"
#include "array/sparse.h"
#include "base/log.h"
#include "boot/boot.h"
#include "call/progress.h"
#include "mem/segment.h"
#include "msg/dispatch.h"

#define FORESEE 16 /* applies between the one whose memory is requested and the one that is done */

static int member(const pgasi_array_t *a, int rank)
{
    return pgas_team_from_global(a->team, rank);
}

static void drop(const pgasi_array_message_t *m, int source)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("array", "a message of kind %d from rank %d for array %u is malformed: dropped",
                    m->kind, source, m->array);
}

/* Whether a contribution for all elements of a chunk has so many bytes. The merge detects an
 * operator that this rank has not registered. */
static bool is_contribution_size(const pgasi_array_t *a, const pgasi_array_location_t *loc,
                                 uint32_t op, size_t bytes)
{
    const pgas_op_def_t *def = pgasi_op_find(op);
    return !def || bytes == ((loc->first & a->pub.mask) + loc->n) * def->operand_bytes;
}

/* Ends an access, and the applies that travelled with it. The thread that waits for them may return
 * when the last one is done. */
static void all_done(pgasi_array_access_t *x, pgas_status_t status)
{
    for (pgasi_array_access_t *next; x; x = next) {
        next = x->next;
        pgasi_array_done(x, status);
    }
}

static void on_reply(pgasi_array_t *a, const pgasi_array_message_t *m,
                     const pgasi_array_location_t *loc, const void *data, size_t bytes)
{
    pgasi_array_access_t *x = pgasi_array_token_close(m->token);
    if (!x)
        return; /* no thread waits for it any more */
    if (m->status != PGAS_OK) {
        all_done(x, m->status);
        return;
    }
    if (x->kind == PGASI_ARRAY_APPLY || x->kind == PGASI_ARRAY_ASK)
        pgasi_array_home_note_op(a, loc->home, x->op);
    bool fits = bytes == pgasi_array_out_bytes(x, a->pub.elem_bytes);
    if (fits && bytes)
        memcpy(x->out, data, bytes);
    all_done(x, fits ? PGAS_OK : PGAS_ERR_INTERNAL);
}

/* Checks the range, the operator and the size of an access. @return PGAS_ERR_NOT_FOUND: this rank
 * has not registered the operator. */
static pgas_status_t check_op(const pgasi_array_t *a, const pgasi_array_location_t *loc,
                              const pgasi_array_access_t *x, size_t bytes)
{
    uint64_t k0 = loc->first & a->pub.mask;
    if (x->kind > PGASI_ARRAY_ASK || x->k < k0 || x->k + (uint64_t)x->n > k0 + loc->n || !x->n)
        return PGAS_ERR_INVALID;
    if (x->kind == PGASI_ARRAY_FETCH || x->kind == PGASI_ARRAY_APPLY ||
        x->kind == PGASI_ARRAY_ASK) {
        const pgas_op_def_t *def = pgasi_op_find(x->op);
        if (!def)
            return PGAS_ERR_NOT_FOUND;
        if (def->elem_bytes != a->pub.elem_bytes)
            return PGAS_ERR_MISMATCH;
    }
    return pgasi_array_in_bytes(x, a->pub.elem_bytes) == bytes ? PGAS_OK : PGAS_ERR_INVALID;
}

static void on_op(pgasi_array_t *a, const pgasi_array_message_t *m,
                  const pgasi_array_location_t *loc, const void *data, size_t bytes, int source)
{
    pgasi_array_access_t x = { .kind = m->access.kind,
                               .pin = m->access.pin,
                               .op = m->op,
                               .k = m->access.k,
                               .n = m->access.n,
                               .chunk = m->chunk,
                               .token = m->token };
    x.foreign = a->node_rank[member(a, source)] < 0;
    x.status = check_op(a, loc, &x, bytes);
    bool more = x.status == PGAS_OK && x.kind != PGASI_ARRAY_ASK;
    pgasi_array_request_t *r = more ? pgasi_array_home_new_request(a, bytes) : NULL;
    if (!r) {
        x.status = more ? PGAS_ERR_NO_MEMORY : x.status;
        pgasi_array_send_reply(a, source, &x, NULL, 0);
        return;
    }
    memcpy(r + 1, data, bytes);
    r->event = (uint8_t)pgasi_array_op_event(&x);
    r->source = member(a, source);
    r->op = m->op;
    r->x = x;
    r->x.in = r + 1;
    r->x.in2 = (const char *)(r + 1) + (x.kind == PGASI_ARRAY_CAS ? bytes / 2 : 0);
    pgasi_array_home_request(a, loc->index, r);
}

/* Of an operator that fits elements and entries. */
static pgas_status_t apply_one(pgasi_array_t *a, const pgasi_array_message_t *m,
                               const pgasi_array_apply_entry_t *entry, size_t bytes,
                               pgasi_array_group_t *group)
{
    pgasi_array_location_t loc;
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_APPLY,
                               .op = m->op,
                               .k = entry->k,
                               .n = 1,
                               .chunk = m->chunk + (uint64_t)(int64_t)entry->distance,
                               .in = entry->operand };
    if (!pgasi_array_locate_chunk(&a->map, x.chunk, &loc) || loc.home != a->rank ||
        x.k - (loc.first & a->pub.mask) >= loc.n)
        return PGAS_ERR_INVALID;
    x.foreign = a->node_rank[group->source] < 0;
    pgas_status_t status = pgasi_array_home_try_apply(a, loc.index, &x);
    if (status != PGAS_INPROGRESS)
        return status;
    pgasi_array_request_t *r = pgasi_array_home_new_request(a, bytes);
    if (!r)
        return PGAS_ERR_NO_MEMORY;
    memcpy(r + 1, entry->operand, bytes);
    r->event = PGASI_E_OP_A;
    r->source = group->source;
    r->op = m->op;
    r->x = x;
    r->x.in = r + 1;
    r->group = group;
    group->n_pending++;
    pgasi_array_home_request(a, loc.index, r);
    return PGAS_OK;
}

static pgas_status_t check_op_of_applies(const pgasi_array_t *a, const pgas_op_def_t *def)
{
    if (!def)
        return PGAS_ERR_NOT_FOUND;
    bool fits = def->elem_bytes == a->pub.elem_bytes &&
                def->operand_bytes <= sizeof(((pgasi_array_apply_entry_t *)0)->operand);
    return fits ? PGAS_OK : PGAS_ERR_MISMATCH;
}

/* Requests the processor's lines that an apply will need. Each apply takes a lock, so the processor
 * would not begin to load them before the applies in front of it are done. */
static void foresee_apply(const pgasi_array_t *a, uint64_t base, const char *entries, size_t bytes)
{
    pgasi_array_apply_entry_t entry;
    pgasi_array_location_t loc;
    if (bytes < sizeof entry)
        return;
    memcpy(&entry, entries, sizeof entry);
    const pgasi_array_peer_t *me = &a->peer[a->rank];
    if (!pgasi_array_locate_chunk(&a->map, base + (uint64_t)(int64_t)entry.distance, &loc) ||
        loc.home != a->rank || entry.k > a->pub.mask)
        return;
    __builtin_prefetch(&me->grants[loc.index], 1);
    __builtin_prefetch(me->data + loc.index * a->stride + entry.k * (size_t)a->pub.elem_bytes, 1);
}

static void on_applies(pgasi_array_t *a, const pgasi_array_message_t *m, const char *entries,
                       size_t bytes, int source)
{
    const pgas_op_def_t *def = pgasi_op_find(m->op);
    pgasi_array_group_t *group = malloc(sizeof *group);
    pgasi_array_apply_entry_t entry;
    if (!group)
        pgasi_array_broken(a, "no memory for applies to", m->chunk, 0, 0);
    *group = (pgasi_array_group_t){
        .source = member(a, source), .token = m->token, .n_pending = 1, .chunk = m->chunk
    };
    group->status = check_op_of_applies(a, def);
    for (; group->status == PGAS_OK && bytes >= sizeof entry;
         bytes -= sizeof entry, entries += sizeof entry) {
        if (bytes > FORESEE * sizeof entry)
            foresee_apply(a, m->chunk, entries + FORESEE * sizeof entry,
                          bytes - FORESEE * sizeof entry);
        memcpy(&entry, entries, sizeof entry);
        pgas_status_t status = apply_one(a, m, &entry, def->operand_bytes, group);
        if (group->status == PGAS_OK)
            group->status = status;
    }
    pgasi_array_home_group_done(a, group, PGAS_OK);
}

static void on_request(pgasi_array_t *a, const pgasi_array_message_t *m,
                       const pgasi_array_location_t *loc, int source)
{
    pgasi_array_send_heap(a, source);
    pgasi_array_request_t *r = pgasi_array_home_new_request(a, 0);
    if (!r)
        pgasi_array_broken(a, "no memory for a request for", m->chunk, 0, m->event);
    r->event = m->event;
    r->source = member(a, source);
    r->line = m->line;
    r->op = m->op;
    r->pull = m->pull != 0;
    pgasi_array_home_request(a, loc->index, r);
}

static void on_hello(const void *data, size_t bytes, int source)
{
    pgasi_segment_wire_t wire;
    if (bytes != sizeof wire)
        return;
    memcpy(&wire, data, sizeof wire);
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    if (ctx->tp)
        pgasi_key_learn(ctx, source, &wire); /* otherwise contents travel in messages */
}

static bool is_answer(uint8_t event)
{
    return event >= PGASI_E_ACK && event <= PGASI_E_WB_O;
}

static bool is_fetch(uint8_t event)
{
    return event == PGASI_E_FETCH_R || event == PGASI_E_FETCH_W || event == PGASI_E_FETCH_O ||
           event == PGASI_E_UPGRADE;
}

/* @return false: the message is malformed */
static bool on_contribution_in_line(pgasi_array_t *a, const pgasi_array_message_t *m,
                                    const pgasi_array_location_t *loc, int source)
{
    const pgas_op_def_t *def = pgasi_op_find(m->op);
    const char *data = pgasi_array_mapped_line(a, member(a, source), m->line);
    uint64_t n = (loc->first & a->pub.mask) + loc->n;
    if (m->event != PGASI_E_WB_O || !def || !data || n * def->operand_bytes > a->stride)
        return false;
    pgasi_array_home_contribution_in_line(a, loc->index, member(a, source), m->op, data,
                                          n * def->operand_bytes);
    return true;
}

/* A message to the home of the chunk. @return false: it is malformed. */
static bool for_home(pgasi_array_t *a, const pgasi_array_message_t *m,
                     const pgasi_array_location_t *loc, const void *data, size_t bytes, int source)
{
    switch (m->kind) {
    case PGASI_ARRAY_M_OP:
        on_op(a, m, loc, data, bytes, source);
        return true;
    case PGASI_ARRAY_M_APPLIES:
        on_applies(a, m, data, bytes, source);
        return true;
    case PGASI_ARRAY_M_SPARSE:
        pgasi_array_send_sparse_done(a, source, m->chunk);
        return pgasi_array_home_batch(a, data, bytes / sizeof(pgasi_array_sparse_entry_t));
    case PGASI_ARRAY_M_ELEMENTS:
        pgasi_array_home_elements(a, loc->index, m->offset, data, bytes);
        if (is_answer(m->event))
            pgasi_array_home_answer(a, loc->index, (pgasi_array_event_t)m->event,
                                    member(a, source));
        return true;
    case PGASI_ARRAY_M_CONTRIBUTION:
        if (m->event == PGASI_E_WB_O && !is_contribution_size(a, loc, m->op, bytes))
            return false;
        if (m->event == PGASI_E_WB_O)
            pgasi_array_home_contribution(a, loc->index, member(a, source), m->op, data, bytes);
        else
            pgasi_array_contribution_piece(a, loc->index, member(a, source), m->op, m->offset, data,
                                           bytes);
        return true;
    case PGASI_ARRAY_M_UNPINNED:
        pgasi_array_home_unpinned(a, loc->index);
        return true;
    case PGASI_ARRAY_M_REQUEST:
        if (is_fetch(m->event))
            on_request(a, m, loc, source);
        return is_fetch(m->event);
    case PGASI_ARRAY_M_ANSWER:
        if (m->pull)
            return on_contribution_in_line(a, m, loc, source);
        if (is_answer(m->event))
            pgasi_array_home_answer(a, loc->index, (pgasi_array_event_t)m->event,
                                    member(a, source));
        return is_answer(m->event);
    default:
        return false;
    }
}

/* A message from the home of the chunk. @return false: it is malformed. */
static bool for_cache(pgasi_array_t *a, const pgasi_array_message_t *m,
                      const pgasi_array_location_t *loc, int source)
{
    pgasi_array_event_t event = (pgasi_array_event_t)m->event;
    if (event < PGASI_E_GIVE || event >= PGASI_ARRAY_N_EVENTS || a->global[loc->home] != source)
        return false;
    bool fills = event == PGASI_E_DATA_R || event == PGASI_E_DATA_W;
    char *there = m->pull && fills ? pgasi_array_mapped_chunk(a, loc) : NULL;
    if (event == PGASI_E_GRANT_O && m->line != PGASI_ARRAY_NONE)
        a->reads_lines[loc->home] = m->pull != 0;
    pgasi_array_cache_event(a, m->chunk, event, m->line, there);
    return true;
}

/* *loc_p is where the chunk of the message before it is, in a list, and where this one is then. */
static void on_one(pgasi_array_t *a, const pgasi_array_message_t *m, const void *data, size_t bytes,
                   int source, pgasi_array_location_t *loc_p)
{
    if (!pgasi_array_locate_next(&a->map, m->chunk, loc_p)) {
        drop(m, source);
    } else if (m->kind == PGASI_ARRAY_M_REPLY) {
        on_reply(a, m, loc_p, data, bytes);
    } else if (m->kind == PGASI_ARRAY_M_SPARSE_DONE) {
        pgasi_array_sparse_arrived(a, member(a, source));
    } else if (m->kind == PGASI_ARRAY_M_FILL) {
        pgasi_array_cache_elements(a, m->chunk, m->line, m->offset, data, bytes);
        if (m->event == PGASI_E_DATA_R || m->event == PGASI_E_DATA_W)
            pgasi_array_cache_event(a, m->chunk, (pgasi_array_event_t)m->event, m->line, NULL);
    } else if (m->kind == PGASI_ARRAY_M_TO_CACHE) {
        if (!for_cache(a, m, loc_p, source))
            drop(m, source);
    } else if (loc_p->home != a->rank || !for_home(a, m, loc_p, data, bytes, source)) {
        drop(m, source);
    }
}

static void on_list(pgasi_array_t *a, pgasi_array_message_t m, const char *entries, size_t bytes,
                    int source)
{
    uint64_t chunk = m.chunk;
    pgasi_array_location_t loc = { .cut = true };
    pgasi_array_list_entry_t entry;
    if (m.kind != PGASI_ARRAY_M_REQUEST && m.kind != PGASI_ARRAY_M_ANSWER &&
        m.kind != PGASI_ARRAY_M_TO_CACHE) {
        drop(&m, source);
        return;
    }
    pgasi_array_list_begin();
    m.list = 0;
    for (; bytes >= sizeof entry; bytes -= sizeof entry, entries += sizeof entry) {
        memcpy(&entry, entries, sizeof entry);
        m.line = entry.line;
        m.chunk = chunk + (uint64_t)(int64_t)entry.distance;
        on_one(a, &m, NULL, 0, source, &loc);
    }
    pgasi_array_list_end();
}

static void on_message(const void *args, size_t bytes, pgas_thread_t from, void *context)
{
    (void)context;
    pgasi_array_message_t m;
    pgasi_array_location_t loc = { .cut = true };
    int source = pgas_thread_rank(from);
    if (bytes < sizeof m)
        return;
    memcpy(&m, args, sizeof m);
    const char *data = (const char *)args + sizeof m;
    bytes -= sizeof m;
    if (m.kind == PGASI_ARRAY_M_HEAP) {
        on_hello(data, bytes, source);
        return;
    }
    pgasi_array_t *a = pgasi_array_find(m.array);
    if (!a && m.kind == PGASI_ARRAY_M_UNPINNED)
        return; /* the pin's end was reported without need, and late */
    if (!a || member(a, source) < 0)
        drop(&m, source);
    else if (m.list)
        on_list(a, m, data, bytes, source);
    else
        on_one(a, &m, data, bytes, source, &loc);
}

void pgasi_array_receive_start(void)
{
    pgasi_array_tokens_start();
    pgasi_handler_set_internal(PGASI_DESC_ARRAY, on_message);
}
