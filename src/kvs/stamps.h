/** Stamps: words in a coherent array, one for each bucket of a store whose team has several nodes.
 *
 *  A writer changes the stamp of its bucket before it changes the bucket. A reader on another node
 *  keeps a value together with the stamp that the bucket had when the value was read there. The
 *  value is the key's value now if the reader's node has the stamp in its cache of the array, and
 *  the stamp is the same. The reason: before a stamp changes, the home withdraws its chunk, and
 *  waits until no node has it. */
#ifndef PGASI_KVS_STAMPS_H
#define PGASI_KVS_STAMPS_H

#include "pgas/array.h"
#include "pgas/team.h"

#define PGASI_STAMPS_CHUNK 64 /* stamps that are withdrawn together: 512 bytes */

typedef struct pgasi_stamps pgasi_stamps_t;

/** Creates the stamps of n_buckets buckets, a multiple of PGASI_STAMPS_CHUNK, of each rank.
 *  Collective. */
pgas_status_t pgasi_stamps_create(pgas_team_t *team, uint64_t n_buckets, pgasi_stamps_t **stamps_p);
pgas_status_t pgasi_stamps_destroy(pgasi_stamps_t *stamps);

/** At another node: gives the stamp of a bucket if this node has it. A chunk that the caller misses
 *  often is requested.
 *  @return whether the caller may compare the stamp */
bool pgasi_stamps_look(pgasi_stamps_t *stamps, int home, uint32_t bucket, uint64_t *stamp_p);

/** At the home's node: gives the stamp of a bucket; false: not now. It never waits. */
bool pgasi_stamps_read(pgasi_stamps_t *stamps, int home, uint32_t bucket, uint64_t *stamp_p);

/** At the home's node: withdraws the stamp from other nodes, and keeps it until unpin. A thread
 *  that may not wait pins nothing: *pin_p then has no data. */
void pgasi_stamps_pin(pgasi_stamps_t *stamps, int home, uint32_t bucket, pgas_array_pin_t *pin_p);
void pgasi_stamps_unpin(pgas_array_pin_t *pin);
/** Changes a stamp, under the lock of the bucket.
 *  @return PGAS_ERR_AGAIN: other nodes have it, and the thread has not pinned it */
pgas_status_t pgasi_stamps_change(pgasi_stamps_t *stamps, int home, uint32_t bucket);

#endif
