/** The cache's side of the protocol: cache lines of this rank for chunks of other nodes. The
 *  callers of all functions are serving (msg/serve.h). */
#ifndef PGASI_ARRAY_CACHE_H
#define PGASI_ARRAY_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include "array/grant.h"
#include "array/map.h"
#include "pgas/sync.h"

typedef struct pgasi_array pgasi_array_t;

/** A counter that a prefetch raised for a chunk. */
typedef struct pgasi_array_told {
    struct pgasi_array_told *next;
    pgas_sync_t *sync;
} pgasi_array_told_t;

#define PGASI_ARRAY_NONE UINT32_MAX /* no cache line; the end of a list of chunks */

typedef struct {
    pgasi_array_grant_t grant;
    uint8_t state;
    uint8_t level, closed; /* as in a directory entry */
    bool leaving;          /* evicted, not free yet */
    int home;              /* of the chunk, a team rank */
    uint32_t op;           /* requested */
    uint64_t joined_ns;    /* when the line was taken for a chunk of this node's other ranks */
    pgasi_array_queue_t waiting;
    pgasi_array_told_t *told; /* counters of prefetches, until the chunk is here */
    uint32_t next_free, next_closing;
} pgasi_array_cache_line_t;

void pgasi_array_cache_start(pgasi_array_t *a);

/** Accepts an access that found no cache line, or one that does not permit it. It completes later.
 *  @return an error: it is not accepted. */
pgas_status_t pgasi_array_cache_access(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                       pgasi_array_access_t *x, bool sequential);
/** Asks for chunks first .. first + n - 1 ahead of their use, as far as lines are free. sync, if it
 *  is not NULL, is raised for each chunk that is on its way then, and lowered when it is here. */
void pgasi_array_cache_prefetch(pgasi_array_t *a, uint64_t first, uint64_t n,
                                pgasi_array_need_t need, uint32_t op, pgas_sync_t *sync);
/** Asks for the chunk of another rank of this node, to combine into a line of this rank, if a line
 *  is free for it. */
void pgasi_array_cache_join(pgasi_array_t *a, const pgasi_array_location_t *loc, uint32_t op);
/** Accepts an access to a chunk that this rank has asked for in this way. It completes later.
 *  @return false: it is not accepted. */
bool pgasi_array_cache_await(pgasi_array_t *a, const pgasi_array_location_t *loc,
                             pgasi_array_access_t *x);
/** A rank of the team has died: ends all counters of prefetches. */
void pgasi_array_cache_end_prefetches(pgasi_array_t *a);
/** The home sends GIVE, LEND, DATA_*, GRANT_* or WB_ACK. */
void pgasi_array_cache_event(pgasi_array_t *a, uint64_t chunk, pgasi_array_event_t event,
                             uint32_t line);
/** Elements of a chunk arrive, a piece of them or all. */
void pgasi_array_cache_elements(pgasi_array_t *a, uint64_t chunk, uint32_t line, uint64_t offset,
                                const void *data, size_t bytes);
/** A pin of a line ended that the home's recall may wait for. */
void pgasi_array_cache_unpinned(pgasi_array_t *a, pgasi_array_grant_t *grant);
/** Evicts lines if few are free, or if an access waits for one. */
void pgasi_array_cache_keep_free(pgasi_array_t *a);
/** After a barrier: continues with the lines that all threads have left. */
void pgasi_array_cache_poll(pgasi_array_t *a);
/** No thread waits for the access any more. */
void pgasi_array_cache_forget(pgasi_array_t *a, const pgasi_array_access_t *x);
/** Evicts all lines that can be evicted; true once all lines are free. */
bool pgasi_array_cache_empty(pgasi_array_t *a);

#endif
