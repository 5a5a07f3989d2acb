/* Typed calls with arguments and results of every kind.
 *   what:   Arguments of every kind arrive as they were, at ranks, threads and services, from the
 *           program, from threads and from handlers. The caller may change its memory on return, or
 *           after local completion. RMA vectors and objects that a handler keeps remain right.
 *           Results come back in the same way, waited for or not, also from handlers that wait.
 *           Wrong arguments are refused. At the end no object is left.
 *   np:     1 2 3 5
 *   nodes:  0 1 2
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_CHUNK_SIZE=4K PGAS_CALL_MAX=1K | PGAS_SERVICE_THREADS=0 |
 *   env:    PGAS_FAULT=delay=5,reorder=4,again=3
 *   source: pgas/call_args.h
 */
#include <pthread.h>
#include "base/param.h"
#include "t/spmd/args.h"
#include "t/spmd/said.h"

#define N_CALLS   60
#define N_THREADS 3
#define KEPT_MAX  4096

static int n_ran, n_wrong;
static uint64_t first_seed;

/* What handlers have kept. */
static struct {
    pthread_mutex_t lock;
    int n;
    struct {
        uint64_t seed;
        cells_t halo;
        pgas_rma_object_t *object;
    } of[KEPT_MAX];
} kept = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void count(int *counter, int n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static int read_count(int *counter)
{
    return __atomic_exchange_n(counter, 0, __ATOMIC_RELAXED);
}

/* One call of three takes the vector, one shares it and the object, one keeps nothing. */
static void keep(uint64_t seed, cells_t *halo, pgas_rma_object_t *object)
{
    pthread_mutex_lock(&kept.lock);
    if (kept.n < KEPT_MAX && seed % 3 < 2) {
        kept.of[kept.n].seed = seed;
        if (seed % 3 == 0)
            cells_take(halo, &kept.of[kept.n].halo);
        else
            cells_share(halo, &kept.of[kept.n].halo);
        kept.of[kept.n].object = pgas_rma_object_share(object);
        kept.n++;
    }
    pthread_mutex_unlock(&kept.lock);
}

/* Compares what was kept, and gives it back. @return the number of wrong ones */
static int give_back(void)
{
    int n_bad = 0;
    for (int i = 0; i < kept.n; i++) {
        every_t want;
        args_make(kept.of[i].seed, &want);
        n_bad += !same_cells(&want.halo, &kept.of[i].halo);
        n_bad += !same_object(want.object, kept.of[i].object);
        cells_free(&kept.of[i].halo);
        n_bad += pgas_rma_object_destroy(kept.of[i].object) != PGAS_OK;
        pgas_free_every(&want);
    }
    kept.n = 0;
    return n_bad;
}

PGAS_HANDLER_ARGS(take, EVERY_FIELDS)
{
    every_t got = { seed,      { three[0], three[1], three[2] },
                    NULL,      NULL,
                    n_numbers, NULL,
                    *sun,      { two[0], two[1] },
                    many,      n_many,
                    perhaps,   tag,
                    *figure,   object,
                    *halo };
    got.text = (char *)(uintptr_t)text;
    got.numbers = (double *)(uintptr_t)numbers;
    got.maybe = (uint32_t *)(uintptr_t)maybe;
    count(&n_wrong, !args_right(&got) || pgas_thread_rank(source) >= pgas_n_ranks());
    count(&n_ran, 1);
    keep(seed, halo, object);
}

/* A handler that makes such a call. */
#define FORWARD_FIELDS(F)     \
    F(SCALAR, uint64_t, seed) \
    F(SCALAR, int32_t, rank)
PGAS_HANDLER_ARGS(forward, FORWARD_FIELDS)
{
    every_t e;
    args_make(seed, &e);
    count(&n_wrong, pgas_call_take(rank, EVERY_ARGS(e), NULL) != PGAS_OK);
    pgas_free_every(&e);
}

#define SEED_FIELDS(F) F(SCALAR, uint64_t, seed)
PGAS_HANDLER_ARGS_RETURN(make, SEED_FIELDS, every)
{
    args_make(seed, result);
}

PGAS_HANDLER_ARGS_BLOCKING_RETURN(make_there, FORWARD_FIELDS, every)
{
    count(&n_wrong, pgas_call_return_make(rank, seed, result) != PGAS_OK);
}

/* The call has the type of another handler, by number. */
PGAS_HANDLER_ARGS_RETURN(other, FORWARD_FIELDS, body)
{
    result->id = (int64_t)seed + rank;
}

/* ---- the comparison ---- */

/* A seed whose value has something of every kind. */
static uint64_t rich_seed(void)
{
    for (uint64_t seed = 1;; seed++) {
        every_t e;
        args_make(seed, &e);
        bool rich = e.text && e.n_numbers && e.maybe && e.sun.name && e.two[1].n_history &&
                    e.n_many && e.perhaps && e.tag == 2 && e.object && cells_size(&e.halo);
        pgas_free_every(&e);
        if (rich)
            return seed;
    }
}

/* One member after the other is changed, and each change must be noticed. */
static void comparison(void)
{
    every_t e;
    int n_missed = 0;
    args_make(rich_seed(), &e);
    unsigned char *places[] = {
        (unsigned char *)&e.three[2],    (unsigned char *)e.text,
        (unsigned char *)&e.numbers[0],  (unsigned char *)e.maybe,
        (unsigned char *)e.sun.name,     (unsigned char *)e.two[1].history,
        (unsigned char *)&e.many[0].id,  (unsigned char *)&e.perhaps->id,
        (unsigned char *)&e.tag,         (unsigned char *)&e.figure.middle.id,
        (unsigned char *)e.object->data, (unsigned char *)cells_data(&e.halo),
        (unsigned char *)&e.n_numbers,   (unsigned char *)&e.sun.n_history,
    };
    bool right = args_right(&e);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *places[i] ^= 1;
        n_missed += args_right(&e);
        *places[i] ^= 1;
    }
    pgas_free_every(&e);
    spmd_ok(right && n_missed == 0, "the comparison notices each change of a member");
}

/* ---- calls ---- */

static uint64_t next_seed(void)
{
    static uint64_t n;
    return first_seed * 1000003 + (uint64_t)me * 100000007 +
           __atomic_fetch_add(&n, 1, __ATOMIC_RELAXED);
}

static void spoil(void *data, size_t bytes)
{
    if (bytes)
        memset(data, 0xEE, bytes);
}

/* Other values, where the call must not read any more. */
static void scribble(every_t *e)
{
    spoil(e->numbers, e->n_numbers * sizeof *e->numbers);
    spoil(e->sun.history, e->sun.n_history * sizeof *e->sun.history);
    for (size_t i = 0; i < e->n_many; i++)
        spoil(e->many[i].history, e->many[i].n_history * sizeof *e->many[i].history);
    pgas_free_every(e);
}

static pgas_target_t target_of(int i, int rank)
{
    if (i == 0)
        return pgas_on_rank(rank);
    return i == 1 ? pgas_on_thread(pgas_thread_make(rank, 0)) : pgas_on_service(rank);
}

/* One call. mode 0: nothing is awaited; 1: local completion; 2: execution */
static int call_one(int i, int mode)
{
    every_t e;
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    if (mode == 1)
        o.local = &sync;
    else if (mode == 2)
        o.sync = &sync;
    args_make(next_seed(), &e);
    int n_bad =
        pgas_call_take_to(target_of(i % 3, (me + i) % n_ranks), EVERY_ARGS(e), &o) != PGAS_OK;
    n_bad += mode && pgas_sync_wait(&sync, -1) != PGAS_OK;
    scribble(&e);
    return n_bad;
}

/* All ranks have made n_each calls. */
static void all_ran(int n_bad, int n_each, const char *what)
{
    int64_t here[2], all[2] = { 0, 0 };
    n_bad += pgas_quiesce() != PGAS_OK;
    here[0] = read_count(&n_ran);
    here[1] = n_bad + read_count(&n_wrong) + give_back();
    n_bad += pgas_allreduce(NULL, here, all, 2, PGAS_I64, PGAS_ADD) != PGAS_OK;
    spmd_ok(n_bad == 0 && all[1] == 0 && all[0] == (int64_t)n_each * n_ranks, "%s", what);
}

static void calls(void)
{
    int n_bad = 0;
    for (int i = 0; i < N_CALLS; i++)
        n_bad += call_one(i, 0);
    all_ran(n_bad, N_CALLS, "the caller's memory may change on return");
    n_bad = 0;
    for (int i = 0; i < N_CALLS; i++)
        n_bad += call_one(i, 1);
    all_ran(n_bad, N_CALLS, "it may change after local completion");
    n_bad = 0;
    for (int i = 0; i < N_CALLS; i++)
        n_bad += call_one(i, 2);
    all_ran(n_bad, N_CALLS, "calls that the caller waits for");
}

/* Small calls travel as plain calls while no archive is in flight, and others do not. */
static uint32_t n_in_turn[64];
#define IN_TURN_FIELDS(F)       \
    F(SCALAR, uint32_t, number) \
    F(VECTOR, char, text, n_text)
PGAS_HANDLER_ARGS(in_turn, IN_TURN_FIELDS)
{
    uint32_t *expected = &n_in_turn[pgas_thread_rank(source)];
    count(&n_wrong, number != *expected);
    *expected = number + 1;
    count(&n_ran, 1);
}

static void order(void)
{
    static const char text[40000];
    int n_bad = 0;
    for (uint32_t i = 0; i < 4 * N_CALLS; i++) {
        size_t n = next_seed() % 3 ? 20 : sizeof text;
        n_bad += pgas_call_in_turn((me + 1) % n_ranks, i, text, n, NULL) != PGAS_OK;
    }
    all_ran(n_bad, 4 * N_CALLS, "small and large calls run in the order issued");
}

static void from_handlers(void)
{
    int n_bad = 0;
    for (int i = 0; i < N_CALLS; i++)
        n_bad += pgas_call_forward((me + i) % n_ranks, next_seed(), me, NULL) != PGAS_OK;
    all_ran(n_bad, N_CALLS, "handlers call");
}

static void *work(void *arg)
{
    int *bad = arg;
    *bad = pgas_thread_attach() != PGAS_OK;
    for (int i = 0; i < N_CALLS / 2 && !*bad; i++)
        *bad += call_one(i, i % 3);
    *bad += pgas_thread_detach() != PGAS_OK;
    return NULL;
}

static void threads(void)
{
    pthread_t thread[N_THREADS];
    int bad[N_THREADS], n_bad = 0;
    for (int i = 0; i < N_THREADS; i++)
        n_bad += pthread_create(&thread[i], NULL, work, &bad[i]) != 0;
    for (int i = 0; i < N_THREADS; i++) {
        while (pthread_tryjoin_np(thread[i], NULL) != 0)
            pgas_progress(); /* calls to this thread run here */
        n_bad += bad[i];
    }
    all_ran(n_bad, N_THREADS * (N_CALLS / 2), "threads call");
}

/* ---- results ---- */

static void results(void)
{
    int n_bad = 0;
    for (int i = 0; i < N_CALLS; i++) {
        every_t got = { 0 };
        uint64_t seed = next_seed();
        n_bad += pgas_call_return_make((me + i) % n_ranks, seed, &got) != PGAS_OK;
        n_bad += got.seed != seed || !args_right(&got);
        pgas_free_every(&got);
    }
    spmd_is_int(n_bad, 0, "results of every kind");

    enum { N_OPEN = 16 };
    pgas_archive_t reply[N_OPEN];
    pgas_sync_t sync = PGAS_SYNC_INIT;
    uint64_t first = next_seed();
    n_bad = 0;
    for (int i = 0; i < N_OPEN; i++)
        n_bad += pgas_call_return_nb_make((me + i) % n_ranks, first + (uint64_t)i, &reply[i],
                                          &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    for (int i = 0; i < N_OPEN && !n_bad; i++) {
        every_t got = { 0 };
        n_bad += pgas_result_make(&reply[i], &got) != PGAS_OK;
        n_bad += got.seed != first + (uint64_t)i || !args_right(&got);
        pgas_free_every(&got);
    }
    spmd_is_int(n_bad, 0, "many results at one time");

    n_bad = 0;
    for (int i = 0; i < N_CALLS / 4; i++) {
        every_t got = { 0 };
        uint64_t seed = next_seed();
        int rank = (me + i) % n_ranks;
        n_bad += pgas_call_return_make_there(rank, seed, job_right(), &got) != PGAS_OK;
        n_bad += got.seed != seed || !args_right(&got);
        pgas_free_every(&got);
    }
    spmd_is_int(n_bad, 0, "results of handlers that wait for others");
    n_bad = pgas_call_make(job_right(), next_seed(), NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_is_int(n_bad, 0, "a result that the caller does not want");
}

#define LARGE_FIELDS(F) F(VECTOR, char, data, n_data)
PGAS_STRUCT(large, LARGE_FIELDS)

/* Memory that is not touched takes no pages. */
PGAS_HANDLER_ARGS_RETURN(make_large, SEED_FIELDS, large)
{
    result->n_data = seed;
    result->data = malloc(seed);
    if (!result->data)
        abort();
}

static void too_large_results(void)
{
    large_t got = { NULL, 0 };
    size_t more = (size_t)pgasi_param.buffer_limit + 8;
    spmd_is_int(pgas_call_return_make_large(job_right(), more, &got), PGAS_ERR_LIMIT,
                "the caller learns that a result exceeds PGAS_BUFFER_LIMIT");
    spmd_ok(pgas_call_return_make_large(job_right(), 5000, &got) == PGAS_OK && got.n_data == 5000,
            "and the next result arrives");
    pgas_free_large(&got);
}

/* ---- refusals ---- */

static void refusals(void)
{
    every_t e = { 0 };
    body_t none = { 0 };
    cells_t *no_cells = NULL;
    int n_bad = 0;
    n_bad += pgas_call_take(n_ranks, EVERY_ARGS(e), NULL) != PGAS_ERR_RANGE;
    n_bad += pgas_call_take(0, 1, e.three, NULL, NULL, 0, NULL, &e.sun, e.two, NULL, 0, NULL, 0,
                            &e.figure, NULL, no_cells, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_take(0, 1, e.three, NULL, NULL, 0, NULL, NULL, e.two, NULL, 0, NULL, 0,
                            &e.figure, NULL, &e.halo, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_take(0, 1, NULL, NULL, NULL, 0, NULL, &e.sun, e.two, NULL, 0, NULL, 0,
                            &e.figure, NULL, &e.halo, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_take(0, 1, e.three, NULL, NULL, 5, NULL, &e.sun, e.two, NULL, 0, NULL, 0,
                            &e.figure, NULL, &e.halo, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_return_make(0, 1, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_call_return_nb_make(0, 1, NULL, NULL) != PGAS_ERR_INVALID;
    spmd_is_int(n_bad, 0, "null pointers and ranks that do not exist are refused");

    /* `other' gets the arguments of `make' */
    said_begin();
    pgas_barrier(NULL);
    pgas_archive_t out = PGAS_ARCHIVE_INIT, reply;
    n_bad = pgas_args_save_make(next_seed(), &out) != PGAS_OK;
    n_bad += pgas_call_args_return(pgas_on_rank(job_right()), pgas_handler_other, &out, &reply) !=
             PGAS_OK;
    n_bad += pgas_result_other(&reply, &none) != PGAS_ERR_MISMATCH;
    n_bad += pgas_archive_free(&out) != PGAS_OK;
    pgas_barrier(NULL);
    int n_named = said_by("handler 'other' does not run");
    spmd_ok(n_bad == 0 && n_named == n_ranks && none.id == 0,
            "arguments of another description: the caller knows, and the log names the handler");
}

static void nothing_left(void)
{
    pgas_rma_info_t info = { .size = sizeof info };
    pgas_quiesce();
    int n_bad = pgas_rma_info(&info) != PGAS_OK;
    spmd_is_int(n_bad + (int)info.n_objects, 0, "no object is left");
    spmd_ok(info.object_bytes == 0 && info.n_calls_sent > 0 && info.n_calls_received > 0 &&
                info.serialize_us > 0,
            "calls are counted");
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 17);
    first_seed = spmd_seed(1);
    comparison();
    calls();
    order();
    from_handlers();
    threads();
    results();
    too_large_results();
    refusals();
    nothing_left();
    return job_end();
}
