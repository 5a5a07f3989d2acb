/** The pieces of a client that are under way. Decides which of them may be sent, which one an
 *  acknowledgement completes, and which ones go to a new chain. Pure: no I/O, no locks.
 *
 *      acked <= sent <= pushed <= acked + size
 *
 *  count pieces since the start of the client. In a chain, pieces have numbers from 0: number =
 *  count - base. Replicas execute and acknowledge in order, so the pieces under way form a queue.
 *  Pieces between sent and pushed wait for credits: those of replica i reach to base + armed[i].
 *
 *  When a chain ends, pgasi_group_window_reform makes all pieces wait again, for the members of a
 *  new chain. Each of them reports how many pieces it has executed (pgasi_group_window_opened).
 *  Replicas that had executed a piece skip it: its message names them in skip_map and carries
 *  their old words. */
#ifndef PGASI_GROUP_WINDOW_H
#define PGASI_GROUP_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include "group/program.h"
#include "pgas/sync.h"

typedef struct {
    pgasi_group_piece_t piece; /* number and skip_map: as it was last sent */
    uint64_t done_map;         /* replicas that had executed it when the chain was formed */
    uint64_t start_ns;         /* when it was first sent; 0: not yet */
    uint64_t *old;             /* cas: the caller's words, or NULL */
    pgas_sync_t *sync;         /* of the operation's last piece: its counter; or NULL */
    uint32_t n_old;            /* words of the caller */
    bool is_last;              /* the operation ends with this piece */
} pgasi_group_slot_t;

typedef struct {
    pgasi_group_slot_t *slots;                  /* a ring */
    uint64_t (*known)[PGAS_GROUP_REPLICAS_MAX]; /* old words of skipped pieces; NULL: none yet */
    uint32_t mask, size, n;                     /* ring, most pieces under way, replicas */
    uint64_t acked, sent, pushed, base;
    uint64_t armed[PGAS_GROUP_REPLICAS_MAX];
    uint64_t armed_min;
} pgasi_group_window_t;

/** @return PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_group_window_init(pgasi_group_window_t *w, uint32_t size, uint32_t n);
void pgasi_group_window_fini(pgasi_group_window_t *w);

static inline pgasi_group_slot_t *pgasi_group_window_slot(const pgasi_group_window_t *w,
                                                          uint64_t count)
{
    return &w->slots[count & w->mask];
}

/** Pieces that may be pushed; pieces that are under way. */
static inline uint32_t pgasi_group_window_room(const pgasi_group_window_t *w)
{
    return w->size - (uint32_t)(w->pushed - w->acked);
}
static inline uint32_t pgasi_group_window_under_way(const pgasi_group_window_t *w)
{
    return (uint32_t)(w->pushed - w->acked);
}

/** Pieces that the replicas are ready to take, sent or not. */
static inline uint64_t pgasi_group_window_credits(const pgasi_group_window_t *w)
{
    uint64_t top = w->base + w->armed_min;
    return top > w->sent ? top - w->sent : 0;
}

/** Pieces that may be sent now. */
static inline uint32_t pgasi_group_window_sendable(const pgasi_group_window_t *w)
{
    uint64_t credits = pgasi_group_window_credits(w), waiting = w->pushed - w->sent;
    return (uint32_t)(credits < waiting ? credits : waiting);
}

/** Adds a piece; there must be room. The caller fills in the slot: piece, old, sync, is_last. */
pgasi_group_slot_t *pgasi_group_window_push(pgasi_group_window_t *w);

/** The next piece to send, with its number and skip_map; one must be sendable. */
pgasi_group_slot_t *pgasi_group_window_send(pgasi_group_window_t *w);

/** The words that the message of a piece must carry, because some replicas skip it; else NULL. */
static inline const uint64_t *pgasi_group_window_known(const pgasi_group_window_t *w,
                                                       const pgasi_group_slot_t *slot)
{
    return slot->piece.skip_map != 0 ? w->known[slot - w->slots] : NULL;
}

/** Replica i takes pieces below this number. Lower values than before change nothing. */
void pgasi_group_window_arm(pgasi_group_window_t *w, uint32_t i, uint64_t armed);

/** The oldest piece is complete on all replicas, which had these old words. The caller lowers
 *  slot->sync, if there is one. The slot's contents stay until the next push.
 *  @return NULL: no piece was sent, so the acknowledgement is wrong */
pgasi_group_slot_t *pgasi_group_window_ack(pgasi_group_window_t *w, const uint64_t *words);

/** Takes the counters of pieces under way, to report a failure; the pieces stay. *at is 0 at first.
 *  @return NULL: no more */
pgas_sync_t *pgasi_group_window_fail(pgasi_group_window_t *w, uint64_t *at);

/** A new list of n members: member j was member from[j] of the list before. A member that has been
 *  added names the one before it. Execute maps follow the new list. No replica is armed. All pieces
 *  wait to be sent. */
void pgasi_group_window_reform(pgasi_group_window_t *w, uint32_t n, const uint32_t *from);

/** Member i of the chain that is being formed has executed the pieces below `executed`, and no
 *  others. They count since the start of the client. words: its old words of the last n_words.
 *  @return PGAS_ERR_FORMAT     these counts are impossible; nothing has changed
 *          PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_group_window_opened(pgasi_group_window_t *w, uint32_t i, uint64_t executed,
                                        const uint64_t *words, uint32_t n_words);

#endif
