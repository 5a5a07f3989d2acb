/* Registered memory of a context: bounce buffers for unregistered data, and slots for results of
 * atomics. A buffer becomes free when the request that used it last is done. Requests that are done
 * free their buffers in bulk (pending.c), without an event for each. Buffers have two sizes. One
 * allocation holds them; the first endpoint makes it, for context 0 the context. So every accepted
 * operation finds buffers. */
#include "verbs_backend/transport/inside.h"

#include <stdlib.h>

#define BUFFER_ACCESS PGAS_VERBS_LOCAL_WRITE
#define SLOT_ACCESS   (PGAS_VERBS_LOCAL_WRITE | PGAS_VERBS_REMOTE_WRITE)

static pgas_status_t make_buffers(pgasi_verbs_ctx_t *ctx)
{
    const uint32_t n = PGASI_VERBS_N_SMALL + PGASI_VERBS_N_LARGE;
    size_t bytes = (size_t)PGASI_VERBS_N_SMALL * PGASI_VERBS_SMALL +
                   (size_t)PGASI_VERBS_N_LARGE * ctx->large_bytes;
    pgas_status_t status =
        pgas_verbs_mem_register(ctx->tp->dev, NULL, bytes, BUFFER_ACCESS, &ctx->buffer_mem[0]);
    if (status != PGAS_OK)
        return status;
    ctx->buffers = calloc(n, sizeof ctx->buffers[0]);
    if (!ctx->buffers) {
        pgas_verbs_mem_release(ctx->tp->dev, &ctx->buffer_mem[0]);
        return PGAS_ERR_NO_MEMORY;
    }
    char *at = ctx->buffer_mem[0].addr;
    for (uint32_t i = 0; i < n; i++) {
        pgasi_verbs_buffer_t *buffer = &ctx->buffers[i];
        buffer->is_large = i < PGASI_VERBS_N_LARGE;
        buffer->data = at;
        at += buffer->is_large ? ctx->large_bytes : PGASI_VERBS_SMALL;
        pgasi_verbs_buffer_give(ctx, buffer);
    }
    return PGAS_OK;
}

pgas_status_t pgasi_verbs_buffers_init(pgasi_verbs_ctx_t *ctx)
{
    pgas_status_t status = !ctx->buffers ? make_buffers(ctx) : PGAS_OK;
    if (status != PGAS_OK) {
        PGASI_ERROR(
            "verbs",
            "context %d has no buffers: %s; it needs memory and a descriptor, see ulimit -n "
            "and ulimit -l",
            ctx->index, pgas_status_text(status));
    }
    return status;
}

pgas_status_t pgasi_verbs_buffers_join(pgasi_verbs_ctx_t *ctx, int rail)
{
    pgas_status_t status = pgasi_verbs_buffers_init(ctx);
    if (status == PGAS_OK)
        status = pgasi_verbs_mem_join(ctx->tp, ctx->buffer_mem, rail, BUFFER_ACCESS);
    return status == PGAS_OK ? pgasi_verbs_mem_join(ctx->tp, ctx->slot_mem, rail, SLOT_ACCESS)
                             : status;
}

pgasi_verbs_buffer_t *pgasi_verbs_buffer_take(pgasi_verbs_ctx_t *ctx, size_t bytes)
{
    pgasi_verbs_buffer_t **list =
        bytes <= PGASI_VERBS_SMALL && ctx->free_small ? &ctx->free_small : &ctx->free_large;
    pgasi_verbs_buffer_t *buffer = *list;
    if (buffer)
        *list = buffer->next;
    return buffer;
}

void pgasi_verbs_buffer_give(pgasi_verbs_ctx_t *ctx, pgasi_verbs_buffer_t *buffer)
{
    pgasi_verbs_buffer_t **list = buffer->is_large ? &ctx->free_large : &ctx->free_small;
    buffer->next = *list;
    *list = buffer;
}

void pgasi_verbs_buffers_fini(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_mem_leave(ctx->tp, ctx->buffer_mem);
    pgasi_verbs_mem_leave(ctx->tp, ctx->slot_mem);
    free(ctx->buffers);
    free(ctx->free_slots);
}

pgas_status_t pgasi_verbs_slots_init(pgasi_verbs_ctx_t *ctx)
{
    pgas_status_t status =
        pgas_verbs_mem_register(ctx->tp->dev, NULL, PGASI_VERBS_SLOTS * sizeof ctx->slots[0],
                                SLOT_ACCESS, &ctx->slot_mem[0]);
    if (status != PGAS_OK)
        return status;
    ctx->free_slots = malloc(PGASI_VERBS_SLOTS * sizeof ctx->free_slots[0]);
    if (!ctx->free_slots) {
        pgas_verbs_mem_release(ctx->tp->dev, &ctx->slot_mem[0]);
        return PGAS_ERR_NO_MEMORY;
    }
    ctx->slots = ctx->slot_mem[0].addr;
    for (uint32_t i = PGASI_VERBS_SLOTS - 1; i > 0; i--)
        ctx->free_slots[ctx->n_free_slots++] = i;
    return PGAS_OK;
}

bool pgasi_verbs_slot_take(pgasi_verbs_ctx_t *ctx, uint32_t *slot_p)
{
    if (ctx->n_free_slots == 0)
        return false;
    *slot_p = ctx->free_slots[--ctx->n_free_slots];
    ctx->slots[*slot_p] = (pgasi_verbs_amo_reply_t){ 0, 0 };
    return true;
}

void pgasi_verbs_slot_give(pgasi_verbs_ctx_t *ctx, uint32_t slot)
{
    ctx->free_slots[ctx->n_free_slots++] = slot;
}
