/* t/unit/group_stopped.c
 *   what:   Replicas that are stopped by SIGSTOP still execute what they are armed for, because
 *           their cards do it. The client stops exactly there: a further window is accepted and
 *           waits, the next operation is refused. All goes on when the replicas continue. All old
 *           words and regions are those of a model. With the way verbs, where replicas execute by
 *           their CPUs, nothing is complete while they are stopped.
 *   needs:  no-sanitizers
 *   source: Hyperloop (the CPUs of replicas are not on the path); seeded model test
 */
#include "t/random.h"
#include "t/unit/group_children.h"

#define N      3
#define REGION ((size_t)65536)
#define WINDOW 64u
#define BYTES  512u /* of a write at most */
#define ROUNDS 300  /* refusals, or looks, after which nothing more is expected */

static unsigned char model[N][REGION], seen[REGION];
static unsigned char data[BYTES];
static uint64_t old[WINDOW][N], expected[WINDOW][N];
static pgas_group_kind_t kind_of[WINDOW];
static uint64_t n_submitted, n_checked, n_wrong;
static pgas_sync_t syncs[WINDOW];

/* ---- the model ---- */

static void model_cas(pgas_group_op_t *op, uint64_t slot)
{
    for (int i = 0; i < N; i++) {
        uint64_t word;
        memcpy(&word, model[i] + op->offset, sizeof word);
        expected[slot][i] = word;
        if ((op->u.cas.execute_map >> i & 1) != 0 && word == op->u.cas.expected)
            memcpy(model[i] + op->offset, &op->u.cas.desired, sizeof word);
    }
}

static void model_execute(pgas_group_op_t *op, uint64_t slot)
{
    for (int i = 0; i < N; i++)
        if (op->kind == PGAS_GROUP_WRITE)
            memcpy(model[i] + op->offset, op->u.data, op->bytes);
        else if (op->kind == PGAS_GROUP_MEMCPY)
            memcpy(model[i] + op->offset, model[i] + op->u.source, op->bytes);
    if (op->kind == PGAS_GROUP_CAS)
        model_cas(op, slot);
}

/* ---- operations ---- */

static pgas_group_op_t draw(uint64_t slot)
{
    pgas_group_op_t op = { .bytes = 1 + below(BYTES) };
    op.kind = (pgas_group_kind_t)(PGAS_GROUP_WRITE + below(4));
    op.offset = below(REGION / 2 - BYTES);
    if (op.kind == PGAS_GROUP_WRITE) {
        for (uint32_t i = 0; i < op.bytes; i++)
            data[i] = (unsigned char)below(256);
        op.u.data = data;
    } else if (op.kind == PGAS_GROUP_MEMCPY) {
        op.u.source = REGION / 2 + below(REGION / 2 - BYTES);
        if (below(2) == 0) {
            uint64_t swap = op.offset;
            op.offset = op.u.source;
            op.u.source = swap;
        }
    } else if (op.kind == PGAS_GROUP_CAS) {
        op.offset = below(8) * 8; /* few words, so that some of them are as expected */
        op.bytes = 8;
        memcpy(&op.u.cas.expected, model[below(N)] + op.offset, sizeof(uint64_t));
        op.u.cas.desired = pgasi_rng_u64(&rng);
        op.u.cas.execute_map = 1 + below((1u << N) - 1);
        op.u.cas.old = old[slot];
    }
    return op;
}

static void check(uint64_t number)
{
    uint64_t slot = number % WINDOW;
    n_wrong += syncs[slot].error != 0;
    if (kind_of[slot] == PGAS_GROUP_CAS)
        n_wrong += memcmp(old[slot], expected[slot], sizeof old[slot]) != 0;
}

/* Looks at those that are complete, in order, so that their slots are free. */
static void progress(void)
{
    while (n_checked < n_submitted && pgas_sync_test(&syncs[n_checked % WINDOW]) != PGAS_INPROGRESS)
        check(n_checked++);
}

/* Takes the status, because the draw must not change when there is no room. */
static pgas_status_t submit(pgas_group_t *group)
{
    static pgas_group_op_t next;
    static bool drawn;
    uint64_t slot = n_submitted % WINDOW;
    progress();
    if (n_submitted - n_checked == WINDOW)
        return PGAS_ERR_AGAIN;
    if (!drawn)
        next = draw(slot);
    drawn = true;
    pgas_status_t status = pgas_group_submit(group, &next, 1, &syncs[slot]);
    if (status != PGAS_OK)
        return status;
    drawn = false;
    kind_of[slot] = next.kind;
    model_execute(&next, slot);
    n_submitted++;
    return PGAS_OK;
}

static uint64_t limit(void)
{
    return pgasi_now_ns() + HANG_S * UINT64_C(1000000000);
}

static bool all_complete(void)
{
    for (uint64_t until = limit(); n_checked < n_submitted && pgasi_now_ns() < until;)
        progress();
    return n_checked == n_submitted;
}

static bool submit_some(pgas_group_t *group, uint64_t n)
{
    for (uint64_t until = limit(), end = n_submitted + n;
         n_submitted < end && pgasi_now_ns() < until;) {
        pgas_status_t status = submit(group);
        if (status != PGAS_OK && status != PGAS_ERR_AGAIN)
            bail("pgas_group_submit: %s", pgas_status_name(status));
    }
    return all_complete();
}

/* Submits until so many are complete and there is no room for more, then tries some more.
 * @return how many completed */
static uint64_t submit_all(pgas_group_t *group, uint64_t n_expected)
{
    uint64_t before = n_checked;
    int refused = 0;
    for (uint64_t until = limit(); refused < ROUNDS && pgasi_now_ns() < until;) {
        pgas_status_t status = submit(group);
        if (status != PGAS_OK && status != PGAS_ERR_AGAIN)
            bail("pgas_group_submit: %s", pgas_status_name(status));
        refused += status == PGAS_ERR_AGAIN && n_checked - before >= n_expected;
        if (status == PGAS_ERR_AGAIN)
            sched_yield();
    }
    return n_checked - before;
}

static int wrong_regions(void)
{
    int n = 0;
    for (int i = 0; i < N; i++) {
        region_of(i, seen, REGION);
        n += memcmp(seen, model[i], REGION) != 0;
    }
    return n;
}

/* ---- promises ---- */

/* Until the replicas have refilled as far as they can. */
static void settle(pgas_group_t *group)
{
    uint32_t credits = 0;
    for (uint64_t until = limit(); pgasi_now_ns() < until;) {
        uint32_t now = describe(group).credits;
        if (now >= WINDOW && now == credits)
            return;
        credits = now;
        pgas_sync_test(&syncs[0]);
        sched_yield();
    }
}

static void armed_window(pgas_group_t *group)
{
    ok(submit_some(group, 1000), "1000 operations of all kinds");
    settle(group);
    signal_children(SIGSTOP);
    uint32_t credits = describe(group).credits;
    uint64_t n = submit_all(group, credits);
    ok(n >= WINDOW, "all replicas are stopped, and %" PRIu64 " operations are complete", n);
    is_int((int64_t)n, (int64_t)credits, "as many as the replicas were ready for, and no more");
    pgas_group_info_t info = describe(group);
    ok(info.credits == 0 && info.under_way == WINDOW, "no credits are left, a window waits");
    const pgas_group_op_t one = PGAS_GFLUSH(0, 8);
    is_int(pgas_group_submit(group, &one, 1, NULL), PGAS_ERR_AGAIN, "the next one is refused");
    signal_children(SIGCONT);
    ok(submit_some(group, 1000), "the replicas continue, and so do operations");
    is_int((int64_t)n_wrong, 0, "all old words are those of the model");
    is_int(wrong_regions(), 0, "and so are all regions");
}

static void by_cpus(void)
{
    n_submitted = n_checked = n_wrong = 0;
    memset(model, 0, sizeof model);
    start_children(N, REGION);
    pgas_group_t *group = join_children(PGAS_GROUP_VERBS, WINDOW, PGAS_GROUP_FULL_AGAIN);
    ok(submit_some(group, 1000), "the way verbs: 1000 operations");
    signal_children(SIGSTOP);
    uint64_t before = n_checked;
    while (n_submitted - before < 8 && submit(group) == PGAS_OK)
        continue;
    for (int i = 0; i < ROUNDS; i++)
        progress();
    is_int((int64_t)(n_checked - before), 0, "while the replicas are stopped none is complete");
    signal_children(SIGCONT);
    ok(all_complete(), "then they are");
    is_int((int64_t)n_wrong + wrong_regions(), 0, "and as in the model");
    must(pgas_group_destroy(group), "pgas_group_destroy");
    end_children();
}

int main(void)
{
    plan(12);
    pgasi_rng_seed(&rng, tap_seed(17));
    use_own_nic();
    start_children(N, REGION);
    pgas_group_t *group = join_children(PGAS_GROUP_CHAIN, WINDOW, PGAS_GROUP_FULL_AGAIN);
    armed_window(group);
    must(pgas_group_destroy(group), "pgas_group_destroy");
    end_children();
    by_cpus();
    return done();
}
