/* what: Groups between two sides, the way verbs: a chain whose replicas are on side 1, 0 and 1, so
 *       that each message goes from one side to the other, and a client on each side. Mixed batches
 *       leave on all replicas what a model says. The way is chosen by what the device has.
 * env: TAP_DEVICE=snic | TAP_DEVICE=
 * needs: no-sanitizers
 * log: does not have the way chain|has no WAIT and ENABLE
 * timeout: 300
 * source: pgas/group.h; seeded model test, all replicas are compared after every batch
 *
 * TAP_DEVICE names the device; without it the first active one of hardware is taken, or of the
 * kernel's soft RoCE as in the machines of t/vm/run --rxe. */
#include <stdlib.h>
#include "t/rxe/sides.h"
#include "t/unit/group_model.h"

#define N          3
#define PART       8192u
#define WRITE_MAX  4000u
#define WINDOW     16u
#define KEY        "soft RoCE"
#define OPERATIONS 600

/* The first replica is of side 1, the second one of side 0 .. */
static int owner_of(int i)
{
    return (i + 1) % 2;
}

/* ---- replicas ---- */

static const char *device;
static pgas_replica_t *replicas[N];
static char names[N][64]; /* where they listen */

static void start_replica(int i)
{
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    pgas_replica_info_t info = { .size = sizeof info };
    const char *address = getenv("VM_ADDRESS");
    char listen[64];
    snprintf(listen, sizeof listen, "%s:0", address && address[0] ? address : "127.0.0.1");
    opts.listen = listen;
    opts.next = i + 1 < N ? names[i + 1] : NULL;
    opts.region_bytes = 2 * PART;
    opts.key = KEY;
    opts.device = device;
    must(pgas_replica_create(&opts, &replicas[i]), "a replica");
    must(pgas_replica_info(replicas[i], &info), "its description");
    memcpy(names[i], info.address, sizeof names[i]);
}

static void start_chain(void)
{
    for (int i = N - 1; i >= 0; i--) {
        char theirs[64];
        if (owner_of(i) == side)
            start_replica(i);
        swap(names[i], theirs, sizeof theirs);
        if (owner_of(i) != side)
            memcpy(names[i], theirs, sizeof theirs);
    }
}

/* ---- clients ---- */

static pgas_status_t join(pgas_group_way_t way, bool events, pgas_group_t **group_p)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    opts.way = way;
    opts.window = WINDOW;
    opts.events = events;
    opts.key = KEY;
    opts.device = device;
    return pgas_group_join(names[0], &opts, group_p);
}

/* Copies of all regions, as far as this side writes them. */
static bool fetch(pgas_group_t *group, const replicas_t *copies)
{
    uint64_t begin = (uint64_t)side * PART;
    bool good = true;
    for (int i = 0; i < N; i++)
        good =
            good && pgas_group_read(group, i, begin, copies->regions[i] + begin, PART) == PGAS_OK;
    return good;
}

/* Both sides are clients at the same time. */
static bool run_client(pgas_group_t *group, int n_operations, uint64_t seed)
{
    static unsigned char regions[N][2 * PART];
    replicas_t copies = { .n = N, .region_bytes = 2 * PART };
    model_t m;
    bool good = true;
    for (int i = 0; i < N; i++)
        copies.regions[i] = regions[i];
    good = HOLDS(fetch(group, &copies));
    model_init(&m, &copies, (uint64_t)side * PART, PART, WRITE_MAX, seed);
    for (int n_done = 0, n; n_done < n_operations && good; n_done += n) {
        n = 1 + (int)pgasi_rng_below(&m.rng, BATCH_MAX);
        good = HOLDS(model_submit(&m, group, n) == PGAS_OK) && HOLDS(fetch(group, &copies)) &&
               HOLDS(model_compare(&m, n) == 0);
    }
    model_fini(&m);
    return good;
}

static void test_batches(bool events, uint64_t seed, const char *text)
{
    pgas_group_t *group = NULL;
    must(join(PGAS_GROUP_VERBS, events, &group), "join");
    both();
    promise(run_client(group, OPERATIONS, 2 * seed + (uint64_t)side), text);
    must(pgas_group_destroy(group), "leave");
    both();
}

/* Both increment a word on all replicas, one at a time: an increment that finds another value than
 * it expects on the first replica tries again. */
static void test_lock(void)
{
    const uint64_t at = 0;
    const int n_rounds = 20;
    pgas_group_t *group = NULL;
    uint64_t old[N], zero = 0;
    must(join(PGAS_GROUP_VERBS, false, &group), "join");
    if (side == 0)
        must(pgas_group_write(group, at, &zero, sizeof zero), "a word of zero");
    both();
    bool good = true;
    for (int i = 0; i < n_rounds && good; i++) {
        uint64_t expected = 0;
        for (bool done = false; good && !done; expected = old[0]) {
            good = pgas_group_cas(group, at, expected, expected + 1, 1, old) == PGAS_OK;
            done = old[0] == expected;
        }
    }
    both();
    good = good && pgas_group_read(group, 0, at, old, sizeof old[0]) == PGAS_OK &&
           HOLDS(old[0] == 2 * (uint64_t)n_rounds);
    promise(good, "compare and swap of two clients on one word");
    must(pgas_group_destroy(group), "leave");
    both();
}

/* The software NIC has chains, soft RoCE has none. */
static void test_choice(bool has_chains)
{
    pgas_group_t *group = NULL;
    pgas_group_info_t info = { .size = sizeof info };
    must(join(PGAS_GROUP_AUTO, false, &group), "join");
    must(pgas_group_info(group, &info), "its description");
    promise(HOLDS(info.way == (has_chains ? PGAS_GROUP_CHAIN : PGAS_GROUP_VERBS)) &&
                HOLDS(info.n_replicas == N),
            "the way follows from the device");
    must(pgas_group_destroy(group), "leave");
    both();
    group = NULL;
    pgas_status_t status = join(PGAS_GROUP_CHAIN, false, &group);
    promise(HOLDS(status == (has_chains ? PGAS_OK : PGAS_ERR_UNSUPPORTED)),
            "a chain only where the device has WAIT");
    must(pgas_group_destroy(group), "leave");
    both();
}

int main(void)
{
    pgas_verbs_dev_t *dev = NULL;
    pgas_verbs_info_t info = { .size = sizeof info };
    device = find_device();
    if (!device)
        skip_all("no RDMA device here; make check-rxe has one");
    uint64_t seed = tap_seed(17);
    sides_begin();
    if (side == 0)
        plan(5);
    must(pgasi_group_device_open(device, &dev), "the device");
    must(pgas_verbs_info(dev, &info), "its description");
    must(pgas_verbs_close(dev), "close it");
    start_chain();
    test_choice(info.chains);
    test_batches(false, seed, "mixed batches of two clients");
    test_batches(true, seed + 1, "the same, and they sleep while they wait");
    test_lock();
    for (int i = 0; i < N; i++)
        must(pgas_replica_destroy(replicas[i]), "end a replica");
    return sides_end();
}
