/* 05_histogram: very many very small updates, gathered into large messages.
 *
 * A table of counters is spread over all ranks. Every rank draws random numbers and adds one to the
 * counter that each number names, in two ways. First it calls the owner. One call carries 4 bytes;
 * the aggregator collects calls to the same rank and sends them together.
 * Then it updates many words of the symmetric heap at once.
 *
 *   mpirun -n 4 build/examples/05_histogram [UPDATES of each rank] */
#include <pgas/pgas.h>
#include "histogram.h"

static const char usage[] = "05_histogram [UPDATES of each rank, 1 to 10^12; 1000000]\n";

#define N_MANY 4096 /* updates of one call of pgas_update_many */

static uint64_t counters[N_COUNTERS];

/* Runs at the owner. Only handlers change the counters, and handlers of one rank never overlap, so
 * this needs no atomics. */
PGAS_HANDLER(count, uint32_t)
{
    counters[*arg]++;
}

/* The number of a counter of any rank. */
static uint64_t draw(uint64_t *state)
{
    return (next_random(state) >> 32) % ((uint64_t)pgas_n_ranks() * N_COUNTERS);
}

static pgas_status_t by_calls(long n_updates)
{
    pgas_agg_t *agg;
    uint64_t state = random_start();
    pgas_status_t status = pgas_agg_create(NULL, &agg);
    for (long i = 0; i < n_updates && status == PGAS_OK; i++) {
        uint64_t number = draw(&state);
        uint32_t index = (uint32_t)(number % N_COUNTERS);
        status = pgas_agg_count(agg, (int)(number / N_COUNTERS), &index);
    }

    /* Destroy sends the calls that are still gathered. Quiesce returns when all calls of all ranks
     * have run. */
    pgas_agg_destroy(agg);
    pgas_status_t quiet = pgas_quiesce();
    return status != PGAS_OK ? status : quiet;
}

/* table: the symmetric block of this rank. */
static pgas_status_t at_once(pgas_gptr_t table, long n_updates)
{
    static pgas_gptr_t words[N_MANY];
    uint64_t state = random_start();
    pgas_status_t status = PGAS_OK;
    for (long done = 0; done < n_updates && status == PGAS_OK; done += N_MANY) {
        size_t n = n_updates - done < N_MANY ? (size_t)(n_updates - done) : N_MANY;
        for (size_t i = 0; i < n; i++) {
            uint64_t number = draw(&state);
            words[i] = pgas_gptr_elem(pgas_gptr_at(table, (int)(number / N_COUNTERS)),
                                      (int64_t)(number % N_COUNTERS), sizeof(uint64_t));
        }
        status = pgas_update_many(words, PGAS_ADD, PGAS_U64, NULL, n); /* NULL: ones */
    }
    pgas_status_t quiet = pgas_quiesce();
    return status != PGAS_OK ? status : quiet;
}

/* Adds up the counters of this rank, and prints the result. */
static int is_right(const uint64_t *counter, long n_updates, double seconds)
{
    uint64_t sum = 0, least = counter[0];
    for (int i = 0; i < N_COUNTERS; i++) {
        sum += counter[i];
        least = counter[i] < least ? counter[i] : least;
    }
    return report(sum, least, n_updates, seconds);
}

int main(int argc, char **argv)
{
    long n_updates = parse_updates(argc, argv, usage);
    pgas_gptr_t table;
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_alloc(sizeof counters, &table) != PGAS_OK)
        return 1;
    uint64_t *words = pgas_gptr_local(table, sizeof counters);
    memset(words, 0, sizeof counters);
    pgas_barrier(NULL);

    double begin = pgas_time();
    int good = by_calls(n_updates) == PGAS_OK;
    good &= is_right(counters, n_updates, pgas_time() - begin);

    begin = pgas_time();
    good &= at_once(table, n_updates) == PGAS_OK;
    good &= is_right(words, n_updates, pgas_time() - begin);
    pgas_free(table);
    pgas_finalize();
    return good ? 0 : 1;
}
