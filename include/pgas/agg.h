/** Aggregators: small calls gathered and published together.
 *
 *  When a batch leaves: publish_bytes are gathered; the time limit is over; pgas_agg_flush,
 *  pgas_quiesce, detach, a direct call of the thread to the same rank; its buffer is needed for
 *  another peer; in handlers also when these have run.
 *
 *  The time limit: the thread looks at the time in every 8th round of progress (pgas_progress, and
 *  every call that waits), in every 64th call that the inline path does not take, and publishes all
 *  before it sleeps in a wait. A batch leaves at most latency_us, and twice the time between two
 *  looks, after the first look behind its first call. A thread that stays away from the library
 *  flushes first: nobody else can publish for it, for its inline path takes no lock.
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
    PGAS_AGG_TRAD, /* late, see above: for throughput */
    /* at once, as pgas_call; they are gathered only while the channel is full, up to memory_bytes,
     * then pgas_agg_call gives PGAS_ERR_AGAIN. Progress of the thread sends what is gathered. */
    PGAS_AGG_OVERFLOW
} pgas_agg_style_t;

/** Over which ranks calls travel. With rows and columns of nodes, a thread gathers for the ranks of
 *  about 2 sqrt(n) or 3 cbrt(n) nodes instead of n, and a call is copied at each of up to two or
 *  three hops; memory of intermediate ranks that takes what a slow one cannot is not limited. The
 *  result is the same as direct: source, order among calls of the aggregator to one rank (not with
 *  the thread's other calls), quiescence, flushes with a counter. A plain flush sends what is
 *  gathered on its way. A rank that dies takes with it what travels over it, also counters of
 *  flushes: who goes on (PGAS_ON_PEER_DEATH=continue) chooses direct. Style TRAD only; calls do not
 *  take the inline path. */
typedef enum {
    PGAS_ROUTE_DIRECT,
    PGAS_ROUTE_TWO, /* hops */
    PGAS_ROUTE_THREE,
    PGAS_ROUTE_AUTO /* the fewest for whose peers memory_bytes has batches of publish_bytes */
} pgas_route_t;

/** Options; zero means default. The aggregators of one thread (and those of the handlers) gather
 *  into the same batches, so that their calls keep one order: the smallest size, memory and time
 *  limit of them all holds, also after one has ended. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* publish to a peer when so many bytes are gathered; default PGAS_AGG_SIZE */
    size_t publish_bytes;
    /* used inside handlers only, whichever thread runs them; what they gather is published when the
     * incoming calls at hand have run */
    bool for_handlers;
    /* publish what has been gathered for so long; default PGAS_AGG_LATENCY_US, < 0: no limit */
    int64_t latency_us;
    /* TRAD: most that batches take that are gathered into; default and maximum 64 batches.
     * OVERFLOW, of this aggregator alone: most that waits for full channels of the thread, and one
     * batch; default PGAS_BACKLOG_LIMIT */
    size_t memory_bytes;
    pgas_agg_style_t style;
    pgas_route_t route;
} pgas_agg_opts_t;
#define PGAS_AGG_OPTS_INIT                                                        \
    {                                                                             \
        sizeof(pgas_agg_opts_t), 0, false, 0, 0, PGAS_AGG_TRAD, PGAS_ROUTE_DIRECT \
    }

/** Where the next call to one peer goes: behind others of the same handler and size, which share
 *  one header. */
typedef struct {
    uint64_t kind; /* of the calls in the open run, and whose they are; 0: none */
    /* end: with a run, the last place where a call of its kind fits; else of the batch */
    char *pos, *end;
} pgas_agg_cursor_t;

/** An aggregator gathers the calls of one thread and publishes them late. Belongs to the thread
 *  that created it (or to the rank's handlers). The first fields are visible for the inline path
 *  below; all of it is the library's. */
typedef struct pgas_agg {
    pgas_agg_cursor_t *cursor; /* by rank */
    uint32_t n_ranks;          /* 0: no inline path */
    bool overflow;             /* calls go at once if they can; n_ranks is 0 then */
} pgas_agg_t;

/* Small arguments by words: a structure just filled in is then taken from registers. (Copied by
 * wider loads it would first have to reach memory, for stores of its members do not forward to a
 * load of them together.) */
PGAS_INLINE void pgas_agg_copy(char *to, const void *from, size_t bytes)
{
    const char *args = (const char *)from;
    size_t i = 0;
    if (bytes <= 64 && __builtin_constant_p(bytes)) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 8
#endif
        for (; i + 8 <= bytes; i += 8)
            memcpy(to + i, args + i, 8);
    }
    memcpy(to + i, args + i, bytes - i);
}

/** Whose call it is (see pgas_call_path_t), handler and size as one number: one comparison tells
 *  that a call continues a run. */
static inline uint64_t pgas_agg_kind(uint64_t context, pgas_handler_t handler, size_t bytes)
{
    return context | (uint64_t)bytes << 16 | handler;
}

/** @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_NO_MEMORY, PGAS_ERR_CONTEXT (thread not attached),
 *  PGAS_ERR_INVALID (null, options of a size that never was, no such style or route, a route in
 *  style OVERFLOW). */
PGAS_API pgas_status_t pgas_agg_create(const pgas_agg_opts_t *opts, pgas_agg_t **agg_p);
/** Publishes what is gathered and frees. NULL is ignored. */
PGAS_API pgas_status_t pgas_agg_destroy(pgas_agg_t *agg);

PGAS_API pgas_status_t pgas_agg_call_far(pgas_agg_t *agg, int rank, pgas_handler_t handler,
                                         const void *args, size_t bytes);

/** As pgas_call without completion, but published late, or in the other style perhaps late, see
 *  above; that style also gives PGAS_ERR_AGAIN, then nothing has happened: make progress and try
 *  again. Errors as pgas_call; agg is not checked: NULL is undefined. Inline: calls with the
 *  handler and size of the one before cost a comparison and a copy; pgas_agg_call_far does the
 *  rest. */
PGAS_INLINE pgas_status_t pgas_agg_call(pgas_agg_t *agg, int rank, pgas_handler_t handler,
                                        const void *args, size_t bytes)
{
    if (PGAS_LIKELY((uint32_t)rank < agg->n_ranks)) {
        pgas_agg_cursor_t *c = &agg->cursor[rank];
        size_t room = (bytes + 7) & ~(size_t)7;
        char *pos = c->pos;
        if (PGAS_LIKELY(c->kind == pgas_agg_kind(pgas_call_path.context, handler, bytes) &&
                        pos <= c->end && args)) {
            pgas_agg_copy(pos, args, bytes);
            c->pos = pos + room;
            return PGAS_OK;
        }
    } else if (__builtin_constant_p(bytes) && bytes == 8 && agg->overflow && args) {
        uint64_t word;
        memcpy(&word, args, 8);
        if (PGAS_LIKELY(pgas_call_inline(rank, handler, word)))
            return PGAS_OK;
    } else if (bytes > 8 && bytes <= PGAS_CALL_STREAM_MAX && bytes % 8 == 0 && agg->overflow &&
               args) {
        if (pgas_call_stream(rank, handler, args, bytes))
            return PGAS_OK;
    }
    if (__builtin_constant_p(bytes) && bytes > 0 && bytes <= 64 && args) {
        char copy[64]; /* leaves what args points to in registers */
        pgas_agg_copy(copy, args, bytes);
        return pgas_agg_call_far(agg, rank, handler, copy, bytes);
    }
    return pgas_agg_call_far(agg, rank, handler, args, bytes);
}

/** Publishes what is gathered for a rank; or for all, and waits until it has left (not until it has
 *  run), so that the thread may then stay away from the library. Inside handlers neither waits. */
PGAS_API pgas_status_t pgas_agg_flush(pgas_agg_t *agg, int rank);
PGAS_API pgas_status_t pgas_agg_flush_all(pgas_agg_t *agg);

/** Publishes what is gathered for a rank, or for all (PGAS_AGG_ALL), and tells when it has run.
 *  Done:   on return it is published, or behind what waits for room. sync falls by one when all
 *          calls that were gathered for the rank so far, and before that, have run there; for all:
 *          when they have at every rank that is alive.
 *  Cost:   a call without arguments behind the others, and its answer; for all: at every rank to
 *          which the thread ever sent, and the counter is raised for them meanwhile.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_RANGE, PGAS_ERR_INVALID (null;
 *          sync is no live counter), PGAS_ERR_PEER (the rank died: sync does not fall),
 *          PGAS_ERR_NO_MEMORY. */
#define PGAS_AGG_ALL (-1)
PGAS_API pgas_status_t pgas_agg_flush_sync(pgas_agg_t *agg, int rank, pgas_sync_t *sync);

/** Counters. Calls that an overflow aggregator sends at once are not in them. */
typedef struct {
    size_t size; /* set by the caller: of this structure */
    /* gathered, in batches that have been published; also those of pgas_agg_flush_sync */
    uint64_t calls;
    uint64_t bytes; /* of these batches, headers too */
    /* batches, by the reason for which they were published */
    uint64_t full, time, explicit_flush, quiesce;
    /* ... behind them came a direct call, or a batch that had waited for room before them had
     * left */
    uint64_t order;
    uint64_t drained;            /* ... handlers gathered it, and have run */
    uint64_t room;               /* ... its buffer was needed for another peer */
    uint64_t waited;             /* batches that found their channel full */
    uint64_t waiting_high_bytes; /* most bytes that waited for full channels at one time */
    uint64_t open_high;          /* most batches that were gathered into at one time */
    uint64_t blocked_ns;         /* time in which calls waited for room, and flushes of one peer */
} pgas_agg_stats_t;
#define PGAS_AGG_STATS_INIT                                             \
    {                                                                   \
        sizeof(pgas_agg_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/** What was counted since the aggregator was made, for all aggregators with which it shares batches
 *  (the maxima: ever).
 *  Shape:  the thread that may use it; for handlers' ones any thread. A direct call that must queue
 *          is gathered as well.
 *  Cost:   nothing is counted where calls are appended inline: headers of runs tell afterwards.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_INVALID (null, or a size that
 *  never was). */
PGAS_API pgas_status_t pgas_agg_stats(const pgas_agg_t *agg, pgas_agg_stats_t *stats_p);

PGAS_END_DECLS
#endif
