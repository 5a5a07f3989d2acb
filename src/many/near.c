/* Loops over elements that this process maps: see near.h.
 *
 * Each loop translates the pointer of an element. Updates also request the cache line of the
 * element that is AHEAD elements further, because the processor begins few loads by itself between
 * two locked instructions. Gets do so if that is faster. All loops request the arrays of pointers
 * and values. With two ranks and 2 * 10^6 words, updates reached 155 M/s, 84 M/s without the lines
 * of the arrays, and 75 M/s in blocks of 64 elements, whose requests come in bursts. Plain pointers
 * reached 107 M/s. */
#include "many/near.h"

#include <string.h>

#include "base/checks.h"
#include "base/clock.h"
#include "base/op.h"

#define AHEAD        32    /* 16 .. 64 differ by less than the noise */
#define RUN          8     /* elements of 8 bytes in a cache line */
#define SHORT        1024  /* elements; see FASTER */
#define LONG         32768 /* elements; see FASTER */
#define STREAM_AHEAD 1024  /* bytes */
#define BLOCK        64    /* words of an update by compare-and-swap whose addresses are known */

enum { STAYS, IS_READ, IS_WRITTEN }; /* what a loop requests cache lines for; STAYS: it does not */

static inline void request_line(const void *line, int use)
{
    if (use == IS_READ)
        __builtin_prefetch(line, 0);
    else
        __builtin_prefetch(line, 1);
}

/* Requests lines of the arrays of pointers and values, once for each RUN elements. Random accesses
 * keep the processor from noticing that these arrays are read in order. The arrays are numbers
 * here, because an operation may be without one of them. */
static inline void request_streams(uintptr_t where, uintptr_t from, uintptr_t to)
{
    __builtin_prefetch((const void *)(where + STREAM_AHEAD), 0);
    __builtin_prefetch((const void *)(from + STREAM_AHEAD), 0);
    __builtin_prefetch((const void *)(to + STREAM_AHEAD), 1);
}

/* The address of a word that is not in a heap of the node: of attached memory. */
static __attribute__((noinline, cold)) void *attached_word_at(pgas_gptr_t ptr, size_t bytes)
{
    return ptr % bytes == 0 ? pgas_gptr_local(ptr, bytes) : NULL;
}

#define PRAGMA(x) _Pragma(#x)

/* Carries out element i. The arguments are those of LOOP. */
#define ONE(T, use, HAS, ADDRESS, OTHER, ...)                \
    do {                                                     \
        T *word = ADDRESS(where[i], T);                      \
        if (PGAS_UNLIKELY(!HAS(where[i], T))) {              \
            word = OTHER(where[i], T);                       \
            if (!word)                                       \
                return i;                                    \
        }                                                    \
        if (use != STAYS && PGAS_LIKELY(i < last))           \
            request_line(ADDRESS(where[i + AHEAD], T), use); \
        __VA_ARGS__                                          \
    } while (0)

/* Defines a function for elements of type T. ADDRESS(i) is the address of element i if HAS(i), and
 * then needs no branch. Otherwise it is OTHER(i), or NULL. The last arguments carry out element i,
 * whose address is `word`. */
#define LOOP(name, T, use, where_t, HAS, ADDRESS, OTHER, ...)                           \
    static size_t name(const pgasi_many_t *m, const where_t *where, size_t i, size_t n) \
    {                                                                                   \
        const char *const from = m->from;                                               \
        char *const to = m->to, *const base = m->base;                                  \
        const uint32_t *const place = m->place;                                         \
        const uint64_t step = m->step, n_units = m->n_units;                            \
        const size_t last = n > AHEAD ? n - AHEAD : 0;                                  \
        (void)from, (void)to, (void)base, (void)place, (void)step, (void)n_units;       \
        for (; i + RUN <= n;) {                                                         \
            request_streams((uintptr_t)&where[i], (uintptr_t)from + i * step,           \
                            (uintptr_t)to + i * sizeof(T));                             \
            PRAGMA(GCC unroll 8)                                                        \
            for (int k = 0; k < RUN; k++, i++)                                          \
                ONE(T, use, HAS, ADDRESS, OTHER, __VA_ARGS__);                          \
        }                                                                               \
        for (; i < n; i++)                                                              \
            ONE(T, use, HAS, ADDRESS, OTHER, __VA_ARGS__);                              \
        return i;                                                                       \
    }

/* The two forms of a loop. */
#define PTR_HAS(ptr, T)         pgas_heap_has_word(ptr, sizeof(T))
#define PTR_ADDRESS(ptr, T)     pgas_heap_address(ptr)
#define PTR_OTHER(ptr, T)       attached_word_at(ptr, sizeof(T))
#define INDEX_HAS(index, T)     ((index) < n_units)
#define INDEX_ADDRESS(index, T) ((T *)(void *)(base + (uint64_t)(index) * sizeof(T)))
#define INDEX_OTHER(index, T)   NULL
#define NEAR(name, T, use, ...) \
    LOOP(near_##name, T, use, pgas_gptr_t, PTR_HAS, PTR_ADDRESS, PTR_OTHER, __VA_ARGS__)
#define BATCH(name, T, use, ...) \
    LOOP(batch_##name, T, use, uint32_t, INDEX_HAS, INDEX_ADDRESS, INDEX_OTHER, __VA_ARGS__)

/* ---- gets and puts ---- */

#define LOAD(T, number)                                \
    T value = __atomic_load_n(word, __ATOMIC_RELAXED); \
    memcpy(to + (number) * sizeof value, &value, sizeof value);
#define STORE(T)                                           \
    T value;                                               \
    memcpy(&value, from + i * sizeof value, sizeof value); \
    __atomic_store_n(word, value, __ATOMIC_RELAXED);

/* Defines a function that runs the faster of two. Requests of lines cost a fifth where lines are in
 * a near cache, and save a fifth where they are not. Only time shows which holds: a part of SHORT
 * elements by each function decides how a part of LONG elements runs. */
#define FASTER(name, one, other)                                                                  \
    static size_t near_##name(const pgasi_many_t *m, const pgas_gptr_t *ptrs, size_t i, size_t n) \
    {                                                                                             \
        while (n - i > LONG) {                                                                    \
            size_t a = i + SHORT, b = a + SHORT, end = PGASI_MIN(n, b + LONG);                    \
            uint64_t begin = pgasi_cycles();                                                      \
            i = near_##one(m, ptrs, i, a);                                                        \
            uint64_t middle = pgasi_cycles();                                                     \
            i = i == a ? near_##other(m, ptrs, a, b) : i;                                         \
            bool first = middle - begin < pgasi_cycles() - middle;                                \
            if (i == b)                                                                           \
                i = first ? near_##one(m, ptrs, b, end) : near_##other(m, ptrs, b, end);          \
            if (i != end)                                                                         \
                return i;                                                                         \
        }                                                                                         \
        return near_##one(m, ptrs, i, n);                                                         \
    }

#define COPY(T)                                               \
    NEAR(get_plain_##T, T, STAYS, LOAD(T, i))                 \
    NEAR(get_ahead_##T, T, IS_READ, LOAD(T, i))               \
    FASTER(get_##T, get_plain_##T, get_ahead_##T)             \
    BATCH(get_##T, T, IS_READ, LOAD(T, place ? place[i] : i)) \
    NEAR(put_##T, T, STAYS, STORE(T))                         \
    BATCH(put_##T, T, IS_WRITTEN, STORE(T))
COPY(uint8_t)
COPY(uint16_t)
COPY(uint32_t)
COPY(uint64_t)

/* Elements of any size and alignment. */

static inline void copy_bytes(const pgasi_many_t *m, void *at, size_t i)
{
    if (m->kind == PGASI_MANY_GET)
        memcpy(m->to + (m->place ? m->place[i] : i) * m->elem_bytes, at, m->elem_bytes);
    else
        memcpy(at, m->from + i * m->elem_bytes, m->elem_bytes);
}

static size_t near_bytes(const pgasi_many_t *m, const pgas_gptr_t *ptrs, size_t i, size_t n)
{
    for (void *at; i < n && (at = pgas_gptr_local(ptrs[i], m->elem_bytes)) != NULL; i++)
        copy_bytes(m, at, i);
    return i;
}

static size_t batch_bytes(const pgasi_many_t *m, const uint32_t *index, size_t i, size_t n)
{
    unsigned shift = (unsigned)__builtin_ctzll(m->elem_bytes);
    for (; i < n && index[i] < m->n_units; i++)
        copy_bytes(m, m->base + ((uint64_t)index[i] << shift), i);
    return i;
}

/* ---- updates ----
 *
 * Integers of one size share the operators that have an instruction. Signs do not matter for
 * these, because sums wrap around. */

#define MODIFY(name, T)                            \
    T value;                                       \
    memcpy(&value, from + i * step, sizeof value); \
    (void)__atomic_##name##_n(word, value, __ATOMIC_RELAXED);
#define UPDATE(name, T)                              \
    NEAR(name##_##T, T, IS_WRITTEN, MODIFY(name, T)) \
    BATCH(name##_##T, T, IS_WRITTEN, MODIFY(name, T))
#define __atomic_fetch_add_n __atomic_fetch_add
#define __atomic_fetch_and_n __atomic_fetch_and
#define __atomic_fetch_or_n  __atomic_fetch_or
#define __atomic_fetch_xor_n __atomic_fetch_xor
#define UPDATES(T)       \
    UPDATE(fetch_add, T) \
    UPDATE(fetch_and, T) \
    UPDATE(fetch_or, T)  \
    UPDATE(fetch_xor, T) \
    UPDATE(exchange, T)
UPDATES(uint8_t)
UPDATES(uint16_t)
UPDATES(uint32_t)
UPDATES(uint64_t)

/* All other operators: compare-and-swap, block by block. The functions `locate` store the addresses
 * of a block in an array, and request their cache lines. */
#define KEEP()                       \
    ((void **)(void *)to)[i] = word; \
    request_line(word, IS_WRITTEN);
#define LOCATE(T)                      \
    NEAR(locate_##T, T, STAYS, KEEP()) \
    BATCH(locate_##T, T, STAYS, KEEP())
LOCATE(uint8_t)
LOCATE(uint16_t)
LOCATE(uint32_t)
LOCATE(uint64_t)

#define BY_SIZE(name)                                                     \
    {                                                                     \
        name##_uint8_t, name##_uint16_t, name##_uint32_t, name##_uint64_t \
    }
#define UPDATE_BLOCKS(form, where_t)                                                             \
    static size_t form##_blocks(const pgasi_many_t *m, const where_t *where, size_t i, size_t n) \
    {                                                                                            \
        static const pgasi_many_##form##_fn_t locate[] = BY_SIZE(form##_locate);                 \
        const pgas_op_def_t *def = pgasi_op_find(PGAS_OP(m->op, m->type));                       \
        void *at[BLOCK];                                                                         \
        pgasi_many_t block = *m;                                                                 \
        block.to = (char *)at;                                                                   \
        for (size_t here, wanted; i < n; i += here) {                                            \
            wanted = PGASI_MIN(n - i, BLOCK);                                                    \
            here = locate[__builtin_ctzll(m->elem_bytes)](&block, where + i, 0, wanted);         \
            pgasi_op_update_at(def, at, m->from + i * m->step, m->step, here);                   \
            if (here < wanted)                                                                   \
                return i + here;                                                                 \
        }                                                                                        \
        return n;                                                                                \
    }
UPDATE_BLOCKS(near, pgas_gptr_t)
UPDATE_BLOCKS(batch, uint32_t)

#define ROW(op) ((op) >> 4)
#define BY_OP(form, T)                                                                  \
    {                                                                                   \
        [ROW(PGAS_ADD)] = form##_fetch_add_##T, [ROW(PGAS_AND)] = form##_fetch_and_##T, \
        [ROW(PGAS_OR)] = form##_fetch_or_##T, [ROW(PGAS_XOR)] = form##_fetch_xor_##T,   \
        [ROW(PGAS_SWAP)] = form##_exchange_##T                                          \
    }
#define BY_SIZE_AND_OP(form)                                                                      \
    {                                                                                             \
        BY_OP(form, uint8_t), BY_OP(form, uint16_t), BY_OP(form, uint32_t), BY_OP(form, uint64_t) \
    }
static const pgasi_many_near_fn_t near_update[][ROW(PGAS_SWAP) + 1] = BY_SIZE_AND_OP(near);
static const pgasi_many_batch_fn_t batch_update[][ROW(PGAS_SWAP) + 1] = BY_SIZE_AND_OP(batch);

/* Sets the functions of an update. @return false: there is no such update */
static bool set_update(pgasi_many_t *m)
{
    unsigned log_bytes = (unsigned)__builtin_ctzll(m->elem_bytes);
    bool is_float = m->type == PGAS_F32 || m->type == PGAS_F64, is_swap = m->op == PGAS_SWAP;
    if (m->op > PGAS_SWAP || m->op % (1 << 4) != 0)
        return false;
    if (!is_swap && !pgasi_op_find(PGAS_OP(m->op, m->type)))
        return false;
    m->near = near_update[log_bytes][ROW(m->op)];
    m->batch = batch_update[log_bytes][ROW(m->op)];
    if (!m->near || (is_float && !is_swap)) {
        m->near = near_blocks;
        m->batch = batch_blocks;
    }
    return true;
}

/* ---- operations ---- */

/* The value 1. */
static const void *one_of(pgas_type_t type)
{
    static const union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
        float f32;
        double f64;
    } u8 = { .u8 = 1 }, u16 = { .u16 = 1 }, u32 = { .u32 = 1 }, u64 = { .u64 = 1 },
      f32 = { .f32 = 1 }, f64 = { .f64 = 1 };
    static const void *const by_type[] = {
        [PGAS_U8] = &u8,   [PGAS_U16] = &u16, [PGAS_U32] = &u32, [PGAS_U64] = &u64,
        [PGAS_I8] = &u8,   [PGAS_I16] = &u16, [PGAS_I32] = &u32, [PGAS_I64] = &u64,
        [PGAS_F32] = &f32, [PGAS_F64] = &f64,
    };
    return by_type[type];
}

void pgasi_many_allow_unaligned(pgasi_many_t *m)
{
    m->near = near_bytes;
    m->batch = batch_bytes;
}

bool pgasi_many_init(pgasi_many_t *m, pgasi_many_kind_t kind, pgas_op_t op, pgas_type_t type,
                     size_t elem_bytes, const char *from)
{
    static const pgasi_many_near_fn_t near[][4] = { BY_SIZE(near_get), BY_SIZE(near_put) };
    static const pgasi_many_batch_fn_t batch[][4] = { BY_SIZE(batch_get), BY_SIZE(batch_put) };
    bool is_update = kind == PGASI_MANY_UPDATE;
    size_t bytes = is_update ? pgasi_type_bytes(type) : elem_bytes;
    *m = (pgasi_many_t){
        .kind = kind, .op = op, .type = type, .elem_bytes = bytes, .from = from, .step = bytes
    };
    if (is_update && !from && bytes) {
        m->from = one_of(type);
        m->step = 0;
    }
    if (is_update)
        return bytes && set_update(m);
    pgasi_many_allow_unaligned(m);
    if (bytes <= sizeof(uint64_t) && PGASI_IS_POW2(bytes)) {
        m->near = near[kind][__builtin_ctzll(bytes)];
        m->batch = batch[kind][__builtin_ctzll(bytes)];
    }
    return true;
}
