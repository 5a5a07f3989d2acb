/* Ids of vertices.
 *
 * The ghosts of a rank are found by a bitmap with counted words. Their numbers travel to the
 * owners, which answer with their own ids. Ghosts are ordered by these, so that the values of the
 * vertices of highest degree, which are read most often, are close together, and so that an owner
 * collects values in rising order. */
#include "graph/ids.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "graph/sort.h"
#include "pgas/coll.h"

/* ---- a set of vertex numbers, each with its index in rising order ---- */

#define PAGE_BITS  16
#define PAGE_WORDS (1u << (PAGE_BITS - 6))

typedef struct {
    uint64_t bits[PAGE_WORDS];
    uint32_t before[PAGE_WORDS]; /* the members below each word */
} page_t;

typedef struct {
    page_t **page; /* [n_pages]; NULL: no member */
    uint64_t n_pages;
    uint32_t n_members;
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
            page->before[w] = set->n_members;
            set->n_members += (uint32_t)__builtin_popcountll(page->bits[w]);
        }
    }
}

/* The number of members below a member. */
static uint32_t set_index(const set_t *set, uint64_t number)
{
    const page_t *page = set->page[number >> PAGE_BITS];
    uint32_t w = (uint32_t)(number >> 6) & (PAGE_WORDS - 1);
    uint64_t below = page->bits[w] & ((UINT64_C(1) << (number & 63)) - 1);
    return page->before[w] + (uint32_t)__builtin_popcountll(below);
}

/* Lists the members in rising order. */
static void set_list(const set_t *set, uint64_t *numbers)
{
    uint64_t n = 0;
    for (uint64_t p = 0; p < set->n_pages; p++) {
        for (uint32_t w = 0; set->page[p] && w < PAGE_WORDS; w++)
            for (uint64_t bits = set->page[p]->bits[w]; bits != 0; bits &= bits - 1)
                numbers[n++] = p << PAGE_BITS | w << 6 | (uint64_t)__builtin_ctzll(bits);
    }
}

/* ---- own vertices ---- */

pgas_status_t pgasi_ids_order(pgas_graph_t *graph, const uint32_t *degree)
{
    uint32_t n = graph->n_local;
    uint32_t greatest = 0;
    pgasi_keyed_t *keyed = pgasi_graph_array(2 * (uint64_t)n, sizeof *keyed);
    graph->vertex = pgasi_graph_array(n, sizeof *graph->vertex);
    graph->id_of = pgasi_graph_array(n, sizeof *graph->id_of);
    if (!keyed || !graph->vertex || !graph->id_of) {
        free(keyed);
        return PGAS_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++)
        greatest = PGASI_MAX(greatest, degree[i]);
    for (uint32_t i = 0; i < n; i++)
        keyed[i] = (pgasi_keyed_t){ greatest - degree[i], i };
    const pgasi_keyed_t *sorted = pgasi_sort_keyed(keyed, keyed + n, n, (uint64_t)greatest + 1);
    for (uint32_t id = 0; id < n; id++) {
        graph->vertex[id] = graph->first + sorted[id].index;
        graph->id_of[sorted[id].index] = id;
    }
    free(keyed);
    return PGAS_OK;
}

/* ---- ghosts ---- */

typedef struct {
    pgas_graph_t *graph;
    uint32_t *numbers; /* to translate */
    uint64_t n;
    set_t set;       /* of the ghosts' numbers */
    uint8_t *marks;  /* [n_vertices] instead: 1 for a ghost */
    uint32_t *table; /* [n_vertices] with marks: the ids of own vertices and ghosts */
    uint32_t n_ghosts;
    uint64_t *ghost;  /* [n_members] their numbers, rising */
    uint32_t *wanted; /* [n_members] the same, less first_of of the owner; then the owner's ids */
    uint32_t *id;     /* [n_members] the id of ghost i */
    uint32_t *mirror; /* [n_mirrors] what others want: numbers, then ids */
    uint64_t *ghost_begin, *mirror_begin; /* [n_ranks + 1] */
    size_t *ghost_bytes, *mirror_bytes;   /* [n_ranks] */
} renaming_t;

/* Marks and a table take less memory than the numbers, and no branches. */
static bool is_dense(const renaming_t *r)
{
    return r->graph->n_vertices <= r->n / 2 && r->graph->n_ranks > 1;
}

static pgas_status_t mark_bytes(renaming_t *r)
{
    const pgas_graph_t *graph = r->graph;
    uint8_t *marks = pgasi_graph_zeroed(graph->n_vertices, sizeof *marks);
    r->marks = marks;
    r->table = pgasi_graph_array(graph->n_vertices, sizeof *r->table);
    if (!marks || !r->table)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t g = 0; g < graph->n_ghosts; g++)
        marks[graph->vertex[graph->n_local + g]] = 1;
    for (uint64_t i = 0; i < r->n; i++)
        marks[r->numbers[i]] = 1;
    memset(marks + graph->first, 0, graph->n_local);
    for (uint64_t v = 0; v < graph->n_vertices; v++)
        r->n_ghosts += marks[v];
    return PGAS_OK;
}

static pgas_status_t mark_in_set(renaming_t *r)
{
    const pgas_graph_t *graph = r->graph;
    pgas_status_t status = set_init(&r->set, graph->n_vertices);
    for (uint32_t g = 0; status == PGAS_OK && g < graph->n_ghosts; g++)
        status = set_add(&r->set, graph->vertex[graph->n_local + g]);
    for (uint64_t i = 0; status == PGAS_OK && i < r->n; i++)
        if (!pgasi_graph_is_own(graph, r->numbers[i]))
            status = set_add(&r->set, r->numbers[i]);
    if (status == PGAS_OK)
        set_count(&r->set);
    r->n_ghosts = r->set.n_members;
    return status;
}

/* ghost[] has room for one more, which is stored without a branch. */
static void list_ghosts(renaming_t *r)
{
    uint32_t n = 0;
    if (!r->marks)
        set_list(&r->set, r->ghost);
    for (uint64_t v = 0; r->marks && v < r->graph->n_vertices; v++) {
        r->ghost[n] = v;
        n += r->marks[v];
    }
}

static pgas_status_t find_ghosts(renaming_t *r)
{
    const pgas_graph_t *graph = r->graph;
    size_t n_ranks = (size_t)graph->n_ranks;
    pgas_status_t status = is_dense(r) ? mark_bytes(r) : mark_in_set(r);
    if (status != PGAS_OK)
        return status;
    r->ghost = pgasi_graph_array((uint64_t)r->n_ghosts + 1, sizeof *r->ghost);
    r->wanted = pgasi_graph_array(r->n_ghosts, sizeof *r->wanted);
    r->id = pgasi_graph_array(r->n_ghosts, sizeof *r->id);
    r->ghost_begin = pgasi_graph_zeroed(n_ranks + 1, sizeof *r->ghost_begin);
    r->mirror_begin = pgasi_graph_zeroed(n_ranks + 1, sizeof *r->mirror_begin);
    r->ghost_bytes = pgasi_graph_zeroed(n_ranks, sizeof *r->ghost_bytes);
    r->mirror_bytes = pgasi_graph_zeroed(n_ranks, sizeof *r->mirror_bytes);
    if (!r->ghost || !r->wanted || !r->id || !r->ghost_begin || !r->mirror_begin ||
        !r->ghost_bytes || !r->mirror_bytes)
        return PGAS_ERR_NO_MEMORY;
    list_ghosts(r);
    for (uint32_t g = 0; g < r->n_ghosts; g++) {
        int owner = pgasi_graph_owner(graph, r->ghost[g]);
        r->wanted[g] = (uint32_t)(r->ghost[g] - graph->first_of[owner]);
        r->ghost_bytes[owner] += sizeof *r->wanted;
    }
    return PGAS_OK;
}

static uint64_t begins_of(const size_t *bytes, size_t elem_bytes, int n, uint64_t *begin)
{
    for (int i = 0; i < n; i++)
        begin[i + 1] = begin[i] + bytes[i] / elem_bytes;
    return begin[n];
}

static pgas_status_t make_mirrors(renaming_t *r)
{
    int n_ranks = r->graph->n_ranks;
    begins_of(r->ghost_bytes, sizeof *r->wanted, n_ranks, r->ghost_begin);
    uint64_t n = begins_of(r->mirror_bytes, sizeof *r->mirror, n_ranks, r->mirror_begin);
    r->mirror = pgasi_graph_array(n, sizeof *r->mirror);
    return r->mirror ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

static pgas_status_t answer(const renaming_t *r)
{
    const pgas_graph_t *graph = r->graph;
    for (uint64_t i = 0; i < r->mirror_begin[graph->n_ranks]; i++) {
        if (r->mirror[i] >= graph->n_local)
            return PGAS_ERR_INTERNAL;
        r->mirror[i] = graph->id_of[r->mirror[i]];
    }
    return PGAS_OK;
}

/* Asks the owners for their ids of the ghosts. */
static pgas_status_t ask(renaming_t *r)
{
    pgas_status_t status = pgas_alltoall(NULL, r->ghost_bytes, r->mirror_bytes, sizeof(size_t));
    if (status == PGAS_OK)
        status = pgasi_graph_agree(make_mirrors(r), NULL);
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, r->wanted, r->ghost_bytes, r->mirror, r->mirror_bytes);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(answer(r), NULL);
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, r->mirror, r->mirror_bytes, r->wanted, r->ghost_bytes);
    return status;
}

/* Orders the ghosts of each owner by its ids, and the mirrors in the same way. */
static pgas_status_t order_ghosts(renaming_t *r)
{
    pgas_graph_t *graph = r->graph;
    uint32_t n_local = graph->n_local, n = r->n_ghosts;
    uint64_t most = 0;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        most = PGASI_MAX(most, r->ghost_begin[rank + 1] - r->ghost_begin[rank]);
        most = PGASI_MAX(most, r->mirror_begin[rank + 1] - r->mirror_begin[rank]);
    }
    void *vertex = realloc(graph->vertex, ((uint64_t)n_local + n) * sizeof *graph->vertex + 1);
    graph->vertex = vertex ? vertex : graph->vertex;
    pgasi_keyed_t *keyed = pgasi_graph_array(2 * most, sizeof *keyed);
    if (!keyed || !vertex) {
        free(keyed);
        return PGAS_ERR_NO_MEMORY;
    }
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        uint32_t begin = (uint32_t)r->ghost_begin[rank];
        uint32_t n_here = (uint32_t)r->ghost_begin[rank + 1] - begin;
        for (uint32_t i = 0; i < n_here; i++)
            keyed[i] = (pgasi_keyed_t){ r->wanted[begin + i], begin + i };
        const pgasi_keyed_t *sorted =
            pgasi_sort_keyed(keyed, keyed + n_here, n_here, UINT64_C(1) << 32);
        for (uint32_t i = 0; i < n_here; i++) {
            r->id[sorted[i].index] = n_local + begin + i;
            graph->vertex[n_local + begin + i] = r->ghost[sorted[i].index];
        }
        uint64_t at = r->mirror_begin[rank];
        pgasi_sort_u32(r->mirror + at, (uint32_t *)keyed, r->mirror_begin[rank + 1] - at,
                       (uint64_t)n_local + 1);
    }
    free(keyed);
    return PGAS_OK;
}

/* ---- translation ---- */

static uint32_t id_of(const renaming_t *r, uint64_t number)
{
    const pgas_graph_t *graph = r->graph;
    if (r->table)
        return r->table[number];
    return pgasi_graph_is_own(graph, number) ? graph->id_of[number - graph->first]
                                             : r->id[set_index(&r->set, number)];
}

static void fill_table(renaming_t *r)
{
    const pgas_graph_t *graph = r->graph;
    memcpy(r->table + graph->first, graph->id_of, graph->n_local * sizeof *r->table);
    for (uint32_t g = 0; g < r->n_ghosts; g++)
        r->table[r->ghost[g]] = r->id[g];
}

/* The ids of known ghosts change. They keep their order, so rows stay sorted. */
static void move_ghosts(const renaming_t *r, const uint32_t *new_id, pgasi_rows_t *rows)
{
    uint32_t n_local = r->graph->n_local;
    for (uint64_t e = 0; rows->begin && e < rows->begin[n_local]; e++)
        if (rows->end[e] >= n_local)
            rows->end[e] = new_id[rows->end[e] - n_local];
}

static pgas_status_t move_known(renaming_t *r, const uint64_t *known)
{
    pgas_graph_t *graph = r->graph;
    uint32_t *new_id = pgasi_graph_array(graph->n_ghosts, sizeof *new_id);
    if (!new_id)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t g = 0; g < graph->n_ghosts; g++)
        new_id[g] = id_of(r, known[g]);
    move_ghosts(r, new_id, &graph->out);
    move_ghosts(r, new_id, &graph->in);
    free(new_id);
    return PGAS_OK;
}

static void translate(const renaming_t *r)
{
    const uint32_t *table = r->table;
    if (table)
        for (uint64_t i = 0; i < r->n; i++)
            r->numbers[i] = table[r->numbers[i]];
    else
        for (uint64_t i = 0; i < r->n; i++)
            r->numbers[i] = id_of(r, r->numbers[i]);
}

/* Carries out the local steps. */
static pgas_status_t rename_all(renaming_t *r)
{
    pgas_graph_t *graph = r->graph;
    uint64_t *known = pgasi_graph_array(graph->n_ghosts, sizeof *known);
    if (!known)
        return PGAS_ERR_NO_MEMORY;
    if (graph->n_ghosts > 0)
        memcpy(known, graph->vertex + graph->n_local, graph->n_ghosts * sizeof *known);
    pgas_status_t status = order_ghosts(r);
    if (status == PGAS_OK && r->table)
        fill_table(r);
    if (status == PGAS_OK && graph->n_ghosts > 0)
        status = move_known(r, known);
    free(known);
    if (status != PGAS_OK)
        return status;
    translate(r);
    graph->n_ghosts = r->n_ghosts;
    free(graph->mirror);
    free(graph->ghost_begin);
    free(graph->mirror_begin);
    graph->mirror = r->mirror;
    graph->ghost_begin = r->ghost_begin;
    graph->mirror_begin = r->mirror_begin;
    r->mirror = NULL;
    r->ghost_begin = r->mirror_begin = NULL;
    return PGAS_OK;
}

static void renaming_fini(renaming_t *r)
{
    set_fini(&r->set);
    free(r->marks);
    free(r->table);
    free(r->ghost);
    free(r->wanted);
    free(r->id);
    free(r->mirror);
    free(r->ghost_begin);
    free(r->mirror_begin);
    free(r->ghost_bytes);
    free(r->mirror_bytes);
}

pgas_status_t pgasi_ids_translate(pgas_graph_t *graph, uint32_t *numbers, uint64_t n)
{
    renaming_t r = { .graph = graph, .numbers = numbers, .n = n };
    pgas_status_t status = pgasi_graph_agree(find_ghosts(&r), NULL);
    if (status == PGAS_OK)
        status = ask(&r);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(rename_all(&r), NULL);
    renaming_fini(&r);
    return status;
}
