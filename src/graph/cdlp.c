/* Label propagation: in a round each vertex counts the labels of its neighbours, from the labels of
 * the round before.
 *
 * Rows are short, with few different labels after some rounds. Three things make counting cheap:
 *   - A vertex keeps its label if no neighbour's label changed in the round before.
 *   - A thread counts the label that the vertex has in a register. After some rounds most
 *     neighbours have the same label.
 *   - It counts the others in its own table, with open addressing. The part that a row uses has at
 *     least twice as many entries as the row has edges. For short rows the thread uses a list.
 * In the first round all labels differ, so the thread counts only multiple edges.
 *
 * Kronecker scale 18, one thread, 10 rounds: rounds 2 and 3 take half of the time. A table that
 * grows with the number of different labels made them slower. */
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "graph/run.h"
#include "graph/sort.h"
#include "pgas/coll.h"

#define DEFAULT_ROUNDS 10
#define CHUNK          64 /* vertices that a thread takes at a time: the first have long rows */
#define LIST_MAX       8  /* labels of a short row */

typedef struct {
    uint32_t label, n; /* n = 0: the entry is free */
} counted_t;

typedef struct {
    pgas_graph_run_t *run;
    uint32_t *now, *next; /* labels by id */
    uint8_t *changed;     /* by id: whether the last round changed the label */
    counted_t *tables;    /* [n_threads * table_room] */
    uint64_t table_room;
    uint64_t next_id; /* threads take own vertices in turn */
    uint64_t n_changed;
    bool is_first;
} cdlp_t;

/* The neighbours of a vertex: ends of its out-edges, and in a directed graph of its in-edges. */
typedef struct {
    const uint32_t *end[2];
    uint64_t n[2], n_all;
} row_t;

static inline row_t row_of(const pgas_graph_info_t *info, uint32_t id)
{
    const uint64_t *out = info->out.begin + id, *in = info->in.begin + id;
    row_t row = { { info->out.end + out[0], info->in.end + in[0] }, { out[1] - out[0], 0 }, 0 };
    if (info->directed)
        row.n[1] = in[1] - in[0];
    row.n_all = row.n[0] + row.n[1];
    return row;
}

/* ---- the most frequent label of a row ---- */

/* Keeps the more frequent one of two labels; if both are equally frequent, the lesser one. */
static inline void keep_better(counted_t *best, uint32_t label, uint32_t n)
{
    if (n > best->n || (n == best->n && label < best->label))
        *best = (counted_t){ label, n };
}

static uint32_t most_in_list(const cdlp_t *c, const row_t *row)
{
    uint32_t label[LIST_MAX], n = 0;
    counted_t best = { UINT32_MAX, 0 };
    for (int k = 0; k < 2; k++)
        for (uint64_t e = 0; e < row->n[k]; e++)
            label[n++] = c->now[row->end[k][e]];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t count = 1;
        for (uint32_t j = i + 1; j < n; j++)
            count += label[j] == label[i];
        keep_better(&best, label[i], count);
    }
    return best.label;
}

static uint32_t most_in_table(const cdlp_t *c, const row_t *row, uint32_t own, counted_t *table)
{
    counted_t best = { UINT32_MAX, 0 };
    uint32_t n_own = 0;
    int bits = 64 - __builtin_clzll(2 * row->n_all - 1);
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    memset(table, 0, (mask + 1) * sizeof *table);
    for (int k = 0; k < 2; k++) {
        for (uint64_t e = 0; e < row->n[k]; e++) {
            uint32_t label = c->now[row->end[k][e]];
            if (label == own) {
                n_own++;
                continue;
            }
            uint64_t i = label * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits);
            while (table[i].n != 0 && table[i].label != label)
                i = (i + 1) & mask;
            table[i].label = label;
            keep_better(&best, label, ++table[i].n);
        }
    }
    if (n_own > 0)
        keep_better(&best, own, n_own);
    return best.label;
}

/* In the first round each neighbour has its own label. So the function counts equal ids, which
 * follow each other in the two rows. */
static uint32_t most_at_first(const cdlp_t *c, const row_t *row)
{
    const uint32_t *a = row->end[0], *a_end = a + row->n[0];
    const uint32_t *b = row->end[1], *b_end = b + row->n[1];
    counted_t best = { UINT32_MAX, 0 };
    while (a < a_end || b < b_end) {
        uint32_t id = a < a_end ? *a : *b, n = 0;
        if (b < b_end && *b < id)
            id = *b;
        for (; a < a_end && *a == id; a++)
            n++;
        for (; b < b_end && *b == id; b++)
            n++;
        keep_better(&best, c->now[id], n);
    }
    return best.label;
}

static bool has_change(const cdlp_t *c, const row_t *row)
{
    for (int k = 0; k < 2; k++)
        for (uint64_t e = 0; e < row->n[k]; e++)
            if (c->changed[row->end[k][e]])
                return true;
    return false;
}

/* ---- rounds ---- */

static inline uint32_t next_label(const cdlp_t *c, uint32_t id, counted_t *table)
{
    uint32_t own = c->now[id];
    row_t row = row_of(&c->run->info, id);
    if (row.n_all == 0)
        return own;
    if (c->is_first)
        return most_at_first(c, &row);
    if (!has_change(c, &row))
        return own;
    if (row.n_all <= LIST_MAX)
        return most_in_list(c, &row);
    return most_in_table(c, &row, own, table);
}

static void update_labels(int i, int n, void *arg)
{
    cdlp_t *c = arg;
    counted_t *table = c->tables + (uint64_t)i * c->table_room;
    uint64_t n_local = c->run->info.n_local, n_changed = 0;
    (void)n;
    for (;;) {
        uint64_t id = __atomic_fetch_add(&c->next_id, CHUNK, __ATOMIC_RELAXED);
        if (id >= n_local)
            break;
        for (uint64_t end = PGASI_MIN(id + CHUNK, n_local); id < end; id++) {
            c->next[id] = next_label(c, (uint32_t)id, table);
            n_changed += c->next[id] != c->now[id];
        }
    }
    __atomic_fetch_add(&c->n_changed, n_changed, __ATOMIC_RELAXED);
}

/* Sets `changed`, and makes the next labels the present ones. */
static void turn(cdlp_t *c)
{
    uint64_t n_ids = (uint64_t)c->run->info.n_local + c->run->info.n_ghosts;
    uint32_t *before = c->now;
    for (uint64_t id = 0; id < n_ids; id++)
        c->changed[id] = c->next[id] != before[id];
    c->now = c->next;
    c->next = before;
    c->is_first = false;
}

static pgas_status_t propagate(cdlp_t *c, int *n_rounds_p)
{
    const pgas_graph_run_opts_t *o = &c->run->opts;
    int n_rounds = o->iterations > 0 ? o->iterations : DEFAULT_ROUNDS;
    pgas_status_t status = PGAS_OK;
    bool stop = false;
    while (status == PGAS_OK && !stop) {
        c->n_changed = c->next_id = 0;
        pgas_graph_run_threads(c->run, update_labels, c);
        status = pgas_allreduce(NULL, &c->n_changed, &c->n_changed, 1, PGAS_U64, PGAS_ADD);
        stop = ++*n_rounds_p >= n_rounds || c->n_changed == 0;
        if (status == PGAS_OK && !stop)
            status = pgas_ghosts_fetch(c->run, c->next, sizeof *c->next);
        if (status == PGAS_OK)
            turn(c);
        pgasi_run_report(c->run, "cdlp", (uint64_t)*n_rounds_p,
                         (uint64_t)(stop ? *n_rounds_p : n_rounds));
    }
    return status;
}

/* ---- before and after ---- */

static pgas_status_t start(cdlp_t *c, const uint64_t *labels)
{
    pgas_graph_run_t *run = c->run;
    const pgas_graph_info_t *info = &run->info;
    uint64_t longest = 0;
    for (uint32_t id = 0; id < info->n_local; id++) {
        row_t row = row_of(info, id);
        longest = PGASI_MAX(longest, row.n_all);
    }
    for (c->table_room = 2 * LIST_MAX; c->table_room < 2 * longest;)
        c->table_room *= 2;
    c->now = pgasi_run_state(run, 0, sizeof *c->now);
    c->next = pgasi_run_state(run, 1, sizeof *c->next);
    c->changed = pgasi_run_state(run, 2, sizeof *c->changed);
    c->tables =
        pgasi_graph_scratch(run->graph, SLOT_STATE + 3,
                            (uint64_t)run->opts.n_threads * c->table_room, sizeof *c->tables);
    c->is_first = true;
    bool sane = labels || info->n_local == 0;
    bool have = c->now && c->next && c->changed && c->tables;
    pgas_status_t status = have ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    status = pgasi_graph_agree(sane ? status : PGAS_ERR_INVALID, NULL);
    for (uint64_t id = 0; status == PGAS_OK && id < (uint64_t)info->n_local + info->n_ghosts; id++)
        c->now[id] = (uint32_t)info->vertex[id];
    return status;
}

/* ---- the number of different labels ---- */

/* Sorts the labels and drops repeated ones. @return how many remain */
static uint64_t make_distinct(cdlp_t *c)
{
    uint64_t n = 0, n_local = c->run->info.n_local;
    pgasi_sort_u32(c->now, c->next, n_local, c->run->info.n_vertices);
    for (uint64_t i = 0; i < n_local; i++)
        if (n == 0 || c->now[n - 1] != c->now[i])
            c->now[n++] = c->now[i];
    return n;
}

/* Sends n sorted labels to their owners. @return in *labels_p those that arrived */
static pgas_status_t exchange_labels(cdlp_t *c, uint64_t n, const uint32_t **labels_p,
                                     uint64_t *n_p)
{
    pgas_graph_t *graph = c->run->graph;
    pgasi_run_t *r = pgasi_run_of(c->run);
    memset(r->send_bytes, 0, (size_t)graph->n_ranks * sizeof *r->send_bytes);
    for (uint64_t i = 0; i < n; i++)
        r->send_bytes[pgasi_graph_owner(graph, c->now[i])] += sizeof *c->now;
    pgas_status_t status =
        pgas_alltoall(NULL, r->send_bytes, r->receive_bytes, sizeof *r->send_bytes);
    if (status != PGAS_OK)
        return status;
    *n_p = 0;
    for (int rank = 0; rank < graph->n_ranks; rank++)
        *n_p += r->receive_bytes[rank] / sizeof *c->now;
    uint32_t *labels = pgasi_graph_scratch(graph, SLOT_RECEIVE, *n_p, sizeof *labels);
    status = pgasi_graph_agree(labels ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, c->now, r->send_bytes, labels, r->receive_bytes);
    *labels_p = labels;
    return status;
}

/* Each rank counts the labels that it owns, and that some vertex has. */
static pgas_status_t count_labels(cdlp_t *c, uint64_t *n_labels_p)
{
    const pgas_graph_t *graph = c->run->graph;
    uint64_t n = make_distinct(c), n_arrived = 0, n_used = 0;
    const uint32_t *arrived = c->now;
    *n_labels_p = n;
    if (graph->n_ranks == 1)
        return PGAS_OK;
    pgas_status_t status = exchange_labels(c, n, &arrived, &n_arrived);
    if (status != PGAS_OK)
        return status;
    memset(c->changed, 0, graph->n_local);
    for (uint64_t i = 0; i < n_arrived; i++) {
        uint8_t *used = &c->changed[arrived[i] - graph->first];
        n_used += *used == 0;
        *used = 1;
    }
    return pgas_allreduce(NULL, &n_used, n_labels_p, 1, PGAS_U64, PGAS_ADD);
}

pgas_status_t pgas_cdlp(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts, uint64_t *labels,
                        pgas_graph_run_info_t *info_p)
{
    cdlp_t c = { 0 };
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin_ns = pgasi_now_ns();
    pgas_status_t status = pgasi_run_begin(graph, opts, NULL, true, &c.run);
    if (status != PGAS_OK)
        return status;
    status = start(&c, labels);
    if (status == PGAS_OK)
        status = propagate(&c, &info.iterations);
    for (uint32_t id = 0; status == PGAS_OK && id < graph->n_local; id++)
        labels[graph->vertex[id] - graph->first] = c.now[id];
    if (status == PGAS_OK)
        status = count_labels(&c, &info.n_found);
    info.n_edges = graph->n_edges;
    return pgasi_run_end(c.run, status, begin_ns, &info, info_p);
}
