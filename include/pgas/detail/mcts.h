/** Initialisers and inline functions of pgas/mcts.h. */
#ifndef PGAS_DETAIL_MCTS_H
#define PGAS_DETAIL_MCTS_H

#include "pgas/detail/rng.h"
#include "pgas/mcts.h"

PGAS_BEGIN_DECLS

#define PGAS_MCTS_SPEC_INIT                                                                       \
    {                                                                                             \
        sizeof(pgas_mcts_spec_t), NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, \
            NULL                                                                                  \
    }
#define PGAS_MCTS_OPTS_INIT                                                                     \
    {                                                                                           \
        sizeof(pgas_mcts_opts_t), 0, 0, 0, PGAS_MCTS_UCB1, 0, 0, PGAS_MCTS_UNOBSERVED, 0, 0, 0, \
            PGAS_MCTS_TREE, PGAS_MCTS_RANDOM, 0, false, false, false, PGAS_AGG_TRAD, 0, 0, 0, 0 \
    }
#define PGAS_MCTS_BUDGET_INIT                                         \
    {                                                                 \
        sizeof(pgas_mcts_budget_t), 0, 0, 0, false, false, NULL, NULL \
    }

PGAS_INLINE uint64_t pgas_mcts_random(pgas_mcts_rng_t *rng)
{
    return pgas_xoroshiro(rng->word);
}

PGAS_INLINE uint32_t pgas_mcts_random_below(pgas_mcts_rng_t *rng, uint32_t n)
{
    return (uint32_t)((pgas_mcts_random(rng) >> 32) * n >> 32);
}

/* Begins a sequence. Any seed will do. */
PGAS_INLINE void pgas_mcts_rng_seed(pgas_mcts_rng_t *rng, uint64_t seed)
{
    rng->word[0] = pgas_splitmix(&seed);
    rng->word[1] = pgas_splitmix(&seed);
    rng->word[0] |= rng->word[0] == 0 && rng->word[1] == 0;
}

PGAS_END_DECLS
#endif
