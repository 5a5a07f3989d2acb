/* Ranks of a node that combine into each other's chunks often.
 *   what:   A rank that applies to a chunk of another rank of its node again and again gets a cache
 *           line for its contributions, and gives it back as soon as a thread reads. Each
 *           contribution is applied once. A thread sees its own applies. Pins, other operators,
 *           writes and applies of several threads go on beside that. An apply inside a pin of the
 *           same thread never waits.
 *   np:     2 3 4 6
 *   nodes:  0 0 2 3
 *   env:    | PGAS_SERVICE_THREADS=0 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K |
 *   env:    PGAS_FAULT=delay=5,reorder=5,again=2
 *   source: pgas/array.h, src/array/join.h */
#include "array/audit.h"
#include "array/join.h"
#include "t/spmd/array_crew.h"

#define CHUNK 512
#define EACH  3 /* chunks of each rank */

#define CREW_RANKS_MAX 8

static uint64_t n_elems;
static uint64_t seed;
static pgasi_rng_t rng; /* of the first thread */

/* The next apply that other ranks may make at the same time counts for its chunk. */
static void count_soon(void)
{
    pgas_array_path.sample = 1;
}

static void apply(pgas_array_t *array, uint64_t i, uint64_t operand)
{
    count_soon();
    BAD(pgas_array_apply_u64(array, i, PGAS_ADD, operand));
}

static pgas_array_t *make(void)
{
    n_elems = (uint64_t)pgas_n_ranks() * EACH * CHUNK;
    return crew_array(8, n_elems, CHUNK, 64, NULL);
}

static uint64_t n_held(const pgas_array_t *array)
{
    pgas_array_info_t info = crew_info(array);
    return info.n_lines - info.n_free;
}

static uint64_t sum_of(pgas_array_t *array)
{
    uint64_t sum = 0, value = 0;
    for (uint64_t i = 0; i < n_elems; i++) {
        BAD(pgas_array_get_u64(array, i, &value));
        sum += value;
    }
    return sum;
}

static void end(pgas_array_t *array, const char *what)
{
    uint64_t n_wrong = 0;
    BAD(pgasi_array_audit(array, &n_wrong));
    crew_judge(n_wrong == 0, "home and caches agree");
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "%s", what);
}

static void joins(void)
{
    pgas_array_t *array = make();
    uint64_t mine = 0, all = 0, sum;
    for (uint64_t i = 0; i < 2 * n_elems; i++, mine++) /* no rank owns a chunk alone */
        apply(array, i % n_elems, 1);
    BAD(pgas_barrier(NULL));
    for (uint64_t k = 0; k < 200 * EACH * (uint64_t)pgas_n_ranks(); k++, mine++)
        apply(array, pgasi_rng_below(&rng, n_elems), 1);
    bool near = pgas_node_size() > 1 && pgasi_array_of(array)->n_near_max;
    crew_judge(!near || n_held(array), "this rank has lines");
    for (uint64_t k = 0; k < 20000; k++, mine++)
        BAD(pgas_array_apply_u64(array, pgasi_rng_below(&rng, n_elems), PGAS_ADD, 1));
    BAD(pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD));
    sum = sum_of(array);
    crew_judge(sum == all, "every rank reads the sum of all applies");
    end(array, "a rank joins a chunk's operators, and reads end that");
}

/* Every thread has elements of its own in all chunks, and sees there what it has done. In between
 * it adds to elements of all. */
static struct {
    pgas_array_t *array;
    uint64_t added[CREW_THREADS_MAX];
} shared;

static uint64_t own_element(uint64_t at, int number)
{
    uint64_t who = (uint64_t)(pgas_rank() * CREW_THREADS_MAX + number);
    return at / CHUNK * CHUNK + who;
}

static void one_step(pgas_array_t *array, pgasi_rng_t *own, int number, uint64_t *expected)
{
    uint64_t all = pgasi_rng_below(own, n_elems) | (CHUNK / 2), value = 0,
             mine = own_element(all, number), chunk = mine / CHUNK;
    for (int k = 0; k < 20; k++) {
        apply(array, all, 1);
        shared.added[number]++;
        apply(array, mine, 3);
        expected[chunk] += 3;
    }
    switch (pgasi_rng_below(own, 8)) {
    case 0:
        BAD(pgas_array_get_u64(array, mine, &value));
        crew_judge(value == expected[chunk], "a thread sees its own applies");
        break;
    case 1:
        BAD(pgas_array_set_u64(array, mine, 7));
        expected[chunk] = 7;
        break;
    case 2:
        BAD(pgas_array_apply_u64(array, mine, PGAS_MAX, 1000));
        expected[chunk] = expected[chunk] < 1000 ? 1000 : expected[chunk];
        break;
    case 3:
        BAD(pgas_array_fetch_op(array, mine, PGAS_OP(PGAS_ADD, PGAS_U64), &expected[chunk],
                                &value));
        crew_judge(value == expected[chunk], "fetch_op, too");
        expected[chunk] *= 2;
        break;
    default:
        break;
    }
}

static void mixes(int number, void *arg)
{
    enum { STEPS = 300 };
    uint64_t expected[CREW_RANKS_MAX * EACH] = { 0 };
    pgasi_rng_t own;
    (void)arg;
    pgasi_rng_seed(&own, seed + (uint64_t)(pgas_rank() * CREW_THREADS_MAX + number));
    for (int k = 0; k < STEPS; k++)
        one_step(shared.array, &own, number, expected);
    crew_meet(number);
    for (uint64_t chunk = 0; chunk < n_elems / CHUNK; chunk++) {
        uint64_t value = 0;
        BAD(pgas_array_get_u64(shared.array, own_element(chunk * CHUNK, number), &value));
        crew_judge(value == expected[chunk], "own elements at the end");
    }
    crew_meet(number);
}

static void mixed(int n_threads)
{
    uint64_t sum = 0, mine = 0, all = 0, value = 0;
    memset(&shared, 0, sizeof shared);
    shared.array = make();
    crew_run(n_threads, mixes, NULL);
    for (int t = 0; t < n_threads; t++)
        mine += shared.added[t];
    BAD(pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD));
    for (uint64_t i = 0; i < n_elems; i++) {
        BAD(pgas_array_get_u64(shared.array, i, &value));
        sum += i % CHUNK >= CHUNK / 2 ? value : 0;
    }
    crew_judge(sum == all, "the sum of all applies");
    end(shared.array, n_threads > 1 ? "several threads mix accesses" : "ranks mix accesses");
}

/* A thread applies inside its own pins, on the element that it owns. */
static void pins(void)
{
    pgas_array_t *array = make();
    uint64_t expected = 0, value = 0, mine = 0, all = 0;
    int next = (pgas_rank() + 1) % pgas_n_ranks();
    uint64_t first = (uint64_t)next * EACH * CHUNK, own = first + (uint64_t)pgas_rank();
    for (int round = 0; round < 20; round++) {
        pgas_array_pin_t pin;
        pgas_array_mode_t mode = round % 2 ? PGAS_ARRAY_WRITE : PGAS_ARRAY_OPERATE;
        pgas_op_t op = mode == PGAS_ARRAY_OPERATE ? PGAS_OP(PGAS_ADD, PGAS_U64) : 0;
        for (int k = 0; k < 40; k++, mine++)
            apply(array, first + CHUNK / 2 + pgasi_rng_below(&rng, CHUNK / 2), 1);
        if (BAD(pgas_array_pin(array, first, mode, op, &pin)))
            continue;
        ((uint64_t *)pin.data)[own - pin.first] += 5;
        for (int k = 0; k < 80; k++)
            apply(array, own, 1);
        expected += 85;
        BAD(pgas_array_unpin(&pin));
    }
    BAD(pgas_array_get_u64(array, own, &value));
    crew_judge(value == expected, "inside pins nothing is lost");
    mine += expected;
    BAD(pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD));
    value = sum_of(array);
    crew_judge(value == all, "the sum of all applies");
    end(array, "applies inside and beside pins");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 4);
    seed = spmd_seed(1);
    pgasi_rng_seed(&rng, seed + 1000 + (uint64_t)pgas_rank());
    joins();
    mixed(1);
    mixed(3);
    pins();
    return job_end();
}
