/** Monte-Carlo tree search: one tree over all ranks and threads, made from a sequential description
 *  of a problem.
 *
 *  The program describes a game or a planning problem by functions without any communication
 *  (pgas_mcts_spec_t). The library searches it with all ranks and threads: every node of the tree
 *  lives with one thread of one rank, and selection, expansion, simulation and back-propagation
 *  travel to it as calls.
 *
 *  A rollout is one way from the root to a node that is new, or final, or as deep as allowed, and
 *  the report of what was found there back to the root. What is found is the mean outcome of
 *  `playouts` random games, an evaluation, or the outcome itself. Rollouts are started in phases by
 *  the rank that has the root; a phase ends by quiescence (pgas_quiesce_work). Between phases, and
 *  when pgas_mcts_search returns, the tree is at rest.
 *
 *  Collective functions are called by all ranks, one at a time, by the thread that called
 *  pgas_mcts_create (slot 0 if MPI gave only MPI_THREAD_FUNNELED). Other functions say who may call
 *  them.
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

/** Whatever number the program gives to a move. */
typedef uint32_t pgas_mcts_move_t;
#define PGAS_MCTS_NO_MOVE     UINT32_MAX
#define PGAS_MCTS_PLAYERS_MAX 8
/* as the player to move: moves are drawn by their probabilities */
#define PGAS_MCTS_CHANCE    (-1)
#define PGAS_MCTS_STATE_MAX 65536 /* bytes */
#define PGAS_MCTS_MOVES_MAX 65536

/** Random numbers for playouts: seeded by the search, one generator a thread. */
typedef struct {
    uint64_t word[2];
} pgas_mcts_rng_t;

/** Begins a sequence; any seed will do. */
PGAS_INLINE void pgas_mcts_rng_seed(pgas_mcts_rng_t *rng, uint64_t seed)
{
    for (int i = 0; i < 2; i++) { /* splitmix64 */
        uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        rng->word[i] = z ^ (z >> 31);
    }
    rng->word[0] |= rng->word[0] == 0 && rng->word[1] == 0;
}

/** 64 random bits (xoroshiro128++ of Blackman and Vigna). */
PGAS_INLINE uint64_t pgas_mcts_random(pgas_mcts_rng_t *rng)
{
    uint64_t a = rng->word[0], b = rng->word[1], sum = a + b;
    uint64_t result = (sum << 17 | sum >> 47) + a;
    b ^= a;
    rng->word[0] = (a << 49 | a >> 15) ^ b ^ b << 21;
    rng->word[1] = b << 28 | b >> 36;
    return result;
}

/** A number in [0, n), n from 1 to 2^32-1; the bias is below n / 2^32. */
PGAS_INLINE uint32_t pgas_mcts_below(pgas_mcts_rng_t *rng, uint32_t n)
{
    return (uint32_t)((pgas_mcts_random(rng) >> 32) * n >> 32);
}

/** A problem. All functions are pure but for what they are given, are called by many threads at
 *  once, and get `arg` last. A state is state_bytes plain bytes, aligned to 8: copied, and sent to
 *  other ranks, as it is, so it has no pointers. The same description must be given on all ranks.
 *  Outcomes are values in [0, 1], one for each player: 1 is best. */
typedef struct {
    size_t size;        /* sizeof(pgas_mcts_spec_t): set by PGAS_MCTS_SPEC_INIT */
    const char *name;   /* for messages */
    size_t state_bytes; /* 1 .. PGAS_MCTS_STATE_MAX */
    /* 1 .. PGAS_MCTS_PLAYERS_MAX; of two players each has its own value, too */
    int n_players;
    uint32_t moves_max; /* legal moves of any state, at most; 1 .. PGAS_MCTS_MOVES_MAX */
    /** Stores the legal moves of a state that is not final, gives their number (at least 1). priors
     *  NULL: not wanted; else how promising each move is, at least 0, the sum is 1; in a state of
     *  chance, its probability. */
    uint32_t (*moves)(const void *state, pgas_mcts_move_t *moves, float *priors, void *arg);
    void (*apply)(void *state, pgas_mcts_move_t move, void *arg);
    /** Who moves: 0 .. n_players-1, or PGAS_MCTS_CHANCE. NULL: player 0, always. */
    int (*turn)(const void *state, void *arg);
    /** True if the state is final; then it stores the outcome of each player. */
    bool (*outcome)(const void *state, float *values, void *arg);
    /** Plays n random games from a state that is not final to their ends and adds the outcomes to
     *  sums[n_players]. NULL: by moves, apply and outcome, each move as likely as the next, chance
     *  by its probabilities. */
    void (*playout)(const void *state, pgas_mcts_rng_t *rng, int n, float *sums, void *arg);
    /** Instead of playouts: what each player may expect. */
    void (*evaluate)(const void *state, float *values, void *arg);
    /** The same for states that are the same, whatever moves led there; different for others but
     *  for chance. NULL: none. */
    uint64_t (*hash)(const void *state, void *arg);
    bool has_priors; /* moves gives priors that mean something; else all moves count alike */
    void *arg;
} pgas_mcts_spec_t;
#define PGAS_MCTS_SPEC_INIT                                                                       \
    {                                                                                             \
        sizeof(pgas_mcts_spec_t), NULL, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, false, \
            NULL                                                                                  \
    }

/* ---- the search ---- */

/** How a child is selected. Q is the mean value of a child for the player to move at the parent, n
 *  and N are the visits of child and parent, C is `exploration`, P the prior. Moves are tried in
 *  the order of their priors, if there are any, else in random order. */
typedef enum {
    PGAS_MCTS_UCB1, /* Q + C sqrt(ln N / n); all moves are tried once, unless fpu says otherwise */
    PGAS_MCTS_PUCT  /* Q + C P sqrt(N) / (1 + n) */
} pgas_mcts_policy_t;

/** How rollouts count that are under way. */
typedef enum {
    PGAS_MCTS_UNOBSERVED,   /* in n and N, not in Q (WU-UCT) */
    PGAS_MCTS_VIRTUAL_LOSS, /* also in Q, each as virtual_loss rollouts of value 0 */
    PGAS_MCTS_IGNORED       /* not at all */
} pgas_mcts_pending_t;

typedef enum {
    PGAS_MCTS_TREE, /* one tree */
    /* a tree on each rank, which shares the rollouts evenly; the children of the roots are added
     * up */
    PGAS_MCTS_ROOT,
    /* one tree on the rank of the root; each new node is simulated once by every rank, as one
     * rollout each */
    PGAS_MCTS_LEAF
} pgas_mcts_mode_t;

/** Where a child lives. */
typedef enum {
    /* with any thread of any rank; the rank of the root, which has more to do, gets as many less as
     * the others would wait for it */
    PGAS_MCTS_RANDOM,
    /* where the state's hash says; equal states are one node (a transposition table, a graph) */
    PGAS_MCTS_HASH,
    /* those of the root anywhere; others mostly with the rank of their parents: one in near_every
     * moves away */
    PGAS_MCTS_NEAR
} pgas_mcts_place_t;

/** Options; zero means default. The same on all ranks. */
typedef struct {
    size_t size;
    uint64_t seed; /* default 1 */
    int n_threads; /* of each rank, the caller's among them; 1 .. 256, default 1 */
    int playouts;  /* of a rollout; 1 .. 65535, default 16 */
    pgas_mcts_policy_t policy;
    double exploration; /* C; default 1 for UCB1, 1.5 for PUCT; < 0: 0 */
    /* first-play urgency: the value that moves not yet tried are taken to have, > 0; default, UCB1:
     * each is tried before any is tried again; PUCT: that of the parent */
    double fpu;
    pgas_mcts_pending_t pending;
    double virtual_loss; /* default 1 */
    /* progressive widening: of a node with N visits, ceil(widening * N^widening_power) moves */
    double widening;
    double widening_power; /* are tried; default 0: all. Power: default 0.5 */
    pgas_mcts_mode_t mode;
    pgas_mcts_place_t place; /* HASH needs spec->hash */
    int near_every;          /* default 16 */
    /* also to nodes of the own rank; else those are reached by plain memory */
    bool always_call;
    bool no_combining;      /* each report travels by itself */
    bool no_proofs;         /* proven wins and losses are not propagated */
    pgas_agg_style_t style; /* PGAS_AGG_TRAD or PGAS_AGG_OVERFLOW */
    /* rollouts under way at one time; default for each thread of the job 32, with less than 4
     * playouts 96: what hides the way between ranks. A search that ends for whatever reason
     * finishes them */
    int in_flight;
    /* rollouts of a phase for each thread of the job; default and most 4096 */
    int phase;
    /* of a node below the root; default 1000; deeper states are simulated, not expanded */
    int max_depth;
    /* limit for the nodes of one rank; default 1 GiB. At the limit the search goes on without new
     * nodes. The root and its moves must fit. Each thread maps memory for nodes 2 MiB at a time;
     * only the used part of it counts */
    size_t memory_bytes;
} pgas_mcts_opts_t;
#define PGAS_MCTS_OPTS_INIT                                                                     \
    {                                                                                           \
        sizeof(pgas_mcts_opts_t), 0, 0, 0, PGAS_MCTS_UCB1, 0, 0, PGAS_MCTS_UNOBSERVED, 0, 0, 0, \
            PGAS_MCTS_TREE, PGAS_MCTS_RANDOM, 0, false, false, false, PGAS_AGG_TRAD, 0, 0, 0, 0 \
    }

/** Opaque; part of it on each rank. */
typedef struct pgas_mcts pgas_mcts_t;

/** Makes a search without a state.
 *  Shape:  collective. Starts n_threads - 1 threads of the library on each rank, attached, which
 *          sleep between searches. At most 64 searches at a time.
 *  Owns:   *spec and *opts are copied, what they point to stays the program's and must live on.
 *          pgas_mcts_destroy.
 *  @return PGAS_OK; PGAS_ERR_INVALID (a description or options that make no sense: the log says
 *          what), PGAS_ERR_LIMIT (64; a number above those stated), PGAS_ERR_MISMATCH (ranks gave
 *          different sizes or options), PGAS_ERR_NO_MEMORY, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT,
 *          PGAS_ERR_PEER. The same on all ranks. */
PGAS_API pgas_status_t pgas_mcts_create(const pgas_mcts_spec_t *spec, const pgas_mcts_opts_t *opts,
                                        pgas_mcts_t **mcts_p);
/** Collective. NULL is ignored. @return PGAS_OK, PGAS_ERR_INVALID (no live search),
 *  PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_destroy(pgas_mcts_t *mcts);

/** Drops the tree and begins a new one at a state: that of rank 0 rules, others may pass NULL.
 *  Shape:  collective.
 *  @return PGAS_OK; PGAS_ERR_INVALID (NULL on rank 0); PGAS_ERR_NO_MEMORY (memory_bytes is less
 *          than the size of one node: the log says how much is needed, and the search has no state
 *          afterwards); PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_set_state(pgas_mcts_t *mcts, const void *state);
/** The state of the root: constant, valid until it changes. Local. NULL: none was set. */
PGAS_API const void *pgas_mcts_state(const pgas_mcts_t *mcts);

/** Why a search ended. */
typedef enum {
    PGAS_MCTS_BY_ROLLOUTS,
    PGAS_MCTS_BY_TIME,
    PGAS_MCTS_BY_MEMORY,
    PGAS_MCTS_BY_STOP,
    PGAS_MCTS_BY_PROOF, /* the value of the root is proven */
    PGAS_MCTS_BY_END    /* the root is final: nothing to search */
} pgas_mcts_end_t;

/** What is known of the root. */
typedef struct {
    /* most visits, then value; a proven win before all, a proven loss behind all; of moves that are
     * all proven the one of greatest value; none: NO_MOVE */
    pgas_mcts_move_t best;
    /* of the best move for who moves at the root; 0.5 if nothing is known */
    double value;
    bool proven; /* that value is exact */
    /* of the root: rollouts started since it became one, and those of it as a child before */
    uint64_t visits;
    uint64_t rollouts; /* of this search: completed */
    /* of this search: started and not reported; 0 unless a rank died or ran out of memory */
    uint64_t lost;
    double seconds; /* of this search */
    pgas_mcts_end_t end;
} pgas_mcts_info_t;

/** When a search ends: at the first of these; at least one must be given. Those of rank 0 rule. */
typedef struct {
    size_t size;
    uint64_t rollouts; /* 0: no limit */
    /* from the call on, also while other ranks have not begun; 0: no limit */
    int64_t time_us;
    /* of nodes on any rank; 0: the search's own limit holds, and does not end the search. Alone it
     * never ends one whose whole tree is smaller */
    size_t memory_bytes;
    /* only pgas_mcts_stop ends it, or a proof; not together with the three above */
    bool until_stop;
    bool even_if_proven; /* goes on */
    /** Called on rank 0 between phases, by the thread that searches; NULL: not. */
    void (*progress)(const pgas_mcts_info_t *info, void *arg);
    void *progress_arg;
} pgas_mcts_budget_t;
#define PGAS_MCTS_BUDGET_INIT                                         \
    {                                                                 \
        sizeof(pgas_mcts_budget_t), 0, 0, 0, false, false, NULL, NULL \
    }

/** Searches on from the tree that is there.
 *  Shape:  collective. Every thread of the search works; the caller's is one of them.
 *  Done:   on return the tree is at rest, and *info_p (may be NULL) is the same on all ranks. With
 *          the same seed, options, state and number of rollouts, one rank and one thread: the same
 *          tree each time (without always_call and time limits).
 *  Cost:   a phase ends with some allreduces. No allocation but of nodes.
 *  @return PGAS_OK; PGAS_ERR_INVALID (no state, no budget, or a budget that contradicts itself);
 *          PGAS_ERR_NO_MEMORY (memory_bytes is less than the size of the root and its moves: the
 *          log says how much they take, and nothing is searched); PGAS_ERR_PEER (a rank died; the
 *          search can then only be destroyed); PGAS_ERR_CONTEXT. */
PGAS_API pgas_status_t pgas_mcts_search(pgas_mcts_t *mcts, const pgas_mcts_budget_t *budget,
                                        pgas_mcts_info_t *info_p);

/** Ends the search that runs, soon: no rollout is started any more. Any rank, any thread, attached
 *  or not, also in a signal handler; without a search that runs it ends the next one at its
 *  beginning. Only stores a word. pgas_mcts_unstop takes back a stop that no search has seen. */
PGAS_API void pgas_mcts_stop(pgas_mcts_t *mcts);
PGAS_API void pgas_mcts_unstop(pgas_mcts_t *mcts);

/** Asks, while a search runs or not.
 *  Shape:  any attached thread of any rank, not in a handler.
 *  Done:   *info_p as it was a moment ago at the rank of the root (mode ROOT: at rank 0, of its own
 *          tree).
 *  @return PGAS_OK, PGAS_ERR_INVALID, PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_info(pgas_mcts_t *mcts, pgas_mcts_info_t *info_p);

/** Makes a move at the root: its child becomes the root, with all that is known below it; the rest
 *  is given back on every rank.
 *  Shape:  collective; rank 0's move rules.
 *  @return PGAS_OK; PGAS_ERR_INVALID (no state), PGAS_ERR_RANGE (no legal move), PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_advance(pgas_mcts_t *mcts, pgas_mcts_move_t move);

/** A child of the root. */
typedef struct {
    pgas_mcts_move_t move;
    uint64_t visits; /* 0: not tried */
    double value;    /* for who moves at the root */
    double prior;
    bool proven; /* value is exact */
} pgas_mcts_child_t;

/** The children of the root at the end of the last search, best first, as pgas_mcts_info_t.best
 *  compares.
 *  Shape:  local; stores up to n_max of them, *n_p is how many there are.
 *  @return PGAS_OK, PGAS_ERR_INVALID. */
PGAS_API pgas_status_t pgas_mcts_children(const pgas_mcts_t *mcts, pgas_mcts_child_t *children,
                                          size_t n_max, size_t *n_p);

/** The principal variation at the end of the last search, from the root: at most PGAS_MCTS_PV_MAX
 *  moves.
 *  Shape:  local; as children. @return PGAS_OK, PGAS_ERR_INVALID. */
#define PGAS_MCTS_PV_MAX 64
PGAS_API pgas_status_t pgas_mcts_pv(const pgas_mcts_t *mcts, pgas_mcts_move_t *moves, size_t n_max,
                                    size_t *n_p);

/** What was counted, over all ranks; in the last search unless it says otherwise. */
typedef struct {
    size_t size;             /* set by the caller */
    uint64_t rollouts, lost; /* completed; started without a report */
    uint64_t playouts;       /* or evaluations */
    uint64_t final_states;   /* rollouts that ended at a final or proven state */
    uint64_t nodes;          /* now */
    uint64_t bytes;          /* of nodes now, of all ranks */
    uint64_t bytes_high;     /* most on one rank, ever */
    uint64_t nodes_expanded; /* now: those with children */
    uint64_t children;       /* now: of those */
    uint64_t depth_max;      /* now: of a node below the root */
    double depth_mean;       /* now: of all nodes */
    uint64_t selections;     /* steps from a node to a child */
    uint64_t remote;         /* ... of them to another rank, by a call */
    uint64_t deferred;       /* ... of them that had to wait for the child to be made */
    /* steps from a child to its parent; those that went together count as one */
    uint64_t reports;
    uint64_t reports_remote; /* ... by a call */
    uint64_t combined;       /* ... that went along in another's call */
    /* simulations made by another thread than the one that made the node */
    uint64_t shared;
    uint64_t transpositions; /* children that were there already */
    uint64_t phases;
    double seconds;
    double rollouts_per_second_thread, playouts_per_second_thread;
    double imbalance; /* playouts of the busiest thread over the mean */
} pgas_mcts_stats_t;
#define PGAS_MCTS_STATS_INIT                                                                      \
    {                                                                                             \
        sizeof(pgas_mcts_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, 0                                                                               \
    }
/** Local, the same on all ranks. @return PGAS_OK, PGAS_ERR_INVALID. */
PGAS_API pgas_status_t pgas_mcts_stats(const pgas_mcts_t *mcts, pgas_mcts_stats_t *stats_p);

/** Walks over all nodes of all ranks and checks the accounts.
 *  Shape:  collective, at rest.
 *  Done:   *wrong_p: nodes whose visits are not those completed and those lost, or less than those
 *          of their children; *open_p: visits, over all nodes, that no report answered: 0 if
 *          nothing was lost.
 *  @return PGAS_OK, PGAS_ERR_INVALID, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_mcts_audit(pgas_mcts_t *mcts, uint64_t *wrong_p, uint64_t *open_p);

PGAS_END_DECLS
#endif
