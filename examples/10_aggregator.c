/* 10_aggregator: many small calls, gathered.
 *
 * Every rank draws random keys and sends each key to the rank that counts it. A single call costs a
 * message or a few cache lines. An aggregator collects the calls to one rank in a batch. It
 * sends a batch that is large enough, whose time limit has passed, or on request.
 * The target runs a whole batch in one loop over the handler's body.
 *
 *   mpirun -n 4 build/examples/10_aggregator */
#include <pgas/pgas.h>
#include <inttypes.h>
#include <stdio.h>
#include "usage.h"

#define N_KEYS     200000 /* that each rank draws */
#define N_COUNTERS 4096   /* on each rank */

static uint64_t counter[N_COUNTERS];

PGAS_HANDLER(count_key, uint64_t)
{
    counter[*arg % N_COUNTERS]++;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Sends the keys of this rank, and waits until all of them are counted. */
static int send_keys(pgas_agg_t *agg)
{
    uint64_t state = UINT64_C(88172645463325252) + (uint64_t)pgas_rank();
    uint64_t n_ranks = (uint64_t)pgas_n_ranks();
    int n_bad = 0;
    for (int i = 0; i < N_KEYS && !n_bad; i++) {
        uint64_t key = draw(&state);
        n_bad += pgas_agg_count_key(agg, (int)(key / N_COUNTERS % n_ranks), &key) != PGAS_OK;
    }

    /* Sends the batches that are still open. The counter is zero when all calls that this thread
     * has gathered so far have run, on all ranks. */
    pgas_sync_t done = PGAS_SYNC_INIT;
    n_bad += pgas_agg_flush(agg, PGAS_ALL, &done) != PGAS_OK;
    return n_bad + (pgas_sync_wait(&done, -1) != PGAS_OK);
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "10_aggregator\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;

    /* A batch is sent when it has 8 KiB, or when it is 500 us old and the thread makes progress. */
    pgas_agg_t *agg;
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.publish_bytes = 8192;
    opts.latency_us = 500;
    if (pgas_agg_create(&opts, &agg) != PGAS_OK)
        return 1;
    int n_bad = send_keys(agg);

    pgas_agg_info_t stats = { .size = sizeof(pgas_agg_info_t) };
    n_bad += pgas_agg_info(agg, &stats) != PGAS_OK;
    pgas_agg_destroy(agg);
    pgas_barrier(NULL); /* the keys of the other ranks are counted too */

    uint64_t mine = 0, all = 0, want = (uint64_t)N_KEYS * (uint64_t)pgas_n_ranks();
    for (int i = 0; i < N_COUNTERS; i++)
        mine += counter[i];
    n_bad += pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD) != PGAS_OK;
    uint64_t n_sent = stats.full + stats.time + stats.explicit_flush + stats.order + stats.room;
    int good = !n_bad && all == want && stats.calls >= N_KEYS && n_sent < N_KEYS / 100;
    if (pgas_rank() == 0 || !good)
        printf("%" PRIu64 " of %" PRIu64 " keys counted, %" PRIu64 " batches sent by rank %d: %s\n",
               all, want, n_sent, pgas_rank(), good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
