/* what: A chain that ends at any moment, replica by replica, counts exactly what each replica has
 *       executed, and keeps the old words of the last window, under every engine and adversary of
 *       the software NIC. Each replica has executed at least what the next one has, and all have
 *       executed what was acknowledged. The same holds when the client is killed in a batch, and
 *       when a newer list ends the chains of two clients.
 * source: seeded test; each piece swaps a counter from its number to the next one, so that the
 *         counter of a region is the number of pieces executed, once each and in order */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include "base/checks.h"
#include "base/log.h"
#include "base/rng.h"
#include "pgas/verbs_snic.h"
#include "t/unit/group_bare.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#endif

#define N      3
#define REGION 4096
#define SLOTS  16u
#define ROUNDS 40
#define KILLS  10

static bare_group_t g;
static char engine_name[32]; /* of the process that PROCESS starts */

/* ---- counters ---- */

static uint64_t *counter_of(uint32_t replica, uint32_t client)
{
    return (uint64_t *)(void *)g.regions[replica] + client;
}

static void send_swap(bare_chain_t *c, uint32_t client)
{
    const pgasi_group_piece_t piece = { .kind = PGAS_GROUP_CAS,
                                        .offset = client * sizeof(uint64_t),
                                        .bytes = sizeof(uint64_t),
                                        .source = c->sent,
                                        .desired = c->sent + 1,
                                        .execute_map = ~UINT64_C(0) };
    bare_send(c, piece, NULL);
}

/* Takes acknowledgements, whose old words must be the numbers of their pieces. */
static int n_wrong_words(bare_chain_t *c, uint64_t *checked)
{
    int n_wrong = 0;
    bare_take(c);
    for (; *checked < c->acked; ++*checked)
        for (uint32_t i = 0; i < c->n; i++)
            n_wrong += bare_acknowledgement(c, *checked)[i] != *checked;
    return n_wrong;
}

/* Whether CLOSE reports the additions to the counter. The slot of a piece that has been
 * acknowledged may hold the next piece already, which arrives while the chain ends. */
static bool is_exact(const bare_chain_t *c, uint32_t replica, uint32_t client, uint64_t *executed_p)
{
    bare_link_t *l = &c->links[replica];
    bare_record_t closed;
    *executed_p = bare_close(l, &closed);
    bool good = *executed_p == *counter_of(replica, client) &&
                closed.n_old == PGASI_MIN(*executed_p, (uint64_t)SLOTS);
    for (uint32_t k = 0; k < closed.n_old && good; k++) {
        uint64_t number = *executed_p - closed.n_old + k;
        good = closed.old[k] == number || number < c->acked;
    }
    if (!good)
        diag("replica %u: executed %d, counter %d, %u old words", replica, (int)*executed_p,
             (int)*counter_of(replica, client), closed.n_old);
    return good;
}

/* ---- chains that end at any moment ---- */

/* Sends pieces for a while: as many as the window and the replicas allow. */
static int run_for_a_while(bare_chain_t *c, pgasi_rng_t *rng)
{
    uint64_t end = pgasi_rng_below(rng, 5 * SLOTS), checked = 0, limit_ns = bare_limit();
    int n_wrong = 0;
    while (c->sent < end && pgasi_now_ns() < limit_ns) {
        if (c->sent % (SLOTS / 4) == 0 && !bare_await_armed(c, SLOTS / 4))
            bail("the replicas do not get ready");
        while (c->sent - c->acked >= SLOTS && pgasi_now_ns() < limit_ns)
            n_wrong += n_wrong_words(c, &checked);
        send_swap(c, 0);
        if (pgasi_rng_below(rng, 3) == 0)
            n_wrong += n_wrong_words(c, &checked);
    }
    return n_wrong;
}

/* @return replicas whose counts are wrong */
static int end_chain(bare_chain_t *c, pgasi_rng_t *rng)
{
    uint64_t executed[N], left = (1u << N) - 1;
    int n_wrong = 0;
    while (left != 0) {
        uint32_t i = (uint32_t)pgasi_rng_below(rng, N);
        if ((left >> i & 1) == 0)
            continue;
        left &= ~(UINT64_C(1) << i);
        n_wrong += !is_exact(c, i, 0, &executed[i]);
    }
    bare_take(c);
    bool ordered = executed[0] <= c->sent && executed[N - 1] >= c->acked;
    for (uint32_t i = 1; i < N; i++)
        ordered = ordered && executed[i] <= executed[i - 1];
    if (!ordered)
        diag("sent %d, executed %d %d %d, acknowledged %d", (int)c->sent, (int)executed[0],
             (int)executed[1], (int)executed[2], (int)c->acked);
    return n_wrong + !ordered;
}

static int run_round(uint64_t seed)
{
    pgasi_rng_t rng;
    bare_chain_t c;
    pgasi_rng_seed(&rng, seed);
    for (uint32_t i = 0; i < N; i++)
        *counter_of(i, 0) = 0;
    bare_queues(&c, g.links, N, SLOTS, 64);
    must(bare_open(&c, 1), "a chain");
    int n_wrong = run_for_a_while(&c, &rng);
    n_wrong += end_chain(&c, &rng);
    bare_end(&c);
    return n_wrong;
}

static void ends_are_exact(const char *name, pgas_verbs_engine_t engine, uint32_t adversary,
                           uint64_t seed, int n_rounds)
{
    int n_wrong = 0;
    use_software_nic(engine, engine_name, adversary, seed);
    bare_start(&g, N, REGION, 0);
    bare_list(&g, 1);
    for (int i = 0; i < n_rounds; i++)
        n_wrong += run_round(seed + (uint64_t)i);
    bare_stop(&g);
    is_int(n_wrong, 0, "%d chains end at any moment: %s", n_rounds, name);
}

/* ---- a newer list ---- */

static void lists_end_exactly(uint64_t seed)
{
    bare_link_t links[2][N], third;
    bare_chain_t c[2];
    uint64_t executed;
    int n_wrong = 0;
    use_software_nic(PGAS_VERBS_ENGINE_CALLER, engine_name, PGAS_VERBS_SNIC_ALL, seed);
    bare_start(&g, N, REGION, 0);
    bare_list(&g, 1);
    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t i = 0; i < N; i++) {
            bare_dial(&links[j][i], g.links[i].address);
            must(bare_hello(&links[j][i], "secret", 10 + j), "HELLO");
        }
        bare_queues(&c[j], links[j], N, SLOTS, 64);
        must(bare_open(&c[j], 1), "a chain");
        for (uint32_t k = 0; k < SLOTS; k++)
            send_swap(&c[j], j);
    }
    for (uint32_t i = 0; i < N; i++) {
        bare_dial(&third, g.links[i].address);
        must(bare_hello(&third, "secret", 20), "HELLO");
        must(bare_members(&third, g.links, N, 2, 0), "MEMBERS");
        bare_hang_up(&third);
    }
    for (uint32_t j = 0; j < 2; j++)
        for (uint32_t i = 0; i < N; i++)
            n_wrong += !is_exact(&c[j], i, j, &executed) ||
                       !(links[j][i].n_notices > 0 || bare_notices(&links[j][i], 1));
    is_int(n_wrong, 0, "a newer list ends the chains of two clients");
    for (uint32_t j = 0; j < 2; j++) {
        for (uint32_t i = 0; i < N; i++)
            bare_hang_up(&links[j][i]);
        bare_end(&c[j]);
    }
    bare_stop(&g);
}

/* ---- a client that is killed ---- */

typedef struct {
    char address[N][PGASI_GROUP_NAME_BYTES];
} places_t;

/* The client: sends until it is killed. It writes a byte for each quarter of a window. */
static void be_killed(int in, int out)
{
    places_t places;
    bare_link_t links[N];
    bare_chain_t c;
    if (read(in, &places, sizeof places) != (ssize_t)sizeof places)
        _exit(0);
    use_software_nic(PGAS_VERBS_ENGINE_CALLER, engine_name, 0, 1);
    for (int i = 0; i < N; i++) {
        bare_dial(&links[i], places.address[i]);
        must(bare_hello(&links[i], "secret", 2), "HELLO");
    }
    bare_queues(&c, links, N, SLOTS, 64);
    must(bare_open(&c, 1), "a chain");
    for (;;) {
        if (c.sent % (SLOTS / 4) == 0 &&
            (!bare_await_armed(&c, SLOTS / 4) || write(out, "x", 1) != 1))
            _exit(1);
        while (c.sent - c.acked >= SLOTS)
            if (!bare_take(&c))
                _exit(1);
        send_swap(&c, 0);
    }
}

/* @return the process */
static pid_t start_client(int *to_p, int *from_p)
{
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0)
        bail("no pipes");
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(to[1]);
        close(from[0]);
        be_killed(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    *to_p = to[1];
    *from_p = from[0];
    return child;
}

/* Waits until the replica has noticed, and has drained. @return pieces executed */
static uint64_t await_end(uint32_t i)
{
    pgas_replica_info_t info = { .size = sizeof info, .n_clients = 2 };
    uint64_t limit_ns = bare_limit();
    while (info.n_clients != 1 && pgasi_now_ns() < limit_ns) {
        must(pgas_replica_info(g.replicas[i], &info), "info");
        sched_yield();
    }
    return info.n_clients == 1 ? info.n_executed : UINT64_MAX;
}

static bool kill_one(pid_t child, int to, int from, uint64_t n_bytes)
{
    places_t places;
    char byte;
    bool good = true;
    use_software_nic(PGAS_VERBS_ENGINE_CALLER, engine_name, 0, 1);
    bare_start(&g, N, REGION, 0);
    bare_list(&g, 1);
    for (int i = 0; i < N; i++)
        memcpy(places.address[i], g.links[i].address, sizeof places.address[i]);
    good = write(to, &places, sizeof places) == (ssize_t)sizeof places;
    for (uint64_t i = 0; i < n_bytes && good; i++)
        good = read(from, &byte, 1) == 1;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    uint64_t before = UINT64_MAX;
    for (uint32_t i = 0; i < N && good; i++) {
        uint64_t executed = await_end(i);
        good = executed == *counter_of(i, 0) && executed <= before;
        if (!good)
            diag("replica %u: executed %d, counter %d", i, (int)executed, (int)*counter_of(i, 0));
        before = executed;
    }
    bare_stop(&g);
    close(to);
    close(from);
    return good;
}

int main(void)
{
    static const struct {
        const char *name;
        uint32_t adversary;
    } adversaries[] = { { "no adversary", 0 },
                        { "PREFETCH", PGAS_VERBS_SNIC_PREFETCH },
                        { "SHUFFLE", PGAS_VERBS_SNIC_SHUFFLE },
                        { "DELAY", PGAS_VERBS_SNIC_DELAY },
                        { "WRAP", PGAS_VERBS_SNIC_WRAP },
                        { "ALL", PGAS_VERBS_SNIC_ALL } };
    const int n_adversaries = (int)PGASI_ARRAY_LENGTH(adversaries);
    pid_t children[KILLS];
    int to[KILLS], from[KILLS], n_good = 0;
    pgasi_rng_t rng;
    snprintf(engine_name, sizeof engine_name, "t-%d", (int)getpid());
    /* before there are threads */
    for (int i = 0; i < KILLS; i++)
        children[i] = start_client(&to[i], &from[i]);
    plan(n_adversaries + 4);
    uint64_t seed = tap_seed(17);
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < KILLS; i++)
        n_good += kill_one(children[i], to[i], from[i], 1 + pgasi_rng_below(&rng, 20));
    is_int(n_good, KILLS, "%d clients are killed in their batches", KILLS);
    for (int i = 0; i < n_adversaries; i++)
        ends_are_exact(adversaries[i].name, PGAS_VERBS_ENGINE_CALLER, adversaries[i].adversary,
                       seed + 1000 * (uint64_t)i, ROUNDS);
    ends_are_exact("a thread, ALL", PGAS_VERBS_ENGINE_THREAD, PGAS_VERBS_SNIC_ALL, seed, 10);
#ifndef SANITIZED
    ends_are_exact("a process, ALL", PGAS_VERBS_ENGINE_PROCESS, PGAS_VERBS_SNIC_ALL, seed, 10);
#else
    skip(1, "a process of its own, not in a sanitizer build");
#endif
    lists_end_exactly(seed);
    return done();
}
