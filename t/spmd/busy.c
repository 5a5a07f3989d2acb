/* A rank that computes.
 *   what:   While a rank computes without calling the library, its peers' atomics, transfers and
 *           calls to it complete: on its node, from other nodes, and on memory that it has
 *           attached.
 *   np:     2 3 4
 *   nodes:  1 0 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=2
 *   source: public headers; the progress rule of pgas_info
 * Nothing is timed: the computation ends when the peers' marks have arrived in its memory, or after
 * a limit that only a peer that was not served reaches. */
#include "base/clock.h"
#include "t/handlers.h"
#include "t/spmd/job.h"

#define LIMIT_NS UINT64_C(20000000000)

static pgas_handler_t count, echo;
static uint64_t n_counted;
static uint64_t *own; /* [0] counter, [1] bits of the ranks that are done */
static pgas_gptr_t words[JOB_RANKS_MAX], users[JOB_RANKS_MAX];

/* Computes until so many marks are there; false if the limit came first. */
static bool compute(uint64_t marks, uint64_t limit_ns)
{
    uint64_t end = pgasi_now_ns() + limit_ns;
    volatile double x = 1;
    for (;;) {
        for (int i = 0; i < 100000; i++)
            x = x * 0.999 + 0.5;
        if (__atomic_load_n(&own[1], __ATOMIC_ACQUIRE) >= marks)
            return true;
        if (pgasi_now_ns() > end)
            return false;
    }
}

static int atomics(void)
{
    uint64_t old;
    int n_bad = 0;
    for (int i = 0; i < 50; i++)
        n_bad += pgas_fetch_op_u64(words[0], PGAS_ADD, 1, &old) != PGAS_OK ||
                 pgas_update_u64(words[0], PGAS_ADD, 1) != PGAS_OK;
    return n_bad + (pgas_flush(0) != PGAS_OK);
}

static int transfers(void)
{
    unsigned char out[3000], in[3000];
    int n_bad = 0;
    pgas_gptr_t to = pgas_gptr_add(words[0], 64 + (int64_t)me * 4096);
    for (int i = 0; i < 20; i++) {
        memset(out, i, sizeof out);
        n_bad += pgas_put(to, out, sizeof out) != PGAS_OK || pgas_flush(0) != PGAS_OK;
        n_bad += pgas_get(in, to, sizeof in) != PGAS_OK || memcmp(in, out, sizeof in) != 0;
    }
    return n_bad;
}

static int attached_memory(void)
{
    uint64_t old = 0, in[64], out[64];
    int n_bad = 0;
    for (int i = 0; i < 20; i++) {
        memset(out, i, sizeof out);
        n_bad += pgas_put(pgas_gptr_add(users[0], (int64_t)me * 512), out, sizeof out) != PGAS_OK ||
                 pgas_flush(0) != PGAS_OK;
        n_bad += pgas_get(in, pgas_gptr_add(users[0], (int64_t)me * 512), sizeof in) != PGAS_OK;
        n_bad += memcmp(in, out, sizeof in) != 0 ||
                 pgas_fetch_op_u64(users[0], PGAS_ADD, 1, &old) != PGAS_OK;
    }
    return n_bad;
}

static int calls(void)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    for (int i = 0; i < 40; i++)
        n_bad += pgas_call(0, count, NULL, 0, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    for (uint64_t i = 0; i < 40; i++) {
        uint64_t back = 0;
        n_bad +=
            pgas_call_return(0, echo, &i, sizeof i, &back, sizeof back) != PGAS_OK || back != i;
    }
    return n_bad;
}

static void served_while_computing(int (*work)(void), const char *text)
{
    int n_bad = 0;
    own[0] = own[1] = 0;
    pgas_barrier(NULL);
    if (me == 0)
        n_bad += !compute((uint64_t)n_ranks - 1, LIMIT_NS);
    else
        n_bad += work() + (pgas_update_u64(pgas_gptr_add(words[0], 8), PGAS_ADD, 1) != PGAS_OK) +
                 (pgas_flush(0) != PGAS_OK);
    spmd_is_int(n_bad, 0, "%s of a rank that computes", text);
    pgas_barrier(NULL);
}

/* The last round left a mark of each peer: those are found, one more is not, and the computation
 * ends with its limit. */
static void missing_marks_are_noticed(void)
{
    uint64_t n_marks = me == 0 ? (uint64_t)n_ranks - 1 : 0;
    spmd_ok(compute(n_marks, LIMIT_NS) && !compute(n_marks + 1, 10000000),
            "a mark that is missing is missed");
}

int main(int argc, char **argv)
{
    static uint64_t user[64 * 8 * 8];
    pgas_handler_register("t.count", on_count, &n_counted, NULL, &count);
    pgas_handler_register("t.echo", on_echo, NULL, NULL, &echo);
    job_begin(&argc, &argv, 6);
    pgas_gptr_t ptr = PGAS_NULL, attached = PGAS_NULL;
    bool good = pgas_alloc(64 + (size_t)n_ranks * 4096, &ptr) == PGAS_OK;
    good = pgas_mem_attach(user, sizeof user, &attached) == PGAS_OK && good;
    own = pgas_gptr_local(ptr, 16);
    job_gather(ptr, words);
    job_gather(attached, users);
    spmd_ok(good, "memory");
    served_while_computing(atomics, "atomics on memory");
    served_while_computing(transfers, "put and get");
    served_while_computing(attached_memory, "the attached memory");
    served_while_computing(calls, "calls and replies");
    missing_marks_are_noticed();
    pgas_barrier(NULL);
    pgas_mem_detach(attached);
    return job_end();
}
