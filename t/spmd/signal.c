/* Signals.
 *   what:   A rank that sees a signal sees the data that were put before it. Waiting wakes,
 *           compares and times out as documented.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=5,reorder=4,again=3 | PGAS_SERVICE_THREADS=0
 *   source: pgas/rma.h
 */
#include "t/spmd/job.h"

#define ROUNDS 80
#define DATA   5000

typedef struct {
    uint64_t arrived, confirmed, count, spare;
    unsigned char data[DATA];
} board_t;

static board_t *own;
static pgas_gptr_t boards[JOB_RANKS_MAX];

static pgas_gptr_t at(int rank, size_t offset)
{
    return pgas_gptr_add(boards[rank], (int64_t)offset);
}

/* Ping to the right, confirmation to the left; sizes change, so that data and signal go different
 * ways. */
static void data_before_signal(void)
{
    static const size_t sizes[] = { 8, DATA, 0, 700, 64 };
    unsigned char data[DATA];
    int n_bad = 0, right = job_right(), left = (me + n_ranks - 1) % n_ranks;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        size_t bytes = sizes[round % 5];
        uint64_t value = 0;
        memset(data, (int)(round % 250) + 1, bytes);
        n_bad +=
            pgas_put_signal(at(right, offsetof(board_t, data)), data, bytes,
                            at(right, offsetof(board_t, arrived)), round, PGAS_SWAP) != PGAS_OK;
        memset(data, 0, bytes);
        n_bad += pgas_signal_wait(&own->arrived, PGAS_EQ, round, -1, &value) != PGAS_OK ||
                 value != round;
        for (size_t i = 0; i < bytes; i++)
            n_bad += own->data[i] != round % 250 + 1;
        n_bad += pgas_put_signal(at(left, offsetof(board_t, spare)), NULL, 0,
                                 at(left, offsetof(board_t, confirmed)), 1, PGAS_ADD) != PGAS_OK;
        n_bad += pgas_signal_wait(&own->confirmed, PGAS_GE, round, -1, NULL) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "data are there when the signal is");
}

static void additions_of_all(void)
{
    enum { EACH = 30 };
    int n_bad = 0;
    own->count = 0;
    pgas_barrier(NULL);
    for (int i = 0; i < EACH; i++) {
        for (int r = 0; r < n_ranks; r++)
            n_bad += pgas_put_signal(at(r, offsetof(board_t, data) + (size_t)me * 64), &n_bad,
                                     sizeof n_bad, at(r, offsetof(board_t, count)), 2,
                                     PGAS_ADD) != PGAS_OK;
    }
    uint64_t value = 0;
    n_bad +=
        pgas_signal_wait(&own->count, PGAS_GE, 2 * EACH * (uint64_t)n_ranks, -1, &value) != PGAS_OK;
    spmd_ok(n_bad == 0 && value == 2 * EACH * (uint64_t)n_ranks, "signals of all ranks add up");
    pgas_barrier(NULL);
}

static void comparisons(void)
{
    static const struct {
        pgas_compare_t compare;
        bool below, equal, above; /* holds for a word below, equal to, above the value */
    } cases[] = { { PGAS_EQ, false, true, false }, { PGAS_NE, true, false, true },
                  { PGAS_LT, true, false, false }, { PGAS_LE, true, true, false },
                  { PGAS_GT, false, false, true }, { PGAS_GE, false, true, true } };
    int n_bad = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t word, seen;
        for (int d = -1; d <= 1; d++) {
            const bool wants[] = { cases[i].below, cases[i].equal, cases[i].above };
            bool want = wants[d + 1];
            word = UINT64_C(0x8000000000000000) + (uint64_t)(int64_t)d;
            seen = 5;
            pgas_status_t status =
                pgas_signal_wait(&word, cases[i].compare, UINT64_C(0x8000000000000000), 0, &seen);
            n_bad += status != (want ? PGAS_OK : PGAS_ERR_TIMEOUT) || seen != (want ? word : 5);
            status =
                pgas_signal_wait(&word, cases[i].compare, UINT64_C(0x8000000000000000), 1, &seen);
            n_bad += status != (want ? PGAS_OK : PGAS_ERR_TIMEOUT);
        }
    }
    spmd_is_int(n_bad, 0, "six comparisons, unsigned");
}

static void refusals(void)
{
    uint64_t word = 1;
    int right = job_right();
    spmd_ok(pgas_signal_wait(&word, PGAS_EQ, 2, 3000, NULL) == PGAS_ERR_TIMEOUT &&
                pgas_signal_wait(NULL, PGAS_EQ, 2, 0, NULL) == PGAS_ERR_INVALID &&
                pgas_signal_wait(&word, (pgas_compare_t)9, 2, 0, NULL) == PGAS_ERR_INVALID,
            "time runs out; nonsense is refused");
    pgas_gptr_t data = at(right, offsetof(board_t, data)),
                signal = at(right, offsetof(board_t, spare));
    spmd_ok(pgas_put_signal(data, &word, 8, pgas_gptr_add(signal, 4), 1, PGAS_SWAP) ==
                    PGAS_ERR_INVALID &&
                pgas_put_signal(data, &word, 8, signal, 1, PGAS_MAX) == PGAS_ERR_UNSUPPORTED &&
                pgas_put_signal(data, NULL, 8, signal, 1, PGAS_SWAP) == PGAS_ERR_INVALID &&
                pgas_put_signal(data, &word, 8, PGAS_NULL, 1, PGAS_SWAP) < 0 &&
                (n_ranks == 1 || pgas_put_signal(data, &word, 8, at(me, offsetof(board_t, spare)),
                                                 1, PGAS_SWAP) == PGAS_ERR_INVALID),
            "a signal is an aligned word of the same rank");
    pgas_barrier(NULL);
    spmd_ok(own->spare == 0, "and refused operations had no effect");
}

/* A wait also notices a store that wakes no thread. */
static void plain_store(void)
{
    int right = job_right(), n_bad = 0;
    own->spare = 0;
    pgas_barrier(NULL);
    n_bad += pgas_put_u64(at(right, offsetof(board_t, spare)), 4) != PGAS_OK ||
             pgas_flush_all() != PGAS_OK;
    n_bad += pgas_signal_wait(&own->spare, PGAS_EQ, 4, -1, NULL) != PGAS_OK;
    spmd_is_int(n_bad, 0, "a plain put wakes as well");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 8);
    pgas_gptr_t ptr = PGAS_NULL;
    bool good = pgas_alloc(sizeof(board_t), &ptr) == PGAS_OK;
    own = pgas_gptr_local(ptr, sizeof *own);
    memset(own, 0, sizeof *own);
    job_gather(ptr, boards);
    pgas_barrier(NULL);
    spmd_ok(good, "memory");
    data_before_signal();
    additions_of_all();
    comparisons();
    refusals();
    plain_store();
    return job_end();
}
