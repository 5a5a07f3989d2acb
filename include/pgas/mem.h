/** Memory that peers reach: the symmetric heap, blocks of one rank, the program's own memory. */
#ifndef PGAS_MEM_H
#define PGAS_MEM_H

#include <stddef.h>
#include "pgas/gptr.h"
#include "pgas/runtime.h"

PGAS_BEGIN_DECLS

/** Allocates a block of the same size and offset on every rank.
 *  Shape:  collective over all ranks, same bytes on each; 0 bytes gives PGAS_NULL.
 *  Done:   on return every rank has its block: aligned to 64 bytes, contents undefined. *ptr_p
 *          names the caller's own copy; pgas_gptr_at(*ptr_p, r) is that of rank r.
 *  Owns:   pgas_free, collective.
 *  Cost:   one small allreduce.
 *  @return PGAS_OK; PGAS_ERR_NO_MEMORY if PGAS_HEAP_SIZE is exhausted on any rank (its log names
 *          variable, size and request); PGAS_ERR_MISMATCH if the sizes differ; PGAS_ERR_NOT_INIT.
 *          The same on all ranks. */
PGAS_API pgas_status_t pgas_alloc(size_t bytes, pgas_gptr_t *ptr_p);

/** Frees a block of pgas_alloc. Collective; each rank passes its own pointer (or that of any rank).
 *  Waits for all ranks before the memory is reused. Null is ignored.
 *  @return PGAS_OK; PGAS_ERR_INVALID if it is no live block (double free); PGAS_ERR_MISMATCH if
 *          ranks free different blocks. The same on all ranks; nothing is freed then. */
PGAS_API pgas_status_t pgas_free(pgas_gptr_t ptr);

/** Allocates a block on the calling rank alone, from the other end of the same heap. Any attached
 *  thread.
 *  @return PGAS_OK, PGAS_ERR_NO_MEMORY (logged as above), PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_alloc_local(size_t bytes, pgas_gptr_t *ptr_p);

/** Frees it again, on the rank that allocated it.
 *  @return PGAS_OK; PGAS_ERR_INVALID (no live block, double free, a block of pgas_alloc);
 *          PGAS_ERR_RANGE (a block of another rank). */
PGAS_API pgas_status_t pgas_free_local(pgas_gptr_t ptr);

/** Allocates a block on any rank, near one of its threads.
 *  Shape:  any attached thread. where: a thread of the rank, or (rank, PGAS_SLOT_ANY) for no zone
 *          in particular. In a handler that may not block, on the own rank only.
 *  Done:   *ptr_p names the block there, aligned to 64 bytes, contents undefined. On machines with
 *          several NUMA zones its pages are those of the zone where the thread attached: as
 *          pgas_zone_alloc there (pgas/regmem.h says what cannot be moved to a zone).
 *  Owns:   pgas_free_on by any rank.
 *  Cost:   one round trip, answered by whoever serves there.
 *  @return as pgas_alloc_local, for the heap there (the log of that rank says why); PGAS_ERR_RANGE
 *          (no such rank); PGAS_ERR_NOT_FOUND (no such thread is attached there); PGAS_ERR_CONTEXT
 *          (in a handler, of another rank); PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_alloc_on(pgas_thread_t where, size_t bytes, pgas_gptr_t *ptr_p);

/** Frees a block of pgas_alloc_on, pgas_alloc_local or pgas_zone_alloc, whichever rank has it. Null
 *  is ignored.
 *  Shape:  any attached thread. In a handler the request is sent and not waited for: what is wrong
 *          with it only the log of the owner tells.
 *  @return PGAS_OK; PGAS_ERR_INVALID (no live block); PGAS_ERR_RANGE (no such rank); PGAS_ERR_PEER;
 *          in a handler also PGAS_ERR_AGAIN (queue full). */
PGAS_API pgas_status_t pgas_free_on(pgas_gptr_t ptr);

/** Makes the program's own memory reachable for peers.
 *  Shape:  one rank; at most PGAS_SEGMENTS at a time. Each takes whole GiB of the rank's 16383 GiB
 *          of global pointers, beside those of the heap. They are free again after pgas_mem_detach,
 *          unless a rank of another node has used the memory: it remembers the way there, so these
 *          are not given out again before pgas_finalize.
 *  Done:   *ptr_p can be sent to peers. Other processes cannot map it: pgas_gptr_local gives NULL
 *          there, and the owner's service carries operations of same-node peers out. *ptr_p is
 *          aligned to 8 bytes as far as address is; if it is not, pgas_gptr_local gives NULL at the
 *          owner, too.
 *  Owns:   the memory stays the caller's; it must not be freed before pgas_mem_detach.
 *  Cost:   registration with the transport, if there is one.
 *  @return PGAS_OK, PGAS_ERR_INVALID (null or empty), PGAS_ERR_LIMIT (PGAS_SEGMENTS, or no global
 *          pointers are left: the log says which), PGAS_ERR_NO_MEMORY, PGAS_ERR_NOT_INIT. */
PGAS_API pgas_status_t pgas_mem_attach(void *address, size_t bytes, pgas_gptr_t *ptr_p);

/** Ends it. No peer may use the memory any more: see to that (a barrier) before.
 *  @return PGAS_OK, PGAS_ERR_INVALID (not the start of an attached segment of this rank). */
PGAS_API pgas_status_t pgas_mem_detach(pgas_gptr_t ptr);

/** Numbers of the heap of this rank. */
typedef struct {
    size_t heap_bytes;      /* PGAS_HEAP_SIZE */
    size_t symmetric_bytes; /* in blocks of pgas_alloc */
    size_t local_bytes;     /* in blocks of pgas_alloc_local, and in super-chunks (pgas/regmem.h) */
    size_t largest_free;    /* the largest request that pgas_alloc_local could serve */
    size_t page_bytes;      /* size of the heap's pages */
} pgas_heap_info_t;
PGAS_API pgas_status_t pgas_heap_info(pgas_heap_info_t *info_p);

PGAS_END_DECLS
#endif
