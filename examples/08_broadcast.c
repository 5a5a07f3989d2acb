/* 08_broadcast: one rank calls all ranks.
 *
 * Rank 0 sends a table of weights to all ranks, pushed to the same offset on each. Then it sends
 * each rank its own piece of work, and requests a report of all ranks. The other ranks only wait
 * and run handlers. A call to a team travels along a tree: none of N ranks sends more than
 * ceil(log2 N) messages.
 *
 *   mpirun -n 4 build/examples/08_broadcast */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N_WEIGHTS 100000
#define N_ITEMS   1000 /* for each rank; rank r has r more */

static pgas_gptr_t weights; /* at the same offset on every rank */
static int has_weights;
static int64_t sum;   /* of this rank's items, each times its weight */
static int64_t total; /* on rank 0: of all ranks */

/* The buffer of the call that runs, on this rank. */
static const int32_t *buffer(size_t *n_p)
{
    void *address;
    size_t bytes;
    if (pgas_buffer_get(0, &address, &bytes) != PGAS_OK)
        abort(); /* a handler has no caller that could receive a status */
    *n_p = bytes / sizeof(int32_t);
    return address;
}

/* Runs on every rank when the whole table has arrived there. The argument is its length. */
PGAS_HANDLER(use_weights, uint64_t)
{
    size_t n;
    has_weights = buffer(&n) == pgas_gptr_local(weights, 1) && n == *arg;
}

/* Runs on every rank with the rank's piece, which exists until the handler returns. */
PGAS_HANDLER(use_items, uint64_t)
{
    size_t n;
    const int32_t *item = buffer(&n), *weight = pgas_gptr_local(weights, 1);
    for (size_t i = 0; has_weights && i < n; i++)
        sum += (int64_t)item[i] * weight[(uint64_t)item[i] % *arg];
}

PGAS_HANDLER(add, int64_t)
{
    total += *arg;
}

/* Runs on every rank. The answer is a call to the rank that has asked. */
PGAS_HANDLER(report, int32_t)
{
    if (pgas_call_add(*arg, &sum, NULL) != PGAS_OK)
        abort();
}

/* Makes weights and items. @return the sum that all ranks together should find */
static int64_t make_work(int n_ranks, int32_t *table, int32_t *items, size_t *bytes_of)
{
    int64_t expected = 0;
    size_t n_items = 0;
    for (int32_t i = 0; i < N_WEIGHTS; i++)
        table[i] = i % 7;
    for (int r = 0; r < n_ranks; r++) {
        bytes_of[r] = (size_t)(N_ITEMS + r) * sizeof *items;
        for (int i = 0; i < N_ITEMS + r; i++, n_items++) {
            items[n_items] = (int32_t)(n_items * 37 % 1000003);
            expected += (int64_t)items[n_items] * table[items[n_items] % N_WEIGHTS];
        }
    }
    return expected;
}

/* Three calls to all ranks. Calls with buffers keep no order, and the items need the weights, so
 * this waits between the calls. */
static pgas_status_t call_all(const int32_t *table, const int32_t *items, const size_t *bytes_of)
{
    pgas_target_t all = pgas_on_team(NULL);
    uint64_t n_weights = N_WEIGHTS;
    int32_t me = pgas_rank();
    pgas_sync_t done = PGAS_SYNC_INIT; /* completes when all ranks have run the handler */
    pgas_buffer_t push = { .mode = PGAS_BUFFER_PUSH,
                           .address = table,
                           .bytes = N_WEIGHTS * sizeof *table,
                           .target = weights };
    pgas_buffer_t scatter = { .mode = PGAS_BUFFER_SCATTER, .address = items, .bytes_of = bytes_of };
    pgas_status_t status =
        pgas_call_use_weights_to(all, &n_weights,
                                 PGAS_CALL_OPTS(.sync = &done, .buffers = &push, .n_buffers = 1));
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    if (status == PGAS_OK)
        status = pgas_call_use_items_to(all, &n_weights,
                                        PGAS_CALL_OPTS(.sync = &done, .buffers = &scatter,
                                                       .n_buffers = 1));
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    return status == PGAS_OK ? pgas_call_report_to(all, &me, NULL) : status;
}

/* The part of rank 0. @return the sum that all ranks should find; -1: something has failed */
static int64_t send_work(int n_ranks)
{
    size_t n_items_max = (size_t)n_ranks * (N_ITEMS + (size_t)n_ranks);
    int32_t *table = malloc(N_WEIGHTS * sizeof *table);
    int32_t *items = malloc(n_items_max * sizeof *items);
    size_t *bytes_of = malloc((size_t)n_ranks * sizeof *bytes_of);
    if (!table || !items || !bytes_of)
        return -1;
    int64_t expected = make_work(n_ranks, table, items, bytes_of);
    pgas_status_t status = call_all(table, items, bytes_of);
    free(table);
    free(items);
    free(bytes_of);
    return status == PGAS_OK ? expected : -1;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "08_broadcast\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK ||
        pgas_alloc(N_WEIGHTS * sizeof(int32_t), &weights) != PGAS_OK)
        return 1;

    int64_t expected = pgas_rank() == 0 ? send_work(pgas_n_ranks()) : 0;
    pgas_quiesce(); /* all reports have arrived */
    int good = pgas_rank() != 0 || total == expected;
    if (pgas_rank() == 0)
        printf("%d ranks found %lld of %lld: %s\n", pgas_n_ranks(), (long long)total,
               (long long)expected, good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
