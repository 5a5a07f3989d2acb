/* 05_histogram: very many very small calls, gathered into large messages.
 *
 * A table of counters is spread over all ranks. Every rank draws random numbers and counts each
 * where its counter stands. One call is 4 bytes; the aggregator writes calls to the same rank one
 * after the other and sends them together.
 *
 *   mpirun -n 4 build/examples/05_histogram [UPDATES of each rank] */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "usage.h"

#define N_COUNTERS 10000 /* of each rank */

static const char usage[] = "05_histogram [UPDATES of each rank, 1 to 10^12; 1000000]\n";

static pgas_handler_t count;
static uint32_t counters[N_COUNTERS];

/* Runs at the owner. Only handlers touch the counters, and those of one rank never overlap: no
 * atomics. */
static void handle_count(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint32_t index = *(const uint32_t *)args;
    (void)bytes, (void)source, (void)context;
    counters[index]++;
}

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

static pgas_status_t draw(long n_updates)
{
    uint32_t n_ranks = (uint32_t)pgas_n_ranks();
    uint64_t state = UINT64_C(88172645463325252) + (uint64_t)pgas_rank();
    pgas_agg_t *agg;
    pgas_status_t status = pgas_agg_create(NULL, &agg);
    if (status != PGAS_OK)
        return status;
    for (long i = 0; i < n_updates && status == PGAS_OK; i++) {
        uint32_t number =
            (uint32_t)((next_random(&state) >> 32) % ((uint64_t)n_ranks * N_COUNTERS));
        uint32_t index = number / n_ranks;
        status = pgas_agg_call(agg, (int)(number % n_ranks), count, &index, sizeof index);
    }
    /* Destroying publishes what is gathered; quiesce returns when all calls of all ranks have
     * run. */
    pgas_agg_destroy(agg);
    pgas_status_t quiet = pgas_quiesce();
    return status != PGAS_OK ? status : quiet;
}

/* A number of updates; 0 if it is none. */
static long whole(const char *text)
{
    size_t n = strspn(text, "0123456789");
    long value = n > 0 && n < 14 && text[n] == '\0' ? atol(text) : 0;
    return value <= 1000000000000 ? value : 0;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, usage, 1);
    long n_updates = argc == 1 ? 1000000 : whole(argv[1]);
    if (n_updates == 0)
        usage_exit(pgas_launcher_rank(), usage, "not a whole number of updates", argv[1]);
    pgas_handler_register("example.count", handle_count, NULL, &count);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    double begin = now();
    pgas_status_t status = draw(n_updates);
    double seconds = now() - begin;

    /* Nothing may be lost, and no counter should be far from the others. */
    uint64_t sum = 0, least = counters[0];
    for (int i = 0; i < N_COUNTERS; i++) {
        sum += counters[i];
        least = counters[i] < least ? counters[i] : least;
    }
    pgas_allreduce(NULL, &sum, &sum, 1, PGAS_UINT64, PGAS_SUM);
    pgas_allreduce(NULL, &least, &least, 1, PGAS_UINT64, PGAS_MIN);
    uint64_t wanted = (uint64_t)n_updates * (uint64_t)pgas_n_ranks();
    int good = status == PGAS_OK && sum == wanted && (n_updates < N_COUNTERS * 100 || least > 0);
    if (pgas_rank() == 0) {
        printf("%llu of %llu updates counted, the least counter has %llu, %.1f million updates per "
               "second: %s\n",
               (unsigned long long)sum, (unsigned long long)wanted, (unsigned long long)least,
               (double)wanted / seconds / 1e6, good ? "right" : "WRONG");
    }
    pgas_finalize();
    return good ? 0 : 1;
}
