/** The cache's side of the protocol. The callers of all functions are serving (msg/serve.h). */
#ifndef PGASI_ARRAY_CACHE_H
#define PGASI_ARRAY_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include "array/lines.h"
#include "pgas/sync.h"

typedef struct pgasi_array pgasi_array_t;

void pgasi_array_cache_start(pgasi_array_t *a);

/** Accepts an access that found no cache line, or one that does not permit it. It completes later.
 *  @return an error: it is not accepted. */
pgas_status_t pgasi_array_cache_access(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                       pgasi_array_access_t *x, bool sequential);
/** Asks for chunks first .. first + n - 1 ahead of their use, as far as lines are free. sync, if it
 *  is not NULL, is raised for each chunk that is on its way then, and lowered when it is here. */
void pgasi_array_cache_prefetch(pgasi_array_t *a, uint64_t first, uint64_t n,
                                pgasi_array_need_t need, uint32_t op, pgas_sync_t *sync);
/** Asks for chunks first .. end - 1 in runs, ahead of a walk. */
void pgasi_array_cache_request_runs(pgasi_array_t *a, uint64_t first, uint64_t end);
/** Asks for the chunk of another rank of this node, to combine into a line of this rank, if a line
 *  is free for it. */
void pgasi_array_cache_join(pgasi_array_t *a, const pgasi_array_location_t *loc, uint32_t op);
/** Accepts an access to a chunk that this rank has asked for in this way. It completes later.
 *  @return false: it is not accepted. */
bool pgasi_array_cache_await(pgasi_array_t *a, const pgasi_array_location_t *loc,
                             pgasi_array_access_t *x);
/** A rank of the team has died: ends all counters of prefetches. */
void pgasi_array_cache_end_prefetches(pgasi_array_t *a);
/** The home sends GIVE, LEND, DATA_*, GRANT_* or WB_ACK. there: with DATA_*, where this rank uses
 *  the chunk at its home; NULL: the elements have arrived in the line. */
void pgasi_array_cache_event(pgasi_array_t *a, uint64_t chunk, pgasi_array_event_t event,
                             uint32_t line, char *there);
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
