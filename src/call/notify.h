/** Completions that are written: a counter in registered memory falls by the hand of the rank that
 *  ran the call, with no message back.
 *
 *  Every rank has a table of completion records in memory that its node maps, one per entry of its
 *  table of counters (sync.c). A completion record tells where the counter lies and which token
 *  names it. Who completes a call enters the completion record (an atomic addition that checks the
 *  token), writes the counter through its own mapping of the owner's heap, and leaves; the owner
 *  closes the completion record and waits for those inside, a few instructions, before the
 *  counter's memory is anybody else's. So a completion that comes too late finds another token and
 *  writes nothing.
 *
 *  Not so, but by message: counters outside of the heap, with a function, and all in jobs that
 *  outlive their ranks (PGAS_ON_PEER_DEATH=continue): a rank that dies between the counter and the
 *  note of what it owed could not be told from one that had done neither. Between nodes too: a
 *  message has to carry the token's check to a CPU of the owner in any case, since UCX's atomics
 *  are carried out there. */
#ifndef PGASI_NOTIFY_H
#define PGASI_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/checks.h"
#include "pgas/gptr.h"
#include "pgas/sync.h"

typedef struct {
    PGASI_ALIGNED(64) uint64_t state; /* token << 32 | ranks that are inside; token 0: closed */
    pgas_gptr_t counter;
    uint64_t error; /* of the counter, the first: pgasi_error_pack; 0: none */
} pgasi_completion_t;

/** Maps the tables of the node, n completion records each. Collective over the node, same status
 *  everywhere. */
pgas_status_t pgasi_notify_start(uint32_t n);
void pgasi_notify_stop(void);

/** The own completion record of a token's entry; NULL before start. */
pgasi_completion_t *pgasi_completion_of(uint32_t token);

/** True if completions of the counter may be written; then they are until it is closed. */
bool pgasi_notify_open(uint32_t token, const pgas_sync_t *sync);
/** No more: on return nobody writes the counter any longer. Any token. */
void pgasi_notify_close(uint32_t token);

/** A call of a rank of this node completed: its counter falls by one. False if it must be told by
 *  message. */
bool pgasi_notify_write(int rank, uint32_t token, pgas_status_t status, uint32_t handler);

/** The first error of a counter in one word: the peer, the handler, the status. */
static inline uint64_t pgasi_error_pack(pgas_status_t status, int rank, uint32_t handler)
{
    return (uint64_t)(uint32_t)rank << 32 | (uint64_t)(handler & 0xFFFF) << 16 |
           (uint16_t)(int16_t)status;
}
static inline pgas_sync_error_t pgasi_error_unpack(uint64_t error)
{
    pgas_sync_error_t e = { (pgas_status_t)(int16_t)(uint16_t)error, (int)(error >> 32),
                            (uint16_t)(error >> 16) };
    return e;
}

/** Keeps the first error; before the counter falls for it, so that it is whole when the counter has
 *  reached zero. completion record may be NULL: then only the status is kept. */
static inline void pgasi_sync_note(pgas_sync_t *sync, pgasi_completion_t *completion,
                                   pgas_status_t status, int rank, uint32_t handler)
{
    uint64_t none = 0;
    int32_t fine = PGAS_OK;
    if (!completion || __atomic_compare_exchange_n(&completion->error, &none,
                                                   pgasi_error_pack(status, rank, handler), false,
                                                   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        __atomic_compare_exchange_n(&sync->status, &fine, status, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
}

#endif
