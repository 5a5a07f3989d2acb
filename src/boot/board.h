/** A board in the memory of a node, through which the members of a team that share memory exchange
 *  messages.
 *
 *  Work proceeds in steps, which all members number alike. In each step every member posts one
 *  message (perhaps empty), and a member that needs a message waits for it. A message up to
 *  PGASI_BOARD_INLINE bytes travels in the cache line of its number; a larger one, up to
 *  PGASI_BOARD_AREA, is in an area beside it. Each member has PGASI_BOARD_DEPTH slots for messages
 *  and uses them in turn. begin() returns a slot for writing only after every member has posted a
 *  step that it enters after its last use of the slot's contents. So a post of step s says: this
 *  member has finished all steps before s. An empty message leaves the slot's contents unchanged
 *  and does not wait.
 *
 *      void *out = pgasi_board_begin(board, bytes);   write the message there; or pgasi_board_pass
 *      pgasi_board_post(board);                       then wake the members that may wait for it
 *      const void *in = pgasi_board_wait(board, member, bytes);   NULL: a member died
 *
 *  One thread per member uses it at a time. */
#ifndef PGASI_BOARD_H
#define PGASI_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/checks.h"
#include "boot/wait.h"

#define PGASI_BOARD_DEPTH  8
#define PGASI_BOARD_INLINE 56
#define PGASI_BOARD_AREA   ((size_t)32 << 10)
/* the size of the two areas that only the member itself uses */
#define PGASI_BOARD_OWN ((size_t)256 << 10)

typedef struct {
    _Alignas(PGASI_CACHELINE) uint64_t step;
    unsigned char data[PGASI_BOARD_INLINE];
} pgasi_board_message_t;

/* The addresses of a member's buffers in its own process. */
typedef struct {
    const void *src, *dst;
} pgasi_offer_t;

typedef struct pgasi_board {
    int n, me;
    uint64_t step; /* the last step that began */
    /* all members are known to have posted this step or a later one */
    uint64_t known;
    pgasi_board_message_t *messages; /* [n][DEPTH] */
    unsigned char *areas;            /* [n][DEPTH][AREA] */
    int *wakeup_of;                  /* [n] node rank of each member */
    bool (*is_broken)(void *arg);
    void *arg;
    /* large data (coll_direct.c) */
    const pid_t *pids;     /* by node rank; NULL: members cannot read each other's memory */
    unsigned char *own;    /* [2][OWN] */
    pgasi_offer_t *offers; /* [n] */
    pgas_status_t failure; /* why the last transfer between buffers failed */
} pgasi_board_t;

/* two areas, n offers and a mark (coll_direct.c) of each member, in whole pages */
static inline size_t pgasi_board_own_bytes(int n)
{
    return PGASI_ALIGN_UP(2 * PGASI_BOARD_OWN + (size_t)(n + 1) * sizeof(pgasi_offer_t),
                          (size_t)4096);
}

static inline size_t pgasi_board_bytes(int n)
{
    return (size_t)n * (PGASI_BOARD_DEPTH * (sizeof(pgasi_board_message_t) + PGASI_BOARD_AREA) +
                        pgasi_board_own_bytes(n));
}

/** Places the board in zeroed shared memory of pgasi_board_bytes(n). */
void pgasi_board_init(pgasi_board_t *board, void *memory, int n, int me, int *wakeup_of);

bool pgasi_board_settle(pgasi_board_t *board);
bool pgasi_board_wait_slow(pgasi_board_t *board, const uint64_t *word, uint64_t step);

static inline size_t pgasi_board_slot(const pgasi_board_t *board, int member)
{
    return (size_t)member * PGASI_BOARD_DEPTH + board->step % PGASI_BOARD_DEPTH;
}

static inline void *pgasi_board_place(const pgasi_board_t *board, int member, size_t bytes)
{
    size_t slot = pgasi_board_slot(board, member);
    return bytes <= PGASI_BOARD_INLINE ? board->messages[slot].data
                                       : board->areas + slot * PGASI_BOARD_AREA;
}

/** Begins the next step. @return the address for the own message of this size; NULL: a member
 *  died */
static inline void *pgasi_board_begin(pgasi_board_t *board, size_t bytes)
{
    board->step++;
    if (PGAS_UNLIKELY(board->known + PGASI_BOARD_DEPTH <= board->step) &&
        !pgasi_board_settle(board))
        return NULL;
    return pgasi_board_place(board, board->me, bytes);
}

/** Begins the next step with an empty message. */
static inline void pgasi_board_pass(pgasi_board_t *board)
{
    board->step++;
}

static inline void pgasi_board_post(pgasi_board_t *board)
{
    __atomic_store_n(&board->messages[pgasi_board_slot(board, board->me)].step, board->step,
                     __ATOMIC_RELEASE);
}

static inline const void *pgasi_board_wait(pgasi_board_t *board, int member, size_t bytes)
{
    const uint64_t *word = &board->messages[pgasi_board_slot(board, member)].step;
    if (PGAS_UNLIKELY(__atomic_load_n(word, __ATOMIC_ACQUIRE) < board->step) &&
        !pgasi_board_wait_slow(board, word, board->step))
        return NULL;
    return pgasi_board_place(board, member, bytes);
}

/** Wakes a member that sleeps. Its service thread may continue to sleep, because it has no part in
 *  collectives. */
static inline void pgasi_board_ring(const pgasi_board_t *board, int member)
{
    const pgasi_wakeup_t *wakeup = pgasi_wakeups[board->wakeup_of[member]];
    if (PGAS_UNLIKELY(__atomic_load_n(&wakeup->sleepers, __ATOMIC_RELAXED) &
                      (PGASI_WAKEUP_SERVICE - 1)))
        pgasi_wake_threads(board->wakeup_of[member]);
}

/** Orders the post before the read of wakeup flags; called once before several wakeups. */
static inline void pgasi_board_ring_begin(void)
{
    if (PGAS_UNLIKELY(pgasi_wait_light_is_fence))
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    else
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

#endif
