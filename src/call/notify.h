/** Written completions: the rank that ran a call decrements the counter in registered memory
 *  itself, without a message back.
 *
 *  Every rank has a table of completion records in memory that its node maps: one record for each
 *  entry of its token table (token.h). A record says where the counter is and which token names it.
 *
 *  The rank that completes a call enters the record: an atomic addition that checks the token. It
 *  writes the counter through its own mapping of the owner's heap, and leaves. The owner closes the
 *  record and waits until no rank is inside, which takes a few instructions. Only then may the
 *  counter's memory be reused. So a completion that comes too late finds another token and writes
 *  nothing.
 *
 *  Other completions are messages:
 *  - Counters outside of the heap, and counters with a function.
 *  - All counters in jobs that outlive their ranks (PGAS_ON_PEER_DEATH=continue). A rank may die
 *    between the decrement of the counter and that of the outstanding count. The owner cannot
 *    distinguish such a rank from one that did neither.
 *  - Counters of other nodes. UCX's atomics are carried out by a CPU of the owner, so a message
 *    must carry the token to that CPU in any case. */
#ifndef PGASI_NOTIFY_H
#define PGASI_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/checks.h"
#include "pgas/gptr.h"
#include "pgas/sync.h"

typedef struct {
    /* token << 32 | number of ranks that are inside; token 0: closed */
    PGASI_ALIGNED(64) uint64_t state;
    pgas_gptr_t counter;
    uint64_t error; /* the counter's first error as pgasi_error_pack makes it; 0: none */
} pgasi_completion_record_t;

/** Maps the tables of the node, with n completion records each. Collective over the node. The
 *  status is the same on all ranks. */
pgas_status_t pgasi_notify_start(uint32_t n);
void pgasi_notify_stop(void);

/** Returns this rank's completion record of the token's entry; NULL before start. */
pgasi_completion_record_t *pgasi_completion_of(uint32_t token);

/** Opens the counter's record, if completions of the counter may be written. They are written until
 *  the record is closed. False: completions are messages. */
bool pgasi_notify_open(uint32_t token, const pgas_sync_t *sync);
/** Closes the record of any token. On return no rank writes the counter any longer. */
void pgasi_notify_close(uint32_t token);

/** A call of a rank of this node has completed. This function decrements the rank's counter by one.
 *  False: the completion must be reported by message. */
bool pgasi_notify_write(int rank, uint32_t token, pgas_status_t status, uint32_t handler);

/** Packs the first error of a counter into one word: rank, handler, status. */
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

/** Keeps the first error. The caller decrements the counter afterwards, so the error is complete
 *  when the counter has reached zero. If the completion record is NULL, only the status is kept. */
static inline void pgasi_sync_note(pgas_sync_t *sync, pgasi_completion_record_t *completion,
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
