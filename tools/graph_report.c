/* graph_report: pgas_graph prints a summary in lines that begin with #, and the list of the
 * greatest values; with --json it prints one object instead. */
#include <inttypes.h>
#include <pgas/runtime.h>
#include <pgas/version.h>
#include <stdio.h>
#include <string.h>
#include "graph_tool.h"

static const char *weights_of(const pgas_graph_info_t *info)
{
    switch (info->weight_type) {
    case PGAS_U32:
        return "u32";
    case PGAS_F32:
        return "f32";
    case PGAS_F64:
        return "f64";
    default:
        return "none";
    }
}

static double bytes_per_edge(const tool_report_t *r)
{
    return r->job->info.n_edges > 0 ? (double)r->bytes / (double)r->job->info.n_edges : 0;
}

/* Whole numbers are exact in the lists of levels and of groups. */
static bool has_whole_values(const tool_job_t *job)
{
    return tool_algorithm(job->opts->command)->values != TOOL_REALS;
}

/* ---- the summary ---- */

static void print_graph(const tool_report_t *r, FILE *out)
{
    const pgas_graph_info_t *info = &r->job->info;
    int n = pgas_n_ranks();
    fprintf(out, "# graph: %d rank%s, %" PRIu64 " vertices, %" PRIu64 " edges", n,
            n == 1 ? "" : "s", info->n_vertices, info->n_edges);
    fprintf(out, info->directed ? ", directed" : " in both directions");
    if (info->weight_type != PGAS_TYPE_NONE)
        fprintf(out, ", weights %s", weights_of(info));
    fprintf(out, ", %.1f bytes an edge\n", bytes_per_edge(r));
    fprintf(out, "# read: %.3f s\n", r->seconds_read);
}

static void print_info(const tool_report_t *r, FILE *out)
{
    const pgas_graph_info_t *info = &r->job->info;
    const char *words = "numbers";
    if (r->job->has_labels)
        words = "labels";
    if (info->has_names)
        words = "names";
    fprintf(out, "# vertices have %s; the most out-edges of a vertex: %" PRIu64 "\n", words,
            r->degree_max);
    fprintf(out, "# vertices without out-edges: %" PRIu64 "\n", r->n_without_edges);
    fprintf(out, "# memory: %.1f MB on all ranks, %" PRIu64 " ghosts\n", (double)r->bytes / 1e6,
            r->n_ghosts);
}

/* Prints the counts of the last run. */
static void print_counts(const tool_report_t *r, FILE *out)
{
    const tool_job_t *job = r->job;
    const tool_algorithm_t *algorithm = tool_algorithm(job->opts->command);
    const char *between = "; ";
    if (r->source) {
        fprintf(out, "%sfrom %s", between, r->source);
        if (!job->opts->source && job->opts->n_roots + job->opts->n_sources == 0)
            fprintf(out, " (most out-edges)");
        between = ", ";
    } else if (job->n_sources > 1) {
        fprintf(out, "%sfrom %zu vertices", between, job->n_sources);
        between = ", ";
    }
    if (algorithm->iterations) {
        fprintf(out, "%s%d %s", between, job->ran.iterations, algorithm->iterations);
        between = ", ";
    }
    if (algorithm->found)
        fprintf(out, "%s%" PRIu64 " %s", between, job->ran.n_found, algorithm->found);
    if (job->opts->command == TOOL_PAGERANK)
        fprintf(out, "%schange %.1e, sum %.12f", between, job->ran.change, job->ran.sum);
}

static void print_run(const tool_report_t *r, FILE *out)
{
    const tool_times_t *times = &r->times;
    fprintf(out, "# %s: ", tool_algorithm(r->job->opts->command)->name);
    if (times->n > 1)
        fprintf(out, "%d runs, min %.3g, median %.3g, max %.3g s", times->n, times->min,
                times->median, times->max);
    else
        fprintf(out, "%.3f s", times->median);
    fprintf(out, ", %.1f million edges/s%s", times->edges_per_second / 1e6,
            r->job->opts->n_roots > 1 ? " (harmonic mean)" : "");
    print_counts(r, out);
    fprintf(out, "\n");
}

static void print_top(const tool_report_t *r, FILE *out)
{
    for (int i = 0; i < r->top.n; i++)
        fprintf(out, has_whole_values(r->job) ? "%d %s %.0f\n" : "%d %s %.6e\n", i + 1,
                r->top.names[i], r->top.entries[i].value);
}

static void print_summary(const tool_report_t *r, FILE *out)
{
    const tool_options_t *opts = r->job->opts;
    print_graph(r, out);
    if (opts->command == TOOL_INFO)
        print_info(r, out);
    if (tool_algorithm(opts->command))
        print_run(r, out);
    if (opts->check)
        fprintf(out, "# check: %s; %.3f s\n", r->check->verdict.text, r->check->seconds);
    if (opts->output)
        fprintf(out, "# written: %s, %.3f s\n", opts->output, r->seconds_written);
    print_top(r, out);
}

/* ---- JSON ---- */

static void json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++)
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    fputc('"', out);
}

static void json_run(const tool_report_t *r, FILE *out)
{
    const tool_job_t *job = r->job;
    const tool_algorithm_t *algorithm = tool_algorithm(job->opts->command);
    fprintf(out, ",\"runs\":%d,\"seconds\":%.9g,\"seconds_min\":%.9g,\"seconds_max\":%.9g",
            r->times.n, r->times.median, r->times.min, r->times.max);
    fprintf(out, ",\"edges_per_second\":%.6g,\"values_sent\":%" PRIu64, r->times.edges_per_second,
            job->ran.n_sent);
    if (r->source) {
        fprintf(out, ",\"source\":");
        json_text(out, r->source);
    }
    if (algorithm->iterations)
        fprintf(out, ",\"iterations\":%d", job->ran.iterations);
    if (algorithm->found)
        fprintf(out, ",\"found\":%" PRIu64, job->ran.n_found);
    if (job->opts->command == TOOL_PAGERANK)
        fprintf(out, ",\"change\":%.9g,\"sum\":%.17g", job->ran.change, job->ran.sum);
}

static void json_top(const tool_report_t *r, FILE *out)
{
    fprintf(out, ",\"top\":[");
    for (int i = 0; i < r->top.n; i++) {
        fprintf(out, "%s{\"vertex\":", i > 0 ? "," : "");
        json_text(out, r->top.names[i]);
        fprintf(out, ",\"value\":%.17g}", r->top.entries[i].value);
    }
    fprintf(out, "]");
}

static void print_json(const tool_report_t *r, FILE *out)
{
    static const char *const verdicts[] = { "right", "wrong", "skipped" };
    const tool_options_t *opts = r->job->opts;
    const pgas_graph_info_t *info = &r->job->info;
    fprintf(out, "{\"program\":\"pgas_graph\",\"version\":\"%s\",\"command\":\"%s\"",
            PGAS_VERSION_TEXT, tool_command_name(opts->command));
    if (opts->path) {
        fprintf(out, ",\"file\":");
        json_text(out, opts->path);
    }
    fprintf(out, ",\"ranks\":%d,\"threads\":%d", pgas_n_ranks(),
            opts->run.n_threads > 1 ? opts->run.n_threads : 1);
    fprintf(out, ",\"vertices\":%" PRIu64 ",\"edges\":%" PRIu64 ",\"directed\":%s",
            info->n_vertices, info->n_edges, info->directed ? "true" : "false");
    fprintf(out, ",\"weights\":\"%s\",\"bytes\":%" PRIu64 ",\"bytes_per_edge\":%.3f",
            weights_of(info), r->bytes, bytes_per_edge(r));
    fprintf(out, ",\"degree_max\":%" PRIu64 ",\"without_edges\":%" PRIu64 ",\"ghosts\":%" PRIu64,
            r->degree_max, r->n_without_edges, r->n_ghosts);
    fprintf(out, ",\"seconds_read\":%.9g", r->seconds_read);
    if (tool_algorithm(opts->command))
        json_run(r, out);
    if (opts->check) {
        fprintf(out, ",\"check\":\"%s\",\"check_text\":", verdicts[r->check->verdict.result]);
        json_text(out, r->check->verdict.text);
    }
    if (r->top.n > 0)
        json_top(r, out);
    fprintf(out, "}\n");
}

bool tool_report(const tool_report_t *report)
{
    const tool_options_t *opts = report->job->opts;
    FILE *out = opts->output && strcmp(opts->output, "-") == 0 ? stderr : stdout;
    if (opts->json)
        print_json(report, out);
    else
        print_summary(report, out);
    return fflush(out) == 0 && !ferror(out);
}
