/* References of the array benchmarks, see ref_array.h.
 *
 * The counted chunks follow the description in the DArray paper (Ding, Han, Chen; ICPP 2023), of
 * which no code was published. A chunk has a state, and a count of the threads that are inside. A
 * thread increments the count, checks that the state allows its access, accesses the element, and
 * decrements the count. A thread that wants the chunk changes the state and waits until the count
 * is 0. Both changes of the count are locked instructions. */
#include "benchmarks/ref_array.h"

#include <stdlib.h>

#define always_inline inline __attribute__((always_inline))

/* As with -O3, in a build with -O2. */
#if defined(__GNUC__) && !defined(__clang__)
#define with_vectors __attribute__((noinline, aligned(64), optimize("O3")))
#else
#define with_vectors __attribute__((noinline, aligned(64)))
#endif

/* ---- plain ---- */

ref_aligned uint64_t ref_array_get(const uint64_t *array, const uint64_t *index, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        sum += array[i];
    }
    return sum;
}

ref_aligned void ref_array_set(uint64_t *array, const uint64_t *index, uint64_t n, uint64_t value)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        array[i] = value + k;
    }
}

ref_aligned void ref_array_add(uint64_t *array, const uint64_t *index, uint64_t n, uint64_t value)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        array[i] += value;
    }
}

ref_aligned uint64_t ref_array_get_row(const uint64_t *array, uint64_t first, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t k = first; k < first + n; k++) {
        uint64_t i = k;
        ref_opaque(i);
        sum += array[i];
    }
    return sum;
}

ref_aligned void ref_array_set_row(uint64_t *array, uint64_t first, uint64_t n, uint64_t value)
{
    for (uint64_t k = first; k < first + n; k++) {
        uint64_t i = k;
        ref_opaque(i);
        array[i] = value + k;
    }
}

ref_aligned void ref_array_add_row(uint64_t *array, uint64_t first, uint64_t n, uint64_t value)
{
    for (uint64_t k = first; k < first + n; k++) {
        uint64_t i = k;
        ref_opaque(i);
        array[i] += value;
    }
}

with_vectors uint64_t ref_span_sum(const uint64_t *span, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t k = 0; k < n; k++)
        sum += span[k];
    return sum;
}

with_vectors void ref_span_fill(uint64_t *span, uint64_t n, uint64_t value)
{
    for (uint64_t k = 0; k < n; k++)
        span[k] = value + k;
}

with_vectors void ref_span_add(uint64_t *span, uint64_t n, uint64_t value)
{
    for (uint64_t k = 0; k < n; k++)
        span[k] += value;
}

/* ---- counted ---- */

enum { NOTHING, READ, OPERATE, ALL }; /* accesses that a chunk's state allows */

typedef struct {
    _Alignas(64) uint64_t n_inside;
    int state;
    uint64_t *data;
} chunk_t;

struct ref_counted {
    uint64_t n, mask;
    int shift;
    chunk_t *chunks;
    uint64_t *data;
};

ref_counted_t *ref_counted_create(uint64_t n, uint64_t chunk_elems)
{
    ref_counted_t *array = calloc(1, sizeof *array);
    uint64_t n_chunks = (n + chunk_elems - 1) / chunk_elems;
    if (!array)
        bench_die("out of memory");
    array->n = n;
    array->mask = chunk_elems - 1;
    array->shift = __builtin_ctzll(chunk_elems);
    array->data = bench_table(n_chunks * chunk_elems * sizeof *array->data);
    array->chunks = bench_table(n_chunks * sizeof *array->chunks);
    for (uint64_t c = 0; c < n_chunks; c++)
        array->chunks[c] = (chunk_t){ .state = ALL, .data = array->data + c * chunk_elems };
    return array;
}

void ref_counted_destroy(ref_counted_t *array)
{
    if (!array)
        return;
    free(array->chunks);
    free(array->data);
    free(array);
}

/* The chunk of element i, with the count incremented. */
static always_inline chunk_t *enter(ref_counted_t *array, uint64_t i, int what)
{
    chunk_t *chunk;
    if (i >= array->n)
        bench_die("no such element");
    chunk = &array->chunks[i >> array->shift];
    __atomic_fetch_add(&chunk->n_inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&chunk->state, __ATOMIC_RELAXED) < what)
        bench_die("a chunk that nobody takes away is missing");
    return chunk;
}

static always_inline void leave(chunk_t *chunk)
{
    __atomic_fetch_sub(&chunk->n_inside, 1, __ATOMIC_SEQ_CST);
}

ref_aligned uint64_t ref_counted_get(ref_counted_t *array, const uint64_t *index, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        chunk_t *chunk = enter(array, i, READ);
        sum += chunk->data[i & array->mask];
        leave(chunk);
    }
    return sum;
}

ref_aligned void ref_counted_set(ref_counted_t *array, const uint64_t *index, uint64_t n,
                                 uint64_t value)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        chunk_t *chunk = enter(array, i, ALL);
        chunk->data[i & array->mask] = value + k;
        leave(chunk);
    }
}

ref_aligned void ref_counted_add(ref_counted_t *array, const uint64_t *index, uint64_t n,
                                 uint64_t value)
{
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = index[k];
        ref_opaque(i);
        chunk_t *chunk = enter(array, i, OPERATE);
        chunk->data[i & array->mask] += value;
        leave(chunk);
    }
}
