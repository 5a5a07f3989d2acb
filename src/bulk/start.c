/* Start, stop and progress of bulk messages, and the messages that a death ends. */
#include "base/deaths.h"
#include "boot/hooks.h"
#include "bulk/bulk.h"
#include "mem/ctx.h"
#include "msg/send_queue.h"

static int poll(void)
{
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    bool retry = false;
    pgasi_hooks_want_poll(PGASI_LAYER_BULK, false);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    int n = pgasi_pulls_progress(&retry);
    retry |= pgasi_replies_progress();
    retry |= pgasi_answers_progress();
    if (retry)
        pgasi_bulk_want_poll();
    pgasi_handlers_leave(before);
    return n + retry; /* no service thread sleeps while an operation must be tried again */
}

/* Drops the messages and requests of a dead rank. */
static void forget_dead(int rank)
{
    pgasi_arrive_peer_died(rank);
    pgasi_replies_peer_died(rank);
    pgasi_pulls_peer_died(rank);
    pgasi_answers_peer_died(rank);
    pgasi_offers_peer_died(rank);
}

pgas_status_t pgasi_bulk_start(void)
{
    pgas_status_t status = pgasi_offers_start();
    pgasi_answers_start();
    pgasi_reach_start();
    pgasi_arrive_start();
    pgasi_pulls_start();
    pgasi_hooks.call_bulk = pgasi_bulk_call;
    pgasi_hooks.poll[PGASI_LAYER_BULK] = poll;
    pgasi_hooks_want_poll(PGASI_LAYER_BULK, false); /* a request of an earlier job */
    pgasi_deaths_add(forget_dead);
    return status;
}

void pgasi_bulk_stop(void)
{
    pgasi_arrive_stop();
    pgasi_replies_stop();
    pgasi_pulls_stop();
    pgasi_offers_stop();
    pgasi_answers_stop();
}
