/* Test Anything Protocol for tests of several ranks: every rank evaluates each promise, and the
 * result is the AND over ranks. Rank 0 prints it and names the first rank that failed, with its
 * file and line.
 *
 *   int main(int argc, char **argv) {
 *       spmd_begin(&argc, &argv, MPI_THREAD_MULTIPLE); spmd_plan(1); spmd_ok(pgas_init(NULL, NULL)
 *       == PGAS_OK, "init"); spmd_progress(my_progress);           while the harness waits for
 *       other ranks it calls this ... spmd_progress(NULL); pgas_finalize(); return spmd_end();
 *   }
 *
 * All spmd_ functions except rank, size and diag are collective over MPI_COMM_WORLD: every rank
 * makes the same calls in the same order, and the harness reports ranks that do not. They use MPI
 * on a communicator of their own, from the thread that calls, and work whenever MPI is up: before
 * pgas_init, and after pgas_finalize if MPI outlives it. */
#ifndef T_SPMD_H
#define T_SPMD_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

/* Thread level for programs that let the library start MPI: the harness neither starts nor ends it.
 * */
#define SPMD_NO_MPI (-1)

/* Starts MPI at the given level (and bails out if MPI gives less), unless it runs already. */
void spmd_begin(int *argc_p, char ***argv_p, int thread_level);

/* Ends MPI if spmd_begin started it; returns the exit status of main. */
int spmd_end(void);

/* Sets the function that the harness calls repeatedly while it waits; NULL: none. */
void spmd_progress(void (*fn)(void));

int spmd_rank(void);
int spmd_size(void);

void spmd_plan(int n);

/* Skips the whole program, in place of spmd_plan. Every rank continues and ends with spmd_end. */
void spmd_skip_all(const char *why);

/* Counts n planned promises as skipped. */
void spmd_skip(int n, const char *why);

/* Prints a remark on rank 0. Not collective. */
__attribute__((format(printf, 1, 2))) void spmd_diag(const char *fmt, ...);

/* Waits for all ranks, with progress. */
void spmd_barrier(void);

/* The same seed on all ranks, see tap_seed in tap.h; rank 0 prints it. */
uint64_t spmd_seed(uint64_t fallback);

/* Each returns the agreed result on all ranks. */
#define spmd_ok(cond, ...) spmd_ok_((cond) ? true : false, __FILE__, __LINE__, __VA_ARGS__)
#define spmd_is_int(got, want, ...) \
    spmd_is_int_((intmax_t)(got), (intmax_t)(want), __FILE__, __LINE__, __VA_ARGS__)
#define spmd_is_str(got, want, ...) spmd_is_str_((got), (want), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 4, 5))) bool spmd_ok_(bool good, const char *file, int line,
                                                    const char *fmt, ...);
__attribute__((format(printf, 5, 6))) bool
spmd_is_int_(intmax_t got, intmax_t want, const char *file, int line, const char *fmt, ...);
__attribute__((format(printf, 5, 6))) bool
spmd_is_str_(const char *got, const char *want, const char *file, int line, const char *fmt, ...);

#endif
