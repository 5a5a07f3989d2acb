/** Loops over one-sided operations, shared by the put and get benchmarks. All work on a window of
 *  every rank. */
#ifndef BENCH_RMA_H
#define BENCH_RMA_H

#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

void rma_setup(void);
void rma_teardown(void);

/** What the programs of these loops have in common, for their initializers. */
#define RMA_PROGRAM(LARGEST)                                                        \
    .min_bytes = 1, .max_bytes = (LARGEST), BENCH_CASES(cases), .setup = rma_setup, \
    .teardown = rma_teardown

/** Each operation is complete at the peer before the next: 1, 2, 4 and 8 bytes by the typed
 *  operations, other sizes by pgas_put and pgas_get. */
double rma_put(const bench_run_t *run);
double rma_get(const bench_run_t *run);
/** All sizes by pgas_put and pgas_get. */
double rma_put_bulk(const bench_run_t *run);
double rma_get_bulk(const bench_run_t *run);
/** Relaxed stores and loads through an address that pgas_gptr_local gave once. */
double rma_store(const bench_run_t *run);
double rma_load(const bench_run_t *run);
/** 64 non-blocking operations, then completion of all; arg 1: always on the same memory. */
double rma_put_window(const bench_run_t *run);
double rma_get_window(const bench_run_t *run);
/** Puts, typed where there is a type, with a flush after 64. */
double rma_put_stream(const bench_run_t *run);

#endif
