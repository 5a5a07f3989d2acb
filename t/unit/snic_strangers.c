/* t/unit/snic_strangers.c
 *   what:   The software NIC's process and its clients trust only processes of their own user, and
 *           these no further than needed: a folder or socket that another user has made first; a
 *           process that answers with nothing, malformed data or the wrong memory; clients that
 *           send nothing, belong to other users, or are too many; no descriptors left; and the
 *           state that it reports.
 *   needs:  no-sanitizers
 *   log:    the software NIC|pgas_snic
 *   source: pgas/verbs.h, verbs_backend/snic/README.md */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/rng.h"
#include "pgas/verbs_snic.h"
#include "t/queue_pairs.h"
#include "t/tap.h"
#include "verbs_backend/snic/inside.h"

#define SECOND_NS     UINT64_C(1000000000)
#define SECOND_US     INT64_C(1000000)
#define GUARD_MS      30000
#define STRANGER_UID  65534
#define OWNER_UID     65533
#define N_FOLDERS     32
#define OWNERS        "/tmp/snic_strangers.owners"
#define HUB_BYTES     4096
#define HUB_MAGIC     0x42554853u
#define MESSAGE_MAGIC 0x6d43494eu
#define SPIN_NS       SECOND_NS
#define CLIENTS_MAX   1024

static char name[64];

static pgas_status_t open_nic(pgas_verbs_dev_t **dev_p)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    opts.device = "snic";
    opts.engine = PGAS_VERBS_ENGINE_PROCESS;
    opts.engine_name = name;
    return pgas_verbs_open(&opts, dev_p);
}

/* A request goes through the process. */
static bool works(pgas_verbs_dev_t *dev)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_address_t self;
    pgas_verbs_completion_t c = { .status = PGAS_ERR_TIMEOUT };
    pgas_verbs_qp_t *qp = NULL;
    pgas_verbs_cq_t *cq;
    const pgas_verbs_request_t nop = { .op = PGAS_VERBS_NOP, .flags = PGAS_VERBS_SIGNAL };
    if (pgas_verbs_cq_create(dev, 16, 0, &cq) != PGAS_OK)
        return false;
    opts.send_cq = opts.recv_cq = cq;
    if (pgas_verbs_qp_create(dev, &opts, &qp) != PGAS_OK)
        return false;
    qp_address(qp, &self);
    bool good = pgas_verbs_qp_connect(qp, &self) == PGAS_OK &&
                pgas_verbs_qp_post(qp, &nop, 1, NULL) == PGAS_OK &&
                pgas_verbs_cq_wait(cq, 20 * SECOND_US) == PGAS_OK &&
                pgas_verbs_cq_poll(cq, &c, 1) == 1 && c.status == PGAS_OK;
    pgas_verbs_qp_destroy(qp);
    pgas_verbs_cq_destroy(cq);
    return good;
}

static void become(uid_t uid)
{
    if (setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) != 0 || setresuid(uid, uid, uid) != 0)
        _exit(70);
}

/** A child that runs `body` as a user; 0: as ourselves. */
static pid_t fork_as(uid_t uid, int (*body)(void *arg), void *arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(GUARD_MS / 1000);
        if (uid != 0)
            become(uid);
        _exit(body(arg));
    }
    return pid;
}

/* @return its exit status; -1: a signal, such as the guard's */
static int end_of(pid_t pid)
{
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- the serving process ---- */

static int serve(void *arg)
{
    int n_fds = *(int *)arg;
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (n_fds > 0)
        limit.rlim_cur = (rlim_t)n_fds;
    setrlimit(RLIMIT_NOFILE, &limit);
    alarm(0);
    return pgas_verbs_snic_serve(name, 20 * SECOND_US) == PGAS_OK ? 0 : 1;
}

static int wait_for_nic(void *arg)
{
    pgas_verbs_snic_info_t info = { .size = sizeof info };
    (void)arg;
    while (pgas_verbs_snic_info(name, &info) != PGAS_OK)
        sched_yield();
    return 0;
}

/* @param n_fds its limit of descriptors; 0: as it is */
static pid_t start_nic(uid_t uid, int n_fds)
{
    pid_t pid = fork_as(uid, serve, &n_fds);
    end_of(fork_as(uid, wait_for_nic, NULL));
    return pid;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- folders of others ---- */

/* The names that an owner's processes could use in /tmp: folders of another user, and a link to a
 * folder of the owner. */
static int squat(void *arg)
{
    int n = *(int *)arg;
    for (int i = 0; i < n; i++) {
        char path[64];
        snprintf(path, sizeof path, i == 0 ? "/tmp/libpgas-%d" : "/tmp/libpgas-%d.%d", OWNER_UID,
                 i);
        if (i == 1 ? symlink(OWNERS, path) != 0 : mkdir(path, 0777) != 0 || chmod(path, 0777) != 0)
            return 1;
    }
    return 0;
}

static void leave(uid_t uid)
{
    for (int i = 0; i < N_FOLDERS; i++) {
        char path[64], command[128];
        snprintf(path, sizeof path, i == 0 ? "/tmp/libpgas-%d" : "/tmp/libpgas-%d.%d", (int)uid, i);
        snprintf(command, sizeof command, "rm -rf %s", path);
        if (access(path, F_OK) == 0 && system(command) != 0)
            diag("%s is left", path);
    }
}

static int try_to_open(void *arg)
{
    pgas_verbs_dev_t *dev;
    pgas_status_t status = open_nic(&dev);
    (void)arg;
    if (status == PGAS_OK && !works(dev))
        return 71;
    return status == PGAS_OK ? 0 : -(int)status;
}

static void test_squatters(void)
{
    int few = 2, all = N_FOLDERS;
    if (geteuid() != 0) {
        skip(5, "only root can be two other users");
        return;
    }
    leave(OWNER_UID);
    if (mkdir(OWNERS, 0700) != 0 || chown(OWNERS, OWNER_UID, OWNER_UID) != 0)
        bail("no folder of the owner's");
    is_int(end_of(fork_as(STRANGER_UID, squat, &few)), 0,
           "a stranger makes the first folders that an owner would use");
    pid_t nic = start_nic(OWNER_UID, 0);
    is_int(end_of(fork_as(OWNER_UID, try_to_open, NULL)), 0, "the owner uses another folder");
    stop(nic);
    leave(OWNER_UID);
    is_int(end_of(fork_as(STRANGER_UID, squat, &all)), 0, "a stranger makes all of them");
    is_int(end_of(fork_as(OWNER_UID, try_to_open, NULL)), -PGAS_ERR_IO,
           "the owner is refused, and does not wait");
    leave(OWNER_UID);
    is_int(rmdir(OWNERS), 0, "nothing was made in a folder to which a stranger's link led");
}

/* ---- processes that pretend to be the software NIC ---- */

typedef enum {
    SILENT,
    CLOSES,
    GARBAGE,
    NO_MEMORY_GIVEN,
    READ_ONLY_FILE,
    TMP_FILE,
    TOO_SMALL,
    TOO_LARGE,
    UNSEALED,
    WRONG_MAGIC,
    TWO_FDS,
    RANDOM_WORDS
} fake_t;

typedef struct {
    fake_t how;
    uint64_t seed;
    int listener;
    const char *file;
} fake_arg_t;

/* As the process's own: magic, status, want, pid, clients, at most, time. */
typedef struct {
    uint32_t magic;
    int32_t status;
    uint32_t want, pid, n_clients, n_clients_max;
    uint64_t up_ns;
} fake_answer_t;

static int hub_of(const fake_arg_t *fake)
{
    uint64_t bytes = HUB_BYTES;
    if (fake->how == TOO_SMALL)
        bytes = HUB_BYTES / 2;
    else if (fake->how == TOO_LARGE)
        bytes = 2 * HUB_BYTES;
    int fd = -1;
    if (fake->how == READ_ONLY_FILE || fake->how == TMP_FILE)
        return open(fake->file, (fake->how == TMP_FILE ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (fake->how == UNSEALED) {
        fd = memfd_create("hub", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (ftruncate(fd, (off_t)bytes) != 0)
            return -1;
    } else {
        fd = pgasi_snic_memory("hub", bytes);
    }
    uint32_t *words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, fake->seed);
    for (size_t i = 0; i < bytes / 4 && fake->how == RANDOM_WORDS; i++)
        words[i] = (uint32_t)pgasi_rng_u64(&rng);
    words[0] = fake->how == WRONG_MAGIC ? HUB_MAGIC + 1 : HUB_MAGIC;
    words[1] = SNIC_VERSION;
    return fd;
}

static int answer_wrongly(void *arg)
{
    const fake_arg_t *fake = arg;
    fake_answer_t answer = { .magic = MESSAGE_MAGIC, .pid = (uint32_t)getpid() };
    for (int n = 0;; n++) {
        char question[512];
        int theirs, fd = -1, socket = accept(fake->listener, NULL, NULL);
        if (socket < 0)
            return 0;
        if (fake->how == CLOSES) {
            close(socket);
            continue;
        }
        pgasi_snic_await_message(socket, question, sizeof question, &theirs, GUARD_MS);
        if (fake->how == GARBAGE)
            pgasi_snic_send_message(socket, question, 100, -1);
        else if (fake->how != SILENT && fake->how != TWO_FDS)
            pgasi_snic_send_message(socket, &answer, sizeof answer,
                                    fake->how == NO_MEMORY_GIVEN ? -1 : (fd = hub_of(fake)));
        if (fake->how == TWO_FDS) {
            union {
                struct cmsghdr head;
                char room[CMSG_SPACE(2 * sizeof(int))];
            } control;
            int fds[2] = { hub_of(fake), hub_of(fake) };
            struct iovec part = { &answer, sizeof answer };
            struct msghdr whole = { .msg_iov = &part,
                                    .msg_iovlen = 1,
                                    .msg_control = &control,
                                    .msg_controllen = sizeof control };
            memset(&control, 0, sizeof control);
            control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof fds),
                                             .cmsg_level = SOL_SOCKET,
                                             .cmsg_type = SCM_RIGHTS };
            memcpy(CMSG_DATA(&control.head), fds, sizeof fds);
            sendmsg(socket, &whole, MSG_NOSIGNAL);
        }
    }
}

/* Opens the device while a process of this user answers so. */
static pgas_status_t open_with(fake_t how, uint64_t seed, const char *file,
                               pgas_verbs_dev_t **dev_p, pid_t *pid_p)
{
    fake_arg_t fake = { .how = how, .seed = seed, .file = file };
    if (pgasi_snic_listen(name, 8, &fake.listener) != PGAS_OK)
        bail("the name is taken");
    fcntl(fake.listener, F_SETFL, 0);
    *pid_p = fork_as(0, answer_wrongly, &fake);
    pgas_status_t status = open_nic(dev_p);
    pgasi_snic_unlisten(name, fake.listener);
    return status;
}

static void test_wrong_answers(void)
{
    static const struct {
        fake_t how;
        const char *text;
    } cases[] = { { SILENT, "says nothing" },
                  { GARBAGE, "says nonsense" },
                  { NO_MEMORY_GIVEN, "gives no memory" },
                  { READ_ONLY_FILE, "gives a file that may only be read" },
                  { TMP_FILE, "gives a file" },
                  { TOO_SMALL, "gives too little" },
                  { TOO_LARGE, "gives too much" },
                  { UNSEALED, "gives memory that can shrink" },
                  { WRONG_MAGIC, "gives other memory" },
                  { TWO_FDS, "gives two descriptors" } };
    char file[] = "/tmp/snic_strangersXXXXXX", before[HUB_BYTES], after[HUB_BYTES];
    int fd = mkstemp(file);
    memset(before, 0, sizeof before);
    memcpy(before, &(uint32_t[2]){ HUB_MAGIC, SNIC_VERSION }, 8);
    before[128] = 1; /* it sleeps, as far as that is seen */
    if (write(fd, before, sizeof before) != (ssize_t)sizeof before)
        bail("no file");
    pgasi_snic_answer_ms = 300;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++) {
        pgas_verbs_dev_t *dev;
        pid_t pid;
        is_int(open_with(cases[i].how, 0, file, &dev, &pid), PGAS_ERR_IO,
               "a process that %s is refused", cases[i].text);
        stop(pid);
    }
    pgasi_snic_answer_ms = 10000;
    is_int(pread(fd, after, sizeof after, 0) == (ssize_t)sizeof after &&
               memcmp(before, after, sizeof after) == 0,
           1, "the file is as it was");
    close(fd);
    unlink(file);
}

/* All of the hub but its head may have any value: it is rung, and no more. */
static void test_random_hub(uint64_t seed)
{
    int n_bad = 0;
    for (uint64_t i = 0; i < 20; i++) {
        pgas_verbs_dev_t *dev;
        pid_t pid, child = fork();
        if (child == 0) {
            pgas_verbs_completion_t c;
            pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
            pgas_verbs_address_t self;
            const pgas_verbs_request_t nop = { .op = PGAS_VERBS_NOP, .flags = PGAS_VERBS_SIGNAL };
            pgas_verbs_qp_t *qp = NULL;
            alarm(GUARD_MS / 1000);
            if (open_with(RANDOM_WORDS, seed + i, NULL, &dev, &pid) != PGAS_OK)
                _exit(1);
            bool good = pgas_verbs_cq_create(dev, 16, 0, &opts.send_cq) == PGAS_OK;
            opts.recv_cq = opts.send_cq;
            good = good && pgas_verbs_qp_create(dev, &opts, &qp) == PGAS_OK;
            qp_address(qp, &self);
            good = good && pgas_verbs_qp_connect(qp, &self) == PGAS_OK &&
                   pgas_verbs_qp_post(qp, &nop, 1, NULL) == PGAS_OK &&
                   pgas_verbs_cq_poll(opts.send_cq, &c, 1) == 0;
            pgas_verbs_qp_destroy(qp);
            pgas_verbs_cq_destroy(opts.send_cq);
            good = good && pgas_verbs_close(dev) == PGAS_OK;
            stop(pid);
            _exit(good ? 0 : 2);
        }
        n_bad += end_of(child) != 0;
    }
    is_int(n_bad, 0, "no process crashes on a hub of random words, seed %llu",
           (unsigned long long)seed);
}

/* ---- clients ---- */

/* @return whether the other end has hung up, at last */
static bool is_hung_up(int socket)
{
    struct pollfd wanted = { .fd = socket, .events = POLLIN };
    char byte;
    return poll(&wanted, 1, GUARD_MS) == 1 && recv(socket, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void test_silent_clients(void)
{
    pgas_verbs_dev_t *dev = NULL;
    int sockets[8], n_gone = 0;
    pid_t nic = start_nic(0, 0);
    for (int i = 0; i < 8; i++)
        sockets[i] = pgasi_snic_connect(name, false, GUARD_MS);
    ok(open_nic(&dev) == PGAS_OK && works(dev),
       "a device is opened beside clients that say nothing");
    for (int i = 0; i < 8; i++) {
        n_gone += is_hung_up(sockets[i]);
        close(sockets[i]);
    }
    is_int(n_gone, 8, "which are hung up on");
    ok(works(dev), "and it still works");
    pgas_verbs_close(dev);
    int fd = pgasi_snic_connect(name, false, GUARD_MS);
    char junk[300] = "what is this?";
    ok(pgasi_snic_send_message(fd, junk, sizeof junk, -1) && is_hung_up(fd),
       "a client that says nonsense is hung up on at once");
    close(fd);
    stop(nic);
}

/* By the file itself, because root may enter the folder. */
static int connect_as_root(uid_t owner, struct sockaddr_un *address_p)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    char path[64];
    snprintf(path, sizeof path, "/tmp/libpgas-%d", (int)owner);
    DIR *folder = opendir(path);
    int fd = -1;
    for (struct dirent *entry; folder != NULL && fd < 0 && (entry = readdir(folder));) {
        if (strncmp(entry->d_name, "snic-", 5) != 0)
            continue;
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (snprintf(address.sun_path, sizeof address.sun_path, "%s/%.64s", path, entry->d_name) <
                0 ||
            connect(fd, (struct sockaddr *)(void *)&address, sizeof address) != 0) {
            close(fd);
            fd = -1;
        }
    }
    if (folder)
        closedir(folder);
    *address_p = address;
    return fd;
}

static int try_to_connect(void *arg)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, arg, strlen(arg) + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    return connect(fd, (struct sockaddr *)(void *)&address, sizeof address) == 0 ? 0 : errno;
}

static void test_other_users(void)
{
    if (geteuid() != 0) {
        skip(2, "only root can be another user");
        return;
    }
    pid_t nic = start_nic(OWNER_UID, 0);
    struct sockaddr_un address;
    int fd = connect_as_root(OWNER_UID, &address);
    if (fd < 0)
        bail("the socket of another user is not found");
    char byte;
    /* it would wait for two seconds if it were one that may say something */
    ssize_t n = recv(fd, &byte, 1, 0);
    ok(n <= 0, "another user, even root, is hung up on");
    is_int(end_of(fork_as(STRANGER_UID, try_to_connect, address.sun_path)), EACCES,
           "and one that is not root does not get so far");
    close(fd);
    stop(nic);
    leave(OWNER_UID);
}

static uint64_t cpu_ticks(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, kernel = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file && fgets(text, sizeof text, file) && strrchr(text, ')') != NULL)
        sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
               &kernel);
    if (file)
        fclose(file);
    return user + kernel;
}

#define FEW_FDS 24
#define MANY    40
#define TRIES   20

/* Its descriptors are in use, and more and more clients come and stay. Meanwhile it uses only a
 * small part of a processor. */
static void test_no_descriptors(void)
{
    pgas_verbs_dev_t *dev = NULL, *more = NULL;
    int sockets[MANY], n_bad = 0;
    pid_t nic = start_nic(0, FEW_FDS);
    if (open_nic(&dev) != PGAS_OK)
        bail("no device");
    pgas_status_t status = PGAS_OK;
    for (int i = 0; i < MANY; i++)
        sockets[i] = pgasi_snic_connect(name, false, GUARD_MS);
    /* they were here too long, and are gone */
    for (int tries = 0; tries < TRIES && (status = open_nic(&more)) == PGAS_OK; tries++) {
        pgas_verbs_close(more);
        for (int i = 0; i < MANY; i++) {
            close(sockets[i]);
            sockets[i] = pgasi_snic_connect(name, false, GUARD_MS);
        }
    }
    is_int(status, PGAS_ERR_LIMIT, "a process without descriptors refuses a client, and says why");
    uint64_t before = cpu_ticks(nic), until_ns = pgasi_now_ns() + SPIN_NS;
    while (pgasi_now_ns() < until_ns)
        poll(NULL, 0, 50);
    uint64_t ticks = cpu_ticks(nic) - before;
    ok(ticks * 4 < (uint64_t)sysconf(_SC_CLK_TCK), "it does not spin: %d ticks of %ld", (int)ticks,
       sysconf(_SC_CLK_TCK));
    ok(works(dev), "and still serves the client that it has");
    for (int i = 0; i < MANY; i++) {
        n_bad += sockets[i] < 0;
        close(sockets[i]);
    }
    is_int(n_bad, 0, "all could connect");
    pgas_verbs_close(dev);
    stop(nic);
}

static void test_too_many(void)
{
    pgasi_snic_opts_t opts = { .engine = PGAS_VERBS_ENGINE_PROCESS, .engine_name = name };
    struct rlimit limit;
    pgasi_snic_t **all = calloc(CLIENTS_MAX + 1, sizeof(pgasi_snic_t *));
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 4 * CLIENTS_MAX) {
        skip(3, "ulimit -n is too low");
        return;
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    pid_t nic = start_nic(0, 0);
    pgas_verbs_snic_info_t info = { .size = sizeof info };
    int n = 0, silent = pgasi_snic_connect(name, false, GUARD_MS);
    pgas_status_t status = PGAS_OK;
    while (n <= CLIENTS_MAX && status == PGAS_OK) {
        status = pgasi_snic_open(&opts, &all[n]);
        n += status == PGAS_OK;
    }
    is_int(n, CLIENTS_MAX, "so many clients are served; one that says nothing gives way");
    is_int(status, PGAS_ERR_LIMIT, "one more is refused, and told why");
    while (n > 0)
        pgasi_snic_close(all[--n]);
    ok(pgas_verbs_snic_info(name, &info) == PGAS_OK && info.n_clients_max == CLIENTS_MAX,
       "and it still reports its state");
    close(silent);
    free(all);
    stop(nic);
}

/* @return how many folders for sockets the user has after a query; 70: the query finds a process */
static int ask_without_process(void *arg)
{
    pgas_verbs_snic_info_t info = { .size = sizeof info };
    char path[64];
    (void)arg;
    if (pgas_verbs_snic_info(name, &info) != PGAS_ERR_NOT_FOUND)
        return 70;
    int n = 0;
    for (int i = 0; i < N_FOLDERS; i++) {
        snprintf(path, sizeof path, i == 0 ? "/tmp/libpgas-%d" : "/tmp/libpgas-%d.%d", OWNER_UID,
                 i);
        n += access(path, F_OK) == 0;
    }
    return n;
}

static void test_query_creates_nothing(void)
{
    if (geteuid() != 0) {
        skip(1, "only root can be a user without folders");
        return;
    }
    leave(OWNER_UID);
    is_int(end_of(fork_as(OWNER_UID, ask_without_process, NULL)), 0, "a query creates no folder");
    leave(OWNER_UID);
}

static void test_status(void)
{
    pgas_verbs_snic_info_t info = { .size = sizeof info }, wrong = { .size = 1 };
    pgas_verbs_dev_t *dev = NULL;
    is_int(pgas_verbs_snic_info(name, &info), PGAS_ERR_NOT_FOUND, "there is none");
    is_int(pgas_verbs_snic_info(name, &wrong), PGAS_ERR_INVALID, "of another size");
    pid_t nic = start_nic(0, 0);
    bool open = open_nic(&dev) == PGAS_OK;
    ok(open && pgas_verbs_snic_info(name, &info) == PGAS_OK && info.pid == (int)nic &&
           info.n_clients == 1 && info.n_clients_max == CLIENTS_MAX && info.up_us > 0,
       "the process with one client");
    pgas_verbs_close(dev);
    is_int(pgas_verbs_snic_serve(name, 1), PGAS_ERR_EXISTS, "there is one already");
    stop(nic);
    is_int(pgas_verbs_snic_serve(name, 1), PGAS_OK, "files of a killed process are no obstacle");
}

int main(void)
{
    plan(36);
    signal(SIGPIPE, SIG_DFL);
    uint64_t seed = tap_seed(5);
    snprintf(name, sizeof name, "strangers-%d", (int)getpid());
    test_squatters();
    test_wrong_answers();
    test_random_hub(seed);
    test_silent_clients();
    test_other_users();
    test_no_descriptors();
    test_too_many();
    test_query_creates_nothing();
    test_status();
    return done();
}
