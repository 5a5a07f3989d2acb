/** Assertions for our own invariants (never for user input), and small arithmetic that every folder
 *  needs.
 *
 *  PGASI_ASSERT is compiled in with --enable-debug only, so its condition must have no side
 *  effects. PGASI_MIN and PGASI_MAX evaluate their arguments twice. */
#ifndef PGASI_CHECKS_H
#define PGASI_CHECKS_H

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include <stddef.h>
#include <stdint.h>
#include "base/log.h"

#define PGASI_CACHELINE      64
#define PGASI_ALIGNED(bytes) __attribute__((aligned(bytes)))

#define PGASI_STATIC_ASSERT(condition, text) _Static_assert(condition, text)

#if defined(PGAS_DEBUG) && PGAS_DEBUG
#define PGASI_ASSERT(condition)                                                                  \
    do {                                                                                         \
        if (PGAS_UNLIKELY(!(condition))) {                                                       \
            pgasi_fatal("assert", "%s:%d: %s: `%s' does not hold", __FILE__, __LINE__, __func__, \
                        #condition);                                                             \
        }                                                                                        \
    } while (0)
#else
/* not evaluated, but still compiled, so that variables used only here count as used */
#define PGASI_ASSERT(condition) ((void)sizeof((condition) ? 1 : 0))
#endif

#define PGASI_MIN(a, b)           ((a) < (b) ? (a) : (b))
#define PGASI_MAX(a, b)           ((a) > (b) ? (a) : (b))
#define PGASI_ARRAY_LENGTH(array) (sizeof array / sizeof((array)[0]))

/* x is unsigned; zero is no power of two */
#define PGASI_IS_POW2(x) ((x) != 0 && ((x) & ((x)-1)) == 0)
/* alignment is a power of two; the sum must not overflow */
#define PGASI_ALIGN_UP(x, alignment)   (((x) + ((alignment)-1)) & ~(uint64_t)((alignment)-1))
#define PGASI_ALIGN_DOWN(x, alignment) ((x) & ~(uint64_t)((alignment)-1))
#define PGASI_DIV_UP(x, y)             (((x) + (y)-1) / (y))

/** The least k with 2^k >= n. */
static inline uint32_t pgasi_log2_up(uint64_t n)
{
    return n <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(n - 1);
}

/** The least power of two that is at least n. */
static inline uint32_t pgasi_pow2_up(uint32_t n)
{
    return UINT32_C(1) << pgasi_log2_up(n);
}

/* Whether options may be read: there are none, their size is not given, or it is at least that of
 * their first version. */
#define PGASI_OPTS_SANE(opts, first_bytes) \
    (!(opts) || (opts)->size == 0 || (opts)->size >= (first_bytes))

/* The struct of the given type whose member is at pointer. */
#define PGASI_CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
