/** The members of a transmitter that inline functions of pgas/verbs_tx.h read. */
#ifndef PGAS_DETAIL_VERBS_TX_H
#define PGAS_DETAIL_VERBS_TX_H

#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

typedef struct pgas_verbs_tx pgas_verbs_tx_t;

/** The transmitter begins with these words. Posting threads write the first cache line, polling
 *  threads the second. */
typedef struct {
    uint64_t posted;
    uint64_t inside[7];
    uint64_t done; /* PGASI_VERBS_TX_ENDED: the connection has ended */
} pgasi_verbs_tx_head_t;

#define PGASI_VERBS_TX_ENDED UINT64_MAX

static inline uint64_t pgasi_verbs_tx_posted(const pgas_verbs_tx_t *tx)
{
    const void *head = tx;
    return __atomic_load_n(&PGAS_CAST(const pgasi_verbs_tx_head_t *, head)->posted,
                           __ATOMIC_RELAXED);
}

static inline uint64_t pgasi_verbs_tx_done(const pgas_verbs_tx_t *tx)
{
    const void *head = tx;
    uint64_t done =
        __atomic_load_n(&PGAS_CAST(const pgasi_verbs_tx_head_t *, head)->done, __ATOMIC_ACQUIRE);
    return done != PGASI_VERBS_TX_ENDED ? done : pgasi_verbs_tx_posted(tx);
}

PGAS_END_DECLS
#endif
