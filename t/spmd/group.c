/* Groups of ranks.
 *   what:   pgas_group_create forms a group of any ranks, by any way. Operations of all clients
 *           have on each replica the effects that a model says, and old words are right. A counter
 *           that all clients increment under a lock is exact on all replicas. Groups do not disturb
 *           each other. Wrong options are refused on all ranks with one status.
 *   np:     1 2 3 4 5
 *   nodes:  0 0 1 0 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_CALL_MAX=64
 *   log:    pgas_group_create: the team's ranks 0 and
 *   source: pgas/group.h; a seeded model test
 */
#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/checks.h"
#include "base/rng.h"
#include "group/device.h"
#include "pgas/group.h"
#include "t/spmd/job.h"

#define PART      ((size_t)16 << 10) /* of the region, for each client */
#define RANKS_MAX 5
#define REGION    (RANKS_MAX * PART + 4096)
#define N_OPS     400
#define BATCH_MAX 12
#define WORDS     ((size_t)RANKS_MAX * PART) /* of the lock and the counter */
#define N_LOCKED  20

static const char *const names[] = { "auto", "chain", "verbs", "calls" };
static uint64_t seed;

/* The replicas' bytes in one client's part. */
typedef struct {
    unsigned char bytes[RANKS_MAX][PART];
    int n; /* replicas */
    pgasi_rng_t rng;
} model_t;

static uint64_t below(model_t *m, uint64_t n)
{
    return pgasi_rng_below(&m->rng, n);
}

/* ---- operations and their effects ---- */

typedef struct {
    pgas_group_op_t ops[BATCH_MAX];
    unsigned char data[BATCH_MAX][3000];
    uint64_t old[BATCH_MAX][RANKS_MAX], want[BATCH_MAX][RANKS_MAX];
    size_t n;
} batch_t;

static void add_write(model_t *m, batch_t *b, size_t base)
{
    size_t bytes = 1 + below(m, sizeof b->data[0]), at = below(m, PART - bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        b->data[b->n][i] = (unsigned char)below(m, 256);
    for (int r = 0; r < m->n; r++)
        memcpy(m->bytes[r] + at, b->data[b->n], bytes);
    b->ops[b->n] = (pgas_group_op_t)PGAS_GWRITE(base + at, b->data[b->n], bytes);
    b->n++;
}

static void add_memcpy(model_t *m, batch_t *b, size_t base)
{
    size_t bytes = 1 + below(m, PART / 2), from = below(m, PART / 2 - bytes + 1),
           to = PART / 2 + below(m, PART / 2 - bytes + 1);
    if (below(m, 2)) {
        size_t other = from;
        from = to;
        to = other;
    }
    for (int r = 0; r < m->n; r++)
        memcpy(m->bytes[r] + to, m->bytes[r] + from, bytes);
    b->ops[b->n++] = (pgas_group_op_t)PGAS_GMEMCPY(base + to, base + from, bytes);
}

static void add_cas(model_t *m, batch_t *b, size_t base)
{
    size_t at = below(m, PART / 8) * 8;
    uint64_t map = 1 + below(m, (UINT64_C(1) << m->n) - 1), expected, desired = below(m, 1000),
             word;
    memcpy(&expected, m->bytes[below(m, (uint64_t)m->n)] + at, sizeof expected);
    for (int r = 0; r < m->n; r++) {
        memcpy(&word, m->bytes[r] + at, sizeof word);
        b->want[b->n][r] = word;
        if ((map >> r & 1) && word == expected)
            memcpy(m->bytes[r] + at, &desired, sizeof desired);
    }
    b->ops[b->n] = (pgas_group_op_t)PGAS_GCAS(base + at, expected, desired, map, b->old[b->n]);
    b->n++;
}

static void add_flush(model_t *m, batch_t *b, size_t base)
{
    size_t bytes = below(m, 5000), at = below(m, PART - bytes + 1);
    b->ops[b->n++] = (pgas_group_op_t)PGAS_GFLUSH(base + at, bytes);
}

/* The seed of a client's operations decides everything, so each rank can know all effects. */
static void fill(model_t *m, batch_t *b, size_t base)
{
    static void (*const add[])(model_t *, batch_t *, size_t) = { add_write, add_memcpy, add_cas,
                                                                 add_cas, add_flush };
    size_t n = 1 + below(m, BATCH_MAX);
    memset(b->want, 0, sizeof b->want);
    b->n = 0;
    while (b->n < n)
        add[below(m, PGASI_ARRAY_LENGTH(add))](m, b, base);
}

static model_t *model_of(int client, int n_replicas, uint64_t number)
{
    model_t *m = calloc(1, sizeof *m);
    m->n = n_replicas;
    pgasi_rng_seed(&m->rng, seed + number * RANKS_MAX + (uint64_t)client);
    return m;
}

static pgas_status_t submit_all(pgas_group_t *g, const batch_t *b, pgas_sync_t *sync)
{
    pgas_status_t status;
    while ((status = pgas_group_submit(g, b->ops, b->n, sync)) == PGAS_ERR_AGAIN)
        pgas_progress();
    return status;
}

/* The client of this number runs its operations. */
static bool run_client(pgas_group_t *g, int client, int n_replicas, uint64_t number)
{
    model_t *m = model_of(client, n_replicas, number);
    batch_t *b = malloc(sizeof *b);
    bool good = true;
    for (int i = 0; i < N_OPS && good; i += (int)b->n) {
        pgas_sync_t sync = PGAS_SYNC_INIT;
        fill(m, b, (size_t)client * PART);
        good = submit_all(g, b, &sync) == PGAS_OK && pgas_sync_wait(&sync, -1) == PGAS_OK;
        for (size_t k = 0; k < b->n && good; k++)
            for (int r = 0; r < n_replicas && b->ops[k].kind == PGAS_GROUP_CAS; r++)
                good = good && b->old[k][r] == b->want[k][r];
    }
    free(b);
    free(m);
    return good;
}

/* Whether a replica's region has the effects of the clients' operations. */
static bool is_right(const unsigned char *region, int place, int n_replicas, int n_clients,
                     uint64_t number)
{
    bool good = true;
    batch_t *b = malloc(sizeof *b);
    for (int c = 0; c < n_clients && good; c++) {
        model_t *m = model_of(c, n_replicas, number);
        for (int i = 0; i < N_OPS; i += (int)b->n)
            fill(m, b, (size_t)c * PART);
        good = memcmp(region + (size_t)c * PART, m->bytes[place], PART) == 0;
        free(m);
    }
    free(b);
    return good;
}

/* ---- groups ---- */

typedef struct {
    pgas_group_t *group;
    pgas_group_opts_t opts;
    int n_replicas, n_clients, place; /* -1: no member */
    uint64_t number;
} made_t;

static int default_place(void)
{
    return n_ranks > 1 ? me - 1 : 0;
}

static bool make(made_t *made, pgas_group_opts_t opts)
{
    static uint64_t n_made;
    *made = (made_t){ .opts = opts, .number = ++n_made };
    made->n_clients = opts.all_are_clients ? n_ranks : 1;
    made->n_replicas = opts.replicas ? opts.n_replicas : PGASI_MAX(n_ranks - 1, 1);
    made->place = opts.replicas ? -1 : default_place();
    for (int i = 0; i < opts.n_replicas; i++)
        if (opts.replicas[i] == me)
            made->place = i;
    pgas_status_t status = pgas_group_create(NULL, &opts, &made->group);
    if (status != PGAS_OK)
        spmd_diag("pgas_group_create: %s", pgas_status_text(status));
    return status == PGAS_OK;
}

static bool is_client(const made_t *made)
{
    return made->opts.all_are_clients || me == 0;
}

static unsigned char *region_of(const made_t *made)
{
    pgas_group_info_t info = { .size = sizeof info };
    return pgas_group_info(made->group, &info) == PGAS_OK ? info.region : NULL;
}

static bool holds_model(const made_t *made)
{
    return made->place < 0 ||
           is_right(region_of(made), made->place, made->n_replicas, made->n_clients, made->number);
}

static bool run(const made_t *made)
{
    bool good = true;
    if (is_client(made))
        good = run_client(made->group, me, made->n_replicas, made->number);
    pgas_barrier(NULL);
    return good;
}

static pgas_group_opts_t opts_of(pgas_group_way_t way)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    opts.way = way;
    opts.region_bytes = REGION;
    opts.window = 16;
    opts.piece = 1024;
    return opts;
}

/* ---- promises ---- */

static void models(pgas_group_way_t way, bool all, pgas_group_full_t full)
{
    pgas_group_opts_t opts = opts_of(way);
    made_t made;
    opts.all_are_clients = all;
    opts.full = full;
    opts.window = full == PGAS_GROUP_FULL_AGAIN ? 256 : 16;
    bool good = make(&made, opts);
    spmd_ok(good, "%s, %s: a group", names[way], all ? "all are clients" : "one client");
    bool olds = good && run(&made);
    spmd_ok(olds, "%s: old words are those of the model", names[way]);
    spmd_ok(good && holds_model(&made), "%s: each replica holds what the model does", names[way]);
    spmd_ok(good && pgas_group_destroy(made.group) == PGAS_OK, "%s: the group ends", names[way]);
}

/* Replicas in another order than ranks; the last rank may be no member. The caller's memory. */
static void chosen_members(pgas_group_way_t way)
{
    int n = PGASI_MAX(n_ranks - 1, 1), replicas[RANKS_MAX];
    pgas_group_opts_t opts = opts_of(way);
    pgas_group_info_t info = { .size = sizeof info };
    made_t made;
    for (int i = 0; i < n; i++)
        replicas[i] = n - 1 - i;
    opts.replicas = replicas;
    opts.n_replicas = n;
    opts.all_are_clients = true;
    opts.region_bytes = PGASI_ALIGN_UP(REGION, (size_t)4096);
    void *memory =
        mmap(NULL, opts.region_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    opts.region = memory;
    bool good = make(&made, opts) && run(&made) && holds_model(&made);
    spmd_ok(good, "%s: members in another order, which are clients, too", names[way]);
    good = good && pgas_group_info(made.group, &info) == PGAS_OK;
    spmd_ok(good && info.way == way && info.n_replicas == n && info.dead == -1 && info.epoch == 1 &&
                info.region_bytes == opts.region_bytes &&
                info.region == (made.place < 0 ? NULL : memory) && info.members[0],
            "%s: info describes it, with the caller's memory as the region", names[way]);
    spmd_ok(good && pgas_group_destroy(made.group) == PGAS_OK, "%s: the group ends", names[way]);
    munmap(memory, opts.region_bytes);
}

static bool swap_all(pgas_group_t *g, uint64_t expected, uint64_t desired, uint64_t map,
                     uint64_t *old)
{
    return pgas_group_cas(g, WORDS, expected, desired, map, old) == PGAS_OK;
}

/* Takes the lock on all replicas, or on none. */
static bool try_lock(const made_t *made, uint64_t owner, bool *good)
{
    uint64_t old[RANKS_MAX], mine = 0, all = (UINT64_C(1) << made->n_replicas) - 1;
    *good = *good && swap_all(made->group, 0, owner, all, old);
    for (int r = 0; r < made->n_replicas && *good; r++)
        mine |= (uint64_t)(old[r] == 0) << r;
    if (*good && mine && mine != all)
        *good = swap_all(made->group, owner, 0, mine, NULL);
    return *good && mine == all;
}

static bool increment(const made_t *made)
{
    const uint64_t never = ~UINT64_C(0);
    uint64_t old[RANKS_MAX], next;
    if (pgas_group_cas(made->group, WORDS + 8, never, never, never, old) != PGAS_OK)
        return false;
    for (int r = 1; r < made->n_replicas; r++)
        if (old[r] != old[0])
            return false;
    next = old[0] + 1;
    return pgas_group_write(made->group, WORDS + 8, &next, sizeof next) == PGAS_OK;
}

static void locks(pgas_group_way_t way)
{
    pgas_group_opts_t opts = opts_of(way);
    made_t made;
    pgasi_rng_t rng;
    uint64_t owner = (uint64_t)me + 1, words[2] = { 0, 0 };
    opts.all_are_clients = true;
    bool good = make(&made, opts);
    pgasi_rng_seed(&rng, seed + owner);
    for (int i = 0; i < N_LOCKED && good; i++) {
        while (!try_lock(&made, owner, &good) && good)
            for (uint64_t k = pgasi_rng_below(&rng, 2000); k > 0; k--)
                pgas_progress();
        good = good && increment(&made) && swap_all(made.group, owner, 0, ~UINT64_C(0), NULL);
    }
    pgas_barrier(NULL);
    if (good && made.place >= 0)
        memcpy(words, region_of(&made) + WORDS, sizeof words);
    spmd_ok(good && (made.place < 0 || (words[0] == 0 && words[1] == (uint64_t)n_ranks * N_LOCKED)),
            "%s: a counter under a lock is exact on all replicas", names[way]);
    spmd_ok(good && pgas_group_destroy(made.group) == PGAS_OK, "%s: the group ends", names[way]);
}

static void two_groups(pgas_group_way_t way, pgas_group_way_t other)
{
    pgas_group_opts_t opts = opts_of(way);
    made_t first, second;
    opts.all_are_clients = true;
    bool good = make(&first, opts);
    opts.way = other;
    opts.all_are_clients = false;
    opts.events = true;
    good = good && make(&second, opts) && run(&first) && run(&second);
    spmd_ok(good && holds_model(&first) && holds_model(&second), "groups %s and %s at a time",
            names[way], names[other]);
    spmd_ok(good && pgas_group_destroy(first.group) == PGAS_OK &&
                pgas_group_destroy(second.group) == PGAS_OK,
            "both end");
}

/* Each rank alone, all at a time. */
static void alone(pgas_group_way_t way)
{
    pgas_group_opts_t opts = opts_of(way);
    pgas_team_t *team = NULL;
    pgas_group_t *g = NULL;
    pgas_group_info_t info = { .size = sizeof info };
    uint64_t word = 77, old = 0;
    bool good = pgas_team_split(NULL, me, 0, &team) == PGAS_OK &&
                pgas_group_create(team, &opts, &g) == PGAS_OK &&
                pgas_group_write(g, 8, &word, sizeof word) == PGAS_OK &&
                pgas_group_cas(g, 8, 77, 78, 1, &old) == PGAS_OK &&
                pgas_group_flush(g, 8, 8) == PGAS_OK && pgas_group_info(g, &info) == PGAS_OK;
    spmd_ok(good && old == 77 && info.n_replicas == 1 && ((uint64_t *)info.region)[1] == 78,
            "%s: a team of one rank is client and replica", names[way]);
    spmd_ok(pgas_group_destroy(g) == PGAS_OK && pgas_team_destroy(team) == PGAS_OK, "and ends");
}

/* ---- threads ---- */

#define N_WRITES 300

typedef struct {
    pgas_group_t *group;
    size_t base;
    bool good, ended;
} writer_t;

/* Writes i + 1 to word i of its part. */
static void *write_words(void *arg)
{
    writer_t *w = arg;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    w->good = true;
    for (uint64_t i = 0; i < N_WRITES; i++) {
        uint64_t word = i + 1;
        pgas_group_op_t op = PGAS_GWRITE(w->base + i * sizeof word, &word, sizeof word);
        w->good = w->good && pgas_group_submit(w->group, &op, 1, &sync) == PGAS_OK;
    }
    w->good = w->good && pgas_sync_wait(&sync, -1) == PGAS_OK &&
              pgas_group_flush(w->group, w->base, sizeof(uint64_t)) == PGAS_OK;
    __atomic_store_n(&w->ended, true, __ATOMIC_RELEASE);
    return NULL;
}

static bool has_words(const unsigned char *part)
{
    uint64_t word;
    for (uint64_t i = 0; i < N_WRITES; i++) {
        memcpy(&word, part + i * sizeof word, sizeof word);
        if (word != i + 1)
            return false;
    }
    return true;
}

/* The second thread is not attached. Without service threads the first one serves the rank. */
static void threads(pgas_group_way_t way)
{
    made_t made;
    bool good = make(&made, opts_of(way));
    writer_t mine = { made.group, 0, true, false }, other = { made.group, PART, true, false };
    if (good && is_client(&made)) {
        pthread_t thread;
        pthread_create(&thread, NULL, write_words, &other);
        write_words(&mine);
        while (!__atomic_load_n(&other.ended, __ATOMIC_ACQUIRE))
            pgas_progress();
        pthread_join(thread, NULL);
    }
    pgas_barrier(NULL);
    const unsigned char *region = good ? region_of(&made) : NULL;
    spmd_ok(good && mine.good && other.good &&
                (made.place < 0 || (has_words(region) && has_words(region + PART))),
            "%s: two threads submit and wait, one of them is not attached", names[way]);
    spmd_ok(good && pgas_group_destroy(made.group) == PGAS_OK, "%s: the group ends", names[way]);
}

/* ---- what stays behind ---- */

static int n_descriptors(void)
{
    int n = 0;
    DIR *all = opendir("/proc/self/fd");
    while (all && readdir(all))
        n++;
    if (all)
        closedir(all);
    return n;
}

static void again(pgas_group_way_t way)
{
    made_t made;
    bool good = make(&made, opts_of(way)) && pgas_group_destroy(made.group) == PGAS_OK;
    int n = n_descriptors();
    for (int i = 0; i < 8 && good; i++)
        good = make(&made, opts_of(way)) && pgas_group_destroy(made.group) == PGAS_OK;
    spmd_ok(good && n_descriptors() <= n, "%s: groups that have ended leave no descriptors",
            names[way]);
}

/* ---- refusals ---- */

static bool refused(const pgas_group_opts_t *opts, pgas_status_t expected)
{
    pgas_group_t *g = NULL;
    pgas_status_t status = pgas_group_create(NULL, opts, &g);
    if (status != expected)
        spmd_diag("%s instead of %s", pgas_status_name(status), pgas_status_name(expected));
    return status == expected && !g;
}

static void bad_options(void)
{
    int twice[] = { 0, 0 }, beyond[] = { n_ranks };
    pgas_group_opts_t opts = opts_of(PGAS_GROUP_CALLS), bad = opts;
    bad.window = PGAS_GROUP_WINDOW_MAX + 1;
    spmd_ok(refused(&bad, PGAS_ERR_LIMIT), "too large a window");
    bad = opts;
    bad.piece = (256 << 10) + 1;
    spmd_ok(refused(&bad, PGAS_ERR_INVALID), "too large pieces");
    bad = opts;
    bad.way = (pgas_group_way_t)(PGAS_GROUP_CALLS + 1);
    spmd_ok(refused(&bad, PGAS_ERR_INVALID), "an unknown way");
    bad = opts;
    bad.size--;
    spmd_ok(refused(&bad, PGAS_ERR_INVALID), "another size");
    bad = opts;
    bad.replicas = twice;
    bad.n_replicas = 2;
    spmd_ok(refused(&bad, PGAS_ERR_INVALID), "a replica twice");
    bad.replicas = beyond;
    bad.n_replicas = 1;
    spmd_ok(refused(&bad, PGAS_ERR_INVALID), "a replica that is no rank");
    bad.n_replicas = 0;
    spmd_ok(refused(&bad, PGAS_ERR_INVALID), "a list without replicas");
    bad = opts;
    bad.region_bytes = 4096;
    bad.region = default_place() <= 0 ? (char *)&seed + 1 : NULL;
    spmd_ok(refused(&bad, PGAS_ERR_INVALID), "one region that is not whole pages");
    bad = opts;
    bad.region_bytes += me == n_ranks - 1 ? 4096 : 0;
    if (n_ranks > 1)
        spmd_ok(refused(&bad, PGAS_ERR_MISMATCH), "sizes that differ");
    else
        spmd_skip(1, "one rank");
    spmd_ok(pgas_group_create(NULL, &opts, NULL) == PGAS_ERR_INVALID &&
                pgas_group_destroy(NULL) == PGAS_OK,
            "NULL");
}

static void only_members(void)
{
    pgas_group_opts_t opts = opts_of(PGAS_GROUP_AUTO);
    pgas_group_op_t op = PGAS_GFLUSH(0, 8);
    made_t made;
    bool good = make(&made, opts);
    spmd_ok(good && (is_client(&made) ||
                     (pgas_group_submit(made.group, &op, 1, NULL) == PGAS_ERR_INVALID &&
                      pgas_group_flush(made.group, 0, 8) == PGAS_ERR_INVALID &&
                      pgas_group_dump(made.group, stderr, 0, 8) == PGAS_ERR_INVALID &&
                      region_of(&made) != NULL)),
            "a rank that is only a member cannot submit, but sees its region");
    pgas_group_info_t info = { .size = sizeof info }, first;
    good = good && pgas_group_info(made.group, &info) == PGAS_OK;
    first = info;
    pgas_broadcast(NULL, &first, sizeof first, 0);
    spmd_ok(good && first.way == info.way && first.n_replicas == info.n_replicas &&
                strcmp(first.members, info.members) == 0 && first.epoch == info.epoch,
            "and describes the group as the client does");
    spmd_ok(good && pgas_group_destroy(made.group) == PGAS_OK, "it ends");
}

/* Soft RoCE and some cards have none. */
static bool has_chains(void)
{
    pgas_group_opts_t opts = opts_of(PGAS_GROUP_AUTO);
    pgas_group_info_t info = { .size = sizeof info };
    made_t made;
    bool has = make(&made, opts) && pgas_group_info(made.group, &info) == PGAS_OK &&
               info.way == PGAS_GROUP_CHAIN;
    pgas_group_destroy(made.group);
    return has;
}

int main(int argc, char **argv)
{
    enum { OF_EACH_WAY = 4 + 4 + 4 + 3 + 2 + 2 + 2 + 2 + 1 };
    spmd_begin(&argc, &argv, MPI_THREAD_MULTIPLE);
    seed = spmd_seed(17);
    spmd_plan(3 * OF_EACH_WAY + 10 + 3 + 2);
    job_start(NULL);
    pgasi_group_slots_wanted = 1; /* entries are used again soon */
    pgas_group_way_t first = has_chains() ? PGAS_GROUP_CHAIN : PGAS_GROUP_VERBS;
    if (first != PGAS_GROUP_CHAIN)
        spmd_skip(OF_EACH_WAY, "the device has no chains");
    for (int w = (int)first; w <= PGAS_GROUP_CALLS; w++) {
        pgas_group_way_t way = (pgas_group_way_t)w;
        models(way, false, PGAS_GROUP_FULL_WAIT);
        models(way, true, PGAS_GROUP_FULL_WAIT);
        models(way, true, PGAS_GROUP_FULL_AGAIN);
        chosen_members(way);
        locks(way);
        two_groups(way, w == PGAS_GROUP_CALLS ? first : (pgas_group_way_t)(w + 1));
        alone(way);
        threads(way);
        again(way);
    }
    bad_options();
    only_members();
    return job_end();
}
