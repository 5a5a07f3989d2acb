/* what: Many threads use the super-chunk and the general allocator at the same time, and release
 *       blocks of other threads. Each thread has a circular pool meanwhile. The account stays
 *       right.
 * needs: tsan-ok
 * source: pgas/mem.h; seeded test */
#include <pthread.h>
#include "base/checks.h"
#include "base/rng.h"
#include "mem/regmem.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_THREADS 4
#define STEPS     20000
#define SHELF     64

typedef struct {
    pgas_block_t block; /* bytes 0: empty */
    bool general;
} item_t;

/* Blocks that any thread may take and release. */
static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static item_t shelf[SHELF];
static pgasi_super_t *super;
static pgasi_general_t *general;
static uint64_t seed;
static bool careless; /* releases a block and keeps it on the shelf */

static unsigned char mark_of(const pgas_block_t *b)
{
    return (unsigned char)((b->ptr >> 6) * 37 + b->bytes);
}

static bool is_marked(const pgas_block_t *b)
{
    const unsigned char *at = b->address;
    return at[0] == mark_of(b) && at[b->bytes / 2] == mark_of(b) && at[b->bytes - 1] == mark_of(b);
}

static int give_back(const item_t *item)
{
    int n_bad = !is_marked(&item->block);
    memset(item->block.address, 0, item->block.bytes);
    pgas_status_t status = item->general ? pgasi_general_release(general, &item->block)
                                         : pgasi_super_release(super, &item->block);
    return n_bad + (status != PGAS_OK);
}

static int step(pgasi_rng_t *rng)
{
    item_t item = { .general = pgasi_rng_below(rng, 4) != 0 }, old;
    size_t bytes = 1 + pgasi_rng_below(rng, 5000);
    pgas_status_t status = item.general ? pgasi_general_acquire(general, bytes, &item.block)
                                        : pgasi_super_acquire(super, bytes, &item.block);
    if (status != PGAS_OK)
        return status != PGAS_ERR_AGAIN;
    memset(item.block.address, mark_of(&item.block), bytes);
    size_t at = pgasi_rng_below(rng, SHELF);
    pthread_mutex_lock(&shelf_lock);
    old = shelf[at];
    if (!careless || !old.block.bytes)
        shelf[at] = item;
    pthread_mutex_unlock(&shelf_lock);
    if (careless && old.block.bytes)
        return give_back(&old) + give_back(&item); /* old stays where it was */
    return old.block.bytes ? give_back(&old) : 0;
}

static void *thread_main(void *arg)
{
    pgasi_rng_t rng;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *ring;
    opts.owner = "threads";
    opts.policy = PGAS_POOL_CIRCULAR;
    int *n_bad_p = arg, n_bad = pgas_thread_attach() != PGAS_OK;
    n_bad += pgas_pool_create(&opts, &ring) != PGAS_OK;
    pgasi_rng_seed(&rng, seed + (uint64_t)pgas_thread_slot(pgas_thread_self()));
    for (int i = 0; i < STEPS; i++) {
        n_bad += step(&rng);
        if (i % 16 == 0) {
            pgas_block_t b;
            n_bad += pgas_pool_acquire(ring, 1 + i % 3000, -1, &b) != PGAS_OK;
            memset(b.address, i, b.bytes);
            n_bad += pgas_pool_release(ring, &b) != PGAS_OK;
        }
    }
    n_bad += pgas_pool_destroy(ring) != PGAS_OK;
    *n_bad_p = n_bad + (pgas_thread_detach() != PGAS_OK);
    return NULL;
}

/* ---- a general pool: blocks go from thread to thread ---- */

static pgas_pool_t *pool;

static void *pool_main(void *arg)
{
    pgasi_rng_t rng;
    int *n_bad_p = arg, n_bad = pgas_thread_attach() != PGAS_OK;
    pgasi_rng_seed(&rng, seed + 77 + (uint64_t)pgas_thread_slot(pgas_thread_self()));
    for (int i = 0; i < STEPS / 4; i++) {
        pgas_block_t b = { .bytes = 0 }, old;
        if (pgas_pool_acquire(pool, 1 + pgasi_rng_below(&rng, 5000), i % 2 ? 1000 : 0, &b) ==
            PGAS_OK)
            memset(b.address, mark_of(&b), b.bytes);
        size_t at = pgasi_rng_below(&rng, SHELF);
        pthread_mutex_lock(&shelf_lock);
        old = shelf[at].block;
        shelf[at].block = b;
        pthread_mutex_unlock(&shelf_lock);
        if (old.bytes)
            n_bad += !is_marked(&old) || pgas_pool_release(pool, &old) != PGAS_OK;
    }
    *n_bad_p = n_bad + (pgas_thread_detach() != PGAS_OK);
    return NULL;
}

static int share_pool(void)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_info_t info = { .size = sizeof info };
    pthread_t thread[N_THREADS];
    int n_bad[N_THREADS] = { 0 }, sum = 0;
    opts.unit_bytes = 4096;
    opts.max_bytes = 128 << 10;
    sum += pgas_pool_create(&opts, &pool) != PGAS_OK;
    for (int i = 0; i < N_THREADS; i++)
        pthread_create(&thread[i], NULL, pool_main, &n_bad[i]);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(thread[i], NULL);
        sum += n_bad[i];
    }
    for (int i = 0; i < SHELF; i++)
        sum += shelf[i].block.bytes && pgas_pool_release(pool, &shelf[i].block) != PGAS_OK;
    memset(shelf, 0, sizeof shelf);
    sum += pgas_pool_info(pool, &info) != PGAS_OK || info.n_blocks || info.used_bytes;
    return sum + (pgas_pool_destroy(pool) != PGAS_OK);
}

static int run(int n_threads)
{
    pthread_t thread[N_THREADS];
    int n_bad[N_THREADS] = { 0 }, sum = 0;
    for (int i = 0; i < n_threads; i++)
        pthread_create(&thread[i], NULL, thread_main, &n_bad[i]);
    for (int i = 0; i < n_threads; i++) {
        pthread_join(thread[i], NULL);
        sum += n_bad[i];
    }
    return sum;
}

static int clear_shelf(void)
{
    int n_bad = 0;
    for (int i = 0; i < SHELF; i++) {
        if (shelf[i].block.bytes)
            n_bad += give_back(&shelf[i]);
        shelf[i].block.bytes = 0;
    }
    return n_bad;
}

int main(void)
{
    plan(7);
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_info_t info[2];
    pgas_mem_owner_t owners[PGAS_MEM_OWNERS_MAX];
    int n_owners = 0;
    seed = tap_seed(20240112);
    ok(lone_init(1, "HEAP_SIZE=4M SERVICE_THREADS=0") == PGAS_OK, "init");
    opts.owner = "shared";
    opts.unit_bytes = 4096;
    opts.max_bytes = 192 << 10;
    ok(pgasi_super_create(&opts, &super) == PGAS_OK &&
           pgasi_general_create(&opts, &general) == PGAS_OK,
       "two allocators");
    int n_bad = run(N_THREADS);
    is_int(n_bad + clear_shelf(), 0, "%d threads acquire blocks, and release blocks of others",
           N_THREADS);
    pgasi_super_info(super, &info[0]);
    pgasi_general_info(general, &info[1]);
    pgas_mem_owners(owners, PGAS_MEM_OWNERS_MAX, &n_owners);
    uint64_t bytes = 0, others = 0;
    for (int i = 0; i < n_owners && i < PGAS_MEM_OWNERS_MAX; i++) {
        bytes += strcmp(owners[i].name, "shared") ? 0 : owners[i].bytes;
        others += strcmp(owners[i].name, "threads") ? 0 : owners[i].bytes;
    }
    ok(info[0].n_blocks == 0 && info[1].n_blocks == 0 && bytes == info[0].bytes + info[1].bytes &&
           others == 0,
       "all is back, and accounted for");
    is_int(share_pool(), 0, "threads share a general pool and release blocks of others");
    careless = true;
    ok(run(1) > 0, "a block that is released twice is noticed");
    memset(shelf, 0, sizeof shelf);
    pgasi_super_destroy(super);
    pgasi_general_destroy(general);
    is_int(pgas_finalize(), PGAS_OK, "finalize");
    return done();
}
