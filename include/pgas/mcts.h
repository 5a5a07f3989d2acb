/** Monte-Carlo tree search on all ranks and threads, from a sequential description of a problem.
 *
 *      pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;          a game of two players
 *      spec.state_bytes = sizeof(board_t);
 *      spec.n_players = 2;
 *      spec.moves_max = 7;
 *      spec.moves = moves;                                   functions of the program
 *      spec.apply = apply;
 *      spec.turn = turn;
 *      spec.outcome = outcome;
 *      pgas_mcts_create(&spec, NULL, &mcts);
 *      pgas_mcts_set_state(mcts, &board);
 *      pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
 *      budget.rollouts = 100000;
 *      pgas_mcts_search(mcts, &budget, &result);             result.best is the best move
 *      pgas_mcts_advance(mcts, result.best);                 the tree below it is kept
 *
 *  A rollout descends from the root to a node that is new, final, or at the greatest depth. Then it
 *  reports its value back up to the root. The value is the mean outcome of `playouts` random games,
 *  an evaluation, or the outcome of the final state itself. Rollouts run in phases that end by
 *  quiescence. Between phases, and when pgas_mcts_search returns, no rollout is under way.
 *
 *  All ranks call collective functions, one at a time, from the thread that called
 *  pgas_mcts_create, and get the same status. Local functions: any thread.
 *
 *  Statuses of all functions:
 *      PGAS_ERR_INVALID    a NULL argument, no live search, or no state where one is needed
 *      PGAS_ERR_CONTEXT    called from another thread, a handler, or a function of the description
 *      PGAS_ERR_NO_MEMORY  memory_bytes is less than the root and its moves need; the log says how
 *                          much
 *      PGAS_ERR_PEER       a rank died. The search can only be destroyed
 *
 *  Source: Seriema, case study (phases, deferred selection, shared simulations, combined reports);
 *  UCT (Kocsis, Szepesvari 2006); PUCT (Rosin 2011, in the form of AlphaZero); WU-UCT (Liu et al.
 *  2020); MCTS-Solver (Winands et al. 2008); progressive widening (Couetoux et al. 2011). */
#ifndef PGAS_MCTS_H
#define PGAS_MCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/agg.h"
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/* ---- the problem ---- */

/** A move: a number that the program chooses. */
typedef uint32_t pgas_mcts_move_t;
#define PGAS_MCTS_NO_MOVE     UINT32_MAX
#define PGAS_MCTS_PLAYERS_MAX 8
/* the player to move at a chance node, where moves are drawn by their probabilities */
#define PGAS_MCTS_CHANCE    (-1)
#define PGAS_MCTS_STATE_MAX 65536 /* bytes */
#define PGAS_MCTS_MOVES_MAX 65536

/** A generator of random numbers for playouts. The search makes and seeds one for each thread. */
typedef struct {
    uint64_t word[2];
} pgas_mcts_rng_t;

/** Returns 64 random bits; a number in [0, n), n from 1 to 2^32-1, with a bias below n / 2^32. */
PGAS_INLINE uint64_t pgas_mcts_random(pgas_mcts_rng_t *rng);
PGAS_INLINE uint32_t pgas_mcts_random_below(pgas_mcts_rng_t *rng, uint32_t n);

/** The description of a problem, the same on all ranks. It begins as PGAS_MCTS_SPEC_INIT.
 *
 *  Many threads call the functions at the same time. They may change only their outputs, and must
 *  not depend on anything else that changes. A state is state_bytes plain bytes, aligned to 8,
 *  without pointers: the library copies states and sends them to other ranks. Outcomes are values
 *  in [0, 1], one for each player: 1 is best. */
typedef struct {
    size_t size;
    const char *name;   /* for messages */
    size_t state_bytes; /* 1 .. PGAS_MCTS_STATE_MAX */
    int n_players;      /* 1 .. PGAS_MCTS_PLAYERS_MAX; each player has a value of its own */
    uint32_t moves_max; /* legal moves of any state, at most; 1 .. PGAS_MCTS_MOVES_MAX */
    /* Stores the legal moves of a state that is not final; returns their number, at least 1. If
     * priors is not NULL, it also stores how promising each move is: values of at least 0 whose sum
     * is 1. At a chance node they are the probabilities. */
    uint32_t (*moves)(const void *state, pgas_mcts_move_t *moves, float *priors, void *arg);
    /* changes the state by a legal move */
    void (*apply)(void *state, pgas_mcts_move_t move, void *arg);
    /* the player to move, 0 .. n_players-1, or PGAS_MCTS_CHANCE. NULL: always player 0 */
    int (*turn)(const void *state, void *arg);
    /* returns true if the state is final, and then stores the outcome of each player */
    bool (*outcome)(const void *state, float *values, void *arg);
    /* Plays n random games from a state that is not final to their ends, and adds their outcomes to
     * sums[n_players]. NULL: the library plays; chance moves are drawn by their probabilities, all
     * others are equally likely. */
    void (*playout)(const void *state, pgas_mcts_rng_t *rng, int n, float *sums, void *arg);
    /* replaces playouts: stores the expected outcome of each player. NULL: there is none */
    void (*evaluate)(const void *state, float *values, void *arg);
    /* a number that is the same for equal states and, with high probability, different for others.
     * NULL: there is none */
    uint64_t (*hash)(const void *state, void *arg);
    bool has_priors; /* moves stores meaningful priors; otherwise all moves count alike */
    void *arg;       /* last argument of each function */
} pgas_mcts_spec_t;

/* ---- the search ---- */

/** How selection scores a child. Q is its mean value for the player to move at the parent. n and N
 *  are the visits of child and parent. C is `exploration`, P is the prior. */
typedef enum {
    PGAS_MCTS_UCB1, /* Q + C sqrt(ln N / n); all moves are tried once, unless fpu is set */
    PGAS_MCTS_PUCT  /* Q + C P sqrt(N) / (1 + n) */
} pgas_mcts_policy_t;

/** How selection counts rollouts that have visited a node and have not reported yet. */
typedef enum {
    PGAS_MCTS_UNOBSERVED,   /* in n and N, not in Q (WU-UCT) */
    PGAS_MCTS_VIRTUAL_LOSS, /* also in Q: each one as virtual_loss rollouts of value 0 */
    PGAS_MCTS_IGNORED       /* not at all */
} pgas_mcts_pending_t;

/** How the search is parallelised. */
typedef enum {
    PGAS_MCTS_TREE, /* one tree on all ranks */
    PGAS_MCTS_ROOT, /* a tree on each rank; the counts of the roots' children are summed */
    PGAS_MCTS_LEAF  /* one tree on the rank of the root; all ranks simulate each new node */
} pgas_mcts_mode_t;

/** Which thread of which rank gets a new node. */
typedef enum {
    PGAS_MCTS_RANDOM, /* a random one; fewer nodes for the rank of the root, which has more to do */
    PGAS_MCTS_HASH,   /* by the state's hash: equal states are one node, the tree becomes a graph */
    PGAS_MCTS_NEAR    /* the rank of the parent, except one in near_every children */
} pgas_mcts_place_t;

/** Options, the same on all ranks; zero means default. PGAS_MCTS_OPTS_INIT: all defaults. */
typedef struct {
    size_t size;
    uint64_t seed; /* default 1 */
    int n_threads; /* of each rank, with the caller's; 1 .. 256, default 1 */
    int playouts;  /* of a rollout; 1 .. 65535, default 16 */
    pgas_mcts_policy_t policy;
    double exploration; /* C; default 1 for UCB1, 1.5 for PUCT; a negative number means 0 */
    /* first-play urgency, > 0: the score of a move before it is tried. Default for PUCT: the value
     * of the parent */
    double fpu;
    pgas_mcts_pending_t pending;
    double virtual_loss; /* default 1 */
    /* progressive widening: a node with N visits tries ceil(widening * N^widening_power) moves;
     * default 0: all moves */
    double widening;
    double widening_power; /* default 0.5 */
    pgas_mcts_mode_t mode;
    pgas_mcts_place_t place; /* HASH needs spec->hash */
    int near_every;          /* default 16 */
    bool always_call;        /* calls also for nodes of the own rank */
    bool no_combining;       /* sends each report in a call of its own */
    bool no_proofs;          /* does not propagate proven wins and losses */
    pgas_agg_style_t style;  /* PGAS_AGG_TRAD or PGAS_AGG_OVERFLOW */
    /* rollouts under way at the same time; default 64 for each thread of the job, 96 with fewer
     * than 4 playouts */
    int in_flight;
    int phase;     /* rollouts of a phase for each thread of the job; default and maximum 4096 */
    int max_depth; /* states this far below the root are not expanded; default 1000 */
    size_t memory_bytes; /* of a rank's nodes; default 1 GiB. At the limit it makes no new nodes */
} pgas_mcts_opts_t;

/** A search. Opaque; each rank has a part of it. */
typedef struct pgas_mcts pgas_mcts_t;

/** Creates a search, which has no state yet.
 *  Shape:  collective. Starts n_threads - 1 threads on each rank, which sleep between searches.
 *  Owns:   *spec and *opts are copied; the memory to which they point must outlive the search.
 *  @return PGAS_ERR_INVALID   description or options are inconsistent; the log says how
 *          PGAS_ERR_LIMIT     there are 64 searches, or a number is above its limit
 *          PGAS_ERR_MISMATCH  the ranks gave different sizes or options */
PGAS_API pgas_status_t pgas_mcts_create(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                                        pgas_mcts_t **mcts_p);
/** Frees a search, also if it returns PGAS_ERR_PEER. Collective. NULL is ignored. */
PGAS_API pgas_status_t pgas_mcts_destroy(pgas_mcts_t *mcts);

/** Frees the tree and begins a new one at a state. Collective; rank 0's state is used, other ranks
 *  may pass NULL. After PGAS_ERR_NO_MEMORY the search has no state. */
PGAS_API pgas_status_t pgas_mcts_set_state(pgas_mcts_t *mcts, const void *state);
/** Returns the state of the root, which is valid until the root changes. Local. NULL: there is no
 *  state. */
PGAS_API const void *pgas_mcts_state(const pgas_mcts_t *mcts);

/** Why a search ended. */
typedef enum {
    PGAS_MCTS_BY_ROLLOUTS,
    PGAS_MCTS_BY_TIME,
    PGAS_MCTS_BY_MEMORY,
    PGAS_MCTS_BY_STOP,
    PGAS_MCTS_BY_PROOF, /* the value of the root is proven */
    PGAS_MCTS_BY_END    /* the root is final, so there is nothing to search */
} pgas_mcts_end_t;

/** The present knowledge at the root. */
typedef struct {
    size_t size; /* the caller sets it */
    /* the move with the most visits; a proven win comes before all other moves, a proven loss after
     * them. NO_MOVE: none was tried */
    pgas_mcts_move_t best;
    double value;    /* of the best move for the player to move; 0.5 if nothing is known */
    bool proven;     /* value is exact */
    uint64_t visits; /* of the root, in this search and before */
    /* of this search; lost: never reported, because a rank died or had no memory */
    uint64_t rollouts, lost;
    double seconds;
    pgas_mcts_end_t end;
} pgas_mcts_result_t;

/** When a search ends: at the first of these limits (0: no limit). At least one must be given, or
 *  until_stop. The budget of rank 0 is used. PGAS_MCTS_BUDGET_INIT: no limits. */
typedef struct {
    size_t size;
    uint64_t rollouts;
    int64_t time_us;
    size_t memory_bytes; /* of the nodes of any rank. The limit of the options ends no search */
    bool until_stop;     /* only pgas_mcts_stop or a proof ends the search */
    bool even_if_proven; /* a proof does not end the search */
    /* The searching thread of rank 0 calls it between phases. NULL: none. */
    void (*progress)(const pgas_mcts_result_t *result, void *arg);
    void *progress_arg;
} pgas_mcts_budget_t;

/** Searches with every thread, and keeps the tree of earlier searches.
 *  Shape:  collective. *result_p (may be NULL) is the same on all ranks.
 *  Done:   with one rank and one thread, without always_call and a time limit, the tree depends
 *          only on seed, options, state and number of rollouts.
 *  @return PGAS_ERR_INVALID  also for a budget that is missing or inconsistent; the log says how */
PGAS_API pgas_status_t pgas_mcts_search(pgas_mcts_t *mcts, const pgas_mcts_budget_t *budget,
                                        pgas_mcts_result_t *result_p);

/** With stop true it ends the running search soon, or, if none runs, the next one at its beginning.
 *  With false it cancels a stop that no search has seen yet. Any rank and any thread, attached or
 *  not, and signal handlers may call it. */
PGAS_API void pgas_mcts_stop(pgas_mcts_t *mcts, bool stop);

/** Gives the present knowledge at the root, also while a search runs. In mode ROOT it is that of
 *  rank 0's own tree.
 *  Shape:  any attached thread of any rank, not in a handler.
 *  Cost:   a call and its reply. A running search delays the calls of one rank by 1 to 256 ms,
 *          because a phase ends only while no call is under way. */
PGAS_API pgas_status_t pgas_mcts_result(pgas_mcts_t *mcts, pgas_mcts_result_t *result_p);

/** Makes a move at the root: its child becomes the root and keeps the tree below it. All ranks free
 *  the other nodes.
 *  Shape:  collective; rank 0's move is used.
 *  @return PGAS_ERR_RANGE  the move is not legal; the search is unchanged */
PGAS_API pgas_status_t pgas_mcts_advance(pgas_mcts_t *mcts, pgas_mcts_move_t move);

/** A child of the root. */
typedef struct {
    pgas_mcts_move_t move;
    uint64_t visits; /* 0: it was not tried */
    double value;    /* for the player to move at the root */
    double prior;
    bool proven; /* value is exact */
} pgas_mcts_child_t;

/** Gives the children of the root at the end of the last search, the best one first: at most n_max,
 *  and their number in *n_p. Local. */
PGAS_API pgas_status_t pgas_mcts_children(const pgas_mcts_t *mcts, pgas_mcts_child_t *children,
                                          size_t n_max, size_t *n_p);

#define PGAS_MCTS_VARIATION_MAX 64
/** Gives the principal variation at the end of the last search: the best move at the root, the best
 *  answer to it, and so on. At most n_max moves, and their number in *n_p. Local. */
PGAS_API pgas_status_t pgas_mcts_variation(const pgas_mcts_t *mcts, pgas_mcts_move_t *moves,
                                           size_t n_max, size_t *n_p);

/** Statistics, summed over all ranks: of the last search, or (now) of the nodes that exist. */
typedef struct {
    size_t size;                       /* the caller sets it */
    uint64_t rollouts, lost;           /* completed; started without a report */
    uint64_t playouts;                 /* or evaluations */
    uint64_t final_states;             /* rollouts that ended at a final or proven state */
    uint64_t nodes, bytes;             /* now */
    uint64_t bytes_high;               /* the most of any rank, since the search was created */
    uint64_t nodes_expanded, children; /* now: nodes with children, and these */
    uint64_t depth_max;                /* now: below the root */
    double depth_mean;
    /* steps from a node to a child; those by a call; those that waited until the child was made */
    uint64_t selections, remote, deferred;
    /* steps from a child to its parent, combined ones counting once; those by a call; reports added
     * to another one before it was sent */
    uint64_t reports, reports_remote, combined;
    uint64_t shared;         /* simulations by another thread than the one that made the node */
    uint64_t transpositions; /* new children whose state had a node already */
    uint64_t phases;
    double seconds;
    double rollouts_per_second_thread, playouts_per_second_thread;
    double imbalance; /* playouts of the busiest thread, divided by the mean of all threads */
} pgas_mcts_info_t;
/** Gives the statistics, which are the same on all ranks. Local. */
PGAS_API pgas_status_t pgas_mcts_info(const pgas_mcts_t *mcts, pgas_mcts_info_t *info_p);

PGAS_END_DECLS

#include "pgas/detail/mcts.h"
#endif
