/* The program's description of a problem: what must be there, and what its functions give, brought
 * into range. A function that breaks its word is told once; the search goes on with something
 * harmless. */
#include "mcts/mcts.h"

#define PLIES_MAX 100000 /* of a playout by moves; then nobody has won */

static const char *wrong_with(const pgas_mcts_spec_t *spec)
{
    if (!spec->moves || !spec->apply || !spec->outcome)
        return "moves, apply and outcome are needed";
    if (spec->n_players > 1 && !spec->turn)
        return "turn is needed for more than one player";
    if (spec->playout && spec->evaluate)
        return "playout and evaluate exclude each other";
    if (spec->state_bytes < 1 || spec->n_players < 1 || spec->moves_max < 1)
        return "state_bytes, n_players and moves_max are at least 1";
    return NULL;
}

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
        PGASI_ERROR("mcts", "no description, or one that was not begun with PGAS_MCTS_SPEC_INIT");
        return PGAS_ERR_INVALID;
    }
    const char *text = wrong_with(spec), *field = beyond(spec),
               *name = spec->name ? spec->name : "unnamed";
    if (text)
        PGASI_ERROR("mcts", "problem %s: %s", name, text);
    else if (field)
        PGASI_ERROR("mcts", "problem %s: %s is above what is stated", name, field);
    return text ? PGAS_ERR_INVALID : field ? PGAS_ERR_LIMIT : PGAS_OK;
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
    complain(m, "turn gives a player that there is not");
    return 0;
}

/* Also NaN becomes a value. */
static float bounded(float value)
{
    return value > 1 ? 1 : value > 0 ? value : 0;
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
    complain(w->mcts, n ? "more moves than moves_max" : "no moves in a state that is not final");
    return n ? spec->moves_max : 0;
}

/* One of n, by their probabilities. */
uint32_t pgasi_mcts_draw(pgas_mcts_rng_t *rng, const float *chances, uint32_t n)
{
    float x = (float)(pgas_mcts_random(rng) >> 40) * 0x1p-24f;
    uint32_t i = 0;
    while (i + 1 < n && x >= chances[i])
        x -= chances[i++];
    return i;
}

/* One game by moves, apply and outcome. */
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
                            : pgas_mcts_below(&w->playout_rng, n);
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

/* n rollouts from a state that is not final: the mean of each one's playouts, summed up. */
void pgasi_mcts_simulate(worker_t *w, const void *state, uint32_t n, uint64_t *sums)
{
    memset(sums, 0, PGAS_MCTS_PLAYERS_MAX * sizeof *sums);
    for (uint32_t i = 0; i < n; i++)
        simulate(w, state, sums);
}
