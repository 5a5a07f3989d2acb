/* Opens descriptors of other processes through /proc/PID/fd and verifies them: memory of keys, and
 * the event pipes of completion queues. */
#include "verbs_backend/snic/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A spare descriptor. When descriptors have run out, it is closed for a moment. Then a sleeping
 * peer can still be woken, and its memory be mapped. */
static struct {
    pthread_mutex_t lock;
    int n_users; /* devices of this process */
    int fd;
} spare = { PTHREAD_MUTEX_INITIALIZER, 0, -1 };

static pthread_once_t forks = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&spare.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&spare.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

void pgasi_snic_take_spare(void)
{
    pthread_once(&forks, watch_forks);
    pthread_mutex_lock(&spare.lock);
    if (spare.n_users++ == 0)
        spare.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&spare.lock);
}

void pgasi_snic_give_spare(void)
{
    pthread_mutex_lock(&spare.lock);
    if (--spare.n_users == 0 && spare.fd >= 0)
        close(spare.fd);
    spare.fd = spare.n_users == 0 ? -1 : spare.fd;
    pthread_mutex_unlock(&spare.lock);
}

int pgasi_snic_open_verified(uint32_t pid, int theirs, int flags, mode_t kind, uint64_t bytes_min,
                             uint64_t bytes_max)
{
    char path[64];
    struct stat before, after;
    snprintf(path, sizeof path, "/proc/%u/fd/%d", pid, theirs);
    if (stat(path, &before) != 0)
        return -1;
    int fd = -1;
    if ((before.st_mode & S_IFMT) == kind && before.st_uid == geteuid())
        fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    else
        errno = EBADF;
    if (fd < 0)
        return -1;
    bool good = fstat(fd, &after) == 0 && after.st_dev == before.st_dev &&
                after.st_ino == before.st_ino &&
                (kind != S_IFREG || pgasi_snic_is_memory(fd, bytes_min, bytes_max));
    if (good)
        return fd;
    close(fd);
    errno = EBADF;
    return -1;
}

int pgasi_snic_open_theirs(const snic_view_t *view, int theirs, int flags, mode_t kind,
                           uint64_t bytes_min, bool *spared_p)
{
    int fd = pgasi_snic_open_verified(view->id.pid, theirs, flags, kind, bytes_min, UINT64_MAX);
    *spared_p = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (*spared_p) {
        pthread_mutex_lock(&spare.lock);
        if (spare.fd >= 0)
            close(spare.fd);
        fd = pgasi_snic_open_verified(view->id.pid, theirs, flags, kind, bytes_min, UINT64_MAX);
    }
    return fd;
}

void pgasi_snic_close_theirs(int fd, bool spared)
{
    if (fd >= 0)
        close(fd);
    if (spared) {
        spare.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        pthread_mutex_unlock(&spare.lock);
    }
}

/* A pipe can be opened again through its descriptor. It is opened for reading too, so that a write
 * raises no signal after its owner has closed it. */
void pgasi_snic_view_event(snic_view_t *view, int fd, uint32_t serial)
{
    static const char byte = 1;
    bool spared = false;
    pthread_mutex_lock(&view->map_lock);
    uint32_t n = PGASI_MIN(view->n_events, (uint32_t)PGASI_ARRAY_LENGTH(view->events)), i = 0;
    while (i < n && view->events[i].theirs != fd)
        i++;
    if (i == n)
        i = view->n_events++ % PGASI_ARRAY_LENGTH(view->events);
    if (view->events[i].ours < 0 || view->events[i].theirs != fd ||
        view->events[i].serial != serial) {
        if (view->events[i].ours >= 0)
            close(view->events[i].ours);
        view->events[i].theirs = fd;
        view->events[i].serial = serial;
        view->events[i].ours = pgasi_snic_open_theirs(view, fd, O_RDWR, S_IFIFO, 0, &spared);
    }
    ssize_t written = write(view->events[i].ours, &byte, 1);
    /* A full pipe is readable, too. A pipe that cannot be opened belongs to a dead process. */
    (void)written;
    if (spared) {
        pgasi_snic_close_theirs(view->events[i].ours, true);
        view->events[i].ours = -1;
    }
    pthread_mutex_unlock(&view->map_lock);
}
