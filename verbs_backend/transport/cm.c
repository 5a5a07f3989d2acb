/* How ranks come to talk: a TCP connection between two ranks when the first context of either dials
 * the other, over which all contexts of both exchange the addresses of queue pairs. It stays open
 * as a sign of life: a queue pair learns late, or never, that the process behind it is gone, a
 * socket at once. A rank that leaves says so first. Any other end of a connection proves nothing
 * (lost.c).
 *
 * Everything here is under one lock, which no transfer takes, and never blocks. Any context may
 * read and write; what needs the receive queue (making the other end of a queue pair, closing it)
 * is a job for context 0.
 *
 * Records have one size. Who connects must know the secret of the other's address. */
#include "verbs_backend/transport/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"

#define RECORD_MAGIC 0x31775056u
#define CONNECT_NS   UINT64_C(5000000000) /* for one address of a peer */
#define KEEPALIVE_S  10 /* a host that vanished is noticed after three times that */
#define STRANGER_NS  UINT64_C(30000000000) /* who connects may take so long to say who he is */
#define RUSH_NS      UINT64_C(1000000000)  /* the same when descriptors have run out */
#define PAUSE_NS     50000000              /* pause of the listeners when descriptors stay out */
#define EVENTS       16

enum { HELLO = 1, WELCOME, CONNECT_REQUEST, CONNECT_REPLY, DISCONNECT, LEAVE };

typedef struct {
    uint32_t magic;
    uint16_t kind;
    int16_t status;      /* ANSWER */
    uint32_t rank, ctx;  /* of the sender; context: DIAL */
    uint64_t secret;     /* HELLO: the receiver's */
    uint64_t ticket;     /* DIAL, ANSWER */
    uint64_t slots_addr; /* DIAL */
    uint32_t slots_rkey;
    uint32_t inbound; /* ANSWER, BYE */
    pgas_verbs_address_t address;
} record_t;

typedef struct connection {
    struct connection *next;
    uint64_t id;
    int fd, peer;
    /* GREETED: hello was sent; UNKNOWN: none has come yet */
    enum { CONNECTING, GREETED, UNKNOWN, OPEN, CLOSED } state;
    bool left;  /* the peer has said that it goes */
    bool again; /* in place of one that was lost */
    int host;   /* of the peer's addresses, that is tried next */
    uint64_t limit_ns;
    size_t in_bytes, out_bytes, out_room;
    char in[sizeof(record_t)];
    char *out;
} connection_t;

/** For context 0. */
typedef struct job {
    struct job *next;
    uint64_t connection; /* id */
    int peer;
    record_t record; /* kind 0: the peer is gone */
} job_t;

struct pgasi_verbs_cm {
    pthread_mutex_t lock;
    int epoll_fd;
    int n_listeners, listeners[PGASI_VERBS_HOSTS_MAX];
    int spare_fd; /* given up when descriptors have run out, to tell who connects */
    int timer_fd; /* ends a pause of the listeners */
    connection_t *connections;
    connection_t **of_peer; /* n_ranks, touched where used */
    pgasi_verbs_connect_t *requests;
    uint64_t n_tickets, n_connections;
    bool leaving;
    job_t *jobs, **last_job;
    int n_jobs, n_connecting; /* read without the lock */
    int warned_stranger, warned_full;
};

static size_t table_bytes(const pgasi_verbs_tp_t *tp)
{
    return (size_t)tp->opts.n_ranks * sizeof(connection_t *);
}

/* ---- addresses ---- */

/* @param inside loopback is wanted, since no rank is on another host */
static bool is_usable(const struct ifaddrs *at, const char *wanted, bool inside)
{
    bool up = (at->ifa_flags & IFF_UP) != 0 && at->ifa_addr != NULL,
         loopback = (at->ifa_flags & IFF_LOOPBACK) != 0;
    return up && (wanted[0] != '\0' ? strcmp(at->ifa_name, wanted) == 0 : loopback == inside);
}

/* As IPv6, IPv4 inside. @return false: of another kind, or of no use to others */
static bool to_host(const struct sockaddr *from, uint8_t host[16])
{
    static const uint8_t inside[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
    if (from->sa_family == AF_INET) {
        memcpy(host, inside, sizeof inside);
        memcpy(host + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        return true;
    }
    const struct in6_addr *addr = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    memcpy(host, addr, 16);
    return from->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(addr);
}

/* Of loopback one address will do. */
static void add_hosts(pgasi_verbs_tp_t *tp, const struct ifaddrs *all, const char *wanted,
                      bool inside)
{
    int most = inside && wanted[0] == '\0' ? 1 : PGASI_VERBS_HOSTS_MAX;
    for (int family = 0; family < 2; family++) { /* IPv4 first */
        for (const struct ifaddrs *at = all; at != NULL && tp->address.n_hosts < most;
             at = at->ifa_next)
            if (is_usable(at, wanted, inside) &&
                at->ifa_addr->sa_family == (family == 0 ? AF_INET : AF_INET6) &&
                to_host(at->ifa_addr, tp->address.hosts[tp->address.n_hosts]))
                tp->address.n_hosts++;
    }
}

/* The addresses of the named interface, or of loopback for a job on one host, or of all interfaces.
 * A machine without addresses can still connect to itself. A missing named interface is an
 * error. */
static pgas_status_t find_hosts(pgasi_verbs_tp_t *tp)
{
    struct ifaddrs *all = NULL;
    const char *wanted = tp->params.verbs_interface;
    tp->address.n_hosts = 0;
    if (getifaddrs(&all) != 0)
        all = NULL;
    add_hosts(tp, all, wanted, tp->opts.same_host_only || tp->opts.n_ranks == 1);
    if (wanted[0] == '\0' && tp->address.n_hosts == 0)
        add_hosts(tp, all, wanted, true);
    freeifaddrs(all);
    if (wanted[0] != '\0' && tp->address.n_hosts == 0) {
        PGASI_ERROR("verbs",
                    "PGAS_VERBS_INTERFACE=%s: no interface of that name is up and has an address",
                    wanted);
        return PGAS_ERR_NOT_FOUND;
    }
    return PGAS_OK;
}

static bool is_loopback(const uint8_t host[16])
{
    struct in6_addr addr;
    memcpy(&addr, host, 16);
    return IN6_IS_ADDR_LOOPBACK(&addr) || (IN6_IS_ADDR_V4MAPPED(&addr) && host[12] == 127);
}

/* @return bytes of *to_p */
static socklen_t to_sockaddr(const uint8_t host[16], uint16_t port, struct sockaddr_storage *to_p)
{
    struct in6_addr addr;
    memset(to_p, 0, sizeof *to_p);
    memcpy(&addr, host, 16);
    if (IN6_IS_ADDR_V4MAPPED(&addr)) {
        struct sockaddr_in *to = (struct sockaddr_in *)(void *)to_p;
        to->sin_family = AF_INET;
        to->sin_port = htons(port);
        memcpy(&to->sin_addr, host + 12, 4);
        return sizeof *to;
    }
    struct sockaddr_in6 *to = (struct sockaddr_in6 *)(void *)to_p;
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    to->sin6_addr = addr;
    return sizeof *to;
}

/* ---- connections ---- */

static void watch(const pgasi_verbs_cm_t *cm, connection_t *connection, int how)
{
    bool writes = connection->state == CONNECTING || connection->out_bytes > 0;
    struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0u),
                                 .data.ptr = connection };
    epoll_ctl(cm->epoll_fd, how, connection->fd, &event);
}

static void set_options(int fd)
{
    int on = 1, seconds = KEEPALIVE_S, probes = 2;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static connection_t *add_connection(pgasi_verbs_cm_t *cm, int fd, int peer)
{
    connection_t *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->fd = fd;
        connection->peer = peer;
        connection->id = ++cm->n_connections;
        connection->next = cm->connections;
        cm->connections = connection;
    }
    return connection;
}

/* What can be written now. */
static void write_out(const pgasi_verbs_cm_t *cm, connection_t *connection)
{
    while (connection->out_bytes > 0) {
        ssize_t n = send(connection->fd, connection->out, connection->out_bytes,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break; /* full, or broken, which reading finds out */
        connection->out_bytes -= (size_t)n;
        memmove(connection->out, connection->out + n, connection->out_bytes);
    }
    watch(cm, connection, EPOLL_CTL_MOD);
}

static void send_record(const pgasi_verbs_cm_t *cm, connection_t *connection,
                        const pgasi_verbs_tp_t *tp, record_t *record)
{
    record->magic = RECORD_MAGIC;
    record->rank = (uint32_t)tp->opts.rank;
    if (connection->out_bytes + sizeof *record > connection->out_room) {
        size_t room = 2 * connection->out_room + 4 * sizeof *record;
        char *out = realloc(connection->out, room);
        if (!out)
            return; /* the connection stays silent: no more can be done */
        connection->out = out;
        connection->out_room = room;
    }
    memcpy(connection->out + connection->out_bytes, record, sizeof *record);
    connection->out_bytes += sizeof *record;
    write_out(cm, connection);
}

static void add_job(pgasi_verbs_cm_t *cm, uint64_t connection, int peer, const record_t *record)
{
    job_t *job = calloc(1, sizeof *job);
    if (!job)
        pgasi_fatal("verbs", "no memory to answer rank %d", peer);
    job->connection = connection;
    job->peer = peer;
    if (record)
        job->record = *record;
    *cm->last_job = job;
    cm->last_job = &job->next;
    __atomic_store_n(&cm->n_jobs, cm->n_jobs + 1, __ATOMIC_RELEASE);
}

static void wake_service(pgasi_verbs_tp_t *tp)
{
    pthread_mutex_lock(&tp->lock);
    if (tp->ctxs[0])
        pgasi_verbs_wake(&tp->ctxs[0]->super);
    pthread_mutex_unlock(&tp->lock);
}

/* ---- dials ---- */

/* Takes it out of the list. Its context may go on from here on. */
static void complete_request(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request,
                             pgas_status_t status)
{
    pgasi_verbs_connect_t **at = &tp->cm->requests;
    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->status = status;
    __atomic_store_n(&request->completed, 1, __ATOMIC_RELEASE);
    pgasi_verbs_wake(&request->ctx->super);
}

static void complete_all(pgasi_verbs_tp_t *tp, int peer, pgas_status_t status)
{
    for (pgasi_verbs_connect_t *request = tp->cm->requests, *next; request != NULL;
         request = next) {
        next = request->next;
        if (request->peer == peer)
            complete_request(tp, request, status);
    }
}

static void send_request(pgasi_verbs_tp_t *tp, connection_t *connection,
                         pgasi_verbs_connect_t *request)
{
    record_t record = { .kind = CONNECT_REQUEST,
                        .ctx = (uint32_t)request->ctx->index,
                        .ticket = request->ticket,
                        .slots_addr = request->slots_addr,
                        .slots_rkey = request->slots_rkey,
                        .address = request->mine };
    request->sent = true;
    send_record(tp->cm, connection, tp, &record);
}

static void send_requests(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    for (pgasi_verbs_connect_t *request = tp->cm->requests; request != NULL;
         request = request->next)
        if (request->peer == connection->peer && !request->sent)
            send_request(tp, connection, request);
}

/* Dials that were sent on a lost connection are sent again on the next one. */
static void take_back_requests(const pgasi_verbs_tp_t *tp, int peer)
{
    for (pgasi_verbs_connect_t *request = tp->cm->requests; request != NULL;
         request = request->next)
        request->sent = request->sent && request->peer != peer;
}

/* Closes the socket; the rest is freed by sweep. */
static void close_connection(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    const connection_t *chosen = connection->peer >= 0 ? cm->of_peer[connection->peer] : NULL;
    bool mine = chosen == connection, was_open = connection->state == OPEN;
    /* A dead peer loses all of its connections. The end of another connection, such as a repeated
     * hello, proves nothing. */
    bool died = was_open && !connection->left && (mine || !chosen || chosen->state != OPEN);
    cm->n_connecting -= connection->state == CONNECTING || connection->state == GREETED;
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    connection->state = CLOSED;
    if (mine)
        cm->of_peer[connection->peer] = NULL;
    bool lost = died && !__atomic_load_n(&tp->closing, __ATOMIC_RELAXED);
    if (connection->peer >= 0 && (died || mine) && !lost && !connection->again)
        complete_all(tp, connection->peer, PGAS_ERR_PEER);
    if (was_open && connection->left)
        __atomic_fetch_or(&tp->dead[connection->peer], PGASI_VERBS_LEFT, __ATOMIC_RELEASE);
    if (lost) {
        take_back_requests(tp, connection->peer);
        pgasi_verbs_lost_add(tp, connection->peer, true, "its connection has ended");
    }
}

static void sweep(pgasi_verbs_cm_t *cm)
{
    for (connection_t **at = &cm->connections; *at != NULL;) {
        connection_t *connection = *at;
        if (connection->state == CLOSED) {
            *at = connection->next;
            free(connection->out);
            free(connection);
        } else {
            at = &connection->next;
        }
    }
}

static bool is_full(int error)
{
    return error == EMFILE || error == ENFILE;
}

/* Tries the next of the peer's addresses; none is left: the peer cannot be reached. */
static void try_next(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    pgasi_verbs_tp_address_t address;
    pgasi_verbs_address_of(tp, connection->peer, &address);
    bool same = address.machine == tp->address.machine && address.network == tp->address.network;
    while (connection->host < PGASI_MIN((int)address.n_hosts, PGASI_VERBS_HOSTS_MAX)) {
        struct sockaddr_storage to;
        int i = connection->host++;
        socklen_t bytes = to_sockaddr(address.hosts[i], address.ports[i], &to);
        if (is_loopback(address.hosts[i]) && !same)
            continue;
        int fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        set_options(fd);
        if (connect(fd, (const struct sockaddr *)(const void *)&to, bytes) == 0 ||
            errno == EINPROGRESS) {
            connection->fd = fd;
            connection->limit_ns = pgasi_now_ns() + CONNECT_NS;
            watch(tp->cm, connection, EPOLL_CTL_ADD);
            return;
        }
        close(fd);
    }
    int error = errno;
    if (!connection->again) {
        PGASI_ERROR("verbs",
                    "rank %d cannot be reached at any of its addresses (the last: %s); see %s",
                    connection->peer, strerror(error),
                    is_full(error) ? "ulimit -n" : "its log, and PGAS_VERBS_INTERFACE");
    }
    close_connection(tp, connection);
}

/* @param again  in place of a connection that was lost */
static void begin_connect(pgasi_verbs_tp_t *tp, int peer, bool again)
{
    connection_t *connection = add_connection(tp->cm, -1, peer);
    if (!connection) {
        complete_all(tp, peer, PGAS_ERR_NO_MEMORY);
        return;
    }
    connection->host = 0;
    connection->again = again;
    connection->state = CONNECTING;
    tp->cm->of_peer[peer] = connection;
    tp->cm->n_connecting++;
    errno = EADDRNOTAVAIL; /* if there is none to try */
    try_next(tp, connection);
}

static void retry(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    close(connection->fd);
    connection->fd = -1;
    connection->in_bytes = connection->out_bytes = 0;
    connection->state = CONNECTING;
    try_next(tp, connection);
}

/* ---- reading ---- */

static void become_open(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    const connection_t *chosen = tp->cm->of_peer[connection->peer];
    tp->cm->n_connecting -= connection->state == GREETED;
    connection->state = OPEN;
    /* perhaps only one of the ranks can reach the other */
    if (!chosen || (chosen->again && chosen->state != OPEN))
        tp->cm->of_peer[connection->peer] = connection;
    if (tp->cm->leaving)
        send_record(tp->cm, connection, tp, &(record_t){ .kind = LEAVE });
    if (tp->cm->of_peer[connection->peer] == connection)
        send_requests(tp, connection);
}

static void on_hello(pgasi_verbs_tp_t *tp, connection_t *connection, const record_t *record)
{
    if (connection->state != UNKNOWN || record->secret != tp->address.secret ||
        record->rank >= (uint32_t)tp->opts.n_ranks) {
        pgasi_warn_once(&tp->cm->warned_stranger, "verbs",
                        "refused a connection of somebody who is not of this job");
        close_connection(tp, connection);
        return;
    }
    connection->peer = (int)record->rank;
    send_record(tp->cm, connection, tp, &(record_t){ .kind = WELCOME });
    become_open(tp, connection);
}

static void on_connect_reply(pgasi_verbs_tp_t *tp, connection_t *connection, const record_t *record)
{
    pgasi_verbs_connect_t *request = tp->cm->requests;
    while (request && (request->ticket != record->ticket || request->peer != connection->peer))
        request = request->next;
    if (request) {
        request->inbound = record->inbound;
        request->theirs = record->address;
        complete_request(tp, request, (pgas_status_t)record->status);
    } else if (record->status == PGAS_OK) { /* whoever asked has gone */
        send_record(tp->cm, connection, tp,
                    &(record_t){ .kind = DISCONNECT, .inbound = record->inbound });
    }
}

/* False: it makes no sense. */
static bool on_record(pgasi_verbs_tp_t *tp, connection_t *connection, const record_t *record)
{
    if (record->magic != RECORD_MAGIC ||
        (record->kind == HELLO) != (connection->state == UNKNOWN) ||
        (record->kind == WELCOME) != (connection->state == GREETED))
        return false;
    switch (record->kind) {
    case HELLO:
        on_hello(tp, connection, record);
        return true;
    case WELCOME:
        if (record->rank != (uint32_t)connection->peer)
            return false;
        become_open(tp, connection);
        return true;
    case CONNECT_REQUEST:
    case DISCONNECT:
        add_job(tp->cm, connection->id, connection->peer, record);
        return true;
    case CONNECT_REPLY:
        on_connect_reply(tp, connection, record);
        return true;
    case LEAVE:
        connection->left = true;
        return true;
    default:
        return false;
    }
}

static void read_in(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    while (connection->fd >= 0) {
        ssize_t n = recv(connection->fd, connection->in + connection->in_bytes,
                         sizeof(record_t) - connection->in_bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        record_t record;
        connection->in_bytes += n > 0 ? (size_t)n : 0;
        if (n > 0 && connection->in_bytes < sizeof record)
            continue;
        memcpy(&record, connection->in, sizeof record);
        connection->in_bytes = 0;
        if (n > 0 && on_record(tp, connection, &record))
            continue;
        if (connection->state == GREETED) { /* not who we thought, or he has no descriptors left */
            errno = n < 0 ? errno : n == 0 ? ECONNRESET : EPROTO;
            retry(tp, connection);
        } else {
            close_connection(tp, connection);
        }
        return;
    }
}

static void on_event(pgasi_verbs_tp_t *tp, connection_t *connection, uint32_t events)
{
    if (connection->state == CLOSED)
        return;
    if (connection->state == CONNECTING) {
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
        connection->state = GREETED;
        send_record(tp->cm, connection, tp, &(record_t){ .kind = HELLO, .secret = address.secret });
        return;
    }
    if ((events & EPOLLOUT) != 0)
        write_out(tp->cm, connection);
    if ((events & ~(uint32_t)EPOLLOUT) != 0)
        read_in(tp, connection);
}

/* Hangs up on those who have not said who they are for so long. @return whether there were some */
static bool drop_strangers(pgasi_verbs_tp_t *tp, uint64_t ns)
{
    uint64_t now = pgasi_now_ns();
    bool some = false;
    for (connection_t *at = tp->cm->connections; at != NULL; at = at->next) {
        if (at->state == UNKNOWN && now > at->limit_ns - STRANGER_NS + ns) {
            pgasi_warn_once(&tp->cm->warned_stranger, "verbs",
                            "hung up on somebody who did not say who he is");
            close_connection(tp, at);
            some = true;
        }
    }
    return some;
}

static bool has_strangers(const pgasi_verbs_cm_t *cm)
{
    const connection_t *at = cm->connections;
    while (at && at->state != UNKNOWN)
        at = at->next;
    return at;
}

/* No descriptors are left, and none will soon be: who connects hears that at once, instead of
 * waiting. @return whether somebody did */
static bool turn_away(pgasi_verbs_cm_t *cm, int listener)
{
    if (cm->spare_fd < 0)
        return false;
    close(cm->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        pgasi_warn_once(&cm->warned_full, "verbs",
                        "no descriptors are left to let other ranks connect; see ulimit -n");
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
    drop_strangers(tp, STRANGER_NS);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        bool full = fd < 0 && is_full(errno);
        if (full && make_room(tp, listener))
            continue;
        if (full)
            pause_listening(tp->cm);
        if (fd < 0)
            break;
        connection_t *connection = add_connection(tp->cm, fd, -1);
        if (!connection) {
            close(fd);
            break;
        }
        set_options(fd);
        connection->state = UNKNOWN;
        connection->limit_ns = pgasi_now_ns() + STRANGER_NS;
        watch(tp->cm, connection, EPOLL_CTL_ADD);
    }
}

static void on_cm_event(pgasi_verbs_tp_t *tp, const struct epoll_event *event)
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

static void check_limits(pgasi_verbs_tp_t *tp)
{
    uint64_t now = pgasi_now_ns();
    for (connection_t *at = tp->cm->connections; at != NULL; at = at->next) {
        if (at->state == CONNECTING && now > at->limit_ns) {
            errno = ETIMEDOUT;
            retry(tp, at);
        }
    }
}

/* ---- jobs of context 0 ---- */

static connection_t *find_connection(const pgasi_verbs_cm_t *cm, uint64_t id)
{
    connection_t *at = cm->connections;
    while (at && at->id != id)
        at = at->next;
    return at && at->state == OPEN ? at : NULL;
}

static job_t *take_job(pgasi_verbs_cm_t *cm)
{
    pthread_mutex_lock(&cm->lock);
    job_t *job = cm->jobs;
    if (job) {
        cm->jobs = job->next;
        cm->last_job = !cm->jobs ? &cm->jobs : cm->last_job;
        __atomic_store_n(&cm->n_jobs, cm->n_jobs - 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&cm->lock);
    return job;
}

static void do_job(pgasi_verbs_ctx_t *ctx, const job_t *job)
{
    const record_t *asked = &job->record;
    if (asked->kind != CONNECT_REQUEST) {
        pgasi_verbs_dismiss(ctx, job->peer,
                            asked->kind == DISCONNECT ? asked->inbound : PGASI_VERBS_ALL_INBOUND);
        return;
    }
    record_t record = { .kind = CONNECT_REPLY, .ticket = asked->ticket };
    record.status = (int16_t)pgasi_verbs_accept(ctx, job->peer, (int)asked->ctx, &asked->address,
                                                asked->slots_addr, asked->slots_rkey,
                                                &record.address, &record.inbound);
    pthread_mutex_lock(&ctx->tp->cm->lock);
    connection_t *connection = find_connection(ctx->tp->cm, job->connection);
    if (connection)
        send_record(ctx->tp->cm, connection, ctx->tp, &record);
    pthread_mutex_unlock(&ctx->tp->cm->lock);
    if (!connection && record.status == PGAS_OK) /* the peer asks again on another one */
        pgasi_verbs_dismiss(ctx, job->peer, record.inbound);
}

static int do_jobs(pgasi_verbs_ctx_t *ctx)
{
    int n = 0;
    for (job_t *job; (job = take_job(ctx->tp->cm)) != NULL; n++) {
        do_job(ctx, job);
        free(job);
    }
    return n;
}

/* ---- for contexts ---- */

int pgasi_verbs_cm_fd(const pgasi_verbs_tp_t *tp)
{
    return tp->cm->epoll_fd;
}

bool pgasi_verbs_cm_has_jobs(const pgasi_verbs_tp_t *tp)
{
    return __atomic_load_n(&tp->cm->n_jobs, __ATOMIC_ACQUIRE) > 0;
}

/* The peer may have opened a connection before this rank saw the end of the former one. */
static bool take_open_one(pgasi_verbs_tp_t *tp, int peer)
{
    for (connection_t *at = tp->cm->connections; at != NULL; at = at->next) {
        if (at->peer == peer && at->state == OPEN && !at->left) {
            tp->cm->of_peer[peer] = at;
            send_requests(tp, at);
            return true;
        }
    }
    return false;
}

bool pgasi_verbs_cm_reconnect(pgasi_verbs_tp_t *tp, int peer)
{
    pthread_mutex_lock(&tp->cm->lock);
    if (!tp->cm->of_peer[peer] && !take_open_one(tp, peer))
        begin_connect(tp, peer, true);
    const connection_t *connection = tp->cm->of_peer[peer];
    bool open = connection && connection->state == OPEN;
    pthread_mutex_unlock(&tp->cm->lock);
    return open;
}

void pgasi_verbs_cm_dismiss(pgasi_verbs_tp_t *tp, int peer)
{
    pthread_mutex_lock(&tp->cm->lock);
    add_job(tp->cm, 0, peer, NULL);
    pthread_mutex_unlock(&tp->cm->lock);
}

int pgasi_verbs_cm_run(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_cm_t *cm = tp->cm;
    struct epoll_event events[EVENTS];
    if (pthread_mutex_trylock(&cm->lock) != 0)
        return 0;
    int n = epoll_wait(cm->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++)
        if (!events[i].data.ptr || events[i].data.ptr == &cm->timer_fd)
            on_cm_event(tp, &events[i]);
        else
            on_event(tp, events[i].data.ptr, events[i].events);
    if (cm->n_connecting > 0)
        check_limits(tp);
    sweep(cm);
    pthread_mutex_unlock(&cm->lock);
    pgasi_verbs_lost_run(tp);
    if (ctx->index == 0 && ctx->receiver)
        n += do_jobs(ctx);
    else if (pgasi_verbs_cm_has_jobs(tp))
        wake_service(tp);
    return PGASI_MAX(n, 0);
}

void pgasi_verbs_cm_connect(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    pthread_mutex_lock(&cm->lock);
    request->ticket = ++cm->n_tickets;
    request->next = cm->requests;
    cm->requests = request;
    connection_t *connection = cm->of_peer[request->peer];
    if (!connection)
        begin_connect(tp, request->peer, false);
    else if (connection->left)
        complete_request(tp, request, PGAS_ERR_PEER);
    else if (connection->state == OPEN)
        send_request(tp, connection, request);
    pthread_mutex_unlock(&cm->lock);
}

void pgasi_verbs_cm_cancel(pgasi_verbs_tp_t *tp, pgasi_verbs_connect_t *request)
{
    pthread_mutex_lock(&tp->cm->lock);
    if (!request->completed) {
        complete_request(tp, request, PGAS_ERR_PEER);
    } else if (request->status == PGAS_OK && tp->cm->of_peer[request->peer] &&
               tp->cm->of_peer[request->peer]->state == OPEN) {
        send_record(tp->cm, tp->cm->of_peer[request->peer], tp,
                    &(record_t){ .kind = DISCONNECT, .inbound = request->inbound });
    }
    pthread_mutex_unlock(&tp->cm->lock);
}

void pgasi_verbs_cm_await_replies(pgasi_verbs_tp_t *tp)
{
    pthread_mutex_lock(&tp->cm->lock);
    pthread_mutex_unlock(&tp->cm->lock);
}

void pgasi_verbs_cm_disconnect(pgasi_verbs_tp_t *tp, int peer, uint32_t inbound)
{
    pthread_mutex_lock(&tp->cm->lock);
    connection_t *connection = tp->cm->of_peer[peer];
    if (connection && connection->state == OPEN)
        send_record(tp->cm, connection, tp, &(record_t){ .kind = DISCONNECT, .inbound = inbound });
    pthread_mutex_unlock(&tp->cm->lock);
}

void pgasi_verbs_cm_leave(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    pthread_mutex_lock(&cm->lock);
    if (!cm->leaving) {
        cm->leaving = true;
        for (connection_t *at = cm->connections; at != NULL; at = at->next)
            if (at->state == OPEN)
                send_record(cm, at, tp, &(record_t){ .kind = LEAVE });
    }
    pthread_mutex_unlock(&cm->lock);
}

/* ---- opening and closing ---- */

/* @return a socket that listens at this address alone, at a port of the system's choice; -1 */
static int listen_at(const uint8_t host[16], uint16_t *port_p)
{
    struct sockaddr_storage bound;
    socklen_t bytes = to_sockaddr(host, 0, &bound);
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

/* Listens at each of our addresses, and drops those that cannot be bound (interfaces that come or
 * go). */
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

static void close_descriptors(const pgasi_verbs_cm_t *cm)
{
    for (int i = 0; i < cm->n_listeners; i++)
        close(cm->listeners[i]);
    if (cm->epoll_fd >= 0)
        close(cm->epoll_fd);
    if (cm->spare_fd >= 0) /* else it could not be had again */
        close(cm->spare_fd);
    if (cm->timer_fd >= 0)
        close(cm->timer_fd);
}

/* @return whether it listens somewhere, and all that needs it is there; errno */
static bool open_descriptors(pgasi_verbs_tp_t *tp, pgasi_verbs_cm_t *cm)
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

pgas_status_t pgasi_verbs_cm_open(pgasi_verbs_tp_t *tp)
{
    pgas_status_t status = find_hosts(tp);
    pgasi_verbs_cm_t *cm = status == PGAS_OK ? calloc(1, sizeof *cm) : NULL;
    if (!cm)
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    void *table = mmap(NULL, table_bytes(tp), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!open_descriptors(tp, cm) || table == MAP_FAILED) {
        int error = errno;
        PGASI_ERROR("verbs", "cannot listen for other ranks: %s%s", strerror(error),
                    is_full(error) ? "; see ulimit -n" : "");
        if (table != MAP_FAILED)
            munmap(table, table_bytes(tp));
        close_descriptors(cm);
        free(cm);
        return PGAS_ERR_IO;
    }
    cm->of_peer = table;
    cm->last_job = &cm->jobs;
    pthread_mutex_init(&cm->lock, NULL);
    tp->cm = cm;
    return PGAS_OK;
}

void pgasi_verbs_cm_close(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_cm_t *cm = tp->cm;
    for (connection_t *at = cm->connections; at != NULL; at = at->next)
        if (at->state != CLOSED)
            close_connection(tp, at);
    sweep(cm);
    while (cm->jobs) {
        job_t *job = cm->jobs;
        cm->jobs = job->next;
        free(job);
    }
    close_descriptors(cm);
    munmap(cm->of_peer, table_bytes(tp));
    pthread_mutex_destroy(&cm->lock);
    free(cm);
    tp->cm = NULL;
}
