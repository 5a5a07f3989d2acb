/* Locks of elements.
 *   what:   Ranks and threads that read share a lock; a writer has it alone. A waiting writer
 *           passes later readers and does not starve. Try does not wait, and a time-out withdraws
 *           the request. A thread that has a lock sees all writes under it before. Locks of
 *           different elements are independent. Wrong calls get a status.
 *   np:     1 2 3 4
 *   nodes:  0 1 1 2
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0 | PGAS_FAULT=delay=5,reorder=5,again=2
 *   source: pgas/array.h
 */
#include "base/clock.h"
#include "t/spmd/array_crew.h"

#define CHUNK   4
#define N       40 /* elements */
#define ROUNDS  150
#define GUARD_S 30 /* after this time a loop that should have ended counts as a fault */

static pgas_array_t *array;

static uint64_t far_element(void) /* at the last rank */
{
    uint64_t first = 0, n = 0;
    BAD(pgas_array_range(array, n_ranks - 1, &first, &n));
    return first;
}

/* ---- one thread of each rank ---- */

static void shared_and_exclusive(void)
{
    for (uint64_t i = far_element(); i < N; i = i == 1 ? N : 1) { /* a far one, and one at rank 0 */
        BAD(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
        GAVE(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1), PGAS_ERR_DEADLOCK);
        GAVE(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, 0), PGAS_ERR_DEADLOCK);
        BAD(pgas_barrier(NULL)); /* all have it */
        BAD(pgas_array_unlock(array, i));
        GAVE(pgas_array_unlock(array, i), PGAS_ERR_INVALID);
        BAD(pgas_barrier(NULL));
        for (int turn = 0; turn < n_ranks; turn++) {
            if (turn == me)
                BAD(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1));
            BAD(pgas_barrier(NULL));
            if (turn != me) {
                GAVE(pgas_array_lock(array, i, PGAS_ARRAY_READ, 0), PGAS_ERR_BUSY);
                GAVE(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, 0), PGAS_ERR_BUSY);
                GAVE(pgas_array_lock(array, i, PGAS_ARRAY_READ, 2000), PGAS_ERR_TIMEOUT);
                GAVE(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, 2000), PGAS_ERR_TIMEOUT);
                GAVE(pgas_array_unlock(array, i), PGAS_ERR_INVALID);
            }
            BAD(pgas_barrier(NULL));
            if (turn == me)
                BAD(pgas_array_unlock(array, i));
            BAD(pgas_barrier(NULL));
            if (turn != me) { /* requests that ran out of time are gone */
                BAD(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
                BAD(pgas_array_unlock(array, i));
            }
            BAD(pgas_barrier(NULL));
        }
        if (me == 0)
            /* a lock that was given back may still be on its way, so this does not try once */
            BAD(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1));
        if (me == 0)
            BAD(pgas_array_unlock(array, i));
        BAD(pgas_barrier(NULL));
    }
    spmd_is_int(crew_faults(), 0, "readers share, a writer is alone; try and time-outs");
}

static void many_elements(void)
{
    /* each has a part of all, at once */
    for (uint64_t i = (uint64_t)me; i < N; i += (uint64_t)n_ranks)
        BAD(i % 3 ? pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1)
                  : pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < N; i++) {
        if ((int)(i % (uint64_t)n_ranks) == me)
            continue;
        GAVE(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, 0), PGAS_ERR_BUSY);
        pgas_status_t status = pgas_array_lock(array, i, PGAS_ARRAY_READ, 0);
        crew_judge(status == (i % 3 ? PGAS_ERR_BUSY : PGAS_OK), "a lock of its own");
        if (status == PGAS_OK)
            BAD(pgas_array_unlock(array, i));
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t k = 0; k < N; k++) { /* in another order */
        uint64_t i = (k * 7 + 3) % N;
        if ((int)(i % (uint64_t)n_ranks) == me)
            BAD(pgas_array_unlock(array, i));
    }
    BAD(pgas_barrier(NULL));
    for (uint64_t i = 0; i < N; i++) {
        BAD(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
        BAD(pgas_array_unlock(array, i));
    }
    GAVE(pgas_array_lock(array, N, PGAS_ARRAY_READ, -1), PGAS_ERR_RANGE);
    GAVE(pgas_array_unlock(array, N), PGAS_ERR_RANGE);
    BAD(pgas_barrier(NULL));
    spmd_is_int(crew_faults(), 0, "locks of many elements");
}

/* ---- all threads ---- */

/* Two elements, of different homes where there are, that writers change together, and counts that
 * only a lock protects. */
static void protect(int who, void *arg)
{
    uint64_t i = 2, j = far_element() + 1, a = 0, b = 0, last = 0;
    (void)arg;
    for (int k = 0; k < ROUNDS; k++) {
        if ((k + who + me) % 3 == 0) {
            BAD(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1));
            BAD(pgas_array_get_u64(array, i, &a));
            BAD(pgas_array_get_u64(array, j, &b));
            crew_judge(a == b && a >= last, "what the last writer left");
            BAD(pgas_array_set_u64(array, j, b + 1));
            BAD(pgas_array_set_u64(array, i, a + 1));
            last = a + 1;
        } else {
            BAD(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
            BAD(pgas_array_get_u64(array, j, &b));
            BAD(pgas_array_get_u64(array, i, &a));
            crew_judge(a == b && a >= last, "what a reader sees");
            last = a;
        }
        BAD(pgas_array_unlock(array, i));
        /* and a lock of another element between */
        uint64_t other = 5 + (uint64_t)((k * 4 + who) % 15);
        BAD(pgas_array_lock(array, other, PGAS_ARRAY_WRITE, -1));
        BAD(pgas_array_apply_u64(array, other, PGAS_ADD, 1));
        BAD(pgas_array_unlock(array, other));
    }
}

static void protection(void)
{
    uint64_t zero = 0, a = 0, want = 0;
    for (int threads = 1; threads <= 3; threads += 2) {
        BAD(pgas_array_fill(array, &zero));
        crew_run(threads, protect, NULL);
        want = 0;
        for (int k = 0; k < ROUNDS; k++)
            for (int r = 0; r < n_ranks * threads; r++)
                want += (k + r % threads + r / threads) % 3 == 0;
        BAD(pgas_array_get_u64(array, 2, &a));
        crew_judge(a == want, "a change is lost");
    }
    spmd_is_int(crew_faults(), 0, "writes under a lock are seen under the next, nothing is lost");
    crew_mute();
    crew_judge(a == want + 1, "on purpose");
    spmd_is_int(crew_faults(), 1, "a lost change would be noticed");
}

/* ---- first come, first served ---- */

enum { NOTED = 30, TURN = 31, WRITER_DONE = 32, READERS = 33 };

static bool still_time(uint64_t begun)
{
    return pgasi_now_ns() - begun < GUARD_S * UINT64_C(1000000000);
}

static void wait_for_value(uint64_t i, uint64_t least)
{
    uint64_t value = 0, begun = pgasi_now_ns();
    while (value < least && still_time(begun)) {
        BAD(pgas_array_get_u64(array, i, &value));
        crew_serve();
    }
    crew_judge(value >= least, "nobody comes");
}

/* Rank 0 reads; a writer waits, which is known from a reader's try that fails; a later reader
 * waits, too; the writer has it first. */
static void passes_readers(int who, void *arg)
{
    uint64_t i = far_element(), turn = 0, one = 1, begun = pgasi_now_ns();
    int role = (me * 3 + who) % (n_ranks * 3), writer = n_ranks > 1 ? 3 : 1,
        reader = n_ranks > 2 ? 6 : 2;
    (void)arg;
    if (role == 0) {
        BAD(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
        BAD(pgas_array_set_u64(array, NOTED, 1));
        /* the later reader knows that the writer waits, and waits itself soon */
        wait_for_value(NOTED, 2);
        BAD(pgas_array_unlock(array, i));
    } else if (role == writer) {
        wait_for_value(NOTED, 1);
        BAD(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1));
        BAD(pgas_array_fetch_op(array, TURN, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &turn));
        crew_judge(turn == 0, "the writer that waited comes first");
        BAD(pgas_array_unlock(array, i));
    } else if (role == reader) {
        wait_for_value(NOTED, 1);
        pgas_status_t status = PGAS_OK;
        while (status == PGAS_OK &&
               crew_judge(still_time(begun), "readers continue to pass a writer")) {
            status = pgas_array_lock(array, i, PGAS_ARRAY_READ, 0);
            if (status == PGAS_OK)
                BAD(pgas_array_unlock(array, i));
            else
                GAVE(status, PGAS_ERR_BUSY);
            crew_serve(); /* a try does not */
        }
        BAD(pgas_array_set_u64(array, NOTED, 2));
        BAD(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
        BAD(pgas_array_fetch_op(array, TURN, PGAS_OP(PGAS_ADD, PGAS_U64), &one, &turn));
        crew_judge(turn == 1, "the later reader comes second");
        BAD(pgas_array_unlock(array, i));
    }
}

/* Readers take it again and again until a writer has had it ten times. */
static void not_starved(int who, void *arg)
{
    uint64_t i = far_element(), done = 0, begun = pgasi_now_ns();
    (void)arg;
    if (me == n_ranks - 1 && who == 2) {
        for (int k = 0; k < 10; k++) {
            BAD(pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1));
            BAD(pgas_array_unlock(array, i));
        }
        BAD(pgas_array_set_u64(array, WRITER_DONE, 1));
        return;
    }
    while (!done && crew_judge(still_time(begun), "a writer starves")) {
        BAD(pgas_array_lock(array, i, PGAS_ARRAY_READ, -1));
        BAD(pgas_array_get_u64(array, WRITER_DONE, &done));
        BAD(pgas_array_unlock(array, i));
        crew_serve();
    }
}

static void fairness(void)
{
    uint64_t zero = 0;
    for (int k = 0; k < 5; k++) {
        BAD(pgas_array_fill(array, &zero));
        crew_run(3, passes_readers, NULL);
    }
    crew_run(3, not_starved, NULL);
    spmd_is_int(crew_faults(), 0, "a waiting writer passes later readers, and is not starved");
}

/* ---- contexts ---- */

static pgas_handler_t plain, blocking;
static int n_plain_bad, n_blocking_bad;

static void on_plain(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_plain_bad += pgas_array_lock(array, 0, PGAS_ARRAY_READ, -1) != PGAS_ERR_CONTEXT ||
                   pgas_array_lock(array, N - 1, PGAS_ARRAY_WRITE, 0) != PGAS_ERR_CONTEXT;
}

static void on_blocking(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t i = 2, value = 0;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    n_blocking_bad += pgas_array_lock(array, i, PGAS_ARRAY_WRITE, -1) != PGAS_OK;
    n_blocking_bad += pgas_array_get_u64(array, i, &value) != PGAS_OK ||
                      pgas_array_set_u64(array, i, value + 1) != PGAS_OK;
    n_blocking_bad += pgas_array_unlock(array, i) != PGAS_OK;
}

static void handlers(void)
{
    uint64_t zero = 0, value = 0;
    BAD(pgas_array_fill(array, &zero));
    for (int r = 0; r < n_ranks; r++) {
        BAD(pgas_call(r, plain, NULL, 0, NULL));
        BAD(pgas_call(r, blocking, NULL, 0, NULL));
    }
    BAD(pgas_quiesce());
    crew_judge(n_plain_bad == 0, "a plain handler takes no lock");
    crew_judge(n_blocking_bad == 0, "a handler that may wait does");
    BAD(pgas_array_get_u64(array, 2, &value));
    crew_judge(value == (uint64_t)(n_ranks * n_ranks), "one at a time");
    BAD(pgas_barrier(NULL));
    spmd_is_int(crew_faults(), 0, "locks in handlers that may wait, and not in others");
}

int main(int argc, char **argv)
{
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    pgas_handler_register("t.plain", on_plain, NULL, NULL, &plain);
    pgas_handler_register("t.blocking", on_blocking, NULL, &may_block, &blocking);
    job_begin(&argc, &argv, 6);
    array = crew_array(8, N, CHUNK, 3, NULL);
    shared_and_exclusive();
    many_elements();
    protection();
    fairness();
    handlers();
    BAD(pgas_array_destroy(array));
    return job_end();
}
