/* t/unit/snic_corrupt.c
 *   what:   Random words in the software NIC's shared memory crash neither the owner, nor a peer,
 *           nor the process that executes, which continues to serve others. The test spares lock
 *           words: a write to them stops the others, which the same user can do anyway.
 *   needs:  no-sanitizers
 *   log:    snic
 *   source: verbs_backend/snic/README.md; random words, half of them nearly right */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/log.h"
#include "base/rng.h"
#include "pgas/verbs_snic.h"
#include "t/queue_pairs.h"
#include "t/tap.h"
#include "verbs_backend/snic/inside.h"

#define TRIALS      60
#define STEPS       120
#define PLACES      4u /* of each table that are in use */
#define ARENA_BYTES (256u << 10)
#define GUARD_S     20

static char name[64];

/** One end: queues of each kind, and its device memory, as any process of this user could map it.
 *  */
typedef struct {
    pgas_verbs_dev_t *dev;
    pgas_verbs_cq_t *cq;
    pgas_verbs_srq_t *srq;
    pgas_verbs_qp_t *qp, *shared; /* the second receives by srq */
    pgas_verbs_mem_t mem, plain;
    snic_devmem_t *devmem;
    uint64_t addr[2]; /* of the other end's memory */
    uint32_t rkey[2];
} side_t;

/** The messages between the two ends. */
typedef struct {
    pgas_verbs_address_t qp, shared;
    uint64_t addr[2];
    uint32_t rkey[2];
} told_t;

static char plain[4096];

/* Of this process's own, by the name of its memfd. */
static snic_devmem_t *map_own_devmem(void)
{
    DIR *folder = opendir("/proc/self/fd");
    snic_devmem_t *devmem = NULL;
    for (struct dirent *entry; folder != NULL && !devmem && (entry = readdir(folder));) {
        char path[300], target[128] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, target, sizeof target - 1) < 0 ||
            strncmp(target, "/memfd:pgas-snic ", 17) != 0)
            continue;
        void *map = mmap(NULL, SNIC_DEVMEM_BYTES + SNIC_ARENA_BYTES, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE, atoi(entry->d_name), 0);
        devmem = map == MAP_FAILED ? NULL : map;
    }
    if (folder)
        closedir(folder);
    return devmem;
}

static void must(pgas_status_t status)
{
    if (status != PGAS_OK)
        _exit(60);
}

static void begin(side_t *s, pgas_verbs_engine_t engine, uint32_t adversary, uint64_t seed,
                  int socket)
{
    pgas_verbs_dev_opts_t dev = PGAS_VERBS_DEV_OPTS_INIT;
    pgas_verbs_qp_opts_t opts = PGAS_VERBS_QP_OPTS_INIT;
    told_t mine, theirs;
    dev.device = "snic";
    dev.engine = engine;
    dev.engine_name = name;
    const pgas_verbs_snic_opts_t snic = { .size = sizeof snic,
                                          .adversary = adversary,
                                          .seed = seed };
    dev.snic = &snic;
    must(pgas_verbs_open(&dev, &s->dev));
    must(pgas_verbs_mem_register(s->dev, NULL, 1 << 16, PGAS_VERBS_ACCESS_ALL, &s->mem));
    must(pgas_verbs_mem_register(s->dev, plain, sizeof plain, PGAS_VERBS_ACCESS_ALL, &s->plain));
    must(pgas_verbs_cq_create(s->dev, 128, PGAS_VERBS_CQ_EVENTS, &s->cq));
    must(pgas_verbs_srq_create(s->dev, 16, 2, &s->srq));
    opts.send_cq = opts.recv_cq = s->cq;
    opts.send_depth = opts.recv_depth = 32;
    must(pgas_verbs_qp_create(s->dev, &opts, &s->qp));
    opts.srq = s->srq;
    must(pgas_verbs_qp_create(s->dev, &opts, &s->shared));
    s->devmem = map_own_devmem();
    qp_address(s->qp, &mine.qp);
    qp_address(s->shared, &mine.shared);
    mine.addr[0] = (uintptr_t)s->mem.addr;
    mine.addr[1] = (uintptr_t)plain;
    mine.rkey[0] = s->mem.rkey;
    mine.rkey[1] = s->plain.rkey;
    if (!s->devmem || write(socket, &mine, sizeof mine) != (ssize_t)sizeof mine ||
        read(socket, &theirs, sizeof theirs) != (ssize_t)sizeof theirs)
        _exit(61);
    must(pgas_verbs_qp_connect(s->qp, &theirs.qp));
    must(pgas_verbs_qp_connect(s->shared, &theirs.shared));
    memcpy(s->addr, theirs.addr, sizeof s->addr);
    memcpy(s->rkey, theirs.rkey, sizeof s->rkey);
}

static void receive(const side_t *s)
{
    pgas_verbs_span_t room = { (uintptr_t)s->mem.addr + 4096, 64, s->mem.lkey };
    const pgas_verbs_recv_t recv = { 2, &room, 1 };
    pgas_verbs_qp_recv(s->qp, &recv, 1, NULL);
    pgas_verbs_srq_recv(s->srq, &recv, 1, NULL);
}

static void post(const side_t *s, pgasi_rng_t *rng)
{
    static const pgas_verbs_op_t ops[] = { PGAS_VERBS_SEND,  PGAS_VERBS_SEND_IMM,
                                           PGAS_VERBS_WRITE, PGAS_VERBS_WRITE_IMM,
                                           PGAS_VERBS_READ,  PGAS_VERBS_CSWAP,
                                           PGAS_VERBS_FADD,  PGAS_VERBS_NOP };
    pgas_verbs_op_t op = ops[pgasi_rng_below(rng, PGASI_ARRAY_LENGTH(ops))];
    int which = (int)pgasi_rng_below(rng, 2);
    uint32_t bytes =
        op == PGAS_VERBS_CSWAP || op == PGAS_VERBS_FADD ? 8 : (uint32_t)pgasi_rng_below(rng, 64);
    uint32_t flags = (uint32_t)pgasi_rng_below(rng, 8) |
                     (op <= PGAS_VERBS_WRITE_IMM ? (uint32_t)pgasi_rng_below(rng, 2) * 8 : 0);
    pgas_verbs_span_t span = { (uintptr_t)s->mem.addr + 8 * pgasi_rng_below(rng, 256), bytes,
                               s->mem.lkey };
    const pgas_verbs_request_t r = { .op = op,
                                     .flags = flags,
                                     .id = 1,
                                     .spans = &span,
                                     .n_spans = op != PGAS_VERBS_NOP,
                                     .remote_addr = s->addr[which] + 8 * pgasi_rng_below(rng, 256),
                                     .rkey = s->rkey[which] };
    pgas_verbs_qp_post(pgasi_rng_below(rng, 2) ? s->qp : s->shared, &r, 1, NULL);
}

static uint32_t a_value(uint32_t now, pgasi_rng_t *rng)
{
    static const uint32_t often[] = { 0,    1,  2,  0x7fffffff, 0x80000000, 0xffffffff,
                                      4096, 16, 31, 32,         64,         0xfff0 };
    switch (pgasi_rng_below(rng, 4)) {
    case 0:
        return often[pgasi_rng_below(rng, PGASI_ARRAY_LENGTH(often))];
    case 1:
        return now ^ UINT32_C(1) << pgasi_rng_below(rng, 32);
    case 2:
        return now + (uint32_t)pgasi_rng_below(rng, 64) - 32;
    default:
        return (uint32_t)pgasi_rng_u64(rng);
    }
}

/* A random word of objects in use, or of their queues. */
static void spoil(snic_devmem_t *devmem, pgasi_rng_t *rng)
{
    const struct {
        void *at;
        size_t bytes;
        size_t lock; /* where its lock is; the size if it has none */
    } parts[] = { { &devmem->magic, offsetof(snic_devmem_t, lock), offsetof(snic_devmem_t, lock) },
                  { devmem->active, 64, 64 },
                  { &devmem->mrs[SNIC_MR_FIRST + pgasi_rng_below(rng, PLACES)],
                    sizeof devmem->mrs[0], sizeof devmem->mrs[0] },
                  { &devmem->cqs[pgasi_rng_below(rng, PLACES)], sizeof devmem->cqs[0],
                    offsetof(snic_cq_t, lock) },
                  { &devmem->srqs[pgasi_rng_below(rng, PLACES)], sizeof devmem->srqs[0],
                    offsetof(snic_srq_t, lock) },
                  { &devmem->qps[pgasi_rng_below(rng, PLACES)], sizeof devmem->qps[0],
                    offsetof(snic_qp_t, lock) },
                  { (char *)devmem + SNIC_DEVMEM_BYTES, ARENA_BYTES, ARENA_BYTES } };
    size_t i = (size_t)pgasi_rng_below(rng, PGASI_ARRAY_LENGTH(parts));
    size_t at = (size_t)pgasi_rng_below(rng, parts[i].bytes / 4) * 4;
    if (at == parts[i].lock || at == parts[i].lock + 4)
        return;
    uint32_t *word = (uint32_t *)(void *)((char *)parts[i].at + at);
    __atomic_store_n(word, a_value(*word, rng), __ATOMIC_RELAXED);
}

/* Work and spoiled words in turn. Statuses may be anything. */
static void run(side_t *s, uint64_t seed)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 16; i++)
        receive(s);
    for (int i = 0; i < STEPS; i++) {
        pgas_verbs_completion_t c[8];
        uint64_t what = pgasi_rng_below(&rng, 8);
        for (int k = 0; k < 4; k++)
            post(s, &rng);
        if (i > 8 && what < 4)
            spoil(s->devmem, &rng);
        if (what == 4)
            pgas_verbs_cq_arm(s->cq, what & 1);
        if (what == 5)
            receive(s);
        pgas_verbs_cq_poll(s->cq, c, 8);
    }
}

static void end(side_t *s)
{
    pgas_verbs_qp_destroy(s->qp);
    pgas_verbs_qp_destroy(s->shared);
    pgas_verbs_srq_destroy(s->srq);
    pgas_verbs_cq_destroy(s->cq);
    pgas_verbs_mem_release(s->dev, &s->mem);
    pgas_verbs_mem_release(s->dev, &s->plain);
    pgas_verbs_close(s->dev);
}

static int one_end(pgas_verbs_engine_t engine, uint64_t seed, int socket)
{
    static const uint32_t adversaries[] = { 0, 0, PGAS_VERBS_SNIC_ALL, PGAS_VERBS_SNIC_DELAY,
                                            PGAS_VERBS_SNIC_PREFETCH };
    side_t s;
    char byte = 0;
    alarm(GUARD_S);
    pgasi_log_set_fd(-1); /* its contents are not judged */
    begin(&s, engine, adversaries[seed % PGASI_ARRAY_LENGTH(adversaries)], seed | 1, socket);
    for (int i = 0; i < 2; i++) { /* both are connected; both have done all */
        if (i == 1)
            run(&s, seed);
        if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1)
            return 62; /* the other end has ended */
    }
    if (seed % 2 == 0)
        end(&s);
    return 0;
}

/* @return whether both ends came to theirs */
static bool trial(pgas_verbs_engine_t engine, uint64_t seed)
{
    int sockets[2], bad = 0;
    pid_t pids[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
        bail("no sockets");
    for (int i = 0; i < 2; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(sockets[1 - i]);
            _exit(one_end(engine, 2 * seed + (uint64_t)i, sockets[i]));
        }
    }
    close(sockets[0]);
    close(sockets[1]);
    for (int i = 0; i < 2; i++) {
        int status;
        waitpid(pids[i], &status, 0);
        if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0) {
            diag("seed %llu: end %d: %s %d", (unsigned long long)seed, i,
                 WIFSIGNALED(status) ? "signal" : "status",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            bad++;
        }
    }
    return bad == 0;
}

static void trials(pgas_verbs_engine_t engine, uint64_t seed, const char *text)
{
    int n_bad = 0;
    for (uint64_t i = 0; i < TRIALS && n_bad < 5; i++)
        n_bad += !trial(engine, seed + i);
    is_int(n_bad, 0,
           "%s: %d pairs of processes, whose regions they spoil, come to their end, from seed %llu",
           text, TRIALS, (unsigned long long)seed);
}

int main(void)
{
    struct rlimit none = { 0, 0 };
    plan(4);
    setrlimit(RLIMIT_CORE, &none);
    uint64_t seed = tap_seed(100);
    snprintf(name, sizeof name, "corrupt-%d", (int)getpid());
    trials(PGAS_VERBS_ENGINE_CALLER, seed, "caller");
    trials(PGAS_VERBS_ENGINE_THREAD, seed, "thread");
    pid_t nic = fork();
    if (nic == 0)
        _exit(pgas_verbs_snic_serve(name, 20000000));
    pgas_verbs_snic_info_t info = { .size = sizeof info };
    while (pgas_verbs_snic_info(name, &info) != PGAS_OK)
        usleep(100);
    trials(PGAS_VERBS_ENGINE_PROCESS, seed, "process");
    ok(pgas_verbs_snic_info(name, &info) == PGAS_OK && info.pid == (int)nic,
       "the process that executes is still the same");
    kill(nic, SIGKILL);
    waitpid(nic, NULL, 0);
    return done();
}
