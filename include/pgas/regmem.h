/** Registered memory: allocators of memory that peers reach and that the transport sends without a
 *  copy of ours.
 *
 *  Four allocators stand on each other. A super-chunk allocator takes super-chunks from the rank's
 *  heap (the end that pgas_alloc_local uses) and cuts them into units. The circular, linear and
 *  general ones each have a super-chunk allocator of their own and give out blocks. Each grows as
 *  its blocks need, up to a limit, and puts its memory into one NUMA zone.
 *
 *  Why the heap: it is registered with the transport once, at init, and mapped by the node's ranks,
 *  so every block has a global pointer that works at once, pgas_gptr_local included, and nothing is
 *  registered per super-chunk or operation. Hence the limits: all allocators of a rank together,
 *  and the program's own blocks, fit into PGAS_HEAP_SIZE (which costs nothing until touched where
 *  the heap is from memfd; see pgas_info); super-chunks are whole pages of the heap. A zone is
 *  asked for when a super-chunk is made: in a job on one node all of its pages lie there; where
 *  there is a transport, those that a peer touched before do not move, nor does any that a network
 *  card has pinned at init. A zone that is full is passed over.
 *
 *  | allocator | for | threads | blocks come back |
 *  |---|---|---|---|
 *  | super    | large pieces, other allocators       | any attached thread  | in any order        |
 *  | circular | buffers that are sent in turn        | one thread at a time | first in, first out |
 *  | linear   | buffers that return in any order     | one thread at a time | a whole unit        |
 *  | general  | long-lived blocks of any size        | any attached thread  | in any order        |
 *
 *  Completion numbers: who sends gives each block a number that grows with time when he is done
 *  with it (retire), and tells once in a while up to which number all is complete (complete): that
 *  frees all blocks with such numbers, at the cost of a comparison each, with no event per block.
 *  pgas_reg_acquire below does this with the numbers of the thread's context.
 *
 *  Source: Seriema (super-chunk, circular, linear-circular and general allocators); the public code
 *  of the paper keeps a counter per buffer, here a number of the context stands for all. */
#ifndef PGAS_REGMEM_H
#define PGAS_REGMEM_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/gptr.h"

PGAS_BEGIN_DECLS

/** How an allocator grows: by so many units each time, or by as much as it has. */
typedef enum {
    PGAS_GROWTH_DEFAULT,     /* PGAS_REG_GROWTH */
    PGAS_GROWTH_EXPONENTIAL, /* each super-chunk is as large as all before it together */
    PGAS_GROWTH_LINEAR       /* each has grow_units units */
} pgas_growth_t;

/** NUMA zones in options: those of hwloc's logical numbers, as in pgas_place_info_t. */
#define PGAS_ZONE_OWN     0    /* of the CPU on which the creating thread runs at that moment */
#define PGAS_ZONE_NONE    (-1) /* not placed: pages come from the zone of who writes first */
#define PGAS_ZONE(number) ((number) + 1)

/** Options of all four; zero means default. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* under which pgas_info counts the bytes, up to 31 characters, copied; default "program" */
    const char *owner;
    int zone; /* PGAS_ZONE_OWN, PGAS_ZONE_NONE or PGAS_ZONE(n) */
    /* least step of growth, rounded up to whole pages of the heap; default PGAS_REG_UNIT */
    size_t unit_bytes;
    /* limit of the allocator, rounded down to whole units, at least one; default PGAS_REG_MAX */
    size_t max_bytes;
    pgas_growth_t growth;
    /* units of the first super-chunk, and with linear growth of each; default 1 */
    uint32_t grow_units;
    /* of blocks, a power of two up to 4096; default 64. Super: blocks are whole units */
    size_t alignment;
} pgas_regmem_opts_t;
#define PGAS_REGMEM_OPTS_INIT                                                \
    {                                                                        \
        sizeof(pgas_regmem_opts_t), NULL, 0, 0, 0, PGAS_GROWTH_DEFAULT, 0, 0 \
    }

/** A block as its holder has it; a plain value that may be copied. */
typedef struct {
    void *address;   /* in this process, aligned as the options say */
    pgas_gptr_t ptr; /* the same for peers */
    size_t bytes;    /* as asked for; more may lie behind it, but is not yours */
    uint64_t ticket; /* the allocator's */
    int32_t peer;    /* the allocator's */
} pgas_block_t;

/** What an allocator has, in bytes unless it says otherwise. */
typedef struct {
    size_t bytes;      /* in super-chunks: registered now */
    size_t high_bytes; /* the most that it ever was */
    size_t max_bytes;  /* the limit, as rounded */
    size_t unit_bytes; /* as rounded */
    /* in blocks that are out: acquired, or retired and not complete; rounded up to alignment or
     * units. circular: those behind an older one that is out, linear: all of a unit until it is
     * empty */
    size_t used_bytes;
    size_t n_blocks; /* number of those */
    size_t n_chunks; /* super-chunks */
    /* where the memory is, -1: not placed (also on machines with one zone only) */
    int zone;
} pgas_regmem_info_t;

typedef struct pgas_super pgas_super_t;
typedef struct pgas_circular pgas_circular_t;
typedef struct pgas_linear pgas_linear_t;
typedef struct pgas_general pgas_general_t;

/** Makes an allocator, which takes no memory of the heap before it is asked for some.
 *  Shape:  any attached thread of one rank; opts may be NULL.
 *  Owns:   the matching destroy, which gives all memory back, blocks that are out included: nobody
 *          may use them any more. What is left is freed by the last pgas_finalize.
 *  Cost:   a few allocations; with PGAS_ZONE_OWN or PGAS_ZONE(n) on a machine of several zones
 *          hwloc is asked, which takes milliseconds the first time.
 *  @return PGAS_OK; PGAS_ERR_INVALID (null; options of a size that never was, growth or alignment
 *          that there is not); PGAS_ERR_NOT_FOUND (no such zone); PGAS_ERR_NO_MEMORY;
 *          PGAS_ERR_LIMIT (unit_bytes exceeds max_bytes); PGAS_ERR_CONTEXT (thread not attached),
 *          PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_super_create(const pgas_regmem_opts_t *opts, pgas_super_t **super_p);
PGAS_API pgas_status_t pgas_circular_create(const pgas_regmem_opts_t *opts,
                                            pgas_circular_t **circular_p);
PGAS_API pgas_status_t pgas_linear_create(const pgas_regmem_opts_t *opts, pgas_linear_t **linear_p);
PGAS_API pgas_status_t pgas_general_create(const pgas_regmem_opts_t *opts,
                                           pgas_general_t **general_p);

/** Gives everything back. NULL is ignored. Before the last pgas_finalize. */
PGAS_API void pgas_super_destroy(pgas_super_t *super);
PGAS_API void pgas_circular_destroy(pgas_circular_t *circular);
PGAS_API void pgas_linear_destroy(pgas_linear_t *linear);
PGAS_API void pgas_general_destroy(pgas_general_t *general);

/** Gives a block of at least bytes contiguous bytes, also of more than 1 GiB.
 *  Shape:  see the table above; also inside handlers.
 *  Done:   *block_p is yours; contents undefined.
 *  Owns:   until released or retired, and then complete.
 *  Cost:   circular, linear: some additions, no lock, no system call; growing takes the heap's
 *          lock, allocates, and places the new super-chunk. A circular or linear allocator looks
 *          through its super-chunks or units when the one in use is full. super: a look through its
 *          bitmaps. general: logarithmic in the number of blocks.
 *  @return PGAS_OK; PGAS_ERR_AGAIN (no room until blocks come back; not logged); PGAS_ERR_LIMIT
 *          (more than max_bytes could ever hold; logged once); PGAS_ERR_NO_MEMORY (no block is out,
 *          and the heap has no room: logged, raise PGAS_HEAP_SIZE); PGAS_ERR_INVALID (null, no
 *          bytes). Nothing changes on error. */
PGAS_API pgas_status_t pgas_super_acquire(pgas_super_t *super, size_t bytes, pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_circular_acquire(pgas_circular_t *circular, size_t bytes,
                                             pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_linear_acquire(pgas_linear_t *linear, size_t bytes,
                                           pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_general_acquire(pgas_general_t *general, size_t bytes,
                                            pgas_block_t *block_p);

/** Gives a block back at once; nobody uses it any more. Super and general look at block->ptr alone,
 *  so whoever kept only that may make a block of it (the rest zero). In a circular allocator the
 *  room behind an older block that is still out is used again only after that.
 *  @return PGAS_OK; PGAS_ERR_INVALID (null, not a block that is out, given back twice: a linear
 *          allocator notices that only once no block of the unit is out). */
PGAS_API pgas_status_t pgas_super_release(pgas_super_t *super, const pgas_block_t *block);
PGAS_API pgas_status_t pgas_circular_release(pgas_circular_t *circular, const pgas_block_t *block);
PGAS_API pgas_status_t pgas_linear_release(pgas_linear_t *linear, const pgas_block_t *block);
PGAS_API pgas_status_t pgas_general_release(pgas_general_t *general, const pgas_block_t *block);

/** Says that a block may be reused once `number` is complete. Numbers of 2^64 - 1 are refused.
 *  @return as release. */
PGAS_API pgas_status_t pgas_circular_retire(pgas_circular_t *circular, const pgas_block_t *block,
                                            uint64_t number);
PGAS_API pgas_status_t pgas_linear_retire(pgas_linear_t *linear, const pgas_block_t *block,
                                          uint64_t number);

/** Says that all numbers up to this one are complete, and frees what was retired with them. Smaller
 *  ones than told before change nothing. Cost: a comparison for each block (circular) or unit
 *  (linear) that comes free. */
PGAS_API void pgas_circular_complete(pgas_circular_t *circular, uint64_t number);
PGAS_API void pgas_linear_complete(pgas_linear_t *linear, uint64_t number);

/** Gives super-chunks in which nothing is out back to the heap. An allocator does so by itself only
 *  when it is at its limit and needs a larger one. */
PGAS_API void pgas_super_trim(pgas_super_t *super);
PGAS_API void pgas_circular_trim(pgas_circular_t *circular);
PGAS_API void pgas_linear_trim(pgas_linear_t *linear);
PGAS_API void pgas_general_trim(pgas_general_t *general);

/** What the allocator has at the moment. @return PGAS_OK, PGAS_ERR_INVALID (null). */
PGAS_API pgas_status_t pgas_super_info(pgas_super_t *super, pgas_regmem_info_t *info_p);
PGAS_API pgas_status_t pgas_circular_info(pgas_circular_t *circular, pgas_regmem_info_t *info_p);
PGAS_API pgas_status_t pgas_linear_info(pgas_linear_t *linear, pgas_regmem_info_t *info_p);
PGAS_API pgas_status_t pgas_general_info(pgas_general_t *general, pgas_regmem_info_t *info_p);

/* ---- what threads fill and send ---- */

/** The allocator that a thread has by default, for blocks that go to any peer. */
#define PGAS_REG_ANY (-1)

/** Gives a block of the calling thread's own circular allocator, to be filled and sent:
 *
 *      pgas_reg_acquire(PGAS_REG_ANY, bytes, &block);
 *      fill(block.address);
 *      pgas_put_nb(there, block.address, bytes, &request);
 *      pgas_reg_release(&block);                           before the put is complete, and with no
 *                                                          wait for it
 *
 *  Shape:  any attached thread, not inside handlers. peer PGAS_REG_ANY: the thread's one allocator.
 *          A rank: the thread's allocator for that peer, whose blocks are reused as soon as that
 *          peer has them, however slow others are; they go to that peer alone. Each is made when
 *          first used, in the zone where the thread runs then, as PGAS_REG_UNIT, PGAS_REG_GROWTH
 *          and PGAS_REG_MAX say, owner "threads". Cut them to size where threads times peers are
 *          many: all come out of the heap.
 *  Done:   the block may be filled, then given to pgas_put, pgas_put_nb and what is built on them
 *          (not to transfers that bring something: wait for those before the release). The library
 *          hands its address to the transport: no copy of ours, nothing is registered. (What a
 *          transport copies into packets is its own: UCX does with small puts.)
 *  Owns:   until pgas_reg_release. What is not released when the thread detaches is gone.
 *  Cost:   no lock, no system call, no allocation while blocks come back in time; a look at the
 *          context's numbers when the room in use is full. One flush for each quarter of
 *          PGAS_REG_MAX that is released while something is under way.
 *  @return PGAS_OK. acquire waits, with progress, for blocks to come back; acquire_try gives
 *          PGAS_ERR_AGAIN instead. PGAS_ERR_DEADLOCK (acquire: no room, and the oldest block is
 *          still held by this thread; logged); PGAS_ERR_PEER (acquire: a peer died, and the
 *          transport does not say what became of what was sent); PGAS_ERR_RANGE (no such rank);
 *          PGAS_ERR_CONTEXT (in a handler, or not attached); others as pgas_circular_create and
 *          pgas_circular_acquire. */
PGAS_API pgas_status_t pgas_reg_acquire(int peer, size_t bytes, pgas_block_t *block_p);
PGAS_API pgas_status_t pgas_reg_acquire_try(int peer, size_t bytes, pgas_block_t *block_p);

/** Says that all that uses the block has been issued, on this thread; it may still be under way.
 *  The block must not be touched any more. It is reused once what the thread had issued by now is
 *  complete, as its context's completion numbers tell: no wait, no event per block.
 *  @return PGAS_OK; PGAS_ERR_INVALID (null, not a block of this thread that is out);
 *  PGAS_ERR_CONTEXT, PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_reg_release(const pgas_block_t *block);

/** What the calling thread's allocator for a peer (or PGAS_REG_ANY) has, after a look at what is
 *  complete.
 *  @return PGAS_OK; PGAS_ERR_NOT_FOUND (not used yet); PGAS_ERR_INVALID (null); PGAS_ERR_CONTEXT,
 *  PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_reg_info(int peer, pgas_regmem_info_t *info_p);

/* ---- blocks of the rank, by zone ---- */

/** NUMA zones of this machine; 1 if they are not known. Any time. */
PGAS_API int pgas_n_zones(void);

/** Allocates a block in a zone, from the rank's general allocator for that zone, which all threads
 *  share: what pgas_alloc_local is without zones.
 *  Shape:  any attached thread, also inside handlers. zone as in the options above. The zones'
 *          allocators, made when first used, owner "zones", are limited by the heap alone.
 *  Done:   *ptr_p names the block, aligned to 64 bytes, contents undefined; pgas_gptr_local gives
 *          its address.
 *  Owns:   pgas_zone_free, on this rank, any thread.
 *  @return PGAS_OK; PGAS_ERR_NO_MEMORY (logged); PGAS_ERR_NOT_FOUND (no such zone);
 *          PGAS_ERR_INVALID (null, no bytes); PGAS_ERR_CONTEXT (thread not attached),
 *          PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_zone_alloc(int zone, size_t bytes, pgas_gptr_t *ptr_p);

/** Frees it again. Null is ignored.
 *  @return PGAS_OK; PGAS_ERR_INVALID (no live block of pgas_zone_alloc; logged); PGAS_ERR_RANGE (a
 *          block of another rank); PGAS_ERR_CONTEXT, PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_zone_free(pgas_gptr_t ptr);

/* ---- the account ---- */

/** Bytes of this rank that peers reach, by owner. */
typedef struct {
    char name[32];
    uint64_t bytes, high_bytes; /* now, and the most since pgas_init */
    /* the limit; several allocators of one owner: together; 0: none in bytes */
    uint64_t max_bytes;
} pgas_reg_owner_t;
#define PGAS_REG_OWNERS_MAX 72 /* more allocators' owners share the last line, "others" */

/** Accounts for all of it: the program's blocks, each owner of allocators, attached memory, what is
 *  left of the heap; the bytes add up to the heap and what is attached. With a transport (ranks on
 *  other nodes) all of it is pinned, and the last line says what the transport reserves for
 *  incoming messages besides, as far as it knows. pgas_info prints it.
 *  Shape:  any thread between init and finalize.
 *  @param  owners  n of them at most are written; *n_p is how many there are.
 *  @return PGAS_OK, PGAS_ERR_INVALID (null), PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_reg_account(pgas_reg_owner_t *owners, int n, int *n_p);

PGAS_END_DECLS
#endif
