/* Measures the bandwidth of calls with one large argument, in both directions at once: OSU's
 * osu_bibw with calls instead of messages.
 *
 * Every thread of a rank makes 64 calls to the thread of the same number at the peer. Then it waits
 * until its memory may be reused and the peer's 64 calls have run. As in osu_bibw, all calls of a
 * thread send the same memory, and the receiver does not read what arrives. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"
#include "pgas/call_archive.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_MAX ((size_t)16 << 20)

/* what all threads of this rank send */
static pgas_rma_object_t *large;
static char *plain;
static struct {
    _Alignas(128) uint64_t n_arrived; /* calls of the peer's thread of the same number */
    uint64_t n_expected;
    pgas_archive_t out;
} thread_state[BENCH_TEAM_MAX];
static pgas_handler_t take_buffer, take_object, view_vector;

/* ---- the receiver ---- */

/* Returns the value of every byte that a rank sends. */
static char mark_of(int rank)
{
    return (char)('A' + rank);
}

static void check_and_count(const char *data, size_t bytes, pgas_thread_t source, uint32_t thread)
{
    char mark = mark_of(pgas_thread_rank(source));
    if (!bytes || data[0] != mark || data[bytes - 1] != mark)
        bench_die("a call brought other data than were sent");
    __atomic_fetch_add(&thread_state[thread].n_arrived, 1, __ATOMIC_RELEASE);
}

static void run_buffer(const void *args, size_t args_bytes, pgas_thread_t source, void *context)
{
    void *data = NULL;
    size_t bytes = 0;
    uint32_t thread = 0;
    (void)context;
    memcpy(&thread, args, args_bytes);
    bench_check(pgas_buffer_get(0, &data, &bytes), "pgas_buffer_get");
    check_and_count(data, bytes, source, thread);
}

static void run_object(const void *args, size_t args_bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    pgas_rma_object_t *object = NULL;
    size_t bytes = 0;
    uint32_t thread = 0;
    (void)args;
    (void)args_bytes;
    (void)context;
    bench_check(pgas_archive_from_call(&in), "pgas_archive_from_call");
    pgas_archive_get(&in, &thread, sizeof thread);
    bench_check(pgas_archive_get_object(&in, &object, &bytes), "pgas_archive_get_object");
    check_and_count(object->data, bytes, source, thread);
    pgas_rma_object_destroy(object);
    pgas_archive_free(&in);
}

static void run_vector(const void *args, size_t args_bytes, pgas_thread_t source, void *context)
{
    pgas_archive_t in;
    const void *data = NULL;
    size_t bytes = 0;
    uint32_t thread = 0;
    (void)args;
    (void)args_bytes;
    (void)context;
    bench_check(pgas_archive_from_call(&in), "pgas_archive_from_call");
    pgas_archive_get(&in, &thread, sizeof thread);
    bench_check(pgas_archive_get_vector(&in, 1, &data, &bytes), "pgas_archive_get_vector");
    check_and_count(data, bytes, source, thread);
    pgas_archive_free(&in);
}

/* ---- the sender ---- */

typedef pgas_status_t (*send_fn_t)(const bench_run_t *run, pgas_target_t target,
                                   pgas_sync_t *local);

static pgas_status_t send_buffer(const bench_run_t *run, pgas_target_t target,
                                 pgas_buffer_mode_t mode, const void *data, pgas_sync_t *local)
{
    uint32_t thread = (uint32_t)run->thread;
    pgas_buffer_t buffer = { .mode = mode, .address = data, .bytes = run->bytes };
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.buffers = &buffer;
    opts.n_buffers = 1;
    opts.local = local;
    return pgas_call_to(target, take_buffer, &thread, sizeof thread, &opts);
}

static pgas_status_t send_pull(const bench_run_t *run, pgas_target_t target, pgas_sync_t *local)
{
    return send_buffer(run, target, PGAS_BUFFER_PULL, large->data, local);
}

static pgas_status_t send_pull_plain(const bench_run_t *run, pgas_target_t target,
                                     pgas_sync_t *local)
{
    return send_buffer(run, target, PGAS_BUFFER_PULL, plain, local);
}

static pgas_status_t send_copy(const bench_run_t *run, pgas_target_t target, pgas_sync_t *local)
{
    return send_buffer(run, target, PGAS_BUFFER_COPY, plain, local);
}

static pgas_archive_t *begin_archive(const bench_run_t *run, size_t threshold)
{
    pgas_archive_t *out = &thread_state[run->thread].out;
    uint32_t thread = (uint32_t)run->thread;
    out->threshold = threshold;
    pgas_archive_put(out, &thread, sizeof thread);
    return out;
}

static pgas_status_t send_archive(pgas_archive_t *out, pgas_target_t target, pgas_handler_t handler,
                                  pgas_sync_t *local)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.local = local;
    return pgas_call_args(target, handler, out, &opts);
}

static pgas_status_t send_registered(const bench_run_t *run, pgas_target_t target,
                                     pgas_sync_t *local)
{
    pgas_archive_t *out = begin_archive(run, 0);
    pgas_archive_put_object(out, large, run->bytes);
    return send_archive(out, target, take_object, local);
}

static pgas_status_t send_pointer(const bench_run_t *run, pgas_target_t target, pgas_sync_t *local)
{
    pgas_archive_t *out = begin_archive(run, 0);
    pgas_archive_put_vector(out, plain, run->bytes, 1);
    return send_archive(out, target, view_vector, local);
}

static pgas_status_t send_packed(const bench_run_t *run, pgas_target_t target, pgas_sync_t *local)
{
    pgas_archive_t *out = begin_archive(run, SIZE_MAX);
    pgas_archive_put_vector(out, plain, run->bytes, 1);
    return send_archive(out, target, view_vector, local);
}

static void await_arrivals(int thread, uint64_t n)
{
    const uint64_t *arrived = &thread_state[thread].n_arrived;
    for (uint32_t spins = 0; __atomic_load_n(arrived, __ATOMIC_ACQUIRE) < n;)
        if (!pgas_progress() && ++spins % 64 == 0)
            sched_yield();
}

static double send_windows(const bench_run_t *run, send_fn_t send)
{
    pgas_sync_t local = PGAS_SYNC_INIT;
    pgas_target_t target = pgas_on_rank(run->peer);
    uint64_t begin = bench_now(), *n_expected = &thread_state[run->thread].n_expected;
    if (run->n_threads > 1)
        target = pgas_on_thread(pgas_thread_make(run->peer, run->thread));
    for (uint64_t left = run->iters; left > 0;) {
        uint64_t n = left < BENCH_WINDOW_OPS ? left : BENCH_WINDOW_OPS;
        for (uint64_t i = 0; i < n; i++)
            bench_check(send(run, target, &local), "a call");
        bench_check(pgas_sync_wait(&local, -1), "pgas_sync_wait");
        *n_expected += n;
        await_arrivals(run->thread, *n_expected);
        left -= n;
    }
    return bench_since(begin);
}

#define LOOPS(NAME)                                                                          \
    static double NAME##_thread(const bench_run_t *run)                                      \
    {                                                                                        \
        return send_windows(run, send_##NAME);                                               \
    }                                                                                        \
    static double NAME(const bench_run_t *run)                                               \
    {                                                                                        \
        return run->arg > 1 ? bench_team(run, run->arg, NAME##_thread) : NAME##_thread(run); \
    }
LOOPS(registered)
LOOPS(pointer)
LOOPS(packed)
LOOPS(pull)
LOOPS(pull_plain)
LOOPS(copy)

/* ---- the program ---- */

static void prepare(void)
{
    bench_check(pgas_handler_register("bench.buffer", run_buffer, NULL, NULL, &take_buffer),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.object", run_object, NULL, NULL, &take_object),
                "pgas_handler_register");
    bench_check(pgas_handler_register("bench.vector", run_vector, NULL, NULL, &view_vector),
                "pgas_handler_register");
}

static void setup(void)
{
    bench_check(pgas_rma_object_create(BYTES_MAX, &large), "pgas_rma_object_create");
    plain = bench_buffer(BYTES_MAX);
    memset(large->data, mark_of(pgas_rank()), BYTES_MAX);
    memset(plain, mark_of(pgas_rank()), BYTES_MAX);
}

static void teardown(void)
{
    for (int i = 0; i < BENCH_TEAM_MAX; i++)
        pgas_archive_free(&thread_state[i].out);
    free(plain);
    bench_check(pgas_rma_object_destroy(large), "pgas_rma_object_destroy");
}

#define CASE(NAME, DOC, OURS, THREADS, ...)                                                       \
    {                                                                                             \
        .variant = (NAME), .doc = (DOC), .paths = BENCH_ANYWHERE, .metric = BENCH_BANDWIDTH,      \
        .round_ms = 2, .both_ways = true, .ours = (OURS), .arg = (THREADS), .threads = (THREADS), \
        .refs = {                                                                                 \
            { "mpi", BENCH_MPI, ref_mpi_bibw },                                                   \
            { "mpi-parcels", BENCH_MPI, ref_mpi_parcels },                                        \
            __VA_ARGS__                                                                           \
        }                                                                                         \
    }
#define LIMIT                                  \
    {                                          \
        "memcpy", BENCH_MEMORY, ref_memcpy_get \
    }
#define TEAMS(NAME, DOC, OURS, ...)                               \
    CASE(NAME, DOC, OURS, 1, __VA_ARGS__),                        \
        CASE(NAME "-2", DOC ", 2 threads", OURS, 2, __VA_ARGS__), \
        CASE(NAME "-4", DOC ", 4 threads", OURS, 4, __VA_ARGS__), \
        CASE(NAME "-8", DOC ", 8 threads", OURS, 8, __VA_ARGS__), \
        CASE(NAME "-12", DOC ", 12 threads", OURS, 12, __VA_ARGS__)

static const bench_case_t cases[] = {
    TEAMS("registered", "an archive with a registered object, which the handler takes", registered,
          { "pointer", BENCH_OURS, pointer }, { "pull", BENCH_OURS, pull }),
    TEAMS("pointer", "an archive with a pointer chunk, which the handler views", pointer,
          { "pull", BENCH_OURS, pull_plain }),
    TEAMS("packed", "an archive with all data in its stream", packed, { 0 }),
    CASE("pull", "a buffer that the target reads, in the heap", pull, 1, LIMIT),
    CASE("pull-plain", "a buffer that the target reads, from malloc", pull_plain, 1, LIMIT),
    CASE("copy", "a buffer that travels with the call", copy, 1, LIMIT),
};

static const bench_program_t program = { .name = "pgas_bibw_args",
                                         .doc = "bandwidth of calls with one large argument, in "
                                                "both directions at once",
                                         .ranks = BENCH_PAIR,
                                         .label = "Bandwidth",
                                         .min_bytes = 1,
                                         .max_bytes = BYTES_MAX,
                                         .granule = BENCH_WINDOW_OPS,
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .setup = setup,
                                         .teardown = teardown };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
