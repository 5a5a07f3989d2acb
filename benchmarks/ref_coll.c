/* MPI's collectives, blocking, and non-blocking with a wait behind each. */
#include "benchmarks/ref.h"

#include <mpi.h>
#include <stdlib.h>

static MPI_Comm comm = MPI_COMM_NULL;
static int *counts, *places; /* of the operations with blocks of any sizes; they are equal here */

void bench_coll_buffers(const bench_run_t *run, char **src_p, char **dst_p)
{
    static char *src, *dst;
    static size_t room;
    bench_coll_t kind = (bench_coll_t)run->arg;
    bool one_block = bench_coll_reduces(kind) || kind == BENCH_BROADCAST;
    size_t bytes = run->bytes * (one_block ? 1 : (size_t)run->n_ranks);
    if (bytes > room) {
        free(src);
        free(dst);
        src = bench_buffer(bytes);
        dst = bench_buffer(bytes);
        room = bytes;
    }
    *src_p = src;
    *dst_p = dst;
}

/* Made by the first loop. Collective. */
static void need(int n_ranks)
{
    if (comm != MPI_COMM_NULL)
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    counts = calloc((size_t)n_ranks, sizeof *counts);
    places = calloc((size_t)n_ranks, sizeof *places);
    if (!counts || !places)
        bench_die("out of memory");
}

void ref_coll_close(void)
{
    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    free(counts);
    free(places);
}

static void wait_for(MPI_Request *request)
{
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void reduction(bench_coll_t kind, const void *src, void *dst, int n)
{
    MPI_Request request;
    switch (kind) {
    case BENCH_REDUCE:
        MPI_Reduce(src, dst, n, MPI_FLOAT, MPI_SUM, 0, comm);
        break;
    case BENCH_ALLREDUCE:
        MPI_Allreduce(src, dst, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    case BENCH_SCAN:
        MPI_Scan(src, dst, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    case BENCH_EXSCAN:
        MPI_Exscan(src, dst, n, MPI_FLOAT, MPI_SUM, comm);
        break;
    default:
        MPI_Iallreduce(MPI_IN_PLACE, dst, n, MPI_FLOAT, MPI_SUM, comm, &request);
        wait_for(&request);
    }
}

static void exchange(bench_coll_t kind, const void *src, void *dst, int n)
{
    MPI_Request request;
    switch (kind) {
    case BENCH_BARRIER:
        MPI_Barrier(comm);
        break;
    case BENCH_BROADCAST:
        MPI_Bcast(dst, n, MPI_BYTE, 0, comm);
        break;
    case BENCH_GATHER:
        MPI_Gather(src, n, MPI_BYTE, dst, n, MPI_BYTE, 0, comm);
        break;
    case BENCH_ALLGATHER:
        MPI_Allgather(src, n, MPI_BYTE, dst, n, MPI_BYTE, comm);
        break;
    case BENCH_GATHERV:
        MPI_Gatherv(src, n, MPI_BYTE, dst, counts, places, MPI_BYTE, 0, comm);
        break;
    case BENCH_ALLGATHERV:
        MPI_Allgatherv(src, n, MPI_BYTE, dst, counts, places, MPI_BYTE, comm);
        break;
    case BENCH_ALLTOALL:
        MPI_Alltoall(src, n, MPI_BYTE, dst, n, MPI_BYTE, comm);
        break;
    case BENCH_ALLTOALLV:
        MPI_Alltoallv(src, counts, places, MPI_BYTE, dst, counts, places, MPI_BYTE, comm);
        break;
    case BENCH_BARRIER_NB:
        MPI_Ibarrier(comm, &request);
        wait_for(&request);
        break;
    case BENCH_BROADCAST_NB:
        MPI_Ibcast(dst, n, MPI_BYTE, 0, comm, &request);
        wait_for(&request);
        break;
    default:
        MPI_Ialltoallv(src, counts, places, MPI_BYTE, dst, counts, places, MPI_BYTE, comm,
                       &request);
        wait_for(&request);
    }
}

double ref_mpi_collective(const bench_run_t *run)
{
    bench_coll_t kind = (bench_coll_t)run->arg;
    int n = (int)run->bytes, n_floats = (int)(run->bytes / sizeof(float));
    char *src, *dst;
    need(run->n_ranks);
    bench_coll_buffers(run, &src, &dst);
    for (int r = 0; r < run->n_ranks; r++) {
        counts[r] = n;
        places[r] = r * n;
    }
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++)
        if (bench_coll_reduces(kind))
            reduction(kind, src, dst, n_floats);
        else
            exchange(kind, src, dst, n);
    return bench_since(begin);
}
