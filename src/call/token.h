/** Tokens.
 */
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
} pgasi_token_entry_t;
#define PGASI_OUTSTANDING_BYTES (sizeof(uint32_t) + sizeof(uint16_t)) /* per rank */

typedef struct {
    pgasi_token_entry_t *entries; /* [PGASI_TOKENS_MAX] */
    uint64_t free_head;           /* tag << 32 | index */
    uint32_t n_ever;              /* entries that were ever taken: those behind are fresh */
} pgasi_tokens_t;
extern pgasi_tokens_t pgasi_tokens;

bool pgasi_tokens_start(void);
void pgasi_tokens_stop(void);

/** A token for answers that make sync fall: any number (reply NULL), or one of reply_bytes from a
 *  rank, which is stored at reply before. */
pgas_status_t pgasi_token_take(pgas_sync_t *sync, int rank, void *reply, size_t reply_bytes,
                               uint32_t *token_p);
/** The same for the reply of a handler, which an error will name. */
pgas_status_t pgasi_token_take_for(pgas_sync_t *sync, int rank, uint32_t handler, void *reply,
                                   size_t reply_bytes, uint32_t *token_p);
/** Ends the token; false if somebody else has, by an answer or a death. */
bool pgasi_token_give(uint32_t token);

/** Where a reply of so many bytes to this rank goes; NULL if nobody waits for it. */
void *pgasi_token_reply(uint32_t token, size_t bytes);

static inline pgasi_token_entry_t *pgasi_token_find(uint32_t token)
{
    uint32_t index = token >> 16;
    if (!token || index >= __atomic_load_n(&pgasi_tokens.n_ever, __ATOMIC_RELAXED))
        return NULL;
    pgasi_token_entry_t *e = &pgasi_tokens.entries[index];
    return __atomic_load_n(&e->token, __ATOMIC_ACQUIRE) == token ? e : NULL;
}

/** outstanding */
pgas_status_t pgasi_outstanding_add(pgasi_token_entry_t *e, int rank, uint32_t handler);
/** One call less; false if the rank owes none. */
bool pgasi_outstanding_take(pgasi_token_entry_t *e, int rank);
/** The counter ends before its calls; answers do not run meanwhile. */
void pgasi_outstanding_drop(pgasi_token_entry_t *e);

/* The latest handler that each rank was asked for. */
static inline uint16_t *pgasi_outstanding_handlers(uint32_t *outstanding)
{
    return (uint16_t *)(void *)(outstanding + pgasi_boot.n_ranks);
}

#endif
