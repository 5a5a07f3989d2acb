/* The table of tokens: see token.h.
 *
 * Entries come from a lock-free stack; a tag in its head prevents the ABA problem. The thread that
 * takes the token out of an entry owns its end. A reply, the death of the rank that sends it, and a
 * failed send may coincide, and exactly one of them wins. */
#include "call/token.h"

#include <stdlib.h>
#include <string.h>

#include "mem/ctx.h"

#define NONE UINT32_MAX

pgasi_tokens_t pgasi_tokens;

bool pgasi_tokens_start(void)
{
    pgasi_tokens = (pgasi_tokens_t){ .free_head = NONE };
    pgasi_tokens.entries = pgasi_lazy_alloc(PGASI_TOKENS_MAX * sizeof *pgasi_tokens.entries);
    return pgasi_tokens.entries;
}

void pgasi_tokens_stop(void)
{
    for (uint32_t i = 0; pgasi_tokens.entries && i < pgasi_tokens.n_ever; i++)
        free(pgasi_tokens.entries[i].outstanding);
    pgasi_lazy_free(pgasi_tokens.entries, PGASI_TOKENS_MAX * sizeof *pgasi_tokens.entries);
    pgasi_tokens = (pgasi_tokens_t){ 0 };
}

/* ---- entries ---- */

static uint32_t take_index(void)
{
    uint64_t head = __atomic_load_n(&pgasi_tokens.free_head, __ATOMIC_ACQUIRE);
    while ((uint32_t)head != NONE) {
        uint64_t next =
            ((head >> 32) + 1) << 32 |
            __atomic_load_n(&pgasi_tokens.entries[(uint32_t)head].next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&pgasi_tokens.free_head, &head, next, true,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            return (uint32_t)head;
    }
    uint32_t fresh = __atomic_load_n(&pgasi_tokens.n_ever, __ATOMIC_RELAXED);
    while (fresh < PGASI_TOKENS_MAX)
        if (__atomic_compare_exchange_n(&pgasi_tokens.n_ever, &fresh, fresh + 1, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return fresh;
    return NONE;
}

pgas_status_t pgasi_token_take_for(pgas_sync_t *sync, int rank, uint32_t handler, void *reply,
                                   size_t reply_bytes, uint32_t *token_p)
{
    uint32_t index = take_index();
    if (index == NONE)
        return PGAS_ERR_LIMIT;
    pgasi_token_entry_t *e = &pgasi_tokens.entries[index];
    e->sync = sync;
    e->reply = reply;
    e->reply_bytes = reply_bytes;
    e->rank = rank;
    e->handler = handler;
    e->once = reply != NULL;
    e->written = false;
    e->generation = e->generation == UINT16_MAX ? 1 : (uint16_t)(e->generation + 1);
    uint32_t token = index << 16 | e->generation;
    /* The caller checks afterwards whether the rank is dead, so this store is first. */
    __atomic_store_n(&e->token, token, __ATOMIC_SEQ_CST);
    *token_p = token;
    return PGAS_OK;
}

pgas_status_t pgasi_token_take(pgas_sync_t *sync, int rank, void *reply, size_t reply_bytes,
                               uint32_t *token_p)
{
    return pgasi_token_take_for(sync, rank, 0, reply, reply_bytes, token_p);
}

bool pgasi_token_give(uint32_t token)
{
    uint32_t index = token >> 16, mine_still = token;
    pgasi_token_entry_t *e = pgasi_token_find(token);
    if (!e || !__atomic_compare_exchange_n(&e->token, &mine_still, 0, false, __ATOMIC_ACQ_REL,
                                           __ATOMIC_RELAXED))
        return false;
    uint64_t head = __atomic_load_n(&pgasi_tokens.free_head, __ATOMIC_ACQUIRE);
    uint64_t mine;
    do {
        __atomic_store_n(&e->next, (uint32_t)head, __ATOMIC_RELAXED);
        mine = ((head >> 32) + 1) << 32 | index;
    } while (!__atomic_compare_exchange_n(&pgasi_tokens.free_head, &head, mine, true,
                                          __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
    return true;
}

void *pgasi_token_reply(uint32_t token, size_t bytes)
{
    const pgasi_token_entry_t *e = pgasi_token_find(token);
    return e && e->once && e->reply_bytes == bytes ? e->reply : NULL;
}

/* ---- outstanding calls by rank ---- */

static uint32_t *outstanding_of(pgasi_token_entry_t *e)
{
    uint32_t *outstanding = __atomic_load_n(&e->outstanding, __ATOMIC_ACQUIRE);
    if (PGAS_LIKELY(outstanding))
        return outstanding;
    uint32_t *fresh = calloc((size_t)pgasi_boot.n_ranks, PGASI_OUTSTANDING_BYTES);
    if (fresh && !__atomic_compare_exchange_n(&e->outstanding, &outstanding, fresh, false,
                                              __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(fresh);
        fresh = outstanding;
    }
    return fresh;
}

pgas_status_t pgasi_outstanding_add(pgasi_token_entry_t *e, int rank, uint32_t handler)
{
    uint32_t *outstanding = outstanding_of(e);
    if (!outstanding)
        return PGAS_ERR_NO_MEMORY;
    __atomic_store_n(&pgasi_outstanding_handlers(outstanding)[rank], (uint16_t)handler,
                     __ATOMIC_RELAXED);
    __atomic_add_fetch(&e->n_outstanding, 1, __ATOMIC_RELAXED);
    /* The caller checks afterwards whether the rank is dead, so this addition is first. */
    __atomic_add_fetch(&outstanding[rank], 1, __ATOMIC_SEQ_CST);
    return PGAS_OK;
}

bool pgasi_outstanding_take(pgasi_token_entry_t *e, int rank)
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

void pgasi_outstanding_drop(pgasi_token_entry_t *e)
{
    if (!__atomic_load_n(&e->n_outstanding, __ATOMIC_ACQUIRE))
        return;
    memset(e->outstanding, 0, (size_t)pgasi_boot.n_ranks * PGASI_OUTSTANDING_BYTES);
    __atomic_store_n(&e->n_outstanding, 0, __ATOMIC_RELAXED);
}
