/** Broadcasts inside the library: what stands before the arguments, and what a rank knows of a
 *  broadcast that is to be acknowledged. broadcasts of calls (bcast.c) and of buffers
 *  (bcast_buffer.c) stand on it. */
#ifndef PGASI_BCAST_H
#define PGASI_BCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "bcast/tree.h"
#include "pgas/broadcast.h"
#include "pgas/status.h"

#define PGASI_BCAST_CHILDREN_MAX 24 /* 20 for a million ranks; more only in place of dead ones */

enum {
    PGASI_BCAST_ACK = 1,    /* the rank above wants to know ... */
    PGASI_BCAST_REMOTE = 2, /* ... that it arrived, not that it ran */
    PGASI_BCAST_THREADS = 4,
    PGASI_BCAST_SELF = 8 /* from the root to itself */
};

/** What stands before the arguments. */
typedef struct {
    pgas_thread_t source; /* the root's thread */
    uint32_t low, high;   /* the receiver's stretch of the row (tree.h) */
    /* of the acknowledged broadcast, and which of the root's it is: names it on every rank */
    uint32_t number;
    uint16_t handler;
    uint8_t flags, slot;
    uint32_t unused;
} pgasi_bcast_head_t;

/** To whom a rank sends. */
typedef struct {
    int rank;
    uint32_t low, high;
} pgasi_bcast_child_t;
typedef struct {
    int n;
    uint16_t handler;
    uint64_t error; /* of the first rank that is dead and was passed over, as pgasi_error_pack */
    pgasi_bcast_child_t child[PGASI_BCAST_CHILDREN_MAX];
} pgasi_bcast_plan_t;

/** An acknowledged broadcast at a rank. Whoever takes the last that is missing ends it. */
typedef struct {
    uint32_t number;
    int32_t missing; /* acknowledgements of children and runs of the own rank */
    uint64_t error;  /* the first, as pgasi_error_pack (notify.h); 0: none */
    int32_t above;   /* the rank to tell, -1 at the root */
    uint32_t token;  /* the root: of the counter, 0: none */
    uint16_t handler;
    uint8_t slot, unused;
    void *held; /* what the broadcast keeps until it has ended, or NULL */
    int32_t child[PGASI_BCAST_CHILDREN_MAX]; /* rank + 1 of who has not answered */
} pgasi_bcast_entry_t;

/** Set by bcast_buffer.c: ends what a broadcast held. */
extern void (*pgasi_bcast_release)(void *held);

/** What a rank keeps for its and others' broadcasts, if all are under way. For the account. */
static inline uint64_t pgasi_bcast_table_bytes(uint64_t n_ranks)
{
    return n_ranks * (PGAS_BROADCASTS_MAX * sizeof(pgasi_bcast_entry_t) + 8);
}

pgas_status_t pgasi_bcast_start(void);
void pgasi_bcast_stop(void);

/** Messages that this rank has sent to others for broadcasts: down the tree, and acknowledgements
 *  up. */
typedef struct {
    uint64_t n_down, n_up;
} pgasi_bcast_stats_t;
extern pgasi_bcast_stats_t pgasi_bcast_stats;

/** Sets its handler. */
void pgasi_bcast_buffer_start(void);

/* ---- for bcast_buffer.c ---- */

extern pgasi_tree_t pgasi_bcast_tree;

/** The entry of a broadcast that this rank has begun, NULL if nobody wants to know. */
pgasi_bcast_entry_t *pgasi_bcast_known(const pgasi_bcast_head_t *h);
/** The handler runs, or may run, after pgasi_bcast_run has returned. */
bool pgasi_bcast_is_async(const pgasi_bcast_head_t *h);
/** Logs the first message that makes no sense. */
void pgasi_bcast_drop(pgas_thread_t source);
/** Fills *h for the caller's broadcast. */
void pgasi_bcast_begin(pgasi_bcast_head_t *h, pgas_handler_t handler, pgas_scope_t scope,
                       pgas_when_t when);
/** Whether a broadcast that nobody waits for must be acknowledged all the same: now and then. */
bool pgasi_bcast_is_turn(void);

/** Whether what arrived makes sense: it names this rank. */
bool pgasi_bcast_is_sane(const pgasi_bcast_head_t *h);
void pgasi_bcast_plan(const pgasi_bcast_head_t *h, pgasi_bcast_plan_t *plan);

/** The checks of the public calls; *o_p gets the options. head_bytes: what else must fit a call. */
pgas_status_t pgasi_bcast_check(pgas_handler_t handler, const void *args, size_t bytes,
                                size_t head_bytes, pgas_scope_t scope, const pgas_call_opts_t *opts,
                                pgas_call_opts_t *o_p);
/** The root begins: takes one of its places, fills number, slot and flags; PGAS_ERR_AGAIN: none is
 *  free, by opts->full. */
pgas_status_t pgasi_bcast_root(pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan,
                               uint32_t token, pgas_full_t full, void *held,
                               pgasi_bcast_entry_t **entry_p);
/** Nothing was sent after all. */
void pgasi_bcast_undo(pgasi_bcast_entry_t *entry);
/** A rank on the way begins; NULL if nobody wants to know. */
pgasi_bcast_entry_t *pgasi_bcast_enter(const pgasi_bcast_head_t *h, int above,
                                       const pgasi_bcast_plan_t *plan, void *held);
/** A child has answered, or cannot: counted once. */
void pgasi_bcast_child_done(pgasi_bcast_entry_t *entry, int rank, pgas_status_t status);
/** One that is missing at this rank itself is done. entry may be NULL. */
void pgasi_bcast_part_done(pgasi_bcast_entry_t *entry, pgas_status_t status);

/** Runs the handler here, then what is missing at this rank is done: also much later, on another
 *  thread. done(arg) follows the last run. */
typedef struct pgasi_bcast_run {
    void (*done)(void *arg);
    void *arg;
    const void *data; /* of broadcast_buffer */
    size_t data_bytes;
} pgasi_bcast_run_t;
void pgasi_bcast_run(const pgasi_bcast_head_t *h, const void *args, size_t bytes,
                     pgasi_bcast_entry_t *entry, const pgasi_bcast_run_t *run);

#endif
