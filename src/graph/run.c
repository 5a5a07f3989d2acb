/* Runs: options, threads, subsets. */
#include "graph/run.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/bitmap.h"
#include "base/checks.h"
#include "base/clock.h"
#include "base/info_fill.h"
#include "graph/build.h"
#include "pgas/coll.h"

/* ---- options ---- */

static bool is_sane(const pgas_graph_run_opts_t *o)
{
    return o->n_threads >= 0 && o->n_threads <= 4096 && o->exchange >= PGAS_GRAPH_EXCHANGE_AUTO &&
           o->exchange <= PGAS_GRAPH_ARRAY && o->direction >= PGAS_GRAPH_DIRECTION_AUTO &&
           o->direction <= PGAS_GRAPH_PULL && o->iterations >= 0 && o->tolerance >= 0 &&
           o->damping >= 0 && o->damping <= 1 && o->delta >= 0 && !isinf(o->delta);
}

/* The options of rank 0 that all ranks use. needs_in depends on them in some algorithms. */
typedef struct {
    int64_t exchange, direction, iterations, no_dangling, needs_in;
    double tolerance, damping, delta;
} shared_t;

static pgas_status_t share(pgas_graph_run_opts_t *o, bool *needs_in_p)
{
    shared_t s = { o->exchange, o->direction, o->iterations, o->no_dangling,
                   *needs_in_p, o->tolerance, o->damping,    o->delta };
    pgas_status_t status = pgas_broadcast(NULL, &s, sizeof s, 0);
    o->exchange = (pgas_graph_exchange_t)s.exchange;
    o->direction = (pgas_graph_direction_t)s.direction;
    o->iterations = (int)s.iterations;
    o->no_dangling = s.no_dangling != 0;
    *needs_in_p = s.needs_in != 0;
    o->tolerance = s.tolerance;
    o->damping = s.damping;
    o->delta = s.delta;
    if (o->n_threads < 1 || !o->parallel)
        o->n_threads = 1;
    return status;
}

/* ---- a run ---- */

static pgas_status_t begin(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                           pgas_graph_run_t **run_p, pgasi_run_t **run)
{
    pgas_graph_run_opts_t o = PGAS_GRAPH_RUN_OPTS_INIT;
    bool sane = graph && run_p && PGASI_OPTS_SANE(opts, sizeof o);
    o = sane && opts ? *opts : o;
    if (!sane || !is_sane(&o)) {
        pgasi_graph_note("a graph algorithm: an argument is NULL, or an option is out of range");
        return PGAS_ERR_INVALID;
    }
    if (graph->is_running) {
        pgasi_graph_note("a graph algorithm: the graph has a run that has not ended");
        return PGAS_ERR_BUSY;
    }
    *run = pgasi_graph_scratch(graph, SLOT_RUN, 1, sizeof **run);
    size_t *counts =
        pgasi_graph_scratch(graph, SLOT_COUNTS, 2 * (uint64_t)graph->n_ranks, sizeof *counts);
    if (!*run || !counts)
        return PGAS_ERR_NO_MEMORY;
    **run = (pgasi_run_t){
        .run = { .graph = graph, .opts = o, .info.size = sizeof(pgas_graph_info_t) },
        .send_bytes = counts,
        .receive_bytes = counts + graph->n_ranks,
    };
    graph->is_running = true;
    return PGAS_OK;
}

/* Gets memory for all exchanges, so that none of them fails on one rank. Pages that no exchange
 * uses take no memory. */
static pgas_status_t make_room(pgas_graph_t *graph)
{
    uint64_t n_ids = (uint64_t)graph->n_local + graph->n_ghosts;
    uint64_t n_mirrors = graph->mirror_begin[graph->n_ranks], n_ranks = (uint64_t)graph->n_ranks;
    bool have = pgasi_graph_scratch(graph, SLOT_GHOSTS, graph->n_ghosts + 4 * n_ranks,
                                    sizeof(uint32_t)) != NULL;
    if (graph->n_ranks > 1) {
        uint64_t n = PGASI_MAX(n_mirrors, n_ids) + n_ranks;
        have = have && pgasi_graph_scratch(graph, SLOT_SEND, n, PGASI_RUN_ITEM_MAX) &&
               pgasi_graph_scratch(graph, SLOT_RECEIVE, n, PGASI_RUN_ITEM_MAX);
    }
    return have ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

pgas_status_t pgas_graph_run_create(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                                    bool needs_in, pgas_graph_run_t **run_p)
{
    pgasi_run_t *run = NULL;
    pgas_status_t mine = begin(graph, opts, run_p, &run);
    pgas_status_t status = pgasi_graph_agree(mine, NULL);
    if (status == PGAS_OK)
        status = share(&run->run.opts, &needs_in);
    if (status == PGAS_OK && (needs_in || run->run.opts.exchange == PGAS_GRAPH_ARRAY))
        status = pgasi_graph_reverse(graph);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(make_room(graph), NULL);
    if (status == PGAS_OK && run->run.opts.exchange == PGAS_GRAPH_ARRAY)
        status = pgasi_array_open(run);
    if (status == PGAS_OK) {
        pgas_graph_info(graph, &run->run.info);
        *run_p = &run->run;
    } else if (mine == PGAS_OK) {
        graph->is_running = false;
    }
    return status;
}

pgas_status_t pgas_graph_run_destroy(pgas_graph_run_t *run)
{
    if (run) {
        pgasi_array_close(pgasi_run_of(run));
        run->graph->is_running = false;
    }
    return PGAS_OK;
}

void pgas_graph_run_threads(pgas_graph_run_t *run, pgas_graph_work_fn_t work, void *arg)
{
    if (run->opts.n_threads > 1)
        run->opts.parallel(run->opts.n_threads, work, arg);
    else
        work(0, 1, arg);
}

void pgasi_run_report(const pgas_graph_run_t *run, const char *phase, uint64_t done, uint64_t total)
{
    if (run->opts.progress && run->graph->rank == 0)
        run->opts.progress(phase, done, total, run->opts.progress_arg);
}

/* ---- the run of an algorithm ---- */

pgas_status_t pgasi_run_source(pgas_graph_run_t *run, uint64_t *source_p)
{
    pgas_status_t status = pgas_broadcast(NULL, source_p, sizeof *source_p, 0);
    if (status == PGAS_OK && *source_p >= run->graph->n_vertices) {
        pgasi_graph_note("there is no vertex %" PRIu64 ": the graph has %" PRIu64, *source_p,
                         run->graph->n_vertices);
        status = pgasi_graph_agree(PGAS_ERR_RANGE, NULL);
    }
    return status;
}

pgas_status_t pgasi_run_begin(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                              uint64_t *source_p, bool needs_in, pgas_graph_run_t **run_p)
{
    pgas_status_t status = pgas_graph_run_create(graph, opts, needs_in, run_p);
    if (status != PGAS_OK || !source_p)
        return status;
    status = pgasi_run_source(*run_p, source_p);
    if (status != PGAS_OK)
        pgas_graph_run_destroy(*run_p);
    return status;
}

pgas_status_t pgasi_run_end(pgas_graph_run_t *run, pgas_status_t status, uint64_t begin_ns,
                            pgas_graph_run_info_t *info, pgas_graph_run_info_t *info_p)
{
    info->seconds = 1e-9 * (double)(pgasi_now_ns() - begin_ns);
    info->n_sent = run->n_sent;
    pgas_graph_run_destroy(run);
    if (status == PGAS_OK && info_p)
        status = pgasi_info_fill(info_p, info, sizeof *info);
    return status;
}

/* ---- subsets ---- */

static uint64_t n_words(const pgas_graph_run_t *run)
{
    return PGASI_DIV_UP((uint64_t)run->info.n_local + run->info.n_ghosts, 64);
}

pgas_status_t pgas_subset_create(pgas_graph_run_t *run, pgas_subset_t **subset_p)
{
    int index = 0;
    if (!run || !subset_p)
        return PGAS_ERR_INVALID;
    while (run->subsets >> index & 1)
        index++;
    if (index == PGASI_RUN_SUBSETS)
        return PGAS_ERR_LIMIT;
    int slot = SLOT_SUBSETS + 3 * index;
    uint64_t n_ids = (uint64_t)run->info.n_local + run->info.n_ghosts;
    pgas_subset_t *subset = pgasi_graph_scratch(run->graph, slot, 1, sizeof *subset);
    uint32_t *ids = pgasi_graph_scratch(run->graph, slot + 1, n_ids, sizeof *ids);
    uint64_t *bits = pgasi_graph_scratch(run->graph, slot + 2, n_words(run), sizeof *bits);
    if (!subset || !ids || !bits)
        return PGAS_ERR_NO_MEMORY;
    *subset =
        (pgas_subset_t){ .run = run, .index = index, .is_list = true, .ids = ids, .bits = bits };
    memset(bits, 0, n_words(run) * sizeof *bits);
    run->subsets |= 1u << index;
    *subset_p = subset;
    return PGAS_OK;
}

pgas_status_t pgas_subset_destroy(pgas_subset_t *subset)
{
    if (subset)
        subset->run->subsets &= ~(1u << subset->index);
    return PGAS_OK;
}

void pgas_subset_clear(pgas_subset_t *subset)
{
    if (subset->is_list && subset->n < n_words(subset->run))
        for (uint64_t i = 0; i < subset->n; i++)
            subset->bits[subset->ids[i] >> 6] = 0;
    else
        memset(subset->bits, 0, n_words(subset->run) * sizeof *subset->bits);
    subset->is_list = true;
    subset->n = subset->n_edges = subset->n_all = subset->n_edges_all = 0;
}

void pgas_subset_add(pgas_subset_t *subset, uint32_t id)
{
    const pgas_graph_rows_t *rows = &subset->run->info.out;
    if (!pgas_edge_set_bit(subset->bits, id, false))
        return;
    if (subset->is_list)
        subset->ids[subset->n] = id;
    subset->n++;
    subset->n_edges += rows->begin[id + 1] - rows->begin[id];
}

void pgas_subset_list(pgas_subset_t *subset)
{
    uint64_t n = 0;
    uint32_t n_local = subset->run->info.n_local;
    if (subset->is_list)
        return;
    for (uint64_t w = 0; w < PGASI_DIV_UP((uint64_t)n_local, 64); w++) {
        for (uint64_t bits = subset->bits[w]; bits != 0; bits &= bits - 1) {
            uint32_t id = (uint32_t)(w << 6) | (uint32_t)__builtin_ctzll(bits);
            if (id < n_local)
                subset->ids[n++] = id;
        }
    }
    subset->is_list = true;
}

pgas_status_t pgas_subset_count(pgas_subset_t *subset)
{
    uint64_t n[2] = { subset->n, subset->n_edges };
    pgas_status_t status = PGAS_OK;
    if (subset->run->graph->n_ranks > 1)
        status = pgas_allreduce(NULL, n, n, 2, PGAS_U64, PGAS_ADD);
    subset->n_all = n[0];
    subset->n_edges_all = n[1];
    return status;
}
