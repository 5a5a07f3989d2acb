/* Exchanges of values between owners and ghosts, by messages.
 *
 * A list of mirrors is the same list as that of the ghosts on the other side (graph.h). So dense
 * exchanges send values without ids, and sparse ones send places in the list. */
#include <math.h>
#include <string.h>
#include "base/checks.h"
#include "base/op.h"
#include "graph/run.h"
#include "pgas/coll.h"

/* ---- dense ---- */

/* Sets the bytes that each rank gets and gives in an exchange of an element for each ghost. */
static void set_bytes(const pgas_graph_t *graph, size_t *ghost_bytes, size_t *mirror_bytes,
                      size_t elem_bytes)
{
    for (int r = 0; r < graph->n_ranks; r++) {
        ghost_bytes[r] = (graph->ghost_begin[r + 1] - graph->ghost_begin[r]) * elem_bytes;
        mirror_bytes[r] = (graph->mirror_begin[r + 1] - graph->mirror_begin[r]) * elem_bytes;
    }
}

typedef struct {
    const pgas_graph_t *graph;
    const void *values;
    void *send;
    size_t elem_bytes;
} collecting_t;

/* Copies values of mirrors. Each thread copies a part of them. */
static void collect(int i, int n, void *arg)
{
    const collecting_t *c = arg;
    const uint32_t *mirror = c->graph->mirror;
    uint64_t all = c->graph->mirror_begin[c->graph->n_ranks];
    uint64_t begin = all * (uint64_t)i / (uint64_t)n, end = all * ((uint64_t)i + 1) / (uint64_t)n;
    if (c->elem_bytes == sizeof(uint64_t))
        for (uint64_t m = begin; m < end; m++)
            ((uint64_t *)c->send)[m] = ((const uint64_t *)c->values)[mirror[m]];
    else
        for (uint64_t m = begin; m < end; m++)
            pgasi_word_set(c->send, m, c->elem_bytes,
                           pgasi_word_get(c->values, mirror[m], c->elem_bytes));
}

pgas_status_t pgas_ghosts_fetch(pgas_graph_run_t *run, void *values, size_t elem_bytes)
{
    pgasi_run_t *r = pgasi_run_of(run);
    pgas_graph_t *graph = run->graph;
    if (elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4 && elem_bytes != 8)
        return PGAS_ERR_INVALID;
    if (graph->n_ranks == 1)
        return PGAS_OK;
    if (r->array)
        return pgasi_array_fetch(r, values, elem_bytes);
    uint64_t n_mirrors = graph->mirror_begin[graph->n_ranks];
    void *send = pgasi_graph_scratch(graph, SLOT_SEND, n_mirrors, sizeof(uint64_t));
    pgas_status_t status = send ? PGAS_OK : pgasi_graph_agree(PGAS_ERR_NO_MEMORY, NULL);
    if (status != PGAS_OK)
        return status;
    collecting_t collecting = { graph, values, send, elem_bytes };
    pgas_graph_run_threads(run, collect, &collecting);
    set_bytes(graph, r->receive_bytes, r->send_bytes, elem_bytes);
    run->n_sent += n_mirrors;
    return pgas_alltoallv(NULL, send, r->send_bytes, (char *)values + graph->n_local * elem_bytes,
                          r->receive_bytes);
}

/* Combines the words of two elements of a type by an operator. */
static uint64_t combine_words(uint64_t a, uint64_t b, pgas_type_t type, pgas_op_t op)
{
    double x, y;
    switch (type) {
    case PGAS_F64:
        memcpy(&x, &a, sizeof x);
        memcpy(&y, &b, sizeof y);
        x = op == PGAS_ADD ? x + y : (op == PGAS_MIN) == (x < y) ? x : y;
        memcpy(&a, &x, sizeof a);
        return a;
    case PGAS_I64:
        if (op != PGAS_ADD)
            return (op == PGAS_MIN) == ((int64_t)a < (int64_t)b) ? a : b;
        return a + b;
    default:
        if (op != PGAS_ADD)
            return (op == PGAS_MIN) == (a < b) ? a : b;
        return a + b;
    }
}

static void take_values(const pgas_graph_t *graph, const void *received, void *values,
                        pgas_type_t type, pgas_op_t op)
{
    size_t bytes = pgasi_type_bytes(type);
    uint64_t n_mirrors = graph->mirror_begin[graph->n_ranks];
    for (uint64_t m = 0; m < n_mirrors; m++) {
        uint32_t own = graph->mirror[m];
        uint64_t now = pgasi_word_get(values, own, bytes);
        uint64_t word = pgasi_word_get(received, m, bytes);
        pgasi_word_set(values, own, bytes, combine_words(now, word, type, op));
    }
}

pgas_status_t pgas_ghosts_combine(pgas_graph_run_t *run, void *values, pgas_type_t type,
                                  pgas_op_t op)
{
    pgasi_run_t *r = pgasi_run_of(run);
    pgas_graph_t *graph = run->graph;
    uint64_t neutral;
    pgas_status_t status = pgasi_word_neutral(type, op, &neutral);
    if (status != PGAS_OK || graph->n_ranks == 1)
        return status;
    size_t bytes = pgasi_type_bytes(type);
    if (r->array) {
        status = pgasi_array_combine(r, values, type, op);
    } else {
        uint64_t n_mirrors = graph->mirror_begin[graph->n_ranks];
        void *received = pgasi_graph_scratch(graph, SLOT_RECEIVE, n_mirrors, sizeof(uint64_t));
        status = pgasi_graph_agree(received ? PGAS_OK : PGAS_ERR_NO_MEMORY, NULL);
        set_bytes(graph, r->send_bytes, r->receive_bytes, bytes);
        if (status == PGAS_OK)
            status = pgas_alltoallv(NULL, (char *)values + graph->n_local * bytes, r->send_bytes,
                                    received, r->receive_bytes);
        if (status == PGAS_OK)
            take_values(graph, received, values, type, op);
        run->n_sent += graph->n_ghosts;
    }
    for (uint64_t g = graph->n_local; g < (uint64_t)graph->n_local + graph->n_ghosts; g++)
        pgasi_word_set(values, g, bytes, neutral);
    return status;
}

/* The element that changes no other one. */
pgas_status_t pgasi_word_neutral(pgas_type_t type, pgas_op_t op, uint64_t *word_p)
{
    double infinity = op == PGAS_MIN ? HUGE_VAL : -HUGE_VAL;
    bool known = type == PGAS_U32 || type == PGAS_U64 || type == PGAS_I64 || type == PGAS_F64;
    if (!known || (op != PGAS_ADD && op != PGAS_MIN && op != PGAS_MAX))
        return PGAS_ERR_INVALID;
    *word_p = 0;
    if (op == PGAS_ADD)
        return PGAS_OK;
    if (type == PGAS_F64)
        memcpy(word_p, &infinity, sizeof infinity);
    else if (type == PGAS_I64)
        *word_p = (uint64_t)(op == PGAS_MIN ? INT64_MAX : INT64_MIN);
    else if (op == PGAS_MIN)
        *word_p = type == PGAS_U32 ? UINT32_MAX : UINT64_MAX;
    return PGAS_OK;
}

/* ---- members: a bit for each mirror, and the values of those whose bit is set ---- */

static uint64_t words_for(uint64_t n_bits)
{
    return PGASI_DIV_UP(n_bits, 64);
}

/* The number of words for the bits of all lists. Each list begins with a word of its own. */
static uint64_t all_words(const pgas_graph_t *graph, const uint64_t *begin)
{
    return begin[graph->n_ranks] / 64 + (uint64_t)graph->n_ranks;
}

/* Stores the bits of the mirrors of each rank, and the values of members behind each other. */
static void pack_members(pgasi_run_t *r, const pgas_edge_ops_t *ops, void *context,
                         const pgas_subset_t *from, uint64_t *words, char *values)
{
    const pgas_graph_t *graph = r->run.graph;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        uint64_t begin = graph->mirror_begin[rank];
        uint64_t n = graph->mirror_begin[rank + 1] - begin, n_values = 0;
        memset(words, 0, words_for(n) * sizeof *words);
        for (uint64_t m = 0; m < n; m++) {
            uint32_t own = graph->mirror[begin + m];
            if (!pgas_edge_bit(from->bits, own))
                continue;
            words[m >> 6] |= UINT64_C(1) << (m & 63);
            ops->read(context, own, values);
            values += ops->message_bytes;
            n_values++;
        }
        words += words_for(n);
        r->send_bytes[rank] = n_values * ops->message_bytes;
        r->run.n_sent += n_values;
    }
}

static void take_members(const pgasi_run_t *r, const pgas_edge_ops_t *ops, void *context,
                         pgas_subset_t *from, const uint64_t *words, const char *values)
{
    const pgas_graph_t *graph = r->run.graph;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        uint64_t first = graph->n_local + graph->ghost_begin[rank];
        uint64_t n = graph->ghost_begin[rank + 1] - graph->ghost_begin[rank];
        for (uint64_t w = 0; w < words_for(n); w++) {
            for (uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
                uint32_t ghost = (uint32_t)(first + (w << 6)) + (uint32_t)__builtin_ctzll(bits);
                pgas_edge_set_bit(from->bits, ghost, false);
                ops->copy(context, ghost, values);
                values += ops->message_bytes;
            }
        }
        words += words_for(n);
    }
}

static void count_members(pgasi_run_t *r, size_t message_bytes, const uint64_t *words)
{
    const pgas_graph_t *graph = r->run.graph;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        uint64_t n = graph->ghost_begin[rank + 1] - graph->ghost_begin[rank], n_values = 0;
        for (uint64_t w = 0; w < words_for(n); w++)
            n_values += (uint64_t)__builtin_popcountll(words[w]);
        words += words_for(n);
        r->receive_bytes[rank] = n_values * message_bytes;
    }
}

/* Exchanges the bits. */
static pgas_status_t exchange_bits(pgasi_run_t *r, const uint64_t *send, uint64_t *receive)
{
    const pgas_graph_t *graph = r->run.graph;
    size_t *bytes =
        pgasi_graph_scratch(r->run.graph, SLOT_GHOSTS, 2 * (uint64_t)graph->n_ranks, sizeof *bytes);
    if (!bytes)
        return PGAS_ERR_NO_MEMORY;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        uint64_t n_mirrors = graph->mirror_begin[rank + 1] - graph->mirror_begin[rank];
        uint64_t n_ghosts = graph->ghost_begin[rank + 1] - graph->ghost_begin[rank];
        bytes[rank] = words_for(n_mirrors) * sizeof *send;
        bytes[graph->n_ranks + rank] = words_for(n_ghosts) * sizeof *receive;
    }
    return pgas_alltoallv(NULL, send, bytes, receive, bytes + graph->n_ranks);
}

pgas_status_t pgasi_exchange_members(pgas_graph_run_t *run, const pgas_edge_ops_t *ops,
                                     void *context, pgas_subset_t *from)
{
    pgasi_run_t *r = pgasi_run_of(run);
    pgas_graph_t *graph = run->graph;
    if (r->array)
        return pgasi_array_members(r, ops, context, from);
    uint64_t send_words = all_words(graph, graph->mirror_begin);
    uint64_t receive_words = all_words(graph, graph->ghost_begin);
    uint64_t n_mirrors = graph->mirror_begin[graph->n_ranks];
    uint64_t *send =
        pgasi_graph_scratch(graph, SLOT_SEND,
                            send_words * sizeof *send + n_mirrors * ops->message_bytes, 1);
    uint64_t *receive =
        pgasi_graph_scratch(graph, SLOT_RECEIVE,
                            receive_words * sizeof *receive + graph->n_ghosts * ops->message_bytes,
                            1);
    if (!send || !receive)
        return PGAS_ERR_NO_MEMORY;
    char *send_values = (char *)(send + send_words);
    char *receive_values = (char *)(receive + receive_words);
    pack_members(r, ops, context, from, send, send_values);
    pgas_status_t status = exchange_bits(r, send, receive);
    if (status == PGAS_OK) {
        count_members(r, ops->message_bytes, receive);
        status = pgas_alltoallv(NULL, send_values, r->send_bytes, receive_values, r->receive_bytes);
    }
    if (status == PGAS_OK)
        take_members(r, ops, context, from, receive, receive_values);
    return status;
}

/* ---- changes: the places of ghosts in the lists, with values ---- */

/* Sorts changes by owner. An item is a place, with the value behind it. */
static void pack_changes(pgasi_run_t *r, const pgas_edge_ops_t *ops, void *context,
                         const uint32_t *ghosts, uint64_t n, char *items)
{
    const pgas_graph_t *graph = r->run.graph;
    size_t item_bytes = sizeof *ghosts + ops->message_bytes;
    uint64_t at = 0;
    memset(r->send_bytes, 0, (size_t)graph->n_ranks * sizeof *r->send_bytes);
    for (uint64_t i = 0; i < n; i++)
        r->send_bytes[pgasi_graph_ghost_owner(graph, ghosts[i])] += item_bytes;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        r->receive_bytes[rank] = at; /* where the next item goes */
        at += r->send_bytes[rank];
    }
    for (uint64_t i = 0; i < n; i++) {
        int owner = pgasi_graph_ghost_owner(graph, ghosts[i]);
        char *item = items + r->receive_bytes[owner];
        uint32_t place = ghosts[i] - graph->n_local - (uint32_t)graph->ghost_begin[owner];
        memcpy(item, &place, sizeof place);
        ops->send(context, ghosts[i], item + sizeof place);
        r->receive_bytes[owner] += item_bytes;
    }
    r->run.n_sent += n;
}

static void take_changes(const pgasi_run_t *r, const pgas_edge_ops_t *ops, void *context,
                         const char *items, pgas_subset_t *to)
{
    const pgas_graph_t *graph = r->run.graph;
    size_t item_bytes = sizeof(uint32_t) + ops->message_bytes;
    for (int rank = 0; rank < graph->n_ranks; rank++) {
        const uint32_t *mirror = graph->mirror + graph->mirror_begin[rank];
        for (uint64_t i = 0; i < r->receive_bytes[rank]; i += item_bytes, items += item_bytes) {
            uint32_t place;
            memcpy(&place, items, sizeof place);
            if (ops->receive(context, mirror[place], items + sizeof place))
                pgas_subset_add(to, mirror[place]);
        }
    }
}

pgas_status_t pgasi_exchange_changes(pgas_graph_run_t *run, const pgas_edge_ops_t *ops,
                                     void *context, const uint32_t *ghosts, uint64_t n,
                                     pgas_subset_t *to)
{
    pgasi_run_t *r = pgasi_run_of(run);
    pgas_graph_t *graph = run->graph;
    size_t item_bytes = sizeof *ghosts + ops->message_bytes;
    char *send = pgasi_graph_scratch(graph, SLOT_SEND, graph->n_ghosts, item_bytes);
    char *receive =
        pgasi_graph_scratch(graph, SLOT_RECEIVE, graph->mirror_begin[graph->n_ranks], item_bytes);
    if (!send || !receive)
        return PGAS_ERR_NO_MEMORY;
    pack_changes(r, ops, context, ghosts, n, send);
    for (uint64_t i = 0; i < n; i++)
        to->bits[ghosts[i] >> 6] &= ~(UINT64_C(1) << (ghosts[i] & 63));
    pgas_status_t status =
        pgas_alltoall(NULL, r->send_bytes, r->receive_bytes, sizeof *r->send_bytes);
    if (status == PGAS_OK)
        status = pgas_alltoallv(NULL, send, r->send_bytes, receive, r->receive_bytes);
    if (status == PGAS_OK)
        take_changes(r, ops, context, receive, to);
    return status;
}
