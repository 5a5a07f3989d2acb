/* Channels between nodes.
 *   what:   A channel to another node is set up automatically where PGAS_FAR_CALLS and the
 *           transport allow it, or on request. While messages are replaced by the channel, calls of
 *           any kind stay in order and whole, and run once: over many uses of small chunks, with
 *           zeros, and while handlers of both ends fill each other's channels. The channel grows
 *           when the target does not poll, and chunks are given back. A sender without a channel
 *           continues with messages. Calls to a thread that has detached are refused. Arguments
 *           built in place are sent from there. A descriptor that has arrived in part never runs.
 *   np:     2 3 4
 *   nodes:  1
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_FAR_CALLS=auto | PGAS_FAR_CALLS=put PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAR_CALLS=put |
 *   env:    PGAS_FAR_CALLS=map PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAR_CALLS=put PGAS_FAULT=delay=5,reorder=4,again=20 PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAR_CALLS=message |
 *   env:    PGAS_FAR_CALLS=put PGAS_FAR_CHUNK_MEMORY=40K PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K
 *   env:    PGAS_CHUNKS=4 PGAS_CHUNKS_MAX=2 |
 *   env:    PGAS_FAR_CALLS=put PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAR_CHUNK_MEMORY=0
 *   log:    sent a malformed channel message
 *   source: pgas/call.h, src/msg/far_channel.h; seeded model test
 */
#include <pthread.h>
#include <sched.h>
#include "base/param.h"
#include "base/rng.h"
#include "boot/hooks.h"
#include "msg/far_channel.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "t/handlers.h"
#include "t/spmd/buffers.h"
#include "t/spmd/job.h"
#include "t/spmd/message.h"
#include "t/spmd/pieces.h"

#define THREADS   2
#define RANKS_MAX 8
#define DEPTH     12 /* of calls that call back twice */

/* The arguments of a call of a queue. Handlers have one queue of their own to each rank. */
enum { TO_ANY, TO_SERVICE, TO_FIRST, TO_SECOND, FROM_HANDLERS, QUEUES };

static pgas_handler_t queued[QUEUES], count, check_words, split;
static int peer;
static uint64_t seed, n_split, n_split_bad, n_counted;
static pgasi_rng_t model[QUEUES][RANKS_MAX][THREADS]; /* gives the next expected call */
static uint64_t n_taken[QUEUES][RANKS_MAX][THREADS], n_of_handlers[RANKS_MAX];
static pgasi_rng_t handlers_draw[RANKS_MAX];
static int n_wrong, n_words_wrong;
static uint64_t n_words_run;

/* ---- what to expect ---- */

/* Nothing can be stored to there. */
static bool over_wire(void)
{
    char text[PGASI_PARAM_TEXT_BYTES];
    const char *tls = getenv("PGAS_UCX_TLS");
    bool tcp = tls && strstr(tls, "tcp") != NULL;
    return tcp ||
           strcmp(pgasi_param_text(&pgasi_param, PGASI_PARAM_ID_TRANSPORT, text), "verbs") == 0;
}

static bool wants_stores(void)
{
    bool may = pgasi_param.far_calls == PGASI_FAR_CALLS_AUTO ||
               pgasi_param.far_calls == PGASI_FAR_CALLS_MAP;
    return may && pgasi_chanmem.n_chunks && !over_wire() && !*pgasi_param.fault &&
           !pgasi_hooks.wrap_transport;
}

static bool wants_puts(void)
{
    return pgasi_param.far_calls == PGASI_FAR_CALLS_PUT && pgasi_chanmem.n_chunks;
}

/* Enough chunks for all ranks. */
static bool is_ample(void)
{
    return pgasi_chanmem.n_channels >= 256;
}

static pgas_channel_info_t look(pgas_thread_t target)
{
    pgas_channel_info_t info = { .size = sizeof info };
    memset(&info, 0xFF, sizeof info);
    pgas_channel_info(pgas_on_thread(target), &info);
    return info;
}

static bool has_channel(pgas_thread_t target)
{
    pgas_channel_info_t info = look(target);
    return info.stores || info.puts;
}

static bool as_wanted(pgas_thread_t target)
{
    pgas_channel_info_t info = look(target);
    return info.stores == wants_stores() && info.puts == wants_puts();
}

/* ---- queues ---- */

static uint64_t seed_of(int queue, int source, int thread, int target)
{
    return seed + (uint64_t)((queue * RANKS_MAX + source) * THREADS + thread) * RANKS_MAX +
           (uint64_t)target;
}

static void begin_queues(void)
{
    for (int q = 0; q < QUEUES; q++) {
        for (int r = 0; r < n_ranks; r++)
            for (int t = 0; t < THREADS; t++)
                pgasi_rng_seed(&model[q][r][t], seed_of(q, r, t, me));
    }
    for (int r = 0; r < n_ranks; r++)
        pgasi_rng_seed(&handlers_draw[r], seed_of(FROM_HANDLERS, me, 0, r));
    memset(n_taken, 0, sizeof n_taken);
    memset(n_of_handlers, 0, sizeof n_of_handlers);
    n_wrong = 0;
    spmd_barrier();
}

static void take(int queue, int rank, int thread, const void *args, size_t bytes)
{
    message_t m = message_draw(&model[queue][rank][thread]);
    if (!message_matches(&m, args, bytes))
        __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_taken[queue][rank][thread], 1, __ATOMIC_RELAXED);
}

/* Each fourth call to any thread is answered by one of the handlers' queue. */
static void answer(int rank)
{
    char args[MESSAGE_MAX];
    pgasi_rng_t before = handlers_draw[rank];
    message_t m = message_draw(&handlers_draw[rank]);
    message_write(args, &m);
    if (pgas_call(rank, queued[FROM_HANDLERS], args, m.bytes, NULL) == PGAS_OK)
        n_of_handlers[rank]++;
    else
        handlers_draw[rank] = before;
}

static void on_queued(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int queue = (int)(intptr_t)context, rank = pgas_thread_rank(source);
    int thread = queue == FROM_HANDLERS ? 0 : pgas_thread_slot(source) != 0;
    take(queue, rank, thread, args, bytes);
    if (queue == TO_ANY && n_taken[queue][rank][thread] % 4 == 0)
        answer(rank);
}

static pgas_thread_t target_of(int queue, int rank)
{
    static const int slots[] = { PGAS_SLOT_ANY, PGAS_SLOT_SERVICE, 0, 1 };
    return pgas_thread_make(rank, slots[queue]);
}

/* One way or another. */
static int send_one(int queue, int rank, pgasi_rng_t *rng, pgasi_rng_t *ways, pgas_agg_t *agg,
                    pgas_sync_t *done)
{
    char args[MESSAGE_MAX];
    void *place = args;
    pgas_thread_t target = target_of(queue, rank);
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    message_t m = message_draw(rng);
    message_write(args, &m);
    pgas_status_t status;
    switch (pgasi_rng_below(ways, 6)) {
    case 0:
        status = pgas_call_begin(pgas_on_thread(target), queued[queue], m.bytes, NULL, &place);
        if (status != PGAS_OK)
            return 1;
        message_write(place, &m);
        return pgas_call_commit() != PGAS_OK;
    case 1:
        opts.sync = done;
        opts.when =
            (pgas_when_t[]){ PGAS_EXECUTED, PGAS_REMOTE, PGAS_LOCAL }[pgasi_rng_below(ways, 3)];
        return pgas_call_to(pgas_on_thread(target), queued[queue], args, m.bytes, &opts) != PGAS_OK;
    case 2:
        if (queue == TO_ANY) {
            while ((status = pgas_agg_call(agg, rank, queued[queue], args, m.bytes)) ==
                   PGAS_ERR_AGAIN)
                pgas_progress();
            return status != PGAS_OK;
        }
        /* fall through */
    case 3:
        opts.full = PGAS_FULL_AGAIN;
        while ((status = pgas_call_to(pgas_on_thread(target), queued[queue], args, m.bytes,
                                      &opts)) == PGAS_ERR_AGAIN)
            pgas_progress();
        return status != PGAS_OK;
    case 4:
        opts.full = PGAS_FULL_QUEUE;
        while ((status = pgas_call_to(pgas_on_thread(target), queued[queue], args, m.bytes,
                                      &opts)) == PGAS_ERR_AGAIN)
            pgas_progress();
        return status != PGAS_OK;
    default:
        if (queue == TO_ANY)
            return pgas_call(rank, queued[queue], args, m.bytes, NULL) != PGAS_OK;
        return pgas_call_to(pgas_on_thread(target), queued[queue], args, m.bytes, NULL) != PGAS_OK;
    }
}

/* Everything a thread sends: to each target of each rank a queue, in random order. */
static int send_queues(int thread, int n_each)
{
    pgasi_rng_t rng[TO_SECOND + 1][RANKS_MAX], ways;
    int left[TO_SECOND + 1][RANKS_MAX], n_left = 0, n_bad = 0;
    pgas_agg_t *agg = NULL;
    pgas_sync_t done = PGAS_SYNC_INIT;
    n_bad += pgas_agg_create(NULL, &agg) != PGAS_OK;
    pgasi_rng_seed(&ways, seed + 99 + (uint64_t)(me * THREADS + thread));
    for (int q = 0; q <= TO_SECOND; q++) {
        for (int r = 0; r < n_ranks; r++) {
            pgasi_rng_seed(&rng[q][r], seed_of(q, me, thread, r));
            left[q][r] = n_each;
            n_left += n_each;
        }
    }
    while (n_left > 0) {
        int q = (int)pgasi_rng_below(&ways, TO_SECOND + 1),
            r = (int)pgasi_rng_below(&ways, (uint64_t)n_ranks);
        for (uint64_t n = 1 + pgasi_rng_below(&ways, 20); n > 0 && left[q][r] > 0;
             n--, left[q][r]--, n_left--)
            n_bad += send_one(q, r, &rng[q][r], &ways, agg, &done);
        if (pgasi_rng_below(&ways, 8) == 0)
            pgas_progress();
    }
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    n_bad += pgas_agg_destroy(agg) != PGAS_OK; /* which sends its queued calls */
    return n_bad;
}

/* ---- the second thread ---- */

typedef enum { REST, COME, SEND, AWAY, LEAVE } order_t;
static struct {
    pthread_t thread;
    order_t order, obeyed; /* atomic */
    int n_each, n_bad;
} second;

static void *second_main(void *arg)
{
    (void)arg;
    order_t order;
    second.n_bad = pgas_thread_attach() != PGAS_OK || pgas_thread_slot(pgas_thread_self()) != 1;
    while ((order = __atomic_load_n(&second.order, __ATOMIC_ACQUIRE)) != LEAVE) {
        if (order != __atomic_load_n(&second.obeyed, __ATOMIC_RELAXED)) {
            if (order == SEND)
                second.n_bad += send_queues(1, second.n_each);
            __atomic_store_n(&second.obeyed, order, __ATOMIC_RELEASE);
        }
        if (order != AWAY)
            pgas_progress();
        sched_yield();
    }
    second.n_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static void order_second(order_t order)
{
    __atomic_store_n(&second.order, order, __ATOMIC_RELEASE);
    while (order != LEAVE && __atomic_load_n(&second.obeyed, __ATOMIC_ACQUIRE) != order)
        pgas_progress();
    if (order == LEAVE)
        pthread_join(second.thread, NULL);
}

static void second_begins(void)
{
    second.order = second.obeyed = REST;
    pthread_create(&second.thread, NULL, second_main, NULL);
    order_second(COME);
    spmd_barrier();
}

/* ---- promises ---- */

static void a_channel_comes_by_itself(void)
{
    pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY);
    bool wanted = (wants_stores() || wants_puts()) && is_ample(), before = has_channel(target);
    int n_bad = 0, n_sent = 0;
    spmd_barrier();
    for (; n_sent < 12; n_sent++)
        n_bad += pgas_call(peer, count, NULL, 0, NULL) != PGAS_OK;
    before |= has_channel(target);
    for (; n_sent < 200 || (wanted && !has_channel(target)); n_sent++) {
        n_bad += pgas_call(peer, count, NULL, 0, NULL) != PGAS_OK;
        pgas_progress();
    }
    pgas_quiesce();
    uint64_t sums[2] = { n_counted, (uint64_t)n_sent }, all[2];
    pgas_allreduce(NULL, sums, all, 2, PGAS_U64, PGAS_ADD);
    spmd_ok(!before, "the first calls are messages");
    spmd_ok(!is_ample() || as_wanted(target),
            "after some tens of calls there is a channel, if there may be one");
    spmd_ok(!n_bad && all[0] == all[1], "and nothing is lost on the way (%d of %d)", (int)all[0],
            (int)all[1]);
}

static bool all_taken(const uint64_t *of_handlers, int n_each)
{
    bool all = true;
    for (int r = 0; r < n_ranks; r++) {
        for (int q = 0; q <= TO_SECOND; q++)
            all =
                all && n_taken[q][r][0] == (uint64_t)n_each && n_taken[q][r][1] == (uint64_t)n_each;
        all = all && n_taken[FROM_HANDLERS][r][0] == of_handlers[r * n_ranks + me];
    }
    return all;
}

/* In a fresh job most of the targets see the change from messages to channels. */
static void each_is_a_queue(const char *how, int n_each)
{
    uint64_t sent[RANKS_MAX * RANKS_MAX];
    begin_queues();
    second.n_each = n_each;
    __atomic_store_n(&second.order, SEND, __ATOMIC_RELEASE);
    int n_bad = send_queues(0, n_each);
    order_second(SEND);
    n_bad += pgas_quiesce() != PGAS_OK || second.n_bad;
    order_second(COME);
    pgas_allgather(NULL, n_of_handlers, sent, (size_t)n_ranks * sizeof *sent);
    spmd_ok(!n_bad && all_taken(sent, n_each),
            "each call of each thread, and of handlers, came once%s", how);
    spmd_is_int(n_wrong, 0, "as out of queues: in order, whole, with all their zeros%s", how);
}

static void a_call_out_of_place_is_noticed(void)
{
    pgasi_rng_t rng, ways;
    begin_queues();
    pgas_agg_t *agg = NULL;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_agg_create(NULL, &agg);
    pgasi_rng_seed(&rng, seed_of(TO_FIRST, me, 0, peer));
    pgasi_rng_seed(&ways, 3);
    message_draw(&rng); /* this one is left out */
    for (int i = 0; i < 20; i++)
        send_one(TO_FIRST, peer, &rng, &ways, agg, &done);
    pgas_sync_wait(&done, -1);
    pgas_quiesce();
    spmd_ok(n_wrong > 0, "a queue without its first call is noticed (broken on purpose)");
    pgas_agg_destroy(agg);
}

/* Two calls of each, to the one it came from: more than channels take. */
static void on_split(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t words[16];
    (void)context;
    n_split++;
    n_split_bad += bytes != sizeof words;
    memcpy(words, args, sizeof words);
    for (int i = 0; i < 2 && words[0] > 0; i++) {
        uint64_t next[16] = { words[0] - 1 };
        n_split_bad +=
            pgas_call(pgas_thread_rank(source), split, next, sizeof next, NULL) != PGAS_OK;
    }
}

static void handlers_fill_channels_of_each_other(void)
{
    uint64_t words[16] = { DEPTH };
    n_split = n_split_bad = 0;
    spmd_barrier();
    bool good =
        pgas_call(peer, split, words, sizeof words, NULL) == PGAS_OK && pgas_quiesce() == PGAS_OK;
    uint64_t all = 0, want = (uint64_t)n_ranks * ((UINT64_C(2) << DEPTH) - 1);
    pgas_allreduce(NULL, &n_split, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(good && n_split_bad == 0 && all == want,
            "handlers that fill the channels of each other get on (%d of %d)", (int)all, (int)want);
}

static uint32_t n_granted(void)
{
    uint32_t n = 0, high;
    uint64_t n_refused;
    pgasi_chanmem_count(&n, &high, &n_refused);
    return n;
}

/* Nothing more goes there, not even the first piece of a large one. */
static bool is_full(pgas_thread_t target, uint64_t *n_sent_p)
{
    static const char data[3 * MESSAGE_MAX];
    pgas_buffer_t buffer = { .mode = PGAS_BUFFER_COPY,
                             .address = (void *)(uintptr_t)data,
                             .bytes = sizeof data };
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.full = PGAS_FULL_AGAIN;
    uint64_t before;
    do { /* puts under way hold buffers, and the lack of buffers refuses calls, too */
        before = *n_sent_p;
        pgas_flush(peer);
        while (pgas_call_to(pgas_on_thread(target), count, NULL, 0, &opts) == PGAS_OK)
            ++*n_sent_p;
    } while (*n_sent_p > before);
    return call_buffers(pgas_on_thread(target), count, NULL, 0, &buffer, 1, &opts, NULL) ==
           PGAS_ERR_AGAIN;
}

/* The target's service thread reports arrival of calls in the channel as of messages. All calls
 * must fit: in the smallest channels, two chunks of 4 KiB, only the next chunk becomes free
 * meanwhile. */
static void arrival_is_told_while_the_thread_stays_away(void)
{
    pgas_thread_t target = pgas_thread_make(peer, 1);
    int n_bad = pgas_channel_open(pgas_on_thread(target)) != PGAS_OK;
    uint64_t word = 0;
    pgas_quiesce();
    order_second(AWAY);
    spmd_barrier();
    for (int i = 0; i < 36; i++) {
        pgas_sync_t arrived = PGAS_SYNC_INIT;
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        opts.sync = &arrived;
        opts.when = PGAS_REMOTE;
        n_bad += pgas_call_to(pgas_on_thread(target), count, &word, i % 2 ? sizeof word : 0,
                              &opts) != PGAS_OK;
        n_bad += pgas_call_to(pgas_on_thread(target), count, NULL, 0, NULL) != PGAS_OK;
        n_bad += pgas_call_to(pgas_on_thread(target), count, &word, sizeof word, &opts) != PGAS_OK;
        n_bad += pgas_sync_wait(&arrived, 20000000) != PGAS_OK;
    }
    spmd_barrier();
    order_second(COME);
    pgas_quiesce();
    spmd_ok(n_bad == 0, "arrival is reported while the thread does not poll");
}

/* The peer's second thread stays away; others there grant chunks. */
static void a_channel_grows_and_shrinks(void)
{
    pgas_thread_t target = pgas_thread_make(peer, 1);
    uint64_t one[32] = { 0 }, n_sent = 0, n_tries = 0, sums[2], all[2];
    bool good = pgas_channel_open(pgas_on_thread(target)) == PGAS_OK,
         some = (wants_stores() || wants_puts()) && is_ample();
    pgas_channel_info_t info = look(target);
    /* a call that was queued before prevents opening */
    while (some && !has_channel(target)) {
        n_sent += pgas_call_to(pgas_on_thread(target), count, one, 8, NULL) == PGAS_OK;
        pgas_progress();
    }
    spmd_ok(good && (!some || as_wanted(target)), "a channel is set up ahead");
    pgas_channel_close(pgas_on_thread(target)); /* as small as it gets */
    pgas_quiesce();
    /* not before: what opened the peer's channel may still wait for the second thread */
    n_counted = 0;
    uint64_t before = n_granted();
    order_second(AWAY);
    spmd_barrier();
    n_sent = 0;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.full = PGAS_FULL_AGAIN;
    do {
        n_sent += pgas_call_to(pgas_on_thread(target), count, one, sizeof one, &opts) == PGAS_OK;
        pgas_progress();
        info = look(target);
    } while (++n_tries < 100 || (some && info.n_chunks < pgasi_param.chunks_max));
    bool full = !some || *pgasi_param.fault || is_full(target, &n_sent);
    bool grew = info.consumed <= info.sent;
    spmd_ok(grew && (!some || info.n_chunks == pgasi_param.chunks_max),
            "it grows while its target stays away");
    spmd_ok(full, "a call of several pieces that may not wait is refused then, too");
    spmd_barrier();
    uint64_t most = n_granted();
    order_second(COME);
    pgas_quiesce();
    good = pgas_channel_close(pgas_on_thread(target)) == PGAS_OK;
    info = look(target);
    while (has_channel(target) && info.consumed < info.sent) {
        pgas_progress();
        info = look(target);
    }
    pgas_quiesce();
    spmd_ok(good && info.consumed == info.sent &&
                (!some || info.n_chunks <= pgasi_param.chunks + 1),
            "it is drained and gives back its chunks");
    spmd_ok(!some || pgasi_param.chunks_max <= pgasi_param.chunks + 1 ||
                (most > before && n_granted() < most),
            "and the target's node has it again");
    good = pgas_channel_open(pgas_on_thread(target)) == PGAS_OK;
    n_sent += pgas_call_to(pgas_on_thread(target), count, one, sizeof one, NULL) == PGAS_OK;
    pgas_quiesce();
    sums[0] = n_counted;
    sums[1] = n_sent;
    pgas_allreduce(NULL, sums, all, 2, PGAS_U64, PGAS_ADD);
    spmd_ok(good && all[0] == all[1], "nothing is lost, and it opens again (%d of %d)", (int)all[0],
            (int)all[1]);
}

static void tell(pgasi_ctl_what_t what, int ctx, uint32_t channel, uint32_t number,
                 uint64_t position)
{
    pgasi_ctl_t note;
    memset(&note, 0, sizeof note);
    note.what = what;
    note.ctx = (uint32_t)ctx;
    note.channel = channel;
    note.number = number;
    note.n = pgasi_chanmem.n_first;
    note.position = position;
    pgasi_sendq_answer(peer, PGASI_DESC_CHANNEL, &note, sizeof note, NULL, 0);
}

/* Each rank sends to the next; replies would be further notes. No thread has the last context. */
static int tell_nonsense(void)
{
    int mine = pgasi_self.ctx->index, unused = pgasi_n_ctxs - 1, n = 0;
    for (uint32_t c = 0; c < 8; c++, n += 3) {
        tell(PGASI_CTL_JOIN, mine, c, 0, 0); /* this one has joined, or was never granted */
        tell(PGASI_CTL_BACK, unused, c, 2 * c, 0);
        tell(PGASI_CTL_MORE, unused, c, 0, 0);
    }
    tell(PGASI_CTL_ASK, mine, 0, 0, 0);
    tell(PGASI_CTL_JOIN, mine, UINT32_MAX, 0, 0);
    tell(PGASI_CTL_BACK, mine, 0, UINT32_MAX, 0);
    tell(PGASI_CTL_GRANT, mine, 0, 0, 0);
    tell(PGASI_CTL_GRANT, unused, 0, 0, 0);
    tell(PGASI_CTL_CHUNK, mine, 0, 0, 0);
    tell(PGASI_CTL_TOLD, mine, 0, 0, UINT64_C(1) << 60);
    tell((pgasi_ctl_what_t)99, mine, 0, 0, 0);
    tell(PGASI_CTL_ASK, 1000, 0, 0, 0);
    pgasi_sendq_answer(peer, PGASI_DESC_CHANNEL, &n, sizeof n, NULL, 0);
    return n + 10;
}

static void nonsense_is_dropped(void)
{
    if (!(wants_stores() || wants_puts()) || !is_ample()) {
        spmd_skip(1, "no channels");
        return;
    }
    spmd_barrier();
    uint64_t before = pgasi_n_dropped, granted = n_granted();
    spmd_barrier();
    int n = tell_nonsense();
    pgas_quiesce();
    spmd_ok(pgasi_n_dropped == before + (uint64_t)n && n_granted() == granted,
            "notes that make no sense are dropped and counted (%d of %d)",
            (int)(pgasi_n_dropped - before), n);
}

static void who_gets_none_is_counted(void)
{
    char text[4096] = "";
    uint32_t n, high;
    uint64_t refused, all = 0;
    FILE *f = fmemopen(text, sizeof text, "w");
    bool printed = f && pgas_stats_print(f) == PGAS_OK;
    if (f)
        fclose(f);
    pgasi_chanmem_count(&n, &high, &refused);
    char words[64];
    snprintf(words, sizeof words, "at most %u, refused %llu;", (unsigned)high,
             (unsigned long long)refused);
    pgas_allreduce(NULL, &refused, &all, 1, PGAS_U64, PGAS_ADD);
    bool tiny = pgasi_chanmem.n_chunks && wants_puts() && !is_ample();
    spmd_ok(printed && strstr(text, words) && (all > 0) >= tiny && (all > 0) <= !is_ample() &&
                n <= pgasi_chanmem.n_chunks,
            "channels that were asked for in vain are counted and told");
}

static void a_thread_that_left_refuses(void)
{
    pgas_thread_t target = pgas_thread_make(peer, 1);
    pgas_sync_t done = PGAS_SYNC_INIT;
    uint64_t one[4] = { 0 };
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &done;
    order_second(LEAVE);
    spmd_barrier();
    bool good = pgas_call_to(pgas_on_thread(target), count, one, sizeof one, &opts) == PGAS_OK;
    pgas_status_t status = pgas_sync_wait(&done, -1);
    spmd_ok(good && status == PGAS_ERR_PEER && second.n_bad == 0,
            "a detached thread refuses calls of a channel");
    pgas_quiesce();
}

/* With stores, arguments under construction are in the target's memory before they are sent. */
static void stores_are_in_place(void)
{
    static const char words[] = "what the target can see before it is sent to it";
    pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY);
    void *args = NULL;
    bool good =
        pgas_call_begin(pgas_on_thread(target), count, sizeof words, NULL, &args) == PGAS_OK;
    if (good)
        memcpy(args, words, sizeof words);
    spmd_barrier();
    size_t chunks = pgasi_chanmem.n_chunks < 256 ? pgasi_chanmem.n_chunks : 256;
    bool seen = chunks && memmem(pgasi_heap_tail() + pgasi_chanmem.chunks_at,
                                 chunks * pgasi_chunk_bytes, words, sizeof words);
    spmd_ok(good && seen == (wants_stores() && n_ranks > 1),
            "by stores arguments are built where the target reads them");
    good = pgas_call_commit() == PGAS_OK;
    spmd_ok(good, "and sent");
    pgas_quiesce();
}

/* ---- with the wrapper ---- */

static void on_check_words(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    for (size_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)args)[i] != (unsigned char)(7 * i + 1)) {
            n_words_wrong++;
            break;
        }
    }
    __atomic_fetch_add(&n_words_run, 1, __ATOMIC_RELEASE);
}

static void fill_words(unsigned char *args, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        args[i] = (unsigned char)(7 * i + 1);
}

/* Opens a channel to where nothing went before. */
static void open_fresh(pgas_thread_t target)
{
    do
        pgas_channel_open(pgas_on_thread(target));
    while (!has_channel(target) &&
           pgas_call_to(pgas_on_thread(target), check_words, NULL, 0, NULL) == PGAS_OK);
}

static void built_arguments_leave_from_there(void)
{
    unsigned char words[600];
    void *args = NULL;
    pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY);
    open_fresh(target);
    fill_words(words, sizeof words);
    pgas_quiesce();
    n_words_wrong = 0;
    n_noted = n_with_words = 0;
    pieces_words = words;
    pieces_words_bytes = sizeof words;
    pieces_ctx = pgasi_self.ctx->index;
    pieces_noting = true;
    bool good =
        pgas_call_begin(pgas_on_thread(target), check_words, sizeof words, NULL, &args) == PGAS_OK;
    if (good)
        fill_words(args, sizeof words);
    good = good && pgas_call_commit() == PGAS_OK;
    pgas_quiesce();
    pieces_noting = false;
    int n_from = 0;
    for (int i = 0; i < n_noted; i++) {
        const pieces_put_t *p = &pieces_noted[i];
        n_from += p->from <= (char *)args && p->from + p->bytes >= (char *)args + sizeof words;
    }
    spmd_ok(good && n_words_wrong == 0 && n_from == 1 && n_with_words == 1,
            "the put reads what was built where it was built, and nobody has a copy (%d, %d)",
            n_from, n_with_words);
}

/* A header overtakes its arguments: the checker must see it. Every rank gets one such call, in
 * chunks never used before. */
static void a_header_before_its_arguments_is_noticed(void)
{
    unsigned char words[64];
    pgas_thread_t target = pgas_thread_make(peer, 0);
    fill_words(words, sizeof words);
    pgas_quiesce();
    open_fresh(target);
    for (int i = 0; i < 3; i++) {
        pgas_call_to(pgas_on_thread(target), check_words, words, sizeof words, NULL);
        pgas_quiesce();
    }
    for (int i = 0; i < 1000; i++) /* the buffer is ours again */
        pgas_progress();
    int before = n_words_wrong;
    n_words_run = 0;
    pieces_ctx = pgasi_self.ctx->index;
    spmd_barrier();
    __atomic_store_n(&pieces_mode, PIECES_CROSSED, __ATOMIC_RELAXED);
    pgas_call_to(pgas_on_thread(target), check_words, words, sizeof words, NULL);
    while (!__atomic_load_n(&n_words_run, __ATOMIC_ACQUIRE))
        pgas_progress();
    int wrong = n_words_wrong - before;
    spmd_barrier();
    __atomic_store_n(&pieces_mode, PIECES_TORN, __ATOMIC_RELAXED);
    pgas_quiesce();
    spmd_ok(before == 0 && wrong == 1,
            "arguments that arrive after their header are noticed (broken on purpose)");
}

static void with_the_wrapper(void)
{
    if (over_wire() || *pgasi_param.fault || !is_ample()) {
        job_stop();
        spmd_skip(9, "puts are torn in shared memory, with chunks for all");
        return;
    }
    job_stop();
    pgasi_hooks.wrap_transport = pieces_wrap;
    pieces_seed = seed;
    pieces_mode = PIECES_TORN;
    job_start("FAR_CALLS=put");
    spmd_barrier();
    second_begins();
    pieces_mode = PIECES_WHOLE;
    built_arguments_leave_from_there();
    pieces_mode = PIECES_TORN;
    a_header_before_its_arguments_is_noticed();
    each_is_a_queue(", torn", 150);
    handlers_fill_channels_of_each_other();
    order_second(LEAVE);
    spmd_ok(n_torn > 100 && n_fences_torn > 100 && n_not_mapped == 0, "puts were torn (%d)",
            (int)n_torn);
    pgas_quiesce();
    spmd_ok(second.n_bad == 0, "the second thread too");
    job_stop();
}

static void register_handlers(void)
{
    static const char *const names[] = { "any", "service", "first", "second", "handlers" };
    for (int q = 0; q < QUEUES; q++)
        pgas_handler_register(names[q], on_queued, (void *)(intptr_t)q, NULL, &queued[q]);
    pgas_handler_register("count", on_count, &n_counted, NULL, &count);
    pgas_handler_register("split", on_split, NULL, NULL, &split);
    pgas_handler_register("check words", on_check_words, NULL, NULL, &check_words);
}

int main(int argc, char **argv)
{
    register_handlers();
    job_begin(&argc, &argv, 28);
    peer = job_right();
    seed = spmd_seed(77);
    a_channel_comes_by_itself();
    second_begins();
    each_is_a_queue("", 150);
    a_call_out_of_place_is_noticed();
    handlers_fill_channels_of_each_other();
    arrival_is_told_while_the_thread_stays_away();
    a_channel_grows_and_shrinks();
    nonsense_is_dropped();
    stores_are_in_place();
    who_gets_none_is_counted();
    a_thread_that_left_refuses();
    with_the_wrapper();
    return spmd_end();
}
