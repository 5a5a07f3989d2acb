/* Blocking handlers.
 *   what:   A blocking handler may wait for replies and counters while others run: a chain of 100
 *           nested calls over the ranks, and 100 handlers that wait for one counter. Handlers start
 *           in order and run one at a time. Spawned handlers run at once. Forbidden operations are
 *           refused.
 *   np:     1 2 3 4
 *   nodes:  0 1
 *   tls:    posix sysv,cma
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_FAULT=delay=5,reorder=4,again=3
 *   log:    handler threads wait, and further calls need one of them
 *   source: pgas/call.h, pgas/handler.h */
#include <time.h>
#include "t/handlers.h"
#include "t/spmd/job.h"

#define DEPTH 100

static pgas_handler_t nest, wait_for, plain_wait, refused, put_far, first_of_pair, second_of_pair,
    attach, attach_plain;
static uint64_t n_plain_bad = 7;
static pgas_sync_t gate = PGAS_SYNC_INIT;
static int64_t n_waiting, n_inside, n_overlaps;
static uint64_t started[DEPTH];
static uint64_t n_started;
static pgas_gptr_t words[JOB_RANKS_MAX];
static uint64_t spawned;

/* Asks the next rank to ask the next, and so on; the answer is the number of levels below. */
static void on_nest(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t level, below = 0;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&level, args, sizeof level);
    pgas_status_t status = PGAS_OK;
    level--;
    if (level > 0)
        status = pgas_call_return(job_right(), nest, &level, sizeof level, &below, sizeof below);
    below = status == PGAS_OK ? below + 1 : 1000000;
    pgas_reply(&below, sizeof below);
}

static void a_hundred_nest(void)
{
    uint64_t level = DEPTH, below = 0;
    pgas_status_t status =
        pgas_call_return(job_right(), nest, &level, sizeof level, &below, sizeof below);
    spmd_ok(status == PGAS_OK && below == DEPTH,
            "%d nested calls, each of which waits for the next (%d)", DEPTH, (int)below);
    pgas_barrier(NULL);
}

static void on_wait_for(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&number, args, sizeof number);
    started[n_started++] = number;
    n_overlaps += ++n_inside != 1;
    __atomic_fetch_add(&n_waiting, 1, __ATOMIC_RELEASE);
    n_inside--;
    pgas_status_t status = pgas_sync_wait(&gate, -1);
    n_overlaps += ++n_inside != 1 || status != PGAS_OK;
    n_inside--;
}

static void a_hundred_wait_for_one_counter(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_sync_add(&gate, 1);
    pgas_barrier(NULL);
    int peer = job_right(), n_bad = 0;
    for (uint64_t i = 0; i < DEPTH; i++)
        n_bad += pgas_call(peer, wait_for, &i, sizeof i, &done) != PGAS_OK;
    while (__atomic_load_n(&n_waiting, __ATOMIC_ACQUIRE) < DEPTH)
        pgas_progress();
    spmd_ok(n_bad == 0 && pgas_sync_test(&done) == PGAS_INPROGRESS, "all wait at once");
    n_bad += pgas_call(me, plain_wait, NULL, 0, &gate) != PGAS_OK;
    pgas_sync_done(&gate, 1); /* that the call has run opens the gate */
    spmd_ok(n_bad == 0 && pgas_sync_wait(&done, -1) == PGAS_OK,
            "all continue when the counter is zero");
    pgas_barrier(NULL);
    int n_wrong = 0;
    for (uint64_t i = 0; i < DEPTH; i++)
        n_wrong += started[i] != i;
    spmd_ok(n_wrong == 0, "they started in the order issued");
    spmd_ok(n_overlaps == 0, "and never ran at the same time");
}

static void on_refused(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    uint64_t bad = (pgas_barrier(NULL) != PGAS_ERR_CONTEXT) + (pgas_quiesce() != PGAS_ERR_CONTEXT) +
                   (pgas_thread_detach() != PGAS_ERR_CONTEXT) +
                   (pgas_finalize() != PGAS_ERR_CONTEXT) +
                   (pgas_init(NULL, NULL) != PGAS_ERR_CONTEXT);
    pgas_reply(&bad, sizeof bad);
}

static void what_concerns_all_is_refused(void)
{
    uint64_t bad = 7;
    pgas_status_t status = pgas_call_return(job_right(), refused, NULL, 0, &bad, sizeof bad);
    spmd_ok(status == PGAS_OK && bad == 0,
            "collectives, quiescence and the end are refused in handlers");
}

/* Attaches and detaches, as a function may do in any thread. A thread that a handler leaves
 * attached is not attached for the next handler. */
static void on_attach(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    pgas_thread_t self = pgas_thread_self();
    uint64_t bad = pgas_thread_detach() != PGAS_ERR_CONTEXT;
    bad += pgas_thread_attach() != PGAS_OK || pgas_thread_self() != self ||
           pgas_thread_detach() != PGAS_OK;
    bad += pgas_thread_detach() != PGAS_ERR_CONTEXT || pgas_thread_self() != self;
    bad += pgas_thread_attach() != PGAS_OK;
    bad += pgas_call_return(me, attach_plain, NULL, 0, &n_plain_bad, sizeof n_plain_bad) != PGAS_OK;
    pgas_reply(&bad, sizeof bad);
}

static void on_attach_plain(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    uint64_t bad =
        (pgas_thread_attach() != PGAS_ERR_CONTEXT) + (pgas_thread_detach() != PGAS_ERR_CONTEXT);
    pgas_reply(&bad, sizeof bad);
}

static void attaching_nests(void)
{
    uint64_t bad = 0, n_bad = 0;
    bool good = true;
    for (int i = 0; i < 3; i++) {
        good = pgas_call_return(job_right(), attach, NULL, 0, &bad, sizeof bad) == PGAS_OK && good;
        n_bad += bad;
    }
    spmd_ok(good && n_bad == 0, "a blocking handler attaches and detaches, down to where it began");
    pgas_barrier(NULL);
    spmd_ok(n_plain_bad == 0, "a plain one does not");
}

/* Puts to the next rank, reads back. */
static void on_put_far(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t value, back = 0;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&value, args, sizeof value);
    pgas_gptr_t there = pgas_gptr_at(words[0], job_right());
    bool good = pgas_put(there, &value, sizeof value) == PGAS_OK && pgas_flush_all() == PGAS_OK &&
                pgas_get(&back, there, sizeof back) == PGAS_OK;
    value = good && back == value;
    pgas_reply(&value, sizeof value);
}

static void they_transfer(void)
{
    pgas_gptr_t word;
    pgas_alloc(8, &word);
    job_gather(word, words);
    pgas_barrier(NULL);
    uint64_t value = 4711 + (uint64_t)me, good = 0;
    pgas_status_t status =
        pgas_call_return(job_right(), put_far, &value, sizeof value, &good, sizeof good);
    spmd_ok(status == PGAS_OK && good == 1, "put, flush and get, also to other nodes");
    pgas_barrier(NULL);
    pgas_free(word);
}

/* Each waits for the other to have begun: only handlers that run at the same time come through. */
static void on_pair(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(&spawned, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&spawned, __ATOMIC_ACQUIRE) % 2)
        pgas_progress();
}

static void spawned_handlers_run_at_once(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &done;
    opts.spawn = true;
    int peer = job_right();
    bool good = pgas_call_to(pgas_on_rank(peer), first_of_pair, NULL, 0, &opts) == PGAS_OK &&
                pgas_call_to(pgas_on_rank(peer), second_of_pair, NULL, 0, &opts) == PGAS_OK;
    spmd_ok(good && pgas_sync_wait(&done, -1) == PGAS_OK,
            "spawned handlers have threads of their own");
    spmd_ok(pgas_call_to(pgas_on_rank(n_ranks), first_of_pair, NULL, 0,
                         PGAS_CALL_OPTS(.spawn = true)) == PGAS_ERR_RANGE &&
                pgas_call_to(pgas_on_rank(0), 4000, NULL, 0, PGAS_CALL_OPTS(.spawn = true)) ==
                    PGAS_ERR_NOT_FOUND,
            "no such rank, no such handler");
}

/* Two threads wait. A later handler waits for one of them, and the log reports it. */
static void no_more_than_the_limit_wait(void)
{
    uint64_t number = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    job_start("HANDLER_THREADS=2");
    n_waiting = 0;
    n_started = 0;
    pgas_sync_add(&gate, 1);
    pgas_barrier(NULL);
    int n_bad = 0;
    for (int i = 0; i < 2; i++)
        n_bad += pgas_call(me, wait_for, &number, sizeof number, &done) != PGAS_OK;
    while (__atomic_load_n(&n_waiting, __ATOMIC_ACQUIRE) < 2)
        pgas_progress();
    n_bad += pgas_call(me, wait_for, &number, sizeof number, &done) != PGAS_OK;
    for (int i = 0; i < 1000; i++)
        pgas_progress();
    bool held = __atomic_load_n(&n_waiting, __ATOMIC_ACQUIRE) == 2 &&
                pgas_sync_test(&done) == PGAS_INPROGRESS;
    n_bad +=
        pgas_call(me, plain_wait, NULL, 0, &gate) != PGAS_OK || pgas_sync_done(&gate, 1) != PGAS_OK;
    spmd_ok(n_bad == 0 && held && pgas_sync_wait(&done, -1) == PGAS_OK,
            "beyond PGAS_HANDLER_THREADS calls wait");
}

static pgas_handler_t slow;
static uint64_t n_slow;

/* It takes long without any call that quiescence could count instead. */
static void on_slow(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    struct timespec limit = { 0, 20000000 };
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    while (nanosleep(&limit, &limit) != 0) {
    }
    __atomic_fetch_add(&n_slow, 1, __ATOMIC_RELAXED);
}

static void quiescence_waits_for_them(void)
{
    uint64_t mine = 0, all = 0;
    int n_bad = pgas_call(job_right(), slow, NULL, 0, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    mine = __atomic_load_n(&n_slow, __ATOMIC_RELAXED);
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && all == (uint64_t)n_ranks,
            "quiescence waits for handlers that have begun");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    pgas_handler_register("nest", on_nest, NULL, &blocks, &nest);
    pgas_handler_register("wait for", on_wait_for, NULL, &blocks, &wait_for);
    pgas_handler_register("open", on_nothing, NULL, NULL, &plain_wait);
    pgas_handler_register("refused", on_refused, NULL, &blocks, &refused);
    pgas_handler_register("attach", on_attach, NULL, &blocks, &attach);
    pgas_handler_register("attach plain", on_attach_plain, NULL, NULL, &attach_plain);
    pgas_handler_register("put far", on_put_far, NULL, &blocks, &put_far);
    pgas_handler_register("first of pair", on_pair, NULL, NULL, &first_of_pair);
    pgas_handler_register("second of pair", on_pair, NULL, NULL, &second_of_pair);
    pgas_handler_register("slow", on_slow, NULL, &blocks, &slow);
    job_begin(&argc, &argv, 15);
    pgas_barrier(NULL); /* no rank calls before */
    a_hundred_nest();
    a_hundred_wait_for_one_counter();
    what_concerns_all_is_refused();
    attaching_nests();
    they_transfer();
    spawned_handlers_run_at_once();
    quiescence_waits_for_them();
    job_stop();
    no_more_than_the_limit_wait();
    return job_end();
}
