/** Memory that peers reach: the symmetric heap, blocks of one rank, memory of the program.
 *
 *      pgas_gptr_t mine, block, window;
 *      pgas_alloc(1 << 20, &mine);                              collective: 1 MiB on each rank
 *      pgas_put_u64(pgas_gptr_at(mine, 1), 7);                  a word in the block of rank 1
 *      pgas_alloc_on(3, PGAS_ZONE_NONE, 4096, &block);          on rank 3 alone
 *      pgas_mem_attach(buffer, sizeof buffer, &window);         memory that the program has already
 *      pgas_free(mine);                                         collective */
#ifndef PGAS_MEM_H
#define PGAS_MEM_H

#include <stddef.h>
#include "pgas/gptr.h"
#include "pgas/runtime.h"

PGAS_BEGIN_DECLS

/** Allocates a block of the same size and offset on every rank.
 *  Shape:  collective over all ranks, same bytes on each. 0 bytes give PGAS_NULL.
 *  Done:   on return every rank has its block, aligned to 64 bytes, contents undefined. *ptr_p is
 *          the caller's own block; pgas_gptr_at(*ptr_p, r) is that of rank r.
 *  Owns:   pgas_free, collective.
 *  Cost:   one small allreduce.
 *  @return PGAS_OK
 *          PGAS_ERR_NO_MEMORY  PGAS_HEAP_SIZE is exhausted on some rank; its log names variable,
 *                              size and request
 *          PGAS_ERR_MISMATCH   the sizes differ
 *          PGAS_ERR_INVALID    ptr_p is NULL
 *          PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_PEER, PGAS_ERR_MPI  as for collectives
 *          All ranks get the same status. */
PGAS_API pgas_status_t pgas_alloc(size_t bytes, pgas_gptr_t *ptr_p);

/** Frees a block of pgas_alloc.
 *  Shape:  collective. Each rank passes its own pointer, or that of any rank. Null is ignored.
 *  Done:   the memory is not reused before all ranks have called.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID   not a live block, for example freed before
 *          PGAS_ERR_MISMATCH  ranks free different blocks
 *          PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_PEER, PGAS_ERR_MPI  as for collectives
 *          All ranks get the same status. After an error nothing is freed. */
PGAS_API pgas_status_t pgas_free(pgas_gptr_t ptr);

/** NUMA zones of a rank, by hwloc's logical numbers, as in pgas_place_info_t. */
#define PGAS_ZONE_OWN     0    /* of the CPU on which the calling thread runs at that moment */
#define PGAS_ZONE_NONE    (-1) /* not placed: the thread that writes a page first decides */
#define PGAS_ZONE(number) ((number) + 1)

/** Returns the number of NUMA zones of this machine; 1 if it is not known. Any time. */
PGAS_API int pgas_n_zones(void);

/** Allocates a block on one rank: the calling rank or another one.
 *  Shape:  any attached thread. In a plain handler on the own rank only. 0 bytes give PGAS_NULL.
 *          zone: of that rank. PGAS_ZONE_OWN of another rank is the zone in which its initialising
 *          thread attached.
 *  Done:   *ptr_p is the block there, aligned to 64 bytes, contents undefined. Its pages are in the
 *          zone. In a job with several nodes, pages that a peer has touched or a network card has
 *          pinned do not move. If the zone is full, the pages are in another one.
 *  Owns:   pgas_free_on, by any rank.
 *  Cost:   on another rank, one round trip.
 *  @return PGAS_OK
 *          PGAS_ERR_NO_MEMORY  the heap there is exhausted; the log of that rank says why
 *          PGAS_ERR_RANGE      no such rank
 *          PGAS_ERR_NOT_FOUND  the rank has no such zone
 *          PGAS_ERR_INVALID    ptr_p is NULL, or a zone below PGAS_ZONE_NONE
 *          PGAS_ERR_CONTEXT    the thread is not attached; or in a plain handler, and the rank is
 *                              another one
 *          PGAS_ERR_PEER       the rank died
 *          PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_alloc_on(int rank, int zone, size_t bytes, pgas_gptr_t *ptr_p);

/** Frees a block of pgas_alloc_on of any rank. Null is ignored.
 *  Shape:  any attached thread. In a handler the request is sent without waiting for the answer;
 *          then only the log of the owner reports an invalid block.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  not a live block of pgas_alloc_on, for example freed before; logged
 *          PGAS_ERR_RANGE    no such rank
 *          PGAS_ERR_PEER     the rank died
 *          PGAS_ERR_AGAIN    in a handler: the queue is full */
PGAS_API pgas_status_t pgas_free_on(pgas_gptr_t ptr);

/** Makes the program's own memory reachable for peers.
 *  Shape:  one rank; at most PGAS_SEGMENTS at a time. Each segment takes whole GiB of the rank's
 *          16383 GiB of global pointers, in addition to those of the heap. pgas_mem_detach frees
 *          them again, unless a rank of another node has used the memory. Such a rank keeps the key
 *          of the memory, so these global pointers are not reused before pgas_finalize.
 *  Done:   *ptr_p can be sent to peers. Other processes cannot map the memory: there
 *          pgas_gptr_local returns NULL, and the owner's service carries out operations of ranks of
 *          the same node.
 *          *ptr_p is aligned like address, up to 8 bytes. If address is not aligned to 8 bytes,
 *          pgas_gptr_local returns NULL at the owner, too.
 *  Owns:   the memory stays the caller's. It must not be freed before pgas_mem_detach.
 *  Cost:   registration with the transport, if there is one.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID    a null pointer, or no bytes
 *          PGAS_ERR_CONTEXT    the thread is not attached
 *          PGAS_ERR_LIMIT      PGAS_SEGMENTS are attached, or no global pointers are left; the log
 *                              says which
 *          PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_mem_attach(void *address, size_t bytes, pgas_gptr_t *ptr_p);

/** Detaches memory. No peer may use it any more; the program ensures that, for example by a
 *  barrier.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  not the start of an attached segment of this rank
 *          PGAS_ERR_CONTEXT  the thread is not attached
 *          PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_mem_detach(pgas_gptr_t ptr);

/** The state of this rank's heap. */
typedef struct {
    size_t size;            /* in: sizeof of this struct */
    size_t heap_bytes;      /* PGAS_HEAP_SIZE */
    size_t symmetric_bytes; /* in blocks of pgas_alloc */
    size_t local_bytes;     /* in blocks of pgas_alloc_on, and in super-chunks (pgas/regmem.h) */
    size_t largest_free;    /* the largest request that pgas_alloc_on could serve */
    size_t page_bytes;      /* size of the heap's pages */
} pgas_heap_info_t;

/** Describes this rank's heap.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  info_p is NULL, or its size has no room for any field
 *          PGAS_ERR_NOT_INIT */
PGAS_API pgas_status_t pgas_heap_info(pgas_heap_info_t *info_p);

PGAS_END_DECLS
#endif
