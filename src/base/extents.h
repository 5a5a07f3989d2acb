/** A best-fit allocator of offsets in [0, size), with all its records outside of the memory that it
 *  manages.
 *
 *  It is pure: it never touches managed memory, takes no lock, and the same sequence of calls gives
 *  the same offsets on every rank, which is what the symmetric heap rests on. One thread at a time.
 *  Bytes are exact: whoever wants granules rounds before calling. Alignments are of offsets, powers
 *  of two. Cost: O(log n) in the number of extents; over-aligned requests also look at the free
 *  extents whose size lies in [bytes, bytes + alignment). One small record per extent, from a
 *  pool. */
#ifndef PGASI_EXTENTS_H
#define PGASI_EXTENTS_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

typedef struct pgasi_extents pgasi_extents_t;

typedef enum {
    PGASI_EXTENT_FREE,   /* no block covers the offset: never allocated or already freed */
    PGASI_EXTENT_BLOCK,  /* a block starts there */
    PGASI_EXTENT_INSIDE, /* within a block, not at its start */
    PGASI_EXTENT_OUTSIDE /* at or beyond size */
} pgasi_extent_state_t;

/** Make an allocator with everything free. @return PGAS_OK, PGAS_ERR_INVALID (size 0),
 *  PGAS_ERR_NO_MEMORY. */
pgas_status_t pgasi_extents_create(uint64_t size, pgasi_extents_t **extents_p);

/** Forget all blocks. NULL is allowed. */
void pgasi_extents_destroy(pgasi_extents_t *extents);

/** Allocate in the smallest free extent that holds the aligned block, the lowest one if there are
 *  several; the block stands at the lowest aligned offset in it.
 *  @return PGAS_OK, PGAS_ERR_INVALID (no bytes, alignment no power of two), PGAS_ERR_NO_MEMORY
 *          (nothing fits, or no memory for records); nothing changes on error. */
pgas_status_t pgasi_extents_alloc_low(pgasi_extents_t *extents, uint64_t bytes, uint64_t alignment,
                                      uint64_t *offset_p);

/** Allocate at the highest aligned offset at which the block is free. @return as alloc_low. */
pgas_status_t pgasi_extents_alloc_high(pgasi_extents_t *extents, uint64_t bytes, uint64_t alignment,
                                       uint64_t *offset_p);

/** Allocate exactly [offset, offset + bytes).
 *  @return PGAS_OK, PGAS_ERR_INVALID (no bytes), PGAS_ERR_RANGE (beyond size), PGAS_ERR_EXISTS
 *          (overlaps a block), PGAS_ERR_NO_MEMORY (records); nothing changes on error. */
pgas_status_t pgasi_extents_alloc_at(pgasi_extents_t *extents, uint64_t offset, uint64_t bytes);

/** Free the block that starts at offset.
 *  @return PGAS_OK; PGAS_ERR_INVALID (free already or never allocated, or inside a block:
 *          pgasi_extents_state tells which); PGAS_ERR_RANGE (beyond size). Never needs memory. */
pgas_status_t pgasi_extents_free(pgasi_extents_t *extents, uint64_t offset);

/** Size of the block that starts at offset. @return as pgasi_extents_free. */
pgas_status_t pgasi_extents_size_of(const pgasi_extents_t *extents, uint64_t offset,
                                    uint64_t *bytes_p);

/** Tell what covers an offset; the outputs (each may be NULL) give the start and size of that
 *  extent, free or block. */
pgasi_extent_state_t pgasi_extents_state(const pgasi_extents_t *extents, uint64_t offset,
                                         uint64_t *start_p, uint64_t *bytes_p);

/* end of the last block, 0 if there is none */
uint64_t pgasi_extents_highest_used(const pgasi_extents_t *extents);
/* start of the first block, size if none */
uint64_t pgasi_extents_lowest_used(const pgasi_extents_t *extents);
uint64_t pgasi_extents_bytes_free(const pgasi_extents_t *extents);
uint64_t pgasi_extents_largest_free(const pgasi_extents_t *extents); /* 0 when full */
uint64_t pgasi_extents_n_blocks(const pgasi_extents_t *extents);
/* memory of the records, for the account */
size_t pgasi_extents_record_bytes(const pgasi_extents_t *extents);

/** Check every invariant (tests and debug builds; O(n)). @return PGAS_OK or PGAS_ERR_INTERNAL. */
pgas_status_t pgasi_extents_verify(const pgasi_extents_t *extents);

#endif
