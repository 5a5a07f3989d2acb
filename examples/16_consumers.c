/* 16_consumers: threads of the library that run the calls to one slot.
 *
 * Every rank answers two kinds of requests. Long ones count primes; short ones read a word. If both
 * went to the rank, a short request would wait behind long ones, because handlers of one target run
 * one at a time. So the long ones go to a slot of their own, for which two library threads run
 * calls. The rank's own thread computes meanwhile and need not enter the library.
 *
 *   mpirun -n 4 build/examples/16_consumers */
#include <pgas/pgas.h>
#include <stdio.h>
#include "usage.h"

#define SLOT       2 /* no thread of the program has it */
#define N_REQUESTS 8
#define LIMIT      20000
#define N_PRIMES   2262 /* below LIMIT */

typedef struct {
    int32_t from, to;
} range_t;

/* A long request. Requests to one slot never overlap, also with several consumer threads. */
PGAS_HANDLER_RETURN(count_primes, range_t, int64_t)
{
    int64_t n = 0;
    for (int32_t i = arg->from; i < arg->to; i++) {
        int32_t d = 2;
        while (d * d <= i && i % d != 0)
            d++;
        n += i > 1 && d * d > i;
    }
    return n;
}

/* A short request. */
static int64_t words[4] = { 11, 22, 33, 44 };

PGAS_HANDLER_RETURN(word, int32_t, int64_t)
{
    return words[*arg & 3];
}

/* Starts the long requests, then makes short ones while they run. */
static int request(int rank)
{
    int n_bad = 0;
    int64_t n_primes[N_REQUESTS] = { 0 }, sum = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_target_t consumers = pgas_on_thread(pgas_thread_make(rank, SLOT));
    for (int32_t i = 0; i < N_REQUESTS; i++) {
        range_t range = { i * (LIMIT / N_REQUESTS), (i + 1) * (LIMIT / N_REQUESTS) };
        n_bad += pgas_call_count_primes_to(consumers, &range,
                                           PGAS_CALL_OPTS(.sync = &done, .result = &n_primes[i],
                                                          .result_bytes = sizeof n_primes[i])) !=
                 PGAS_OK;
    }
    for (int32_t i = 0; i < 4; i++) {
        int64_t value = 0;
        n_bad += pgas_call_return_word(rank, &i, &value) != PGAS_OK || value != words[i];
    }
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    for (int i = 0; i < N_REQUESTS; i++)
        sum += n_primes[i];
    return n_bad + (sum != N_PRIMES);
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "16_consumers\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK || pgas_consumers_start(SLOT, 2) != PGAS_OK)
        return 1;
    pgas_barrier(NULL); /* all ranks have their consumers */

    int n_bad = request((pgas_rank() + 1) % pgas_n_ranks());

    pgas_quiesce(); /* all requests of all ranks have been answered */
    n_bad += pgas_consumers_stop(SLOT) != PGAS_OK;
    int64_t bad = n_bad, all = 0;
    pgas_allreduce(NULL, &bad, &all, 1, PGAS_I64, PGAS_ADD);
    if (pgas_rank() == 0)
        printf("%d ranks counted %d primes each: %s\n", pgas_n_ranks(), N_PRIMES,
               all == 0 ? "right" : "WRONG");
    pgas_finalize();
    return all == 0 ? 0 : 1;
}
