/* Messages to other nodes: active messages of the sender's context to the peer's context 0. A
 * message has the descriptors that a channel would hold, behind a header with the job's key and the
 * endpoint.
 *
 * A batch is sent from the buffer that gathered it. A single call is written into a spare buffer,
 * which is used up only if the transport keeps it. */
#include "msg/send.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/ctx.h"

static uint64_t *stops; /* by destination: the number of the last stop or go; lowest bit: stop */

/* The header of a message for any thread of the rank is one word. */
static inline size_t far_header(int ep, size_t bytes, uint32_t header[2])
{
    header[0] = pgasi_far_mark(pgasi_boot.rank, bytes);
    header[1] = (uint32_t)ep;
    return ep == PGASI_EP_ANY ? sizeof header[0] : 2 * sizeof header[0];
}

/* PGAS_INPROGRESS: the transport keeps the buffer until its completion function runs, in
 * progress. */
pgas_status_t pgasi_far_send_message(pgasi_sendq_t *sq, out_t *out, int ep, buffer_t *buffer,
                                     size_t bytes)
{
    pgasi_tp_ctx_t *tp = sq->ctx->tp;
    uint32_t header[2];
    size_t header_bytes = far_header(ep, bytes, header);
    buffer->n_uses = 1;
    /* before it can arrive, as in make_valid() */
    __atomic_store_n(&sq->far_sent, sq->far_sent + bytes, __ATOMIC_RELAXED);
    pgas_status_t status =
        tp->ops->am(tp, out->rank, header, header_bytes, buffer->data, bytes, &buffer->comp);
    if (PGAS_UNLIKELY(status < PGAS_OK)) {
        __atomic_store_n(&sq->far_sent, sq->far_sent - bytes, __ATOMIC_RELAXED);
        return status;
    }
    sq->stats.n_far++;
    if (status == PGAS_INPROGRESS) {
        pgasi_ctx_count(sq->ctx, 1);
        count_issued(sq, out);
    }
    return status;
}

pgas_status_t pgasi_far_message(pgasi_sendq_t *sq, out_t *out, int ep, buffer_t *buffer)
{
    pgas_status_t status = pgasi_ctx_open(sq->ctx);
    if (status == PGAS_OK) {
        status = pgasi_far_send_message(sq, out, ep, buffer, buffer->used);
        if (status == PGAS_OK)
            count_issued(sq, out);
    }
    if (status == PGAS_ERR_AGAIN)
        return status;
    if (status == PGAS_INPROGRESS)
        return PGAS_OK;
    buffer_release(buffer);
    return status;
}

pgas_status_t pgasi_far_send_data(int rank, const pgasi_far_head_t *head, const void *data,
                                  size_t bytes, pgasi_tp_comp_t *comp)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    struct {
        uint32_t mark, kind;
        pgasi_far_head_t head;
    } header = { pgasi_far_mark(pgasi_boot.rank, bytes), PGASI_FAR_DATA, *head };
    pgas_status_t status =
        ctx->tp->ops->am(ctx->tp, rank, &header, sizeof header, data, bytes, comp);
    if (status == PGAS_INPROGRESS)
        pgasi_ctx_count(ctx, 1);
    return status;
}

/* ---- what waits for threads that stay away ---- */

void pgasi_far_set_stop(int ep, int rank, uint64_t number, bool stop)
{
    uint64_t *word = &stops[(size_t)ep * (size_t)pgasi_boot.n_ranks + (size_t)rank];
    uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED), said = number << 1 | stop;
    while (
        said >> 1 > old >> 1 &&
        !__atomic_compare_exchange_n(word, &old, said, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

bool pgasi_far_is_stopped(const pgasi_sendq_t *sq, const out_t *out)
{
    size_t dest = (size_t)out->ep * sq->n_ranks + (size_t)out->rank;
    return out->kind == OUT_FAR && __atomic_load_n(&stops[dest], __ATOMIC_RELAXED) & 1;
}

/* ---- start and stop ---- */

static size_t stops_bytes(void)
{
    return (PGASI_EP_FIRST_THREAD + (size_t)pgasi_param.ctxs) * (size_t)pgasi_boot.n_ranks *
           sizeof *stops;
}

pgas_status_t pgasi_far_start(void)
{
    stops = pgasi_lazy_alloc(stops_bytes());
    return stops ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_far_stop(void)
{
    if (stops)
        pgasi_lazy_free(stops, stops_bytes());
    stops = NULL;
}
