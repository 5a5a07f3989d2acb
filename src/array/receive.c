/* Messages of the array, the receiving side. Each message goes to the home's side or to the
 * cache's side, or completes an access. A malformed message is dropped, and the first
 * one is logged. */
#include "array/wire.h"

#include <string.h>

#include "base/op.h"
#include "array/policy.h"
#include "array/registry.h"
#include "array/contribution.h"
#include "base/log.h"
#include "boot/boot.h"
#include "call/progress.h"
#include "mem/segment.h"
#include "msg/dispatch.h"

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

static void on_reply(pgasi_array_t *a, const pgasi_array_message_t *m,
                     const pgasi_array_location_t *loc, const void *data, size_t bytes)
{
    pgasi_array_access_t *x = pgasi_array_token_close(m->token);
    if (!x)
        return; /* no thread waits for it any more */
    if (m->status != PGAS_OK) {
        pgasi_array_done(x, m->status);
        return;
    }
    if (x->kind == PGASI_ARRAY_APPLY || x->kind == PGASI_ARRAY_ASK)
        pgasi_array_home_note_op(a, loc->home, x->op);
    bool fits = bytes == pgasi_array_out_bytes(x, a->pub.elem_bytes);
    if (fits && bytes)
        memcpy(x->out, data, bytes);
    pgasi_array_done(x, fits ? PGAS_OK : PGAS_ERR_INTERNAL);
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

static void on_one(pgasi_array_t *a, const pgasi_array_message_t *m, const void *data, size_t bytes,
                   int source)
{
    pgasi_array_location_t loc;
    if (!pgasi_array_locate_chunk(&a->map, m->chunk, &loc)) {
        drop(m, source);
    } else if (m->kind == PGASI_ARRAY_M_REPLY) {
        on_reply(a, m, &loc, data, bytes);
    } else if (m->kind == PGASI_ARRAY_M_FILL) {
        pgasi_array_cache_elements(a, m->chunk, m->line, m->offset, data, bytes);
        if (m->event == PGASI_E_DATA_R || m->event == PGASI_E_DATA_W)
            pgasi_array_cache_event(a, m->chunk, (pgasi_array_event_t)m->event, m->line);
    } else if (m->kind == PGASI_ARRAY_M_TO_CACHE && m->event >= PGASI_E_GIVE &&
               m->event < PGASI_ARRAY_N_EVENTS) {
        if (a->global[loc.home] != source) {
            drop(m, source);
            return;
        }
        bool fills = m->event == PGASI_E_DATA_R || m->event == PGASI_E_DATA_W;
        const char *there = m->pull && fills ? pgasi_array_mapped_chunk(a, &loc) : NULL;
        if (m->event == PGASI_E_GRANT_O)
            a->reads_lines[loc.home] = m->pull != 0;
        if (there)
            pgasi_array_cache_elements(a, m->chunk, m->line, 0, there, a->stride);
        pgasi_array_cache_event(a, m->chunk, (pgasi_array_event_t)m->event, m->line);
    } else if (loc.home != a->rank || !for_home(a, m, &loc, data, bytes, source)) {
        drop(m, source);
    }
}

static void on_run(pgasi_array_t *a, pgasi_array_message_t m, const char *entries, size_t bytes,
                   int source)
{
    uint64_t chunk = m.chunk;
    pgasi_array_run_entry_t entry;
    if (m.kind != PGASI_ARRAY_M_REQUEST && m.kind != PGASI_ARRAY_M_ANSWER &&
        m.kind != PGASI_ARRAY_M_TO_CACHE) {
        drop(&m, source);
        return;
    }
    pgasi_array_run_begin();
    m.run = 0;
    for (; bytes >= sizeof entry; bytes -= sizeof entry, entries += sizeof entry) {
        memcpy(&entry, entries, sizeof entry);
        m.line = entry.line;
        m.chunk = chunk + (uint64_t)(int64_t)entry.distance;
        on_one(a, &m, NULL, 0, source);
    }
    pgasi_array_run_end();
}

static void on_message(const void *args, size_t bytes, pgas_thread_t from, void *context)
{
    (void)context;
    pgasi_array_message_t m;
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
    else if (m.run)
        on_run(a, m, data, bytes, source);
    else
        on_one(a, &m, data, bytes, source);
}

void pgasi_array_receive_start(void)
{
    pgasi_array_tokens_start();
    pgasi_handler_set_internal(PGASI_DESC_ARRAY, on_message);
}
