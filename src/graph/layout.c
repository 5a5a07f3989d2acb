/* The layout of a graph for algorithms.
 *
 * The rank's out-edges travel to the owners of their targets (rows.h). An owner finds the distinct
 * sources in other ranks, its ghosts, by a bitmap with counted words. It orders them and sends each
 * of the other ranks the list of the vertices whose values it needs. Then it translates all sources
 * into ids. At the peak a rank holds 16 bytes for each edge that leads to its vertices. */
#include "graph/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "graph/graph.h"
#include "graph/rows.h"
#include "graph/sort.h"
#include "pgas/coll.h"

#define CHUNK 16384 /* edges and vertices of a chunk */

/* ---- a set of vertex numbers, which are counted off in rising order ---- */

#define PAGE_BITS  16
#define PAGE_WORDS (1u << (PAGE_BITS - 6))

typedef struct {
    uint64_t bits[PAGE_WORDS];
    uint32_t before[PAGE_WORDS]; /* the members below each word */
} page_t;

typedef struct {
    page_t **page; /* [n_pages]; NULL: no member */
    uint64_t n_pages, n_members;
} set_t;

static pgas_status_t set_init(set_t *set, uint64_t n_vertices)
{
    *set = (set_t){ .n_pages = (n_vertices >> PAGE_BITS) + 1 };
    set->page = pgasi_graph_zeroed(set->n_pages, sizeof *set->page);
    return set->page ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static void set_fini(set_t *set)
{
    for (uint64_t p = 0; set->page && p < set->n_pages; p++)
        free(set->page[p]);
    free(set->page);
}

static pgas_status_t set_add(set_t *set, uint64_t number)
{
    page_t **page = &set->page[number >> PAGE_BITS];
    if (PGAS_UNLIKELY(!*page)) {
        *page = pgasi_graph_zeroed(1, sizeof **page);
        if (!*page)
            return PGAS_ERR_NO_MEMORY;
    }
    (*page)->bits[number >> 6 & (PAGE_WORDS - 1)] |= UINT64_C(1) << (number & 63);
    return PGAS_OK;
}

static void set_count(set_t *set)
{
    for (uint64_t p = 0; p < set->n_pages; p++) {
        page_t *page = set->page[p];
        for (uint32_t w = 0; page && w < PAGE_WORDS; w++) {
            page->before[w] = (uint32_t)set->n_members;
            set->n_members += (uint64_t)__builtin_popcountll(page->bits[w]);
        }
    }
}

/* The number of members below a member. */
static uint32_t set_index(const set_t *set, uint64_t number)
{
    const page_t *page = set->page[number >> PAGE_BITS];
    uint32_t w = number >> 6 & (PAGE_WORDS - 1);
    uint64_t below = page->bits[w] & ((UINT64_C(1) << (number & 63)) - 1);
    return page->before[w] + (uint32_t)__builtin_popcountll(below);
}

/* Stores all members in rising order. */
static void set_list(const set_t *set, uint64_t *numbers)
{
    uint64_t n = 0;
    for (uint64_t p = 0; p < set->n_pages; p++) {
        const page_t *page = set->page[p];
        for (uint32_t w = 0; page && w < PAGE_WORDS; w++)
            for (uint64_t bits = page->bits[w]; bits; bits &= bits - 1)
                numbers[n++] = (p << PAGE_BITS) + w * 64u + (uint64_t)__builtin_ctzll(bits);
    }
}

/* ---- what is needed while a layout is made ---- */

typedef struct {
    const pgas_graph_t *graph;
    pgasi_layout_t *layout;
    pgasi_rows_t rows; /* edges to own vertices */
    set_t ghosts;
    uint32_t *id_of;         /* [n_local] the id of own vertex first + v */
    uint32_t *ghost_id;      /* [n_ghosts] the id of a ghost by its index in the set */
    uint32_t *wanted;        /* [n_ghosts] in the order of ids: their numbers at their owners */
    size_t *wanted_bytes;    /* [n_ranks] of the lists for each rank */
    size_t *requested_bytes; /* [n_ranks] of the lists of each rank for this one */
    pgasi_keyed_t *keyed, *scratch; /* [n_local + n_ghosts] for sorting */
} making_t;

static void making_fini(making_t *m)
{
    pgasi_rows_fini(&m->rows);
    set_fini(&m->ghosts);
    free(m->id_of);
    free(m->ghost_id);
    free(m->wanted);
    free(m->wanted_bytes);
    free(m->requested_bytes);
    free(m->keyed);
    free(m->scratch);
}

/* The edges of this rank, from their targets to their sources. */
static pgas_status_t visit_reversed(const void *list, pgasi_edge_fn_t take, void *arg)
{
    const pgas_graph_t *graph = list;
    pgas_status_t status = PGAS_OK;
    for (uint64_t v = 0; status == PGAS_OK && v < graph->n_local; v++)
        for (uint64_t e = graph->offsets[v]; status == PGAS_OK && e < graph->offsets[v + 1]; e++)
            status = take(arg, graph->targets[e], graph->first + v);
    return status;
}

static bool is_own(const pgas_graph_t *graph, uint64_t number)
{
    return number - graph->first < graph->n_local;
}

/* ---- ids ---- */

static pgas_status_t find_ghosts(making_t *m)
{
    const pgasi_rows_t *rows = &m->rows;
    pgas_status_t status = set_init(&m->ghosts, m->graph->n_vertices);
    for (uint64_t i = 0; status == PGAS_OK && i < rows->n_edges; i++)
        if (!is_own(m->graph, rows->end[i]))
            status = set_add(&m->ghosts, rows->end[i]);
    if (status != PGAS_OK)
        return status;
    set_count(&m->ghosts);
    if (m->graph->n_local + m->ghosts.n_members >= UINT32_MAX) {
        pgasi_graph_note("a rank would know %" PRIu64 " vertices, at most %" PRIu32
                         " are possible: use more ranks",
                         m->graph->n_local + m->ghosts.n_members, UINT32_MAX - 1);
        return PGAS_ERR_LIMIT;
    }
    m->layout->n_local = (uint32_t)m->graph->n_local;
    m->layout->n_ghosts = (uint32_t)m->ghosts.n_members;
    return PGAS_OK;
}

static pgas_status_t allocate_ids(making_t *m)
{
    pgasi_layout_t *l = m->layout;
    uint64_t n = (uint64_t)l->n_local + l->n_ghosts, n_ranks = (uint64_t)m->graph->n_ranks;
    l->vertex = pgasi_graph_array(l->n_local, sizeof *l->vertex);
    l->out_degree = pgasi_graph_array(l->n_local, sizeof *l->out_degree);
    l->ghost_bytes = pgasi_graph_zeroed(n_ranks, sizeof *l->ghost_bytes);
    l->mirror_bytes = pgasi_graph_zeroed(n_ranks, sizeof *l->mirror_bytes);
    m->wanted_bytes = pgasi_graph_zeroed(n_ranks, sizeof *m->wanted_bytes);
    m->requested_bytes = pgasi_graph_zeroed(n_ranks, sizeof *m->requested_bytes);
    m->id_of = pgasi_graph_array(l->n_local, sizeof *m->id_of);
    m->ghost_id = pgasi_graph_array(l->n_ghosts, sizeof *m->ghost_id);
    m->wanted = pgasi_graph_array(l->n_ghosts, sizeof *m->wanted);
    m->keyed = pgasi_graph_zeroed(n, sizeof *m->keyed);
    m->scratch = pgasi_graph_array(n, sizeof *m->scratch);
    bool have = l->vertex && l->out_degree && l->ghost_bytes && l->mirror_bytes &&
                m->wanted_bytes && m->requested_bytes && m->id_of && m->ghost_id && m->wanted &&
                m->keyed && m->scratch;
    return have ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

/* Sorts by falling count. keyed[i].key is the count of index i. */
static const pgasi_keyed_t *sort_falling(pgasi_keyed_t *keyed, pgasi_keyed_t *scratch, uint64_t n)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < n; i++)
        most = PGASI_MAX(most, keyed[i].key);
    for (uint64_t i = 0; i < n; i++)
        keyed[i].key = most - keyed[i].key;
    return pgasi_sort_keyed(keyed, scratch, n, most + 1);
}

static void order_own(making_t *m)
{
    pgasi_layout_t *l = m->layout;
    const uint64_t *offsets = m->graph->offsets;
    for (uint32_t v = 0; v < l->n_local; v++)
        m->keyed[v] = (pgasi_keyed_t){ offsets[v + 1] - offsets[v], v };
    const pgasi_keyed_t *sorted = sort_falling(m->keyed, m->scratch, l->n_local);
    for (uint32_t id = 0; id < l->n_local; id++) {
        uint32_t v = sorted[id].index;
        l->vertex[id] = v;
        l->out_degree[id] = (uint32_t)(offsets[v + 1] - offsets[v]);
        m->id_of[v] = id;
    }
}

/* The ghosts of one owner follow each other in the set. */
static void order_ghosts(making_t *m, const uint64_t *numbers)
{
    pgasi_layout_t *l = m->layout;
    uint64_t block = m->graph->block;
    for (uint32_t g = 0; g < l->n_ghosts; g++)
        m->keyed[g] = (pgasi_keyed_t){ 0, g };
    for (uint64_t i = 0; i < m->rows.n_edges; i++)
        if (!is_own(m->graph, m->rows.end[i]))
            m->keyed[set_index(&m->ghosts, m->rows.end[i])].key++;
    for (uint32_t begin = 0, end; begin < l->n_ghosts; begin = end) {
        int owner = pgasi_graph_owner_of(numbers[begin], block);
        for (end = begin; end < l->n_ghosts && pgasi_graph_owner_of(numbers[end], block) == owner;)
            end++;
        const pgasi_keyed_t *sorted = sort_falling(m->keyed + begin, m->scratch, end - begin);
        for (uint32_t g = begin; g < end; g++) {
            uint32_t index = sorted[g - begin].index;
            m->ghost_id[index] = l->n_local + g;
            m->wanted[g] = (uint32_t)(numbers[index] - block * (uint64_t)owner);
        }
        m->wanted_bytes[owner] = (end - begin) * sizeof *m->wanted;
        l->ghost_bytes[owner] = (end - begin) * sizeof(double);
    }
}

static pgas_status_t number_all(making_t *m)
{
    pgas_status_t status = find_ghosts(m);
    if (status == PGAS_OK)
        status = allocate_ids(m);
    if (status != PGAS_OK)
        return status;
    uint64_t *numbers = pgasi_graph_array(m->layout->n_ghosts, sizeof *numbers);
    if (!numbers)
        return PGAS_ERR_NO_MEMORY;
    set_list(&m->ghosts, numbers);
    order_own(m);
    order_ghosts(m, numbers);
    free(numbers);
    return PGAS_OK;
}

/* ---- mirrors: the own vertices that are ghosts elsewhere ---- */

static pgas_status_t allocate_mirrors(making_t *m)
{
    pgasi_layout_t *l = m->layout;
    uint64_t n = (uint64_t)l->n_local + l->n_ghosts;
    for (int r = 0; r < m->graph->n_ranks; r++)
        l->n_mirrors += m->requested_bytes[r] / sizeof *l->mirror;
    l->mirror = pgasi_graph_array(l->n_mirrors, sizeof *l->mirror);
    l->send = pgasi_graph_array(l->n_mirrors, sizeof *l->send);
    l->share = pgasi_graph_array(n, sizeof *l->share);
    l->value = pgasi_graph_array(l->n_local, sizeof *l->value);
    return l->mirror && l->send && l->share && l->value ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t exchange_lists(making_t *m)
{
    pgasi_layout_t *l = m->layout;
    pgas_status_t status = pgas_alltoall(NULL, m->wanted_bytes, m->requested_bytes, sizeof(size_t));
    if (status == PGAS_OK)
        status = pgasi_graph_agree(allocate_mirrors(m), NULL);
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, m->wanted, m->wanted_bytes, l->mirror, m->requested_bytes);
    return status;
}

/* The lists have numbers of vertices, which become ids. */
static pgas_status_t make_mirrors(making_t *m)
{
    pgasi_layout_t *l = m->layout;
    for (int r = 0; r < m->graph->n_ranks; r++)
        l->mirror_bytes[r] = m->requested_bytes[r] / sizeof *l->mirror * sizeof *l->send;
    for (uint64_t i = 0; i < l->n_mirrors; i++) {
        if (l->mirror[i] >= l->n_local)
            return PGAS_ERR_INTERNAL;
        l->mirror[i] = m->id_of[l->mirror[i]];
    }
    return PGAS_OK;
}

/* ---- edges ---- */

static uint32_t id_of(const making_t *m, uint64_t number)
{
    return is_own(m->graph, number) ? m->id_of[number - m->graph->first]
                                    : m->ghost_id[set_index(&m->ghosts, number)];
}

static pgas_status_t make_edges(making_t *m)
{
    pgasi_layout_t *l = m->layout;
    pgasi_rows_t *rows = &m->rows;
    uint64_t longest = 0;
    l->begin = pgasi_graph_array((uint64_t)l->n_local + 1, sizeof *l->begin);
    l->source = pgasi_graph_array(rows->n_edges, sizeof *l->source);
    if (!l->begin || !l->source)
        return PGAS_ERR_NO_MEMORY;
    for (uint64_t i = 0; i < rows->n_edges; i++)
        rows->row[i] = m->id_of[rows->row[i]];
    pgasi_rows_places(rows, l->n_local, l->begin);
    for (uint64_t i = 0; i < rows->n_edges; i++)
        l->source[l->begin[rows->row[i] + 1]++] = id_of(m, rows->end[i]);
    for (uint32_t id = 0; id < l->n_local; id++)
        longest = PGASI_MAX(longest, l->begin[id + 1] - l->begin[id]);
    uint32_t *scratch = pgasi_graph_array(longest, sizeof *scratch);
    if (!scratch)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t id = 0; id < l->n_local; id++)
        pgasi_sort_u32(l->source + l->begin[id], scratch, l->begin[id + 1] - l->begin[id],
                       (uint64_t)l->n_local + l->n_ghosts);
    free(scratch);
    return PGAS_OK;
}

/* Chunks have about the same number of edges and vertices. */
static pgas_status_t make_chunks(pgasi_layout_t *l)
{
    uint64_t total = l->begin[l->n_local] + l->n_local, next = 0;
    l->chunk = pgasi_graph_array(total / CHUNK + 2, sizeof *l->chunk);
    l->change = pgasi_graph_array(total / CHUNK + 2, sizeof *l->change);
    l->dangling = pgasi_graph_array(total / CHUNK + 2, sizeof *l->dangling);
    if (!l->chunk || !l->change || !l->dangling)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t id = 0; id < l->n_local; id++) {
        uint64_t before = l->begin[id] + id;
        if (before < next)
            continue;
        l->chunk[l->n_chunks++] = id;
        next = (before / CHUNK + 1) * CHUNK;
    }
    l->chunk[l->n_chunks] = l->n_local;
    return PGAS_OK;
}

/* ---- the whole ---- */

static pgas_status_t finish(making_t *m)
{
    pgas_status_t status = make_mirrors(m);
    if (status == PGAS_OK)
        status = make_edges(m);
    if (status == PGAS_OK)
        status = make_chunks(m->layout);
    return status;
}

pgas_status_t pgasi_layout_make(const pgas_graph_t *graph)
{
    making_t m = { .graph = graph, .layout = graph->layout };
    if (graph->layout->is_made)
        return PGAS_OK;
    pgas_status_t status = pgasi_rows_init(&m.rows, graph, visit_reversed, graph);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(number_all(&m), NULL);
    if (status == PGAS_OK)
        status = exchange_lists(&m);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(finish(&m), NULL);
    making_fini(&m);
    if (status == PGAS_OK)
        graph->layout->is_made = true;
    else
        pgasi_layout_fini(graph->layout);
    return status;
}

void pgasi_layout_fini(pgasi_layout_t *l)
{
    free(l->vertex);
    free(l->out_degree);
    free(l->begin);
    free(l->source);
    free(l->ghost_bytes);
    free(l->mirror_bytes);
    free(l->mirror);
    free(l->send);
    free(l->share);
    free(l->value);
    free(l->chunk);
    free(l->change);
    free(l->dangling);
    *l = (pgasi_layout_t){ 0 };
}

void pgasi_layout_collect(const pgasi_layout_t *l, const double *values, uint64_t begin,
                          uint64_t end)
{
    for (uint64_t i = begin; i < end; i++)
        l->send[i] = values[l->mirror[i]];
}

pgas_status_t pgasi_layout_exchange(const pgasi_layout_t *l, double *values)
{
    return pgas_alltoallv(NULL, l->send, l->mirror_bytes, values + l->n_local, l->ghost_bytes);
}
