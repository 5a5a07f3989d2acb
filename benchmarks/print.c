/* Tables in OSU's shape and JSON lines, see print.h. */
#include "benchmarks/print.h"

#include <math.h>
#include <stdio.h>

#define FIRST_COLUMN 10
#define COLUMN       20

void print_title(const char *bench)
{
    printf("# %s v%s\n", bench, pgas_version());
}

static void print_heading(const char *first, const char *second, const char *unit)
{
    char text[64];
    snprintf(text, sizeof text, "%s%s%s%s%s%s", first, *second ? " " : "", second,
             *unit ? " (" : "", unit, *unit ? ")" : "");
    printf(" %*s", COLUMN - 1, text);
}

void print_case(const print_head_t *head)
{
    char text[64];
    if (head->json)
        return;
    printf("# Case: %s: %s\n", head->path, head->doc);
    snprintf(text, sizeof text, "# %s", head->size_label);
    printf("%-*s", FIRST_COLUMN, text);
    print_heading(head->label, "", head->unit);
    if (head->full) {
        print_heading("Minimum", "", head->unit);
        print_heading("Maximum", "", head->unit);
        print_heading("Iterations", "", "");
    }
    for (int s = 1; !head->lines && s < head->n_sides; s++)
        print_heading(head->name[s], "", "");
    for (int s = 1; !head->lines && s < head->n_sides; s++)
        print_heading("ours /", head->name[s], "");
    printf("\n");
    fflush(stdout);
}

/* JSON has no infinity and no NaN. */
static void print_number(const char *key, double value, const char *end)
{
    if (isfinite(value))
        printf("\"%s\":%.6g%s", key, value, end);
    else
        printf("\"%s\":null%s", key, end);
}

static void print_json(const print_head_t *head, const print_row_t *row)
{
    printf("{\"bench\":\"%s\",\"case\":\"%s\",\"bytes\":%zu,\"unit\":\"%s\",\"better\":\"%s\",",
           head->bench, head->path, row->bytes, head->unit, head->higher ? "higher" : "lower");
    print_number("median", row->side[0].median, ",");
    print_number("min", row->side[0].min, ",");
    print_number("max", row->side[0].max, ",");
    if (head->lines)
        printf("\"archive_bytes\":%zu,", row->archive_bytes[0]);
    printf("\"vs\":{");
    for (int s = 1; s < head->n_sides; s++)
        print_number(head->name[s], row->ratio[s], s + 1 < head->n_sides ? "," : "");
    printf("}}\n");
}

/* The archives of ours and of the references. */
static void print_archives(const print_head_t *head, const print_row_t *row)
{
    printf("# Stats: %-16s %12.2f %s %12zu bytes\n", "ours", row->side[0].median, head->unit,
           row->archive_bytes[0]);
    for (int s = 1; s < head->n_sides; s++)
        printf("# Stats: %-16s %12.2f %s %12zu bytes, ours / it %.3f\n", head->name[s],
               row->side[s].median, head->unit, row->archive_bytes[s], row->ratio[s]);
}

void print_skipped(const print_head_t *head, const char *name)
{
    if (!head->json)
        printf("# Stats: %-16s      skipped: not in this build\n", name);
}

static void print_table_row(const print_head_t *head, const print_row_t *row)
{
    printf("%-*zu%*.2f", FIRST_COLUMN, row->bytes, COLUMN, row->side[0].median);
    if (head->full)
        printf("%*.2f%*.2f%*llu", COLUMN, row->side[0].min, COLUMN, row->side[0].max, COLUMN,
               (unsigned long long)row->iters);
    for (int s = 1; !head->lines && s < head->n_sides; s++)
        printf("%*.2f", COLUMN, row->side[s].median);
    for (int s = 1; !head->lines && s < head->n_sides; s++)
        printf("%*.*f", COLUMN, fabs(row->ratio[s]) < 0.1 ? 5 : 2, row->ratio[s]);
    printf("\n");
    if (head->lines)
        print_archives(head, row);
}

void print_row(const print_head_t *head, const print_row_t *row)
{
    if (head->json)
        print_json(head, row);
    else
        print_table_row(head, row);
    fflush(stdout);
}

/* In JSON each figure is an object of its own, without references. */
void print_figures(const print_head_t *head, size_t bytes, const bench_figure_t *figure, int n)
{
    for (int i = 0; i < n; i++) {
        print_head_t own = {
            .bench = head->bench, .unit = figure[i].unit, .higher = figure[i].higher, .n_sides = 1
        };
        print_row_t row = { .bytes = bytes,
                            .side = { { figure[i].median, figure[i].min, figure[i].max } } };
        snprintf(own.path, sizeof own.path, "%.47s-%.15s", head->path, figure[i].name);
        if (head->json)
            print_json(&own, &row);
        else
            printf("# Stats: %-16s %12.2f %s (%.2f to %.2f)\n", figure[i].name, figure[i].median,
                   figure[i].unit, figure[i].min, figure[i].max);
    }
    fflush(stdout);
}
