/* Put, get and related operations.
 *   what:   Global pointers, transfers of every form and their completion change memory as in a
 *           plain array: on the node, between nodes, and on attached memory.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_SERVICE_THREADS=0
 *   env:    | PGAS_CALL_MAX=64
 *   source: pgas/gptr.h, pgas/rma.h, pgas/atomic.h; seeded model test */
#include "base/param.h"
#include "t/spmd/rma_model.h"

#define STEPS_HEAP     500
#define STEPS_ATTACHED 150
#define ROUNDS         60

static area_t heap, attached;
static unsigned char *user_memory;

static void set_up(void)
{
    size_t bytes = (size_t)n_ranks * SHARD;
    pgas_gptr_t mine = PGAS_NULL, user = PGAS_NULL;
    pgas_status_t status = pgas_alloc(bytes, &mine);
    heap.name = "heap";
    heap.own = pgas_gptr_local(mine, bytes);
    job_gather(mine, heap.base);
    spmd_ok(status == PGAS_OK && heap.own &&
                heap.base[job_right()] == pgas_gptr_at(mine, job_right()),
            "a symmetric block is local memory, at the same offset on every rank");

    user_memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    memset(user_memory, 0, bytes);
    status = pgas_mem_attach(user_memory, bytes, &user);
    attached.name = "attached";
    attached.own = user_memory;
    job_gather(user, attached.base);
    spmd_ok(status == PGAS_OK && user && pgas_gptr_local(user, bytes) == (void *)user_memory,
            "attached memory is reachable at its own address");
}

static void tear_down(void)
{
    pgas_barrier(NULL);
    spmd_ok(pgas_mem_detach(attached.base[me]) == PGAS_OK, "detach");
    spmd_ok(!pgas_gptr_local(attached.base[me], 1) &&
                pgas_mem_detach(attached.base[me]) == PGAS_ERR_INVALID,
            "detached memory is gone");
    free(user_memory);
    spmd_ok(pgas_free(heap.base[me]) == PGAS_OK, "free");
}

static void models(uint64_t seed)
{
    spmd_is_int(model_run(&heap, seed, STEPS_HEAP, -1), 0, "random operations on the heap");
    spmd_is_int(model_run(&attached, seed + 1, STEPS_ATTACHED, -1), 0,
                "random operations on attached memory");
}

/* The model must see one wrong bit, wherever it is believed. */
static void model_can_fail(uint64_t seed)
{
    bool noticed = model_run(&heap, seed, 20, n_ranks - 1) > 0;
    spmd_ok(job_any(noticed), "the model notices one wrong bit");
}

static void pointers(void)
{
    pgas_gptr_t p = heap.base[me], q = heap.base[job_right()];
    bool good = pgas_gptr_rank(q) == job_right() && pgas_gptr_add(PGAS_NULL, 8) == PGAS_NULL &&
                pgas_gptr_add(pgas_gptr_add(q, 100), -100) == q &&
                pgas_gptr_diff(pgas_gptr_elem(q, 3, 8), q) == 24 &&
                pgas_gptr_diff(q, pgas_gptr_elem(q, 3, 8)) == -24 &&
                pgas_gptr_at(p, job_right()) == q && pgas_gptr_at(PGAS_NULL, 1) == PGAS_NULL &&
                pgas_gptr_at(q, me) == p;
    spmd_ok(good, "arithmetic");
    good = pgas_gptr_of(heap.own + 17) == pgas_gptr_add(p, 17) &&
           pgas_gptr_of(user_memory + 5) == pgas_gptr_add(attached.base[me], 5) &&
           pgas_gptr_of(&good) == PGAS_NULL;
    spmd_ok(good, "from an address back to its pointer");
    good = true;
    for (int r = 0; r < n_ranks; r++) {
        bool near = pgas_node_of(r) == pgas_node();
        good = good && pgas_gptr_is_local(heap.base[r]) == near &&
               pgas_gptr_is_local(attached.base[r]) == (r == me);
    }
    spmd_ok(good, "local memory: the node's heaps and one's own attached memory");
    spmd_ok(!pgas_gptr_local(PGAS_NULL, 1) && !pgas_gptr_local(pgas_gptr_make(n_ranks, 0), 1) &&
                !pgas_gptr_local(p, (size_t)1 << 40) && !pgas_gptr_local(p, SIZE_MAX),
            "null, foreign and too long are not local");
}

/* Whether every operation on a word at ptr returns `want`. */
static bool words_return(pgas_gptr_t ptr, pgas_status_t want)
{
    int n_bad = 0;
    for (size_t k = 0; k < N_SCALARS; k++) {
        unsigned char value[8] = { 0 };
        n_bad += scalars[k].put(ptr, value) != want || scalars[k].get(value, ptr) != want;
    }
    uint64_t old = 0;
    n_bad += pgas_update_u64(ptr, PGAS_ADD, 0) != want ||
             pgas_fetch_op_u64(ptr, PGAS_XOR, 0, &old) != want ||
             pgas_compare_swap_u64(ptr, 1, 1, &old) != want;
    return n_bad == 0;
}

static void borders_of_heaps(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    int n_bad = pgas_heap_info(&info) != PGAS_OK;
    for (int r = 0; r < n_ranks; r++) {
        pgas_gptr_t first = pgas_gptr_make(r, PGAS_HEAP_OFFSET), end = first + info.heap_bytes;
        bool near = pgas_node_of(r) == pgas_node();
        unsigned char value[8];
        uint64_t old;
        for (size_t k = 0; k < N_SCALARS; k++) {
            size_t bytes = scalars[k].bytes;
            n_bad += scalars[k].get(value, first) != PGAS_OK ||
                     scalars[k].get(value, end - bytes) != PGAS_OK;
            n_bad += bytes > 1 && (scalars[k].get(value, first + 1) != PGAS_ERR_INVALID ||
                                   scalars[k].get(value, end - bytes + 1) != PGAS_ERR_INVALID);
        }
        n_bad += !words_return(end, PGAS_ERR_RANGE) || !words_return(first - 8, PGAS_ERR_RANGE);
        n_bad += pgas_fetch_op_u64(end - 8, PGAS_ADD, 0, &old) != PGAS_OK ||
                 pgas_fetch_op_u64(first + 4, PGAS_ADD, 0, &old) != PGAS_ERR_INVALID ||
                 pgas_update_u64(end - 4, PGAS_ADD, 0) != PGAS_ERR_RANGE;
        n_bad += pgas_get(value, end - 5, 5) != PGAS_OK ||
                 pgas_get(value, end - 5, 6) != PGAS_ERR_RANGE ||
                 pgas_get(value, first - 1, 2) != PGAS_ERR_RANGE;
        n_bad += (pgas_gptr_local(first, info.heap_bytes) != NULL) != near ||
                 pgas_gptr_local(first, info.heap_bytes + 1) || pgas_gptr_local(end, 1) ||
                 pgas_gptr_local(first - 1, 2);
    }
    spmd_is_int(n_bad, 0, "the first and the last word of heaps, and what is beside them");
    n_bad = !words_return(PGAS_NULL, PGAS_ERR_RANGE) || !words_return(8, PGAS_ERR_RANGE);
    n_bad += !words_return(pgas_gptr_make(n_ranks, PGAS_HEAP_OFFSET), PGAS_ERR_RANGE) ||
             !words_return(pgas_gptr_make(PGAS_RANKS_MAX - 1, PGAS_OFFSET_MAX - 7), PGAS_ERR_RANGE);
    spmd_is_int(n_bad, 0, "null, and ranks that do not exist");
    n_bad = pgas_get_u64(heap.base[me], NULL) != PGAS_ERR_INVALID ||
            pgas_fetch_op_u64(heap.base[me], PGAS_ADD, 1, NULL) != PGAS_OK ||
            pgas_compare_swap_u64(heap.base[me], 0, 0, NULL) != PGAS_ERR_INVALID;
    spmd_is_int(n_bad, 0, "outputs that are NULL");
    pgas_barrier(NULL);
}

/* Attached memory may begin at any address. */
static void borders_of_attached_memory(void)
{
    enum { BYTES = 1000 };
    _Alignas(8) static unsigned char memory[BYTES + 8];
    uint64_t word = 0;
    int n_bad = 0;
    for (size_t shift = 0; shift < 8; shift += 3) {
        pgas_gptr_t ptr = PGAS_NULL;
        unsigned char *mine = memory + shift;
        n_bad += pgas_mem_attach(mine, BYTES, &ptr) != PGAS_OK;
        n_bad += pgas_gptr_local(ptr, BYTES) != mine || pgas_gptr_local(ptr, BYTES + 1) ||
                 pgas_gptr_local(ptr - 1, 1) || pgas_gptr_local(ptr + BYTES, 1);
        n_bad += pgas_gptr_local(ptr + 7, BYTES - 7) != mine + 7;
        pgas_gptr_t words = (ptr + 7) / 8 * 8;
        memset(memory, (int)shift, sizeof memory);
        n_bad += pgas_put_u64(words, 17) != PGAS_OK ||
                 pgas_fetch_op_u64(words, PGAS_ADD, 5, &word) != PGAS_OK || word != 17 ||
                 pgas_get_u64(words, &word) != PGAS_OK || word != 22 ||
                 *(uint64_t *)pgas_gptr_local(words, 8) != 22;
        n_bad += pgas_get_u64(words + 1, &word) != PGAS_ERR_INVALID;
        n_bad += pgas_mem_detach(ptr) != PGAS_OK || pgas_gptr_local(ptr, 1) != NULL ||
                 pgas_put_u64(words, 18) == PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "words of attached memory of any alignment, and what is beside it");
}

/* A word between two others, at every size. */
static void scalars_leave_neighbours_alone(const area_t *area)
{
    int n_bad = 0;
    for (size_t k = 0; k < N_SCALARS; k++) {
        size_t bytes = scalars[k].bytes;
        unsigned char sent[24], back[24];
        pgas_gptr_t to = pgas_gptr_add(area->base[job_right()], (int64_t)((size_t)me * SHARD));
        memset(sent, 0x5a, sizeof sent);
        n_bad += pgas_put(to, sent, sizeof sent) != PGAS_OK || pgas_fence() != PGAS_OK;
        memset(sent + 8, (int)(0x80 + k), bytes);
        n_bad += scalars[k].put(pgas_gptr_add(to, 8), sent + 8) != PGAS_OK ||
                 pgas_flush(job_right()) != PGAS_OK;
        n_bad += pgas_get(back, to, sizeof back) != PGAS_OK || memcmp(sent, back, sizeof back) != 0;
        memset(back, 0, sizeof back);
        n_bad += scalars[k].get(back, pgas_gptr_add(to, 8)) != PGAS_OK ||
                 memcmp(back, sent + 8, bytes) != 0;
        if (bytes > 1)
            n_bad += scalars[k].put(pgas_gptr_add(to, 9), sent) != PGAS_ERR_INVALID ||
                     scalars[k].get(back, pgas_gptr_add(to, 9)) != PGAS_ERR_INVALID;
    }
    spmd_is_int(n_bad, 0, "%s: scalars of every type; misaligned ones are refused", area->name);
}

static void scalars_by_their_type(const area_t *area)
{
    int n_bad = 0;
#if __STDC_VERSION__ >= 201112L
    pgas_gptr_t to = pgas_gptr_add(area->base[job_right()], (int64_t)((size_t)me * SHARD));
    double d = 0;
    float f = 0;
    int8_t i8 = 0;
    uint64_t u64 = 0;
    n_bad += pgas_put_value(to, -2.5) != PGAS_OK || pgas_put_value(to + 8, 1.5f) != PGAS_OK ||
             pgas_put_value(to + 12, (int8_t)-7) != PGAS_OK ||
             pgas_put_value(to + 16, UINT64_C(1) << 63) != PGAS_OK || pgas_flush_all() != PGAS_OK;
    n_bad += pgas_get_value(to, &d) != PGAS_OK || pgas_get_value(to + 8, &f) != PGAS_OK ||
             pgas_get_value(to + 12, &i8) != PGAS_OK || pgas_get_value(to + 16, &u64) != PGAS_OK;
    n_bad += d < -2.5 || d > -2.5 || f < 1.5f || f > 1.5f || i8 != -7 || u64 != UINT64_C(1) << 63;
    n_bad += pgas_update(to, PGAS_ADD, 1.25) != PGAS_OK || pgas_flush_all() != PGAS_OK ||
             pgas_fetch_op(to, PGAS_MAX, 0.5, &d) != PGAS_OK || d < -1.25 || d > -1.25;
    n_bad += pgas_compare_swap(to, 0.5, 3, &d) != PGAS_OK || d < 0.5 || d > 0.5 ||
             pgas_get_value(to, &d) != PGAS_OK || d < 3 || d > 3;
#endif
    spmd_is_int(n_bad, 0, "%s: the type of the value chooses the function", area->name);
}

/* After local completion the buffer is ours although the data may still travel; after remote
 * completion they are there. */
static void completion_is_local_then_remote(const area_t *area)
{
    enum { BYTES = SHARD, N = 8 };
    int n_bad = 0;
    unsigned char *buffer = job_alloc(BYTES), *back = job_alloc(BYTES);
    pgas_gptr_t to = pgas_gptr_add(area->base[job_right()], (int64_t)((size_t)me * SHARD));
    for (int i = 0; i < N; i++) {
        size_t bytes = BYTES >> i;
        pgas_sync_t done = PGAS_SYNC_INIT;
        bool remote = i % 2;
        memset(buffer, i + 1, bytes);
        n_bad +=
            pgas_put_nb(to, buffer, bytes, remote ? PGAS_REMOTE : PGAS_LOCAL, &done) != PGAS_OK ||
            pgas_sync_wait(&done, -1) != PGAS_OK;
        memset(buffer, 0xff, BYTES);
        n_bad += !remote && pgas_flush(job_right()) != PGAS_OK;
        n_bad += pgas_get(back, to, bytes) != PGAS_OK;
        for (size_t k = 0; k < bytes; k++)
            n_bad += back[k] != i + 1;
    }
    pgas_sync_t done = PGAS_SYNC_INIT;
    for (int i = 0; i < 3 * N; i++)
        n_bad += pgas_put_nb(pgas_gptr_add(to, i * 8), buffer, 8, i % 2 ? PGAS_REMOTE : PGAS_LOCAL,
                             i % 3 ? &done : NULL) != PGAS_OK;
    n_bad += pgas_flush(job_right()) != PGAS_OK || pgas_sync_wait(&done, -1) != PGAS_OK;
    spmd_is_int(n_bad, 0,
                "%s: local completion frees the buffer, remote completion and flush show the data",
                area->name);
    free(buffer);
    free(back);
}

/* More operations than there are records of completion, without progress of the program: the
 * library makes it. The function of the counter runs when all are complete. */
static void count_runs(pgas_sync_t *sync, void *arg)
{
    (void)sync;
    __atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
}

static void more_than_there_is_room_for(const area_t *area)
{
    enum { N = 3000 };
    int n_bad = 0, n_runs = 0;
    uint64_t *words = job_alloc(N * sizeof *words), *back = job_alloc(N * sizeof *back);
    pgas_gptr_t to = pgas_gptr_add(area->base[job_right()], (int64_t)((size_t)me * SHARD));
    pgas_sync_t puts = PGAS_SYNC_INIT_FN(count_runs, &n_runs), gets = PGAS_SYNC_INIT;
    pgas_sync_add(&puts, 1);
    for (int i = 0; i < N; i++) {
        words[i] = (uint64_t)(me + 1) << 32 | (uint64_t)i;
        n_bad += pgas_put_nb(pgas_gptr_elem(to, i, 8), &words[i], 8, PGAS_REMOTE, &puts) != PGAS_OK;
    }
    pgas_sync_done(&puts, 1);
    n_bad += pgas_sync_wait(&puts, -1) != PGAS_OK;
    for (int i = 0; i < N; i++)
        n_bad += pgas_get_nb(&back[i], pgas_gptr_elem(to, i, 8), 8, &gets) != PGAS_OK;
    n_bad += pgas_sync_wait(&gets, -1) != PGAS_OK;
    n_bad += memcmp(words, back, N * sizeof *words) != 0;
    while (__atomic_load_n(&n_runs, __ATOMIC_RELAXED) == 0) /* it may run after the wait */
        pgas_progress();
    spmd_ok(n_bad == 0 && n_runs == 1, "%s: more operations than there are records", area->name);
    free(words);
    free(back);
    pgas_barrier(NULL);
}

/* Tests a counter until it is zero, or n_looks times. @return the tests that found it pending */
static int look(pgas_sync_t *sync, int n_looks, int *n_bad_p)
{
    int n_pending = 0;
    pgas_status_t status = PGAS_INPROGRESS;
    for (int i = 0; status == PGAS_INPROGRESS && i != n_looks; i++) {
        status = pgas_sync_test(sync);
        n_pending += status == PGAS_INPROGRESS;
    }
    *n_bad_p += status != PGAS_OK && status != PGAS_INPROGRESS;
    return n_pending;
}

/* A test for remote completion returns although the peer does not serve (without service threads it
 * would never complete), and succeeds in the end. Under faults, which delay flushes, the test also
 * finds the operation pending. */
static void looking_does_not_wait(const area_t *area)
{
    int target = n_ranks - 1, n_bad = 0, n_pending = 0;
    bool held_up = pgasi_param.fault[0] && pgas_node_of(target) != pgas_node_of(0);
    pgas_gptr_t to = area->base[target];
    uint64_t word = 1, back = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    if (me == 0) /* keys and connections are there from now on */
        n_bad += pgas_put(to, &word, sizeof word) != PGAS_OK || pgas_flush(target) != PGAS_OK;
    pgas_barrier(NULL);
    if (me == 0) {
        n_bad += pgas_put_nb(to, &word, sizeof word, PGAS_REMOTE, &done) != PGAS_OK;
        look(&done, 100, &n_bad);
        for (int r = 1; r < n_ranks; r++)
            MPI_Send(&word, 1, MPI_UINT64_T, r, 0, MPI_COMM_WORLD);
        look(&done, -1, &n_bad);
        for (word = 2; word < 50; word++) {
            n_bad += pgas_put_nb(to, &word, sizeof word, PGAS_REMOTE, &done) != PGAS_OK;
            n_pending += look(&done, -1, &n_bad);
        }
    } else {
        MPI_Recv(&word, 1, MPI_UINT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    pgas_barrier(NULL);
    memcpy(&back, area->own, sizeof back);
    n_bad += me == target && back != 49;
    n_bad += me == 0 && held_up && n_pending == 0;
    spmd_is_int(n_bad, 0, "%s: a look for remote completion does not wait", area->name);
    pgas_barrier(NULL);
}

/* On the node an operation leaves its counter alone. */
static void counters_on_the_node(void)
{
    uint64_t word = 3, back = 0;
    pgas_gptr_t to = pgas_gptr_add(heap.base[me], (int64_t)((size_t)me * SHARD));
    pgas_sync_t sync = { -5, 0, NULL, NULL };
    spmd_ok(pgas_put_nb(to, &word, 8, PGAS_REMOTE, &sync) == PGAS_OK &&
                pgas_get_nb(&back, to, 8, &sync) == PGAS_OK && back == 3 &&
                pgas_fetch_op_nb(to, PGAS_OP(PGAS_ADD, PGAS_U64), &word, &back, &sync) == PGAS_OK &&
                back == 3 && *(uint64_t *)pgas_gptr_local(to, 8) == 6 && sync.count == -5 &&
                sync.error == 0,
            "on the node the counter stays as it is");
}

/* A minimum is carried out by the owner, the put by the transport: the fence orders them. */
static void fence_before_the_owner(const area_t *area)
{
    int n_bad = 0;
    pgas_gptr_t to = pgas_gptr_add(area->base[job_right()], (int64_t)((size_t)me * SHARD));
    for (int64_t i = 0; i < ROUNDS; i++) {
        int64_t old = 0, given = 1000 + i;
        n_bad += pgas_put_nb(to, &given, sizeof given, PGAS_LOCAL, NULL) != PGAS_OK ||
                 pgas_fence() != PGAS_OK;
        n_bad += pgas_fetch_op_i64(to, PGAS_MIN, 500 - i, &old) != PGAS_OK || old != 1000 + i;
        n_bad += pgas_flush(job_right()) != PGAS_OK || pgas_get_i64(to, &old) != PGAS_OK ||
                 old != 500 - i;
    }
    spmd_is_int(n_bad, 0, "%s: a fence orders a put before a minimum", area->name);
    pgas_barrier(NULL);
}

/* Rounds of data, fence, number: a rank that sees the number sees the data. Buffers alternate, and
 * the reader confirms. Data and number may take different paths: one goes to attached memory, the
 * other to the heap. */
static void fence_orders(const area_t *area, const area_t *numbers)
{
    enum { BYTES = 6000, FLAG = 12000, CONFIRM = 12008 };
    uint64_t *flag =
        (uint64_t *)(void *)(numbers->own + (size_t)((me + n_ranks - 1) % n_ranks) * SHARD + FLAG);
    uint64_t *confirmed = (uint64_t *)(void *)(area->own + (size_t)me * SHARD + CONFIRM);
    const unsigned char *data = area->own + (size_t)((me + n_ranks - 1) % n_ranks) * SHARD;
    pgas_gptr_t to = pgas_gptr_add(area->base[job_right()], (int64_t)((size_t)me * SHARD));
    pgas_gptr_t number =
        pgas_gptr_add(numbers->base[job_right()], (int64_t)((size_t)me * SHARD) + FLAG);
    int left = (me + n_ranks - 1) % n_ranks, n_bad = 0;
    pgas_gptr_t tell = pgas_gptr_add(area->base[left], (int64_t)((size_t)left * SHARD) + CONFIRM);
    unsigned char buffer[BYTES];
    *flag = *confirmed = 0;
    pgas_barrier(NULL);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        static const size_t sizes[] = { 8, 1000, BYTES };
        size_t bytes = sizes[round % 3];
        memset(buffer, (int)(round % 251), bytes);
        n_bad += pgas_put(to, buffer, bytes) != PGAS_OK || pgas_fence() != PGAS_OK;
        n_bad += pgas_put_u64(number, round) != PGAS_OK || pgas_flush(job_right()) != PGAS_OK;
        n_bad += pgas_signal_wait(flag, PGAS_GE, round, -1, NULL) != PGAS_OK;
        for (size_t k = 0; k < bytes; k++)
            n_bad += data[k] != round % 251;
        n_bad += pgas_put_u64(tell, round) != PGAS_OK || pgas_flush(left) != PGAS_OK;
        n_bad += pgas_signal_wait(confirmed, PGAS_GE, round, -1, NULL) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "%s: a fence orders puts before those to %s", area->name, numbers->name);
    pgas_barrier(NULL);
}

static void strides_of_every_sign(const area_t *area)
{
    enum { N = 6, B = 3 };
    unsigned char rows[N * B], back[N * B], want[N * B];
    pgas_gptr_t to = pgas_gptr_add(area->base[job_right()], (int64_t)((size_t)me * SHARD));
    int n_bad = 0;
    for (int i = 0; i < N * B; i++)
        rows[i] = (unsigned char)(i + me);
    n_bad += pgas_put_strided(pgas_gptr_add(to, (N - 1) * 10), -10, rows, B, B, N) != PGAS_OK;
    n_bad += pgas_flush_all() != PGAS_OK || pgas_get_strided(back, B, to, 10, B, N) != PGAS_OK;
    for (int i = 0; i < N; i++)
        memcpy(want + i * B, rows + (N - 1 - i) * B, B);
    n_bad += memcmp(back, want, sizeof back) != 0;
    n_bad += pgas_put_strided(to, 10, rows, 0, B, N) != PGAS_OK || pgas_flush_all() != PGAS_OK;
    n_bad += pgas_get_strided(back + (N - 1) * B, -B, to, 10, B, N) != PGAS_OK;
    for (int i = 0; i < N; i++)
        n_bad += memcmp(back + i * B, rows, B) != 0;
    n_bad += pgas_put_strided(to, 10, rows, B, B, 0) != PGAS_OK ||
             pgas_put_strided(to, 10, rows, B, 0, N) != PGAS_OK;
    spmd_is_int(n_bad, 0, "%s: strides backwards, zero, and nothing at all", area->name);
}

static void nothing_moves_nothing(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    spmd_ok(pgas_put(heap.base[job_right()], NULL, 0) == PGAS_OK &&
                pgas_get(NULL, heap.base[job_right()], 0) == PGAS_OK &&
                pgas_put(PGAS_NULL, NULL, 0) == PGAS_ERR_RANGE &&
                pgas_copy(heap.base[me], heap.base[me], 0) == PGAS_OK &&
                pgas_put_nb(heap.base[job_right()], NULL, 0, PGAS_REMOTE, &done) == PGAS_OK &&
                pgas_sync_wait(&done, 0) == PGAS_OK,
            "zero bytes are a checked no-op");
    size_t many = (size_t)INT64_MAX; /* one by one they would never end */
    pgas_gptr_t there = heap.base[job_right()];
    spmd_ok(pgas_put_strided(there, 0, NULL, 0, 0, many) == PGAS_OK &&
                pgas_get_strided(NULL, 0, there, 0, 0, many) == PGAS_OK &&
                pgas_put_strided(PGAS_NULL, 0, NULL, 0, 0, many) == PGAS_ERR_RANGE &&
                pgas_put_strided(there, 1, NULL, 0, 0, many) == PGAS_ERR_RANGE,
            "so are any number of them");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 36);
    uint64_t seed = spmd_seed(20240607);
    set_up();
    pointers();
    borders_of_heaps();
    borders_of_attached_memory();
    nothing_moves_nothing();
    counters_on_the_node();
    pgas_barrier(NULL);
    for (const area_t *area = &heap; area; area = area == &heap ? &attached : NULL) {
        scalars_leave_neighbours_alone(area);
        pgas_barrier(NULL);
        scalars_by_their_type(area);
        pgas_barrier(NULL);
        completion_is_local_then_remote(area);
        pgas_barrier(NULL);
        more_than_there_is_room_for(area);
        fence_before_the_owner(area);
        pgas_barrier(NULL);
        looking_does_not_wait(area);
        fence_orders(area, area);
        strides_of_every_sign(area);
        pgas_barrier(NULL);
    }
    fence_orders(&attached, &heap);
    models(seed);
    model_can_fail(seed);
    tear_down();
    return job_end();
}
