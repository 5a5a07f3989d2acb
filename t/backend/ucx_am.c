/* Active messages over the ops table.
 *   what:   Each message arrives once, unchanged, in the order of its context and sender, whatever
 *           the sizes. Kept data stay valid. Handlers may send. Messages that are too large or
 *           foreign are dropped.
 *   np:     2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_TEST_FAULT= | PGAS_TEST_FAULT=delay=5,reorder=7,again=3 |
 *   env:    PGAS_TEST_TRANSPORT=verbs |
 *   env:    PGAS_TEST_TRANSPORT=verbs PGAS_TEST_FAULT=delay=5,reorder=7,again=3
 *   log:    dropped a message of
 *   source: transport.h
 */
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "t/backend/world.h"

enum { SENDERS_MAX = 8, KEEP_MAX = 4000, DATA_MAX = 4 << 20, PINGS_MAX = 4096 };

typedef struct {
    uint32_t kind, sender, ctx, number;
    uint64_t seed;
} header_t;

enum { PLAIN, KEEP, PING, PONG };

static struct {
    uint32_t next[SENDERS_MAX][WORLD_CTXS_MAX];
    uint64_t n_arrived, n_bad, n_late;
    uint64_t n_pongs;
    struct {
        void *data;
        size_t bytes;
        uint64_t seed;
    } kept[KEEP_MAX];
    int n_kept;
    int n_pings_waiting;
    uint32_t pings[PINGS_MAX];
} inbox;

static bool on_am(void *arg, const pgasi_tp_am_t *am)
{
    header_t header;
    (void)arg;
    inbox.n_arrived++;
    if (am->header_bytes < sizeof header) {
        inbox.n_bad +=
            am->header_bytes != 3 || memcmp(am->header, "abc", 3) != 0 || am->data_bytes != 0;
        return false;
    }
    memcpy(&header, am->header, sizeof header);
    if (header.sender >= SENDERS_MAX || header.ctx >= WORLD_CTXS_MAX) {
        inbox.n_bad++;
        return false;
    }
    inbox.n_bad += am->source != (int)header.sender;
    inbox.n_late += header.number != inbox.next[header.sender][header.ctx]++;
    inbox.n_bad += !world_matches(am->data, header.seed, 0, am->data_bytes);
    if (header.kind == PING)
        inbox.pings[inbox.n_pings_waiting++ % PINGS_MAX] = header.sender;
    inbox.n_pongs += header.kind == PONG;
    if (header.kind == KEEP && inbox.n_kept < KEEP_MAX) {
        inbox.kept[inbox.n_kept].data = am->data;
        inbox.kept[inbox.n_kept].bytes = am->data_bytes;
        inbox.kept[inbox.n_kept++].seed = header.seed;
        return true;
    }
    return false;
}

static uint32_t next_number[SENDERS_MAX][WORLD_CTXS_MAX];

static bool send(int ctx, int peer, uint32_t kind, size_t bytes, uint64_t seed)
{
    static unsigned char data[DATA_MAX];
    header_t header = { kind, (uint32_t)world.rank, (uint32_t)ctx, next_number[peer][ctx]++, seed };
    world_fill(data, seed, 0, bytes);
    return world_am(ctx, peer, &header, sizeof header, data, bytes) == PGAS_OK;
}

/* Until n messages have come in since the test began, everywhere. */
static void await(uint64_t n)
{
    while (inbox.n_arrived < n)
        world_progress();
    world_barrier();
}

static void begin(void)
{
    world_barrier();
    inbox.n_arrived = inbox.n_bad = inbox.n_late = 0;
    world_barrier();
}

static bool is_clean(void)
{
    return inbox.n_bad == 0 && inbox.n_late == 0;
}

static void sizes(void)
{
    static const size_t bytes[] = {
        0,       1,     3,     8,     64,    99,     100,     255,           256,
        257,     1000,  4096,  7680,  8000,  8100,   8192,    8256,          8300,
        9000,    16384, 65535, 65536, 65537, 262144, 1 << 20, (1 << 20) + 1, 3000001,
        DATA_MAX
    };
    const size_t n = sizeof bytes / sizeof bytes[0];
    bool good = true;
    begin();
    for (size_t i = 0; i < n; i++) {
        for (int peer = 0; peer < world.size; peer++)
            for (int ctx = 0; ctx < world.n_ctxs; ctx++)
                good = send(ctx, peer, PLAIN, bytes[i], i) && good;
    }
    await(n * (uint64_t)world.size * (uint64_t)world.n_ctxs);
    spmd_ok(good && is_clean(),
            "0 bytes to 4 MiB arrive unchanged from every context, also to oneself");
    for (int peer = 0; peer < world.size; peer++)
        world_am(0, peer, "abc", 3, NULL, 0);
    await((n * (uint64_t)world.n_ctxs + 1) * (uint64_t)world.size);
    spmd_ok(inbox.n_bad == 0, "a short header and no data");
}

/* Mixed sizes without waiting for any: eager ones would overtake a rendezvous if they could. */
static void order(void)
{
    enum { N = 1500, SLOTS = 64 };
    typedef struct {
        pending_t pending;
        bool used;
        unsigned char *data;
    } slot_t;
    static slot_t slots[SLOTS];
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, spmd_seed(3) + (uint64_t)world.rank);
    bool good = true;
    begin();
    for (int i = 0; i < N; i++) {
        int peer = (world.rank + 1 + i % (world.size - 1)) % world.size,
            ctx = (int)pgasi_rng_below(&rng, 2);
        size_t limit = i % 5 == 0 ? 20000 : 200;
        if (i % 16 == 0)
            limit = 600000;
        size_t bytes = pgasi_rng_below(&rng, limit);
        slot_t *slot = &slots[i % SLOTS];
        while (slot->used && !slot->pending.done)
            world_progress();
        free(slot->data);
        slot->data = malloc(bytes + 1);
        world_fill(slot->data, (uint64_t)i, 0, bytes);
        header_t header = { PLAIN, (uint32_t)world.rank, (uint32_t)ctx, next_number[peer][ctx]++,
                            (uint64_t)i };
        pgas_status_t status;
        while ((status = world.ctxs[ctx]->ops->am(world.ctxs[ctx], peer, &header, sizeof header,
                                                  slot->data, bytes,
                                                  world_pending(&slot->pending))) == PGAS_ERR_AGAIN)
            world_progress();
        slot->used = status == PGAS_INPROGRESS;
        good = good && status >= 0;
    }
    await(world.size == 2 ? N : 0);
    for (int i = 0; i < SLOTS; i++) {
        while (slots[i].used && !slots[i].pending.done)
            world_progress();
        good = good && (!slots[i].used || slots[i].pending.status == PGAS_OK);
        free(slots[i].data);
        slots[i] = (slot_t){ .used = false };
    }
    uint64_t sums[2] = { N, 0 }, all[2];
    do { /* with more than two ranks the counts differ: wait until as many came as were sent */
        sums[1] = inbox.n_arrived;
        MPI_Request request;
        MPI_Iallreduce(sums, all, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD, &request);
        for (int done = 0; !done;) {
            MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            world_progress();
        }
    } while (all[0] != all[1]);
    spmd_ok(good && is_clean(),
            "%d messages of mixed sizes arrive in order of their context and sender", N);
}

/* Messages without a completion: a flush gives the buffers back. */
static void no_completion(void)
{
    enum { N = 40 };
    static unsigned char data[N][70000];
    pgasi_tp_ctx_t *ctx = world.ctxs[1];
    int peer = (world.rank + 1) % world.size;
    bool good = true;
    begin();
    for (int i = 0; i < N; i++) {
        size_t bytes = i % 2 == 0 ? sizeof data[i] : 50;
        header_t header = { PLAIN, (uint32_t)world.rank, 1, next_number[peer][1]++, (uint64_t)i };
        world_fill(data[i], (uint64_t)i, 0, bytes);
        pgas_status_t status;
        while ((status = ctx->ops->am(ctx, peer, &header, sizeof header, data[i], bytes, NULL)) ==
               PGAS_ERR_AGAIN)
            world_progress();
        good = good && status >= 0;
        memset(&header, 0xff, sizeof header); /* the header was copied at once */
    }
    good = world_flush(1, peer) == PGAS_OK && good;
    memset(data, 0xee, sizeof data);
    await(N);
    spmd_ok(good && is_clean(),
            "messages without completion: after a flush their data is ours again");
}

static void keeping(void)
{
    enum { N = 300 };
    bool good = true;
    inbox.n_kept = 0;
    begin();
    for (int i = 0; i < N; i++) {
        size_t bytes = i % 50 == 0 ? 100000 + (size_t)i : (size_t)(i * 29 % 9000);
        good = send(i % 2, (world.rank + 1) % world.size, KEEP, bytes, 900 + (uint64_t)i) && good;
    }
    await(N);
    good = good && inbox.n_kept == N;
    for (int i = 0; i < N / 2; i++) { /* half of the buffers back, then more traffic through them */
        good = good && world_matches(inbox.kept[2 * i].data, inbox.kept[2 * i].seed, 0,
                                     inbox.kept[2 * i].bytes);
        world.ctxs[0]->ops->am_release(world.ctxs[0], inbox.kept[2 * i].data);
    }
    for (int i = 0; i < N; i++) {
        good =
            send(0, (world.rank + 1) % world.size, PLAIN, (size_t)(i * 31 % 9000), (uint64_t)i) &&
            good;
    }
    await(2 * N);
    for (int i = 0; i < N / 2; i++) {
        good = good && world_matches(inbox.kept[2 * i + 1].data, inbox.kept[2 * i + 1].seed, 0,
                                     inbox.kept[2 * i + 1].bytes);
        world.ctxs[0]->ops->am_release(world.ctxs[0], inbox.kept[2 * i + 1].data);
    }
    spmd_ok(good && is_clean(), "%d kept messages do not change while others arrive", N);
    inbox.n_kept = 1;
    inbox.kept[0].data = world.heap;
    spmd_ok(!world_matches(world.heap, 12345, 0, 64), "the comparison can fail");
}

/* Answers sent while others send: ping from everyone to everyone. */
static void answers(void)
{
    enum { N = 200 };
    bool good = true;
    uint64_t all = (uint64_t)N * (uint64_t)world.size;
    inbox.n_pongs = 0;
    inbox.n_pings_waiting = 0;
    begin();
    int n_answered = 0;
    for (int i = 0; i < N; i++) {
        for (int peer = 0; peer < world.size; peer++) {
            good = send(1, peer, PING, 8, (uint64_t)i) && good;
            while (n_answered < inbox.n_pings_waiting)
                good = send(0, (int)inbox.pings[n_answered++ % PINGS_MAX], PONG, 24, 5) && good;
        }
    }
    while (inbox.n_pongs < all || (uint64_t)n_answered < all) {
        while (n_answered < inbox.n_pings_waiting)
            good = send(0, (int)inbox.pings[n_answered++ % PINGS_MAX], PONG, 24, 5) && good;
        world_progress();
    }
    spmd_ok(good && inbox.n_pongs == all && is_clean(), "%d answers from each rank to each", N);
    world_barrier();
}

static void limits(void)
{
    static unsigned char data[DATA_MAX * 2];
    header_t header = { PLAIN, (uint32_t)world.rank, 0, 0, 0 };
    int peer = (world.rank + 1) % world.size;
    begin();
    bool good = world_am(0, peer, data, PGASI_TP_AM_HEADER_MAX + 1, data, 8) == PGAS_ERR_LIMIT;
    spmd_ok(good && inbox.n_arrived == 0, "a header that is too long is refused");
    good = world_am(0, peer, &header, sizeof header, data, sizeof data) == PGAS_OK;
    good = send(0, peer, PLAIN, 100, 1) && good;
    await(1);
    spmd_ok(good && inbox.n_arrived == 1 && is_clean(),
            "data beyond the receiver's limit is dropped, the next arrives");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SINGLE);
    spmd_plan(12);
    world_open(&(world_opts_t){ .am_fn = on_am, .am_data_max = DATA_MAX });
    spmd_diag("%s", world.attr.detail);
    sizes();
    order();
    no_completion();
    keeping();
    answers();
    limits();
    world_close();
    spmd_diag("with the longer headers that many ranks need");
    memset(&inbox, 0, sizeof inbox);
    memset(next_number, 0, sizeof next_number);
    world_open(&(world_opts_t){ .am_fn = on_am, .am_data_max = DATA_MAX, .job_ranks = 1 << 18 });
    order();
    keeping();
    world_close();
    return spmd_end();
}
