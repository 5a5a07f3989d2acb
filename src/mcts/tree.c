/* Nodes and their children: making them, choosing one, keeping the accounts, proofs.
 *
 *  Choosing looks at one float pair a child, q + factor * w, kept up to date by whoever changes a
 *  child's counts: a full board's 120 children cost some dozens of nanoseconds. Two threads that
 *  change one child at a time may leave a pair that is one rollout old; the counts it is made from
 *  are exact. */
#include "mcts/mcts.h"

#include <math.h>
#include <stdlib.h>

typedef float four_t __attribute__((vector_size(16)));
typedef int32_t four_int_t __attribute__((vector_size(16)));

#define NEVER (-1e30f) /* below every score: a proven loss */

/* ---- memory ---- */

void pgasi_mcts_sum_bytes(pgas_mcts_t *m)
{
    int64_t sum = 0;
    for (int i = 0; i <= m->n_threads; i++)
        sum += __atomic_load_n(&m->worker[i].pool.used_bytes, __ATOMIC_RELAXED);
    /* A worker may take bytes that another one returned between two reads. */
    sum = PGASI_MIN(sum, (int64_t)m->opts.memory_bytes);
    __atomic_store_n(&m->bytes, (uint64_t)sum, __ATOMIC_RELAXED);
    uint64_t high = __atomic_load_n(&m->bytes_high, __ATOMIC_RELAXED);
    while ((uint64_t)sum > high &&
           !__atomic_compare_exchange_n(&m->bytes_high, &high, (uint64_t)sum, true,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* per worker; the rest of other workers' shares stays unused when one is refused */
#define SHARES     64
#define SHARE_MOST (64 << 10)

void pgasi_mcts_share_room(pgas_mcts_t *m)
{
    int64_t used = 0, limit = (int64_t)PGASI_MIN(m->opts.memory_bytes, (size_t)INT64_MAX);
    for (int i = 0; i <= m->n_threads; i++) {
        used += m->worker[i].pool.used_bytes;
        m->worker[i].pool.room = 0;
    }
    pgasi_mcts_rest_begin(&m->rest, limit - used,
                          PGASI_MIN(limit / SHARES / (m->n_threads + 1), SHARE_MOST));
}

bool pgasi_mcts_has_room(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    if (++w->pool.n_since % 32 == 0)
        pgasi_mcts_sum_bytes(m);
    if (!__atomic_load_n(&m->rest.full, __ATOMIC_RELAXED))
        return true;
    w->n_refused++;
    return false;
}

void pgasi_mcts_begin_node(const pgas_mcts_t *m, node_t *node, const void *state)
{
    memset(node, 0, sizeof *node);
    memcpy(node->state, state, m->spec.state_bytes);
    if (pgasi_mcts_outcome(m, state, proof_of(m, node)))
        node->flags = NODE_FINAL | (m->opts.no_proofs ? 0 : NODE_PROVEN);
    else
        node->player = (int8_t)pgasi_mcts_turn(m, state);
}

/* In no list yet. */
node_t *pgasi_mcts_make_node(worker_t *w, const void *state, int depth)
{
    node_t *node = pgasi_mcts_take(&w->pool, w->mcts->node_bytes);
    if (!node) {
        w->n_refused++;
        return NULL;
    }
    pgasi_mcts_begin_node(w->mcts, node, state);
    node->depth = (uint16_t)depth;
    return node;
}

static uint32_t segment_of(uint32_t i)
{
    return i < 4 ? 0 : 30 - (uint32_t)__builtin_clz(i);
}
static uint32_t segment_size(uint32_t segment)
{
    return segment ? 4u << (segment - 1) : 4;
}
static uint32_t segment_start(uint32_t segment)
{
    return segment ? segment_size(segment) : 0;
}

static size_t segment_bytes(uint32_t size)
{
    return sizeof(segment_t) + size * (2 * sizeof(float) + sizeof(child_t));
}

/* Of a block: where the first segment begins, where the moves do, and where it ends. */
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
            pgasi_mcts_give_to_all(pool, edges->segment[s], segment_bytes(edges->segment[s]->size));
    if (edges->proofs)
        pgasi_mcts_give_to_all(pool, edges->proofs,
                               edges->n_moves * (size_t)m->spec.n_players * sizeof(uint32_t));
    pgasi_mcts_give_to_all(pool, edges,
                           edges_bytes(edges->n_moves, edges->n_segments, edges->priors != NULL));
}

/* At rest. */
void pgasi_mcts_free_node(worker_t *w, node_t *node)
{
    if (node->edges)
        free_edges(w->mcts, &w->pool, node->edges);
    pgasi_mcts_give_to_all(&w->pool, node, w->mcts->node_bytes);
}

/* ---- moves ---- */

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

/* The most promising first; Shell's sort. */
static void sort_by_priors(edges_t *e)
{
    for (uint32_t gap = e->n_moves / 2; gap > 0; gap = gap == 2 ? 1 : (gap * 5 - 1) / 11) {
        for (uint32_t i = gap; i < e->n_moves; i++)
            for (uint32_t k = i; k >= gap && e->priors[k - gap] < e->priors[k]; k -= gap)
                swap_moves(e, k - gap, k);
    }
}

/* Four numbers of 16 bits come out of one draw; below 1024 some are likelier than others by at most
 * 1/64. */
static void shuffle(worker_t *w, edges_t *e)
{
    uint64_t bits = 0;
    uint32_t left = e->n_moves;
    for (; left > 1024; left--)
        swap_moves(e, left - 1, pgas_mcts_below(&w->tree_rng, left));
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
    size_t edges = n ? pgasi_mcts_block_bytes(edges_bytes(n, n_segments, priors)) : 0;
    return pgasi_mcts_block_bytes(w->mcts->node_bytes) + edges;
}

static edges_t *make_edges(worker_t *w, const node_t *node)
{
    bool priors = w->mcts->spec.has_priors || node->player == PGAS_MCTS_CHANCE;
    uint32_t n = pgasi_mcts_moves(w, node->state, priors),
             n_segments = n ? segment_of(n - 1) + 1 : 0;
    edges_t *e = n ? pgasi_mcts_take(&w->pool, edges_bytes(n, n_segments, priors)) : NULL;
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
        pgasi_mcts_give(&w->pool, e, edges_bytes(e->n_moves, e->n_segments, e->priors != NULL));
        return true;
    }
    return e;
}

static segment_t *make_segment(worker_t *w, edges_t *edges, uint32_t number)
{
    uint32_t size = segment_size(number);
    segment_t *other = NULL, *s = pgasi_mcts_take(&w->pool, segment_bytes(size));
    if (!s)
        return NULL;
    begin_segment(s, size);
    if (__atomic_compare_exchange_n(&edges->segment[number], &other, s, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return s;
    pgasi_mcts_give(&w->pool, s, segment_bytes(size));
    return other;
}

/* NULL: there is none yet. */
child_t *pgasi_mcts_child(const edges_t *edges, uint32_t i, segment_t **segment_p, uint32_t *at_p)
{
    uint32_t number = segment_of(i);
    segment_t *s = __atomic_load_n(&edges->segment[number], __ATOMIC_ACQUIRE);
    if (!s)
        return NULL;
    *segment_p = s;
    *at_p = i - segment_start(number);
    return &children_of(s)[*at_p];
}

/* ---- choosing ---- */

static float prior_of(const edges_t *e, uint32_t i)
{
    return e->priors ? e->priors[i] : 1.f / (float)e->n_moves;
}

/* What who moves at the node may expect there, as far as is known. */
static float mean_of(const node_t *node)
{
    uint64_t done = __atomic_load_n(&node->done, __ATOMIC_RELAXED);
    return done ? (float)__atomic_load_n(&node->value, __ATOMIC_RELAXED) /
                      ((float)done * (float)PGASI_MCTS_ONE)
                : .5f;
}

static void rate(const pgas_mcts_t *m, const node_t *node, uint32_t i, segment_t *s, uint32_t at,
                 const child_t *c)
{
    /* first: never more than visits */
    float done = (float)__atomic_load_n(&c->done, __ATOMIC_ACQUIRE), q, w;
    float visits = (float)__atomic_load_n(&c->visits, __ATOMIC_ACQUIRE), n = visits;
    float value =
        (float)__atomic_load_n(&c->value, __ATOMIC_RELAXED) * (1.f / (float)PGASI_MCTS_ONE);
    if (__atomic_load_n(&c->proven, __ATOMIC_ACQUIRE)) {
        q = c->proven_value ? (float)c->proven_value / (float)PGASI_MCTS_ONE : NEVER;
        w = 0;
    } else {
        float losses = m->opts.pending == PGAS_MCTS_VIRTUAL_LOSS
                           ? (float)m->opts.virtual_loss * (visits - done)
                           : 0;
        if (m->opts.pending == PGAS_MCTS_VIRTUAL_LOSS)
            n = done + losses;
        else if (m->opts.pending == PGAS_MCTS_IGNORED)
            n = done;
        q = done + losses > 0 ? value / (done + losses) : mean_of(node);
        if (m->opts.policy == PGAS_MCTS_PUCT)
            w = prior_of(node->edges, i) / (1 + n);
        else
            w = 1 / sqrtf(n > 1 ? n : 1);
    }
    __atomic_store(&w_of(s)[at], &w, __ATOMIC_RELAXED);
    __atomic_store(&s->q[at], &q, __ATOMIC_RELAXED);
}

/* The best score among the first n children, and whose it is. */
static inline __attribute__((always_inline)) float find_best(const edges_t *e, uint32_t n,
                                                             float factor, uint32_t *best_p)
{
    four_t best = { -HUGE_VALF, -HUGE_VALF, -HUGE_VALF, -HUGE_VALF },
           f = { factor, factor, factor, factor };
    four_int_t who = { 0 }, i = { 0, 1, 2, 3 }, by = { 4, 4, 4, 4 };
    uint32_t last = segment_of(n - 1);
    for (uint32_t k = 0; k <= last; k++) {
        segment_t *s = __atomic_load_n(&e->segment[k], __ATOMIC_ACQUIRE);
        if (!s)
            break;
        for (uint32_t at = 0; at < s->size; at += 4, i += by) {
            four_t q, w;
            memcpy(&q, s->q + at, sizeof q);
            memcpy(&w, w_of(s) + at, sizeof w);
            four_t score = q + f * w;
            four_int_t more = score > best;
            best = (four_t)((more & (four_int_t)score) | (~more & (four_int_t)best));
            who = (more & i) | (~more & who);
        }
    }
    int ctx = 0;
    for (int k = 1; k < 4; k++)
        ctx = best[k] > best[ctx] || (best[k] == best[ctx] && who[k] < who[ctx]) ? k : ctx;
    *best_p = (uint32_t)who[ctx];
    return best[ctx];
}

/* The same, in the instructions that most machines have besides those that all have. Not fused, so
 * with the same result. */
#ifdef __x86_64__
__attribute__((target("avx2"))) static float best_score_avx2(const edges_t *e, uint32_t n,
                                                             float factor, uint32_t *best_p)
{
    return find_best(e, n, factor, best_p);
}
#endif

static float best_score(const edges_t *e, uint32_t n, float factor, uint32_t *best_p)
{
#ifdef __x86_64__
    if (PGAS_LIKELY(__builtin_cpu_supports("avx2")))
        return best_score_avx2(e, n, factor, best_p);
#endif
    return find_best(e, n, factor, best_p);
}

/* How many children a node of so many visits may have. */
static uint32_t allowed(const pgas_mcts_t *m, const edges_t *e, uint64_t visits)
{
    if (PGAS_LIKELY(m->opts.widening <= 0))
        return e->n_moves;
    double n = ceil(m->opts.widening * pow((double)visits, m->opts.widening_power));
    return n < 1 ? 1 : n < e->n_moves ? (uint32_t)n : e->n_moves;
}

/* Of a node with children that has room for one more: whether that comes next. */
static bool is_urgent(const pgas_mcts_t *m, const node_t *node, const edges_t *e, uint32_t n,
                      float factor)
{
    if (n == 0 || (m->opts.policy == PGAS_MCTS_UCB1 && m->opts.fpu <= 0))
        return true;
    uint32_t who;
    float first = m->opts.fpu > 0 ? (float)m->opts.fpu : mean_of(node);
    if (m->opts.policy == PGAS_MCTS_PUCT)
        first += factor * prior_of(e, n);
    return first >= best_score(e, n, factor, &who);
}

static float factor_of(const pgas_mcts_t *m, uint64_t visits)
{
    float n = (float)(visits > 1 ? visits : 1);
    return m->explore * (m->opts.policy == PGAS_MCTS_PUCT ? sqrtf(n) : sqrtf(logf(n)));
}

/* The entry of a child is there, now. */
static bool has_entry(worker_t *w, edges_t *e, uint32_t i)
{
    uint32_t number = segment_of(i);
    return __atomic_load_n(&e->segment[number], __ATOMIC_ACQUIRE) || make_segment(w, e, number);
}

/* The number of the child to go to; its entry is there. -1: no memory. */
int64_t pgasi_mcts_choose(worker_t *w, node_t *node)
{
    const pgas_mcts_t *m = w->mcts;
    edges_t *e = node->edges;
    int64_t i = -1;
    if (node->player == PGAS_MCTS_CHANCE) {
        i = pgasi_mcts_draw(&w->tree_rng, e->priors, e->n_moves);
    } else {
        uint64_t visits = __atomic_load_n(&node->visits, __ATOMIC_RELAXED);
        float factor = factor_of(m, visits);
        uint32_t limit = allowed(m, e, visits), n = __atomic_load_n(&e->n_open, __ATOMIC_ACQUIRE),
                 best = 0;
        if (n < limit && is_urgent(m, node, e, n, factor) && pgasi_mcts_has_room(w) &&
            has_entry(w, e, n)) {
            n = __atomic_fetch_add(&e->n_open, 1, __ATOMIC_ACQ_REL);
            i = n < e->n_moves ? (int64_t)n : -1;
        }
        if (i < 0) {
            n = PGASI_MIN(n, e->n_moves);
            if (n == 0)
                return -1;
            i = best_score(e, n, factor, &best) > -HUGE_VALF
                    ? (int64_t)best
                    : (int64_t)pgas_mcts_below(&w->tree_rng, n);
        }
    }
    return has_entry(w, e, (uint32_t)i) ? i : -1;
}

static void count_child(worker_t *w, node_t *node)
{
    w->present.children++;
    if (!(__atomic_fetch_or(&node->flags, NODE_HAS_CHILDREN, __ATOMIC_RELAXED) & NODE_HAS_CHILDREN))
        w->present.expanded++;
}

void pgasi_mcts_visit(worker_t *w, node_t *node, uint32_t i, uint32_t n)
{
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    if (__atomic_fetch_add(&c->visits, n, __ATOMIC_RELAXED) == 0)
        count_child(w, node);
    rate(w->mcts, node, i, s, at, c);
}

/* ---- reports ---- */

/* Probabilities may add up to more than 1, or be no numbers. */
static uint32_t as_value(double sum)
{
    return sum >= PGASI_MCTS_ONE ? PGASI_MCTS_ONE : sum > 0 ? (uint32_t)(sum + .5) : 0;
}

/* What is proven of a node whose children all are, or one of them as the best there can be (its
 * number; -1: all). */
static void prove(pgas_mcts_t *m, node_t *node, edges_t *e, int64_t winner)
{
    int n_players = m->spec.n_players;
    uint32_t outcome[PGAS_MCTS_PLAYERS_MAX] = { 0 }, *proof = proof_of(m, node);
    double sum[PGAS_MCTS_PLAYERS_MAX] = { 0 };
    if (__atomic_fetch_or(&node->flags, NODE_BEING_PROVEN, __ATOMIC_ACQ_REL) & NODE_BEING_PROVEN)
        return;
    for (uint32_t i = 0; winner < 0 && i < e->n_moves; i++) {
        const uint32_t *child = e->proofs + (size_t)i * (size_t)n_players;
        for (int p = 0; p < n_players && node->player == PGAS_MCTS_CHANCE; p++)
            sum[p] += (double)e->priors[i] * child[p];
        if (node->player != PGAS_MCTS_CHANCE &&
            (i == 0 || child[node->player] > outcome[node->player]))
            memcpy(outcome, child, (size_t)n_players * sizeof *outcome);
    }
    if (winner >= 0)
        memcpy(outcome, e->proofs + (size_t)winner * (size_t)n_players,
               (size_t)n_players * sizeof *outcome);
    for (int p = 0; p < n_players; p++)
        proof[p] = node->player == PGAS_MCTS_CHANCE ? as_value(sum[p]) : outcome[p];
    __atomic_fetch_or(&node->flags, NODE_PROVEN, __ATOMIC_RELEASE);
}

static uint32_t *proofs_of(worker_t *w, edges_t *e)
{
    size_t bytes = e->n_moves * (size_t)w->mcts->spec.n_players * sizeof(uint32_t);
    uint32_t *other = __atomic_load_n(&e->proofs, __ATOMIC_ACQUIRE), *fresh;
    if (other || !(fresh = pgasi_mcts_take(&w->pool, bytes)))
        return other;
    if (__atomic_compare_exchange_n(&e->proofs, &other, fresh, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return fresh;
    pgasi_mcts_give(&w->pool, fresh, bytes);
    return other;
}

/* A child is proven; one thread writes it down. */
static void note_proof(worker_t *w, node_t *node, uint32_t i, child_t *c, const report_t *report)
{
    pgas_mcts_t *m = w->mcts;
    edges_t *e = node->edges;
    int n_players = m->spec.n_players;
    uint8_t not_yet = 0;
    uint32_t *proofs = proofs_of(w, e);
    if (!proofs || !__atomic_compare_exchange_n(&c->being_proven, &not_yet, 1, false,
                                                __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    memcpy(proofs + (size_t)i * (size_t)n_players, report->proof,
           (size_t)n_players * sizeof *proofs);
    c->proven_value = report->proof[node->player == PGAS_MCTS_CHANCE ? 0 : node->player];
    __atomic_store_n(&c->proven, 1, __ATOMIC_RELEASE);
    uint32_t n = __atomic_add_fetch(&e->n_proven, 1, __ATOMIC_ACQ_REL);
    if (node->player != PGAS_MCTS_CHANCE && c->proven_value == PGASI_MCTS_ONE)
        prove(m, node, e, i);
    else if (n == e->n_moves)
        prove(m, node, e, -1);
}

/* What a child reports, into the account of its parent. */
void pgasi_mcts_update(worker_t *w, node_t *node, uint32_t i, const report_t *report)
{
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    int player = node->player == PGAS_MCTS_CHANCE ? 0 : node->player;
    __atomic_fetch_add(&c->value, report->sum[player], __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->done, report->n, __ATOMIC_RELAXED);
    __atomic_fetch_add(&node->value, report->sum[player], __ATOMIC_RELAXED);
    __atomic_fetch_add(&node->done, report->n, __ATOMIC_RELAXED);
    if (PGAS_UNLIKELY(report->proven) && !__atomic_load_n(&c->proven, __ATOMIC_RELAXED))
        note_proof(w, node, i, c, report);
    rate(w->mcts, node, i, s, at, c);
}

static int rank_of(const child_t *c)
{
    return !c->proven ? 1 : c->proven_value == PGASI_MCTS_ONE ? 2 : c->proven_value == 0 ? 0 : 1;
}

/* Which of two moves is the better one. */
bool pgasi_mcts_better(const child_t *a, const child_t *b)
{
    uint64_t visits = a->visits, others = b->visits;
    if (rank_of(a) != rank_of(b))
        return rank_of(a) > rank_of(b);
    if (visits != others)
        return visits > others;
    uint64_t done = PGASI_MAX(a->done, 1), others_done = PGASI_MAX(b->done, 1);
    return (double)a->value / (double)done > (double)b->value / (double)others_done;
}

/* ---- the table of positions ---- */

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
