/* The sockets of the service ring: a listener, connections to other ranks, and records on them.
 *
 * The peer's kernel shows whether its host is alive: TCP also answers for a rank that computes, is
 * stopped or gets no CPU time. Keepalive detects silence on an idle connection, TCP_USER_TIMEOUT on
 * one with unacknowledged data. Both take PGAS_PEER_TIMEOUT_S. The end of a process is noticed at
 * once: its kernel closes its connections and refuses new ones.
 *
 * The connecting side must prove that it knows the job key. Until then it is a stranger: it may
 * send one record within STRANGER_NS. With more than STRANGERS_MAX strangers the oldest one is
 * dropped. The job key itself is never sent, because another program may now own the port of a dead
 * rank. */
#include "boot/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"

#define RECORD_MAGIC  0x67617031u
#define STRANGERS_MAX 16
#define BACKLOG       1024 /* the kernel accepts for a stopped process until it is full */
#define STRANGER_NS   UINT64_C(5000000000)
#define CLOSING_NS    UINT64_C(1000000000)
#define RETRY_NS      UINT64_C(100000000)
#define LATE_NS       UINT64_C(1000000000)
/* dropped greetings after which the port is considered another program's */
#define DROPS_MAX 20

enum { HELLO = 1, WELCOME, BYE, ABORT, NEWS }; /* NEWS + n: news n of the ring */

typedef struct {
    uint32_t magic;
    uint16_t kind, unused;
    int32_t from;
    int32_t value;  /* NEWS: a rank, or the number of a request; ABORT: the exit code */
    uint64_t proof; /* HELLO, WELCOME */
} record_t;

typedef struct connection {
    struct connection *next;
    uint32_t id;
    int fd, rank; /* rank -1: a stranger */
    enum { WAITING, DIALLING, GREETED, STRANGER, LINKED, CLOSING, CLOSED } state;
    bool dialled;
    int n_drops;
    uint64_t due_ns,
        limit_ns; /* of WAITING: the next try; of dials, strangers and CLOSING: the end */
    size_t in_bytes, out_bytes, out_room;
    char in[sizeof(record_t)];
    char *out;
} connection_t;

static int epoll_fd = -1, listen_fd = -1;
static char listener[64];
static pgasi_ring_t *ring;
static const pgasi_address_t *addresses;
static connection_t *connections;
static uint32_t n_ids;
static bool deaf; /* no descriptors: the listener is not polled until the timers run */
static int warned_full;

static uint64_t patience_ns(void)
{
    return (uint64_t)pgasi_param.peer_timeout_s * UINT64_C(1000000000);
}

/* Each step of the hash can be undone, so the key goes in at both ends: then the proof does not
 * give it away. */
static uint64_t proof(int kind, int from, int to)
{
    uint64_t key = pgasi_boot.job_key, sum = pgasi_hash_combine(key, (uint64_t)kind);
    sum = pgasi_hash_combine(pgasi_hash_combine(sum, (uint64_t)from), (uint64_t)to);
    return pgasi_hash_combine(sum, key);
}

/* ---- sockets ---- */

static socklen_t to_sockaddr(const pgasi_address_t *address, struct sockaddr_storage *to_p)
{
    struct in6_addr addr;
    memset(to_p, 0, sizeof *to_p);
    memcpy(&addr, address->host, 16);
    if (IN6_IS_ADDR_V4MAPPED(&addr)) {
        struct sockaddr_in *to = (void *)to_p;
        to->sin_family = AF_INET;
        to->sin_port = htons(address->port);
        memcpy(&to->sin_addr, address->host + 12, 4);
        return sizeof *to;
    }
    struct sockaddr_in6 *to = (void *)to_p;
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(address->port);
    to->sin6_addr = addr;
    return sizeof *to;
}

static void set_options(int fd)
{
    int on = 1, s = pgasi_param.peer_timeout_s, idle = PGASI_MAX(s / 4, 1),
        every = PGASI_MAX(s / 8, 1);
    int probes = PGASI_MAX((s - idle) / every, 1), ms = 1000 * PGASI_MIN(s, INT32_MAX / 1000);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every, sizeof every);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

static bool is_silence(int error)
{
    return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ENETDOWN;
}

static bool is_full(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void warn_full(int error)
{
    pgasi_warn_once(&warned_full, "watch",
                    "no descriptor or memory for a connection (%s): raise ulimit -n; until then "
                    "deaths on other hosts may be noticed late",
                    strerror(error));
}

static void describe(const pgasi_address_t *address)
{
    char host[INET6_ADDRSTRLEN] = "?";
    bool is_v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)address->host);
    inet_ntop(is_v4 ? AF_INET : AF_INET6, address->host + (is_v4 ? 12 : 0), host, sizeof host);
    snprintf(listener, sizeof listener, "%s port %d", host, address->port);
    PGASI_INFO("watch", "listens at %s", listener);
}

pgas_status_t pgasi_links_listen(pgasi_address_t *address)
{
    struct sockaddr_storage at;
    address->port = 0;
    socklen_t bytes = to_sockaddr(address, &at);
    listen_fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool good = listen_fd >= 0 && bind(listen_fd, (const void *)&at, bytes) == 0 &&
                listen(listen_fd, BACKLOG) == 0 && getsockname(listen_fd, (void *)&at, &bytes) == 0;
    if (!good) {
        int error = errno;
        PGASI_INFO("watch", "cannot listen: %s", strerror(error));
        if (listen_fd >= 0)
            close(listen_fd);
        listen_fd = -1;
        return PGAS_ERR_IO;
    }
    address->port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                                  : ((struct sockaddr_in6 *)&at)->sin6_port);
    describe(address);
    return PGAS_OK;
}

const char *pgasi_links_listener(void)
{
    return listener;
}

static void listen_on(bool on)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = PGASI_LINKS_EVENT };
    epoll_ctl(epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, listen_fd, &event);
}

static void watch(const connection_t *c, int how)
{
    bool writes = c->state == DIALLING || c->out_bytes > 0, reads = c->state != CLOSING;
    struct epoll_event event = { .events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u),
                                 .data.u64 = PGASI_LINKS_EVENT | c->id };
    epoll_ctl(epoll_fd, how, c->fd, &event);
}

static connection_t *add(int fd, int rank)
{
    connection_t *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    n_ids = n_ids % INT32_MAX + 1; /* 0 is the listener */
    c->id = n_ids;
    c->fd = fd;
    c->rank = rank;
    c->limit_ns = c->due_ns = UINT64_MAX;
    c->next = connections;
    connections = c;
    return c;
}

static connection_t *find(uint32_t id)
{
    connection_t *c = connections;
    while (c && c->id != id)
        c = c->next;
    return c;
}

/* The rest is freed by sweep. */
static void shut(connection_t *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->state = CLOSED;
}

static void sweep(void)
{
    for (connection_t **at = &connections; *at;) {
        connection_t *c = *at;
        if (c->state != CLOSED) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        free(c->out);
        free(c);
    }
}

static void push(connection_t *c)
{
    size_t sent = 0;
    bool broken = false; /* a read will report it */
    while (sent < c->out_bytes && !broken) {
        ssize_t n = send(c->fd, c->out + sent, c->out_bytes - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            break;
        broken = n <= 0;
        sent += broken ? 0 : (size_t)n;
    }
    c->out_bytes -= sent;
    if (c->out_bytes > 0)
        memmove(c->out, c->out + sent, c->out_bytes);
    if (c->state == CLOSING && (broken || c->out_bytes == 0))
        shut(c);
    else
        watch(c, EPOLL_CTL_MOD);
}

static void say(connection_t *c, int kind, int value)
{
    record_t record = { RECORD_MAGIC, (uint16_t)kind, 0, pgasi_boot.rank, value, 0 };
    if (kind == HELLO || kind == WELCOME)
        record.proof = proof(kind, pgasi_boot.rank, c->rank);
    if (c->out_bytes + sizeof record > c->out_room) {
        size_t room = 2 * c->out_room + 4 * sizeof record;
        char *out = realloc(c->out, room);
        if (!out)
            return; /* this link loses the news; another link may carry it */
        c->out = out;
        c->out_room = room;
    }
    memcpy(c->out + c->out_bytes, &record, sizeof record);
    c->out_bytes += sizeof record;
    push(c);
}

/* ---- dialling ---- */

static void wait_to_retry(connection_t *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->in_bytes = c->out_bytes = 0;
    c->state = WAITING;
    c->due_ns = pgasi_now_ns() + RETRY_NS;
}

/* A dial ended with an error. The ring decides what that proves. */
static void dial_failed(connection_t *c, int error)
{
    int rank = c->rank;
    bool over = pgasi_now_ns() >= c->limit_ns;
    if (is_full(error)) {
        warn_full(error);
        c->limit_ns = pgasi_now_ns() + patience_ns(); /* this proves nothing about the peer */
        wait_to_retry(c);
    } else if (error == ECONNREFUSED) {
        shut(c);
        pgasi_ring_refused(ring, rank);
    } else if (over) {
        shut(c);
        pgasi_ring_silent(ring, rank);
    } else {
        wait_to_retry(c);
    }
}

static void connect_now(connection_t *c)
{
    struct sockaddr_storage to;
    socklen_t bytes = to_sockaddr(&addresses[c->rank], &to);
    c->due_ns = UINT64_MAX;
    c->state = DIALLING;
    c->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        dial_failed(c, errno);
        return;
    }
    set_options(c->fd);
    if (connect(c->fd, (const void *)&to, bytes) != 0 && errno != EINPROGRESS)
        dial_failed(c, errno);
    else
        watch(c, EPOLL_CTL_ADD);
}

static void dial(void *arg, int rank)
{
    (void)arg;
    for (const connection_t *c = connections; c; c = c->next)
        if (c->dialled && c->rank == rank &&
            (c->state == WAITING || c->state == DIALLING || c->state == GREETED))
            return;
    connection_t *c = add(-1, rank);
    if (!c) {
        warn_full(ENOMEM);
        return;
    }
    c->dialled = true;
    c->limit_ns = pgasi_now_ns() + patience_ns();
    c->state = WAITING;
    c->due_ns = pgasi_now_ns(); /* the timers dial: the caller is in the middle of a decision */
}

bool pgasi_links_closed(void)
{
    for (const connection_t *c = connections; c; c = c->next)
        if (c->dialled && c->state == LINKED && c->rank == ring->next)
            return true;
    return ring->next < 0;
}

/* Some process has accepted the connection. Only a link to the next rank is kept. */
static void connected(connection_t *c)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error) {
        dial_failed(c, error);
        return;
    }
    if (c->rank != ring->next || pgasi_links_closed()) {
        shut(c);
        return;
    }
    c->state = GREETED;
    c->limit_ns = UINT64_MAX; /* no limit: the peer may be stopped */
    say(c, HELLO, 0);
}

/* ---- reading ---- */

static void ended(connection_t *c, int error)
{
    int state = c->state;
    if (state == GREETED && !is_silence(error) && ++c->n_drops < DROPS_MAX) {
        c->limit_ns = pgasi_now_ns() + patience_ns();
        wait_to_retry(c);
        return;
    }
    shut(c);
    if (state == LINKED)
        pgasi_ring_lost(ring, (int)c->id, is_silence(error));
    else if (state == GREETED && is_silence(error))
        pgasi_ring_silent(ring, c->rank);
    else if (state == GREETED)
        pgasi_ring_refused(ring, c->rank);
}

/* The rank dials again because it has lost a connection whose end has not arrived here yet. */
static void drop_older(const connection_t *c)
{
    for (connection_t *old = connections; old; old = old->next) {
        if (old == c || old->dialled || old->rank != c->rank || old->state != LINKED)
            continue;
        shut(old);
        pgasi_ring_lost(ring, (int)old->id, false);
    }
}

static void become_link(connection_t *c)
{
    c->state = LINKED;
    c->limit_ns = UINT64_MAX;
    pgasi_ring_linked(ring, (int)c->id, c->rank);
}

static bool greet_stranger(connection_t *c, const record_t *record)
{
    bool known = record->kind == HELLO && record->from >= 0 && record->from < pgasi_boot.n_ranks &&
                 record->proof == proof(HELLO, record->from, pgasi_boot.rank);
    if (!known)
        return false;
    c->rank = record->from;
    say(c, WELCOME, 0);
    drop_older(c);
    become_link(c);
    return true;
}

/* @return false: the record is invalid */
static bool handle(connection_t *c, const record_t *record)
{
    if (record->magic != RECORD_MAGIC)
        return false;
    if (c->state == STRANGER)
        return greet_stranger(c, record);
    if (c->state == GREETED) {
        if (record->kind != WELCOME || record->proof != proof(WELCOME, c->rank, pgasi_boot.rank))
            return false;
        become_link(c);
        return true;
    }
    bool is_number = record->kind == NEWS + PGASI_RING_REPORT;
    if (record->kind >= NEWS && record->kind < NEWS + PGASI_N_RING_NEWS && record->value >= 0 &&
        (is_number || record->value < pgasi_boot.n_ranks))
        pgasi_ring_told(ring, (int)c->id, (pgasi_ring_news_t)(record->kind - NEWS), record->value);
    else if (record->kind == BYE)
        pgasi_ring_bye(ring, (int)c->id);
    else if (record->kind == ABORT)
        pgasi_watch_told_abort(c->rank, record->value);
    else
        return false;
    return true;
}

static void read_some(connection_t *c)
{
    while (c->fd >= 0 && c->state != CLOSING) {
        ssize_t n = recv(c->fd, c->in + c->in_bytes, sizeof c->in - c->in_bytes, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            ended(c, n < 0 ? errno : 0);
            return;
        }
        c->in_bytes += (size_t)n;
        if (c->in_bytes < sizeof c->in)
            continue;
        record_t record;
        memcpy(&record, c->in, sizeof record);
        c->in_bytes = 0;
        if (!handle(c, &record)) {
            ended(c, 0);
            return;
        }
    }
}

/* ---- strangers ---- */

static void drop_oldest_stranger(void)
{
    connection_t *oldest = NULL;
    int n = 0;
    for (connection_t *c = connections; c; c = c->next) { /* newest first */
        if (c->state != STRANGER)
            continue;
        oldest = c;
        n++;
    }
    if (n > STRANGERS_MAX)
        shut(oldest);
}

/* Accepts a limited number at a time, so that a flood of strangers does not delay the links. */
static void accept_some(void)
{
    for (int i = 0; i < STRANGERS_MAX; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (is_full(errno)) {
                warn_full(errno);
                listen_on(false); /* a readable listener would make epoll spin */
                deaf = true;
            }
            return;
        }
        set_options(fd);
        connection_t *c = add(fd, -1);
        if (!c) {
            close(fd);
            return;
        }
        c->state = STRANGER;
        c->limit_ns = pgasi_now_ns() + STRANGER_NS;
        watch(c, EPOLL_CTL_ADD);
        read_some(c); /* a rank sends its greeting at once */
        drop_oldest_stranger();
    }
}

void pgasi_links_event(uint64_t data)
{
    uint32_t id = (uint32_t)data;
    connection_t *c = find(id);
    if (id == 0) {
        accept_some();
    } else if (c && c->fd >= 0) {
        if (c->state == DIALLING)
            connected(c);
        if (c->fd >= 0 && c->out_bytes > 0)
            push(c);
        if (c->fd >= 0 && c->state != DIALLING)
            read_some(c);
    }
    sweep();
}

/* A rank that was stopped, or has no thread that watches and computes, comes late: its own silence
 * proves nothing. */
static void try_when_due(connection_t *c, uint64_t now)
{
    if (now < c->due_ns)
        return;
    if (now - c->due_ns > LATE_NS)
        c->limit_ns = now + patience_ns();
    connect_now(c);
}

/* The answer may be there, and its event not yet. */
static void dial_is_late(connection_t *c)
{
    struct pollfd end = { .fd = c->fd, .events = POLLOUT };
    if (poll(&end, 1, 0) > 0)
        connected(c);
    else
        dial_failed(c, ETIMEDOUT);
}

uint64_t pgasi_links_timers(void)
{
    uint64_t now = pgasi_now_ns(), next = UINT64_MAX;
    if (deaf)
        listen_on(true);
    deaf = false;
    for (connection_t *c = connections; c; c = c->next)
        if (c->state == WAITING)
            try_when_due(c, now);
        else if (c->state == DIALLING && now >= c->limit_ns)
            dial_is_late(c);
        else if (c->state != CLOSED && now >= c->limit_ns)
            shut(c);
    sweep();
    for (const connection_t *c = connections; c; c = c->next)
        next = PGASI_MIN(next, c->state == WAITING ? c->due_ns : c->limit_ns);
    return next;
}

/* ---- of the ring ---- */

static void tell(void *arg, int link, pgasi_ring_news_t what, int value)
{
    (void)arg;
    connection_t *c = find((uint32_t)link);
    if (c && c->fd >= 0)
        say(c, NEWS + (int)what, value);
}

static void hang_up(void *arg, int link)
{
    (void)arg;
    connection_t *c = find((uint32_t)link);
    if (!c || c->fd < 0)
        return;
    c->state = CLOSING;
    c->limit_ns = pgasi_now_ns() + CLOSING_NS;
    push(c);
}

const pgasi_ring_ops_t pgasi_links_ops = { dial, tell, hang_up, pgasi_watch_died,
                                           pgasi_watch_told_report };

/* ---- begin, end, and messages of watch.c ---- */

void pgasi_links_begin(int epoll, pgasi_ring_t *of, const pgasi_address_t *all)
{
    epoll_fd = epoll;
    ring = of;
    addresses = all;
    listen_on(true);
}

void pgasi_links_end(void)
{
    for (connection_t *c = connections; c; c = c->next)
        shut(c);
    sweep();
    if (listen_fd >= 0)
        close(listen_fd);
    listen_fd = epoll_fd = -1;
    deaf = false;
    ring = NULL;
    addresses = NULL;
}

/* Includes links that the peer has not confirmed yet: it accepts them when it reads the
 * greeting. */
static void say_to_all(int kind, int value)
{
    for (connection_t *c = connections; c; c = c->next)
        if (c->state == LINKED || c->state == GREETED)
            say(c, kind, value);
}

void pgasi_links_forked(void)
{
    for (const connection_t *c = connections; c; c = c->next)
        if (c->fd >= 0)
            close(c->fd);
    if (listen_fd >= 0)
        close(listen_fd);
}

void pgasi_links_say_bye(void)
{
    say_to_all(BYE, 0);
}

void pgasi_links_say_abort(int exit_code)
{
    say_to_all(ABORT, exit_code);
}

int pgasi_links_count(void)
{
    int n = 0;
    for (const connection_t *c = connections; c; c = c->next)
        n += c->fd >= 0;
    return n;
}
