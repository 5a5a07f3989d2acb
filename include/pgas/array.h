/** A coherent distributed array: elements that every rank gets, sets, locks and operates on, cached
 *  where they are used.
 *
 *      pgas_array_t *a;
 *      pgas_array_create(NULL, sizeof(double), n, NULL, &a);             collective
 *      double x;
 *      pgas_array_get_f64(a, i, &x);                                     a few plain instructions
 *                                                                        where the chunk is held
 *      pgas_array_apply_f64(a, i, PGAS_ARRAY_ADD_F64, 0.5);              combined locally, reduced
 *                                                                        when somebody reads
 *
 *  Elements lie in chunks (512 elements by default) at their home ranks. Ranks of the home's node
 *  use them where they lie; ranks elsewhere keep copies in a cache. Of each chunk the home knows
 *  who has a copy, and as what:
 *  | state     | home's node               | other ranks                                    |
 *  | Unshared  | reads, writes, operates   | nothing                                        |
 *  | Shared    | reads                     | read                                           |
 *  | Dirty     | nothing                   | one reads, writes and operates                 |
 *  | Operated  | operates (one operator)   | operate, each into operands of its own         |
 *
 *  Consistency. get, set, compare-and-swap, fetch-and-op, locks, bulk transfers by element:
 *  sequentially consistent, over all elements, threads and ranks (element sizes of 1, 2, 4 and 8
 *  bytes and structures alike; t/spmd/array_litmus: store buffering, message passing, IRIW,
 *  coherence). An operand is applied exactly once, and is seen by every read that is ordered after
 *  its pgas_array_apply: by the same thread, by who has been told through a barrier, a lock, a call
 *  or another element. Between applies of different elements no order is seen unless something
 *  orders them. What is done through the plain pointer of a pin is the program's own to order
 *  within the node; to others it is as if done between pin and unpin.
 *
 *  Threads: any attached thread; each thread of an OpenMP region attaches first, and detaches
 *  before the library is finalized. In plain handlers only what needs nobody else works, otherwise
 *  PGAS_ERR_CONTEXT; pins and locks never. Progress: a rank that computes is served by its service
 *  thread.
 *
 *  Every function here may also give PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT (thread not attached; in a
 *  plain handler, where it would have to wait), PGAS_ERR_INVALID (no array, null; but the inline
 *  functions look at neither), PGAS_ERR_PEER (a rank of the team has died with
 *  PGAS_ON_PEER_DEATH=continue; the array is of no use any more, though what needs nobody else may
 *  still give PGAS_OK), PGAS_ERR_DEADLOCK (the access would have to wait until the thread's own pin
 *  of that chunk ends, e.g. set within a pin for reading, which works only as long as no other node
 *  reads) and PGAS_ERR_NO_MEMORY (a request found no memory; or an element is larger than a call
 *  can carry, PGAS_CALL_MAX - 64 bytes, and pins keep every line of the cache in use, as under
 *  pgas_array_pin).
 *
 *  Source: DArray (Ding, Han, Chen; ICPP 2023): states, Operate, hazard of readers. There each
 *  access counts references with two locked instructions; here a thread writes into a slot of its
 *  own that it is inside an access, and who takes a chunk away pays a barrier on all processors
 *  (hazard pointers with membarrier(2)). */
#ifndef PGAS_ARRAY_H
#define PGAS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/runtime.h"
#include "pgas/status.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/* What the threads of a rank may do inline with the elements of a cell. */
typedef struct {
    /* element i of the array, if it is in this cell, is at base + i * elem_bytes */
    char *base;
    /* any thread of this rank: READ, CHANGE, COMBINE; or an owner's slot + 1, shifted by 8, with
     * DATA or OPERATE. Upper half: the operator of OPERATE and COMBINE */
    uint64_t rights;
} pgas_array_mapping_t;
#define PGAS_ARRAY_SUBBLOCK_SHIFT 9
#define PGAS_ARRAY_READ           1u
#define PGAS_ARRAY_DATA           2u  /* read, write, operate */
#define PGAS_ARRAY_OPERATE        4u  /* combine operands of one operator */
#define PGAS_ARRAY_CHANGE         8u  /* write and operate by atomic instructions; not inline */
#define PGAS_ARRAY_COMBINE        16u /* the same for operands of one operator */

/** An array; what stands here is for the inline functions below. */
typedef struct pgas_array {
    /* number of elements if they have 1, 2, 4, 8 bytes and chunks are not smaller than cells, else
     * 0 */
    uint64_t limit[4];
    /* by cell: index >> shift, which is PGAS_ARRAY_SUBBLOCK_SHIFT but in arrays of smaller chunks */
    const pgas_array_mapping_t *table;
    /* the same in short, for reading: base + 1 if all threads of this rank may read, else 0 */
    const uintptr_t *readable;
    uint64_t epoch; /* in which it was made */
    uint32_t shift;
    uint32_t elem_bytes;
    uint64_t mask; /* chunk length - 1 */
    uint64_t n_elems;
} pgas_array_t;

/* ---- create and destroy ---- */

/** Options; zero means default. The same on all ranks of the team, but for cache_bytes and
 *  prefetch. */
typedef struct {
    size_t size; /* as in pgas_init_opts_t */
    /* rounded up to a power of two; default 512, at most 2^20; below 512 the typed forms are not
     * inline */
    size_t chunk_elems;
    /* [team size + 1], ascending from 0 to n_elems: rank r has elements offsets[r] ..
     * offsets[r+1]-1; NULL: whole chunks, as even as they go. Read during create only */
    const uint64_t *offsets;
    /* cache of this rank for chunks of other nodes: one line per chunk that fits, at least one;
     * each line starts at a multiple of 64 bytes. Default: PGAS_ARRAY_CACHE, with line sizes
     * rounded up to 64 bytes */
    size_t cache_bytes;
    int low_percent;  /* lines free below which chunks are evicted, default 30 */
    int high_percent; /* ... until so many are free, default 50 */
    /* chunks that are asked for ahead of a sequential walk, default 32, -1: none, at most 64 */
    int prefetch;
} pgas_array_opts_t;
#define PGAS_ARRAY_OPTS_INIT                           \
    {                                                  \
        sizeof(pgas_array_opts_t), 0, NULL, 0, 0, 0, 0 \
    }

/** Makes an array of n_elems elements of elem_bytes bytes, all zero.
 *  Shape:  collective over the team (NULL: all ranks), which lasts longer than the array. 0
 *          elements are allowed.
 *  Units:  elem_bytes 1 .. 65536; n_elems * elem_bytes below 2^44 a rank; chunks (elements times
 *          size) of at most 16 MiB.
 *  Owns:   pgas_array_destroy; else the last pgas_finalize.
 *  Cost:   out of the symmetric heap of each rank: its elements, 24 bytes for every chunk, or 512
 *          elements, of the whole array, 64 bytes for every chunk of its own, and the cache. Beside
 *          it, for each rank: 4 bytes a chunk of the whole array, 64 for each of its own, and 136 a
 *          line.
 *  @return PGAS_OK; PGAS_ERR_INVALID (sizes, offsets, percentages); PGAS_ERR_MISMATCH (parameters
 *          differ between ranks; the log says which); PGAS_ERR_LIMIT (65535 arrays are live; a
 *          chunk is too large); PGAS_ERR_NO_MEMORY (PGAS_HEAP_SIZE: the log says how much); the
 *          same on all ranks of the team. */
PGAS_API pgas_status_t pgas_array_create(pgas_team_t *team, size_t elem_bytes, uint64_t n_elems,
                                         const pgas_array_opts_t *opts, pgas_array_t **array_p);

/** Ends it. Collective over its team; nobody uses it any more.
 *  @return PGAS_OK; PGAS_ERR_BUSY, the same on all ranks, if some thread has a pin or a lock: the
 *          log names rank and element, and nothing has happened. After anything else
 *          (PGAS_ERR_PEER) the array is not used again. */
PGAS_API pgas_status_t pgas_array_destroy(pgas_array_t *array);

static inline uint64_t pgas_array_n_elems(const pgas_array_t *array)
{
    return array->n_elems;
}
static inline size_t pgas_array_elem_bytes(const pgas_array_t *array)
{
    return array->elem_bytes;
}
static inline uint64_t pgas_array_chunk_elems(const pgas_array_t *array)
{
    return array->mask + 1;
}

/** The team's rank that has element i; -1 if there is none. Any thread, no message. */
PGAS_API int pgas_array_home(const pgas_array_t *array, uint64_t i);

/** The elements of a rank of the team (-1: the caller): *n_p elements from *first_p on.
 *  PGAS_ERR_RANGE: no such rank. */
PGAS_API pgas_status_t pgas_array_range(const pgas_array_t *array, int rank, uint64_t *first_p,
                                        uint64_t *n_p);

/* ---- operators ---- */

/** An operator: numbers of the built-in ones are below, others come from pgas_array_op_register. 0
 *  is none. */
typedef uint32_t pgas_array_op_t;

/** Built-in operators: PGAS_ARRAY_ADD_U64 and so on; PGAS_ARRAY_OP(kind, type) of the enums below.
 *  AND, OR, XOR: integers only. */
enum {
    PGAS_ARRAY_KIND_ADD,
    PGAS_ARRAY_KIND_MIN,
    PGAS_ARRAY_KIND_MAX,
    PGAS_ARRAY_KIND_AND,
    PGAS_ARRAY_KIND_OR,
    PGAS_ARRAY_KIND_XOR,
    PGAS_ARRAY_N_KINDS
};
enum {
    PGAS_ARRAY_TYPE_U8,
    PGAS_ARRAY_TYPE_U16,
    PGAS_ARRAY_TYPE_U32,
    PGAS_ARRAY_TYPE_U64,
    PGAS_ARRAY_TYPE_I8,
    PGAS_ARRAY_TYPE_I16,
    PGAS_ARRAY_TYPE_I32,
    PGAS_ARRAY_TYPE_I64,
    PGAS_ARRAY_TYPE_F32,
    PGAS_ARRAY_TYPE_F64,
    PGAS_ARRAY_N_TYPES
};
#define PGAS_ARRAY_OP(kind, type) PGAS_CAST(pgas_array_op_t, 1 + (kind)*16 + (type))
#define PGAS_ARRAY_OPS_OF(K)                                                               \
    PGAS_ARRAY_##K##_U8 = 1 + PGAS_ARRAY_KIND_##K * 16, PGAS_ARRAY_##K##_U16,              \
    PGAS_ARRAY_##K##_U32, PGAS_ARRAY_##K##_U64, PGAS_ARRAY_##K##_I8, PGAS_ARRAY_##K##_I16, \
    PGAS_ARRAY_##K##_I32, PGAS_ARRAY_##K##_I64
enum {
    PGAS_ARRAY_OPS_OF(ADD),
    PGAS_ARRAY_ADD_F32,
    PGAS_ARRAY_ADD_F64,
    PGAS_ARRAY_OPS_OF(MIN),
    PGAS_ARRAY_MIN_F32,
    PGAS_ARRAY_MIN_F64,
    PGAS_ARRAY_OPS_OF(MAX),
    PGAS_ARRAY_MAX_F32,
    PGAS_ARRAY_MAX_F64,
    PGAS_ARRAY_OPS_OF(AND),
    PGAS_ARRAY_OPS_OF(OR),
    PGAS_ARRAY_OPS_OF(XOR)
};

/** An operator of the program's: associative and commutative. combine: *to becomes (*to combined
 *  with *from), operands both. merge: an operand is brought into an element; NULL: the operand has
 *  the element's type, and combine serves. Both run on any thread, also of the library, and do not
 *  call the library. Elements of 1, 2, 4 and 8 bytes may be copies, and several threads at it, of
 *  which one's result counts and the others go again; of others one at a time. Operands and
 *  elements are aligned to 16 bytes as far as their sizes allow, those given to apply as they
 *  are. */
typedef struct {
    /* of the elements and operands that it is for; operand_bytes 0: as elem_bytes */
    size_t elem_bytes, operand_bytes;
    /* operand_bytes bytes, copied: combining with it changes nothing */
    const void *identity;
    void (*combine)(void *to, const void *from);
    void (*merge)(void *elem, const void *operand);
} pgas_array_op_def_t;

/** Registers an operator under a name.
 *  Shape:  any thread of each rank that uses it, or is home of elements that it is used on; in any
 *          order. Not collective. Lasts until the process ends.
 *  Done:   *op_p is made from the name, so it is the same number everywhere.
 *  @return PGAS_OK (also for the same name with the same definition again); PGAS_ERR_EXISTS (the
 *          name, or another that gives the same number, has another definition); PGAS_ERR_LIMIT
 *          (256 operators); PGAS_ERR_INVALID (no name, no combine, no identity, sizes; merge
 *          missing where the sizes differ). */
PGAS_API pgas_status_t pgas_array_op_register(const char *name, const pgas_array_op_def_t *def,
                                              pgas_array_op_t *op_p);

/* ---- one element of any type ---- */

/** Reads element i to *value_p. @return PGAS_OK, PGAS_ERR_RANGE. */
PGAS_API pgas_status_t pgas_array_get(pgas_array_t *array, uint64_t i, void *value_p);

/** Writes it. Done: on return every later read anywhere sees it. @return PGAS_OK,
 *  PGAS_ERR_RANGE. */
PGAS_API pgas_status_t pgas_array_set(pgas_array_t *array, uint64_t i, const void *value);

/** Combines an operand into element i. @return PGAS_OK, PGAS_ERR_RANGE; PGAS_ERR_NOT_FOUND (unknown
 *  operator, here or at the home); PGAS_ERR_MISMATCH (it is for elements of another size). */
PGAS_API pgas_status_t pgas_array_apply(pgas_array_t *array, uint64_t i, pgas_array_op_t op,
                                        const void *operand);

/** If element i equals *expected (byte by byte), writes *desired; *old_p is what it was. Elements
 *  of up to 256 bytes, else PGAS_ERR_LIMIT. */
PGAS_API pgas_status_t pgas_array_compare_swap(pgas_array_t *array, uint64_t i,
                                               const void *expected, const void *desired,
                                               void *old_p);

/** Combines an operand into element i at once; *old_p is what it was before. Elements and operands
 *  of up to 256 bytes.
 *  @return as pgas_array_apply; PGAS_ERR_LIMIT. */
PGAS_API pgas_status_t pgas_array_fetch_op(pgas_array_t *array, uint64_t i, pgas_array_op_t op,
                                           const void *operand, void *old_p);

/* ---- locks ---- */

/** Locks of elements: shared (rlock) or exclusive (wlock). They order threads; they do not keep
 *  others from get and set.
 *  Shape:  any attached thread, not in plain handlers. Requests are granted in order of arrival, so
 *          a waiting writer is not starved. A rank that locks its own elements in a loop checks for
 *          requests of other ranks at every 64th of its own. After a request of another rank it
 *          checks before each of its next 64. It still gets more grants than other ranks, because
 *          their requests cross the network.
 *          timeout_us < 0: for ever; 0 is the try form: PGAS_ERR_BUSY if somebody else has it.
 *  Done:   what was done to elements under the lock before is seen.
 *  Cost:   one round trip to the home (none to a lock at the own rank), one message back at unlock,
 *          not waited for.
 *  @return PGAS_OK; PGAS_ERR_RANGE; PGAS_ERR_BUSY; PGAS_ERR_TIMEOUT; PGAS_ERR_DEADLOCK (the thread
 *  has it already). */
PGAS_API pgas_status_t pgas_array_rlock_for(pgas_array_t *array, uint64_t i, int64_t timeout_us);
PGAS_API pgas_status_t pgas_array_wlock_for(pgas_array_t *array, uint64_t i, int64_t timeout_us);
static inline pgas_status_t pgas_array_rlock(pgas_array_t *array, uint64_t i)
{
    return pgas_array_rlock_for(array, i, -1);
}
static inline pgas_status_t pgas_array_wlock(pgas_array_t *array, uint64_t i)
{
    return pgas_array_wlock_for(array, i, -1);
}
static inline pgas_status_t pgas_array_rlock_try(pgas_array_t *array, uint64_t i)
{
    return pgas_array_rlock_for(array, i, 0);
}
static inline pgas_status_t pgas_array_wlock_try(pgas_array_t *array, uint64_t i)
{
    return pgas_array_wlock_for(array, i, 0);
}

/** Gives back the lock that the calling thread has on element i, of either kind.
 *  @return PGAS_OK, PGAS_ERR_RANGE, PGAS_ERR_INVALID (the thread has none there). */
PGAS_API pgas_status_t pgas_array_unlock(pgas_array_t *array, uint64_t i);

/* ---- pins ---- */

typedef enum {
    PGAS_ARRAY_PIN_READ,  /* loads; other nodes may read, too */
    PGAS_ARRAY_PIN_WRITE, /* loads and stores */
    /* operands: data[k] may be combined with the operator's, and not be read as elements */
    PGAS_ARRAY_PIN_OPERATE
} pgas_array_pin_mode_t;

/** A pinned chunk, or the part of one that lies at one rank. */
typedef struct {
    /* element `first`; with PIN_OPERATE an array of operands of the operator */
    void *data;
    uint64_t first, n;   /* elements first .. first + n - 1 */
    pgas_array_t *array; /* the rest is the library's */
    struct pgasi_array_grant *grant;
    pgas_array_pin_mode_t mode;
} pgas_array_pin_t;

/** Pins the chunk of element i: a plain pointer that stays valid until unpin.
 *  Shape:  any attached thread; unpin by the same. Pins of one thread nest, also on one chunk. op:
 *          for PIN_OPERATE, else 0; the operator's operands have the elements' type and size
 *          (PGAS_ERR_MISMATCH otherwise).
 *  Done:   until unpin the chunk stays here. Nobody on another node writes it (read) or sees or
 *          writes it (write) or reads it (operate); who wants to waits. Threads of the same node
 *          share it as they share memory. get, set and apply of the same thread within the pin
 *          never wait: what the pin does not allow may give PGAS_ERR_DEADLOCK.
 *  Owns:   keep a pin as short as a critical section: other nodes wait for its end. Threads of the
 *          same rank wait too if pins occupy every line of the cache.
 *  @return PGAS_OK; PGAS_ERR_RANGE; PGAS_ERR_DEADLOCK (it would have to wait until the thread's own
 *          pin of that chunk ends, e.g. to write what it pins for reading); PGAS_ERR_NO_MEMORY
 *          (every line of the cache is pinned by this thread, or by it and other threads that wait
 *          for a line: raise cache_bytes, or end some pins); PGAS_ERR_NOT_FOUND, PGAS_ERR_MISMATCH
 *          (operator). */
PGAS_API pgas_status_t pgas_array_pin(pgas_array_t *array, uint64_t i, pgas_array_pin_mode_t mode,
                                      pgas_array_op_t op, pgas_array_pin_t *pin_p);

/** Ends it. @return PGAS_OK, PGAS_ERR_INVALID (not a pin of the calling thread, or ended before, or
 *  in an earlier job). */
PGAS_API pgas_status_t pgas_array_unpin(pgas_array_pin_t *pin);

/* ---- many elements ---- */

/** Sets all elements to *value. Collective over the team; each rank writes its own. Done: on return
 *  for all. */
PGAS_API pgas_status_t pgas_array_fill(pgas_array_t *array, const void *value);

/** Copies elements first .. first + n - 1 to local memory, or from there. Any attached thread. Each
 *  element by itself is read or written as by get and set, not all of them as one. @return PGAS_OK,
 *  PGAS_ERR_RANGE (nothing is copied then). */
PGAS_API pgas_status_t pgas_array_load(pgas_array_t *array, uint64_t first, uint64_t n, void *to);
PGAS_API pgas_status_t pgas_array_store(pgas_array_t *array, uint64_t first, uint64_t n,
                                        const void *from);

/** Element index[k] to or from value k of a local array, for n of them in any order; of elements
 *  named twice scatter leaves one of the values. Requests to homes overlap. @return PGAS_OK,
 *  PGAS_ERR_RANGE (nothing is copied then). */
PGAS_API pgas_status_t pgas_array_gather(pgas_array_t *array, const uint64_t *index, size_t n,
                                         void *to);
PGAS_API pgas_status_t pgas_array_scatter(pgas_array_t *array, const uint64_t *index, size_t n,
                                          const void *from);

/** Asks for the chunks of a range ahead of their use, as far as lines are free; does not wait. mode
 *  and op as for pins. */
PGAS_API pgas_status_t pgas_array_prefetch(pgas_array_t *array, uint64_t first, uint64_t n,
                                           pgas_array_pin_mode_t mode, pgas_array_op_t op);

/** Walks a range chunk by chunk, each pinned while it is the current one, those behind it asked for
 *  ahead:
 *
 *      pgas_array_walk_t w; for (pgas_array_walk_begin(a, first, n, PGAS_ARRAY_PIN_READ, 0, &w);
 *      pgas_array_walk_next(&w);)
 *          for (uint64_t k = 0; k < w.n; k++)
 *              sum += ((const double *)w.data)[k];
 *      status = pgas_array_walk_end(&w);
 *
 *  In an OpenMP region each (attached) thread walks a range of its own, e.g. pgas_array_share's.
 *  walk_end may come early. n elements from first on that are at hand: data, first, n. @return of
 *  end: the first error, PGAS_OK if there was none. */
typedef struct {
    void *data;
    uint64_t first, n;
    pgas_array_pin_t pin; /* the rest is the library's */
    uint64_t next, end;
    pgas_array_pin_mode_t mode;
    pgas_array_op_t op;
    pgas_status_t status;
    bool pinned;
} pgas_array_walk_t;
PGAS_API pgas_status_t pgas_array_walk_begin(pgas_array_t *array, uint64_t first, uint64_t n,
                                             pgas_array_pin_mode_t mode, pgas_array_op_t op,
                                             pgas_array_walk_t *walk_p);
PGAS_API bool pgas_array_walk_next(pgas_array_walk_t *walk);
PGAS_API pgas_status_t pgas_array_walk_end(pgas_array_walk_t *walk);

/** Share number `part` of n_parts even shares of the caller's own elements, cut at chunks: for `omp
 *  for` over threads. */
PGAS_API pgas_status_t pgas_array_share(const pgas_array_t *array, int part, int n_parts,
                                        uint64_t *first_p, uint64_t *n_p);

/** What this rank has done with the array so far. */
typedef struct {
    uint64_t n_lines, n_free;     /* of the cache now */
    uint64_t misses;              /* accesses that found no usable copy here */
    uint64_t fetches, prefetches; /* chunks asked for because of a miss, ahead of one */
    /* accesses carried out at the home instead of fetching the chunk */
    uint64_t remote_ops;
    uint64_t evictions;
    /* chunks given back, at home: taken back from this node's threads, because others wanted
     * them */
    uint64_t recalls;
    uint64_t barriers; /* on all processors */
    /* accesses under a chunk's lock: shared writing, or recalled often */
    uint64_t guarded;
    uint64_t messages, data_bytes; /* sent */
    uint64_t bytes;                /* of the heap that it takes on this rank */
} pgas_array_info_t;
PGAS_API pgas_status_t pgas_array_info(const pgas_array_t *array, pgas_array_info_t *info_p);

/* ---- typed forms, inline: PGAS_ERR_INVALID if the elements have another size ---- */

/* What a thread needs for the inline way; the library's. */
typedef struct {
    uint32_t *slot; /* where it says that it is inside an access */
    /* the same, or NULL if it may not use entries: a branch costs reads less than a mask */
    uint32_t *reader;
    uint64_t read; /* READ; this and the next two fit no entry if the thread may not use them */
    uint64_t data, operate; /* rights of entries that are its own, but for the operator */
} pgas_array_path_t;
PGAS_API extern __thread pgas_array_path_t pgas_array_path
    __attribute__((tls_model("initial-exec")));

/* Around an access by an entry. Loads and stores between them are safe if the rights, looked at
 * inside, allow them: whoever takes a chunk away first changes the rights, then runs a barrier on
 * all processors, then waits until every thread has been outside once. (Where there is no such
 * barrier entries never allow anything.) */
PGAS_INLINE uint32_t *pgas_array_enter(uint32_t *slot)
{
    __atomic_store_n(slot, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return slot;
}
PGAS_INLINE void pgas_array_leave(uint32_t *slot)
{
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}
/* By a constant, since shifts by a variable are slow: a long chunk has several entries, all
 * alike. */
PGAS_INLINE const pgas_array_mapping_t *pgas_array_mapping(const pgas_array_t *array, uint64_t i)
{
    return &array->table[i >> PGAS_ARRAY_SUBBLOCK_SHIFT];
}
PGAS_INLINE uintptr_t pgas_array_readable(const pgas_array_t *array, uint64_t i)
{
    return __atomic_load_n(&array->readable[i >> PGAS_ARRAY_SUBBLOCK_SHIFT], __ATOMIC_ACQUIRE);
}
PGAS_INLINE uint64_t pgas_array_rights(const pgas_array_mapping_t *mapping)
{
    return __atomic_load_n(&mapping->rights, __ATOMIC_ACQUIRE);
}
PGAS_INLINE void *pgas_array_at(const pgas_array_mapping_t *mapping, uint64_t i, int log_bytes)
{
    return __atomic_load_n(&mapping->base, __ATOMIC_RELAXED) + (i << log_bytes);
}
PGAS_API pgas_status_t pgas_array_get_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                            void *value_p);
PGAS_API pgas_status_t pgas_array_set_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                            const void *value);
PGAS_API pgas_status_t pgas_array_apply_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                              pgas_array_op_t op, const void *operand);

/* pgas_array_get_u64(array, i, &value), pgas_array_set_u64(array, i, value),
 * pgas_array_apply_u64(array, i, op, operand), and the same for the other types. */
#define PGAS_ARRAY_DEFINE(tag, type, word, log_bytes)                                              \
    PGAS_INLINE pgas_status_t pgas_array_get_##tag(pgas_array_t *array, uint64_t i, type *value_p) \
    {                                                                                              \
        if (PGAS_LIKELY(i < array->limit[log_bytes]) && PGAS_LIKELY(pgas_array_path.reader)) {     \
            uint32_t *slot = pgas_array_enter(pgas_array_path.reader);                             \
            uintptr_t base = pgas_array_readable(array, i);                                        \
            word bits;                                                                             \
            if (PGAS_LIKELY(base & 1)) {                                                           \
                bits = __atomic_load_n((const word *)(base - 1) + i, __ATOMIC_ACQUIRE);            \
                pgas_array_leave(slot);                                                            \
                memcpy(value_p, &bits, sizeof bits);                                               \
                return PGAS_OK;                                                                    \
            }                                                                                      \
            const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);                    \
            if (pgas_array_rights(mapping) == pgas_array_path.data) {                              \
                bits = __atomic_load_n((const word *)pgas_array_at(mapping, i, log_bytes),         \
                                       __ATOMIC_RELAXED);                                          \
                pgas_array_leave(slot);                                                            \
                memcpy(value_p, &bits, sizeof bits);                                               \
                return PGAS_OK;                                                                    \
            }                                                                                      \
        }                                                                                          \
        type there; /* so that what value_p points to may live in a register */                    \
        pgas_status_t status = pgas_array_get_sized(array, i, sizeof(type), &there);               \
        if (status == PGAS_OK)                                                                     \
            *value_p = there;                                                                      \
        return status;                                                                             \
    }                                                                                              \
    PGAS_INLINE pgas_status_t pgas_array_set_##tag(pgas_array_t *array, uint64_t i, type value)    \
    {                                                                                              \
        if (PGAS_LIKELY(i < array->limit[log_bytes])) {                                            \
            uint32_t *slot = pgas_array_enter(pgas_array_path.slot);                               \
            const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);                    \
            if (PGAS_LIKELY(pgas_array_rights(mapping) == pgas_array_path.data)) {                 \
                word bits;                                                                         \
                memcpy(&bits, &value, sizeof bits);                                                \
                __atomic_store_n((word *)pgas_array_at(mapping, i, log_bytes), bits,               \
                                 __ATOMIC_RELAXED);                                                \
                pgas_array_leave(slot);                                                            \
                return PGAS_OK;                                                                    \
            }                                                                                      \
        }                                                                                          \
        type here = value; /* so that value may stay in a register */                              \
        return pgas_array_set_sized(array, i, sizeof(type), &here);                                \
    }

/* Of an owner: combined in place, as elements or as operands. */
#define PGAS_ARRAY_CASE(K, T, value)                         \
    case 1 + PGAS_ARRAY_KIND_##K * 16 + PGAS_ARRAY_TYPE_##T: \
        next = (value);                                      \
        break;
#define PGAS_ARRAY_CASES_INTEGER(T, type, word)                       \
    PGAS_ARRAY_CASE(ADD, T, (type)(word)((word)last + (word)operand)) \
    PGAS_ARRAY_CASE(AND, T, last &operand)                            \
    PGAS_ARRAY_CASE(OR, T, last | operand)                            \
    PGAS_ARRAY_CASE(XOR, T, last ^ operand)
#define PGAS_ARRAY_CASES_FLOAT(T, type, word) PGAS_ARRAY_CASE(ADD, T, last + operand)
#define PGAS_ARRAY_DEFINE_APPLY(tag, T, type, word, log_bytes, more)                       \
    PGAS_INLINE pgas_status_t pgas_array_apply_##tag(pgas_array_t *array, uint64_t i,      \
                                                     pgas_array_op_t op, type operand)     \
    {                                                                                      \
        if (PGAS_LIKELY(i < array->limit[log_bytes])) {                                    \
            uint32_t *slot = pgas_array_enter(pgas_array_path.slot);                       \
            const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);            \
            uint64_t rights = pgas_array_rights(mapping);                                  \
            if (PGAS_LIKELY(rights == ((uint64_t)op << 32 | pgas_array_path.operate) ||    \
                            rights == pgas_array_path.data)) {                             \
                word *at = (word *)pgas_array_at(mapping, i, log_bytes),                   \
                     bits = __atomic_load_n(at, __ATOMIC_RELAXED);                         \
                type last, next;                                                           \
                memcpy(&last, &bits, sizeof last);                                         \
                switch (op) {                                                              \
                    PGAS_ARRAY_CASE(MIN, T, operand < last ? operand : last)               \
                    PGAS_ARRAY_CASE(MAX, T, operand > last ? operand : last)               \
                    more(T, type, word) default:                                           \
                    {                                                                      \
                        type there = operand;                                              \
                        return pgas_array_apply_sized(array, i, sizeof(type), op, &there); \
                    }                                                                      \
                }                                                                          \
                memcpy(&bits, &next, sizeof bits);                                         \
                __atomic_store_n(at, bits, __ATOMIC_RELAXED);                              \
                pgas_array_leave(slot);                                                    \
                return PGAS_OK;                                                            \
            }                                                                              \
        }                                                                                  \
        type there = operand;                                                              \
        return pgas_array_apply_sized(array, i, sizeof(type), op, &there);                 \
    }

#define PGAS_ARRAY_TYPE(tag, T, type, word, log_bytes, more) \
    PGAS_ARRAY_DEFINE(tag, type, word, log_bytes)            \
    PGAS_ARRAY_DEFINE_APPLY(tag, T, type, word, log_bytes, more)
PGAS_ARRAY_TYPE(u8, U8, uint8_t, uint8_t, 0, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(u16, U16, uint16_t, uint16_t, 1, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(u32, U32, uint32_t, uint32_t, 2, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(u64, U64, uint64_t, uint64_t, 3, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i8, I8, int8_t, uint8_t, 0, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i16, I16, int16_t, uint16_t, 1, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i32, I32, int32_t, uint32_t, 2, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i64, I64, int64_t, uint64_t, 3, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(f32, F32, float, uint32_t, 2, PGAS_ARRAY_CASES_FLOAT)
PGAS_ARRAY_TYPE(f64, F64, double, uint64_t, 3, PGAS_ARRAY_CASES_FLOAT)

PGAS_END_DECLS
#endif
