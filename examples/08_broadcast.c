/* 08_broadcast: one rank has something for all.
 *
 * Rank 0 spreads a table of weights to all ranks (pushed into the same place everywhere), deals out
 * work (to each rank its own piece), and at last tells everybody to report. Only rank 0 does
 * anything but wait: the others are called. Each of these travels along a tree, so that of N ranks
 * none sends more than ceil(log2 N) messages.
 *
 *   mpirun -n 4 build/examples/08_broadcast */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N_WEIGHTS 100000
#define N_ITEMS   1000 /* for each rank; rank r has r more */

static pgas_handler_t got_weights, got_items, report, add;
static pgas_gptr_t weights; /* the same place on every rank */
static int has_weights;
/* of this rank's items, each times its weight; on rank 0 that of all ranks */
static int64_t sum, total;

/* Runs on every rank when the table stands there in full. */
static void handle_weights(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    size_t n_bytes;
    (void)args, (void)bytes, (void)source, (void)context;
    if (pgas_broadcast_data(&n_bytes) == pgas_gptr_local(weights, 1) &&
        n_bytes == N_WEIGHTS * sizeof(int32_t))
        has_weights = 1;
}

/* Runs on every rank with its piece, which is there as long as the handler runs. */
static void handle_items(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    size_t n_bytes;
    const int32_t *item = pgas_broadcast_data(&n_bytes);
    const int32_t *weight = pgas_gptr_local(weights, 1);
    (void)args, (void)bytes, (void)source, (void)context;
    for (size_t i = 0; has_weights && i < n_bytes / sizeof *item; i++)
        sum += (int64_t)item[i] * weight[item[i] % N_WEIGHTS];
}

/* Runs on every rank; the answer is a call to whoever asked. */
static void handle_report(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)context;
    if (pgas_call(pgas_thread_rank(source), add, &sum, sizeof sum, NULL) != PGAS_OK)
        abort(); /* a handler has no caller to tell */
}

static void handle_add(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes, (void)source, (void)context;
    total += *(const int64_t *)args;
}

/* What rank 0 does. Returns the sum that all ranks should find, -1 if something went wrong. */
static int64_t spread(int n_ranks)
{
    size_t bytes_of[64], n_items = 0;
    pgas_sync_t done;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &done; /* falls by one for each broadcast, when all ranks have run the handler */
    int32_t *table = malloc(N_WEIGHTS * sizeof *table);
    int32_t *item = malloc((size_t)n_ranks * (N_ITEMS + (size_t)n_ranks) * sizeof *item);
    if (n_ranks > 64 || !table || !item || pgas_sync_init(&done, 1) != PGAS_OK)
        return -1;
    for (int32_t i = 0; i < N_WEIGHTS; i++)
        table[i] = i % 7;
    int64_t expected = 0;
    for (int r = 0; r < n_ranks; r++) {
        bytes_of[r] = (size_t)(N_ITEMS + r) * sizeof *item;
        for (int i = 0; i < N_ITEMS + r; i++, n_items++) {
            item[n_items] = (int32_t)(n_items * 37 % 1000003);
            expected += (int64_t)item[n_items] * table[item[n_items] % N_WEIGHTS];
        }
    }
    pgas_broadcast_buffer_t push = { PGAS_BROADCAST_PUSH, table, N_WEIGHTS * sizeof *table, NULL,
                                     weights };
    pgas_broadcast_buffer_t each = { PGAS_BROADCAST_EACH, item, 0, bytes_of, PGAS_NULL };
    pgas_status_t status =
        pgas_call_broadcast_buffer(got_weights, NULL, 0, &push, PGAS_SCOPE_RANKS, &opts);
    if (status == PGAS_OK) {
        /* broadcasts of buffers keep no order: the items need the weights */
        status = pgas_sync_wait(&done, -1);
    }
    pgas_sync_add(&done, 1);
    if (status == PGAS_OK)
        status = pgas_call_broadcast_buffer(got_items, NULL, 0, &each, PGAS_SCOPE_RANKS, &opts);
    free(table);
    free(item); /* pieces are copied before they travel */
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    pgas_sync_fini(&done);
    if (status == PGAS_OK)
        status = pgas_call_broadcast(report, NULL, 0, PGAS_SCOPE_RANKS, NULL);
    return status == PGAS_OK ? expected : -1;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "08_broadcast\n", 0);
    pgas_handler_register("example.weights", handle_weights, NULL, &got_weights);
    pgas_handler_register("example.items", handle_items, NULL, &got_items);
    pgas_handler_register("example.report", handle_report, NULL, &report);
    pgas_handler_register("example.add", handle_add, NULL, &add);
    if (pgas_init(NULL, NULL) != PGAS_OK ||
        pgas_alloc(N_WEIGHTS * sizeof(int32_t), &weights) != PGAS_OK)
        return 1;
    int64_t expected = pgas_rank() == 0 ? spread(pgas_n_ranks()) : 0;
    pgas_quiesce(); /* all reports are in */
    int good = pgas_rank() != 0 || total == expected;
    if (pgas_rank() == 0)
        printf("%d ranks found %lld of %lld: %s\n", pgas_n_ranks(), (long long)total,
               (long long)expected, good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
