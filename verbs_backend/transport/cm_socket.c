/* TCP connections between ranks: they are opened, greeted and closed here. Records have one size.
 * The connecting rank must send the secret of the other rank's address. */
#include "verbs_backend/transport/cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"

#define RECORD_MAGIC 0x31775056u
#define CONNECT_NS   UINT64_C(5000000000) /* for one address of a peer */
#define KEEPALIVE_S  10                   /* a vanished host is noticed after three times that */

void pgasi_cm_watch(const pgasi_verbs_cm_t *cm, pgasi_cm_connection_t *connection, int how)
{
    bool writes = connection->state == PGASI_CM_CONNECTING || connection->out_bytes > 0;
    struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0u),
                                 .data.ptr = connection };
    epoll_ctl(cm->epoll_fd, how, connection->fd, &event);
}

void pgasi_cm_set_options(int fd)
{
    int on = 1, seconds = KEEPALIVE_S, probes = 2;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

pgasi_cm_connection_t *pgasi_cm_add_connection(pgasi_verbs_cm_t *cm, int fd, int peer)
{
    pgasi_cm_connection_t *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->fd = fd;
        connection->peer = peer;
        connection->id = ++cm->n_connections;
        connection->next = cm->connections;
        cm->connections = connection;
    }
    return connection;
}

/* Writes as much as is possible without waiting. */
static void write_out(const pgasi_verbs_cm_t *cm, pgasi_cm_connection_t *connection)
{
    while (connection->out_bytes > 0) {
        ssize_t n = send(connection->fd, connection->out, connection->out_bytes,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break; /* the socket is full; or broken, which the next read finds out */
        connection->out_bytes -= (size_t)n;
        memmove(connection->out, connection->out + n, connection->out_bytes);
    }
    pgasi_cm_watch(cm, connection, EPOLL_CTL_MOD);
}

void pgasi_cm_send_record(const pgasi_verbs_cm_t *cm, pgasi_cm_connection_t *connection,
                          const pgasi_verbs_tp_t *tp, pgasi_cm_record_t *record)
{
    record->magic = RECORD_MAGIC;
    record->rank = (uint32_t)tp->opts.rank;
    if (connection->out_bytes + sizeof *record > connection->out_room) {
        size_t room = 2 * connection->out_room + 4 * sizeof *record;
        char *out = realloc(connection->out, room);
        if (!out)
            return; /* without memory the connection stays silent */
        connection->out = out;
        connection->out_room = room;
    }
    memcpy(connection->out + connection->out_bytes, record, sizeof *record);
    connection->out_bytes += sizeof *record;
    write_out(cm, connection);
}

void pgasi_cm_close_connection(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    const pgasi_cm_connection_t *chosen =
        connection->peer >= 0 ? cm->of_peer[connection->peer] : NULL;
    bool mine = chosen == connection, was_open = connection->state == PGASI_CM_OPEN;
    /* A dead peer loses all of its connections. The end of another connection, such as one with a
     * repeated HELLO, proves nothing. */
    bool died =
        was_open && !connection->left && (mine || !chosen || chosen->state != PGASI_CM_OPEN);
    cm->n_connecting -=
        connection->state == PGASI_CM_CONNECTING || connection->state == PGASI_CM_GREETED;
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    connection->state = PGASI_CM_CLOSED;
    if (mine)
        cm->of_peer[connection->peer] = NULL;
    bool lost = died && !__atomic_load_n(&tp->closing, __ATOMIC_RELAXED);
    if (connection->peer >= 0 && (died || mine) && !lost && !connection->again)
        pgasi_cm_complete_all(tp, connection->peer, PGAS_ERR_PEER);
    if (was_open && connection->left)
        __atomic_fetch_or(&tp->dead[connection->peer], PGASI_VERBS_LEFT, __ATOMIC_RELEASE);
    if (lost) {
        pgasi_cm_take_back_requests(tp, connection->peer);
        pgasi_verbs_lost_add(tp, connection->peer, true, "its connection has ended");
    }
}

void pgasi_cm_sweep(pgasi_verbs_cm_t *cm)
{
    for (pgasi_cm_connection_t **at = &cm->connections; *at != NULL;) {
        pgasi_cm_connection_t *connection = *at;
        if (connection->state == PGASI_CM_CLOSED) {
            *at = connection->next;
            free(connection->out);
            free(connection);
        } else {
            at = &connection->next;
        }
    }
}

/* ---- connecting ---- */

/* Tries the next address of the peer. After the last one the peer cannot be reached. */
static void try_next(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection)
{
    pgasi_verbs_tp_address_t address;
    pgasi_verbs_address_of(tp, connection->peer, &address);
    bool same = address.machine == tp->address.machine && address.network == tp->address.network;
    while (connection->host < PGASI_MIN((int)address.n_hosts, PGASI_VERBS_HOSTS_MAX)) {
        struct sockaddr_storage to;
        int i = connection->host++;
        socklen_t bytes = pgasi_cm_to_sockaddr(address.hosts[i], address.ports[i], &to);
        if (pgasi_cm_is_loopback(address.hosts[i]) && !same)
            continue;
        int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        pgasi_cm_set_options(fd);
        if (connect(fd, (const struct sockaddr *)(const void *)&to, bytes) == 0 ||
            errno == EINPROGRESS) {
            connection->fd = fd;
            connection->limit_ns = pgasi_now_ns() + CONNECT_NS;
            pgasi_cm_watch(tp->cm, connection, EPOLL_CTL_ADD);
            return;
        }
        close(fd);
    }
    int error = errno;
    if (!connection->again) {
        PGASI_ERROR("verbs",
                    "rank %d cannot be reached at any of its addresses (the last: %s); see %s",
                    connection->peer, strerror(error),
                    pgasi_cm_is_full(error) ? "ulimit -n" : "its log, and PGAS_VERBS_INTERFACE");
    }
    pgasi_cm_close_connection(tp, connection);
}

void pgasi_cm_begin_connect(pgasi_verbs_tp_t *tp, int peer, bool again)
{
    pgasi_cm_connection_t *connection = pgasi_cm_add_connection(tp->cm, -1, peer);
    if (!connection) {
        pgasi_cm_complete_all(tp, peer, PGAS_ERR_NO_MEMORY);
        return;
    }
    connection->host = 0;
    connection->again = again;
    connection->state = PGASI_CM_CONNECTING;
    tp->cm->of_peer[peer] = connection;
    tp->cm->n_connecting++;
    errno = EADDRNOTAVAIL; /* for the case that there is no address */
    try_next(tp, connection);
}

static void retry(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection)
{
    close(connection->fd);
    connection->fd = -1;
    connection->in_bytes = connection->out_bytes = 0;
    connection->state = PGASI_CM_CONNECTING;
    try_next(tp, connection);
}

void pgasi_cm_check_limits(pgasi_verbs_tp_t *tp)
{
    uint64_t now = pgasi_now_ns();
    for (pgasi_cm_connection_t *at = tp->cm->connections; at != NULL; at = at->next) {
        if (at->state == PGASI_CM_CONNECTING && now > at->limit_ns) {
            errno = ETIMEDOUT;
            retry(tp, at);
        }
    }
}

/* ---- reading ---- */

static void become_open(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection)
{
    const pgasi_cm_connection_t *chosen = tp->cm->of_peer[connection->peer];
    tp->cm->n_connecting -= connection->state == PGASI_CM_GREETED;
    connection->state = PGASI_CM_OPEN;
    /* perhaps only one of the two ranks can reach the other */
    if (!chosen || (chosen->again && chosen->state != PGASI_CM_OPEN))
        tp->cm->of_peer[connection->peer] = connection;
    if (tp->cm->leaving)
        pgasi_cm_send_record(tp->cm, connection, tp,
                             &(pgasi_cm_record_t){ .kind = PGASI_CM_LEAVE });
    if (tp->cm->of_peer[connection->peer] == connection)
        pgasi_cm_send_requests(tp, connection);
}

static void on_hello(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection,
                     const pgasi_cm_record_t *record)
{
    if (connection->state != PGASI_CM_UNKNOWN || record->secret != tp->address.secret ||
        record->rank >= (uint32_t)tp->opts.n_ranks) {
        pgasi_warn_once(&tp->cm->warned_stranger, "verbs",
                        "refused a connection from a process that does not belong to this job");
        pgasi_cm_close_connection(tp, connection);
        return;
    }
    connection->peer = (int)record->rank;
    pgasi_cm_send_record(tp->cm, connection, tp, &(pgasi_cm_record_t){ .kind = PGASI_CM_WELCOME });
    become_open(tp, connection);
}

static void on_connect_reply(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection,
                             const pgasi_cm_record_t *record)
{
    pgasi_verbs_connect_t *request = tp->cm->requests;
    while (request && (request->ticket != record->ticket || request->peer != connection->peer))
        request = request->next;
    if (request) {
        request->inbound = record->inbound;
        request->theirs = record->address;
        pgasi_cm_complete_request(tp, request, (pgas_status_t)record->status);
    } else if (record->status == PGAS_OK) { /* the request was cancelled */
        pgasi_cm_send_record(tp->cm, connection, tp,
                             &(pgasi_cm_record_t){ .kind = PGASI_CM_DISCONNECT,
                                                   .inbound = record->inbound });
    }
}

/* @return false: the record is invalid */
static bool on_record(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection,
                      const pgasi_cm_record_t *record)
{
    if (record->magic != RECORD_MAGIC ||
        (record->kind == PGASI_CM_HELLO) != (connection->state == PGASI_CM_UNKNOWN) ||
        (record->kind == PGASI_CM_WELCOME) != (connection->state == PGASI_CM_GREETED))
        return false;
    switch (record->kind) {
    case PGASI_CM_HELLO:
        on_hello(tp, connection, record);
        return true;
    case PGASI_CM_WELCOME:
        if (record->rank != (uint32_t)connection->peer)
            return false;
        become_open(tp, connection);
        return true;
    case PGASI_CM_CONNECT_REQUEST:
    case PGASI_CM_DISCONNECT:
        pgasi_cm_add_job(tp->cm, connection->id, connection->peer, record);
        return true;
    case PGASI_CM_CONNECT_REPLY:
        on_connect_reply(tp, connection, record);
        return true;
    case PGASI_CM_LEAVE:
        connection->left = true;
        return true;
    default:
        return false;
    }
}

static void read_in(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection)
{
    while (connection->fd >= 0) {
        ssize_t n = recv(connection->fd, connection->in + connection->in_bytes,
                         sizeof(pgasi_cm_record_t) - connection->in_bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        pgasi_cm_record_t record;
        connection->in_bytes += n > 0 ? (size_t)n : 0;
        if (n > 0 && connection->in_bytes < sizeof record)
            continue;
        memcpy(&record, connection->in, sizeof record);
        connection->in_bytes = 0;
        if (n > 0 && on_record(tp, connection, &record))
            continue;
        if (connection->state == PGASI_CM_GREETED) {
            /* another process answers there, or the peer has no descriptors left */
            if (n >= 0)
                errno = n == 0 ? ECONNRESET : EPROTO;
            retry(tp, connection);
        } else {
            pgasi_cm_close_connection(tp, connection);
        }
        return;
    }
}

void pgasi_cm_on_event(pgasi_verbs_tp_t *tp, pgasi_cm_connection_t *connection, uint32_t events)
{
    if (connection->state == PGASI_CM_CLOSED)
        return;
    if (connection->state == PGASI_CM_CONNECTING) {
        int error = 0;
        socklen_t bytes = sizeof error;
        if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0 ||
            (events & EPOLLERR) != 0) {
            errno = error;
            retry(tp, connection);
            return;
        }
        if ((events & EPOLLOUT) == 0)
            return;
        pgasi_verbs_tp_address_t address;
        pgasi_verbs_address_of(tp, connection->peer, &address);
        connection->state = PGASI_CM_GREETED;
        pgasi_cm_send_record(tp->cm, connection, tp,
                             &(pgasi_cm_record_t){ .kind = PGASI_CM_HELLO,
                                                   .secret = address.secret });
        return;
    }
    if ((events & EPOLLOUT) != 0)
        write_out(tp->cm, connection);
    if ((events & ~(uint32_t)EPOLLOUT) != 0)
        read_in(tp, connection);
}
