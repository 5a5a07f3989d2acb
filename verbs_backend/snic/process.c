/* The software NIC as a process of its own, one per node, user and name: it executes the queues of
 * all processes that have told it who they are, and goes on while they are stopped. Two threads:
 * one hears processes come and go on a socket (a process that ends closes its end), the other
 * executes, spins briefly, then sleeps on a futex in memory that all clients map.
 *
 * A client passes its device memory along when it says who it is, and gets the wakeup page: both are verified
 * (snic_socket.c). Neither side waits for the other without a limit. A client that says nothing is
 * dropped. A process without room says so to each who comes. */
#include "verbs_backend/snic/inside.h"

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"

#define WAKEUP_MAGIC  0x42554853u
#define WAKEUP_BYTES  4096
#define CLIENTS_MAX   1024
#define SPINS         1000
#define YIELDS        50
#define BLOCKED_NS    1000000
#define IDLE_NS       100000000
#define START_MS      5000 /* that a new process has to answer */
#define START_STEP_MS 5
#define JOINS         3 /* a process that is about to end may still be found */
#define CHECK_NS      UINT64_C(10000000)
#define CONNECT_MS    5000 /* a client's patience: the process is stopped, or very busy */
#define SILENT_NS     UINT64_C(2000000000) /* a client may take so long to say who it is */
#define PAUSE_NS      UINT64_C(100000000)  /* pause of the listener without descriptors */
#define BACKLOG       64
#define MS_NS         UINT64_C(1000000)
#define MESSAGE_MAGIC 0x6d43494eu

int pgasi_snic_answer_ms = 10000;

static char anchor; /* lies in the library's file, or in the program's */

/** Shared memory of the executing process; clients only ring in it. */
struct snic_wakeup {
    uint32_t magic, version;
    uint32_t seq __attribute__((aligned(64))); /* futex */
    uint32_t sleeping;
};

/** A client's question. With JOIN the client passes its device memory. */
typedef struct {
    uint32_t magic;
    enum { JOIN = 1, STATUS } kind;
    pgasi_snic_id_t id;
} question_t;

/** The process's answer. To JOIN it passes the wakeup page. */
typedef struct {
    uint32_t magic;
    int32_t status;
    enum { NOTHING, TOO_MANY, NO_DESCRIPTORS } want; /* PGAS_ERR_LIMIT: of what */
    uint32_t pid, n_clients, n_clients_max;
    uint64_t up_ns;
} answer_t;

/* ---- clients ---- */

static bool spawn(const char *program, const char *name)
{
    char *arguments[] = { (char *)(uintptr_t) "pgas_snic", (char *)(uintptr_t) "--name",
                          (char *)(uintptr_t)name, NULL };
    char library_path[4096 + sizeof "LD_LIBRARY_PATH="];
    char *environment[] = { NULL, NULL };
    const char *libraries = pgasi_param_env("LD_LIBRARY_PATH");
    pid_t pid;
    int status = 0;
    if (libraries) {
        snprintf(library_path, sizeof library_path, "LD_LIBRARY_PATH=%s", libraries);
        environment[0] = library_path;
    }
    if (posix_spawnp(&pid, program, NULL, NULL, arguments, environment) != 0)
        return false;
    /* it leaves a child behind and ends at once */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Other users may create programs beside ours in a folder for temporary files. A program is trusted
 * if root, this user, or the owner of the file beside it owns it. */
static bool is_trusted(const char *program, const char *beside)
{
    struct stat found, known;
    if (access(program, X_OK) != 0 || lstat(program, &found) != 0)
        return false;
    return found.st_uid == 0 || found.st_uid == geteuid() ||
           (stat(beside, &known) == 0 && found.st_uid == known.st_uid);
}

/* Starts pgas_snic from a folder beside the library, as installed or as built, or from PATH. */
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
            snprintf(path, sizeof path, "%.*s/%s/pgas_snic", (int)(slash - files[f]), files[f],
                     places[i]);
            if (is_trusted(path, files[f]))
                return spawn(path, name);
        }
    }
    return spawn("pgas_snic", name);
}

static int reach_process(const char *name)
{
    int fd = pgasi_snic_connect(name, true, CONNECT_MS);
    if (fd < 0 && (errno == ENOENT || errno == ECONNREFUSED) && start_process(name)) {
        for (int ms = 0; fd < 0 && (errno == ENOENT || errno == ECONNREFUSED) && ms < START_MS;
             ms += START_STEP_MS) {
            poll(NULL, 0, START_STEP_MS);
            fd = pgasi_snic_connect(name, true, CONNECT_MS);
        }
    }
    return fd;
}

static pgas_status_t not_reached(const char *name, int error)
{
    if (error == ENOENT || error == ECONNREFUSED) {
        PGASI_ERROR("snic",
                    "no process \"pgas_snic --name %s\" answers, and none could be started: is "
                    "pgas_snic, of this version, in "
                    "PATH?",
                    name);
        return PGAS_ERR_NOT_FOUND;
    }
    if (error == EMFILE || error == ENFILE) {
        PGASI_ERROR("snic",
                    "no descriptor is left for the process of the software NIC; see ulimit -n");
        return PGAS_ERR_LIMIT;
    }
    PGASI_ERROR(
        "snic", "the process of the software NIC \"%s\" is not reached: %s", name,
        error == ENOTDIR
            ? "there is no folder for its socket: /run/user/UID is missing, and all of " P_tmpdir
              "/libpgas-UID to " P_tmpdir "/libpgas-UID.31 belong to others"
        : error == EPERM ? "it belongs to another user"
                         : strerror(error));
    return PGAS_ERR_IO;
}

/* Stays mapped while the program runs: views of peers, which end in any order, ring it. */
static struct snic_wakeup *map_wakeup(int fd)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct stat known;
    static struct snic_wakeup *wakeup;
    struct stat file;
    if (fd < 0 || !pgasi_snic_is_memory(fd, WAKEUP_BYTES, WAKEUP_BYTES) || fstat(fd, &file) != 0)
        return NULL;
    pthread_mutex_lock(&lock);
    struct snic_wakeup *found =
        wakeup && known.st_dev == file.st_dev && known.st_ino == file.st_ino ? wakeup : NULL;
    if (!found) {
        void *map = mmap(NULL, WAKEUP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        found = map == MAP_FAILED ? NULL : map;
        if (found && (snic_load(found->magic) != WAKEUP_MAGIC ||
                      snic_load(found->version) != SNIC_VERSION)) {
            munmap(map, WAKEUP_BYTES);
            found = NULL;
        }
        if (found) {
            wakeup = found;
            known = file;
        }
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* Asks something. @return whether it has answered; AGAIN if it ended instead, TIMEOUT, IO what came
 * makes no sense */
static pgas_status_t ask(int socket, const question_t *question, int fd, answer_t *answer_p,
                         int *fd_p)
{
    *fd_p = -1;
    /* it may have answered already, that it has no room */
    if (!pgasi_snic_send_message(socket, question, sizeof *question, fd))
        poll(NULL, 0, 0);
    ssize_t n =
        pgasi_snic_await_message(socket, answer_p, sizeof *answer_p, fd_p, pgasi_snic_answer_ms);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return PGAS_ERR_AGAIN;
    if (n < 0)
        return errno == ETIMEDOUT ? PGAS_ERR_TIMEOUT
               : errno == EMFILE  ? PGAS_ERR_LIMIT
                                  : PGAS_ERR_IO;
    return n == (ssize_t)sizeof *answer_p && answer_p->magic == MESSAGE_MAGIC ? PGAS_OK
                                                                              : PGAS_ERR_IO;
}

static pgas_status_t refused(const char *name, const answer_t *answer)
{
    if (answer->status != PGAS_ERR_LIMIT) {
        PGASI_ERROR("snic",
                    "the process of the software NIC \"%s\" cannot reach this process's memory",
                    name);
        return PGAS_ERR_IO;
    }
    if (answer->want == TOO_MANY)
        PGASI_ERROR("snic",
                    "the process of the software NIC \"%s\" has %u clients already, its maximum; "
                    "another engine_name starts "
                    "another process",
                    name, answer->n_clients_max);
    else
        PGASI_ERROR("snic",
                    "the process of the software NIC \"%s\" has no descriptors left; see ulimit -n "
                    "where it was started",
                    name);
    return PGAS_ERR_LIMIT;
}

/* @return PGAS_OK, the wakeup page is mapped; AGAIN: it has ended meanwhile */
static pgas_status_t join_process(pgasi_snic_t *snic, const char *name)
{
    const question_t question = { .magic = MESSAGE_MAGIC, .kind = JOIN, .id = snic->view->id };
    answer_t answer;
    int fd;
    pgas_status_t status = ask(snic->process_socket, &question, snic->devmem_fd, &answer, &fd);
    if (status == PGAS_OK && answer.status != PGAS_OK) {
        status = refused(name, &answer);
    } else if (status == PGAS_OK) {
        snic->view->wakeup = map_wakeup(fd);
        status = snic->view->wakeup != NULL ? PGAS_OK : PGAS_ERR_IO;
        if (status != PGAS_OK)
            PGASI_ERROR("snic",
                        "process %d answers as the software NIC \"%s\", but what it gives is not "
                        "its memory",
                        (int)pgasi_snic_peer(snic->process_socket), name);
    } else if (status != PGAS_ERR_AGAIN) {
        PGASI_ERROR("snic", "process %d, the software NIC \"%s\", %s",
                    (int)pgasi_snic_peer(snic->process_socket), name,
                    status == PGAS_ERR_TIMEOUT ? "does not answer: is it stopped?"
                    : status == PGAS_ERR_LIMIT
                        ? "has answered, but no descriptor is left here; see ulimit -n"
                        : "sends an invalid answer");
        status = status == PGAS_ERR_LIMIT ? status : PGAS_ERR_IO;
    }
    if (fd >= 0)
        close(fd);
    return status;
}

pgas_status_t pgasi_snic_join(pgasi_snic_t *snic)
{
    const char *name = snic->opts.engine_name != NULL ? snic->opts.engine_name : "default";
    pgas_status_t status = PGAS_ERR_AGAIN;
    for (int i = 0; i < JOINS && status == PGAS_ERR_AGAIN; i++) {
        snic->process_socket = reach_process(name);
        if (snic->process_socket < 0)
            return not_reached(name, errno);
        status = join_process(snic, name);
        if (status != PGAS_OK)
            close(snic->process_socket);
    }
    return status == PGAS_ERR_AGAIN ? not_reached(name, ECONNREFUSED) : status;
}

pgas_status_t pgas_verbs_snic_query(const char *name, pgas_verbs_snic_info_t *info_p)
{
    const question_t question = { .magic = MESSAGE_MAGIC, .kind = STATUS };
    answer_t answer;
    int fd;
    if (!info_p || info_p->size != sizeof *info_p)
        return PGAS_ERR_INVALID;
    int socket = pgasi_snic_connect(name ? name : "default", false, CONNECT_MS);
    if (socket < 0)
        return errno == ENOENT || errno == ECONNREFUSED ? PGAS_ERR_NOT_FOUND : PGAS_ERR_IO;
    pgas_status_t status = ask(socket, &question, -1, &answer, &fd);
    close(socket);
    if (fd >= 0)
        close(fd);
    if (status != PGAS_OK)
        return status == PGAS_ERR_AGAIN     ? PGAS_ERR_NOT_FOUND
               : status == PGAS_ERR_TIMEOUT ? status
                                            : PGAS_ERR_IO;
    info_p->pid = (int)answer.pid;
    info_p->n_clients = (int)answer.n_clients;
    info_p->n_clients_max = (int)answer.n_clients_max;
    info_p->up_ns = answer.up_ns;
    return PGAS_OK;
}

void pgasi_snic_leave(pgasi_snic_t *snic)
{
    close(snic->process_socket);
}

bool pgasi_snic_process_gone(pgasi_snic_t *snic)
{
    if (!snic->joined || __atomic_load_n(&snic->process_gone, __ATOMIC_RELAXED))
        return snic->joined;
    uint64_t now_ns = pgasi_now_ns();
    if (now_ns - __atomic_load_n(&snic->process_checked_ns, __ATOMIC_RELAXED) < CHECK_NS)
        return false;
    __atomic_store_n(&snic->process_checked_ns, now_ns, __ATOMIC_RELAXED);
    /* it never says anything but that it ends */
    struct pollfd socket = { .fd = snic->process_socket, .events = POLLIN };
    if (poll(&socket, 1, 0) != 1)
        return false;
    if (!__atomic_exchange_n(&snic->process_gone, true, __ATOMIC_RELAXED))
        PGASI_ERROR(
            "snic",
            "the process of the software NIC has ended: nothing that was posted will complete");
    return true;
}

void pgasi_snic_wake_process(struct snic_wakeup *wakeup)
{
    if (__atomic_load_n(&wakeup->sleeping, __ATOMIC_SEQ_CST) != 0) {
        __atomic_add_fetch(&wakeup->seq, 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, &wakeup->seq, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

/* ---- the process ---- */

typedef struct {
    struct snic_wakeup *wakeup;
    int wakeup_fd, listener;
    int spare_fd; /* closed when descriptors run out, to answer new clients */
    uint64_t began_ns;
    uint64_t closed_ns;   /* no client is accepted until then */
    pthread_mutex_t lock; /* clients */
    struct {
        int fd;
        snic_view_t *view; /* NULL: it has not said who it is */
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
        /* who was looked at first may have got work by who came later */
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
        /* peers' requests fail from now on */
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
    const answer_t text = { .magic = MESSAGE_MAGIC,
                            .status = status,
                            .want = want,
                            .pid = (uint32_t)getpid(),
                            .n_clients = n,
                            .n_clients_max = CLIENTS_MAX,
                            .up_ns = pgasi_now_ns() - server->began_ns };
    return pgasi_snic_send_message(socket, &text, sizeof text, fd);
}

/* The identity that the kernel gives must be that of the process that asks; its device memory comes along.
 * @return false: it is dropped */
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
    return answer(server, socket, status, NOTHING, view != NULL ? server->wakeup_fd : -1) && view;
}

/* A client says something, or has gone. @return false: it is dropped */
static bool handle_client(server_t *server, int i)
{
    question_t question;
    int socket = server->clients[i].fd, fd;
    ssize_t n = pgasi_snic_receive_message(socket, &question, sizeof question, &fd);
    bool keep = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n < 0 && errno == EMFILE)
        answer(server, socket, PGAS_ERR_LIMIT, NO_DESCRIPTORS, -1);
    if (n == (ssize_t)sizeof question && question.magic == MESSAGE_MAGIC &&
        !server->clients[i].view) {
        if (question.kind == JOIN)
            keep = join(server, i, &question.id, fd);
        else if (question.kind == STATUS)
            answer(server, socket, PGAS_OK, NOTHING, -1);
    }
    if (fd >= 0)
        close(fd);
    return keep;
}

/* @param limit_ns of those who came before it and have not said who they are */
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

/* Says why there is no room. What the client has said is taken: the answer would be lost if the
 * socket were closed before. */
static void refuse_client(const server_t *server, int socket, int want)
{
    question_t question;
    int fd;
    answer(server, socket, PGAS_ERR_LIMIT, want, -1);
    shutdown(socket, SHUT_RD);
    while (pgasi_snic_receive_message(socket, &question, sizeof question, &fd) > 0)
        if (fd >= 0)
            close(fd);
    close(socket);
}

/* Without descriptors those who come wait in the listener's queue, which stays readable: each is
 * told by way of the spare one. If that does not help either, the listener is not looked at for a
 * moment. */
static void turn_away(server_t *server)
{
    if (server->spare_fd >= 0)
        close(server->spare_fd);
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        refuse_client(server, fd, NO_DESCRIPTORS);
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
        refuse_client(server, fd, TOO_MANY);
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

/* Milliseconds until somebody is to be dropped, or the listener looked at again; or until nobody
 * has been there for so long. */
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

/* Until nobody has been there for a while. */
static void serve(server_t *server, int idle_ms)
{
    static struct pollfd wanted[CLIENTS_MAX + 1];
    for (;;) {
        /* read once, so that the end of a pause does not count as the whole idle time */
        uint64_t now_ns = pgasi_now_ns();
        int n = server->n_clients, wait_ms = next_look(server, now_ns, idle_ms);
        bool closed = server->closed_ns > now_ns, idle = n == 0 && !closed;
        wanted[0] = (struct pollfd){ .fd = closed ? -1 : server->listener, .events = POLLIN };
        for (int i = 0; i < n; i++)
            wanted[i + 1] = (struct pollfd){ .fd = server->clients[i].fd, .events = POLLIN };
        int got = poll(wanted, (nfds_t)n + 1, wait_ms);
        if ((got == 0 && idle) || (got < 0 && errno != EINTR))
            return;
        /* backwards: the last takes the place of one that is dropped */
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
    server->wakeup_fd = pgasi_snic_memory("pgas-snic-wakeup", WAKEUP_BYTES);
    if (server->wakeup_fd < 0)
        return PGAS_ERR_IO;
    void *map = mmap(NULL, WAKEUP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, server->wakeup_fd, 0);
    if (map == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    server->wakeup = map;
    server->wakeup->magic = WAKEUP_MAGIC;
    server->wakeup->version = SNIC_VERSION;
    pgas_status_t status = pgasi_snic_listen(name, BACKLOG, &server->listener);
    if (status == PGAS_OK)
        server->spare_fd = fcntl(server->listener, F_DUPFD_CLOEXEC, 0);
    return status;
}

pgas_status_t pgas_verbs_snic_serve(const char *name, uint64_t idle_ns)
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
        serve(server, (int)PGASI_MIN(idle_ns / 1000000 + 1, UINT64_C(1) << 30));
        __atomic_store_n(&server->stop, true, __ATOMIC_RELEASE);
        pgasi_snic_wake_process(server->wakeup);
        pthread_join(thread, NULL);
    }
    while (server->n_clients > 0)
        drop_client(server, 0);
    if (server->wakeup)
        munmap(server->wakeup, WAKEUP_BYTES);
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
