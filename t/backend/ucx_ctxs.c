/* Contexts.
 *   what:   Contexts of several threads work at the same time. A context can be closed and opened
 *           again during traffic, and no rank takes that for the death of a rank. Many contexts are
 *           drained at once.
 *   np:     2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_TEST_TRANSPORT=ucx | PGAS_TEST_TRANSPORT=verbs
 *   source: transport.h
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include "t/backend/world.h"

enum { ROUNDS = 10, STEPS = 500, MESSAGES = 40 };

static _Atomic int n_arrived, n_bad, n_errors, n_running;

static bool on_am(void *arg, const pgasi_tp_am_t *am)
{
    uint64_t seed;
    (void)arg;
    memcpy(&seed, am->header, sizeof seed);
    n_bad += !world_matches(am->data, seed, 0, am->data_bytes);
    n_arrived++;
    return false;
}

static void on_error(void *arg, int peer, pgas_status_t status)
{
    (void)arg, (void)peer, (void)status;
    n_errors++;
}

static void completed(pgasi_tp_comp_t *self, pgas_status_t status)
{
    pending_t *pending = (pending_t *)(void *)self;
    pending->done = true;
    pending->status = status;
}

/* As world_wait, but with progress of one context only: that of the calling thread. */
static pgas_status_t wait_on(pgasi_tp_ctx_t *ctx, pgas_status_t status, pending_t *pending)
{
    while (status == PGAS_INPROGRESS && !pending->done)
        if (ctx->ops->progress(ctx) == 0)
            sched_yield(); /* more threads than cores */
    return status == PGAS_INPROGRESS ? pending->status : status;
}

#define DO(result, ctx, call)                          \
    do {                                               \
        pending_t pending = { .super.fn = completed }; \
        pgasi_tp_comp_t *comp = &pending.super;        \
        while (((result) = (call)) == PGAS_ERR_AGAIN)  \
            (ctx)->ops->progress(ctx);                 \
        (result) = wait_on((ctx), (result), &pending); \
    } while (0)

/* Puts and gets of its own words, additions to a common one, messages now and then. */
static void *work(void *arg)
{
    int index = (int)(intptr_t)arg;
    pgasi_tp_ctx_t *ctx = world.ctxs[index];
    pgasi_tp_key_t *key = world.keys[index][world_right()];
    unsigned char data[300];
    bool good = true;
    for (uint64_t i = 0; i < STEPS; i++) {
        pgas_status_t status;
        uint64_t at = world.bases[world_right()] + 1024 * (uint64_t)index + i % 100 * 8, back = 0;
        DO(status, ctx, ctx->ops->put(ctx, world_right(), key, at, &i, 8, comp));
        good = good && status == PGAS_OK;
        DO(status, ctx, ctx->ops->flush(ctx, world_right(), comp));
        good = good && status == PGAS_OK;
        DO(status, ctx, ctx->ops->get(ctx, world_right(), key, at, &back, 8, comp));
        good = good && status == PGAS_OK && back == i;
        DO(status, ctx,
           ctx->ops->amo(ctx, world_right(), key, world.bases[world_right()], PGASI_AMO_ADD, 8, 1,
                         0, &back, comp));
        good = good && status == PGAS_OK;
        if (i % 10 == 0) {
            world_fill(data, i, 0, sizeof data);
            DO(status, ctx,
               ctx->ops->am(ctx, world_right(), &i, sizeof i, data, sizeof data, comp));
            good = good && status == PGAS_OK;
        }
    }
    n_running--;
    return good ? NULL : arg;
}

static void threads_at_once(void)
{
    enum { N = WORLD_CTXS_MAX - 1 };
    pthread_t threads[N];
    bool good = true;
    n_arrived = n_bad = 0;
    n_running = N;
    memset(world.heap, 0, 8);
    world_barrier();
    for (int i = 0; i < N; i++)
        pthread_create(&threads[i], NULL, work, (void *)(intptr_t)(i + 1));
    while (n_running > 0 || n_arrived < N * STEPS / 10) {
        /* context 0 only: the others are in use */
        if (world.ctxs[0]->ops->progress(world.ctxs[0]) == 0)
            sched_yield();
    }
    for (int i = 0; i < N; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        good = good && !failed;
    }
    world_barrier();
    uint64_t sum;
    memcpy(&sum, world.heap, 8);
    spmd_ok(good && n_bad == 0 && sum == N * STEPS,
            "%d threads with a context each put, get, add and send at once", N);
}

static void open_and_close(void)
{
    unsigned char data[70000];
    bool good = true;
    n_arrived = n_bad = 0;
    world_barrier();
    for (int round = 0; round < ROUNDS; round++) {
        pgasi_tp_ctx_t *ctx;
        pgasi_tp_key_t *key;
        good = world.ops->ctx_open(world.tp, 7, &ctx) == PGAS_OK && good;
        good = ctx->ops->key_unpack(ctx, world_right(),
                                    world.packed_keys + (size_t)world_right() * PGASI_TP_KEY_MAX,
                                    world.key_bytes[world_right()], &key) == PGAS_OK &&
               good;
        for (uint64_t i = 0; i < MESSAGES && round != 3; i++) { /* once it sends nothing */
            size_t bytes = i % 10 == 3 ? sizeof data : 100;
            pending_t pending;
            pgas_status_t status;
            world_fill(data, i, 0, bytes);
            do {
                status = ctx->ops->am(ctx, world_right(), &i, sizeof i, data, bytes,
                                      world_pending(&pending));
                ctx->ops->progress(ctx);
                world_progress();
            } while (status == PGAS_ERR_AGAIN);
            while (status == PGAS_INPROGRESS && !pending.done) {
                ctx->ops->progress(ctx);
                world_progress();
            }
            good = good && (status == PGAS_OK || pending.status == PGAS_OK);
        }
        uint64_t word = 77;
        pending_t pending;
        pgas_status_t status =
            ctx->ops->put(ctx, world_right(), key, world.bases[world_right()] + 8, &word, 8,
                          world_pending(&pending));
        while (status == PGAS_INPROGRESS && !pending.done) {
            ctx->ops->progress(ctx);
            world_progress();
        }
        ctx->ops->key_release(key);
        /* its flush needs the peer's progress: peers are between two such calls, or in one */
        ctx->ops->ctx_close(ctx);
        world_progress();
    }
    while (n_arrived < (ROUNDS - 1) * MESSAGES)
        world_progress();
    world_barrier();
    spmd_ok(good && n_bad == 0 && n_arrived == (ROUNDS - 1) * MESSAGES,
            "a context opened and closed %d times loses nothing", ROUNDS);
    pgasi_tp_ctx_t *ctx = NULL;
    spmd_ok(world.ops->ctx_open(world.tp, 1, &ctx) == PGAS_ERR_EXISTS &&
                world.ops->ctx_open(world.tp, -1, &ctx) == PGAS_ERR_RANGE && !ctx,
            "a context that is open cannot be opened again, nor one that cannot be");
    for (int i = 0; i < 2000; i++)
        world_progress();
    spmd_is_int(n_errors, 0, "no rank takes a closed context for a dead rank");
}

/* A first and only message on each context: its connection is being made while the context is
 * drained, with the help of peers that progress nothing but their context 0. */
static void drained_together(void)
{
    enum { N = 6, FIRST = 8 };
    static unsigned char data[N][9000];
    pgasi_tp_ctx_t *ctxs[N];
    pending_t pending[N];
    bool good = true, sent[N];
    int n_left = N;
    n_arrived = n_bad = 0;
    world_barrier();
    for (int i = 0; i < N; i++) {
        uint64_t seed = (uint64_t)i;
        world_fill(data[i], seed, 0, sizeof data[i]);
        good = world.ops->ctx_open(world.tp, FIRST + i, &ctxs[i]) == PGAS_OK && good;
        pgas_status_t status = ctxs[i]->ops->am(ctxs[i], world_right(), &seed, sizeof seed, data[i],
                                                sizeof data[i], world_pending(&pending[i]));
        sent[i] = status == PGAS_OK;
        good = status >= PGAS_OK && good;
    }
    while (n_left > 0) { /* for ever, if it does not work */
        n_left = 0;
        for (int i = 0; i < N; i++) {
            n_left += ctxs[i]->ops->ctx_drain(ctxs[i]) == PGAS_INPROGRESS;
            ctxs[i]->ops->progress(ctxs[i]);
        }
        world.ctxs[0]->ops->progress(world.ctxs[0]);
    }
    for (int i = 0; i < N; i++)
        good = good && (sent[i] || (pending[i].done && pending[i].status == PGAS_OK));
    spmd_ok(good, "%d contexts are drained at once: operations under way are complete", N);
    while (n_arrived < N)
        world_progress();
    world_barrier();
    for (int i = 0; i < N; i++)
        ctxs[i]->ops->ctx_close(ctxs[i]);
    spmd_ok(n_bad == 0 && n_arrived == N, "and has arrived");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(6);
    world_open(&(world_opts_t){ .am_fn = on_am, .error_fn = on_error, .n_ctxs = WORLD_CTXS_MAX });
    spmd_diag("%s", world.attr.detail);
    threads_at_once();
    drained_together();
    open_and_close();
    world_close();
    return spmd_end();
}
