/* Registered memory between ranks.
 *   what:   The bytes that a thread writes to blocks of its rings and gives to pgas_put_nb arrive
 *           unchanged while blocks are reused. The transport reads them in place, and nothing is
 *           registered for them. Peers read and write blocks of every allocator by global pointers.
 *           pgas_info prints the owners.
 *   np:     1 2 3 4 5
 *   nodes:  0 1 2
 *   tls:    posix tcp,self sysv,cma
 *   env:    PGAS_POOL_UNIT=4K PGAS_POOL_MAX=64K | PGAS_FAULT=delay=20,reorder=10,again=5
 *   env:    PGAS_POOL_UNIT=4K PGAS_POOL_MAX=20K
 *   env:    | PGAS_LANES=1 PGAS_POOL_GROWTH=linear | PGAS_SERVICE_THREADS=0
 *   source: pgas/mem.h; seeded test; src/transport/count.h
 */
#include <pthread.h>
#include "base/checks.h"
#include "base/rng.h"
#include "boot/hooks.h"
#include "mem/ctx.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "t/spmd/job.h"
#include "transport/count.h"

#define N_THREADS  3
#define PUTS       150 /* of each thread to each rank */
#define SLOT_BYTES 768
#define WINDOW     40 /* puts that may be under way at one time */

/* Target and contents of put number i of a thread of a rank, at every rank. */
static uint64_t slot_of(int rank, int thread, int i)
{
    return ((uint64_t)(rank * N_THREADS + thread) * PUTS + (uint64_t)i) * SLOT_BYTES;
}

static size_t bytes_of(int rank, int thread, int i)
{
    return 1 + (size_t)(rank * 7919 + thread * 104729 + i * 31) % SLOT_BYTES;
}

static unsigned char byte_of(int rank, int to, int thread, int i, size_t at)
{
    return (unsigned char)(rank * 31 + to * 17 + thread * 7 + i * 13 + (int)at);
}

typedef struct {
    pthread_t thread;
    int number, n_bad, n_sent;
    pgas_gptr_t target;
    uint64_t seed;
    pgas_pool_t *any, **own;  /* pools for any rank, and for each */
    pgas_sync_t done[WINDOW]; /* of the last puts */
} sender_t;

static pgas_pool_t *left_over;

static pgas_pool_t *create(pgas_pool_policy_t policy, int peer)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *pool = NULL;
    opts.owner = "threads";
    opts.policy = policy;
    opts.peer = peer;
    return pgas_pool_create(&opts, &pool) == PGAS_OK ? pool : NULL;
}

static int send_one(sender_t *s, int to, int i, bool own_pool)
{
    size_t bytes = bytes_of(me, s->number, i);
    pgas_block_t b;
    pgas_sync_t *done = &s->done[s->n_sent++ % WINDOW];
    if (pgas_sync_wait(done, -1) != PGAS_OK)
        return 1;
    pgas_pool_t *pool = own_pool ? s->own[to] : s->any;
    if (pgas_pool_acquire(pool, bytes, -1, &b) != PGAS_OK)
        return 1;
    unsigned char *at = b.address;
    for (size_t k = 0; k < bytes; k++)
        at[k] = byte_of(me, to, s->number, i, k);
    pgas_gptr_t dst = pgas_gptr_at(s->target, to) + slot_of(me, s->number, i);
    size_t half = bytes / 2;
    int n_bad = pgas_put_nb(dst, at, half, PGAS_LOCAL, done) != PGAS_OK;
    n_bad += pgas_put_nb(dst + half, at + half, bytes - half, PGAS_LOCAL, done) != PGAS_OK;
    return n_bad + (pgas_pool_release(pool, &b) != PGAS_OK);
}

static void *sender_main(void *arg)
{
    sender_t *s = arg;
    pgasi_rng_t rng;
    int n_to[JOB_RANKS_MAX] = { 0 };
    pgasi_rng_seed(&rng, s->seed + (uint64_t)(me * N_THREADS + s->number));
    pgas_pool_t *own[JOB_RANKS_MAX] = { NULL };
    s->n_bad = pgas_thread_attach() != PGAS_OK;
    s->any = create(PGAS_POOL_CIRCULAR, -1);
    s->own = own;
    for (int r = 0; r < n_ranks && s->number == 1; r++)
        own[r] = create(PGAS_POOL_CIRCULAR, r);
    for (int i = 0; i < PUTS * n_ranks;) {
        int to = (int)pgasi_rng_below(&rng, (uint64_t)n_ranks);
        if (n_to[to] == PUTS)
            continue;
        s->n_bad += send_one(s, to, n_to[to]++, s->number == 1);
        i++;
    }
    s->n_bad += pgas_flush_all() != PGAS_OK || pgas_pool_destroy(s->any) != PGAS_OK;
    for (int r = 0; r < n_ranks; r++)
        s->n_bad += pgas_pool_destroy(own[r]) != PGAS_OK;
    s->n_bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static int n_wrong(pgas_gptr_t target)
{
    int n = 0;
    for (int rank = 0; rank < n_ranks; rank++) {
        for (int thread = 0; thread < N_THREADS; thread++) {
            for (int i = 0; i < PUTS; i++) {
                size_t bytes = bytes_of(rank, thread, i);
                const unsigned char *at = pgas_gptr_local(target + slot_of(rank, thread, i), bytes);
                for (size_t k = 0; k < bytes; k++)
                    n += at[k] != byte_of(rank, me, thread, i, k);
            }
        }
    }
    return n;
}

static void traffic(uint64_t seed)
{
    sender_t s[N_THREADS];
    pgas_gptr_t target;
    int n_bad = pgas_alloc((size_t)(n_ranks * N_THREADS * PUTS * SLOT_BYTES), &target) != PGAS_OK;
    memset(pgas_gptr_local(target, 1), 0, (size_t)(n_ranks * N_THREADS * PUTS * SLOT_BYTES));
    spmd_barrier();
    for (int t = 0; t < N_THREADS; t++) {
        s[t] = (sender_t){ .number = t, .target = target, .seed = seed };
        pthread_create(&s[t].thread, NULL, sender_main, &s[t]);
    }
    for (int t = 0; t < N_THREADS; t++) {
        pthread_join(s[t].thread, NULL);
        n_bad += s[t].n_bad;
    }
    spmd_barrier();
    spmd_is_int(n_bad, 0, "%d threads of each rank send %d blocks to each", N_THREADS, PUTS);
    spmd_is_int(n_wrong(target), 0, "which arrive as they were filled");
    spmd_barrier();
    char *spoiled = pgas_gptr_local(target + slot_of(n_ranks - 1, 1, 7), 1);
    *spoiled ^= 1;
    spmd_is_int(n_wrong(target), 1, "a wrong byte would be noticed");
    pgas_free(target);
}

/* ---- uncopied ---- */

static pgasi_tp_counts_t counted(void)
{
    pgasi_tp_counts_t c;
    memset(&c, 0, sizeof c);
    if (pgasi_tp)
        pgasi_tp_count_query(pgasi_tp, &c);
    return c;
}

static void put_around(pgas_gptr_t target, const void *from, size_t bytes)
{
    for (int r = 0; r < n_ranks; r++)
        pgas_put(pgas_gptr_at(target, r) + (uint64_t)me * bytes, from, bytes);
    pgas_flush_all();
}

/* Peers whose memory is reached by the transport, not by stores. */
static int n_far(void)
{
    int n = 0;
    for (int r = 0; r < n_ranks; r++)
        n += pgas_node_of(r) != pgas_node() && !pgasi_self.ctx->peer[r].heap_bytes;
    return n;
}

static void uncopied(void)
{
    enum { BYTES = 20000, ROUNDS = 20 };
    static char plain[BYTES];
    pgas_gptr_t target;
    pgas_block_t b;
    pgas_pool_t *pool = create(PGAS_POOL_CIRCULAR, -1);
    pgas_alloc((size_t)(BYTES * n_ranks), &target);
    put_around(target, plain, BYTES); /* opens contexts, fetches keys */
    char *heap = pgas_gptr_local(pgas_gptr_make(me, PGAS_HEAP_OFFSET), 1);
    pgas_heap_info_t info = { .size = sizeof info };
    pgas_heap_info(&info);
    pgasi_tp_count_watch(heap, info.heap_bytes);
    pgasi_tp_counts_t before = counted();
    for (int i = 0; i < ROUNDS; i++) {
        if (pgas_pool_acquire(pool, BYTES, -1, &b) != PGAS_OK)
            break;
        memset(b.address, i, BYTES);
        put_around(target, b.address, BYTES);
        pgas_pool_release(pool, &b);
    }
    pgas_pool_destroy(pool);
    pgasi_tp_counts_t after = counted();
    put_around(target, plain, BYTES);
    pgasi_tp_counts_t last = counted();
    pgasi_tp_count_watch(NULL, 0);
    uint64_t n_puts = after.n_ops[PGASI_COUNT_PUT] - before.n_ops[PGASI_COUNT_PUT];
    spmd_ok(n_puts == (uint64_t)(ROUNDS * n_far()) &&
                after.n_watched - before.n_watched == n_puts &&
                after.watched_bytes - before.watched_bytes == n_puts * BYTES,
            "the transport gets each block in place, once");
    spmd_ok(after.n_registered == (pgasi_tp != NULL),
            "and nothing but the heap was ever registered");
    spmd_ok(last.n_watched == after.n_watched &&
                last.n_ops[PGASI_COUNT_PUT] - after.n_ops[PGASI_COUNT_PUT] == (uint64_t)n_far(),
            "other memory is not taken for it");
    spmd_diag("%d of %d peers of rank 0 are reached by the transport", n_far(), n_ranks);
    pgas_free(target);
}

/* ---- peers reach blocks ---- */

/* @return the number of mistakes: peers read and write a block of `bytes` bytes of this rank */
static int reach(void *address, pgas_gptr_t ptr, size_t bytes, int number)
{
    pgas_gptr_t all[JOB_RANKS_MAX];
    int right = job_right(), left = (me + n_ranks - 1) % n_ranks;
    uint64_t *mine = address, value = 0;
    mine[0] = (uint64_t)(me * 100 + number);
    mine[60] = 0;
    job_gather(ptr, all);
    int n_bad = pgas_get(&value, all[right], sizeof value) != PGAS_OK ||
                value != (uint64_t)(right * 100 + number);
    value = (uint64_t)(me * 1000 + number);
    n_bad +=
        pgas_put(all[right] + 480, &value, sizeof value) != PGAS_OK || pgas_flush(right) != PGAS_OK;
    n_bad += (pgas_gptr_local(all[right], bytes) != NULL) != (pgas_node_of(right) == pgas_node());
    pgas_barrier(NULL);
    return n_bad + (mine[60] != (uint64_t)(left * 1000 + number));
}

static void from_afar(void)
{
    int n_bad = 0;
    for (int p = PGAS_POOL_GENERAL; p <= PGAS_POOL_LINEAR; p++) {
        pgas_pool_t *pool = create((pgas_pool_policy_t)p, -1);
        pgas_block_t b;
        n_bad += pgas_pool_acquire(pool, 500, -1, &b) != PGAS_OK ||
                 reach(b.address, b.ptr, 500, p) || pgas_pool_release(pool, &b) != PGAS_OK ||
                 pgas_pool_destroy(pool) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0,
                "peers read and write blocks of every policy, on the node by loads and stores");
}

/* ---- pools in the memory of another rank ---- */

#define N_FAR 60

typedef struct {
    pgas_block_t b;
    unsigned char mark;
} far_block_t;

/* @return the number of mistakes */
static int put_mark(far_block_t *f, int rank, uint64_t alignment)
{
    unsigned char data[700];
    memset(data, f->mark, f->b.bytes);
    int n_bad = pgas_gptr_rank(f->b.ptr) != rank || f->b.ptr % alignment;
    n_bad += (f->b.address != NULL) != (pgas_node_of(rank) == pgas_node());
    n_bad += f->b.address && f->b.address != pgas_gptr_local(f->b.ptr, f->b.bytes);
    return n_bad + (pgas_put(f->b.ptr, data, f->b.bytes) != PGAS_OK) +
           (pgas_flush(rank) != PGAS_OK);
}

static int n_different(const far_block_t *f)
{
    unsigned char data[700];
    int n = pgas_get(data, f->b.ptr, f->b.bytes) != PGAS_OK;
    for (size_t i = 0; i < f->b.bytes; i++)
        n += data[i] != f->mark;
    return n;
}

/* All ranks have blocks at their right neighbour, at the same time. */
static int random_far(pgas_pool_t *pool, uint64_t seed, uint64_t alignment)
{
    static far_block_t live[N_FAR];
    pgasi_rng_t rng;
    int n_bad = 0, n_full = 0, rank = job_right();
    memset(live, 0, sizeof live);
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    for (int i = 0; i < 600; i++) {
        far_block_t *f = &live[pgasi_rng_below(&rng, N_FAR)];
        if (f->b.bytes) {
            n_bad += n_different(f) != 0 || pgas_pool_release(pool, &f->b) != PGAS_OK ||
                     pgas_pool_release(pool, &f->b) != PGAS_ERR_INVALID;
            f->b.bytes = 0;
            continue;
        }
        f->mark = (unsigned char)pgasi_rng_u64(&rng);
        size_t bytes = 1 + (size_t)pgasi_rng_below(&rng, 700);
        pgas_status_t status = pgas_pool_acquire(pool, bytes, 0, &f->b);
        if (status == PGAS_OK)
            n_bad += put_mark(f, rank, alignment);
        n_full += status == PGAS_ERR_AGAIN;
        n_bad += status != PGAS_OK && status != PGAS_ERR_AGAIN;
    }
    for (int i = 0; i < N_FAR; i++)
        n_bad += live[i].b.bytes &&
                 (n_different(&live[i]) != 0 || pgas_pool_release(pool, &live[i].b) != PGAS_OK);
    return n_bad + (n_full == 0);
}

static size_t local_bytes(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    pgas_barrier(NULL);
    size_t bytes = pgas_heap_info(&info) == PGAS_OK ? info.local_bytes : 1;
    pgas_barrier(NULL);
    return bytes;
}

static void pools_elsewhere(uint64_t seed)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *pool = NULL;
    pgas_pool_info_t info = { .size = sizeof info };
    pgas_block_t b = { NULL, PGAS_NULL, 0, 0 };
    size_t before = local_bytes();
    opts.rank = job_right();
    opts.zone = PGAS_ZONE_NONE;
    opts.alignment = 256;
    opts.unit_bytes = 4096;
    opts.max_bytes = 16384;
    int n_bad = pgas_pool_create(&opts, &pool) != PGAS_OK || random_far(pool, seed, 256);
    n_bad += pgas_pool_info(pool, &info) != PGAS_OK || info.n_blocks || info.used_bytes ||
             info.bytes > 16384 || info.bytes < 8192;
    pgas_barrier(NULL);
    n_bad += local_bytes() < before + 8192;
    n_bad += pgas_pool_trim(pool) != PGAS_OK || pgas_pool_info(pool, &info) != PGAS_OK ||
             info.bytes != 0 || info.high_bytes < 8192;
    spmd_is_int(n_bad, 0, "a pool in the memory of the right neighbour gives blocks there");
    spmd_ok(local_bytes() == before, "and trim gives the memory back");
    n_bad = pgas_pool_acquire(pool, 4000, -1, &b) != PGAS_OK || pgas_pool_destroy(pool) != PGAS_OK;
    n_bad += local_bytes() != before;
    opts.policy = PGAS_POOL_LINEAR;
    n_bad += pgas_pool_create(&opts, &pool) != (n_ranks > 1 ? PGAS_ERR_UNSUPPORTED : PGAS_OK);
    if (n_ranks == 1)
        n_bad += pgas_pool_destroy(pool) != PGAS_OK;
    opts.policy = PGAS_POOL_GENERAL;
    opts.zone = PGAS_ZONE(1 << 20);
    pgas_status_t status = pgas_pool_create(&opts, &pool);
    if (n_ranks > 1)
        n_bad += status != PGAS_OK || pgas_pool_acquire(pool, 8, -1, &b) != PGAS_ERR_NOT_FOUND ||
                 pgas_pool_destroy(pool) != PGAS_OK;
    else
        n_bad += status != PGAS_ERR_NOT_FOUND;
    spmd_is_int(n_bad, 0, "destroy too; other policies and zones that do not exist are refused");
    opts.zone = PGAS_ZONE_NONE;
    n_bad = pgas_pool_create(&opts, &left_over) != PGAS_OK ||
            pgas_pool_acquire(left_over, 100, -1, &b) != PGAS_OK;
    spmd_is_int(n_bad, 0, "one is left over for pgas_finalize");
}

static void told(void)
{
    char *text = NULL;
    size_t bytes = 0;
    unsigned long long now = 0, high = 0, limit = 0;
    pgas_pool_t *pool = create(PGAS_POOL_CIRCULAR, -1);
    pgas_block_t b;
    pgas_pool_info_t info = { .size = sizeof info };
    bool good = pgas_pool_acquire(pool, 1000, -1, &b) == PGAS_OK;
    FILE *out = open_memstream(&text, &bytes);
    pgas_info_print(out, NULL);
    fclose(out);
    const char *at = strstr(text, "\n  threads ");
    good = good && at && sscanf(at, " threads %llu %llu %llu", &now, &high, &limit) == 3;
    spmd_ok(good && pgas_pool_info(pool, &info) == PGAS_OK && now == info.bytes && high >= now &&
                limit == info.max_bytes,
            "pgas_info prints the present, greatest and allowed memory of an owner");
    spmd_ok(strstr(text, "\n  attached memory ") && !strstr(text, "\n  nobody "),
            "and who else has some");
    free(text);
    pgas_pool_destroy(pool);
}

static uint64_t accounted(void)
{
    pgas_mem_owner_t owners[PGAS_MEM_OWNERS_MAX];
    uint64_t sum = 0;
    int n = 0;
    pgas_mem_owners(owners, PGAS_MEM_OWNERS_MAX, &n);
    for (int i = 0; i < n; i++)
        sum += strncmp(owners[i].name, "transport", 9) ? owners[i].bytes : 0;
    return sum;
}

static void every_byte(void)
{
    static char mine[10000];
    pgas_gptr_t ptr;
    pgas_heap_info_t heap = { .size = sizeof heap };
    pgas_heap_info(&heap);
    uint64_t before = accounted();
    int n_bad = pgas_mem_attach(mine, sizeof mine, &ptr) != PGAS_OK;
    uint64_t with = accounted(), registered = pgasi_tp ? counted().registered_bytes : with;
    spmd_ok(!n_bad && with == registered &&
                with == heap.heap_bytes + pgasi_heap_tail_bytes + sizeof mine,
            "the account has every byte that was registered with the transport");
    spmd_ok(before != registered || !pgasi_tp, "a byte without a report would be missed");
    pgas_mem_detach(ptr);
}

int main(int argc, char **argv)
{
    pgasi_hooks.wrap_transport = pgasi_tp_count_wrap;
    setenv("PGAS_HEAP_SIZE", "48M", 0);
    job_begin(&argc, &argv, 15);
    uint64_t seed = spmd_seed(20240111);
    traffic(seed);
    uncopied();
    from_afar();
    pools_elsewhere(seed);
    told();
    every_byte();
    return job_end();
}
