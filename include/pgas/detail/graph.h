/** Initialisers of the options of pgas/graph.h. */
#ifndef PGAS_DETAIL_GRAPH_H
#define PGAS_DETAIL_GRAPH_H

#include "pgas/graph.h"

#define PGAS_GRAPH_OPTS_INIT                                                                      \
    {                                                                                             \
        sizeof(pgas_graph_opts_t), PGAS_GRAPH_AUTO, false, false, PGAS_TYPE_NONE, false, 0, NULL, \
            PGAS_GRAPH_RMAT, 0, 0, 0, NULL, NULL                                                  \
    }
#define PGAS_GRAPH_RUN_OPTS_INIT                                          \
    {                                                                     \
        sizeof(pgas_graph_run_opts_t), 0, NULL, PGAS_GRAPH_EXCHANGE_AUTO, \
            PGAS_GRAPH_DIRECTION_AUTO, NULL, NULL, 0, 0, 0, false, 0      \
    }

#endif
