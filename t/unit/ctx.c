/* what: A context is used by its owner or by a helper, never by both. The owner takes no lock; the
 *       helper excludes the owner by a barrier. A context that is not polled gets help, one whose
 *       owner polls it does not.
 * source: src/mem/ctx.h; the transport is a mock whose progress detects a second thread inside.
 * (ThreadSanitizer does not see the
 *         barrier.) */
#include <pthread.h>
#include "base/clock.h"
#include "msg/send_queue.h"
#include "mem/ctx.h"
#include "mem/thread.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define SECTIONS 20000

static int in_use, n_met, n_helped;
static bool careless; /* the owner forgets to say that it is inside */

static void use(void)
{
    if (__atomic_exchange_n(&in_use, 1, __ATOMIC_RELAXED))
        __atomic_fetch_add(&n_met, 1, __ATOMIC_RELAXED);
    for (volatile int i = 0; i < 20; i++) {
    }
    __atomic_store_n(&in_use, 0, __ATOMIC_RELAXED);
}

static int stand_in_progress(pgasi_tp_ctx_t *ctx)
{
    (void)ctx;
    n_helped++;
    use();
    return 1;
}

static pgasi_tp_ops_t stand_in;
static pgasi_tp_ctx_t tp_ctx;
static pgasi_tp_t tp;
static int over;

static void *helper_main(void *arg)
{
    (void)arg;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        pgasi_ctxs_help();
    return NULL;
}

static void open_stand_in(pgasi_ctx_t *ctx)
{
    stand_in.progress = stand_in_progress;
    tp_ctx.ops = &stand_in;
    tp.ops = &stand_in;
    pgasi_tp = &tp;
    ctx->tp = &tp_ctx;
}

static void close_stand_in(pgasi_ctx_t *ctx)
{
    ctx->tp = NULL;
    ctx->in_flight = 0;
    pgasi_tp = NULL;
}

/* The owner goes in and out while another thread helps; how often they met. */
static int run_together(pgasi_ctx_t *ctx)
{
    pthread_t helper;
    n_met = n_helped = over = 0;
    ctx->in_flight = 1;
    pthread_create(&helper, NULL, helper_main, NULL);
    /* On a busy machine they may take turns for long. */
    for (int i = 0;
         i < SECTIONS || (i < 5000 * SECTIONS && (n_helped == 0 || (careless && n_met == 0)));
         i++) {
        bool nested = i % 16 == 0;
        if (!careless)
            pgasi_ctx_lock(ctx);
        if (nested && !careless)
            pgasi_ctx_lock(ctx);
        use();
        if (nested && !careless)
            pgasi_ctx_unlock(ctx);
        use();
        if (!careless)
            pgasi_ctx_unlock(ctx);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(helper, NULL);
    return n_met;
}

int main(void)
{
    plan(8);
    ok(lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0") == PGAS_OK, "init");
    pgasi_ctx_t *ctx = pgasi_self.ctx;
    open_stand_in(ctx);
    is_int(run_together(ctx), 0, "owner and helper never meet");
    ok(n_helped > 0, "and the helper has been there");
    careless = true;
    ok(run_together(ctx) > 0, "an owner that does not say that it is inside is met");

    n_helped = 0;
    pgasi_ctxs_help(); /* sees how often the owner has polled */
    n_helped = 0;
    pgasi_ctxs_help();
    is_int(n_helped, 1,
           "a context with operations under way is helped when its owner has not looked since");
    pgasi_ctx_lock(ctx);
    pgasi_ctx_progress(ctx);
    pgasi_ctx_unlock(ctx);
    n_helped = 0;
    pgasi_ctxs_help();
    is_int(n_helped, 0, "not when it has");
    pgasi_ctx_lock(ctx);
    pgasi_ctxs_help();
    is_int(n_helped, 0, "nor while it is inside");
    pgasi_ctx_unlock(ctx);
    close_stand_in(ctx);
    is_int(pgas_finalize(), PGAS_OK, "finalize");
    return done();
}
