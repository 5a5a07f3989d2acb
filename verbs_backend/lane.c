/* A lane: completion queues for what it sends, its endpoints, and a descriptor to sleep on. Lane 0
 * also receives, and answers peers that dial. Used by one thread at a time. */
#include "verbs_backend/transport.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/clock.h"

#define LOOK_EVERY 64 /* idle rounds of lane 0 between looks whether a peer dials */

static size_t table_bytes(const pgasi_verbs_lane_t *lane)
{
    return (size_t)lane->tp->opts.n_ranks * sizeof lane->eps[0];
}

pgas_status_t pgasi_verbs_lane_watch(const pgasi_verbs_lane_t *lane, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    return epoll_ctl(lane->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? PGAS_OK : PGAS_ERR_IO;
}

static pgas_status_t add_cq(pgasi_verbs_lane_t *lane)
{
    pgasi_verbs_send_cq_t *cqs = realloc(lane->cqs, (size_t)(lane->n_cqs + 1) * sizeof cqs[0]);
    int fd;
    if (!cqs)
        return PGAS_ERR_NO_MEMORY;
    lane->cqs = cqs;
    pgasi_verbs_send_cq_t *added = &cqs[lane->n_cqs];
    *added = (pgasi_verbs_send_cq_t){ NULL, 0, NULL };
    pgas_status_t status =
        pgas_verbs_cq_open(lane->tp->dev, PGASI_VERBS_CQ_DEPTH, PGAS_VERBS_CQ_EVENTS, &added->cq);
    if (status != PGAS_OK)
        goto failed;
    status = pgas_verbs_cq_fd(added->cq, &fd);
    if (status == PGAS_OK)
        status = pgasi_verbs_lane_watch(lane, fd);
    if (status != PGAS_OK) { /* nobody who sleeps would hear of its completions */
        pgas_verbs_cq_close(added->cq);
        goto failed;
    }
    lane->n_cqs++;
    return PGAS_OK;
failed:
    PGASI_ERROR("verbs", "opening a completion queue for lane %d failed: %s%s", lane->index,
                pgas_status_text(status), status == PGAS_ERR_LIMIT ? "; see ulimit -n" : "");
    return status;
}

pgas_status_t pgasi_verbs_lane_cq(pgasi_verbs_lane_t *lane, uint32_t depth, int *index_p)
{
    int i = 0;
    while (i < lane->n_cqs && lane->cqs[i].reserved + depth > PGASI_VERBS_CQ_DEPTH)
        i++;
    pgas_status_t status = i < lane->n_cqs ? PGAS_OK : add_cq(lane);
    if (status == PGAS_OK) {
        lane->cqs[i].reserved += depth;
        *index_p = i;
    }
    return status;
}

void pgasi_verbs_lane_cq_leave(pgasi_verbs_lane_t *lane, uint32_t depth, int index)
{
    lane->cqs[index].reserved -= depth;
}

pgas_status_t pgasi_verbs_lane_tx_open(pgasi_verbs_lane_t *lane, int cq, pgas_verbs_qp_t *qp,
                                       const pgas_verbs_tx_opts_t *opts, pgas_verbs_tx_t **tx_p)
{
    pgas_status_t status = pgas_verbs_tx_open(qp, opts, tx_p);
    if (status == PGAS_OK && !lane->cqs[cq].tx)
        lane->cqs[cq].tx = *tx_p;
    return status;
}

void pgasi_verbs_lane_tx_close(pgasi_verbs_lane_t *lane, int cq, pgas_verbs_tx_t *tx)
{
    pgas_verbs_tx_close(tx);
    if (lane->cqs[cq].tx != tx)
        return;
    lane->cqs[cq].tx = lane->receiver != NULL ? pgasi_verbs_receiver_tx(lane, cq) : NULL;
    for (const pgasi_verbs_ep_t *ep = lane->all_eps; ep != NULL && !lane->cqs[cq].tx; ep = ep->next)
        lane->cqs[cq].tx = ep->cq == cq && ep->tx != tx ? ep->tx : NULL;
}

static pgas_status_t init_tables(pgasi_verbs_lane_t *lane)
{
    void *table = mmap(NULL, table_bytes(lane), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    lane->eps = table;
    pgasi_pool_init(&lane->todos, sizeof(pgasi_verbs_todo_t), 0, 64, PGASI_VERBS_TODOS_MAX);
    pgasi_pool_init(&lane->pieces, sizeof(pgasi_verbs_todo_t), 0, 32,
                    PGASI_VERBS_N_SMALL + PGASI_VERBS_N_LARGE);
    pgasi_pool_init(&lane->flushes, sizeof(pgasi_verbs_flush_t), 0, 32, 0);
    return PGAS_OK;
}

static void fini_tables(pgasi_verbs_lane_t *lane)
{
    pgasi_pool_fini(&lane->flushes);
    pgasi_pool_fini(&lane->pieces);
    pgasi_pool_fini(&lane->todos);
    munmap(lane->eps, table_bytes(lane));
}

static pgas_status_t open_descriptors(pgasi_verbs_lane_t *lane)
{
    lane->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    lane->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pgas_status_t status = lane->wake_fd >= 0 && lane->epoll_fd >= 0
                               ? pgasi_verbs_lane_watch(lane, lane->wake_fd)
                               : PGAS_ERR_IO;
    if (status == PGAS_OK && lane->index == 0)
        status = pgasi_verbs_lane_watch(lane, pgasi_verbs_wire_fd(lane->tp));
    if (status != PGAS_OK) {
        PGASI_ERROR(
            "verbs",
            "lane %d has no descriptors; fewer lanes (PGAS_LANES) need fewer, see ulimit -n",
            lane->index);
    }
    return status;
}

static void close_descriptors(const pgasi_verbs_lane_t *lane)
{
    if (lane->wake_fd >= 0)
        close(lane->wake_fd);
    if (lane->epoll_fd >= 0)
        close(lane->epoll_fd);
}

static void close_cqs(pgasi_verbs_lane_t *lane)
{
    for (int i = 0; i < lane->n_cqs; i++)
        pgas_verbs_cq_close(lane->cqs[i].cq);
    free(lane->cqs);
}

pgas_status_t pgasi_verbs_lane_open(pgasi_tp_t *tp_base, int index, pgasi_tp_lane_t **lane_p)
{
    pgasi_verbs_tp_t *tp = pgasi_verbs_tp_of(tp_base);
    if (index < 0 || index >= PGASI_VERBS_LANES_MAX)
        return PGAS_ERR_RANGE;
    pgasi_verbs_lane_t *lane = calloc(1, sizeof *lane);
    if (!lane)
        return PGAS_ERR_NO_MEMORY;
    lane->super.ops = &pgasi_verbs_table;
    lane->tp = tp;
    lane->index = index;
    lane->wake_fd = lane->epoll_fd = -1;
    lane->large_bytes = PGASI_MAX(8192u, (uint32_t)PGASI_ALIGN_UP(tp->address.message_bytes +
                                                                      sizeof(pgasi_verbs_prefix_t),
                                                                  64));
    pthread_mutex_lock(&tp->lock);
    bool taken = tp->lanes[index] != NULL;
    if (!taken)
        tp->lanes[index] = lane;
    pthread_mutex_unlock(&tp->lock);
    if (taken) {
        free(lane);
        return PGAS_ERR_EXISTS;
    }
    pgas_status_t status = init_tables(lane);
    if (status != PGAS_OK)
        goto free_lane;
    status = open_descriptors(lane);
    if (status == PGAS_OK)
        status = pgasi_verbs_slots_init(lane);
    if (status == PGAS_OK)
        status = add_cq(lane);
    /* who answers others has nobody to tell that he cannot */
    if (status == PGAS_OK && index == 0)
        status = pgasi_verbs_buffers_init(lane);
    if (status == PGAS_OK && index == 0)
        status = pgasi_verbs_receiver_open(lane);
    if (status != PGAS_OK)
        goto close_queues;
    *lane_p = &lane->super;
    return PGAS_OK;
close_queues:
    close_cqs(lane);
    pgasi_verbs_buffers_fini(lane);
    close_descriptors(lane);
    fini_tables(lane);
free_lane:
    pthread_mutex_lock(&tp->lock);
    tp->lanes[index] = NULL;
    pthread_mutex_unlock(&tp->lock);
    free(lane);
    return status;
}

/* ---- progress ---- */

static int poll_cqs(const pgasi_verbs_lane_t *lane)
{
    int n = 0;
    for (int i = 0; i < lane->n_cqs; i++)
        n += lane->cqs[i].tx != NULL ? pgas_verbs_tx_poll(lane->cqs[i].tx) : 0;
    return n;
}

static bool must_look(pgasi_verbs_lane_t *lane)
{
    return lane->n_connecting > 0 || (lane->index == 0 && (lane->n_idle % LOOK_EVERY == 0 ||
                                                           pgasi_verbs_wire_waits(lane->tp)));
}

int pgasi_verbs_progress(pgasi_tp_lane_t *tp_lane)
{
    pgasi_verbs_lane_t *lane = pgasi_verbs_lane_of(tp_lane);
    int n = 0;
    if (PGAS_UNLIKELY(must_look(lane)))
        n += pgasi_verbs_wire_run(lane);
    n += poll_cqs(lane);
    for (pgasi_verbs_ep_t *ep = lane->active_eps, *next; ep != NULL; ep = next) {
        next = ep->active_next;
        n += pgasi_verbs_ep_progress(ep);
    }
    if (lane->receiver)
        n += pgasi_verbs_receive(lane);
    lane->n_idle = n > 0 ? 1 : lane->n_idle + 1;
    return n;
}

pgas_status_t pgasi_verbs_event_fd(pgasi_tp_lane_t *lane, int *fd_p)
{
    *fd_p = pgasi_verbs_lane_of(lane)->epoll_fd;
    return PGAS_OK;
}

/* Nothing is slept over: a wake that came, completions, a peer that dials; nor an answer, which
 * comes without a completion. */
pgas_status_t pgasi_verbs_arm(pgasi_tp_lane_t *tp_lane)
{
    pgasi_verbs_lane_t *lane = pgasi_verbs_lane_of(tp_lane);
    uint64_t count;
    bool busy = read(lane->wake_fd, &count, sizeof count) == sizeof count;
    for (int i = 0; i < lane->n_cqs; i++)
        busy |= pgas_verbs_cq_arm(lane->cqs[i].cq, false) != PGAS_OK;
    for (const pgasi_verbs_ep_t *ep = lane->active_eps; ep != NULL; ep = ep->active_next)
        busy |= ep->answers.first || pgasi_verbs_end_of(lane->tp, ep->peer) != PGAS_OK;
    if (lane->index != 0)
        busy |= lane->n_connecting > 0; /* lane 0 may be asleep */
    else
        busy |= pgasi_verbs_wire_waits(lane->tp) || !pgasi_verbs_receiver_arm(lane);
    lane->n_idle = 0; /* who wakes up looks first whether a peer dials */
    return busy ? PGAS_ERR_BUSY : PGAS_OK;
}

pgas_status_t pgasi_verbs_wake(pgasi_tp_lane_t *lane)
{
    uint64_t one = 1;
    ssize_t n = write(pgasi_verbs_lane_of(lane)->wake_fd, &one, sizeof one);
    return n == sizeof one || errno == EAGAIN ? PGAS_OK : PGAS_ERR_IO;
}

/* ---- closing ---- */

static void drained(pgasi_tp_comp_t *self, pgas_status_t status)
{
    (void)status;
    self->fn = NULL;
}

static void begin_drain(pgasi_verbs_lane_t *lane)
{
    lane->phase = PGASI_VERBS_DRAINING;
    lane->drain_comp.fn = drained;
    pgas_status_t status =
        pgasi_verbs_flush_peer(&lane->super, PGASI_TP_ALL_PEERS, &lane->drain_comp);
    if (status == PGAS_ERR_AGAIN)
        lane->phase = PGASI_VERBS_OPEN;
    else if (status != PGAS_INPROGRESS)
        lane->drain_comp.fn = NULL;
}

pgas_status_t pgasi_verbs_lane_drain(pgasi_tp_lane_t *tp_lane)
{
    pgasi_verbs_lane_t *lane = pgasi_verbs_lane_of(tp_lane);
    if (lane->phase == PGASI_VERBS_OPEN)
        begin_drain(lane);
    if (lane->phase == PGASI_VERBS_OPEN ||
        (lane->phase == PGASI_VERBS_DRAINING && lane->drain_comp.fn))
        return PGAS_INPROGRESS;
    if (lane->phase == PGASI_VERBS_DRAINING) {
        lane->phase = PGASI_VERBS_DRAINED;
        pgasi_verbs_eps_close(lane);
        if (lane->index == 0)
            pgasi_verbs_wire_leave(lane->tp);
    }
    return PGAS_OK;
}

void pgasi_verbs_lane_close(pgasi_tp_lane_t *tp_lane)
{
    pgasi_verbs_lane_t *lane = pgasi_verbs_lane_of(tp_lane);
    pgasi_verbs_tp_t *tp = lane->tp;
    if (lane->phase == PGASI_VERBS_OPEN) {
        uint64_t limit = pgasi_now_ns() + PGASI_VERBS_CLOSE_NS;
        while (pgasi_verbs_lane_drain(tp_lane) == PGAS_INPROGRESS && pgasi_now_ns() < limit)
            if (pgasi_verbs_progress(tp_lane) == 0)
                sched_yield();
    }
    lane->phase = PGASI_VERBS_CLOSING;
    pgasi_verbs_eps_close(lane);
    if (lane->index == 0) {
        pgasi_verbs_wire_leave(tp);
        pgasi_verbs_receiver_close(lane);
    }
    pthread_mutex_lock(&tp->lock);
    tp->lanes[lane->index] = NULL;
    pthread_mutex_unlock(&tp->lock);
    close_cqs(lane);
    pgasi_verbs_buffers_fini(lane);
    close_descriptors(lane);
    fini_tables(lane);
    free(lane);
}
