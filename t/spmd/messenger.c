/* The messenger against a model: each pair of ranks has a queue.
 *   what:   Calls of random sizes in both directions at once come out of every channel as out of a
 *           queue: in order and whole, including zeros, while chunks are reused, while a receiver
 *           does not poll and the channel grows, and with chunks of the least size. After the first
 *           of ten million calls, own and pinned memory grow by a chunk at most, shared memory by
 *           the limit of channels.
 *   np:     2 3 4 7
 *   nodes:  0 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CHUNKS_MAX=2 PGAS_CALL_MAX=1K | PGAS_FAR_CALLS=put
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAR_CALLS=message
 *   source: pgas/call.h; seeded model test */
#include "base/param.h"
#include "base/checks.h"
#include "base/rng.h"
#include "t/handlers.h"
#include "t/spmd/job.h"
#include "t/spmd/message.h"

#define N_SENT    1500
#define N_MILLION UINT64_C(1000000)

static pgas_handler_t queued, hold, count;
static uint64_t seed, n_counted;
/* the source's generator; here it gives the next expected call */
static pgasi_rng_t model[JOB_RANKS_MAX];
static uint64_t n_taken[JOB_RANKS_MAX];
static int n_wrong;
static volatile uint64_t *let_go; /* in the heap: a peer stores there */

static void begin_queues(void)
{
    for (int r = 0; r < n_ranks; r++) {
        pgasi_rng_seed(&model[r], seed + (uint64_t)(r * n_ranks + me));
        n_taken[r] = 0;
    }
    n_wrong = 0;
    pgas_barrier(NULL);
}

static void on_queued(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int rank = pgas_thread_rank(source);
    (void)context;
    message_t m = message_draw(&model[rank]);
    n_wrong += !message_matches(&m, args, bytes);
    n_taken[rank]++;
}

/* The receiver stays away from the library until a peer lets go. */
static void on_hold(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    while (!__atomic_load_n(let_go, __ATOMIC_ACQUIRE))
        ;
}

static int send_one(int rank, pgasi_rng_t *rng)
{
    char args[MESSAGE_MAX];
    message_t m = message_draw(rng);
    message_write(args, &m);
    if (m.bytes == 8) {
        uint64_t word;
        memcpy(&word, args, 8);
        return pgas_call(rank, queued, &word, 8, NULL) != PGAS_OK;
    }
    return pgas_call(rank, queued, args, m.bytes, NULL) != PGAS_OK;
}

static bool all_taken(uint64_t n)
{
    bool all = true;
    for (int r = 0; r < n_ranks; r++)
        all = all && n_taken[r] == n;
    return all;
}

/* Every rank sends to every rank, the peers in random order, so that both directions are under way.
 * */
static void each_channel_is_a_queue(void)
{
    pgasi_rng_t rng[JOB_RANKS_MAX], order;
    uint64_t left[JOB_RANKS_MAX], n_left = (uint64_t)n_ranks * N_SENT;
    int n_bad = 0;
    begin_queues();
    pgasi_rng_seed(&order, seed + 7 + (uint64_t)me);
    for (int r = 0; r < n_ranks; r++) {
        pgasi_rng_seed(&rng[r], seed + (uint64_t)(me * n_ranks + r));
        left[r] = N_SENT;
    }
    while (n_left > 0) {
        int r = (int)pgasi_rng_below(&order, (uint64_t)n_ranks);
        for (uint64_t n = 1 + pgasi_rng_below(&order, 30); n > 0 && left[r] > 0;
             n--, left[r]--, n_left--)
            n_bad += send_one(r, &rng[r]);
        if (pgasi_rng_below(&order, 8) == 0)
            pgas_progress();
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && all_taken(N_SENT),
            "all calls of all pairs arrive once, in both directions at once");
    spmd_is_int(n_wrong, 0, "as out of queues: in order, whole, with all their zeros");
}

/* The neighbour does not poll while its channel fills up and grows. Then it runs the calls. */
static void a_channel_that_grows_is_a_queue(void)
{
    pgas_gptr_t flag;
    pgas_channel_info_t info = { .size = sizeof info };
    pgasi_rng_t rng;
    int peer = job_right(), from = (me + n_ranks - 1) % n_ranks, n_bad = 0, n_chunks = 0;
    uint64_t n = 0, go = 1, n_all[JOB_RANKS_MAX];
    pgas_thread_t target = pgas_thread_make(peer, PGAS_SLOT_ANY);
    n_bad += pgas_alloc(sizeof *let_go, &flag) != PGAS_OK;
    let_go = pgas_gptr_local(pgas_gptr_at(flag, me), sizeof *let_go);
    *let_go = 0;
    begin_queues();
    pgasi_rng_seed(&rng, seed + (uint64_t)(me * n_ranks + peer));
    /* on another node a put would need the rank that does not poll */
    bool near = n_ranks > 1 && pgas_node_of(peer) == pgas_node();
    if (near)
        n_bad += pgas_call(peer, hold, NULL, 0, NULL) != PGAS_OK;
    pgas_status_t status = PGAS_OK;
    while (near && n < 2000 &&
           (status == PGAS_OK || (pgasi_param.chunks_max > 2 && n_chunks <= 2))) {
        static char args[MESSAGE_MAX];
        pgasi_rng_t before = rng;
        message_t m = message_draw(&rng);
        message_write(args, &m);
        status = pgas_call_to(pgas_on_rank(peer), queued, args, m.bytes,
                              PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN));
        n_bad += status != PGAS_OK && status != PGAS_ERR_AGAIN;
        n += status == PGAS_OK;
        if (status != PGAS_OK)
            rng = before; /* again, for growing takes a moment */
        n_bad += pgas_channel_info(pgas_on_thread(target), &info) != PGAS_OK;
        n_chunks = info.n_chunks;
    }
    bool grew = !near || n_chunks > 2 || pgasi_param.chunks_max <= 2;
    if (near)
        n_bad += pgas_put(pgas_gptr_at(flag, peer), &go, sizeof go) != PGAS_OK;
    for (int i = 0; i < 500; i++, n++)
        n_bad += send_one(peer, &rng);
    n_bad += pgas_quiesce() != PGAS_OK;
    pgas_allgather(NULL, &n, n_all, sizeof n);
    spmd_ok(grew, "a channel grows while its receiver stays away (%d chunks)", n_chunks);
    spmd_ok(n_bad == 0 && n_wrong == 0 && n_taken[from] == n_all[from],
            "and is still a queue (%d wrong)", n_wrong);
    pgas_barrier(NULL);
    pgas_free(flag);
}

static void a_call_out_of_place_is_noticed(void)
{
    pgasi_rng_t rng;
    int peer = job_right(), n_bad = 0;
    begin_queues();
    pgasi_rng_seed(&rng, seed + (uint64_t)(me * n_ranks + peer));
    message_draw(&rng); /* this one is left out */
    for (int i = 0; i < 20; i++)
        n_bad += send_one(peer, &rng);
    pgas_quiesce();
    spmd_ok(n_bad == 0 && n_wrong > 0,
            "a queue without its first call is noticed (broken on purpose)");
    pgas_barrier(NULL);
}

static uint64_t status_kib(const char *field)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, field, strlen(field)) == 0)
            sscanf(line + strlen(field), ": %llu", &kib);
    if (f)
        fclose(f);
    return kib;
}

static uint64_t pinned_bytes(void)
{
    pgas_mem_owner_t owners[PGAS_MEM_OWNERS_MAX];
    uint64_t sum = 0;
    int n = 0;
    pgas_mem_owners(owners, PGAS_MEM_OWNERS_MAX, &n);
    for (int i = 0; i < n; i++)
        sum += owners[i].bytes;
    return sum;
}

static int send_a_million(pgas_agg_t *agg, int peer, bool gathered, uint64_t n)
{
    int n_bad = 0;
    for (uint64_t i = 0; i < n; i++)
        if (gathered)
            n_bad += pgas_agg_call(agg, peer, count, &i, sizeof i) != PGAS_OK;
        else
            n_bad += pgas_call(peer, count, &i, sizeof i, NULL) != PGAS_OK;
    return n_bad + (pgas_quiesce() != PGAS_OK);
}

/* Ten millions over all ranks, the first of them to warm up. Off the node all are gathered, for
 * time's sake. Pages of chunks are resident once they are first used: of the channels to and from a
 * neighbour as many as these may have. */
static void memory_stays(void)
{
    int peer = job_right(), n_bad = 0;
    bool far = pgas_node_of(peer) != pgas_node();
    uint64_t share = N_MILLION / (uint64_t)n_ranks / 2 * 2;
    pgas_agg_t *agg = NULL;
    n_bad += pgas_agg_create(NULL, &agg) != PGAS_OK;
    n_counted = 0;
    pgas_barrier(NULL);
    n_bad += send_a_million(agg, peer, true, share / 2) + send_a_million(agg, peer, far, share / 2);
    uint64_t own = status_kib("RssAnon"), shared = status_kib("RssShmem"), pinned = pinned_bytes();
    for (int i = 0; i < 9; i++)
        n_bad += send_a_million(agg, peer, far || i % 2 == 0, share);
    int64_t grown = (int64_t)(status_kib("RssAnon") - own) * 1024,
            touched = (int64_t)(status_kib("RssShmem") - shared) * 1024;
    int64_t pinned_more = (int64_t)(pinned_bytes() - pinned),
            chunk = (int64_t)pgasi_param.chunk_size;
    uint64_t sum[2] = { n_counted, 10 * share }, all[2] = { 0, 1 };
    pgas_allreduce(NULL, sum, all, 2, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && all[0] == all[1], "%llu calls", (unsigned long long)all[1]);
    /* malloc takes 128 KiB at a time. One lost byte in each call would be nine million bytes. */
    spmd_ok(own > 0 && grown <= PGASI_MAX(chunk, 128 * 1024),
            "own memory grew by %lld bytes after the first million", (long long)grown);
    spmd_ok(touched <= 2 * chunk * pgasi_param.chunks_max, "shared memory in use by %lld",
            (long long)touched);
    spmd_ok(pinned_more <= chunk, "pinned memory by %lld", (long long)pinned_more);
    pgas_agg_destroy(agg);
}

int main(int argc, char **argv)
{
    pgas_handler_register("queued", on_queued, NULL, NULL, &queued);
    pgas_handler_register("hold", on_hold, NULL, NULL, &hold);
    pgas_handler_register("count", on_count, &n_counted, NULL, &count);
    job_begin(&argc, &argv, 9);
    seed = spmd_seed(31);
    each_channel_is_a_queue();
    a_channel_that_grows_is_a_queue();
    a_call_out_of_place_is_noticed();
    memory_stays();
    return job_end();
}
