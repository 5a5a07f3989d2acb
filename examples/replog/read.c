/* read.c: the commands that change nothing. tail shows the records that rule 2 of recover.h allows;
 * verify reads all bytes of the log on every replica. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "commands.h"
#include "scan.h"

#define FOLLOW_US 20000 /* between two reads of the commit words */

/* ---- tail ---- */

/* All replicas of the log's term have the shown records. The last one is taken. */
static int replica_to_read(const replog_store_t *store, const replog_state_t *state)
{
    int i = store->view.n - 1;
    while (i > 0 && !replog_is_current(&store->view, state, i))
        i--;
    return i;
}

/* Prints the records between two positions. @return the position of the first one that could not be
 * read; *seq_p: the number of the record before it */
static uint64_t print_records(replog_store_t *store, const replog_state_t *state, uint64_t at,
                              uint64_t *seq_p, uint64_t from)
{
    replog_scan_t scan;
    replog_record_t record;
    const void *payload;
    replog_scan_result_t result;
    int replica = replica_to_read(store, state);
    if (!replog_scan_begin(&scan, &store->view, replica, at, state->shown))
        replog_fail("no memory");
    scan.seq = *seq_p;
    while ((result = replog_scan_next(&scan, &record, &payload)) == REPLOG_SCAN_RECORD)
        if (record.seq >= from)
            printf("%" PRIu64 "\t%.*s\n", record.seq, (int)record.bytes, (const char *)payload);
    at = scan.at;
    *seq_p = scan.seq;
    replog_scan_end(&scan);
    if (fflush(stdout) != 0)
        replog_fail("the output could not be written");
    if (result == REPLOG_SCAN_TORN)
        replog_fail("replica %d: the log is damaged at byte %" PRIu64, replica,
                    REPLOG_DATA_AT + at);
    if (result == REPLOG_SCAN_FAILED && store->status != PGAS_ERR_PEER)
        replog_fail("replica %d: %s", replica, pgas_status_text(store->status));
    if (result == REPLOG_SCAN_FAILED)
        replog_store_mend(store);
    return at;
}

int replog_tail(replog_store_t *store, uint64_t from, bool follow)
{
    static replog_state_t state;
    uint64_t at = 0, seq = 0;
    for (;;) {
        bool is_log = replog_store_look(store, &state);
        if (!is_log && !follow)
            replog_fail("there is no log yet");
        if (is_log && at < state.shown)
            at = print_records(store, &state, at, &seq, from);
        else if (!follow)
            return 0;
        else
            usleep(FOLLOW_US);
    }
}

/* ---- verify ---- */

typedef struct {
    uint64_t n_records, seq; /* whole ones, and the number of the last one */
    uint64_t at;             /* position behind it */
    bool is_torn;
    uint32_t digest; /* of all records below `agreed` of each replica, in `digests` */
} check_t;

/* A number for the records so far: equal logs have equal numbers. */
static uint32_t digest_of(uint32_t before, const replog_record_t *record)
{
    uint32_t words[6] = { before,       (uint32_t)record->seq, (uint32_t)(record->seq >> 32),
                          record->term, record->bytes,         record->crc };
    return replog_crc32c(words, sizeof words);
}

/* Reads the records of a replica below `end`. digests[k] gets the digest of those below agreed of
 * replica k. */
static check_t check_records(replog_store_t *store, const replog_state_t *state, int i, uint64_t at,
                             uint64_t end, uint64_t seq, uint32_t *digests)
{
    replog_scan_t scan;
    replog_record_t record;
    const void *payload;
    replog_scan_result_t result;
    check_t check = { 0 };
    if (!replog_scan_begin(&scan, &store->view, i, at, end))
        replog_fail("no memory");
    scan.seq = seq;
    do {
        for (int k = 0; digests && k < store->view.n; k++)
            if (state->replicas[k].agreed == scan.at)
                digests[k] = check.digest;
        result = replog_scan_next(&scan, &record, &payload);
        if (result == REPLOG_SCAN_RECORD) {
            check.digest = digest_of(check.digest, &record);
            check.n_records++;
        }
    } while (result == REPLOG_SCAN_RECORD);
    check.at = scan.at;
    check.seq = scan.seq;
    check.is_torn = result == REPLOG_SCAN_TORN;
    replog_scan_end(&scan);
    if (result == REPLOG_SCAN_FAILED)
        replog_fail("replica %d: cannot be read: %s", i, pgas_status_text(store->status));
    return check;
}

/* Prints a line about a replica. want: digests of the log; NULL: not known.
 * @return whether the replica is as it should be */
static bool report(replog_store_t *store, const replog_state_t *state, int i, const uint32_t *want)
{
    uint32_t digests[REPLOG_REPLICAS_MAX] = { 0 };
    const replog_replica_t *replica = &state->replicas[i];
    uint64_t end = replog_commit_end(replica->commit);
    check_t check = check_records(store, state, i, 0, end, 0, digests);
    printf("replica %d: term %u, %" PRIu64 " records, %" PRIu64 " bytes", i,
           replog_commit_term(replica->commit), check.n_records, end);
    if (check.is_torn) {
        printf(": DAMAGED at byte %" PRIu64 ", behind record %" PRIu64 "\n",
               REPLOG_DATA_AT + check.at, check.seq);
        return false;
    }
    if (want && digests[i] != want[i]) {
        printf(": DIFFERS from replica %d\n", state->best);
        return false;
    }
    if (replica->agreed < end)
        printf(", stale behind byte %" PRIu64, REPLOG_DATA_AT + replica->agreed);
    else if (end < state->end)
        printf(", behind by %" PRIu64 " bytes", state->end - end);
    uint64_t room = store->view.region_bytes - REPLOG_DATA_AT;
    uint64_t n_more = check_records(store, state, i, end, room, check.seq, NULL).n_records;
    if (n_more > 0)
        printf(", %" PRIu64 " more records without a commit", n_more);
    printf("\n");
    return true;
}

int replog_verify(replog_store_t *store)
{
    static replog_state_t state;
    uint32_t want[REPLOG_REPLICAS_MAX] = { 0 };
    if (replog_store_recover(store, &state) == REPLOG_NONE) {
        printf("no log yet\n");
        return 0;
    }
    bool compares = !check_records(store, &state, state.best, 0, state.end, 0, want).is_torn;
    bool good = true, differ = false;
    for (int i = 0; i < store->view.n; i++) {
        good = report(store, &state, i, compares ? want : NULL) && good;
        differ |= state.replicas[i].commit != state.replicas[state.best].commit;
    }
    const char *judgement = differ ? "good; the next writer makes the replicas equal" : "good";
    printf("log: %" PRIu64 " records; %s\n", state.last_seq, good ? judgement : "DAMAGED");
    return good && fflush(stdout) == 0 ? 0 : 1;
}
