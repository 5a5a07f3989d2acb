/* One rank of this job dies, and no other rank ever had a connection to it but MPI's and the
 * service ring's: the program of t/cluster/deaths.t, no test by itself.
 *   quiet_victim RANK HOW WHERE
 * HOW     kill, exit, crash; or cut: it lives, and prints `cut` when the others may be cut off
 * WHERE   init, barrier, allreduce, finalize; agreement: in the last step of finalize
 * Prints `started SECONDS` before, and on each rank that goes on `survived RANK after SECONDS`. */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/pgas.h"

static const char *how, *where;
static int victim, n_dups;
static bool finalizes;
static time_t began;

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
    if (strcmp(how, "exit") == 0)
        _exit(3);
    if (strcmp(how, "crash") == 0)
        raise(SIGSEGV);
}

/* The first duplicate is made before the ranks of the host are known, the second when the first
 * team is made. */
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
    if (++n_dups == 2 && strcmp(where, "init") == 0 && is_victim())
        die();
    return PMPI_Comm_dup(comm, copy);
}

/* The last agreement of all ranks is one. */
int MPI_Iallreduce(const void *src, void *dst, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    if (finalizes && type == MPI_INT && strcmp(where, "agreement") == 0 && is_victim())
        die();
    return PMPI_Iallreduce(src, dst, n, type, op, comm, request);
}

static void start_clock(void)
{
    began = time(NULL);
    if (pgas_rank() <= 0) {
        printf("started %lld\n", (long long)began);
        fflush(stdout);
    }
}

static pgas_status_t meet(void)
{
    int64_t one = 1, sum = 0;
    if (strcmp(where, "allreduce") == 0)
        return pgas_allreduce(NULL, &one, &sum, 1, PGAS_INT64, PGAS_SUM);
    return pgas_barrier(NULL);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    victim = atoi(argv[1]);
    how = argv[2];
    where = argv[3];
    if (strcmp(where, "init") == 0)
        start_clock();
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    pgas_barrier(NULL);
    start_clock();
    pgas_status_t status = PGAS_OK;
    bool meets = strcmp(where, "barrier") == 0 || strcmp(where, "allreduce") == 0;
    if (pgas_rank() == victim && strcmp(how, "cut") == 0) {
        printf("cut\n");
        fflush(stdout);
    }
    if (pgas_rank() == victim && strcmp(how, "cut") != 0 && strcmp(where, "agreement") != 0)
        die();
    do
        status = meets ? meet() : PGAS_OK;
    while (meets && status == PGAS_OK);
    int me = pgas_rank();
    finalizes = true;
    pgas_status_t end = pgas_finalize();
    if ((!meets || status == PGAS_ERR_PEER) &&
        (end == PGAS_ERR_PEER || strcmp(where, "agreement") == 0)) {
        printf("survived %d after %lld\n", me, (long long)(time(NULL) - began));
        fflush(stdout);
    } else {
        printf("rank %d: %s, then finalize gave %s\n", me, pgas_status_name(status),
               pgas_status_name(end));
        fflush(stdout);
    }
    _exit(0); /* MPI was left alone */
}
