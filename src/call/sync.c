/* Synchronizers and replies.
 *
 * A call that wants an answer carries a token: the index of an entry in this rank's table and the
 * entry's generation, so that an answer that comes late, twice or from nowhere is recognised and
 * ignored. Entries are taken from a lock-free stack. Answers run under the receive lock, one at a
 * time. Who takes the token out of an entry owns its end: a reply, the death of the rank that owes
 * it and a call that could not be sent may come together, and one of them wins.
 *
 * A counter may be gone as soon as it has reached zero, for somebody waits for that: whoever lowers
 * it reads what he needs of it before. */
#include "call/sync.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "call/notify.h"
#include "msg/send_queue.h"
#include "call/progress.h"
#include "msg/serve.h"
#include "mem/ctx.h"
#include "mem/thread.h"

#define N_ENTRIES 65536u
#define NONE      UINT32_MAX

typedef struct {
    uint32_t next;
    uint32_t token; /* that names the entry; 0: it is free */
    /* of the last token, in its lower half; never 0, so that a zeroed counter names nothing */
    uint16_t generation;
    bool once;        /* a reply, which frees the entry */
    bool written;     /* a counter that peers of the node write: they owe nothing */
    uint32_t handler; /* of a reply: that was called */
    pgas_sync_t *sync;
    union {
        struct {
            void *reply;
            size_t reply_bytes;
        };
        struct { /* of a counter */
            pgas_sync_fn_t fn;
            void *arg;
        };
    };
    int rank; /* that owes the reply */
    uint32_t
        n_outstanding; /* calls that name the counter and have not been answered; by rank in owed */
    /* [n_ranks], from the entry's first call on, and as many numbers of handlers of 16 bits: the
     * latest that the rank was asked for; stays with it */
    uint32_t *outstanding;
} entry_t;
#define OUTSTANDING_BYTES (sizeof(uint32_t) + sizeof(uint16_t)) /* per rank */

static entry_t *entries;
static uint64_t free_head; /* tag << 32 | index */
static uint32_t n_ever;    /* entries that were ever taken: those behind are fresh */

pgasi_sync_stats_t pgasi_sync_stats;

pgas_status_t pgasi_sync_start(void)
{
    entries = pgasi_lazy_alloc(N_ENTRIES * sizeof *entries);
    free_head = NONE;
    n_ever = 0;
    memset(&pgasi_sync_stats, 0, sizeof pgasi_sync_stats);
    pgas_status_t status = pgasi_notify_start(N_ENTRIES);
    return entries ? status : PGAS_ERR_NO_MEMORY;
}

PGASI_STATIC_ASSERT(sizeof(entry_t) + sizeof(pgasi_completion_t) == 120 || sizeof(void *) != 8,
                    "info.c tells users how large an entry is");

uint64_t pgasi_sync_table_bytes(uint64_t n_ranks)
{
    return N_ENTRIES * (sizeof(entry_t) + sizeof(pgasi_completion_t) + n_ranks * OUTSTANDING_BYTES);
}

void pgasi_sync_stop(void)
{
    for (uint32_t i = 0; entries && i < n_ever; i++)
        free(entries[i].outstanding);
    pgasi_lazy_free(entries, N_ENTRIES * sizeof *entries);
    entries = NULL;
    n_ever = 0;
    pgasi_notify_stop();
}

/* ---- entries ---- */

static uint32_t take_index(void)
{
    uint64_t head = __atomic_load_n(&free_head, __ATOMIC_ACQUIRE);
    while ((uint32_t)head != NONE) {
        uint64_t next = ((head >> 32) + 1) << 32 |
                        __atomic_load_n(&entries[(uint32_t)head].next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&free_head, &head, next, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return (uint32_t)head;
    }
    uint32_t fresh = __atomic_load_n(&n_ever, __ATOMIC_RELAXED);
    while (fresh < N_ENTRIES)
        if (__atomic_compare_exchange_n(&n_ever, &fresh, fresh + 1, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return fresh;
    return NONE;
}

pgas_status_t pgasi_token_take_for(pgas_sync_t *sync, int rank, uint32_t handler, void *reply,
                                   size_t reply_bytes, uint32_t *token_p)
{
    uint32_t index = take_index();
    if (index == NONE)
        return PGAS_ERR_LIMIT;
    entry_t *e = &entries[index];
    e->sync = sync;
    e->reply = reply;
    e->reply_bytes = reply_bytes;
    e->rank = rank;
    e->handler = handler;
    e->once = reply != NULL;
    e->written = false;
    e->generation = e->generation == UINT16_MAX ? 1 : (uint16_t)(e->generation + 1);
    uint32_t token = index << 16 | e->generation;
    /* before the caller looks whether the rank is dead */
    __atomic_store_n(&e->token, token, __ATOMIC_SEQ_CST);
    *token_p = token;
    return PGAS_OK;
}

pgas_status_t pgasi_token_take(pgas_sync_t *sync, int rank, void *reply, size_t reply_bytes,
                               uint32_t *token_p)
{
    return pgasi_token_take_for(sync, rank, 0, reply, reply_bytes, token_p);
}

static entry_t *find_entry(uint32_t token)
{
    uint32_t index = token >> 16;
    if (!token || index >= __atomic_load_n(&n_ever, __ATOMIC_RELAXED))
        return NULL;
    entry_t *e = &entries[index];
    return __atomic_load_n(&e->token, __ATOMIC_ACQUIRE) == token ? e : NULL;
}

/* The entry of a live counter. */
static entry_t *entry_of(const pgas_sync_t *sync)
{
    entry_t *e = find_entry(sync->token);
    return e && e->sync == sync && !e->once ? e : NULL;
}

bool pgasi_sync_is_live(const pgas_sync_t *sync)
{
    return entry_of(sync);
}

bool pgasi_token_give(uint32_t token)
{
    uint32_t index = token >> 16, mine_still = token;
    entry_t *e = find_entry(token);
    if (!e || !__atomic_compare_exchange_n(&e->token, &mine_still, 0, false, __ATOMIC_ACQ_REL,
                                           __ATOMIC_RELAXED))
        return false;
    uint64_t head = __atomic_load_n(&free_head, __ATOMIC_ACQUIRE);
    uint64_t mine;
    do {
        __atomic_store_n(&e->next, (uint32_t)head, __ATOMIC_RELAXED);
        mine = ((head >> 32) + 1) << 32 | index;
    } while (!__atomic_compare_exchange_n(&free_head, &head, mine, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return true;
}

/* ---- what ranks owe ---- */

static uint32_t *outstanding_of(entry_t *e)
{
    uint32_t *outstanding = __atomic_load_n(&e->outstanding, __ATOMIC_ACQUIRE);
    if (PGAS_LIKELY(outstanding))
        return outstanding;
    uint32_t *fresh = calloc((size_t)pgasi_boot.n_ranks, OUTSTANDING_BYTES);
    if (fresh && !__atomic_compare_exchange_n(&e->outstanding, &outstanding, fresh, false,
                                              __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(fresh);
        fresh = outstanding;
    }
    return fresh;
}

/* The latest handler that each rank was asked for. */
static uint16_t *handlers_of(uint32_t *outstanding)
{
    return (uint16_t *)(void *)(outstanding + pgasi_boot.n_ranks);
}

static pgas_status_t add_outstanding(entry_t *e, int rank, uint32_t handler)
{
    uint32_t *outstanding = outstanding_of(e);
    if (!outstanding)
        return PGAS_ERR_NO_MEMORY;
    __atomic_store_n(&handlers_of(outstanding)[rank], (uint16_t)handler, __ATOMIC_RELAXED);
    __atomic_add_fetch(&e->n_outstanding, 1, __ATOMIC_RELAXED);
    /* before the caller looks whether the rank is dead */
    __atomic_add_fetch(&outstanding[rank], 1, __ATOMIC_SEQ_CST);
    return PGAS_OK;
}

/* One call less; false if the rank owes none. */
static bool take_outstanding(entry_t *e, int rank)
{
    uint32_t *outstanding = __atomic_load_n(&e->outstanding, __ATOMIC_ACQUIRE);
    uint32_t n = outstanding ? __atomic_load_n(&outstanding[rank], __ATOMIC_RELAXED) : 0;
    while (n > 0) {
        if (__atomic_compare_exchange_n(&outstanding[rank], &n, n - 1, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            __atomic_sub_fetch(&e->n_outstanding, 1, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

/* The counter ends before its calls; answers do not run meanwhile. */
static void drop_outstanding(entry_t *e)
{
    if (!__atomic_load_n(&e->n_outstanding, __ATOMIC_ACQUIRE))
        return;
    memset(e->outstanding, 0, (size_t)pgasi_boot.n_ranks * OUTSTANDING_BYTES);
    __atomic_store_n(&e->n_outstanding, 0, __ATOMIC_RELAXED);
}

/* ---- counters fall ---- */

/* Runs the function if the counter has come from above zero, and wakes who waits. */
static inline void lower(pgas_sync_t *sync, const entry_t *e, int64_t n)
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
    const entry_t *e = entry_of(sync);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        pgasi_sync_note(sync, e ? pgasi_completion_of(sync->token) : NULL, status, rank, handler);
    lower(sync, e, n);
}

void pgasi_sync_lower(pgas_sync_t *sync, int64_t n, pgas_status_t status)
{
    pgasi_sync_lower_by(sync, n, status, pgasi_boot.rank, 0);
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
    entry_t *e = find_entry(ack.token);
    if (!e || e->once)
        return;
    if (!take_outstanding(e, rank) &&
        pgasi_boot_is_dead(rank)) /* fallen already, with the rank's death */
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
    entry_t *e = find_entry(ack.token);
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

/* What the entry's calls to the rank still owe. */
static void end_calls_to(entry_t *e, int rank)
{
    uint32_t token = __atomic_load_n(&e->token, __ATOMIC_ACQUIRE), handler;
    pgas_sync_t *sync = e->sync;
    if (!token)
        return;
    handler = e->handler;
    if (e->once && e->rank == rank && pgasi_token_give(token))
        lower_one(sync, PGAS_ERR_PEER, rank, handler);
    while (!e->once && __atomic_load_n(&e->n_outstanding, __ATOMIC_RELAXED) &&
           take_outstanding(e, rank)) {
        handler = __atomic_load_n(&handlers_of(e->outstanding)[rank], __ATOMIC_RELAXED);
        /* whose it is now, if the entry changed hands before it owed */
        lower_one(e->sync, PGAS_ERR_PEER, rank, handler);
    }
}

/* Replies in pieces come in order, the last ends where the reply does; without data if the target
 * wrote it by itself. */
static void on_reply_piece(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    pgasi_desc_reply_piece_t piece;
    if (bytes < sizeof piece)
        return;
    memcpy(&piece, args, sizeof piece);
    bytes -= sizeof piece;
    entry_t *e = find_entry(piece.token);
    if (!e || !e->once || piece.offset > e->reply_bytes || bytes > e->reply_bytes - piece.offset)
        return;
    memcpy((char *)e->reply + piece.offset, (const char *)args + sizeof piece, bytes);
    pgas_sync_t *sync = e->sync;
    if (piece.offset + bytes == e->reply_bytes && pgasi_token_give(piece.token))
        lower_one(sync, PGAS_OK, pgas_thread_rank(source), 0);
}

void *pgasi_token_place(uint32_t token, size_t bytes)
{
    const entry_t *e = find_entry(token);
    return e && e->once && e->reply_bytes == bytes ? e->reply : NULL;
}

/* Replies and completions that a dead rank was to send end with PGAS_ERR_PEER. */
static void end_for_dead(int rank)
{
    pgasi_path_state_t before = pgasi_serve_begin(); /* answers run one at a time */
    /* whose token is not seen here sees that the rank is dead */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint32_t n = __atomic_load_n(&n_ever, __ATOMIC_RELAXED);
    for (uint32_t index = 0; entries && index < n; index++)
        end_calls_to(&entries[index], rank);
    pgasi_serve_end(before);
}

void pgasi_sync_answered(uint32_t token, pgas_status_t status, int rank, uint32_t handler)
{
    bool served = pgasi_is_serving();
    pgasi_path_state_t before;
    if (!served)
        before = pgasi_serve_begin(); /* answers run one at a time */
    entry_t *e = find_entry(token);
    if (e && !e->once) {
        take_outstanding(e, pgasi_boot.rank);
        lower_one(e->sync, status, rank, handler);
    }
    if (!served)
        pgasi_serve_end(before);
}

/* ---- calls that complete a counter ---- */

pgas_status_t pgasi_sync_issue(pgasi_sync_call_t *c, pgas_sync_t *sync, int rank, uint32_t handler,
                               pgas_when_t when, bool queued)
{
    entry_t *e = entry_of(sync);
    bool near = pgasi_boot.local_of[rank] >= 0;
    if (PGAS_UNLIKELY(!e))
        return PGAS_ERR_INVALID;
    *c = (pgasi_sync_call_t){ sync, 0, rank, false };
    /* accepted is shown in the ring */
    if (when == PGAS_LOCAL || (when == PGAS_REMOTE && near && !queued))
        return PGAS_OK;
    c->wire = sync->token | (when == PGAS_REMOTE ? PGASI_WIRE_ARRIVED : 0);
    if (near && e->written) {
        c->wire |= PGASI_WIRE_WRITE;
        return PGAS_OK;
    }
    c->outstanding = true;
    return add_outstanding(e, rank, handler);
}

pgas_status_t pgasi_sync_issue_own(pgasi_sync_call_t *c, pgas_sync_t *sync, uint32_t handler,
                                   pgas_when_t when)
{
    entry_t *e = entry_of(sync);
    if (!e)
        return PGAS_ERR_INVALID;
    *c = (pgasi_sync_call_t){ sync, 0, pgasi_boot.rank, when != PGAS_LOCAL };
    if (when == PGAS_LOCAL)
        return PGAS_OK;
    c->wire = sync->token;
    return add_outstanding(e, pgasi_boot.rank, handler);
}

pgas_status_t pgasi_sync_issued(const pgasi_sync_call_t *c, pgas_status_t status)
{
    if (status == PGAS_OK && !c->wire)
        lower_one(c->sync, PGAS_OK, c->rank, 0);
    if (status == PGAS_OK || !c->outstanding)
        return status;
    entry_t *e = find_entry(pgasi_wire_token(c->wire));
    /* the counter has fallen meanwhile, with the rank's death */
    return e && take_outstanding(e, c->rank) ? status : PGAS_OK;
}

/* ---- public ---- */

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
    entry_t *e = find_entry(sync->token);
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

/* When a job ends in which somebody has died, handlers may wait for what never comes. */
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
    while ((status = pgas_sync_test(sync)) == PGAS_INPROGRESS && !pgasi_wait_is_over(limit) &&
           /* without a token: a reply, which is written to its place */
           !(ends = sync->token && must_end()))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return status != PGAS_INPROGRESS ? status : ends ? PGAS_ERR_PEER : PGAS_ERR_TIMEOUT;
}

void pgas_sync_fini(pgas_sync_t *sync)
{
    if (!sync || !pgasi_running)
        return;
    /* Answers may still come: not while one of them is being run. */
    entry_t *e = entry_of(sync);
    if (!e) /* ended before, or never begun */
        return;
    pgasi_notify_close(sync->token);
    bool locked = pgasi_is_serving();
    bool late = !locked && (__atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) > 0 ||
                            __atomic_load_n(&e->n_outstanding, __ATOMIC_ACQUIRE) > 0);
    if (late)
        pgasi_recv_lock();
    drop_outstanding(e);
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
