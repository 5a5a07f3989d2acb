/* The root: setting the state of a search, and advancing by a move. */
#include "mcts/mcts.h"
#include "pgas/coll.h"

pgas_status_t pgasi_mcts_refuse(pgas_mcts_t *m)
{
    bool is_limit = __atomic_load_n(&m->shared_pool.full, __ATOMIC_RELAXED);
    if (is_limit)
        PGASI_ERROR("mcts", "memory_bytes is %zu: the root and its moves alone take %zu",
                    m->opts.memory_bytes, pgasi_mcts_least_bytes(&m->worker[0], m->root_state));
    else
        PGASI_ERROR("mcts", "no memory for the root and its moves");
    return PGAS_ERR_NO_MEMORY;
}

/* Makes a new node for root_state on this rank. */
static pgas_status_t add_root(pgas_mcts_t *m, uint32_t depth)
{
    node_t *root = pgasi_mcts_make_node(&m->worker[0], m->root_state, (int)depth);
    m->root = root ? id_of(m->me, root) : 0;
    if (!root)
        return pgasi_mcts_refuse(m);
    root->mark = m->epoch;
    root->hash = m->is_graph ? m->spec.hash(m->root_state, m->spec.arg) : 0;
    list_node(&m->worker[0], root, 0);
    return PGAS_OK;
}

/* Makes the root on the ranks that have one: rank 0, or in mode ROOT all. */
static pgas_status_t make_root(pgas_mcts_t *m)
{
    m->has_root = m->me == 0 || m->opts.mode == PGAS_MCTS_ROOT;
    pgas_status_t status = m->has_root ? add_root(m, 0) : PGAS_OK;
    if (status == PGAS_OK && m->has_root && m->is_graph)
        pgasi_mcts_insert(m, id_pointer(m->root));
    pgasi_mcts_sum_bytes(m);
    return pgasi_mcts_agree(status, 0);
}

/* All ranks learn the id of the one root from its rank. */
static pgas_status_t announce_root(pgas_mcts_t *m, int rank)
{
    if (m->opts.mode == PGAS_MCTS_ROOT)
        return PGAS_OK;
    return pgas_broadcast(NULL, &m->root, sizeof m->root, rank);
}

/* Begins a new tree at root_state. */
static pgas_status_t begin_tree(pgas_mcts_t *m)
{
    m->root = 0;
    m->root_depth = 0;
    m->n_children = m->n_pv = 0;
    pgasi_mcts_drop_all(m);
    pgas_status_t status = make_root(m);
    return status == PGAS_OK ? announce_root(m, 0) : status;
}

static pgas_status_t set_state(pgas_mcts_t *m, const void *state)
{
    if (m->me == 0)
        memcpy(m->root_state, state, m->spec.state_bytes);
    pgas_status_t status = pgas_broadcast(NULL, m->root_state, m->spec.state_bytes, 0);
    if (status == PGAS_OK)
        status = begin_tree(m);
    return status == PGAS_OK ? pgasi_mcts_collect_info(m) : status;
}

pgas_status_t pgas_mcts_set_state(pgas_mcts_t *m, const void *state)
{
    pgas_status_t status = pgasi_mcts_check(m);
    int32_t good = state != NULL;
    if (status == PGAS_OK)
        status = pgasi_mcts_note_death(m, pgas_broadcast(NULL, &good, sizeof good, 0));
    if (status != PGAS_OK || !good)
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    pthread_mutex_lock(&m->root_lock);
    status = set_state(m, state);
    m->has_state = status == PGAS_OK;
    pthread_mutex_unlock(&m->root_lock);
    return pgasi_mcts_note_death(m, status);
}

const void *pgas_mcts_state(const pgas_mcts_t *m)
{
    return m && m->has_state ? m->root_state : NULL;
}

/* ---- advancing ---- */

static bool is_legal(pgas_mcts_t *m, pgas_mcts_move_t move)
{
    uint32_t values[PGAS_MCTS_PLAYERS_MAX], n = 0;
    if (!pgasi_mcts_outcome(m, m->root_state, values))
        n = pgasi_mcts_moves(&m->worker[0], m->root_state, false);
    while (n > 0 && m->worker[0].moves[n - 1] != move)
        n--;
    return n > 0;
}

/* Mode ROOT, on a rank whose tree has not tried the move: no node exists below the new root. */
static pgas_status_t begin_anew(pgas_mcts_t *m)
{
    pgasi_mcts_drop_all(m);
    return add_root(m, m->root_depth + 1);
}

/* m->root, the child of the old root, becomes the root. Nodes that are not below it are freed. */
static pgas_status_t keep_child(pgas_mcts_t *m)
{
    m->has_root = id_rank(m->root) == m->me;
    m->n_children = m->n_pv = 0;
    m->root_depth++;
    if (m->has_root)
        ((node_t *)id_pointer(m->root))->parent = 0;
    return pgasi_mcts_keep_below_root(m);
}

static pgas_status_t advance(pgas_mcts_t *m, pgas_mcts_move_t move)
{
    node_id_t child = 0;
    if (m->has_root) {
        const child_t *c = pgasi_mcts_child_of_move(id_pointer(m->root), move);
        child = c ? c->id : 0;
    }
    uint64_t known = child != 0, all;
    pgas_status_t status = pgas_allreduce(NULL, &known, &all, 1, PGAS_U64, PGAS_ADD);
    if (status != PGAS_OK)
        return status;
    m->spec.apply(m->root_state, move, m->spec.arg);
    if (all == 0)
        return begin_tree(m);
    int rank = id_rank(m->root);
    m->root = child;
    if (m->opts.mode == PGAS_MCTS_ROOT)
        status = pgasi_mcts_agree(child ? PGAS_OK : begin_anew(m), 0);
    if (status == PGAS_OK)
        status = announce_root(m, rank);
    return status == PGAS_OK ? keep_child(m) : status;
}

pgas_status_t pgas_mcts_advance(pgas_mcts_t *m, pgas_mcts_move_t move)
{
    pgas_status_t status = pgasi_mcts_check(m);
    if (status == PGAS_OK)
        status = pgasi_mcts_note_death(m, pgas_broadcast(NULL, &move, sizeof move, 0));
    if (status != PGAS_OK)
        return status;
    if (!m->has_state)
        return PGAS_ERR_INVALID;
    if (!is_legal(m, move))
        return PGAS_ERR_RANGE;
    pthread_mutex_lock(&m->root_lock);
    status = advance(m, move);
    if (status == PGAS_OK)
        status = pgasi_mcts_collect_info(m);
    pthread_mutex_unlock(&m->root_lock);
    return pgasi_mcts_note_death(m, status);
}
