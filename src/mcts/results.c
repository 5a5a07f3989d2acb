/* The results of a search, the same on all ranks: the children of the root, the principal
 * variation, and the value of the root. */
#include <stdlib.h>

#include "mcts/message.h"
#include "pgas/coll.h"

/* ---- the best child ---- */

/* -1: a proven loss; 1: a proven win; 0: anything else. */
static int proven_sign(const child_t *c)
{
    if (!c->proven)
        return 0;
    return (c->proven_value == PGASI_MCTS_ONE) - (c->proven_value == 0);
}

/* Compares moves of a player: proven wins and losses, then visits, then mean value. */
static bool is_better_move(const child_t *a, const child_t *b)
{
    if (proven_sign(a) != proven_sign(b))
        return proven_sign(a) > proven_sign(b);
    if (a->visits != b->visits)
        return a->visits > b->visits;
    uint64_t a_done = PGASI_MAX(a->done, 1), b_done = PGASI_MAX(b->done, 1);
    return (double)a->value / (double)a_done > (double)b->value / (double)b_done;
}

/* At a chance node the best child is the one that was drawn most often. */
static bool is_better(const node_t *node, const child_t *a, const child_t *b)
{
    return node->player == PGAS_MCTS_CHANCE ? a->visits > b->visits : is_better_move(a, b);
}

/* If the best child is proven, the result is the proven child with the greatest value. Its number
 * of visits does not matter then. */
child_t *pgasi_mcts_best_child(const node_t *node, uint32_t *i_p)
{
    child_t *best = NULL;
    uint32_t n = pgasi_mcts_n_open(node);
    for (uint32_t i = 0; i < n; i++) {
        child_t *c = pgasi_mcts_visited_child(node, i);
        if (c && (!best || is_better(node, c, best))) {
            best = c;
            *i_p = i;
        }
    }
    if (!best || !best->proven || node->player == PGAS_MCTS_CHANCE)
        return best;
    for (uint32_t i = 0; i < n; i++) {
        child_t *c = pgasi_mcts_visited_child(node, i);
        if (c && c->proven && c->proven_value > best->proven_value) {
            best = c;
            *i_p = i;
        }
    }
    return best;
}

child_t *pgasi_mcts_child_of_move(const node_t *node, pgas_mcts_move_t move)
{
    for (uint32_t i = 0; i < pgasi_mcts_n_open(node); i++)
        if (node->edges->moves[i] == move)
            return pgasi_mcts_visited_child(node, i);
    return NULL;
}

double pgasi_mcts_value(uint64_t value, uint64_t done, bool proven, uint32_t proven_value)
{
    if (proven)
        return (double)proven_value / PGASI_MCTS_ONE;
    return done ? (double)value / ((double)done * PGASI_MCTS_ONE) : .5;
}

/* ---- the children of the root ---- */

typedef struct {
    uint64_t visits, done, value;
} sums_t;

static int by_move(const void *a, const void *b)
{
    const pgas_mcts_child_t *x = a, *y = b;
    return x->move < y->move ? -1 : x->move > y->move;
}

static child_t as_child(const pgas_mcts_child_t *x)
{
    child_t c = { 0 };
    c.visits = x->visits;
    c.done = 1;
    c.value = (uint64_t)(x->value * PGASI_MCTS_ONE * 4096);
    c.proven = x->proven;
    c.proven_value = (uint32_t)(x->value * PGASI_MCTS_ONE + .5);
    return c;
}

static int by_quality(const void *a, const void *b)
{
    child_t x = as_child(a), y = as_child(b);
    if (is_better_move(&x, &y))
        return -1;
    return is_better_move(&y, &x) ? 1 : by_move(a, b);
}

/* Lists all legal moves of the root, ordered by their numbers. */
static uint32_t list_moves(pgas_mcts_t *m)
{
    worker_t *w = &m->worker[0];
    uint32_t values[PGAS_MCTS_PLAYERS_MAX];
    if (pgasi_mcts_outcome(m, m->root_state, values))
        return 0;
    bool priors = m->spec.has_priors || pgasi_mcts_turn(m, m->root_state) == PGAS_MCTS_CHANCE;
    uint32_t n = pgasi_mcts_moves(w, m->root_state, priors);
    for (uint32_t i = 0; i < n; i++)
        m->children[i] = (pgas_mcts_child_t){ w->moves[i], 0, .5,
                                              priors ? (double)w->priors[i] : 1. / n, false };
    qsort(m->children, n, sizeof *m->children, by_move);
    return n;
}

/* Stores the counts of this rank's root for the n listed moves. proofs: 0, or 1 + the proven
 * value. */
static void take_own(pgas_mcts_t *m, uint32_t n, sums_t *sums, uint32_t *proofs)
{
    const node_t *root = m->has_root ? id_pointer(m->root) : NULL;
    for (uint32_t i = 0; root && i < pgasi_mcts_n_open(root); i++) {
        const child_t *c = pgasi_mcts_visited_child(root, i);
        pgas_mcts_child_t key = { root->edges->moves[i], 0, 0, 0, false };
        const pgas_mcts_child_t *at = c ? bsearch(&key, m->children, n, sizeof key, by_move) : NULL;
        if (!at)
            continue;
        size_t k = (size_t)(at - m->children);
        sums[k] = (sums_t){ c->visits, c->done, c->value };
        proofs[k] = c->proven ? 1 + c->proven_value : 0;
    }
}

static pgas_status_t collect_children(pgas_mcts_t *m)
{
    uint32_t n = list_moves(m);
    sums_t *sums = calloc(2 * (size_t)n + 1, sizeof *sums), *all = sums + n;
    uint32_t *proofs = calloc(2 * (size_t)n + 1, sizeof *proofs), *best = proofs + n;
    if (!sums || !proofs)
        pgasi_fatal("mcts", "no memory for the results of a search");
    take_own(m, n, sums, proofs);
    pgas_status_t status =
        n ? pgas_allreduce(NULL, sums, all, 3 * (size_t)n, PGAS_U64, PGAS_ADD) : PGAS_OK;
    if (status == PGAS_OK && n)
        status = pgas_allreduce(NULL, proofs, best, n, PGAS_U32, PGAS_MAX);
    for (uint32_t i = 0; i < n && status == PGAS_OK; i++) {
        pgas_mcts_child_t *c = &m->children[i];
        c->visits = all[i].visits;
        c->proven = best[i] > 0;
        c->value = pgasi_mcts_value(all[i].value, all[i].done, c->proven, best[i] - 1);
    }
    qsort(m->children, n, sizeof *m->children, by_quality);
    m->n_children = status == PGAS_OK ? n : 0;
    free(sums);
    free(proofs);
    return status;
}

/* The rule of pgasi_mcts_best_child, for the collected children. */
static void put_best_proven_first(pgas_mcts_t *m)
{
    size_t best = 0;
    for (size_t i = 0; i < m->n_children && m->children[0].proven; i++)
        if (m->children[i].proven && m->children[i].value > m->children[best].value)
            best = i;
    if (best > 0) {
        pgas_mcts_child_t c = m->children[best];
        memmove(m->children + 1, m->children, best * sizeof c);
        m->children[0] = c;
    }
}

/* ---- the value of the root ---- */

static pgas_status_t collect_result(pgas_mcts_t *m)
{
    node_t *root = m->has_root ? id_pointer(m->root) : NULL;
    uint64_t visits = root ? root->visits : 0, all;
    uint32_t proven = 0, known;
    if (root && (root->flags & NODE_PROVEN))
        proven = 1 + proof_of(m, root)[player_of(root)];
    pgas_status_t status = pgas_allreduce(NULL, &visits, &all, 1, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &proven, &known, 1, PGAS_U32, PGAS_MAX);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &m->result.seconds, sizeof m->result.seconds, 0);
    if (status != PGAS_OK)
        return status;
    const pgas_mcts_child_t *best = m->n_children && m->children[0].visits ? &m->children[0] : NULL;
    m->result.visits = all;
    m->result.best = best ? best->move : PGAS_MCTS_NO_MOVE;
    m->result.value = best ? best->value : .5;
    m->result.proven = known > 0;
    if (known > 0)
        m->result.value = (double)(known - 1) / PGASI_MCTS_ONE;
    return PGAS_OK;
}

/* ---- the principal variation ---- */

void pgasi_mcts_handle_pv(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const node_message_t *message = args;
    pv_answer_t answer = { 0, PGAS_MCTS_NO_MOVE };
    if (pgasi_mcts_search_of_node(args, bytes)) {
        const node_t *node = id_pointer(message->node);
        uint32_t i = 0;
        bool any = message->move == PGAS_MCTS_NO_MOVE;
        const child_t *c =
            any ? pgasi_mcts_best_child(node, &i) : pgasi_mcts_child_of_move(node, message->move);
        if (c) {
            answer.move = any ? node->edges->moves[i] : message->move;
            answer.child = c->id;
        }
    }
    pgas_reply(&answer, sizeof answer);
}

/* Rank 0 follows the best moves from node to node. Returns their number in *n_p. */
static pgas_status_t follow_best_moves(pgas_mcts_t *m, pgas_mcts_move_t *moves, uint32_t *n_p)
{
    pgas_status_t status = PGAS_OK;
    pv_answer_t answer = { m->root, 0 };
    node_message_t message = { m->id, m->result.best, 0, 0 };
    uint32_t n = 0;
    *n_p = 0;
    if (m->result.best == PGAS_MCTS_NO_MOVE)
        return PGAS_OK;
    while (n < PGAS_MCTS_VARIATION_MAX && answer.child && status == PGAS_OK) {
        message.node = answer.child;
        status = pgas_call_return(id_rank(message.node), pgasi_mcts_registry.handler[HANDLER_PV],
                                  &message, sizeof message, &answer, sizeof answer);
        if (status != PGAS_OK || answer.move == PGAS_MCTS_NO_MOVE)
            break;
        moves[n++] = (pgas_mcts_move_t)answer.move;
        message.move = PGAS_MCTS_NO_MOVE;
    }
    if (n == 0) /* mode ROOT: only roots of other ranks have tried the best move */
        moves[n++] = m->result.best;
    *n_p = n;
    return status;
}

static pgas_status_t collect_pv(pgas_mcts_t *m)
{
    pgas_status_t status = PGAS_OK;
    pgas_mcts_move_t pv[PGAS_MCTS_VARIATION_MAX + 1] = { 0 }; /* the last word is their number */
    if (m->me == 0)
        status = follow_best_moves(m, pv, &pv[PGAS_MCTS_VARIATION_MAX]);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, pv, sizeof pv, 0);
    m->n_pv = status == PGAS_OK ? pv[PGAS_MCTS_VARIATION_MAX] : 0;
    memcpy(m->pv, pv, sizeof m->pv);
    return status;
}

pgas_status_t pgasi_mcts_collect(pgas_mcts_t *m)
{
    pgas_status_t status = collect_children(m);
    put_best_proven_first(m);
    if (status == PGAS_OK)
        status = collect_result(m);
    if (status == PGAS_OK)
        status = collect_pv(m);
    return status == PGAS_OK ? pgasi_mcts_collect_info(m) : status;
}

/* ---- queries ---- */

pgas_status_t pgas_mcts_children(const pgas_mcts_t *m, pgas_mcts_child_t *children, size_t n_max,
                                 size_t *n_p)
{
    if (!pgasi_mcts_is_live(m) || !n_p || (n_max && !children))
        return PGAS_ERR_INVALID;
    if (n_max)
        memcpy(children, m->children, PGASI_MIN(n_max, m->n_children) * sizeof *children);
    *n_p = m->n_children;
    return PGAS_OK;
}

pgas_status_t pgas_mcts_variation(const pgas_mcts_t *m, pgas_mcts_move_t *moves, size_t n_max,
                                  size_t *n_p)
{
    if (!pgasi_mcts_is_live(m) || !n_p || (n_max && !moves))
        return PGAS_ERR_INVALID;
    if (n_max)
        memcpy(moves, m->pv, PGASI_MIN(n_max, m->n_pv) * sizeof *moves);
    *n_p = m->n_pv;
    return PGAS_OK;
}
