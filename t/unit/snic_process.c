/* t/unit/snic_process.c
 *   what:   Two processes transfer, and one posts a chain (WAIT, SEND_ENABLE, a write back). With
 *           the software NIC in a process of its own the chain runs while its owner is stopped;
 *           otherwise it runs when the owner continues. After kill -9 requests end with
 *           PGAS_ERR_PEER. Private memory of the other process is reached too. Atomics reach it
 *           only where the software NIC is a process, which executes all of them.
 *   needs:  no-sanitizers
 *   source: Hyperloop (replicas take part without their CPUs) */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "pgas/verbs.h"
#include "t/must.h"
#include "t/queue_pairs.h"
#include "t/tap.h"

#define SECOND_US INT64_C(1000000)
#define HANG_S    30
#define LOOKS     2000

/** The objects of each process: one queue pair to the other, and in the child a managed one that
 *  writes back. */
typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *send_cq, *recv_cq;
    pgas_verbs_qp_t *qp, *back, *master;
    pgas_verbs_mem_t mem, private;
    volatile uint64_t *words;
} side_t;

/** The messages between the two processes. */
typedef struct {
    pgas_verbs_address_t qp, back;
    uint64_t addr, private_addr;
    uint32_t rkey, private_rkey;
} told_t;

static uint64_t private_words[512];

static pgas_verbs_qp_t *make_qp(const side_t *s, uint32_t flags)
{
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    pgas_verbs_qp_t *qp = NULL;
    opts.send_cq = s->send_cq;
    opts.recv_cq = s->recv_cq;
    opts.flags = flags;
    must(pgas_verbs_qp_create(s->dev, &opts, &qp), "a queue pair");
    return qp;
}

static void begin(side_t *s, pgas_verbs_engine_t engine, const char *name)
{
    pgas_verbs_dev_opts_t opts = PGAS_VERBS_DEV_OPTS_INIT;
    opts.device = "snic";
    opts.engine = engine;
    opts.engine_name = name;
    memset(s, 0, sizeof *s);
    must(pgas_verbs_open(&opts, &s->dev), "the device");
    must(pgas_verbs_mem_register(s->dev, NULL, 1 << 16, PGAS_VERBS_ACCESS_ALL, &s->mem), "memory");
    must(pgas_verbs_mem_register(s->dev, private_words, sizeof private_words, PGAS_VERBS_ACCESS_ALL,
                                 &s->private),
         "private memory");
    must(pgas_verbs_cq_create(s->dev, 256, 0, &s->send_cq), "a completion queue");
    must(pgas_verbs_cq_create(s->dev, 256, 0, &s->recv_cq), "a completion queue");
    s->words = s->mem.addr;
    s->qp = make_qp(s, 0);
    s->back = make_qp(s, PGAS_VERBS_QP_MANAGED_SEND);
    s->master = make_qp(s, PGAS_VERBS_QP_MASTER);
}

static void end(side_t *s)
{
    pgas_verbs_qp_destroy(s->qp);
    pgas_verbs_qp_destroy(s->back);
    pgas_verbs_qp_destroy(s->master);
    pgas_verbs_cq_destroy(s->send_cq);
    pgas_verbs_cq_destroy(s->recv_cq);
    pgas_verbs_mem_release(s->dev, &s->mem);
    pgas_verbs_mem_release(s->dev, &s->private);
    must(pgas_verbs_close(s->dev), "close");
}

static void connect_sides(side_t *s, int socket, told_t *theirs)
{
    told_t mine = { .addr = (uint64_t)(uintptr_t)s->mem.addr,
                    .private_addr = (uint64_t)(uintptr_t)private_words,
                    .rkey = s->mem.rkey,
                    .private_rkey = s->private.rkey };
    pgas_verbs_address_t self;
    qp_address(s->qp, &mine.qp);
    qp_address(s->back, &mine.back);
    qp_address(s->master, &self);
    if (write(socket, &mine, sizeof mine) != (ssize_t)sizeof mine ||
        read(socket, theirs, sizeof *theirs) != (ssize_t)sizeof *theirs)
        bail("the other process is gone");
    must(pgas_verbs_qp_connect(s->qp, &theirs->qp), "connect");
    must(pgas_verbs_qp_connect(s->back, &theirs->back), "connect the managed one");
    must(pgas_verbs_qp_connect(s->master, &self), "connect to itself");
}

static void request(side_t *s, pgas_verbs_qp_t *qp, pgas_verbs_request_t r, uint64_t from,
                    uint32_t bytes)
{
    pgas_verbs_span_t span = { from, bytes, s->mem.lkey };
    r.spans = &span;
    r.n_spans = bytes > 0;
    must(pgas_verbs_qp_post(qp, &r, 1, NULL), "post");
}

static pgas_status_t completed(pgas_verbs_cq_t *cq)
{
    pgas_verbs_completion_t c = { .status = PGAS_ERR_TIMEOUT };
    pgas_status_t status = pgas_verbs_cq_wait(cq, HANG_S * SECOND_US);
    if (status == PGAS_OK && pgas_verbs_cq_poll(cq, &c, 1) == 1)
        status = c.status;
    return status;
}

/* The child: when a message comes, word 9 goes to the parent's word 8, without the child. It posts
 * this and stops. */
static void child(pgas_verbs_engine_t engine, const char *name, int socket)
{
    side_t s;
    told_t parent;
    char byte = 0;
    begin(&s, engine, name);
    connect_sides(&s, socket, &parent);
    pgas_verbs_span_t room = { (uint64_t)(uintptr_t)&s.words[16], 64, s.mem.lkey };
    const pgas_verbs_recv_t recv = { 1, &room, 1 };
    s.words[9] = 4711;
    must(pgas_verbs_qp_recv(s.qp, &recv, 1, NULL), "a receive buffer");
    request(&s, s.back,
            (pgas_verbs_request_t){
                .op = PGAS_VERBS_WRITE, .remote_addr = parent.addr + 64, .rkey = parent.rkey },
            (uint64_t)(uintptr_t)&s.words[9], 8);
    request(&s, s.master,
            (pgas_verbs_request_t){ .op = PGAS_VERBS_WAIT, .cq = s.recv_cq, .index = 0 }, 0, 0);
    request(&s, s.master,
            (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND_ENABLE,
                                    .qp = s.back,
                                    .index = pgas_verbs_qp_position(s.back) },
            0, 0);
    if (write(socket, &byte, 1) != 1 || raise(SIGSTOP) != 0)
        bail("the child cannot stop");
    while (read(socket, &byte, 1) == 1) { /* until the parent ends us */
    }
    _exit(0);
}

static bool arrives(side_t *s)
{
    for (int i = 0; i < HANG_S * 10000; i++) {
        pgas_verbs_completion_t c;
        if (s->words[8] == 4711)
            return true;
        pgas_verbs_cq_poll(s->recv_cq, &c, 1);
        usleep(100);
    }
    return false;
}

static void idle_child(pgas_verbs_engine_t engine, const char *name, int socket)
{
    side_t s;
    told_t parent;
    char byte;
    begin(&s, engine, name);
    connect_sides(&s, socket, &parent);
    while (read(socket, &byte, 1) == 1) {
    }
    _exit(0);
}

/* A child and we ourselves, connected. @return its pid; *socket_p leads to it */
static pid_t with_child(pgas_verbs_engine_t engine,
                        void (*body)(pgas_verbs_engine_t engine, const char *name, int socket),
                        side_t *s, told_t *theirs, int *socket_p)
{
    int sockets[2];
    char name[64];
    snprintf(name, sizeof name, "t-%d", (int)getpid());
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0)
        bail("no sockets: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(sockets[0]);
        body(engine, name, sockets[1]);
    }
    close(sockets[1]);
    begin(s, engine, name);
    connect_sides(s, sockets[0], theirs);
    *socket_p = sockets[0];
    return pid;
}

/* An addition to 77 is under way. */
static void atomics_reach_private_memory(side_t *s, pgas_verbs_request_t r, const char *text)
{
    is_int(completed(s->send_cq), PGAS_OK, "%s: an addition in its private memory", text);
    r.op = PGAS_VERBS_CSWAP;
    r.operand = 99;
    for (int i = 4; i < 7; i++) { /* fails, succeeds, and finds the new value */
        r.compare = (uint64_t)(i == 5 ? 78 : 1);
        request(s, s->qp, r, (uint64_t)(uintptr_t)&s->words[i], 8);
        if (completed(s->send_cq) != PGAS_OK)
            bail("a swap has failed");
    }
    ok(s->words[3] == 77 && s->words[4] == 78 && s->words[5] == 78 && s->words[6] == 99,
       "%s: additions and swaps there return the old values", text);
}

static void run(pgas_verbs_engine_t engine, const char *text)
{
    int socket, status;
    char byte;
    side_t s;
    told_t theirs;
    pid_t pid = with_child(engine, child, &s, &theirs, &socket);
    if (read(socket, &byte, 1) != 1)
        bail("the child has failed");
    waitpid(pid, &status, WUNTRACED);
    ok(WIFSTOPPED(status), "%s: the child is stopped", text);

    pgas_verbs_request_t r = { .op = PGAS_VERBS_WRITE,
                               .flags = PGAS_VERBS_SIGNAL,
                               .remote_addr = theirs.addr,
                               .rkey = theirs.rkey };
    s.words[0] = 77;
    request(&s, s.qp, r, (uint64_t)(uintptr_t)s.words, 8);
    is_int(completed(s.send_cq), PGAS_OK, "%s: a write to it", text);
    r.op = PGAS_VERBS_READ;
    request(&s, s.qp, r, (uint64_t)(uintptr_t)&s.words[1], 8);
    is_int(completed(s.send_cq), PGAS_OK, "%s: a read from it", text);
    is_int((long)s.words[1], 77, "%s: gives what was written", text);
    r.remote_addr = theirs.private_addr;
    r.rkey = theirs.private_rkey;
    r.op = PGAS_VERBS_WRITE;
    request(&s, s.qp, r, (uint64_t)(uintptr_t)s.words, 8);
    is_int(completed(s.send_cq), PGAS_OK, "%s: a write to its private memory", text);
    r.op = PGAS_VERBS_READ;
    request(&s, s.qp, r, (uint64_t)(uintptr_t)&s.words[2], 8);
    is_int(completed(s.send_cq), PGAS_OK, "%s: a read from its private memory", text);
    is_int((long)s.words[2], 77, "%s: gives what was written", text);

    r.op = PGAS_VERBS_SEND;
    request(&s, s.qp, r, (uint64_t)(uintptr_t)s.words, 8);
    is_int(completed(s.send_cq), PGAS_OK, "%s: a message to it", text);
    if (engine == PGAS_VERBS_ENGINE_PROCESS) {
        ok(arrives(&s), "%s: its chain has written back while it is stopped", text);
    } else {
        pgas_verbs_completion_t c;
        for (int i = 0; i < LOOKS; i++)
            pgas_verbs_cq_poll(s.send_cq, &c, 1);
        ok(s.words[8] == 0, "%s: its chain does not run while it is stopped", text);
        kill(pid, SIGCONT);
        ok(arrives(&s), "%s: its chain has written back when it went on", text);
    }
    r.op = PGAS_VERBS_FADD;
    r.operand = 1;
    request(&s, s.qp, r, (uint64_t)(uintptr_t)&s.words[3], 8);
    if (engine == PGAS_VERBS_ENGINE_PROCESS)
        atomics_reach_private_memory(&s, r, text);
    else
        is_int(completed(s.send_cq), PGAS_ERR_TRANSPORT,
               "%s: an atomic in its private memory is refused", text);

    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    pgas_verbs_qp_t *late = make_qp(&s, 0);
    is_int(pgas_verbs_qp_connect(late, &theirs.qp), PGAS_ERR_PEER,
           "%s: a dead process is not connected to", text);
    pgas_verbs_qp_destroy(late);
    close(socket);
    end(&s);
}

/* A message without a receive buffer waits; when its receiver is killed it ends. */
static void die(pgas_verbs_engine_t engine, const char *text)
{
    int socket, status;
    side_t s;
    told_t theirs;
    pid_t pid = with_child(engine, idle_child, &s, &theirs, &socket);
    request(&s, s.qp, (pgas_verbs_request_t){ .op = PGAS_VERBS_SEND, .flags = PGAS_VERBS_SIGNAL },
            (uint64_t)(uintptr_t)s.words, 8);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    is_int(completed(s.send_cq), PGAS_ERR_PEER, "%s: a message to a process that was killed ends",
           text);
    close(socket);
    end(&s);
}

/* A queue pair takes the number of a closed one, with another context as its peer: the process has
 * dropped its knowledge of the old one. */
static void places_are_used_again(pgas_verbs_engine_t engine, const char *name)
{
    side_t a, b[2];
    pgas_verbs_address_t address;
    int n_bad = 0;
    begin(&a, engine, name);
    begin(&b[0], engine, name);
    begin(&b[1], engine, name);
    for (int i = 0; i < 6; i++) {
        side_t *peer = &b[i % 2];
        pgas_verbs_qp_destroy(a.qp);
        pgas_verbs_qp_destroy(peer->qp);
        a.qp = make_qp(&a, 0);
        peer->qp = make_qp(peer, 0);
        qp_address(peer->qp, &address);
        must(pgas_verbs_qp_connect(a.qp, &address), "connect");
        qp_address(a.qp, &address);
        must(pgas_verbs_qp_connect(peer->qp, &address), "connect");
        a.words[0] = (uint64_t)i + 1;
        pgas_verbs_request_t write = { .op = PGAS_VERBS_WRITE,
                                       .flags = PGAS_VERBS_SIGNAL,
                                       .remote_addr = (uint64_t)(uintptr_t)peer->mem.addr,
                                       .rkey = peer->mem.rkey };
        request(&a, a.qp, write, (uint64_t)(uintptr_t)a.mem.addr, 8);
        n_bad += completed(a.send_cq) != PGAS_OK || peer->words[0] != (uint64_t)i + 1;
    }
    is_int(n_bad, 0, "%s: a place that is used again has another peer", name);
    end(&a);
    end(&b[0]);
    end(&b[1]);
}

int main(void)
{
    plan(29);
    run(PGAS_VERBS_ENGINE_CALLER, "caller");
    run(PGAS_VERBS_ENGINE_PROCESS, "process");
    places_are_used_again(PGAS_VERBS_ENGINE_CALLER, "caller");
    places_are_used_again(PGAS_VERBS_ENGINE_PROCESS, "process");
    die(PGAS_VERBS_ENGINE_CALLER, "caller");
    die(PGAS_VERBS_ENGINE_THREAD, "thread");
    die(PGAS_VERBS_ENGINE_PROCESS, "process");
    return done();
}
