/* Ranks agree on the least vertex of sets that share vertices.
 *
 * A ghost in a set of two or more links this set with the owner's set. Most ghosts are alone if the
 * rank skips most rows, as components do. In the first round, each rank sends the values of its
 * links to the owners, so that both ranks have lists of the links between them, in the same order:
 * those of their own ghosts, and those of the other rank's ghosts. known[link] is the value that
 * both ranks know. Later rounds send, in both directions, only values that are lower.
 *
 * With the exchange ARRAY, each round combines and fetches the values of all vertices. */
#include "graph/least.h"

#include <string.h>
#include "base/checks.h"
#include "pgas/coll.h"

/* place: in the first round in the list of mirrors, then in the receiver's list of links, where
 * links of its own ghosts come first. */
typedef struct {
    uint32_t place, value;
} item_t;

typedef struct {
    pgasi_least_t *l;
    pgasi_run_t *run;
    item_t *send, *receive;
    uint64_t *ghosts, *mirrors; /* [n_ranks + 1] where the links of a rank's lists begin */
    bool changed;               /* a value is perhaps lower than the known one */
} links_t;

/* One thread. @return whether the element was greater */
static bool lower(uint32_t *element, uint32_t value)
{
    bool lowers = value < *element;
    if (lowers)
        *element = value;
    return lowers;
}

/* ---- lists of links ---- */

/* Lists the ghosts that are not alone as links, without a branch that depends on it. */
static void list_ghosts(links_t *links)
{
    const pgas_graph_t *graph = links->run->run.graph;
    const uint32_t *parent = links->l->parent + graph->n_local;
    uint64_t n = 0;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        links->ghosts[rank] = n;
        for (uint64_t g = graph->ghost_begin[rank]; g < graph->ghost_begin[rank + 1]; g++) {
            links->l->known[n] = (uint32_t)g;
            n += parent[g] != graph->n_local + g;
        }
        links->run->send_bytes[rank] = (n - links->ghosts[rank]) * sizeof *links->send;
    }
    links->ghosts[graph->n_ranks] = n;
    links->changed = n > 0;
}

/* Finds the roots of the listed ghosts, and packs the values. */
static void pack_ghosts(links_t *links)
{
    const pgas_graph_t *graph = links->run->run.graph;
    pgasi_least_t *l = links->l;
    for (uint64_t i = 0; i < links->ghosts[graph->n_ranks]; i++) {
        uint32_t id = graph->n_local + l->known[i];
        l->root[i] = l->parent[l->parent[id]];
        lower(&l->least[l->root[i]], l->least[id]);
    }
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        uint32_t first = (uint32_t)graph->ghost_begin[rank];
        for (uint64_t i = links->ghosts[rank]; i < links->ghosts[rank + 1]; i++) {
            uint32_t place = l->known[i] - first;
            l->known[i] = l->least[l->root[i]];
            links->send[i] = (item_t){ place, l->known[i] };
        }
    }
}

/* Lists the links of other ranks' ghosts, which have been received, and takes their values. */
static void list_mirrors(links_t *links)
{
    const pgas_graph_t *graph = links->run->run.graph;
    pgasi_least_t *l = links->l;
    const item_t *item = links->receive;
    uint64_t n = links->ghosts[graph->n_ranks];
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        const uint32_t *mirror = graph->mirror + graph->mirror_begin[rank];
        links->mirrors[rank] = n;
        for (size_t k = links->run->receive_bytes[rank] / sizeof *item; k > 0; k--, item++, n++) {
            l->root[n] = l->parent[mirror[item->place]];
            l->known[n] = item->value;
            lower(&l->least[l->root[n]], item->value);
            links->changed = true;
        }
    }
    links->mirrors[graph->n_ranks] = n;
}

/* ---- lower values ---- */

/* Packs the lower values of links begin .. end - 1. The first has this place at the receiver. */
static item_t *pack_some(pgasi_least_t *l, uint64_t begin, uint64_t end, uint64_t place,
                         item_t *items)
{
    for (uint64_t i = begin; i < end; i++) {
        uint32_t value = l->least[l->root[i]];
        if (value >= l->known[i])
            continue;
        l->known[i] = value;
        *items++ = (item_t){ (uint32_t)(place + i - begin), value };
    }
    return items;
}

static void pack(const links_t *links)
{
    item_t *items = links->send;
    for (int rank = 0; rank < links->run->run.graph->n_ranks; rank++) {
        const item_t *begin = items;
        const uint64_t *g = links->ghosts + rank, *m = links->mirrors + rank;
        items = pack_some(links->l, g[0], g[1], m[1] - m[0], items);
        items = pack_some(links->l, m[0], m[1], 0, items);
        links->run->send_bytes[rank] = (size_t)(items - begin) * sizeof *items;
    }
}

static void take(links_t *links)
{
    pgasi_least_t *l = links->l;
    const item_t *item = links->receive;
    links->changed = false;
    for (int rank = 0; rank < links->run->run.graph->n_ranks; rank++) {
        uint64_t ghosts = links->ghosts[rank], n_ghosts = links->ghosts[rank + 1] - ghosts;
        for (size_t k = links->run->receive_bytes[rank] / sizeof *item; k > 0; k--, item++) {
            uint64_t i = item->place < n_ghosts ? ghosts + item->place
                                                : links->mirrors[rank] + item->place - n_ghosts;
            if (item->value >= l->known[i])
                continue;
            l->known[i] = item->value;
            links->changed |= lower(&l->least[l->root[i]], item->value);
        }
    }
}

/* ---- rounds ---- */

/* Exchanges the sizes. The lowest bit, which no size has, says whether a rank sends to any rank. */
static pgas_status_t exchange_sizes(pgasi_run_t *run, bool *any_p)
{
    int n_ranks = run->run.graph->n_ranks;
    size_t any = 0;
    for (int rank = 0; rank < n_ranks; rank++)
        any |= run->send_bytes[rank] > 0;
    for (int rank = 0; rank < n_ranks; rank++)
        run->send_bytes[rank] |= any;
    pgas_status_t status = pgas_alltoall(NULL, run->send_bytes, run->receive_bytes, sizeof any);
    for (int rank = 0; rank < n_ranks; rank++) {
        any |= run->receive_bytes[rank] & 1;
        run->send_bytes[rank] &= ~(size_t)1;
        run->receive_bytes[rank] &= ~(size_t)1;
    }
    *any_p = any != 0;
    return status;
}

/* Sends what is packed. Stores whether any rank has sent a value. */
static pgas_status_t exchange(links_t *links, int *n_rounds_p, bool *any_p)
{
    pgasi_run_t *run = links->run;
    pgas_status_t status = exchange_sizes(run, any_p);
    if (status == PGAS_OK && *any_p)
        status =
            pgas_alltoallv(NULL, links->send, run->send_bytes, links->receive, run->receive_bytes);
    for (int rank = 0; rank < run->run.graph->n_ranks; rank++)
        run->run.n_sent += run->send_bytes[rank] / sizeof(item_t);
    pgasi_run_report(&run->run, "wcc", (uint64_t)++ * n_rounds_p, 0);
    return status;
}

static pgas_status_t agree_by_messages(pgasi_least_t *l, int *n_rounds_p)
{
    pgas_graph_t *graph = l->run->graph;
    uint64_t n = pgasi_least_room(l->run);
    bool any = false;
    links_t links = {
        .l = l,
        .run = pgasi_run_of(l->run),
        .send = pgasi_graph_scratch(graph, SLOT_SEND, n, sizeof(item_t)),
        .receive = pgasi_graph_scratch(graph, SLOT_RECEIVE, n, sizeof(item_t)),
        .ghosts = l->begin,
        .mirrors = l->begin + graph->n_ranks + 1,
    };
    if (!links.send || !links.receive)
        return PGAS_ERR_NO_MEMORY; /* cannot be: make_room() of run.c */
    list_ghosts(&links);
    pack_ghosts(&links);
    pgas_status_t status = exchange(&links, n_rounds_p, &any);
    if (status == PGAS_OK)
        list_mirrors(&links);
    while (status == PGAS_OK && any) {
        memset(links.run->send_bytes, 0, (size_t)graph->n_ranks * sizeof(size_t));
        if (links.changed)
            pack(&links);
        status = exchange(&links, n_rounds_p, &any);
        if (status == PGAS_OK)
            take(&links);
    }
    return status;
}

/* ---- with an array ---- */

static void compress_ghosts(pgasi_least_t *l)
{
    uint32_t n_local = l->run->info.n_local;
    for (uint32_t id = n_local; id < n_local + l->run->info.n_ghosts; id++) {
        l->parent[id] = pgasi_least_root(l->parent, id);
        lower(&l->least[l->parent[id]], l->least[id]);
    }
}

/* Compares once in both directions. Stores whether a least vertex of any rank has changed. */
static pgas_status_t compare(pgasi_least_t *l, bool *any_p)
{
    uint32_t n_local = l->run->info.n_local, n = n_local + l->run->info.n_ghosts, any = 0;
    uint32_t *value = l->known;
    for (uint32_t id = 0; id < n; id++)
        value[id] = l->least[l->parent[id]];
    pgas_status_t status = pgas_ghosts_combine(l->run, value, PGAS_U32, PGAS_MIN);
    if (status != PGAS_OK)
        return status;
    for (uint32_t id = 0; id < n_local; id++)
        any |= lower(&l->least[l->parent[id]], value[id]);
    for (uint32_t id = 0; id < n_local; id++)
        value[id] = l->least[l->parent[id]];
    status = pgas_ghosts_fetch(l->run, value, sizeof *value);
    for (uint32_t id = n_local; status == PGAS_OK && id < n; id++)
        any |= lower(&l->least[l->parent[id]], value[id]);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &any, &any, 1, PGAS_U32, PGAS_MAX);
    *any_p = any != 0;
    return status;
}

static pgas_status_t agree_by_array(pgasi_least_t *l, int *n_rounds_p)
{
    pgas_status_t status = PGAS_OK;
    compress_ghosts(l);
    for (bool any = true; any && status == PGAS_OK;) {
        status = compare(l, &any);
        pgasi_run_report(l->run, "wcc", (uint64_t)++ * n_rounds_p, 0);
    }
    return status;
}

/* ---- both ---- */

uint64_t pgasi_least_room(pgas_graph_run_t *run)
{
    const pgas_graph_t *graph = run->graph;
    uint64_t n_mirrors = graph->mirror_begin[graph->n_ranks];
    return graph->n_ghosts + PGASI_MAX(n_mirrors, graph->n_local);
}

pgas_status_t pgasi_least_agree(pgasi_least_t *l, int *n_rounds_p)
{
    if (l->run->graph->n_ranks == 1)
        return PGAS_OK;
    return pgasi_run_of(l->run)->array ? agree_by_array(l, n_rounds_p)
                                       : agree_by_messages(l, n_rounds_p);
}
