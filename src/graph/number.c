/* From names to numbers, without any rank knowing all names.
 *
 * A name's home is the rank hash % n_ranks. Four phases of aggregated calls, a quiesce between
 * them: each rank shows the names it met to their homes (meet); a home tells the rank that met the
 * name first of all (elect); that rank counts its elected names in the order in which it met them,
 * an exclusive scan over rounds and ranks makes that vertex numbers, and it tells the home
 * (number); the home tells everyone who asked (answer). A name costs four small calls per rank that
 * met it at most. The numbers are those of a serial reading, whatever the number of ranks. */
#include "graph/graph.h"

#include <stdlib.h>
#include <string.h>
#include "base/bitmap.h"
#include "base/checks.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* a rank that met a name, and the name's number there */
typedef struct {
    uint32_t entry; /* at home */
    uint32_t rank;
    uint32_t local;
} meeting_t;

/* a name at home */
typedef struct {
    uint64_t piece; /* round * n_ranks + rank of the first meeting */
    uint64_t id;
    uint32_t local; /* the name's number at the rank that met it first */
} entry_t;

typedef struct {
    uint64_t piece;
    uint32_t local;
    uint32_t unused;
    char text[];
} meet_t;

typedef struct {
    uint32_t local, entry;
} elect_t;

typedef struct {
    uint64_t id;
    uint64_t where; /* entry at home, or number at the rank that met it */
} number_t;

typedef struct {
    pgasi_numbering_t *out;
    uint32_t *entry_of;  /* per own name: its entry at home, valid if elected */
    pgasi_names_t names; /* at home here */
    entry_t *entry;
    uint64_t entry_room;
    meeting_t *meeting;
    uint64_t n_meetings, meeting_room;
    pgas_status_t status; /* of the handlers */
} numbering_t;

static numbering_t *current;
static pgas_graph_t *naming;
static pgas_status_t naming_status;
static pgas_handler_t meet_handler, elect_handler, number_handler, answer_handler, name_handler;

/* ---- handlers ---- */

static pgas_status_t store_meeting(numbering_t *n, const meet_t *meet, const char *text,
                                   size_t bytes, int rank)
{
    uint32_t at;
    uint32_t n_before = n->names.n_names;
    pgas_status_t status =
        pgasi_names_add(&n->names, text, bytes, pgasi_names_hash(text, bytes), &at);
    if (status != PGAS_OK)
        return status;
    void *entry = pgasi_grow(n->entry, &n->entry_room, (uint64_t)at + 1, sizeof *n->entry);
    n->entry = entry != NULL ? (entry_t *)entry : n->entry;
    void *meeting = pgasi_grow(n->meeting, &n->meeting_room, n->n_meetings + 1, sizeof *n->meeting);
    n->meeting = meeting != NULL ? (meeting_t *)meeting : n->meeting;
    if (!entry || !meeting)
        return PGAS_ERR_NO_MEMORY;
    if (at == n_before || meet->piece < n->entry[at].piece)
        n->entry[at] = (entry_t){ meet->piece, 0, meet->local };
    n->meeting[n->n_meetings++] = (meeting_t){ at, (uint32_t)rank, meet->local };
    return PGAS_OK;
}

static void note(pgas_status_t *status_p, pgas_status_t status)
{
    if (*status_p == PGAS_OK)
        *status_p = status;
}

static void handle_meet(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    meet_t meet;
    (void)context;
    if (current && bytes >= sizeof meet && current->status == PGAS_OK) {
        memcpy(&meet, args, sizeof meet);
        current->status = store_meeting(current, &meet, (const char *)args + sizeof meet,
                                        bytes - sizeof meet, pgas_thread_rank(source));
    }
}

static void handle_elect(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    elect_t elect;
    (void)source, (void)context;
    if (current && bytes == sizeof elect) {
        memcpy(&elect, args, sizeof elect);
        if (elect.local >= current->out->names->n_names) {
            note(&current->status, PGAS_ERR_INTERNAL);
            return;
        }
        current->entry_of[elect.local] = elect.entry;
        pgasi_bitmap_set(current->out->first, elect.local);
    }
}

static void handle_number(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    number_t number;
    (void)source, (void)context;
    if (current && bytes == sizeof number) {
        memcpy(&number, args, sizeof number);
        if (number.where >= current->names.n_names) {
            note(&current->status, PGAS_ERR_INTERNAL);
            return;
        }
        current->entry[number.where].id = number.id;
    }
}

static void handle_answer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    number_t number;
    (void)source, (void)context;
    if (current && bytes == sizeof number) {
        memcpy(&number, args, sizeof number);
        if (number.where >= current->out->names->n_names) {
            note(&current->status, PGAS_ERR_INTERNAL);
            return;
        }
        current->out->ids[number.where] = number.id;
    }
}

static void handle_name(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t vertex;
    pgas_graph_t *graph = naming;
    (void)source, (void)context;
    if (!graph || bytes < sizeof vertex)
        return;
    memcpy(&vertex, args, sizeof vertex);
    bytes -= sizeof vertex;
    void *text =
        pgasi_grow(graph->name_text, &graph->name_text_room, graph->name_text_bytes + bytes + 1, 1);
    if (vertex - graph->first >= graph->n_local || !text) {
        note(&naming_status, !text ? PGAS_ERR_NO_MEMORY : PGAS_ERR_INTERNAL);
        return;
    }
    graph->name_text = (char *)text;
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
    } all[] = { { "pgas.graph.meet", handle_meet, &meet_handler },
                { "pgas.graph.elect", handle_elect, &elect_handler },
                { "pgas.graph.number", handle_number, &number_handler },
                { "pgas.graph.answer", handle_answer, &answer_handler },
                { "pgas.graph.name", handle_name, &name_handler } };
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(all) && status == PGAS_OK; i++)
        status = pgas_handler_register(all[i].name, all[i].fn, NULL, all[i].handler_p);
    return status;
}

/* ---- phases ---- */

static int home_of(const char *text, size_t bytes)
{
    return (int)(pgasi_names_hash(text, bytes) % (uint64_t)pgas_n_ranks());
}

static pgas_status_t meet_all(const numbering_t *n, pgas_agg_t *agg)
{
    const pgasi_numbering_t *out = n->out;
    char message[sizeof(meet_t) + PGASI_READER_NAME_MAX];
    uint64_t round = 0, n_ranks = (uint64_t)pgas_n_ranks(), rank = (uint64_t)pgas_rank();
    pgas_status_t status = PGAS_OK;
    for (uint32_t i = 0; status == PGAS_OK && i < out->names->n_names; i++) {
        size_t bytes;
        const char *text = pgasi_names_text(out->names, i, &bytes);
        while (round + 1 < out->n_rounds && out->round_begin[round + 1] <= i)
            round++;
        meet_t meet = { round * n_ranks + rank, i, 0 };
        memcpy(message, &meet, sizeof meet);
        memcpy(message + sizeof meet, text, bytes);
        status =
            pgasi_graph_call(agg, home_of(text, bytes), meet_handler, message, sizeof meet + bytes);
    }
    return status;
}

static pgas_status_t elect_all(const numbering_t *n, pgas_agg_t *agg)
{
    uint64_t n_ranks = (uint64_t)pgas_n_ranks();
    pgas_status_t status = PGAS_OK;
    for (uint32_t i = 0; status == PGAS_OK && i < n->names.n_names; i++) {
        elect_t elect = { n->entry[i].local, i };
        status = pgasi_graph_call(agg, (int)(n->entry[i].piece % n_ranks), elect_handler, &elect,
                                  sizeof elect);
    }
    return status;
}

static uint32_t round_end(const pgasi_numbering_t *out, uint64_t round)
{
    return round + 1 < out->n_rounds ? out->round_begin[round + 1] : out->names->n_names;
}

/* vertex numbers of the names elected here; collective. begin: n_rounds words of scratch, twice */
static pgas_status_t count_elected(pgasi_numbering_t *out, uint64_t *count, uint64_t *before)
{
    uint64_t base = 0;
    for (uint64_t k = 0; k < out->n_rounds; k++) {
        count[k] = 0;
        for (uint32_t i = out->round_begin[k]; i < round_end(out, k); i++)
            count[k] += pgasi_bitmap_test(out->first, i);
    }
    pgas_status_t status = pgas_exscan(NULL, count, before, out->n_rounds, PGAS_UINT64, PGAS_SUM);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, count, count, out->n_rounds, PGAS_UINT64, PGAS_SUM);
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

static pgas_status_t number_elected(pgasi_numbering_t *out)
{
    uint64_t *scratch = (uint64_t *)pgasi_graph_array(2 * out->n_rounds, sizeof(uint64_t));
    pgas_status_t status = pgasi_graph_agree(scratch ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = count_elected(out, scratch, scratch + out->n_rounds);
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
                pgasi_graph_call(agg, home_of(text, bytes), number_handler, &number, sizeof number);
        }
    }
    return status;
}

static pgas_status_t answer_all(const numbering_t *n, pgas_agg_t *agg)
{
    uint64_t n_ranks = (uint64_t)pgas_n_ranks();
    pgas_status_t status = PGAS_OK;
    for (uint64_t i = 0; status == PGAS_OK && i < n->n_meetings; i++) {
        const meeting_t *m = &n->meeting[i];
        const entry_t *entry = &n->entry[m->entry];
        if (entry->piece % n_ranks != m->rank) { /* who met it first knows */
            number_t number = { entry->id, m->local };
            status = pgasi_graph_call(agg, (int)m->rank, answer_handler, &number, sizeof number);
        }
    }
    return status;
}

static pgas_status_t run_phases(numbering_t *n, pgas_agg_t *agg)
{
    static pgas_status_t (*const phases[])(const numbering_t *,
                                           pgas_agg_t *) = { meet_all, elect_all, number_all,
                                                             answer_all };
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(phases) && status == PGAS_OK; i++) {
        status = phases[i](n, agg);
        pgas_status_t quiet = pgas_quiesce();
        note(&status, n->status);
        status = quiet != PGAS_OK ? quiet : pgasi_graph_agree(status, NULL);
        if (status == PGAS_OK && phases[i] == elect_all)
            status = number_elected(n->out);
    }
    return status;
}

pgas_status_t pgasi_graph_number(pgasi_numbering_t *out)
{
    numbering_t n = { .out = out };
    pgas_agg_t *agg = NULL;
    uint32_t n_names = out->names->n_names;
    out->ids = (uint64_t *)pgasi_graph_array(n_names, sizeof(uint64_t));
    out->first = (uint64_t *)pgasi_graph_zeroed(pgasi_bitmap_words(n_names), sizeof(uint64_t));
    n.entry_of = (uint32_t *)pgasi_graph_array(n_names, sizeof(uint32_t));
    pgasi_names_init(&n.names);
    pgas_status_t mine = out->ids && out->first && n.entry_of ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (mine == PGAS_OK)
        mine = pgas_agg_create(NULL, &agg);
    current = &n;
    pgas_status_t status = pgasi_graph_agree(mine, NULL); /* now every rank can take calls */
    if (status == PGAS_OK)
        status = run_phases(&n, agg);
    current = NULL;
    pgas_status_t destroyed = pgas_agg_destroy(agg);
    pgasi_names_fini(&n.names);
    free(n.entry);
    free(n.meeting);
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
            status = pgasi_graph_call(agg, pgasi_graph_owner_of(numbering->ids[i], graph->block),
                                      name_handler, message, sizeof(uint64_t) + bytes);
        }
    }
    pgas_status_t destroyed = pgas_agg_destroy(agg);
    return status != PGAS_OK ? status : destroyed;
}

pgas_status_t pgasi_graph_spread_names(pgas_graph_t *graph, const pgasi_numbering_t *numbering)
{
    graph->name = (pgasi_name_t *)pgasi_graph_zeroed(graph->n_local, sizeof *graph->name);
    naming_status = PGAS_OK;
    naming = graph;
    pgas_status_t status = pgasi_graph_agree(graph->name ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK) {
        status = send_names(graph, numbering);
        pgas_status_t quiet = pgas_quiesce();
        note(&status, naming_status);
        status = quiet != PGAS_OK ? quiet : pgasi_graph_agree(status, NULL);
    }
    naming = NULL;
    graph->has_names = status == PGAS_OK;
    return status;
}
