/** Aggregators: they collect many small calls and send them together.
 *
 *      pgas_agg_t *agg;
 *      pgas_agg_create(NULL, &agg);
 *      for (size_t i = 0; i < n; i++)
 *          pgas_agg_call(agg, owner(key[i]), count, &key[i], sizeof key[i]);
 *      pgas_quiesce();                                        all calls of all ranks have run
 *      pgas_agg_destroy(agg);
 *
 *  An aggregator belongs to one thread, or to the rank's handlers. Its calls to one target form a
 *  batch. The aggregator sends a batch that has publish_bytes, that is too old, or whose buffer it
 *  needs for another target. The thread sends it by pgas_agg_flush, pgas_quiesce, a direct call to
 *  the target, and when it detaches. Handlers' batches are sent when the arrived calls have run.
 *
 *  The time limit. The thread checks the time in every 64th call that is not inline, and in every
 *  8th round of progress. It sends all batches before it sleeps in a wait. Thus a batch is sent at
 *  most latency_us plus two such intervals after its first call was added. A thread that will stay
 *  outside of the library should flush before: no other thread can send its batches.
 *
 *  Source: Seriema (aggregation in the styles "trad" and "ovfl"); YGM (routes). */
#ifndef PGAS_AGG_H
#define PGAS_AGG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/call.h"

PGAS_BEGIN_DECLS

/** When calls leave. */
typedef enum {
    PGAS_AGG_TRAD, /* late, as described above: for throughput */
    /* At once, as by pgas_call. Calls are collected only while the channel is full, up to
     * memory_bytes; then pgas_agg_call returns PGAS_ERR_AGAIN. Progress of the thread sends what
     * has been collected. */
    PGAS_AGG_OVERFLOW
} pgas_agg_style_t;

/** The ranks over which calls travel, in style TRAD. Nodes are arranged in rows and columns (two
 *  hops), or in a cube (three hops). A thread then has batches for the ranks of about 2 sqrt(n) or
 *  3 cbrt(n) nodes. A call is copied at each hop, not inline. An intermediate rank keeps the calls
 *  that a slow rank cannot receive, without a limit. There is no order with the thread's other
 *  calls. A flush without a counter sends the calls to the first hop. If a rank dies, calls that
 *  travel over it are lost, and so are counters of flushes. */
typedef enum {
    PGAS_ROUTE_DIRECT,
    PGAS_ROUTE_TWO,   /* two hops */
    PGAS_ROUTE_THREE, /* three hops */
    PGAS_ROUTE_AUTO   /* the fewest hops with which memory_bytes has a batch for each peer */
} pgas_route_t;

/** Options; zero means default. The aggregators of one thread and way share their batches, so that
 *  their calls keep one order; so do those of the handlers. The smallest size, memory and time
 *  limit among them applies to all, even after the aggregator with that option has ended. */
typedef struct {
    size_t size;          /* as in pgas_init_opts_t */
    size_t publish_bytes; /* a batch is sent when it has so many bytes; default PGAS_AGG_SIZE */
    bool for_handlers;    /* the aggregator is used in handlers only, on any thread */
    int64_t latency_us;   /* the time limit; default PGAS_AGG_LATENCY_US, negative: none */
    /* TRAD: the most that open batches take; default and maximum: 64 batches. OVERFLOW, for this
     * aggregator alone: the most that waits for full channels of the thread, and one batch; default
     * PGAS_BACKLOG_LIMIT */
    size_t memory_bytes;
    pgas_agg_style_t style;
    pgas_route_t route;
    /* SEND: through the context that threads share, without channels of the thread's own; calls do
     * not take the inline path. Not for handlers, and without a route */
    pgas_way_t way;
} pgas_agg_opts_t;
#define PGAS_AGG_OPTS_INIT                                                                        \
    {                                                                                             \
        sizeof(pgas_agg_opts_t), 0, false, 0, 0, PGAS_AGG_TRAD, PGAS_ROUTE_DIRECT, PGAS_WAY_WRITE \
    }

typedef struct pgas_agg pgas_agg_t;

/** Creates an aggregator of the calling thread, or of the rank's handlers (for_handlers).
 *  @return PGAS_ERR_CONTEXT      the thread is not attached
 *          PGAS_ERR_INVALID      agg_p is NULL, or an option is unknown
 *          PGAS_ERR_UNSUPPORTED  options that exclude each other
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_agg_create(const pgas_agg_opts_t *opts, pgas_agg_t **agg_p);

/** Sends the collected calls and frees the aggregator. NULL is ignored. */
PGAS_API pgas_status_t pgas_agg_destroy(pgas_agg_t *agg);

/** As pgas_call without a counter, but the call is collected and sent later. Style OVERFLOW
 *  collects it only while the channel is full. The thread to which the aggregator belongs calls it;
 *  agg is not checked for NULL. The thread makes progress while it waits for a full channel, and
 *  one round of it after every 16 KiB that it has sent.
 *  Cost:   inline a comparison and a copy, if handler and size are those of the previous call to
 *          the rank.
 *  @return as pgas_call; PGAS_ERR_AGAIN in style OVERFLOW if memory_bytes are waiting */
PGAS_INLINE pgas_status_t pgas_agg_call(pgas_agg_t *agg, int rank, pgas_handler_t handler,
                                        const void *args, size_t bytes);

/** As pgas_call_to, but the call is collected: to a rank, thread or service, with counters,
 *  results, copied buffers, or a thread of its own. A counter or result waits until the batch is
 *  sent. opts->way is ignored.
 *  @return as pgas_call_to
 *          PGAS_ERR_UNSUPPORTED  also: a team, a buffer that is not copied, or any buffer in style
 *                                OVERFLOW; with a route, any option or target except a rank */
PGAS_API pgas_status_t pgas_agg_call_to(pgas_agg_t *agg, pgas_target_t target,
                                        pgas_handler_t handler, const void *args, size_t bytes,
                                        const pgas_call_opts_t *opts);

/** Sends the collected calls for a rank and its threads, or for all ranks (PGAS_ALL).
 *  Done:   sync NULL: the calls have left the thread's context, and may not have run; the thread
 *          may then stay outside of the library. While a channel is full the call waits, with
 *          progress; in handlers it does not. With a counter the call does not wait: sync is
 *          lowered when all calls that were collected for the rank so far, or sent before, have run
 *          there; with PGAS_ALL at every live rank.
 *  Cost:   with a counter: a call without arguments to each of these targets, and its answer. Until
 *          they answer, the counter is higher by their number.
 *  @return PGAS_ERR_CONTEXT, PGAS_ERR_RANGE, PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_INVALID    agg is NULL
 *          PGAS_ERR_PEER       the rank died */
PGAS_API pgas_status_t pgas_agg_flush(pgas_agg_t *agg, int rank, pgas_sync_t *sync);

/** Statistics. They do not include calls that an aggregator of style OVERFLOW sends at once. */
typedef struct {
    size_t size;    /* set by the caller */
    uint64_t calls; /* calls in batches that have been sent, including those of flushes */
    uint64_t bytes; /* of these batches, with headers */
    /* number of batches by the reason for which they were sent: publish_bytes, the time limit, a
     * flush, quiescence */
    uint64_t full, time, explicit_flush, quiesce;
    /* a direct call followed them, or an earlier batch that had waited for room left */
    uint64_t order;
    uint64_t drained;            /* handlers collected them, and have run */
    uint64_t room;               /* their buffers were needed for another rank */
    uint64_t waited;             /* batches that found their channel full */
    uint64_t waiting_high_bytes; /* the most bytes that waited for full channels at one time */
    uint64_t open_high;          /* the most batches that were open at one time */
    uint64_t blocked_ns;         /* time for which calls and flushes of one rank waited for room */
} pgas_agg_info_t;

/** Gives the statistics since the aggregator was created, of all aggregators with which it shares
 *  batches. The maxima count from the start. The thread to which it belongs calls it; for an
 *  aggregator of handlers any thread.
 *  @return PGAS_ERR_CONTEXT
 *          PGAS_ERR_INVALID  NULL, or an unknown size */
PGAS_API pgas_status_t pgas_agg_info(const pgas_agg_t *agg, pgas_agg_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/agg.h"
#endif
