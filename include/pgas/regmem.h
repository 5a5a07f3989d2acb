/** Registered memory: allocators of memory that peers reach and that the transport sends without a
 *  copy by this library.
 *
 *      pgas_block_t block;
 *      pgas_reg_acquire(PGAS_REG_ANY, bytes, &block);
 *      fill(block.address);
 *      pgas_put_nb(there, block.address, bytes, &request);
 *      pgas_reg_release(&block);                    does not wait; reused when the put is complete
 *
 *  There are four allocators. A super-chunk allocator takes super-chunks from the rank's heap (from
 *  the end that pgas_alloc_on uses) and cuts them into units. Each circular, linear and general
 *  allocator has a super-chunk allocator of its own and gives out blocks. An allocator grows as its
 *  blocks need, up to a limit, and places its memory in one NUMA zone.
 *  | allocator | for                              | threads              | blocks return       |
 *  | super     | large pieces, other allocators   | any attached thread  | in any order        |
 *  | circular  | buffers that are sent in turn    | one thread at a time | first in, first out |
 *  | linear    | buffers that return in any order | one thread at a time | a whole unit        |
 *  | general   | long-lived blocks of any size    | any attached thread  | in any order        |
 *
 *  Why the heap. It is registered with the transport once, at init, and mapped by the node's ranks.
 *  So every block has a global pointer at once, pgas_gptr_local works, and nothing is registered
 *  per super-chunk or operation. The limits follow: all allocators of a rank and the program's own
 *  blocks together must fit into PGAS_HEAP_SIZE. (That costs nothing until it is touched where the
 *  heap is from memfd; see pgas_info.) Super-chunks are whole pages of the heap.
 *
 *  Zones. The zone is requested when a super-chunk is made. In a job on one node all of its pages
 *  are then there. With a transport, pages that a peer has touched before do not move, nor do pages
 *  that a network card has pinned at init. If the zone is full, the pages are in another one.
 *
 *  Completion numbers. A sender gives each block a number when it is done with it (retire); numbers
 *  grow with time. Now and then it says up to which number all operations are complete (complete).
 *  That frees all blocks with such numbers, at the cost of a comparison each, without an event per
 *  block. pgas_reg_acquire does this with the completion numbers of the thread's context.
 *
 *  Source: Seriema (super-chunk, circular, linear-circular and general allocators). The public code
 *  of the paper keeps a counter per buffer; here one number of the context serves all. */
#ifndef PGAS_REGMEM_H
#define PGAS_REGMEM_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/mem.h"

PGAS_BEGIN_DECLS

/** How an allocator grows: by a number of units each time, or by as much as it has. */
typedef enum {
    PGAS_GROWTH_DEFAULT,     /* PGAS_REG_GROWTH */
    PGAS_GROWTH_EXPONENTIAL, /* each super-chunk is as large as all before it together */
    PGAS_GROWTH_LINEAR       /* each has grow_units units */
} pgas_growth_t;

/** Options of all four allocators; zero means default. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* the name under which pgas_info counts the bytes; up to 31 characters, copied; default
     * "program" */
    const char *owner;
    int zone; /* PGAS_ZONE_OWN, PGAS_ZONE_NONE or PGAS_ZONE(n) */
    /* the unit of growth, rounded up to whole pages of the heap; default PGAS_REG_UNIT */
    size_t unit_bytes;
    /* the allocator's limit, rounded down to whole units, at least one; default PGAS_REG_MAX */
    size_t max_bytes;
    pgas_growth_t growth;
    /* units of the first super-chunk, and of each with linear growth; default 1 */
    uint32_t grow_units;
    /* of blocks, a power of two up to 4096; default 64. The blocks of super are whole units */
    size_t alignment;
} pgas_regmem_opts_t;
#define PGAS_REGMEM_OPTS_INIT                                                \
    {                                                                        \
        sizeof(pgas_regmem_opts_t), NULL, 0, 0, 0, PGAS_GROWTH_DEFAULT, 0, 0 \
    }

/** A block: a plain value that may be copied. */
typedef struct {
    void *address;   /* in this process, aligned as the options say */
    pgas_gptr_t ptr; /* the same for peers */
    size_t bytes;    /* as requested; the block ends there */
    uint64_t ticket; /* belongs to the allocator */
    int32_t peer;    /* belongs to the allocator */
} pgas_block_t;

/** The state of an allocator. */
typedef struct {
    size_t bytes;      /* in super-chunks now */
    size_t high_bytes; /* the most ever */
    size_t max_bytes;  /* the limit, as rounded */
    size_t unit_bytes; /* as rounded */
    /* in blocks that are in use: acquired, or retired and not complete; rounded up to alignment or
     * units. A circular allocator also counts free blocks behind an older one that is in use. A
     * linear allocator counts all bytes of a unit until the unit is empty */
    size_t used_bytes;
    size_t n_blocks; /* blocks in use */
    size_t n_chunks; /* super-chunks */
    /* the zone of the memory; -1: not placed (also on machines with one zone only) */
    int zone;
} pgas_regmem_info_t;

typedef struct pgas_super pgas_super_t;
typedef struct pgas_circular pgas_circular_t;
typedef struct pgas_linear pgas_linear_t;
typedef struct pgas_general pgas_general_t;

/** Creates an allocator. It takes memory of the heap at the first acquire.
 *  Shape:  any attached thread of one rank. opts NULL: defaults.
 *  Owns:   the matching destroy gives all memory back, including blocks in use, which must not be
 *          used any more. The last pgas_finalize destroys allocators that are left.
 *  Cost:   a few allocations. With PGAS_ZONE_OWN or PGAS_ZONE(n), on a machine of several zones,
 *          hwloc finds the zone. The first time that takes milliseconds.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    a null pointer, options of an unknown size, or an unknown growth or
 *                              alignment
 *          PGAS_ERR_NOT_FOUND  no such zone
 *          PGAS_ERR_LIMIT      unit_bytes exceeds max_bytes
 *          PGAS_ERR_CONTEXT    the thread is not attached
 *          PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_super_create(const pgas_regmem_opts_t *opts, pgas_super_t **super_p);
PGAS_API pgas_status_t pgas_circular_create(const pgas_regmem_opts_t *opts,
                                            pgas_circular_t **circular_p);
PGAS_API pgas_status_t pgas_linear_create(const pgas_regmem_opts_t *opts, pgas_linear_t **linear_p);
PGAS_API pgas_status_t pgas_general_create(const pgas_regmem_opts_t *opts,
                                           pgas_general_t **general_p);

/** Destroys an allocator. Shape: before the last pgas_finalize. NULL is ignored. */
PGAS_API void pgas_super_destroy(pgas_super_t *super);
PGAS_API void pgas_circular_destroy(pgas_circular_t *circular);
PGAS_API void pgas_linear_destroy(pgas_linear_t *linear);
PGAS_API void pgas_general_destroy(pgas_general_t *general);

/** Gives a block of at least `bytes` contiguous bytes; more than 1 GiB is possible.
 *  Shape:  threads as in the table above; also in handlers.
 *  Done:   the contents of *block_p are undefined.
 *  Owns:   the block is the caller's until it is released, or retired and then complete.
 *  Cost:   circular, linear: some additions, no lock and no system call. When the super-chunk or
 *          unit in use is full, the allocator searches its others. super: a search of its bitmaps.
 *          general: logarithmic in the number of blocks. Growth takes the heap's lock, allocates,
 *          and places the new super-chunk.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN      no room until blocks return; not logged
 *          PGAS_ERR_LIMIT      more than max_bytes could ever hold; logged once
 *          PGAS_ERR_NO_MEMORY  no block is in use, and the heap has no room. Logged: raise
 *                              PGAS_HEAP_SIZE
 *          PGAS_ERR_INVALID    a null pointer, or no bytes
 *          After an error nothing has changed. */
PGAS_API pgas_status_t pgas_super_acquire(pgas_super_t *super, size_t bytes, pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_circular_acquire(pgas_circular_t *circular, size_t bytes,
                                             pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_linear_acquire(pgas_linear_t *linear, size_t bytes,
                                           pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_general_acquire(pgas_general_t *general, size_t bytes,
                                            pgas_block_t *block_p);

/** Gives a block back at once. It must not be used any more. super and general read block->ptr
 *  alone, so the program may build a block from it with the other fields zero. In a circular
 *  allocator the memory is reused only after all older blocks have returned.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  a null pointer, or not a block in use, for example given back before;
 *                            a linear allocator notices that only when no block of the unit is in
 *                            use */
PGAS_API pgas_status_t pgas_super_release(pgas_super_t *super, const pgas_block_t *block);
PGAS_API pgas_status_t pgas_circular_release(pgas_circular_t *circular, const pgas_block_t *block);
PGAS_API pgas_status_t pgas_linear_release(pgas_linear_t *linear, const pgas_block_t *block);
PGAS_API pgas_status_t pgas_general_release(pgas_general_t *general, const pgas_block_t *block);

/** Gives a block back that may be reused when `number` is complete. The number 2^64 - 1 is refused.
 *  @return as release. */
PGAS_API pgas_status_t pgas_circular_retire(pgas_circular_t *circular, const pgas_block_t *block,
                                            uint64_t number);
PGAS_API pgas_status_t pgas_linear_retire(pgas_linear_t *linear, const pgas_block_t *block,
                                          uint64_t number);

/** Says that all numbers up to this one are complete, and frees the blocks retired with them. A
 *  number below an earlier one changes nothing.
 *  Cost:   a comparison for each block (circular) or unit (linear) that becomes free. */
PGAS_API void pgas_circular_complete(pgas_circular_t *circular, uint64_t number);
PGAS_API void pgas_linear_complete(pgas_linear_t *linear, uint64_t number);

/** Gives super-chunks without a block in use back to the heap. An allocator does so by itself only
 *  when it is at its limit and needs a larger one. */
PGAS_API void pgas_super_trim(pgas_super_t *super);
PGAS_API void pgas_circular_trim(pgas_circular_t *circular);
PGAS_API void pgas_linear_trim(pgas_linear_t *linear);
PGAS_API void pgas_general_trim(pgas_general_t *general);

/** Describes an allocator.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  a null pointer */
PGAS_API pgas_status_t pgas_super_info(pgas_super_t *super, pgas_regmem_info_t *info_p);
PGAS_API pgas_status_t pgas_circular_info(pgas_circular_t *circular, pgas_regmem_info_t *info_p);
PGAS_API pgas_status_t pgas_linear_info(pgas_linear_t *linear, pgas_regmem_info_t *info_p);
PGAS_API pgas_status_t pgas_general_info(pgas_general_t *general, pgas_regmem_info_t *info_p);

/* ---- blocks that a thread fills and sends ---- */

/** The allocator of a thread for blocks that may go to any peer. */
#define PGAS_REG_ANY (-1)

/** Gives a block of the calling thread's own circular allocator, to be filled and sent. The head of
 *  this file has an example.
 *  Shape:  any attached thread, not in handlers. With PGAS_REG_ANY the block may go to any peer. If
 *          peer is a rank, the block comes from an allocator for that peer alone. It must go to
 *          that peer, and is reused as soon as that peer has it. Slow other peers do not delay
 *          that. The library creates each allocator when it is first used, in the zone where the
 *          thread runs then. PGAS_REG_UNIT, PGAS_REG_GROWTH and PGAS_REG_MAX apply; the owner is
 *          "threads". Reduce these where threads times peers are many, because all allocators use
 *          the heap.
 *  Done:   the block may be filled, then given to pgas_put, pgas_put_nb and functions built on
 *          them. A transfer that writes to the block must be complete before the release. The
 *          library passes the block's address to the transport: it neither copies nor registers the
 *          data. (A transport may copy into packets; UCX does so for small puts.)
 *  Owns:   until pgas_reg_release. Blocks that are not released when the thread detaches are lost.
 *  Cost:   no lock, system call or allocation while blocks return in time. When the room in use is
 *          full, the context's completion numbers are read. One flush is issued for each quarter of
 *          PGAS_REG_MAX that is released while operations are outstanding.
 *  @return PGAS_OK
 *          PGAS_ERR_AGAIN     pgas_reg_acquire_try: no room; pgas_reg_acquire waits, with progress
 *          PGAS_ERR_DEADLOCK  pgas_reg_acquire: no room, and this thread itself has the oldest
 *                             block in use; logged
 *          PGAS_ERR_PEER      pgas_reg_acquire: a peer died, and the transport does not report what
 *                             became of operations to it
 *          PGAS_ERR_RANGE     no such rank
 *          PGAS_ERR_CONTEXT   in a handler, or the thread is not attached
 *          otherwise as pgas_circular_create and pgas_circular_acquire */
PGAS_API pgas_status_t pgas_reg_acquire(int peer, size_t bytes, pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_reg_acquire_try(int peer, size_t bytes, pgas_block_t *block_p);

/** Gives a block back after all operations that use it have been issued, on this thread. They may
 *  be outstanding. The block must not be touched any more. It is reused when the operations that
 *  the thread has issued so far are complete: no wait, and no event per block.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  a null pointer, or not a block that this thread has in use
 *          PGAS_ERR_CONTEXT, PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_reg_release(const pgas_block_t *block);

/** Describes the calling thread's allocator for a peer (or PGAS_REG_ANY), after it has freed the
 *  blocks whose operations are complete.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND  the thread has not used it yet
 *          PGAS_ERR_INVALID    a null pointer
 *          PGAS_ERR_CONTEXT, PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_reg_info(int peer, pgas_regmem_info_t *info_p);

/* ---- the account ---- */

/** Bytes of this rank that peers reach, by owner. */
typedef struct {
    char name[32];
    uint64_t bytes, high_bytes; /* now, and the most since pgas_init */
    /* the limit, of all allocators of the owner together; 0: none in bytes */
    uint64_t max_bytes;
} pgas_reg_owner_t;
#define PGAS_REG_OWNERS_MAX 72 /* further owners share the last entry, "others" */

/** Lists the memory of this rank that peers reach: the program's blocks, each owner of allocators,
 *  attached memory, and the rest of the heap. The bytes add up to the heap and the attached memory.
 *  With a transport (ranks on other nodes) all of it is pinned. The last entry is then what the
 *  transport reserves for incoming messages, as far as that is known. pgas_info prints the list.
 *  Shape:  any thread between init and finalize.
 *  @param owners  at most n entries are written
 *  @param n_p     the number of entries that there are
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  a null pointer
 *          PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_reg_account(pgas_reg_owner_t *owners, int n, int *n_p);

PGAS_END_DECLS
#endif
