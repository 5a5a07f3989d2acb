/* graph_top: the vertices of the greatest values, or the greatest groups of wcc and cdlp. */
#include <math.h>
#include <pgas/coll.h>
#include <pgas/runtime.h>
#include <stdlib.h>
#include <string.h>
#include "graph_tool.h"

/* ---- sizes of groups ---- */

/* A label and how many of this rank's vertices have it. */
typedef struct {
    uint64_t label, n;
} group_t;

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The groups of this rank's vertices by rising label, in groups; @return their number */
static size_t count_groups(const uint64_t *labels, size_t n, uint64_t *sorted, group_t *groups)
{
    size_t n_groups = 0;
    memcpy(sorted, labels, n * sizeof *labels);
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || sorted[i] != sorted[i - 1])
            groups[n_groups++] = (group_t){ sorted[i], 0 };
        groups[n_groups - 1].n++;
    }
    return n_groups;
}

/* Bytes that go to each rank: to the owners of the labels. */
static void count_bytes(const group_t *groups, size_t n, const uint64_t *first_of, size_t *bytes)
{
    int owner = 0;
    for (size_t i = 0; i < n; i++) {
        while (groups[i].label >= first_of[owner + 1])
            owner++;
        bytes[owner] += sizeof *groups;
    }
}

/* Sets sizes[i] to the size of the group with the label first_vertex + i, 0 if there is none.
 * bytes has room for twice the number of ranks. */
static pgas_status_t exchange_groups(const tool_job_t *job, const group_t *groups, size_t n_groups,
                                     size_t *bytes, double *sizes)
{
    size_t n_ranks = (size_t)pgas_n_ranks(), n_bytes = 0;
    memset(bytes, 0, n_ranks * sizeof *bytes);
    count_bytes(groups, n_groups, job->info.first_of, bytes);
    pgas_status_t status = pgas_alltoall(NULL, bytes, bytes + n_ranks, sizeof *bytes);
    for (size_t r = 0; r < n_ranks; r++)
        n_bytes += bytes[n_ranks + r];
    group_t *got = malloc(n_bytes + 1);
    int32_t good = got != NULL;
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK && !good)
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, groups, bytes, got, bytes + n_ranks);
    for (size_t i = 0; status == PGAS_OK && i < n_bytes / sizeof *got; i++)
        sizes[got[i].label - job->info.first_vertex] += (double)got[i].n;
    free(got);
    return status;
}

static pgas_status_t find_sizes(const tool_job_t *job, double *sizes)
{
    size_t n = job->info.n_local;
    uint64_t *sorted = malloc((n + 1) * sizeof *sorted);
    group_t *groups = malloc((n + 1) * sizeof *groups);
    size_t *bytes = malloc(2 * (size_t)pgas_n_ranks() * sizeof *bytes);
    int32_t good = sorted && groups && bytes;
    pgas_status_t status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK && !good)
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = exchange_groups(job, groups, count_groups(job->values, n, sorted, groups), bytes,
                                 sizes);
    free(sorted);
    free(groups);
    free(bytes);
    return status;
}

/* ---- the list ---- */

/* Values that can be ordered: -1 for vertices that were not reached. */
static pgas_status_t find_values(const tool_job_t *job, double *values)
{
    tool_values_t kind = tool_algorithm(job->opts->command)->values;
    if (kind == TOOL_VERTICES)
        return find_sizes(job, values);
    for (size_t i = 0; i < job->info.n_local; i++) {
        if (kind == TOOL_LEVELS) {
            int64_t level = ((const int64_t *)job->values)[i];
            values[i] = level == INT64_MAX ? -1 : (double)level;
        } else {
            double value = ((const double *)job->values)[i];
            values[i] = isinf(value) ? -1 : value;
        }
    }
    return PGAS_OK;
}

/* Drops entries of vertices that were not reached, or of groups that do not exist. */
static void trim(tool_top_t *top, bool groups)
{
    while (top->n > 0 && top->entries[top->n - 1].value < (groups ? 1 : 0))
        top->n--;
}

static pgas_status_t name_entries(const tool_job_t *job, tool_top_t *top)
{
    size_t n = pgas_rank() == 0 ? (size_t)top->n : 0;
    uint64_t *vertices = malloc((n + 1) * sizeof *vertices);
    char **names = calloc(n + 1, sizeof *names);
    int32_t good = vertices && names;
    pgas_status_t status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK && !good)
        status = PGAS_ERR_NO_MEMORY;
    for (size_t i = 0; i < n && status == PGAS_OK; i++)
        vertices[i] = top->entries[i].vertex;
    if (status == PGAS_OK)
        status = pgas_graph_names(job->graph, vertices, n, names);
    free(vertices);
    if (status == PGAS_OK)
        top->names = names;
    else
        free(names);
    return status;
}

pgas_status_t tool_find_top(const tool_job_t *job, tool_top_t *top)
{
    int n = job->opts->n_top;
    double *values = calloc(job->info.n_local + (size_t)1, sizeof *values);
    pgas_graph_top_t *entries = malloc(((size_t)n + 1) * sizeof *entries);
    int32_t good = values && entries;
    pgas_status_t status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK && !good)
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK)
        status = find_values(job, values);
    if (status == PGAS_OK)
        status = pgas_graph_top(job->graph, values, n, entries, &top->n);
    free(values);
    top->entries = entries;
    if (status != PGAS_OK)
        return status;
    trim(top, tool_algorithm(job->opts->command)->values == TOOL_VERTICES);
    return name_entries(job, top);
}

void tool_top_free(tool_top_t *top)
{
    for (int i = 0; top->names && pgas_rank() == 0 && i < top->n; i++)
        free(top->names[i]);
    free(top->names);
    free(top->entries);
}
