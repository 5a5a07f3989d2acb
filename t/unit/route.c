/* what: Routes over nodes reach every node in the stated number of steps, over few neighbours, for
 *       any number of nodes. auto takes the fewest hops that the memory allows.
 * source: src/call/route.h */
#include "call/route.h"
#include "t/tap.h"

#define NODES_MAX 260

/* Steps from one node to another; -1: lost. */
static int steps(const pgasi_grid_t *g, int from, int to)
{
    int n = 0;
    while (from != to && n <= 4) {
        from = pgasi_route_next_node(g, from, to);
        n++;
        if (from < 0 || from >= g->n_nodes)
            return -1;
    }
    return from == to ? n : -1;
}

static void they_arrive(int hops)
{
    int n_bad = 0, longest = 0;
    for (int n = 1; n <= NODES_MAX; n += n < 40 ? 1 : 11) {
        pgasi_grid_t g = pgasi_route_grid(n, hops);
        for (int a = 0; a < n; a++) {
            for (int b = 0; b < n; b++) {
                int s = steps(&g, a, b);
                n_bad += s < 0 || s > hops || (a != b && s == 0);
                longest = s > longest ? s : longest;
            }
        }
    }
    is_int(n_bad, 0, "any node in %d steps at most", hops);
    is_int(longest, hops, "and some need them");
}

static void few_neighbours(int hops)
{
    int n_bad = 0;
    for (int n = 1; n <= NODES_MAX; n += 7) {
        pgasi_grid_t g = pgasi_route_grid(n, hops);
        for (int a = 0; a < n; a++) {
            bool is_next[NODES_MAX] = { false };
            int n_next = 0;
            for (int b = 0; b < n; b++) {
                int next = pgasi_route_next_node(&g, a, b);
                n_next += a != b && !is_next[next];
                is_next[next] = true;
            }
            n_bad += n_next + 1 > pgasi_route_peers(n, 1, hops);
        }
    }
    is_int(n_bad, 0, "with %d hops no more neighbours than are counted", hops);
}

static void a_broken_grid_is_noticed(void)
{
    pgasi_grid_t g = { 2, 30, 4 };
    int n_bad = 0;
    for (int b = 0; b < 30; b++)
        n_bad += steps(&g, 0, b) < 0 || steps(&g, 0, b) > 2;
    ok(n_bad > 0, "a grid that is too small would be noticed");
}

static void choices(void)
{
    is_int(pgasi_route_choose(1, 100, 64), 1, "one node: nothing to gain");
    is_int(pgasi_route_choose(64, 1, 64), 1, "64 nodes fit");
    is_int(pgasi_route_choose(65, 1, 64), 2, "one more does not");
    is_int(pgasi_route_choose(1024, 1, 64), 2, "32 rows and columns do");
    is_int(pgasi_route_choose(1025, 1, 64), 3, "33 do not");
    is_int(pgasi_route_choose(1000, 100, 64), 3, "the fewest peers where nothing fits");
    is_int(pgasi_route_choose(100, 4, 400), 1, "ranks of a node count");
    is_int(pgasi_route_choose(100, 4, 399), 2, "each of them");
}

int main(void)
{
    plan(18);
    for (int hops = 1; hops <= 3; hops++) {
        they_arrive(hops);
        few_neighbours(hops);
    }
    a_broken_grid_is_noticed();
    choices();
    return done();
}
