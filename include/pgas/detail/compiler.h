/** Macros that every public header uses: linkage, export, branch hints, casts. No user needs
 *  them. */
#ifndef PGAS_DETAIL_COMPILER_H
#define PGAS_DETAIL_COMPILER_H

/* The inline functions use C casts, so the headers silence -Wold-style-cast in C++. Macros that
 * expand in the user's code use PGAS_CAST instead, because the pragma ends before them. */
#if defined(__cplusplus)
#if defined(__GNUC__)
#define PGAS_BEGIN_DECLS                                                  \
    _Pragma("GCC diagnostic push")                                        \
        _Pragma("GCC diagnostic ignored \"-Wold-style-cast\"") extern "C" \
    {
#define PGAS_END_DECLS \
    }                  \
    _Pragma("GCC diagnostic pop")
#else
#define PGAS_BEGIN_DECLS extern "C" {
#define PGAS_END_DECLS   }
#endif
#define PGAS_CAST(type, value) (static_cast<type>(value))
#else
#define PGAS_BEGIN_DECLS
#define PGAS_END_DECLS
#define PGAS_CAST(type, value) ((type)(value))
#endif

/* PGAS_API marks what the shared library exports. PGAS_INLINE marks functions whose short path
 * depends on constant arguments. */
#if defined(__GNUC__)
#define PGAS_API         __attribute__((visibility("default")))
#define PGAS_NORETURN    __attribute__((noreturn))
#define PGAS_LIKELY(x)   __builtin_expect(!!(x), 1)
#define PGAS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PGAS_INLINE      static inline __attribute__((always_inline))
#else
#define PGAS_API
#define PGAS_NORETURN
#define PGAS_LIKELY(x)   (!!(x))
#define PGAS_UNLIKELY(x) (!!(x))
#define PGAS_INLINE      static inline
#endif

#ifdef __cplusplus
#define PGAS_EXTERN_C extern "C"
#else
#define PGAS_EXTERN_C extern
#endif

/* PGAS_HELPER marks inline functions that a macro defines and a file need not use. PGAS_UNUSED
 * marks their parameters. */
#if defined(__GNUC__)
#define PGAS_UNUSED __attribute__((unused))
#else
#define PGAS_UNUSED
#endif
#define PGAS_HELPER PGAS_UNUSED PGAS_INLINE

#endif
