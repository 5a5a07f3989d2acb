/* 04_call: functions that run where the data are.
 *
 * Every rank keeps an account book. Others do not touch it: they call a function at the owner
 * (pgas_call), ask it (pgas_call_return), and calls may make calls: a transfer is booked at one
 * rank, which then books it at the other.
 *
 *   mpirun -n 4 build/examples/04_call */
#include <pgas/pgas.h>
#include <stdio.h>
#include <stdlib.h>
#include "usage.h"

#define N_TRANSFERS 100

typedef struct {
    int64_t amount;
    int32_t to; /* -1: nobody, the money is there */
} transfer_t;

/* Handlers have numbers that all ranks agree on by name; the library fills them in. */
static pgas_handler_t book, ask;

/* The books of this rank. Handlers of one rank never run at the same time, so they need no lock
 * among themselves. */
static int64_t balance;

/* Runs at the owner of the money, then once more at its new owner. */
static void handle_book(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    transfer_t transfer = *(const transfer_t *)args;
    (void)bytes, (void)source, (void)context;
    if (transfer.to < 0) {
        balance += transfer.amount;
        return;
    }
    balance -= transfer.amount;
    int to = transfer.to;
    transfer.to = -1;
    if (pgas_call(to, book, &transfer, sizeof transfer, NULL) != PGAS_OK)
        abort(); /* a handler has no caller to tell */
}

static void handle_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    pgas_reply(&balance, sizeof balance);
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "04_call\n", 0);
    /* Before pgas_init, on all ranks; after it pgas_handlers_agree would be needed. */
    pgas_handler_register("example.book", handle_book, NULL, &book);
    pgas_handler_register("example.ask", handle_ask, NULL, &ask);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), n_ranks = pgas_n_ranks();
    int right = (rank + 1) % n_ranks, next = (rank + 2) % n_ranks;
    pgas_status_t status = PGAS_OK;

    /* A call with an executed-completion: the counter falls when the handler has run over there. */
    pgas_sync_t done;
    transfer_t deposit = { 1000, -1 };
    if (pgas_sync_init(&done, 1) != PGAS_OK)
        return 1;
    status = pgas_call(right, book, &deposit, sizeof deposit, &done);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    pgas_sync_fini(&done);

    /* Many transfers from the right neighbour to the one after it. We do not wait for each:
     * pgas_quiesce returns when all calls, and all calls that those made, have run everywhere. */
    for (int i = 1; i <= N_TRANSFERS && status == PGAS_OK; i++) {
        transfer_t transfer = { i, next };
        status = pgas_call(right, book, &transfer, sizeof transfer, NULL);
    }
    pgas_quiesce();

    /* A question with an answer: everyone lost to the next what it got from the one before. */
    int64_t theirs = -1;
    if (status == PGAS_OK)
        status = pgas_call_return(right, ask, NULL, 0, &theirs, sizeof theirs, NULL);
    int good = status == PGAS_OK && theirs == 1000;
    printf("rank %d: the balance of rank %d is %lld: %s\n", rank, right, (long long)theirs,
           good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
