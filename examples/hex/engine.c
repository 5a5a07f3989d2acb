/* hex: the search on all ranks. Rank 0 sends orders, structs of one size, by a broadcast in which
 * the others sleep; then all execute the order together. */
#include <string.h>
#include "hexprog.h"

typedef enum { CREATE, STATE, ADVANCE, SEARCH, END } what_t;
typedef struct {
    what_t what;
    int size;                  /* CREATE */
    pgas_mcts_opts_t opts;     /* CREATE */
    pgas_mcts_move_t move;     /* ADVANCE */
    pgas_mcts_budget_t budget; /* SEARCH */
} order_t;

static pgas_status_t carry_out(pgas_mcts_t **search, const order_t *order, const pgas_hex_t *state,
                               pgas_mcts_result_t *result)
{
    pgas_status_t status = PGAS_OK;
    switch (order->what) {
    case ADVANCE:
        return pgas_mcts_advance(*search, order->move);
    case STATE:
        return pgas_mcts_set_state(*search, state);
    case SEARCH:
        return pgas_mcts_search(*search, &order->budget, result);
    case CREATE:
    case END:
        if (*search)
            status = pgas_mcts_destroy(*search);
        *search = NULL;
        if (status == PGAS_OK && order->what == CREATE)
            status = pgas_mcts_create(pgas_hex_spec(order->size), &order->opts, search);
    }
    return status;
}

/* Rank 0. */
static pgas_status_t give(engine_t *engine, order_t *order, const pgas_hex_t *state)
{
    pgas_status_t status = pgas_broadcast(NULL, order, sizeof *order, 0);
    order->budget.progress = engine->progress; /* which is rank 0's alone */
    order->budget.progress_arg = engine->progress_arg;
    if (status == PGAS_OK)
        status = carry_out(&engine->search, order, state, &engine->report.result);
    engine->broken |= status == PGAS_ERR_PEER;
    return status;
}

pgas_status_t engine_create(engine_t *engine, int size, const pgas_mcts_opts_t *opts)
{
    order_t order = { .what = CREATE, .size = size, .opts = *opts };
    return give(engine, &order, NULL);
}

pgas_status_t engine_state(engine_t *engine, const pgas_hex_t *state)
{
    order_t order = { .what = STATE };
    return give(engine, &order, state);
}

pgas_status_t engine_advance(engine_t *engine, pgas_mcts_move_t move)
{
    order_t order = { .what = ADVANCE, .move = move };
    return give(engine, &order, NULL);
}

pgas_status_t engine_search(engine_t *engine, const pgas_mcts_budget_t *budget)
{
    order_t order = { .what = SEARCH, .budget = *budget };
    engine->report.result.size = sizeof engine->report.result;
    return give(engine, &order, NULL);
}

pgas_status_t engine_end(engine_t *engine)
{
    order_t order = { .what = END };
    return engine->broken ? PGAS_ERR_PEER : give(engine, &order, NULL);
}

pgas_status_t engine_follow(void)
{
    pgas_mcts_t *search = NULL;
    order_t order;
    pgas_status_t status;
    do {
        status = pgas_broadcast(NULL, &order, sizeof order, 0);
        if (status == PGAS_OK)
            /* errors occur on all ranks alike: rank 0 decides */
            status = carry_out(&search, &order, NULL, NULL);
    } while (status != PGAS_ERR_PEER && !(status == PGAS_OK && order.what == END));
    return status;
}
