/* Control messages about channels between nodes. The owner of the memory answers senders, and
 * senders take the answers (far_channel.c). */
#include "msg/channel_memory.h"

#include <string.h>

#include "base/log.h"
#include "mem/ctx.h"
#include "mem/segment.h"
#include "msg/dispatch.h"
#include "msg/far_channel.h"
#include "msg/recv_queue.h"

static void drop(int source)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "rank %d sent a malformed channel message: dropped", source);
}

/* A sender requests a channel. The answer carries the key of the heap. */
static bool on_ask(pgasi_ctl_t *ctl, int source)
{
    pgasi_segment_wire_t wire;
    memset(&wire, 0, sizeof wire);
    if (!pgasi_chanmem_grant(ctl, source, &wire))
        return false;
    ctl->what = PGASI_CTL_GRANT;
    pgasi_ctl_send(source, ctl, &wire, sizeof wire);
    return true;
}

/* A sender requests a further chunk. */
static bool on_more(pgasi_ctl_t *ctl, int source)
{
    if (!pgasi_chanmem_grow(ctl, source))
        return false;
    ctl->what = PGASI_CTL_CHUNK;
    pgasi_ctl_send(source, ctl, NULL, 0);
    return true;
}

/* False: the message is malformed, and nothing is done. */
static bool follow(pgasi_ctl_t *ctl, int source, const char *data, size_t bytes)
{
    switch (ctl->what) {
    case PGASI_CTL_ASK:
        return on_ask(ctl, source);
    case PGASI_CTL_MORE:
        return on_more(ctl, source);
    case PGASI_CTL_JOIN:
        return pgasi_chanmem_join(ctl, source);
    case PGASI_CTL_BACK:
        return pgasi_chanmem_give_back(ctl, source);
    default:
        return pgasi_far_channel_answer(ctl, source, data, bytes);
    }
}

static void on_ctl(const void *args, size_t bytes, pgas_thread_t thread, void *context)
{
    pgasi_ctl_t ctl;
    int source = pgas_thread_rank(thread);
    (void)context;
    bool sane = bytes >= sizeof ctl;
    if (sane)
        memcpy(&ctl, args, sizeof ctl);
    sane = sane && ctl.ep < (uint32_t)pgasi_n_eps && ctl.ctx < (uint32_t)pgasi_n_ctxs;
    if (!sane || !follow(&ctl, source, (const char *)args + sizeof ctl, bytes - sizeof ctl))
        drop(source);
}

static bool on_ctl_for_left(const void *args, size_t bytes, pgas_thread_t thread)
{
    on_ctl(args, bytes, thread, NULL);
    return true;
}

void pgasi_ctl_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_CHANNEL, on_ctl);
    /* A channel of a thread that has left may be joined: its calls are refused then. */
    pgasi_handler_set_refused(PGASI_DESC_CHANNEL, on_ctl_for_left);
}
