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

enum { HELLO = 1, WELCOME, DIAL, ANSWER, BYE, LEAVE };

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

struct pgasi_verbs_wire {
    pthread_mutex_t lock;
    int epoll_fd;
    int n_listeners, listeners[PGASI_VERBS_HOSTS_MAX];
    int spare_fd; /* given up when descriptors have run out, to tell who connects */
    int timer_fd; /* ends a pause of the listeners */
    connection_t *connections;
    connection_t **of_peer; /* n_ranks, touched where used */
    pgasi_verbs_dial_t *dials;
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

static void watch(const pgasi_verbs_wire_t *wire, connection_t *connection, int how)
{
    bool writes = connection->state == CONNECTING || connection->out_bytes > 0;
    struct epoll_event event = { .events = EPOLLIN | (writes ? EPOLLOUT : 0u),
                                 .data.ptr = connection };
    epoll_ctl(wire->epoll_fd, how, connection->fd, &event);
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

static connection_t *add_connection(pgasi_verbs_wire_t *wire, int fd, int peer)
{
    connection_t *connection = calloc(1, sizeof *connection);
    if (connection) {
        connection->fd = fd;
        connection->peer = peer;
        connection->id = ++wire->n_connections;
        connection->next = wire->connections;
        wire->connections = connection;
    }
    return connection;
}

/* What can be written now. */
static void push(const pgasi_verbs_wire_t *wire, connection_t *connection)
{
    while (connection->out_bytes > 0) {
        ssize_t n = send(connection->fd, connection->out, connection->out_bytes,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            break; /* full, or broken, which reading finds out */
        connection->out_bytes -= (size_t)n;
        memmove(connection->out, connection->out + n, connection->out_bytes);
    }
    watch(wire, connection, EPOLL_CTL_MOD);
}

static void say(const pgasi_verbs_wire_t *wire, connection_t *connection,
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
    push(wire, connection);
}

static void add_job(pgasi_verbs_wire_t *wire, uint64_t connection, int peer, const record_t *record)
{
    job_t *job = calloc(1, sizeof *job);
    if (!job)
        pgasi_fatal("verbs", "no memory to answer rank %d", peer);
    job->connection = connection;
    job->peer = peer;
    if (record)
        job->record = *record;
    *wire->last_job = job;
    wire->last_job = &job->next;
    __atomic_store_n(&wire->n_jobs, wire->n_jobs + 1, __ATOMIC_RELEASE);
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
static void answer_dial(pgasi_verbs_tp_t *tp, pgasi_verbs_dial_t *dial, pgas_status_t status)
{
    pgasi_verbs_dial_t **at = &tp->wire->dials;
    while (*at != dial)
        at = &(*at)->next;
    *at = dial->next;
    dial->status = status;
    __atomic_store_n(&dial->answered, 1, __ATOMIC_RELEASE);
    pgasi_verbs_wake(&dial->ctx->super);
}

static void answer_all(pgasi_verbs_tp_t *tp, int peer, pgas_status_t status)
{
    for (pgasi_verbs_dial_t *dial = tp->wire->dials, *next; dial != NULL; dial = next) {
        next = dial->next;
        if (dial->peer == peer)
            answer_dial(tp, dial, status);
    }
}

static void send_dial(pgasi_verbs_tp_t *tp, connection_t *connection, pgasi_verbs_dial_t *dial)
{
    record_t record = { .kind = DIAL,
                        .ctx = (uint32_t)dial->ctx->index,
                        .ticket = dial->ticket,
                        .slots_addr = dial->slots_addr,
                        .slots_rkey = dial->slots_rkey,
                        .address = dial->mine };
    dial->sent = true;
    say(tp->wire, connection, tp, &record);
}

static void send_dials(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    for (pgasi_verbs_dial_t *dial = tp->wire->dials; dial != NULL; dial = dial->next)
        if (dial->peer == connection->peer && !dial->sent)
            send_dial(tp, connection, dial);
}

/* Dials that were sent on a lost connection are sent again on the next one. */
static void take_back_dials(const pgasi_verbs_tp_t *tp, int peer)
{
    for (pgasi_verbs_dial_t *dial = tp->wire->dials; dial != NULL; dial = dial->next)
        dial->sent = dial->sent && dial->peer != peer;
}

/* Closes the socket; the rest is freed by sweep. */
static void hang_up(pgasi_verbs_tp_t *tp, connection_t *connection)
{
    pgasi_verbs_wire_t *wire = tp->wire;
    const connection_t *chosen = connection->peer >= 0 ? wire->of_peer[connection->peer] : NULL;
    bool mine = chosen == connection, was_open = connection->state == OPEN;
    /* A dead peer loses all of its connections. The end of another connection, such as a repeated
     * hello, proves nothing. */
    bool died = was_open && !connection->left && (mine || !chosen || chosen->state != OPEN);
    wire->n_connecting -= connection->state == CONNECTING || connection->state == GREETED;
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
    connection->state = CLOSED;
    if (mine)
        wire->of_peer[connection->peer] = NULL;
    bool lost = died && !__atomic_load_n(&tp->closing, __ATOMIC_RELAXED);
    if (connection->peer >= 0 && (died || mine) && !lost && !connection->again)
        answer_all(tp, connection->peer, PGAS_ERR_PEER);
    if (was_open && connection->left)
        __atomic_fetch_or(&tp->dead[connection->peer], PGASI_VERBS_LEFT, __ATOMIC_RELEASE);
    if (lost) {
        take_back_dials(tp, connection->peer);
        pgasi_verbs_lost_add(tp, connection->peer, true, "its connection has ended");
    }
}

static void sweep(pgasi_verbs_wire_t *wire)
{
    for (connection_t **at = &wire->connections; *at != NULL;) {
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
            watch(tp->wire, connection, EPOLL_CTL_ADD);
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
    hang_up(tp, connection);
}

/* @param again  in place of a connection that was lost */
static void begin_connect(pgasi_verbs_tp_t *tp, int peer, bool again)
{
    connection_t *connection = add_connection(tp->wire, -1, peer);
    if (!connection) {
        answer_all(tp, peer, PGAS_ERR_NO_MEMORY);
        return;
    }
    connection->host = 0;
    connection->again = again;
    connection->state = CONNECTING;
    tp->wire->of_peer[peer] = connection;
    tp->wire->n_connecting++;
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
    const connection_t *chosen = tp->wire->of_peer[connection->peer];
    tp->wire->n_connecting -= connection->state == GREETED;
    connection->state = OPEN;
    /* perhaps only one of the ranks can reach the other */
    if (!chosen || (chosen->again && chosen->state != OPEN))
        tp->wire->of_peer[connection->peer] = connection;
    if (tp->wire->leaving)
        say(tp->wire, connection, tp, &(record_t){ .kind = LEAVE });
    if (tp->wire->of_peer[connection->peer] == connection)
        send_dials(tp, connection);
}

static void on_hello(pgasi_verbs_tp_t *tp, connection_t *connection, const record_t *record)
{
    if (connection->state != UNKNOWN || record->secret != tp->address.secret ||
        record->rank >= (uint32_t)tp->opts.n_ranks) {
        pgasi_warn_once(&tp->wire->warned_stranger, "verbs",
                        "refused a connection of somebody who is not of this job");
        hang_up(tp, connection);
        return;
    }
    connection->peer = (int)record->rank;
    say(tp->wire, connection, tp, &(record_t){ .kind = WELCOME });
    become_open(tp, connection);
}

static void on_answer(pgasi_verbs_tp_t *tp, connection_t *connection, const record_t *record)
{
    pgasi_verbs_dial_t *dial = tp->wire->dials;
    while (dial && (dial->ticket != record->ticket || dial->peer != connection->peer))
        dial = dial->next;
    if (dial) {
        dial->inbound = record->inbound;
        dial->theirs = record->address;
        answer_dial(tp, dial, (pgas_status_t)record->status);
    } else if (record->status == PGAS_OK) { /* whoever asked has gone */
        say(tp->wire, connection, tp, &(record_t){ .kind = BYE, .inbound = record->inbound });
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
    case DIAL:
    case BYE:
        add_job(tp->wire, connection->id, connection->peer, record);
        return true;
    case ANSWER:
        on_answer(tp, connection, record);
        return true;
    case LEAVE:
        connection->left = true;
        return true;
    default:
        return false;
    }
}

static void pull(pgasi_verbs_tp_t *tp, connection_t *connection)
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
            hang_up(tp, connection);
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
        say(tp->wire, connection, tp, &(record_t){ .kind = HELLO, .secret = address.secret });
        return;
    }
    if ((events & EPOLLOUT) != 0)
        push(tp->wire, connection);
    if ((events & ~(uint32_t)EPOLLOUT) != 0)
        pull(tp, connection);
}

/* Hangs up on those who have not said who they are for so long. @return whether there were some */
static bool forget_strangers(pgasi_verbs_tp_t *tp, uint64_t ns)
{
    uint64_t now = pgasi_now_ns();
    bool some = false;
    for (connection_t *at = tp->wire->connections; at != NULL; at = at->next) {
        if (at->state == UNKNOWN && now > at->limit_ns - STRANGER_NS + ns) {
            pgasi_warn_once(&tp->wire->warned_stranger, "verbs",
                            "hung up on somebody who did not say who he is");
            hang_up(tp, at);
            some = true;
        }
    }
    return some;
}

static bool has_strangers(const pgasi_verbs_wire_t *wire)
{
    const connection_t *at = wire->connections;
    while (at && at->state != UNKNOWN)
        at = at->next;
    return at;
}

/* No descriptors are left, and none will soon be: who connects hears that at once, instead of
 * waiting. @return whether somebody did */
static bool turn_away(pgasi_verbs_wire_t *wire, int listener)
{
    if (wire->spare_fd < 0)
        return false;
    close(wire->spare_fd);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        pgasi_warn_once(&wire->warned_full, "verbs",
                        "no descriptors are left to let other ranks connect; see ulimit -n");
    }
    wire->spare_fd = fcntl(listener, F_DUPFD_CLOEXEC, 0);
    return fd >= 0;
}

static bool make_room(pgasi_verbs_tp_t *tp, int listener)
{
    return forget_strangers(tp, RUSH_NS) ||
           (!has_strangers(tp->wire) && turn_away(tp->wire, listener));
}

static void listen_for(const pgasi_verbs_wire_t *wire, uint32_t events)
{
    for (int i = 0; i < wire->n_listeners; i++) {
        struct epoll_event event = { .events = events, .data.ptr = NULL };
        epoll_ctl(wire->epoll_fd, EPOLL_CTL_MOD, wire->listeners[i], &event);
    }
}

void pgasi_verbs_wire_look_later(pgasi_verbs_tp_t *tp)
{
    const struct itimerspec once = { .it_value.tv_nsec = PAUSE_NS };
    timerfd_settime(tp->wire->timer_fd, 0, &once, NULL);
}

/* Connections that cannot be accepted keep a listener readable, so a thread that waits for it would
 * never sleep. */
static void pause_listening(const pgasi_verbs_wire_t *wire)
{
    const struct itimerspec once = { .it_value.tv_nsec = PAUSE_NS };
    if (timerfd_settime(wire->timer_fd, 0, &once, NULL) == 0)
        listen_for(wire, 0);
}

static void accept_all(pgasi_verbs_tp_t *tp, int listener)
{
    forget_strangers(tp, STRANGER_NS);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        bool full = fd < 0 && is_full(errno);
        if (full && make_room(tp, listener))
            continue;
        if (full)
            pause_listening(tp->wire);
        if (fd < 0)
            break;
        connection_t *connection = add_connection(tp->wire, fd, -1);
        if (!connection) {
            close(fd);
            break;
        }
        set_options(fd);
        connection->state = UNKNOWN;
        connection->limit_ns = pgasi_now_ns() + STRANGER_NS;
        watch(tp->wire, connection, EPOLL_CTL_ADD);
    }
}

static void on_wire_event(pgasi_verbs_tp_t *tp, const struct epoll_event *event)
{
    pgasi_verbs_wire_t *wire = tp->wire;
    uint64_t n;
    if (event->data.ptr == &wire->timer_fd) {
        ssize_t got = read(wire->timer_fd, &n, sizeof n);
        (void)got;
        listen_for(wire, EPOLLIN);
        return;
    }
    for (int i = 0; i < wire->n_listeners; i++)
        accept_all(tp, wire->listeners[i]);
}

static void look_at_limits(pgasi_verbs_tp_t *tp)
{
    uint64_t now = pgasi_now_ns();
    for (connection_t *at = tp->wire->connections; at != NULL; at = at->next) {
        if (at->state == CONNECTING && now > at->limit_ns) {
            errno = ETIMEDOUT;
            retry(tp, at);
        }
    }
}

/* ---- jobs of context 0 ---- */

static connection_t *find_connection(const pgasi_verbs_wire_t *wire, uint64_t id)
{
    connection_t *at = wire->connections;
    while (at && at->id != id)
        at = at->next;
    return at && at->state == OPEN ? at : NULL;
}

static job_t *take_job(pgasi_verbs_wire_t *wire)
{
    pthread_mutex_lock(&wire->lock);
    job_t *job = wire->jobs;
    if (job) {
        wire->jobs = job->next;
        wire->last_job = !wire->jobs ? &wire->jobs : wire->last_job;
        __atomic_store_n(&wire->n_jobs, wire->n_jobs - 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&wire->lock);
    return job;
}

static void do_job(pgasi_verbs_ctx_t *ctx, const job_t *job)
{
    const record_t *asked = &job->record;
    if (asked->kind != DIAL) {
        pgasi_verbs_dismiss(ctx, job->peer,
                            asked->kind == BYE ? asked->inbound : PGASI_VERBS_ALL_INBOUND);
        return;
    }
    record_t record = { .kind = ANSWER, .ticket = asked->ticket };
    record.status = (int16_t)pgasi_verbs_accept(ctx, job->peer, (int)asked->ctx, &asked->address,
                                                asked->slots_addr, asked->slots_rkey,
                                                &record.address, &record.inbound);
    pthread_mutex_lock(&ctx->tp->wire->lock);
    connection_t *connection = find_connection(ctx->tp->wire, job->connection);
    if (connection)
        say(ctx->tp->wire, connection, ctx->tp, &record);
    pthread_mutex_unlock(&ctx->tp->wire->lock);
    if (!connection && record.status == PGAS_OK) /* the peer asks again on another one */
        pgasi_verbs_dismiss(ctx, job->peer, record.inbound);
}

static int do_jobs(pgasi_verbs_ctx_t *ctx)
{
    int n = 0;
    for (job_t *job; (job = take_job(ctx->tp->wire)) != NULL; n++) {
        do_job(ctx, job);
        free(job);
    }
    return n;
}

/* ---- for contexts ---- */

int pgasi_verbs_wire_fd(const pgasi_verbs_tp_t *tp)
{
    return tp->wire->epoll_fd;
}

bool pgasi_verbs_wire_waits(const pgasi_verbs_tp_t *tp)
{
    return __atomic_load_n(&tp->wire->n_jobs, __ATOMIC_ACQUIRE) > 0;
}

/* The peer may have opened a connection before this rank saw the end of the former one. */
static bool take_open_one(pgasi_verbs_tp_t *tp, int peer)
{
    for (connection_t *at = tp->wire->connections; at != NULL; at = at->next) {
        if (at->peer == peer && at->state == OPEN && !at->left) {
            tp->wire->of_peer[peer] = at;
            send_dials(tp, at);
            return true;
        }
    }
    return false;
}

bool pgasi_verbs_wire_redial(pgasi_verbs_tp_t *tp, int peer)
{
    pthread_mutex_lock(&tp->wire->lock);
    if (!tp->wire->of_peer[peer] && !take_open_one(tp, peer))
        begin_connect(tp, peer, true);
    const connection_t *connection = tp->wire->of_peer[peer];
    bool open = connection && connection->state == OPEN;
    pthread_mutex_unlock(&tp->wire->lock);
    return open;
}

void pgasi_verbs_wire_dismiss(pgasi_verbs_tp_t *tp, int peer)
{
    pthread_mutex_lock(&tp->wire->lock);
    add_job(tp->wire, 0, peer, NULL);
    pthread_mutex_unlock(&tp->wire->lock);
}

int pgasi_verbs_wire_run(pgasi_verbs_ctx_t *ctx)
{
    pgasi_verbs_tp_t *tp = ctx->tp;
    pgasi_verbs_wire_t *wire = tp->wire;
    struct epoll_event events[EVENTS];
    if (pthread_mutex_trylock(&wire->lock) != 0)
        return 0;
    int n = epoll_wait(wire->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < n; i++)
        if (!events[i].data.ptr || events[i].data.ptr == &wire->timer_fd)
            on_wire_event(tp, &events[i]);
        else
            on_event(tp, events[i].data.ptr, events[i].events);
    if (wire->n_connecting > 0)
        look_at_limits(tp);
    sweep(wire);
    pthread_mutex_unlock(&wire->lock);
    pgasi_verbs_lost_run(tp);
    if (ctx->index == 0 && ctx->receiver)
        n += do_jobs(ctx);
    else if (pgasi_verbs_wire_waits(tp))
        wake_service(tp);
    return PGASI_MAX(n, 0);
}

void pgasi_verbs_wire_dial(pgasi_verbs_tp_t *tp, pgasi_verbs_dial_t *dial)
{
    pgasi_verbs_wire_t *wire = tp->wire;
    pthread_mutex_lock(&wire->lock);
    dial->ticket = ++wire->n_tickets;
    dial->next = wire->dials;
    wire->dials = dial;
    connection_t *connection = wire->of_peer[dial->peer];
    if (!connection)
        begin_connect(tp, dial->peer, false);
    else if (connection->left)
        answer_dial(tp, dial, PGAS_ERR_PEER);
    else if (connection->state == OPEN)
        send_dial(tp, connection, dial);
    pthread_mutex_unlock(&wire->lock);
}

void pgasi_verbs_wire_hang_up(pgasi_verbs_tp_t *tp, pgasi_verbs_dial_t *dial)
{
    pthread_mutex_lock(&tp->wire->lock);
    if (!dial->answered) {
        answer_dial(tp, dial, PGAS_ERR_PEER);
    } else if (dial->status == PGAS_OK && tp->wire->of_peer[dial->peer] &&
               tp->wire->of_peer[dial->peer]->state == OPEN) {
        say(tp->wire, tp->wire->of_peer[dial->peer], tp,
            &(record_t){ .kind = BYE, .inbound = dial->inbound });
    }
    pthread_mutex_unlock(&tp->wire->lock);
}

void pgasi_verbs_wire_settle(pgasi_verbs_tp_t *tp)
{
    pthread_mutex_lock(&tp->wire->lock);
    pthread_mutex_unlock(&tp->wire->lock);
}

void pgasi_verbs_wire_bye(pgasi_verbs_tp_t *tp, int peer, uint32_t inbound)
{
    pthread_mutex_lock(&tp->wire->lock);
    connection_t *connection = tp->wire->of_peer[peer];
    if (connection && connection->state == OPEN)
        say(tp->wire, connection, tp, &(record_t){ .kind = BYE, .inbound = inbound });
    pthread_mutex_unlock(&tp->wire->lock);
}

void pgasi_verbs_wire_leave(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_wire_t *wire = tp->wire;
    pthread_mutex_lock(&wire->lock);
    if (!wire->leaving) {
        wire->leaving = true;
        for (connection_t *at = wire->connections; at != NULL; at = at->next)
            if (at->state == OPEN)
                say(wire, at, tp, &(record_t){ .kind = LEAVE });
    }
    pthread_mutex_unlock(&wire->lock);
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
static void listen_everywhere(pgasi_verbs_tp_t *tp, pgasi_verbs_wire_t *wire)
{
    pgasi_verbs_tp_address_t *address = &tp->address;
    int n = 0;
    for (int i = 0; i < address->n_hosts; i++) {
        int fd = listen_at(address->hosts[i], &address->ports[n]);
        if (fd >= 0) {
            memmove(address->hosts[n], address->hosts[i], sizeof address->hosts[0]);
            wire->listeners[n++] = fd;
        }
    }
    wire->n_listeners = address->n_hosts = (uint8_t)n;
}

static void close_descriptors(const pgasi_verbs_wire_t *wire)
{
    for (int i = 0; i < wire->n_listeners; i++)
        close(wire->listeners[i]);
    if (wire->epoll_fd >= 0)
        close(wire->epoll_fd);
    if (wire->spare_fd >= 0) /* else it could not be had again */
        close(wire->spare_fd);
    if (wire->timer_fd >= 0)
        close(wire->timer_fd);
}

/* @return whether it listens somewhere, and all that needs it is there; errno */
static bool open_descriptors(pgasi_verbs_tp_t *tp, pgasi_verbs_wire_t *wire)
{
    errno = EADDRNOTAVAIL;
    wire->epoll_fd = wire->spare_fd = wire->timer_fd = -1;
    listen_everywhere(tp, wire);
    if (wire->n_listeners == 0)
        return false;
    wire->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    wire->spare_fd = fcntl(wire->listeners[0], F_DUPFD_CLOEXEC, 0);
    wire->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct epoll_event timer = { .events = EPOLLIN, .data.ptr = &wire->timer_fd };
    bool good = wire->epoll_fd >= 0 && wire->spare_fd >= 0 && wire->timer_fd >= 0 &&
                epoll_ctl(wire->epoll_fd, EPOLL_CTL_ADD, wire->timer_fd, &timer) == 0;
    for (int i = 0; i < wire->n_listeners && good; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
        good = epoll_ctl(wire->epoll_fd, EPOLL_CTL_ADD, wire->listeners[i], &event) == 0;
    }
    return good;
}

pgas_status_t pgasi_verbs_wire_open(pgasi_verbs_tp_t *tp)
{
    pgas_status_t status = find_hosts(tp);
    pgasi_verbs_wire_t *wire = status == PGAS_OK ? calloc(1, sizeof *wire) : NULL;
    if (!wire)
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    void *table = mmap(NULL, table_bytes(tp), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (!open_descriptors(tp, wire) || table == MAP_FAILED) {
        int error = errno;
        PGASI_ERROR("verbs", "cannot listen for other ranks: %s%s", strerror(error),
                    is_full(error) ? "; see ulimit -n" : "");
        if (table != MAP_FAILED)
            munmap(table, table_bytes(tp));
        close_descriptors(wire);
        free(wire);
        return PGAS_ERR_IO;
    }
    wire->of_peer = table;
    wire->last_job = &wire->jobs;
    pthread_mutex_init(&wire->lock, NULL);
    tp->wire = wire;
    return PGAS_OK;
}

void pgasi_verbs_wire_close(pgasi_verbs_tp_t *tp)
{
    pgasi_verbs_wire_t *wire = tp->wire;
    for (connection_t *at = wire->connections; at != NULL; at = at->next)
        if (at->state != CLOSED)
            hang_up(tp, at);
    sweep(wire);
    while (wire->jobs) {
        job_t *job = wire->jobs;
        wire->jobs = job->next;
        free(job);
    }
    close_descriptors(wire);
    munmap(wire->of_peer, table_bytes(tp));
    pthread_mutex_destroy(&wire->lock);
    free(wire);
    tp->wire = NULL;
}
