/* Progress and service threads.
 *
 * One round: go on with the thread's own held-up calls and its context, then, if the receive lock
 * is free, run what arrived in rings and messages and publish what the handlers gathered. Rounds of
 * idle ranks cost some loads.
 *
 * A service thread sleeps in epoll on the rank's kick pipe and the transport's event descriptor.
 * While application threads poll it only naps (their rounds serve peers); it announces its sleep in
 * the wakeup flag when none has polled for a nap's length, and the next sender kicks it awake. It
 * also makes progress on contexts that no thread polls. Without service threads a waiting thread
 * does that. */
#include "call/progress.h"

#include <sched.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "mem/ctx.h"
#include "mem/thread.h"

/* idle contexts are looked at in every so many rounds that look at the transport */
#define CTX_EVERY 16
#define EAGER     64 /* looks in vain at the transport until it counts as quiet */
/* then it is left alone for this part of the time that it has been quiet, */
#define QUIET_SHARE 64
#define QUIET_COSTS 8 /* at most for as long as so many looks take */
/* ... and asked for in every so many rounds while calls come from the node */
#define BUSY_EVERY 8
/* the time is looked at in every so many rounds while calls are gathered that have a limit */
#define TIME_EVERY 8
/* rounds after which threads that are not in the library are helped, if no service thread does */
#define HELP_EVERY 256
/* rounds in which nothing happened, before a look that costs a system call */
#define LOOK_EVERY  1024
#define YIELD_EVERY 512 /* rounds in a row in which nothing happened, before others may run, */
#define YIELD_SOON  16  /* and rounds that found the receive lock held */

bool pgasi_leaving;

static struct {
    bool
        deaths_unsettled; /* pgasi_peer_died has noted a death that settle_deaths has not handled */
    uint32_t
        polled; /* an application thread has made progress since the service thread last looked */
    uint32_t n_rounds; /* with the receive lock, counted if there are no service threads */
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

/* Not where a death is noticed, which may be inside the transport, with the receive queue
 * locked. */
__attribute__((noinline)) void pgasi_progress_settle_deaths(void)
{
    if (!__atomic_load_n(&board.deaths_unsettled, __ATOMIC_RELAXED) ||
        !__atomic_exchange_n(&board.deaths_unsettled, false, __ATOMIC_ACQ_REL))
        return;
    for (int r = 0; r < pgasi_boot.n_ranks; r++) {
        if (!pgasi_boot_is_dead(r))
            continue;
        pgasi_hooks_death_settled(r);
    }
}

/* ---- how often to look at the transport ---- */

/* A look costs more than all else that a waiting thread does in a round. So who waits for ranks of
 * the node looks the less often the longer nothing has come from elsewhere; what then comes is late
 * by at most 1/64 of that time. By time, not by rounds: between two rounds a program may compute.
 * Written by who holds the receive lock, read by anybody, in cycles. (Those of another processor
 * may differ: what seems to lie ahead is long ago.) */
static struct {
    uint32_t eager;  /* so many looks yet until it counts as quiet */
    uint64_t since;  /* when it began to */
    uint64_t looked; /* end of the last look since then */
    uint64_t cost;   /* of a look, smoothed: one that was interrupted hardly counts */
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

/* Lock held. */
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

/* Lock held. */
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

/* What the calling thread has counted; the constants at the head say what for. */
static __thread struct {
    uint32_t due, timed, busy; /* rounds */
    uint32_t locked;           /* rounds that found the receive lock held */
    uint32_t idle, in_a_row;   /* calls of pgas_progress in which nothing happened */
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

/* What service handlers and threads without a context have sent: whoever passes goes on with it. */
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

/* Lock held; n: what has run already. */
static int serve(uint64_t n, bool look)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    if (PGAS_UNLIKELY(!pgasi_param.service_threads && ++board.n_rounds % HELP_EVERY == 0))
        n += (uint64_t)pgasi_ctxs_help();
    if (look && ctx->tp)
        n += (uint64_t)look_at_transport(ctx->tp);
    if (PGAS_UNLIKELY(__atomic_load_n(&pgasi_hooks.poll_wanted, __ATOMIC_RELAXED)))
        n += (uint64_t)pgasi_hooks_poll();
    if (ctx->sendq) {
        if (pgasi_sendq_held(ctx->sendq))
            n += (uint64_t)pgasi_sendq_progress(ctx->sendq);
        /* leaves nothing open that quiescence counts */
        pgasi_sendq_publish_all(ctx->sendq, PGASI_PUBLISH_DRAINED);
    }
    return n > INT32_MAX ? INT32_MAX : (int)n;
}

/* Polls everything. */
int pgasi_progress_serve(void)
{
    if (!pgasi_recv_try_lock())
        return 0;
    int n = serve(pgasi_ep_drain(PGASI_EP_ANY), true);
    pgasi_recv_unlock();
    return n;
}

/* Whether context 0 has work that needs progress; a ring may announce it. */
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

/* Whoever has the lock may wait for the processor that this thread has. */
static __attribute__((noinline)) void find_locked(void)
{
    if (++seen.locked % YIELD_SOON == 0)
        sched_yield();
}

/* Of other threads. What has come from the node comes first: somebody may wait for its answer. */
static inline int serve_round(bool arrived, bool look)
{
    if (!(arrived || look || service_waits()))
        return 0;
    if (PGAS_UNLIKELY(!pgasi_recv_try_lock())) {
        find_locked();
        return 0;
    }
    int n = serve(pgasi_ep_drain_some(PGASI_EP_ANY), look);
    pgasi_recv_unlock();
    return n;
}

/* The service's own calls: by service threads alone, if there are any. */
int pgasi_progress_service(void)
{
    if (PGAS_LIKELY(!pgasi_ep_used(PGASI_EP_SERVICE)))
        return 0;
    return (int)pgasi_ep_drain_if_free(PGASI_EP_SERVICE);
}

static inline int progress_round(void)
{
    if (PGAS_UNLIKELY(pgasi_self.in_handler || !pgasi_thread_attached()))
        return 0;
    if (PGAS_UNLIKELY(__atomic_load_n(&board.deaths_unsettled, __ATOMIC_RELAXED)))
        pgasi_progress_settle_deaths();
    if (!__atomic_load_n(&board.polled, __ATOMIC_RELAXED))
        __atomic_store_n(&board.polled, 1, __ATOMIC_RELAXED);
    if (pgas_call_path.used && pgas_call_path.epoch == pgas_call_run.epoch) {
        pgasi_call_settle(pgas_call_path.used);
        pgas_call_path.used = NULL;
    }
    pgasi_ctx_t *ctx = pgasi_self.ctx;
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

void pgasi_progress_before_sleep(void)
{
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    set(&transport.looked, 0); /* a look is due, whatever comes before the sleep */
    const pgasi_sendq_t *sq = ctx ? __atomic_load_n(&ctx->sendq, __ATOMIC_ACQUIRE) : NULL;
    bool timed = sq && ctx->index != PGASI_CTX_SERVICE && !pgasi_self.in_handler &&
                 pgasi_thread_attached() && pgasi_sendq_timed(sq);
    if (!timed || !pgasi_ctx_try_lock(ctx))
        return;
    pgasi_sendq_publish_all(ctx->sendq, PGASI_PUBLISH_TIME);
    pgasi_ctx_unlock(ctx);
}

/* Handles everything that a ring may announce, except calls for threads that poll by themselves. */
static bool something_is_left(void)
{
    bool left = pgasi_recvq_pending() || service_has_work() || pgasi_sendq_shared_waits();
    uint64_t eps = __atomic_load_n(&pgasi_eps_left, __ATOMIC_RELAXED);
    for (; PGAS_UNLIKELY(eps != 0) && !left; eps &= eps - 1)
        left = pgasi_ep_pending(PGASI_EP_FIRST_THREAD + __builtin_ctzll(eps));
    return left;
}

/* A round may have polled only one channel. Or it found a lock taken whose holder had polled before
 * the arrival. */
void pgasi_progress_when_woken(void)
{
    progress_round();
    if (something_is_left() && !pgasi_self.in_handler && pgasi_thread_attached())
        pgasi_progress_serve();
    if (something_is_left())
        pgasi_wake(pgasi_boot.node_rank);
}

/* ---- loops of the program ---- */

/* A loop of the program's own never sleeps here. But it looks around too, now and then, and lets
 * others run: threads of its rank, or ranks, on the same processor, for which it waits perhaps. */
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
