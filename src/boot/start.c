/* Start of the job: from a communicator to ranks, parameters, nodes and teams; and its end.
 *
 * Until the teams exist all communication is blocking MPI on a duplicate of the user's
 * communicator: all ranks are in this function, and no rank waits for service yet. Every step ends
 * in an agreement, so that all ranks leave with the same status. Versions are compared before
 * anything whose layout may depend on them. */
#include "boot/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/hooks.h"
#include "pgas/version.h"

#define VERSION_BYTES 32

static MPI_Comm world = MPI_COMM_NULL, node = MPI_COMM_NULL;

/* ---- versions ---- */

/* PGAS_TEST_VERSION=RANK:TEXT makes one rank claim another version. */
static void own_version(char version[VERSION_BYTES])
{
    const char *test = pgasi_param_env("PGAS_TEST_VERSION");
    const char *colon = test != NULL ? strchr(test, ':') : NULL;
    memset(version, 0, VERSION_BYTES);
    if (colon && atoi(test) == pgasi_boot.rank)
        snprintf(version, VERSION_BYTES, "%s", colon + 1);
    else
        snprintf(version, VERSION_BYTES, "%s", PGAS_VERSION_TEXT);
}

static pgas_status_t compare_versions(void)
{
    char mine[VERSION_BYTES], first[VERSION_BYTES];
    own_version(mine);
    memcpy(first, mine, sizeof first);
    pgas_status_t status = pgasi_mpi_status(MPI_Bcast(first, VERSION_BYTES, MPI_BYTE, 0, world),
                                            "MPI_Bcast of the version");
    if (status != PGAS_OK)
        return status;
    int odd = memcmp(mine, first, sizeof mine) != 0 ? pgasi_boot.rank : pgasi_boot.n_ranks;
    int mine_is_odd = odd;
    status = pgasi_mpi_status(MPI_Allreduce(MPI_IN_PLACE, &odd, 1, MPI_INT, MPI_MIN, world),
                              "MPI_Allreduce of versions");
    if (status != PGAS_OK || odd == pgasi_boot.n_ranks)
        return status;
    if (odd == mine_is_odd)
        PGASI_ERROR(
            "boot",
            "this rank runs libpgas %.*s, rank 0 runs %.*s: let all hosts load the same library",
            VERSION_BYTES - 1, mine, VERSION_BYTES - 1, first);
    return PGAS_ERR_MISMATCH;
}

/* ---- parameters ---- */

static uint64_t make_job_key(void)
{
    uint64_t key = 0;
    if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key)
        key = pgasi_hash_combine(pgasi_now_ns() ^ (uint64_t)time(NULL), (uint64_t)getpid());
    return key != 0 ? key : 1;
}

/* The lowest rank that could not read its own parameters reports it. */
static pgas_status_t agree_that_params_parse(pgas_status_t mine, const char *why)
{
    int odd = mine != PGAS_OK ? pgasi_boot.rank : pgasi_boot.n_ranks, first = odd;
    pgas_status_t status = pgasi_mpi_status(MPI_Allreduce(&odd, &first, 1, MPI_INT, MPI_MIN, world),
                                            "MPI_Allreduce of the parameters");
    if (status != PGAS_OK || first == pgasi_boot.n_ranks)
        return status;
    if (odd == first)
        PGASI_ERROR("param", "%s", why);
    return PGAS_ERR_INVALID;
}

/* Every rank reads its own environment, to know origins and to refuse invalid values. Rank 0's
 * values apply. */
static pgas_status_t agree_on_params(const char *init_params)
{
    static struct {
        pgasi_params_t params;
        uint64_t job_key;
    } first;
    char why[PGASI_PARAM_WHY_BYTES] = "";
    pgas_status_t mine = pgasi_param_load(&pgasi_param, pgasi_param_origins, why, sizeof why);
    if (mine == PGAS_OK && init_params)
        mine = pgasi_param_set_list(&pgasi_param, pgasi_param_origins, init_params,
                                    PGASI_PARAM_FROM_INIT, why, sizeof why);
    /* an unknown name is the caller's mistake, too */
    mine = mine == PGAS_ERR_NOT_FOUND ? PGAS_ERR_INVALID : mine;
    pgas_status_t status = agree_that_params_parse(mine, why);
    if (status != PGAS_OK)
        return status;
    if (pgasi_boot.rank == 0) {
        first.params = pgasi_param;
        first.job_key = make_job_key();
    }
    status = pgasi_mpi_status(MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, world),
                              "MPI_Bcast of the parameters");
    if (status != PGAS_OK)
        return status;
    pgasi_param_adopt(&pgasi_param, pgasi_param_origins, &first.params);
    pgasi_boot.job_key = first.job_key;
    return PGAS_OK;
}

/* Some launchers pass variables to rank 0 alone, such as Open MPI without -x. Ranks that do not
 * have them adopt them. */
static pgas_status_t share_ucx_settings(void)
{
    uint64_t bytes = pgasi_boot.rank == 0 ? pgasi_param_ucx_pack(NULL, 0) : 0;
    pgas_status_t status =
        pgasi_mpi_status(MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, world), "MPI_Bcast of a size");
    if (status != PGAS_OK || bytes == 0)
        return status;
    char *text = calloc(1, bytes);
    status =
        pgasi_mpi_agree(world, text != NULL && bytes <= INT_MAX ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK && pgasi_boot.rank == 0)
        pgasi_param_ucx_pack(text, bytes);
    if (status == PGAS_OK)
        status = pgasi_mpi_status(MPI_Bcast(text, (int)bytes, MPI_BYTE, 0, world),
                                  "MPI_Bcast of PGAS_UCX_ variables");
    if (status == PGAS_OK && pgasi_boot.rank != 0)
        pgasi_param_ucx_adopt(text, bytes);
    free(text);
    return status;
}

static void set_up_log(void)
{
    char why[PGASI_PARAM_WHY_BYTES];
    pgasi_log_setup(pgasi_param.log, pgasi_boot.rank, pgasi_boot.n_ranks, why, sizeof why);
    if (pgasi_boot.rank == 0)
        pgasi_param_warn_unknown();
}

/* ---- start and stop ---- */

/* The first rank of the node reports the end. Ranks of other hosts learn it. */
static void announce_end(int exit_code)
{
    if (pgasi_shm_first_to_report(PGASI_REPORT_END))
        PGASI_ERROR("boot", "ending the job with exit code %d", exit_code);
    pgasi_watch_abort(exit_code);
}

static void on_fatal(void)
{
    pgasi_boot_abort(134); /* the exit code that a shell shows for SIGABRT */
}

static pgas_status_t start_node_services(void)
{
    pgas_status_t status = pgasi_mpi_agree(world, pgasi_shm_start(node));
    if (status != PGAS_OK)
        goto stop_shm;
    status = pgasi_mpi_agree(world, pgasi_wait_start());
    if (status != PGAS_OK)
        goto stop_wait;
    pgas_status_t light = pgasi_wait_light_is_fence ? PGAS_ERR_UNSUPPORTED : PGAS_OK;
    pgasi_wait_light_is_fence = pgasi_mpi_agree(world, light) != PGAS_OK;
    status = pgasi_team_start(world, &node);
    if (status != PGAS_OK)
        goto stop_wait;
    return PGAS_OK;

stop_wait:
    pgasi_wait_stop();
stop_shm:
    pgasi_shm_stop();
    return status;
}

pgas_status_t pgasi_boot_start(const void *comm, const char *init_params)
{
    pgasi_hooks.aborting = announce_end;
    char why[PGASI_PARAM_WHY_BYTES];
    memset(&pgasi_boot, 0, sizeof pgasi_boot);
    pgasi_boot.rank = -1;
    pgas_status_t status = pgasi_launch_begin(comm, &world);
    if (status != PGAS_OK)
        return status;
    MPI_Comm_rank(world, &pgasi_boot.rank);
    MPI_Comm_size(world, &pgasi_boot.n_ranks);
    pgasi_log_setup(PGASI_LOG_DEFAULT, pgasi_boot.rank, pgasi_boot.n_ranks, why, sizeof why);
    status = pgasi_launch_check();
    if (status == PGAS_OK)
        status = compare_versions();
    if (status == PGAS_OK)
        status = agree_on_params(init_params);
    if (status == PGAS_OK)
        status = share_ucx_settings();
    if (status != PGAS_OK)
        goto end_launch;
    set_up_log();
    status = pgasi_node_start(world, &node);
    if (status != PGAS_OK)
        goto end_launch;
    status = pgasi_watch_start(world);
    if (status != PGAS_OK)
        goto stop_node;
    status = start_node_services();
    if (status != PGAS_OK)
        goto stop_watch;
    pgasi_log_set_fatal_hook(on_fatal);
    return PGAS_OK;

stop_watch:
    pgasi_watch_end(world);
stop_node:
    pgasi_mpi_free_comm(&node);
    pgasi_node_stop();
end_launch:
    pgasi_param_ucx_return();
    pgasi_launch_end(&world);
    memset(&pgasi_boot, 0, sizeof pgasi_boot);
    pgasi_boot.rank = -1;
    return status;
}

pgas_status_t pgasi_boot_stop(void)
{
    bool all_live = !pgasi_team_is_broken(pgasi_team_world()) &&
                    /* with progress, because some ranks may be late */
                    pgasi_coll_barrier(pgasi_team_world()) == PGAS_OK;
    if (!all_live) {
        pgasi_launch_abandon();
        pgasi_watch_leave();
    }
    pgasi_hooks.progress = NULL;
    pgasi_hooks.may_enter = NULL;
    pgasi_place_stop();
    /* no wakeups follow */
    if (pgasi_watch_end(all_live ? world : MPI_COMM_NULL) != PGAS_OK && all_live) {
        pgasi_launch_abandon();
        all_live = false;
    }
    pgasi_team_stop();
    pgasi_log_set_fatal_hook(NULL);
    pgasi_log_remove_backtrace();
    pgasi_wait_stop();
    pgasi_shm_stop();
    pgasi_mpi_free_comm(&node);
    pgasi_node_stop();
    pgasi_param_ucx_return();
    pgasi_launch_end(&world);
    memset(&pgasi_boot, 0, sizeof pgasi_boot);
    pgasi_boot.rank = -1;
    return all_live ? PGAS_OK : PGAS_ERR_PEER;
}

/* ---- small collectives for set-up ---- */

/* As for the public functions: see coll.c. */
static bool is_whole(void)
{
    return !pgasi_team_world()->broken;
}

pgas_status_t pgasi_boot_agree(pgas_status_t mine)
{
    if (!is_whole())
        return PGAS_ERR_PEER;
    int64_t key = (int64_t)PGASI_MIN((int)mine, 0) * (INT64_C(1) << 32) + pgasi_boot.rank, least;
    pgas_status_t status =
        pgasi_coll_allreduce(pgasi_team_world(), &key, &least, 1, PGAS_I64, PGAS_MIN);
    if (status != PGAS_OK)
        return status;
    int64_t rank = least & INT64_C(0xffffffff);
    pgas_status_t worst = (pgas_status_t)((least - rank) / (INT64_C(1) << 32));
    if (worst != PGAS_OK && rank == pgasi_boot.rank)
        PGASI_INFO("boot", "all ranks stop, because this rank reports: %s",
                   pgas_status_text(worst));
    return worst;
}

pgas_status_t pgasi_boot_broadcast(void *buffer, size_t bytes, int root)
{
    return !is_whole() ? PGAS_ERR_PEER
                       : pgasi_coll_broadcast(pgasi_team_world(), buffer, bytes, root);
}

pgas_status_t pgasi_boot_allgather(const void *src, void *dst, size_t bytes)
{
    return !is_whole() ? PGAS_ERR_PEER : pgasi_coll_allgather(pgasi_team_world(), src, dst, bytes);
}

pgas_status_t pgasi_boot_barrier(void)
{
    return !is_whole() ? PGAS_ERR_PEER : pgasi_coll_barrier(pgasi_team_world());
}
