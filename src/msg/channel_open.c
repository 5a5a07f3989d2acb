/* Channels that the program opens ahead of the first call, and closes. */
#include "msg/send.h"

#include "base/info_fill.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/thread.h"
#include "pgas/rma.h"

/* Locks the calling thread's context and gives the destination, which may not be in use yet. */
static pgas_status_t own_channel(pgas_target_t target, pgasi_sendq_t **sq_p, int *dest_p)
{
    int rank = target.rank, ep = target.slot < 0 ? -1 : pgasi_ep_of_slot(target.slot);
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (target.slot >= 0 && (uint32_t)rank >= (uint32_t)pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (ep < 0)
        return target.slot < 0 ? PGAS_ERR_UNSUPPORTED : PGAS_ERR_LIMIT;
    *dest_p = ep * pgasi_boot.n_ranks + rank;
    pgasi_ctx_lock(pgasi_self.ctx);
    status = pgasi_sendq_of(pgasi_self.ctx, sq_p);
    if (status != PGAS_OK)
        pgasi_ctx_unlock(pgasi_self.ctx);
    return status;
}

/* Asks for a channel, waits for the answer, and joins if nothing waits before that; otherwise the
 * next call joins. The caller holds the context's lock; the function releases it while it waits. */
static pgas_status_t open_far(pgasi_sendq_t *sq, out_t *out, int dest)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    bool asked = false;
    while ((!(asked = asked || pgasi_far_channel_ask(sq, out)) ||
            pgasi_far_channel_state(out) == FAR_ASKED) &&
           !pgasi_boot_is_dead(out->rank)) {
        pgasi_ctx_unlock(sq->ctx);
        pgasi_wait_step(&w);
        pgasi_ctx_lock(sq->ctx);
    }
    pgasi_ctx_unlock(sq->ctx);
    pgasi_wait_end(&w);
    pgasi_ctx_lock(sq->ctx);
    if (is_granted(out) && !out->waiting && !out->batch && !out->begun)
        pgasi_far_channel_join(sq, out, dest);
    return pgasi_boot_is_dead(out->rank) ? PGAS_ERR_PEER : PGAS_OK;
}

pgas_status_t pgas_channel_open(pgas_target_t target)
{
    pgasi_sendq_t *sq;
    int dest;
    pgas_status_t status = own_channel(target, &sq, &dest);
    if (status != PGAS_OK)
        return status;
    out_t *out = out_of(sq, dest);
    if (out->kind == OUT_FAR)
        status = pgasi_ctx_open(sq->ctx);
    if (status == PGAS_OK && out->kind == OUT_FAR)
        status = open_far(sq, out, dest);
    pgasi_ctx_unlock(sq->ctx);
    return status;
}

static bool has_chunks(const out_t *out)
{
    return out->kind == OUT_NODE || out->kind == OUT_PUT;
}

/* Gives back all chunks beyond the first, but the current one; the receiver has reached the tail.
 * False: some could not be given back yet. */
static bool give_back(out_t *out)
{
    bool all = true;
    uint32_t first = out->channel.first, end = first + out->channel.n_first;
    int n = 0, current = out->current;
    for (int i = 0; i < out->n_chunks; i++) {
        chunk_t c = out->chunks[i];
        bool stays = i == current || (c.number >= first && c.number < end);
        if (!stays)
            all &= !(stays = !out->source->shrink(out, c.number));
        if (i == current)
            out->current = n;
        if (stays)
            out->chunks[n++] = c;
    }
    out->n_chunks = n;
    return all;
}

pgas_status_t pgas_channel_close(pgas_target_t target)
{
    pgasi_sendq_t *sq;
    int dest;
    pgas_status_t status = own_channel(target, &sq, &dest);
    if (status != PGAS_OK)
        return status;
    out_t *out = out_of(sq, dest);
    if (out->begun)
        status = PGAS_ERR_BUSY;
    else
        status = pgasi_sendq_flush(sq, dest);
    /* a chunk that was prepared and not used is not written later */
    if (status == PGAS_OK && out->kind == OUT_PUT) {
        pgasi_ctx_unlock(sq->ctx);
        status = pgas_flush(out->rank);
        pgasi_ctx_lock(sq->ctx);
    }
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (status == PGAS_OK && has_chunks(out) &&
           (out->source->head(out) < pgasi_channel_handed_over(out) || !give_back(out))) {
        pgasi_ctx_unlock(sq->ctx);
        pgasi_wait_step(&w);
        pgasi_ctx_lock(sq->ctx);
        if (pgasi_boot_is_dead(out->rank))
            status = PGAS_ERR_PEER;
    }
    pgasi_ctx_unlock(sq->ctx);
    pgasi_wait_end(&w);
    return status;
}

pgas_status_t pgas_channel_info(pgas_target_t target, pgas_channel_info_t *info_p)
{
    pgasi_sendq_t *sq;
    int dest;
    pgas_status_t status = own_channel(target, &sq, &dest);
    if (status != PGAS_OK)
        return status;
    out_t *out = &sq->out[dest];
    pgas_channel_info_t info = { .open = out->kind != OUT_UNKNOWN,
                                 .stores = out->kind == OUT_NODE,
                                 .puts = out->kind == OUT_PUT };
    if (has_chunks(out)) {
        info.chunk_bytes = pgasi_chunk_bytes;
        info.n_chunks = out->n_chunks;
        info.sent = pgasi_channel_handed_over(out);
        info.consumed = out->source->head(out);
    }
    pgasi_ctx_unlock(sq->ctx);
    return pgasi_info_fill(info_p, &info, sizeof info);
}
