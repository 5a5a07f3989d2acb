/* Vertex numbers for names. No rank knows all names.
 *
 * The home of a name is the rank hash % n_ranks. There are four phases of aggregated calls, with a
 * quiesce after each:
 *   announce  Each rank sends the names that it has read to their homes.
 *   first     The home informs the rank that was the first to read the name. Each rank counts its
 *             first names in the order in which it read them. An exclusive scan over rounds and
 *             ranks turns the counts into vertex numbers.
 *   number    The first rank sends the vertex number to the home.
 *   answer    The home sends it to the other ranks that announced the name.
 * A name costs at most four small calls for each rank that has read it. The numbers are those of a
 * serial reading, for any number of ranks. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>
#include "base/bitmap.h"
#include "base/checks.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* At home: a rank that announced a name. */
typedef struct {
    uint32_t entry; /* of the name */
    uint32_t rank;
    uint32_t local; /* the number of the name at that rank */
} reader_t;

/* At home: a name. */
typedef struct {
    uint64_t piece; /* round * n_ranks + rank that read it first */
    uint64_t id;
    uint32_t local; /* the number of the name at that rank */
} entry_t;

typedef struct {
    uint64_t piece;
    uint32_t local;
    uint32_t unused;
    char text[];
} announce_t;

typedef struct {
    uint32_t local, entry;
} first_t;

/* number, answer */
typedef struct {
    uint64_t id;
    uint64_t index; /* the entry at home, or the number of the name at the rank that announced it */
} number_t;

typedef struct {
    pgasi_numbering_t *out;
    uint32_t *entry_of;  /* [names read here] the entry at home; valid if read here first */
    pgasi_names_t names; /* whose home is here */
    entry_t *entry;
    uint64_t entry_room;
    reader_t *reader;
    uint64_t n_readers, reader_room;
    pgas_status_t status; /* of the handlers */
} numbering_t;

static struct {
    numbering_t *numbering; /* of pgasi_graph_number */
    pgas_graph_t *graph;    /* of pgasi_graph_spread_names, with its status */
    pgas_status_t status;
    pgas_handler_t announce, first, number, answer, name;
} now;

/* ---- handlers ---- */

static pgas_status_t store_reader(numbering_t *n, const announce_t *announce, const char *text,
                                  size_t bytes, int rank)
{
    uint32_t at;
    uint32_t n_before = n->names.n_names;
    pgas_status_t status =
        pgasi_names_add(&n->names, text, bytes, pgasi_names_hash(text, bytes), &at);
    if (status != PGAS_OK)
        return status;
    void *entry = pgasi_grow(n->entry, &n->entry_room, (uint64_t)at + 1, sizeof *n->entry);
    n->entry = entry ? entry : n->entry;
    void *reader = pgasi_grow(n->reader, &n->reader_room, n->n_readers + 1, sizeof *n->reader);
    n->reader = reader ? reader : n->reader;
    if (!entry || !reader)
        return PGAS_ERR_NO_MEMORY;
    if (at == n_before || announce->piece < n->entry[at].piece)
        n->entry[at] = (entry_t){ announce->piece, 0, announce->local };
    n->reader[n->n_readers++] = (reader_t){ at, (uint32_t)rank, announce->local };
    return PGAS_OK;
}

static void handle_announce(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    announce_t announce;
    numbering_t *n = now.numbering;
    (void)context;
    if (n && bytes >= sizeof announce && n->status == PGAS_OK) {
        memcpy(&announce, args, sizeof announce);
        n->status = store_reader(n, &announce, (const char *)args + sizeof announce,
                                 bytes - sizeof announce, pgas_thread_rank(source));
    }
}

static void handle_first(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    first_t first;
    numbering_t *n = now.numbering;
    (void)source, (void)context;
    if (!n || bytes != sizeof first)
        return;
    memcpy(&first, args, sizeof first);
    if (first.local >= n->out->names->n_names) {
        pgasi_graph_keep_first(&n->status, PGAS_ERR_INTERNAL);
        return;
    }
    n->entry_of[first.local] = first.entry;
    pgasi_bitmap_set(n->out->first, first.local);
}

static void handle_number(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    number_t number;
    numbering_t *n = now.numbering;
    (void)source, (void)context;
    if (!n || bytes != sizeof number)
        return;
    memcpy(&number, args, sizeof number);
    if (number.index >= n->names.n_names)
        pgasi_graph_keep_first(&n->status, PGAS_ERR_INTERNAL);
    else
        n->entry[number.index].id = number.id;
}

static void handle_answer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    number_t number;
    numbering_t *n = now.numbering;
    (void)source, (void)context;
    if (!n || bytes != sizeof number)
        return;
    memcpy(&number, args, sizeof number);
    if (number.index >= n->out->names->n_names)
        pgasi_graph_keep_first(&n->status, PGAS_ERR_INTERNAL);
    else
        n->out->ids[number.index] = number.id;
}

static void handle_name(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t vertex;
    pgas_graph_t *graph = now.graph;
    (void)source, (void)context;
    if (!graph || bytes < sizeof vertex)
        return;
    memcpy(&vertex, args, sizeof vertex);
    bytes -= sizeof vertex;
    void *text =
        pgasi_grow(graph->name_text, &graph->name_text_room, graph->name_text_bytes + bytes + 1, 1);
    if (vertex - graph->first >= graph->n_local || !text) {
        pgasi_graph_keep_first(&now.status, !text ? PGAS_ERR_NO_MEMORY : PGAS_ERR_INTERNAL);
        return;
    }
    graph->name_text = text;
    graph->name[vertex - graph->first] =
        (pgasi_name_t){ graph->name_text_bytes, (uint32_t)bytes, 0 };
    memcpy(graph->name_text + graph->name_text_bytes, (const char *)args + sizeof vertex, bytes);
    graph->name_text_bytes += bytes;
}

pgas_status_t pgasi_number_register(void)
{
    static const struct {
        const char *name;
        pgas_handler_fn_t fn;
        pgas_handler_t *handler_p;
    } all[] = { { "pgas.graph.announce", handle_announce, &now.announce },
                { "pgas.graph.first", handle_first, &now.first },
                { "pgas.graph.number", handle_number, &now.number },
                { "pgas.graph.answer", handle_answer, &now.answer },
                { "pgas.graph.name", handle_name, &now.name } };
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(all) && status == PGAS_OK; i++)
        status = pgas_handler_register(all[i].name, all[i].fn, NULL, NULL, all[i].handler_p);
    return status;
}

/* ---- phases ---- */

static int home_of(const char *text, size_t bytes)
{
    return (int)(pgasi_names_hash(text, bytes) % (uint64_t)pgas_n_ranks());
}

static pgas_status_t announce_all(const numbering_t *n, pgas_agg_t *agg)
{
    const pgasi_numbering_t *out = n->out;
    char message[sizeof(announce_t) + PGASI_READER_NAME_MAX];
    uint64_t round = 0, n_ranks = (uint64_t)pgas_n_ranks(), rank = (uint64_t)pgas_rank();
    pgas_status_t status = PGAS_OK;
    for (uint32_t i = 0; status == PGAS_OK && i < out->names->n_names; i++) {
        size_t bytes;
        const char *text = pgasi_names_text(out->names, i, &bytes);
        while (round + 1 < out->n_rounds && out->round_begin[round + 1] <= i)
            round++;
        announce_t announce = { round * n_ranks + rank, i, 0 };
        memcpy(message, &announce, sizeof announce);
        memcpy(message + sizeof announce, text, bytes);
        status = pgasi_graph_call(agg, home_of(text, bytes), now.announce, message,
                                  sizeof announce + bytes);
    }
    return status;
}

static pgas_status_t first_all(const numbering_t *n, pgas_agg_t *agg)
{
    uint64_t n_ranks = (uint64_t)pgas_n_ranks();
    pgas_status_t status = PGAS_OK;
    for (uint32_t i = 0; status == PGAS_OK && i < n->names.n_names; i++) {
        first_t first = { n->entry[i].local, i };
        status = pgasi_graph_call(agg, (int)(n->entry[i].piece % n_ranks), now.first, &first,
                                  sizeof first);
    }
    return status;
}

static uint32_t round_end(const pgasi_numbering_t *out, uint64_t round)
{
    return round + 1 < out->n_rounds ? out->round_begin[round + 1] : out->names->n_names;
}

/* Vertex numbers of the names that this rank read first. Collective. count and before are scratch
 * memory of n_rounds words. */
static pgas_status_t count_first(pgasi_numbering_t *out, uint64_t *count, uint64_t *before)
{
    uint64_t base = 0;
    for (uint64_t k = 0; k < out->n_rounds; k++) {
        count[k] = 0;
        for (uint32_t i = out->round_begin[k]; i < round_end(out, k); i++)
            count[k] += pgasi_bitmap_test(out->first, i);
    }
    pgas_status_t status = pgas_exscan(NULL, count, before, out->n_rounds, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, count, count, out->n_rounds, PGAS_U64, PGAS_ADD);
    for (uint64_t k = 0; status == PGAS_OK && k < out->n_rounds; k++) {
        uint64_t id = base + before[k];
        for (uint32_t i = out->round_begin[k]; i < round_end(out, k); i++) {
            out->ids[i] = id;
            id += pgasi_bitmap_test(out->first, i);
        }
        base += count[k];
    }
    out->n_vertices = base;
    return status;
}

static pgas_status_t number_first(pgasi_numbering_t *out)
{
    uint64_t *scratch = pgasi_graph_array(2 * out->n_rounds, sizeof(uint64_t));
    pgas_status_t status = pgasi_graph_agree(scratch ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = count_first(out, scratch, scratch + out->n_rounds);
    free(scratch);
    return status;
}

static pgas_status_t number_all(const numbering_t *n, pgas_agg_t *agg)
{
    const pgasi_numbering_t *out = n->out;
    pgas_status_t status = PGAS_OK;
    for (uint32_t i = 0; status == PGAS_OK && i < out->names->n_names; i++) {
        if (pgasi_bitmap_test(out->first, i)) {
            size_t bytes;
            const char *text = pgasi_names_text(out->names, i, &bytes);
            number_t number = { out->ids[i], n->entry_of[i] };
            status =
                pgasi_graph_call(agg, home_of(text, bytes), now.number, &number, sizeof number);
        }
    }
    return status;
}

static pgas_status_t answer_all(const numbering_t *n, pgas_agg_t *agg)
{
    uint64_t n_ranks = (uint64_t)pgas_n_ranks();
    pgas_status_t status = PGAS_OK;
    for (uint64_t i = 0; status == PGAS_OK && i < n->n_readers; i++) {
        const reader_t *reader = &n->reader[i];
        const entry_t *entry = &n->entry[reader->entry];
        if (entry->piece % n_ranks != reader->rank) { /* the first rank knows its number */
            number_t number = { entry->id, reader->local };
            status = pgasi_graph_call(agg, (int)reader->rank, now.answer, &number, sizeof number);
        }
    }
    return status;
}

static pgas_status_t run_phases(numbering_t *n, pgas_agg_t *agg)
{
    static pgas_status_t (*const phases[])(const numbering_t *,
                                           pgas_agg_t *) = { announce_all, first_all, number_all,
                                                             answer_all };
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(phases) && status == PGAS_OK; i++) {
        status = phases[i](n, agg);
        pgas_status_t quiet = pgas_quiesce();
        pgasi_graph_keep_first(&status, n->status);
        status = quiet != PGAS_OK ? quiet : pgasi_graph_agree(status, NULL);
        if (status == PGAS_OK && phases[i] == first_all)
            status = number_first(n->out);
    }
    return status;
}

pgas_status_t pgasi_graph_number(pgasi_numbering_t *out)
{
    numbering_t n = { .out = out };
    pgas_agg_t *agg = NULL;
    uint32_t n_names = out->names->n_names;
    out->ids = pgasi_graph_array(n_names, sizeof(uint64_t));
    out->first = pgasi_graph_zeroed(pgasi_bitmap_words(n_names), sizeof(uint64_t));
    n.entry_of = pgasi_graph_array(n_names, sizeof(uint32_t));
    pgasi_names_init(&n.names);
    pgas_status_t mine = out->ids && out->first && n.entry_of ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (mine == PGAS_OK)
        mine = pgas_agg_create(NULL, &agg);
    now.numbering = &n;
    pgas_status_t status =
        pgasi_graph_agree(mine, NULL); /* from here on every rank can take calls */
    if (status == PGAS_OK)
        status = run_phases(&n, agg);
    now.numbering = NULL;
    pgas_status_t destroyed = pgas_agg_destroy(agg);
    pgasi_names_fini(&n.names);
    free(n.entry);
    free(n.reader);
    free(n.entry_of);
    return status != PGAS_OK ? status : destroyed;
}

static pgas_status_t send_names(const pgas_graph_t *graph, const pgasi_numbering_t *numbering)
{
    char message[sizeof(uint64_t) + PGASI_READER_NAME_MAX];
    pgas_agg_t *agg = NULL;
    pgas_status_t status = pgas_agg_create(NULL, &agg);
    for (uint32_t i = 0; status == PGAS_OK && i < numbering->names->n_names; i++) {
        size_t bytes;
        const char *text = pgasi_names_text(numbering->names, i, &bytes);
        if (pgasi_bitmap_test(numbering->first, i)) {
            memcpy(message, &numbering->ids[i], sizeof(uint64_t));
            memcpy(message + sizeof(uint64_t), text, bytes);
            status = pgasi_graph_call(agg, pgasi_graph_owner(graph, numbering->ids[i]), now.name,
                                      message, sizeof(uint64_t) + bytes);
        }
    }
    pgas_status_t destroyed = pgas_agg_destroy(agg);
    return status != PGAS_OK ? status : destroyed;
}

pgas_status_t pgasi_graph_spread_names(pgas_graph_t *graph, const pgasi_numbering_t *numbering)
{
    graph->name = pgasi_graph_zeroed(graph->n_local, sizeof *graph->name);
    now.status = PGAS_OK;
    now.graph = graph;
    pgas_status_t status = pgasi_graph_agree(graph->name ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK) {
        status = send_names(graph, numbering);
        pgas_status_t quiet = pgas_quiesce();
        pgasi_graph_keep_first(&status, now.status);
        status = quiet != PGAS_OK ? quiet : pgasi_graph_agree(status, NULL);
    }
    now.graph = NULL;
    graph->has_names = status == PGAS_OK;
    return status;
}
