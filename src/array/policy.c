/* How a cache handles a miss.
 *
 * Fetching a chunk pays off when the chunk is used again. So the home carries out the first access
 * to a chunk, and the second access fetches it. Walks in order, pins, and arrays that fit into the
 * cache fetch at once. Accesses to many elements by index never fetch from larger arrays, because
 * their requests overlap and travel together.
 *
 * Applies in any order over an array that fits fetch the chunks around theirs, too, because a line
 * for contributions needs no data: requests for a run of chunks are one message, and the grants
 * another. The runs become longer with the number of such misses.
 *
 * If the array does not fit, an apply to a chunk without a line asks for the right to record
 * operands for it (sparse.c). So the next applies to it wait for nothing.
 *
 * A random walk over an array much larger than the cache thus costs round trips of some bytes,
 * and no chunks. It is nevertheless coherent, because the home sees every access. */
#include "array/policy.h"

#include "array/sparse.h"
#include "base/op.h"
#include "base/hash.h"
#include "base/checks.h"

#define FETCHES_BEFORE_RUNS 4 /* misses of applies; a run is as long as their number over this */
#define RUN_LOG2_MAX        5u

bool pgasi_array_is_too_large_for_line(const pgasi_array_t *a, uint32_t op)
{
    const pgas_op_def_t *def = pgasi_op_find(op);
    return !def || def->operand_bytes > a->pub.elem_bytes;
}

static uint32_t number_of(const pgasi_array_t *a, uint32_t op)
{
    uint32_t j = 0, n = __atomic_load_n(&a->n_known_ops, __ATOMIC_ACQUIRE);
    while (j < n && a->known_op[j] != op)
        j++;
    return j;
}

bool pgasi_array_home_knows(const pgasi_array_t *a, int home, uint32_t op)
{
    uint32_t j = number_of(a, op);
    return pgasi_op_is_built_in(op) ||
           (j < 64 && __atomic_load_n(&a->knows[home], __ATOMIC_ACQUIRE) >> j & 1);
}

void pgasi_array_home_note_op(pgasi_array_t *a, int home, uint32_t op)
{
    uint32_t j = number_of(a, op);
    if (j == sizeof a->known_op / sizeof *a->known_op || pgasi_op_is_built_in(op))
        return; /* built-in, or one too many: the home carries the latter out, which is slower */
    if (j == a->n_known_ops) {
        a->known_op[j] = op;
        __atomic_store_n(&a->n_known_ops, j + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&a->knows[home], a->knows[home] | UINT64_C(1) << j, __ATOMIC_RELEASE);
}

/* Whether the chunk was missed not long ago. Otherwise records the miss. */
static bool is_missed_again(pgasi_array_t *a, uint64_t chunk)
{
    uint64_t *seen = &a->filter[pgasi_hash_u64(chunk) & a->filter_mask];
    bool again = *seen == chunk + 1;
    *seen = again ? 0 : chunk + 1;
    return again;
}

bool pgasi_array_should_fetch(pgasi_array_t *a, const pgasi_array_location_t *loc,
                              const pgasi_array_access_t *x, bool has_line, bool sequential)
{
    bool applies = x->kind == PGASI_ARRAY_APPLY;
    if (!pgasi_array_fits_call(x, a->pub.elem_bytes))
        return true;
    if (applies && !pgasi_array_home_knows(a, loc->home, x->op))
        return false;
    if (has_line)
        return true;
    if (x->kind == PGASI_ARRAY_CAS || x->kind == PGASI_ARRAY_FETCH ||
        (applies && pgasi_array_is_too_large_for_line(a, x->op)))
        return false;
    if (sequential || a->fits)
        return true;
    return !x->once && !pgasi_array_sparse_suits(a, loc, x) && is_missed_again(a, x->chunk);
}

uint64_t pgasi_array_fetch_around(pgasi_array_t *a, const pgasi_array_access_t *x)
{
    if (x->kind != PGASI_ARRAY_APPLY || !a->fits || !a->prefetch)
        return 0;
    uint32_t n = ++a->n_apply_fetches / FETCHES_BEFORE_RUNS;
    return n ? UINT64_C(1) << PGASI_MIN(pgasi_log2_up(n + 1), RUN_LOG2_MAX) : 0;
}
