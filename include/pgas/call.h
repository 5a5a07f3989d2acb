/** Remote calls: handlers named by text, calls to ranks, replies, completion, aggregation, quiescence.
 *
 *  Who runs an incoming call: any thread of the target rank that is inside a blocking call or pgas_progress, else its
 *  service thread. Calls of one thread to one rank run in the order issued, one at a time; a handler may run at the
 *  same time as the program's own threads, and as handlers of other sources only if the rank has several threads that
 *  take turns: handlers of one rank never overlap.
 *
 *  What a handler may do:
 *  | pgas_call, pgas_call_try, pgas_agg_call, pgas_reply           | yes: queued when the peer is full, up to        |
 *  |                                                               | PGAS_BACKLOG_LIMIT, then PGAS_ERR_AGAIN         |
 *  | put, get, atomics within the node; pgas_alloc_local           | yes                                             |
 *  | put, get, atomics to other nodes or to attached memory; flush | PGAS_ERR_CONTEXT                                |
 *  | pgas_sync_wait, collectives, pgas_progress, pgas_quiesce       | PGAS_ERR_CONTEXT (pgas_progress: returns 0)     |
 *
 *  When a rank has died and PGAS_ON_PEER_DEATH=continue lets the others go on, what it owes, completions and replies,
 *  falls with PGAS_ERR_PEER; calls to it give PGAS_ERR_PEER from the next one on that a thread makes after the death was
 *  noticed; calls under way or gathered for it are lost in silence; pgas_quiesce and every collective of a team with it
 *  give PGAS_ERR_PEER. A call either gives PGAS_ERR_PEER or lets its counter fall with it, never both.
 *
 *  Source: Seriema (send-based calls, aggregation in the style "trad"). */
#ifndef PGAS_CALL_H
#define PGAS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/runtime.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The number of a handler, the same on all ranks; 0 is none. */
typedef uint16_t pgas_handler_t;
#define PGAS_HANDLERS_MAX 4096
#define PGAS_HANDLER_NAME_MAX 63

/** args: `bytes` bytes, aligned to 8, valid during the call. source: the calling thread. context: as registered. */
typedef void (*pgas_handler_fn_t)(const void *args, size_t bytes, pgas_thread_t source, void *context);

/** Registers a handler on this rank under a name of the program's choice.
 *  Shape:  before pgas_init (agreed on there) or after it (then pgas_handlers_agree must follow on all ranks).
 *          One thread at a time.
 *  Done:   *handler_p (which must stay valid: a static variable) is set when the ranks have agreed.
 *  @return PGAS_OK; PGAS_ERR_INVALID (null, empty or too long name); PGAS_ERR_EXISTS (name in use with another
 *          function); PGAS_ERR_LIMIT. */
PGAS_API pgas_status_t pgas_handler_register(const char *name, pgas_handler_fn_t fn, void *context,
                                             pgas_handler_t *handler_p);

/** All ranks agree on numbers for the handlers registered since, by sorted name; earlier numbers stay.
 *  @return PGAS_OK; PGAS_ERR_MISMATCH, the same on all ranks, if a name is missing somewhere (the log names handler and
 *          rank; the handlers registered since are forgotten); PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT. */
PGAS_API pgas_status_t pgas_handlers_agree(void);

/** A counter that falls when calls complete. The caller's memory; must not move between init and fini. */
typedef struct {
    volatile int64_t count; /* completions still missing */
    volatile int32_t status; /* first error: PGAS_ERR_PEER, or PGAS_ERR_NOT_FOUND for an unknown handler */
    uint32_t token;
} pgas_sync_t;

/** count: completions to wait for; calls that name the counter do not raise it.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_LIMIT (65536 counters live). */
PGAS_API pgas_status_t pgas_sync_init(pgas_sync_t *sync, int64_t count);
/** Raises the counter; for reuse, or before further calls. NULL is ignored. */
PGAS_API void pgas_sync_add(pgas_sync_t *sync, int64_t count);
/** Waits, with progress, until the counter is 0 or less; timeout_us < 0: for ever.
 *  @return the first error of its calls, PGAS_OK, PGAS_ERR_TIMEOUT, PGAS_ERR_CONTEXT in a handler. */
PGAS_API pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us);
/** Looks once, without progress: PGAS_INPROGRESS if not yet. */
PGAS_API pgas_status_t pgas_sync_test(const pgas_sync_t *sync);
/** Completions that arrive later are ignored. So are NULL, and a counter that has ended, is a copy, or is zeroed memory. */
PGAS_API void pgas_sync_fini(pgas_sync_t *sync);

/* What the inline part of pgas_call looks at; the library's. */
typedef struct {
    uint64_t epoch; /* as in the path of a thread that may use it */
    uint32_t n_ranks, n_handlers;
} pgas_call_run_t;
PGAS_API extern pgas_call_run_t pgas_call_run;
typedef struct {
    char *pos, *end; /* the tail in the peer's ring, or in the same line; up to where there is room */
    uint64_t lap;    /* the bit of a header that shows a record in this lap */
    const uint32_t *sleepers;
    uint64_t recent; /* inline calls since the thread last made progress: 0, 1, more; with more the tail is not exact */
} pgas_call_window_t;
typedef struct {
    uint64_t epoch;             /* 0 in handlers, which have another way */
    pgas_call_window_t *window; /* by rank */
    uint64_t header;            /* of a call of 8 bytes of this thread, but for lap and handler */
    pgas_call_window_t *used;   /* the last window in which recent is not 0 */
    uint32_t context;           /* whose aggregators may be used: the thread's slot + 1, or PGAS_CALL_HANDLERS in handlers */
} pgas_call_path_t;
#define PGAS_CALL_HANDLERS UINT32_MAX
PGAS_API extern __thread pgas_call_path_t pgas_call_path __attribute__((tls_model("initial-exec")));
#define PGAS_CALL_LAP_EVEN (UINT64_C(1) << 63)
#define PGAS_CALL_LAP_ODD (UINT64_C(1) << 53)
PGAS_API void pgas_call_wake(int rank);
PGAS_API pgas_status_t pgas_call_far(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                     pgas_sync_t *executed);
PGAS_API pgas_status_t pgas_call_try_far(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                         pgas_sync_t *executed);

/* The usual case: 8 bytes, on the node, room in the ring, nobody waits for it. In a stream a processor fetches lines of the
 * ring ahead as far as stores to them follow each other, so little else is stored: the tail is when a line begins and when
 * it ends, in between it is where the marks end, and each record clears the place of the next mark in its line. A call by
 * itself, after progress, does not look at the line, which the receiver has: it stores the tail as well. */
PGAS_INLINE bool pgas_call_inline(int rank, pgas_handler_t handler, uint64_t word)
{
    if (pgas_call_path.epoch != pgas_call_run.epoch || (uint32_t)rank >= pgas_call_run.n_ranks ||
        handler - 1u >= pgas_call_run.n_handlers)
        return false;
    pgas_call_window_t *w = &pgas_call_path.window[rank];
    char *pos = w->pos;
    uint64_t lap = w->lap, recent = w->recent;
    while (recent > 1 && (uintptr_t)pos % 64 &&
           (__atomic_load_n((uint64_t *)(void *)pos, __ATOMIC_RELAXED) & (PGAS_CALL_LAP_EVEN | PGAS_CALL_LAP_ODD)) == lap)
        pos += 16;
    if (PGAS_UNLIKELY(w->end - pos < 16))
        return false;
    if (recent == 0 || (uintptr_t)pos % 64 == 48 || (uintptr_t)pos % 64 == 0)
        __atomic_store_n(&w->pos, pos + 16, __ATOMIC_RELAXED);
    if (PGAS_UNLIKELY(recent < 2)) {
        w->recent = recent + 1;
        pgas_call_path.used = w;
    }
    __atomic_store_n((uint64_t *)(void *)(pos + 8), word, __ATOMIC_RELAXED);
    if (recent > 0 && (uintptr_t)pos % 64 != 48)
        __atomic_store_n((uint64_t *)(void *)(pos + 16), 0, __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)(void *)pos, pgas_call_path.header | lap | handler, __ATOMIC_RELEASE);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(__atomic_load_n(w->sleepers, __ATOMIC_RELAXED)))
        pgas_call_wake(rank);
    return true;
}

/* Inline if it can be, otherwise by the function. */
typedef pgas_status_t (*pgas_call_fn_t)(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                        pgas_sync_t *executed);
PGAS_INLINE pgas_status_t pgas_call_or(pgas_call_fn_t far, int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                       pgas_sync_t *executed)
{
    if (__builtin_constant_p(bytes == 8 && !executed) && bytes == 8 && !executed && args) {
        uint64_t word, copy; /* the copy leaves word, and what args points to, in a register */
        memcpy(&word, args, 8);
        if (PGAS_LIKELY(pgas_call_inline(rank, handler, word)))
            return PGAS_OK;
        copy = word;
        return far(rank, handler, &copy, 8, executed);
    }
    return far(rank, handler, args, bytes, executed);
}

/** Runs handler(args) on a rank (also on the caller's own).
 *  Units:  bytes up to PGAS_CALL_MAX (default 8 KiB).
 *  Done:   args are copied on return. executed (may be NULL) falls by one when the handler has run.
 *          A full channel: waits with progress; inside a handler the call is queued instead.
 *  Cost:   on the node a copy into the receiver's ring and a release store; else one active message. With executed the
 *          way back, and a few atomic additions that note which rank owes what (4 bytes per rank for each counter that is
 *          live at one time, allocated when it is first used so).
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_RANGE (no such rank), PGAS_ERR_NOT_FOUND (no such handler),
 *          PGAS_ERR_INVALID (no arguments; executed is no live counter), PGAS_ERR_LIMIT (bytes), PGAS_ERR_PEER (the rank
 *          died), PGAS_ERR_AGAIN (in a handler, queue full), PGAS_ERR_NO_MEMORY. */
PGAS_INLINE pgas_status_t pgas_call(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                    pgas_sync_t *executed)
{
    return pgas_call_or(pgas_call_far, rank, handler, args, bytes, executed);
}

/** As pgas_call, but PGAS_ERR_AGAIN instead of waiting; nothing has happened then. */
PGAS_INLINE pgas_status_t pgas_call_try(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                        pgas_sync_t *executed)
{
    return pgas_call_or(pgas_call_try_far, rank, handler, args, bytes, executed);
}

/** As pgas_call, and what the handler gives to pgas_reply is stored at reply (exactly reply_bytes, up to
 *  PGAS_CALL_MAX) before executed falls. executed NULL: waits for the reply (not in a handler: PGAS_ERR_CONTEXT).
 *  A handler that does not reply, or with another size, gives status PGAS_ERR_MISMATCH. */
PGAS_API pgas_status_t pgas_call_return(int rank, pgas_handler_t handler, const void *args, size_t bytes, void *reply,
                                        size_t reply_bytes, pgas_sync_t *executed);

/** In a handler: the answer to the call being run; copied. Once per call; ignored if nobody asked (PGAS_OK).
 *  @return PGAS_OK, PGAS_ERR_CONTEXT (not in a handler, or twice), PGAS_ERR_LIMIT. */
PGAS_API pgas_status_t pgas_reply(const void *data, size_t bytes);

/** Returns when all calls of all ranks, and the calls that those made, have run. Collective over all ranks; publishes
 *  the caller's aggregated calls first. Counted in waves of allreduces, not guessed (Mattern's four counters).
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_quiesce(void);

/* ---- aggregation -------------------------------------------------------------------------------------------- */

/** Options; zero means default. */
typedef struct {
    size_t size;          /* as in pgas_init_opts_t */
    size_t publish_bytes; /* publish to a peer when so many bytes are gathered; default PGAS_AGG_SIZE */
    bool for_handlers;    /* used inside handlers only, whichever thread runs them; what they gather is published when
                             the incoming calls at hand have run */
} pgas_agg_opts_t;
#define PGAS_AGG_OPTS_INIT { sizeof(pgas_agg_opts_t), 0, false }

/** Where the next call to one peer goes: behind others of the same handler and size, which share one header. */
typedef struct {
    uint64_t kind; /* of the calls in the open run; 0: none */
    char *pos, *end;
} pgas_agg_cursor_t;

/** An aggregator gathers the calls of one thread and publishes them late. Belongs to the thread that created it (or to
 *  the rank's handlers). The first fields are visible for the inline path below; all of it is the library's. */
typedef struct pgas_agg {
    pgas_agg_cursor_t *cursor; /* by rank */
    uint32_t n_ranks;          /* 0: no inline path */
    uint32_t context;          /* in which it is used, see pgas_call_path_t */
} pgas_agg_t;

/* Small arguments by words: a structure just filled in is then taken from registers. (Copied by wider loads it would
 * first have to reach memory, for stores of its members do not forward to a load of them together.) */
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

/** Handler and size as one number, never 0. */
static inline uint64_t pgas_agg_kind(pgas_handler_t handler, size_t bytes)
{
    return UINT64_C(1) << 63 | (uint64_t)bytes << 16 | handler;
}

/** @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_NO_MEMORY, PGAS_ERR_CONTEXT (thread not attached), PGAS_ERR_INVALID (null,
 *  or options of a size that never was). */
PGAS_API pgas_status_t pgas_agg_create(const pgas_agg_opts_t *opts, pgas_agg_t **agg_p);
/** Publishes what is gathered and frees. NULL is ignored. */
PGAS_API pgas_status_t pgas_agg_destroy(pgas_agg_t *agg);

PGAS_API pgas_status_t pgas_agg_call_far(pgas_agg_t *agg, int rank, pgas_handler_t handler, const void *args,
                                         size_t bytes);

/** As pgas_call without completion, but published late: when PGAS_AGG_SIZE bytes for the peer are gathered, by
 *  pgas_agg_flush, pgas_quiesce, a direct call of the thread to the same rank, or detach. Errors as pgas_call; agg is not
 *  checked: NULL is undefined. Inline: calls with the handler and size of the one before cost a comparison and a copy;
 *  pgas_agg_call_far does the rest. */
PGAS_INLINE pgas_status_t pgas_agg_call(pgas_agg_t *agg, int rank, pgas_handler_t handler, const void *args,
                                          size_t bytes)
{
    if (PGAS_LIKELY((uint32_t)rank < agg->n_ranks && agg->context == pgas_call_path.context)) {
        pgas_agg_cursor_t *c = &agg->cursor[rank];
        size_t room = (bytes + 7) & ~(size_t)7;
        char *pos = c->pos;
        if (PGAS_LIKELY(c->kind == pgas_agg_kind(handler, bytes) && (size_t)(c->end - pos) >= room && args)) {
            pgas_agg_copy(pos, args, bytes);
            c->pos = pos + room;
            return PGAS_OK;
        }
    }
    if (__builtin_constant_p(bytes) && bytes > 0 && bytes <= 64 && args) {
        char copy[64]; /* leaves what args points to in registers */
        pgas_agg_copy(copy, args, bytes);
        return pgas_agg_call_far(agg, rank, handler, copy, bytes);
    }
    return pgas_agg_call_far(agg, rank, handler, args, bytes);
}

/** Publishes what is gathered for a rank; or for all, and waits until it has left (not until it has run), so that the
 *  thread may then stay away from the library. Inside handlers neither waits. */
PGAS_API pgas_status_t pgas_agg_flush(pgas_agg_t *agg, int rank);
PGAS_API pgas_status_t pgas_agg_flush_all(pgas_agg_t *agg);

PGAS_END_DECLS
#endif
