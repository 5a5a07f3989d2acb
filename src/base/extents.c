/* Best-fit allocation of offsets with out-of-band records: two treaps over one set of extents.
 *
 * Shaped for a symmetric heap of up to 8 TiB with ten to some 100,000 blocks. They are allocated
 * collectively, and rarely compared to their use: an operation costs about 2 log2(n) steps in each
 * tree, a record 96 bytes.
 *
 * Invariants: the extents tile [0, size) without gaps, in one list by address; two free extents
 * never touch. All extents are in tree BY_ADDRESS, whose records also have the largest free extent
 * below them. The free ones are in tree BY_SIZE too, ordered by (bytes, offset). Heap order of the
 * treaps is by priority, which comes from a counter through a mixer. So shape and results depend
 * only on the sequence of calls. Recursion depth is that of a treap: about 2.5 log2(n), some 50 for
 * 100,000 extents. */
#include "base/extents.h"

#include <stdbool.h>
#include <stdlib.h>
#include "base/checks.h"
#include "base/hash.h"
#include "base/pool.h"

enum { BY_ADDRESS, BY_SIZE, N_TREES };
#define RECORDS_PER_CHUNK 64

typedef struct extent {
    uint64_t offset, bytes;
    struct extent *child[N_TREES][2];
    struct extent *before, *after; /* neighbours by address */
    uint64_t largest_free;         /* in the subtree BY_ADDRESS */
    uint32_t priority;
    bool used;
} extent_t;

struct pgasi_extents {
    extent_t *root[N_TREES];
    extent_t *first, *last;
    uint64_t size, bytes_free, n_blocks;
    uint64_t n_made; /* records so far, source of priorities */
    pgasi_pool_t records;
};

/* ---- trees ---- */

static uint64_t largest_of(const extent_t *e)
{
    return !e ? 0 : e->largest_free;
}

static void refresh(int tree, extent_t *e)
{
    if (tree == BY_ADDRESS) {
        uint64_t below = PGASI_MAX(largest_of(e->child[tree][0]), largest_of(e->child[tree][1]));
        e->largest_free = e->used ? below : PGASI_MAX(below, e->bytes);
    }
}

static bool comes_before(int tree, const extent_t *a, const extent_t *b)
{
    return tree == BY_SIZE && a->bytes != b->bytes ? a->bytes < b->bytes : a->offset < b->offset;
}

/* Cuts a tree into the part before `at' and the rest. */
static void split(int tree, extent_t *root, const extent_t *at, extent_t **low_p, extent_t **high_p)
{
    if (!root) {
        *low_p = *high_p = NULL;
    } else if (comes_before(tree, root, at)) {
        split(tree, root->child[tree][1], at, &root->child[tree][1], high_p);
        refresh(tree, root);
        *low_p = root;
    } else {
        split(tree, root->child[tree][0], at, low_p, &root->child[tree][0]);
        refresh(tree, root);
        *high_p = root;
    }
}

/* Joins two trees; all of low comes before all of high. */
static extent_t *join(int tree, extent_t *low, extent_t *high)
{
    if (!low || !high)
        return !low ? high : low;
    if (low->priority >= high->priority) {
        low->child[tree][1] = join(tree, low->child[tree][1], high);
        refresh(tree, low);
        return low;
    }
    high->child[tree][0] = join(tree, low, high->child[tree][0]);
    refresh(tree, high);
    return high;
}

static extent_t *insert_below(int tree, extent_t *root, extent_t *e)
{
    if (!root || e->priority > root->priority) {
        split(tree, root, e, &e->child[tree][0], &e->child[tree][1]);
        refresh(tree, e);
        return e;
    }
    extent_t **child = &root->child[tree][comes_before(tree, root, e)];
    *child = insert_below(tree, *child, e);
    refresh(tree, root);
    return root;
}

static extent_t *remove_below(int tree, extent_t *root, const extent_t *e)
{
    if (root == e)
        return join(tree, root->child[tree][0], root->child[tree][1]);
    extent_t **child = &root->child[tree][comes_before(tree, root, e)];
    *child = remove_below(tree, *child, e);
    refresh(tree, root);
    return root;
}

static void tree_insert(pgasi_extents_t *x, int tree, extent_t *e)
{
    x->root[tree] = insert_below(tree, x->root[tree], e);
}

static void tree_remove(pgasi_extents_t *x, int tree, extent_t *e)
{
    x->root[tree] = remove_below(tree, x->root[tree], e);
}

/* Updates largest_free from e to the root, after e has changed in place. */
static void refresh_path(extent_t *root, const extent_t *e)
{
    if (root != e)
        refresh_path(root->child[BY_ADDRESS][root->offset < e->offset], e);
    refresh(BY_ADDRESS, root);
}

/* Finds the extent that covers an offset below size. */
static extent_t *covering(const pgasi_extents_t *x, uint64_t offset)
{
    extent_t *e = x->root[BY_ADDRESS];
    while (offset < e->offset || offset - e->offset >= e->bytes)
        e = e->child[BY_ADDRESS][offset > e->offset];
    return e;
}

/* ---- records ---- */

static extent_t *record_create(pgasi_extents_t *x, uint64_t offset, uint64_t bytes, bool used)
{
    extent_t *e = (extent_t *)pgasi_pool_acquire(&x->records);
    if (e) {
        *e = (extent_t){ .offset = offset, .bytes = bytes, .used = used };
        e->priority = (uint32_t)pgasi_hash_u64(++x->n_made);
    }
    return e;
}

static void link_after(pgasi_extents_t *x, extent_t *place, extent_t *e)
{
    e->before = place;
    e->after = place->after;
    *(e->after ? &e->after->before : &x->last) = e;
    place->after = e;
}

/* Removes e from the list, the address tree and memory. A neighbour has its bytes by now. */
static void record_destroy(pgasi_extents_t *x, extent_t *e)
{
    tree_remove(x, BY_ADDRESS, e);
    *(e->before ? &e->before->after : &x->first) = e->after;
    *(e->after ? &e->after->before : &x->last) = e->before;
    pgasi_pool_release(&x->records, e);
}

pgas_status_t pgasi_extents_create(uint64_t size, pgasi_extents_t **extents_p)
{
    if (size == 0)
        return PGAS_ERR_INVALID;
    pgasi_extents_t *x = (pgasi_extents_t *)calloc(1, sizeof *x);
    if (!x)
        return PGAS_ERR_NO_MEMORY;
    extent_t *all = NULL;
    if (pgasi_pool_init(&x->records, sizeof(extent_t), 0, RECORDS_PER_CHUNK, 0) != PGAS_OK ||
        !(all = record_create(x, 0, size, false))) {
        free(x);
        return PGAS_ERR_NO_MEMORY;
    }
    x->size = x->bytes_free = size;
    x->first = x->last = all;
    tree_insert(x, BY_ADDRESS, all);
    tree_insert(x, BY_SIZE, all);
    *extents_p = x;
    return PGAS_OK;
}

void pgasi_extents_destroy(pgasi_extents_t *x)
{
    if (x) {
        pgasi_pool_fini(&x->records);
        free(x);
    }
}

/* ---- allocation ---- */

/* Turns [offset, offset + bytes), which is inside of the free extent e, into a block. e keeps the
 * part below it, or becomes the block itself. The part above gets a record of its own. */
static pgas_status_t carve(pgasi_extents_t *x, extent_t *e, uint64_t offset, uint64_t bytes)
{
    uint64_t below = offset - e->offset;
    uint64_t above = e->bytes - below - bytes;
    extent_t *block = e, *rest = NULL;
    if (below > 0 && !(block = record_create(x, offset, bytes, true)))
        return PGAS_ERR_NO_MEMORY;
    if (above > 0 && !(rest = record_create(x, offset + bytes, above, false)))
        goto err_block;
    tree_remove(x, BY_SIZE, e);
    e->bytes = below > 0 ? below : bytes;
    e->used = below == 0;
    refresh_path(x->root[BY_ADDRESS], e);
    if (below > 0) {
        tree_insert(x, BY_SIZE, e);
        link_after(x, e, block);
        tree_insert(x, BY_ADDRESS, block);
    }
    if (above > 0) {
        link_after(x, block, rest);
        tree_insert(x, BY_ADDRESS, rest);
        tree_insert(x, BY_SIZE, rest);
    }
    x->bytes_free -= bytes;
    x->n_blocks++;
    return PGAS_OK;

err_block:
    if (block != e)
        pgasi_pool_release(&x->records, block);
    return PGAS_ERR_NO_MEMORY;
}

/* Finds the lowest place in e. @return false: there is none */
static bool place_low(const extent_t *e, uint64_t bytes, uint64_t alignment, uint64_t *offset_p)
{
    uint64_t shift = (0 - e->offset) & (alignment - 1);
    if (e->used || shift > e->bytes || e->bytes - shift < bytes)
        return false;
    *offset_p = e->offset + shift;
    return true;
}

/* Finds the highest place in e. @return false: there is none */
static bool place_high(const extent_t *e, uint64_t bytes, uint64_t alignment, uint64_t *offset_p)
{
    if (e->used || e->bytes < bytes)
        return false;
    uint64_t offset = PGASI_ALIGN_DOWN(e->offset + (e->bytes - bytes), alignment);
    if (offset < e->offset)
        return false;
    *offset_p = offset;
    return true;
}

/* Finds the first extent that holds the request, in order of (bytes, offset). */
static extent_t *best_fit(extent_t *root, uint64_t bytes, uint64_t alignment, uint64_t *offset_p)
{
    if (!root)
        return NULL;
    if (root->bytes < bytes)
        return best_fit(root->child[BY_SIZE][1], bytes, alignment, offset_p);
    extent_t *smaller = best_fit(root->child[BY_SIZE][0], bytes, alignment, offset_p);
    if (smaller)
        return smaller;
    return place_low(root, bytes, alignment, offset_p)
               ? root
               : best_fit(root->child[BY_SIZE][1], bytes, alignment, offset_p);
}

/* Finds the first extent that holds the request, in descending order of addresses. */
static extent_t *highest_fit(extent_t *root, uint64_t bytes, uint64_t alignment, uint64_t *offset_p)
{
    if (!root || root->largest_free < bytes)
        return NULL;
    extent_t *higher = highest_fit(root->child[BY_ADDRESS][1], bytes, alignment, offset_p);
    if (higher)
        return higher;
    return place_high(root, bytes, alignment, offset_p)
               ? root
               : highest_fit(root->child[BY_ADDRESS][0], bytes, alignment, offset_p);
}

/* Finds the lowest place in e at or above `from`. @return false: there is none */
static bool place_from(const extent_t *e, uint64_t from, uint64_t bytes, uint64_t alignment,
                       uint64_t *offset_p)
{
    uint64_t start = PGASI_MAX(e->offset, from), behind = e->offset + e->bytes;
    uint64_t shift = (0 - start) & (alignment - 1);
    if (e->used || start >= behind || shift > behind - start || behind - start - shift < bytes)
        return false;
    *offset_p = start + shift;
    return true;
}

/* Finds the first extent that holds the request at or above `from`, in ascending order of
 * addresses. */
static extent_t *lowest_fit(extent_t *root, uint64_t from, uint64_t bytes, uint64_t alignment,
                            uint64_t *offset_p)
{
    if (!root || root->largest_free < bytes)
        return NULL;
    if (root->offset > from) {
        extent_t *lower = lowest_fit(root->child[BY_ADDRESS][0], from, bytes, alignment, offset_p);
        if (lower)
            return lower;
    }
    return place_from(root, from, bytes, alignment, offset_p)
               ? root
               : lowest_fit(root->child[BY_ADDRESS][1], from, bytes, alignment, offset_p);
}

typedef extent_t *(*fit_fn_t)(extent_t *root, uint64_t bytes, uint64_t alignment,
                              uint64_t *offset_p);

static pgas_status_t alloc_by(pgasi_extents_t *x, int tree, fit_fn_t fit, uint64_t bytes,
                              uint64_t alignment, uint64_t *offset_p)
{
    uint64_t offset;
    if (bytes == 0 || !PGASI_IS_POW2(alignment))
        return PGAS_ERR_INVALID;
    extent_t *e = fit(x->root[tree], bytes, alignment, &offset);
    if (!e || carve(x, e, offset, bytes) != PGAS_OK)
        return PGAS_ERR_NO_MEMORY;
    *offset_p = offset;
    return PGAS_OK;
}

pgas_status_t pgasi_extents_alloc_low(pgasi_extents_t *x, uint64_t bytes, uint64_t alignment,
                                      uint64_t *offset_p)
{
    return alloc_by(x, BY_SIZE, best_fit, bytes, alignment, offset_p);
}

pgas_status_t pgasi_extents_alloc_high(pgasi_extents_t *x, uint64_t bytes, uint64_t alignment,
                                       uint64_t *offset_p)
{
    return alloc_by(x, BY_ADDRESS, highest_fit, bytes, alignment, offset_p);
}

pgas_status_t pgasi_extents_alloc_from(pgasi_extents_t *x, uint64_t from, uint64_t bytes,
                                       uint64_t alignment, uint64_t *offset_p)
{
    uint64_t offset;
    if (bytes == 0 || !PGASI_IS_POW2(alignment))
        return PGAS_ERR_INVALID;
    extent_t *e = lowest_fit(x->root[BY_ADDRESS], from, bytes, alignment, &offset);
    if (!e || carve(x, e, offset, bytes) != PGAS_OK)
        return PGAS_ERR_NO_MEMORY;
    *offset_p = offset;
    return PGAS_OK;
}

pgas_status_t pgasi_extents_alloc_at(pgasi_extents_t *x, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0)
        return PGAS_ERR_INVALID;
    if (offset >= x->size || bytes > x->size - offset)
        return PGAS_ERR_RANGE;
    extent_t *e = covering(x, offset);
    if (e->used || e->bytes - (offset - e->offset) < bytes)
        return PGAS_ERR_EXISTS;
    return carve(x, e, offset, bytes);
}

/* ---- freeing ---- */

/* Extends e over the free extent that follows it. Both are outside of BY_SIZE. */
static void absorb_next(pgasi_extents_t *x, extent_t *e)
{
    uint64_t bytes = e->after->bytes;
    record_destroy(x, e->after);
    e->bytes += bytes;
}

pgas_status_t pgasi_extents_free(pgasi_extents_t *x, uint64_t offset)
{
    if (offset >= x->size)
        return PGAS_ERR_RANGE;
    extent_t *e = covering(x, offset);
    if (!e->used || e->offset != offset)
        return PGAS_ERR_INVALID;
    x->bytes_free += e->bytes;
    x->n_blocks--;
    e->used = false;
    if (e->after && !e->after->used) {
        tree_remove(x, BY_SIZE, e->after);
        absorb_next(x, e);
    }
    if (e->before && !e->before->used) {
        e = e->before;
        tree_remove(x, BY_SIZE, e);
        absorb_next(x, e);
    }
    refresh_path(x->root[BY_ADDRESS], e);
    tree_insert(x, BY_SIZE, e);
    return PGAS_OK;
}

/* ---- questions ---- */

pgas_status_t pgasi_extents_size_of(const pgasi_extents_t *x, uint64_t offset, uint64_t *bytes_p)
{
    if (offset >= x->size)
        return PGAS_ERR_RANGE;
    const extent_t *e = covering(x, offset);
    if (!e->used || e->offset != offset)
        return PGAS_ERR_INVALID;
    *bytes_p = e->bytes;
    return PGAS_OK;
}

pgasi_extent_state_t pgasi_extents_state(const pgasi_extents_t *x, uint64_t offset,
                                         uint64_t *start_p, uint64_t *bytes_p)
{
    if (offset >= x->size)
        return PGASI_EXTENT_OUTSIDE;
    const extent_t *e = covering(x, offset);
    if (start_p)
        *start_p = e->offset;
    if (bytes_p)
        *bytes_p = e->bytes;
    if (!e->used)
        return PGASI_EXTENT_FREE;
    return e->offset == offset ? PGASI_EXTENT_BLOCK : PGASI_EXTENT_INSIDE;
}

uint64_t pgasi_extents_highest_used(const pgasi_extents_t *x)
{
    /* Free extents never touch, so the extent before is a block. */
    return x->last->used ? x->size : x->last->offset;
}

uint64_t pgasi_extents_lowest_used(const pgasi_extents_t *x)
{
    return x->first->used ? 0 : x->first->bytes;
}

uint64_t pgasi_extents_bytes_free(const pgasi_extents_t *x)
{
    return x->bytes_free;
}

uint64_t pgasi_extents_largest_free(const pgasi_extents_t *x)
{
    return x->root[BY_ADDRESS]->largest_free;
}

uint64_t pgasi_extents_n_blocks(const pgasi_extents_t *x)
{
    return x->n_blocks;
}

size_t pgasi_extents_record_bytes(const pgasi_extents_t *x)
{
    pgasi_pool_info_t info;
    pgasi_pool_query(&x->records, &info);
    return info.bytes + sizeof *x;
}

/* ---- self-check ---- */

typedef struct {
    const extent_t *latest; /* in order, so far */
    uint64_t n;
    bool good;
} walk_t;

static void walk_tree(int tree, const extent_t *e, walk_t *walk)
{
    if (!e)
        return;
    const extent_t *low = e->child[tree][0], *high = e->child[tree][1];
    walk_tree(tree, low, walk);
    bool ordered = !walk->latest || comes_before(tree, walk->latest, e);
    bool heaped =
        (!low || low->priority <= e->priority) && (!high || high->priority <= e->priority);
    uint64_t below = PGASI_MAX(largest_of(low), largest_of(high));
    bool known =
        tree == BY_SIZE || e->largest_free == (e->used ? below : PGASI_MAX(below, e->bytes));
    walk->good = walk->good && ordered && heaped && known && (tree == BY_ADDRESS || !e->used);
    walk->latest = e;
    walk->n++;
    walk_tree(tree, high, walk);
}

pgas_status_t pgasi_extents_verify(const pgasi_extents_t *x)
{
    uint64_t at = 0, bytes_free = 0, n_free = 0, n_blocks = 0;
    const extent_t *before = NULL;
    for (const extent_t *e = x->first; e != NULL; before = e, e = e->after) {
        bool touching_free = before && !before->used && !e->used;
        if (e->offset != at || e->bytes == 0 || e->before != before || touching_free)
            return PGAS_ERR_INTERNAL;
        at += e->bytes;
        bytes_free += e->used ? 0 : e->bytes;
        n_free += !e->used;
        n_blocks += e->used;
    }
    walk_t walks[N_TREES] = { { .good = true }, { .good = true } };
    walk_tree(BY_ADDRESS, x->root[BY_ADDRESS], &walks[BY_ADDRESS]);
    walk_tree(BY_SIZE, x->root[BY_SIZE], &walks[BY_SIZE]);
    bool good = at == x->size && before == x->last && bytes_free == x->bytes_free &&
                n_blocks == x->n_blocks && walks[BY_ADDRESS].good &&
                walks[BY_ADDRESS].n == n_free + n_blocks && walks[BY_SIZE].good &&
                walks[BY_SIZE].n == n_free && x->records.n_used == n_free + n_blocks;
    return good ? PGAS_OK : PGAS_ERR_INTERNAL;
}
