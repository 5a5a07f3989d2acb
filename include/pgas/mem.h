/** Memory that peers reach: the symmetric heap, blocks of one rank, pools, memory of the program.
 *
 *      pgas_gptr_t mine, there, window;
 *      pgas_alloc(1 << 20, &mine);                              collective: 1 MiB on each rank
 *      pgas_put_u64(pgas_gptr_at(mine, 1), 7);                  a word in the block of rank 1
 *      pgas_alloc_on(3, PGAS_ZONE_NONE, 4096, &there);          on rank 3 alone
 *      pgas_mem_attach(buffer, sizeof buffer, &window);         memory that the program has already
 *      pgas_free(mine);                                         collective
 *      pgas_free_on(there);
 *
 *  Blocks have undefined contents and are aligned to 64 bytes. A request for 0 bytes gives
 *  PGAS_NULL, and free ignores PGAS_NULL.
 *
 *  Statuses of all functions, beside those that they list.
 *  Collective functions return the same status on all ranks, also PGAS_ERR_MPI.
 *  @return PGAS_ERR_CONTEXT    the thread is not attached
 *          PGAS_ERR_INVALID    a null pointer
 *          PGAS_ERR_RANGE      no such rank
 *          PGAS_ERR_PEER       a rank that takes part died
 *          PGAS_ERR_NO_MEMORY  no room in the heap (logged: PGAS_HEAP_SIZE), or for records */
#ifndef PGAS_MEM_H
#define PGAS_MEM_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/gptr.h"
#include "pgas/runtime.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/** Allocates a block of the same size and offset on every rank of a team (NULL: of the job).
 *  Shape:  collective over the team, same bytes on each rank. *ptr_p is the caller's own block;
 *          pgas_gptr_at(*ptr_p, r) is that of rank r of the job.
 *  Owns:   pgas_team_free, collective over this team or one with the same ranks.
 *  Cost:   one small allreduce while only one team allocates. Blocks of overlapping teams cost some
 *          more, in the worst case one for each hole in the ranks' heaps.
 *  @return PGAS_ERR_NO_MEMORY  no offset is free on all ranks
 *          PGAS_ERR_MISMATCH   the sizes differ */
PGAS_API pgas_status_t pgas_team_alloc(pgas_team_t *team, size_t bytes, pgas_gptr_t *ptr_p);
static inline pgas_status_t pgas_alloc(size_t bytes, pgas_gptr_t *ptr_p)
{
    return pgas_team_alloc(NULL, bytes, ptr_p);
}

/** Frees a block of pgas_team_alloc. Collective: each rank passes its own pointer, or that of any
 *  rank. The memory is not reused before all ranks have called.
 *  @return PGAS_ERR_INVALID   not a live block of these ranks, for example freed before; logged
 *          PGAS_ERR_MISMATCH  ranks free different blocks */
PGAS_API pgas_status_t pgas_team_free(pgas_team_t *team, pgas_gptr_t ptr);
static inline pgas_status_t pgas_free(pgas_gptr_t ptr)
{
    return pgas_team_free(NULL, ptr);
}

/** NUMA zones of a rank, by hwloc's logical numbers, as in pgas_thread_info_t. */
#define PGAS_ZONE_OWN     0    /* of the CPU on which the calling thread runs at that moment */
#define PGAS_ZONE_NONE    (-1) /* not placed: the thread that writes a page first decides */
#define PGAS_ZONE(number) ((number) + 1)

/** Returns the number of NUMA zones of this machine; 1 if it is not known. Any time. */
PGAS_API int pgas_n_zones(void);

/** Allocates a block on one rank: the calling rank or, by one round trip, another one.
 *  Shape:  any attached thread; in a plain handler on the own rank only. zone: of that rank.
 *          PGAS_ZONE_OWN of another rank is the zone in which its initialising thread attached.
 *  Done:   the block's pages are in the zone. Pages do not move if a network card has pinned them
 *          or, in a job with several nodes, if a peer has touched them. A full zone overflows into
 *          another one. Pages of 1 GiB are not placed for smaller requests (PGAS_HUGEPAGES).
 *  Owns:   pgas_free_on, by any rank.
 *  @return PGAS_ERR_NOT_FOUND  the rank has no such zone
 *          PGAS_ERR_INVALID    a zone below PGAS_ZONE_NONE
 *          PGAS_ERR_CONTEXT    in a plain handler, and the rank is another one */
PGAS_API pgas_status_t pgas_alloc_on(int rank, int zone, size_t bytes, pgas_gptr_t *ptr_p);

/** Frees a block of pgas_alloc_on of any rank. In a plain handler, a request to another rank is
 *  sent without waiting for the answer; then only the owner's log reports an invalid block.
 *  @return PGAS_ERR_INVALID  not a live block of pgas_alloc_on, for example freed before; logged
 *          PGAS_ERR_AGAIN    in a handler: the queue is full */
PGAS_API pgas_status_t pgas_free_on(pgas_gptr_t ptr);

/** Pools give blocks that are acquired and released often. Their memory is in the heap: the
 *  transport sends it without a copy, and the ranks of the node map it.
 *  | policy   | for                              | threads       | blocks return        |
 *  | general  | long-lived blocks of any size    | any, handlers | in any order         |
 *  | circular | buffers that are sent in turn    | one at a time | first in, first out  |
 *  | linear   | buffers that return in any order | one at a time | a whole unit at once |
 *  A circular or linear pool belongs to the first thread that acquires a block, until that thread
 *  detaches. */
typedef enum { PGAS_POOL_GENERAL, PGAS_POOL_CIRCULAR, PGAS_POOL_LINEAR } pgas_pool_policy_t;

/** DEFAULT is PGAS_POOL_GROWTH. An exponential step is as large as all steps before together. */
typedef enum { PGAS_GROWTH_DEFAULT, PGAS_GROWTH_EXPONENTIAL, PGAS_GROWTH_LINEAR } pgas_growth_t;

typedef struct {
    size_t size;       /* as in pgas_init_opts_t */
    const char *owner; /* for pgas_mem_owners; up to 31 characters, copied; default "program" */
    pgas_pool_policy_t policy;
    int zone;          /* PGAS_ZONE_OWN (of the creating thread), _NONE or PGAS_ZONE(n) */
    int rank;          /* has the memory (general pools only); -1: the calling rank */
    int peer;          /* to which alone blocks are sent: slow other ranks do not delay their
                           * reuse (circular and linear pools); -1: any rank */
    size_t unit_bytes; /* least growth, rounded up to pages; default PGAS_POOL_UNIT */
    size_t max_bytes;  /* the limit, rounded down to units; default PGAS_POOL_MAX */
    pgas_growth_t growth;
    uint32_t grow_units; /* units of the first step, and of each linear one; default 1 */
    size_t alignment;    /* of blocks, a power of two up to 4096; default 64 */
} pgas_pool_opts_t;
#define PGAS_POOL_OPTS_INIT                                                             \
    {                                                                                   \
        sizeof(pgas_pool_opts_t), NULL, PGAS_POOL_GENERAL, PGAS_ZONE_OWN, -1, -1, 0, 0, \
            PGAS_GROWTH_DEFAULT, 0, 0                                                   \
    }

/** A block of a pool: a plain value that may be copied. */
typedef struct {
    void *address;   /* in this process; NULL: in the memory of another node */
    pgas_gptr_t ptr; /* the same for all ranks */
    size_t bytes;    /* as requested; the block ends there */
    uint64_t ticket; /* belongs to the pool */
} pgas_block_t;

typedef struct pgas_pool pgas_pool_t;

/** Creates a pool. It takes memory at the first acquire. opts NULL: defaults.
 *  @return PGAS_ERR_INVALID      an option has an unknown value
 *          PGAS_ERR_NOT_FOUND    no such zone on this rank
 *          PGAS_ERR_LIMIT        unit_bytes exceeds max_bytes
 *          PGAS_ERR_UNSUPPORTED  circular or linear, and rank is another rank */
PGAS_API pgas_status_t pgas_pool_create(const pgas_pool_opts_t *opts, pgas_pool_t **pool_p);
/** Ends a pool and gives its memory back, including blocks in use, which no operation may use any
 *  more. NULL is ignored. pgas_finalize ends pools that are left. */
PGAS_API pgas_status_t pgas_pool_destroy(pgas_pool_t *pool);

/** Gives a block, and waits with progress while there is no room. Circular and linear pools: some
 *  additions while blocks return in time, no lock. Growth takes the heap's lock.
 *  @return PGAS_ERR_AGAIN      timeout_us is 0, and there is no room until blocks return
 *          PGAS_ERR_TIMEOUT    the same after timeout_us
 *          PGAS_ERR_DEADLOCK   circular, linear: no room, and only blocks that this thread has not
 *                              released could give some; logged
 *          PGAS_ERR_LIMIT      more than max_bytes could ever hold; logged once
 *          PGAS_ERR_PEER       the rank with the memory died, or one whose operations may now never
 *                              be reported complete
 *          PGAS_ERR_CONTEXT    a circular or linear pool that belongs to another thread, or is used
 *                              in a plain handler. In a plain handler also: timeout_us is not 0,
 *                              or the memory of another rank grows
 *          PGAS_ERR_INVALID    no bytes */
PGAS_API pgas_status_t pgas_pool_acquire(pgas_pool_t *pool, size_t bytes, int64_t timeout_us,
                                         pgas_block_t *block_p);

/** Gives a block back, without waiting. The program must not touch it any more, and transfers that
 *  write to it must be complete. Operations of this thread may still read it: the block is reused
 *  when the operations that the thread has issued so far are complete. A general pool reads only
 *  block->ptr.
 *  @return PGAS_ERR_INVALID  not a block in use, for example released before (linear: noticed only
 *                            when no block of the unit is in use)
 *          PGAS_ERR_CONTEXT  as for acquire */
PGAS_API pgas_status_t pgas_pool_release(pgas_pool_t *pool, const pgas_block_t *block);

typedef struct {
    size_t size;                  /* in: sizeof of this struct */
    size_t bytes, high_bytes;     /* taken from the heap now; the most ever */
    size_t max_bytes, unit_bytes; /* as rounded */
    size_t used_bytes, n_blocks;  /* in use, or released and not reusable yet */
    size_t n_chunks;              /* steps of growth */
    int zone;                     /* -1: not placed, as on machines with one zone */
} pgas_pool_info_t;

/** Describe a pool, and give its memory without a block in use back to the heap.
 *  @return PGAS_ERR_CONTEXT as for acquire */
PGAS_API pgas_status_t pgas_pool_info(pgas_pool_t *pool, pgas_pool_info_t *info_p);
PGAS_API pgas_status_t pgas_pool_trim(pgas_pool_t *pool);

/** Makes the program's own memory reachable for peers, until pgas_mem_detach. It stays the
 *  caller's, and must not be freed before.
 *  Shape:  at most PGAS_SEGMENTS at a time. Each takes whole GiB of the rank's 16383 GiB of global
 *          pointers until it is detached, or until pgas_finalize if another node has used them.
 *  Done:   *ptr_p is aligned like address, up to 8 bytes. Other processes cannot map the memory:
 *          there pgas_gptr_local returns NULL, and the owner's service carries out operations of
 *          ranks of the same node.
 *  @return PGAS_ERR_INVALID  no bytes
 *          PGAS_ERR_LIMIT    PGAS_SEGMENTS are attached, or no global pointers are left; logged */
PGAS_API pgas_status_t pgas_mem_attach(void *address, size_t bytes, pgas_gptr_t *ptr_p);
/** Detaches memory, which no peer uses any more.
 *  @return PGAS_ERR_INVALID  not the start of an attached segment of this rank */
PGAS_API pgas_status_t pgas_mem_detach(pgas_gptr_t ptr);

typedef struct {
    size_t size;            /* in: sizeof of this struct */
    size_t heap_bytes;      /* PGAS_HEAP_SIZE */
    size_t symmetric_bytes; /* in blocks of pgas_team_alloc */
    size_t local_bytes;     /* in blocks of pgas_alloc_on, and in pools */
    size_t largest_free;    /* the largest request that pgas_alloc_on could serve */
    size_t page_bytes;      /* size of the heap's pages */
} pgas_heap_info_t;
/** Describes this rank's heap. */
PGAS_API pgas_status_t pgas_heap_info(pgas_heap_info_t *info_p);

/** Bytes of this rank that peers reach, by owner. */
typedef struct {
    char name[32];
    uint64_t bytes, high_bytes; /* now, and the most since pgas_init */
    uint64_t max_bytes;         /* the limit of all pools of the owner together; 0: none */
} pgas_mem_owner_t;
#define PGAS_MEM_OWNERS_MAX 72 /* further owners share the last entry, "others" */

/** Lists the memory of this rank that peers reach, as pgas_info prints it: at most n entries; *n_p
 *  is the number that there are. The bytes add up to the heap and the attached memory, all of which
 *  a transport pins. With one, the last entry is its own estimate for incoming messages. */
PGAS_API pgas_status_t pgas_mem_owners(pgas_mem_owner_t *owners, int n, int *n_p);

PGAS_END_DECLS
#endif
