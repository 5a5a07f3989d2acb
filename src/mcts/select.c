/* Selection.
 *
 * Selection reads two floats for each child. Their owner is the thread that changes the child's
 * counts: it recomputes them (pgasi_mcts_rate). Therefore choosing among the 120 children of a full
 * board takes some dozens of nanoseconds. If two threads change one child at the same time, its
 * floats may miss one rollout; the counts are exact. */
#include "mcts/node.h"

#include <math.h>

#include "base/checks.h"
#include "mcts/mcts.h"

typedef float four_t __attribute__((vector_size(16)));
typedef int32_t four_int_t __attribute__((vector_size(16)));

#define NEVER (-1e30f) /* below every score: a proven loss */

static float prior_of(const edges_t *e, uint32_t i)
{
    return e->priors ? e->priors[i] : 1.f / (float)e->n_moves;
}

/* The mean value of the node for its player; 0.5 while nothing is known. */
static float mean_of(const node_t *node)
{
    uint64_t done = __atomic_load_n(&node->done, __ATOMIC_RELAXED);
    return done ? (float)__atomic_load_n(&node->value, __ATOMIC_RELAXED) /
                      ((float)done * (float)PGASI_MCTS_ONE)
                : .5f;
}

void pgasi_mcts_rate(const pgas_mcts_t *m, const node_t *node, uint32_t i, segment_t *s,
                     uint32_t at, const child_t *c)
{
    /* done is read before visits, so that it is never the greater one */
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

/* The best score among the first n children, and the number of the child that has it. */
static inline __attribute__((always_inline)) float find_best(const edges_t *e, uint32_t n,
                                                             float factor, uint32_t *best_p)
{
    four_t best = { -HUGE_VALF, -HUGE_VALF, -HUGE_VALF, -HUGE_VALF },
           f = { factor, factor, factor, factor };
    four_int_t best_i = { 0 }, i = { 0, 1, 2, 3 }, by = { 4, 4, 4, 4 };
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
            best_i = (more & i) | (~more & best_i);
        }
    }
    int column = 0;
    for (int k = 1; k < 4; k++)
        if (best[k] > best[column] || (best[k] == best[column] && best_i[k] < best_i[column]))
            column = k;
    *best_p = (uint32_t)best_i[column];
    return best[column];
}

/* The same with AVX2 instructions. Multiplication and addition are not fused, so the result is the
 * same. */
#ifdef __x86_64__
__attribute__((target("avx2"))) static float best_score_avx2(const edges_t *e, uint32_t n,
                                                             float factor, uint32_t *best_p)
{
    return find_best(e, n, factor, best_p);
}
#endif

static float best_score(const pgas_mcts_t *m, const edges_t *e, uint32_t n, float factor,
                        uint32_t *best_p)
{
    (void)m;
#ifdef __x86_64__
    if (PGAS_LIKELY(m->has_avx2))
        return best_score_avx2(e, n, factor, best_p);
#endif
    return find_best(e, n, factor, best_p);
}

/* The number of children that progressive widening allows a node with so many visits. */
static uint32_t allowed(const pgas_mcts_t *m, const edges_t *e, uint64_t visits)
{
    if (PGAS_LIKELY(m->opts.widening <= 0))
        return e->n_moves;
    double n = ceil(m->opts.widening * pow((double)visits, m->opts.widening_power));
    if (n < 1)
        return 1;
    return n < e->n_moves ? (uint32_t)n : e->n_moves;
}

/* Whether the next untried move of a node comes before its n children: first-play urgency. */
static bool is_urgent(const pgas_mcts_t *m, const node_t *node, const edges_t *e, uint32_t n,
                      float factor)
{
    if (n == 0 || (m->opts.policy == PGAS_MCTS_UCB1 && m->opts.fpu <= 0))
        return true;
    uint32_t best;
    float first = m->opts.fpu > 0 ? (float)m->opts.fpu : mean_of(node);
    if (m->opts.policy == PGAS_MCTS_PUCT)
        first += factor * prior_of(e, n);
    return first >= best_score(m, e, n, factor, &best);
}

static float factor_of(const pgas_mcts_t *m, uint64_t visits)
{
    float n = (float)(visits > 1 ? visits : 1);
    return m->exploration * (m->opts.policy == PGAS_MCTS_PUCT ? sqrtf(n) : sqrtf(logf(n)));
}

/* Opens the next child if that comes first, else takes the child with the best score. */
static int64_t choose(worker_t *w, const node_t *node, edges_t *e)
{
    const pgas_mcts_t *m = w->mcts;
    uint64_t visits = __atomic_load_n(&node->visits, __ATOMIC_RELAXED);
    float factor = factor_of(m, visits);
    uint32_t limit = allowed(m, e, visits), n = __atomic_load_n(&e->n_open, __ATOMIC_ACQUIRE),
             best = 0;
    if (n < limit && is_urgent(m, node, e, n, factor) && pgasi_mcts_has_room(w) &&
        pgasi_mcts_make_child_entry(w, e, n)) {
        n = __atomic_fetch_add(&e->n_open, 1, __ATOMIC_ACQ_REL);
        if (n < e->n_moves)
            return n;
    }
    n = PGASI_MIN(n, e->n_moves);
    if (n == 0)
        return -1;
    if (best_score(m, e, n, factor, &best) > -HUGE_VALF)
        return best;
    return pgas_mcts_random_below(&w->tree_rng, n); /* no child has a score yet */
}

int64_t pgasi_mcts_select(worker_t *w, node_t *node)
{
    edges_t *e = node->edges;
    int64_t i = node->player == PGAS_MCTS_CHANCE
                    ? (int64_t)pgasi_mcts_draw(&w->tree_rng, e->priors, e->n_moves)
                    : choose(w, node, e);
    return i >= 0 && pgasi_mcts_make_child_entry(w, e, (uint32_t)i) ? i : -1;
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
    pgasi_mcts_rate(w->mcts, node, i, s, at, c);
}
