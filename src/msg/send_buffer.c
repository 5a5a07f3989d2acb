/* Buffers of a send queue, and the list of destinations that progress continues.
 *
 * A send queue keeps up to PGASI_SENDQ_BUFFERS buffers. They are in registered memory if there are
 * other nodes, so that the transport need not copy. Larger ones, and those beyond the limit, come
 * from malloc. */
#include "msg/send.h"

#include <stdlib.h>

#include "base/log.h"
#include "boot/boot.h"

#define BUFFERS_MAX PGASI_SENDQ_BUFFERS
PGASI_STATIC_ASSERT(BUFFERS_MAX == 64, "one bit each in slots_taken");

uint32_t pgasi_sendq_shared_held;

size_t pgasi_send_publish_max(size_t chunk_bytes)
{
    return PGASI_MIN(pgasi_far_message_max() - 64, chunk_bytes / 2 - 64);
}

static size_t slot_bytes(size_t chunk_bytes)
{
    size_t largest = PGASI_MAX(pgasi_send_publish_max(chunk_bytes), pgasi_param.call_max) + 64;
    return PGASI_ALIGN_UP(sizeof(buffer_t) + largest + PGASI_BUFFER_SLACK, 64);
}

static void *slot_at(const pgasi_sendq_t *sq, int slot)
{
    return sq->slots + (size_t)slot * slot_bytes(pgasi_chunk_bytes);
}

static int take_slot(pgasi_sendq_t *sq, size_t bytes)
{
    if (!sq->slots || sq->slots_taken == UINT64_MAX || bytes > slot_bytes(pgasi_chunk_bytes))
        return -1;
    int slot = __builtin_ctzll(~sq->slots_taken);
    sq->slots_taken |= UINT64_C(1) << slot;
    return slot;
}

void pgasi_send_free_buffer(buffer_t *buffer)
{
    if (!buffer)
        return;
    if (buffer->slot >= 0)
        buffer->sendq->slots_taken &= ~(UINT64_C(1) << buffer->slot);
    else
        free(buffer);
}

static void buffer_has_left(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    buffer_t *buffer = PGASI_CONTAINER_OF(comp, buffer_t, comp);
    (void)status; /* the transport's error function reports a lost peer */
    pgasi_ctx_count(buffer->sendq->ctx, -1);
    buffer_drop(buffer);
}

buffer_t *pgasi_send_buffer(pgasi_sendq_t *sq, size_t room, bool beyond)
{
    bool pooled = room <= buffer_capacity(sq);
    buffer_t *buffer = pooled ? sq->free_buffers : NULL;
    if (buffer) {
        sq->free_buffers = buffer->next;
        return buffer;
    }
    if (pooled && sq->n_buffers >= sq->buffers_max) {
        if (!beyond)
            return NULL;
        pooled = false;
    }
    size_t capacity = PGASI_MAX(room, buffer_capacity(sq));
    size_t bytes = PGASI_ALIGN_UP(sizeof *buffer + capacity + PGASI_BUFFER_SLACK, 64);
    int slot = take_slot(sq, bytes);
    buffer = slot >= 0 ? slot_at(sq, slot) : aligned_alloc(64, bytes);
    if (!buffer)
        return NULL;
    buffer->slot = slot;
    buffer->capacity = capacity;
    sq->n_buffers += pooled;
    buffer->pooled = pooled;
    buffer->sendq = sq;
    buffer->comp = (pgasi_tp_comp_t){ .fn = buffer_has_left };
    return buffer;
}

size_t pgasi_sendq_pool_bytes(size_t chunk_bytes)
{
    return BUFFERS_MAX * slot_bytes(chunk_bytes);
}

void pgasi_send_check_lost(int rank, pgas_status_t status)
{
    if (status != PGAS_ERR_LIMIT && status != PGAS_ERR_NO_MEMORY && status != PGAS_ERR_TRANSPORT)
        return;
    if (pgasi_boot_is_dead(rank))
        return;
    PGASI_ERROR("call",
                "calls or answers that rank %d waits for cannot be sent (%s): ending the job", rank,
                pgas_status_text(status));
    pgasi_boot_abort(1);
}

/* ---- destinations that progress goes on with ---- */

void pgasi_send_set_held(pgasi_sendq_t *sq, int n)
{
    __atomic_store_n(&sq->n_held, n, __ATOMIC_RELEASE);
    if (sq->ctx->shared)
        __atomic_store_n(&pgasi_sendq_shared_held, (uint32_t)n, __ATOMIC_RELAXED);
}

void pgasi_send_hold(pgasi_sendq_t *sq, out_t *out)
{
    if (!out->held) {
        out->held = true;
        sq->held[sq->n_held] = out->ep * (int)sq->n_ranks + out->rank;
        pgasi_send_set_held(sq, sq->n_held + 1);
    }
}
