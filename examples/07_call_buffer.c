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

static double sum;   /* of the columns that were pushed or came as a pair */
static double *kept; /* the column that was pulled */

/* Runs when every buffer of the call is complete. The argument is a factor. */
PGAS_HANDLER(add_up, double)
{
    for (size_t i = 0; i < pgas_buffer_count(); i++) {
        void *address;
        size_t bytes;
        if (pgas_buffer_get(i, &address, &bytes) != PGAS_OK)
            abort();
        const double *column = address;
        for (size_t k = 0; k < bytes / sizeof(double); k++)
            sum += *arg * column[k];
    }
}

/* The library frees a copied or pulled buffer after the handler, unless the handler takes it. */
PGAS_HANDLER(keep, double)
{
    void *address;
    if (pgas_buffer_take(0, &address) != PGAS_OK)
        abort();
    kept = address;
    kept[0] *= *arg;
}

static void fill(double *column, double value)
{
    for (int i = 0; i < N; i++)
        column[i] = value;
}

/* Push: the column is in the neighbour's memory before the handler runs. The caller may write to
 * its column again when the call returns. */
static pgas_status_t push_column(int rank, double *column, pgas_gptr_t place)
{
    double factor = 10;
    pgas_buffer_t push = {
        .mode = PGAS_BUFFER_PUSH, .address = column, .bytes = BYTES, .target = place
    };
    fill(column, 1);
    return pgas_call_add_up_to(pgas_on_rank(rank), &factor,
                               PGAS_CALL_OPTS(.buffers = &push, .n_buffers = 1));
}

/* Pull: the call is small, and the neighbour reads the column later. The caller must not write to
 * the column before the counter is zero. A helper thread of the neighbour reads it, so that the
 * neighbour can run calls of other ranks meanwhile. */
static pgas_status_t let_pull(int rank, double *column)
{
    double factor = 3;
    pgas_sync_t was_read = PGAS_SYNC_INIT;
    pgas_buffer_t pull = {
        .mode = PGAS_BUFFER_PULL, .address = column, .bytes = BYTES, .helper = true
    };
    fill(column, 2);
    pgas_status_t status =
        pgas_call_keep_to(pgas_on_rank(rank), &factor,
                          PGAS_CALL_OPTS(.buffers = &pull, .n_buffers = 1, .local = &was_read));
    return status == PGAS_OK ? pgas_sync_wait(&was_read, -1) : status;
}

/* Two columns at once. When the handler has run, both columns have been read. */
static pgas_status_t send_two(int rank, double *column, double *other)
{
    double factor = 1;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_buffer_t both[2] = { { .mode = PGAS_BUFFER_PULL, .address = column, .bytes = BYTES },
                              { .mode = PGAS_BUFFER_COPY, .address = other, .bytes = BYTES } };
    fill(column, 3);
    fill(other, 4);
    pgas_status_t status =
        pgas_call_add_up_to(pgas_on_rank(rank), &factor,
                            PGAS_CALL_OPTS(.buffers = both, .n_buffers = 2, .sync = &done));
    return status == PGAS_OK ? pgas_sync_wait(&done, -1) : status;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "07_call_buffer\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), right = (rank + 1) % pgas_n_ranks();
    double *column = malloc(BYTES), *other = malloc(BYTES);
    pgas_gptr_t place = PGAS_NULL;
    if (!column || !other || pgas_alloc(BYTES, &place) != PGAS_OK)
        return 1;

    pgas_status_t status = push_column(right, column, pgas_gptr_at(place, right));
    if (status == PGAS_OK)
        status = let_pull(right, column);
    if (status == PGAS_OK)
        status = send_two(right, column, other);
    pgas_quiesce(); /* now the calls of the left neighbour have run too */

    int good = status == PGAS_OK && sum == (10 * 1 + 3 + 4) * (double)N && kept && kept[0] == 6 &&
               kept[N - 1] == 2;
    printf("rank %d: columns of %d numbers came by push, pull and copy: %s\n", rank, N,
           good ? "right" : "WRONG");
    free(kept);
    free(column);
    free(other);
    pgas_finalize();
    return good ? 0 : 1;
}
