/* Pieces under way. The usual window has 64 pieces of 128 bytes; a piece costs one slot to fill in
 * and one to read, and no allocation. The old words of skipped pieces are kept beside the slots,
 * because only clients that have re-formed a chain need them. */
#include "group/window.h"

#include <stdlib.h>
#include <string.h>
#include "base/checks.h"

pgas_status_t pgasi_group_window_init(pgasi_group_window_t *w, uint32_t size, uint32_t n)
{
    uint32_t n_slots = pgasi_pow2_up(size);
    *w = (pgasi_group_window_t){ .mask = n_slots - 1, .size = size, .n = n };
    w->slots = calloc(n_slots, sizeof *w->slots);
    return w->slots != NULL ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_group_window_fini(pgasi_group_window_t *w)
{
    free(w->slots);
    free(w->known);
    *w = (pgasi_group_window_t){ .slots = NULL };
}

pgasi_group_slot_t *pgasi_group_window_push(pgasi_group_window_t *w)
{
    PGASI_ASSERT(pgasi_group_window_room(w) > 0);
    pgasi_group_slot_t *slot = pgasi_group_window_slot(w, w->pushed++);
    *slot = (pgasi_group_slot_t){ .n_old = w->n };
    return slot;
}

pgasi_group_slot_t *pgasi_group_window_send(pgasi_group_window_t *w)
{
    PGASI_ASSERT(pgasi_group_window_sendable(w) > 0);
    pgasi_group_slot_t *slot = pgasi_group_window_slot(w, w->sent);
    slot->piece.number = w->sent - w->base;
    slot->piece.skip_map = slot->done_map;
    w->sent++;
    return slot;
}

void pgasi_group_window_arm(pgasi_group_window_t *w, uint32_t i, uint64_t armed)
{
    if (armed <= w->armed[i])
        return;
    w->armed[i] = armed;
    uint64_t least = armed;
    for (uint32_t j = 0; j < w->n; j++)
        least = PGASI_MIN(least, w->armed[j]);
    w->armed_min = least;
}

pgasi_group_slot_t *pgasi_group_window_ack(pgasi_group_window_t *w, const uint64_t *words)
{
    if (w->acked == w->sent)
        return NULL;
    pgasi_group_slot_t *slot = pgasi_group_window_slot(w, w->acked);
    if (slot->old != NULL)
        memcpy(slot->old, words, PGASI_MIN(w->n, slot->n_old) * sizeof *words);
    w->acked++;
    return slot;
}

pgas_sync_t *pgasi_group_window_fail(pgasi_group_window_t *w, uint64_t *at)
{
    for (*at = PGASI_MAX(*at, w->acked); *at < w->pushed;) {
        pgasi_group_slot_t *slot = pgasi_group_window_slot(w, (*at)++);
        pgas_sync_t *sync = slot->sync;
        slot->sync = NULL;
        if (sync != NULL)
            return sync;
    }
    return NULL;
}

/* ---- a new chain ---- */

static uint64_t map_of(uint64_t map, uint32_t n, const uint32_t *from)
{
    uint64_t result = 0;
    for (uint32_t j = 0; j < n; j++)
        result |= (map >> from[j] & 1) << j;
    return result;
}

void pgasi_group_window_reform(pgasi_group_window_t *w, uint32_t n, const uint32_t *from)
{
    for (uint64_t count = w->acked; count < w->pushed; count++) {
        pgasi_group_slot_t *slot = pgasi_group_window_slot(w, count);
        slot->done_map = 0;
        slot->piece.execute_map = map_of(slot->piece.execute_map, n, from);
    }
    w->n = n;
    w->base = w->sent = w->acked;
    w->armed_min = 0;
    memset(w->armed, 0, sizeof w->armed);
}

pgas_status_t pgasi_group_window_opened(pgasi_group_window_t *w, uint32_t i, uint64_t executed,
                                        const uint64_t *words, uint32_t n_words)
{
    if (i >= w->n || executed < w->acked || executed > w->pushed || n_words < executed - w->acked)
        return PGAS_ERR_FORMAT;
    if (w->known == NULL && executed > w->acked)
        w->known = calloc((size_t)w->mask + 1, sizeof *w->known);
    if (w->known == NULL && executed > w->acked)
        return PGAS_ERR_NO_MEMORY;
    for (uint64_t count = w->acked; count < executed; count++) {
        pgasi_group_window_slot(w, count)->done_map |= UINT64_C(1) << i;
        w->known[count & w->mask][i] = words[n_words - (executed - count)];
    }
    return PGAS_OK;
}
