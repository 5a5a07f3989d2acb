/** Global pointers: a rank and an offset in that rank's segments, in 64 bits.
 *
 *  A global pointer names the same byte on every rank, so programs may store it, send it and swap
 *  it by one remote compare-and-swap. The upper 20 bits are the rank, the lower 44 bits the offset.
 *  The value 0 is null, because the first GiB of offsets of each rank is never used. Arithmetic is
 *  integer arithmetic on the offset and must stay inside the allocated block. Null stays null.
 *
 *  Source: global pointers of DART and UPC++, here in 64 bits. */
#ifndef PGAS_GPTR_H
#define PGAS_GPTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

typedef uint64_t pgas_gptr_t;
#define PGAS_NULL        PGAS_CAST(pgas_gptr_t, 0)
#define PGAS_OFFSET_BITS 44
#define PGAS_OFFSET_MAX  ((UINT64_C(1) << PGAS_OFFSET_BITS) - 1)
#define PGAS_RANKS_MAX   (1 << 20)
#define PGAS_ALL         (-1) /* all ranks, in pgas_flush and pgas_agg_flush */

static inline pgas_gptr_t pgas_gptr_make(int rank, uint64_t offset);
static inline int pgas_gptr_rank(pgas_gptr_t ptr);
static inline uint64_t pgas_gptr_offset(pgas_gptr_t ptr);
/** Returns the pointer `bytes` bytes behind ptr. bytes may be negative. */
static inline pgas_gptr_t pgas_gptr_add(pgas_gptr_t ptr, int64_t bytes);
/** Returns the pointer to element `index` of an array at ptr, whose elements have elem_bytes. */
static inline pgas_gptr_t pgas_gptr_elem(pgas_gptr_t ptr, int64_t index, size_t elem_bytes);
/** Returns b - a in bytes. Both pointers must belong to one rank. */
static inline int64_t pgas_gptr_diff(pgas_gptr_t b, pgas_gptr_t a);
/** Returns the pointer with the same offset at another rank: in symmetric memory, that rank's
 *  copy. */
static inline pgas_gptr_t pgas_gptr_at(pgas_gptr_t ptr, int rank);

/** Returns the plain address of `bytes` bytes at ptr. Any thread; no message. The address is valid
 *  until the memory is freed.
 *  Cost:   inline, one table look-up (two loads, two comparisons); a call for attached memory.
 *  @return NULL if ptr is null, or the bytes are not all inside one segment;
 *          NULL if the rank is on another node;
 *          NULL if another rank has attached the memory (pgas_mem_attach). */
static inline void *pgas_gptr_local(pgas_gptr_t ptr, size_t bytes);
/** Returns whether loads and stores of this rank reach the byte at ptr. */
static inline bool pgas_gptr_is_local(pgas_gptr_t ptr);
/** Returns the global pointer of an address inside this rank's own segments (heap or attached
 *  memory), or PGAS_NULL. */
PGAS_API pgas_gptr_t pgas_gptr_of(const void *address);

PGAS_END_DECLS

#include "pgas/detail/gptr.h"
#endif
