/* Typed handlers.
 *   what:   A typed call runs its handler with its argument at a rank, a target, or all ranks. A
 *           typed answer comes back. A call by number with another size does not run.
 *           t/lint/typed.t checks that a wrong type does not compile.
 *   np:     1 2 3
 *   nodes:  0 1
 *   source: pgas/typed.h
 */
#include "pgas/typed.h"
#include "t/spmd/job.h"

typedef struct {
    int64_t amount;
    char note[20];
} deposit_t;

typedef struct {
    double x, y;
} point_t;

PGAS_HANDLER_DECLARE(deposit, deposit_t);
PGAS_HANDLER_DECLARE_RETURN(norm, point_t, double);

static int64_t balance, from;

PGAS_HANDLER_DEFINE(deposit, deposit_t)
{
    if (strcmp(arg->note, "typed") == 0 && context == &balance)
        balance += arg->amount;
    from += pgas_thread_rank(source);
}

PGAS_HANDLER_DEFINE_RETURN(norm, point_t, double)
{
    (void)source;
    (void)context;
    return arg->x * arg->x + arg->y * arg->y;
}

/* Asks another rank, and waits. */
PGAS_HANDLER_DECLARE_RETURN(norm_there, point_t, double);
PGAS_HANDLER_DEFINE_RETURN(norm_there, point_t, double)
{
    double result = -1;
    (void)source;
    (void)context;
    return pgas_call_return_norm(job_right(), arg, &result, NULL) == PGAS_OK ? result : -1;
}

static void calls(int right)
{
    deposit_t five = { 5, "typed" };
    pgas_sync_t sync;
    pgas_call_opts_t o = PGAS_CALL_OPTS_INIT;
    int n_bad = pgas_sync_init(&sync, 3) != PGAS_OK;
    o.sync = &sync;
    n_bad += pgas_call_deposit(right, &five, &sync) != PGAS_OK;
    n_bad += pgas_call_deposit_to(pgas_thread_make(right, PGAS_SLOT_ANY), &five, &o) != PGAS_OK;
    if (me == 0)
        n_bad += pgas_call_deposit_all(&five, PGAS_SCOPE_RANKS, &o) != PGAS_OK;
    else
        pgas_sync_add(&sync, -1);
    n_bad += pgas_sync_wait(&sync, -1) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && balance == 15, "a call, a call with options, a broadcast");
    n_bad = pgas_call(right, pgas_handler_deposit, &five, 8, NULL) != PGAS_OK ||
            pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && balance == 15, "another size does not run");
    pgas_sync_fini(&sync);
}

static void answers(int right)
{
    point_t p = { 3, 4 };
    double result = 0;
    spmd_ok(pgas_call_return_norm(right, &p, &result, NULL) == PGAS_OK && result == 25,
            "a typed answer");
    spmd_ok(pgas_call_return(right, pgas_handler_norm, &p, 8, &result, sizeof result, NULL) ==
                PGAS_ERR_MISMATCH,
            "no answer to another size");
    result = 0;
    spmd_ok(pgas_call_return_norm_there(right, &p, &result, NULL) == PGAS_OK && result == 25,
            "by a handler that waits for it");
}

int main(int argc, char **argv)
{
    bool good = pgas_register_deposit(&balance) == PGAS_OK && pgas_register_norm(NULL) == PGAS_OK;
    pgas_handler_opts_t may_block = PGAS_HANDLER_OPTS_INIT;
    may_block.blocks = true;
    good &= pgas_register_norm_there_opts(NULL, &may_block) == PGAS_OK;
    job_begin(&argc, &argv, 6);
    int right = job_right();
    spmd_ok(good && pgas_handler_deposit && pgas_handler_norm, "typed handlers have numbers");
    calls(right);
    answers(right);
    return job_end();
}
