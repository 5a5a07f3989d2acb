/* array_histogram: counting into an array that is distributed over all ranks.
 *
 * Counters are elements of a coherent array. Every rank draws random numbers and adds one to the
 * counter that each number names, on any rank. Addition is an operator of the array. Ranks add at
 * the same time, each into contributions of its own. The array combines the contributions when a
 * rank reads. In 05_histogram each addition is a call instead.
 *
 *   mpirun -n 4 build/examples/array_histogram [UPDATES of each rank] */
#include <pgas/array.h>
#include <pgas/pgas.h>
#include "histogram.h"

static const char usage[] = "array_histogram [UPDATES of each rank, 1 to 10^12; 1000000]\n";

static pgas_status_t update_all(pgas_array_t *counters, long n_updates)
{
    uint64_t state = random_start();
    pgas_status_t status = PGAS_OK;
    for (long i = 0; i < n_updates && status == PGAS_OK; i++) {
        uint64_t counter = (next_random(&state) >> 32) % pgas_array_n_elems(counters);
        status = pgas_array_apply_u64(counters, counter, PGAS_ADD, 1);
    }
    /* Reads after the barrier see all additions before it. */
    pgas_status_t all_there = pgas_barrier(NULL);
    return status != PGAS_OK ? status : all_there;
}

/* Sum and least of the counters whose home is this rank. It reads them a chunk at a time, by plain
 * loads. */
static pgas_status_t add_up(pgas_array_t *counters, uint64_t *sum_p, uint64_t *least_p)
{
    uint64_t first, n, sum = 0, least = UINT64_MAX;
    pgas_array_walk_t walk;
    pgas_array_range(counters, -1, &first, &n);
    pgas_array_walk_begin(counters, first, n, PGAS_ARRAY_READ, 0, &walk);
    while (pgas_array_walk_next(&walk)) {
        const uint64_t *count = (const uint64_t *)walk.data;
        for (uint64_t k = 0; k < walk.n; k++) {
            sum += count[k];
            least = count[k] < least ? count[k] : least;
        }
    }
    *sum_p = sum;
    *least_p = least;
    return pgas_array_walk_end(&walk);
}

static int run(long n_updates)
{
    uint64_t sum = 0, least = 0, n_counters = (uint64_t)pgas_n_ranks() * N_COUNTERS;
    pgas_array_t *counters;
    if (pgas_array_create(NULL, sizeof(uint64_t), n_counters, NULL, &counters) != PGAS_OK)
        return 0;

    double begin = pgas_time();
    pgas_status_t status = update_all(counters, n_updates);
    double seconds = pgas_time() - begin;

    if (status == PGAS_OK)
        status = add_up(counters, &sum, &least);
    int good = report(sum, least, n_updates, seconds) && status == PGAS_OK;
    pgas_array_destroy(counters);
    return good;
}

int main(int argc, char **argv)
{
    long n_updates = parse_updates(argc, argv, usage);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int good = run(n_updates);
    pgas_finalize();
    return good ? 0 : 1;
}
