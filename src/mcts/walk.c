/* The way of a rollout: down from the root, through nodes of this rank by plain memory and to those
 * of others by calls; a simulation at its end; the report back. */
#include <stdlib.h>

#include "mcts/walk.h"

#define OFTEN 64 /* visits of a node that is taken to be in a cache */

static void go_to_child(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n,
                        uint32_t depth);

/* ---- reports ---- */

size_t pgasi_mcts_report_bytes(const pgas_mcts_t *m, bool proven)
{
    size_t n = (size_t)m->spec.n_players;
    return sizeof(report_call_t) + 8 * n + (proven ? PGASI_ALIGN_UP(4 * n, 8) : 0);
}

static void post_report(worker_t *w, pgasi_ref_t place, uint32_t idx, const report_t *r)
{
    const pgas_mcts_t *m = w->mcts;
    size_t n = (size_t)m->spec.n_players;
    union {
        report_call_t call;
        char bytes[sizeof(report_call_t) + 12 * PGAS_MCTS_PLAYERS_MAX];
    } u;
    u.call = (report_call_t){ m->id, r->proven, place, r->child, idx, r->n };
    memcpy(u.bytes + sizeof u.call, r->sum, 8 * n);
    if (r->proven)
        memcpy(u.bytes + sizeof u.call + 8 * n, r->proof, 4 * PGASI_ALIGN_UP(n, 2));
    w->counts.reports_remote += r->n > 0;
    pgasi_mcts_post(w, ref_rank(place), HANDLER_REPORT, u.bytes,
                    pgasi_mcts_report_bytes(m, r->proven));
}

/* Reports of one child go together until they are flushed, or need the place of others. */
static void combine(worker_t *w, pgasi_ref_t place, uint32_t idx, const report_t *r)
{
    uint64_t mix = (place + idx) * UINT64_C(0x9e3779b97f4a7c15);
    combined_t *c = &w->combined[mix >> 58];
    if (w->mcts->opts.no_combining) {
        post_report(w, place, idx, r);
        return;
    }
    if (c->used && c->place == place && c->idx == idx) {
        for (int p = 0; p < w->mcts->spec.n_players; p++)
            c->report.sum[p] += r->sum[p];
        c->report.n += r->n;
        if (r->child)
            c->report.child = r->child;
        if (r->proven)
            memcpy(c->report.proof, r->proof, sizeof r->proof);
        c->report.proven |= r->proven;
        w->counts.combined++;
        return;
    }
    if (c->used)
        post_report(w, c->place, c->idx, &c->report);
    w->n_combined += !c->used;
    *c = (combined_t){ place, idx, true, *r };
}

void pgasi_mcts_flush(worker_t *w)
{
    for (int i = 0; w->n_combined > 0; i++) {
        combined_t *c = &w->combined[i];
        if (c->used) {
            c->used = false;
            w->n_combined--;
            post_report(w, c->place, c->idx, &c->report);
        }
    }
    while (w->n_dirty > 0) {
        int rank = w->dirty[--w->n_dirty];
        w->is_dirty[rank] = false;
        if (!pgasi_mcts_is_handlers(w)) /* what handlers gather leaves when they have run */
            pgas_agg_flush(w->agg, rank);
    }
}

static void forward_deferred(worker_t *w, node_t *node, uint32_t i, child_t *c)
{
    step_t *next;
    for (step_t *step = __atomic_exchange_n(&c->deferred, NULL, __ATOMIC_SEQ_CST); step;
         step = next) {
        next = step->next;
        pgasi_ref_t place = step->up;
        uint32_t n = step->n, depth = step->depth;
        pgasi_mcts_give_step(w, step);
        go_to_child(w, node, i, place, n, depth);
    }
}

/* Now it is known where the child lives; or that there was no room for it. */
void pgasi_mcts_link(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t child)
{
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    if (PGAS_LIKELY(__atomic_load_n(&c->ref, __ATOMIC_RELAXED)))
        return;
    if (child)
        __atomic_store_n(&c->ref, child, __ATOMIC_SEQ_CST);
    else
        __atomic_store_n(&c->being_made, 0, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&c->deferred, __ATOMIC_SEQ_CST))
        forward_deferred(w, node, i, c);
}

static void name_proof(pgas_mcts_t *m, node_t *node, report_t *r)
{
    r->child = ref_of(m->me, node);
    r->proven = __atomic_load_n(&node->flags, __ATOMIC_ACQUIRE) & NODE_PROVEN;
    if (PGAS_UNLIKELY(r->proven))
        memcpy(r->proof, proof_of(m, node), (size_t)m->spec.n_players * sizeof *r->proof);
}

static void account(node_t *node, const report_t *r)
{
    __atomic_fetch_add(&node->value, r->sum[node->player < 0 ? 0 : node->player], __ATOMIC_RELAXED);
    __atomic_fetch_add(&node->done, r->n, __ATOMIC_RELAXED);
}

/* One place further up, which is here. */
void pgasi_mcts_deliver_here(worker_t *w, pgasi_ref_t *place_p, uint32_t *idx_p, report_t *r)
{
    node_t *node = ref_pointer(*place_p);
    uint32_t i = *idx_p;
    w->counts.reports++;
    if (*place_p & 1) {
        step_t *step = ref_pointer(*place_p);
        node = step->node;
        i = step->idx;
        *place_p = step->up;
        *idx_p = step->up_idx;
        if (__atomic_sub_fetch(&step->left, r->n, __ATOMIC_ACQ_REL) == 0)
            pgasi_mcts_give_step(w, step);
    } else {
        *place_p = node->up;
        *idx_p = node->up_idx;
    }
    if (PGAS_UNLIKELY(i == SELF)) {
        account(node, r);
    } else {
        pgasi_mcts_link(w, node, i, r->child);
        pgasi_mcts_update(w, node, i, r);
    }
    name_proof(w->mcts, node, r);
}

/* Up to the root, or to where another rank has the rest of the way. */
void pgasi_mcts_deliver(worker_t *w, pgasi_ref_t place, uint32_t idx, report_t *r)
{
    pgas_mcts_t *m = w->mcts;
    while (place) {
        if (ref_rank(place) != m->me || m->opts.always_call) {
            combine(w, place, idx, r);
            return;
        }
        pgasi_mcts_deliver_here(w, &place, &idx, r);
    }
    __atomic_fetch_add(&m->completed, r->n, __ATOMIC_RELEASE);
    w->counts.rollouts += r->n;
}

/* ---- down ---- */

/* What a node says by itself: its outcome, without a simulation. */
static void report_known(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n)
{
    pgas_mcts_t *m = w->mcts;
    const uint32_t *outcome = proof_of(m, node);
    report_t r = { 0 };
    r.n = n;
    for (int p = 0; p < m->spec.n_players; p++)
        r.sum[p] = (uint64_t)outcome[p] * n;
    __atomic_fetch_add(&node->visits, n, __ATOMIC_RELAXED);
    account(node, &r);
    name_proof(m, node, &r);
    w->counts.final_states += n;
    pgasi_mcts_deliver(w, place, idx, &r);
}

static void simulate_at(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n)
{
    __atomic_fetch_add(&node->visits, n, __ATOMIC_RELAXED);
    step_t *job = pgasi_mcts_take_step(w, node, place, idx, n, 0);
    if (pgasi_mcts_is_handlers(w))
        job->maker = node->owner;
    pgasi_mcts_enqueue(w, job);
}

static void simulate_job(worker_t *w, step_t *job)
{
    pgas_mcts_t *m = w->mcts;
    node_t *node = job->node;
    report_t r = { 0 };
    r.n = job->n;
    w->counts.shared += job->maker != (uint32_t)w->index;
    if (node->flags & NODE_FINAL) {
        for (int p = 0; p < m->spec.n_players; p++)
            r.sum[p] = (uint64_t)proof_of(m, node)[p] * r.n;
        w->counts.final_states += r.n;
    } else {
        pgasi_mcts_simulate(w, node->state, r.n, r.sum);
    }
    name_proof(m, node, &r);
    if (job->temporary) {
        free(node);
        r.child = 0;
    } else {
        account(node, &r);
    }
    pgasi_ref_t place = job->up;
    uint32_t idx = job->up_idx;
    pgasi_mcts_give_step(w, job);
    pgasi_mcts_deliver(w, place, idx, &r);
}

#define LINES 5 /* of a node, and of edges, that the way down needs */

/* Of memory that may end before, or not be there: an address, not a pointer. */
void pgasi_mcts_fetch(const void *memory)
{
    uintptr_t from = (uintptr_t)memory;
    for (uintptr_t at = from; at < from + LINES * 64; at += 64)
        __builtin_prefetch((const void *)at);
}

/* A node that is seldom visited is out of the caches, and its edges are: others simulate while they
 * come. */
void pgasi_mcts_rest_at(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n,
                        uint32_t depth)
{
    step_t *job = pgasi_mcts_take_step(w, node, place, idx, n, depth);
    job->stage = STAGE_NODE;
    pgasi_mcts_fetch(node);
    if (!pgasi_mcts_is_handlers(w)) {
        pgasi_mcts_keep(w, job);
        return;
    }
    pgas_mcts_t *m = w->mcts; /* which of the threads goes on does not matter */
    __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
    pgasi_mcts_push(pgasi_mcts_helper_for(m, w->turn++ % (uint32_t)m->n_threads), job);
}

void pgasi_mcts_do_job(worker_t *w, step_t *job)
{
    const edges_t *edges =
        job->stage == STAGE_NODE ? __atomic_load_n(&job->node->edges, __ATOMIC_ACQUIRE) : NULL;
    if (job->stage == STAGE_SIMULATE) {
        simulate_job(w, job);
    } else if (edges) {
        job->stage = STAGE_EDGES;
        pgasi_mcts_fetch(edges);
        pgasi_mcts_keep(w, job);
    } else {
        node_t *node = job->node;
        pgasi_ref_t place = job->up;
        uint32_t idx = job->up_idx, n = job->n, depth = job->depth;
        pgasi_mcts_give_step(w, job);
        pgasi_mcts_descend(w, node, place, idx, n, depth);
    }
}

/* For one simulation alone: there is no room for a node, or it is somebody else's. */
void pgasi_mcts_simulate_once(worker_t *w, const void *state, uint32_t owner, pgasi_ref_t place,
                              uint32_t idx, uint32_t n)
{
    const pgas_mcts_t *m = w->mcts;
    node_t *node = malloc(m->node_bytes);
    if (!node) {
        PGASI_ERROR("mcts", "no memory for a simulation: a rollout is lost");
        return;
    }
    pgasi_mcts_begin_node(m, node, state);
    step_t *job = pgasi_mcts_take_step(w, node, place, idx, n, 0);
    job->temporary = true;
    if (pgasi_mcts_is_handlers(w))
        job->maker = owner;
    pgasi_mcts_enqueue(w, job);
}

/* Each other rank simulates once, for one of the rollouts that came here together. */
static void spread(worker_t *w, node_t *node, uint32_t n)
{
    pgas_mcts_t *m = w->mcts;
    create_t *call = (create_t *)(void *)w->call;
    *call = (create_t){
        m->id, CREATE_APPLIED | CREATE_TEMPORARY, 0, ref_of(m->me, node), SELF, 1, 0, node->owner, 0
    };
    memcpy(call->state, node->state, m->spec.state_bytes);
    for (uint32_t i = 1; i < n; i++)
        pgasi_mcts_post(w, (m->me + (int)i) % m->n_ranks, HANDLER_CREATE, call,
                        sizeof *call + m->state_bytes);
}

/* Before the way goes on: in a graph with circles it may lead through that entry of the parent
 * again, and would wait there for its own report. A report of no rollouts. */
static void tell_parent(worker_t *w, pgasi_ref_t parent, uint32_t idx, node_t *child)
{
    pgas_mcts_t *m = w->mcts;
    report_t r = { 0 };
    r.child = ref_of(m->me, child);
    if (ref_rank(parent) == m->me && !m->opts.always_call)
        pgasi_mcts_link(w, ref_pointer(parent), idx, r.child);
    else
        post_report(w, parent, idx, &r);
}

/* A child that this rank is to have: the node with its first rollouts under way, or NULL. */
node_t *pgasi_mcts_create_here(worker_t *w, const void *state, uint64_t hash, uint32_t owner,
                               pgasi_ref_t parent, pgasi_ref_t place, uint32_t idx, uint32_t n,
                               uint32_t depth)
{
    pgas_mcts_t *m = w->mcts;
    node_t *there = m->by_steps ? pgasi_mcts_find(m, hash) : NULL;
    node_t *node = there ? NULL
                   : pgasi_mcts_has_room(w)
                       ? pgasi_mcts_make_node(w, state, (int)(m->root_depth + depth))
                       : NULL;
    if (!there && !node) {
        pgasi_mcts_simulate_once(w, state, owner, place, idx, n);
        return NULL;
    }
    if (node) {
        node->owner = owner;
        node->hash = hash;
        node->up = m->by_steps ? 0 : place;
        node->up_idx = idx;
        there = m->by_steps ? pgasi_mcts_insert(m, node) : node;
        if (there != node)
            pgasi_mcts_give(&w->pool, node, m->node_bytes);
    }
    if (there != node) {
        w->counts.transpositions++;
        tell_parent(w, parent, idx, there);
        /* not from here: one after the other would fill the stack */
        pgasi_mcts_rest_at(w, there, place, idx, n, depth);
        return there;
    }
    list_node(w, node, depth);
    if (m->opts.mode == PGAS_MCTS_LEAF && n > 1 && !(node->flags & NODE_FINAL)) {
        __atomic_fetch_add(&node->visits, n - 1, __ATOMIC_RELAXED);
        spread(w, node, n);
        n = 1;
    }
    simulate_at(w, node, place, idx, n);
    return node;
}

/* Where a child is to live. */
static int place_child(worker_t *w, uint64_t hash, uint32_t depth, uint32_t *owner_p)
{
    pgas_mcts_t *m = w->mcts;
    uint32_t n_ranks = (uint32_t)m->n_ranks, n_threads = (uint32_t)m->n_threads;
    if (m->by_steps) {
        *owner_p = (uint32_t)(hash >> 32) % n_threads;
        return m->opts.mode == PGAS_MCTS_ROOT ? m->me : (int)((uint32_t)(hash >> 16) % n_ranks);
    }
    *owner_p = pgas_mcts_below(&w->tree_rng, n_threads);
    if (m->opts.mode != PGAS_MCTS_TREE)
        return m->me;
    if (m->opts.place == PGAS_MCTS_NEAR && depth > 1 &&
        pgas_mcts_below(&w->tree_rng, (uint32_t)m->opts.near_every) != 0)
        return m->me;
    uint32_t root = (uint32_t)ref_rank(m->root), share = m->root_share;
    uint32_t draw =
        pgas_mcts_below(&w->tree_rng, (n_ranks - 1) * SHARE_WHOLE + PGASI_MAX(share, 1));
    if (draw < share || n_ranks == 1)
        return (int)root;
    uint32_t other = (draw - share) / SHARE_WHOLE % (n_ranks - 1);
    return (int)(other + (other >= root));
}

/* Takes the parent's state, or with placement by hash, which needs it, the child's own. */
static void make_child(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n,
                       uint32_t depth)
{
    pgas_mcts_t *m = w->mcts;
    create_t *call = (create_t *)(void *)w->call;
    uint64_t hash = 0;
    uint32_t owner;
    pgas_mcts_move_t move = node->edges->moves[i];
    memcpy(call->state, node->state, m->state_bytes);
    if (m->by_steps) {
        m->spec.apply(call->state, move, m->spec.arg);
        hash = m->spec.hash(call->state, m->spec.arg);
    }
    int rank = place_child(w, hash, depth, &owner);
    if (rank != m->me || m->opts.always_call) {
        uint16_t flags = m->by_steps ? CREATE_APPLIED : 0;
        *call = (create_t){ m->id, flags, (uint16_t)depth,    place, i, n,
                            move,  owner, ref_of(m->me, node) };
        w->counts.remote++;
        pgasi_mcts_post(w, rank, HANDLER_CREATE, call, sizeof *call + m->state_bytes);
        return;
    }
    if (!m->by_steps)
        m->spec.apply(call->state, move, m->spec.arg);
    node_t *child = pgasi_mcts_create_here(w, call->state, hash, owner, ref_of(m->me, node), place,
                                           i, n, depth);
    if (child)
        pgasi_mcts_link(w, node, i, ref_of(m->me, child));
}

/* Waits at the entry of a child that is being made. */
static void defer(worker_t *w, node_t *node, uint32_t i, child_t *c, pgasi_ref_t place, uint32_t n,
                  uint32_t depth)
{
    step_t *step = pgasi_mcts_take_step(w, node, place, i, n, depth);
    w->counts.deferred++;
    pgasi_mcts_stack(&c->deferred, step);
    if (__atomic_load_n(&c->ref, __ATOMIC_SEQ_CST) ||
        !__atomic_load_n(&c->being_made, __ATOMIC_SEQ_CST))
        forward_deferred(w, node, i, c);
}

/* Gives the child if the way goes on right here. */
static node_t *step_down(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n,
                         uint32_t depth)
{
    pgas_mcts_t *m = w->mcts;
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    pgasi_ref_t ref = __atomic_load_n(&c->ref, __ATOMIC_ACQUIRE);
    uint8_t free_yet = 0;
    if (PGAS_LIKELY(ref)) {
        bool here = ref_rank(ref) == m->me && !m->opts.always_call;
        if (here &&
            (pgasi_mcts_is_handlers(w) || __atomic_load_n(&c->visits, __ATOMIC_RELAXED) > OFTEN))
            return ref_pointer(ref);
        if (here) {
            pgasi_mcts_rest_at(w, ref_pointer(ref), place, i, n, depth);
            return NULL;
        }
        select_t call = { m->id, depth, ref, place, i, n };
        w->counts.remote++;
        pgasi_mcts_post(w, ref_rank(ref), HANDLER_SELECT, &call, sizeof call);
    } else if (__atomic_compare_exchange_n(&c->being_made, &free_yet, 1, false, __ATOMIC_SEQ_CST,
                                           __ATOMIC_RELAXED)) {
        if (PGAS_UNLIKELY(__atomic_load_n(&c->ref, __ATOMIC_SEQ_CST)))
            return step_down(w, node, i, place, n, depth);
        make_child(w, node, i, place, n, depth);
    } else {
        defer(w, node, i, c, place, n, depth);
    }
    return NULL;
}

static void go_to_child(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n,
                        uint32_t depth)
{
    node_t *child = step_down(w, node, i, place, n, depth);
    if (child)
        pgasi_mcts_descend(w, child, place, i, n, depth);
}

/* From a node as far down as this rank has the way. */
void pgasi_mcts_descend(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n,
                        uint32_t depth)
{
    pgas_mcts_t *m = w->mcts;
    do {
        if (__atomic_load_n(&node->flags, __ATOMIC_ACQUIRE) & (NODE_PROVEN | NODE_FINAL)) {
            report_known(w, node, place, idx, n);
            return;
        }
        int64_t i = depth < (uint32_t)m->opts.max_depth && pgasi_mcts_open(w, node)
                        ? pgasi_mcts_choose(w, node)
                        : -1;
        if (i < 0) {
            simulate_at(w, node, place, idx, n);
            return;
        }
        __atomic_fetch_add(&node->visits, n, __ATOMIC_RELAXED);
        pgasi_mcts_visit(w, node, (uint32_t)i, n);
        w->counts.selections++;
        depth++;
        if (m->by_steps) {
            step_t *step = pgasi_mcts_take_step(w, node, place, idx, n, depth);
            step->idx = (uint32_t)i;
            place = ref_step(m->me, step);
        } else {
            place = ref_of(m->me, node);
        }
        idx = (uint32_t)i;
        node = step_down(w, node, idx, place, n, depth);
    } while (node);
}
