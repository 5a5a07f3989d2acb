/* histogram.h: what 05_histogram and array_histogram share: options, random numbers, the clock and
 * the last line. */
#ifndef EXAMPLES_HISTOGRAM_H
#define EXAMPLES_HISTOGRAM_H

#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "usage.h"

#define N_COUNTERS  10000 /* of each rank */
#define UPDATES_MAX 1000000000000

/* The number of updates of each rank, from the command line. Ends the program if it is not one. */
static inline long parse_updates(int argc, char **argv, const char *usage)
{
    usage_check(pgas_launcher_rank(), argc, argv, usage, 1);
    if (argc == 1)
        return 1000000;
    size_t n = strspn(argv[1], "0123456789");
    long updates = n > 0 && n < 14 && argv[1][n] == '\0' ? atol(argv[1]) : 0;
    if (updates == 0 || updates > UPDATES_MAX)
        usage_exit(pgas_launcher_rank(), usage, "not a whole number of updates", argv[1]);
    return updates;
}

/* A small generator of random numbers (xorshift). Each rank has its own start. */
static inline uint64_t random_start(void)
{
    return UINT64_C(88172645463325252) + (uint64_t)pgas_rank();
}

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Sum and least of the counters of all ranks. No update may be lost, and with many updates every
 * counter has some. Rank 0 prints the result. @return whether it is right */
static inline int report(uint64_t sum, uint64_t least, long n_updates, double seconds)
{
    pgas_allreduce(NULL, &sum, &sum, 1, PGAS_U64, PGAS_ADD);
    pgas_allreduce(NULL, &least, &least, 1, PGAS_U64, PGAS_MIN);
    uint64_t wanted = (uint64_t)n_updates * (uint64_t)pgas_n_ranks();
    int good = sum == wanted && (n_updates < N_COUNTERS * 100 || least > 0);
    if (pgas_rank() == 0)
        printf("%llu of %llu updates counted, the least counter has %llu, %.1f million updates per "
               "second: %s\n",
               (unsigned long long)sum, (unsigned long long)wanted, (unsigned long long)least,
               (double)wanted / seconds / 1e6, good ? "right" : "WRONG");
    return good;
}

#endif
