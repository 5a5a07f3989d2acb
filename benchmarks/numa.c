/* Threads and memory by NUMA zone: the cost of a transfer or a call within one zone, and between
 * two zones. Rank 0 works in its zone. Rank 1 has a block in each of the two, and moves between
 * them. On a machine with one zone there are only the cases of the own zone. */
#include "benchmarks/bench.h"

#include <stdlib.h>

#define ZONES_MAX 64
#define BLOCK     ((size_t)16 << 20)
#define STEP      ((size_t)4096 + 64) /* between reads: another page and another line */

enum { NEAR, FAR }; /* a case's arg: memory or receiver in the zone of rank 0, or in the next */

static int n_zones, home;               /* zones of this machine; that of rank 0 */
static cpu_set_t before, in[ZONES_MAX]; /* CPUs of this process; those of them in a zone */
static pgas_gptr_t there[2];            /* blocks of rank 1 */
static pgas_pool_t *pool;               /* of rank 0, in its zone */
static pgas_block_t sent;
static volatile uint64_t n_pings, n_pongs;

PGAS_HANDLER(numa_ping, uint64_t)
{
    n_pings += *arg;
}

PGAS_HANDLER(numa_pong, uint64_t)
{
    n_pongs += *arg;
}

/* Goes to every CPU that this process may use, and asks where that is. */
static void find_zones(void)
{
    cpu_set_t all, one;
    pgas_thread_info_t info = { .size = sizeof info };
    n_zones = pgas_n_zones();
    (void)sched_getaffinity(0, sizeof before, &before);
    CPU_ZERO(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        CPU_SET(cpu, &all);
    (void)sched_setaffinity(0, sizeof all, &all); /* the harness has bound the rank to one */
    (void)sched_getaffinity(0, sizeof all, &all);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (!CPU_ISSET(cpu, &all) || sched_setaffinity(0, sizeof one, &one) != 0)
            continue;
        bench_check(pgas_thread_info(&info), "pgas_thread_info");
        if (info.numa >= 0 && info.numa < ZONES_MAX)
            CPU_SET(cpu, &in[info.numa]);
    }
    (void)sched_setaffinity(0, sizeof before, &before);
}

static int zone_of(int arg)
{
    return (home + arg) % n_zones;
}

/* The calling thread runs in a zone from now on. @return false: it may not */
static bool enter_zone(int zone)
{
    return n_zones == 1 || (zone < ZONES_MAX && CPU_COUNT(&in[zone]) > 0 &&
                            sched_setaffinity(0, sizeof in[zone], &in[zone]) == 0);
}

static void setup(void)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    find_zones();
    while (home + 1 < n_zones && home < ZONES_MAX && CPU_COUNT(&in[home]) == 0)
        home++;
    opts.policy = PGAS_POOL_CIRCULAR;
    opts.zone = PGAS_ZONE(home);
    opts.max_bytes = BLOCK;
    if (pgas_rank() == 0) {
        bench_check(pgas_pool_create(&opts, &pool), "pgas_pool_create");
        bench_check(pgas_pool_acquire(pool, BLOCK, -1, &sent), "pgas_pool_acquire");
        for (size_t i = 0; i < BLOCK; i++)
            ((char *)sent.address)[i] = (char)i;
        for (int arg = NEAR; arg <= FAR; arg++)
            bench_check(pgas_alloc_on(1, PGAS_ZONE(zone_of(arg)), BLOCK, &there[arg]),
                        "pgas_alloc_on");
        for (int arg = NEAR; arg <= FAR; arg++) /* every page is touched */
            bench_check(pgas_put(there[arg], sent.address, BLOCK), "pgas_put");
        bench_check(pgas_flush_all(), "pgas_flush_all");
    }
}

static void teardown(void)
{
    (void)sched_setaffinity(0, sizeof before, &before);
    if (pgas_rank() != 0)
        return;
    for (int arg = NEAR; arg <= FAR; arg++)
        bench_check(pgas_free_on(there[arg]), "pgas_free_on");
    bench_check(pgas_pool_release(pool, &sent), "pgas_pool_release");
    bench_check(pgas_pool_destroy(pool), "pgas_pool_destroy");
}

/* Rank 0 works in its zone, rank 1 in that of the case. */
static void take_places(const bench_run_t *run)
{
    if (!enter_zone(run->rank == 0 ? home : zone_of(run->arg)))
        bench_die("rank %d may not run in zone %d", run->rank, zone_of(run->arg));
}

/* ---- loops ---- */

static double put(const bench_run_t *run)
{
    size_t at = 0;
    int bad = 0;
    take_places(run);
    if (!run->active)
        return 0;
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_put(pgas_gptr_add(there[run->arg], (int64_t)at),
                        (const char *)sent.address + at, run->bytes);
        at = at + 2 * run->bytes <= BLOCK ? at + run->bytes : 0;
    }
    bad |= pgas_flush_all();
    if (bad)
        bench_die("a put of %zu bytes failed", run->bytes);
    return bench_since(begin);
}

/* Each read is of another page, and begins when the one before has ended. */
static double get(const bench_run_t *run)
{
    uint64_t value = 0;
    size_t at = 0;
    int bad = 0;
    take_places(run);
    if (!run->active)
        return 0;
    uint64_t begin = bench_now();
    for (uint64_t i = 0; i < run->iters; i++) {
        bad |= pgas_get_u64(pgas_gptr_add(there[run->arg], (int64_t)at), &value);
        bench_use(value);
        at = (at + STEP) % (BLOCK - STEP) & ~(size_t)7;
    }
    if (bad)
        bench_die("a get failed");
    return bench_since(begin);
}

/* A call each way. The chunks of a channel are in the zone where its receiver started. */
static double call(const bench_run_t *run)
{
    uint64_t one = 1, pings, pongs, begin;
    int bad = 0;
    take_places(run);
    pings = n_pings;
    pongs = n_pongs;
    bench_check(pgas_barrier(NULL), "pgas_barrier");
    begin = bench_now();
    for (uint64_t i = 1; i <= run->iters; i++) {
        if (run->active) {
            bad |= pgas_call_numa_ping(run->peer, &one, NULL);
            while (n_pongs != pongs + i)
                pgas_progress();
        } else {
            while (n_pings != pings + i)
                pgas_progress();
            bad |= pgas_call_numa_pong(run->peer, &one, NULL);
        }
    }
    if (bad)
        bench_die("a call failed");
    return run->active ? bench_since(begin) : 0;
}

static pgas_status_t has_other_zone(const bench_run_t *run)
{
    (void)run;
    int next = zone_of(FAR);
    return n_zones > 1 && next < ZONES_MAX && CPU_COUNT(&in[next]) > 0 ? PGAS_OK
                                                                       : PGAS_ERR_UNSUPPORTED;
}

#define OTHER .arg = FAR, .probe = has_other_zone

static const bench_case_t cases[] = {
    { .variant = "put-own",
      .doc = "puts from the own zone to memory of a peer in the same zone",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_BANDWIDTH,
      .ours = put },
    { .variant = "put-other",
      .doc = "puts to memory in another zone",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_BANDWIDTH,
      .ours = put,
      OTHER },
    { .variant = "get-own",
      .doc = "reads of 8 bytes, each in another page, of memory in the same zone",
      .paths = BENCH_ANYWHERE,
      .no_sizes = true,
      .ours = get },
    { .variant = "get-other",
      .doc = "reads of memory in another zone",
      .paths = BENCH_ANYWHERE,
      .no_sizes = true,
      .ours = get,
      OTHER },
    { .variant = "call-own",
      .doc = "a call each way, both ranks in one zone",
      .paths = BENCH_ANYWHERE,
      .no_sizes = true,
      .ours = call },
    { .variant = "call-other",
      .doc = "a call each way, the ranks in two zones",
      .paths = BENCH_ANYWHERE,
      .no_sizes = true,
      .ours = call,
      OTHER },
};

static const bench_program_t program = { .name = "pgas_numa",
                                         .doc = "transfers and calls in one NUMA zone and between "
                                                "two",
                                         .ranks = BENCH_PAIR,
                                         .label = "Figure",
                                         .min_bytes = 4096,
                                         .max_bytes = 4u << 20,
                                         .setup = setup,
                                         .teardown = teardown,
                                         BENCH_CASES(cases) };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
