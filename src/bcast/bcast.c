/* Broadcasts of calls: see bcast.h and tree.h.
 *
 * A rank that receives a broadcast forwards it, then runs its handler; all that within the handler
 * that received. Who wants to know gets acknowledgements that come back up the tree. A root has
 * PGAS_BROADCASTS_MAX places for acknowledged broadcasts, and every rank an entry for each place of
 * each root, in memory that costs nothing until it is touched: so ranks on the way never run out of
 * entries and never allocate, and a root that is too fast waits. Children in an entry are taken out
 * atomically, so that an acknowledgement, the death of a child and a message that cannot be sent
 * may come together, on different threads: one of them counts. Broadcasts that nobody waits for are
 * acknowledged now and then, which bounds what ranks on the way must queue. */
#include "bcast/bcast.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "call/notify.h"
#include "msg/send_queue.h"
#include "call/progress.h"
#include "msg/serve.h"
#include "call/sync.h"
#include "call/task.h"
#include "bcast/tree.h"
#include "mem/ctx.h"
#include "mem/thread.h"

#define UNSYNCED 8 /* of so many broadcasts that nobody waits for one is acknowledged */

/* Up the tree; names the broadcast. */
typedef struct {
    uint32_t root, number;
    uint64_t error; /* as pgasi_error_pack; 0: none */
    uint32_t slot, unused;
} ack_t;

pgasi_bcast_stats_t pgasi_bcast_stats;

pgasi_tree_t pgasi_bcast_tree;
static pgasi_bcast_entry_t *entries; /* [n_ranks][PGAS_BROADCASTS_MAX] by root */
static uint32_t places_taken;        /* of this rank as root, a bit each */

PGASI_STATIC_ASSERT(PGAS_BROADCASTS_MAX == 32, "places_taken has 32 bits");
PGASI_STATIC_ASSERT(sizeof(pgasi_bcast_head_t) == 24, "args of a broadcast are aligned to 8");

static inline pgasi_bcast_entry_t *entry_of(int root, uint32_t slot)
{
    return &entries[(size_t)root * PGAS_BROADCASTS_MAX + slot];
}

static inline void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* ---- who sends to whom ---- */

static __attribute__((cold)) void pass_over(pgasi_bcast_plan_t *plan, int rank)
{
    if (!plan->error)
        plan->error = pgasi_error_pack(PGAS_ERR_PEER, rank, plan->handler);
}

/* A dead child is passed over: its children become ours. */
static void add_children(int root, uint32_t low, uint32_t high, pgasi_bcast_plan_t *plan)
{
    while (high - low > 1) {
        uint32_t cut = pgasi_tree_cut(&pgasi_bcast_tree, root, low, high);
        int rank = pgasi_tree_rank(&pgasi_bcast_tree, root, cut);
        if (PGAS_UNLIKELY(pgasi_boot_is_dead(rank))) {
            pass_over(plan, rank);
            add_children(root, cut, high, plan);
        } else if (plan->n < PGASI_BCAST_CHILDREN_MAX) {
            plan->child[plan->n++] = (pgasi_bcast_child_t){ rank, cut, high };
        } else {
            pass_over(plan, rank); /* far too many dead */
        }
        high = cut;
    }
}

void pgasi_bcast_plan(const pgasi_bcast_head_t *h, pgasi_bcast_plan_t *plan)
{
    plan->n = 0;
    plan->error = 0;
    plan->handler = h->handler;
    add_children(pgas_thread_rank(h->source), h->low, h->high, plan);
}

bool pgasi_bcast_is_sane(const pgasi_bcast_head_t *h)
{
    int root = pgas_thread_rank(h->source);
    return root < pgasi_boot.n_ranks && h->low < h->high &&
           h->high <= (uint32_t)pgasi_boot.n_ranks && h->slot < PGAS_BROADCASTS_MAX &&
           pgasi_tree_rank(&pgasi_bcast_tree, root, h->low) == pgasi_boot.rank;
}

/* ---- entries ---- */

static void fill_entry(pgasi_bcast_entry_t *e, uint32_t number, int above,
                       const pgasi_bcast_plan_t *plan, void *held)
{
    e->above = above;
    e->held = held;
    e->error = plan->error;
    e->handler = plan->handler;
    __atomic_store_n(&e->number, number, __ATOMIC_RELAXED);
    __atomic_store_n(&e->missing, plan->n + 1, __ATOMIC_RELAXED);
    for (int i = 0; i < PGASI_BCAST_CHILDREN_MAX; i++)
        __atomic_store_n(&e->child[i], i < plan->n ? plan->child[i].rank + 1 : 0, __ATOMIC_RELEASE);
}

static bool take_place(uint8_t *slot_p)
{
    uint32_t taken = __atomic_load_n(&places_taken, __ATOMIC_ACQUIRE);
    while (~taken) {
        uint32_t slot = (uint32_t)__builtin_ctz(~taken);
        uint32_t with_it = taken | 1u << slot;
        if (__atomic_compare_exchange_n(&places_taken, &taken, with_it, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            *slot_p = (uint8_t)slot;
            return true;
        }
    }
    return false;
}

static void give_place(uint32_t slot)
{
    __atomic_fetch_and(&places_taken, ~(1u << slot), __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
}

static bool take_place_or_wait(uint8_t *slot_p, pgas_full_t full)
{
    if (take_place(slot_p))
        return true;
    if (full != PGAS_FULL_WAIT || pgasi_self.in_handler)
        return false;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (!take_place(slot_p))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return true;
}

pgas_status_t pgasi_bcast_root(pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan,
                               uint32_t token, pgas_full_t full, void *held,
                               pgasi_bcast_entry_t **entry_p)
{
    if (!take_place_or_wait(&h->slot, full))
        return PGAS_ERR_AGAIN;
    pgasi_bcast_entry_t *e = entry_of(pgasi_boot.rank, h->slot);
    h->number = e->number + 1;
    h->flags |= PGASI_BCAST_ACK;
    e->token = token;
    e->slot = h->slot;
    fill_entry(e, h->number, -1, plan, held);
    *entry_p = e;
    return PGAS_OK;
}

void pgasi_bcast_undo(pgasi_bcast_entry_t *e)
{
    for (int i = 0; i < PGASI_BCAST_CHILDREN_MAX; i++)
        __atomic_store_n(&e->child[i], 0, __ATOMIC_RELAXED);
    give_place(e->slot);
}

pgasi_bcast_entry_t *pgasi_bcast_enter(const pgasi_bcast_head_t *h, int above,
                                       const pgasi_bcast_plan_t *plan, void *held)
{
    if (!(h->flags & PGASI_BCAST_ACK))
        return NULL;
    pgasi_bcast_entry_t *e = entry_of(pgas_thread_rank(h->source), h->slot);
    e->slot = h->slot;
    fill_entry(e, h->number, above, plan, held);
    return e;
}

pgasi_bcast_entry_t *pgasi_bcast_known(const pgasi_bcast_head_t *h)
{
    return h->flags & PGASI_BCAST_ACK ? entry_of(pgas_thread_rank(h->source), h->slot) : NULL;
}

/* ---- the end of a broadcast at a rank ---- */

void (*pgasi_bcast_release)(void *held);

static void tell_above(const pgasi_bcast_entry_t *e)
{
    uint32_t root = (uint32_t)((size_t)(e - entries) / PGAS_BROADCASTS_MAX);
    ack_t ack = { root, e->number, e->error, e->slot, 0 };
    count(&pgasi_bcast_stats.n_up);
    /* it may be dead by now */
    pgasi_sendq_call(e->above, PGASI_DESC_BCAST_ACK, &ack, sizeof ack, NULL, PGASI_FULL_ANSWER);
}

static void end_at_root(const pgasi_bcast_entry_t *e)
{
    uint32_t token = e->token;
    pgas_sync_error_t error = pgasi_error_unpack(e->error);
    give_place(e->slot);
    if (token)
        pgasi_sync_answered(token, error.status, error.rank, error.handler);
}

static void part_done(pgasi_bcast_entry_t *e, uint64_t error)
{
    uint64_t none = 0;
    if (error)
        __atomic_compare_exchange_n(&e->error, &none, error, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&e->missing, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    void *held = e->held;
    e->held = NULL;
    if (held)
        pgasi_bcast_release(held);
    if (e->above < 0)
        end_at_root(e);
    else
        tell_above(e);
}

static uint64_t error_of(const pgasi_bcast_entry_t *e, int rank, pgas_status_t status)
{
    return status == PGAS_OK ? 0 : pgasi_error_pack(status, rank, e->handler);
}

void pgasi_bcast_part_done(pgasi_bcast_entry_t *e, pgas_status_t status)
{
    if (e)
        part_done(e, error_of(e, pgasi_boot.rank, status));
}

static void child_answered(pgasi_bcast_entry_t *e, int rank, uint64_t error)
{
    for (int i = 0; i < PGASI_BCAST_CHILDREN_MAX; i++) {
        int32_t want = rank + 1;
        if (__atomic_compare_exchange_n(&e->child[i], &want, 0, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            part_done(e, error);
            return;
        }
    }
}

void pgasi_bcast_child_done(pgasi_bcast_entry_t *e, int rank, pgas_status_t status)
{
    if (e)
        child_answered(e, rank, error_of(e, rank, status));
}

static void on_ack(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    ack_t ack;
    if (bytes != sizeof ack)
        return;
    memcpy(&ack, args, sizeof ack);
    if (ack.root >= (uint32_t)pgasi_boot.n_ranks || ack.slot >= PGAS_BROADCASTS_MAX)
        return;
    pgasi_bcast_entry_t *e = entry_of((int)ack.root, ack.slot);
    if (__atomic_load_n(&e->number, __ATOMIC_RELAXED) == ack.number)
        child_answered(e, pgas_thread_rank(source), ack.error);
}

/* Ends with PGAS_ERR_PEER what broadcasts still expect from a dead rank. */
static void end_for_dead(int rank)
{
    pgasi_path_state_t before = pgasi_serve_begin(); /* what follows may send, as handlers do */
    size_t n = entries ? (size_t)pgasi_boot.n_ranks * PGAS_BROADCASTS_MAX : 0;
    for (size_t i = 0; i < n; i++)
        if (__atomic_load_n(&entries[i].missing, __ATOMIC_ACQUIRE) > 0)
            pgasi_bcast_child_done(&entries[i], rank, PGAS_ERR_PEER);
    pgasi_serve_end(before);
}

/* ---- running ---- */

/* What several runs of one broadcast at this rank share, if some end later. */
typedef struct {
    int n; /* that have not ended */
    pgasi_bcast_run_t run;
    pgasi_bcast_entry_t *entry;
} shared_t;

/* What stands before the arguments of a handler that may wait. */
typedef struct {
    shared_t *shared;
    uint64_t handler;
} task_t;

static __thread struct {
    const void *data;
    size_t bytes;
    /* pgasi_self.in_handler where the handler runs: those that run while it waits have nothing */
    int depth;
} here __attribute__((tls_model("initial-exec")));

const void *pgas_broadcast_data(size_t *bytes_p)
{
    bool is_some = here.data && here.depth == pgasi_self.in_handler;
    if (bytes_p)
        *bytes_p = is_some ? here.bytes : 0;
    return is_some ? here.data : NULL;
}

static pgas_status_t run_now(uint16_t handler, const void *args, size_t bytes, pgas_thread_t source,
                             const pgasi_bcast_run_t *run)
{
    __typeof__(here) before = here;
    here.data = run->data;
    here.bytes = run->data_bytes;
    here.depth = pgasi_self.in_handler;
    pgas_status_t status = pgasi_handler_run_one(handler, args, bytes, source);
    here = before;
    return status;
}

/* Two pieces as one; NULL: no memory. */
static char *join(const void *head, size_t head_bytes, const void *args, size_t bytes)
{
    char *both = malloc(head_bytes + bytes);
    if (both)
        memcpy(both, head, head_bytes);
    if (both && bytes)
        memcpy(both + head_bytes, args, bytes);
    return both;
}

static void run_ended(const pgasi_bcast_run_t *run, pgasi_bcast_entry_t *entry,
                      pgas_status_t status)
{
    pgasi_bcast_part_done(entry, status);
    if (run->done)
        run->done(run->arg);
}

static void shared_run_ended(shared_t *s, pgas_status_t status)
{
    pgasi_bcast_part_done(s->entry, status);
    if (__atomic_sub_fetch(&s->n, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (s->run.done)
        s->run.done(s->run.arg);
    free(s);
}

static void run_waiting(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    task_t t;
    memcpy(&t, args, sizeof t);
    args = (const char *)args + sizeof t;
    shared_run_ended(t.shared,
                     run_now((uint16_t)t.handler, args, bytes - sizeof t, source, &t.shared->run));
}

/* As calls of such handlers run: on a handler thread, in the order in which they came. */
static void submit(shared_t *s, uint16_t handler, const void *args, size_t bytes,
                   pgas_thread_t source)
{
    static const pgasi_handler_entry_t entry = { run_waiting, NULL, NULL, true };
    char *both = join(&(task_t){ s, handler }, sizeof(task_t), args, bytes);
    if (both)
        pgasi_task_call(&(pgasi_task_call_t){ &entry, source, handler, false, 0 }, both,
                        sizeof(task_t) + bytes);
    else
        shared_run_ended(s, PGAS_ERR_NO_MEMORY);
    free(both);
}

static bool blocks(uint16_t handler)
{
    return pgasi_handler_known(handler) && pgasi_handlers[handler].blocks;
}

bool pgasi_bcast_is_async(const pgasi_bcast_head_t *h)
{
    return (h->flags & PGASI_BCAST_THREADS) || blocks(h->handler);
}

/* For one thread of this rank: a call to it, which carries where to report. */
typedef struct {
    shared_t *shared;
    uint64_t proof; /* that shared is ours */
    pgas_thread_t source;
    uint16_t handler, unused;
} for_thread_t;

PGASI_STATIC_ASSERT(sizeof(for_thread_t) == 24 || sizeof(void *) != 8, "pgas/broadcast.h says 24");

static uint64_t proof_of(const shared_t *s)
{
    return pgasi_hash_u64((uintptr_t)s ^ pgasi_boot.job_key);
}

static bool read_for_thread(for_thread_t *f, const void *args, size_t bytes, pgas_thread_t source)
{
    if (bytes < sizeof *f || pgas_thread_rank(source) != pgasi_boot.rank)
        return false;
    memcpy(f, args, sizeof *f);
    return f->proof == proof_of(f->shared);
}

static void on_thread(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    for_thread_t f;
    if (!read_for_thread(&f, args, bytes, source))
        return;
    args = (const char *)args + sizeof f;
    bytes -= sizeof f;
    if (blocks(f.handler))
        submit(f.shared, f.handler, args, bytes, f.source);
    else
        shared_run_ended(f.shared, run_now(f.handler, args, bytes, f.source, &f.shared->run));
}

/* The thread left before the call ran. */
static bool on_thread_left(const void *args, size_t bytes, pgas_thread_t source)
{
    for_thread_t f;
    if (read_for_thread(&f, args, bytes, source))
        shared_run_ended(f.shared, PGAS_ERR_PEER);
    return true;
}

static void tell_thread(int slot, const for_thread_t *f, const void *args, size_t bytes)
{
    int ep = pgasi_ep_of_slot(slot);
    pgas_status_t status = PGAS_ERR_LIMIT;
    if (ep >= 0)
        status = pgasi_sendq_call_pair(pgasi_boot.rank, ep, false, PGASI_DESC_BCAST_THREAD, f,
                                       sizeof *f, args, bytes, PGASI_FULL_ANSWER);
    if (status != PGAS_OK)
        shared_run_ended(f->shared, status);
}

static void run_on_threads(const pgasi_bcast_head_t *h, const void *args, size_t bytes, shared_t *s)
{
    uint16_t slots[PGAS_THREADS_MAX];
    int n = pgasi_thread_slots(slots, PGAS_THREADS_MAX);
    s->n += n; /* and one until all are told */
    if (s->entry)
        __atomic_add_fetch(&s->entry->missing, n, __ATOMIC_RELAXED);
    for_thread_t f = { s, proof_of(s), h->source, h->handler, 0 };
    for (int i = 0; i < n; i++)
        tell_thread(slots[i], &f, args, bytes);
    shared_run_ended(s, PGAS_OK);
}

void pgasi_bcast_run(const pgasi_bcast_head_t *h, const void *args, size_t bytes,
                     pgasi_bcast_entry_t *entry, const pgasi_bcast_run_t *run)
{
    if (h->flags & PGASI_BCAST_REMOTE) { /* that it arrived is enough */
        pgasi_bcast_part_done(entry, PGAS_OK);
        entry = NULL;
    }
    if (PGAS_LIKELY(!pgasi_bcast_is_async(h))) {
        run_ended(run, entry, run_now(h->handler, args, bytes, h->source, run));
        return;
    }
    shared_t *s = malloc(sizeof *s);
    if (!s) {
        run_ended(run, entry, PGAS_ERR_NO_MEMORY);
        return;
    }
    *s = (shared_t){ 1, *run, entry };
    if (h->flags & PGASI_BCAST_THREADS)
        run_on_threads(h, args, bytes, s);
    else
        submit(s, h->handler, args, bytes, h->source);
}

/* ---- calls down the tree ---- */

static pgas_status_t send_down(const pgasi_bcast_head_t *h, const pgasi_bcast_child_t *c,
                               const void *args, size_t bytes, pgas_full_t full)
{
    pgasi_bcast_head_t theirs = *h;
    theirs.low = c->low;
    theirs.high = c->high;
    return pgasi_sendq_call_pair(c->rank, PGASI_EP_ANY, false, PGASI_DESC_BCAST, &theirs,
                                 sizeof theirs, args, bytes, full);
}

/* From child `first` on. What cannot be sent counts as answered. */
static void send_on(const pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan, int first,
                    const void *args, size_t bytes, pgasi_bcast_entry_t *entry)
{
    for (int i = first; i < plan->n; i++) {
        pgas_status_t status =
            send_down(h, &plan->child[i], args, bytes,
                      pgasi_self.in_handler ? PGASI_FULL_ANSWER : PGAS_FULL_WAIT);
        if (status == PGAS_OK)
            count(&pgasi_bcast_stats.n_down);
        else
            pgasi_bcast_child_done(entry, plan->child[i].rank, status);
    }
}

__attribute__((cold)) void pgasi_bcast_drop(pgas_thread_t source)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "malformed broadcast from rank %d: dropped", pgas_thread_rank(source));
}

static void on_bcast(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    static const pgasi_bcast_run_t plain = { NULL, NULL, NULL, 0 };
    (void)context;
    pgasi_bcast_head_t h;
    pgasi_bcast_plan_t plan;
    if (bytes >= sizeof h)
        memcpy(&h, args, sizeof h);
    if (bytes < sizeof h || !pgasi_bcast_is_sane(&h)) {
        pgasi_bcast_drop(source);
        return;
    }
    args = (const char *)args + sizeof h;
    bytes -= sizeof h;
    pgasi_bcast_entry_t *entry = NULL;
    if (h.flags & PGASI_BCAST_SELF) {
        entry = pgasi_bcast_known(&h);
    } else {
        pgasi_bcast_plan(&h, &plan);
        entry = pgasi_bcast_enter(&h, pgas_thread_rank(source), &plan, NULL);
        send_on(&h, &plan, 0, args, bytes, entry);
    }
    pgasi_bcast_run(&h, args, bytes, entry, &plain);
}

/* ---- the root ---- */

pgas_status_t pgasi_bcast_check(pgas_handler_t handler, const void *args, size_t bytes,
                                size_t head_bytes, pgas_scope_t scope, const pgas_call_opts_t *opts,
                                pgas_call_opts_t *o_p)
{
    pgas_status_t status = pgasi_call_check(pgasi_boot.rank, handler, args, bytes);
    if (status == PGAS_OK)
        status = (unsigned)scope > PGAS_SCOPE_THREADS ? PGAS_ERR_INVALID
                                                      : pgasi_call_read_opts(opts, o_p);
    if (status != PGAS_OK)
        return status;
    return head_bytes && bytes + head_bytes > pgasi_param.call_max ? PGAS_ERR_LIMIT : PGAS_OK;
}

/* The first message, by the rules of the caller: to a child, or to ourselves if there is none. */
static pgas_status_t send_first(const pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan,
                                const pgasi_bcast_child_t *self, const void *args, size_t bytes,
                                pgas_full_t full)
{
    pgas_status_t status = send_down(h, plan->n ? &plan->child[0] : self, args, bytes, full);
    if (status == PGAS_OK && plan->n)
        count(&pgasi_bcast_stats.n_down);
    return status;
}

bool pgasi_bcast_is_turn(void)
{
    static __thread uint32_t n_unsynced;
    return ++n_unsynced % UNSYNCED == 0;
}

/* token: of the counter that wants to know, or 0. */
static pgas_status_t start(pgasi_bcast_head_t *h, const void *args, size_t bytes, uint32_t token,
                           pgas_full_t full)
{
    pgasi_bcast_child_t self = { pgasi_boot.rank, 0, 1 };
    pgasi_bcast_entry_t *entry = NULL;
    pgasi_bcast_plan_t plan;
    pgasi_bcast_plan(h, &plan);
    pgas_status_t status = PGAS_OK;
    if (token || pgasi_bcast_is_turn())
        status = pgasi_bcast_root(h, &plan, token, full, NULL, &entry);
    if (status != PGAS_OK)
        return status;
    pgasi_bcast_head_t mine = *h;
    mine.flags |= PGASI_BCAST_SELF;
    status = send_first(plan.n ? h : &mine, &plan, &self, args, bytes, full);
    if (status == PGAS_ERR_PEER && plan.n) {
        pgasi_bcast_child_done(entry, plan.child[0].rank, status); /* died a moment ago */
        status = PGAS_OK;
    }
    if (status != PGAS_OK) {
        if (entry)
            pgasi_bcast_undo(entry);
        return status;
    }
    send_on(h, &plan, 1, args, bytes, entry);
    if (plan.n)
        status = send_down(&mine, &self, args, bytes,
                           pgasi_self.in_handler ? PGASI_FULL_ANSWER : PGAS_FULL_WAIT);
    if (status != PGAS_OK)
        pgasi_bcast_part_done(entry, status);
    return PGAS_OK;
}

void pgasi_bcast_begin(pgasi_bcast_head_t *h, pgas_handler_t handler, pgas_scope_t scope,
                       pgas_when_t when)
{
    *h = (pgasi_bcast_head_t){ .source = pgas_thread_self(),
                               .high = (uint32_t)pgasi_boot.n_ranks,
                               .handler = handler };
    h->flags = (uint8_t)((when == PGAS_REMOTE ? PGASI_BCAST_REMOTE : 0) |
                         (scope == PGAS_SCOPE_THREADS ? PGASI_BCAST_THREADS : 0));
}

pgas_status_t pgas_call_broadcast(pgas_handler_t handler, const void *args, size_t bytes,
                                  pgas_scope_t scope, const pgas_call_opts_t *opts)
{
    pgas_call_opts_t o;
    size_t head_bytes = scope == PGAS_SCOPE_THREADS ? sizeof(for_thread_t) : 0;
    pgas_status_t status = pgasi_bcast_check(handler, args, bytes, head_bytes, scope, opts, &o);
    pgasi_sync_call_t c = { .wire = 0 };
    if (status == PGAS_OK && o.sync)
        status = pgasi_sync_issue_own(&c, o.sync, handler, o.when);
    if (status != PGAS_OK)
        return status;
    pgasi_bcast_head_t h;
    pgasi_bcast_begin(&h, handler, scope, o.when);
    status = start(&h, args, bytes, pgasi_wire_token(c.wire), o.full);
    return o.sync ? pgasi_sync_issued(&c, status) : status;
}

/* ---- start and stop ---- */

pgas_status_t pgasi_bcast_start(void)
{
    size_t n = (size_t)pgasi_boot.n_ranks * PGAS_BROADCASTS_MAX;
    pgas_status_t status = pgasi_tree_init(&pgasi_bcast_tree, pgasi_boot.n_ranks,
                                           pgasi_boot.node_of, pgasi_boot.n_nodes);
    entries = pgasi_lazy_alloc(n * sizeof *entries);
    places_taken = 0;
    pgasi_bcast_stats = (pgasi_bcast_stats_t){ 0, 0 };
    pgasi_hooks.death_settled[PGASI_LAYER_BCAST] = end_for_dead;
    pgasi_handler_set_internal(PGASI_DESC_BCAST, on_bcast);
    pgasi_handler_set_internal(PGASI_DESC_BCAST_ACK, on_ack);
    pgasi_handler_set_internal(PGASI_DESC_BCAST_THREAD, on_thread);
    pgasi_handler_set_refused(PGASI_DESC_BCAST_THREAD, on_thread_left);
    pgasi_bcast_buffer_start();
    return status == PGAS_OK && !entries ? PGAS_ERR_NO_MEMORY : status;
}

void pgasi_bcast_stop(void)
{
    pgasi_lazy_free(entries, (size_t)pgasi_boot.n_ranks * PGAS_BROADCASTS_MAX * sizeof *entries);
    entries = NULL;
    pgasi_tree_fini(&pgasi_bcast_tree);
}
