/** The running program and what the user asks of it: set once by bench_main, read by the rest of
 *  the harness. Of the programs, only those include this file that have a run of their own, or
 *  another default. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "benchmarks/bench.h"
#include "benchmarks/print.h"

#define BENCH_ROUNDS     61
#define BENCH_ROUNDS_MIN 5
#define BENCH_ROUNDS_MAX 1001
#define BENCH_ROUND_MS   0.5
#define BENCH_EXIT_USAGE 2

typedef struct {
    bool full, json, compare, paper;
    const char *cases; /* NULL: all but those that run only when --case names them */
    size_t min_bytes, max_bytes;
    uint64_t iters;
    int rounds, threads;
    double round_ms;
} bench_options_t;

extern const bench_program_t *bench_prog;
extern bench_options_t bench_opt;

/** The program is one process, without MPI. */
bool bench_is_alone(void);

/** Reads the command line. @return -1: go on; otherwise the exit status of the program */
int bench_parse_options(int argc, char **argv);

/** Rounds of a case with --paper, unless -r says how many. */
int bench_paper_rounds(void);

/** The user's options include this case. */
bool bench_is_wanted(const bench_case_t *c);

/** The smallest and the largest size that both the case (or else the program) and the user allow. A
 *  case with a single size keeps it. */
void bench_choose_sizes(const bench_case_t *c, size_t *low_p, size_t *high_p);

/** The smallest of the program's sizes that is at least `bytes`; SIZE_MAX: there is none. */
size_t bench_size_from(size_t bytes);

/** Binds the calling thread to a core of its own, if the machine has enough cores for the ranks
 *  that work. Collective. */
void bench_take_core(int rank, int n_ranks);

/** Sorts the values. */
print_stat_t bench_statistics(double *values, int n);

#endif
