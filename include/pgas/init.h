/** Starting and ending the library; ranks, nodes and threads. The only public header that includes
 *  mpi.h. */
#ifndef PGAS_INIT_H
#define PGAS_INIT_H

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include "pgas/runtime.h"
#include "pgas/status.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/* Deaths. From the middle of pgas_init to the end of pgas_finalize each rank learns of the death of
 * any other. Only the
 *  launcher notices an earlier death. A rank is dead when its process has ended without
 *  pgas_finalize, or when its host has been silent for PGAS_PEER_TIMEOUT_S. A rank that computes,
 *  is stopped or gets no CPU time is not dead. A network partition shorter than PGAS_PEER_TIMEOUT_S
 *  changes nothing. After a longer one, each side considers the ranks of the other side dead.
 *  PGAS_ON_PEER_DEATH=abort: every rank ends itself, and one report names the dead ranks. continue:
 *  operations and collectives that need a dead rank end with PGAS_ERR_PEER. pgas_finalize still
 *  waits for all live ranks. A death during pgas_init ends the job in both modes. With
 *  PGAS_SERVICE_THREADS=0 a rank learns of deaths only inside the library: in any call that waits,
 *  before each sleep, and from time to time in pgas_progress. Ranks forward the news of other
 *  hosts, so it is delayed until each of those ranks enters the library. */

/** Options of pgas_init. Set with PGAS_INIT_OPTS_INIT; zero and NULL mean default. */
typedef struct {
    /* sizeof(pgas_init_opts_t): lets later versions add fields; 0 is that of the first version,
     * less is refused */
    size_t size;
    /* "HEAP_SIZE=1G SERVICE_THREADS=0": parameters as in the environment, without PGAS_, separated
     * by blanks; they win over the environment. NULL: none */
    const char *params;
} pgas_init_opts_t;

#define PGAS_INIT_OPTS_INIT            \
    {                                  \
        sizeof(pgas_init_opts_t), NULL \
    }

/** Starts the library on the ranks of a communicator.
 *  Shape:  collective over *comm (NULL: MPI_COMM_WORLD). MPI may be initialised or not; if nobody
 *          did, MPI_Init_thread is called here and MPI_Finalize by the matching pgas_finalize.
 *          Handlers registered so far are agreed on.
 *  Done:   on return every rank has passed the call with the same status. The caller is attached as
 *          thread slot 0.
 *  Owns:   *comm is duplicated and may be freed afterwards. Calls nest: each further pgas_init only
 *          counts.
 *  Cost:   a few MPI collectives, one mapping of the heap per rank of the node.
 *  @return PGAS_OK; PGAS_ERR_INVALID a parameter that does not parse or a wrong opts->size, on any
 *          rank (the log names it); PGAS_ERR_UNSUPPORTED a transport that is not in this build or
 *          does not reach all ranks; PGAS_ERR_MISMATCH ranks disagree on version or handlers, or
 *          the launcher's and MPI's number of ranks differ; PGAS_ERR_LIMIT the worst-case memory
 *          exceeds PGAS_MEMORY_LIMIT, the heaps exceed the memory of a host or of its cgroup, or
 *          ulimit -n, -u or -v is too low (the log has the numbers); PGAS_ERR_CONTEXT in a handler,
 *          on this rank alone; PGAS_ERR_PEER a rank was lost before the last pgas_finalize, and the
 *          communicator has all ranks; PGAS_ERR_NO_MEMORY, PGAS_ERR_TRANSPORT, PGAS_ERR_MPI. After
 *          an error nothing stays started and all ranks have the same status. */
PGAS_API pgas_status_t pgas_init(const MPI_Comm *comm, const pgas_init_opts_t *opts);

/** Makes a team of the ranks of an MPI communicator, with the same numbering.
 *  Shape:  collective over *comm, an intracommunicator whose processes all belong to the job.
 *          Between pgas_init and pgas_finalize; one thread of a rank makes teams at a time, on all
 *          ranks in the same order.
 *  Done:   on return the team can be used; requests of peers are served while ranks are waited for.
 *  Owns:   *comm is duplicated and may be freed afterwards. The team ends with pgas_team_destroy,
 *          collective over it.
 *  Cost:   a few MPI collectives and one mapping; 4 to 16 bytes per member on each of them.
 *  @param comm   may be derived from any communicator, e.g. by MPI_Comm_split
 *  @param team_p the team; unchanged after an error
 *  @return PGAS_OK; PGAS_ERR_NOT_INIT; PGAS_ERR_INVALID (NULL, MPI_COMM_NULL, an intercommunicator,
 *          or a process of another job, refused where it is seen); PGAS_ERR_CONTEXT (as
 *          collectives); PGAS_ERR_NO_MEMORY, PGAS_ERR_MPI: the same on all ranks. PGAS_ERR_PEER: a
 *          rank of *comm has died; see also pgas_team_split. After a death a communicator of live
 *          ranks is accepted, for example one from MPI_Comm_create_group. */
PGAS_API pgas_status_t pgas_team_from_comm(const MPI_Comm *comm, pgas_team_t **team_p);

PGAS_END_DECLS
#endif
