/* repair.c: makes all replicas equal before a writer begins, and begins terms. */
#include <sys/random.h>
#include "scan.h"
#include "writer.h"

/* Sends the log behind the least agreed position to all replicas; those that have it get the same
 * bytes again. Every record is checked before it is sent. */
static pgas_status_t send_again(replog_store_t *store, const replog_state_t *state)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    replog_scan_t scan;
    replog_record_t record;
    const void *payload;
    replog_scan_result_t result;
    pgas_status_t status = PGAS_OK;
    if (!replog_scan_begin(&scan, &store->view, state->best, state->least, state->end))
        replog_fail("no memory");
    uint64_t at = state->least;
    while (status == PGAS_OK &&
           (result = replog_scan_next(&scan, &record, &payload)) == REPLOG_SCAN_RECORD) {
        pgas_group_op_t op = PGAS_GWRITE(REPLOG_DATA_AT + at,
                                         (const char *)payload - REPLOG_RECORD_HEAD, record.span);
        status = pgas_group_submit(store->group, &op, 1, &done);
        at = scan.at;
    }
    if (status == PGAS_OK && result == REPLOG_SCAN_TORN)
        replog_fail("replica %d: the log is damaged at byte %llu; see replog verify", state->best,
                    (unsigned long long)(REPLOG_DATA_AT + at));
    replog_scan_end(&scan);
    pgas_status_t waited = pgas_sync_wait(&done, -1);
    if (status == PGAS_OK && result == REPLOG_SCAN_FAILED)
        status = store->status;
    return status != PGAS_OK ? status : waited;
}

/* Replicas whose region is new. Their lock word is the writer's and stays. */
static pgas_status_t write_heads(replog_store_t *store)
{
    uint64_t head[REPLOG_HEAD_BYTES / sizeof(uint64_t)];
    replog_head_make(head, store->view.region_bytes);
    return pgas_group_write(store->group, 0, head, REPLOG_LOCK_AT);
}

/* Replicas with the commit word `found` get a new mark, then the word `desired`. old: their words
 * before. */
static pgas_status_t swap_term(replog_store_t *store, uint64_t found, uint64_t desired,
                               uint64_t *old)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    uint64_t mark;
    if (getrandom(&mark, sizeof mark, 0) != sizeof mark)
        replog_fail("no random numbers");
    pgas_group_op_t ops[] = { PGAS_GWRITE(REPLOG_MARK_AT, &mark, sizeof mark),
                              PGAS_GCAS(REPLOG_COMMIT_AT, found, desired, ~0ull, old) };
    pgas_status_t status = pgas_group_submit(store->group, ops, 2, &done);
    pgas_status_t waited = pgas_sync_wait(&done, -1);
    return status != PGAS_OK ? status : waited;
}

/* Two steps: first all replicas get the log's commit word, then all get the new term. So if a
 * reader finds the new term on one replica, all replicas have all records below it. */
static pgas_status_t set_commit(replog_store_t *store, const replog_state_t *state, uint64_t commit)
{
    static uint64_t old[REPLOG_REPLICAS_MAX]; /* static: operations that are sent again write it */
    uint64_t found = replog_commit_make(state->term, state->end);
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < store->view.n && status == PGAS_OK; i++)
        if (state->replicas[i].commit != found)
            status = pgas_group_cas(store->group, REPLOG_COMMIT_AT, state->replicas[i].commit,
                                    found, UINT64_C(1) << i, NULL);
    return status == PGAS_OK ? swap_term(store, found, commit, old) : status;
}

pgas_status_t replog_repair(replog_writer_t *writer)
{
    replog_store_t *store = writer->store;
    replog_state_t state;
    pgas_status_t status = PGAS_OK;
    replog_store_refresh(store);
    bool is_blank = false;
    replog_outcome_t outcome = replog_store_recover(store, &state);
    if (outcome == REPLOG_DAMAGED)
        replog_fail("replica %d: the log is damaged; see replog verify", state.culprit);
    for (int i = 0; i < store->view.n; i++)
        is_blank |= state.replicas[i].kind == REPLOG_BLANK;
    if (is_blank)
        status = write_heads(store);
    if (outcome == REPLOG_FOUND && status == PGAS_OK)
        status = send_again(store, &state);
    writer->term = state.greatest_term + 1;
    writer->end = state.end;
    writer->next_seq = state.last_seq + 1;
    writer->commit = replog_commit_make(writer->term, writer->end);
    return status != PGAS_OK ? status : set_commit(store, &state, writer->commit);
}

pgas_status_t replog_begin_term(replog_writer_t *writer)
{
    static uint64_t old[REPLOG_REPLICAS_MAX]; /* as in set_commit */
    uint64_t desired = replog_commit_make(writer->term + 1, replog_commit_end(writer->commit));
    pgas_status_t status = swap_term(writer->store, writer->commit, desired, old);
    if (status != PGAS_OK)
        return status;
    for (int i = 0; i < writer->store->view.n; i++)
        if (old[i] != writer->commit && old[i] != desired)
            replog_fail("another writer has changed the log: replica %d", i);
    writer->term++;
    writer->commit = desired;
    return PGAS_OK;
}
