/* Calls of a search: sending them, keeping what finds no room in a handler, and the handlers. */
#include <stdlib.h>

#include "mcts/walk.h"
#include "pgas/buffer.h"
#include "pgas/handler.h"

pgas_mcts_t *pgasi_mcts_searches[PGASI_MCTS_SEARCHES];
pgas_handler_t pgasi_mcts_handlers[HANDLERS];

/* ---- sending ---- */

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
    while (!__atomic_compare_exchange_n(&m->held, &held->next, held, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
}

/* A state that is larger than a call goes behind it. */
static pgas_status_t call_large(int rank, pgas_handler_t handler, const char *args, size_t bytes)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_buffer_t state = { PGAS_BUFFER_COPY, args + sizeof(create_t), bytes - sizeof(create_t), 0,
                            false };
    return pgas_call_buffer(pgas_thread_make(rank, PGAS_SLOT_ANY), handler, args, sizeof(create_t),
                            &state, 1, &opts, NULL);
}

static pgas_status_t try_post(worker_t *w, int rank, handler_number_t number, const void *args,
                              size_t bytes)
{
    pgas_handler_t handler = pgasi_mcts_handlers[number];
    pgas_status_t status = pgas_agg_call(w->agg, rank, handler, args, bytes);
    if (PGAS_UNLIKELY(status == PGAS_ERR_LIMIT && number == HANDLER_CREATE))
        return call_large(rank, handler, args, bytes);
    return status;
}

/* A call that cannot be made (its rank died) is a rollout that is lost: nobody will report it. */
void pgasi_mcts_post(worker_t *w, int rank, handler_number_t handler, const void *args,
                     size_t bytes)
{
    pgas_status_t status = try_post(w, rank, handler, args, bytes);
    while (PGAS_UNLIKELY(status == PGAS_ERR_AGAIN)) {
        if (pgasi_mcts_is_handlers(w)) {
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

void pgasi_mcts_post_held(worker_t *w)
{
    held_t *next, *held = __atomic_exchange_n(&w->mcts->held, NULL, __ATOMIC_ACQUIRE);
    for (; held; held = next) {
        next = held->next;
        pgasi_mcts_post(w, held->rank, held->handler, held->args, held->bytes);
        free(held);
        w->n_jobs_ended++;
    }
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
    if (!w || (state_bytes == 0 && pgas_buffer_get(0, &state, &state_bytes) != PGAS_OK) ||
        state_bytes != w->mcts->state_bytes || c->owner >= (uint32_t)w->mcts->n_threads)
        return;
    pgas_mcts_t *m = w->mcts;
    if (c->flags & CREATE_TEMPORARY) {
        pgasi_mcts_simulate_once(w, state, c->owner, c->place, c->idx, c->n);
    } else {
        char *own = w->call; /* of a size for it; nothing is put together there now */
        memcpy(own, state, state_bytes);
        if (!(c->flags & CREATE_APPLIED))
            m->spec.apply(own, c->move, m->spec.arg);
        uint64_t hash = m->by_steps ? m->spec.hash(own, m->spec.arg) : 0;
        pgasi_mcts_create_here(w, own, hash, c->owner, c->parent, c->place, c->idx, c->n, c->depth);
    }
    pgasi_mcts_flush(w);
}

static void select_one(const void *args, size_t bytes)
{
    const select_t *c = args;
    worker_t *w = worker_of(c->id, bytes, sizeof *c);
    if (w)
        pgasi_mcts_rest_at(w, ref_pointer(c->node), c->place, c->idx, c->n, c->depth);
}

static void report_one(const void *args, size_t bytes)
{
    const report_call_t *c = args;
    worker_t *w = worker_of(c->id, bytes, sizeof *c);
    if (!w || bytes != pgasi_mcts_report_bytes(w->mcts, c->proven))
        return;
    if (c->n == 0) {
        pgasi_mcts_link(w, ref_pointer(c->place), c->idx, c->child);
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
    pgasi_mcts_deliver_here(w, &place, &idx, &r);
    pgasi_mcts_deliver(w, place, idx, &r);
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
        bool is_here = worker_of(c->id, bytes, sizeof *c); /* else its search has ended */
        if (is_here && !(c->place & 1))
            pgasi_mcts_fetch(
                __atomic_load_n(&((const node_t *)ref_pointer(c->place))->edges, __ATOMIC_RELAXED));
    }
}

/* Several calls of one kind, or one; what came out of them is flushed at the end. */
static void handle_batch(const void *args, size_t bytes, size_t stride, size_t n,
                         pgas_thread_t source, void *context)
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

void pgasi_mcts_end_soon(pgas_mcts_t *m, uint32_t why)
{
    uint32_t not_yet = 0;
    __atomic_compare_exchange_n(&m->stopping, &not_yet, 1 + why, false, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
}

static void handle_stop(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    const stop_t *c = args;
    worker_t *w = worker_of(c->id, bytes, sizeof *c);
    if (w && c->search == (uint16_t)__atomic_load_n(&w->mcts->n_searches, __ATOMIC_RELAXED))
        pgasi_mcts_end_soon(w->mcts, c->why);
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
        status = pgas_handler_register_opts(all[i].name, all[i].fn,
                                            i == HANDLER_SELECT ? &is_select : NULL,
                                            in_batches ? &batch : &plain, &pgasi_mcts_handlers[i]);
    }
    return status;
}
