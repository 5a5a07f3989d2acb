/* Messages to a thread that does not poll.
 *   what:   A thread of another node does not poll. A sender to it waits after PGAS_FAR_QUEUE bytes
 *           and the messages under way, and continues when the thread has polled. No message is
 *           lost, and the order is kept. Refused calls are not counted.
 *   np:     2 3
 *   nodes:  1
 *   tls:    posix tcp,self
 *   env:    PGAS_FAR_CALLS=message PGAS_FAR_QUEUE=64K | PGAS_FAR_CALLS=message PGAS_FAR_QUEUE=16K
 *   env:    PGAS_SERVICE_THREADS=2 |
 *   env:    PGAS_FAR_CALLS=message PGAS_FAR_QUEUE=64K PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/call.h, src/msg/far.c */
#include <sched.h>
#include "base/param.h"
#include "msg/send_queue.h"
#include "mem/thread.h"
#include "t/spmd/job.h"

#define PIECE 1000
/* bytes under way when a sender is stopped, including buffers of sockets */
#define SLACK  ((uint64_t)16 << 20)
#define ENOUGH ((uint64_t)64 << 20)

static pgas_handler_t note_handler;
static uint64_t *away; /* in the heap: 0 while the first rank's thread has to stay away */
static uint64_t n_ran[64], n_wrong;

static void note(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += bytes != PIECE || number != n_ran[pgas_thread_rank(source)]++;
}

/* Returns the bytes that were taken before the first refusal, or ENOUGH. */
static uint64_t send_until_refused(uint64_t *n_sent)
{
    static uint64_t args[PIECE / 8];
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.full = PGAS_FULL_AGAIN;
    pgas_status_t status = PGAS_OK;
    uint64_t bytes = 0;
    int n_refused = 0;
    /* with faults the transport refuses too, but not for long */
    while (n_refused < 1000 && bytes < ENOUGH) {
        args[0] = *n_sent;
        status =
            pgas_call_to(pgas_on_thread(pgas_thread_make(0, 0)), note_handler, args, PIECE, &opts);
        if (status == PGAS_OK) {
            n_refused = 0;
            ++*n_sent;
            bytes += PIECE;
        } else {
            n_refused += status == PGAS_ERR_AGAIN;
            pgas_progress();
        }
    }
    return status == PGAS_ERR_AGAIN ? bytes : ENOUGH;
}

/* Batches of the own thread: that waited for room, and that left as their order asked. */
static uint64_t waited(void)
{
    const pgasi_sendq_t *sendq = pgasi_self.ctx->sendq;
    return sendq ? pgasi_sendq_stats(sendq)->n_queued : 0;
}

static uint64_t published(void)
{
    const pgasi_sendq_t *sendq = pgasi_self.ctx->sendq;
    return sendq ? pgasi_sendq_stats(sendq)->published[PGASI_PUBLISH_ORDER] : 0;
}

static void stopped_and_on_again(void)
{
    static uint64_t args[PIECE / 8];
    uint64_t n_sent = 0, taken = 0, one = 1, all = 0;
    bool counts_sane = true;
    pgas_gptr_t flags;
    pgas_alloc(64 * sizeof *away, &flags);
    away = pgas_gptr_local(flags, 64 * sizeof *away);
    memset(away, 0, 64 * sizeof *away);
    pgas_barrier(NULL);
    if (pgas_rank() == 0) {
        for (int r = 1; r < pgas_n_ranks(); r++)
            while (!__atomic_load_n(&away[r], __ATOMIC_ACQUIRE))
                sched_yield();
    } else {
        uint64_t n_queued = waited(), n_published = published();
        taken = send_until_refused(&n_sent);
        counts_sane = waited() == n_queued && published() - n_published <= n_sent;
        pgas_put(pgas_gptr_at(flags, 0) + (uint64_t)pgas_rank() * sizeof one, &one, sizeof one);
        for (int i = 0; i < 200; i++) {
            args[0] = n_sent++;
            pgas_call_to(pgas_on_thread(pgas_thread_make(0, 0)), note_handler, args, PIECE, NULL);
        }
    }
    pgas_quiesce();
    pgas_allreduce(NULL, &taken, &all, 1, PGAS_U64, PGAS_ADD);
    uint64_t most = (uint64_t)(pgas_n_ranks() - 1) * (pgasi_param.far_queue + SLACK);
    spmd_ok(all >= pgasi_param.far_queue / 2 && all < most,
            "senders are stopped (%llu bytes were taken)", (unsigned long long)all);
    spmd_ok(counts_sane, "refused calls are not counted");
    pgas_allreduce(NULL, &n_sent, &all, 1, PGAS_U64, PGAS_ADD);
    uint64_t sum = 0;
    for (int r = 0; r < pgas_n_ranks(); r++)
        sum += n_ran[r];
    spmd_ok(pgas_rank() != 0 || (sum == all && n_wrong == 0),
            "accepted calls have run, in order, and so have later ones");
    pgas_free(flags);
}

int main(int argc, char **argv)
{
    pgas_handler_register("note", note, NULL, NULL, &note_handler);
    job_begin(&argc, &argv, 3);
    stopped_and_on_again();
    return job_end();
}
