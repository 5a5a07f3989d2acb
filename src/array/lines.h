/** Cache lines of this rank for chunks of other nodes: which chunk has which line, and which lines
 *  are free. The callers of all functions are serving (msg/serve.h). */
#ifndef PGASI_ARRAY_LINES_H
#define PGASI_ARRAY_LINES_H

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
    uint32_t run;          /* number + 1 of the run that it belongs to; 0: none (runs.h) */
    int home;              /* of the chunk, a team rank */
    uint32_t op;           /* requested */
    char *data; /* where element 0 of the block would be: in memory of this rank, or at the home */
    uint64_t joined_ns; /* when the line was taken for a chunk of this node's other ranks */
    pgasi_array_queue_t waiting;
    pgasi_array_told_t *told; /* counters of prefetches, until the chunk is here */
    uint32_t next_free, next_closing;
} pgasi_array_cache_line_t;

void pgasi_array_lines_start(pgasi_array_t *a);

/** The line of a chunk, or PGASI_ARRAY_NONE. */
uint32_t pgasi_array_line_find(const pgasi_array_t *a, uint64_t chunk);
/** How many free lines may be taken for chunks that are requested ahead of their use. */
uint32_t pgasi_array_lines_ahead(const pgasi_array_t *a);
/** Takes a free line for a chunk that has none. Its state is C_I. Its grant is the chunk's (in_run:
 *  no chunk's), and permits nothing. @return PGASI_ARRAY_NONE: no line is free. */
uint32_t pgasi_array_line_take(pgasi_array_t *a, const pgasi_array_location_t *loc, bool in_run);
/** The chunk has no line any more. */
void pgasi_array_line_free(pgasi_array_t *a, uint32_t li, uint64_t chunk);
/** The line's grant becomes the chunk's. */
void pgasi_array_line_renew(pgasi_array_t *a, uint32_t li, uint64_t chunk,
                            pgasi_array_permit_t permits);
/** The memory of this rank for the elements. */
char *pgasi_array_line_memory(const pgasi_array_t *a, uint32_t li);

#endif
