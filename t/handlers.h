/* Handlers that several tests register:
 *
 *   static uint64_t n_counted;
 *   static pgas_handler_t count;
 *   ...
 *   pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
 */
#ifndef T_HANDLERS_H
#define T_HANDLERS_H

#include <stdint.h>
#include "pgas/call.h"

static inline void on_nothing(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
}

/* Counts its calls in the uint64_t at context. */
static inline void on_count(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    __atomic_fetch_add((uint64_t *)context, 1, __ATOMIC_RELEASE);
}

/* Occupies the thread that runs it, outside the library, until the int at context is not 0. */
static inline void on_gate(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    while (!__atomic_load_n((int *)context, __ATOMIC_ACQUIRE)) {
    }
}

/* Replies with its arguments. */
static inline void on_echo(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    pgas_reply(args, bytes);
}

#endif
