/** Typed handlers: calls whose arguments the compiler checks, in C and C++.
 *
 *      PGAS_HANDLER_DECLARE(deposit, deposit_t);              in a header, or before the first use
 *
 *      PGAS_HANDLER_DEFINE(deposit, deposit_t)                in one file
 *      {
 *          balance += arg->amount;                            parameters: arg, source, context
 *      }
 *
 *      pgas_register_deposit(NULL);                           on every rank, before pgas_init
 *      deposit_t d = { 5 };
 *      pgas_call_deposit(rank, &d, NULL);                     another type does not compile
 *
 *  A handler that replies: PGAS_HANDLER_DECLARE_RETURN(name, arg_type, result_type) and
 *  PGAS_HANDLER_DEFINE_RETURN(name, arg_type, result_type), whose body returns a result_type, and
 *  pgas_call_return_NAME(rank, &arg, &result, sync).
 *
 *  Ranks agree on handlers by these names, so a name must be unique in the program. Arguments are
 *  copied as bytes: they must not contain pointers into themselves, nor C++ types whose
 *  constructors matter. A call by number (pgas_call with pgas_handler_NAME) whose size is not that
 *  of the type is not run; a caller that waits for its result gets PGAS_ERR_MISMATCH.
 *
 *  C compilers before gcc 14 and clang 16 only warn about pointers to other types. This header
 *  makes that an error where it is included. C converts void pointers silently, here as
 *  everywhere. */
#ifndef PGAS_TYPED_H
#define PGAS_TYPED_H

#include <stddef.h>
#include "pgas/broadcast.h"
#include "pgas/call.h"
#include "pgas/handler.h"

#if defined(__GNUC__) && !defined(__cplusplus)
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
#endif

/** Declares a typed handler, for its callers:
 *      pgas_handler_t pgas_handler_NAME;
 *      pgas_status_t pgas_register_NAME(void *context);
 *      pgas_status_t pgas_register_NAME_opts(void *context, opts);
 *      pgas_status_t pgas_call_NAME(int rank, const arg_type *arg, pgas_sync_t *executed);
 *      pgas_status_t pgas_call_NAME_to(pgas_thread_t target, const arg_type *arg, opts);
 *      pgas_status_t pgas_call_NAME_all(const arg_type *arg, scope, opts);
 *  They do the same as pgas_handler_register, pgas_handler_register_opts, pgas_call, pgas_call_to
 *  and pgas_call_broadcast. */
#define PGAS_HANDLER_DECLARE(name, arg_type)                                                  \
    PGAS_EXTERN_C pgas_handler_t pgas_handler_##name;                                         \
    PGAS_EXTERN_C pgas_status_t pgas_register_##name(void *context);                          \
    PGAS_EXTERN_C pgas_status_t pgas_register_##name##_opts(void *context,                    \
                                                            const pgas_handler_opts_t *opts); \
    PGAS_HELPER pgas_status_t pgas_call_##name(int rank, const arg_type *arg,                 \
                                               pgas_sync_t *executed)                         \
    {                                                                                         \
        return pgas_call(rank, pgas_handler_##name, arg, sizeof(arg_type), executed);         \
    }                                                                                         \
    PGAS_HELPER pgas_status_t pgas_call_##name##_to(pgas_thread_t to, const arg_type *arg,    \
                                                    const pgas_call_opts_t *opts)             \
    {                                                                                         \
        return pgas_call_to(to, pgas_handler_##name, arg, sizeof(arg_type), opts);            \
    }                                                                                         \
    PGAS_HELPER pgas_status_t pgas_call_##name##_all(const arg_type *arg, pgas_scope_t scope, \
                                                     const pgas_call_opts_t *opts)            \
    {                                                                                         \
        return pgas_call_broadcast(pgas_handler_##name, arg, sizeof(arg_type), scope, opts);  \
    }                                                                                         \
    struct pgas_handler_##name##_is_declared

/** Defines a typed handler. The body follows, with the parameters `const arg_type *arg`,
 *  `pgas_thread_t source` and `void *context`. */
#define PGAS_HANDLER_DEFINE(name, arg_type)                                                      \
    pgas_handler_t pgas_handler_##name;                                                          \
    static void pgas_typed_##name(const arg_type *arg, pgas_thread_t source, void *context);     \
    static void pgas_untyped_##name(const void *args, size_t bytes, pgas_thread_t source,        \
                                    void *context)                                               \
    {                                                                                            \
        if (bytes == sizeof(arg_type))                                                           \
            pgas_typed_##name(PGAS_CAST(const arg_type *, args), source, context);               \
    }                                                                                            \
    pgas_status_t pgas_register_##name(void *context)                                            \
    {                                                                                            \
        return pgas_handler_register(#name, pgas_untyped_##name, context, &pgas_handler_##name); \
    }                                                                                            \
    pgas_status_t pgas_register_##name##_opts(void *context, const pgas_handler_opts_t *opts)    \
    {                                                                                            \
        return pgas_handler_register_opts(#name, pgas_untyped_##name, context, opts,             \
                                          &pgas_handler_##name);                                 \
    }                                                                                            \
    static void pgas_typed_##name(const arg_type *arg, pgas_thread_t source, void *context)

/** Declares a typed handler that replies. It declares the same as PGAS_HANDLER_DECLARE, and:
 *      pgas_status_t pgas_call_return_NAME(int rank, const arg_type *arg, result_type *result,
 *      pgas_sync_t *executed)
 *  which does the same as pgas_call_return. */
#define PGAS_HANDLER_DECLARE_RETURN(name, arg_type, result_type)                                  \
    PGAS_HANDLER_DECLARE(name, arg_type);                                                         \
    PGAS_HELPER pgas_status_t pgas_call_return_##name(int rank, const arg_type *arg,              \
                                                      result_type *result, pgas_sync_t *executed) \
    {                                                                                             \
        return pgas_call_return(rank, pgas_handler_##name, arg, sizeof(arg_type), result,         \
                                sizeof(result_type), executed);                                   \
    }                                                                                             \
    struct pgas_handler_##name##_returns

/** Defines a typed handler that replies. The body returns a result_type. */
#define PGAS_HANDLER_DEFINE_RETURN(name, arg_type, result_type)                      \
    static result_type pgas_answer_##name(const arg_type *arg, pgas_thread_t source, \
                                          void *context);                            \
    PGAS_HANDLER_DEFINE(name, arg_type)                                              \
    {                                                                                \
        result_type result = pgas_answer_##name(arg, source, context);               \
        (void)pgas_reply(&result, sizeof(result));                                   \
    }                                                                                \
    static result_type pgas_answer_##name(const arg_type *arg, pgas_thread_t source, void *context)

#endif
