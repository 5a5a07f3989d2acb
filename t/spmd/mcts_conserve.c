/* Conservation of rollouts and visits.
 *   what:   Whatever the transport delays, reorders and refuses, and however small channels, calls
 *           and queues are, on 2 to 7 ranks with 1 to 3 threads: when a search is at rest, each
 *           visit of each node has been answered by a report, and the root was visited once for
 *           each rollout. This also holds for searches that are stopped, reach a time limit or run
 *           out of memory. States arrive as they were sent, also those larger than a call may be.
 *   np:     2 3 4 5 6 7
 *   nodes:  1 2 0
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_CHUNKS_MAX=2 PGAS_FAR_CALLS=put
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_CHUNKS_MAX=2 PGAS_BACKLOG_LIMIT=64K
 *   env:    PGAS_LANES=2 |
 *   env:    PGAS_CALL_MAX=512 PGAS_FAR_CALLS=message PGAS_SERVICE_THREADS=0
 *   env:    PGAS_FAULT=delay=9,reorder=9,again=3 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_CHUNKS_MAX=2 PGAS_BACKLOG_LIMIT=64K
 *   env:    PGAS_FAR_CALLS=map |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_CHUNKS_MAX=2 PGAS_SERVICE_THREADS=0
 *   env:    PGAS_AGG_SIZE=256
 *   source: pgas/mcts.h; `make soak` runs more (CONSERVE_ROUNDS: searches with settings drawn anew)
 *           */
#include "mcts/audit.h"
#include "mcts/mcts.h"
#include "pgas/hex.h"
#include "t/random.h"
#include "t/spmd/job.h"
#include "t/spmd/mcts_made.h"

#define N_GAMES   4
#define STATE_MAX 10240

static made_game_t games[N_GAMES] = {
    { .bytes = 32, .n_players = 2, .branch = 5, .depth = 7 },
    { .bytes = 720, .n_players = 3, .branch = 6, .depth = 10, .chance = true },
    { .bytes = STATE_MAX, .n_players = 1, .branch = 4, .depth = 8 },
    { .bytes = 0 }, /* Hex 6x6 */
};

static int n_searches, n_bad_status, n_bad_counts, n_wrong, n_open, n_lost, n_ends[6];
static uint64_t n_rollouts, n_remote;

static bool is_bad(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        printf("# rank %d: %s: %s\n", pgas_rank(), what, pgas_status_text(status));
    n_bad_status += status != PGAS_OK;
    return status != PGAS_OK;
}
#define BAD(call) is_bad((call), #call)

static void draw_options(pgas_mcts_opts_t *o)
{
    o->seed = pgasi_rng_u64(&rng);
    o->n_threads = 1 + below_int(3);
    o->playouts = 1 + below_int(3);
    o->policy = (pgas_mcts_policy_t)below(2);
    o->pending = (pgas_mcts_pending_t)below(3);
    o->mode = below(4) ? PGAS_MCTS_TREE : (pgas_mcts_mode_t)below(3);
    o->place = (pgas_mcts_place_t)below(3);
    o->style = below(2) ? PGAS_AGG_OVERFLOW : PGAS_AGG_TRAD;
    o->always_call = below(3) == 0;
    o->no_combining = below(3) == 0;
    o->no_proofs = below(2) == 0;
    o->in_flight = below(2) ? 0 : 1 + below_int(400);
    o->phase = below(2) ? 0 : 1 + below_int(500);
    o->widening = below(4) ? 0 : 1.5;
    o->fpu = below(4) ? 0 : 0.4;
    o->max_depth = below(4) ? 0 : 1 + below_int(6);
    o->memory_bytes = below(6) ? 0 : 128 << 10;
}

static void draw_budget(pgas_mcts_budget_t *b, made_game_t *game, pgas_mcts_t *mcts)
{
    b->rollouts = 50 + below(game->bytes == STATE_MAX ? 250 : 1200);
    b->even_if_proven = below(2);
    b->memory_bytes = below(8) ? 0 : 1 << (12 + below(8));
    if (below(6) == 0) {
        b->rollouts = UINT64_C(1) << 40;
        b->time_us = 1000 + (int64_t)below(9000);
        b->even_if_proven = true;
    }
    game->stop_at = 0;
    /* by some rank, in the middle of what its threads do for the game */
    if (game->n_players > 0 && below(6) == 0) {
        bool stops_here = below((uint64_t)n_ranks) == (uint64_t)me;
        game->to_stop = mcts;
        game->stop_at = stops_here ? __atomic_load_n(&game->n_seen, __ATOMIC_RELAXED) + 200 : 0;
    }
}

static const char *describe(const pgas_mcts_opts_t *o, int game)
{
    static char text[300];
    snprintf(text, sizeof text,
             "game %d, seed %llu, %d threads, %d playouts, policy %d, pending %d, mode %d, place "
             "%d, style %d%s%s%s, "
             "in_flight %d, phase %d, widening %g, fpu %g, max_depth %d, memory %zu",
             game, (unsigned long long)o->seed, o->n_threads, o->playouts, (int)o->policy,
             (int)o->pending, (int)o->mode, (int)o->place, (int)o->style,
             o->always_call ? ", always_call" : "", o->no_combining ? ", no_combining" : "",
             o->no_proofs ? ", no_proofs" : "", o->in_flight, o->phase, o->widening, o->fpu,
             o->max_depth, o->memory_bytes);
    return text;
}

/* Compares the search's report with the budget and with its former state. */
static int check_info(const pgas_mcts_result_t *info, const pgas_mcts_budget_t *b,
                      const pgas_mcts_t *mcts, uint64_t visits)
{
    pgas_mcts_info_t stats = { .size = sizeof stats };
    n_ends[info->end]++;
    n_lost += info->lost != 0;
    int n_bad = pgas_mcts_info(mcts, &stats) != PGAS_OK || stats.rollouts != info->rollouts ||
                stats.lost != info->lost;
    n_bad += info->end == PGAS_MCTS_BY_ROLLOUTS && info->rollouts != b->rollouts;
    n_bad += info->rollouts > b->rollouts || (b->even_if_proven && info->end == PGAS_MCTS_BY_PROOF);
    n_bad += info->visits != visits + info->rollouts;
    n_rollouts += info->rollouts;
    n_remote += stats.remote;
    return n_bad;
}

static bool audit(pgas_mcts_t *mcts)
{
    uint64_t wrong = 1, open = 1;
    BAD(pgasi_mcts_audit(mcts, &wrong, &open));
    n_wrong += wrong != 0;
    n_open += open != 0;
    return wrong == 0 && open == 0;
}

/* A move that has been tried, and how often; the best or any other. */
static bool draw_move(const pgas_mcts_t *mcts, pgas_mcts_child_t *move)
{
    pgas_mcts_child_t child[64];
    size_t n = 0;
    if (BAD(pgas_mcts_children(mcts, child, 64, &n)) || n == 0)
        return false;
    *move = child[below(n < 64 ? n : 64)];
    return true;
}

/* Whether a child keeps its number of visits when it becomes the root. It does not if it has
 * several parents. It does not either if it is one child of several trees, because trees without it
 * begin anew. */
static bool keeps_visits(const pgas_mcts_opts_t *o)
{
    return o->place != PGAS_MCTS_HASH && o->mode != PGAS_MCTS_ROOT;
}

/* Searches, makes a move and searches on. */
static void play(pgas_mcts_t *mcts, const pgas_mcts_opts_t *o, int game)
{
    uint64_t visits = 0;
    for (uint64_t i = 0, n = 1 + below(4); i < n; i++) {
        pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
        pgas_mcts_result_t info = { .size = sizeof info };
        pgas_mcts_child_t move;
        draw_budget(&budget, &games[game], mcts);
        n_searches++;
        if (BAD(pgas_mcts_search(mcts, &budget, &info)))
            return;
        pgas_mcts_stop(mcts, false);
        int n_bad = check_info(&info, &budget, mcts, visits);
        visits = info.visits;
        if (!audit(mcts) || n_bad > 0)
            spmd_diag("search %d is wrong: %s", (int)i, describe(o, game));
        n_bad_counts += n_bad;
        bool moves = info.end != PGAS_MCTS_BY_END && below(2) && draw_move(mcts, &move);
        if (moves && (BAD(pgas_mcts_advance(mcts, move.move)) || !audit(mcts) || !keeps_visits(o)))
            return;
        visits = moves ? move.visits : visits;
    }
}

static void one_round(void)
{
    pgas_mcts_spec_t spec;
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_t *mcts = NULL;
    static uint64_t state[STATE_MAX / 8];
    int game = (int)below(N_GAMES);
    draw_options(&opts);
    if (games[game].n_players == 0) {
        pgas_hex_init((pgas_hex_t *)(void *)state, 6, below(2));
        spec = *pgas_hex_spec(6);
    } else {
        made_begin((made_t *)(void *)state, &games[game], opts.seed);
        made_spec(&spec, &games[game]);
        spec.evaluate = below(2) ? made_evaluate : NULL;
    }
    if (!spec.hash && opts.place == PGAS_MCTS_HASH)
        opts.place = PGAS_MCTS_RANDOM;
    if (BAD(pgas_mcts_create(&spec, &opts, &mcts))) {
        spmd_diag("refused: %s", describe(&opts, game));
        return;
    }
    if (!BAD(pgas_mcts_set_state(mcts, pgas_rank() == 0 ? state : NULL)))
        play(mcts, &opts, game);
    BAD(pgas_mcts_destroy(mcts));
}

static void rounds(int n)
{
    uint64_t n_bad_states = 0, n_seen = 0;
    for (int i = 0; i < n; i++)
        one_round();
    for (int i = 0; i < N_GAMES; i++) {
        n_bad_states += games[i].n_bad;
        n_seen += games[i].n_seen;
    }
    spmd_diag("%d searches, %llu rollouts, %llu steps to other ranks, %llu states looked at; ends "
              "by rollouts, time, "
              "memory, stop, proof, end: %d %d %d %d %d %d",
              n_searches, (unsigned long long)n_rollouts, (unsigned long long)n_remote,
              (unsigned long long)n_seen, n_ends[0], n_ends[1], n_ends[2], n_ends[3], n_ends[4],
              n_ends[5]);
    spmd_ok(n_searches >= n && n_remote > 0 && n_seen > 0, "%d rounds with settings of their own",
            n);
    spmd_is_int(n_bad_status, 0, "every function gives PGAS_OK");
    spmd_is_int(n_bad_counts, 0, "the root was visited once for each rollout that was asked for");
    spmd_is_int(n_lost, 0, "no rollout is lost");
    spmd_is_int(n_wrong, 0, "each node was visited as often as reports say");
    spmd_is_int(n_open, 0, "no visit is open");
    spmd_is_int(n_bad_states, 0, "states arrive as they left");
}

/* The game detects a changed word. */
static void the_game_can_fail(void)
{
    static uint64_t state[STATE_MAX / 8];
    made_t *s = (made_t *)(void *)state;
    made_begin(s, &games[2], 1);
    made_look(s, &games[2]);
    bool good = games[2].n_bad == 0;
    s->word[s->n_words - 1] ^= 1;
    made_look(s, &games[2]);
    spmd_ok(good && games[2].n_bad == 1, "a changed state is noticed");
    games[2].n_bad = 0;
}

/* A visit without a rollout, at some node below the root. */
static void the_audit_can_fail(void)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_t *mcts = NULL;
    pgas_hex_t hex;
    node_t *node = NULL;
    uint64_t wrong[3] = { 1, 1, 1 }, open[3] = { 1, 1, 1 };
    budget.rollouts = 500;
    pgas_hex_init(&hex, 5, false);
    if (BAD(pgas_mcts_create(pgas_hex_spec(5), NULL, &mcts)) ||
        BAD(pgas_mcts_set_state(mcts, &hex)) || BAD(pgas_mcts_search(mcts, &budget, NULL)))
        return;
    for (int i = 0; i <= mcts->n_threads && pgas_rank() == pgas_n_ranks() - 1; i++)
        node = mcts->worker[i].nodes ? mcts->worker[i].nodes : node;
    for (int i = 0; i < 3; i++) {
        static const uint64_t more[] = { 0, 1, UINT64_MAX };
        if (node)
            node->visits += more[i];
        BAD(pgasi_mcts_audit(mcts, &wrong[i], &open[i]));
    }
    spmd_ok(wrong[0] == 0 && open[0] == 0 && wrong[1] == 1 && open[1] == 1,
            "a visit too many is noticed");
    spmd_ok(wrong[2] == 0 && open[2] == 0, "and no longer when it is gone");
    BAD(pgas_mcts_destroy(mcts));
}

int main(int argc, char **argv)
{
    const char *n = getenv("CONSERVE_ROUNDS");
    job_begin(&argc, &argv, 10);
    pgasi_rng_seed(&rng, spmd_seed(1) + 1000 * (uint64_t)spmd_size());
    the_game_can_fail();
    the_audit_can_fail();
    rounds(n ? atoi(n) : 8);
    return job_end();
}
