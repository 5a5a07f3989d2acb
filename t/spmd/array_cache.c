/* The cache of an array.
 *   what:   No line is evicted while at least 30 % of the lines are free. With the first one less,
 *           lines are evicted until 50 % are free. The eviction skips a line once if it was used
 *           since the last visit. A walk with prefetch waits for few chunks, and requests chunks in
 *           fewer messages than a walk without. The home that walks through its own chunks, which
 *           another rank has, requests them in few messages, too. Chunks that are evicted together
 *           are given back in one message, if it has no contents. Applies to many elements beyond
 *           the cache travel together, and one reply completes them. Chunks that are recalled
 *           seldom are used without a lock, however often that happens. Threads that read a chunk,
 *           or pin it, without a pause do not keep its home from writing.
 *   np:     2 3
 *   nodes:  1
 *   tls:    posix tcp,self
 *   env:    PGAS_FAR_CALLS=auto | PGAS_FAR_CALLS=put PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic |
 *   env:    PGAS_FAR_CALLS=message
 *   source: pgas/array.h; "DArray: A High Performance RDMA-Based Distributed Array", section 4.2
 */
#include "base/clock.h"
#include "base/param.h"
#include "mem/ctx.h"
#include "t/spmd/array_crew.h"

#define CHUNK    512
#define LINES    100
#define N_CHUNKS 300 /* of each rank */
#define N_ELEMS  ((uint64_t)N_CHUNKS * CHUNK)
#define LOW      30
#define HIGH     50
#define GUARD_S  30 /* after this time a loop that should have ended counts as a fault */

static uint64_t far_first; /* of the next rank's elements */

static pgas_array_t *make(int prefetch)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    pgas_array_t *array = NULL;
    uint64_t n = 0;
    opts.chunk_elems = CHUNK;
    opts.cache_bytes = LINES * CHUNK * sizeof(uint64_t);
    opts.prefetch = prefetch;
    BAD(pgas_array_create(NULL, 8, N_ELEMS * (uint64_t)n_ranks, &opts, &array));
    BAD(pgas_array_range(array, (me + 1) % n_ranks, &far_first, &n));
    return array;
}

/* A pin fetches the chunk at once, also if it is used seldom. */
static void use(pgas_array_t *array, uint64_t chunk)
{
    pgas_array_pin_t pin;
    if (!BAD(pgas_array_pin(array, far_first + chunk * CHUNK, PGAS_ARRAY_READ, 0, &pin)))
        BAD(pgas_array_unpin(&pin));
}

static void use_chunks(pgas_array_t *array, uint64_t from, uint64_t to)
{
    for (uint64_t chunk = from; chunk < to; chunk++)
        use(array, chunk);
}

/* Evicted lines become free when all threads have left them. */
static void await_free(pgas_array_t *array, uint64_t n)
{
    uint64_t end = pgasi_now_ns() + GUARD_S * PGASI_NS_PER_S;
    while (crew_info(array).n_free != n && pgasi_now_ns() < end)
        crew_serve();
    crew_judge(crew_info(array).n_free == n, "the number of free lines");
}

static void evictions_are(const pgas_array_t *array, uint64_t n)
{
    uint64_t is = crew_info(array).evictions;
    if (!crew_judge(is == n, "the number of evictions"))
        printf("# rank %d: %d evictions, not %d\n", me, (int)is, (int)n);
}

static void watermarks(void)
{
    pgas_array_t *array = make(-1);
    crew_judge(crew_info(array).n_lines == LINES, "the number of lines");
    use_chunks(array, 0, LINES - LOW);
    await_free(array, LOW);
    evictions_are(array, 0);
    uint64_t next = LINES - LOW;
    for (uint64_t turn = 1; turn <= 3; turn++) {
        use(array, next++);
        await_free(array, HIGH);
        evictions_are(array, turn * (HIGH - LOW + 1));
        use_chunks(array, next, next + HIGH - LOW);
        next += HIGH - LOW;
        await_free(array, LOW);
        evictions_are(array, turn * (HIGH - LOW + 1));
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "lines are evicted below 30 %% free, until 50 %% are");
}

static uint64_t fetches_of(pgas_array_t *array, uint64_t from, uint64_t to)
{
    uint64_t before = crew_info(array).fetches, value = 0;
    for (uint64_t chunk = to; chunk-- > from;)
        BAD(pgas_array_get_u64(array, far_first + chunk * CHUNK, &value));
    pgas_array_info_t info = crew_info(array);
    return info.fetches - before;
}

/* All lines count as used at the first visit, so the second one evicts in the order of the lines.
 * Then half of the next candidates are used again. */
static void second_chance(void)
{
    enum { GONE = HIGH - LOW + 1, USED = 10 };
    pgas_array_t *array = make(-1);
    use_chunks(array, 0, LINES - LOW + 1);
    await_free(array, HIGH);
    uint64_t again = fetches_of(array, GONE, GONE + USED);
    crew_judge(again == 0, "the lines behind those that were evicted");
    use_chunks(array, LINES - LOW + 1, LINES - LOW + 1 + GONE);
    await_free(array, HIGH);
    again = fetches_of(array, GONE, GONE + USED);
    crew_judge(again == 0, "lines that were used since the last visit stay");
    uint64_t before = crew_info(array).misses, n_later = 0;
    for (uint64_t chunk = GONE + USED; chunk < 2 * GONE + USED; chunk++) {
        use(array, chunk);
        uint64_t misses = crew_info(array).misses;
        n_later += misses != before;
        before = misses;
    }
    crew_judge(n_later == GONE, "lines that were not used since then are evicted");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "a line that is used again stays for another turn");
}

static pgas_array_info_t walk(int prefetch)
{
    pgas_array_t *array = make(prefetch);
    pgas_array_walk_t w;
    uint64_t n = 0;
    pgas_array_walk_begin(array, far_first, N_ELEMS, PGAS_ARRAY_READ, 0, &w);
    while (pgas_array_walk_next(&w))
        n += w.n;
    BAD(pgas_array_walk_end(&w));
    crew_judge(n == N_ELEMS, "all elements");
    BAD(pgas_barrier(NULL)); /* messages for the previous rank are counted, too, in both walks */
    pgas_array_info_t info = crew_info(array);
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    return info;
}

static void prefetch(void)
{
    pgas_array_info_t without = walk(-1), with = walk(0);
    bool good = without.fetches == N_CHUNKS && without.prefetches == 0 &&
                with.fetches + with.prefetches >= N_CHUNKS && 10 * with.fetches <= N_CHUNKS &&
                with.messages + N_CHUNKS / 2 <= without.messages;
    crew_judge(good, "chunks and messages of a walk");
    printf("# rank %d: %d fetches and %d messages without prefetch, %d and %d with it\n", me,
           (int)without.fetches, (int)without.messages, (int)with.fetches, (int)with.messages);
    spmd_is_int(crew_faults(), 0, "a walk with prefetch waits for few chunks");
}

/* Rank 0 has the last rank's chunks, to write or to combine. Then their home walks through them. */
static void walk_at_home(pgas_array_mode_t theirs, pgas_array_mode_t mine, int prefetch)
{
    pgas_op_t add = PGAS_OP(PGAS_ADD, PGAS_U64);
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    pgas_array_t *array = NULL;
    pgas_array_walk_t w;
    uint64_t first = 0, n = 0, n_wrong = 0;
    opts.prefetch = prefetch;
    BAD(pgas_array_create(NULL, 8, N_ELEMS * (uint64_t)n_ranks, &opts, &array));
    BAD(pgas_array_range(array, n_ranks - 1, &first, &n));
    if (me == 0) {
        pgas_array_walk_begin(array, first, n, theirs, theirs == PGAS_ARRAY_OPERATE ? add : 0, &w);
        while (pgas_array_walk_next(&w))
            for (uint64_t k = 0; k < w.n; k++)
                ((uint64_t *)w.data)[k] = w.first + k;
        BAD(pgas_array_walk_end(&w));
    }
    BAD(pgas_barrier(NULL));
    uint64_t before = crew_info(array).messages;
    if (me == n_ranks - 1) {
        pgas_array_walk_begin(array, first, n, mine, 0, &w);
        while (pgas_array_walk_next(&w))
            for (uint64_t k = 0; k < w.n; k++)
                n_wrong += ((uint64_t *)w.data)[k] != w.first + k;
        BAD(pgas_array_walk_end(&w));
    }
    /* an acknowledgement of each chunk; the request of each, or of many together */
    uint64_t n_messages = crew_info(array).messages - before;
    crew_judge(n_wrong == 0, "what the other rank wrote");
    if (me == n_ranks - 1 &&
        !crew_judge(prefetch < 0 ? n_messages >= 2 * N_CHUNKS : 4 * n_messages < 5 * N_CHUNKS,
                    "messages of the home"))
        printf("# rank %d: %d messages\n", me, (int)n_messages);
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
}

static void walks_at_home(void)
{
    walk_at_home(PGAS_ARRAY_WRITE, PGAS_ARRAY_WRITE, -1);
    walk_at_home(PGAS_ARRAY_WRITE, PGAS_ARRAY_WRITE, 0);
    walk_at_home(PGAS_ARRAY_WRITE, PGAS_ARRAY_READ, 0);
    walk_at_home(PGAS_ARRAY_OPERATE, PGAS_ARRAY_READ, 0);
    walk_at_home(PGAS_ARRAY_OPERATE, PGAS_ARRAY_WRITE, 0);
    spmd_is_int(crew_faults(), 0, "a walk of the home recalls chunks ahead");
}

/* Ranks use a chunk in turn. Each has it longer than a recall costs. */
static void seldom_recalled(void)
{
    enum { TURNS = 12, USES = 100 };
    pgas_array_t *array = make(0);
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        for (uint64_t k = 0; k < USES && turn % 2 == (uint64_t)me; k++)
            BAD(pgas_array_set_u64(array, k, turn * USES + k));
        for (uint64_t end = pgasi_now_ns() + 2 * PGASI_NS_PER_MS; pgasi_now_ns() < end;)
            crew_serve();
        BAD(pgas_barrier(NULL));
    }
    /* the access that waits for the chunk takes the lock */
    crew_judge(crew_info(array).guarded <= TURNS, "accesses under the lock");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "a chunk that is recalled seldom is used without a lock");
}

/* Every rank changes the next one's elements, many times its cache. */
static void changes_of_many(pgas_array_mode_t mode)
{
    pgas_op_t op = mode == PGAS_ARRAY_OPERATE ? PGAS_OP(PGAS_ADD, PGAS_U64) : 0;
    pgas_array_t *array = make(0);
    pgas_array_walk_t w;
    for (int lap = 0; lap < 2; lap++) { /* the first one makes channels */
        pgas_array_info_t before = crew_info(array);
        BAD(pgas_barrier(NULL));
        pgas_array_walk_begin(array, far_first, N_ELEMS, mode, op, &w);
        while (pgas_array_walk_next(&w))
            ((uint64_t *)w.data)[0] += 1;
        BAD(pgas_array_walk_end(&w));
        BAD(pgas_barrier(NULL));
        uint64_t n = crew_info(array).messages - before.messages;
        bool maps = pgasi_ctxs[PGASI_CTX_SERVICE]->peer[(me + 1) % n_ranks].heap_bytes != 0;
        bool puts = pgasi_param.far_calls == PGASI_FAR_CALLS_PUT && mode == PGAS_ARRAY_WRITE;
        if (lap > 0 && (maps || puts) && !crew_judge(n < N_CHUNKS, "messages of the walk"))
            printf("# rank %d: %d messages\n", me, (int)n);
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
}

static void changes(void)
{
    changes_of_many(PGAS_ARRAY_WRITE);
    changes_of_many(PGAS_ARRAY_OPERATE);
    spmd_is_int(crew_faults(), 0, "answers of chunks that are evicted together travel together");
}

/* Every rank adds to elements of the next one at random, many times its cache. pins: every rank has
 * pinned one of its own chunks, and the applies to it wait for that. */
static void applies_of_many(bool pins)
{
    enum { N = 5000 };
    static uint64_t index[N], ones[N];
    pgas_op_t add = PGAS_OP(PGAS_ADD, PGAS_U64);
    pgas_array_t *array = make(0);
    pgas_array_pin_t pin = { .grant = NULL };
    pgasi_rng_t rng;
    uint64_t sum = 0, own = 0, n = 0;
    pgasi_rng_seed(&rng, 7 + (uint64_t)me);
    for (int k = 0; k < N; k++) {
        index[k] = far_first + pgasi_rng_below(&rng, N_ELEMS);
        ones[k] = 1 + (uint64_t)k % 3;
    }
    BAD(pgas_array_range(array, -1, &own, &n));
    if (pins)
        BAD(pgas_array_pin(array, own, PGAS_ARRAY_WRITE, 0, &pin));
    pgas_array_info_t before = crew_info(array);
    BAD(pgas_barrier(NULL));
    if (pins) { /* it ends while others wait */
        for (uint64_t end = pgasi_now_ns() + 5 * PGASI_NS_PER_MS * (uint64_t)(1 + me);
             pgasi_now_ns() < end;)
            crew_serve();
        BAD(pgas_array_unpin(&pin));
    }
    BAD(pgas_array_update_many(array, index, N, add, ones));
    BAD(pgas_barrier(NULL));
    uint64_t n_messages = crew_info(array).messages - before.messages;
    if (!crew_judge(20 * n_messages < N, "messages of applies"))
        printf("# rank %d: %d messages\n", me, (int)n_messages);
    for (uint64_t i = own, value = 0; i < own + n; i++)
        sum += BAD(pgas_array_get_u64(array, i, &value)) ? 0 : value;
    crew_judge(sum == (uint64_t)N * 2 - 1, "the sum of the applies");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
}

static void applies(void)
{
    applies_of_many(false);
    applies_of_many(true);
    spmd_is_int(crew_faults(), 0, "applies to many elements beyond the cache travel together");
}

/* ---- readers without a pause ---- */

#define N_RECALLS  200
#define LAST_VALUE UINT64_MAX

typedef struct {
    pgas_array_t *array;
    bool pins;
} readers_t;

static uint64_t read_one(const readers_t *r, uint64_t i)
{
    uint64_t value = 0;
    pgas_array_pin_t pin;
    if (!r->pins)
        BAD(pgas_array_get_u64(r->array, i, &value));
    else if (!BAD(pgas_array_pin(r->array, i, PGAS_ARRAY_READ, 0, &pin))) {
        value = *(const volatile uint64_t *)pin.data;
        BAD(pgas_array_unpin(&pin));
    }
    return value;
}

/* Rank 0 writes an element of its own, until other ranks have fetched its chunk again N_RECALLS
 * times. All other threads read it until they have seen the last value. */
static void read_without_pause(int number, void *arg)
{
    const readers_t *r = arg;
    uint64_t end = pgasi_now_ns() + GUARD_S * PGASI_NS_PER_S, seen = 0, last = 0;
    if (me == 0 && number == 0) {
        for (uint64_t k = 1; crew_info(r->array).recalls < N_RECALLS && pgasi_now_ns() < end; k++)
            BAD(pgas_array_set_u64(r->array, 0, k));
        BAD(pgas_array_set_u64(r->array, 0, LAST_VALUE));
        crew_judge(pgasi_now_ns() < end, "writes, in time");
        return;
    }
    while (seen < LAST_VALUE && pgasi_now_ns() < end) {
        seen = read_one(r, 0);
        crew_judge(seen >= last, "values increase");
        last = seen;
    }
    crew_judge(seen == LAST_VALUE, "the last value, in time");
}

static void recall(bool pins)
{
    readers_t r = { .array = make(0), .pins = pins };
    crew_run(2, read_without_pause, &r);
    if (n_ranks == 2 && me > 0)
        crew_judge(crew_info(r.array).recalls >= N_RECALLS / 2, "the chunk is given back");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(r.array));
    spmd_is_int(crew_faults(), 0, "%s without a pause do not keep the home from writing",
                pins ? "pins" : "reads");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 9);
    watermarks();
    second_chance();
    prefetch();
    changes();
    applies();
    walks_at_home();
    seldom_recalled();
    recall(false);
    recall(true);
    return job_end();
}
