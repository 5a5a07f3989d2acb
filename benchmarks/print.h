/** Output of benchmarks: OSU's tables or one JSON object a line, on standard output of rank 0. */
#ifndef BENCH_PRINT_H
#define BENCH_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "benchmarks/bench.h"

typedef struct {
    double median, min, max;
} print_stat_t;

/** The parts that are the same in all rows of a case. Side 0 is ours. */
typedef struct {
    const char *bench, *label, *size_label, *doc, *unit;
    char path[64]; /* the case's name */
    const char *name[1 + BENCH_REFS_MAX];
    int n_sides;
    bool higher, full, json;
    bool lines; /* references have a line each, with the bytes of their archives */
} print_head_t;

typedef struct {
    size_t bytes;
    uint64_t iters;
    print_stat_t side[1 + BENCH_REFS_MAX];
    double ratio[1 + BENCH_REFS_MAX]; /* ours over theirs */
    size_t archive_bytes[1 + BENCH_REFS_MAX];
} print_row_t;

void print_title(const char *bench);
void print_case(const print_head_t *head);
void print_row(const print_head_t *head, const print_row_t *row);
/** A line of the table, for a reference that is not in this build. */
void print_skipped(const print_head_t *head, const char *name);
void print_figures(const print_head_t *head, size_t bytes, const bench_figure_t *figure, int n);

#endif
