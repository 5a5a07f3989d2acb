/** The table behind pgas_gptr_local, and the inline functions that read it.
 *
 *  The table has an entry for each GiB of offsets of each rank, 2^14 entries for a rank. An entry
 *  says where this process has mapped that GiB and how many of its bytes are mapped. The library
 *  changes entries when it maps or unmaps a segment; programs never do. */
#ifndef PGAS_DETAIL_GPTR_H
#define PGAS_DETAIL_GPTR_H

#include "pgas/gptr.h"

PGAS_BEGIN_DECLS

typedef struct {
    uint64_t base;  /* address of the first byte of the GiB */
    uint64_t bytes; /* mapped bytes from there, 0 .. 1 GiB; 0: nothing is mapped */
} pgas_segtab_entry_t;
typedef struct {
    uint64_t n_entries;
    pgas_segtab_entry_t entry[1]; /* n_entries of them */
} pgas_segtab_t;
/* One of the variables that the library exports; t/lint/symbols.t lists them all. */
extern PGAS_API const pgas_segtab_t *pgas_segtab;
#define PGAS_SEGTAB_SHIFT 30
#define PGAS_SEGTAB_MASK  ((UINT64_C(1) << PGAS_SEGTAB_SHIFT) - 1)

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

static inline bool pgas_gptr_is_local(pgas_gptr_t ptr)
{
    return pgas_gptr_local(ptr, 1);
}

PGAS_END_DECLS
#endif
