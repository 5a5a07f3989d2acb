/* Completion of calls: see sync.h.
 *
 * Answers run under the receive lock, one at a time. In jobs that end with the death of a rank, the
 * answer names the counter itself. A counter outlives its calls, so no table is needed. A peer that
 * sends a wrong address could destroy memory. Therefore an address carries 17 bits of a keyed
 * check, which only its owner can compute. */
#include "call/sync.h"

#include <string.h>

#include "base/clock.h"
#include "base/deaths.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/token.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "msg/serve.h"

pgasi_sync_stats_t pgasi_sync_stats;

static uint64_t secret; /* the key of the check */

pgas_status_t pgasi_sync_start(void)
{
    memset(&pgasi_sync_stats, 0, sizeof pgasi_sync_stats);
    secret = pgasi_hash_u64(pgasi_now_ns() ^ (uint64_t)(uintptr_t)&pgasi_sync_stats) ^
             pgasi_hash_u64(pgasi_cycles());
    return pgasi_tokens_start() ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

PGASI_STATIC_ASSERT(sizeof(pgasi_token_entry_t) == 40 || sizeof(void *) != 8,
                    "info.c tells users how large a record is");

uint64_t pgasi_sync_table_bytes(void)
{
    return PGASI_TOKENS_MAX * sizeof(pgasi_token_entry_t);
}

void pgasi_sync_stop(void)
{
    pgasi_tokens_stop();
}

static inline bool outlives_ranks(void)
{
    return pgasi_param.on_peer_death != PGASI_ON_PEER_DEATH_ABORT;
}

/* ---- counters as tokens ---- */

/* Whether the token names the counter by its place. */
static inline bool is_named(uint64_t wire)
{
    return wire & (PGASI_WIRE_HEAP | PGASI_WIRE_ADDRESS);
}

#define ADDRESS_BITS 47 /* of user memory, without a request for more by mmap */
#define CHECK_SHIFT  (ADDRESS_BITS - 3)
#define CHECK_BITS   (61 - CHECK_SHIFT)

static inline uint64_t check_of(uint64_t address_8)
{
    return ((address_8 ^ secret) * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - CHECK_BITS);
}

/* Returns the token of a counter; 0: it cannot be named by its place. */
static inline uint64_t wire_of(const pgas_sync_t *sync)
{
    const pgasi_segment_t *heap = &pgasi_segments[0];
    uint64_t at = (uint64_t)(uintptr_t)sync, inside = at - (uint64_t)(uintptr_t)heap->address;
    if (at % sizeof sync->count != 0 || at >> ADDRESS_BITS)
        return 0;
    if (inside < heap->bytes && heap->bytes - inside >= sizeof *sync && !sync->fn)
        return PGASI_WIRE_HEAP | (PGASI_HEAP_OFFSET + inside);
    return PGASI_WIRE_ADDRESS | check_of(at >> 3) << CHECK_SHIFT | at >> 3;
}

uint64_t pgasi_sync_name(const pgas_sync_t *sync)
{
    return outlives_ranks() ? 0 : wire_of(sync);
}

/* Returns the counter of such a token; NULL: this rank has made no such token. */
static inline pgas_sync_t *sync_of(uint64_t wire)
{
    const pgasi_segment_t *heap = &pgasi_segments[0];
    uint64_t at_8 = wire & PGASI_WIRE_OFFSET, inside = at_8 - PGASI_HEAP_OFFSET;
    if (outlives_ranks())
        return NULL;
    if (wire & PGASI_WIRE_ADDRESS)
        return (wire >> CHECK_SHIFT & ((1u << CHECK_BITS) - 1)) == check_of(at_8)
                   ? (pgas_sync_t *)(uintptr_t)(at_8 << 3)
                   : NULL;
    if (inside >= heap->bytes || heap->bytes - inside < sizeof(pgas_sync_t) || inside % 8)
        return NULL;
    return (pgas_sync_t *)(void *)((char *)heap->address + inside);
}

PGASI_STATIC_ASSERT((UINT64_C(1) << CHECK_SHIFT) - 1 == PGASI_WIRE_OFFSET,
                    "an address and an offset have the same bits");

/* ---- answers arrive ---- */

static void on_ack(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    pgasi_desc_ack_t ack = { 0, PGAS_OK, 1 };
    if (bytes != sizeof ack.wire && bytes != sizeof ack)
        return;
    memcpy(&ack, args, bytes);
    pgas_sync_t *sync = NULL;
    if (is_named(ack.wire)) {
        sync = sync_of(ack.wire);
    } else {
        pgasi_token_entry_t *e = pgasi_token_find(pgasi_wire_token(ack.wire));
        sync = e && !e->reply ? e->sync : NULL;
        if (sync && !pgasi_token_give(pgasi_wire_token(ack.wire)))
            sync = NULL; /* The rank's death has already lowered the counter. */
    }
    if (sync && ack.status == PGAS_OK)
        pgasi_sync_lower_by(sync, is_named(ack.wire) ? ack.what : 1);
    else if (sync)
        pgasi_sync_lower(sync, (pgas_status_t)ack.status, pgas_thread_rank(source),
                         PGAS_OPERATION_CALL, ack.what);
}

static void on_reply(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    pgasi_desc_reply_t head;
    if (bytes < sizeof head)
        return;
    memcpy(&head, args, sizeof head);
    pgasi_token_entry_t *e = pgasi_token_find(head.token);
    if (!e || !e->reply)
        return;
    pgas_status_t status = (pgas_status_t)head.status;
    if (status == PGAS_OK && bytes - sizeof head != e->reply_bytes)
        status = PGAS_ERR_MISMATCH;
    if (status == PGAS_OK)
        memcpy(e->reply, (const char *)args + sizeof head, e->reply_bytes);
    pgas_sync_t *sync = e->sync;
    if (pgasi_token_give(head.token))
        pgasi_sync_lower(sync, status, pgas_thread_rank(source), PGAS_OPERATION_CALL, head.handler);
}

/* The pieces of a reply arrive in order, and the last one ends where the reply ends. It carries no
 * data if the target has written the reply itself. */
static void on_reply_piece(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    pgasi_desc_reply_piece_t piece;
    if (bytes < sizeof piece)
        return;
    memcpy(&piece, args, sizeof piece);
    bytes -= sizeof piece;
    pgasi_token_entry_t *e = pgasi_token_find(piece.token);
    if (!e || !e->reply || piece.offset > e->reply_bytes || bytes > e->reply_bytes - piece.offset)
        return;
    memcpy((char *)e->reply + piece.offset, (const char *)args + sizeof piece, bytes);
    pgas_sync_t *sync = e->sync;
    if (piece.offset + bytes == e->reply_bytes && pgasi_token_give(piece.token))
        pgasi_sync_lower(sync, PGAS_OK, pgas_thread_rank(source), PGAS_OPERATION_CALL, 0);
}

/* ---- calls that have no answer ---- */

/* Calls fn for all records in use, while no answer runs. */
static void for_all_records(void (*fn)(pgasi_token_entry_t *e, uint32_t token, const void *arg),
                            const void *arg)
{
    bool served = pgasi_is_serving();
    pgasi_path_state_t before;
    if (!served)
        before = pgasi_serve_begin();
    /* If this loop does not see the token of a call, its caller sees that the rank is dead. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint32_t n = __atomic_load_n(&pgasi_tokens.n_ever, __ATOMIC_RELAXED);
    for (uint32_t index = 0; pgasi_tokens.entries && index < n; index++) {
        uint32_t token = __atomic_load_n(&pgasi_tokens.entries[index].token, __ATOMIC_ACQUIRE);
        if (token)
            fn(&pgasi_tokens.entries[index], token, arg);
    }
    if (!served)
        pgasi_serve_end(before);
}

static void end_if_to(pgasi_token_entry_t *e, uint32_t token, const void *arg)
{
    int rank = *(const int *)arg;
    pgas_sync_t *sync = e->sync;
    uint32_t handler = e->handler;
    if (e->rank == rank && pgasi_token_give(token))
        pgasi_sync_lower(sync, PGAS_ERR_PEER, rank, PGAS_OPERATION_CALL, handler);
}

/* Ends the replies and completions that a dead rank was to send, with PGAS_ERR_PEER. */
static void end_for_dead(int rank)
{
    for_all_records(end_if_to, &rank);
}

static void forget_if_of(pgasi_token_entry_t *e, uint32_t token, const void *sync)
{
    if (e->sync == sync)
        pgasi_token_give(token);
}

static void forget(pgas_sync_t *sync)
{
    for_all_records(forget_if_of, sync);
}

/* ---- calls that name a counter ---- */

/* Takes a record, whose token becomes c->wire, or undoes the raise. */
static pgas_status_t take_record(pgasi_sync_call_t *c, const pgasi_token_for_t *call, int flags)
{
    uint32_t token = 0;
    pgas_status_t status = pgasi_token_take(call, &token);
    bool may_wait = flags & PGASI_ISSUE_WAIT && !pgasi_self.in_handler;
    if (PGAS_UNLIKELY(status != PGAS_OK && may_wait)) {
        pgasi_wait_t w = PGASI_WAIT_INIT;
        while ((status = pgasi_token_take(call, &token)) != PGAS_OK)
            pgasi_wait_step(&w);
        pgasi_wait_end(&w);
    }
    c->wire = token;
    if (PGAS_LIKELY(status == PGAS_OK))
        return PGAS_OK;
    pgasi_sync_refuse(c->sync, c->before);
    return PGAS_ERR_AGAIN;
}

pgas_status_t pgasi_sync_issue(pgasi_sync_call_t *c, pgas_sync_t *sync, int rank, uint32_t handler,
                               pgas_when_t when, int flags)
{
    bool near = pgasi_boot.local_of[rank] >= 0;
    *c = (pgasi_sync_call_t){ NULL, 0, 0 };
    /* In these cases a call that the channel has accepted is complete. */
    if (when == PGAS_LOCAL || (when == PGAS_REMOTE && near && !(flags & PGASI_ISSUE_QUEUED)))
        return PGAS_OK;
    c->sync = sync;
    c->before = pgasi_sync_raise(sync);
    c->wire = pgasi_sync_name(sync);
    if (PGAS_UNLIKELY(!c->wire)) {
        pgasi_token_for_t call = { sync, rank, handler, NULL, 0 };
        pgas_status_t status = take_record(c, &call, flags);
        if (status != PGAS_OK)
            return status;
    }
    c->wire |= when == PGAS_REMOTE ? PGASI_WIRE_ARRIVED : 0;
    return PGAS_OK;
}

pgas_status_t pgasi_sync_ask(pgasi_sync_call_t *c, const pgasi_token_for_t *call, int flags)
{
    *c = (pgasi_sync_call_t){ call->sync, pgasi_sync_raise(call->sync), 0 };
    pgas_status_t status = take_record(c, call, flags);
    if (status == PGAS_OK)
        c->wire = pgasi_wire_of_reply((uint32_t)c->wire, call->reply_bytes);
    return status;
}

bool pgasi_sync_take_back(const pgasi_sync_call_t *c)
{
    if (!c->sync)
        return true;
    if (!is_named(c->wire) && !pgasi_token_give(pgasi_wire_token(c->wire)))
        return false;
    pgasi_sync_refuse(c->sync, c->before);
    return true;
}

void pgasi_sync_fail(const pgasi_sync_call_t *c, pgas_status_t status, int rank, uint32_t handler)
{
    if (c->sync && (is_named(c->wire) || pgasi_token_give(pgasi_wire_token(c->wire))))
        pgasi_sync_lower(c->sync, status, rank, PGAS_OPERATION_CALL, handler);
}

pgas_status_t pgasi_sync_issued(const pgasi_sync_call_t *c, pgas_status_t status)
{
    return status == PGAS_OK || pgasi_sync_take_back(c) ? status : PGAS_OK;
}

int pgasi_sync_work_round(void)
{
    int n = pgasi_pollers_poll();
    if (!pgasi_sync_some_left())
        return n;
    pgasi_path_state_t before = pgasi_serve_begin();
    n += pgasi_sync_run_left();
    pgasi_serve_end(before);
    return n;
}

void pgasi_sync_set_handlers(void)
{
    pgasi_deaths_add(end_for_dead);
    pgasi_hooks.sync_forget = forget;
    pgasi_handler_set_internal(PGASI_DESC_ACK, on_ack);
    pgasi_handler_set_internal(PGASI_DESC_REPLY, on_reply);
    pgasi_handler_set_internal(PGASI_DESC_REPLY_PIECE, on_reply_piece);
}
