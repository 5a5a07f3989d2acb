/** The newest version of each key in the files of a durable store, known only during recovery.
 *
 *  Recovery reads all files twice. The first pass notes the versions of all records, of deletions
 *  too. Then the ranks of a node tell each other what they noted. The second pass takes the one
 *  record of each key that has the newest version. So the order of the records does not matter, and
 *  a part never has a key that the store does not have in the end. One pass would not do: the log
 *  of one rank may have a put of every key, and the log of another rank their deletions.
 *
 *  Each rank reads its share of the files only, because most of the time of a recovery goes into
 *  reading. That is why ranks must compare what they noted. Tables are ordinary memory of up to 64
 *  bytes for each key in the files that the rank reads, and the comparison needs about 112 more.
 *
 *  A key is known by a hash of 128 bits. If two keys had the same hash, the one with the lower
 *  version would be lost. For 10^12 keys the probability is about 10^-15. The hash has a random
 *  seed, so nobody can choose such keys. */
#ifndef PGASI_KVS_NEWEST_H
#define PGASI_KVS_NEWEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"
#include "pgas/team.h"

typedef struct {
    uint64_t hash[2];
    uint64_t version; /* 0: the slot is empty */
} pgasi_newest_key_t;

/** A hash table with open addressing. */
typedef struct {
    pgasi_newest_key_t *slots;
    uint64_t n, n_slots; /* n_slots: 0, or a power of two */
    uint64_t seed;
} pgasi_newest_t;

/** Notes that the key has a record of this version, which is above 0.
 *  @return false: no memory */
bool pgasi_newest_note(pgasi_newest_t *newest, const void *key, size_t bytes, uint64_t version);

/** Takes the record of this version, which was noted. true, and only once: it is the newest record
 *  of its key. */
bool pgasi_newest_take(pgasi_newest_t *newest, const void *key, size_t bytes, uint64_t version);

/** Compares the versions with those that other ranks have noted: of each key, one rank can take the
 *  record. Collective over the team; seeds are equal.
 *  @param ranks  those of the team whose versions are compared with this rank's, n_ranks of them;
 *                each of them gives the same list
 *  @return PGAS_ERR_NO_MEMORY, on all ranks */
pgas_status_t pgasi_newest_share(pgasi_newest_t *newest, pgas_team_t *team, const int *ranks,
                                 int n_ranks);

/** Frees the table. */
void pgasi_newest_fini(pgasi_newest_t *newest);

#endif
