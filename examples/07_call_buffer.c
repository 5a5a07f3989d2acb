/* 07_call_buffer: calls that carry large buffers.
 *
 * Every rank hands columns of numbers to its right neighbour in three ways. It pushes the first
 * column to memory that the neighbour reserves. The neighbour pulls the second one into memory of
 * its own. The third call carries two columns, one pulled and one copied.
 *
 *   mpirun -n 4 build/examples/07_call_buffer */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N     100000
#define BYTES (N * sizeof(double))

static pgas_handler_t add_up, keep;
static double sum;   /* of the columns that were pushed or came as a pair */
static double *kept; /* the column that was pulled */

/* Runs when every buffer of the call is complete. */
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

/* The library frees a copied or pulled buffer after the handler, unless the handler takes it. */
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

/* Push: the column is in the neighbour's memory before the handler runs. The caller may write to
 * its column again when the call returns. */
static pgas_status_t push_column(pgas_thread_t target, double *column, pgas_gptr_t place)
{
    pgas_buffer_t push = { PGAS_BUFFER_PUSH, column, BYTES, place, false, NULL };
    fill(column, 1);
    return pgas_call_to(pgas_on_thread(target), add_up, NULL, 0,
                        PGAS_CALL_OPTS(.buffers = &push, .n_buffers = 1));
}

/* Pull: the call is small, and the neighbour reads the column later. The caller must not write to
 * the column before the counter is zero. A helper thread of the neighbour reads it, so that the
 * neighbour can run calls of other ranks meanwhile. */
static pgas_status_t let_pull(pgas_thread_t target, double *column)
{
    pgas_sync_t was_read = PGAS_SYNC_INIT;
    pgas_buffer_t pull = { PGAS_BUFFER_PULL, column, BYTES, PGAS_NULL, true, NULL };
    pgas_status_t status = PGAS_OK;
    if (status != PGAS_OK)
        return status;

    fill(column, 2);
    status = pgas_call_to(pgas_on_thread(target), keep, NULL, 0,
                          PGAS_CALL_OPTS(.buffers = &pull, .n_buffers = 1, .local = &was_read));
    if (status == PGAS_OK)
        status = pgas_sync_wait(&was_read, -1);
    return status;
}

/* Two columns at once. The counter in the options says when the handler has run; then both columns
 * have been read. */
static pgas_status_t send_two(pgas_thread_t target, double *column, double *other)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_buffer_t both[2] = { { PGAS_BUFFER_PULL, column, BYTES, PGAS_NULL, false, NULL },
                              { PGAS_BUFFER_COPY, other, BYTES, PGAS_NULL, false, NULL } };
    pgas_status_t status = PGAS_OK;
    if (status != PGAS_OK)
        return status;

    opts.sync = &done;
    opts.buffers = both;
    opts.n_buffers = 2;
    fill(column, 3);
    fill(other, 4);
    status = pgas_call_to(pgas_on_thread(target), add_up, NULL, 0, &opts);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    return status;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "07_call_buffer\n", 0);
    pgas_handler_register("example.add_up", handle_add_up, NULL, NULL, &add_up);
    pgas_handler_register("example.keep", handle_keep, NULL, NULL, &keep);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), right = (rank + 1) % pgas_n_ranks();
    pgas_thread_t target = pgas_thread_make(right, PGAS_SLOT_ANY);
    double *column = malloc(BYTES), *other = malloc(BYTES);
    pgas_gptr_t place = PGAS_NULL;
    if (!column || !other || pgas_alloc(BYTES, &place) != PGAS_OK)
        return 1;

    pgas_status_t status = push_column(target, column, pgas_gptr_at(place, right));
    if (status == PGAS_OK)
        status = let_pull(target, column);
    if (status == PGAS_OK)
        status = send_two(target, column, other);
    pgas_quiesce(); /* now the calls of the left neighbour have run too */

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
