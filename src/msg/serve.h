/** Serving: what handlers might do, outside of them. */
#ifndef PGASI_SERVE_H
#define PGASI_SERVE_H

#include "mem/ctx.h"
#include "mem/thread.h"
#include "msg/send_queue.h"

/** Around what handlers might do, elsewhere: with the receive lock, sending through context 0. No
 *  context's lock is held, but an endpoint's may be. */
pgasi_path_state_t pgasi_serve_begin(void);
void pgasi_serve_end(pgasi_path_state_t before);
/** The thread is inside of that, or runs a handler for any thread of the rank. */
static inline bool pgasi_is_serving(void)
{
    return pgasi_self.in_handler && pgasi_self.handler_ctx == pgasi_ctxs[PGASI_CTX_SERVICE];
}

#endif
