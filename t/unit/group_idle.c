/* t/unit/group_idle.c
 *   what:   In the armed window the processes of replicas use no CPU time: none within a tick of
 *           the system's clock, for thousands of operations, by the way chain. By the way verbs
 *           replicas execute, and the same measurement finds it.
 *   needs:  no-sanitizers
 *   turn:   waits
 *   source: Hyperloop (no CPU of a replica on the path)
 */
#include "t/unit/group_children.h"

#define N      3
#define REGION ((size_t)1 << 20)
#define WINDOW 2000u
#define BYTES  1024u
#define CHUNKS 500 /* of the other way: windows until its use is found */

static unsigned char data[BYTES];

/* CPU time of all replicas, in ticks: user and system time. */
static uint64_t ticks_of_all(void)
{
    uint64_t all = 0, ticks;
    for (int i = 0; i < N; i++) {
        state_of(children[i].pid, &ticks);
        all += ticks;
    }
    return all;
}

static pgas_status_t write_window(pgas_group_t *group, uint32_t n)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    for (uint32_t i = 0; i < n; i++) {
        const pgas_group_op_t op = PGAS_GWRITE(i % (REGION / BYTES) * BYTES, data, BYTES);
        must(pgas_group_submit(group, &op, 1, &sync), "pgas_group_submit");
    }
    return pgas_sync_wait(&sync, HANG_S * INT64_C(1000000));
}

/* Until the replicas are ready for a whole window. */
static bool is_armed(pgas_group_t *group)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t limit_ns = pgasi_now_ns() + HANG_S * UINT64_C(1000000000);
    while (describe(group).credits < WINDOW && pgasi_now_ns() < limit_ns) {
        pgas_sync_test(&sync);
        sched_yield();
    }
    return describe(group).credits >= WINDOW;
}

static void chain_uses_none(void)
{
    start_children(N, REGION);
    pgas_group_t *group = join_children(PGAS_GROUP_CHAIN, WINDOW, PGAS_GROUP_FULL_WAIT);
    ok(write_window(group, WINDOW) == PGAS_OK && is_armed(group), "a window is armed");
    uint64_t before = ticks_of_all();
    ok(write_window(group, WINDOW) == PGAS_OK, "its %u operations are complete", WINDOW);
    uint64_t used = ticks_of_all() - before;
    ok(used <= N, "the %d replicas used %" PRIu64 " ticks of CPU time, at most one each", N, used);
    must(pgas_group_destroy(group), "pgas_group_destroy");
    end_children();
}

static void verbs_is_found(void)
{
    start_children(N, REGION);
    pgas_group_t *group = join_children(PGAS_GROUP_VERBS, WINDOW, PGAS_GROUP_FULL_WAIT);
    uint64_t before = ticks_of_all();
    bool good = true;
    int n = 0;
    while (good && ticks_of_all() - before <= N && n < CHUNKS) {
        good = write_window(group, WINDOW) == PGAS_OK;
        n++;
    }
    ok(good && ticks_of_all() - before > N,
       "by the way verbs they used %" PRIu64 " ticks in %d windows", ticks_of_all() - before, n);
    must(pgas_group_destroy(group), "pgas_group_destroy");
    end_children();
}

int main(void)
{
    plan(4);
    use_own_nic();
    chain_uses_none();
    verbs_is_found();
    return done();
}
