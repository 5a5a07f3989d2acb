/* Changed ranges of a region, for replicas that copy it: a bit for each granule. A region of 1 TiB
 * has granules of 1 MiB, so a record never has more than 128 KiB. */
#include "group/replica.h"

#include <stdlib.h>
#include "base/checks.h"

#define LOG_PAGE  12u
#define BITS_MAX  (UINT64_C(1) << 20)
#define WORD_BITS 64u

pgas_status_t pgasi_changes_begin(pgasi_group_changes_t *changes, uint64_t region_bytes)
{
    pgasi_group_changes_t fresh = { .log_granule = LOG_PAGE };
    while (PGASI_DIV_UP(region_bytes, UINT64_C(1) << fresh.log_granule) > BITS_MAX)
        fresh.log_granule++;
    fresh.n_bits = PGASI_DIV_UP(region_bytes, UINT64_C(1) << fresh.log_granule);
    fresh.bits = calloc(PGASI_DIV_UP(fresh.n_bits, WORD_BITS), sizeof fresh.bits[0]);
    if (!fresh.bits)
        return PGAS_ERR_NO_MEMORY;
    free(changes->bits);
    *changes = fresh;
    return PGAS_OK;
}

void pgasi_changes_end(pgasi_group_changes_t *changes)
{
    free(changes->bits);
    *changes = (pgasi_group_changes_t){ .bits = NULL };
}

void pgasi_changes_note(pgasi_group_changes_t *changes, uint64_t offset, uint64_t bytes)
{
    if (bytes == 0)
        return;
    uint64_t last = (offset + bytes - 1) >> changes->log_granule;
    for (uint64_t i = offset >> changes->log_granule; i <= last && i < changes->n_bits; i++)
        changes->bits[i / WORD_BITS] |= UINT64_C(1) << i % WORD_BITS;
}

static bool take_bit(pgasi_group_changes_t *changes, uint64_t i)
{
    uint64_t *word = &changes->bits[i / WORD_BITS], bit = UINT64_C(1) << i % WORD_BITS;
    bool was_set = i < changes->n_bits && (*word & bit) != 0;
    if (was_set)
        *word &= ~bit;
    return was_set;
}

uint32_t pgasi_changes_take(pgasi_group_changes_t *changes, uint64_t region_bytes,
                            pgasi_group_range_t *ranges, uint32_t n_max)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < changes->n_bits && n < n_max;) {
        if (changes->bits[i / WORD_BITS] == 0) {
            i = PGASI_ALIGN_DOWN(i, (uint64_t)WORD_BITS) + WORD_BITS;
            continue;
        }
        uint64_t first = i;
        while (i < changes->n_bits && take_bit(changes, i))
            i++;
        uint64_t begin = first << changes->log_granule, end = i << changes->log_granule;
        if (i > first)
            ranges[n++] = (pgasi_group_range_t){ begin, PGASI_MIN(end, region_bytes) - begin };
        else
            i++;
    }
    return n;
}
