/* Serving: see serve.h. */
#include "msg/serve.h"

#include "msg/recv_queue.h"

pgasi_path_state_t pgasi_serve_begin(void)
{
    pgasi_recv_lock();
    return pgasi_handlers_enter(true);
}

void pgasi_serve_end(pgasi_path_state_t before)
{
    pgasi_handlers_leave(before);
    pgasi_sendq_t *sq = pgasi_ctxs[PGASI_CTX_SERVICE]->sendq;
    if (sq)
        pgasi_sendq_publish_all(sq, PGASI_PUBLISH_DRAINED);
    pgasi_recv_unlock();
}
