/* what:    Teams number their members as requested, and translate ranks both ways. They exist
 *          independently of their parents, and are created and destroyed by all or by none. They
 *          are freed with a warning if the program has not destroyed them.
 * np:      1 2 3 4 5 7
 * nodes:   0 2 3 1
 * source:  members are computed from the arguments of the split, which are functions of the rank */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"
#include "boot/boot.h"
#include "pgas/coll.h"
#include "pgas/init.h"
#include "t/spmd.h"

static int rank, size;

/* The team is exactly members[0 .. n-1] in this order, seen through all its functions and through
 * its data. */
static bool consists_of(pgas_team_t *team, const int *members, int n)
{
    int me = -1;
    bool good = pgas_team_size(team) == n && pgas_team_to_global(team, n) == -1 &&
                pgas_team_to_global(team, -1) == -1 && pgas_team_from_global(team, size) == -1 &&
                pgas_team_from_global(team, -1) == -1;
    int *seen = calloc((size_t)n, sizeof *seen);
    for (int i = 0; i < n; i++) {
        good = good && pgas_team_to_global(team, i) == members[i] &&
               pgas_team_from_global(team, members[i]) == i;
        me = members[i] == rank ? i : me;
    }
    for (int r = 0; r < size; r++) {
        int at = -1;
        for (int i = 0; i < n; i++)
            at = members[i] == r ? i : at;
        good = good && pgas_team_from_global(team, r) == at;
    }
    good = pgas_allgather(team, &rank, seen, sizeof rank) == PGAS_OK && good &&
           pgas_team_rank(team) == me;
    for (int i = 0; i < n; i++)
        good = good && seen[i] == members[i];
    free(seen);
    return good;
}

/* Members of this rank's color by key, then by rank: a selection sort over functions of the
 * rank. */
static int expect(int (*color)(int), int (*key)(int), int *members)
{
    int n = 0;
    for (int r = 0; r < size; r++)
        if (color(r) == color(rank))
            members[n++] = r;
    for (int i = 0; i < n; i++) {
        for (int j = i + 1; j < n; j++) {
            int a = members[i], b = members[j];
            if (key(b) < key(a) || (key(b) == key(a) && b < a)) {
                members[i] = b;
                members[j] = a;
            }
        }
    }
    return n;
}

static int zero(int r)
{
    (void)r;
    return 0;
}
static int parity(int r)
{
    return r % 2;
}
static int triple(int r)
{
    return r / 3 * 1000000;
}
static int backwards(int r)
{
    return -r;
}
static int shuffled(int r)
{
    return (r * 5 + 3) % 7 - 3;
}
static int two_keys(int r)
{
    return r % 2;
}

static void splits(void)
{
    static const struct {
        int (*color)(int), (*key)(int);
        const char *name;
    } kinds[] = {
        { zero, zero, "all by rank" },           { zero, backwards, "all backwards" },
        { parity, zero, "odd and even" },        { parity, backwards, "odd and even backwards" },
        { triple, shuffled, "threes shuffled" }, { zero, two_keys, "all, even ones first" }
    };
    for (int i = 0; i < 6; i++) {
        int members[64], n = expect(kinds[i].color, kinds[i].key, members);
        pgas_team_t *team = NULL;
        bool good =
            pgas_team_split(NULL, kinds[i].color(rank), kinds[i].key(rank), &team) == PGAS_OK &&
            team && consists_of(team, members, n);
        good = good && pgas_team_destroy(team) == PGAS_OK;
        spmd_ok(good, "a split gives %s", kinds[i].name);
    }
}

static void fixed_teams(void)
{
    int all[64], n_mine = 0, mine[64];
    for (int r = 0; r < size; r++) {
        all[r] = r;
        if (pgasi_boot.node_of[r] == pgasi_boot.node)
            mine[n_mine++] = r;
    }
    spmd_ok(consists_of(NULL, all, size), "NULL is the team of all ranks");
    spmd_ok(consists_of(pgas_team_node(), mine, n_mine),
            "the node's team has the ranks of the node");
    spmd_ok(pgas_team_destroy(NULL) == PGAS_OK &&
                pgas_team_destroy(pgas_team_node()) == PGAS_ERR_INVALID &&
                consists_of(NULL, all, size),
            "neither of them can be destroyed, and NULL is nothing to do");
}

static void no_color(void)
{
    pgas_team_t *team = (pgas_team_t *)&rank;
    bool in = rank % 2 == 0;
    bool good = pgas_team_split(NULL, in ? 7 : PGAS_COLOR_NONE, 0, &team) == PGAS_OK &&
                (team != NULL) == in;
    good =
        good && (!in || (pgas_team_size(team) == (size + 1) / 2 && pgas_barrier(team) == PGAS_OK));
    if (good && in)
        good = pgas_team_destroy(team) == PGAS_OK;
    spmd_ok(good, "ranks without a color get no team");
}

static void bad_colors(void)
{
    pgas_team_t *team = (pgas_team_t *)&rank;
    int last = size - 1;
    spmd_ok(pgas_team_split(NULL, rank == last ? -5 : 0, 0, &team) == PGAS_ERR_INVALID &&
                team == (pgas_team_t *)&rank,
            "one negative color refuses the split on all ranks, and writes nothing");
    spmd_ok(pgas_team_split(NULL, 0, 0, rank == last ? NULL : &team) == PGAS_ERR_INVALID,
            "NULL for the result likewise");
}

static void children_outlive_parents(void)
{
    pgas_team_t *parent, *child;
    int32_t one = 1, sum = 0;
    bool good = pgas_team_split(NULL, 0, -rank, &parent) == PGAS_OK &&
                pgas_team_split(parent, pgas_team_rank(parent) / 2, 0, &child) == PGAS_OK;
    int n = good ? pgas_team_size(child) : 0, place = size - 1 - rank;
    good = good && n == (place / 2 * 2 + 1 < size ? 2 : 1) &&
           pgas_team_to_global(child, 0) == size - 1 - place / 2 * 2;
    good = good && pgas_team_destroy(parent) == PGAS_OK &&
           pgas_allreduce(child, &one, &sum, 1, PGAS_I32, PGAS_ADD) == PGAS_OK && sum == n;
    good = good && pgas_team_destroy(child) == PGAS_OK;
    spmd_ok(good, "a team split from a team outlives it");
}

static void from_communicators(void)
{
    MPI_Comm comm, none = MPI_COMM_NULL;
    pgas_team_t *team = NULL;
    int members[64], n = expect(parity, backwards, members);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm);
    bool good = pgas_team_from_comm(&comm, &team) == PGAS_OK;
    MPI_Comm_free(&comm);
    good = good && consists_of(team, members, n) && pgas_team_destroy(team) == PGAS_OK;
    spmd_ok(good, "a communicator becomes a team, and can be freed");
    spmd_ok(pgas_team_from_comm(NULL, &team) == PGAS_ERR_INVALID &&
                pgas_team_from_comm(&none, &team) == PGAS_ERR_INVALID,
            "NULL and MPI_COMM_NULL do not");
}

/* Several teams in use at once must not see each other's data. */
static void many_at_once(uint64_t seed)
{
    enum { N = 12 };
    pgas_team_t *teams[N];
    bool good = true;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < N; i++)
        good = pgas_team_split(NULL, (rank + i) % (1 + i % 3), rank * (i % 2 ? 1 : -1),
                               &teams[i]) == PGAS_OK &&
               good;
    for (int i = 0; good && i < 300; i++) {
        int which = (int)pgasi_rng_below(&rng, N);
        int64_t x = rank * 1000 + i, least = -1, want = INT64_MAX;
        good = pgas_allreduce(teams[which], &x, &least, 1, PGAS_I64, PGAS_MIN) == PGAS_OK;
        for (int m = 0; m < pgas_team_size(teams[which]); m++) {
            int64_t theirs = pgas_team_to_global(teams[which], m) * 1000 + i;
            want = theirs < want ? theirs : want;
        }
        good = good && least == want;
    }
    for (int i = 0; good && i < N; i++)
        good = pgas_team_destroy(teams[(i + 5) % N]) == PGAS_OK;
    spmd_ok(good, "%d teams in turn, ended in another order", N);
}

static void used_after_destroy(void)
{
    pgas_team_t *team;
    bool good = pgas_team_split(NULL, 0, 0, &team) == PGAS_OK && pgas_team_destroy(team) == PGAS_OK;
    spmd_ok(good && pgas_team_destroy(team) == PGAS_ERR_INVALID,
            "a team that is destroyed twice is refused");
}

/* The last rank acts as if it were dead: the watch of its node's ranks reports it, and it does not
 * enter their barrier at first. */
static void dead_members(void)
{
    pgas_team_t *node = pgas_team_node();
    int dead = size - 1, dead_node = pgasi_boot.node_of[dead];
    bool alone = pgas_team_size(node) == 1, good = true;
    if (rank != dead)
        pgasi_boot_peer_died(dead);
    spmd_barrier();
    if (rank != dead)
        good = pgas_barrier(node) == (pgasi_boot.node == dead_node ? PGAS_ERR_PEER : PGAS_OK);
    spmd_ok(good,
            "a dead member ends the barrier of its team with a status%s; other teams continue",
            alone ? " (here it is alone)" : "");
    if (rank == dead) {
        pgasi_boot_peer_died(dead);
        good = pgas_barrier(node) == PGAS_OK; /* the others' steps are there already */
    }
    spmd_ok(good, "arrivals before the death count");
}

static void forgotten(void)
{
    pgas_team_t *team;
    char text[1024];
    int lines = 0, file = memfd_create("log", MFD_CLOEXEC), before = pgasi_log_set_fd(file);
    bool good = pgasi_boot_start(NULL, NULL) == PGAS_OK;
    for (int i = 0; good && i < 2; i++)
        good = pgas_team_split(NULL, rank % 2, -rank, &team) == PGAS_OK;
    bool first = good && pgas_team_rank(team) == 0;
    pgasi_boot_stop();
    pgasi_log_set_fd(before);
    ssize_t n = pread(file, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    close(file);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    spmd_ok(good && lines == (first ? 2 : 0) &&
                (lines == 0 || strstr(text, "pgas_team_destroy") != NULL),
            "teams that were forgotten are freed, with a warning of their first members");
}

static void outside_the_library(void)
{
    pgas_team_t *team;
    int32_t x = 0;
    MPI_Comm world = MPI_COMM_WORLD;
    spmd_ok(pgas_team_rank(NULL) == -1 && pgas_team_size(NULL) == 0 &&
                pgas_team_to_global(NULL, 0) == -1 && pgas_team_from_global(NULL, 0) == -1 &&
                !pgas_team_node(),
            "without the library there are no teams");
    spmd_ok(pgas_team_split(NULL, 0, 0, &team) == PGAS_ERR_NOT_INIT &&
                pgas_team_from_comm(&world, &team) == PGAS_ERR_NOT_INIT &&
                pgas_barrier(NULL) == PGAS_ERR_NOT_INIT &&
                pgas_broadcast(NULL, &x, 4, 0) == PGAS_ERR_NOT_INIT &&
                pgas_allreduce(NULL, &x, &x, 1, PGAS_I32, PGAS_ADD) == PGAS_ERR_NOT_INIT,
            "and no collectives");
}

/* The oracle is given wrong members. */
static void checker_can_fail(void)
{
    int members[64];
    for (int r = 0; r < size; r++)
        members[r] = (r + 1) % size;
    spmd_ok(size == 1 || !consists_of(NULL, members, size), "wrong numbers are seen");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(2 + 3 + 6 + 1 + 2 + 1 + 2 + 1 + 1 + 1 + 2 + 1);
    uint64_t seed = spmd_seed(0);
    rank = spmd_rank();
    size = spmd_size();
    outside_the_library();
    if (pgasi_boot_start(NULL, NULL) != PGAS_OK)
        return 99;
    fixed_teams();
    splits();
    no_color();
    bad_colors();
    children_outlive_parents();
    from_communicators();
    many_at_once(seed);
    used_after_destroy();
    checker_can_fail();
    pgasi_boot_stop();
    forgotten();
    if (pgasi_boot_start(NULL, NULL) != PGAS_OK)
        return 99;
    dead_members(); /* after it no start with all ranks is possible */
    pgasi_boot_stop();
    return spmd_end();
}
