/* The crew of a test of arrays: threads of all ranks that work at the same time, and the faults
 * that they find.
 *
 *   static void body(int number, void *arg) { ...; crew_meet(number); ... }
 *   crew_run(3, body, NULL);
 *   3 threads a rank; thread 0 is the caller
 *
 * BAD(call): the call did not give PGAS_OK, which is counted; GAVE(call, status): it gave what it
 * should; crew_judge(condition, "words"): counted if it is not so. The first few of each rank are
 * printed as remarks. */
#ifndef T_SPMD_ARRAY_CREW_H
#define T_SPMD_ARRAY_CREW_H

#include <pthread.h>
#include <sched.h>
#include "base/rng.h"
#include "pgas/array.h"
#include "t/spmd/job.h"

#define CREW_THREADS_MAX 4
#define CREW_REMARKS     8

static struct {
    int n_threads, n_arrived, lap, n_bad, n_wrong, n_remarks;
    void (*body)(int number, void *arg);
    void *arg;
} crew;

static inline void crew_remark(const char *what, const char *gave)
{
    if (__atomic_fetch_add(&crew.n_remarks, 1, __ATOMIC_RELAXED) < CREW_REMARKS)
        printf("# rank %d, slot %d: %s%s%s\n", pgas_rank(), pgas_thread_slot(pgas_thread_self()),
               what, *gave ? ": " : "", gave);
}

static inline bool crew_is_bad(pgas_status_t got, pgas_status_t want, const char *what)
{
    if (got == want)
        return false;
    __atomic_fetch_add(&crew.n_bad, 1, __ATOMIC_RELAXED);
    crew_remark(what, pgas_status_name(got));
    return true;
}

static inline bool crew_gave(pgas_status_t got, pgas_status_t want, const char *what)
{
    return !crew_is_bad(got, want, what);
}
#define BAD(call)          crew_is_bad((call), PGAS_OK, #call)
#define GAVE(call, status) crew_gave((call), (status), #call)

static inline bool crew_judge(bool good, const char *what)
{
    if (good)
        return true;
    __atomic_fetch_add(&crew.n_wrong, 1, __ATOMIC_RELAXED);
    crew_remark(what, "");
    return false;
}

static inline pgas_array_info_t crew_info(const pgas_array_t *array)
{
    pgas_array_info_t info = { .size = sizeof info };
    BAD(pgas_array_info(array, &info));
    return info;
}

/* Faults on this rank since the last call. */
static inline int crew_faults(void)
{
    crew.n_remarks = 0;
    return __atomic_exchange_n(&crew.n_bad, 0, __ATOMIC_RELAXED) +
           __atomic_exchange_n(&crew.n_wrong, 0, __ATOMIC_RELAXED);
}

/* Drops remarks until the next call: the following faults are on purpose. */
static inline void crew_mute(void)
{
    crew.n_remarks = CREW_REMARKS;
}

static inline void crew_serve(void)
{
    if (pgas_progress() == 0)
        sched_yield();
}

/* All threads of all ranks meet. They serve while they wait. */
static inline void crew_meet(int number)
{
    int lap = __atomic_load_n(&crew.lap, __ATOMIC_ACQUIRE);
    if (number > 0) {
        __atomic_add_fetch(&crew.n_arrived, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(&crew.lap, __ATOMIC_ACQUIRE) == lap)
            crew_serve();
        return;
    }
    while (__atomic_load_n(&crew.n_arrived, __ATOMIC_ACQUIRE) != crew.n_threads - 1)
        crew_serve();
    BAD(pgas_barrier(NULL));
    __atomic_store_n(&crew.n_arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&crew.lap, lap + 1, __ATOMIC_RELEASE);
}

static inline void *crew_thread(void *arg)
{
    int number = (int)(intptr_t)arg;
    BAD(pgas_thread_attach());
    crew_meet(number);
    crew.body(number, crew.arg);
    BAD(pgas_thread_detach());
    __atomic_add_fetch(&crew.n_arrived, 1, __ATOMIC_ACQ_REL);
    return NULL;
}

/* Runs body on n_threads threads of each rank. */
static inline void crew_run(int n_threads, void (*body)(int number, void *arg), void *arg)
{
    pthread_t thread[CREW_THREADS_MAX];
    crew.n_threads = n_threads;
    crew.body = body;
    crew.arg = arg;
    for (intptr_t i = 1; i < n_threads; i++)
        pthread_create(&thread[i], NULL, crew_thread, (void *)i);
    crew_meet(0);
    body(0, arg);
    while (__atomic_load_n(&crew.n_arrived, __ATOMIC_ACQUIRE) != n_threads - 1)
        crew_serve();
    for (int i = 1; i < n_threads; i++)
        pthread_join(thread[i], NULL);
    crew.n_arrived = 0;
    BAD(pgas_barrier(NULL));
}

/* An array of the whole job with chunks and a cache of a few lines. */
static inline pgas_array_t *crew_array(size_t elem_bytes, uint64_t n_elems, size_t chunk_elems,
                                       size_t n_lines, const uint64_t *offsets)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    pgas_array_t *array = NULL;
    opts.chunk_elems = chunk_elems;
    opts.cache_bytes = n_lines * chunk_elems * elem_bytes;
    opts.offsets = offsets;
    pgas_status_t status = pgas_array_create(NULL, elem_bytes, n_elems, &opts, &array);
    if (status != PGAS_OK) {
        printf("Bail out! no array of %llu elements: %s\n", (unsigned long long)n_elems,
               pgas_status_text(status));
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
    return array;
}

#endif
