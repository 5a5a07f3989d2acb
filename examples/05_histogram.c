/* 05_histogram: very many very small calls, gathered into large messages.
 *
 * A table of counters is spread over all ranks. Every rank draws random numbers and calls the owner
 * of the counter that each number names. One call carries 4 bytes; the aggregator writes calls to
 * the same rank one after the other and sends them together.
 *
 *   mpirun -n 4 build/examples/05_histogram [UPDATES of each rank] */
#include <pgas/pgas.h>
#include "histogram.h"

static const char usage[] = "05_histogram [UPDATES of each rank, 1 to 10^12; 1000000]\n";

static uint32_t counters[N_COUNTERS];

/* Runs at the owner. Only handlers change the counters, and handlers of one rank never overlap, so
 * this needs no atomics. */
PGAS_HANDLER(count, uint32_t)
{
    counters[*arg]++;
}

static pgas_status_t update_all(long n_updates)
{
    pgas_agg_t *agg;
    uint32_t n_ranks = (uint32_t)pgas_n_ranks();
    uint64_t state = random_start(), n_counters = (uint64_t)n_ranks * N_COUNTERS;
    pgas_status_t status = pgas_agg_create(NULL, &agg);
    for (long i = 0; i < n_updates && status == PGAS_OK; i++) {
        uint32_t number = (uint32_t)((next_random(&state) >> 32) % n_counters);
        uint32_t index = number / n_ranks;
        status = pgas_agg_count(agg, (int)(number % n_ranks), &index);
    }

    /* Destroy sends the calls that are still gathered. Quiesce returns when all calls of all ranks
     * have run. */
    pgas_agg_destroy(agg);
    pgas_status_t quiet = pgas_quiesce();
    return status != PGAS_OK ? status : quiet;
}

int main(int argc, char **argv)
{
    long n_updates = parse_updates(argc, argv, usage);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;

    double begin = pgas_time();
    pgas_status_t status = update_all(n_updates);
    double seconds = pgas_time() - begin;

    uint64_t sum = 0, least = counters[0];
    for (int i = 0; i < N_COUNTERS; i++) {
        sum += counters[i];
        least = counters[i] < least ? counters[i] : least;
    }
    int good = report(sum, least, n_updates, seconds) && status == PGAS_OK;
    pgas_finalize();
    return good ? 0 : 1;
}
