/** Aggregators inside the library. */
#ifndef PGASI_AGG_H
#define PGASI_AGG_H

#include "msg/send_queue.h"

struct pgasi_message;

/** Adds a message for an endpoint to an aggregator's batch, or sends it, as its style says. */
pgas_status_t pgasi_agg_append(pgas_agg_t *agg, int rank, int ep, const struct pgasi_message *m,
                               pgas_full_t full);

/** Aggregators that threads with contexts of their own have in the shared context. */
extern int pgasi_agg_n_sends;
static inline bool pgasi_agg_sends(void)
{
    return __atomic_load_n(&pgasi_agg_n_sends, __ATOMIC_RELAXED) > 0;
}

void pgasi_agg_start(void);

#endif
