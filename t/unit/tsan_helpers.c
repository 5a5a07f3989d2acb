/* what: Many threads of a rank broadcast, lock, call objects and get memory at the same time, also
 *       from blocking handlers. Everything runs once, nothing overlaps that must not, and
 *       there is no race.
 * needs: tsan-ok
 * source: pgas/broadcast.h, pgas/lock.h, pgas/object.h, pgas/mem.h. One rank: what travels
 * between ranks is in t/spmd
 */
#include <pthread.h>
#include "mem/block.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS 5
#define N_ROUNDS  120

static pgas_handler_t once, locked, add;
static pgas_lock_t lock;
static pgas_object_t object;
/* plain: handlers, holders of a lock, and operations do not overlap */
static uint64_t n_once, n_locked, total;
static int n_bad;

static void bad(bool is)
{
    __atomic_fetch_add(&n_bad, is, __ATOMIC_RELAXED);
}

static void on_once(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_once++;
}

static void with_lock(void)
{
    bad(pgas_lock_acquire(lock, -1, NULL) != PGAS_OK);
    n_locked++;
    bad(pgas_lock_release(lock) != PGAS_OK);
}

static void on_locked(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    with_lock();
}

static void op_add(void *at, const void *args, size_t bytes, void *result, size_t result_bytes,
                   pgas_thread_t source)
{
    uint64_t by;
    (void)source;
    memcpy(&by, args, bytes);
    memcpy(result, at, result_bytes);
    *(uint64_t *)at += by;
}

static void one_round(int i, pgas_sync_t *sync)
{
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    uint64_t one = 1, before;
    pgas_gptr_t ptr;
    o.sync = i % 3 ? sync : NULL;
    bad(pgas_call_to(pgas_on_team(NULL), once, &i, sizeof i, &o) != PGAS_OK);
    if (i % 30 == 0)
        bad(pgas_call_to(pgas_on_team(NULL), locked, NULL, 0, NULL) != PGAS_OK);
    with_lock();
    bad(pgas_object_call(object, add, &one, 8, &before, 8) != PGAS_OK);
    bad(pgas_alloc_on(pgas_rank(), PGAS_ZONE_OWN, 64, &ptr) != PGAS_OK ||
        pgas_free_on(ptr) != PGAS_OK);
}

static void *work(void *arg)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    (void)arg;
    bad(pgas_thread_attach() != PGAS_OK);
    for (int i = 0; i < N_ROUNDS; i++)
        one_round(i, &sync);
    bad(pgas_sync_wait(&sync, -1) != PGAS_OK);
    bad(pgas_thread_detach() != PGAS_OK);
    return NULL;
}

static void together(const char *params)
{
    pthread_t thread[N_THREADS];
    n_once = n_locked = total = 0;
    n_bad = 0;
    pgasi_block_zone_always = !pgasi_block_zone_always;
    bad(lone_init(1, params) != PGAS_OK || pgas_lock_create(&lock) != PGAS_OK);
    bad(pgas_object_create(&total, &object) != PGAS_OK);
    for (int t = 0; t < N_THREADS; t++)
        bad(pthread_create(&thread[t], NULL, work, NULL) != 0);
    for (int t = 0; t < N_THREADS; t++)
        bad(pthread_join(thread[t], NULL) != 0);
    bad(pgas_quiesce() != PGAS_OK);
    bad(pgas_lock_destroy(lock) != PGAS_OK || pgas_object_destroy(object) != PGAS_OK);
    bad(pgas_finalize() != PGAS_OK);
    uint64_t all = N_THREADS * N_ROUNDS;
    is_int(n_bad, 0, "%s: all goes well", params);
    ok(n_once == all && n_locked == all + N_THREADS * (N_ROUNDS / 30) && total == all,
       "%s: everything ran once", params);
}

int main(void)
{
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    plan(5);
    bool good = pgas_handler_register("t.once", on_once, NULL, NULL, &once) == PGAS_OK &&
                pgas_method_register("t.add", op_add, &add) == PGAS_OK;
    good =
        good && pgas_handler_register("t.locked", on_locked, NULL, &may_block, &locked) == PGAS_OK;
    ok(good, "handlers are known");
    together("HEAP_SIZE=1M SERVICE_THREADS=1");
    together("HEAP_SIZE=1M SERVICE_THREADS=0 LANES=2");
    return done();
}
