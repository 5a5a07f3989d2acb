/* Random operations of all threads of all ranks on an array, against a plain one: the model of
 * t/spmd/array_model.c.
 *
 * Every rank knows the values of all elements at the beginning of a phase. In a phase of owners one
 * thread changes each element and keeps its value. In a phase of contributions all threads apply
 * operators and keep their contributions. In a phase of tickets all threads add one to a few
 * elements and keep the numbers that they got. Then the ranks exchange these, and all threads read.
 * In elements of more than 8 bytes each byte depends on the first eight, so that a torn value is
 * noticed. */
#ifndef T_SPMD_ARRAY_MODEL_H
#define T_SPMD_ARRAY_MODEL_H

#include "t/spmd/array_crew.h"

#define MODEL_ELEMS_MAX   3000
#define MODEL_BYTES_MAX   100
#define MODEL_TICKETS_MAX 256
#define MODEL_HOT         4

typedef struct {
    pgasi_rng_t rng;
    uint32_t own[MODEL_ELEMS_MAX], n_own;
    uint64_t applied[MODEL_ELEMS_MAX]; /* this thread's contributions, combined */
    uint64_t seen[MODEL_ELEMS_MAX];    /* the value that it read last, where values only grow */
} model_thread_t;

typedef struct {
    pgas_array_t *array;
    uint64_t seed, phase;
    int n_threads, me, n_ranks; /* threads of each rank */
    uint32_t n, bytes, chunk;
    pgas_op_t op[4]; /* by kind; of structures all are one */
    bool scarce;     /* fewer lines than threads: then all may be pinned */
    /* through pins, in this phase: then values of others may be seen half written on the node */
    bool plain_writes;
    unsigned char *is, *next;
    uint64_t *deltas, *all; /* n, by kind of the element */
    uint32_t *marks, *all_marks;
    model_thread_t *thread;
} model_t;

enum { KIND_ADD, KIND_XOR, KIND_MAX, KIND_MIN };

static inline uint64_t model_hash(const model_t *m, uint64_t what, uint64_t i)
{
    uint64_t x = m->seed ^ m->phase << 40 ^ what << 32 ^ i;
    return pgas_splitmix(&x);
}

static inline uint64_t model_below(model_thread_t *t, uint64_t n)
{
    return pgasi_rng_below(&t->rng, n);
}

static inline unsigned char *model_elem(const model_t *m, unsigned char *of, uint64_t i)
{
    return of + i * m->bytes;
}

/* ---- values ---- */

static inline bool model_is_scalar(const model_t *m)
{
    return m->bytes <= 8 && (m->bytes & (m->bytes - 1)) == 0;
}

static inline uint64_t model_mask(const model_t *m)
{
    return m->bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << 8 * m->bytes) - 1;
}

static inline uint64_t model_word(const model_t *m, const void *elem)
{
    uint64_t word = 0;
    memcpy(&word, elem, m->bytes < 8 ? m->bytes : 8);
    return word;
}

static inline void model_value(const model_t *m, uint64_t word, unsigned char *to)
{
    memcpy(to, &word, m->bytes < 8 ? m->bytes : 8);
    for (uint32_t i = 8; i < m->bytes; i++)
        to[i] = (unsigned char)(to[i % 8] + 7 * (i / 8));
}

static inline bool model_is_whole(const model_t *m, const unsigned char *elem)
{
    unsigned char whole[MODEL_BYTES_MAX];
    model_value(m, model_word(m, elem), whole);
    return memcmp(whole, elem, m->bytes) == 0;
}

/* ---- operators: those of structures add a byte to each byte ---- */

static void add_operand(void *to, const void *from)
{
    *(unsigned char *)to = (unsigned char)(*(unsigned char *)to + *(const unsigned char *)from);
}

static inline void add_bytes(void *elem, const void *operand, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)elem)[i] =
            (unsigned char)(((unsigned char *)elem)[i] + *(const unsigned char *)operand);
}

#define ADD_BYTES(n)                                           \
    static void add_bytes_##n(void *elem, const void *operand) \
    {                                                          \
        add_bytes(elem, operand, n);                           \
    }
ADD_BYTES(3)
ADD_BYTES(12)
ADD_BYTES(24)
ADD_BYTES(100)

static inline bool model_register(model_t *m)
{
    static const struct {
        uint32_t bytes;
        const char *name;
        void (*merge)(void *elem, const void *operand);
    } made[] = { { 3, "t.add3", add_bytes_3 },
                 { 12, "t.add12", add_bytes_12 },
                 { 24, "t.add24", add_bytes_24 },
                 { 100, "t.add100", add_bytes_100 } };
    static const unsigned char zero;
    if (model_is_scalar(m)) {
        static const uint32_t types[] = {
            [1] = PGAS_U8, [2] = PGAS_U16, [4] = PGAS_U32, [8] = PGAS_U64
        };
        uint32_t type = types[m->bytes];
        m->op[KIND_ADD] = PGAS_OP(PGAS_ADD, type);
        m->op[KIND_XOR] = PGAS_OP(PGAS_XOR, type);
        m->op[KIND_MAX] = PGAS_OP(PGAS_MAX, type);
        m->op[KIND_MIN] = PGAS_OP(PGAS_MIN, type);
        return true;
    }
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        pgas_op_def_t def = { made[i].bytes, 1, &zero, add_operand, made[i].merge };
        if (made[i].bytes == m->bytes && BAD(pgas_op_register(made[i].name, &def, &m->op[0])))
            return false;
    }
    m->op[1] = m->op[2] = m->op[3] = m->op[0];
    return true;
}

static inline int model_kind(const model_t *m, uint64_t i)
{
    return model_is_scalar(m) ? (int)(i % 4) : KIND_ADD;
}

static inline uint64_t model_combined(int kind, uint64_t a, uint64_t b)
{
    switch (kind) {
    case KIND_ADD:
        return a + b;
    case KIND_XOR:
        return a ^ b;
    case KIND_MAX:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

/* Applies a contribution of its kind to element i. */
static inline void model_merge(const model_t *m, unsigned char *elem, uint64_t i, uint64_t operand)
{
    unsigned char byte = (unsigned char)operand;
    if (!model_is_scalar(m)) {
        add_bytes(elem, &byte, m->bytes);
        return;
    }
    uint64_t word = model_combined(model_kind(m, i), model_word(m, elem), operand & model_mask(m));
    memcpy(elem, &word, m->bytes);
}

static inline uint64_t model_operand(const model_t *m, model_thread_t *t, uint64_t i)
{
    uint64_t x = pgasi_rng_u64(&t->rng);
    return model_kind(m, i) == KIND_ADD ? x % 200 : x & model_mask(m);
}

/* ---- accesses to the array, by a random function ---- */

static inline void model_set(model_t *m, model_thread_t *t, uint64_t i, const unsigned char *value)
{
    uint64_t word = model_word(m, value);
    if (!model_is_scalar(m) || model_below(t, 2))
        BAD(pgas_array_set(m->array, i, value));
    else if (m->bytes == 1)
        BAD(pgas_array_set_u8(m->array, i, (uint8_t)word));
    else if (m->bytes == 2)
        BAD(pgas_array_set_u16(m->array, i, (uint16_t)word));
    else if (m->bytes == 4)
        BAD(pgas_array_set_u32(m->array, i, (uint32_t)word));
    else
        BAD(pgas_array_set_u64(m->array, i, word));
}

static inline void model_get(model_t *m, model_thread_t *t, uint64_t i, unsigned char *to)
{
    memset(to, 0x5a, m->bytes);
    if (!model_is_scalar(m) || model_below(t, 2))
        BAD(pgas_array_get(m->array, i, to));
    else if (m->bytes == 1)
        BAD(pgas_array_get_u8(m->array, i, to));
    else if (m->bytes == 2)
        BAD(pgas_array_get_u16(m->array, i, (uint16_t *)(void *)to));
    else if (m->bytes == 4)
        BAD(pgas_array_get_u32(m->array, i, (uint32_t *)(void *)to));
    else
        BAD(pgas_array_get_u64(m->array, i, (uint64_t *)(void *)to));
}

static inline void model_apply(model_t *m, model_thread_t *t, uint64_t i, uint64_t operand)
{
    pgas_op_t op = m->op[model_kind(m, i)];
    if (!model_is_scalar(m) || model_below(t, 2))
        BAD(pgas_array_apply(m->array, i, op, &operand)); /* little endian, as all of the library */
    else if (m->bytes == 1)
        BAD(pgas_array_apply_u8(m->array, i, op, (uint8_t)operand));
    else if (m->bytes == 2)
        BAD(pgas_array_apply_u16(m->array, i, op, (uint16_t)operand));
    else if (m->bytes == 4)
        BAD(pgas_array_apply_u32(m->array, i, op, (uint32_t)operand));
    else
        BAD(pgas_array_apply_u64(m->array, i, op, operand));
}

/* True: there is no pin, and that is right because cache lines are scarce. */
static inline bool model_no_pin(const model_t *m, pgas_status_t status, const char *what)
{
    return (m->scarce && status == PGAS_ERR_NO_MEMORY) || crew_is_bad(status, PGAS_OK, what);
}

/* ---- a phase of owners ---- */

static inline int model_owner(const model_t *m, uint64_t i)
{
    uint64_t run[] = { 1, 3, m->chunk, 2 * m->chunk + 1 };
    return (int)(model_hash(m, 1, i / run[model_hash(m, 2, 0) % 4]) %
                 (uint64_t)(m->n_ranks * m->n_threads));
}

static inline uint32_t model_run(const model_t *m, uint64_t i, uint32_t most)
{
    uint32_t n = 1;
    while (n < most && i + n < m->n && model_owner(m, i + n) == model_owner(m, i))
        n++;
    return n;
}

static inline void model_draw(model_t *m, model_thread_t *t, uint64_t i)
{
    model_value(m, pgasi_rng_u64(&t->rng), model_elem(m, m->next, i));
}

static inline void own_swap(model_t *m, model_thread_t *t, uint64_t i)
{
    unsigned char expected[MODEL_BYTES_MAX], desired[MODEL_BYTES_MAX], old[MODEL_BYTES_MAX];
    unsigned char *now = model_elem(m, m->next, i);
    bool right = model_below(t, 3) > 0;
    memcpy(expected, now, m->bytes);
    if (!right)
        expected[model_below(t, m->bytes)] ^= 0x10;
    model_value(m, pgasi_rng_u64(&t->rng), desired);
    BAD(pgas_array_compare_swap(m->array, i, expected, desired, old));
    crew_judge(memcmp(old, now, m->bytes) == 0, "compare_swap's old value");
    if (right)
        memcpy(now, desired, m->bytes);
}

static inline void own_fetch(model_t *m, model_thread_t *t, uint64_t i)
{
    unsigned char *now = model_elem(m, m->next, i), old[MODEL_BYTES_MAX];
    uint64_t operand = model_operand(m, t, i);
    BAD(pgas_array_fetch_op(m->array, i, m->op[model_kind(m, i)], &operand, old));
    crew_judge(memcmp(old, now, m->bytes) == 0, "fetch_op's old value");
    model_merge(m, now, i, operand);
}

static inline void own_bulk(model_t *m, model_thread_t *t, uint64_t i)
{
    static _Thread_local unsigned char buffer[64 * MODEL_BYTES_MAX];
    uint32_t n = model_run(m, i, 1 + (uint32_t)model_below(t, 64));
    if (model_below(t, 2)) {
        BAD(pgas_array_load(m->array, i, n, buffer));
        crew_judge(memcmp(buffer, model_elem(m, m->next, i), (size_t)n * m->bytes) == 0,
                   "what load gave");
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        model_draw(m, t, i + k);
    memcpy(buffer, model_elem(m, m->next, i), (size_t)n * m->bytes);
    BAD(pgas_array_store(m->array, i, n, buffer));
    memset(buffer, 0xee, (size_t)n * m->bytes);
}

static inline void own_scattered(model_t *m, model_thread_t *t)
{
    uint64_t index[9];
    unsigned char buffer[9 * MODEL_BYTES_MAX];
    uint32_t n = 1 + (uint32_t)model_below(t, t->n_own < 9 ? t->n_own : 9),
             at = (uint32_t)model_below(t, t->n_own);
    bool reads = model_below(t, 2);
    /* backwards: none is named twice */
    uint32_t step = reads ? (uint32_t)model_below(t, t->n_own) : t->n_own - 1;
    for (uint32_t k = 0; k < n; k++)
        index[k] = t->own[(at + k * step) % t->n_own];
    if (reads) {
        BAD(pgas_array_get_many(m->array, index, n, buffer));
        for (uint32_t k = 0; k < n; k++)
            crew_judge(memcmp(buffer + k * m->bytes, model_elem(m, m->next, index[k]), m->bytes) ==
                           0,
                       "what gather gave");
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        model_draw(m, t, index[k]);
        memcpy(buffer + k * m->bytes, model_elem(m, m->next, index[k]), m->bytes);
    }
    BAD(pgas_array_set_many(m->array, index, n, buffer));
}

/* Own elements of a pinned span, through the pointer or by functions. */
static inline void own_span(model_t *m, model_thread_t *t, unsigned char *data, uint64_t first,
                            uint64_t n, bool writes, int id)
{
    for (uint64_t i = first; i < first + n; i++) {
        unsigned char *there = data + (i - first) * m->bytes, value[MODEL_BYTES_MAX];
        if (model_owner(m, i) != id)
            continue;
        crew_judge(memcmp(there, model_elem(m, m->next, i), m->bytes) == 0, "what is pinned");
        if (writes && model_below(t, 3) == 0) {
            model_draw(m, t, i);
            memcpy(there, model_elem(m, m->next, i), m->bytes);
        } else if (writes && model_below(t, 6) == 0) {
            model_draw(m, t, i);
            model_set(m, t, i, model_elem(m, m->next, i));
        } else if (model_below(t, 6) == 0) {
            model_get(m, t, i, value);
            crew_judge(memcmp(value, model_elem(m, m->next, i), m->bytes) == 0,
                       "a get within a pin");
        }
    }
}

static inline void own_pin(model_t *m, model_thread_t *t, uint64_t i, int id)
{
    pgas_array_pin_t pin, nested;
    bool writes = m->plain_writes && model_below(t, 2);
    pgas_status_t status =
        pgas_array_pin(m->array, i, writes ? PGAS_ARRAY_WRITE : PGAS_ARRAY_READ, 0, &pin);
    if (model_no_pin(m, status, "pin"))
        return;
    crew_judge(pin.first <= i && i < pin.first + pin.n && pin.n <= m->chunk, "a pin's span");
    own_span(m, t, pin.data, pin.first, pin.n, writes, id);
    if (model_below(t, 3) == 0 && !BAD(pgas_array_pin(m->array, i, PGAS_ARRAY_READ, 0, &nested))) {
        crew_judge(nested.data == pin.data && nested.first == pin.first && nested.n == pin.n,
                   "a nested pin");
        BAD(pgas_array_unpin(&nested));
        own_span(m, t, pin.data, pin.first, pin.n, writes, id);
    }
    BAD(pgas_array_unpin(&pin));
}

static inline void own_walk(model_t *m, model_thread_t *t, uint64_t i, int id)
{
    pgas_array_walk_t w;
    bool writes = m->plain_writes && model_below(t, 2);
    uint64_t n = 1 + model_below(t, m->n - i), at = i;
    n = n < 5 * m->chunk ? n : 5 * m->chunk;
    if (BAD(pgas_array_walk_begin(m->array, i, n, writes ? PGAS_ARRAY_WRITE : PGAS_ARRAY_READ, 0,
                                  &w)))
        return;
    while (pgas_array_walk_next(&w)) {
        crew_judge(w.first == at && w.n > 0, "a step of a walk");
        at += w.n;
        own_span(m, t, w.data, w.first, w.n, writes, id);
    }
    if (!model_no_pin(m, pgas_array_walk_end(&w), "walk"))
        crew_judge(at == i + n, "the end of a walk");
}

static inline void look_at_others(model_t *m, model_thread_t *t)
{
    uint64_t i = model_below(t, m->n);
    unsigned char value[MODEL_BYTES_MAX];
    model_get(m, t, i, value);
    crew_judge(m->plain_writes || model_is_whole(m, value), "half a value");
    if (model_below(t, 4) == 0)
        BAD(pgas_array_prefetch(m->array, i, 1 + model_below(t, m->n - i), PGAS_ARRAY_READ, 0,
                                NULL));
}

static inline void model_own_step(model_t *m, model_thread_t *t, int id)
{
    unsigned char value[MODEL_BYTES_MAX];
    uint64_t i = t->own[model_below(t, t->n_own)], operand;
    switch (model_below(t, 14)) {
    case 0:
    case 1:
        model_get(m, t, i, value);
        crew_judge(memcmp(value, model_elem(m, m->next, i), m->bytes) == 0, "what get gave");
        break;
    case 2:
    case 3:
        model_draw(m, t, i);
        model_set(m, t, i, model_elem(m, m->next, i));
        break;
    case 4:
        own_swap(m, t, i);
        break;
    case 5:
        own_fetch(m, t, i);
        break;
    case 6:
    case 7:
        operand = model_operand(m, t, i);
        model_apply(m, t, i, operand);
        model_merge(m, model_elem(m, m->next, i), i, operand);
        break;
    case 8:
        own_bulk(m, t, i);
        break;
    case 9:
        own_scattered(m, t);
        break;
    case 10:
        own_pin(m, t, i, id);
        break;
    case 11:
        own_walk(m, t, i, id);
        break;
    default:
        look_at_others(m, t);
    }
}

static inline void model_own(model_t *m, int who, int n_steps)
{
    model_thread_t *t = &m->thread[who];
    int id = m->me * m->n_threads + who;
    t->n_own = 0;
    for (uint32_t i = 0; i < m->n; i++)
        if (model_owner(m, i) == id)
            t->own[t->n_own++] = i;
    for (int k = 0; k < n_steps; k++)
        if (t->n_own > 0)
            model_own_step(m, t, id);
        else
            look_at_others(m, t);
}

/* The owners send their values to all ranks. */
static inline void model_share_owned(model_t *m)
{
    size_t bytes = (size_t)m->n * m->bytes, words = (bytes + 7) / 8;
    for (uint32_t i = 0; i < m->n; i++)
        if (model_owner(m, i) / m->n_threads != m->me)
            memset(model_elem(m, m->next, i), 0, m->bytes);
    BAD(pgas_allreduce(NULL, m->next, m->is, words, PGAS_U64, PGAS_XOR));
}

#endif
