/* what: A counter is lowered once for each operation: at its local completion, or when it and a
 *       flush behind it are complete. One flush covers all puts before it. An error names the
 *       operation and the peer. A refused operation leaves the counter alone. A flush reports the
 *       errors of operations without a counter. Functions of counters run without the context's
 *       lock.
 * source: pgas/rma.h, pgas/sync.h. The transport is a mock that completes operations when the test
 * says */
#include "base/checks.h"
#include "boot/boot.h"
#include "mem/rma.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_RANKS 4
#define OPS_MAX 4096

static pgasi_ctx_t *ctx;
static pgasi_tp_comp_t *issued[OPS_MAX], *flushes[OPS_MAX];
static int n_issued, n_flushes, n_progress;
static pgas_status_t issue_status, flush_status;
static bool at_once; /* operations call their function while they are issued */

/* ---- the mock ---- */

static pgas_status_t mock_issue(pgasi_ctx_t *c, const pgasi_rma_t *rma, pgasi_tp_comp_t *comp)
{
    (void)c;
    (void)rma;
    if (issue_status != PGAS_INPROGRESS)
        return issue_status;
    if (at_once)
        comp->fn(comp, PGAS_OK);
    else
        issued[n_issued++] = comp;
    return PGAS_INPROGRESS;
}

static pgas_status_t mock_flush(pgasi_tp_ctx_t *tp, int peer, pgasi_tp_comp_t *comp)
{
    (void)tp;
    (void)peer;
    if (flush_status == PGAS_INPROGRESS)
        flushes[n_flushes++] = comp;
    return flush_status;
}

static void end_local(int i, pgas_status_t status)
{
    issued[i]->fn(issued[i], status);
}

static void end_flush(int i, pgas_status_t status)
{
    flushes[i]->fn(flushes[i], status);
}

static pgas_status_t mock_fence(pgasi_tp_ctx_t *tp)
{
    (void)tp;
    return PGAS_OK;
}

/* Completes one operation a round, from within a wait. */
static int n_to_end, next_to_end;
static int mock_progress(pgasi_tp_ctx_t *tp)
{
    (void)tp;
    n_progress++;
    if (n_to_end == 0)
        return 0;
    n_to_end--;
    end_local(next_to_end, next_to_end ? PGAS_OK : PGAS_ERR_TRANSPORT);
    next_to_end++;
    return 1;
}

static const pgasi_tp_ops_t table = { .progress = mock_progress,
                                      .flush = mock_flush,
                                      .fence = mock_fence };
static pgasi_tp_ctx_t tp_ctx = { &table };
static pgasi_tp_t tp = { &table };

static void begin(void)
{
    n_issued = n_flushes = n_progress = n_to_end = next_to_end = 0;
    issue_status = flush_status = PGAS_INPROGRESS;
    at_once = false;
}

static pgas_status_t start(pgasi_rma_kind_t kind, int rank, pgas_when_t when, pgas_sync_t *sync)
{
    static uint64_t word;
    pgasi_rma_t rma = { .kind = kind,
                        .ptr = pgas_gptr_make(rank, UINT64_C(1) << 30),
                        .buffer = &word,
                        .bytes = 8,
                        .op = PGAS_ADD,
                        .type = PGAS_U64 };
    pgasi_ctx_lock(ctx);
    pgas_status_t status = pgasi_nb_issue(ctx, &rma, when, sync, mock_issue);
    if (status >= PGAS_OK && pgasi_rma_writes(&rma))
        pgasi_ctx_note_issued(ctx, rank);
    pgasi_ctx_unlock(ctx);
    return status;
}

static void poll(void)
{
    pgasi_ctx_lock(ctx);
    pgasi_ctx_progress(ctx);
    pgasi_ctx_unlock(ctx);
}

static bool error_is(const pgas_sync_t *sync, pgas_status_t status, pgas_operation_t operation,
                     int rank)
{
    pgas_sync_info_t info = { .size = sizeof info };
    return pgas_sync_info(sync, &info) == PGAS_OK && info.status == status &&
           info.operation == operation && info.rank == rank;
}

/* ---- promises ---- */

static void local_completion(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    begin();
    int n_bad = start(PGASI_RMA_PUT, 1, PGAS_LOCAL, &sync) != PGAS_INPROGRESS;
    n_bad += start(PGASI_RMA_GET, 2, PGAS_LOCAL, &sync) != PGAS_INPROGRESS;
    n_bad += sync.count != 2;
    end_local(1, PGAS_OK);
    n_bad += sync.count != 1;
    end_local(0, PGAS_OK);
    n_bad += sync.count != 0 || sync.error != 0 || n_flushes != 0 || ctx->in_flight != 0;
    issue_status = PGAS_OK;
    sync.count = -7;
    n_bad += start(PGASI_RMA_PUT, 1, PGAS_LOCAL, &sync) != PGAS_OK || sync.count != -7;
    is_int(n_bad, 0, "local completion; an operation that completes at once leaves the counter");
}

static void remote_completion(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT, later = PGAS_SYNC_INIT, other = PGAS_SYNC_INIT;
    begin();
    int n_bad = 0;
    for (int i = 0; i < 10; i++)
        n_bad += start(PGASI_RMA_PUT, 1, PGAS_REMOTE, &sync) != PGAS_INPROGRESS;
    n_bad += start(PGASI_RMA_PUT, 3, PGAS_REMOTE, &other) != PGAS_INPROGRESS;
    n_bad += n_flushes != 0;
    poll();
    poll();
    n_bad += n_flushes != 2 || sync.count != 10;
    is_int(n_bad, 0, "one flush of a peer for all puts");
    n_bad = 0;
    issue_status = PGAS_OK; /* locally complete at once */
    n_bad += start(PGASI_RMA_PUT, 1, PGAS_REMOTE, &later) < 0;
    poll();
    n_bad += n_flushes != 2 || later.count != 1;
    for (int i = 0; i < 5; i++)
        end_local(i, PGAS_OK);
    n_bad += sync.count != 10;
    end_flush(0, PGAS_OK);
    end_flush(1, PGAS_OK); /* one of the two is that of rank 1 */
    n_bad += sync.count != 5 || later.count != 1 || other.count != 1;
    for (int i = 5; i < 11; i++)
        end_local(i, PGAS_OK);
    n_bad += sync.count != 0 || other.count != 0 || later.count != 1;
    poll();
    n_bad += n_flushes != 3;
    end_flush(2, PGAS_OK);
    n_bad += later.count != 0 || ctx->in_flight != 0;
    is_int(n_bad, 0, "both completions are needed, in either order; later puts need another flush");
}

static void a_flush_of_the_program(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    begin();
    issue_status = PGAS_OK;
    int n_bad = start(PGASI_RMA_PUT, 2, PGAS_REMOTE, &sync) < 0;
    flush_status = PGAS_OK;
    n_bad += pgas_flush(2) != PGAS_OK || sync.count != 0 || ctx->in_flight != 0;
    is_int(n_bad, 0, "a flush by the program completes puts, too");
}

static void errors(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT, got = PGAS_SYNC_INIT, added = PGAS_SYNC_INIT;
    begin();
    int n_bad = start(PGASI_RMA_PUT, 3, PGAS_LOCAL, &sync) < 0;
    n_bad += start(PGASI_RMA_PUT, 2, PGAS_LOCAL, &sync) < 0;
    n_bad += start(PGASI_RMA_GET, 1, PGAS_LOCAL, &got) < 0;
    n_bad += start(PGASI_RMA_ATOMIC, 2, PGAS_LOCAL, &added) < 0;
    end_local(1, PGAS_ERR_PEER);
    end_local(0, PGAS_ERR_TRANSPORT);
    end_local(2, PGAS_ERR_TRANSPORT);
    end_local(3, PGAS_ERR_PEER);
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_ERR_PEER ||
             !error_is(&sync, PGAS_ERR_PEER, PGAS_OPERATION_PUT, 2);
    n_bad += !error_is(&got, PGAS_ERR_TRANSPORT, PGAS_OPERATION_GET, 1) ||
             !error_is(&added, PGAS_ERR_PEER, PGAS_OPERATION_ATOMIC, 2);
    is_int(n_bad, 0, "the first error names the operation and the peer");
    sync = (pgas_sync_t)PGAS_SYNC_INIT;
    n_bad = start(PGASI_RMA_PUT, 3, PGAS_REMOTE, &sync) < 0;
    poll();
    end_local(4, PGAS_OK);
    end_flush(0, PGAS_ERR_PEER);
    n_bad += pgas_sync_test(&sync) != PGAS_ERR_PEER ||
             !error_is(&sync, PGAS_ERR_PEER, PGAS_OPERATION_PUT, 3);
    sync = (pgas_sync_t)PGAS_SYNC_INIT;
    n_bad += start(PGASI_RMA_PUT, 3, PGAS_REMOTE, &sync) < 0;
    end_local(5, PGAS_OK);
    flush_status = PGAS_ERR_TRANSPORT; /* it fails as it starts */
    poll();
    n_bad += pgas_sync_test(&sync) != PGAS_ERR_TRANSPORT || ctx->in_flight != 0;
    is_int(n_bad, 0, "the error of a flush is that of the puts that it covers");
}

static void refusals(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    begin();
    issue_status = PGAS_ERR_RANGE;
    int n_bad = start(PGASI_RMA_PUT, 1, PGAS_REMOTE, &sync) != PGAS_ERR_RANGE;
    issue_status = PGAS_ERR_AGAIN;
    n_bad += start(PGASI_RMA_PUT, 1, PGAS_REMOTE, &sync) != PGAS_ERR_AGAIN;
    n_bad += start(PGASI_RMA_GET, 1, PGAS_LOCAL, NULL) != PGAS_ERR_AGAIN;
    n_bad += sync.count != 0 || sync.error != 0 || ctx->in_flight != 0;
    is_int(n_bad, 0, "a refused operation leaves the counter alone");
    begin();
    n_bad = 0;
    for (int i = 0; i < PGASI_RECORDS_MAX; i++)
        n_bad += start(PGASI_RMA_PUT, 1, PGAS_LOCAL, &sync) != PGAS_INPROGRESS;
    n_bad += start(PGASI_RMA_PUT, 1, PGAS_LOCAL, &sync) != PGAS_ERR_AGAIN;
    n_bad += sync.count != PGASI_RECORDS_MAX;
    end_local(17, PGAS_OK);
    n_bad += start(PGASI_RMA_PUT, 1, PGAS_LOCAL, &sync) != PGAS_INPROGRESS;
    for (int i = 0; i < n_issued; i++)
        if (i != 17)
            end_local(i, PGAS_OK);
    n_bad += sync.count != 0 || ctx->in_flight != 0;
    is_int(n_bad, 0, "records are bounded, and are reused");
    flush_status = PGAS_ERR_AGAIN;
    n_bad = start(PGASI_RMA_PUT, 1, PGAS_REMOTE, &sync) != PGAS_INPROGRESS;
    end_local(n_issued - 1, PGAS_OK);
    poll();
    n_bad += sync.count != 1;
    flush_status = PGAS_OK;
    poll();
    n_bad += sync.count != 0 || sync.error != 0 || ctx->in_flight != 0;
    is_int(n_bad, 0, "a flush for which the transport has no room is tried again");
}

static void completed_while_issued(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    begin();
    at_once = true;
    int n_bad = start(PGASI_RMA_GET, 1, PGAS_LOCAL, &sync) < 0;
    n_bad += sync.count != 0 || ctx->in_flight != 0;
    n_bad += start(PGASI_RMA_PUT, 1, PGAS_REMOTE, &sync) < 0 || sync.count != 1;
    flush_status = PGAS_OK;
    poll();
    n_bad += sync.count != 0 || ctx->in_flight != 0;
    is_int(n_bad, 0, "operations that complete while they are issued");
}

static void without_a_counter(void)
{
    begin();
    int n_bad = 0;
    for (int i = 0; i < 20; i++)
        n_bad += start(i % 2 ? PGASI_RMA_PUT : PGASI_RMA_GET, 1, PGAS_LOCAL, NULL) < 0;
    n_bad += ctx->in_flight != 20;
    n_to_end = 20;
    flush_status = PGAS_OK;
    n_bad += pgas_flush(1) != PGAS_ERR_TRANSPORT || n_to_end != 0 || ctx->in_flight != 0;
    n_bad += pgas_flush_all() != PGAS_OK;
    is_int(n_bad, 0,
           "a flush waits for operations without a counter, and reports their error once");
}

/* Operations by the owner do not pass through the transport, so a fence must flush before them. */
static void a_fence_before_the_owner(void)
{
    begin();
    flush_status = PGAS_OK;
    int n_bad = pgas_flush_all() != PGAS_OK;
    issue_status = PGAS_OK;
    n_bad += start(PGASI_RMA_PUT, 2, PGAS_LOCAL, NULL) < 0;
    const pgasi_ctx_peer_t *peer = &ctx->peer[2];
    n_bad += pgasi_ctx_settle_fence(ctx, 2) != PGAS_OK || peer->flushed == peer->issued;
    n_bad += pgas_fence() != PGAS_OK;
    n_bad += pgasi_ctx_settle_fence(ctx, 1) != PGAS_OK || peer->flushed == peer->issued;
    n_bad += pgasi_ctx_settle_fence(ctx, 2) != PGAS_OK || peer->flushed != peer->issued;
    is_int(n_bad, 0, "puts before a fence are visible before an operation of the owner");
}

static int n_runs, n_locked;

static void count_run(pgas_sync_t *sync, void *arg)
{
    n_runs += sync == arg;
    n_locked += ctx->inside != 0;
}

static void functions(void)
{
    pgas_sync_t sync = { 0, 0, count_run, &sync };
    begin();
    int n_bad = start(PGASI_RMA_GET, 1, PGAS_LOCAL, &sync) < 0;
    n_bad += start(PGASI_RMA_GET, 1, PGAS_LOCAL, &sync) < 0;
    pgasi_ctx_lock(ctx);
    end_local(0, PGAS_OK);
    end_local(1, PGAS_OK);
    n_bad += n_runs != 0 || sync.count != 0;
    pgasi_ctx_unlock(ctx);
    while (n_runs == 0)
        pgas_progress();
    n_bad += n_runs != 1 || n_locked != 0;
    is_int(n_bad, 0, "the function of a counter runs in progress, without the context's lock");
}

int main(void)
{
    plan(16);
    ok(lone_init(N_RANKS, "HEAP_SIZE=4M SERVICE_THREADS=0") == PGAS_OK, "init");
    ctx = pgasi_self.ctx;
    ctx->tp = &tp_ctx;
    pgasi_tp = &tp;
    local_completion();
    remote_completion();
    a_flush_of_the_program();
    errors();
    refusals();
    completed_while_issued();
    without_a_counter();
    a_fence_before_the_owner();
    functions();
    flush_status = PGAS_OK;
    is_int(pgas_flush_all(), PGAS_OK, "a last flush");
    ctx->tp = NULL;
    pgasi_tp = NULL;
    is_int(pgas_finalize(), PGAS_OK, "finalize");
    return done();
}
