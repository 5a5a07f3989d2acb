/** Objects of pgas/rma_object.h inside the library: their records, where their memory comes from,
 *  and what pgas_rma_info counts. */
#ifndef PGASI_RMA_OBJECT_H
#define PGASI_RMA_OBJECT_H

#include <stddef.h>
#include <stdint.h>
#include "pgas/rma_object.h"

/** Values of pgas_rma_object_t.kind: what the end of an object does with the memory. */
typedef enum {
    PGASI_MEMORY_ENDED,      /* for reports of a second end */
    PGASI_MEMORY_REGISTERED, /* back to the pool */
    PGASI_MEMORY_PLAIN,      /* free(), allocated here */
    PGASI_MEMORY_REFERENCE,  /* the program's function */
    PGASI_MEMORY_TAKEN       /* free(), from the program */
} pgasi_rma_memory_t;

/** The record of an object. A registered one stays with its block of memory while the block is
 *  kept for reuse, so both are found at once. */
typedef struct pgasi_rma_object {
    pgas_rma_object_t of;
    struct pgasi_rma_object *next; /* in a list of kept ones */
    uint32_t epoch;                /* of the heap that has the memory */
    uint32_t size_class;
    union {
        size_t room; /* bytes of the block; 0: the record has none */
        void *arg;   /* of release */
    };
    pgas_release_fn_t release;
} pgasi_rma_object_t;

/* ---- rma_blocks.c: records and their memory ---- */

/** Gives a registered block of at least `bytes` bytes with its record. Any thread. @return NULL:
 *  there is no heap, or it has no room */
pgasi_rma_object_t *pgasi_rma_block_take(size_t bytes);
void pgasi_rma_block_give(pgasi_rma_object_t *object);
/** Gives a record without memory. @return NULL: no memory */
pgasi_rma_object_t *pgasi_rma_record_take(void);
void pgasi_rma_record_give(pgasi_rma_object_t *object);
/** Returns the bytes of the block that a request gets. */
size_t pgasi_rma_room(size_t bytes);

/** Gives kept blocks of all threads' lists and of the calling thread back to the heap. */
void pgasi_rma_blocks_trim(void);
/** The calling thread detaches or ends: other threads may use the blocks that it has kept. */
void pgasi_rma_blocks_leave(void);
/** The heap ends. Registered objects that still exist have no memory from now on. */
void pgasi_rma_blocks_stop(void);

/* ---- counters ---- */

/** Counts of one thread, or of all. Only the owner writes them. The last two also decrease, and
 *  then the count of one thread may be below 0. */
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
/** Adds up all threads' counters. *bytes_p: what the pool has of the heap, now and at most. */
void pgasi_rma_sum(pgasi_rma_counts_t *sum_p, uint64_t *bytes_p, uint64_t *high_p);
#define PGASI_RMA_COUNT(field, n) pgasi_rma_count(&pgasi_rma_counts()->field, (uint64_t)(n))

#endif
