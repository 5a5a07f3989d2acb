/** Delegation: the requesting side. */
#ifndef PGASI_DELEGATE_H
#define PGASI_DELEGATE_H

#include <stdint.h>
#include "pgas/delegate.h"

void pgasi_delegate_start(void);

/** Calls that carried requests, requests in them, and requests that were pushed onto a list. */
typedef struct {
    uint64_t n_calls, n_requests, n_pushed;
} pgasi_delegate_stats_t;
extern pgasi_delegate_stats_t pgasi_delegate_stats;

#endif
