/* Soak: everything that arrays offer, at once.
 *   what:   Threads of all ranks count by fetch_op and compare_swap, apply several operators, keep
 *           elements of their own between those of others, change pairs under locks, set and read
 *           structures, pin and walk, all in the same chunks and without phases. After each round
 *           no count, contribution or element is lost or doubled. Meanwhile no value decreases, is
 *           torn or belongs to another thread.
 *   np:     2 3 4 7
 *   nodes:  1 1 2 3
 *   tls:    posix posix posix tcp,self
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_ARRAY_ACCESS=open PGAS_LANES=2 |
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=512 PGAS_CHUNKS_MAX=2 PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_ARRAY_ACCESS=guarded
 *   source: pgas/array.h; `make soak` runs it for a minute (ARRAY_SOAK_SECONDS: of one
 *   configuration)
 */
#include "base/clock.h"
#include "t/spmd/array_crew.h"

#define THREADS   3
#define CHUNK     512 /* scalars in smaller chunks are not used by plain instructions */
#define APART     64  /* elements that are used */
#define N_SHARED  8   /* elements of each kind */
#define N_OWN     6   /* elements of each thread */
#define WORDS     5
#define N_STRUCTS 12

enum { COUNTS, SUMS, BITS, MOSTS, PAIRS, N_KINDS };

typedef struct {
    pgasi_rng_t rng;
    int id;
    uint64_t own[N_OWN], seen[N_KINDS * N_SHARED], stamp;
} worker_t;

static int n_all, over, n_rounds;
static pgas_array_t *array, *structs;
static worker_t worker[THREADS];
/* contributions of this rank, of all ranks */
static uint64_t given[N_KINDS * N_SHARED], all_given[N_KINDS * N_SHARED];
static uint64_t n_steps;

/* Elements of one kind are spread: chunks have some of each, and own ones of several threads. */
static uint64_t shared_at(int kind, uint64_t k)
{
    return (k * N_KINDS + (uint64_t)kind) * (uint64_t)(1 + N_OWN * n_all / (N_KINDS * N_SHARED)) *
           APART;
}

static uint64_t n_elems(void)
{
    return shared_at(0, N_SHARED) + (uint64_t)(N_OWN * n_all + 2 * N_KINDS * N_SHARED) * APART;
}

static bool is_shared(uint64_t i)
{
    uint64_t step = shared_at(1, 0);
    return i % step == 0 && i / step < N_KINDS * N_SHARED;
}

/* The remaining elements, in turn. */
static uint64_t own_at(int id, int k)
{
    uint64_t number = (uint64_t)(k * n_all + id), i = 0;
    for (uint64_t n = 0;; i += APART)
        if (!is_shared(i) && n++ == number)
            return i;
}

static void give(int kind, uint64_t k, uint64_t x)
{
    __atomic_fetch_add(&given[kind * N_SHARED + (int)k], x, __ATOMIC_RELAXED);
}

static void look_forward(worker_t *w, int kind, uint64_t k, uint64_t value)
{
    uint64_t *seen = &w->seen[kind * N_SHARED + (int)k];
    crew_judge(value >= *seen, "a count, sum or maximum went back");
    *seen = value;
}

static void count(worker_t *w, uint64_t k)
{
    uint64_t i = shared_at(COUNTS, k), old = 0, expected, one = 1;
    if (pgasi_rng_below(&w->rng, 2)) {
        BAD(pgas_array_fetch_op(array, i, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &old));
    } else {
        BAD(pgas_array_get_u64(array, i, &old));
        do {
            expected = old;
            BAD(pgas_array_compare_swap(array, i, &expected, &(uint64_t){ expected + 1 }, &old));
        } while (old != expected);
    }
    look_forward(w, COUNTS, k, old + 1);
    give(COUNTS, k, 1);
}

static void apply(worker_t *w, uint64_t k)
{
    uint64_t x = pgasi_rng_below(&w->rng, 1000), value = 0;
    switch (pgasi_rng_below(&w->rng, 4)) {
    case 0:
        BAD(pgas_array_apply_u64(array, shared_at(BITS, k), PGAS_XOR, x));
        __atomic_fetch_xor(&given[BITS * N_SHARED + (int)k], x, __ATOMIC_RELAXED);
        return;
    case 1:
        x = w->stamp += (uint64_t)n_all;
        BAD(pgas_array_apply_u64(array, shared_at(MOSTS, k), PGAS_MAX, x));
        w->seen[MOSTS * N_SHARED + k] =
            x > w->seen[MOSTS * N_SHARED + k] ? x : w->seen[MOSTS * N_SHARED + k];
        return;
    case 2:
        BAD(pgas_array_get_u64(array, shared_at(SUMS, k), &value));
        look_forward(w, SUMS, k, value);
        BAD(pgas_array_get_u64(array, shared_at(MOSTS, k), &value));
        look_forward(w, MOSTS, k, value);
        return;
    default:
        for (int n = 0; n < 5; n++)
            BAD(pgas_array_apply_u64(array, shared_at(SUMS, k), PGAS_ADD, x));
        give(SUMS, k, 5 * x);
    }
}

/* Element k of the pairs belongs to k + 1; a lock keeps them equal. */
static void change_pair(worker_t *w, uint64_t k)
{
    uint64_t i = shared_at(PAIRS, k & ~UINT64_C(1)), j = shared_at(PAIRS, k | 1), a = 0, b = 1;
    bool writes = pgasi_rng_below(&w->rng, 2);
    BAD(writes ? pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1)
               : pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
    BAD(pgas_array_get_u64(array, i, &a));
    BAD(pgas_array_get_u64(array, j, &b));
    crew_judge(a == b, "a pair that a lock keeps");
    look_forward(w, PAIRS, k & ~UINT64_C(1), a);
    if (writes) {
        BAD(pgas_array_set_u64(array, j, b + 1));
        BAD(pgas_array_set_u64(array, i, a + 1));
        give(PAIRS, k & ~UINT64_C(1), 1);
        give(PAIRS, k | 1, 1);
    }
    BAD(pgas_array_unlock(array, i));
}

static void use_own(worker_t *w, int k)
{
    uint64_t i = own_at(w->id, k), value = 0, x = pgasi_rng_u64(&w->rng), index[N_OWN],
             values[N_OWN];
    pgas_array_pin_t pin;
    switch (pgasi_rng_below(&w->rng, 6)) {
    case 0:
        BAD(pgas_array_set_u64(array, i, x));
        w->own[k] = x;
        break;
    case 1:
        BAD(pgas_array_compare_swap(array, i, x % 2 ? &w->own[k] : &x, &(uint64_t){ x / 2 },
                                    &value));
        crew_judge(value == w->own[k], "compare_swap's old value");
        w->own[k] = x % 2 || x == w->own[k] ? x / 2 : w->own[k];
        break;
    case 2:
        BAD(pgas_array_apply_u64(array, i, x % 2 ? PGAS_ADD : PGAS_OP(PGAS_XOR, PGAS_U64), x));
        w->own[k] = x % 2 ? w->own[k] + x : w->own[k] ^ x;
        break;
    case 3:
        if (BAD(pgas_array_pin(array, i, PGAS_ARRAY_WRITE, 0, &pin)))
            return;
        crew_judge(((uint64_t *)pin.data)[i - pin.first] == w->own[k], "an own element in a pin");
        ((uint64_t *)pin.data)[i - pin.first] = w->own[k] = x;
        BAD(pgas_array_unpin(&pin));
        break;
    case 4:
        for (int n = 0; n < N_OWN; n++) {
            index[n] = own_at(w->id, n);
            w->own[n] = values[n] = x + (uint64_t)n;
        }
        BAD(pgas_array_set_many(array, index, N_OWN, values));
        break;
    default:
        for (int n = 0; n < N_OWN; n++)
            index[n] = own_at(w->id, n);
        BAD(pgas_array_get_many(array, index, N_OWN, values));
        crew_judge(memcmp(values, w->own, sizeof values) == 0, "own elements");
    }
    BAD(pgas_array_get_u64(array, i, &value));
    crew_judge(value == w->own[k], "an own element");
}

static void use_struct(worker_t *w)
{
    uint64_t words[WORDS], i = pgasi_rng_below(&w->rng, N_STRUCTS), x = pgasi_rng_u64(&w->rng);
    if (x % 3 == 0) {
        for (int n = 0; n < WORDS; n++)
            words[n] = x;
        BAD(pgas_array_set(structs, i, words));
        return;
    }
    memset(words, 1, sizeof words);
    BAD(pgas_array_get(structs, i, words));
    for (int n = 1; n < WORDS; n++)
        crew_judge(words[n] == words[0], "a structure is torn");
}

static void walk(worker_t *w)
{
    pgas_array_walk_t walk;
    uint64_t first = pgasi_rng_below(&w->rng, n_elems()),
             n = pgasi_rng_below(&w->rng, n_elems() - first), at = first;
    BAD(pgas_array_walk_begin(array, first, n, PGAS_ARRAY_READ, 0, &walk));
    while (pgas_array_walk_next(&walk))
        at += walk.n;
    BAD(pgas_array_walk_end(&walk));
    crew_judge(at == first + n, "a walk");
}

static void one_step(worker_t *w)
{
    uint64_t what = pgasi_rng_below(&w->rng, 40), k = pgasi_rng_below(&w->rng, N_SHARED);
    if (what < 6)
        count(w, k);
    else if (what < 18)
        apply(w, k);
    else if (what < 20)
        change_pair(w, k);
    else if (what < 31)
        use_own(w, (int)pgasi_rng_below(&w->rng, N_OWN));
    else if (what < 38)
        use_struct(w);
    else if (what < 39)
        walk(w);
    else
        BAD(pgas_array_prefetch(array, k, n_elems() / 2, PGAS_ARRAY_READ, 0, NULL));
}

/* All is at rest. */
static void compare(void)
{
    uint64_t value = 0, xored[N_KINDS * N_SHARED];
    BAD(pgas_allreduce(NULL, given, all_given, N_KINDS * N_SHARED, PGAS_U64, PGAS_ADD));
    BAD(pgas_allreduce(NULL, given, xored, N_KINDS * N_SHARED, PGAS_U64, PGAS_XOR));
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (uint64_t k = 0; k < N_SHARED && kind != MOSTS; k++) {
            int at = kind * N_SHARED + (int)k;
            BAD(pgas_array_get_u64(array, shared_at(kind, k), &value));
            crew_judge(value == (kind == BITS ? xored[at] : all_given[at]),
                       "what all have brought in");
        }
    }
}

static void soak(int who, void *arg)
{
    worker_t *w = &worker[who];
    uint64_t begun = pgasi_now_ns(), limit = (uint64_t)(*(double *)arg * 1e9);
    while (!over) {
        for (int k = 0; k < 60; k++)
            one_step(w);
        __atomic_fetch_add(&n_steps, 60, __ATOMIC_RELAXED);
        crew_meet(who);
        if (who == 0) {
            compare();
            int32_t mine = pgasi_now_ns() - begun > limit || crew.n_wrong > 0, any = 0;
            BAD(pgas_allreduce(NULL, &mine, &any, 1, PGAS_I32, PGAS_MAX));
            over = any;
            n_rounds++;
        }
        crew_meet(who);
    }
}

int main(int argc, char **argv)
{
    const char *text = getenv("ARRAY_SOAK_SECONDS");
    double seconds = text ? atof(text) : 0.4;
    job_begin(&argc, &argv, 4);
    n_all = n_ranks * THREADS;
    uint64_t seed = spmd_seed(5);
    array = crew_array(8, n_elems(), CHUNK, THREADS, NULL);
    structs = crew_array(WORDS * 8, N_STRUCTS, 2, THREADS, NULL);
    for (int t = 0; t < THREADS; t++) {
        worker[t].id = me * THREADS + t;
        worker[t].stamp = (uint64_t)worker[t].id;
        pgasi_rng_seed(&worker[t].rng, seed + (uint64_t)worker[t].id * 7919);
    }
    crew_run(THREADS, soak, &seconds);
    spmd_diag("%d rounds, %llu steps here", n_rounds, (unsigned long long)n_steps);
    spmd_ok(n_rounds > 0 && n_steps > 0, "rounds with %d threads a rank", THREADS);
    spmd_is_int(crew_faults(), 0, "nothing is lost, doubled, torn, or goes back");
    crew_mute();
    given[0] += me == 0;
    compare();
    spmd_is_int(crew_faults(), 1, "a count that is lost is noticed");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(structs));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "the arrays end");
    return job_end();
}
