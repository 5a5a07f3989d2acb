/* writer.h: appends records to the log, several batches under way. */
#ifndef REPLOG_WRITER_H
#define REPLOG_WRITER_H

#include "lock.h"

#define REPLOG_BATCHES 16

typedef struct {
    unsigned char *bytes; /* records */
    size_t n_bytes;
    uint64_t first_seq, n_records;
    uint64_t at, expected, desired; /* position in the log; commit words before and after */
    uint64_t old[REPLOG_REPLICAS_MAX];
    int64_t start_us;
    pgas_sync_t done;
} replog_batch_t;

typedef struct {
    replog_store_t *store;
    uint64_t next_seq, end; /* of the next record */
    uint64_t commit;        /* the commit word after all submitted batches */
    uint32_t term;
    replog_batch_t batches[REPLOG_BATCHES]; /* a ring; number % REPLOG_BATCHES */
    uint64_t n_submitted, n_acked;
    uint64_t n_under_way_max; /* at most REPLOG_BATCHES */
    /* Called for each batch, in order, when its records are committed on all replicas. */
    void (*acked)(void *arg, const replog_batch_t *batch, int64_t us);
    void *arg;
} replog_writer_t;

/* Takes the lock, repairs the log, and begins a term. Ends the program if it cannot. */
void replog_writer_open(replog_writer_t *writer, replog_store_t *store,
                        const replog_lock_opts_t *lock);

/* Adds a record to the present batch; a batch that is full is submitted.
 * @return false: the log has no room for it, or the record is too long */
bool replog_writer_add(replog_writer_t *writer, const void *payload, size_t bytes);

/* Submits the present batch, if it has a record. It waits if too many are under way. */
void replog_writer_submit(replog_writer_t *writer);

/* Submits, and waits until all batches are acknowledged. */
void replog_writer_drain(replog_writer_t *writer);

/* Drains, and releases the lock. */
void replog_writer_close(replog_writer_t *writer);

/* ---- repair.c ---- */

/* Makes all replicas equal, and begins a term that none of them has seen.
 * @return PGAS_ERR_PEER: mend the store and call again */
pgas_status_t replog_repair(replog_writer_t *writer);

/* Begins a new term, while nothing is under way. @return as above */
pgas_status_t replog_begin_term(replog_writer_t *writer);

#endif
