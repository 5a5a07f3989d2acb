/* Counters of calls between ranks.
 *   what:   An accepted call raises its counter, and its local, remote or executed completion
 *           lowers it; a refused call leaves it alone. A rank of the node lowers it directly if it
 *           is in the heap, otherwise a message does. The program raises and lowers it, too. It
 *           runs its function at zero, and can be used again. One counter serves operations of all
 *           kinds; a thread waits for all of several counters or for any. Errors name peer,
 *           operation and handler. Answers leave from any thread that runs the handler.
 *   np:     1 2 3 4 5
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_ON_PEER_DEATH=continue |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_SERVICE_THREADS=2 PGAS_CHUNK_SIZE=4K
 *   env:    PGAS_CALL_MAX=1K
 *   log:    which does not exist here
 *   source: pgas/sync.h, pgas/call.h
 */
#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "call/handler.h"
#include "call/sync.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define N 60

static pgas_handler_t count, order, ran, echo, relay, defer, release, hidden, numbered;
static uint64_t n_counted, n_ran;
static pgas_gptr_t counter_memory, word_memory;

static int left(void)
{
    return (me + n_ranks - 1) % n_ranks;
}

static bool is_near(int rank)
{
    return pgas_node_of(rank) == pgas_node();
}

static bool writes_counters(void)
{
    return pgasi_param.on_peer_death == PGASI_ON_PEER_DEATH_ABORT;
}

static pgas_sync_t *in_heap(void)
{
    return pgas_gptr_local(counter_memory, sizeof(pgas_sync_t));
}

static pgas_status_t call_when(int rank, pgas_handler_t handler, pgas_when_t when, pgas_full_t full,
                               pgas_sync_t *sync)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = sync;
    opts.when = when;
    opts.full = full;
    return pgas_call_to(pgas_on_rank(rank), handler, NULL, 0, &opts);
}

/* ---- local, remote, executed ---- */

static pgas_sync_t *watched;
static int64_t missing_when_ran;

/* Reports to the caller that it runs. */
static void on_order(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)context;
    pgas_call(pgas_thread_rank(source), ran, NULL, 0, NULL);
}

static void on_ran(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    missing_when_ran = watched->count;
    __atomic_store_n(&n_ran, n_ran + 1, __ATOMIC_RELEASE);
}

/* The count of one completion when the answer from inside the handler has come back, or on return
 * of the call if the caller completes it itself. */
static int64_t missing(int rank, pgas_when_t when, pgas_full_t full, pgas_sync_t *sync,
                       int *n_bad_p)
{
    uint64_t before = __atomic_load_n(&n_ran, __ATOMIC_ACQUIRE);
    watched = sync;
    *n_bad_p += call_when(rank, order, when, full, sync) != PGAS_OK;
    bool at_once =
        when == PGAS_LOCAL || (when == PGAS_REMOTE && is_near(rank) && full == PGAS_FULL_WAIT);
    int64_t now = sync->count;
    while (__atomic_load_n(&n_ran, __ATOMIC_ACQUIRE) == before)
        pgas_progress();
    *n_bad_p += pgas_sync_wait(sync, -1) != PGAS_OK || sync->count != 0;
    return at_once ? now : missing_when_ran;
}

static void three_kinds(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_local = 0, n_remote = 0, n_executed = 0, n_bad = 0;
    for (int i = 0; i < 30; i++) {
        int rank = i % n_ranks;
        pgas_full_t full = i % 2 ? PGAS_FULL_WAIT : PGAS_FULL_QUEUE;
        n_local += missing(rank, PGAS_LOCAL, full, &sync, &n_bad) == 0;
        n_remote += missing(rank, PGAS_REMOTE, full, &sync, &n_bad) == 0;
        n_remote += missing(rank, PGAS_REMOTE, full, in_heap(), &n_bad) == 0;
        n_executed += missing(rank, PGAS_EXECUTED, full, &sync, &n_bad) == 1;
        missing(rank, PGAS_EXECUTED, full, in_heap(), &n_bad);
    }
    spmd_ok(n_bad == 0 && n_local == 30, "local: fallen on return");
    spmd_ok(n_remote == 60, "remote: fallen before the word from inside the handler");
    spmd_ok(n_executed == 30, "executed: after it");
}

static void on_relay(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int bad = 0;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    for (int when = PGAS_EXECUTED; when <= PGAS_LOCAL; when++)
        bad += call_when(job_right(), count, (pgas_when_t)when, PGAS_FULL_WAIT, watched) != PGAS_OK;
    bad += pgas_sync_done(watched, 1) != PGAS_OK;
    if (bad)
        pgas_sync_add(watched, 1000);
}

static void from_handlers(void)
{
    int n_bad = 0;
    for (int i = 0; i < 20; i++) {
        pgas_sync_t sync = PGAS_SYNC_INIT, *used = i % 2 ? &sync : in_heap();
        watched = used;
        pgas_sync_add(used, 1); /* until the handler has made its calls */
        n_bad += pgas_call(me, relay, NULL, 0, NULL) != PGAS_OK;
        n_bad += pgas_sync_wait(used, -1) != PGAS_OK || used->count != 0;
    }
    spmd_is_int(n_bad, 0, "all three from inside a handler");
}

/* ---- calls to a thread ---- */

static int released;

static void on_release(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
}

/* The first threads of odd ranks do not enter the library until they are released, if another
 * thread serves. */
static void to_a_thread(void)
{
    bool serves = pgasi_param.service_threads > 0;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_sync_t arrived = PGAS_SYNC_INIT, other = PGAS_SYNC_INIT;
    pgas_sync_t *syncs[2] = { &other, in_heap() };
    int n_bad = 0, rank = me + 1;
    released = 0;
    pgas_quiesce();
    if (serves) {
        spmd_progress(NULL);
        spmd_barrier(); /* no thread is in the library's wait any more */
        spmd_progress(job_progress);
    }
    if (me % 2) {
        while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE))
            if (!serves)
                pgas_progress();
    } else if (rank < n_ranks) {
        pgas_thread_t thread = pgas_thread_make(rank, 0);
        for (int k = 0; k < 2; k++) {
            opts.sync = syncs[k];
            n_bad += pgas_call_to(pgas_on_thread(thread), count, NULL, 0, &opts) != PGAS_OK;
        }
        opts.sync = &arrived;
        opts.when = PGAS_REMOTE;
        n_bad += pgas_call_to(pgas_on_thread(thread), count, NULL, 0, &opts) != PGAS_OK ||
                 pgas_sync_wait(&arrived, -1) != PGAS_OK;
        n_bad += serves && (syncs[0]->count != 1 || syncs[1]->count != 1);
        n_bad += pgas_call(rank, release, NULL, 0, NULL) != PGAS_OK;
        n_bad += pgas_sync_wait_all(syncs, 2, -1) != PGAS_OK;
    }
    pgas_quiesce();
    spmd_is_int(n_bad, 0,
                "a call to a thread that is away has arrived, and runs when the thread is back");
}

/* ---- which way ---- */

typedef struct {
    uint64_t answers, written;
} told_t;

/* N calls to the next rank. @return completions that this rank has sent to the one before meanwhile
 * */
static told_t told_for(pgas_sync_t *sync, pgas_when_t when, pgas_full_t full, int *n_bad_p)
{
    pgas_barrier(NULL);
    pgasi_sync_stats_t before = pgasi_sync_stats;
    pgas_barrier(NULL);
    *sync = (pgas_sync_t)PGAS_SYNC_INIT;
    for (int i = 0; i < N; i++)
        *n_bad_p += call_when(job_right(), count, when, full, sync) != PGAS_OK;
    *n_bad_p += pgas_sync_wait(sync, -1) != PGAS_OK || sync->count != 0;
    /* a direct completion is counted afterwards, possibly by a service thread */
    *n_bad_p += pgas_quiesce() != PGAS_OK;
    return (told_t){ pgasi_sync_stats.n_answers - before.n_answers,
                     pgasi_sync_stats.n_written - before.n_written };
}

static void on_zero(pgas_sync_t *sync, void *arg)
{
    (void)sync;
    __atomic_add_fetch((int *)arg, 1, __ATOMIC_RELEASE);
}

static void ways(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    bool near = is_near(left()), writes = near && writes_counters();
    told_t t = told_for(in_heap(), PGAS_EXECUTED, PGAS_FULL_WAIT, &n_bad);
    spmd_ok(n_bad == 0 && t.written == (writes ? N : 0) && t.answers == (writes ? 0 : N),
            "in the heap of the node: written, no message; between nodes and where ranks may die: "
            "messages");
    t = told_for(&sync, PGAS_EXECUTED, PGAS_FULL_WAIT, &n_bad);
    spmd_ok(n_bad == 0 && t.written == 0 && t.answers == N, "elsewhere in memory: messages");
    t = told_for(in_heap(), PGAS_REMOTE, PGAS_FULL_QUEUE, &n_bad);
    told_t u = told_for(in_heap(), PGAS_REMOTE, PGAS_FULL_WAIT, &n_bad);
    told_t v = told_for(in_heap(), PGAS_LOCAL, PGAS_FULL_WAIT, &n_bad);
    spmd_ok(n_bad == 0 && t.written == (writes ? N : 0) && t.answers == (writes ? 0 : N) &&
                u.written == 0 && u.answers == (near ? 0 : N) && v.written + v.answers == 0,
            "remote and local: only where the caller cannot know it");
}

static uint64_t stat(const char *label)
{
    static char text[4096];
    FILE *file = fmemopen(text, sizeof text, "w");
    pgas_stats_print(file);
    fclose(file);
    const char *at = strstr(text, label);
    return at ? strtoull(at + strlen(label), NULL, 10) : UINT64_MAX;
}

static void statistics(void)
{
    spmd_ok(stat("reported by message ") == pgasi_sync_stats.n_answers &&
                stat("written to the counter ") == pgasi_sync_stats.n_written,
            "the statistics count each");
}

/* ---- by hand, function, reuse ---- */

static void by_hand(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = pgas_sync_add(&sync, 10) != PGAS_OK || sync.count != 10;
    n_bad += pgas_sync_done(&sync, 7) != PGAS_OK || pgas_sync_test(&sync) != PGAS_INPROGRESS ||
             sync.count != 3;
    n_bad += pgas_sync_done(&sync, 0) != PGAS_OK || sync.count != 3;
    n_bad += pgas_call(job_right(), count, NULL, 0, &sync) != PGAS_OK ||
             pgas_call(left(), count, NULL, 0, &sync) != PGAS_OK;
    n_bad += pgas_sync_done(&sync, 3) != PGAS_OK || pgas_sync_wait(&sync, -1) != PGAS_OK ||
             sync.count != 0;
    n_bad += pgas_sync_done(&sync, 2) != PGAS_OK || pgas_sync_test(&sync) != PGAS_OK;
    n_bad += pgas_sync_reset(&sync) != PGAS_OK || sync.count != 0;
    n_bad += call_when(job_right(), count, PGAS_REMOTE, PGAS_FULL_WAIT, &sync) != PGAS_OK ||
             pgas_sync_wait(&sync, -1) != PGAS_OK;
    n_bad += pgas_sync_done(&sync, -1) != PGAS_ERR_INVALID ||
             pgas_sync_done(NULL, 1) != PGAS_ERR_INVALID || sync.count != 0;
    n_bad += pgas_sync_add(&sync, -1) != PGAS_ERR_INVALID ||
             pgas_sync_add(NULL, 1) != PGAS_ERR_INVALID || sync.count != 0;
    n_bad += pgas_sync_reset(NULL) != PGAS_ERR_INVALID;
    spmd_is_int(n_bad, 0,
                "calls and the program raise and lower one counter, by one and by n; it is used "
                "again");
}

static void functions(void)
{
    pgas_sync_t other, *syncs[2] = { &other, in_heap() };
    int n_bad = 0;
    for (int k = 0; k < 2; k++) {
        int n_zero = 0;
        *syncs[k] = (pgas_sync_t)PGAS_SYNC_INIT_FN(on_zero, &n_zero);
        n_bad += pgas_sync_done(syncs[k], 0) != PGAS_OK;
        for (int round = 1; round <= 20; round++) {
            n_bad += __atomic_load_n(&n_zero, __ATOMIC_ACQUIRE) != round - 1;
            pgas_sync_add(syncs[k], 5);
            for (int r = 0; r < n_ranks; r++)
                n_bad += call_when(r, count, (pgas_when_t)(round % 3), PGAS_FULL_WAIT, syncs[k]) !=
                         PGAS_OK;
            n_bad += __atomic_load_n(&n_zero, __ATOMIC_ACQUIRE) != round - 1;
            n_bad +=
                pgas_sync_done(syncs[k], 4) != PGAS_OK || pgas_sync_done(syncs[k], 1) != PGAS_OK;
            while (__atomic_load_n(&n_zero, __ATOMIC_ACQUIRE) < round)
                pgas_progress();
            /* below zero it runs nothing */
            n_bad += syncs[k]->count != 0 || pgas_sync_done(syncs[k], 3) != PGAS_OK ||
                     pgas_sync_add(syncs[k], 3) != PGAS_OK;
        }
        n_bad += pgas_quiesce() != PGAS_OK || n_zero != 20;
        *syncs[k] = (pgas_sync_t)PGAS_SYNC_INIT;
    }
    spmd_is_int(n_bad, 0,
                "a function runs once for each zero, whichever thread lowers the counter");
}

/* Each zero makes the next call, until the last. The call comes last, because the thread that
 * answers it may reach the next zero at once. */
static int n_hops_left, hops_bad;

static void on_zero_call_on(pgas_sync_t *sync, void *arg)
{
    (void)arg;
    int n = __atomic_fetch_sub(&n_hops_left, 1, __ATOMIC_ACQ_REL);
    if (n > 0 && pgas_call((me + n) % n_ranks, count, NULL, 0, sync) != PGAS_OK)
        __atomic_add_fetch(&hops_bad, 1, __ATOMIC_RELAXED);
}

static void functions_call(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT_FN(on_zero_call_on, NULL);
    pgas_gptr_t there = pgas_gptr_at(word_memory, job_right());
    uint64_t mine = (uint64_t)me + 1, theirs = 0;
    hops_bad = 0;
    for (int round = 0; round < 10; round++) {
        n_hops_left = 10;
        pgas_sync_add(&sync, 1);
        /* Between nodes they complete under a context's lock, where no function runs. */
        if (round % 2)
            hops_bad += pgas_put_nb(there, &mine, 8, PGAS_REMOTE, &sync) != PGAS_OK ||
                        pgas_get_nb(&theirs, pgas_gptr_add(there, 8), 8, &sync) != PGAS_OK;
        hops_bad += pgas_sync_done(&sync, 1) != PGAS_OK;
        while (__atomic_load_n(&n_hops_left, __ATOMIC_ACQUIRE) >= 0)
            pgas_progress();
    }
    spmd_ok(hops_bad == 0 && sync.count == 0, "a function makes the next call with its counter");
    pgas_quiesce();
}

/* ---- refusals ---- */

static void refused(void)
{
    static char args[1 << 15];
    int n_zero = 0, n_bad = 0;
    for (int k = 0; k < 2; k++) {
        pgas_sync_t sync = PGAS_SYNC_INIT_FN(on_zero, &n_zero);
        pgas_sync_add(&sync, k); /* zero, and above */
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        opts.sync = &sync;
        n_bad += pgas_call(n_ranks, count, NULL, 0, &sync) != PGAS_ERR_RANGE ||
                 pgas_call(0, 0, NULL, 0, &sync) != PGAS_ERR_NOT_FOUND ||
                 pgas_call(0, count, NULL, 8, &sync) != PGAS_ERR_INVALID;
        n_bad += pgas_call(0, count, args, sizeof args, &sync) != PGAS_ERR_LIMIT;
        n_bad += pgas_call_return_nb(0, echo, NULL, 0, NULL, 8, &sync) != PGAS_ERR_INVALID ||
                 pgas_call_to(pgas_on_team(NULL), 0, NULL, 0, &opts) != PGAS_ERR_NOT_FOUND;
        n_bad += sync.count != k || sync.error != 0 || n_zero != 0;
    }
    spmd_is_int(n_bad, 0, "a refused call leaves the counter alone, and runs no function");
}

/* ---- several kinds, several counters ---- */

static void all_kinds(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    uint64_t value = 7, reply[2] = { 0, 0 }, one = 1, old[20], got[20];
    pgas_gptr_t there = pgas_gptr_at(word_memory, job_right());
    char data[3000] = { 0 };
    pgas_buffer_t pull = { PGAS_BUFFER_PULL, data, sizeof data, PGAS_NULL, false, NULL };
    pgas_agg_t *agg = NULL;
    opts.sync = &sync;
    pgas_call_opts_t pulls = opts;
    pulls.local = &sync;
    pulls.buffers = &pull;
    pulls.n_buffers = 1;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    uint64_t before = __atomic_load_n(&n_counted, __ATOMIC_RELAXED);
    pgas_barrier(NULL);
    for (int i = 0; i < 20; i++) {
        for (int r = 0; r < n_ranks; r++) {
            n_bad += pgas_call(r, count, NULL, 0, &sync) != PGAS_OK;
            n_bad += call_when(r, count, PGAS_REMOTE, PGAS_FULL_QUEUE, &sync) != PGAS_OK;
            n_bad += pgas_call_to(pgas_on_rank(r), count, NULL, 0, &pulls) != PGAS_OK;
            n_bad += pgas_agg_call(agg, r, count, NULL, 0) != PGAS_OK;
        }
        n_bad +=
            pgas_call_return_nb(job_right(), echo, &value, 8, &reply[i % 2], 8, &sync) != PGAS_OK;
        n_bad += pgas_call_to(pgas_on_team(NULL), count, NULL, 0, &opts) != PGAS_OK;
        n_bad += pgas_agg_flush(agg, PGAS_ALL, &sync) != PGAS_OK;
        n_bad += pgas_put_nb(there, &value, 8, i % 2 ? PGAS_LOCAL : PGAS_REMOTE, &sync) != PGAS_OK;
        n_bad += pgas_get_nb(&got[i], pgas_gptr_add(there, 8), 8, &sync) != PGAS_OK;
        n_bad += pgas_fetch_op_nb(pgas_gptr_add(there, 16), PGAS_OP(PGAS_ADD, PGAS_U64), &one,
                                  &old[i], &sync) != PGAS_OK;
        n_bad += pgas_sync_add(&sync, 2) != PGAS_OK || pgas_sync_done(&sync, 2) != PGAS_OK;
    }
    n_bad +=
        pgas_sync_wait(&sync, -1) != PGAS_OK || sync.count != 0 || reply[0] != 7 || reply[1] != 7;
    for (uint64_t i = 0; i < 20; i++)
        n_bad += old[i] != i || got[i] != 0;
    n_bad += pgas_agg_destroy(agg) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    n_bad += __atomic_load_n(&n_counted, __ATOMIC_RELAXED) - before != (uint64_t)(20 * n_ranks) * 5;
    spmd_is_int(n_bad, 0, "one counter serves operations of all kinds at once");
}

static void any_of_several(void)
{
    enum { MANY = 8 };
    pgas_sync_t sync[MANY], *syncs[MANY];
    int n_bad = 0;
    size_t index = 99;
    for (int i = 0; i < MANY; i++) {
        sync[i] = (pgas_sync_t)PGAS_SYNC_INIT;
        syncs[i] = &sync[i];
        pgas_sync_add(syncs[i], 1);
    }
    n_bad += pgas_sync_wait_any(syncs, MANY, 1000, &index) != PGAS_ERR_TIMEOUT || index != 99;
    n_bad += pgas_sync_wait_all(syncs, MANY, 1000) != PGAS_ERR_TIMEOUT ||
             pgas_sync_wait_all(syncs, MANY, 0) != PGAS_ERR_TIMEOUT;
    n_bad += pgas_call(job_right(), count, NULL, 0, syncs[5]) != PGAS_OK ||
             pgas_sync_done(syncs[5], 1) != PGAS_OK;
    n_bad += pgas_sync_wait_any(syncs, MANY, -1, &index) != PGAS_OK || index != 5;
    syncs[5] = NULL; /* the program drops what is complete */
    for (int i = 0; i < MANY; i++)
        if (syncs[i])
            n_bad += pgas_call((me + i) % n_ranks, count, NULL, 0, syncs[i]) != PGAS_OK ||
                     pgas_sync_done(syncs[i], 1) != PGAS_OK;
    for (int n = 0; n < 4; n++) {
        n_bad += pgas_sync_wait_any(syncs, MANY, -1, &index) != PGAS_OK || !syncs[index] ||
                 syncs[index]->count != 0;
        syncs[index] = NULL;
    }
    n_bad += pgas_sync_wait_all(syncs, MANY, -1) != PGAS_OK;
    for (int i = 0; i < MANY; i++)
        n_bad += sync[i].count != 0;
    n_bad += pgas_sync_wait_all(NULL, 0, -1) != PGAS_OK ||
             pgas_sync_wait_all(NULL, 1, -1) != PGAS_ERR_INVALID ||
             pgas_sync_wait_any(syncs, MANY, -1, NULL) != PGAS_ERR_INVALID ||
             pgas_sync_wait_any(syncs, 0, -1, &index) != PGAS_ERR_INVALID;
    memset(syncs, 0, sizeof syncs);
    n_bad += pgas_sync_wait_any(syncs, MANY, 0, &index) != PGAS_ERR_INVALID;
    spmd_is_int(n_bad, 0,
                "a thread waits for any of several counters, and for all, with time-outs");
}

/* ---- errors ---- */

static int names_it(const pgas_sync_t *sync, int rank, pgas_handler_t handler)
{
    pgas_sync_info_t e = { .size = sizeof e };
    return pgas_sync_info(sync, &e) != PGAS_OK || e.status != PGAS_ERR_NOT_FOUND ||
           e.rank != rank || e.handler != handler || e.operation != PGAS_OPERATION_CALL;
}

/* Odd ranks forget the last handler for a while. */
static int ask_the_forgetful(int rank)
{
    pgas_sync_t on_stack = PGAS_SYNC_INIT, *syncs[2] = { &on_stack, in_heap() };
    pgas_sync_info_t e = { .size = sizeof e };
    uint64_t reply;
    size_t index = 9;
    int n_bad = 0;
    for (int k = 0; k < 2; k++) {
        pgas_sync_t *sync = syncs[k];
        n_bad += pgas_sync_info(sync, &e) != PGAS_OK || e.status != PGAS_OK ||
                 e.operation != PGAS_OPERATION_NONE;
        n_bad += pgas_call(me, count, NULL, 0, sync) != PGAS_OK ||
                 pgas_call(rank, hidden, NULL, 0, sync) != PGAS_OK;
        n_bad += pgas_call(rank, count, NULL, 0, sync) != PGAS_OK;
        n_bad += pgas_sync_wait(sync, -1) != PGAS_ERR_NOT_FOUND || names_it(sync, rank, hidden);
        /* the error stays, and is found in every way */
        n_bad += pgas_sync_wait(sync, 0) != PGAS_ERR_NOT_FOUND ||
                 pgas_sync_test(sync) != PGAS_ERR_NOT_FOUND ||
                 pgas_sync_wait_all(syncs, 2, -1) != PGAS_ERR_NOT_FOUND;
        n_bad += pgas_sync_wait_any(&syncs[k], 1, -1, &index) != PGAS_ERR_NOT_FOUND || index != 0;
        n_bad += pgas_sync_reset(sync) != PGAS_OK || pgas_sync_info(sync, &e) != PGAS_OK ||
                 e.status != PGAS_OK;
        n_bad += pgas_call_return_nb(rank, hidden, NULL, 0, &reply, sizeof reply, sync) != PGAS_OK;
        n_bad += pgas_sync_wait(sync, -1) != PGAS_ERR_NOT_FOUND || names_it(sync, rank, hidden);
        n_bad += pgas_sync_reset(sync) != PGAS_OK;
        n_bad += call_when(rank, hidden, PGAS_REMOTE, PGAS_FULL_QUEUE, sync) != PGAS_OK;
        n_bad += pgas_sync_wait(sync, -1) != PGAS_ERR_NOT_FOUND || names_it(sync, rank, hidden);
        n_bad += pgas_sync_reset(sync) != PGAS_OK;
    }
    n_bad += pgas_call(rank, hidden, NULL, 0, &on_stack) != PGAS_OK;
    n_bad += pgas_sync_wait(&on_stack, -1) != PGAS_ERR_NOT_FOUND;
    /* the check of them can fail */
    n_bad += !names_it(&on_stack, rank, count) || !names_it(&on_stack, me, hidden);
    e.size = 4;
    return n_bad + (pgas_sync_info(NULL, &e) != PGAS_ERR_INVALID) +
           (pgas_sync_info(&on_stack, &e) != PGAS_ERR_INVALID);
}

static void unknown_handler(void)
{
    if (n_ranks == 1) {
        spmd_skip(1, "needs two ranks");
        return;
    }
    int n_bad = 0;
    pgas_quiesce();
    if (me % 2)
        pgasi_n_handlers--;
    pgas_barrier(NULL);
    if (me % 2 == 0)
        n_bad += ask_the_forgetful(me + 1 < n_ranks ? me + 1 : me - 1);
    pgas_quiesce();
    if (me % 2)
        pgasi_n_handlers++;
    pgas_barrier(NULL);
    const char *name = pgas_handler_name(hidden);
    n_bad += !name || strcmp(name, "z.hidden") != 0 || pgas_handler_name(0) ||
             pgas_handler_name(PGAS_HANDLERS_MAX);
    spmd_is_int(n_bad, 0, "a handler that the target does not know: the counter names both");
}

/* ---- answers of other threads ---- */

/* As for a handler thread: the call is taken out of the one that serves, to be ended by the first
 * thread of the program. */
static pgasi_call_t deferred[64];
static uint64_t deferred_args[64];
static int n_deferred;

static void on_defer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int n = __atomic_load_n(&n_deferred, __ATOMIC_RELAXED);
    (void)source;
    (void)context;
    memcpy(&deferred_args[n], args, bytes);
    pgasi_call_t call = pgasi_call_begin(0, 0, 0);
    deferred[n] = call;
    call.wire = 0;
    pgasi_call_end(call, PGAS_OK);
    __atomic_store_n(&n_deferred, n + 1, __ATOMIC_RELEASE);
}

static int end_deferred(int i)
{
    uint64_t question = (uint64_t)i, back = 0;
    int n_bad = 0;
    pgasi_call_t before =
        pgasi_call_begin(deferred[i].source, deferred[i].handler, deferred[i].wire);
    /* Others run here meanwhile, with answers of their own. */
    n_bad += pgas_call_return(job_right(), echo, &question, sizeof question, &back, sizeof back) !=
             PGAS_OK;
    n_bad += back != question ||
             pgas_call_return(me, echo, &question, sizeof question, &back, sizeof back) != PGAS_OK;
    deferred_args[i]++;
    n_bad += pgas_reply(&deferred_args[i], sizeof deferred_args[i]) != PGAS_OK;
    if (pgasi_wire_wants_reply(deferred[i].wire))
        n_bad += pgas_reply(&deferred_args[i], sizeof deferred_args[i]) != PGAS_ERR_CONTEXT;
    pgasi_call_end(before, PGAS_OK);
    return n_bad + (pgas_reply(&question, 8) != PGAS_ERR_CONTEXT);
}

/* None, a byte, some words; waited for at once, or by a counter. */
static void replies_of_all_sizes(void)
{
    static const size_t sizes[] = { 0, 1, 7, 8, 24, 100 };
    char asked[100], got[100];
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    for (size_t i = 0; i < sizeof asked; i++)
        asked[i] = (char)(i + 1);
    for (size_t k = 0; k < PGASI_ARRAY_LENGTH(sizes); k++) {
        size_t bytes = sizes[k];
        memset(got, 0, sizeof got);
        n_bad +=
            pgas_call_return(job_right(), echo, asked, bytes, bytes ? got : NULL, bytes) != PGAS_OK;
        n_bad += memcmp(got, asked, bytes) != 0 || (bytes < sizeof got && got[bytes] != 0);
        n_bad += pgas_call_return_nb(job_right(), echo, asked, bytes, got, bytes, &sync) != PGAS_OK;
        n_bad += pgas_call_return(job_right(), echo, asked, bytes ? 0 : 8, got, bytes) !=
                 PGAS_ERR_MISMATCH;
        /* which does not reply */
        n_bad += pgas_call_return(job_right(), count, asked, 8, got, bytes) != PGAS_ERR_MISMATCH;
    }
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    n_bad += pgas_call_return(job_right(), echo, asked, 8, NULL, 8) != PGAS_ERR_INVALID;
    pgas_barrier(NULL);
    spmd_is_int(n_bad, 0, "replies of all sizes, also of no bytes");
}

static void other_threads_answer(void)
{
    enum { ROUNDS = 10 };
    uint64_t reply[ROUNDS] = { 0 };
    pgas_sync_t sync = PGAS_SYNC_INIT, *heap = in_heap();
    int n_bad = 0;
    n_deferred = 0;
    pgas_barrier(NULL);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        n_bad += pgas_call_return_nb(job_right(), defer, &i, sizeof i, &reply[i], sizeof reply[i],
                                     &sync) != PGAS_OK;
        n_bad += pgas_call(job_right(), defer, &i, sizeof i, &sync) != PGAS_OK;
        n_bad += pgas_call(job_right(), defer, &i, sizeof i, heap) != PGAS_OK;
    }
    for (int i = 0; i < 3 * ROUNDS; i++) {
        while (__atomic_load_n(&n_deferred, __ATOMIC_ACQUIRE) <= i)
            pgas_progress();
        n_bad += end_deferred(i);
    }
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || pgas_sync_wait(heap, -1) != PGAS_OK ||
             sync.count || heap->count;
    for (uint64_t i = 0; i < ROUNDS; i++)
        n_bad += reply[i] != i + 1;
    spmd_is_int(n_bad, 0,
                "calls that end on another thread are answered from there, also when others run in "
                "between");
}

/* ---- series ---- */

/* Numbers must come in order from each rank. */
static uint64_t next_of[64];
static int n_wrong;

static void on_number(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += number != next_of[pgas_thread_rank(source) % 64]++ || bytes % 8 != 0;
}

/* One call after the other on a counter, to one rank and to all, of several sizes, and others in
 * between. */
static void series(void)
{
    enum { CALLS = 2000 };
    static uint64_t sent[64], args[8];
    pgas_sync_t on_stack = PGAS_SYNC_INIT, second = PGAS_SYNC_INIT;
    int n_bad = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < CALLS; i++) {
        pgas_sync_t *syncs[4] = { &on_stack, in_heap(), i % 3 ? in_heap() : &second, NULL };
        int rank = i / 100 % 2 ? i % n_ranks : job_right();
        args[0] = sent[rank % 64]++;
        n_bad += pgas_call(rank, numbered, args, i % 50 == 49 ? sizeof args : 8,
                           syncs[i / 50 % 4]) != PGAS_OK;
        if (i % 333 == 0)
            n_bad += pgas_sync_test(&on_stack) == PGAS_OK && on_stack.count != 0;
    }
    n_bad += pgas_sync_wait(&on_stack, -1) != PGAS_OK || pgas_sync_wait(&second, -1) != PGAS_OK ||
             pgas_sync_wait(in_heap(), -1) != PGAS_OK;
    n_bad += on_stack.count != 0 || second.count != 0 || in_heap()->count != 0;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad + n_wrong, 0, "series of calls on a counter run in order and complete");
}

/* ---- handlers that wait ---- */

static pgas_handler_t gate, open_gate, ask;
static pgas_sync_t closed = PGAS_SYNC_INIT;
static int ask_bad;

static void on_wait_closed(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    pgas_sync_wait(&closed, -1);
}

static void on_open_gate(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    pgas_sync_done(&closed, 1);
}

/* Asks on before it answers. */
static void on_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number = 0;
    (void)source;
    (void)context;
    int n_bad = pgas_call_return(job_right(), echo, args, bytes, &number, sizeof number) != PGAS_OK;
    number++;
    n_bad += pgas_reply(&number, sizeof number) != PGAS_OK ||
             pgas_reply(&number, sizeof number) != PGAS_ERR_CONTEXT;
    __atomic_add_fetch(&ask_bad, n_bad, __ATOMIC_RELAXED);
}

static void arrived_and_waiting(void)
{
    pgas_sync_t arrived = PGAS_SYNC_INIT, on_stack = PGAS_SYNC_INIT, *heap = in_heap();
    int n_bad = pgas_sync_add(&closed, 1) != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += call_when(job_right(), gate, PGAS_EXECUTED, PGAS_FULL_WAIT, &on_stack) != PGAS_OK;
    n_bad += call_when(job_right(), gate, PGAS_EXECUTED, PGAS_FULL_WAIT, heap) != PGAS_OK;
    for (int i = 0; i < 3; i++)
        n_bad += call_when(job_right(), gate, PGAS_REMOTE, i % 2 ? PGAS_FULL_WAIT : PGAS_FULL_QUEUE,
                           &arrived) != PGAS_OK;
    n_bad += pgas_sync_wait(&arrived, -1) != PGAS_OK || on_stack.count != 1 || heap->count != 1;
    n_bad += pgas_call(job_right(), open_gate, NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_sync_wait(&on_stack, -1) != PGAS_OK || pgas_sync_wait(heap, -1) != PGAS_OK;
    pgas_quiesce();
    spmd_is_int(
        n_bad, 0,
        "calls whose handlers wait have arrived, and have run when the handlers have ended");
}

static void waiting_handlers_answer(void)
{
    uint64_t reply[N] = { 0 };
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    for (uint64_t i = 0; i < N; i++)
        n_bad += pgas_call_return_nb((int)i % n_ranks, ask, &i, sizeof i, &reply[i],
                                     sizeof reply[i], &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    for (uint64_t i = 0; i < N; i++)
        n_bad += reply[i] != i + 1;
    pgas_quiesce();
    spmd_is_int(n_bad + ask_bad, 0, "and answer, each its own caller");
}

int main(int argc, char **argv)
{
    pgas_handler_register("a.count", on_count, &n_counted, NULL, &count);
    pgas_handler_register("a.order", on_order, NULL, NULL, &order);
    pgas_handler_register("a.ran", on_ran, NULL, NULL, &ran);
    pgas_handler_register("a.echo", on_echo, NULL, NULL, &echo);
    pgas_handler_register("a.relay", on_relay, NULL, NULL, &relay);
    pgas_handler_register("a.defer", on_defer, NULL, NULL, &defer);
    pgas_handler_register("a.release", on_release, NULL, NULL, &release);
    pgas_handler_opts_t waits = PGAS_HANDLER_OPTS_INIT;
    waits.blocks = true;
    pgas_handler_register("b.gate", on_wait_closed, NULL, &waits, &gate);
    pgas_handler_register("b.ask", on_ask, NULL, &waits, &ask);
    pgas_handler_register("b.open", on_open_gate, NULL, NULL, &open_gate);
    pgas_handler_register("a.number", on_number, NULL, NULL, &numbered);
    pgas_handler_register("z.hidden", on_count, &n_counted, NULL, &hidden);
    job_begin(&argc, &argv, 21);
    pgas_alloc(sizeof(pgas_sync_t), &counter_memory);
    *in_heap() = (pgas_sync_t)PGAS_SYNC_INIT;
    pgas_alloc(3 * sizeof(uint64_t), &word_memory);
    memset(pgas_gptr_local(word_memory, 24), 0, 24);
    pgas_barrier(NULL);
    three_kinds();
    from_handlers();
    to_a_thread();
    ways();
    statistics();
    by_hand();
    functions();
    functions_call();
    refused();
    all_kinds();
    any_of_several();
    unknown_handler();
    replies_of_all_sizes();
    other_threads_answer();
    series();
    arrived_and_waiting();
    waiting_handlers_answer();
    pgas_free(word_memory);
    pgas_free(counter_memory);
    return job_end();
}
