/* Visiting the middle vertices of triangles.
 *
 * A rank first visits its own vertices. Then each owner sends the row of upward edges of a vertex
 * to each rank that has an edge up to the vertex. Rows consist of vertex numbers. They travel in
 * rounds: in a round each rank sends a block to each other one. The blocks that a rank sends take
 * no more memory than the rows of the rank that has most, and at most BLOCK_BYTES. Received blocks
 * take the same. The sender cuts a row that does not fit, and the visitor gets its parts one after
 * the other.
 *
 * A part of a row in a block has these words: the index of the vertex in the list of mirrors, the
 * number n of ends, the ends, and with up_both a bit for each end. The receiver replaces the index
 * by its place, and skips ends that it does not know. */
#include <string.h>
#include "base/checks.h"
#include "graph/oriented.h"
#include "pgas/coll.h"

#define BLOCK_BYTES (UINT64_C(16) << 20)
#define LEAST_BYTES UINT64_C(256) /* of a block for one rank: more than a word's bits take */
#define CHUNK       16            /* own vertices that a thread takes at a time */
#define NO_PLACE    UINT32_MAX
#define HEAD        2 /* words */

/* A flag in the number of bytes that ranks exchange: the sender has no more rows for any rank. */
#define ENDED (UINT64_C(1) << 63)

enum {
    SLOT_MARKS = SLOT_STATE + 8, /* that of the sort before */
    SLOT_TABLE,
    SLOT_WANTED,
    SLOT_PARTS
};

typedef struct {
    uint64_t mirror, word; /* the next word of the next row */
} cursor_t;

typedef struct {
    const pgasi_oriented_t *o;
    pgasi_middle_fn_t visit;
    void *arg;
    const char *phase;
    pgasi_marks_t *marks; /* [n_threads] */
    uint64_t next;        /* threads take own vertices, or parts, in turn */
    /* numbers and places of ghosts: number << 32 | place, by open addressing */
    uint64_t *table;
    int table_shift;
    uint8_t *wanted;  /* [n_mirrors] */
    cursor_t *cursor; /* [n_ranks] */
    uint64_t room;    /* words of a block for one rank */
    uint32_t *send, *receive;
    uint64_t *part; /* [n_parts] where parts begin in receive */
    uint64_t n_parts;
    int n_rounds;
} visiting_t;

static bool has_down(const pgasi_oriented_t *o, uint32_t id)
{
    const uint64_t *begin = o->down_begin + (uint64_t)o->place[id] * (uint64_t)o->n_kinds;
    return begin[0] != begin[o->n_kinds];
}

/* ---- own vertices ---- */

static void mark_words(const pgasi_oriented_t *o, pgasi_marks_t *marks, uint32_t own)
{
    uint32_t n = 0;
    for (uint64_t e = o->up_begin[own]; e < o->up_begin[own + 1]; e++) {
        uint32_t block = (uint32_t)(o->up[e] >> 32);
        marks->any[block] = (uint32_t)o->up[e];
        if (o->up_both)
            marks->both[block] = o->up_both[e];
        marks->block[n++] = block;
    }
    marks->n_blocks = n;
}

static void clear_marks(pgasi_marks_t *marks)
{
    for (uint32_t i = 0; i < marks->n_blocks; i++) {
        marks->any[marks->block[i]] = 0;
        if (marks->both)
            marks->both[marks->block[i]] = 0;
    }
    marks->n_blocks = 0;
}

static void visit_own(int i, int n, void *arg)
{
    visiting_t *v = arg;
    const pgasi_oriented_t *o = v->o;
    uint64_t n_local = o->run->info.n_local;
    (void)n;
    for (;;) {
        uint64_t id = __atomic_fetch_add(&v->next, CHUNK, __ATOMIC_RELAXED);
        if (id >= n_local)
            break;
        if (i == 0 && id % (CHUNK * 1024) < CHUNK)
            pgasi_run_report(o->run, v->phase, id, 0);
        for (uint64_t end = PGASI_MIN(id + CHUNK, n_local); id < end; id++) {
            uint32_t own = (uint32_t)id;
            if (o->up_begin[own] == o->up_begin[own + 1] || !has_down(o, own))
                continue;
            mark_words(o, &v->marks[i], own);
            v->visit(v->arg, &v->marks[i], o->place[own]);
            clear_marks(&v->marks[i]);
        }
    }
}

/* ---- places of other ranks' vertices ---- */

static uint64_t *find_entry(const visiting_t *v, uint32_t number)
{
    uint64_t mask = (UINT64_C(1) << (64 - v->table_shift)) - 1;
    uint64_t i = number * UINT64_C(0x9e3779b97f4a7c15) >> v->table_shift;
    while (v->table[i] != UINT64_MAX && v->table[i] >> 32 != number)
        i = (i + 1) & mask;
    return &v->table[i];
}

static pgas_status_t make_table(visiting_t *v)
{
    const pgas_graph_info_t *info = &v->o->run->info;
    uint64_t n = 0, room = 16;
    for (uint32_t id = info->n_local; id < v->o->n_ids; id++)
        n += has_down(v->o, id);
    for (v->table_shift = 60; room < 2 * n; room *= 2)
        v->table_shift--;
    v->table = pgasi_graph_scratch(v->o->run->graph, SLOT_TABLE, room, sizeof *v->table);
    if (!v->table)
        return PGAS_ERR_NO_MEMORY;
    memset(v->table, 0xff, room * sizeof *v->table);
    for (uint32_t id = info->n_local; id < v->o->n_ids; id++)
        if (has_down(v->o, id))
            *find_entry(v, (uint32_t)info->vertex[id]) = info->vertex[id] << 32 | v->o->place[id];
    return PGAS_OK;
}

static uint32_t place_of(const visiting_t *v, uint32_t number)
{
    const pgas_graph_t *graph = v->o->run->graph;
    if (pgasi_graph_is_own(graph, number))
        return v->o->place[graph->id_of[number - graph->first]];
    return (uint32_t)*find_entry(v, number); /* NO_PLACE if the entry is free */
}

/* ---- sending ---- */

static uint64_t words_of(const pgasi_oriented_t *o, uint64_t n_ends)
{
    return HEAD + n_ends + (o->up_both ? PGASI_DIV_UP(n_ends, 32) : 0);
}

static void put_ends(const pgasi_oriented_t *o, uint64_t word, uint64_t end, uint32_t *part)
{
    const uint64_t *vertex = o->run->info.vertex;
    uint32_t *ends = part + HEAD, *flags = part + HEAD + part[1], n = 0;
    if (o->up_both)
        memset(flags, 0, PGASI_DIV_UP((uint64_t)part[1], 32) * sizeof *flags);
    for (; word < end; word++) {
        uint64_t first = o->up[word] >> 32 << PGASI_BLOCK_BITS;
        for (uint32_t bits = (uint32_t)o->up[word]; bits != 0; bits &= bits - 1, n++) {
            int bit = __builtin_ctz(bits);
            ends[n] = (uint32_t)vertex[o->id_at[first + (uint64_t)bit]];
            if (o->up_both && (o->up_both[word] >> bit & 1))
                flags[n / 32] |= UINT32_C(1) << (n & 31);
        }
    }
}

/* Fills a block for a rank. @return its words */
static uint64_t fill_block(visiting_t *v, int rank, uint32_t *block)
{
    const pgasi_oriented_t *o = v->o;
    const pgas_graph_t *graph = o->run->graph;
    cursor_t *c = &v->cursor[rank];
    uint64_t at = 0;
    for (; c->mirror < graph->mirror_begin[rank + 1]; c->mirror++, c->word = 0) {
        uint32_t own = graph->mirror[c->mirror];
        uint64_t word = o->up_begin[own] + c->word, end = word, n = 0;
        if (!v->wanted[c->mirror])
            continue;
        for (; end < o->up_begin[own + 1]; end++) {
            uint64_t more = (uint64_t)__builtin_popcount((uint32_t)o->up[end]);
            if (at + words_of(o, n + more) > v->room)
                break;
            n += more;
        }
        if (n > 0) {
            block[at] = (uint32_t)(c->mirror - graph->mirror_begin[rank]);
            block[at + 1] = (uint32_t)n;
            put_ends(o, word, end, block + at);
            at += words_of(o, n);
            o->run->n_sent += n;
        }
        c->word += end - word;
        if (end < o->up_begin[own + 1])
            break;
    }
    return at;
}

/* Fills blocks for all ranks, one behind the other. @return whether no more rows are left */
static bool fill_blocks(visiting_t *v, size_t *send_bytes)
{
    const pgas_graph_t *graph = v->o->run->graph;
    uint32_t *block = v->send;
    bool ended = true;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        uint64_t n = fill_block(v, rank, block);
        block += n;
        send_bytes[rank] = n * sizeof *block;
        ended = ended && v->cursor[rank].mirror == graph->mirror_begin[rank + 1];
    }
    return ended;
}

/* ---- receiving ---- */

/* Finds the parts, and replaces indices by places. */
static void find_parts(visiting_t *v, const size_t *receive_bytes)
{
    const pgasi_oriented_t *o = v->o;
    const pgas_graph_t *graph = o->run->graph;
    uint64_t at = 0, end = 0;
    v->n_parts = 0;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        for (end += receive_bytes[rank] / sizeof *v->receive; at < end;) {
            uint64_t ghost = graph->n_local + graph->ghost_begin[rank] + v->receive[at];
            v->receive[at] = o->place[ghost];
            v->part[v->n_parts++] = at;
            at += words_of(o, v->receive[at + 1]);
        }
    }
}

static void mark_part(const visiting_t *v, pgasi_marks_t *marks, const uint32_t *part)
{
    const uint32_t *ends = part + HEAD, *flags = part + HEAD + part[1];
    for (uint32_t i = 0; i < part[1]; i++) {
        uint32_t place = place_of(v, ends[i]), bit = UINT32_C(1) << (place & 31);
        uint32_t block = place >> PGASI_BLOCK_BITS;
        if (place == NO_PLACE)
            continue;
        if (marks->any[block] == 0)
            marks->block[marks->n_blocks++] = block;
        marks->any[block] |= bit;
        if (marks->both && (flags[i / 32] >> (i & 31) & 1))
            marks->both[block] |= bit;
    }
}

static void visit_parts(int i, int n, void *arg)
{
    visiting_t *v = arg;
    (void)n;
    for (;;) {
        uint64_t k = __atomic_fetch_add(&v->next, 1, __ATOMIC_RELAXED);
        if (k >= v->n_parts)
            break;
        const uint32_t *part = v->receive + v->part[k];
        mark_part(v, &v->marks[i], part);
        if (v->marks[i].n_blocks > 0)
            v->visit(v->arg, &v->marks[i], part[0]);
        clear_marks(&v->marks[i]);
    }
}

/* ---- rounds ---- */

/* Informs the owners which of their rows this rank wants. */
static pgas_status_t exchange_wanted(visiting_t *v)
{
    const pgas_graph_t *graph = v->o->run->graph;
    pgasi_run_t *r = pgasi_run_of(v->o->run);
    uint8_t *wants = (uint8_t *)v->send;
    for (uint32_t g = 0; g < graph->n_ghosts; g++)
        wants[g] = has_down(v->o, graph->n_local + g);
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        r->send_bytes[rank] = graph->ghost_begin[rank + 1] - graph->ghost_begin[rank];
        r->receive_bytes[rank] = graph->mirror_begin[rank + 1] - graph->mirror_begin[rank];
        v->cursor[rank] = (cursor_t){ graph->mirror_begin[rank], 0 };
    }
    return pgas_alltoallv(NULL, wants, r->send_bytes, v->wanted, r->receive_bytes);
}

/* One round. *all_ended_p says whether all ranks have sent everything. */
static pgas_status_t exchange_rows(visiting_t *v, bool *all_ended_p)
{
    pgasi_run_t *r = pgasi_run_of(v->o->run);
    int n_ranks = v->o->run->graph->n_ranks;
    bool ended = fill_blocks(v, r->send_bytes);
    for (int rank = 0; rank < n_ranks; rank++)
        r->send_bytes[rank] |= ended ? ENDED : 0;
    pgas_status_t status =
        pgas_alltoall(NULL, r->send_bytes, r->receive_bytes, sizeof *r->send_bytes);
    *all_ended_p = true;
    for (int rank = 0; status == PGAS_OK && rank < n_ranks; rank++) {
        *all_ended_p = *all_ended_p && (r->receive_bytes[rank] & ENDED);
        r->send_bytes[rank] &= ~ENDED;
        r->receive_bytes[rank] &= ~ENDED;
    }
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, v->send, r->send_bytes, v->receive, r->receive_bytes);
    if (status == PGAS_OK)
        find_parts(v, r->receive_bytes);
    return status;
}

static pgas_status_t visit_others(visiting_t *v)
{
    bool all_ended = false;
    pgas_status_t status = exchange_wanted(v);
    while (status == PGAS_OK && !all_ended) {
        status = exchange_rows(v, &all_ended);
        if (status != PGAS_OK)
            break;
        v->next = 0;
        pgas_graph_run_threads(v->o->run, visit_parts, v);
        v->n_rounds++;
        pgasi_run_report(v->o->run, v->phase, v->o->run->info.n_local + (uint64_t)v->n_rounds, 0);
    }
    return status;
}

/* ---- memory ---- */

/* The marks of a thread: any, block, both, extra. */
static pgas_status_t make_marks(visiting_t *v, uint32_t extra_words)
{
    const pgasi_oriented_t *o = v->o;
    uint64_t n = (uint64_t)o->run->opts.n_threads, n_blocks = o->n_ids / 32 + 1;
    uint64_t n_arrays = o->up_both ? 3 : 2;
    uint64_t words = PGASI_DIV_UP(n_blocks * (n_arrays + extra_words), 32) * 32;
    uint64_t head = PGASI_DIV_UP(n * sizeof *v->marks, sizeof(uint32_t));
    v->marks = pgasi_graph_scratch(o->run->graph, SLOT_MARKS, head + n * words, sizeof(uint32_t));
    if (!v->marks)
        return PGAS_ERR_NO_MEMORY;
    uint32_t *memory = (uint32_t *)(void *)v->marks + head;
    memset(memory, 0, n * words * sizeof *memory);
    for (uint64_t i = 0; i < n; i++, memory += words)
        v->marks[i] = (pgasi_marks_t){
            .any = memory,
            .block = memory + n_blocks,
            .both = o->up_both ? memory + 2 * n_blocks : NULL,
            .extra = memory + n_arrays * n_blocks,
        };
    return PGAS_OK;
}

/* The bytes of a block for one rank: the greatest that a rank wants. */
static pgas_status_t choose_block_bytes(const pgasi_oriented_t *o, uint64_t *bytes_p)
{
    uint64_t own = o->up_begin[o->run->info.n_local] * sizeof *o->up;
    uint64_t bytes = PGASI_MIN(own, BLOCK_BYTES) / (uint64_t)o->run->graph->n_ranks & ~UINT64_C(3);
    bytes = PGASI_MAX(bytes, LEAST_BYTES);
    return pgas_allreduce(NULL, &bytes, bytes_p, 1, PGAS_U64, PGAS_MAX);
}

static pgas_status_t make_blocks(visiting_t *v, uint64_t bytes)
{
    pgas_graph_t *graph = v->o->run->graph;
    uint64_t n_ranks = (uint64_t)graph->n_ranks, n_mirrors = graph->mirror_begin[n_ranks];
    v->room = bytes / sizeof *v->send;
    uint64_t send_bytes = PGASI_MAX(n_ranks * bytes, graph->n_ghosts);
    v->send = pgasi_graph_scratch(graph, SLOT_SEND, send_bytes, 1);
    v->receive = pgasi_graph_scratch(graph, SLOT_RECEIVE, n_ranks * bytes, 1);
    v->part =
        pgasi_graph_scratch(graph, SLOT_PARTS, n_ranks * v->room / (HEAD + 1) + 1, sizeof *v->part);
    v->cursor = pgasi_graph_scratch(graph, SLOT_WANTED, n_ranks * sizeof *v->cursor + n_mirrors, 1);
    if (!v->send || !v->receive || !v->part || !v->cursor)
        return PGAS_ERR_NO_MEMORY;
    v->wanted = (uint8_t *)(v->cursor + n_ranks);
    return make_table(v);
}

pgas_status_t pgasi_oriented_visit(const pgasi_oriented_t *o, uint32_t extra_words,
                                   const char *phase, pgasi_middle_fn_t visit, void *arg,
                                   uint64_t *sum_p, int *rounds_p)
{
    visiting_t v = { .o = o, .visit = visit, .arg = arg, .phase = phase };
    bool is_alone = o->run->graph->n_ranks == 1;
    uint64_t block_bytes;
    pgas_status_t status = choose_block_bytes(o, &block_bytes);
    if (status != PGAS_OK)
        return status;
    status = make_marks(&v, extra_words);
    if (status == PGAS_OK && !is_alone)
        status = make_blocks(&v, block_bytes);
    status = pgasi_graph_agree(status, NULL);
    if (status != PGAS_OK)
        return status;
    pgas_graph_run_threads(o->run, visit_own, &v);
    if (!is_alone)
        status = visit_others(&v);
    uint64_t done = o->run->info.n_local + (uint64_t)v.n_rounds;
    pgasi_run_report(o->run, phase, done, done);
    *sum_p = 0;
    for (int i = 0; i < o->run->opts.n_threads; i++)
        *sum_p += v.marks[i].sum;
    *rounds_p = v.n_rounds + 1;
    return status;
}
