/* Synchronizers and replies.
 *
 * A call that wants an answer carries a token: the index of an entry in this rank's table and the entry's generation, so
 * that an answer that comes late, twice or from nowhere is recognised and ignored. Entries are taken from a lock-free
 * stack. Answers run under the inbox lock, one at a time. Who takes the token out of an entry owns its end: a reply, the
 * death of the rank that owes it and a call that could not be sent may come together, and one of them wins. */
#include "call/sync.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "call/outbox.h"
#include "call/progress.h"
#include "mem/lane.h"
#include "mem/thread.h"

#define N_ENTRIES 65536u
#define NONE UINT32_MAX

typedef struct {
    uint32_t next;
    uint32_t token;      /* that names the entry; 0: it is free */
    uint16_t generation; /* of the last token, in its lower half; never 0, so that a zeroed counter names nothing */
    bool once;           /* a reply, which frees the entry */
    pgas_sync_t *sync;
    void *reply;
    size_t reply_bytes;
    int rank;        /* that owes the reply */
    uint32_t n_owed; /* calls that name the counter and have not been answered; by rank in owed */
    uint32_t *owed;  /* [n_ranks], from the entry's first call on; stays with it */
} entry_t;

static entry_t *entries;
static uint64_t free_head; /* tag << 32 | index */
static uint32_t n_ever;    /* entries that were ever taken: those behind are fresh */

pgas_status_t pgasi_sync_start(void)
{
    entries = pgasi_lazy_alloc(N_ENTRIES * sizeof *entries);
    free_head = NONE;
    n_ever = 0;
    return entries ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

PGASI_STATIC_ASSERT(sizeof(entry_t) == 56 || sizeof(void *) != 8, "info.c tells users how large an entry is");

uint64_t pgasi_sync_table_bytes(uint64_t n_ranks)
{
    return N_ENTRIES * (sizeof(entry_t) + n_ranks * sizeof(uint32_t));
}

void pgasi_sync_stop(void)
{
    for (uint32_t i = 0; entries && i < n_ever; i++)
        free(entries[i].owed);
    pgasi_lazy_free(entries, N_ENTRIES * sizeof *entries);
    entries = NULL;
}

/* ---- entries ---- */

static uint32_t take_index(void)
{
    uint64_t head = __atomic_load_n(&free_head, __ATOMIC_ACQUIRE);
    while ((uint32_t)head != NONE) {
        uint64_t next = ((head >> 32) + 1) << 32 | __atomic_load_n(&entries[(uint32_t)head].next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&free_head, &head, next, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return (uint32_t)head;
    }
    uint32_t fresh = __atomic_load_n(&n_ever, __ATOMIC_RELAXED);
    while (fresh < N_ENTRIES) {
        if (__atomic_compare_exchange_n(&n_ever, &fresh, fresh + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return fresh;
    }
    return NONE;
}

pgas_status_t pgasi_token_take(pgas_sync_t *sync, int rank, void *reply, size_t reply_bytes, uint32_t *token_p)
{
    uint32_t index = take_index();
    if (index == NONE)
        return PGAS_ERR_LIMIT;
    entry_t *e = &entries[index];
    e->sync = sync;
    e->reply = reply;
    e->reply_bytes = reply_bytes;
    e->rank = rank;
    e->once = reply != NULL;
    e->generation = e->generation == UINT16_MAX ? 1 : (uint16_t)(e->generation + 1);
    uint32_t token = index << 16 | e->generation;
    __atomic_store_n(&e->token, token, __ATOMIC_SEQ_CST); /* before the caller looks whether the rank is dead */
    *token_p = token;
    return PGAS_OK;
}

static entry_t *find_entry(uint32_t token)
{
    uint32_t index = token >> 16;
    if (!token || index >= __atomic_load_n(&n_ever, __ATOMIC_RELAXED))
        return NULL;
    entry_t *e = &entries[index];
    return __atomic_load_n(&e->token, __ATOMIC_ACQUIRE) == token ? e : NULL;
}

bool pgasi_token_give(uint32_t token)
{
    uint32_t index = token >> 16, mine_still = token;
    entry_t *e = find_entry(token);
    if (!e || !__atomic_compare_exchange_n(&e->token, &mine_still, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    uint64_t head = __atomic_load_n(&free_head, __ATOMIC_ACQUIRE);
    uint64_t mine;
    do {
        __atomic_store_n(&e->next, (uint32_t)head, __ATOMIC_RELAXED);
        mine = ((head >> 32) + 1) << 32 | index;
    } while (!__atomic_compare_exchange_n(&free_head, &head, mine, true, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

/* ---- what ranks owe ---- */

static uint32_t *owed_of(entry_t *e)
{
    uint32_t *owed = __atomic_load_n(&e->owed, __ATOMIC_ACQUIRE);
    if (PGAS_LIKELY(owed != NULL))
        return owed;
    uint32_t *fresh = calloc((size_t)pgasi_boot.n_ranks, sizeof *fresh);
    if (fresh && !__atomic_compare_exchange_n(&e->owed, &owed, fresh, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(fresh);
        fresh = owed;
    }
    return fresh;
}

pgas_status_t pgasi_sync_owe(const pgas_sync_t *sync, int rank)
{
    entry_t *e = find_entry(sync->token);
    if (!e || e->sync != sync || e->once)
        return PGAS_ERR_INVALID;
    uint32_t *owed = owed_of(e);
    if (!owed)
        return PGAS_ERR_NO_MEMORY;
    __atomic_add_fetch(&e->n_owed, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&owed[rank], 1, __ATOMIC_SEQ_CST); /* before the caller looks whether the rank is dead */
    return PGAS_OK;
}

/* One call less; false if the rank owes none. */
static bool pay(entry_t *e, int rank)
{
    uint32_t *owed = __atomic_load_n(&e->owed, __ATOMIC_ACQUIRE);
    uint32_t n = owed ? __atomic_load_n(&owed[rank], __ATOMIC_RELAXED) : 0;
    while (n > 0) {
        if (__atomic_compare_exchange_n(&owed[rank], &n, n - 1, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
            __atomic_sub_fetch(&e->n_owed, 1, __ATOMIC_RELEASE);
            return true;
        }
    }
    return false;
}

bool pgasi_sync_disown(uint32_t token, int rank)
{
    entry_t *e = find_entry(token);
    return e && pay(e, rank);
}

/* The counter ends before its calls; answers do not run meanwhile. */
static void forgive(entry_t *e)
{
    if (!__atomic_load_n(&e->n_owed, __ATOMIC_ACQUIRE))
        return;
    memset(e->owed, 0, (size_t)pgasi_boot.n_ranks * sizeof *e->owed);
    __atomic_store_n(&e->n_owed, 0, __ATOMIC_RELAXED);
}

static void fall(pgas_sync_t *sync, pgas_status_t status)
{
    int32_t fine = PGAS_OK;
    if (status != PGAS_OK)
        __atomic_compare_exchange_n(&sync->status, &fine, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&sync->count, 1, __ATOMIC_RELEASE) <= 0)
        pgasi_bell_ring(pgasi_boot.node_rank);
}

/* ---- answers arrive ---- */

static void on_ack(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int rank = pgas_thread_rank(source);
    (void)context;
    pgasi_rec_ack_t ack;
    if (bytes != sizeof ack)
        return;
    memcpy(&ack, args, sizeof ack);
    entry_t *e = find_entry(ack.token);
    if (!e || e->once)
        return;
    if (!pay(e, rank) && pgasi_boot_is_dead(rank)) /* fallen already, with the rank's death */
        return;
    fall(e->sync, (pgas_status_t)ack.status);
}

static void on_reply(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    pgasi_rec_ack_t ack;
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
        fall(sync, status);
}

void pgasi_sync_peer_died(int rank)
{
    pgasi_inbox_lock(); /* answers run one at a time */
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* whose token is not seen here sees that the rank is dead */
    uint32_t n = __atomic_load_n(&n_ever, __ATOMIC_RELAXED);
    for (uint32_t index = 0; entries && index < n; index++) {
        entry_t *e = &entries[index];
        uint32_t token = __atomic_load_n(&e->token, __ATOMIC_ACQUIRE);
        pgas_sync_t *sync = e->sync;
        if (!token)
            continue;
        if (e->once && e->rank == rank && pgasi_token_give(token))
            fall(sync, PGAS_ERR_PEER);
        while (!e->once && __atomic_load_n(&e->n_owed, __ATOMIC_RELAXED) && pay(e, rank))
            fall(e->sync, PGAS_ERR_PEER); /* whose it is now, if the entry changed hands before it owed */
    }
    pgasi_inbox_unlock();
}

/* ---- answers leave ---- */

/* The call that the thread is running. */
static __thread struct running {
    bool wanted, replied;
    uint32_t token, reply_bytes;
    pgas_thread_t source;
} current __attribute__((tls_model("initial-exec")));
static __thread struct running put_aside;

void pgasi_call_suspend(bool aside)
{
    pgasi_self.in_task = !aside;
    if (aside)
        put_aside = current;
    else
        current = put_aside;
    if (aside)
        current.wanted = false;
}

void pgasi_call_begin(pgas_thread_t source, uint32_t token, uint32_t reply_bytes)
{
    current.wanted = true;
    current.replied = false;
    current.token = token;
    current.reply_bytes = reply_bytes;
    current.source = source;
}

static pgas_status_t answer(uint32_t id, pgas_status_t status, const void *data, size_t bytes)
{
    pgasi_rec_ack_t ack = { current.token, status };
    return pgasi_outbox_answer(pgas_thread_rank(current.source), id, &ack, sizeof ack, data, bytes);
}

void pgasi_call_end(pgas_status_t status)
{
    bool replied = current.replied;
    current.wanted = false;
    if (!current.reply_bytes)
        answer(PGASI_REC_ACK, status, NULL, 0);
    else if (!replied)
        answer(PGASI_REC_REPLY, status == PGAS_OK ? PGAS_ERR_MISMATCH : status, NULL, 0);
}

pgas_status_t pgasi_reply(const void *data, size_t bytes)
{
    if (!current.wanted || !current.reply_bytes || current.replied)
        return PGAS_OK;
    current.replied = true;
    return answer(PGASI_REC_REPLY, PGAS_OK, data, bytes);
}

pgas_status_t pgas_reply(const void *data, size_t bytes)
{
    if ((!pgasi_self.in_handler && !pgasi_self.in_task) || (current.wanted && current.replied))
        return PGAS_ERR_CONTEXT;
    if (!current.wanted || !current.reply_bytes)
        return PGAS_OK;
    if (bytes && !data)
        return PGAS_ERR_INVALID;
    return bytes > pgasi_param.call_max ? PGAS_ERR_LIMIT : pgasi_reply(data, bytes);
}

/* ---- public ---- */

pgas_status_t pgas_sync_init(pgas_sync_t *sync, int64_t count)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!sync)
        return PGAS_ERR_INVALID;
    sync->count = count;
    sync->status = PGAS_OK;
    return pgasi_token_take(sync, -1, NULL, 0, &sync->token);
}

void pgas_sync_add(pgas_sync_t *sync, int64_t count)
{
    if (sync)
        __atomic_fetch_add(&sync->count, count, __ATOMIC_RELAXED);
}

pgas_status_t pgas_sync_test(const pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    if (__atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) > 0)
        return PGAS_INPROGRESS;
    return (pgas_status_t)__atomic_load_n(&sync->status, __ATOMIC_RELAXED);
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
    while ((status = pgas_sync_test(sync)) == PGAS_INPROGRESS && !pgasi_wait_is_over(limit))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return status == PGAS_INPROGRESS ? PGAS_ERR_TIMEOUT : status;
}

void pgas_sync_fini(pgas_sync_t *sync)
{
    if (!sync || !pgasi_running)
        return;
    /* Answers may still come: not while one of them is being run. */
    entry_t *e = find_entry(sync->token);
    if (!e || e->sync != sync) /* ended before, or never begun */
        return;
    bool late = !pgasi_self.in_handler && (__atomic_load_n(&sync->count, __ATOMIC_ACQUIRE) > 0 ||
                                           __atomic_load_n(&e->n_owed, __ATOMIC_ACQUIRE) > 0);
    if (late)
        pgasi_inbox_lock();
    forgive(e);
    pgasi_token_give(sync->token);
    if (late)
        pgasi_inbox_unlock();
}

static pgas_status_t call_return(int rank, uint32_t handler, const void *args, size_t bytes, void *reply,
                                 size_t reply_bytes, pgas_sync_t *sync)
{
    uint32_t token;
    pgas_status_t status = pgasi_token_take(sync, rank, reply, reply_bytes, &token);
    if (status != PGAS_OK)
        return status;
    uint64_t wire = token | (uint64_t)reply_bytes << 32;
    status = pgasi_outbox_call(rank, handler, args, bytes, &wire, PGASI_FULL_WAIT);
    if (status != PGAS_OK && !pgasi_token_give(token))
        return PGAS_OK; /* the counter has fallen meanwhile, with the rank's death */
    return status;
}

pgas_status_t pgasi_ask(int rank, uint32_t handler, const void *args, size_t bytes, void *reply, size_t reply_bytes)
{
    pgas_sync_t sync = { 1, PGAS_OK, 0 };
    pgas_status_t status = pgasi_thread_check_wait();
    if (status == PGAS_OK)
        status = call_return(rank, handler, args, bytes, reply, reply_bytes, &sync);
    return status == PGAS_OK ? pgas_sync_wait(&sync, -1) : status;
}

pgas_status_t pgas_call_return(int rank, pgas_handler_t handler, const void *args, size_t bytes, void *reply,
                               size_t reply_bytes, pgas_sync_t *executed)
{
    pgas_status_t status = pgasi_call_check(rank, handler, args, bytes);
    if (status != PGAS_OK)
        return status;
    if (!reply || !reply_bytes)
        return PGAS_ERR_INVALID;
    if (reply_bytes > pgasi_param.call_max)
        return PGAS_ERR_LIMIT;
    if (!executed)
        return pgasi_ask(rank, handler, args, bytes, reply, reply_bytes);
    const entry_t *e = find_entry(executed->token);
    if (!e || e->sync != executed)
        return PGAS_ERR_INVALID;
    return call_return(rank, handler, args, bytes, reply, reply_bytes, executed);
}

void pgasi_sync_set_handlers(void)
{
    pgasi_handler_set_internal(PGASI_REC_ACK, on_ack);
    pgasi_handler_set_internal(PGASI_REC_REPLY, on_reply);
}
