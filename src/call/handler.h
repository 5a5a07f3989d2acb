/** Handlers: names, numbers, and running a descriptor. */
#ifndef PGASI_HANDLER_H
#define PGASI_HANDLER_H

#include <stdbool.h>
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

/** Runs on a handler thread. */
static inline bool pgasi_handler_blocks(uint32_t number)
{
    return number - 1u < pgasi_n_handlers && pgasi_handlers[number].blocks;
}

/** Agrees on the handlers registered since the last time. Collective. */
pgas_status_t pgasi_handlers_agree(void);
/** Forgets numbers (finalize); registrations made so far stay for the next init. */
void pgasi_handlers_stop(void);

/** The library's own handlers, by PGASI_DESC_*; set at start. */
void pgasi_handler_set_internal(uint32_t id, pgas_handler_fn_t fn);
void pgasi_handler_set_internal_batch(uint32_t id, pgas_handler_batch_fn_t fn);
/** The same for those that arrive at a port that no thread answers to any more. */
void pgasi_handler_set_refused(uint32_t id, pgas_handler_fn_t fn);

/** Runs n calls of a handler as one run, as if they had arrived from that source. Inbox lock held,
 *  in a handler. */
void pgasi_handler_run(uint32_t number, const char *args, size_t bytes, size_t stride, size_t n,
                       pgas_thread_t source);

/** Runs one of the program's handlers, in the thread and context of the caller, as for a call of
 *  source; also one that may wait, which the caller must allow. PGAS_ERR_NOT_FOUND: there is none
 *  with this number, logged once. */
pgas_status_t pgasi_handler_run_one(uint32_t number, const void *args, size_t bytes,
                                    pgas_thread_t source);

void pgasi_spawn_set_handler(void);

/** Runs a run of descriptors of one source, inbox lock held. Checks every header before use; what
 *  is malformed ends the run, counted and logged once. Returns the number of calls that ran. */
uint64_t pgasi_descs_run(const char *descs, size_t bytes, int source_rank);

/** The same for a port that no thread answers to any more: who waits for a call hears
 *  PGAS_ERR_PEER; those for which nobody waits, or nobody any more, are counted and logged once. */
uint64_t pgasi_descs_refuse(const char *descs, size_t bytes, int source_rank);

/** Descriptors that run later have arrived: tells those who asked for that, and notes in the
 *  descriptors that it has. Inside a handler for the library (pgasi_handlers_enter). */
void pgasi_descs_arrived(char *descs, size_t bytes, int source_rank);

/** Runs one handler, the library's too, in the context that the caller has made: one that may wait
 *  runs here as well. PGAS_ERR_NOT_FOUND if there is none. */
pgas_status_t pgasi_handler_run_here(uint32_t number, const void *args, size_t bytes,
                                     pgas_thread_t source);

/** Of malformed descriptors, of messages without the job's key, and of calls that found nobody. */
extern uint64_t pgasi_n_dropped;
/** One more, on any thread; true for the first, which is logged. */
static inline bool pgasi_first_dropped(void)
{
    return __atomic_fetch_add(&pgasi_n_dropped, 1, __ATOMIC_RELAXED) == 0;
}

#endif
