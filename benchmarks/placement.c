/* Ranks are bound to cores of their own while there are enough cores. */
#include "benchmarks/bench.h"
#include "benchmarks/options.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

/* The same number in all processes under one kernel: containers of a machine may have host names of
 * their own. */
static uint64_t kernel_number(void)
{
    char text[64] = "";
    uint64_t hash = UINT64_C(1469598103934665603);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file) {
        if (!fgets(text, sizeof text, file))
            text[0] = '\0';
        fclose(file);
    }
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    return hash;
}

static cpu_set_t spare; /* cores that no rank has taken; empty if ranks are not bound */

void bench_take_spare(void)
{
    if (CPU_COUNT(&spare) > 0)
        (void)sched_setaffinity(0, sizeof spare, &spare);
}

void bench_take_core(int rank, int n_ranks)
{
    uint64_t mine = kernel_number(), *all = calloc((size_t)n_ranks, sizeof *all);
    int index = 0, n = 0, n_work = bench_prog->ranks == BENCH_CROWD ? 2 : n_ranks;
    cpu_set_t allowed, one;
    if (!all)
        bench_die("out of memory");
    bench_check(pgas_allgather(NULL, &mine, all, sizeof mine), "pgas_allgather");
    for (int r = 0; r < n_work; r++) {
        index += all[r] == mine && r < rank;
        n += all[r] == mine;
    }
    free(all);
    if (rank >= n_work)
        return;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < n)
        return;
    spare = allowed;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && n-- > 0)
            CPU_CLR(cpu, &spare);
        if (CPU_ISSET(cpu, &allowed) && index-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
        }
    }
}
