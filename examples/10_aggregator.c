/* 10_aggregator: many small calls, gathered.
 *
 * Every rank draws random keys and sends each to the rank that counts it. A call by itself costs a
 * message or a few cache lines; an aggregator puts calls to one rank behind each other and
 * publishes them together: when enough are gathered, when the time limit is over, and when asked
 * to. The handler has a batch form, which gets whole runs of calls.
 *
 *   mpirun -n 4 build/examples/10_aggregator */
#include <pgas/pgas.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "usage.h"

#define N_KEYS     200000 /* that each rank draws */
#define N_COUNTERS 4096   /* on each rank */

static pgas_handler_t count_key;
static uint64_t counter[N_COUNTERS];
static uint64_t n_runs, n_single;

/* The plain form: a single call, or one that was not gathered. */
static void handle_key(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    counter[*(const uint64_t *)args % N_COUNTERS]++;
    n_single++;
}

/* The batch form: n calls of one rank, in the order issued. Counters that are needed soon can be
 * fetched ahead. */
static void handle_keys(const void *args, size_t bytes, size_t stride, size_t n,
                        pgas_thread_t source, void *context)
{
    const char *at = args;
    (void)bytes, (void)source, (void)context;
    for (size_t i = 0; i < n; i++) {
        if (i + 8 < n) {
            __builtin_prefetch(
                &counter[*(const uint64_t *)(const void *)(at + (i + 8) * stride) % N_COUNTERS], 1);
        }
        counter[*(const uint64_t *)(const void *)(at + i * stride) % N_COUNTERS]++;
    }
    n_runs++;
}

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "10_aggregator\n", 0);
    pgas_handler_opts_t batch = PGAS_HANDLER_OPTS_INIT;
    batch.batch = handle_keys;
    pgas_handler_register_opts("example.count key", handle_key, NULL, &batch, &count_key);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int n_ranks = pgas_n_ranks(), n_bad = 0;
    uint64_t state = 88172645463325252u + (uint64_t)pgas_rank();

    /* A batch leaves at 8 KiB, or when it is 500 us old and the thread makes progress. */
    pgas_agg_t *agg;
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    opts.publish_bytes = 8192;
    opts.latency_us = 500;
    if (pgas_agg_create(&opts, &agg) != PGAS_OK)
        return 1;
    for (int i = 0; i < N_KEYS && !n_bad; i++) {
        uint64_t key = draw(&state);
        n_bad += pgas_agg_call(agg, (int)(key / N_COUNTERS % (uint64_t)n_ranks), count_key, &key,
                               sizeof key) != PGAS_OK;
    }

    /* Publishes the rest and tells when all that this thread has gathered so far has run,
     * everywhere. */
    pgas_sync_t done;
    n_bad += pgas_sync_init(&done, 1) != PGAS_OK;
    n_bad += pgas_agg_flush_sync(agg, PGAS_AGG_ALL, &done) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    pgas_sync_fini(&done);

    pgas_agg_stats_t stats = PGAS_AGG_STATS_INIT;
    n_bad += pgas_agg_stats(agg, &stats) != PGAS_OK;
    pgas_agg_destroy(agg);
    pgas_barrier(NULL); /* the keys of the others have run, too */

    uint64_t mine = 0, all = 0, want = (uint64_t)N_KEYS * (uint64_t)n_ranks;
    for (int i = 0; i < N_COUNTERS; i++)
        mine += counter[i];
    n_bad += pgas_allreduce(NULL, &mine, &all, 1, PGAS_UINT64, PGAS_SUM) != PGAS_OK;
    int good = !n_bad && all == want && stats.calls >= N_KEYS && n_runs > 0 && n_single < want / 2;
    if (pgas_rank() == 0 || !good) {
        printf("%" PRIu64 " of %" PRIu64 " keys counted, %" PRIu64 " batches sent by rank %d: %s\n",
               all, want, stats.full + stats.time + stats.explicit_flush + stats.order + stats.room,
               pgas_rank(), good ? "right" : "WRONG");
    }
    pgas_finalize();
    return good ? 0 : 1;
}
