/* The job as this rank knows it, and which of its ranks have died. */
#include "boot/internal.h"

#include <stdlib.h>

#include "base/bitmap.h"

pgasi_boot_t pgasi_boot = { .rank = -1 };

static struct {
    uint64_t *ranks; /* bitmap */
    int n;
} dead;

pgas_status_t pgasi_job_start(void)
{
    dead.ranks = calloc(pgasi_bitmap_words((size_t)pgasi_boot.n_ranks), sizeof *dead.ranks);
    return dead.ranks ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_job_stop(void)
{
    free(dead.ranks);
    dead.ranks = NULL;
    dead.n = 0;
}

int pgasi_job_n_dead(void)
{
    return __atomic_load_n(&dead.n, __ATOMIC_ACQUIRE);
}

bool pgasi_boot_peer_died(int rank)
{
    if (!dead.ranks || rank < 0 || rank >= pgasi_boot.n_ranks)
        return false;
    uint64_t bit = UINT64_C(1) << (rank % 64);
    if (__atomic_fetch_or(&dead.ranks[rank / 64], bit, __ATOMIC_RELAXED) & bit)
        return false;
    __atomic_fetch_add(&dead.n, 1, __ATOMIC_SEQ_CST);
    return true;
}

bool pgasi_boot_some_dead(void)
{
    return __atomic_load_n(&dead.n, __ATOMIC_ACQUIRE) > 0;
}

bool pgasi_boot_is_dead(int rank)
{
    return PGAS_UNLIKELY(__atomic_load_n(&dead.n, __ATOMIC_ACQUIRE) > 0) && dead.ranks &&
           pgasi_bitmap_test(dead.ranks, (size_t)rank);
}
