/* 21_edge_map: an algorithm that the library does not have, by edge maps.
 *
 * A truck goes from one town to every other one over the lowest passes. Vertices are towns and
 * edges are roads. The height of a path is the height of its highest road. Each vertex keeps the
 * least height of the known paths to it. An edge map follows the roads from all vertices whose
 * height has decreased. The algorithm repeats it until there is no such vertex. The library handles
 * ranks and threads, and chooses between push and pull.
 *
 *   mpirun -n 4 build/examples/21_edge_map */
#include <math.h>
#include <pgas/edge_map.h>
#include <pgas/pgas.h>
#include <stdio.h>
#include "usage.h"

#define N_VERTICES 10000

typedef struct {
    double *height; /* of own vertices, and of ghosts behind them */
} passes_t;

/* Every end of a road may be worth an update. */
static bool passes_wants(const passes_t *p, uint32_t to)
{
    (void)p, (void)to;
    return true;
}

static bool passes_update(passes_t *p, uint32_t from, uint32_t to, double road)
{
    return pgas_graph_lower_f64(&p->height[to], fmax(p->height[from], road));
}

/* A push sends the height of a changed ghost to its owner, which combines it with its own. */
static double passes_send(passes_t *p, uint32_t ghost)
{
    return p->height[ghost];
}

static bool passes_receive(passes_t *p, uint32_t own, double height)
{
    return pgas_graph_lower_f64(&p->height[own], height);
}

/* Before a pull the owner of a changed vertex sends its height to the vertex's ghosts. */
static double passes_read(const passes_t *p, uint32_t own)
{
    return p->height[own];
}

static void passes_copy(passes_t *p, uint32_t ghost, double height)
{
    p->height[ghost] = height;
}

PGAS_EDGE_MAP(passes, passes_t, double)

/* Finds the heights of all paths from vertex 0. */
static pgas_status_t find_passes(pgas_graph_run_t *run, passes_t *p, int *n_rounds_p)
{
    pgas_subset_t *now, *next;
    const pgas_graph_info_t *info = &run->info;
    pgas_status_t status = pgas_subset_create(run, &now);
    if (status == PGAS_OK)
        status = pgas_subset_create(run, &next);
    if (status != PGAS_OK)
        return status;
    for (uint32_t id = 0; id < info->n_local + info->n_ghosts; id++)
        p->height[id] = INFINITY;
    if (info->first_vertex == 0 && info->n_local > 0) {
        p->height[info->id_of[0]] = 0;
        pgas_subset_add(now, info->id_of[0]);
    }
    status = pgas_subset_count(now);
    for (*n_rounds_p = 0; status == PGAS_OK && now->n_all > 0; ++*n_rounds_p) {
        status = passes_edge_map(run, p, now, next);
        pgas_subset_t *swap = now;
        now = next;
        next = swap;
    }
    return status;
}

/* In a right result no road is a shortcut. @return the number of roads that are */
static uint64_t count_shortcuts(pgas_graph_run_t *run, const passes_t *p)
{
    const pgas_graph_rows_t *roads = &run->info.out;
    uint64_t n = 0;
    pgas_ghosts_fetch(run, p->height, sizeof *p->height);
    for (uint32_t from = 0; from < run->info.n_local; from++)
        for (uint64_t e = roads->begin[from]; e < roads->begin[from + 1]; e++)
            n += fmax(p->height[from], ((const uint32_t *)roads->weight)[e]) <
                 p->height[roads->end[e]];
    pgas_allreduce(NULL, &n, &n, 1, PGAS_U64, PGAS_ADD);
    return n;
}

static pgas_status_t travel(pgas_graph_t *graph)
{
    pgas_graph_run_t *run;
    passes_t passes;
    int n_rounds;
    double highest = 0;
    pgas_status_t status = pgas_graph_run_create(graph, NULL, true, &run);
    if (status != PGAS_OK)
        return status;
    uint32_t n_ids = run->info.n_local + run->info.n_ghosts;
    passes.height = malloc((n_ids + 1) * sizeof *passes.height);
    status = find_passes(run, &passes, &n_rounds);
    for (uint32_t id = 0; status == PGAS_OK && id < run->info.n_local; id++)
        highest = fmax(highest, passes.height[id]);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &highest, &highest, 1, PGAS_F64, PGAS_MAX);
    if (status == PGAS_OK) {
        uint64_t n_shortcuts = count_shortcuts(run, &passes);
        if (pgas_rank() == 0)
            printf("%d towns, %d rounds: no way is higher than %.0f: %s\n", N_VERTICES, n_rounds,
                   highest, n_shortcuts == 0 ? "right" : "WRONG");
    }
    free(passes.height);
    pgas_graph_run_destroy(run);
    return status;
}

int main(int argc, char **argv)
{
    usage_check(pgas_launcher_rank(), argc, argv, "21_edge_map\n", 0);
    pgas_graph_t *graph = NULL;
    pgas_graph_opts_t opts = PGAS_GRAPH_OPTS_INIT;
    opts.generator = PGAS_GRAPH_GRID;
    opts.n_vertices = N_VERTICES;
    opts.undirected = true;
    opts.weight_type = PGAS_U32; /* the grid has none, so they are random: 1 .. 255 */
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 1;
    pgas_status_t status = pgas_graph_generate(&opts, &graph);
    if (status == PGAS_OK)
        status = travel(graph);
    pgas_graph_destroy(graph);
    pgas_finalize();
    return status != PGAS_OK;
}
