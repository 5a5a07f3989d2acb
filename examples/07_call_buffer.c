/* 07_call_buffer: calls that bring more than arguments.
 *
 * Every rank works on columns of numbers and hands them to its right neighbour, in three ways. The
 * first is pushed to a place that the neighbour keeps for it. The second the neighbour pulls, when
 * it gets to it, into memory of its own, while we look at a counter to know when ours is free
 * again. The third call brings two columns at once, one pulled and one copied.
 *
 *   mpirun -n 4 build/examples/07_call_buffer */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N 100000

static pgas_handler_t add_up, keep;
static double sum;   /* of all columns that were pushed or came as a pair */
static double *kept; /* the column that was pulled */

/* Runs when every buffer of the call is complete; adds up all their numbers. */
static void handle_add_up(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    for (size_t i = 0; i < pgas_buffer_count(); i++) {
        void *address;
        size_t column_bytes;
        if (pgas_buffer_get(i, &address, &column_bytes) != PGAS_OK)
            abort();
        const double *column = address;
        for (size_t k = 0; k < column_bytes / sizeof(double); k++)
            sum += column[k];
    }
}

/* A buffer that was copied or pulled ends with the handler, unless it is taken. Then it is ours, to
 * be freed. */
static void handle_keep(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    void *address;
    (void)args, (void)bytes, (void)source, (void)context;
    if (pgas_buffer_take(0, &address) != PGAS_OK)
        abort();
    kept = address;
}

static void fill(double *column, double value)
{
    for (int i = 0; i < N; i++)
        column[i] = value;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "07_call_buffer\n", 0);
    pgas_handler_register("example.add_up", handle_add_up, NULL, &add_up);
    pgas_handler_register("example.keep", handle_keep, NULL, &keep);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), right = (rank + 1) % pgas_n_ranks();
    pgas_thread_t target = pgas_thread_make(right, PGAS_SLOT_ANY);
    double *column = malloc(N * sizeof(double)), *other = malloc(N * sizeof(double));
    pgas_gptr_t place = PGAS_NULL;
    if (!column || !other || pgas_alloc(N * sizeof(double), &place) != PGAS_OK)
        return 1;

    /* Push: the column stands at the neighbour's place before the handler runs, and ours is free
     * when the call returns. */
    pgas_buffer_t push = { PGAS_BUFFER_PUSH, column, N * sizeof(double), pgas_gptr_at(place, right),
                           false };
    fill(column, 1);
    pgas_status_t status = pgas_call_buffer(target, add_up, NULL, 0, &push, 1, NULL, NULL);

    /* Pull: the call is small, the neighbour reads the column. It must stay as it is until
     * `free_again` has fallen; a helper reads it, so that calls of others to the neighbour go on
     * meanwhile. */
    pgas_sync_t free_again;
    pgas_buffer_t pull = { PGAS_BUFFER_PULL, column, N * sizeof(double), PGAS_NULL, true };
    if (pgas_sync_init(&free_again, 1) != PGAS_OK)
        return 1;
    fill(column, 2);
    if (status == PGAS_OK)
        status = pgas_call_buffer(target, keep, NULL, 0, &pull, 1, NULL, &free_again);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&free_again, -1);
    pgas_sync_fini(&free_again);
    fill(column, 3); /* the neighbour has read the twos */

    /* Two at once. The counter of the options tells that the handler has run, so both are free by
     * then. */
    pgas_sync_t done;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_buffer_t both[2] = { { PGAS_BUFFER_PULL, column, N * sizeof(double), PGAS_NULL, false },
                              { PGAS_BUFFER_COPY, other, N * sizeof(double), PGAS_NULL, false } };
    if (pgas_sync_init(&done, 1) != PGAS_OK)
        return 1;
    opts.sync = &done;
    fill(other, 4);
    if (status == PGAS_OK)
        status = pgas_call_buffer(target, add_up, NULL, 0, both, 2, &opts, NULL);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    pgas_sync_fini(&done);
    pgas_quiesce(); /* now what was sent to us has run, too */

    int good = status == PGAS_OK && sum == (1 + 3 + 4) * (double)N && kept && kept[0] == 2 &&
               kept[N - 1] == 2;
    printf("rank %d: columns of %d numbers came by push, pull and copy: %s\n", rank, N,
           good ? "right" : "WRONG");
    free(kept);
    free(column);
    free(other);
    pgas_finalize();
    return good ? 0 : 1;
}
