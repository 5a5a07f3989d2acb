/* t/unit/snic_lives.c
 *   what:   Objects of the software NIC end while others continue: memory is released while queue
 *           pairs connect; keys, queue pair numbers and descriptors are reused; a peer closes
 *           objects that a sender knows; there are no descriptors left; the process that executes
 *           is killed.
 *   needs:  no-sanitizers
 *   log:    the process of the software NIC|no memory to share .*: Too many open|see ulimit -n
 *   source: pgas/verbs.h */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "pgas/verbs.h"
#include "t/must.h"
#include "t/queue_pairs.h"
#include "t/tap.h"
#include "verbs_backend/queue/device.h"
#include "verbs_backend/snic/inside.h"

#define SECOND_NS     UINT64_C(1000000000)
#define SECOND_US     INT64_C(1000000)
#define ROUNDS        6000 /* more than a place has numbers of queue pairs */
#define FEW_WRITES    3000
#define MUCH          (UINT32_C(64) << 20)
#define TAGS          256
#define LOCKED_WRITES 20
#define MANY_EVENTS   40
#define LOOKS         5000 /* more than a waiter makes before it asks whether the holder lives */
#define WRITING_NS    (SECOND_NS / 4) /* many checks whether the peer runs */

/** One end: a device, a queue pair with its completion queue, and memory. */
typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *cq;
    pgas_verbs_qp_t *qp;
    pgas_verbs_mem_t mem;
} side_t;

/** The messages between the two ends. */
typedef struct {
    pgas_verbs_address_t qp;
    uint64_t addr;
    uint32_t rkey;
} told_t;

static char name[64]; /* of the process that executes */

static void open_device(side_t *s, pgas_verbs_engine_t engine)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    if (name[0] == '\0')
        snprintf(name, sizeof name, "lives-%d", (int)getpgrp());
    opts.device = "snic";
    opts.engine = engine;
    opts.engine_name = name;
    memset(s, 0, sizeof *s);
    must(pgas_verbs_open(&opts, &s->dev), "the device");
}

static void open_qp(side_t *s)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    must(pgas_verbs_cq_create(s->dev, 256, PGAS_VERBS_CQ_EVENTS, &s->cq), "a completion queue");
    opts.send_cq = opts.recv_cq = s->cq;
    must(pgas_verbs_qp_create(s->dev, &opts, &s->qp), "a queue pair");
}

static void close_qp(side_t *s)
{
    pgas_verbs_qp_destroy(s->qp);
    must(pgas_verbs_cq_destroy(s->cq), "close the completion queue");
}

static void begin(side_t *s, pgas_verbs_engine_t engine)
{
    open_device(s, engine);
    must(pgas_verbs_mem_register(s->dev, NULL, 1 << 16, PGAS_VERBS_ACCESS_ALL, &s->mem), "memory");
    open_qp(s);
}

static void end(side_t *s)
{
    close_qp(s);
    pgas_verbs_mem_release(s->dev, &s->mem);
    must(pgas_verbs_close(s->dev), "close");
}

static void to_itself(const side_t *s)
{
    pgas_verbs_address_t self;
    qp_address(s->qp, &self);
    must(pgas_verbs_qp_connect(s->qp, &self), "connect to itself");
}

static void connect_sides(const side_t *s, int socket, told_t *theirs)
{
    told_t mine = { .addr = (uint64_t)(uintptr_t)s->mem.addr, .rkey = s->mem.rkey };
    qp_address(s->qp, &mine.qp);
    if (write(socket, &mine, sizeof mine) != (ssize_t)sizeof mine ||
        read(socket, theirs, sizeof *theirs) != (ssize_t)sizeof *theirs)
        bail("the other process is gone");
    must(pgas_verbs_qp_connect(s->qp, &theirs->qp), "connect");
}

static void post(const side_t *s, pgas_verbs_op_t op, uint64_t addr, uint32_t rkey)
{
    pgas_verbs_span_t span = { (uintptr_t)s->mem.addr, 8, s->mem.lkey };
    pgas_verbs_request_t r = { .op = op,
                               .flags = PGAS_VERBS_SIGNAL,
                               .id = 1,
                               .spans = &span,
                               .n_spans = 1,
                               .remote_addr = addr,
                               .rkey = rkey };
    must(pgas_verbs_qp_post(s->qp, &r, 1, NULL), "a post");
}

static void receive(const side_t *s)
{
    pgas_verbs_span_t room = { (uintptr_t)s->mem.addr + 1024, 64, s->mem.lkey };
    const pgas_verbs_recv_t recv = { 2, &room, 1 };
    must(pgas_verbs_qp_recv(s->qp, &recv, 1, NULL), "a receive buffer");
}

static pgas_status_t completed(const side_t *s)
{
    pgas_verbs_completion_t c = { .status = PGAS_ERR_TIMEOUT };
    pgas_status_t status = pgas_verbs_cq_wait(s->cq, 20 * SECOND_US);
    if (status == PGAS_OK && pgas_verbs_cq_poll(s->cq, &c, 1) == 1)
        status = c.status;
    return status;
}

static void tell(int socket)
{
    char byte = 0;
    if (write(socket, &byte, 1) != 1)
        bail("the other process is gone");
}

static bool hear(int socket)
{
    char byte;
    return read(socket, &byte, 1) == 1;
}

/** Runs `body` in another process, with a socket to here. */
typedef void (*body_t)(pgas_verbs_engine_t engine, int socket);
static pid_t start(body_t body, pgas_verbs_engine_t engine, int *socket_p)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        bail("no sockets: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(sockets[0]);
        body(engine, sockets[1]);
        _exit(0);
    }
    close(sockets[1]);
    *socket_p = sockets[0];
    return pid;
}

/* @return whether it has exited with success */
static bool finish(pid_t pid, int socket)
{
    int status;
    close(socket);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- one process ---- */

static bool enough;

static void *register_and_release(void *arg)
{
    const side_t *s = arg;
    static char bytes[4096];
    while (!__atomic_load_n(&enough, __ATOMIC_ACQUIRE)) {
        pgas_verbs_mem_t mem;
        must(pgas_verbs_mem_register(s->dev, bytes, sizeof bytes, PGAS_VERBS_ACCESS_ALL, &mem),
             "register");
        pgas_verbs_mem_release(s->dev, &mem);
    }
    return NULL;
}

static void test_release_beside_connect(void)
{
    side_t s;
    pthread_t thread;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    pthread_create(&thread, NULL, register_and_release, &s);
    for (int i = 0; i < ROUNDS; i++) {
        close_qp(&s);
        open_qp(&s);
        to_itself(&s);
    }
    __atomic_store_n(&enough, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    end(&s);
    ok(true, "one thread connects queue pairs, another releases memory");
}

static void test_key_again(void)
{
    static uint64_t words[2];
    pgas_verbs_mem_t mem;
    side_t s;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    to_itself(&s);
    must(pgas_verbs_mem_register(s.dev, &words[0], 8, PGAS_VERBS_ACCESS_ALL, &mem), "register");
    uint32_t first = mem.rkey;
    *(uint64_t *)s.mem.addr = 1;
    post(&s, PGAS_VERBS_WRITE, (uintptr_t)&words[0], mem.rkey);
    is_int(completed(&s), PGAS_OK, "a write to memory");
    pgas_verbs_mem_release(s.dev, &mem);
    for (int i = 0; i < TAGS; i++) {
        must(pgas_verbs_mem_register(s.dev, &words[1], 8, PGAS_VERBS_ACCESS_ALL, &mem), "register");
        if (mem.rkey == first)
            break;
        pgas_verbs_mem_release(s.dev, &mem);
    }
    if (mem.rkey != first)
        diag("keys do not come again so soon");
    *(uint64_t *)s.mem.addr = 2;
    post(&s, PGAS_VERBS_WRITE, (uintptr_t)&words[1], mem.rkey);
    is_int(completed(&s), PGAS_OK, "a write to other memory, whose key comes again");
    ok(words[0] == 1 && words[1] == 2, "goes there");
    pgas_verbs_mem_release(s.dev, &mem);
    end(&s);
}

static void test_kept(void)
{
    side_t s;
    pgas_verbs_completion_t c;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    to_itself(&s);
    post(&s, PGAS_VERBS_NOP, 0, 0);
    is_int(pgas_verbs_cq_wait(s.cq, SECOND_US), PGAS_OK, "a completion was waited for");
    is_int(pgas_verbs_cq_arm(s.cq, false), PGAS_ERR_BUSY, "and is there when the queue is armed");
    pgas_verbs_qp_destroy(s.qp);
    ok(pgas_verbs_cq_poll(s.cq, &c, 1) == 1 && !c.qp,
       "its queue pair was closed before it was polled");
    must(pgas_verbs_cq_destroy(s.cq), "close");
    open_qp(&s);
    end(&s);
}

/* A message to a shared receive queue that was closed is polled when another is in its place, all
 * of whose buffers are posted. */
static void test_shared_again(void)
{
    static uint64_t words[4];
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_completion_t c = { .id = 99 };
    pgas_verbs_cq_t *cq;
    int n_right = 0;
    side_t s;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    must(pgas_verbs_cq_create(s.dev, 16, 0, &cq), "a completion queue");
    opts.send_cq = s.cq;
    opts.recv_cq = cq;
    for (uint64_t round = 0; round < 2; round++) {
        pgas_verbs_address_t self;
        pgas_verbs_qp_t *qp;
        must(pgas_verbs_srq_create(s.dev, 3, 1, &opts.srq), "a shared receive queue");
        for (uint64_t i = 0; i < 3; i++) {
            pgas_verbs_span_t room = { (uintptr_t)s.mem.addr + 64 * i, 64, s.mem.lkey };
            const pgas_verbs_recv_t recv = { 10 * round + i + 1, &room, 1 };
            must(pgas_verbs_srq_recv(opts.srq, &recv, 1, NULL), "a receive buffer");
        }
        must(pgas_verbs_qp_create(s.dev, &opts, &qp), "a queue pair");
        qp_address(qp, &self);
        must(pgas_verbs_qp_connect(qp, &self), "connect to itself");
        if (round == 1) {
            int n = pgas_verbs_cq_poll(cq, &c, 1);
            ok(n == 1 && !c.qp && c.id == 0,
               "completions of a closed queue are not another's: %d with id %d", n, (int)c.id);
        }
        for (uint64_t i = 0; i < (round == 0 ? 1 : 3); i++) {
            pgas_verbs_span_t span = { (uintptr_t)&words[i], 8, 0 };
            pgas_verbs_request_t r = {
                .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_INLINE, .spans = &span, .n_spans = 1
            };
            must(pgas_verbs_qp_post(qp, &r, 1, NULL), "a post");
            if (round == 1)
                n_right += pgas_verbs_cq_wait(cq, 20 * SECOND_US) == PGAS_OK &&
                           pgas_verbs_cq_poll(cq, &c, 1) == 1 && c.id == 11 + i;
        }
        pgas_verbs_qp_destroy(qp);
        must(pgas_verbs_srq_destroy(opts.srq), "close");
    }
    is_int(n_right, 3, "and its buffers are used once each, in order");
    must(pgas_verbs_cq_destroy(cq), "close");
    end(&s);
}

static void test_refusals(void)
{
    side_t s;
    pgas_verbs_mem_t mem;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    char *gap = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(gap + 4096, 4096);
    is_int(pgas_verbs_mem_register(s.dev, gap, 3 * 4096, PGAS_VERBS_ACCESS_ALL, &mem),
           PGAS_ERR_INVALID, "memory with a hole");
    is_int(pgas_verbs_mem_register(s.dev, gap, SIZE_MAX, PGAS_VERBS_ACCESS_ALL, &mem),
           PGAS_ERR_INVALID, "memory around the end");
    is_int(pgas_verbs_mem_register(s.dev, gap + 4095, 1, PGAS_VERBS_ACCESS_ALL, &mem), PGAS_OK,
           "its last byte");
    pgas_verbs_mem_release(s.dev, &mem);
    munmap(gap, 4096);
    munmap(gap + 2 * 4096, 4096);
    pgas_verbs_span_t room = { (uintptr_t)s.mem.addr, (UINT32_C(1) << 31) + 5, s.mem.lkey };
    const pgas_verbs_recv_t recv = { 1, &room, 1 };
    is_int(pgas_verbs_qp_recv(s.qp, &recv, 1, NULL), PGAS_ERR_LIMIT,
           "a receive buffer of more than 2 GiB");
    pgas_verbs_cq_t *cq;
    is_int(pgas_verbs_cq_create(NULL, 16, 0, &cq), PGAS_ERR_INVALID,
           "a completion queue of no device");
    is_int(pgas_verbs_qp_connect(s.qp, NULL), PGAS_ERR_INVALID, "no address");
    pgas_verbs_mem_t no_memory = { 0 };
    ok(pgas_verbs_close(NULL) == PGAS_OK && pgas_verbs_cq_destroy(NULL) == PGAS_OK &&
           pgas_verbs_srq_destroy(NULL) == PGAS_OK && pgas_verbs_qp_destroy(NULL) == PGAS_OK &&
           pgas_verbs_tx_destroy(NULL) == PGAS_OK &&
           pgas_verbs_mem_release(NULL, &no_memory) == PGAS_OK,
       "no object is none to destroy");
    struct rlimit old, none = { 0, 0 };
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_dev_t *dev;
    opts.device = "snic";
    getrlimit(RLIMIT_NOFILE, &old);
    none.rlim_max = old.rlim_max;
    setrlimit(RLIMIT_NOFILE, &none);
    pgas_status_t status = pgas_verbs_open(&opts, &dev);
    setrlimit(RLIMIT_NOFILE, &old);
    is_int(status, PGAS_ERR_LIMIT, "a device when no descriptors are left");
    end(&s);
}

/* ---- two processes ---- */

/* Makes its queues twice, with the same descriptors, and sleeps for a message each time. */
static void receiver_again(pgas_verbs_engine_t engine, int socket)
{
    side_t s;
    told_t theirs;
    begin(&s, engine);
    for (int round = 0; round < 2; round++) {
        struct pollfd wanted = { .events = POLLIN };
        pgas_verbs_completion_t c;
        receive(&s);
        must(pgas_verbs_cq_arm(s.cq, false), "arm");
        must(pgas_verbs_cq_fd(s.cq, &wanted.fd), "descriptor");
        connect_sides(&s, socket, &theirs);
        if (poll(&wanted, 1, 20000) != 1 || pgas_verbs_cq_poll(s.cq, &c, 1) != 1 ||
            c.status != PGAS_OK)
            _exit(1);
        tell(socket);
        if (!hear(socket))
            _exit(2);
        close_qp(&s);
        open_qp(&s);
    }
}

static void test_events_again(pgas_verbs_engine_t engine, const char *text)
{
    int socket;
    pid_t pid = start(receiver_again, engine, &socket);
    side_t s;
    told_t theirs;
    begin(&s, engine);
    side_t keeps = s; /* a queue pair that knows the other process all the time */
    bool woken = true;
    for (int round = 0; round < 2 && woken; round++) {
        connect_sides(&s, socket, &theirs);
        if (round == 0) {
            open_qp(&keeps);
            must(pgas_verbs_qp_connect(keeps.qp, &theirs.qp), "another queue pair");
        }
        post(&s, PGAS_VERBS_SEND, 0, 0);
        must(completed(&s), "a message");
        woken = hear(socket);
        if (woken)
            tell(socket);
        close_qp(&s);
        open_qp(&s);
    }
    ok(finish(pid, socket) && woken, "%s: a receiver whose queue came anew is woken", text);
    close_qp(&keeps);
    end(&s);
}

static void plain_peer(pgas_verbs_engine_t engine, int socket)
{
    side_t s;
    told_t theirs;
    begin(&s, engine);
    connect_sides(&s, socket, &theirs);
    while (hear(socket)) {
    }
    end(&s);
}

static void test_other_peer(pgas_verbs_engine_t engine, const char *text)
{
    side_t s;
    told_t theirs;
    begin(&s, engine);
    for (int round = 0; round < 2; round++) {
        int socket;
        pid_t pid = start(plain_peer, engine, &socket);
        connect_sides(&s, socket, &theirs);
        post(&s, PGAS_VERBS_WRITE, theirs.addr, theirs.rkey);
        is_int(completed(&s), PGAS_OK, "%s: a write to process %d at the same place", text, round);
        finish(pid, socket);
        close_qp(&s);
        open_qp(&s);
    }
    end(&s);
}

static void writing_child(pgas_verbs_engine_t engine, int socket)
{
    side_t s;
    told_t theirs;
    begin(&s, engine);
    connect_sides(&s, socket, &theirs);
    *(uint64_t *)s.mem.addr = 77;
    post(&s, PGAS_VERBS_WRITE, theirs.addr, theirs.rkey);
    must(completed(&s), "a write to the parent");
    tell(socket);
    hear(socket);
    end(&s);
}

/* It knows its parent's device from before, at the same addresses. */
static void test_forked_later(pgas_verbs_engine_t engine, const char *text)
{
    static uint64_t word;
    int socket;
    side_t s;
    told_t theirs;
    word = 0;
    open_device(&s, engine);
    must(pgas_verbs_mem_register(s.dev, &word, sizeof word, PGAS_VERBS_ACCESS_ALL, &s.mem),
         "register");
    open_qp(&s);
    pid_t pid = start(writing_child, engine, &socket);
    connect_sides(&s, socket, &theirs);
    ok(hear(socket) && __atomic_load_n(&word, __ATOMIC_ACQUIRE) == 77,
       "%s: a child that was forked later writes to its parent", text);
    finish(pid, socket);
    end(&s);
}

#define FEW 64

/** All descriptors below FEW, in use. */
typedef struct {
    struct rlimit old;
    int fds[FEW], n;
} full_t;

static void fill(full_t *full)
{
    getrlimit(RLIMIT_NOFILE, &full->old);
    struct rlimit few = full->old;
    few.rlim_cur = FEW;
    setrlimit(RLIMIT_NOFILE, &few);
    full->n = 0;
    for (int fd; full->n < FEW && (fd = open("/dev/null", O_RDONLY)) >= 0;)
        full->fds[full->n++] = fd;
}

static void empty(full_t *full)
{
    while (full->n > 0)
        close(full->fds[--full->n]);
    setrlimit(RLIMIT_NOFILE, &full->old);
}

/* With all descriptors in use no process can check whether the other one runs. */
static void test_no_descriptors(void)
{
    int socket, n_failed = 0;
    full_t full;
    pid_t pid = start(plain_peer, PGAS_VERBS_ENGINE_CALLER, &socket);
    side_t s;
    told_t theirs;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    connect_sides(&s, socket, &theirs);
    post(&s, PGAS_VERBS_WRITE, theirs.addr, theirs.rkey);
    must(completed(&s), "a write");
    fill(&full);
    uint64_t begin_ns = pgasi_now_ns();
    while (n_failed == 0 && pgasi_now_ns() - begin_ns < WRITING_NS) {
        post(&s, PGAS_VERBS_WRITE, theirs.addr, theirs.rkey);
        n_failed += completed(&s) != PGAS_OK;
    }
    empty(&full);
    is_int(n_failed, 0, "a peer is not taken for dead for want of descriptors");
    finish(pid, socket);
    end(&s);
}

/* Gives an address, closes the device, and puts an empty file in place of its descriptors. */
static void gone_peer(pgas_verbs_engine_t engine, int socket)
{
    side_t s;
    told_t mine;
    begin(&s, engine);
    qp_address(s.qp, &mine.qp);
    end(&s);
    for (int i = 0; i < 8; i++)
        if (memfd_create("other", MFD_CLOEXEC) < 0)
            _exit(1);
    if (write(socket, &mine, sizeof mine) != (ssize_t)sizeof mine)
        _exit(1);
    while (hear(socket)) {
    }
}

static void test_stale_address(void)
{
    int socket;
    told_t theirs;
    pid_t pid = start(gone_peer, PGAS_VERBS_ENGINE_CALLER, &socket);
    side_t s;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    if (read(socket, &theirs, sizeof theirs) != (ssize_t)sizeof theirs)
        bail("the other process is gone");
    is_int(pgas_verbs_qp_connect(s.qp, &theirs.qp), PGAS_ERR_PEER,
           "an address whose device was closed");
    finish(pid, socket);
    end(&s);
}

/* Sleeps for a message, with memory that no process has mapped yet, and no thread polls meanwhile.
 * */
static void sleep_until(pgas_verbs_engine_t engine, int socket, pgas_status_t expected)
{
    side_t s;
    told_t theirs;
    struct pollfd wanted = { .events = POLLIN };
    begin(&s, engine);
    receive(&s);
    must(pgas_verbs_cq_arm(s.cq, false), "arm");
    must(pgas_verbs_cq_fd(s.cq, &wanted.fd), "descriptor");
    connect_sides(&s, socket, &theirs);
    if (poll(&wanted, 1, 10000) != 1)
        _exit(1);
    _exit(completed(&s) == expected ? 0 : 2);
}

/* A refused write ends this side too. */
static void sleeping_peer(pgas_verbs_engine_t engine, int socket)
{
    sleep_until(engine, socket, PGAS_ERR_PEER);
}

static void sleeping_receiver(pgas_verbs_engine_t engine, int socket)
{
    sleep_until(engine, socket, PGAS_OK);
}

static void test_wakes_without_descriptors(void)
{
    int socket;
    full_t full;
    pid_t pid = start(sleeping_receiver, PGAS_VERBS_ENGINE_CALLER, &socket);
    side_t s;
    told_t theirs;
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    connect_sides(&s, socket, &theirs);
    fill(&full);
    post(&s, PGAS_VERBS_FADD, theirs.addr, theirs.rkey);
    pgas_status_t status = completed(&s);
    post(&s, PGAS_VERBS_SEND, 0, 0);
    must(completed(&s), "a message");
    empty(&full);
    is_int(status, PGAS_OK, "an addition over there needs no further descriptor");
    ok(finish(pid, socket), "a sleeping thread is woken by a process without descriptors");
    end(&s);
}

static void test_connects_without_descriptors(void)
{
    int socket;
    full_t full;
    pid_t pid = start(plain_peer, PGAS_VERBS_ENGINE_CALLER, &socket);
    side_t s;
    told_t theirs = { .rkey = 0 };
    begin(&s, PGAS_VERBS_ENGINE_CALLER);
    told_t mine = { .addr = (uint64_t)(uintptr_t)s.mem.addr, .rkey = s.mem.rkey };
    qp_address(s.qp, &mine.qp);
    if (write(socket, &mine, sizeof mine) != (ssize_t)sizeof mine ||
        read(socket, &theirs, sizeof theirs) != (ssize_t)sizeof theirs)
        bail("the other process is gone");
    fill(&full);
    pgas_status_t status = pgas_verbs_qp_connect(s.qp, &theirs.qp);
    empty(&full);
    is_int(status, PGAS_ERR_LIMIT, "no descriptors are left to connect");
    finish(pid, socket);
    end(&s);
}

static void test_sleeper_learns(pgas_verbs_engine_t engine, const char *text)
{
    int socket;
    pid_t pid = start(sleeping_peer, engine, &socket);
    side_t s;
    told_t theirs;
    begin(&s, engine);
    connect_sides(&s, socket, &theirs);
    post(&s, PGAS_VERBS_WRITE, theirs.addr, theirs.rkey + 1);
    is_int(completed(&s), PGAS_ERR_RANGE, "%s: a write that is refused", text);
    ok(finish(pid, socket), "%s: the other side is woken: its buffer is flushed", text);
    end(&s);
}

/* Writes that need nothing of the other process continue until a thread checks it. */
static void test_death_is_seen(pgas_verbs_engine_t engine, const char *text)
{
    int socket;
    pid_t pid = start(plain_peer, engine, &socket);
    pgas_status_t status = PGAS_OK;
    side_t s;
    told_t theirs;
    begin(&s, engine);
    connect_sides(&s, socket, &theirs);
    kill(pid, SIGKILL);
    for (int i = 0; i < FEW_WRITES && status == PGAS_OK; i++) {
        post(&s, PGAS_VERBS_WRITE, theirs.addr, theirs.rkey);
        status = completed(&s);
        usleep(1000);
    }
    is_int(status, PGAS_ERR_PEER, "%s: few writes to a process that was killed", text);
    finish(pid, socket);
    end(&s);
}

/* A peer that holds the locks of its own queue pairs for a while. */
static void locked_peer(pgas_verbs_engine_t engine, int socket)
{
    pgas_verbs_address_t address;
    pgasi_snic_id_t id;
    pgas_status_t status;
    side_t s;
    told_t theirs;
    begin(&s, engine);
    qp_address(s.qp, &address);
    memcpy(&id, address.bytes + sizeof(pgasi_verbs_address_head_t) + 2 * sizeof(uint32_t),
           sizeof id);
    snic_view_t *view = pgasi_snic_view_get(&id, &status);
    must(status, "its own region");
    connect_sides(&s, socket, &theirs);
    hear(socket);
    for (uint32_t i = 0; i < view->devmem->qps_high; i++)
        pgasi_snic_lock(&view->devmem->qps[i].lock);
    tell(socket);
    hear(socket);
    for (uint32_t i = 0; i < view->devmem->qps_high; i++)
        snic_unlock(&view->devmem->qps[i].lock);
    while (hear(socket)) {
    }
    pgasi_snic_view_put(view);
    end(&s);
}

static void test_locked_client(void)
{
    int socket;
    pid_t pid = start(locked_peer, PGAS_VERBS_ENGINE_PROCESS, &socket);
    side_t s, other;
    told_t theirs;
    pgas_verbs_completion_t c;
    begin(&s, PGAS_VERBS_ENGINE_PROCESS);
    begin(&other, PGAS_VERBS_ENGINE_PROCESS);
    connect_sides(&s, socket, &theirs);
    to_itself(&other);
    tell(socket);
    hear(socket);
    post(&s, PGAS_VERBS_WRITE, theirs.addr, theirs.rkey);
    bool good = true;
    for (int i = 0; i < LOCKED_WRITES && good; i++) {
        post(&other, PGAS_VERBS_WRITE, (uintptr_t)other.mem.addr, other.mem.rkey);
        good = completed(&other) == PGAS_OK;
    }
    ok(good, "a client in the locks of its queue pairs delays no other client");
    is_int(pgas_verbs_cq_poll(s.cq, &c, 1), 0, "its requests wait");
    tell(socket);
    is_int(completed(&s), PGAS_OK, "and continues afterwards");
    finish(pid, socket);
    end(&other);
    end(&s);
}

static int n_descriptors(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* Every word of a client's region is input, so the number of a descriptor's life may be 0. */
static void test_event_without_serial(void)
{
    pgasi_snic_opts_t opts = { .engine = PGAS_VERBS_ENGINE_CALLER, .engine_name = "events" };
    pgasi_snic_t *snic;
    int pipes[2][2], before = n_descriptors();
    must(pgasi_snic_open(&opts, &snic), "a context");
    if (pipe(pipes[0]) != 0 || pipe(pipes[1]) != 0)
        bail("no pipes");
    for (int i = 0; i < MANY_EVENTS; i++)
        pgasi_snic_view_event(snic->view, pipes[i % 2][1], 0);
    pgasi_snic_close(snic);
    for (int i = 0; i < 4; i++)
        close(pipes[i / 2][i % 2]);
    is_int(n_descriptors(), before, "an event pipe whose number is 0 is closed too");
}

/* Its holder has died, and no process has waited for it. */
static void test_lock_of_zombie(void)
{
    uint64_t *lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(pgasi_snic_try_lock(lock) ? 0 : 1);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    pgasi_snic_lock(lock);
    ok(info.si_status == 0 && (uint32_t)*lock != (uint32_t)pid,
       "a lock is taken over from a zombie");
    pid_t second = fork();
    if (second == 0) {
        pgasi_snic_try_lock(&lock[2]);
        _exit(0);
    }
    waitpid(second, NULL, 0);
    is_int((uint32_t)lock[2], second, "a forked process locks by its own name");
    waitpid(pid, NULL, 0);
    munmap(lock, 4096);
}

static void *lock_it(void *arg)
{
    uint64_t *lock = arg;
    pgasi_snic_lock(lock);
    __atomic_store_n(&lock[1], 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Its holder has died and a thread that lives, this one, has got its number; a holder that lives
 * keeps it. */
static void test_lock_of_used_id(void)
{
    uint64_t lock[2] = { 0, 0 };
    pthread_t thread;
    pgasi_snic_lock(&lock[0]);
    pthread_create(&thread, NULL, lock_it, lock);
    for (int i = 0; i < LOOKS; i++)
        sched_yield();
    is_int((long)__atomic_load_n(&lock[1], __ATOMIC_ACQUIRE), 0,
           "a lock whose holder lives is not taken over");
    /* it started at another time */
    __atomic_store_n(&lock[0], lock[0] + (UINT64_C(1) << 32), __ATOMIC_RELEASE);
    uint64_t until_ns = pgasi_now_ns() + 20 * SECOND_NS;
    while (__atomic_load_n(&lock[1], __ATOMIC_ACQUIRE) == 0 && pgasi_now_ns() < until_ns)
        sched_yield();
    is_int((long)__atomic_load_n(&lock[1], __ATOMIC_ACQUIRE), 1,
           "one whose holder's number is another thread's now is");
    if (lock[1] == 1)
        pthread_join(thread, NULL);
}

/* Writes all the time to memory that the other process only registered. */
static void busy_writer(pgas_verbs_engine_t engine, int socket)
{
    side_t s;
    told_t theirs;
    pgas_verbs_mem_t mem;
    begin(&s, engine);
    must(pgas_verbs_mem_register(s.dev, NULL, MUCH, PGAS_VERBS_ACCESS_ALL, &mem), "memory");
    memset(mem.addr, 1, MUCH);
    connect_sides(&s, socket, &theirs);
    for (;;) {
        pgas_verbs_span_t span = { (uintptr_t)mem.addr, MUCH, mem.lkey };
        pgas_verbs_request_t r = { .op = PGAS_VERBS_WRITE,
                                   .flags = PGAS_VERBS_SIGNAL,
                                   .spans = &span,
                                   .n_spans = 1,
                                   .remote_addr = theirs.addr,
                                   .rkey = theirs.rkey };
        must(pgas_verbs_qp_post(s.qp, &r, 1, NULL), "a post");
        if (completed(&s) != PGAS_OK)
            break;
    }
    while (hear(socket)) {
    }
    _exit(0);
}

static void test_release_under_write(pgas_verbs_engine_t engine, const char *text)
{
    int socket;
    pid_t pid = start(busy_writer, engine, &socket);
    volatile char *room =
        mmap(NULL, MUCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    side_t s;
    told_t theirs;
    begin(&s, engine);
    pgas_verbs_mem_t own = s.mem;
    must(pgas_verbs_mem_register(s.dev, (void *)(uintptr_t)room, MUCH, PGAS_VERBS_ACCESS_ALL,
                                 &s.mem),
         "register");
    connect_sides(&s, socket, &theirs);
    while (__atomic_load_n(&room[0], __ATOMIC_RELAXED) == 0) {
    }
    pgas_verbs_mem_release(s.dev, &s.mem);
    long n_late = 0;
    for (size_t i = 0; i < MUCH; i += 4096)
        room[i] = 7;
    uint64_t begin_ns = pgasi_now_ns();
    while (pgasi_now_ns() - begin_ns < WRITING_NS)
        sched_yield();
    for (size_t i = 0; i < MUCH; i += 4096)
        n_late += room[i] != 7;
    is_int(n_late, 0, "%s: memory that was released is not written to any more", text);
    s.mem = own;
    finish(pid, socket);
    end(&s);
    munmap((void *)(uintptr_t)room, MUCH);
}

/* ---- the process that executes ---- */

/* Starts the process in the foreground, under the name of this test's devices. It is running on
 * return: otherwise the next open of a device would start another one. A process that checks the
 * name takes it for a moment. */
static pid_t start_nic(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        while (pgas_verbs_snic_serve(name, 10 * SECOND_US) == PGAS_ERR_EXISTS)
            sched_yield();
        _exit(0);
    }
    while (pgas_verbs_snic_serve(name, 1) != PGAS_ERR_EXISTS)
        usleep(100);
    return pid;
}

static void test_nic_killed(void)
{
    side_t s;
    pgas_verbs_completion_t c;
    int status;
    snprintf(name, sizeof name, "killed-%d", (int)getpid());
    pid_t pid = start_nic();
    begin(&s, PGAS_VERBS_ENGINE_PROCESS);
    to_itself(&s);
    post(&s, PGAS_VERBS_NOP, 0, 0);
    is_int(completed(&s), PGAS_OK, "a process executes");
    kill(pid, SIGKILL);
    post(&s, PGAS_VERBS_NOP, 0, 0);
    pgas_status_t waited = pgas_verbs_cq_wait(s.cq, 10 * SECOND_US);
    if (waited == PGAS_OK && pgas_verbs_cq_poll(s.cq, &c, 1) == 1) { /* it was faster */
        post(&s, PGAS_VERBS_NOP, 0, 0);
        waited = pgas_verbs_cq_wait(s.cq, 10 * SECOND_US);
    }
    is_int(waited, PGAS_ERR_TRANSPORT, "it was killed: waiting ends");
    end(&s);
    waitpid(pid, &status, 0);
    ok(WIFSIGNALED(status), "all could be closed");
}

int main(void)
{
    plan(51);
    test_release_beside_connect();
    test_key_again();
    test_kept();
    test_shared_again();
    test_refusals();
    test_events_again(PGAS_VERBS_ENGINE_CALLER, "caller");
    test_events_again(PGAS_VERBS_ENGINE_PROCESS, "process");
    test_other_peer(PGAS_VERBS_ENGINE_CALLER, "caller");
    test_other_peer(PGAS_VERBS_ENGINE_PROCESS, "process");
    test_forked_later(PGAS_VERBS_ENGINE_CALLER, "caller");
    test_forked_later(PGAS_VERBS_ENGINE_THREAD, "thread");
    test_forked_later(PGAS_VERBS_ENGINE_PROCESS, "process");
    test_no_descriptors();
    test_wakes_without_descriptors();
    test_connects_without_descriptors();
    test_stale_address();
    test_sleeper_learns(PGAS_VERBS_ENGINE_CALLER, "caller");
    test_sleeper_learns(PGAS_VERBS_ENGINE_PROCESS, "process");
    test_death_is_seen(PGAS_VERBS_ENGINE_CALLER, "caller");
    test_death_is_seen(PGAS_VERBS_ENGINE_THREAD, "thread");
    test_death_is_seen(PGAS_VERBS_ENGINE_PROCESS, "process");
    test_locked_client();
    test_event_without_serial();
    test_lock_of_zombie();
    test_lock_of_used_id();
    test_release_under_write(PGAS_VERBS_ENGINE_CALLER, "caller");
    test_release_under_write(PGAS_VERBS_ENGINE_PROCESS, "process");
    test_nic_killed();
    return done();
}
