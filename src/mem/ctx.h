/** Contexts: what a thread issues through. One per attached thread up to PGAS_LANES, one shared by
 *  the rest, and context 0, which belongs to whoever holds the rank's receive lock (service thread,
 *  or a thread that runs handlers).
 *
 *  A context has a transport context of its own, opened on first use off the node, with the keys of
 *  peers' segments and the flush numbers. Memory per peer that is never talked to: none that is
 *  touched. */
#ifndef PGASI_CTX_H
#define PGASI_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/checks.h"
#include "base/spin.h"
#include "pgas/status.h"
#include "boot/wait.h"
#include "transport/transport.h"

#define PGASI_CTX_SERVICE   0
#define PGASI_CTX_SHARED    1
#define PGASI_CTX_FIRST_OWN 2

/** A peer's segment as this context sees it. */
typedef struct pgasi_peer_key {
    struct pgasi_peer_key *next;
    uint64_t offset, bytes; /* in the peer's segment space */
    uint64_t address;       /* at the peer */
    pgasi_tp_key_t *key;
} pgasi_peer_key_t;

typedef struct {
    /* the peer's heap where this process may load and store it, valid with: */
    char *heap;
    uint64_t heap_bytes;    /* 0: not, or not known yet */
    pgasi_peer_key_t *keys; /* heap first, once known */
    uint64_t issued;        /* puts and non-fetching atomics */
    uint64_t flushed;       /* those known to be visible at the peer */
    /* NULL until somebody looks for remote completion without waiting */
    struct pgasi_ctx_flush *flush;
} pgasi_ctx_peer_t;

typedef struct pgasi_ctx {
    int index;
    bool shared; /* several threads: take the lock */
    int lock;
    pgasi_tp_ctx_t *tp;       /* NULL until needed */
    pgasi_ctx_peer_t *peer;   /* [n_ranks], lazily touched */
    uint64_t issued, flushed; /* over all peers, through the transport */
    bool has_direct;          /* some peer's heap is loaded and stored directly */
    uint32_t in_flight;       /* operations that progress must complete */
    uint32_t inside;          /* own context: depth of the owner's sections; it takes no lock */
    /* own context: somebody makes progress on it while its owner is elsewhere */
    uint32_t borrowed;
    /* sections and looks of its owner, for who lends a hand ... */
    uint32_t n_entered, n_progressed;
    uint32_t seen_entered, seen_progressed;
    uint64_t watch_until_ns;       /* ... and his notes */
    struct pgasi_ctx_flush *flush; /* of all peers; as a peer's */
    struct pgasi_sendq *sendq;     /* the call layer's part; NULL until it issues a call */
} pgasi_ctx_t;

/** A flush of one peer, or of all (rank -1), that nobody waits for, one at a time; context
 *  locked. */
typedef struct pgasi_ctx_flush {
    pgasi_tp_comp_t comp;
    pgasi_ctx_t *ctx;
    int rank;
    bool running;
    pgas_status_t status; /* of one that failed, until it is told */
    uint64_t number;      /* operations that it covers */
} pgasi_ctx_flush_t;

/* [pgasi_n_ctxs]; entries appear as slots attach, context 0 at start */
extern pgasi_ctx_t **pgasi_ctxs;
extern int pgasi_n_ctxs;
extern pgasi_tp_t *pgasi_tp; /* NULL: no rank off the node */

/** Set before whoever lends a hand sleeps long; who leaves a context then wakes him. */
extern uint32_t pgasi_ctxs_unwatched;
void pgasi_ctxs_watch(void);

/** Whether PGAS_TRANSPORT and PGAS_FAULT make sense for this job, also if nothing is opened; the
 *  same on all ranks, rank 0 says what does not. @return PGAS_OK, PGAS_ERR_UNSUPPORTED,
 *  PGAS_ERR_INVALID. */
pgas_status_t pgasi_ctxs_check(void);

/** Opens the transport if some rank is off the node, exchanges addresses, makes context 0.
 *  Collective. */
pgas_status_t pgasi_ctxs_start(void);
/** Completes what all contexts have issued, and closes their connections, all at once and together
 *  with the other ranks: callbacks of what was under way run in here for the last time. Collective;
 *  no other thread uses a context any more. A context that is not through after two seconds is
 *  given up. Returns how many contexts were. */
int pgasi_ctxs_drain(void);
/** Frees them; closes what was not drained. */
void pgasi_ctxs_stop(void);

/** The context of a slot, made if need be. */
pgas_status_t pgasi_ctx_of_slot(int slot, pgasi_ctx_t **ctx_p);

/** The context's transport context, opened on first use. */
pgas_status_t pgasi_ctx_open(pgasi_ctx_t *ctx);

/** Progress on the context's own operations; context lock held if shared. */
int pgasi_ctx_progress(pgasi_ctx_t *ctx);

/* A shared context has a lock. An own context has a mark that its owner is inside, whose cost is
 * two stores and a load; who borrows it (pgasi_ctxs_help) pays with a barrier on all processors,
 * and only while the owner is not inside. */
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
/* Operations in flight: written by the context's holder alone, read by others. */
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

/** Waits until nothing of the context is in flight. A transport may never tell the end of what was
 *  under way to a rank that died: once one has, the wait ends after two seconds with
 *  PGAS_ERR_PEER. */
pgas_status_t pgasi_ctx_wait_idle(pgasi_ctx_t *ctx);

/** Progress on contexts in which operations are under way, or were begun a moment ago, while nobody
 *  looks at them. Any thread; one at a time, others return at once. Returns events. */
int pgasi_ctxs_help(void);
/** True if some context needs such looks. */
bool pgasi_ctxs_need_help(void);
/** While somebody waits for whatever was issued, by whomever. */
void pgasi_ctxs_help_all(bool on);

/** Zeroed memory that costs nothing until touched: for tables by rank. */
void *pgasi_lazy_alloc(size_t bytes);
void pgasi_lazy_free(void *memory, size_t bytes);

/** The largest active message that this library sends: a batch with a call in front of it that just
 *  fitted. */
size_t pgasi_far_message_max(void);

/** A rank has died: operations in flight to it end with PGAS_ERR_PEER. Any thread. */
void pgasi_ctxs_peer_dead(int rank);
#endif
