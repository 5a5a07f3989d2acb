/* what: Locks of elements are granted in the order of the requests. Readers share a lock, but do
 *       not pass a waiting writer. A request that is withdrawn, or whose rank dies, delays no
 *       other. A lock that no thread has or wants occupies no memory.
 * source: include/pgas/array.h, locks; the model is the rule in one sentence: see is_due */
#include "array/lock_queue.h"
#include "base/rng.h"
#include "t/tap.h"

/* ---- the model: requests that were not given back, in order ---- */

enum { N_RANKS = 3, N_SLOTS = 3, N_THREADS = N_RANKS * N_SLOTS, N_ELEMS = 4, ROOM = N_THREADS };
typedef struct {
    pgasi_array_lock_request_t request;
    bool has, refused;
} wanted_t;
static wanted_t wanted[ROOM];
static int n_wanted, n_wrong, n_told;
static bool unfair; /* the model is wrong on purpose */
static pgasi_array_lock_queue_t q;

static bool is_same_element(const pgasi_array_lock_request_t *a,
                            const pgasi_array_lock_request_t *b)
{
    return a->array == b->array && a->index == b->index;
}

/* A writer has the lock when no request before it is left, a reader when only readers are left. */
static bool is_due(int k)
{
    for (int j = 0; j < (unfair && !wanted[k].request.writes ? ROOM : k) && j < n_wanted; j++) {
        bool conflict = wanted[k].request.writes || wanted[j].request.writes;
        if (unfair && !wanted[j].has)
            continue;
        if (j != k && is_same_element(&wanted[j].request, &wanted[k].request) && conflict)
            return false;
    }
    return true;
}

static void forget(int k)
{
    memmove(&wanted[k], &wanted[k + 1], (size_t)(n_wanted - k - 1) * sizeof wanted[0]);
    n_wanted--;
}

static void hear(const pgasi_array_lock_request_t *r, pgas_status_t status)
{
    n_told++;
    for (int k = 0; k < n_wanted; k++) {
        wanted_t *w = &wanted[k];
        if (w->request.thread == r->thread && w->request.number == r->number &&
            is_same_element(&w->request, r)) {
            n_wrong += w->has || w->refused || w->request.writes != r->writes;
            w->has = status == PGAS_OK;
            w->refused = status == PGAS_ERR_PEER;
            return;
        }
    }
    n_wrong++;
}

static void compare(void)
{
    for (int k = 0; k < n_wanted; k++)
        n_wrong += wanted[k].has != is_due(k);
}

static int find_thread(pgas_thread_t thread)
{
    for (int k = 0; k < n_wanted; k++)
        if (wanted[k].request.thread == thread)
            return k;
    return -1;
}

/* ---- random steps: a thread has or wants one lock at a time ---- */

static void want_something(pgasi_rng_t *rng, pgas_thread_t thread)
{
    static uint32_t number;
    pgasi_array_lock_request_t r = { pgasi_rng_below(rng, N_ELEMS / 2) << 40,
                                     (uint32_t)pgasi_rng_below(rng, 2), ++number, thread,
                                     pgasi_rng_below(rng, 2) == 0 };
    bool tries = pgasi_rng_below(rng, 4) == 0;
    wanted[n_wanted++] = (wanted_t){ r, false, false };
    bool due = is_due(n_wanted - 1);
    pgas_status_t status = pgasi_array_lock_want(&q, &r, tries);
    pgas_status_t want = tries ? PGAS_ERR_BUSY : PGAS_INPROGRESS;
    if (due)
        want = PGAS_OK;
    n_wrong += status != want;
    wanted[n_wanted - 1].has = status == PGAS_OK;
    if (status != PGAS_OK && status != PGAS_INPROGRESS)
        forget(n_wanted - 1);
}

static void give_back(int k)
{
    pgasi_array_lock_request_t r = wanted[k].request;
    bool has = wanted[k].has;
    if (has) {
        n_wrong += pgasi_array_lock_cancel(&q, &r);
        forget(k);
        n_wrong += !pgasi_array_lock_release(&q, r.array, r.index, r.thread);
    } else {
        n_wrong += pgasi_array_lock_release(&q, r.array, r.index, r.thread);
        forget(k);
        n_wrong += !pgasi_array_lock_cancel(&q, &r);
    }
}

static void step(pgasi_rng_t *rng)
{
    pgas_thread_t thread =
        pgas_thread_make((int)pgasi_rng_below(rng, N_RANKS), (int)pgasi_rng_below(rng, N_SLOTS));
    int k = find_thread(thread);
    if (k < 0)
        want_something(rng, thread);
    else if (wanted[k].has || pgasi_rng_below(rng, 2))
        give_back(k);
}

static bool is_empty(void)
{
    return q.n == 0 && !pgasi_array_lock_in_use(&q, 0) && !pgasi_array_lock_in_use(&q, 1);
}

static void as_the_model_says(pgasi_rng_t *rng)
{
    int n_empty = 0;
    for (int i = 0; i < 200000; i++) {
        step(rng);
        compare();
        n_empty += (n_wanted == 0) != is_empty();
    }
    is_int(n_wrong, 0, "holders equal the model's, after each step");
    is_int(n_empty, 0, "there are entries as long as a thread has or wants a lock");
    ok(n_told > 10000, "many have waited (%d)", n_told);
    while (n_wanted > 0)
        give_back(0);
    ok(n_wrong == 0 && is_empty(), "and all is given back");
    unfair = true;
    for (int i = 0; i < 1000; i++) {
        step(rng);
        compare();
    }
    ok(n_wrong > 0, "a model in which readers overtake differs (%d times)", n_wrong);
    unfair = false;
    pgasi_array_lock_clear(&q);
    n_wanted = n_wrong = 0;
}

/* ---- deaths ---- */

static pgas_status_t want(int rank, uint64_t index, bool writes)
{
    pgasi_array_lock_request_t r = { index, 9, 1, pgas_thread_make(rank, (int)index), writes };
    wanted[n_wanted++] = (wanted_t){ r, false, false };
    pgas_status_t status = pgasi_array_lock_want(&q, &r, false);
    wanted[n_wanted - 1].has = status == PGAS_OK;
    return status;
}

static void deaths_keep_nobody_waiting(void)
{
    want(1, 0, true); /* 0, 1: the thread that has it dies */
    want(2, 0, true);
    want(1, 1, true);
    want(2, 2, false); /* 4, 5, 6: a waiting thread dies */
    want(1, 2, true);
    want(0, 2, false);
    n_told = 0;
    pgasi_array_lock_drop_rank(&q, 1);
    ok(wanted[1].refused && !wanted[1].has,
       "a thread that waits for a dead rank's lock is informed");
    ok(wanted[3].has && wanted[5].has && !wanted[5].refused,
       "the next waiting thread has the lock");
    is_int(n_told, 2, "no other thread is informed");
    is_int(q.n, 1, "and nothing else is left");
    ok(pgasi_array_lock_in_use(&q, 9) && !pgasi_array_lock_in_use(&q, 8), "of that array alone");
    pgasi_array_lock_drop_rank(&q, 0);
    pgasi_array_lock_drop_rank(&q, 2);
    ok(q.n == 0 && n_told == 2, "until all are dead");
    n_wanted = 0;
}

static void many_elements(void)
{
    enum { N = 10000 };
    pgas_thread_t thread = pgas_thread_make(1, 2);
    int wrong = 0;
    for (uint64_t i = 0; i < N; i++) {
        pgasi_array_lock_request_t r = { i, 3, (uint32_t)i, thread, true };
        wrong += pgasi_array_lock_want(&q, &r, false) != PGAS_OK;
    }
    is_int(q.n, N, "a thread may have many");
    for (uint64_t i = 0; i < N; i += 2)
        wrong += !pgasi_array_lock_release(&q, 3, i, thread) ||
                 pgasi_array_lock_release(&q, 3, i, thread);
    is_int(wrong, 0, "each is given back once");
    is_int(q.n, N / 2, "the others stay");
    want(0, 0, true);
    pgasi_array_lock_forget(&q, 3);
    ok(q.n == 1 && pgasi_array_lock_in_use(&q, 9),
       "also when those of another array are forgotten");
    pgasi_array_lock_clear(&q);
    ok(is_empty() && !pgasi_array_lock_in_use(&q, 9) && !pgasi_array_lock_release(&q, 3, 1, thread),
       "until they are forgotten");
}

int main(void)
{
    plan(16);
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, tap_seed(815));
    q.report = hear;
    as_the_model_says(&rng);
    deaths_keep_nobody_waiting();
    many_elements();
    return done();
}
