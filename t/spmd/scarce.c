/* Process limits that are too low.
 *   what:   If a limit of open files, address space or threads is too low, init names it once, with
 *           the number needed. With that number the library starts. Threads that cannot be started
 *           later are named too, and the job continues.
 *   np:     2
 *   nodes:  0 1
 *   env:    PGAS_TRANSPORT=ucx
 *   tls:    sysv,cma
 *   needs:  no-sanitizers
 *   source: pgas/init.h, pgas/runtime.h; setrlimit(2), pthread_create(3)
 * The limits are lowered when MPI is up, which knows none of its own. */
#include <dirent.h>
#include <inttypes.h>
#include <sys/resource.h>
#include "t/forbid.h"
#include "t/spmd/job.h"
#include "t/spmd/said.h"
#include "transport/transport.h"

/* Lowers a limit for this process; the former one. */
static rlim_t lower(int resource, rlim_t value)
{
    struct rlimit limit;
    getrlimit((__rlimit_resource_t)resource, &limit);
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = value;
    setrlimit((__rlimit_resource_t)resource, &limit);
    return before;
}

static int open_files(void)
{
    int n = -3;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n;
}

static rlim_t addresses(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static const char *params = "HEAP_SIZE=32M";

static pgas_status_t start(void)
{
    pgas_init_opts_t opts = PGAS_INIT_OPTS_INIT;
    opts.params = params;
    return pgas_init(NULL, &opts);
}

/* The least number after "raise it to" in the log of any rank; 0: none. */
static uint64_t named(const char *words, int *n_said_p)
{
    uint64_t here = 0, all = 0;
    *n_said_p = said_by(words);
    const char *at = strstr(said_text, "raise it to ");
    if (at)
        here = strtoull(at + strlen("raise it to "), NULL, 10);
    MPI_Allreduce(&here, &all, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static bool writes_to_other(void)
{
    pgas_gptr_t mine = PGAS_NULL, all[2];
    uint64_t word = 7, got = 0;
    bool good = pgas_alloc(sizeof word, &mine) == PGAS_OK &&
                pgas_allgather(NULL, &mine, all, sizeof mine) == PGAS_OK;
    good = good && pgas_put(all[1 - pgas_rank()], &word, sizeof word) == PGAS_OK &&
           pgas_flush(1 - pgas_rank()) == PGAS_OK &&
           pgas_get(&got, all[1 - pgas_rank()], sizeof got) == PGAS_OK && got == word;
    return pgas_barrier(NULL) == PGAS_OK && good;
}

static void a_limit(int resource, rlim_t low, uint64_t unit, const char *words, const char *what)
{
    rlim_t before = lower(resource, low);
    int n_said;
    said_begin();
    pgas_status_t status = start();
    lower(resource, before);
    uint64_t needed = named(words, &n_said);
    spmd_ok(status == PGAS_ERR_LIMIT && n_said == 1 && !pgas_initialized(),
            "%s too low: refused, said once", what);
    lower(resource, (rlim_t)(needed * unit));
    status = start();
    uint64_t sum = 0, one = 1;
    bool works = status == PGAS_OK &&
                 pgas_allreduce(NULL, &one, &sum, 1, PGAS_U64, PGAS_ADD) == PGAS_OK && sum == 2 &&
                 writes_to_other() && pgas_finalize() == PGAS_OK;
    lower(resource, before);
    if (!spmd_ok(needed > 0 && works, "%s as the refusal names it: the library starts and works",
                 what))
        printf("# %" PRIu64 ": %s\n", needed, pgas_status_text(status));
}

/* Nothing can be started from here on. */
static void no_threads(void)
{
    spmd_ok(start() == PGAS_OK, "init with threads");
    bool forbidden = forbid_syscall(SYS_clone, EAGAIN) && forbid_syscall(SYS_clone3, EAGAIN);
    spmd_ok(forbidden, "threads are forbidden from now on");
    said_begin();
    pgas_status_t status = pgas_consumers_start(0, 2);
    spmd_ok(said_by("0 of 2 threads started") == spmd_size() && status == PGAS_ERR_NO_MEMORY,
            "consumers are refused with the reason");
    spmd_ok(pgas_barrier(NULL) == PGAS_OK && pgas_finalize() == PGAS_OK, "the job continues");
    said_begin();
    status = start();
    spmd_ok(said_by("raise the limit of processes") == 1 && status == PGAS_ERR_LIMIT,
            "init without threads is refused, said once");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(11);
    a_limit(RLIMIT_NOFILE, (rlim_t)open_files() + 3, 1, "pgas_init needs up to", "open files");
    a_limit(RLIMIT_AS, addresses() + ((rlim_t)40 << 20), 1024, "the limit of address space",
            "address space");
    params = "HEAP_SIZE=32M TRANSPORT=verbs VERBS_DEVICE=snic NODE_MAXSIZE=1";
    if (pgasi_tp_find("verbs"))
        a_limit(RLIMIT_AS, addresses() + ((rlim_t)1200 << 20), 1024, "the limit of address space",
                "address space for the software NIC");
    else
        spmd_skip(2, "the transport verbs is not in this build");
    params = "HEAP_SIZE=32M";
    no_threads();
    return spmd_end();
}
