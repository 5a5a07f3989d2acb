/* Operators. A number is found without a lock: those of the built-in ones index a table, those of
 * the program's, which are hashes of their names with the top bit set, a table of open addressing
 * that is at most half full and never loses an entry. Chunks of operands are combined in loops that
 * vectorise; only the program's own operators are called for each element.
 *
 * Sums of signed integers wrap around. The identity of a floating-point sum is -0.0: adding 0.0
 * would turn -0.0 into 0.0. */
#include "array/op.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"

#ifndef __clang__
/* at -O2 loops of unknown length are left as they are */
#pragma GCC optimize("vect-cost-model=dynamic")
#endif

#define REGISTERED (UINT32_C(1) << 31)
#define OPS_MAX    256
#define SLOTS      (2 * OPS_MAX)
#define BYTES_MAX  65536
/* what is copied from while an identity is filled in stays in the nearest cache */
#define BLOCK_BYTES 4096

typedef struct {
    PGASI_ALIGNED(16) pgas_array_op_def_t def;
    void (*run)(void *to, const void *from, uint64_t n); /* NULL: combine, one by one */
    uint32_t number;
    char *name; /* behind it, as the identity is */
} op_t;

/* ---- built-in ---- */

#define DEFINE(kind, tag, T, neutral, value)                               \
    static const T neutral_##kind##_##tag = (neutral);                     \
    static void kind##_##tag(void *to, const void *from)                   \
    {                                                                      \
        T last, operand;                                                   \
        memcpy(&last, to, sizeof last);                                    \
        memcpy(&operand, from, sizeof operand);                            \
        last = (value);                                                    \
        memcpy(to, &last, sizeof last);                                    \
    }                                                                      \
    static void run_##kind##_##tag(void *to, const void *from, uint64_t n) \
    {                                                                      \
        typedef T any_t __attribute__((may_alias, aligned(1)));            \
        any_t *restrict elem = to;                                         \
        const any_t *restrict more = from;                                 \
        for (uint64_t k = 0; k < n; k++) {                                 \
            T last = elem[k], operand = more[k];                           \
            elem[k] = (value);                                             \
        }                                                                  \
    }
#define DEFINE_ORDERED(tag, T, wrap, zero, least, greatest)        \
    DEFINE(add, tag, T, zero, (T)((wrap)last + (wrap)operand))     \
    DEFINE(min, tag, T, greatest, operand < last ? operand : last) \
    DEFINE(max, tag, T, least, operand > last ? operand : last)
#define DEFINE_INTEGER(tag, T, wrap, least, greatest) \
    DEFINE_ORDERED(tag, T, wrap, 0, least, greatest)  \
    DEFINE(and, tag, T, (T)-1, (T)(last & operand))   \
    DEFINE(or, tag, T, 0, (T)(last | operand))        \
    DEFINE(xor, tag, T, 0, (T)(last ^ operand))
DEFINE_INTEGER(U8, uint8_t, uint8_t, 0, UINT8_MAX)
DEFINE_INTEGER(U16, uint16_t, uint16_t, 0, UINT16_MAX)
DEFINE_INTEGER(U32, uint32_t, uint32_t, 0, UINT32_MAX)
DEFINE_INTEGER(U64, uint64_t, uint64_t, 0, UINT64_MAX)
DEFINE_INTEGER(I8, int8_t, uint8_t, INT8_MIN, INT8_MAX)
DEFINE_INTEGER(I16, int16_t, uint16_t, INT16_MIN, INT16_MAX)
DEFINE_INTEGER(I32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
DEFINE_INTEGER(I64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
DEFINE_ORDERED(F32, float, float, -0.0f, -INFINITY, INFINITY)
DEFINE_ORDERED(F64, double, double, -0.0, -INFINITY, INFINITY)

#define ENTRY(K, kind, tag, T)                                                          \
    [PGAS_ARRAY_##K##_##                                                                \
        tag] = { { sizeof(T), sizeof(T), &neutral_##kind##_##tag, kind##_##tag, NULL }, \
                 run_##kind##_##tag,                                                    \
                 PGAS_ARRAY_##K##_##tag,                                                \
                 NULL },
#define ENTRIES_ORDERED(tag, T) \
    ENTRY(ADD, add, tag, T) ENTRY(MIN, min, tag, T) ENTRY(MAX, max, tag, T)
#define ENTRIES_INTEGER(tag, T) \
    ENTRIES_ORDERED(tag, T) ENTRY(AND, and, tag, T) ENTRY(OR, or, tag, T) ENTRY(XOR, xor, tag, T)
static const op_t built_in[PGAS_ARRAY_OP(PGAS_ARRAY_N_KINDS, 0)] = {
    ENTRIES_INTEGER(U8, uint8_t) ENTRIES_INTEGER(U16, uint16_t) ENTRIES_INTEGER(U32, uint32_t)
        ENTRIES_INTEGER(U64, uint64_t) ENTRIES_INTEGER(I8, int8_t) ENTRIES_INTEGER(I16, int16_t)
            ENTRIES_INTEGER(I32, int32_t) ENTRIES_INTEGER(I64, int64_t) ENTRIES_ORDERED(F32, float)
                ENTRIES_ORDERED(F64, double)
};

/* ---- registered ---- */

static op_t *registered[SLOTS]; /* from the slot that the number gives, to the first empty one */
static int n_registered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Where the operator stands, or the empty place where it belongs. */
static op_t **place_of(uint32_t number)
{
    uint32_t i = number % SLOTS;
    for (const op_t *op;
         (op = __atomic_load_n(&registered[i], __ATOMIC_ACQUIRE)) && op->number != number;)
        i = (i + 1) % SLOTS;
    return &registered[i];
}

const pgas_array_op_def_t *pgasi_array_op_find(pgas_array_op_t op)
{
    if (op < PGASI_ARRAY_LENGTH(built_in))
        return built_in[op].def.combine ? &built_in[op].def : NULL;
    const op_t *known = op & REGISTERED ? __atomic_load_n(place_of(op), __ATOMIC_ACQUIRE) : NULL;
    return known ? &known->def : NULL;
}

static bool is_sane(const pgas_array_op_def_t *def)
{
    size_t operand_bytes = def->operand_bytes ? def->operand_bytes : def->elem_bytes;
    return def->elem_bytes - 1 < BYTES_MAX && operand_bytes <= BYTES_MAX && def->combine &&
           def->identity && (def->merge || operand_bytes == def->elem_bytes);
}

static bool is_same(const op_t *op, const char *name, const pgas_array_op_def_t *def)
{
    size_t operand_bytes = def->operand_bytes ? def->operand_bytes : def->elem_bytes;
    return strcmp(op->name, name) == 0 && op->def.elem_bytes == def->elem_bytes &&
           op->def.operand_bytes == operand_bytes && op->def.combine == def->combine &&
           op->def.merge == def->merge &&
           memcmp(op->def.identity, def->identity, operand_bytes) == 0;
}

static op_t *make(const char *name, const pgas_array_op_def_t *def, uint32_t number)
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
    op->number = number;
    op->name = memcpy(identity + operand_bytes, name, name_bytes);
    return op;
}

static pgas_status_t add(const char *name, const pgas_array_op_def_t *def, uint32_t number)
{
    op_t **place = place_of(number);
    if (*place)
        return is_same(*place, name, def) ? PGAS_OK : PGAS_ERR_EXISTS;
    if (n_registered == OPS_MAX)
        return PGAS_ERR_LIMIT;
    op_t *op = make(name, def, number);
    if (!op)
        return PGAS_ERR_NO_MEMORY;
    n_registered++;
    __atomic_store_n(place, op, __ATOMIC_RELEASE);
    return PGAS_OK;
}

pgas_status_t pgas_array_op_register(const char *name, const pgas_array_op_def_t *def,
                                     pgas_array_op_t *op_p)
{
    if (!name || !*name || !def || !op_p || !is_sane(def))
        return PGAS_ERR_INVALID;
    uint32_t number = (uint32_t)pgasi_hash_text(name) | REGISTERED;
    pthread_mutex_lock(&lock);
    pgas_status_t status = add(name, def, number);
    pthread_mutex_unlock(&lock);
    if (status == PGAS_OK)
        *op_p = number;
    return status;
}

/* ---- runs ---- */

static void call_each(void (*fn)(void *to, const void *from), void *to, size_t to_bytes,
                      const void *from, size_t from_bytes, uint64_t n)
{
    for (uint64_t k = 0; k < n; k++)
        fn((char *)to + k * to_bytes, (const char *)from + k * from_bytes);
}

void pgasi_array_op_combine_run(const pgas_array_op_def_t *def, void *to, const void *from,
                                uint64_t n)
{
    const op_t *op = (const op_t *)(const void *)def;
    if (op->run)
        op->run(to, from, n);
    else
        call_each(def->combine, to, def->operand_bytes, from, def->operand_bytes, n);
}

void pgasi_array_op_merge_run(const pgas_array_op_def_t *def, void *elems, const void *operands,
                              uint64_t n)
{
    if (def->merge)
        call_each(def->merge, elems, def->elem_bytes, operands, def->operand_bytes, n);
    else
        pgasi_array_op_combine_run(def, elems, operands, n);
}

void pgasi_array_op_fill_identity(const pgas_array_op_def_t *def, void *to, uint64_t n)
{
    uint64_t bytes = n * def->operand_bytes, done = PGASI_MIN(bytes, def->operand_bytes);
    memcpy(to, def->identity, done);
    while (done < bytes) {
        uint64_t whole = BLOCK_BYTES - BLOCK_BYTES % def->operand_bytes,
                 block = whole && done > whole ? whole : done;
        uint64_t piece = PGASI_MIN(block, bytes - done);
        memcpy((char *)to + done, to, piece);
        done += piece;
    }
}
