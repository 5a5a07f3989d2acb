/** Threads of this node that use arrays, and whether they are inside an access. */
#ifndef PGASI_ARRAY_SLOTS_H
#define PGASI_ARRAY_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/status.h"

/** Makes the slots of this rank, once a job; their address; records the address of another
 *  rank's slots. */
pgas_status_t pgasi_array_slots_start(void);
void *pgasi_array_slots_own(void);
void pgasi_array_slots_learn(int node_rank, void *slots);

/** Makes the calling thread known, so that it may use mapping entries; whether it is known. */
void pgasi_array_thread_start(void);
bool pgasi_array_thread_known(void);

/** The calling thread as grants name it: node rank * 4096 + slot + 1; 0: not known. */
uint32_t pgasi_array_self(void);
/** Whether only one thread of this rank uses arrays. */
bool pgasi_array_is_sole(void);
/** Whether this thread is the only one that uses arrays, in its rank or (at_home) on its node.
 *  Begins with a fence. */
bool pgasi_array_is_alone(bool at_home);
/** After a barrier: whether every thread of the rank, or (at_home) of the node, has been outside
 *  of accesses since then. */
bool pgasi_array_all_left(bool at_home);

/** Whether a rank of the node has died. Its threads never leave an access and never unlock. */
bool pgasi_array_has_died(int node_rank);
/** Lets other threads run, in the n-th round of waiting for a thread that is inside or has a
 *  lock. From time to time it checks for dead ranks. Without service threads no other code would
 *  notice that the thread's rank has died. */
void pgasi_array_let_others_run(uint32_t n);

#endif
