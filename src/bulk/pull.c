/* Pulls: order and limits of the calls whose buffers this rank reads.
 *
 * The calls are in one list, in the order of their arrival. Reads of several calls overlap. A call
 * runs when its own reads are complete and no earlier call of its thread to its endpoint is left.
 * Replies overtake.
 * The receive lock protects this. Two lists have a lock of their own: calls that come from other
 * endpoints, and calls that return there when all their buffers are read.
 *
 * A call whose buffers are all within reach avoids the list and the receive lock, unless earlier
 * calls to its endpoint are in the list. The thread that runs the calls of the endpoint then reads
 * its buffers. */
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

#define N_EPS_MAX   (PGASI_EP_FIRST_THREAD + 64) /* PGAS_LANES is at most 64 */
#define READING_MAX ((uint64_t)16 << 20)
#define ASKING_MAX  8 /* calls whose buffers come in pieces at the same time */

static struct {
    pgasi_bulk_t *pending, **pending_end;
    uint64_t last_number;     /* given to a message */
    uint64_t held;            /* bytes of buffers read or being read; atomic */
    uint64_t reading;         /* bytes of calls that have begun and are not reported */
    uint64_t held_high;       /* atomic */
    uint32_t n_at[N_EPS_MAX]; /* calls that have begun and not run, by endpoint; atomic */
    uint32_t waits_for_room;  /* a call waits until bytes are given back; atomic */
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

/* The call that it answers may be what holds the other bytes: a blocking handler, which waits for
 * it. So a reply waits neither for their release nor for earlier calls. */
static bool is_reply(const pgasi_bulk_t *p)
{
    return p->head.handler == PGASI_DESC_ARGS_REPLY;
}

/* Counts the bytes of a call. @return false: they would exceed PGAS_BUFFER_LIMIT now */
static bool hold(pgasi_bulk_t *p)
{
    uint64_t need = need_of(p), limit = pgasi_param.buffer_limit;
    /* the source should have refused it */
    if (need > PGASI_ALIGN_UP(limit, 8)) {
        p->status = PGAS_ERR_LIMIT;
        need = 0;
    }
    uint64_t held = __atomic_load_n(&pulls.held, __ATOMIC_RELAXED);
    do {
        if (held && need > limit - PGASI_MIN(held, limit) && !is_reply(p))
            return false;
    } while (!__atomic_compare_exchange_n(&pulls.held, &held, held + need, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    uint64_t high = __atomic_load_n(&pulls.held_high, __ATOMIC_RELAXED);
    while (high < held + need &&
           !__atomic_compare_exchange_n(&pulls.held_high, &high, held + need, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    p->held = need;
    p->account = &pulls.held;
    return true;
}

/* A call begins to read when at most READING_MAX bytes would be under way. More bytes would need
 * more memory, for which the heap may have no room, and would not fit into the caches. */
static bool begin(pgasi_bulk_t *p)
{
    if (pulls.reading && need_of(p) > READING_MAX - PGASI_MIN(pulls.reading, READING_MAX))
        return false;
    if (!hold(p))
        return false;
    p->begun = true;
    pulls.reading += p->held;
    if (!p->dropped && p->status == PGAS_OK)
        pgasi_read_begin(p);
    return true;
}

static void advance(pgasi_bulk_t *p)
{
    if (p->dropped || p->status != PGAS_OK)
        return;
    pgasi_read_advance(p);
    bool may_ask = pulls.n_asking < ASKING_MAX || pgasi_answers_from(pgas_thread_rank(p->source));
    if (!p->asking && may_ask && pgasi_read_asks(p)) {
        p->asking = true;
        pulls.n_asking++;
    }
    if (p->asking && pgasi_read_asks(p))
        pgasi_read_ask(p);
}

/* Reports to the source that its memory is free. For an archive the report leaves at once, because
 * its handler may run for a long time. */
static void send_free(const pgasi_bulk_t *p)
{
    if (!p->head.offer)
        return;
    pgasi_bulk_free_t f = { p->head.offer, p->status };
    int rank = pgas_thread_rank(p->source);
    if (p->head.flags & PGASI_BULK_ARCHIVE)
        pgasi_sendq_answer_now(rank, PGASI_DESC_BUFFER_FREE, &f, sizeof f);
    else
        pgasi_sendq_answer(rank, PGASI_DESC_BUFFER_FREE, &f, sizeof f, NULL, 0);
}

static void report_to_source(pgasi_bulk_t *p)
{
    p->reported = true;
    pulls.reading -= p->held;
    if (p->asking) {
        pulls.n_asking--;
        pgasi_bulk_want_poll(); /* another call may wait for its turn to send requests */
    }
    p->asking = false;
    if (!p->dropped)
        send_free(p);
}

/* ---- at once ---- */

void pgasi_pull_release(pgasi_bulk_t *p)
{
    __atomic_fetch_sub(&pulls.held, p->held, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pulls.waits_for_room, __ATOMIC_SEQ_CST))
        pgasi_bulk_wake_poll();
}

static bool is_near(const pgasi_bulk_t *p)
{
    int rank = pgas_thread_rank(p->source);
    bool near = pgasi_boot.local_of[rank] >= 0, copies = pgasi_reach_may_copy(rank);
    for (size_t i = 0; i < p->n_parts && near; i++) {
        const pgasi_bulk_part_t *w = pgasi_bulk_part(p, i);
        near = w->mode != PGAS_BUFFER_PULL || !w->bytes ||
               (!w->helper && (copies || pgasi_reach_map(rank, w->ptr, w->bytes)));
    }
    return near;
}

bool pgasi_pulls_are_before(const pgasi_bulk_head_t *h)
{
    return __atomic_load_n(&pulls.n_at[h->ep], __ATOMIC_ACQUIRE) != 0;
}

bool pgasi_pull_now(pgasi_bulk_t *p)
{
    if (pgasi_pulls_are_before(&p->head) ||
        __atomic_load_n(&pulls.waits_for_room, __ATOMIC_RELAXED) || !is_near(p) || !hold(p))
        return false;
    if (p->status == PGAS_OK && !pgasi_read_all_near(p)) {
        pgasi_pull_release(p);
        return false;
    }
    send_free(p);
    return true;
}

/* ---- all of them ---- */

static pgasi_bulk_t *find_pending(uint64_t number, int rank)
{
    pgasi_bulk_t *p = pulls.pending;
    while (p && p->number != number)
        p = p->next;
    return p && pgas_thread_rank(p->source) == rank ? p : NULL;
}

static void data_arrived(int rank, const void *head, const void *data, size_t bytes)
{
    pgasi_bulk_data_t d;
    memcpy(&d, head, sizeof d);
    pgasi_bulk_t *p = find_pending(d.number, rank);
    if (p)
        pgasi_read_arrived(p, &d, data, bytes);
}

static void on_data(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    const size_t head = sizeof(pgasi_bulk_data_t);
    (void)context;
    if (bytes >= head)
        data_arrived(pgas_thread_rank(source), args, (const char *)args + head, bytes - head);
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
    if (p)
        __atomic_fetch_sub(&pulls.n_at[p->head.ep], 1, __ATOMIC_RELEASE);
    return p;
}

static void finish(pgasi_bulk_t **at)
{
    pgasi_bulk_t *p = *at;
    *at = p->next;
    if (pulls.pending_end == &p->next)
        pulls.pending_end = at;
    if (p->dropped || p->head.ep == PGASI_EP_ANY)
        __atomic_fetch_sub(&pulls.n_at[p->head.ep], 1, __ATOMIC_RELEASE);
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

/* Makes one pass over the list. @return true: there is more room, so another pass may be useful */
static bool pass(int *n_p, bool *retry_p)
{
    bool room = true, freed = false;
    for (pgasi_bulk_t **at = &pulls.pending; *at;) {
        pgasi_bulk_t *p = *at;
        if (!p->begun && (room || is_reply(p)))
            room = begin(p) && room;
        if (p->begun && !p->reported) {
            advance(p);
            if (pgasi_read_is_over(p, retry_p)) {
                report_to_source(p);
                freed = true;
            }
        }
        if (!p->reported || !(is_reply(p) || is_first_of_its_thread(p))) {
            at = &p->next;
            continue;
        }
        finish(at);
        freed = true;
        ++*n_p;
    }
    /* A call that was read at once may have given its bytes back before it saw the flag. */
    if (__atomic_exchange_n(&pulls.waits_for_room, !room, __ATOMIC_SEQ_CST) != !room && !room)
        pgasi_bulk_want_poll();
    return freed && !room;
}

static void append(pgasi_bulk_t *p)
{
    /* its death may have been settled before the last of its calls arrived */
    p->dropped = p->dropped || pgasi_boot_is_dead(pgas_thread_rank(p->source));
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
    __atomic_fetch_add(&pulls.n_at[p->head.ep], 1, __ATOMIC_RELAXED);
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
    pulls.waits_for_room = 0;
    pulls.reading = 0;
    memset(pulls.n_at, 0, sizeof pulls.n_at);
    pulls.n_asking = 0;
    pgasi_handler_set_internal(PGASI_DESC_BUFFER_DATA, on_data);
    pgasi_hooks.data_arrived = data_arrived;
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
