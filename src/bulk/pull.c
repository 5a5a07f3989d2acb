/* Pulls: order and limits of the calls whose buffers this rank reads.
 *
 * The calls are in one list, in the order of their arrival. Reads of several calls overlap. A call
 * runs when its own reads are complete and no earlier call of its thread to its endpoint is left.
 * The receive lock protects this. Two lists have a lock of their own: calls that come from other
 * endpoints, and calls that return there when all their buffers are read. */
#include <pthread.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "bulk/bulk.h"
#include "call/call.h"
#include "call/sync.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/serve.h"

#define ASKING_MAX 8 /* calls whose buffers come in pieces at the same time */

static struct {
    pgasi_bulk_t *pending, **pending_end;
    uint64_t last_number; /* given to a message */
    uint64_t held;        /* bytes of buffers read or being read; atomic */
    uint64_t held_high;
    int n_asking;
    pthread_mutex_t lock;
    pgasi_bulk_t *incoming, **incoming_end; /* from other endpoints; under the lock */
    pgasi_bulk_t *ready;                    /* for other endpoints; under the lock */
} pulls = { .pending_end = &pulls.pending,
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .incoming_end = &pulls.incoming };

uint64_t pgasi_pulls_high(void)
{
    return pulls.held_high;
}

/* ---- one call ---- */

static uint64_t need_of(const pgasi_bulk_t *p)
{
    uint64_t need = 0;
    for (size_t i = 0; i < p->n_parts; i++)
        need += pgasi_bulk_part(p, i)->mode == PGAS_BUFFER_PULL ? p->part[i].here.bytes : 0;
    return need;
}

static bool begin(pgasi_bulk_t *p)
{
    uint64_t need = need_of(p);
    /* the source should have refused it */
    if (need > PGASI_ALIGN_UP(pgasi_param.buffer_limit, 8)) {
        p->status = PGAS_ERR_LIMIT;
        need = 0;
    }
    uint64_t held = __atomic_load_n(&pulls.held, __ATOMIC_RELAXED);
    if (held && need > pgasi_param.buffer_limit - PGASI_MIN(held, pgasi_param.buffer_limit))
        return false;
    p->begun = true;
    p->held = need;
    p->account = &pulls.held;
    held =
        __atomic_add_fetch(&pulls.held, need, __ATOMIC_RELAXED); /* only this function adds to it */
    pulls.held_high = PGASI_MAX(pulls.held_high, held);
    if (!p->dropped && p->status == PGAS_OK)
        pgasi_read_begin(p);
    return true;
}

static void advance(pgasi_bulk_t *p)
{
    if (p->dropped || p->status != PGAS_OK)
        return;
    pgasi_read_advance(p);
    if (!p->asking && pulls.n_asking < ASKING_MAX && pgasi_read_asks(p)) {
        p->asking = true;
        pulls.n_asking++;
    }
    if (p->asking)
        pgasi_read_ask(p);
}

static void report_to_source(pgasi_bulk_t *p)
{
    pgasi_bulk_free_t f = { p->head.offer, p->status };
    p->reported = true;
    if (p->asking) {
        pulls.n_asking--;
        pgasi_bulk_want_poll(); /* another call may wait for its turn to send requests */
    }
    p->asking = false;
    if (!p->dropped)
        pgasi_sendq_answer(pgas_thread_rank(p->source), PGASI_DESC_BUFFER_FREE, &f, sizeof f, NULL,
                           0);
}

/* ---- all of them ---- */

static pgasi_bulk_t *find_pending(uint64_t number, int rank)
{
    pgasi_bulk_t *p = pulls.pending;
    while (p && p->number != number)
        p = p->next;
    return p && pgas_thread_rank(p->source) == rank ? p : NULL;
}

static void on_data(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgasi_bulk_data_t d;
    (void)context;
    if (bytes < sizeof d)
        return;
    memcpy(&d, args, sizeof d);
    pgasi_bulk_t *p = find_pending(d.number, pgas_thread_rank(source));
    if (p)
        pgasi_read_arrived(p, &d, (const char *)args + sizeof d, bytes - sizeof d);
}

static bool is_first_of_its_thread(const pgasi_bulk_t *p)
{
    const pgasi_bulk_t *earlier = pulls.pending;
    while (earlier != p && (earlier->source != p->source || earlier->head.ep != p->head.ep))
        earlier = earlier->next;
    return earlier == p;
}

/* Sends a message to the endpoint of the call: the call is ready. Reports the arrival, for which
 * its counter may wait. */
static void hand_to_ep(pgasi_bulk_t *p)
{
    struct {
        uint64_t header;
        pgasi_bulk_ready_t ready;
    } desc = { pgasi_desc_header(PGASI_DESC_BULK_READY, sizeof desc.ready,
                                 pgas_thread_slot(p->source)),
               { p->number } };
    int ep = (int)p->head.ep, rank = pgas_thread_rank(p->source);
    if (p->status == PGAS_OK)
        p->head.wire = pgasi_call_arrived(p->source, p->head.handler, p->head.wire);
    /* the endpoint will count these bytes as consumed */
    __atomic_fetch_add(&pgasi_quiesce.begun, sizeof desc, __ATOMIC_RELEASE);
    pthread_mutex_lock(&pulls.lock);
    p->next = pulls.ready;
    pulls.ready = p;
    pthread_mutex_unlock(&pulls.lock);
    if (pgasi_ep_put(ep, rank, &desc, sizeof desc) != PGAS_OK)
        pgasi_fatal("call", "no memory for a call with buffers");
    pgasi_wake(pgasi_boot.node_rank);
    if (ep == PGASI_EP_SERVICE)
        pgasi_wake_service(pgasi_boot.node_rank);
}

pgasi_bulk_t *pgasi_pull_ready(const void *args, size_t bytes, pgas_thread_t source)
{
    pgasi_bulk_ready_t r;
    if (bytes != sizeof r)
        return NULL;
    memcpy(&r, args, sizeof r);
    pthread_mutex_lock(&pulls.lock);
    pgasi_bulk_t **at = &pulls.ready, *p;
    while (*at && ((*at)->number != r.number || (*at)->source != source))
        at = &(*at)->next;
    p = *at;
    if (p)
        *at = p->next;
    pthread_mutex_unlock(&pulls.lock);
    return p;
}

static void finish(pgasi_bulk_t **at)
{
    pgasi_bulk_t *p = *at;
    *at = p->next;
    if (pulls.pending_end == &p->next)
        pulls.pending_end = at;
    if (p->dropped) {
        __atomic_fetch_sub(&pulls.held, p->held, __ATOMIC_RELAXED);
        pgasi_bulk_destroy(p);
    } else if (p->head.ep == PGASI_EP_ANY) {
        pgasi_bulk_finish(p);
    } else {
        hand_to_ep(p);
    }
    __atomic_store_n(&pgasi_quiesce.ended, pgasi_quiesce.ended + 1, __ATOMIC_RELEASE);
}

/* One pass over the list. True: memory has become free, so another pass may find more to do. */
static bool pass(int *n_p, bool *retry_p)
{
    bool room = true, freed = false;
    for (pgasi_bulk_t **at = &pulls.pending; *at;) {
        pgasi_bulk_t *p = *at;
        if (!p->begun)
            room = room && begin(p);
        if (p->begun && !p->reported) {
            advance(p);
            if (pgasi_read_is_over(p, retry_p))
                report_to_source(p);
        }
        if (!p->reported || !is_first_of_its_thread(p)) {
            at = &p->next;
            continue;
        }
        finish(at);
        freed = true;
        ++*n_p;
    }
    return freed && !room;
}

static void append(pgasi_bulk_t *p)
{
    p->number = ++pulls.last_number;
    p->next = NULL;
    *pulls.pending_end = p;
    pulls.pending_end = &p->next;
}

/* Appends the calls that came from other endpoints. */
static void take_up(void)
{
    if (!__atomic_load_n(&pulls.incoming, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&pulls.lock);
    pgasi_bulk_t *p = pulls.incoming;
    __atomic_store_n(&pulls.incoming, NULL, __ATOMIC_RELAXED);
    pulls.incoming_end = &pulls.incoming;
    pthread_mutex_unlock(&pulls.lock);
    while (p) {
        pgasi_bulk_t *next = p->next;
        append(p);
        p = next;
    }
}

int pgasi_pulls_progress(bool *retry_p)
{
    int n = 0;
    take_up();
    while (pass(&n, retry_p)) {
    }
    return n;
}

void pgasi_pull_begin(pgasi_bulk_t *p)
{
    bool retry = false;
    __atomic_fetch_add(&pgasi_quiesce.begun, 1, __ATOMIC_RELEASE);
    if (pgasi_is_serving()) {
        append(p);
        pgasi_pulls_progress(&retry);
        if (retry)
            pgasi_bulk_want_poll();
        return;
    }
    pthread_mutex_lock(&pulls.lock);
    p->next = NULL;
    __atomic_store_n(pulls.incoming_end, p, __ATOMIC_RELAXED);
    pulls.incoming_end = &p->next;
    pthread_mutex_unlock(&pulls.lock);
    pgasi_bulk_wake_poll();
}

/* ---- deaths, start and stop ---- */

void pgasi_pulls_peer_died(int rank)
{
    take_up();
    for (pgasi_bulk_t *p = pulls.pending; p; p = p->next)
        if (pgas_thread_rank(p->source) == rank)
            p->dropped = true;
    if (pulls.pending)
        pgasi_bulk_want_poll();
}

void pgasi_pulls_start(void)
{
    pulls.pending = pulls.incoming = pulls.ready = NULL;
    pulls.pending_end = &pulls.pending;
    pulls.incoming_end = &pulls.incoming;
    pulls.held = pulls.held_high = 0;
    pulls.n_asking = 0;
    pgasi_handler_set_internal(PGASI_DESC_BUFFER_DATA, on_data);
}

static void destroy_all(pgasi_bulk_t **list)
{
    while (*list) {
        pgasi_bulk_t *p = *list;
        *list = p->next;
        pgasi_bulk_destroy(p);
    }
}

/* The contexts have stopped, so no read is under way. */
void pgasi_pulls_stop(void)
{
    destroy_all(&pulls.pending);
    destroy_all(&pulls.incoming);
    destroy_all(&pulls.ready);
    pulls.pending_end = &pulls.pending;
    pulls.incoming_end = &pulls.incoming;
}
