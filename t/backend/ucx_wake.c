/* Sleeping and waking.
 *   what:   A thread that sleeps in poll on a context's event descriptor wakes for messages, for
 *           one-sided operations that need it, and for wake(). arm() refuses while an event waits,
 *           so no event is missed.
 *   np:     2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_TEST_FAULT= | PGAS_TEST_FAULT=delay=5,reorder=7,again=3 |
 *   env:    PGAS_TEST_TRANSPORT=verbs |
 *   env:    PGAS_TEST_TRANSPORT=verbs PGAS_TEST_FAULT=delay=5,reorder=7,again=3
 *   source: transport.h
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include "t/backend/world.h"

enum { ROUNDS = 60, STOP = 99 };

static int n_arrived, n_slept;
static bool stopped;

static bool on_am(void *arg, const pgasi_tp_am_t *am)
{
    int kind = 0;
    (void)arg;
    if (am->header_bytes == sizeof kind)
        memcpy(&kind, am->header, sizeof kind);
    stopped = stopped || kind == STOP;
    n_arrived++;
    return false;
}

/* Progress until nothing happens, then sleep until the descriptor says something. False: slept 20 s
 * for nothing. */
static bool serve_once(void)
{
    pgasi_tp_ctx_t *ctx = world.ctxs[0];
    int fd, n;
    if (ctx->ops->progress(ctx) > 0)
        return true;
    pgas_status_t status = ctx->ops->arm(ctx);
    if (status != PGAS_OK)
        return status == PGAS_ERR_BUSY;
    if (ctx->ops->event_fd(ctx, &fd) != PGAS_OK)
        return false;
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    n_slept++;
    do {
        n = poll(&poll_fd, 1, 20000);
    } while (n < 0 && errno == EINTR);
    return n == 1;
}

/* Rank 1 serves asleep; rank 0 sends and waits for nothing but local completion in between. */
static void messages(void)
{
    bool good = true;
    n_arrived = n_slept = 0;
    stopped = false;
    world_barrier();
    if (world.rank == 1) {
        while (good && !stopped)
            good = serve_once();
    } else {
        for (int i = 0; i <= ROUNDS; i++) {
            int kind = i == ROUNDS ? STOP : 1;
            struct timespec a_while = { .tv_nsec = i % 4 == 0 ? 2000000 : 100000 };
            /* not to synchronise: so that the other side really sleeps, mostly */
            nanosleep(&a_while, NULL);
            good = world_am(i % 2, 1, &kind, sizeof kind, world.heap, i % 3 == 0 ? 30000 : 8) ==
                       PGAS_OK &&
                   good;
        }
        while (good && world_flush(0, 1) != PGAS_OK)
            good = false;
    }
    world_barrier();
    spmd_ok(good && (world.rank == 0 || n_arrived == ROUNDS + 1), "a sleeper gets %d messages",
            ROUNDS + 1);
    spmd_ok(world.rank == 0 || n_slept > 0, "and did sleep");
}

static void one_sided(void)
{
    bool good = true;
    uint64_t result = 0, word = 0;
    stopped = false;
    memset(world.heap, 0, 4096);
    world_barrier();
    if (world.rank == 1) {
        while (good && !stopped)
            good = serve_once();
        memcpy(&word, world.heap + 8, 8);
        good = good && word == ROUNDS;
    } else {
        for (uint64_t i = 0; i < ROUNDS; i++) {
            good = world_put(0, 1, 64, &i, 8) == PGAS_OK && good;
            good = world_flush(0, 1) == PGAS_OK && good;
            good = world_get(1, 1, 64, &word, 8) == PGAS_OK && word == i && good;
            good = world_amo(1, 1, 8, PGASI_AMO_ADD, 8, 1, 0, &result) == PGAS_OK && result == i &&
                   good;
        }
        int kind = STOP;
        good = world_am(0, 1, &kind, sizeof kind, NULL, 0) == PGAS_OK && good;
    }
    spmd_ok(good, "put, get and fetch-add complete while their target sleeps and is woken");
    world_barrier();
}

static void *waker(void *arg)
{
    pgasi_tp_ctx_t *ctx = arg;
    return ctx->ops->wake(ctx) == PGAS_OK ? NULL : arg;
}

static void wake_from_thread(void)
{
    bool good = true;
    world_barrier();
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *failed = NULL;
        pgasi_tp_ctx_t *ctx = world.ctxs[i % 2];
        int fd;
        good = ctx->ops->event_fd(ctx, &fd) == PGAS_OK && good;
        while (ctx->ops->arm(ctx) == PGAS_ERR_BUSY)
            ctx->ops->progress(ctx);
        good = pthread_create(&thread, NULL, waker, ctx) == 0 && good;
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
        good = poll(&poll_fd, 1, 20000) == 1 && good;
        pthread_join(thread, &failed);
        good = good && !failed;
        /* taking the signal back is no sleep */
        good = ctx->ops->arm(ctx) == PGAS_ERR_BUSY && good;
    }
    spmd_ok(good, "wake() by another thread ends a sleep, also one that has not begun");
    world_barrier();
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    spmd_plan(4);
    world_open(&(world_opts_t){ .am_fn = on_am });
    spmd_diag("%s", world.attr.detail);
    messages();
    one_sided();
    wake_from_thread();
    world_close();
    return spmd_end();
}
