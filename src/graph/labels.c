/* Labels: a table on each rank, and numbers for all of them by a sort over the ranks.
 *
 * The ranks cut the labels into ranges, one for each rank, by samples of their sorted tables. So
 * ranges have about the same number of labels for any distribution. A rank sends each label once to
 * the rank of its range. That rank sorts the labels, drops repetitions, numbers the rest and sends
 * the numbers back. Meanwhile a rank needs 44 bytes for each label of its table, and 16 for each
 * label that it receives. */
#include "graph/labels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/hash.h"
#include "graph/graph.h"
#include "graph/sort.h"
#include "pgas/coll.h"
#include "pgas/runtime.h"

/* ---- the table ---- */

void pgasi_labels_fini(pgasi_labels_t *labels)
{
    free(labels->label);
    free(labels->slot);
    pgasi_labels_init(labels);
}

static void fill_slot(pgasi_labels_t *labels, uint32_t place)
{
    uint64_t mask = labels->n_slots - 1, i = pgasi_hash_u64(labels->label[place]) & mask;
    while (labels->slot[i] != 0)
        i = (i + 1) & mask;
    labels->slot[i] = place + 1;
}

/* Makes room for n more labels. */
static pgas_status_t make_room(pgasi_labels_t *labels, size_t n)
{
    uint64_t n_after = labels->n + (uint64_t)n, n_slots = PGASI_MAX(labels->n_slots, 1024);
    if (n_after > PGASI_LABELS_MAX)
        return PGAS_ERR_LIMIT;
    void *label = pgasi_grow(labels->label, &labels->room, n_after, sizeof *labels->label);
    if (!label)
        return PGAS_ERR_NO_MEMORY;
    labels->label = label;
    while (2 * n_after > n_slots)
        n_slots *= 2;
    if (n_slots == labels->n_slots)
        return PGAS_OK;
    uint32_t *slot = calloc(n_slots, sizeof *slot);
    if (!slot)
        return PGAS_ERR_NO_MEMORY;
    free(labels->slot);
    labels->slot = slot;
    labels->n_slots = n_slots;
    for (uint32_t i = 0; i < labels->n; i++)
        fill_slot(labels, i);
    return PGAS_OK;
}

static uint32_t find_or_add(pgasi_labels_t *labels, uint64_t label, uint64_t i)
{
    uint64_t mask = labels->n_slots - 1;
    for (i &= mask; labels->slot[i] != 0; i = (i + 1) & mask)
        if (labels->label[labels->slot[i] - 1] == label)
            return labels->slot[i] - 1;
    labels->label[labels->n] = label;
    labels->slot[i] = ++labels->n;
    return labels->n - 1;
}

pgas_status_t pgasi_labels_add(pgasi_labels_t *labels, const uint64_t *label, size_t n,
                               uint32_t *place)
{
    uint64_t hash[PGASI_LABELS_BATCH], mask;
    pgas_status_t status = make_room(labels, n);
    if (status != PGAS_OK)
        return status;
    mask = labels->n_slots - 1;
    for (size_t i = 0; i < n; i++) {
        hash[i] = pgasi_hash_u64(label[i]);
        __builtin_prefetch(&labels->slot[hash[i] & mask]);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = labels->slot[hash[i] & mask];
        __builtin_prefetch(&labels->label[slot != 0 ? slot - 1 : 0]);
    }
    for (size_t i = 0; i < n; i++)
        place[i] = find_or_add(labels, label[i], hash[i]);
    return PGAS_OK;
}

/* ---- the sort over the ranks ---- */

/* A key is a label and one bit: 0 for a vertex, 1 for an end. So a vertex comes before ends of the
 * same label. */
typedef struct {
    int n_ranks;
    uint64_t n; /* of this rank's table */
    pgasi_keyed_t *sorted, *space[2];
    uint64_t *split; /* [n_ranks - 1] rank r has the labels from split[r - 1] up to split[r] - 1 */
    size_t *send, *receive; /* [n_ranks] keys, or bytes of keys or numbers */
    uint64_t *keys;         /* [n] sorted */
    uint64_t n_here;
    uint64_t *here; /* [n_here] keys of this rank's range, as they came */
    uint32_t *number, *number_here;
} sort_t;

#define SAMPLES 64 /* of each rank, on average */

static void free_sort(sort_t *s)
{
    free(s->space[0]);
    free(s->space[1]);
    free(s->split);
    free(s->send);
    free(s->receive);
    free(s->keys);
    free(s->here);
    free(s->number);
    free(s->number_here);
}

static pgas_status_t sort_mine(sort_t *s, const pgasi_labels_t *labels, uint32_t n_vertices)
{
    s->n_ranks = pgas_n_ranks();
    s->n = labels->n;
    uint64_t n_ranks = (uint64_t)s->n_ranks;
    s->space[0] = pgasi_graph_array(s->n, sizeof *s->sorted);
    s->space[1] = pgasi_graph_array(s->n, sizeof *s->sorted);
    s->keys = pgasi_graph_array(s->n, sizeof *s->keys);
    s->number = pgasi_graph_array(s->n, sizeof *s->number);
    s->split = pgasi_graph_zeroed(n_ranks, sizeof *s->split);
    s->send = pgasi_graph_zeroed(n_ranks, sizeof *s->send);
    s->receive = pgasi_graph_zeroed(n_ranks, sizeof *s->receive);
    if (!s->space[0] || !s->space[1] || !s->keys || !s->number || !s->split || !s->send ||
        !s->receive)
        return PGAS_ERR_NO_MEMORY;
    uint64_t greatest = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        s->space[0][i] = (pgasi_keyed_t){ 2 * labels->label[i] + (i >= n_vertices), i };
        greatest = PGASI_MAX(greatest, s->space[0][i].key);
    }
    /* a limit of 0 stands for 2^64 */
    s->sorted = pgasi_sort_keyed(s->space[0], s->space[1], s->n, greatest + 1);
    for (uint64_t i = 0; i < s->n; i++)
        s->keys[i] = s->sorted[i].key;
    return PGAS_OK;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Each rank gives every step-th of its labels, so each sample represents `step` labels. */
static pgas_status_t choose_splits(sort_t *s)
{
    uint64_t n_all, step, n_samples, *of_rank = NULL, *samples = NULL, *mine = NULL;
    size_t n_ranks = (size_t)s->n_ranks;
    pgas_status_t status = pgas_allreduce(NULL, &s->n, &n_all, 1, PGAS_U64, PGAS_ADD);
    if (status != PGAS_OK || n_ranks == 1)
        return status;
    step = PGASI_MAX(n_all / (n_ranks * SAMPLES), 1);
    n_samples = PGASI_DIV_UP(s->n, step);
    of_rank = pgasi_graph_array(n_ranks, sizeof *of_rank);
    mine = pgasi_graph_array(n_samples, sizeof *mine);
    samples = pgasi_graph_array(n_ranks * (SAMPLES + 1) * 2 + n_ranks, sizeof *samples);
    status = pgasi_graph_agree(of_rank && mine && samples ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = pgas_allgather(NULL, &n_samples, of_rank, sizeof n_samples);
    for (uint64_t i = 0; status == PGAS_OK && i < n_samples; i++)
        mine[i] = s->keys[i * step] / 2;
    n_all = 0;
    for (size_t r = 0; status == PGAS_OK && r < n_ranks; r++) {
        s->receive[r] = of_rank[r] * sizeof *samples;
        n_all += of_rank[r];
    }
    if (status == PGAS_OK)
        status = pgas_allgatherv(NULL, mine, n_samples * sizeof *mine, samples, s->receive);
    if (status == PGAS_OK) {
        qsort(samples, n_all, sizeof *samples, by_value);
        for (size_t r = 1; r < n_ranks; r++)
            s->split[r - 1] = n_all > 0 ? samples[n_all * r / n_ranks] : 0;
    }
    free(of_rank);
    free(mine);
    free(samples);
    return status;
}

static void bytes_of(size_t *list, int n, size_t elem_bytes)
{
    for (int r = 0; r < n; r++)
        list[r] *= elem_bytes;
}

/* Sends the labels to the ranks of their ranges. */
static pgas_status_t send_keys(sort_t *s)
{
    int rank = 0;
    memset(s->send, 0, (size_t)s->n_ranks * sizeof *s->send);
    for (uint64_t i = 0; i < s->n; i++) {
        while (rank + 1 < s->n_ranks && s->keys[i] / 2 >= s->split[rank])
            rank++;
        s->send[rank]++;
    }
    pgas_status_t status = pgas_alltoall(NULL, s->send, s->receive, sizeof *s->send);
    s->n_here = 0;
    for (int r = 0; status == PGAS_OK && r < s->n_ranks; r++)
        s->n_here += s->receive[r];
    if (status == PGAS_OK) {
        s->here = pgasi_graph_array(s->n_here, sizeof *s->here);
        s->number_here = pgasi_graph_array(s->n_here, sizeof *s->number_here);
        bool have = s->here && s->number_here;
        status = pgasi_graph_agree(have ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    }
    bytes_of(s->send, s->n_ranks, sizeof *s->keys);
    bytes_of(s->receive, s->n_ranks, sizeof *s->keys);
    return status == PGAS_OK ? pgas_alltoallv(NULL, s->keys, s->send, s->here, s->receive) : status;
}

/* Sorts the labels of this rank's range; number_here becomes the position of each among those that
 * are vertices. */
static pgas_status_t sort_here(sort_t *s, pgasi_labeling_t *out)
{
    uint64_t n = s->n_here, greatest = 0;
    pgasi_keyed_t *a = pgasi_graph_array(n, sizeof *a), *b = pgasi_graph_array(n, sizeof *b);
    out->sorted = pgasi_graph_array(n, sizeof *out->sorted);
    if (!a || !b || !out->sorted || n > UINT32_MAX) {
        free(a);
        free(b);
        return a && b && out->sorted ? PGAS_ERR_LIMIT : PGAS_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++) {
        a[i] = (pgasi_keyed_t){ s->here[i], i };
        greatest = PGASI_MAX(greatest, s->here[i]);
    }
    const pgasi_keyed_t *sorted = pgasi_sort_keyed(a, b, n, greatest + 1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t label = sorted[i].key / 2;
        bool known = out->n_sorted > 0 && out->sorted[out->n_sorted - 1] == label;
        if (!known && sorted[i].key % 2 == 0)
            out->sorted[out->n_sorted++] = label;
        else if (!known)
            out->missing = PGASI_MIN(out->missing, label);
        s->number_here[sorted[i].index] = (uint32_t)(out->n_sorted - 1);
    }
    free(a);
    free(b);
    return PGAS_OK;
}

/* Sends the numbers back. */
static pgas_status_t send_numbers(sort_t *s, pgasi_labeling_t *out)
{
    for (uint64_t i = 0; i < s->n_here; i++)
        s->number_here[i] += (uint32_t)out->first_sorted;
    for (int r = 0; r < s->n_ranks; r++) {
        s->send[r] = s->send[r] / sizeof *s->keys * sizeof *s->number;
        s->receive[r] = s->receive[r] / sizeof *s->keys * sizeof *s->number;
    }
    pgas_status_t status = pgas_alltoallv(NULL, s->number_here, s->receive, s->number, s->send);
    for (uint64_t i = 0; status == PGAS_OK && i < s->n; i++)
        out->number[s->sorted[i].index] = s->number[i];
    return status;
}

static pgas_status_t count_all(pgasi_labeling_t *out)
{
    uint64_t n = out->n_sorted;
    pgas_status_t status = pgas_exscan(NULL, &n, &out->first_sorted, 1, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &n, &out->n_vertices, 1, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &out->missing, &out->missing, 1, PGAS_U64, PGAS_MIN);
    if (status != PGAS_OK)
        return status;
    if (out->missing != UINT64_MAX)
        return PGAS_ERR_NOT_FOUND;
    if (out->n_vertices > PGASI_GRAPH_VERTICES_MAX) {
        if (pgas_rank() == 0)
            pgasi_graph_note("%" PRIu64 " vertices are too many: a graph has at most %" PRIu32,
                             out->n_vertices, PGASI_GRAPH_VERTICES_MAX);
        return pgasi_graph_agree(PGAS_ERR_LIMIT, NULL);
    }
    return PGAS_OK;
}

pgas_status_t pgasi_labels_number(const pgasi_labels_t *labels, uint32_t n_vertices,
                                  pgasi_labeling_t *out)
{
    sort_t s = { 0 };
    *out = (pgasi_labeling_t){ .missing = UINT64_MAX };
    out->number = pgasi_graph_array(labels->n, sizeof *out->number);
    pgas_status_t mine = sort_mine(&s, labels, n_vertices);
    pgas_status_t status = pgasi_graph_agree(out->number ? mine : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        status = choose_splits(&s);
    if (status == PGAS_OK)
        status = send_keys(&s);
    if (status == PGAS_OK)
        status = pgasi_graph_agree(sort_here(&s, out), NULL);
    if (status == PGAS_OK)
        status = count_all(out);
    if (status == PGAS_OK)
        status = send_numbers(&s, out);
    free_sort(&s);
    return status;
}

void pgasi_labeling_fini(pgasi_labeling_t *labeling)
{
    free(labeling->number);
    free(labeling->sorted);
    labeling->number = NULL;
    labeling->sorted = NULL;
}

/* ---- labels of own vertices ---- */

pgas_status_t pgasi_labels_spread(pgas_graph_t *graph, const pgasi_labeling_t *labeling)
{
    size_t n_ranks = (size_t)graph->n_ranks;
    uint64_t begin = labeling->first_sorted, end = begin + labeling->n_sorted;
    size_t *send = pgasi_graph_zeroed(2 * n_ranks, sizeof *send), *receive = send + n_ranks;
    graph->labels = pgasi_graph_array(graph->n_local, sizeof *graph->labels);
    bool have = send && graph->labels;
    pgas_status_t status = pgasi_graph_agree(have ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    for (size_t r = 0; status == PGAS_OK && r < n_ranks; r++) {
        uint64_t from = PGASI_MAX(begin, graph->first_of[r]);
        uint64_t to = PGASI_MIN(end, graph->first_of[r + 1]);
        send[r] = to > from ? (to - from) * sizeof *graph->labels : 0;
    }
    if (status == PGAS_OK)
        status = pgas_alltoall(NULL, send, receive, sizeof *send);
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, labeling->sorted, send, graph->labels, receive);
    free(send);
    return status;
}

/* ---- labels of any vertices ---- */

/* The lists that are exchanged, by rank. */
typedef struct {
    size_t *send, *receive; /* [n_ranks] vertices, then bytes */
    uint64_t n_here;
    uint32_t *ask, *asked; /* [n], [n_here] places at the owner */
    uint64_t *answered, *answer;
} exchange_t;

static void free_exchange(exchange_t *x)
{
    free(x->send);
    free(x->ask);
    free(x->asked);
    free(x->answered);
    free(x->answer);
}

/* Sorts the questions by owner. Afterwards, send[r] is the number of those for rank r. */
static void sort_questions(exchange_t *x, const pgas_graph_t *graph, const uint64_t *vertices,
                           size_t n, size_t *place)
{
    size_t before = 0;
    for (size_t i = 0; i < n; i++)
        x->send[pgasi_graph_owner(graph, vertices[i])]++;
    for (int r = 0; r < graph->n_ranks; r++) {
        x->receive[r] = before; /* the next place, for now */
        before += x->send[r];
    }
    for (size_t i = 0; i < n; i++) {
        int owner = pgasi_graph_owner(graph, vertices[i]);
        place[i] = x->receive[owner]++;
        x->ask[place[i]] = (uint32_t)(vertices[i] - graph->first_of[owner]);
    }
}

static void scale(exchange_t *x, int n_ranks, size_t times, size_t divided)
{
    for (int r = 0; r < n_ranks; r++) {
        x->send[r] = x->send[r] * times / divided;
        x->receive[r] = x->receive[r] * times / divided;
    }
}

static pgas_status_t exchange_labels(exchange_t *x, const pgas_graph_t *graph)
{
    pgas_status_t status = pgas_alltoall(NULL, x->send, x->receive, sizeof *x->send);
    for (int r = 0; status == PGAS_OK && r < graph->n_ranks; r++)
        x->n_here += x->receive[r];
    if (status != PGAS_OK)
        return status;
    x->asked = pgasi_graph_array(x->n_here, sizeof *x->asked);
    x->answer = pgasi_graph_array(x->n_here, sizeof *x->answer);
    status = pgasi_graph_agree(x->asked && x->answer ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    scale(x, graph->n_ranks, sizeof *x->ask, 1);
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, x->ask, x->send, x->asked, x->receive);
    for (uint64_t i = 0; status == PGAS_OK && i < x->n_here; i++)
        x->answer[i] = graph->labels[x->asked[i]];
    scale(x, graph->n_ranks, sizeof *x->answer, sizeof *x->ask);
    return status == PGAS_OK ? pgas_alltoallv(NULL, x->answer, x->receive, x->answered, x->send)
                             : status;
}

pgas_status_t pgasi_graph_ask_labels(const pgas_graph_t *graph, const uint64_t *vertices, size_t n,
                                     uint64_t *labels)
{
    size_t n_ranks = (size_t)graph->n_ranks;
    exchange_t x = { .send = NULL };
    if (!graph->labels) {
        for (size_t i = 0; i < n; i++)
            labels[i] = vertices[i];
        return PGAS_OK;
    }
    x.send = pgasi_graph_zeroed(2 * n_ranks, sizeof *x.send);
    x.receive = x.send + n_ranks;
    x.ask = pgasi_graph_array(n, sizeof *x.ask);
    x.answered = pgasi_graph_array(n, sizeof *x.answered);
    size_t *place = pgasi_graph_array(n, sizeof *place);
    bool have = x.send && x.ask && x.answered && place;
    pgas_status_t status = pgasi_graph_agree(have ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK) {
        sort_questions(&x, graph, vertices, n, place);
        status = exchange_labels(&x, graph);
    }
    for (size_t i = 0; status == PGAS_OK && i < n; i++)
        labels[i] = x.answered[place[i]];
    free(place);
    free_exchange(&x);
    return status;
}
