/* The limit of the machine: plain loads, stores, atomics, copies, flags and rings between
 * processes.
 *
 * All ranks of a host map the MPI shared window of each rank. They reach it through an array of
 * pointers and sizes, as a program without a library would. A ring has one producer and one
 * consumer, a counter of written and one of read messages on cache lines of their own; it is in the
 * receiver's window. */
#include "benchmarks/ref.h"
#include "benchmarks/ref_ring.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#define PUBLISH_BYTES 4096u

#define always_inline ref_inline

/* The window of a rank: peers store there. */
typedef struct {
    _Alignas(REF_LINE) uint64_t flag;
    char payload[REF_LINE - sizeof(uint64_t)];
    _Alignas(REF_LINE) uint64_t word; /* for atomics */
    _Alignas(REF_LINE) uint64_t hot;  /* of rank 0: for all ranks */
    _Alignas(REF_LINE) char flag_data[16384];
    ref_ring_t in[BENCH_TEAM_MAX]; /* from the peer, one for each thread */
    _Alignas(4096) char window[BENCH_WINDOW_BYTES];
} region_t;

/* The array of pointers. */
static struct {
    region_t *region;
    char *base;
    size_t bytes;
} * at_rank;
static int n_at;

static MPI_Comm host = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL;
static char *private_base;
static uint64_t *random_table;
static uint64_t flag_count; /* round trips so far, equal on both ranks */

bool ref_memory_open(void)
{
    int rank, n_ranks, n_host;
    void *mine;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &n_host);
    MPI_Allreduce(MPI_IN_PLACE, &n_host, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (n_host != n_ranks) {
        MPI_Comm_free(&host);
        return false;
    }
    MPI_Win_allocate_shared(sizeof(region_t) + 4096, 1, MPI_INFO_NULL, host, &mine, &window);
    at_rank = calloc((size_t)n_ranks, sizeof *at_rank);
    private_base = bench_buffer(BENCH_WINDOW_BYTES);
    if (!at_rank)
        bench_die("out of memory");
    for (int r = 0; r < n_ranks; r++) {
        MPI_Aint bytes;
        int unit;
        char *base;
        MPI_Win_shared_query(window, r, &bytes, &unit, &base);
        base += (4096 - (uintptr_t)base % 4096) % 4096;
        at_rank[r].region = (region_t *)(void *)base;
        at_rank[r].base = at_rank[r].region->window;
        at_rank[r].bytes = BENCH_WINDOW_BYTES;
    }
    n_at = n_ranks;
    memset(at_rank[rank].region, 0, sizeof(region_t));
    MPI_Barrier(host);
    return true;
}

void ref_memory_close(void)
{
    MPI_Win_free(&window);
    MPI_Comm_free(&host);
    free(at_rank);
    free(private_base);
    free(random_table);
    random_table = NULL;
}

/* ---- loads and stores ---- */

/* The address of `bytes` bytes at an offset of a rank's window, or NULL: any checked access has
 * this cost. */
static inline void *checked(int rank, size_t offset, size_t bytes)
{
    if (__builtin_expect(rank >= n_at || offset + bytes > at_rank[rank].bytes, 0))
        return NULL;
    return at_rank[rank].base + offset;
}

#define TYPED(BITS)                                                                  \
    static bool store_##BITS(const bench_run_t *run)                                 \
    {                                                                                \
        int peer = run->peer;                                                        \
        for (uint64_t i = 0, n = run->iters; i < n; i++) {                           \
            uint##BITS##_t *word = checked(peer, bench_walk(i, BITS / 8), BITS / 8); \
            if (!word)                                                               \
                return false;                                                        \
            __atomic_store_n(word, (uint##BITS##_t)i, __ATOMIC_RELAXED);             \
            bench_step();                                                            \
        }                                                                            \
        return true;                                                                 \
    }                                                                                \
    static bool load_##BITS(const bench_run_t *run)                                  \
    {                                                                                \
        int peer = run->peer;                                                        \
        uint64_t sum = 0;                                                            \
        for (uint64_t i = 0, n = run->iters; i < n; i++) {                           \
            uint##BITS##_t *word = checked(peer, bench_walk(i, BITS / 8), BITS / 8); \
            if (!word)                                                               \
                return false;                                                        \
            sum += __atomic_load_n(word, __ATOMIC_RELAXED);                          \
            bench_step();                                                            \
        }                                                                            \
        bench_use(sum);                                                              \
        return true;                                                                 \
    }
TYPED(8)
TYPED(16)
TYPED(32)
TYPED(64)

static bool copy_checked(const bench_run_t *run, bool put)
{
    for (uint64_t i = 0; i < run->iters; i++) {
        size_t offset = run->bytes < BENCH_STRIDE_MASK ? bench_walk(i, run->bytes) : 0;
        char *there = checked(run->peer, offset, run->bytes);
        if (!there)
            return false;
        if (put)
            memcpy(there, private_base, run->bytes);
        else
            memcpy(private_base, there, run->bytes);
        bench_step();
    }
    return true;
}

static bool access_window(const bench_run_t *run, bool put)
{
    switch (run->bytes) {
    case 1:
        return put ? store_8(run) : load_8(run);
    case 2:
        return put ? store_16(run) : load_16(run);
    case 4:
        return put ? store_32(run) : load_32(run);
    case 8:
        return put ? store_64(run) : load_64(run);
    default:
        return copy_checked(run, put);
    }
}

static double timed_access(const bench_run_t *run, bool put)
{
    uint64_t begin = bench_now();
    if (!run->active)
        return 0;
    if (!access_window(run, put))
        bench_die("the reference left its window");
    return bench_since(begin);
}

double ref_store(const bench_run_t *run)
{
    return timed_access(run, true);
}

double ref_load(const bench_run_t *run)
{
    return timed_access(run, false);
}

static double copy_window(const bench_run_t *run, bool put)
{
    uint64_t slots = run->arg ? 1 : bench_slots(run->bytes), slot = 0, begin = bench_now();
    char *there = at_rank[run->peer].base;
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        size_t at = slot * run->bytes;
        if (put)
            memcpy(there + at, private_base + at, run->bytes);
        else
            memcpy(private_base + at, there + at, run->bytes);
        bench_step();
        slot = slot + 1 < slots ? slot + 1 : 0;
    }
    return bench_since(begin);
}

double ref_memcpy_put(const bench_run_t *run)
{
    return copy_window(run, true);
}

double ref_memcpy_get(const bench_run_t *run)
{
    return copy_window(run, false);
}

/* ---- atomics ---- */

static always_inline void atomic_once(uint64_t *word, int amo, uint64_t value)
{
    switch (amo) {
    case BENCH_FADD64:
        bench_use(__atomic_fetch_add(word, value, __ATOMIC_SEQ_CST));
        break;
    case BENCH_ADD64:
        (void)__atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
        break;
    case BENCH_XOR64:
        (void)__atomic_fetch_xor(word, value, __ATOMIC_SEQ_CST);
        break;
    case BENCH_SWAP64:
        bench_use(__atomic_exchange_n(word, value, __ATOMIC_SEQ_CST));
        break;
    case BENCH_CSWAP64: {
        uint64_t expected = value;
        (void)__atomic_compare_exchange_n(word, &expected, value + 1, false, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
        bench_use(expected);
        break;
    }
    default: {
        uint32_t *half = (uint32_t *)(void *)word;
        bench_use(__atomic_fetch_add(half, (uint32_t)value, __ATOMIC_SEQ_CST));
    }
    }
}

static double atomic_loop(const bench_run_t *run, uint64_t *word)
{
    uint64_t begin = bench_now();
#define LOOP(AMO)                                 \
    case AMO:                                     \
        for (uint64_t i = 0; i < run->iters; i++) \
            atomic_once(word, AMO, i);            \
        break
    switch (run->arg) {
        LOOP(BENCH_FADD64);
        LOOP(BENCH_ADD64);
        LOOP(BENCH_XOR64);
        LOOP(BENCH_SWAP64);
        LOOP(BENCH_CSWAP64);
        LOOP(BENCH_FADD32);
    }
#undef LOOP
    return bench_since(begin);
}

double ref_atomic(const bench_run_t *run)
{
    return run->active ? atomic_loop(run, &at_rank[run->peer].region->word) : 0;
}

double ref_atomic_hot(const bench_run_t *run)
{
    return atomic_loop(run, &at_rank[0].region->hot);
}

/* ---- flags ---- */

/* Two cache lines: the payload, then the flag that publishes it. */
static inline void raise_flag(region_t *there, const bench_run_t *run, uint64_t value)
{
    memcpy(there->flag_data, private_base, run->bytes);
    __atomic_store_n(&there->flag, value, __ATOMIC_RELEASE);
}

static inline void await_flag(const region_t *here, uint64_t value)
{
    uint32_t spins = 0;
    while (__atomic_load_n(&here->flag, __ATOMIC_ACQUIRE) != value)
        bench_relax(&spins);
    bench_use(*(const volatile char *)here->flag_data);
}

double ref_flags(const bench_run_t *run)
{
    if (run->peer < 0)
        return 0;
    region_t *here = at_rank[run->rank].region, *there = at_rank[run->peer].region;
    uint64_t begin = bench_now();
    if (run->bytes > sizeof here->flag_data)
        bench_die("flag ping-pong: at most %zu bytes", sizeof here->flag_data);
    for (uint64_t i = 0; i < run->iters; i++) {
        flag_count++;
        if (run->active)
            raise_flag(there, run, flag_count);
        await_flag(here, flag_count);
        if (!run->active)
            raise_flag(there, run, flag_count);
    }
    return run->active ? bench_since(begin) : 0;
}

/* ---- rings ---- */

static ref_ring_t *ring_of(const bench_run_t *run, int rank)
{
    if (run->bytes > REF_RING_BYTES / 8)
        bench_die("rings: at most %u bytes", REF_RING_BYTES / 8);
    return &at_rank[rank].region->in[run->thread];
}

/* Between two runs both ends have met and the reader has read all messages. */
static void reset_ring(ref_ring_t *ring)
{
    __atomic_store_n(&ring->written, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->read, 0, __ATOMIC_RELAXED);
}

/* Messages between two publications. */
static uint64_t burst_of(size_t publish_bytes, size_t bytes)
{
    return publish_bytes > bytes ? publish_bytes / bytes : 1;
}

/* Writes messages one by one, then publishes them together. */
static always_inline void write_burst(ref_ring_end_t *end, uint64_t burst, size_t bytes)
{
    for (uint64_t last = end->n + burst; end->n < last; end->n++) {
        char *slot = end->ring->data + end->at;
        memcpy(slot, &end->n, bytes < sizeof end->n ? bytes : sizeof end->n);
        if (bytes > sizeof end->n)
            memcpy(slot + sizeof end->n, private_base, bytes - sizeof end->n);
        end->at = ref_ring_next(end->at, bytes);
        bench_step();
    }
    __atomic_store_n(&end->ring->written, end->n, __ATOMIC_RELEASE);
}

/* Reads the published messages, uses the first word of each, and frees their room. @return false:
 * there were none */
static always_inline bool read_burst(ref_ring_end_t *end, uint64_t *sum, size_t bytes)
{
    uint64_t last = __atomic_load_n(&end->ring->written, __ATOMIC_ACQUIRE), item = 0;
    if (last == end->n)
        return false;
    for (; end->n < last; end->n++) {
        memcpy(&item, end->ring->data + end->at, bytes < sizeof item ? bytes : sizeof item);
        *sum += item;
        end->at = ref_ring_next(end->at, bytes);
    }
    __atomic_store_n(&end->ring->read, end->n, __ATOMIC_RELEASE);
    return true;
}

static always_inline void send_all(ref_ring_t *ring, uint64_t total, uint64_t burst, size_t bytes)
{
    ref_ring_end_t end = { .ring = ring };
    uint32_t spins = 0;
    while (end.n < total) {
        uint64_t n = total - end.n < burst ? total - end.n : burst;
        for (spins = 0; !ref_ring_has_room(&end, n, bytes);)
            bench_relax(&spins);
        write_burst(&end, n, bytes);
    }
    for (spins = 0; __atomic_load_n(&ring->read, __ATOMIC_ACQUIRE) != total;)
        bench_relax(&spins);
}

static always_inline void receive_all(ref_ring_t *ring, uint64_t total, size_t bytes)
{
    ref_ring_end_t end = { .ring = ring };
    uint64_t sum = 0;
    uint32_t spins;
    while (end.n < total)
        for (spins = 0; !read_burst(&end, &sum, bytes);)
            bench_relax(&spins);
    bench_use(sum);
}

static double one_way(const bench_run_t *run, size_t publish_bytes)
{
    ref_ring_t *ring = ring_of(run, run->active ? run->peer : run->rank);
    uint64_t burst = burst_of(publish_bytes, run->bytes), begin = bench_now();
    double elapsed;
    if (run->active) {
#define SEND(SIZE) send_all(ring, run->iters, burst, SIZE)
        BENCH_BY_SIZE(run->bytes, SEND);
    } else {
#define RECEIVE(SIZE) receive_all(ring, run->iters, SIZE)
        BENCH_BY_SIZE(run->bytes, RECEIVE);
    }
    elapsed = bench_since(begin);
    if (run->active)
        reset_ring(ring);
    return run->active ? elapsed : 0;
}

double ref_ring_slots(const bench_run_t *run)
{
    ref_ring_t *ring = ring_of(run, run->active ? run->peer : run->rank);
    uint64_t begin = bench_now();
    double elapsed;
    if (run->active) {
        uint32_t spins = 0;
#define SEND_SLOTS(SIZE) ref_slots_send(ring, run->iters, SIZE, private_base)
        BENCH_BY_SIZE(run->bytes, SEND_SLOTS);
        while (__atomic_load_n(&ring->read, __ATOMIC_ACQUIRE) != run->iters)
            bench_relax(&spins);
    } else {
#define RECEIVE_SLOTS(SIZE) ref_slots_receive(ring, run->iters, SIZE)
        BENCH_BY_SIZE(run->bytes, RECEIVE_SLOTS);
    }
    elapsed = bench_since(begin);
    if (run->active) {
        reset_ring(ring);
        memset(ring->data, 0, sizeof ring->data);
    }
    return run->active ? elapsed : 0;
}

double ref_ring_packed(const bench_run_t *run)
{
    return one_way(run, PUBLISH_BYTES);
}

double ref_team_slots(const bench_run_t *run)
{
    return bench_team(run, run->team, ref_ring_slots);
}

double ref_team_packed(const bench_run_t *run)
{
    return bench_team(run, run->team, ref_ring_packed);
}

static always_inline void exchange(ref_ring_t *to, ref_ring_t *from, uint64_t total, uint64_t burst,
                                   size_t bytes)
{
    ref_ring_end_t out = { .ring = to }, in = { .ring = from };
    uint64_t sum = 0;
    uint32_t spins = 0;
    while (out.n < total || in.n < total) {
        uint64_t n = total - out.n < burst ? total - out.n : burst;
        bool wrote = n > 0 && ref_ring_has_room(&out, n, bytes);
        if (wrote)
            write_burst(&out, n, bytes);
        if (read_burst(&in, &sum, bytes) || wrote)
            spins = 0;
        else
            bench_relax(&spins);
    }
    bench_use(sum);
}

/* Without peers, neighbours exchange messages. The last of an odd number of ranks fills and empties
 * its own ring. */
static int neighbour(const bench_run_t *run)
{
    int other = run->peer >= 0 ? run->peer : run->rank ^ 1;
    return other < run->n_ranks ? other : run->rank;
}

double ref_ring_both(const bench_run_t *run)
{
    ref_ring_t *to = ring_of(run, neighbour(run)), *from = ring_of(run, run->rank);
    uint64_t burst = burst_of(PUBLISH_BYTES, run->bytes), begin = bench_now();
    double elapsed;
#define EXCHANGE(SIZE) exchange(to, from, run->iters, burst, SIZE)
    BENCH_BY_SIZE(run->bytes, EXCHANGE);
    elapsed = bench_since(begin);
    ref_meet(BENCH_MEMORY);
    reset_ring(from);
    return elapsed;
}

/* ---- random updates ---- */

double ref_random_xor(const bench_run_t *run)
{
    const uint64_t mask = BENCH_TABLE_BYTES / sizeof(uint64_t) - 1;
    uint64_t x = bench_seed(run->rank), begin;
    if (!random_table)
        random_table = calloc(1, BENCH_TABLE_BYTES);
    if (!random_table)
        bench_die("out of memory");
    begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        uint64_t value = bench_random(&x);
        random_table[value & mask] ^= value;
    }
    return bench_since(begin);
}
