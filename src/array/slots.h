/** Threads of this node that use arrays. */
#ifndef PGASI_ARRAY_SLOTS_H
#define PGASI_ARRAY_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/status.h"

/** Makes the slots of this rank, once a job; where they are, and where those of another rank of the
 *  node are. */
pgas_status_t pgasi_array_slots_start(void);
void *pgasi_array_slots_own(void);
void pgasi_array_slots_learn(int node_rank, void *slots);

/** Makes the calling thread known, so that it may use entries; whether it is. */
void pgasi_array_thread_start(void);
bool pgasi_array_thread_known(void);

/** Who the calling thread is in holds: node rank * 4096 + slot + 1; 0: nobody. */
uint32_t pgasi_array_self(void);
/** Only one thread of this rank uses arrays. */
bool pgasi_array_is_sole(void);
/** Only this thread does, among those of the rank, or (at_home) of the node. Behind a fence. */
bool pgasi_array_is_alone(bool at_home);
/** After a barrier: every thread of the rank, or (at_home) of the node, has been outside of
 *  accesses since then. */
bool pgasi_array_all_left(bool at_home);

/** Ranks of the node that die inside never leave, and never unlock. */
bool pgasi_array_has_died(int node_rank);
/** In the n-th round of waiting for a thread that is inside, or has a lock: it may be of such a
 *  rank, which without service threads nobody else would notice. */
void pgasi_array_let_others_run(uint32_t n);

#endif
