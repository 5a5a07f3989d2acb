/* Gets, puts and updates of many elements.
 *   what:   pgas_get_many, pgas_put_many and pgas_update_many do what a loop over single elements
 *           does: for any ranks, orders and sizes of elements, on the heap and on attached memory.
 *           Errors are reported by the call or by the counter, and nothing hangs.
 *           Each update is atomic.
 *   np:     1 2 3 5
 *   nodes:  0 1 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=0 | PGAS_FAULT=delay=3,reorder=3,again=2 | PGAS_CALL_MAX=64
 *   source: pgas/many.h */
#include "t/random.h"
#include "t/spmd/job.h"

#define SLOTS    6000 /* elements of a rank's block */
#define ELEM_MAX 700
#define N_MAX    5000
#define LIST_ENDS                    \
    {                                \
        1, 2, 63, 64, 65, 700, N_MAX \
    }

static pgas_gptr_t heap, ptrs[N_MAX];
static char *own_heap, *src, *dst;
static pgas_handler_t update_handler;
static uint32_t slot[N_MAX], owner[N_MAX];

/* The byte b of slot s of a rank's block, for elements of one size. */
static char content(uint32_t rank, uint32_t s, size_t b, size_t bytes)
{
    return (char)(rank * 131 + s * 7 + b * 3 + bytes);
}

static uint32_t slots_of(size_t bytes)
{
    return (uint32_t)(SLOTS * 8 / bytes);
}

static void fill(size_t bytes)
{
    pgas_barrier(NULL);
    for (uint32_t s = 0; s < slots_of(bytes); s++)
        for (size_t b = 0; b < bytes; b++)
            own_heap[s * bytes + b] = content((uint32_t)me, s, b, bytes);
    pgas_barrier(NULL);
}

static void draw(size_t n, size_t bytes)
{
    for (size_t i = 0; i < n; i++) {
        owner[i] = (uint32_t)below((uint64_t)n_ranks);
        slot[i] = (uint32_t)below(slots_of(bytes));
        ptrs[i] = pgas_gptr_elem(pgas_gptr_at(heap, (int)owner[i]), slot[i], bytes);
    }
}

static void get_elements(void)
{
    static const size_t size[] = { 1, 2, 3, 4, 8, 12, 24, 512, ELEM_MAX }, end[] = LIST_ENDS;
    int n_bad = 0;
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
        fill(size[k]);
        for (size_t l = 0; l < sizeof end / sizeof *end; l++) {
            size_t bytes = size[k], n = end[l] < slots_of(bytes) ? end[l] : slots_of(bytes);
            pgas_sync_t done = PGAS_SYNC_INIT;
            draw(n, bytes);
            memset(dst, 0, (n + 1) * bytes);
            n_bad += pgas_get_many(dst, ptrs, bytes, n, &done) != PGAS_OK;
            n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
            for (size_t i = 0; i < n; i++)
                for (size_t b = 0; b < bytes; b++)
                    n_bad += dst[i * bytes + b] != content(owner[i], slot[i], b, bytes);
            for (size_t b = 0; b < bytes; b++)
                n_bad += dst[n * bytes + b] != 0;
        }
    }
    spmd_ok(n_bad == 0, "gets of 1 to %d bytes: every element comes to its place", ELEM_MAX);
}

/* Each rank puts into slots of its own, which a third of the way are one bijection. */
static void put_elements(bool counted)
{
    static const size_t size[] = { 1, 2, 3, 4, 8, 12, 24, 512, ELEM_MAX };
    int n_bad = 0;
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
        size_t bytes = size[k], each = slots_of(bytes) / (uint32_t)n_ranks;
        size_t n = each < N_MAX ? each : N_MAX;
        pgas_sync_t done = PGAS_SYNC_INIT;
        pgas_barrier(NULL);
        memset(own_heap, 0, SLOTS * 8);
        pgas_barrier(NULL);
        uint32_t start = (uint32_t)below(n);
        for (size_t i = 0; i < n; i++) {
            owner[i] = (uint32_t)((i + (size_t)me) % (size_t)n_ranks);
            slot[i] = (uint32_t)(((i + start) % n) * (size_t)n_ranks + (size_t)me);
            ptrs[i] = pgas_gptr_elem(pgas_gptr_at(heap, (int)owner[i]), slot[i], bytes);
            for (size_t b = 0; b < bytes; b++)
                src[i * bytes + b] = (char)(content(owner[i], slot[i], b, bytes) | 1);
        }
        n_bad += pgas_put_many(ptrs, src, bytes, n, counted ? &done : NULL) != PGAS_OK;
        memset(src, 0, n * bytes); /* reusable on return */
        if (counted)
            n_bad += pgas_sync_wait(&done, -1) != PGAS_OK || pgas_barrier(NULL) != PGAS_OK;
        else
            n_bad += pgas_quiesce() != PGAS_OK;
        uint64_t found = 0, all = 0, put = n;
        for (uint32_t s = 0; s < slots_of(bytes); s++) {
            const char *e = &own_heap[s * bytes];
            bool right = true;
            for (size_t b = 0; b < bytes; b++)
                right = right && e[b] == (char)(content((uint32_t)me, s, b, bytes) | 1);
            found += right;
            n_bad += !right && (e[0] || memcmp(e, e + 1, bytes - 1) != 0);
        }
        pgas_allreduce(NULL, &found, &found, 1, PGAS_U64, PGAS_ADD);
        pgas_allreduce(NULL, &put, &all, 1, PGAS_U64, PGAS_ADD);
        n_bad += found != all;
    }
    spmd_ok(n_bad == 0, "puts %s: every value arrives, nothing else changes",
            counted ? "with a counter" : "without a counter, before pgas_quiesce returns");
}

/* ---- updates ---- */

typedef union {
    uint64_t u64;
    int64_t i64;
    float f32;
    double f64;
} word_t;

/* Values are small integers, which floats add without rounding, and which fit 8 bits. */
static word_t word_of(pgas_type_t type, int64_t x)
{
    word_t w = { .u64 = 0 };
    if (type == PGAS_F32)
        w.f32 = (float)x;
    else if (type == PGAS_F64)
        w.f64 = (double)x;
    else
        w.i64 = x;
    return w;
}

static int64_t number_of(pgas_type_t type, const void *at, size_t bytes)
{
    word_t w = { .u64 = 0 };
    memcpy(&w, at, bytes);
    if (type == PGAS_F32)
        return (int64_t)w.f32;
    if (type == PGAS_F64)
        return (int64_t)w.f64;
    return (int64_t)w.u64;
}

/* The number that a word of this size holds. */
static int64_t wrapped(pgas_type_t type, size_t bytes, int64_t x)
{
    word_t w = word_of(type, x);
    return number_of(type, &w, bytes);
}

static int64_t combine(pgas_op_t op, int64_t a, int64_t b)
{
    switch (op) {
    case PGAS_ADD:
        return a + b;
    case PGAS_MIN:
        return b < a ? b : a;
    case PGAS_MAX:
        return b > a ? b : a;
    case PGAS_AND:
        return a & b;
    case PGAS_OR:
        return a | b;
    case PGAS_XOR:
        return a ^ b;
    case PGAS_PROD:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    default:
        return b;
    }
}

#define WORDS 97 /* few, so that ranks meet */

/* All ranks update all words; rank 0 computes the same from everybody's draws. */
static int update_and_compare(pgas_op_t op, pgas_type_t type, size_t bytes, size_t n)
{
    static int64_t model[WORDS * JOB_RANKS_MAX];
    int n_bad = 0;
    pgas_barrier(NULL);
    for (int w = 0; w < WORDS; w++) {
        word_t first = word_of(type, w);
        memcpy(own_heap + (size_t)w * bytes, &first, bytes);
    }
    pgas_barrier(NULL);
    for (int w = 0; w < WORDS * n_ranks; w++)
        model[w] = w % WORDS;
    for (int r = 0; r < n_ranks; r++) {
        pgasi_rng_t theirs;
        pgasi_rng_seed(&theirs, (uint64_t)r * 1000 + op * 16 + (uint64_t)type + n);
        for (size_t i = 0; i < n; i++) {
            uint64_t w = pgasi_rng_below(&theirs, (uint64_t)(WORDS * n_ranks));
            int64_t x = (int64_t)pgasi_rng_below(&theirs, 120);
            model[w] = combine(op, model[w], x);
            if (r != me)
                continue;
            word_t value = word_of(type, x);
            memcpy(src + i * bytes, &value, bytes);
            ptrs[i] =
                pgas_gptr_elem(pgas_gptr_at(heap, (int)(w / WORDS)), (int64_t)(w % WORDS), bytes);
        }
    }
    n_bad += pgas_update_many(ptrs, op, type, src, n) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    for (int w = 0; w < WORDS; w++)
        n_bad += number_of(type, own_heap + (size_t)w * bytes, bytes) !=
                 wrapped(type, bytes, model[me * WORDS + w]);
    return n_bad;
}

static void updates(void)
{
    static const size_t bytes[] = {
        [PGAS_U8] = 1,  [PGAS_U16] = 2, [PGAS_U32] = 4, [PGAS_U64] = 8, [PGAS_I8] = 1,
        [PGAS_I16] = 2, [PGAS_I32] = 4, [PGAS_I64] = 8, [PGAS_F32] = 4, [PGAS_F64] = 8
    };
    static const pgas_op_t ops[] = { PGAS_ADD, PGAS_MIN, PGAS_MAX, PGAS_AND,
                                     PGAS_OR,  PGAS_XOR, PGAS_PROD };
    int n_bad = 0, n_refused = 0;
    for (int type = PGAS_U8; type <= PGAS_F64; type++)
        for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
            bool bitwise = ops[o] == PGAS_AND || ops[o] == PGAS_OR || ops[o] == PGAS_XOR;
            bool exact = type != PGAS_F32 || ops[o] != PGAS_ADD;
            if (ops[o] == PGAS_PROD && type >= PGAS_F32)
                continue; /* ordered() has these */
            if (bitwise && type >= PGAS_F32) {
                n_refused += pgas_update_many(ptrs, ops[o], (pgas_type_t)type, src, 1) ==
                             PGAS_ERR_UNSUPPORTED;
                continue;
            }
            n_bad += update_and_compare(ops[o], (pgas_type_t)type, bytes[type], 100);
            n_bad += update_and_compare(ops[o], (pgas_type_t)type, bytes[type], exact ? 3000 : 900);
        }
    spmd_ok(n_bad == 0, "updates by seven operators of ten types are those of a loop");
    spmd_ok(n_refused == 6 &&
                pgas_update_many(ptrs, PGAS_ADD, (pgas_type_t)11, src, 1) == PGAS_ERR_UNSUPPORTED &&
                pgas_update_many(ptrs, 0, PGAS_U64, src, 1) == PGAS_ERR_UNSUPPORTED &&
                pgas_update_many(ptrs, 1000, PGAS_U64, src, 1) == PGAS_ERR_UNSUPPORTED,
            "operators and types that words do not have are refused");
}

/* Products and replaced words, by one rank at a time, for their order matters. */
static void ordered(void)
{
    int n_bad = 0;
    for (int turn = 0; turn < n_ranks; turn++) {
        double *word = (double *)(void *)own_heap, one = 1, two = 2, five = 5;
        *word = one;
        pgas_barrier(NULL);
        for (int r = 0; r < n_ranks && turn == me; r++) {
            pgas_gptr_t there[3] = { pgas_gptr_at(heap, r), pgas_gptr_at(heap, r),
                                     pgas_gptr_at(heap, r) };
            double values[3] = { two, five, two };
            n_bad += pgas_update_many(there, PGAS_SWAP, PGAS_F64, values, 2) != PGAS_OK;
            n_bad += pgas_update_many(there, PGAS_PROD, PGAS_F64, values, 3) != PGAS_OK;
        }
        n_bad += pgas_quiesce() != PGAS_OK;
        n_bad += *word > 100 || *word < 100;
        pgas_barrier(NULL);
    }
    spmd_ok(n_bad == 0, "updates of one rank to one word are carried out in their order");
}

/* Without values every word gets one more. Between the updates of one rank are single atomics of
 * others. */
static void ones(void)
{
    int n_bad = 0;
    pgas_barrier(NULL);
    memset(own_heap, 0, WORDS * 8);
    pgas_barrier(NULL);
    for (size_t i = 0; i < N_MAX; i++)
        ptrs[i] = pgas_gptr_elem(pgas_gptr_at(heap, (int)(i % (size_t)n_ranks)),
                                 (int64_t)below(WORDS), 8);
    for (size_t i = 0; i < N_MAX; i += 100) {
        n_bad += pgas_update_many(ptrs + i, PGAS_ADD, PGAS_U64, NULL, 100) != PGAS_OK;
        for (size_t k = i; k < i + 20; k++)
            n_bad += pgas_update_u64(ptrs[k], PGAS_ADD, 1) != PGAS_OK;
    }
    n_bad += pgas_flush_all() != PGAS_OK || pgas_quiesce() != PGAS_OK;
    uint64_t sum = 0, total = 0;
    for (int w = 0; w < WORDS; w++)
        sum += ((const uint64_t *)(const void *)own_heap)[w];
    pgas_allreduce(NULL, &sum, &total, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && total == (uint64_t)(N_MAX / 5 * 6) * (uint64_t)n_ranks,
            "without values each word grows by one; atomics at the same time lose nothing");
}

/* ---- in handlers ---- */

static pgas_status_t in_handler[2]; /* of an update of an own word, and of the caller's word */

static void run_update(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_gptr_t own = pgas_gptr_at(heap, me), theirs = pgas_gptr_at(heap, pgas_thread_rank(source));
    (void)args;
    (void)bytes;
    (void)context;
    in_handler[0] = pgas_update_many(&own, PGAS_ADD, PGAS_U64, NULL, 1);
    in_handler[1] = pgas_update_many(&theirs, PGAS_ADD, PGAS_U64, NULL, 1);
}

static void handlers(void)
{
    pgas_gptr_t theirs = pgas_gptr_at(heap, (me + n_ranks - 1) % n_ranks);
    bool near = pgas_gptr_is_local(theirs);
    int n_bad = 0;
    memset(own_heap, 0, 8);
    pgas_barrier(NULL);
    n_bad += pgas_call((me + 1) % n_ranks, update_handler, NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    n_bad += in_handler[0] != PGAS_OK || in_handler[1] != (near ? PGAS_OK : PGAS_ERR_CONTEXT);
    bool others = pgas_gptr_is_local(pgas_gptr_at(heap, (me + 1) % n_ranks));
    n_bad += *(uint64_t *)(void *)own_heap != (others ? 2 : 1);
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0, "plain handlers update words of their node, and no others");
}

/* ---- memory of the program, pointers that are not multiples, errors ---- */

static void attached(void)
{
    static uint64_t window[64] __attribute__((aligned(4096)));
    pgas_gptr_t mine, at[JOB_RANKS_MAX];
    uint64_t got[64];
    int n_bad = 0, last = n_ranks - 1;
    pgas_sync_t done = PGAS_SYNC_INIT;
    for (uint64_t i = 0; i < 64; i++)
        window[i] = (uint64_t)me * 1000 + i;
    n_bad += pgas_mem_attach(window, sizeof window, &mine) != PGAS_OK;
    pgas_allgather(NULL, &mine, at, sizeof mine);
    for (int i = 0; i < 64; i++)
        ptrs[i] = pgas_gptr_elem(at[(i + me) % n_ranks], i, 8);
    n_bad += pgas_get_many(got, ptrs, 8, 64, &done) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    for (uint64_t i = 0; i < 64; i++)
        n_bad += got[i] != (i + (uint64_t)me) % (uint64_t)n_ranks * 1000 + i;
    pgas_barrier(NULL);
    for (int i = 0; i < 64; i++)
        ptrs[i] = pgas_gptr_elem(at[last], i, 8);
    n_bad += pgas_update_many(ptrs, PGAS_ADD, PGAS_U64, NULL, 64) != PGAS_OK;
    n_bad += pgas_flush_all() != PGAS_OK || pgas_quiesce() != PGAS_OK;
    for (uint64_t i = 0; i < 64 && me == last; i++)
        n_bad += window[i] != (uint64_t)last * 1000 + i + (uint64_t)n_ranks;
    pgas_barrier(NULL);
    n_bad += pgas_mem_detach(mine) != PGAS_OK;
    spmd_ok(n_bad == 0, "elements of attached memory are reached, too");
}

static void unaligned(void)
{
    int n_bad = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    fill(1);
    for (int i = 0; i < 300; i++) {
        owner[i] = (uint32_t)below((uint64_t)n_ranks);
        slot[i] = (uint32_t)below(SLOTS);
        ptrs[i] = pgas_gptr_add(pgas_gptr_at(heap, (int)owner[i]), slot[i]);
    }
    n_bad += pgas_get_many(dst, ptrs, 8, 300, &done) != PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    for (int i = 0; i < 300; i++)
        for (uint32_t b = 0; b < 8; b++)
            n_bad += dst[i * 8 + (int)b] != content(owner[i], slot[i] + b, 0, 1);
    spmd_ok(n_bad == 0, "elements of 8 bytes need not be aligned");
}

static void refusals(void)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_gptr_t good = pgas_gptr_at(heap, n_ranks - 1);
    pgas_gptr_t null[2] = { good, PGAS_NULL }, nobody = pgas_gptr_make(n_ranks, 1 << 30);
    pgas_gptr_t odd = pgas_gptr_add(good, 4);
    uint64_t x[2] = { 1, 2 };
    bool right = pgas_get_many(NULL, &good, 8, 1, &done) == PGAS_ERR_INVALID &&
                 pgas_get_many(x, NULL, 8, 1, &done) == PGAS_ERR_INVALID &&
                 pgas_get_many(x, &good, 0, 1, &done) == PGAS_ERR_INVALID &&
                 pgas_get_many(x, &good, 8, 1, NULL) == PGAS_ERR_INVALID &&
                 pgas_put_many(&good, NULL, 8, 1, &done) == PGAS_ERR_INVALID &&
                 pgas_get_many(x, null, 8, 2, &done) == PGAS_ERR_RANGE &&
                 pgas_get_many(x, &nobody, 8, 1, &done) == PGAS_ERR_RANGE &&
                 pgas_put_many(&nobody, x, 8, 1, &done) == PGAS_ERR_RANGE &&
                 pgas_update_many(&nobody, PGAS_ADD, PGAS_U64, x, 1) == PGAS_ERR_RANGE &&
                 pgas_update_many(&odd, PGAS_ADD, PGAS_U64, x, 1) == PGAS_ERR_INVALID;
    spmd_ok(right && pgas_sync_wait(&done, -1) == PGAS_OK, "bad arguments are refused");
    right = pgas_get_many(x, ptrs, 8, 0, &done) == PGAS_OK &&
            pgas_put_many(ptrs, x, 8, 0, NULL) == PGAS_OK &&
            pgas_update_many(ptrs, PGAS_ADD, PGAS_U64, NULL, 0) == PGAS_OK;
    spmd_ok(right && pgas_sync_test(&done) == PGAS_OK, "no elements are nothing to do");
    pgas_barrier(NULL);
}

/* A place behind the heap of another node: the owner alone can tell. */
static void outside(void)
{
    pgas_gptr_t far = pgas_gptr_add(pgas_gptr_at(heap, (me + 1) % n_ranks), INT64_C(1) << 29);
    uint64_t x = 0;
    pgas_sync_t done = PGAS_SYNC_INIT;
    pgas_status_t status = pgas_get_many(&x, &far, 8, 1, &done);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&done, -1);
    spmd_ok(status == PGAS_ERR_RANGE, "a place outside of the heap: %s", pgas_status_name(status));
    pgas_barrier(NULL);
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.update", run_update, NULL, NULL, &update_handler);
    job_begin(&argc, &argv, 13);
    pgasi_rng_seed(&rng, spmd_seed(1) + (uint64_t)me);
    if (pgas_alloc(SLOTS * 8 + 8, &heap) != PGAS_OK)
        return 99;
    own_heap = pgas_gptr_local(pgas_gptr_at(heap, me), 1);
    src = job_alloc((size_t)(N_MAX + 1) * ELEM_MAX);
    dst = job_alloc((size_t)(N_MAX + 1) * ELEM_MAX);
    get_elements();
    put_elements(true);
    put_elements(false);
    updates();
    ordered();
    ones();
    handlers();
    attached();
    unaligned();
    refusals();
    outside();
    free(src);
    free(dst);
    pgas_free(heap);
    return job_end();
}
