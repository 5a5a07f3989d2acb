/* Answers: completions and replies that the token of a call requests. This file also sends calls
 * that request a reply. */
#include "call/sync.h"

#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"

static __thread pgasi_call_t current __attribute__((tls_model("initial-exec")));

/* Completions without errors that the thread has not reported yet: n of one counter of a rank. */
static __thread struct {
    uint64_t wire; /* 0: none */
    int rank;
    uint32_t n;
} gathered __attribute__((tls_model("initial-exec")));

static inline void count(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

/* The answer to a call that wants a reply. */
static pgas_status_t answer(const pgasi_call_t *c, pgas_status_t status, const void *data,
                            size_t bytes)
{
    pgasi_desc_reply_t head = { pgasi_wire_token(c->wire), (int16_t)status, (uint16_t)c->handler };
    count(&pgasi_sync_stats.n_answers, 1);
    return pgasi_sendq_answer(pgas_thread_rank(c->source), PGASI_DESC_REPLY, &head, sizeof head,
                              data, bytes);
}

/* The counter that a token of a rank names, if this rank can write it; otherwise NULL. */
static inline pgas_sync_t *counter_there(int rank, uint64_t wire)
{
    pgasi_where_t where = PGASI_WHERE_FAR;
    void *address = NULL;
    pgas_gptr_t at = pgas_gptr_make(rank, wire & PGASI_WIRE_OFFSET);
    if (!(wire & PGASI_WIRE_HEAP) || pgasi_boot.local_of[rank] < 0 || at % sizeof(int64_t) != 0 ||
        pgasi_resolve(at, sizeof(pgas_sync_t), &where, &address) != PGAS_OK ||
        where != PGASI_WHERE_HERE)
        return NULL;
    return address;
}

/* Reports n completions of calls that named the same counter. */
static void complete(int rank, uint64_t wire, uint32_t handler, pgas_status_t status, uint32_t n)
{
    pgas_sync_t *sync = counter_there(rank, wire);
    if (sync) {
        if (PGAS_UNLIKELY(status != PGAS_OK))
            pgasi_sync_note(sync, pgasi_error_pack(status, pgasi_boot.rank, PGAS_OPERATION_CALL,
                                                   handler));
        if (__atomic_sub_fetch(&sync->count, n, __ATOMIC_ACQ_REL) <= 0)
            pgasi_wake(pgasi_boot.local_of[rank]);
        count(&pgasi_sync_stats.n_written, n);
        return;
    }
    pgasi_desc_ack_t ack = { wire & ~PGASI_WIRE_ARRIVED, status, status == PGAS_OK ? n : handler };
    size_t bytes = status == PGAS_OK && n == 1 ? sizeof ack.wire : sizeof ack;
    count(&pgasi_sync_stats.n_answers, n);
    if (wire & PGASI_WIRE_ARRIVED)
        pgasi_sendq_answer_now(rank, PGASI_DESC_ACK, &ack, bytes);
    else
        pgasi_sendq_answer(rank, PGASI_DESC_ACK, &ack, bytes, NULL, 0);
}

void pgasi_call_settle_completions(void)
{
    if (!gathered.wire)
        return;
    uint64_t wire = gathered.wire;
    gathered.wire = 0; /* waiting for room may run other calls */
    complete(gathered.rank, wire, 0, PGAS_OK, gathered.n);
}

/* A call whose caller waits for its completion has run. */
static inline void gather(int rank, uint64_t wire)
{
    if (PGAS_LIKELY(gathered.wire == wire && gathered.rank == rank)) {
        gathered.n++;
        return;
    }
    pgasi_call_settle_completions();
    gathered.wire = wire;
    gathered.rank = rank;
    gathered.n = 1;
}

uint64_t pgasi_call_arrived(pgas_thread_t source, uint32_t handler, uint64_t wire)
{
    bool known = pgasi_handler_known((pgas_handler_t)handler);
    if (PGAS_LIKELY(!(wire & PGASI_WIRE_ARRIVED)) || !known)
        return wire;
    complete(pgas_thread_rank(source), wire, handler, PGAS_OK, 1);
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
        complete(pgas_thread_rank(c.source), c.wire, c.handler, status, 1);
    else if (!c.replied)
        answer(&c, status == PGAS_OK ? PGAS_ERR_MISMATCH : status, NULL, 0);
}

/* The usual call with a counter: its caller waits for no reply. */
void pgasi_call_run_counted(const pgasi_handler_entry_t *e, uint32_t handler, const void *args,
                            size_t bytes, pgas_thread_t source, uint64_t wire)
{
    pgasi_call_t before = current;
    current.wire = wire;
    current.source = source;
    current.handler = handler;
    current.depth = pgasi_self.in_handler;
    current.running = true;
    current.replied = false;
    e->fn(args, bytes, source, e->context);
    wire = current.wire; /* 0: another thread ends the call */
    current = before;
    if (PGAS_LIKELY(wire))
        gather(pgas_thread_rank(source), wire);
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
    pgasi_sync_call_t c;
    pgasi_token_for_t call = { sync, rank, handler, reply, reply_bytes };
    pgas_status_t status = pgasi_sync_ask(&c, &call, PGASI_ISSUE_WAIT);
    if (status != PGAS_OK)
        return status;
    status = pgasi_sendq_call(rank, handler, args, bytes, &c.wire, PGAS_FULL_WAIT);
    return pgasi_sync_issued(&c, status);
}

pgas_status_t pgasi_ask(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                        size_t reply_bytes)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK)
        status = pgasi_ask_nb(rank, handler, args, bytes, reply, reply_bytes, &sync);
    return status == PGAS_OK ? pgasi_sync_wait_own(&sync) : status;
}
