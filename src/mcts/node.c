/* Nodes and their edges: allocating them, ordering the moves of a node, reaching a child, and the
 * table of a graph. */
#include "mcts/node.h"

#include <math.h>

#include "base/checks.h"
#include "mcts/mcts.h"

/* ---- room ---- */

void pgasi_mcts_sum_bytes(pgas_mcts_t *m)
{
    int64_t sum = 0;
    for (int i = 0; i <= m->n_threads; i++)
        sum += __atomic_load_n(&m->worker[i].pool.used_bytes, __ATOMIC_RELAXED);
    /* The sum may exceed the limit: between two reads a worker may take
     * bytes that another one returned. */
    sum = PGASI_MIN(sum, (int64_t)m->opts.memory_bytes);
    __atomic_store_n(&m->bytes, (uint64_t)sum, __ATOMIC_RELAXED);
    uint64_t high = __atomic_load_n(&m->bytes_high, __ATOMIC_RELAXED);
    while ((uint64_t)sum > high &&
           !__atomic_compare_exchange_n(&m->bytes_high, &high, (uint64_t)sum, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* A worker takes room from the limit in shares: memory_bytes / N_SHARES / workers, at most
 * SHARE_MOST bytes. When one worker is refused, up to a share of each other worker stays unused. */
#define N_SHARES   64
#define SHARE_MOST (64 << 10)

void pgasi_mcts_share_room(pgas_mcts_t *m)
{
    int64_t used = 0, limit = (int64_t)PGASI_MIN(m->opts.memory_bytes, (size_t)INT64_MAX);
    for (int i = 0; i <= m->n_threads; i++) {
        used += m->worker[i].pool.used_bytes;
        m->worker[i].pool.room = 0;
    }
    pgasi_mcts_pool_set_room(&m->shared_pool, limit - used,
                             PGASI_MIN(limit / N_SHARES / (m->n_threads + 1), SHARE_MOST));
}

bool pgasi_mcts_has_room(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    if (++w->pool.n_checks % 32 == 0)
        pgasi_mcts_sum_bytes(m);
    if (!__atomic_load_n(&m->shared_pool.full, __ATOMIC_RELAXED))
        return true;
    w->n_refused++;
    return false;
}

/* ---- nodes ---- */

void pgasi_mcts_begin_node(const pgas_mcts_t *m, node_t *node, const void *state)
{
    memset(node, 0, sizeof *node);
    memcpy(node->state, state, m->spec.state_bytes);
    if (pgasi_mcts_outcome(m, state, proof_of(m, node)))
        node->flags = NODE_FINAL | (m->opts.no_proofs ? 0 : NODE_PROVEN);
    else
        node->player = (int8_t)pgasi_mcts_turn(m, state);
}

node_t *pgasi_mcts_make_node(worker_t *w, const void *state, int depth)
{
    node_t *node = pgasi_mcts_pool_take(&w->pool, w->mcts->node_bytes);
    if (!node) {
        w->n_refused++;
        return NULL;
    }
    pgasi_mcts_begin_node(w->mcts, node, state);
    node->depth = (uint16_t)depth;
    return node;
}

/* ---- sizes ---- */

static size_t segment_bytes(uint32_t size)
{
    return sizeof(segment_t) + size * (2 * sizeof(float) + sizeof(child_t));
}

/* Offsets in the block of a node's edges: of the first segment, of the moves, and of the end. */
static size_t first_at(uint32_t n_segments)
{
    return PGASI_ALIGN_UP(sizeof(edges_t) + n_segments * sizeof(segment_t *), 16);
}
static size_t moves_at(uint32_t n_segments)
{
    return first_at(n_segments) + segment_bytes(segment_size(0));
}
static size_t edges_bytes(uint32_t n_moves, uint32_t n_segments, bool priors)
{
    return moves_at(n_segments) +
           n_moves * (sizeof(pgas_mcts_move_t) + (priors ? sizeof(float) : 0));
}

static void free_edges(const pgas_mcts_t *m, pool_t *pool, edges_t *edges)
{
    for (uint32_t s = 1; s < edges->n_segments; s++)
        if (edges->segment[s])
            pgasi_mcts_pool_give_shared(pool, edges->segment[s],
                                        segment_bytes(edges->segment[s]->size));
    if (edges->proofs)
        pgasi_mcts_pool_give_shared(pool, edges->proofs,
                                    edges->n_moves * (size_t)m->spec.n_players * sizeof(uint32_t));
    pgasi_mcts_pool_give_shared(pool, edges,
                                edges_bytes(edges->n_moves, edges->n_segments,
                                            edges->priors != NULL));
}

void pgasi_mcts_free_node(worker_t *w, node_t *node)
{
    if (node->edges)
        free_edges(w->mcts, &w->pool, node->edges);
    pgasi_mcts_pool_give_shared(&w->pool, node, w->mcts->node_bytes);
}

/* ---- edges ---- */

static void swap_moves(edges_t *e, uint32_t i, uint32_t k)
{
    pgas_mcts_move_t move = e->moves[i];
    e->moves[i] = e->moves[k];
    e->moves[k] = move;
    if (e->priors) {
        float prior = e->priors[i];
        e->priors[i] = e->priors[k];
        e->priors[k] = prior;
    }
}

/* Puts the most promising move first. Shell's sort. */
static void sort_by_priors(edges_t *e)
{
    for (uint32_t gap = e->n_moves / 2; gap > 0; gap = gap == 2 ? 1 : (gap * 5 - 1) / 11) {
        for (uint32_t i = gap; i < e->n_moves; i++)
            for (uint32_t k = i; k >= gap && e->priors[k - gap] < e->priors[k]; k -= gap)
                swap_moves(e, k - gap, k);
    }
}

/* One draw gives four numbers of 16 bits. With at most 1024 moves left, the probabilities of two of
 * them differ by at most 1/64. */
static void shuffle(worker_t *w, edges_t *e)
{
    uint64_t bits = 0;
    uint32_t left = e->n_moves;
    for (; left > 1024; left--)
        swap_moves(e, left - 1, pgas_mcts_random_below(&w->tree_rng, left));
    for (; left > 1; left--, bits >>= 16) {
        if (left % 4 == 0 || left == e->n_moves)
            bits = pgas_mcts_random(&w->tree_rng);
        swap_moves(e, left - 1, (uint32_t)(bits & 0xFFFF) * left >> 16);
    }
}

static void order_moves(worker_t *w, edges_t *e)
{
    shuffle(w, e);
    if (e->priors && w->mcts->spec.has_priors)
        sort_by_priors(e);
}

static segment_t *begin_segment(segment_t *s, uint32_t size)
{
    memset(s, 0, segment_bytes(size));
    s->size = size;
    for (uint32_t i = 0; i < size; i++)
        s->q[i] = -HUGE_VALF;
    return s;
}

size_t pgasi_mcts_least_bytes(worker_t *w, const void *state)
{
    bool priors = w->mcts->spec.has_priors || pgasi_mcts_turn(w->mcts, state) == PGAS_MCTS_CHANCE;
    uint32_t n = pgasi_mcts_moves(w, state, priors), n_segments = n ? segment_of(n - 1) + 1 : 0;
    size_t edges = n ? pgasi_mcts_pool_block_bytes(edges_bytes(n, n_segments, priors)) : 0;
    return pgasi_mcts_pool_block_bytes(w->mcts->node_bytes) + edges;
}

static edges_t *make_edges(worker_t *w, const node_t *node)
{
    bool priors = w->mcts->spec.has_priors || node->player == PGAS_MCTS_CHANCE;
    uint32_t n = pgasi_mcts_moves(w, node->state, priors),
             n_segments = n ? segment_of(n - 1) + 1 : 0;
    edges_t *e = n ? pgasi_mcts_pool_take(&w->pool, edges_bytes(n, n_segments, priors)) : NULL;
    if (!e)
        return NULL;
    memset(e, 0, first_at(n_segments));
    e->n_moves = n;
    e->n_segments = n_segments;
    e->segment[0] =
        begin_segment((segment_t *)(void *)((char *)e + first_at(n_segments)), segment_size(0));
    e->moves = (pgas_mcts_move_t *)(void *)((char *)e + moves_at(n_segments));
    memcpy(e->moves, w->moves, n * sizeof *e->moves);
    if (priors) {
        e->priors = (float *)(void *)(e->moves + n);
        memcpy(e->priors, w->priors, n * sizeof(float));
    }
    if (node->player == PGAS_MCTS_CHANCE)
        e->n_open = n;
    else
        order_moves(w, e);
    return e;
}

bool pgasi_mcts_open(worker_t *w, node_t *node)
{
    edges_t *other = __atomic_load_n(&node->edges, __ATOMIC_ACQUIRE);
    if (PGAS_LIKELY(other))
        return true;
    edges_t *e = pgasi_mcts_has_room(w) ? make_edges(w, node) : NULL;
    if (e && !__atomic_compare_exchange_n(&node->edges, &other, e, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE)) {
        pgasi_mcts_pool_give(&w->pool, e,
                             edges_bytes(e->n_moves, e->n_segments, e->priors != NULL));
        return true;
    }
    return e;
}

static segment_t *make_segment(worker_t *w, edges_t *edges, uint32_t number)
{
    uint32_t size = segment_size(number);
    segment_t *other = NULL, *s = pgasi_mcts_pool_take(&w->pool, segment_bytes(size));
    if (!s)
        return NULL;
    begin_segment(s, size);
    if (__atomic_compare_exchange_n(&edges->segment[number], &other, s, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return s;
    pgasi_mcts_pool_give(&w->pool, s, segment_bytes(size));
    return other;
}

bool pgasi_mcts_make_child_entry(worker_t *w, edges_t *edges, uint32_t i)
{
    uint32_t number = segment_of(i);
    return __atomic_load_n(&edges->segment[number], __ATOMIC_ACQUIRE) ||
           make_segment(w, edges, number);
}

uint32_t pgasi_mcts_n_open(const node_t *node)
{
    const edges_t *e = __atomic_load_n(&node->edges, __ATOMIC_ACQUIRE);
    return e ? PGASI_MIN(__atomic_load_n(&e->n_open, __ATOMIC_ACQUIRE), e->n_moves) : 0;
}

child_t *pgasi_mcts_visited_child(const node_t *node, uint32_t i)
{
    uint32_t number = segment_of(i);
    segment_t *s = __atomic_load_n(&node->edges->segment[number], __ATOMIC_ACQUIRE);
    child_t *c = s ? &children_of(s)[i - segment_start(number)] : NULL;
    return c && __atomic_load_n(&c->visits, __ATOMIC_RELAXED) > 0 ? c : NULL;
}

/* ---- the table of a graph ---- */

node_t *pgasi_mcts_find(pgas_mcts_t *m, uint64_t hash)
{
    node_t *node = __atomic_load_n(&m->table[hash & m->table_mask], __ATOMIC_ACQUIRE);
    while (node && node->hash != hash)
        node = node->bucket;
    return node;
}

node_t *pgasi_mcts_insert(pgas_mcts_t *m, node_t *node)
{
    node_t **head = &m->table[node->hash & m->table_mask];
    for (;;) {
        node_t *first = __atomic_load_n(head, __ATOMIC_ACQUIRE),
               *other = pgasi_mcts_find(m, node->hash);
        if (other)
            return other;
        node->bucket = first;
        if (__atomic_compare_exchange_n(head, &first, node, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED))
            return node;
    }
}
