/** Sends items to ranks in rounds. A rank puts items into buckets, one for each rank. When one of
 *  its buckets is full it begins a round, in which all ranks exchange their buckets. A rank that
 *  has no more items takes part until all have ended. So the memory of a shuffle is bounded.
 *
 *  All functions but pgasi_shuffle_fini are collective: between init and end a rank calls no other
 *  collective function. */
#ifndef PGASI_GRAPH_SHUFFLE_H
#define PGASI_GRAPH_SHUFFLE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/status.h"

/** Takes n items that have arrived from one rank. */
typedef void (*pgasi_shuffle_take_fn_t)(void *arg, int source, const void *items, uint64_t n);

typedef struct {
    size_t item_bytes;
    uint32_t room; /* items of a bucket */
    int n_ranks;
    char *out, *in;
    uint64_t *n_out;              /* [n_ranks] items in each bucket */
    uint64_t *counts;             /* [2 * n_ranks] exchanged by the ranks in a round */
    size_t *out_bytes, *in_bytes; /* [n_ranks] */
    pgasi_shuffle_take_fn_t take;
    void *arg;
    pgas_status_t status;
} pgasi_shuffle_t;

/** @return the same status on all ranks. */
pgas_status_t pgasi_shuffle_init(pgasi_shuffle_t *shuffle, size_t item_bytes,
                                 pgasi_shuffle_take_fn_t take, void *arg);

/** Exchanges the buckets. */
void pgasi_shuffle_round(pgasi_shuffle_t *shuffle);

/** Puts an item into the bucket of a rank. After an error, which end returns, items are lost. */
static inline void pgasi_shuffle_put(pgasi_shuffle_t *shuffle, int rank, const void *item)
{
    uint64_t n = shuffle->n_out[rank]++;
    memcpy(shuffle->out + ((uint64_t)rank * shuffle->room + n) * shuffle->item_bytes, item,
           shuffle->item_bytes);
    if (__builtin_expect(n + 1 == shuffle->room, 0))
        pgasi_shuffle_round(shuffle);
}

/** Ends the shuffle: all items of all ranks have been taken. Frees its memory.
 *  @param mine an error of this rank
 *  @return the status of the lowest rank that has an error, the same on all ranks */
pgas_status_t pgasi_shuffle_end(pgasi_shuffle_t *shuffle, pgas_status_t mine);

#endif
