/** References of the array benchmarks: a plain C array, and the reference counting that the DArray
 *  paper describes.
 *
 *  Loops over an index list read each index from memory, and the compiler may assume nothing about
 *  it. So neither these loops nor ours become vector loops. Loops over a span are compiled for
 *  vectors, and serve plain arrays and pins alike. */
#ifndef BENCH_REF_ARRAY_H
#define BENCH_REF_ARRAY_H

#include "benchmarks/bench.h"

/** Hides the variable's value from the compiler. */
#define ref_opaque(variable) __asm__ volatile("" : "+r"(variable))

/** Short loops that are across two cache lines of code take half as long again. */
#define ref_aligned __attribute__((aligned(64)))

/** ---- n elements of a plain array, by an index list ---- */
uint64_t ref_array_get(const uint64_t *array, const uint64_t *index, uint64_t n); /* their sum */
/* to value, value + 1, .. */
void ref_array_set(uint64_t *array, const uint64_t *index, uint64_t n, uint64_t value);
/* value to each */
void ref_array_add(uint64_t *array, const uint64_t *index, uint64_t n, uint64_t value);

/** ---- n elements in a row, without vectors ---- */
uint64_t ref_array_get_row(const uint64_t *array, uint64_t first, uint64_t n);
void ref_array_set_row(uint64_t *array, uint64_t first, uint64_t n, uint64_t value);
void ref_array_add_row(uint64_t *array, uint64_t first, uint64_t n, uint64_t value);

/** ---- n elements in a row, with vectors ---- */
uint64_t ref_span_sum(const uint64_t *span, uint64_t n);
void ref_span_fill(uint64_t *span, uint64_t n, uint64_t value);
void ref_span_add(uint64_t *span, uint64_t n, uint64_t value);

/** ---- chunks that count the threads inside: each access increments the count, checks the state,
 *  and decrements the count ---- */
typedef struct ref_counted ref_counted_t;
/** n elements, all 0, in chunks of a power of two, in the state that allows every access. */
ref_counted_t *ref_counted_create(uint64_t n, uint64_t chunk_elems);
void ref_counted_destroy(ref_counted_t *array);
/** As above. The job ends if a chunk cannot be used: no thread takes chunks away here. */
uint64_t ref_counted_get(ref_counted_t *array, const uint64_t *index, uint64_t n);
void ref_counted_set(ref_counted_t *array, const uint64_t *index, uint64_t n, uint64_t value);
void ref_counted_add(ref_counted_t *array, const uint64_t *index, uint64_t n, uint64_t value);

/** ---- raw UCX (ref_ucx.c); run->peer or, without one, rank 0 towards rank 1 alone ---- */
double ref_ucx_get_walk(const bench_run_t *run); /* 64 at a time, through all of the window */
double ref_ucx_put_walk(const bench_run_t *run);
double ref_ucx_get_first(const bench_run_t *run); /* one after the other */
double ref_ucx_am_twice(const bench_run_t *run);  /* two round trips */

#endif
