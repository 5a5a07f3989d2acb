/** What the benchmarks of arrays share: first values, index lists, checks of an array's contents,
 *  and figures of its cache. */
#ifndef BENCH_ARRAY_WORK_H
#define BENCH_ARRAY_WORK_H

#include "benchmarks/bench.h"
#include "pgas/array.h"

#define WORK_CHUNK UINT64_C(512) /* elements, the library's default */

/** The first value of element i. */
static inline uint64_t work_value(uint64_t i)
{
    return i * UINT64_C(0x9e3779b97f4a7c15) + 7;
}
/** The sum of the first values of n elements in a row. */
uint64_t work_value_sum(uint64_t first, uint64_t n);

/** Creates an array of n elements of 8 bytes with their first values; opts as for
 *  pgas_array_create. Collective. */
pgas_array_t *work_create(uint64_t n, const pgas_array_opts_t *opts);
/** Writes the first values again. Collective. */
void work_fill(pgas_array_t *array);
/** NULL is allowed. Collective. */
void work_destroy(pgas_array_t *array);

/** The same elements in the symmetric heap, distributed evenly, for accesses by put, get and
 *  atomics. Collective. */
typedef struct {
    pgas_gptr_t base;
    uint64_t per_rank;
} work_table_t;
work_table_t work_table_create(uint64_t n);
void work_table_destroy(work_table_t *table);
static inline pgas_gptr_t work_table_at(const work_table_t *table, uint64_t i)
{
    return pgas_gptr_at(table->base, (int)(i / table->per_rank)) +
           i % table->per_rank * sizeof(uint64_t);
}

/** The same elements as a plain array. It is in the symmetric heap too, so that both have pages of
 *  one size. work_native_free it. */
uint64_t *work_native(uint64_t first, uint64_t n);
void work_native_free(uint64_t *native);

/** n indices from first to first + n_elems - 1. free() it. */
uint64_t *work_draw_uniform(uint64_t n, uint64_t first, uint64_t n_elems, uint64_t seed);
/** n indices below n_elems, a power of two, by Zipf's law: the probability is 1 / rank^skew.
 *  Elements are shuffled over the array, so that the frequent ones are in many chunks. */
uint64_t *work_draw_zipf(uint64_t n, uint64_t n_elems, double skew, uint64_t seed);

/** Operation number k of this rank goes to element index[k % n_list]; n_done have been done. */
typedef struct {
    const uint64_t *index;
    uint64_t n_list, n_done;
} work_done_t;
/** Ends the job unless each element is its first value plus one for each operation of any rank.
 *  Collective. */
void work_check_adds(pgas_array_t *array, const work_done_t *done);
/** Ends the job unless each element has an allowed value: its first value, or the first value plus
 *  1 + the number of a rank that has written it. Collective. */
void work_check_sets(pgas_array_t *array, const work_done_t *done);

/** Called before and after the measured part of one of our loops: records the array's work on all
 *  ranks meanwhile, for n accesses of this rank. Collective. */
void work_watch(const bench_run_t *run, const pgas_array_t *array);
void work_watched(const bench_run_t *run, const pgas_array_t *array, uint64_t n, double ns);
/** A further figure of the last round, up to two, e.g. a percentile. */
void work_note(int which, const char *name, const char *unit, double value);
/** For bench_program_t: figures of the longest rounds since the last call of work_forget. */
int work_figures(const bench_case_t *c, bench_figure_t *figure);
void work_forget(void);

/** Reads a number. @return what is wrong, or NULL */
const char *work_number(const char *text, double min, double max, uint64_t *value_p,
                        const char *wrong);

#endif
