/** The inline part of pgas/rma.h: transfers within the node. The _far functions carry out
 *  everything else, including errors, with the same results. */
#ifndef PGAS_DETAIL_RMA_H
#define PGAS_DETAIL_RMA_H

#include "pgas/rma.h"

PGAS_BEGIN_DECLS

PGAS_API pgas_status_t pgas_put_far(pgas_gptr_t dst, const void *src, size_t bytes);
PGAS_API pgas_status_t pgas_get_far(void *dst, pgas_gptr_t src, size_t bytes);
PGAS_API pgas_status_t pgas_put_nb_far(pgas_gptr_t dst, const void *src, size_t bytes,
                                       pgas_when_t when, pgas_sync_t *sync);
PGAS_API pgas_status_t pgas_get_nb_far(void *dst, pgas_gptr_t src, size_t bytes, pgas_sync_t *sync);

static inline pgas_status_t pgas_put(pgas_gptr_t dst, const void *src, size_t bytes)
{
    if (PGAS_UNLIKELY(!pgas_heap_has(dst, bytes) || !src))
        return pgas_put_far(dst, src, bytes);
    memmove(pgas_heap_address(dst), src, bytes);
    return PGAS_OK;
}

static inline pgas_status_t pgas_get(void *dst, pgas_gptr_t src, size_t bytes)
{
    if (PGAS_UNLIKELY(!pgas_heap_has(src, bytes) || !dst))
        return pgas_get_far(dst, src, bytes);
    memmove(dst, pgas_heap_address(src), bytes);
    return PGAS_OK;
}

static inline pgas_status_t pgas_put_nb(pgas_gptr_t dst, const void *src, size_t bytes,
                                        pgas_when_t when, pgas_sync_t *sync)
{
    if (PGAS_UNLIKELY(!pgas_heap_has(dst, bytes) || !src))
        return pgas_put_nb_far(dst, src, bytes, when, sync);
    memmove(pgas_heap_address(dst), src, bytes);
    return PGAS_OK;
}

static inline pgas_status_t pgas_get_nb(void *dst, pgas_gptr_t src, size_t bytes, pgas_sync_t *sync)
{
    if (PGAS_UNLIKELY(!pgas_heap_has(src, bytes) || !dst))
        return pgas_get_nb_far(dst, src, bytes, sync);
    memmove(dst, pgas_heap_address(src), bytes);
    return PGAS_OK;
}

PGAS_API pgas_status_t pgas_put_scalar_far(pgas_gptr_t dst, uint64_t bits, size_t bytes);
PGAS_API pgas_status_t pgas_get_scalar_far(pgas_gptr_t src, void *value_p, size_t bytes);

/* Returns the bits of a floating-point number. */
static inline uint64_t pgas_bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
static inline uint64_t pgas_bits_of_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

#define PGAS_SCALAR_INLINE(tag, type, bits_of)                                     \
    static inline pgas_status_t pgas_put_##tag(pgas_gptr_t dst, type value)        \
    {                                                                              \
        if (PGAS_UNLIKELY(!pgas_heap_has_word(dst, sizeof(value))))                \
            return pgas_put_scalar_far(dst, bits_of(value), sizeof(value));        \
        __atomic_store((type *)pgas_heap_address(dst), &value, __ATOMIC_RELAXED);  \
        return PGAS_OK;                                                            \
    }                                                                              \
    static inline pgas_status_t pgas_get_##tag(pgas_gptr_t src, type *value_p)     \
    {                                                                              \
        if (PGAS_UNLIKELY(!pgas_heap_has_word(src, sizeof(*value_p)) || !value_p)) \
            return pgas_get_scalar_far(src, value_p, sizeof(*value_p));            \
        __atomic_load((type *)pgas_heap_address(src), value_p, __ATOMIC_RELAXED);  \
        return PGAS_OK;                                                            \
    }
PGAS_SCALAR_INLINE(u8, uint8_t, (uint64_t))
PGAS_SCALAR_INLINE(u16, uint16_t, (uint64_t))
PGAS_SCALAR_INLINE(u32, uint32_t, (uint64_t))
PGAS_SCALAR_INLINE(u64, uint64_t, (uint64_t))
PGAS_SCALAR_INLINE(i8, int8_t, (uint64_t))
PGAS_SCALAR_INLINE(i16, int16_t, (uint64_t))
PGAS_SCALAR_INLINE(i32, int32_t, (uint64_t))
PGAS_SCALAR_INLINE(i64, int64_t, (uint64_t))
PGAS_SCALAR_INLINE(f32, float, pgas_bits_of_f32)
PGAS_SCALAR_INLINE(f64, double, pgas_bits_of_f64)
#undef PGAS_SCALAR_INLINE

#if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
/* The types of C by name, because the types of stdint.h are not all of them. */
#define PGAS_BY_TYPE(x, name)            \
    _Generic((x), signed char            \
             : name##i8, unsigned char   \
             : name##u8, short           \
             : name##i16, unsigned short \
             : name##u16, int            \
             : name##i32, unsigned int   \
             : name##u32, int64_t        \
             : name##i64, uint64_t       \
             : name##u64, float          \
             : name##f32, double         \
             : name##f64)
#define pgas_put_value(dst, x)   PGAS_BY_TYPE(x, pgas_put_)(dst, x)
#define pgas_get_value(src, x_p) PGAS_BY_TYPE(*(x_p), pgas_get_)(src, x_p)
#endif

PGAS_END_DECLS
#endif
