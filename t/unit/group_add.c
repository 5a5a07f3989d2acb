/* what: Replicas are added to chains while clients write: the new one has all that was acknowledged
 *       before, and executes each later operation once and in order. No operation of another client
 *       fails. If the new replica dies meanwhile, the group continues without it; if the one that
 *       it copies dies, or the client that adds it vanishes, the others continue too. Replicas of
 *       another group, of another size, and members are refused.
 * log: is dead or cannot be reached|did not come to rest|took too long|another group
 * log: has a region of
 * source: seeded model test; all operations are for all replicas, so that all regions are equal */
#include <pthread.h>
#include <sched.h>
#include "group/client.h"
#include "pgas/verbs_snic.h"
#include "t/unit/group_bare.h"
#include "t/unit/group_model.h"

#define PART    512u
#define REGION  (4u << 20)
#define WINDOW  BATCH_MAX
#define CLIENTS 2
#define MEMBERS 5
#define LIMIT   INT64_C(20000000)
#define CHAIN   PGAS_GROUP_CHAIN
#define VERBS   PGAS_GROUP_VERBS
#define CALLER  PGAS_VERBS_ENGINE_CALLER
#define THREAD  PGAS_VERBS_ENGINE_THREAD

typedef enum { NOBODY, NEW, SOURCE } victim_t;

typedef struct {
    const char *name;
    int n_replicas, n_adds;
    victim_t victim; /* dies during the add */
    pgas_group_way_t way;
    pgas_verbs_engine_t engine;
    uint32_t adversary;
} case_t;

typedef struct {
    const struct world *world;
    int number;
    model_t m;
    pgas_group_t *group;
    int n_wrong, n_failed, n_batches;
    pthread_t thread;
} client_t;

typedef struct world {
    const case_t *c;
    replicas_t replicas; /* as they were at first */
    client_t clients[CLIENTS];
    pgas_replica_t *added[MEMBERS];
    unsigned char *regions[MEMBERS];
    char names[MEMBERS][64];
    bool is_over;
    int go; /* the add has begun */
    uint64_t spins;
} world_t;

static pgas_replica_t *start_one(size_t region_bytes, char name[64], unsigned char **region_p)
{
    pgas_replica_opts_t opts = PGAS_REPLICA_OPTS_INIT;
    pgas_replica_info_t info = { .size = sizeof info };
    pgas_replica_t *replica = NULL;
    opts.listen = "127.0.0.1:0";
    opts.region_bytes = region_bytes;
    must(pgas_replica_create(&opts, &replica), "a replica");
    must(pgas_replica_info(replica, &info), "info");
    memcpy(name, info.address, sizeof info.address);
    *region_p = info.region;
    return replica;
}

/* ---- clients that write ---- */

static void make_batch(model_t *m, int n)
{
    for (int k = 0; k < n; k++) {
        m->ops[k] = model_choose(m, k);
        if (m->ops[k].kind == PGAS_GROUP_CAS)
            m->ops[k].u.cas.execute_map = UINT64_MAX;
        model_apply(m, &m->ops[k], k);
    }
}

/* @return wrong old words; those of the first replica are the same at all of them */
static int compare_old(const model_t *m, int n)
{
    int n_wrong = 0;
    for (int k = 0; k < n; k++)
        if (m->ops[k].kind == PGAS_GROUP_CAS)
            n_wrong += m->old[k][0] != m->want[k][0];
    return n_wrong;
}

static pgas_status_t reform(client_t *client)
{
    client->n_failed++;
    return pgas_group_reform(client->group, LIMIT);
}

static int run_batch(client_t *client, int n)
{
    model_t *m = &client->m;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_status_t status;
    make_batch(m, n);
    while ((status = pgas_group_submit(client->group, m->ops, (size_t)n, &sync)) == PGAS_ERR_PEER)
        if (reform(client) != PGAS_OK)
            return 1;
    model_scribble(m);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&sync, LIMIT);
    if (status == PGAS_ERR_PEER)
        status = reform(client);
    if (status != PGAS_OK)
        diag("client %d: %s", client->number, pgas_status_name(status));
    return status == PGAS_OK ? compare_old(m, n) : 1;
}

static void *run_client(void *arg)
{
    client_t *client = arg;
    bool over = false;
    while (!over && client->n_wrong == 0) {
        over = __atomic_load_n(&client->world->is_over, __ATOMIC_ACQUIRE);
        int n = 1 + (int)pgasi_rng_below(&client->m.rng, BATCH_MAX);
        __atomic_fetch_add(&client->n_wrong, run_batch(client, n), __ATOMIC_RELAXED);
        __atomic_fetch_add(&client->n_batches, 1, __ATOMIC_RELEASE);
    }
    if (pgas_group_reform(client->group, LIMIT) != PGAS_OK)
        client->n_wrong++;
    return NULL;
}

static void await_batches(const client_t *client, int n)
{
    int end = __atomic_load_n(&client->n_batches, __ATOMIC_ACQUIRE) + n;
    while (__atomic_load_n(&client->n_batches, __ATOMIC_ACQUIRE) < end &&
           __atomic_load_n(&client->n_wrong, __ATOMIC_RELAXED) == 0)
        sched_yield();
}

/* ---- adding ---- */

static void *kill_one(void *arg)
{
    world_t *x = arg;
    while (__atomic_load_n(&x->go, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    for (volatile uint64_t i = 0; i < x->spins; i++)
        ;
    pgas_replica_t **victim =
        x->c->victim == NEW ? &x->added[0] : &x->replicas.replicas[x->c->n_replicas - 1];
    must(pgas_replica_destroy(*victim), "the end of a replica");
    *victim = NULL;
    return NULL;
}

/* A third client adds them. @return errors */
static int add_all(world_t *x)
{
    int n_wrong = 0;
    pgas_group_t *group = join_group(x->replicas.address, WINDOW, 0, x->c->way);
    pthread_t killer;
    if (x->c->victim != NOBODY && pthread_create(&killer, NULL, kill_one, x) != 0)
        bail("a thread");
    for (int i = 0; i < x->c->n_adds; i++) {
        x->added[i] = start_one(REGION, x->names[i], &x->regions[i]);
        await_batches(&x->clients[i % CLIENTS], 2);
        __atomic_store_n(&x->go, 1, __ATOMIC_RELEASE);
        pgas_status_t status = pgas_group_add(group, x->names[i], LIMIT);
        if (status != PGAS_OK && x->c->victim == NOBODY) {
            diag("add: %s", pgas_status_name(status));
            n_wrong++;
        }
        if (status == PGAS_OK)
            n_wrong += pgas_group_write(group, REGION - 8, "by three", 8) != PGAS_OK &&
                       x->c->victim == NOBODY;
    }
    if (x->c->victim != NOBODY)
        pthread_join(killer, NULL);
    must(pgas_group_destroy(group), "leave");
    return n_wrong;
}

/* ---- cases ---- */

static bool is_member(const client_t *client, const char *name)
{
    pgas_group_info_t info = { .size = sizeof info };
    must(pgas_group_info(client->group, &info), "info");
    return strstr(info.members, name) != NULL;
}

static int compare_region(const world_t *x, const unsigned char *region)
{
    int n_wrong = 0;
    for (int i = 0; i < CLIENTS; i++)
        n_wrong += memcmp(region + i * PART, x->clients[i].m.parts[0], PART) != 0;
    return n_wrong;
}

/* @param n_new_p  new members */
static int compare_all(const world_t *x, int *n_new_p)
{
    int n_wrong = 0;
    *n_new_p = 0;
    for (int i = 0; i < x->c->n_replicas; i++)
        if (x->replicas.replicas[i])
            n_wrong += compare_region(x, x->replicas.regions[i]);
    for (int i = 0; i < x->c->n_adds; i++) {
        if (!x->added[i] || !is_member(&x->clients[0], x->names[i]))
            continue;
        ++*n_new_p;
        n_wrong += compare_region(x, x->regions[i]);
        n_wrong += memcmp(x->regions[i], x->replicas.regions[0], REGION) != 0;
    }
    return n_wrong;
}

static void test_case(const case_t *c, uint64_t seed)
{
    static world_t x;
    int n_wrong, n_failed = 0, n_batches = 0, n_new;
    memset(&x, 0, sizeof x);
    x.c = c;
    x.spins = (seed * 7919) % 8 * 300000;
    use_software_nic(c->engine, NULL, c->adversary, seed);
    start_replicas(&x.replicas, c->n_replicas, REGION);
    memset(x.replicas.regions[c->n_replicas - 1] + REGION / 2, 7, 100);
    for (int i = 0; i + 1 < c->n_replicas; i++)
        memset(x.replicas.regions[i] + REGION / 2, 7, 100);
    for (int i = 0; i < CLIENTS; i++) {
        client_t *client = &x.clients[i];
        client->world = &x;
        client->number = i;
        client->group = join_group(x.replicas.address, WINDOW, 0, c->way);
        model_init(&client->m, &x.replicas, (uint64_t)i * PART, PART, 100, seed * 2 + (uint64_t)i);
        if (pthread_create(&client->thread, NULL, run_client, client) != 0)
            bail("a thread");
    }
    n_wrong = add_all(&x);
    await_batches(&x.clients[0], 2);
    __atomic_store_n(&x.is_over, true, __ATOMIC_RELEASE);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(x.clients[i].thread, NULL);
        n_wrong += x.clients[i].n_wrong;
        n_failed += x.clients[i].n_failed;
        n_batches += x.clients[i].n_batches;
    }
    n_wrong += compare_all(&x, &n_new);
    is_int(n_wrong, 0, "%s (%d batches, %d failures, %d new)", c->name, n_batches, n_failed, n_new);
    if (c->victim == NOBODY)
        ok(n_failed == 0 && n_new == c->n_adds, "no operation fails, and all were added");
    else
        ok(c->victim == SOURCE || n_failed == 0 || n_new == 1, "the others continue");
    for (int i = 0; i < CLIENTS; i++) {
        must(pgas_group_destroy(x.clients[i].group), "leave");
        model_fini(&x.clients[i].m);
    }
    for (int i = 0; i < c->n_adds; i++)
        must(pgas_replica_destroy(x.added[i]), "end a replica");
    stop_replicas(&x.replicas);
}

static const case_t cases[] = {
    { "one is added", 2, 1, NOBODY, CHAIN, THREAD, 0 },
    { "one is added to one", 1, 1, NOBODY, CHAIN, CALLER, 0 },
    { "one is added, way verbs", 2, 1, NOBODY, VERBS, THREAD, 0 },
    { "one is added, all adversaries", 2, 1, NOBODY, CHAIN, THREAD, PGAS_VERBS_SNIC_ALL },
    { "one after the other", 1, 4, NOBODY, CHAIN, THREAD, 0 },
    { "the new one dies", 2, 1, NEW, CHAIN, THREAD, 0 },
    { "the new one dies, other times", 2, 1, NEW, CHAIN, THREAD, 0 },
    { "the new one dies, way verbs", 2, 1, NEW, VERBS, CALLER, 0 },
    { "the source dies", 2, 1, SOURCE, CHAIN, THREAD, 0 },
    { "the source dies, other times", 3, 1, SOURCE, CHAIN, THREAD, 0 },
    { "the source dies, way verbs", 3, 1, SOURCE, VERBS, THREAD, 0 },
};

/* ---- others ---- */

/* A client freezes the group, and vanishes. */
static void test_vanish(void)
{
    const case_t c = { .engine = THREAD };
    bare_link_t links[2];
    replicas_t r;
    use_software_nic(c.engine, NULL, c.adversary, 1);
    start_replicas(&r, 2, 4096);
    pgas_group_t *group = join_group(r.address, 8, 0, CHAIN);
    pgas_group_info_t info = { .size = sizeof info };
    must(pgas_group_write(group, 0, "before", 6), "write");
    for (int i = 0; i < 2; i++) {
        pgas_replica_info_t replica = { .size = sizeof replica };
        must(pgas_replica_info(r.replicas[i], &replica), "info");
        bare_dial(&links[i], replica.address);
        must(bare_hello(&links[i], "", 99), "HELLO");
    }
    must(bare_members(&links[0], links, 2, 2, PGASI_GROUP_FREEZE), "the first one freezes");
    pgas_sync_t sync = PGAS_SYNC_INIT;
    const pgas_group_op_t op = PGAS_GWRITE(8, "after", 5);
    must(pgas_group_submit(group, &op, 1, &sync), "submit");
    ok(pgas_sync_wait(&sync, 20000) == PGAS_ERR_TIMEOUT, "a frozen group waits");
    must(bare_members(&links[1], links, 2, 2, PGASI_GROUP_FREEZE), "the second one freezes");
    bare_hang_up(&links[0]);
    bare_hang_up(&links[1]);
    ok(pgas_sync_wait(&sync, LIMIT) == PGAS_OK && memcmp(r.regions[1] + 8, "after", 5) == 0,
       "the client that froze it vanishes: it continues");
    must(pgas_group_info(group, &info), "info");
    ok(info.epoch == 3 && info.n_replicas == 2, "with the same members");
    must(pgas_group_destroy(group), "leave");
    stop_replicas(&r);
}

/* The program sizes its arrays by what it knows. */
static void test_room(void)
{
    const case_t c = { .engine = THREAD };
    pgas_group_info_t info = { .size = sizeof info };
    uint64_t old[3] = { 7, 7, 7 };
    unsigned char *region;
    replicas_t r;
    char name[64];
    use_software_nic(c.engine, NULL, c.adversary, 1);
    start_replicas(&r, 1, 4096);
    pgas_group_t *one = join_group(r.address, 8, 0, CHAIN),
                 *two = join_group(r.address, 8, 0, CHAIN);
    pgas_replica_t *added = start_one(4096, name, &region);
    must(pgas_group_add(two, name, LIMIT), "add");
    must(pgas_group_write(one, 0, "x", 1), "a chain of two");
    must(pgas_group_cas(one, 8, 0, 1, UINT64_MAX, old), "cas");
    ok(old[0] == 0 && old[1] == 7 && region[8] == 1,
       "a client that knows one replica gets one word");
    must(pgas_group_info(one, &info), "info");
    must(pgas_group_cas(one, 8, 1, 2, UINT64_MAX, old), "cas");
    ok(info.n_replicas == 2 && old[0] == 1 && old[1] == 1 && old[2] == 7,
       "and two after pgas_group_info");
    must(pgas_group_destroy(one), "leave");
    must(pgas_group_destroy(two), "leave");
    must(pgas_replica_destroy(added), "end a replica");
    stop_replicas(&r);
}

static void test_refusals(void)
{
    const case_t c = { .engine = THREAD };
    replicas_t r, other;
    char name[64];
    unsigned char *region;
    use_software_nic(c.engine, NULL, c.adversary, 1);
    start_replicas(&r, 2, 8192);
    start_replicas(&other, 1, 8192);
    pgas_group_t *group = join_group(r.address, 8, 0, CHAIN);
    ok(pgas_group_add(group, r.address, LIMIT) == PGAS_ERR_EXISTS, "a member cannot be added");
    pgas_group_t *second = join_group(other.address, 8, 0, CHAIN);
    ok(pgas_group_add(group, other.address, LIMIT) == PGAS_ERR_EXISTS, "a member of another group");
    must(pgas_group_destroy(second), "leave");
    pgas_replica_t *small = start_one(4096, name, &region);
    ok(pgas_group_add(group, name, LIMIT) == PGAS_ERR_MISMATCH, "a region of another size");
    must(pgas_replica_destroy(small), "end a replica");
    ok(pgas_group_add(group, name, 50000) == PGAS_ERR_TIMEOUT, "nobody listens");
    ok(pgas_group_add(group, "nonsense", LIMIT) == PGAS_ERR_INVALID &&
           pgas_group_add(group, NULL, LIMIT) == PGAS_ERR_INVALID &&
           pgas_group_add(NULL, name, LIMIT) == PGAS_ERR_INVALID,
       "no address, no group");
    ok(pgas_group_write(group, 0, "goes on", 7) == PGAS_OK, "the group continues");
    must(pgas_group_destroy(group), "leave");
    stop_replicas(&other);
    stop_replicas(&r);
}

int main(void)
{
    plan(2 * (int)PGASI_ARRAY_LENGTH(cases) + 11);
    uint64_t seed = tap_seed(17);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++)
        test_case(&cases[i], seed + i);
    test_vanish();
    test_room();
    test_refusals();
    return done();
}
