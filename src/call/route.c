/* Routes: see route.h.
 *
 * This file is shaped for jobs of hundreds of nodes, where a batch for every rank would take too
 * much memory and never become full. A call for a rank that is no neighbour travels as a call of
 * one of the library's own handlers. A word in front of its arguments names source, target and
 * handler. Calls of one size share a header, also if their words differ.
 *
 * A rank that receives such a run forwards the calls for other ranks through the handlers' send
 * queue. They have no memory limit, like answers, because a handler cannot wait. At the target,
 * consecutive calls with the same word are one run for the handler. */
#include "call/route.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "boot/boot.h"
#include "msg/descriptor.h"
#include "call/sync.h"
#include "mem/thread.h"
#include "msg/dispatch.h"

/* ---- the grid ---- */

static int power(int side, int n)
{
    int product = 1;
    while (n-- > 0)
        product *= side;
    return product;
}

pgasi_grid_t pgasi_route_grid(int n_nodes, int hops)
{
    pgasi_grid_t g = { hops, n_nodes, n_nodes };
    if (hops > 1) {
        g.side = 1;
        while (power(g.side, hops) < n_nodes)
            g.side++;
    }
    return g;
}

/* The first coordinate in which both nodes differ becomes that of the target, if such a node
 * exists. One coordinate always leads to a node, because only the highest numbers are missing. If
 * the target's last coordinate is lower than this node's, lowering it leads to a lower number. If
 * it is higher, all nodes with the lower one exist. */
int pgasi_route_next_node(const pgasi_grid_t *g, int here, int there)
{
    for (int d = 0, unit = 1; d < g->hops; d++, unit *= g->side) {
        int mine = here / unit % g->side, theirs = there / unit % g->side;
        int next = here + (theirs - mine) * unit;
        if (mine != theirs && next < g->n_nodes)
            return next;
    }
    return there;
}

/* A rank sends to the neighbours in each dimension. On a neighbour node the target's index selects
 * the rank, so all its ranks are peers. Within its own node a rank sends to all ranks. */
int64_t pgasi_route_peers(int n_nodes, int node_ranks, int hops)
{
    pgasi_grid_t g = pgasi_route_grid(n_nodes, hops);
    int64_t neighbours = hops == 1 ? n_nodes - 1 : (int64_t)hops * (g.side - 1);
    return (PGASI_MIN(neighbours, n_nodes - 1) + 1) * node_ranks;
}

int pgasi_route_choose(int n_nodes, int node_ranks, int64_t peers_max)
{
    int best = 1;
    for (int hops = 1; hops <= 3; hops++) {
        int64_t peers = pgasi_route_peers(n_nodes, node_ranks, hops);
        if (peers <= peers_max)
            return hops;
        if (peers < pgasi_route_peers(n_nodes, node_ranks, best))
            best = hops;
    }
    return best;
}

/* ---- the ranks of the grid ---- */

/* The ranks of each node, ascending, and the index of each rank in its node. */
typedef struct {
    pgasi_grid_t grid[4]; /* by number of hops */
    int node_ranks_max;
    int *first;  /* [n_nodes + 1]: where each node's ranks begin in member */
    int *member; /* [n_ranks] */
    int *index;  /* [n_ranks] */
} map_t;

static map_t *the_map;

static void map_free(map_t *m)
{
    if (m) {
        free(m->first);
        free(m->member);
        free(m->index);
        free(m);
    }
}

static map_t *map_make(void)
{
    size_t n = (size_t)pgasi_boot.n_ranks, n_nodes = (size_t)pgasi_boot.n_nodes;
    map_t *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->first = calloc(n_nodes + 1, sizeof *m->first);
    m->member = calloc(n, sizeof *m->member);
    m->index = calloc(n, sizeof *m->index);
    if (!m->first || !m->member || !m->index) {
        map_free(m);
        return NULL;
    }
    for (int hops = 1; hops <= 3; hops++)
        m->grid[hops] = pgasi_route_grid((int)n_nodes, hops);
    for (size_t r = 0; r < n; r++)
        m->index[r] = m->first[pgasi_boot.node_of[r] + 1]++;
    for (size_t k = 0; k < n_nodes; k++) {
        m->node_ranks_max = PGASI_MAX(m->node_ranks_max, m->first[k + 1]);
        m->first[k + 1] += m->first[k];
    }
    for (size_t r = 0; r < n; r++)
        m->member[m->first[pgasi_boot.node_of[r]] + m->index[r]] = (int)r;
    return m;
}

/* The thread or handler that needs the map first creates it. */
static const map_t *map(void)
{
    map_t *m = __atomic_load_n(&the_map, __ATOMIC_ACQUIRE), *none = NULL;
    if (PGAS_LIKELY(m))
        return m;
    m = map_make();
    if (m && !__atomic_compare_exchange_n(&the_map, &none, m, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE)) {
        map_free(m);
        m = none;
    }
    return m;
}

int pgasi_route_node_ranks(void)
{
    const map_t *m = map();
    return m ? m->node_ranks_max : 1;
}

pgas_status_t pgasi_route_next(int hops, int rank, int *next_p)
{
    *next_p = rank;
    if (hops == 1)
        return PGAS_OK;
    const map_t *m = map();
    if (!m)
        return PGAS_ERR_NO_MEMORY;
    int there = pgasi_boot.node_of[rank];
    int node = pgasi_route_next_node(&m->grid[hops], pgasi_boot.node, there);
    if (node != there)
        *next_p =
            m->member[m->first[node] + m->index[rank] % (m->first[node + 1] - m->first[node])];
    return PGAS_OK;
}

/* ---- calls on their way ---- */

/* The word in front of the arguments. Bits 0..31: the calling thread; 32..51: the target's rank;
 * 52..63: the handler less 1. */
static uint64_t word_of(int rank, uint32_t handler)
{
    pgas_thread_t source = pgas_thread_make(pgasi_boot.rank, pgasi_self.slot);
    return source | (uint64_t)rank << 32 | (uint64_t)(handler - 1) << 52;
}

PGASI_STATIC_ASSERT(PGAS_HANDLERS_MAX <= 1 << 12, "handler numbers have 12 bits in the word");

static int target_of(uint64_t word)
{
    return (int)(word >> 32 & 0xFFFFF);
}

pgas_status_t pgasi_route_append(pgasi_sendq_t *sq, int hops, int rank, uint32_t handler,
                                 const void *args, size_t bytes)
{
    int next;
    pgas_status_t status = pgasi_route_next(hops, rank, &next);
    if (status != PGAS_OK)
        return status;
    if (next == rank)
        return pgasi_sendq_append(sq, rank, handler, args, bytes, PGAS_FULL_WAIT);
    uint64_t word = word_of(rank, handler);
    return pgasi_sendq_append_two(sq, next, hops == 2 ? PGASI_DESC_ROUTE_2 : PGASI_DESC_ROUTE_3,
                                  &word, sizeof word, args, bytes, PGAS_FULL_WAIT);
}

pgas_status_t pgasi_route_marker(pgasi_sendq_t *sq, int hops, int rank, uint64_t wire_token)
{
    int next;
    pgas_status_t status = pgasi_route_next(hops, rank, &next);
    if (status != PGAS_OK)
        return status;
    if (next == rank)
        return pgasi_sendq_marker(sq, rank, wire_token);
    uint64_t word = word_of(rank, 1);
    status =
        pgasi_sendq_append_two(sq, next,
                               hops == 2 ? PGASI_DESC_ROUTE_MARKER_2 : PGASI_DESC_ROUTE_MARKER_3,
                               &word, sizeof word, &wire_token, sizeof wire_token,
                               PGASI_FULL_ANSWER);
    if (status == PGAS_OK)
        pgasi_sendq_publish(sq, next, PGASI_PUBLISH_EXPLICIT);
    return status;
}

static __attribute__((noinline, cold)) void drop(pgas_thread_t from)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "dropped a malformed routed call of rank %d", pgas_thread_rank(from));
}

/* Calls for a rank that died are dropped, like all messages that are under way to it. On the
 * target's node calls become plain calls again. Markers do not, because their answers go to the
 * rank that sent them. */
static void pass_on(uint32_t id, int hops, const char *args, size_t bytes)
{
    uint64_t word;
    int next;
    pgasi_sendq_t *sq;
    memcpy(&word, args, sizeof word);
    pgas_status_t status = pgasi_route_next(hops, target_of(word), &next);
    if (status == PGAS_OK)
        status = pgasi_sendq_of(pgasi_ctxs[PGASI_CTX_SERVICE], &sq);
    if (status == PGAS_OK)
        status = pgasi_sendq_append_two(sq, next, id, args, bytes, NULL, 0, PGASI_FULL_ANSWER);
    if (status != PGAS_OK && status != PGAS_ERR_PEER)
        PGASI_ERROR("call", "a routed call for rank %d is lost: %s", target_of(word),
                    pgas_status_text(status));
}

static bool is_sane(uint64_t word)
{
    return target_of(word) < pgasi_boot.n_ranks &&
           pgas_thread_rank((pgas_thread_t)word) < pgasi_boot.n_ranks;
}

/* A run of calls of one size, each with its word. */
static void on_route(uint32_t id, int hops, const char *args, size_t bytes, size_t stride, size_t n,
                     pgas_thread_t from)
{
    if (bytes < sizeof(uint64_t)) {
        drop(from);
        return;
    }
    for (size_t i = 0, same; i < n; i += same, args += same * stride) {
        uint64_t word, other;
        memcpy(&word, args, sizeof word);
        same = 1;
        if (!is_sane(word)) {
            drop(from);
        } else if (target_of(word) != pgasi_boot.rank) {
            pass_on(id, hops, args, bytes);
        } else {
            while (i + same < n) {
                memcpy(&other, args + same * stride, sizeof other);
                if (other != word)
                    break;
                same++;
            }
            pgasi_handler_run((uint32_t)(word >> 52) + 1, args + sizeof word, bytes - sizeof word,
                              stride, same, (pgas_thread_t)word);
        }
    }
}

static void on_route_2(const void *args, size_t bytes, size_t stride, size_t n, pgas_thread_t from,
                       void *context)
{
    (void)context;
    on_route(PGASI_DESC_ROUTE_2, 2, args, bytes, stride, n, from);
}

static void on_route_3(const void *args, size_t bytes, size_t stride, size_t n, pgas_thread_t from,
                       void *context)
{
    (void)context;
    on_route(PGASI_DESC_ROUTE_3, 3, args, bytes, stride, n, from);
}

static void on_marker(uint32_t id, int hops, const char *args, size_t bytes, pgas_thread_t from)
{
    uint64_t part[2] = { 0 };
    if (bytes == sizeof part)
        memcpy(part, args, sizeof part);
    if (bytes != sizeof part || !is_sane(part[0]))
        drop(from);
    else if (target_of(part[0]) != pgasi_boot.rank)
        pass_on(id, hops, args, bytes);
    else
        pgasi_call_end(pgasi_call_begin((pgas_thread_t)part[0], PGASI_DESC_MARKER, part[1]),
                       PGAS_OK);
}

static void on_marker_2(const void *args, size_t bytes, pgas_thread_t from, void *context)
{
    (void)context;
    on_marker(PGASI_DESC_ROUTE_MARKER_2, 2, args, bytes, from);
}

static void on_marker_3(const void *args, size_t bytes, pgas_thread_t from, void *context)
{
    (void)context;
    on_marker(PGASI_DESC_ROUTE_MARKER_3, 3, args, bytes, from);
}

void pgasi_route_start(void)
{
    pgasi_handler_set_internal_batch(PGASI_DESC_ROUTE_2, on_route_2);
    pgasi_handler_set_internal_batch(PGASI_DESC_ROUTE_3, on_route_3);
    pgasi_handler_set_internal(PGASI_DESC_ROUTE_MARKER_2, on_marker_2);
    pgasi_handler_set_internal(PGASI_DESC_ROUTE_MARKER_3, on_marker_3);
}

void pgasi_route_stop(void)
{
    map_free(the_map);
    the_map = NULL;
}
