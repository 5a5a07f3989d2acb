/* Service threads: see service.h.
 *
 * A service thread sleeps in epoll on the rank's kick pipe and the transport's event descriptor.
 * While application threads poll, their rounds serve peers, and the service thread only naps. When
 * no application thread has polled for the length of a nap, it announces its sleep in the wakeup
 * flag. The next sender then wakes it through the pipe. A service thread also makes progress on
 * contexts that no thread polls. */
#include "call/service.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "mem/ctx.h"
#include "mem/thread.h"
#include "msg/recv_queue.h"

/* length of a nap: then the service thread detects that no application thread polls any more */
#define NAP_MS        1
#define HELP_MS       1    /* interval in which contexts that no thread polls are helped */
#define SLEEP_MAX_MS  1000 /* a safety net, not an interval of polls */
#define STOP_EVERY_NS 200000

pgasi_service_stats_t pgasi_service_stats;

static struct {
    pthread_t *threads;
    int n_threads;
    int epoll_fd, transport_fd;
    int stopping;
} service = { .epoll_fd = -1, .transport_fd = -1 };

static pgas_status_t watch(int fd)
{
    struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
    return epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, fd, &e) == 0 ? PGAS_OK : PGAS_ERR_IO;
}

static void sleep_in_epoll(int limit_ms)
{
    struct epoll_event events[2];
    epoll_wait(service.epoll_fd, events, 2, limit_ms);
}

/* The transport's descriptor must be armed before a sleep. False: events are pending, or another
 * thread holds the receive lock. */
static bool arm_transport(void)
{
    if (service.transport_fd < 0)
        return true;
    if (!pgasi_recv_try_lock())
        return false;
    pgasi_tp_ctx_t *tp = pgasi_ctxs[PGASI_CTX_SERVICE]->tp;
    bool armed = tp->ops->arm(tp) == PGAS_OK;
    pgasi_recv_unlock();
    return armed;
}

static void service_sleep(void)
{
    __atomic_store_n(&pgasi_ctxs_unwatched, 1, __ATOMIC_RELAXED);
    /* This includes a barrier. A thread that leaves work in a context either sees the flag, or this
     * thread sees the work. */
    pgasi_wait_service_announce();
    bool ctxs_wait = pgasi_ctxs_need_help();
    if (ctxs_wait)
        __atomic_store_n(&pgasi_ctxs_unwatched, 0, __ATOMIC_RELAXED);
    pgasi_wait_service_rests(true);
    bool held = pgasi_sendq_shared_waits();
    bool quiet = !(held && pgasi_progress_shared() > 0) && pgasi_eps_report() == 0 &&
                 pgasi_progress_serve() == 0 && !pgasi_recvq_pending() &&
                 !pgasi_ep_pending(PGASI_EP_SERVICE) && arm_transport() &&
                 !__atomic_load_n(&service.stopping, __ATOMIC_ACQUIRE);
    if (quiet) {
        __atomic_fetch_add(&pgasi_service_stats.wakeups, 1, __ATOMIC_RELAXED);
        /* A put into memory wakes no thread. */
        bool by_put = __atomic_load_n(&pgasi_recvq_by_put, __ATOMIC_RELAXED);
        bool by_itself = by_put || pgasi_wait_is_unreached();
        sleep_in_epoll(ctxs_wait || held || by_itself ? HELP_MS : SLEEP_MAX_MS);
        pgasi_progress_service(); /* before the system calls that follow */
    }
    __atomic_store_n(&pgasi_ctxs_unwatched, 0, __ATOMIC_RELAXED);
    pgasi_wait_service_rests(false);
    pgasi_wait_service_revoke();
}

/* Application threads poll. Only a call to the service endpoint ends a nap early. Events of the
 * transport do not end it, because the application threads handle them. */
static void nap(void)
{
    struct pollfd kicked = { .fd = pgasi_wait_kick_fd(), .events = POLLIN };
    pgasi_wait_service_rests(true);
    if (!pgasi_ep_pending(PGASI_EP_SERVICE))
        poll(&kicked, 1, NAP_MS);
    pgasi_progress_service();
    pgasi_wait_service_rests(false);
}

/* Of several service threads each is in another zone, so that one is near every thread. */
static void *service_main(void *arg)
{
    int index = (int)(intptr_t)arg;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pgasi_thread_be_service();
    if (pgasi_param.service_threads > 1)
        (void)pgasi_place_bind_zone(index);
    while (!__atomic_load_n(&service.stopping, __ATOMIC_ACQUIRE)) {
        pgasi_progress_service();
        pgasi_eps_report();
        if (__atomic_load_n(&pgasi_eps_left, __ATOMIC_RELAXED))
            pgasi_eps_refuse();
        __atomic_fetch_add(&pgasi_service_stats.rounds, 1, __ATOMIC_RELAXED);
        pgasi_progress_settle_deaths();
        if ((pgasi_sendq_shared_waits() && pgasi_progress_shared() > 0) || pgasi_ctxs_help() > 0)
            pgasi_wake(pgasi_boot.node_rank);
        if (pgasi_progress_take_polled()) {
            __atomic_fetch_add(&pgasi_service_stats.naps, 1, __ATOMIC_RELAXED);
            nap();
        } else if (pgasi_progress_serve() == 0) {
            service_sleep();
        } else {
            /* A sleeping thread may wait for the call that ran. */
            pgasi_wake(pgasi_boot.node_rank);
        }
    }
    return NULL;
}

pgas_status_t pgasi_service_start(void)
{
    service.stopping = 0;
    pgasi_leaving = false;
    service.n_threads = 0;
    bool serves = pgasi_param.service_threads > 0;
    service.threads = calloc((size_t)pgasi_param.service_threads + 1, sizeof *service.threads);
    service.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pgas_status_t status = service.threads && service.epoll_fd >= 0 ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK && serves)
        status = watch(pgasi_wait_kick_fd());
    pgasi_tp_ctx_t *tp = pgasi_ctxs[PGASI_CTX_SERVICE]->tp;
    if (status == PGAS_OK && serves && tp &&
        tp->ops->event_fd(tp, &service.transport_fd) == PGAS_OK)
        status = watch(service.transport_fd);
    while (status == PGAS_OK && service.n_threads < pgasi_param.service_threads)
        if (pthread_create(&service.threads[service.n_threads], NULL, service_main,
                           (void *)(intptr_t)service.n_threads) == 0)
            service.n_threads++;
        else
            status = PGAS_ERR_NO_MEMORY;
    if (status != PGAS_OK) {
        PGASI_ERROR("service", "cannot start service threads: %s (errno %d)",
                    pgas_status_text(status), errno);
        pgasi_service_stop();
    }
    return status;
}

/* The flag and the bytes in the pipe are shared by all threads of the rank. One thread may take a
 * byte that was written for another, so this loop repeats the kick. */
static void join_awake(pthread_t thread)
{
    static const struct timespec pause = { 0, STOP_EVERY_NS };
    pgasi_wait_kick_own();
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        nanosleep(&pause, NULL);
        pgasi_wait_kick_own();
    }
}

void pgasi_service_stop(void)
{
    __atomic_store_n(&service.stopping, 1, __ATOMIC_SEQ_CST);
    pgasi_progress_take_polled();
    for (int i = 0; i < service.n_threads; i++)
        join_awake(service.threads[i]);
    if (service.epoll_fd >= 0)
        close(service.epoll_fd);
    service.epoll_fd = service.transport_fd = -1;
    free(service.threads);
    service.threads = NULL;
    service.n_threads = 0;
}
