/* Names and labels of vertices of any rank, and vertices by their names. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "graph/graph.h"
#include "graph/labels.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

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
    query_t *query; /* the current call */
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

static pgas_status_t check_query(const char *function, const pgas_graph_t *graph,
                                 const uint64_t *vertices, size_t n, const void *results)
{
    if (!graph || (n > 0 && (!vertices || !results))) {
        pgasi_graph_note("%s: graph, vertices or the array of results is NULL", function);
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

/* Asks the owners of the n vertices. */
static pgas_status_t ask_all(query_t *query, const uint64_t *vertices)
{
    const pgas_graph_t *graph = query->graph;
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; status == PGAS_OK && i < query->n; i++) {
        name_message_t ask = { vertices[i], i };
        status =
            pgas_call(pgasi_graph_owner(graph, vertices[i]), names.ask, &ask, sizeof ask, NULL);
    }
    pgas_status_t settled = pgas_quiesce();
    for (size_t i = 0; status == PGAS_OK && i < query->n; i++)
        status = query->names[i] ? query->status : PGAS_ERR_NO_MEMORY;
    pgasi_graph_keep_first(&status, settled);
    pgasi_graph_keep_first(&status, query->status);
    return status;
}

/* Labels as text. Collective. */
static pgas_status_t write_labels(query_t *query, const uint64_t *vertices)
{
    uint64_t *labels = pgasi_graph_array(query->n, sizeof *labels);
    pgas_status_t status = pgasi_graph_agree(labels ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = pgasi_graph_ask_labels(query->graph, vertices, query->n, labels);
    for (size_t i = 0; status == PGAS_OK && i < query->n; i++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRIu64, labels[i]);
        query->names[i] = strdup(text);
        status = query->names[i] ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    }
    free(labels);
    return status;
}

pgas_status_t pgas_graph_names(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                               char **texts)
{
    query_t query = { graph, texts, n, PGAS_OK };
    pgas_status_t status = check_query("pgas_graph_names", graph, vertices, n, texts);
    for (size_t i = 0; status == PGAS_OK && i < n; i++)
        texts[i] = NULL;
    names.query = &query;
    status = pgasi_graph_agree(status, NULL); /* from here on every rank can answer */
    if (status != PGAS_OK) {
        names.query = NULL;
        return status;
    }
    status = graph->has_names ? ask_all(&query, vertices) : write_labels(&query, vertices);
    status = pgasi_graph_agree(status, NULL);
    names.query = NULL;
    for (size_t i = 0; status != PGAS_OK && i < n; i++) {
        free(texts[i]);
        texts[i] = NULL;
    }
    return status;
}

/* ---- labels of vertices of any rank: exchanges of lists ---- */

pgas_status_t pgas_graph_labels(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                                uint64_t *labels)
{
    pgas_status_t status = check_query("pgas_graph_labels", graph, vertices, n, labels);
    status = pgasi_graph_agree(status, NULL);
    return status == PGAS_OK ? pgasi_graph_ask_labels(graph, vertices, n, labels) : status;
}

/* ---- a vertex by its name ---- */

/* The number that a text is, or UINT64_MAX. */
static uint64_t number_of(const char *text, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9' || value > (UINT64_MAX >> 1) / 10)
            return UINT64_MAX;
        value = value * 10 + (uint64_t)(text[i] - '0');
    }
    return bytes > 0 ? value : UINT64_MAX;
}

static uint64_t find_label(const pgas_graph_t *graph, uint64_t label)
{
    uint64_t low = 0, high = graph->n_local;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (graph->labels[middle] < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low < graph->n_local && graph->labels[low] == label ? graph->first + low : UINT64_MAX;
}

static uint64_t find_own(const pgas_graph_t *graph, const char *text, size_t bytes)
{
    if (graph->has_names) {
        for (uint32_t i = 0; i < graph->n_local; i++)
            if (graph->name[i].bytes == bytes &&
                memcmp(graph->name_text + graph->name[i].at, text, bytes) == 0)
                return graph->first + i;
        return UINT64_MAX;
    }
    uint64_t number = number_of(text, bytes);
    if (graph->labels)
        return number != UINT64_MAX ? find_label(graph, number) : UINT64_MAX;
    return number < graph->n_vertices ? number : UINT64_MAX;
}

pgas_status_t pgas_graph_find(const pgas_graph_t *graph, const char *name, uint64_t *vertex_p)
{
    char text[PGASI_READER_NAME_MAX + 1] = "";
    uint64_t vertex;
    bool is_root = pgas_rank() == 0;
    if (!graph || !vertex_p || (is_root && !name))
        pgasi_graph_note("pgas_graph_find: graph, name or vertex_p is NULL");
    pgas_status_t status = graph && vertex_p && (!is_root || name) ? PGAS_OK : PGAS_ERR_INVALID;
    status = pgasi_graph_agree(status, NULL);
    if (status != PGAS_OK)
        return status;
    /* no vertex has a name that is too long, and none has the empty name, which stays in text */
    if (is_root && strlen(name) <= PGASI_READER_NAME_MAX)
        strcpy(text, name);
    status = pgas_broadcast(NULL, text, sizeof text, 0);
    if (status != PGAS_OK)
        return status;
    vertex = find_own(graph, text, strlen(text));
    status = pgas_allreduce(NULL, &vertex, &vertex, 1, PGAS_U64, PGAS_MIN);
    if (status == PGAS_OK && vertex == UINT64_MAX)
        return PGAS_ERR_NOT_FOUND;
    if (status == PGAS_OK)
        *vertex_p = vertex;
    return status;
}
