/* Quiescence.
 *   what:   When pgas_quiesce returns on any rank, every call has run, and so have all calls that
 *           it has caused. This holds for each way of sending and for each thread that runs them:
 *           in many rounds, with more threads than cores. With work of the program's own, all of
 *           that has ended too, and threads continue it while they wait for others.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=2 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=64 |
 *   env:    PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/call.h; Mattern's four counters
 */
#include <pthread.h>
#include <semaphore.h>
#include "base/param.h"
#include "base/rng.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define ROUNDS 150

typedef struct {
    uint64_t seed;
    uint32_t depth, round;
} branch_t;

static pgas_handler_t branch, count, unit, echo;
static uint64_t n_ran, n_led_to, n_refused;
static uint32_t round_now;
static int n_early;
static pgas_agg_t *agg;

/* Each call leads to none, one or two more, directly, gathered, or through the handlers'
 * aggregator. */
static void on_branch(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    branch_t b;
    (void)source;
    (void)context;
    memcpy(&b, args, bytes);
    n_ran++;
    n_early += b.round != round_now;
    for (uint64_t i = 0; i < (b.depth ? b.seed % 3 : 0); i++) {
        uint64_t state = b.seed + i;
        branch_t child = { pgas_splitmix(&state), b.depth - 1, b.round };
        int rank = (int)(child.seed / 16 % (uint64_t)n_ranks);
        pgas_status_t status = child.seed & 8
                                   ? pgas_agg_call(agg, rank, branch, &child, sizeof child)
                                   : pgas_call(rank, branch, &child, sizeof child, NULL);
        n_led_to += status == PGAS_OK;
        n_refused += status != PGAS_OK;
    }
}

/* All that was sent has run, over all ranks; round_now changes afterwards, so a straggler is early
 * for the next round. */
static bool one_round(uint64_t seed, uint32_t round, uint64_t off_by)
{
    pgasi_rng_t rng;
    uint64_t sent = 0, mine[2], all[2] = { 0, 0 };
    bool good = true;
    pgasi_rng_seed(&rng, seed * 1000 + round * 64 + (uint64_t)me);
    n_ran = n_led_to = 0;
    round_now = round;
    pgas_barrier(NULL);
    for (uint64_t i = pgasi_rng_below(&rng, 4); i > 0; i--) {
        branch_t b = { pgasi_rng_u64(&rng), 8, round };
        good = pgas_call((int)pgasi_rng_below(&rng, (uint64_t)n_ranks), branch, &b, sizeof b,
                         NULL) == PGAS_OK &&
               good;
        sent++;
    }
    good = pgas_quiesce() == PGAS_OK && good;
    mine[0] = n_ran;
    mine[1] = sent + n_led_to + off_by;
    pgas_allreduce(NULL, mine, all, 2, PGAS_U64, PGAS_ADD);
    return good && all[0] == all[1];
}

static void random_rounds(uint64_t seed)
{
    int n_bad = 0;
    for (uint32_t round = 0; round < ROUNDS; round++)
        n_bad += !one_round(seed, round, 0);
    spmd_ok(n_bad == 0 && n_early == 0 && n_refused == 0, "%d rounds of calls that lead to calls",
            ROUNDS);
    spmd_ok(!one_round(seed, ROUNDS, me == 0), "a call that did not run would be noticed");
}

/* One call per round along all ranks: the shortest of everything, with most ranks asleep. */
static void single_calls(void)
{
    int n_bad = 0;
    for (int i = 0; i < 40; i++) {
        n_ran = 0;
        pgas_barrier(NULL);
        if (i % n_ranks == me)
            n_bad += pgas_call(job_right(), count, NULL, 0, NULL) != PGAS_OK;
        n_bad += pgas_quiesce() != PGAS_OK;
        n_bad += n_ran != (uint64_t)((i + 1) % n_ranks == me);
    }
    spmd_is_int(n_bad, 0, "single calls");
    n_bad = 0;
    for (int i = 0; i < 20; i++)
        n_bad += pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad, 0, "no calls at all");
}

static int calling, n_thread_bad;

static void *caller(void *arg)
{
    (void)arg;
    n_thread_bad += pgas_thread_attach() != PGAS_OK;
    for (int i = 0; i < 300; i++)
        n_thread_bad += pgas_call(i % n_ranks, count, NULL, 0, NULL) != PGAS_OK;
    n_thread_bad += pgas_thread_detach() != PGAS_OK;
    __atomic_store_n(&calling, 0, __ATOMIC_RELEASE);
    return NULL;
}

/* What another thread sent before it ended counts as well. */
static void calls_of_other_threads(void)
{
    pthread_t thread;
    n_ran = 0;
    calling = 1;
    pgas_barrier(NULL);
    pthread_create(&thread, NULL, caller, NULL);
    while (__atomic_load_n(&calling, __ATOMIC_ACQUIRE))
        pgas_progress();
    pthread_join(thread, NULL);
    int n_bad = pgas_quiesce() != PGAS_OK;
    uint64_t mine = n_ran, all = 0;
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && n_thread_bad == 0 && all == 300 * (uint64_t)n_ranks,
            "calls of other threads");
}

static sem_t issued, over;
static size_t away_bytes;
static int away_calls;

/* Calls, alone and gathered, then stays attached and out of the library until the others have
 * quiesced. */
static void *caller_that_goes_away(void *arg)
{
    static char args[4096];
    pgas_agg_t *own = NULL;
    (void)arg;
    n_thread_bad += pgas_thread_attach() != PGAS_OK || pgas_agg_create(NULL, &own) != PGAS_OK;
    for (int i = 1; i <= away_calls; i++)
        n_thread_bad += pgas_call((me + i) % n_ranks, count, args, away_bytes, NULL) != PGAS_OK;
    for (int i = 1; i < away_calls; i++)
        n_thread_bad += pgas_agg_call(own, (me + i) % n_ranks, count, args, away_bytes) != PGAS_OK;
    for (int r = 0; r < n_ranks; r++)
        n_thread_bad += pgas_agg_flush(own, r, NULL) != PGAS_OK;
    sem_post(&issued);
    sem_wait(&over);
    n_thread_bad += pgas_agg_destroy(own) != PGAS_OK || pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static void calls_of_a_thread_that_is_away(int n_calls, size_t bytes)
{
    pthread_t thread;
    n_ran = 0;
    away_calls = n_calls;
    away_bytes = bytes;
    sem_init(&issued, 0, 0);
    sem_init(&over, 0, 0);
    pgas_barrier(NULL);
    pthread_create(&thread, NULL, caller_that_goes_away, NULL);
    while (sem_trywait(&issued) != 0)
        pgas_progress();
    int n_bad = pgas_quiesce() != PGAS_OK;
    uint64_t mine = n_ran, all = 0;
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD);
    sem_post(&over);
    pthread_join(thread, NULL);
    spmd_ok(n_bad == 0 && n_thread_bad == 0 && all == (uint64_t)((2 * n_calls - 1) * n_ranks),
            "%d calls of %zu bytes by a thread that is away", n_calls, bytes);
}

/* ---- work of the program ---- */

#define UNITS 3000

static pgas_work_t work;
static uint64_t n_waiting, n_units_done; /* units that calls have brought; only depth counts */
static int n_inside, n_nested;           /* of run_unit */
static uint32_t waiting[64 * UNITS];
static pgasi_rng_t unit_rng;

/* A thread that sees the count sees the unit: with service threads another thread runs the
 * handlers, one at a time. */
static void on_unit(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    uint32_t depth;
    memcpy(&depth, args, sizeof depth);
    __atomic_fetch_add(&work.made, 1, __ATOMIC_RELEASE);
    waiting[n_waiting % (64 * UNITS)] = depth;
    __atomic_store_n(&n_waiting, n_waiting + 1, __ATOMIC_RELEASE);
}

/* A wait in the middle of work: meanwhile no other is begun by this thread. */
static void wait_a_moment(uint64_t word)
{
    uint64_t answer = 0;
    n_nested +=
        pgas_call_return(job_right(), echo, &word, sizeof word, &answer, sizeof answer) != PGAS_OK;
    n_nested += answer != word;
}

/* One unit: two further ones somewhere, of one depth less. Handlers run in progress alone, which is
 * not called in between unless a call waits. */
static int run_unit(void *arg)
{
    (void)arg;
    uint64_t n = __atomic_load_n(&n_waiting, __ATOMIC_ACQUIRE);
    if (n_units_done == n)
        return 0;
    uint64_t word = waiting[n_units_done++ % (64 * UNITS)];
    n_nested += n_inside++ > 0;
    if (n_units_done % 16 == 0)
        wait_a_moment(word);
    for (int i = 0; i < 2 && word > 0; i++) {
        uint64_t next = word - 1;
        pgas_call((int)pgasi_rng_below(&unit_rng, (uint64_t)n_ranks), unit, &next, sizeof next,
                  NULL);
    }
    __atomic_fetch_add(&work.ended, 1, __ATOMIC_RELEASE);
    n_inside--;
    return 1;
}

static void work_of_the_program_ends(uint64_t seed)
{
    uint64_t deep = 10, sums[3], all[3], want = (UINT64_C(2) << deep) - 1;
    int n_bad = 0, n_left = 0;
    pgasi_rng_seed(&unit_rng, seed + (uint64_t)me);
    work.run = run_unit;
    for (int round = 0; round < 5; round++) {
        n_bad += me == round % n_ranks &&
                 pgas_call(job_right(), unit, &deep, sizeof deep, NULL) != PGAS_OK;
        n_bad += pgas_quiesce_work(&work) != PGAS_OK;
        n_left += n_units_done != n_waiting;
        spmd_barrier();
    }
    sums[0] = n_units_done;
    sums[1] = work.made;
    sums[2] = work.ended;
    pgas_allreduce(NULL, sums, all, 3, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && n_left == 0 && all[0] == 5 * want && all[1] == all[2],
            "work of the program has ended, with all that it led to (%d of %d)", (int)all[0],
            (int)(5 * want));
    spmd_is_int(n_nested, 0, "work is not begun inside itself, when it waits");
    spmd_barrier();
    n_bad += pgas_call(job_right(), unit, &deep, sizeof deep, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_units_done + 1 == n_waiting, "without it, it stays");
    pgas_quiesce_work(&work);
    work.run = NULL;
    spmd_ok(pgas_quiesce_work(&work) == PGAS_ERR_INVALID && pgas_quiesce_work(NULL) == PGAS_OK,
            "work without a function is refused");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.unit", on_unit, NULL, NULL, &unit);
    pgas_handler_register("t.echo", on_echo, NULL, NULL, &echo);
    pgas_handler_register("t.branch", on_branch, NULL, NULL, &branch);
    pgas_handler_register("t.count", on_count, &n_ran, NULL, &count);
    job_begin(&argc, &argv, 12);
    uint64_t seed = spmd_seed(5);
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.for_handlers = true;
    if (pgas_agg_create(&opts, &agg) != PGAS_OK)
        return 1;
    calls_of_a_thread_that_is_away(1, 8); /* first: its context is not connected yet */
    calls_of_a_thread_that_is_away(1, pgasi_param.call_max < 4096 ? pgasi_param.call_max : 4096);
    calls_of_a_thread_that_is_away(100, 64);
    random_rounds(seed);
    single_calls();
    calls_of_other_threads();
    work_of_the_program_ends(seed);
    pgas_agg_destroy(agg);
    return job_end();
}
