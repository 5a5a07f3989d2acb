/* Limits of calls with buffers.
 *   what:   Buffers larger than PGAS_BUFFER_LIMIT are refused. Pulls wait until there is room for
 *           them. A copy that finds no room completes with PGAS_ERR_NO_MEMORY, and the next copy
 *           succeeds. A rank has at most 256 open pulls.
 *   np:     2 3
 *   nodes:  0 1
 *   env:    PGAS_BUFFER_LIMIT=256K | PGAS_BUFFER_LIMIT=256K PGAS_VM_READ=0
 *   log:    a call with buffers from rank [0-9]+ is lost: heap, pool or system memory exhausted
 *   source: pgas/call.h
 */
#include "base/checks.h"
#include "base/param.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "bulk/bulk.h"
#include "msg/descriptor.h"
#include "t/handlers.h"
#include "t/spmd/buffers.h"
#include "t/spmd/job.h"

#define LIMIT      ((size_t)256 << 10)
#define N_PULLS    30
#define PULL_BYTES 100000
#define FULL_TRIES 1000
#define HALF       ((size_t)200 << 10)

static pgas_handler_t whole, count, gate, give;
static int gate_open, n_whole;
static uint64_t n_counted;
static unsigned char *memory;

/* Every byte is that of its place. */
static void on_whole(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    void *address = NULL;
    size_t n = 0, i = 0;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    bool good = pgas_buffer_get(0, &address, &n) == PGAS_OK;
    while (good && i < n && ((unsigned char *)address)[i] == (unsigned char)(i * 7))
        i++;
    n_whole += good && i == n;
}

static void too_large(void)
{
    pgas_buffer_t b[2] = { { PGAS_BUFFER_COPY, memory, LIMIT + 1, PGAS_NULL, false, NULL },
                           { PGAS_BUFFER_PULL, memory, LIMIT, PGAS_NULL, false, NULL } };
    bool good =
        call_buffers(pgas_on_rank(job_right()), count, NULL, 0, b, 1, NULL, NULL) == PGAS_ERR_LIMIT;
    b[0].mode = PGAS_BUFFER_PULL;
    good = good && call_buffers(pgas_on_rank(job_right()), count, NULL, 0, b, 1, NULL, NULL) ==
                       PGAS_ERR_LIMIT;
    b[0].bytes = 9;
    good = good && call_buffers(pgas_on_rank(job_right()), count, NULL, 0, b, 2, NULL, NULL) ==
                       PGAS_ERR_LIMIT;
    good =
        good && pgas_call_return(job_right(), give, NULL, 0, memory, LIMIT + 1) == PGAS_ERR_LIMIT;
    spmd_ok(good && pgas_quiesce() == PGAS_OK && n_counted == 0,
            "more than PGAS_BUFFER_LIMIT, alone or in sum, is refused");
    b[0].mode = PGAS_BUFFER_COPY;
    b[0].bytes = LIMIT;
    good = call_buffers(pgas_on_rank(job_right()), whole, NULL, 0, b, 2, NULL, NULL) == PGAS_OK &&
           pgas_quiesce() == PGAS_OK;
    spmd_ok(good && n_whole == 1, "as much as that copied, and pulled, is not");
}

static void pulls_wait_for_room(void)
{
    pgas_sync_t executed = PGAS_SYNC_INIT;
    int n_bad = 0;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &executed;
    n_whole = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < N_PULLS; i++) {
        pgas_buffer_t b = { PGAS_BUFFER_PULL, memory, PULL_BYTES, PGAS_NULL, i % 3 > 0, NULL };
        n_bad +=
            call_buffers(pgas_on_rank(job_right()), whole, NULL, 0, &b, 1, &opts, NULL) != PGAS_OK;
    }
    n_bad += pgas_sync_wait(&executed, -1) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad, 0, "more pulls at once than there is room for");
    spmd_ok(n_whole == N_PULLS && pgasi_pulls_high() >= PULL_BYTES && pgasi_pulls_high() <= LIMIT,
            "all arrive, and the rank never has more than the limit");
}

/* The first part of a call with one large buffer, then the rest of it. */
static pgas_status_t send_some(uint64_t id, size_t from, size_t to)
{
    static struct {
        pgasi_bulk_head_t head;
        pgasi_bulk_part_t part;
        unsigned char data[HALF];
    } stream;
    memset(&stream, 0, sizeof stream);
    stream.head.head_bytes = stream.head.args_at = offsetof(__typeof__(stream), data);
    stream.head.handler = whole;
    stream.head.n_parts = 1;
    stream.part = (pgasi_bulk_part_t){ HALF, 0, PGAS_NULL, PGAS_BUFFER_COPY, 0, 0 };
    memcpy(stream.data, memory, HALF);
    pgas_status_t status = PGAS_OK;
    to = PGASI_MIN(to, sizeof stream);
    for (size_t at = from; at < to && status == PGAS_OK; at += 1024) {
        pgasi_bulk_piece_t piece = { id, sizeof stream, at };
        status = pgasi_sendq_call_pair(job_right(), PGASI_EP_ANY, false, PGASI_DESC_BULK, &piece,
                                       sizeof piece, (const char *)&stream + at,
                                       PGASI_MIN(to - at, (size_t)1024), PGAS_FULL_WAIT);
    }
    return status;
}

static pgas_status_t copy_and_wait(void)
{
    pgas_sync_t executed = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_buffer_t b = { PGAS_BUFFER_COPY, memory, PULL_BYTES, PGAS_NULL, false, NULL };
    opts.sync = &executed;
    pgas_status_t status = PGAS_OK;
    if (status == PGAS_OK)
        status = call_buffers(pgas_on_rank(job_right()), whole, NULL, 0, &b, 1, &opts, NULL);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&executed, -1);
    return status;
}

static void copies_find_no_room(void)
{
    n_whole = 0;
    pgas_barrier(NULL);
    int n_bad = send_some(UINT64_C(1) << 40, 0, 2048) != PGAS_OK;
    spmd_is_int(copy_and_wait(), PGAS_ERR_NO_MEMORY,
                "beside a large one that has begun, a copy finds no room: its counter says so");
    pgas_buffer_t b = { PGAS_BUFFER_COPY, memory, PULL_BYTES, PGAS_NULL, false, NULL };
    /* the log says so */
    n_bad += call_buffers(pgas_on_rank(job_right()), whole, NULL, 0, &b, 1, NULL, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_whole == 0, "and its handler does not run");
    n_bad = send_some(UINT64_C(1) << 40, 2048, SIZE_MAX) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && n_whole == 1, "the large one does, when the rest has come");
    spmd_is_int(copy_and_wait(), PGAS_OK, "and then there is room again");
}

static void open_pulls_are_limited(void)
{
    pgas_status_t status = PGAS_OK;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    int n_sent = 0, n_bad = 0;
    opts.full = PGAS_FULL_AGAIN;
    n_counted = 0;
    pgas_barrier(NULL);
    spmd_progress(NULL);
    spmd_barrier();
    if (me == 1)
        n_bad += pgas_call(0, gate, NULL, 0, NULL) != PGAS_OK;
    bool going = me == 1;
    /* the way there may be full too, until it has grown */
    for (int n_full = 0; going && n_full < FULL_TRIES && n_sent < 1000;) {
        pgas_buffer_t b = { PGAS_BUFFER_PULL, memory, 1032, PGAS_NULL, false, NULL };
        status = call_buffers(pgas_on_rank(0), count, NULL, 0, &b, 1, &opts, NULL);
        n_sent += status == PGAS_OK;
        n_full += status == PGAS_ERR_AGAIN;
        going = status == PGAS_OK || status == PGAS_ERR_AGAIN;
    }
    bool near = me == 1 && pgas_node_of(0) == pgas_node();
    spmd_ok(me != 1 || (status == PGAS_ERR_AGAIN && n_sent <= 256 && (!near || n_sent == 256)),
            "AGAIN for more than 256 open pulls");
    if (me == 0)
        __atomic_store_n(&gate_open, 1, __ATOMIC_RELEASE);
    spmd_progress(job_progress);
    n_bad += pgas_quiesce() != PGAS_OK;
    uint64_t mine = (uint64_t)n_sent, all = 0;
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_U64, PGAS_ADD);
    spmd_ok(n_bad == 0 && (me != 0 || n_counted == all), "and those that were taken run once");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.whole", on_whole, NULL, NULL, &whole);
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    pgas_handler_register("t.gate", on_gate, &gate_open, NULL, &gate);
    pgas_handler_register("t.give", on_count, &n_counted, NULL, &give);
    job_begin(&argc, &argv, 10);
    memory = job_alloc(LIMIT + 8);
    for (size_t i = 0; i < LIMIT; i++)
        memory[i] = (unsigned char)(i * 7);
    too_large();
    pulls_wait_for_room();
    copies_find_no_room();
    open_pulls_are_limited();
    free(memory);
    return job_end();
}
