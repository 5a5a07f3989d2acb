/* Backpropagation: reports are added to the counts of parents, and proofs of children become proofs
 * of parents (MCTS-Solver). */
#include "mcts/node.h"

#include "base/checks.h"
#include "mcts/mcts.h"

/* The program's probabilities may add up to more than 1, and they may be NaN. */
static uint32_t as_value(double sum)
{
    if (sum >= PGASI_MCTS_ONE)
        return PGASI_MCTS_ONE;
    return sum > 0 ? (uint32_t)(sum + .5) : 0;
}

/* Proves a node. Either child `winner` is proven with the value 1, or winner is -1 and all children
 * are proven. */
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
    if (other || !(fresh = pgasi_mcts_pool_take(&w->pool, bytes)))
        return other;
    if (__atomic_compare_exchange_n(&e->proofs, &other, fresh, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return fresh;
    pgasi_mcts_pool_give(&w->pool, fresh, bytes);
    return other;
}

/* Records that a child is proven. The first thread that arrives does it. */
static void record_proof(worker_t *w, node_t *node, uint32_t i, child_t *c, const report_t *report)
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
    c->proven_value = report->proof[player_of(node)];
    __atomic_store_n(&c->proven, 1, __ATOMIC_RELEASE);
    uint32_t n = __atomic_add_fetch(&e->n_proven, 1, __ATOMIC_ACQ_REL);
    if (node->player != PGAS_MCTS_CHANCE && c->proven_value == PGASI_MCTS_ONE)
        prove(m, node, e, i);
    else if (n == e->n_moves)
        prove(m, node, e, -1);
}

void pgasi_mcts_update_self(node_t *node, const report_t *report)
{
    __atomic_fetch_add(&node->value, report->sum[player_of(node)], __ATOMIC_RELAXED);
    __atomic_fetch_add(&node->done, report->n, __ATOMIC_RELAXED);
}

void pgasi_mcts_update(worker_t *w, node_t *node, uint32_t i, const report_t *report)
{
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    __atomic_fetch_add(&c->value, report->sum[player_of(node)], __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->done, report->n, __ATOMIC_RELAXED);
    pgasi_mcts_update_self(node, report);
    if (PGAS_UNLIKELY(report->proven) && !__atomic_load_n(&c->proven, __ATOMIC_RELAXED))
        record_proof(w, node, i, c, report);
    pgasi_mcts_rate(w->mcts, node, i, s, at, c);
}
