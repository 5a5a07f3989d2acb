/** Sparse contributions: operands of applies to cold chunks, which have no cache line.
 *
 *  A rank may be an operator of a chunk without a line. For the home and the table it is in the
 *  state Operated, as a rank with a line is. But it records each operand with its element in a
 *  batch of the calling thread. A full batch travels to the home, and no thread waits for it. When
 *  the home recalls the chunk, the rank first sends all batches for that home, and then its answer.
 *  So a read is ordered after these contributions as after those of a line. */
#ifndef PGASI_ARRAY_SPARSE_H
#define PGASI_ARRAY_SPARSE_H

#include "array/array.h"
#include "array/wire.h"
#include "base/spin.h"

#define PGASI_ARRAY_SPARSE_ASKED (UINT64_C(1) << 31) /* in place of home + 1 */
#define PGASI_ARRAY_SPARSE_SPINS 1000                /* of the lock of batches */

pgas_status_t pgasi_array_sparse_start(pgasi_array_t *a);
void pgasi_array_sparse_stop(pgasi_array_t *a);

typedef struct {
    uint64_t first; /* element of the home */
    uint32_t n;
    pgasi_array_sparse_entry_t entry[PGASI_ARRAY_SPARSE_MAX];
} pgasi_array_batch_t;

/** The batches of a thread, by home. */
typedef struct pgasi_array_batches {
    _Alignas(64) int lock;
    pgasi_array_batch_t *of_home[];
} pgasi_array_batches_t;

/** Of an array. */
struct pgasi_array_sparse {
    /* by block: 0, or the operator in the upper half, and home + 1 or PGASI_ARRAY_SPARSE_ASKED in
     * the lower one */
    uint64_t *grant;
    uint16_t *samples; /* by block */
    uint32_t n_samples;
    uint32_t *flight; /* by home */
    uint64_t n_flight, n_asked;
    int64_t credit;
    uint64_t pause_ns, pause_until_ns; /* without credit */
    uint32_t around_log2;              /* of the chunks that are requested next time */
    pgasi_array_batch_t *spare;
    uint32_t batch_max;
    uint32_t n_threads; /* threads of these slots may have batches */
    pgasi_array_batches_t *thread[PGAS_THREADS_MAX + 1];
};

static inline uint64_t pgasi_array_sparse_read(const pgasi_array_sparse_t *s, uint64_t block)
{
    return __atomic_load_n(&s->grant[block], __ATOMIC_RELAXED);
}

/* The callers of the following functions are serving (msg/serve.h). */

/** Takes a batch from its thread. It is valid until the next call.
 *  @return NULL: it is empty. */
const pgasi_array_batch_t *pgasi_array_sparse_take(pgasi_array_t *a, pgasi_array_batches_t *t,
                                                   int home);
/** Sends a batch to another rank, if it is not empty. */
void pgasi_array_sparse_send(pgasi_array_t *a, pgasi_array_batches_t *t, int home);

/** Whether an apply is carried out without a line, now or later. */
bool pgasi_array_sparse_suits(const pgasi_array_t *a, const pgasi_array_location_t *loc,
                              const pgasi_array_access_t *x);
/** Asks the home to make this rank an operator of the chunk of an apply that the home carries out,
 *  and of chunks around it. It does not ask if earlier ones were recalled too soon. */
void pgasi_array_sparse_ask(pgasi_array_t *a, const pgasi_array_location_t *loc, uint32_t op);
/** The home grants it. */
void pgasi_array_sparse_granted(pgasi_array_t *a, uint64_t chunk, int home);
/** The rank is no operator without a line from here on. All that it has recorded for the chunk is
 *  sent, before any later message to the home. recall: the home wants the chunk. */
void pgasi_array_sparse_end(pgasi_array_t *a, uint64_t chunk, bool recall);
/** As the home: threads of this rank record operands for a chunk of its own, and the home combines
 *  those of other ranks into the elements; they do it no more.
 *  @return false: they did not. */
void pgasi_array_sparse_begin_own(pgasi_array_t *a, uint64_t block, uint32_t op);
bool pgasi_array_sparse_end_own(pgasi_array_t *a, uint64_t block);
/** A batch has arrived at its home. */
void pgasi_array_sparse_arrived(pgasi_array_t *a, int home);
/** Sends all batches. @return true: all have arrived, and no home has to answer. */
bool pgasi_array_sparse_empty(pgasi_array_t *a);
/** Batches that have not arrived, and homes' answers that are awaited. */
uint64_t pgasi_array_sparse_n_moving(const pgasi_array_t *a);
/** The operator of a block's chunk without a line. @return false: this rank is none. */
bool pgasi_array_sparse_operates(const pgasi_array_t *a, uint64_t block, uint32_t *op_p);

#endif
