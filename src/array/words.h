/** Elements in memory. Elements of 1, 2, 4 and 8 bytes are loaded, stored and changed as one
 *  word each, atomically. Other threads may use them at the same time. Elements of other
 *  sizes are copied; the grant's lock keeps other threads away. */
#ifndef PGASI_ARRAY_WORDS_H
#define PGASI_ARRAY_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "array/descriptor.h"

static inline void pgasi_array_load_words(void *to, const void *from, size_t elem, uint64_t n)
{
    switch (elem) {
#define LOAD(word)                                                              \
    case sizeof(word):                                                          \
        for (uint64_t j = 0; j < n; j++) {                                      \
            word w = __atomic_load_n((const word *)from + j, __ATOMIC_RELAXED); \
            memcpy((char *)to + j * sizeof w, &w, sizeof w);                    \
        }                                                                       \
        break;
        LOAD(uint8_t)
        LOAD(uint16_t)
        LOAD(uint32_t)
        LOAD(uint64_t)
#undef LOAD
    default:
        memcpy(to, from, elem * n);
    }
}

/* A fence follows the last store, because readers without the lock see the elements. */
static inline void pgasi_array_store_words(void *to, const void *from, size_t elem, uint64_t n)
{
    switch (elem) {
#define STORE(word)                                                                                \
    case sizeof(word):                                                                             \
        for (uint64_t j = 0; j < n; j++) {                                                         \
            word w;                                                                                \
            memcpy(&w, (const char *)from + j * sizeof w, sizeof w);                               \
            __atomic_store_n((word *)to + j, w, j + 1 == n ? __ATOMIC_SEQ_CST : __ATOMIC_RELAXED); \
        }                                                                                          \
        break;
        STORE(uint8_t)
        STORE(uint16_t)
        STORE(uint32_t)
        STORE(uint64_t)
#undef STORE
    default:
        memcpy(to, from, elem * n);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

/* Changes an element that other threads may change at the same time: by compare-and-swap, until
 * no other change has come between. old: what the element was; NULL: not wanted. */
typedef void (*pgasi_array_change_fn_t)(void *value, const void *with);
static inline void pgasi_array_change_word(void *at, size_t bytes, pgasi_array_change_fn_t fn,
                                           const void *with, void *old)
{
    switch (bytes) {
#define CHANGE(word)                                                                           \
    case sizeof(word): {                                                                       \
        word last = __atomic_load_n((word *)at, __ATOMIC_RELAXED), next;                       \
        do {                                                                                   \
            next = last;                                                                       \
            fn(&next, with);                                                                   \
        } while (!__atomic_compare_exchange_n((word *)at, &last, next, true, __ATOMIC_SEQ_CST, \
                                              __ATOMIC_RELAXED));                              \
        if (old)                                                                               \
            memcpy(old, &last, sizeof last);                                                   \
        break;                                                                                 \
    }
        CHANGE(uint8_t)
        CHANGE(uint16_t)
        CHANGE(uint32_t)
        CHANGE(uint64_t)
#undef CHANGE
    default:
        if (old)
            memcpy(old, at, bytes);
        fn(at, with);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

/* Combines an operand into an element that other threads may change at the same time. fn: the
 * operator's function. Integer sums are one instruction, which also takes the processor's cache
 * line only once. */
static inline void pgasi_array_combine_word(void *at, size_t bytes, pgas_op_t op,
                                            pgasi_array_change_fn_t fn, const void *operand)
{
    uint64_t by64;
    uint32_t by32;
    switch (op) {
    case PGAS_OP(PGAS_ADD, PGAS_U64):
    case PGAS_OP(PGAS_ADD, PGAS_I64):
        memcpy(&by64, operand, sizeof by64);
        __atomic_fetch_add((uint64_t *)at, by64, __ATOMIC_SEQ_CST);
        break;
    case PGAS_OP(PGAS_ADD, PGAS_U32):
    case PGAS_OP(PGAS_ADD, PGAS_I32):
        memcpy(&by32, operand, sizeof by32);
        __atomic_fetch_add((uint32_t *)at, by32, __ATOMIC_SEQ_CST);
        break;
    default:
        pgasi_array_change_word(at, bytes, fn, operand, NULL);
    }
}

static inline void pgasi_array_swap_word(char *at, size_t elem, const pgasi_array_access_t *x)
{
    switch (elem) {
#define SWAP(word)                                                                            \
    case sizeof(word): {                                                                      \
        word last, next;                                                                      \
        memcpy(&last, x->in2, sizeof last);                                                   \
        memcpy(&next, x->in, sizeof next);                                                    \
        __atomic_compare_exchange_n((word *)(void *)at, &last, next, false, __ATOMIC_SEQ_CST, \
                                    __ATOMIC_SEQ_CST);                                        \
        memcpy(x->out, &last, sizeof last);                                                   \
        break;                                                                                \
    }
        SWAP(uint8_t)
        SWAP(uint16_t)
        SWAP(uint32_t)
        SWAP(uint64_t)
#undef SWAP
    default:
        memcpy(x->out, at, elem);
        if (memcmp(x->out, x->in2, elem) == 0)
            memcpy(at, x->in, elem);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
}

#endif
