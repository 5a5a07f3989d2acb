/* Time of pgas_init and pgas_finalize while MPI is up, and memory: the memory of a rank after init
 * (its proportional share of all mappings, without untouched heap) beside the worst case that
 * pgas_info prints. */
#include "benchmarks/bench.h"
#include "benchmarks/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double bytes_before, bytes_after;

/* Proportional set size; 0: the system does not report it. */
static double used_bytes(void)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "Pss: %lf", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib * 1024;
}

static void prepare(void)
{
    bytes_before = used_bytes();
}

/* Before references are opened. */
static void setup(void)
{
    bytes_after = used_bytes();
}

static double init(const bench_run_t *run)
{
    uint64_t begin;
    (void)run;
    bench_check(pgas_finalize(), "pgas_finalize");
    begin = bench_now();
    bench_check(pgas_init(NULL, NULL), "pgas_init");
    return bench_since(begin) / 1e6;
}

static double finalize(const bench_run_t *run)
{
    uint64_t begin = bench_now();
    double elapsed;
    (void)run;
    bench_check(pgas_finalize(), "pgas_finalize");
    elapsed = bench_since(begin) / 1e6;
    bench_check(pgas_init(NULL, NULL), "pgas_init");
    return elapsed;
}

static double measured_kib(const bench_run_t *run)
{
    (void)run;
    return (bytes_after - bytes_before) / 1024;
}

/* The sum below "bytes per rank" in the output of pgas_info, without the heap; 0: there is none. */
static double formula_kib(const bench_run_t *run)
{
    char *text = NULL, *at;
    size_t bytes;
    double value = 0;
    FILE *stream = open_memstream(&text, &bytes);
    (void)run;
    if (!stream)
        bench_die("out of memory");
    bench_check(pgas_info_print(stream, NULL), "pgas_info_print");
    fclose(stream);
    at = text ? strstr(text, "bytes per rank") : NULL;
    at = at ? strstr(at, "\n  sum ") : NULL;
    if (at)
        value = strtod(at + strlen("\n  sum "), NULL);
    free(text);
    return value / 1024;
}

static const bench_case_t cases[] = {
    { .variant = "memory",
      .doc = "memory of a rank after init; its limit: the worst case by pgas_info without the heap",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .ours = measured_kib,
      .refs = { { "limit", BENCH_OURS, formula_kib } },
      .average = true,
      .unit = "KiB" },
    { .variant = "init",
      .doc = "pgas_init",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .ours = init,
      .unit = "ms" },
    { .variant = "finalize",
      .doc = "pgas_finalize",
      .paths = BENCH_ANYWHERE,
      .metric = BENCH_VALUE,
      .ours = finalize,
      .unit = "ms" },
};

static const bench_program_t program = { .name = "pgas_startup",
                                         .doc = "time of init and finalize, memory of a rank",
                                         .ranks = BENCH_ANY,
                                         .label = "Startup",
                                         BENCH_CASES(cases),
                                         .prepare = prepare,
                                         .setup = setup };

int main(int argc, char **argv)
{
    return bench_main(&program, argc, argv);
}
