/* The table of tokens: see token.h.
 *
 * Records come from a lock-free stack; a tag in its head prevents the ABA problem. The thread that
 * takes the token out of a record owns its end. A reply, the death of the rank that sends it, and a
 * failed send may coincide, and exactly one of them wins. */
#include "call/token.h"

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
    pgasi_lazy_free(pgasi_tokens.entries, PGASI_TOKENS_MAX * sizeof *pgasi_tokens.entries);
    pgasi_tokens = (pgasi_tokens_t){ 0 };
}

/* ---- records ---- */

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

pgas_status_t pgasi_token_take(const pgasi_token_for_t *what, uint32_t *token_p)
{
    uint32_t index = take_index();
    if (index == NONE)
        return PGAS_ERR_LIMIT;
    pgasi_token_entry_t *e = &pgasi_tokens.entries[index];
    e->sync = what->sync;
    e->reply = what->reply;
    e->reply_bytes = what->reply_bytes;
    e->rank = what->rank;
    e->handler = (uint16_t)what->handler;
    e->generation = e->generation == UINT16_MAX ? 1 : (uint16_t)(e->generation + 1);
    uint32_t token = index << 16 | e->generation;
    /* The caller checks afterwards whether the rank is dead, so this store is first. */
    __atomic_store_n(&e->token, token, __ATOMIC_SEQ_CST);
    *token_p = token;
    return PGAS_OK;
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
    return e && e->reply_bytes == bytes ? e->reply : NULL;
}
