/* What is done at rest: a new root, giving back what is not below it, the accounts, results. And
 * looking at the root, at any time.
 *
 * Memory comes back by marking what can be reached from the new root, over all ranks, and sweeping
 * the rest: the same for trees and for graphs of positions. */
#include <stdlib.h>

#include "base/clock.h"
#include "mcts/mcts.h"
#include "pgas/coll.h"

typedef struct {
    pgasi_ref_t child;
    uint64_t move;
} line_t;

static pgas_mcts_t *search_of(const void *args, size_t bytes)
{
    ask_t ask;
    if (bytes != sizeof ask)
        return NULL;
    memcpy(&ask, args, sizeof ask);
    return ask.id < PGASI_MCTS_SEARCHES ? pgasi_mcts_searches[ask.id] : NULL;
}

static pgas_status_t collect_stats(pgas_mcts_t *m);

/* ---- children ---- */

static uint32_t n_open(const node_t *node)
{
    const edges_t *e = __atomic_load_n(&node->edges, __ATOMIC_ACQUIRE);
    return e ? PGASI_MIN(__atomic_load_n(&e->n_open, __ATOMIC_ACQUIRE), e->n_moves) : 0;
}

/* NULL: nobody has gone there. */
static child_t *child_at(const node_t *node, uint32_t i)
{
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    return c && __atomic_load_n(&c->visits, __ATOMIC_RELAXED) > 0 ? c : NULL;
}

/* Of what chance does, what came most often. */
static bool is_better(const node_t *node, const child_t *a, const child_t *b)
{
    return node->player == PGAS_MCTS_CHANCE ? a->visits > b->visits : pgasi_mcts_better(a, b);
}

/* If the best is proven, it is that of the greatest value among all that are, however often it was
 * visited. */
static child_t *best_child(const node_t *node, uint32_t *i_p)
{
    child_t *best = NULL;
    for (uint32_t i = 0; i < n_open(node); i++) {
        child_t *c = child_at(node, i);
        if (c && (!best || is_better(node, c, best))) {
            best = c;
            *i_p = i;
        }
    }
    for (uint32_t i = 0;
         best && best->proven && node->player != PGAS_MCTS_CHANCE && i < n_open(node); i++) {
        child_t *c = child_at(node, i);
        if (c && c->proven && c->proven_value > best->proven_value) {
            best = c;
            *i_p = i;
        }
    }
    return best;
}

static child_t *child_of(const node_t *node, pgas_mcts_move_t move)
{
    for (uint32_t i = 0; i < n_open(node); i++)
        if (node->edges->moves[i] == move)
            return child_at(node, i);
    return NULL;
}

static double value_of(uint64_t value, uint64_t done, bool proven, uint32_t proven_value)
{
    if (proven)
        return (double)proven_value / PGASI_MCTS_ONE;
    return done ? (double)value / ((double)done * PGASI_MCTS_ONE) : .5;
}

/* ---- giving back ---- */

/* What is to be looked at is linked through audit. */
static void mark(worker_t *w, node_t *list)
{
    pgas_mcts_t *m = w->mcts;
    list->mark = m->epoch;
    list->audit = 0;
    while (list) {
        node_t *node = list;
        list = (node_t *)(uintptr_t)node->audit;
        for (uint32_t i = 0; i < n_open(node); i++) {
            const child_t *c = child_at(node, i);
            if (!c || !c->ref)
                continue;
            node_t *child = ref_pointer(c->ref);
            if (ref_rank(c->ref) != m->me) {
                ask_t ask = { m->id, 0, c->ref, 0 };
                pgasi_mcts_post(w, ref_rank(c->ref), HANDLER_MARK, &ask, sizeof ask);
            } else if (child->mark != m->epoch) {
                child->mark = m->epoch;
                child->audit = (uint64_t)(uintptr_t)list;
                list = child;
            }
        }
    }
    pgasi_mcts_flush(w);
}

void pgasi_mcts_handle_mark(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    pgas_mcts_t *m = search_of(args, bytes);
    const ask_t *ask = args;
    node_t *node = m ? ref_pointer(ask->node) : NULL;
    if (node && node->mark != m->epoch)
        mark(handlers_worker(m), node);
}

/* Below the root. In a graph it may be known from a shorter way than that which the roots took:
 * then it wraps. */
static uint64_t depth_of(const pgas_mcts_t *m, const node_t *node)
{
    uint16_t depth = (uint16_t)(node->depth - m->root_depth);
    return depth <= m->opts.max_depth ? depth : 0;
}

static uint64_t count_children(const node_t *node)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_open(node); i++)
        n += child_at(node, i) != NULL;
    return n;
}

static void clear_table(pgas_mcts_t *m)
{
    if (m->table)
        memset(m->table, 0, (m->table_mask + 1) * sizeof *m->table);
}

/* Also counts anew what is left. */
static void sweep(pgas_mcts_t *m)
{
    clear_table(m);
    for (int i = 0; i <= m->n_threads; i++) {
        worker_t *w = &m->worker[i];
        node_t *next, *old = w->nodes;
        w->nodes = NULL;
        memset(&w->present, 0, sizeof w->present);
        for (node_t *node = old; node; node = next) {
            next = node->next;
            if (node->mark != m->epoch) {
                pgasi_mcts_free_node(w, node);
                continue;
            }
            uint64_t n = count_children(node);
            list_node(w, node, depth_of(m, node));
            w->present.children += n;
            w->present.expanded += n > 0;
            if (m->by_steps)
                pgasi_mcts_insert(m, node);
        }
    }
    pgasi_mcts_share_room(m);
    pgasi_mcts_sum_bytes(m);
}

void pgasi_mcts_drop_all(pgas_mcts_t *m)
{
    m->root = 0;
    m->root_depth = 0;
    clear_table(m);
    for (int i = 0; i <= m->n_threads; i++) {
        m->worker[i].nodes = NULL;
        memset(&m->worker[i].present, 0, sizeof m->worker[i].present);
        pgasi_mcts_pool_reset(&m->worker[i].pool);
    }
    pgasi_mcts_share_room(m);
}

/* ---- roots ---- */

pgas_status_t pgasi_mcts_refuse(pgas_mcts_t *m)
{
    bool is_limit = __atomic_load_n(&m->rest.full, __ATOMIC_RELAXED);
    if (is_limit)
        PGASI_ERROR("mcts", "memory_bytes is %zu: the root and its moves alone take %zu",
                    m->opts.memory_bytes, pgasi_mcts_least_bytes(&m->worker[0], m->root_state));
    else
        PGASI_ERROR("mcts", "no memory for the root and its moves");
    return PGAS_ERR_NO_MEMORY;
}

/* A node for root_state here, of which nothing is known. */
static pgas_status_t add_root(pgas_mcts_t *m, uint32_t depth)
{
    node_t *root = pgasi_mcts_make_node(&m->worker[0], m->root_state, (int)depth);
    m->root = root ? ref_of(m->me, root) : 0;
    if (!root)
        return pgasi_mcts_refuse(m);
    root->mark = m->epoch;
    root->hash = m->by_steps ? m->spec.hash(m->root_state, m->spec.arg) : 0;
    list_node(&m->worker[0], root, 0);
    return PGAS_OK;
}

/* On the ranks that have one: rank 0, or all. */
static pgas_status_t make_root(pgas_mcts_t *m)
{
    m->has_root = m->me == 0 || m->opts.mode == PGAS_MCTS_ROOT;
    pgas_status_t status = m->has_root ? add_root(m, 0) : PGAS_OK;
    if (status == PGAS_OK && m->has_root && m->by_steps)
        pgasi_mcts_insert(m, ref_pointer(m->root));
    pgasi_mcts_sum_bytes(m);
    return pgasi_mcts_agree(status, 0);
}

/* Where it is, where there is one. */
static pgas_status_t tell_root(pgas_mcts_t *m, int rank)
{
    return m->opts.mode == PGAS_MCTS_ROOT ? PGAS_OK
                                          : pgas_broadcast(NULL, &m->root, sizeof m->root, rank);
}

/* A new tree at root_state. */
static pgas_status_t begin_tree(pgas_mcts_t *m)
{
    pgasi_mcts_drop_all(m);
    m->n_children = m->n_line = 0;
    pgas_status_t status = make_root(m);
    return status == PGAS_OK ? tell_root(m, 0) : status;
}

static pgas_status_t noticed(pgas_mcts_t *m, pgas_status_t status)
{
    m->broken |= status == PGAS_ERR_PEER;
    return status;
}

pgas_status_t pgas_mcts_set_state(pgas_mcts_t *m, const void *state)
{
    pgas_status_t status = pgasi_mcts_check(m);
    int32_t good = state != NULL;
    if (status == PGAS_OK)
        status = noticed(m, pgas_broadcast(NULL, &good, sizeof good, 0));
    if (status != PGAS_OK || !good)
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    pthread_mutex_lock(&m->looking);
    if (m->me == 0)
        memcpy(m->root_state, state, m->spec.state_bytes);
    status = pgas_broadcast(NULL, m->root_state, m->spec.state_bytes, 0);
    if (status == PGAS_OK)
        status = begin_tree(m);
    if (status == PGAS_OK)
        status = collect_stats(m);
    m->has_state = status == PGAS_OK;
    pthread_mutex_unlock(&m->looking);
    return noticed(m, status);
}

const void *pgas_mcts_state(const pgas_mcts_t *m)
{
    return m && m->has_state ? m->root_state : NULL;
}

static bool is_legal(pgas_mcts_t *m, pgas_mcts_move_t move)
{
    uint32_t values[PGAS_MCTS_PLAYERS_MAX], n = 0;
    if (!pgasi_mcts_outcome(m, m->root_state, values))
        n = pgasi_mcts_moves(&m->worker[0], m->root_state, false);
    while (n > 0 && m->worker[0].moves[n - 1] != move)
        n--;
    return n > 0;
}

/* All but what is below the child is given back, and it is the root. Handlers mark, one at a
 * time. */
static pgas_status_t keep_below(pgas_mcts_t *m)
{
    m->epoch++;
    pgas_status_t status = pgas_barrier(NULL); /* the epoch is everywhere before a mark comes */
    m->has_root = ref_rank(m->root) == m->me;
    if (status == PGAS_OK && m->has_root) {
        ask_t ask = { m->id, 0, m->root, 0 };
        pgasi_mcts_post(&m->worker[0], m->me, HANDLER_MARK, &ask, sizeof ask);
        pgasi_mcts_flush(&m->worker[0]);
    }
    if (status == PGAS_OK)
        status = pgas_quiesce_work(&m->work);
    if (status != PGAS_OK)
        return status;
    if (m->has_root)
        ((node_t *)ref_pointer(m->root))->up = 0;
    m->root_depth++;
    m->n_children = m->n_line = 0;
    sweep(m);
    return pgas_barrier(NULL);
}

/* No existing node is below the new root. */
static pgas_status_t begin_anew(pgas_mcts_t *m)
{
    uint32_t depth = m->root_depth;
    pgasi_mcts_drop_all(m);
    m->root_depth = depth;
    return add_root(m, depth + 1);
}

static pgas_status_t advance(pgas_mcts_t *m, pgas_mcts_move_t move)
{
    pgasi_ref_t child = 0;
    if (m->has_root) {
        const child_t *c = child_of(ref_pointer(m->root), move);
        child = c ? c->ref : 0;
    }
    uint64_t known = child != 0, all;
    pgas_status_t status = pgas_allreduce(NULL, &known, &all, 1, PGAS_UINT64, PGAS_SUM);
    if (status != PGAS_OK)
        return status;
    m->spec.apply(m->root_state, move, m->spec.arg);
    if (all == 0)
        return begin_tree(m);
    int rank = ref_rank(m->root);
    m->root = child;
    if (m->opts.mode == PGAS_MCTS_ROOT) /* whose tree has not tried it begins anew */
        status = pgasi_mcts_agree(child ? PGAS_OK : begin_anew(m), 0);
    if (status == PGAS_OK)
        status = tell_root(m, rank);
    return status == PGAS_OK ? keep_below(m) : status;
}

pgas_status_t pgas_mcts_advance(pgas_mcts_t *m, pgas_mcts_move_t move)
{
    pgas_status_t status = pgasi_mcts_check(m);
    if (status == PGAS_OK)
        status = noticed(m, pgas_broadcast(NULL, &move, sizeof move, 0));
    if (status != PGAS_OK)
        return status;
    if (!m->has_state)
        return PGAS_ERR_INVALID;
    if (!is_legal(m, move))
        return PGAS_ERR_RANGE;
    pthread_mutex_lock(&m->looking);
    status = advance(m, move);
    if (status == PGAS_OK)
        status = collect_stats(m);
    pthread_mutex_unlock(&m->looking);
    return noticed(m, status);
}

/* ---- accounts ---- */

void pgasi_mcts_handle_audit(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const ask_t *ask = args;
    if (search_of(args, bytes))
        __atomic_fetch_add(&((node_t *)ref_pointer(ask->node))->audit, ask->visits,
                           __ATOMIC_RELAXED);
}

static uint64_t tell_children(worker_t *w, node_t *node)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n_open(node); i++) {
        const child_t *c = child_at(node, i);
        if (!c)
            continue;
        ask_t ask = { w->mcts->id, 0, c->ref, c->visits };
        sum += ask.visits;
        if (c->ref)
            pgasi_mcts_post(w, ref_rank(c->ref), HANDLER_AUDIT, &ask, sizeof ask);
    }
    return sum;
}

/* Parents count what they sent to a node; what was simulated without one, for want of memory, is
 * not in its own count, and what came from parents that have been dropped is not in theirs. */
static bool is_wrong(const pgas_mcts_t *m, const node_t *node, bool refused)
{
    bool root = node == ref_pointer(m->root) && m->has_root;
    bool less = node->audit < node->visits && !m->by_steps,
         more = node->audit > node->visits && !refused;
    return node->done > node->visits || (!root && (less || more));
}

pgas_status_t pgas_mcts_audit(pgas_mcts_t *m, uint64_t *wrong_p, uint64_t *open_p)
{
    pgas_status_t status = pgasi_mcts_check(m);
    if (status != PGAS_OK || !wrong_p || !open_p)
        return status != PGAS_OK ? status : PGAS_ERR_INVALID;
    uint64_t sums[3] = { 0 }, all[3];
    worker_t *w = &m->worker[0];
    for (int i = 0; i <= m->n_threads; i++) {
        sums[2] += m->worker[i].n_refused;
        for (node_t *node = m->worker[i].nodes; node; node = node->next)
            node->audit = 0;
    }
    status = pgas_barrier(NULL);
    for (int i = 0; i <= m->n_threads && status == PGAS_OK; i++)
        for (node_t *node = m->worker[i].nodes; node; node = node->next)
            sums[0] += tell_children(w, node) > node->visits;
    pgasi_mcts_flush(w);
    if (status == PGAS_OK)
        status = pgas_quiesce_work(&m->work);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, sums + 2, all + 2, 1, PGAS_UINT64, PGAS_SUM);
    for (int i = 0; i <= m->n_threads && status == PGAS_OK; i++) {
        for (node_t *node = m->worker[i].nodes; node; node = node->next) {
            sums[0] += is_wrong(m, node, all[2] > 0);
            sums[1] += node->visits - node->done;
        }
    }
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, sums, all, 2, PGAS_UINT64, PGAS_SUM);
    if (status == PGAS_OK) {
        *wrong_p = all[0];
        *open_p = all[1];
    }
    return noticed(m, status);
}

/* ---- results ---- */

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

static int by_rank(const void *a, const void *b)
{
    child_t x = as_child(a), y = as_child(b);
    return pgasi_mcts_better(&x, &y) ? -1 : pgasi_mcts_better(&y, &x) ? 1 : by_move(a, b);
}

/* All legal moves of the root, by number. */
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

/* What this rank's own root knows of them. */
static void take_own(pgas_mcts_t *m, uint32_t n, sums_t *sums, uint32_t *proofs)
{
    const node_t *root = m->has_root ? ref_pointer(m->root) : NULL;
    for (uint32_t i = 0; root && i < n_open(root); i++) {
        const child_t *c = child_at(root, i);
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
        n ? pgas_allreduce(NULL, sums, all, 3 * (size_t)n, PGAS_UINT64, PGAS_SUM) : PGAS_OK;
    if (status == PGAS_OK && n)
        status = pgas_allreduce(NULL, proofs, best, n, PGAS_UINT32, PGAS_MAX);
    for (uint32_t i = 0; i < n && status == PGAS_OK; i++) {
        pgas_mcts_child_t *c = &m->children[i];
        c->visits = all[i].visits;
        c->proven = best[i] > 0;
        c->value = value_of(all[i].value, all[i].done, c->proven, best[i] - 1);
    }
    qsort(m->children, n, sizeof *m->children, by_rank);
    m->n_children = status == PGAS_OK ? n : 0;
    free(sums);
    free(proofs);
    return status;
}

void pgasi_mcts_handle_line(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const ask_t *ask = args;
    line_t line = { 0, PGAS_MCTS_NO_MOVE };
    if (search_of(args, bytes)) {
        const node_t *node = ref_pointer(ask->node);
        uint32_t i = 0;
        const child_t *c =
            ask->move != PGAS_MCTS_NO_MOVE ? child_of(node, ask->move) : best_child(node, &i);
        line.move = !c                               ? PGAS_MCTS_NO_MOVE
                    : ask->move != PGAS_MCTS_NO_MOVE ? ask->move
                                                     : node->edges->moves[i];
        line.child = c ? c->ref : 0;
    }
    pgas_reply(&line, sizeof line);
}

/* Rank 0 asks from node to node. */
static pgas_status_t collect_line(pgas_mcts_t *m)
{
    pgas_status_t status = PGAS_OK;
    pgas_mcts_move_t line[PGAS_MCTS_PV_MAX + 1] = { 0 }; /* the last: how many */
    if (m->me == 0) {
        line_t answer = { m->root, 0 };
        ask_t ask = { m->id, m->info.best, 0, 0 };
        uint32_t n = 0;
        while (n < PGAS_MCTS_PV_MAX && answer.child && m->info.best != PGAS_MCTS_NO_MOVE &&
               status == PGAS_OK) {
            ask.node = answer.child;
            status = pgas_call_return(ref_rank(ask.node), pgasi_mcts_handlers[HANDLER_LINE], &ask,
                                      sizeof ask, &answer, sizeof answer, NULL);
            if (status != PGAS_OK || answer.move == PGAS_MCTS_NO_MOVE)
                break;
            line[n++] = (pgas_mcts_move_t)answer.move;
            ask.move = PGAS_MCTS_NO_MOVE;
        }
        if (n == 0 && m->info.best != PGAS_MCTS_NO_MOVE)
            line[n++] = m->info.best; /* mode ROOT: only other ranks' roots have tried it */
        line[PGAS_MCTS_PV_MAX] = n;
    }
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, line, sizeof line, 0);
    m->n_line = status == PGAS_OK ? line[PGAS_MCTS_PV_MAX] : 0;
    memcpy(m->line, line, sizeof m->line);
    return status;
}

static pgas_status_t collect_info(pgas_mcts_t *m)
{
    const node_t *root = m->has_root ? ref_pointer(m->root) : NULL;
    uint64_t visits = root ? root->visits : 0, all;
    uint32_t player = root && root->player > 0 ? (uint32_t)root->player : 0;
    uint32_t proven = root && (root->flags & NODE_PROVEN)
                          ? 1 + proof_of(m, (node_t *)ref_pointer(m->root))[player]
                          : 0,
             known;
    pgas_status_t status = pgas_allreduce(NULL, &visits, &all, 1, PGAS_UINT64, PGAS_SUM);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, &proven, &known, 1, PGAS_UINT32, PGAS_MAX);
    if (status == PGAS_OK)
        status = pgas_broadcast(NULL, &m->info.seconds, sizeof m->info.seconds, 0);
    if (status != PGAS_OK)
        return status;
    const pgas_mcts_child_t *best = m->n_children && m->children[0].visits ? &m->children[0] : NULL;
    m->info.visits = all;
    m->info.best = best ? best->move : PGAS_MCTS_NO_MOVE;
    m->info.value = best ? best->value : .5;
    m->info.proven = known > 0;
    if (known > 0)
        m->info.value = (double)(known - 1) / PGASI_MCTS_ONE;
    return PGAS_OK;
}

/* As best_child does. */
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

typedef struct {
    counts_t counts;
    uint64_t nodes, bytes, expanded, children, depths, threads;
} totals_t;
#define TOTALS (sizeof(totals_t) / sizeof(uint64_t))

static void fill_stats(pgas_mcts_t *m, const totals_t *t, const uint64_t *most)
{
    const counts_t *c = &t->counts;
    pgas_mcts_stats_t *s = &m->stats;
    double thread_seconds = m->info.seconds * (double)t->threads;
    *s = (pgas_mcts_stats_t){ sizeof *s,
                              m->info.rollouts,
                              m->info.lost,
                              c->playouts,
                              c->final_states,
                              t->nodes,
                              t->bytes,
                              most[0],
                              t->expanded,
                              t->children,
                              most[1],
                              t->nodes ? (double)t->depths / (double)t->nodes : 0,
                              c->selections,
                              c->remote,
                              c->deferred,
                              c->reports,
                              c->reports_remote,
                              c->combined,
                              c->shared,
                              c->transpositions,
                              m->n_phases,
                              m->info.seconds,
                              0,
                              0,
                              1 };
    if (thread_seconds > 0) {
        s->rollouts_per_second_thread = (double)m->info.rollouts / thread_seconds;
        s->playouts_per_second_thread = (double)c->playouts / thread_seconds;
    }
    if (c->playouts)
        s->imbalance = (double)most[2] * (double)t->threads / (double)c->playouts;
}

/* What was counted in the last search, and what is there now. */
static pgas_status_t collect_stats(pgas_mcts_t *m)
{
    uint64_t most[3] = { 0, 0, 0 }, all_most[3];
    union {
        totals_t t;
        uint64_t word[TOTALS];
    } mine, all;
    memset(&mine, 0, sizeof mine);
    for (int i = 0; i <= m->n_threads; i++) {
        uint64_t word[sizeof(counts_t) / sizeof(uint64_t)];
        memcpy(word, &m->worker[i].counts, sizeof word);
        for (size_t k = 0; k < PGASI_ARRAY_LENGTH(word); k++)
            mine.word[k] += word[k];
        most[2] = PGASI_MAX(most[2], m->worker[i].counts.playouts);
        const present_t *present = &m->worker[i].present;
        mine.t.nodes += present->nodes;
        mine.t.expanded += present->expanded;
        mine.t.children += present->children;
        mine.t.depths += present->depths;
        most[1] = PGASI_MAX(most[1], present->depth_max);
    }
    mine.t.threads = (uint64_t)m->n_threads;
    pgasi_mcts_sum_bytes(m);
    mine.t.bytes = m->bytes;
    most[0] = m->bytes_high;
    pgas_status_t status = pgas_allreduce(NULL, mine.word, all.word, TOTALS, PGAS_UINT64, PGAS_SUM);
    if (status == PGAS_OK)
        status = pgas_allreduce(NULL, most, all_most, 3, PGAS_UINT64, PGAS_MAX);
    if (status == PGAS_OK)
        fill_stats(m, &all.t, all_most);
    return status;
}

pgas_status_t pgasi_mcts_collect(pgas_mcts_t *m)
{
    pgas_status_t status = collect_children(m);
    put_best_proven_first(m);
    if (status == PGAS_OK)
        status = collect_info(m);
    if (status == PGAS_OK)
        status = collect_line(m);
    return status == PGAS_OK ? collect_stats(m) : status;
}

/* ---- looking ---- */

/* At this rank's root, as it is. */
void pgasi_mcts_peek(const pgas_mcts_t *m, pgas_mcts_info_t *info)
{
    node_t *root = ref_pointer(m->root);
    uint32_t i = 0;
    const child_t *best = best_child(root, &i);
    uint32_t player = root->player > 0 ? (uint32_t)root->player : 0;
    *info = m->info;
    info->best = best ? root->edges->moves[i] : PGAS_MCTS_NO_MOVE;
    info->value = best ? value_of(best->value, best->done, best->proven, best->proven_value) : .5;
    info->visits = root->visits;
    info->proven = root->flags & NODE_PROVEN;
    if (info->proven)
        info->value = (double)proof_of(m, root)[player] / PGASI_MCTS_ONE;
    if (m->begin_ns) {
        info->rollouts = __atomic_load_n(&m->completed, __ATOMIC_RELAXED);
        info->seconds = (double)(pgasi_now_ns() - m->begin_ns) * 1e-9;
    }
}

void pgasi_mcts_handle_look(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    pgas_mcts_t *m = search_of(args, bytes);
    look_t look;
    memset(&look, 0, sizeof look);
    look.info.best = PGAS_MCTS_NO_MOVE;
    look.info.value = .5;
    if (m && pthread_mutex_trylock(&m->looking) == 0) {
        if (m->has_root && m->root)
            pgasi_mcts_peek(m, &look.info);
        /* it has moved away: who asks will hear where to */
        look.busy = m->has_state && !m->has_root && !m->broken;
        pthread_mutex_unlock(&m->looking);
    } else {
        look.busy = m != NULL;
    }
    pgas_reply(&look, sizeof look);
}
