/* Code paths of accesses.
 *   what:   The counters show that each access takes its intended path. Own elements and copies
 *           need no lock and no message to the home. A chunk is fetched once if it is used again,
 *           and not at all if it is used once. Contributions stay in the cache from the first on
 *           with built-in operators, from the second on with others. A walk reads ahead. Threads of
 *           a node share a chunk without a lock.
 *   np:     2 3 4
 *   nodes:  1 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_LANES=1
 *   source: pgas/array.h; without this other tests of arrays might run on a slower way unnoticed
 */
#include "t/spmd/array_crew.h"

#define CHUNK       512
#define N_TIMES     1000
#define CHUNKS_EACH 4

static pgas_op_t own_add, pair_add;

static void add(void *to, const void *from)
{
    uint64_t a, b;
    memcpy(&a, to, sizeof a);
    memcpy(&b, from, sizeof b);
    a += b;
    memcpy(to, &a, sizeof a);
}

/* Operands of two words, on elements of one. */
static void add_pairs(void *to, const void *from)
{
    add(to, from);
    add((char *)to + 8, (const char *)from + 8);
}

static void add_pair(void *elem, const void *operand)
{
    add(elem, operand);
    add(elem, (const char *)operand + 8);
}

static pgas_array_t *make(size_t n_lines)
{
    return crew_array(8, (uint64_t)n_ranks * CHUNKS_EACH * CHUNK, CHUNK, n_lines, NULL);
}

/* The first element of this rank, or of one on another node. */
static uint64_t own_element(const pgas_array_t *array)
{
    uint64_t first = 0, n = 0;
    BAD(pgas_array_range(array, -1, &first, &n));
    return first;
}

static uint64_t far_element(const pgas_array_t *array)
{
    uint64_t first = 0, n = 0;
    int far = me;
    while (pgas_node_of(far) == pgas_node())
        far = (far + 1) % n_ranks;
    BAD(pgas_array_range(array, far, &first, &n));
    return first;
}

/* Counters of this rank's accesses; what homes do for others counts there. */
typedef struct {
    uint64_t misses, fetches, remote_ops, guarded;
} ways_t;

static bool took(const pgas_array_t *array, ways_t want)
{
    pgas_array_info_t is = crew_info(array);
    bool good = is.misses == want.misses && is.fetches == want.fetches &&
                is.remote_ops == want.remote_ops && is.guarded == want.guarded;
    if (!good)
        printf("# rank %d: %d misses, %d fetches, %d at the home, %d under a lock\n", me,
               (int)is.misses, (int)is.fetches, (int)is.remote_ops, (int)is.guarded);
    return good;
}

/* One rank after the other, so that no rank takes a chunk away. */
static void in_turns(void (*body)(pgas_array_t *array, uint64_t i), bool far, ways_t want,
                     const char *what)
{
    for (int turn = 0; turn < n_ranks; turn++) {
        pgas_array_t *array = make(64);
        if (turn == me) {
            body(array, far ? far_element(array) : own_element(array));
            crew_judge(took(array, want), what);
        }
        BAD(pgas_barrier(NULL));
        BAD(pgas_array_destroy(array));
    }
    spmd_is_int(crew_faults(), 0, "%s", what);
}

static void get_often(pgas_array_t *array, uint64_t i)
{
    uint64_t value = 1;
    for (uint64_t k = 0; k < N_TIMES; k++)
        BAD(pgas_array_get_u64(array, i + k % CHUNK, &value));
    crew_judge(value == 0, "what was read");
}

static void set_often(pgas_array_t *array, uint64_t i)
{
    for (uint64_t k = 0; k < N_TIMES; k++)
        BAD(pgas_array_set_u64(array, i + k % CHUNK, k));
}

static void apply_often(pgas_array_t *array, uint64_t i)
{
    for (uint64_t k = 0; k < N_TIMES; k++)
        BAD(pgas_array_apply_u64(array, i + k % CHUNK, PGAS_ADD, k));
}

static void apply_own_often(pgas_array_t *array, uint64_t i)
{
    for (uint64_t k = 0; k < N_TIMES; k++)
        BAD(pgas_array_apply_u64(array, i + k % CHUNK, own_add, k));
}

/* Operands do not fit a line. */
static void apply_pairs_often(pgas_array_t *array, uint64_t i)
{
    const uint64_t pair[2] = { 1, 2 };
    for (uint64_t k = 0; k < N_TIMES / 10; k++)
        BAD(pgas_array_apply(array, i + k % 2, pair_add, pair));
    BAD(pgas_array_prefetch(array, i, CHUNK, PGAS_ARRAY_OPERATE, pair_add, NULL));
    crew_judge(crew_info(array).prefetches == 0,
               "a line of operands that are larger than elements");
}

static void change_often(pgas_array_t *array, uint64_t i)
{
    uint64_t old = 0, one = 1;
    for (uint64_t k = 0; k < N_TIMES / 10; k++) {
        BAD(pgas_array_fetch_op(array, i, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &old));
        BAD(pgas_array_compare_swap(array, i + 1, &k, &(uint64_t){ k + 1 }, &old));
    }
}

/* ---- */

static void own_elements(void)
{
    in_turns(get_often, false, (ways_t){ 0, 0, 0, 0 }, "own elements are read without a lock");
    in_turns(set_often, false, (ways_t){ 0, 0, 0, 0 }, "and written");
    in_turns(apply_often, false, (ways_t){ 0, 0, 0, 0 }, "and applied to");
    in_turns(change_often, false, (ways_t){ 0, 0, 0, 0 }, "and exchanged");
}

/* The access that has waited for a chunk is made under the lock, by the thread that brings the
 * chunk. */
static void far_elements(void)
{
    in_turns(get_often, true, (ways_t){ 1, 1, 0, 1 }, "a chunk is fetched once to be read");
    in_turns(set_often, true, (ways_t){ 1, 1, 0, 1 }, "and once to be written");
    in_turns(apply_often, true, (ways_t){ 1, 1, 0, 1 },
             "operands of a built-in operator stay in a line from the first on");
    in_turns(apply_own_often, true, (ways_t){ 2, 1, 1, 1 },
             "those of another one from the second on");
    in_turns(apply_pairs_often, true, (ways_t){ N_TIMES / 10, 0, N_TIMES / 10, 0 },
             "large operands are applied at home");
    in_turns(change_often, true, (ways_t){ N_TIMES / 5, 0, N_TIMES / 5, 0 },
             "what is exchanged is exchanged at home");
}

/* The cache has two lines, one of which is kept free: a chunk that is used once is not fetched, a
 * chunk that is used again is. The loop runs backwards, otherwise it would be a walk. */
static void used_once_and_again(void)
{
    uint64_t value = 0;
    pgas_array_t *array = make(2);
    uint64_t i = far_element(array);
    for (int k = CHUNKS_EACH; k-- > 0;)
        BAD(pgas_array_get_u64(array, i + (uint64_t)k * CHUNK, &value));
    BAD(pgas_barrier(NULL)); /* accesses on behalf of other ranks would be counted as guarded */
    pgas_array_info_t is = crew_info(array);
    crew_judge(is.fetches == 0 && is.remote_ops == CHUNKS_EACH,
               "what is used once is read at its home");
    for (uint64_t k = 0; k < CHUNK; k++)
        BAD(pgas_array_get_u64(array, i + k, &value));
    is = crew_info(array);
    crew_judge(is.fetches == 1 && is.remote_ops == CHUNKS_EACH, "what is used again is fetched");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "a chunk is fetched when it is used again");
}

static void walks(void)
{
    uint64_t value = 0;
    pgas_array_t *array = make(64);
    uint64_t i = far_element(array);
    for (uint64_t k = 0; k < CHUNKS_EACH * CHUNK; k++)
        BAD(pgas_array_get_u64(array, i + k, &value));
    pgas_array_info_t is = crew_info(array);
    crew_judge(is.fetches == 2 && is.prefetches >= CHUNKS_EACH - 2,
               "two chunks are waited for, then the rest is on its way");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "a walk is read ahead");
}

/* A counter tells when the chunks are here. A second prefetch of chunks on their way may name
 * another counter. */
static void prefetches(pgas_array_mode_t mode)
{
    pgas_sync_t first = PGAS_SYNC_INIT, second = PGAS_SYNC_INIT, third = PGAS_SYNC_INIT;
    pgas_array_t *array = make(64);
    uint64_t i = far_element(array), n = CHUNKS_EACH * CHUNK, value = 0;
    bool one = me == 0; /* others would take the chunks away */
    if (one) {
        BAD(pgas_array_prefetch(array, i, n, mode, 0, &first));
        BAD(pgas_array_prefetch(array, i, n, mode, 0, &second));
        BAD(pgas_sync_wait(&second, -1));
        BAD(pgas_sync_wait(&first, -1));
        pgas_array_info_t before = crew_info(array);
        crew_judge(before.prefetches == CHUNKS_EACH, "what is prefetched");
        for (uint64_t k = 0; k < n && mode == PGAS_ARRAY_WRITE; k += CHUNK)
            BAD(pgas_array_set_u64(array, i + k, k));
        for (uint64_t k = 0; k < n; k += CHUNK)
            BAD(pgas_array_get_u64(array, i + k, &value));
        crew_judge(crew_info(array).misses == before.misses, "a chunk that is said to be here");
        BAD(pgas_array_prefetch(array, i, n, mode, 0, &third));
        crew_judge(third.count == 0, "a counter of chunks that are here already");
    }
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "a prefetch tells when the chunks are here");
}

/* All ranks of a node write and read elements of one chunk of one of them. They apply seldom: after
 * some five hundred applies a rank gets a line of its own (array/join.h), and its next read ends
 * that by a message. t/spmd/array_join.c has that way. */
static void neighbours(void)
{
    enum { ROUNDS = 20 * N_TIMES, APPLIES = 200 };
    pgas_array_t *array = make(64);
    uint64_t first = 0, n = 0, value = 0;
    int neighbour = 0;
    while (pgas_node_of(neighbour) != pgas_node())
        neighbour++;
    BAD(pgas_array_range(array, neighbour, &first, &n));
    BAD(pgas_barrier(NULL));
    for (uint64_t k = 0; k < ROUNDS; k++) {
        BAD(pgas_array_set_u64(array, first + (uint64_t)pgas_node_rank(), k));
        if (k % (ROUNDS / APPLIES) == 0)
            BAD(pgas_array_apply_u64(array, first + 100, PGAS_ADD, 1));
        BAD(pgas_array_get_u64(array, first + (uint64_t)pgas_node_rank(), &value));
        crew_judge(value == k, "what was set");
    }
    crew_judge(took(array, (ways_t){ 0, 0, 0, 0 }), "without a lock");
    crew_judge(crew_info(array).prefetches == 0, "without a line");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_get_u64(array, first + 100, &value));
    crew_judge(value == (uint64_t)(APPLIES * pgas_node_size()), "what was applied");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "ranks of a node share a chunk without a lock");
}

/* Chunks that are smaller than a sub-block have mapping entries, too. */
static void small_chunks(void)
{
    enum { SMALL = CHUNK / 8 };
    uint64_t value = 1;
    for (int turn = 0; turn < n_ranks; turn++) {
        pgas_array_t *array = crew_array(8, (uint64_t)n_ranks * SMALL, SMALL, 64, NULL);
        uint64_t own = own_element(array), far = far_element(array);
        for (uint64_t k = 0; turn == me && k < N_TIMES; k++) {
            BAD(pgas_array_get(array, own + k % SMALL, &value));
            BAD(pgas_array_try_get(array, own + k % SMALL, &value));
        }
        crew_judge(took(array, (ways_t){ 0, 0, 0, 0 }), "own elements of small chunks");
        for (uint64_t k = 0; turn == me && k < N_TIMES; k++)
            BAD(pgas_array_get(array, far + k % SMALL, &value));
        if (turn == me)
            crew_judge(took(array, (ways_t){ 1, 1, 0, 1 }), "copies of small chunks");
        BAD(pgas_barrier(NULL));
        BAD(pgas_array_destroy(array));
    }
    spmd_is_int(crew_faults(), 0, "elements of small chunks are read without a lock");
}

/* The lock is seen where it is used: in a chunk that has parts at two homes. */
static void a_lock_is_counted(void)
{
    pgas_array_opts_t opts = PGAS_ARRAY_OPTS_INIT;
    pgas_array_t *array = NULL;
    uint64_t first = 0, n = 0, value = 0, offsets[8] = { 0 };
    opts.chunk_elems = CHUNK;
    opts.offsets = offsets;
    for (int r = 1; r <= n_ranks; r++)
        offsets[r] = (uint64_t)r * CHUNK + (r < n_ranks);
    BAD(pgas_array_create(NULL, 8, (uint64_t)n_ranks * CHUNK, &opts, &array));
    BAD(pgas_array_range(array, -1, &first, &n));
    for (int k = 0; k < N_TIMES; k++)
        BAD(pgas_array_get_u64(array, me == 0 ? CHUNK : first, &value));
    crew_judge(took(array, (ways_t){ 0, 0, 0, N_TIMES }), "each access is counted");
    BAD(pgas_barrier(NULL));
    BAD(pgas_array_destroy(array));
    spmd_is_int(crew_faults(), 0, "accesses to a part of a chunk are under the lock, and counted");
}

int main(int argc, char **argv)
{
    uint64_t zero = 0;
    pgas_op_def_t def = { .elem_bytes = 8, .identity = &zero, .combine = add };
    pgas_op_def_t pair_def = { 8, 16, (uint64_t[2]){ 0 }, add_pairs, add_pair };
    pgas_op_register("t.add", &def, &own_add);
    pgas_op_register("t.add_pair", &pair_def, &pair_add);
    job_begin(&argc, &argv, 17);
    own_elements();
    far_elements();
    used_once_and_again();
    walks();
    prefetches(PGAS_ARRAY_READ);
    prefetches(PGAS_ARRAY_WRITE);
    neighbours();
    small_chunks();
    a_lock_is_counted();
    return job_end();
}
