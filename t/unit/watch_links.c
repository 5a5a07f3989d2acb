/* what: A dial of the service ring always ends with an answer, and the answer is true of the other
 *       rank, also if this process polls late.
 * source: src/boot/links.c, ring.h */
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/param.h"
#include "boot/watch.h"
#include "t/tap.h"

#define TIMEOUT_NS UINT64_C(1000000000)

static const pgasi_address_t loopback = {
    { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1 }, 0, 104
};

static pgasi_ring_t ring;
static pgasi_ring_ops_t ops;
static pgasi_address_t addresses[2];
static const int host_of[2] = { 0, 1 };
static int epoll_fd, n_died;
static pgasi_ring_cause_t why;

static void on_died(void *arg, int rank, pgasi_ring_cause_t cause)
{
    (void)arg, (void)rank;
    n_died++;
    why = cause;
}

/* A listener in place of rank 1: no thread reads there, but the kernel accepts. */
static int listen_for(pgasi_address_t *address)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (void *)&at, bytes) != 0 || listen(fd, 8) != 0)
        bail("no listener");
    getsockname(fd, (void *)&at, &bytes);
    address->port = ntohs(at.sin_port);
    return fd;
}

/* This is rank 0, and rank 1 is dialled at its address. */
static void begin(void)
{
    n_died = 0;
    addresses[0] = loopback;
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pgasi_links_listen(&addresses[0]);
    pgasi_ring_init(&ring, 0, 2, host_of, &ops, NULL);
    pgasi_links_begin(epoll_fd, &ring, addresses, NULL);
    pgasi_ring_start(&ring);
    pgasi_links_timers();
}

static void end(void)
{
    pgasi_links_end();
    pgasi_ring_fini(&ring);
    close(epoll_fd);
}

static void look(void)
{
    struct epoll_event events[8];
    int n = epoll_wait(epoll_fd, events, 8, 0);
    for (int i = 0; i < n; i++)
        pgasi_links_event(events[i].data.u64);
    pgasi_links_timers();
}

/* As a process does that is stopped, or that computes without a thread that watches. */
static void stay_away(void)
{
    uint64_t until = pgasi_now_ns() + TIMEOUT_NS * 5 / 4;
    while (pgasi_now_ns() < until) {
    }
}

static void come_late_for_an_answer(void)
{
    addresses[1] = loopback;
    int fd = listen_for(&addresses[1]);
    begin();
    stay_away();
    pgasi_links_timers();
    is_int(n_died, 0,
           "a dial that was answered has not failed, though its event was not seen in time");
    end();
    close(fd);
}

/* The kernel has no room for further connections: it leaves them unanswered. */
static int fill(int fd)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int crowd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    getsockname(fd, (void *)&at, &bytes);
    if (listen(fd, 0) != 0 || connect(crowd, (void *)&at, bytes) != 0)
        bail("no crowd");
    return crowd;
}

/* The peer ends the greeting, and the next dial is due while this process is away. */
static void come_late_for_a_dial(void)
{
    addresses[1] = loopback;
    int fd = listen_for(&addresses[1]);
    begin();
    int accepted = accept(fd, NULL, NULL);
    look();
    close(accepted);
    for (int i = 0; i < 1000; i++)
        look();
    int crowd = fill(fd);
    stay_away();
    for (int i = 0; i < 1000; i++)
        look();
    is_int(n_died, 0, "a dial that begins late has time");
    end();
    close(crowd);
    close(fd);
}

/* Dials fail at once; the time limit passes between two of them, and a check runs at that
 * moment. */
static void find_no_way(void)
{
    uint64_t guard = pgasi_now_ns() + 10 * TIMEOUT_NS;
    addresses[1] = loopback;
    addresses[1].host[12] = 224; /* TCP reaches no group */
    addresses[1].port = 9;
    begin();
    while (n_died == 0 && pgasi_now_ns() < guard)
        look();
    ok(n_died == 1 && why == PGASI_RING_SILENT,
       "without any way to a rank it is silent in the end");
    end();
}

int main(void)
{
    plan(3);
    ops = pgasi_links_ops;
    ops.died = on_died;
    pgasi_boot.rank = 0;
    pgasi_boot.n_ranks = 2;
    pgasi_param.peer_timeout_s = 1;
    come_late_for_an_answer();
    come_late_for_a_dial();
    find_no_way();
    return done();
}
