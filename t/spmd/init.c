/* Starting and ending.
 *   what:   pgas_init works before and after MPI_Init and on any communicator. It counts, takes
 *           options, can be called again after the last pgas_finalize, and ends MPI only if it has
 *           started MPI. A weak thread level of MPI is respected.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_TEST_MPI=none | PGAS_TEST_MPI=serialized | PGAS_TEST_MPI=single |
 *   env:    PGAS_TEST_MPI=multiple PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_TEST_MPI=funneled
 *   source: pgas/init.h; public headers
 */
#include <pthread.h>
#include "base/param.h"
#include "t/handlers.h"
#include "t/spmd/job.h"
#include "t/spmd/said.h"

static pgas_handler_t count;
static uint64_t n_counted;

/* The library works: every rank calls every rank and writes to the next one. */
static bool works(void)
{
    pgas_gptr_t ptr = PGAS_NULL, all[JOB_RANKS_MAX];
    int rank = pgas_rank(), n = pgas_n_ranks();
    uint64_t *word;
    n_counted = 0;
    bool good = pgas_alloc(8, &ptr) == PGAS_OK;
    word = pgas_gptr_local(ptr, 8);
    job_gather(ptr, all);
    good = good && pgas_put_u64(all[(rank + 1) % n], (uint64_t)rank + 5) == PGAS_OK &&
           pgas_flush_all() == PGAS_OK;
    for (int r = 0; r < n; r++)
        good = pgas_call(r, count, NULL, 0, NULL) == PGAS_OK && good;
    good = pgas_quiesce() == PGAS_OK && good;
    good = good && n_counted == (uint64_t)n && *word == (uint64_t)((rank + n - 1) % n) + 5;
    return pgas_free(ptr) == PGAS_OK && good;
}

static bool mpi_is(bool up)
{
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    return (started && !ended) == up;
}

static void the_library_owns_mpi(void)
{
    bool good = mpi_is(false) && !pgas_initialized() && pgas_rank() == -1;
    good = pgas_init(NULL, NULL) == PGAS_OK && good;
    int level = 0;
    MPI_Query_thread(&level);
    spmd_progress(job_progress);
    spmd_ok(good && mpi_is(true) && level >= MPI_THREAD_SERIALIZED && pgas_initialized(),
            "init starts MPI, for threads");
    spmd_ok(works() && pgas_rank() == spmd_rank() && pgas_n_ranks() == spmd_size(), "and works");
    good = pgas_init(NULL, NULL) == PGAS_OK && pgas_finalize() == PGAS_OK && pgas_initialized() &&
           works();
    spmd_ok(good, "a second init counts");
    spmd_progress(NULL);
    good = pgas_finalize() == PGAS_OK && !pgas_initialized() && mpi_is(false);
    spmd_ok(good, "the last finalize ends MPI");
    said_begin();
    pgas_status_t status = pgas_init(NULL, NULL);
    said_end();
    spmd_ok(status == PGAS_ERR_MPI && strstr(said_text, "MPI has been finalised"),
            "init after the end of MPI is refused");
}

static void start_and_stop(const MPI_Comm *comm, const char *text)
{
    bool good = pgas_init(comm, NULL) == PGAS_OK && pgas_initialized();
    int n = 1, rank = 0;
    MPI_Comm_size(comm ? *comm : MPI_COMM_WORLD, &n);
    MPI_Comm_rank(comm ? *comm : MPI_COMM_WORLD, &rank);
    good = good && works() && pgas_rank() == rank && pgas_n_ranks() == n;
    good = pgas_finalize() == PGAS_OK && good && mpi_is(true) && !pgas_initialized() && count == 0;
    spmd_ok(good, "%s", text);
}

static void on_many_communicators(void)
{
    int rank = spmd_rank(), n = spmd_size();
    MPI_Comm comm, self = MPI_COMM_SELF, null = MPI_COMM_NULL;
    start_and_stop(NULL, "on all ranks");
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    bool good = pgas_init(&comm, NULL) == PGAS_OK;
    MPI_Comm_free(&comm);
    spmd_progress(job_progress);
    good = good && works();
    spmd_progress(NULL);
    spmd_ok(pgas_finalize() == PGAS_OK && good, "the communicator can be freed after init");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    start_and_stop(&comm, "two jobs at the same time, of the even and the odd ranks, backwards");
    MPI_Comm_free(&comm);
    start_and_stop(&self, "a job for each rank alone");
    MPI_Comm_split(MPI_COMM_WORLD, rank == n - 1 ? MPI_UNDEFINED : 0, rank, &comm);
    if (rank != n - 1) {
        good = pgas_init(&comm, NULL) == PGAS_OK && works() && pgas_finalize() == PGAS_OK;
        MPI_Comm_free(&comm);
    }
    spmd_ok(good, "a job without the last rank");
    said_begin();
    pgas_status_t status = pgas_init(&null, NULL);
    spmd_ok(said_by("MPI_COMM_NULL") == n && status == PGAS_ERR_INVALID, "no communicator");
    for (int i = 0; i < 4; i++)
        good = pgas_init(NULL, NULL) == PGAS_OK && pgas_finalize() == PGAS_OK && good;
    spmd_ok(good && pgas_finalize() == PGAS_ERR_NOT_INIT, "again and again");
}

static void options(void)
{
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    pgas_heap_info_t info = { .size = sizeof info };
    opts.params = spmd_rank() == 0 ? "HEAP_SIZE=1M  PGAS_LANES=3" : "HEAP_SIZE=2M";
    bool good = pgas_init(NULL, &opts) == PGAS_OK && pgas_heap_info(&info) == PGAS_OK &&
                info.heap_bytes == 1 << 20;
    good = good && pgasi_param.ctxs == 3;
    spmd_ok(good, "options win over the environment, and those of rank 0 rule");
    opts.params = "HEAP_SIZE=4M";
    good = pgas_init(NULL, &opts) == PGAS_OK && pgas_heap_info(&info) == PGAS_OK &&
           info.heap_bytes == 1 << 20;
    good = pgas_finalize() == PGAS_OK && pgas_initialized() && works() && good;
    good = pgas_finalize() == PGAS_OK && !pgas_initialized() && good;
    spmd_ok(good, "a second init only counts");
}

static pgas_status_t from_thread[4];
static int thread_bad;

static void *second_thread(void *arg)
{
    (void)arg;
    thread_bad +=
        pgas_thread_attach() != PGAS_OK || pgas_call(pgas_rank(), count, NULL, 0, NULL) != PGAS_OK;
    pgas_gptr_t ptr = PGAS_NULL;
    from_thread[0] = pgas_barrier(NULL);
    from_thread[1] = pgas_alloc(8, &ptr);
    from_thread[2] = pgas_free(ptr);
    from_thread[3] = pgas_handlers_agree();
    thread_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

/* With a weak level of MPI collectives belong to the first thread; calls do not. */
static void collectives_of_another_thread(void)
{
    pthread_t thread;
    int level = 0;
    MPI_Query_thread(&level);
    bool good = pgas_init(NULL, NULL) == PGAS_OK && works();
    pthread_create(&thread, NULL, second_thread, NULL);
    pthread_join(thread, NULL);
    good = pgas_quiesce() == PGAS_OK && good && works() && thread_bad == 0;
    good = pgas_finalize() == PGAS_OK && good;
    for (int i = 0; i < 4; i++)
        good =
            good && from_thread[i] == (level < MPI_THREAD_SERIALIZED ? PGAS_ERR_CONTEXT : PGAS_OK);
    spmd_ok(good, "collectives of another thread at this thread level of MPI");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int level;
    } levels[] = { { "single", MPI_THREAD_SINGLE },
                   { "funneled", MPI_THREAD_FUNNELED },
                   { "serialized", MPI_THREAD_SERIALIZED },
                   { "multiple", MPI_THREAD_MULTIPLE } };
    const char *mode = getenv("PGAS_TEST_MPI");
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    setenv("PGAS_HEAP_SIZE", "4M", 0);
    if (!mode || strcmp(mode, "none") == 0) {
        spmd_begin(&argc, &argv, SPMD_NO_MPI);
        spmd_plan(5);
        the_library_owns_mpi();
        return spmd_end();
    }
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strcmp(mode, levels[i].name) == 0)
            spmd_begin(&argc, &argv, levels[i].level);
    spmd_plan(10);
    on_many_communicators();
    options();
    collectives_of_another_thread();
    return spmd_end();
}
