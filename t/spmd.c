/* The harness of tests of several ranks, see spmd.h.
 *
 * One promise is one MPI_Iallreduce of three numbers: the first failing rank, the number of the
 * promise, and its negative. The negative shows ranks that are out of step. If a rank fails, a
 * broadcast of its message follows. The harness duplicates the communicator at its first use and
 * frees it when MPI ends. The library under test may end MPI. */
#include "t/spmd.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DETAIL_BYTES  512
#define EXIT_MISMATCH 99

static MPI_Comm harness_comm = MPI_COMM_NULL;
static int my_rank, n_ranks = 1;
static bool owns_mpi;
static void (*progress_fn)(void);
static int n_planned = -1, n_run, n_failed;

static void bail_out(const char *text)
{
    printf("Bail out! %s\n", text);
    fflush(stdout);
    _exit(EXIT_MISMATCH);
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first. */
static int release_comm(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    (void)extra;
    if (harness_comm != MPI_COMM_NULL)
        MPI_Comm_free(&harness_comm);
    return MPI_SUCCESS;
}

/* The launcher of another MPI starts n programs, each of which is a job of one rank. */
static void check_launcher(void)
{
    const char *text = getenv("TAP_NP");
    char message[256];
    if (!text || atoi(text) == n_ranks)
        return;
    snprintf(message, sizeof message,
             "launcher does not match the library: it started %s ranks, MPI sees %d; set MPIEXEC "
             "to the launcher of "
             "the MPI that configure found",
             text, n_ranks);
    bail_out(message);
}

/* True when MPI can be used now. The first such call makes the harness's communicator, and is
 * collective. */
static bool mpi_is_up(void)
{
    int started = 0, ended = 0, keyval;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (!started || ended)
        return false;
    if (harness_comm != MPI_COMM_NULL)
        return true;
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    check_launcher();
    MPI_Comm_dup(MPI_COMM_WORLD, &harness_comm);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, release_comm, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    return true;
}

/* The library under test serves its peers while this rank waits, and the processor is yielded to
 * other ranks. */
static void wait_with_progress(MPI_Request *request)
{
    int done = 0;
    for (;;) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            return;
        if (progress_fn)
            progress_fn();
        sched_yield();
    }
}

static void broadcast(void *data, int n_bytes, int root)
{
    MPI_Request request;
    MPI_Ibcast(data, n_bytes, MPI_BYTE, root, harness_comm, &request);
    wait_with_progress(&request);
}

void spmd_begin(int *argc_p, char ***argv_p, int thread_level)
{
    int started = 0, given = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (thread_level == SPMD_NO_MPI)
        return;
    MPI_Initialized(&started);
    if (!started) {
        MPI_Init_thread(argc_p, argv_p, thread_level, &given);
        owns_mpi = true;
        if (given < thread_level)
            bail_out("MPI gives less thread support than the test asks for");
    }
    mpi_is_up();
}

int spmd_end(void)
{
    mpi_is_up();
    if (my_rank == 0 && n_run != n_planned)
        printf("# planned %d, ran %d\n", n_planned, n_run);
    fflush(stdout);
    if (owns_mpi) {
        int ended = 0;
        MPI_Finalized(&ended);
        if (!ended)
            MPI_Finalize();
    }
    return n_failed == 0 && n_run == n_planned ? 0 : 1;
}

void spmd_progress(void (*fn)(void))
{
    progress_fn = fn;
}

int spmd_rank(void)
{
    mpi_is_up();
    return my_rank;
}

int spmd_size(void)
{
    mpi_is_up();
    return n_ranks;
}

/* Before MPI is up every process would print. Only rank 0 prints, if the launcher's environment
 * names it. */
static bool prints(void)
{
    static const char *const rank_variables[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                                  "SLURM_PROCID" };
    if (mpi_is_up())
        return my_rank == 0;
    for (size_t i = 0; i < sizeof rank_variables / sizeof rank_variables[0]; i++) {
        const char *text = getenv(rank_variables[i]);
        if (text)
            return atoi(text) == 0;
    }
    return my_rank == 0;
}

void spmd_plan(int n)
{
    n_planned = n;
    if (prints())
        printf("1..%d\n", n);
}

void spmd_skip_all(const char *why)
{
    n_planned = 0;
    if (prints())
        printf("1..0 # SKIP %s\n", why);
}

void spmd_skip(int n, const char *why)
{
    for (int i = 0; i < n; i++) {
        n_run++;
        if (prints())
            printf("ok %d # SKIP %s\n", n_run, why);
    }
}

void spmd_diag(const char *fmt, ...)
{
    va_list args;
    if (!prints())
        return;
    va_start(args, fmt);
    printf("# ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
}

void spmd_barrier(void)
{
    MPI_Request request;
    if (!mpi_is_up())
        return;
    MPI_Ibarrier(harness_comm, &request);
    wait_with_progress(&request);
}

uint64_t spmd_seed(uint64_t fallback)
{
    const char *text = getenv("TAP_SEED");
    uint64_t seed = fallback != 0 ? fallback : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    if (!text)
        text = getenv("PGAS_TEST_SEED");
    if (text && *text != '\0')
        seed = strtoull(text, NULL, 0);
    if (mpi_is_up())
        broadcast(&seed, sizeof seed, 0);
    spmd_diag("seed %" PRIu64 " (repeat with PGAS_TEST_SEED=%" PRIu64 ")", seed, seed);
    return seed;
}

/* @return the first rank on which good is false, or n_ranks */
static int first_failing(bool good)
{
    int mine[3] = { good ? n_ranks : my_rank, n_run, -n_run }, all[3];
    MPI_Request request;
    MPI_Iallreduce(mine, all, 3, MPI_INT, MPI_MIN, harness_comm, &request);
    wait_with_progress(&request);
    if (all[1] != -all[2])
        bail_out("ranks are at different promises of the test");
    return all[0];
}

/* Judges one promise; detail is the message of the failing rank. */
static bool point(bool good, const char *detail, const char *fmt, va_list args)
{
    char words[DETAIL_BYTES];
    bool up = mpi_is_up();
    n_run++;
    snprintf(words, sizeof words, "%s", detail);
    int failing = good ? INT_MAX : my_rank;
    bool all_good = good;
    if (up) {
        failing = first_failing(good);
        all_good = failing == n_ranks;
    }
    if (!all_good && up)
        broadcast(words, sizeof words, failing);
    n_failed += !all_good;
    if (prints()) {
        printf("%sok %d - ", all_good ? "" : "not ", n_run);
        vprintf(fmt, args);
        printf("\n");
        if (!all_good)
            printf("# rank %d of %d: %s\n", failing, n_ranks, words);
    }
    return all_good;
}

bool spmd_ok_(bool good, const char *file, int line, const char *fmt, ...)
{
    char detail[DETAIL_BYTES];
    va_list args;
    snprintf(detail, sizeof detail, "%s:%d", file, line);
    va_start(args, fmt);
    bool all_good = point(good, detail, fmt, args);
    va_end(args);
    return all_good;
}

bool spmd_is_int_(intmax_t got, intmax_t want, const char *file, int line, const char *fmt, ...)
{
    char detail[DETAIL_BYTES];
    va_list args;
    snprintf(detail, sizeof detail,
             "%s:%d: got %" PRIdMAX " (0x%" PRIxMAX "), want %" PRIdMAX " (0x%" PRIxMAX ")", file,
             line, got, (uintmax_t)got, want, (uintmax_t)want);
    va_start(args, fmt);
    bool all_good = point(got == want, detail, fmt, args);
    va_end(args);
    return all_good;
}

bool spmd_is_str_(const char *got, const char *want, const char *file, int line, const char *fmt,
                  ...)
{
    bool good = got == want || (got && want && strcmp(got, want) == 0);
    char detail[DETAIL_BYTES];
    va_list args;
    snprintf(detail, sizeof detail, "%s:%d: got \"%s\", want \"%s\"", file, line,
             got != NULL ? got : "(null)", want != NULL ? want : "(null)");
    va_start(args, fmt);
    bool all_good = point(good, detail, fmt, args);
    va_end(args);
    return all_good;
}
