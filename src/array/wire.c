/* The array's messages: calls of one internal handler, through context 0, so that those of one rank
 * to another stay in order.
 *
 * Contents travel by one copy where heaps are mapped (ranks of one host that count as several
 * nodes), else as messages of pieces. Lines are filled by their rank, which reads the chunk at its
 * home when it is told that it may: nothing changes there before it has given the chunk back, and
 * what it is asked to give it sees later. What goes home is stored there. Answers of accesses that
 * a home has carried out find their access by a number with a generation, so that a late one finds
 * nothing. */
#include "array/array.h"

#include <stdlib.h>
#include <string.h>

#include "array/op.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "call/handler.h"
#include "msg/outbox.h"
#include "call/progress.h"
#include "mem/segment.h"

typedef struct {
    uint16_t array;
    uint8_t kind, event;
    uint32_t op;
    uint64_t chunk;
    uint64_t offset; /* of pieces; else the access: kind, pin, k, n */
    uint32_t line;   /* or number of an access */
    int16_t status;
    uint16_t run; /* lines of this chunk and those behind it follow */
} message_t;
#define RUN_MAX 64

typedef struct {
    uint32_t k, n : 22, kind : 6, pin : 4;
} packed_t;

/* Between begin and end: messages without data to one rank, alike but for consecutive chunks and
 * their lines, go as one, with a list of the lines behind it. */
static struct {
    int depth, to;
    uint32_t n;
    pgasi_array_t *array;
    message_t first;
    uint32_t line[RUN_MAX];
} run;

static void post(pgasi_array_t *a, int to, const message_t *m, const void *data, size_t bytes)
{
    pgasi_array_count(&a->info.messages, 1);
    if (bytes)
        pgasi_array_count(&a->info.data_bytes, bytes);
    pgasi_outbox_answer(to, PGASI_DESC_ARRAY, m, sizeof *m, data, bytes);
}

static void send_run(void)
{
    uint32_t n = run.n;
    if (!n)
        return;
    run.n = 0;
    run.first.run = n > 1;
    post(run.array, run.to, &run.first, run.line, n > 1 ? n * sizeof run.line[0] : 0);
}

void pgasi_array_run_begin(void)
{
    run.depth++;
}

void pgasi_array_run_end(void)
{
    if (--run.depth == 0)
        send_run();
}

/* What is sent stays in order. */
static void send(pgasi_array_t *a, int to, const message_t *m, const void *data, size_t bytes)
{
    send_run();
    post(a, to, m, data, bytes);
}

static void send_to_run(pgasi_array_t *a, int to, const message_t *m)
{
    message_t next = run.first;
    next.chunk += run.n;
    next.line = m->line;
    bool full = run.n == RUN_MAX || run.n == (pgasi_param.call_max - sizeof *m) / sizeof m->line;
    if (!run.n || full || to != run.to || memcmp(&next, m, sizeof next) != 0) {
        send_run();
        run.first = *m;
        run.array = a;
        run.to = to;
    }
    run.line[run.n++] = m->line;
    if (!run.depth)
        send_run();
}

/* ---- memory of others ---- */

static uint8_t *has_told; /* by rank: it knows how to reach this rank's heap */

static void tell_heap(pgasi_array_t *a, int to)
{
    pgasi_segment_wire_t wire;
    if (has_told[to] || pgasi_boot.local_of[to] >= 0)
        return;
    has_told[to] = 1;
    if (pgasi_segment_describe(PGASI_HEAP_OFFSET, &wire) == PGAS_OK)
        send(a, to, &(message_t){ (uint16_t)a->id, PGASI_ARRAY_M_HELLO, 0, 0, 0, 0, 0, 0, 0 },
             &wire, sizeof wire);
}

/* The address here of bytes at an offset of a rank's heap; NULL: not mapped. */
static char *mapped(int rank, uint64_t offset, uint64_t bytes)
{
    const pgasi_ctx_peer_t *peer = &pgasi_ctxs[PGASI_CTX_SERVICE]->peer[rank];
    offset -= PGASI_HEAP_OFFSET;
    return offset <= peer->heap_bytes && bytes <= peer->heap_bytes - offset ? peer->heap + offset
                                                                            : NULL;
}

/* last: the event that the last piece brings along, 0: none. */
static void send_pieces(pgasi_array_t *a, int to, message_t m, const char *data, size_t bytes,
                        pgasi_array_event_t last)
{
    size_t most = (pgasi_param.call_max - sizeof m) & ~(size_t)7;
    for (size_t done = 0; done < bytes; done += most) {
        m.offset = done;
        m.event = (uint8_t)(bytes - done <= most ? last : 0);
        send(a, to, &m, data + done, PGASI_MIN(bytes - done, most));
    }
}

static int member(const pgasi_array_t *a, int rank)
{
    return pgas_team_from_global(a->team, rank);
}

void pgasi_array_send_data(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                           uint32_t line, const void *data, bool pull)
{
    message_t m = { (uint16_t)a->id, PGASI_ARRAY_M_FILL, 0, 0, chunk, 0, line, 0, 0 };
    if (!pull) {
        send_pieces(a, to, m, data, a->stride, event);
        return;
    }
    m.kind = PGASI_ARRAY_M_TO_CACHE;
    m.event = (uint8_t)event;
    m.status = pull;
    send_to_run(a, to, &m);
}

static char *mapped_chunk(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    return mapped(a->global[loc->home], a->home_offset[loc->home] + loc->index * a->stride,
                  a->stride);
}

void pgasi_array_send_elements(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                               const void *data, size_t bytes)
{
    pgasi_array_location_t loc;
    pgasi_array_locate_chunk(&a->map, chunk, &loc);
    char *there = mapped_chunk(a, &loc);
    if (there) {
        memcpy(there, data, bytes);
        pgasi_array_count(&a->info.data_bytes, bytes);
        pgasi_array_send_answer(a, to, chunk, event);
    } else {
        send_pieces(a, to,
                    (message_t){ (uint16_t)a->id, PGASI_ARRAY_M_ELEMENTS, 0, 0, chunk, 0, 0, 0, 0 },
                    data, bytes, event);
    }
}

void pgasi_array_send_contribution(pgasi_array_t *a, int to, uint64_t chunk, uint32_t op,
                                   const void *data, size_t bytes)
{
    message_t m = { (uint16_t)a->id, PGASI_ARRAY_M_CONTRIBUTION, 0, op, chunk, 0, 0, 0, 0 };
    if (bytes <= pgasi_param.call_max - sizeof m) {
        m.event = PGASI_E_WB_O;
        send(a, to, &m, data, bytes);
        return;
    }
    send_pieces(a, to, m, data, bytes, 0);
    pgasi_array_send_answer(a, to, chunk, PGASI_E_WB_O);
}

/* ---- control ---- */

void pgasi_array_send_request(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                              uint32_t line, uint32_t op)
{
    pgasi_array_location_t loc;
    pgasi_array_locate_chunk(&a->map, chunk, &loc);
    tell_heap(a, to);
    bool pull = mapped_chunk(a, &loc) != NULL;
    send_to_run(a, to,
                &(message_t){ (uint16_t)a->id, PGASI_ARRAY_M_REQUEST, (uint8_t)event, op, chunk, 0,
                              line, pull, 0 });
}

void pgasi_array_send_answer(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event)
{
    send(a, to,
         &(message_t){ (uint16_t)a->id, PGASI_ARRAY_M_ANSWER, (uint8_t)event, 0, chunk, 0, 0, 0,
                       0 },
         NULL, 0);
}

void pgasi_array_send_event(pgasi_array_t *a, int to, uint64_t chunk, pgasi_array_event_t event,
                            uint32_t line)
{
    send_to_run(a, to,
                &(message_t){ (uint16_t)a->id, PGASI_ARRAY_M_TO_CACHE, (uint8_t)event, 0, chunk, 0,
                              line, 0, 0 });
}

void pgasi_array_send_unpinned(pgasi_array_t *a, int to, uint64_t chunk)
{
    send(a, to, &(message_t){ (uint16_t)a->id, PGASI_ARRAY_M_UNPINNED, 0, 0, chunk, 0, 0, 0, 0 },
         NULL, 0);
}

/* ---- accesses carried out elsewhere ---- */

static struct {
    pgasi_array_access_t **at;
    uint8_t *generation;
    uint32_t *free;
    uint32_t n, n_free;
} open;

#define NUMBER_BITS 24

static pgas_status_t more_numbers(void)
{
    uint32_t n = open.n ? 2 * open.n : 64;
    void *at = realloc(open.at, n * sizeof *open.at);
    open.at = at ? at : open.at;
    void *generation = realloc(open.generation, n);
    open.generation = generation ? generation : open.generation;
    void *free_ = realloc(open.free, n * sizeof *open.free);
    open.free = free_ ? free_ : open.free;
    if (!at || !generation || !free_ || n > 1u << NUMBER_BITS)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t i = open.n; i < n; i++) {
        open.at[i] = NULL;
        open.generation[i] = 0;
        open.free[open.n_free++] = i;
    }
    open.n = n;
    return PGAS_OK;
}

static void close_number(uint32_t token)
{
    uint32_t i = token & ((1u << NUMBER_BITS) - 1);
    open.at[i] = NULL;
    open.generation[i]++;
    open.free[open.n_free++] = i;
}

static pgasi_array_access_t *find_access(uint32_t token)
{
    uint32_t i = token & ((1u << NUMBER_BITS) - 1);
    return i < open.n && open.generation[i] == token >> NUMBER_BITS ? open.at[i] : NULL;
}

void pgasi_array_wire_forget(pgasi_array_access_t *x)
{
    for (uint32_t i = 0; i < open.n; i++)
        if (open.at[i] == x)
            close_number(i | (uint32_t)open.generation[i] << NUMBER_BITS);
}

static size_t operand_bytes(uint32_t op)
{
    const pgas_array_op_def_t *def = pgasi_array_op_find(op);
    return def ? def->operand_bytes : 0;
}

size_t pgasi_array_in_bytes(const pgasi_array_t *a, const pgasi_array_access_t *x)
{
    switch (x->kind) {
    case PGASI_ARRAY_SET:
        return x->n * (size_t)a->open.elem_bytes;
    case PGASI_ARRAY_CAS:
        return 2 * (size_t)a->open.elem_bytes;
    case PGASI_ARRAY_FETCH:
    case PGASI_ARRAY_APPLY:
        return operand_bytes(x->op);
    default:
        return 0;
    }
}

size_t pgasi_array_out_bytes(const pgasi_array_t *a, const pgasi_array_access_t *x)
{
    bool one = x->kind == PGASI_ARRAY_CAS || x->kind == PGASI_ARRAY_FETCH;
    return one                          ? a->open.elem_bytes
           : x->kind == PGASI_ARRAY_GET ? x->n * (size_t)a->open.elem_bytes
                                        : 0;
}

pgas_status_t pgasi_array_send_op(pgasi_array_t *a, int to, pgasi_array_access_t *x)
{
    if (open.n_free == 0 && more_numbers() != PGAS_OK)
        return PGAS_ERR_NO_MEMORY;
    uint32_t i = open.free[--open.n_free];
    open.at[i] = x;
    packed_t packed = { x->k, x->n, x->kind, x->pin };
    message_t m = { (uint16_t)a->id,
                    PGASI_ARRAY_M_OP,
                    0,
                    x->op,
                    x->chunk,
                    0,
                    i | (uint32_t)open.generation[i] << NUMBER_BITS,
                    0,
                    0 };
    memcpy(&m.offset, &packed, sizeof m.offset);
    size_t bytes = pgasi_array_in_bytes(a, x);
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
                            const void *out, size_t bytes)
{
    message_t m = { (uint16_t)a->id, PGASI_ARRAY_M_REPLY, 0, 0, x->chunk, 0,
                    x->token,        (int16_t)x->status,  0 };
    send(a, to, &m, out, bytes);
}

/* ---- what comes in ---- */

static void drop(const message_t *m, int source)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("array",
                    "a message of kind %d from rank %d for array %u makes no sense: dropped",
                    m->kind, source, m->array);
}

/* Of all of a chunk's elements; 0: an operator that is unknown here. */
static size_t operands_bytes(const pgasi_array_t *a, const pgasi_array_location_t *loc, uint32_t op)
{
    return ((loc->first & a->open.mask) + loc->n) * operand_bytes(op);
}

static void on_reply(pgasi_array_t *a, const message_t *m, const pgasi_array_location_t *loc,
                     const void *data, size_t bytes)
{
    pgasi_array_access_t *x = find_access(m->line);
    if (!x)
        return; /* nobody waits any more */
    close_number(m->line);
    if (m->status == PGAS_OK && (x->kind == PGASI_ARRAY_APPLY || x->kind == PGASI_ARRAY_ASK))
        pgasi_array_home_note_op(a, loc->home, x->op);
    bool fits = bytes == pgasi_array_out_bytes(a, x);
    if (m->status == PGAS_OK && fits && bytes)
        memcpy(x->out, data, bytes);
    pgasi_array_done(x, m->status == PGAS_OK && !fits ? PGAS_ERR_INTERNAL : m->status);
}

/* Whether what it brings and asks for fits the array; PGAS_ERR_NOT_FOUND: an operator that is
 * unknown here. */
static pgas_status_t check_op(const pgasi_array_t *a, const pgasi_array_location_t *loc,
                              const pgasi_array_access_t *x, size_t bytes)
{
    uint64_t k0 = loc->first & a->open.mask;
    if (x->kind > PGASI_ARRAY_ASK || x->k < k0 || x->k + (uint64_t)x->n > k0 + loc->n || !x->n)
        return PGAS_ERR_INVALID;
    if (x->kind == PGASI_ARRAY_FETCH || x->kind == PGASI_ARRAY_APPLY ||
        x->kind == PGASI_ARRAY_ASK) {
        const pgas_array_op_def_t *def = pgasi_array_op_find(x->op);
        if (!def)
            return PGAS_ERR_NOT_FOUND;
        if (def->elem_bytes != a->open.elem_bytes)
            return PGAS_ERR_MISMATCH;
    }
    return pgasi_array_in_bytes(a, x) == bytes ? PGAS_OK : PGAS_ERR_INVALID;
}

static void on_op(pgasi_array_t *a, const message_t *m, const pgasi_array_location_t *loc,
                  const void *data, size_t bytes, int source)
{
    packed_t packed;
    memcpy(&packed, &m->offset, sizeof packed);
    pgasi_array_access_t x = { .kind = packed.kind,
                               .pin = packed.pin,
                               .op = m->op,
                               .k = packed.k,
                               .n = packed.n,
                               .chunk = m->chunk,
                               .token = m->line };
    x.foreign = a->node_rank[member(a, source)] < 0;
    x.status = check_op(a, loc, &x, bytes);
    bool more = x.status == PGAS_OK && x.kind != PGASI_ARRAY_ASK;
    pgasi_array_request_t *r = more ? pgasi_array_new_request(a, bytes) : NULL;
    if (!r) {
        x.status = more ? PGAS_ERR_NO_MEMORY : x.status;
        pgasi_array_send_reply(a, source, &x, NULL, 0);
        return;
    }
    memcpy(r + 1, data, bytes);
    r->event = (uint8_t)pgasi_array_event_of_access(&x);
    r->source = member(a, source);
    r->op = m->op;
    r->x = x;
    r->x.in = r + 1;
    r->x.in2 = (const char *)(r + 1) + (x.kind == PGASI_ARRAY_CAS ? bytes / 2 : 0);
    pgasi_array_home_request(a, loc->index, r);
}

static void on_request(pgasi_array_t *a, const message_t *m, const pgasi_array_location_t *loc,
                       int source)
{
    tell_heap(a, source);
    pgasi_array_request_t *r = pgasi_array_new_request(a, 0);
    if (!r)
        pgasi_array_broken(a, "no memory for a request for", m->chunk, 0, m->event);
    r->event = m->event;
    r->source = member(a, source);
    r->line = m->line;
    r->op = m->op;
    r->pull = m->status != 0;
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
        pgasi_key_learn(ctx, source, &wire); /* if not, contents travel in messages */
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

/* For the home of the chunk. */
static bool for_home(pgasi_array_t *a, const message_t *m, const pgasi_array_location_t *loc,
                     const void *data, size_t bytes, int source)
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
        if (m->event == PGASI_E_WB_O && operand_bytes(m->op) &&
            bytes != operands_bytes(a, loc, m->op))
            return false;
        if (m->event == PGASI_E_WB_O)
            pgasi_array_home_contribution(a, loc->index, member(a, source), m->op, data, bytes);
        else
            pgasi_array_home_contribution_piece(a, loc->index, member(a, source), m->op, m->offset,
                                                data, bytes);
        return true;
    case PGASI_ARRAY_M_UNPINNED:
        pgasi_array_home_unpinned(a, loc->index);
        return true;
    case PGASI_ARRAY_M_REQUEST:
        if (is_fetch(m->event))
            on_request(a, m, loc, source);
        return is_fetch(m->event);
    case PGASI_ARRAY_M_ANSWER:
        if (is_answer(m->event))
            pgasi_array_home_answer(a, loc->index, (pgasi_array_event_t)m->event,
                                    member(a, source));
        return is_answer(m->event);
    default:
        return false;
    }
}

static void on_one(pgasi_array_t *a, const message_t *m, const void *data, size_t bytes, int source)
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
        const char *there = m->status ? mapped_chunk(a, &loc) : NULL;
        if (there)
            pgasi_array_cache_elements(a, m->chunk, m->line, 0, there, a->stride);
        pgasi_array_cache_event(a, m->chunk, (pgasi_array_event_t)m->event, m->line);
    } else if (loc.home != a->rank || !for_home(a, m, &loc, data, bytes, source)) {
        drop(m, source);
    }
}

static void on_run(pgasi_array_t *a, message_t m, const char *lines, size_t bytes, int source)
{
    if (m.kind != PGASI_ARRAY_M_REQUEST && m.kind != PGASI_ARRAY_M_TO_CACHE) {
        drop(&m, source);
        return;
    }
    pgasi_array_run_begin();
    for (m.run = 0; bytes >= sizeof m.line;
         bytes -= sizeof m.line, lines += sizeof m.line, m.chunk++) {
        memcpy(&m.line, lines, sizeof m.line);
        on_one(a, &m, NULL, 0, source);
    }
    pgasi_array_run_end();
}

static void on_message(const void *args, size_t bytes, pgas_thread_t from, void *context)
{
    (void)context;
    message_t m;
    int source = pgas_thread_rank(from);
    if (bytes < sizeof m)
        return;
    memcpy(&m, args, sizeof m);
    const char *data = (const char *)args + sizeof m;
    bytes -= sizeof m;
    if (m.kind == PGASI_ARRAY_M_HELLO) {
        on_hello(data, bytes, source);
        return;
    }
    pgasi_array_t *a = pgasi_array_find(m.array);
    if (!a && m.kind == PGASI_ARRAY_M_UNPINNED)
        return; /* told without need, and late */
    if (!a || member(a, source) < 0)
        drop(&m, source);
    else if (m.run)
        on_run(a, m, data, bytes, source);
    else
        on_one(a, &m, data, bytes, source);
}

pgas_status_t pgasi_array_wire_start(void)
{
    free(has_told);
    has_told = calloc((size_t)pgasi_boot.n_ranks, 1);
    memset(&open, 0, sizeof open); /* of an earlier job: gone with its accesses */
    pgasi_handler_set_internal(PGASI_DESC_ARRAY, on_message);
    return has_told ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}
