/** The array inside the library: the object, and which file does what.
 *
 *  An access passes these files from top to bottom, and each of them uses only files below it:
 *
 *      element.c, many.c, bulk.c,    public functions
 *      pin.c
 *      record.c                      applies to cold chunks, without a miss
 *      access.c                      tries the grant; on a miss enters the protocol and waits
 *      grant.c                       what threads may do now, with mapping.c, own_pins.c, slots.c
 *      protocol.c                    chooses the side, waits, rounds of progress
 *      home.c or cache.c             the two sides, driven by the table in state.c; with
 *                                    contribution.c, sparse.c, policy.c, runs.c and lines.c
 *      send.c                        messages
 *      put.c                         elements that are put before a message
 *
 *  Messages come back through receive.c, which calls home.c and cache.c. These complete the access
 *  (descriptor.c), and its thread returns from its wait in protocol.c.
 *
 *  Beside that way: array.c creates and destroys arrays, with options.c. registry.c has all arrays.
 *  map.c says where elements are. join.c counts applies. op.c has the operators, lock.c the locks.
 *  audit.c and invariants.c have the checks.
 *
 *  The protocol runs on one thread of a rank at a time: the thread that has the receive lock. That
 *  is a service thread with a message, or an application thread that misses (pgasi_serve_begin).
 *  "Serving" in a comment means: the caller has that lock.
 *
 *  A cache line belongs to one rank, not to the node. So two ranks of a node that use a chunk of
 *  another node have two copies. That costs memory and a second transfer. In return no thread needs
 *  another rank of its node for chunks that are not at home there.
 *
 *  Ranks of the home's node use the chunk itself. But if several of them combine into it, each
 *  operand costs a transfer between processors. So a rank that does it often (join.c) gets a cache
 *  line for contributions, as ranks of other nodes do, and the home's chunk becomes Operated. */
#ifndef PGASI_ARRAY_H
#define PGASI_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "array/cache.h"
#include "array/grant.h"
#include "array/home.h"
#include "array/map.h"
#include "array/runs.h"
#include "msg/serve.h"
#include "pgas/array.h"
#include "pgas/gptr.h"

/** Memory of the heap that an array takes. */
typedef enum {
    PGASI_ARRAY_DATA,
    PGASI_ARRAY_GRANTS,
    PGASI_ARRAY_TABLE,
    PGASI_ARRAY_READABLE,
    PGASI_ARRAY_LINES,
    PGASI_ARRAY_N_MEMORIES
} pgasi_array_memory_t;

/** Where the memory of a rank of this node is, in this process. */
typedef struct {
    char *data; /* NULL: the rank is of another node */
    pgasi_array_grant_t *grants;
    pgas_array_mapping_t *table;
    uintptr_t *readable;
} pgasi_array_peer_t;

typedef struct pgasi_array_sparse pgasi_array_sparse_t;

typedef struct pgasi_array {
    pgas_array_t pub; /* first: what the program has */
    uint32_t id;
    pgas_team_t *team;
    int rank, n_ranks; /* in the team */
    int *global;       /* team rank to rank */
    int *node_rank;    /* team rank to rank of this node, -1: it is on another node */
    pgasi_array_map_t map;
    size_t stride; /* bytes of a chunk */
    bool wide;     /* no single load reads an element */
    bool guard_all;
    pgasi_array_peer_t *peer; /* [n_ranks] */
    pgas_gptr_t memory[PGASI_ARRAY_N_MEMORIES];
    uint64_t heap_bytes;
    /* home */
    pgasi_array_dir_t *dir;
    uint64_t n_home;
    uint32_t closing_dir;
    /* a team rank whose WB_ACK waits, because the home still reads its line; -1: none */
    int late_ack;
    pgasi_array_request_t *spare; /* requests with few bytes of values, or none */
    pgasi_array_contribution_t *spare_contributions;
    uint32_t n_spare_contributions;
    /* cache */
    uint32_t *line_of; /* by chunk: line + 1, 0: none */
    pgasi_array_cache_line_t *line;
    char *line_data;
    uint32_t n_lines, n_free, first_free, n_low, n_high, hand, closing_line, n_closing, n_leaving;
    pgasi_array_run_t *run;          /* NULL: walks request chunks one by one */
    uint32_t n_runs, first_free_run; /* number + 1; 0: none */
    uint32_t run_ahead;              /* chunks that a walk has requested beyond those of a run */
    uint64_t *home_offset;           /* of the data in each team rank's heap */
    uint64_t *line_offset;           /* of the cache lines there; 0: the rank has none */
    uint64_t *grant_offset;          /* of the grants there */
    uint8_t *reads_lines;            /* by team rank: as a home it reads contributions in lines */
    pgasi_array_queue_t want_line;   /* accesses that wait until a line is free */
    pgasi_array_sparse_t *sparse;    /* NULL: no chunk is combined into without a line */
    /* policy */
    uint64_t *filter; /* chunks that were missed not long ago, by hash */
    uint32_t filter_mask;
    uint16_t *heat;  /* of chunks without a cache line, by the same hash */
    uint16_t *joins; /* by chunk: samples of applies to chunks of this node's other ranks */
    uint32_t n_samples;
    uint32_t join_shift; /* reads ended joins soon: 2^this times as many samples are enough */
    uint32_t n_near, n_near_max; /* lines of chunks of this node's other ranks */
    uint64_t last_recall;        /* home: the last chunk that a read of this rank has recalled */
    int32_t contention; /* grows with chunks that threads share, shrinks with chunks of owners */
    bool fits;          /* every chunk of other nodes has a cache line */
    uint32_t n_apply_fetches; /* chunks that applies have fetched */
    int prefetch;
    uint32_t known_op[64], n_known_ops; /* operators of the program, in the order of use */
    uint64_t *knows;                    /* by team rank: which of them that rank has carried out */
    pgas_array_info_t info;             /* counters; atomic where several threads count */
} pgasi_array_t;

static inline pgasi_array_t *pgasi_array_of(pgas_array_t *array)
{
    return (pgasi_array_t *)(void *)array;
}
static inline const pgasi_array_t *pgasi_array_of_const(const pgas_array_t *array)
{
    return (const pgasi_array_t *)(const void *)array;
}

/** The site of a chunk whose home is on this node, and of a chunk that has a cache line. */
static inline pgasi_array_site_t pgasi_array_site_at_home(pgasi_array_t *a, int home,
                                                          uint64_t index, uint64_t chunk)
{
    const pgasi_array_peer_t *peer = &a->peer[home];
    return (pgasi_array_site_t){ .array = a,
                                 .grant = &peer->grants[index],
                                 .data = peer->data + index * a->stride,
                                 .chunk = chunk,
                                 .at_home = true,
                                 .at_own_home = home == a->rank,
                                 .cut = chunk >= a->map.n_blocks };
}
static inline pgasi_array_site_t pgasi_array_site_of_line(pgasi_array_t *a, uint32_t line,
                                                          uint64_t chunk)
{
    return (pgasi_array_site_t){ .array = a,
                                 .grant = &a->line[line].grant,
                                 .line_data = &a->line[line].data,
                                 .chunk = chunk,
                                 .at_home = false,
                                 .at_own_home = false,
                                 .cut = chunk >= a->map.n_blocks };
}

/** Adds to a counter of pgas_array_info_t, from any thread. */
static inline void pgasi_array_note(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
/** The same for counters that only the serving thread changes, or that may be wrong by a few. */
static inline void pgasi_array_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

/** The bit of a team rank among sharers and operators. With more ranks than this, ranks share
 *  bits. */
#define PGASI_ARRAY_EXACT_RANKS 64
static inline uint64_t pgasi_array_bit_of(const pgasi_array_t *a, int rank)
{
    uint64_t n = (uint64_t)a->n_ranks, r = (uint64_t)rank;
    return UINT64_C(1) << (n <= PGASI_ARRAY_EXACT_RANKS ? r : r * PGASI_ARRAY_EXACT_RANKS / n);
}

#endif
