/* Aggregators.
 *   what:   Gathered calls run after a flush, when a batch is full, after a direct call to the same
 *           rank, and at quiesce, and not before. They run in order, and none is lost. Handlers may
 *           gather too. A counter reports that the calls have run.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_AGG_SIZE=64 PGAS_CALL_MAX=64 | PGAS_CHUNK_SIZE=4K
 *   env:    PGAS_CALL_MAX=1K PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_AGG_SIZE=1M PGAS_CHUNK_SIZE=16K |
 *   env:    PGAS_SERVICE_THREADS=2
 *   source: pgas/call.h
 */
#include "base/rng.h"
#include "t/spmd/job.h"

static pgas_handler_t add, ordered, forward, misuse, ask, add_here, relay;
static uint64_t n_added, sum, next_of[JOB_RANKS_MAX];
static int n_wrong;
static pgas_agg_t *handlers_agg, *my_agg;
static pgas_gptr_t counter_of[JOB_RANKS_MAX]; /* in the heap: others read it without a call */
static uint64_t *counter;
static pgas_sync_t relayed = PGAS_SYNC_INIT;

static void on_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t value = 0;
    (void)source;
    (void)context;
    memcpy(&value, args, bytes < 8 ? bytes : 8);
    sum += value;
    /* a thread that waits for the last one reads the sum */
    __atomic_store_n(&n_added, n_added + 1, __ATOMIC_RELEASE);
}

static void on_ordered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += number != next_of[pgas_thread_rank(source)]++ || bytes != 8 + number % 5 * 4;
}

/* Sends the value on to as many ranks as it says, one by one. */
static void on_forward(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t value;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&value, args, sizeof value);
    for (uint64_t i = 0; i < 3; i++)
        n_wrong += pgas_agg_call(handlers_agg, (int)((value + i) % (uint64_t)n_ranks), add, &value,
                                 sizeof value) != PGAS_OK;
    if (value % 16 == 0)
        n_wrong += pgas_agg_flush(handlers_agg, (int)(value % (uint64_t)n_ranks), NULL) != PGAS_OK;
    if (value % 64 == 0)
        n_wrong += pgas_agg_flush(handlers_agg, PGAS_ALL, NULL) != PGAS_OK;
}

static void on_misuse(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_wrong += pgas_agg_flush(my_agg, PGAS_ALL, NULL) != PGAS_ERR_CONTEXT;
    n_wrong += pgas_agg_call_far(my_agg, me, add, NULL, 0) != PGAS_ERR_CONTEXT;
    uint64_t one = 1;
    for (int i = 0; i < 3; i++) /* the second would go the inline way if the first had opened it */
        n_wrong += pgas_agg_call(my_agg, me, add, &one, sizeof one) != PGAS_ERR_CONTEXT;
}

static void on_add_here(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
}

/* Adds at the next rank a few times, and decrements a counter of this rank. */
static void on_relay(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    for (int i = 0; i < 9; i++)
        n_wrong += pgas_agg_call(handlers_agg, job_right(), add_here, args, bytes) != PGAS_OK;
    n_wrong += pgas_agg_flush(handlers_agg, job_right(), &relayed) != PGAS_OK ||
               pgas_sync_done(&relayed, 1) != PGAS_OK;
}

static void on_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    pgas_reply(&n_added, sizeof n_added);
}

static uint64_t ran_at(int rank)
{
    uint64_t n = UINT64_MAX;
    return pgas_call_return(rank, ask, NULL, 0, &n, sizeof n) == PGAS_OK ? n : UINT64_MAX;
}

static void reset(void)
{
    pgas_quiesce();
    n_added = sum = 0;
    pgas_barrier(NULL);
}

/* A question from the same thread would publish (calls of a thread keep their order), so the owners
 * check themselves. */
static void nothing_runs_before_its_time(void)
{
    uint64_t value = 5;
    int n_bad = 0, right = job_right();
    reset();
    n_bad += pgas_agg_call(my_agg, right, add, &value, 8) != PGAS_OK;
    n_bad += pgas_agg_call(my_agg, me, add, &value, 8) != PGAS_OK;
    for (int i = 0; i < 50; i++)
        pgas_progress();
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && n_added == 0, "gathered calls have not run");
    n_bad += pgas_agg_flush(my_agg, me, NULL) != PGAS_OK;
    uint64_t want = n_ranks == 1 ? 2 : 1;
    while (__atomic_load_n(&n_added, __ATOMIC_ACQUIRE) < want)
        pgas_progress();
    pgas_barrier(NULL);
    uint64_t seen = __atomic_load_n(&n_added, __ATOMIC_RELAXED);
    spmd_ok(n_bad == 0 && seen == want, "a flush publishes for its rank");
    n_bad += pgas_agg_flush(my_agg, PGAS_ALL, NULL) != PGAS_OK ||
             pgas_agg_flush(my_agg, PGAS_ALL, NULL) != PGAS_OK;
    while (__atomic_load_n(&n_added, __ATOMIC_ACQUIRE) < 2)
        pgas_progress();
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && n_added == 2 && sum == 10, "and for all");
}

static void enough_publishes_itself(void)
{
    uint64_t value = 1, n = 0;
    int n_bad = 0, right = job_right();
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    pgas_agg_t *agg = NULL;
    opts.publish_bytes = 128;
    opts.latency_us = -1;
    reset();
    n_bad += pgas_agg_create(&opts, &agg) != PGAS_OK;
    for (; n < 40; n++)
        n_bad += pgas_agg_call(agg, right, add, &value, 8) != PGAS_OK;
    while (__atomic_load_n(&n_added, __ATOMIC_RELAXED) < 24)
        pgas_progress();
    spmd_is_int(n_bad, 0, "enough of them go by themselves");
    n_bad += pgas_call(right, add, &value, 8, NULL) != PGAS_OK;
    while (__atomic_load_n(&n_added, __ATOMIC_RELAXED) < 41)
        pgas_progress();
    spmd_is_int(n_bad, 0, "a direct call to the rank also sends the calls gathered before");
    n_bad += pgas_agg_call(agg, right, add, &value, 8) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_added == 42, "quiesce publishes");
    n_bad +=
        pgas_agg_call(agg, right, add, &value, 8) != PGAS_OK || pgas_agg_destroy(agg) != PGAS_OK;
    n_bad += ran_at(right) < 42 || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_added == 43, "so does the end of an aggregator");
}

/* Two aggregators of a thread and direct calls: one order. Sizes make records of 16 to 32 bytes. */
/* With the usual sizes two chunks have room for all of these calls, so that the thread never waits.
 * What it sends to itself is what arrives. */
static void who_sends_also_runs(void)
{
    enum { N = 8000, ARGS = 8 };
    pgas_agg_t *agg;
    uint64_t value = 1, ran = 0;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    reset();
    for (int i = 0; i < N; i++)
        n_bad += pgas_agg_call(agg, me, add, &value, ARGS) != PGAS_OK;
    ran = __atomic_load_n(&n_added, __ATOMIC_ACQUIRE);
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && ran > 0 && n_added == N,
            "a thread that only aggregates runs what arrives");
    n_bad = pgas_agg_destroy(agg) != PGAS_OK;
    spmd_is_int(n_bad, 0, "its aggregator ends");
}

static void one_order_for_all(uint64_t seed)
{
    enum { N = 4000 };
    static uint64_t sent[JOB_RANKS_MAX], expected[JOB_RANKS_MAX];
    pgas_agg_t *agg[2] = { NULL, NULL };
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    reset();
    n_wrong = 0;
    for (int i = 0; i < 2; i++)
        n_bad += pgas_agg_create(NULL, &agg[i]) != PGAS_OK;
    for (int i = 0; i < N; i++) {
        uint64_t args[4] = { 0, 0, 0, 0 }, draw = pgasi_rng_u64(&rng);
        int rank = (int)(draw / 1000 % (uint64_t)n_ranks);
        args[0] = sent[rank]++;
        size_t bytes = 8 + args[0] % 5 * 4;
        if (draw % 97 == 0)
            n_bad += pgas_call(rank, ordered, args, bytes, NULL) != PGAS_OK;
        else
            n_bad += pgas_agg_call(agg[draw % 2], rank, ordered, args, bytes) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_alltoall(NULL, sent, expected, sizeof sent[0]);
    for (int r = 0; r < n_ranks; r++)
        n_bad += next_of[r] != expected[r];
    spmd_ok(n_bad == 0 && n_wrong == 0,
            "calls of a thread to a rank run in order, whatever they went through");
    next_of[me]++;
    uint64_t args[1] = { sent[me] };
    n_bad = pgas_agg_call(agg[0], me, ordered, args, 8 + args[0] % 5 * 4 <= 8 ? 8 : 8) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong > 0, "one that is missing would be noticed");
    n_wrong = 0;
    for (int i = 0; i < 2; i++)
        pgas_agg_destroy(agg[i]);
}

static void handlers_gather(void)
{
    enum { N = 700 };
    int n_bad = 0;
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.for_handlers = true;
    reset();
    n_bad += pgas_agg_create(&opts, &handlers_agg) != PGAS_OK;
    pgas_barrier(NULL);
    for (uint64_t i = 0; i < N; i++)
        n_bad +=
            pgas_agg_call(my_agg, (int)(i % (uint64_t)n_ranks), forward, &i, sizeof i) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    uint64_t mine[2] = { n_added, sum }, all[2] = { 0, 0 };
    pgas_allreduce(NULL, mine, all, 2, PGAS_U64, PGAS_ADD);
    uint64_t n = (uint64_t)n_ranks * N;
    spmd_ok(n_bad == 0 && n_wrong == 0 && all[0] == 3 * n &&
                all[1] == 3 * (uint64_t)n_ranks * N * (N - 1) / 2,
            "what handlers gather runs as well");
    n_bad = pgas_agg_flush(handlers_agg, PGAS_ALL, NULL) != PGAS_ERR_CONTEXT;
    n_bad += pgas_agg_call_far(handlers_agg, me, add, NULL, 0) != PGAS_ERR_CONTEXT;
    pgas_barrier(NULL);
    n_bad += pgas_call(me, misuse, NULL, 0, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == 0, "handlers and threads use their own");
    spmd_ok(pgas_agg_destroy(handlers_agg) == PGAS_OK, "the handlers' aggregator ends");
}

static uint64_t counter_at(int rank)
{
    uint64_t n = UINT64_MAX;
    return pgas_get(&n, counter_of[rank], sizeof n) == PGAS_OK ? n : UINT64_MAX;
}

/* Looks by get, which is in no order with calls. */
static void a_counter_tells(void)
{
    enum { N = 3000 };
    pgas_gptr_t mine;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = pgas_alloc(sizeof *counter, &mine) != PGAS_OK, right = job_right();
    job_gather(mine, counter_of);
    counter = pgas_gptr_local(mine, sizeof *counter);
    reset();
    *counter = 0;
    pgas_barrier(NULL);
    for (uint64_t i = 0; i < N; i++)
        n_bad += pgas_agg_call(my_agg, right, add_here, &i, sizeof i) != PGAS_OK;
    n_bad +=
        pgas_agg_flush(my_agg, right, &sync) != PGAS_OK || pgas_sync_wait(&sync, -1) != PGAS_OK;
    spmd_ok(n_bad == 0 && counter_at(right) == N,
            "a counter is decremented when the calls gathered for a rank have run");
    pgas_barrier(NULL);
    pgas_sync_add(&sync, 1);
    for (uint64_t i = 0; i < N * (uint64_t)n_ranks; i++)
        n_bad +=
            pgas_agg_call(my_agg, (int)(i % (uint64_t)n_ranks), add_here, &i, sizeof i) != PGAS_OK;
    n_bad += pgas_agg_flush(my_agg, PGAS_ALL, &sync) != PGAS_OK;
    while (sync.count > 1)
        pgas_progress();
    bool others = false; /* all of mine are there; those of others may be */
    for (int r = 0; r < n_ranks; r++)
        others |= counter_at(r) < 2 * N;
    n_bad += pgas_sync_test(&sync) != PGAS_INPROGRESS;
    n_bad += pgas_agg_flush(my_agg, PGAS_ALL, &sync) != PGAS_OK ||
             pgas_sync_done(&sync, 1) != PGAS_OK || pgas_sync_wait(&sync, -1) != PGAS_OK;
    spmd_ok(n_bad == 0 && !others && sync.count == 0,
            "and once when it has run at all ranks, again if asked again");
    n_bad = pgas_agg_flush(my_agg, n_ranks, &sync) != PGAS_ERR_RANGE ||
            pgas_agg_flush(my_agg, -2, &sync) != PGAS_ERR_RANGE;
    n_bad += pgas_agg_flush(my_agg, 0, NULL) != PGAS_OK ||
             pgas_agg_flush(NULL, 0, &sync) != PGAS_ERR_INVALID;
    n_bad += sync.count != 0;
    spmd_is_int(n_bad, 0, "no such rank, no counter: refused, and the counter is left alone");
}

static void handlers_tell(void)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    uint64_t value = 0;
    opts.for_handlers = true;
    n_wrong = 0;
    reset();
    *counter = 0;
    int n_bad = pgas_agg_create(&opts, &handlers_agg) != PGAS_OK;
    n_bad += pgas_sync_add(&relayed, 1) != PGAS_OK; /* until the handler has flushed */
    pgas_barrier(NULL);
    n_bad += pgas_call(job_right(), relay, &value, sizeof value, NULL) != PGAS_OK;
    n_bad += pgas_sync_wait(&relayed, -1) != PGAS_OK || counter_at(job_right()) != 9;
    spmd_ok(n_bad == 0 && n_wrong == 0, "handlers flush with a counter too");
    pgas_quiesce();
    pgas_agg_destroy(handlers_agg);
    pgas_free(counter_of[me]);
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.add", on_add, NULL, NULL, &add);
    pgas_handler_register("t.ordered", on_ordered, NULL, NULL, &ordered);
    pgas_handler_register("t.forward", on_forward, NULL, NULL, &forward);
    pgas_handler_register("t.misuse", on_misuse, NULL, NULL, &misuse);
    pgas_handler_register("t.ask", on_ask, NULL, NULL, &ask);
    pgas_handler_register("t.add_here", on_add_here, NULL, NULL, &add_here);
    pgas_handler_register("t.relay", on_relay, NULL, NULL, &relay);
    job_begin(&argc, &argv, 19);
    uint64_t seed = spmd_seed(31);
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.latency_us = -1;
    spmd_ok(pgas_agg_create(&opts, &my_agg) == PGAS_OK, "an aggregator");
    nothing_runs_before_its_time();
    enough_publishes_itself();
    who_sends_also_runs();
    one_order_for_all(seed);
    handlers_gather();
    a_counter_tells();
    handlers_tell();
    pgas_agg_destroy(my_agg);
    return job_end();
}
