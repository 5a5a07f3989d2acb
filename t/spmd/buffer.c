/* Calls with buffers.
 *   what:   Copied, pushed and pulled buffers of any size arrive whole before the handler runs, one
 *           or several in a call. A buffer may be reused at local completion. Order is kept. AGAIN
 *           means that the call had no effect. Wrong calls are refused. Replies larger than a call
 *           come back.
 *   np:     2 3 1 5
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_VM_READ=0 | PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=4K
 *   env:    PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 PGAS_VM_READ=0 | PGAS_CALL_MAX=64
 *   source: pgas/call.h
 */
#include "base/checks.h"
#include "base/param.h"
#include "base/rng.h"
#include "t/handlers.h"
#include "t/pattern.h"
#include "t/spmd/buffers.h"
#include "t/spmd/job.h"

/* of each rank's heap: where others push to, and where it pulls from */
#define PLACE_BYTES ((size_t)4 << 20)
#define N_SIZES     11
#define N_MIX       150
#define N_FLIGHT    400

static pgas_handler_t check, ordered, numbered, keep, relay, relayed, give, give_short, give_none,
    gate, count;
static size_t call_max;
static pgas_gptr_t to_place[JOB_RANKS_MAX], from_place;
static unsigned char *from_heap, *private_memory, *attached;
static uint64_t n_run;
static int n_bad_seen;

/* Some are all zero, some end in zeros. */
static unsigned char byte_of(uint64_t seed, size_t i, size_t bytes)
{
    if (seed % 7 == 3 || (seed % 7 == 5 && i >= bytes / 2))
        return 0;
    return pattern_byte(seed, i);
}

static void fill(void *to, uint64_t seed, size_t bytes)
{
    unsigned char *at = to;
    for (size_t i = 0; i < bytes; i++)
        at[i] = byte_of(seed, i, bytes);
}

static bool is_filled(const void *from, uint64_t seed, size_t bytes)
{
    const unsigned char *at = from;
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != byte_of(seed, i, bytes))
            return false;
    return true;
}

/* ---- one handler that checks whatever comes ---- */

/* Arguments: what buffer i should be. */
typedef struct {
    uint64_t seed;
    uint32_t n;
    uint32_t source;
    uint64_t bytes_sum;
} expect_t;

static void on_check(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    expect_t e;
    uint64_t sum = 0;
    memcpy(&e, args, sizeof e);
    bool good = bytes == sizeof e && context == (void *)&n_run && pgas_buffer_count() == e.n &&
                pgas_thread_rank(source) == (int)e.source && (uintptr_t)args % 8 == 0;
    for (size_t i = 0; good && i < e.n; i++) {
        void *address = NULL;
        size_t n = SIZE_MAX;
        good = pgas_buffer_get(i, &address, &n) == PGAS_OK &&
               (n == 0 || (address && (uintptr_t)address % 8 == 0)) &&
               is_filled(address, e.seed + i, n);
        sum += n;
    }
    void *address;
    size_t n;
    good = good && sum == e.bytes_sum && pgas_buffer_get(e.n, &address, &n) == PGAS_ERR_RANGE;
    n_run++;
    n_bad_seen += !good;
}

typedef enum {
    COPY,
    PUSH,
    PULL_HEAP,
    PULL_PRIVATE,
    PULL_ATTACHED,
    PULL_HEAP_HELPED,
    PULL_PRIVATE_HELPED,
    N_KINDS
} kind_t;
static const char *const kind_names[N_KINDS] = { "copied",
                                                 "pushed",
                                                 "pulled from the heap",
                                                 "pulled from private memory",
                                                 "pulled from attached memory",
                                                 "pulled from the heap by a helper",
                                                 "pulled from private memory by a helper" };

static pgas_buffer_mode_t mode_of(kind_t kind)
{
    if (kind == COPY)
        return PGAS_BUFFER_COPY;
    return kind == PUSH ? PGAS_BUFFER_PUSH : PGAS_BUFFER_PULL;
}

static unsigned char *memory_of(kind_t kind)
{
    if (kind == PULL_HEAP || kind == PULL_HEAP_HELPED)
        return from_heap;
    return kind == PULL_ATTACHED ? attached : private_memory;
}

static pgas_buffer_t buffer_of(kind_t kind, int rank, size_t place, size_t bytes, uint64_t seed)
{
    pgas_buffer_t b;
    memset(&b, 0, sizeof b);
    unsigned char *from = memory_of(kind) + place;
    b.mode = mode_of(kind);
    b.address = from;
    b.bytes = bytes;
    b.target = kind == PUSH ? to_place[rank] + place : PGAS_NULL;
    b.helper = kind == PULL_HEAP_HELPED || kind == PULL_PRIVATE_HELPED;
    fill(from, seed, bytes);
    return b;
}

static pgas_status_t call_checked(int rank, const pgas_buffer_t *b, size_t n, uint64_t seed,
                                  pgas_sync_t *executed, pgas_sync_t *local)
{
    expect_t e = { seed, (uint32_t)n, (uint32_t)me, 0 };
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = executed;
    for (size_t i = 0; i < n; i++)
        e.bytes_sum += b[i].bytes;
    return call_buffers(pgas_on_rank(rank), check, &e, sizeof e, b, n, &opts, local);
}

static void begin(void)
{
    pgas_barrier(NULL);
    n_run = 0;
    n_bad_seen = 0;
    pgas_barrier(NULL);
}

static void sizes(void)
{
    const size_t size[N_SIZES] = {
        0, 1, 7, 8, 4095, 4096, call_max - 1, call_max, call_max + 1, 100000, (size_t)3 << 20
    };
    for (int kind = 0; kind < N_KINDS; kind++) {
        int n_bad = 0;
        begin();
        for (int i = 0; i < N_SIZES; i++) {
            pgas_sync_t executed = PGAS_SYNC_INIT, local = PGAS_SYNC_INIT;
            pgas_buffer_t b = buffer_of((kind_t)kind, job_right(), 0, size[i], (uint64_t)i);
            n_bad += call_checked(job_right(), &b, 1, (uint64_t)i, &executed, &local) != PGAS_OK;
            n_bad += kind <= PUSH && pgas_sync_test(&local) != PGAS_OK;
            n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK || pgas_sync_test(&local) != PGAS_OK;
        }
        n_bad += pgas_quiesce() != PGAS_OK;
        spmd_ok(n_bad == 0 && n_run == N_SIZES && n_bad_seen == 0, "%s, of 0 to 3 MiB",
                kind_names[kind]);
    }
}

/* The checker must see one wrong byte, a wrong number of buffers, a wrong size. */
static void the_checker_checks(void)
{
    begin();
    pgas_sync_t executed = PGAS_SYNC_INIT;
    int n_bad = 0;
    pgas_buffer_t b[2] = { buffer_of(COPY, job_right(), 0, 20000, 1),
                           buffer_of(COPY, job_right(), 20000, 8, 2) };
    private_memory[19999] ^= 1;
    n_bad += call_checked(job_right(), b, 2, 1, &executed, NULL) != PGAS_OK;
    private_memory[19999] ^= 1;
    expect_t e = { 1, 1, (uint32_t)me, 20008 };
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &executed;
    n_bad +=
        call_buffers(pgas_on_rank(job_right()), check, &e, sizeof e, b, 2, &opts, NULL) != PGAS_OK;
    e.n = 2;
    e.bytes_sum++;
    n_bad +=
        call_buffers(pgas_on_rank(job_right()), check, &e, sizeof e, b, 2, &opts, NULL) != PGAS_OK;
    n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && n_run == 3 && n_bad_seen == 3, "the checking handler finds the error");
}

/* ---- several buffers ---- */

static void several_in_one_call(void)
{
    int n_bad = 0;
    begin();
    for (int round = 0; round < 4; round++) {
        pgas_buffer_t b[PGAS_BUFFERS_MAX];
        size_t n = round == 3 ? PGAS_BUFFERS_MAX : 7;
        for (size_t i = 0; i < n; i++) {
            const size_t sizes[] = { 3 * i, 5000 + i, i % 2 * 60000, 900 * (i % 5) };
            size_t bytes = sizes[round];
            b[i] = buffer_of((kind_t)(i % N_KINDS), job_right(), i * 60032, bytes, 100 + i);
        }
        pgas_sync_t executed = PGAS_SYNC_INIT;
        n_bad += call_checked(job_right(), b, n, 100, &executed, NULL) != PGAS_OK ||
                 pgas_sync_wait(&executed, -1) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_run == 4 && n_bad_seen == 0,
            "up to 64 buffers in one call, each in its own way");
}

/* ---- local completion ---- */

static void reuse_after_local_completion(void)
{
    int n_bad = 0;
    begin();
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (int i = 0; i < 8; i++) {
            pgas_sync_t local = PGAS_SYNC_INIT;
            size_t bytes = i % 2 ? 70001 : 300, place = kind == PUSH ? (size_t)i * 70016 : 0;
            pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
            uint64_t seed = (uint64_t)(10 * kind + i);
            expect_t e = { seed, 1, (uint32_t)me, bytes };
            pgas_buffer_t b = buffer_of((kind_t)kind, job_right(), place, bytes, seed);
            opts.sync = &local;
            opts.when = PGAS_LOCAL;
            n_bad += call_buffers(pgas_on_rank(job_right()), check, &e, sizeof e, &b, 1, &opts,
                                  NULL) != PGAS_OK;
            n_bad += pgas_sync_wait(&local, -1) != PGAS_OK;
            memset((void *)(uintptr_t)b.address, 0xee, bytes);
        }
        n_bad += pgas_quiesce() != PGAS_OK;
    }
    spmd_ok(n_bad == 0 && n_run == 8 * N_KINDS && n_bad_seen == 0,
            "a buffer overwritten after local completion: the handler sees what it was");
}

static void remote_completion(void)
{
    int n_bad = 0;
    begin();
    for (int kind = 0; kind < N_KINDS; kind++) {
        pgas_sync_t remote = PGAS_SYNC_INIT;
        pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
        expect_t e = { (uint64_t)kind, 1, (uint32_t)me, 40000 };
        pgas_buffer_t b = buffer_of((kind_t)kind, job_right(), 0, 40000, (uint64_t)kind);
        opts.sync = &remote;
        opts.when = PGAS_REMOTE;
        n_bad += call_buffers(pgas_on_rank(job_right()), check, &e, sizeof e, &b, 1, &opts, NULL) !=
                 PGAS_OK;
        n_bad += pgas_sync_wait(&remote, -1) != PGAS_OK;
        if (kind != PUSH)
            memset((void *)(uintptr_t)b.address, 0xee, b.bytes);
        n_bad += pgas_quiesce() != PGAS_OK;
    }
    spmd_ok(n_bad == 0 && n_run == N_KINDS && n_bad_seen == 0,
            "a counter of remote completion is decremented, once");
}

/* ---- order ---- */

static uint64_t next_number, next_pull;
static int n_out_of_order;

static void on_numbered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)source;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_out_of_order += bytes != 8 || number != next_number++;
}

static void on_ordered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number[2];
    (void)source;
    (void)context;
    memcpy(number, args, sizeof number);
    n_out_of_order += bytes != 16 || number[0] != (number[1] ? next_pull++ : next_number++);
}

static void order_is_kept(void)
{
    uint64_t number = 0, pull = 0;
    int n_bad = 0;
    next_number = next_pull = 0;
    n_out_of_order = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < 300; i++) {
        int kind = i % (N_KINDS + 2);
        if (kind >= N_KINDS) {
            n_bad += pgas_call(job_right(), numbered, &number, 8, NULL) != PGAS_OK;
            number++;
            continue;
        }
        bool is_pull = kind >= PULL_HEAP;
        uint64_t args[2] = { is_pull ? pull++ : number++, is_pull };
        pgas_buffer_t b = { mode_of(kind),
                            (kind == PULL_HEAP || kind == PULL_HEAP_HELPED ? from_heap
                                                                           : private_memory),
                            (size_t)(i % 3 ? i * 97 : i),
                            to_place[job_right()],
                            kind >= PULL_HEAP_HELPED,
                            NULL };
        n_bad += call_buffers(pgas_on_rank(job_right()), ordered, args, sizeof args, &b, 1, NULL,
                              NULL) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_out_of_order == 0 && next_number == number && next_pull == pull,
            "copies and pushes run in order with plain calls, pulls among themselves");
    number += 7;
    n_bad =
        pgas_call(job_right(), numbered, &number, 8, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_out_of_order == 1, "and a wrong number is noticed");
}

/* ---- many, at random ---- */

static void many_in_flight(void)
{
    int n_bad = 0;
    pgas_sync_t executed = PGAS_SYNC_INIT, local = PGAS_SYNC_INIT;
    begin();
    fill(private_memory, 1, 5000);
    fill(from_heap, 1, 5000);
    for (int i = 0; i < N_FLIGHT; i++) {
        pgas_buffer_t b = {
            PGAS_BUFFER_PULL, i % 2 ? private_memory : from_heap, 5000, PGAS_NULL, i % 64 == 5, NULL
        };
        n_bad += call_checked(i % n_ranks, &b, 1, 1, &executed, &local) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&local, -1) != PGAS_OK || pgas_sync_wait(&executed, -1) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    uint64_t sum = n_run, all = 0;
    pgas_allreduce(NULL, &sum, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && n_bad_seen == 0 && all == (uint64_t)N_FLIGHT * (uint64_t)n_ranks,
            "more pulls under way than a rank may have open");
}

/* One mix for each thing to be sent: no two live buffers share memory. */
static void seeded_mix(uint64_t seed)
{
    pgasi_rng_t rng;
    pgas_sync_t executed = PGAS_SYNC_INIT, local = PGAS_SYNC_INIT;
    uint32_t expected[JOB_RANKS_MAX] = { 0 }, got[JOB_RANKS_MAX];
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    begin();
    size_t place = 0, mine = PLACE_BYTES / (size_t)n_ranks;
    for (int i = 0; i < N_MIX; i++) {
        pgas_buffer_t b[4];
        size_t n = pgasi_rng_below(&rng, 5), first = place;
        int rank = (int)pgasi_rng_below(&rng, (uint64_t)n_ranks);
        uint64_t draw = pgasi_rng_u64(&rng);
        for (size_t k = 0; k < n; k++) {
            static const size_t top[] = { 9, 300, 5000, 40000 };
            size_t bytes = pgasi_rng_below(&rng, top[pgasi_rng_below(&rng, 4)]);
            if (place + bytes + 64 > mine) {
                n = k;
                break;
            }
            size_t at = PGASI_ALIGN_UP((size_t)me * mine + place, 64);
            b[k] = buffer_of((kind_t)pgasi_rng_below(&rng, N_KINDS), rank, at, bytes, draw + k);
            place += bytes + 64;
        }
        n_bad += call_checked(rank, b, n, draw, &executed, &local) != PGAS_OK;
        expected[rank]++;
        if (place + 200000 > mine || first > place) {
            n_bad +=
                pgas_sync_wait(&executed, -1) != PGAS_OK || pgas_sync_wait(&local, -1) != PGAS_OK;
            place = 0;
        }
    }
    n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK || pgas_sync_wait(&local, -1) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_alltoall(NULL, expected, got, sizeof got[0]);
    uint64_t sum = 0;
    for (int r = 0; r < n_ranks; r++)
        sum += got[r];
    spmd_ok(n_bad == 0 && n_bad_seen == 0 && n_run == sum,
            "a random mix of kinds, sizes and ranks");
}

/* ---- what handlers do ---- */

static void *kept[3];
static size_t kept_bytes[3];
static int take_twice, take_pushed;

static void on_keep(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    void *address;
    for (size_t i = 0; i < 3; i++) {
        n_bad_seen += pgas_buffer_take(i, &kept[i]) != PGAS_OK ||
                      pgas_buffer_get(i, &address, &kept_bytes[i]) != PGAS_OK;
        n_bad_seen += address != kept[i];
    }
    take_twice = pgas_buffer_take(0, &address);
    take_pushed = pgas_buffer_take(3, &address);
}

static void handlers_take_buffers(void)
{
    begin();
    pgas_buffer_t b[4] = { buffer_of(COPY, job_right(), 0, 24, 1),
                           buffer_of(COPY, job_right(), 64, 50000, 2),
                           buffer_of(PULL_PRIVATE, job_right(), 50112, 50000, 4),
                           buffer_of(PUSH, job_right(), 200000, 8, 5) };
    int n_bad =
        call_buffers(pgas_on_rank(job_right()), keep, NULL, 0, b, 4, NULL, NULL) != PGAS_OK ||
        pgas_quiesce() != PGAS_OK;
    void *address;
    spmd_ok(n_bad == 0 && n_bad_seen == 0 && kept_bytes[0] == 24 && kept_bytes[1] == 50000 &&
                kept_bytes[2] == 50000 && is_filled(kept[0], 1, 24) &&
                is_filled(kept[1], 2, 50000) && is_filled(kept[2], 4, 50000),
            "a handler keeps buffers, copied and pulled");
    spmd_ok(take_twice == PGAS_ERR_INVALID && take_pushed == PGAS_ERR_INVALID &&
                pgas_buffer_count() == 0 && pgas_buffer_take(0, &address) == PGAS_ERR_RANGE,
            "not twice, not a pushed buffer, and nothing outside of a handler");
    for (int i = 0; i < 3; i++)
        free(kept[i]);
}

static int relay_far_push, relay_bad;
static int far_of_me;

/* A handler forwards its buffer, as a copy and as a pull of memory that remains. */
static void on_relay(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)context;
    void *address = NULL;
    size_t n = 0;
    relay_bad += pgas_buffer_get(0, &address, &n) != PGAS_OK;
    fill(private_memory + 300000, 77, 30000);
    pgas_buffer_t b[2] = { { PGAS_BUFFER_COPY, address, n, PGAS_NULL, false, NULL },
                           { PGAS_BUFFER_PULL, private_memory + 300000, 30000, PGAS_NULL, false,
                             NULL } };
    relay_bad += call_buffers(pgas_on_rank(pgas_thread_rank(source)), relayed, NULL, 0, b, 2, NULL,
                              NULL) != PGAS_OK;
    pgas_buffer_t push = { PGAS_BUFFER_PUSH, address, n, to_place[far_of_me], false, NULL };
    if (far_of_me != me)
        relay_far_push =
            call_buffers(pgas_on_rank(far_of_me), check, NULL, 0, &push, 1, NULL, NULL);
}

static void on_relayed(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    void *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    n_run++;
    n_bad_seen += pgas_buffer_get(0, &a, &n) != PGAS_OK || n != 70000 || !is_filled(a, 76, n) ||
                  pgas_buffer_get(1, &b, &m) != PGAS_OK || m != 30000 || !is_filled(b, 77, m);
}

static void handlers_call_with_buffers(void)
{
    begin();
    relay_bad = 0;
    far_of_me = me;
    for (int r = 0; r < n_ranks; r++)
        if (pgas_node_of(r) != pgas_node())
            far_of_me = r;
    relay_far_push = far_of_me == me ? PGAS_ERR_CONTEXT : PGAS_OK;
    pgas_barrier(NULL);
    pgas_buffer_t b = buffer_of(COPY, job_right(), 0, 70000, 76);
    int n_bad =
        call_buffers(pgas_on_rank(job_right()), relay, NULL, 0, &b, 1, NULL, NULL) != PGAS_OK ||
        pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && relay_bad == 0 && n_run == 1 && n_bad_seen == 0,
            "a handler calls back with buffers");
    spmd_is_int(relay_far_push, PGAS_ERR_CONTEXT, "but does not push to another node");
}

/* ---- large replies ---- */

static void on_give(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t ask[2];
    (void)source;
    (void)bytes;
    (void)context;
    memcpy(ask, args, sizeof ask);
    char *data = malloc(ask[1] ? ask[1] : 1);
    fill(data, ask[0], ask[1]);
    n_bad_seen += pgas_reply(data, ask[1]) != PGAS_OK || pgas_reply(data, 1) != PGAS_ERR_CONTEXT;
    memset(data, 0xdd, ask[1]);
    free(data);
}

static void on_give_short(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_bad_seen += pgas_reply("short", 5) != PGAS_OK;
}

static void large_replies(void)
{
    const size_t size[] = { 1, call_max, call_max + 1, 100000, (size_t)3 << 20 };
    unsigned char *place[] = { from_heap, private_memory, attached };
    int n_bad = 0;
    begin();
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(size); i++) {
        for (size_t k = 0; k < PGASI_ARRAY_LENGTH(place); k++) {
            uint64_t ask[2] = { i + k, size[i] };
            memset(place[k], 0xaa, size[i] + 1);
            n_bad +=
                pgas_call_return(job_right(), give, ask, sizeof ask, place[k], size[i]) != PGAS_OK;
            n_bad += !is_filled(place[k], i + k, size[i]) || place[k][size[i]] != 0xaa;
        }
    }
    spmd_ok(n_bad == 0 && n_bad_seen == 0,
            "replies of up to 3 MiB, into heap, private and attached memory");
    enum { N = 8 };
    pgas_sync_t executed = PGAS_SYNC_INIT;
    n_bad = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t ask[2] = { i, 50000 };
        n_bad += pgas_call_return_nb((int)i % n_ranks, give, ask, sizeof ask,
                                     private_memory + i * 50048, 50000, &executed) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK;
    for (uint64_t i = 0; i < N; i++)
        n_bad += !is_filled(private_memory + i * 50048, i, 50000);
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && n_bad_seen == 0, "many at once, on one counter");
    spmd_ok(pgas_call_return(job_right(), give_short, NULL, 0, private_memory, 100000) ==
                    PGAS_ERR_MISMATCH &&
                pgas_call_return(job_right(), give_none, NULL, 0, private_memory, 100000) ==
                    PGAS_ERR_MISMATCH,
            "another size than expected, or none, gives MISMATCH");
    pgas_barrier(NULL);
}

/* ---- no room ---- */

static int gate_open;

/* Rank 0 stays in a handler; the others fill what leads to it. */
static void again_means_nothing_happened(void)
{
    pgas_status_t status = PGAS_OK;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    uint64_t before = 1, seen = 0;
    int n_bad = 0, n_sent = 0;
    opts.full = PGAS_FULL_AGAIN;
    begin();
    gate_open = 0;
    memset(private_memory, 0x11, 200);
    /* on another node a push waits for the target */
    bool near = me != 0 && pgas_node_of(0) == pgas_node();
    n_bad += pgas_put(to_place[0] + (uint64_t)me * 4096, &before, 8) != PGAS_OK ||
             pgas_flush(0) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_progress(NULL);
    spmd_barrier();
    if (me == 1)
        n_bad += pgas_call(0, gate, NULL, 0, NULL) != PGAS_OK;
    while (me != 0 && status == PGAS_OK && n_sent < 20000) {
        pgas_buffer_t b = { PGAS_BUFFER_COPY, private_memory, 200, PGAS_NULL, false, NULL };
        status = call_buffers(pgas_on_rank(0), count, NULL, 0, &b, 1, &opts, NULL);
        n_sent += status == PGAS_OK;
    }
    bool full = status == PGAS_ERR_AGAIN;
    spmd_ok(!near || full, "copies to a full peer of the node give AGAIN");
    for (status = PGAS_OK; near && status == PGAS_OK && n_sent < 40000;) {
        before++;
        pgas_buffer_t b = {
            PGAS_BUFFER_PUSH, &before, 8, to_place[0] + (uint64_t)me * 4096, false, NULL
        };
        status = call_buffers(pgas_on_rank(0), count, NULL, 0, &b, 1, &opts, NULL);
        n_sent += status == PGAS_OK;
    }
    if (near)
        n_bad += status != PGAS_ERR_AGAIN ||
                 pgas_get(&seen, to_place[0] + (uint64_t)me * 4096, 8) != PGAS_OK ||
                 seen != before - 1;
    spmd_is_int(n_bad, 0, "and a push to it has pushed nothing");
    if (me == 0)
        __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
    spmd_progress(job_progress);
    n_bad += pgas_quiesce() != PGAS_OK;
    uint64_t mine = (uint64_t)n_sent, all = 0;
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && (me != 0 || n_run == all), "accepted calls run once");
}

/* ---- refusals ---- */

static void refusals(void)
{
    pgas_buffer_t b[PGAS_BUFFERS_MAX + 1];
    pgas_sync_t live = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    memset(b, 0, sizeof b);
    n_run = 0;
    pgas_barrier(NULL);
    spmd_ok(call_buffers(pgas_on_rank(n_ranks), count, NULL, 0, b, 1, NULL, NULL) ==
                    PGAS_ERR_RANGE &&
                call_buffers(pgas_on_rank(0), 0, NULL, 0, b, 1, NULL, NULL) == PGAS_ERR_NOT_FOUND &&
                call_buffers(pgas_on_rank(0), count, private_memory, call_max + 1, b, 1, NULL,
                             NULL) == PGAS_ERR_LIMIT &&
                call_buffers(pgas_on_rank(0), count, NULL, 0, b, PGAS_BUFFERS_MAX + 1, NULL,
                             NULL) == PGAS_ERR_LIMIT &&
                call_buffers(pgas_on_rank(0), count, NULL, 0, NULL, 1, NULL, NULL) ==
                    PGAS_ERR_INVALID,
            "ranks, handlers, arguments and numbers of buffers that cannot be");
    b[0].bytes = 8;
    bool good = call_buffers(pgas_on_rank(0), count, NULL, 0, b, 1, NULL, NULL) == PGAS_ERR_INVALID;
    b[0].address = private_memory;
    b[0].mode = (pgas_buffer_mode_t)9;
    good =
        good && call_buffers(pgas_on_rank(0), count, NULL, 0, b, 1, NULL, NULL) == PGAS_ERR_INVALID;
    b[0].mode = PGAS_BUFFER_PUSH;
    good =
        good && call_buffers(pgas_on_rank(0), count, NULL, 0, b, 1, NULL, NULL) == PGAS_ERR_RANGE;
    b[0].target = to_place[job_right()];
    good = good && (n_ranks == 1 || call_buffers(pgas_on_rank(me), count, NULL, 0, b, 1, NULL,
                                                 NULL) == PGAS_ERR_RANGE);
    b[0].target = pgas_gptr_make(0, PGAS_OFFSET_MAX);
    good =
        good && call_buffers(pgas_on_rank(0), count, NULL, 0, b, 1, NULL, NULL) == PGAS_ERR_RANGE;
    spmd_ok(good, "null buffers, unknown modes and places of other ranks");
    good = true;
    b[0].mode = PGAS_BUFFER_PULL;
    opts.sync = &live;
    opts.when = PGAS_LOCAL;
    good = good &&
           call_buffers(pgas_on_rank(0), count, NULL, 0, b, 1, &opts, &live) == PGAS_ERR_INVALID;
    opts.when = (pgas_when_t)7;
    good = good &&
           call_buffers(pgas_on_rank(0), count, NULL, 0, b, 1, &opts, NULL) == PGAS_ERR_INVALID;
    opts.when = PGAS_EXECUTED;
    opts.size = 1;
    good = good &&
           call_buffers(pgas_on_rank(0), count, NULL, 0, b, 1, &opts, NULL) == PGAS_ERR_INVALID &&
           live.count == 0;
    spmd_ok(good && pgas_quiesce() == PGAS_OK && n_run == 0,
            "options that are none: the counter is left alone, and nothing ran");
}

static void register_all(void)
{
    pgas_handler_register("t.check", on_check, &n_run, NULL, &check);
    pgas_handler_register("t.ordered", on_ordered, NULL, NULL, &ordered);
    pgas_handler_register("t.numbered", on_numbered, NULL, NULL, &numbered);
    pgas_handler_register("t.keep", on_keep, NULL, NULL, &keep);
    pgas_handler_register("t.relay", on_relay, NULL, NULL, &relay);
    pgas_handler_register("t.relayed", on_relayed, NULL, NULL, &relayed);
    pgas_handler_register("t.give", on_give, NULL, NULL, &give);
    pgas_handler_register("t.give_short", on_give_short, NULL, NULL, &give_short);
    pgas_handler_register("t.give_none", on_nothing, NULL, NULL, &give_none);
    pgas_handler_register("t.gate", on_gate, &gate_open, NULL, &gate);
    pgas_handler_register("t.count", on_count, &n_run, NULL, &count);
}

int main(int argc, char **argv)
{
    register_all();
    job_begin(&argc, &argv, N_KINDS + 24);
    uint64_t seed = spmd_seed(11);
    call_max = pgasi_param.call_max;
    pgas_gptr_t to = PGAS_NULL, attached_ptr = PGAS_NULL;
    spmd_ok(pgas_alloc(PLACE_BYTES, &to) == PGAS_OK &&
                pgas_alloc(PLACE_BYTES, &from_place) == PGAS_OK,
            "alloc");
    job_gather(to, to_place);
    from_heap = pgas_gptr_local(from_place, PLACE_BYTES);
    private_memory = job_alloc(PLACE_BYTES);
    attached = job_alloc(PLACE_BYTES);
    spmd_ok(pgas_mem_attach(attached, PLACE_BYTES, &attached_ptr) == PGAS_OK, "attach");
    sizes();
    the_checker_checks();
    several_in_one_call();
    reuse_after_local_completion();
    remote_completion();
    order_is_kept();
    many_in_flight();
    seeded_mix(seed);
    handlers_take_buffers();
    handlers_call_with_buffers();
    large_replies();
    if (n_ranks > 1)
        again_means_nothing_happened();
    else
        spmd_skip(3, "needs two ranks");
    refusals();
    pgas_barrier(NULL);
    spmd_ok(pgas_mem_detach(attached_ptr) == PGAS_OK, "detach");
    free(private_memory);
    int status = job_end();
    free(attached);
    return status;
}
