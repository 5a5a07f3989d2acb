/* Batch handlers.
 *   what:   Batches of gathered calls reach the batch form at once, single calls the plain form.
 *           Together the two receive all calls, in order.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_AGG_SIZE=64 PGAS_CALL_MAX=64 | PGAS_CHUNK_SIZE=4K
 *   env:    PGAS_CALL_MAX=1K PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_AGG_SIZE=256K PGAS_CHUNK_SIZE=1M |
 *   env:    PGAS_SERVICE_THREADS=2
 *   source: pgas/handler.h; seeded model test
 */
#include "base/rng.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define RUN_MAX 512
#define N_SIZES 5

static const size_t size_of[N_SIZES] = { 8, 12, 1, 24, 33 };

static pgas_handler_t ordered, single, forward, add;
static uint64_t n_plain, n_batched, n_batches, n_longest, n_added;
static uint8_t next_of[JOB_RANKS_MAX];
static int n_wrong;
static pgas_agg_t *agg, *handlers_agg;

/* Calls of one source are numbered by their first byte, which all others repeat. */
static void look_at(const void *args, size_t bytes, pgas_thread_t source)
{
    const uint8_t *at = args;
    uint8_t number = next_of[pgas_thread_rank(source)]++;
    n_wrong += (uintptr_t)args % (bytes <= 4 ? 4 : 8) != 0;
    for (size_t i = 0; i < bytes; i++)
        n_wrong += at[i] != number;
}

static void on_ordered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    n_wrong += context != &n_wrong;
    n_plain++;
    look_at(args, bytes, source);
}

/* Arguments of up to 4 bytes take 4. */
static size_t stride_of(size_t bytes)
{
    return bytes <= 4 ? 4 : (bytes + 7) / 8 * 8;
}

static void on_ordered_batch(const void *args, size_t bytes, size_t stride, size_t n,
                             pgas_thread_t source, void *context)
{
    n_wrong += context != &n_wrong || n < 2 || n > RUN_MAX || stride != stride_of(bytes);
    n_batches++;
    n_batched += n;
    n_longest = n > n_longest ? n : n_longest;
    for (size_t i = 0; i < n; i++)
        look_at((const char *)args + i * stride, bytes, source);
}

/* A second handler in between: without a batch form. */
static void on_single(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    look_at(args, bytes, source);
}

static void send_on(const void *args)
{
    uint64_t value;
    memcpy(&value, args, sizeof value);
    n_wrong += pgas_agg_call(handlers_agg, (int)(value % (uint64_t)n_ranks), add, &value,
                             sizeof value) != PGAS_OK;
}

static void on_forward(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes;
    (void)source;
    (void)context;
    send_on(args);
}

static void on_forward_batch(const void *args, size_t bytes, size_t stride, size_t n,
                             pgas_thread_t source, void *context)
{
    (void)bytes;
    (void)source;
    (void)context;
    for (size_t i = 0; i < n; i++)
        send_on((const char *)args + i * stride);
}

static void reset(void)
{
    pgas_quiesce();
    n_plain = n_batched = n_batches = n_longest = n_added = 0;
    memset(next_of, 0, sizeof next_of);
    pgas_barrier(NULL);
}

static int send(int rank, pgas_handler_t handler, uint8_t *number, size_t bytes, bool gather)
{
    char args[64];
    memset(args, (*number)++, sizeof args);
    return (gather ? pgas_agg_call(agg, rank, handler, args, bytes)
                   : pgas_call(rank, handler, args, bytes, NULL)) != PGAS_OK;
}

static void single_calls_are_plain(void)
{
    int n_bad = 0, right = job_right();
    uint8_t number = 0;
    reset();
    for (int i = 0; i < 100; i++)
        n_bad += send(right, ordered, &number, size_of[i % 2], false);
    for (int i = 0; i < 20; i++)
        n_bad +=
            send(right, ordered, &number, 8, true) || pgas_agg_flush(agg, right, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == 0 && n_plain == 120 && n_batches == 0,
            "single calls go to the plain form");
}

static void runs_go_at_once(void)
{
    enum { N = 5000 };
    int n_bad = 0, right = job_right();
    uint8_t number = 0;
    reset();
    for (int i = 0; i < N; i++)
        n_bad += send(right, ordered, &number, 8, true);
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == 0 && n_plain + n_batched == N,
            "each call of a run runs once, in order");
    spmd_ok(n_batches > 0 && n_batched > n_plain && n_longest <= RUN_MAX,
            "as batches, no longer than a header allows");
    const char *size = getenv("PGAS_AGG_SIZE");
    spmd_ok(!size || strcmp(size, "256K") != 0 ||
                (n_longest == RUN_MAX && n_batches >= N / RUN_MAX),
            "longer runs are several batches");
}

/* Against a queue for each pair, which is a number here. */
static void any_mixture(uint64_t seed)
{
    enum { N = 6000 };
    static uint8_t sent[JOB_RANKS_MAX], expected[JOB_RANKS_MAX];
    static uint64_t n_sent[JOB_RANKS_MAX], n_expected[JOB_RANKS_MAX];
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    reset();
    memset(sent, 0, sizeof sent);
    for (int i = 0; i < N;) {
        uint64_t draw = pgasi_rng_u64(&rng),
                 length = draw % 40 == 0 ? 1 + draw / 64 % 700 : 1 + draw / 64 % 6;
        int rank = (int)(draw / 65536 % (uint64_t)n_ranks);
        bool plain = draw >> 40 & 1, direct = (draw >> 41) % 16 == 0;
        size_t bytes = size_of[(draw >> 48) % N_SIZES];
        for (uint64_t k = 0; k < length; k++, i++) {
            n_sent[rank] += !plain;
            n_bad += send(rank, plain ? single : ordered, &sent[rank], bytes, !direct);
        }
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_alltoall(NULL, sent, expected, sizeof sent[0]);
    pgas_alltoall(NULL, n_sent, n_expected, sizeof n_sent[0]);
    uint64_t n = 0;
    for (int r = 0; r < n_ranks; r++) {
        n_bad += next_of[r] != expected[r];
        n += n_expected[r];
    }
    spmd_ok(n_bad == 0 && n_wrong == 0 && n_plain + n_batched == n,
            "runs and others in one order, all of them");
    next_of[job_right()]++;
    reset();
    uint8_t gap = 1;
    n_bad = send(me, ordered, &gap, 8, true) || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong > 0, "one that is missing would be noticed");
    n_wrong = 0;
}

static void batches_send_too(void)
{
    enum { N = 3000 };
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    int n_bad = 0;
    opts.for_handlers = true;
    n_bad += pgas_agg_create(&opts, &handlers_agg) != PGAS_OK;
    reset();
    for (uint64_t i = 0; i < N; i++)
        n_bad +=
            pgas_agg_call(agg, (int)(i / 50 % (uint64_t)n_ranks), forward, &i, sizeof i) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    uint64_t all = 0;
    pgas_allreduce(NULL, &n_added, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && n_wrong == 0 && all == (uint64_t)n_ranks * N,
            "a batch sends what its calls would");
    n_bad = pgas_agg_destroy(handlers_agg) != PGAS_OK;
    spmd_is_int(n_bad, 0, "the handlers' aggregator ends");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT, other = PGAS_HANDLER_OPTS_INIT;
    int n_bad = 0;
    opts.batch = on_ordered_batch;
    other.batch = on_forward_batch;
    n_bad += pgas_handler_register("t.ordered", on_ordered, &n_wrong, &opts, &ordered) != PGAS_OK;
    n_bad += pgas_handler_register("t.ordered", on_ordered, &n_wrong, &other, &ordered) !=
             PGAS_ERR_EXISTS;
    n_bad += pgas_handler_register("t.single", on_single, NULL, NULL, &single) != PGAS_OK;
    n_bad += pgas_handler_register("t.add", on_count, &n_added, NULL, &add) != PGAS_OK;
    n_bad += pgas_handler_register("t.forward", on_forward, NULL, &other, &forward) != PGAS_OK;
    job_begin(&argc, &argv, 9);
    uint64_t seed = spmd_seed(77);
    n_bad += pgas_agg_create(NULL, &agg) != PGAS_OK;
    spmd_is_int(n_bad, 0, "handlers with a batch form; a name has one such form");
    single_calls_are_plain();
    runs_go_at_once();
    any_mixture(seed);
    batches_send_too();
    pgas_agg_destroy(agg);
    return job_end();
}
