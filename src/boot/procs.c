/* The processes of the other ranks of this host, each watched by a pidfd in the watch's epoll. A
 * process that has none (an old kernel, no descriptor left) is checked once a second instead. */
#include "boot/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"

#define NO_PIDFD    (-1)
#define NOT_WATCHED (-2)

static struct {
    int epoll_fd;
    int *fds; /* [host_ranks] */
    int n_by_fd, n_polled;
} procs;

bool pgasi_procs_init(void)
{
    procs.fds = malloc((size_t)pgasi_boot.host_ranks * sizeof *procs.fds);
    for (int i = 0; procs.fds && i < pgasi_boot.host_ranks; i++)
        procs.fds[i] = NOT_WATCHED;
    return procs.fds != NULL;
}

void pgasi_procs_fini(void)
{
    for (int i = 0; procs.fds && i < pgasi_boot.host_ranks; i++)
        if (procs.fds[i] >= 0)
            close(procs.fds[i]);
    free(procs.fds);
    procs.fds = NULL;
    procs.n_by_fd = procs.n_polled = 0;
}

static void watch_process(int i)
{
    static int warned;
    int fd = (int)syscall(SYS_pidfd_open, pgasi_boot.host_pids[i], 0);
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = (uint64_t)i };
    if (fd >= 0 && epoll_ctl(procs.epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) {
        procs.fds[i] = fd;
        procs.n_by_fd++;
        return;
    }
    int reason = errno;
    if (fd >= 0)
        close(fd);
    procs.fds[i] = NO_PIDFD;
    procs.n_polled++;
    if (reason == ESRCH)
        return; /* it has ended: the first poll reports it */
    pgasi_warn_once(&warned, "watch",
                    "cannot watch the process of rank %d by pidfd_open (%s): such processes are "
                    "checked once a second%s",
                    pgasi_boot.host_members[i], strerror(reason),
                    reason == EMFILE
                        ? "; a rank needs a descriptor for each rank of its host (ulimit -n)"
                        : "");
}

void pgasi_procs_watch(int epoll_fd)
{
    procs.epoll_fd = epoll_fd;
    for (int i = 0; i < pgasi_boot.host_ranks; i++)
        if (pgasi_boot.host_members[i] != pgasi_boot.rank && pgasi_boot.host_pids[i])
            watch_process(i);
}

/* @return its rank */
static int forget(int i)
{
    if (procs.fds[i] >= 0) {
        epoll_ctl(procs.epoll_fd, EPOLL_CTL_DEL, procs.fds[i], NULL);
        close(procs.fds[i]);
        procs.n_by_fd--;
    } else {
        procs.n_polled--;
    }
    procs.fds[i] = NOT_WATCHED;
    return pgasi_boot.host_members[i];
}

int pgasi_procs_event(uint64_t data)
{
    return procs.fds[data] >= 0 ? forget((int)data) : -1;
}

int pgasi_procs_poll(void)
{
    for (int i = 0; procs.n_polled > 0 && i < pgasi_boot.host_ranks; i++)
        if (procs.fds[i] == NO_PIDFD && kill(pgasi_boot.host_pids[i], 0) != 0 && errno == ESRCH)
            return forget(i);
    return -1;
}

int pgasi_procs_has_ended(int rank)
{
    for (int i = 0; i < pgasi_boot.host_ranks; i++) {
        struct pollfd end = { .fd = procs.fds[i], .events = POLLIN };
        if (pgasi_boot.host_members[i] == rank && procs.fds[i] >= 0)
            return poll(&end, 1, 0) > 0;
    }
    return -1;
}

void pgasi_procs_count(int *n_by_fd_p, int *n_polled_p)
{
    *n_by_fd_p = procs.n_by_fd;
    *n_polled_p = procs.n_polled;
}
