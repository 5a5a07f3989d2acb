/* MPI as users write it: one window under lock_all with a flush where an operation must be
 * complete, send and receive with requests. This file also starts and ends
 * MPI for all benchmarks. */
#include "benchmarks/ref.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_BYTES 4096
#define BATCHES     16 /* outstanding */
#define TAG         7
#define COLL_BYTES  (8u << 20)

static bool own_mpi;
static int my_rank;
static MPI_Comm comm = MPI_COMM_NULL;
static MPI_Win window = MPI_WIN_NULL, locks = MPI_WIN_NULL;
static char *window_base, *private_base, *coll_src, *coll_dst;

/* ---- processes ---- */

/* The library needs SERIALIZED. With MULTIPLE MPI's own loops would take locks. */
void ref_mpi_begin(int *argc_p, char ***argv_p, bool threads)
{
    int level = threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED, given, up;
    MPI_Initialized(&up);
    if (!up)
        MPI_Init_thread(argc_p, argv_p, level, &given);
    if (!up && given < level)
        bench_die("this MPI does not support cases with several threads");
    own_mpi = !up;
    MPI_Comm_rank(MPI_COMM_WORLD, &my_rank);
}

void ref_mpi_end(void)
{
    if (own_mpi)
        MPI_Finalize();
}

void ref_mpi_abort(int status)
{
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, status);
    abort();
}

int ref_mpi_rank(void)
{
    return my_rank;
}

/* ---- the side ---- */

bool ref_mpi_open(void)
{
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    private_base = bench_buffer(BENCH_WINDOW_BYTES);
    coll_src = bench_buffer(COLL_BYTES);
    coll_dst = bench_buffer(COLL_BYTES);
    return true;
}

/* Made by the first loop that needs it. Collective. */
static void need_window(void)
{
    int status;
    if (window != MPI_WIN_NULL)
        return;
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    status = MPI_Win_allocate(BENCH_WINDOW_BYTES, 1, MPI_INFO_NULL, comm, &window_base, &window);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
    if (status != MPI_SUCCESS)
        bench_die("MPI_Win_allocate fails; between hosts Open MPI may need OMPI_MCA_osc=pt2pt");
    memset(window_base, 0, BENCH_WINDOW_BYTES);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(comm);
}

void ref_mpi_close(void)
{
    ref_bibw_close();
    ref_alltoallv_close();
    ref_coll_close();
    if (window != MPI_WIN_NULL) {
        MPI_Win_unlock_all(window);
        MPI_Win_free(&window);
    }
    if (locks != MPI_WIN_NULL)
        MPI_Win_free(&locks);
    MPI_Comm_free(&comm);
    free(private_base);
    free(coll_src);
    free(coll_dst);
}

void ref_mpi_meet(void)
{
    MPI_Barrier(comm);
}

/* ---- one-sided ---- */

static size_t small_offset(uint64_t i, size_t bytes)
{
    return bytes < BENCH_STRIDE_MASK ? bench_walk(i, bytes) : 0;
}

double ref_mpi_put(const bench_run_t *run)
{
    int n = (int)run->bytes;
    uint64_t begin;
    need_window();
    begin = bench_now();
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        MPI_Put(private_base, n, MPI_BYTE, run->peer, (MPI_Aint)small_offset(i, run->bytes), n,
                MPI_BYTE, window);
        MPI_Win_flush(run->peer, window);
    }
    return bench_since(begin);
}

double ref_mpi_get(const bench_run_t *run)
{
    int n = (int)run->bytes;
    uint64_t begin;
    need_window();
    begin = bench_now();
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        MPI_Get(private_base, n, MPI_BYTE, run->peer, (MPI_Aint)small_offset(i, run->bytes), n,
                MPI_BYTE, window);
        MPI_Win_flush(run->peer, window);
    }
    return bench_since(begin);
}

double ref_mpi_put_window(const bench_run_t *run)
{
    int n = (int)run->bytes;
    uint64_t slots = bench_slots(run->bytes), slot = 0, begin;
    need_window();
    begin = bench_now();
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        size_t at = slot * run->bytes;
        MPI_Put(private_base + at, n, MPI_BYTE, run->peer, (MPI_Aint)at, n, MPI_BYTE, window);
        slot = slot + 1 < slots ? slot + 1 : 0;
        if ((i + 1) % BENCH_WINDOW_OPS == 0)
            MPI_Win_flush(run->peer, window);
    }
    MPI_Win_flush(run->peer, window);
    return bench_since(begin);
}

double ref_mpi_get_window(const bench_run_t *run)
{
    int n = (int)run->bytes;
    uint64_t slots = bench_slots(run->bytes), slot = 0, begin;
    need_window();
    begin = bench_now();
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        size_t at = slot * run->bytes;
        MPI_Get(private_base + at, n, MPI_BYTE, run->peer, (MPI_Aint)at, n, MPI_BYTE, window);
        slot = slot + 1 < slots ? slot + 1 : 0;
        if ((i + 1) % BENCH_WINDOW_OPS == 0)
            MPI_Win_flush(run->peer, window);
    }
    MPI_Win_flush(run->peer, window);
    return bench_since(begin);
}

/* Fetching operations, complete on return. There is no compare-and-swap: Open MPI 4.1 crashes in it
 * on such a window. */
double ref_mpi_atomic(const bench_run_t *run)
{
    MPI_Op op = MPI_SUM;
    if (run->arg == BENCH_SWAP64)
        op = MPI_REPLACE;
    else if (run->arg == BENCH_XOR64)
        op = MPI_BXOR;
    MPI_Datatype type = bench_amo_bytes(run->arg) == 4 ? MPI_UINT32_T : MPI_UINT64_T;
    uint64_t one = 1, old = 0, begin;
    need_window();
    begin = bench_now();
    if (!run->active)
        return 0;
    for (uint64_t i = 0; i < run->iters; i++) {
        MPI_Fetch_and_op(&one, &old, type, run->peer, 0, op, window);
        MPI_Win_flush(run->peer, window);
    }
    return bench_since(begin);
}

/* Locks need a window of their own: that of the other loops is always locked by all. */
static void need_locks(void)
{
    void *unused;
    if (locks == MPI_WIN_NULL)
        MPI_Win_allocate(sizeof(uint64_t), 1, MPI_INFO_NULL, comm, &unused, &locks);
}

double ref_mpi_lock(const bench_run_t *run)
{
    int rank = run->arg ? 0 : run->peer;
    need_locks();
    if (!run->active)
        return 0;
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, locks);
        MPI_Win_unlock(rank, locks);
    }
    return bench_since(begin);
}

/* ---- two-sided ---- */

double ref_mpi_pingpong(const bench_run_t *run)
{
    int n = (int)run->bytes;
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        if (run->active)
            MPI_Send(private_base, n, MPI_BYTE, run->peer, TAG, comm);
        MPI_Recv(coll_dst, n, MPI_BYTE, run->peer, TAG, comm, MPI_STATUS_IGNORE);
        if (!run->active)
            MPI_Send(private_base, n, MPI_BYTE, run->peer, TAG, comm);
    }
    return run->active ? bench_since(begin) : 0;
}

/* The receiver reports that it has all messages. */
static void finish_one_way(const bench_run_t *run)
{
    char nothing = 0;
    if (run->active)
        MPI_Recv(&nothing, 1, MPI_BYTE, run->peer, TAG + 1, comm, MPI_STATUS_IGNORE);
    else
        MPI_Send(&nothing, 1, MPI_BYTE, run->peer, TAG + 1, comm);
}

double ref_mpi_isend(const bench_run_t *run)
{
    MPI_Request request[BENCH_WINDOW_OPS];
    int n = (int)run->bytes;
    uint64_t left = run->iters, begin = bench_now();
    while (left > 0) {
        int window_ops = left < BENCH_WINDOW_OPS ? (int)left : BENCH_WINDOW_OPS;
        for (int i = 0; i < window_ops; i++) {
            if (run->active)
                MPI_Isend(private_base + (size_t)i * run->bytes, n, MPI_BYTE, run->peer, TAG, comm,
                          &request[i]);
            else
                MPI_Irecv(coll_dst + (size_t)i * run->bytes, n, MPI_BYTE, run->peer, TAG, comm,
                          &request[i]);
        }
        MPI_Waitall(window_ops, request, MPI_STATUSES_IGNORE);
        left -= (uint64_t)window_ops;
    }
    finish_one_way(run);
    return run->active ? bench_since(begin) : 0;
}

/* The sender packs items one by one, and the receiver adds them up. */
static inline __attribute__((always_inline)) void pack_items(char *batch, uint64_t first,
                                                             uint64_t n, size_t bytes)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t item = first + i;
        memcpy(batch + i * bytes, &item, sizeof item < bytes ? sizeof item : bytes);
        if (bytes > sizeof item)
            memcpy(batch + i * bytes + sizeof item, private_base, bytes - sizeof item);
        bench_step();
    }
}

static inline __attribute__((always_inline)) uint64_t sum_items(const char *batch, uint64_t n,
                                                                size_t bytes)
{
    uint64_t sum = 0, item = 0;
    for (uint64_t i = 0; i < n; i++) {
        memcpy(&item, batch + i * bytes, sizeof item < bytes ? sizeof item : bytes);
        sum += item;
    }
    return sum;
}

static void pack(char *batch, uint64_t first, uint64_t n, size_t bytes)
{
#define PACK(SIZE) pack_items(batch, first, n, SIZE)
    BENCH_BY_SIZE(bytes, PACK);
#undef PACK
}

static uint64_t sum(const char *batch, uint64_t n, size_t bytes)
{
    uint64_t result = 0;
#define SUM(SIZE) result = sum_items(batch, n, SIZE)
    BENCH_BY_SIZE(bytes, SUM);
#undef SUM
    return result;
}

static void send_batches(const bench_run_t *run, char *buffer, uint64_t per_batch)
{
    MPI_Request request[BATCHES];
    size_t stride = per_batch * run->bytes;
    int slot = 0;
    for (int i = 0; i < BATCHES; i++)
        request[i] = MPI_REQUEST_NULL;
    for (uint64_t sent = 0; sent < run->iters; slot = (slot + 1) % BATCHES) {
        uint64_t n = run->iters - sent < per_batch ? run->iters - sent : per_batch;
        char *batch = buffer + (size_t)slot * stride;
        MPI_Wait(&request[slot], MPI_STATUS_IGNORE);
        pack(batch, sent, n, run->bytes);
        MPI_Isend(batch, (int)(n * run->bytes), MPI_BYTE, run->peer, TAG, comm, &request[slot]);
        sent += n;
    }
    MPI_Waitall(BATCHES, request, MPI_STATUSES_IGNORE);
}

static uint64_t receive_batches(const bench_run_t *run, char *buffer, uint64_t per_batch)
{
    MPI_Request request[BATCHES];
    size_t stride = per_batch * run->bytes;
    uint64_t n_batches = (run->iters + per_batch - 1) / per_batch, total = 0;
    for (int i = 0; i < BATCHES; i++) {
        request[i] = MPI_REQUEST_NULL;
        if ((uint64_t)i < n_batches)
            MPI_Irecv(buffer + (size_t)i * stride, (int)stride, MPI_BYTE, run->peer, TAG, comm,
                      &request[i]);
    }
    for (uint64_t b = 0; b < n_batches; b++) {
        MPI_Status status;
        int slot = (int)(b % BATCHES), got = 0;
        char *batch = buffer + (size_t)slot * stride;
        MPI_Wait(&request[slot], &status);
        MPI_Get_count(&status, MPI_BYTE, &got);
        total += sum(batch, (uint64_t)got / run->bytes, run->bytes);
        if (b + BATCHES < n_batches)
            MPI_Irecv(batch, (int)stride, MPI_BYTE, run->peer, TAG, comm, &request[slot]);
    }
    return total;
}

double ref_mpi_batches(const bench_run_t *run)
{
    uint64_t per_batch = run->bytes < BATCH_BYTES ? BATCH_BYTES / run->bytes : 1,
             begin = bench_now();
    if (run->active)
        send_batches(run, coll_src, per_batch);
    else
        bench_use(receive_batches(run, coll_dst, per_batch));
    finish_one_way(run);
    return run->active ? bench_since(begin) : 0;
}

/* ---- collectives ---- */

/* From the root's call until the root knows that all ranks have the data: MPI_Bcast alone may end
 * before any rank has read them. */
double ref_mpi_bcast_known(const bench_run_t *run)
{
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        char here = 1, all = 0;
        MPI_Bcast(coll_dst, (int)run->bytes, MPI_BYTE, 0, comm);
        MPI_Reduce(&here, &all, 1, MPI_BYTE, MPI_BAND, 0, comm);
    }
    return run->rank == 0 ? bench_since(begin) : 0;
}

/* ---- towards a rank that computes ---- */

static void fetch_add_times(const bench_run_t *run, int n)
{
    uint64_t one = 1, old = 0;
    for (int i = 0; i < n; i++) {
        MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, run->peer, 0, MPI_SUM, window);
        MPI_Win_flush(run->peer, window);
    }
}

double ref_mpi_busy_atomic(const bench_run_t *run)
{
    need_window();
    ref_mpi_meet();
    if (run->active)
        return bench_sample(run, fetch_add_times, run->far ? 1 : 10);
    bench_compute(run->round_ms);
    return 0;
}
