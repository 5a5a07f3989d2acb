/** Segments: the heap of every rank, attached memory, and the table that turns global pointers into
 *  addresses.
 *
 *  A rank's segment space has 16384 slots of 1 GiB. Slot 0 is never used (so that 0 is null). The
 *  heap begins at slot 1; attached memory takes whole slots behind it. */
#ifndef PGASI_SEGMENT_H
#define PGASI_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mem/ctx.h"
#include "pgas/gptr.h"

#define PGASI_SLOT_BYTES     (UINT64_C(1) << 30)
#define PGASI_SLOTS_PER_RANK ((PGAS_OFFSET_MAX + 1) / PGASI_SLOT_BYTES)
#define PGASI_HEAP_OFFSET    PGAS_HEAP_OFFSET

typedef struct {
    uint64_t offset, bytes; /* bytes 0: free entry */
    char *address;
    pgasi_tp_mem_t *mem; /* NULL: no transport */
    bool key_is_known;   /* a peer has its key */
} pgasi_segment_t;

/** This rank's segments: [0] is the heap. */
extern pgasi_segment_t *pgasi_segments;
extern int pgasi_n_segments;
extern size_t pgasi_heap_page_bytes;
extern bool pgasi_heap_from_transport; /* otherwise anonymous (boot/shm.c) */

/** Bytes behind the heap, in the same registration, for src/msg. It sets this before start, the
 *  same on all ranks. No global pointer refers to them. */
extern size_t pgasi_heap_tail_bytes;
/** The address of these bytes; of those of another rank of the node. */
char *pgasi_heap_tail(void);
char *pgasi_heap_tail_at(int node_rank);
/** Finds these bytes of a peer as the context (open, locked, with the heap's key) knows them.
 *  *mapped_p NULL: they are reached by the key only. @return PGAS_ERR_NOT_FOUND: no key */
pgas_status_t pgasi_heap_tail_of(const pgasi_ctx_t *ctx, int rank, pgasi_tp_key_t **key_p,
                                 uint64_t *address_p, char **mapped_p);

/** Finds the key through which the context (open, locked) reaches bytes of a peer's heap, and the
 *  address there. Unlike pgasi_key_get it does not wait.
 *  @return PGAS_OK: *key_p and *address_p are set
 *          PGAS_ERR_NOT_FOUND: the context has no key yet
 *          PGAS_ERR_RANGE: the bytes are not in the heap */
pgas_status_t pgasi_heap_reach(const pgasi_ctx_t *ctx, int rank, uint64_t offset, uint64_t bytes,
                               pgasi_tp_key_t **key_p, uint64_t *address_p);

/** Starts and stops everything below. Collective. */
pgas_status_t pgasi_mem_start(void);
void pgasi_mem_stop(void);
/** Allocates, maps and registers the heap, and fills the table. Collective. */
pgas_status_t pgasi_segments_start(void);
void pgasi_segments_stop(void);

/** Changes a segment while other threads look up segments. The caller excludes other changes. */
void pgasi_segment_set(pgasi_segment_t *s, uint64_t offset, uint64_t bytes, char *address);
/** From now on no memory is attached. */
void pgasi_attach_start(void);

/** The way from the calling rank to the memory of a global pointer. */
typedef enum {
    PGASI_WHERE_HERE,    /* at an address: loads and stores */
    PGASI_WHERE_SERVICE, /* on this node, not mapped: by the owner's service thread */
    PGASI_WHERE_FAR      /* through the transport */
} pgasi_where_t;

/** Checks ptr and bytes as far as this rank can. @return PGAS_ERR_RANGE: they are not in a
 *  segment */
pgas_status_t pgasi_resolve(pgas_gptr_t ptr, size_t bytes, pgasi_where_t *where_p,
                            void **address_p);

/** Finds bytes at an offset in this rank's segments; NULL: they are not in a segment. Requests of
 *  peers are checked by it. */
char *pgasi_segment_address(uint64_t offset, uint64_t bytes);

/** Finds the key through which the context (open, locked) reaches bytes at (rank, offset), and the
 *  address there. It may wait until the owner has sent it. @return PGAS_ERR_RANGE: there is no such
 *  segment */
pgas_status_t pgasi_key_get(pgasi_ctx_t *ctx, int rank, uint64_t offset, uint64_t bytes,
                            pgasi_tp_key_t **key_p, uint64_t *address_p);

/** The description of a segment: the answer to a key request. */
typedef struct pgasi_segment_wire {
    uint64_t offset, bytes, address;
    uint32_t key_bytes;
    uint8_t key[PGASI_TP_KEY_MAX];
} pgasi_segment_wire_t;
/** Stores a peer's segment in the context (open, locked), so that pgasi_key_get need not ask the
 *  peer. */
pgas_status_t pgasi_key_learn(pgasi_ctx_t *ctx, int rank, const pgasi_segment_wire_t *wire);
/** Describes the own segment at offset. @return PGAS_ERR_RANGE: there is none */
pgas_status_t pgasi_segment_describe(uint64_t offset, pgasi_segment_wire_t *wire_p);

/** Bytes of attached memory, now and at the maximum. */
void pgasi_segments_attached(uint64_t *bytes_p, uint64_t *high_p);

/* heap.c: the allocator of segment 0 */
pgas_status_t pgasi_heap_start(size_t bytes);
void pgasi_heap_stop(void);
/** Reserves the lowest free range of the bottom part at or above `from`. @return PGAS_OK,
 *  PGAS_ERR_NO_MEMORY (not logged) */
pgas_status_t pgasi_heap_reserve(uint64_t from, size_t bytes, uint64_t *offset_p);
void pgasi_heap_unreserve(uint64_t offset);
/** Whether a reserved range begins at this offset. */
bool pgasi_heap_is_reserved(uint64_t offset);
/** From this offset on, nothing is reserved. */
uint64_t pgasi_heap_top(void);
/** Logs that a request does not fit. */
void pgasi_heap_report(const char *what, size_t bytes);
/** Allocates a block of this rank from the top. 0 bytes give PGAS_NULL. @return PGAS_OK,
 *  PGAS_ERR_NO_MEMORY (logged) */
pgas_status_t pgasi_heap_alloc(size_t bytes, pgas_gptr_t *ptr_p);
/** Frees such a block. @return false: it is not a live block of pgasi_heap_alloc; not logged */
bool pgasi_heap_free(pgas_gptr_t ptr);
/** Allocates and frees super-chunks from the same end; pgasi_heap_free does not free them. Any
 *  thread. Offsets are those of the heap. Failures are not logged. @return PGAS_OK,
 *  PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_heap_take(uint64_t bytes, uint64_t alignment, uint64_t *offset_p);
void pgasi_heap_give(uint64_t offset);
/** Bytes of the heap by use, now and at the maximum. */
typedef struct {
    uint64_t symmetric, symmetric_high;
    uint64_t local, local_high; /* of pgasi_heap_alloc */
    uint64_t chunks, chunks_high;
} pgasi_heap_use_t;
void pgasi_heap_use(pgasi_heap_use_t *use_p);

/* symmetric.c */
extern uint32_t pgasi_symmetric_votes; /* for tests: allreduces of pgas_team_alloc and _free */
/** From now on no team has a block. */
void pgasi_symmetric_stop(void);

#endif
