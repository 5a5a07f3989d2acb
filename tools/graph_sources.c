/* graph_sources: the sources of bfs, sssp and betweenness. All ranks draw the same random vertices,
 * and each rank reports which of its own vertices have out-edges. */
#include <pgas/coll.h>
#include <stdio.h>
#include <stdlib.h>
#include <pgas/runtime.h>
#include "graph_tool.h"

enum { DRAWS = 1024, ROUNDS_MAX = 256 };

static uint64_t degree_of(const pgas_graph_info_t *info, uint64_t i)
{
    uint32_t id = info->id_of[i];
    return info->out.begin[id + 1] - info->out.begin[id];
}

static pgas_status_t find_named(tool_job_t *job)
{
    pgas_status_t status = pgas_graph_find(job->graph, job->opts->source, job->sources);
    if (status == PGAS_ERR_NOT_FOUND && pgas_rank() == 0)
        fprintf(stderr, "pgas_graph: --source %s: no such vertex\n", job->opts->source);
    job->n_sources = status == PGAS_OK;
    return status;
}

static pgas_status_t find_greatest(tool_job_t *job)
{
    pgas_graph_top_t top = { 0, 0 };
    int n = 0;
    double *degrees = malloc((job->info.n_local + 1) * sizeof *degrees);
    for (uint64_t i = 0; degrees && i < job->info.n_local; i++)
        degrees[i] = (double)degree_of(&job->info, i);
    pgas_status_t status =
        degrees ? pgas_graph_top(job->graph, degrees, 1, &top, &n) : PGAS_ERR_NO_MEMORY;
    free(degrees);
    job->sources[0] = top.vertex;
    job->n_sources = status == PGAS_OK;
    return status;
}

/* SplitMix64: Steele, Lea, Flood 2014. */
static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Sets good[i] on all ranks to whether the vertex has out-edges. */
static pgas_status_t look_up(const pgas_graph_info_t *info, const uint64_t *vertices, int32_t *good)
{
    for (int i = 0; i < DRAWS; i++) {
        uint64_t at = vertices[i] - info->first_vertex; /* wraps around below the first */
        good[i] = at < info->n_local && degree_of(info, at) > 0;
    }
    return pgas_allreduce(NULL, good, good, DRAWS, PGAS_I32, PGAS_MAX);
}

static bool is_new(const tool_job_t *job, uint64_t vertex)
{
    for (size_t i = 0; i < job->n_sources; i++)
        if (job->sources[i] == vertex)
            return false;
    return true;
}

/* Draws n sources with out-edges. It finds fewer if the graph has fewer, or if they are rare. */
static pgas_status_t find_random(tool_job_t *job, size_t n)
{
    uint64_t state = job->opts->seed, vertices[DRAWS];
    int32_t good[DRAWS];
    pgas_status_t status = PGAS_OK;
    for (int round = 0; round < ROUNDS_MAX && job->n_sources < n && status == PGAS_OK; round++) {
        for (int i = 0; i < DRAWS; i++)
            vertices[i] = draw(&state) % job->info.n_vertices;
        status = look_up(&job->info, vertices, good);
        for (int i = 0; i < DRAWS && job->n_sources < n && status == PGAS_OK; i++)
            if (good[i] && is_new(job, vertices[i]))
                job->sources[job->n_sources++] = vertices[i];
    }
    if (status == PGAS_OK && job->n_sources == 0)
        status = find_greatest(job);
    return status;
}

pgas_status_t tool_find_sources(tool_job_t *job)
{
    tool_command_t command = job->opts->command;
    int n_random = job->opts->n_roots + job->opts->n_sources;
    job->sources = calloc(n_random > 0 ? (size_t)n_random : 1, sizeof *job->sources);
    if (!job->sources)
        return PGAS_ERR_NO_MEMORY;
    if (command != TOOL_BFS && command != TOOL_SSSP && command != TOOL_BETWEENNESS)
        return PGAS_OK;
    if (n_random > 0)
        return find_random(job, (size_t)n_random);
    return job->opts->source ? find_named(job) : find_greatest(job);
}
