/** The functions behind the typed handlers of pgas/call_args.h.
 *
 *  A handler `step` has a described structure pgas_args_step_t with its parameters as members.
 *  pgas_call_step fills one, saves it in an archive, and sends that. The target views the archive
 *  as such a structure and passes the members to the body. */
#ifndef PGAS_DETAIL_CALL_ARGS_H
#define PGAS_DETAIL_CALL_ARGS_H

#include <string.h>
#include "pgas/call_args.h"

PGAS_BEGIN_DECLS

/* Calls of so many bytes and less, without chunks, travel as plain calls. */
#define PGAS_ARGS_SMALL 512

/* A typed call or its run. The thread keeps an archive for it. While that one is in use, archive
 * points to `own`. */
typedef struct {
    pgas_archive_t *archive;
    uint64_t begun_ns; /* when saving or loading began */
    pgas_archive_t own;
    __attribute__((aligned(16))) char small[PGAS_ARGS_SMALL]; /* the stream of a plain call */
} pgas_args_t;

/* The caller's side. status is that of saving; if it is an error nothing is sent. The archive ends
 * with these calls. */
PGAS_API void pgas_args_begin(pgas_args_t *args);
PGAS_API pgas_status_t pgas_args_call(pgas_args_t *args, pgas_status_t status, pgas_target_t target,
                                      pgas_handler_t handler, const pgas_call_opts_t *opts);
PGAS_API pgas_status_t pgas_args_return(pgas_args_t *args, pgas_status_t status, int rank,
                                        pgas_handler_t handler, pgas_archive_t *reply_p);
PGAS_API pgas_status_t pgas_args_return_nb(pgas_args_t *args, pgas_status_t status, int rank,
                                           pgas_handler_t handler, pgas_archive_t *reply_p,
                                           pgas_sync_t *sync);
/* Reads the status in front of a result. After an error the reply is freed. */
PGAS_API pgas_status_t pgas_args_result(pgas_archive_t *reply);

/* The target's side. read begins to read the call with these arguments. loaded follows the view,
 * and gets its status. end is last. */
PGAS_API pgas_status_t pgas_args_read(pgas_args_t *args, const void *data, size_t bytes);
PGAS_API void pgas_args_loaded(pgas_args_t *args, pgas_status_t status, pgas_handler_t handler,
                               pgas_thread_t source);
PGAS_API void pgas_args_end(pgas_args_t *args);
/* Begins a reply with the status. The result follows if the status is PGAS_OK. */
PGAS_API void pgas_args_reply_begin(pgas_args_t *args, pgas_status_t status);
/* Sends the reply. status is that of saving. It frees the result by release_result(result) at once.
 * If the caller will still read its memory, it frees a copy of the structure later. */
PGAS_API void pgas_args_reply(pgas_args_t *args, pgas_status_t status, void *result, size_t bytes,
                              void (*release_result)(void *result));

PGAS_END_DECLS

/* Described members are not const. */
#ifdef __cplusplus
#define PGAS_ARGS_UNCONST(type, value) (const_cast<type>(value))
#else
#define PGAS_ARGS_UNCONST(type, value) ((type)(uintptr_t)(value))
#endif

/* Each of the following has an entry for each kind of field. Names of parameters begin with
 * pgas_in_ and those of variables end in _, because a field may have any other name.
 *
 * The parameters of a call. */
#define PGAS_ARGS_IN(kind, ...)               PGAS_ARGS_IN_##kind(__VA_ARGS__)
#define PGAS_ARGS_IN_SCALAR(type, m)          type pgas_in_##m,
#define PGAS_ARGS_IN_ARRAY(type, m, n)        const type *pgas_in_##m,
#define PGAS_ARGS_IN_STRING(m)                const char *pgas_in_##m,
#define PGAS_ARGS_IN_VECTOR(type, m, count)   const type *pgas_in_##m, size_t pgas_in_##count,
#define PGAS_ARGS_IN_OPTIONAL(type, m)        const type *pgas_in_##m,
#define PGAS_ARGS_IN_STRUCT(name, m)          const name##_t *pgas_in_##m,
#define PGAS_ARGS_IN_STRUCT_ARRAY(name, m, n) const name##_t *pgas_in_##m,
#define PGAS_ARGS_IN_STRUCT_VECTOR(name, m, count) \
    const name##_t *pgas_in_##m, size_t pgas_in_##count,
#define PGAS_ARGS_IN_STRUCT_OPTIONAL(name, m) const name##_t *pgas_in_##m,
#define PGAS_ARGS_IN_UNION(name, m, tag)      const name##_t *pgas_in_##m,
#define PGAS_ARGS_IN_OBJECT(m)                pgas_rma_object_t *pgas_in_##m,
#define PGAS_ARGS_IN_RMA_VECTOR(name, m)      const name##_t *pgas_in_##m,

/* The same, to pass them on. */
#define PGAS_ARGS_PASS(kind, ...)                    PGAS_ARGS_PASS_##kind(__VA_ARGS__)
#define PGAS_ARGS_PASS_SCALAR(type, m)               pgas_in_##m,
#define PGAS_ARGS_PASS_ARRAY(type, m, n)             pgas_in_##m,
#define PGAS_ARGS_PASS_STRING(m)                     pgas_in_##m,
#define PGAS_ARGS_PASS_VECTOR(type, m, count)        pgas_in_##m, pgas_in_##count,
#define PGAS_ARGS_PASS_OPTIONAL(type, m)             pgas_in_##m,
#define PGAS_ARGS_PASS_STRUCT(name, m)               pgas_in_##m,
#define PGAS_ARGS_PASS_STRUCT_ARRAY(name, m, n)      pgas_in_##m,
#define PGAS_ARGS_PASS_STRUCT_VECTOR(name, m, count) pgas_in_##m, pgas_in_##count,
#define PGAS_ARGS_PASS_STRUCT_OPTIONAL(name, m)      pgas_in_##m,
#define PGAS_ARGS_PASS_UNION(name, m, tag)           pgas_in_##m,
#define PGAS_ARGS_PASS_OBJECT(m)                     pgas_in_##m,
#define PGAS_ARGS_PASS_RMA_VECTOR(name, m)           pgas_in_##m,

/* The members of args_ become the parameters. Structures are copied, not what they point to. */
#define PGAS_ARGS_SET(kind, ...)        PGAS_ARGS_SET_##kind(__VA_ARGS__)
#define PGAS_ARGS_SET_SCALAR(type, m)   args_.m = pgas_in_##m;
#define PGAS_ARGS_SET_ARRAY(type, m, n) PGAS_ARGS_COPY(args_.m, pgas_in_##m, sizeof(args_.m))
#define PGAS_ARGS_SET_STRING(m)         args_.m = PGAS_ARGS_UNCONST(char *, pgas_in_##m);
#define PGAS_ARGS_SET_VECTOR(type, m, count)          \
    args_.m = PGAS_ARGS_UNCONST(type *, pgas_in_##m); \
    args_.count = pgas_in_##count;
#define PGAS_ARGS_SET_OPTIONAL(type, m) args_.m = PGAS_ARGS_UNCONST(type *, pgas_in_##m);
#define PGAS_ARGS_SET_STRUCT(name, m)   PGAS_ARGS_COPY(&args_.m, pgas_in_##m, sizeof(args_.m))

#define PGAS_ARGS_SET_STRUCT_ARRAY(name, m, n)      PGAS_ARGS_SET_ARRAY(name##_t, m, n)
#define PGAS_ARGS_SET_STRUCT_VECTOR(name, m, count) PGAS_ARGS_SET_VECTOR(name##_t, m, count)
#define PGAS_ARGS_SET_STRUCT_OPTIONAL(name, m)      PGAS_ARGS_SET_OPTIONAL(name##_t, m)
#define PGAS_ARGS_SET_UNION(name, m, tag)           PGAS_ARGS_SET_STRUCT(name, m)
#define PGAS_ARGS_SET_OBJECT(m)                     args_.m = pgas_in_##m;
#define PGAS_ARGS_SET_RMA_VECTOR(name, m)           PGAS_ARGS_SET_STRUCT(name, m)
#define PGAS_ARGS_COPY(to, from, bytes) \
    if (!(from))                        \
        return PGAS_ERR_INVALID;        \
    memcpy(to, from, bytes);

/* The parameters of a body. */
#define PGAS_ARGS_OUT(kind, ...)               PGAS_ARGS_OUT_##kind(__VA_ARGS__)
#define PGAS_ARGS_OUT_SCALAR(type, m)          PGAS_UNUSED type m,
#define PGAS_ARGS_OUT_ARRAY(type, m, n)        PGAS_UNUSED const type *m,
#define PGAS_ARGS_OUT_STRING(m)                PGAS_UNUSED const char *m,
#define PGAS_ARGS_OUT_VECTOR(type, m, count)   PGAS_UNUSED const type *m, PGAS_UNUSED size_t count,
#define PGAS_ARGS_OUT_OPTIONAL(type, m)        PGAS_UNUSED const type *m,
#define PGAS_ARGS_OUT_STRUCT(name, m)          PGAS_UNUSED name##_t *m,
#define PGAS_ARGS_OUT_STRUCT_ARRAY(name, m, n) PGAS_UNUSED name##_t *m,
#define PGAS_ARGS_OUT_STRUCT_VECTOR(name, m, count) \
    PGAS_UNUSED name##_t *m, PGAS_UNUSED size_t count,
#define PGAS_ARGS_OUT_STRUCT_OPTIONAL(name, m) PGAS_UNUSED name##_t *m,
#define PGAS_ARGS_OUT_UNION(name, m, tag)      PGAS_UNUSED name##_t *m,
#define PGAS_ARGS_OUT_OBJECT(m)                PGAS_UNUSED pgas_rma_object_t *m,
#define PGAS_ARGS_OUT_RMA_VECTOR(name, m)      PGAS_UNUSED name##_t *m,

/* The members of args_ for the body. */
#define PGAS_ARGS_GET(kind, ...)                    PGAS_ARGS_GET_##kind(__VA_ARGS__)
#define PGAS_ARGS_GET_SCALAR(type, m)               args_.m,
#define PGAS_ARGS_GET_ARRAY(type, m, n)             args_.m,
#define PGAS_ARGS_GET_STRING(m)                     args_.m,
#define PGAS_ARGS_GET_VECTOR(type, m, count)        args_.m, args_.count,
#define PGAS_ARGS_GET_OPTIONAL(type, m)             args_.m,
#define PGAS_ARGS_GET_STRUCT(name, m)               &args_.m,
#define PGAS_ARGS_GET_STRUCT_ARRAY(name, m, n)      args_.m,
#define PGAS_ARGS_GET_STRUCT_VECTOR(name, m, count) args_.m, args_.count,
#define PGAS_ARGS_GET_STRUCT_OPTIONAL(name, m)      args_.m,
#define PGAS_ARGS_GET_UNION(name, m, tag)           &args_.m,
#define PGAS_ARGS_GET_OBJECT(m)                     args_.m,
#define PGAS_ARGS_GET_RMA_VECTOR(name, m)           &args_.m,

/* The functions for callers. */
#define PGAS_ARGS_CALLS(name, FIELDS)                                                          \
    PGAS_STRUCT(pgas_args_##name, FIELDS)                                                      \
    PGAS_UNUSED static pgas_status_t pgas_args_save_##name(FIELDS(PGAS_ARGS_IN)                \
                                                               pgas_archive_t *archive_)       \
    {                                                                                          \
        pgas_args_##name##_t args_;                                                            \
        FIELDS(PGAS_ARGS_SET)                                                                  \
        return pgas_save_pgas_args_##name(archive_, &args_);                                   \
    }                                                                                          \
    PGAS_UNUSED static pgas_status_t pgas_call_##name##_to(pgas_target_t target_,              \
                                                           FIELDS(PGAS_ARGS_IN)                \
                                                               const pgas_call_opts_t *opts_)  \
    {                                                                                          \
        pgas_args_t call_;                                                                     \
        pgas_args_begin(&call_);                                                               \
        pgas_status_t status_ = pgas_args_save_##name(FIELDS(PGAS_ARGS_PASS) call_.archive);   \
        return pgas_args_call(&call_, status_, target_, pgas_handler_##name, opts_);           \
    }                                                                                          \
    PGAS_UNUSED static pgas_status_t pgas_call_##name(int rank_,                               \
                                                      FIELDS(PGAS_ARGS_IN) pgas_sync_t *sync_) \
    {                                                                                          \
        pgas_call_opts_t opts_ = PGAS_CALL_OPTS_INIT;                                          \
        opts_.sync = sync_;                                                                    \
        return pgas_call_##name##_to(pgas_on_rank(rank_), FIELDS(PGAS_ARGS_PASS) & opts_);     \
    }

#define PGAS_ARGS_CALLS_RETURN(name, FIELDS, result_name)                                          \
    PGAS_UNUSED static pgas_status_t pgas_result_##name(pgas_archive_t *reply_,                    \
                                                        result_name##_t *result_p_)                \
    {                                                                                              \
        pgas_status_t status_ = pgas_args_result(reply_);                                          \
        if (status_ != PGAS_OK)                                                                    \
            return status_;                                                                        \
        status_ = result_p_ ? pgas_load_##result_name(reply_, NULL, result_p_) : PGAS_ERR_INVALID; \
        (void)pgas_archive_free(reply_);                                                           \
        return status_;                                                                            \
    }                                                                                              \
    PGAS_UNUSED static pgas_status_t pgas_call_return_##name(int rank_,                            \
                                                             FIELDS(PGAS_ARGS_IN)                  \
                                                                 result_name##_t *result_p_)       \
    {                                                                                              \
        pgas_args_t call_;                                                                         \
        pgas_archive_t reply_ = PGAS_ARCHIVE_INIT;                                                 \
        if (!result_p_)                                                                            \
            return PGAS_ERR_INVALID;                                                               \
        pgas_args_begin(&call_);                                                                   \
        pgas_status_t status_ = pgas_args_save_##name(FIELDS(PGAS_ARGS_PASS) call_.archive);       \
        status_ = pgas_args_return(&call_, status_, rank_, pgas_handler_##name, &reply_);          \
        return status_ == PGAS_OK ? pgas_result_##name(&reply_, result_p_) : status_;              \
    }                                                                                              \
    PGAS_UNUSED static pgas_status_t pgas_call_return_nb_##name(int rank_,                         \
                                                                FIELDS(PGAS_ARGS_IN)               \
                                                                    pgas_archive_t *reply_p_,      \
                                                                pgas_sync_t *sync_)                \
    {                                                                                              \
        pgas_args_t call_;                                                                         \
        pgas_args_begin(&call_);                                                                   \
        pgas_status_t status_ = pgas_args_save_##name(FIELDS(PGAS_ARGS_PASS) call_.archive);       \
        return pgas_args_return_nb(&call_, status_, rank_, pgas_handler_##name, reply_p_, sync_);  \
    }

/* The functions at the target. */
#define PGAS_ARGS_PLAIN(name, FIELDS, may_block)                                                 \
    static inline void pgas_body_##name(FIELDS(PGAS_ARGS_OUT) PGAS_UNUSED pgas_thread_t source); \
    static void pgas_run_##name(const void *data_, size_t bytes_, pgas_thread_t source_,         \
                                PGAS_UNUSED void *context_)                                      \
    {                                                                                            \
        pgas_args_##name##_t args_;                                                              \
        pgas_args_t call_;                                                                       \
        if (pgas_args_read(&call_, data_, bytes_) != PGAS_OK)                                    \
            return;                                                                              \
        pgas_status_t status_ = pgas_view_pgas_args_##name(call_.archive, &args_);               \
        pgas_args_loaded(&call_, status_, pgas_handler_##name, source_);                         \
        if (status_ == PGAS_OK) {                                                                \
            pgas_body_##name(FIELDS(PGAS_ARGS_GET) source_);                                     \
            pgas_drop_pgas_args_##name(&args_);                                                  \
        }                                                                                        \
        pgas_args_end(&call_);                                                                   \
    }                                                                                            \
    PGAS_HANDLER_CONSTRUCT(name, NULL, may_block)                                                \
    static inline void pgas_body_##name(FIELDS(PGAS_ARGS_OUT) PGAS_UNUSED pgas_thread_t source)

#define PGAS_ARGS_REPLIES(name, FIELDS, result_name, may_block)                            \
    static inline void pgas_body_##name(FIELDS(PGAS_ARGS_OUT) result_name##_t *result,     \
                                        PGAS_UNUSED pgas_thread_t source);                 \
    static void pgas_release_##name(void *result_)                                         \
    {                                                                                      \
        pgas_free_##result_name(PGAS_CAST(result_name##_t *, result_));                    \
    }                                                                                      \
    static void pgas_run_##name(const void *data_, size_t bytes_, pgas_thread_t source_,   \
                                PGAS_UNUSED void *context_)                                \
    {                                                                                      \
        pgas_args_##name##_t args_;                                                        \
        result_name##_t result_;                                                           \
        pgas_args_t call_, reply_;                                                         \
        if (pgas_args_read(&call_, data_, bytes_) != PGAS_OK)                              \
            return;                                                                        \
        memset(&result_, 0, sizeof(result_));                                              \
        pgas_status_t status_ = pgas_view_pgas_args_##name(call_.archive, &args_);         \
        pgas_args_loaded(&call_, status_, pgas_handler_##name, source_);                   \
        if (status_ == PGAS_OK) {                                                          \
            pgas_body_##name(FIELDS(PGAS_ARGS_GET) & result_, source_);                    \
            pgas_drop_pgas_args_##name(&args_);                                            \
        }                                                                                  \
        pgas_args_end(&call_);                                                             \
        pgas_args_reply_begin(&reply_, status_);                                           \
        if (status_ == PGAS_OK)                                                            \
            status_ = pgas_save_##result_name(reply_.archive, &result_);                   \
        pgas_args_reply(&reply_, status_, &result_, sizeof(result_), pgas_release_##name); \
    }                                                                                      \
    PGAS_HANDLER_CONSTRUCT(name, NULL, may_block)                                          \
    static inline void pgas_body_##name(FIELDS(PGAS_ARGS_OUT) result_name##_t *result,     \
                                        PGAS_UNUSED pgas_thread_t source)

/* In one file. */
#define PGAS_ARGS_ONE_FILE(name, FIELDS, may_block) \
    static pgas_handler_t pgas_handler_##name;      \
    PGAS_ARGS_CALLS(name, FIELDS)                   \
    PGAS_ARGS_PLAIN(name, FIELDS, may_block)
#define PGAS_ARGS_ONE_FILE_RETURN(name, FIELDS, result_name, may_block) \
    static pgas_handler_t pgas_handler_##name;                          \
    PGAS_ARGS_CALLS(name, FIELDS)                                       \
    PGAS_ARGS_CALLS_RETURN(name, FIELDS, result_name)                   \
    PGAS_ARGS_REPLIES(name, FIELDS, result_name, may_block)

/* In several files. */
#define PGAS_ARGS_EXTERN(name, FIELDS)                \
    PGAS_EXTERN_C pgas_handler_t pgas_handler_##name; \
    PGAS_ARGS_CALLS(name, FIELDS) struct pgas_handler_##name##_is_declared
#define PGAS_ARGS_EXTERN_RETURN(name, FIELDS, result_name) \
    PGAS_EXTERN_C pgas_handler_t pgas_handler_##name;      \
    PGAS_ARGS_CALLS(name, FIELDS)                          \
    PGAS_ARGS_CALLS_RETURN(name, FIELDS, result_name) struct pgas_handler_##name##_is_declared
#define PGAS_ARGS_GLOBAL(name, FIELDS, may_block) \
    pgas_handler_t pgas_handler_##name;           \
    PGAS_ARGS_PLAIN(name, FIELDS, may_block)
#define PGAS_ARGS_GLOBAL_RETURN(name, FIELDS, result_name, may_block) \
    pgas_handler_t pgas_handler_##name;                               \
    PGAS_ARGS_REPLIES(name, FIELDS, result_name, may_block)

#endif
