/* One-sided transfers of elements: see put.h.
 *
 * Messages to the rank must be puts, too, into a channel there (msg/far_channel.h). Each message is
 * two puts with a fence between them, on the same context as the elements. The transport promises
 * that puts before a fence are visible at the peer before those after it. The header is behind the
 * fence, and the peer runs a message only when it sees the header. So it sees the elements first. A
 * put takes some hundred nanoseconds of this thread, for a chunk of any size. A message takes a
 * copy on both sides. */
#include "array/put.h"

#include "base/log.h"
#include "boot/boot.h"
#include "mem/rma.h"
#include "mem/segment.h"
#include "msg/send_queue.h"

/* A later message from the rank proves that a put has arrived. This function handles only its loss,
 * because the message behind it may run nevertheless. */
static void was_put(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    (void)comp;
    pgasi_ctx_count(pgasi_ctxs[PGASI_CTX_SERVICE], -1);
    if (status != PGAS_OK && status != PGAS_ERR_PEER)
        pgasi_fatal("array", "elements that were put may be lost: %s", pgas_status_text(status));
}

static pgas_status_t put(pgasi_ctx_t *ctx, int to, uint64_t offset, const void *data, size_t bytes)
{
    static pgasi_tp_comp_t comp = { .fn = was_put, .once = true };
    pgasi_tp_key_t *key;
    uint64_t address;
    pgas_status_t status = pgasi_ctx_open(ctx);
    if (status == PGAS_OK)
        status = pgasi_heap_reach(ctx, to, offset, bytes, &key, &address);
    if (status != PGAS_OK)
        return status;
    status = ctx->tp->ops->put(ctx->tp, to, key, address, data, bytes, &comp);
    if (status == PGAS_INPROGRESS)
        pgasi_ctx_count(ctx, 1);
    if (status >= PGAS_OK)
        pgasi_ctx_note_issued(ctx, to);
    return status;
}

bool pgasi_array_put(pgasi_array_t *a, int to, uint64_t offset, const void *data, size_t bytes)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    if (pgasi_boot_is_dead(to) || !pgasi_sendq_answers_by_puts(to))
        return false;
    pgasi_ctx_lock(ctx);
    bool done = put(ctx, to, offset, data, bytes) >= PGAS_OK;
    pgasi_ctx_unlock(ctx);
    if (done)
        pgasi_array_count(&a->info.put_bytes, bytes);
    return done;
}
