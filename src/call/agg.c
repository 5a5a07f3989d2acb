/* Aggregators: write positions (cursors) of a thread, or of the handlers, in batches that are
 * published late. */
#include "pgas/agg.h"

#include <stdlib.h>

#include "base/bitmap.h"
#include "base/info_fill.h"
#include "base/param.h"
#include "boot/boot.h"
#include "call/agg.h"
#include "call/progress.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"
#include "call/route.h"
#include "call/call.h"
#include "call/sync.h"
#include "mem/thread.h"

typedef struct {
    pgas_agg_t visible; /* the first field, because the inline path sees it */
    pgasi_sendq_t *sendq;
    pgasi_ctx_t *ctx;
    bool for_handlers, overflow;
    bool sends;            /* through the shared context, by a thread that has its own */
    size_t overflow_bytes; /* for style OVERFLOW: the limit of bytes that may wait */
    int hops;              /* 1: calls go directly to their targets */
    uint64_t *called;      /* for routed aggregators: one bit for each rank that was called */
    uint64_t *beside;      /* threads and services that were called, a bit for each destination */
    uint64_t served_at;    /* bytes that had been sent when its thread last made progress here */
    uint32_t n_far;        /* calls that the inline path did not take */
    pgasi_sendq_stats_t before;
} agg_t;

int pgasi_agg_n_sends;

#define LOOK_EVERY  64 /* calls outside of the inline path, for each time that the clock is read */
#define SERVE_EVERY 16384 /* bytes sent, for each round of progress */

static agg_t *agg_of(pgas_agg_t *agg)
{
    return (agg_t *)(void *)agg;
}

static uint64_t latency_ns(int64_t wanted_us)
{
    uint64_t us =
        wanted_us ? (uint64_t)PGASI_MAX(wanted_us, 0) : (uint64_t)pgasi_param.agg_latency_us;
    return us && us < UINT64_MAX / 1000 ? us * 1000 : UINT64_MAX;
}

static bool set_route(agg_t *a, const pgas_agg_opts_t *o)
{
    static const int hops_of[] = {
        [PGAS_ROUTE_DIRECT] = 1, [PGAS_ROUTE_TWO] = 2, [PGAS_ROUTE_THREE] = 3
    };
    if (o->route == PGAS_ROUTE_AUTO) {
        size_t bytes = o->publish_bytes ? o->publish_bytes : pgasi_param.agg_size;
        int64_t peers = o->memory_bytes ? (int64_t)(o->memory_bytes / bytes) : PGASI_SENDQ_BUFFERS;
        a->hops = pgasi_route_choose(pgasi_boot.n_nodes, pgasi_route_node_ranks(), peers);
    } else {
        a->hops = hops_of[o->route];
    }
    if (a->hops > 1)
        a->called = calloc((size_t)pgasi_boot.n_ranks / 64 + 1, sizeof *a->called);
    return a->hops == 1 || a->called;
}

static void set_limits(const agg_t *a, const pgas_agg_opts_t *o)
{
    if (o->publish_bytes)
        pgasi_sendq_set_publish_bytes(a->sendq, o->publish_bytes);
    if (o->memory_bytes && o->style == PGAS_AGG_TRAD)
        pgasi_sendq_set_memory(a->sendq, o->memory_bytes);
    if (!a->for_handlers) /* Calls that handlers gather are published when the handlers end. */
        pgasi_sendq_set_latency(a->sendq, latency_ns(o->latency_us));
}

/* The thread that holds the receive lock owns the service's context. The shared context belongs to
 * the thread that locks it. */
static pgas_status_t open_sendq(agg_t *a, const pgas_agg_opts_t *o)
{
    bool lock_recv = a->for_handlers && !pgasi_self.in_handler;
    if (lock_recv)
        pgasi_recv_lock();
    pgasi_ctx_lock(a->ctx);
    pgas_status_t status = pgasi_sendq_of(a->ctx, &a->sendq);
    if (status == PGAS_OK) {
        set_limits(a, o);
        a->before = *pgasi_sendq_stats(a->sendq);
    }
    pgasi_ctx_unlock(a->ctx);
    if (lock_recv)
        pgasi_recv_unlock();
    return status;
}

pgas_status_t pgas_agg_create(const pgas_agg_opts_t *opts, pgas_agg_t **agg_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    pgas_agg_opts_t o = PGAS_AGG_OPTS_INIT;
    if (!agg_p || !PGASI_OPTS_SANE(opts, sizeof o))
        return PGAS_ERR_INVALID;
    if (opts)
        o = *opts;
    bool routed = o.route != PGAS_ROUTE_DIRECT;
    if ((unsigned)o.style > PGAS_AGG_OVERFLOW || (unsigned)o.route > PGAS_ROUTE_AUTO ||
        (unsigned)o.way > PGAS_WAY_SEND)
        return PGAS_ERR_INVALID;
    bool send = o.way == PGAS_WAY_SEND;
    if ((routed && (o.style != PGAS_AGG_TRAD || send)) || (send && o.for_handlers))
        return PGAS_ERR_UNSUPPORTED;
    agg_t *a = calloc(1, sizeof *a);
    if (!a || !set_route(a, &o)) {
        free(a);
        return PGAS_ERR_NO_MEMORY;
    }
    a->for_handlers = o.for_handlers;
    a->overflow = o.style == PGAS_AGG_OVERFLOW;
    a->visible.overflow = a->overflow && !send;
    a->overflow_bytes = o.memory_bytes ? o.memory_bytes : pgasi_param.backlog_limit;
    a->ctx = o.for_handlers ? pgasi_ctxs[PGASI_CTX_SERVICE] : pgasi_self.ctx;
    if (send)
        a->ctx = pgasi_ctxs[PGASI_CTX_SHARED];
    status = open_sendq(a, &o);
    if (status != PGAS_OK) {
        free(a->called);
        free(a);
        return status;
    }
    a->sends = send && !pgasi_self.ctx->shared;
    if (a->sends)
        __atomic_add_fetch(&pgasi_agg_n_sends, 1, __ATOMIC_RELAXED);
    pgasi_call_path_open();
    /* A shared context is locked for every call, so its calls cannot take the inline path. */
    if (!a->ctx->shared && !a->overflow && a->hops == 1)
        a->visible.cursor = pgasi_sendq_cursors(a->sendq);
    *agg_p = &a->visible;
    return PGAS_OK;
}

/* An aggregator may be used by its thread outside of handlers, or, if it is for handlers, by any
 * handler. */
static pgas_status_t check_user(const agg_t *a)
{
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK && (a->for_handlers != (pgasi_self.in_handler > 0) ||
                              (a->for_handlers && a->ctx != pgasi_self.handler_ctx)))
        status = PGAS_ERR_CONTEXT;
    return status;
}

static void look(agg_t *a)
{
    if (++a->n_far % LOOK_EVERY == 0 && pgasi_sendq_timed(a->sendq))
        pgasi_sendq_look(a->sendq);
}

static pgas_status_t gather(agg_t *a, int rank, pgas_handler_t handler, const void *args,
                            size_t bytes)
{
    pgas_status_t status;
    if (a->hops == 1) {
        status = pgasi_sendq_append(a->sendq, rank, handler, args, bytes, PGAS_FULL_WAIT);
    } else {
        pgasi_bitmap_set(a->called, (size_t)rank);
        status = pgasi_route_append(a->sendq, a->hops, rank, handler, args, bytes);
    }
    look(a);
    return status;
}

/* Threads that only send would fill each other's channels, and then wait for each other. So a
 * thread runs what has arrived about as often as it sends. */
static bool is_serve_due(agg_t *a)
{
    uint64_t sent = pgasi_sendq_stats(a->sendq)->bytes;
    if (sent - a->served_at < SERVE_EVERY || a->for_handlers)
        return false;
    a->served_at = sent;
    return true;
}

pgas_status_t pgas_agg_call_far(pgas_agg_t *agg, int rank, pgas_handler_t handler, const void *args,
                                size_t bytes)
{
    if (!agg)
        return PGAS_ERR_INVALID;
    agg_t *a = agg_of(agg);
    if (a->visible.overflow && pgasi_sendq_call_short(a->sendq, rank, handler, args, bytes))
        return PGAS_OK;
    pgas_status_t status = pgasi_call_check(rank, handler, args, bytes);
    if (status == PGAS_OK)
        status = check_user(a);
    if (status != PGAS_OK)
        return status;
    pgasi_ctx_lock(a->ctx);
    status = a->overflow
                 ? pgasi_sendq_overflow(a->sendq, rank, handler, args, bytes, a->overflow_bytes)
                 : gather(a, rank, handler, args, bytes);
    bool serve = is_serve_due(a);
    pgasi_ctx_unlock(a->ctx);
    if (serve)
        pgasi_progress();
    return status;
}

/* ---- calls with options ---- */

static pgas_status_t append(agg_t *a, int dest, const message_t *m, pgas_full_t full)
{
    pgas_status_t status = a->overflow ? pgasi_send_overflow(a->sendq, dest, m, a->overflow_bytes)
                                       : pgasi_send_send(a->sendq, dest, m, full, false);
    if (dest >= pgasi_boot.n_ranks && status == PGAS_OK)
        pgasi_bitmap_set(a->beside, (size_t)dest);
    look(a);
    return status;
}

pgas_status_t pgasi_agg_append(pgas_agg_t *agg, int rank, int ep, const message_t *m,
                               pgas_full_t full)
{
    agg_t *a = agg_of(agg);
    pgasi_ctx_lock(a->ctx);
    pgas_status_t status = append(a, ep * pgasi_boot.n_ranks + rank, m, full);
    pgasi_ctx_unlock(a->ctx);
    return status;
}

static bool all_are_copied(const pgas_call_opts_t *o)
{
    for (size_t i = 0; o->buffers && i < o->n_buffers && i < PGAS_BUFFERS_MAX; i++)
        if (o->buffers[i].mode == PGAS_BUFFER_PUSH || o->buffers[i].mode == PGAS_BUFFER_PULL)
            return false;
    return true;
}

static bool is_plain(pgas_target_t target, const pgas_call_opts_t *o)
{
    return target.slot == PGAS_SLOT_ANY && !o->sync && !o->local && !o->n_buffers && !o->spawn;
}

/* The table of threads and services that were called. */
static bool make_beside(agg_t *a)
{
    size_t n = (size_t)pgasi_boot.n_ranks * (size_t)pgasi_n_eps;
    if (!a->beside)
        a->beside = calloc(pgasi_bitmap_words(n), sizeof *a->beside);
    return a->beside;
}

pgas_status_t pgas_agg_call_to(pgas_agg_t *agg, pgas_target_t target, pgas_handler_t handler,
                               const void *args, size_t bytes, const pgas_call_opts_t *opts)
{
    const pgas_call_opts_t *o;
    if (!agg)
        return PGAS_ERR_INVALID;
    agg_t *a = agg_of(agg);
    pgas_status_t status = check_user(a);
    if (status == PGAS_OK)
        status = pgasi_call_read_opts(opts, &o);
    if (status != PGAS_OK)
        return status;
    if (target.slot < 0 || !all_are_copied(o) || (a->overflow && o->n_buffers))
        return PGAS_ERR_UNSUPPORTED;
    if (a->hops > 1)
        return is_plain(target, o) ? pgas_agg_call_far(agg, target.rank, handler, args, bytes)
                                   : PGAS_ERR_UNSUPPORTED;
    if (target.slot != PGAS_SLOT_ANY && !make_beside(a))
        return PGAS_ERR_NO_MEMORY;
    return pgasi_call_by_agg(agg, target, handler, args, bytes, o);
}

/* ---- flushes ---- */

/* The first thread or service of the rank from dest on that was called; -1: none. */
static int next_beside(const agg_t *a, int dest, int rank)
{
    size_t n = (size_t)pgasi_boot.n_ranks * (size_t)pgasi_n_eps;
    if (!a->beside)
        return -1;
    for (dest = (int)pgasi_bitmap_find_set(a->beside, n, (size_t)dest); dest < (int)n;
         dest = (int)pgasi_bitmap_find_set(a->beside, n, (size_t)dest + 1))
        if (rank == PGAS_ALL || dest % pgasi_boot.n_ranks == rank)
            return dest;
    return -1;
}

static pgas_status_t flush_rank(const agg_t *a, int rank)
{
    int next;
    pgas_status_t status = pgasi_route_next(a->hops, rank, &next);
    if (status != PGAS_OK)
        return status;
    pgasi_ctx_lock(a->ctx);
    status = pgasi_sendq_flush(a->sendq, next);
    for (int dest = next_beside(a, 0, rank); dest >= 0; dest = next_beside(a, dest + 1, rank)) {
        pgas_status_t also = pgasi_sendq_flush(a->sendq, dest);
        status = status == PGAS_OK ? also : status;
    }
    pgasi_ctx_unlock(a->ctx);
    return status;
}

static pgas_status_t flush_all(const agg_t *a)
{
    if (!a->for_handlers)
        return pgasi_call_complete();
    return pgasi_sendq_publish_all(a->sendq, PGASI_PUBLISH_EXPLICIT);
}

/* The peer answers when it has run the calls gathered for it, and the answer lowers the counter.
 * The context is locked. */
static pgas_status_t send_marker(const agg_t *a, int dest, pgas_sync_t *sync)
{
    pgasi_sync_call_t c;
    int rank = dest % pgasi_boot.n_ranks;
    pgas_status_t status =
        pgasi_sync_issue(&c, sync, rank, PGASI_DESC_MARKER, PGAS_EXECUTED, PGASI_ISSUE_QUEUED);
    if (status != PGAS_OK)
        return status;
    return pgasi_sync_issued(&c, a->hops == 1
                                     ? pgasi_sendq_marker(a->sendq, dest, c.wire)
                                     : pgasi_route_marker(a->sendq, a->hops, rank, c.wire));
}

static int next_called(const agg_t *a, int rank)
{
    return (int)pgasi_bitmap_find_set(a->called, (size_t)pgasi_boot.n_ranks, (size_t)(rank + 1));
}

/* Markers that are being sent. */
typedef struct {
    pgas_sync_t *sync;
    int n, rank;          /* markers sent; the rank of the last one */
    pgas_status_t status; /* the first error, except deaths */
} markers_t;

static void add_marker(const agg_t *a, int dest, markers_t *m)
{
    if (m->status != PGAS_OK)
        return;
    pgas_status_t status = send_marker(a, dest, m->sync);
    m->rank = dest % pgasi_boot.n_ranks;
    m->n += status == PGAS_OK;
    if (status != PGAS_ERR_PEER)
        m->status = status;
}

/* Sends a marker to each rank that was called. Dead ranks are skipped, because calls to them are
 * lost. */
static void mark_all(const agg_t *a, markers_t *m)
{
    const int *known;
    int n = pgasi_sendq_known(a->sendq, &known);
    if (a->hops > 1)
        n = (int)pgasi_bitmap_count(a->called, (size_t)pgasi_boot.n_ranks);
    for (int i = 0, rank = -1; i < n; i++) {
        rank = a->hops > 1 ? next_called(a, rank) : known[i];
        /* Destinations from n_ranks on are threads and services: see next_beside. */
        if (rank < pgasi_boot.n_ranks)
            add_marker(a, rank, m);
    }
}

/* The counter is raised by one more around all markers, so that its function runs once. If the
 * first marker fails, the flush is refused; if a later one does, the counter gets the error. */
static pgas_status_t flush_with(const agg_t *a, int rank, pgas_sync_t *sync)
{
    markers_t m = { sync, 0, rank, PGAS_OK };
    int64_t before = pgasi_sync_raise(sync);
    pgasi_ctx_lock(a->ctx);
    if (rank != PGAS_ALL)
        add_marker(a, rank, &m);
    else
        mark_all(a, &m);
    for (int dest = next_beside(a, 0, rank); dest >= 0; dest = next_beside(a, dest + 1, rank))
        add_marker(a, dest, &m);
    pgasi_ctx_unlock(a->ctx);
    if (rank != PGAS_ALL && !m.n && m.status == PGAS_OK)
        m.status = PGAS_ERR_PEER;
    if (m.status != PGAS_OK && !m.n) {
        pgasi_sync_refuse(sync, before);
        return m.status;
    }
    pgasi_sync_lower(sync, m.status, m.rank, PGAS_OPERATION_CALL, 0);
    return PGAS_OK;
}

pgas_status_t pgas_agg_flush(pgas_agg_t *agg, int rank, pgas_sync_t *sync)
{
    if (!agg)
        return PGAS_ERR_INVALID;
    agg_t *a = agg_of(agg);
    pgas_status_t status = check_user(a);
    if (status != PGAS_OK)
        return status;
    if (rank != PGAS_ALL && (uint32_t)rank >= (uint32_t)pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (sync)
        return flush_with(a, rank, sync);
    return rank == PGAS_ALL ? flush_all(a) : flush_rank(a, rank);
}

static void do_nothing(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
}

void pgasi_agg_start(void)
{
    pgasi_route_start();
    pgasi_handler_set_internal(PGASI_DESC_MARKER, do_nothing);
}

pgas_status_t pgas_agg_destroy(pgas_agg_t *agg)
{
    if (!agg)
        return PGAS_OK;
    agg_t *a = agg_of(agg);
    pgas_status_t status = pgasi_thread_check();
    /* Calls that handlers gather are published after the handlers. */
    if (status == PGAS_OK && !a->for_handlers)
        status = pgas_agg_flush(agg, PGAS_ALL, NULL);
    if (status == PGAS_OK || status == PGAS_ERR_NOT_INIT) {
        if (a->sends)
            __atomic_sub_fetch(&pgasi_agg_n_sends, 1, __ATOMIC_RELAXED);
        free(a->called);
        free(a->beside);
        free(a);
    }
    return status;
}

pgas_status_t pgas_agg_info(const pgas_agg_t *agg, pgas_agg_info_t *info_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!agg)
        return PGAS_ERR_INVALID;
    const agg_t *a = (const agg_t *)(const void *)agg;
    if (!a->for_handlers && !a->ctx->shared && a->ctx != pgasi_self.ctx)
        return PGAS_ERR_CONTEXT;
    const pgasi_sendq_stats_t *now = pgasi_sendq_stats(a->sendq), *then = &a->before;
    pgas_agg_info_t info = {
        .calls = now->calls - then->calls,
        .bytes = now->bytes - then->bytes,
        .full = now->published[PGASI_PUBLISH_FULL] - then->published[PGASI_PUBLISH_FULL],
        .time = now->published[PGASI_PUBLISH_TIME] - then->published[PGASI_PUBLISH_TIME],
        .explicit_flush =
            now->published[PGASI_PUBLISH_EXPLICIT] - then->published[PGASI_PUBLISH_EXPLICIT],
        .quiesce = now->published[PGASI_PUBLISH_QUIESCE] - then->published[PGASI_PUBLISH_QUIESCE],
        .order = now->published[PGASI_PUBLISH_ORDER] - then->published[PGASI_PUBLISH_ORDER],
        .drained = now->published[PGASI_PUBLISH_DRAINED] - then->published[PGASI_PUBLISH_DRAINED],
        .room = now->published[PGASI_PUBLISH_ROOM] - then->published[PGASI_PUBLISH_ROOM],
        .waited = now->n_queued - then->n_queued,
        .waiting_high_bytes = now->backlog_high,
        .open_high = now->open_high,
        .blocked_ns = now->blocked_ns - then->blocked_ns,
    };
    return pgasi_info_fill(info_p, &info, sizeof info);
}
