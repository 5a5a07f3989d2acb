/* Atomics over the ops table.
 *   what:   Every operation in both sizes changes the word as plain C would. Results and words are
 *           atomic with the owner's own atomic instructions.
 *   np:     2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_TEST_FAULT= | PGAS_TEST_FAULT=delay=5,reorder=7,again=3 |
 *   env:    PGAS_TEST_TRANSPORT=verbs |
 *   env:    PGAS_TEST_TRANSPORT=verbs PGAS_TEST_FAULT=delay=5,reorder=7,again=3
 *   source: transport.h
 */
#include <string.h>
#include "base/rng.h"
#include "t/amo_model.h"
#include "t/backend/world.h"

/* One word of the right neighbour, alone; its other half and its neighbours must not change. */
static void model(size_t bytes)
{
    enum { STEPS = 600 };
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, spmd_seed(5) + (uint64_t)world.rank);
    const size_t at = 64 + bytes;
    uint64_t word = 0, guard = UINT64_C(0x1122334455667788), result;
    bool results = true;
    memset(world.heap, 0, 256);
    memcpy(world.heap + at + bytes, &guard, 8);
    memcpy(world.heap + at - 8, &guard, 8);
    memset(world.heap + at, 0, bytes);
    world_barrier();
    for (int step = 0; step < STEPS; step++) {
        pgasi_amo_t op = (pgasi_amo_t)pgasi_rng_below(&rng, 6);
        uint64_t operand = pgasi_rng_u64(&rng),
                 compare = step % 2 == 0 ? word : pgasi_rng_u64(&rng);
        bool fetching = op >= PGASI_AMO_SWAP || step % 3 != 0;
        result = 0;
        pgas_status_t status = world_amo(step % 2, world_right(), at, op, bytes, operand, compare,
                                         fetching ? &result : NULL);
        results = results && status == PGAS_OK && (!fetching || result == word);
        word = amo_result(op, bytes, word, operand, compare);
        if (!fetching || step % 2 != 0) /* the next one comes from another context */
            results = world_flush(step % 2, world_right()) == PGAS_OK && results;
    }
    result = 0;
    results = world_get(0, world_right(), at, &result, bytes) == PGAS_OK && results;
    spmd_ok(results && result == word,
            "%zu bytes: %d random operations give the results of a plain word", bytes, STEPS);
    world_barrier();
    spmd_ok(memcmp(world.heap + at + bytes, &guard, 8) == 0 &&
                memcmp(world.heap + at - bytes, (char *)&guard + 8 - bytes, bytes) == 0,
            "%zu bytes: neighbours did not change", bytes);
    spmd_ok(amo_result(PGASI_AMO_CSWAP, bytes, 1, 2, 3) == 1 &&
                amo_result(PGASI_AMO_ADD, bytes, 1, 2, 0) != word,
            "the comparison can fail");
    world_barrier();
}

/* All ranks and the owner's own instructions add to, and flip, the same words of rank 0. */
static void concurrent(size_t bytes)
{
    enum { N = 4000 };
    const size_t sum_at = 512, flip_at = 520;
    uint64_t flips = 0;
    bool good = true;
    memset(world.heap + 512, 0, 64);
    world_barrier();
    for (int i = 0; i < N; i++) {
        uint64_t result;
        pgas_status_t status;
        if (world.rank != 0) {
            status =
                world_amo(i % 2, 0, sum_at, PGASI_AMO_ADD, bytes, 1, 0, i % 4 < 2 ? &result : NULL);
            good = status == PGAS_OK && good;
            good =
                world_amo(0, 0, flip_at, PGASI_AMO_XOR, bytes, (uint64_t)i, 0, NULL) == PGAS_OK &&
                good;
        } else {
            /* instructions, in the middle of the others' operations */
            for (int j = 0; j < 50; j++) {
                if (bytes == 4) {
                    __atomic_fetch_add((uint32_t *)(void *)(world.heap + sum_at), 1,
                                       __ATOMIC_RELAXED);
                    __atomic_fetch_xor((uint32_t *)(void *)(world.heap + flip_at), (uint32_t)i,
                                       __ATOMIC_RELAXED);
                } else {
                    __atomic_fetch_add((uint64_t *)(void *)(world.heap + sum_at), 1,
                                       __ATOMIC_RELAXED);
                    __atomic_fetch_xor((uint64_t *)(void *)(world.heap + flip_at), (uint64_t)i,
                                       __ATOMIC_RELAXED);
                }
            }
            world_progress();
        }
        flips ^= (uint64_t)i;
    }
    good = world_flush(0, PGASI_TP_ALL_PEERS) == PGAS_OK &&
           world_flush(1, PGASI_TP_ALL_PEERS) == PGAS_OK && good;
    world_barrier();
    uint64_t total = 0, flipped = 0, expected = (uint64_t)N * (50 + (uint64_t)world.size - 1);
    memcpy(&total, world.heap + sum_at, bytes);
    memcpy(&flipped, world.heap + flip_at, bytes);
    flips = (world.size - 1) % 2 == 1 ? flips : 0;
    spmd_ok(good && (world.rank != 0 || (total == expected && flipped == flips)),
            "%zu bytes: nothing is lost among %d ranks and the owner's own instructions", bytes,
            world.size);
    world_barrier();
}

/* A lock-free counter by compare-and-swap from everywhere, the owner included. */
static void contended_cswap(void)
{
    enum { N = 500 };
    const size_t at = 1024;
    memset(world.heap + at, 0, 8);
    world_barrier();
    uint64_t seen = 0, result;
    bool good = true;
    for (int done = 0; done < N;) {
        if (world.rank == 0) {
            uint64_t *word = (uint64_t *)(void *)(world.heap + at);
            seen = __atomic_load_n(word, __ATOMIC_RELAXED);
            done += __atomic_compare_exchange_n(word, &seen, seen + 1, false, __ATOMIC_ACQ_REL,
                                                __ATOMIC_RELAXED);
            world_progress();
        } else {
            good =
                world_amo(0, 0, at, PGASI_AMO_CSWAP, 8, seen + 1, seen, &result) == PGAS_OK && good;
            done += result == seen;
            seen = result == seen ? seen + 1 : result;
        }
    }
    world_barrier();
    memcpy(&result, world.heap + at, 8);
    spmd_ok(good && (world.rank != 0 || result == (uint64_t)N * (uint64_t)world.size),
            "compare-and-swap from all ranks at once loses no turn");
    world_barrier();
}

/* More non-fetching atomics than may be unacknowledged in the backend. */
static void flood(void)
{
    enum { N = 30000 };
    const size_t at = 2048;
    memset(world.heap + at, 0, 8);
    world_barrier();
    bool good = true;
    pgasi_tp_ctx_t *ctx = world.ctxs[1];
    for (int i = 0; i < N; i++) {
        pgas_status_t status;
        while ((status = ctx->ops->amo(ctx, world_right(), world.keys[1][world_right()],
                                       world.bases[world_right()] + at, PGASI_AMO_ADD, 8, 3, 0,
                                       NULL, NULL)) == PGAS_ERR_AGAIN)
            world_progress();
        good = status >= 0 && good;
    }
    good = world_flush(1, world_right()) == PGAS_OK && good;
    world_barrier();
    uint64_t total;
    memcpy(&total, world.heap + at, 8);
    spmd_ok(good && total == 3 * (uint64_t)N, "%d unanswered additions in a row all arrive", N);
    world_barrier();
}

static void refusals(void)
{
    uint64_t result = 9;
    spmd_ok(world_amo(0, world_right(), 4, PGASI_AMO_ADD, 8, 1, 0, &result) == PGAS_ERR_INVALID &&
                world_amo(0, world_right(), 8, PGASI_AMO_ADD, 2, 1, 0, &result) ==
                    PGAS_ERR_INVALID &&
                world_amo(0, world_right(), 8, PGASI_AMO_SWAP, 8, 1, 0, NULL) == PGAS_ERR_INVALID &&
                world_amo(0, world_right(), 8, (pgasi_amo_t)77, 8, 1, 0, &result) ==
                    PGAS_ERR_INVALID &&
                world_amo(0, world_right(), world.heap_bytes, PGASI_AMO_ADD, 8, 1, 0, &result) ==
                    PGAS_ERR_RANGE &&
                result == 9,
            "misaligned words, odd sizes, unknown operations and far addresses are refused");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    spmd_plan(6 + 2 + 1 + 1 + 1 + 2);
    for (int registered = 0; registered < 2; registered++) {
        world_open(&(world_opts_t){ .heap_bytes = 1 << 16, .registered = registered });
        if (registered) {
            spmd_diag("memory of ours, registered");
            concurrent(8);
            contended_cswap();
        } else {
            spmd_diag("%s", world.attr.detail);
            model(8);
            model(4);
            concurrent(8);
            concurrent(4);
            contended_cswap();
            flood();
            refusals();
        }
        world_close();
    }
    return spmd_end();
}
