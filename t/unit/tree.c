/* what: The tree of a broadcast reaches every rank once, from any root, over any nodes. No rank
 *       sends more than ceil(log2 N) times, and a rank that is not the root one time less. The tree
 *       has as many levels. With sizes that are powers of two, as many messages cross nodes as
 *       there are further nodes.
 * source: src/bcast/tree.h; a plain model that follows every message
 */
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/rng.h"
#include "bcast/tree.h"
#include "t/tap.h"

#define N_MAX 200

typedef uint32_t (*cut_fn_t)(const pgasi_tree_t *t, int root, uint32_t low, uint32_t high);

typedef struct {
    int reached[N_MAX], sent[N_MAX];
    int depth, crossings;
} walk_t;

static void follow(const pgasi_tree_t *t, cut_fn_t cut, int root, uint32_t low, uint32_t high,
                   int level, walk_t *w)
{
    int rank = pgasi_tree_rank(t, root, low);
    w->reached[rank]++;
    w->depth = level > w->depth ? level : w->depth;
    while (high - low > 1) {
        uint32_t at = cut(t, root, low, high);
        if (at <= low || at >= high)
            return;
        int child = pgasi_tree_rank(t, root, at);
        w->sent[rank]++;
        w->crossings += t->node_of[rank] != t->node_of[child];
        /* a message leaves after those before it */
        follow(t, cut, root, at, high, level + (int)w->sent[rank], w);
        high = at;
    }
}

/* Broken promises of one root. */
static int n_broken(const pgasi_tree_t *t, cut_fn_t cut, int root, walk_t *w)
{
    int n_bad = 0, limit = (int)pgasi_log2_up(t->n_ranks);
    memset(w, 0, sizeof *w);
    follow(t, cut, root, 0, t->n_ranks, 0, w);
    for (uint32_t r = 0; r < t->n_ranks; r++)
        n_bad += w->reached[r] != 1 || w->sent[r] > limit - ((int)r != root && limit > 0);
    return n_bad + (w->depth > limit);
}

static uint32_t cut_off_one(const pgasi_tree_t *t, int root, uint32_t low, uint32_t high)
{
    (void)t;
    (void)root;
    return high - 1 > low ? high - 1 : low + 1;
}

static int random_nodes(pgasi_rng_t *rng, int n, int node_of[N_MAX])
{
    int n_nodes = 1 + (int)pgasi_rng_below(rng, (uint64_t)n);
    for (int r = 0; r < n; r++) /* each node has a rank, further ranks are anywhere */
        node_of[r] = r < n_nodes ? r : (int)pgasi_rng_below(rng, (uint64_t)n_nodes);
    return n_nodes;
}

static void any_nodes_any_root(void)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, tap_seed(1));
    int n_bad = 0, node_of[N_MAX];
    for (int i = 0; i < 300; i++) {
        int n = 1 + (int)pgasi_rng_below(&rng, i < 200 ? 20 : N_MAX),
            n_nodes = random_nodes(&rng, n, node_of);
        pgasi_tree_t t;
        walk_t w;
        n_bad += pgasi_tree_init(&t, n, node_of, n_nodes) != PGAS_OK;
        for (int root = 0; root < n; root++)
            n_bad += n_broken(&t, pgasi_tree_cut, root, &w) != 0;
        pgasi_tree_fini(&t);
    }
    is_int(n_bad, 0, "300 random maps, every root: each rank once, and no rank sends too often");
}

static void nodes_of_equal_size(void)
{
    int n_bad = 0, node_of[N_MAX];
    for (int size = 1; size <= 8; size *= 2) {
        for (int n_nodes = 1; n_nodes * size <= 128; n_nodes *= 2) {
            pgasi_tree_t t;
            walk_t w;
            for (int r = 0; r < n_nodes * size; r++)
                node_of[r] = r / size;
            n_bad += pgasi_tree_init(&t, n_nodes * size, node_of, n_nodes) != PGAS_OK;
            for (int root = 0; root < n_nodes * size; root++)
                n_bad += n_broken(&t, pgasi_tree_cut, root, &w) != 0 || w.crossings != n_nodes - 1;
            pgasi_tree_fini(&t);
        }
    }
    is_int(n_bad, 0, "each further node is entered once");
}

static void a_bad_tree_is_noticed(void)
{
    int node_of[N_MAX] = { 0 };
    pgasi_tree_t t;
    walk_t w;
    bool made = pgasi_tree_init(&t, 8, node_of, 1) == PGAS_OK;
    ok(made && n_broken(&t, cut_off_one, 3, &w) > 0, "a root that sends to all is noticed");
    pgasi_tree_fini(&t);
}

int main(void)
{
    plan(3);
    any_nodes_any_root();
    nodes_of_equal_size();
    a_bad_tree_is_noticed();
    return done();
}
