/** What the files of this folder share; no other folder includes it. */
#ifndef PGASI_BOOT_INTERNAL_H
#define PGASI_BOOT_INTERNAL_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/init.h"
#include "pgas/coll.h"
#include "boot/board.h"
#include "boot/boot.h"

/* ---- launch.c: MPI begins, ends, and is called by one thread at a time ---- */

/** Starts MPI if nobody did and duplicates *comm (NULL: MPI_COMM_WORLD) with errors returned. */
pgas_status_t pgasi_launch_begin(const MPI_Comm *comm, MPI_Comm *world_p);
/** Frees the duplicate (MPI_COMM_NULL: none) and ends MPI if begin started it. */
void pgasi_launch_end(MPI_Comm *world);
/** A rank has died: MPI is left as it is from now on, for what is collective in it would wait for
 *  the dead. */
void pgasi_launch_abandon(void);
/** PGAS_ERR_MISMATCH, with one message, if the launcher started more tasks than MPI sees. */
pgas_status_t pgasi_launch_check(void);
/** Whether collectives may run on the calling thread, as far as MPI is concerned. */
bool pgasi_launch_may_call(void);

void pgasi_mpi_lock(void);
void pgasi_mpi_unlock(void);
/** Turns the result of an MPI call into a status; failures are logged with the name of what was
 *  tried. */
pgas_status_t pgasi_mpi_status(int rc, const char *what);
/** The least of everybody's values. Blocking: for set-up, when all ranks of comm are known to
 *  arrive. */
pgas_status_t pgasi_mpi_agree(MPI_Comm comm, pgas_status_t mine);
void pgasi_mpi_free_comm(MPI_Comm *comm);

/* ---- job.c ---- */

/** No rank has died. */
pgas_status_t pgasi_job_start(void);
void pgasi_job_stop(void);
int pgasi_job_n_dead(void);

/* ---- node.c ---- */

/** Fills the node fields of pgasi_boot; *node_p is the communicator of the node's ranks,
 *  ascending. */
pgas_status_t pgasi_node_start(MPI_Comm world, MPI_Comm *node_p);
void pgasi_node_stop(void);

/* the kernel's greatest number of CPUs */
#define PGASI_CPU_WORDS (8192 / (8 * sizeof(unsigned long)))
typedef union {
    cpu_set_t set;
    unsigned long word[PGASI_CPU_WORDS];
} pgasi_cpus_t;
/** The CPUs that the initialising thread might use when the library started; none if unknown. */
const pgasi_cpus_t *pgasi_node_cpus(void);

/* ---- limits.c ---- */

/** Checks whether the limits of files, address space and threads allow the library to start on all
 *  ranks. Collective.
 *  @return PGAS_OK; PGAS_ERR_LIMIT: one rank of the host has logged the limit that is too low and
 *          the value it needs. */
pgas_status_t pgasi_limits_check(MPI_Comm world, MPI_Comm host);
/** Advice for an error number, with "; " in front; "" for error numbers without any. */
const char *pgasi_limits_cure(int error);

/* ---- place.c ---- */

/** Which of n_objects thread `slot` goes to. divide: all ranks of the host share the objects.
 *  Pure. */
int pgasi_place_choose(int n_objects, bool divide, int host_rank, int host_ranks, int slot);
void pgasi_place_stop(void);

/* ---- shm.c ---- */

/** Agreement among those who share: gives the least of everybody's values, or a worse one. */
typedef pgas_status_t (*pgasi_sync_fn_t)(void *arg, pgas_status_t mine);

/** The node's control region: wakeup flags and the boxes through which later regions are handed
 *  over. */
pgas_status_t pgasi_shm_start(MPI_Comm node);
void pgasi_shm_stop(void);
/** The general form of pgasi_shm_create: `leader` is the node rank that makes the region. bytes 0
 *  takes part in the agreements only. */
pgas_status_t pgasi_shm_share(int leader, size_t bytes, pgasi_sync_fn_t sync, void *arg,
                              pgasi_shm_t *shm_p);
/** True only for the first caller on the node: that caller logs the death, or the end of the
 *  job. */
typedef enum { PGASI_REPORT_DEATH, PGASI_REPORT_END, PGASI_N_REPORTS } pgasi_report_t;
bool pgasi_shm_first_to_report(pgasi_report_t what);

/** Makes an anonymous file of so many bytes, sparse; -1 with errno. */
int pgasi_shm_file(size_t bytes, unsigned flags);
/** Opens descriptor fd of another process of this user; -1 with errno. */
int pgasi_shm_open_peer(int pid, int fd);

/* ---- watch.c: which ranks have died ---- */

/** Collective, blocking, once the host's ranks and the job key are known. Same status on all
 *  ranks. */
pgas_status_t pgasi_watch_start(MPI_Comm world);
/** The last agreement of all ranks: returns when all of them have called it, or PGAS_ERR_PEER when
 *  one has died meanwhile (in the mode abort it then does not return). With MPI_COMM_NULL it does
 *  not wait. Afterwards the watch is off. */
pgas_status_t pgasi_watch_end(MPI_Comm world);
/** block and unblock enclose blocking calls of MPI that need all members of the team. In between
 *  the death of a member ends the job in both modes, because MPI would wait for ever.
 *  @return false: a member is dead already, and unblock must not be called */
bool pgasi_watch_block(pgas_team_t *team);
void pgasi_watch_unblock(void);
/** Tells the ranks of other hosts that the job ends. Any thread; does not wait. */
void pgasi_watch_abort(int exit_code);

/* ---- team.c, team_make.c ---- */

struct pgas_team {
    pgasi_board_t board; /* of the members on this node */
    int rank, size;
    int *global_of; /* [size] by team rank; NULL: the same numbers */
    /* [size] team ranks by ascending global rank; NULL: team ranks ascend with them */
    int *by_global;
    int n_nodes, node_index; /* nodes with members, by the team rank of their leaders; where I am */
    int *node_index_of;      /* [size] by team rank; NULL when n_nodes is 1 */
    /* [size] index among the members of its node, by team rank; NULL when n_nodes is 1 */
    int *local_of;
    MPI_Comm comm; /* all members, by team rank */
    /* lowest team rank of each node, by node index; MPI_COMM_NULL elsewhere */
    MPI_Comm leaders;
    pgasi_shm_t board_shm;
    /* between nodes: three buffers of scratch_bytes; NULL when n_nodes is 1 */
    unsigned char *scratch;
    size_t scratch_bytes; /* at least CHUNK + one element for each rank */
    int n_dead_seen;
    /* a member died, and a collective was given up for it: no other starts */
    bool broken;
    pgas_team_t *next;
};

typedef struct {
    pgas_team_t *world, *node;
    pgas_team_t *made; /* by the program, newest first */
} pgasi_teams_t;
extern pgasi_teams_t pgasi_teams;

pgas_status_t pgasi_team_start(MPI_Comm world, MPI_Comm node);
void pgasi_team_stop(void);
/** Whether a member of the team has died; remembers it. */
bool pgasi_team_is_broken(pgas_team_t *team);

/* ---- coll_node.c: among the members on one node ---- */

/* dst[i] = dst[i] op src[i] */
typedef void (*pgasi_combine_fn_t)(void *dst, const void *src, size_t n_elems);

/* All members make the same calls; root and ranks are indices of members. Nothing is copied where a
 * buffer is NULL. */
pgas_status_t pgasi_board_barrier(pgasi_board_t *board);
/** Half barriers: member 0 returns from arrive when all have arrived; all return from release when
 *  member 0 is there. */
pgas_status_t pgasi_board_arrive(pgasi_board_t *board);
pgas_status_t pgasi_board_release(pgasi_board_t *board);
pgas_status_t pgasi_board_broadcast(pgasi_board_t *board, void *buffer, size_t bytes, int root);
pgas_status_t pgasi_board_reduce(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                 size_t elem_bytes, pgasi_combine_fn_t combine, int root);
pgas_status_t pgasi_board_allreduce(pgasi_board_t *board, const void *src, void *dst,
                                    size_t n_elems, size_t elem_bytes, pgasi_combine_fn_t combine);
/** dst of member 0 is not written: the caller fills in the neutral element. */
pgas_status_t pgasi_board_exscan(pgasi_board_t *board, const void *src, void *dst, size_t n_elems,
                                 size_t elem_bytes, pgasi_combine_fn_t combine);
pgas_status_t pgasi_board_gather(pgasi_board_t *board, const void *src, void *dst, size_t bytes,
                                 int root);
pgas_status_t pgasi_board_allgather(pgasi_board_t *board, const void *src, void *dst, size_t bytes);
pgas_status_t pgasi_board_alltoall(pgasi_board_t *board, const void *src, void *dst, size_t bytes);

/* ---- coll_mpi.c: by MPI, with progress; comm is one of the team's ---- */

extern size_t pgasi_between_piece_bytes; /* of one call of MPI; tests make it small */
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

/* ---- coll.c ---- */

/** Whether the calling thread may enter a collective now; resolves NULL to the team of all
 *  ranks. */
pgas_status_t pgasi_coll_enter(pgas_team_t **team_io);

/* Without the checks of the public functions: */

pgas_status_t pgasi_coll_barrier(pgas_team_t *team);
pgas_status_t pgasi_coll_broadcast(pgas_team_t *team, void *buffer, size_t bytes, int root);
pgas_status_t pgasi_coll_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op);
pgas_status_t pgasi_coll_allgather(pgas_team_t *team, const void *src, void *dst, size_t bytes);

/* ---- coll_ops.c ---- */

/** NULL for a pair that does not exist. */
pgasi_combine_fn_t pgasi_combine_of(pgas_type_t type, pgas_op_t op);
size_t pgasi_type_bytes(pgas_type_t type); /* 0: no such type */
void pgasi_fill_neutral(void *dst, size_t n_elems, pgas_type_t type, pgas_op_t op);

#endif
