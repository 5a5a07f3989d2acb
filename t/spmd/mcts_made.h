/* An invented game: a tree, or with a hash a graph, that is computed from a key. States have any
 * size and consist of words that are computed from the key too, so that a state that was changed or
 * cut on its way is noticed. */
#ifndef T_SPMD_MCTS_MADE_H
#define T_SPMD_MCTS_MADE_H

#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "pgas/mcts.h"

/* The state: these words, then others up to the size. */
typedef struct {
    uint64_t key;
    uint32_t depth, n_words;
    uint64_t word[];
} made_t;

typedef struct {
    size_t bytes;
    int n_players;
    uint32_t branch, depth; /* at most this many moves, exactly this many levels */
    bool chance;            /* every fourth level is chance */
    uint64_t n_seen, n_bad; /* states seen; those that were changed on their way */
    uint64_t stop_at;       /* states to see until stop is called; 0: never */
    pgas_mcts_t *to_stop;
} made_game_t;

static inline uint64_t made_mix(uint64_t x)
{
    return pgas_splitmix(&x);
}

static inline void made_fill(made_t *s)
{
    for (uint32_t i = 0; i < s->n_words; i++)
        s->word[i] = (s->key | 1) * (i + 1) + s->depth;
}

static inline void made_look(const void *state, void *arg)
{
    const made_t *s = state;
    made_game_t *game = arg;
    bool good = sizeof *s + 8 * (size_t)s->n_words == game->bytes && s->depth <= game->depth;
    for (uint32_t i = 0; good && i < s->n_words; i++)
        good = s->word[i] == (s->key | 1) * (i + 1) + s->depth;
    if (!good)
        __atomic_fetch_add(&game->n_bad, 1, __ATOMIC_RELAXED);
    uint64_t n = __atomic_add_fetch(&game->n_seen, 1, __ATOMIC_RELAXED);
    if (n == __atomic_load_n(&game->stop_at, __ATOMIC_RELAXED))
        pgas_mcts_stop(game->to_stop, true);
}

static inline int made_turn(const void *state, void *arg)
{
    const made_t *s = state;
    const made_game_t *game = arg;
    return game->chance && s->depth % 4 == 3 ? PGAS_MCTS_CHANCE
                                             : (int)(s->depth % (unsigned)game->n_players);
}

static inline uint32_t made_moves(const void *state, pgas_mcts_move_t *moves, float *priors,
                                  void *arg)
{
    const made_t *s = state;
    const made_game_t *game = arg;
    uint32_t n = 1 + (uint32_t)(made_mix(s->key + s->depth) % game->branch);
    made_look(state, arg);
    for (uint32_t i = 0; i < n; i++) {
        moves[i] = 1000 + 7 * i;
        if (priors) /* 1, 2, 3 .. n of their sum */
            priors[i] = (float)(i + 1) / ((float)n * (float)(n + 1) / 2);
    }
    return n;
}

/* The same moves in another order lead to the same state. */
static inline void made_apply(void *state, pgas_mcts_move_t move, void *arg)
{
    made_t *s = state;
    (void)arg;
    s->key += made_mix(move);
    s->depth++;
    made_fill(s);
}

/* Of two players one wins; others share. */
static inline void made_values(const made_t *s, float *values, const made_game_t *game)
{
    uint64_t bits = made_mix(s->key ^ s->depth);
    for (int p = 0; p < game->n_players; p++)
        values[p] = game->n_players == 2 ? (float)((bits ^ (unsigned)p) & 1)
                                         : (float)(bits >> (8 * p) & 255) / 255;
}

static inline bool made_outcome(const void *state, float *values, void *arg)
{
    const made_t *s = state;
    const made_game_t *game = arg;
    made_look(state, arg);
    if (s->depth < game->depth)
        return false;
    made_values(s, values, game);
    return true;
}

static inline void made_evaluate(const void *state, float *values, void *arg)
{
    made_look(state, arg);
    made_values(state, values, arg);
}

static inline uint64_t made_hash(const void *state, void *arg)
{
    const made_t *s = state;
    (void)arg;
    return made_mix(s->key ^ (uint64_t)s->depth << 56);
}

static inline void made_begin(made_t *s, const made_game_t *game, uint64_t seed)
{
    s->key = made_mix(seed);
    s->depth = 0;
    s->n_words = (uint32_t)((game->bytes - sizeof *s) / 8);
    made_fill(s);
}

static inline void made_spec(pgas_mcts_spec_t *spec, made_game_t *game)
{
    pgas_mcts_spec_t none = PGAS_MCTS_SPEC_INIT;
    *spec = none;
    spec->name = "made up";
    spec->state_bytes = game->bytes;
    spec->n_players = game->n_players;
    spec->moves_max = game->branch;
    spec->moves = made_moves;
    spec->apply = made_apply;
    spec->turn = made_turn;
    spec->outcome = made_outcome;
    spec->hash = made_hash;
    spec->has_priors = true;
    spec->arg = game;
}

#endif
