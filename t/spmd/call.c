/* Calls between ranks.
 *   what:   Every call runs once, in the order of its thread, with its arguments. Replies and
 *           completions come back. Calls from handlers run too. A full peer gives AGAIN and loses
 *           no call. Operations that handlers must not use are refused.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=64 |
 *   env:    PGAS_SERVICE_THREADS=0 PGAS_CALL_MAX=1K PGAS_CHUNK_SIZE=4K |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 PGAS_FAR_CALLS=put | PGAS_SERVICE_THREADS=2
 *   env:    PGAS_AGG_SIZE=64 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_FAR_CALLS=put
 *   source: pgas/call.h
 */
#include "base/checks.h"
#include "base/param.h"
#include "base/rng.h"
#include "t/handlers.h"
#include "t/pattern.h"
#include "t/spmd/job.h"

#define N_ORDERED      1500
#define SLOTS          4
#define TREE_DEPTH     7
#define GATE_BYTES_MAX ((size_t)256 << 20)

static pgas_handler_t numbered, sized, echo, count, silent, longer, twice, chain, tree, probe, gate,
    answering;
static size_t call_max;
static pgas_gptr_t words[JOB_RANKS_MAX]; /* 64 bytes on each rank */

/* ---- order ---- */

static uint32_t next_of[JOB_RANKS_MAX][SLOTS]; /* by source */
static int n_out_of_order;

/* args: the number, then a pattern made from it */
static void on_numbered(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    int slot = pgas_thread_slot(source);
    memcpy(&number, args, sizeof number);
    if (slot >= SLOTS || number != next_of[pgas_thread_rank(source)][slot]++ ||
        (uintptr_t)args % 8 != 0 || !pattern_matches((const char *)args + 8, number, bytes - 8) ||
        context != (void *)&n_out_of_order)
        n_out_of_order++;
}

static pgas_status_t send_numbered(pgas_agg_t *agg, int rank, uint64_t number, uint64_t draw)
{
    unsigned char args[8192];
    size_t bytes =
        8 + (size_t)(draw >> 8) % (draw & 16 ? 24 : PGASI_MIN(call_max, sizeof args) - 7);
    memcpy(args, &number, 8);
    pattern_fill(args + 8, number, bytes - 8);
    if (draw % 4 == 0)
        return pgas_call(rank, numbered, args, bytes, NULL);
    if (draw % 4 != 1)
        return pgas_agg_call(agg, rank, numbered, args, bytes);
    pgas_status_t status;
    while ((status = pgas_call_to(pgas_on_rank(rank), numbered, args, bytes,
                                  PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN))) == PGAS_ERR_AGAIN)
        pgas_progress();
    return status;
}

/* All that was sent to me, by source, has run and in order. */
static bool all_arrived(const uint32_t sent[JOB_RANKS_MAX])
{
    uint32_t expected[JOB_RANKS_MAX];
    bool good = true;
    pgas_alltoall(NULL, sent, expected, sizeof sent[0]);
    for (int r = 0; r < n_ranks; r++)
        good = good && next_of[r][0] == expected[r];
    return good;
}

static void order_of_direct_and_gathered_calls(uint64_t seed)
{
    static uint32_t sent[JOB_RANKS_MAX];
    pgasi_rng_t rng;
    pgas_agg_t *agg = NULL;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    memset(next_of, 0, sizeof next_of);
    pgas_barrier(NULL);
    n_bad += pgas_agg_create(NULL, &agg) != PGAS_OK;
    for (int i = 0; i < N_ORDERED; i++) {
        int rank = (int)pgasi_rng_below(&rng, (uint64_t)n_ranks);
        n_bad += send_numbered(agg, rank, sent[rank]++, pgasi_rng_u64(&rng)) != PGAS_OK;
        if (pgasi_rng_below(&rng, 50) == 0)
            n_bad += pgas_agg_flush(agg, rank, NULL) != PGAS_OK;
        if (pgasi_rng_below(&rng, 200) == 0)
            n_bad += pgas_agg_flush(agg, PGAS_ALL, NULL) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(all_arrived(sent), "after quiesce every call has run");
    spmd_is_int(n_bad + n_out_of_order, 0,
                "in order, with their arguments, direct and gathered mixed");
    uint64_t wrong = 1000000;
    n_bad = pgas_call(job_right(), numbered, &wrong, sizeof wrong, NULL) != PGAS_OK ||
            pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_out_of_order == 1, "and a wrong number is noticed");
    n_out_of_order = 0;
    spmd_ok(pgas_agg_destroy(agg) == PGAS_OK && pgas_agg_destroy(NULL) == PGAS_OK,
            "an aggregator ends");
}

/* ---- sizes ---- */

static uint64_t sizes_sum;
static int n_sized, n_sized_wrong;

static void on_sized(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    sizes_sum += bytes;
    n_sized++;
    n_sized_wrong += !pattern_matches(args, bytes, bytes);
}

static void sizes(void)
{
    unsigned char *args = job_alloc(call_max + 1);
    int n_bad = 0, n = 0;
    uint64_t sum = 0;
    for (int r = 0; r < n_ranks; r++) {
        for (size_t bytes = 0; bytes <= call_max; bytes = bytes < 40 ? bytes + 1 : bytes * 2 - 17) {
            pattern_fill(args, bytes, bytes);
            n_bad += pgas_call(r, sized, args, bytes, NULL) != PGAS_OK;
            sum += bytes;
            n++;
        }
        pattern_fill(args, call_max, call_max);
        n_bad += pgas_call(r, sized, args, call_max, NULL) != PGAS_OK;
        n_bad += pgas_call(r, sized, args, call_max + 1, NULL) != PGAS_ERR_LIMIT;
        n_bad += pgas_call_to(pgas_on_rank(r), sized, args, SIZE_MAX,
                              PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) != PGAS_ERR_LIMIT;
        n_bad += pgas_call(r, sized, NULL, 1, NULL) != PGAS_ERR_INVALID;
        sum += call_max;
        n++;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad, 0, "arguments of 0 to PGAS_CALL_MAX bytes go out, more do not");
    spmd_ok(n_sized == n && sizes_sum == sum && n_sized_wrong == 0, "and arrive");
    free(args);
}

/* ---- replies and completion ---- */

static int reply_status[3];
static uint64_t n_counted;

static void on_longer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    char data[64] = { 0 };
    (void)args;
    (void)source;
    (void)context;
    pgas_reply(data, bytes + 1);
}

static void on_twice(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    unsigned char *large = calloc(1, call_max + 1);
    reply_status[0] = pgas_reply(large, call_max + 1);
    reply_status[1] = pgas_reply(args, bytes);
    reply_status[2] = pgas_reply(args, bytes);
    free(large);
}

static void replies(void)
{
    unsigned char *args = job_alloc(call_max), *back = job_alloc(call_max + 1);
    int n_bad = 0;
    for (int r = 0; r < n_ranks; r++) {
        for (size_t bytes = 1; bytes <= call_max; bytes = bytes < 10 ? bytes + 1 : bytes * 3 + 1) {
            pattern_fill(args, bytes + (size_t)me, bytes);
            back[bytes] = 0xcc;
            n_bad += pgas_call_return(r, echo, args, bytes, back, bytes) != PGAS_OK;
            n_bad += !pattern_matches(back, bytes + (size_t)me, bytes) || back[bytes] != 0xcc;
        }
        pattern_fill(args, 5, call_max);
        n_bad += pgas_call_return(r, echo, args, call_max, back, call_max) != PGAS_OK;
        n_bad += !pattern_matches(back, 5, call_max);
    }
    spmd_is_int(n_bad, 0, "replies come back, up to PGAS_CALL_MAX");
    n_bad = pgas_call_return(job_right(), silent, NULL, 0, back, 8) != PGAS_ERR_MISMATCH;
    n_bad += pgas_call_return(job_right(), longer, args, 8, back, 8) != PGAS_ERR_MISMATCH;
    n_bad += pgas_call_return(job_right(), echo, args, 7, back, 8) != PGAS_ERR_MISMATCH;
    n_bad += pgas_call_return(job_right(), echo, args, 8, NULL, 8) != PGAS_ERR_INVALID;
    n_bad += pgas_call_return(job_right(), echo, args, 8, back, 0) != PGAS_ERR_MISMATCH;
    n_bad += pgas_call_return(job_right(), echo, args, 8, back, pgasi_param.buffer_limit + 1) !=
             PGAS_ERR_LIMIT;
    n_bad += pgas_reply(args, 8) != PGAS_ERR_CONTEXT;
    spmd_is_int(n_bad, 0, "a missing reply or one of another size is a mismatch");
    n_bad = pgas_call_return(job_right(), twice, args, 8, back, 8) != PGAS_OK ||
            !pattern_matches(back, 5, 8);
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && reply_status[0] == PGAS_ERR_LIMIT && reply_status[1] == PGAS_OK &&
                reply_status[2] == PGAS_ERR_CONTEXT,
            "one reply a call, not larger than the limit");
    free(args);
    free(back);
}

static void many_replies_at_once(void)
{
    enum { N = 300 };
    static uint64_t args[N], back[N];
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    for (int i = 0; i < N; i++) {
        args[i] = (uint64_t)(i * 1000 + me);
        n_bad += pgas_call_return_nb(i % n_ranks, echo, &args[i], 8, &back[i], 8, &sync) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || pgas_sync_test(&sync) != PGAS_OK;
    n_bad += memcmp(args, back, sizeof back) != 0;
    spmd_is_int(n_bad, 0, "many replies under one counter");
}

static void completion_means_executed(void)
{
    enum { N = 200 };
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = pgas_sync_wait(&sync, 0) != PGAS_OK;
    n_counted = 0;
    pgas_barrier(NULL);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            n_bad += pgas_call(me, count, NULL, 0, &sync) != PGAS_OK;
        n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
        n_bad += __atomic_load_n(&n_counted, __ATOMIC_RELAXED) != (uint64_t)(round + 1) * N;
    }
    pgas_sync_add(&sync, 1);
    n_bad +=
        pgas_sync_test(&sync) != PGAS_INPROGRESS || pgas_sync_wait(&sync, 2000) != PGAS_ERR_TIMEOUT;
    n_bad += pgas_sync_done(&sync, 1) != PGAS_OK || pgas_sync_add(&sync, -1) != PGAS_ERR_INVALID;
    n_bad += pgas_sync_test(&sync) != PGAS_OK || pgas_sync_test(NULL) != PGAS_ERR_INVALID;
    pgas_barrier(NULL);
    n_counted = 0;
    pgas_barrier(NULL);
    for (int r = 0; r < n_ranks; r++)
        n_bad += pgas_call(r, count, NULL, 0, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && __atomic_load_n(&n_counted, __ATOMIC_RELAXED) == (uint64_t)n_ranks,
            "a counter is decremented when the handler has run; it times out and is used again");
}

/* ---- calls from handlers ---- */

static void on_chain(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t left;
    (void)source;
    (void)context;
    memcpy(&left, args, sizeof left);
    n_counted++;
    if (left-- > 0)
        n_sized_wrong += pgas_call(job_right(), chain, &left, bytes, NULL) != PGAS_OK;
}

static void chains(void)
{
    enum { LENGTH = 500 };
    uint64_t length = LENGTH;
    n_counted = 0;
    pgas_barrier(NULL);
    int n_bad = pgas_call(job_right(), chain, &length, sizeof length, NULL) != PGAS_OK ||
                pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_counted == LENGTH + 1 && n_sized_wrong == 0,
            "chains of calls from handlers, all of them");
}

typedef struct {
    uint64_t seed, depth;
} branch_t;

/* How many calls the tree below makes: what handlers do, counted by one rank alone. */
static uint64_t tree_size(branch_t b)
{
    uint64_t n = 1, fan = b.depth ? b.seed % 4 : 0;
    for (uint64_t i = 0; i < fan; i++) {
        uint64_t state = b.seed + i;
        n += tree_size((branch_t){ pgas_splitmix(&state), b.depth - 1 });
    }
    return n;
}

static void on_tree(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    branch_t b;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&b, args, sizeof b);
    n_counted++;
    uint64_t fan = b.depth ? b.seed % 4 : 0;
    for (uint64_t i = 0; i < fan; i++) {
        uint64_t state = b.seed + i;
        branch_t child = { pgas_splitmix(&state), b.depth - 1 };
        n_sized_wrong += pgas_call((int)(child.seed / 64 % (uint64_t)n_ranks), tree, &child,
                                   sizeof child, NULL) != PGAS_OK;
    }
}

static void random_trees(uint64_t seed)
{
    uint64_t expected = 0, total = 0;
    int n_bad = 0;
    for (int round = 0; round < 12; round++) {
        n_counted = 0;
        pgas_barrier(NULL);
        uint64_t state = seed + (uint64_t)(round * n_ranks + me), sizes_here = 0;
        for (int i = 0; i < 4; i++) {
            branch_t root = { pgas_splitmix(&state), TREE_DEPTH };
            sizes_here += tree_size(root);
            n_bad += pgas_call((int)(root.seed / 64 % (uint64_t)n_ranks), tree, &root, sizeof root,
                               NULL) != PGAS_OK;
        }
        n_bad += pgas_quiesce() != PGAS_OK;
        uint64_t ran = n_counted;
        pgas_allreduce(NULL, &sizes_here, &expected, 1, PGAS_U64, PGAS_ADD);
        pgas_allreduce(NULL, &ran, &total, 1, PGAS_U64, PGAS_ADD);
        n_bad += total != expected;
    }
    spmd_ok(n_bad == 0 && n_sized_wrong == 0, "quiesce ends when whole trees of calls have run");
}

/* A handler that answers by a call of its own, with the arguments that it got. */
static void on_answering(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)context;
    n_sized_wrong += pgas_call(pgas_thread_rank(source), count, NULL, 0, NULL) != PGAS_OK;
}

static void answers_by_calls(void)
{
    enum { N = 400 };
    n_counted = 0;
    pgas_barrier(NULL);
    int n_bad = 0;
    for (int i = 0; i < N; i++)
        n_bad += pgas_call(i % n_ranks, answering, NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_sized_wrong == 0 && n_counted == N, "a handler calls back");
}

/* ---- operations in handlers ---- */

static struct {
    int near_put, near_amo, alloc_local, agg, far_put, far_get, far_amo, attached, flush, sync_wait,
        barrier, quiesce, alloc, call_return, init, finalize, detach, progress, signal, agree,
        self_slot;
} seen;
static pgas_gptr_t user[JOB_RANKS_MAX];
static int near_rank, far_rank, other_rank;

static void on_probe(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t word = 7, old = 0;
    pgas_gptr_t block = PGAS_NULL;
    pgas_sync_t sync = { 1, 0, NULL, NULL };
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    seen.near_put = pgas_put(words[near_rank], &word, 8);
    seen.near_amo = pgas_fetch_op_u64(words[near_rank], PGAS_ADD, 0, &old);
    seen.alloc_local = pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 64, &block);
    if (seen.alloc_local == PGAS_OK)
        seen.alloc_local = pgas_free_on(block);
    seen.far_put = pgas_put(words[far_rank], &word, 8);
    seen.far_get = pgas_get(&word, words[far_rank], 8);
    seen.far_amo = pgas_fetch_op_u64(words[far_rank], PGAS_ADD, 0, &old);
    seen.attached = pgas_put(user[other_rank], &word, 8);
    seen.flush = pgas_flush_all();
    seen.sync_wait = pgas_sync_wait(&sync, 0) == PGAS_ERR_TIMEOUT ? pgas_sync_wait(&sync, 1) : 0;
    seen.barrier = pgas_barrier(NULL);
    seen.quiesce = pgas_quiesce();
    seen.alloc = pgas_alloc(8, &block);
    seen.call_return = pgas_call_return(me, echo, &word, 8, &old, 8);
    seen.init = pgas_init(NULL, NULL);
    seen.finalize = pgas_finalize();
    seen.detach = pgas_thread_detach();
    seen.signal = pgas_signal_wait(&word, PGAS_EQ, 1, 1, NULL);
    seen.agree = pgas_handlers_agree();
    seen.progress = pgas_progress();
    seen.self_slot = pgas_thread_slot(pgas_thread_self());
}

static void what_handlers_may_do(void)
{
    static uint64_t mine[8];
    pgas_gptr_t ptr = PGAS_NULL;
    int n_bad = pgas_mem_attach(mine, sizeof mine, &ptr) != PGAS_OK;
    job_gather(ptr, user);
    near_rank = me;
    far_rank = other_rank = -1;
    for (int r = 0; r < n_ranks; r++) {
        if (pgas_node_of(r) == pgas_node())
            near_rank = r;
        else
            far_rank = r;
        if (r != me)
            other_rank = r;
    }
    int far = far_rank < 0 ? PGAS_OK : PGAS_ERR_CONTEXT,
        other = other_rank < 0 ? PGAS_OK : PGAS_ERR_CONTEXT;
    far_rank = far_rank < 0 ? me : far_rank;
    other_rank = other_rank < 0 ? me : other_rank;
    pgas_barrier(NULL);
    n_bad += pgas_call(job_right(), probe, NULL, 0, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && seen.near_put == PGAS_OK && seen.near_amo == PGAS_OK &&
                seen.alloc_local == PGAS_OK,
            "in a handler: put, atomics and alloc_local within the node");
    spmd_ok(seen.far_put == far && seen.far_get == far && seen.far_amo == far,
            "in a handler: nothing one-sided to other nodes");
    spmd_is_int(seen.attached, other, "in a handler: not to attached memory of others");
    spmd_ok(seen.flush == PGAS_ERR_CONTEXT && seen.sync_wait == PGAS_ERR_CONTEXT &&
                seen.barrier == PGAS_ERR_CONTEXT && seen.quiesce == PGAS_ERR_CONTEXT &&
                seen.alloc == PGAS_ERR_CONTEXT && seen.call_return == PGAS_ERR_CONTEXT &&
                seen.init == PGAS_ERR_CONTEXT && seen.finalize == PGAS_ERR_CONTEXT &&
                seen.detach == PGAS_ERR_CONTEXT && seen.signal == PGAS_ERR_CONTEXT &&
                seen.agree == PGAS_ERR_CONTEXT && seen.progress == 0,
            "in a handler: nothing that waits");
    pgas_barrier(NULL);
    spmd_ok(pgas_mem_detach(ptr) == PGAS_OK && pgas_initialized(), "the library continues");
}

/* ---- a peer that is full ---- */

static int gate_open;

/* Rank 0 serves nothing until all others have heard AGAIN; its first thread stays out of the
 * library meanwhile. */
static void full_peer_says_again(void)
{
    static uint32_t sent[JOB_RANKS_MAX];
    unsigned char args[64];
    size_t bytes = 0, each = PGASI_MIN(sizeof args, call_max);
    pgas_status_t status = PGAS_OK;
    int n_bad = 0;
    memset(next_of, 0, sizeof next_of);
    pgas_barrier(NULL);
    spmd_progress(NULL);
    spmd_barrier();
    if (me == 1)
        n_bad += pgas_call(0, gate, NULL, 0, NULL) != PGAS_OK;
    while (me != 0 && status == PGAS_OK && bytes < GATE_BYTES_MAX) {
        uint64_t number = sent[0];
        memcpy(args, &number, 8);
        pattern_fill(args + 8, number, each - 8);
        status = pgas_call_to(pgas_on_rank(0), numbered, args, each,
                              PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN));
        sent[0] += status == PGAS_OK;
        bytes += each;
    }
    spmd_is_int(status, me == 0 ? PGAS_OK : PGAS_ERR_AGAIN, "a full peer says AGAIN");
    if (me == 0)
        __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 50 && me != 0; i++) {
        uint64_t number = sent[0]++;
        memcpy(args, &number, 8);
        pattern_fill(args + 8, number, each - 8);
        n_bad += pgas_call(0, numbered, args, each, NULL) != PGAS_OK;
    }
    spmd_progress(job_progress);
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(all_arrived(sent) && n_out_of_order == 0 && n_bad == 0,
            "and accepted calls run once, in order, also after that");
}

static void who_is_not_there(void)
{
    uint64_t x = 0;
    spmd_ok(pgas_call(-1, count, NULL, 0, NULL) == PGAS_ERR_RANGE &&
                pgas_call(n_ranks, count, NULL, 0, NULL) == PGAS_ERR_RANGE &&
                pgas_call(0, 0, NULL, 0, NULL) == PGAS_ERR_NOT_FOUND &&
                pgas_call_to(pgas_on_rank(0), 4000, NULL, 0,
                             PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) == PGAS_ERR_NOT_FOUND &&
                pgas_call_return(0, 0xffff, &x, 8, &x, 8) == PGAS_ERR_NOT_FOUND &&
                pgas_sync_wait(NULL, 0) == PGAS_ERR_INVALID,
            "ranks and handlers that do not exist are refused");
    int n_bad = 0;
    pgas_agg_t *agg = NULL;
    n_bad +=
        pgas_agg_create(NULL, NULL) != PGAS_ERR_INVALID || pgas_agg_create(NULL, &agg) != PGAS_OK;
    n_bad += pgas_agg_call(agg, -1, count, NULL, 0) != PGAS_ERR_RANGE;
    n_bad += pgas_agg_call(agg, n_ranks, count, NULL, 0) != PGAS_ERR_RANGE;
    n_bad += pgas_agg_call(agg, 0, 0, NULL, 0) != PGAS_ERR_NOT_FOUND;
    n_bad += pgas_agg_call(agg, 0, count, &x, call_max + 1) != PGAS_ERR_LIMIT;
    n_bad += pgas_agg_flush(agg, n_ranks, NULL) != PGAS_ERR_RANGE ||
             pgas_agg_flush(NULL, 0, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_agg_flush(NULL, PGAS_ALL, NULL) != PGAS_ERR_INVALID ||
             pgas_agg_destroy(agg) != PGAS_OK;
    spmd_is_int(n_bad, 0, "by aggregators too");
}

static void register_all(void)
{
    pgas_handler_register("t.numbered", on_numbered, &n_out_of_order, NULL, &numbered);
    pgas_handler_register("t.sized", on_sized, NULL, NULL, &sized);
    pgas_handler_register("t.echo", on_echo, NULL, NULL, &echo);
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    pgas_handler_register("t.silent", on_nothing, NULL, NULL, &silent);
    pgas_handler_register("t.longer", on_longer, NULL, NULL, &longer);
    pgas_handler_register("t.twice", on_twice, NULL, NULL, &twice);
    pgas_handler_register("t.chain", on_chain, NULL, NULL, &chain);
    pgas_handler_register("t.tree", on_tree, NULL, NULL, &tree);
    pgas_handler_register("t.probe", on_probe, NULL, NULL, &probe);
    pgas_handler_register("t.gate", on_gate, &gate_open, NULL, &gate);
    pgas_handler_register("t.answering", on_answering, NULL, NULL, &answering);
}

int main(int argc, char **argv)
{
    register_all();
    job_begin(&argc, &argv, 24);
    uint64_t seed = spmd_seed(7);
    call_max = pgasi_param.call_max;
    pgas_gptr_t ptr = PGAS_NULL;
    spmd_ok(pgas_alloc(64, &ptr) == PGAS_OK && pgas_put_u64(ptr, 0) == PGAS_OK, "alloc");
    job_gather(ptr, words);
    order_of_direct_and_gathered_calls(seed);
    sizes();
    replies();
    many_replies_at_once();
    completion_means_executed();
    chains();
    random_trees(seed);
    answers_by_calls();
    what_handlers_may_do();
    if (n_ranks > 1)
        full_peer_says_again();
    else
        spmd_skip(2, "needs two ranks");
    who_is_not_there();
    return job_end();
}
