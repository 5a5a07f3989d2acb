/* Blocks above 1 GiB between ranks; only some pages of them are touched.
 *   what:   Peers reach every part of a block of more than 1 GiB, across the 1 GiB boundaries by
 *           which pointers are mapped.
 *   np:     1 2 3
 *   nodes:  0
 *   env:    PGAS_HEAP_SIZE=6G PGAS_POOL_MAX=5G PGAS_POOL_UNIT=2M
 *   source: pgas/mem.h
 */
#include "t/spmd/job.h"

#define GIB   (UINT64_C(1) << 30)
#define PIECE ((size_t)1 << 20)

/* A piece around each place, with its number. */
static const uint64_t places[] = { 0, GIB - PIECE / 2, 2 * GIB - PIECE / 3 / 8 * 8,
                                   3 * GIB + GIB / 2 };
#define N_PLACES (sizeof places / sizeof places[0])

static void fill(uint64_t *piece, uint64_t first)
{
    for (size_t i = 0; i < PIECE / 8; i++)
        piece[i] = first + i;
}

static bool holds(const uint64_t *piece, uint64_t first)
{
    for (size_t i = 0; i < PIECE / 8; i++)
        if (piece[i] != first + i)
            return false;
    return true;
}

static int to_and_fro(const pgas_block_t *b)
{
    int right = job_right(), left = (me + n_ranks - 1) % n_ranks, n_bad = 0;
    pgas_gptr_t all[JOB_RANKS_MAX];
    uint64_t *piece = job_alloc(PIECE);
    job_gather(b->ptr, all);
    for (size_t i = 0; i < N_PLACES; i++) {
        fill(piece, (uint64_t)(me + 1) << 32 | i << 24);
        n_bad += pgas_put(all[right] + places[i], piece, PIECE) != PGAS_OK;
    }
    n_bad += pgas_flush(right) != PGAS_OK;
    pgas_barrier(NULL);
    for (size_t i = 0; i < N_PLACES; i++) {
        n_bad += !holds((const uint64_t *)(const void *)((char *)b->address + places[i]),
                        (uint64_t)(left + 1) << 32 | i << 24);
        n_bad += pgas_get(piece, all[right] + places[i], PIECE) != PGAS_OK ||
                 !holds(piece, (uint64_t)(me + 1) << 32 | i << 24);
        n_bad += holds(piece, (uint64_t)(me + 1) << 32 | (i + 1) << 24);
    }
    pgas_barrier(NULL);
    free(piece);
    return n_bad;
}

static pgas_status_t pool_of(pgas_pool_policy_t policy, pgas_pool_t **pool_p)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.policy = policy;
    return pgas_pool_create(&opts, pool_p);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 2);
    pgas_pool_t *pool = NULL;
    pgas_block_t b;
    int n_bad = pool_of(PGAS_POOL_GENERAL, &pool) != PGAS_OK;
    n_bad += pgas_pool_acquire(pool, 3 * GIB + GIB / 2 + PIECE, -1, &b) != PGAS_OK;
    spmd_ok(n_bad == 0 && to_and_fro(&b) == 0,
            "peers write and read a block of 3.5 GiB of a general pool");
    pgas_pool_destroy(pool);
    n_bad = pool_of(PGAS_POOL_CIRCULAR, &pool) != PGAS_OK ||
            pgas_pool_acquire(pool, 3 * GIB + GIB / 2 + PIECE, -1, &b) != PGAS_OK;
    spmd_ok(n_bad == 0 && to_and_fro(&b) == 0 && pgas_pool_release(pool, &b) == PGAS_OK &&
                pgas_pool_destroy(pool) == PGAS_OK,
            "and of a circular pool");
    return job_end();
}
