/** Monte-Carlo tree search on all ranks and threads, from a sequential description of a problem.
 *
 *  The program describes a game or a planning problem by functions without any communication
 *  (pgas_mcts_spec_t). The library searches it with all ranks and threads. Each node of the tree is
 *  memory of one rank; selection, expansion, simulation and backpropagation reach it by calls.
 *
 *      pgas_mcts_spec_t spec = PGAS_MCTS_SPEC_INIT;          // a game of two players
 *      spec.state_bytes = sizeof(board_t);
 *      spec.n_players = 2;
 *      spec.moves_max = 7;
 *      spec.moves = moves;
 *      spec.apply = apply;
 *      spec.turn = turn;
 *      spec.outcome = outcome;
 *      pgas_mcts_create(&spec, NULL, &mcts);
 *      pgas_mcts_set_state(mcts, &board);
 *      pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
 *      budget.rollouts = 100000;
 *      pgas_mcts_search(mcts, &budget, &info);               // info.best is the best move
 *      pgas_mcts_advance(mcts, info.best);                   // the tree below it is kept
 *
 *  A rollout descends from the root to a node that is new, final, or at the greatest depth. Then it
 *  reports its value back up to the root. The value is the mean outcome of `playouts` random games,
 *  an evaluation, or the outcome of the final state itself. The rank that has the root starts
 *  rollouts in phases. A phase ends by quiescence (pgas_quiesce_work). Between phases, and when
 *  pgas_mcts_search returns, the search is idle: no rollout is under way.
 *
 *  All ranks call collective functions, one at a time, from the thread that called pgas_mcts_create
 *  (slot 0 if MPI gave only MPI_THREAD_FUNNELED). Other functions say which threads may call them.
 *
 *  Statuses: unless a function says otherwise, PGAS_ERR_INVALID means a NULL argument or no live
 *  search; PGAS_ERR_CONTEXT, a call from another thread, from a handler, or from a function of the
 *  description; PGAS_ERR_PEER, that a rank died. After PGAS_ERR_PEER the search can only be
 *  destroyed.
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
#include "pgas/detail/rng.h"
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

/** A generator of random numbers for playouts. Each thread of a search has one; the search seeds
 *  it. */
typedef struct {
    uint64_t word[2];
} pgas_mcts_rng_t;

/** Begins a sequence. Any seed will do. */
PGAS_INLINE void pgas_mcts_rng_seed(pgas_mcts_rng_t *rng, uint64_t seed)
{
    rng->word[0] = pgas_splitmix(&seed);
    rng->word[1] = pgas_splitmix(&seed);
    rng->word[0] |= rng->word[0] == 0 && rng->word[1] == 0;
}

/** Returns 64 random bits. */
PGAS_INLINE uint64_t pgas_mcts_random(pgas_mcts_rng_t *rng)
{
    return pgas_xoroshiro(rng->word);
}

/** Returns a number in [0, n), n from 1 to 2^32-1. The bias is below n / 2^32. */
PGAS_INLINE uint32_t pgas_mcts_below(pgas_mcts_rng_t *rng, uint32_t n)
{
    return (uint32_t)((pgas_mcts_random(rng) >> 32) * n >> 32);
}

/** The description of a problem, the same on all ranks.
 *
 *  Many threads call the functions at the same time. They may change only their outputs, and must
 *  not depend on anything else that changes. Each one gets `arg` last. A state is state_bytes plain
 *  bytes, aligned to 8. The library copies states and sends them to other ranks, so they must not
 *  contain pointers. Outcomes are values in [0, 1], one for each player: 1 is best. */
typedef struct {
    size_t size;        /* sizeof(pgas_mcts_spec_t): PGAS_MCTS_SPEC_INIT sets it */
    const char *name;   /* for messages */
    size_t state_bytes; /* 1 .. PGAS_MCTS_STATE_MAX */
    int n_players;      /* 1 .. PGAS_MCTS_PLAYERS_MAX; each player has a value of its own */
    uint32_t moves_max; /* legal moves of any state, at most; 1 .. PGAS_MCTS_MOVES_MAX */
    /** Stores the legal moves of a state that is not final. Returns their number, at least 1. If
     *  priors is not NULL, it also stores how promising each move is: values of at least 0 whose
     *  sum is 1. At a chance node they are the probabilities. */
    uint32_t (*moves)(const void *state, pgas_mcts_move_t *moves, float *priors, void *arg);
    /** Changes the state by a legal move. */
    void (*apply)(void *state, pgas_mcts_move_t move, void *arg);
    /** Returns the player to move, 0 .. n_players-1, or PGAS_MCTS_CHANCE. NULL: always player 0. */
    int (*turn)(const void *state, void *arg);
    /** Returns true if the state is final, and then stores the outcome of each player. */
    bool (*outcome)(const void *state, float *values, void *arg);
    /** Plays n random games from a state that is not final to their ends, and adds their outcomes
     *  to sums[n_players]. NULL: the library plays by moves, apply and outcome. All moves are
     *  equally likely; chance moves are drawn by their probabilities. */
    void (*playout)(const void *state, pgas_mcts_rng_t *rng, int n, float *sums, void *arg);
    /** Replaces playouts: stores the expected outcome of each player. */
    void (*evaluate)(const void *state, float *values, void *arg);
    /** Returns a number that is the same for equal states, after any moves, and (with high
     *  probability) different for other states. NULL: there is none. */
    uint64_t (*hash)(const void *state, void *arg);
    bool has_priors; /* moves stores meaningful priors; otherwise all moves count alike */
    void *arg;
} pgas_mcts_spec_t;
#define PGAS_MCTS_SPEC_INIT                                                                       \
    {                                                                                             \
        sizeof(pgas_mcts_spec_t), NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, \
            NULL                                                                                  \
    }

/* ---- the search ---- */

/** How selection scores a child. Q is the mean value of the child for the player to move at the
 *  parent. n and N are the visits of child and parent. C is `exploration`, P is the prior. Moves
 *  are first tried in the order of their priors; without priors, in random order. */
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
    PGAS_MCTS_TREE, /* tree parallelism: one tree on all ranks */
    /* root parallelism: a tree on each rank; they share the rollouts evenly, and the counts of the
     * roots' children are summed */
    PGAS_MCTS_ROOT,
    /* leaf parallelism: one tree on the rank of the root; each rank simulates each new node once,
     * and each of these simulations counts as a rollout */
    PGAS_MCTS_LEAF
} pgas_mcts_mode_t;

/** Which thread of which rank gets a new node. */
typedef enum {
    /* a random one; the rank of the root, which has more to do, gets as many fewer nodes as keep
     * all ranks equally busy */
    PGAS_MCTS_RANDOM,
    /* determined by the state's hash; equal states are one node, so the tree becomes a graph */
    PGAS_MCTS_HASH,
    /* children of the root: a random one; others: the rank of the parent, except that one in
     * near_every children goes to a random one */
    PGAS_MCTS_NEAR
} pgas_mcts_place_t;

/** Options, the same on all ranks; zero means default. */
typedef struct {
    size_t size;
    uint64_t seed; /* default 1 */
    int n_threads; /* of each rank, with the caller's; 1 .. 256, default 1 */
    int playouts;  /* of a rollout; 1 .. 65535, default 16 */
    pgas_mcts_policy_t policy;
    double exploration; /* C; default 1 for UCB1, 1.5 for PUCT; a negative number means 0 */
    /* first-play urgency, > 0: the score that a move has before it is tried. Default for UCB1: each
     * move is tried before any is tried again. Default for PUCT: the value of the parent */
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
    /* use calls also for nodes of the own rank, which otherwise are accessed directly */
    bool always_call;
    bool no_combining;      /* send each report in a call of its own */
    bool no_proofs;         /* do not propagate proven wins and losses */
    pgas_agg_style_t style; /* PGAS_AGG_TRAD or PGAS_AGG_OVERFLOW */
    /* rollouts under way at the same time, which hide the latency between ranks. Default for each
     * thread of the job: 32; 96 with fewer than 4 playouts. A search that ends, for any reason,
     * finishes them */
    int in_flight;
    /* rollouts of a phase for each thread of the job; at most 4096, which is the default */
    int phase;
    /* the greatest depth of a node below the root; default 1000. States at that depth are simulated
     * but not expanded */
    int max_depth;
    /* limit for the nodes of one rank; default 1 GiB. At the limit the search continues without new
     * nodes. The root and its moves must fit. Each thread maps memory for nodes in steps of 2 MiB,
     * of which only the used part counts */
    size_t memory_bytes;
} pgas_mcts_opts_t;
#define PGAS_MCTS_OPTS_INIT                                                                     \
    {                                                                                           \
        sizeof(pgas_mcts_opts_t), 0, 0, 0, PGAS_MCTS_UCB1, 0, 0, PGAS_MCTS_UNOBSERVED, 0, 0, 0, \
            PGAS_MCTS_TREE, PGAS_MCTS_RANDOM, 0, false, false, false, PGAS_AGG_TRAD, 0, 0, 0, 0 \
    }

/** A search. Opaque; each rank has a part of it. */
typedef struct pgas_mcts pgas_mcts_t;

/** Creates a search, which has no state yet.
 *  Shape:  collective. Starts n_threads - 1 threads of the library on each rank. They are attached,
 *          and sleep between searches. At most 64 searches exist at a time.
 *  Owns:   *spec and *opts are copied. The memory to which they point stays the program's, and must
 *          exist as long as the search. pgas_mcts_destroy frees the search.
 *  @return the same on all ranks:
 *          PGAS_OK.
 *          PGAS_ERR_INVALID: description or options are inconsistent; the log says how.
 *          PGAS_ERR_LIMIT: there are 64 searches, or a number is above its limit.
 *          PGAS_ERR_MISMATCH: the ranks gave different sizes or options.
 *          PGAS_ERR_NO_MEMORY, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_create(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                                        pgas_mcts_t **mcts_p);
/** Frees a search. Collective. NULL is ignored.
 *  @return PGAS_OK.
 *          PGAS_ERR_INVALID, PGAS_ERR_CONTEXT: the search is unchanged.
 *          PGAS_ERR_PEER: a rank died; the search is freed. */
PGAS_API pgas_status_t pgas_mcts_destroy(pgas_mcts_t *mcts);

/** Frees the tree and begins a new one at a state.
 *  Shape:  collective. The state of rank 0 is used; other ranks may pass NULL.
 *  @return PGAS_OK.
 *          PGAS_ERR_INVALID: NULL on rank 0; the search is unchanged.
 *          PGAS_ERR_NO_MEMORY: memory_bytes is less than the size of one node. The log says how
 *          much is needed. Afterwards the search has no state.
 *          PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
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

/** The known results at the root. */
typedef struct {
    /* The move with the most visits; of moves with equally many, the one with the greatest value. A
     * proven win comes before all other moves, a proven loss after them. If the best move is
     * proven, it is the one with the greatest value of all proven moves. NO_MOVE: none was
     * tried. */
    pgas_mcts_move_t best;
    double value; /* of the best move for the player to move; 0.5 if nothing is known */
    bool proven;  /* value is exact */
    /* of the root: rollouts started since it became the root, and those before, as a child */
    uint64_t visits;
    uint64_t rollouts; /* of this search: completed */
    uint64_t lost;     /* of this search: never reported, because a rank died or had no memory */
    double seconds;    /* of this search */
    pgas_mcts_end_t end;
} pgas_mcts_info_t;

/** When a search ends: at the first of these limits. At least one must be given, or until_stop. The
 *  budget of rank 0 is used. */
typedef struct {
    size_t size;
    uint64_t rollouts; /* 0: no limit */
    /* counts from the call on, also while other ranks have not called yet; 0: no limit */
    int64_t time_us;
    /* of the nodes of any rank; 0: no limit. A search whose whole tree is smaller never ends by
     * this limit. The limit of the options does not end a search */
    size_t memory_bytes;
    /* no limit: only pgas_mcts_stop or a proof ends the search; excludes the three limits above */
    bool until_stop;
    bool even_if_proven; /* a proof does not end the search */
    /** The searching thread of rank 0 calls it between phases. NULL: none. */
    void (*progress)(const pgas_mcts_info_t *info, void *arg);
    void *progress_arg;
} pgas_mcts_budget_t;
#define PGAS_MCTS_BUDGET_INIT                                         \
    {                                                                 \
        sizeof(pgas_mcts_budget_t), 0, 0, 0, false, false, NULL, NULL \
    }

/** Searches, and keeps the tree of earlier searches.
 *  Shape:  collective. Every thread of the search works; the caller's is one of them.
 *  Done:   on return the search is idle, and *info_p (may be NULL) is the same on all ranks. With
 *          one rank and one thread the tree is a function of seed, options, state and number of
 *          rollouts, except with always_call or a time limit.
 *  Cost:   a phase ends with some allreduces. Only nodes are allocated.
 *  @return PGAS_OK.
 *          PGAS_ERR_INVALID: no state, no budget, or an inconsistent one; the log says how.
 *          PGAS_ERR_NO_MEMORY: memory_bytes is less than the size of the root and its moves. The
 *          log says how much they take. Nothing was searched.
 *          PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_search(pgas_mcts_t *mcts, const pgas_mcts_budget_t *budget,
                                        pgas_mcts_info_t *info_p);

/** Ends the running search soon: no more rollouts are started. If no search runs, it ends the next
 *  one at its beginning.
 *  Shape:  any rank and any thread, attached or not; also a signal handler.
 *  Cost:   it stores a word. */
PGAS_API void pgas_mcts_stop(pgas_mcts_t *mcts);
/** Cancels a stop that no search has seen yet. */
PGAS_API void pgas_mcts_unstop(pgas_mcts_t *mcts);

/** Requests the known results from the rank of the root, also while a search runs.
 *  Shape:  any attached thread of any rank, not in a handler.
 *  Done:   *info_p is a recent state of the root. In mode ROOT it is that of rank 0's own tree.
 *  Cost:   a call and its reply. A phase ends only while no call is under way; therefore the calls
 *          of one rank are delayed in a running search: they come at least 1 ms apart, and the
 *          distance doubles up to 256 ms within a phase.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT
 *          PGAS_ERR_INVALID, PGAS_ERR_CONTEXT, PGAS_ERR_PEER  as the head of this file says */
PGAS_API pgas_status_t pgas_mcts_look(pgas_mcts_t *mcts, pgas_mcts_info_t *info_p);

/** Makes a move at the root: its child becomes the root and keeps the tree below it. All ranks free
 *  the other nodes.
 *  Shape:  collective; rank 0's move is used.
 *  @return PGAS_OK.
 *          PGAS_ERR_INVALID: no state.
 *          PGAS_ERR_RANGE: the move is not legal; the search is unchanged.
 *          PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_advance(pgas_mcts_t *mcts, pgas_mcts_move_t move);

/** A child of the root. */
typedef struct {
    pgas_mcts_move_t move;
    uint64_t visits; /* 0: it was not tried */
    double value;    /* for the player to move at the root */
    double prior;
    bool proven; /* value is exact */
} pgas_mcts_child_t;

/** The children of the root at the end of the last search. The best one is first, in the order of
 *  pgas_mcts_info_t.best.
 *  Shape:  local. Stores at most n_max children, and their number in *n_p.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  as the head of this file says */
PGAS_API pgas_status_t pgas_mcts_children(const pgas_mcts_t *mcts, pgas_mcts_child_t *children,
                                          size_t n_max, size_t *n_p);

#define PGAS_MCTS_LINE_MAX 64
/** The principal variation at the end of the last search: the best move at the root, the best
 *  answer to it, and so on. It has at most PGAS_MCTS_LINE_MAX moves.
 *  Shape:  local. Stores at most n_max moves, and their number in *n_p.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  as the head of this file says */
PGAS_API pgas_status_t pgas_mcts_line(const pgas_mcts_t *mcts, pgas_mcts_move_t *moves,
                                      size_t n_max, size_t *n_p);

/** Statistics, summed over all ranks: of the last search, or (now) of the nodes that exist. */
typedef struct {
    size_t size;             /* the caller sets it */
    uint64_t rollouts, lost; /* completed; started without a report */
    uint64_t playouts;       /* or evaluations */
    uint64_t final_states;   /* rollouts that ended at a final or proven state */
    uint64_t nodes;          /* now */
    uint64_t bytes;          /* now: of the nodes of all ranks */
    uint64_t bytes_high;     /* the most of any rank, since the search was created */
    uint64_t nodes_expanded; /* now: those with children */
    uint64_t children;       /* now: of those */
    uint64_t depth_max;      /* now: below the root */
    double depth_mean;       /* now */
    uint64_t selections;     /* steps from a node to a child */
    uint64_t remote;         /* those of them that went to another rank, by a call */
    uint64_t deferred;       /* those of them that waited until the child was made */
    uint64_t reports;        /* steps from a child to its parent; combined ones count once */
    uint64_t reports_remote; /* those of them that were sent by a call */
    uint64_t combined;       /* reports that were added to another one before it was sent */
    uint64_t shared;         /* simulations by another thread than the one that made the node */
    uint64_t transpositions; /* new children whose state had a node already */
    uint64_t phases;
    double seconds;
    double rollouts_per_second_thread, playouts_per_second_thread;
    double imbalance; /* playouts of the busiest thread, divided by the mean of all threads */
} pgas_mcts_stats_t;
#define PGAS_MCTS_STATS_INIT                                                                      \
    {                                                                                             \
        sizeof(pgas_mcts_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0                                                                               \
    }
/** Stores the statistics, which are the same on all ranks. Local.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  as the head of this file says */
PGAS_API pgas_status_t pgas_mcts_stats(const pgas_mcts_t *mcts, pgas_mcts_stats_t *stats_p);

/** Checks the counts of all nodes of all ranks.
 *  Shape:  collective.
 *  Done:   *wrong_p is the number of nodes with a wrong count: their visits are fewer than those of
 *          their children, fewer than their reports, or not those that the parents count. *open_p
 *          is the number of visits of all nodes without a report: 0 if nothing was lost.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT
 *          PGAS_ERR_INVALID, PGAS_ERR_CONTEXT, PGAS_ERR_PEER  as the head of this file says */
PGAS_API pgas_status_t pgas_mcts_audit(pgas_mcts_t *mcts, uint64_t *wrong_p, uint64_t *open_p);

PGAS_END_DECLS
#endif
