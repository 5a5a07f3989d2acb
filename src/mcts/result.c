/* pgas_mcts_result requests the state of the root from the root's rank, also while a search
 * runs. */
#include "base/clock.h"
#include "base/info_fill.h"
#include "mcts/message.h"
#include "pgas/runtime.h"

#define APART_NS   UINT64_C(1000000)
#define DOUBLE_MAX 8 /* times */

void pgasi_mcts_result_here(const pgas_mcts_t *m, pgas_mcts_result_t *result)
{
    node_t *root = id_pointer(m->root);
    uint32_t i = 0;
    const child_t *best = pgasi_mcts_best_child(root, &i);
    *result = m->result;
    result->best = PGAS_MCTS_NO_MOVE;
    result->value = .5;
    if (best) {
        result->best = root->edges->moves[i];
        result->value = pgasi_mcts_value(best->value, best->done, best->proven, best->proven_value);
    }
    result->visits = root->visits;
    result->proven = root->flags & NODE_PROVEN;
    if (result->proven)
        result->value = (double)proof_of(m, root)[player_of(root)] / PGASI_MCTS_ONE;
    if (m->begin_ns) {
        result->rollouts = __atomic_load_n(&m->completed, __ATOMIC_RELAXED);
        result->seconds = (double)(pgasi_now_ns() - m->begin_ns) * 1e-9;
    }
}

void pgasi_mcts_handle_result(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source, (void)context;
    pgas_mcts_t *m = pgasi_mcts_search_of_node(args, bytes);
    result_answer_t answer;
    memset(&answer, 0, sizeof answer);
    answer.result.best = PGAS_MCTS_NO_MOVE;
    answer.result.value = .5;
    if (m && pthread_mutex_trylock(&m->root_lock) == 0) {
        if (m->has_root && m->root)
            pgasi_mcts_result_here(m, &answer.result);
        /* the root has moved to another rank; the requesting rank gets the new root soon */
        answer.busy = m->has_state && !m->has_root && !m->broken;
        pthread_mutex_unlock(&m->root_lock);
    } else {
        answer.busy = m != NULL;
    }
    pgas_reply(&answer, sizeof answer);
}

/* Waits until the last request of this rank's threads is some time ago.
 *
 * A phase ends when no call is under way, and each request is a call. Therefore the first call of a
 * phase is free, and the distance to the next one doubles from call to call: 1 ms to 256 ms. */
static void wait_apart(pgas_mcts_t *m)
{
    uint64_t phase = __atomic_load_n(&m->n_phases, __ATOMIC_RELAXED), now = pgasi_now_ns();
    bool runs = __atomic_load_n(&m->begin_ns, __ATOMIC_RELAXED) != 0;
    if (__atomic_exchange_n(&m->asked_phase, phase, __ATOMIC_RELAXED) != phase || !runs)
        __atomic_store_n(&m->n_asked, 0, __ATOMIC_RELAXED);
    uint64_t until = __atomic_load_n(&m->ask_after_ns, __ATOMIC_RELAXED);
    uint32_t idle = 0, n = __atomic_fetch_add(&m->n_asked, 1, __ATOMIC_RELAXED);
    while (n > 0 && now < until && phase == __atomic_load_n(&m->n_phases, __ATOMIC_RELAXED)) {
        pgas_progress();
        pgasi_mcts_wait(idle++);
        now = pgasi_now_ns();
    }
    uint32_t doublings = PGASI_MIN(n, DOUBLE_MAX);
    __atomic_store_n(&m->ask_after_ns, now + (APART_NS << doublings), __ATOMIC_RELAXED);
}

/* Waits while the root changes on this rank, which also ends when no call is under way. The wait is
 * bounded: a handler, which may not call pgas_mcts_result, may hold the lock below this call. */
static void wait_for_root(pgas_mcts_t *m)
{
    bool locked = false;
    for (uint32_t idle = 0; !locked && idle < 1000; pgasi_mcts_wait(idle++)) {
        pgas_progress();
        locked = pthread_mutex_trylock(&m->root_lock) == 0;
    }
    if (locked)
        pthread_mutex_unlock(&m->root_lock);
}

pgas_status_t pgas_mcts_result(pgas_mcts_t *m, pgas_mcts_result_t *result_p)
{
    if (!pgas_initialized())
        return PGAS_ERR_NOT_INIT;
    if (!pgasi_mcts_is_live(m) || !result_p)
        return PGAS_ERR_INVALID;
    node_message_t message = { m->id, 0, 0, 0 };
    result_answer_t answer = { 0 };
    pgas_status_t status;
    do {
        wait_apart(m);
        wait_for_root(m);
        node_id_t root = __atomic_load_n(&m->root, __ATOMIC_RELAXED);
        int rank = m->opts.mode == PGAS_MCTS_ROOT ? 0 : id_rank(root);
        status = pgas_call_return(rank, pgasi_mcts_registry.handler[HANDLER_RESULT], &message,
                                  sizeof message, &answer, sizeof answer);
    } while (status == PGAS_OK && answer.busy);
    if (status == PGAS_OK)
        status = pgasi_info_fill(result_p, &answer.result, sizeof answer.result);
    return status;
}
