/* what: Replicas die in the middle of batches: each one of chains, also two at a time, and with two
 *       clients. Operations under way then end with PGAS_ERR_PEER. After pgas_group_reform
 *       each remaining replica has executed each operation once and in order, and the old words are
 *       right. When only the list of members changes, no operation fails. A client that joins
 *       removes dead members. Operations that are executed twice are found.
 * log: is dead or cannot be reached|did not come to rest
 * source: seeded model test, as group_chain.c */
#include <pthread.h>
#include <sched.h>
#include "group/client.h"
#include "pgas/verbs_snic.h"
#include "t/unit/group_bare.h"
#include "t/unit/group_model.h"

#define PART    512u /* small, so that operations often change the same bytes */
#define WINDOW  BATCH_MAX
#define CLIENTS 2
#define LIMIT   INT64_C(20000000)

typedef struct {
    const char *name;
    int n_replicas, n_clients, n_rounds;
    int victims[3]; /* -1: no more */
    int n_lists;    /* new lists of the same members */
    pgas_group_way_t way;
    pgas_verbs_engine_t engine;
    uint32_t adversary;
} case_t;

typedef struct world world_t;

typedef struct {
    world_t *world;
    int number;
    model_t m;
    replicas_t real; /* the members, in their present order */
    char names[REPLICAS_MAX][64];
    bool is_victim[REPLICAS_MAX]; /* its region may vanish */
    unsigned char saved[REPLICAS_MAX][PART];
    pgas_group_t *group;
    int n_wrong, n_failed, n_resent, n_replicas;
    pthread_t thread;
} client_t;

struct world {
    const case_t *c;
    replicas_t replicas;
    client_t clients[CLIENTS];
    uint64_t seed;
    int n_begun;      /* batches of the first client */
    bool has_changed; /* all that the disturber does has been done */
    bool has_failed;
    bool is_twice; /* planted: a batch that was sent again is submitted again, too */
};

/* ---- what disturbs ---- */

static void await_batch(world_t *x, int n, pgasi_rng_t *rng)
{
    uint64_t spins = pgasi_rng_below(rng, 20000);
    while (__atomic_load_n(&x->n_begun, __ATOMIC_ACQUIRE) < n &&
           !__atomic_load_n(&x->has_failed, __ATOMIC_RELAXED))
        sched_yield();
    for (volatile uint64_t i = 0; i < spins; i++)
        ;
}

static void kill_victims(world_t *x, pgasi_rng_t *rng)
{
    for (int i = 0; i < 3 && x->c->victims[i] >= 0; i++) {
        int victim = x->c->victims[i];
        await_batch(x, 3 * (i + 1), rng);
        must(pgas_replica_destroy(x->replicas.replicas[victim]), "the end of a replica");
        x->replicas.replicas[victim] = NULL;
    }
}

/* A client that sends the present list again, with the next epoch. */
static void send_lists(world_t *x, pgasi_rng_t *rng)
{
    bare_link_t links[BARE_MAX];
    int n = x->c->n_replicas;
    for (int i = 0; i < n; i++) {
        pgas_replica_info_t info = { .size = sizeof info };
        must(pgas_replica_info(x->replicas.replicas[i], &info), "info");
        bare_dial(&links[i], info.address);
        must(bare_hello(&links[i], "", 99), "HELLO");
    }
    for (int k = 0; k < x->c->n_lists; k++) {
        await_batch(x, k, rng);
        for (int i = 0; i < n; i++) /* others may be faster */
            bare_members(&links[i], links, (uint32_t)n, (uint64_t)k + 2, 0);
    }
    for (int i = 0; i < n; i++)
        bare_hang_up(&links[i]);
}

static void *disturb(void *arg)
{
    world_t *x = arg;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, x->seed);
    kill_victims(x, &rng);
    if (x->c->n_lists > 0)
        send_lists(x, &rng);
    __atomic_store_n(&x->has_changed, true, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- clients ---- */

/* The model before a batch. */
static void save(client_t *client)
{
    for (int i = 0; i < client->real.n; i++)
        memcpy(client->saved[i], client->m.parts[i], PART);
}

static void undo(client_t *client)
{
    for (int i = 0; i < client->real.n; i++)
        memcpy(client->m.parts[i], client->saved[i], PART);
}

/* Words of a cas: those of all members at its submission, or without some that were removed. */
static bool words_are_right(const client_t *client, int k, uint32_t gone)
{
    const uint64_t *old = client->m.old[k], *want = client->m.want[k];
    for (uint32_t without = 0; without <= gone; without++) {
        bool right = (without & ~gone) == 0;
        int at = 0;
        for (int i = 0; i < client->real.n && right; i++)
            if ((without >> i & 1) == 0)
                right = old[at++] == want[i];
        if (right)
            return true;
    }
    return false;
}

/* The members of the model that the group has no more. */
static uint32_t find_gone(const client_t *client)
{
    pgas_group_info_t info = { .size = sizeof info };
    uint32_t gone = 0;
    must(pgas_group_info(client->group, &info), "info");
    for (int i = 0; i < client->real.n; i++)
        gone |= (uint32_t)(strstr(info.members, client->names[i]) == NULL) << i;
    return gone;
}

/* The model follows the members: they are named by their places. */
static void forget(client_t *client, uint32_t gone)
{
    int n = 0;
    for (int i = 0; i < client->real.n; i++) {
        if (gone >> i & 1) {
            free(client->m.parts[i]);
            continue;
        }
        client->m.parts[n] = client->m.parts[i];
        client->is_victim[n] = client->is_victim[i];
        client->real.regions[n] = client->real.regions[i];
        memcpy(client->names[n], client->names[i], sizeof client->names[0]);
        n++;
    }
    client->real.n = n;
}

/* The regions of those that live, which have all that was submitted; and old words. */
static int compare(const client_t *client, int n, uint32_t gone)
{
    const model_t *m = &client->m;
    int n_wrong = 0;
    for (int i = 0; i < client->real.n; i++)
        if (!client->is_victim[i])
            n_wrong += memcmp(client->real.regions[i] + m->begin, m->parts[i], m->bytes) != 0;
    for (int k = 0; k < n; k++)
        if (m->ops[k].kind == PGAS_GROUP_CAS)
            n_wrong += !words_are_right(client, k, gone);
    return n_wrong;
}

static bool reform(client_t *client)
{
    client->n_failed++;
    pgas_status_t status = pgas_group_reform(client->group, LIMIT);
    if (status != PGAS_OK)
        diag("reform: %s", pgas_status_name(status));
    return status == PGAS_OK;
}

static pgas_status_t submit(client_t *client, int n, pgas_sync_t *sync)
{
    model_t *m = &client->m;
    model_batch(m, n);
    pgas_status_t status = pgas_group_submit(client->group, m->ops, (size_t)n, sync);
    if (status == PGAS_OK)
        model_scribble(m);
    return status;
}

/* @return errors */
static int run_batch(client_t *client, int n)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    if (client->number == 0)
        __atomic_fetch_add(&client->world->n_begun, 1, __ATOMIC_RELEASE);
    save(client);
    pgas_status_t status = submit(client, n, &sync);
    if (status == PGAS_ERR_PEER) { /* none of them: it found room at once, or not at all */
        undo(client);
        if (!reform(client))
            return 1;
        forget(client, find_gone(client));
        return 0;
    }
    if (status == PGAS_OK)
        status = pgas_sync_wait(&sync, LIMIT);
    if (status == PGAS_ERR_PEER)
        status = reform(client) ? PGAS_OK : PGAS_ERR_PEER;
    if (client->world->is_twice && client->n_failed > 0)
        must(pgas_group_submit(client->group, client->m.ops, (size_t)n, NULL), "submit again");
    if (status != PGAS_OK)
        diag("%s: %s", client->world->c->name, pgas_status_name(status));
    uint32_t gone = find_gone(client);
    int n_wrong = status == PGAS_OK ? compare(client, n, gone) : 1;
    forget(client, gone);
    return n_wrong;
}

static void *run_client(void *arg)
{
    client_t *client = arg;
    world_t *x = client->world;
    pgas_group_info_t info = { .size = sizeof info };
    for (int k = 0; client->n_wrong == 0; k++) {
        bool changed = __atomic_load_n(&x->has_changed, __ATOMIC_ACQUIRE);
        client->n_wrong += run_batch(client, 1 + (int)pgasi_rng_below(&client->m.rng, BATCH_MAX));
        if (changed && k >= x->c->n_rounds)
            break;
    }
    if (client->n_wrong > 0)
        __atomic_store_n(&x->has_failed, true, __ATOMIC_RELAXED);
    if (pgas_group_reform(client->group, LIMIT) != PGAS_OK)
        client->n_wrong++;
    must(pgas_group_info(client->group, &info), "info");
    client->n_resent = (int)info.n_resent;
    client->n_replicas = info.n_replicas;
    return NULL;
}

/* ---- cases ---- */

static void name_replica(const replicas_t *r, int i, char name[64])
{
    pgas_replica_info_t info = { .size = sizeof info };
    must(pgas_replica_info(r->replicas[i], &info), "info");
    memcpy(name, info.address, sizeof info.address);
}

static void run_case(world_t *x, const case_t *c, bool is_twice, uint64_t seed)
{
    pthread_t disturber;
    memset(x, 0, sizeof *x);
    x->is_twice = is_twice;
    x->c = c;
    x->seed = seed;
    use_software_nic(c->engine, NULL, c->adversary, seed);
    start_replicas(&x->replicas, c->n_replicas, CLIENTS * PART);
    for (int i = 0; i < c->n_clients; i++) {
        client_t *client = &x->clients[i];
        client->world = x;
        client->number = i;
        client->group = join_group(x->replicas.address, WINDOW, 0, c->way);
        client->real = x->replicas;
        for (int k = 0; k < c->n_replicas; k++)
            name_replica(&x->replicas, k, client->names[k]);
        for (int k = 0; k < 3 && c->victims[k] >= 0; k++)
            client->is_victim[c->victims[k]] = true;
        model_init(&client->m, &client->real, (uint64_t)i * PART, PART, 100,
                   seed * 2 + (uint64_t)i);
    }
    if (pthread_create(&disturber, NULL, disturb, x) != 0)
        bail("a thread");
    for (int i = 0; i < c->n_clients; i++)
        if (pthread_create(&x->clients[i].thread, NULL, run_client, &x->clients[i]) != 0)
            bail("a thread");
    for (int i = 0; i < c->n_clients; i++)
        pthread_join(x->clients[i].thread, NULL);
    pthread_join(disturber, NULL);
    for (int i = 0; i < c->n_clients; i++) {
        must(pgas_group_destroy(x->clients[i].group), "leave");
        model_fini(&x->clients[i].m);
    }
    stop_replicas(&x->replicas);
}

static void test_case(const case_t *c, uint64_t seed)
{
    static world_t x;
    int n_wrong = 0, n_failed = 0, n_left = c->n_replicas, n_resent = 0;
    run_case(&x, c, false, seed);
    for (int i = 0; i < 3; i++)
        n_left -= c->victims[i] >= 0;
    for (int i = 0; i < c->n_clients; i++) {
        n_wrong += x.clients[i].n_wrong + (x.clients[i].n_replicas != n_left);
        n_failed += x.clients[i].n_failed;
        n_resent += x.clients[i].n_resent;
    }
    is_int(n_wrong, 0, "%s (%d failures, %d pieces sent again)", c->name, n_failed, n_resent);
    bool right = c->victims[0] < 0 ? n_failed == 0 : n_failed > 0;
    ok(right, "%s", c->victims[0] < 0 ? "no operation fails" : "clients notice the death");
}

#define CALLER PGAS_VERBS_ENGINE_CALLER
#define THREAD PGAS_VERBS_ENGINE_THREAD
#define CHAIN  PGAS_GROUP_CHAIN
#define VERBS  PGAS_GROUP_VERBS
#define ALL    PGAS_VERBS_SNIC_ALL
#define NOBODY     \
    {              \
        -1, -1, -1 \
    }
#define ONE(i)    \
    {             \
        i, -1, -1 \
    }
#define MANY(i, k) \
    {              \
        i, k, -1   \
    }

static const case_t cases[] = {
    { "the head of 2", 2, 1, 10, ONE(0), 0, CHAIN, THREAD, 0 },
    { "the tail of 2", 2, 1, 10, ONE(1), 0, CHAIN, THREAD, 0 },
    { "the head of 3", 3, 1, 10, ONE(0), 0, CHAIN, CALLER, 0 },
    { "the middle of 3", 3, 1, 10, ONE(1), 0, CHAIN, THREAD, 0 },
    { "the tail of 3", 3, 1, 10, ONE(2), 0, CHAIN, CALLER, 0 },
    { "the middle of 3, all adversaries", 3, 1, 10, ONE(1), 0, CHAIN, THREAD, ALL },
    { "the head of 3, way verbs", 3, 1, 10, ONE(0), 0, VERBS, THREAD, 0 },
    { "the middle of 3, way verbs", 3, 1, 10, ONE(1), 0, VERBS, CALLER, 0 },
    { "the tail of 3, way verbs", 3, 1, 10, ONE(2), 0, VERBS, THREAD, 0 },
    { "the second of 4", 4, 1, 10, ONE(1), 0, CHAIN, THREAD, 0 },
    { "the fourth of 5", 5, 1, 10, ONE(3), 0, CHAIN, THREAD, 0 },
    { "two clients, the head", 3, 2, 10, ONE(0), 0, CHAIN, THREAD, 0 },
    { "two clients, the middle", 3, 2, 10, ONE(1), 0, CHAIN, CALLER, 0 },
    { "two clients, the tail", 3, 2, 10, ONE(2), 0, CHAIN, THREAD, 0 },
    { "two clients, way verbs", 3, 2, 10, ONE(1), 0, VERBS, THREAD, 0 },
    { "two deaths, the first ones", 4, 1, 10, MANY(0, 1), 0, CHAIN, THREAD, 0 },
    { "two deaths, two clients", 5, 2, 10, MANY(3, 1), 0, CHAIN, THREAD, 0 },
    { "new lists", 3, 1, 10, NOBODY, 20, CHAIN, THREAD, 0 },
    { "new lists, two clients", 3, 2, 10, NOBODY, 20, CHAIN, CALLER, 0 },
    { "new lists, way verbs", 3, 2, 10, NOBODY, 20, VERBS, THREAD, 0 },
};

static void test_planted(uint64_t seed)
{
    static world_t x;
    run_case(&x, &cases[1], true, seed);
    ok(x.clients[0].n_wrong > 0, "operations that are executed twice are found");
}

/* ---- others ---- */

static void test_last(void)
{
    const case_t c = { .engine = THREAD };
    replicas_t r;
    use_software_nic(c.engine, NULL, c.adversary, 1);
    start_replicas(&r, 1, 4096);
    pgas_group_t *group = join_group(r.address, 8, 0, CHAIN);
    must(pgas_replica_destroy(r.replicas[0]), "the end of a replica");
    r.replicas[0] = NULL;
    ok(pgas_group_write(group, 0, "x", 1) == PGAS_ERR_PEER, "the only replica is dead");
    ok(pgas_group_reform(group, LIMIT) == PGAS_ERR_PEER &&
           pgas_group_write(group, 0, "x", 1) == PGAS_ERR_PEER,
       "no chain can be formed");
    ok(pgas_group_reform(NULL, 0) == PGAS_ERR_INVALID, "no group");
    must(pgas_group_destroy(group), "leave");
}

static void test_join(void)
{
    const case_t c = { .engine = THREAD };
    pgas_group_info_t info = { .size = sizeof info };
    replicas_t r;
    use_software_nic(c.engine, NULL, c.adversary, 1);
    start_replicas(&r, 3, 4096);
    pgas_group_t *group = join_group(r.address, 8, 0, CHAIN);
    must(pgas_group_write(group, 0, "before", 7), "write");
    must(pgas_group_destroy(group), "leave");
    must(pgas_replica_destroy(r.replicas[1]), "the end of a replica");
    r.replicas[1] = NULL;
    group = join_group(r.address, 8, 0, CHAIN);
    must(pgas_group_info(group, &info), "info");
    ok(info.n_replicas == 2 && info.epoch == 2 && info.dead == -1 &&
           pgas_group_write(group, 8, "after", 6) == PGAS_OK &&
           memcmp(r.regions[2], "before\0\0after", 14) == 0,
       "a client that joins removes a dead member");
    ok(pgas_group_reform(group, LIMIT) == PGAS_OK, "forming a chain that runs does nothing");
    must(pgas_group_destroy(group), "leave");
    stop_replicas(&r);
}

/* A client that sleeps until a completion comes also wakes up for notices and deaths. */
static void test_events(void)
{
    const case_t c = { .engine = THREAD };
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    bare_link_t links[3];
    replicas_t r;
    pgas_group_t *group;
    char word = 0;
    use_software_nic(c.engine, NULL, c.adversary, 1);
    start_replicas(&r, 3, 4096);
    opts.events = true;
    must(pgas_group_join(r.address, &opts, &group), "join");
    for (int i = 0; i < 3; i++) {
        pgas_replica_info_t info = { .size = sizeof info };
        must(pgas_replica_info(r.replicas[i], &info), "info");
        bare_dial(&links[i], info.address);
        must(bare_hello(&links[i], "", 99), "HELLO");
    }
    bool good = true;
    for (uint64_t epoch = 2; epoch < 8 && good; epoch++) {
        must(bare_members(&links[0], links, 3, epoch, 0), "a new list");
        word++;
        good = pgas_group_write(group, 0, &word, 1) == PGAS_OK && r.regions[2][0] == word;
    }
    ok(good, "a client that sleeps follows new lists");
    must(pgas_replica_destroy(r.replicas[1]), "the end of a replica");
    r.replicas[1] = NULL;
    ok(pgas_group_write(group, 0, "x", 1) == PGAS_ERR_PEER &&
           pgas_group_reform(group, LIMIT) == PGAS_OK && r.regions[2][0] == 'x' &&
           pgas_group_write(group, 0, "y", 1) == PGAS_OK && r.regions[2][0] == 'y',
       "and notices deaths");
    for (int i = 0; i < 3; i++)
        bare_hang_up(&links[i]);
    must(pgas_group_destroy(group), "leave");
    stop_replicas(&r);
}

int main(void)
{
    plan(2 * (int)PGASI_ARRAY_LENGTH(cases) + 8);
    uint64_t seed = tap_seed(17);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++)
        test_case(&cases[i], seed + i);
    test_planted(seed);
    test_last();
    test_join();
    test_events();
    return done();
}
