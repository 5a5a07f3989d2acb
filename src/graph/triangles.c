/* Counting triangles: for each middle vertex, the marked bits in the rows of its lower neighbours.
 *
 * A word of a row has up to 32 neighbours. So a step of the inner loop is a load, an AND and
 * a population count for several edges. Kronecker scale 20: 490 million steps for 1.2 billion pairs
 * of edges. */
#include "base/checks.h"
#include "base/clock.h"
#include "base/machine.h"
#include "graph/oriented.h"
#include "pgas/coll.h"

#define AHEAD 8 /* rows that are prefetched */

/* Every row of a lower neighbour has the word of u: it ends the loop. */
static inline __attribute__((always_inline)) uint64_t
count_closed(const pgasi_oriented_t *o, const pgasi_marks_t *marks, uint32_t u)
{
    uint64_t sum = 0, end = o->down_begin[u + UINT64_C(1)];
    const uint64_t last = (uint64_t)(u >> PGASI_BLOCK_BITS) << 32;
    for (uint64_t d = o->down_begin[u]; d < end; d++) {
        const uint64_t *word = o->up + o->up_begin[o->down[d]];
        if (d + 2 * AHEAD < end)
            __builtin_prefetch(&o->up_begin[o->down[d + 2 * AHEAD]]);
        if (d + AHEAD < end)
            __builtin_prefetch(o->up + o->up_begin[o->down[d + AHEAD]]);
        uint32_t n = 0;
        for (; *word < last; word++)
            n += (uint32_t)__builtin_popcount(marks->any[*word >> 32] & (uint32_t)*word);
        sum += n + (uint32_t)__builtin_popcount(marks->any[*word >> 32] & (uint32_t)*word);
    }
    return sum;
}

static void visit(void *arg, pgasi_marks_t *marks, uint32_t u)
{
    marks->sum += count_closed(arg, marks, u);
}

#ifdef __x86_64__
/* Processors with AVX2 have the instruction popcnt. */
__attribute__((target("popcnt"))) static void visit_popcnt(void *arg, pgasi_marks_t *marks,
                                                           uint32_t u)
{
    marks->sum += count_closed(arg, marks, u);
}
#endif

static pgasi_middle_fn_t best_visit(void)
{
#ifdef __x86_64__
    if (pgasi_machine_has_avx2())
        return visit_popcnt;
#endif
    return visit;
}

pgas_status_t pgas_triangles(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts,
                             uint64_t *n_triangles_p, pgas_graph_run_info_t *info_p)
{
    pgas_graph_run_t *run;
    pgasi_oriented_t oriented;
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin_ns = pgasi_now_ns(), n = 0;
    pgas_status_t status = pgasi_run_begin(graph, opts, NULL, true, &run);
    if (status != PGAS_OK)
        return status;
    status = pgasi_graph_agree(n_triangles_p ? PGAS_OK : PGAS_ERR_INVALID, NULL);
    if (status == PGAS_OK)
        status = pgasi_oriented_make(&oriented, run, false);
    if (status == PGAS_OK)
        status = pgasi_oriented_visit(&oriented, 0, "triangles", best_visit(), &oriented, &n,
                                      &info.iterations);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &n, &n, 1, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        *n_triangles_p = n;
    info.n_found = n;
    info.n_edges = graph->n_edges;
    return pgasi_run_end(run, status, begin_ns, &info, info_p);
}
