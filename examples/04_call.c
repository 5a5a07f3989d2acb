/* 04_call: functions that run where the data are.
 *
 * Every rank keeps an account book. Other ranks do not write to it: they call a function at the
 * owner, or ask the owner and wait for the result. Handlers may make calls: one rank books a
 * transfer and calls the other rank, which books it too.
 *
 *   mpirun -n 4 build/examples/04_call */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N_TRANSFERS 100

typedef struct {
    int64_t amount;
    int32_t to; /* the new owner; -1: the money has arrived */
} transfer_t;

/* The book of this rank. Handlers of one rank never run at the same time, so they need no lock. */
static int64_t balance;

/* Runs at the owner of the money, then at its new owner. */
PGAS_HANDLER(book, transfer_t)
{
    if (arg->to < 0) {
        balance += arg->amount;
        return;
    }
    transfer_t arrival = { arg->amount, -1 };
    balance -= arg->amount;
    if (pgas_call_book(arg->to, &arrival, NULL) != PGAS_OK)
        abort(); /* a handler has no caller that could receive a status */
}

/* A handler with a result: the worth of the balance at a rate of exchange. */
PGAS_HANDLER_RETURN(worth, double, double)
{
    return (double)balance * *arg;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "04_call\n", 0);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), n_ranks = pgas_n_ranks();
    int right = (rank + 1) % n_ranks, next = (rank + 2) % n_ranks;

    /* A call with a counter, which is zero when the handler has run at the target. */
    pgas_sync_t done = PGAS_SYNC_INIT;
    transfer_t deposit = { 1000, -1 };
    pgas_status_t status = pgas_call_book(right, &deposit, &done);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);

    /* Many transfers from the right neighbour to the rank after it, without a wait for each.
     * pgas_quiesce returns when these calls, and the calls that they made, have run everywhere. */
    for (int i = 1; i <= N_TRANSFERS && status == PGAS_OK; i++) {
        transfer_t transfer = { i, next };
        status = pgas_call_book(right, &transfer, NULL);
    }
    pgas_quiesce();

    /* A call that waits for its result. Each rank has passed on as much as it has received. */
    double rate = 2, theirs = -1;
    if (status == PGAS_OK)
        status = pgas_call_return_worth(right, &rate, &theirs);
    int good = status == PGAS_OK && theirs == 2000;
    printf("rank %d: the balance of rank %d is worth %.0f: %s\n", rank, right, theirs,
           good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
