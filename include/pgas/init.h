/** Starting the library, and teams of MPI communicators. The only public header that includes
 *  mpi.h.
 *
 *      pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
 *      opts.params = "HEAP_SIZE=1G";
 *      if (pgas_init(NULL, &opts) != PGAS_OK)                   collective; initialises MPI, too
 *          return 1;
 *      pgas_finalize();                                         collective
 *
 *  Deaths. From the middle of pgas_init to the end of pgas_finalize each rank learns of the death
 *  of any other rank. A rank is dead when its process has ended without pgas_finalize, or when its
 *  host has been silent for PGAS_PEER_TIMEOUT_S. After a longer network partition each side
 *  considers the ranks of the other side dead. PGAS_ON_PEER_DEATH selects what follows:
 *   - abort: every rank ends itself, and one report names the dead ranks.
 *   - continue: operations and collectives that need a dead rank return PGAS_ERR_PEER.
 *     pgas_finalize still waits for all live ranks.
 *  A death during pgas_init ends the job in both modes. With PGAS_SERVICE_THREADS=0 a rank learns
 *  of deaths, and forwards reports, only inside the library. */
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
#include "pgas/version.h"

PGAS_BEGIN_DECLS

/** Options of pgas_init. Set them with PGAS_INIT_OPTS_INIT. Zero and NULL mean default. */
typedef struct {
    size_t size; /* sizeof(pgas_init_opts_t), so that later versions can add fields */
    /* "HEAP_SIZE=1G SERVICE_THREADS=0": parameters as in the environment, without PGAS_, separated
     * by blanks. They take precedence over the environment. NULL: none */
    const char *params;
} pgas_init_opts_t;

#define PGAS_INIT_OPTS_INIT            \
    {                                  \
        sizeof(pgas_init_opts_t), NULL \
    }

/** pgas_init of code that was compiled with headers of that PGAS_INTERFACE. */
PGAS_API pgas_status_t pgas_init_interface(const MPI_Comm *comm, const pgas_init_opts_t *opts,
                                           unsigned interface_number);

/** Starts the library on all ranks of a communicator.
 *  Shape:  collective over *comm (NULL: MPI_COMM_WORLD), which may be freed afterwards. If MPI is
 *          not initialised, this function calls MPI_Init_thread, and the matching pgas_finalize
 *          calls MPI_Finalize. Calls nest: each further pgas_init only counts.
 *  Done:   the caller is attached as thread slot 0. All ranks agree on the handlers.
 *  @return PGAS_ERR_INVALID      on any rank a parameter does not parse or opts->size is wrong; the
 *                                log names it
 *          PGAS_ERR_UNSUPPORTED  the transport is not in this build or does not reach all ranks
 *          PGAS_ERR_MISMATCH     ranks disagree on version or handlers, the launcher and MPI on the
 *                                number of ranks, or program and library on PGAS_INTERFACE
 *          PGAS_ERR_LIMIT        the worst-case memory exceeds PGAS_MEMORY_LIMIT; the heaps exceed
 *                                the memory of a host or of its cgroup; or ulimit -n, -u or -v is
 *                                too low. The log has the numbers
 *          PGAS_ERR_CONTEXT      in a handler. Only this rank gets this status
 *          PGAS_ERR_PEER         a rank died before the last pgas_finalize, and the communicator
 *                                has all ranks
 *          PGAS_ERR_NO_MEMORY, PGAS_ERR_TRANSPORT, PGAS_ERR_MPI
 *          After an error nothing is running, and all ranks have the same status. */
static inline pgas_status_t pgas_init(const MPI_Comm *comm, const pgas_init_opts_t *opts)
{
    return pgas_init_interface(comm, opts, PGAS_INTERFACE);
}

/** Makes a team of the ranks of an MPI communicator, with the same numbering.
 *  Shape:  collective over *comm, an intracommunicator whose processes all belong to the job. Ranks
 *          make teams in one order.
 *  Owns:   *comm is duplicated and may be freed afterwards. pgas_team_destroy ends the team.
 *  Cost:   a few MPI collectives and one mapping; 4 to 16 bytes per member on each member.
 *  @return as pgas_team_split;
 *          PGAS_ERR_INVALID  NULL, MPI_COMM_NULL, an intercommunicator, or a process of another
 *                            job. Only the ranks that see it get this status
 *          PGAS_ERR_PEER     a rank of *comm has died. A communicator of live ranks is accepted */
PGAS_API pgas_status_t pgas_team_from_comm(const MPI_Comm *comm, pgas_team_t **team_p);

PGAS_END_DECLS
#endif
