/* The library under test, started before and ended after the promises of a test of several ranks.
 *
 *   int main(int argc, char **argv)
 *   {
 *       job_begin(&argc, &argv, 2);      two promises follow; starting and ending are one more each
 *       ...
 *       return job_end();
 *   }
 */
#ifndef T_SPMD_JOB_H
#define T_SPMD_JOB_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pgas/pgas.h"
#include "t/spmd.h"

#define JOB_RANKS_MAX 64

/* This rank, and the number of ranks: set by job_start. */
static int me, n_ranks;

static void job_progress(void)
{
    pgas_progress();
}

/* Memory of a test. The program ends when there is none. */
static inline void *job_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        printf("Bail out! no memory for %zu bytes\n", bytes);
        exit(99);
    }
    return memory;
}

/* The heap is small unless the environment says otherwise: many jobs of the suite run at once. */
static inline void job_start(const char *params)
{
    setenv("PGAS_HEAP_SIZE", "32M", 0);
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = params;
    pgas_status_t status = pgas_init(NULL, &opts);
    if (!spmd_ok(status == PGAS_OK, "pgas_init%s%s", params ? " with " : "",
                 params ? params : "")) {
        printf("Bail out! the library does not start: %s\n", pgas_status_text(status));
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    spmd_progress(job_progress);
    me = pgas_rank();
    n_ranks = pgas_n_ranks();
}

/* The remark is for t/launch: a program that hangs after it hangs in MPI's own end, or in the
 * launcher. */
static inline void job_stop(void)
{
    spmd_progress(NULL);
    if (spmd_ok(pgas_finalize() == PGAS_OK && !pgas_initialized(), "pgas_finalize"))
        spmd_diag("ended: pgas_finalize has returned on every rank");
}

static inline void job_begin(int *argc_p, char ***argv_p, int n_promises)
{
    spmd_begin(argc_p, argv_p, MPI_THREAD_SERIALIZED);
    spmd_plan(n_promises + 2);
    job_start(NULL);
}

static inline int job_end(void)
{
    job_stop();
    return spmd_end();
}

/* The next rank in the ring of all ranks. */
static inline int job_right(void)
{
    return (me + 1) % n_ranks;
}

/* Gathers the pointers of all ranks. */
static inline void job_gather(pgas_gptr_t mine, pgas_gptr_t all[JOB_RANKS_MAX])
{
    pgas_allgather(NULL, &mine, all, sizeof mine);
}

/* True if `here` is true on any rank. */
static inline bool job_any(bool here)
{
    int32_t mine = here, all = 0;
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_I32, PGAS_MAX);
    return all != 0;
}

#endif
