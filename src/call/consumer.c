/* Consumer threads run the calls for one slot, with or without a thread that owns the slot. Only
 * one of them has the endpoint at a time, so calls of one thread keep their order. If there are
 * several, the next one takes the endpoint while the first serves the rank. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/consumer.h"
#include "msg/recv_queue.h"
#include "mem/thread.h"
#include "pgas/call.h"

#define CONSUMERS_MAX 64 /* consumer threads of one slot */

typedef struct consumers {
    struct consumers *next;
    int slot, ep, n;
    bool reserved, stopping;
    pthread_t thread[CONSUMERS_MAX];
} consumers_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static consumers_t *all;

static void *consume(void *arg)
{
    consumers_t *c = arg;
    pgas_status_t status = pgasi_thread_attach_high();
    if (status != PGAS_OK)
        pgasi_fatal("call", "a consumer thread cannot attach: %s", pgas_status_text(status));
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (!__atomic_load_n(&c->stopping, __ATOMIC_ACQUIRE))
        if (pgasi_ep_used(c->ep) && pgasi_ep_drain_if_free(c->ep) > 0)
            w.steps = 0;
        else
            pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    pgasi_thread_detach();
    return NULL;
}

static void stop(consumers_t *c)
{
    __atomic_store_n(&c->stopping, true, __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
    for (int i = 0; i < c->n; i++)
        pthread_join(c->thread[i], NULL);
    /* A thread owns the slot and runs its calls from now on. */
    if (!c->reserved && !pgasi_slot_reserve(c->slot))
        return;
    pgasi_ep_drain_out(c->ep);
    pgasi_ep_set_left(c->ep, true);
    pgasi_slot_release(c->slot);
}

static consumers_t **find(int slot)
{
    consumers_t **at = &all;
    while (*at && (*at)->slot != slot)
        at = &(*at)->next;
    return at;
}

static void remove_of(int slot)
{
    pthread_mutex_lock(&lock);
    consumers_t **at = find(slot), *c = *at;
    *at = c->next;
    pthread_mutex_unlock(&lock);
    free(c);
}

static pgas_status_t start(int slot, int ep, int n_threads)
{
    if (*find(slot))
        return PGAS_ERR_EXISTS;
    consumers_t *c = calloc(1, sizeof *c);
    if (!c)
        return PGAS_ERR_NO_MEMORY;
    c->slot = slot;
    c->ep = ep;
    c->reserved = pgasi_slot_reserve(slot);
    if (c->reserved)
        pgasi_ep_set_left(ep, false);
    int error = 0;
    while (c->n < n_threads && error == 0) {
        error = pthread_create(&c->thread[c->n], NULL, consume, c);
        c->n += error == 0;
    }
    if (error != 0) {
        PGASI_ERROR(
            "consumer",
            "pgas_consumers_start: only %d of %d threads started: %s; raise the limit of processes "
            "(ulimit -u)",
            c->n, n_threads, strerror(error));
        stop(c);
        free(c);
        return PGAS_ERR_NO_MEMORY;
    }
    c->next = all;
    all = c;
    return PGAS_OK;
}

/* Returns the endpoint of a slot. Statuses: those of the public functions of this file. */
static pgas_status_t endpoint_of(int slot, int *ep_p)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (slot < 0 || slot >= PGAS_THREADS_MAX)
        return PGAS_ERR_RANGE;
    *ep_p = pgasi_ep_of_slot(slot);
    return *ep_p < 0 ? PGAS_ERR_LIMIT : PGAS_OK;
}

pgas_status_t pgas_consumers_start(int slot, int n_threads)
{
    int ep;
    pgas_status_t status = endpoint_of(slot, &ep);
    if (status == PGAS_OK && (n_threads < 1 || n_threads > CONSUMERS_MAX))
        status = PGAS_ERR_INVALID;
    if (status != PGAS_OK)
        return status;
    pthread_mutex_lock(&lock);
    status = start(slot, ep, n_threads);
    pthread_mutex_unlock(&lock);
    return status;
}

pgas_status_t pgas_consumers_stop(int slot)
{
    int ep;
    pgas_status_t status = endpoint_of(slot, &ep);
    if (status != PGAS_OK)
        return status;
    pthread_mutex_lock(&lock);
    consumers_t *c = *find(slot);
    if (c && __atomic_load_n(&c->stopping, __ATOMIC_ACQUIRE)) /* another thread stops them */
        c = NULL;
    if (c)
        __atomic_store_n(&c->stopping, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    if (!c)
        return PGAS_ERR_NOT_FOUND;
    stop(c);
    remove_of(slot); /* The slot stays taken until here. */
    return PGAS_OK;
}

bool pgasi_consumers_run(int slot)
{
    pthread_mutex_lock(&lock);
    const consumers_t *c = *find(slot);
    bool run = c && !__atomic_load_n(&c->stopping, __ATOMIC_ACQUIRE);
    pthread_mutex_unlock(&lock);
    return run;
}

void pgasi_consumers_stop_all(void)
{
    while (all) {
        consumers_t *c = all;
        all = c->next;
        stop(c);
        free(c);
    }
}

int pgas_progress_for(int slot)
{
    int ep;
    if (endpoint_of(slot, &ep) != PGAS_OK || !pgasi_ep_used(ep))
        return 0;
    return (int)pgasi_ep_drain_if_free(ep);
}
