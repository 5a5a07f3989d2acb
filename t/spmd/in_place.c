/* Calls built in place, and channels.
 *   what:   Arguments built by pgas_call_begin arrive as written, once, and in order with other
 *           calls; on the node they are in the target's memory from the start. Abandoned calls have
 *           no effect. Channels can be set up ahead, report how far the target has read, grow while
 *           it does not poll, and give chunks back. Calls that were queued without a context are
 *           sent. Threads without a context build calls too.
 *   np:     1 2 3 4
 *   nodes:  0 1
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K | PGAS_SERVICE_THREADS=0 PGAS_CALL_MAX=1K |
 *   env:    PGAS_LANES=1 PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 PGAS_CALL_MAX=1K
 *   source: pgas/call.h
 */
#include <pthread.h>
#include "base/rng.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define N_CALLS   600
#define BYTES_MAX 1024

static pgas_handler_t filled, stay_away, count;
static uint64_t next_of[JOB_RANKS_MAX], n_counted;
static int n_wrong;
static pgas_sync_t built = PGAS_SYNC_INIT;
static volatile uint64_t *let_go; /* in the heap: the sender of stay_away stores there */

static size_t size_of(uint64_t number)
{
    return 8 + (size_t)(number * 2654435761u >> 5) % (BYTES_MAX - 7);
}

/* Zeros at the end, always; now and then all of it but the number. */
static unsigned char byte_of(uint64_t number, size_t i, size_t bytes)
{
    return number % 7 == 0 || i + 5 > bytes ? 0 : (unsigned char)(number * 31 + i);
}

static void on_filled(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    int rank = pgas_thread_rank(source);
    (void)context;
    memcpy(&number, args, sizeof number);
    bool good = number == next_of[rank]++ && bytes == size_of(number);
    for (size_t i = 8; i < bytes && good; i++)
        good = ((const unsigned char *)args)[i] == byte_of(number, i, bytes);
    n_wrong += !good;
}

static void fill(char *args, uint64_t number)
{
    size_t bytes = size_of(number);
    memcpy(args, &number, 8);
    for (size_t i = 8; i < bytes; i++)
        args[i] = (char)byte_of(number, i, bytes);
}

static bool lies_at_target(int peer, const void *args)
{
    pgasi_channel_t channel;
    pgasi_recvq_open(pgasi_boot.local_of[peer], PGASI_EP_ANY, pgasi_self.ctx->index, &channel);
    const char *first = channel.chunks + channel.first * pgasi_chunk_bytes;
    return (const char *)args >= first &&
           (const char *)args < first + channel.n_first * pgasi_chunk_bytes;
}

static void built_calls_arrive(void)
{
    char copy[BYTES_MAX];
    int peer = job_right(), n_bad = 0;
    pgasi_rng_t rng;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    int64_t n_told = 0;
    opts.sync = &done;
    pgasi_rng_seed(&rng, 5);
    void *args = NULL;
    pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY);
    n_bad += pgas_call_begin(pgas_on_thread(target), filled, size_of(0), NULL, &args) != PGAS_OK;
    bool near = pgas_node_of(peer) == pgas_node();
    spmd_ok(!near || lies_at_target(peer, args),
            "on the node arguments are built in the target's memory");
    n_bad += pgas_call(peer, count, NULL, 0, NULL) != PGAS_ERR_BUSY;
    n_bad += pgas_call_begin(pgas_on_thread(target), filled, 8, NULL, &args) != PGAS_ERR_BUSY;
    fill(args, 0);
    n_bad += pgas_call_commit() != PGAS_OK;
    for (uint64_t i = 1; i < N_CALLS; i++) {
        switch (pgasi_rng_below(&rng, 4)) {
        case 0:
            fill(copy, i);
            n_bad += pgas_call(peer, filled, copy, size_of(i), NULL) != PGAS_OK;
            break;
        case 1: /* something else is given up first */
            n_bad +=
                pgas_call_begin(pgas_on_thread(target), filled, BYTES_MAX, NULL, &args) != PGAS_OK;
            memset(args, 0xFF, BYTES_MAX);
            n_bad += pgas_call_abandon() != PGAS_OK;
            /* fall through */
        case 2:
            n_bad +=
                pgas_call_begin(pgas_on_thread(target), filled, size_of(i), NULL, &args) != PGAS_OK;
            fill(args, i);
            n_bad += pgas_call_commit() != PGAS_OK;
            break;
        default:
            n_told++;
            n_bad += pgas_call_begin(pgas_on_thread(target), filled, size_of(i), &opts, &args) !=
                     PGAS_OK;
            fill(args, i);
            n_bad += pgas_call_commit() != PGAS_OK;
        }
    }
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    pgas_quiesce();
    int from = (me + n_ranks - 1) % n_ranks;
    spmd_ok(n_bad == 0 && n_told > 0, "they are accepted, one at a time, and told of (%d are not)",
            n_bad);
    spmd_ok(n_wrong == 0 && next_of[from] == N_CALLS, "each came once, whole, in order (%d wrong)",
            n_wrong);
    pgas_barrier(NULL);
    fill(copy, 3);
    pgas_call(peer, filled, copy, size_of(3), NULL);
    pgas_quiesce();
    spmd_ok(n_wrong == 1, "one that came twice is noticed");
    spmd_ok(pgas_call_commit() == PGAS_ERR_NOT_FOUND && pgas_call_abandon() == PGAS_ERR_NOT_FOUND &&
                pgas_call_begin(pgas_on_thread(target), filled, 8, NULL, NULL) ==
                    PGAS_ERR_INVALID &&
                pgas_call_begin(pgas_on_thread(target), filled, BYTES_MAX + 1, NULL, &args) ==
                    PGAS_ERR_LIMIT,
            "nothing begun, nowhere to put it, too large");
}

/* Delays the rank's calls until its sender lets it continue. */
static void on_stay_away(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    while (!__atomic_load_n(let_go, __ATOMIC_ACQUIRE)) {
    }
}

static void channels_grow_and_shrink(void)
{
    int peer = job_right();
    pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY),
                  service = pgas_thread_make(peer, PGAS_SLOT_SERVICE);
    pgas_channel_info_t info = { .size = sizeof info };
    bool near = pgas_node_of(peer) == pgas_node();
    bool good = pgas_channel_info(pgas_on_thread(service), &info) == PGAS_OK && !info.open;
    good = good && pgas_channel_open(pgas_on_thread(service)) == PGAS_OK &&
           pgas_channel_info(pgas_on_thread(service), &info) == PGAS_OK && info.open;
    spmd_ok(good, "a channel is set up ahead");
    pgas_channel_close(pgas_on_thread(target)); /* as small as it gets */
    good = pgas_channel_info(pgas_on_thread(target), &info) == PGAS_OK && info.stores >= near &&
           info.consumed <= info.sent;
    int first = info.n_chunks;
    uint64_t room = (uint64_t)info.n_chunks * info.chunk_bytes, sent = 0, one[64] = { 0 };
    pgas_gptr_t flag;
    pgas_alloc(sizeof *let_go, &flag);
    let_go = pgas_gptr_local(flag, sizeof *let_go);
    *let_go = 0;
    n_counted = 0;
    pgas_barrier(NULL);
    if (near && n_ranks > 1) { /* from here on no thread of the peer runs calls */
        good = pgas_call(peer, stay_away, NULL, 0, NULL) == PGAS_OK && good;
        while (sent < room + room / 2)
            if (pgas_call_to(pgas_on_rank(peer), count, one, sizeof one,
                             PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) == PGAS_OK)
                sent += sizeof one;
        good = pgas_channel_info(pgas_on_thread(target), &info) == PGAS_OK &&
               info.n_chunks > first && good;
    }
    uint64_t go = 1, sums[2], all[2];
    good = pgas_put(pgas_gptr_at(flag, peer), &go, sizeof go) == PGAS_OK && good;
    spmd_ok(good, "it grows while the target stays away (%d chunks)", info.n_chunks);
    good = pgas_channel_close(pgas_on_thread(target)) == PGAS_OK &&
           pgas_channel_info(pgas_on_thread(target), &info) == PGAS_OK &&
           (!near || (info.n_chunks <= first + 1 && info.consumed == info.sent));
    spmd_ok(good, "closed, it is drained and gives back its chunks (%d)", info.n_chunks);
    for (uint64_t i = 0; i < 5000; i++)
        good = pgas_call(peer, count, &i, 8, NULL) == PGAS_OK && good;
    pgas_quiesce();
    sums[0] = n_counted;
    sums[1] = 5000 + sent / sizeof one;
    pgas_allreduce(NULL, sums, all, 2, PGAS_U64, PGAS_ADD);
    spmd_ok(good && all[0] == all[1], "and works on");
    pgas_free(flag);
    spmd_ok(pgas_channel_open(pgas_on_thread(pgas_thread_make(n_ranks, 0))) == PGAS_ERR_RANGE &&
                pgas_channel_open(pgas_on_thread(pgas_thread_make(0, 200))) == PGAS_ERR_LIMIT &&
                pgas_channel_info(pgas_on_thread(target), NULL) == PGAS_ERR_INVALID,
            "no such targets");
}

/* Bytes with the form of descriptors of either phase must never run. */
static void what_is_abandoned_is_not_run(void)
{
    int peer = job_right(), from = (me + n_ranks - 1) % n_ranks, n_bad = 0;
    pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY);
    uint64_t n_expected = 0, word = 0;
    n_counted = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < 40; i++) {
        void *args = NULL;
        uint64_t mark = i % 2 ? PGAS_CALL_PHASE_ODD : PGAS_CALL_PHASE_EVEN;
        n_bad += pgas_call_begin(pgas_on_thread(target), count, BYTES_MAX, NULL, &args) != PGAS_OK;
        for (size_t k = 0; k < BYTES_MAX / 8; k++)
            ((uint64_t *)args)[k] = mark | (uint64_t)8 << PGASI_DESC_BYTES_SHIFT | count;
        n_bad += pgas_call_abandon() != PGAS_OK;
        for (int k = 0; k < i % 5; k++) { /* some inline */
            if (k % 2)
                pgas_progress();
            n_bad += pgas_call(peer, count, &word, 8, NULL) != PGAS_OK;
        }
        n_expected += (uint64_t)i % 5;
        if (i % 8 == 0)
            pgas_progress();
    }
    pgas_quiesce();
    spmd_ok(n_bad == 0 && n_counted == n_expected,
            "abandoned calls do not run (%d calls from rank %d)", (int)n_counted, from);
}

/* Each rank begins a call to the next, and is asked by it meanwhile. */
static void answers_pass_what_is_begun(void)
{
    int peer = job_right(), from = (me + n_ranks - 1) % n_ranks;
    void *args = NULL;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &done;
    bool good = pgas_call_begin(pgas_on_rank(peer), count, 8, NULL, &args) == PGAS_OK;
    pgas_barrier(NULL);
    good =
        pgas_call_to(pgas_on_thread(pgas_thread_make(from, 0)), count, NULL, 0, &opts) == PGAS_OK &&
        good;
    good = pgas_sync_wait(&done, 20000000) == PGAS_OK && good;
    pgas_barrier(NULL);
    memset(args, 0, 8);
    spmd_ok(good && pgas_call_commit() == PGAS_OK,
            "a thread that builds a call answers those that it runs");
    pgas_quiesce();
}

static void *begin_and_leave(void *target_p)
{
    const pgas_thread_t *target = target_p;
    void *args = NULL;
    bool good = pgas_thread_attach() == PGAS_OK &&
                pgas_call_begin(pgas_on_thread(*target), count, 8, NULL, &args) == PGAS_OK;
    good = pgas_thread_detach() == PGAS_OK && good;
    good = pgas_thread_attach() == PGAS_OK && pgas_call_commit() == PGAS_ERR_NOT_FOUND && good;
    good = pgas_call(pgas_thread_rank(*target), count, NULL, 0, NULL) == PGAS_OK && good;
    good = pgas_call_begin(pgas_on_thread(*target), count, 8, NULL, &args) == PGAS_OK &&
           pgas_call_abandon() == PGAS_OK && good;
    return pgas_thread_detach() == PGAS_OK && good ? target_p : NULL;
}

static void who_leaves_has_begun_nothing(void)
{
    pthread_t thread;
    void *good = NULL, *args = NULL;
    pgas_thread_t target = pgas_thread_make(job_right(), PGAS_SLOT_ANY);
    pthread_create(&thread, NULL, begin_and_leave, &target);
    pthread_join(thread, &good);
    pgas_quiesce();
    spmd_ok(good != NULL, "a thread that detaches drops the call that it has begun");
    bool begun = pgas_call_begin(pgas_on_thread(target), count, 8, NULL, &args) == PGAS_OK;
    job_stop();
    job_start(NULL);
    begun = pgas_call_commit() == PGAS_ERR_NOT_FOUND && begun;
    begun = pgas_call_begin(pgas_on_thread(target), count, 8, NULL, &args) == PGAS_OK &&
            pgas_call_abandon() == PGAS_OK && begun;
    spmd_ok(begun && pgas_call(job_right(), count, NULL, 0, NULL) == PGAS_OK,
            "and so does the end of the job");
}

/* More than the channel takes, of a context that no thread has: some wait. */
static void *queue_unattached(void *arg)
{
    uint64_t one[64] = { 0 }, *n_sent = arg;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.way = PGAS_WAY_SEND;
    opts.full = PGAS_FULL_QUEUE;
    pgas_target_t target = pgas_on_rank(job_right());
    for (int i = 0; i < 200; i++)
        *n_sent += pgas_call_to(target, count, one, sizeof one, &opts) == PGAS_OK;
    return NULL;
}

static void what_waits_in_the_shared_ctx_leaves(void)
{
    pthread_t thread;
    pgas_gptr_t flag;
    uint64_t go = 1, sums[2] = { 0, 0 }, all[2];
    int peer = job_right();
    bool near = n_ranks > 1 && pgas_node_of(peer) == pgas_node(), good = true;
    pgas_alloc(sizeof *let_go, &flag);
    let_go = pgas_gptr_local(flag, sizeof *let_go);
    *let_go = 0;
    n_counted = 0;
    pgas_barrier(NULL);
    if (near)
        good = pgas_call(peer, stay_away, NULL, 0, NULL) == PGAS_OK;
    pthread_create(&thread, NULL, queue_unattached, &sums[1]);
    pthread_join(thread, NULL);
    good = pgas_put(pgas_gptr_at(flag, peer), &go, sizeof go) == PGAS_OK && good;
    pgas_quiesce();
    sums[0] = n_counted;
    pgas_allreduce(NULL, sums, all, 2, PGAS_U64, PGAS_ADD);
    spmd_ok(good && sums[1] == 200 && all[0] == all[1],
            "what threads without a context have queued leaves (%d of %d)", (int)all[0],
            (int)all[1]);
    pgas_free(flag);
}

/* Half of the numbered calls are built in place, half are sent from the caller's memory. */
static void *build_unattached(void *arg)
{
    int64_t *n_bad = arg;
    int peer = job_right();
    char copy[BYTES_MAX];
    void *args = NULL;
    pgas_target_t target = pgas_on_rank(peer);
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    *n_bad += pgas_call_begin(target, filled, 8, NULL, &args) != PGAS_ERR_CONTEXT;
    *n_bad += pgas_call_commit() != PGAS_ERR_NOT_FOUND;
    opts.way = PGAS_WAY_SEND;
    opts.sync = &built;
    *n_bad += pgas_call_begin(target, 4000, 8, &opts, &args) != PGAS_ERR_NOT_FOUND;
    for (uint64_t i = 0; i < N_CALLS; i++) {
        if (i % 2) {
            fill(copy, i);
            *n_bad += pgas_call_to(target, filled, copy, size_of(i), &opts) != PGAS_OK;
            continue;
        }
        if (i % 3 == 0) { /* something else is given up first */
            *n_bad += pgas_call_begin(target, filled, BYTES_MAX, &opts, &args) != PGAS_OK ||
                      (uintptr_t)args % 8;
            memset(args, 0xFF, BYTES_MAX);
            *n_bad += pgas_call_abandon() != PGAS_OK;
        }
        *n_bad += pgas_call_begin(target, filled, size_of(i), &opts, &args) != PGAS_OK;
        *n_bad += pgas_call_begin(target, filled, 8, &opts, &args) != PGAS_ERR_BUSY;
        fill(args, i);
        *n_bad += pgas_call_commit() != PGAS_OK;
    }
    *n_bad += pgas_sync_done(&built, 1) != PGAS_OK;
    return NULL;
}

static void who_has_no_ctx_builds_calls(void)
{
    pthread_t thread;
    int from = (me + n_ranks - 1) % n_ranks;
    int64_t n_bad = 0;
    n_wrong = 0;
    memset(next_of, 0, sizeof next_of);
    pgas_barrier(NULL);
    pgas_sync_add(&built, 1); /* until the thread has built all calls */
    pthread_create(&thread, NULL, build_unattached, &n_bad);
    bool good = pgas_sync_wait(&built, -1) == PGAS_OK;
    pthread_join(thread, NULL);
    pgas_quiesce();
    spmd_ok(good && n_bad == 0 && n_wrong == 0 && next_of[from] == N_CALLS,
            "a thread that is not attached builds calls that are sent (%d not accepted, %d wrong)",
            (int)n_bad, n_wrong);
}

int main(int argc, char **argv)
{
    pgas_handler_register("filled", on_filled, NULL, NULL, &filled);
    pgas_handler_register("stay away", on_stay_away, NULL, NULL, &stay_away);
    pgas_handler_register("count", on_count, &n_counted, NULL, &count);
    job_begin(&argc, &argv, 18);
    pgas_barrier(NULL); /* no rank calls before */
    built_calls_arrive();
    channels_grow_and_shrink();
    what_waits_in_the_shared_ctx_leaves();
    who_has_no_ctx_builds_calls();
    what_is_abandoned_is_not_run();
    answers_pass_what_is_begun();
    who_leaves_has_begun_nothing();
    return job_end();
}
