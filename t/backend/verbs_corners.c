/* Contexts after errors.
 *   what:   A context stays consistent in these cases. A flush without a free slot keeps the record
 *           of operations lost with a peer. An atomic that its queue pair refuses gives its slot
 *           back. A context without memory for buffers accepts no operation. Strangers that connect
 *           and send nothing cannot take all descriptors. A connection without a free descriptor is
 *           refused. An unknown interface is refused. A completion queue without events is not used
 *           for sleeping. Listeners are bound to loopback, or to the addresses that the rank
 *           announces. A listener that cannot accept keeps no thread awake. A repeated hello of a
 *           rank does not end the rank. Operations to a live rank whose connection is lost end with
 *           a status of their own.
 *   np:     1
 *   log:    is gone
 *   log:    but the rank is alive
 *   log:    from a process that does not belong to this job
 *   log:    that sent no greeting in time
 *   log:    has no buffers
 *   log:    opening a completion queue
 *   log:    no interface of that name
 *   log:    no descriptors are left
 *   source: verbs_backend/transport/inside.h */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "t/backend/world.h"
#include "verbs_backend/transport/inside.h"

static bool is_refusing;
static const pgasi_verbs_ops_t *true_ops;

static pgas_status_t write_or_refuse(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request,
                                     uint32_t flags, uint64_t id)
{
    return is_refusing ? PGAS_ERR_TRANSPORT : true_ops->qp_write_one(qp, request, flags, id);
}

static pgas_status_t put_word(int ctx, const uint64_t *word)
{
    return world.ops->put(world.ctxs[ctx], 0, world.keys[ctx][0], world.bases[0], word, 8, NULL);
}

/* Nothing is connected yet, so all that is asked for waits. */
static void loss_is_told(void)
{
    static const uint64_t word = 5;
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(world.ctxs[1]);
    pending_t pending;
    pgas_status_t status;
    while (put_word(1, &word) != PGAS_ERR_AGAIN) {
    }
    ctx->lost = PGAS_ERR_TRANSPORT;
    status = world.ops->flush(world.ctxs[1], PGASI_TP_ALL_PEERS, world_pending(&pending));
    spmd_ok(status == PGAS_ERR_AGAIN, "a context that is full takes no flush");
    spmd_ok(world_flush(1, PGASI_TP_ALL_PEERS) == PGAS_ERR_TRANSPORT,
            "the next one reports the loss");
    spmd_ok(world_flush(1, PGASI_TP_ALL_PEERS) == PGAS_OK, "and the one after that does not");
}

static int lost_rank = -1;
static pgas_status_t lost_status;

static void slot_comes_back(void)
{
    static const uint64_t word = 5;
    static pgasi_verbs_ops_t ops;
    pgas_verbs_dev_t *dev = pgasi_verbs_tp_of(world.tp)->dev;
    const pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(world.ctxs[2]);
    uint64_t result;
    pending_t pending;
    true_ops = dev->ops;
    ops = *true_ops;
    ops.qp_write_one = write_or_refuse;
    dev->ops = &ops;
    bool good = put_word(2, &word) >= 0 && world_flush(2, 0) == PGAS_OK; /* connects */
    uint32_t n_free = ctx->n_free_slots;
    is_refusing = true;
    pgas_status_t status = world.ops->amo(world.ctxs[2], 0, world.keys[2][0], world.bases[0],
                                          PGASI_AMO_XOR, 8, 1, 0, &result, world_pending(&pending));
    is_refusing = false;
    status = world_wait(status, &pending);
    spmd_ok(good && status == PGAS_ERR_TRANSPORT && ctx->n_free_slots == n_free,
            "an atomic that is refused gives its slot back");
    spmd_ok(
        lost_rank == 0 && lost_status == PGAS_ERR_TRANSPORT &&
            put_word(1, &word) == PGAS_ERR_TRANSPORT,
        "the rank is alive: later operations to it, on any context, have a status of their own");
    dev->ops = true_ops;
}

/* The only connection that is lost here is refused by the device. */
static bool is_dead(void *arg, int peer)
{
    (void)arg;
    (void)peer;
    return false;
}

static void on_lost(void *arg, int peer, pgas_status_t status)
{
    (void)arg;
    lost_rank = peer;
    lost_status = status;
}

static pgas_status_t refuse_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                  pgas_verbs_mem_t *mem_p)
{
    (void)dev, (void)bytes, (void)access, (void)mem_p;
    return PGAS_ERR_LIMIT;
}

static void buffers_first(void)
{
    static pgasi_verbs_ops_t ops;
    static const char bytes[100];
    pgas_verbs_dev_t *dev = pgasi_verbs_tp_of(world.tp)->dev;
    pending_t pending;
    true_ops = dev->ops;
    ops = *true_ops;
    ops.mem_alloc = refuse_alloc;
    dev->ops = &ops;
    pgas_status_t status = world.ops->put(world.ctxs[3], 0, world.keys[3][0], world.bases[0], bytes,
                                          sizeof bytes, world_pending(&pending));
    dev->ops = true_ops;
    spmd_ok(status == PGAS_ERR_LIMIT, "a put is refused by a context that cannot have buffers");
    world_wait(status, &pending);
    spmd_ok(world_put(3, 0, 0, bytes, sizeof bytes) == PGAS_OK, "and taken when it can");
}

static pgas_status_t refuse_fd(pgas_verbs_cq_t *cq, int *fd_p)
{
    (void)cq, (void)fd_p;
    return PGAS_ERR_UNSUPPORTED;
}

/* The first queue is full, so that the context needs another. */
static void queue_unheard(void)
{
    static pgasi_verbs_ops_t ops;
    pgasi_verbs_ctx_t *ctx = pgasi_verbs_ctx_of(world.ctxs[3]);
    pgas_verbs_dev_t *dev = ctx->tp->dev;
    uint32_t rest = PGASI_VERBS_CQ_DEPTH - ctx->cqs[0].reserved;
    int first = 0, second = -1;
    bool good = ctx->n_cqs == 1 && pgasi_verbs_ctx_cq(ctx, 0, rest, &first) == PGAS_OK;
    true_ops = dev->ops;
    ops = *true_ops;
    ops.cq_fd = refuse_fd;
    dev->ops = &ops;
    pgas_status_t status = pgasi_verbs_ctx_cq(ctx, 0, 1, &second);
    dev->ops = true_ops;
    spmd_ok(good && status == PGAS_ERR_UNSUPPORTED && ctx->n_cqs == 1,
            "a queue that cannot be slept on is not kept");
    spmd_ok(pgasi_verbs_ctx_cq(ctx, 0, 1, &second) == PGAS_OK && ctx->n_cqs == 2,
            "another is made when it can");
    pgasi_verbs_ctx_cq_leave(ctx, 1, second);
    pgasi_verbs_ctx_cq_leave(ctx, rest, first);
}

/* @return a socket that is connected with the context 0 of this rank, or -1 */
static int dial_oneself(void)
{
    const pgasi_verbs_tp_address_t *address = &pgasi_verbs_tp_of(world.tp)->address;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(address->ports[0]) };
    memcpy(&to.sin_addr, address->hosts[0] + 12, 4); /* IPv4 comes first */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)(const void *)&to, sizeof to) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_hung_up(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

/* All descriptors are in use, none of them by strangers. */
static void turned_away(void)
{
    enum { N = 64, ROUNDS = 100000 };
    struct rlimit was = { 0 }, less;
    int fds[N], n = 0, fd = dial_oneself();
    bool good = fd >= 0 && getrlimit(RLIMIT_NOFILE, &was) == 0;
    less = was;
    less.rlim_cur = (rlim_t)fd + 1;
    good = good && setrlimit(RLIMIT_NOFILE, &less) == 0;
    while (good && n < N && (fds[n] = dup(fd)) >= 0)
        n++;
    bool gone = false;
    for (int i = 0; good && i < ROUNDS && !gone; i++) {
        world_progress();
        gone = is_hung_up(fd);
    }
    setrlimit(RLIMIT_NOFILE, &was);
    while (n > 0)
        close(fds[--n]);
    close(fd);
    spmd_ok(good && gone, "a connection without a free descriptor is closed");
}

/* The listener stays readable while connections wait, but the connection manager's descriptor does
 * not, so a thread can sleep on it. */
static bool is_quiet(void)
{
    struct pollfd cm = { .fd = pgasi_verbs_cm_fd(pgasi_verbs_tp_of(world.tp)), .events = POLLIN };
    world_progress();
    return poll(&cm, 1, 0) == 0;
}

/* All accepted connections are silent. No other connection is accepted until these are dropped. */
static void strangers(void)
{
    enum { N = 24, ROOM = 4, LOOKS = 1000 };
    struct rlimit was = { 0 }, less;
    int fds[N];
    bool good = getrlimit(RLIMIT_NOFILE, &was) == 0;
    less = was;
    for (int i = 0; i < N; i++) {
        fds[i] = dial_oneself();
        good = good && fds[i] >= 0;
        less.rlim_cur = (rlim_t)fds[i] + 1 + ROOM;
    }
    good = good && setrlimit(RLIMIT_NOFILE, &less) == 0;
    world_progress();
    bool quiet = false;
    for (int i = 0; i < LOOKS && !quiet; i++)
        quiet = is_quiet();
    while (good && !is_hung_up(fds[0]))
        world_progress();
    setrlimit(RLIMIT_NOFILE, &was);
    for (int i = 0; i < N; i++)
        close(fds[i]);
    spmd_ok(good, "when descriptors run out, silent connections are closed");
    spmd_ok(quiet, "and meanwhile the listener does not keep a thread awake");
}

/* Counts sockets of this process that listen at all addresses, from the kernel's list. */
static int listens_everywhere(const char *list, const char *all)
{
    char line[512], mine[64], link[64], path[300], local[64];
    unsigned state;
    unsigned long inode;
    int n = 0;
    FILE *file = fopen(list, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, " %*d: %63s %*s %x %*s %*s %*s %*d %*d %lu", local, &state, &inode) != 3 ||
            state != 10 || strncmp(local, all, strlen(all)) != 0)
            continue;
        snprintf(mine, sizeof mine, "socket:[%lu]", inode);
        for (int fd = 0; fd < 256; fd++) {
            snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
            ssize_t bytes = readlink(path, link, sizeof link - 1);
            link[bytes > 0 ? bytes : 0] = '\0';
            n += strcmp(link, mine) == 0;
        }
    }
    if (file)
        fclose(file);
    return n;
}

/* @return whether a transport with these options listens at addresses of its own choice; *hosts_p:
 * these */
static bool binds(const pgasi_tp_opts_t *opts, const char *interface,
                  pgasi_verbs_tp_address_t *address_p)
{
    pgasi_tp_t *tp;
    const char v4[] = "00000000:", v6[] = "00000000000000000000000000000000:";
    int before4 = listens_everywhere("/proc/self/net/tcp", v4),
        before6 = listens_everywhere("/proc/self/net/tcp6", v6);
    if (interface)
        setenv("PGAS_VERBS_INTERFACE", interface, 1);
    bool good = pgasi_tp_find("verbs")->open(opts, &tp) == PGAS_OK;
    unsetenv("PGAS_VERBS_INTERFACE");
    if (good) {
        *address_p = pgasi_verbs_tp_of(tp)->address;
        good = listens_everywhere("/proc/self/net/tcp", v4) == before4 &&
               listens_everywhere("/proc/self/net/tcp6", v6) == before6;
        tp->ops->close(tp);
    }
    return good;
}

static bool no_message(void *arg, const pgasi_tp_am_t *am)
{
    (void)arg, (void)am;
    return false;
}

static void interface(void)
{
    const pgasi_tp_opts_t opts = { .n_ranks = 1, .am_fn = no_message };
    pgasi_tp_t *tp;
    setenv("PGAS_VERBS_INTERFACE", "pgas-none", 1);
    pgas_status_t status = pgasi_tp_find("verbs")->open(&opts, &tp);
    spmd_ok(status == PGAS_ERR_NOT_FOUND, "an interface that is not there is refused");
    if (status == PGAS_OK)
        tp->ops->close(tp);
    unsetenv("PGAS_VERBS_INTERFACE");
}

static bool is_loopback(const pgasi_verbs_tp_address_t *address)
{
    static const uint8_t v6[16] = { [15] = 1 };
    bool all = address->n_hosts > 0;
    for (int i = 0; i < address->n_hosts; i++)
        all = all && (address->hosts[i][12] == 127 || memcmp(address->hosts[i], v6, 16) == 0);
    return all;
}

static void listeners(void)
{
    const pgasi_tp_opts_t here = { .n_ranks = 2, .same_host_only = true, .am_fn = no_message };
    const pgasi_tp_opts_t there = { .n_ranks = 2, .am_fn = no_message };
    pgasi_verbs_tp_address_t address;
    spmd_ok(binds(&here, NULL, &address) && is_loopback(&address),
            "a job of one host listens on loopback");
    spmd_ok(binds(&there, "lo", &address) && is_loopback(&address),
            "an interface that is named is the only one");
    spmd_ok(binds(&there, NULL, &address) && address.n_hosts > 0 &&
                address.ports[address.n_hosts - 1] != 0,
            "a job of several hosts listens at its addresses, not at all that come");
}

/** The hello message of cm.c. */
typedef struct {
    uint32_t magic;
    uint16_t kind;
    int16_t status;
    uint32_t rank, ctx;
    uint64_t secret, ticket, slots_addr;
    uint32_t slots_rkey, inbound, rail, reserved;
    pgas_verbs_address_t address;
} hello_t;

static int n_gone;

static void on_gone(void *arg, int peer, pgas_status_t status)
{
    (void)arg, (void)peer, (void)status;
    n_gone++;
}

static const void *no_address(void *arg, int rank)
{
    (void)arg, (void)rank;
    return NULL;
}

/* @return a connection to a transport, on which this hello was sent */
static int say_hello(const pgasi_tp_t *tp, uint32_t magic, uint64_t secret)
{
    const pgasi_verbs_tp_address_t *address =
        &pgasi_verbs_tp_of((pgasi_tp_t *)(uintptr_t)tp)->address;
    const hello_t hello = { .magic = magic, .kind = 1, .rank = 1, .secret = secret };
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(address->ports[0]) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(&to.sin_addr, address->hosts[0] + 12, 4);
    bool good = connect(fd, (const struct sockaddr *)(const void *)&to, sizeof to) == 0 &&
                send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello;
    return good ? fd : -1;
}

/* @return whether an answer, or the end, has come */
static bool settles(pgasi_tp_ctx_t *ctx, int fd, bool (*as)(int fd))
{
    for (int i = 0; i < 1000000; i++) {
        ctx->ops->progress(ctx);
        if (as(fd))
            return true;
    }
    return false;
}

static bool has_welcome(int fd)
{
    hello_t welcome;
    return recv(fd, &welcome, sizeof welcome, MSG_DONTWAIT) == (ssize_t)sizeof welcome &&
           welcome.kind == 2;
}

static bool is_gone(int fd)
{
    (void)fd;
    return n_gone > 0;
}

/* A stranger repeats a rank's hello, or invents one. */
static void introductions(void)
{
    const uint32_t magic = 0x31775056u;
    const pgasi_tp_opts_t opts = {
        .n_ranks = 2, .same_host_only = true, .am_fn = no_message, .error_fn = on_gone
    };
    pgasi_tp_t *tp;
    pgasi_tp_ctx_t *ctx;
    if (pgasi_tp_find("verbs")->open(&opts, &tp) != PGAS_OK ||
        tp->ops->set_peers(tp, no_address, NULL) != PGAS_OK ||
        tp->ops->ctx_open(tp, 0, &ctx) != PGAS_OK) {
        spmd_ok(false, "another transport opens");
        return;
    }
    spmd_ok(pgasi_verbs_ctx_of(ctx)->n_cqs == 1,
            "a context has a completion queue before its first connection");
    const pgasi_verbs_tp_address_t *address = &pgasi_verbs_tp_of(tp)->address;
    spmd_ok(address->machine != 0 && address->network != 0,
            "an address names the machine and the network");
    uint64_t secret = address->secret;
    int fds[] = { say_hello(tp, magic, secret), say_hello(tp, magic + 1, secret),
                  say_hello(tp, magic, secret + 1), -1 };
    bool welcome = settles(ctx, fds[0], has_welcome);
    spmd_ok(welcome && settles(ctx, fds[1], is_hung_up) && settles(ctx, fds[2], is_hung_up),
            "nonsense, and a wrong secret, are hung up on");
    fds[3] = say_hello(tp, magic, secret);
    bool again = settles(ctx, fds[3], has_welcome);
    close(fds[3]);
    /* when this one is welcome the end of the other has been seen */
    fds[3] = say_hello(tp, magic, secret);
    again = again && settles(ctx, fds[3], has_welcome);
    spmd_ok(again && n_gone == 0, "the end of a connection that repeats a hello is not the rank's");
    close(fds[3]);
    close(fds[0]);
    spmd_ok(settles(ctx, fds[0], is_gone) && n_gone == 1, "the end of its own is");
    close(fds[1]);
    close(fds[2]);
    tp->ops->ctx_close(ctx);
    tp->ops->close(tp);
}

int main(int argc, char **argv)
{
    setenv("PGAS_TEST_TRANSPORT", "verbs", 1);
    setenv("PGAS_VERBS_DEVICE", "snic", 1);
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    spmd_plan(21);
    interface();
    listeners();
    introductions();
    world_open(&(world_opts_t){ .n_ctxs = 4, .error_fn = on_lost, .suspect_fn = is_dead });
    loss_is_told();
    turned_away();
    strangers();
    buffers_first();
    queue_unheard();
    slot_comes_back(); /* the last: it loses rank 0 */
    world_close();
    return spmd_end();
}
