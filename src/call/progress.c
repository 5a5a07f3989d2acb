/* Progress: one round of a thread that is inside the library.
 *
 * A round first continues the thread's own context and the calls that its send queue holds back.
 * Then, if the receive lock is free, it runs the calls that arrived and publishes the calls that
 * their handlers gathered. A round of an idle rank costs some loads.
 *
 * Without service threads the rounds also run the calls to the service endpoint and help contexts
 * that no thread polls. Service threads (service.c) use parts of a round. */
#include "call/agg.h"
#include "call/progress.h"

#include <sched.h>

#include "base/clock.h"
#include "base/deaths.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/sync.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/serve.h"
#include "mem/ahead.h"
#include "mem/ctx.h"
#include "base/sync.h"
#include "mem/thread.h"

/* rounds with a due poll, for each poll of a context without operations in flight */
#define CTX_EVERY 16
/* polls without an event until the transport counts as quiet */
#define EAGER 64
/* While the transport is quiet, its quiet time divided by this is the interval between polls ... */
#define QUIET_SHARE 64
/* ... but at most so many times the cost of a poll. */
#define QUIET_COSTS 8
/* rounds with calls from the node, for each check whether a poll of the quiet transport is due */
#define BUSY_EVERY 8
/* rounds with gathered calls that have a time limit, for each time that the clock is read */
#define TIME_EVERY 8
/* Without service threads: rounds under the receive lock, for each time that the shared context and
 * those of threads outside of the library are helped; or the time, as naps make rounds rare. */
#define HELP_EVERY 256
#define HELP_NS    PGASI_NS_PER_MS
/* calls of pgas_progress without an event, for each poll that costs a system call */
#define LOOK_EVERY 1024
/* calls of pgas_progress without an event, in a row, for each time that the thread yields */
#define YIELD_EVERY 512
/* rounds that found the receive lock held, for each time that the thread yields */
#define YIELD_SOON 16

static struct {
    bool deaths_unsettled; /* pgasi_peer_died has noted a death that no round has reported yet */
    /* an application thread has made progress since a service thread last checked */
    uint32_t polled;
    /* rounds under the receive lock; they are counted if there are no service threads */
    uint32_t n_rounds;
} board;

/* ---- peers that die ---- */

void pgasi_peer_died(int rank)
{
    if (!pgasi_boot_peer_died(rank))
        return;
    PGASI_ERROR("service", "rank %d died", rank);
    pgasi_ctxs_peer_dead(rank);
    pgasi_sendq_peer_died();
    __atomic_store_n(&board.deaths_unsettled, true, __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
}

void pgasi_peer_lost(int rank)
{
    if (!__atomic_load_n(&pgasi_leaving, __ATOMIC_ACQUIRE))
        pgasi_watch_lost(rank);
}

/* This does not run where a death is noticed. That may be inside the transport, while the receive
 * lock is held. */
__attribute__((noinline)) void pgasi_progress_settle_deaths(void)
{
    if (!__atomic_load_n(&board.deaths_unsettled, __ATOMIC_RELAXED) ||
        !__atomic_exchange_n(&board.deaths_unsettled, false, __ATOMIC_ACQ_REL))
        return;
    pgasi_path_state_t before = pgasi_serve_begin();
    for (int r = 0; r < pgasi_boot.n_ranks; r++)
        if (pgasi_boot_is_dead(r))
            pgasi_deaths_report(r);
    pgasi_serve_end(before);
}

/* ---- how often the transport is polled ---- */

/* A poll of the transport costs more than all else that a waiting thread does in a round. The
 * longer nothing has come from other nodes, the less often a thread that waits for ranks of its
 * node polls. A message is then late by at most 1/64 of that time. The measure is time, not rounds,
 * because a program may compute between two rounds.
 *
 * The thread that holds the receive lock writes these values; any thread reads them. Times are in
 * cycles. The counter of another processor may differ: a time that seems to be ahead then counts as
 * long ago. */
static struct {
    uint32_t eager;  /* polls until the transport counts as quiet */
    uint64_t since;  /* when it became quiet */
    uint64_t looked; /* end of the last poll since then */
    uint64_t cost;   /* of a poll, smoothed: a poll that was interrupted hardly counts */
} transport = { .eager = EAGER };

static inline uint64_t get(const uint64_t *cycles)
{
    return __atomic_load_n(cycles, __ATOMIC_RELAXED);
}

static inline void set(uint64_t *cycles, uint64_t value)
{
    __atomic_store_n(cycles, value, __ATOMIC_RELAXED);
}

static inline bool is_eager(void)
{
    return __atomic_load_n(&transport.eager, __ATOMIC_RELAXED) != 0;
}

static inline void set_eager(uint32_t n_looks)
{
    __atomic_store_n(&transport.eager, n_looks, __ATOMIC_RELAXED);
}

static inline bool look_is_due(void)
{
    if (is_eager())
        return true;
    uint64_t looked = get(&transport.looked), most = QUIET_COSTS * get(&transport.cost);
    return pgasi_cycles() - looked >=
           PGASI_MIN((looked - get(&transport.since)) / QUIET_SHARE, most);
}

/* The caller holds the receive lock. */
static int look_at_quiet(pgasi_tp_ctx_t *tp)
{
    uint64_t begin = pgasi_cycles(), cost = get(&transport.cost);
    int n = tp->ops->progress(tp);
    uint64_t end = pgasi_cycles();
    set(&transport.looked, end);
    set(&transport.cost, PGASI_MIN(end - begin, cost + cost / 16 + 16));
    if (n > 0)
        set_eager(EAGER);
    return n;
}

/* The caller holds the receive lock. */
static int look_at_transport(pgasi_tp_ctx_t *tp)
{
    if (!is_eager())
        return look_at_quiet(tp);
    int n = tp->ops->progress(tp);
    set_eager(n > 0 ? EAGER : transport.eager - 1);
    if (!transport.eager) {
        set(&transport.since, pgasi_cycles());
        set(&transport.looked, transport.since);
    }
    return n;
}

/* ---- one round ---- */

/* Counters of the calling thread. Each serves one of the constants at the head of this file. */
static __thread struct {
    /* rounds in which a poll is due, with a time limit, and with arrivals from the node */
    uint32_t due, timed, busy;
    uint32_t locked; /* rounds that found the receive lock held */
    /* calls of pgas_progress without an event: all, and those in a row */
    uint32_t idle, in_a_row;
} seen __attribute__((tls_model("initial-exec")));

static __attribute__((noinline)) int own_round(pgasi_ctx_t *ctx, bool held, bool look, bool timed)
{
    pgasi_sendq_t *sq = ctx->sendq;
    if (ctx->index == PGASI_CTX_SERVICE || !pgasi_ctx_try_lock(ctx))
        return 0;
    int n = look ? pgasi_ctx_progress(ctx) : 0;
    if (held)
        n += pgasi_sendq_progress(sq);
    if (timed)
        n += pgasi_sendq_look(sq);
    pgasi_ctx_unlock(ctx);
    return n;
}

/* Service handlers and threads without a context send through the shared context. Any thread that
 * makes a round continues it. */
__attribute__((noinline)) int pgasi_progress_shared(void)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SHARED];
    if (!pgasi_ctx_try_lock(ctx))
        return 0;
    int n = ctx->sendq ? pgasi_sendq_progress(ctx->sendq) : 0;
    if (ctx->tp)
        n += pgasi_ctx_progress(ctx);
    pgasi_ctx_unlock(ctx);
    return n;
}

static bool held_back(const pgasi_sendq_t *sq)
{
    return sq && pgasi_sendq_held(sq);
}

static __attribute__((noinline)) int help(void)
{
    static uint64_t helped_ns;
    uint64_t now = pgasi_now_ns();
    if (++board.n_rounds % HELP_EVERY != 0 && now - helped_ns < HELP_NS)
        return 0;
    helped_ns = now;
    return pgasi_ctxs_help();
}

/* The caller holds the receive lock. n is the number of events so far. */
static int serve(uint64_t n, bool look)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    if (PGAS_UNLIKELY(!pgasi_param.service_threads && look))
        n += (uint64_t)help();
    if (look && ctx->tp)
        n += (uint64_t)look_at_transport(ctx->tp);
    if (PGAS_UNLIKELY(__atomic_load_n(&pgasi_hooks.poll_wanted, __ATOMIC_RELAXED)))
        n += (uint64_t)pgasi_hooks_poll();
    if (ctx->sendq) {
        if (pgasi_sendq_held(ctx->sendq))
            n += (uint64_t)pgasi_sendq_progress(ctx->sendq);
        /* Then no open batch is left that quiescence counts. */
        pgasi_sendq_publish_all(ctx->sendq, PGASI_PUBLISH_DRAINED);
    }
    return n > INT32_MAX ? INT32_MAX : (int)n;
}

int pgasi_progress_serve(void)
{
    if (!pgasi_recv_try_lock())
        return 0;
    int n = serve(pgasi_ep_drain(PGASI_EP_ANY), true);
    pgasi_recv_unlock();
    if (PGAS_UNLIKELY(pgasi_sync_has_work()))
        n += pgasi_sync_work_round();
    return n;
}

/* True if context 0 has work that needs progress. A set wakeup flag may announce such work. */
static bool service_has_work(void)
{
    const pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    return __atomic_load_n(&pgasi_hooks.poll_wanted, __ATOMIC_RELAXED) ||
           held_back(__atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE));
}

static bool service_waits(void)
{
    return __atomic_load_n(&pgasi_ctxs[PGASI_CTX_SERVICE]->in_flight, __ATOMIC_RELAXED) ||
           service_has_work();
}

/* The thread that holds the lock may wait for the processor of the calling thread. */
static __attribute__((noinline)) void yield_to_holder(void)
{
    if (++seen.locked % YIELD_SOON == 0)
        sched_yield();
}

/* Serves the rank. Calls from the node run first, because a rank may wait for their answers. */
static inline int serve_round(bool arrived, bool look)
{
    if (!(arrived || look || service_waits()))
        return 0;
    if (PGAS_UNLIKELY(!pgasi_recv_try_lock())) {
        yield_to_holder();
        return 0;
    }
    int n = serve(pgasi_ep_drain_some(PGASI_EP_ANY), look);
    pgasi_recv_unlock();
    return n;
}

/* Batches of the shared context that are too old leave: aggregators of threads with a context of
 * their own gather there. */
static __attribute__((noinline)) int look_at_shared(void)
{
    static __thread uint32_t n_rounds;
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SHARED];
    const pgasi_sendq_t *sq = ctx ? __atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE) : NULL;
    if (!sq || !pgasi_sendq_timed(sq) || ++n_rounds % TIME_EVERY || pgasi_self.in_handler ||
        !pgasi_ctx_try_lock(ctx))
        return 0;
    int n = pgasi_sendq_look(ctx->sendq);
    pgasi_ctx_unlock(ctx);
    return n;
}

/* If there are service threads, only they run the service's own calls. */
int pgasi_progress_service(void)
{
    if (PGAS_LIKELY(!pgasi_ep_used(PGASI_EP_SERVICE)))
        return 0;
    return (int)pgasi_ep_drain_if_free(PGASI_EP_SERVICE);
}

static inline int progress_round(void)
{
    if (PGAS_UNLIKELY(pgasi_self.in_handler || !pgasi_thread_attached()))
        return pgasi_self.in_handler ? 0 : pgasi_pollers_poll();
    if (PGAS_UNLIKELY(__atomic_load_n(&board.deaths_unsettled, __ATOMIC_RELAXED)))
        pgasi_progress_settle_deaths();
    if (!__atomic_load_n(&board.polled, __ATOMIC_RELAXED))
        __atomic_store_n(&board.polled, 1, __ATOMIC_RELAXED);
    if (pgas_call_path.used && pgas_call_path.epoch == pgas_call_run.epoch) {
        pgasi_call_settle(pgas_call_path.used);
        pgas_call_path.used = NULL;
    }
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    if (PGAS_LIKELY(ctx))
        pgasi_ahead_end(&ctx->ahead);
    bool arrived = pgasi_recvq_pending();
    bool ask = !arrived || is_eager() || ++seen.busy % BUSY_EVERY == 0;
    bool due = pgasi_tp && ((ask && look_is_due()) || service_waits());
    int n = 0;
    if (PGAS_LIKELY(ctx)) {
        const pgasi_sendq_t *sq = __atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE);
        bool held = sq && pgasi_sendq_held(sq);
        bool look = ctx->tp && (__atomic_load_n(&ctx->in_flight, __ATOMIC_RELAXED) ||
                                (due && ++seen.due % CTX_EVERY == 0));
        bool timed = sq && pgasi_sendq_timed(sq) && ++seen.timed % TIME_EVERY == 0;
        if (PGAS_UNLIKELY(held || look || timed))
            n = own_round(ctx, held, look, timed);
    }
    if (PGAS_UNLIKELY(pgasi_ep_used(pgasi_self.ep) && pgasi_self.ep))
        n += (int)pgasi_ep_drain_if_free(pgasi_self.ep);
    if (PGAS_UNLIKELY(!pgasi_param.service_threads))
        n += pgasi_progress_service() + (int)pgasi_eps_report();
    if (PGAS_UNLIKELY(__atomic_load_n(&pgasi_eps_left, __ATOMIC_RELAXED) != 0))
        n += (int)pgasi_eps_refuse();
    if (PGAS_UNLIKELY(pgasi_sendq_shared_waits()))
        n += pgasi_progress_shared();
    if (PGAS_UNLIKELY(pgasi_agg_sends()))
        n += look_at_shared();
    if (PGAS_UNLIKELY(__atomic_load_n(&pgasi_coll_n_pending, __ATOMIC_RELAXED)))
        n += pgasi_coll_progress();
    if (PGAS_UNLIKELY(pgasi_sync_has_work()))
        n += pgasi_sync_work_round();
    return n + serve_round(arrived, due);
}

int pgasi_progress(void)
{
    return progress_round();
}

bool pgasi_progress_take_polled(void)
{
    return __atomic_exchange_n(&board.polled, 0, __ATOMIC_RELAXED) != 0;
}

static void publish_before_sleep(pgasi_ctx_t *ctx)
{
    const pgasi_sendq_t *sq = ctx ? __atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE) : NULL;
    bool timed = sq && ctx->index != PGASI_CTX_SERVICE && !pgasi_self.in_handler &&
                 pgasi_thread_attached() && pgasi_sendq_timed(sq);
    if (!timed || !pgasi_ctx_try_lock(ctx))
        return;
    pgasi_sendq_publish_all(ctx->sendq, PGASI_PUBLISH_TIME);
    pgasi_ctx_unlock(ctx);
}

void pgasi_progress_before_sleep(void)
{
    /* A poll of the transport is then due in every case. */
    set(&transport.looked, 0);
    if (PGAS_UNLIKELY(__atomic_load_n(&pgasi_sync_ahead, __ATOMIC_RELAXED)))
        pgasi_ahead_take_all();
    publish_before_sleep(pgasi_self.ctx);
    if (pgasi_agg_sends())
        publish_before_sleep(pgasi_ctxs[PGASI_CTX_SHARED]);
}

/* Covers everything that a wakeup flag may announce, except calls for threads that poll by
 * themselves. */
static bool something_is_left(void)
{
    bool left = pgasi_recvq_pending() || service_has_work() || pgasi_sendq_shared_waits();
    uint64_t eps = __atomic_load_n(&pgasi_eps_left, __ATOMIC_RELAXED);
    for (; PGAS_UNLIKELY(eps != 0) && !left; eps &= eps - 1)
        left = pgasi_ep_pending(PGASI_EP_FIRST_THREAD + __builtin_ctzll(eps));
    return left;
}

/* One round may be too little. It may have polled only one channel, or it found a lock whose holder
 * had polled before the arrival. */
void pgasi_progress_when_woken(void)
{
    progress_round();
    if (something_is_left() && !pgasi_self.in_handler && pgasi_thread_attached())
        pgasi_progress_serve();
    if (something_is_left())
        pgasi_wake(pgasi_boot.node_rank);
}

/* ---- loops of the program ---- */

/* A loop of the program that calls pgas_progress never sleeps here. From time to time the thread
 * checks for dead ranks and yields. The thread or rank for which it waits may need the same
 * processor. */
static __attribute__((noinline)) void idle_round(uint32_t n_idle, uint32_t in_a_row)
{
    if (pgasi_self.in_handler)
        return;
    if (pgasi_hooks.look_around && n_idle % LOOK_EVERY == 0)
        pgasi_hooks.look_around();
    if (in_a_row % YIELD_EVERY == 0)
        sched_yield();
}

int pgas_progress(void)
{
    int n = progress_round();
    if (n > 0) {
        seen.in_a_row = 0;
        return n;
    }
    seen.idle++;
    seen.in_a_row++;
    if (PGAS_UNLIKELY(seen.in_a_row % YIELD_EVERY == 0 || seen.idle % LOOK_EVERY == 0))
        idle_round(seen.idle, seen.in_a_row);
    return 0;
}
