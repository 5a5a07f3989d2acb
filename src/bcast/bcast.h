/** Broadcasts inside the library: the head of their messages, the plan of a rank, and the state
 *  that a rank keeps of an acknowledged broadcast. A rank that receives a broadcast forwards it to
 *  its children in the tree, then runs its handler.
 *
 *  The files. Each one calls only those above it:
 *
 *      tree.c     the shape of the tree
 *      block.c    memory that a broadcast needs at a rank until it has ended
 *      plan.c     heads, and the children of a rank
 *      ack.c      acknowledged broadcasts
 *      run.c      runs the handler
 *      forward.c  sends buffers to children
 *      buffer.c   broadcasts of buffers
 *      call.c     broadcasts of calls
 *      start.c    start and stop */
#ifndef PGASI_BCAST_H
#define PGASI_BCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "bcast/tree.h"
#include "call/call.h"
#include "mem/thread.h"
#include "msg/send_queue.h"
#include "pgas/call.h"
#include "pgas/status.h"

#define PGASI_BCAST_CHILDREN_MAX 24 /* 20 for a million ranks; more only in place of dead ones */
#define PGASI_BCAST_THREAD_BYTES 24 /* precede the arguments of a call to one thread */

enum {
    PGASI_BCAST_ACK = 1,    /* the rank above waits for an acknowledgement ... */
    PGASI_BCAST_REMOTE = 2, /* ... when the call has arrived, not when it has run */
    PGASI_BCAST_THREADS = 4,
    PGASI_BCAST_SELF = 8,  /* from a rank to itself */
    PGASI_BCAST_SPAWN = 16 /* the handler has a thread of its own */
};

/** Precedes the arguments. */
typedef struct {
    pgas_thread_t source; /* the root's thread */
    uint32_t low, high;   /* the receiver's range of positions (tree.h) */
    /* of the acknowledged broadcast; with the root and its slot it names the broadcast */
    uint32_t number;
    uint16_t handler;
    uint8_t flags, slot;
    uint32_t team; /* its number (boot.h) */
} pgasi_bcast_head_t;

static inline size_t pgasi_bcast_range(const pgasi_bcast_head_t *h)
{
    return h->high - h->low;
}

/** The ranks to which a rank sends. Heads and plans have positions; ranks are those of the job. */
typedef struct {
    int rank;
    uint32_t low, high;
} pgasi_bcast_child_t;
typedef struct {
    int n;
    uint16_t handler;
    uint64_t error; /* of the first dead rank that was skipped, as pgasi_error_pack */
    pgasi_bcast_child_t child[PGASI_BCAST_CHILDREN_MAX];
} pgasi_bcast_plan_t;

/** How messages of a broadcast wait for room: threads wait, handlers queue. */
static inline pgas_full_t pgasi_bcast_full(void)
{
    return pgasi_self.in_handler ? PGASI_FULL_ANSWER : PGAS_FULL_WAIT;
}

/* ---- block.c ---- */

/** Memory of a broadcast at a rank. The last user frees it. */
typedef struct {
    int n_users;
    pgas_gptr_t ptr; /* for peers; PGAS_NULL: they do not read it */
    bool ours;       /* the broadcast allocated it from the heap */
    char *memory;
    _Alignas(8) char own[];
} pgasi_bcast_block_t;

/** NULL: no memory. */
pgasi_bcast_block_t *pgasi_bcast_block_new(size_t bytes, bool for_peers);
pgasi_bcast_block_t *pgasi_bcast_block_of_user(const void *data, pgas_gptr_t ptr);
/** One user more, one user less. NULL is allowed. */
pgasi_bcast_block_t *pgasi_bcast_block_keep(pgasi_bcast_block_t *b);
void pgasi_bcast_block_release(pgasi_bcast_block_t *b);

/* ---- plan.c ---- */

/** Fills *h for the caller's broadcast. */
void pgasi_bcast_begin(pgasi_bcast_head_t *h, const pgasi_call_to_t *call);
/** Whether a broadcast is acknowledged although no counter waits for it. Some broadcasts are, which
 *  bounds the number of messages that ranks inside the tree must queue. */
bool pgasi_bcast_is_turn(void);
/** Numbers the members of the team of a head by position, this rank being the root. member_of: the
 *  team rank at each position. */
void pgasi_bcast_members(const pgasi_bcast_head_t *h, int *member_of);
/** Whether a head that arrived is valid: this rank is a member of the team, and the range begins
 *  with it. */
bool pgasi_bcast_is_sane(const pgasi_bcast_head_t *h);
/** Counts a malformed message, and logs the first. */
void pgasi_bcast_drop(pgas_thread_t source);
/** The children of this rank. PGAS_ERR_NO_MEMORY: there are none, because the tree cannot be made.
 */
pgas_status_t pgasi_bcast_plan(const pgasi_bcast_head_t *h, pgasi_bcast_plan_t *plan);
pgas_status_t pgasi_bcast_plan_start(void);
void pgasi_bcast_plan_stop(void);

/* ---- ack.c ---- */

/** An acknowledged broadcast at a rank. The thread that decrements `missing` to zero ends it. */
typedef struct {
    uint32_t number;
    int32_t missing; /* acknowledgements of children, and runs at this rank */
    uint64_t error;  /* the first, as pgasi_error_pack (base/sync.h); 0: none */
    int32_t above;   /* the rank that waits for the acknowledgement, -1 at the root */
    uint16_t handler;
    uint8_t slot, unused;
    pgas_sync_t *sync;                       /* the root: the counter, or NULL */
    pgasi_bcast_block_t *held;               /* until the broadcast has ended, or NULL */
    int32_t child[PGASI_BCAST_CHILDREN_MAX]; /* rank + 1 of children that have not answered */
} pgasi_bcast_entry_t;

/** The bytes that the entries of a rank take, if all are in use. For the account. */
static inline uint64_t pgasi_bcast_table_bytes(uint64_t n_ranks)
{
    return n_ranks * (PGAS_BROADCASTS_MAX * sizeof(pgasi_bcast_entry_t) + 8);
}

/** Begins at the root: takes one of its slots, and fills in number, slot and flags. Keeps `held`,
 *  if it succeeds.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN: no slot is free, and `full` or the context does not allow to wait */
pgas_status_t pgasi_bcast_root(pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan,
                               pgas_sync_t *sync, pgas_full_t full, pgasi_bcast_block_t *held,
                               pgasi_bcast_entry_t **entry_p);
/** Nothing was sent after all. */
void pgasi_bcast_undo(pgasi_bcast_entry_t *entry);
/** Begins at another rank. NULL: the broadcast is not acknowledged. */
pgasi_bcast_entry_t *pgasi_bcast_enter(const pgasi_bcast_head_t *h, int above,
                                       const pgasi_bcast_plan_t *plan);
/** The entry of a broadcast that this rank has begun. NULL: it is not acknowledged. */
pgasi_bcast_entry_t *pgasi_bcast_known(const pgasi_bcast_head_t *h);

/* In these two entry may be NULL. */
/** A child has answered, or cannot answer. Each child is counted once. */
void pgasi_bcast_child_done(pgasi_bcast_entry_t *entry, int rank, pgas_status_t status);
/** A run at this rank has ended. */
void pgasi_bcast_part_done(pgasi_bcast_entry_t *entry, pgas_status_t status);

/** Messages that this rank has sent to others for broadcasts: down the tree, and acknowledgements
 *  up. */
typedef struct {
    uint64_t n_down, n_up;
} pgasi_bcast_stats_t;
extern pgasi_bcast_stats_t pgasi_bcast_stats;
static inline void pgasi_bcast_count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

pgas_status_t pgasi_bcast_ack_start(void);
void pgasi_bcast_ack_stop(void);

/* ---- run.c ---- */

/** The buffer of the handler, or NULL, and the block to which it belongs, or NULL. */
typedef struct {
    pgasi_bcast_block_t *block;
    const void *data;
    size_t data_bytes;
    bool fixed;  /* it was pushed */
    bool packed; /* it is several buffers, see PGASI_BCAST_PACKED */
} pgasi_bcast_run_t;

/** Runs the handler at this rank, then reports to the entry: perhaps much later, on another thread.
 *  The block is released after the last run. */
void pgasi_bcast_run(const pgasi_bcast_head_t *h, const void *args, size_t bytes,
                     pgasi_bcast_entry_t *entry, const pgasi_bcast_run_t *run);
/** The handler runs, or may run, after pgasi_bcast_run has returned. */
bool pgasi_bcast_is_async(const pgasi_bcast_head_t *h);
void pgasi_bcast_run_start(void);

/* ---- buffer.c, call.c, start.c ---- */

/** Broadcasts a call with a buffer. sync: the counter that waits, or NULL. */
pgas_status_t pgasi_bcast_buffer(const pgasi_call_to_t *call, pgas_sync_t *sync);
/** Carries out a call to a team. */
pgas_status_t pgasi_bcast_call(const pgasi_call_to_t *call);
void pgasi_bcast_call_start(void);
void pgasi_bcast_buffer_start(void);
pgas_status_t pgasi_bcast_start(void);
void pgasi_bcast_stop(void);

#endif
