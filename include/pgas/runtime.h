/** The running library: ranks, nodes, threads, progress, the end.
 *
 *      #pragma omp parallel                              each thread of the program attaches
 *      {
 *          pgas_thread_attach();
 *          work(pgas_rank(), pgas_thread_slot(pgas_thread_self()));
 *          pgas_thread_detach();
 *      } */
#ifndef PGAS_RUNTIME_H
#define PGAS_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/** Returns whether the library is between the first pgas_init and the last pgas_finalize. */
PGAS_API bool pgas_initialized(void);

/** Returns this rank, or the number of ranks. Ranks are numbered 0 .. n-1 as in the communicator
 *  that pgas_init got. Before pgas_init the values are -1 and 0. */
PGAS_API int pgas_rank(void);
PGAS_API int pgas_n_ranks(void);

/** Nodes: groups of ranks that share memory, numbered 0 .. n-1. Fake nodes of PGAS_NODE_MAXSIZE
 *  ranks count as nodes. pgas_node_of returns -1 for a rank that does not exist. */
PGAS_API int pgas_n_nodes(void);
PGAS_API int pgas_node_of(int rank);
/** Returns this rank's node, its rank within the node, or the number of ranks of the node. */
static inline int pgas_node(void)
{
    return pgas_node_of(pgas_rank());
}
static inline int pgas_node_rank(void)
{
    return pgas_team_rank(pgas_team_node());
}
static inline int pgas_node_size(void)
{
    return pgas_team_size(pgas_team_node());
}

/** Returns the seconds of a clock that never goes back. Ranks of one host have the same clock. */
PGAS_API double pgas_time(void);

/** Ends one pgas_init. The last call is collective. It waits for all ranks, completes all
 *  operations, frees every object of the library, and ends MPI if pgas_init had started it.
 *  Shape:  thread slot 0; other threads are outside of the library, except in pgas_thread_attach
 *          and pgas_thread_detach. pgas_init may be called again while MPI is up.
 *  @return PGAS_ERR_NOT_INIT  no matching pgas_init
 *          PGAS_ERR_CONTEXT   in a handler, or on a thread other than slot 0
 *          PGAS_ERR_PEER      a rank had died (PGAS_ON_PEER_DEATH=continue). The library has ended
 *                             nevertheless, after all live ranks had called. MPI is not finalized.
 *                             The program must end by _exit or MPI_Abort */
PGAS_API pgas_status_t pgas_finalize(void);

/** Logs the text as an error and ends the job on all ranks, with the exit status `code` (0: 1). Any
 *  thread, at any time. */
PGAS_NORETURN PGAS_API void pgas_abort(int code, const char *text);

/* ---- threads ---- */

/** A thread of the job: the rank in the upper 20 bits, the slot in the lower 12. Slot 0 is the
 *  thread that called pgas_init. As targets, PGAS_SLOT_SERVICE is the rank's service thread, and
 *  PGAS_SLOT_ANY any thread of the rank that runs calls. */
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

/** Attaches the calling thread to the lowest free slot, so that it may use the library. Attaches
 *  nest. The first PGAS_LANES slots own a context and take no lock; others share one.
 *  The thread of a blocking or spawned handler is attached already.
 *  @return PGAS_ERR_LIMIT    PGAS_THREADS_MAX threads are attached
 *          PGAS_ERR_CONTEXT  in a plain handler, which runs on a thread that is attached already */
PGAS_API pgas_status_t pgas_thread_attach(void);

/** Undoes one attach. The last one first completes all operations of the thread.
 *  @return as pgas_flush_all, and the thread is detached;
 *          PGAS_ERR_CONTEXT   the thread is not attached, or runs a plain handler; or the attach is
 *                             the first one of slot 0 or of a handler thread
 *          PGAS_ERR_NOT_INIT  also while the job ends, which detaches all threads */
PGAS_API pgas_status_t pgas_thread_detach(void);

/** Returns the calling thread. Its slot is 4094 if it is not attached. */
PGAS_API pgas_thread_t pgas_thread_self(void);

/** Where the calling thread runs. */
typedef struct {
    size_t size;
    int cpu;    /* logical CPU number of the operating system; -1: unknown */
    int numa;   /* logical NUMA node as hwloc counts; -1: unknown */
    bool bound; /* the thread is allowed on fewer CPUs than the machine has */
} pgas_thread_info_t;
/** @return PGAS_OK
 *          PGAS_ERR_INVALID  info_p is NULL, or its size is too small */
PGAS_API pgas_status_t pgas_thread_info(pgas_thread_info_t *info_p);

/** Makes progress: runs calls and requests of peers that have arrived, and continues operations of
 *  this thread. "progress rule" in the output of pgas_info says which operations depend on it.
 *  Shape:  any attached thread, in a loop that waits for something of the program's own.
 *  Cost:   some loads if nothing has arrived; sched_yield after 512 such rounds in a row. Arrivals
 *          from other nodes after a long silence are noticed late, by at most 1/64 of it.
 *  @return the number of events handled; 0 in plain handlers. */
PGAS_API int pgas_progress(void);

/** Returns the version of the library at run time as text, e.g. "0.2.0". */
PGAS_API const char *pgas_version(void);

PGAS_END_DECLS
#endif
