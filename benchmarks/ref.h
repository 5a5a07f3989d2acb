/** Reference loops: the limit of the machine (plain memory), raw UCX, and MPI. All have the type of
 *  bench_loop_fn_t.
 *
 *  They are plain and fixed: a careful programmer would write them by hand for just this purpose,
 *  without checks that the purpose does not need. Never make one slower in order to look better. */
#ifndef BENCH_REF_H
#define BENCH_REF_H

#include "benchmarks/bench.h"

/* MPICH declares how much of an array MPI_Waitall writes. gcc takes MPI_STATUSES_IGNORE for an
 * array of 0 bytes. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/** ---- processes (ref_mpi.c) ---- */
/* starts MPI at the thread level that the library needs, because a higher level costs locks;
 * threads: several threads call MPI at the same time, so MPI_THREAD_MULTIPLE */
void ref_mpi_begin(int *argc_p, char ***argv_p, bool threads);
void ref_mpi_end(void);
void ref_mpi_abort(int status) __attribute__((noreturn));
int ref_mpi_rank(void);

/** ---- a side of the comparison: opened before its first loop, collective; false if it cannot run
 *  here ---- */
bool ref_open(bench_kind_t kind);
void ref_close_all(void);
/** All ranks meet. While they wait they make the progress that this side's loops need. */
void ref_meet(bench_kind_t kind);

bool ref_memory_open(void);
void ref_memory_close(void);
bool ref_ucx_open(void);
void ref_ucx_close(void);
void ref_ucx_meet(void);
bool ref_mpi_open(void);
void ref_mpi_close(void);
void ref_mpi_meet(void);
/* before MPI's side closes */
void ref_bibw_close(void);
void ref_alltoallv_close(void);
void ref_coll_close(void);

/** The name of the path that raw UCX takes from this rank to a peer: "ucx-shm", "ucx-tcp" or
 *  "ucx-net". */
const char *ref_ucx_path(int peer);

/** ---- memory: a mapping that the processes of a host share, reached through an array of pointers
 *  ---- */
/* relaxed stores, bounds checked; larger sizes: memcpy */
double ref_store(const bench_run_t *run);
/* relaxed loads, bounds checked; larger sizes: memcpy */
double ref_load(const bench_run_t *run);
double ref_atomic(const bench_run_t *run);     /* arg: bench_amo_t; own word at the peer */
double ref_atomic_hot(const bench_run_t *run); /* all ranks on one word */
/* one slot after the other of the window; arg 1: always the same slot */
double ref_memcpy_put(const bench_run_t *run);
double ref_memcpy_get(const bench_run_t *run);
double ref_flags(const bench_run_t *run);       /* ping-pong over two cache lines, round trip */
double ref_ring_slots(const bench_run_t *run);  /* one way, every message published */
double ref_ring_packed(const bench_run_t *run); /* one way, back to back, published every 4 KiB */
double ref_team_slots(const bench_run_t *run);  /* the same, a ring for each of run->team threads */
double ref_team_packed(const bench_run_t *run);
double ref_ring_both(const bench_run_t *run); /* the same in both directions at once */
/* random updates in 64 MiB of private memory of each rank */
double ref_random_xor(const bench_run_t *run);

/** ---- raw UCX, over memory that UCX allocated ---- */
double ref_ucx_put(const bench_run_t *run); /* each flushed */
double ref_ucx_get(const bench_run_t *run);
double ref_ucx_put_window(const bench_run_t *run); /* 64, then a flush */
/* as many bytes as all operations have, in transfers of 4 KiB */
double ref_ucx_put_blocks(const bench_run_t *run);
/* one way, one put a message, read at the target */
double ref_ucx_ring_slots(const bench_run_t *run);
/* one way, messages back to back in puts of 4 KiB, read there */
double ref_ucx_ring_blocks(const bench_run_t *run);
double ref_ucx_get_window(const bench_run_t *run);
double ref_ucx_atomic(const bench_run_t *run);
double ref_ucx_am(const bench_run_t *run);      /* round trip */
double ref_ucx_am_rate(const bench_run_t *run); /* one way */

/** ---- MPI ---- */
double ref_mpi_put(const bench_run_t *run); /* lock_all, each flushed */
double ref_mpi_get(const bench_run_t *run);
double ref_mpi_put_window(const bench_run_t *run);
double ref_mpi_get_window(const bench_run_t *run);
double ref_mpi_atomic(const bench_run_t *run);
/* exclusive MPI_Win_lock and unlock at the peer; arg 1: at rank 0 */
double ref_mpi_lock(const bench_run_t *run);
double ref_mpi_pingpong(const bench_run_t *run); /* send and receive, round trip */
double ref_mpi_isend(const bench_run_t *run);    /* one way, 64 outstanding */
/* both ways, windows of 64: osu_bibw; arg: threads */
double ref_mpi_bibw(const bench_run_t *run);
/* the same, but each message has a header, after which the receiver allocates memory */
double ref_mpi_parcels(const bench_run_t *run);
/* one way, packed by hand into 4 KiB, 16 outstanding */
double ref_mpi_batches(const bench_run_t *run);
double ref_mpi_collective(const bench_run_t *run);  /* arg: bench_coll_t */
double ref_mpi_bcast_known(const bench_run_t *run); /* from rank 0 to all, until it knows */
/* median latency of operations on a rank that computes */
double ref_mpi_busy_atomic(const bench_run_t *run);

/** ---- random places by buckets and MPI_Alltoallv (ref_alltoallv.c) ---- */
/* Parts of loops: the words at n places, as bench_draw_places draws them, in tables of all ranks. n
 * is the same on all ranks. `table` is this rank's table. All is done on return at all ranks that
 * have returned. */
void ref_alltoallv_add(uint64_t *table, const uint64_t *place, size_t n); /* adds 1 */
void ref_alltoallv_get(uint64_t *dst, const uint64_t *table, const uint64_t *place, size_t n);
void ref_alltoallv_put(uint64_t *table, const uint64_t *src, const uint64_t *place, size_t n);

/** Operations that tables name by number. */
typedef enum {
    BENCH_FADD64,
    BENCH_ADD64,
    BENCH_XOR64,
    BENCH_SWAP64,
    BENCH_CSWAP64,
    BENCH_FADD32,
    BENCH_AMO_KINDS
} bench_amo_t;
static inline size_t bench_amo_bytes(int amo)
{
    return amo == BENCH_FADD32 ? 4 : 8;
}

typedef enum {
    BENCH_BARRIER,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_ALLREDUCE,
    BENCH_SCAN,
    BENCH_EXSCAN,
    BENCH_GATHER,
    BENCH_ALLGATHER,
    BENCH_GATHERV,
    BENCH_ALLGATHERV,
    BENCH_ALLTOALL,
    BENCH_ALLTOALLV,
    BENCH_BARRIER_NB,
    BENCH_BROADCAST_NB,
    BENCH_ALLREDUCE_NB,
    BENCH_ALLTOALLV_NB
} bench_coll_t;
static inline bool bench_coll_reduces(bench_coll_t kind)
{
    return (kind >= BENCH_REDUCE && kind <= BENCH_EXSCAN) || kind == BENCH_ALLREDUCE_NB;
}
/** Memory of both sides for a block of run->bytes from or for each rank; one block for broadcasts
 *  and reductions. Both sides use the same memory. It stays until the program ends. */
void bench_coll_buffers(const bench_run_t *run, char **src_p, char **dst_p);

#endif
