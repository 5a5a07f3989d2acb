/* Runs: chunks that a walk for reading has requested together.
 *   what:   A walk pins only its current chunk, although sixteen of them are one unit in the cache:
 *           another rank writes the next one while the walk is in a run, and so does the walk's
 *           own thread. It may not write its current chunk. An element of a run is read with and
 *           without waiting. Another thread cannot continue a walk. The array is busy while a walk
 *           is in it. When lines are few, accesses get those of a run that a walk is in. A walk
 *           through chunks that the last one has left finds them. Threads of all ranks walk, pin,
 *           get, load and apply at random: values never go back, and nothing is lost. A plain
 *           handler reads chunks of a run. A thread finds its pin while another one splits the run.
 *           A walk requests each chunk once.
 *   np:     2 3
 *   nodes:  1
 *   tls:    posix tcp,self tcp,self posix
 *   env:    PGAS_FAR_CALLS=auto | PGAS_FAR_CALLS=put PGAS_TRANSPORT=verbs PGAS_VERBS_DEVICE=snic |
 *   env:    PGAS_FAR_CALLS=message PGAS_FAULT=delay=5,reorder=5,again=2 |
 *   env:    PGAS_SERVICE_THREADS=0
 *   log:    pgas_array_destroy: the chunk of element [0-9]+ is pinned
 *   source: pgas/array.h; src/array/runs.h
 */
#include "base/checks.h"
#include "base/clock.h"
#include "t/spmd/array_crew.h"

#define CHUNK    64
#define LINES    80
#define N_CHUNKS 120 /* of each rank */
#define N_ELEMS  ((uint64_t)N_CHUNKS * CHUNK)
#define N_OPS    400 /* of each thread */
#define THREADS  3

static uint64_t far_first; /* of the next rank's elements */

static pgas_array_t *make(size_t lines)
{
    uint64_t n;
    pgas_array_t *array = crew_array(8, N_ELEMS * (uint64_t)n_ranks, CHUNK, lines, NULL);
    BAD(pgas_array_range(array, (me + 1) % n_ranks, &far_first, &n));
    return array;
}

static void destroy(pgas_array_t *array)
{
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
}

static void begin(pgas_array_t *array, pgas_array_walk_t *w)
{
    BAD(pgas_array_walk_begin(array, far_first, N_ELEMS, PGAS_ARRAY_READ, 0, w));
}

static uint64_t first_word(const pgas_array_walk_t *w)
{
    return *(const uint64_t *)w->data;
}

/* In each chunk of its walk the thread writes the next one. In the fifth, all ranks meet after each
 * rank has written to the chunk behind the next one of the walk that the rank before it makes. */
static void others_write(void)
{
    pgas_array_t *array = make(LINES);
    pgas_array_walk_t w;
    uint64_t chunk = 0, value = 0, own_first = (uint64_t)me * N_ELEMS;
    for (begin(array, &w); pgas_array_walk_next(&w); chunk++) {
        uint64_t next = w.first + CHUNK, behind = own_first + (chunk + 2) * CHUNK;
        uint64_t want = chunk == 6 ? 99 : chunk;
        crew_judge(first_word(&w) == want, "the first element of a chunk");
        crew_judge(!BAD(pgas_array_get_u64(array, w.first, &value)) && value == want, "get");
        if (chunk == 0)
            GAVE(pgas_array_set_u64(array, w.first, 1), PGAS_ERR_DEADLOCK);
        if (w.next < w.end)
            BAD(pgas_array_set_u64(array, next, chunk == 5 ? 99 : chunk + 1));
        if (chunk == 4) {
            BAD(pgas_array_set_u64(array, behind, 99));
            BAD(pgas_barrier(NULL));
            crew_judge(!BAD(pgas_array_get_u64(array, w.first + 2 * CHUNK, &value)) && value == 99,
                       "what another rank wrote");
        }
    }
    BAD(pgas_array_walk_end(&w));
    crew_judge(chunk == N_CHUNKS, "all chunks");
    destroy(array);
    spmd_is_int(crew_faults(), 0, "a walk in a run keeps only its current chunk");
}

static void elements(void)
{
    pgas_array_t *array = make(LINES);
    pgas_array_walk_t w;
    uint64_t value = 1, n = 0;
    begin(array, &w);
    while (n < 20 && pgas_array_walk_next(&w))
        n++;
    /* the walk is in the second run; chunks of the first one may be in the cache */
    BAD(pgas_array_try_get(array, w.first, &value));
    crew_judge(value == 0, "try_get in the current chunk");
    BAD(pgas_array_try_get(array, w.first + CHUNK, &value));
    BAD(pgas_array_get(array, w.first + CHUNK, &value));
    BAD(pgas_array_try_get(array, w.first + 2 * CHUNK, &value));
    BAD(pgas_barrier(NULL));
    GAVE(pgas_array_destroy(array), PGAS_ERR_BUSY);
    while (pgas_array_walk_next(&w))
        n++;
    crew_judge(n == N_CHUNKS, "all chunks");
    BAD(pgas_array_walk_end(&w));
    destroy(array);
    spmd_is_int(crew_faults(), 0, "elements of a run; no array is destroyed under a walk");
}

/* The cache has no line left when all are pinned but those of the run. */
static void lines_of_a_run(void)
{
    pgas_array_t *array = make(LINES);
    pgas_array_pin_t pin[LINES - 8];
    pgas_array_walk_t w;
    uint64_t end = far_first + N_ELEMS;
    BAD(pgas_array_walk_begin(array, far_first, 16 * CHUNK, PGAS_ARRAY_READ, 0, &w));
    crew_judge(pgas_array_walk_next(&w), "the first chunk");
    for (uint64_t j = 0; j < LINES - 8; j++)
        BAD(pgas_array_pin(array, end - (j + 1) * CHUNK, PGAS_ARRAY_READ, 0, &pin[j]));
    for (uint64_t j = 0; j < LINES - 8; j++)
        BAD(pgas_array_unpin(&pin[j]));
    uint64_t n = 1;
    while (pgas_array_walk_next(&w))
        n++;
    crew_judge(n == 16, "the rest of the walk");
    BAD(pgas_array_walk_end(&w));
    destroy(array);
    spmd_is_int(crew_faults(), 0, "pins get the lines of a run that a walk is in");
}

/* Lines are given back in one order and taken in the other. So the line of a run's first chunk is
 * the last one of the run that the eviction looks at, or the first one. */
static void lines_in_any_order(void)
{
    pgas_array_t *array = make(LINES);
    pgas_array_pin_t pin[LINES];
    pgas_array_walk_t w;
    uint64_t end = far_first + N_ELEMS;
    for (uint64_t lap = 0; lap < 40; lap++) {
        uint64_t n_pins = LINES - 16 + lap % 15;
        BAD(pgas_array_walk_begin(array, far_first + lap % 4 * 16 * CHUNK, 16 * CHUNK,
                                  PGAS_ARRAY_READ, 0, &w));
        crew_judge(pgas_array_walk_next(&w), "the first chunk");
        for (uint64_t j = 0; j < n_pins; j++) { /* the last chunks, then those behind the run */
            uint64_t i = j < 50 ? end - (j + 1) * CHUNK : w.first + (j - 49 + 16) * CHUNK;
            BAD(pgas_array_pin(array, i, PGAS_ARRAY_READ, 0, &pin[j]));
        }
        for (uint64_t j = 0; j < n_pins; j++)
            BAD(pgas_array_unpin(&pin[lap % 2 ? j : n_pins - 1 - j]));
        BAD(pgas_array_walk_end(&w));
    }
    destroy(array);
    spmd_is_int(crew_faults(), 0, "pins get these lines in whatever order they are");
}

/* The second walk is through the part that the first one has just left, which the cache holds. */
static void again(void)
{
    pgas_array_t *array = make(2 * N_CHUNKS);
    pgas_array_walk_t w;
    pgas_array_info_t info[2];
    for (int lap = 0; lap < 2; lap++) {
        uint64_t n = 0;
        for (begin(array, &w); pgas_array_walk_next(&w);)
            n += w.n;
        BAD(pgas_array_walk_end(&w));
        crew_judge(n == N_ELEMS, "all elements");
        info[lap] = crew_info(array);
    }
    spmd_diag("prefetches %d, %d; fetches %d, %d; misses %d, %d", (int)info[0].prefetches,
              (int)info[1].prefetches, (int)info[0].fetches, (int)info[1].fetches,
              (int)info[0].misses, (int)info[1].misses);
    crew_judge(info[0].prefetches == N_CHUNKS && info[0].fetches == 0, "all chunks in runs");
    crew_judge(info[1].prefetches == N_CHUNKS && info[1].misses == info[0].misses, "no miss");
    destroy(array);
    spmd_is_int(crew_faults(), 0, "a walk finds the runs of the last one");
}

static struct {
    pgas_array_t *array;
    pgas_array_walk_t walk; /* of thread 0 */
    uint64_t n, *seen[THREADS], applied;
} all;

/* The cache has room for four runs, and keeps half of its lines free. */
static void few_lines(void)
{
    pgas_array_t *array = make(4 * 16);
    pgas_array_walk_t w;
    for (begin(array, &w); pgas_array_walk_next(&w);)
        crew_serve();
    BAD(pgas_array_walk_end(&w));
    pgas_array_info_t info = crew_info(array);
    spmd_diag("prefetches %d; fetches %d", (int)info.prefetches, (int)info.fetches);
    crew_judge(info.prefetches == N_CHUNKS && info.fetches == 0, "no chunk is requested twice");
    destroy(array);
    spmd_is_int(crew_faults(), 0, "a walk does not evict what it has requested");
}

/* ---- in a handler ---- */

static pgas_handler_t reads;
static int n_read;

static void on_reads(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t value = 1, first = far_first + 2 * CHUNK;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    crew_judge(!BAD(pgas_array_get(all.array, first, &value)) && value == 0, "get");
    crew_judge(!BAD(pgas_array_try_get(all.array, first + CHUNK, &value)) && value == 0, "try_get");
    GAVE(pgas_array_set(all.array, first, &value), PGAS_ERR_CONTEXT);
    __atomic_add_fetch(&n_read, 1, __ATOMIC_RELEASE);
}

/* A handler runs on a thread that has the receive lock already. */
static void in_a_handler(void)
{
    pgas_array_walk_t w;
    all.array = make(LINES);
    begin(all.array, &w);
    crew_judge(pgas_array_walk_next(&w), "the first chunk");
    BAD(pgas_barrier(NULL));
    BAD(pgas_call((me + 1) % n_ranks, reads, NULL, 0, NULL));
    while (__atomic_load_n(&n_read, __ATOMIC_ACQUIRE) == 0)
        crew_serve();
    BAD(pgas_array_walk_end(&w));
    destroy(all.array);
    spmd_is_int(crew_faults(), 0, "a plain handler reads chunks of a run");
}

/* ---- a run is split under a walk ---- */

static uint64_t turn; /* the element of thread 0's piece, + 1 */

static uint64_t await_turn(uint64_t last)
{
    uint64_t now;
    while ((now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) == last)
        crew_serve();
    return now;
}

/* Thread 0 accesses its piece at about the time at which thread 1 splits the run. */
static void split_it(int number, void *arg)
{
    pgas_array_walk_t w;
    pgas_array_pin_t elsewhere;
    pgasi_rng_t rng;
    uint64_t value, now = 0, none = UINT64_MAX;
    (void)arg;
    pgasi_rng_seed(&rng, (uint64_t)me);
    for (int lap = 0; number == 0 && lap < 150; lap++) {
        begin(all.array, &w);
        for (uint64_t n = 0; pgas_array_walk_next(&w); n++) {
            if (n % 16)
                continue;
            /* otherwise the accesses would be a walk, and the set would request the next chunks */
            BAD(pgas_array_pin(all.array, far_first, PGAS_ARRAY_READ, 0, &elsewhere));
            BAD(pgas_array_unpin(&elsewhere));
            __atomic_store_n(&turn, w.first + 1, __ATOMIC_RELEASE);
            for (uint64_t k = pgasi_rng_below(&rng, 400); k > 0; k--)
                pgasi_cpu_relax();
            if (lap % 2)
                BAD(pgas_array_get_u64(all.array, w.first, &value));
            else
                GAVE(pgas_array_set_u64(all.array, w.first, 1), PGAS_ERR_DEADLOCK);
        }
        BAD(pgas_array_walk_end(&w));
    }
    if (number == 0)
        __atomic_store_n(&turn, none, __ATOMIC_RELEASE);
    while (number == 1 && (now = await_turn(now)) != none)
        BAD(pgas_array_get_u64(all.array, now - 1 + CHUNK, &value));
}

static void split_meanwhile(void)
{
    all.array = make(LINES);
    crew_run(2, split_it, NULL);
    destroy(all.array);
    spmd_is_int(crew_faults(), 0, "a thread finds its pin while another one splits the run");
}

/* ---- a run that is under way ---- */

static uint64_t misses_wanted;

/* Thread 0 of the next rank keeps a chunk of the second run of thread 1's walk, until thread 1 has
 * pinned all other lines and waits for one more. */
static void fill_cache(int number, void *arg)
{
    pgas_array_pin_t pin[LINES];
    pgas_array_walk_t w;
    uint64_t n = LINES - 15;
    (void)arg;
    if (number == 0)
        BAD(pgas_array_pin(all.array, ((uint64_t)me * N_CHUNKS + 16) * CHUNK, PGAS_ARRAY_WRITE, 0,
                           &pin[0]));
    crew_meet(number);
    if (number == 0) {
        uint64_t wanted;
        while (!(wanted = __atomic_load_n(&misses_wanted, __ATOMIC_ACQUIRE)) ||
               crew_info(all.array).misses < wanted)
            crew_serve();
        BAD(pgas_barrier(NULL));
        BAD(pgas_array_unpin(&pin[0]));
        return;
    }
    BAD(pgas_array_walk_begin(all.array, far_first, 32 * CHUNK, PGAS_ARRAY_READ, 0, &w));
    crew_judge(pgas_array_walk_next(&w), "the first chunk");
    BAD(pgas_array_walk_end(&w));
    __atomic_store_n(&misses_wanted, crew_info(all.array).misses + n, __ATOMIC_RELEASE);
    for (uint64_t j = 0; j < n; j++)
        BAD(pgas_array_pin(all.array, far_first + N_ELEMS - (j + 1) * CHUNK, PGAS_ARRAY_READ, 0,
                           &pin[j]));
    for (uint64_t j = 0; j < n; j++)
        BAD(pgas_array_unpin(&pin[j]));
}

static void lines_of_one_that_comes(void)
{
    all.array = make(LINES);
    crew_run(2, fill_cache, NULL);
    destroy(all.array);
    spmd_is_int(crew_faults(), 0, "a pin gets a line of a run that arrives while it waits");
}

/* ---- at random ---- */

static void judge_value(int number, uint64_t i, uint64_t value)
{
    crew_judge(value >= all.seen[number][i], "a value goes back");
    all.seen[number][i] = value;
}

static void judge_span(int number, const uint64_t *data, uint64_t first, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++)
        judge_value(number, first + k, __atomic_load_n(&data[k], __ATOMIC_RELAXED));
}

static void add_one(uint64_t i)
{
    if (!BAD(pgas_array_apply_u64(all.array, i, PGAS_ADD, 1)))
        __atomic_add_fetch(&all.applied, 1, __ATOMIC_RELAXED);
}

static void walk_some(int number, pgasi_rng_t *rng)
{
    pgas_array_walk_t w;
    uint64_t first = pgasi_rng_below(rng, all.n), left = all.n - first, value;
    uint64_t n = 1 + pgasi_rng_below(rng, left < 40 * CHUNK ? left : 40 * CHUNK);
    BAD(pgas_array_walk_begin(all.array, first, n, PGAS_ARRAY_READ, 0, &w));
    while (pgas_array_walk_next(&w) && pgasi_rng_below(rng, 30)) {
        judge_span(number, w.data, w.first, w.n);
        uint64_t what = pgasi_rng_below(rng, 20), other = pgasi_rng_below(rng, all.n);
        if (what == 0 && other / CHUNK > w.first / CHUNK) /* no two threads wait for each other */
            add_one(other);
        if (what == 1 && !BAD(pgas_array_get_u64(all.array, w.first, &value)))
            judge_value(number, w.first, value);
    }
    BAD(pgas_array_walk_end(&w));
}

static void act(int number, pgasi_rng_t *rng)
{
    pgas_array_pin_t pin;
    uint64_t i = pgasi_rng_below(rng, all.n), value, some[3 * CHUNK];
    uint64_t n = PGASI_MIN((uint64_t)(3 * CHUNK), all.n - i);
    switch (pgasi_rng_below(rng, 8)) {
    case 0:
        add_one(i);
        break;
    case 1:
        if (!BAD(pgas_array_get_u64(all.array, i, &value)))
            judge_value(number, i, value);
        break;
    case 2:
        if (pgas_array_try_get(all.array, i, &value) == PGAS_OK)
            judge_value(number, i, value);
        break;
    case 3:
        if (BAD(pgas_array_pin(all.array, i, PGAS_ARRAY_READ, 0, &pin)))
            break;
        judge_span(number, pin.data, pin.first, pin.n);
        BAD(pgas_array_unpin(&pin));
        break;
    case 4:
        if (!BAD(pgas_array_load(all.array, i, n, some)))
            judge_span(number, some, i, n);
        break;
    default:
        walk_some(number, rng);
    }
}

static void at_random(int number, void *arg)
{
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, *(uint64_t *)arg + (uint64_t)(me * THREADS + number));
    for (int k = 0; k < N_OPS; k++) {
        act(number, &rng);
        crew_serve();
    }
}

static void all_at_random(void)
{
    uint64_t seed = spmd_seed(20), sum = 0, value = 0, everyone = 0;
    all.array = make(LINES);
    all.n = N_ELEMS * (uint64_t)n_ranks;
    for (int j = 0; j < THREADS; j++)
        all.seen[j] = job_alloc(all.n * sizeof *all.seen[j]);
    crew_run(THREADS, at_random, &seed);
    for (uint64_t i = 0; i < all.n; i++) {
        BAD(pgas_array_get_u64(all.array, i, &value));
        sum += value;
    }
    BAD(pgas_allreduce(NULL, &all.applied, &everyone, 1, PGAS_U64, PGAS_ADD));
    crew_judge(sum == everyone, "the sum of all elements");
    for (int j = 0; j < THREADS; j++)
        free(all.seen[j]);
    destroy(all.array);
    spmd_is_int(crew_faults(), 0, "walks and all other accesses at the same time");
}

/* ---- another thread ---- */

static void continue_it(int number, void *arg)
{
    (void)arg;
    if (number == 0) {
        begin(all.array, &all.walk);
        crew_judge(pgas_array_walk_next(&all.walk), "the first chunk");
    }
    crew_meet(number);
    pgas_array_walk_t copy = all.walk;
    crew_meet(number);
    if (number == 1)
        crew_judge(!pgas_array_walk_next(&copy) && copy.status == PGAS_ERR_INVALID,
                   "another thread continues a walk");
    crew_meet(number);
    if (number == 0) {
        crew_judge(pgas_array_walk_next(&all.walk), "the second chunk");
        BAD(pgas_array_walk_end(&all.walk));
    }
}

static void another_thread(void)
{
    all.array = make(LINES);
    crew_run(2, continue_it, NULL);
    destroy(all.array);
    spmd_is_int(crew_faults(), 0, "a walk is its thread's");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.reads", on_reads, NULL, NULL, &reads);
    job_begin(&argc, &argv, 11);
    others_write();
    elements();
    lines_of_a_run();
    lines_in_any_order();
    again();
    few_lines();
    in_a_handler();
    split_meanwhile();
    lines_of_one_that_comes();
    another_thread();
    all_at_random();
    return job_end();
}
