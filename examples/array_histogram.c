/* array_histogram: counting into an array that lies on all ranks.
 *
 * Counters are elements of a coherent array. Every rank draws random numbers and adds one to each
 * counter that they name, wherever it lies: adding is an operator of the array, so ranks add side
 * by side, each into operands of its own, and sums come together when somebody reads. Compare
 * 05_histogram, where each addition is a call.
 *
 *   mpirun -n 4 build/examples/array_histogram [UPDATES of each rank] */
#include <pgas/array.h>
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "usage.h"

#define N_COUNTERS 10000 /* for each rank */

static const char usage[] = "array_histogram [UPDATES of each rank, 1 to 10^12; 1000000]\n";

/* A small generator of random numbers (xorshift), seeded by the rank. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static pgas_status_t draw(pgas_array_t *counters, long n_updates)
{
    uint64_t state = UINT64_C(88172645463325252) + (uint64_t)pgas_rank();
    pgas_status_t status = PGAS_OK;
    for (long i = 0; i < n_updates && status == PGAS_OK; i++) {
        uint64_t counter = (next_random(&state) >> 32) % pgas_array_n_elems(counters);
        status = pgas_array_apply_u64(counters, counter, PGAS_ARRAY_ADD_U64, 1);
    }
    /* additions before it are seen by those who read after it */
    pgas_status_t all_there = pgas_barrier(NULL);
    return status != PGAS_OK ? status : all_there;
}

/* Sum and least of all counters. Each rank looks at its own, a chunk at a time, by plain loads. */
static pgas_status_t look(pgas_array_t *counters, uint64_t *sum_p, uint64_t *least_p)
{
    uint64_t first, n, sum = 0, least = UINT64_MAX;
    pgas_array_walk_t walk;
    pgas_array_range(counters, -1, &first, &n);
    pgas_array_walk_begin(counters, first, n, PGAS_ARRAY_PIN_READ, 0, &walk);
    while (pgas_array_walk_next(&walk)) {
        const uint64_t *count = (const uint64_t *)walk.data;
        for (uint64_t k = 0; k < walk.n; k++) {
            sum += count[k];
            least = count[k] < least ? count[k] : least;
        }
    }
    pgas_status_t status = pgas_array_walk_end(&walk);
    pgas_allreduce(NULL, &sum, sum_p, 1, PGAS_UINT64, PGAS_SUM);
    pgas_allreduce(NULL, &least, least_p, 1, PGAS_UINT64, PGAS_MIN);
    return status;
}

/* A number of updates; 0 if it is none. */
static long whole(const char *text)
{
    size_t n = strspn(text, "0123456789");
    long value = n > 0 && n < 14 && text[n] == '\0' ? atol(text) : 0;
    return value <= 1000000000000 ? value : 0;
}

static int run(long n_updates)
{
    int n_ranks = pgas_n_ranks();
    uint64_t sum = 0, least = 0, wanted = (uint64_t)n_updates * (uint64_t)n_ranks;
    pgas_array_t *counters;
    if (pgas_array_create(NULL, sizeof(uint64_t), (uint64_t)n_ranks * N_COUNTERS, NULL,
                          &counters) != PGAS_OK)
        return 1;
    double begin = now();
    pgas_status_t status = draw(counters, n_updates);
    double seconds = now() - begin;
    if (status == PGAS_OK)
        status = look(counters, &sum, &least);
    /* Nothing may be lost, and no counter should be far from the others. */
    int good = status == PGAS_OK && sum == wanted && (n_updates < N_COUNTERS * 100 || least > 0);
    if (pgas_rank() == 0) {
        printf("%llu of %llu updates counted, the least counter has %llu, %.1f million updates per "
               "second: %s\n",
               (unsigned long long)sum, (unsigned long long)wanted, (unsigned long long)least,
               (double)wanted / seconds / 1e6, good ? "right" : "WRONG");
    }
    pgas_array_destroy(counters);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, usage, 1);
    long n_updates = argc == 1 ? 1000000 : whole(argv[1]);
    if (n_updates == 0)
        usage_exit(pgas_launcher_rank(), usage, "not a whole number of updates", argv[1]);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int bad = run(n_updates);
    pgas_finalize();
    return bad;
}
