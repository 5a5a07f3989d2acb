/* Registered memory of a lane: buffers that unregistered data passes through, and slots for the
 * results of atomics. Buffers come back by the number of the request that used them last, in bulk
 * (todo.c): no event per buffer. Two sizes, in one allocation that is made with the lane's first
 * endpoint, for lane 0 with the lane: what has been taken on can be carried out. */
#include "verbs_backend/transport.h"

#include <stdlib.h>

static pgas_status_t make_buffers(pgasi_verbs_lane_t *lane)
{
    const uint32_t n = PGASI_VERBS_N_SMALL + PGASI_VERBS_N_LARGE;
    size_t bytes = (size_t)PGASI_VERBS_N_SMALL * PGASI_VERBS_SMALL +
                   (size_t)PGASI_VERBS_N_LARGE * lane->large_bytes;
    pgas_status_t status =
        pgas_verbs_mem_alloc(lane->tp->dev, bytes, PGAS_VERBS_LOCAL_WRITE, &lane->buffer_mem);
    if (status != PGAS_OK)
        return status;
    lane->buffers = calloc(n, sizeof lane->buffers[0]);
    if (!lane->buffers) {
        pgas_verbs_mem_release(lane->tp->dev, &lane->buffer_mem);
        return PGAS_ERR_NO_MEMORY;
    }
    char *at = lane->buffer_mem.addr;
    for (uint32_t i = 0; i < n; i++) {
        pgasi_verbs_buffer_t *buffer = &lane->buffers[i];
        buffer->is_large = i < PGASI_VERBS_N_LARGE;
        buffer->data = at;
        at += buffer->is_large ? lane->large_bytes : PGASI_VERBS_SMALL;
        pgasi_verbs_buffer_give(lane, buffer);
    }
    return PGAS_OK;
}

pgas_status_t pgasi_verbs_buffers_init(pgasi_verbs_lane_t *lane)
{
    pgas_status_t status = !lane->buffers ? make_buffers(lane) : PGAS_OK;
    if (status != PGAS_OK) {
        PGASI_ERROR("verbs",
                    "lane %d has no buffers: %s; it needs memory and a descriptor, see ulimit -n "
                    "and ulimit -l",
                    lane->index, pgas_status_text(status));
    }
    return status;
}

pgasi_verbs_buffer_t *pgasi_verbs_buffer_take(pgasi_verbs_lane_t *lane, size_t bytes)
{
    pgasi_verbs_buffer_t **list =
        bytes <= PGASI_VERBS_SMALL && lane->free_small ? &lane->free_small : &lane->free_large;
    pgasi_verbs_buffer_t *buffer = *list;
    if (buffer)
        *list = buffer->next;
    return buffer;
}

void pgasi_verbs_buffer_give(pgasi_verbs_lane_t *lane, pgasi_verbs_buffer_t *buffer)
{
    pgasi_verbs_buffer_t **list = buffer->is_large ? &lane->free_large : &lane->free_small;
    buffer->next = *list;
    *list = buffer;
}

void pgasi_verbs_buffers_fini(pgasi_verbs_lane_t *lane)
{
    pgas_verbs_mem_release(lane->tp->dev, &lane->buffer_mem);
    pgas_verbs_mem_release(lane->tp->dev, &lane->slot_mem);
    free(lane->buffers);
    free(lane->free_slots);
}

pgas_status_t pgasi_verbs_slots_init(pgasi_verbs_lane_t *lane)
{
    pgas_status_t status =
        pgas_verbs_mem_alloc(lane->tp->dev, PGASI_VERBS_SLOTS * sizeof lane->slots[0],
                             PGAS_VERBS_LOCAL_WRITE | PGAS_VERBS_REMOTE_WRITE, &lane->slot_mem);
    if (status != PGAS_OK)
        return status;
    lane->free_slots = malloc(PGASI_VERBS_SLOTS * sizeof lane->free_slots[0]);
    if (!lane->free_slots) {
        pgas_verbs_mem_release(lane->tp->dev, &lane->slot_mem);
        return PGAS_ERR_NO_MEMORY;
    }
    lane->slots = lane->slot_mem.addr;
    for (uint32_t i = PGASI_VERBS_SLOTS - 1; i > 0; i--)
        lane->free_slots[lane->n_free_slots++] = i;
    return PGAS_OK;
}

bool pgasi_verbs_slot_take(pgasi_verbs_lane_t *lane, uint32_t *slot_p)
{
    if (lane->n_free_slots == 0)
        return false;
    *slot_p = lane->free_slots[--lane->n_free_slots];
    lane->slots[*slot_p] = (pgasi_verbs_answer_t){ 0, 0 };
    return true;
}

void pgasi_verbs_slot_give(pgasi_verbs_lane_t *lane, uint32_t slot)
{
    lane->free_slots[lane->n_free_slots++] = slot;
}
