/* what: Clients agree on the members of a group while replicas die, clients vanish, and replicas
 *       are added, each at any moment between two messages. Each operation is executed once on each
 *       member and in order; an acknowledged one is on all later members, also on added ones. When
 *       nothing dies any more, all clients form chains over the same list. Two planted errors are
 *       found.
 * needs: tsan-ok
 * source: seeded model test; replicas execute numbered operations of each client */
#include "base/checks.h"
#include "base/rng.h"
#include "group/members.h"
#include "t/tap.h"

#define REPLICAS 7u
#define CLIENTS  3u
#define STEPS    4000u
#define QUIET    60000u /* more than enough steps to come to rest */
#define WINDOW   4u

typedef enum { PLANT_NOTHING, PLANT_MOVES, PLANT_FORGET } plant_t;

/* One end of a chain. */
typedef struct {
    bool open;
    uint32_t chain;    /* its number in the client's life */
    uint64_t first;    /* number of the operation 0 of the chain */
    uint64_t executed; /* in this chain */
} session_t;

typedef struct {
    bool alive;
    pgasi_group_list_t list;
    uint64_t freezer;         /* a connection is the client's number + 1 */
    uint64_t region[CLIENTS]; /* the next operation that must be executed */
    uint64_t record[CLIENTS]; /* the same, as the replica reports it */
    session_t sessions[CLIENTS];
} replica_t;

typedef enum { LOOKS, FORMS, RUNS, FREEZES, COPIES, THAWS, GONE } state_t;

typedef struct {
    state_t state;
    pgasi_group_view_t view;
    pgasi_group_list_t list; /* of the present chain */
    uint32_t at;             /* the next member to be asked, while it forms, freezes or thaws */
    uint32_t adds;           /* the replica that it adds */
    uint32_t chain;
    uint64_t first, sent, acked;
    uint64_t skip[REPLICAS]; /* by position: operations below have been executed there */
} client_t;

typedef struct {
    pgasi_rng_t rng;
    plant_t plant;
    replica_t replicas[REPLICAS];
    client_t clients[CLIENTS];
    uint32_t n_alive, n_wrong;
    bool quiet; /* nothing dies any more */
    uint64_t n_formed, n_deaths, n_added, n_vanished;
} world_t;

static void wrong(world_t *x, const char *what)
{
    if (x->n_wrong++ == 0 && x->plant == PLANT_NOTHING)
        diag("%s", what);
}

static bool chance(world_t *x, uint32_t n)
{
    return pgasi_rng_below(&x->rng, n) == 0;
}

static replica_t *of_id(world_t *x, uint64_t id)
{
    return &x->replicas[id - 1];
}

/* ---- replicas ---- */

static void end_session(replica_t *r, uint32_t c)
{
    session_t *s = &r->sessions[c];
    if (s->open)
        r->record[c] = PGASI_MAX(r->record[c], s->first + s->executed);
    s->open = false;
}

static void end_sessions(replica_t *r)
{
    for (uint32_t c = 0; c < CLIENTS; c++)
        end_session(r, c);
}

static bool take(replica_t *r, const pgasi_group_list_t *list, uint32_t c)
{
    pgasi_list_verdict_t verdict = pgasi_group_list_take(&r->list, &r->freezer, list, c + 1);
    if (verdict == PGASI_LIST_TAKEN)
        end_sessions(r);
    return verdict != PGASI_LIST_REFUSED;
}

static void vanish(replica_t *r, uint32_t c)
{
    end_session(r, c);
    if (pgasi_group_list_thaw(&r->list, &r->freezer, c + 1))
        end_sessions(r);
}

static void execute(world_t *x, replica_t *r, uint32_t c, uint32_t position)
{
    session_t *s = &r->sessions[c];
    uint64_t number = s->first + s->executed++;
    if (number < x->clients[c].skip[position])
        return;
    if (number != r->region[c])
        wrong(x, number < r->region[c] ? "executed twice" : "an operation is missing");
    r->region[c] = number + 1;
}

/* ---- chains ---- */

static session_t *session_at(world_t *x, uint32_t c, uint32_t position)
{
    const client_t *client = &x->clients[c];
    session_t *s = &of_id(x, client->list.names[position].id)->sessions[c];
    return s->chain == client->chain ? s : NULL;
}

/* Messages that the one before has sent, also if it has ended since. */
static uint64_t arrived(world_t *x, uint32_t c, uint32_t position)
{
    const client_t *client = &x->clients[c];
    if (position == 0)
        return client->sent - client->first;
    const session_t *s = session_at(x, c, position - 1);
    return s ? s->executed : 0;
}

static void check_ack(world_t *x, uint32_t c)
{
    const client_t *client = &x->clients[c];
    for (uint32_t i = 0; i < client->list.n; i++) {
        const replica_t *r = of_id(x, client->list.names[i].id);
        if (r->alive && r->region[c] < client->acked)
            wrong(x, "acknowledged, but not executed");
    }
}

/* A message moves by one replica, or to the client. */
static void move(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    uint32_t n = client->list.n, position = (uint32_t)pgasi_rng_below(&x->rng, n + 1);
    if (position == n) {
        if (client->acked - client->first < arrived(x, c, n)) {
            client->acked++;
            check_ack(x, c);
        }
        return;
    }
    replica_t *r = of_id(x, client->list.names[position].id);
    const session_t *s = session_at(x, c, position);
    if (r->alive && s && s->open && s->executed < arrived(x, c, position))
        execute(x, r, c, position);
}

/* ---- clients ---- */

static void look(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    client->state = LOOKS;
    client->first = client->sent = client->acked;
    client->chain++; /* no acknowledgement of the former one comes any more */
    pgasi_group_view_again(&client->view);
}

/* CLOSE to all members that live, in one step: their order does not matter. */
static void close_all(world_t *x, uint32_t c)
{
    for (uint32_t i = 0; i < REPLICAS; i++)
        if (x->replicas[i].alive)
            end_session(&x->replicas[i], c);
    look(x, c);
}

static void greet(world_t *x, uint32_t c, uint32_t to)
{
    client_t *client = &x->clients[c];
    const replica_t *r = of_id(x, client->view.contacts[to].name.id);
    if (r->alive)
        pgasi_group_view_answer(&client->view, to, &r->list);
    else
        pgasi_group_view_dead(&client->view, to);
}

static void send_list(world_t *x, uint32_t c, const pgasi_group_step_t *step)
{
    client_t *client = &x->clients[c];
    replica_t *r = of_id(x, client->view.contacts[step->to].name.id);
    if (!r->alive)
        pgasi_group_view_dead(&client->view, step->to);
    else if (take(r, &step->list, c))
        pgasi_group_view_answer(&client->view, step->to, &step->list);
    else
        pgasi_group_view_again(&client->view);
}

static void take_step(world_t *x, uint32_t c)
{
    static pgasi_group_step_t step;
    client_t *client = &x->clients[c];
    pgasi_group_view_next(&client->view, &step);
    switch (step.kind) {
    case PGASI_STEP_GREET:
        greet(x, c, step.to);
        return;
    case PGASI_STEP_SEND:
        send_list(x, c, &step);
        return;
    case PGASI_STEP_FORM:
        client->state = FORMS;
        client->list = step.list;
        client->at = 0;
        client->chain++;
        return;
    case PGASI_STEP_WAIT:
        pgasi_group_view_again(&client->view);
        return;
    case PGASI_STEP_GIVE_UP:
        wrong(x, "a client gives up");
    }
}

/* OPEN at the next member, the last one first. */
static void form(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    uint32_t position = client->list.n - 1 - client->at++;
    replica_t *r = of_id(x, client->list.names[position].id);
    if (!r->alive || r->list.epoch != client->list.epoch || r->list.is_frozen) {
        close_all(x, c);
        return;
    }
    if (!pgasi_group_list_equal(&r->list, &client->list))
        wrong(x, "two lists of one epoch");
    end_session(r, c);
    r->sessions[c] = (session_t){ .open = true, .chain = client->chain, .first = client->first };
    client->skip[position] = x->plant == PLANT_FORGET ? 0 : r->record[c];
    if (r->record[c] < client->first)
        wrong(x, "a member has less than was acknowledged");
    if (client->at == client->list.n) {
        client->state = RUNS;
        client->view.froze = 0;
        x->n_formed++;
    }
}

/* A chain that cannot go on; a client may also be wrong about that. */
static bool is_broken(world_t *x, uint32_t c)
{
    const client_t *client = &x->clients[c];
    for (uint32_t i = 0; i < client->list.n; i++) {
        const session_t *s = session_at(x, c, i);
        if (!of_id(x, client->list.names[i].id)->alive || !s || !s->open)
            return true;
    }
    return false;
}

static void begin_add(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    uint32_t i = (uint32_t)pgasi_rng_below(&x->rng, REPLICAS);
    const replica_t *r = &x->replicas[i];
    if (!r->alive || r->list.epoch != 0 || client->list.n >= REPLICAS)
        return;
    client->adds = i;
    client->at = 0;
    client->state = x->plant == PLANT_MOVES ? COPIES : FREEZES;
}

static void run(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    if (is_broken(x, c) ? chance(x, 4) : chance(x, 100))
        close_all(x, c);
    else if (!x->quiet && chance(x, 20))
        begin_add(x, c);
    else if (client->sent < client->acked + WINDOW && !x->quiet)
        client->sent++;
}

/* ---- adding a replica ---- */

static void freeze(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    pgasi_group_list_t list = client->list;
    replica_t *r = of_id(x, client->list.names[client->at++].id);
    list.epoch++;
    list.is_frozen = true;
    if (!r->alive || !take(r, &list, c)) {
        close_all(x, c);
        return;
    }
    client->view.froze = list.epoch;
    if (client->at == client->list.n)
        client->state = COPIES;
}

static void copy(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    replica_t *to = &x->replicas[client->adds];
    const replica_t *from = of_id(x, client->list.names[client->list.n - 1].id);
    if (!from->alive || !to->alive || to->list.epoch != 0) {
        close_all(x, c);
        return;
    }
    memcpy(to->region, from->region, sizeof to->region);
    memcpy(to->record, from->record, sizeof to->record);
    client->list.names[client->list.n++] = (pgasi_group_name_t){ .id = client->adds + 1 };
    client->list.epoch++;
    client->at = 0;
    client->state = THAWS;
}

static void thaw(world_t *x, uint32_t c)
{
    client_t *client = &x->clients[c];
    replica_t *r = of_id(x, client->list.names[client->at++].id);
    bool good = r->alive && take(r, &client->list, c);
    x->n_added += good && client->at == client->list.n;
    if (!good || client->at == client->list.n)
        close_all(x, c);
}

/* ---- deaths ---- */

static void kill_replica(world_t *x)
{
    replica_t *r = &x->replicas[pgasi_rng_below(&x->rng, REPLICAS)];
    uint32_t n = 0;
    for (uint32_t i = 0; i < REPLICAS; i++) /* one with the present data must stay */
        n += x->replicas[i].alive && x->replicas[i].list.epoch > 0 && &x->replicas[i] != r;
    if (!r->alive || n < 2 || x->n_alive <= 2)
        return;
    r->alive = false;
    x->n_alive--;
    x->n_deaths++;
}

/* Each replica notices it by itself, some later. */
static void kill_client(world_t *x)
{
    uint32_t c = (uint32_t)pgasi_rng_below(&x->rng, CLIENTS), n = 0;
    for (uint32_t i = 0; i < CLIENTS; i++)
        n += x->clients[i].state != GONE;
    if (n < 2 || x->clients[c].state == GONE)
        return;
    x->clients[c].state = GONE;
    x->n_vanished++;
}

static void notice(world_t *x)
{
    replica_t *r = &x->replicas[pgasi_rng_below(&x->rng, REPLICAS)];
    uint32_t c = (uint32_t)pgasi_rng_below(&x->rng, CLIENTS);
    bool too_long = r->freezer == c + 1 && !x->quiet && chance(x, 50);
    if (r->alive && (x->clients[c].state == GONE || too_long))
        vanish(r, c);
}

/* ---- the run ---- */

static void begin(world_t *x, uint32_t n, uint64_t seed)
{
    pgasi_group_list_t all = { .n = n };
    pgasi_rng_seed(&x->rng, seed);
    for (uint32_t i = 0; i < REPLICAS; i++)
        x->replicas[i].alive = true;
    for (uint32_t i = 0; i < n; i++)
        all.names[i].id = i + 1;
    for (uint32_t c = 0; c < CLIENTS; c++)
        pgasi_group_view_init(&x->clients[c].view, &all);
    x->n_alive = REPLICAS;
}

static void step(world_t *x)
{
    uint32_t c = (uint32_t)pgasi_rng_below(&x->rng, CLIENTS);
    if (chance(x, 2) && x->clients[c].list.n > 0)
        move(x, c);
    notice(x);
    switch (x->clients[c].state) {
    case LOOKS:
        take_step(x, c);
        return;
    case FORMS:
        form(x, c);
        return;
    case RUNS:
        run(x, c);
        return;
    case FREEZES:
        freeze(x, c);
        return;
    case COPIES:
        copy(x, c);
        return;
    case THAWS:
        thaw(x, c);
        return;
    case GONE:
        return;
    }
}

static bool is_at_rest(world_t *x)
{
    const pgasi_group_list_t *list = NULL;
    for (uint32_t c = 0; c < CLIENTS; c++) {
        const client_t *client = &x->clients[c];
        if (client->state == GONE)
            continue;
        if (client->state != RUNS || client->acked < client->sent || is_broken(x, c))
            return false;
        if (list &&
            (list->epoch != client->list.epoch || !pgasi_group_list_equal(list, &client->list)))
            return false;
        list = &client->list;
    }
    return true;
}

/* All members of the last list have the same, and all that was acknowledged. */
static void check_end(world_t *x)
{
    uint32_t any = 0;
    while (x->clients[any].state == GONE)
        any++;
    const pgasi_group_list_t *list = &x->clients[any].list;
    for (uint32_t c = 0; c < CLIENTS; c++)
        for (uint32_t i = 0; i < list->n; i++) {
            const replica_t *r = of_id(x, list->names[i].id);
            if (!r->alive)
                wrong(x, "a dead replica is a member");
            if (r->region[c] < x->clients[c].acked)
                wrong(x, "an acknowledged operation is lost");
        }
}

/* @return the number of errors */
static uint32_t run_once(world_t *x, uint32_t n, uint32_t rarity, plant_t plant, uint64_t seed)
{
    memset(x, 0, sizeof *x);
    x->plant = plant;
    begin(x, n, seed);
    for (uint32_t k = 0; k < STEPS && x->n_wrong == 0; k++) {
        step(x);
        if (chance(x, rarity))
            kill_replica(x);
        if (chance(x, 2 * rarity))
            kill_client(x);
    }
    x->quiet = true;
    for (uint32_t k = 0; k < QUIET && x->n_wrong == 0 && !is_at_rest(x); k++)
        step(x);
    if (x->n_wrong == 0 && !is_at_rest(x))
        wrong(x, "clients do not come to rest");
    if (x->n_wrong == 0)
        check_end(x);
    return x->n_wrong;
}

static void test_many(uint32_t n, uint32_t rarity, uint32_t runs, uint64_t seed)
{
    static world_t x;
    uint32_t n_bad = 0;
    uint64_t formed = 0, deaths = 0, added = 0, vanished = 0;
    for (uint32_t i = 0; i < runs && n_bad == 0; i++) {
        n_bad += run_once(&x, n, rarity, PLANT_NOTHING, seed + i) > 0;
        if (n_bad > 0)
            diag("TAP_SEED %" PRIu64 " + %u", seed, (unsigned)i);
        formed += x.n_formed;
        deaths += x.n_deaths;
        added += x.n_added;
        vanished += x.n_vanished;
    }
    is_int(n_bad, 0,
           "%u members at first: %" PRIu64 " chains, %" PRIu64 " deaths, %" PRIu64
           " clients vanished, %" PRIu64 " replicas added",
           (unsigned)n, formed, deaths, vanished, added);
    ok(n_bad > 0 || (formed > runs && deaths > runs && added > runs / 4), "much has happened");
}

static bool finds(plant_t plant, uint64_t seed)
{
    static world_t x;
    for (uint32_t i = 0; i < 300; i++)
        if (run_once(&x, 2, 200, plant, seed + i) > 0)
            return true;
    return false;
}

int main(void)
{
    uint64_t seed = tap_seed(17);
    plan(10);
    test_many(1, 300, 150, seed);
    test_many(2, 300, 150, seed + 1000);
    test_many(3, 400, 150, seed + 2000);
    test_many(5, 150, 150, seed + 3000);
    ok(finds(PLANT_MOVES, seed), "a copy while clients write is found");
    ok(finds(PLANT_FORGET, seed), "forgetting what members have executed is found");
    return done();
}
