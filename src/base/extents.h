/** A best-fit allocator of offsets in [0, size). All its records are outside of the memory that it
 *  manages.
 *
 *  The allocator is pure: it never touches managed memory and takes no lock. The same sequence of
 *  calls gives the same offsets on every rank; the symmetric heap depends on this. One thread uses
 *  it at a time. Bytes are exact: a caller that wants granules rounds before the call. Alignments
 *  are powers of two and apply to offsets.
 *  Cost: O(log n) in the number of extents. Over-aligned requests also visit the free extents whose
 *  size is in [bytes, bytes + alignment). Each extent has one small record from a pool. */
#ifndef PGASI_EXTENTS_H
#define PGASI_EXTENTS_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

typedef struct pgasi_extents pgasi_extents_t;

typedef enum {
    PGASI_EXTENT_FREE,   /* no block covers the offset: it was never allocated, or it was freed */
    PGASI_EXTENT_BLOCK,  /* a block starts there */
    PGASI_EXTENT_INSIDE, /* within a block, not at its start */
    PGASI_EXTENT_OUTSIDE /* at size or beyond */
} pgasi_extent_state_t;

/** Makes an allocator in which everything is free.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    size is 0
 *          PGAS_ERR_NO_MEMORY  no memory for the records */
pgas_status_t pgasi_extents_create(uint64_t size, pgasi_extents_t **extents_p);

/** Frees the allocator with all blocks. NULL is allowed. */
void pgasi_extents_destroy(pgasi_extents_t *extents);

/** Allocates in the smallest free extent that holds the aligned block, the lowest one if there are
 *  several. The block is at the lowest aligned offset in it. Nothing changes on error.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    no bytes, or the alignment is no power of two
 *          PGAS_ERR_NO_MEMORY  nothing fits, or there is no memory for records */
pgas_status_t pgasi_extents_alloc_low(pgasi_extents_t *extents, uint64_t bytes, uint64_t alignment,
                                      uint64_t *offset_p);

/** Allocates at the highest aligned offset at which the block is free. @return as alloc_low */
pgas_status_t pgasi_extents_alloc_high(pgasi_extents_t *extents, uint64_t bytes, uint64_t alignment,
                                       uint64_t *offset_p);

/** Allocates at the lowest aligned offset from `from` on at which the block is free. @return as
 *  alloc_low */
pgas_status_t pgasi_extents_alloc_from(pgasi_extents_t *extents, uint64_t from, uint64_t bytes,
                                       uint64_t alignment, uint64_t *offset_p);

/** Allocates exactly [offset, offset + bytes). Nothing changes on error.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    no bytes
 *          PGAS_ERR_RANGE      the end is beyond size
 *          PGAS_ERR_EXISTS     the range overlaps a block
 *          PGAS_ERR_NO_MEMORY  no memory for records */
pgas_status_t pgasi_extents_alloc_at(pgasi_extents_t *extents, uint64_t offset, uint64_t bytes);

/** Frees the block that starts at offset. This never needs memory.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  no block starts there (pgasi_extents_state says why)
 *          PGAS_ERR_RANGE    the offset is beyond size */
pgas_status_t pgasi_extents_free(pgasi_extents_t *extents, uint64_t offset);

/** Gives the size of the block that starts at offset. @return as pgasi_extents_free */
pgas_status_t pgasi_extents_size_of(const pgasi_extents_t *extents, uint64_t offset,
                                    uint64_t *bytes_p);

/** Returns the extent or block that covers an offset. The outputs (each may be NULL) give the start
 *  and size of that extent, free or block. */
pgasi_extent_state_t pgasi_extents_state(const pgasi_extents_t *extents, uint64_t offset,
                                         uint64_t *start_p, uint64_t *bytes_p);

/* end of the last block; 0: there is none */
uint64_t pgasi_extents_highest_used(const pgasi_extents_t *extents);
/* start of the first block; size: there is none */
uint64_t pgasi_extents_lowest_used(const pgasi_extents_t *extents);
uint64_t pgasi_extents_bytes_free(const pgasi_extents_t *extents);
uint64_t pgasi_extents_largest_free(const pgasi_extents_t *extents); /* 0 when full */
uint64_t pgasi_extents_n_blocks(const pgasi_extents_t *extents);
/* memory of the records, for the memory account */
size_t pgasi_extents_record_bytes(const pgasi_extents_t *extents);

/** Checks every invariant (tests and debug builds; O(n)). @return PGAS_OK or PGAS_ERR_INTERNAL */
pgas_status_t pgasi_extents_verify(const pgasi_extents_t *extents);

#endif
