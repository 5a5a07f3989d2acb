/* The links of the service ring: a listener, connections to other ranks, and records on them.
 *
 * The end of a process is noticed at once: its kernel closes its connections and refuses new ones.
 * socket.c detects the silence of a host.
 *
 * The connecting side must prove that it knows the job key. Until then it is a stranger: it may
 * send one record within STRANGER_NS. With more than STRANGERS_MAX strangers the oldest one is
 * dropped. The job key itself is never sent, because another program may now own the port of a dead
 * rank. */
#include "boot/watch.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/connection.h"

#define RECORD_MAGIC  0x67617031u
#define STRANGERS_MAX 16
#define BACKLOG       1024 /* the kernel accepts for a stopped process until it is full */
#define STRANGER_NS   (5 * PGASI_NS_PER_S)
#define CLOSING_NS    PGASI_NS_PER_S
#define RETRY_NS      (100 * PGASI_NS_PER_MS)
#define LATE_NS       PGASI_NS_PER_S
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
PGASI_STATIC_ASSERT(sizeof(record_t) == PGASI_RECORD_BYTES, "a connection reads whole records");

static struct {
    pgasi_connections_t open; /* also connections that wait for the next dial */
    int listen_fd;
    char listener[64];
    pgasi_ring_t *ring;
    const pgasi_address_t *addresses;
    void (*aborted)(int rank, int exit_code);
    bool deaf; /* no descriptors: the listener is not polled until the timers run */
    int warned_full;
} links = { .open.epoll_fd = -1, .listen_fd = -1 };

static uint64_t patience_ns(void)
{
    return (uint64_t)pgasi_param.peer_timeout_s * PGASI_NS_PER_S;
}

/* Each step of the hash can be inverted, so the key is mixed in at the beginning and at the end.
 * Then the proof does not reveal the key. */
static uint64_t proof(int kind, int from, int to)
{
    uint64_t key = pgasi_boot.job_key, sum = pgasi_hash_combine(key, (uint64_t)kind);
    sum = pgasi_hash_combine(pgasi_hash_combine(sum, (uint64_t)from), (uint64_t)to);
    return pgasi_hash_combine(sum, key);
}

/* ---- sockets ---- */

static void warn_full(int error)
{
    pgasi_warn_once(&links.warned_full, "watch",
                    "no descriptor or memory for a connection (%s): raise ulimit -n; until then "
                    "deaths on other hosts may be noticed late",
                    strerror(error));
}

pgas_status_t pgasi_links_listen(pgasi_address_t *address)
{
    links.listen_fd = pgasi_socket_listen(address, BACKLOG, links.listener, sizeof links.listener);
    return links.listen_fd >= 0 ? PGAS_OK : PGAS_ERR_IO;
}

const char *pgasi_links_listener(void)
{
    return links.listener;
}

static void listen_on(bool on)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = PGASI_LINKS_EVENT };
    epoll_ctl(links.open.epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, links.listen_fd, &event);
}

static void say(pgasi_connection_t *c, int kind, int value)
{
    record_t record = { RECORD_MAGIC, (uint16_t)kind, 0, pgasi_boot.rank, value, 0 };
    if (kind == HELLO || kind == WELCOME)
        record.proof = proof(kind, pgasi_boot.rank, c->rank);
    pgasi_connection_send(&links.open, c, &record, sizeof record);
}

/* ---- dialling ---- */

static void wait_to_retry(pgasi_connection_t *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
    c->in_bytes = c->out_bytes = 0;
    c->state = PGASI_WAITING;
    c->due_ns = pgasi_now_ns() + RETRY_NS;
}

/* A dial ended with an error. The ring decides whether that proves a death. */
static void dial_failed(pgasi_connection_t *c, int error)
{
    int rank = c->rank;
    bool over = pgasi_now_ns() >= c->limit_ns;
    if (pgasi_socket_is_full(error)) {
        warn_full(error);
        c->limit_ns = pgasi_now_ns() + patience_ns(); /* this says nothing about the peer */
        wait_to_retry(c);
    } else if (error == ECONNREFUSED) {
        pgasi_connection_close(c);
        pgasi_ring_refused(links.ring, rank);
    } else if (over) {
        pgasi_connection_close(c);
        pgasi_ring_silent(links.ring, rank);
    } else {
        wait_to_retry(c);
    }
}

static void connect_now(pgasi_connection_t *c)
{
    struct sockaddr_storage to;
    socklen_t bytes = pgasi_socket_address(&links.addresses[c->rank], &to);
    c->due_ns = UINT64_MAX;
    c->state = PGASI_DIALLING;
    c->fd = socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        dial_failed(c, errno);
        return;
    }
    pgasi_socket_set_options(c->fd);
    if (connect(c->fd, (const void *)&to, bytes) != 0 && errno != EINPROGRESS)
        dial_failed(c, errno);
    else
        pgasi_connection_poll(&links.open, c, EPOLL_CTL_ADD);
}

static void dial(void *arg, int rank)
{
    (void)arg;
    for (const pgasi_connection_t *c = links.open.first; c; c = c->next)
        if (c->dialled && c->rank == rank &&
            (c->state == PGASI_WAITING || c->state == PGASI_DIALLING || c->state == PGASI_GREETED))
            return;
    pgasi_connection_t *c = pgasi_connection_add(&links.open, -1, rank);
    if (!c) {
        warn_full(ENOMEM);
        return;
    }
    c->dialled = true;
    c->limit_ns = pgasi_now_ns() + patience_ns();
    c->state = PGASI_WAITING;
    c->due_ns = pgasi_now_ns(); /* the timers dial: the caller is in the middle of a decision */
}

bool pgasi_links_closed(void)
{
    for (const pgasi_connection_t *c = links.open.first; c; c = c->next)
        if (c->dialled && c->state == PGASI_LINKED && c->rank == links.ring->next)
            return true;
    return links.ring->next < 0;
}

/* Some process has accepted the connection. Only a link to the next rank is kept. */
static void connected(pgasi_connection_t *c)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error) {
        dial_failed(c, error);
        return;
    }
    if (c->rank != links.ring->next || pgasi_links_closed()) {
        pgasi_connection_close(c);
        return;
    }
    c->state = PGASI_GREETED;
    c->limit_ns = UINT64_MAX; /* no limit: the peer may be stopped */
    say(c, HELLO, 0);
}

/* ---- reading ---- */

static void ended(pgasi_connection_t *c, int error)
{
    int state = c->state;
    if (state == PGASI_GREETED && !pgasi_socket_is_silence(error) && ++c->n_drops < DROPS_MAX) {
        c->limit_ns = pgasi_now_ns() + patience_ns();
        wait_to_retry(c);
        return;
    }
    pgasi_connection_close(c);
    if (state == PGASI_LINKED)
        pgasi_ring_lost(links.ring, (int)c->id, pgasi_socket_is_silence(error));
    else if (state == PGASI_GREETED && pgasi_socket_is_silence(error))
        pgasi_ring_silent(links.ring, c->rank);
    else if (state == PGASI_GREETED)
        pgasi_ring_refused(links.ring, c->rank);
}

/* The rank dials again because it has lost a connection whose end has not arrived here yet. */
static void drop_older(const pgasi_connection_t *c)
{
    for (pgasi_connection_t *old = links.open.first; old; old = old->next) {
        if (old == c || old->dialled || old->rank != c->rank || old->state != PGASI_LINKED)
            continue;
        pgasi_connection_close(old);
        pgasi_ring_lost(links.ring, (int)old->id, false);
    }
}

static void become_link(pgasi_connection_t *c)
{
    c->state = PGASI_LINKED;
    c->limit_ns = UINT64_MAX;
    pgasi_ring_linked(links.ring, (int)c->id, c->rank);
}

static bool greet_stranger(pgasi_connection_t *c, const record_t *record)
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
static bool handle(pgasi_connection_t *c, const record_t *record)
{
    if (record->magic != RECORD_MAGIC)
        return false;
    if (c->state == PGASI_STRANGER)
        return greet_stranger(c, record);
    if (c->state == PGASI_GREETED) {
        if (record->kind != WELCOME || record->proof != proof(WELCOME, c->rank, pgasi_boot.rank))
            return false;
        become_link(c);
        return true;
    }
    bool is_number = record->kind == NEWS + PGASI_RING_REPORT;
    if (record->kind >= NEWS && record->kind < NEWS + PGASI_N_RING_NEWS && record->value >= 0 &&
        (is_number || record->value < pgasi_boot.n_ranks))
        pgasi_ring_received(links.ring, (int)c->id, (pgasi_ring_news_t)(record->kind - NEWS),
                            record->value);
    else if (record->kind == BYE)
        pgasi_ring_bye(links.ring, (int)c->id);
    else if (record->kind == ABORT)
        links.aborted(c->rank, record->value);
    else
        return false;
    return true;
}

static void read_some(pgasi_connection_t *c)
{
    while (c->fd >= 0 && c->state != PGASI_CLOSING) {
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
    pgasi_connection_t *oldest = NULL;
    int n = 0;
    for (pgasi_connection_t *c = links.open.first; c; c = c->next) { /* newest first */
        if (c->state != PGASI_STRANGER)
            continue;
        oldest = c;
        n++;
    }
    if (n > STRANGERS_MAX)
        pgasi_connection_close(oldest);
}

/* Accepts a limited number at a time, so that a flood of strangers does not delay the links. */
static void accept_some(void)
{
    for (int i = 0; i < STRANGERS_MAX; i++) {
        int fd = accept4(links.listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (pgasi_socket_is_full(errno)) {
                warn_full(errno);
                listen_on(false); /* a readable listener would make epoll return at once */
                links.deaf = true;
            }
            return;
        }
        pgasi_socket_set_options(fd);
        pgasi_connection_t *c = pgasi_connection_add(&links.open, fd, -1);
        if (!c) {
            close(fd);
            return;
        }
        c->state = PGASI_STRANGER;
        c->limit_ns = pgasi_now_ns() + STRANGER_NS;
        pgasi_connection_poll(&links.open, c, EPOLL_CTL_ADD);
        read_some(c); /* a rank sends its greeting at once */
        drop_oldest_stranger();
    }
}

void pgasi_links_event(uint64_t data)
{
    uint32_t id = (uint32_t)data;
    pgasi_connection_t *c = pgasi_connection_find(&links.open, id);
    if (id == 0) {
        accept_some();
    } else if (c && c->fd >= 0) {
        if (c->state == PGASI_DIALLING)
            connected(c);
        if (c->fd >= 0 && c->out_bytes > 0)
            pgasi_connection_push(&links.open, c);
        if (c->fd >= 0 && c->state != PGASI_DIALLING)
            read_some(c);
    }
    pgasi_connections_sweep(&links.open);
}

/* A rank that was stopped, or that computes without a watch thread, polls late: its own silence
 * proves nothing. */
static void try_when_due(pgasi_connection_t *c, uint64_t now)
{
    if (now < c->due_ns)
        return;
    if (now - c->due_ns > LATE_NS)
        c->limit_ns = now + patience_ns();
    connect_now(c);
}

/* The answer may have arrived before its event. */
static void dial_is_late(pgasi_connection_t *c)
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
    if (links.deaf)
        listen_on(true);
    links.deaf = false;
    for (pgasi_connection_t *c = links.open.first; c; c = c->next)
        if (c->state == PGASI_WAITING)
            try_when_due(c, now);
        else if (c->state == PGASI_DIALLING && now >= c->limit_ns)
            dial_is_late(c);
        else if (c->state != PGASI_CLOSED && now >= c->limit_ns)
            pgasi_connection_close(c);
    pgasi_connections_sweep(&links.open);
    for (const pgasi_connection_t *c = links.open.first; c; c = c->next)
        next = PGASI_MIN(next, c->state == PGASI_WAITING ? c->due_ns : c->limit_ns);
    return next;
}

/* ---- of the ring ---- */

static void send_news(void *arg, int link, pgasi_ring_news_t what, int value)
{
    (void)arg;
    pgasi_connection_t *c = pgasi_connection_find(&links.open, (uint32_t)link);
    if (c && c->fd >= 0)
        say(c, NEWS + (int)what, value);
}

static void hang_up(void *arg, int link)
{
    (void)arg;
    pgasi_connection_t *c = pgasi_connection_find(&links.open, (uint32_t)link);
    if (!c || c->fd < 0)
        return;
    c->state = PGASI_CLOSING;
    c->limit_ns = pgasi_now_ns() + CLOSING_NS;
    pgasi_connection_push(&links.open, c);
}

const pgasi_ring_ops_t pgasi_links_ops = { .dial = dial, .send = send_news, .hang_up = hang_up };

/* ---- begin, end, and messages of the watch ---- */

void pgasi_links_begin(int epoll_fd, pgasi_ring_t *ring, const pgasi_address_t *addresses,
                       void (*aborted)(int rank, int exit_code))
{
    links.open.epoll_fd = epoll_fd;
    links.ring = ring;
    links.addresses = addresses;
    links.aborted = aborted;
    listen_on(true);
}

void pgasi_links_end(void)
{
    for (pgasi_connection_t *c = links.open.first; c; c = c->next)
        pgasi_connection_close(c);
    pgasi_connections_sweep(&links.open);
    if (links.listen_fd >= 0)
        close(links.listen_fd);
    links.listen_fd = links.open.epoll_fd = -1;
    links.deaf = false;
    links.ring = NULL;
    links.addresses = NULL;
}

/* Includes links that the peer has not confirmed yet: it accepts them when it reads the
 * greeting. */
static void say_to_all(int kind, int value)
{
    for (pgasi_connection_t *c = links.open.first; c; c = c->next)
        if (c->state == PGASI_LINKED || c->state == PGASI_GREETED)
            say(c, kind, value);
}

void pgasi_links_forked(void)
{
    for (const pgasi_connection_t *c = links.open.first; c; c = c->next)
        if (c->fd >= 0)
            close(c->fd);
    if (links.listen_fd >= 0)
        close(links.listen_fd);
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
    for (const pgasi_connection_t *c = links.open.first; c; c = c->next)
        n += c->fd >= 0;
    return n;
}
