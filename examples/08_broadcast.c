/* 08_broadcast: one rank calls all ranks.
 *
 * Rank 0 sends a table of weights to all ranks, pushed to the same offset on each. Then it sends
 * each rank its own piece of work, and requests a report of all ranks. The other ranks only wait
 * and run handlers. Each broadcast travels along a tree: none of N ranks sends more than ceil(log2
 * N) messages.
 *
 *   mpirun -n 4 build/examples/08_broadcast */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N_WEIGHTS 100000
#define N_ITEMS   1000 /* for each rank; rank r has r more */

static pgas_handler_t got_weights, got_items, report, add;
static pgas_gptr_t weights; /* at the same offset on every rank */
static int has_weights;
static int64_t sum;   /* of this rank's items, each times its weight */
static int64_t total; /* on rank 0: of all ranks */

/* Runs on every rank when the whole table has arrived there. */
static void handle_weights(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    size_t n_bytes;
    (void)args, (void)bytes, (void)source, (void)context;
    void *table;
    if (pgas_buffer_get(0, &table, &n_bytes) == PGAS_OK && table == pgas_gptr_local(weights, 1) &&
        n_bytes == N_WEIGHTS * sizeof(int32_t))
        has_weights = 1;
}

/* Runs on every rank with the rank's piece. The piece exists until the handler returns. */
static void handle_items(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    size_t n_bytes;
    void *piece;
    (void)args, (void)bytes, (void)source, (void)context;
    if (pgas_buffer_get(0, &piece, &n_bytes) != PGAS_OK)
        return;
    const int32_t *item = piece, *weight = pgas_gptr_local(weights, 1);
    for (size_t i = 0; has_weights && i < n_bytes / sizeof *item; i++)
        sum += (int64_t)item[i] * weight[item[i] % N_WEIGHTS];
}

/* Runs on every rank. The answer is a call to the rank that has asked. */
static void handle_report(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)context;
    if (pgas_call(pgas_thread_rank(source), add, &sum, sizeof sum, NULL) != PGAS_OK)
        abort(); /* a handler has no caller that could receive a status */
}

static void handle_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    total += *(const int64_t *)args;
}

/* Waits until all ranks have run the handler. Broadcasts with buffers keep no order, and the items
 * need the weights. */
static pgas_status_t broadcast_and_wait(pgas_handler_t handler, pgas_buffer_t buffer)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.buffers = &buffer;
    opts.n_buffers = 1;
    opts.sync = &done; /* decremented once, when all ranks have run the handler */
    pgas_status_t status = PGAS_OK;
    if (status != PGAS_OK)
        return status;
    status = pgas_call_to(pgas_on_team(NULL), handler, NULL, 0, &opts);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    return status;
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

    pgas_buffer_t push = {
        PGAS_BUFFER_PUSH, table, N_WEIGHTS * sizeof *table, weights, false, NULL
    };
    pgas_buffer_t each = { PGAS_BUFFER_SCATTER, items, 0, PGAS_NULL, false, bytes_of };
    pgas_status_t status = broadcast_and_wait(got_weights, push);
    if (status == PGAS_OK)
        status = broadcast_and_wait(got_items, each);
    if (status == PGAS_OK)
        status = pgas_call_to(pgas_on_team(NULL), report, NULL, 0, NULL);
    free(table);
    free(items);
    free(bytes_of);
    return status == PGAS_OK ? expected : -1;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "08_broadcast\n", 0);
    pgas_handler_register("example.weights", handle_weights, NULL, NULL, &got_weights);
    pgas_handler_register("example.items", handle_items, NULL, NULL, &got_items);
    pgas_handler_register("example.report", handle_report, NULL, NULL, &report);
    pgas_handler_register("example.add", handle_add, NULL, NULL, &add);
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
