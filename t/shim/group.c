/* what:   Groups over the stock libmlx5: mixed batches of a client, and of two, on three replicas
 *         with a fake card each, leave what a model says. The cards execute and forward the pieces
 *         (way chain), by entries that messages rewrite; or the replicas do (way verbs), also with
 *         the queue pairs of libibverbs. The way follows from what all cards have.
 * env:    SHIM_ADVERSARY=0 | SHIM_ADVERSARY=7
 * log:    has no WAIT and ENABLE|do not connect to|did not come to rest|is dead or cannot
 * source: group/program.h; seeded model test, every replica is compared after every batch */
#include "config.h"

#include "t/tap.h"

#ifndef PGAS_HAVE_MLX5DV
int main(void)
{
    skip_all("built without libmlx5");
}
#else
#include <pthread.h>
#include "group/session.h"
#include "t/shim/under.h"
#include "t/unit/group_model.h"

#define N         3
#define PART      16384u
#define WRITE_MAX 1000u
/* Operations of the first case. GROUP_OPERATIONS is for it; others have a part of it. */
#define USUAL     4000

typedef struct {
    const char *name;
    const char *devices[N]; /* of the replicas */
    const char *device;     /* of the clients */
    pgas_group_way_t asked, way;
    int n_clients, n_operations;
    bool events;
} case_t;

typedef struct {
    const case_t *c;
    const replicas_t *replicas;
    uint64_t number, seed;
    int n_wrong;
    pthread_t thread;
} client_t;

static pgas_status_t join(const replicas_t *replicas, const case_t *c, pgas_group_t **group_p)
{
    pgas_group_opts_t opts = PGAS_GROUP_OPTS_INIT;
    opts.device = c->device;
    opts.way = c->asked;
    opts.events = c->events;
    return pgas_group_join(replicas->address, &opts, group_p);
}

static void *run_client(void *arg)
{
    client_t *client = arg;
    const case_t *c = client->c;
    pgas_group_info_t info = { .size = sizeof info };
    pgas_group_t *group = NULL;
    model_t *m = malloc(sizeof *m);
    must(join(client->replicas, c, &group), "join");
    model_init(m, client->replicas, client->number * PART, PART, WRITE_MAX, client->seed);
    for (int n_done = 0, n; n_done < c->n_operations && client->n_wrong == 0; n_done += n) {
        n = 1 + (int)pgasi_rng_below(&m->rng, BATCH_MAX);
        client->n_wrong += model_run(m, group, n);
    }
    must(pgas_group_info(group, &info), "its description");
    client->n_wrong += info.way != c->way || info.n_ops < (uint64_t)c->n_operations;
    must(pgas_group_destroy(group), "leave");
    model_fini(m);
    free(m);
    return NULL;
}

/* @return the number of errors */
static int run_case(const case_t *c, uint64_t seed)
{
    replicas_t replicas;
    client_t clients[2];
    int n_wrong = 0;
    start_replicas_on(&replicas, N, 2 * PART, c->devices);
    for (int i = 0; i < c->n_clients; i++) {
        clients[i] = (client_t){
            .c = c, .replicas = &replicas, .number = (uint64_t)i, .seed = 2 * seed + (uint64_t)i
        };
        if (pthread_create(&clients[i].thread, NULL, run_client, &clients[i]) != 0)
            bail("a thread");
    }
    for (int i = 0; i < c->n_clients; i++) {
        pthread_join(clients[i].thread, NULL);
        n_wrong += clients[i].n_wrong;
    }
    stop_replicas(&replicas);
    return n_wrong;
}

#define AUTO  PGAS_GROUP_AUTO
#define CHAIN PGAS_GROUP_CHAIN
#define VERBS PGAS_GROUP_VERBS

#define THREE_MLX5                   \
    {                                \
        "mlx5_0", "mlx5_3", "mlx5_4" \
    }
#define THREE_VERBS                                    \
    {                                                  \
        "verbs:mlx5_0", "verbs:mlx5_3", "verbs:mlx5_4" \
    }
#define ONE_OF_EACH                        \
    {                                      \
        "mlx5_0", "verbs:mlx5_3", "mlx5_2" \
    }
#define THREE_ROCE                   \
    {                                \
        "mlx5_1", "mlx5_1", "mlx5_1" \
    }

static const case_t cases[] = {
    { "chain: InfiniBand", THREE_MLX5, "mlx5_0", AUTO, CHAIN, 1, USUAL, false },
    { "chain: two clients", THREE_MLX5, "mlx5_3", CHAIN, CHAIN, 2, 2000, false },
    { "chain: a client that sleeps", THREE_MLX5, "mlx5_4", CHAIN, CHAIN, 1, 500, true },
    { "chain: RoCE", THREE_ROCE, "mlx5_1", AUTO, CHAIN, 1, 2000, false },
    { "verbs: InfiniBand", THREE_VERBS, "verbs:mlx5_0", AUTO, VERBS, 1, 2000, false },
    { "verbs: two clients", THREE_VERBS, "verbs:mlx5_3", AUTO, VERBS, 2, 1000, false },
    { "verbs: a client that sleeps", THREE_VERBS, "verbs:mlx5_4", AUTO, VERBS, 1, 500, true },
    { "verbs: both kinds of queue pairs", ONE_OF_EACH, "mlx5_4", AUTO, VERBS, 2, 1000, false },
    { "verbs: where there is the chain, too", THREE_MLX5, "mlx5_0", VERBS, VERBS, 1, 1000, false },
};

/* Queues that run an entry before its message has rewritten it: the checks above can fail. */
static void test_planted(uint64_t seed)
{
    static const case_t planted = { "planted", THREE_MLX5, "mlx5_0", CHAIN, CHAIN, 1, 4000, false };
    pgasi_session_early = 1;
    ok(run_case(&planted, seed) > 0, "entries that run too early are found");
    pgasi_session_early = 0;
}

/* ---- ways that a member does not have ---- */

static void test_refused(void)
{
    static const case_t one_without = { .devices = { "mlx5_0", "mlx5_2", "mlx5_3" },
                                        .device = "mlx5_0",
                                        .asked = CHAIN };
    static const case_t client_without = { .devices = THREE_MLX5,
                                           .device = "verbs:mlx5_0",
                                           .asked = CHAIN };
    static const case_t strangers = { .devices = THREE_MLX5, .device = "snic", .asked = AUTO };
    const case_t *const refused[] = { &one_without, &client_without, &strangers };
    static const char *const names[] = { "a member without the way that is asked for",
                                         "a client without it", "a client with the software NIC" };
    for (int i = 0; i < 3; i++) {
        replicas_t replicas;
        pgas_group_t *group = NULL;
        start_replicas_on(&replicas, N, 2 * PART, refused[i]->devices);
        ok(join(&replicas, refused[i], &group) == PGAS_ERR_UNSUPPORTED && !group, "%s: refused",
           names[i]);
        stop_replicas(&replicas);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    under_shim(argv);
    const char *adversary = getenv("SHIM_ADVERSARY");
    bool plants = !adversary || strcmp(adversary, "0") == 0; /* drains take seconds then */
    plan((int)PGASI_ARRAY_LENGTH(cases) + 3 + plants);
    const char *operations = getenv("GROUP_OPERATIONS");
    uint64_t seed = tap_seed(17);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++) {
        case_t c = cases[i];
        if (operations)
            c.n_operations = (int)(strtoll(operations, NULL, 10) * c.n_operations / USUAL);
        is_int(run_case(&c, seed + i), 0, "%s", c.name);
    }
    if (plants)
        test_planted(seed);
    test_refused();
    return done();
}
#endif
