/* 04_call: functions that run where the data are.
 *
 * Every rank keeps an account book. Other ranks do not write to it: they call a function at the
 * owner (pgas_call) or ask the owner (pgas_call_return). Handlers may make calls: one rank books a
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

/* The library gives every handler a number, the same on all ranks for the same name. */
static pgas_handler_t book, ask;

/* The book of this rank. Handlers of one rank never run at the same time, so they need no lock. */
static int64_t balance;

/* Runs at the owner of the money, then at its new owner. */
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
        abort(); /* a handler has no caller that could receive a status */
}

static void handle_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args, (void)bytes, (void)source, (void)context;
    pgas_reply(&balance, sizeof balance);
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "04_call\n", 0);
    /* All ranks register before pgas_init. Later registrations need pgas_handlers_agree. */
    pgas_handler_register("example.book", handle_book, NULL, NULL, &book);
    pgas_handler_register("example.ask", handle_ask, NULL, NULL, &ask);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    int rank = pgas_rank(), n_ranks = pgas_n_ranks();
    int right = (rank + 1) % n_ranks, next = (rank + 2) % n_ranks;
    pgas_status_t status = PGAS_OK;

    /* A call with a completion: it raises the counter by one, until the handler has run at the
     * target. */
    pgas_sync_t done = PGAS_SYNC_INIT;
    transfer_t deposit = { 1000, -1 };
    status = pgas_call(right, book, &deposit, sizeof deposit, &done);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);

    /* Many transfers from the right neighbour to the rank after it, without a wait for each.
     * pgas_quiesce returns when all calls, and all calls that those made, have run everywhere. */
    for (int i = 1; i <= N_TRANSFERS && status == PGAS_OK; i++) {
        transfer_t transfer = { i, next };
        status = pgas_call(right, book, &transfer, sizeof transfer, NULL);
    }
    pgas_quiesce();

    /* A call with a reply. Each rank has passed on as much as it has received. */
    int64_t theirs = -1;
    if (status == PGAS_OK)
        status = pgas_call_return(right, ask, NULL, 0, &theirs, sizeof theirs);
    int good = status == PGAS_OK && theirs == 1000;
    printf("rank %d: the balance of rank %d is %lld: %s\n", rank, right, (long long)theirs,
           good ? "right" : "WRONG");
    pgas_finalize();
    return good ? 0 : 1;
}
