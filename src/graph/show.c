/* The printed list of the greatest values. */
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "graph/graph.h"
#include "pgas/runtime.h"

static pgas_status_t print(const pgas_graph_top_t *top, char *const *names, int n, FILE *out)
{
    int written = 0;
    for (int i = 0; i < n && written >= 0; i++)
        written = fprintf(out, "%d %s %.6e\n", i + 1, names[i], top[i].value);
    return written >= 0 && fflush(out) == 0 ? PGAS_OK : PGAS_ERR_IO;
}

pgas_status_t pgas_graph_print_top(const pgas_graph_t *graph, const double *values, int n,
                                   FILE *out)
{
    int n_top = n > 0 ? n : 0, n_names = 0;
    pgas_graph_top_t *top = pgasi_graph_array((uint64_t)n_top, sizeof *top);
    uint64_t *vertices = pgasi_graph_array((uint64_t)n_top, sizeof *vertices);
    char **names = pgasi_graph_zeroed((uint64_t)n_top, sizeof *names);
    bool have = top && vertices && names;
    pgas_status_t status = pgasi_graph_agree(have ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = pgas_graph_top(graph, values, n, top, &n_top);
    if (status == PGAS_OK) {
        n_names = pgas_rank() == 0 ? n_top : 0;
        for (int i = 0; i < n_names; i++)
            vertices[i] = top[i].vertex;
        status = pgas_graph_names(graph, vertices, (size_t)n_names, names);
    }
    if (status == PGAS_OK) {
        bool sane = pgas_rank() != 0 || out;
        status = pgasi_graph_agree(sane ? print(top, names, n_names, out) : PGAS_ERR_INVALID, NULL);
    }
    for (int i = 0; i < n_names && names; i++)
        free(names[i]);
    free(names);
    free(vertices);
    free(top);
    return status;
}
