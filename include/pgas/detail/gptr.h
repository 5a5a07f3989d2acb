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
