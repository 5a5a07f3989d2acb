/** Interfaces that the files of this folder share. No other folder includes this header. */
#ifndef PGASI_BOOT_INTERNAL_H
#define PGASI_BOOT_INTERNAL_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/init.h"
#include "pgas/coll.h"
#include "base/op.h"
#include "boot/board.h"
#include "boot/boot.h"

/* ---- launch.c: begin and end of MPI; one thread at a time calls it ---- */

/** Initialises MPI if the program has not done it, and duplicates *comm (NULL: MPI_COMM_WORLD).
 *  Errors of the duplicate are returned. */
pgas_status_t pgasi_launch_begin(const MPI_Comm *comm, MPI_Comm *world_p);
/** Frees the duplicate (MPI_COMM_NULL: none), and finalizes MPI if begin initialised it. */
void pgasi_launch_end(MPI_Comm *world);
/** A rank has died. From now on MPI is not called any more, because its collectives would wait for
 *  the dead rank. */
void pgasi_launch_abandon(void);
/** @return PGAS_ERR_MISMATCH, with one message, if the launcher started more tasks than MPI
 *  knows */
pgas_status_t pgasi_launch_check(void);
/** Whether MPI's thread level allows collectives on the calling thread. */
bool pgasi_launch_may_call(void);

void pgasi_mpi_lock(void);
void pgasi_mpi_unlock(void);
/** Turns the result of an MPI call into a status. It logs a failure with the name of the attempted
 *  operation. */
pgas_status_t pgasi_mpi_status(int rc, const char *what);
/** Returns the least of the values of all ranks of comm. It blocks, so it is for set-up, when all
 *  of them are known to arrive. */
pgas_status_t pgasi_mpi_agree(MPI_Comm comm, pgas_status_t mine);
void pgasi_mpi_free_comm(MPI_Comm *comm);

/* ---- job.c ---- */

/** From now on no rank counts as dead. */
pgas_status_t pgasi_job_start(void);
void pgasi_job_stop(void);
int pgasi_job_n_dead(void);

/* ---- node.c ---- */

/** Fills the node fields of pgasi_boot. *node_p is the communicator of the node's ranks,
 *  ascending. */
pgas_status_t pgasi_node_start(MPI_Comm world, MPI_Comm *node_p);
void pgasi_node_stop(void);

/* the most CPUs that the kernel supports */
#define PGASI_CPU_WORDS (8192 / (8 * sizeof(unsigned long)))
typedef union {
    cpu_set_t set;
    unsigned long word[PGASI_CPU_WORDS];
} pgasi_cpus_t;
/** The CPUs that the initialising thread could use when the library started; empty if unknown. */
const pgasi_cpus_t *pgasi_node_cpus(void);

/* ---- limits.c ---- */

/** Checks whether the limits of files, address space and threads allow the library to start on all
 *  ranks. Collective.
 *  @return PGAS_OK
 *          PGAS_ERR_LIMIT  one rank of the host has logged the limit that is too low and the value
 *          it needs */
pgas_status_t pgasi_limits_check(MPI_Comm world, MPI_Comm host);
/** Returns advice for an error number, with "; " in front; "" if there is none. */
const char *pgasi_limits_cure(int error);

/* ---- place.c ---- */

/** Chooses one of n_objects for thread `slot`. divide: all ranks of the host share the objects.
 *  Pure. */
int pgasi_place_choose(int n_objects, bool divide, int host_rank, int host_ranks, int slot);
void pgasi_place_stop(void);

/* ---- shm.c ---- */

/** An agreement among the ranks that share a mapping. It returns the least of their values, or a
 *  worse one. */
typedef pgas_status_t (*pgasi_sync_fn_t)(void *arg, pgas_status_t mine);

/** The node's control mapping: wakeup flags, and the boxes through which later mappings are handed
 *  over. */
pgas_status_t pgasi_shm_start(MPI_Comm node);
void pgasi_shm_stop(void);
/** The general form of pgasi_shm_create: node rank `leader` makes the mapping. With bytes 0 the
 *  caller takes part in the agreements only. */
pgas_status_t pgasi_shm_share(int leader, size_t bytes, pgasi_sync_fn_t sync, void *arg,
                              pgasi_shm_t *shm_p);
/** Returns true only for the first caller on the node. That caller logs the death, or the end of
 *  the job. */
typedef enum { PGASI_REPORT_DEATH, PGASI_REPORT_END, PGASI_N_REPORTS } pgasi_report_t;
bool pgasi_shm_first_to_report(pgasi_report_t what);

/** Makes a sparse anonymous file of this size. @return its descriptor; -1 with errno */
int pgasi_shm_file(size_t bytes, unsigned flags);
/** Opens descriptor fd of another process of this user. @return a descriptor; -1 with errno */
int pgasi_shm_open_peer(int pid, int fd);

/* ---- watch.c, watch_start.c: which ranks have died ---- */

/** Starts the watch, once the host's ranks and the job key are known. Collective and blocking. It
 *  returns the same status on all ranks. */
pgas_status_t pgasi_watch_start(MPI_Comm world);
/** The last agreement of all ranks. Afterwards the watch is off. With MPI_COMM_NULL it does not
 *  wait.
 *  @return PGAS_OK        all ranks have called it
 *          PGAS_ERR_PEER  a rank has died meanwhile (in the mode abort it then does not return) */
pgas_status_t pgasi_watch_end(MPI_Comm world);
/** block and unblock enclose blocking calls of MPI that need all members of the team. In between
 *  the death of a member ends the job in both modes, because MPI would wait for ever.
 *  @return false: a member is dead already, and unblock must not be called */
bool pgasi_watch_block(pgas_team_t *team);
void pgasi_watch_unblock(void);
/** Reports to the ranks of other hosts that the job ends. Any thread may call it; it does not
 *  wait. */
void pgasi_watch_abort(int exit_code);

/* ---- team.c, team_make.c ---- */

struct pgas_team {
    pgasi_board_t board; /* of the members on this node */
    int rank, size;
    int *global_of; /* [size] by team rank; NULL: the same numbers */
    /* [size] team ranks by ascending global rank; NULL: team ranks ascend with them */
    int *by_global;
    /* nodes with members, by the team rank of their leaders; the own one */
    int n_nodes, node_index;
    int *node_index_of; /* [size] by team rank; NULL when n_nodes is 1 */
    /* [size] index among the members of its node, by team rank; NULL when n_nodes is 1 */
    int *local_of;
    MPI_Comm comm; /* all members, by team rank */
    /* lowest team rank of each node, by node index; MPI_COMM_NULL on other ranks */
    MPI_Comm leaders;
    /* the ranks of each node are consecutive, by team rank */
    bool in_order;
    pgasi_shm_t board_shm;
    /* between nodes: three buffers of scratch_bytes; NULL when n_nodes is 1 */
    unsigned char *scratch;
    size_t scratch_bytes; /* at least CHUNK + 8 bytes for each rank */
    int n_dead_seen;
    /* a member died, and a collective was given up because of it: no further one starts */
    bool broken;
    /* the number by which members name the team to each other; no rank has two teams with the same
     * number */
    uint32_t number;
    void *attachment;   /* of a layer above (boot.h) */
    uint32_t n_started; /* collectives of coll_nb.c: all, and those that have not ended */
    int n_pending;
    pgas_team_t *next;
    pgas_team_t *next_numbered;
};

typedef struct {
    pgas_team_t *world, *node;
    pgas_team_t *made;     /* by the program, newest first */
    pgas_team_t *numbered; /* all but the one of all ranks; under the lock */
    int lock;
    uint32_t last_number;
} pgasi_teams_t;
extern pgasi_teams_t pgasi_teams;

/** Enters the team into the table of numbers, and removes it. */
void pgasi_team_enter_number(pgas_team_t *team, uint32_t number);
void pgasi_team_leave_number(pgas_team_t *team);
/** Makes the teams of all ranks and of the node. The latter takes *node over. */
pgas_status_t pgasi_team_start(MPI_Comm world, MPI_Comm *node);
void pgasi_team_stop(void);
/** Whether a member of the team has died. The result is stored in the team. */
bool pgasi_team_is_broken(pgas_team_t *team);

/* ---- coll_node.c: among the members on one node ---- */

/* All members make the same calls. root and ranks are indices of members. Where a buffer is NULL,
 * nothing is copied. */
pgas_status_t pgasi_board_barrier(pgasi_board_t *board);
/** Posts the step that has begun. Wakes all members of a small team. In a large team it wakes only
 *  the member that waits, because otherwise each post costs n reads. */
void pgasi_board_post_to(pgasi_board_t *board, int waiter);
void pgasi_board_post_to_all(pgasi_board_t *board);
/** Half barriers. arrive: member 0 returns when all members have arrived. release: all members
 *  return when member 0 has arrived. */
pgas_status_t pgasi_board_arrive(pgasi_board_t *board);
pgas_status_t pgasi_board_release(pgasi_board_t *board);
pgas_status_t pgasi_board_broadcast(pgasi_board_t *board, void *buffer, size_t bytes, int root);
pgas_status_t pgasi_board_reduce(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                 const pgas_op_def_t *def, int root);
pgas_status_t pgasi_board_allreduce(pgasi_board_t *board, const void *src, void *dst,
                                    size_t n_elems, const pgas_op_def_t *def);
/** In an exclusive scan the dst of member 0 gets neutral elements. */
pgas_status_t pgasi_board_scan(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                               const pgas_op_def_t *def, bool inclusive);
pgas_status_t pgasi_board_gather(pgasi_board_t *board, const void *src, void *dst, size_t bytes,
                                 int root);
pgas_status_t pgasi_board_allgather(pgasi_board_t *board, const void *src, void *dst, size_t bytes);
pgas_status_t pgasi_board_alltoall(pgasi_board_t *board, const void *src, void *dst, size_t bytes);
/** Blocks of any sizes; root -1: all members receive. bytes_of matters where the data are
 *  received. */
pgas_status_t pgasi_board_gatherv(pgasi_board_t *board, const void *src, size_t bytes, void *dst,
                                  const size_t *bytes_of, int root);
pgas_status_t pgasi_board_alltoallv(pgasi_board_t *board, const void *src, const size_t *src_bytes,
                                    void *dst, const size_t *dst_bytes);

/* ---- coll_direct.c: the same for large data, where board->pids is not NULL ---- */

/* the fewest bytes that members read in each other's buffers, whatever the operation; tests make it
 * small, or SIZE_MAX */
extern size_t pgasi_direct_least;

pgas_status_t pgasi_direct_broadcast(pgasi_board_t *board, void *buffer, size_t bytes, int root);
pgas_status_t pgasi_direct_reduce(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                  const pgas_op_def_t *def, int root);
pgas_status_t pgasi_direct_allreduce(pgasi_board_t *board, const void *src, void *dst,
                                     size_t n_elems, const pgas_op_def_t *def);
/** An exclusive scan of two members: the second gets the data of the first. */
pgas_status_t pgasi_direct_exscan(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                  const pgas_op_def_t *def);
pgas_status_t pgasi_direct_gather(pgasi_board_t *board, const void *src, void *dst, size_t bytes,
                                  int root);
pgas_status_t pgasi_direct_allgather(pgasi_board_t *board, const void *src, void *dst,
                                     size_t bytes);
pgas_status_t pgasi_direct_alltoall(pgasi_board_t *board, const void *src, void *dst, size_t bytes);
pgas_status_t pgasi_direct_gatherv(pgasi_board_t *board, const void *src, size_t bytes, void *dst,
                                   const size_t *bytes_of, int root);
pgas_status_t pgasi_direct_allgatherv(pgasi_board_t *board, const void *src, void *dst,
                                      const size_t *bytes_of);
pgas_status_t pgasi_direct_alltoallv(pgasi_board_t *board, const void *src, const size_t *src_bytes,
                                     void *dst, const size_t *dst_bytes);

/* ---- coll_mpi.c: by MPI, with progress; comm is one of the team's ---- */

/* the most bytes of one call of MPI; tests make it small */
extern size_t pgasi_between_piece_bytes;
pgas_status_t pgasi_between_wait(pgas_team_t *team, int rc, MPI_Request *request, const char *what);
pgas_status_t pgasi_between_barrier(pgas_team_t *team, MPI_Comm comm);
pgas_status_t pgasi_between_broadcast(pgas_team_t *team, MPI_Comm comm, void *buffer, size_t bytes,
                                      int root);
pgas_status_t pgasi_between_gather(pgas_team_t *team, MPI_Comm comm, const void *src, void *dst,
                                   size_t bytes, int root);
pgas_status_t pgasi_between_allgather(pgas_team_t *team, MPI_Comm comm, const void *src, void *dst,
                                      size_t bytes);
pgas_status_t pgasi_between_alltoall(pgas_team_t *team, MPI_Comm comm, const void *src, void *dst,
                                     size_t bytes);

/** A chain: each rank of the team receives pieces from the rank before it and sends pieces to the
 *  rank after it. Pieces are at most PIECE bytes long, and some of them are under way at a time.
 *
 *  begin: bytes in all, in pieces of piece_bytes.
 *  room: memory for the next piece to send; NULL: an error, in chain->status.
 *  receive: waits for the next piece; *piece_p is NULL on the first rank. It is valid until the
 *  next receive.
 *  send: sends what is in the room. The last rank sends nothing.
 *  end: waits until all have left. @return the first error */
#define PGASI_CHAIN_PIECE ((size_t)32 << 10)
#define PGASI_CHAIN_DEPTH 4
typedef struct {
    pgas_team_t *team;
    size_t bytes, piece_bytes;
    size_t n_asked, n_received, n_sent; /* pieces */
    MPI_Request receives[PGASI_CHAIN_DEPTH], sends[PGASI_CHAIN_DEPTH];
    pgas_status_t status;
} pgasi_chain_t;
pgas_status_t pgasi_chain_begin(pgasi_chain_t *chain, pgas_team_t *team, size_t bytes,
                                size_t piece_bytes);
void *pgasi_chain_room(pgasi_chain_t *chain);
pgas_status_t pgasi_chain_receive(pgasi_chain_t *chain, const void **piece_p);
pgas_status_t pgasi_chain_send(pgasi_chain_t *chain, size_t bytes);
pgas_status_t pgasi_chain_end(pgasi_chain_t *chain, pgas_status_t status);

/* ---- coll.c ---- */

/** Whether the calling thread may enter a collective now. It replaces NULL by the team of all
 *  ranks. */
pgas_status_t pgasi_coll_enter(pgas_team_t **team_io);

/* The collectives without the checks of the public functions: */

pgas_status_t pgasi_coll_barrier(pgas_team_t *team);
pgas_status_t pgasi_coll_broadcast(pgas_team_t *team, void *buffer, size_t bytes, int root);
pgas_status_t pgasi_coll_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op);
pgas_status_t pgasi_coll_allgather(pgas_team_t *team, const void *src, void *dst, size_t bytes);

/* ---- coll_nb.c: collectives that proceed by rounds of messages ---- */

/** Blocks of bytes from and for each rank of a team, one after another. */
typedef struct {
    const void *src;
    const size_t *out; /* [size] NULL: out_all bytes of src go to each rank, or to root alone */
    size_t out_all;
    int root; /* -1: all ranks receive */
    void *dst;
    const size_t *in; /* [size] NULL: this rank receives nothing */
} pgasi_blocks_t;
pgas_status_t pgasi_coll_barrier_nb(pgas_team_t *team, pgasi_coll_end_t end);
pgas_status_t pgasi_coll_broadcast_nb(pgas_team_t *team, void *buffer, size_t bytes, int root,
                                      pgasi_coll_end_t end);
pgas_status_t pgasi_coll_allreduce_nb(pgas_team_t *team, void *buffer, size_t n_elems,
                                      const pgas_op_def_t *def, pgasi_coll_end_t end);
pgas_status_t pgasi_coll_exchange_nb(pgas_team_t *team, const pgasi_blocks_t *b,
                                     pgasi_coll_end_t end);
/** As exchange_nb; waits with progress. */
pgas_status_t pgasi_coll_exchange(pgas_team_t *team, const pgasi_blocks_t *blocks);

#endif
