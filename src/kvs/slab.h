/** Blocks for keys, values and overflow buckets, in memory that the ranks of a node share.
 *
 *  The memory is cut into pages of 8 KiB. A slab is 8 pages, aligned to 64 KiB, with blocks of one
 *  size class. Larger blocks are runs of pages. Blocks are named by their offset from the base, in
 *  units of 8 bytes; 0 names no block. Every process has its own address of the base.
 *
 *  A lock is held for some dozen instructions, or for a search of the bitmap. A thread that holds
 *  the lock of a class may take that of the pages. It never holds two locks otherwise. */
#ifndef PGASI_KVS_SLAB_H
#define PGASI_KVS_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PGASI_SLAB_PAGE_SHIFT 13
#define PGASI_SLAB_SHIFT      16
#define PGASI_SLAB_BYTES      (1u << PGASI_SLAB_SHIFT)
#define PGASI_SLAB_BLOCK_MAX  32768u /* larger blocks are runs of pages */
#define PGASI_SLAB_CLASSES    77
#define PGASI_SLAB_CLASS_64   4u      /* of blocks of 64 bytes */
#define PGASI_SLAB_RUN        0xffffu /* the class of a run of pages */

/** Slabs of one class. */
typedef struct {
    int lock;
    uint32_t partial; /* 1 + the first slab of a list of slabs with a free block; 0: none */
    uint64_t n_blocks, n_slabs;
    uint64_t pad[5];
} pgasi_slab_class_t;

/** The state of a slab. */
typedef struct {
    uint32_t next, prev; /* 1 + the neighbour in the list of partial slabs; 0: none */
    uint32_t free;       /* 1 + a free block, whose first word is 1 + the next one; 0: none */
    uint16_t n_used;
    uint16_t n_fresh; /* blocks from here on were never used */
    uint32_t class_number;
} pgasi_slab_t;

/** The head, at an offset that all processes know. */
typedef struct {
    uint64_t n_pages, first; /* pages, and the byte offset of page 0, a multiple of 64 KiB */
    uint64_t bitmap, slabs;  /* byte offsets of one bit a page, and of pgasi_slab_t a slab */
    int lock;                /* of the pages */
    uint32_t low;            /* no slab below this one is free */
    uint64_t n_pages_used, n_run_bytes;
    uint64_t broken; /* a process of the node died, and may have held a lock. See below */
    pgasi_slab_class_t classes[PGASI_SLAB_CLASSES];
} pgasi_slabs_t;

/** Returns the class for blocks of so many bytes (1 or more), PGASI_SLAB_RUN for runs. */
uint32_t pgasi_slab_class(size_t bytes);
/** Returns the bytes of the blocks of a class. */
uint32_t pgasi_slab_class_bytes(uint32_t class_number);

/** Lays out slabs in the memory base + from .. base + end. The head is zeroed memory of the caller
 *  outside of it. Returns false if there is no room for a slab. */
bool pgasi_slabs_init(char *base, pgasi_slabs_t *slabs, uint64_t from, uint64_t end);

/** Notes the death of a process that used the slabs. From now on nobody waits for a lock: if it is
 *  taken, an allocation fails, and a free has no effect. */
static inline void pgasi_slabs_break(pgasi_slabs_t *slabs)
{
    __atomic_store_n(&slabs->broken, 1, __ATOMIC_RELAXED);
}
static inline bool pgasi_slabs_are_broken(const pgasi_slabs_t *slabs)
{
    return __atomic_load_n(&slabs->broken, __ATOMIC_RELAXED);
}

/** Returns a block for `bytes` bytes, or 0 if there is no room. */
uint64_t pgasi_slab_alloc(char *base, pgasi_slabs_t *slabs, size_t bytes);
/** Frees a block that was allocated with the same number of bytes. */
void pgasi_slab_free(char *base, pgasi_slabs_t *slabs, uint64_t block, size_t bytes);

/** Bytes of slabs and runs that were taken, and of blocks in them that are in use. */
void pgasi_slab_use(const pgasi_slabs_t *slabs, uint64_t *taken_p, uint64_t *used_p);

#endif
