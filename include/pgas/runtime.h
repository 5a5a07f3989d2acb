/** The running library as a program sees it: ranks, nodes, threads, progress, the end. */
#ifndef PGAS_RUNTIME_H
#define PGAS_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Ends one pgas_init. The last one is collective: it waits for all ranks, completes what was
 *  issued, frees every object of the library and ends MPI if pgas_init had started it. Other
 *  threads are outside of the library by then and stay out, attached or not; one that is in
 *  pgas_thread_attach or pgas_thread_detach is waited for.
 *  @return PGAS_OK; PGAS_ERR_NOT_INIT without a matching pgas_init; PGAS_ERR_CONTEXT from inside a
 *  handler or from a thread other than slot 0. After the last one pgas_init may be called again
 *  while MPI is up. PGAS_ERR_PEER: a rank had died (PGAS_ON_PEER_DEATH=continue). The library has
 *  ended here all the same. It has waited for all live ranks and has served them meanwhile, so a
 *  rank that finishes early is not dead for the others. (If the ranks cannot watch each other by
 *  TCP, which a warning reports, it does not wait. Other ranks then consider this one dead when its
 *  process ends.) MPI is left as it is, because MPI_Finalize would wait for the dead: the program
 *  ends by _exit or MPI_Abort, and pgas_init is not called again. */
PGAS_API pgas_status_t pgas_finalize(void);

/** True between the first pgas_init and the last pgas_finalize. */
PGAS_API bool pgas_initialized(void);

/** Ranks 0 .. n-1 are those of the communicator given to pgas_init. -1 (rank) and 0 (n) before
 *  it. */
PGAS_API int pgas_rank(void);
PGAS_API int pgas_n_ranks(void);

/** Nodes: ranks that share memory, numbered 0 .. n-1; fake nodes of PGAS_NODE_MAXSIZE ranks count
 *  as nodes. pgas_node_of gives -1 for a rank that does not exist. */
PGAS_API int pgas_node(void);
PGAS_API int pgas_n_nodes(void);
PGAS_API int pgas_node_of(int rank);
PGAS_API int pgas_node_rank(void); /* this rank within its node */
PGAS_API int pgas_node_size(void); /* ranks of this node */

/** A thread of the job: rank in the upper 20 bits, slot in the lower 12. Slot 0 is the thread that
 *  called pgas_init; PGAS_SLOT_SERVICE is the rank's service thread, PGAS_SLOT_ANY (as a target)
 *  whichever thread of the rank serves. */
typedef uint32_t pgas_thread_t;
#define PGAS_SLOT_BITS    12
#define PGAS_SLOT_SERVICE 4095
#define PGAS_SLOT_ANY     4093
#define PGAS_THREADS_MAX  4093 /* attached threads of a rank at one time */

static inline pgas_thread_t pgas_thread_make(int rank, int slot)
{
    return ((pgas_thread_t)rank << PGAS_SLOT_BITS) | (pgas_thread_t)slot;
}
static inline int pgas_thread_rank(pgas_thread_t thread)
{
    return (int)(thread >> PGAS_SLOT_BITS);
}
static inline int pgas_thread_slot(pgas_thread_t thread)
{
    return (int)(thread & ((1u << PGAS_SLOT_BITS) - 1));
}

/** Makes the calling thread known to the library, so that it may use it.
 *  Shape:  any thread of an initialised rank, e.g. at the start of an OpenMP parallel region.
 *          Attaching twice counts; so does attaching in a blocking or spawned handler, whose thread
 *          is attached already: what it does not undo ends with it.
 *  Done:   the thread has the lowest free slot. The first PGAS_LANES slots own a context (no
 *          locks); others share one.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_LIMIT (PGAS_THREADS_MAX threads are attached),
 *          PGAS_ERR_CONTEXT (in a plain handler: its thread is attached, and not its own). */
PGAS_API pgas_status_t pgas_thread_attach(void);

/** Undoes one attach; completes what the thread has issued (as pgas_flush_all) first.
 *  @return PGAS_OK, PGAS_ERR_CONTEXT (not attached; in a plain handler; the attach with which slot
 *          0 or a handler began: those end with pgas_finalize and with the handler);
 *          PGAS_ERR_NOT_INIT (also while the job ends, which detaches everybody); what
 *          pgas_flush_all gives, e.g. PGAS_ERR_PEER: the thread is detached all the same. */
PGAS_API pgas_status_t pgas_thread_detach(void);

/** The calling thread's name; slot 4094 in it if it is not attached. */
PGAS_API pgas_thread_t pgas_thread_self(void);

/** Where the calling thread runs. cpu: logical CPU number of the operating system; numa: logical
 *  NUMA node as hwloc counts; either -1 if unknown. bound: the set of allowed CPUs is smaller than
 *  the machine. */
typedef struct {
    int cpu;
    int numa;
    bool bound;
} pgas_place_info_t;
PGAS_API pgas_status_t pgas_thread_place(pgas_place_info_t *place_p);

/** Runs what has arrived (calls, requests of peers) and moves on what was issued. Any attached
 *  thread, also inside a loop that waits for something of the program's own. Returns the number of
 *  events handled, 0 if none.
 *  Cost:   some loads if nothing has come; after 512 such rounds in a row a call of sched_yield.
 *          What comes from other nodes after a long silence is seen late by at most 1/64 of that.
 *  Which operations need whom to call this: see "progress rule" in pgas_info. */
PGAS_API int pgas_progress(void);

/** The text of the library's version, e.g. "0.1.0": that of the library at run time, see
 *  PGAS_VERSION for headers. */
PGAS_API const char *pgas_version(void);

PGAS_END_DECLS
#endif
