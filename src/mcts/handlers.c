/* The handlers of a search: they check what arrives and pass it on. A message of a search that has
 * ended is dropped. */
#include "mcts/walk.h"

static worker_t *worker_of(uint32_t number, size_t bytes, size_t least)
{
    pgas_mcts_t *m = pgasi_mcts_search_of(number);
    return m && bytes >= least ? handlers_worker(m) : NULL;
}

static void handle_create(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const create_message_t *c = args;
    worker_t *w = worker_of(c->search, bytes, sizeof *c);
    void *state = (void *)(uintptr_t)c->state;
    size_t state_bytes = bytes - sizeof *c;
    if (!w || (state_bytes == 0 && pgas_buffer_get(0, &state, &state_bytes) != PGAS_OK) ||
        state_bytes != w->mcts->state_bytes || c->owner >= (uint32_t)w->mcts->n_threads)
        return;
    pgas_mcts_t *m = w->mcts;
    rollouts_t rollouts = { c->parent, c->child, c->n, c->depth };
    if (c->flags & CREATE_TEMPORARY) {
        pgasi_mcts_simulate_once(w, state, c->owner, &rollouts);
    } else {
        char *own = w->message; /* large enough, and no message is being composed there now */
        memcpy(own, state, state_bytes);
        if (!(c->flags & CREATE_APPLIED))
            m->spec.apply(own, c->move, m->spec.arg);
        uint64_t hash = m->is_graph ? m->spec.hash(own, m->spec.arg) : 0;
        pgasi_mcts_create_here(w, own, hash, c->owner, c->parent_node, &rollouts);
    }
    pgasi_mcts_flush(w);
}

static void select_one(const void *args, size_t bytes)
{
    const select_message_t *c = args;
    worker_t *w = worker_of(c->search, bytes, sizeof *c);
    rollouts_t rollouts = { c->parent, c->child, c->n, c->depth };
    if (w)
        pgasi_mcts_suspend(w, id_pointer(c->node), &rollouts);
}

static void report_one(const void *args, size_t bytes)
{
    const report_message_t *c = args;
    worker_t *w = worker_of(c->search, bytes, sizeof *c);
    if (!w || bytes != pgasi_mcts_report_bytes(w->mcts, c->proven))
        return;
    if (c->n == 0) {
        pgasi_mcts_link(w, id_pointer(c->parent), c->child, c->child_id);
        return;
    }
    size_t n = (size_t)w->mcts->spec.n_players;
    report_t r = { 0 };
    r.child_id = c->child_id;
    r.n = c->n;
    r.proven = c->proven;
    memcpy(r.sum, c->data, 8 * n);
    if (r.proven)
        memcpy(r.proof, c->data + n, 4 * n);
    node_id_t parent = c->parent;
    uint32_t child = c->child;
    pgasi_mcts_deliver_here(w, &parent, &child, &r);
    pgasi_mcts_deliver(w, parent, child, &r);
}

/* Prefetches for all reports of a batch, so that their waits for memory overlap. */
static void prefetch_parents(const char *args, size_t bytes, size_t stride, size_t n)
{
    for (size_t i = 0; i < n && bytes >= sizeof(report_message_t); i++) {
        const report_message_t *c = (const report_message_t *)(const void *)(args + i * stride);
        __builtin_prefetch(id_pointer(c->parent));
    }
    for (size_t i = 0; i < n && n > 1 && bytes >= sizeof(report_message_t); i++) {
        const report_message_t *c = (const report_message_t *)(const void *)(args + i * stride);
        bool is_live = worker_of(c->search, bytes, sizeof *c);
        if (is_live && !id_is_path(c->parent)) {
            const node_t *node = id_pointer(c->parent);
            pgasi_mcts_prefetch(__atomic_load_n(&node->edges, __ATOMIC_RELAXED));
        }
    }
}

/* Handles calls of one kind. Flushes once after those that belong to the same search. */
static void for_each_call(const char *args, size_t bytes, size_t stride, size_t n,
                          void (*handle_one)(const void *args, size_t bytes))
{
    uint32_t search = 0, next;
    for (size_t i = 0; i < n && bytes >= sizeof search; i++) {
        const char *one = args + i * stride;
        handle_one(one, bytes);
        memcpy(&search, one, sizeof search);
        memcpy(&next, i + 1 < n ? one + stride : one, sizeof next);
        worker_t *w = worker_of(search, bytes, sizeof search);
        if (w && (i + 1 == n || next != search))
            pgasi_mcts_flush(w);
    }
}

static void handle_selects(const void *args, size_t bytes, size_t stride, size_t n,
                           pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    for_each_call(args, bytes, stride, n, select_one);
}

static void handle_reports(const void *args, size_t bytes, size_t stride, size_t n,
                           pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    prefetch_parents(args, bytes, stride, n);
    for_each_call(args, bytes, stride, n, report_one);
}

static void handle_select(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    handle_selects(args, bytes, 0, 1, source, context);
}

static void handle_report(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    handle_reports(args, bytes, 0, 1, source, context);
}

static void handle_stop(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const stop_message_t *c = args;
    worker_t *w = worker_of(c->search, bytes, sizeof *c);
    if (w && c->number == (uint16_t)__atomic_load_n(&w->mcts->n_searches, __ATOMIC_RELAXED))
        pgasi_mcts_end_soon(w->mcts, c->why);
}

pgas_status_t pgasi_mcts_register(void)
{
    static const struct {
        const char *name;
        pgas_handler_fn_t fn;
        pgas_handler_batch_fn_t batch;
    } all[HANDLERS] = { [HANDLER_CREATE] = { "pgas.mcts.create", handle_create, NULL },
                        [HANDLER_SELECT] = { "pgas.mcts.select", handle_select, handle_selects },
                        [HANDLER_REPORT] = { "pgas.mcts.report", handle_report, handle_reports },
                        [HANDLER_MARK] = { "pgas.mcts.mark", pgasi_mcts_handle_mark, NULL },
                        [HANDLER_AUDIT] = { "pgas.mcts.audit", pgasi_mcts_handle_audit, NULL },
                        [HANDLER_RESULT] = { "pgas.mcts.info", pgasi_mcts_handle_result, NULL },
                        [HANDLER_PV] = { "pgas.mcts.pv", pgasi_mcts_handle_pv, NULL },
                        [HANDLER_STOP] = { "pgas.mcts.stop", handle_stop, NULL } };
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < HANDLERS && status == PGAS_OK; i++) {
        pgas_handler_opts_t opts = PGAS_HANDLER_OPTS_INIT;
        opts.batch = all[i].batch;
        status = pgas_handler_register(all[i].name, all[i].fn, NULL, &opts,
                                       &pgasi_mcts_registry.handler[i]);
    }
    return status;
}
