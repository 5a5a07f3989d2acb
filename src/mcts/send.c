/* Sending messages. Reports of the same child that wait to be sent become one. A handler must not
 * wait, so a message for which it finds no room is postponed: another thread sends it. */
#include <stdlib.h>

#include "mcts/message.h"
#include "pgas/call.h"

typedef struct postponed {
    struct postponed *next;
    int rank;
    handler_number_t handler;
    size_t bytes;
    char args[] __attribute__((aligned(8)));
} postponed_t;

static void postpone(worker_t *w, int rank, handler_number_t handler, const void *args,
                     size_t bytes)
{
    pgas_mcts_t *m = w->mcts;
    postponed_t *call = malloc(sizeof *call + bytes);
    if (!call) {
        PGASI_ERROR("mcts", "no memory to postpone a message: a rollout is lost");
        return;
    }
    call->rank = rank;
    call->handler = handler;
    call->bytes = bytes;
    memcpy(call->args, args, bytes);
    __atomic_fetch_add(&m->work.made, 1, __ATOMIC_RELEASE);
    call->next = __atomic_load_n(&m->postponed, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&m->postponed, &call->next, call, true, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED)) {
    }
}

/* A state that does not fit into a call follows it as a buffer. */
static pgas_status_t call_large(int rank, pgas_handler_t handler, const char *args, size_t bytes)
{
    const size_t head = sizeof(create_message_t);
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_buffer_t state = { PGAS_BUFFER_COPY, args + head, bytes - head, 0, false, NULL };
    opts.buffers = &state;
    opts.n_buffers = 1;
    return pgas_call_to(pgas_on_rank(rank), handler, args, head, &opts);
}

static pgas_status_t try_post(worker_t *w, int rank, handler_number_t number, const void *args,
                              size_t bytes)
{
    pgas_handler_t handler = pgasi_mcts_registry.handler[number];
    pgas_status_t status = pgas_agg_call(w->agg, rank, handler, args, bytes);
    if (PGAS_UNLIKELY(status == PGAS_ERR_LIMIT && number == HANDLER_CREATE))
        return call_large(rank, handler, args, bytes);
    return status;
}

/* A message that cannot be sent, because its rank died, loses a rollout: there will be no
 * report. */
void pgasi_mcts_post(worker_t *w, int rank, handler_number_t handler, const void *args,
                     size_t bytes)
{
    pgas_status_t status = try_post(w, rank, handler, args, bytes);
    while (PGAS_UNLIKELY(status == PGAS_ERR_AGAIN)) {
        if (is_handlers_worker(w)) {
            postpone(w, rank, handler, args, bytes);
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

void pgasi_mcts_post_postponed(worker_t *w)
{
    postponed_t *next, *call = __atomic_exchange_n(&w->mcts->postponed, NULL, __ATOMIC_ACQUIRE);
    for (; call; call = next) {
        next = call->next;
        pgasi_mcts_post(w, call->rank, call->handler, call->args, call->bytes);
        free(call);
        w->n_jobs_ended++;
    }
}

/* ---- reports ---- */

size_t pgasi_mcts_report_bytes(const pgas_mcts_t *m, bool proven)
{
    size_t n = (size_t)m->spec.n_players;
    return sizeof(report_message_t) + 8 * n + (proven ? PGASI_ALIGN_UP(4 * n, 8) : 0);
}

void pgasi_mcts_post_report(worker_t *w, node_id_t parent, uint32_t child, const report_t *r)
{
    const pgas_mcts_t *m = w->mcts;
    size_t n = (size_t)m->spec.n_players;
    union {
        report_message_t head;
        char bytes[sizeof(report_message_t) + 12 * PGAS_MCTS_PLAYERS_MAX];
    } u;
    u.head = (report_message_t){ m->id, r->proven, parent, r->child_id, child, r->n };
    memcpy(u.bytes + sizeof u.head, r->sum, 8 * n);
    if (r->proven)
        memcpy(u.bytes + sizeof u.head + 8 * n, r->proof, 4 * PGASI_ALIGN_UP(n, 2));
    w->counts.reports_remote += r->n > 0;
    pgasi_mcts_post(w, id_rank(parent), HANDLER_REPORT, u.bytes,
                    pgasi_mcts_report_bytes(m, r->proven));
}

static void add_report(const pgas_mcts_t *m, report_t *sum, const report_t *r)
{
    for (int p = 0; p < m->spec.n_players; p++)
        sum->sum[p] += r->sum[p];
    sum->n += r->n;
    if (r->child_id)
        sum->child_id = r->child_id;
    if (r->proven)
        memcpy(sum->proof, r->proof, sizeof r->proof);
    sum->proven |= r->proven;
}

/* A report waits in the slot that the hash of its receiver gives. Another receiver that needs the
 * slot sends it. */
void pgasi_mcts_combine(worker_t *w, node_id_t parent, uint32_t child, const report_t *r)
{
    uint64_t mix = (parent + child) * UINT64_C(0x9e3779b97f4a7c15);
    combined_t *c = &w->combined[mix >> 58];
    if (w->mcts->opts.no_combining) {
        pgasi_mcts_post_report(w, parent, child, r);
        return;
    }
    if (c->used && c->parent == parent && c->child == child) {
        add_report(w->mcts, &c->report, r);
        w->counts.combined++;
        return;
    }
    if (c->used)
        pgasi_mcts_post_report(w, c->parent, c->child, &c->report);
    w->n_combined += !c->used;
    *c = (combined_t){ parent, child, true, *r };
}

void pgasi_mcts_flush(worker_t *w)
{
    for (int i = 0; w->n_combined > 0; i++) {
        combined_t *c = &w->combined[i];
        if (c->used) {
            c->used = false;
            w->n_combined--;
            pgasi_mcts_post_report(w, c->parent, c->child, &c->report);
        }
    }
    while (w->n_dirty > 0) {
        int rank = w->dirty[--w->n_dirty];
        w->is_dirty[rank] = false;
        if (!is_handlers_worker(w)) /* the library sends the calls of handlers after they ran */
            pgas_agg_flush(w->agg, rank, NULL);
    }
}
