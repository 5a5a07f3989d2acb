/** Handlers: registration by name, and numbers that all ranks agree on. */
#ifndef PGASI_HANDLER_H
#define PGASI_HANDLER_H

#include <stdbool.h>
#include "msg/dispatch.h"
#include "pgas/call.h"

/** True if calls of the handler run on a handler thread. */
static inline bool pgasi_handler_blocks(uint32_t number)
{
    return number - 1u < pgasi_n_handlers && pgasi_handlers[number].blocks;
}

/** Registers the functions that run calls with a token, and the handler of spawned calls. */
void pgasi_handlers_start(void);
/** Forgets the numbers at finalize. The registrations stay for the next init. */
void pgasi_handlers_stop(void);

/** Agrees on the handlers that were registered since the last agreement. Collective. After an error
 *  the registrations remain, without numbers. */
pgas_status_t pgasi_handlers_agree(void);

/** Runs one handler in the context that the caller has made. The handler may be one of the
 *  library's own, and it may be one that waits.
 *  @return PGAS_OK.
 *  @return PGAS_ERR_NOT_FOUND: there is no such handler, which is logged once. */
pgas_status_t pgasi_handler_run_here(uint32_t number, const void *args, size_t bytes,
                                     pgas_thread_t source);

/** Does the same for handlers of the program only. */
pgas_status_t pgasi_handler_run_one(uint32_t number, const void *args, size_t bytes,
                                    pgas_thread_t source);

#endif
