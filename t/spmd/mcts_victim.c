/* One rank of this job is killed while all search a tree: the program of t/spmd/mcts_kill.t, no
 * test by itself.
 *   mcts_victim RANK HOW THREADS    HOW is search: in a playout; or rest: after a search, while the
 *                                   others begin the next.
 * The others continue if PGAS_ON_PEER_DEATH says so, and report the results of their calls. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/hex.h"
#include "pgas/pgas.h"

#define SIZE   7
#define DEADLY 5000 /* playouts of a rank until it dies */

static bool dies;
static int n_played;

static void deadly_playout(const void *state, pgas_mcts_rng_t *rng, int n, float *sums, void *arg)
{
    pgas_hex_spec(SIZE)->playout(state, rng, n, sums, arg);
    if (dies && __atomic_add_fetch(&n_played, 1, __ATOMIC_RELAXED) == DEADLY)
        raise(SIGKILL);
}

static int expect(pgas_status_t status, pgas_status_t want, const char *what)
{
    if (status == want)
        return 0;
    printf("rank %d: %s gave %s\n", pgas_rank(), what, pgas_status_name(status));
    return 1;
}

static pgas_mcts_t *begin(int n_threads)
{
    pgas_mcts_spec_t spec = *pgas_hex_spec(SIZE);
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_t *mcts = NULL;
    pgas_hex_t hex;
    spec.playout = deadly_playout;
    opts.n_threads = n_threads;
    if (pgas_hex_init(&hex, SIZE, false) != PGAS_OK ||
        pgas_mcts_create(&spec, &opts, &mcts) != PGAS_OK ||
        pgas_mcts_set_state(mcts, &hex) != PGAS_OK)
        exit(4);
    return mcts;
}

/* No further search of the tree can begin. The search can be destroyed, and the library ends. */
static int after(pgas_mcts_t *mcts, pgas_mcts_budget_t *budget)
{
    pgas_mcts_result_t info = { .size = sizeof info };
    int n_bad = expect(pgas_mcts_search(mcts, budget, &info), PGAS_ERR_PEER, "the next search");
    n_bad += expect(pgas_mcts_advance(mcts, 0), PGAS_ERR_PEER, "a move");
    pgas_status_t status = pgas_mcts_destroy(mcts);
    n_bad += status != PGAS_OK && expect(status, PGAS_ERR_PEER, "destroy");
    return n_bad + expect(pgas_finalize(), PGAS_ERR_PEER, "finalize");
}

int main(int argc, char **argv)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    struct timespec begun, ended;
    if (argc != 4 || pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    bool at_rest = strcmp(argv[2], "rest") == 0, is_victim = pgas_rank() == atoi(argv[1]);
    pgas_mcts_t *mcts = begin(atoi(argv[3]));
    budget.rollouts = 1000;
    if (expect(pgas_mcts_search(mcts, &budget, NULL), PGAS_OK, "a search of all") > 0)
        return 5;
    if (pgas_rank() == 0) {
        printf("started %lld\n", (long long)time(NULL));
        fflush(stdout);
    }
    pgas_barrier(NULL);
    dies = is_victim;
    if (is_victim && at_rest)
        raise(SIGKILL);
    budget.rollouts = 0;
    budget.until_stop = true;
    budget.even_if_proven = true;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    int n_bad = expect(pgas_mcts_search(mcts, &budget, NULL), PGAS_ERR_PEER, "the search");
    clock_gettime(CLOCK_MONOTONIC, &ended);
    n_bad += after(mcts, &budget);
    printf("%s %d after %d s\n", n_bad == 0 ? "survived" : "failed", pgas_rank(),
           (int)(ended.tv_sec - begun.tv_sec));
    fflush(stdout);
    _exit(n_bad);
}
