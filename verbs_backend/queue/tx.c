/* Transmitters decide which requests are signaled. One number says which requests are complete.
 *
 * They are shaped for some ten millions of small requests a second. Every request has a number: its
 * place in the send queue and the id in its completion. One request of `interval` is signaled.
 * `interval` is at most a quarter of the queue, so a full queue always contains a signal, and
 * polling makes room. mark() takes a number of its own: an entry that is signaled and does nothing
 * else.
 *
 * Posting. `stop` is the next number that needs more than a write: a signal, a doorbell, or a check
 * whether there is room. Below it a post to an unshared transmitter is a comparison and the
 * provider's write. A shared transmitter has stop 0, so that all posts take the long path, under
 * the lock.
 *
 * Credits. Send queue: posted - done never exceeds the queue. Requests leave the last place to a
 * mark, so a mark always has room. Completion queue: a request has at most one completion. After an
 * error each request has one, signaled or not. So a transmitter reserves as many completions as its
 * queue has places when it is opened, and neither queue can overflow.
 *
 * Polling is wait-free. A completion queue has one poller, which serves all transmitters on it. A
 * polling thread
 *     1. reads `held`, and returns if another thread is inside;
 *     2. exchanges it, and returns if another thread was faster: two steps;
 *     3. takes at most BATCH completions in one call of the provider; for each it loads the
 *        transmitter and its `done`, and stores `done`: at most STEPS_EACH steps and one advance();
 *     4. stores `held`.
 * No step is repeated until another thread does something. So a poll ends after at most BATCH *
 * STEPS_EACH + 4 steps of its own. Other threads cannot prolong it. A poll that finds another
 * thread inside ends after two. `done` is read by one load (two after the end of the connection).
 * Only the holder stores it, in the order in which the queue completes, and it never decreases. A
 * holder that is not scheduled delays new values of `done`, but no reader. t/unit/verbs_tx_model.c
 * counts the steps.
 *
 * The end of a connection: when the holder sees the first error completion it sets `done` to ENDED.
 * Readers take that for all posted numbers. The owner detects it at its next stop; requests that it
 * posts until then count as posted, and are flushed.
 *
 * The file is longer than 500 lines: posting polls, waiting posts, all share one struct, and the
 * test of the step bound includes the file as a whole. */
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include "base/clock.h"
#include "base/info_fill.h"
#include "base/spin.h"
#include "verbs_backend/queue/device.h"

#define BATCH        16
#define STEPS_EACH   5
#define ENDED        PGASI_VERBS_TX_ENDED
#define BYTES_MAX    (UINT64_C(1) << 48)
#define LOCK_SPINS   64
#define WAIT_SPINS   200
#define WAIT_YIELDS  50
#define NAP_NS       50000u
#define NAP_EVENT_MS 5 /* another thread may take the event for which this one sleeps */

/* the test of the bound counts steps */
#ifndef PGASI_TX_STEP
#define PGASI_TX_STEP() ((void)0)
#endif

typedef struct pgasi_verbs_poller {
    uint32_t held; /* a thread is inside */
    pgas_verbs_cq_t *cq;
    int (*cq_poll)(pgas_verbs_cq_t *cq, pgas_verbs_completion_t *completions, int n);
    pgas_verbs_tx_t *members; /* accessed by the holder */
    bool some_broken;         /* atomic: a member's doorbell has failed since the holder checked */
} pgasi_verbs_poller_t;

struct pgas_verbs_tx {
    /* used by posting threads */
    uint64_t posted; /* atomic: other threads read it */
    uint64_t stop;   /* 0 if shared */
    pgas_status_t (*write)(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request, uint32_t flags,
                           uint64_t id);
    pgas_verbs_qp_t *qp;
    uint32_t inline_max, spans_max;
    uint64_t inlined;

    /* used by polling threads */
    PGASI_ALIGNED(PGASI_CACHELINE) uint64_t done; /* atomic */
    uint64_t good;                                /* done before the end */
    uint64_t completions;                         /* atomic */
    pgas_verbs_advance_fn_t advance;
    void *arg;
    pgasi_verbs_poller_t *poller;
    pgas_verbs_tx_t *next; /* next member */
    pgas_status_t status;  /* valid once done is ENDED */

    /* used by posting threads at a stop */
    PGASI_ALIGNED(PGASI_CACHELINE)
    uint64_t signal_at;
    uint64_t signaled; /* numbers: the next to be signaled, the last that was */
    uint64_t rung;     /* the last number that the device knows */
    uint64_t room_end; /* the last number that had room when done was read */
    uint32_t interval, batch, room;
    int lock;
    bool shared;
    pgas_status_t broken;       /* atomic: a doorbell failed */
    pgas_verbs_tx_info_t stats; /* without inlined and completions */
};

_Static_assert(offsetof(pgas_verbs_tx_t, done) == offsetof(pgasi_verbs_tx_head_t, done),
               "inline functions read the head");

/* Guards opening and closing of all transmitters of the process. */
static pthread_mutex_t control = PTHREAD_MUTEX_INITIALIZER;

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

/* ---- polling ---- */

static bool try_hold(pgasi_verbs_poller_t *poller)
{
    PGASI_TX_STEP();
    if (__atomic_load_n(&poller->held, __ATOMIC_RELAXED) != 0)
        return false;
    PGASI_TX_STEP();
    return __atomic_exchange_n(&poller->held, 1, __ATOMIC_ACQUIRE) == 0;
}

static void let_go(pgasi_verbs_poller_t *poller)
{
    PGASI_TX_STEP();
    __atomic_store_n(&poller->held, 0, __ATOMIC_RELEASE);
}

/* Reports the end of a connection, once. The poller is held. @return whether it was news */
static int end(pgas_verbs_tx_t *tx, pgas_status_t status)
{
    if (load(&tx->done) == ENDED)
        return 0;
    tx->good = load(&tx->done);
    tx->status = status;
    PGASI_TX_STEP();
    __atomic_store_n(&tx->done, ENDED, __ATOMIC_RELEASE);
    if (tx->advance)
        tx->advance(tx->arg, tx, load(&tx->posted), status);
    return 1;
}

/* The completion queue is dead. The poller is held. */
static int end_all(pgasi_verbs_poller_t *poller)
{
    int n_news = 0;
    for (pgas_verbs_tx_t *tx = poller->members; tx != NULL; tx = tx->next)
        n_news += end(tx, PGAS_ERR_TRANSPORT);
    return n_news;
}

/* Doorbells have failed: requests of these transmitters will not complete. */
static int end_broken(pgasi_verbs_poller_t *poller)
{
    int n_news = 0;
    (void)__atomic_exchange_n(&poller->some_broken, false, __ATOMIC_ACQUIRE);
    for (pgas_verbs_tx_t *tx = poller->members; tx != NULL; tx = tx->next) {
        pgas_status_t broken = __atomic_load_n(&tx->broken, __ATOMIC_RELAXED);
        if (broken != PGAS_OK)
            n_news += end(tx, broken);
    }
    return n_news;
}

/* The poller is held. @return whether it was news */
static int account(const pgas_verbs_completion_t *completion)
{
    PGASI_TX_STEP();
    pgas_verbs_tx_t *tx = completion->qp != NULL ? completion->qp->tx : NULL;
    if (!tx)
        return 0;
    PGASI_TX_STEP();
    store(&tx->completions, load(&tx->completions) + 1);
    PGASI_TX_STEP();
    uint64_t done = load(&tx->done);
    if (done == ENDED)
        return 0;
    if (PGAS_UNLIKELY(completion->status != PGAS_OK)) {
        end(tx, completion->status);
    } else {
        PGASI_TX_STEP();
        __atomic_store_n(&tx->done, completion->id, __ATOMIC_RELEASE);
        if (tx->advance)
            tx->advance(tx->arg, tx, completion->id, PGAS_OK);
    }
    return 1;
}

int pgas_verbs_tx_poll(pgas_verbs_tx_t *tx)
{
    pgasi_verbs_poller_t *poller = tx->poller;
    pgas_verbs_completion_t completions[BATCH];
    int n_news = 0;
    if (!try_hold(poller))
        return 0;
    int n = poller->cq_poll(poller->cq, completions, BATCH);
    for (int i = 0; i < n; i++)
        n_news += account(&completions[i]);
    PGASI_TX_STEP();
    if (PGAS_UNLIKELY(n < 0))
        n_news += end_all(poller);
    else if (PGAS_UNLIKELY(__atomic_load_n(&poller->some_broken, __ATOMIC_RELAXED)))
        n_news += end_broken(poller);
    let_go(poller);
    return n_news;
}

/* ---- posting ---- */

static void lock_posting(pgas_verbs_tx_t *tx)
{
    if (tx->shared)
        pgasi_spin_lock(&tx->lock, LOCK_SPINS);
}

static void unlock_posting(pgas_verbs_tx_t *tx)
{
    if (tx->shared)
        pgasi_spin_unlock(&tx->lock);
}

/* for providers without qp_write_one */
static pgas_status_t write_copy(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request,
                                uint32_t flags, uint64_t id)
{
    pgas_verbs_request_t copy = *request;
    copy.flags = flags;
    copy.id = id;
    return qp->dev->ops->qp_write(qp, &copy, 1, NULL);
}

static __attribute__((noinline)) bool fit_inline(const pgas_verbs_tx_t *tx,
                                                 const pgas_verbs_request_t *request)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < request->n_spans && i < tx->spans_max; i++)
        bytes += request->spans[i].bytes;
    return request->n_spans <= tx->spans_max && bytes - 1 < tx->inline_max;
}

/* Whether the bytes are copied while posting: only small ones that are sent. */
static inline bool is_small(const pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request)
{
    if (request->op > PGAS_VERBS_WRITE_IMM)
        return false;
    return PGAS_LIKELY(request->n_spans == 1) ? request->spans[0].bytes - 1 < tx->inline_max
                                              : fit_inline(tx, request);
}

/* The following functions are for the posting thread, under the lock if there is one. */

static void ring(pgas_verbs_tx_t *tx)
{
    if (tx->rung == tx->posted)
        return;
    tx->rung = tx->posted;
    tx->stats.doorbells++;
    pgas_status_t status = tx->qp->dev->ops->qp_ring(tx->qp);
    if (PGAS_UNLIKELY(status != PGAS_OK)) {
        __atomic_store_n(&tx->broken, status, __ATOMIC_RELAXED);
        __atomic_store_n(&tx->poller->some_broken, true, __ATOMIC_RELEASE);
    }
}

/* Computes the number at which a post must take the long path again. */
static void plan_ahead(pgas_verbs_tx_t *tx)
{
    uint64_t stop = PGASI_MIN(tx->signal_at, tx->rung + tx->batch);
    if (!tx->shared)
        tx->stop = PGASI_MIN(stop, tx->room_end + 1);
}

/* Reads which earlier requests are done. */
static pgas_status_t look(pgas_verbs_tx_t *tx)
{
    uint64_t done = __atomic_load_n(&tx->done, __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(done == ENDED || __atomic_load_n(&tx->broken, __ATOMIC_RELAXED) != PGAS_OK))
        return PGAS_ERR_PEER;
    tx->room_end = done + tx->room;
    return PGAS_OK;
}

static pgas_status_t put(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request, bool forced,
                         uint64_t *number_p)
{
    uint64_t number = tx->posted + 1;
    bool small = is_small(tx, request), signal = forced || number >= tx->signal_at;
    uint32_t flags = request->flags | small * PGAS_VERBS_INLINE | signal * PGAS_VERBS_SIGNAL;
    pgas_status_t status = tx->write(tx->qp, request, flags, number);
    if (status != PGAS_OK)
        return status;
    tx->inlined += small;
    store(&tx->posted, number);
    if (signal) {
        tx->signaled = number;
        tx->signal_at = number + tx->interval;
        tx->stats.signaled++;
    }
    if (number - tx->rung >= tx->batch)
        ring(tx);
    plan_ahead(tx);
    if (number_p)
        *number_p = number;
    return PGAS_OK;
}

static pgas_status_t post_locked(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                 uint64_t *number_p)
{
    pgas_status_t status = look(tx);
    if (status == PGAS_OK && tx->posted >= tx->room_end) {
        ring(tx);
        status = PGAS_ERR_AGAIN;
    }
    return status != PGAS_OK ? status
                             : put(tx, request, request->flags & PGAS_VERBS_SIGNAL, number_p);
}

/* Polls once if there is no room; not under the lock, because advance() may post. */
static __attribute__((noinline)) pgas_status_t
post(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request, uint64_t *number_p)
{
    pgas_status_t status = PGAS_ERR_AGAIN;
    for (int round = 0; round < 2 && status == PGAS_ERR_AGAIN; round++) {
        if (round > 0)
            pgas_verbs_tx_poll(tx);
        lock_posting(tx);
        status = post_locked(tx, request, number_p);
        tx->stats.refused += round > 0 && status == PGAS_ERR_AGAIN;
        unlock_posting(tx);
    }
    return status;
}

/* A post below stop only writes the entry. It keeps few values across the call, so that few
 * registers are saved. */
static inline pgas_status_t post_next(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                      bool small, uint64_t *number_p)
{
    uint32_t flags = request->flags | small * PGAS_VERBS_INLINE;
    pgas_status_t status = tx->write(tx->qp, request, flags, load(&tx->posted) + 1);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    uint64_t number = load(&tx->posted) + 1;
    store(&tx->posted, number);
    tx->inlined += small;
    if (number_p)
        *number_p = number;
    return PGAS_OK;
}

/* A post of several pieces, or of none. It is a function of its own, so that the frequent path
 * saves no registers for it. */
static __attribute__((noinline)) pgas_status_t
post_pieces(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request, uint64_t *number_p)
{
    return post_next(tx, request, is_small(tx, request), number_p);
}

pgas_status_t pgas_verbs_tx_post(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                 uint64_t *number_p)
{
    if (PGAS_UNLIKELY(load(&tx->posted) + 1 >= tx->stop) ||
        PGAS_UNLIKELY(request->flags & PGAS_VERBS_SIGNAL))
        return post(tx, request, number_p);
    if (PGAS_UNLIKELY(request->n_spans != 1))
        return post_pieces(tx, request, number_p);
    return post_next(tx, request,
                     request->op <= PGAS_VERBS_WRITE_IMM &&
                         request->spans[0].bytes - 1 < tx->inline_max,
                     number_p);
}

pgas_status_t pgas_verbs_tx_transfer(pgas_verbs_tx_t *tx, const pgas_verbs_request_t *request,
                                     uint64_t bytes, uint64_t *at_io, uint64_t *number_p)
{
    if ((request->op != PGAS_VERBS_WRITE && request->op != PGAS_VERBS_READ) ||
        request->n_spans != 1 || *at_io > bytes)
        return PGAS_ERR_INVALID;
    if (bytes > BYTES_MAX)
        return PGAS_ERR_LIMIT;
    const uint64_t most = tx->qp->dev->limits.message_max;
    pgas_verbs_span_t piece = request->spans[0];
    pgas_verbs_request_t next = *request;
    next.spans = &piece;
    next.n_spans = bytes > 0;
    pgas_status_t status;
    do {
        piece.addr = request->spans[0].addr + *at_io;
        piece.bytes = (uint32_t)PGASI_MIN(bytes - *at_io, most);
        next.remote_addr = request->remote_addr + *at_io;
        status = pgas_verbs_tx_post(tx, &next, number_p);
        *at_io += status == PGAS_OK ? piece.bytes : 0;
    } while (status == PGAS_OK && *at_io < bytes);
    return status;
}

/* Makes sure that a number is signaled and known to the device. */
static pgas_status_t cover(pgas_verbs_tx_t *tx, uint64_t number)
{
    static const pgas_verbs_request_t nothing = { .op = PGAS_VERBS_NOP };
    lock_posting(tx);
    pgas_status_t status = look(tx);
    if (status == PGAS_OK && tx->signaled < PGASI_MIN(number, tx->posted)) {
        status = put(tx, &nothing, true, NULL);
        tx->stats.posted -= status == PGAS_OK; /* a mark is not a request of the caller */
    }
    ring(tx);
    plan_ahead(tx);
    unlock_posting(tx);
    return status;
}

pgas_status_t pgas_verbs_tx_ring(pgas_verbs_tx_t *tx, bool mark)
{
    return cover(tx, mark ? ENDED : 0);
}

/* ---- waiting ---- */

/* Whether a number is done, and with which status. */
static bool is_over(const pgas_verbs_tx_t *tx, uint64_t number, pgas_status_t *status_p)
{
    uint64_t done = __atomic_load_n(&tx->done, __ATOMIC_ACQUIRE);
    *status_p = done != ENDED || number <= tx->good ? PGAS_OK : tx->status;
    return number <= done;
}

/* Sleeps until a completion arrives, or for a moment. */
static void nap(pgasi_verbs_poller_t *poller, uint64_t left_ns)
{
    pgas_verbs_cq_t *cq = poller->cq;
    pgas_status_t status = PGAS_ERR_AGAIN;
    int fd = -1;
    if ((cq->flags & PGAS_VERBS_CQ_EVENTS) != 0 && try_hold(poller)) {
        status = cq->dev->ops->cq_arm(cq, false);
        if (status == PGAS_OK)
            status = cq->dev->ops->cq_fd(cq, &fd);
        let_go(poller);
    }
    if (status == PGAS_OK) {
        struct pollfd wanted = { .fd = fd, .events = POLLIN };
        poll(&wanted, 1, (int)PGASI_MIN(left_ns / 1000000u + 1, (uint64_t)NAP_EVENT_MS));
    } else if (status != PGAS_ERR_BUSY) {
        struct timespec moment = { .tv_nsec = (long)PGASI_MIN(left_ns, (uint64_t)NAP_NS) };
        nanosleep(&moment, NULL);
    }
}

pgas_status_t pgas_verbs_tx_wait(pgas_verbs_tx_t *tx, uint64_t number, int64_t timeout_us)
{
    const uint64_t limit_ns = pgasi_verbs_limit_ns(timeout_us);
    uint64_t begin_ns = 0, spent_ns = 0;
    bool covered = false;
    pgas_status_t status;
    if (number > load(&tx->posted))
        return PGAS_ERR_RANGE;
    for (uint32_t round = 0; !is_over(tx, number, &status); round++) {
        if (!covered)
            covered = cover(tx, number) == PGAS_OK;
        if (pgas_verbs_tx_poll(tx) > 0)
            continue;
        if (round < WAIT_SPINS && limit_ns > 0) {
            pgasi_cpu_relax();
            continue;
        }
        begin_ns = begin_ns == 0 ? pgasi_now_ns() : begin_ns;
        spent_ns = pgasi_now_ns() - begin_ns;
        if (spent_ns >= limit_ns)
            return is_over(tx, number, &status) ? status : PGAS_ERR_TIMEOUT;
        if (round < WAIT_SPINS + WAIT_YIELDS)
            sched_yield();
        else
            nap(tx->poller, limit_ns - spent_ns);
    }
    return status;
}

pgas_status_t pgas_verbs_tx_info(const pgas_verbs_tx_t *tx, pgas_verbs_tx_info_t *info_p)
{
    if (!tx)
        return PGAS_ERR_INVALID;
    lock_posting((pgas_verbs_tx_t *)tx);
    pgas_verbs_tx_info_t info = tx->stats;
    info.posted += load(&tx->posted);
    info.inlined = tx->inlined;
    unlock_posting((pgas_verbs_tx_t *)tx);
    info.completions = load(&tx->completions);
    return pgasi_info_fill(info_p, &info, sizeof info);
}

/* ---- opening and closing ---- */

static void hold(pgasi_verbs_poller_t *poller)
{
    while (!try_hold(poller))
        sched_yield();
}

void pgasi_verbs_hold_poller(pgas_verbs_cq_t *cq)
{
    pthread_mutex_lock(&control);
    if (cq->poller)
        hold(cq->poller);
}

void pgasi_verbs_release_poller(pgas_verbs_cq_t *cq)
{
    if (cq->poller)
        let_go(cq->poller);
    pthread_mutex_unlock(&control);
}

static pgas_status_t take_opts(const pgas_verbs_qp_t *qp, const pgas_verbs_tx_opts_t *given,
                               pgas_verbs_tx_opts_t *opts_p)
{
    pgas_verbs_tx_opts_t opts = PGAS_VERBS_TX_OPTS_INIT;
    uint32_t depth = qp->opts.send_depth;
    if (given && given->size != sizeof opts)
        return PGAS_ERR_INVALID;
    *opts_p = given != NULL ? *given : opts;
    opts_p->interval = PGASI_MIN(opts_p->interval != 0 ? opts_p->interval : opts.interval,
                                 PGASI_MAX(depth / 4, 1u));
    opts_p->batch =
        PGASI_MIN(opts_p->batch != 0 ? opts_p->batch : opts.batch, PGASI_MAX(depth / 2, 1u));
    return qp->connected && qp->opts.send_cq ? PGAS_OK : PGAS_ERR_INVALID;
}

static pgas_verbs_tx_t *make_tx(pgas_verbs_qp_t *qp, const pgas_verbs_tx_opts_t *opts)
{
    const pgas_verbs_qp_opts_t *o = &qp->opts;
    pgas_verbs_tx_t *tx =
        aligned_alloc(PGASI_CACHELINE, PGASI_ALIGN_UP(sizeof *tx, PGASI_CACHELINE));
    if (!tx)
        return NULL;
    *tx = (pgas_verbs_tx_t){ .qp = qp,
                             .inline_max = o->inline_max,
                             .spans_max = o->send_spans,
                             .interval = opts->interval,
                             .batch = opts->batch,
                             .shared = opts->shared,
                             .signal_at = opts->interval,
                             .advance = opts->advance,
                             .arg = opts->arg };
    tx->write = qp->dev->ops->qp_write_one != NULL ? qp->dev->ops->qp_write_one : write_copy;
    /* where all requests are signaled there are no marks */
    tx->room = opts->interval == 1 ? o->send_depth : o->send_depth - 1;
    return tx;
}

static pgas_status_t join(pgas_verbs_tx_t *tx)
{
    pgas_verbs_cq_t *cq = tx->qp->opts.send_cq;
    uint32_t depth = tx->qp->opts.send_depth;
    if (tx->qp->tx)
        return PGAS_ERR_BUSY;
    if (depth > cq->depth - PGASI_MIN(cq->reserved, cq->depth)) {
        PGASI_WARN("verbs",
                   "a transmitter on a send queue of %u may have as many completions, the "
                   "completion queue has "
                   "room for %u of %u: open it deeper",
                   depth, cq->depth - PGASI_MIN(cq->reserved, cq->depth), cq->depth);
        return PGAS_ERR_LIMIT;
    }
    if (!cq->poller) {
        cq->poller = calloc(1, sizeof *cq->poller);
        if (!cq->poller)
            return PGAS_ERR_NO_MEMORY;
        cq->poller->cq = cq;
        cq->poller->cq_poll = cq->dev->ops->cq_poll;
    }
    hold(cq->poller);
    tx->poller = cq->poller;
    tx->next = tx->poller->members;
    tx->poller->members = tx;
    tx->qp->tx = tx;
    cq->reserved += depth;
    let_go(cq->poller);
    return PGAS_OK;
}

pgas_status_t pgas_verbs_tx_create(pgas_verbs_qp_t *qp, const pgas_verbs_tx_opts_t *given,
                                   pgas_verbs_tx_t **tx_p)
{
    pgas_verbs_tx_opts_t opts;
    if (!qp || !tx_p || take_opts(qp, given, &opts) != PGAS_OK)
        return PGAS_ERR_INVALID;
    pgas_verbs_tx_t *tx = make_tx(qp, &opts);
    if (!tx)
        return PGAS_ERR_NO_MEMORY;
    pthread_mutex_lock(&control);
    pgas_status_t status = join(tx);
    pthread_mutex_unlock(&control);
    if (status != PGAS_OK) {
        free(tx);
        return status;
    }
    *tx_p = tx;
    return PGAS_OK;
}

pgas_status_t pgas_verbs_tx_destroy(pgas_verbs_tx_t *tx)
{
    if (!tx)
        return PGAS_OK;
    pgas_verbs_cq_t *cq = tx->qp->opts.send_cq;
    pgas_verbs_tx_ring(tx, false);
    pthread_mutex_lock(&control);
    hold(cq->poller);
    pgas_verbs_tx_t **link = &tx->poller->members;
    while (*link != tx)
        link = &(*link)->next;
    *link = tx->next;
    tx->qp->tx = NULL;
    cq->reserved -= tx->qp->opts.send_depth;
    let_go(cq->poller);
    if (!cq->poller->members) {
        free(cq->poller);
        cq->poller = NULL;
    }
    pthread_mutex_unlock(&control);
    free(tx);
    return PGAS_OK;
}
