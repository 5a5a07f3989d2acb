/* what:    Collectives with a counter give the results of plain loops while several are under way,
 *          over all ranks, a part of them and a node. They end only when all ranks have started
 *          them, a rank that waits serves calls meanwhile, and errors leave the counter alone.
 *          Teams and the library end after them.
 * np:      1 2 3 4 5 7
 * nodes:   0 1 2
 * env:     PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 * source:  include/pgas/coll.h */
#include "base/hash.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

enum { N_SIZES = 5, MOST = 70001 };

static uint64_t n_come;
static pgas_handler_t come;

static uint64_t word_of(int who, size_t i)
{
    return pgasi_hash_combine(pgasi_hash_u64((uint64_t)who + 17), i);
}

/* ---- results ---- */

static const size_t sizes[N_SIZES] = { 0, 1, 7, 2500, MOST };

/* One allreduce of each size at a time, each with a counter of its own. */
static bool sums(pgas_team_t *team)
{
    static uint64_t data[N_SIZES][MOST];
    pgas_sync_t done[N_SIZES], *all[N_SIZES];
    int n = pgas_team_size(team), rank = pgas_team_rank(team), n_bad = 0;
    for (int k = 0; k < N_SIZES; k++) {
        done[k] = (pgas_sync_t)PGAS_SYNC_INIT;
        all[k] = &done[k];
        for (size_t i = 0; i < sizes[k]; i++)
            data[k][i] = word_of(rank, i);
        n_bad +=
            pgas_allreduce_nb(team, data[k], sizes[k], PGAS_U64, PGAS_ADD, &done[k]) != PGAS_OK;
    }
    n_bad += pgas_sync_wait_all(all, N_SIZES, -1) != PGAS_OK;
    for (int k = 0; k < N_SIZES; k++) {
        for (size_t i = 0; i < sizes[k]; i += 1 + sizes[k] / 100) {
            uint64_t want = 0;
            for (int r = 0; r < n; r++)
                want += word_of(r, i);
            n_bad += data[k][i] != want;
        }
    }
    return n_bad == 0;
}

/* Blocks of odd sizes, some empty; the lists are reused at once. */
static bool exchanges(pgas_team_t *team)
{
    int n = pgas_team_size(team), rank = pgas_team_rank(team), n_bad = 0;
    size_t out[JOB_RANKS_MAX], in[JOB_RANKS_MAX], n_out = 0, n_in = 0;
    for (int r = 0; r < n; r++) {
        out[r] = (size_t)(rank * 7 + r * 3) % 4 * 1001;
        in[r] = (size_t)(r * 7 + rank * 3) % 4 * 1001;
        n_out += out[r];
        n_in += in[r];
    }
    unsigned char *src = job_alloc(n_out), *dst = job_alloc(n_in + 1), *at = src;
    for (int r = 0; r < n; at += out[r], r++)
        memset(at, rank * 16 + r + 1, out[r]);
    dst[n_in] = 0xa5;
    pgas_sync_t done = PGAS_SYNC_INIT;
    n_bad += pgas_alltoallv_nb(team, src, out, dst, in, &done) != PGAS_OK;
    memset(out, 0xff, sizeof out);
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    at = dst;
    for (int r = 0; r < n; at += in[r], r++)
        for (size_t i = 0; i < in[r]; i++)
            n_bad += at[i] != (unsigned char)(r * 16 + rank + 1);
    n_bad += dst[n_in] != 0xa5;
    free(src);
    free(dst);
    return n_bad == 0;
}

/* Many broadcasts of all roots with one counter. */
static bool broadcasts(pgas_team_t *team)
{
    uint64_t words[JOB_RANKS_MAX];
    int n = pgas_team_size(team), rank = pgas_team_rank(team), n_bad = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    for (int r = 0; r < n; r++) {
        words[r] = r == rank ? word_of(rank, 1) : 0;
        n_bad += pgas_broadcast_nb(team, &words[r], sizeof words[r], r, &done) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK || done.count != 0;
    for (int r = 0; r < n; r++)
        n_bad += words[r] != word_of(r, 1);
    return n_bad == 0;
}

static void results(pgas_team_t *team, const char *name)
{
    bool member = team || strcmp(name, "all ranks") == 0;
    spmd_ok(!member || sums(team), "several allreduces at a time over %s", name);
    spmd_ok(!member || exchanges(team), "an exchange of blocks of any sizes over %s", name);
    spmd_ok(!member || broadcasts(team), "a broadcast of each rank over %s", name);
}

/* ---- when they end ---- */

/* The late rank starts when all others have told it that theirs is under way. */
static void all_must_start(void)
{
    int late = n_ranks - 1, n_bad = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    if (me == late) {
        while (__atomic_load_n(&n_come, __ATOMIC_ACQUIRE) < (uint64_t)n_ranks - 1)
            pgas_progress();
    } else {
        n_bad += pgas_barrier_nb(NULL, &done) != PGAS_OK;
        for (int i = 0; i < 100; i++)
            n_bad += pgas_sync_test(&done) != PGAS_INPROGRESS || done.count != 1;
        n_bad += pgas_sync_wait(&done, 1000) != PGAS_ERR_TIMEOUT;
        pgas_call(late, come, "", 0, NULL);
    }
    if (me == late)
        n_bad += pgas_barrier_nb(NULL, &done) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    spmd_ok(n_bad == 0, "a barrier ends only when the last rank has started it");
}

static void count_fn(pgas_sync_t *sync, void *arg)
{
    (void)sync;
    ++*(int *)arg;
}

/* Calls run while a rank waits; the function of the counter runs once. */
static void serves_meanwhile(void)
{
    int n_run = 0, n_bad = 0;
    uint64_t before = __atomic_load_n(&n_come, __ATOMIC_ACQUIRE), one = 1;
    pgas_sync_t done = PGAS_SYNC_INIT_FN(count_fn, &n_run), called = PGAS_SYNC_INIT;
    pgas_barrier(NULL);
    n_bad += pgas_allreduce_nb(NULL, &one, 1, PGAS_U64, PGAS_ADD, &done) != PGAS_OK;
    n_bad += pgas_call(job_right(), come, "", 0, &called) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK || pgas_sync_wait(&called, -1) != PGAS_OK;
    pgas_quiesce();
    n_bad += n_run != 1 || one != (uint64_t)n_ranks ||
             __atomic_load_n(&n_come, __ATOMIC_ACQUIRE) != before + 1;
    spmd_ok(n_bad == 0, "calls run meanwhile, and the counter's function runs once");
}

/* ---- refusals, the end ---- */

static pgas_status_t in_handler = PGAS_OK;
static pgas_handler_t tries;
static void on_tries(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    static pgas_sync_t done = PGAS_SYNC_INIT;
    (void)args, (void)bytes, (void)source, (void)context;
    in_handler = pgas_barrier_nb(NULL, &done);
    if (done.count != 0)
        in_handler = PGAS_OK;
}

static void refusals(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT, called = PGAS_SYNC_INIT;
    uint64_t x = 1;
    size_t bytes[JOB_RANKS_MAX] = { 0 };
    int n_bad = pgas_barrier_nb(NULL, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_broadcast_nb(NULL, &x, sizeof x, n_ranks, &done) != PGAS_ERR_INVALID;
    n_bad += pgas_broadcast_nb(NULL, NULL, sizeof x, 0, &done) != PGAS_ERR_INVALID;
    n_bad += pgas_allreduce_nb(NULL, NULL, 1, PGAS_U64, PGAS_ADD, &done) != PGAS_ERR_INVALID;
    n_bad += pgas_allreduce_nb(NULL, &x, 1, PGAS_U64, PGAS_SWAP, &done) != PGAS_ERR_UNSUPPORTED;
    n_bad += pgas_alltoallv_nb(NULL, &x, NULL, &x, bytes, &done) != PGAS_ERR_INVALID;
    n_bad += pgas_call(me, tries, "", 0, &called) != PGAS_OK;
    n_bad += pgas_sync_wait(&called, -1) != PGAS_OK || in_handler != PGAS_ERR_CONTEXT;
    spmd_ok(n_bad == 0 && done.count == 0 && pgas_sync_test(&done) == PGAS_OK,
            "refused ones leave the counter alone");
}

static void teams_end_after_them(void)
{
    static pgas_sync_t done = PGAS_SYNC_INIT;
    static uint64_t data[1000];
    pgas_team_t *team = NULL;
    for (int i = 0; i < 1000; i++)
        data[i] = 1;
    int n_bad = pgas_team_split(NULL, me % 2, 0, &team) != PGAS_OK;
    uint64_t n = (uint64_t)pgas_team_size(team);
    n_bad += pgas_allreduce_nb(team, data, 1000, PGAS_U64, PGAS_ADD, &done) != PGAS_OK;
    n_bad += pgas_team_destroy(team) != PGAS_OK || done.count != 0 || data[999] != n;
    n_bad += pgas_team_destroy(NULL) != PGAS_OK;
    spmd_ok(n_bad == 0, "a team ends after its collectives");
}

int main(int argc, char **argv)
{
    static pgas_sync_t last = PGAS_SYNC_INIT;
    static uint64_t sum = 1;
    pgas_handler_register("t.come", on_count, &n_come, NULL, &come);
    pgas_handler_register("t.tries", on_tries, NULL, NULL, &tries);
    job_begin(&argc, &argv, 9 + 4 + 1);
    pgas_team_t *part = NULL;
    pgas_team_split(NULL, me == 1 ? PGAS_COLOR_NONE : 0, -me, &part);
    results(NULL, "all ranks");
    results(part, "all but one, backwards");
    results(pgas_team_node(), "the node");
    all_must_start();
    serves_meanwhile();
    refusals();
    teams_end_after_them();
    if (part)
        pgas_team_destroy(part);
    bool started = pgas_allreduce_nb(NULL, &sum, 1, PGAS_U64, PGAS_ADD, &last) == PGAS_OK;
    job_stop();
    spmd_ok(started && last.count == 0 && last.error == 0 && sum == (uint64_t)n_ranks,
            "the library ends after all of them");
    return spmd_end();
}
