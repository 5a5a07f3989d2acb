/** Many elements anywhere in one call: gets, puts and updates of single elements of any ranks, in
 *  any order.
 *
 *      pgas_sync_t done = PGAS_SYNC_INIT;
 *      pgas_get_many(values, ptrs, sizeof *values, n, &done);            values[i] from ptrs[i]
 *      pgas_sync_wait(&done, -1);
 *
 *      pgas_update_many(ptrs, PGAS_ADD, PGAS_U64, NULL, n);               each word += 1
 *      pgas_quiesce();                                                   all ranks: all are done
 *
 *  Within the node these functions are loops of loads, stores and atomic instructions, whose cache
 *  lines are requested ahead. All other elements travel in messages of some thousand elements,
 *  which the owners of the elements carry out as one batch. So these functions are faster than
 *  loops over pgas_get, pgas_put and pgas_update.
 *
 *  Shape:  any attached thread. In plain handlers all elements must be within the node. If an
 *          element appears twice in a put, one of its values wins. Words of updates are aligned.
 *  Owns:   ptrs, src and values may be reused on return. dst belongs to the call until *sync is
 *          lowered.
 *  Cost:   between nodes 4 bytes and the value for each element, and one answer for each message of
 *          gets and puts. An allocation for each message that awaits an answer; a rank has at most
 *          256 of them. Buckets by rank take 1 MiB, or 128 bytes for each rank if that is more.
 *  Statuses of all functions:
 *      PGAS_ERR_INVALID    a null pointer, elements of 0 bytes, a misaligned word, or get_many
 *                          without a counter
 *      PGAS_ERR_RANGE      a null pointer in ptrs, no such rank, or a place outside of segments. If
 *                          only the owner can tell, *sync reports it (gets, puts), or its log
 *                          (updates)
 *      PGAS_ERR_CONTEXT    the thread is not attached, or runs a plain handler and an element is on
 *                          another node
 *      PGAS_ERR_PEER       a rank died
 *      PGAS_ERR_NO_MEMORY
 *  After an error some elements may have been transferred, and *sync counts messages under way.
 *
 *  Source: index gather and histogram of bale, here as calls of the library. */
#ifndef PGAS_MANY_H
#define PGAS_MANY_H

#include <stddef.h>
#include "pgas/gptr.h"
#include "pgas/op.h"
#include "pgas/sync.h"

PGAS_BEGIN_DECLS

/** Copies the n elements at ptrs[0] .. ptrs[n-1] to dst, one behind the other.
 *  Done:   all elements are in dst when *sync is lowered. */
PGAS_API pgas_status_t pgas_get_many(void *dst, const pgas_gptr_t *ptrs, size_t elem_bytes,
                                     size_t n, pgas_sync_t *sync);

/** Copies the n elements of src, which follow each other, to ptrs[0] .. ptrs[n-1].
 *  Done:   *sync is lowered when all elements are visible at their ranks. Without a counter (NULL)
 *          they are visible after pgas_quiesce. */
PGAS_API pgas_status_t pgas_put_many(const pgas_gptr_t *ptrs, const void *src, size_t elem_bytes,
                                     size_t n, pgas_sync_t *sync);

/** Combines values[i] into the word at ptrs[i], for i = 0 .. n-1. values NULL: every value is 1.
 *  Shape:  any built-in operator, and any type that has it. Words of attached memory of other
 *          nodes: only what pgas_update offers. Each update is one atomic operation. So updates by
 *          this function and atomics (pgas/atomic.h) lose nothing among themselves. Plain
 *          instructions to the same words, also in handlers, must be separated from them by
 *          pgas_quiesce.
 *  Done:   after pgas_quiesce all updates of all ranks are visible.
 *  @return also PGAS_ERR_UNSUPPORTED for other operators and types. */
PGAS_API pgas_status_t pgas_update_many(const pgas_gptr_t *ptrs, pgas_op_t op, pgas_type_t type,
                                        const void *values, size_t n);

PGAS_END_DECLS
#endif
