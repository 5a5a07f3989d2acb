/* graph_whole: the check of pgas_graph. Rank 0 gathers the graph as rows of vertex numbers, and the
 * values, and calls a serial checker. */
#include <inttypes.h>
#include <pgas/coll.h>
#include <pgas/info.h>
#include <pgas/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph_tool.h"

/* The same on all ranks, so that no rank waits for one that has stopped. */
static pgas_status_t agree(bool good)
{
    int32_t all = good;
    pgas_status_t status = pgas_allreduce(NULL, &all, &all, 1, PGAS_I32, PGAS_MIN);
    return status == PGAS_OK && !all ? PGAS_ERR_NO_MEMORY : status;
}

/* Gathers `bytes` bytes of each rank in dst of rank 0. */
static pgas_status_t gather(const void *src, size_t bytes, void *dst)
{
    size_t *bytes_of = malloc((size_t)pgas_n_ranks() * sizeof *bytes_of);
    pgas_status_t status = agree(bytes_of != NULL);
    if (status == PGAS_OK)
        status = pgas_allgather(NULL, &bytes, bytes_of, sizeof bytes);
    if (status == PGAS_OK)
        status = pgas_gatherv(NULL, src, bytes, dst, bytes_of, 0);
    free(bytes_of);
    return status;
}

/* ---- the caller's part ---- */

typedef struct {
    uint64_t *degrees;
    uint32_t *ends;
    double *weights;
    uint64_t n_edges;
} part_t;

static double weight_at(const pgas_graph_info_t *info, uint64_t edge)
{
    switch (info->weight_type) {
    case PGAS_U32:
        return ((const uint32_t *)info->out.weight)[edge];
    case PGAS_F32:
        return (double)((const float *)info->out.weight)[edge];
    default:
        return ((const double *)info->out.weight)[edge];
    }
}

static void fill_part(const pgas_graph_info_t *info, part_t *part)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < info->n_local; i++) {
        uint32_t id = info->id_of[i];
        part->degrees[i] = info->out.begin[id + 1] - info->out.begin[id];
        for (uint64_t e = info->out.begin[id]; e < info->out.begin[id + 1]; e++) {
            part->ends[n] = (uint32_t)info->vertex[info->out.end[e]];
            if (part->weights)
                part->weights[n] = weight_at(info, e);
            n++;
        }
    }
}

static bool part_alloc(const pgas_graph_info_t *info, part_t *part)
{
    bool has_weights = info->weight_type != PGAS_TYPE_NONE;
    part->n_edges = info->out.begin[info->n_local];
    part->degrees = malloc((info->n_local + 1) * sizeof *part->degrees);
    part->ends = malloc((part->n_edges + 1) * sizeof *part->ends);
    if (has_weights)
        part->weights = malloc((part->n_edges + 1) * sizeof *part->weights);
    return part->degrees && part->ends && (part->weights || !has_weights);
}

static void part_free(part_t *part)
{
    free(part->degrees);
    free(part->ends);
    free(part->weights);
}

/* ---- the whole ---- */

/* Gathers the degrees behind begin[0], and then sums them. */
static pgas_status_t gather_graph(const pgas_graph_info_t *info, check_graph_t *whole)
{
    part_t part = { NULL, NULL, NULL, 0 };
    bool has_weights = info->weight_type != PGAS_TYPE_NONE, is_root = pgas_rank() == 0;
    bool good = part_alloc(info, &part);
    whole->n = info->n_vertices;
    whole->directed = info->directed;
    whole->exact = info->weight_type == PGAS_U32;
    if (is_root)
        good = check_graph_alloc(whole, info->n_edges, has_weights) && good;
    pgas_status_t status = agree(good);
    if (status == PGAS_OK) {
        fill_part(info, &part);
        status = gather(part.degrees, info->n_local * sizeof *part.degrees,
                        is_root ? whole->begin + 1 : NULL);
    }
    if (status == PGAS_OK)
        status = gather(part.ends, part.n_edges * sizeof *part.ends, whole->end);
    if (status == PGAS_OK && has_weights)
        status = gather(part.weights, part.n_edges * sizeof *part.weights, whole->weight);
    part_free(&part);
    if (status == PGAS_OK && is_root) {
        for (uint64_t v = 0; v < whole->n; v++)
            whole->begin[v + 1] += whole->begin[v];
        good = check_graph_sort(whole);
    }
    return status == PGAS_OK ? agree(good) : status;
}

/* @return the bytes that the check takes beside the graph: rows, rows of in-edges, messages to rank
 * 0, and for each vertex values and scratch memory */
static uint64_t bytes_needed(const pgas_graph_info_t *info)
{
    uint64_t per_edge = info->directed ? 16 : 12;
    if (info->weight_type != PGAS_TYPE_NONE)
        per_edge += 16;
    return info->n_edges * per_edge + info->n_vertices * 80;
}

/* Memory that Linux can give without swapping, or the greatest number if it is not known. */
static uint64_t bytes_free(void)
{
    char line[128];
    uint64_t kib = UINT64_MAX >> 10;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib << 10;
}

/* Sets the verdict if memory is not enough. Rank 0 decides. */
static pgas_status_t check_memory(const tool_job_t *job, tool_check_t *check)
{
    uint64_t needed = bytes_needed(&job->info), limit = job->opts->check_bytes;
    if (limit == 0)
        limit = bytes_free();
    if (needed > limit) {
        check->verdict.result = CHECK_SKIPPED;
        snprintf(check->verdict.text, sizeof check->verdict.text,
                 "skipped: the serial copy takes %.1f MB, but it may take only %.1f MB",
                 (double)needed / 1e6, (double)limit / 1e6);
    }
    return pgas_broadcast(NULL, &check->verdict, sizeof check->verdict, 0);
}

static void show(uint64_t done, uint64_t total)
{
    pgas_progress_show("check", done, total, NULL);
}

/* Gathers values of 8 bytes; NULL stays NULL. */
static pgas_status_t gather_values(const pgas_graph_info_t *info, const void *values, void **all_p)
{
    if (!values)
        return PGAS_OK;
    bool is_root = pgas_rank() == 0;
    *all_p = is_root ? malloc((info->n_vertices + 1) * 8) : NULL;
    pgas_status_t status = agree(*all_p || !is_root);
    if (status == PGAS_OK)
        status = gather(values, info->n_local * (size_t)8, *all_p);
    return status;
}

static pgas_status_t check_values(const tool_job_t *job, uint64_t source, tool_check_t *check)
{
    void *values = NULL, *parents = NULL;
    check_verdict_t verdict = check_right();
    pgas_status_t status = gather_values(&job->info, job->values, &values);
    if (status == PGAS_OK)
        status = gather_values(&job->info, job->parents, &parents);
    if (status == PGAS_OK && pgas_rank() == 0)
        verdict = check_symmetric(&check->graph);
    if (status == PGAS_OK && pgas_rank() == 0 && verdict.result == CHECK_RIGHT)
        verdict =
            tool_algorithm(job->opts->command)->check(job, &check->graph, source, values, parents);
    free(values);
    free(parents);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &verdict, sizeof verdict, 0);
    if (check->verdict.result == CHECK_RIGHT)
        check->verdict = verdict;
    return status;
}

pgas_status_t tool_check(const tool_job_t *job, uint64_t source, tool_check_t *check)
{
    pgas_status_t status = PGAS_OK;
    if (check->verdict.result != CHECK_RIGHT)
        return PGAS_OK; /* the first one that is not right is reported */
    check->seconds -= pgas_time();
    if (!check->gathered) {
        check->gathered = true;
        status = check_memory(job, check);
        if (status == PGAS_OK && check->verdict.result == CHECK_RIGHT)
            status = gather_graph(&job->info, &check->graph);
        check->graph.progress = show;
    }
    if (status == PGAS_OK && check->verdict.result == CHECK_RIGHT)
        status = check_values(job, source, check);
    check->seconds += pgas_time();
    return status;
}
