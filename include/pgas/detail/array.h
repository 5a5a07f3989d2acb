/** The inline part of pgas/array.h: an access to an element whose chunk this rank may use.
 *
 *  A rank has one mapping entry (below: mapping) for each sub-block of an array, 512 elements. The
 *  mapping says where the elements are in this process, and the rights of this rank's threads: of
 *  one owner, or of all threads. The protocol grants and withdraws rights (src/array/grant.c).
 *
 *  An access has four steps: store 1 to the thread's slot; load the mapping's rights; if they allow
 *  the access, load or store the element; store 0 to the slot (release). It needs no locked
 *  instruction and no fence. The thread that withdraws rights first changes the mappings. It then
 *  runs a barrier on all processors (membarrier(2)), and waits until it has seen every slot at 0
 *  once. Accesses that begin later see the changed mapping. Where there is no such barrier, no
 *  mapping ever allows an access.
 *
 *  Source: hazard pointers (Michael 2004), asymmetric fences by membarrier(2). */
#ifndef PGAS_DETAIL_ARRAY_H
#define PGAS_DETAIL_ARRAY_H

#include "pgas/array.h"

PGAS_BEGIN_DECLS

#define PGAS_ARRAY_OPTS_INIT                           \
    {                                                  \
        sizeof(pgas_array_opts_t), 0, NULL, 0, 0, 0, 0 \
    }

/* The inline accesses that the threads of a rank may make to the elements of a sub-block. */
typedef struct {
    /* element i of the array, if it is in this sub-block, is at base + i * elem_bytes */
    char *base;
    /* either rights of all threads of this rank: READ, CHANGE, COMBINE; or an owner's slot + 1,
     * shifted by 8, with DATA or OPERATE. The upper half is the operator of OPERATE and COMBINE */
    uint64_t rights;
} pgas_array_mapping_t;
#define PGAS_ARRAY_SUBBLOCK_SHIFT 9
#define PGAS_ARRAY_RIGHT_READ     1u
#define PGAS_ARRAY_RIGHT_DATA     2u  /* read, write, operate */
#define PGAS_ARRAY_RIGHT_OPERATE  4u  /* combine contributions of one operator */
#define PGAS_ARRAY_RIGHT_CHANGE   8u  /* write and operate by atomic instructions */
#define PGAS_ARRAY_RIGHT_COMBINE  16u /* the same for contributions of one operator */

/* The part of an array that the inline functions read. */
struct pgas_array {
    /* by log2 of 1, 2, 4, 8 bytes: the number of elements if elements have that size and chunks are
     * not smaller than sub-blocks, otherwise 0 */
    uint64_t limit[4];
    /* by index >> shift. shift is PGAS_ARRAY_SUBBLOCK_SHIFT, except in arrays of smaller chunks */
    const pgas_array_mapping_t *table;
    /* a summary of table for reads: base + 1 if all threads of this rank may read, otherwise 0 */
    const uintptr_t *readable;
    uint64_t epoch; /* of the library when the array was created */
    uint32_t shift;
    uint32_t elem_bytes;
    uint64_t mask; /* chunk length - 1 */
    uint64_t n_elems;
};

/* The state that a thread needs for an inline access. */
typedef struct {
    uint32_t *slot; /* where the thread says that it is inside an access */
    /* the same, or NULL if the thread may not use mappings. Reads test this pointer, because a
     * branch costs less than a mask */
    uint32_t *reader;
    uint64_t read; /* PGAS_ARRAY_RIGHT_READ; 0 if the thread may not use mappings */
    /* the rights of mappings that this thread owns, OPERATE without the operator; values that no
     * mapping has if the thread may not use mappings */
    uint64_t data, operate;
    uint64_t shared; /* the rights READ and CHANGE of all threads, or a value as above */
    uint32_t sample; /* applies by these rights until one is counted for its chunk */
} pgas_array_path_t;
PGAS_API extern __thread pgas_array_path_t pgas_array_path
    __attribute__((tls_model("initial-exec")));

/* Every case that is not inline, with the same results. bytes 0: elements of any size. */
PGAS_API pgas_status_t pgas_array_get_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                            void *value_p);
PGAS_API pgas_status_t pgas_array_set_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                            const void *value);
PGAS_API pgas_status_t pgas_array_apply_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                              pgas_op_t op, const void *operand);

static inline uint64_t pgas_array_n_elems(const pgas_array_t *array)
{
    return array->n_elems;
}
static inline pgas_status_t pgas_array_get(pgas_array_t *array, uint64_t i, void *value_p)
{
    return pgas_array_get_sized(array, i, 0, value_p);
}
static inline pgas_status_t pgas_array_set(pgas_array_t *array, uint64_t i, const void *value)
{
    return pgas_array_set_sized(array, i, 0, value);
}
static inline pgas_status_t pgas_array_apply(pgas_array_t *array, uint64_t i, pgas_op_t op,
                                             const void *operand)
{
    return pgas_array_apply_sized(array, i, 0, op, operand);
}

/* The first and the last step of an access. */
PGAS_INLINE uint32_t *pgas_array_enter(uint32_t *slot)
{
    __atomic_store_n(slot, 1, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return slot;
}
PGAS_INLINE void pgas_array_leave(uint32_t *slot)
{
    __atomic_store_n(slot, 0, __ATOMIC_RELEASE);
}
/* The shift is a constant, because shifts by a variable are slow. A chunk that is longer than a
 * sub-block has several equal mappings for that reason. */
PGAS_INLINE const pgas_array_mapping_t *pgas_array_mapping(const pgas_array_t *array, uint64_t i)
{
    return &array->table[i >> PGAS_ARRAY_SUBBLOCK_SHIFT];
}
PGAS_INLINE uintptr_t pgas_array_readable(const pgas_array_t *array, uint64_t i)
{
    return __atomic_load_n(&array->readable[i >> PGAS_ARRAY_SUBBLOCK_SHIFT], __ATOMIC_ACQUIRE);
}
PGAS_INLINE uint64_t pgas_array_rights(const pgas_array_mapping_t *mapping)
{
    return __atomic_load_n(&mapping->rights, __ATOMIC_ACQUIRE);
}
PGAS_INLINE void *pgas_array_at(const pgas_array_mapping_t *mapping, uint64_t i, int log_bytes)
{
    return __atomic_load_n(&mapping->base, __ATOMIC_RELAXED) + (i << log_bytes);
}

#define PGAS_ARRAY_DEFINE(tag, type, word, log_bytes)                                              \
    PGAS_INLINE pgas_status_t pgas_array_get_##tag(pgas_array_t *array, uint64_t i, type *value_p) \
    {                                                                                              \
        if (PGAS_LIKELY(i < array->limit[log_bytes]) && PGAS_LIKELY(pgas_array_path.reader)) {     \
            uint32_t *slot = pgas_array_enter(pgas_array_path.reader);                             \
            uintptr_t base = pgas_array_readable(array, i);                                        \
            word bits;                                                                             \
            if (PGAS_LIKELY(base & 1)) {                                                           \
                bits = __atomic_load_n((const word *)(base - 1) + i, __ATOMIC_ACQUIRE);            \
                pgas_array_leave(slot);                                                            \
                memcpy(value_p, &bits, sizeof bits);                                               \
                return PGAS_OK;                                                                    \
            }                                                                                      \
            const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);                    \
            if (pgas_array_rights(mapping) == pgas_array_path.data) {                              \
                bits = __atomic_load_n((const word *)pgas_array_at(mapping, i, log_bytes),         \
                                       __ATOMIC_RELAXED);                                          \
                pgas_array_leave(slot);                                                            \
                memcpy(value_p, &bits, sizeof bits);                                               \
                return PGAS_OK;                                                                    \
            }                                                                                      \
        }                                                                                          \
        type there; /* so that what value_p points to may stay in a register */                    \
        pgas_status_t status = pgas_array_get_sized(array, i, sizeof(type), &there);               \
        if (status == PGAS_OK)                                                                     \
            *value_p = there;                                                                      \
        return status;                                                                             \
    }                                                                                              \
    PGAS_INLINE pgas_status_t pgas_array_set_##tag(pgas_array_t *array, uint64_t i, type value)    \
    {                                                                                              \
        if (PGAS_LIKELY(i < array->limit[log_bytes])) {                                            \
            uint32_t *slot = pgas_array_enter(pgas_array_path.slot);                               \
            const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);                    \
            if (PGAS_LIKELY(pgas_array_rights(mapping) == pgas_array_path.data)) {                 \
                word bits;                                                                         \
                memcpy(&bits, &value, sizeof bits);                                                \
                __atomic_store_n((word *)pgas_array_at(mapping, i, log_bytes), bits,               \
                                 __ATOMIC_RELAXED);                                                \
                pgas_array_leave(slot);                                                            \
                return PGAS_OK;                                                                    \
            }                                                                                      \
        }                                                                                          \
        type here = value; /* so that value may stay in a register */                              \
        return pgas_array_set_sized(array, i, sizeof(type), &here);                                \
    }

/* An owner combines in place, into elements or into contributions. A thread that shares elements
 * with others adds by atomic instructions; all else by them is not inline. */
#define PGAS_ARRAY_CASE(K, T, value)  \
    case PGAS_OP(PGAS_##K, PGAS_##T): \
        next = (value);               \
        break;
#define PGAS_ARRAY_CASES_INTEGER(T, type, word)                       \
    PGAS_ARRAY_CASE(ADD, T, (type)(word)((word)last + (word)operand)) \
    PGAS_ARRAY_CASE(AND, T, last &operand)                            \
    PGAS_ARRAY_CASE(OR, T, last | operand)                            \
    PGAS_ARRAY_CASE(XOR, T, last ^ operand)
#define PGAS_ARRAY_CASES_FLOAT(T, type, word) PGAS_ARRAY_CASE(ADD, T, last + operand)
/* A sum of integers, which is one atomic instruction. */
#define PGAS_ARRAY_IS_SUM(op, T, type) (!((type)0.5 > 0) && (op) == PGAS_OP(PGAS_ADD, PGAS_##T))
#define PGAS_ARRAY_DEFINE_APPLY(tag, T, type, word, log_bytes, more)                            \
    PGAS_INLINE pgas_status_t pgas_array_apply_##tag(pgas_array_t *array, uint64_t i,           \
                                                     pgas_op_t op, type operand)                \
    {                                                                                           \
        op = op >> 31 ? op : PGAS_OP(op, PGAS_##T); /* the program's operators have no type */  \
        if (PGAS_LIKELY(i < array->limit[log_bytes])) {                                         \
            uint32_t *slot = pgas_array_enter(pgas_array_path.slot);                            \
            const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);                 \
            uint64_t rights = pgas_array_rights(mapping);                                       \
            if (PGAS_LIKELY(rights == ((uint64_t)op << 32 | pgas_array_path.operate) ||         \
                            rights == pgas_array_path.data)) {                                  \
                word *at = (word *)pgas_array_at(mapping, i, log_bytes),                        \
                     bits = __atomic_load_n(at, __ATOMIC_RELAXED);                              \
                type last, next;                                                                \
                memcpy(&last, &bits, sizeof last);                                              \
                switch (op) {                                                                   \
                    PGAS_ARRAY_CASE(MIN, T, operand < last ? operand : last)                    \
                    PGAS_ARRAY_CASE(MAX, T, operand > last ? operand : last)                    \
                    more(T, type, word) default:                                                \
                    {                                                                           \
                        type there = operand;                                                   \
                        return pgas_array_apply_sized(array, i, sizeof(type), op, &there);      \
                    }                                                                           \
                }                                                                               \
                memcpy(&bits, &next, sizeof bits);                                              \
                __atomic_store_n(at, bits, __ATOMIC_RELAXED);                                   \
                pgas_array_leave(slot);                                                         \
                return PGAS_OK;                                                                 \
            }                                                                                   \
            if (PGAS_ARRAY_IS_SUM(op, T, type) && rights == pgas_array_path.shared &&           \
                PGAS_LIKELY(--pgas_array_path.sample)) {                                        \
                __atomic_fetch_add((word *)pgas_array_at(mapping, i, log_bytes), (word)operand, \
                                   __ATOMIC_SEQ_CST);                                           \
                pgas_array_leave(slot);                                                         \
                return PGAS_OK;                                                                 \
            }                                                                                   \
        }                                                                                       \
        type there = operand;                                                                   \
        return pgas_array_apply_sized(array, i, sizeof(type), op, &there);                      \
    }

#define PGAS_ARRAY_TYPE(tag, T, type, word, log_bytes, more) \
    PGAS_ARRAY_DEFINE(tag, type, word, log_bytes)            \
    PGAS_ARRAY_DEFINE_APPLY(tag, T, type, word, log_bytes, more)
PGAS_ARRAY_TYPE(u8, U8, uint8_t, uint8_t, 0, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(u16, U16, uint16_t, uint16_t, 1, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(u32, U32, uint32_t, uint32_t, 2, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(u64, U64, uint64_t, uint64_t, 3, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i8, I8, int8_t, uint8_t, 0, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i16, I16, int16_t, uint16_t, 1, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i32, I32, int32_t, uint32_t, 2, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(i64, I64, int64_t, uint64_t, 3, PGAS_ARRAY_CASES_INTEGER)
PGAS_ARRAY_TYPE(f32, F32, float, uint32_t, 2, PGAS_ARRAY_CASES_FLOAT)
PGAS_ARRAY_TYPE(f64, F64, double, uint64_t, 3, PGAS_ARRAY_CASES_FLOAT)

PGAS_END_DECLS
#endif
