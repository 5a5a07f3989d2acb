/** Launch, rank and node map, shared mappings of the node, placement, teams and their collectives:
 *  floor 1. Only files of this folder see MPI and hwloc. */
#ifndef PGASI_BOOT_H
#define PGASI_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "pgas/op.h"
#include "pgas/status.h"
#include "pgas/team.h"

/** The job as this rank knows it: valid between start and stop. Other folders only read it. */
typedef struct {
    int rank, n_ranks;
    int node, n_nodes, node_rank, node_size;
    const int *node_of;      /* [n_ranks] */
    const int *node_members; /* [node_size] global ranks of my node, ascending */
    const int *local_of;     /* [n_ranks] index within my node, -1: on another node */
    const pid_t *node_pids;  /* [node_size] */
    bool reads_peers;        /* the ranks of the host may read each other's memory by number */
    const int *host_members; /* [host_ranks] global ranks of my host */
    /* [host_ranks] as seen by this process; 0: not visible (another PID namespace) */
    const pid_t *host_pids;
    bool same_host_peers; /* some ranks of other (fake) nodes share my host */
    int host_ranks;       /* ranks of the job on my host */
    int host_rank;        /* index of this rank among them */
    int host_cpus;        /* CPUs that those ranks may use together */
    /* processor time that this rank's cgroup grants, 100 is one CPU; 0: no quota */
    int quota_percent;
    bool oversubscribed; /* more host_ranks than host_cpus, or than whole CPUs of the quota */
    uint64_t job_key;    /* random, the same on all ranks, never 0 */
    /* MPI offers only MPI_THREAD_FUNNELED: the initialising thread alone calls collectives */
    bool funneled;
} pgasi_boot_t;
extern pgasi_boot_t pgasi_boot;

/** Starts the job. comm is a `const MPI_Comm *` or NULL. The function calls MPI_Init_thread if
 *  needed and loads parameters (init_params: the text of pgas_init_opts_t, see include/pgas/init.h;
 *  rank 0's values apply). It compares versions and sets up the log, the job key and nodes. Then it
 *  makes the nodes' wakeup flags (wait.h) and the teams of all ranks and of the node. It returns
 *  the same status on all ranks, and undoes everything on error. */
pgas_status_t pgasi_boot_start(const void *comm, const char *init_params);
/** Ends the job, and MPI if start began it. Collective. After the death of a rank it does not wait
 *  for other ranks, does not finalize MPI, and returns PGAS_ERR_PEER. */
pgas_status_t pgasi_boot_stop(void);

/** Ends the job through MPI with one report. Any thread may call it. */
_Noreturn void pgasi_boot_abort(int exit_code);

/** Returns PGAS_OK if the calling thread may take part in a collective over a team now (NULL: all
 *  ranks). It is attached, not in a handler, MPI's thread level allows it, no member is dead. */
pgas_status_t pgasi_boot_enter(pgas_team_t *team);

/** Small collectives over all ranks for set-up. They block and run the progress hook. */
/* returns the worst (most negative) status of all ranks; the lowest rank with it logs it */
pgas_status_t pgasi_boot_agree(pgas_status_t mine);
pgas_status_t pgasi_boot_broadcast(void *buffer, size_t bytes, int root);
pgas_status_t pgasi_boot_allgather(const void *src, void *dst, size_t bytes);
pgas_status_t pgasi_boot_barrier(void);

/** Starts a collective that proceeds while the caller does something else. The arguments are those
 *  of the public functions. end.fn is called once, on a thread of this rank inside the library,
 *  without locks, perhaps before the function returns. @return PGAS_OK: accepted */
typedef struct {
    void (*fn)(void *arg, pgas_status_t status);
    void *arg;
} pgasi_coll_end_t;
pgas_status_t pgasi_barrier_start(pgas_team_t *team, pgasi_coll_end_t end);
pgas_status_t pgasi_broadcast_start(pgas_team_t *team, void *buffer, size_t bytes, int root,
                                    pgasi_coll_end_t end);
pgas_status_t pgasi_allreduce_start(pgas_team_t *team, void *buffer, size_t n_elems,
                                    pgas_type_t type, pgas_op_t op, pgasi_coll_end_t end);
pgas_status_t pgasi_alltoallv_start(pgas_team_t *team, const void *src, const size_t *src_bytes,
                                    void *dst, const size_t *dst_bytes, pgasi_coll_end_t end);

/** The collectives that were started and have not ended. progress continues them, on threads that
 *  may call MPI. @return the number of those that ended */
extern int pgasi_coll_n_pending;
int pgasi_coll_progress(void);
/** Waits, with progress, until those of the team (NULL: all) have ended. */
void pgasi_coll_settle(const pgas_team_t *team);

/** The team of all ranks, for which public functions accept NULL. NULL before start. */
pgas_team_t *pgasi_team_world(void);

/** The number by which the members of a team name it to each other. 0: the team of all ranks, also
 *  for NULL. */
uint32_t pgasi_team_number(const pgas_team_t *team);
/** The team of this number of which this rank is a member. NULL: there is none. Any thread. */
pgas_team_t *pgasi_team_of_number(uint32_t number);
/** What a layer above keeps for a team, or NULL. pgasi_hooks.team_ended gets it when the team is
 *  destroyed. attach is false if another thread was faster; then nothing has changed. */
void *pgasi_team_attachment(const pgas_team_t *team);
bool pgasi_team_attach(pgas_team_t *team, void *attachment);

/** Records that a rank has died (any thread). From now on collectives of teams with it end with
 *  PGAS_ERR_PEER. @return false: this was known */
bool pgasi_boot_peer_died(int rank);

/** The watch (watch.c) runs from the middle of start to the end of stop. It has a thread of its own
 *  if PGAS_SERVICE_THREADS > 0; otherwise waits run it before they sleep (pgasi_hooks.look_around).
 *
 *  run: init is complete. Before it a death ends the job in both modes of PGAS_ON_PEER_DEATH.
 *  leave: after a death, waits with progress until all live ranks have called it. Afterwards the
 *  end of another rank does not count as a death. Without a service ring it does not wait.
 *  set_hook: sets the function that the mode `continue` calls once for each dead rank, on any
 *  thread, without a lock. The hook calls pgasi_boot_peer_died. NULL: the watch calls only that. No
 *  former hook runs once set_hook has returned.
 *  lost: the transport has given up a rank, so the rank counts as dead.
 *  suspect: the transport has lost its connection to a rank and asks whether the rank has died.
 *  True: it has died, or the watch cannot determine it. False: the rank is alive, or its state is
 *  not known yet. Then the watch checks the process. If that has ended, or its host is silent for
 *  PGAS_PEER_TIMEOUT_S, the watch reports the death later like any other: on another thread, or
 *  without service threads in a later wait. lost and suspect may be called with locks held, on any
 *  thread. */
void pgasi_watch_run(void);
void pgasi_watch_leave(void);
void pgasi_watch_set_hook(void (*died)(int rank));
void pgasi_watch_lost(int rank);
bool pgasi_watch_suspect(int rank);
void pgasi_watch_print(FILE *out);

/** Shared mappings: sparse, zeroed, anonymous memory that these functions never touch. Collective
 *  over the ranks that share, same status on all.
 *
 *  create: makes one mapping of `bytes` for all members of the team on this node (a NULL team: all
 *  ranks of the node).
 *  create_each: every rank of the node makes one mapping of its own; addr_of[i] is the address of
 *  node rank i's mapping in this process. want_huge: with huge pages as PGAS_HUGEPAGES says; if
 *  they are wanted and missing, one warning says so. */
typedef struct {
    void *base;
    size_t bytes;
    size_t page_bytes;
} pgasi_shm_t;
pgas_status_t pgasi_shm_create(pgas_team_t *team, size_t bytes, pgasi_shm_t *shm_p);
pgas_status_t pgasi_shm_create_each(size_t bytes, bool want_huge, pgasi_shm_t *mine_p,
                                    void **addr_of);
void pgasi_shm_release(pgasi_shm_t *shm);
void pgasi_shm_release_each(pgasi_shm_t *mine, void **addr_of);

/* the part of large data that travels between nodes at one time */
#define PGASI_TEAM_CHUNK ((size_t)256 << 10)

/** Whether a rank is known to have died (pgasi_boot_peer_died). */
bool pgasi_boot_is_dead(int rank);
bool pgasi_boot_some_dead(void);

/** bind: binds the calling thread as PGAS_BIND says (slot: index of the thread within the rank).
 *  query: returns where the calling thread runs. Both use hwloc. */
void pgasi_place_bind(int slot);
pgas_status_t pgasi_place_query(int *cpu_p, int *numa_p, bool *bound_p);
/** The NUMA zone in which the calling thread runs; -1: unknown, or the machine has only one. */
int pgasi_place_own_zone(void);
/** Binds the calling thread to the CPUs of one of the zones that this rank may use: the index-th,
 *  in turn. Does nothing if these are in one zone. @return the zone; -1: not bound */
int pgasi_place_bind_zone(int index);
/** Distance from the CPUs that the calling thread may use to an RDMA device. 0: some of them are
 *  near, or this is unknown. 1: none is near. */
int pgasi_place_distance(const char *device);

/** NUMA zones by hwloc's logical numbers.
 *
 *  n_zones: how many there are (1 without hwloc).
 *  memory: selects the zone that pages of an area come from; -1: the zone of the first thread that
 *  touches them. Pages that exist already move, unless other processes have touched them too, or a
 *  device has pinned them. If the zone is full, the pages come from another one. The area begins
 *  and ends at page boundaries.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND    no such zone
 *          PGAS_ERR_UNSUPPORTED  the system cannot do it (one warning) */
int pgasi_place_n_zones(void);
pgas_status_t pgasi_place_memory(void *address, size_t bytes, int zone);

/** The address at which other ranks of the team reach this one by TCP: IPv4, or IPv6 in brackets.
 *  On one host it is the loopback. Collective; on error the same status on all.
 *  @param one_host_p  whether all members are on one host
 *  @return PGAS_ERR_NOT_FOUND  a rank has no address on a network that it shares with others */
#define PGASI_BOOT_ADDRESS_BYTES 48
pgas_status_t pgasi_boot_address(pgas_team_t *team, char text[PGASI_BOOT_ADDRESS_BYTES],
                                 bool *one_host_p);

/** The number that the launcher gave to this process; 0 without a launcher. For use before start,
 *  when MPI does not know it yet. */
int pgasi_boot_launcher_rank(void);

/** Name, version and thread level of MPI, for pgas_info; static text. */
const char *pgasi_boot_mpi_text(void);

#endif
