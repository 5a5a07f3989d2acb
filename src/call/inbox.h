/** The receiving side of a node: one ring per (sending rank, lane), in memory of the receiver that its node maps.
 *
 *  A ring carries records (record.h). A record has arrived when its header bears the mark of the lap: the sender writes
 *  the arguments, sees to it that the word behind the record does not bear it, then stores the header (release). Positions
 *  are 64-bit and never wrap; the low bits are the place. The receiver tells how far it is in a word of its own line, now and then. */
#ifndef PGASI_INBOX_H
#define PGASI_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/param.h"
#include "pgas/status.h"

/** How large the inbox of each of n_ranks ranks of a node is. Pure.
 *  @return PGAS_OK; PGAS_ERR_LIMIT if that is more than PGAS_RING_MEMORY, or too many channels; *size_p is what would be
 *          needed at least. */
typedef struct {
    size_t n_channels;
    uint64_t ring_bytes; /* of one ring, a power of two */
    uint64_t bytes;      /* of all that is mapped */
} pgasi_inbox_size_t;
pgas_status_t pgasi_inbox_size(const pgasi_params_t *p, size_t n_ranks, pgasi_inbox_size_t *size_p);

/** Maps the rings of the node. Collective over the node. */
pgas_status_t pgasi_inboxes_start(void);
void pgasi_inboxes_stop(void);

extern uint64_t pgasi_ring_bytes; /* of one ring, a power of two */

/** The sender's ends of its ring at a rank of the node; makes the ring known there. */
void pgasi_inbox_open(int node_rank, int lane, char **ring_p, const uint64_t **consumed_p);

/** The rank's inbox lock: who holds it runs handlers and uses lane 0. */
void pgasi_inbox_lock(void);
bool pgasi_inbox_try_lock(void);
void pgasi_inbox_unlock(void);

/** Something has arrived in a ring (a look without the lock). */
bool pgasi_inbox_pending(void);
/** Runs what has arrived, a bounded share of it; lock held. Returns the number of calls. */
uint64_t pgasi_inbox_drain(void);

/** Bytes consumed from all rings, for quiescence. */
uint64_t pgasi_inbox_consumed(void);
uint64_t pgasi_inbox_n_calls(void);

#endif
