/* The listeners of a rank. They stay responsive when descriptors have run out: connections that
 * cannot be accepted are closed by means of a spare descriptor, or the listeners pause for a
 * moment. */
#include "verbs_backend/transport/cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"

#define RUSH_NS  PGASI_NS_PER_S /* time for HELLO when descriptors have run out */
#define PAUSE_NS 50000000       /* pause of the listeners when no descriptor can be freed */

/* Closes connections that have sent no HELLO for so long. @return whether there were any */
static bool drop_strangers(pgasi_verbs_tp_t *tp, uint64_t ns)
{
    uint64_t now = pgasi_now_ns();
    bool some = false;
    for (pgasi_cm_connection_t *at = tp->cm->connections; at != NULL; at = at->next) {
        if (at->state == PGASI_CM_UNKNOWN && now > at->limit_ns - PGASI_CM_STRANGER_NS + ns) {
            pgasi_warn_once(&tp->cm->warned_stranger, "verbs",
                            "closed a connection that sent no greeting in time");
            pgasi_cm_close_connection(tp, at);
            some = true;
        }
    }
    return some;
}

static bool has_strangers(const pgasi_verbs_cm_t *cm)
{
    const pgasi_cm_connection_t *at = cm->connections;
    while (at && at->state != PGASI_CM_UNKNOWN)
        at = at->next;
    return at;
}

/* No descriptor is left and none can be freed: a connecting process is accepted with the spare
 * descriptor and closed, so that it need not wait.
 * @return whether there was one */
static bool turn_away(pgasi_verbs_cm_t *cm, int listener)
{
    if (cm->spare_fd < 0)
        return false;
    close(cm->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        pgasi_warn_once(&cm->warned_full, "verbs",
                        "no descriptors are left for connections of other ranks; see ulimit -n");
    }
    cm->spare_fd = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    return fd >= 0;
}

static bool make_room(pgasi_verbs_tp_t *tp, int listener)
{
    return drop_strangers(tp, RUSH_NS) || (!has_strangers(tp->cm) && turn_away(tp->cm, listener));
}

static void listen_for(const pgasi_verbs_cm_t *cm, uint32_t events)
{
    for (int i = 0; i < cm->n_listeners; i++) {
        struct epoll_event event = { .events = events, .data.ptr = NULL };
        epoll_ctl(cm->epoll_fd, EPOLL_CTL_MOD, cm->listeners[i], &event);
    }
}

void pgasi_verbs_cm_run_later(pgasi_verbs_tp_t *tp)
{
    const struct itimerspec once = { .it_value.tv_nsec = PAUSE_NS };
    timerfd_settime(tp->cm->timer_fd, 0, &once, NULL);
}

/* Connections that cannot be accepted keep a listener readable, so a thread that waits for it would
 * never sleep. */
static void pause_listening(const pgasi_verbs_cm_t *cm)
{
    const struct itimerspec once = { .it_value.tv_nsec = PAUSE_NS };
    if (timerfd_settime(cm->timer_fd, 0, &once, NULL) == 0)
        listen_for(cm, 0);
}

static void accept_all(pgasi_verbs_tp_t *tp, int listener)
{
    drop_strangers(tp, PGASI_CM_STRANGER_NS);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        bool full = fd < 0 && pgasi_cm_is_full(errno);
        if (full && make_room(tp, listener))
            continue;
        if (full)
            pause_listening(tp->cm);
        if (fd < 0)
            break;
        pgasi_cm_connection_t *connection = pgasi_cm_add_connection(tp->cm, fd, -1);
        if (!connection) {
            close(fd);
            break;
        }
        pgasi_cm_set_options(fd);
        connection->state = PGASI_CM_UNKNOWN;
        connection->limit_ns = pgasi_now_ns() + PGASI_CM_STRANGER_NS;
        pgasi_cm_watch(tp->cm, connection, EPOLL_CTL_ADD);
    }
}

void pgasi_cm_on_own_event(pgasi_verbs_tp_t *tp, const struct epoll_event *event)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    uint64_t n;
    if (event->data.ptr == &cm->timer_fd) {
        ssize_t got = read(cm->timer_fd, &n, sizeof n);
        (void)got;
        listen_for(cm, EPOLLIN);
        return;
    }
    for (int i = 0; i < cm->n_listeners; i++)
        accept_all(tp, cm->listeners[i]);
}

/* ---- opening and closing ---- */

/* @return a socket that listens at this address alone, at a port that the system chooses; -1 */
static int listen_at(const uint8_t host[16], uint16_t *port_p)
{
    struct sockaddr_storage bound;
    socklen_t bytes = pgasi_cm_to_sockaddr(host, 0, &bound);
    int fd = socket(bound.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (const struct sockaddr *)(const void *)&bound, bytes) != 0 ||
        listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)(void *)&bound, &bytes) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    *port_p = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)(void *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)(void *)&bound)->sin_port);
    return fd;
}

/* Listens at each address of this host. It drops addresses that cannot be bound, because interfaces
 * come and go. */
static void listen_everywhere(pgasi_verbs_tp_t *tp, pgasi_verbs_cm_t *cm)
{
    pgasi_verbs_tp_address_t *address = &tp->address;
    int n = 0;
    for (int i = 0; i < address->n_hosts; i++) {
        int fd = listen_at(address->hosts[i], &address->ports[n]);
        if (fd >= 0) {
            memmove(address->hosts[n], address->hosts[i], sizeof address->hosts[0]);
            cm->listeners[n++] = fd;
        }
    }
    cm->n_listeners = address->n_hosts = (uint8_t)n;
}

void pgasi_cm_close_descriptors(const pgasi_verbs_cm_t *cm)
{
    for (int i = 0; i < cm->n_listeners; i++)
        close(cm->listeners[i]);
    if (cm->epoll_fd >= 0)
        close(cm->epoll_fd);
    if (cm->spare_fd >= 0) /* opened last: otherwise it could not be reopened */
        close(cm->spare_fd);
    if (cm->timer_fd >= 0)
        close(cm->timer_fd);
}

bool pgasi_cm_open_descriptors(pgasi_verbs_tp_t *tp, pgasi_verbs_cm_t *cm)
{
    errno = EADDRNOTAVAIL;
    cm->epoll_fd = cm->spare_fd = cm->timer_fd = -1;
    listen_everywhere(tp, cm);
    if (cm->n_listeners == 0)
        return false;
    cm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    cm->spare_fd = fcntl(cm->listeners[0], F_DUPFD_CLOEXEC, 0);
    cm->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event timer = { .events = EPOLLIN, .data.ptr = &cm->timer_fd };
    bool good = cm->epoll_fd >= 0 && cm->spare_fd >= 0 && cm->timer_fd >= 0 &&
                epoll_ctl(cm->epoll_fd, EPOLL_CTL_ADD, cm->timer_fd, &timer) == 0;
    for (int i = 0; i < cm->n_listeners && good; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
        good = epoll_ctl(cm->epoll_fd, EPOLL_CTL_ADD, cm->listeners[i], &event) == 0;
    }
    return good;
}
