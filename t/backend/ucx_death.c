/* The death of a peer. Two processes without MPI, since a launcher would end the other one too.
 *   what:   After kill -9 of the peer, operations under way and later ones end with PGAS_ERR_PEER
 *           within 10 s. The error callback runs once, and closing takes at most 3 s. If the owner
 *           does not know yet whether the peer has died, it decides later, and operations wait
 *           until then.
 *   tls:    tcp,self
 *   env:    PGAS_TEST_TRANSPORT=ucx | PGAS_TEST_TRANSPORT=verbs
 *   log:    rank 1 is gone
 *   source: transport.h; public headers */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include "base/clock.h"
#include "t/tap.h"
#include "transport/transport.h"

enum { LIMIT_S = 10, BIG = 8 << 20 };

typedef struct {
    /* child: 1 address is there, 2 served a message; parent: 10 addresses are there, 11 stop
     * serving */
    _Atomic int phase;
    char address[2][1024];
    char key[PGASI_TP_KEY_MAX];
    size_t key_bytes;
    uint64_t base;
} shared_t;

static shared_t *shared;
static const char *transport = "ucx";
static bool is_one_sided; /* puts and gets need no progress at their target */
static int n_errors, error_peer, n_messages;
static pgas_status_t error_status;
static bool knows_nothing; /* the owner, when the transport asks it */
static int n_suspected;

static bool on_am(void *arg, const pgasi_tp_am_t *am)
{
    (void)arg, (void)am;
    n_messages++;
    return false;
}

static void on_error(void *arg, int peer, pgas_status_t status)
{
    (void)arg;
    n_errors++;
    error_peer = peer;
    error_status = status;
}

static bool on_suspect(void *arg, int peer)
{
    (void)arg;
    n_suspected += peer == 1;
    return !knows_nothing;
}

static const void *address_of(void *arg, int rank)
{
    (void)arg;
    return shared->address[rank];
}

static pgasi_tp_t *open_rank(int rank, pgasi_tp_ctx_t *ctxs[2])
{
    const pgasi_tp_ops_t *ops = pgasi_tp_find(transport);
    pgasi_tp_opts_t opts = { .rank = rank,
                             .n_ranks = 2,
                             .am_data_max = BIG,
                             .am_fn = on_am,
                             .error_fn = on_error,
                             .suspect_fn = on_suspect };
    pgasi_tp_t *tp;
    const void *address;
    size_t bytes = 0;
    if (ops->open(&opts, &tp) != PGAS_OK || ops->ctx_open(tp, 0, &ctxs[0]) != PGAS_OK ||
        ops->ctx_open(tp, 1, &ctxs[1]) != PGAS_OK ||
        ops->address(tp, &address, &bytes) != PGAS_OK || bytes > sizeof shared->address[0])
        bail("rank %d cannot open its transport", rank);
    memcpy(shared->address[rank], address, bytes);
    ops->set_peers(tp, address_of, NULL);
    return tp;
}

/* Serves until a message stops it, then hangs until it is killed. */
static void child(void)
{
    pgasi_tp_ctx_t *ctxs[2];
    pgasi_tp_t *tp = open_rank(1, ctxs);
    pgasi_tp_mem_t *mem;
    void *heap = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared->key_bytes = sizeof shared->key;
    shared->base = (uint64_t)(uintptr_t)heap;
    if (tp->ops->mem_register(tp, heap, BIG, &mem) != PGAS_OK ||
        tp->ops->key_pack(tp, mem, shared->key, &shared->key_bytes) != PGAS_OK)
        _exit(1);
    shared->phase = 1;
    while (shared->phase != 11) {
        ctxs[0]->ops->progress(ctxs[0]);
        if (n_messages >= 2 && shared->phase == 10)
            shared->phase = 2;
    }
    for (;;)
        pause();
}

typedef struct {
    pgasi_tp_comp_t super;
    bool done;
    pgas_status_t status;
} pending_t;

static void completed(pgasi_tp_comp_t *self, pgas_status_t status)
{
    pending_t *pending = (pending_t *)(void *)self;
    pending->done = true;
    pending->status = status;
}

static pgasi_tp_ctx_t *ctxs[2];
static pgasi_tp_key_t *key;

static bool within_limit(uint64_t begin)
{
    return pgasi_now_ns() - begin < LIMIT_S * UINT64_C(1000000000);
}

static void progress(void)
{
    ctxs[0]->ops->progress(ctxs[0]);
    ctxs[1]->ops->progress(ctxs[1]);
}

static pgas_status_t finish(pgas_status_t status, pending_t *pending, uint64_t begin)
{
    while (status == PGAS_INPROGRESS && !pending->done && within_limit(begin))
        progress();
    if (status != PGAS_INPROGRESS)
        return status;
    return pending->done ? pending->status : PGAS_ERR_TIMEOUT;
}

static pid_t start(pgasi_tp_t **tp_p)
{
    memset(shared, 0, sizeof *shared);
    n_errors = n_messages = n_suspected = 0;
    pid_t pid = fork();
    if (pid == 0)
        child();
    *tp_p = open_rank(0, ctxs);
    while (shared->phase != 1)
        sched_yield();
    if (ctxs[0]->ops->key_unpack(ctxs[0], 1, shared->key, shared->key_bytes, &key) != PGAS_OK)
        bail("no key");
    shared->phase = 10;
    for (int i = 0; i < 2; i++) { /* both contexts are connected then */
        pending_t pending = { .super.fn = completed };
        finish(ctxs[i]->ops->am(ctxs[i], 1, "x", 1, NULL, 0, &pending.super), &pending,
               pgasi_now_ns());
    }
    while (shared->phase != 2)
        progress();
    return pid;
}

static void stop(pgasi_tp_t *tp)
{
    uint64_t begin = pgasi_now_ns();
    key->ops->key_release(key);
    ctxs[1]->ops->ctx_close(ctxs[1]);
    ctxs[0]->ops->ctx_close(ctxs[0]);
    tp->ops->close(tp);
    ok(pgasi_now_ns() - begin < UINT64_C(3000000000), "closing took %.1f s",
       (double)(pgasi_now_ns() - begin) * 1e-9);
}

static void while_idle(void)
{
    pgasi_tp_t *tp;
    pid_t pid = start(&tp);
    uint64_t begin = pgasi_now_ns(), word = 1;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (n_errors == 0 && within_limit(begin))
        progress();
    ok(n_errors == 1 && error_peer == 1 && error_status == PGAS_ERR_PEER,
       "the owner gets the error after %.1f s", (double)(pgasi_now_ns() - begin) * 1e-9);
    for (int i = 0; i < 2; i++) {
        pgasi_tp_ctx_t *ctx = ctxs[i];
        ok(ctx->ops->am(ctx, 1, "x", 1, NULL, 0, NULL) == PGAS_ERR_PEER,
           "context %d: later messages are refused", i);
    }
    ok(ctxs[0]->ops->put(ctxs[0], 1, key, shared->base, &word, 8, NULL) == PGAS_ERR_PEER &&
           ctxs[0]->ops->get(ctxs[0], 1, key, shared->base, &word, 8, NULL) == PGAS_ERR_PEER &&
           ctxs[0]->ops->amo(ctxs[0], 1, key, shared->base, PGASI_AMO_ADD, 8, 1, 0, &word, NULL) ==
               PGAS_ERR_PEER &&
           ctxs[0]->ops->flush(ctxs[0], 1, NULL) == PGAS_ERR_PEER,
       "so are puts, gets, atomics and flushes");
    for (int i = 0; i < 1000; i++)
        progress();
    is_int(n_errors, 1, "and gets it once");
    ok(ctxs[0]->ops->am(ctxs[0], 0, "x", 1, NULL, 0, NULL) >= 0, "messages to others still go");
    stop(tp);
}

static void while_busy(void)
{
    static char data[BIG];
    pgasi_tp_t *tp;
    pid_t pid = start(&tp);
    uint64_t begin, word = 0;
    pending_t put = { .super.fn = completed }, get = put, amo = put, am = put, flush = put;
    pgas_status_t s_put, s_get, s_amo, s_am, s_flush;
    shared->phase = 11; /* it no longer serves */
    s_put = ctxs[0]->ops->put(ctxs[0], 1, key, shared->base, data, BIG, &put.super);
    s_get = ctxs[0]->ops->get(ctxs[0], 1, key, shared->base, &word, 8, &get.super);
    s_amo =
        ctxs[0]->ops->amo(ctxs[0], 1, key, shared->base, PGASI_AMO_OR, 8, 1, 0, &word, &amo.super);
    s_am = ctxs[1]->ops->am(ctxs[1], 1, "x", 1, data, BIG, &am.super);
    s_flush = ctxs[0]->ops->flush(ctxs[0], 1, &flush.super);
    for (int i = 0; i < 10000; i++)
        progress();
    ok((is_one_sided || (s_get == PGAS_INPROGRESS && !get.done)) && s_amo == PGAS_INPROGRESS &&
           !amo.done && s_am == PGAS_INPROGRESS && !am.done && s_flush == PGAS_INPROGRESS &&
           !flush.done,
       "operations on a rank that does not serve wait");
    begin = pgasi_now_ns();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    is_int(finish(s_get, &get, begin), is_one_sided ? PGAS_OK : PGAS_ERR_PEER,
           "it dies: the get ends");
    is_int(finish(s_amo, &amo, begin), PGAS_ERR_PEER, "so does the fetch-or");
    is_int(finish(s_am, &am, begin), PGAS_ERR_PEER, "so does the large message");
    is_int(finish(s_flush, &flush, begin), PGAS_ERR_PEER, "so does the flush");
    pgas_status_t status = finish(s_put, &put, begin);
    ok(status == PGAS_OK || status == PGAS_ERR_PEER, "the put completed locally or failed");
    is_int(n_errors, 1, "one report, after %.1f s", (double)(pgasi_now_ns() - begin) * 1e-9);
    stop(tp);
}

static void while_nobody_knows(void)
{
    pgasi_tp_t *tp;
    knows_nothing = true;
    pid_t pid = start(&tp);
    uint64_t begin = pgasi_now_ns(), word = 0;
    pending_t am = { .super.fn = completed }, get = am;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (n_suspected == 0 && within_limit(begin))
        progress();
    pgas_status_t s_am = ctxs[0]->ops->am(ctxs[0], 1, "x", 1, shared, sizeof *shared, &am.super);
    pgas_status_t s_get = ctxs[0]->ops->get(ctxs[0], 1, key, shared->base, &word, 8, &get.super);
    while (n_suspected < 3 && within_limit(begin))
        progress();
    ok(n_suspected >= 3 && n_errors == 0,
       "an owner that knows nothing is asked again, and no rank is given up");
    ok((s_am == PGAS_OK || (s_am == PGAS_INPROGRESS && !am.done)) && s_get == PGAS_INPROGRESS &&
           !get.done,
       "meanwhile operations are accepted and wait");
    tp->ops->peer_dead(tp, 1);
    is_int(finish(s_get, &get, begin), PGAS_ERR_PEER, "it learns of the death: they end");
    is_int(ctxs[1]->ops->am(ctxs[1], 1, "x", 1, NULL, 0, NULL), PGAS_ERR_PEER,
           "and later ones are refused");
    stop(tp);
}

int main(void)
{
    plan(20);
    const char *name = getenv("PGAS_TEST_TRANSPORT");
    if (name && name[0] != '\0') {
        transport = name;
        is_one_sided = strcmp(name, "verbs") == 0;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    while_idle();
    while_busy();
    while_nobody_knows();
    return done();
}
