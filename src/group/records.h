/** Records that a replica keeps of its clients across chains: the number of pieces that it has
 *  executed for each one, and the last old words. So a client that forms a new chain learns which
 *  pieces the replica skips. Pure: no I/O. */
#ifndef PGASI_GROUP_RECORDS_H
#define PGASI_GROUP_RECORDS_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/status.h"

typedef struct {
    uint64_t client;   /* its random number; 0: the record is free */
    uint64_t executed; /* pieces since the start of the client */
    uint64_t used;     /* the higher, the later it was used */
    uint64_t *old;     /* a ring: the word of piece k is at k & mask */
    uint32_t mask;
    uint32_t n_old; /* words: of the pieces executed - n_old .. executed - 1 */
} pgasi_record_t;

typedef struct {
    pgasi_record_t *records;
    uint32_t room;
    uint64_t n_uses;
} pgasi_records_t;

/** @return PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_records_init(pgasi_records_t *r, uint32_t room);
void pgasi_records_fini(pgasi_records_t *r);

/** The record of a client. @return NULL: there is none */
pgasi_record_t *pgasi_records_find(const pgasi_records_t *r, uint64_t client);

/** The record of a client, with room for `slots` old words, a power of two. A new record takes the
 *  place of the one that was used longest ago, if there is no room. Pointers to records stay valid,
 *  but the client in them may change.
 *  @return NULL: no memory */
pgasi_record_t *pgasi_records_use(pgasi_records_t *r, uint64_t client, uint32_t slots);

/** Forgets a client, or all of them. */
void pgasi_records_drop(pgasi_records_t *r, uint64_t client);
void pgasi_records_clear(pgasi_records_t *r);

/** The next piece has been executed. */
static inline void pgasi_record_add(pgasi_record_t *record, uint64_t word)
{
    record->old[record->executed++ & record->mask] = word;
    record->n_old += record->n_old <= record->mask;
}

/** The pieces below `executed` have been executed; their words are not known. */
static inline void pgasi_record_skip(pgasi_record_t *record, uint64_t executed)
{
    if (executed <= record->executed)
        return;
    record->executed = executed;
    record->n_old = 0;
}

/** Old words of the pieces from `first` on, as far as they are known; at most the last `room` ones.
 *  @return their number */
uint32_t pgasi_record_words(const pgasi_record_t *record, uint64_t first, uint64_t *words,
                            uint32_t room);

/** Record number i of those that are in use. @return NULL: there are not so many */
const pgasi_record_t *pgasi_records_at(const pgasi_records_t *r, uint64_t i);

#endif
