/* The graph object: queries of a rank's own part, and names of vertices of any rank. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/info_fill.h"
#include "pgas/runtime.h"

/* ---- local queries ---- */

pgas_status_t pgas_graph_info(const pgas_graph_t *graph, pgas_graph_info_t *info_p)
{
    if (!graph)
        return PGAS_ERR_INVALID;
    pgas_graph_info_t info = {
        .n_vertices = graph->n_vertices,
        .n_edges = graph->n_edges,
        .block = graph->block,
        .first_vertex = graph->first,
        .n_local = graph->n_local,
        .offsets = graph->offsets,
        .targets = graph->targets,
        .has_names = graph->has_names,
        .seconds = graph->seconds,
    };
    return pgasi_info_fill(info_p, &info, sizeof info);
}

pgas_status_t pgas_graph_destroy(pgas_graph_t *graph)
{
    if (graph) {
        if (graph->layout)
            pgasi_layout_fini(graph->layout);
        free(graph->layout);
        free(graph->offsets);
        free(graph->targets);
        free(graph->name);
        free(graph->name_text);
        free(graph);
    }
    return PGAS_OK;
}

/* ---- names of vertices of any rank: a call asks the owner, whose handler calls back ---- */

/* A call of pgas_graph_names, as the handlers see it. */
typedef struct {
    const pgas_graph_t *graph;
    char **names;
    size_t n;
    pgas_status_t status;
} query_t;

/* The question and the answer. */
typedef struct {
    uint64_t vertex; /* not used in the answer */
    uint64_t index;  /* in the array of the asking rank */
    char text[];     /* only in the answer */
} name_message_t;

static struct {
    query_t *query; /* the call that is under way */
    pgas_handler_t ask, answer;
} names;

static void handle_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    name_message_t ask;
    char answer[sizeof(name_message_t) + PGASI_READER_NAME_MAX];
    query_t *query = names.query;
    (void)context;
    if (!query || !query->graph || bytes != sizeof ask)
        return;
    const pgas_graph_t *graph = query->graph;
    memcpy(&ask, args, sizeof ask);
    if (ask.vertex - graph->first >= graph->n_local) {
        pgasi_graph_keep_first(&query->status, PGAS_ERR_INTERNAL);
        return;
    }
    const pgasi_name_t *name = &graph->name[ask.vertex - graph->first];
    memcpy(answer, &ask, sizeof ask);
    memcpy(answer + sizeof ask, graph->name_text + name->at, name->bytes);
    pgas_status_t status =
        pgas_call(pgas_thread_rank(source), names.answer, answer, sizeof ask + name->bytes, NULL);
    pgasi_graph_keep_first(&query->status, status);
}

static void handle_answer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    name_message_t answer;
    query_t *query = names.query;
    (void)source, (void)context;
    if (!query || bytes < sizeof answer)
        return;
    memcpy(&answer, args, sizeof answer);
    if (answer.index >= query->n) {
        pgasi_graph_keep_first(&query->status, PGAS_ERR_INTERNAL);
        return;
    }
    query->names[answer.index] = strndup((const char *)args + sizeof answer, bytes - sizeof answer);
}

pgas_status_t pgasi_names_register(void)
{
    pgas_status_t status =
        pgas_handler_register("pgas.graph.ask", handle_ask, NULL, NULL, &names.ask);
    if (status == PGAS_OK)
        status = pgas_handler_register("pgas.graph.name_answer", handle_answer, NULL, NULL,
                                       &names.answer);
    return status;
}

static char *number_text(uint64_t vertex)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, vertex);
    return strdup(text);
}

static pgas_status_t check_query(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                                 char **texts)
{
    if (!graph || (n > 0 && (!vertices || !texts))) {
        pgasi_graph_note("pgas_graph_names: graph, vertices or names is NULL");
        return PGAS_ERR_INVALID;
    }
    for (size_t i = 0; i < n; i++) {
        if (vertices[i] >= graph->n_vertices) {
            pgasi_graph_note("there is no vertex %" PRIu64 ": the graph has %" PRIu64, vertices[i],
                             graph->n_vertices);
            return PGAS_ERR_RANGE;
        }
    }
    return PGAS_OK;
}

/* Asks the owners of the n vertices, or of a graph without names, writes their numbers. */
static pgas_status_t ask_all(query_t *query, const uint64_t *vertices)
{
    const pgas_graph_t *graph = query->graph;
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; status == PGAS_OK && i < query->n; i++) {
        name_message_t ask = { vertices[i], i };
        if (graph->has_names)
            status = pgas_call(pgasi_graph_owner_of(vertices[i], graph->block), names.ask, &ask,
                               sizeof ask, NULL);
        else
            query->names[i] = number_text(vertices[i]);
    }
    pgas_status_t settled = pgas_quiesce();
    for (size_t i = 0; status == PGAS_OK && i < query->n; i++)
        status = query->names[i] ? query->status : PGAS_ERR_NO_MEMORY;
    pgasi_graph_keep_first(&status, settled);
    pgasi_graph_keep_first(&status, query->status);
    return status;
}

pgas_status_t pgas_graph_names(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                               char **texts)
{
    query_t query = { graph, texts, n, PGAS_OK };
    pgas_status_t status = check_query(graph, vertices, n, texts);
    for (size_t i = 0; status == PGAS_OK && i < n; i++)
        texts[i] = NULL;
    names.query = &query;
    status = pgasi_graph_agree(status, NULL); /* from here on every rank can answer */
    if (status != PGAS_OK) {
        names.query = NULL;
        return status;
    }
    status = pgasi_graph_agree(ask_all(&query, vertices), NULL);
    names.query = NULL;
    for (size_t i = 0; status != PGAS_OK && i < n; i++) {
        free(texts[i]);
        texts[i] = NULL;
    }
    return status;
}
