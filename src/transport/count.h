/** Counts the operations of a transport: a wrapper for PGAS_STATS and for tests. It costs a call
 *  and two additions an operation. Each context has its own counters, so no cache line is shared.
 *  Outside of other wrappers it counts what the library asks for, inside of them what the network
 *  gets. */
#ifndef PGASI_TRANSPORT_COUNT_H
#define PGASI_TRANSPORT_COUNT_H

#include "transport/transport.h"

typedef enum {
    PGASI_COUNT_PUT,
    PGASI_COUNT_GET,
    PGASI_COUNT_AMO,
    PGASI_COUNT_AM,
    PGASI_COUNT_FLUSH,
    PGASI_COUNT_FENCE,
    PGASI_COUNT_KINDS
} pgasi_count_kind_t;

typedef struct {
    uint64_t n_ops[PGASI_COUNT_KINDS];   /* accepted operations */
    uint64_t n_bytes[PGASI_COUNT_KINDS]; /* of data, without headers */
    uint64_t n_again;                    /* refused with PGAS_ERR_AGAIN */
    uint64_t n_failed;                   /* refused with anything else */
    uint64_t n_received;                 /* incoming active messages and their data */
    uint64_t received_bytes;
    /* pieces of memory allocated by the transport or registered with it ... */
    uint64_t n_registered;
    uint64_t registered_bytes; /* ... and their bytes; released memory stays counted */
    /* puts and messages whose data are in watched memory */
    uint64_t n_watched;
    uint64_t watched_bytes;
} pgasi_tp_counts_t;

/** Wraps a table. The next call must open it (see wrap.h). */
const pgasi_tp_ops_t *pgasi_tp_count_wrap(const pgasi_tp_ops_t *ops);

/** From now on operations whose data are wholly in these bytes are also counted apart, for all
 *  instances; 0 bytes: none. No other thread may issue meanwhile. */
void pgasi_tp_count_watch(const void *from, size_t bytes);

/** Sums over contexts, closed ones included. Any thread; operations of other threads meanwhile may
 *  be counted or not. @return false: the instance does not count */
bool pgasi_tp_count_query(pgasi_tp_t *tp, pgasi_tp_counts_t *counts_p);

#endif
