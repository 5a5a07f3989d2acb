/* The software NIC as a process of its own, one per node, user and name: it executes the queues of all processes that have told it who
 * they are, and goes on while they are stopped. Two threads: one hears processes come and go on a socket (a process that ends closes
 * its end), the other executes, spins briefly, then sleeps on a futex in memory that all clients map. */
#include "verbs_backend/snic.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"

#define HUB_MAGIC 0x42554853u
#define HUB_BYTES 4096
#define CLIENTS_MAX 1024
#define SPINS 1000
#define YIELDS 50
#define BLOCKED_NS 1000000
#define IDLE_NS 100000000
#define START_MS 5000 /* that a new process has to answer */
#define START_STEP_MS 5
#define JOINS 3        /* a process that is about to end may still be found */
#define CHECK_NS UINT64_C(10000000)

static char anchor; /* lies in the library's file, or in the program's */

/** What the process that executes shares with its clients. */
struct snic_hub {
    uint32_t magic;
    uint32_t seq __attribute__((aligned(64))); /* futex */
    uint32_t sleeping;
};

/** Its answer to a client. */
typedef struct {
    int32_t status;
    uint32_t pid;
    int32_t hub_fd;
} answer_t;

/* ---- clients ---- */

/* An abstract name: nothing is left behind in any folder. Programs of two versions have a process each. */
static socklen_t make_name(const char *name, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "pgas-snic-%u-%08x-%x", (unsigned)getuid(),
                     (unsigned)pgasi_hash_bytes(name, strlen(name), 0), SNIC_VERSION);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int connect_to(const char *name)
{
    struct sockaddr_un address;
    socklen_t bytes = make_name(name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)(void *)&address, bytes) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool spawn(const char *program, const char *name)
{
    char *arguments[] = { (char *)(uintptr_t)"pgas_snic", (char *)(uintptr_t)"--name", (char *)(uintptr_t)name, NULL };
    char library_path[4096 + sizeof "LD_LIBRARY_PATH="];
    char *environment[] = { NULL, NULL };
    const char *libraries = pgasi_param_env("LD_LIBRARY_PATH");
    pid_t pid;
    int status = 0;
    if (libraries != NULL) {
        snprintf(library_path, sizeof library_path, "LD_LIBRARY_PATH=%s", libraries);
        environment[0] = library_path;
    }
    if (posix_spawnp(&pid, program, NULL, NULL, arguments, environment) != 0)
        return false;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) { /* it leaves a child behind and ends at once */
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Beside the library, as installed or as built, else by PATH. */
static bool start_process(const char *name)
{
    static const char *const places[] = { "../bin", "../tools", "../../tools", "." };
    char path[4096];
    Dl_info where;
    char self[2048];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[PGASI_MAX(n, (ssize_t)0)] = '\0';
    const char *files[] = { dladdr(&anchor, &where) != 0 ? where.dli_fname : "", self };
    for (size_t f = 0; f < PGASI_ARRAY_LENGTH(files); f++) {
        const char *slash = strrchr(files[f], '/');
        for (size_t i = 0; slash != NULL && i < PGASI_ARRAY_LENGTH(places); i++) {
            snprintf(path, sizeof path, "%.*s/%s/pgas_snic", (int)(slash - files[f]), files[f], places[i]);
            if (access(path, X_OK) == 0)
                return spawn(path, name);
        }
    }
    return spawn("pgas_snic", name);
}

static int reach_process(const char *name)
{
    int fd = connect_to(name);
    if (fd < 0 && start_process(name)) {
        for (int ms = 0; fd < 0 && ms < START_MS; ms += START_STEP_MS) {
            poll(NULL, 0, START_STEP_MS);
            fd = connect_to(name);
        }
    }
    return fd;
}

/* Stays mapped while the program runs: views of peers, which end in any order, ring it. */
static struct snic_hub *map_hub(const answer_t *answer)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static answer_t known;
    static struct snic_hub *hub;
    char path[64];
    pthread_mutex_lock(&lock);
    if (hub == NULL || known.pid != answer->pid || known.hub_fd != answer->hub_fd) {
        snprintf(path, sizeof path, "/proc/%u/fd/%d", answer->pid, answer->hub_fd);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        void *map = fd < 0 ? MAP_FAILED : mmap(NULL, HUB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (fd >= 0)
            close(fd);
        hub = map == MAP_FAILED ? NULL : map;
        known = *answer;
    }
    struct snic_hub *found = hub;
    pthread_mutex_unlock(&lock);
    return found;
}

/* Tells who we are. @return whether it has answered; AGAIN if it ended instead */
static pgas_status_t introduce(pgasi_snic_t *snic, answer_t *answer_p)
{
    const pgasi_snic_id_t *id = &snic->view->id;
    if (send(snic->hub_socket, id, sizeof *id, MSG_NOSIGNAL) != (ssize_t)sizeof *id)
        return PGAS_ERR_AGAIN;
    ssize_t n = recv(snic->hub_socket, answer_p, sizeof *answer_p, 0);
    if (n <= 0)
        return PGAS_ERR_AGAIN;
    return n == (ssize_t)sizeof *answer_p && answer_p->status == PGAS_OK ? PGAS_OK : PGAS_ERR_IO;
}

pgas_status_t pgasi_snic_join(pgasi_snic_t *snic)
{
    const char *name = snic->opts.engine_name != NULL ? snic->opts.engine_name : "default";
    answer_t answer;
    pgas_status_t status = PGAS_ERR_AGAIN;
    for (int i = 0; i < JOINS && status == PGAS_ERR_AGAIN; i++) {
        snic->hub_socket = reach_process(name);
        if (snic->hub_socket < 0) {
            PGASI_ERROR("snic", "no process \"pgas_snic --name %s\" answers, and none could be started: is pgas_snic, of this "
                        "version, in PATH?", name);
            return PGAS_ERR_NOT_FOUND;
        }
        status = introduce(snic, &answer);
        if (status == PGAS_ERR_AGAIN && i + 1 < JOINS)
            close(snic->hub_socket);
    }
    snic->view->hub = status == PGAS_OK ? map_hub(&answer) : NULL;
    if (snic->view->hub == NULL) {
        PGASI_ERROR("snic", "the process of the software NIC \"%s\" cannot reach this process's memory", name);
        close(snic->hub_socket);
        return PGAS_ERR_IO;
    }
    return PGAS_OK;
}

void pgasi_snic_leave(pgasi_snic_t *snic)
{
    close(snic->hub_socket);
}

bool pgasi_snic_hub_gone(pgasi_snic_t *snic)
{
    if (!snic->joined || __atomic_load_n(&snic->hub_gone, __ATOMIC_RELAXED))
        return snic->joined;
    uint64_t now_ns = pgasi_now_ns();
    if (now_ns - __atomic_load_n(&snic->hub_checked_ns, __ATOMIC_RELAXED) < CHECK_NS)
        return false;
    __atomic_store_n(&snic->hub_checked_ns, now_ns, __ATOMIC_RELAXED);
    struct pollfd socket = { .fd = snic->hub_socket, .events = POLLIN }; /* it never says anything but that it ends */
    if (poll(&socket, 1, 0) != 1)
        return false;
    if (!__atomic_exchange_n(&snic->hub_gone, true, __ATOMIC_RELAXED))
        PGASI_ERROR("snic", "the process of the software NIC has ended: nothing that was posted will complete");
    return true;
}

void pgasi_snic_wake_process(struct snic_hub *hub)
{
    if (__atomic_load_n(&hub->sleeping, __ATOMIC_SEQ_CST) != 0) {
        __atomic_add_fetch(&hub->seq, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &hub->seq, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

/* ---- the process ---- */

typedef struct {
    struct snic_hub *hub;
    int hub_fd, listener;
    pthread_mutex_t lock; /* clients */
    struct {
        int fd;
        snic_view_t *view; /* NULL: it has not said who it is */
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
        if (view == NULL)
            continue;
        n += pgasi_snic_run_once(view);
        *work_p |= __atomic_load_n(&view->region->work, __ATOMIC_SEQ_CST) != 0;
        *blocked_p |= __atomic_load_n(&view->region->blocked, __ATOMIC_ACQUIRE) != 0;
    }
    pthread_mutex_unlock(&server->lock);
    return n;
}

static void *execute(void *arg)
{
    server_t *server = arg;
    struct snic_hub *hub = server->hub;
    for (unsigned idle = 0; !__atomic_load_n(&server->stop, __ATOMIC_ACQUIRE);) {
        bool work, blocked;
        uint32_t seq = __atomic_load_n(&hub->seq, __ATOMIC_SEQ_CST);
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
        __atomic_store_n(&hub->sleeping, 1, __ATOMIC_SEQ_CST);
        n = sweep(server, &work, &blocked); /* who was looked at first may have got work by who came later */
        struct timespec nap = { .tv_nsec = blocked ? BLOCKED_NS : IDLE_NS };
        if (!work && n == 0)
            syscall(SYS_futex, &hub->seq, FUTEX_WAIT, seq, &nap, NULL, 0);
        __atomic_store_n(&hub->sleeping, 0, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

static void drop_client(server_t *server, int i)
{
    snic_view_t *view = server->clients[i].view;
    pthread_mutex_lock(&server->lock);
    close(server->clients[i].fd);
    if (view != NULL) {
        __atomic_store_n(&view->gone, true, __ATOMIC_RELEASE); /* peers' requests fail from now on */
        for (uint32_t q = 0; q < SNIC_QPS; q++) {
            if (view->peers[q] != NULL)
                pgasi_snic_view_put(view->peers[q]);
            view->peers[q] = NULL;
        }
        pgasi_snic_view_put(view);
    }
    server->clients[i] = server->clients[--server->n_clients];
    pthread_mutex_unlock(&server->lock);
}

/* Who it is; its kernel-given identity must be that of the process that asks. @return false: the client is dropped */
static bool greet(server_t *server, int i)
{
    pgasi_snic_id_t id;
    ssize_t n = recv(server->clients[i].fd, &id, sizeof id, 0);
    struct ucred who;
    socklen_t bytes = sizeof who;
    if (n != (ssize_t)sizeof id || server->clients[i].view != NULL ||
        getsockopt(server->clients[i].fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 || who.uid != getuid() ||
        (uint32_t)who.pid != id.pid)
        return false;
    pgas_status_t status;
    snic_view_t *view = pgasi_snic_view_get(&id, &status);
    answer_t answer = { .status = status, .pid = (uint32_t)getpid(), .hub_fd = server->hub_fd };
    pthread_mutex_lock(&server->lock);
    server->clients[i].view = view;
    pthread_mutex_unlock(&server->lock);
    return send(server->clients[i].fd, &answer, sizeof answer, MSG_NOSIGNAL) == (ssize_t)sizeof answer && view != NULL;
}

static void let_in(server_t *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (server->n_clients == CLIENTS_MAX) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&server->lock);
    server->clients[server->n_clients].fd = fd;
    server->clients[server->n_clients].view = NULL;
    server->n_clients++;
    pthread_mutex_unlock(&server->lock);
}

/* Until nobody has been there for a while. */
static void serve(server_t *server, int idle_ms)
{
    static struct pollfd wanted[CLIENTS_MAX + 1];
    for (;;) {
        wanted[0] = (struct pollfd){ .fd = server->listener, .events = POLLIN };
        int n = server->n_clients;
        for (int i = 0; i < n; i++)
            wanted[i + 1] = (struct pollfd){ .fd = server->clients[i].fd, .events = POLLIN };
        int got = poll(wanted, (nfds_t)n + 1, n == 0 ? idle_ms : -1);
        if (got == 0 || (got < 0 && errno != EINTR))
            return;
        for (int i = n - 1; i >= 0 && got > 0; i--) { /* backwards: the last takes the place of one that is dropped */
            if (wanted[i + 1].revents != 0 && !greet(server, i))
                drop_client(server, i);
        }
        if (got > 0 && wanted[0].revents != 0)
            let_in(server);
    }
}

static pgas_status_t open_server(server_t *server, const char *name)
{
    struct sockaddr_un address;
    socklen_t bytes = make_name(name, &address);
    server->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    server->hub_fd = memfd_create("pgas-snic-hub", MFD_CLOEXEC);
    if (server->listener < 0 || server->hub_fd < 0 || ftruncate(server->hub_fd, HUB_BYTES) != 0)
        return PGAS_ERR_IO;
    void *map = mmap(NULL, HUB_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, server->hub_fd, 0);
    if (map == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    server->hub = map;
    server->hub->magic = HUB_MAGIC;
    if (bind(server->listener, (struct sockaddr *)(void *)&address, bytes) != 0)
        return errno == EADDRINUSE ? PGAS_ERR_EXISTS : PGAS_ERR_IO;
    return listen(server->listener, 64) == 0 ? PGAS_OK : PGAS_ERR_IO;
}

pgas_status_t pgas_verbs_snic_serve(const char *name, uint64_t idle_ns)
{
    server_t *server = calloc(1, sizeof *server);
    if (server == NULL)
        return PGAS_ERR_NO_MEMORY;
    server->listener = server->hub_fd = -1;
    pthread_mutex_init(&server->lock, NULL);
    pgas_status_t status = open_server(server, name != NULL ? name : "default");
    pthread_t thread;
    if (status == PGAS_OK && pthread_create(&thread, NULL, execute, server) != 0)
        status = PGAS_ERR_NO_MEMORY;
    if (status == PGAS_OK) {
        serve(server, (int)PGASI_MIN(idle_ns / 1000000 + 1, UINT64_C(1) << 30));
        __atomic_store_n(&server->stop, true, __ATOMIC_RELEASE);
        pgasi_snic_wake_process(server->hub);
        pthread_join(thread, NULL);
    }
    while (server->n_clients > 0)
        drop_client(server, 0);
    if (server->hub != NULL)
        munmap(server->hub, HUB_BYTES);
    if (server->listener >= 0)
        close(server->listener);
    if (server->hub_fd >= 0)
        close(server->hub_fd);
    pthread_mutex_destroy(&server->lock);
    free(server);
    return status;
}
