/* What loops of benchmarks use: messages, memory, statistics, and samples of single operations. */
#include "benchmarks/options.h"
#include "benchmarks/print.h"
#include "benchmarks/ref.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SAMPLES_MAX 4096

void bench_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s: rank %d: ", bench_prog->name, ref_mpi_rank());
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
    if (bench_is_alone())
        exit(1);
    ref_mpi_abort(1);
}

void *bench_table(size_t bytes)
{
    const size_t page = (size_t)2 << 20;
    size_t whole = (bytes + page - 1) / page * page;
    void *table = aligned_alloc(page, whole);
    if (!table)
        bench_die("out of memory");
    (void)madvise(table, whole, MADV_HUGEPAGE);
    memset(table, 0, whole);
    return table;
}

void bench_check(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        bench_die("%s: %s", what, pgas_status_text(status));
}

void bench_say(const char *fmt, ...)
{
    va_list args;
    if (ref_mpi_rank() != 0)
        return;
    va_start(args, fmt);
    fprintf(stderr, "%s: ", bench_prog->name);
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "\n");
    va_end(args);
}

/* Every page is written: untouched pages are all the same page of zeros, and reading them is too
 * fast. */
void *bench_buffer(size_t bytes)
{
    void *buffer = aligned_alloc(BENCH_PAGE_BYTES, (bytes + BENCH_PAGE_BYTES - 1) /
                                                       BENCH_PAGE_BYTES * BENCH_PAGE_BYTES);
    if (!buffer)
        bench_die("out of memory");
    memset(buffer, 1, bytes);
    return buffer;
}

void bench_compute(double ms)
{
    uint64_t begin = bench_now(), x = 1;
    while (bench_since(begin) < ms * 1e6)
        for (int i = 0; i < 1000; i++)
            bench_use(bench_random(&x));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
}

print_stat_t bench_statistics(double *values, int n)
{
    print_stat_t stat;
    bench_sort(values, (size_t)n);
    stat.min = values[0];
    stat.max = values[n - 1];
    stat.median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
    return stat;
}

double bench_sample(const bench_run_t *run, void (*op)(const bench_run_t *run, int n), int n_ops)
{
    static double sample[SAMPLES_MAX];
    const struct timespec pause = { 0, 1000000 };
    int n = 0;
    uint64_t begin = bench_now(), start;
    nanosleep(&pause, NULL);
    do {
        start = bench_now();
        op(run, n_ops);
        sample[n++] = bench_since(start) / n_ops;
        nanosleep(&pause, NULL);
    } while (n < SAMPLES_MAX && bench_since(begin) < run->round_ms * 0.9e6);
    return bench_statistics(sample, n).median;
}

void bench_draw_places(uint64_t *place, size_t n, const bench_run_t *run)
{
    uint64_t state = bench_seed(run->rank), n_here = (uint64_t)run->arg;
    for (size_t i = 0; i < n; i++) {
        uint64_t global = bench_random_below(&state, n_here * (uint64_t)run->n_ranks);
        place[i] = (global % n_here) << BENCH_RANK_BITS | global / n_here;
    }
}

uint64_t **bench_addresses(pgas_gptr_t allocation, size_t bytes)
{
    uint64_t **at = calloc((size_t)pgas_n_ranks(), sizeof *at);
    if (!at)
        bench_die("out of memory");
    for (int r = 0; r < pgas_n_ranks(); r++)
        at[r] = pgas_gptr_local(pgas_gptr_at(allocation, r), bytes);
    return at;
}
