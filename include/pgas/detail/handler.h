/** The functions behind the macros of pgas/handler.h. */
#ifndef PGAS_DETAIL_HANDLER_H
#define PGAS_DETAIL_HANDLER_H

#include "pgas/handler.h"

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#endif

PGAS_BEGIN_DECLS

/* A typed handler or method was registered before main. The first error is kept for pgas_init. */
PGAS_API void pgas_handler_constructed(const char *name, pgas_status_t status);

PGAS_END_DECLS

/* In one file. */
#define PGAS_HANDLER_ONE_FILE(name, arg_type, may_block) \
    static pgas_handler_t pgas_handler_##name;           \
    PGAS_HANDLER_CALLS(name, arg_type) PGAS_HANDLER_PLAIN(name, arg_type, may_block)
#define PGAS_HANDLER_ONE_FILE_RETURN(name, arg_type, result_type, may_block) \
    static pgas_handler_t pgas_handler_##name;                               \
    PGAS_HANDLER_CALLS(name, arg_type)                                       \
    PGAS_HANDLER_CALLS_RETURN(name, arg_type, result_type)                   \
    PGAS_HANDLER_REPLIES(name, arg_type, result_type, may_block)

/* In several files. */
#define PGAS_HANDLER_EXTERN(name, arg_type)           \
    PGAS_EXTERN_C pgas_handler_t pgas_handler_##name; \
    PGAS_HANDLER_CALLS(name, arg_type) struct pgas_handler_##name##_is_declared
#define PGAS_HANDLER_EXTERN_RETURN(name, arg_type, result_type) \
    PGAS_EXTERN_C pgas_handler_t pgas_handler_##name;           \
    PGAS_HANDLER_CALLS(name, arg_type)                          \
    PGAS_HANDLER_CALLS_RETURN(name, arg_type, result_type) struct pgas_handler_##name##_is_declared
#define PGAS_HANDLER_GLOBAL(name, arg_type, may_block) \
    pgas_handler_t pgas_handler_##name;                \
    PGAS_HANDLER_PLAIN(name, arg_type, may_block)
#define PGAS_HANDLER_GLOBAL_RETURN(name, arg_type, result_type, may_block) \
    pgas_handler_t pgas_handler_##name;                                    \
    PGAS_HANDLER_REPLIES(name, arg_type, result_type, may_block)

/* Arguments are aligned to 8. C++ also refuses types that cannot be copied as bytes. */
#ifdef __cplusplus
#define PGAS_HANDLER_CHECK(name, type)                                                         \
    static_assert(__alignof__(type) <= 8, "the type of an argument has an alignment above 8"); \
    static_assert(__is_trivially_copyable(type), "the type cannot be copied as bytes");
#else
#define PGAS_HANDLER_CHECK(name, type) \
    typedef char pgas_handler_##name##_is_aligned_to_8[__alignof__(type) <= 8 ? 1 : -1];
#endif

/* Names of parameters end in _, because a program may have variables of the names without it, and
 * -Wshadow. */

/* The functions for callers. */
#define PGAS_HANDLER_CALLS(name, arg_type)                                                       \
    PGAS_HANDLER_CHECK(name, arg_type)                                                           \
    PGAS_HELPER pgas_status_t pgas_call_##name(int rank_, const arg_type *arg_,                  \
                                               pgas_sync_t *sync_)                               \
    {                                                                                            \
        return pgas_call(rank_, pgas_handler_##name, arg_, sizeof(arg_type), sync_);             \
    }                                                                                            \
    PGAS_HELPER pgas_status_t pgas_call_##name##_to(pgas_target_t target_, const arg_type *arg_, \
                                                    const pgas_call_opts_t *opts_)               \
    {                                                                                            \
        return pgas_call_to(target_, pgas_handler_##name, arg_, sizeof(arg_type), opts_);        \
    }                                                                                            \
    PGAS_HELPER pgas_status_t pgas_agg_##name(pgas_agg_t *agg_, int rank_, const arg_type *arg_) \
    {                                                                                            \
        return pgas_agg_call(agg_, rank_, pgas_handler_##name, arg_, sizeof(arg_type));          \
    }                                                                                            \
    PGAS_HELPER pgas_status_t pgas_agg_##name##_to(pgas_agg_t *agg_, pgas_target_t target_,      \
                                                   const arg_type *arg_,                         \
                                                   const pgas_call_opts_t *opts_)                \
    {                                                                                            \
        return pgas_agg_call_to(agg_, target_, pgas_handler_##name, arg_, sizeof(arg_type),      \
                                opts_);                                                          \
    }

#define PGAS_HANDLER_CALLS_RETURN(name, arg_type, result_type)                                     \
    PGAS_HELPER pgas_status_t pgas_call_return_##name(int rank_, const arg_type *arg_,             \
                                                      result_type *result_)                        \
    {                                                                                              \
        return pgas_call_return(rank_, pgas_handler_##name, arg_, sizeof(arg_type), result_,       \
                                sizeof(result_type));                                              \
    }                                                                                              \
    PGAS_HELPER pgas_status_t pgas_call_return_nb_##name(int rank_, const arg_type *arg_,          \
                                                         result_type *result_, pgas_sync_t *sync_) \
    {                                                                                              \
        return pgas_call_return_nb(rank_, pgas_handler_##name, arg_, sizeof(arg_type), result_,    \
                                   sizeof(result_type), sync_);                                    \
    }

/* Bytes from the arguments of one call of a run to those of the next. bytes is a size_t.
 * There are no casts, because C++ programs may forbid them. */
#define PGAS_HANDLER_STRIDE(bytes) ((bytes)-1 < 4 ? 4 : ((bytes) + 7) / 8 * 8)

/* The functions at the target. A handler that replies has no batch form. */
#define PGAS_HANDLER_PLAIN(name, arg_type, may_block)                                           \
    static inline void pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type));                     \
    static void pgas_run_##name(const void *args_, size_t bytes_, pgas_thread_t source_,        \
                                PGAS_UNUSED void *context_)                                     \
    {                                                                                           \
        if (bytes_ == sizeof(arg_type))                                                         \
            pgas_body_##name(PGAS_CAST(const arg_type *, args_), source_);                      \
    }                                                                                           \
    static void pgas_batch_##name(const void *args_, size_t bytes_, PGAS_UNUSED size_t stride_, \
                                  size_t n_, pgas_thread_t source_, PGAS_UNUSED void *context_) \
    {                                                                                           \
        const char *at_ = PGAS_CAST(const char *, args_);                                       \
        if (bytes_ == sizeof(arg_type))                                                         \
            for (size_t i_ = 0; i_ < n_; i_++, at_ += PGAS_HANDLER_STRIDE(sizeof(arg_type)))    \
                pgas_body_##name(PGAS_CAST(const arg_type *, PGAS_CAST(const void *, at_)),     \
                                 source_);                                                      \
    }                                                                                           \
    PGAS_HANDLER_CONSTRUCT(name, pgas_batch_##name, may_block)                                  \
    static inline void pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type))

#define PGAS_HANDLER_REPLIES(name, arg_type, result_type, may_block)                     \
    static inline result_type pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type));       \
    static void pgas_run_##name(const void *args_, size_t bytes_, pgas_thread_t source_, \
                                PGAS_UNUSED void *context_)                              \
    {                                                                                    \
        if (bytes_ == sizeof(arg_type)) {                                                \
            const result_type result_ =                                                  \
                pgas_body_##name(PGAS_CAST(const arg_type *, args_), source_);           \
            (void)pgas_reply(&result_, sizeof(result_));                                 \
        }                                                                                \
    }                                                                                    \
    PGAS_HANDLER_CONSTRUCT(name, NULL, may_block)                                        \
    static inline result_type pgas_body_##name(PGAS_HANDLER_PARAMETERS(arg_type))

#define PGAS_HANDLER_PARAMETERS(arg_type) \
    PGAS_UNUSED const arg_type *arg, PGAS_UNUSED pgas_thread_t source

#define PGAS_HANDLER_CONSTRUCT(name, batch, may_block)                                        \
    __attribute__((constructor)) static void pgas_construct_##name(void)                      \
    {                                                                                         \
        static const pgas_handler_opts_t opts_ = { sizeof(opts_), batch, may_block };         \
        pgas_handler_constructed(#name, pgas_handler_register(#name, pgas_run_##name, NULL,   \
                                                              &opts_, &pgas_handler_##name)); \
    }

#endif
