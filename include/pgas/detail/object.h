/** The functions behind the macros of pgas/object.h. */
#ifndef PGAS_DETAIL_OBJECT_H
#define PGAS_DETAIL_OBJECT_H

#include "pgas/object.h"

PGAS_BEGIN_DECLS

/* Registers a method. Requests must have these sizes, unless they are PGAS_METHOD_ANY. */
PGAS_API pgas_status_t pgas_method_register_sized(const char *name, pgas_method_fn_t fn,
                                                  size_t arg_bytes, size_t result_bytes,
                                                  pgas_method_t *method_p);
#define PGAS_METHOD_ANY SIZE_MAX

static inline pgas_status_t pgas_method_register(const char *name, pgas_method_fn_t fn,
                                                 pgas_method_t *method_p)
{
    return pgas_method_register_sized(name, fn, PGAS_METHOD_ANY, PGAS_METHOD_ANY, method_p);
}

PGAS_END_DECLS

#define PGAS_METHOD_ONE_FILE(name, object_type, arg_type, result_type) \
    static pgas_method_t pgas_method_##name;                           \
    PGAS_METHOD_CALL(name, arg_type, result_type)                      \
    PGAS_METHOD_BODY(name, object_type, arg_type, result_type)
#define PGAS_METHOD_EXTERN(name, arg_type, result_type) \
    PGAS_EXTERN_C pgas_method_t pgas_method_##name;     \
    PGAS_METHOD_CALL(name, arg_type, result_type) struct pgas_method_##name##_is_declared
#define PGAS_METHOD_GLOBAL(name, object_type, arg_type, result_type) \
    pgas_method_t pgas_method_##name;                                \
    PGAS_METHOD_BODY(name, object_type, arg_type, result_type)

#define PGAS_METHOD_CALL(name, arg_type, result_type)                                              \
    PGAS_HANDLER_CHECK(method_##name##_arg, arg_type)                                              \
    PGAS_HANDLER_CHECK(method_##name##_result, result_type)                                        \
    PGAS_HELPER pgas_status_t pgas_object_call_##name(pgas_object_t object_, const arg_type *arg_, \
                                                      result_type *result_)                        \
    {                                                                                              \
        return pgas_object_call(object_, pgas_method_##name, arg_, sizeof(arg_type), result_,      \
                                sizeof(result_type));                                              \
    }

#define PGAS_METHOD_PARAMETERS(object_type, arg_type)                 \
    PGAS_UNUSED object_type *object, PGAS_UNUSED const arg_type *arg, \
        PGAS_UNUSED pgas_thread_t source

#define PGAS_METHOD_BODY(name, object_type, arg_type, result_type)                                 \
    static inline result_type pgas_method_body_##name(                                             \
        PGAS_METHOD_PARAMETERS(object_type, arg_type));                                            \
    static void pgas_method_run_##name(void *object_, const void *args_,                           \
                                       PGAS_UNUSED size_t bytes_, void *result_,                   \
                                       PGAS_UNUSED size_t result_bytes_, pgas_thread_t source_)    \
    {                                                                                              \
        *PGAS_CAST(result_type *, result_) =                                                       \
            pgas_method_body_##name(PGAS_CAST(object_type *, object_),                             \
                                    PGAS_CAST(const arg_type *, args_), source_);                  \
    }                                                                                              \
    __attribute__((constructor)) static void pgas_method_construct_##name(void)                    \
    {                                                                                              \
        pgas_handler_constructed(#name,                                                            \
                                 pgas_method_register_sized(#name, pgas_method_run_##name,         \
                                                            sizeof(arg_type), sizeof(result_type), \
                                                            &pgas_method_##name));                 \
    }                                                                                              \
    static inline result_type pgas_method_body_##name(PGAS_METHOD_PARAMETERS(object_type, arg_type))

#endif
