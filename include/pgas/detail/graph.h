/** Initialisers of the options of pgas/graph.h. */
#ifndef PGAS_DETAIL_GRAPH_H
#define PGAS_DETAIL_GRAPH_H

#include "pgas/graph.h"

#define PGAS_GRAPH_READ_OPTS_INIT                                   \
    {                                                               \
        sizeof(pgas_graph_read_opts_t), PGAS_GRAPH_AUTO, NULL, NULL \
    }
#define PGAS_GRAPH_GENERATE_OPTS_INIT               \
    {                                               \
        sizeof(pgas_graph_generate_opts_t), 0, 0, 0 \
    }
#define PGAS_PAGERANK_OPTS_INIT                                           \
    {                                                                     \
        sizeof(pgas_pagerank_opts_t), 0, 0, 0, false, 0, NULL, NULL, NULL \
    }

#endif
