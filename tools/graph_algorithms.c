/* graph_algorithms: the algorithms of pgas_graph, as a table. */
#include <pgas/coll.h>
#include "graph_tool.h"

#define DAMPING 0.85 /* defaults of pgas/graph.h, for the checkers */
#define ROUNDS  10

/* ---- runs ---- */

static pgas_status_t run_bfs(tool_job_t *job, uint64_t source)
{
    return pgas_bfs(job->graph, source, &job->opts->run, job->values, job->parents, &job->ran);
}

static pgas_status_t run_sssp(tool_job_t *job, uint64_t source)
{
    return pgas_sssp(job->graph, source, &job->opts->run, job->values, &job->ran);
}

static pgas_status_t run_pagerank(tool_job_t *job, uint64_t source)
{
    (void)source;
    return pgas_pagerank(job->graph, &job->opts->run, job->values, &job->ran);
}

static pgas_status_t run_wcc(tool_job_t *job, uint64_t source)
{
    (void)source;
    return pgas_components(job->graph, &job->opts->run, job->values, &job->ran);
}

static pgas_status_t run_cdlp(tool_job_t *job, uint64_t source)
{
    (void)source;
    return pgas_cdlp(job->graph, &job->opts->run, job->values, &job->ran);
}

static pgas_status_t run_lcc(tool_job_t *job, uint64_t source)
{
    (void)source;
    return pgas_lcc(job->graph, &job->opts->run, job->values, &job->ran);
}

static pgas_status_t run_triangles(tool_job_t *job, uint64_t source)
{
    (void)source;
    return pgas_triangles(job->graph, &job->opts->run, &job->n_triangles, &job->ran);
}

static pgas_status_t run_betweenness(tool_job_t *job, uint64_t source)
{
    (void)source;
    return pgas_betweenness(job->graph, job->sources, job->n_sources, &job->opts->run, job->values,
                            &job->ran);
}

/* ---- checks ---- */

static check_verdict_t verify_bfs(const tool_job_t *job, check_graph_t *whole, uint64_t source,
                                  const void *values, const int64_t *parents)
{
    (void)job;
    return check_bfs(whole, source, values, parents);
}

static check_verdict_t verify_sssp(const tool_job_t *job, check_graph_t *whole, uint64_t source,
                                   const void *values, const int64_t *parents)
{
    (void)job;
    (void)parents;
    return check_sssp(whole, source, values);
}

static check_verdict_t verify_pagerank(const tool_job_t *job, check_graph_t *whole, uint64_t source,
                                       const void *values, const int64_t *parents)
{
    const pgas_graph_run_opts_t *opts = &job->opts->run;
    check_pagerank_t how = { job->ran.iterations, opts->damping > 0 ? opts->damping : DAMPING,
                             opts->no_dangling };
    (void)source;
    (void)parents;
    return check_pagerank(whole, &how, values);
}

static check_verdict_t verify_wcc(const tool_job_t *job, check_graph_t *whole, uint64_t source,
                                  const void *values, const int64_t *parents)
{
    (void)job;
    (void)source;
    (void)parents;
    return check_components(whole, values);
}

static check_verdict_t verify_cdlp(const tool_job_t *job, check_graph_t *whole, uint64_t source,
                                   const void *values, const int64_t *parents)
{
    int rounds = job->opts->run.iterations;
    (void)source;
    (void)parents;
    return check_cdlp(whole, rounds > 0 ? rounds : ROUNDS, values);
}

static check_verdict_t verify_lcc(const tool_job_t *job, check_graph_t *whole, uint64_t source,
                                  const void *values, const int64_t *parents)
{
    (void)job;
    (void)source;
    (void)parents;
    return check_lcc(whole, values);
}

static check_verdict_t verify_triangles(const tool_job_t *job, check_graph_t *whole,
                                        uint64_t source, const void *values, const int64_t *parents)
{
    (void)source;
    (void)values;
    (void)parents;
    return check_triangles(whole, job->n_triangles);
}

static check_verdict_t verify_betweenness(const tool_job_t *job, check_graph_t *whole,
                                          uint64_t source, const void *values,
                                          const int64_t *parents)
{
    (void)source;
    (void)parents;
    return check_betweenness(whole, job->sources, job->n_sources, values);
}

/* ---- the table ---- */

static const tool_algorithm_t algorithms[] = {
    [TOOL_BFS] = { "bfs", TOOL_LEVELS, "levels", "vertices reached", false, run_bfs, verify_bfs },
    [TOOL_PAGERANK] = { "pagerank", TOOL_REALS, "sweeps", NULL, true, run_pagerank,
                        verify_pagerank },
    [TOOL_WCC] = { "wcc", TOOL_VERTICES, "rounds", "components", false, run_wcc, verify_wcc },
    [TOOL_SSSP] = { "sssp", TOOL_REALS, "buckets", "vertices reached", false, run_sssp,
                    verify_sssp },
    [TOOL_CDLP] = { "cdlp", TOOL_VERTICES, "rounds", "communities", true, run_cdlp, verify_cdlp },
    [TOOL_LCC] = { "lcc", TOOL_REALS, NULL, NULL, false, run_lcc, verify_lcc },
    [TOOL_TRIANGLES] = { "triangles", TOOL_NO_VALUES, NULL, "triangles", false, run_triangles,
                         verify_triangles },
    [TOOL_BETWEENNESS] = { "betweenness", TOOL_REALS, NULL, NULL, false, run_betweenness,
                           verify_betweenness },
};

const tool_algorithm_t *tool_algorithm(tool_command_t command)
{
    return command < TOOL_CONVERT ? &algorithms[command] : NULL;
}

tool_values_t tool_values(const tool_options_t *opts)
{
    return opts->parents ? TOOL_PARENTS : algorithms[opts->command].values;
}

pgas_status_t tool_run(tool_job_t *job, uint64_t source)
{
    job->ran = (pgas_graph_run_info_t){ .size = sizeof job->ran };
    pgas_status_t status = algorithms[job->opts->command].run(job, source);
    if (status != PGAS_OK)
        return status;                       /* the same on all ranks */
    pgas_graph_info(job->graph, &job->info); /* the algorithm may have made in-edges */
    status = pgas_allreduce(NULL, &job->ran.seconds, &job->ran.seconds, 1, PGAS_F64, PGAS_MAX);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &job->ran.n_sent, &job->ran.n_sent, 1, PGAS_U64, PGAS_ADD);
    return status;
}
