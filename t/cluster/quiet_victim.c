/* One rank of this job dies, and no other rank has had a connection to it except MPI's and the
 * service ring's; or hosts are cut off from each other. This is the program of t/cluster/deaths.t,
 * no test by itself.
 *   quiet_victim RANK HOW WHERE
 * A rank that continues also tries to start the library again, which is refused.
 * HOW     kill, exit, crash; none: it lives; ask: it asks for reports by SIGUSR2, and lives
 * WHERE   init, barrier, allreduce, finalize
 *         agreement   in the last step of finalize
 *         compute     the others enter the library when the file TAP_DEATHS.go exists
 *         team        teams are created after the death
 *         split       the victim dies while MPI creates a team
 *         early       after the death all but rank 3 finalize; rank 3 uses the others' memory until
 *                     the file TAP_DEATHS.stop exists
 *         put         ranks put to each other, check that and meet, until TAP_DEATHS.stop exists
 *         first       when TAP_DEATHS.go exists, each rank puts to the next one for the first time
 * All output goes to the file TAP_DEATHS, because a launcher may be cut off. Rank 0 prints
 * `started`, a rank that continues after a death `survived RANK after SECONDS`, one that ends well
 * `ended RANK`. */
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "pgas/pgas.h"

#define WORDS  8192
#define ROUNDS 200 /* after which connections are open */

static const char *how, *where;
static int victim, n_dups;
static bool finalizes, splits;
static const struct timespec moment = { 0, 1000000 };

static bool is_victim(void)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == victim;
}

static void die(void)
{
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "ask") == 0)
        raise(SIGUSR2);
    if (strcmp(how, "exit") == 0)
        _exit(3);
    if (strcmp(how, "crash") == 0)
        raise(SIGSEGV);
}

static bool is_there(const char *suffix)
{
    char path[512];
    snprintf(path, sizeof path, "%s.%s", getenv("TAP_DEATHS"), suffix);
    return access(path, F_OK) == 0;
}

/* Ranks that are in MPI_Comm_split say so by a file. */
static void say_that_it_splits(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s.split%d", getenv("TAP_DEATHS"), pgas_rank());
    FILE *file = fopen(path, "w");
    if (file)
        fclose(file);
}

static bool all_split(void)
{
    char name[32];
    bool all = true;
    for (int r = 0; r < pgas_n_ranks(); r++) {
        snprintf(name, sizeof name, "split%d", r);
        all = all && (r == victim || is_there(name));
    }
    return all;
}

#pragma GCC visibility push(default) /* these replace functions of other libraries */

/* The first duplicate is made before the ranks of the host are known, the second when the first
 * team is made. */
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    if (++n_dups == 2 && strcmp(where, "init") == 0 && is_victim())
        die();
    return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
    if (splits && is_victim()) {
        while (!all_split())
            nanosleep(&moment, NULL);
        die();
    }
    if (splits)
        say_that_it_splits();
    return PMPI_Comm_split(comm, color, key, part);
}

/* The last agreement of all ranks is one. */
int MPI_Iallreduce(const void *src, void *dst, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    if (finalizes && type == MPI_INT && strcmp(where, "agreement") == 0 && is_victim())
        die();
    return PMPI_Iallreduce(src, dst, n, type, op, comm, request);
}

/* With TAP_NO_PIDFD=1 a filter of system calls refuses pidfd_open, as some containers do. */
long syscall(long number, ...)
{
    static long (*next)(long number, ...);
    va_list args;
    long a[6];
    if (!next)
        next = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_pidfd_open && getenv("TAP_NO_PIDFD")) {
        errno = EPERM;
        return -1;
    }
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

#pragma GCC visibility pop

static pgas_status_t meet(int64_t *all)
{
    int64_t mine = *all;
    if (strcmp(where, "barrier") == 0)
        return pgas_barrier(NULL);
    return pgas_allreduce(NULL, &mine, all, 1, PGAS_I64, PGAS_ADD);
}

/* Rounds until a status is bad, or rank 0 has seen the file. */
static pgas_status_t meet_again_and_again(void)
{
    pgas_status_t status;
    int64_t ends;
    do {
        ends = pgas_rank() == 0 && is_there("stop");
        status = meet(&ends);
    } while (status == PGAS_OK && !(ends && strcmp(where, "barrier") != 0));
    return status;
}

static pgas_status_t put_again_and_again(void)
{
    static uint64_t mine[WORDS];
    int n = pgas_n_ranks(), to = (pgas_rank() + 1) % n, from = (pgas_rank() + n - 1) % n;
    pgas_gptr_t at = PGAS_NULL;
    pgas_status_t status = pgas_alloc(sizeof mine, &at);
    int64_t ends = 0;
    for (uint64_t round = 1; status == PGAS_OK && !ends; round++) {
        for (size_t i = 0; i < WORDS; i++)
            mine[i] = round * WORDS + i + (uint64_t)pgas_rank();
        status = pgas_put(pgas_gptr_at(at, to), mine, sizeof mine);
        if (status == PGAS_OK)
            status = pgas_flush_all();
        if (status == PGAS_OK)
            status = pgas_barrier(NULL);
        const uint64_t *got = pgas_gptr_local(pgas_gptr_at(at, pgas_rank()), sizeof mine);
        for (size_t i = 0; status == PGAS_OK && i < WORDS; i++) {
            if (got[i] != round * WORDS + i + (uint64_t)from) {
                printf("wrong data in round %llu\n", (unsigned long long)round);
                return PGAS_ERR_INVALID;
            }
        }
        if (round == ROUNDS && pgas_rank() == 0)
            printf("started\n");
        ends = pgas_rank() == 0 && is_there("stop");
        if (status == PGAS_OK)
            status = meet(&ends);
    }
    return status;
}

static pgas_status_t put_first(pgas_gptr_t word)
{
    int n = pgas_n_ranks(), to = (pgas_rank() + 1) % n, from = (pgas_rank() + n - 1) % n;
    uint64_t mine = 100 + (uint64_t)pgas_rank();
    pgas_status_t status = pgas_put(pgas_gptr_at(word, to), &mine, sizeof mine);
    if (status == PGAS_OK)
        status = pgas_flush(to);
    if (status == PGAS_OK)
        status = pgas_barrier(NULL);
    const uint64_t *got = pgas_gptr_local(pgas_gptr_at(word, pgas_rank()), sizeof mine);
    return status == PGAS_OK && *got != 100 + (uint64_t)from ? PGAS_ERR_INVALID : status;
}

/* Live ranks that are in pgas_finalize serve rank 3. A rank says so before it enters
 * pgas_finalize. */
static pgas_status_t work_longest(pgas_gptr_t at)
{
    pgas_status_t status = meet_again_and_again();
    if (status != PGAS_ERR_PEER || pgas_rank() != 3) {
        printf("leaves %d\n", pgas_rank());
        return status;
    }
    for (uint64_t round = 0; !is_there("stop"); round++) {
        for (int r = 0; r < pgas_n_ranks(); r++) {
            uint64_t before = round, now = 0;
            if (r == victim)
                continue;
            pgas_status_t added = pgas_fetch_op_u64(pgas_gptr_at(at, r), PGAS_ADD, 1, &before);
            pgas_status_t got = pgas_get(&now, pgas_gptr_at(at, r), sizeof now);
            if (added != PGAS_OK || got != PGAS_OK || before != round || now != round + 1) {
                printf("rank %d in finalize: fetch_add gave %s, get %s\n", r,
                       pgas_status_name(added), pgas_status_name(got));
                return PGAS_ERR_INVALID;
            }
        }
    }
    return status;
}

static pgas_status_t split(void)
{
    pgas_team_t *half = NULL;
    splits = true;
    pgas_status_t status = pgas_team_split(NULL, pgas_rank() / 2, 0, &half);
    printf("split gave %s\n", pgas_status_name(status));
    return status;
}

/* The library refuses teams with the dead rank. A team without it works. */
static pgas_status_t make_teams(pgas_team_t *former)
{
    static const int lost = 1;
    pgas_team_t *team = NULL;
    pgas_status_t status = meet_again_and_again();
    MPI_Comm world = MPI_COMM_WORLD, live;
    MPI_Group all, some;
    MPI_Comm_group(world, &all);
    MPI_Group_excl(all, 1, &lost, &some);
    if (MPI_Comm_create_group(world, some, 7, &live) != MPI_SUCCESS)
        return PGAS_ERR_MPI;
    pgas_status_t parts = pgas_team_split(NULL, pgas_rank() / 2, 0, &team);
    pgas_status_t whole = pgas_team_from_comm(&world, &team);
    pgas_status_t good = pgas_team_from_comm(&live, &team);
    int32_t one = 1, sum = 0;
    if (good == PGAS_OK)
        good = pgas_allreduce(team, &one, &sum, 1, PGAS_I32, PGAS_ADD);
    if (good == PGAS_OK)
        good = pgas_team_destroy(team);
    pgas_status_t end = pgas_team_destroy(former);
    if (end == PGAS_ERR_PEER && parts == PGAS_ERR_PEER && whole == PGAS_ERR_PEER &&
        good == PGAS_OK && sum == pgas_n_ranks() - 1)
        return status;
    printf("wrong: split %s, of all %s, of the live %s, sum %d, the end of a former one %s\n",
           pgas_status_name(parts), pgas_status_name(whole), pgas_status_name(good), sum,
           pgas_status_name(end));
    return PGAS_ERR_INVALID;
}

/* No call of the library meanwhile. */
static void compute(void)
{
    volatile double x = 1;
    while (!is_there("go"))
        x = x * 0.5 + 1;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !getenv("TAP_DEATHS"))
        return 2;
    victim = atoi(argv[1]);
    how = argv[2];
    where = argv[3];
    if (!freopen(getenv("TAP_DEATHS"), "a", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int level;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    pgas_gptr_t word = PGAS_NULL;
    pgas_status_t status = pgas_alloc(sizeof(uint64_t), &word);
    pgas_team_t *all = NULL;
    if (strcmp(where, "team") == 0)
        status = pgas_team_split(NULL, 0, 0, &all);
    status = pgas_barrier(NULL);
    int me = pgas_rank();
    time_t began = time(NULL);
    if (me == 0 && strcmp(where, "put") != 0)
        printf("started\n");
    if (me == victim && strcmp(where, "agreement") != 0 && strcmp(where, "split") != 0)
        die();
    if (strcmp(where, "compute") == 0 || strcmp(where, "first") == 0)
        compute();
    if (strcmp(where, "put") == 0)
        status = put_again_and_again();
    else if (strcmp(where, "first") == 0)
        status = put_first(word);
    else if (strcmp(where, "split") == 0)
        status = split();
    else if (strcmp(where, "team") == 0)
        status = make_teams(all);
    else if (strcmp(where, "early") == 0)
        status = work_longest(word);
    else if (strcmp(where, "finalize") != 0 && strcmp(where, "agreement") != 0)
        status = meet_again_and_again();
    finalizes = true;
    pgas_status_t end = pgas_finalize();
    bool lost = status == PGAS_ERR_PEER || end == PGAS_ERR_PEER;
    if (end == PGAS_ERR_PEER && pgas_init(NULL, NULL) != PGAS_ERR_PEER)
        printf("ended %d: it began again without a rank\n", me);
    else if (lost)
        printf("survived %d after %lld\n", me, (long long)(time(NULL) - began));
    else
        printf("ended %d: %s, then finalize gave %s\n", me, pgas_status_name(status),
               pgas_status_name(end));
    if (status == PGAS_OK && end == PGAS_OK)
        MPI_Finalize(); /* may hang with MPICH over TCP: no rank waits for it */
    _exit(0);
}
