/* The program that t/attack/attack kills, stops, cuts off and starves; no test by itself.
 *   worker SEED SECONDS finish     works this long; every operation must succeed
 *   worker SEED SECONDS survive    works until a collective reports a lost rank, and then a little
 *                                  more with the others
 *   worker SEED SECONDS doomed     works until then, and waits for the library to end the job
 *
 * At every rank each rank has a row of words that it alone writes. So it knows the result of every
 * get, atomic and reply. It prints `pid RANK PID` when the library runs, and `survived RANK` or
 * `finished RANK` at the end. It prints `WRONG ...` for a result or a status that the mode does not
 * allow. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pgas/pgas.h"

#define WORDS          512 /* of a row */
#define RANKS_MAX      64
#define OPS_PER_ROUND  32
#define OPS_AFTER_LOSS 200

typedef struct {
    uint64_t word[WORDS]; /* the last one is the target of atomics */
} row_t;

static row_t model[RANKS_MAX];      /* by target: the words that this rank has written there */
static uint64_t n_sent[RANKS_MAX];  /* counted calls by target */
static uint64_t n_came[RANKS_MAX];  /* counted calls by source */
static pgas_gptr_t rows[RANKS_MAX]; /* of this rank at each rank */
static bool lost[RANKS_MAX];
static pgas_handler_t ask, count, counted;
static int me, n_ranks, n_wrong, n_lost;
static bool may_lose;
static uint64_t state;

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t draw(uint64_t n)
{
    state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(state) % n;
}

static void wrong(const char *what, int target, uint64_t got, uint64_t want)
{
    n_wrong++;
    printf("WRONG %s: rank %d at rank %d: got %llx, want %llx\n", what, me, target,
           (unsigned long long)got, (unsigned long long)want);
    fflush(stdout);
}

/* True if the operation has taken place. A rank that was lost is not asked again. */
static bool worked(const char *what, int target, pgas_status_t status)
{
    if (status == PGAS_OK)
        return true;
    if (status == PGAS_ERR_PEER && may_lose) {
        lost[target] = true;
        n_lost++;
        return false;
    }
    n_wrong++;
    printf("WRONG %s: rank %d at rank %d: %s\n", what, me, target, pgas_status_name(status));
    fflush(stdout);
    return false;
}

static void on_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    uint64_t x;
    (void)source;
    (void)context;
    memcpy(&x, args, sizeof x);
    x = mix(x + bytes);
    pgas_reply(&x, sizeof x);
}

static void on_count(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int rank;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&rank, args, sizeof rank);
    n_came[rank]++;
}

static void on_counted(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    int rank;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&rank, args, sizeof rank);
    pgas_reply(&n_came[rank], sizeof n_came[rank]);
}

static pgas_gptr_t word_at(int target, uint64_t i)
{
    return pgas_gptr_add(rows[target], (int64_t)(i * sizeof(uint64_t)));
}

static void put_some(int target)
{
    uint64_t first = draw(WORDS - 1), n = 1 + draw(WORDS - 1 - first);
    for (uint64_t i = 0; i < n; i++)
        model[target].word[first + i] = mix(state + i);
    worked("put", target,
           pgas_put(word_at(target, first), &model[target].word[first], n * sizeof(uint64_t)));
}

static void get_some(int target)
{
    static uint64_t here[WORDS];
    uint64_t first = draw(WORDS - 1), n = 1 + draw(WORDS - 1 - first);
    if (!worked("flush", target, pgas_flush(target)) ||
        !worked("get", target, pgas_get(here, word_at(target, first), n * sizeof(uint64_t))))
        return;
    for (uint64_t i = 0; i < n; i++)
        if (here[i] != model[target].word[first + i])
            wrong("get", target, here[i], model[target].word[first + i]);
}

static void add_some(int target)
{
    uint64_t old = 0, *known = &model[target].word[WORDS - 1], by = 1 + draw(1000);
    if (!worked("fetch_add", target,
                pgas_fetch_op_u64(word_at(target, WORDS - 1), PGAS_ADD, by, &old)))
        return;
    if (old != *known)
        wrong("fetch_add", target, old, *known);
    *known += by;
}

static void ask_some(int target)
{
    uint64_t args[32], reply = 0;
    size_t bytes = 8 * (1 + draw(32));
    for (size_t i = 0; i < bytes / 8; i++)
        args[i] = mix(state + i);
    if (!worked("call_return", target,
                pgas_call_return(target, ask, args, bytes, &reply, sizeof reply)))
        return;
    if (reply != mix(args[0] + bytes))
        wrong("call_return", target, reply, mix(args[0] + bytes));
}

/* Several counted calls that are waited for, and then the question how many have run there. */
static void count_some(int target)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t n = 1 + draw(20), n_there = 0, n_accepted = 0;
    while (n_accepted < n &&
           worked("call", target, pgas_call(target, count, &me, sizeof me, &sync)))
        n_accepted++;
    if (n_accepted == n && worked("sync_wait", target, pgas_sync_wait(&sync, -1))) {
        n_sent[target] += n;
        if (worked("question", target,
                   pgas_call_return(target, counted, &me, sizeof me, &n_there, sizeof n_there)) &&
            n_there != n_sent[target])
            wrong("counted calls", target, n_there, n_sent[target]);
    }
}

static void operate(void)
{
    static void (*const ops[])(int) = { put_some, get_some, add_some, ask_some, count_some };
    int target = (int)draw((uint64_t)n_ranks);
    if (!lost[target])
        ops[draw(sizeof ops / sizeof *ops)](target);
}

/* True while all ranks are alive and at least one wants to continue. */
static bool all_go_on(bool wanted)
{
    uint64_t mine[2] = { wanted, (uint64_t)me + 1 }, sum[2] = { 0, 0 };
    pgas_status_t status = pgas_allreduce(NULL, mine, sum, 2, PGAS_U64, PGAS_ADD);
    if (status == PGAS_ERR_PEER && may_lose) {
        n_lost++;
        return false;
    }
    if (!worked("allreduce", me, status))
        return false;
    uint64_t all = (uint64_t)n_ranks * ((uint64_t)n_ranks + 1) / 2;
    if (sum[1] != all)
        wrong("allreduce", me, sum[1], all);
    return sum[0] != 0;
}

static bool begin(void)
{
    pgas_gptr_t mine = PGAS_NULL, all[RANKS_MAX];
    pgas_handler_register("attack.ask", on_ask, NULL, NULL, &ask);
    pgas_handler_register("attack.count", on_count, NULL, NULL, &count);
    pgas_handler_register("attack.counted", on_counted, NULL, NULL, &counted);
    if (pgas_init(NULL, NULL) != PGAS_OK)
        return false;
    me = pgas_rank();
    n_ranks = pgas_n_ranks();
    if (n_ranks > RANKS_MAX || pgas_alloc((size_t)n_ranks * sizeof(row_t), &mine) != PGAS_OK ||
        pgas_allgather(NULL, &mine, all, sizeof mine) != PGAS_OK)
        return false;
    for (int r = 0; r < n_ranks; r++)
        rows[r] = pgas_gptr_add(all[r], (int64_t)((size_t)me * sizeof(row_t)));
    memset(pgas_gptr_local(mine, 1), 0, (size_t)n_ranks * sizeof(row_t));
    return pgas_barrier(NULL) == PGAS_OK;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: worker SEED SECONDS finish|survive|doomed\n");
        return 2;
    }
    if (!begin()) {
        printf("refused\n");
        return 4;
    }
    printf("pid %d %d\n", me, (int)getpid());
    fflush(stdout);
    bool doomed = strcmp(argv[3], "doomed") == 0;
    may_lose = doomed || strcmp(argv[3], "survive") == 0;
    state = mix(strtoull(argv[1], NULL, 10) + (uint64_t)me);
    time_t end = time(NULL) + atoi(argv[2]);
    do {
        for (int i = 0; i < OPS_PER_ROUND; i++)
            operate();
    } while (all_go_on(time(NULL) < end && !n_wrong));
    while (doomed && n_lost)
        pgas_progress();
    for (int i = 0; i < OPS_AFTER_LOSS && n_lost; i++)
        operate();
    pgas_status_t status = pgas_finalize();
    if (status != PGAS_OK && !(status == PGAS_ERR_PEER && may_lose))
        wrong("finalize", me, (uint64_t) - (int64_t)status, 0);
    if (!n_wrong)
        printf("%s %d\n", n_lost ? "survived" : "finished", me);
    fflush(stdout);
    if (n_lost) /* MPI cannot end in order without the lost rank */
        _exit(n_wrong != 0);
    return n_wrong != 0;
}
