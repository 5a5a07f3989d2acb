/** The functions behind the macros of pgas/handler.h. */
#ifndef PGAS_DETAIL_HANDLER_H
#define PGAS_DETAIL_HANDLER_H

#include "pgas/handler.h"

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#endif

PGAS_BEGIN_DECLS

/* Registers a typed handler before main. It remembers the first error, for pgas_init. */
PGAS_API void pgas_handler_construct(const char *name, pgas_handler_fn_t fn,
                                     const pgas_handler_opts_t *opts, pgas_handler_t *handler_p);

PGAS_END_DECLS

#define PGAS_HANDLER_ONE_FILE(name) static pgas_handler_t pgas_handler_##name

/* Arguments are aligned to 8. C++ also refuses types that cannot be copied as bytes. */
#ifdef __cplusplus
#define PGAS_HANDLER_CHECK(name, type)                                                         \
    static_assert(__alignof__(type) <= 8, "the type of an argument has an alignment above 8"); \
    static_assert(__is_trivially_copyable(type), "the type cannot be copied as bytes");
#else
#define PGAS_HANDLER_CHECK(name, type) \
    typedef char pgas_handler_##name##_is_aligned_to_8[__alignof__(type) <= 8 ? 1 : -1];
#endif

/* The functions for callers. */
#define PGAS_HANDLER_CALLS(name, arg_type)                                                       \
    PGAS_HANDLER_CHECK(name, arg_type)                                                           \
    PGAS_HELPER pgas_status_t pgas_call_##name(int rank, const arg_type *arg, pgas_sync_t *sync) \
    {                                                                                            \
        return pgas_call(rank, pgas_handler_##name, arg, sizeof(arg_type), sync);                \
    }                                                                                            \
    PGAS_HELPER pgas_status_t pgas_call_##name##_to(pgas_thread_t target, const arg_type *arg,   \
                                                    const pgas_call_opts_t *opts)                \
    {                                                                                            \
        return pgas_call_to(target, pgas_handler_##name, arg, sizeof(arg_type), opts);           \
    }                                                                                            \
    PGAS_HELPER pgas_status_t pgas_agg_##name(pgas_agg_t *agg, int rank, const arg_type *arg)    \
    {                                                                                            \
        return pgas_agg_call(agg, rank, pgas_handler_##name, arg, sizeof(arg_type));             \
    }

#define PGAS_HANDLER_CALLS_RETURN(name, arg_type, result_type)                                   \
    PGAS_HELPER pgas_status_t pgas_call_return_##name(int rank, const arg_type *arg,             \
                                                      result_type *result)                       \
    {                                                                                            \
        return pgas_call_return(rank, pgas_handler_##name, arg, sizeof(arg_type), result,        \
                                sizeof(result_type), NULL);                                      \
    }                                                                                            \
    PGAS_HELPER pgas_status_t pgas_call_return_nb_##name(int rank, const arg_type *arg,          \
                                                         result_type *result, pgas_sync_t *sync) \
    {                                                                                            \
        if (!sync)                                                                               \
            return PGAS_ERR_INVALID;                                                             \
        return pgas_call_return(rank, pgas_handler_##name, arg, sizeof(arg_type), result,        \
                                sizeof(result_type), sync);                                      \
    }

/* The functions at the target. A handler that replies has no batch form. */
#define PGAS_HANDLER_PLAIN(name, arg_type, may_block)                                      \
    static inline void pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type));                \
    static void pgas_run_##name(const void *args, size_t bytes, pgas_thread_t source,      \
                                PGAS_UNUSED void *context)                                 \
    {                                                                                      \
        if (bytes == sizeof(arg_type))                                                     \
            pgas_body_##name(PGAS_CAST(const arg_type *, args), source);                   \
    }                                                                                      \
    static void pgas_batch_##name(const void *args, size_t bytes, size_t stride, size_t n, \
                                  pgas_thread_t source, PGAS_UNUSED void *context)         \
    {                                                                                      \
        const char *at = PGAS_CAST(const char *, args);                                    \
        if (bytes == sizeof(arg_type))                                                     \
            for (size_t i = 0; i < n; i++, at += stride)                                   \
                pgas_body_##name(PGAS_CAST(const arg_type *, PGAS_CAST(const void *, at)), \
                                 source);                                                  \
    }                                                                                      \
    PGAS_HANDLER_CONSTRUCT(name, pgas_batch_##name, may_block)                             \
    static inline void pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type))

#define PGAS_HANDLER_REPLIES(name, arg_type, result_type, may_block)                  \
    static inline result_type pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type));    \
    static void pgas_run_##name(const void *args, size_t bytes, pgas_thread_t source, \
                                PGAS_UNUSED void *context)                            \
    {                                                                                 \
        if (bytes == sizeof(arg_type)) {                                              \
            const result_type result =                                                \
                pgas_body_##name(PGAS_CAST(const arg_type *, args), source);          \
            (void)pgas_reply(&result, sizeof(result));                                \
        }                                                                             \
    }                                                                                 \
    PGAS_HANDLER_CONSTRUCT(name, NULL, may_block)                                     \
    static inline result_type pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type))

#define PGAS_HANDLER_PARAMETERS(arg_type) \
    PGAS_UNUSED const arg_type *arg, PGAS_UNUSED pgas_thread_t source

#define PGAS_HANDLER_CONSTRUCT(name, batch, may_block)                               \
    __attribute__((constructor)) static void pgas_construct_##name(void)             \
    {                                                                                \
        static const pgas_handler_opts_t opts = { sizeof(opts), batch, may_block };  \
        pgas_handler_construct(#name, pgas_run_##name, &opts, &pgas_handler_##name); \
    }

#endif
