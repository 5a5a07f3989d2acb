/** Delegation inside the library. */
#ifndef PGASI_DELEGATE_H
#define PGASI_DELEGATE_H

#include <stdint.h>
#include "pgas/delegate.h"

void pgasi_delegate_start(void);

/** Calls that carried requests, requests in them, and requests that were laid down for whoever
 *  sends next. */
typedef struct {
    uint64_t n_calls, n_requests, n_laid_down;
} pgasi_delegate_stats_t;
extern pgasi_delegate_stats_t pgasi_delegate_stats;

#endif
