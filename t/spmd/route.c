/* Routes of aggregators.
 *   what:   Routed calls behave as direct ones: source, order, batches, handlers that call,
 *           flushes, counters, quiescence.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=16K PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_AGG_SIZE=64 PGAS_CALL_MAX=64
 *   source: pgas/agg.h; seeded model test against direct calls
 */
#include <pthread.h>
#include <sched.h>

#include "base/hash.h"
#include "base/rng.h"
#include "call/route.h"
#include "t/spmd/job.h"

#define SLOTS 2
#define N     2500

static const pgas_route_t routes[] = { PGAS_ROUTE_DIRECT, PGAS_ROUTE_TWO, PGAS_ROUTE_THREE,
                                       PGAS_ROUTE_AUTO };
static const char *const route_name[] = { "direct", "two hops", "three hops", "auto" };

static pgas_handler_t plain, batched, add, relay, hold;
static uint64_t seen[JOB_RANKS_MAX][SLOTS], n_batches, *counter;
static int n_wrong, released;
static pgas_gptr_t counter_of[JOB_RANKS_MAX];
static pgas_agg_t *handlers_agg;

/* The calls of a source, in their order. */
static void note(const void *args, size_t bytes, pgas_thread_t source, int kind)
{
    int rank = pgas_thread_rank(source), slot = pgas_thread_slot(source);
    if (rank >= n_ranks || slot >= SLOTS) {
        n_wrong++;
        return;
    }
    n_wrong += bytes > 0 && *(const uint8_t *)args != (uint8_t)(rank * SLOTS + slot);
    seen[rank][slot] =
        pgasi_hash_u64(seen[rank][slot] ^ pgasi_hash_bytes(args, bytes, (uint64_t)kind));
}

static void on_plain(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    note(args, bytes, source, 1);
}

static void on_batched(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    note(args, bytes, source, 2);
}

static void on_batch(const void *args, size_t bytes, size_t stride, size_t n, pgas_thread_t source,
                     void *context)
{
    (void)context;
    n_batches++;
    for (size_t i = 0; i < n; i++)
        note((const char *)args + i * stride, bytes, source, 2);
}

static void on_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
}

/* Adds at every rank. */
static void on_relay(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    for (int r = 0; r < n_ranks; r++)
        n_wrong += pgas_agg_call(handlers_agg, r, add, args, bytes) != PGAS_OK;
}

/* Runs on the service thread only: the other one is not in the library meanwhile. */
static void on_hold(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE))
        sched_yield();
}

static pgas_agg_t *create(pgas_route_t route, bool for_handlers)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    pgas_agg_t *agg = NULL;
    opts.route = route;
    opts.for_handlers = for_handlers;
    n_wrong += pgas_agg_create(&opts, &agg) != PGAS_OK;
    return agg;
}

static void reset(void)
{
    pgas_quiesce();
    memset(seen, 0, sizeof seen);
    *counter = n_batches = 0;
    pgas_barrier(NULL);
}

/* One thread's part: runs of calls of several sizes to two handlers; the same whatever the
 * route. */
typedef struct {
    pgas_route_t route;
    uint64_t seed;
    int slot, n_bad;
} part_t;

static void send_part(part_t *p)
{
    static const size_t size_of[] = { 8, 1, 16, 40 };
    pgas_agg_t *agg = create(p->route, false);
    pgasi_rng_t rng;
    char args[40];
    pgasi_rng_seed(&rng, p->seed + (uint64_t)(me * SLOTS + p->slot));
    for (int i = 0; i < N;) {
        uint64_t draw = pgasi_rng_u64(&rng);
        int rank = (int)(draw / 65536 % (uint64_t)n_ranks);
        for (uint64_t k = 0; k < 1 + draw % 7; k++, i++) {
            memset(args, i, sizeof args);
            args[0] = (char)(me * SLOTS + p->slot);
            p->n_bad += pgas_agg_call(agg, rank, draw & 1024 ? plain : batched, args,
                                      size_of[draw / 2048 % 4]) != PGAS_OK;
        }
    }
    p->n_bad += pgas_agg_destroy(agg) != PGAS_OK;
}

static void *second_thread(void *arg)
{
    part_t *p = arg;
    p->n_bad += pgas_thread_attach() != PGAS_OK;
    send_part(p);
    p->n_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static int send_all(pgas_route_t route, uint64_t seed)
{
    part_t parts[SLOTS] = { { route, seed, 0, 0 }, { route, seed, 1, 0 } };
    pthread_t thread;
    reset();
    if (pthread_create(&thread, NULL, second_thread, &parts[1]) != 0)
        return 1;
    send_part(&parts[0]);
    pthread_join(thread, NULL);
    return parts[0].n_bad + parts[1].n_bad + (pgas_quiesce() != PGAS_OK);
}

static void as_direct_ones(uint64_t seed)
{
    static uint64_t direct[JOB_RANKS_MAX][SLOTS];
    int n_bad = send_all(PGAS_ROUTE_DIRECT, seed);
    memcpy(direct, seen, sizeof direct);
    spmd_ok(n_bad == 0 && n_wrong == 0, "direct");
    for (int i = 1; i < 4; i++) {
        n_bad = send_all(routes[i], seed);
        spmd_ok(n_bad == 0 && n_wrong == 0 && memcmp(direct, seen, sizeof seen) == 0,
                "%s: the same", route_name[i]);
        spmd_ok(n_batches > 0, "runs are still runs");
    }
    send_all(PGAS_ROUTE_TWO, seed + 1);
    spmd_ok(memcmp(direct, seen, sizeof seen) != 0, "other calls would be noticed");
}

static uint64_t counter_at(int rank)
{
    uint64_t n = UINT64_MAX;
    return pgas_get(&n, counter_of[rank], sizeof n) == PGAS_OK ? n : UINT64_MAX;
}

static int add_at_all(pgas_agg_t *agg, uint64_t n)
{
    int n_bad = 0;
    for (uint64_t i = 0; i < n * (uint64_t)n_ranks; i++)
        n_bad += pgas_agg_call(agg, (int)(i % (uint64_t)n_ranks), add, &i, sizeof i) != PGAS_OK;
    return n_bad;
}

/* The counter is read by get, which is in no order with calls. */
static void flushes(pgas_route_t route, const char *name)
{
    pgas_agg_t *agg = create(route, false);
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0, across = (me + n_ranks / 2) % n_ranks;
    reset();
    n_bad += pgas_agg_call(agg, across, add, NULL, 0) != PGAS_OK ||
             pgas_agg_flush(agg, across, NULL) != PGAS_OK;
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < 1)
        pgas_progress();
    spmd_is_int(n_bad, 0, "%s: a flush sends the gathered calls", name);
    reset();
    n_bad += add_at_all(agg, 100) + (pgas_agg_flush(agg, across, &sync) != PGAS_OK);
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || counter_at(across) < 100;
    spmd_is_int(n_bad, 0, "a counter shows that it has run at one rank");
    n_bad += add_at_all(agg, 100) + (pgas_agg_flush(agg, PGAS_ALL, &sync) != PGAS_OK);
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || sync.count != 0;
    for (int r = 0; r < n_ranks; r++)
        n_bad += counter_at(r) < 200;
    spmd_is_int(n_bad, 0, "and at all");
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && *counter == 200 * (uint64_t)n_ranks, "no more than that");
    pgas_agg_destroy(agg);
}

/* The target is held up, and a rank on the way has seen all that rank 0 sent before `later`. */
static int no_early_answer(pgas_agg_t *agg, int target, int next)
{
    pgas_sync_t sync = PGAS_SYNC_INIT, later = PGAS_SYNC_INIT;
    int n_bad = 0;
    n_bad += pgas_agg_call(agg, target, hold, NULL, 0) != PGAS_OK ||
             pgas_agg_flush(agg, target, &sync) != PGAS_OK;
    n_bad +=
        pgas_call(next, add, NULL, 0, &later) != PGAS_OK || pgas_sync_wait(&later, -1) != PGAS_OK;
    n_bad += pgas_sync_test(&sync) != PGAS_INPROGRESS;
    MPI_Send(NULL, 0, MPI_BYTE, target, 0, MPI_COMM_WORLD);
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    return n_bad;
}

static void only_the_target_answers(pgas_route_t route, int hops, const char *name)
{
    pgas_agg_t *agg = create(route, false);
    int n_bad = 0, next = 0, target = 0;
    reset();
    released = 0;
    while (me == 0 && target == next && target + 1 < n_ranks)
        n_bad += pgasi_route_next(hops, ++target, &next) != PGAS_OK;
    if (target == next)
        target = 0; /* each rank is one step away */
    MPI_Bcast(&target, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD); /* no rank is in the library any more, where it would run `hold` */
    if (me == 0 && target)
        n_bad += no_early_answer(agg, target, next);
    if (me && me == target) {
        MPI_Recv(NULL, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
    }
    spmd_is_int(n_bad, 0, "%s: a rank on the way does not answer for the target", name);
    pgas_agg_destroy(agg);
}

static void handlers_call(pgas_route_t route, const char *name)
{
    handlers_agg = create(route, true);
    pgas_agg_t *agg = create(route, false);
    reset();
    int n_bad = 0;
    for (uint64_t i = 0; i < 100; i++)
        n_bad += pgas_agg_call(agg, (int)(i % (uint64_t)n_ranks), relay, &i, sizeof i) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == 0 && *counter == 100 * (uint64_t)n_ranks,
            "%s: handlers call over routes too", name);
    pgas_agg_destroy(agg);
    pgas_agg_destroy(handlers_agg);
}

static void refusals(void)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    pgas_agg_t *agg = NULL;
    opts.route = (pgas_route_t)4;
    int n_bad = pgas_agg_create(&opts, &agg) != PGAS_ERR_INVALID;
    opts.route = PGAS_ROUTE_TWO;
    opts.style = PGAS_AGG_OVERFLOW;
    n_bad += pgas_agg_create(&opts, &agg) != PGAS_ERR_UNSUPPORTED || agg;
    spmd_is_int(n_bad, 0, "no such route; none for what leaves at once");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
    pgas_gptr_t mine;
    opts.batch = on_batch;
    pgas_handler_register("t.plain", on_plain, NULL, NULL, &plain);
    pgas_handler_register("t.batched", on_batched, NULL, &opts, &batched);
    pgas_handler_register("t.add", on_add, NULL, NULL, &add);
    pgas_handler_register("t.relay", on_relay, NULL, NULL, &relay);
    pgas_handler_register("t.hold", on_hold, NULL, NULL, &hold);
    job_begin(&argc, &argv, 22);
    uint64_t seed = spmd_seed(41);
    spmd_ok(pgas_alloc(sizeof *counter, &mine) == PGAS_OK, "a counter that others read");
    job_gather(mine, counter_of);
    counter = pgas_gptr_local(mine, sizeof *counter);
    as_direct_ones(seed);
    flushes(PGAS_ROUTE_TWO, "two hops");
    flushes(PGAS_ROUTE_THREE, "three hops");
    only_the_target_answers(PGAS_ROUTE_TWO, 2, "two hops");
    only_the_target_answers(PGAS_ROUTE_THREE, 3, "three hops");
    handlers_call(PGAS_ROUTE_TWO, "two hops");
    handlers_call(PGAS_ROUTE_THREE, "three hops");
    refusals();
    pgas_free(mine);
    return job_end();
}
