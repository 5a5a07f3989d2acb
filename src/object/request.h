/** Requests for objects of other ranks. */
#ifndef PGASI_REQUEST_H
#define PGASI_REQUEST_H

#include <stdint.h>
#include "pgas/object.h"

void pgasi_requests_start(void);

/** Calls that carried requests, requests in them, and requests that were pushed onto a list. */
typedef struct {
    uint64_t n_calls, n_requests, n_pushed;
} pgasi_object_stats_t;
extern pgasi_object_stats_t pgasi_object_stats;

#endif
