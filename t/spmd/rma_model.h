/* Random one-sided operations against a plain array: the model of t/spmd/rma.c and other tests.
 *
 * Every rank owns a shard of every rank's area and keeps the expected contents of that shard.
 * Operations on it are random. Values read are compared at once, and at the end every rank compares
 * its area with the expected contents of the others. The model uses only the promises of
 * pgas/rma.h: it fences between writes that overlap, and flushes before it reads its own writes. */
#ifndef T_SPMD_RMA_MODEL_H
#define T_SPMD_RMA_MODEL_H

#include "base/rng.h"
#include "t/spmd/atomic_model.h"
#include "t/spmd/job.h"

#define SHARD    24576u
#define MODEL_NB 8

typedef struct {
    const char *name;
    pgas_gptr_t base[JOB_RANKS_MAX]; /* n_ranks * SHARD bytes at each rank */
    const unsigned char *own;        /* this rank's area */
} area_t;

typedef struct {
    const area_t *area;
    pgasi_rng_t rng;
    int me, n;
    unsigned char *is;        /* [n][SHARD] what my shards hold */
    unsigned char *unordered; /* written since the last fence */
    unsigned char *unseen;    /* written and not known to be visible */
    unsigned char *buffer;    /* [MODEL_NB][SHARD] */
    int n_bad;
    const char *what; /* the first operation that went wrong */
} model_t;

static inline uint64_t below(model_t *m, uint64_t n)
{
    return pgasi_rng_below(&m->rng, n);
}

static void judge(model_t *m, bool good, const char *what)
{
    if (good)
        return;
    if (m->n_bad++ == 0)
        m->what = what;
}

static unsigned char *flag(unsigned char *flags, int rank, size_t offset)
{
    return flags + (size_t)rank * SHARD + offset;
}

static pgas_gptr_t at(const model_t *m, int rank, size_t offset)
{
    return pgas_gptr_add(m->area->base[rank], (int64_t)((size_t)m->me * SHARD + offset));
}

static unsigned char *is_at(model_t *m, int rank, size_t offset)
{
    return flag(m->is, rank, offset);
}

static bool any_set(const unsigned char *flags, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (flags[i])
            return true;
    return false;
}

static void before_write(model_t *m, int rank, size_t offset, size_t bytes)
{
    if (!any_set(flag(m->unordered, rank, offset), bytes))
        return;
    judge(m, pgas_fence() == PGAS_OK, "fence");
    memset(m->unordered, 0, (size_t)m->n * SHARD);
}

static void seen(model_t *m, int rank)
{
    memset(flag(m->unseen, rank, 0), 0, SHARD);
    memset(flag(m->unordered, rank, 0), 0, SHARD);
}

static void flush_everything(model_t *m)
{
    judge(m, pgas_flush_all() == PGAS_OK, "flush_all");
    for (int r = 0; r < m->n; r++)
        seen(m, r);
}

static void before_read(model_t *m, int rank, size_t offset, size_t bytes)
{
    if (!any_set(flag(m->unseen, rank, offset), bytes))
        return;
    if (below(m, 4) == 0) {
        flush_everything(m);
    } else {
        judge(m, pgas_flush(rank) == PGAS_OK, "flush");
        seen(m, rank);
    }
}

static void wrote(model_t *m, int rank, size_t offset, size_t bytes)
{
    memset(flag(m->unordered, rank, offset), 1, bytes);
    memset(flag(m->unseen, rank, offset), 1, bytes);
}

static void randomize(model_t *m, unsigned char *to, size_t bytes)
{
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8) {
        uint64_t x = pgasi_rng_u64(&m->rng);
        memcpy(to + i, &x, 8);
    }
    for (; i < bytes; i++)
        to[i] = (unsigned char)pgasi_rng_u64(&m->rng);
}

/* Mostly small, sometimes the whole shard. */
static size_t pick_bytes(model_t *m, size_t max)
{
    static const size_t limits[] = { 1, 9, 17, 65, 300, 4200, 9000, SHARD + 1 };
    size_t limit = limits[below(m, sizeof limits / sizeof limits[0])];
    return (size_t)below(m, limit < max + 1 ? limit : max + 1);
}

static void one_put(model_t *m, int rank)
{
    size_t bytes = pick_bytes(m, SHARD), offset = (size_t)below(m, SHARD - bytes + 1);
    randomize(m, m->buffer, bytes);
    before_write(m, rank, offset, bytes);
    memcpy(is_at(m, rank, offset), m->buffer, bytes);
    judge(m, pgas_put(at(m, rank, offset), m->buffer, bytes) == PGAS_OK, "put");
    memset(m->buffer, 0xee, bytes); /* locally complete: ours again */
    wrote(m, rank, offset, bytes);
}

static void one_get(model_t *m, int rank)
{
    size_t bytes = pick_bytes(m, SHARD), offset = (size_t)below(m, SHARD - bytes + 1);
    before_read(m, rank, offset, bytes);
    memset(m->buffer, 0xaa, bytes + 1);
    judge(m, pgas_get(m->buffer, at(m, rank, offset), bytes) == PGAS_OK, "get");
    judge(m, memcmp(m->buffer, is_at(m, rank, offset), bytes) == 0, "bytes of get");
    judge(m, m->buffer[bytes] == 0xaa, "bytes behind get");
}

/* The type of a scalar: unsigned, signed or, with 4 and 8 bytes, floating-point. */
#define SCALAR(tag, type)                                                      \
    static pgas_status_t put_##tag(pgas_gptr_t ptr, const unsigned char *from) \
    {                                                                          \
        type value;                                                            \
        memcpy(&value, from, sizeof value);                                    \
        return pgas_put_##tag(ptr, value);                                     \
    }                                                                          \
    static pgas_status_t get_##tag(unsigned char *to, pgas_gptr_t ptr)         \
    {                                                                          \
        type value = 0;                                                        \
        pgas_status_t status = pgas_get_##tag(ptr, &value);                    \
        memcpy(to, &value, sizeof value);                                      \
        return status;                                                         \
    }
SCALAR(u8, uint8_t)
SCALAR(u16, uint16_t)
SCALAR(u32, uint32_t)
SCALAR(u64, uint64_t)
SCALAR(i8, int8_t)
SCALAR(i16, int16_t)
SCALAR(i32, int32_t)
SCALAR(i64, int64_t)
SCALAR(f32, float)
SCALAR(f64, double)
#undef SCALAR

static const struct {
    const char *tag;
    size_t bytes;
    pgas_status_t (*put)(pgas_gptr_t ptr, const unsigned char *from);
    pgas_status_t (*get)(unsigned char *to, pgas_gptr_t ptr);
} scalars[] = { { "u8", 1, put_u8, get_u8 },    { "u16", 2, put_u16, get_u16 },
                { "u32", 4, put_u32, get_u32 }, { "u64", 8, put_u64, get_u64 },
                { "i8", 1, put_i8, get_i8 },    { "i16", 2, put_i16, get_i16 },
                { "i32", 4, put_i32, get_i32 }, { "i64", 8, put_i64, get_i64 },
                { "f32", 4, put_f32, get_f32 }, { "f64", 8, put_f64, get_f64 } };
#define N_SCALARS (sizeof scalars / sizeof scalars[0])

static void one_scalar(model_t *m, int rank)
{
    size_t k = (size_t)below(m, N_SCALARS), bytes = scalars[k].bytes,
           offset = (size_t)below(m, SHARD / bytes) * bytes;
    unsigned char value[8];
    if (below(m, 2)) {
        randomize(m, value, bytes);
        before_write(m, rank, offset, bytes);
        memcpy(is_at(m, rank, offset), value, bytes);
        judge(m, scalars[k].put(at(m, rank, offset), value) == PGAS_OK, "put of a scalar");
        wrote(m, rank, offset, bytes);
    } else {
        before_read(m, rank, offset, bytes);
        judge(m, scalars[k].get(value, at(m, rank, offset)) == PGAS_OK, "get of a scalar");
        judge(m, memcmp(value, is_at(m, rank, offset), bytes) == 0, "value of a scalar");
    }
}

/* Blocks on the far side do not overlap; on the near side they may when they are only read. */
static void one_strided(model_t *m, int rank)
{
    size_t block = (size_t)below(m, 100) + 1, n = (size_t)below(m, 20),
           far_step = block + (size_t)below(m, 60);
    size_t near_step = block + (size_t)below(m, 30);
    int64_t far_stride = below(m, 2) ? (int64_t)far_step : -(int64_t)far_step;
    size_t span = n ? (n - 1) * far_step + block : 0;
    size_t low = (size_t)below(m, SHARD - span + 1);
    size_t first = far_stride < 0 && n ? low + (n - 1) * far_step : low;
    bool put = below(m, 2), reversed = below(m, 2);
    int64_t near_stride = reversed ? -(int64_t)near_step : (int64_t)near_step;
    if (put && below(m, 4) == 0)
        near_stride = 0;
    unsigned char *near = m->buffer + (near_stride < 0 && n ? (n - 1) * near_step : 0);
    randomize(m, m->buffer, 20 * 130);
    if (put) {
        before_write(m, rank, low, span);
        for (size_t i = 0; i < n; i++)
            memcpy(is_at(m, rank, (size_t)((int64_t)first + (int64_t)i * far_stride)),
                   near + (int64_t)i * near_stride, block);
        judge(m,
              pgas_put_strided(at(m, rank, first), far_stride, near, near_stride, block, n) ==
                  PGAS_OK,
              "put_strided");
        wrote(m, rank, low, span);
        return;
    }
    before_read(m, rank, low, span);
    judge(m,
          pgas_get_strided(near, near_stride, at(m, rank, first), far_stride, block, n) == PGAS_OK,
          "get_strided");
    for (size_t i = 0; i < n; i++)
        judge(m,
              memcmp(near + (int64_t)i * near_stride,
                     is_at(m, rank, (size_t)((int64_t)first + (int64_t)i * far_stride)),
                     block) == 0,
              "blocks of get_strided");
}

/* Elements of one shard in one call, which orders nothing: everything before it is flushed. */
static void one_many(model_t *m, int rank)
{
    pgas_gptr_t ptrs[40];
    size_t place[40], elem = (size_t)below(m, 24) + 1, n = (size_t)below(m, 41);
    pgas_sync_t done = PGAS_SYNC_INIT;
    bool put = below(m, 2);
    for (size_t i = 0; i < n; i++) /* distinct for a put: SHARD / elem is above 1000 */
        place[i] = (size_t)(put ? i * 25 + below(m, 25) : below(m, SHARD / elem)) * elem;
    for (size_t i = n; i > 1 && put; i--) {
        size_t k = (size_t)below(m, i), other = place[k];
        place[k] = place[i - 1];
        place[i - 1] = other;
    }
    for (size_t i = 0; i < n; i++)
        ptrs[i] = at(m, rank, place[i]);
    flush_everything(m);
    if (put) {
        randomize(m, m->buffer, n * elem);
        for (size_t i = 0; i < n; i++)
            memcpy(is_at(m, rank, place[i]), m->buffer + i * elem, elem);
        judge(m, pgas_put_many(ptrs, m->buffer, elem, n, &done) == PGAS_OK, "put_many");
    } else {
        judge(m, pgas_get_many(m->buffer, ptrs, elem, n, &done) == PGAS_OK, "get_many");
    }
    judge(m, pgas_sync_wait(&done, -1) == PGAS_OK, "wait of many elements");
    for (size_t i = 0; i < n; i++)
        judge(m, memcmp(m->buffer + i * elem, is_at(m, rank, place[i]), elem) == 0,
              "elements of get_many");
}

/* Several puts under way, each with a buffer of its own and its own promise: local completion,
 * remote completion, or none before a flush. Some have a counter of their own, others share one. */
static void some_puts_nb(model_t *m, int rank)
{
    pgas_sync_t own[MODEL_NB], shared = PGAS_SYNC_INIT;
    pgas_when_t when[MODEL_NB];
    size_t offset[MODEL_NB], bytes[MODEL_NB];
    bool apart = below(m, 2), with_counter = below(m, 4), alone[MODEL_NB];
    size_t room = apart ? SHARD / MODEL_NB : SHARD;
    memset(own, 0, sizeof own);
    for (int i = 0; i < MODEL_NB; i++) {
        unsigned char *from = m->buffer + (size_t)i * SHARD;
        bytes[i] = pick_bytes(m, room);
        offset[i] = (apart ? (size_t)i * room : 0) + (size_t)below(m, room - bytes[i] + 1);
        when[i] = below(m, 2) ? PGAS_LOCAL : PGAS_REMOTE;
        alone[i] = below(m, 2);
        randomize(m, from, bytes[i]);
        before_write(m, rank, offset[i], bytes[i]);
        memcpy(is_at(m, rank, offset[i]), from, bytes[i]);
        pgas_sync_t *sync = alone[i] ? &own[i] : &shared;
        judge(m,
              pgas_put_nb(at(m, rank, offset[i]), from, bytes[i], when[i],
                          with_counter ? sync : NULL) == PGAS_OK,
              "put_nb");
        wrote(m, rank, offset[i], bytes[i]);
    }
    if (!with_counter)
        flush_everything(m);
    int first = (int)below(m, MODEL_NB);
    for (int k = 0; k < MODEL_NB; k++) {
        int i = (first + k) % MODEL_NB;
        pgas_sync_t *sync = alone[i] ? &own[i] : &shared;
        pgas_status_t status;
        while ((status = pgas_sync_test(sync)) == PGAS_INPROGRESS && below(m, 8))
            pgas_progress();
        judge(m, status >= PGAS_OK && pgas_sync_wait(sync, -1) == PGAS_OK, "wait of a put");
        judge(m, sync->count == 0 && pgas_sync_test(sync) == PGAS_OK, "counter after its wait");
        memset(m->buffer + (size_t)i * SHARD, 0xdd, bytes[i]);
        if (apart && when[i] == PGAS_REMOTE)
            memset(flag(m->unseen, rank, offset[i]), 0, bytes[i]);
    }
}

static void some_gets_nb(model_t *m, int rank)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    size_t offset[MODEL_NB], bytes[MODEL_NB];
    bool with_counter = below(m, 4);
    before_read(m, rank, 0, SHARD);
    for (int i = 0; i < MODEL_NB; i++) {
        bytes[i] = pick_bytes(m, SHARD / 2);
        offset[i] = (size_t)below(m, SHARD - bytes[i] + 1);
        judge(m,
              pgas_get_nb(m->buffer + (size_t)i * SHARD, at(m, rank, offset[i]), bytes[i],
                          with_counter ? &done : NULL) == PGAS_OK,
              "get_nb");
    }
    if (with_counter) {
        judge(m, pgas_sync_wait(&done, -1) == PGAS_OK, "wait of gets");
    } else {
        judge(m, pgas_flush(rank) == PGAS_OK, "flush of gets");
        seen(m, rank);
    }
    for (int i = 0; i < MODEL_NB; i++)
        judge(m, memcmp(m->buffer + (size_t)i * SHARD, is_at(m, rank, offset[i]), bytes[i]) == 0,
              "bytes of get_nb");
}

static void one_atomic(model_t *m, int rank)
{
    pgas_type_t type = atomic_types[below(m, N_ATOMIC_TYPES)];
    size_t bytes = atomic_bytes(type), offset = (size_t)below(m, SHARD / bytes) * bytes;
    uint64_t was = 0, old = 0, value = 0, operand = pgasi_rng_u64(&m->rng);
    memcpy(&was, is_at(m, rank, offset), bytes);
    pgas_op_t op = atomic_pick(type, (unsigned)below(m, N_ATOMIC_OPS), was, &operand);
    uint64_t compare = below(m, 2) ? was : ~was;
    bool fetch = op == MODEL_COMPARE_SWAP || below(m, 2), nb = below(m, 2), counted = below(m, 4);
    pgas_sync_t done = PGAS_SYNC_INIT;
    before_write(m, rank, offset, bytes);
    if (fetch)
        before_read(m, rank, offset, bytes);
    pgas_gptr_t ptr = at(m, rank, offset);
    pgas_status_t status;
    if (!nb)
        status = atomic_typed(ptr, op, type, operand, compare, fetch ? &old : NULL);
    else if (op == MODEL_COMPARE_SWAP)
        status = pgas_compare_swap_nb(ptr, type, &compare, &operand, &old, counted ? &done : NULL);
    else
        status = pgas_fetch_op_nb(ptr, PGAS_OP(op, type), &operand, fetch ? &old : NULL,
                                  counted ? &done : NULL);
    operand = atomic_result(op, type, was, operand, compare);
    judge(m, status == PGAS_OK, "atomic");
    memcpy(is_at(m, rank, offset), &operand, bytes);
    wrote(m, rank, offset, bytes);
    if (nb && counted)
        judge(m, pgas_sync_wait(&done, -1) == PGAS_OK, "wait of an atomic");
    else if (nb)
        flush_everything(m);
    if (nb && counted && !fetch)
        memset(flag(m->unseen, rank, offset), 0, bytes); /* remotely complete */
    memcpy(&value, &old, bytes);
    judge(m, !fetch || memcmp(&value, &was, bytes) == 0, "old value of an atomic");
}

static void one_put_signal(model_t *m, int rank)
{
    size_t bytes = pick_bytes(m, SHARD - 64), offset = (size_t)below(m, SHARD - 64 - bytes + 1);
    size_t word = SHARD - 64 + 8 * (size_t)below(m, 8);
    pgas_op_t op = below(m, 2) ? PGAS_SWAP : PGAS_ADD;
    uint64_t value = pgasi_rng_u64(&m->rng), now;
    randomize(m, m->buffer, bytes);
    before_write(m, rank, offset, bytes);
    before_write(m, rank, word, 8);
    memcpy(&now, is_at(m, rank, word), 8);
    now = op == PGAS_SWAP ? value : now + value;
    memcpy(is_at(m, rank, word), &now, 8);
    memcpy(is_at(m, rank, offset), m->buffer, bytes);
    judge(m,
          pgas_put_signal(at(m, rank, offset), m->buffer, bytes, at(m, rank, word), value, op) ==
              PGAS_OK,
          "put_signal");
    wrote(m, rank, offset, bytes);
    wrote(m, rank, word, 8);
}

/* From the lower half of one shard to the upper half of another. */
static void one_copy(model_t *m, int rank)
{
    int to = (int)below(m, (uint64_t)m->n);
    size_t bytes = pick_bytes(m, SHARD / 2), from_offset = (size_t)below(m, SHARD / 2 - bytes + 1);
    size_t to_offset = SHARD / 2 + (size_t)below(m, SHARD / 2 - bytes + 1);
    before_read(m, rank, from_offset, bytes);
    before_write(m, to, to_offset, bytes);
    memcpy(is_at(m, to, to_offset), is_at(m, rank, from_offset), bytes);
    judge(m, pgas_copy(at(m, to, to_offset), at(m, rank, from_offset), bytes) == PGAS_OK, "copy");
    memset(flag(m->unseen, to, to_offset), 0, bytes); /* remotely complete */
}

static void one_order(model_t *m, int rank)
{
    switch (below(m, 4)) {
    case 0:
        judge(m, pgas_fence() == PGAS_OK, "fence");
        memset(m->unordered, 0, (size_t)m->n * SHARD);
        break;
    case 1:
        flush_everything(m);
        break;
    case 2:
        judge(m, pgas_flush(rank) == PGAS_OK, "flush");
        seen(m, rank);
        break;
    default:
        pgas_progress();
    }
}

/* Every rank compares its area with the contents that the others expect. @return the bytes that
 * differ */
static int compare_all(model_t *m)
{
    unsigned char *theirs = job_alloc((size_t)m->n * SHARD);
    int n_bad = 0;
    pgas_barrier(NULL); /* all have flushed */
    pgas_alltoall(NULL, m->is, theirs, SHARD);
    for (size_t i = 0; i < (size_t)m->n * SHARD; i++)
        n_bad += theirs[i] != m->area->own[i];
    free(theirs);
    pgas_barrier(NULL); /* all have checked */
    return n_bad;
}

/* Runs n_steps random operations. One bit of what rank breaker (-1: none) believes is turned over
 * at the end. Returns how many things were wrong, here; prints the first. */
static int model_run(const area_t *area, uint64_t seed, int n_steps, int breaker)
{
    static void (*const ops[])(model_t *, int) = { one_put,      one_get,    one_scalar,
                                                   one_strided,  one_many,   some_puts_nb,
                                                   some_gets_nb, one_atomic, one_put_signal,
                                                   one_copy,     one_order };
    size_t bytes = (size_t)pgas_n_ranks() * SHARD;
    model_t m = { .area = area, .me = pgas_rank(), .n = pgas_n_ranks() };
    m.is = job_alloc(bytes);
    m.unordered = job_alloc(bytes);
    m.unseen = job_alloc(bytes);
    m.buffer = job_alloc((size_t)MODEL_NB * SHARD + 8);
    pgasi_rng_seed(&m.rng, seed + (uint64_t)m.me * 1000003);
    randomize(&m, m.is, bytes);
    for (int r = 0; r < m.n; r++)
        judge(&m, pgas_put(at(&m, r, 0), is_at(&m, r, 0), SHARD) == PGAS_OK, "first put");
    memset(m.unordered, 1, bytes);
    memset(m.unseen, 1, bytes);
    for (int step = 0; step < n_steps; step++)
        ops[below(&m, sizeof ops / sizeof ops[0])](&m, (int)below(&m, (uint64_t)m.n));
    flush_everything(&m);
    if (m.me == breaker)
        m.is[below(&m, bytes)] ^= 4;
    int n_wrong = compare_all(&m);
    if (m.n_bad || (n_wrong && breaker < 0))
        printf("# rank %d, %s: %d wrong, first: %s; %d bytes of the area differ at the end\n", m.me,
               area->name, m.n_bad, m.n_bad ? m.what : "-", n_wrong);
    free(m.is);
    free(m.unordered);
    free(m.unseen);
    free(m.buffer);
    return m.n_bad + n_wrong;
}

#endif
