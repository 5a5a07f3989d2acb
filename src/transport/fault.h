/** Faults on purpose: a wrapper that makes any transport as bad as its contract allows
 *  (pgasi_tp_fault_wrap in transport.h applies it). The text is a list of items, separated by
 *  commas; 0 switches an item off:
 *
 *    delay=N            completions and outgoing active messages are held for up to N progress
 *                       calls
 *    reorder=N          puts, gets and atomics, and active messages to different peers, are issued
 *                       up to N progress calls later and in another order; completions too come in
 *                       another order
 *    again=N            operations are refused with PGAS_ERR_AGAIN, up to N times in a row
 *    drop-reg=RANK[:K]  on that rank, allocating and registering memory fails, after K that succeed
 *                       (default 0)
 *    seed=N             in place of the caller's seed
 *
 *  What the contract promises still holds: messages of a context to one peer stay in order, a fence
 *  separates, a flush waits, nothing completes twice or before its time. A rank that makes the same
 *  calls sees the same faults. Held work needs progress: arm() says PGAS_ERR_BUSY while there is
 *  any. */
#ifndef PGASI_TRANSPORT_FAULT_H
#define PGASI_TRANSPORT_FAULT_H

#include "transport/transport.h"

#define PGASI_FAULT_N_MAX 1000000

typedef struct {
    int delay, reorder, again;
    int drop_reg;       /* rank, or -1 */
    int drop_reg_after; /* registrations that succeed first */
    bool has_seed;
    uint64_t seed;
} pgasi_fault_plan_t;

/** Parses a text. Pure.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  why holds the item and the allowed values; *plan_p is unchanged */
pgas_status_t pgasi_fault_parse(const char *text, pgasi_fault_plan_t *plan_p, char *why,
                                size_t why_bytes);

#endif
