/* Making the oriented graph.
 *
 * Steps: degrees of the simple graph; places by a radix sort; for each own vertex the sorted list
 * of upper neighbours, packed into words; the transpose of these lists. One thread sorts places,
 * sums the begins of rows and moves rows together; all threads do the rest.
 *
 * Memory: 8 bytes for each upward edge and 4 for each downward edge. In an undirected graph this is
 * 6 bytes for each edge of the rows. Each id takes 28 bytes, and 32 more during the sort. */
#include "graph/oriented.h"

#include <string.h>
#include "base/checks.h"
#include "graph/sort.h"

enum {
    SLOT_DEGREE = SLOT_STATE,
    SLOT_PLACE,
    SLOT_ID_AT,
    SLOT_UP_BEGIN,
    SLOT_UP,
    SLOT_UP_BOTH,
    SLOT_DOWN_BEGIN,
    SLOT_DOWN,
    SLOT_SORT
};

/* ---- distinct neighbours of an own vertex ---- */

typedef struct {
    const uint32_t *out, *out_end, *in, *in_end;
    uint32_t own;
} neighbours_t;

static neighbours_t neighbours_of(const pgas_graph_info_t *info, uint32_t own)
{
    const pgas_graph_rows_t *out = &info->out, *in = &info->in;
    neighbours_t n = { out->end + out->begin[own], out->end + out->begin[own + 1], NULL, NULL,
                       own };
    if (info->directed) {
        n.in = in->end + in->begin[own];
        n.in_end = in->end + in->begin[own + 1];
    }
    return n;
}

/* Merges the two rows. *both_p says whether the neighbour is in both. */
static inline bool next_neighbour(neighbours_t *n, uint32_t *id_p, bool *both_p)
{
    while (n->out < n->out_end || n->in < n->in_end) {
        uint32_t a = n->out < n->out_end ? *n->out : UINT32_MAX; /* no id */
        uint32_t b = n->in < n->in_end ? *n->in : UINT32_MAX;
        uint32_t id = PGASI_MIN(a, b);
        while (n->out < n->out_end && *n->out == id)
            n->out++;
        while (n->in < n->in_end && *n->in == id)
            n->in++;
        if (id == n->own)
            continue;
        *id_p = id;
        *both_p = a == b;
        return true;
    }
    return false;
}

/* ---- degrees and places ---- */

static inline void degree_vertex(pgasi_oriented_t *o, uint32_t id)
{
    neighbours_t n = neighbours_of(&o->run->info, id);
    uint32_t degree = 0, end;
    bool both;
    while (next_neighbour(&n, &end, &both))
        degree++;
    o->degree[id] = degree;
}
PGAS_VERTEX_MAP(degree, pgasi_oriented_t)

static pgas_status_t make_places(pgasi_oriented_t *o)
{
    const uint64_t *vertex = o->run->info.vertex;
    uint32_t greatest = 0;
    pgasi_keyed_t *keyed =
        pgasi_graph_scratch(o->run->graph, SLOT_SORT, 2 * (uint64_t)o->n_ids, sizeof *keyed);
    if (!keyed)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t id = 0; id < o->n_ids; id++)
        greatest = PGASI_MAX(greatest, o->degree[id]);
    int shift = 64 - __builtin_clzll(o->run->info.n_vertices | 1);
    for (uint32_t id = 0; id < o->n_ids; id++)
        keyed[id] =
            (pgasi_keyed_t){ (uint64_t)(greatest - o->degree[id]) << shift | vertex[id], id };
    const pgasi_keyed_t *sorted =
        pgasi_sort_keyed(keyed, keyed + o->n_ids, o->n_ids, ((uint64_t)greatest + 1) << shift);
    for (uint32_t p = 0; p < o->n_ids; p++) {
        o->id_at[p] = sorted[p].index;
        o->place[sorted[p].index] = p;
    }
    return PGAS_OK;
}

/* ---- upward edges ---- */

/* Sets up_begin[id + 1] to the number of upper neighbours. */
static inline void count_vertex(pgasi_oriented_t *o, uint32_t id)
{
    neighbours_t n = neighbours_of(&o->run->info, id);
    uint32_t end, place = o->place[id];
    uint64_t n_upper = 0;
    bool both;
    while (next_neighbour(&n, &end, &both))
        n_upper += o->place[end] < place;
    o->up_begin[id + 1] = n_upper;
}
PGAS_VERTEX_MAP(count, pgasi_oriented_t)

/* Merges the runs a[0 .. m) and a[m .. n) into b. */
static void merge(const uint32_t *a, uint64_t m, uint64_t n, uint32_t *b)
{
    uint64_t i = 0, j = m;
    for (uint64_t k = 0; k < n; k++)
        b[k] = j == n || (i < m && a[i] < a[j]) ? a[i++] : a[j++];
}

static uint64_t run_end(const uint32_t *a, uint64_t begin, uint64_t n)
{
    uint64_t end = begin + 1;
    while (end < n && a[end - 1] < a[end])
        end++;
    return PGASI_MIN(end, n);
}

/* Sorts a[0 .. n) into b by merging rising runs: neighbours in the order of ids consist of few. */
static void sort_runs(uint32_t *a, uint32_t *b, uint64_t n)
{
    uint32_t *from = a, *to = b;
    while (run_end(from, 0, n) < n) {
        for (uint64_t begin = 0; begin < n;) {
            uint64_t middle = run_end(from, begin, n);
            uint64_t end = middle < n ? run_end(from, middle, n) : n;
            merge(from + begin, middle - begin, end - begin, to + begin);
            begin = end;
        }
        uint32_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from == a && n > 0)
        memcpy(b, a, n * sizeof *a);
}

typedef uint64_t __attribute__((may_alias)) word_t; /* it takes the memory of places */

/* Packs n sorted places into words. The places are in the upper half of the words' room. There are
 * no more words than places, so the loop reads a place before a word replaces it. */
static uint64_t pack(const uint32_t *places, uint64_t n, word_t *words)
{
    uint64_t n_words = 0, word = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t block = places[i] >> PGASI_BLOCK_BITS;
        if (i > 0 && block != word >> 32)
            words[n_words++] = word;
        if (i == 0 || block != word >> 32)
            word = block << 32;
        word |= UINT64_C(1) << (places[i] & 31);
    }
    if (n > 0)
        words[n_words++] = word;
    return n_words;
}

static void set_both(pgasi_oriented_t *o, uint32_t id, uint64_t n_words)
{
    const uint64_t *words = o->up + o->up_begin[id];
    uint32_t *bits = o->up_both + o->up_begin[id], end, place = o->place[id];
    neighbours_t n = neighbours_of(&o->run->info, id);
    bool both;
    memset(bits, 0, n_words * sizeof *bits);
    while (next_neighbour(&n, &end, &both)) {
        uint32_t upper = o->place[end];
        uint64_t low = 0, high = n_words;
        if (!both || upper > place)
            continue;
        while (high - low > 1) {
            uint64_t middle = (low + high) / 2;
            if (words[middle] >> 32 <= upper >> PGASI_BLOCK_BITS)
                low = middle;
            else
                high = middle;
        }
        bits[low] |= UINT32_C(1) << (upper & 31);
    }
}

/* A row has room for a word for each upper neighbour. Its lower half gets the places, its upper
 * half the sorted places. Words replace both, beginning at the first byte of the row. */
static inline void fill_vertex(pgasi_oriented_t *o, uint32_t id)
{
    uint64_t n_upper = o->up_begin[id + 1] - o->up_begin[id], n = 0;
    word_t *words = o->up + o->up_begin[id];
    neighbours_t neighbours = neighbours_of(&o->run->info, id);
    uint32_t *places = (uint32_t *)(void *)words, end, place = o->place[id];
    bool both;
    while (n < n_upper && next_neighbour(&neighbours, &end, &both)) {
        places[n] = o->place[end]; /* stays if it is upper */
        n += places[n] < place;
    }
    sort_runs(places, places + n, n);
    uint64_t n_words = pack(places + n, n, words);
    if (o->up_both)
        set_both(o, id, n_words);
    if (n_words < n)
        words[n_words] = UINT64_MAX; /* no word: compact_rows finds the end of the row */
}
PGAS_VERTEX_MAP(fill, pgasi_oriented_t)

/* Moves the rows together. */
static void compact_rows(pgasi_oriented_t *o)
{
    uint64_t n = 0, begin = 0;
    for (uint32_t id = 0; id < o->run->info.n_local; id++) {
        uint64_t end = o->up_begin[id + 1], e = begin;
        o->up_begin[id] = n;
        for (; e < end && o->up[e] != UINT64_MAX; e++, n++) {
            o->up[n] = o->up[e];
            if (o->up_both)
                o->up_both[n] = o->up_both[e];
        }
        begin = end;
    }
    o->up_begin[o->run->info.n_local] = n;
}

static pgas_status_t make_up(pgasi_oriented_t *o, bool needs_both, uint64_t *n_upper_p)
{
    pgas_graph_t *graph = o->run->graph;
    uint32_t n_local = graph->n_local;
    count_vertex_map(o->run, o);
    o->up_begin[0] = 0;
    for (uint32_t id = 0; id < n_local; id++)
        o->up_begin[id + 1] += o->up_begin[id];
    uint64_t n = *n_upper_p = o->up_begin[n_local];
    o->up = pgasi_graph_scratch(graph, SLOT_UP, n, sizeof *o->up);
    if (needs_both)
        o->up_both = pgasi_graph_scratch(graph, SLOT_UP_BOTH, n, sizeof *o->up_both);
    if (!o->up || (needs_both && !o->up_both))
        return PGAS_ERR_NO_MEMORY;
    fill_vertex_map(o->run, o);
    compact_rows(o);
    return PGAS_OK;
}

/* ---- downward edges ---- */

/* Adds 1 to the element of each downward edge of an own vertex. With `down`, it also stores the
 * edge at the former value. */
static inline void add_edges(pgasi_oriented_t *o, uint32_t id, uint64_t *next, uint32_t *down)
{
    bool is_shared = o->run->opts.n_threads > 1;
    for (uint64_t e = o->up_begin[id]; e < o->up_begin[id + 1]; e++) {
        uint32_t both = o->up_both ? o->up_both[e] : 0;
        uint64_t first = o->up[e] >> 32 << PGASI_BLOCK_BITS;
        for (uint32_t bits = (uint32_t)o->up[e]; bits != 0; bits &= bits - 1) {
            int bit = __builtin_ctz(bits);
            uint64_t row = (first + (uint64_t)bit) * (uint64_t)o->n_kinds + (both >> bit & 1);
            uint64_t at =
                is_shared ? __atomic_fetch_add(&next[row], 1, __ATOMIC_RELAXED) : next[row]++;
            if (down)
                down[at] = id;
        }
    }
}

static inline void tally_vertex(pgasi_oriented_t *o, uint32_t id)
{
    add_edges(o, id, o->down_begin + 1, NULL);
}
PGAS_VERTEX_MAP(tally, pgasi_oriented_t)

static inline void lower_vertex(pgasi_oriented_t *o, uint32_t id)
{
    add_edges(o, id, o->down_begin + 1, o->down);
}
PGAS_VERTEX_MAP(lower, pgasi_oriented_t)

static pgas_status_t make_down(pgasi_oriented_t *o, uint64_t n_upper)
{
    pgas_graph_t *graph = o->run->graph;
    uint64_t n_rows = (uint64_t)o->n_ids * (uint64_t)o->n_kinds, begin = 0;
    o->down_begin = pgasi_graph_scratch(graph, SLOT_DOWN_BEGIN, n_rows + 1, sizeof *o->down_begin);
    o->down = pgasi_graph_scratch(graph, SLOT_DOWN, n_upper, sizeof *o->down);
    if (!o->down_begin || !o->down)
        return PGAS_ERR_NO_MEMORY;
    memset(o->down_begin, 0, (n_rows + 1) * sizeof *o->down_begin);
    tally_vertex_map(o->run, o);
    for (uint64_t row = 0; row < n_rows; row++) { /* begin[row + 1] counts up to its own end */
        uint64_t n = o->down_begin[row + 1];
        o->down_begin[row + 1] = begin;
        begin += n;
    }
    lower_vertex_map(o->run, o);
    return PGAS_OK;
}

/* ---- the whole ---- */

pgas_status_t pgasi_oriented_make(pgasi_oriented_t *o, pgas_graph_run_t *run, bool needs_both)
{
    pgas_graph_t *graph = run->graph;
    uint64_t n_ids = (uint64_t)graph->n_local + graph->n_ghosts, n_upper = 0;
    needs_both = needs_both && graph->directed;
    *o = (pgasi_oriented_t){
        .run = run,
        .n_ids = (uint32_t)n_ids,
        .n_kinds = needs_both ? 2 : 1,
        .degree = pgasi_graph_scratch(graph, SLOT_DEGREE, n_ids, sizeof *o->degree),
        .place = pgasi_graph_scratch(graph, SLOT_PLACE, n_ids, sizeof *o->place),
        .id_at = pgasi_graph_scratch(graph, SLOT_ID_AT, n_ids, sizeof *o->id_at),
        .up_begin = pgasi_graph_scratch(graph, SLOT_UP_BEGIN, (uint64_t)graph->n_local + 1,
                                        sizeof *o->up_begin),
    };
    bool have = o->degree && o->place && o->id_at && o->up_begin;
    pgas_status_t status = pgasi_graph_agree(have ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status != PGAS_OK)
        return status;
    degree_vertex_map(run, o);
    status = pgas_ghosts_fetch(run, o->degree, sizeof *o->degree);
    if (status != PGAS_OK)
        return status;
    status = make_places(o);
    if (status == PGAS_OK)
        status = make_up(o, needs_both, &n_upper);
    if (status == PGAS_OK)
        status = make_down(o, n_upper);
    return pgasi_graph_agree(status, NULL);
}
