/* what: Transmitters over a provider that is late: neither queue ever overflows, no buffer is
 *       released early, and the completed number never decreases. There is at most one completion
 *       for `interval` requests beside the requested ones. All requests complete, also after an
 *       error. A poll ends after a bounded number of steps, whichever thread else polls.
 * needs: tsan-ok
 * log: a transmitter on a send queue of
 * source: pgas/verbs.h; verbs_backend/queue/tx.c; the provider of t/unit/verbs_fake.h; seeded
 * model test */
#include <sched.h>
#include <stdint.h>

static __thread uint64_t steps;
#define PGASI_TX_STEP() (steps++)
#include "t/queue_pairs.h"
#include "verbs_backend/queue/tx.c"

#include "t/tap.h"
#include "t/unit/verbs_buffers.h"
#include "t/unit/verbs_fake.h"

#define THREADS_MAX 4
#define LINKS_MAX   4
#define BUFFERS     12
#define SLOT        96
#define PATIENCE_US INT64_C(60000000)

typedef struct {
    int n_threads, n_links, n_cqs;
    bool shared, engine, fails;
    uint32_t depth, interval, batch;
    uint64_t n_ops;
    bool careless; /* gives buffers back at once */
    uint32_t lie;
} plan_t;

/* A queue pair with its transmitter. */
typedef struct {
    pgas_verbs_qp_t *qp;
    pgas_verbs_tx_t *tx;
    uint64_t n_asked;      /* signals, marks and waits that could not do without; atomic */
    uint64_t told, n_ends; /* by advance */
    int n_bad;             /* of advance */
    uint64_t seen_done, seen_posted; /* by the observing thread */
} link_t;

typedef struct {
    plan_t plan;
    fake_dev_t dev;
    pgas_verbs_cq_t *cqs[LINKS_MAX];
    link_t links[LINKS_MAX];
    uint64_t seed;
    int n_running; /* atomic */
    bool stop;     /* atomic: for the engine */
} run_t;

/* The posted requests. */
typedef struct {
    int link; /* -1: nothing */
    uint64_t number;
    uint32_t bytes;
} note_t;

typedef struct {
    run_t *run;
    int index, n_bad, n_refused;
    pgasi_rng_t rng;
    buffers_t buffers;
    unsigned char *remote; /* a slot an operation */
    note_t *notes;
    uint64_t last[LINKS_MAX];
} worker_t;

static void advance(void *arg, pgas_verbs_tx_t *tx, uint64_t done, pgas_status_t status)
{
    link_t *link = arg;
    link->n_bad +=
        link->n_ends > 0 || (status == PGAS_OK && done <= link->told) || done < link->told;
    link->n_bad += done > pgas_verbs_tx_posted(tx);
    link->n_ends += status != PGAS_OK;
    link->told = done;
}

/* ---- a worker ---- */

static void fill(const worker_t *w, uint64_t op, unsigned char *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(pgasi_hash_u64(w->run->seed + op * 5 +
                                                  (uint64_t)w->index * 1000003 + i) >>
                                   8);
}

static bool is_filled(const worker_t *w, uint64_t op, const unsigned char *bytes, uint32_t n)
{
    unsigned char want[SLOT];
    fill(w, op, want, n);
    return memcmp(want, bytes, n) == 0;
}

static void ask(link_t *link)
{
    __atomic_fetch_add(&link->n_asked, 1, __ATOMIC_RELAXED);
}

/* @return PGAS_OK, or why not, which only queue pairs that fail may say */
static pgas_status_t wait_for(worker_t *w, int k, uint64_t number)
{
    link_t *link = &w->run->links[k];
    if (pgas_verbs_tx_done(link->tx) < number)
        ask(link);
    pgas_status_t status = pgas_verbs_tx_wait(link->tx, number, PATIENCE_US);
    bool may_fail = w->run->plan.fails && fake_qp(link->qp)->fail_at != FAKE_NEVER;
    w->n_bad += status != PGAS_OK && (status != PGAS_ERR_RANGE || !may_fail);
    return status;
}

/* Posts, as long as that takes. @return false: the connection has ended */
static bool insist(worker_t *w, int k, const pgas_verbs_request_t *request, uint64_t *number_p)
{
    link_t *link = &w->run->links[k];
    pgas_status_t status;
    if (request->flags & PGAS_VERBS_SIGNAL)
        ask(link);
    while ((status = pgas_verbs_tx_post(link->tx, request, number_p)) == PGAS_ERR_AGAIN) {
        w->n_refused++;
        pgas_verbs_tx_poll(link->tx);
        sched_yield();
    }
    if (status == PGAS_OK) {
        w->n_bad += *number_p <= w->last[k] || *number_p > pgas_verbs_tx_posted(link->tx);
        w->last[k] = *number_p;
    }
    w->n_bad += status != PGAS_OK && (status != PGAS_ERR_PEER || !w->run->plan.fails);
    return status == PGAS_OK;
}

static pgas_verbs_span_t take_buffer(worker_t *w)
{
    pgas_verbs_span_t span;
    while (!buffers_take(&w->buffers, &span)) {
        for (int k = 0; k < w->run->plan.n_links; k++) {
            if (w->last[k] == 0)
                continue; /* nothing of mine there */
            uint64_t posted = pgas_verbs_tx_posted(w->run->links[k].tx);
            pgas_status_t status = pgas_verbs_tx_ring(w->run->links[k].tx, true);
            if (pgas_verbs_tx_posted(w->run->links[k].tx) != posted)
                ask(&w->run->links[k]);
            w->n_bad += status != PGAS_OK && (status != PGAS_ERR_PEER || !w->run->plan.fails);
            pgas_verbs_tx_poll(w->run->links[k].tx);
        }
        sched_yield();
    }
    return span;
}

/* Cuts a span into some that follow each other. */
static uint32_t cut(worker_t *w, pgas_verbs_span_t whole, pgas_verbs_span_t *spans)
{
    uint32_t n = 0, at = 0;
    while (at < whole.bytes) {
        uint32_t left = whole.bytes - at;
        uint32_t more =
            n == FAKE_SPANS_MAX - 1 ? left : 1 + (uint32_t)pgasi_rng_below(&w->rng, left);
        spans[n++] = (pgas_verbs_span_t){ whole.addr + at, more, whole.lkey };
        at += more;
    }
    return n;
}

static uint32_t random_flags(worker_t *w)
{
    return pgasi_rng_below(&w->rng, 12) == 0 ? PGAS_VERBS_SIGNAL : 0;
}

/* Writes from a buffer that comes back by number. */
static void write_buffer(worker_t *w, int k, uint64_t op)
{
    pgas_verbs_span_t buffer = take_buffer(w), spans[FAKE_SPANS_MAX];
    uint32_t bytes = 1 + (uint32_t)pgasi_rng_below(&w->rng, SLOT);
    fill(w, op, (unsigned char *)(uintptr_t)buffer.addr, bytes);
    pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                     .flags = random_flags(w),
                                     .spans = spans,
                                     .remote_addr = (uintptr_t)(w->remote + op * SLOT) };
    request.n_spans = cut(w, (pgas_verbs_span_t){ buffer.addr, bytes, buffer.lkey }, spans);
    uint64_t number = 0;
    if (insist(w, k, &request, &number))
        w->notes[op] = (note_t){ k, number, bytes };
    bool early = w->run->plan.careless;
    buffers_give(&w->buffers, &buffer, early ? NULL : w->run->links[k].tx, number);
}

/* Small enough to be copied while posting: changed at once. */
static void write_small(worker_t *w, int k, uint64_t op)
{
    unsigned char bytes[FAKE_INLINE_MAX];
    uint32_t n = 1 + (uint32_t)pgasi_rng_below(&w->rng, sizeof bytes);
    pgas_verbs_span_t spans[FAKE_SPANS_MAX], whole = { (uintptr_t)bytes, n, 0 };
    fill(w, op, bytes, whole.bytes);
    pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                     .flags = random_flags(w),
                                     .spans = spans,
                                     .remote_addr = (uintptr_t)(w->remote + op * SLOT) };
    request.n_spans = cut(w, whole, spans);
    uint64_t number;
    if (insist(w, k, &request, &number))
        w->notes[op] = (note_t){ k, number, whole.bytes };
    memset(bytes, 0, sizeof bytes);
}

/* Reads what some earlier operation has written. */
static void read_back(worker_t *w, uint64_t op)
{
    uint64_t other = pgasi_rng_below(&w->rng, op + 1);
    note_t note = w->notes[other];
    uint64_t number;
    if (note.link < 0 || wait_for(w, note.link, note.number) != PGAS_OK)
        return;
    pgas_verbs_span_t buffer = take_buffer(w), span = { buffer.addr, note.bytes, buffer.lkey };
    memset((void *)(uintptr_t)buffer.addr, 0, SLOT);
    pgas_verbs_request_t request = { .op = PGAS_VERBS_READ,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = (uintptr_t)(w->remote + other * SLOT) };
    if (insist(w, note.link, &request, &number) && wait_for(w, note.link, number) == PGAS_OK)
        w->n_bad += !is_filled(w, other, (void *)(uintptr_t)buffer.addr, note.bytes);
    buffers_give(&w->buffers, &buffer, NULL, 0);
}

static void some_operation(worker_t *w, uint64_t op)
{
    const plan_t *plan = &w->run->plan;
    int k = plan->shared ? (int)pgasi_rng_below(&w->rng, (uint64_t)plan->n_links) : w->index;
    w->notes[op].link = -1;
    uint64_t what = pgasi_rng_below(&w->rng, 100);
    if (what < 60)
        write_buffer(w, k, op);
    else if (what < 85)
        write_small(w, k, op);
    else if (what < 90)
        read_back(w, op);
    else if (what < 94)
        pgas_verbs_tx_poll(w->run->links[k].tx);
    else if (what < 97)
        pgas_verbs_tx_ring(w->run->links[k].tx, false);
    else if (w->last[k] != 0)
        wait_for(w, k, w->last[k] - pgasi_rng_below(&w->rng, w->last[k]));
}

/* Everything ends with a status; what ended well is there. */
static void settle(worker_t *w)
{
    for (uint64_t op = w->run->plan.n_ops; op-- > 0;) {
        const note_t *note = &w->notes[op];
        if (note->link < 0)
            continue;
        bool good = wait_for(w, note->link, note->number) == PGAS_OK;
        w->n_bad +=
            good && !w->run->plan.careless && !is_filled(w, op, w->remote + op * SLOT, note->bytes);
    }
}

static void *work(void *arg)
{
    worker_t *w = arg;
    for (uint64_t op = 0; op < w->run->plan.n_ops; op++)
        some_operation(w, op);
    settle(w);
    __atomic_fetch_sub(&w->run->n_running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void *run_engine(void *arg)
{
    run_t *run = arg;
    while (!__atomic_load_n(&run->stop, __ATOMIC_ACQUIRE))
        if (!fake_step(&run->dev.super))
            sched_yield();
    return NULL;
}

/* ---- a run ---- */

static int begin_links(run_t *run)
{
    const plan_t *plan = &run->plan;
    int n_bad = 0;
    uint32_t per_cq = (uint32_t)((plan->n_links + plan->n_cqs - 1) / plan->n_cqs);
    for (int i = 0; i < plan->n_cqs; i++)
        n_bad +=
            pgas_verbs_cq_create(&run->dev.super, plan->depth * per_cq, 0, &run->cqs[i]) != PGAS_OK;
    for (int k = 0; k < plan->n_links; k++) {
        link_t *link = &run->links[k];
        pgas_verbs_address_t address;
        pgas_verbs_qp_opts_t qp = PGAS_VERBS_QP_OPTS_INIT;
        qp.send_cq = qp.recv_cq = run->cqs[k % plan->n_cqs];
        qp.send_depth = plan->depth;
        qp.inline_max = FAKE_INLINE_MAX;
        pgas_verbs_tx_opts_t tx = PGAS_VERBS_TX_OPTS_INIT;
        tx.shared = plan->shared;
        tx.interval = plan->interval;
        tx.batch = plan->batch;
        tx.advance = advance;
        tx.arg = link;
        n_bad += pgas_verbs_qp_create(&run->dev.super, &qp, &link->qp) != PGAS_OK;
        qp_address(link->qp, &address);
        n_bad += pgas_verbs_tx_create(link->qp, &tx, &link->tx) != PGAS_ERR_INVALID;
        n_bad += pgas_verbs_qp_connect(link->qp, &address) != PGAS_OK;
        n_bad += pgas_verbs_tx_create(link->qp, &tx, &link->tx) != PGAS_OK;
        n_bad += pgas_verbs_tx_create(link->qp, &tx, &link->tx) != PGAS_ERR_BUSY;
        if (plan->fails && k % 2 == 0)
            fake_qp(link->qp)->fail_at = pgasi_rng_below(&run->dev.rng, plan->n_ops);
    }
    return n_bad;
}

/* Looks on from outside, and polls now and then. */
static int look_on(run_t *run)
{
    int n_bad = 0;
    for (int k = 0; k < run->plan.n_links; k++) {
        link_t *link = &run->links[k];
        uint64_t done = pgas_verbs_tx_done(link->tx), posted = pgas_verbs_tx_posted(link->tx);
        n_bad += done < link->seen_done || posted < link->seen_posted || done > posted;
        link->seen_done = done;
        link->seen_posted = posted;
        if ((done + posted) % 3 == 0 && !run->plan.careless)
            pgas_verbs_tx_poll(link->tx);
    }
    return n_bad;
}

static uint32_t true_interval(const plan_t *plan)
{
    return PGASI_MIN(plan->interval, PGASI_MAX(plan->depth / 4, 1u));
}

/* Few enough completions. This is a promise of its own, because it must be able to fail. */
static bool is_frugal(const pgas_verbs_tx_info_t *stats, uint64_t n_asked, uint32_t interval)
{
    return stats->completions <= stats->posted / interval + n_asked + 1;
}

static int end_links(run_t *run)
{
    int n_bad = 0;
    for (int k = 0; k < run->plan.n_links; k++) {
        link_t *link = &run->links[k];
        pgas_verbs_tx_info_t stats = { .size = sizeof stats };
        pgas_status_t status =
            pgas_verbs_tx_wait(link->tx, pgas_verbs_tx_posted(link->tx), PATIENCE_US);
        pgas_verbs_tx_info(link->tx, &stats);
        bool failed = status != PGAS_OK && fake_qp(link->qp)->fail_at != FAKE_NEVER;
        n_bad += link->n_bad + (pgas_verbs_tx_done(link->tx) != pgas_verbs_tx_posted(link->tx));
        n_bad += failed ? status != PGAS_ERR_RANGE || link->n_ends != 1
                        : status != PGAS_OK || link->n_ends != 0;
        n_bad += !failed && stats.completions != stats.signaled;
        n_bad += !failed && !is_frugal(&stats, link->n_asked + 1, true_interval(&run->plan));
    }
    for (int k = 0; k < run->plan.n_links; k++)
        pgas_verbs_qp_destroy(run->links[k].qp);
    for (int i = 0; i < run->plan.n_cqs; i++)
        n_bad += pgas_verbs_cq_destroy(run->cqs[i]) != PGAS_OK;
    return n_bad;
}

static void begin_worker(run_t *run, worker_t *w, int index)
{
    *w = (worker_t){ .run = run, .index = index };
    pgasi_rng_seed(&w->rng, run->seed + 77 * (uint64_t)index);
    w->remote = calloc(run->plan.n_ops, SLOT);
    w->notes = calloc(run->plan.n_ops, sizeof *w->notes);
    if (!w->remote || !w->notes)
        bail("no memory");
    buffers_open(&run->dev.super, SLOT, BUFFERS, &w->buffers);
}

static int end_worker(worker_t *w)
{
    buffers_close(&w->buffers);
    free(w->remote);
    free(w->notes);
    return w->n_bad;
}

/* @return the number of faults; those that the provider has found are in run->dev */
static int carry_out(run_t *run, const plan_t *plan, uint64_t seed)
{
    worker_t workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX], engine;
    memset(run, 0, sizeof *run);
    run->plan = *plan;
    run->seed = seed;
    fake_begin(&run->dev, seed, plan->lie);
    run->dev.steps_itself = !plan->engine;
    run->dev.patient |= plan->careless;
    int n_bad = begin_links(run);
    run->n_running = plan->n_threads;
    for (int t = 0; t < plan->n_threads; t++)
        begin_worker(run, &workers[t], t);
    if (plan->engine)
        pthread_create(&engine, NULL, run_engine, run);
    for (int t = 0; t < plan->n_threads; t++)
        pthread_create(&threads[t], NULL, work, &workers[t]);
    while (__atomic_load_n(&run->n_running, __ATOMIC_ACQUIRE) > 0) {
        n_bad += look_on(run);
        sched_yield();
    }
    for (int t = 0; t < plan->n_threads; t++)
        pthread_join(threads[t], NULL);
    n_bad += end_links(run);
    __atomic_store_n(&run->stop, true, __ATOMIC_RELEASE);
    if (plan->engine)
        pthread_join(engine, NULL);
    for (int t = 0; t < plan->n_threads; t++)
        n_bad += end_worker(&workers[t]);
    n_bad += run->dev.super.n_open != 0;
    pthread_mutex_destroy(&run->dev.lock);
    return n_bad;
}

/* ---- promises ---- */

static plan_t random_plan(pgasi_rng_t *rng, bool shared, bool fails)
{
    static const uint32_t depths[] = { 1, 2, 4, 5, 8, 11, 16 };
    int n_threads = 1 + (int)pgasi_rng_below(rng, THREADS_MAX);
    plan_t plan = { .n_threads = n_threads,
                    .n_links = shared ? 1 + (int)pgasi_rng_below(rng, 2) : n_threads,
                    .shared = shared,
                    .fails = fails,
                    .n_ops = 400,
                    .lie = 1,
                    .engine = pgasi_rng_below(rng, 2) };
    plan.n_cqs = 1 + (int)pgasi_rng_below(rng, (uint64_t)plan.n_links);
    plan.depth = depths[pgasi_rng_below(rng, PGASI_ARRAY_LENGTH(depths))];
    plan.interval = 1 + (uint32_t)pgasi_rng_below(rng, 6);
    plan.batch = 1 + (uint32_t)pgasi_rng_below(rng, 8);
    return plan;
}

static void keep_promises(uint64_t seed, bool shared, bool fails, int n_runs)
{
    static run_t run;
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed + shared * 2u + fails);
    for (int i = 0; i < n_runs; i++) {
        plan_t plan = random_plan(&rng, shared, fails);
        int bad = carry_out(&run, &plan, pgasi_rng_u64(&rng));
        if (bad != 0)
            diag("run %d: %d bad; threads %d, links %d, cqs %d, depth %u, interval %u, batch %u, "
                 "engine %d",
                 i, bad, plan.n_threads, plan.n_links, plan.n_cqs, plan.depth, plan.interval,
                 plan.batch, plan.engine);
        n_bad += bad;
    }
    is_int(n_bad, 0, "%d runs with %s queue pairs%s keep all promises", n_runs,
           shared ? "shared" : "own", fails ? " of which some fail" : "");
}

/* Each judge must be able to fail. */
static void break_promises(uint64_t seed)
{
    static run_t run;
    plan_t plan = { .n_threads = 1,
                    .n_links = 1,
                    .n_cqs = 1,
                    .depth = 16,
                    .interval = 4,
                    .batch = 2,
                    .n_ops = 300,
                    .lie = 1,
                    .careless = true }; /* one thread, so that it is no race */
    carry_out(&run, &plan, seed);
    ok(run.dev.n_poisoned > 0, "buffers that are reused at once are noticed");
    plan.careless = false;
    plan.lie = 2;
    carry_out(&run, &plan, seed);
    ok(run.dev.n_overflows > 0, "queues that are smaller than they say overflow, which is noticed");
    pgas_verbs_tx_info_t stats = { .posted = 300, .completions = 102 };
    ok(is_frugal(&stats, 1, 3) && !is_frugal(&stats, 0, 3), "one completion too many is noticed");
}

/* One link, its completions stepped by hand. */
static void begin_alone(run_t *run, uint32_t depth, uint32_t interval)
{
    memset(run, 0, sizeof *run);
    run->plan = (plan_t){ .n_links = 1,
                          .n_cqs = 1,
                          .depth = depth,
                          .interval = interval,
                          .batch = 1,
                          .lie = 1,
                          .n_ops = 1 };
    fake_begin(&run->dev, 1, 1);
    if (begin_links(run) != 0)
        bail("no link");
}

static void end_alone(run_t *run)
{
    run->dev.steps_itself = true;
    if (end_links(run) != 0)
        bail("the link does not end well");
    pthread_mutex_destroy(&run->dev.lock);
}

static uint64_t post_small(run_t *run, uint32_t flags)
{
    static uint64_t from, to;
    pgas_verbs_span_t span = { (uintptr_t)&from, 8, 0 };
    pgas_verbs_request_t request = { .op = PGAS_VERBS_WRITE,
                                     .flags = flags,
                                     .spans = &span,
                                     .n_spans = 1,
                                     .remote_addr = (uintptr_t)&to };
    uint64_t number = 0;
    return pgas_verbs_tx_post(run->links[0].tx, &request, &number) == PGAS_OK ? number : 0;
}

static void *poll_once(void *arg)
{
    pgas_verbs_tx_poll(((run_t *)arg)->links[0].tx);
    return NULL;
}

static void count_steps(void)
{
    static run_t run;
    pthread_t inside;
    begin_alone(&run, 64, 1);
    pgas_verbs_tx_t *tx = run.links[0].tx;
    for (int i = 0; i < 64; i++)
        post_small(&run, 0);
    while (fake_step(&run.dev.super))
        ;
    pthread_mutex_lock(&run.dev.lock); /* the polling thread stays inside */
    pthread_create(&inside, NULL, poll_once, &run);
    while (__atomic_load_n(&tx->poller->held, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    uint64_t most = 0, before = pgas_verbs_tx_done(tx);
    int found = 0;
    for (int i = 0; i < 1000; i++) {
        steps = 0;
        found += pgas_verbs_tx_poll(tx);
        most = PGASI_MAX(most, steps);
    }
    ok(most <= 2 && found == 0 && before == 0,
       "a poll ends after two steps while another thread is inside (took %d)", (int)most);
    ok(pgas_verbs_tx_done(tx) == 0, "meanwhile completed requests are known by a load");
    pthread_mutex_unlock(&run.dev.lock);
    pthread_join(inside, NULL);
    most = 0;
    while (pgas_verbs_tx_done(tx) < 64) {
        uint64_t done = pgas_verbs_tx_done(tx);
        steps = 0;
        pgas_verbs_tx_poll(tx);
        most = PGASI_MAX(most, steps);
        found = PGASI_MAX(found, (int)(pgas_verbs_tx_done(tx) - done));
    }
    ok(most <= BATCH * STEPS_EACH + 4 && most > (uint64_t)found && found <= BATCH,
       "a poll that takes up to %d completions ends after %d steps", found, (int)most);
    end_alone(&run);
}

/* Numbers, marks and signals of one link. */
static void mark_and_force(void)
{
    static run_t run;
    pgas_verbs_tx_info_t stats = { .size = sizeof stats };
    begin_alone(&run, 16, 4);
    pgas_verbs_tx_t *tx = run.links[0].tx;
    ok(pgas_verbs_tx_ring(tx, true) == PGAS_OK && pgas_verbs_tx_posted(tx) == 0,
       "a mark without requests costs nothing");
    bool good = post_small(&run, 0) == 1 && post_small(&run, 0) == 2 &&
                pgas_verbs_tx_ring(tx, true) == PGAS_OK;
    ok(good && pgas_verbs_tx_posted(tx) == 3 && pgas_verbs_tx_ring(tx, true) == PGAS_OK &&
           pgas_verbs_tx_posted(tx) == 3,
       "a mark takes one number, a second one none");
    ok(post_small(&run, PGAS_VERBS_SIGNAL) == 4 && pgas_verbs_tx_ring(tx, true) == PGAS_OK &&
           pgas_verbs_tx_posted(tx) == 4,
       "nor does one after a forced signal");
    int n = 0;
    while (post_small(&run, 0) != 0)
        n++;
    ok(n == 11 && pgas_verbs_tx_ring(tx, true) == PGAS_OK && pgas_verbs_tx_posted(tx) == 16,
       "posts leave room for a mark, which fits into a full queue");
    ok(pgas_verbs_tx_wait(tx, 17, 0) == PGAS_ERR_RANGE &&
           pgas_verbs_tx_wait(tx, 16, 1) == PGAS_ERR_TIMEOUT,
       "waiting for a number never posted is refused, for one that does not come ends in time");
    while (fake_step(&run.dev.super))
        ;
    pgas_status_t status = pgas_verbs_tx_wait(tx, 16, PATIENCE_US);
    pgas_verbs_tx_info(tx, &stats);
    ok(status == PGAS_OK && stats.posted == 14 && stats.signaled == 5 && stats.completions == 5 &&
           stats.refused == 1 && stats.inlined == 14,
       "the counts are right");
    end_alone(&run);
}

static pgas_status_t transfer(pgas_verbs_tx_t *tx, pgas_verbs_op_t op, const char *there,
                              const char *here, uint64_t bytes, uint64_t *at_io, uint64_t *number_p)
{
    const pgas_verbs_span_t span = { .addr = (uintptr_t)here };
    const pgas_verbs_request_t request = {
        .op = op, .spans = &span, .n_spans = 1, .remote_addr = (uintptr_t)there
    };
    return pgas_verbs_tx_transfer(tx, &request, bytes, at_io, number_p);
}

/* More than one request takes, and refusals. */
static void cut_transfers(void)
{
    static run_t run;
    static char from[4500], to[4500];
    uint64_t at = 0, number = 0;
    begin_alone(&run, 4, 1);
    pgas_verbs_tx_t *tx = run.links[0].tx;
    memset(from, 7, sizeof from);
    pgas_status_t status = transfer(tx, PGAS_VERBS_WRITE, to, from, sizeof from, &at, &number);
    ok(status == PGAS_ERR_AGAIN && at == 4000 && number == 4,
       "a write is cut, as far as there is room");
    while (fake_step(&run.dev.super))
        ;
    status = transfer(tx, PGAS_VERBS_WRITE, to, from, sizeof from, &at, &number);
    pgas_verbs_tx_ring(tx, false);
    while (fake_step(&run.dev.super))
        ;
    ok(status == PGAS_OK && at == sizeof from &&
           pgas_verbs_tx_wait(tx, number, PATIENCE_US) == PGAS_OK &&
           memcmp(from, to, sizeof from) == 0,
       "and continues where it stopped");
    memset(from, 0, sizeof from);
    at = 0;
    status = transfer(tx, PGAS_VERBS_READ, to, from, 2500, &at, &number);
    pgas_verbs_tx_ring(tx, false);
    while (fake_step(&run.dev.super))
        ;
    ok(status == PGAS_OK && pgas_verbs_tx_wait(tx, number, PATIENCE_US) == PGAS_OK &&
           from[0] == 7 && from[2499] == 7 && from[2500] == 0,
       "so does a read");
    at = 0;
    ok(transfer(tx, PGAS_VERBS_WRITE, NULL, from, UINT64_C(1) << 49, &at, NULL) == PGAS_ERR_LIMIT &&
           at == 0 && transfer(tx, PGAS_VERBS_WRITE, to, from, 0, &at, &number) == PGAS_OK,
       "too much is refused, nothing is a request like others");
    at = 11;
    ok(transfer(tx, PGAS_VERBS_WRITE, to, from, 10, &at, NULL) == PGAS_ERR_INVALID &&
           transfer(tx, PGAS_VERBS_SEND, to, from, 10, &at, NULL) == PGAS_ERR_INVALID && at == 11,
       "more taken than there is, and other operations, are refused");
    end_alone(&run);
}

/* What providers can say beside error completions. */
static void break_devices(void)
{
    static run_t run;
    begin_alone(&run, 16, 4);
    link_t *link = &run.links[0];
    uint64_t good = post_small(&run, PGAS_VERBS_SIGNAL);
    while (fake_step(&run.dev.super))
        ;
    bool before = pgas_verbs_tx_wait(link->tx, good, PATIENCE_US) == PGAS_OK;
    run.dev.bells_fail = true;
    uint64_t lost = post_small(&run, 0);
    ok(before && pgas_verbs_tx_wait(link->tx, lost, PATIENCE_US) == PGAS_ERR_IO &&
           post_small(&run, 0) == 0 && pgas_verbs_tx_wait(link->tx, good, PATIENCE_US) == PGAS_OK &&
           link->n_ends == 1 && link->n_bad == 0,
       "a doorbell that fails ends the connection; earlier completions remain");
    run.dev.cqs_dead = true;
    pgas_verbs_tx_poll(link->tx);
    is_int((intmax_t)link->n_ends, 1, "which is reported once");
    pgas_verbs_qp_destroy(link->qp);
    pgas_verbs_cq_destroy(run.cqs[0]);

    for (int round = 0; round < 2; round++) {
        memset(&run, 0, sizeof run);
        run.plan = (plan_t){
            .n_links = 2, .n_cqs = 1, .depth = 16, .interval = 4, .batch = 1, .lie = 1, .n_ops = 1
        };
        fake_begin(&run.dev, 1, 1);
        begin_links(&run);
        run.dev.bells_fail = round == 0;
        lost = post_small(&run, 0);
        if (round > 0)
            break;
        pgas_verbs_tx_poll(run.links[1].tx);
        ok(run.links[0].n_ends == 1 && run.links[1].n_ends == 0,
           "a poll of one transmitter ends the other, whose doorbell failed");
        for (int k = 0; k < 2; k++)
            pgas_verbs_qp_destroy(run.links[k].qp);
        pgas_verbs_cq_destroy(run.cqs[0]);
    }
    run.dev.cqs_dead = true;
    ok(pgas_verbs_tx_wait(run.links[0].tx, lost, PATIENCE_US) == PGAS_ERR_TRANSPORT &&
           run.links[0].n_ends == 1 && run.links[1].n_ends == 1 &&
           pgas_verbs_tx_ring(run.links[1].tx, true) == PGAS_ERR_PEER,
       "a completion queue that dies ends all connections on it");
    for (int k = 0; k < 2; k++)
        pgas_verbs_qp_destroy(run.links[k].qp);
    pgas_verbs_cq_destroy(run.cqs[0]);
}

static void refuse_small_cqs(void)
{
    static run_t run;
    begin_alone(&run, 16, 4);
    pgas_verbs_qp_t *second;
    pgas_verbs_tx_t *tx;
    pgas_verbs_address_t address;
    pgas_verbs_qp_opts_t opts = run.links[0].qp->opts;
    opts.send_depth = 1;
    pgas_verbs_qp_create(&run.dev.super, &opts, &second);
    qp_address(second, &address);
    pgas_verbs_qp_connect(second, &address);
    bool refused = pgas_verbs_tx_create(second, NULL, &tx) == PGAS_ERR_LIMIT;
    pgas_verbs_tx_destroy(run.links[0].tx);
    ok(refused && pgas_verbs_tx_create(second, NULL, &tx) == PGAS_OK,
       "a completion queue without room takes no further transmitter");
    pgas_verbs_qp_destroy(second);
    pgas_verbs_qp_destroy(run.links[0].qp);
    ok(run.cqs[0]->reserved == 0 && pgas_verbs_cq_destroy(run.cqs[0]) == PGAS_OK,
       "room comes back at close");
}

int main(void)
{
    plan(27);
    uint64_t seed = tap_seed(20261122);
    keep_promises(seed, false, false, 200);
    keep_promises(seed, true, false, 200);
    keep_promises(seed, false, true, 200);
    keep_promises(seed, true, true, 200);
    break_promises(seed);
    count_steps();
    mark_and_force();
    cut_transfers();
    break_devices();
    refuse_small_cqs();
    return done();
}
