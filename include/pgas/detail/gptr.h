/** The table of the node's heaps, and the inline functions that read it.
 *
 *  The table has an entry for each rank that a global pointer can name, so its upper bits need no
 *  check. It says where this process has mapped the rank's heap. Entries of ranks of other nodes
 *  are zero; their pages cost nothing. The library writes it when it starts and stops. */
#ifndef PGAS_DETAIL_GPTR_H
#define PGAS_DETAIL_GPTR_H

#include "pgas/gptr.h"

PGAS_BEGIN_DECLS

#define PGAS_HEAP_OFFSET (UINT64_C(1) << 30) /* of the first byte of every heap */

/* By rank. Two arrays, because processors scale an index by 8, and not by 16. */
typedef struct {
    uint64_t n_words[PGAS_RANKS_MAX]; /* of 8 bytes; 0: the heap is not mapped */
    uint64_t base[PGAS_RANKS_MAX];    /* address of a byte of the heap: base + global pointer */
} pgas_heap_table_t;
/* One of the variables that the library exports; t/lint/symbols.t lists them all. It never changes,
 * so that compilers load it once in front of a loop. */
extern PGAS_API const pgas_heap_table_t *const pgas_heap_table;
PGAS_API void *pgas_gptr_local_far(pgas_gptr_t ptr, size_t bytes);

static inline pgas_gptr_t pgas_gptr_make(int rank, uint64_t offset)
{
    return ((uint64_t)rank << PGAS_OFFSET_BITS) | offset;
}
static inline int pgas_gptr_rank(pgas_gptr_t ptr)
{
    return (int)(ptr >> PGAS_OFFSET_BITS);
}
static inline uint64_t pgas_gptr_offset(pgas_gptr_t ptr)
{
    return ptr & PGAS_OFFSET_MAX;
}
static inline pgas_gptr_t pgas_gptr_add(pgas_gptr_t ptr, int64_t bytes)
{
    return ptr ? ptr + (uint64_t)bytes : PGAS_NULL;
}
static inline pgas_gptr_t pgas_gptr_elem(pgas_gptr_t ptr, int64_t index, size_t elem_bytes)
{
    return pgas_gptr_add(ptr, index * (int64_t)elem_bytes);
}
static inline int64_t pgas_gptr_diff(pgas_gptr_t b, pgas_gptr_t a)
{
    return (int64_t)(b - a);
}
static inline pgas_gptr_t pgas_gptr_at(pgas_gptr_t ptr, int rank)
{
    return ptr ? pgas_gptr_make(rank, pgas_gptr_offset(ptr)) : PGAS_NULL;
}

/* The words of the heap of the pointer's rank that this process has mapped. */
static inline uint64_t pgas_heap_words(pgas_gptr_t ptr)
{
    return pgas_heap_table->n_words[ptr >> PGAS_OFFSET_BITS];
}

/* Returns whether `bytes` bytes at ptr, at least one, are inside a mapped heap. */
static inline bool pgas_heap_has(pgas_gptr_t ptr, size_t bytes)
{
    uint64_t inside = pgas_gptr_offset(ptr - PGAS_HEAP_OFFSET), heap = pgas_heap_words(ptr) * 8;
    return inside < heap && bytes <= heap - inside;
}

/* The same for one aligned word of 1, 2, 4 or 8 bytes, a constant. The word's number is its place
 * in the heap, rotated right. The lowest bits of a misaligned pointer become the highest. So one
 * comparison rejects it, places outside of the heap, and ranks without a mapped heap. */
static inline bool pgas_heap_has_word(pgas_gptr_t ptr, size_t bytes)
{
    unsigned shift = (unsigned)((bytes > 1) + (bytes > 2) + (bytes > 4));
    unsigned above = 64 - PGAS_OFFSET_BITS;
    uint64_t inside = (ptr - PGAS_HEAP_OFFSET) << above;
    uint64_t number = inside >> (above + shift) | inside << (64 - above - shift);
    return number >> (3 - shift) < pgas_heap_words(ptr);
}

/* The address of memory that one of them has found. */
static inline void *pgas_heap_address(pgas_gptr_t ptr)
{
    return (void *)(uintptr_t)(pgas_heap_table->base[ptr >> PGAS_OFFSET_BITS] + ptr);
}

static inline void *pgas_gptr_local(pgas_gptr_t ptr, size_t bytes)
{
    if (PGAS_LIKELY(pgas_heap_has(ptr, bytes)))
        return pgas_heap_address(ptr);
    return pgas_heap_words(ptr) ? pgas_gptr_local_far(ptr, bytes) : NULL;
}

static inline bool pgas_gptr_is_local(pgas_gptr_t ptr)
{
    return pgas_gptr_local(ptr, 1);
}

PGAS_END_DECLS
#endif
