/** Serving: a thread acts as a handler for any thread of the rank, outside of handlers. */
#ifndef PGASI_SERVE_H
#define PGASI_SERVE_H

#include "mem/ctx.h"
#include "mem/thread.h"
#include "msg/send_queue.h"

/** Begins to serve. From here to pgasi_serve_end the calling thread, which holds the receive lock,
 *  sends through context 0, as handlers do. It holds no context's lock, but may hold an endpoint's.
 *  @return the state that pgasi_serve_end restores */
pgasi_path_state_t pgasi_serve_begin(void);
void pgasi_serve_end(pgasi_path_state_t before);
/** Whether the thread is between begin and end, or runs a handler for any thread of the rank. */
static inline bool pgasi_is_serving(void)
{
    return pgasi_self.in_handler && pgasi_self.handler_ctx == pgasi_ctxs[PGASI_CTX_SERVICE];
}

#endif
