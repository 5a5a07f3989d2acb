/* Broadcasts of calls.
 *   what:   Every rank runs the handler once, whichever rank is the root, with the root's arguments
 *           and the root as its source. No rank sends more than ceil(log2 N) messages, including
 *           acknowledgements. The counter is decremented once, when all ranks have run the handler
 *           or received the call. This holds for many roots at once, in the order of each; from
 *           handlers; with blocking handlers; and once on every thread of the program.
 *   np:     1 2 3 5 7 8
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K | PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_LANES=2
 *   source: pgas/call.h
 */
#include <pthread.h>
#include "base/checks.h"
#include "base/param.h"
#include "base/rng.h"
#include "boot/boot.h"
#include "bcast/bcast.h"
#include "msg/recv_queue.h"
#include "bcast/tree.h"
#include "t/spmd/job.h"

#define N_AT_ONCE 300

static pgas_handler_t once, ordered, again, gated;
static size_t call_max;

static int limit(void)
{
    return (int)pgasi_log2_up((uint64_t)n_ranks);
}

static int n_runs, n_wrong;

/* args: the root, then bytes that follow from their number */
static void on_once(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int32_t root = -1;
    if (bytes >= sizeof root)
        memcpy(&root, args, sizeof root);
    n_wrong += root != pgas_thread_rank(source) || pgas_thread_slot(source) != 0 ||
               context != &n_runs || (uintptr_t)args % 8 != 0;
    for (size_t i = sizeof root; i < bytes; i++)
        n_wrong += ((const unsigned char *)args)[i] != (unsigned char)(bytes * 31 + i);
    __atomic_fetch_add(&n_runs, 1, __ATOMIC_RELAXED);
}

static pgas_status_t broadcast_once(size_t bytes, pgas_when_t when, pgas_sync_t *sync)
{
    unsigned char *args = job_alloc(bytes);
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    o.sync = sync;
    o.when = when;
    memcpy(args, &me, sizeof me);
    for (size_t i = sizeof me; i < bytes; i++)
        args[i] = (unsigned char)(bytes * 31 + i);
    pgas_status_t status = pgas_call_to(pgas_on_team(NULL), once, args, bytes, &o);
    free(args);
    return status;
}

static uint64_t n_sent(void)
{
    const pgasi_bcast_stats_t *s = &pgasi_bcast_stats;
    return __atomic_load_n(&s->n_down, __ATOMIC_ACQUIRE) +
           __atomic_load_n(&s->n_up, __ATOMIC_ACQUIRE);
}

static bool is_few(uint64_t n)
{
    return n <= (uint64_t)limit();
}

static void one_root_after_the_other(void)
{
    static const size_t sizes[] = { 4, 8, 100 };
    int n_bad = 0, n_bad_counts = 0;
    for (int root = 0; root < n_ranks; root++) {
        for (size_t i = 0; i < 4; i++) {
            size_t bytes = i < 3 ? sizes[i] : call_max;
            pgas_sync_t sync = PGAS_SYNC_INIT;
            n_runs = 0;
            pgas_quiesce();
            uint64_t before = n_sent();
            pgas_barrier(NULL);
            if (me == root)
                n_bad += broadcast_once(bytes, PGAS_EXECUTED, &sync) != PGAS_OK ||
                         pgas_sync_wait(&sync, -1) != PGAS_OK;
            pgas_barrier(NULL); /* all have run, because the root has waited for it */
            n_bad += __atomic_load_n(&n_runs, __ATOMIC_RELAXED) != 1;
            pgas_quiesce();
            n_bad_counts +=
                !is_few(n_sent() - before) || (root == me && n_ranks > 1 && n_sent() == before);
            n_bad += root == me && sync.count != 0;
        }
    }
    spmd_is_int(n_bad + n_wrong, 0,
                "every rank runs it once before the root's counter is zero, from every root");
    spmd_is_int(n_bad_counts, 0,
                "no rank sends more than ceil(log2 N) messages, those back included");
    spmd_ok(!is_few((uint64_t)limit() + 1), "and one more would be noticed");
}

static void other_completions(void)
{
    static const pgas_when_t whens[] = { PGAS_LOCAL, PGAS_REMOTE, PGAS_EXECUTED };
    int n_bad = 0;
    for (int i = 0; i < 3; i++) {
        pgas_sync_t sync = PGAS_SYNC_INIT;
        n_runs = 0;
        pgas_barrier(NULL);
        for (int k = 0; k < 3; k++)
            n_bad += broadcast_once(64, whens[i], &sync) != PGAS_OK;
        n_bad += whens[i] == PGAS_LOCAL && pgas_sync_test(&sync) != PGAS_OK;
        n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
        pgas_quiesce();
        n_bad += n_runs != 3 * n_ranks || sync.count != 0;
        pgas_barrier(NULL);
    }
    spmd_is_int(
        n_bad + n_wrong, 0,
        "a counter is decremented once a broadcast, on local, remote and executed completion");
}

/* ---- many roots ---- */

static uint32_t next_of[JOB_RANKS_MAX];

static void on_ordered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint32_t number;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += number != next_of[pgas_thread_rank(source)]++;
    for (size_t i = sizeof number; i < bytes; i++)
        n_wrong += ((const unsigned char *)args)[i] != (unsigned char)(number + i);
}

static pgas_status_t broadcast_number(uint32_t number, size_t bytes, const pgas_call_opts_t *o)
{
    unsigned char args[8192];
    memcpy(args, &number, sizeof number);
    for (size_t i = sizeof number; i < bytes; i++)
        args[i] = (unsigned char)(number + i);
    pgas_status_t status;
    while ((status = pgas_call_to(pgas_on_team(NULL), ordered, args, bytes, o)) == PGAS_ERR_AGAIN)
        pgas_progress();
    return status;
}

static void many_roots_at_once(uint64_t seed)
{
    pgasi_rng_t rng;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    for (uint32_t i = 0; i < N_AT_ONCE; i++) {
        pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
        uint64_t draw = pgasi_rng_u64(&rng);
        o.sync = draw & 1 ? &sync : NULL;
        o.when = (pgas_when_t)(draw >> 1 & 3) % 3;
        o.full = (pgas_full_t)(draw >> 3 & 3) % 3;
        size_t most = call_max < 8192 ? call_max : 8192;
        if (draw & 64)
            most = 32;
        n_bad += broadcast_number(i, 4 + (draw >> 8) % (most - 3), &o) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || sync.count != 0;
    n_bad += pgas_quiesce() != PGAS_OK;
    for (int r = 0; r < n_ranks; r++)
        n_bad += next_of[r] != N_AT_ONCE;
    spmd_is_int(n_bad + n_wrong, 0,
                "all ranks at once: everything runs everywhere, in the order of its root");
    n_wrong = 0;
    pgas_barrier(NULL);
    uint32_t wrong = 7;
    n_bad = pgas_call_to(pgas_on_team(NULL), ordered, &wrong, sizeof wrong, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == n_ranks, "and a wrong number is noticed");
    n_wrong = 0;
    pgas_barrier(NULL);
}

/* ---- handlers ---- */

static int n_again[2], n_again_failed;

/* Each of these makes each rank broadcast once more. */
static void on_again(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int32_t level;
    (void)source;
    (void)context;
    memcpy(&level, args, bytes);
    n_again[level]++;
    int32_t below = 1;
    if (level == 0)
        n_again_failed +=
            pgas_call_to(pgas_on_team(NULL), again, &below, sizeof below, NULL) != PGAS_OK;
}

static void from_handlers(void)
{
    int32_t level = 0;
    int n_bad = pgas_call_to(pgas_on_team(NULL), again, &level, sizeof level, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_again_failed == 0 && n_again[0] == n_ranks && n_again[1] == n_ranks * n_ranks,
            "handlers broadcast, and pgas_quiesce waits for all of it");
}

static uint64_t gate;
static int n_gated;

static void on_gated(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_wrong += me == n_ranks - 1 && pgas_signal_wait(&gate, PGAS_EQ, 1, -1, NULL) != PGAS_OK;
    __atomic_fetch_add(&n_gated, 1, __ATOMIC_RELAXED);
}

static void handlers_that_block(void)
{
    pgas_sync_t arrived = PGAS_SYNC_INIT, ran = PGAS_SYNC_INIT;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    int n_bad = 0, n_early = 0, n_refused = 0;
    if (me == 0) {
        o.sync = &arrived;
        o.when = PGAS_REMOTE;
        n_bad += pgas_call_to(pgas_on_team(NULL), gated, NULL, 0, &o) != PGAS_OK;
        n_bad += pgas_sync_wait(&arrived, -1) != PGAS_OK;
        o.sync = &ran;
        o.when = PGAS_EXECUTED;
        o.full = PGAS_FULL_AGAIN;
        int n = 0;
        while (n < PGAS_BROADCASTS_MAX) {
            pgas_status_t status = pgas_call_to(pgas_on_team(NULL), gated, NULL, 0, &o);
            n += status == PGAS_OK;
            if (status != PGAS_OK && status != PGAS_ERR_AGAIN)
                break;
            pgas_progress();
        }
        n_bad += n != PGAS_BROADCASTS_MAX;
        n_refused = pgas_call_to(pgas_on_team(NULL), gated, NULL, 0, &o) == PGAS_ERR_AGAIN;
        n_early = ran.count != PGAS_BROADCASTS_MAX;
    }
    pgas_barrier(NULL);
    __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
    n_bad += me == 0 && pgas_sync_wait(&ran, -1) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad + n_early + n_wrong, 0,
                "handlers that block: it arrived while they wait, it ran when they return");
    spmd_ok(n_gated == 1 + PGAS_BROADCASTS_MAX && (me != 0 || n_refused),
            "one more than can be under way: AGAIN, nothing runs");
}

/* ---- threads ---- */

typedef struct {
    int bad;
    uint32_t slot;
} worker_t;

static int32_t runs_of[PGAS_THREADS_MAX + 3], n_elsewhere;
static uint64_t n_ready, work_over;
static pgas_handler_t on_each, each_waits;

static void on_each_thread(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int32_t root = -1;
    (void)context;
    if (bytes == sizeof root)
        memcpy(&root, args, sizeof root);
    if (root != pgas_thread_rank(source))
        __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&runs_of[pgas_thread_slot(pgas_thread_self())], 1, __ATOMIC_RELAXED);
}

static void on_each_waits(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    (void)source;
    n_wrong += context != &n_elsewhere || bytes != 4 || !args;
    n_wrong += pgas_call(me, again, &(int32_t){ 1 }, 4, &sync) != PGAS_OK;
    n_wrong += pgas_sync_wait(&sync, -1) != PGAS_OK;
    __atomic_fetch_add(&n_elsewhere, 1, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
    worker_t *w = arg;
    w->bad = pgas_thread_attach() != PGAS_OK;
    w->slot = (uint32_t)pgas_thread_slot(pgas_thread_self());
    __atomic_fetch_add(&n_ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&work_over, __ATOMIC_ACQUIRE))
        pgas_progress();
    w->bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static pgas_status_t broadcast_to_threads(pgas_handler_t handler, pgas_sync_info_t *error_p)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    o.sync = &sync;
    pgas_status_t status = pgas_call_to(pgas_on_team_threads(NULL), handler, &me, sizeof me, &o);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&sync, -1);
    if (sync.count != 0 || pgas_sync_info(&sync, error_p) != PGAS_OK)
        status = PGAS_ERR_INTERNAL;
    return status;
}

/* n_runs for each of the slots from 0 on that have calls of their own. */
static int n_unlike(int n_slots, int n_expected)
{
    int n = 0;
    for (int i = 0; i < PGAS_THREADS_MAX; i++) {
        bool meant = i < n_slots && pgasi_ep_of_slot(i) >= 0;
        n += __atomic_exchange_n(&runs_of[i], 0, __ATOMIC_RELAXED) != (meant ? n_expected : 0);
    }
    return n;
}

static int with_eps(int n_slots)
{
    int n = 0;
    for (int i = 0; i < n_slots; i++)
        n += pgasi_ep_of_slot(i) >= 0;
    return n;
}

#define N_WORKERS 3

static void every_thread(void)
{
    pgas_sync_info_t error = { .size = sizeof error };
    pthread_t thread[N_WORKERS];
    worker_t worker[N_WORKERS];
    pgas_status_t expected = with_eps(1 + N_WORKERS) == 1 + N_WORKERS ? PGAS_OK : PGAS_ERR_LIMIT;
    int n_bad = 0;
    n_wrong = 0;
    pgas_quiesce();
    n_bad += broadcast_to_threads(on_each, &error) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(
        n_bad + n_wrong == 0 && n_unlike(1, n_ranks) == 0,
        "every thread runs it once; not those of the library, where handlers that block have run");
    for (int i = 0; i < N_WORKERS; i++)
        n_bad += pthread_create(&thread[i], NULL, work, &worker[i]) != 0;
    while (__atomic_load_n(&n_ready, __ATOMIC_ACQUIRE) < N_WORKERS)
        pgas_progress();
    n_bad += with_eps(N_WORKERS + 2) == N_WORKERS + 2 &&
             pgas_consumers_start(N_WORKERS + 1, 2) != PGAS_OK;
    pgas_barrier(NULL);
    pgas_status_t status = broadcast_to_threads(on_each, &error);
    n_bad += status != expected ||
             (status != PGAS_OK && (error.handler != on_each || error.status != status));
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_wrong == 0 && n_unlike(1 + N_WORKERS, n_ranks) == 0,
            "threads of the program, not consumers; those beyond PGAS_LANES are told of");
    pgas_barrier(NULL);
    n_bad += broadcast_to_threads(each_waits, &error) != expected || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_wrong == 0 && n_elsewhere == n_ranks * with_eps(1 + N_WORKERS),
            "and handlers that block, once a thread");
    n_bad +=
        with_eps(N_WORKERS + 2) == N_WORKERS + 2 && pgas_consumers_stop(N_WORKERS + 1) != PGAS_OK;
    __atomic_store_n(&work_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < N_WORKERS; i++)
        n_bad += pthread_join(thread[i], NULL) != 0 || worker[i].bad != 0;
    pgas_quiesce();
    n_bad += broadcast_to_threads(on_each, &error) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_wrong == 0 && n_unlike(1, n_ranks) == 0,
            "threads that have left are not meant any more");
}

/* As if the thread detached between the listing of threads and its turn. */
static void a_thread_that_leaves(void)
{
    int ep = pgasi_ep_of_slot(0), last = n_ranks - 1, n_bad = 0;
    pgas_sync_info_t error = { .size = sizeof error };
    if (me == last)
        pgasi_ep_set_left(ep, true);
    pgas_barrier(NULL);
    if (me == 0)
        n_bad += broadcast_to_threads(on_each, &error) != PGAS_ERR_PEER || error.rank != last ||
                 error.handler != on_each;
    pgas_barrier(NULL);
    if (me == last)
        pgasi_ep_set_left(ep, false);
    n_bad += pgas_quiesce() != PGAS_OK || n_unlike(me != last, 1) != 0;
    spmd_is_int(n_bad, 0,
                "a thread that leaves before its turn: the counter falls all the same, and names "
                "rank and handler");
}

/* ---- refusals ---- */

static void refusals(void)
{
    unsigned char *args = job_alloc(call_max + 1);
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = pgas_call_to(pgas_on_team(NULL), once, args, call_max + 1, NULL) != PGAS_ERR_LIMIT;
    n_bad +=
        pgas_call_to(pgas_on_team_threads(NULL), once, args, call_max - 23, NULL) != PGAS_ERR_LIMIT;
    n_bad += pgas_call_to(pgas_on_team(NULL), once, NULL, 1, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_to(pgas_on_team(NULL), 0, NULL, 0, NULL) != PGAS_ERR_NOT_FOUND;
    n_bad += pgas_call_to(pgas_on_team(NULL), 4000, NULL, 0, NULL) != PGAS_ERR_NOT_FOUND;
    pgas_target_t odd = pgas_on_team(NULL);
    odd.slot = -3;
    n_bad += pgas_call_to(odd, once, args, 4, NULL) != PGAS_ERR_INVALID;
    o.sync = &sync;
    n_bad += pgas_call_to(pgas_on_team(NULL), 4000, args, 4, &o) != PGAS_ERR_NOT_FOUND;
    n_bad += sync.count != 0;
    o = (pgas_call_opts_t)PGAS_CALL_OPTS_INIT;
    o.when = (pgas_when_t)7;
    n_bad += pgas_call_to(pgas_on_team(NULL), once, args, 4, &o) != PGAS_ERR_INVALID;
    o = (pgas_call_opts_t)PGAS_CALL_OPTS_INIT;
    o.size = 4;
    n_bad += pgas_call_to(pgas_on_team(NULL), once, args, 4, &o) != PGAS_ERR_INVALID;
    n_runs = 0;
    pgas_quiesce();
    spmd_ok(n_bad == 0 && n_runs == 0, "refused broadcasts run nowhere");
    free(args);
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    pgas_handler_register("t.once", on_once, &n_runs, NULL, &once);
    pgas_handler_register("t.ordered", on_ordered, NULL, NULL, &ordered);
    pgas_handler_register("t.again", on_again, NULL, NULL, &again);
    pgas_handler_register("t.gated", on_gated, NULL, &may_block, &gated);
    pgas_handler_register("t.each", on_each_thread, NULL, NULL, &on_each);
    pgas_handler_register("t.each_waits", on_each_waits, &n_elsewhere, &may_block, &each_waits);
    job_begin(&argc, &argv, 15);
    call_max = pgasi_param.call_max;
    one_root_after_the_other();
    other_completions();
    many_roots_at_once(spmd_seed(5));
    from_handlers();
    handlers_that_block();
    every_thread();
    a_thread_that_leaves();
    refusals();
    return job_end();
}
