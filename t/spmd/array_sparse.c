/* Contributions to cold chunks of arrays.
 *   what:   Applies to elements of a large array, which no thread waits for, are each applied once:
 *           one by one and many in a call, by all threads of all ranks, by several operators,
 *           between reads and writes of the same elements, and while their home has pinned the
 *           chunk. A thread that reads its element sees its own applies. A thread that was informed
 *           of applies, by a barrier or by another element, sees them. Few of them miss, and
 *           messages carry many. A chunk that gets a large part of the applies comes here, and so
 *           do chunks of applies in order. Applies are complete when the array is destroyed.
 *   np:     2 3 4 3
 *   nodes:  1 1 2 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=5,again=2 | PGAS_CALL_MAX=512 |
 *   env:    PGAS_ARRAY_ACCESS=guarded | PGAS_SERVICE_THREADS=0
 *   source: pgas/array.h; the model is a plain array
 */
#include "t/spmd/array_crew.h"

#define CHUNK     512
#define N_CHUNKS  64 /* of each rank */
#define N_EACH    ((uint64_t)N_CHUNKS * CHUNK)
#define THREADS   2
#define LINES     16
#define N_APPLIES 20000 /* of each thread, in a phase */
#define AT_ONCE   100
#define PHASES    3

enum { SUM, BITS, MOST, N_OPS }; /* element i has the operator i % N_OPS */

static pgas_array_t *array;
static uint64_t seed, n_elems;
static bool breaks; /* on purpose: the model misses one operand */

static pgas_op_t op_of(uint64_t i)
{
    static const pgas_op_t ops[] = { PGAS_OP(PGAS_ADD, PGAS_U64), PGAS_OP(PGAS_XOR, PGAS_U64),
                                     PGAS_OP(PGAS_MAX, PGAS_U64) };
    return ops[i / CHUNK % N_OPS];
}

static uint64_t combined(uint64_t i, uint64_t x, uint64_t y)
{
    switch (i / CHUNK % N_OPS) {
    case SUM:
        return x + y;
    case BITS:
        return x ^ y;
    default:
        return x > y ? x : y;
    }
}

/* ---- against a plain array ---- */

/* The applies of a thread of a rank in a phase, which every rank can compute. */
static pgasi_rng_t draws_of(int rank, int thread, int phase)
{
    uint64_t x = seed ^ (uint64_t)((rank * THREADS + thread) * PHASES + phase + 1) << 32;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, pgas_splitmix(&x));
    return rng;
}

typedef struct {
    uint64_t index, operand;
} draw_t;

static draw_t draw(pgasi_rng_t *rng)
{
    uint64_t index = pgasi_rng_below(rng, n_elems);
    return (draw_t){ index, pgasi_rng_below(rng, UINT64_C(1) << 40) };
}

static void apply_many(const draw_t *draws, size_t n, int which)
{
    uint64_t index[AT_ONCE], operand[AT_ONCE];
    size_t some = 0;
    for (size_t k = 0; k < n; k++) {
        if (op_of(draws[k].index) != op_of((uint64_t)which * CHUNK))
            continue;
        index[some] = draws[k].index;
        operand[some++] = draws[k].operand;
    }
    BAD(pgas_array_update_many(array, index, some, op_of((uint64_t)which * CHUNK), operand));
}

static void apply_phase(int number, int phase)
{
    pgasi_rng_t rng = draws_of(me, number, phase);
    draw_t draws[AT_ONCE];
    for (int done = 0; done < N_APPLIES; done += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++)
            draws[k] = draw(&rng);
        if (done / AT_ONCE % 2) {
            for (int which = 0; which < N_OPS; which++)
                apply_many(draws, AT_ONCE, which);
            continue;
        }
        for (int k = 0; k < AT_ONCE; k++)
            BAD(pgas_array_apply(array, draws[k].index, op_of(draws[k].index), &draws[k].operand));
        if (done % (AT_ONCE * 16) == 0) { /* a read between them recalls a chunk */
            uint64_t x = 0;
            BAD(pgas_array_get_u64(array, draws[0].index, &x));
        }
    }
}

static void add_to_model(uint64_t *model, int phase)
{
    for (int r = 0; r < n_ranks; r++) {
        for (int t = 0; t < THREADS; t++) {
            pgasi_rng_t rng = draws_of(r, t, phase);
            for (int k = 0; k < N_APPLIES; k++) {
                draw_t d = draw(&rng);
                if (!(breaks && r == 0 && t == 0 && k == 7))
                    model[d.index] = combined(d.index, model[d.index], d.operand);
            }
        }
    }
}

static void compare(const uint64_t *model)
{
    uint64_t n_wrong = 0, *is = job_alloc(n_elems * sizeof *is);
    BAD(pgas_array_load(array, 0, n_elems, is));
    for (uint64_t i = 0; i < n_elems; i++)
        n_wrong += is[i] != model[i];
    if (!crew_judge(n_wrong == 0, "elements after applies"))
        printf("# rank %d: %d elements differ\n", me, (int)n_wrong);
    free(is);
}

static void model_body(int number, void *arg)
{
    uint64_t *model = arg;
    for (int phase = 0; phase < PHASES; phase++) {
        crew_meet(number);
        apply_phase(number, phase);
        crew_meet(number);
        if (number == 0)
            add_to_model(model, phase);
        if (number == 0 && (phase == 0 || me == phase % n_ranks))
            compare(model);
    }
    crew_meet(number);
    if (number == 0)
        compare(model);
    crew_meet(number);
}

static void make(void)
{
    array = crew_array(8, n_elems, CHUNK, LINES, NULL);
}

static void model(void)
{
    uint64_t *plain = job_alloc(n_elems * sizeof *plain);
    make();
    crew_run(THREADS, model_body, plain);
    BAD(pgas_array_destroy(array));
    free(plain);
}

/* ---- order ---- */

#define ROUNDS 300

/* A thread of each rank adds to elements of the next rank, and sees each of its own applies. */
static void own_order(int number)
{
    uint64_t first = (uint64_t)((me + 1) % n_ranks) * N_EACH + (uint64_t)(number + 1) * 7, x = 0;
    for (uint64_t k = 1; k <= ROUNDS; k++) {
        uint64_t at = first + (uint64_t)THREADS * 16 * (k % 200);
        BAD(pgas_array_set_u64(array, at, 0));
        for (uint64_t j = 0; j < k % 5 + 1; j++)
            BAD(pgas_array_apply_u64(array, at, PGAS_ADD, k));
        BAD(pgas_array_get_u64(array, at, &x));
        crew_judge(x == k * (k % 5 + 1), "a thread's own applies");
    }
}

/* Rank 0 adds 1 to an element of the last rank and to one of another chunk, then to a flag that is
 * set. Others read the flag first. */
static void informed_order(int number)
{
    uint64_t last = (uint64_t)(n_ranks - 1) * N_EACH, flag = 5, x = 0, y = 0, seen;
    if (me == 0 && number == 0) {
        for (uint64_t k = 1; k <= ROUNDS; k++) {
            BAD(pgas_array_apply_u64(array, last + 9000, PGAS_ADD, 1));
            BAD(pgas_array_apply_u64(array, last + 12000, PGAS_ADD, 1));
            for (uint64_t j = 0; j < 20; j++)
                BAD(pgas_array_apply_u64(array, last + 13 * CHUNK + 17 * j, PGAS_ADD, 1));
            BAD(pgas_array_set_u64(array, flag, k));
        }
        return;
    }
    for (seen = 0; seen < ROUNDS; crew_serve()) {
        BAD(pgas_array_get_u64(array, flag, &seen));
        BAD(pgas_array_get_u64(array, last + 12000, &y));
        BAD(pgas_array_get_u64(array, last + 9000, &x));
        if (!crew_judge(x >= seen && y >= seen, "applies before a flag"))
            return;
    }
}

static void order_body(int number, void *arg)
{
    (void)arg;
    own_order(number);
    crew_meet(number);
    if (number == 0 && me == 0)
        for (uint64_t i = 0; i < n_elems; i += CHUNK)
            BAD(pgas_array_set_u64(array, i, 0));
    crew_meet(number);
    if (number == 0) {
        uint64_t zero = 0;
        BAD(pgas_array_fill(array, &zero));
    }
    crew_meet(number);
    informed_order(number);
    crew_meet(number);
}

static void order(void)
{
    make();
    crew_run(THREADS, order_body, NULL);
    BAD(pgas_array_destroy(array));
}

/* ---- pins of the home ---- */

/* Each rank combines into its first chunk through a pin, by plain additions, while ranks of other
 * nodes apply. */
static void pins_body(int number, void *arg)
{
    pgas_op_t add = PGAS_OP(PGAS_ADD, PGAS_U64);
    uint64_t first, n;
    (void)arg;
    int n_others = 0;
    for (int r = 0; r < n_ranks; r++)
        n_others += pgas_node_of(r) != pgas_node();
    BAD(pgas_array_range(array, -1, &first, &n));
    for (int k = 0; k < ROUNDS; k++) {
        for (int r = 0; r < n_ranks; r++)
            for (uint64_t j = 0; j < 10 && pgas_node_of(r) != pgas_node(); j++)
                BAD(pgas_array_apply_u64(array, (uint64_t)r * N_EACH + j, PGAS_ADD, 1));
        pgas_array_pin_t pin;
        if (number != 0 || BAD(pgas_array_pin(array, first, PGAS_ARRAY_OPERATE, add, &pin)))
            continue;
        for (uint64_t j = 0; j < CHUNK; j++)
            ((uint64_t *)pin.data)[j] += 1;
        BAD(pgas_array_unpin(&pin));
    }
    crew_meet(number);
    for (uint64_t j = 0; number == 0 && j < 20; j++) {
        uint64_t x = 0, applies = j < 10 ? (uint64_t)(ROUNDS * n_others) : 0;
        BAD(pgas_array_get_u64(array, first + j, &x));
        crew_judge(x == applies + ROUNDS, "applies beside pins");
    }
    crew_meet(number);
}

static void pins(void)
{
    make();
    crew_run(1, pins_body, NULL);
    BAD(pgas_array_destroy(array));
}

/* ---- cost ---- */

static void cost(void)
{
    make();
    uint64_t first = (uint64_t)((me + 1) % n_ranks) * N_EACH, n = 50000, x = seed, sum = 0, all;
    bool far = pgas_node_of((me + 1) % n_ranks) != pgas_node();
    for (uint64_t k = 0; k < n; k++)
        BAD(pgas_array_apply_u64(array, first + pgas_splitmix(&x) % N_EACH, PGAS_ADD, 1));
    pgas_array_info_t info = crew_info(array);
    if (far && !crew_judge(info.misses < n / 50 && info.messages < n / 10, "few misses"))
        printf("# rank %d: %d misses, %d messages\n", me, (int)info.misses, (int)info.messages);
    uint64_t hot = first + 3 * CHUNK;
    for (uint64_t k = 0; far && k < n; k++)
        BAD(pgas_array_apply_u64(array, hot + k % CHUNK, PGAS_ADD, 1));
    if (far && !crew_judge(crew_info(array).remote_ops < info.remote_ops + n / 2, "a hot chunk"))
        printf("# rank %d: %d of %d applies to a hot chunk at its home\n", me,
               (int)(crew_info(array).remote_ops - info.remote_ops), (int)n);
    n += far ? n : 0;
    BAD(pgas_barrier(NULL));
    uint64_t from, count, *mine = job_alloc(N_EACH * sizeof *mine);
    BAD(pgas_array_range(array, -1, &from, &count));
    BAD(pgas_array_load(array, from, count, mine));
    for (uint64_t i = 0; i < count; i++)
        sum += mine[i];
    free(mine);
    BAD(pgas_allreduce(NULL, &sum, &all, 1, PGAS_U64, PGAS_ADD));
    uint64_t want;
    BAD(pgas_allreduce(NULL, &n, &want, 1, PGAS_U64, PGAS_ADD));
    crew_judge(all == want, "the sum");
    BAD(pgas_array_destroy(array));
}

/* Applies in order go to cache lines, although earlier ones have made the chunks sparse. */
static void walks(void)
{
    array = crew_array(8, n_elems, CHUNK, 2 * LINES, NULL);
    uint64_t first = (uint64_t)((me + 1) % n_ranks) * N_EACH, x = seed;
    bool far = pgas_node_of((me + 1) % n_ranks) != pgas_node();
    for (uint64_t k = 0; k < 20000; k++)
        BAD(pgas_array_apply_u64(array, first + pgas_splitmix(&x) % N_EACH, PGAS_ADD, 1));
    uint64_t before = crew_info(array).remote_ops;
    for (uint64_t k = 0; k < N_EACH; k++)
        BAD(pgas_array_apply_u64(array, first + k, PGAS_ADD, 1));
    uint64_t n = crew_info(array).remote_ops - before;
    if (far && !crew_judge(n < N_EACH / 2, "a walk"))
        printf("# rank %d: %d of %d applies in order at their home\n", me, (int)n, (int)N_EACH);
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
}

/* Contributions are under way when the array ends. */
static void end(void)
{
    for (int k = 0; k < 5; k++) {
        make();
        uint64_t x = seed + (uint64_t)(k * n_ranks + me);
        for (int j = 0; j < 3000; j++)
            BAD(pgas_array_apply_u64(array, pgas_splitmix(&x) % n_elems, PGAS_ADD, 1));
        BAD(pgas_array_destroy(array));
    }
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 7);
    seed = spmd_seed(11);
    n_elems = N_EACH * (uint64_t)n_ranks;
    model();
    spmd_ok(crew_faults() == 0, "applies at random equal a plain array");
    order();
    spmd_ok(crew_faults() == 0, "applies are seen in order");
    pins();
    spmd_ok(crew_faults() == 0, "applies beside pins of the home are not lost");
    cost();
    spmd_ok(crew_faults() == 0, "applies beyond the cache wait seldom");
    walks();
    spmd_ok(crew_faults() == 0, "applies in order use cache lines");
    end();
    spmd_ok(crew_faults() == 0, "applies are complete at the end of the array");
    breaks = true;
    crew_mute();
    model();
    spmd_ok(crew_faults() > 0, "the model detects a lost operand");
    return job_end();
}
