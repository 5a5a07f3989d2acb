/* Aggregators that overflow.
 *   what:   Calls are sent at once while there is room, gathered while there is none, and refused
 *           above a limit. They run in order, and none is lost. When there is room again they are
 *           sent at once again.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=16K PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=128 PGAS_AGG_SIZE=1K
 *   source: pgas/agg.h; seeded model test
 */
#include "base/rng.h"
#include "t/spmd/job.h"

#define LIMIT 40000

static pgas_handler_t ordered;
static int right;
static uint64_t n_ran, next_of[JOB_RANKS_MAX];
static int n_wrong;
static pgas_agg_t *agg;

static void on_ordered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += number != next_of[pgas_thread_rank(source)]++ ||
               (bytes != 8 && bytes != 16 + number % 7 * 8);
    __atomic_fetch_add(&n_ran, 1, __ATOMIC_RELEASE);
}

static void reset(void)
{
    pgas_quiesce();
    n_ran = 0;
    memset(next_of, 0, sizeof next_of);
    pgas_barrier(NULL);
}

static pgas_agg_info_t counted(void)
{
    pgas_agg_info_t stats = { .size = sizeof(pgas_agg_info_t) };
    if (pgas_agg_info(agg, &stats) != PGAS_OK)
        n_wrong++;
    return stats;
}

/* Not within a fake fault, and where the ring is the only limit. */
static bool plain_node(void)
{
    return pgas_n_nodes() == 1;
}

static pgas_status_t call_once(int rank, uint64_t number, bool large)
{
    uint64_t args[10] = { number };
    return large ? pgas_agg_call(agg, rank, ordered, args, 16 + number % 7 * 8)
                 : pgas_agg_call(agg, rank, ordered, args, sizeof number);
}

static void at_once(void)
{
    reset();
    uint64_t before = counted().calls;
    int n_bad = 0;
    for (uint64_t i = 0; i < 20; i++)
        n_bad += call_once(right, i, i % 2) != PGAS_OK;
    while (__atomic_load_n(&n_ran, __ATOMIC_ACQUIRE) < 20)
        pgas_progress();
    spmd_ok(n_bad == 0 && n_wrong == 0, "calls run without a flush");
    spmd_ok(!plain_node() || counted().calls == before, "none of them was gathered");
    pgas_barrier(NULL);
}

/* No rank makes progress while all fill their channels, unless there are service threads. */
static void up_to_a_limit(void)
{
    enum { MOST = 200000 };
    bool stuck = plain_node() && getenv("PGAS_SERVICE_THREADS") &&
                 strcmp(getenv("PGAS_SERVICE_THREADS"), "0") == 0;
    uint64_t n = 0, all = 0;
    pgas_status_t status = PGAS_OK;
    reset();
    spmd_progress(NULL);
    spmd_barrier(); /* no thread is in the library's wait any more */
    spmd_progress(job_progress);
    while (n < MOST && (status = call_once(right, n, n % 3 == 0)) == PGAS_OK)
        n++;
    pgas_agg_info_t s = counted();
    pgas_status_t second = status == PGAS_ERR_AGAIN ? call_once(right, n, n % 3 == 0) : status;
    bool again = second == PGAS_ERR_AGAIN;
    n += status == PGAS_ERR_AGAIN && second == PGAS_OK; /* a service thread may have made room */
    MPI_Barrier(MPI_COMM_WORLD); /* no rank makes progress until all have tried */
    spmd_ok(status == PGAS_OK || status == PGAS_ERR_AGAIN,
            "calls are taken, or refused for want of room");
    spmd_ok(!stuck || (again && s.waited > 0 && s.waiting_high_bytes > LIMIT / 2),
            "refused when too much waits");
    spmd_ok(s.waiting_high_bytes <= LIMIT + 8192, "no more waits than was said");
    pgas_allreduce(NULL, &n, &all, 1, PGAS_U64, PGAS_ADD);
    int n_bad = pgas_quiesce() != PGAS_OK;
    uint64_t ran = n_ran, sum = 0;
    pgas_allreduce(NULL, &ran, &sum, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && n_wrong == 0 && sum == all,
            "accepted calls run, in order, refused ones do not");
    at_once();
}

static void in_order(uint64_t seed)
{
    enum { N = 30000 };
    static uint64_t sent[JOB_RANKS_MAX], expected[JOB_RANKS_MAX];
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    reset();
    for (int i = 0; i < N; i++) {
        uint64_t draw = pgasi_rng_u64(&rng);
        int rank = (int)(draw / 1024 % (uint64_t)n_ranks);
        pgas_status_t status;
        while ((status = call_once(rank, sent[rank], draw % 4 == 0)) == PGAS_ERR_AGAIN)
            pgas_progress();
        n_bad += status != PGAS_OK;
        sent[rank]++;
        if (draw % 512 == 1)
            n_bad += pgas_agg_flush(agg, rank, NULL) != PGAS_OK;
        if (draw % 512 == 2)
            n_bad += pgas_call(rank, ordered, &sent[rank], sizeof sent[rank], NULL) != PGAS_OK ||
                     !++sent[rank];
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_alltoall(NULL, sent, expected, sizeof sent[0]);
    for (int r = 0; r < n_ranks; r++)
        n_bad += next_of[r] != expected[r];
    spmd_ok(n_bad == 0 && n_wrong == 0, "in order whatever they went through");
    next_of[me]++;
    n_bad = call_once(me, sent[me], false) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong > 0, "one that is missing would be noticed");
    n_wrong = 0;
}

int main(int argc, char **argv)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    pgas_handler_register("t.ordered", on_ordered, NULL, NULL, &ordered);
    job_begin(&argc, &argv, 12);
    uint64_t seed = spmd_seed(5);
    right = job_right();
    opts.style = (pgas_agg_style_t)2;
    spmd_ok(pgas_agg_create(&opts, &agg) == PGAS_ERR_INVALID, "no such style");
    opts.style = PGAS_AGG_OVERFLOW;
    opts.memory_bytes = LIMIT;
    spmd_ok(pgas_agg_create(&opts, &agg) == PGAS_OK, "an aggregator");
    at_once();
    up_to_a_limit();
    in_order(seed);
    pgas_agg_destroy(agg);
    return job_end();
}
