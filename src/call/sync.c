/* Completion counters and replies: see sync.h.
 *
 * Answers run under the receive lock, one at a time. A counter may cease to exist as soon as it has
 * reached zero, because a thread waits for that. So the thread that decrements a counter first
 * reads everything that it needs of it. */
#include "call/sync.h"

#include <string.h>

#include "base/log.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/notify.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "call/progress.h"
#include "call/token.h"
#include "msg/serve.h"
#include "mem/ctx.h"
#include "mem/thread.h"

pgasi_sync_stats_t pgasi_sync_stats;

pgas_status_t pgasi_sync_start(void)
{
    memset(&pgasi_sync_stats, 0, sizeof pgasi_sync_stats);
    bool made = pgasi_tokens_start();
    pgas_status_t status = pgasi_notify_start(PGASI_TOKENS_MAX);
    return made ? status : PGAS_ERR_NO_MEMORY;
}

PGASI_STATIC_ASSERT(sizeof(pgasi_token_entry_t) + sizeof(pgasi_completion_record_t) == 120 ||
                        sizeof(void *) != 8,
                    "info.c tells users how large an entry is");

uint64_t pgasi_sync_table_bytes(uint64_t n_ranks)
{
    return PGASI_TOKENS_MAX * (sizeof(pgasi_token_entry_t) + sizeof(pgasi_completion_record_t) +
                               n_ranks * PGASI_OUTSTANDING_BYTES);
}

void pgasi_sync_stop(void)
{
    pgasi_tokens_stop();
    pgasi_notify_stop();
}

/* ---- counters decrement ---- */

/* Returns the entry of a live counter, otherwise NULL. */
static pgasi_token_entry_t *entry_of(const pgas_sync_t *sync)
{
    pgasi_token_entry_t *e = pgasi_token_find(sync->token);
    return e && e->sync == sync && !e->once ? e : NULL;
}

bool pgasi_sync_is_live(const pgas_sync_t *sync)
{
    return entry_of(sync);
}

/* Runs the counter's function if the counter reaches zero from above, and wakes the threads that
 * wait. */
static inline void lower(pgas_sync_t *sync, const pgasi_token_entry_t *e, int64_t n)
{
    pgas_sync_fn_t fn = e ? e->fn : NULL;
    void *arg = e ? e->arg : NULL;
    int64_t left = __atomic_sub_fetch(&sync->count, n, __ATOMIC_ACQ_REL);
    if (left > 0)
        return;
    if (fn && left > -n)
        fn(sync, arg);
    pgasi_wake(pgasi_boot.node_rank);
}

void pgasi_sync_lower_by(pgas_sync_t *sync, int64_t n, pgas_status_t status, int rank,
                         uint32_t handler)
{
    const pgasi_token_entry_t *e = entry_of(sync);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        pgasi_sync_note(sync, e ? pgasi_completion_of(sync->token) : NULL, status, rank, handler);
    lower(sync, e, n);
}

static inline void lower_one(pgas_sync_t *sync, pgas_status_t status, int rank, uint32_t handler)
{
    pgasi_sync_lower_by(sync, 1, status, rank, handler);
}

/* ---- answers arrive ---- */

static void on_ack(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int rank = pgas_thread_rank(source);
    (void)context;
    pgasi_desc_ack_t ack;
    if (bytes != sizeof ack)
        return;
    memcpy(&ack, args, sizeof ack);
    pgasi_token_entry_t *e = pgasi_token_find(ack.token);
    if (!e || e->once)
        return;
    if (!pgasi_outstanding_take(e, rank) &&
        pgasi_boot_is_dead(rank)) /* The rank's death has already decremented the counter. */
        return;
    lower_one(e->sync, (pgas_status_t)ack.status, rank, ack.handler);
}

static void on_reply(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    pgasi_desc_ack_t ack;
    if (bytes < sizeof ack)
        return;
    memcpy(&ack, args, sizeof ack);
    pgasi_token_entry_t *e = pgasi_token_find(ack.token);
    if (!e || !e->once)
        return;
    pgas_status_t status = (pgas_status_t)ack.status;
    if (status == PGAS_OK && bytes - sizeof ack != e->reply_bytes)
        status = PGAS_ERR_MISMATCH;
    if (status == PGAS_OK)
        memcpy(e->reply, (const char *)args + sizeof ack, e->reply_bytes);
    pgas_sync_t *sync = e->sync;
    if (pgasi_token_give(ack.token))
        lower_one(sync, status, pgas_thread_rank(source), ack.handler);
}

/* Ends all calls of the entry that the dead rank has not answered. */
static void end_calls_to(pgasi_token_entry_t *e, int rank)
{
    uint32_t token = __atomic_load_n(&e->token, __ATOMIC_ACQUIRE), handler;
    pgas_sync_t *sync = e->sync;
    if (!token)
        return;
    handler = e->handler;
    if (e->once && e->rank == rank && pgasi_token_give(token))
        lower_one(sync, PGAS_ERR_PEER, rank, handler);
    while (!e->once && __atomic_load_n(&e->n_outstanding, __ATOMIC_RELAXED) &&
           pgasi_outstanding_take(e, rank)) {
        handler =
            __atomic_load_n(&pgasi_outstanding_handlers(e->outstanding)[rank], __ATOMIC_RELAXED);
        /* If another counter has the entry now, e->sync is the counter that made the call. */
        lower_one(e->sync, PGAS_ERR_PEER, rank, handler);
    }
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
    if (!e || !e->once || piece.offset > e->reply_bytes || bytes > e->reply_bytes - piece.offset)
        return;
    memcpy((char *)e->reply + piece.offset, (const char *)args + sizeof piece, bytes);
    pgas_sync_t *sync = e->sync;
    if (piece.offset + bytes == e->reply_bytes && pgasi_token_give(piece.token))
        lower_one(sync, PGAS_OK, pgas_thread_rank(source), 0);
}

/* Ends the replies and completions that a dead rank was to send, with PGAS_ERR_PEER. */
static void end_for_dead(int rank)
{
    pgasi_path_state_t before = pgasi_serve_begin(); /* Answers run one at a time. */
    /* If this loop does not see the token of a call, its caller sees that the rank is dead. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint32_t n = __atomic_load_n(&pgasi_tokens.n_ever, __ATOMIC_RELAXED);
    for (uint32_t index = 0; pgasi_tokens.entries && index < n; index++)
        end_calls_to(&pgasi_tokens.entries[index], rank);
    pgasi_serve_end(before);
}

void pgasi_sync_answered(uint32_t token, pgas_status_t status, int rank, uint32_t handler)
{
    bool served = pgasi_is_serving();
    pgasi_path_state_t before;
    if (!served)
        before = pgasi_serve_begin(); /* Answers run one at a time. */
    pgasi_token_entry_t *e = pgasi_token_find(token);
    if (e && !e->once) {
        pgasi_outstanding_take(e, pgasi_boot.rank);
        lower_one(e->sync, status, rank, handler);
    }
    if (!served)
        pgasi_serve_end(before);
}

/* ---- calls that complete a counter ---- */

pgas_status_t pgasi_sync_issue(pgasi_sync_call_t *c, pgas_sync_t *sync, int rank, uint32_t handler,
                               pgas_when_t when, bool queued)
{
    pgasi_token_entry_t *e = entry_of(sync);
    bool near = pgasi_boot.local_of[rank] >= 0;
    if (PGAS_UNLIKELY(!e))
        return PGAS_ERR_INVALID;
    *c = (pgasi_sync_call_t){ sync, 0, rank, false };
    /* In these cases a call that the channel has accepted is complete. */
    if (when == PGAS_LOCAL || (when == PGAS_REMOTE && near && !queued))
        return PGAS_OK;
    c->wire = sync->token | (when == PGAS_REMOTE ? PGASI_WIRE_ARRIVED : 0);
    if (near && e->written) {
        c->wire |= PGASI_WIRE_WRITE;
        return PGAS_OK;
    }
    c->outstanding = true;
    return pgasi_outstanding_add(e, rank, handler);
}

pgas_status_t pgasi_sync_issue_own(pgasi_sync_call_t *c, pgas_sync_t *sync, uint32_t handler,
                                   pgas_when_t when)
{
    pgasi_token_entry_t *e = entry_of(sync);
    if (!e)
        return PGAS_ERR_INVALID;
    *c = (pgasi_sync_call_t){ sync, 0, pgasi_boot.rank, when != PGAS_LOCAL };
    if (when == PGAS_LOCAL)
        return PGAS_OK;
    c->wire = sync->token;
    return pgasi_outstanding_add(e, pgasi_boot.rank, handler);
}

pgas_status_t pgasi_sync_issued(const pgasi_sync_call_t *c, pgas_status_t status)
{
    if (status == PGAS_OK && !c->wire)
        lower_one(c->sync, PGAS_OK, c->rank, 0);
    if (status == PGAS_OK || !c->outstanding)
        return status;
    pgasi_token_entry_t *e = pgasi_token_find(pgasi_wire_token(c->wire));
    /* The rank's death has decremented the counter meanwhile. */
    return e && pgasi_outstanding_take(e, c->rank) ? status : PGAS_OK;
}

/* ---- public functions ---- */

static pgas_status_t begin(pgas_sync_t *sync, int64_t n, pgas_sync_fn_t fn, void *arg)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!sync)
        return PGAS_ERR_INVALID;
    sync->count = n;
    sync->status = PGAS_OK;
    status = pgasi_token_take(sync, -1, NULL, 0, &sync->token);
    if (status != PGAS_OK)
        return status;
    pgasi_token_entry_t *e = pgasi_token_find(sync->token);
    e->fn = fn;
    e->arg = arg;
    __atomic_store_n(&pgasi_completion_of(sync->token)->error, 0, __ATOMIC_RELAXED);
    e->written = !fn && pgasi_notify_open(sync->token, sync);
    return PGAS_OK;
}

pgas_status_t pgas_sync_init(pgas_sync_t *sync, int64_t count)
{
    return begin(sync, count, NULL, NULL);
}

pgas_status_t pgas_sync_init_fn(pgas_sync_t *sync, int64_t count, pgas_sync_fn_t fn, void *arg)
{
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK && !fn)
        status = PGAS_ERR_INVALID;
    return status == PGAS_OK ? begin(sync, count, fn, arg) : status;
}

pgas_status_t pgas_sync_done(pgas_sync_t *sync, int64_t n)
{
    if (!sync || n < 0)
        return PGAS_ERR_INVALID;
    if (!pgasi_running)
        __atomic_fetch_sub(&sync->count, n, __ATOMIC_RELEASE);
    else if (n > 0)
        lower(sync, entry_of(sync), n);
    return PGAS_OK;
}

void pgas_sync_add(pgas_sync_t *sync, int64_t count)
{
    if (sync && count >= 0)
        __atomic_fetch_add(&sync->count, count, __ATOMIC_RELAXED);
    else if (sync && count > INT64_MIN)
        pgas_sync_done(sync, -count);
}

pgas_status_t pgas_sync_reset(pgas_sync_t *sync, int64_t count)
{
    if (!sync || !pgasi_running || !entry_of(sync))
        return PGAS_ERR_INVALID;
    __atomic_store_n(&pgasi_completion_of(sync->token)->error, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&sync->status, PGAS_OK, __ATOMIC_RELAXED);
    __atomic_store_n(&sync->count, count, __ATOMIC_RELEASE);
    return PGAS_OK;
}

pgas_status_t pgas_sync_error(const pgas_sync_t *sync, pgas_sync_error_t *error_p)
{
    if (!sync || !error_p || !pgasi_running || !entry_of(sync))
        return PGAS_ERR_INVALID;
    *error_p = pgasi_error_unpack(
        __atomic_load_n(&pgasi_completion_of(sync->token)->error, __ATOMIC_RELAXED));
    return PGAS_OK;
}

pgas_status_t pgas_sync_test(const pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    if (__atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) > 0)
        return PGAS_INPROGRESS;
    return (pgas_status_t)__atomic_load_n(&sync->status, __ATOMIC_RELAXED);
}

/* When a job ends in which a rank has died, a handler may wait for an answer that never comes. */
static inline bool must_end(void)
{
    return PGAS_UNLIKELY(pgasi_self.in_task) && __atomic_load_n(&pgasi_leaving, __ATOMIC_ACQUIRE) &&
           pgasi_boot_some_dead();
}

pgas_status_t pgas_sync_wait(pgas_sync_t *sync, int64_t timeout_us)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (!sync)
        return PGAS_ERR_INVALID;
    uint64_t limit = pgasi_wait_limit(timeout_us);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    bool ends = false;
    while ((status = pgas_sync_test(sync)) == PGAS_INPROGRESS && !pgasi_wait_is_over(limit)) {
        /* A counter without a token awaits a reply, which may still be written to its address. */
        ends = sync->token && must_end();
        if (ends)
            break;
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    if (status != PGAS_INPROGRESS)
        return status;
    return ends ? PGAS_ERR_PEER : PGAS_ERR_TIMEOUT;
}

void pgas_sync_fini(pgas_sync_t *sync)
{
    if (!sync || !pgasi_running)
        return;
    /* Answers may still come. The receive lock keeps them from running while the entry is freed. */
    pgasi_token_entry_t *e = entry_of(sync);
    if (!e) /* the counter has ended before, or was never begun */
        return;
    pgasi_notify_close(sync->token);
    bool locked = pgasi_is_serving();
    bool late = !locked && (__atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) > 0 ||
                            __atomic_load_n(&e->n_outstanding, __ATOMIC_ACQUIRE) > 0);
    if (late)
        pgasi_recv_lock();
    pgasi_outstanding_drop(e);
    pgasi_token_give(sync->token);
    if (late)
        pgasi_recv_unlock();
}

void pgasi_sync_set_handlers(void)
{
    pgasi_hooks.death_settled[PGASI_LAYER_CALL] = end_for_dead;
    pgasi_handler_set_internal(PGASI_DESC_ACK, on_ack);
    pgasi_handler_set_internal(PGASI_DESC_REPLY, on_reply);
    pgasi_handler_set_internal(PGASI_DESC_REPLY_PIECE, on_reply_piece);
}
