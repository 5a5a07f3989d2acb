/* Answers: completions and replies that the token of a call requests. This file also sends calls
 * that request a reply. */
#include "call/sync.h"

#include "call/notify.h"
#include "call/token.h"
#include "mem/thread.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"

static __thread pgasi_call_t current __attribute__((tls_model("initial-exec")));

static inline void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static pgas_status_t answer(const pgasi_call_t *c, pgas_status_t status, const void *data,
                            size_t bytes)
{
    pgasi_desc_ack_t ack = { pgasi_wire_token(c->wire), (int16_t)status, (uint16_t)c->handler };
    int rank = pgas_thread_rank(c->source);
    count(&pgasi_sync_stats.n_answers);
    if (pgasi_wire_wants_reply(c->wire))
        return pgasi_sendq_answer(rank, PGASI_DESC_REPLY, &ack, sizeof ack, data, bytes);
    if (c->wire & PGASI_WIRE_ARRIVED)
        return pgasi_sendq_answer_now(rank, PGASI_DESC_ACK, &ack, sizeof ack);
    return pgasi_sendq_answer(rank, PGASI_DESC_ACK, &ack, sizeof ack, NULL, 0);
}

static void complete(const pgasi_call_t *c, pgas_status_t status)
{
    if (c->wire & PGASI_WIRE_WRITE &&
        pgasi_notify_write(pgas_thread_rank(c->source), pgasi_wire_token(c->wire), status,
                           c->handler))
        count(&pgasi_sync_stats.n_written);
    else
        answer(c, status, NULL, 0);
}

uint64_t pgasi_call_arrived(pgas_thread_t source, uint32_t handler, uint64_t wire)
{
    bool known = pgasi_handler_known((pgas_handler_t)handler);
    if (PGAS_LIKELY(!(wire & PGASI_WIRE_ARRIVED)) || !known)
        return wire;
    pgasi_call_t c = { wire, source, handler, 0, true, false };
    complete(&c, PGAS_OK);
    return 0;
}

pgasi_call_t pgasi_call_begin(pgas_thread_t source, uint32_t handler, uint64_t wire)
{
    pgasi_call_t before = current;
    wire = pgasi_call_arrived(source, handler, wire);
    current = (pgasi_call_t){ wire, source, handler, pgasi_self.in_handler, true, false };
    return before;
}

void pgasi_call_end(pgasi_call_t before, pgas_status_t status)
{
    pgasi_call_t c = current;
    current = before;
    if (!c.wire)
        return;
    if (!pgasi_wire_wants_reply(c.wire))
        complete(&c, status);
    else if (!c.replied)
        answer(&c, status == PGAS_OK ? PGAS_ERR_MISMATCH : status, NULL, 0);
}

pgasi_call_t *pgasi_call_at_hand(void)
{
    return current.running && current.depth == pgasi_self.in_handler ? &current : NULL;
}

pgas_status_t pgasi_reply(const void *data, size_t bytes)
{
    pgasi_call_t *c = pgasi_call_at_hand();
    if (!c || !pgasi_wire_wants_reply(c->wire) || c->replied)
        return PGAS_OK;
    c->replied = true;
    pgasi_call_t copy = *c; /* Waiting for room may run other calls. */
    return answer(&copy, PGAS_OK, data, bytes);
}

/* ---- calls with a reply ---- */

pgas_status_t pgasi_ask_nb(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                           size_t reply_bytes, pgas_sync_t *sync)
{
    uint32_t token;
    pgas_status_t status = pgasi_token_take_for(sync, rank, handler, reply, reply_bytes, &token);
    if (status != PGAS_OK)
        return status;
    uint64_t wire = pgasi_wire_of_reply(token, reply_bytes);
    status = pgasi_sendq_call(rank, handler, args, bytes, &wire, PGAS_FULL_WAIT);
    if (status != PGAS_OK && !pgasi_token_give(token))
        return PGAS_OK; /* The rank's death has decremented the counter meanwhile. */
    return status;
}

pgas_status_t pgasi_ask(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                        size_t reply_bytes)
{
    pgas_sync_t sync = { 1, PGAS_OK, 0 };
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK)
        status = pgasi_ask_nb(rank, handler, args, bytes, reply, reply_bytes, &sync);
    return status == PGAS_OK ? pgas_sync_wait(&sync, -1) : status;
}
