/* what: A client never sends more than its window or than each replica has armed. Acknowledgements
 *       complete pieces in order, and an operation once. When chains end at any moment, and are
 *       formed anew without some members or with a new one, each replica executes each piece
 *       once and in order, and the caller gets the old words of that execution. Two planted
 *       errors are found.
 * needs: tsan-ok
 * source: seeded model test; replicas and messages are lists in memory */
#include "base/checks.h"
#include "base/rng.h"
#include "group/window.h"
#include "t/must.h"
#include "t/tap.h"

#define N_MAX   6u
#define PENDING 64u   /* messages between two replicas; more than any window here */
#define KEPT    1024u /* pieces whose words are kept */
#define OPS     512u
#define STEPS   50000u

typedef enum { PLANT_NOTHING, PLANT_TWICE, PLANT_CREDIT } plant_t;

typedef struct {
    pgasi_group_piece_t piece;
    uint64_t count; /* names the piece in every chain */
    uint64_t words[PGAS_GROUP_REPLICAS_MAX];
} message_t;

/* A replica, and the messages that it has not executed. */
typedef struct {
    uint64_t next;        /* the piece that it must execute next */
    uint64_t found[KEPT]; /* old words of its executions */
    uint64_t executed, armed;
    message_t pending[PENDING];
    uint32_t n_pending;
} replica_t;

typedef struct {
    pgasi_rng_t rng;
    plant_t plant;
    pgasi_group_window_t w;
    replica_t replicas[N_MAX];
    uint32_t n;
    uint64_t acked;
    uint64_t count_of_op; /* operations begun */
    pgas_sync_t syncs[OPS];
    uint64_t last_of[OPS]; /* the last piece of the operation */
    uint64_t olds[KEPT][PGAS_GROUP_REPLICAS_MAX];
    message_t acks[PENDING];
    uint32_t n_acks, n_wrong;
    uint64_t n_formed;
} world_t;

static void wrong(world_t *x, const char *what)
{
    if (x->n_wrong++ == 0 && x->plant == PLANT_NOTHING)
        diag("%s", what);
}

static void take_first(message_t *list, uint32_t *n)
{
    memmove(list, list + 1, --*n * sizeof *list);
}

/* ---- replicas ---- */

static void execute(world_t *x, uint32_t i)
{
    replica_t *r = &x->replicas[i];
    message_t m = r->pending[0];
    take_first(r->pending, &r->n_pending);
    if (m.piece.number != r->executed || r->executed >= r->armed)
        wrong(x, "a piece that the replica did not expect");
    if (!(m.piece.skip_map >> i & 1)) {
        if (m.count != r->next)
            wrong(x, m.count < r->next ? "executed twice" : "a piece is missing");
        r->next = m.count + 1;
        m.words[i] = r->found[m.count % KEPT] = pgasi_rng_u64(&x->rng);
    } else if (m.words[i] != r->found[m.count % KEPT]) {
        wrong(x, "the message lacks the old word of a replica that skips it");
    }
    r->executed++;
    bool last = i + 1 == x->n;
    message_t *list = last ? x->acks : x->replicas[i + 1].pending;
    uint32_t *n = last ? &x->n_acks : &x->replicas[i + 1].n_pending;
    if (*n == PENDING)
        wrong(x, "more under way than the window");
    else
        list[(*n)++] = m;
}

static void arm(world_t *x, uint32_t i)
{
    replica_t *r = &x->replicas[i];
    uint64_t most = r->executed + x->w.mask + 1;
    r->armed += pgasi_rng_below(&x->rng, most - r->armed + 1);
    pgasi_group_window_arm(&x->w, i, r->armed + (x->plant == PLANT_CREDIT));
}

/* ---- the client ---- */

static void submit(world_t *x)
{
    uint64_t op = x->count_of_op % OPS;
    uint32_t n_pieces = 1 + (uint32_t)pgasi_rng_below(&x->rng, PGASI_MIN(x->w.size, 3u));
    if (pgasi_group_window_room(&x->w) < n_pieces)
        return;
    for (uint32_t k = 0; k < n_pieces; k++) {
        uint64_t count = x->w.pushed;
        pgasi_group_slot_t *slot = pgasi_group_window_push(&x->w);
        slot->piece.kind = PGAS_GROUP_CAS;
        slot->piece.source = count;
        slot->piece.execute_map = ~UINT64_C(0);
        slot->old = x->olds[count % KEPT];
        slot->is_last = k + 1 == n_pieces;
        slot->sync = slot->is_last ? &x->syncs[op] : NULL;
        x->last_of[op] = count;
    }
    x->syncs[op].count++;
    x->count_of_op++;
}

static void send(world_t *x)
{
    if (pgasi_group_window_sendable(&x->w) == 0)
        return;
    pgasi_group_slot_t *slot = pgasi_group_window_send(&x->w);
    message_t m = { .piece = slot->piece, .count = slot->piece.source };
    const uint64_t *known = pgasi_group_window_known(&x->w, slot);
    if (known != NULL)
        memcpy(m.words, known, sizeof m.words);
    replica_t *first = &x->replicas[0];
    if (first->n_pending == PENDING || x->w.sent - x->w.acked > x->w.size)
        wrong(x, "more under way than the window");
    else
        first->pending[first->n_pending++] = m;
}

static void lower(world_t *x, pgas_sync_t *sync, bool complete)
{
    uint64_t op = (uint64_t)(sync - x->syncs);
    if (--sync->count < 0)
        wrong(x, "an operation completed twice");
    if (complete != (x->last_of[op] < x->w.acked))
        wrong(x, "an operation completed too early");
}

static void take_ack(world_t *x)
{
    if (x->n_acks == 0)
        return;
    message_t m = x->acks[0];
    take_first(x->acks, &x->n_acks);
    pgasi_group_slot_t *slot = pgasi_group_window_ack(&x->w, m.words);
    if (slot == NULL || slot->piece.source != x->acked || m.count != x->acked) {
        wrong(x, "an acknowledgement out of order");
        return;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->replicas[i].next <= x->acked)
            wrong(x, "acknowledged, but not executed");
        if (i < slot->n_old && slot->old[i] != x->replicas[i].found[x->acked % KEPT])
            wrong(x, "an old word is wrong");
    }
    if (slot->sync != NULL)
        lower(x, slot->sync, true);
    x->acked++;
}

/* ---- chains ---- */

/* Each replica that lives executes the messages that have arrived, and reports. Others are lost. */
static void close_chain(world_t *x, uint32_t dead)
{
    while (x->n_acks > 0 && pgasi_rng_below(&x->rng, 2))
        take_ack(x);
    x->n_acks = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        replica_t *r = &x->replicas[i];
        r->n_pending = (uint32_t)pgasi_rng_below(&x->rng, r->n_pending + 1);
    }
    for (uint32_t i = x->n; i-- > 0;) {
        while (i != dead && x->replicas[i].n_pending > 0)
            execute(x, i);
        x->replicas[i].n_pending = 0; /* later messages of the one before it are lost */
    }
    x->n_acks = 0;
}

/* The pieces that a member of the new chain has executed, with the last old words. */
static void report(world_t *x, uint32_t i)
{
    const replica_t *r = &x->replicas[i];
    uint64_t words[KEPT], executed = x->plant == PLANT_TWICE ? x->w.acked : r->next,
                          n = PGASI_MIN(executed, (uint64_t)x->w.mask + 1);
    for (uint64_t k = 0; k < n; k++)
        words[k] = r->found[(executed - n + k) % KEPT];
    if (pgasi_group_window_opened(&x->w, i, executed, words, (uint32_t)n) != PGAS_OK)
        wrong(x, "a report is refused");
}

static void form_chain(world_t *x, uint32_t dead, bool add)
{
    uint32_t from[N_MAX], n = 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (i != dead) {
            x->replicas[n] = x->replicas[i];
            from[n++] = i;
        }
    if (add && n < N_MAX) {
        x->replicas[n] = x->replicas[n - 1];
        from[n] = from[n - 1];
        n++;
    }
    x->n = n;
    for (uint32_t i = 0; i < n; i++)
        x->replicas[i].executed = x->replicas[i].armed = x->replicas[i].n_pending = 0;
    pgasi_group_window_reform(&x->w, n, from);
    for (uint32_t i = 0; i < n; i++)
        report(x, i);
    x->n_formed++;
}

static void end_chain(world_t *x)
{
    bool death = x->n > 1 && pgasi_rng_below(&x->rng, 2);
    uint32_t dead = death ? (uint32_t)pgasi_rng_below(&x->rng, x->n) : N_MAX;
    uint64_t at = 0;
    close_chain(x, dead);
    if (death)
        for (pgas_sync_t *sync; (sync = pgasi_group_window_fail(&x->w, &at)) != NULL;)
            lower(x, sync, false);
    form_chain(x, dead, x->n == 1 || pgasi_rng_below(&x->rng, 2));
}

static void step(world_t *x, uint32_t rarity)
{
    uint32_t i = (uint32_t)pgasi_rng_below(&x->rng, x->n);
    switch (pgasi_rng_below(&x->rng, 5)) {
    case 0:
        submit(x);
        break;
    case 1:
        send(x);
        break;
    case 2:
        take_ack(x);
        break;
    case 3:
        arm(x, i);
        break;
    default:
        if (x->replicas[i].n_pending > 0)
            execute(x, i);
    }
    if (rarity > 0 && pgasi_rng_below(&x->rng, rarity) == 0)
        end_chain(x);
}

/* All operations complete in the end. */
static void settle(world_t *x)
{
    for (uint32_t round = 0; x->w.acked < x->w.pushed && x->n_wrong == 0; round++) {
        send(x);
        for (uint32_t i = 0; i < x->n; i++) {
            arm(x, i);
            if (x->replicas[i].n_pending > 0)
                execute(x, i);
        }
        take_ack(x);
        if (round > 100000)
            wrong(x, "the window does not empty");
    }
    for (uint32_t op = 0; op < OPS; op++)
        if (x->syncs[op].count != 0)
            wrong(x, "an operation has not completed once");
}

/* @param rarity a chain ends once in so many steps @return the number of errors */
static uint32_t run(uint32_t size, uint32_t n, uint32_t rarity, plant_t plant, uint64_t seed)
{
    static world_t x;
    memset(&x, 0, sizeof x);
    pgasi_rng_seed(&x.rng, seed);
    x.plant = plant;
    x.n = n;
    must(pgasi_group_window_init(&x.w, size, n), "a window");
    for (uint32_t k = 0; k < STEPS && x.n_wrong == 0; k++)
        step(&x, rarity);
    settle(&x);
    if (plant == PLANT_NOTHING && (x.acked < 200 || (rarity > 0 && x.n_formed < 20)))
        wrong(&x, "hardly anything happened");
    pgasi_group_window_fini(&x.w);
    return x.n_wrong;
}

static void test_reports(void)
{
    pgasi_group_window_t w;
    uint64_t words[8] = { 0 };
    const uint32_t from[] = { 0, 1 };
    must(pgasi_group_window_init(&w, 4, 2), "a window");
    pgasi_group_window_arm(&w, 0, 4);
    pgasi_group_window_arm(&w, 1, 3);
    for (int i = 0; i < 4; i++)
        pgasi_group_window_push(&w);
    is_int(pgasi_group_window_room(&w), 0, "the window is full");
    is_int(pgasi_group_window_sendable(&w), 3, "the least armed replica limits what may be sent");
    pgasi_group_window_arm(&w, 0, 2);
    is_int(pgasi_group_window_credits(&w), 3, "an older report changes nothing");
    ok(pgasi_group_window_ack(&w, words) == NULL, "an acknowledgement of nothing is refused");
    pgasi_group_window_send(&w);
    pgasi_group_window_send(&w);
    ok(pgasi_group_window_ack(&w, words) != NULL, "an acknowledgement");
    pgasi_group_window_reform(&w, 2, from);
    is_int(pgasi_group_window_opened(&w, 0, 5, words, 5), PGAS_ERR_FORMAT, "more than was sent");
    is_int(pgasi_group_window_opened(&w, 0, 2, words, 0), PGAS_ERR_FORMAT, "too few old words");
    is_int(pgasi_group_window_opened(&w, 2, 2, words, 2), PGAS_ERR_FORMAT, "no such replica");
    is_int(pgasi_group_window_opened(&w, 0, 0, words, 0), PGAS_ERR_FORMAT,
           "less than was acknowledged");
    is_int(pgasi_group_window_opened(&w, 0, 2, words, 2), PGAS_OK, "a right report");
    pgasi_group_window_fini(&w);
}

int main(void)
{
    static const struct {
        uint32_t size, n, rarity;
    } cases[] = { { 1, 1, 0 },  { 4, 3, 0 },   { 7, 5, 0 },    { 1, 3, 300 }, { 4, 2, 100 },
                  { 4, 3, 80 }, { 7, 5, 200 }, { 33, 6, 500 }, { 40, 1, 300 } };
    plan((int)PGASI_ARRAY_LENGTH(cases) + 12);
    uint64_t seed = tap_seed(17);
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++)
        is_int(run(cases[i].size, cases[i].n, cases[i].rarity, PLANT_NOTHING, seed + i), 0,
               "window %u, %u replicas, %s", (unsigned)cases[i].size, (unsigned)cases[i].n,
               cases[i].rarity ? "chains end" : "one chain");
    test_reports();
    ok(run(8, 3, 100, PLANT_TWICE, seed) > 0, "forgetting what replicas have executed is found");
    ok(run(8, 3, 100, PLANT_CREDIT, seed) > 0, "one credit too many is found");
    return done();
}
