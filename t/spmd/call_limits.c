/* Limits of calls.
 *   what:   A handler gets AGAIN when its queued calls to a full peer reach PGAS_BACKLOG_LIMIT, and
 *           no accepted call is lost. Completions and replies are always delivered. The number of
 *           counters is limited.
 *   np:     2 3 4
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_BACKLOG_LIMIT=2K PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=64 | PGAS_BACKLOG_LIMIT=0
 *   env:    PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=256 |
 *   env:    PGAS_BACKLOG_LIMIT=64K PGAS_FAULT=again=3,delay=3 | PGAS_BACKLOG_LIMIT=2K
 *   env:    PGAS_SERVICE_THREADS=0
 *   source: pgas/call.h
 */
#include "base/checks.h"
#include "base/param.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define SENT_MAX ((size_t)64 << 20)

static pgas_handler_t gate, pour, drop, count, fat_reply;
static int gate_open;
static size_t arg_bytes;
static uint64_t n_accepted, n_arrived, n_again, n_counted;
static int n_wrong;

static void on_drop(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t number;
    (void)context;
    memcpy(&number, args, sizeof number);
    n_wrong += bytes != arg_bytes;
    if (pgas_thread_rank(source) == 1)
        n_wrong += number != n_arrived;
    n_arrived++;
}

/* Rank 1: sends to rank 0, which is shut, until there is no room left. */
static void on_pour(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    unsigned char data[64] = { 0 };
    pgas_status_t status = PGAS_OK;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    while (status == PGAS_OK && n_accepted * arg_bytes < SENT_MAX) {
        memcpy(data, &n_accepted, 8);
        status = pgas_call(0, drop, data, arg_bytes, NULL);
        n_accepted += status == PGAS_OK;
    }
    n_again += status == PGAS_ERR_AGAIN;
    memcpy(data, &n_accepted, 8);
    n_wrong += pgas_call_to(pgas_on_rank(0), drop, data, arg_bytes,
                            PGAS_CALL_OPTS(.full = PGAS_FULL_AGAIN)) != PGAS_ERR_AGAIN;
}

static void on_fat_reply(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    unsigned char data[64];
    (void)bytes;
    (void)source;
    (void)context;
    memset(data, *(const unsigned char *)args, sizeof data);
    n_wrong += pgas_reply(data, sizeof data) != PGAS_OK;
}

/* The first thread of rank 0 stays out of the library while the gate is shut. */
static void handlers_hear_again(void)
{
    int n_bad = 0;
    pgas_barrier(NULL);
    spmd_progress(NULL);
    spmd_barrier();
    if (me == 1) {
        n_bad += pgas_call(0, gate, NULL, 0, NULL) != PGAS_OK ||
                 pgas_call(1, pour, NULL, 0, NULL) != PGAS_OK;
        while (!__atomic_load_n(&n_again, __ATOMIC_ACQUIRE) &&
               __atomic_load_n(&n_accepted, __ATOMIC_ACQUIRE) < SENT_MAX)
            pgas_progress();
    }
    spmd_barrier();
    if (me == 0)
        __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
    spmd_progress(job_progress);
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_wrong == 0 && (me != 1 || n_again == 1),
            "a handler that sends to a full peer gets AGAIN");
    uint64_t mine[2] = { n_accepted, n_arrived }, all[2] = { 0, 0 };
    pgas_allreduce(NULL, mine, all, 2, PGAS_U64, PGAS_ADD);
    spmd_ok(all[0] == all[1] && all[0] > 0, "its accepted calls have arrived, in order");
}

/* Many completions and replies at once, to senders whose own channels are full of questions. */
static void answers_are_never_given_up(void)
{
    enum { N = 1500, REPLIES = 300 };
    static unsigned char back[REPLIES][64];
    pgas_sync_t executed = PGAS_SYNC_INIT, replied = PGAS_SYNC_INIT;
    int n_bad = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < N; i++) {
        n_bad += pgas_call(i % n_ranks, count, NULL, 0, &executed) != PGAS_OK;
        unsigned char value = (unsigned char)i;
        if (i < REPLIES)
            n_bad += pgas_call_return_nb(i % n_ranks, fat_reply, &value, 1, back[i], sizeof back[i],
                                         &replied) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK || pgas_sync_wait(&replied, -1) != PGAS_OK;
    for (int i = 0; i < REPLIES; i++)
        for (size_t k = 0; k < sizeof back[i]; k++)
            n_bad += back[i][k] != (unsigned char)i;
    spmd_ok(n_bad == 0 && n_wrong == 0, "completions and replies come whatever the limit");
    pgas_barrier(NULL);
    pgas_quiesce();
}

/* Where ranks may die, the library keeps a record of each such call, of which it has 65536. */
static void more_calls_than_records(void)
{
    enum { MOST = 70000 };
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    uint64_t before = n_counted;
    pgas_barrier(NULL);
    for (int i = 0; i < MOST; i++)
        n_bad += pgas_call(job_right(), count, NULL, 0, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || sync.count != 0;
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && n_counted == before + MOST, "70000 calls raise one counter");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.gate", on_gate, &gate_open, NULL, &gate);
    pgas_handler_register("t.pour", on_pour, NULL, NULL, &pour);
    pgas_handler_register("t.drop", on_drop, NULL, NULL, &drop);
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    pgas_handler_register("t.fat_reply", on_fat_reply, NULL, NULL, &fat_reply);
    job_begin(&argc, &argv, 4);
    arg_bytes = PGASI_MIN((size_t)64, pgasi_param.call_max);
    handlers_hear_again();
    answers_are_never_given_up();
    more_calls_than_records();
    return job_end();
}
