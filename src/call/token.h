/** The table of tokens. A token names a record of this rank: an awaited reply, or a call whose
 *  answer lowers a counter. Calls carry the token, and answers bring it back.
 *
 *  Every reply has a record. A call without a reply has one only in jobs that outlive their ranks
 *  (PGAS_ON_PEER_DEATH=continue), because the death of the target must end it. In other jobs such a
 *  call carries the address of its counter (pgasi_wire_of_address).
 *
 *  A token is the index of a record and the record's generation. So an answer that comes late,
 *  twice, or without a call is recognised and ignored. */
#ifndef PGASI_TOKEN_H
#define PGASI_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/sync.h"

#define PGASI_TOKENS_MAX 65536u

typedef struct {
    uint32_t next;
    uint32_t token; /* the token that names the record; 0: the record is free */
    /* the lower half of the last token; never 0, so that no token is 0 */
    uint16_t generation;
    uint16_t handler; /* that was called */
    int32_t rank;     /* that answers */
    pgas_sync_t *sync;
    void *reply; /* NULL: no reply is wanted */
    size_t reply_bytes;
} pgasi_token_entry_t;

typedef struct {
    pgasi_token_entry_t *entries; /* [PGASI_TOKENS_MAX] */
    uint64_t free_head;           /* tag << 32 | index */
    /* records that were ever taken; records from this index on are unused */
    uint32_t n_ever;
} pgasi_tokens_t;
extern pgasi_tokens_t pgasi_tokens;

bool pgasi_tokens_start(void);
void pgasi_tokens_stop(void);

/** What a record holds. */
typedef struct {
    pgas_sync_t *sync;
    int rank;
    uint32_t handler;
    void *reply; /* NULL: no reply is wanted */
    size_t reply_bytes;
} pgasi_token_for_t;
/** Takes a token. One answer from the rank, or its death, lowers the counter.
 *  @return PGAS_OK.
 *  @return PGAS_ERR_LIMIT: all PGASI_TOKENS_MAX records are in use. */
pgas_status_t pgasi_token_take(const pgasi_token_for_t *what, uint32_t *token_p);
/** Frees the token's record. False: an answer or a death has freed it before. The thread that gets
 *  true owns the end of the call. */
bool pgasi_token_give(uint32_t token);

/** Returns the address for a reply of so many bytes to this rank; NULL if no thread waits for this
 *  reply. */
void *pgasi_token_reply(uint32_t token, size_t bytes);

/** Returns the record of a token that is in use, otherwise NULL. */
static inline pgasi_token_entry_t *pgasi_token_find(uint32_t token)
{
    uint32_t index = token >> 16;
    if (!token || index >= __atomic_load_n(&pgasi_tokens.n_ever, __ATOMIC_RELAXED))
        return NULL;
    pgasi_token_entry_t *e = &pgasi_tokens.entries[index];
    return __atomic_load_n(&e->token, __ATOMIC_ACQUIRE) == token ? e : NULL;
}

#endif
