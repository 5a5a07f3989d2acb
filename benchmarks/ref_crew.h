/** Threads that run one reference loop together, in shared memory and without a library.
 *
 *  All threads of a crew call the same function. They share its loops chunk by chunk, and between
 *  two loops they wait for each other in a barrier. The clock runs from the moment when all threads
 *  are there until the last of them has returned, because OpenMP's threads are there before a loop
 *  as well. Threads inherit the cores of the caller. */
#ifndef BENCH_REF_CREW_H
#define BENCH_REF_CREW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REF_CREW_MAX 64 /* threads */

typedef struct ref_crew ref_crew_t;
typedef void (*ref_crew_fn_t)(ref_crew_t *crew, int me, void *arg);

/** Runs fn in n_threads threads, of which the caller is number 0. @return seconds */
double ref_crew_run(int n_threads, ref_crew_fn_t fn, void *arg);

/** Returns when all threads have called it, and begins the next shared loop. */
void ref_crew_meet(ref_crew_t *crew);

/** Takes the next chunk [*from_p, *to_p) of the loop over [0, n). Each loop is followed by
 *  ref_crew_meet, ref_crew_sum or ref_crew_least. @return false: nothing is left */
bool ref_crew_take(ref_crew_t *crew, uint64_t n, uint64_t chunk, uint64_t *from_p, uint64_t *to_p);

/** The sum, or the least, of the values of all threads. Every thread gets the same bits. Each of
 *  these functions is a barrier too. */
uint64_t ref_crew_sum(ref_crew_t *crew, int me, uint64_t value);
double ref_crew_sum_double(ref_crew_t *crew, int me, double value);
uint64_t ref_crew_least(ref_crew_t *crew, int me, uint64_t value);

int ref_crew_size(const ref_crew_t *crew);

/** Memory that is not initialised, with huge pages where the system gives them; free() it. The
 *  program ends when there is none. */
void *ref_crew_alloc(size_t bytes);

/** ---- atomics on plain memory ---- */

#define REF_LOAD(word)     __atomic_load_n(&(word), __ATOMIC_RELAXED)
#define REF_STORE(word, x) __atomic_store_n(&(word), x, __ATOMIC_RELAXED)
#define REF_ADD(word, x)   __atomic_fetch_add(&(word), x, __ATOMIC_RELAXED)
#define REF_OR(word, x)    __atomic_fetch_or(&(word), x, __ATOMIC_RELAXED)
#define REF_SWAP_IF(word, expected_p, x) \
    __atomic_compare_exchange_n(&(word), expected_p, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)

#endif
