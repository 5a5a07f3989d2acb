/* Operators. Looking up a number takes no lock. Numbers of built-in operators index a table.
 * Numbers of the program's operators are hashes of their names with the top bit set. They are in a
 * table of open addressing that is at most half full and never loses an entry.
 *
 * Contributions are combined in loops that vectorise. Only the program's own operators are called
 * for each element.
 *
 * Sums of signed integers wrap around. The identity of a floating-point sum is -0.0, because
 * adding 0.0 would turn -0.0 into 0.0. */
#include "base/op.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"

#ifndef __clang__
/* at -O2 the compiler does not vectorise loops of unknown length */
#pragma GCC optimize("vect-cost-model=dynamic")
#endif

/* of numbers */
#define TYPE_MASK UINT32_C(15)
#define OPS_MAX   256
#define SLOTS     (2 * OPS_MAX)
#define BYTES_MAX 65536
/* the source of each copy stays in the nearest cache while an identity is filled in */
#define BLOCK_BYTES 4096

typedef struct {
    PGASI_ALIGNED(16) pgas_op_def_t def;
    /* these are NULL for operators of the program: combine is called for each element */
    void (*run)(void *to, const void *from, uint64_t n);
    void (*run_at)(void *const *at, const void *from, uint64_t n);
    void (*update_at)(void *const *at, const char *from, size_t step, uint64_t n);
    uint32_t number;
    char *name; /* follows the structure in memory, as the identity does */
} op_t;

/* ---- built-in operators ---- */

#define DEFINE(kind, tag, T, neutral, value)                                                      \
    static const T neutral_##kind##_##tag = (neutral);                                            \
    static void kind##_##tag(void *to, const void *from)                                          \
    {                                                                                             \
        T last, operand;                                                                          \
        memcpy(&last, to, sizeof last);                                                           \
        memcpy(&operand, from, sizeof operand);                                                   \
        last = (value);                                                                           \
        memcpy(to, &last, sizeof last);                                                           \
    }                                                                                             \
    static void run_##kind##_##tag(void *to, const void *from, uint64_t n)                        \
    {                                                                                             \
        typedef T any_t __attribute__((may_alias, aligned(1)));                                   \
        any_t *restrict elem = to;                                                                \
        const any_t *restrict more = from;                                                        \
        for (uint64_t k = 0; k < n; k++) {                                                        \
            T last = elem[k], operand = more[k];                                                  \
            elem[k] = (value);                                                                    \
        }                                                                                         \
    }                                                                                             \
    static void at_##kind##_##tag(void *const *at, const void *from, uint64_t n)                  \
    {                                                                                             \
        typedef T any_t __attribute__((may_alias, aligned(1)));                                   \
        const any_t *more = from;                                                                 \
        for (uint64_t k = 0; k < n; k++) {                                                        \
            any_t *elem = at[k];                                                                  \
            T last = *elem, operand = more[k];                                                    \
            *elem = (value);                                                                      \
        }                                                                                         \
    }                                                                                             \
    static void update_##kind##_##tag(void *const *at, const char *from, size_t step, uint64_t n) \
    {                                                                                             \
        for (uint64_t k = 0; k < n; k++) {                                                        \
            T *word = at[k], operand, last, next;                                                 \
            memcpy(&operand, from + k * step, sizeof operand);                                    \
            __atomic_load(word, &last, __ATOMIC_RELAXED);                                         \
            do                                                                                    \
                next = (value);                                                                   \
            while (memcmp(&next, &last, sizeof next) != 0 &&                                      \
                   !__atomic_compare_exchange(word, &last, &next, true, __ATOMIC_RELAXED,         \
                                              __ATOMIC_RELAXED));                                 \
        }                                                                                         \
    }
#define DEFINE_ORDERED(tag, T, wrap, zero, least, greatest)        \
    DEFINE(add, tag, T, zero, (T)((wrap)last + (wrap)operand))     \
    DEFINE(prod, tag, T, 1, (T)((wrap)last * (wrap)operand))       \
    DEFINE(min, tag, T, greatest, operand < last ? operand : last) \
    DEFINE(max, tag, T, least, operand > last ? operand : last)
#define DEFINE_INTEGER(tag, T, wrap, least, greatest) \
    DEFINE_ORDERED(tag, T, wrap, 0, least, greatest)  \
    DEFINE(and, tag, T, (T)-1, (T)(last & operand))   \
    DEFINE(or, tag, T, 0, (T)(last | operand))        \
    DEFINE(xor, tag, T, 0, (T)(last ^ operand))
DEFINE_INTEGER(U8, uint8_t, uint8_t, 0, UINT8_MAX)
DEFINE_INTEGER(U16, uint16_t, uint32_t, 0, UINT16_MAX)
DEFINE_INTEGER(U32, uint32_t, uint32_t, 0, UINT32_MAX)
DEFINE_INTEGER(U64, uint64_t, uint64_t, 0, UINT64_MAX)
DEFINE_INTEGER(I8, int8_t, uint8_t, INT8_MIN, INT8_MAX)
DEFINE_INTEGER(I16, int16_t, uint32_t, INT16_MIN, INT16_MAX)
DEFINE_INTEGER(I32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
DEFINE_INTEGER(I64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
DEFINE_ORDERED(F32, float, float, -0.0f, -INFINITY, INFINITY)
DEFINE_ORDERED(F64, double, double, -0.0, -INFINITY, INFINITY)

/* clang-format off */
#define BUILT_IN(K, kind, tag, T)                                                          \
    [PGAS_OP(PGAS_##K, PGAS_##tag)] = {                                                           \
        .def = { sizeof(T), sizeof(T), &neutral_##kind##_##tag, kind##_##tag, NULL },      \
        .run = run_##kind##_##tag,                                                         \
        .run_at = at_##kind##_##tag,                                                       \
        .update_at = update_##kind##_##tag,                                                \
        .number = PGAS_OP(PGAS_##K, PGAS_##tag)                                                   \
    },
#define BUILT_IN_ORDERED(tag, T) \
    BUILT_IN(ADD, add, tag, T) BUILT_IN(PROD, prod, tag, T) \
    BUILT_IN(MIN, min, tag, T) BUILT_IN(MAX, max, tag, T)
#define BUILT_IN_INTEGER(tag, T) \
    BUILT_IN_ORDERED(tag, T) \
    BUILT_IN(AND, and, tag, T) BUILT_IN(OR, or, tag, T) BUILT_IN(XOR, xor, tag, T)
static const op_t built_in[PGAS_SWAP] = {
    BUILT_IN_INTEGER(U8, uint8_t)
    BUILT_IN_INTEGER(U16, uint16_t)
    BUILT_IN_INTEGER(U32, uint32_t)
    BUILT_IN_INTEGER(U64, uint64_t)
    BUILT_IN_INTEGER(I8, int8_t)
    BUILT_IN_INTEGER(I16, int16_t)
    BUILT_IN_INTEGER(I32, int32_t)
    BUILT_IN_INTEGER(I64, int64_t)
    BUILT_IN_ORDERED(F32, float)
    BUILT_IN_ORDERED(F64, double)
};
/* clang-format on */

/* ---- operators of the program ---- */

static struct {
    pthread_mutex_t lock;
    op_t *at[SLOTS]; /* from the slot that the number gives, to the first empty slot */
    int n;
} registered = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* The slot of the operator, or the empty slot where it belongs. */
static op_t **slot_of(uint32_t number)
{
    for (uint32_t i = number / (TYPE_MASK + 1) % SLOTS;; i = (i + 1) % SLOTS) {
        const op_t *op = __atomic_load_n(&registered.at[i], __ATOMIC_ACQUIRE);
        if (!op || op->number == number)
            return &registered.at[i];
    }
}

const pgas_op_def_t *pgasi_op_find(pgas_op_t op)
{
    if (op < PGASI_ARRAY_LENGTH(built_in))
        return built_in[op].def.combine ? &built_in[op].def : NULL;
    const op_t *known = !pgasi_op_is_built_in(op)
                            ? __atomic_load_n(slot_of(op & ~TYPE_MASK), __ATOMIC_ACQUIRE)
                            : NULL;
    return known ? &known->def : NULL;
}

bool pgasi_op_commutes(const pgas_op_def_t *def)
{
    return ((const op_t *)(const void *)def)->run;
}

size_t pgasi_type_bytes(pgas_type_t type)
{
    static const unsigned char bytes[] = { 0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8 };
    return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

static bool is_sane(const pgas_op_def_t *def)
{
    size_t operand_bytes = def->operand_bytes ? def->operand_bytes : def->elem_bytes;
    return def->elem_bytes - 1 < BYTES_MAX && operand_bytes <= BYTES_MAX && def->combine &&
           def->identity && (def->merge || operand_bytes == def->elem_bytes);
}

static bool is_same(const op_t *op, const char *name, const pgas_op_def_t *def)
{
    size_t operand_bytes = def->operand_bytes ? def->operand_bytes : def->elem_bytes;
    return strcmp(op->name, name) == 0 && op->def.elem_bytes == def->elem_bytes &&
           op->def.operand_bytes == operand_bytes && op->def.combine == def->combine &&
           op->def.merge == def->merge &&
           memcmp(op->def.identity, def->identity, operand_bytes) == 0;
}

static op_t *make(const char *name, const pgas_op_def_t *def, uint32_t number)
{
    size_t operand_bytes = def->operand_bytes ? def->operand_bytes : def->elem_bytes,
           name_bytes = strlen(name) + 1;
    op_t *op = malloc(sizeof *op + operand_bytes + name_bytes);
    if (!op)
        return NULL;
    char *identity = (char *)(op + 1);
    op->def = *def;
    op->def.operand_bytes = operand_bytes;
    op->def.identity = memcpy(identity, def->identity, operand_bytes);
    op->run = NULL;
    op->run_at = NULL;
    op->update_at = NULL;
    op->number = number;
    op->name = memcpy(identity + operand_bytes, name, name_bytes);
    return op;
}

static pgas_status_t add(const char *name, const pgas_op_def_t *def, uint32_t number)
{
    op_t **slot = slot_of(number);
    if (*slot)
        return is_same(*slot, name, def) ? PGAS_OK : PGAS_ERR_EXISTS;
    if (registered.n == OPS_MAX)
        return PGAS_ERR_LIMIT;
    op_t *op = make(name, def, number);
    if (!op)
        return PGAS_ERR_NO_MEMORY;
    registered.n++;
    __atomic_store_n(slot, op, __ATOMIC_RELEASE);
    return PGAS_OK;
}

pgas_status_t pgas_op_register(const char *name, const pgas_op_def_t *def, pgas_op_t *op_p)
{
    if (!name || !*name || !def || !op_p || !is_sane(def))
        return PGAS_ERR_INVALID;
    uint32_t number = ((uint32_t)pgasi_hash_text(name) | PGASI_OP_REGISTERED) & ~TYPE_MASK;
    pthread_mutex_lock(&registered.lock);
    pgas_status_t status = add(name, def, number);
    pthread_mutex_unlock(&registered.lock);
    if (status == PGAS_OK)
        *op_p = number;
    return status;
}

/* ---- many at a time ---- */

static void call_each(void (*fn)(void *to, const void *from), void *to, size_t to_bytes,
                      const void *from, size_t from_bytes, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++)
        fn((char *)to + k * to_bytes, (const char *)from + k * from_bytes);
}

/* The greatest power of two up to 16 that divides the size. */
static size_t alignment_of(size_t bytes)
{
    size_t power = bytes & (~bytes + 1);
    return PGASI_MIN(power, 16);
}

/* Combines through aligned copies. */
static void call_aligned(const pgas_op_def_t *def, char *to, const char *from, uint64_t n)
{
    PGASI_ALIGNED(16) char a[PGASI_OP_ALIGN_MAX], b[PGASI_OP_ALIGN_MAX];
    size_t bytes = def->operand_bytes;
    for (uint64_t k = 0; k < n; k++) {
        memcpy(a, to + k * bytes, bytes);
        memcpy(b, from + k * bytes, bytes);
        def->combine(a, b);
        memcpy(to + k * bytes, a, bytes);
    }
}

void pgasi_op_combine_run(const pgas_op_def_t *def, void *to, const void *from, uint64_t n)
{
    const op_t *op = (const op_t *)(const void *)def;
    if (op->run)
        op->run(to, from, n);
    else if (((uintptr_t)to | (uintptr_t)from) % alignment_of(def->operand_bytes) &&
             def->operand_bytes <= PGASI_OP_ALIGN_MAX)
        call_aligned(def, to, from, n);
    else
        call_each(def->combine, to, def->operand_bytes, from, def->operand_bytes, n);
}

void pgasi_op_merge_run(const pgas_op_def_t *def, void *elems, const void *contributions,
                        uint64_t n)
{
    if (def->merge)
        call_each(def->merge, elems, def->elem_bytes, contributions, def->operand_bytes, n);
    else
        pgasi_op_combine_run(def, elems, contributions, n);
}

void pgasi_op_merge_at(const pgas_op_def_t *def, void *const *elems, const void *contributions,
                       uint64_t n)
{
    const op_t *op = (const op_t *)(const void *)def;
    if (op->run_at) {
        op->run_at(elems, contributions, n);
        return;
    }
    void (*fn)(void *elem, const void *contribution) = def->merge ? def->merge : def->combine;
    for (uint64_t k = 0; k < n; k++)
        fn(elems[k], (const char *)contributions + k * def->operand_bytes);
}

void pgasi_op_update_at(const pgas_op_def_t *def, void *const *words, const void *contributions,
                        size_t step, uint64_t n)
{
    ((const op_t *)(const void *)def)->update_at(words, contributions, step, n);
}

static bool is_zero(const char *bytes, size_t n)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, n - 1) == 0;
}

void pgasi_op_fill_identity(const pgas_op_def_t *def, void *to, uint64_t n)
{
    uint64_t bytes = n * def->operand_bytes, done = PGASI_MIN(bytes, def->operand_bytes);
    if (is_zero(def->identity, def->operand_bytes)) {
        memset(to, 0, bytes);
        return;
    }
    memcpy(to, def->identity, done);
    while (done < bytes) {
        uint64_t whole = BLOCK_BYTES - BLOCK_BYTES % def->operand_bytes,
                 block = whole && done > whole ? whole : done;
        uint64_t piece = PGASI_MIN(block, bytes - done);
        memcpy((char *)to + done, to, piece);
        done += piece;
    }
}

void pgasi_op_fill_neutral(const pgas_op_def_t *def, void *to, uint64_t n)
{
    const op_t *op = (const op_t *)(const void *)def;
    if ((op->number & ~TYPE_MASK) == PGAS_ADD)
        memset(to, 0, n * def->operand_bytes);
    else
        pgasi_op_fill_identity(def, to, n);
}
