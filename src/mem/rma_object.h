/** Objects of pgas/rma_object.h inside the library: their records, the source of their memory, and
 *  the counters of pgas_rma_info. */
#ifndef PGASI_RMA_OBJECT_H
#define PGASI_RMA_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/rma_object.h"

/** Values of pgas_rma_object_t.kind. They decide how the last holder releases the memory. */
typedef enum {
    PGASI_MEMORY_ENDED,      /* the object has ended */
    PGASI_MEMORY_REGISTERED, /* the memory returns to the pool */
    PGASI_MEMORY_PLAIN,      /* free(); the library has allocated it */
    PGASI_MEMORY_REFERENCE,  /* the program's function */
    PGASI_MEMORY_TAKEN       /* free(); the program has allocated it */
} pgasi_rma_memory_t;

/** The record of an object. The record of a registered object stays with its block while the block
 *  is kept for reuse, so both are found at once. */
typedef struct pgasi_rma_object {
    pgas_rma_object_t of;
    struct pgasi_rma_object *next; /* in a list of kept records */
    uint32_t epoch;                /* of the heap that has the memory */
    uint32_t size_class;
    union {
        size_t room; /* bytes of the block; 0: the record has none */
        void *arg;   /* of release */
    };
    pgas_release_fn_t release;
} pgasi_rma_object_t;

/* ---- rma_blocks.c: records and their memory ---- */

/** Returns a registered block of at least `bytes` bytes with its record. Any thread may call it.
 *  @return NULL: there is no heap, or it has no room */
pgasi_rma_object_t *pgasi_rma_block_take(size_t bytes);
void pgasi_rma_block_give(pgasi_rma_object_t *object);
/** Returns a record without memory. @return NULL: no memory */
pgasi_rma_object_t *pgasi_rma_record_take(void);
void pgasi_rma_record_give(pgasi_rma_object_t *object);
/** Returns the size of the block for a request of this many bytes. */
size_t pgasi_rma_room(size_t bytes);

/** Returns the kept blocks of the common lists, and of all threads that do not use theirs, to the
 *  heap. */
void pgasi_rma_blocks_trim(void);
/** Moves the calling thread's kept blocks to the common lists, when the thread detaches or ends. */
void pgasi_rma_blocks_leave(void);
/** Ends the blocks before the heap ends. Registered objects that still exist lose their memory. */
void pgasi_rma_blocks_stop(void);

/* ---- counters ---- */

/** Counters of one thread, or sums over all threads. Only the owner writes its counters. The last
 *  two also decrease, so those of one thread may be below 0. */
typedef struct {
    uint64_t n_calls_sent, n_calls_received, bytes_sent, bytes_received, serialize_ns;
    uint64_t n_registered_sent, n_pointers_sent, n_chunks_received, n_registrations;
    uint64_t n_unregistered;
    uint64_t n_objects, object_bytes;
} pgasi_rma_counts_t;

extern __thread pgasi_rma_counts_t *pgasi_rma_own __attribute__((tls_model("initial-exec")));
pgasi_rma_counts_t *pgasi_rma_make_own(void); /* the rare part of pgasi_rma_counts */

/** Returns the calling thread's counters. */
static inline pgasi_rma_counts_t *pgasi_rma_counts(void)
{
    return PGAS_LIKELY(pgasi_rma_own != NULL) ? pgasi_rma_own : pgasi_rma_make_own();
}
/** Adds to one of the calling thread's counters. */
static inline void pgasi_rma_count(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}
/** Adds up all threads' counters. *bytes_p and *high_p: memory of the heap in the pool, now and at
 *  most. */
void pgasi_rma_sum(pgasi_rma_counts_t *sum_p, uint64_t *bytes_p, uint64_t *high_p);
#define PGASI_RMA_COUNT(field, n) pgasi_rma_count(&pgasi_rma_counts()->field, (uint64_t)(n))

#endif
