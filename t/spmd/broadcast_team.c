/* Calls to teams.
 *   what:   A call to a team runs its handler once on every member and nowhere else, whichever
 *           member is the root: in teams of any size, with members in any order, in several teams
 *           of one rank at once, and in teams that were made after others ended. The same holds
 *           with buffers (pieces go by team rank), on every thread, for spawned handlers, and in
 *           both ways. What a team cannot have is refused.
 *   np:     1 2 3 5 7 8
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K | PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/call.h, pgas/team.h
 */
#include "base/rng.h"
#include "boot/boot.h"
#include "t/pattern.h"
#include "t/spmd/job.h"

#define N_TEAMS  6
#define N_ROUNDS 40
#define PIECE    ((size_t)700)

static pgas_handler_t count, filled, other, several;
static int n_runs[N_TEAMS + 1], n_wrong;
static uint64_t next_of[N_TEAMS + 1][JOB_RANKS_MAX];
static pgas_gptr_t place;

/* args: the team's index in this test, the root, and a number or a seed */
typedef struct {
    int32_t team, root;
    uint64_t number;
    uint64_t bytes; /* of the buffer; UINT64_MAX: a piece */
    bool pushed;
    int32_t rank_of[JOB_RANKS_MAX];
} what_t;

static void on_count(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    what_t w;
    (void)context;
    memset(&w, 0, sizeof w);
    memcpy(&w, args, bytes);
    __atomic_fetch_add(&n_wrong,
                       pgas_thread_rank(source) != w.root || next_of[w.team][w.root]++ != w.number,
                       __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_runs[w.team], 1, __ATOMIC_RELEASE);
}

static void on_other(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int32_t team;
    (void)bytes, (void)source, (void)context;
    memcpy(&team, args, sizeof team);
    __atomic_fetch_add(&n_runs[team], 1, __ATOMIC_RELEASE);
}

static size_t piece_bytes(uint64_t seed, int team_rank)
{
    return (size_t)(seed * 131 + (uint64_t)team_rank * 977) % PIECE;
}

static void on_filled(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    what_t w;
    void *data = NULL;
    size_t n = 0;
    (void)source, (void)context;
    memset(&w, 0, sizeof w);
    memcpy(&w, args, bytes);
    bool piece = w.bytes == UINT64_MAX;
    int mine = w.rank_of[me];
    size_t want = piece ? piece_bytes(w.number, mine) : w.bytes;
    uint64_t seed = w.number + (piece ? (uint64_t)mine : 0);
    int bad = pgas_buffer_count() != 1 || pgas_buffer_get(0, &data, &n) != PGAS_OK || n != want;
    for (size_t i = 0; !bad && i < n; i++)
        bad = ((unsigned char *)data)[i] != pattern_byte(seed, i);
    /* A handler may take what was not pushed. */
    void *own = NULL;
    bool taken = pgas_buffer_take(0, &own) == PGAS_OK;
    bad += taken == w.pushed;
    for (size_t i = 0; taken && !bad && i < n; i++)
        bad = ((unsigned char *)own)[i] != pattern_byte(seed, i);
    free(own);
    __atomic_fetch_add(&n_wrong, bad, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_runs[w.team], 1, __ATOMIC_RELEASE);
}

static int finish(pgas_sync_t *sync, pgas_status_t status)
{
    return status != PGAS_OK || pgas_sync_wait(sync, -1) != PGAS_OK || sync->count != 0;
}

static void clear(void)
{
    memset(n_runs, 0, sizeof n_runs);
    memset(next_of, 0, sizeof next_of);
}

/* Every member of the parent is in one of the parts, or in none. The keys turn the order of some
 * parts around. All ranks draw the same numbers. */
static pgas_team_t *split(pgas_team_t *parent, bool member, pgasi_rng_t *rng, int *n_bad)
{
    pgas_team_t *team = NULL;
    uint64_t draw = pgasi_rng_u64(rng);
    int n_colors = 1 + (int)(draw % 3), mine = pgas_team_rank(parent);
    int color = (int)((draw >> 8) + (uint64_t)mine * (1 + (draw >> 16) % 5)) % (n_colors + 1);
    if (color < 0 || color == n_colors)
        color = PGAS_COLOR_NONE;
    if (member)
        *n_bad += pgas_team_split(parent, color, draw & 1 << 20 ? -mine : mine, &team) != PGAS_OK;
    return team;
}

/* One root after the other, in all the ways. */
static int from_each(pgas_team_t *team, int index)
{
    int n_bad = 0;
    for (int root = 0; team && root < pgas_team_size(team); root++) {
        for (int i = 0; i < 4; i++) {
            what_t w = { index, pgas_team_to_global(team, root), (uint64_t)i, 0, false, { 0 } };
            pgas_sync_t done = PGAS_SYNC_INIT;
            pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
            o.sync = &done;
            o.way = i % 2 ? PGAS_WAY_SEND : PGAS_WAY_WRITE;
            o.when = i == 2 ? PGAS_REMOTE : PGAS_EXECUTED;
            pgas_barrier(team);
            if (pgas_team_rank(team) == root)
                n_bad += finish(&done, pgas_call_to(pgas_on_team(team), count, &w,
                                                    offsetof(what_t, rank_of), &o));
            pgas_barrier(team);
            n_bad += i != 2 && __atomic_load_n(&n_runs[index], __ATOMIC_ACQUIRE) < i;
        }
    }
    return n_bad;
}

static void many_teams(uint64_t seed)
{
    pgasi_rng_t rng;
    int n_bad = 0, n_wrong_count = 0;
    pgas_team_t *team[N_TEAMS] = { NULL };
    pgasi_rng_seed(&rng, seed);
    clear();
    for (int i = 0; i < N_TEAMS; i++)
        team[i] = split(i % 2 ? team[i - 1] : NULL, i % 2 == 0 || team[i - 1], &rng, &n_bad);
    pgas_barrier(NULL);
    for (int i = 0; i < N_TEAMS; i++)
        n_bad += from_each(team[i], i);
    n_bad += pgas_quiesce() != PGAS_OK;
    for (int i = 0; i < N_TEAMS; i++)
        n_wrong_count += n_runs[i] != (team[i] ? 4 * pgas_team_size(team[i]) : 0);
    spmd_is_int(n_bad + n_wrong, 0, "teams of any size: every root, in both ways");
    spmd_is_int(n_wrong_count, 0, "the handler runs once on each member, and nowhere else");

    clear();
    pgas_barrier(NULL);
    uint64_t number[N_TEAMS + 1] = { 0 };
    int n_mine[N_TEAMS + 1] = { 0 };
    for (int k = 0; k < N_ROUNDS; k++) {
        int i = (int)(pgasi_rng_u64(&rng) % (N_TEAMS + 1));
        what_t w = { i, me, number[i]++, 0, false, { 0 } };
        n_mine[i]++;
        if (i == N_TEAMS || team[i])
            n_bad += pgas_call_to(pgas_on_team(i == N_TEAMS ? NULL : team[i]), count, &w,
                                  offsetof(what_t, rank_of), NULL) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    for (int i = 0; i <= N_TEAMS; i++) /* all ranks drew the same teams */
        n_wrong_count += n_runs[i] != (i == N_TEAMS ? n_mine[i] * n_ranks
                                       : team[i]    ? n_mine[i] * pgas_team_size(team[i])
                                                    : 0);
    spmd_is_int(n_bad + n_wrong + n_wrong_count, 0,
                "many roots and teams at once: each root's calls to a team keep their order");
    for (int i = 0; i < N_TEAMS; i += 2) { /* parents end first */
        n_bad += team[i] && pgas_team_destroy(team[i]) != PGAS_OK;
        n_bad += team[i + 1] && pgas_team_destroy(team[i + 1]) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "and the teams can end");
}

static void with_buffers(uint64_t seed)
{
    static const size_t sizes[] = { 0, 8, 3000, (size_t)1 << 20 };
    pgas_team_t *team = NULL;
    int n_bad = pgas_team_split(NULL, me % 2, -me, &team) != PGAS_OK;
    unsigned char *data = job_alloc((size_t)1 << 20);
    size_t n = (size_t)pgas_team_size(team), bytes_of[JOB_RANKS_MAX];
    clear();
    int n_expected = 0;
    for (int root = 0; root < (int)n; root++) {
        for (int i = 0; i < 16; i++) {
            pgas_buffer_mode_t mode = (pgas_buffer_mode_t)(i % 4);
            bool pieces = mode == PGAS_BUFFER_SCATTER;
            what_t w = { 0,
                         me,
                         seed + (uint64_t)i,
                         pieces ? UINT64_MAX : sizes[i / 4],
                         mode == PGAS_BUFFER_PUSH,
                         { 0 } };
            size_t at = 0;
            for (int r = 0; r < (int)n; r++) {
                w.rank_of[pgas_team_to_global(team, r)] = r;
                bytes_of[r] = piece_bytes(w.number, r);
                if (pieces)
                    pattern_fill(data + at, w.number + (uint64_t)r, bytes_of[r]);
                at += bytes_of[r];
            }
            if (!pieces)
                pattern_fill(data, w.number, sizes[i / 4]);
            pgas_buffer_t b = { mode, data, sizes[i / 4], place, false, bytes_of };
            pgas_sync_t done = PGAS_SYNC_INIT;
            pgas_barrier(team);
            pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
            o.sync = &done;
            o.buffers = &b;
            o.n_buffers = 1;
            pgas_status_t status = PGAS_OK;
            bool turn = pgas_team_rank(team) == root;
            if (turn)
                status = pgas_call_to(pgas_on_team(team), filled, &w, sizeof w, &o);
            if (mode == PGAS_BUFFER_COPY || pieces)
                memset(data, 0xDD, (size_t)1 << 20);
            if (turn)
                n_bad += finish(&done, status);
            pgas_barrier(team);
            n_bad += __atomic_load_n(&n_runs[0], __ATOMIC_ACQUIRE) != ++n_expected;
        }
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad + n_wrong, 0, "copied, pushed, pulled and scattered to a team");
    n_bad += pgas_team_destroy(team) != PGAS_OK;
    free(data);
    spmd_is_int(n_bad, 0, "the team can end");
}

static void on_several(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t seed;
    (void)bytes, (void)source, (void)context;
    memcpy(&seed, args, sizeof seed);
    int bad = pgas_buffer_count() != 5;
    for (size_t i = 0; i < 5 && !bad; i++) {
        void *data = NULL;
        size_t n = 0;
        bad = pgas_buffer_get(i, &data, &n) != PGAS_OK || n != i * 333 || (uintptr_t)data % 8;
        for (size_t k = 0; !bad && k < n; k++)
            bad = ((unsigned char *)data)[k] != pattern_byte(seed + i, k);
    }
    __atomic_fetch_add(&n_wrong, bad, __ATOMIC_RELAXED);
    __atomic_fetch_add(&n_runs[0], 1, __ATOMIC_RELEASE);
}

static void several_buffers(uint64_t seed)
{
    static unsigned char data[5][5 * 333];
    pgas_buffer_t b[5];
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_team_t *team = NULL;
    int n_bad = pgas_team_split(NULL, me % 2, me, &team) != PGAS_OK;
    clear();
    for (size_t i = 0; i < 5; i++) {
        b[i] = (pgas_buffer_t){
            i % 2 ? PGAS_BUFFER_PULL : PGAS_BUFFER_COPY, data[i], i * 333, PGAS_NULL, false, NULL
        };
        pattern_fill(data[i], seed + i, i * 333);
    }
    pgas_barrier(NULL);
    n_bad +=
        finish(&done, pgas_call_to(pgas_on_team(team), several, &seed, sizeof seed,
                                   PGAS_CALL_OPTS(.sync = &done, .buffers = b, .n_buffers = 5)));
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == 0 && n_runs[0] == pgas_team_size(team),
            "several buffers in one call");
    n_bad = pgas_team_destroy(team) != PGAS_OK;
    spmd_is_int(n_bad, 0, "the team can end");
}

static void threads_and_spawned(void)
{
    pgas_team_t *team = NULL;
    int n_bad = pgas_team_split(NULL, me * 2 / n_ranks, me, &team) != PGAS_OK;
    int32_t zero = 0, one = 1;
    clear();
    pgas_barrier(NULL);
    if (pgas_team_rank(team) == 0) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        n_bad += finish(&done, pgas_call_to(pgas_on_team_threads(team), other, &zero, sizeof zero,
                                            PGAS_CALL_OPTS(.sync = &done)));
        n_bad += finish(&done, pgas_call_to(pgas_on_team(team), other, &one, sizeof one,
                                            PGAS_CALL_OPTS(.sync = &done, .spawn = true)));
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_runs[0] == 1 && n_runs[1] == 1,
            "on every thread of a team, and on threads of their own");
    n_bad = !pgas_team_node();
    if (pgas_team_rank(pgas_team_node()) == 0)
        n_bad += pgas_call_to(pgas_on_team(pgas_team_node()), other, &zero, sizeof zero, NULL) !=
                 PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_runs[0] == 2, "to the ranks of a node");

    static char memory[16];
    pgas_buffer_t b[2] = { { PGAS_BUFFER_COPY, memory, 8, PGAS_NULL, false, NULL },
                           { PGAS_BUFFER_COPY, memory, 8, PGAS_NULL, false, NULL } };
    uint64_t result = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    void *args = NULL;
    n_bad = 0;
#define REFUSED(target, ...) pgas_call_to((target), other, &zero, 4, PGAS_CALL_OPTS(__VA_ARGS__))
    n_bad += REFUSED(pgas_on_team(team), .sync = &done, .result = &result, .result_bytes = 8) !=
             PGAS_ERR_UNSUPPORTED;
    b[1].mode = PGAS_BUFFER_PUSH;
    n_bad += REFUSED(pgas_on_team(team), .buffers = b, .n_buffers = 2) != PGAS_ERR_UNSUPPORTED;
    n_bad += REFUSED(pgas_on_team_threads(team), .spawn = true) != PGAS_ERR_UNSUPPORTED;
    n_bad += pgas_call_begin(pgas_on_team(team), other, 8, NULL, &args) != PGAS_ERR_UNSUPPORTED;
    n_bad += pgas_channel_open(pgas_on_team(team)) != PGAS_ERR_UNSUPPORTED;
    b[0].mode = PGAS_BUFFER_SCATTER;
    n_bad += REFUSED(pgas_on_rank(0), .buffers = b, .n_buffers = 1) != PGAS_ERR_INVALID;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_runs[0] == 2 && done.count == 0, "what a team cannot have is refused");
    n_bad = pgas_team_destroy(team) != PGAS_OK;
    spmd_is_int(n_bad, 0, "the team can end");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.count", on_count, NULL, NULL, &count);
    pgas_handler_register("t.filled", on_filled, NULL, NULL, &filled);
    pgas_handler_register("t.other", on_other, NULL, NULL, &other);
    pgas_handler_register("t.several", on_several, NULL, NULL, &several);
    job_begin(&argc, &argv, 14);
    bool good = pgas_alloc((size_t)1 << 20, &place) == PGAS_OK;
    uint64_t seed = spmd_seed(5);
    many_teams(seed);
    with_buffers(seed);
    several_buffers(seed);
    threads_and_spawned();
    spmd_ok(good && pgas_free(place) == PGAS_OK, "the place can be freed");
    spmd_is_int(n_wrong, 0, "nothing was wrong");
    return job_end();
}
