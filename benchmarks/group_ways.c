/* The ways of the library. The client submits operations in batches, each with a counter of its
 * own. It looks for completions in order, because an operation is never complete before the one
 * ahead of it. The time of an operation is that of its batch. */
#include "benchmarks/group_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pgas_group_t *group;
static pgas_sync_t *syncs;
static uint64_t *begins, *old;
static char *data;
static bool rests; /* replicas sleep; otherwise they wait in the library and serve */

static bool open_way(pgas_group_way_t way, const char *name, const group_run_t *run)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    uint64_t depth = group_depth(run);
    opts.way = way;
    opts.window = run->window;
    opts.piece = run->piece;
    opts.region_bytes = GROUP_REGION_BYTES;
    opts.device = group_device;
    opts.events = !group_polls;
    pgas_status_t status = pgas_group_create(NULL, &opts, &group);
    if (status != PGAS_OK) {
        bench_say("%s with window %u: left out: %s", name, (unsigned)run->window,
                  pgas_status_text(status));
        return false;
    }
    rests = way != PGAS_GROUP_CALLS;
    if (run->rank != 0)
        return true;
    group_place_nic();
    syncs = calloc(depth, sizeof *syncs);
    begins = calloc(depth, sizeof *begins);
    old = calloc(depth * (size_t)(run->n_ranks - 1), sizeof *old);
    data = bench_buffer(run->bytes);
    if (!syncs || !begins || !old)
        bench_die("out of memory");
    return true;
}

static bool open_chain(const group_run_t *run)
{
    return open_way(PGAS_GROUP_CHAIN, "chain", run);
}

static bool open_verbs(const group_run_t *run)
{
    return open_way(PGAS_GROUP_VERBS, "verbs", run);
}

static bool open_calls(const group_run_t *run)
{
    return open_way(PGAS_GROUP_CALLS, "calls", run);
}

static void close_way(void)
{
    free(syncs);
    free(begins);
    free(old);
    free(data);
    syncs = NULL;
    begins = old = NULL;
    data = NULL;
    bench_check(pgas_group_destroy(group), "pgas_group_destroy");
    group = NULL;
}

static pgas_group_op_t operation(const group_run_t *run, uint64_t i, uint64_t slot)
{
    uint64_t at = group_offset(run, i);
    pgas_group_op_t op = { .kind = run->kind, .offset = at, .bytes = run->bytes };
    switch (run->kind) {
    case PGAS_GROUP_WRITE:
        op.u.data = data;
        break;
    case PGAS_GROUP_MEMCPY:
        op.u.source = at - GROUP_REGION_BYTES / 2;
        break;
    case PGAS_GROUP_CAS:
        op.u.cas.expected = i;
        op.u.cas.desired = i + 1;
        op.u.cas.execute_map = ~UINT64_C(0);
        op.u.cas.old = old + slot * (uint64_t)(run->n_ranks - 1);
        break;
    default:
        break;
    }
    return op;
}

/* Batch k has operations k * batch .. */
static void submit(const group_run_t *run, uint64_t k, uint64_t batch, uint64_t n_slots)
{
    pgas_group_op_t ops[GROUP_BATCH_MAX];
    uint64_t first = k * batch, slot = k % n_slots, n = 0;
    for (; n < batch && first + n < run->n; n++)
        ops[n] = operation(run, first + n, slot * batch + n);
    begins[slot] = bench_now();
    pgas_status_t status = pgas_group_submit(group, ops, n, &syncs[slot]);
    if (__builtin_expect(status != PGAS_OK, 0))
        bench_check(status, "pgas_group_submit");
}

static void note_times(const group_run_t *run, uint64_t k, uint64_t batch, double ns)
{
    for (uint64_t i = k * batch; run->ns && i < (k + 1) * batch && i < run->n; i++)
        run->ns[i] = ns;
}

/* Takes the batches that are complete; waits if there is none. @return their number */
static uint64_t take(const group_run_t *run, uint64_t done, uint64_t sent, uint64_t batch,
                     uint64_t n_slots)
{
    uint64_t n = 0;
    pgas_status_t status = pgas_sync_wait(&syncs[done % n_slots], GROUP_LIMIT_S * INT64_C(1000000));
    if (__builtin_expect(status != PGAS_OK, 0))
        bench_check(status, "an operation");
    uint64_t now = bench_now();
    while (done + n < sent &&
           __atomic_load_n(&syncs[(done + n) % n_slots].count, __ATOMIC_ACQUIRE) == 0) {
        note_times(run, done + n, batch, (double)(now - begins[(done + n) % n_slots]));
        n++;
    }
    return n;
}

static double issue(const group_run_t *run)
{
    uint64_t depth = group_depth(run), batch = depth / 4 < group_batch ? depth / 4 : group_batch;
    batch = batch > 0 ? batch : 1;
    uint64_t n_slots = depth / batch, n = (run->n + batch - 1) / batch, sent = 0, done = 0,
             begin = bench_now();
    while (done < n) {
        while (sent < n && sent - done < n_slots)
            submit(run, sent++, batch, n_slots);
        done += take(run, done, sent, batch, n_slots);
    }
    return bench_since(begin);
}

static uint64_t refilled_ns(void)
{
    pgas_group_info_t info = { .size = sizeof info };
    bench_check(pgas_group_info(group, &info), "pgas_group_info");
    return info.refill_ns;
}

static void loop_way(const group_run_t *run, group_result_t *result_p)
{
    double cpu_ns;
    *result_p = (group_result_t){ 0 };
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    cpu_ns = group_cpu_ns();
    if (run->rank == 0) {
        uint64_t refill_ns = refilled_ns();
        result_p->ns = issue(run);
        result_p->refill_ns = (double)(refilled_ns() - refill_ns);
    }
    if (rests)
        group_rest(run->rank, run->n_ranks);
    else
        bench_check(pgas_barrier(NULL), "pgas_barrier");
    cpu_ns = run->rank > 0 ? group_cpu_ns() - cpu_ns : 0;
    bench_check(pgas_reduce(NULL, &cpu_ns, 1, PGAS_F64, PGAS_ADD, 0), "pgas_reduce");
    result_p->cpu_ns = cpu_ns;
}

const group_way_t group_chain = { .name = "chain",
                                  .doc = "cards with WAIT and ENABLE",
                                  .n_entries = 4096,
                                  .open = open_chain,
                                  .loop = loop_way,
                                  .close = close_way };
const group_way_t group_verbs = { .name = "verbs",
                                  .doc = "a thread of each replica, by queue pairs",
                                  .open = open_verbs,
                                  .loop = loop_way,
                                  .close = close_way };
const group_way_t group_calls = { .name = "calls",
                                  .doc = "handlers of the library's calls",
                                  .open = open_calls,
                                  .loop = loop_way,
                                  .close = close_way };
