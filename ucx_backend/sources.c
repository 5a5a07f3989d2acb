/* Sources of active messages, one for each opening of each context of each peer, and the messages
 * that wait for their turn: a list for each source, sorted by number. */
#include "ucx_backend/am_recv.h"

#include <stdlib.h>
#include "base/log.h"

void pgasi_ucx_drop(pgasi_ucx_rx_t *rx, const char *why, uint32_t source)
{
    if (rx->n_dropped++ == 0) {
        PGASI_WARN(
            "ucx",
            "dropped a message that claims to come from rank %u: %s; further ones are only counted",
            source & ((1u << PGASI_UCX_RANK_BITS) - 1), why);
    }
}

static pgasi_ucx_source_t *add_source(pgasi_ucx_ctx_t *ctx, uint32_t rank, uint32_t index)
{
    pgasi_ucx_sender_t *sender = ctx->rx->senders[rank];
    uint32_t n_had = !sender ? 0 : sender->n_sources;
    if (index >= n_had) {
        uint32_t n = PGASI_MAX(index + 1, 2 * n_had);
        sender = realloc(sender, sizeof *sender + n * sizeof sender->sources[0]);
        if (!sender)
            return NULL;
        memset(&sender->sources[n_had], 0, (n - n_had) * sizeof sender->sources[0]);
        sender->n_sources = n;
        ctx->rx->senders[rank] = sender;
    }
    pgasi_ucx_source_t *source = calloc(1, sizeof *source);
    if (source) {
        source->ctx = ctx;
        source->rank = (int)rank;
        sender->sources[index] = source;
    }
    return source;
}

void pgasi_ucx_free_held(pgasi_ucx_ctx_t *ctx, pgasi_ucx_held_t *held, bool with_data)
{
    if (with_data && held->data) {
        if (held->ucx_data)
            pgasi_ucx_lib.ucp_am_data_release(ctx->worker, held->data);
        else
            pgasi_ucx_buffer_release(&ctx->rx->buffers, held->data);
    }
    pgasi_pool_release(&ctx->rx->held, held);
}

/* The first message of an opening has arrived. The opening before the last has ended, and its place
 * is used again. (A sender counts an opening only if it has sent a message to this rank, so none is
 * missed.) */
static void begin_opening(pgasi_ucx_sender_t *sender, uint32_t index)
{
    uint32_t over = index ^ (PGASI_UCX_OPENINGS / 2);
    sender->sources[index]->seen = true;
    pgasi_ucx_source_t *old = over < sender->n_sources ? sender->sources[over] : NULL;
    if (old && old->seen) {
        pgasi_ucx_ctx_t *ctx = old->ctx;
        for (pgasi_ucx_held_t *held = old->held, *next; held != NULL; held = next) {
            next = held->next;
            /* otherwise its data will arrive later, and is dropped then */
            if (held->complete) {
                pgasi_ucx_free_held(ctx, held, true);
            } else {
                held->skip = true;
                held->source = NULL;
            }
        }
        *old = (pgasi_ucx_source_t){ .ctx = ctx, .rank = old->rank };
    }
}

pgasi_ucx_source_t *pgasi_ucx_find_source(pgasi_ucx_ctx_t *ctx, uint32_t packed)
{
    uint32_t rank = packed & ((1u << PGASI_UCX_RANK_BITS) - 1);
    uint32_t index = packed >> PGASI_UCX_RANK_BITS;
    if (rank >= (uint32_t)ctx->tp->opts.n_ranks)
        return NULL;
    pgasi_ucx_sender_t *sender = ctx->rx->senders[rank];
    if (!sender || index >= sender->n_sources || !sender->sources[index]) {
        if (!add_source(ctx, rank, index))
            return NULL;
        sender = ctx->rx->senders[rank];
    }
    if (!sender->sources[index]->seen)
        begin_opening(sender, index);
    return sender->sources[index];
}

/* The message has arrived again while its data is still in flight on the lost connection. */
static void orphan(pgasi_ucx_held_t **at)
{
    pgasi_ucx_held_t *held = *at;
    *at = held->next;
    held->source = NULL;
    held->skip = true;
}

pgasi_ucx_held_t *pgasi_ucx_hold(pgasi_ucx_source_t *source, uint32_t number, const void *header,
                                 size_t header_bytes)
{
    pgasi_ucx_held_t **at = &source->held;
    while (*at && (int32_t)((*at)->number - number) < 0)
        at = &(*at)->next;
    if (*at && (*at)->number == number) {
        if ((*at)->complete || !pgasi_ucx_repeats(source->ctx))
            return NULL;
        orphan(at);
    }
    pgasi_ucx_held_t *held = pgasi_pool_acquire(&source->ctx->rx->held);
    if (held) {
        memset(held, 0, sizeof *held);
        held->ctx = source->ctx;
        held->source = source;
        held->number = number;
        held->header_bytes = header_bytes;
        memcpy(held->header, header, header_bytes);
        held->next = *at;
        *at = held;
    }
    return held;
}
