/** What the benchmarks of arrays share: first values, index lists, checks of what an array holds,
 *  figures of its cache. */
#ifndef BENCH_ARRAY_WORK_H
#define BENCH_ARRAY_WORK_H

#include "benchmarks/bench.h"
#include "pgas/array.h"

#define WORK_CHUNK UINT64_C(512) /* elements, the library's default */

/** What element i holds at the begin. */
static inline uint64_t work_value(uint64_t i)
{
    return i * UINT64_C(0x9e3779b97f4a7c15) + 7;
}
/** The sum of these of n elements in a row. */
uint64_t work_value_sum(uint64_t first, uint64_t n);

/** An array of n such elements of 8 bytes, opts as for pgas_array_create. Collective. */
pgas_array_t *work_create(uint64_t n, const pgas_array_opts_t *opts);
/** What work_create has put into it. Collective. */
void work_fill(pgas_array_t *array);
/** NULL is allowed. Collective. */
void work_destroy(pgas_array_t *array);

/** The same elements in the symmetric heap, as even as they go: for accesses by put, get and
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

/** The same elements as a plain array, from the heap as well, so that both have pages of one size.
 *  work_native_free it. */
uint64_t *work_native(uint64_t first, uint64_t n);
void work_native_free(uint64_t *native);

/** n indices from first to first + n_elems - 1. free() it. */
uint64_t *work_draw_uniform(uint64_t n, uint64_t first, uint64_t n_elems, uint64_t seed);
/** The same from 0 on, each as probable as Zipf's law says, 1 / rank^skew; n_elems, a power of two,
 *  are shuffled over the array, so that those often drawn lie in many chunks. */
uint64_t *work_draw_zipf(uint64_t n, uint64_t n_elems, double skew, uint64_t seed);

/** Operation number k of this rank goes to element index[k % n_list]; n_done have been done. */
typedef struct {
    const uint64_t *index;
    uint64_t n_list, n_done;
} work_done_t;
/** Ends the job unless each element is as at the begin and one more for each operation of any rank.
 *  Collective. */
void work_check_adds(pgas_array_t *array, const work_done_t *done);
/** ... unless each element is as at the begin, if no rank has written it, otherwise that and 1 + a
 *  rank that has. Collective. */
void work_check_sets(pgas_array_t *array, const work_done_t *done);

/** Around the measured part of a loop of ours: what the array did meanwhile on all ranks, for n
 *  accesses of this one. Collective. */
void work_watch(const bench_run_t *run, const pgas_array_t *array);
void work_watched(const bench_run_t *run, const pgas_array_t *array, uint64_t n, double ns);
/** A further figure of the last round, up to two, e.g. a percentile. */
void work_note(int which, const char *name, const char *unit, double value);
/** For bench_program_t: figures of the longest rounds since the last call of work_forget. */
int work_figures(const bench_case_t *c, bench_figure_t *figure);
void work_forget(void);

/** A number from text, or what is wrong. */
const char *work_number(const char *text, double min, double max, uint64_t *value_p,
                        const char *wrong);

#endif
