/* what: The reference tree of the benchmarks finds winning openings, and counts every rollout once
 *       with any number of threads. It repeats its result from the same seed, and works with a full
 *       arena.
 * source: winning first moves of 2x2, 3x3 and 4x4, from an exhaustive search */
#include "benchmarks/ref_tree.h"
#include "t/tap.h"

#define BYTES ((size_t)64 << 20)

static ref_tree_t *tree_of(int size, int n_threads, int playouts, size_t bytes, uint64_t seed)
{
    pgas_hex_t hex;
    ref_tree_t *tree = NULL;
    if (pgas_hex_init(&hex, size, false) == PGAS_OK)
        tree = ref_tree_create(&hex, n_threads, playouts, bytes, seed);
    if (!tree)
        bail("no tree");
    return tree;
}

static bool is_winning(int size, pgas_mcts_move_t move, const char *winning)
{
    char name[4] = { (char)('a' + (int)move % size), (char)('1' + (int)move / size), ' ', '\0' };
    return strstr(winning, name);
}

static int count_found(int size, int n_threads, int playouts, const char *winning)
{
    int n_found = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        ref_tree_t *tree = tree_of(size, n_threads, playouts, BYTES, seed);
        uint64_t visits;
        (void)ref_tree_search(tree, 30000, NULL);
        n_found += is_winning(size, ref_tree_best(tree, &visits), winning);
        ref_tree_destroy(tree);
    }
    return n_found;
}

static void openings_are_found(void)
{
    is_int(count_found(2, 1, 16, "b1 a2 "), 5, "2x2");
    is_int(count_found(3, 1, 1, "c1 a2 b2 c2 a3 "), 5, "3x3, one playout");
    is_int(count_found(3, 2, 16, "c1 a2 b2 c2 a3 "), 5, "3x3, two threads");
    is_int(count_found(4, 1, 16, "d1 c2 b3 a4 "), 5, "4x4");
    is_int(count_found(4, 2, 1, "d1 c2 b3 a4 "), 5, "4x4, two threads, one playout");
    ok(count_found(4, 1, 16, "a1 b1 a2 b2 ") < 5,
       "the check finds wrong openings (broken on purpose)");
}

static void rollouts_are_counted(void)
{
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        ref_tree_t *tree = tree_of(11, n_threads, 1, BYTES, 1);
        uint64_t visits, nodes;
        int status = ref_tree_search(tree, 10001, NULL) | ref_tree_search(tree, 7, NULL);
        ref_tree_count(tree, &visits, &nodes);
        ok(status == 0 && visits == 10008, "%d threads: every rollout visits the root once",
           n_threads);
        ok(nodes <= visits && nodes > visits / 2, "%d threads: %llu nodes", n_threads,
           (unsigned long long)nodes);
        ref_tree_clear(tree);
        ref_tree_count(tree, &visits, &nodes);
        ok(visits == 0 && nodes == 0 && ref_tree_best(tree, &visits) == PGAS_MCTS_NO_MOVE,
           "none after it was cleared");
        ref_tree_destroy(tree);
    }
}

static void one_seed_one_tree(void)
{
    uint64_t visits[2], nodes[2], best_visits[2];
    pgas_mcts_move_t best[2];
    for (int i = 0; i < 2; i++) {
        ref_tree_t *tree = tree_of(7, 1, 4, BYTES, 7);
        (void)ref_tree_search(tree, 5000, NULL);
        ref_tree_count(tree, &visits[i], &nodes[i]);
        best[i] = ref_tree_best(tree, &best_visits[i]);
        ref_tree_destroy(tree);
    }
    ok(nodes[0] == nodes[1] && best[0] == best[1] && best_visits[0] == best_visits[1],
       "one seed, one thread, one tree");
    ok(nodes[0] == visits[0], "each rollout makes a node while there are moves");
}

static void a_full_arena_ends_growth_only(void)
{
    ref_tree_t *tree = tree_of(5, 1, 1, 4096, 1);
    uint64_t visits, nodes;
    (void)ref_tree_search(tree, 5000, NULL);
    ref_tree_count(tree, &visits, &nodes);
    ok(visits == 5000 && nodes < 4096 / 16, "searches on without memory, with %llu nodes",
       (unsigned long long)nodes);
    ref_tree_destroy(tree);
}

static void games_are_those_of_hex(void)
{
    pgas_hex_t hex;
    uint64_t wins;
    (void)pgas_hex_init(&hex, 11, false);
    wins = ref_hex_games(&hex, 2000, 16, 3);
    /* the first player wins a game of random moves with 0.5236; six standard errors */
    ok(wins > 32000 * 0.5068 && wins < 32000 * 0.5404, "%llu of 32000 games",
       (unsigned long long)wins);
}

int main(void)
{
    plan(19);
    openings_are_found();
    rollouts_are_counted();
    one_seed_one_tree();
    a_full_arena_ends_growth_only();
    games_are_those_of_hex();
    return done();
}
