/* what: The coherence protocol's table loses no write and no contribution over a network with any
 *       order of events, and settles each race for which it was made. A changed table, or one
 *       without some action, is noticed.
 * source: src/array/state.h; DArray (Ding, Han, Chen; ICPP 2023), figure 9 and table 1; a plain
 * number as oracle */
#include "t/tap.h"
#include "t/unit/array_net.h"

/* Nodes, and a thread of each; the second one is the next number. */
enum { HOME, ONE, TWO };
enum { AT_HOME = 0, AT_ONE = 2, AT_TWO = 4 };

static net_t net;
static bool as_told;

/* A step of a story: must be possible. */
#define NOW(what)         tell((what), #what, __LINE__)
#define IN_STATE(n, name) tell(net.node[n].state == PGASI_##name, #n " is in " #name, __LINE__)

static void tell(bool holds, const char *what, int line)
{
    if (!holds && as_told)
        diag("line %d: not so: %s (home %s, one %s, two %s) %s", line, what,
             pgasi_array_state_name(net.node[HOME].state),
             pgasi_array_state_name(net.node[ONE].state),
             pgasi_array_state_name(net.node[TWO].state), net.error);
    as_told = as_told && holds;
}

static void story(net_way_t way)
{
    net_start(&net, 3, pgasi_array_step, 1);
    net.way = way;
    net.node[HOME].value = net.truth = 40;
    as_told = true;
}

/* The thread does it, and all comes to rest. */
static void did(int thread, net_kind_t kind, uint64_t operand)
{
    NOW(net_begin(&net, thread, kind, operand));
    net_finish(&net);
}

/* A thread wants the chunk and requests the access that it needs. */
static void wants(int thread, net_kind_t kind, uint64_t operand)
{
    NOW(net_begin(&net, thread, kind, operand));
    NOW(net_ask(&net, thread));
}

/* All steps under way end. Then every thread reads the value. */
static void ends(uint64_t value, const char *what)
{
    net_finish(&net);
    tell(net.truth == value, "the value", __LINE__);
    for (int t = AT_HOME; t <= AT_TWO; t += 2)
        did(t, NET_R, 0);
    ok(as_told && !net.error[0], "%s%s%s", what, net.error[0] ? ": " : "", net.error);
}

/* ---- races ---- */

static void an_upgrade_loses_to_an_invalidation(void)
{
    story(NET_COPIED);
    did(AT_ONE, NET_R, 0);
    wants(AT_HOME, NET_W, 41);
    wants(AT_TWO, NET_R, 0);
    NOW(net_deliver(&net, TWO, HOME));
    wants(AT_ONE, NET_W, 42);
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(ONE, C_SW);
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_SWi);
    NOW(net_quiet(&net, ONE));
    IN_STATE(ONE, C_IW);
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(HOME, H_Uw); /* home writes, then TWO is to read */
    NOW(net_leave(&net, AT_HOME));
    NOW(net_quiet(&net, HOME));
    IN_STATE(HOME, H_Sv); /* ONE is no sharer: its request has become a fetch */
    ends(42, "an upgrade that loses to an invalidation gets the data");
}

static void an_upgrade_meets_dirty(void)
{
    story(NET_COPIED);
    did(AT_ONE, NET_R, 0);
    did(AT_TWO, NET_R, 0);
    wants(AT_ONE, NET_W, 41);
    wants(AT_TWO, NET_W, 42);
    NOW(net_deliver(&net, ONE, HOME));
    NOW(net_deliver(&net, TWO, HOME));
    NOW(net_quiet(&net, HOME));
    NOW(net_deliver(&net, HOME, TWO));
    NOW(net_quiet(&net, TWO));
    NOW(net_deliver(&net, TWO, HOME));
    IN_STATE(HOME, H_Dr); /* ONE has it, and is to give it back before it knows */
    IN_STATE(ONE, C_SW);
    IN_STATE(TWO, C_IW);
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_D);
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_Dq);
    ends(42, "an upgrade that meets Dirty waits for the owner's data");
}

static void a_fetch_during_write_back(void)
{
    story(NET_LATE);
    did(AT_ONE, NET_W, 41);
    NOW(net_evict(&net, ONE));
    NOW(net_quiet(&net, ONE));
    IN_STATE(ONE, C_W);
    NOW(net_begin(&net, AT_ONE, NET_R, 0));
    NOW(!net_ask(&net, AT_ONE)); /* not before home has it */
    wants(AT_TWO, NET_R, 0);
    NOW(net_deliver(&net, TWO, HOME));
    IN_STATE(HOME, H_Dl);
    NOW(net_deliver(&net, HOME, ONE)); /* a request for a chunk that is on its way */
    IN_STATE(ONE, C_W);
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(HOME, H_S);
    ends(41, "a fetch during write-back gets the written value");
}

static void an_invalidation_of_an_evicted_line(void)
{
    story(NET_COPIED);
    did(AT_ONE, NET_R, 0);
    NOW(net_evict(&net, ONE));
    NOW(net_quiet(&net, ONE));
    IN_STATE(ONE, C_I);
    NOW(net.member[ONE]); /* the home has not received the report */
    wants(AT_HOME, NET_W, 41);
    IN_STATE(HOME, H_Sx);
    wants(AT_ONE, NET_R, 0);
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_IS); /* answered, and still waiting for its data */
    ends(41, "an invalidation of a line that is evicted already is acknowledged");
}

static void acknowledgements_come_before_their_count_is_known(void)
{
    story(NET_COPIED);
    did(AT_ONE, NET_R, 0);
    did(AT_TWO, NET_R, 0);
    NOW(net_try(&net, AT_HOME, NET_R, 0));
    wants(AT_ONE, NET_W, 41);
    NOW(net_deliver(&net, ONE, HOME));
    NOW(net_deliver(&net, HOME, TWO));
    NOW(net_quiet(&net, TWO));
    /* the only acknowledgement, and home's own threads are still inside */
    NOW(net_deliver(&net, TWO, HOME));
    IN_STATE(HOME, H_Su);
    NOW(net.pending == 1);
    NOW(!net_quiet(&net, HOME));
    NOW(net_leave(&net, AT_HOME));
    NOW(net_quiet(&net, HOME));
    IN_STATE(HOME, H_D);
    ends(41, "acknowledgements before home's own threads have left do not end the wait");
}

static void a_failed_try_undoes(void)
{
    static net_t before;
    story(NET_COPIED);
    did(AT_ONE, NET_R, 0);
    NOW(net_try(&net, AT_ONE, NET_R, 0));
    wants(AT_HOME, NET_W, 41);
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_Si);
    memcpy(&before, &net, sizeof net);
    NOW(!net_try(&net, AT_ONE + 1, NET_R, 0));
    NOW(!net_evict(&net, ONE));
    NOW(memcmp(&before, &net, sizeof net) == 0);
    NOW(net_leave(&net, AT_ONE));
    NOW(net_quiet(&net, ONE)); /* it is not counted as one that is inside */
    ends(41, "a try that finds the chunk closed changes nothing");
}

static void recall_of_operated_while_lines_are_evicted(void)
{
    story(NET_LATE);
    did(AT_ONE, NET_O1, 1);
    did(AT_TWO, NET_O1, 2);
    did(AT_HOME, NET_O1, 4);
    NOW(net_evict(&net, ONE));
    NOW(net_quiet(&net, ONE));
    wants(AT_HOME, NET_R, 0);
    IN_STATE(HOME, H_Or);
    NOW(net_deliver(&net, HOME, ONE)); /* a request for a chunk on its way: no second answer */
    IN_STATE(ONE, C_W);
    NOW(net.channel[ONE][HOME].n == 1);
    NOW(net_evict(&net, TWO));
    NOW(net_quiet(&net, TWO));
    NOW(net_deliver(&net, TWO, HOME));
    NOW(net_quiet(&net, HOME));
    IN_STATE(HOME, H_Or);
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(HOME, H_U);
    ends(47, "recall of Operated while lines are being evicted: each operand once");
}

static void evictions_meet_while_operands_are_merged(void)
{
    story(NET_LATE);
    did(AT_ONE, NET_O1, 1);
    did(AT_TWO, NET_O1, 2);
    NOW(net_try(&net, AT_HOME, NET_O1, 4));
    NOW(net_evict(&net, ONE));
    NOW(net_quiet(&net, ONE));
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(HOME, H_Om);
    wants(AT_HOME + 1, NET_R, 0);
    NOW(net_evict(&net, TWO));
    NOW(net_quiet(&net, TWO));
    NOW(net_deliver(&net, TWO, HOME));
    IN_STATE(HOME, H_Om);
    NOW(!net_quiet(&net, HOME)); /* one combines in place */
    NOW(net_leave(&net, AT_HOME));
    NOW(net_quiet(&net, HOME));
    IN_STATE(HOME, H_Or); /* only the threads here have it */
    ends(47, "operands that come while others are merged are merged, too");
}

static void the_operator_changes_while_operands_are_in_flight(void)
{
    story(NET_COPIED);
    did(AT_ONE, NET_O1, 2);
    NOW(net_evict(&net, ONE));
    NOW(net_quiet(&net, ONE));
    wants(AT_TWO, NET_O2, 3);
    NOW(net_deliver(&net, TWO, HOME));
    IN_STATE(HOME, H_Or);
    NOW(net_quiet(&net, HOME));
    IN_STATE(HOME, H_Or); /* the operands of the first operator are not here */
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(HOME, H_O);
    NOW(net.node[HOME].op == 2 && net.node[HOME].value == 42);
    ends(126, "a change of operator waits for operands in flight");
}

static void a_pin_meets_a_recall(void)
{
    story(NET_AHEAD);
    did(AT_ONE, NET_W, 41);
    NOW(net_try(&net, AT_ONE, NET_W, 42));
    wants(AT_HOME, NET_R, 0);
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_Dd);
    NOW(!net_quiet(&net, ONE)); /* pinned for writing */
    NOW(net_try(&net, AT_ONE + 1, NET_R, 0));
    NOW(net_leave(&net, AT_ONE));
    NOW(!net_try(&net, AT_ONE, NET_W, 43));
    NOW(net_quiet(&net, ONE)); /* one pinned for reading may stay */
    IN_STATE(ONE, C_Sa);
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(HOME, H_S);
    wants(AT_TWO, NET_W, 43);
    NOW(net_deliver(&net, TWO, HOME));
    NOW(net_deliver(&net, HOME, ONE));
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_Si);
    NOW(!net_quiet(&net, ONE)); /* but not while a thread of another node writes */
    NOW(net_leave(&net, AT_ONE + 1));
    ends(43, "a pin that meets a recall delays it, for writing all, for reading only writers");
}

static void a_buffer_outlives_its_transfer(void)
{
    story(NET_LATE);
    did(AT_ONE, NET_W, 41);
    wants(AT_HOME, NET_R, 0);
    NOW(net_deliver(&net, HOME, ONE));
    NOW(net_quiet(&net, ONE));
    IN_STATE(ONE, C_Sa);
    NOW(net_begin(&net, AT_ONE, NET_W, 42));
    NOW(!net_ask(&net, AT_ONE));
    NOW(!net_evict(&net, ONE)); /* home has yet to copy it from there */
    net_finish(&net);
    IN_STATE(ONE, C_D);
    NOW(net_evict(&net, ONE));
    NOW(net_quiet(&net, ONE));
    IN_STATE(ONE, C_W);
    NOW(net.node[ONE].value == 42);
    NOW(net_deliver(&net, ONE, HOME));
    IN_STATE(ONE, C_W);
    NOW(net.node[HOME].value == 42);
    NOW(net_deliver(&net, HOME, ONE));
    IN_STATE(ONE, C_I);
    NOW(net.node[ONE].value == NET_POISON);
    ends(42, "a line is not free, nor written, before home has its contents");
}

/* ---- by chance ---- */

static const unsigned mixes[] = {
    1 << NET_R | 1 << NET_W,
    1 << NET_R | 1 << NET_O1 | 1 << NET_O2,
    1 << NET_W | 1 << NET_O2,
    1 << NET_R | 1 << NET_W | 1 << NET_O1 | 1 << NET_O2,
};

static void any_order_of_events(uint64_t seed)
{
    uint64_t seen[PGASI_ARRAY_N_STATES] = { 0 }, n_reads = 0;
    int n_states = 0;
    for (int n_nodes = 2; n_nodes <= NET_NODES; n_nodes++) {
        char error[sizeof net.error] = "";
        for (int i = 0; i < 400 && !error[0]; i++) {
            net_start(&net, n_nodes, pgasi_array_step, seed + (uint64_t)i);
            net_run(&net, 80, mixes[i % 4]);
            memcpy(error, net.error, sizeof error);
            n_reads += net.n_reads;
            for (int s = 0; s < PGASI_ARRAY_N_STATES; s++)
                seen[s] += net.seen[s];
        }
        ok(!error[0], "%d nodes, reads, writes and two operators in any order%s%s", n_nodes,
           error[0] ? ": " : "", error);
    }
    for (int s = 0; s < PGASI_ARRAY_N_STATES; s++)
        n_states += seen[s] > 0;
    is_int(n_states, PGASI_ARRAY_N_STATES, "every state was come to");
    ok(n_reads > 10000, "and %llu values were compared", (unsigned long long)n_reads);
}

/* ---- the oracle can fail ---- */

static struct {
    pgasi_array_state_t state;
    pgasi_array_event_t event;
    pgasi_array_step_t step;
} change;

static const pgasi_array_step_t *changed_step(pgasi_array_state_t state, pgasi_array_event_t event)
{
    return state == change.state && event == change.event ? &change.step
                                                          : pgasi_array_step(state, event);
}

static void change_that(pgasi_array_state_t state, pgasi_array_event_t event)
{
    change.state = state;
    change.event = event;
    change.step = *pgasi_array_step(state, event);
}

#define ACTION(name) (UINT64_C(1) << PGASI_A_##name)
#define OF(s, e)     change_that(PGASI_##s, PGASI_E_##e)

/* By the network with the change, in one of many runs. */
static bool fails(uint64_t seed)
{
    for (int i = 0; i < 400; i++) {
        net_start(&net, 3, changed_step, seed + (uint64_t)i);
        net_run(&net, 80, mixes[i % 4]);
        if (net.error[0])
            return true;
    }
    return false;
}

static void is_noticed(const char *what, uint64_t seed)
{
    bool found = fails(seed);
    ok(found, "%s: %s (made on purpose)", what, net.error);
}

static void a_changed_table_is_noticed(uint64_t seed)
{
    OF(H_Or, ALL_IN);
    change.step.actions &= ~ACTION(MERGE);
    is_noticed("operands that are not merged", seed);
    OF(H_O, WB_O);
    change.step.actions &= ~ACTION(QUIESCE);
    is_noticed("operands merged while threads combine", seed);
    OF(C_Oq, MERGED);
    change.step.actions = ACTION(SEND_WB_O);
    change.step.next = PGASI_C_W;
    is_noticed("operands that are merged twice", seed);
    OF(C_SWi, QUIET);
    change.step.actions = 0;
    change.step.next = PGASI_C_SW;
    is_noticed("an upgrade that does not lose", seed);
    OF(H_Z, UPGRADE);
    change.step.actions ^= ACTION(SEND_DATA_W) | ACTION(SEND_GRANT_W);
    is_noticed("a grant without data", seed);
    OF(C_W, GIVE);
    change.step.actions = ACTION(SEND_ACK);
    is_noticed("an answer too much", seed);
    OF(C_Dq, QUIET);
    change.step.actions |= ACTION(FREE);
    change.step.next = PGASI_C_I;
    is_noticed("a line that is free too early", seed);
    OF(H_Uw, ALL_IN);
    change.step.actions = ACTION(SERVE) | ACTION(OPEN_ALL);
    is_noticed("home that writes while others read", seed);
}

/* Actions that spare messages, or repeat what holds already, or serve sets of ranks that are known
 * roughly; and those that the simulated network itself makes, when it takes up the first
 * request. */
static bool may_be_left_out(pgasi_array_state_t state, pgasi_array_event_t event, int action)
{
    return action == PGASI_A_SERVE || action == PGASI_A_NEXT || action == PGASI_A_DROP ||
           (action == PGASI_A_OPEN_READ && (state == PGASI_H_Uw || state == PGASI_C_Dd)) ||
           (action == PGASI_A_RUN && state == PGASI_C_Sa) ||
           (state == PGASI_H_Or && event == PGASI_E_ACK);
}

static void every_action_counts(uint64_t seed)
{
    int n = 0, n_missed = 0;
    for (int i = 0; i < PGASI_ARRAY_N_STATES * PGASI_ARRAY_N_EVENTS; i++) {
        pgasi_array_state_t state = (pgasi_array_state_t)(i / PGASI_ARRAY_N_EVENTS);
        pgasi_array_event_t event = (pgasi_array_event_t)(i % PGASI_ARRAY_N_EVENTS);
        for (uint64_t left = pgasi_array_step(state, event)->actions; left; left &= left - 1) {
            int action = __builtin_ctzll(left);
            change_that(state, event);
            change.step.actions &= ~(UINT64_C(1) << action);
            if (may_be_left_out(state, event, action) || (n++, fails(seed)))
                continue;
            n_missed++;
            diag("not missed: %s, %s without %s", pgasi_array_state_name(state),
                 pgasi_array_event_name(event),
                 pgasi_array_action_name((pgasi_array_action_t)action));
        }
    }
    is_int(n_missed, 0, "each of %d actions, left out, is missed", n);
}

int main(void)
{
    plan(25);
    uint64_t seed = tap_seed(0);
    an_upgrade_loses_to_an_invalidation();
    an_upgrade_meets_dirty();
    a_fetch_during_write_back();
    an_invalidation_of_an_evicted_line();
    acknowledgements_come_before_their_count_is_known();
    a_failed_try_undoes();
    recall_of_operated_while_lines_are_evicted();
    evictions_meet_while_operands_are_merged();
    the_operator_changes_while_operands_are_in_flight();
    a_pin_meets_a_recall();
    a_buffer_outlives_its_transfer();
    any_order_of_events(seed);
    a_changed_table_is_noticed(seed);
    every_action_counts(seed);
    return done();
}
