/* bench.c: how fast the log takes records. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "commands.h"

static int64_t *times_us; /* of batches, from submission to acknowledgement */
static uint64_t n_times;

static void note_time(void *arg, const replog_batch_t *batch, int64_t us)
{
    (void)arg;
    (void)batch;
    times_us[n_times++] = us;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void print_result(const replog_bench_opts_t *opts, double duration)
{
    qsort(times_us, n_times, sizeof *times_us, compare);
    printf("%" PRIu64 " records of %u bytes in %.3f s: %.0f records/s, %.2f MB/s\n",
           opts->n_records, opts->bytes, duration, (double)opts->n_records / duration,
           (double)opts->n_records * opts->bytes / duration / 1e6);
    printf("batches of %u, %u under way: p50 %" PRId64 " us, p99 %" PRId64 " us\n", opts->n_batch,
           opts->n_under_way, times_us[n_times / 2], times_us[n_times * 99 / 100]);
}

int replog_bench(replog_store_t *store, const replog_lock_opts_t *lock,
                 const replog_bench_opts_t *opts)
{
    static replog_writer_t writer;
    char *payload = malloc(opts->bytes + 1);
    times_us = calloc(opts->n_records, sizeof *times_us);
    if (!payload || !times_us)
        replog_fail("no memory");
    memset(payload, 'x', opts->bytes);
    replog_writer_open(&writer, store, lock);
    writer.acked = note_time;
    writer.n_under_way_max = opts->n_under_way;
    bool good = true;
    double start = seconds();
    for (uint64_t i = 0; i < opts->n_records && good; i++) {
        good = replog_writer_add(&writer, payload, opts->bytes);
        if ((i + 1) % opts->n_batch == 0)
            replog_writer_submit(&writer);
    }
    replog_writer_drain(&writer);
    double duration = seconds() - start;
    replog_writer_close(&writer);
    if (!good)
        replog_fail("the log is full");
    print_result(opts, duration);
    free(payload);
    free(times_us);
    return 0;
}
