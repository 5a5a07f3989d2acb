/* MPI: its begin and end, one call at a time, and the detection of a launcher that belongs to
 * another MPI.
 *
 * The library requests MPI_THREAD_SERIALIZED: service threads never call it, but several
 * application threads may. Each takes one lock, mostly for one non-blocking call. If MPI offers
 * less, only the initialising thread calls collectives. A launcher of another MPI starts N
 * programs, and each of them believes that it is alone. The variables that such a launcher sets
 * reveal it. */
#include "boot/internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/hooks.h"

/* time for MPI_Abort; then SIGALRM ends the process, and the launcher detects that */
#define ABORT_PATIENCE_S 5

#ifndef PGAS_MPI_NAME
#if defined OPEN_MPI
#define PGAS_MPI_NAME "Open MPI"
#elif defined MPICH_VERSION
#define PGAS_MPI_NAME "MPICH"
#else
#define PGAS_MPI_NAME "MPI"
#endif
#endif

static struct {
    pthread_mutex_t mutex; /* one thread calls MPI at a time */
    bool owns_it;          /* the library has initialised it */
    bool is_up;            /* between begin and end */
    bool abandoned;
    bool has_lost; /* a rank died, in this job or in a former one of the process */
    pthread_t first_thread;
    char text[160];
} mpi = { .mutex = PTHREAD_MUTEX_INITIALIZER };

void pgasi_mpi_lock(void)
{
    pthread_mutex_lock(&mpi.mutex);
}

void pgasi_mpi_unlock(void)
{
    pthread_mutex_unlock(&mpi.mutex);
}

pgas_status_t pgasi_mpi_status(int rc, const char *what)
{
    if (PGAS_LIKELY(rc == MPI_SUCCESS))
        return PGAS_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (MPI_Error_string(rc, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", rc);
    PGASI_ERROR("mpi", "%s failed: %s", what, text);
    return PGAS_ERR_MPI;
}

pgas_status_t pgasi_mpi_agree(MPI_Comm comm, pgas_status_t mine)
{
    int worst = (int)mine;
    pgasi_mpi_lock();
    int rc = MPI_Allreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MIN, comm);
    pgasi_mpi_unlock();
    pgas_status_t status = pgasi_mpi_status(rc, "MPI_Allreduce of a status");
    return status != PGAS_OK ? status : (pgas_status_t)worst;
}

void pgasi_mpi_free_comm(MPI_Comm *comm)
{
    if (*comm == MPI_COMM_NULL)
        return;
    if (!mpi.abandoned) {
        pgasi_mpi_lock();
        MPI_Comm_free(comm);
        pgasi_mpi_unlock();
    }
    *comm = MPI_COMM_NULL;
}

/* "Open MPI v4.1.4, MPI_THREAD_SERIALIZED": the library's first line up to a comma, without tabs */
static void describe(int level)
{
    static const struct {
        int level;
        const char *name;
    } levels[] = { { MPI_THREAD_SINGLE, "SINGLE" },
                   { MPI_THREAD_FUNNELED, "FUNNELED" },
                   { MPI_THREAD_SERIALIZED, "SERIALIZED" },
                   { MPI_THREAD_MULTIPLE, "MULTIPLE" } };
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = PGAS_MPI_NAME;
    const char *name = "?";
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\r\n")] = '\0';
    for (char *tab = version; (tab = strchr(tab, '\t')) != NULL;)
        memmove(tab, tab + 1, strlen(tab));
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(levels); i++)
        if (levels[i].level == level)
            name = levels[i].name;
    snprintf(mpi.text, sizeof mpi.text, "%.100s, MPI_THREAD_%s", version, name);
}

const char *pgasi_boot_mpi_text(void)
{
    return mpi.text[0] ? mpi.text : PGAS_MPI_NAME ", not started";
}

static pgas_status_t start_mpi(void)
{
    int started = 0, ended = 0, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&ended);
    if (ended) {
        PGASI_ERROR("mpi", "MPI has been finalised and cannot start again in this process; let the "
                           "program itself call "
                           "MPI_Init and MPI_Finalize to start libpgas more than once");
        return PGAS_ERR_MPI;
    }
    MPI_Initialized(&started);
    if (!started) {
        pgas_status_t status =
            pgasi_mpi_status(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level),
                             "MPI_Init_thread");
        if (status != PGAS_OK)
            return status;
    }
    mpi.owns_it = !started;
    MPI_Query_thread(&level);
    pgasi_boot.funneled = level < MPI_THREAD_SERIALIZED;
    mpi.first_thread = pthread_self();
    describe(level);
    return PGAS_OK;
}

static void end_mpi(void)
{
    if (mpi.owns_it && !mpi.abandoned)
        MPI_Finalize();
    mpi.owns_it = false;
}

/* A communicator of all ranks contains the dead one too, and MPI would wait for it. The program
 * decides about other communicators. */
static bool has_the_dead(const MPI_Comm *comm)
{
    int n = 0, n_all = 0, is_over = 0;
    if (mpi.has_lost)
        MPI_Finalized(&is_over);
    if (!mpi.has_lost || is_over)
        return false;
    MPI_Comm_size(comm ? *comm : MPI_COMM_WORLD, &n);
    MPI_Comm_size(MPI_COMM_WORLD, &n_all);
    return n == n_all;
}

pgas_status_t pgasi_launch_begin(const MPI_Comm *comm, MPI_Comm *world_p)
{
    if (comm && *comm == MPI_COMM_NULL) {
        PGASI_ERROR("mpi", "the communicator given to pgas_init is MPI_COMM_NULL");
        return PGAS_ERR_INVALID;
    }
    if (has_the_dead(comm)) {
        PGASI_ERROR("mpi", "a rank was lost before the last pgas_finalize: give pgas_init a "
                           "communicator without it");
        return PGAS_ERR_PEER;
    }
    pgas_status_t status = start_mpi();
    if (status != PGAS_OK)
        return status;
    MPI_Comm world = MPI_COMM_NULL;
    status = pgasi_mpi_status(MPI_Comm_dup(comm ? *comm : MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    if (status != PGAS_OK)
        goto end;
    status = pgasi_mpi_status(MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN),
                              "MPI_Comm_set_errhandler");
    if (status != PGAS_OK)
        goto free_world;
    mpi.is_up = true;
    mpi.abandoned = false;
    *world_p = world;
    return PGAS_OK;

free_world:
    pgasi_mpi_free_comm(&world);
end:
    end_mpi();
    return status;
}

void pgasi_launch_abandon(void)
{
    mpi.abandoned = mpi.has_lost = true;
    if (mpi.owns_it)
        PGASI_WARN(
            "mpi",
            "a rank died, so MPI is not finalised: let the program end by _exit or MPI_Abort");
}

void pgasi_launch_end(MPI_Comm *world)
{
    mpi.is_up = false;
    pgasi_mpi_free_comm(world);
    end_mpi();
}

bool pgasi_launch_may_call(void)
{
    return !pgasi_boot.funneled || pthread_equal(pthread_self(), mpi.first_thread);
}

/* ---- launchers ---- */

/* Variables that launchers set for the tasks they start, the most reliable first. */
static const struct launcher {
    const char *size, *rank; /* variables: number of tasks, number of this task */
    const char *name, *cure;
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's mpirun", "" },
    { "PMI_SIZE", "PMI_RANK", "a PMI launcher (MPICH's mpiexec, or srun --mpi=pmi2)", "" },
    { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun",
      " (srun --mpi=list shows what srun can do: pmix, pmi2)" },
    { "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux run", " (flux run -o mpi=... or -o pmi=...)" },
    { "PALS_NRANKS", "PALS_RANKID", "PALS", "" },
};

static long number_of(const char *variable, long fallback)
{
    const char *text = pgasi_param_env(variable);
    return text && *text != '\0' ? strtol(text, NULL, 10) : fallback;
}

pgas_status_t pgasi_launch_check(void)
{
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 1)
        return PGAS_OK;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(launchers); i++) {
        const struct launcher *l = &launchers[i];
        long tasks = number_of(l->size, 1);
        if (tasks <= 1)
            continue;
        if (number_of(l->rank, 0) == 0)
            PGASI_ERROR("boot",
                        "%s started %ld tasks, but MPI sees only one: this libpgas was built "
                        "with " PGAS_MPI_NAME
                        ". Start the program with the mpirun of " PGAS_MPI_NAME
                        "%s, or build libpgas with the launcher's MPI (MPICC=... ./configure)",
                        l->name, tasks, l->cure);
        return PGAS_ERR_MISMATCH;
    }
    return PGAS_OK;
}

int pgasi_boot_launcher_rank(void)
{
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(launchers); i++)
        if (number_of(launchers[i].size, 0) > 0)
            return (int)number_of(launchers[i].rank, 0);
    return 0;
}

/* ---- the end of the job ---- */

/* Another thread may hold the lock in a call that never ends: after a second it is not waited
 * for. */
static void try_lock_for_a_while(void)
{
    static const struct timespec pause = { 0, 10000000 };
    for (int i = 0; i < 100 && pthread_mutex_trylock(&mpi.mutex) != 0; i++)
        nanosleep(&pause, NULL);
}

_Noreturn void pgasi_boot_abort(int exit_code)
{
    static int entered;
    /* another thread ends the job, or MPI_Abort has called this function again */
    if (__atomic_exchange_n(&entered, 1, __ATOMIC_ACQ_REL)) {
        sleep(ABORT_PATIENCE_S + 1);
        _exit(exit_code);
    }
    if (pgasi_hooks.aborting)
        pgasi_hooks.aborting(exit_code);
    signal(SIGALRM, SIG_DFL);
    alarm(ABORT_PATIENCE_S);
    if (mpi.is_up) {
        try_lock_for_a_while();
        MPI_Abort(MPI_COMM_WORLD, exit_code);
    }
    _exit(exit_code);
}
