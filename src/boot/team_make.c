/* The making of teams: their members, the communicators and the board that carry their collectives.
 *
 * A team is made collectively. First all members meet, with progress, so that no rank starves while
 * it waits for a late one. The set-up after that is blocking MPI, and no rank is late for it. If a
 * member dies before the set-up, the others get PGAS_ERR_PEER. If one dies during the set-up, the
 * job ends (pgasi_watch_block), because calls of MPI cannot be interrupted. */
#include "boot/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/hooks.h"

/* ---- making ---- */

static void free_team(pgas_team_t *team)
{
    bool broken = pgasi_team_is_broken(team);
    pgasi_mpi_free_comm(&team->leaders);
    pgasi_team_leave_number(team);
    if (team->attachment && pgasi_hooks.team_ended)
        pgasi_hooks.team_ended(team->attachment);
    pgasi_mpi_free_comm(&team->comm);
    pgasi_shm_release(&team->board_shm);
    free(team->board.wakeup_of);
    free(team->global_of);
    free(team->by_global);
    free(team->node_index_of);
    free(team->local_of);
    /* otherwise MPI may still write there, because a request that the dead rank left open cannot be
     * withdrawn */
    if (!broken)
        free(team->scratch);
    free(team);
}

static const pgas_team_t *sorted_team; /* for qsort; teams are made by one thread at a time */

static int by_global_rank(const void *a, const void *b)
{
    int x = sorted_team->global_of[*(const int *)a], y = sorted_team->global_of[*(const int *)b];
    return (x > y) - (x < y);
}

/* Finds the global rank of each process of a communicator, without communication; NULL: no
 * memory. */
static int *members_of(MPI_Comm comm)
{
    MPI_Group group, all;
    int n;
    pgasi_mpi_lock();
    MPI_Comm_size(comm, &n);
    int *number = malloc((size_t)n * sizeof *number),
        *global_of = malloc((size_t)n * sizeof *global_of);
    MPI_Comm_group(comm, &group);
    MPI_Comm_group(pgasi_teams.world->comm, &all);
    for (int i = 0; number && i < n; i++)
        number[i] = i;
    if (number && global_of)
        MPI_Group_translate_ranks(group, n, number, all, global_of);
    MPI_Group_free(&group);
    MPI_Group_free(&all);
    pgasi_mpi_unlock();
    if (!number) {
        free(global_of);
        return NULL;
    }
    free(number);
    return global_of;
}

/* Makes the tables of global ranks; NULL where a table would be the identity. */
static pgas_status_t know_members(pgas_team_t *team)
{
    size_t n = (size_t)team->size;
    int *global_of = members_of(team->comm), *by_global = malloc(n * sizeof *by_global);
    pgas_status_t status =
        pgasi_mpi_agree(team->comm, global_of && by_global ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK) {
        free(global_of);
        free(by_global);
        return status;
    }
    bool ascending = true;
    for (int i = 0; i < team->size; i++) {
        by_global[i] = i;
        ascending = ascending && (i == 0 || global_of[i] > global_of[i - 1]);
    }
    team->global_of = global_of;
    if (ascending) {
        free(by_global);
        return PGAS_OK;
    }
    sorted_team = team;
    qsort(by_global, n, sizeof *by_global, by_global_rank);
    team->by_global = by_global;
    return PGAS_OK;
}

/* Numbers the team's nodes by their lowest team rank, and the members of each node. */
static pgas_status_t know_nodes(pgas_team_t *team)
{
    size_t n = (size_t)team->size, n_nodes = (size_t)pgasi_boot.n_nodes;
    int *index = malloc(n_nodes * sizeof *index), *count = calloc(n_nodes, sizeof *count);
    team->node_index_of = malloc(n * sizeof(int));
    team->local_of = malloc(n * sizeof(int));
    team->board.wakeup_of = malloc((size_t)pgasi_boot.node_size * sizeof(int));
    bool have_all =
        index && count && team->node_index_of && team->local_of && team->board.wakeup_of;
    pgas_status_t status = pgasi_mpi_agree(team->comm, have_all ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK || !have_all)
        goto out;
    memset(index, -1, n_nodes * sizeof *index);
    for (int i = 0; i < team->size; i++) {
        int global = pgas_team_to_global(team, i), node = pgasi_boot.node_of[global];
        if (index[node] < 0)
            index[node] = team->n_nodes++;
        if (node == pgasi_boot.node)
            team->board.wakeup_of[count[node]] = pgasi_boot.local_of[global];
        team->node_index_of[i] = index[node];
        team->local_of[i] = count[node]++;
    }
    team->in_order = true;
    for (int i = 1; i < team->size; i++)
        team->in_order = team->in_order && team->node_index_of[i] >= team->node_index_of[i - 1];
    team->node_index = team->node_index_of[team->rank];
    team->board.n = count[pgasi_boot.node];
    team->board.me = team->local_of[team->rank];
    if (team->n_nodes == 1) {
        free(team->node_index_of);
        free(team->local_of);
        team->node_index_of = team->local_of = NULL;
    }
out:
    free(index);
    free(count);
    return status;
}

static pgas_status_t make_leaders(pgas_team_t *team)
{
    if (team->n_nodes == 1)
        return PGAS_OK;
    pgasi_mpi_lock();
    int rc = MPI_Comm_split(team->comm, team->board.me == 0 ? 0 : MPI_UNDEFINED, team->rank,
                            &team->leaders);
    pgasi_mpi_unlock();
    return pgasi_mpi_status(rc, "MPI_Comm_split of a team's leaders");
}

static pgas_status_t sync_by_comm(void *arg, pgas_status_t mine)
{
    return pgasi_mpi_agree(*(MPI_Comm *)arg, mine);
}

static bool board_is_broken(void *arg)
{
    return pgasi_team_is_broken(arg);
}

static pgas_status_t make_board(pgas_team_t *team)
{
    int n = team->board.n, me = team->board.me, *wakeup_of = team->board.wakeup_of;
    pgas_status_t status = pgasi_shm_share(wakeup_of[0], n > 1 ? pgasi_board_bytes(n) : 0,
                                           sync_by_comm, &team->comm, &team->board_shm);
    if (status != PGAS_OK)
        return status;
    pgasi_board_init(&team->board, team->board_shm.base, n, me, wakeup_of);
    team->board.is_broken = board_is_broken;
    team->board.arg = team;
    team->board.pids = pgasi_boot.reads_peers ? pgasi_boot.node_pids : NULL;
    return PGAS_OK;
}

/* Allocates memory for chunks of large data and for small data of all nodes. Only large data touch
 * all of it. */
static pgas_status_t make_scratch(pgas_team_t *team)
{
    if (team->n_nodes > 1) {
        team->scratch_bytes = PGASI_TEAM_CHUNK + (size_t)team->size * sizeof(uint64_t);
        team->scratch = malloc(3 * team->scratch_bytes);
    }
    return pgasi_mpi_agree(team->comm,
                           team->n_nodes == 1 || team->scratch ? PGAS_OK : PGAS_ERR_NO_MEMORY);
}

/* The members agree on a number that none of them has used. Later steps are collective, too, so the
 * number is known on all members when the team is made. */
static pgas_status_t agree_on_number(pgas_team_t *team)
{
    uint32_t mine = pgasi_teams.last_number + 1, number = 0;
    pgasi_mpi_lock();
    int rc = MPI_Allreduce(&mine, &number, 1, MPI_UINT32_T, MPI_MAX, team->comm);
    pgasi_mpi_unlock();
    pgas_status_t status = pgasi_mpi_status(rc, "MPI_Allreduce of a team's number");
    if (status == PGAS_OK)
        pgasi_team_enter_number(team, number);
    return status;
}

/* Makes a team of the ranks of comm; the team owns comm then. Collective and blocking. */
static pgas_status_t make_team(MPI_Comm comm, bool is_world, pgas_team_t **team_p)
{
    pgas_team_t *team = calloc(1, sizeof *team);
    pgas_status_t status = pgasi_mpi_agree(comm, team != NULL ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status != PGAS_OK || !team) {
        free(team);
        pgasi_mpi_free_comm(&comm);
        return status;
    }
    team->comm = comm;
    team->leaders = MPI_COMM_NULL;
    MPI_Comm_rank(comm, &team->rank);
    MPI_Comm_size(comm, &team->size);
    if (!is_world)
        status = know_members(team);
    if (status == PGAS_OK && !is_world)
        status = agree_on_number(team);
    if (status == PGAS_OK)
        status = know_nodes(team);
    if (status == PGAS_OK)
        status = make_leaders(team);
    if (status == PGAS_OK)
        status = make_board(team);
    if (status == PGAS_OK)
        status = make_scratch(team);
    if (status != PGAS_OK) {
        free_team(team);
        return status;
    }
    *team_p = team;
    return PGAS_OK;
}

/* ---- start and stop ---- */

pgas_status_t pgasi_team_start(MPI_Comm world, MPI_Comm *node)
{
    pgas_status_t status = pgasi_mpi_agree(world, pgasi_job_start());
    if (status != PGAS_OK)
        goto stop_job;
    MPI_Comm world_copy = MPI_COMM_NULL;
    status = pgasi_mpi_status(MPI_Comm_dup(world, &world_copy), "MPI_Comm_dup");
    if (status == PGAS_OK)
        status = make_team(world_copy, true, &pgasi_teams.world);
    if (status != PGAS_OK)
        goto stop_job;
    status = make_team(*node, false, &pgasi_teams.node);
    *node = MPI_COMM_NULL;
    status = pgasi_mpi_agree(world, status);
    if (status == PGAS_OK)
        return PGAS_OK;
    if (pgasi_teams.node)
        free_team(pgasi_teams.node);
    pgasi_teams.node = NULL;
    free_team(pgasi_teams.world);
    pgasi_teams.world = NULL;
stop_job:
    pgasi_job_stop();
    return status;
}

/* The oldest team is first: MPI frees communicators collectively, and all ranks made theirs in one
 * order. */
static void free_made_teams(void)
{
    while (pgasi_teams.made) {
        pgas_team_t **last_p = &pgasi_teams.made;
        while ((*last_p)->next)
            last_p = &(*last_p)->next;
        pgas_team_t *team = *last_p;
        *last_p = NULL;
        if (team->rank == 0 && !pgasi_team_is_broken(team)) /* a broken one cannot be destroyed */
            PGASI_WARN("team",
                       "a team of %d ranks was not destroyed before the library ended: "
                       "pgas_team_destroy is missing",
                       team->size);
        free_team(team);
    }
}

void pgasi_team_stop(void)
{
    free_made_teams();
    free_team(pgasi_teams.node);
    free_team(pgasi_teams.world);
    pgasi_teams.node = pgasi_teams.world = NULL;
    pgasi_job_stop();
}

/* ---- the public functions ---- */

/* All members of the parent have entered, and their arguments are valid. */
static pgas_status_t meet(pgas_team_t *parent, pgas_status_t mine)
{
    int32_t worst = (int32_t)mine;
    pgas_status_t status = pgasi_coll_allreduce(parent, &worst, &worst, 1, PGAS_I32, PGAS_MIN);
    return status != PGAS_OK ? status : (pgas_status_t)worst;
}

static void keep(pgas_team_t *team, pgas_team_t **team_p)
{
    team->next = pgasi_teams.made;
    pgasi_teams.made = team;
    *team_p = team;
}

pgas_status_t pgas_team_split(pgas_team_t *parent, int color, int key, pgas_team_t **team_p)
{
    pgas_status_t status = pgasi_coll_enter(&parent);
    if (status == PGAS_OK && parent->broken)
        status = PGAS_ERR_PEER;
    if (status != PGAS_OK)
        return status;
    bool good = team_p && (color >= 0 || color == PGAS_COLOR_NONE);
    status = meet(parent, good ? PGAS_OK : PGAS_ERR_INVALID);
    if (status != PGAS_OK || !good)
        return status;
    MPI_Comm comm = MPI_COMM_NULL;
    pgas_team_t *team = NULL;
    if (!pgasi_watch_block(parent))
        return PGAS_ERR_PEER;
    pgasi_mpi_lock();
    int rc =
        MPI_Comm_split(parent->comm, color == PGAS_COLOR_NONE ? MPI_UNDEFINED : color, key, &comm);
    pgasi_mpi_unlock();
    status = pgasi_mpi_status(rc, "MPI_Comm_split of a team");
    if (status == PGAS_OK && comm != MPI_COMM_NULL)
        status = make_team(comm, false, &team);
    pgasi_watch_unblock();
    status = meet(parent, status); /* also when another part of the parent failed */
    if (status != PGAS_OK) {
        if (team)
            free_team(team);
        return status;
    }
    if (team)
        keep(team, team_p);
    else
        *team_p = NULL;
    return PGAS_OK;
}

/* Duplicates the user's communicator, with progress until all have arrived. Calls of MPI on the
 * duplicate return their errors. */
static pgas_status_t duplicate(const MPI_Comm *comm, pgas_team_t *members, MPI_Comm *copy_p)
{
    if (pgasi_team_is_broken(members))
        return PGAS_ERR_PEER;
    MPI_Request request = MPI_REQUEST_NULL;
    pgasi_mpi_lock();
    int rc = MPI_Comm_idup(*comm, copy_p, &request);
    pgasi_mpi_unlock();
    pgas_status_t status = pgasi_between_wait(members, rc, &request, "MPI_Comm_idup");
    if (status != PGAS_OK)
        return status;
    MPI_Comm_set_errhandler(*copy_p, MPI_ERRORS_RETURN);
    return pgasi_between_barrier(members, *copy_p);
}

static pgas_status_t make_from_comm(const MPI_Comm *comm, pgas_team_t *members,
                                    pgas_team_t **team_p)
{
    MPI_Comm copy = MPI_COMM_NULL;
    pgas_status_t status = duplicate(comm, members, &copy);
    if (status != PGAS_OK)
        return status;
    if (!pgasi_watch_block(members))
        return PGAS_ERR_PEER;
    status = make_team(copy, false, team_p);
    pgasi_watch_unblock();
    return status;
}

static bool all_are_ours(const pgas_team_t *members)
{
    for (int i = 0; i < members->size; i++)
        if (members->global_of[i] == MPI_UNDEFINED)
            return false;
    return true;
}

pgas_status_t pgas_team_from_comm(const MPI_Comm *comm, pgas_team_t **team_p)
{
    pgas_team_t *any = NULL, *team = NULL;
    pgas_status_t status = pgasi_coll_enter(&any);
    if (status != PGAS_OK)
        return status;
    if (!comm || *comm == MPI_COMM_NULL || !team_p)
        return PGAS_ERR_INVALID;
    int inter = 0;
    MPI_Comm_test_inter(*comm, &inter);
    if (inter)
        return PGAS_ERR_INVALID;
    /* used only to find out whether a member is dead, or of another job */
    pgas_team_t members = { .global_of = members_of(*comm) };
    if (members.global_of)
        MPI_Comm_size(*comm, &members.size);
    if (all_are_ours(&members))
        status = make_from_comm(comm, members.global_of ? &members : pgasi_teams.world, &team);
    else
        status = PGAS_ERR_INVALID;
    free(members.global_of);
    if (status == PGAS_OK)
        keep(team, team_p);
    return status;
}

pgas_status_t pgas_team_destroy(pgas_team_t *team)
{
    pgas_team_t *any = NULL;
    if (!team)
        return PGAS_OK;
    pgas_status_t status = pgasi_coll_enter(&any);
    if (status != PGAS_OK)
        return status;
    pgas_team_t **at = &pgasi_teams.made;
    while (*at && *at != team)
        at = &(*at)->next;
    if (!*at)
        return PGAS_ERR_INVALID;
    pgasi_coll_settle(team);
    /* with progress; afterwards no rank reads the board any more */
    status = pgasi_coll_barrier(team);
    if (status != PGAS_OK)
        return status;
    *at = team->next;
    free_team(team);
    return PGAS_OK;
}
