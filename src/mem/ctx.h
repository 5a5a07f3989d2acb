/** Contexts: a thread issues operations through one. Each attached thread has one of its own, up to
 *  PGAS_LANES threads; the others share one. Context 0 belongs to the thread that holds the rank's
 *  receive lock (the service thread, or a thread that runs handlers).
 *
 *  A context has a transport context, opened on first use off the node, with the keys of peers'
 *  segments and the flush numbers. A peer that is never addressed costs no touched memory. */
#ifndef PGASI_CTX_H
#define PGASI_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/checks.h"
#include "base/spin.h"
#include "pgas/status.h"
#include "boot/wait.h"
#include "mem/ahead.h"
#include "transport/transport.h"

#define PGASI_CTX_SERVICE   0
#define PGASI_CTX_SHARED    1
#define PGASI_CTX_FIRST_OWN 2

/** A peer's segment as this context knows it. */
typedef struct pgasi_peer_key {
    struct pgasi_peer_key *next;
    uint64_t offset, bytes; /* in the peer's segment space */
    uint64_t address;       /* at the peer */
    pgasi_tp_key_t *key;
} pgasi_peer_key_t;

typedef struct {
    /* the peer's heap, where this process may load and store it; valid with heap_bytes */
    char *heap;
    uint64_t heap_bytes;    /* 0: it may not, or this is not known yet */
    pgasi_peer_key_t *keys; /* heap first, once known */
    uint64_t issued;        /* puts and non-fetching atomics */
    uint64_t flushed;       /* operations that are known to be visible at the peer */
    /* NULL until a test of remote completion */
    struct pgasi_ctx_flush *flush;
} pgasi_ctx_peer_t;

typedef struct pgasi_ctx {
    int index;
    bool shared; /* several threads use it, under the lock */
    int lock;
    pgasi_tp_ctx_t *tp;       /* NULL until needed */
    pgasi_ctx_peer_t *peer;   /* [n_ranks], lazily touched */
    uint64_t issued, flushed; /* sums over all peers, through the transport */
    uint64_t fenced;          /* issued, at the last fence */
    uint64_t nowhere;         /* old values that no thread reads */
    bool has_direct;          /* some peer's heap is loaded and stored directly */
    uint32_t in_flight;       /* operations that progress must complete */
    /* own context: depth of the owner's sections; the owner takes no lock */
    uint32_t inside;
    /* own context: another thread makes progress on it, because its owner is outside of the
     * library */
    uint32_t borrowed;
    /* sections and polls of its owner, for helping threads ... */
    uint32_t n_entered, n_progressed;
    uint32_t seen_entered, seen_progressed;
    uint64_t watch_until_ns;       /* ... and their notes */
    struct pgasi_ctx_flush *flush; /* of all peers; NULL as for a peer */
    struct pgasi_nb *nb;           /* operations that complete later; NULL until there is one */
    struct pgasi_sendq *sendq;     /* of src/msg; NULL until the context issues a call */
    pgasi_ahead_t ahead;           /* of its owner's counters */
} pgasi_ctx_t;

struct pgasi_record;

/** A flush of one peer, or of all (rank -1), for which no thread waits. One at a time; context
 *  locked. */
typedef struct pgasi_ctx_flush {
    pgasi_tp_comp_t comp;
    pgasi_ctx_t *ctx;
    int rank;
    bool running;
    bool listed; /* in the list of the flushes that operations wait for */
    struct pgasi_ctx_flush *next;
    struct pgasi_record *first, *last; /* operations that it completes, by number */
    pgas_status_t status;              /* of a flush that failed, until it is reported */
    uint64_t number;                   /* operations that it covers */
} pgasi_ctx_flush_t;

/* [pgasi_n_ctxs]; an entry appears when its slot attaches, context 0 at start */
extern pgasi_ctx_t **pgasi_ctxs;
extern int pgasi_n_ctxs;
extern pgasi_tp_t *pgasi_tp; /* NULL: no rank off the node */

/** A helping thread sets this before a long sleep. A thread that leaves a context then wakes it. */
extern uint32_t pgasi_ctxs_unwatched;
void pgasi_ctxs_watch(void);

/** Checks whether PGAS_TRANSPORT and PGAS_FAULT are valid for this job, also if no transport is
 *  opened. The result is the same on all ranks; rank 0 logs the reason.
 *  @return PGAS_OK
 *          PGAS_ERR_UNSUPPORTED  the transport is not in this build, or does not reach all ranks
 *          PGAS_ERR_INVALID      PGAS_FAULT is malformed */
pgas_status_t pgasi_ctxs_check(void);

/** Opens the transport if some rank is off the node, exchanges addresses, and makes context 0.
 *  Collective. */
pgas_status_t pgasi_ctxs_start(void);
/** Completes all operations of all contexts and closes their connections, together with the other
 *  ranks. Callbacks of operations in flight run inside it for the last time. Collective; no other
 *  thread uses a context any more. A context that is not complete after two seconds is given up.
 *  @return the number of contexts that were given up */
int pgasi_ctxs_drain(void);
/** Frees the contexts. Those that were not drained are closed. */
void pgasi_ctxs_stop(void);

/** Returns the context of a slot. The first call makes it. */
pgas_status_t pgasi_ctx_of_slot(int slot, pgasi_ctx_t **ctx_p);

/** Opens the context's transport context on first use. */
pgas_status_t pgasi_ctx_open(pgasi_ctx_t *ctx);

/** Makes progress on the context's operations. The lock of a shared context is held. */
int pgasi_ctx_progress(pgasi_ctx_t *ctx);

/* A shared context has a lock. An own context has a mark that says that its owner is inside; it
 * costs two stores and a load. A thread that borrows an own context (pgasi_ctxs_help) executes a
 * barrier on all processors, and borrows it only while the owner is not inside. */
void pgasi_ctx_lock_slow(pgasi_ctx_t *ctx);
static inline void pgasi_ctx_enter(pgasi_ctx_t *ctx)
{
    __atomic_store_n(&ctx->n_entered, ctx->n_entered + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&ctx->inside, ctx->inside + 1, __ATOMIC_RELAXED);
    if (PGAS_UNLIKELY(pgasi_wait_light_is_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
static inline void pgasi_ctx_leave(pgasi_ctx_t *ctx)
{
    __atomic_store_n(&ctx->inside, ctx->inside - 1, __ATOMIC_RELEASE);
}
static inline void pgasi_ctx_lock(pgasi_ctx_t *ctx)
{
    if (PGAS_LIKELY(!ctx->shared))
        pgasi_ctx_enter(ctx);
    if (PGAS_UNLIKELY(ctx->shared || __atomic_load_n(&ctx->borrowed, __ATOMIC_ACQUIRE)))
        pgasi_ctx_lock_slow(ctx);
}
bool pgasi_ctx_try_lock(pgasi_ctx_t *ctx);
/* Counts operations in flight. Only the context's holder writes the number; other threads read
 * it. */
static inline void pgasi_ctx_count(pgasi_ctx_t *ctx, int change)
{
    __atomic_store_n(&ctx->in_flight, ctx->in_flight + (uint32_t)change, __ATOMIC_RELEASE);
}
static inline void pgasi_ctx_unlock(pgasi_ctx_t *ctx)
{
    if (PGAS_UNLIKELY(ctx->shared))
        pgasi_spin_unlock(&ctx->lock);
    else
        pgasi_ctx_leave(ctx);
    if (PGAS_UNLIKELY(__atomic_load_n(&pgasi_ctxs_unwatched, __ATOMIC_RELAXED)))
        pgasi_ctxs_watch();
}

/** The transport has no room. Peers may have to act first, and they may wait for this rank. So one
 *  step of the wait serves them, and the lock of a shared context is released meanwhile. Context
 *  locked, before and after. */
void pgasi_ctx_wait_for_room(pgasi_ctx_t *ctx, pgasi_wait_t *w);

/** Whether a wait for operations ends without them, two seconds after it first sees that a rank has
 *  died. The reason: a transport may never report the end of operations to a dead rank. *limit_ns_p
 *  is 0 at first. */
bool pgasi_ctx_give_up(uint64_t *limit_ns_p);
/** Waits until no operation of the context is in flight. @return PGAS_ERR_PEER: it gave up */
pgas_status_t pgasi_ctx_wait_idle(pgasi_ctx_t *ctx);

/** Makes progress on contexts whose owners do not poll, and in which operations are in flight or
 *  were recently begun. Any thread; if another thread is doing so, it returns at once. @return the
 *  number of events */
int pgasi_ctxs_help(void);
/** Whether some context needs such help. */
bool pgasi_ctxs_need_help(void);
/** While a thread waits for the operations of all threads. */
void pgasi_ctxs_help_all(bool on);

/** Allocates zeroed memory that costs nothing until it is touched: for tables by rank. */
void *pgasi_lazy_alloc(size_t bytes);
void pgasi_lazy_free(void *memory, size_t bytes);

/** The largest active message that this library sends: a full batch behind one call. */
size_t pgasi_far_message_max(void);
/** Returns the largest size of an active message with memory of the program that all ranks support.
 *  It is 0 where gets are faster. */
size_t pgasi_far_bulk_max(void);

/** A rank has died: operations in flight to it end with PGAS_ERR_PEER. Any thread may call it. */
void pgasi_ctxs_peer_dead(int rank);
#endif
