/* A transport's ops table between the ranks of an MPI job, without the library above it: addresses
 * and keys go by MPI. Every rank has a heap that all others hold keys of. Everything waits with
 * progress on all contexts.
 *
 * Which table: that of PGAS_TEST_TRANSPORT (default ucx), or the one that PGAS_TEST_FAULT
 * (delay=N,...) makes of it. */
#ifndef T_BACKEND_WORLD_H
#define T_BACKEND_WORLD_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "t/spmd.h"
#include "transport/transport.h"

#define WORLD_CTXS_MAX 4

typedef struct {
    size_t heap_bytes;
    size_t am_data_max;     /* 0: 16 MiB */
    int n_ctxs;             /* 0: 2 */
    int job_ranks;          /* report this number of ranks to the transport; 0: the true number */
    bool real_nodes;        /* do not say that peers share the host */
    bool registered;        /* the heap is plain memory, registered */
    pgasi_tp_am_fn_t am_fn; /* NULL: messages fail the test */
    pgasi_tp_error_fn_t error_fn;
    pgasi_tp_suspect_fn_t suspect_fn; /* NULL: every lost connection is a death */
} world_opts_t;

typedef struct {
    int rank, size, n_ctxs;
    const pgasi_tp_ops_t *ops;
    pgasi_tp_t *tp;
    pgasi_tp_attr_t attr;
    pgasi_tp_ctx_t *ctxs[WORLD_CTXS_MAX];
    char *heap;
    size_t heap_bytes;
    uint64_t *bases;                       /* of every rank's heap */
    pgasi_tp_key_t **keys[WORLD_CTXS_MAX]; /* by context and rank */
    char *packed_keys;                     /* PGASI_TP_KEY_MAX each */
    size_t *key_bytes;
} world_t;

extern world_t world;

/* The next rank in the ring of all ranks. */
static inline int world_right(void)
{
    return (world.rank + 1) % world.size;
}

/* Collective; bails out when something fails. */
void world_open(const world_opts_t *opts);
void world_close(void);

/* Something that completes. */
typedef struct {
    pgasi_tp_comp_t super;
    bool done;
    pgas_status_t status;
} pending_t;

pgasi_tp_comp_t *world_pending(pending_t *pending);

/* Waits for an operation that returned `status` with world_pending(pending); gives the final
 * status. */
pgas_status_t world_wait(pgas_status_t status, pending_t *pending);

/* Progress of all contexts, once. */
void world_progress(void);

/* Blocking forms over context `context`, repeated while refused with PGAS_ERR_AGAIN. */
pgas_status_t world_put(int ctx, int peer, size_t offset, const void *src, size_t bytes);
pgas_status_t world_get(int ctx, int peer, size_t offset, void *dst, size_t bytes);
pgas_status_t world_amo(int ctx, int peer, size_t offset, pgasi_amo_t op, size_t bytes,
                        uint64_t operand, uint64_t compare, void *result);
pgas_status_t world_am(int ctx, int peer, const void *header, size_t header_bytes, const void *data,
                       size_t bytes);
pgas_status_t world_flush(int ctx, int peer);
pgas_status_t world_fence(int ctx);

/* All ranks come here, with progress. */
void world_barrier(void);

/* Data that tests know: the bytes from a place on, for a seed. */
void world_fill(void *to, uint64_t seed, size_t from, size_t bytes);
bool world_matches(const void *data, uint64_t seed, size_t from, size_t bytes);

#endif
