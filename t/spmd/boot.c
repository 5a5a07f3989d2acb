/* what:    All ranks leave the start with the same status and the same map of ranks, nodes and
 *          parameters, whatever was wrong on one of them. A failed start undoes its steps. Waiting
 *          ranks keep running the progress hook.
 * np:      1 2 3 4 5 7
 * nodes:   0 2 3 1
 * source:  the log is read back from a file, so that expected errors are judged here and not by
 *          t/launch */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "pgas/coll.h"
#include "pgas/init.h"
#include "pgas/version.h"
#include "t/spmd.h"

/* ---- the log ---- */

static int log_file, log_before;

static void log_begin(void)
{
    log_file = memfd_create("log", MFD_CLOEXEC);
    log_before = pgasi_log_set_fd(log_file);
}

/* The lines since log_begin, in static memory. */
static const char *log_end(void)
{
    static char text[8192];
    pgasi_log_set_fd(log_before);
    ssize_t n = pread(log_file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(log_file);
    return text;
}

static int n_lines(const char *text)
{
    int n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        n++;
    return n;
}

/* Starts, and stops if that went well. */
static pgas_status_t try_start(const char *init_params, const char **log_p)
{
    log_begin();
    pgas_status_t status = pgasi_boot_start(NULL, init_params);
    if (status == PGAS_OK)
        pgasi_boot_stop();
    *log_p = log_end();
    return status;
}

/* On one rank only. */
static void set_here(int rank, const char *name, const char *value)
{
    if (spmd_rank() == rank)
        setenv(name, value, 1);
}

/* ---- maps ---- */

static bool nodes_make_sense(void)
{
    const pgasi_boot_t *b = &pgasi_boot;
    int highest = -1, members = 0;
    for (int i = 0; i < b->n_ranks; i++) {
        if (b->node_of[i] > highest + 1) /* numbered by their lowest rank */
            return false;
        highest = b->node_of[i] > highest ? b->node_of[i] : highest;
        bool mine = b->node_of[i] == b->node;
        if (b->local_of[i] != (mine ? members : -1) || (mine && b->node_members[members] != i))
            return false;
        members += mine;
    }
    return highest + 1 == b->n_nodes && members == b->node_size &&
           b->node_members[b->node_rank] == b->rank && b->node_pids[b->node_rank] == getpid();
}

/* A pid is that of a living process, or not known. */
static bool host_makes_sense(void)
{
    const pgasi_boot_t *b = &pgasi_boot;
    int n_me = 0;
    for (int i = 0; i < b->host_ranks; i++) {
        bool me = b->host_members[i] == b->rank;
        n_me += me;
        if (b->host_pids[i] != 0 &&
            (me != (b->host_pids[i] == getpid()) || kill(b->host_pids[i], 0) != 0))
            return false;
        if (b->host_pids[i] == 0 && b->node_size > 1 && b->local_of[b->host_members[i]] >= 0)
            return false;
    }
    return n_me == 1;
}

static void maps(void)
{
    const pgasi_boot_t *b = &pgasi_boot;
    int size = spmd_size(), limit = pgasi_param.node_maxsize,
        *all = calloc((size_t)size * (size_t)size, sizeof *all);
    spmd_ok(b->rank == spmd_rank() && b->n_ranks == size && b->host_ranks == size &&
                b->host_cpus > 0 && b->oversubscribed == (size > b->host_cpus),
            "ranks and host are those of MPI");
    spmd_ok(host_makes_sense(), "processes of the host are known by their numbers");
    spmd_ok(nodes_make_sense() && b->same_host_peers == (b->node_size < size),
            "nodes and their members fit together");
    spmd_ok(b->node_size <= (limit > 0 ? limit : size) &&
                b->n_nodes == (limit > 0 ? (size + limit - 1) / limit : 1),
            "fake nodes have %d ranks at most", limit);
    bool same = pgasi_boot_allgather(b->node_of, all, (size_t)size * sizeof *all) == PGAS_OK;
    for (int i = 0; i < size * size; i++)
        same = same && all[i] == b->node_of[i % size];
    free(all);
    uint64_t key = b->job_key;
    same = same && pgasi_boot_broadcast(&key, sizeof key, size - 1) == PGAS_OK &&
           key == b->job_key && key != 0;
    spmd_ok(same, "all ranks have the same node map and job key");
}

/* ---- small collectives ---- */

static void agreement(void)
{
    int last = spmd_size() - 1;
    spmd_ok(pgasi_boot_agree(PGAS_OK) == PGAS_OK, "all well is agreed on");
    pgas_status_t worst = pgasi_boot_agree(spmd_rank() == last ? PGAS_ERR_IO : PGAS_OK);
    pgas_status_t worse = pgasi_boot_agree(spmd_rank() == last ? PGAS_ERR_IO : PGAS_ERR_MISMATCH);
    spmd_ok(worst == PGAS_ERR_IO && worse == PGAS_ERR_IO, "the worst status of all is agreed on");
}

/* ---- shared memory ---- */

static int count_fds(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static void one_region(pgas_team_t *team, const char *name)
{
    enum { STRIDE = 1 << 20 };
    pgasi_shm_t shm;
    int me = pgasi_boot.node_rank, n = pgasi_boot.node_size, before = count_fds();
    bool good = pgasi_shm_create(team, (size_t)n * STRIDE + 5, &shm) == PGAS_OK &&
                shm.bytes >= (size_t)n * STRIDE + 5;
    char *base = good ? shm.base : NULL;
    good = good && base[me * STRIDE] == 0;
    if (good)
        base[me * STRIDE] = (char)(me + 1);
    good = pgasi_boot_barrier() == PGAS_OK && good;
    for (int i = 0; good && i < n; i++)
        good = base[i * STRIDE] == (char)(i + 1);
    pgasi_boot_barrier();
    if (base)
        pgasi_shm_release(&shm);
    spmd_ok(good && count_fds() == before,
            "%s shares one zeroed region, without a descriptor left open", name);
}

static void region_of_each(size_t bytes, bool want_huge)
{
    pgasi_shm_t mine = { NULL, 0, 0 };
    int me = pgasi_boot.node_rank, n = pgasi_boot.node_size, before = count_fds();
    void *addr_of[64] = { NULL };
    bool good = pgasi_shm_create_each(bytes, want_huge, &mine, addr_of) == PGAS_OK &&
                addr_of[me] == mine.base;
    for (int i = 0; good && i < n; i++)
        ((char *)addr_of[i])[bytes - 1 - (size_t)me] = (char)(10 * i + me + 1);
    good = pgasi_boot_barrier() == PGAS_OK && good;
    for (int i = 0; good && i < n; i++)
        good = ((char *)mine.base)[bytes - 1 - (size_t)i] == (char)(10 * me + i + 1);
    pgasi_boot_barrier();
    pgasi_shm_release_each(&mine, addr_of);
    spmd_ok(good && !mine.base && count_fds() == before,
            "all ranks of the node see each other's %zu bytes", bytes);
}

static bool host_has_huge_pages(void)
{
    unsigned long n = 0;
    FILE *f = fopen("/proc/sys/vm/nr_hugepages", "r");
    if (f) {
        if (fscanf(f, "%lu", &n) != 1)
            n = 0;
        fclose(f);
    }
    return n > 0;
}

static unsigned long free_huge_pages(const char *size)
{
    char path[96];
    unsigned long n = 0;
    snprintf(path, sizeof path, "/sys/kernel/mm/hugepages/hugepages-%s/free_hugepages", size);
    FILE *f = fopen(path, "r");
    if (f) {
        if (fscanf(f, "%lu", &n) != 1)
            n = 0;
        fclose(f);
    }
    return n;
}

/* @return the size of pages of a mapping of each rank; 0: there is none */
static size_t pages_of(const char *params, size_t bytes)
{
    pgasi_shm_t mine;
    void *addr_of[64];
    size_t page_bytes = 0;
    bool good = pgasi_boot_start(NULL, params) == PGAS_OK;
    if (good && pgasi_shm_create_each(bytes, true, &mine, addr_of) == PGAS_OK) {
        int right = (pgasi_boot.node_rank + 1) % pgasi_boot.node_size;
        *(volatile int *)((char *)mine.base + bytes - 64) = 7;
        pgasi_boot_barrier();
        page_bytes =
            *(volatile int *)((char *)addr_of[right] + bytes - 64) == 7 ? mine.page_bytes : 0;
        pgasi_boot_barrier();
        pgasi_shm_release_each(&mine, addr_of);
    }
    pgasi_boot_stop();
    return page_bytes;
}

/* Pages of 1 GiB, where the host has one for each rank; make numa-vm runs this in a machine that
 * has. */
static void pages_of_1_gib(void)
{
    const size_t gib = (size_t)1 << 30;
    if (free_huge_pages("1048576kB") < (unsigned long)spmd_size()) {
        spmd_skip(3, "this host has no pages of 1 GiB");
        return;
    }
    spmd_ok(pages_of("HUGEPAGES=yes", gib) == gib, "a mapping of 1 GiB has a page of 1 GiB");
    size_t small = pages_of("HUGEPAGES=try", gib / 2);
    spmd_ok(small > 0 && small < gib, "half of that has smaller ones");
    small = pages_of("HUGEPAGES=2m", gib);
    spmd_ok(small > 0 && small < gib, "and where those of 2 MiB alone are asked for");
}

/* PGAS_HUGEPAGES set by the user: a warning on each host for `try`, a refusal for `yes`. */
static void huge_pages(void)
{
    if (host_has_huge_pages()) {
        spmd_skip(2, "this host has huge pages");
        return;
    }
    pgasi_shm_t mine;
    void *addr_of[64];
    log_begin();
    bool good = pgasi_boot_start(NULL, "HUGEPAGES=try") == PGAS_OK;
    for (int i = 0; good && i < 2; i++) {
        good = pgasi_shm_create_each((size_t)4 << 20, true, &mine, addr_of) == PGAS_OK;
        if (good)
            pgasi_shm_release_each(&mine, addr_of);
    }
    pgasi_boot_stop();
    const char *text = log_end();
    spmd_ok(good && n_lines(text) == (spmd_rank() == 0) &&
                (*text == '\0' || strstr(text, "nr_hugepages") != NULL),
            "asked for in vain, huge pages give one warning");
    log_begin();
    good = pgasi_boot_start(NULL, "HUGEPAGES=yes") == PGAS_OK;
    good =
        good && pgasi_shm_create_each((size_t)4 << 20, true, &mine, addr_of) == PGAS_ERR_NO_MEMORY;
    pgasi_boot_stop();
    text = log_end();
    spmd_ok(good && n_lines(text) <= 1 &&
                (*text == '\0' || strstr(text, "PGAS_HUGEPAGES=yes") != NULL),
            "demanded in vain, huge pages are refused on all ranks");
}

/* What the kernel knows of the mapping with this address: is it a file, and were transparent huge
 * pages requested? */
static bool look_up_mapping(const void *address, bool *is_file_p, bool *advised_p)
{
    char line[512];
    bool inside = false, found = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
            inside = (uintptr_t)address >= from && (uintptr_t)address < to;
            *is_file_p = strstr(line, "memfd:pgas") != NULL;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            *advised_p = strstr(line, " hg") != NULL;
            found = true;
        }
    }
    if (f)
        fclose(f);
    return found;
}

/* A rank that is alone on its node has anonymous memory, because kernels rarely give transparent
 * huge pages to files. */
static void transparent_huge_pages(void)
{
    pgasi_shm_t mine;
    void *addr_of[64];
    bool is_file = false, advised = false;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0) {
        spmd_skip(2, "this kernel has no transparent huge pages");
        return;
    }
    bool good = pgasi_boot_start(NULL, NULL) == PGAS_OK;
    int n = pgasi_boot.node_size;
    good = good && pgasi_shm_create_each((size_t)4 << 20, false, &mine, addr_of) == PGAS_OK;
    bool found = good && look_up_mapping(mine.base, &is_file, &advised);
    if (good)
        pgasi_shm_release_each(&mine, addr_of);
    pgasi_boot_stop();
    spmd_ok(found && advised, "transparent huge pages are requested for the own memory");
    spmd_ok(found && is_file == (n > 1), "and it is a file only if the node has other ranks");
}

/* ---- faults of one rank ---- */

static void parameters(void)
{
    const char *text;
    int last = spmd_size() - 1;
    set_here(0, "PGAS_HEAP_SIZE", "banana");
    pgas_status_t status = try_start(NULL, &text);
    spmd_ok(status == PGAS_ERR_INVALID && n_lines(text) == (spmd_rank() == 0) &&
                (spmd_rank() != 0 || (strstr(text, "PGAS_HEAP_SIZE") && strstr(text, "banana") &&
                                      strstr(text, "64K..8T"))),
            "a value that does not parse on rank 0 is refused everywhere and named once");
    unsetenv("PGAS_HEAP_SIZE");
    set_here(last, "PGAS_SPIN_US", "banana");
    status = try_start(NULL, &text);
    spmd_ok(status == PGAS_ERR_INVALID && n_lines(text) == (spmd_rank() == last) &&
                (spmd_rank() != last || strstr(text, "PGAS_SPIN_US=banana")),
            "so is one that does not parse on another rank, which names it");
    setenv("PGAS_SPIN_US", spmd_rank() == 0 ? "7" : "9", 1);
    status = pgasi_boot_start(NULL, "NAP_MAX_US=77\n  STATS=yes ");
    spmd_ok(status == PGAS_OK && pgasi_param.spin_us == 7 && pgasi_param.nap_max_us == 77 &&
                pgasi_param.stats,
            "rank 0's values rule, and options of init win over the environment");
    if (status == PGAS_OK)
        pgasi_boot_stop();
    unsetenv("PGAS_SPIN_US");
    bool good = try_start("HEAP_SIZE=1M HEAP_SIZ=1M", &text) == PGAS_ERR_INVALID;
    good = good && (spmd_rank() != 0 || strstr(text, "HEAP_SIZE?") != NULL);
    good = try_start("HEAP_SIZE", &text) == PGAS_ERR_INVALID && good;
    good = good && (spmd_rank() != 0 || strstr(text, "not NAME=VALUE") != NULL);
    good = try_start("SPIN_US=-1", &text) == PGAS_ERR_INVALID && good;
    spmd_ok(
        good,
        "unknown names, items without a value and bad values in the options of init are refused");
}

static void versions(void)
{
    const char *text;
    char claim[32];
    int odd = spmd_size() - 1;
    snprintf(claim, sizeof claim, "%d:9.8.7", odd);
    setenv("PGAS_TEST_VERSION", claim, 1);
    pgas_status_t status = try_start(NULL, &text);
    unsetenv("PGAS_TEST_VERSION");
    if (odd == 0) {
        spmd_ok(status == PGAS_OK, "a lonely rank agrees with itself on the version");
        return;
    }
    spmd_ok(status == PGAS_ERR_MISMATCH && n_lines(text) == (spmd_rank() == odd) &&
                (spmd_rank() != odd ||
                 (strstr(text, "9.8.7") != NULL && strstr(text, PGAS_VERSION_TEXT))),
            "another version on one rank is refused everywhere, both are named once");
}

static void set_or_not(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static const char *const pairs[][3] = { { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK",
                                          "Open MPI's mpirun" },
                                        { "PMI_SIZE", "PMI_RANK", "MPICH's mpiexec" },
                                        { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun" },
                                        { "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "flux" },
                                        { "PALS_NRANKS", "PALS_RANKID", "PALS" } };

/* The environment of a program that the launcher of another MPI has started three times. */
static void launchers(void)
{
    const char *text;
    bool good = true;
    for (size_t i = 0; spmd_size() == 1 && i < PGASI_ARRAY_LENGTH(pairs); i++) {
        char *size = getenv(pairs[i][0]), *rank = getenv(pairs[i][1]);
        size = size != NULL ? strdup(size) : NULL;
        rank = rank != NULL ? strdup(rank) : NULL;
        setenv(pairs[i][0], "3", 1);
        setenv(pairs[i][1], "0", 1);
        good = try_start(NULL, &text) == PGAS_ERR_MISMATCH && n_lines(text) == 1 &&
               strstr(text, pairs[i][2]) && strstr(text, "MPICC") != NULL && good;
        setenv(pairs[i][1], "2", 1);
        good = try_start(NULL, &text) == PGAS_ERR_MISMATCH && *text == '\0' && good;
        set_or_not(pairs[i][0], size);
        set_or_not(pairs[i][1], rank);
        free(size);
        free(rank);
    }
    if (spmd_size() == 1)
        spmd_ok(good, "a launcher that does not match is named with the cure, by its first task");
    else
        spmd_skip(1, "MPI sees more than one rank");
}

/* The environment is that of a program that has not started MPI. */
static void launcher_ranks(void)
{
    char size[64], rank[64], *only[] = { size, rank, NULL }, *none[] = { NULL }, **former = environ;
    environ = none;
    bool good = pgasi_boot_launcher_rank() == 0;
    environ = only;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(pairs); i++) {
        snprintf(size, sizeof size, "%s=3", pairs[i][0]);
        snprintf(rank, sizeof rank, "%s=2", pairs[i][1]);
        good = pgasi_boot_launcher_rank() == 2 && good;
    }
    environ = former;
    spmd_ok(good, "each launcher's number of this task is known before MPI is up");
}

/* The last rank's memory cannot be opened by others. */
static void unshared(void)
{
    int last = spmd_size() - 1, limit = pgasi_param.node_maxsize, others = last;
    char text[16];
    if (last == 0) {
        spmd_skip(1, "there is no rank to share with");
        return;
    }
    snprintf(text, sizeof text, "%d", last);
    setenv("PGAS_TEST_UNSHARED", text, 1);
    log_begin();
    bool good = pgasi_boot_start(NULL, NULL) == PGAS_OK && nodes_make_sense();
    good = good && pgasi_boot.n_nodes == 1 + (limit > 0 ? (others + limit - 1) / limit : 1) &&
           (pgasi_boot.rank != last || pgasi_boot.node_size == 1) &&
           pgasi_boot_barrier() == PGAS_OK && pgasi_boot.same_host_peers;
    pgasi_boot_stop();
    const char *said = log_end();
    unsetenv("PGAS_TEST_UNSHARED");
    spmd_ok(good && n_lines(said) == (spmd_rank() == 0),
            "a rank that cannot share memory is a node of its own, with one warning");
}

static void communicators(void)
{
    const char *text;
    MPI_Comm none = MPI_COMM_NULL, half;
    int64_t one = 1, sum = 0;
    log_begin();
    bool good = pgasi_boot_start(&none, NULL) == PGAS_ERR_INVALID;
    text = log_end();
    spmd_ok(good && n_lines(text) == 1, "MPI_COMM_NULL is refused");
    MPI_Comm_split(MPI_COMM_WORLD, spmd_rank() % 2, -spmd_rank(), &half);
    int rank, size;
    MPI_Comm_rank(half, &rank);
    MPI_Comm_size(half, &size);
    good = pgasi_boot_start(&half, NULL) == PGAS_OK;
    MPI_Comm_free(&half);
    good = good && pgasi_boot.rank == rank && pgasi_boot.n_ranks == size && nodes_make_sense() &&
           pgas_allreduce(NULL, &one, &sum, 1, PGAS_I64, PGAS_ADD) == PGAS_OK && sum == size;
    MPI_Comm world = MPI_COMM_WORLD;
    pgas_team_t *team = NULL;
    bool refused =
        spmd_size() == 1 || (pgas_team_from_comm(&world, &team) == PGAS_ERR_INVALID && !team);
    pgasi_boot_stop();
    spmd_ok(refused, "a team with processes of another job is refused");
    spmd_ok(
        good,
        "a job can be half of the ranks, backwards, and does not need the communicator any longer");
}

/* ---- progress while waiting ---- */

static int hook_calls;

/* Notifies rank 0 that this rank waits in the library and runs the hook. */
static int hook(void)
{
    if (++hook_calls == 5)
        MPI_Send(&hook_calls, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    return 0;
}

/* Rank 0 enters when all others were seen to run their hook inside. */
static bool others_run_their_hook(pgas_status_t (*collective)(void))
{
    int calls;
    hook_calls = 0;
    for (int i = 1; spmd_rank() == 0 && i < spmd_size(); i++)
        MPI_Recv(&calls, 1, MPI_INT, i, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (spmd_rank() != 0)
        pgasi_hooks.progress = hook;
    bool good = collective() == PGAS_OK;
    pgasi_hooks.progress = NULL;
    return good;
}

static pgas_status_t in_barrier(void)
{
    return pgas_barrier(NULL);
}

static pgas_status_t in_allreduce(void)
{
    double x = 1, y = 0;
    pgas_status_t status = pgas_allreduce(NULL, &x, &y, 1, PGAS_F64, PGAS_ADD);
    if (status != PGAS_OK)
        return status;
    return y == spmd_size() ? PGAS_OK : PGAS_ERR_INTERNAL;
}

static pgas_status_t in_large_alltoall(void)
{
    size_t bytes = 100000;
    char *from = calloc((size_t)spmd_size(), bytes), *to = calloc((size_t)spmd_size(), bytes);
    pgas_status_t status = pgas_alltoall(NULL, from, to, bytes);
    free(from);
    free(to);
    return status;
}

static pgas_status_t in_split(void)
{
    pgas_team_t *team;
    pgas_status_t status = pgas_team_split(NULL, 0, 0, &team);
    return status != PGAS_OK ? status : pgas_team_destroy(team);
}

static void progress(void)
{
    spmd_ok(others_run_their_hook(in_barrier), "ranks in a barrier run the progress hook");
    spmd_ok(others_run_their_hook(in_allreduce), "ranks in an allreduce run the progress hook");
    spmd_ok(others_run_their_hook(in_large_alltoall),
            "ranks in a large all-to-all run the progress hook");
    spmd_ok(others_run_their_hook(in_split), "ranks that make a team run the progress hook");
}

/* A wait without the hook would not notify rank 0: the quiet wait, which runs no hook, shows this.
 * */
static void checker_can_fail(void)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    hook_calls = -1000000;
    pgasi_hooks.progress = hook;
    for (int i = 0; i < 100; i++)
        pgasi_wait_step_quiet(&w);
    bool quiet = hook_calls == -1000000;
    pgasi_hooks.progress = NULL;
    pgasi_wait_end(&w);
    spmd_ok(quiet, "the hook counts only waits with progress");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(1 + 5 + 2 + 5 + 4 + 1 + 3 + 1 + 1 + 1 + 1 + 3 + 2 + 2 + 3 + 1);
    int before = count_fds();
    spmd_ok(pgasi_boot_start(NULL, NULL) == PGAS_OK, "start");
    maps();
    agreement();
    one_region(NULL, "the node");
    one_region(pgasi_team_world(), "the team of all ranks on each node");
    region_of_each(5000, false);
    region_of_each(((size_t)6 << 20) + 1, true);
    progress();
    checker_can_fail();
    unsigned long long key = pgasi_boot.job_key;
    pgasi_boot_stop();
    parameters();
    versions();
    launchers();
    launcher_ranks();
    unshared();
    communicators();
    huge_pages();
    transparent_huge_pages();
    pages_of_1_gib();
    spmd_ok(pgasi_boot_start(NULL, NULL) == PGAS_OK && pgasi_boot.job_key != key,
            "a new start has a new job key");
    pgasi_boot_stop();
    int after = count_fds();
    if (before != after)
        printf("# rank %d: %d descriptors before, %d after\n", spmd_rank(), before, after);
    return spmd_end();
}
