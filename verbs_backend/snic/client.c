/* Clients of the software NIC's process. A client finds the process of its node, user and name, or
 * starts it. It passes its device memory and receives the wakeup page, which it verifies. It waits
 * for an answer for a limited time. */
#include "verbs_backend/snic/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "base/param.h"

#define START_MS      5000 /* for a new process to answer */
#define START_STEP_MS 5
#define JOINS         3 /* because a process that is about to end may be found */
#define CHECK_NS      UINT64_C(10000000)
#define CONNECT_MS    5000 /* the process may be stopped, or very busy */

int pgasi_snic_answer_ms = 10000;

static char anchor; /* its address is in the library's file, or in the program's */

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
    /* the program leaves a child behind and ends at once */
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

/* Starts pgas_snic from a folder beside the library, installed or built, or from PATH. */
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
    const char *why = strerror(error);
    if (error == ENOTDIR)
        why = "there is no folder for its socket: /run/user/UID is missing, and all of " P_tmpdir
              "/libpgas-UID to " P_tmpdir "/libpgas-UID.31 belong to others";
    else if (error == EPERM)
        why = "it belongs to another user";
    PGASI_ERROR("snic", "the process of the software NIC \"%s\" cannot be reached: %s", name, why);
    return PGAS_ERR_IO;
}

/* The wakeup page that was mapped last; a new device of this process mostly gets the same one. */
static struct {
    pthread_mutex_t lock;
    struct stat file;
    struct snic_wakeup *wakeup;
} last_page = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The page stays mapped while the program runs, because views of peers ring it, and they end in any
 * order. */
static struct snic_wakeup *map_wakeup(int fd)
{
    struct stat file;
    if (fd < 0 || !pgasi_snic_is_memory(fd, SNIC_WAKEUP_BYTES, SNIC_WAKEUP_BYTES) ||
        fstat(fd, &file) != 0)
        return NULL;
    pthread_mutex_lock(&last_page.lock);
    struct snic_wakeup *found = last_page.wakeup && last_page.file.st_dev == file.st_dev &&
                                        last_page.file.st_ino == file.st_ino
                                    ? last_page.wakeup
                                    : NULL;
    if (!found) {
        void *map = mmap(NULL, SNIC_WAKEUP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        found = map == MAP_FAILED ? NULL : map;
        if (found && (snic_load(found->magic) != SNIC_WAKEUP_MAGIC ||
                      snic_load(found->version) != SNIC_VERSION)) {
            munmap(map, SNIC_WAKEUP_BYTES);
            found = NULL;
        }
        if (found) {
            last_page.wakeup = found;
            last_page.file = file;
        }
    }
    pthread_mutex_unlock(&last_page.lock);
    return found;
}

/* Sends a question and waits for the answer.
 * @return PGAS_OK
 *         PGAS_ERR_AGAIN  the process has ended instead
 *         PGAS_ERR_TIMEOUT
 *         PGAS_ERR_LIMIT  no descriptor is left for the passed one
 *         PGAS_ERR_IO     the answer is invalid */
static pgas_status_t ask(int socket, const snic_question_t *question, int fd,
                         snic_answer_t *answer_p, int *fd_p)
{
    *fd_p = -1;
    /* the process may have answered already that it has no room */
    if (!pgasi_snic_send_message(socket, question, sizeof *question, fd))
        poll(NULL, 0, 0);
    ssize_t n =
        pgasi_snic_await_message(socket, answer_p, sizeof *answer_p, fd_p, pgasi_snic_answer_ms);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return PGAS_ERR_AGAIN;
    if (n < 0 && errno == ETIMEDOUT)
        return PGAS_ERR_TIMEOUT;
    if (n < 0)
        return errno == EMFILE ? PGAS_ERR_LIMIT : PGAS_ERR_IO;
    return n == (ssize_t)sizeof *answer_p && answer_p->magic == SNIC_MESSAGE_MAGIC ? PGAS_OK
                                                                                   : PGAS_ERR_IO;
}

static pgas_status_t refused(const char *name, const snic_answer_t *answer)
{
    if (answer->status != PGAS_ERR_LIMIT) {
        PGASI_ERROR("snic",
                    "the process of the software NIC \"%s\" cannot reach this process's memory",
                    name);
        return PGAS_ERR_IO;
    }
    if (answer->want == SNIC_TOO_MANY)
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

/* @return PGAS_OK         the wakeup page is mapped
 *         PGAS_ERR_AGAIN  the process has ended meanwhile */
static pgas_status_t join_process(pgasi_snic_t *snic, const char *name)
{
    const snic_question_t question = { .magic = SNIC_MESSAGE_MAGIC,
                                       .kind = SNIC_JOIN,
                                       .id = snic->view->id };
    snic_answer_t answer;
    int fd;
    pgas_status_t status = ask(snic->process_socket, &question, snic->devmem_fd, &answer, &fd);
    if (status == PGAS_OK && answer.status != PGAS_OK) {
        status = refused(name, &answer);
    } else if (status == PGAS_OK) {
        snic->view->wakeup = map_wakeup(fd);
        status = snic->view->wakeup != NULL ? PGAS_OK : PGAS_ERR_IO;
        if (status != PGAS_OK)
            PGASI_ERROR(
                "snic",
                "process %d answers as the software NIC \"%s\", but it sent a wrong file for "
                "its memory",
                (int)pgasi_snic_peer(snic->process_socket), name);
    } else if (status != PGAS_ERR_AGAIN) {
        const char *what = "sends an invalid answer";
        if (status == PGAS_ERR_TIMEOUT)
            what = "does not answer: is it stopped?";
        else if (status == PGAS_ERR_LIMIT)
            what = "has answered, but no descriptor is left here; see ulimit -n";
        PGASI_ERROR("snic", "process %d, the software NIC \"%s\", %s",
                    (int)pgasi_snic_peer(snic->process_socket), name, what);
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

pgas_status_t pgas_verbs_snic_info(const char *name, pgas_verbs_snic_info_t *info_p)
{
    const snic_question_t question = { .magic = SNIC_MESSAGE_MAGIC, .kind = SNIC_STATUS };
    snic_answer_t answer;
    int fd;
    if (!info_p || info_p->size <= sizeof info_p->size)
        return PGAS_ERR_INVALID;
    int socket = pgasi_snic_connect(name ? name : "default", false, CONNECT_MS);
    if (socket < 0)
        return errno == ENOENT || errno == ECONNREFUSED ? PGAS_ERR_NOT_FOUND : PGAS_ERR_IO;
    pgas_status_t status = ask(socket, &question, -1, &answer, &fd);
    close(socket);
    if (fd >= 0)
        close(fd);
    if (status == PGAS_ERR_AGAIN)
        return PGAS_ERR_NOT_FOUND;
    if (status != PGAS_OK)
        return status == PGAS_ERR_TIMEOUT ? status : PGAS_ERR_IO;
    const pgas_verbs_snic_info_t info = { .pid = (int)answer.pid,
                                          .n_clients = (int)answer.n_clients,
                                          .n_clients_max = (int)answer.n_clients_max,
                                          .up_us = answer.up_ns / 1000 };
    return pgasi_info_fill(info_p, &info, sizeof info);
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
    /* the process sends nothing; only its end makes the socket readable */
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
