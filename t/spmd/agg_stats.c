/* Limits and counters of aggregators.
 *   what:   A batch is sent within its time limit while its thread makes progress or waits, and
 *           when its buffer is needed, and not before. The counters give the reason.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 PGAS_CHUNK_SIZE=16K |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/agg.h
 */
#include "t/handlers.h"
#include "t/spmd/job.h"

static pgas_handler_t add;
static int right;
static uint64_t n_added;

static uint64_t added(void)
{
    return __atomic_load_n(&n_added, __ATOMIC_RELAXED);
}

static void reset(void)
{
    pgas_quiesce();
    n_added = 0;
    pgas_barrier(NULL);
}

static pgas_agg_t *create(int64_t latency_us, size_t publish_bytes, size_t memory_bytes)
{
    pgas_agg_opts_t opts = PGAS_AGG_OPTS_INIT;
    pgas_agg_t *agg = NULL;
    opts.latency_us = latency_us;
    opts.publish_bytes = publish_bytes;
    opts.memory_bytes = memory_bytes;
    spmd_ok(pgas_agg_create(&opts, &agg) == PGAS_OK, "an aggregator");
    return agg;
}

static pgas_agg_info_t counted(const pgas_agg_t *agg)
{
    pgas_agg_info_t stats = { .size = sizeof(pgas_agg_info_t) };
    if (pgas_agg_info(agg, &stats) != PGAS_OK)
        memset(&stats, 0xFF, sizeof stats);
    return stats;
}

static int gather(pgas_agg_t *agg, int rank, int n)
{
    int n_bad = 0;
    for (int i = 0; i < n; i++) {
        uint64_t value = (uint64_t)i;
        n_bad += pgas_agg_call(agg, rank, add, &value, sizeof value) != PGAS_OK;
    }
    return n_bad;
}

static uint64_t all_reasons(const pgas_agg_info_t *s)
{
    return s->full + s->time + s->explicit_flush + s->quiesce + s->order + s->drained + s->room;
}

/* The aggregator has no time limit, nor had any before it. */
static void reasons_are_counted(pgas_agg_t *agg)
{
    uint64_t value = 1;
    reset();
    int n_bad = gather(agg, right, 3);
    for (int i = 0; i < 1000; i++)
        pgas_progress();
    pgas_agg_info_t s = counted(agg);
    spmd_ok(n_bad == 0 && s.calls == 0 && s.bytes == 0 && all_reasons(&s) == 0 && s.open_high == 1,
            "calls gathered without a limit stay");
    n_bad += pgas_agg_flush(agg, right, NULL) != PGAS_OK;
    s = counted(agg);
    spmd_ok(n_bad == 0 && s.calls == 3 && s.bytes == 8 + 3 * 8 && s.explicit_flush == 1 &&
                all_reasons(&s) == 1,
            "a flush");
    n_bad += gather(agg, right, 2) + (pgas_call(right, add, &value, sizeof value, NULL) != PGAS_OK);
    s = counted(agg);
    uint64_t queued = s.calls - 5; /* the direct one, if its channel was full */
    spmd_ok(n_bad == 0 && queued <= 1 && s.order == 1 + queued && all_reasons(&s) == 2 + queued,
            "a later direct call");
    n_bad += gather(agg, right, 1) + (pgas_quiesce() != PGAS_OK);
    s = counted(agg);
    spmd_ok(n_bad == 0 && s.calls == 6 + queued && s.quiesce == 1 &&
                all_reasons(&s) == 3 + queued && added() == 7,
            "quiesce");
    pgas_sync_t sync = PGAS_SYNC_INIT;
    n_bad += gather(agg, right, 1) || pgas_agg_flush(agg, right, &sync) != PGAS_OK;
    s = counted(agg);
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    spmd_ok(n_bad == 0 && s.explicit_flush == 2 && all_reasons(&s) == 4 + queued,
            "a flush with a counter, at once");
}

static void sizes_are_counted(pgas_agg_t *agg)
{
    enum { N = 20000 };
    char block[40] = { 0 };
    reset();
    pgas_agg_info_t before = counted(agg);
    int n_bad = gather(agg, right, N);
    for (int i = 0; i < N; i++)
        n_bad += pgas_agg_call(agg, right, add, block, i % 2 ? 33 : 0) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_agg_info_t s = counted(agg);
    spmd_ok(n_bad == 0 && added() == 2 * N && s.calls - before.calls == 2 * N,
            "runs and single records add up to the calls");
    uint64_t singles = N / 2 * 8 + N / 2 * 48, bytes = s.bytes - before.bytes - singles;
    spmd_ok(bytes > 8 * N && bytes < 8 * N + N && s.full > before.full,
            "and to their bytes; full batches are counted");
    spmd_ok((s.waited > 0) == (s.waiting_high_bytes > 0), "batches that waited took memory");
}

static void printed_too(void)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    unsigned long long calls = 0;
    pgas_status_t status = pgas_stats_print(out);
    fclose(out);
    const char *at = strstr(text, "gathered ");
    spmd_ok(status == PGAS_OK && at && sscanf(at, "gathered %llu calls", &calls) == 1 &&
                calls >= 40000,
            "pgas_stats_print prints them");
    free(text);
}

static void time_is_limited(pgas_agg_t *agg)
{
    reset();
    pgas_agg_info_t before = counted(agg);
    int n_bad = gather(agg, right, 5);
    while (counted(agg).time == before.time || added() < 5)
        pgas_progress();
    spmd_ok(n_bad == 0 && counted(agg).calls == before.calls + 5,
            "gathered calls are sent while their thread makes progress");
    reset();
    before = counted(agg);
    n_bad += gather(agg, right, 1);
    while (counted(agg).time == before.time)
        n_bad += gather(agg, me, 1) + (pgas_agg_call(agg, me, add, NULL, 0) != PGAS_OK);
    spmd_is_int(n_bad, 0, "or gathers for others");
    pgas_quiesce();
}

static void who_sleeps_publishes(pgas_agg_t *agg)
{
    pgas_sync_t never = PGAS_SYNC_INIT;
    reset();
    int n_bad = pgas_sync_add(&never, 1) != PGAS_OK;
    pgas_agg_info_t before = counted(agg);
    n_bad += gather(agg, right, 1);
    while (counted(agg).time == before.time || added() < 1)
        n_bad += pgas_sync_wait(&never, 2000) != PGAS_ERR_TIMEOUT;
    spmd_is_int(n_bad, 0, "a wait publishes what its thread has gathered");
}

/* One buffer for all peers. Last, for limits stay. */
static void memory_is_limited(void)
{
    enum { ROUNDS = 200 };
    pgas_agg_t *agg = create(-1, 0, 1);
    reset();
    pgas_agg_info_t before = counted(agg);
    int n_bad = 0;
    for (int i = 0; i < ROUNDS; i++)
        for (int r = 0; r < n_ranks; r++)
            n_bad += gather(agg, r, 1 + i % 3);
    n_bad += pgas_quiesce() != PGAS_OK;
    uint64_t n = (uint64_t)n_ranks * (ROUNDS + 199); /* 0 + 1 + 2 + 0 + .. */
    pgas_agg_info_t s = counted(agg);
    spmd_ok(n_bad == 0 && added() == n && s.calls - before.calls == n,
            "one buffer serves all peers");
    spmd_ok(n_ranks == 1 || s.room > before.room, "which it leaves for the next");
    pgas_agg_destroy(agg);
}

static void refusals(pgas_agg_t *agg)
{
    pgas_agg_info_t stats = { .size = sizeof(pgas_agg_info_t) },
                    small = { .size = sizeof(pgas_agg_info_t) };
    small.size = 8;
    spmd_ok(pgas_agg_info(NULL, &stats) == PGAS_ERR_INVALID &&
                pgas_agg_info(agg, NULL) == PGAS_ERR_INVALID &&
                pgas_agg_info(agg, &small) == PGAS_ERR_INVALID,
            "counters of nothing, to nowhere, of another size");
    spmd_ok(pgas_agg_flush(agg, n_ranks, NULL) == PGAS_ERR_RANGE &&
                pgas_agg_flush(agg, -2, NULL) == PGAS_ERR_RANGE,
            "a flush to ranks that are none");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.add", on_count, &n_added, NULL, &add);
    job_begin(&argc, &argv, 19);
    right = job_right();
    pgas_agg_t *free_agg = create(-1, 0, 0);
    reasons_are_counted(free_agg);
    sizes_are_counted(free_agg);
    printed_too();
    refusals(free_agg);
    pgas_agg_t *timed = create(0, 0, 0);
    time_is_limited(timed);
    who_sleeps_publishes(timed);
    pgas_agg_destroy(timed);
    pgas_agg_destroy(free_agg);
    memory_is_limited();
    return job_end();
}
