/* Typed handlers.
 *   what:   A handler is registered before main. A typed call runs it with its argument at a rank
 *           or a target. Aggregated calls run in the order issued. A result comes back, waited for
 *           or not, also from a handler that waits. A call by number with another size does not
 *           run. After a second pgas_init the handlers run again. t/lint/typed.t checks that a
 *           wrong type does not compile.
 *   np:     1 2 3
 *   nodes:  0 1
 *   source: pgas/handler.h
 */
#include "t/spmd/job.h"

#define N_STEPS 5000

typedef struct {
    int64_t amount;
    char note[20];
} deposit_t;

typedef struct {
    double x, y;
} point_t;

static int64_t balance, from, next_step, n_out_of_order;

PGAS_HANDLER(deposit, deposit_t)
{
    if (strcmp(arg->note, "typed") == 0)
        balance += arg->amount;
    from += pgas_thread_rank(source);
}

/* An early return ends one call of a batch, not the batch. */
PGAS_HANDLER(step, int32_t)
{
    if (*arg < 0)
        return;
    n_out_of_order += *arg != next_step;
    next_step++;
}

PGAS_HANDLER_RETURN(norm, point_t, double)
{
    return arg->x * arg->x + arg->y * arg->y;
}

/* Asks another rank, and waits. */
PGAS_HANDLER_BLOCKING_RETURN(norm_there, point_t, double)
{
    double result = -1;
    return pgas_call_return_norm(job_right(), arg, &result) == PGAS_OK ? result : -1;
}

/* Books at another rank, and waits until that has happened. */
PGAS_HANDLER_BLOCKING(deposit_there, deposit_t)
{
    pgas_sync_t done = PGAS_SYNC_INIT;
    if (pgas_call_deposit(job_right(), arg, &done) != PGAS_OK)
        return;
    if (pgas_sync_wait(&done, -1) == PGAS_OK)
        __atomic_add_fetch(&from, 1000, __ATOMIC_RELAXED);
}

static void calls(int right)
{
    deposit_t five = { 5, "typed" };
    pgas_sync_t sync = PGAS_SYNC_INIT;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    int n_bad = 0;
    o.sync = &sync;
    balance = from = 0;
    pgas_barrier(NULL);
    n_bad += pgas_call_deposit(right, &five, &sync) != PGAS_OK;
    n_bad += pgas_call_deposit_to(pgas_on_rank(right), &five, &o) != PGAS_OK;
    n_bad += pgas_call_deposit_there(right, &five, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && balance == 15 && from >= 1000,
            "a call, a call with options, a handler that waits");
    n_bad = pgas_call(right, pgas_handler_deposit, &five, 8, NULL) != PGAS_OK ||
            pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && balance == 15, "a call of another size does not run");
}

static void aggregated(int right)
{
    pgas_agg_t *agg = NULL;
    int n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    next_step = n_out_of_order = 0;
    pgas_barrier(NULL);
    for (int32_t i = 0; i < N_STEPS && !n_bad; i++) {
        int32_t none = -1;
        n_bad += pgas_agg_step(agg, right, &i) != PGAS_OK;
        if (i % 7 == 0)
            n_bad += pgas_agg_step(agg, right, &none) != PGAS_OK;
    }
    n_bad += pgas_agg_destroy(agg) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && next_step == N_STEPS && n_out_of_order == 0,
            "aggregated calls run in the order issued");
    int32_t last = N_STEPS;
    pgas_sync_t done = PGAS_SYNC_INIT;
    n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    n_bad += pgas_agg_step_to(agg, pgas_on_service(right), &last, PGAS_CALL_OPTS(.sync = &done)) !=
             PGAS_OK;
    n_bad += pgas_agg_destroy(agg) != PGAS_OK || pgas_sync_wait(&done, -1) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && next_step == N_STEPS + 1, "an aggregated call to a service");
    n_bad = pgas_agg_create(NULL, &agg) != PGAS_OK;
    for (int64_t i = 0; i < 100 && !n_bad; i++)
        n_bad += pgas_agg_call(agg, right, pgas_handler_step, &i, sizeof i) != PGAS_OK;
    n_bad += pgas_agg_destroy(agg) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && next_step == N_STEPS + 1, "a batch of another size does not run");
}

static void results(int right)
{
    point_t p = { 3, 4 };
    double result = 0;
    spmd_ok(pgas_call_return_norm(right, &p, &result) == PGAS_OK && result == 25, "a result");
    pgas_sync_t sync = PGAS_SYNC_INIT;
    int n_bad = 0;
    result = 0;
    n_bad += pgas_call_return_nb_norm(right, &p, &result, &sync) != PGAS_OK;
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK;
    spmd_ok(n_bad == 0 && result == 25, "a result that the caller waits for later");
    spmd_ok(pgas_call_return(right, pgas_handler_norm, &p, 8, &result, sizeof result) ==
                PGAS_ERR_MISMATCH,
            "no result for another size");
    result = 0;
    spmd_ok(pgas_call_return_norm_there(right, &p, &result) == PGAS_OK && result == 25,
            "a result of a handler that waits for another");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(2 * (10 + 2));
    for (int life = 0; life < 2; life++) {
        job_start(NULL);
        int right = job_right();
        spmd_ok(pgas_handler_deposit && pgas_handler_norm &&
                    strcmp(pgas_handler_name(pgas_handler_norm), "norm") == 0,
                "typed handlers have numbers and names");
        calls(right);
        aggregated(right);
        results(right);
        job_stop();
    }
    return spmd_end();
}
