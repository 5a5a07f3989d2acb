/* Where the processes of pgas_group run, and what loads the replicas. A child of each replica
 * computes on the replica's core. It is stopped by SIGSTOP when there is to be no load, so that a
 * change takes microseconds. */
#include "benchmarks/group_work.h"

#include "pgas/verbs_snic.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CORES_MAX 1024

static int core[CORES_MAX], n_cores;
static cpu_set_t allowed;
static bool placed;
static int nic_pid, nic_priority, last_core, client_core;

static void list_cores(void)
{
    n_cores = 0;
    for (int i = 0; i < CPU_SETSIZE && i < CORES_MAX; i++)
        if (CPU_ISSET(i, &allowed))
            core[n_cores++] = i;
}

/* Replicas share all cores but the first. */
static int core_of_replica(int replica)
{
    return n_cores > 1 ? core[1 + replica % (n_cores - 1)] : core[0];
}

/* Binds all threads of a process. */
static void bind(int pid, const cpu_set_t *cores)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (const struct dirent *entry; tasks && (entry = readdir(tasks)) != NULL;)
        if (atoi(entry->d_name) > 0)
            (void)sched_setaffinity(atoi(entry->d_name), sizeof *cores, cores);
    if (tasks)
        closedir(tasks);
}

static void bind_to(int pid, int where)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(where, &one);
    bind(pid, &one);
}

void group_place_rank(int rank, int n_ranks, group_client_t client)
{
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    list_cores();
    if (n_cores == 0)
        return;
    last_core = core_of_replica(n_ranks - 2);
    client_core = client == GROUP_CLIENT_OWN ? core[0] : last_core;
    bind_to(getpid(), rank == 0 ? client_core : core_of_replica(rank - 1));
    placed = true;
}

/* The kernel gives time to sessions first (autogroups), and the software NIC's process has a
 * session of its own. @return its priority, or 0 */
static int priority_of(int pid)
{
    char path[64], text[96] = "";
    snprintf(path, sizeof path, "/proc/%d/autogroup", pid);
    FILE *file = fopen(path, "r");
    const char *at = file && fgets(text, sizeof text, file) ? strstr(text, "nice ") : NULL;
    if (file)
        fclose(file);
    return at ? atoi(at + strlen("nice ")) : 0;
}

static void set_priority(int pid, int priority)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/autogroup", pid);
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, "%d", priority);
    fclose(file); /* it may be refused */
}

void group_place_nic(void)
{
    pgas_verbs_snic_info_t info = { .size = sizeof info };
    if (!placed || pgas_verbs_snic_info(NULL, &info) != PGAS_OK)
        return;
    if (nic_pid != info.pid)
        nic_priority = priority_of(info.pid);
    nic_pid = info.pid;
    if (nic_priority != priority_of(getpid()))
        set_priority(nic_pid, priority_of(getpid()));
    bind_to(nic_pid, core[0]);
}

void group_place_end(void)
{
    if (nic_pid && nic_priority != priority_of(nic_pid))
        set_priority(nic_pid, nic_priority);
    if (nic_pid)
        bind(nic_pid, &allowed); /* it has probably inherited the core of a rank */
    if (placed)
        bind(getpid(), &allowed);
    nic_pid = 0;
    placed = false;
}

const char *group_place_about(void)
{
    static char text[160];
    if (!placed)
        return "not bound";
    snprintf(text, sizeof text, "client on core %d, software NIC on %d, replicas on %d%s",
             client_core, core[0], core_of_replica(0), n_cores > 2 ? " and further ones" : "");
    return text;
}

/* ---- load ---- */

static pid_t load_pid;

const char *group_load_refusal(void)
{
    return system("command -v stress-ng >/dev/null") == 0 ? NULL
                                                          : "--stress: stress-ng is not installed";
}

/* The child computes until its parent ends. It is alone in its group, because stress-ng has
 * children of its own. Its output would keep the launcher waiting. */
__attribute__((noreturn)) static void be_load(pid_t parent, bool stress)
{
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    for (int i = 0; i <= 2 && null >= 0; i++)
        dup2(null, i);
    if (stress) {
        execlp("stress-ng", "stress-ng", "--matrix", "1", "--quiet", (char *)NULL);
        _exit(1);
    }
    for (uint64_t x = 1;;)
        bench_use(bench_random(&x));
}

void group_load(bool on, bool stress)
{
    pid_t self = getpid();
    if (!on && load_pid == 0)
        return;
    if (load_pid == 0) {
        load_pid = fork();
        if (load_pid == 0)
            be_load(self, stress);
        if (load_pid < 0)
            bench_die("no process for the load");
        setpgid(load_pid, load_pid); /* here, too: it is signaled soon */
    }
    kill(-load_pid, on ? SIGCONT : SIGSTOP);
}

void group_load_end(void)
{
    if (load_pid == 0)
        return;
    kill(-load_pid, SIGKILL);
    waitpid(load_pid, NULL, 0);
    load_pid = 0;
}

/* ---- rest ---- */

double group_cpu_ns(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return ((double)use.ru_utime.tv_sec + (double)use.ru_stime.tv_sec) * 1e9 +
           ((double)use.ru_utime.tv_usec + (double)use.ru_stime.tv_usec) * 1e3;
}

static pgas_gptr_t words;
static uint64_t n_rests;

void group_rest_open(void)
{
    bench_check(pgas_alloc(64, &words), "pgas_alloc");
    bench_check(pgas_put_u64(words, 0), "pgas_put_u64");
    bench_check(pgas_barrier(NULL), "pgas_barrier");
}

void group_rest_close(void)
{
    bench_check(pgas_free(words), "pgas_free");
}

void group_rest(int rank, int n_ranks)
{
    const struct timespec nap = { 0, 5000000 };
    const uint64_t *own = pgas_gptr_local(words, sizeof *own);
    n_rests++;
    for (int i = 1; i < n_ranks && rank == 0; i++)
        bench_check(pgas_put_u64(pgas_gptr_at(words, i), n_rests), "pgas_put_u64");
    while (rank > 0 && __atomic_load_n(own, __ATOMIC_ACQUIRE) < n_rests)
        nanosleep(&nap, NULL);
}
