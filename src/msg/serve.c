/* Serving: see serve.h. */
#include "msg/serve.h"

#include "msg/inbox.h"

pgasi_path_state_t pgasi_serve_begin(void)
{
    pgasi_inbox_lock();
    return pgasi_handlers_enter(true);
}

void pgasi_serve_end(pgasi_path_state_t before)
{
    pgasi_handlers_leave(before);
    pgasi_outbox_t *ob = pgasi_ctxs[PGASI_CTX_SERVICE]->outbox;
    if (ob)
        pgasi_outbox_publish_all(ob, PGASI_PUBLISH_DRAINED);
    pgasi_inbox_unlock();
}
