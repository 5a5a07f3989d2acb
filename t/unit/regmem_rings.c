/* what: A block of a pool is not reused before its transfers are complete, in whatever
 *       order peers complete, and is then reused automatically. A pool for one peer does not wait
 *       for others. Flushes are few. Impossible requests are refused with a message. The account is
 *       consistent.
 * log:  would wait for itself
 * log:  detaches without having released 1 blocks
 * log:  exceeds the allocator
 * source: pgas/mem.h; seeded test. The transport is a mock that reads the data of a put when it
 * completes */
#include <pthread.h>
#include "base/checks.h"
#include "base/rng.h"
#include "boot/boot.h"
#include "mem/regmem.h"
#include "mem/rma.h"
#include "mem/thread.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define N_RANKS 4
#define OPS_MAX 4096
#define ANY     (-1)

/* ---- the simulated transport: puts and flushes complete in order for each peer, when the test
 * says ---- */

typedef struct {
    int peer;                  /* -1: a flush of all */
    const unsigned char *data; /* NULL: a flush */
    size_t bytes;
    unsigned char mark;
    pgasi_tp_comp_t *comp;
    bool done;
} op_t;

static op_t ops[OPS_MAX];
static int n_ops, n_wrong, n_flushes;
static bool lies;    /* completes a flush at once, before its puts */
static bool fails;   /* flushes fail */
static int releases; /* what progress completes: -1 nothing, else of all peers, so many */
static pgasi_ctx_t *ctx;

static bool is_intact(const op_t *op)
{
    for (size_t i = 0; i < op->bytes; i++)
        if (op->data[i] != op->mark)
            return false;
    return true;
}

static void end_op(op_t *op)
{
    op->done = true;
    if (op->data) {
        n_wrong += !is_intact(op);
        pgasi_ctx_count(ctx, -1);
    } else if (op->comp) {
        op->comp->fn(op->comp, PGAS_OK);
    }
}

static bool before_it_all_done(int i)
{
    for (int k = 0; k < i; k++)
        if (!ops[k].done && ops[k].data && (ops[i].peer < 0 || ops[k].peer == ops[i].peer))
            return false;
    return true;
}

/* Completes the oldest n puts to a peer (-1: any), and flushes whose puts are all complete. */
static void end_puts(int peer, int n)
{
    for (int i = 0; i < n_ops && n > 0; i++) {
        if (!ops[i].done && ops[i].data && (peer < 0 || ops[i].peer == peer)) {
            end_op(&ops[i]);
            n--;
        }
    }
    for (int i = 0; i < n_ops; i++)
        if (!ops[i].done && !ops[i].data && before_it_all_done(i))
            end_op(&ops[i]);
    int kept = 0;
    for (int i = 0; i < n_ops; i++)
        if (!ops[i].done)
            ops[kept++] = ops[i];
    n_ops = kept;
}

static int stand_in_progress(pgasi_tp_ctx_t *tp)
{
    (void)tp;
    if (releases > 0)
        end_puts(-1, releases);
    return 0;
}

static pgas_status_t stand_in_flush(pgasi_tp_ctx_t *tp, int peer, pgasi_tp_comp_t *comp)
{
    (void)tp;
    n_flushes++;
    if (fails)
        return PGAS_ERR_PEER;
    ops[n_ops++] = (op_t){ .peer = peer, .comp = comp };
    if (lies || before_it_all_done(n_ops - 1)) {
        n_ops--;
        return PGAS_OK;
    }
    return PGAS_INPROGRESS;
}

static void stand_in_query(pgasi_tp_t *tp, pgasi_tp_attr_t *attr_p)
{
    (void)tp;
    attr_p->receive_bytes = 12345;
}

static pgasi_tp_ops_t table = { .progress = stand_in_progress,
                                .flush = stand_in_flush,
                                .query = stand_in_query };
static pgasi_tp_ctx_t tp_ctx = { &table };
static pgasi_tp_t tp = { &table };

static void open_stand_in(void)
{
    ctx = pgasi_self.ctx;
    ctx->tp = &tp_ctx;
    pgasi_tp = &tp;
    n_ops = n_wrong = n_flushes = 0;
    lies = fails = false;
    releases = -1;
}

static void close_stand_in(void)
{
    end_puts(-1, OPS_MAX);
    ctx->flushed = ctx->issued;
    ctx->tp = NULL;
    pgasi_tp = NULL;
}

/* What pgas_put_nb does off the node. */
static void put(int peer, const pgas_block_t *b, unsigned char mark)
{
    ops[n_ops++] = (op_t){ peer, b->address, b->bytes, mark, NULL, false };
    pgasi_ctx_count(ctx, 1);
    ctx->peer[peer].issued++;
    ctx->issued++;
}

/* ---- pools of the thread: for any peer (-1), and for one ---- */

static pgas_pool_t *pools[1 + N_RANKS];

static pgas_pool_t *pool_for(int peer)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.owner = "threads";
    opts.policy = PGAS_POOL_CIRCULAR;
    opts.peer = peer;
    if (!pools[1 + peer])
        (void)pgas_pool_create(&opts, &pools[1 + peer]);
    return pools[1 + peer];
}

static pgas_status_t acquire(int peer, size_t bytes, int64_t timeout_us, pgas_block_t *block_p)
{
    return pgas_pool_acquire(pool_for(peer), bytes, timeout_us, block_p);
}

static pgas_status_t release(int peer, const pgas_block_t *block)
{
    return pgas_pool_release(pool_for(peer), block);
}

static pgas_pool_info_t info_of(int peer)
{
    pgas_pool_info_t info = { .size = sizeof info };
    (void)pgas_pool_info(pool_for(peer), &info);
    return info;
}

static size_t out(int peer)
{
    return info_of(peer).n_blocks;
}

/* ---- promises ---- */

static pgas_status_t send_one(int ring, int peer, size_t bytes, unsigned char mark)
{
    pgas_block_t b;
    pgas_status_t status = acquire(ring, bytes, 0, &b);
    if (status != PGAS_OK)
        return status;
    memset(b.address, mark, bytes);
    put(peer, &b, mark);
    return release(ring, &b);
}

/* How many puts found their data changed before they were complete. */
static int random_traffic(uint64_t seed, bool lying, int *n_again_p, int *n_sent_p)
{
    pgasi_rng_t rng;
    int n_held = 0, n_bad = 0;
    pgas_block_t held[8];
    unsigned char mark[8];
    int peer[8], from[8];
    pgasi_rng_seed(&rng, seed);
    open_stand_in();
    lies = lying;
    *n_again_p = *n_sent_p = 0;
    for (int i = 0; i < 40000; i++) {
        uint64_t dice = pgasi_rng_below(&rng, 100);
        if (dice < 45 && n_held < 8) {
            peer[n_held] = (int)pgasi_rng_below(&rng, N_RANKS);
            int ring = from[n_held] = pgasi_rng_below(&rng, 2) ? peer[n_held] : ANY;
            size_t bytes = 1 + pgasi_rng_below(&rng, pgasi_rng_below(&rng, 20) ? 600 : 9000);
            pgas_status_t status = acquire(ring, bytes, 0, &held[n_held]);
            n_bad += status != PGAS_OK && status != PGAS_ERR_AGAIN;
            *n_again_p += status == PGAS_ERR_AGAIN;
            if (status == PGAS_OK) {
                mark[n_held] = (unsigned char)pgasi_rng_u64(&rng);
                memset(held[n_held].address, mark[n_held], bytes);
                n_held++;
            }
        } else if (dice < 90 && n_held && n_ops < OPS_MAX - 16) {
            int k = (int)pgasi_rng_below(&rng, (uint64_t)n_held);
            put(peer[k], &held[k], mark[k]);
            n_bad += release(from[k], &held[k]) != PGAS_OK;
            --n_held;
            held[k] = held[n_held];
            mark[k] = mark[n_held];
            peer[k] = peer[n_held];
            from[k] = from[n_held];
            ++*n_sent_p;
        } else {
            end_puts((int)pgasi_rng_below(&rng, N_RANKS), (int)pgasi_rng_below(&rng, 30));
        }
    }
    for (; n_held; n_held--)
        n_bad += release(from[n_held - 1], &held[n_held - 1]) != PGAS_OK;
    end_puts(-1, OPS_MAX);
    for (int r = -1; r < N_RANKS; r++)
        n_bad += out(r) != 0;
    close_stand_in();
    return n_wrong + n_bad;
}

static void contents_stay(uint64_t seed)
{
    int n_again, n_sent;
    is_int(random_traffic(seed, false, &n_again, &n_sent), 0,
           "sent bytes do not change before they are complete");
    ok(n_again > 100 && n_sent > 5000, "with rings full %d times, %d puts", n_again, n_sent);
    ok(random_traffic(seed, true, &n_again, &n_sent) > 0,
       "a transport that completes a flush too early is noticed");
}

static void idle_ctxs_cost_nothing(void)
{
    int n_bad = 0;
    pgas_block_t b;
    char *first = NULL;
    open_stand_in();
    for (int i = 0; i < 1000; i++) {
        n_bad += acquire(ANY, 1000, -1, &b) != PGAS_OK;
        first = first ? first : b.address;
        n_bad += b.address != first || release(ANY, &b) != PGAS_OK;
    }
    ok(n_bad == 0 && n_flushes == 0,
       "with nothing under way a block is reused at once, without a flush");
    close_stand_in();
}

static void flushes_are_few(void)
{
    pgas_pool_info_t info;
    int n_sent = 0, n_bad = 0;
    open_stand_in();
    for (; n_sent < 20000; n_sent++) {
        n_bad += send_one(ANY, 1, 64, (unsigned char)n_sent) != PGAS_OK;
        if (n_ops > 100)
            end_puts(-1, 50);
    }
    info = info_of(ANY);
    int most = (int)(20000 * 64 / (info.max_bytes / 4)) + 1;
    ok(n_bad == 0 && n_wrong == 0 && n_flushes > 0 && n_flushes <= most,
       "%d flushes for 20000 blocks, at most %d", n_flushes, most);
    close_stand_in();
}

static void a_slow_peer(void)
{
    int n_any = 0, n_own = 0;
    open_stand_in();
    (void)out(ANY); /* the remaining puts are found complete */
    put(1, &(pgas_block_t){ .address = &n_any, .bytes = 0 }, 0); /* never ends */
    while (n_any < 5000 && send_one(ANY, 2, 64, 1) == PGAS_OK) {
        n_any++;
        end_puts(2, 1);
    }
    while (n_own < 5000 && send_one(2, 2, 64, 1) == PGAS_OK) {
        n_own++;
        end_puts(2, 1);
    }
    pgas_pool_info_t info;
    info = info_of(ANY);
    is_int(n_any, info.max_bytes / 64,
           "a peer that takes no bytes keeps the thread's own ring from reuse");
    is_int(n_own, 5000, "not the ring of another peer");
    close_stand_in();
}

static void waiting(void)
{
    pgas_block_t b;
    int n_bad = 0;
    open_stand_in();
    for (int i = 0; i < 3000; i++) {
        releases = send_one(ANY, 3, 64, 5) == PGAS_ERR_AGAIN ? 1 : -1;
        if (releases < 0)
            continue;
        n_bad += acquire(ANY, 64, -1, &b) != PGAS_OK || release(ANY, &b) != PGAS_OK;
        releases = -1;
    }
    is_int(n_bad + n_wrong, 0, "acquire waits, with progress, until blocks come back");
    close_stand_in();
    open_stand_in();
    fails = true;
    while (send_one(ANY, 3, 64, 5) == PGAS_OK)
        continue;
    releases = 100;
    n_bad = acquire(ANY, 64, -1, &b) != PGAS_OK || release(ANY, &b) != PGAS_OK;
    is_int(n_bad + n_wrong, 0, "where flushes fail it waits until nothing is under way");
    releases = -1;
    while (send_one(ANY, 3, 64, 5) == PGAS_OK)
        continue;
    pgasi_boot_peer_died(3);
    n_bad = acquire(ANY, 64, -1, &b) != PGAS_ERR_PEER;
    is_int(n_bad + n_wrong, 0, "but not for ever for a peer that died");
    close_stand_in();
}

static int bad_options(void)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *pool = NULL;
    int n_bad = pgas_pool_create(&opts, NULL) != PGAS_ERR_INVALID;
    opts.policy = (pgas_pool_policy_t)3;
    n_bad += pgas_pool_create(&opts, &pool) != PGAS_ERR_INVALID;
    opts.policy = PGAS_POOL_CIRCULAR;
    opts.peer = N_RANKS;
    n_bad += pgas_pool_create(&opts, &pool) != PGAS_ERR_RANGE;
    opts.peer = -2;
    n_bad += pgas_pool_create(&opts, &pool) != PGAS_ERR_RANGE;
    opts.peer = -1;
    opts.rank = N_RANKS;
    n_bad += pgas_pool_create(&opts, &pool) != PGAS_ERR_RANGE;
    opts.rank = 1;
    n_bad += pgas_pool_create(&opts, &pool) != PGAS_ERR_UNSUPPORTED;
    opts.rank = -1;
    opts.zone = PGAS_ZONE(pgas_n_zones());
    n_bad += pgas_pool_create(&opts, &pool) != PGAS_ERR_NOT_FOUND || pool;
    return n_bad + (pgas_pool_destroy(NULL) != PGAS_OK);
}

static void refusals(void)
{
    pgas_block_t b = { .address = NULL }, held[200], other;
    pgas_pool_info_t info = { .size = sizeof info };
    int n_bad = bad_options(), n = 0;
    n_bad += release(0, &b) != PGAS_ERR_INVALID;
    n_bad += acquire(0, 8, -1, NULL) != PGAS_ERR_INVALID || acquire(0, 0, -1, &b) >= 0;
    n_bad += release(0, NULL) != PGAS_ERR_INVALID ||
             pgas_pool_info(pool_for(0), NULL) != PGAS_ERR_INVALID || b.address;
    n_bad += pgas_pool_acquire(NULL, 8, 0, &b) != PGAS_ERR_INVALID ||
             pgas_pool_release(NULL, &b) != PGAS_ERR_INVALID ||
             pgas_pool_trim(NULL) != PGAS_ERR_INVALID ||
             pgas_pool_info(NULL, &info) != PGAS_ERR_INVALID;
    pgasi_self.in_handler++;
    n_bad += acquire(0, 8, -1, &b) != PGAS_ERR_CONTEXT || acquire(0, 8, 0, &b) >= 0 ||
             release(0, &b) != PGAS_ERR_CONTEXT;
    pgasi_self.in_handler--;
    while (n < 200 && acquire(2, 1024, 0, &held[n]) == PGAS_OK)
        n++;
    n_bad += n != 32 || acquire(2, 1024, 0, &b) != PGAS_ERR_AGAIN;
    n_bad += acquire(2, 1024, -1, &b) != PGAS_ERR_DEADLOCK ||
             acquire(2, 1024, 10, &b) != PGAS_ERR_DEADLOCK;
    n_bad += acquire(3, 1024, 0, &other) != PGAS_OK;
    n_bad += release(3, &held[0]) != PGAS_ERR_INVALID || release(3, &held[5]) != PGAS_ERR_INVALID;
    n_bad += release(2, &other) != PGAS_ERR_INVALID || release(3, &other) != PGAS_OK;
    while (n)
        n_bad += release(2, &held[--n]) != PGAS_OK;
    n_bad += release(2, &held[7]) != PGAS_ERR_INVALID || out(2) != 0;
    is_int(n_bad, 0, "refusals");
}

/* ---- general and linear pools ---- */

static void put_and_release(pgas_pool_t *pool, int peer, const pgas_block_t *b, int *n_bad_p)
{
    memset(b->address, peer, b->bytes);
    put(peer, b, (unsigned char)peer);
    *n_bad_p += pgas_pool_release(pool, b) != PGAS_OK;
}

/* A block that a put reads is not given out before the put is complete. */
static void other_policies(pgas_pool_policy_t policy, const char *name)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *pool = NULL;
    pgas_block_t b[9], again;
    opts.policy = policy;
    opts.max_bytes = opts.unit_bytes = 4096;
    open_stand_in();
    int n_bad = pgas_pool_create(&opts, &pool) != PGAS_OK;
    for (int i = 0; i < 4; i++)
        n_bad += pgas_pool_acquire(pool, 1024, 0, &b[i]) != PGAS_OK;
    n_bad += pgas_pool_acquire(pool, 1024, 0, &again) != PGAS_ERR_AGAIN;
    for (int i = 0; i < 4; i++)
        put_and_release(pool, 1, &b[i], &n_bad);
    n_bad += pgas_pool_acquire(pool, 1024, 0, &again) != PGAS_ERR_AGAIN ||
             pgas_pool_acquire(pool, 1024, 100, &again) != PGAS_ERR_TIMEOUT;
    pgas_pool_info_t info = { .size = sizeof info };
    n_bad += pgas_pool_info(pool, &info) != PGAS_OK || info.n_blocks != 4;
    n_bad += policy == PGAS_POOL_GENERAL && pgas_pool_release(pool, &b[2]) != PGAS_ERR_INVALID;
    releases = 1;
    n_bad += pgas_pool_acquire(pool, 1024, -1, &again) != PGAS_OK;
    releases = -1;
    end_puts(-1, OPS_MAX);
    n_bad += pgas_pool_release(pool, &again) != PGAS_OK || n_wrong;
    n_bad += pgas_pool_info(pool, &info) != PGAS_OK || info.n_blocks != 0;
    n_bad += pgas_pool_release(pool, &again) != PGAS_ERR_INVALID;
    n_bad += pgas_pool_trim(pool) != PGAS_OK || pgas_pool_info(pool, &info) != PGAS_OK ||
             info.bytes != 0;
    is_int(n_bad, 0, "%s: blocks are reused when their puts are complete, and not before", name);
    n_bad = pgas_pool_destroy(pool) != PGAS_OK;
    close_stand_in();
    is_int(n_bad, 0, "%s: destroyed", name);
}

/* A pool goes from thread to thread; the first one leaves numbers of its own context behind. */
static void *user_main(void *arg)
{
    pgas_block_t b;
    int n_bad = pgas_thread_attach() != PGAS_OK;
    n_bad +=
        pgas_pool_acquire(arg, 100, -1, &b) != PGAS_OK || pgas_pool_release(arg, &b) != PGAS_OK;
    n_bad += pgas_thread_detach() != PGAS_OK;
    return n_bad ? arg : NULL;
}

static void *stranger_main(void *arg)
{
    pgas_block_t b = { .address = NULL };
    pgas_pool_info_t info = { .size = sizeof info };
    int n_bad = pgas_thread_attach() != PGAS_OK;
    n_bad += pgas_pool_acquire(arg, 100, -1, &b) != PGAS_ERR_CONTEXT ||
             pgas_pool_acquire(arg, 100, 0, &b) != PGAS_ERR_CONTEXT ||
             pgas_pool_release(arg, &b) != PGAS_ERR_CONTEXT ||
             pgas_pool_trim(arg) != PGAS_ERR_CONTEXT ||
             pgas_pool_info(arg, &info) != PGAS_ERR_CONTEXT;
    n_bad += pgas_thread_detach() != PGAS_OK;
    return n_bad ? arg : NULL;
}

static void other_threads(void)
{
    for (int p = PGAS_POOL_CIRCULAR; p <= PGAS_POOL_LINEAR; p++) {
        pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
        pgas_pool_t *pool = NULL;
        pgas_block_t b;
        pthread_t thread;
        void *failed = NULL;
        opts.policy = (pgas_pool_policy_t)p;
        int n_bad = pgas_pool_create(&opts, &pool) != PGAS_OK;
        for (int i = 0; i < 2; i++) {
            n_bad += pthread_create(&thread, NULL, user_main, pool) != 0;
            n_bad += pthread_join(thread, &failed) != 0 || failed;
        }
        open_stand_in();
        n_bad += pgas_pool_acquire(pool, 100, -1, &b) != PGAS_OK;
        put_and_release(pool, 2, &b, &n_bad);
        n_bad += pthread_create(&thread, NULL, stranger_main, pool) != 0;
        n_bad += pthread_join(thread, &failed) != 0 || failed;
        end_puts(-1, OPS_MAX);
        close_stand_in();
        is_int(n_bad + n_wrong + (pgas_pool_destroy(pool) != PGAS_OK), 0,
               "policy %d: a pool belongs to one thread at a time", p);
    }
}

static uint64_t bytes_of(const char *name, uint64_t *sum_p)
{
    pgas_mem_owner_t owners[PGAS_MEM_OWNERS_MAX];
    int n = 0;
    uint64_t bytes = UINT64_MAX;
    *sum_p = 0;
    if (pgas_mem_owners(owners, PGAS_MEM_OWNERS_MAX, &n) != PGAS_OK)
        return UINT64_MAX;
    for (int i = 0; i < n; i++) {
        *sum_p += strncmp(owners[i].name, "transport", 9) ? owners[i].bytes : 0;
        if (strcmp(owners[i].name, name) == 0)
            bytes = owners[i].bytes;
    }
    return bytes;
}

static void *leaver_main(void *arg)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *own[3] = { NULL, NULL, NULL };
    pgas_block_t b[3];
    uint64_t sum, *during = arg;
    pgas_thread_attach();
    opts.owner = "threads";
    opts.policy = PGAS_POOL_CIRCULAR;
    for (int i = 0; i < 3; i++) {
        opts.peer = i - 1;
        pgas_pool_create(&opts, &own[i]);
        pgas_pool_acquire(own[i], 5000, -1, &b[i]);
    }
    *during = bytes_of("threads", &sum);
    pgas_pool_release(own[0], &b[0]);
    pgas_pool_release(own[1], &b[1]); /* one is forgotten */
    pgas_thread_detach();
    pgas_thread_attach();
    for (int i = 0; i < 3; i++)
        pgas_pool_destroy(own[i]);
    pgas_thread_detach();
    return NULL;
}

static void threads_leave(void)
{
    pthread_t thread;
    uint64_t sum, during = 0, before = bytes_of("threads", &sum);
    pthread_create(&thread, NULL, leaver_main, &during);
    pthread_join(thread, NULL);
    ok(during >= before + 3 * 8192, "a thread has pools of its own");
    ok(bytes_of("threads", &sum) == before,
       "and detaches with a warning about blocks that it kept");
}

static void the_account(void)
{
    static unsigned char mine[1000];
    pgas_gptr_t local = PGAS_NULL, attached = PGAS_NULL;
    pgasi_general_t *g;
    pgas_block_t b;
    pgas_heap_info_t heap = { .size = sizeof heap };
    uint64_t with, without;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.owner = "an owner whose name is longer than there is room for";
    pgas_heap_info(&heap);
    bytes_of("", &without);
    int n = 0, n_bad = pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 1024, &local) != PGAS_OK ||
                       pgas_mem_attach(mine, sizeof mine, &attached) != PGAS_OK;
    n_bad +=
        pgasi_general_create(&opts, &g) != PGAS_OK || pgasi_general_acquire(g, 100, &b) != PGAS_OK;
    n_bad += bytes_of("pgas_alloc_on", &with) != 1024 || bytes_of("attached memory", &with) != 1000;
    n_bad += bytes_of("an owner whose name is longer t", &with) != 4096;
    ok(!n_bad && without == heap.heap_bytes && with == without + 1000,
       "the account: owners add up to the heap and attached memory");
    pgasi_general_destroy(g);
    pgas_free_on(local);
    pgas_mem_detach(attached);
    ok(bytes_of("attached memory", &with) == 0 && with == without, "and down again");
    pgas_mem_owner_t one[2] = { { .bytes = 1 }, { .bytes = 77 } };
    ok(pgas_mem_owners(one, 1, &n) == PGAS_OK && n >= 4 && one[1].bytes == 77 &&
           pgas_mem_owners(NULL, 1, &n) < 0,
       "as many lines as there is room for");
}

int main(void)
{
    plan(30);
    uint64_t seed = tap_seed(20240110);
    ok(lone_init(N_RANKS, "HEAP_SIZE=4M SERVICE_THREADS=0 POOL_UNIT=4K POOL_MAX=32K") == PGAS_OK,
       "init");
    refusals();
    contents_stay(seed);
    idle_ctxs_cost_nothing();
    flushes_are_few();
    a_slow_peer();
    waiting();
    threads_leave();
    the_account();
    other_policies(PGAS_POOL_GENERAL, "general");
    other_policies(PGAS_POOL_LINEAR, "linear");
    other_policies(PGAS_POOL_CIRCULAR, "circular");
    other_threads();
    pgas_block_t b;
    ok(acquire(1, 100, -1, &b) == PGAS_OK, "a block is out at the end");
    is_int(pgas_finalize(), PGAS_OK, "finalize");
    int n;
    pgas_mem_owner_t owner;
    pgas_pool_t *pool = NULL;
    ok(pgas_pool_create(NULL, &pool) == PGAS_ERR_NOT_INIT &&
           pgas_mem_owners(&owner, 1, &n) == PGAS_ERR_NOT_INIT,
       "and then there is no library");
    ok(lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0 POOL_UNIT=4K POOL_MAX=32K") == PGAS_OK,
       "once more");
    ok(pgas_pool_create(NULL, &pool) == PGAS_OK &&
           pgas_pool_acquire(pool, 100, -1, &b) == PGAS_OK &&
           pgas_pool_release(pool, &b) == PGAS_OK && pgas_finalize() == PGAS_OK,
       "with pools of its own");
    return done();
}
