/** Global pointers: a rank and an offset in that rank's segment space, in 64 bits.
 *
 *  20 bits rank, 44 bits offset. 0 is null (a rank's first GiB is never used). Arithmetic is plain
 *  integer arithmetic on the offset and must stay inside the block that was allocated. Source: the
 *  DART and UPC++ notion of a global pointer, in 64 bits so that one compare-and-swap holds it. */
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
/** The pointer `bytes` further on (may be negative); null stays null. */
static inline pgas_gptr_t pgas_gptr_add(pgas_gptr_t ptr, int64_t bytes)
{
    return ptr ? ptr + (uint64_t)bytes : PGAS_NULL;
}
/** Element `index` of an array of elements of elem_bytes that starts at ptr. */
static inline pgas_gptr_t pgas_gptr_elem(pgas_gptr_t ptr, int64_t index, size_t elem_bytes)
{
    return pgas_gptr_add(ptr, index * (int64_t)elem_bytes);
}
/** b - a in bytes; both of one rank. */
static inline int64_t pgas_gptr_diff(pgas_gptr_t b, pgas_gptr_t a)
{
    return (int64_t)(b - a);
}
/** The same offset at another rank: for symmetric memory, the peer's copy. */
static inline pgas_gptr_t pgas_gptr_at(pgas_gptr_t ptr, int rank)
{
    return ptr ? pgas_gptr_make(rank, pgas_gptr_offset(ptr)) : PGAS_NULL;
}

/** What this rank can reach by loads and stores: per (rank, 1 GiB of its segment space) a base
 *  address and the number of bytes that lie behind it, 0 where nothing is mapped. The one variable
 *  that the library exports; read it only through the functions below. */
typedef struct {
    uint64_t base;  /* address of the first byte of the GiB */
    uint64_t bytes; /* 0 .. 1 GiB */
} pgas_segtab_entry_t;
typedef struct {
    uint64_t n_entries;
    pgas_segtab_entry_t entry[1]; /* n_entries of them */
} pgas_segtab_t;
extern PGAS_API const pgas_segtab_t *pgas_segtab;
#define PGAS_SEGTAB_SHIFT 30
#define PGAS_SEGTAB_MASK  ((UINT64_C(1) << PGAS_SEGTAB_SHIFT) - 1)

/** The plain address of `bytes` bytes at ptr, or NULL: null pointer, other node, attached user
 *  memory of another rank, outside of a segment, or a span that crosses a GiB border (then
 *  pgas_gptr_local(ptr, 1) serves, the memory behind it is contiguous). Valid until the memory is
 *  freed. Inline: two loads and two compares. */
static inline void *pgas_gptr_local(pgas_gptr_t ptr, size_t bytes)
{
    const pgas_segtab_t *tab = pgas_segtab;
    uint64_t index = ptr >> PGAS_SEGTAB_SHIFT;
    if (PGAS_UNLIKELY(index >= tab->n_entries))
        return NULL;
    const pgas_segtab_entry_t *e = &tab->entry[index];
    uint64_t low = ptr & PGAS_SEGTAB_MASK;
    if (PGAS_UNLIKELY(low + bytes > e->bytes || bytes > PGAS_OFFSET_MAX))
        return NULL;
    return (void *)(uintptr_t)(e->base + low);
}

/** True if loads and stores reach it. */
static inline bool pgas_gptr_is_local(pgas_gptr_t ptr)
{
    return pgas_gptr_local(ptr, 1);
}

/** The global pointer of a plain address inside this rank's own segments (heap or attached), or
 *  PGAS_NULL. */
PGAS_API pgas_gptr_t pgas_gptr_of(const void *address);

PGAS_END_DECLS
#endif
