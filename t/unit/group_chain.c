/* what: Mixed batches of operations of one client or two, on chains of 1 to 5 replicas, leave on
 *       each replica what a plain model says, and return the old words, under every engine and
 *       adversary of the software NIC, with the ways chain and verbs. With queues that run entries
 *       before a message has rewritten them, wrong replicas are found.
 * log: did not come to rest|is dead or cannot be reached|lacks operations that are complete
 * needs: tsan-ok
 * source: seeded model test; every replica is compared after every batch */
#include <pthread.h>
#include "group/session.h"
#include "pgas/verbs_snic.h"
#include "t/unit/group_model.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED true
#elif __has_feature(thread_sanitizer)
#define THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(THREAD_SANITIZER)
#define SANITIZED true
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

#define PART 16384u
/* Operations of most cases. GROUP_OPERATIONS is for these; other cases have a part of it. */
#define USUAL 2000u

typedef struct {
    const char *name;
    int n_replicas, n_clients;
    uint32_t window, piece;
    uint64_t write_max;
    pgas_group_way_t way;
    pgas_verbs_engine_t engine;
    uint32_t adversary;
    uint32_t n_operations; /* of each client */
} case_t;

typedef struct {
    const case_t *c;
    const replicas_t *replicas;
    int number;
    uint64_t seed;
    int n_wrong;
    pthread_t thread;
} client_t;

static void *run_client(void *arg)
{
    client_t *client = arg;
    const case_t *c = client->c;
    model_t *m = malloc(sizeof *m);
    uint32_t n_done = 0;
    pgas_group_t *group = join_group(client->replicas->address, c->window, c->piece, c->way);
    model_init(m, client->replicas, (uint64_t)client->number * PART, PART, c->write_max,
               client->seed);
    while (n_done < c->n_operations && client->n_wrong == 0) {
        int n = 1 + (int)pgasi_rng_below(&m->rng, BATCH_MAX);
        client->n_wrong += model_run(m, group, n);
        n_done += (uint32_t)n;
    }
    must(pgas_group_destroy(group), "leave");
    model_fini(m);
    free(m);
    return NULL;
}

/* @return the number of errors */
static int run_case(const case_t *c, uint64_t seed)
{
    const pgas_verbs_snic_opts_t snic = { .size = sizeof snic,
                                          .adversary = c->adversary,
                                          .seed = seed };
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    char name[32]; /* of the process that PROCESS starts */
    replicas_t replicas;
    client_t clients[2];
    int n_wrong = 0;
    dev.device = "snic";
    dev.engine = c->engine;
    dev.snic = &snic;
    snprintf(name, sizeof name, "t-%d", (int)getpid());
    dev.engine_name = name;
    pgasi_group_dev_opts = &dev;
    start_replicas(&replicas, c->n_replicas, 2 * PART);
    for (int i = 0; i < c->n_clients; i++) {
        clients[i] = (client_t){ c, &replicas, i, seed * 2 + (uint64_t)i, 0, 0 };
        if (pthread_create(&clients[i].thread, NULL, run_client, &clients[i]) != 0)
            bail("a thread");
    }
    for (int i = 0; i < c->n_clients; i++) {
        pthread_join(clients[i].thread, NULL);
        n_wrong += clients[i].n_wrong;
    }
    stop_replicas(&replicas);
    pgasi_group_dev_opts = NULL;
    return n_wrong;
}

#define CALLER   PGAS_VERBS_ENGINE_CALLER
#define THREAD   PGAS_VERBS_ENGINE_THREAD
#define PROCESS  PGAS_VERBS_ENGINE_PROCESS
#define CHAIN    PGAS_GROUP_CHAIN
#define VERBS    PGAS_GROUP_VERBS
#define PREFETCH PGAS_VERBS_SNIC_PREFETCH
#define SHUFFLE  PGAS_VERBS_SNIC_SHUFFLE
#define DELAY    PGAS_VERBS_SNIC_DELAY
#define WRAP     PGAS_VERBS_SNIC_WRAP
#define ALL      PGAS_VERBS_SNIC_ALL

static const case_t cases[] = {
    { "the caller", 3, 1, 64, 0, 1000, CHAIN, CALLER, 0, 2000 },
    { "a thread", 3, 1, 64, 0, 1000, CHAIN, THREAD, 0, 2000 },
    { "entries are read early", 3, 1, 64, 0, 1000, CHAIN, CALLER, PREFETCH, 2000 },
    { "turns at random", 3, 1, 64, 0, 1000, CHAIN, CALLER, SHUFFLE, 2000 },
    { "late effects", 3, 1, 64, 0, 1000, CHAIN, THREAD, DELAY, 2000 },
    { "indices that wrap", 3, 1, 64, 0, 1000, CHAIN, CALLER, WRAP, 2000 },
    { "all adversaries", 3, 1, 64, 0, 1000, CHAIN, THREAD, ALL, 2000 },
    { "all adversaries, the caller", 3, 1, 64, 0, 1000, CHAIN, CALLER, ALL, 200 },
    { "two clients", 3, 2, 64, 0, 1000, CHAIN, CALLER, 0, 2000 },
    { "two clients, all adversaries", 3, 2, 64, 0, 1000, CHAIN, THREAD, ALL, 2000 },
    { "one replica", 1, 1, 64, 0, 1000, CHAIN, THREAD, ALL, 1000 },
    { "two replicas", 2, 1, 64, 0, 1000, CHAIN, THREAD, ALL, 1000 },
    { "five replicas", 5, 1, 64, 0, 1000, CHAIN, THREAD, ALL, 1000 },
    { "a window of one", 3, 1, 1, 0, 1000, CHAIN, THREAD, ALL, 500 },
    { "a window of 2000", 3, 1, 2000, 0, 1000, CHAIN, THREAD, ALL, 5000 },
    { "large operations in pieces", 3, 1, 8, 192, 8000, CHAIN, THREAD, ALL, 300 },
    { "pieces, two clients", 3, 2, 30, 64, 8000, CHAIN, CALLER, 0, 300 },
    { "a process", 3, 2, 64, 0, 1000, CHAIN, PROCESS, 0, 2000 },
    { "a process, all adversaries", 3, 1, 64, 0, 1000, CHAIN, PROCESS, ALL, 1000 },
    { "forwarding, the caller", 3, 1, 64, 0, 1000, VERBS, CALLER, 0, 2000 },
    { "forwarding, a thread", 3, 1, 64, 0, 1000, VERBS, THREAD, ALL, 2000 },
    { "forwarding, two clients", 5, 2, 16, 256, 1000, VERBS, THREAD, 0, 1000 },
    { "forwarding, a window of one", 2, 1, 1, 64, 500, VERBS, CALLER, 0, 300 },
    { "forwarding, a window of 2000", 3, 1, 2000, 0, 1000, VERBS, THREAD, ALL, 5000 },
    { "forwarding, pieces of two clients", 3, 2, 30, 64, 8000, VERBS, CALLER, 0, 300 },
};

#ifndef THREAD_SANITIZER
static const case_t planted = { "planted", 3, 1, 64, 0, 1000, CHAIN, THREAD, 0, 2000 };
#endif

/* They are data races, too. */
static void test_planted(uint64_t seed)
{
#ifdef THREAD_SANITIZER
    (void)seed;
    skip(2, "ThreadSanitizer would report the planted errors itself");
#else
    pgasi_session_early = 1;
    ok(run_case(&planted, seed) > 0, "loop queues that run too early are found");
    pgasi_session_early = 2;
    ok(run_case(&planted, seed) > 0, "next queues that run too early are found");
    pgasi_session_early = 0;
#endif
}

int main(void)
{
    plan((int)PGASI_ARRAY_LENGTH(cases) + 2);
    const char *operations = getenv("GROUP_OPERATIONS");
    uint64_t seed = tap_seed(17);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++) {
        case_t c = cases[i];
        if (operations)
            c.n_operations = (uint32_t)(strtoull(operations, NULL, 10) * c.n_operations / USUAL);
        if (SANITIZED && c.engine == PROCESS)
            skip(1, "a process of its own, not in a sanitizer build");
        else
            is_int(run_case(&c, seed + i), 0, "%s", c.name);
    }
    test_planted(seed);
    return done();
}
