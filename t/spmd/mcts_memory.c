/* Memory of a search.
 *   what:   Over 100 moves of games against itself neither the memory of nodes nor that of the
 *           process grows. Many times as much is allocated and freed meanwhile. A move, and a new
 *           state, free the nodes that are not below them, on every rank. The end of a search frees
 *           all memory, and its threads end.
 *   np:     1 2 3
 *   nodes:  0 1 2
 *   needs:  no-sanitizers
 *   source: pgas/mcts.h; a freed block may stay with the C library, hence bounds and not equality
 */
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>
#include "pgas/hex.h"
#include "t/spmd/job.h"

#define SIZE     7
#define N_MOVES  100
#define WARM_UP  20
#define ROLLOUTS 3000
/* bytes of a rank that are not called growth: nodes are taken from pieces of 2 MiB */
#define GROWTH (6 << 20)

static int n_bad;

static bool is_bad(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        printf("# rank %d: %s: %s\n", pgas_rank(), what, pgas_status_text(status));
    n_bad += status != PGAS_OK;
    return status != PGAS_OK;
}
#define BAD(call) is_bad((call), #call)

static int64_t resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*d %ld", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (int64_t)sysconf(_SC_PAGESIZE);
}

static int thread_count(void)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e; dir && (e = readdir(dir));)
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

static pgas_mcts_info_t stats_of(const pgas_mcts_t *mcts)
{
    pgas_mcts_info_t stats = { .size = sizeof stats };
    BAD(pgas_mcts_info(mcts, &stats));
    return stats;
}

static void begin_game(pgas_mcts_t *mcts)
{
    pgas_hex_t hex;
    pgas_hex_init(&hex, SIZE, false);
    BAD(pgas_mcts_set_state(mcts, &hex));
}

static pgas_mcts_result_t search(pgas_mcts_t *mcts)
{
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_result_t info = { .size = sizeof info };
    budget.rollouts = ROLLOUTS;
    budget.even_if_proven = true; /* to the last move */
    BAD(pgas_mcts_search(mcts, &budget, &info));
    return info;
}

static pgas_mcts_t *begin_search(uint64_t seed)
{
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_t *mcts = NULL;
    opts.seed = seed;
    opts.n_threads = 2;
    opts.playouts = 1;
    BAD(pgas_mcts_create(pgas_hex_spec(SIZE), &opts, &mcts));
    return mcts;
}

/* One move after another, one game after another. */
static void memory_stays(uint64_t seed)
{
    int64_t early = 0, growth;
    /* of all ranks: how they share the nodes depends on their load */
    uint64_t high = 0, peak = 0, made = 0, before = 0;
    int n_kept = 0;
    pgas_mcts_t *mcts = begin_search(seed);
    begin_game(mcts);
    for (int i = 0; i < N_MOVES; i++) {
        pgas_mcts_result_t info = search(mcts);
        pgas_mcts_info_t stats = stats_of(mcts);
        made += stats.bytes > before ? stats.bytes - before : 0;
        peak = stats.bytes > peak ? stats.bytes : peak;
        if (i < WARM_UP) {
            early = resident_bytes();
            high = peak;
            made = 0;
        }
        if (BAD(pgas_mcts_advance(mcts, info.best)))
            break;
        before = stats_of(mcts).bytes;
        n_kept += before >= stats.bytes;
        if (((const pgas_hex_t *)pgas_mcts_state(mcts))->winner >= 0) {
            begin_game(mcts);
            before = stats_of(mcts).bytes;
        }
    }
    growth = resident_bytes() - early;
    spmd_diag("rank 0: %.1f MiB grew by %.2f MiB, nodes: at most %.2f MiB after %d moves, %.2f MiB "
              "after %d; "
              "%.1f MiB made meanwhile by all",
              (double)early / 1048576, (double)growth / 1048576, (double)high / 1048576, WARM_UP,
              (double)peak / 1048576, N_MOVES, (double)made / 1048576);
    spmd_ok(made > 4 * (uint64_t)pgas_n_ranks() * GROWTH, "far more is made than may be kept");
    spmd_ok(growth < GROWTH, "the process does not grow");
    spmd_ok(peak < 3 * high, "nor does the maximum of nodes, except the subtree of a good move");
    spmd_is_int(n_kept, 0, "each move gives something back");
    BAD(pgas_mcts_destroy(mcts));
}

/* After a move that was never tried nothing of the tree is left, wherever it was. */
static void dropped_trees(uint64_t seed)
{
    pgas_mcts_opts_t opts = PGAS_MCTS_OPTS_INIT;
    pgas_mcts_budget_t budget = PGAS_MCTS_BUDGET_INIT;
    pgas_mcts_child_t child[SIZE * SIZE];
    pgas_mcts_t *mcts = NULL;
    size_t n = 0;
    opts.seed = seed;
    opts.playouts = 1;
    opts.widening = 0.5; /* half of the moves are not tried */
    BAD(pgas_mcts_create(pgas_hex_spec(SIZE), &opts, &mcts));
    begin_game(mcts);
    budget.rollouts = 3000;
    BAD(pgas_mcts_search(mcts, &budget, NULL));
    pgas_mcts_info_t full = stats_of(mcts);
    BAD(pgas_mcts_children(mcts, child, SIZE * SIZE, &n));
    bool tried = n == 0 || child[n - 1].visits > 0;
    spmd_ok(!tried && full.nodes > 1000, "%d nodes, and a move that was not tried",
            (int)full.nodes);
    BAD(pgas_mcts_advance(mcts, n > 0 ? child[n - 1].move : 0));
    pgas_mcts_info_t left = stats_of(mcts);
    spmd_ok(left.nodes <= 1 && left.bytes * 100 < full.bytes, "after it %d nodes, %d bytes of %d",
            (int)left.nodes, (int)left.bytes, (int)full.bytes);
    BAD(pgas_mcts_search(mcts, &budget, NULL));
    begin_game(mcts);
    left = stats_of(mcts);
    spmd_ok(left.nodes <= 1 && left.bytes * 100 < full.bytes,
            "after a new state %d nodes, %d bytes", (int)left.nodes, (int)left.bytes);
    BAD(pgas_mcts_destroy(mcts));
}

/* The C library keeps little of the memory of one search, and this does not add up. */
static void all_is_given_back(void)
{
    int threads = thread_count();
    int64_t resident = 0;
    size_t used = 0;
    for (int i = 0; i < 12; i++) {
        pgas_mcts_t *mcts = begin_search((uint64_t)i + 1);
        begin_game(mcts);
        search(mcts);
        BAD(pgas_mcts_destroy(mcts));
        if (i == 3) {
            resident = resident_bytes();
            used = mallinfo2().uordblks;
        }
    }
    int64_t grown = resident_bytes() - resident, kept = (int64_t)(mallinfo2().uordblks - used);
    spmd_diag("rank 0: after eight more searches %.2f MiB more resident, %lld bytes more allocated",
              (double)grown / 1048576, (long long)kept);
    spmd_ok(grown < GROWTH / 2, "searches that ended leave no memory behind");
    spmd_ok(kept < 65536, "nor blocks");
    spmd_is_int(thread_count(), threads, "nor threads");
}

/* Pages that are written are seen. */
static void growth_is_noticed(void)
{
    int64_t before = resident_bytes();
    volatile char *pages = job_alloc(2 * GROWTH);
    for (int i = 0; i < 2 * GROWTH; i += 512)
        pages[i] = 1;
    spmd_ok(resident_bytes() - before >= GROWTH, "growth is noticed");
    free((void *)(uintptr_t)pages);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 12);
    uint64_t seed = spmd_seed(1);
    growth_is_noticed();
    memory_stays(seed);
    dropped_trees(seed);
    all_is_given_back();
    spmd_is_int(n_bad, 0, "every function gives PGAS_OK");
    return job_end();
}
