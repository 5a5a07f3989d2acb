/* The software NIC as a process of its own, one per node, user and name. It executes the queues of
 * all clients, also while they are stopped. It has two threads. One accepts clients on a socket and
 * sees them end, because a process that ends closes its socket. The other executes: it spins
 * briefly, then sleeps on a futex in memory that all clients map.
 *
 * A client passes its device memory when it joins, and receives the wakeup page. Both sides verify
 * the descriptor (socket.c), and neither waits for the other without a limit. The process drops a
 * client that sends nothing. A process without room reports that to each new client. */
#include "verbs_backend/snic/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/clock.h"

#define CLIENTS_MAX 1024
#define SPINS       50 /* some microseconds: a client may share the core */
#define YIELDS      50
#define BLOCKED_NS  1000000
#define IDLE_NS     100000000
#define SILENT_NS   UINT64_C(2000000000) /* for a client to join */
#define PAUSE_NS    UINT64_C(100000000)  /* pause of the listener when descriptors have run out */
#define BACKLOG     64
#define MS_NS       UINT64_C(1000000)

typedef struct {
    struct snic_wakeup *wakeup;
    int wakeup_fd, listener;
    int spare_fd; /* closed when descriptors have run out, to answer new clients */
    uint64_t began_ns;
    uint64_t closed_ns;   /* no client is accepted before this time */
    pthread_mutex_t lock; /* guards clients */
    struct {
        int fd;
        snic_view_t *view; /* NULL: the client has not joined yet */
        uint64_t came_ns;
    } clients[CLIENTS_MAX];
    int n_clients;
    bool stop;
} server_t;

static unsigned sweep(server_t *server, bool *work_p, bool *blocked_p)
{
    unsigned n = 0;
    *work_p = *blocked_p = false;
    pthread_mutex_lock(&server->lock);
    for (int i = 0; i < server->n_clients; i++) {
        snic_view_t *view = server->clients[i].view;
        if (!view)
            continue;
        n += pgasi_snic_run_once(view);
        *work_p |= __atomic_load_n(&view->devmem->work, __ATOMIC_SEQ_CST) != 0;
        *blocked_p |= __atomic_load_n(&view->devmem->blocked, __ATOMIC_ACQUIRE) != 0;
    }
    pgasi_snic_unmap_old();
    pthread_mutex_unlock(&server->lock);
    return n;
}

static void *execute(void *arg)
{
    server_t *server = arg;
    struct snic_wakeup *wakeup = server->wakeup;
    for (unsigned idle = 0; !__atomic_load_n(&server->stop, __ATOMIC_ACQUIRE);) {
        bool work, blocked;
        uint32_t seq = __atomic_load_n(&wakeup->seq, __ATOMIC_SEQ_CST);
        unsigned n = sweep(server, &work, &blocked);
        idle = n > 0 ? 0 : idle + 1;
        if (idle < SPINS) {
            pgasi_cpu_relax();
            continue;
        }
        if (idle < SPINS + YIELDS) {
            sched_yield();
            continue;
        }
        __atomic_store_n(&wakeup->sleeping, 1, __ATOMIC_SEQ_CST);
        /* a client that was run early may have got work from one that was run later */
        n = sweep(server, &work, &blocked);
        struct timespec nap = { .tv_nsec = blocked ? BLOCKED_NS : IDLE_NS };
        if (!work && n == 0)
            syscall(SYS_futex, &wakeup->seq, FUTEX_WAIT, seq, &nap, NULL, 0);
        __atomic_store_n(&wakeup->sleeping, 0, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void drop_client(server_t *server, int i)
{
    snic_view_t *view = server->clients[i].view;
    pthread_mutex_lock(&server->lock);
    close(server->clients[i].fd);
    if (view) {
        /* requests of its peers fail from now on */
        __atomic_store_n(&view->gone, true, __ATOMIC_RELEASE);
        for (uint32_t q = 0; q < SNIC_QPS; q++) {
            if (view->peers[q])
                pgasi_snic_view_put(view->peers[q]);
            view->peers[q] = NULL;
        }
        pgasi_snic_view_put(view);
    }
    server->clients[i] = server->clients[--server->n_clients];
    pthread_mutex_unlock(&server->lock);
}

static bool answer(const server_t *server, int socket, pgas_status_t status, int want, int fd)
{
    uint32_t n = 0;
    for (int i = 0; i < server->n_clients; i++)
        n += server->clients[i].view != NULL;
    const snic_answer_t text = { .magic = SNIC_MESSAGE_MAGIC,
                                 .status = status,
                                 .want = want,
                                 .pid = (uint32_t)getpid(),
                                 .n_clients = n,
                                 .n_clients_max = CLIENTS_MAX,
                                 .up_ns = pgasi_now_ns() - server->began_ns };
    return pgasi_snic_send_message(socket, &text, sizeof text, fd);
}

/* The kernel's pid of the client must be the one in its identity. The client passes its device
 * memory.
 * @return false: the client is dropped */
static bool join(server_t *server, int i, const pgasi_snic_id_t *id, int devmem_fd)
{
    int socket = server->clients[i].fd;
    pgas_status_t status = PGAS_ERR_INVALID;
    snic_view_t *view = NULL;
    if ((uint32_t)pgasi_snic_peer(socket) == id->pid && id->devmem_fd >= 0 && devmem_fd >= 0)
        view = pgasi_snic_view_by_fd(id, devmem_fd, &status);
    pthread_mutex_lock(&server->lock);
    server->clients[i].view = view;
    pthread_mutex_unlock(&server->lock);
    return answer(server, socket, status, SNIC_NOTHING, view != NULL ? server->wakeup_fd : -1) &&
           view;
}

/* A client has sent something, or has ended. @return false: it is dropped */
static bool handle_client(server_t *server, int i)
{
    snic_question_t question;
    int socket = server->clients[i].fd, fd;
    ssize_t n = pgasi_snic_receive_message(socket, &question, sizeof question, &fd);
    bool keep = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n < 0 && errno == EMFILE)
        answer(server, socket, PGAS_ERR_LIMIT, SNIC_NO_DESCRIPTORS, -1);
    if (n == (ssize_t)sizeof question && question.magic == SNIC_MESSAGE_MAGIC &&
        !server->clients[i].view) {
        if (question.kind == SNIC_JOIN)
            keep = join(server, i, &question.id, fd);
        else if (question.kind == SNIC_STATUS)
            answer(server, socket, PGAS_OK, SNIC_NOTHING, -1);
    }
    if (fd >= 0)
        close(fd);
    return keep;
}

/* @param limit_ns  drops clients that connected before this time and have not joined */
static bool drop_silent(server_t *server, uint64_t limit_ns)
{
    bool some = false;
    for (int i = server->n_clients - 1; i >= 0; i--) {
        if (!server->clients[i].view && server->clients[i].came_ns <= limit_ns) {
            drop_client(server, i);
            some = true;
        }
    }
    return some;
}

/* Informs a client why there is no room. The client's message is read first, because closing the
 * socket before would discard the answer. */
static void refuse_client(const server_t *server, int socket, int want)
{
    snic_question_t question;
    int fd;
    answer(server, socket, PGAS_ERR_LIMIT, want, -1);
    shutdown(socket, SHUT_RD);
    while (pgasi_snic_receive_message(socket, &question, sizeof question, &fd) > 0)
        if (fd >= 0)
            close(fd);
    close(socket);
}

/* When descriptors have run out, new clients wait in the listener's queue, and the listener stays
 * readable. Each of them is accepted with the spare descriptor and receives the reason. If that
 * fails too, the listener pauses for a moment. */
static void turn_away(server_t *server)
{
    if (server->spare_fd >= 0)
        close(server->spare_fd);
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        refuse_client(server, fd, SNIC_NO_DESCRIPTORS);
    else
        server->closed_ns = pgasi_now_ns() + PAUSE_NS;
    server->spare_fd = fcntl(server->listener, F_DUPFD_CLOEXEC, 0);
}

static void accept_client(server_t *server)
{
    uint64_t now_ns = pgasi_now_ns();
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE))
        turn_away(server);
    else if (fd < 0 && errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
        server->closed_ns = now_ns + PAUSE_NS;
    if (fd < 0)
        return;
    bool ours = pgasi_snic_peer(fd) > 0;
    bool room = ours && (server->n_clients < CLIENTS_MAX || drop_silent(server, now_ns));
    if (ours && !room) {
        refuse_client(server, fd, SNIC_TOO_MANY);
        return;
    }
    if (!ours) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&server->lock);
    server->clients[server->n_clients].fd = fd;
    server->clients[server->n_clients].view = NULL;
    server->clients[server->n_clients].came_ns = now_ns;
    server->n_clients++;
    pthread_mutex_unlock(&server->lock);
}

/* Milliseconds until a client has to be dropped or the pause of the listener ends, or idle_ms if
 * there is no client. */
static int next_look(const server_t *server, uint64_t now_ns, int idle_ms)
{
    uint64_t next_ns = UINT64_MAX;
    if (server->closed_ns > now_ns)
        next_ns = server->closed_ns;
    for (int i = 0; i < server->n_clients; i++)
        if (!server->clients[i].view)
            next_ns = PGASI_MIN(next_ns, server->clients[i].came_ns + SILENT_NS);
    if (next_ns == UINT64_MAX)
        return server->n_clients == 0 ? idle_ms : -1;
    return next_ns > now_ns ? (int)((next_ns - now_ns) / MS_NS) + 1 : 0;
}

/* Serves until there has been no client for a while. */
static void serve(server_t *server, int idle_ms)
{
    static struct pollfd wanted[CLIENTS_MAX + 1];
    for (;;) {
        /* Read once, so that the end of a pause does not count as the whole idle time. */
        uint64_t now_ns = pgasi_now_ns();
        int n = server->n_clients, wait_ms = next_look(server, now_ns, idle_ms);
        bool closed = server->closed_ns > now_ns, idle = n == 0 && !closed;
        wanted[0] = (struct pollfd){ .fd = closed ? -1 : server->listener, .events = POLLIN };
        for (int i = 0; i < n; i++)
            wanted[i + 1] = (struct pollfd){ .fd = server->clients[i].fd, .events = POLLIN };
        int got = poll(wanted, (nfds_t)n + 1, wait_ms);
        if ((got == 0 && idle) || (got < 0 && errno != EINTR))
            return;
        /* backwards, because the last client takes the place of one that is dropped */
        for (int i = n - 1; i >= 0 && got > 0; i--)
            if (wanted[i + 1].revents != 0 && !handle_client(server, i))
                drop_client(server, i);
        if (got > 0 && wanted[0].revents != 0)
            accept_client(server);
        drop_silent(server, pgasi_now_ns() - SILENT_NS);
    }
}

static pgas_status_t open_server(server_t *server, const char *name)
{
    server->began_ns = pgasi_now_ns();
    server->wakeup_fd = pgasi_snic_memory("pgas-snic-wakeup", SNIC_WAKEUP_BYTES);
    if (server->wakeup_fd < 0)
        return PGAS_ERR_IO;
    void *map =
        mmap(NULL, SNIC_WAKEUP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, server->wakeup_fd, 0);
    if (map == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    server->wakeup = map;
    server->wakeup->magic = SNIC_WAKEUP_MAGIC;
    server->wakeup->version = SNIC_VERSION;
    pgas_status_t status = pgasi_snic_listen(name, BACKLOG, &server->listener);
    if (status == PGAS_OK)
        server->spare_fd = fcntl(server->listener, F_DUPFD_CLOEXEC, 0);
    return status;
}

pgas_status_t pgas_verbs_snic_serve(const char *name, int64_t idle_us)
{
    server_t *server = calloc(1, sizeof *server);
    if (!server)
        return PGAS_ERR_NO_MEMORY;
    server->listener = server->wakeup_fd = server->spare_fd = -1;
    pthread_mutex_init(&server->lock, NULL);
    name = name != NULL ? name : "default";
    pgas_status_t status = open_server(server, name);
    pthread_t thread;
    if (status == PGAS_OK && pthread_create(&thread, NULL, execute, server) != 0)
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK) {
        serve(server, (int)PGASI_MIN(PGASI_MAX(idle_us, 0) / 1000 + 1, INT64_C(1) << 30));
        __atomic_store_n(&server->stop, true, __ATOMIC_RELEASE);
        pgasi_snic_wake_process(server->wakeup);
        pthread_join(thread, NULL);
    }
    while (server->n_clients > 0)
        drop_client(server, 0);
    if (server->wakeup)
        munmap(server->wakeup, SNIC_WAKEUP_BYTES);
    if (server->listener >= 0)
        pgasi_snic_unlisten(name, server->listener);
    if (server->spare_fd >= 0)
        close(server->spare_fd);
    if (server->wakeup_fd >= 0)
        close(server->wakeup_fd);
    pthread_mutex_destroy(&server->lock);
    free(server);
    return status;
}
