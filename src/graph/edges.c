/* The list of edges. Arrays double their room: the kernel moves the pages of large arrays instead
 * of copying them, and pages that were never written take no memory. */
#include "graph/edges.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/checks.h"
#include "base/op.h"

#define FEWEST 1024

void pgasi_edges_init(pgasi_edges_t *edges, pgas_type_t weight_type)
{
    *edges = (pgasi_edges_t){ .weight_type = weight_type };
}

void pgasi_edges_fini(pgasi_edges_t *edges)
{
    free(edges->low);
    free(edges->high);
    free(edges->weight);
    pgasi_edges_init(edges, edges->weight_type);
}

static bool grow_one(void **array_p, uint64_t bytes)
{
    void *grown = bytes <= SIZE_MAX / 2 ? realloc(*array_p, bytes) : NULL;
    if (grown)
        *array_p = grown;
    return grown != NULL;
}

static pgas_status_t grow(pgasi_edges_t *edges)
{
    uint64_t room = PGASI_MAX(2 * edges->room, FEWEST);
    size_t weight_bytes = pgasi_type_bytes(edges->weight_type);
    bool grown = grow_one((void **)&edges->low, 2 * room * sizeof *edges->low);
    if (grown && edges->high)
        grown = grow_one((void **)&edges->high, 2 * room * sizeof *edges->high);
    if (grown && edges->weight_type != PGAS_TYPE_NONE)
        grown = grow_one(&edges->weight, room * weight_bytes);
    if (!grown)
        return PGAS_ERR_NO_MEMORY;
    edges->room = room;
    return PGAS_OK;
}

static pgas_status_t need_high(pgasi_edges_t *edges)
{
    edges->high = calloc(2 * edges->room, sizeof *edges->high);
    return edges->high ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

bool pgasi_edges_fits(const pgasi_edges_t *edges, double weight)
{
    switch (edges->weight_type) {
    case PGAS_U32:
        return weight >= 0 && weight <= UINT32_MAX && weight == floor(weight);
    case PGAS_F32:
        return !isinf((float)weight) || isinf(weight);
    default:
        return true;
    }
}

static void store_weight(pgasi_edges_t *edges, double weight)
{
    uint64_t at = edges->n_edges;
    if (edges->weight_type == PGAS_U32)
        ((uint32_t *)edges->weight)[at] = (uint32_t)weight;
    else if (edges->weight_type == PGAS_F32)
        ((float *)edges->weight)[at] = (float)weight;
    else if (edges->weight_type == PGAS_F64)
        ((double *)edges->weight)[at] = weight;
}

pgas_status_t pgasi_edges_add(pgasi_edges_t *edges, uint64_t from, uint64_t to, double weight)
{
    uint64_t at = 2 * edges->n_edges, greater = PGASI_MAX(from, to);
    pgas_status_t status = edges->n_edges == edges->room ? grow(edges) : PGAS_OK;
    if (status == PGAS_OK && greater > UINT32_MAX && !edges->high)
        status = need_high(edges);
    if (status != PGAS_OK)
        return status;
    if (!pgasi_edges_fits(edges, weight))
        return PGAS_ERR_RANGE;
    store_weight(edges, weight);
    edges->low[at] = (uint32_t)from;
    edges->low[at + 1] = (uint32_t)to;
    if (edges->high) {
        edges->high[at] = (uint32_t)(from >> 32);
        edges->high[at + 1] = (uint32_t)(to >> 32);
    }
    edges->greatest = PGASI_MAX(edges->greatest, greater);
    edges->n_edges++;
    return PGAS_OK;
}
