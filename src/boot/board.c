/* The rare parts of the board: waiting for a late member, and for a free slot.
 *
 * Shaped for ranks with cores of their own, where a message arrives 60 to 150 ns after it was
 * posted. A short run of plain loads comes before the first wait step, which polls the progress
 * hook and costs more than one arrival. With more ranks than cores these loads would only delay the
 * thread that is waited for, so there are none. */
#include "boot/board.h"

#include <string.h>

#include "boot/boot.h"

#define LOOKS 100

void pgasi_board_init(pgasi_board_t *board, void *memory, int n, int me, int *wakeup_of)
{
    memset(board, 0, sizeof *board);
    board->n = n;
    board->me = me;
    board->messages = memory;
    board->wakeup_of = wakeup_of;
    if (!memory) /* a single member has none */
        return;
    size_t n_slots = (size_t)n * PGASI_BOARD_DEPTH;
    board->areas = (unsigned char *)memory + n_slots * sizeof(pgasi_board_message_t);
    board->own = board->areas + n_slots * PGASI_BOARD_AREA + (size_t)me * pgasi_board_own_bytes(n);
    board->offers = (pgasi_offer_t *)(void *)(board->own + 2 * PGASI_BOARD_OWN);
}

static bool arrived(const uint64_t *word, uint64_t step)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) >= step;
}

bool pgasi_board_wait_slow(pgasi_board_t *board, const uint64_t *word, uint64_t step)
{
    if (!pgasi_boot.oversubscribed) {
        for (int i = 0; i < LOOKS; i++)
            if (arrived(word, step))
                return true;
    }
    pgasi_wait_t w = PGASI_WAIT_INIT;
    bool there;
    while (!(there = arrived(word, step))) {
        if (board->is_broken && board->is_broken(board->arg))
            break;
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return there;
}

/* Slot step % DEPTH was last used in step - DEPTH: all members must have entered the step after
 * that. */
bool pgasi_board_settle(pgasi_board_t *board)
{
    uint64_t needed = board->step - PGASI_BOARD_DEPTH + 1;
    for (int i = 0; i < board->n; i++) {
        const uint64_t *word =
            &board->messages[(size_t)i * PGASI_BOARD_DEPTH + needed % PGASI_BOARD_DEPTH].step;
        if (!arrived(word, needed) && !pgasi_board_wait_slow(board, word, needed))
            return false;
    }
    board->known = needed;
    return true;
}
