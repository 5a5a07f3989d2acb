/* writer.c: a batch is three operations of the group. The first writes its records, the second
 * flushes them, and the third is a compare-and-swap that moves the commit word. They run in this
 * order on each replica. The writer knows the commit word, because it has the lock. So it sends
 * further batches before the first one is complete. A batch is acknowledged when the swap is
 * complete on all replicas, and all old values are right. */
#include "writer.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOT_RETURNED ~UINT64_C(0) /* no commit word */
#define BATCH_BYTES  (64u << 10) /* a batch is submitted before it gets larger; one record may be */

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

void replog_writer_open(replog_writer_t *writer, replog_store_t *store,
                        const replog_lock_opts_t *lock)
{
    pgas_status_t status;
    *writer = (replog_writer_t){ .store = store, .n_under_way_max = REPLOG_BATCHES };
    for (int i = 0; i < REPLOG_BATCHES; i++) {
        writer->batches[i].bytes = malloc(BATCH_BYTES + replog_span(REPLOG_RECORD_MAX));
        if (!writer->batches[i].bytes)
            replog_fail("no memory");
    }
    replog_lock(store, lock);
    while ((status = replog_repair(writer)) == PGAS_ERR_PEER)
        replog_store_mend(store);
    replog_must(status, "repair");
}

/* ---- batches ---- */

static replog_batch_t *batch_of(replog_writer_t *writer, uint64_t number)
{
    return &writer->batches[number % REPLOG_BATCHES];
}

static pgas_status_t send_batch(replog_writer_t *writer, replog_batch_t *batch)
{
    uint64_t at = REPLOG_DATA_AT + batch->at;
    pgas_group_op_t ops[] = { PGAS_GWRITE(at, batch->bytes, batch->n_bytes),
                              PGAS_GFLUSH(at + batch->n_bytes - 8, 8), /* all bytes before, too */
                              PGAS_GCAS(REPLOG_COMMIT_AT, batch->expected, batch->desired, ~0ull,
                                        batch->old) };
    return pgas_group_submit(writer->store->group, ops, 3, &batch->done);
}

/* A swap that was sent twice finds its own value. */
static void check_old(const replog_writer_t *writer, const replog_batch_t *batch)
{
    for (int i = 0; i < writer->store->view.n; i++)
        if (batch->old[i] != batch->expected && batch->old[i] != batch->desired)
            replog_fail("another writer has changed the log: replica %d, record %llu", i,
                        (unsigned long long)batch->first_seq);
}

static void acknowledge(replog_writer_t *writer)
{
    replog_batch_t *batch = batch_of(writer, writer->n_acked++);
    check_old(writer, batch);
    if (writer->acked)
        writer->acked(writer->arg, batch, now_us() - batch->start_us);
    batch->n_bytes = batch->n_records = 0;
}

/* Members have changed. A replica that has gone may come back with its old file. So the term must
 * be a greater one than it has seen, before anything is acknowledged by the others alone. */
static void settle(replog_writer_t *writer)
{
    pgas_status_t status;
    for (;;) {
        status = PGAS_OK;
        for (uint64_t i = writer->n_acked; i < writer->n_submitted && status == PGAS_OK; i++)
            status = pgas_sync_wait(&batch_of(writer, i)->done, -1);
        replog_store_refresh(writer->store);
        if (status == PGAS_OK)
            status = replog_begin_term(writer);
        if (status == PGAS_OK)
            break;
        if (status != PGAS_ERR_PEER)
            replog_must(status, "append");
        /* After this all batches are complete on the replicas that are left. */
        replog_store_mend(writer->store);
        for (uint64_t i = writer->n_acked; i < writer->n_submitted; i++)
            pgas_sync_reset(&batch_of(writer, i)->done);
    }
    while (writer->n_acked < writer->n_submitted)
        acknowledge(writer);
}

/* Whether the members have changed, perhaps by another client. Then the swap has returned fewer old
 * words than there were members. */
static bool have_fewer(const replog_writer_t *writer, const replog_batch_t *batch)
{
    return batch->old[writer->store->view.n - 1] == NOT_RETURNED;
}

/* Acknowledges the oldest batch. */
static void wait_for_one(replog_writer_t *writer)
{
    replog_batch_t *batch = batch_of(writer, writer->n_acked);
    pgas_status_t status = pgas_sync_wait(&batch->done, -1);
    if (status == PGAS_OK && !have_fewer(writer, batch))
        acknowledge(writer);
    else
        settle(writer);
}

static void take_acknowledged(replog_writer_t *writer)
{
    while (writer->n_acked < writer->n_submitted &&
           pgas_sync_test(&batch_of(writer, writer->n_acked)->done) != PGAS_INPROGRESS)
        wait_for_one(writer);
}

void replog_writer_submit(replog_writer_t *writer)
{
    replog_batch_t *batch = batch_of(writer, writer->n_submitted);
    if (batch->n_records == 0)
        return;
    batch->at = writer->end;
    batch->expected = writer->commit;
    batch->desired = writer->commit =
        replog_commit_make(writer->term, writer->end + batch->n_bytes);
    batch->done = (pgas_sync_t)PGAS_SYNC_INIT;
    for (int i = 0; i < REPLOG_REPLICAS_MAX; i++)
        batch->old[i] = NOT_RETURNED;
    batch->start_us = now_us();
    writer->end += batch->n_bytes;
    writer->n_submitted++;
    pgas_status_t status;
    /* Some operations of a refused batch may have run. They may run again: the records are equal,
     * and check_old accepts the second swap. */
    while ((status = send_batch(writer, batch)) == PGAS_ERR_PEER) {
        replog_store_mend(writer->store);
        for (uint64_t i = writer->n_acked; i < writer->n_submitted; i++)
            pgas_sync_reset(&batch_of(writer, i)->done);
    }
    replog_must(status, "append");
    if (writer->n_submitted - writer->n_acked == writer->n_under_way_max)
        wait_for_one(writer);
    take_acknowledged(writer);
}

bool replog_writer_add(replog_writer_t *writer, const void *payload, size_t bytes)
{
    replog_batch_t *batch = batch_of(writer, writer->n_submitted);
    if (bytes > REPLOG_RECORD_MAX)
        return false;
    uint32_t span = replog_span((uint32_t)bytes);
    if (batch->n_bytes > 0 && batch->n_bytes + span > BATCH_BYTES) {
        replog_writer_submit(writer);
        batch = batch_of(writer, writer->n_submitted);
    }
    uint64_t room = writer->store->view.region_bytes - REPLOG_DATA_AT;
    if (writer->end + batch->n_bytes + span > room)
        return false;
    if (batch->n_records++ == 0)
        batch->first_seq = writer->next_seq;
    replog_encode(batch->bytes + batch->n_bytes, writer->next_seq++, writer->term, payload,
                  (uint32_t)bytes);
    batch->n_bytes += span;
    return true;
}

void replog_writer_drain(replog_writer_t *writer)
{
    replog_writer_submit(writer);
    while (writer->n_acked < writer->n_submitted)
        wait_for_one(writer);
}

void replog_writer_close(replog_writer_t *writer)
{
    replog_writer_drain(writer);
    replog_unlock(writer->store);
    for (int i = 0; i < REPLOG_BATCHES; i++)
        free(writer->batches[i].bytes);
}
