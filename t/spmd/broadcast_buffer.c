/* Broadcasts of buffers.
 *   what:   When its handler runs, every rank has the buffer or its piece: pushed, pulled or
 *           scattered, of 0 bytes to some MiB, from any root. Handlers may write to their copy.
 *           Kept buffers are freed. The library does not read the caller's memory after the counter
 *           is zero, or after the return where the header says so. Missing room is reported.
 *   np:     1 2 3 5 7 8
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K | PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   log:    does not fit
 *   source: pgas/call.h
 */
#include <pthread.h>
#include "base/param.h"
#include "base/rng.h"
#include "bcast/bcast.h"
#include "t/pattern.h"
#include "t/spmd/buffers.h"
#include "t/spmd/job.h"

#define LARGE    ((size_t)3 << 19)
#define N_RANDOM 40

static pgas_handler_t filled, slow, bare;
static int n_runs, n_wrong;
static pgas_gptr_t place;

/* args: the seed of the buffer, and the length of this rank's piece */
typedef struct {
    uint64_t seed;
    uint64_t bytes; /* UINT64_MAX: a piece, by rank */
    uint64_t pulled;
    uint64_t more[2];
} what_t;

static int n_different(const unsigned char *data, uint64_t seed, size_t bytes)
{
    int n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += data[i] != pattern_byte(seed, i);
    return n;
}

static size_t piece_bytes(uint64_t seed, int rank)
{
    return (size_t)(seed * 131 + (uint64_t)rank * 977) % 700;
}

static void check(const what_t *w, const unsigned char *data, size_t bytes)
{
    bool each = w->bytes == UINT64_MAX;
    uint64_t seed = w->seed + (each ? (uint64_t)me : 0);
    int bad = !data || bytes != (each ? piece_bytes(w->seed, me) : w->bytes) ||
              n_different(data, seed, bytes) != 0;
    __atomic_fetch_add(&n_wrong, bad, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_runs, 1, __ATOMIC_RELEASE);
}

/* Writes to its own copy, which others must not see, but not to memory that others still read. */
static void on_filled(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    what_t w;
    size_t n = 0;
    (void)context;
    void *data = NULL;
    pgas_status_t got = pgas_buffer_get(0, &data, &n);
    memcpy(&w, args, sizeof w);
    __atomic_fetch_add(&n_wrong, bytes != sizeof w || got != PGAS_OK || pgas_buffer_count() != 1,
                       __ATOMIC_RELAXED);
    check(&w, data, n);
    if (n && !w.pulled && pgas_thread_rank(source) != me)
        memset(data, 0xEE, n);
}

static uint64_t gate;

/* A call without a buffer, which may run on the thread of a handler that waits and has one. */
static void on_bare(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_fetch_add(&n_wrong, pgas_buffer_count() != 0, __ATOMIC_RELAXED);
}

static void on_slow(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    what_t w;
    size_t n = 0;
    (void)context;
    (void)bytes;
    (void)source;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    void *data = NULL, *later = NULL;
    bool good = pgas_buffer_get(0, &data, &n) == PGAS_OK;
    memcpy(&w, args, sizeof w);
    int bad = pgas_call(me, bare, NULL, 0, &sync) != PGAS_OK;
    bad += pgas_sync_wait(&sync, -1) != PGAS_OK || !good ||
           pgas_buffer_get(0, &later, &n) != PGAS_OK || later != data;
    __atomic_fetch_add(&n_wrong, bad, __ATOMIC_RELAXED);
    pgas_signal_wait(&gate, PGAS_EQ, 1, -1, NULL);
    check(&w, data, n);
}

static size_t local_bytes(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    return pgas_heap_info(&info) == PGAS_OK ? info.local_bytes : 1;
}

static int one(int root, pgas_buffer_mode_t way, const unsigned char *data, size_t bytes,
               pgas_when_t when, uint64_t seed)
{
    what_t w = { seed, bytes, way == PGAS_BUFFER_PULL, { 0 } };
    pgas_buffer_t b = { way, data, bytes, pgas_gptr_at(place, 0), false, NULL };
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    o.sync = &sync;
    o.when = when;
    n_runs = 0;
    size_t before = local_bytes();
    pgas_barrier(NULL);
    if (me == root) {
        n_bad += call_buffers(pgas_on_team(NULL), filled, &w, sizeof w, &b, 1, &o, NULL) != PGAS_OK;
        n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || sync.count != 0;
    }
    pgas_barrier(NULL);
    n_bad += when == PGAS_EXECUTED && __atomic_load_n(&n_runs, __ATOMIC_ACQUIRE) != 1;
    pgas_quiesce();
    n_bad += n_runs != 1 || local_bytes() != before;
    return n_bad;
}

static const size_t sizes[] = { 0, 1, 8, 5000, LARGE };
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static void pushed(void)
{
    unsigned char *data = job_alloc(LARGE);
    int n_bad = 0;
    for (int root = 0; root < n_ranks; root++) {
        for (size_t i = 0; i < N_SIZES; i++) {
            pattern_fill(data, (uint64_t)root + i, sizes[i]);
            n_bad += one(root, PGAS_BUFFER_PUSH, data, sizes[i], (pgas_when_t)(i % 3),
                         (uint64_t)root + i);
        }
    }
    spmd_is_int(n_bad + n_wrong, 0, "pushed into a place: it is there when the handler runs");
    pattern_fill(pgas_gptr_local(place, 1), 3, 1000);
    spmd_is_int(one(n_ranks - 1, PGAS_BUFFER_PUSH, pgas_gptr_local(place, 1), 1000, PGAS_EXECUTED,
                    3) +
                    n_wrong,
                0, "also from the place itself");
    free(data);
}

static void pulled(void)
{
    pgas_gptr_t block = PGAS_NULL;
    int n_bad = pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, LARGE, &block) != PGAS_OK;
    unsigned char *heap = pgas_gptr_local(block, 1), *plain = job_alloc(LARGE), *data;
    for (int root = 0; root < n_ranks; root++) {
        for (size_t i = 0; i < 2 * N_SIZES; i++) {
            data = i % 2 ? heap : plain;
            pattern_fill(data, (uint64_t)root + i, sizes[i / 2]);
            n_bad += one(root, PGAS_BUFFER_PULL, data, sizes[i / 2], (pgas_when_t)(i % 3),
                         (uint64_t)root + i);
            n_bad += n_different(data, (uint64_t)root + i, sizes[i / 2]) != 0;
        }
    }
    spmd_is_int(n_bad + n_wrong, 0,
                "pulled, from memory that peers reach and from other, and freed again");
    n_bad = pgas_free_on(block) != PGAS_OK;
    block = PGAS_NULL;
    n_bad += pgas_mem_attach(plain, LARGE, &block) != PGAS_OK;
    pattern_fill(plain, 77, LARGE);
    n_bad += one(0, PGAS_BUFFER_PULL, plain, LARGE, PGAS_EXECUTED, 77);
    n_bad += pgas_mem_detach(block) != PGAS_OK;
    spmd_is_int(n_bad + n_wrong, 0, "and from attached memory");
    free(plain);
}

static int scatter(int root, uint64_t seed, size_t equal, pgas_sync_t *sync)
{
    what_t w = { seed, equal ? equal : UINT64_MAX, 0, { 0 } };
    size_t bytes_of[JOB_RANKS_MAX], sum = 0;
    for (int r = 0; r < n_ranks; r++)
        sum += bytes_of[r] = equal ? equal : piece_bytes(seed, r);
    unsigned char *data = job_alloc(sum);
    size_t at = 0;
    for (int r = 0; r < n_ranks; at += bytes_of[r++])
        pattern_fill(data + at, seed + (equal ? 0 : (uint64_t)r), bytes_of[r]);
    pgas_buffer_t b = {
        PGAS_BUFFER_SCATTER, data, equal, PGAS_NULL, false, equal ? NULL : bytes_of
    };
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    o.sync = sync;
    pgas_status_t status =
        me == root ? call_buffers(pgas_on_team(NULL), filled, &w, sizeof w, &b, 1, &o, NULL)
                   : PGAS_OK;
    memset(data, 0xDD, sum);
    free(data);
    return status != PGAS_OK;
}

static void scattered(void)
{
    static const size_t equal[] = { 1, 8, 100, 3000, (size_t)300 << 10 };
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    size_t before = local_bytes();
    for (int root = 0; root < n_ranks; root++) {
        for (int i = 0; i < 10; i++) {
            n_runs = 0;
            pgas_barrier(NULL);
            n_bad += scatter(root, (uint64_t)(i + root), i < 5 ? equal[i] : 0, &sync);
            n_bad += me == root && pgas_sync_wait(&sync, -1) != PGAS_OK;
            pgas_barrier(NULL);
            n_bad += __atomic_load_n(&n_runs, __ATOMIC_ACQUIRE) != 1;
        }
    }
    pgas_quiesce();
    spmd_ok(n_bad + n_wrong == 0 && local_bytes() == before,
            "each rank gets its piece, of any size, in the message or read; the caller may touch "
            "them on return");
    size_t huge[JOB_RANKS_MAX] = { 0 };
    pgas_buffer_t b = { PGAS_BUFFER_SCATTER, huge, (size_t)1 << 63, PGAS_NULL, false, NULL };
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    what_t w = { 0, 0, 0, { 0 } };
    for (int i = 0; i < 3; i++) {
        huge[n_ranks - 1] = SIZE_MAX - (size_t)i;
        b.bytes_of = i ? huge : NULL;
        n_bad += call_buffers(pgas_on_team(NULL), filled, &w, sizeof w, &b, 1, &o, NULL) !=
                 PGAS_ERR_NO_MEMORY;
    }
    spmd_is_int(n_bad, 0, "pieces larger than any heap are refused");
}

static void many_at_once(uint64_t seed)
{
    pgasi_rng_t rng;
    int n_bad = 0;
    size_t before = local_bytes();
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    n_runs = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < N_RANDOM; i++) {
        uint64_t draw = pgasi_rng_u64(&rng), s = draw >> 32;
        size_t bytes = (size_t)(draw >> 8) % (draw & 4 ? 20000 : 200);
        if (draw & 1) {
            n_bad += scatter(me, s, 0, NULL);
            continue;
        }
        what_t w = { s, bytes, 1, { 0 } };
        unsigned char *data = job_alloc(bytes);
        pgas_buffer_t b = { PGAS_BUFFER_PULL, data, bytes, PGAS_NULL, false, NULL };
        pattern_fill(data, s, bytes);
        n_bad += pgas_call_to(pgas_on_team(NULL), filled, &w, sizeof w,
                              PGAS_CALL_OPTS(.buffers = &b, .n_buffers = 1)) != PGAS_OK;
        memset(data, 0xDD, bytes);
        free(data);
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_wrong == 0 && n_runs == N_RANDOM * n_ranks,
            "many roots at once, without waiting");
    spmd_ok(local_bytes() == before, "and nothing is left in the heap");
    what_t w = { 1, 8, 1, { 0 } };
    unsigned char wrong[8] = { 1, 2, 3 };
    pgas_buffer_t b = { PGAS_BUFFER_PULL, wrong, 8, PGAS_NULL, false, NULL };
    pgas_barrier(NULL);
    n_bad = pgas_call_to(pgas_on_team(NULL), filled, &w, sizeof w,
                         PGAS_CALL_OPTS(.buffers = &b, .n_buffers = 1)) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == n_ranks, "a wrong buffer is noticed");
    n_wrong = 0;
    pgas_barrier(NULL);
}

/* The buffer stays while handlers that block have not ended, though everything has arrived long
 * ago. */
static void handlers_that_block(void)
{
    unsigned char data[100];
    what_t w = { 9, sizeof data, 1, { 0 } };
    pgas_buffer_t b = { PGAS_BUFFER_PULL, data, sizeof data, PGAS_NULL, false, NULL };
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    size_t before = local_bytes();
    int n_bad = 0;
    pattern_fill(data, 9, sizeof data);
    o.sync = &sync;
    o.when = PGAS_REMOTE;
    n_runs = 0;
    pgas_barrier(NULL);
    if (me == 0) {
        n_bad += call_buffers(pgas_on_team(NULL), slow, &w, sizeof w, &b, 1, &o, NULL) != PGAS_OK;
        n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
        memset(data, 0xDD, sizeof data);
    }
    pgas_barrier(NULL);
    n_bad += n_runs != 0 || local_bytes() == before;
    pgas_barrier(NULL);
    __atomic_store_n(&gate, 1, __ATOMIC_RELEASE);
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_wrong == 0 && n_runs == 1 && local_bytes() == before,
            "handlers that block have the buffer until they end");
}

static uint64_t n_ready, work_over;

static void *work(void *arg)
{
    int *bad = arg;
    *bad = pgas_thread_attach() != PGAS_OK;
    __atomic_fetch_add(&n_ready, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&work_over, __ATOMIC_ACQUIRE))
        pgas_progress();
    *bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

#define N_WORKERS 2

static void every_thread(void)
{
    pthread_t thread[N_WORKERS];
    int n_bad = 0, bad[N_WORKERS];
    size_t before = local_bytes(), bytes = 5000;
    unsigned char *data = job_alloc(bytes);
    for (int i = 0; i < N_WORKERS; i++)
        n_bad += pthread_create(&thread[i], NULL, work, &bad[i]) != 0;
    while (__atomic_load_n(&n_ready, __ATOMIC_ACQUIRE) < N_WORKERS)
        pgas_progress();
    n_runs = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < 3 && me == n_ranks - 1; i++) {
        pgas_buffer_t b = {
            i == 2 ? PGAS_BUFFER_PUSH : PGAS_BUFFER_PULL, data, bytes, place, false, NULL
        };
        what_t w = { 5, bytes, 1, { 0 } };
        pattern_fill(data, 5, bytes);
        n_bad += pgas_call_to(pgas_on_team_threads(NULL), i ? filled : slow, &w, sizeof w,
                              PGAS_CALL_OPTS(.buffers = &b, .n_buffers = 1)) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad + n_wrong == 0 && n_runs == 3 * (1 + N_WORKERS) && local_bytes() == before,
            "every thread has the buffer");
    __atomic_store_n(&work_over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < N_WORKERS; i++)
        n_bad += pthread_join(thread[i], NULL) != 0 || bad[i] != 0;
    spmd_is_int(n_bad, 0, "threads come and go");
    free(data);
}

static void no_room(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    pgas_gptr_t block = PGAS_NULL;
    unsigned char *data = job_alloc(LARGE);
    what_t w = { 0, LARGE, 1, { 0 } };
    pgas_buffer_t b = { PGAS_BUFFER_PULL, data, LARGE, PGAS_NULL, false, NULL };
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = pgas_heap_info(&info) != PGAS_OK;
    pattern_fill(data, 0, LARGE);
    o.sync = &sync;
    n_runs = 0;
    if (me == n_ranks - 1)
        n_bad += pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, info.largest_free - LARGE / 2,
                               &block) != PGAS_OK;
    pgas_barrier(NULL);
    if (me == 0) {
        pgas_status_t status =
            call_buffers(pgas_on_team(NULL), filled, &w, sizeof w, &b, 1, &o, NULL);
        n_bad += n_ranks == 1
                     ? status != PGAS_ERR_NO_MEMORY
                     : status != PGAS_OK || pgas_sync_wait(&sync, -1) != PGAS_ERR_NO_MEMORY;
    }
    pgas_barrier(NULL);
    pgas_quiesce();
    n_bad += me == n_ranks - 1 && n_runs != 0;
    n_bad += pgas_free_on(block) != PGAS_OK;
    spmd_is_int(n_bad + n_wrong, 0,
                "a rank without room: said by the counter, and its handler does not run");
    free(data);
}

static void refusals(void)
{
    unsigned char *args = job_alloc(pgasi_param.call_max);
    pgas_buffer_t b = { PGAS_BUFFER_PULL, args, 8, place, false, NULL }, no_data = b, no_way = b,
                  outside = b;
    no_data.address = NULL;
    no_way.mode = (pgas_buffer_mode_t)4;
    outside.mode = PGAS_BUFFER_PUSH;
    outside.bytes = (size_t)1 << 40;
    n_runs = 0;
#define REFUSED(buffer, n, want)                         \
    (pgas_call_to(pgas_on_team(NULL), filled, args, (n), \
                  PGAS_CALL_OPTS(.buffers = (buffer), .n_buffers = 1)) != (want))
    int n_bad = REFUSED(NULL, 8, PGAS_ERR_INVALID) + REFUSED(&no_data, 8, PGAS_ERR_INVALID) +
                REFUSED(&no_way, 8, PGAS_ERR_INVALID) + REFUSED(&outside, 8, PGAS_ERR_RANGE) +
                REFUSED(&b, pgasi_param.call_max - 63, PGAS_ERR_LIMIT);
    outside.bytes = 8;
    outside.target = PGAS_NULL;
    n_bad += REFUSED(&outside, 8, PGAS_ERR_RANGE);
    n_bad += pgas_buffer_count() != 0;
    pgas_quiesce();
    spmd_ok(n_bad == 0 && n_runs == 0, "refused broadcasts run nowhere");
    free(args);
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    pgas_handler_register("t.filled", on_filled, NULL, NULL, &filled);
    pgas_handler_register("t.slow", on_slow, NULL, &may_block, &slow);
    pgas_handler_register("t.bare", on_bare, NULL, NULL, &bare);
    job_begin(&argc, &argv, 15);
    bool good = pgas_alloc(LARGE, &place) == PGAS_OK;
    pushed();
    pulled();
    scattered();
    many_at_once(spmd_seed(11));
    handlers_that_block();
    every_thread();
    no_room();
    refusals();
    spmd_ok(good && pgas_free(place) == PGAS_OK, "the place can be freed");
    return job_end();
}
