/** Segments: the heap of every rank, attached memory, and the table that turns global pointers into
 *  addresses.
 *
 *  A rank's segment space has 16384 slots of 1 GiB. Slot 0 is never used (so that 0 is null), the
 *  heap begins at slot 1, attached memory takes whole slots behind it. */
#ifndef PGASI_SEGMENT_H
#define PGASI_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "mem/ctx.h"
#include "pgas/gptr.h"

#define PGASI_SLOT_BYTES     (UINT64_C(1) << PGAS_SEGTAB_SHIFT)
#define PGASI_SLOTS_PER_RANK (UINT64_C(1) << (PGAS_OFFSET_BITS - PGAS_SEGTAB_SHIFT))
#define PGASI_HEAP_OFFSET    PGASI_SLOT_BYTES

typedef struct {
    uint64_t offset, bytes; /* bytes 0: free entry */
    char *address;
    pgasi_tp_mem_t *mem; /* NULL: no transport */
    bool told;           /* a peer has its key */
} pgasi_segment_t;

/** This rank's segments: [0] is the heap. */
extern pgasi_segment_t *pgasi_segments;
extern int pgasi_n_segments;
extern size_t pgasi_heap_page_bytes;
extern bool pgasi_heap_from_transport; /* else memfd */

/** Bytes behind the heap, in the same registration, for the call layer, which sets this before
 *  start (the same on all ranks): no global pointer leads there. */
extern size_t pgasi_heap_tail_bytes;
/** Where they are; those of another rank of the node. */
char *pgasi_heap_tail(void);
char *pgasi_heap_tail_at(int node_rank);
/** A peer's tail as the context (open, locked, with the heap's key learned) sees it; *mapped_p
 *  NULL: by the key only. PGAS_ERR_NOT_FOUND: no key. */
pgas_status_t pgasi_heap_tail_of(const pgasi_ctx_t *ctx, int rank, pgasi_tp_key_t **key_p,
                                 uint64_t *address_p, char **mapped_p);

/** Start and stop of all below. Collective. */
pgas_status_t pgasi_mem_start(void);
void pgasi_mem_stop(void);
/** Allocates, maps and registers the heap; fills the table. Collective. */
pgas_status_t pgasi_segments_start(void);
void pgasi_segments_stop(void);

/** Enters a segment into the table, or removes it (address NULL). */
void pgasi_segtab_set(int rank, uint64_t offset, uint64_t bytes, char *address);
/** No memory is attached. */
void pgasi_attach_start(void);

/** Where a global pointer leads for the calling rank. */
typedef enum {
    PGASI_WHERE_HERE,    /* address: loads and stores */
    PGASI_WHERE_SERVICE, /* same node, not mapped: the owner's service */
    PGASI_WHERE_FAR      /* through the transport */
} pgasi_where_t;

/** Checks ptr and bytes as far as this rank can; PGAS_ERR_RANGE otherwise. */
pgas_status_t pgasi_resolve(pgas_gptr_t ptr, size_t bytes, pgasi_where_t *where_p,
                            void **address_p);

/** The own segment that holds bytes at offset, NULL if none: for requests of peers, which are
 *  checked by this. */
pgasi_segment_t *pgasi_segment_find(uint64_t offset, uint64_t bytes);

/** The key through which the context (open, locked) reaches bytes at (rank, offset), and the
 *  address there. May wait for the owner to send it. PGAS_ERR_RANGE if there is no such segment. */
pgas_status_t pgasi_key_get(pgasi_ctx_t *ctx, int rank, uint64_t offset, uint64_t bytes,
                            pgasi_tp_key_t **key_p, uint64_t *address_p);

/** What a rank tells about a segment; the answer to a key request. */
typedef struct pgasi_segment_wire {
    uint64_t offset, bytes, address;
    uint32_t key_bytes;
    uint8_t key[PGASI_TP_KEY_MAX];
} pgasi_segment_wire_t;
/** Makes a peer's segment known to the context (open, locked), so that pgasi_key_get need not
 *  ask. */
pgas_status_t pgasi_key_learn(pgasi_ctx_t *ctx, int rank, const pgasi_segment_wire_t *wire);
/** Fills wire with the own segment at offset; PGAS_ERR_RANGE if there is none. */
pgas_status_t pgasi_segment_describe(uint64_t offset, pgasi_segment_wire_t *wire_p);

/** Bytes of attached memory, now and at most. */
void pgasi_segments_attached(uint64_t *bytes_p, uint64_t *high_p);

/* heap.c: the allocator over segment 0 */
pgas_status_t pgasi_heap_start(size_t bytes);
void pgasi_heap_stop(void);
/** Super-chunks from the end of pgas_alloc_local, which pgas_free_local does not free; any thread.
 *  Offsets are those of the heap. Not logged. @return PGAS_OK, PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_heap_take(uint64_t bytes, uint64_t alignment, uint64_t *offset_p);
void pgasi_heap_give(uint64_t offset);
/** Bytes of the heap by what they are for, now and at most. */
typedef struct {
    uint64_t symmetric, symmetric_high;
    uint64_t local, local_high; /* of pgas_alloc_local */
    uint64_t chunks, chunks_high;
} pgasi_heap_use_t;
void pgasi_heap_use(pgasi_heap_use_t *use_p);

#endif
