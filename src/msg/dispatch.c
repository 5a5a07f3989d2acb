/* Dispatch: see dispatch.h. This file checks numbers of handlers and every header, because a
 * message may come from a rank whose memory is damaged. */

/* The alignment of the loop over the calls of a batch changes their rate by a tenth. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#pragma GCC optimize("align-loops=64")
#endif

#include "msg/dispatch.h"

#include <string.h>

#include "base/checks.h"
#include "base/log.h"

#define N_INTERNAL (PGASI_DESC_END_INTERNAL - PGASI_DESC_FIRST_INTERNAL)

pgasi_handler_entry_t pgasi_handlers[PGAS_HANDLERS_MAX + 1];
uint32_t pgasi_n_handlers;
uint64_t pgasi_n_dropped;

/* The library's own handlers. */
static struct {
    pgas_handler_fn_t run[N_INTERNAL];
    pgas_handler_batch_fn_t run_batch[N_INTERNAL];
    pgasi_refuse_fn_t refuse[N_INTERNAL]; /* NULL: the caller is not informed */
} internal;
pgasi_token_ops_t pgasi_token_ops;

void pgasi_handler_set_internal(uint32_t id, pgas_handler_fn_t fn)
{
    internal.run[id - PGASI_DESC_FIRST_INTERNAL] = fn;
}

void pgasi_handler_set_internal_batch(uint32_t id, pgas_handler_batch_fn_t fn)
{
    internal.run_batch[id - PGASI_DESC_FIRST_INTERNAL] = fn;
}

void pgasi_handler_set_refused(uint32_t id, pgasi_refuse_fn_t fn)
{
    internal.refuse[id - PGASI_DESC_FIRST_INTERNAL] = fn;
}

void pgasi_dispatch_set_tokens(const pgasi_token_ops_t *ops)
{
    pgasi_token_ops = *ops;
}

/* Runs one call of the library's own handlers. */
static __attribute__((noinline)) pgas_status_t run_internal(uint32_t number, const void *args,
                                                            size_t bytes, pgas_thread_t source)
{
    uint32_t i = number - PGASI_DESC_FIRST_INTERNAL;
    if (i < N_INTERNAL && internal.run[i]) {
        internal.run[i](args, bytes, source, NULL);
        return PGAS_OK;
    }
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "rank %d called handler %u, which does not exist here: dropped",
                    pgas_thread_rank(source), number);
    return PGAS_ERR_NOT_FOUND;
}

pgas_status_t pgasi_dispatch(uint32_t number, const void *args, size_t bytes, pgas_thread_t source)
{
    if (PGAS_UNLIKELY(number - 1u >= pgasi_n_handlers))
        return run_internal(number, args, bytes, source);
    pgasi_handler_entry_t *e = &pgasi_handlers[number];
    e->fn(args, bytes, source, e->context);
    return PGAS_OK;
}

static __attribute__((noinline, cold)) void report_malformed(int source_rank)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "malformed message from rank %d: dropped", source_rank);
}

static __attribute__((noinline)) void run_others(uint32_t number, const char *args, size_t bytes,
                                                 size_t stride, size_t n, pgas_thread_t source)
{
    uint32_t i = number - PGASI_DESC_FIRST_INTERNAL;
    if (i < N_INTERNAL && internal.run_batch[i]) {
        internal.run_batch[i](args, bytes, stride, n, source, NULL);
        return;
    }
    for (; n > 0; n--, args += stride)
        run_internal(number, args, bytes, source);
}

/* Four calls. The compiler must not know the addresses of the later ones: it would keep two
 * pointers and have no register for the rest. */
static inline const char *run_four(pgas_handler_fn_t fn, const char *args, size_t bytes,
                                   size_t stride, pgas_thread_t source, void *context)
{
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 4
#endif
    for (int i = 0; i < 4; i++) {
        fn(args, bytes, source, context);
        args += stride;
        __asm__("" : "+r"(args));
    }
    return args;
}

/* In cache lines of code of its own: the loop is a few instructions long, and a tenth slower where
 * it crosses a line. Eight calls share what ends a turn. */
static __attribute__((noinline, aligned(64))) void run_each(pgas_handler_fn_t fn, const char *args,
                                                            size_t bytes, size_t stride, size_t n,
                                                            pgas_thread_t source, void *context)
{
    for (; n % 8 != 0; n--, args += stride)
        fn(args, bytes, source, context);
    for (; n > 0; n -= 8) {
        args = run_four(fn, args, bytes, stride, source, context);
        args = run_four(fn, args, bytes, stride, source, context);
    }
}

/* Runs calls of one kind. */
static inline void run_calls(uint32_t number, const char *args, size_t bytes, size_t stride,
                             size_t n, pgas_thread_t source)
{
    if (PGAS_UNLIKELY(number - 1u >= pgasi_n_handlers)) {
        run_others(number, args, bytes, stride, n, source);
        return;
    }
    pgasi_handler_entry_t e = pgasi_handlers[number];
    if (e.batch && n > 1) {
        e.batch(args, bytes, stride, n, source, e.context);
        return;
    }
    run_each(e.fn, args, bytes, stride, n, source, e.context);
}

void pgasi_handler_run(uint32_t number, const char *args, size_t bytes, size_t stride, size_t n,
                       pgas_thread_t source)
{
    run_calls(number, args, bytes, stride, n, source);
}

/* Runs the calls of one header. */
static inline void run_all(uint64_t header, const char *args, pgas_thread_t source)
{
    run_calls(pgasi_desc_handler(header), args, pgasi_desc_bytes(header), pgasi_desc_stride(header),
              1 + (size_t)pgasi_desc_more(header), source);
}

/* The header at `at`, checked. 0: it is malformed. */
static inline uint64_t header_at(const char *at, const char *end, int source_rank)
{
    uint64_t header = *(const uint64_t *)(const void *)at;
    if (PGAS_LIKELY(header & PGASI_DESC_PHASES && pgasi_desc_room(header) <= (size_t)(end - at)))
        return header;
    report_malformed(source_rank);
    return 0;
}

uint64_t pgasi_descs_run(const char *descs, size_t bytes, int source_rank)
{
    const char *at = descs, *end = descs + bytes;
    const uint32_t source_bits = (uint32_t)source_rank << PGAS_SLOT_BITS;
    uint64_t n = 0;
    bool some_tokens = false;
    while (end - at >= 8) {
        uint64_t header = header_at(at, end, source_rank);
        if (PGAS_UNLIKELY(!header))
            break;
        pgas_thread_t source = source_bits | (pgas_thread_t)pgasi_desc_slot(header);
        if (PGAS_UNLIKELY(header & PGASI_DESC_TOKEN)) {
            uint64_t token;
            memcpy(&token, at + 8, sizeof token);
            pgasi_token_ops.run(header, at + 16, source, token);
            some_tokens = true;
        } else {
            run_all(header, at + 8, source);
        }
        at += pgasi_desc_room(header);
        n += 1 + (uint64_t)pgasi_desc_more(header);
    }
    if (PGAS_UNLIKELY(some_tokens))
        pgasi_token_ops.settle();
    return n;
}

void pgasi_descs_arrived(char *descs, size_t bytes, int source_rank)
{
    char *at = descs, *end = descs + bytes;
    while (end - at >= 8) {
        uint64_t header = *(const uint64_t *)(const void *)at, wire;
        size_t room = pgasi_desc_room(header);
        if (room > (size_t)(end - at))
            break;
        if (header & PGASI_DESC_TOKEN) {
            memcpy(&wire, at + 8, sizeof wire);
            wire = pgasi_token_ops.arrived(pgas_thread_make(source_rank, pgasi_desc_slot(header)),
                                           pgasi_desc_handler(header), wire);
            memcpy(at + 8, &wire, sizeof wire);
        }
        at += room;
    }
}

/* Refuses calls of the library's own handlers. False: no caller was informed. */
static bool refuse_internal(uint64_t header, const char *args, pgas_thread_t source)
{
    uint32_t i = pgasi_desc_handler(header) - PGASI_DESC_FIRST_INTERNAL;
    pgasi_refuse_fn_t refuse = i < N_INTERNAL ? internal.refuse[i] : NULL;
    bool told = false;
    for (uint32_t k = 0; refuse && k <= pgasi_desc_more(header); k++)
        told = refuse(args + k * pgasi_desc_stride(header), pgasi_desc_bytes(header), source);
    return told;
}

uint64_t pgasi_descs_refuse(const char *descs, size_t bytes, int source_rank)
{
    const char *at = descs, *end = descs + bytes;
    uint64_t n = 0;
    while (end - at >= 8) {
        uint64_t header = header_at(at, end, source_rank), wire;
        if (!header)
            break;
        pgas_thread_t source = pgas_thread_make(source_rank, pgasi_desc_slot(header));
        bool token = header & PGASI_DESC_TOKEN;
        memcpy(&wire, at + (token ? 8 : 0), sizeof wire);
        if (token && wire) { /* 0: the caller already knows that the call arrived */
            pgasi_token_ops.refuse(source, pgasi_desc_handler(header), wire);
        } else if (!refuse_internal(header, at + (token ? 16 : 8), source) &&
                   pgasi_first_dropped()) {
            PGASI_ERROR("call", "rank %d called handler %u on a thread that has left: dropped",
                        source_rank, pgasi_desc_handler(header));
        }
        at += pgasi_desc_room(header);
        n += 1 + (uint64_t)pgasi_desc_more(header);
    }
    return n;
}
