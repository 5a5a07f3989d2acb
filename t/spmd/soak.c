/* Soak: all primitives at once.
 *   what:   Calls of every kind (inline, any size, built in place, gathered, with replies, to
 *           ranks, threads and services, sent, blocking, spawned, with buffers, broadcast, from
 *           handlers) run at the same time as puts, gets and atomics. After each round nothing is
 *           lost, doubled, changed or out of order for any source thread and target. Every counter
 *           is zero, and every reply is right.
 *   np:     2 3 4 7
 *   nodes:  0 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=4,again=3 PGAS_FAR_CALLS=put |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_AGG_SIZE=256 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=512 PGAS_CHUNKS_MAX=2 PGAS_LANES=2
 *   env:    PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_AGG_SIZE=256 PGAS_BACKLOG_LIMIT=64K PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/call.h, pgas/agg.h; `make soak` runs it for a minute (SOAK_SECONDS: of one
 *   configuration)
 */
#include <pthread.h>
#include "base/clock.h"
#include "base/param.h"
#include "base/rng.h"
#include "t/spmd/job.h"

#define THREADS_MAX 3
#define SLOTS       64 /* of sources */
#define BODY_MAX    8192
#define CELL        1024 /* where one thread puts */
#define N_REPLIES   16

/* Calls of one thread to one target in one way; the first N_STREAMS keep an order. */
enum {
    ANY,
    SLOT0,
    SERVICE = SLOT0 + THREADS_MAX,
    SENT,
    BLOCKING,
    N_STREAMS,
    SPAWNED = N_STREAMS,
    RELAYED
};

typedef struct {
    uint64_t of[N_STREAMS][SLOTS];
} counts_t;

/* Calls without an order: their number, and the sum of their values. */
typedef struct {
    uint64_t n_sent, n_got, sum_sent, sum_got;
} heap_of_calls_t;

typedef struct {
    char *answer; /* call_max bytes */
    uint64_t word;
    size_t bytes;
} reply_t;

typedef struct {
    int index, slot, n_bad;
    pgasi_rng_t rng;
    pgas_agg_t *agg;
    pgas_sync_t done;
    reply_t reply[N_REPLIES];
    int n_replies;
    char *args;
} worker_t;

static pgas_handler_t plain, batched, blocking, asked, answer, spawned, relayed, loaded, told;
static int n_threads, n_slots;
static uint64_t seed;
static size_t call_max;
static counts_t sent[JOB_RANKS_MAX], got[JOB_RANKS_MAX], owed[JOB_RANKS_MAX];
static heap_of_calls_t loose[4]; /* spawned, relayed, with buffers, broadcast */
static int slots[JOB_RANKS_MAX][THREADS_MAX];
static uint64_t n_wrong, n_elsewhere, n_bad_replies, n_bad_data, n_bad_status, tally_sent, n_calls;
static pgas_agg_t *handlers_agg;
static pgas_gptr_t cells, tally;
static int n_arrived, round_now, over;

static void note(uint64_t *count, uint64_t n)
{
    if (n)
        __atomic_fetch_add(count, n, __ATOMIC_RELAXED);
}

static bool is_bad(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        printf("# rank %d: %s: %s\n", me, what, pgas_status_text(status));
    return status != PGAS_OK;
}
#define BAD(call) is_bad((call), #call)

static uint64_t mix(uint64_t x)
{
    return pgas_splitmix(&x);
}

/* The first word of a call: stream, number, and 32 bits that fit only this source, target and
 * size. */
static uint64_t word_of(pgas_thread_t source, int target, int stream, uint64_t number, size_t bytes)
{
    uint64_t low = (uint64_t)stream << 60 | (number & 0xfffffff) << 32;
    uint64_t x = mix(seed ^ low) ^ (uint64_t)source << 24 ^ (uint64_t)target << 52 ^ bytes;
    return low | (mix(x) & UINT32_MAX);
}

/* All zeros now and then, often zeros at the end. */
static unsigned char byte_of(uint64_t word, size_t i, size_t bytes)
{
    return word % 5 == 0 || i + word % 11 > bytes ? 0 : (unsigned char)((word | 1) * (i + 1) >> 21);
}

static void fill(char *args, uint64_t word, size_t bytes)
{
    memcpy(args, &word, 8);
    for (size_t i = 8; i < bytes; i++)
        args[i] = (char)byte_of(word, i, bytes);
}

static bool is_filled(const char *args, uint64_t word, size_t bytes)
{
    size_t i = 8;
    while (i < bytes && (unsigned char)args[i] == byte_of(word, i, bytes))
        i++;
    return memcmp(args, &word, 8) == 0 && i >= bytes;
}

static size_t reply_size(uint64_t word)
{
    return word % 16 == 0 ? call_max : 8 + word % 57;
}

/* A handler cannot wait for room: a refused call is not counted as sent. */
static void relay(uint64_t word)
{
    uint64_t next = mix(word);
    int to = (int)(next % (uint64_t)n_ranks);
    pgas_status_t status = next >> 32 & 1
                               ? pgas_call(to, relayed, &next, sizeof next, NULL)
                               : pgas_agg_call(handlers_agg, to, relayed, &next, sizeof next);
    if (status == PGAS_OK) {
        note(&loose[1].n_sent, 1);
        note(&loose[1].sum_sent, next);
    }
    note(&n_bad_status, status != PGAS_OK && status != PGAS_ERR_AGAIN);
}

static uint64_t take(const void *args, size_t bytes, pgas_thread_t source)
{
    uint64_t word = 0;
    int rank = pgas_thread_rank(source), slot = pgas_thread_slot(source);
    memcpy(&word, args, bytes < 8 ? bytes : 8);
    int stream = (int)(word >> 60);
    if (stream >= N_STREAMS || slot >= SLOTS || rank >= n_ranks) {
        note(&n_wrong, 1);
        return word;
    }
    uint64_t *number = &got[rank].of[stream][slot];
    bool right =
        word == word_of(source, me, stream, *number, bytes) && is_filled(args, word, bytes);
    ++*number;
    note(&n_wrong, !right);
    bool for_thread = stream >= SLOT0 && stream < SERVICE;
    note(&n_elsewhere,
         for_thread && pgas_thread_slot(pgas_thread_self()) != slots[me][stream - SLOT0]);
    return word;
}

static void on_plain(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word = take(args, bytes, source);
    (void)context;
    if (word >> 60 == ANY && word % 8 == 1)
        relay(word);
}

static void on_batch(const void *args, size_t bytes, size_t stride, size_t n, pgas_thread_t source,
                     void *context)
{
    (void)context;
    for (size_t i = 0; i < n; i++)
        take((const char *)args + i * stride, bytes, source);
}

static void reply_to(uint64_t word)
{
    char body[BODY_MAX];
    size_t bytes = reply_size(word);
    fill(body, mix(word), bytes);
    note(&n_bad_status, pgas_reply(body, bytes) != PGAS_OK);
}

static void on_asked(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    reply_to(take(args, bytes, source));
}

/* Without an order: asked by handlers that wait. */
static void on_answer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&word, args, sizeof word);
    reply_to(word);
}

static void ask(uint64_t word)
{
    char body[BODY_MAX];
    size_t bytes = reply_size(word);
    int to = (int)(word % (uint64_t)n_ranks);
    bool good = pgas_call_return(to, answer, &word, sizeof word, body, bytes) == PGAS_OK;
    note(&n_bad_replies, !good || !is_filled(body, mix(word), bytes));
}

static void add_to_tally(int rank, uint64_t value)
{
    uint64_t old;
    note(&n_bad_status,
         pgas_fetch_op_u64(pgas_gptr_at(tally, rank), PGAS_ADD, value, &old) != PGAS_OK);
    note(&tally_sent, value);
}

static void on_blocking(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word = take(args, bytes, source);
    (void)context;
    if (word % 2)
        ask(mix(word));
    else
        add_to_tally((int)(word / 2 % (uint64_t)n_ranks), word);
}

static void on_spawned(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word;
    (void)source;
    (void)context;
    memcpy(&word, args, sizeof word);
    note(&n_wrong, !is_filled(args, word, bytes));
    note(&loose[0].n_got, 1);
    note(&loose[0].sum_got, word ^ bytes);
    ask(word);
    add_to_tally((int)(word % (uint64_t)n_ranks), word);
}

static void on_relayed(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word;
    (void)source;
    (void)context;
    memcpy(&word, args, sizeof word);
    note(&n_wrong, bytes != sizeof word);
    note(&loose[1].n_got, 1);
    note(&loose[1].sum_got, word);
}

/* A word, and a buffer that is filled from it. */
static void on_loaded(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word;
    void *address = NULL;
    size_t n = 0;
    (void)source;
    (void)context;
    memcpy(&word, args, sizeof word);
    bool right = bytes == sizeof word && pgas_buffer_count() == 1 &&
                 pgas_buffer_get(0, &address, &n) == PGAS_OK;
    note(&n_wrong, !right || n < 8 || !is_filled(address, word, n));
    note(&loose[2].n_got, 1);
    note(&loose[2].sum_got, word ^ n);
}

static void on_told(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word;
    (void)source;
    (void)context;
    memcpy(&word, args, sizeof word);
    note(&n_wrong, !is_filled(args, word, bytes));
    note(&loose[3].n_got, 1);
    note(&loose[3].sum_got, word ^ bytes);
}

static uint64_t below(worker_t *w, uint64_t n)
{
    return pgasi_rng_below(&w->rng, n);
}

static size_t some_size(worker_t *w)
{
    static const size_t fixed[] = { 8, 8, 64, 64, 256, 16, 24 };
    uint64_t i = below(w, 16);
    if (i < sizeof fixed / sizeof *fixed)
        return fixed[i];
    if (i < 14)
        return 8 + below(w, 300);
    return i < 15 ? 8 + below(w, call_max - 7) : call_max;
}

/* Writes the next call of a stream to args. It counts as sent: the thread that has taken the number
 * must send it. */
static uint64_t prepare(worker_t *w, int rank, int stream, char *args, size_t bytes)
{
    uint64_t word = word_of(pgas_thread_make(me, w->slot), rank, stream,
                            sent[rank].of[stream][w->slot]++, bytes);
    fill(args, word, bytes);
    return word;
}

static void some_options(worker_t *w, pgas_call_opts_t *opts)
{
    static const pgas_when_t when[] = { PGAS_EXECUTED, PGAS_REMOTE, PGAS_LOCAL };
    static const pgas_full_t full[] = { PGAS_FULL_WAIT, PGAS_FULL_AGAIN, PGAS_FULL_QUEUE };
    opts->when = when[below(w, 3)];
    opts->full = full[below(w, 3)];
    if (below(w, 3) == 0)
        opts->sync = &w->done;
}

static void call_to(worker_t *w, int rank, int stream)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    size_t bytes = some_size(w);
    int slot = stream == SERVICE ? PGAS_SLOT_SERVICE : PGAS_SLOT_ANY;
    if (stream > SLOT0 && stream < SERVICE && slots[rank][stream - SLOT0] >= pgasi_param.ctxs)
        stream = SLOT0; /* handler threads have taken the slots that can be called */
    if (stream >= SLOT0 && stream < SERVICE)
        slot = slots[rank][stream - SLOT0];
    some_options(w, &opts);
    opts.way = stream == SENT ? PGAS_WAY_SEND : PGAS_WAY_WRITE;
    pgas_handler_t handler = stream == BLOCKING ? blocking : plain;
    prepare(w, rank, stream, w->args, bytes);
    pgas_status_t status;
    while ((status = pgas_call_to(pgas_on_thread(pgas_thread_make(rank, slot)), handler, w->args,
                                  bytes, &opts)) == PGAS_ERR_AGAIN)
        pgas_progress();
    w->n_bad += is_bad(status, __func__);
}

/* One that gets PGAS_ERR_AGAIN, also from commit, begins anew. */
static pgas_status_t build(worker_t *w, pgas_thread_t target, size_t bytes,
                           const pgas_call_opts_t *opts, uint64_t word)
{
    void *args;
    pgas_status_t status = pgas_call_begin(pgas_on_thread(target), plain, bytes, opts, &args);
    if (status != PGAS_OK)
        return status;
    if (below(w, 4) == 0) { /* not this time */
        memset(args, 0x55, bytes);
        status = pgas_call_abandon();
        return status == PGAS_OK ? PGAS_ERR_AGAIN : status;
    }
    fill(args, word, bytes);
    return pgas_call_commit();
}

static void call_in_place(worker_t *w, int rank)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    size_t bytes = some_size(w);
    pgas_status_t status;
    some_options(w, &opts);
    uint64_t word = prepare(w, rank, ANY, w->args, bytes);
    while ((status = build(w, pgas_thread_make(rank, PGAS_SLOT_ANY), bytes, &opts, word)) ==
           PGAS_ERR_AGAIN)
        pgas_progress();
    w->n_bad += is_bad(status, __func__);
}

static void call_direct(worker_t *w, int rank)
{
    size_t bytes = some_size(w);
    pgas_status_t status = PGAS_OK;
    bool counted = below(w, 8) == 0;
    uint64_t word = prepare(w, rank, ANY, w->args, bytes);
    if (bytes == 8 && !counted)
        status = pgas_call(rank, plain, &word, 8, NULL);
    else if (below(w, 2))
        status = pgas_call(rank, plain, w->args, bytes, counted ? &w->done : NULL);
    else
        while ((status = pgas_call_to(pgas_on_rank(rank), plain, w->args, bytes,
                                      PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN,
                                                     .sync = counted ? &w->done : NULL))) ==
               PGAS_ERR_AGAIN)
            pgas_progress();
    w->n_bad += is_bad(status, __func__);
}

static void stream_inline(worker_t *w, int rank)
{
    for (uint64_t n = below(w, 100); n > 0; n--) {
        char args[8];
        uint64_t word = prepare(w, rank, ANY, args, 8);
        w->n_bad += BAD(pgas_call(rank, plain, &word, 8, NULL));
    }
}

static void gather_some(worker_t *w, int rank)
{
    size_t bytes = some_size(w);
    for (uint64_t n = 1 + below(w, 40); n > 0; n--) {
        pgas_handler_t handler = below(w, 8) ? batched : plain;
        if (below(w, 8) == 0)
            bytes = some_size(w);
        prepare(w, rank, ANY, w->args, bytes);
        w->n_bad += BAD(pgas_agg_call(w->agg, rank, handler, w->args, bytes));
    }
}

static void publish(worker_t *w, int rank)
{
    pgas_status_t status = PGAS_OK;
    switch (below(w, 3)) {
    case 0:
        status = pgas_agg_flush(w->agg, rank, NULL);
        break;
    case 1:
        status = pgas_agg_flush(w->agg, PGAS_ALL, NULL);
        break;
    default:
        status = pgas_agg_flush(w->agg, below(w, 2) ? rank : PGAS_ALL, &w->done);
    }
    w->n_bad += is_bad(status, __func__);
}

static void check_replies(worker_t *w)
{
    w->n_bad += BAD(pgas_sync_wait(&w->done, -1));
    for (int i = 0; i < w->n_replies; i++)
        note(&n_bad_replies,
             !is_filled(w->reply[i].answer, mix(w->reply[i].word), w->reply[i].bytes));
    w->n_replies = 0;
}

static void call_and_return(worker_t *w, int rank)
{
    if (w->n_replies == N_REPLIES)
        check_replies(w);
    reply_t *reply = &w->reply[w->n_replies];
    size_t bytes = some_size(w);
    bool at_once = below(w, 4) == 0;
    reply->word = prepare(w, rank, ANY, w->args, bytes);
    reply->bytes = reply_size(reply->word);
    if (!at_once)
        w->n_replies++;
    w->n_bad +=
        BAD(at_once ? pgas_call_return(rank, asked, w->args, bytes, reply->answer, reply->bytes)
                    : pgas_call_return_nb(rank, asked, w->args, bytes, reply->answer, reply->bytes,
                                          &w->done));
    note(&n_bad_replies, at_once && !is_filled(reply->answer, mix(reply->word), reply->bytes));
}

static void spawn(worker_t *w, int rank)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    size_t bytes = 8 + below(w, call_max < 264 ? call_max - 16 : 256);
    uint64_t word = pgasi_rng_u64(&w->rng);
    fill(w->args, word, bytes);
    opts.sync = &w->done;
    opts.spawn = true;
    note(&loose[0].n_sent, 1);
    note(&loose[0].sum_sent, word ^ bytes);
    w->n_bad += BAD(pgas_call_to(pgas_on_rank(rank), spawned, w->args, bytes, &opts));
}

/* Waits until the buffer is free again. */
static void call_with_buffer(worker_t *w, int rank)
{
    char *body = w->reply[N_REPLIES - 1].answer; /* unused unless all are taken */
    pgas_buffer_t buffer = { below(w, 2) ? PGAS_BUFFER_COPY : PGAS_BUFFER_PULL,
                             body,
                             8 + below(w, BODY_MAX - 7),
                             PGAS_NULL,
                             false,
                             NULL };
    uint64_t word = pgasi_rng_u64(&w->rng);
    if (w->n_replies == N_REPLIES)
        check_replies(w);
    fill(body, word, buffer.bytes);
    buffer.helper = below(w, 4) == 0;
    note(&loose[2].n_sent, 1);
    note(&loose[2].sum_sent, word ^ buffer.bytes);
    pgas_thread_t target = pgas_thread_make(rank, PGAS_SLOT_ANY);
    w->n_bad +=
        BAD(pgas_call_to(pgas_on_thread(target), loaded, &word, sizeof word,
                         PGAS_CALL_OPTS(.buffers = &buffer, .n_buffers = 1, .local = &w->done)));
    check_replies(w);
}

static void tell_all(worker_t *w)
{
    size_t bytes = 8 + below(w, 120);
    uint64_t word = pgasi_rng_u64(&w->rng);
    fill(w->args, word, bytes);
    note(&loose[3].n_sent, (uint64_t)n_ranks);
    note(&loose[3].sum_sent, (uint64_t)n_ranks * (word ^ bytes));
    w->n_bad += BAD(pgas_call_to(pgas_on_team(NULL), told, w->args, bytes, NULL));
}

static void transfer(worker_t *w, int rank)
{
    char *back = w->reply[N_REPLIES - 1].answer; /* unused unless all are taken */
    size_t bytes = 8 + below(w, (call_max < CELL ? call_max : CELL) - 7);
    pgas_gptr_t there = pgas_gptr_at(cells, rank) + (uint64_t)(me * THREADS_MAX + w->index) * CELL;
    if (w->n_replies == N_REPLIES)
        check_replies(w);
    uint64_t word = pgasi_rng_u64(&w->rng);
    fill(w->args, word, bytes);
    bool good = pgas_put(there, w->args, bytes) == PGAS_OK && pgas_flush(rank) == PGAS_OK;
    good = good && pgas_get(back, there, bytes) == PGAS_OK && is_filled(back, word, bytes);
    note(&n_bad_data, !good);
    w->n_bad += BAD(pgas_update_u64(pgas_gptr_at(tally, rank), PGAS_ADD, word));
    note(&tally_sent, word);
    add_to_tally(rank, 1);
}

static void do_something(worker_t *w)
{
    int rank = (int)below(w, (uint64_t)n_ranks);
    switch (below(w, 32)) {
    case 0:
        spawn(w, rank);
        break;
    case 1:
    case 2:
        call_to(w, rank, BLOCKING);
        break;
    case 3:
    case 4:
    case 5:
        call_to(w, rank, SLOT0 + (int)below(w, (uint64_t)n_slots));
        break;
    case 6:
    case 7:
        call_to(w, rank, SERVICE);
        break;
    case 8:
    case 9:
        call_to(w, rank, SENT);
        break;
    case 10:
    case 11:
        call_to(w, rank, ANY);
        break;
    case 12:
    case 13:
        call_in_place(w, rank);
        break;
    case 14:
    case 15:
        call_and_return(w, rank);
        break;
    case 16:
    case 17:
        transfer(w, rank);
        break;
    case 18:
    case 19:
        publish(w, rank);
        break;
    case 20:
    case 21:
        stream_inline(w, rank);
        break;
    case 22:
        pgas_progress();
        break;
    case 23:
        call_with_buffer(w, rank);
        break;
    case 24:
        tell_all(w);
        break;
    case 25:
    case 26:
    case 27:
        gather_some(w, rank);
        break;
    default:
        call_direct(w, rank);
    }
}

static void begin_worker(worker_t *w)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    w->slot = pgas_thread_slot(pgas_thread_self());
    slots[me][w->index] = w->slot;
    opts.publish_bytes = below(w, 2) ? 0 : 64 + below(w, 4000);
    opts.latency_us = below(w, 2) ? 0 : -1;
    w->n_bad += w->slot >= SLOTS || pgas_agg_create(&opts, &w->agg) != PGAS_OK;
    w->args = job_alloc(BODY_MAX);
    for (int i = 0; i < N_REPLIES; i++)
        w->reply[i].answer = job_alloc(BODY_MAX);
}

static void end_worker(worker_t *w)
{
    w->n_bad += BAD(pgas_agg_destroy(w->agg));
    free(w->args);
    for (int i = 0; i < N_REPLIES; i++)
        free(w->reply[i].answer);
    note(&n_bad_status, (uint64_t)w->n_bad);
}

static void work_a_round(worker_t *w)
{
    for (uint64_t n = 20 + below(w, 200); n > 0; n--)
        do_something(w);
    w->n_bad += BAD(pgas_agg_flush(w->agg, PGAS_ALL, NULL)) + BAD(pgas_flush_all());
    check_replies(w);
}

static void arrive(void)
{
    __atomic_fetch_add(&n_arrived, 1, __ATOMIC_ACQ_REL);
}

/* Serves until the main thread begins the next round. */
static void *work(void *arg)
{
    worker_t *w = arg;
    int seen = 0;
    w->n_bad += BAD(pgas_thread_attach());
    begin_worker(w);
    arrive();
    for (;;) {
        while (__atomic_load_n(&round_now, __ATOMIC_ACQUIRE) == seen)
            pgas_progress();
        seen++;
        if (__atomic_load_n(&over, __ATOMIC_ACQUIRE))
            break;
        work_a_round(w);
        arrive();
    }
    end_worker(w);
    w->n_bad += BAD(pgas_thread_detach());
    return NULL;
}

static void wait_for_workers(void)
{
    while (__atomic_load_n(&n_arrived, __ATOMIC_ACQUIRE) < n_threads - 1)
        pgas_progress();
    __atomic_store_n(&n_arrived, 0, __ATOMIC_RELAXED);
}

/* After quiescence: calls of any source that are missing here, or too many. */
static uint64_t compare_counts(void)
{
    uint64_t n_off = 0;
    pgas_alltoall(NULL, sent, owed, sizeof *sent);
    for (int r = 0; r < n_ranks; r++)
        for (int s = 0; s < N_STREAMS * SLOTS; s++)
            n_off += owed[r].of[s / SLOTS][s % SLOTS] != got[r].of[s / SLOTS][s % SLOTS];
    return n_off;
}

/* The same, over all ranks, for calls without an order. */
static uint64_t compare_sums(void)
{
    uint64_t mine[18], all[18], n_off = 0;
    memcpy(mine, loose, sizeof loose);
    mine[16] = tally_sent;
    mine[17] = *(uint64_t *)pgas_gptr_local(pgas_gptr_at(tally, me), 8);
    pgas_allreduce(NULL, mine, all, 18, PGAS_U64, PGAS_ADD);
    for (int i = 0; i < 18; i += 2)
        n_off += all[i] != all[i + 1];
    return n_off;
}

static uint64_t n_missing, n_off_sums;
static int n_rounds;

/* One round of the main thread; true if there is to be another. */
static bool one_round(worker_t *w, uint64_t end_ns)
{
    int go_on;
    __atomic_fetch_add(&round_now, 1, __ATOMIC_RELEASE);
    work_a_round(w);
    wait_for_workers();
    note(&n_bad_status, pgas_quiesce() != PGAS_OK);
    n_missing += compare_counts();
    n_off_sums += compare_sums();
    n_rounds++;
    go_on = pgasi_now_ns() < end_ns;
    pgas_broadcast(NULL, &go_on, sizeof go_on,
                   0); /* and no rank begins before all have compared: */
    pgas_barrier(NULL);
    return go_on;
}

static void soak_with(int threads, double seconds)
{
    worker_t worker[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    memset(worker, 0, sizeof worker);
    n_threads = threads;
    n_slots = n_threads < pgasi_param.ctxs ? n_threads : pgasi_param.ctxs;
    n_arrived = round_now = over = 0;
    for (int t = 0; t < n_threads; t++) {
        worker[t].index = t;
        pgasi_rng_seed(&worker[t].rng,
                       seed + (uint64_t)(me * THREADS_MAX + t) + 1000 * (uint64_t)threads);
        if (t > 0)
            pthread_create(&thread[t], NULL, work, &worker[t]);
    }
    begin_worker(&worker[0]);
    wait_for_workers();
    int mine[THREADS_MAX];
    memcpy(mine, slots[me], sizeof mine);
    pgas_allgather(NULL, mine, slots, sizeof mine);
    uint64_t end_ns = pgasi_now_ns() + (uint64_t)(seconds * 1e9);
    while (one_round(&worker[0], end_ns))
        ;
    over = 1;
    __atomic_fetch_add(&round_now, 1, __ATOMIC_RELEASE);
    for (int t = 1; t < n_threads; t++)
        pthread_join(thread[t], NULL);
    end_worker(&worker[0]);
    pgas_barrier(NULL);
}

static void all_at_once(double seconds)
{
    for (int threads = 1; threads <= THREADS_MAX; threads++)
        soak_with(threads, seconds / THREADS_MAX);
    for (int r = 0; r < n_ranks; r++)
        for (int s = 0; s < N_STREAMS * SLOTS; s++)
            n_calls += got[r].of[s / SLOTS][s % SLOTS];
    spmd_diag("%d rounds, %llu calls to rank 0", n_rounds, (unsigned long long)n_calls);
    spmd_ok(n_rounds >= THREADS_MAX && n_calls > 0, "rounds with 1, 2 and 3 threads");
    spmd_is_int(n_missing, 0, "no call lost or doubled, for each source thread and target");
    spmd_is_int(n_wrong, 0, "each has the content and the place in order that it was sent with");
    spmd_is_int(n_elsewhere, 0, "calls to a thread have run there");
    spmd_is_int(n_bad_replies, 0, "replies are right");
    spmd_is_int(n_off_sums, 0,
                "spawned, relayed and broadcast calls, those with buffers and atomics add up");
    spmd_is_int(n_bad_data, 0, "gets return the bytes that were put");
    spmd_is_int(n_bad_status, 0,
                "every function gives PGAS_OK, every counter completes without error");
}

/* A call that is counted but never sent; one with a changed byte; two that change places. */
static void what_is_wrong_is_noticed(void)
{
    int peer = job_right();
    char one[16], two[16];
    worker_t w = { .slot = pgas_thread_slot(pgas_thread_self()) };
    prepare(&w, peer, SERVICE, one, sizeof one);
    pgas_quiesce();
    spmd_is_int(compare_counts(), 1, "a lost call is noticed");
    n_wrong = 0;
    pgas_barrier(NULL);
    do
        prepare(&w, peer, ANY, one, sizeof one);
    /* those are relayed */
    while (one[0] % 8 == 1 && pgas_call(peer, plain, one, sizeof one, NULL) == PGAS_OK);
    one[12] = (char)(one[12] + 1);
    pgas_call(peer, plain, one, sizeof one, NULL);
    pgas_quiesce();
    spmd_is_int(n_wrong, 1, "a changed byte is noticed");
    n_wrong = 0;
    pgas_barrier(NULL);
    prepare(&w, peer, SENT, one, sizeof one);
    prepare(&w, peer, SENT, two, sizeof two);
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.way = PGAS_WAY_SEND;
    pgas_call_to(pgas_on_rank(peer), plain, two, sizeof two, &opts);
    pgas_call_to(pgas_on_rank(peer), plain, one, sizeof one, &opts);
    pgas_quiesce();
    spmd_is_int(n_wrong, 2, "calls that change places are noticed");
}

static void register_handlers(void)
{
    pgas_handler_opts_t blocks = PGAS_HANDLER_OPTS_INIT, batch = PGAS_HANDLER_OPTS_INIT;
    blocks.blocks = true;
    batch.batch = on_batch;
    pgas_handler_register("plain", on_plain, NULL, NULL, &plain);
    pgas_handler_register("batched", on_plain, NULL, &batch, &batched);
    pgas_handler_register("blocking", on_blocking, NULL, &blocks, &blocking);
    pgas_handler_register("asked", on_asked, NULL, NULL, &asked);
    pgas_handler_register("answer", on_answer, NULL, NULL, &answer);
    pgas_handler_register("spawned", on_spawned, NULL, NULL, &spawned);
    pgas_handler_register("relayed", on_relayed, NULL, NULL, &relayed);
    pgas_handler_register("loaded", on_loaded, NULL, NULL, &loaded);
    pgas_handler_register("told", on_told, NULL, NULL, &told);
}

int main(int argc, char **argv)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    const char *text = getenv("SOAK_SECONDS");
    register_handlers();
    job_begin(&argc, &argv, 11);
    seed = spmd_seed(20);
    call_max = pgasi_param.call_max < BODY_MAX ? pgasi_param.call_max : BODY_MAX;
    opts.for_handlers = true;
    pgas_agg_create(&opts, &handlers_agg);
    pgas_alloc((size_t)(n_ranks * THREADS_MAX) * CELL, &cells);
    pgas_alloc(sizeof(uint64_t), &tally);
    memset(pgas_gptr_local(pgas_gptr_at(tally, me), 8), 0, 8);
    pgas_barrier(NULL); /* no rank calls before */
    all_at_once(text ? atof(text) : 0.8);
    what_is_wrong_is_noticed();
    pgas_agg_destroy(handlers_agg);
    pgas_free(cells);
    pgas_free(tally);
    return job_end();
}
