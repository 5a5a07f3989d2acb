/* Channels that grow.
 *   what:   While a receiver stays away, the channels of several senders grow at one time. Each one
 *           grows up to PGAS_CHUNKS_MAX, all together up to what PGAS_CHUNK_MEMORY leaves.
 *           No chunk is given twice: every call arrives once, in order. A closed channel gives its
 *           chunks back to others.
 *   np:     2 3 5
 *   nodes:  0
 *   tls:    posix
 *   env:    PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_CHUNKS=2
 *   env:    PGAS_CHUNKS_MAX=6 PGAS_CHUNK_MEMORY=2M |
 *   env:    PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_CHUNKS=2
 *   env:    PGAS_CHUNKS_MAX=6 PGAS_CHUNK_MEMORY=456K PGAS_LANES=1
 *   source: src/msg/recv_memory.c, pgasi_recvq_grow; src/msg/channel.c */
#include <sched.h>
#include "msg/recv_queue.h"
#include "t/spmd/job.h"

#define CHUNK      4096
#define CHUNKS_MAX 6
#define ROUNDS     3

static uint64_t next_from[JOB_RANKS_MAX], n_wrong;

PGAS_HANDLER(growth_arrive, uint64_t)
{
    int rank = pgas_thread_rank(source);
    n_wrong += *arg != next_from[rank];
    next_from[rank]++;
}

/* Rank 0 does not call the library until all others have filled their channels. */
static void stay_away(const uint64_t *n_full)
{
    while (__atomic_load_n(n_full, __ATOMIC_ACQUIRE) < (uint64_t)n_ranks - 1)
        sched_yield();
}

/* Sends until the channel is full. @return the calls that were accepted */
static uint64_t fill(uint64_t number)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.full = PGAS_FULL_AGAIN;
    uint64_t first = number;
    /* A channel grows only after many refusals. */
    for (int refused = 0; refused < 100000;)
        if (pgas_call_growth_arrive_to(pgas_on_rank(0), &number, &opts) == PGAS_OK)
            number++;
        else
            refused++;
    return number - first;
}

static int n_chunks(void)
{
    pgas_channel_info_t info;
    info.size = sizeof info;
    bool good = pgas_channel_info(pgas_on_rank(0), &info) == PGAS_OK && info.stores &&
                info.chunk_bytes == CHUNK;
    return good ? info.n_chunks : -1;
}

/* The chunks by which all channels into a rank can grow together. */
static int n_further(void)
{
    pgasi_recvq_size_t size;
    if (pgasi_recvq_size_here(&size) != PGAS_OK)
        return -1;
    return (int)(size.n_chunks - size.n_channels * size.n_first);
}

static void round_of_growth(pgas_gptr_t at, int round)
{
    static uint64_t number;
    uint64_t *n_full = pgas_gptr_local(pgas_gptr_at(at, 0), sizeof *n_full), sent = 0;
    int32_t chunks = 0, all = 0, most = 0;
    pgas_barrier(NULL);
    if (me == 0) {
        stay_away(n_full);
    } else {
        sent = fill(number);
        number += sent;
        chunks = n_chunks();
        __atomic_fetch_add(n_full, 1, __ATOMIC_RELEASE);
    }
    bool good = pgas_quiesce() == PGAS_OK;
    pgas_allreduce(NULL, &chunks, &all, 1, PGAS_I32, PGAS_ADD);
    pgas_allreduce(NULL, &chunks, &most, 1, PGAS_I32, PGAS_MAX);
    uint64_t total = 0, arrived = 0;
    pgas_allreduce(NULL, &number, &total, 1, PGAS_U64, PGAS_ADD);
    for (int r = 1; r < n_ranks && me == 0; r++)
        arrived += next_from[r];
    int grown = all - 2 * (n_ranks - 1), wanted = (CHUNKS_MAX - 2) * (n_ranks - 1);
    bool right = me == 0 || (chunks >= 2 && chunks <= CHUNKS_MAX && sent > 0);
    spmd_ok(right && most > 2 && grown == (wanted < n_further() ? wanted : n_further()),
            "round %d: channels grow to %d chunks, or until none is left", round, CHUNKS_MAX);
    spmd_ok(good && n_wrong == 0 && (me != 0 || arrived == total),
            "round %d: every call has arrived once and in order", round);
    if (me == 0)
        *n_full = 0;
    else
        good = pgas_channel_close(pgas_on_rank(0)) == PGAS_OK && n_chunks() <= 3;
    spmd_ok(good, "round %d: a closed channel has its first chunks", round);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 3 * ROUNDS);
    pgas_gptr_t at;
    if (pgas_alloc(sizeof(uint64_t), &at) != PGAS_OK)
        return 99;
    *(uint64_t *)pgas_gptr_local(at, sizeof(uint64_t)) = 0;
    for (int round = 0; round < ROUNDS; round++)
        round_of_growth(at, round);
    pgas_free(at);
    return job_end();
}
