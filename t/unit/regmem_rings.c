/* what: A block of a thread's ring is not reused before its transfers are complete, in whatever
 *       order peers complete, and is then reused automatically. A ring for one peer does not wait
 *       for others. Flushes are few. Impossible requests are refused with a message. The account is
 *       consistent.
 * log:  would wait for itself
 * log:  detaches without having released 1 blocks
 * source: pgas/regmem.h; seeded test. The transport is a mock that reads the data of a put when it
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

static size_t out(int peer)
{
    pgas_regmem_info_t info = { 0 };
    pgas_reg_info(peer, &info);
    return info.n_blocks;
}

/* ---- promises ---- */

static pgas_status_t send_one(int ring, int peer, size_t bytes, unsigned char mark)
{
    pgas_block_t b;
    pgas_status_t status = pgas_reg_acquire_try(ring, bytes, &b);
    if (status != PGAS_OK)
        return status;
    memset(b.address, mark, bytes);
    put(peer, &b, mark);
    return pgas_reg_release(&b);
}

/* How many puts found their data changed before they were complete. */
static int random_traffic(uint64_t seed, bool lying, int *n_again_p, int *n_sent_p)
{
    pgasi_rng_t rng;
    int n_held = 0, n_bad = 0;
    pgas_block_t held[8];
    unsigned char mark[8];
    int peer[8];
    pgasi_rng_seed(&rng, seed);
    open_stand_in();
    lies = lying;
    *n_again_p = *n_sent_p = 0;
    for (int i = 0; i < 40000; i++) {
        uint64_t dice = pgasi_rng_below(&rng, 100);
        if (dice < 45 && n_held < 8) {
            peer[n_held] = (int)pgasi_rng_below(&rng, N_RANKS);
            int ring = pgasi_rng_below(&rng, 2) ? peer[n_held] : PGAS_REG_ANY;
            size_t bytes = 1 + pgasi_rng_below(&rng, pgasi_rng_below(&rng, 20) ? 600 : 9000);
            pgas_status_t status = pgas_reg_acquire_try(ring, bytes, &held[n_held]);
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
            n_bad += pgas_reg_release(&held[k]) != PGAS_OK;
            --n_held;
            held[k] = held[n_held];
            mark[k] = mark[n_held];
            peer[k] = peer[n_held];
            ++*n_sent_p;
        } else {
            end_puts((int)pgasi_rng_below(&rng, N_RANKS), (int)pgasi_rng_below(&rng, 30));
        }
    }
    while (n_held)
        n_bad += pgas_reg_release(&held[--n_held]) != PGAS_OK;
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
        n_bad += pgas_reg_acquire(PGAS_REG_ANY, 1000, &b) != PGAS_OK;
        first = first ? first : b.address;
        n_bad += b.address != first || pgas_reg_release(&b) != PGAS_OK;
    }
    ok(n_bad == 0 && n_flushes == 0,
       "with nothing under way a block is reused at once, without a flush");
    close_stand_in();
}

static void flushes_are_few(void)
{
    pgas_regmem_info_t info;
    int n_sent = 0, n_bad = 0;
    open_stand_in();
    for (; n_sent < 20000; n_sent++) {
        n_bad += send_one(PGAS_REG_ANY, 1, 64, (unsigned char)n_sent) != PGAS_OK;
        if (n_ops > 100)
            end_puts(-1, 50);
    }
    pgas_reg_info(PGAS_REG_ANY, &info);
    int most = (int)(20000 * 64 / (info.max_bytes / 4)) + 1;
    ok(n_bad == 0 && n_wrong == 0 && n_flushes > 0 && n_flushes <= most,
       "%d flushes for 20000 blocks, at most %d", n_flushes, most);
    close_stand_in();
}

static void a_slow_peer(void)
{
    int n_any = 0, n_own = 0;
    open_stand_in();
    (void)out(PGAS_REG_ANY); /* the remaining puts are found complete */
    put(1, &(pgas_block_t){ .address = &n_any, .bytes = 0 }, 0); /* never ends */
    while (n_any < 5000 && send_one(PGAS_REG_ANY, 2, 64, 1) == PGAS_OK) {
        n_any++;
        end_puts(2, 1);
    }
    while (n_own < 5000 && send_one(2, 2, 64, 1) == PGAS_OK) {
        n_own++;
        end_puts(2, 1);
    }
    pgas_regmem_info_t info;
    pgas_reg_info(PGAS_REG_ANY, &info);
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
        releases = send_one(PGAS_REG_ANY, 3, 64, 5) == PGAS_ERR_AGAIN ? 1 : -1;
        if (releases < 0)
            continue;
        n_bad +=
            pgas_reg_acquire(PGAS_REG_ANY, 64, &b) != PGAS_OK || pgas_reg_release(&b) != PGAS_OK;
        releases = -1;
    }
    is_int(n_bad + n_wrong, 0, "acquire waits, with progress, until blocks come back");
    close_stand_in();
    open_stand_in();
    fails = true;
    while (send_one(PGAS_REG_ANY, 3, 64, 5) == PGAS_OK)
        continue;
    releases = 100;
    n_bad = pgas_reg_acquire(PGAS_REG_ANY, 64, &b) != PGAS_OK || pgas_reg_release(&b) != PGAS_OK;
    is_int(n_bad + n_wrong, 0, "where flushes fail it waits until nothing is under way");
    releases = -1;
    while (send_one(PGAS_REG_ANY, 3, 64, 5) == PGAS_OK)
        continue;
    pgasi_boot_peer_died(3);
    n_bad = pgas_reg_acquire(PGAS_REG_ANY, 64, &b) != PGAS_ERR_PEER;
    is_int(n_bad + n_wrong, 0, "but not for ever for a peer that died");
    close_stand_in();
}

static void refusals(void)
{
    pgas_block_t b = { .address = NULL }, held[200];
    pgas_regmem_info_t info;
    int n_bad = 0, n = 0;
    n_bad +=
        pgas_reg_info(0, &info) != PGAS_ERR_NOT_FOUND || pgas_reg_release(&b) != PGAS_ERR_INVALID;
    n_bad += pgas_reg_acquire(N_RANKS, 8, &b) != PGAS_ERR_RANGE ||
             pgas_reg_acquire_try(-2, 8, &b) != PGAS_ERR_RANGE;
    n_bad += pgas_reg_acquire(0, 8, NULL) != PGAS_ERR_INVALID ||
             pgas_reg_acquire(0, 0, &b) != PGAS_ERR_INVALID;
    n_bad += pgas_reg_release(NULL) != PGAS_ERR_INVALID ||
             pgas_reg_info(0, NULL) != PGAS_ERR_INVALID || b.address;
    pgasi_self.in_handler++;
    n_bad +=
        pgas_reg_acquire(0, 8, &b) != PGAS_ERR_CONTEXT || pgas_reg_release(&b) != PGAS_ERR_CONTEXT;
    pgasi_self.in_handler--;
    while (n < 200 && pgas_reg_acquire_try(2, 1024, &held[n]) == PGAS_OK)
        n++;
    n_bad += n != 32 || pgas_reg_acquire_try(2, 1024, &b) != PGAS_ERR_AGAIN;
    n_bad += pgas_reg_acquire(2, 1024, &b) != PGAS_ERR_DEADLOCK;
    held[5].peer = 3;
    n_bad += pgas_reg_release(&held[5]) != PGAS_ERR_INVALID; /* not of that ring */
    held[5].peer = 2;
    while (n)
        n_bad += pgas_reg_release(&held[--n]) != PGAS_OK;
    n_bad += pgas_reg_release(&held[7]) != PGAS_ERR_INVALID || out(2) != 0;
    is_int(n_bad, 0, "refusals");
}

static uint64_t bytes_of(const char *name, uint64_t *sum_p)
{
    pgas_reg_owner_t owners[PGAS_REG_OWNERS_MAX];
    int n = 0;
    uint64_t bytes = UINT64_MAX;
    *sum_p = 0;
    if (pgas_reg_account(owners, PGAS_REG_OWNERS_MAX, &n) != PGAS_OK)
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
    pgas_block_t b[3];
    uint64_t sum, *during = arg;
    pgas_thread_attach();
    for (int i = 0; i < 3; i++)
        pgas_reg_acquire(i - 1, 5000, &b[i]);
    *during = bytes_of("threads", &sum);
    pgas_reg_release(&b[0]);
    pgas_reg_release(&b[1]); /* one is forgotten */
    pgas_thread_detach();
    return NULL;
}

static void threads_leave(void)
{
    pthread_t thread;
    uint64_t sum, during = 0, before = bytes_of("threads", &sum);
    pthread_create(&thread, NULL, leaver_main, &during);
    pthread_join(thread, NULL);
    ok(during >= before + 3 * 8192, "a thread has rings of its own");
    ok(bytes_of("threads", &sum) == before,
       "and gives them back when it detaches, with a warning about blocks it kept");
}

static void the_account(void)
{
    static unsigned char mine[1000];
    pgas_gptr_t local = PGAS_NULL, attached = PGAS_NULL;
    pgas_general_t *g;
    pgas_block_t b;
    pgas_heap_info_t heap = { .size = sizeof heap };
    uint64_t with, without;
    pgas_regmem_opts_t opts = PGAS_REGMEM_OPTS_INIT;
    opts.owner = "an owner whose name is longer than there is room for";
    pgas_heap_info(&heap);
    bytes_of("", &without);
    int n = 0, n_bad = pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 1024, &local) != PGAS_OK ||
                       pgas_mem_attach(mine, sizeof mine, &attached) != PGAS_OK;
    n_bad +=
        pgas_general_create(&opts, &g) != PGAS_OK || pgas_general_acquire(g, 100, &b) != PGAS_OK;
    n_bad += bytes_of("pgas_alloc_on", &with) != 1024 || bytes_of("attached memory", &with) != 1000;
    n_bad += bytes_of("an owner whose name is longer t", &with) != 4096;
    ok(!n_bad && without == heap.heap_bytes && with == without + 1000,
       "the account: owners add up to the heap and attached memory");
    pgas_general_destroy(g);
    pgas_free_on(local);
    pgas_mem_detach(attached);
    ok(bytes_of("attached memory", &with) == 0 && with == without, "and down again");
    pgas_reg_owner_t one[2] = { { .bytes = 1 }, { .bytes = 77 } };
    ok(pgas_reg_account(one, 1, &n) == PGAS_OK && n >= 4 && one[1].bytes == 77 &&
           pgas_reg_account(NULL, 1, &n) < 0,
       "as many lines as there is room for");
}

int main(void)
{
    plan(22);
    uint64_t seed = tap_seed(20240110);
    ok(lone_init(N_RANKS, "HEAP_SIZE=4M SERVICE_THREADS=0 REG_UNIT=4K REG_MAX=32K") == PGAS_OK,
       "init");
    refusals();
    contents_stay(seed);
    idle_ctxs_cost_nothing();
    flushes_are_few();
    a_slow_peer();
    waiting();
    threads_leave();
    the_account();
    pgas_block_t b;
    ok(pgas_reg_acquire(1, 100, &b) == PGAS_OK, "a block is out at the end");
    is_int(pgas_finalize(), PGAS_OK, "finalize");
    int n;
    pgas_reg_owner_t owner;
    ok(pgas_reg_acquire(1, 100, &b) == PGAS_ERR_NOT_INIT &&
           pgas_reg_release(&b) == PGAS_ERR_NOT_INIT &&
           pgas_reg_account(&owner, 1, &n) == PGAS_ERR_NOT_INIT,
       "and then there is no library");
    ok(lone_init(1, "HEAP_SIZE=64K SERVICE_THREADS=0 REG_UNIT=4K REG_MAX=32K") == PGAS_OK,
       "once more");
    ok(pgas_reg_acquire(PGAS_REG_ANY, 100, &b) == PGAS_OK && pgas_reg_release(&b) == PGAS_OK &&
           pgas_finalize() == PGAS_OK,
       "with rings of its own");
    return done();
}
