/* Calls to and from other nodes: active messages of the sender's context to the peer's context 0,
 * with the descriptors that a channel would hold, behind a header that tells the job and the
 * endpoint.
 *
 * A batch is sent from the buffer in which it was gathered. A call by itself is written into a
 * spare buffer, which is used up only if the transport keeps it. What arrives for any thread of the
 * rank runs at once, where it lies if it is aligned; what is for an endpoint of its own is kept in
 * order until that is drained. */
#include "msg/send.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/ctx.h"

uint64_t pgasi_far_consumed;
static char *far_scratch; /* for data that arrives misaligned */
static size_t far_scratch_bytes;
static uint64_t *stops; /* by destination: the number of the last word about it, lowest bit: stop */

void pgasi_far_left(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    buffer_t *buffer = PGASI_CONTAINER_OF(comp, buffer_t, comp);
    (void)status; /* a lost peer is reported by the transport's error function */
    pgasi_ctx_count(buffer->sendq->ctx, -1);
    buffer_drop(buffer);
}

/* What is for any thread of the rank has a header of one word. */
static inline size_t far_header(int ep, size_t bytes, uint32_t header[2])
{
    header[0] = pgasi_far_mark(pgasi_boot.rank, bytes);
    header[1] = (uint32_t)ep;
    return ep == PGASI_EP_ANY ? sizeof header[0] : 2 * sizeof header[0];
}

/* One message. PGAS_INPROGRESS: the transport keeps the buffer until pgasi_far_left, which progress
 * calls, not this. */
static inline pgas_status_t send_message(pgasi_sendq_t *sq, out_t *out, int ep, buffer_t *buffer,
                                         size_t bytes)
{
    pgasi_tp_ctx_t *tp = sq->ctx->tp;
    uint32_t header[2];
    size_t header_bytes = far_header(ep, bytes, header);
    buffer->n_uses = 1;
    /* before it can arrive, as in show() */
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
        status = send_message(sq, out, ep, buffer, buffer->used);
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

/* ---- sending ---- */

/* After ask_at messages a sender asks for a channel. A message that ended with PGAS_ERR_AGAIN does
 * not count. */
static inline void count_message(pgasi_sendq_t *sq, out_t *out, pgas_status_t status)
{
    if (status != PGAS_ERR_AGAIN && PGAS_UNLIKELY(++out->n_messages == out->ask_at))
        pgasi_far_channel_ask(sq, out);
}

pgas_status_t pgasi_far_publish(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer)
{
    if (out->kind == OUT_PUT)
        return pgasi_far_channel_put(sq, out, buffer, buffer->used, true);
    if (PGAS_UNLIKELY(out->ep && pgasi_far_is_stopped(sq, out)))
        return PGAS_ERR_AGAIN;
    pgas_status_t status = pgasi_far_message(sq, out, out->ep, buffer);
    count_message(sq, out, status);
    return status;
}

pgas_status_t pgasi_far_send(pgasi_sendq_t *sq, out_t *out, buffer_t *buffer, size_t bytes)
{
    if (out->kind == OUT_PUT) {
        sq->free_buffers = buffer->next;
        pgas_status_t put = pgasi_far_channel_put(sq, out, buffer, bytes, false);
        if (put == PGAS_ERR_AGAIN)
            buffer_release(buffer);
        return put;
    }
    pgas_status_t status = send_message(sq, out, out->ep, buffer, bytes);
    if (status == PGAS_INPROGRESS) {
        sq->free_buffers = buffer->next;
        status = PGAS_OK;
    }
    count_message(sq, out, status);
    return status;
}

/* ---- arriving ---- */

static size_t stops_bytes(void)
{
    return (PGASI_EP_FIRST_THREAD + (size_t)pgasi_param.ctxs) * (size_t)pgasi_boot.n_ranks *
           sizeof *stops;
}

pgas_status_t pgasi_far_start(void)
{
    pgasi_far_consumed = 0;
    far_scratch_bytes = pgasi_far_message_max();
    far_scratch = malloc(far_scratch_bytes);
    stops = pgasi_lazy_alloc(stops_bytes());
    return far_scratch && stops ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_far_stop(void)
{
    free(far_scratch);
    far_scratch = NULL;
    if (stops)
        pgasi_lazy_free(stops, stops_bytes());
    stops = NULL;
}

/* A single call is a few words. */
static inline void copy_words(char *to, const char *from, size_t bytes)
{
    if (PGAS_LIKELY(bytes <= 32 && bytes % 8 == 0))
        for (size_t i = 0; i < bytes; i += 8)
            memcpy(to + i, from + i, 8);
    else
        memcpy(to, from, bytes);
}

/* The endpoint that a message is for; -1: it is malformed, not of this job, or comes when the job
 * is over. */
static inline int ep_of_message(const pgasi_tp_am_t *am)
{
    uint32_t header[2] = { 0, PGASI_EP_ANY };
    bool sane = pgasi_running &&
                (am->header_bytes == sizeof header[0] || am->header_bytes == sizeof header) &&
                am->data_bytes <= far_scratch_bytes &&
                (uint32_t)am->source < (uint32_t)pgasi_boot.n_ranks;
    if (PGAS_UNLIKELY(!sane))
        return -1;
    memcpy(header, am->header, am->header_bytes);
    sane = header[0] == pgasi_far_mark(am->source, am->data_bytes) &&
           header[1] < (uint32_t)pgasi_n_eps;
    return sane ? (int)header[1] : -1;
}

bool pgasi_far_arrived(void *arg, const pgasi_tp_am_t *am)
{
    (void)arg;
    int ep = ep_of_message(am);
    if (PGAS_UNLIKELY(ep < 0)) {
        if (pgasi_first_dropped())
            PGASI_ERROR("call", "a message of %zu bytes %s: dropped", am->data_bytes,
                        pgasi_running ? "without this job's key, or malformed"
                                      : "that came after the end of the job");
        return false;
    }
    if (PGAS_UNLIKELY(ep != PGASI_EP_ANY)) {
        if (pgasi_ep_put(ep, am->source, am->data, am->data_bytes) != PGAS_OK)
            pgasi_fatal("call", "no memory for a message of %zu bytes", am->data_bytes);
        pgasi_wake(pgasi_boot.node_rank);
        if (ep == PGASI_EP_SERVICE)
            pgasi_wake_service(pgasi_boot.node_rank);
        return false;
    }
    const char *descs = am->data;
    if ((uintptr_t)descs % 8) {
        copy_words(far_scratch, descs, am->data_bytes);
        descs = far_scratch;
    }
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_descs_run(descs, am->data_bytes, am->source);
    pgasi_handlers_leave(before);
    __atomic_store_n(&pgasi_far_consumed, pgasi_far_consumed + am->data_bytes, __ATOMIC_RELEASE);
    return false;
}
