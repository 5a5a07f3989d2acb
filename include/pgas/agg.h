/** Aggregators: they collect many small calls and send them together.
 *
 *      pgas_agg_t *agg;
 *      pgas_agg_create(NULL, &agg);
 *      for (size_t i = 0; i < n; i++)
 *          pgas_agg_call(agg, owner(key[i]), count, &key[i], sizeof key[i]);
 *      pgas_quiesce();                                        all calls of all ranks have run
 *      pgas_agg_destroy(agg);
 *
 *  An aggregator belongs to one thread, or to the rank's handlers. Its calls to one rank form a
 *  batch, which is sent when
 *   - publish_bytes have been collected;
 *   - the time limit is over;
 *   - the thread calls pgas_agg_flush or pgas_quiesce, detaches, or issues a direct call to the
 *     rank;
 *   - its buffer is needed for another rank;
 *   - in handlers: the calls that had arrived have run.
 *
 *  The time limit. The thread checks the time in every 64th call that is not inline, and in every
 *  8th round of progress: pgas_progress and calls that wait. It sends all batches before it sleeps
 *  in a wait. Thus a batch is sent at most latency_us plus two such intervals after its first call
 *  was added. A thread that will stay outside of the library should flush before. No other thread
 *  can send its batches, because the inline path takes no lock.
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

/** The ranks over which calls travel. Nodes are arranged in rows and columns (two hops), or in a
 *  cube (three hops). A thread then has batches for the ranks of about 2 sqrt(n) or 3 cbrt(n)
 *  nodes, instead of n. A call is copied at each hop. An intermediate rank keeps the calls that a
 *  slow rank cannot receive, without a limit. For style TRAD only; calls do not take the inline
 *  path.
 *
 *  The result is the same as direct: source, order among calls of the aggregator to one rank,
 *  quiescence, flushes with a counter. There is no order with the thread's other calls. A plain
 *  flush sends the collected calls to the first hop. If a rank dies, calls that travel over it are
 *  lost, and so are counters of flushes. A program that continues after deaths
 *  (PGAS_ON_PEER_DEATH=continue) should use DIRECT. */
typedef enum {
    PGAS_ROUTE_DIRECT,
    PGAS_ROUTE_TWO,   /* two hops */
    PGAS_ROUTE_THREE, /* three hops */
    PGAS_ROUTE_AUTO   /* the fewest hops with which memory_bytes has a batch for each peer */
} pgas_route_t;

/** Options; zero means default. The aggregators of one thread share their batches, so that its
 *  calls keep one order; so do those of the handlers. The smallest size, memory and time limit
 *  among them applies to all, even after the aggregator with that option has ended. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* a batch is sent when it has so many bytes; default PGAS_AGG_SIZE */
    size_t publish_bytes;
    /* the aggregator is used in handlers only, on any thread */
    bool for_handlers;
    /* the time limit; default PGAS_AGG_LATENCY_US, negative: none */
    int64_t latency_us;
    /* TRAD: the most that open batches take; default and maximum: 64 batches. OVERFLOW, for this
     * aggregator alone: the most that waits for full channels of the thread, and one batch; default
     * PGAS_BACKLOG_LIMIT */
    size_t memory_bytes;
    pgas_agg_style_t style;
    pgas_route_t route;
} pgas_agg_opts_t;
#define PGAS_AGG_OPTS_INIT                                                        \
    {                                                                             \
        sizeof(pgas_agg_opts_t), 0, false, 0, 0, PGAS_AGG_TRAD, PGAS_ROUTE_DIRECT \
    }

/** Opaque. */
typedef struct pgas_agg pgas_agg_t;

/** Creates an aggregator of the calling thread, or of the rank's handlers (for_handlers).
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT
 *          PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_CONTEXT  the thread is not attached
 *          PGAS_ERR_INVALID  agg_p is NULL, the options have an unknown size, the style or route is
 *                            unknown, or style OVERFLOW has a route */
PGAS_API pgas_status_t pgas_agg_create(const pgas_agg_opts_t *opts, pgas_agg_t **agg_p);

/** Sends the collected calls and frees the aggregator. NULL is ignored. */
PGAS_API pgas_status_t pgas_agg_destroy(pgas_agg_t *agg);

/** As pgas_call without a counter, but the call is collected and sent later. Style OVERFLOW
 *  collects it only while the channel is full.
 *  Shape:  the thread to which the aggregator belongs. agg is not checked: NULL is undefined.
 *  Cost:   inline a comparison and a copy, if handler and size are those of the previous call to
 *          the rank.
 *  @return as pgas_call;
 *          PGAS_ERR_AGAIN  also in style OVERFLOW if memory_bytes are waiting. Nothing has
 *                          happened: make progress and try again */
PGAS_INLINE pgas_status_t pgas_agg_call(pgas_agg_t *agg, int rank, pgas_handler_t handler,
                                        const void *args, size_t bytes);

/** Sends the collected calls for a rank. While the channel is full it waits, with progress; in
 *  handlers it does not wait. */
PGAS_API pgas_status_t pgas_agg_flush(pgas_agg_t *agg, int rank);

/** Sends the collected calls for all ranks.
 *  Done:   on return the calls have left the thread's context, but may not have run. The thread may
 *          then stay outside of the library for a long time. In handlers it does not wait. */
PGAS_API pgas_status_t pgas_agg_flush_all(pgas_agg_t *agg);

#define PGAS_AGG_ALL (-1)

/** Sends the collected calls for a rank, or for all ranks (PGAS_AGG_ALL). Raises a counter until
 *  they have run.
 *  Done:   on return the calls are sent, or wait behind others for room. *sync is lowered
 *          when all calls that were collected for the rank so far, or sent before, have run there.
 *          With PGAS_AGG_ALL it is lowered when that is so at every live rank.
 *  Cost:   a call without arguments behind the others, and its answer. With PGAS_AGG_ALL one to
 *          each rank to which the thread ever sent. Until these ranks answer, the counter is higher
 *          by their number.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_RANGE
 *          PGAS_ERR_INVALID    agg or sync is NULL
 *          PGAS_ERR_PEER       the rank died; the counter is unchanged
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_agg_flush_sync(pgas_agg_t *agg, int rank, pgas_sync_t *sync);

/** Statistics. They do not include calls that an aggregator of style OVERFLOW sends at once. */
typedef struct {
    size_t size; /* set by the caller: sizeof(pgas_agg_stats_t) */
    /* calls in batches that have been sent, including the one of pgas_agg_flush_sync */
    uint64_t calls;
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
} pgas_agg_stats_t;
#define PGAS_AGG_STATS_INIT                                             \
    {                                                                   \
        sizeof(pgas_agg_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/** Gives the statistics since the aggregator was created, of all aggregators with which it shares
 *  batches. The maxima count from the start.
 *  Shape:  the thread to which it belongs; for one of the handlers any thread. A direct call that
 *          has to be queued counts as collected.
 *  Cost:   calls that are appended inline are not counted one by one; headers of runs give their
 *          number later.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT
 *          PGAS_ERR_INVALID  NULL, or stats_p->size is unknown */
PGAS_API pgas_status_t pgas_agg_stats(const pgas_agg_t *agg, pgas_agg_stats_t *stats_p);

PGAS_END_DECLS

#include "pgas/detail/agg.h"
#endif
