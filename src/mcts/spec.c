/* The program's description of a problem: checking it, and calling its functions. Their results
 * are brought into range. The first violation of a function is logged, later ones are not; the
 * search continues with a harmless value. */
#include "mcts/mcts.h"

/* A playout by single moves that is longer ends with the value 0.5 for each player. */
#define PLIES_MAX 100000

/* Returns NULL if nothing is wrong. */
static const char *wrong_with(const pgas_mcts_spec_t *spec)
{
    if (!spec->moves || !spec->apply || !spec->outcome)
        return "moves, apply and outcome are required";
    if (spec->n_players > 1 && !spec->turn)
        return "turn is required for more than one player";
    if (spec->playout && spec->evaluate)
        return "playout and evaluate exclude each other";
    if (spec->state_bytes < 1 || spec->n_players < 1 || spec->moves_max < 1)
        return "state_bytes, n_players and moves_max must be at least 1";
    return NULL;
}

/* The field that is above its limit, or NULL. */
static const char *beyond(const pgas_mcts_spec_t *spec)
{
    if (spec->state_bytes > PGAS_MCTS_STATE_MAX)
        return "state_bytes";
    if (spec->n_players > PGAS_MCTS_PLAYERS_MAX)
        return "n_players";
    if (spec->moves_max > PGAS_MCTS_MOVES_MAX)
        return "moves_max";
    return NULL;
}

pgas_status_t pgasi_mcts_check_spec(const pgas_mcts_spec_t *spec)
{
    if (!spec || spec->size < sizeof *spec) {
        PGASI_ERROR("mcts", "the description is NULL or was not set to PGAS_MCTS_SPEC_INIT");
        return PGAS_ERR_INVALID;
    }
    const char *text = wrong_with(spec), *field = beyond(spec),
               *name = spec->name ? spec->name : "unnamed";
    if (text) {
        PGASI_ERROR("mcts", "problem %s: %s", name, text);
        return PGAS_ERR_INVALID;
    }
    if (field) {
        PGASI_ERROR("mcts", "problem %s: %s is above its limit", name, field);
        return PGAS_ERR_LIMIT;
    }
    return PGAS_OK;
}

static void complain(const pgas_mcts_t *m, const char *what)
{
    static int once;
    if (!__atomic_exchange_n(&once, 1, __ATOMIC_RELAXED))
        PGASI_ERROR("mcts", "problem %s: %s", m->spec.name ? m->spec.name : "unnamed", what);
}

int pgasi_mcts_turn(const pgas_mcts_t *m, const void *state)
{
    int player = m->spec.turn ? m->spec.turn(state, m->spec.arg) : 0;
    if (player >= PGAS_MCTS_CHANCE && player < m->spec.n_players)
        return player;
    complain(m, "turn returned a player that does not exist");
    return 0;
}

/* NaN becomes 0. */
static float bounded(float value)
{
    if (value > 1)
        return 1;
    return value > 0 ? value : 0;
}

bool pgasi_mcts_outcome(const pgas_mcts_t *m, const void *state, uint32_t *values)
{
    float value[PGAS_MCTS_PLAYERS_MAX] = { 0 };
    if (!m->spec.outcome(state, value, m->spec.arg))
        return false;
    for (int p = 0; p < m->spec.n_players; p++)
        values[p] = (uint32_t)(bounded(value[p]) * PGASI_MCTS_ONE + .5f);
    return true;
}

uint32_t pgasi_mcts_moves(worker_t *w, const void *state, bool priors)
{
    const pgas_mcts_spec_t *spec = &w->mcts->spec;
    uint32_t n = spec->moves(state, w->moves, priors ? w->priors : NULL, spec->arg);
    if (n >= 1 && n <= spec->moves_max)
        return n;
    complain(w->mcts, n ? "moves returned more than moves_max moves"
                        : "moves returned no move of a state that is not final");
    return n ? spec->moves_max : 0;
}

uint32_t pgasi_mcts_draw(pgas_mcts_rng_t *rng, const float *chances, uint32_t n)
{
    float x = (float)(pgas_mcts_random(rng) >> 40) * 0x1p-24f;
    uint32_t i = 0;
    while (i + 1 < n && x >= chances[i])
        x -= chances[i++];
    return i;
}

/* Plays one game by moves, apply and outcome. Adds its outcome to sums. */
static void play(worker_t *w, const void *state, float *sums)
{
    const pgas_mcts_spec_t *spec = &w->mcts->spec;
    float value[PGAS_MCTS_PLAYERS_MAX] = { 0 };
    memcpy(w->state, state, spec->state_bytes);
    for (int ply = 0; !spec->outcome(w->state, value, spec->arg); ply++) {
        bool chance = pgasi_mcts_turn(w->mcts, w->state) == PGAS_MCTS_CHANCE;
        uint32_t n = ply < PLIES_MAX ? pgasi_mcts_moves(w, w->state, chance) : 0;
        if (n == 0) {
            for (int p = 0; p < spec->n_players; p++)
                value[p] = .5f;
            break;
        }
        uint32_t i = chance ? pgasi_mcts_draw(&w->playout_rng, w->priors, n)
                            : pgas_mcts_random_below(&w->playout_rng, n);
        spec->apply(w->state, w->moves[i], spec->arg);
    }
    for (int p = 0; p < spec->n_players; p++)
        sums[p] += bounded(value[p]);
}

static void simulate(worker_t *w, const void *state, uint64_t *sums)
{
    const pgas_mcts_spec_t *spec = &w->mcts->spec;
    int n = spec->evaluate ? 1 : w->mcts->opts.playouts;
    float sum[PGAS_MCTS_PLAYERS_MAX] = { 0 };
    if (spec->evaluate)
        spec->evaluate(state, sum, spec->arg);
    else if (spec->playout)
        spec->playout(state, &w->playout_rng, n, sum, spec->arg);
    else
        for (int i = 0; i < n; i++)
            play(w, state, sum);
    w->counts.playouts += (uint64_t)n;
    for (int p = 0; p < spec->n_players; p++)
        sums[p] += (uint64_t)(bounded(sum[p] / (float)n) * (float)PGASI_MCTS_ONE + .5f);
}

void pgasi_mcts_simulate(worker_t *w, const void *state, uint32_t n, uint64_t *sums)
{
    memset(sums, 0, PGAS_MCTS_PLAYERS_MAX * sizeof *sums);
    for (uint32_t i = 0; i < n; i++)
        simulate(w, state, sums);
}
