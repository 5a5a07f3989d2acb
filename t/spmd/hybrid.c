/* Ranks times OpenMP threads.
 *   what:   The threads of a parallel region attach, transfer, count and call at the same time, and
 *           detach. Further regions have other numbers of threads.
 *   np:     1 2 3 4
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    OMP_NUM_THREADS=3 | OMP_NUM_THREADS=6 PGAS_LANES=2 | OMP_NUM_THREADS=2
 *   env:    PGAS_SERVICE_THREADS=0
 *   needs:  openmp
 *   source: public headers
 */
#include <omp.h>
#include "t/spmd/job.h"

#define ITEMS 600
#define BINS  64

static pgas_handler_t add;
static pgas_gptr_t tables[JOB_RANKS_MAX];
static uint64_t *mine;

static void on_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint32_t bin;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&bin, args, sizeof bin);
    __atomic_fetch_add(&mine[bin % BINS], 1, __ATOMIC_RELAXED);
}

/* One region: every item adds one somewhere, by a gathered call or by an atomic. */
static int region(int n_threads, bool calls)
{
    int n_bad = 0, n_done = 0;
#pragma omp parallel num_threads(n_threads) reduction(+ : n_bad)
    {
        pgas_agg_t *agg = NULL;
        n_bad += pgas_thread_attach() != PGAS_OK;
        n_bad += pgas_agg_create(NULL, &agg) != PGAS_OK;
#pragma omp for nowait
        for (uint32_t i = 0; i < ITEMS; i++) {
            uint32_t bin = i * 7919 + (uint32_t)me;
            int rank = (int)(bin / BINS) % n_ranks;
            if (calls)
                n_bad += pgas_agg_call(agg, rank, add, &bin, sizeof bin) != PGAS_OK;
            else
                n_bad += pgas_update_u64(pgas_gptr_elem(tables[rank], bin % BINS, 8), PGAS_ADD,
                                         1) != PGAS_OK;
        }
        n_bad += pgas_agg_destroy(agg) != PGAS_OK;
        n_bad += pgas_flush_all() != PGAS_OK;
        n_bad += pgas_thread_detach() != PGAS_OK;
        __atomic_add_fetch(&n_done, 1, __ATOMIC_RELEASE);
        /* Without a service thread each thread must serve until all ranks are done with its region.
         * */
        while (omp_get_thread_num() == 0 &&
               __atomic_load_n(&n_done, __ATOMIC_ACQUIRE) < omp_get_num_threads())
            pgas_progress();
    }
    return n_bad;
}

static bool table_holds(uint64_t times)
{
    uint64_t here = 0, all = 0;
    for (int i = 0; i < BINS; i++)
        here += mine[i];
    pgas_allreduce(NULL, &here, &all, 1, PGAS_U64, PGAS_ADD);
    return all == times * ITEMS * (uint64_t)n_ranks;
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.add", on_add, NULL, NULL, &add);
    job_begin(&argc, &argv, 5);
    int most = omp_get_max_threads(), n_bad = 0;
    pgas_gptr_t ptr = PGAS_NULL;
    bool good = pgas_alloc(BINS * 8, &ptr) == PGAS_OK;
    mine = pgas_gptr_local(ptr, BINS * 8);
    memset(mine, 0, BINS * 8);
    job_gather(ptr, tables);
    spmd_ok(good, "memory");

    n_bad = region(most, false);
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && table_holds(1), "%d threads a rank count by atomics", most);
    n_bad = region(most, true) + (pgas_quiesce() != PGAS_OK);
    spmd_ok(n_bad == 0 && table_holds(2), "%d threads a rank count by gathered calls", most);
    spmd_ok(!table_holds(3), "a missing item is noticed");
    for (int i = 0; i < 10; i++)
        n_bad += region(1 + i % most, i % 2);
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && table_holds(12), "regions follow one another");
    return job_end();
}
