/* The path of a rollout: down from the root, through nodes of this rank by plain memory accesses
 * and to nodes of other ranks by messages; a simulation at its end; the report back up.
 *
 * Down and up call each other, so they are in one file: the first report of a child lets the
 * rollouts that wait for the child go down, and a proven node is reported up at once. */
#include "mcts/walk.h"

#include <stdlib.h>

#define OFTEN 64 /* a child with more visits is taken to be in a cache */

static void go_to_child(worker_t *w, node_t *node, const rollouts_t *rollouts);

/* ---- up ---- */

static void forward_deferred(worker_t *w, node_t *node, child_t *c)
{
    path_t *next;
    for (path_t *path = __atomic_exchange_n(&c->deferred, NULL, __ATOMIC_SEQ_CST); path;
         path = next) {
        next = path->next;
        rollouts_t rollouts = path->rollouts;
        pgasi_mcts_path_give(w, path);
        go_to_child(w, node, &rollouts);
    }
}

void pgasi_mcts_link(worker_t *w, node_t *node, uint32_t i, node_id_t child)
{
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    if (PGAS_LIKELY(__atomic_load_n(&c->id, __ATOMIC_RELAXED)))
        return;
    if (child)
        __atomic_store_n(&c->id, child, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(&c->being_made, 0, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&c->deferred, __ATOMIC_SEQ_CST))
        forward_deferred(w, node, c);
}

/* Puts the id of the node into a report, and its proof if there is one. */
static void describe(pgas_mcts_t *m, node_t *node, report_t *r)
{
    r->child_id = id_of(m->me, node);
    r->proven = __atomic_load_n(&node->flags, __ATOMIC_ACQUIRE) & NODE_PROVEN;
    if (PGAS_UNLIKELY(r->proven))
        memcpy(r->proof, proof_of(m, node), (size_t)m->spec.n_players * sizeof *r->proof);
}

void pgasi_mcts_deliver_here(worker_t *w, node_id_t *parent_p, uint32_t *child_p, report_t *r)
{
    node_t *node = id_pointer(*parent_p);
    uint32_t i = *child_p;
    w->counts.reports++;
    if (id_is_path(*parent_p)) {
        path_t *path = id_pointer(*parent_p);
        node = path->node;
        i = path->child;
        *parent_p = path->rollouts.parent;
        *child_p = path->rollouts.child;
        if (__atomic_sub_fetch(&path->outstanding, r->n, __ATOMIC_ACQ_REL) == 0)
            pgasi_mcts_path_give(w, path);
    } else {
        *parent_p = node->parent;
        *child_p = node->number;
    }
    if (PGAS_UNLIKELY(i == SELF)) {
        pgasi_mcts_update_self(node, r);
    } else {
        pgasi_mcts_link(w, node, i, r->child_id);
        pgasi_mcts_update(w, node, i, r);
    }
    describe(w->mcts, node, r);
}

void pgasi_mcts_deliver(worker_t *w, node_id_t parent, uint32_t child, report_t *r)
{
    pgas_mcts_t *m = w->mcts;
    while (parent) {
        if (id_rank(parent) != m->me || m->opts.always_call) {
            pgasi_mcts_combine(w, parent, child, r);
            return;
        }
        pgasi_mcts_deliver_here(w, &parent, &child, r);
    }
    w->counts.rollouts += r->n;
    w->n_completed += r->n;
    if (is_handlers_worker(w))
        pgasi_mcts_add_completed(w);
}

/* ---- jobs ---- */

static void sum_proof(const pgas_mcts_t *m, node_t *node, report_t *r)
{
    const uint32_t *outcome = proof_of(m, node);
    for (int p = 0; p < m->spec.n_players; p++)
        r->sum[p] = (uint64_t)outcome[p] * r->n;
}

static void simulate_at(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    __atomic_fetch_add(&node->visits, rollouts->n, __ATOMIC_RELAXED);
    path_t *job = pgasi_mcts_path_take(w, node, rollouts);
    if (is_handlers_worker(w))
        job->maker = node->owner;
    pgasi_mcts_enqueue(w, job);
}

static void simulate_job(worker_t *w, path_t *job)
{
    pgas_mcts_t *m = w->mcts;
    node_t *node = job->node;
    report_t r = { 0 };
    r.n = job->rollouts.n;
    w->counts.shared += job->maker != (uint32_t)w->index;
    if (node->flags & NODE_FINAL) {
        sum_proof(m, node, &r);
        w->counts.final_states += r.n;
    } else {
        pgasi_mcts_simulate(w, node->state, r.n, r.sum);
    }
    describe(m, node, &r);
    if (job->temporary) {
        free(node);
        r.child_id = 0;
    } else {
        pgasi_mcts_update_self(node, &r);
    }
    node_id_t parent = job->rollouts.parent;
    uint32_t child = job->rollouts.child;
    pgasi_mcts_path_give(w, job);
    pgasi_mcts_deliver(w, parent, child, &r);
}

#define LINES 5 /* the cache lines of a node, and of its edges, that the way down reads */

/* The memory may end earlier, or may not exist: prefetching faults on no address. */
void pgasi_mcts_prefetch(const void *memory)
{
    uintptr_t from = (uintptr_t)memory;
    for (uintptr_t at = from; at < from + LINES * 64; at += 64)
        __builtin_prefetch((const void *)at);
}

/* A node that is seldom visited is not in the caches, and neither are its edges. While they are
 * fetched the worker does other jobs. */
void pgasi_mcts_suspend(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    path_t *job = pgasi_mcts_path_take(w, node, rollouts);
    job->stage = STAGE_NODE;
    pgasi_mcts_prefetch(node);
    if (!is_handlers_worker(w)) {
        pgasi_mcts_keep(w, job);
        return;
    }
    /* any thread may continue, so handlers give jobs to the threads in turn */
    pgas_mcts_t *m = w->mcts;
    __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
    pgasi_mcts_push(pgasi_mcts_helper_for(m, w->next_worker++ % (uint32_t)m->n_threads), job);
}

void pgasi_mcts_do_job(worker_t *w, path_t *job)
{
    const edges_t *edges =
        job->stage == STAGE_NODE ? __atomic_load_n(&job->node->edges, __ATOMIC_ACQUIRE) : NULL;
    if (job->stage == STAGE_SIMULATE) {
        simulate_job(w, job);
    } else if (edges) {
        job->stage = STAGE_EDGES;
        pgasi_mcts_prefetch(edges);
        pgasi_mcts_keep(w, job);
    } else {
        node_t *node = job->node;
        rollouts_t rollouts = job->rollouts;
        pgasi_mcts_path_give(w, job);
        pgasi_mcts_descend(w, node, &rollouts);
    }
}

void pgasi_mcts_simulate_once(worker_t *w, const void *state, uint32_t owner,
                              const rollouts_t *rollouts)
{
    const pgas_mcts_t *m = w->mcts;
    node_t *node = malloc(m->node_bytes);
    if (!node) {
        PGASI_ERROR("mcts", "no memory for a simulation: a rollout is lost");
        return;
    }
    pgasi_mcts_begin_node(m, node, state);
    path_t *job = pgasi_mcts_path_take(w, node, rollouts);
    job->temporary = true;
    if (is_handlers_worker(w))
        job->maker = owner;
    pgasi_mcts_enqueue(w, job);
}

/* ---- new nodes ---- */

/* Mode LEAF: each other rank simulates one of the n rollouts that came here together. */
static void spread(worker_t *w, node_t *node, uint32_t n)
{
    pgas_mcts_t *m = w->mcts;
    create_message_t *message = (create_message_t *)(void *)w->message;
    *message = (create_message_t){ .search = m->id,
                                   .flags = CREATE_APPLIED | CREATE_TEMPORARY,
                                   .parent = id_of(m->me, node),
                                   .child = SELF,
                                   .n = 1,
                                   .owner = node->owner };
    memcpy(message->state, node->state, m->spec.state_bytes);
    for (uint32_t i = 1; i < n; i++)
        pgasi_mcts_post(w, (m->me + (int)i) % m->n_ranks, HANDLER_CREATE, message,
                        sizeof *message + m->state_bytes);
}

/* Links a node of the graph that exists to one more parent, before the rollouts continue. In a
 * graph with cycles they may select this child of the parent again, and would wait for their own
 * report. */
static void link_parent(worker_t *w, node_id_t parent, uint32_t i, node_t *child)
{
    pgas_mcts_t *m = w->mcts;
    report_t r = { 0 };
    r.child_id = id_of(m->me, child);
    if (id_rank(parent) == m->me && !m->opts.always_call)
        pgasi_mcts_link(w, id_pointer(parent), i, r.child_id);
    else
        pgasi_mcts_post_report(w, parent, i, &r);
}

/* Returns NULL if there is no room. */
static node_t *make_node(worker_t *w, const void *state, uint64_t hash, uint32_t owner,
                         const rollouts_t *rollouts)
{
    const pgas_mcts_t *m = w->mcts;
    if (!pgasi_mcts_has_room(w))
        return NULL;
    node_t *node = pgasi_mcts_make_node(w, state, (int)(m->root_depth + rollouts->depth));
    if (node) {
        node->owner = owner;
        node->hash = hash;
        node->parent = m->is_graph ? 0 : rollouts->parent;
        node->number = rollouts->child;
    }
    return node;
}

static void begin_rollouts(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    rollouts_t here = *rollouts;
    if (w->mcts->opts.mode == PGAS_MCTS_LEAF && here.n > 1 && !(node->flags & NODE_FINAL)) {
        __atomic_fetch_add(&node->visits, here.n - 1, __ATOMIC_RELAXED);
        spread(w, node, here.n);
        here.n = 1;
    }
    simulate_at(w, node, &here);
}

node_t *pgasi_mcts_create_here(worker_t *w, const void *state, uint64_t hash, uint32_t owner,
                               node_id_t parent_node, const rollouts_t *rollouts)
{
    pgas_mcts_t *m = w->mcts;
    node_t *node = NULL, *existing = m->is_graph ? pgasi_mcts_find(m, hash) : NULL;
    if (!existing)
        node = make_node(w, state, hash, owner, rollouts);
    if (!existing && !node) {
        pgasi_mcts_simulate_once(w, state, owner, rollouts);
        return NULL;
    }
    if (node && m->is_graph) {
        existing = pgasi_mcts_insert(m, node);
        if (existing == node)
            existing = NULL;
        else
            pgasi_mcts_pool_give(&w->pool, node, m->node_bytes);
    }
    if (existing) {
        w->counts.transpositions++;
        link_parent(w, parent_node, rollouts->child, existing);
        /* a direct descent here could fill the stack: each may lead to the next one */
        pgasi_mcts_suspend(w, existing, rollouts);
        return existing;
    }
    list_node(w, node, rollouts->depth);
    begin_rollouts(w, node, rollouts);
    return node;
}

/* The rank that a child is placed on, and the worker there that owns it. */
static int place_child(worker_t *w, uint64_t hash, uint32_t depth, uint32_t *owner_p)
{
    pgas_mcts_t *m = w->mcts;
    uint32_t n_ranks = (uint32_t)m->n_ranks, n_threads = (uint32_t)m->n_threads;
    if (m->is_graph) {
        *owner_p = (uint32_t)(hash >> 32) % n_threads;
        return m->opts.mode == PGAS_MCTS_ROOT ? m->me : (int)((uint32_t)(hash >> 16) % n_ranks);
    }
    *owner_p = pgas_mcts_random_below(&w->tree_rng, n_threads);
    if (m->opts.mode != PGAS_MCTS_TREE)
        return m->me;
    if (m->opts.place == PGAS_MCTS_NEAR && depth > 1 &&
        pgas_mcts_random_below(&w->tree_rng, (uint32_t)m->opts.near_every) != 0)
        return m->me;
    uint32_t root = (uint32_t)id_rank(m->root), share = m->root_share;
    uint32_t draw = pgas_mcts_random_below(&w->tree_rng, (n_ranks - 1) * PGASI_MCTS_SHARE_WHOLE +
                                                             PGASI_MAX(share, 1));
    if (draw < share || n_ranks == 1)
        return (int)root;
    uint32_t other = (draw - share) / PGASI_MCTS_SHARE_WHOLE % (n_ranks - 1);
    return (int)(other + (other >= root));
}

/* A message has the state of the parent, because the move is applied where the child is made. In a
 * graph it has that of the child, whose hash is needed here. */
static void make_child(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    pgas_mcts_t *m = w->mcts;
    create_message_t *message = (create_message_t *)(void *)w->message;
    uint64_t hash = 0;
    uint32_t owner, i = rollouts->child;
    pgas_mcts_move_t move = node->edges->moves[i];
    memcpy(message->state, node->state, m->state_bytes);
    if (m->is_graph) {
        m->spec.apply(message->state, move, m->spec.arg);
        hash = m->spec.hash(message->state, m->spec.arg);
    }
    int rank = place_child(w, hash, rollouts->depth, &owner);
    if (rank != m->me || m->opts.always_call) {
        *message = (create_message_t){ .search = m->id,
                                       .flags = m->is_graph ? CREATE_APPLIED : 0,
                                       .depth = (uint16_t)rollouts->depth,
                                       .parent = rollouts->parent,
                                       .child = i,
                                       .n = rollouts->n,
                                       .move = move,
                                       .owner = owner,
                                       .parent_node = id_of(m->me, node) };
        w->counts.remote++;
        pgasi_mcts_post(w, rank, HANDLER_CREATE, message, sizeof *message + m->state_bytes);
        return;
    }
    if (!m->is_graph)
        m->spec.apply(message->state, move, m->spec.arg);
    node_t *child =
        pgasi_mcts_create_here(w, message->state, hash, owner, id_of(m->me, node), rollouts);
    if (child)
        pgasi_mcts_link(w, node, i, id_of(m->me, child));
}

/* ---- down ---- */

/* Reports the proven outcome of a node, without a simulation. */
static void report_proven(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    report_t r = { 0 };
    r.n = rollouts->n;
    sum_proof(w->mcts, node, &r);
    __atomic_fetch_add(&node->visits, r.n, __ATOMIC_RELAXED);
    pgasi_mcts_update_self(node, &r);
    describe(w->mcts, node, &r);
    w->counts.final_states += r.n;
    pgasi_mcts_deliver(w, rollouts->parent, rollouts->child, &r);
}

/* Waits in the entry of a child that is being made. */
static void defer(worker_t *w, node_t *node, child_t *c, const rollouts_t *rollouts)
{
    path_t *path = pgasi_mcts_path_take(w, node, rollouts);
    w->counts.deferred++;
    pgasi_mcts_stack(&c->deferred, path);
    if (__atomic_load_n(&c->id, __ATOMIC_SEQ_CST) ||
        !__atomic_load_n(&c->being_made, __ATOMIC_SEQ_CST))
        forward_deferred(w, node, c);
}

/* Returns the child if it is here and probably in a cache. Otherwise sends the rollouts there, or
 * suspends them. */
static node_t *visit_child(worker_t *w, node_id_t id, uint64_t visits, const rollouts_t *rollouts)
{
    pgas_mcts_t *m = w->mcts;
    bool is_here = id_rank(id) == m->me && !m->opts.always_call;
    if (is_here && (is_handlers_worker(w) || visits > OFTEN))
        return id_pointer(id);
    if (is_here) {
        pgasi_mcts_suspend(w, id_pointer(id), rollouts);
        return NULL;
    }
    select_message_t message = { m->id,           rollouts->depth, id, rollouts->parent,
                                 rollouts->child, rollouts->n };
    w->counts.remote++;
    pgasi_mcts_post(w, id_rank(id), HANDLER_SELECT, &message, sizeof message);
    return NULL;
}

/* Sends rollouts to a child. Returns it if the caller must continue there. */
static node_t *step_down(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, rollouts->child, &s, &at);
    node_id_t id = __atomic_load_n(&c->id, __ATOMIC_ACQUIRE);
    uint8_t not_yet = 0;
    if (PGAS_LIKELY(id))
        return visit_child(w, id, __atomic_load_n(&c->visits, __ATOMIC_RELAXED), rollouts);
    if (__atomic_compare_exchange_n(&c->being_made, &not_yet, 1, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
        if (PGAS_UNLIKELY(__atomic_load_n(&c->id, __ATOMIC_SEQ_CST)))
            return step_down(w, node, rollouts);
        make_child(w, node, rollouts);
    } else {
        defer(w, node, c, rollouts);
    }
    return NULL;
}

static void go_to_child(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    node_t *child = step_down(w, node, rollouts);
    if (child)
        pgasi_mcts_descend(w, child, rollouts);
}

void pgasi_mcts_descend(worker_t *w, node_t *node, const rollouts_t *rollouts)
{
    pgas_mcts_t *m = w->mcts;
    rollouts_t now = *rollouts;
    do {
        if (__atomic_load_n(&node->flags, __ATOMIC_ACQUIRE) & (NODE_PROVEN | NODE_FINAL)) {
            report_proven(w, node, &now);
            return;
        }
        int64_t i = -1;
        if (now.depth < (uint32_t)m->opts.max_depth && pgasi_mcts_open(w, node))
            i = pgasi_mcts_select(w, node);
        if (i < 0) {
            simulate_at(w, node, &now);
            return;
        }
        __atomic_fetch_add(&node->visits, now.n, __ATOMIC_RELAXED);
        pgasi_mcts_visit(w, node, (uint32_t)i, now.n);
        w->counts.selections++;
        now.depth++;
        if (m->is_graph) {
            path_t *path = pgasi_mcts_path_take(w, node, &now);
            path->child = (uint32_t)i;
            now.parent = id_of_path(m->me, path);
        } else {
            now.parent = id_of(m->me, node);
        }
        now.child = (uint32_t)i;
        node = step_down(w, node, &now);
    } while (node);
}
