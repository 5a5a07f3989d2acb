/* One chunk of a coherent array over a simulated network: a plain engine that obeys the protocol's
 * table, threads that are nothing but a state, and an oracle. The test triggers every step: threads
 * begin and leave, cache lines are evicted, messages arrive, in any order that queues allow.
 * Contents are copied when they are sent, when they arrive, or stored at the receiver ahead of
 * their message, at random.
 *
 * The oracle is one plain number, and what is read must be that. Operators 1 and 2 (plus, times) do
 * not commute. */
#ifndef T_UNIT_ARRAY_NET_H
#define T_UNIT_ARRAY_NET_H

#include "array/state.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NET_NODES   4
#define NET_THREADS 8 /* two a node: thread t is at node t / 2 */
#define NET_QUEUE   16
#define NET_POISON  UINT64_C(0xdeaddeaddeaddead)
/* a message: the access that was sent has been carried out */
#define NET_DONE PGASI_ARRAY_N_EVENTS

typedef enum { NET_R, NET_W, NET_O1, NET_O2, NET_KINDS } net_kind_t;
typedef enum { NET_IDLE, NET_INSIDE, NET_WAITS, NET_SENT } net_where_t;
typedef enum { NET_SHUT, NET_READ, NET_ALL, NET_OPERATE } net_open_t;
typedef enum { NET_COPIED, NET_AHEAD, NET_LATE, NET_WAYS } net_way_t;
typedef const pgasi_array_step_t *(*net_table_t)(pgasi_array_state_t state,
                                                 pgasi_array_event_t event);

typedef struct {
    net_where_t where;
    net_kind_t kind;
    bool asked; /* at home: is in the queue */
    uint64_t operand;
} net_thread_t;

typedef struct {
    int event, node, thread, op;
    net_way_t way;
    uint64_t value;
} net_message_t;

typedef struct {
    net_message_t item[NET_QUEUE];
    int n;
} net_queue_t;

typedef struct {
    pgasi_array_state_t state;
    net_open_t open, form; /* form: the kind of the value when the chunk was last opened */
    int op, leaving;       /* leaving: 1 writers, 2 all */
    uint64_t value;        /* elements or operands */
} net_node_t;

typedef struct {
    int n_nodes;
    net_table_t table;
    pgasi_rng_t rng;
    net_way_t way; /* NET_WAYS: by chance */
    net_node_t node[NET_NODES];
    net_thread_t thread[NET_THREADS];
    net_queue_t channel[NET_NODES][NET_NODES], requests;
    bool member[NET_NODES];
    int owner, pending, n_kept, kept_op;
    uint64_t kept[NET_QUEUE];
    uint64_t truth;
    uint64_t n_reads, seen[PGASI_ARRAY_N_STATES];
    char error[160]; /* the first one */
} net_t;

#define NET_CHECK(net, condition, ...)                               \
    do {                                                             \
        if (!(condition) && !(net)->error[0])                        \
            snprintf((net)->error, sizeof(net)->error, __VA_ARGS__); \
    } while (0)

static inline int net_node_of(int thread)
{
    return thread / 2;
}

static inline void net_start(net_t *net, int n_nodes, net_table_t table, uint64_t seed)
{
    memset(net, 0, sizeof *net);
    net->n_nodes = n_nodes;
    net->table = table;
    net->way = NET_WAYS;
    pgasi_rng_seed(&net->rng, seed);
    for (int n = 0; n < NET_NODES; n++) {
        net->node[n].state = PGASI_C_I;
        net->node[n].value = NET_POISON;
    }
    net->node[0] = (net_node_t){ .state = PGASI_H_U, .open = NET_ALL, .form = NET_ALL };
    net->owner = -1;
}

/* ---- queues ---- */

static inline void net_push(net_t *net, net_queue_t *q, net_message_t m)
{
    NET_CHECK(net, q->n < NET_QUEUE, "a queue is full");
    if (q->n < NET_QUEUE)
        q->item[q->n++] = m;
}

static inline net_message_t net_pop(net_queue_t *q)
{
    net_message_t m = q->item[0];
    memmove(q->item, q->item + 1, (size_t)--q->n * sizeof m);
    return m;
}

static inline void net_send(net_t *net, int from, int to, int event, int op)
{
    net_way_t way =
        net->way < NET_WAYS ? net->way : (net_way_t)pgasi_rng_below(&net->rng, NET_WAYS);
    bool fills = event == PGASI_E_DATA_R || event == PGASI_E_DATA_W;
    bool stores = event == PGASI_E_WB || event == PGASI_E_WB_KEEP;
    net_message_t m = { .event = event,
                        .node = from,
                        .thread = -1,
                        .op = op,
                        .way = way,
                        .value = net->node[from].value };
    if (way == NET_AHEAD && (fills || stores))
        net->node[to].value = m.value;
    net_push(net, &net->channel[from][to], m);
}

static inline uint64_t net_contents(const net_t *net, const net_message_t *m, int to)
{
    if (m->way == NET_COPIED)
        return m->value;
    return net->node[m->way == NET_LATE ? m->node : to].value;
}

/* ---- threads ---- */

static inline bool net_permits(const net_node_t *node, net_kind_t kind)
{
    return node->open == NET_ALL || (node->open == NET_READ && kind == NET_R) ||
           (node->open == NET_OPERATE && kind >= NET_O1 && node->op == (int)(kind - NET_W));
}

static inline void net_combine(int op, uint64_t *value, uint64_t operand)
{
    *value = op == 1 ? *value + operand : *value * (operand | 1);
}

static inline void net_access(net_t *net, int n, int t)
{
    net_thread_t *thread = &net->thread[t];
    uint64_t *value = &net->node[n].value;
    if (thread->kind == NET_R) {
        NET_CHECK(net, *value == net->truth, "thread %d reads %#llx at node %d, not %#llx", t,
                  (unsigned long long)*value, n, (unsigned long long)net->truth);
        net->n_reads++;
    } else if (thread->kind == NET_W) {
        *value = net->truth = thread->operand;
    } else {
        net_combine((int)(thread->kind - NET_W), value, thread->operand);
        net_combine((int)(thread->kind - NET_W), &net->truth, thread->operand);
    }
}

/* Threads inside at a node, those that only read not counted on demand. */
static inline int net_inside(const net_t *net, int n, bool readers)
{
    int count = 0;
    for (int t = 2 * n; t < 2 * n + 2; t++)
        count += net->thread[t].where == NET_INSIDE && (readers || net->thread[t].kind != NET_R);
    return count;
}

/* A chunk that is opened at a node must not be in conflicting use at another node. */
static inline void net_open(net_t *net, int n, net_open_t open)
{
    net_node_t *node = &net->node[n];
    node->open = node->form = open;
    bool alone = open == NET_ALL || !net_inside(net, n, open == NET_OPERATE);
    NET_CHECK(net, alone, "node %d is opened for %d while threads are inside", n, (int)open);
    for (int m = 0; m < net->n_nodes; m++) {
        const net_node_t *other = &net->node[m];
        bool read_only = other->open <= NET_READ && !net_inside(net, m, false);
        bool idle = other->open == NET_SHUT && !net_inside(net, m, true);
        bool same = other->form == NET_OPERATE && other->op == node->op &&
                    other->open != NET_READ && other->open != NET_ALL;
        NET_CHECK(net,
                  m == n || idle || (open == NET_READ && read_only) ||
                      (open == NET_OPERATE && same),
                  "node %d is opened for %d while node %d is in use", n, (int)open, m);
    }
}

static inline void net_let_in(net_t *net, int n)
{
    for (int t = 2 * n; t < 2 * n + 2; t++)
        if (net->thread[t].where == NET_WAITS && net_permits(&net->node[n], net->thread[t].kind))
            net->thread[t].where = NET_INSIDE;
}

/* ---- actions ---- */

static inline void net_ask_to_give(net_t *net, int n, int event)
{
    NET_CHECK(net, n > 0, "nobody to ask");
    net_send(net, 0, n > 0 ? n : 0, event, 0);
    net->pending++;
}

static inline void net_give(net_t *net, int but)
{
    for (int n = 1; n < net->n_nodes; n++)
        if (n != but && net->member[n])
            net_ask_to_give(net, n, PGASI_E_GIVE);
}

static inline void net_merge(net_t *net)
{
    bool alone = net->node[0].open == NET_SHUT && !net_inside(net, 0, true);
    NET_CHECK(net, alone, "operands are merged while threads are inside");
    while (net->n_kept)
        net_combine(net->kept_op, &net->node[0].value, net->kept[--net->n_kept]);
}

static inline void net_keep(net_t *net, const net_message_t *m)
{
    bool good = m->op == net->node[0].op && net->n_kept < NET_QUEUE;
    NET_CHECK(net, good, "operands of operator %d, not %d", m->op, net->node[0].op);
    net->kept_op = m->op;
    net->kept[net->n_kept++ % NET_QUEUE] =
        m->way == NET_COPIED ? m->value : net->node[m->node].value;
}

static inline void net_execute(net_t *net, const net_message_t *m)
{
    net_thread_t *thread = &net->thread[m->thread];
    NET_CHECK(net, net_permits(&net->node[0], thread->kind),
              "an access is carried out that home does not permit");
    if (m->node == 0) {
        thread->where = NET_INSIDE;
        return;
    }
    net_access(net, 0, m->thread);
    net_push(net, &net->channel[0][m->node],
             (net_message_t){ .event = NET_DONE, .thread = m->thread });
}

static inline void net_quiesce(net_t *net, int n, int leaving)
{
    net->node[n].open = leaving == 1 ? NET_READ : NET_SHUT;
    net->node[n].leaving = leaving;
    net->pending += n == 0;
}

/* m: the message; for NEED_* the thread. */
static inline void net_act(net_t *net, int n, pgasi_array_action_t action, const net_message_t *m)
{
    net_node_t *node = &net->node[n];
    switch (action) {
    case PGASI_A_QUIESCE:
        net_quiesce(net, n, 2);
        break;
    case PGASI_A_QUIESCE_WRITES:
        net_quiesce(net, n, 1);
        break;
    case PGASI_A_STORE:
        node->value = net_contents(net, m, 0);
        break;
    case PGASI_A_KEEP:
        net_keep(net, m);
        break;
    case PGASI_A_MERGE:
        net_merge(net);
        break;
    case PGASI_A_DROP:
        net->member[m->node] = false;
        break;
    case PGASI_A_JOIN:
    case PGASI_A_ADD:
        net->member[m->node] = true;
        break;
    case PGASI_A_GIVE_ALL:
        net_give(net, -1);
        break;
    case PGASI_A_GIVE_OTHERS:
        net_give(net, m->node);
        break;
    case PGASI_A_GIVE_OWNER:
        net_ask_to_give(net, net->owner, PGASI_E_GIVE);
        break;
    case PGASI_A_LEND_OWNER:
        net_ask_to_give(net, net->owner, PGASI_E_LEND);
        break;
    case PGASI_A_SET_OP:
        node->op = m->op;
        break;
    case PGASI_A_OWN:
        net->member[m->node] = false;
        net->owner = m->node;
        break;
    case PGASI_A_OPEN_ALL:
        net_open(net, n, NET_ALL);
        break;
    case PGASI_A_OPEN_READ:
        net_open(net, n, NET_READ);
        break;
    case PGASI_A_OPEN_OPERATE:
        if (n)
            node->value = node->op == 1 ? 0 : 1;
        net_open(net, n, NET_OPERATE);
        break;
    case PGASI_A_SEND_DATA_R:
        net_send(net, 0, m->node, PGASI_E_DATA_R, 0);
        break;
    case PGASI_A_SEND_DATA_W:
        net_send(net, 0, m->node, PGASI_E_DATA_W, 0);
        break;
    case PGASI_A_SEND_GRANT_W:
        net_send(net, 0, m->node, PGASI_E_GRANT_W, 0);
        break;
    case PGASI_A_SEND_GRANT_O:
        net_send(net, 0, m->node, PGASI_E_GRANT_O, node->op);
        break;
    case PGASI_A_SEND_WB_ACK:
        net_send(net, 0, m->node, PGASI_E_WB_ACK, 0);
        break;
    case PGASI_A_SEND_FETCH_R:
        net_send(net, n, 0, PGASI_E_FETCH_R, 0);
        break;
    case PGASI_A_SEND_FETCH_W:
        net_send(net, n, 0, PGASI_E_FETCH_W, 0);
        break;
    case PGASI_A_SEND_FETCH_O:
        node->op = m->op;
        net_send(net, n, 0, PGASI_E_FETCH_O, node->op);
        break;
    case PGASI_A_SEND_UPGRADE:
        net_send(net, n, 0, PGASI_E_UPGRADE, 0);
        break;
    case PGASI_A_SEND_ACK:
        net_send(net, n, 0, PGASI_E_ACK, 0);
        break;
    case PGASI_A_SEND_WB:
        net_send(net, n, 0, PGASI_E_WB, 0);
        break;
    case PGASI_A_SEND_WB_KEEP:
        net_send(net, n, 0, PGASI_E_WB_KEEP, 0);
        break;
    case PGASI_A_SEND_WB_O:
        net_send(net, n, 0, PGASI_E_WB_O, node->op);
        break;
    case PGASI_A_COUNT:
        net->pending--;
        break;
    case PGASI_A_EXEC:
        net_execute(net, m);
        break;
    case PGASI_A_RUN:
        net_let_in(net, n);
        break;
    case PGASI_A_FREE:
        node->value = NET_POISON;
        break;
    case PGASI_A_NEXT:
        net_pop(&net->requests);
        break;
    default:
        break; /* SERVE: what home's loop does */
    }
}

/* ---- the engine ---- */

static inline void net_step(net_t *net, int n, pgasi_array_event_t event,
                            const net_message_t *about)
{
    net_node_t *node = &net->node[n];
    net_message_t m = *about; /* NEXT takes it out of the queue */
    const pgasi_array_step_t *step = net->table(node->state, event);
    NET_CHECK(net, step->known, "%s comes in state %s", pgasi_array_event_name(event),
              pgasi_array_state_name(node->state));
    if (net->error[0])
        return;
    node->state = (pgasi_array_state_t)step->next;
    net->seen[node->state]++;
    for (uint64_t left = step->actions; left; left &= left - 1)
        net_act(net, n, (pgasi_array_action_t)__builtin_ctzll(left), &m);
}

static inline pgasi_array_event_t net_request_event(const net_t *net)
{
    const net_message_t *m = &net->requests.item[0];
    const net_node_t *home = &net->node[0];
    if (home->state == PGASI_H_S && m->event == PGASI_E_UPGRADE && !net->member[m->node])
        return PGASI_E_FETCH_W;
    if (home->state == PGASI_H_O && m->event == PGASI_E_FETCH_O && m->op != home->op)
        return PGASI_E_FETCH_O_OTHER;
    if (home->state == PGASI_H_O && m->event == PGASI_E_OP_A && m->op != home->op)
        return PGASI_E_OP_A_OTHER;
    return (pgasi_array_event_t)m->event;
}

static inline void net_home_goes_on(net_t *net)
{
    static const net_message_t nothing;
    while (!net->error[0])
        if (pgasi_array_is_transit(net->node[0].state) && net->pending == 0)
            net_step(net, 0, PGASI_E_ALL_IN, &nothing);
        else if (!pgasi_array_is_transit(net->node[0].state) && net->requests.n)
            net_step(net, 0, net_request_event(net), &net->requests.item[0]);
        else
            break;
}

static inline bool net_is_request(int event)
{
    return event <= PGASI_E_OP_A_OTHER;
}

/* The first message from one node to the other arrives. False: there is none; so with all that
 * follow. */
static inline bool net_deliver(net_t *net, int from, int to)
{
    if (!net->channel[from][to].n)
        return false;
    net_message_t m = net_pop(&net->channel[from][to]);
    if (m.event == NET_DONE) {
        net->thread[m.thread].where = NET_IDLE;
        return true;
    }
    if (m.event == PGASI_E_DATA_R || m.event == PGASI_E_DATA_W)
        net->node[to].value = net_contents(net, &m, to);
    if (to == 0 && net_is_request(m.event))
        net_push(net, &net->requests, m);
    else
        net_step(net, to, (pgasi_array_event_t)m.event, &m);
    if (to == 0)
        net_home_goes_on(net);
    return true;
}

/* A thread begins an access, or a pin, if it may; it lasts until it leaves. */
static inline bool net_try(net_t *net, int t, net_kind_t kind, uint64_t operand)
{
    net_thread_t *thread = &net->thread[t];
    if (thread->where != NET_IDLE || !net_permits(&net->node[net_node_of(t)], kind))
        return false;
    *thread = (net_thread_t){ .where = NET_INSIDE, .kind = kind, .operand = operand };
    return true;
}

/* It begins, or waits for the chunk. */
static inline bool net_begin(net_t *net, int t, net_kind_t kind, uint64_t operand)
{
    if (net->thread[t].where != NET_IDLE)
        return false;
    if (!net_try(net, t, kind, operand))
        net->thread[t] = (net_thread_t){ .where = NET_WAITS, .kind = kind, .operand = operand };
    return true;
}

static inline bool net_leave(net_t *net, int t)
{
    if (net->thread[t].where != NET_INSIDE)
        return false;
    net_access(net, net_node_of(t), t);
    net->thread[t].where = NET_IDLE;
    return true;
}

static inline int net_op_event(net_kind_t kind)
{
    if (kind == NET_R)
        return PGASI_E_OP_R;
    return kind == NET_W ? PGASI_E_OP_W : PGASI_E_OP_A;
}

static inline int net_op_of(net_kind_t kind)
{
    return kind < NET_O1 ? 0 : (int)(kind - NET_W);
}

/* Its access is to be carried out at home. */
static inline bool net_begin_there(net_t *net, int t, net_kind_t kind, uint64_t operand)
{
    int n = net_node_of(t);
    if (net->thread[t].where != NET_IDLE || n == 0 || net_permits(&net->node[n], kind))
        return false;
    net->thread[t] = (net_thread_t){ .where = NET_SENT, .kind = kind, .operand = operand };
    net_message_t m = {
        .event = net_op_event(kind), .node = n, .thread = t, .op = net_op_of(kind)
    };
    net_push(net, &net->channel[n][0], m);
    return true;
}

static inline bool net_evict(net_t *net, int n)
{
    pgasi_array_state_t state = net->node[n].state;
    if (state != PGASI_C_S && state != PGASI_C_D && state != PGASI_C_O)
        return false;
    net_step(net, n, PGASI_E_EVICT, &(net_message_t){ .node = n });
    return true;
}

/* For a thread that waits: asks for what its line does not permit. */
static inline bool net_ask(net_t *net, int t)
{
    static const pgasi_array_event_t needs[] = { PGASI_E_NEED_R, PGASI_E_NEED_W, PGASI_E_NEED_O,
                                                 PGASI_E_NEED_O };
    net_thread_t *thread = &net->thread[t];
    int n = net_node_of(t);
    const net_node_t *node = &net->node[n];
    net_message_t m = {
        .event = net_op_event(thread->kind), .node = n, .thread = t, .op = net_op_of(thread->kind)
    };
    if (thread->where != NET_WAITS)
        return false;
    if (n == 0) {
        bool asked = thread->asked;
        thread->asked = true;
        if (!asked)
            net_push(net, &net->requests, m);
        net_home_goes_on(net);
        return !asked;
    }
    if (node->state == PGASI_C_I || (node->state == PGASI_C_S && thread->kind == NET_W)) {
        net_step(net, n, needs[thread->kind], &m);
        return true;
    }
    bool in_the_way =
        node->state == PGASI_C_S || (node->state == PGASI_C_O && !net_permits(node, thread->kind));
    return in_the_way && net_evict(net, n);
}

/* By chance an evicted cache merges its operands itself, while no thread at home combines. */
static inline bool net_merges_there(net_t *net, int n)
{
    const net_node_t *node = &net->node[n], *home = &net->node[0];
    if (net->way != NET_WAYS || node->state != PGASI_C_Oq || home->open != NET_OPERATE ||
        home->op != node->op || net_inside(net, 0, true) || pgasi_rng_below(&net->rng, 2))
        return false;
    net_combine(node->op, &net->node[0].value, node->value);
    return true;
}

/* Threads of the node have left. */
static inline bool net_quiet(net_t *net, int n)
{
    net_node_t *node = &net->node[n];
    if (!node->leaving || net_inside(net, n, node->leaving == 2))
        return false;
    node->leaving = 0;
    net_step(net, n, net_merges_there(net, n) ? PGASI_E_MERGED : PGASI_E_QUIET,
             &(net_message_t){ .node = n });
    if (n == 0)
        net_home_goes_on(net);
    return true;
}

/* Continues step number `which` of all possible ones. */
static inline bool net_go_on(net_t *net, int which)
{
    int from = which % NET_NODES, to = which / NET_NODES % NET_NODES,
        what = which / NET_NODES / NET_NODES;
    switch (what) {
    case 0:
        return net_deliver(net, from, to);
    case 1:
        return net_quiet(net, from);
    case 2:
        return net_ask(net, which % NET_THREADS);
    default:
        return net_leave(net, which % NET_THREADS);
    }
}
#define NET_WHICH (4 * NET_NODES * NET_NODES)

/* One of those that can, by chance. False: nothing is under way. */
static inline bool net_go_on_somewhere(net_t *net)
{
    int begin = (int)pgasi_rng_below(&net->rng, NET_WHICH);
    for (int i = 0; i < NET_WHICH; i++)
        if (net_go_on(net, (begin + i) % NET_WHICH))
            return true;
    return false;
}

/* Until nothing is under way any more, in an order by chance; then all must be at rest. */
static inline void net_finish(net_t *net)
{
    int left = 100000;
    while (!net->error[0] && left && net_go_on_somewhere(net))
        left--;
    NET_CHECK(net, left, "it goes on for ever");
    for (int t = 0; t < NET_THREADS; t++)
        NET_CHECK(net, net->thread[t].where == NET_IDLE, "thread %d waits for ever", t);
    bool rests =
        net->node[0].state <= PGASI_H_O && !net->requests.n && !net->pending && !net->n_kept;
    NET_CHECK(net, rests, "home is not at rest");
    for (int n = 1; n < net->n_nodes; n++) {
        NET_CHECK(net, net->node[n].state <= PGASI_C_O, "node %d is not at rest", n);
        bool is_free = net->node[n].state != PGASI_C_I || net->node[n].value == NET_POISON;
        NET_CHECK(net, is_free, "the line of node %d does not become free", n);
    }
}

static inline void net_begin_by_chance(net_t *net, unsigned kinds)
{
    int t = (int)pgasi_rng_below(&net->rng, 2 * (uint64_t)net->n_nodes);
    net_kind_t kind = (net_kind_t)pgasi_rng_below(&net->rng, NET_KINDS);
    uint64_t operand = pgasi_rng_u64(&net->rng);
    if (!(kinds >> kind & 1))
        return;
    if (pgasi_rng_below(&net->rng, 8) == 0)
        net_begin_there(net, t, kind, operand);
    else
        net_begin(net, t, kind, operand);
}

/* Accesses of the kinds of a set, evictions and messages, by chance. */
static inline void net_do_by_chance(net_t *net, unsigned kinds)
{
    uint64_t chance = pgasi_rng_below(&net->rng, 16);
    if (chance < 4)
        net_begin_by_chance(net, kinds);
    else if (chance == 4)
        net_evict(net, (int)pgasi_rng_below(&net->rng, (uint64_t)net->n_nodes));
    else
        net_go_on_somewhere(net);
}

/* Rounds of such steps, few or many, after each of which all comes to rest; in the end home
 * reads. */
static inline void net_run(net_t *net, int n_rounds, unsigned kinds)
{
    for (int i = 0; i < n_rounds && !net->error[0]; i++) {
        for (uint64_t left = pgasi_rng_below(&net->rng, 100); left && !net->error[0]; left--)
            net_do_by_chance(net, kinds);
        net_finish(net);
    }
    net_begin(net, 0, NET_R, 0);
    net_finish(net);
}

#endif
