/* The way of a rollout: down from the root, through nodes of this rank by plain memory and to those of others by calls; a
 * simulation at its end; the report back.
 *
 *  Whoever comes first to a child that is not there makes it, or has it made; others that choose it meanwhile are deferred:
 *  they hang at the child's entry until its first report says where it lives. Every call may overtake any other one.
 *
 *  Quiescence counts calls by itself. What waits in queues is counted when it is pushed, and a worker counts as one piece of work
 *  from when it finds something to do until it has handed over all that came out of it. */
#include "mcts/mcts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "pgas/buffer.h"
#include "pgas/handler.h"

#define SELF UINT32_MAX /* instead of the number of a child: the node itself */
#define STEPS_OF_CHUNK 64
#define PLAYOUTS_OF_RUN 16 /* then calls are looked at, and sent */
#define OFTEN 64       /* visits of a node that is taken to be in a cache */
#define OWN_JOBS 3     /* rollouts of a worker that take turns while memory is fetched */

enum { CREATE_APPLIED = 1, CREATE_TEMPORARY = 2 };

typedef struct {
    uint32_t id;
    uint16_t flags, depth;
    pgasi_ref_t place;
    uint32_t idx, n;
    pgas_mcts_move_t move;
    uint32_t owner;
    pgasi_ref_t parent; /* with placement by hash: the node; place is a step */
    char state[];
} create_t;

typedef struct {
    uint32_t id, depth;
    pgasi_ref_t node, place;
    uint32_t idx, n;
} select_t;

typedef struct {
    uint32_t id, proven;
    pgasi_ref_t place, child;
    uint32_t idx, n;
    uint64_t data[]; /* sums by player; if proven, the outcome by player, 32 bits each */
} report_call_t;

typedef struct {
    uint32_t id, why;
} stop_t;

static void descend(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t place_idx, uint32_t n, uint32_t depth);
static void go_to_child(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n, uint32_t depth);

pgas_mcts_t *pgasi_mcts_searches[PGASI_MCTS_SEARCHES];
pgas_handler_t pgasi_mcts_handlers[HANDLERS];

static bool is_handlers(const worker_t *w)
{
    return w->index == w->mcts->n_threads;
}

/* ---- calls ---- */

static void hold(worker_t *w, int rank, handler_number_t handler, const void *args, size_t bytes)
{
    pgas_mcts_t *m = w->mcts;
    held_t *held = malloc(sizeof *held + bytes);
    if (!held) {
        PGASI_ERROR("mcts", "no memory for a call that found no room: a rollout is lost");
        return;
    }
    held->rank = rank;
    held->handler = handler;
    held->bytes = bytes;
    memcpy(held->args, args, bytes);
    __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
    held->next = __atomic_load_n(&m->held, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&m->held, &held->next, held, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

/* A state that is larger than a call goes behind it. */
static pgas_status_t call_large(int rank, pgas_handler_t handler, const char *args, size_t bytes)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_buffer_t state = { PGAS_BUFFER_COPY, args + sizeof(create_t), bytes - sizeof(create_t), 0, false };
    return pgas_call_buffer(pgas_thread_make(rank, PGAS_SLOT_ANY), handler, args, sizeof(create_t), &state, 1, &opts, NULL);
}

static pgas_status_t try_post(worker_t *w, int rank, handler_number_t number, const void *args, size_t bytes)
{
    pgas_handler_t handler = pgasi_mcts_handlers[number];
    pgas_status_t status = pgas_agg_call(w->agg, rank, handler, args, bytes);
    if (PGAS_UNLIKELY(status == PGAS_ERR_LIMIT && number == HANDLER_CREATE))
        return call_large(rank, handler, args, bytes);
    return status;
}

/* A call that cannot be made (its rank died) is a rollout that is lost: nobody will report it. */
void pgasi_mcts_post(worker_t *w, int rank, handler_number_t handler, const void *args, size_t bytes)
{
    pgas_status_t status = try_post(w, rank, handler, args, bytes);
    while (PGAS_UNLIKELY(status == PGAS_ERR_AGAIN)) {
        if (is_handlers(w)) {
            hold(w, rank, handler, args, bytes);
            return;
        }
        pgas_progress();
        status = try_post(w, rank, handler, args, bytes);
    }
    if (!w->is_dirty[rank]) {
        w->is_dirty[rank] = true;
        w->dirty[w->n_dirty++] = rank;
    }
}

static void post_held(worker_t *w)
{
    held_t *next, *held = __atomic_exchange_n(&w->mcts->held, NULL, __ATOMIC_ACQUIRE);
    for (; held; held = next) {
        next = held->next;
        pgasi_mcts_post(w, held->rank, held->handler, held->args, held->bytes);
        free(held);
        w->n_jobs_ended++;
    }
}

/* ---- steps ---- */

typedef struct chunk {
    struct chunk *next;
    step_t step[STEPS_OF_CHUNK];
} chunk_t;

static void add_chunk(worker_t *w)
{
    chunk_t *chunk = malloc(sizeof *chunk);
    if (!chunk)
        pgasi_fatal("mcts", "no memory for %d notes of rollouts under way", STEPS_OF_CHUNK);
    chunk->next = w->step_chunks;
    w->step_chunks = chunk;
    for (int i = 0; i < STEPS_OF_CHUNK; i++) {
        chunk->step[i].next = w->free_steps;
        w->free_steps = &chunk->step[i];
    }
}

void pgasi_mcts_free_steps(worker_t *w)
{
    chunk_t *next;
    for (chunk_t *chunk = w->step_chunks; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    w->step_chunks = NULL;
}

/* Its own ones first, then those that others have given back. As many as there are rollouts under way, times their depth. */
static step_t *take_step(worker_t *w, node_t *node, pgasi_ref_t up, uint32_t up_idx, uint32_t n, uint32_t depth)
{
    if (!w->free_steps)
        w->free_steps = __atomic_exchange_n(&w->foreign, NULL, __ATOMIC_ACQUIRE);
    if (!w->free_steps)
        add_chunk(w);
    step_t *step = w->free_steps;
    w->free_steps = step->next;
    *step = (step_t){ NULL, node, up, 0, up_idx, n, n, depth, (uint32_t)w->index, w, STAGE_SIMULATE, false };
    return step;
}

static void give_step(worker_t *w, step_t *step)
{
    worker_t *owner = step->owner;
    if (owner == w) {
        step->next = w->free_steps;
        w->free_steps = step;
        return;
    }
    step->next = __atomic_load_n(&owner->foreign, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&owner->foreign, &step->next, step, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    }
}

/* ---- queues: any thread pushes, one pops (after Vyukov's intrusive queue); pushing is one exchange ---- */

static void push(worker_t *to, step_t *job)
{
    __atomic_store_n(&job->next, NULL, __ATOMIC_RELAXED);
    step_t *before = __atomic_exchange_n(&to->queue_head, job, __ATOMIC_ACQ_REL);
    __atomic_store_n(&before->next, job, __ATOMIC_RELEASE);
}

/* NULL: empty, or somebody is about to push. */
static step_t *pop(worker_t *w)
{
    step_t *tail = w->queue_tail, *next = __atomic_load_n(&tail->next, __ATOMIC_ACQUIRE);
    if (tail == &w->stub) {
        if (!next)
            return NULL;
        w->queue_tail = tail = next;
        next = __atomic_load_n(&tail->next, __ATOMIC_ACQUIRE);
    }
    if (!next) {
        if (tail != __atomic_load_n(&w->queue_head, __ATOMIC_ACQUIRE))
            return NULL;
        push(w, &w->stub);
        next = __atomic_load_n(&tail->next, __ATOMIC_ACQUIRE);
        if (!next)
            return NULL;
    }
    w->queue_tail = next;
    return tail;
}

static bool has_jobs(const worker_t *w)
{
    return w->own || w->queue_tail != &w->stub || __atomic_load_n(&w->queue_head, __ATOMIC_RELAXED) != &w->stub;
}

static void keep(worker_t *w, step_t *job)
{
    job->next = NULL;
    *w->own_end = job;
    w->own_end = &job->next;
    w->n_own++;
}

/* A worker that is idle, else the one to which the node belongs. */
static worker_t *helper_for(pgas_mcts_t *m, uint32_t owner)
{
    worker_t *to = &m->worker[owner];
    for (int i = 0; i < m->n_threads && !__atomic_load_n(&to->wants, __ATOMIC_RELAXED); i++) {
        if (__atomic_load_n(&m->worker[i].wants, __ATOMIC_RELAXED))
            to = &m->worker[i];
    }
    return to;
}

static void enqueue(worker_t *w, step_t *job)
{
    pgas_mcts_t *m = w->mcts;
    worker_t *to = is_handlers(w) || w->own ? helper_for(m, job->maker) : w;
    if (to != w && (is_handlers(w) || __atomic_load_n(&to->wants, __ATOMIC_RELAXED))) {
        __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
        push(to, job);
        return;
    }
    keep(w, job);
}

/* ---- reports ---- */

static size_t report_bytes(const pgas_mcts_t *m, bool proven)
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
    pgasi_mcts_post(w, ref_rank(place), HANDLER_REPORT, u.bytes, report_bytes(m, r->proven));
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
        if (!is_handlers(w)) /* what handlers gather leaves when they have run */
            pgas_agg_flush(w->agg, rank);
    }
}

static void forward_deferred(worker_t *w, node_t *node, uint32_t i, child_t *c)
{
    step_t *next;
    for (step_t *step = __atomic_exchange_n(&c->deferred, NULL, __ATOMIC_SEQ_CST); step; step = next) {
        next = step->next;
        pgasi_ref_t place = step->up;
        uint32_t n = step->n, depth = step->depth;
        give_step(w, step);
        go_to_child(w, node, i, place, n, depth);
    }
}

/* Now it is known where the child lives; or that there was no room for it. */
static void link(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t child)
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
static void deliver_here(worker_t *w, pgasi_ref_t *place_p, uint32_t *idx_p, report_t *r)
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
            give_step(w, step);
    } else {
        *place_p = node->up;
        *idx_p = node->up_idx;
    }
    if (PGAS_UNLIKELY(i == SELF)) {
        account(node, r);
    } else {
        link(w, node, i, r->child);
        pgasi_mcts_update(w, node, i, r);
    }
    name_proof(w->mcts, node, r);
}

/* Up to the root, or to where another rank has the rest of the way. */
static void deliver(worker_t *w, pgasi_ref_t place, uint32_t idx, report_t *r)
{
    pgas_mcts_t *m = w->mcts;
    while (place) {
        if (ref_rank(place) != m->me || m->opts.always_call) {
            combine(w, place, idx, r);
            return;
        }
        deliver_here(w, &place, &idx, r);
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
    deliver(w, place, idx, &r);
}

static void simulate_at(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n)
{
    __atomic_fetch_add(&node->visits, n, __ATOMIC_RELAXED);
    step_t *job = take_step(w, node, place, idx, n, 0);
    if (is_handlers(w))
        job->maker = node->owner;
    enqueue(w, job);
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
    give_step(w, job);
    deliver(w, place, idx, &r);
}

#define LINES 5 /* of a node, and of edges, that the way down needs */

static void fetch(const void *memory)
{
    for (size_t at = 0; at < LINES * 64; at += 64)
        __builtin_prefetch((const char *)memory + at);
}

/* A node that is seldom visited is out of the caches, and its edges are: others simulate while they come. */
static void rest_at(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n, uint32_t depth)
{
    step_t *job = take_step(w, node, place, idx, n, depth);
    job->stage = STAGE_NODE;
    fetch(node);
    if (!is_handlers(w)) {
        keep(w, job);
        return;
    }
    pgas_mcts_t *m = w->mcts; /* which of the threads goes on does not matter */
    __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
    push(helper_for(m, w->turn++ % (uint32_t)m->n_threads), job);
}

static void do_job(worker_t *w, step_t *job)
{
    const edges_t *edges = job->stage == STAGE_NODE ? __atomic_load_n(&job->node->edges, __ATOMIC_ACQUIRE) : NULL;
    if (job->stage == STAGE_SIMULATE) {
        simulate_job(w, job);
    } else if (edges) {
        job->stage = STAGE_EDGES;
        fetch(edges);
        keep(w, job);
    } else {
        node_t *node = job->node;
        pgasi_ref_t place = job->up;
        uint32_t idx = job->up_idx, n = job->n, depth = job->depth;
        give_step(w, job);
        descend(w, node, place, idx, n, depth);
    }
}

/* For one simulation alone: there is no room for a node, or it is somebody else's. */
static void simulate_once(worker_t *w, const void *state, uint32_t owner, pgasi_ref_t place, uint32_t idx, uint32_t n)
{
    const pgas_mcts_t *m = w->mcts;
    node_t *node = malloc(m->node_bytes);
    if (!node) {
        PGASI_ERROR("mcts", "no memory for a simulation: a rollout is lost");
        return;
    }
    pgasi_mcts_begin_node(m, node, state);
    step_t *job = take_step(w, node, place, idx, n, 0);
    job->temporary = true;
    if (is_handlers(w))
        job->maker = owner;
    enqueue(w, job);
}

/* Each other rank simulates once, for one of the rollouts that came here together. */
static void spread(worker_t *w, node_t *node, uint32_t n)
{
    pgas_mcts_t *m = w->mcts;
    create_t *call = (create_t *)(void *)w->call;
    *call = (create_t){ m->id, CREATE_APPLIED | CREATE_TEMPORARY, 0, ref_of(m->me, node), SELF, 1, 0, node->owner, 0 };
    memcpy(call->state, node->state, m->spec.state_bytes);
    for (uint32_t i = 1; i < n; i++)
        pgasi_mcts_post(w, (m->me + (int)i) % m->n_ranks, HANDLER_CREATE, call, sizeof *call + m->state_bytes);
}

/* Before the way goes on: in a graph with circles it may lead through that entry of the parent again, and would wait there for
 * its own report. A report of no rollouts. */
static void tell_parent(worker_t *w, pgasi_ref_t parent, uint32_t idx, node_t *child)
{
    pgas_mcts_t *m = w->mcts;
    report_t r = { 0 };
    r.child = ref_of(m->me, child);
    if (ref_rank(parent) == m->me && !m->opts.always_call)
        link(w, ref_pointer(parent), idx, r.child);
    else
        post_report(w, parent, idx, &r);
}

/* A child that this rank is to have: the node with its first rollouts under way, or NULL. */
static node_t *create_here(worker_t *w, const void *state, uint64_t hash, uint32_t owner, pgasi_ref_t parent,
                           pgasi_ref_t place, uint32_t idx, uint32_t n, uint32_t depth)
{
    pgas_mcts_t *m = w->mcts;
    node_t *there = m->by_steps ? pgasi_mcts_find(m, hash) : NULL;
    node_t *node = there ? NULL : pgasi_mcts_has_room(w) ? pgasi_mcts_make_node(w, state, (int)(m->root_depth + depth)) : NULL;
    if (!there && !node) {
        simulate_once(w, state, owner, place, idx, n);
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
        descend(w, there, place, idx, n, depth);
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
static int place_child(worker_t *w, uint64_t hash, uint32_t *owner_p)
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
    if (m->opts.place == PGAS_MCTS_NEAR && pgas_mcts_below(&w->tree_rng, (uint32_t)m->opts.near_every) != 0)
        return m->me;
    uint32_t root = (uint32_t)ref_rank(m->root), share = m->root_share;
    uint32_t draw = pgas_mcts_below(&w->tree_rng, (n_ranks - 1) * SHARE_WHOLE + PGASI_MAX(share, 1));
    if (draw < share || n_ranks == 1)
        return (int)root;
    uint32_t other = (draw - share) / SHARE_WHOLE % (n_ranks - 1);
    return (int)(other + (other >= root));
}

/* Takes the parent's state, or with placement by hash, which needs it, the child's own. */
static void make_child(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n, uint32_t depth)
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
    int rank = place_child(w, hash, &owner);
    if (rank != m->me || m->opts.always_call) {
        uint16_t flags = m->by_steps ? CREATE_APPLIED : 0;
        *call = (create_t){ m->id, flags, (uint16_t)depth, place, i, n, move, owner, ref_of(m->me, node) };
        w->counts.remote++;
        pgasi_mcts_post(w, rank, HANDLER_CREATE, call, sizeof *call + m->state_bytes);
        return;
    }
    if (!m->by_steps)
        m->spec.apply(call->state, move, m->spec.arg);
    node_t *child = create_here(w, call->state, hash, owner, ref_of(m->me, node), place, i, n, depth);
    if (child)
        link(w, node, i, ref_of(m->me, child));
}

/* Waits at the entry of a child that is being made. */
static void defer(worker_t *w, node_t *node, uint32_t i, child_t *c, pgasi_ref_t place, uint32_t n, uint32_t depth)
{
    step_t *step = take_step(w, node, place, i, n, depth);
    w->counts.deferred++;
    step->next = __atomic_load_n(&c->deferred, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&c->deferred, &step->next, step, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    if (__atomic_load_n(&c->ref, __ATOMIC_SEQ_CST) || !__atomic_load_n(&c->being_made, __ATOMIC_SEQ_CST))
        forward_deferred(w, node, i, c);
}

/* Gives the child if the way goes on right here. */
static node_t *step_down(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n, uint32_t depth)
{
    pgas_mcts_t *m = w->mcts;
    segment_t *s;
    uint32_t at;
    child_t *c = pgasi_mcts_child(node->edges, i, &s, &at);
    pgasi_ref_t ref = __atomic_load_n(&c->ref, __ATOMIC_ACQUIRE);
    uint8_t free_yet = 0;
    if (PGAS_LIKELY(ref)) {
        bool here = ref_rank(ref) == m->me && !m->opts.always_call;
        if (here && (is_handlers(w) || visits_of(__atomic_load_n(&c->counts, __ATOMIC_RELAXED)) > OFTEN))
            return ref_pointer(ref);
        if (here) {
            rest_at(w, ref_pointer(ref), place, i, n, depth);
            return NULL;
        }
        select_t call = { m->id, depth, ref, place, i, n };
        w->counts.remote++;
        pgasi_mcts_post(w, ref_rank(ref), HANDLER_SELECT, &call, sizeof call);
    } else if (__atomic_compare_exchange_n(&c->being_made, &free_yet, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        if (PGAS_UNLIKELY(__atomic_load_n(&c->ref, __ATOMIC_SEQ_CST)))
            return step_down(w, node, i, place, n, depth);
        make_child(w, node, i, place, n, depth);
    } else {
        defer(w, node, i, c, place, n, depth);
    }
    return NULL;
}

static void go_to_child(worker_t *w, node_t *node, uint32_t i, pgasi_ref_t place, uint32_t n, uint32_t depth)
{
    node_t *child = step_down(w, node, i, place, n, depth);
    if (child)
        descend(w, child, place, i, n, depth);
}

/* From a node as far down as this rank has the way. */
static void descend(worker_t *w, node_t *node, pgasi_ref_t place, uint32_t idx, uint32_t n, uint32_t depth)
{
    pgas_mcts_t *m = w->mcts;
    do {
        if (__atomic_load_n(&node->flags, __ATOMIC_ACQUIRE) & (NODE_PROVEN | NODE_FINAL)) {
            report_known(w, node, place, idx, n);
            return;
        }
        int64_t i = depth < (uint32_t)m->opts.max_depth && pgasi_mcts_open(w, node) ? pgasi_mcts_choose(w, node) : -1;
        if (i < 0) {
            simulate_at(w, node, place, idx, n);
            return;
        }
        __atomic_fetch_add(&node->visits, n, __ATOMIC_RELAXED);
        pgasi_mcts_visit(w, node, (uint32_t)i, n);
        w->counts.selections++;
        depth++;
        if (m->by_steps) {
            step_t *step = take_step(w, node, place, idx, n, depth);
            step->idx = (uint32_t)i;
            place = ref_step(m->me, step);
        } else {
            place = ref_of(m->me, node);
        }
        idx = (uint32_t)i;
        node = step_down(w, node, idx, place, n, depth);
    } while (node);
}

/* ---- handlers ---- */

static worker_t *worker_of(uint32_t id, size_t bytes, size_t least)
{
    pgas_mcts_t *m = id < PGASI_MCTS_SEARCHES ? pgasi_mcts_searches[id] : NULL;
    return m && bytes >= least ? handlers_worker(m) : NULL;
}

static void handle_create(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const create_t *c = args;
    worker_t *w = worker_of(c->id, bytes, sizeof *c);
    void *state = (void *)(uintptr_t)c->state;
    size_t state_bytes = bytes - sizeof *c;
    if (!w || (state_bytes == 0 && pgas_buffer_get(0, &state, &state_bytes) != PGAS_OK) || state_bytes != w->mcts->state_bytes ||
        c->owner >= (uint32_t)w->mcts->n_threads)
        return;
    pgas_mcts_t *m = w->mcts;
    if (c->flags & CREATE_TEMPORARY) {
        simulate_once(w, state, c->owner, c->place, c->idx, c->n);
    } else {
        char *own = w->call; /* of a size for it; nothing is put together there now */
        memcpy(own, state, state_bytes);
        if (!(c->flags & CREATE_APPLIED))
            m->spec.apply(own, c->move, m->spec.arg);
        uint64_t hash = m->by_steps ? m->spec.hash(own, m->spec.arg) : 0;
        create_here(w, own, hash, c->owner, c->parent, c->place, c->idx, c->n, c->depth);
    }
    pgasi_mcts_flush(w);
}

static void select_one(const void *args, size_t bytes)
{
    const select_t *c = args;
    worker_t *w = worker_of(c->id, bytes, sizeof *c);
    if (w)
        rest_at(w, ref_pointer(c->node), c->place, c->idx, c->n, c->depth);
}

static void report_one(const void *args, size_t bytes)
{
    const report_call_t *c = args;
    worker_t *w = worker_of(c->id, bytes, sizeof *c);
    if (!w || bytes != report_bytes(w->mcts, c->proven))
        return;
    if (c->n == 0) {
        link(w, ref_pointer(c->place), c->idx, c->child);
        return;
    }
    size_t n = (size_t)w->mcts->spec.n_players;
    report_t r = { 0 };
    r.child = c->child;
    r.n = c->n;
    r.proven = c->proven;
    memcpy(r.sum, c->data, 8 * n);
    if (r.proven)
        memcpy(r.proof, c->data + n, 4 * n);
    pgasi_ref_t place = c->place;
    uint32_t idx = c->idx;
    deliver_here(w, &place, &idx, &r);
    deliver(w, place, idx, &r);
}

/* The waits for memory of all reports of a batch become one. */
static void fetch_parents(const char *args, size_t bytes, size_t stride, size_t n)
{
    for (size_t i = 0; i < n && bytes >= sizeof(report_call_t); i++) {
        const report_call_t *c = (const report_call_t *)(const void *)(args + i * stride);
        __builtin_prefetch(ref_pointer(c->place));
    }
    for (size_t i = 0; i < n && n > 1 && bytes >= sizeof(report_call_t); i++) {
        const report_call_t *c = (const report_call_t *)(const void *)(args + i * stride);
        if (!(c->place & 1))
            fetch(((const node_t *)ref_pointer(c->place))->edges);
    }
}

/* Several calls of one kind, or one; what came out of them is flushed at the end. */
static void handle_batch(const void *args, size_t bytes, size_t stride, size_t n, pgas_thread_t source, void *context)
{
    (void)source;
    uint32_t id = 0, next;
    if (!context)
        fetch_parents(args, bytes, stride, n);
    for (size_t i = 0; i < n && bytes >= sizeof id; i++) {
        const char *one = (const char *)args + i * stride;
        if (context)
            select_one(one, bytes);
        else
            report_one(one, bytes);
        memcpy(&id, one, sizeof id);
        memcpy(&next, i + 1 < n ? one + stride : one, sizeof next);
        worker_t *w = worker_of(id, bytes, sizeof id);
        if (w && (i + 1 == n || next != id))
            pgasi_mcts_flush(w);
    }
}

static void handle(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    handle_batch(args, bytes, 0, 1, source, context);
}

static void end_soon(pgas_mcts_t *m, uint32_t why)
{
    uint32_t not_yet = 0;
    __atomic_compare_exchange_n(&m->stopping, &not_yet, 1 + why, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void handle_stop(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const stop_t *c = args;
    worker_t *w = worker_of(c->id, bytes, sizeof *c);
    if (w)
        end_soon(w->mcts, c->why);
}

pgas_status_t pgasi_mcts_register(void)
{
    static const struct {
        const char *name;
        pgas_handler_fn_t fn;
    } all[HANDLERS] = { [HANDLER_CREATE] = { "pgas.mcts.create", handle_create },
                        [HANDLER_SELECT] = { "pgas.mcts.select", handle },
                        [HANDLER_REPORT] = { "pgas.mcts.report", handle },
                        [HANDLER_MARK] = { "pgas.mcts.mark", pgasi_mcts_handle_mark },
                        [HANDLER_AUDIT] = { "pgas.mcts.audit", pgasi_mcts_handle_audit },
                        [HANDLER_LOOK] = { "pgas.mcts.look", pgasi_mcts_handle_look },
                        [HANDLER_LINE] = { "pgas.mcts.line", pgasi_mcts_handle_line },
                        [HANDLER_STOP] = { "pgas.mcts.stop", handle_stop } };
    static char is_select;
    pgas_handler_opts_t plain = PGAS_HANDLER_OPTS_INIT, batch = PGAS_HANDLER_OPTS_INIT;
    batch.batch = handle_batch;
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < HANDLERS && status == PGAS_OK; i++) {
        bool in_batches = i == HANDLER_SELECT || i == HANDLER_REPORT;
        status = pgas_handler_register_opts(all[i].name, all[i].fn, i == HANDLER_SELECT ? &is_select : NULL,
                                            in_batches ? &batch : &plain, &pgasi_mcts_handlers[i]);
    }
    return status;
}

/* ---- work ---- */

/* Asks whoever starts rollouts to start no more. */
static void ask_to_end(worker_t *w, uint32_t why)
{
    pgas_mcts_t *m = w->mcts;
    stop_t call = { m->id, why };
    for (int rank = 0; rank < m->n_ranks; rank++) {
        if (m->opts.mode == PGAS_MCTS_ROOT || rank == ref_rank(m->root))
            pgasi_mcts_post(w, rank, HANDLER_STOP, &call, sizeof call);
    }
}

/* What only one thread of the rank looks at. */
static void look_around(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    if (PGAS_UNLIKELY(__atomic_load_n(&m->held, __ATOMIC_RELAXED) != NULL))
        post_held(w);
    if (PGAS_UNLIKELY(__atomic_load_n(&m->stop, __ATOMIC_RELAXED) == 1)) {
        __atomic_store_n(&m->stop, 2, __ATOMIC_RELAXED);
        ask_to_end(w, PGAS_MCTS_BY_STOP);
    }
    if (m->memory_limit && !m->memory_told && __atomic_load_n(&m->bytes, __ATOMIC_RELAXED) >= m->memory_limit) {
        m->memory_told = true;
        ask_to_end(w, PGAS_MCTS_BY_MEMORY);
    }
    if (m->deadline_ns && m->has_root && pgasi_now_ns() >= m->deadline_ns)
        end_soon(m, PGAS_MCTS_BY_TIME);
}

static bool may_start(const pgas_mcts_t *m)
{
    return m->has_root && __atomic_load_n(&m->to_start, __ATOMIC_RELAXED) > 0 &&
           !__atomic_load_n(&m->stopping, __ATOMIC_RELAXED) &&
           (int64_t)(__atomic_load_n(&m->started, __ATOMIC_RELAXED) - __atomic_load_n(&m->completed, __ATOMIC_RELAXED)) <
               m->opts.in_flight + (int64_t)m->n_lost;
}

static bool start(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    int64_t group = m->opts.mode == PGAS_MCTS_LEAF ? m->n_ranks : 1;
    if (!may_start(m))
        return false;
    int64_t left = __atomic_fetch_sub(&m->to_start, group, __ATOMIC_RELAXED);
    if (left <= 0)
        return false;
    uint32_t n = (uint32_t)PGASI_MIN(left, group);
    __atomic_fetch_add(&m->started, n, __ATOMIC_RELAXED);
    node_t *root = ref_pointer(m->root);
    if (PGAS_UNLIKELY((root->flags & NODE_PROVEN) && !m->even_if_proven)) {
        end_soon(m, PGAS_MCTS_BY_PROOF);
        __atomic_fetch_sub(&m->started, n, __ATOMIC_RELAXED);
        return false;
    }
    descend(w, root, 0, 0, n, 0);
    return true;
}

static step_t *next_job(worker_t *w)
{
    step_t *job = pop(w);
    w->n_jobs_ended += job != NULL;
    if (!job && w->own) {
        job = w->own;
        w->own = job->next;
        w->n_own--;
        if (!w->own)
            w->own_end = &w->own;
    }
    return job;
}

static void rest(worker_t *w)
{
    pgasi_mcts_flush(w);
    uint64_t ended = w->n_jobs_ended + w->active;
    w->n_jobs_ended = 0;
    w->active = false;
    if (!w->idle_since_ns)
        w->idle_since_ns = pgasi_now_ns();
    __atomic_store_n(&w->wants, 1, __ATOMIC_RELAXED);
    if (ended)
        __atomic_fetch_add(&w->mcts->work.ended, ended, __ATOMIC_RELEASE);
}

static void begin(worker_t *w)
{
    w->active = true;
    if (w->idle_since_ns)
        __atomic_store_n(&w->idle_ns, w->idle_ns + pgasi_now_ns() - w->idle_since_ns, __ATOMIC_RELAXED);
    w->idle_since_ns = 0;
    __atomic_store_n(&w->wants, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&w->mcts->work.made, 1, __ATOMIC_RELEASE);
}

/* Some rollouts' worth of work; how many things were done. */
int pgasi_mcts_run(worker_t *w)
{
    pgas_mcts_t *m = w->mcts;
    int n = 0;
    uint64_t enough = w->counts.playouts + PLAYOUTS_OF_RUN;
    if (!w->active && (has_jobs(w) || may_start(m) || __atomic_load_n(&m->held, __ATOMIC_RELAXED)))
        begin(w);
    if (w->index == 0)
        look_around(w);
    while (w->active && n < 4 * PLAYOUTS_OF_RUN && w->counts.playouts < enough) {
        step_t *job = NULL;
        if ((w->n_own >= OWN_JOBS || !start(w)) && (job = next_job(w)) == NULL)
            break;
        if (job)
            do_job(w, job);
        n++;
    }
    if (n == 0)
        rest(w);
    else
        pgasi_mcts_flush(w);
    return n;
}

int pgasi_mcts_run_work(void *worker)
{
    return pgasi_mcts_run(worker);
}
