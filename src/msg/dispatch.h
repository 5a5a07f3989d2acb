/** Dispatch: runs the function that a descriptor's handler number names. src/call/handler.c gives
 *  the program's handlers their numbers; the library's own have numbers from
 *  PGASI_DESC_FIRST_INTERNAL on. A descriptor with a token belongs to src/call, which registers the
 *  function that handles it. */
#ifndef PGASI_DISPATCH_H
#define PGASI_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "msg/descriptor.h"
#include "pgas/call.h"

typedef struct {
    pgas_handler_fn_t fn;
    void *context;
    pgas_handler_batch_fn_t batch; /* NULL: none */
    bool blocks;
} pgasi_handler_entry_t;

/** By number; 0 and those from pgasi_n_handlers + 1 on are empty. */
extern pgasi_handler_entry_t pgasi_handlers[PGAS_HANDLERS_MAX + 1];
extern uint32_t pgasi_n_handlers;

static inline bool pgasi_handler_known(pgas_handler_t handler)
{
    return handler - 1u < pgasi_n_handlers;
}

/** Set the library's own handlers, when a module starts. A refuse function receives a call that
 *  arrived at an endpoint whose thread has left. It returns whether it has informed the caller.
 *  Without a refuse function the call is dropped, counted, and logged once. */
typedef bool (*pgasi_refuse_fn_t)(const void *args, size_t bytes, pgas_thread_t source);
void pgasi_handler_set_internal(uint32_t id, pgas_handler_fn_t fn);
void pgasi_handler_set_internal_batch(uint32_t id, pgas_handler_batch_fn_t fn);
void pgasi_handler_set_refused(uint32_t id, pgasi_refuse_fn_t fn);

/** The handling of descriptors with a token (descriptor.h):
 *  - run: the call runs and completes. Completions of one source are gathered until `settle`, which
 *    the same thread calls before it leaves the calls of that source;
 *  - refuse: the caller receives PGAS_ERR_PEER;
 *  - arrived: the call has arrived and runs later. The result is the token that is left. */
typedef struct {
    void (*run)(uint64_t header, const void *args, pgas_thread_t source, uint64_t token);
    void (*settle)(void);
    void (*refuse)(pgas_thread_t source, uint32_t handler, uint64_t token);
    uint64_t (*arrived)(pgas_thread_t source, uint32_t handler, uint64_t token);
} pgasi_token_ops_t;
void pgasi_dispatch_set_tokens(const pgasi_token_ops_t *ops);
extern pgasi_token_ops_t pgasi_token_ops;

/** Runs one call of any handler.
 *  @return PGAS_OK
 *  @return PGAS_ERR_NOT_FOUND: no handler has this number; logged once */
pgas_status_t pgasi_dispatch(uint32_t number, const void *args, size_t bytes, pgas_thread_t source);

/** Runs n calls of a handler as one run, as if they had arrived from that source. The caller holds
 *  the receive lock and is inside a handler. */
void pgasi_handler_run(uint32_t number, const char *args, size_t bytes, size_t stride, size_t n,
                       pgas_thread_t source);

/** Runs descriptors of one source and returns the number of calls. The caller holds the lock of the
 *  endpoint at which they arrived. Every header is checked before use. A malformed one ends the
 *  run; it is counted, and logged once. */
uint64_t pgasi_descs_run(const char *descs, size_t bytes, int source_rank);

/** The same for an endpoint whose thread has left. Callers that wait receive PGAS_ERR_PEER. Calls
 *  for whose end no thread waits are counted and logged once. */
uint64_t pgasi_descs_refuse(const char *descs, size_t bytes, int source_rank);

/** Reports the arrival of descriptors that run later to the callers that requested a report. It
 *  marks these descriptors as reported. The caller is inside a handler of the library
 *  (pgasi_handlers_enter). */
void pgasi_descs_arrived(char *descs, size_t bytes, int source_rank);

/** Counts dropped messages: malformed descriptors, messages without the job's key, and calls
 *  without a receiver. */
extern uint64_t pgasi_n_dropped;
/** Adds one, on any thread. Returns true for the first, which the caller logs. */
static inline bool pgasi_first_dropped(void)
{
    return __atomic_fetch_add(&pgasi_n_dropped, 1, __ATOMIC_RELAXED) == 0;
}

#endif
