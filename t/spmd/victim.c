/* One rank of this job is killed, the others wait for it: the program of t/spmd/kill.t, no test by
 * itself.
 *   victim RANK HOW       HOW names the survivors' work: barrier, compute, reply, signal, progress;
 *                         or survive: they continue (PGAS_ON_PEER_DEATH=continue) and report the
 *                         results of their calls; or broadcast: the same, and the rank dies of a
 *                         broadcast of rank 0; or lock: the same, and the rank dies with a lock of
 *                         rank 0 and one of its own, for which others wait; or large: the same,
 *                         and the rank dies while others read its buffers in a collective */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "pgas/pgas.h"
#include "t/handlers.h"

static pgas_handler_t never, dies, dies_there, note, waits;
static int n_notes, n_broken, n_bad_counts, n_started, n_ended;

static void on_dies(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    raise(SIGKILL);
}

static void on_dies_there(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)bytes;
    (void)source;
    (void)context;
    if (*(const int *)args == pgas_rank())
        raise(SIGKILL);
}

static void on_note(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    n_broken += *(const int *)args;
    (void)bytes;
    (void)source;
    (void)context;
    __atomic_add_fetch(&n_notes, 1, __ATOMIC_RELEASE);
}

/* Waits for an operation that no rank is left to do, until the end of the job. */
static void on_waits(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    pgas_sync_add(&sync, 1);
    __atomic_fetch_add(&n_started, 1, __ATOMIC_RELEASE);
    bool good = pgas_sync_wait(&sync, -1) == PGAS_ERR_PEER;
    __atomic_fetch_add(&n_ended, good, __ATOMIC_RELEASE);
}

static void wait_for_the_end(const char *how, int victim)
{
    static uint64_t word;
    uint64_t x = 0;
    volatile double y = 1;
    if (strcmp(how, "barrier") == 0)
        pgas_barrier(NULL);
    else if (strcmp(how, "reply") == 0)
        while (pgas_call_return(victim, never, NULL, 0, &x, sizeof x) != PGAS_OK) {
        }
    else if (strcmp(how, "signal") == 0)
        pgas_signal_wait(&word, PGAS_EQ, 1, -1, NULL);
    else if (strcmp(how, "progress") == 0)
        for (;;)
            pgas_progress();
    for (;;)
        y = y * 0.5 + 1;
}

static int not_peer(const char *what, pgas_status_t status)
{
    if (status == PGAS_ERR_PEER)
        return 0;
    printf("rank %d: %s gave %s\n", pgas_rank(), what, pgas_status_name(status));
    return 1;
}

static int names_other(const pgas_sync_t *sync, int rank, pgas_handler_t handler)
{
    pgas_sync_info_t e = { .size = sizeof e };
    if (pgas_sync_info(sync, &e) == PGAS_OK && e.status == PGAS_ERR_PEER && e.rank == rank &&
        e.handler == handler && e.operation == PGAS_OPERATION_CALL)
        return 0;
    printf("rank %d: the counter names rank %d, handler %d: %s\n", pgas_rank(), e.rank, e.handler,
           pgas_status_name(e.status));
    return 1;
}

/* Sent after the call that kills. Whether it has left here or not, some rank reports that the rank
 * has died. */
static int pull_is_owed(int victim)
{
    static char memory[100000];
    pgas_sync_t executed = PGAS_SYNC_INIT, local = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    pgas_buffer_t b[2] = { { PGAS_BUFFER_PULL, memory, sizeof memory, PGAS_NULL, false, NULL },
                           { PGAS_BUFFER_COPY, memory, 100, PGAS_NULL, false, NULL } };
    int n_bad = 0;
    opts.sync = &executed;
    opts.local = &local;
    opts.buffers = b;
    opts.n_buffers = 2;
    pgas_status_t status = pgas_call_to(pgas_on_rank(victim), never, NULL, 0, &opts);
    if (status != PGAS_OK) {
        n_bad += not_peer("a call with buffers", status);
        n_bad += executed.count != 0 || local.count != 0;
    } else {
        pgas_sync_t *both[2] = { &executed, &local };
        size_t index = 2;
        n_bad += not_peer("any of two counters", pgas_sync_wait_any(both, 2, -1, &index));
        n_bad += not_peer("a call with buffers that is waited for", pgas_sync_wait(&executed, -1));
        n_bad += not_peer("a buffer that nobody reads", pgas_sync_wait(&local, -1));
        n_bad += not_peer("all of two counters", pgas_sync_wait_all(both, 2, -1)) + (index > 1);
    }
    return n_bad;
}

/* Afterwards. */
static int buffers_are_refused(int victim)
{
    static char memory[100000];
    int n_bad = 0;
    for (int mode = 0; mode < 3; mode++) {
        pgas_buffer_t b = { (pgas_buffer_mode_t)mode,
                            memory,
                            mode == PGAS_BUFFER_PUSH ? 0 : sizeof memory,
                            PGAS_NULL,
                            false,
                            NULL };
        n_bad += not_peer("a call with a buffer",
                          pgas_call_to(pgas_on_rank(victim), never, NULL, 0,
                                       PGAS_CALL_OPTS(.buffers = &b, .n_buffers = 1)));
    }
    return n_bad + not_peer("a call with a large reply",
                            pgas_call_return(victim, never, NULL, 0, memory, sizeof memory));
}

/* Operations by the transport that were started before or after the death: each ends, with success
 * or with an error that names it and the rank. Over TCP those that follow a death fail. */
static int transfer_ended(const char *what, pgas_status_t status, const pgas_sync_t *sync,
                          pgas_operation_t operation, int victim, bool must_fail)
{
    pgas_sync_info_t e = { .size = sizeof e };
    bool far = pgas_node_of(victim) != pgas_node();
    const char *tls = getenv("PGAS_UCX_TLS");
    if (status == PGAS_OK && sync->error == 0)
        return must_fail && far && tls && strcmp(tls, "tcp,self") == 0 ? not_peer(what, status)
                                                                       : sync->count != 0;
    if (sync->error == 0)
        return not_peer(what, status); /* refused */
    bool peer = pgas_sync_info(sync, &e) == PGAS_OK &&
                (e.status == PGAS_ERR_PEER || (!must_fail && e.status == PGAS_ERR_TRANSPORT));
    if (peer && e.rank == victim && e.operation == operation && sync->count == 0)
        return 0;
    printf("rank %d: %s: %s of operation %d, rank %d\n", pgas_rank(), what,
           pgas_status_name(e.status), (int)e.operation, e.rank);
    return 1;
}

static pgas_status_t wait_of(pgas_status_t status, pgas_sync_t *sync)
{
    return status == PGAS_OK ? pgas_sync_wait(sync, -1) : status;
}

static int transfers_end(pgas_gptr_t there, int victim)
{
    static uint64_t x, y, z;
    pgas_sync_t put = PGAS_SYNC_INIT, get = PGAS_SYNC_INIT, add = PGAS_SYNC_INIT;
    pgas_status_t status = wait_of(pgas_put_nb(there, &x, 8, PGAS_REMOTE, &put), &put);
    int n_bad = transfer_ended("a put", status, &put, PGAS_OPERATION_PUT, victim, true);
    status = wait_of(pgas_get_nb(&y, there, 8, &get), &get);
    n_bad += transfer_ended("a get", status, &get, PGAS_OPERATION_GET, victim, true);
    status = wait_of(pgas_fetch_op_nb(there, PGAS_OP(PGAS_ADD, PGAS_U64), &x, &z, &add), &add);
    return n_bad + transfer_ended("an addition", status, &add, PGAS_OPERATION_ATOMIC, victim, true);
}

/* The victim dies of a call; every survivor waits for one of its own to it. The other ways to wait
 * end as well. */
static void survive(int victim)
{
    static uint64_t word;
    uint64_t x = 0;
    int n_bad = 0, me = pgas_rank();
    pgas_gptr_t at = PGAS_NULL;
    pgas_agg_t *agg = NULL;
    n_bad += pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, sizeof(pgas_sync_t), &at) != PGAS_OK;
    pgas_sync_t on_stack, *sync = me % 2 ? pgas_gptr_local(at, sizeof *sync) : &on_stack;
    *sync = (pgas_sync_t)PGAS_SYNC_INIT;
    void *args = NULL;
    pgas_gptr_t word_there = PGAS_NULL;
    n_bad += pgas_alloc(sizeof x, &word_there) != PGAS_OK;
    word_there = pgas_gptr_at(word_there, victim);
    pgas_sync_t built = PGAS_SYNC_INIT, put = PGAS_SYNC_INIT;
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = &built;
    if (me != victim)
        /* it dies meanwhile */
        n_bad += pgas_call_begin(pgas_on_thread(pgas_thread_make(victim, 0)), never, 64, &opts,
                                 &args) != PGAS_OK;
    pgas_barrier(NULL);
    if (me == victim)
        pgas_signal_wait(&word, PGAS_EQ, 1, -1, NULL);
    n_bad += pgas_agg_create(NULL, &agg) != PGAS_OK;
    static uint64_t sum = 1; /* MPI may still write there after the death */
    pgas_sync_t under_way = PGAS_SYNC_INIT, later = PGAS_SYNC_INIT;
    n_bad += pgas_allreduce_nb(NULL, &sum, 1, PGAS_U64, PGAS_ADD, &under_way) != PGAS_OK;
    pgas_status_t put_status = pgas_put_nb(word_there, &x, sizeof x, PGAS_REMOTE, &put);
    pgas_status_t status = pgas_call(victim, dies, NULL, 0, sync);
    /* a transport may never complete a message to a dead rank: each wait then takes 2 s */
    if (pgas_node_size() > 1)
        n_bad += pull_is_owed(victim);
    n_bad += not_peer("a call that is waited for",
                      status == PGAS_OK ? pgas_sync_wait(sync, -1) : status);
    n_bad += status == PGAS_OK && names_other(sync, victim, dies);
    n_bad += transfer_ended("an earlier put", wait_of(put_status, &put), &put, PGAS_OPERATION_PUT,
                            victim, false);
    n_bad += transfers_end(word_there, victim);
    n_bad += not_peer("a call of 8 bytes", pgas_call(victim, never, &x, 8, NULL));
    n_bad += not_peer("a call with a reply", pgas_call_return(victim, never, NULL, 0, &x, 8));
    n_bad += buffers_are_refused(victim);
    status = pgas_call_commit();
    n_bad +=
        not_peer("a call that was begun", status == PGAS_OK ? pgas_sync_wait(&built, -1) : status);
    n_bad += status != PGAS_OK && pgas_sync_test(&built) != PGAS_OK; /* never both */
    if (pgas_node_of(victim) == pgas_node())
        /* ends, whether all had run or not */
        pgas_channel_close(pgas_on_rank(victim));
    n_bad += not_peer("a gathered call", pgas_agg_call(agg, victim, never, &x, 8));
    n_bad += pgas_agg_destroy(agg) != PGAS_OK;
    n_bad += not_peer("a barrier", pgas_barrier(NULL));
    n_bad += not_peer("a collective under way", pgas_sync_wait(&under_way, -1));
    n_bad += not_peer("a later collective", pgas_barrier_nb(NULL, &later)) + (later.count != 0);
    n_bad += not_peer("quiesce", pgas_quiesce());
    n_bad +=
        pgas_call_to(pgas_on_rank(me), waits, NULL, 0, PGAS_CALL_OPTS(.spawn = true)) != PGAS_OK;
    while (!__atomic_load_n(&n_started, __ATOMIC_ACQUIRE))
        pgas_progress();
    n_bad += not_peer("finalize", pgas_finalize());
    n_bad += n_ended != 1;
    printf("%s %d\n", n_bad == 0 && !pgas_initialized() ? "survived" : "failed", me);
    fflush(stdout);
    _exit(n_bad);
}

static pgas_status_t broadcast_and_wait(pgas_team_t *team, pgas_handler_t handler, int value)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    o.sync = &sync;
    pgas_status_t status = pgas_call_to(pgas_on_team(team), handler, &value, sizeof value, &o);
    if (status == PGAS_OK)
        status = pgas_sync_wait(&sync, -1);
    n_bad_counts += sync.count != 0;
    return status;
}

/* Blocks of a team need its ranks only. @return the number of wrong statuses */
static int allocate(pgas_team_t *with, pgas_team_t *without)
{
    pgas_gptr_t of_all = PGAS_NULL, block = PGAS_NULL;
    int n_bad = not_peer("a block of all ranks", pgas_alloc(64, &of_all));
    n_bad += not_peer("a block of a team", pgas_team_alloc(with, 64, &of_all));
    n_bad += pgas_team_alloc(without, 64, &block) != PGAS_OK || !pgas_gptr_is_local(block);
    return n_bad + (pgas_team_free(without, block) != PGAS_OK);
}

/* Ranks below the victim in the tree get later broadcasts nevertheless, to all and to a team with
 * the victim. A team without it notices nothing. */
static void survive_broadcast(int victim)
{
    static uint64_t word;
    int n_bad = 0, me = pgas_rank();
    pgas_team_t *with = NULL, *without = NULL;
    n_bad += pgas_team_split(NULL, 0, -me, &with) != PGAS_OK;
    n_bad += pgas_team_split(NULL, me == victim ? PGAS_COLOR_NONE : 0, me, &without) != PGAS_OK;
    if (me == victim)
        pgas_signal_wait(&word, PGAS_EQ, 1, -1, NULL);
    if (me == 0) {
        n_bad += not_peer("a broadcast of which a rank dies",
                          broadcast_and_wait(with, dies_there, victim));
        n_bad += not_peer("a broadcast over a dead rank", broadcast_and_wait(NULL, note, 0));
        n_bad += not_peer("a broadcast to a team", broadcast_and_wait(with, note, 0));
        n_bad += broadcast_and_wait(without, note, 0) != PGAS_OK;
        n_bad += n_bad_counts;
    }
    while (__atomic_load_n(&n_notes, __ATOMIC_ACQUIRE) < 3)
        pgas_progress();
    n_bad += n_notes != 3;
    n_bad += allocate(with, without);
    n_bad += not_peer("finalize", pgas_finalize());
    printf("%s %d\n", n_bad == 0 ? "survived" : "failed", me);
    fflush(stdout);
    _exit(n_bad);
}

/* Lock 0 lives at rank 0, and the victim has it; lock 1 lives at the victim. Each survivor waits
 * for both. */
static void survive_locks(int victim)
{
    static uint64_t word;
    pgas_lock_t lock[2] = { 0, 0 };
    bool broken = false;
    int n_bad = 0, me = pgas_rank();
    n_bad += (me == 0 && pgas_lock_create(&lock[0]) != PGAS_OK) ||
             (me == victim && pgas_lock_create(&lock[1]) != PGAS_OK);
    pgas_broadcast(NULL, &lock[0], sizeof lock[0], 0);
    pgas_broadcast(NULL, &lock[1], sizeof lock[1], victim);
    for (int i = 0; i < 2 && me == victim; i++)
        n_bad += pgas_lock_acquire(lock[i], -1, NULL) != PGAS_OK ||
                 pgas_lock_release(lock[i]) != PGAS_OK ||
                 pgas_lock_acquire(lock[i], -1, NULL) != PGAS_OK; /* on the node by its word */
    pgas_barrier(NULL);
    if (me == victim)
        pgas_signal_wait(&word, PGAS_EQ, 1, -1, NULL);
    n_bad += pgas_lock_acquire(lock[1], 10, NULL) == PGAS_OK;
    pgas_call(victim, dies, NULL, 0, NULL); /* unless it has died of another's */
    n_bad += pgas_lock_acquire(lock[0], -1, &broken) != PGAS_OK;
    int was_broken = broken;
    n_bad += pgas_call(0, note, &was_broken, sizeof was_broken, NULL) != PGAS_OK ||
             pgas_lock_release(lock[0]) != PGAS_OK;
    n_bad += not_peer("a lock of a dead rank", pgas_lock_acquire(lock[1], -1, NULL));
    while (me == 0 && __atomic_load_n(&n_notes, __ATOMIC_ACQUIRE) < pgas_n_ranks() - 1)
        pgas_progress();
    n_bad += me == 0 && n_broken != 1;
    n_bad += not_peer("finalize", pgas_finalize());
    printf("%s %d\n", n_bad == 0 ? "survived" : "failed", me);
    fflush(stdout);
    _exit(n_bad);
}

/* A sum of which the victim dies. */
static int doomed;

static void add_until_death(void *to, const void *from)
{
    static int n_calls;
    *(uint64_t *)to += *(const uint64_t *)from;
    if (pgas_rank() == doomed && ++n_calls == 70000)
        raise(SIGKILL);
}

static void survive_large(int victim)
{
    enum { N = 1 << 17, N_RANKS_MAX = 16 };
    static const uint64_t zero;
    pgas_op_def_t def = { sizeof zero, 0, &zero, add_until_death, NULL };
    pgas_op_t op = 0;
    uint64_t *data = calloc(N, sizeof *data), *sums = calloc((size_t)N * N_RANKS_MAX, sizeof *sums);
    int me = pgas_rank(),
        n_bad = !data || !sums || pgas_op_register("victim.add", &def, &op) != PGAS_OK;
    doomed = victim;
    n_bad += not_peer("a reduction of which a rank dies",
                      pgas_allreduce(NULL, data, sums, N, PGAS_TYPE_NONE, op));
    n_bad += not_peer("a large collective", pgas_allgather(NULL, data, sums, N * sizeof *data));
    n_bad += not_peer("an exchange", pgas_alltoall(NULL, sums, data, sizeof *data));
    free(data);
    free(sums);
    n_bad += not_peer("finalize", pgas_finalize());
    printf("%s %d\n", n_bad == 0 && !pgas_initialized() ? "survived" : "failed", me);
    fflush(stdout);
    _exit(n_bad);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    int victim = atoi(argv[1]);
    pgas_handler_register("t.never", on_nothing, NULL, NULL, &never);
    pgas_handler_register("t.dies", on_dies, NULL, NULL, &dies);
    pgas_handler_register("t.dies_there", on_dies_there, NULL, NULL, &dies_there);
    pgas_handler_register("t.note", on_note, NULL, NULL, &note);
    pgas_handler_register("t.waits", on_waits, NULL, NULL, &waits);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return 3;
    for (int r = 0; r < pgas_n_ranks(); r++) /* all ranks have connections to all */
        pgas_call(r, never, NULL, 0, NULL);
    pgas_quiesce();
    if (pgas_rank() == 0) {
        printf("started %lld\n", (long long)time(NULL));
        fflush(stdout);
    }
    pgas_barrier(NULL);
    if (strcmp(argv[2], "survive") == 0)
        survive(victim);
    if (strcmp(argv[2], "broadcast") == 0)
        survive_broadcast(victim);
    if (strcmp(argv[2], "large") == 0)
        survive_large(victim);
    if (strcmp(argv[2], "lock") == 0)
        survive_locks(victim);
    if (pgas_rank() == victim)
        raise(SIGKILL);
    wait_for_the_end(argv[2], victim);
    return 0;
}
