/** The table of tokens. A token names a completion counter or an awaited reply of this rank; calls
 *  carry it, and answers bring it back.
 *
 *  A token is the index of an entry and the entry's generation. So an answer that comes late,
 *  twice, or without a call is recognised and ignored. */
#ifndef PGASI_TOKEN_H
#define PGASI_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "boot/boot.h"
#include "pgas/sync.h"

#define PGASI_TOKENS_MAX 65536u

typedef struct {
    uint32_t next;
    uint32_t token; /* the token that names the entry; 0: the entry is free */
    /* the lower half of the last token; never 0, so that a zeroed counter names no entry */
    uint16_t generation;
    /* the entry awaits one reply, which frees it; otherwise it belongs to a counter */
    bool once;
    /* peers of the node write the counter themselves, so their calls are not counted in
     * outstanding */
    bool written;
    uint32_t handler; /* of an awaited reply: the handler that was called */
    pgas_sync_t *sync;
    union {
        struct {
            void *reply;
            size_t reply_bytes;
        };
        struct { /* fields of a counter */
            pgas_sync_fn_t fn;
            void *arg;
        };
    };
    int rank; /* of an awaited reply: the rank that sends it */
    /* calls that name the counter and have no answer yet; outstanding counts them by rank */
    uint32_t n_outstanding;
    /* [n_ranks], allocated by the entry's first call and kept. Behind it are n_ranks handler
     * numbers of 16 bits: the latest handler that each rank was asked to run. */
    uint32_t *outstanding;
} pgasi_token_entry_t;
#define PGASI_OUTSTANDING_BYTES (sizeof(uint32_t) + sizeof(uint16_t)) /* per rank */

typedef struct {
    pgasi_token_entry_t *entries; /* [PGASI_TOKENS_MAX] */
    uint64_t free_head;           /* tag << 32 | index */
    /* entries that were ever taken; entries from this index on are unused */
    uint32_t n_ever;
} pgasi_tokens_t;
extern pgasi_tokens_t pgasi_tokens;

bool pgasi_tokens_start(void);
void pgasi_tokens_stop(void);

/** Takes a token. Without reply (NULL) it is the token of a counter, and any number of answers may
 *  decrement sync. With reply, one answer of reply_bytes from rank is stored at reply; then sync is
 *  decremented.
 *  @return PGAS_OK.
 *  @return PGAS_ERR_LIMIT: all PGASI_TOKENS_MAX entries are in use. */
pgas_status_t pgasi_token_take(pgas_sync_t *sync, int rank, void *reply, size_t reply_bytes,
                               uint32_t *token_p);
/** Takes the token of a reply of a handler. An error will name this handler. Statuses: as
 *  pgasi_token_take. */
pgas_status_t pgasi_token_take_for(pgas_sync_t *sync, int rank, uint32_t handler, void *reply,
                                   size_t reply_bytes, uint32_t *token_p);
/** Frees the token's entry. False: an answer or a death has freed it before. */
bool pgasi_token_give(uint32_t token);

/** Returns the address for a reply of so many bytes to this rank; NULL if no thread waits for this
 *  reply. */
void *pgasi_token_reply(uint32_t token, size_t bytes);

/** Returns the entry of a token that is in use, otherwise NULL. */
static inline pgasi_token_entry_t *pgasi_token_find(uint32_t token)
{
    uint32_t index = token >> 16;
    if (!token || index >= __atomic_load_n(&pgasi_tokens.n_ever, __ATOMIC_RELAXED))
        return NULL;
    pgasi_token_entry_t *e = &pgasi_tokens.entries[index];
    return __atomic_load_n(&e->token, __ATOMIC_ACQUIRE) == token ? e : NULL;
}

/** One call more that rank has to answer.
 *  @return PGAS_OK.
 *  @return PGAS_ERR_NO_MEMORY: the first call of this entry, and nothing is counted. */
pgas_status_t pgasi_outstanding_add(pgasi_token_entry_t *e, int rank, uint32_t handler);
/** One call less that rank has to answer. False: the rank has none to answer. */
bool pgasi_outstanding_take(pgasi_token_entry_t *e, int rank);
/** Forgets all calls that have no answer yet. No answer may run meanwhile. */
void pgasi_outstanding_drop(pgasi_token_entry_t *e);

/** Returns the table of the latest handler that each rank was asked to run. */
static inline uint16_t *pgasi_outstanding_handlers(uint32_t *outstanding)
{
    return (uint16_t *)(void *)(outstanding + pgasi_boot.n_ranks);
}

#endif
