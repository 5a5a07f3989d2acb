/* Put and get over the ops table.
 *   what:   Bytes arrive unchanged at every size and alignment, flush and fence order them, and
 *           refusals change nothing.
 *   np:     2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_TEST_FAULT= | PGAS_TEST_FAULT=delay=5,reorder=7,again=3 |
 *   env:    PGAS_TEST_TRANSPORT=verbs |
 *   env:    PGAS_TEST_TRANSPORT=verbs PGAS_TEST_FAULT=delay=5,reorder=7,again=3
 *   log:    are no key of this transport
 *   source: transport.h
 */
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "t/backend/world.h"

#define HEAP         ((size_t)330 << 20)
#define BIG          ((size_t)300 << 20)
#define BIG_OF_THREE ((size_t)33 << 20) /* with three ranks, which share the processor */

/* Puts a run, flushes, gets it back. */
static bool there_and_back(int ctx, size_t offset, size_t bytes, size_t skew)
{
    unsigned char *src = malloc(bytes + 64), *dst = malloc(bytes + 64);
    world_fill(src + skew, bytes + (uint64_t)world.rank, 0, bytes);
    memset(dst, 0, bytes + 64);
    bool good = world_put(ctx, world_right(), offset + skew, src + skew, bytes) == PGAS_OK;
    memset(src + skew, 0, bytes); /* locally complete: ours again */
    good = good && world_flush(ctx, world_right()) == PGAS_OK;
    good = good && world_get(ctx, world_right(), offset + skew, dst + 1, bytes) == PGAS_OK;
    good = good && world_matches(dst + 1, bytes + (uint64_t)world.rank, 0, bytes) && dst[0] == 0 &&
           dst[bytes + 1] == 0;
    free(src);
    free(dst);
    return good;
}

static void sizes(void)
{
    static const size_t bytes[] = { 0,       1,
                                    2,       3,
                                    4,       7,
                                    8,       9,
                                    15,      64,
                                    100,     255,
                                    1000,    4095,
                                    4096,    4097,
                                    8192,    8193,
                                    20000,   65536,
                                    65537,   131071,
                                    1 << 18, (1 << 20) - 1,
                                    1 << 20, (1 << 20) + 13,
                                    5 << 20 };
    for (int ctx = 0; ctx < world.n_ctxs; ctx++) {
        bool good = true;
        for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++)
            good = there_and_back(ctx, (size_t)ctx << 23, bytes[i], i % 9) && good;
        spmd_ok(good, "context %d: 0 bytes to 5 MiB, odd sizes and places", ctx);
        world_barrier();
    }
}

static void big(void)
{
    size_t bytes = world.size == 2 ? BIG : BIG_OF_THREE;
    spmd_ok(there_and_back(0, 0, bytes, 3), "%zu MiB in one piece", bytes >> 20);
    world_barrier();
    spmd_ok(world_matches(world.heap + 3,
                          bytes + (uint64_t)((world.rank + world.size - 1) % world.size), 0, bytes),
            "and the owner sees the same bytes");
    world_barrier();
}

/* Random runs from random contexts against a copy of the expected contents of each peer's part. */
static void model(void)
{
    enum { PART = 1 << 16, STEPS = 400 };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, spmd_seed(11) + (uint64_t)world.rank);
    unsigned char *mine = calloc((size_t)world.size, PART), *buffer = malloc(PART);
    bool good = true;
    memset(world.heap, 0, (size_t)world.size * PART);
    world_barrier();
    for (int step = 0; step < STEPS; step++) {
        int peer = (int)pgasi_rng_below(&rng, (uint64_t)world.size),
            ctx = (int)pgasi_rng_below(&rng, 2);
        size_t at = pgasi_rng_below(&rng, PART), bytes = pgasi_rng_below(&rng, PART - at);
        bytes = step % 3 == 0 ? bytes : bytes % 40;
        unsigned char *model_at = mine + (size_t)peer * PART + at;
        size_t offset = (size_t)world.rank * PART + at;
        if (step % 2 == 0) {
            world_fill(buffer, (uint64_t)step, 0, bytes);
            memcpy(model_at, buffer, bytes);
            good = world_put(ctx, peer, offset, buffer, bytes) == PGAS_OK && good;
            good = world_flush(ctx, peer) == PGAS_OK && good;
        } else {
            good = world_get(ctx, peer, offset, buffer, bytes) == PGAS_OK && good;
            good = memcmp(buffer, model_at, bytes) == 0 && good;
        }
    }
    world_barrier();
    spmd_ok(good, "%d random puts and gets agree with a plain array", STEPS);
    mine[0] ^= 1;
    int peer = 0;
    world_get(0, peer, (size_t)world.rank * PART, buffer, PART);
    spmd_ok(memcmp(buffer, mine, PART) != 0, "the comparison can fail");
    free(mine);
    free(buffer);
    world_barrier();
}

/* Many operations in the air at once, without completion of their own. */
static void flush_tells(void)
{
    enum { N = 3000 };
    static uint64_t values[N];
    memset(world.heap, 0, N * 8 * (size_t)world.size);
    world_barrier();
    bool good = true;
    for (size_t i = 0; i < N; i++) {
        values[i] = i * 1000 + (uint64_t)world.rank;
        for (int peer = 0; peer < world.size; peer++) {
            pgas_status_t status;
            pgasi_tp_ctx_t *ctx = world.ctxs[1];
            while ((status = ctx->ops->put(ctx, peer, world.keys[1][peer],
                                           world.bases[peer] + (i + (size_t)world.rank * N) * 8,
                                           &values[i], 8, NULL)) == PGAS_ERR_AGAIN)
                world_progress();
            good = good && status >= 0;
        }
    }
    good = world_flush(1, PGASI_TP_ALL_PEERS) == PGAS_OK && good;
    int all_flushed = 0;
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, &all_flushed, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    for (int done = 0; !done;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        world_progress();
    }
    world_barrier();
    const uint64_t *heap = (const uint64_t *)(const void *)world.heap;
    for (size_t i = 0; i < N; i++)
        for (int peer = 0; peer < world.size; peer++)
            good = good && heap[i + (size_t)peer * N] == i * 1000 + (uint64_t)peer;
    spmd_ok(good, "%d puts to each rank without completion are there after one flush", N);
    good =
        world_flush(1, PGASI_TP_ALL_PEERS) == PGAS_OK && world_flush(0, world_right()) == PGAS_OK;
    spmd_ok(good, "a flush after nothing is done at once");
    world_barrier();
}

/* A large put, a fence, a flag: a rank that sees the flag sees the data. */
static void fence_orders(void)
{
    enum { ROUNDS = 40 };
    const size_t flag_at = 4 << 20, bytes = 300000;
    unsigned char *src = malloc(bytes);
    volatile uint64_t *flag = (volatile uint64_t *)(void *)(world.heap + flag_at);
    bool good = true;
    *flag = 0;
    world_barrier();
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        memset(src, (int)round, bytes);
        pgasi_tp_ctx_t *ctx = world.ctxs[0];
        pending_t data, mark;
        pgas_status_t a, b;
        do {
            a = ctx->ops->put(ctx, world_right(), world.keys[0][world_right()],
                              world.bases[world_right()], src, bytes, world_pending(&data));
            world_progress();
        } while (a == PGAS_ERR_AGAIN);
        good = world_fence(0) == PGAS_OK && good;
        do {
            b = ctx->ops->put(ctx, world_right(), world.keys[0][world_right()],
                              world.bases[world_right()] + flag_at, &round, 8,
                              world_pending(&mark));
            world_progress();
        } while (b == PGAS_ERR_AGAIN);
        while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) < round)
            world_progress();
        good = good && world.heap[0] == (char)round && world.heap[bytes / 2] == (char)round &&
               world.heap[bytes - 1] == (char)round;
        good = world_wait(a, &data) == PGAS_OK && world_wait(b, &mark) == PGAS_OK && good;
        world_barrier();
    }
    spmd_ok(good, "a put after a fence is not seen before one before it");
    free(src);
    world_barrier();
}

/* The final status of an 8-byte-aligned put or get as given, wrong as it may be. */
static pgas_status_t attempt(bool is_put, int peer, uint64_t addr, size_t bytes)
{
    static uint64_t word;
    pgasi_tp_ctx_t *ctx = world.ctxs[0];
    pgasi_tp_key_t *key = world.keys[0][world_right()];
    pending_t pending;
    pgas_status_t status;
    do {
        pgasi_tp_comp_t *comp = world_pending(&pending);
        status = is_put ? ctx->ops->put(ctx, peer, key, addr, &word, bytes, comp)
                        : ctx->ops->get(ctx, peer, key, addr, &word, bytes, comp);
        world_progress();
    } while (status == PGAS_ERR_AGAIN);
    return world_wait(status, &pending);
}

static void refusals(void)
{
    pgasi_tp_ctx_t *ctx = world.ctxs[0];
    uint64_t base = world.bases[world_right()];
    bool good = attempt(true, world_right(), base + HEAP - 4, 8) == PGAS_ERR_RANGE &&
                attempt(true, world_right(), base - 1, 8) == PGAS_ERR_RANGE &&
                attempt(false, world_right(), base, HEAP + 1) == PGAS_ERR_RANGE &&
                attempt(false, world_right(), 0, 8) == PGAS_ERR_RANGE &&
                attempt(false, world_right(), UINT64_MAX, SIZE_MAX) == PGAS_ERR_RANGE;
    spmd_ok(good, "access outside of the key's memory is refused");
    spmd_ok(attempt(true, world.size, base, 8) < 0 && attempt(true, -1, base, 8) < 0 &&
                world_flush(0, world.size) == PGAS_ERR_RANGE &&
                world_flush(0, -2) == PGAS_ERR_RANGE,
            "a rank that does not exist is refused");
    char bad[PGASI_TP_KEY_MAX];
    pgasi_tp_key_t *bad_key = NULL;
    bool all = true;
    for (size_t i = 0; i < world.key_bytes[0]; i++) {
        memcpy(bad, world.packed_keys, sizeof bad);
        bad[i] = (char)(bad[i] ^ 0x10);
        all = ctx->ops->key_unpack(ctx, 0, bad, world.key_bytes[0], &bad_key) == PGAS_ERR_FORMAT &&
              all;
    }
    all = ctx->ops->key_unpack(ctx, 0, world.packed_keys, 7, &bad_key) == PGAS_ERR_FORMAT && all;
    all = ctx->ops->key_unpack(ctx, 0, world.packed_keys, world.key_bytes[0] - 1, &bad_key) ==
              PGAS_ERR_FORMAT &&
          all;
    spmd_ok(all && !bad_key, "a key with any byte changed, or cut short, is refused");
    size_t small = 16;
    char buffer[16];
    pgasi_tp_mem_t *mem;
    static char memory[4096];
    all = world.ops->mem_register(world.tp, memory, sizeof memory, &mem) == PGAS_OK;
    all =
        all && world.ops->key_pack(world.tp, mem, buffer, &small) == PGAS_ERR_LIMIT && small == 16;
    world.ops->mem_release(world.tp, mem);
    all = all && world.ops->mem_register(world.tp, NULL, 8, &mem) == PGAS_ERR_INVALID;
    spmd_ok(all, "so are a buffer too small for a key and no memory at all");
}

static void mapping(void)
{
    void *addr = NULL;
    pgas_status_t status =
        world.ops->key_map(world.keys[0][world_right()], world.bases[world_right()] + 64, &addr);
    if ((world.attr.caps & PGASI_TP_MEM_ALLOC) == 0) {
        spmd_ok(status == PGAS_ERR_UNSUPPORTED || world_right() == world.rank,
                "nothing can be mapped here, and it says so");
        spmd_skip(1, "no shared memory");
        return;
    }
    spmd_ok(status == PGAS_OK && addr != NULL, "a peer's heap can be mapped");
    uint64_t word = 77000 + (uint64_t)world.rank;
    memcpy(addr, &word, 8);
    world_barrier();
    memcpy(&word, world.heap + 64, 8);
    spmd_ok(word == 77000 + (uint64_t)((world.rank + world.size - 1) % world.size) &&
                world.ops->key_map(world.keys[0][world_right()], world.bases[world_right()] + HEAP,
                                   &addr) == PGAS_ERR_RANGE,
            "and stored to; its end is its end");
    world_barrier();
}

/* More gets than a context takes, all asked for before anything is connected: those that were taken
 * end all the same. */
static void many_gets(void)
{
    enum { N = 6000 };
    static pending_t pending[N];
    static uint64_t values[N];
    pgasi_tp_ctx_t *ctx = world.ctxs[1];
    size_t n = 0;
    bool good = true;
    for (size_t i = 0; i < N; i++)
        memcpy(world.heap + i * 8, &(uint64_t){ i * 7 }, 8);
    world_barrier();
    for (size_t i = 0; i < N; i++) {
        pgas_status_t status = ctx->ops->get(ctx, world_right(), world.keys[1][world_right()],
                                             world.bases[world_right()] + n * 8, &values[n], 8,
                                             world_pending(&pending[n]));
        pending[n].done |= status != PGAS_INPROGRESS;
        good = good && (status >= 0 || status == PGAS_ERR_AGAIN);
        n += status != PGAS_ERR_AGAIN;
    }
    for (size_t i = 0; i < n; i++) {
        while (!pending[i].done)
            world_progress();
        good = good && values[i] == i * 7;
    }
    world_barrier();
    spmd_ok(good && n > 0,
            "as many gets as a context takes at once, before it is connected, all end");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    spmd_plan(16);
    world_open(&(world_opts_t){ .heap_bytes = HEAP });
    spmd_diag("%s", world.attr.detail);
    many_gets();
    sizes();
    big();
    model();
    flush_tells();
    fence_orders();
    refusals();
    mapping();
    world_close();
    return spmd_end();
}
