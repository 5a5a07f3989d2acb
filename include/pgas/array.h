/** A coherent distributed array: every rank gets, sets, locks and operates on elements, which are
 *  cached where they are used.
 *
 *      pgas_array_t *a;
 *      pgas_array_create(NULL, sizeof(double), n, NULL, &a);         collective
 *      double x;
 *      pgas_array_get_f64(a, i, &x);
 *      pgas_array_set_f64(a, i, x + 1);
 *      pgas_array_apply_f64(a, i, PGAS_ADD, 0.5);                    element i += 0.5, atomically
 *      pgas_array_destroy(a);                                        collective
 *
 *  Elements are grouped in chunks. Each chunk is in memory of its home rank. Ranks of the home's
 *  node use it there, or a cache if they often combine; ranks of other nodes keep copies in one.
 *  An access to a usable chunk is a few plain instructions. The home knows each chunk's state:
 *  | state     | ranks of the home's node  | other ranks                                     |
 *  | Unshared  | read, write, operate      | none has a copy                                 |
 *  | Shared    | read                      | read                                            |
 *  | Dirty     | no access                 | one rank reads, writes and operates             |
 *  | Operated  | operate, one operator     | operate, each into contributions of its own     |
 *  In the state Operated a rank collects contributions: the operands of its apply calls, combined.
 *  They are merged into the elements when a thread reads or writes the chunk.
 *
 *  Consistency. get, set, compare_swap, fetch_op, locks and the functions on many elements (element
 *  by element) are sequentially consistent, over all elements, threads and ranks. A contribution is
 *  applied exactly once. Every read that is ordered after its apply sees it. Order arises within a
 *  thread, and between threads by a barrier, a lock, a call or another element. Applies to
 *  different elements have no order of their own. The program itself orders loads and stores
 *  through the pointer of a pin within the node. For other nodes they happen between pin and unpin.
 *
 *  Threads. Any attached thread may use an array.
 *  Plain handlers may use only operations that complete without another rank; other operations
 *  return PGAS_ERR_CONTEXT. Pins and locks always do.
 *
 *  Operators. Typed functions take PGAS_ADD, PROD, MIN, MAX, AND, OR or XOR, and others
 *  PGAS_OP(PGAS_ADD, PGAS_F64) and so on. Both take operators of the program (pgas_op_register).
 *
 *  Statuses that every function can return in addition to its own:
 *      PGAS_ERR_CONTEXT      the thread is not attached, or a plain handler would have to wait
 *      PGAS_ERR_INVALID      array or another pointer is NULL; typed functions do not check array
 *      PGAS_ERR_RANGE        no such element; for many elements: nothing is read or written
 *      PGAS_ERR_UNSUPPORTED  arrays do not offer the operator for this type, for example PGAS_SWAP
 *      PGAS_ERR_NOT_FOUND    this rank or the home has not registered the operator
 *      PGAS_ERR_MISMATCH     the operator is for elements of another size
 *      PGAS_ERR_PEER         a rank of the team died (PGAS_ON_PEER_DEATH=continue). The array is
 *                            not usable any more, although operations that need no other rank may
 *                            still return PGAS_OK
 *      PGAS_ERR_DEADLOCK     the access would wait for a pin of the calling thread itself, for
 *                            example a set inside a pin for reading
 *      PGAS_ERR_NO_MEMORY    a request found no memory; or pins occupy the whole cache, and the
 *                            element is larger than a call can carry (PGAS_CALL_MAX - 64 bytes)
 *
 *  Source: DArray (Ding, Han, Chen; ICPP 2023): states, Operate, hazard of readers. */
#ifndef PGAS_ARRAY_H
#define PGAS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/op.h"
#include "pgas/runtime.h"
#include "pgas/status.h"
#include "pgas/sync.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/** Opaque. */
typedef struct pgas_array pgas_array_t;

/** Options (PGAS_ARRAY_OPTS_INIT); zero means default. All ranks of the team give the same, except
 *  cache_bytes and prefetch. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* elements of a chunk, rounded up to a power of two; default 512, at most 2^20 and 16 MiB.
     * Below 512 the typed forms are not inline */
    size_t chunk_elems;
    /* [team size + 1], ascending from 0 to n_elems: rank r is home of the elements offsets[r] ..
     * offsets[r+1]-1. NULL: whole chunks, distributed evenly. Read during create only */
    const uint64_t *offsets;
    size_t cache_bytes; /* this rank's cache for chunks of other ranks; default: PGAS_ARRAY_CACHE */
    int low_percent;    /* low watermark: chunks are evicted if fewer lines are free; default 30 */
    int high_percent;   /* until so many are free; default 50 */
    /* chunks that are requested ahead of a sequential walk; default 32, at most 64, -1: none */
    int prefetch;
} pgas_array_opts_t;

/** Creates an array of n_elems elements (0 or more) of elem_bytes bytes (1 .. 65536), all zero.
 *  Shape:  collective over the team (NULL: all ranks). The team must outlive the array.
 *  Owns:   pgas_array_destroy frees it, otherwise pgas_finalize.
 *  Cost:   in the symmetric heap of each rank: its elements; 24 bytes for every chunk of the whole
 *          array, or for every 512 elements if chunks are longer; 64 bytes for every chunk of its
 *          own; the cache. Elsewhere on each rank: 6 bytes for every chunk of the whole array, 64
 *          for each of its own, 192 for each cache line. On several nodes 16 bytes more for every
 *          chunk, and 4 KiB for each rank of other nodes to whose cold chunks a thread applies.
 *  @return the same on all ranks of the team:
 *          PGAS_ERR_INVALID    sizes, offsets or percentages out of range
 *          PGAS_ERR_MISMATCH   parameters differ between ranks; the log says which
 *          PGAS_ERR_LIMIT      65535 arrays are live, or a chunk is too large
 *          PGAS_ERR_NO_MEMORY  PGAS_HEAP_SIZE is too small; the log says how much is needed */
PGAS_API pgas_status_t pgas_array_create(pgas_team_t *team, size_t elem_bytes, uint64_t n_elems,
                                         const pgas_array_opts_t *opts, pgas_array_t **array_p);

/** Destroys an array. Collective over its team; no thread may use it any more. NULL is ignored.
 *  @return PGAS_ERR_BUSY  a thread has a pin or a lock: the log names rank and element. All ranks
 *                         get this status, and the array is unchanged
 *          After other statuses the array must not be used; pgas_finalize frees its heap memory. */
PGAS_API pgas_status_t pgas_array_destroy(pgas_array_t *array);

static inline uint64_t pgas_array_n_elems(const pgas_array_t *array);
/** Returns the team's rank that is home of element i, or -1 if there is no such element. */
PGAS_API int pgas_array_home(const pgas_array_t *array, uint64_t i);
/** Gives the elements whose home is a rank of the team (-1: the caller): *n_p elements from
 *  *first_p on. @return PGAS_ERR_RANGE: no such rank. */
PGAS_API pgas_status_t pgas_array_range(const pgas_array_t *array, int rank, uint64_t *first_p,
                                        uint64_t *n_p);

/* ---- one element ---- */

/** get reads element i, set writes it, apply combines the operand into it. Typed forms are for
 *  elements of 1, 2, 4 and 8 bytes. Their tags are u8 u16 u32 u64 i8 i16 i32 i64 f32 f64; f64 is
 *  shown. The others are for elements of any size.
 *  Done:   after set every later read on any rank sees the value. After apply the contribution is
 *          recorded, and reads that are ordered after it see it.
 *  Cost:   typed forms are inline, some plain loads and stores, if this rank has the chunk in a
 *          state that permits the access.
 *  @return PGAS_ERR_INVALID  typed forms: elements have another size */
PGAS_INLINE pgas_status_t pgas_array_get_f64(pgas_array_t *array, uint64_t i, double *value_p);
PGAS_INLINE pgas_status_t pgas_array_set_f64(pgas_array_t *array, uint64_t i, double value);
PGAS_INLINE pgas_status_t pgas_array_apply_f64(pgas_array_t *array, uint64_t i, pgas_op_t op,
                                               double operand);
static inline pgas_status_t pgas_array_get(pgas_array_t *array, uint64_t i, void *value_p);
static inline pgas_status_t pgas_array_set(pgas_array_t *array, uint64_t i, const void *value);
static inline pgas_status_t pgas_array_apply(pgas_array_t *array, uint64_t i, pgas_op_t op,
                                             const void *operand);

/** As get, but it neither waits nor sends. @return PGAS_ERR_AGAIN: this rank may not read it now */
PGAS_API pgas_status_t pgas_array_try_get(pgas_array_t *array, uint64_t i, void *value_p);

/** compare_swap writes *desired to element i if the element equals *expected, byte by byte.
 *  fetch_op combines *operand into it. Both are atomic, and store the value before at old_p.
 *  @return PGAS_ERR_LIMIT  elements or operands have more than 256 bytes */
PGAS_API pgas_status_t pgas_array_compare_swap(pgas_array_t *array, uint64_t i,
                                               const void *expected, const void *desired,
                                               void *old_p);
PGAS_API pgas_status_t pgas_array_fetch_op(pgas_array_t *array, uint64_t i, pgas_op_t op,
                                           const void *operand, void *old_p);

/* ---- locks and pins ---- */

/** Accesses that a lock, a pin, a walk or a prefetch is for. */
typedef enum {
    PGAS_ARRAY_READ,   /* the thread reads; others may read, too */
    PGAS_ARRAY_WRITE,  /* the thread reads and writes */
    PGAS_ARRAY_OPERATE /* it combines operands by one operator, and does not read; not for locks */
} pgas_array_mode_t;

/** Locks element i: shared (READ) or exclusive (WRITE). Locks order threads that lock; they do not
 *  keep other threads from get and set.
 *  Shape:  any attached thread, not in plain handlers. A thread may lock several elements, each
 *          once. timeout_us negative: it waits for ever; 0: it does not wait.
 *  Done:   operations that earlier holders made on elements under the lock are visible. Requests
 *          are granted in order of arrival, so a waiting writer does not starve.
 *  Cost:   one round trip to the home, and one message back at unlock that is not waited for.
 *  @return PGAS_ERR_BUSY      timeout_us is 0, and another thread has it
 *          PGAS_ERR_TIMEOUT   the time is over; the thread does not have the lock
 *          PGAS_ERR_DEADLOCK  the thread has it already */
PGAS_API pgas_status_t pgas_array_lock(pgas_array_t *array, uint64_t i, pgas_array_mode_t mode,
                                       int64_t timeout_us);
/** Releases the lock of element i. @return PGAS_ERR_INVALID: the thread does not have it */
PGAS_API pgas_status_t pgas_array_unlock(pgas_array_t *array, uint64_t i);

/** A pinned chunk, or the part of one that has one home. */
typedef struct {
    void *data;        /* element `first`; with OPERATE an array of contributions of the operator */
    uint64_t first, n; /* elements first .. first + n - 1 */
    pgas_array_t *array; /* this and the following belong to the library */
    struct pgasi_array_grant *grant;
    pgas_array_mode_t mode;
} pgas_array_pin_t;

/** Pins the chunk of element i and gives a plain pointer to it.
 *  Shape:  any attached thread; the same thread unpins. Pins of a thread nest, also on one chunk.
 *          op: for OPERATE, otherwise 0. Its operands must have the elements' type and size.
 *  Done:   the chunk stays in this rank's memory until unpin. Meanwhile no other node writes it
 *          (READ), reads or writes it (WRITE), or reads it (OPERATE); threads there wait. Threads
 *          of the same node share it as they share memory. get, set and apply of the same thread
 *          inside the pin never wait.
 *  Owns:   keep a pin as short as a critical section, because other nodes wait for its end. Threads
 *          of the same rank wait, too, if pins occupy every line of the cache.
 *  @return PGAS_ERR_NO_MEMORY  this thread, alone or with threads that wait for a line, pins every
 *                              line of the cache. Raise cache_bytes, or end some pins */
PGAS_API pgas_status_t pgas_array_pin(pgas_array_t *array, uint64_t i, pgas_array_mode_t mode,
                                      pgas_op_t op, pgas_array_pin_t *pin_p);
/** Ends a pin. @return PGAS_ERR_INVALID: the calling thread has no such pin. */
PGAS_API pgas_status_t pgas_array_unpin(pgas_array_pin_t *pin);

/* ---- many elements ---- */

/** Sets all elements to *value. Collective over the team; on return all elements are set. */
PGAS_API pgas_status_t pgas_array_fill(pgas_array_t *array, const void *value);

/** Copies elements first .. first + n - 1 to local memory (load), or from there (store). The range
 *  is not one atomic operation. */
PGAS_API pgas_status_t pgas_array_load(pgas_array_t *array, uint64_t first, uint64_t n, void *to);
PGAS_API pgas_status_t pgas_array_store(pgas_array_t *array, uint64_t first, uint64_t n,
                                        const void *from);

/** Work on n elements by index, in any order. get_many copies element index[k] to value k of `to`.
 *  set_many copies value k of `from` to element index[k]; if an index appears twice, one of its
 *  values remains. update_many combines operand k into element index[k], as apply does.
 *  Cost:   elements that this rank may use: little more than a load each, whose misses of the
 *          processor's caches overlap. Requests for others overlap and travel together. */
PGAS_API pgas_status_t pgas_array_get_many(pgas_array_t *array, const uint64_t *index, size_t n,
                                           void *to);
PGAS_API pgas_status_t pgas_array_set_many(pgas_array_t *array, const uint64_t *index, size_t n,
                                           const void *from);
PGAS_API pgas_status_t pgas_array_update_many(pgas_array_t *array, const uint64_t *index, size_t n,
                                              pgas_op_t op, const void *operands);

/** Requests the chunks of a range before they are used, as far as cache lines are free. It does not
 *  wait. mode and op are as for pins. Each chunk that is not here raises sync (may be NULL), and
 *  lowers it by its arrival. */
PGAS_API pgas_status_t pgas_array_prefetch(pgas_array_t *array, uint64_t first, uint64_t n,
                                           pgas_array_mode_t mode, pgas_op_t op, pgas_sync_t *sync);

/** A walk over a range, chunk by chunk. The current chunk is pinned; the next ones are requested:
 *
 *      pgas_array_walk_t w;
 *      pgas_array_walk_begin(a, first, n, PGAS_ARRAY_READ, 0, &w);
 *      while (pgas_array_walk_next(&w))
 *          for (uint64_t k = 0; k < w.n; k++)
 *              sum += ((const double *)w.data)[k];
 *      status = pgas_array_walk_end(&w);                        the first error of the walk
 *
 *  Each thread of an OpenMP region attaches first and walks a range of its own. A walk may end
 *  before it is complete. */
typedef struct {
    void *data;           /* the elements of the current piece */
    uint64_t first, n;    /* they are elements first .. first + n - 1 of the array */
    pgas_array_pin_t pin; /* this and the following belong to the library */
    uint64_t next, end;
    pgas_array_mode_t mode;
    pgas_op_t op;
    pgas_status_t status;
    uint32_t run, pinned;
} pgas_array_walk_t;
PGAS_API pgas_status_t pgas_array_walk_begin(pgas_array_t *array, uint64_t first, uint64_t n,
                                             pgas_array_mode_t mode, pgas_op_t op,
                                             pgas_array_walk_t *walk_p);
PGAS_API bool pgas_array_walk_next(pgas_array_walk_t *walk);
PGAS_API pgas_status_t pgas_array_walk_end(pgas_array_walk_t *walk);

/** An array, and the events of this rank's accesses to it since create. */
typedef struct {
    size_t size; /* the caller sets it */
    uint64_t n_elems, elem_bytes, chunk_elems;
    uint64_t bytes;               /* of the heap that the array takes on this rank */
    uint64_t n_lines, n_free;     /* lines of the cache now */
    uint64_t misses;              /* accesses that found no usable copy on this rank */
    uint64_t fetches, prefetches; /* chunks requested because of a miss, and ahead of one */
    /* accesses that the home carried out, instead of sending the chunk; operands in batches, too */
    uint64_t remote_ops;
    uint64_t evictions;
    uint64_t recalls;  /* chunks given back, or withdrawn from this node, for another rank */
    uint64_t barriers; /* on all processors */
    uint64_t guarded;  /* accesses under a chunk's lock */
    uint64_t messages, data_bytes, put_bytes; /* sent; bytes of chunks in messages, and by puts */
} pgas_array_info_t;
/** Describes the array. Any thread; no message. */
PGAS_API pgas_status_t pgas_array_info(const pgas_array_t *array, pgas_array_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/array.h"
#endif
