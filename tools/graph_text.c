/* graph_text: values of pgas_graph as lines. All ranks turn their vertices into text at the same
 * time, some thousands in one step, because names of vertices of other ranks need a collective
 * call. */
#include <inttypes.h>
#include <math.h>
#include <pgas/coll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "graph_tool.h"

enum { PIECE = 16384 };

void tool_text_add(tool_text_t *text, const char *format, ...)
{
    for (int turn = 0; turn < 2 && !text->failed; turn++) {
        va_list args;
        size_t left = text->room - text->n;
        va_start(args, format);
        int n = vsnprintf(text->bytes ? text->bytes + text->n : NULL, left, format, args);
        va_end(args);
        if (n >= 0 && (size_t)n < left) {
            text->n += (size_t)n;
            return;
        }
        size_t room = 2 * text->room + (size_t)(n > 0 ? n : 0) + 4096;
        char *bytes = n < 0 ? NULL : realloc(text->bytes, room);
        text->failed = !bytes;
        if (bytes) {
            text->bytes = bytes;
            text->room = room;
        }
    }
}

void tool_text_free(tool_text_t *text)
{
    free(text->bytes);
    *text = (tool_text_t){ NULL, 0, 0, false };
}

/* ---- words of vertices ---- */

/* The words for vertices in the output: names, labels or vertex numbers. */
typedef struct {
    char *names[PIECE];
    uint64_t labels[PIECE];
} words_t;

/* Gets the words of n vertices. Collective. */
static pgas_status_t get_words(const tool_job_t *job, const uint64_t *vertices, size_t n,
                               words_t *words)
{
    if (job->info.has_names)
        return pgas_graph_names(job->graph, vertices, n, words->names);
    if (job->has_labels)
        return pgas_graph_labels(job->graph, vertices, n, words->labels);
    for (size_t i = 0; i < n; i++)
        words->labels[i] = vertices[i];
    return PGAS_OK;
}

static void add_word(const tool_job_t *job, const words_t *words, size_t i, tool_text_t *text)
{
    if (job->info.has_names)
        tool_text_add(text, "%s", words->names[i]);
    else
        tool_text_add(text, "%" PRIu64, words->labels[i]);
}

static void free_words(const tool_job_t *job, size_t n, words_t *words)
{
    for (size_t i = 0; i < n && job->info.has_names; i++)
        free(words->names[i]);
}

/* ---- lines ---- */

static void add_real(tool_text_t *text, double value)
{
    if (isinf(value))
        tool_text_add(text, " infinity\n");
    else
        tool_text_add(text, " %.15e\n", value);
}

/* Sets the vertices that the values name. A vertex without a parent is its own placeholder. */
static void vertices_of(const tool_job_t *job, uint64_t first, size_t n, uint64_t *vertices)
{
    const uint64_t *labels = job->values;
    for (size_t i = 0; i < n; i++) {
        if (tool_values(job->opts) == TOOL_VERTICES)
            vertices[i] = labels[first + i];
        else
            vertices[i] = job->parents[first + i] < 0 ? job->info.first_vertex + first + i
                                                      : (uint64_t)job->parents[first + i];
    }
}

typedef struct {
    words_t own, named; /* of the vertices, and of the vertices that values name */
    uint64_t vertices[PIECE];
} piece_t;

static void add_lines(const tool_job_t *job, uint64_t first, size_t n, const piece_t *piece,
                      tool_text_t *text)
{
    for (size_t i = 0; i < n; i++) {
        add_word(job, &piece->own, i, text);
        switch (tool_values(job->opts)) {
        case TOOL_LEVELS:
            tool_text_add(text, " %" PRId64 "\n", ((const int64_t *)job->values)[first + i]);
            break;
        case TOOL_REALS:
            add_real(text, ((const double *)job->values)[first + i]);
            break;
        default:
            tool_text_add(text, " ");
            if (tool_values(job->opts) == TOOL_PARENTS && job->parents[first + i] < 0)
                tool_text_add(text, "-1");
            else
                add_word(job, &piece->named, i, text);
            tool_text_add(text, "\n");
        }
    }
}

/* Appends the lines of n vertices. Collective; n may be 0. */
static pgas_status_t add_piece(const tool_job_t *job, uint64_t first, size_t n, piece_t *piece,
                               tool_text_t *text)
{
    bool names_vertices =
        tool_values(job->opts) == TOOL_VERTICES || tool_values(job->opts) == TOOL_PARENTS;
    for (size_t i = 0; i < n; i++)
        piece->vertices[i] = job->info.first_vertex + first + i;
    pgas_status_t status = get_words(job, piece->vertices, n, &piece->own);
    if (status != PGAS_OK)
        return status;
    if (names_vertices) {
        vertices_of(job, first, n, piece->vertices);
        status = get_words(job, piece->vertices, n, &piece->named);
    }
    if (status == PGAS_OK)
        add_lines(job, first, n, piece, text);
    free_words(job, n, &piece->own);
    if (status == PGAS_OK && names_vertices)
        free_words(job, n, &piece->named);
    return status;
}

pgas_status_t tool_values_text(const tool_job_t *job, tool_text_t *text)
{
    uint64_t n = job->info.n_local, n_most = 0;
    piece_t *piece = malloc(sizeof *piece);
    int32_t good = piece != NULL;
    pgas_status_t status = pgas_allreduce(NULL, &n, &n_most, 1, PGAS_U64, PGAS_MAX);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK && !good)
        status = PGAS_ERR_NO_MEMORY;
    for (uint64_t first = 0; first < n_most && status == PGAS_OK; first += PIECE) {
        uint64_t left = first < n ? n - first : 0;
        status = add_piece(job, first, left < PIECE ? left : PIECE, piece, text);
    }
    free(piece);
    good = !text->failed;
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &good, &good, 1, PGAS_I32, PGAS_MIN);
    return status == PGAS_OK && !good ? PGAS_ERR_NO_MEMORY : status;
}
