/* The graph object: queries, names of vertices anywhere, agreement among ranks. */
#include "graph/graph.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* ---- what all files of this folder use ---- */

pgas_status_t pgasi_graph_start(void)
{
    static pgas_status_t (*const all[])(void) = { pgasi_build_register,  pgasi_number_register,
                                                  pgasi_source_register, pgasi_names_register,
                                                  pgasi_plan_register,   pgasi_sweep_register,
                                                  pgasi_check_register };
    pgas_status_t status = pgas_initialized() ? PGAS_OK : PGAS_ERR_NOT_INIT;
    if (status != PGAS_OK)
        return status;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(all) && status == PGAS_OK; i++)
        status = all[i]();
    pgas_status_t agreed = pgas_handlers_agree();
    return status != PGAS_OK ? status : agreed;
}

static char note_text[256];
static int noted;

void pgasi_graph_note(const char *format, ...)
{
    if (__atomic_exchange_n(&noted, 1, __ATOMIC_ACQ_REL) == 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(note_text, sizeof note_text, format, arguments);
        va_end(arguments);
    }
}

/* rank and status in one word, so that the lowest rank wins in one allreduce */
pgas_status_t pgasi_graph_agree(pgas_status_t mine, int *rank_p)
{
    uint64_t key =
        mine == PGAS_OK ? UINT64_MAX : (uint64_t)pgas_rank() << 8 | (uint64_t)(uint8_t)-mine;
    pgas_status_t status = pgas_allreduce(NULL, &key, &key, 1, PGAS_UINT64, PGAS_MIN);
    bool failed = status == PGAS_OK && key != UINT64_MAX;
    int rank = failed ? (int)(key >> 8) : -1;
    if (rank_p)
        *rank_p = rank;
    else if (rank == pgas_rank() && mine != PGAS_ERR_PEER) /* which the library has told */
        PGASI_ERROR("graph", "%s", noted ? note_text : pgas_status_text(mine));
    __atomic_store_n(&noted, 0, __ATOMIC_RELEASE);
    return failed ? (pgas_status_t) - (int)(key & 0xff) : status;
}

pgas_status_t pgasi_graph_settle(pgas_status_t mine)
{
    pgas_status_t status = pgas_quiesce();
    return status != PGAS_OK ? status : pgasi_graph_agree(mine, NULL);
}

uint64_t pgasi_graph_memory(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) /
           (uint64_t)pgas_node_size();
}

static void note_no_memory(uint64_t n_elems, size_t elem_bytes)
{
    pgasi_graph_note("no memory for %.0f MiB on a rank: use more nodes, or a smaller graph",
                     (double)n_elems * (double)elem_bytes / (1 << 20));
}

void *pgasi_graph_array(uint64_t n_elems, size_t elem_bytes)
{
    void *array = n_elems < SIZE_MAX / 2 / elem_bytes ? malloc(n_elems * elem_bytes + 1) : NULL;
    if (!array)
        note_no_memory(n_elems, elem_bytes);
    return array;
}

void *pgasi_graph_zeroed(uint64_t n_elems, size_t elem_bytes)
{
    void *array = n_elems < SIZE_MAX / 2 / elem_bytes ? calloc(n_elems + 1, elem_bytes) : NULL;
    if (!array)
        note_no_memory(n_elems, elem_bytes);
    return array;
}

void pgasi_graph_log_error(const char *path, const pgasi_graph_error_t *error,
                           uint64_t lines_before)
{
    const char *label = strcmp(path, "-") == 0 ? "standard input" : path;
    if (error->line > 0)
        PGASI_ERROR("graph", "%s:%" PRIu64 ": %s", label, lines_before + error->line, error->text);
    else
        PGASI_ERROR("graph", "%s: %s", label, error->text);
}

/* ---- local queries ---- */

pgas_status_t pgas_graph_info(const pgas_graph_t *graph, pgas_graph_info_t *info_p)
{
    if (!graph || !info_p)
        return PGAS_ERR_INVALID;
    *info_p = (pgas_graph_info_t){
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
    return PGAS_OK;
}

int pgas_graph_owner(const pgas_graph_t *graph, uint64_t vertex)
{
    return graph && vertex < graph->n_vertices ? pgasi_graph_owner_of(vertex, graph->block) : -1;
}

void pgas_graph_destroy(pgas_graph_t *graph)
{
    if (graph) {
        free(graph->offsets);
        free(graph->targets);
        free(graph->name);
        free(graph->name_text);
        free(graph);
    }
}

/* ---- names of vertices anywhere: a call asks the owner, its handler calls back ---- */

typedef struct {
    const pgas_graph_t *graph;
    char **names;
    size_t n;
    pgas_status_t status;
} asking_t;

typedef struct {
    uint64_t vertex; /* in the answer: not used */
    uint64_t index;  /* in the asker's array */
    char text[];     /* of the answer */
} ask_t;

static asking_t *asking;
static pgas_handler_t ask_handler, tell_handler;

static void note_error(pgas_status_t *status_p, pgas_status_t status)
{
    if (*status_p == PGAS_OK)
        *status_p = status;
}

static void handle_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    ask_t ask;
    char answer[sizeof(ask_t) + PGASI_READER_NAME_MAX];
    const pgas_graph_t *graph = asking != NULL ? asking->graph : NULL;
    (void)context;
    if (!graph || bytes != sizeof ask)
        return;
    memcpy(&ask, args, sizeof ask);
    if (ask.vertex - graph->first >= graph->n_local) {
        note_error(&asking->status, PGAS_ERR_INTERNAL);
        return;
    }
    const pgasi_name_t *name = &graph->name[ask.vertex - graph->first];
    memcpy(answer, &ask, sizeof ask);
    memcpy(answer + sizeof ask, graph->name_text + name->at, name->bytes);
    pgas_status_t status =
        pgas_call(pgas_thread_rank(source), tell_handler, answer, sizeof ask + name->bytes, NULL);
    if (status != PGAS_OK)
        note_error(&asking->status, status);
}

static void handle_tell(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    ask_t ask;
    (void)source, (void)context;
    if (!asking || bytes < sizeof ask)
        return;
    memcpy(&ask, args, sizeof ask);
    if (ask.index >= asking->n) {
        note_error(&asking->status, PGAS_ERR_INTERNAL);
        return;
    }
    asking->names[ask.index] = strndup((const char *)args + sizeof ask, bytes - sizeof ask);
}

pgas_status_t pgasi_names_register(void)
{
    pgas_status_t status = pgas_handler_register("pgas.graph.ask", handle_ask, NULL, &ask_handler);
    return status != PGAS_OK
               ? status
               : pgas_handler_register("pgas.graph.tell", handle_tell, NULL, &tell_handler);
}

static char *number_text(uint64_t vertex)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, vertex);
    return strdup(text);
}

static pgas_status_t check_asking(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                                  char **names)
{
    if (!graph || (n > 0 && (!vertices || !names))) {
        pgasi_graph_note("pgas_graph_names: no graph, no vertices, or no place for names");
        return PGAS_ERR_INVALID;
    }
    for (size_t i = 0; i < n; i++) {
        if (vertices[i] >= graph->n_vertices) {
            pgasi_graph_note("there is no vertex %" PRIu64 ", the graph has %" PRIu64, vertices[i],
                             graph->n_vertices);
            return PGAS_ERR_RANGE;
        }
    }
    return PGAS_OK;
}

pgas_status_t pgas_graph_names(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                               char **names)
{
    asking_t mine = { graph, names, n, PGAS_OK };
    pgas_status_t status = check_asking(graph, vertices, n, names);
    for (size_t i = 0; status == PGAS_OK && i < n; i++)
        names[i] = NULL;
    asking = &mine;
    status = pgasi_graph_agree(status, NULL); /* from here on every rank is ready to answer */
    if (status != PGAS_OK) {
        asking = NULL;
        return status;
    }
    for (size_t i = 0; status == PGAS_OK && i < n; i++) {
        ask_t ask = { vertices[i], i };
        if (graph->has_names) {
            status = pgas_call(pgasi_graph_owner_of(vertices[i], graph->block), ask_handler, &ask,
                               sizeof ask, NULL);
        } else {
            names[i] = number_text(vertices[i]);
        }
    }
    pgas_status_t settled = pgas_quiesce();
    for (size_t i = 0; status == PGAS_OK && i < n; i++)
        status = names[i] != NULL ? mine.status : PGAS_ERR_NO_MEMORY;
    note_error(&status, settled);
    note_error(&status, mine.status);
    status = pgasi_graph_agree(status, NULL);
    asking = NULL;
    for (size_t i = 0; status != PGAS_OK && i < n; i++) {
        free(names[i]);
        names[i] = NULL;
    }
    return status;
}
