/* Handlers registered after init.
 *   what:   Libraries that are loaded late register handlers in any order. All ranks agree on
 *           numbers and keep the earlier ones. A handler that is missing on a rank is named and
 *           refused on all ranks, and can be registered again.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   source: pgas/call.h; public headers
 */
#include "t/handlers.h"
#include "t/spmd/job.h"
#include "t/spmd/said.h"

#define N_LATE 40

static uint64_t ran[N_LATE];
static pgas_handler_t early, late[N_LATE], extra, again;

static bool same_everywhere(uint64_t value)
{
    uint64_t least = 0, most = 1;
    pgas_allreduce(NULL, &value, &least, 1, PGAS_U64, PGAS_MIN);
    pgas_allreduce(NULL, &value, &most, 1, PGAS_U64, PGAS_MAX);
    return least == most;
}

/* Every rank registers in an order of its own. */
static void any_order(void)
{
    char name[32];
    int n_bad = 0;
    for (int i = 0; i < N_LATE; i++) {
        int k = (i * 7 + me * 3) % N_LATE;
        snprintf(name, sizeof name, "late.%d", k);
        n_bad += pgas_handler_register(name, on_count, &ran[k], NULL, &late[k]) != PGAS_OK ||
                 late[k] != 0;
    }
    pgas_handler_t before = early;
    n_bad += pgas_call(me, late[0], NULL, 0, NULL) != PGAS_ERR_NOT_FOUND;
    n_bad += pgas_handlers_agree() != PGAS_OK || early != before;
    for (int i = 0; i < N_LATE; i++) {
        n_bad += late[i] == 0 || !same_everywhere(late[i]);
        for (int k = 0; k < i; k++)
            n_bad += late[i] == late[k];
    }
    spmd_is_int(
        n_bad, 0,
        "numbers are the same everywhere, whatever the order of registration; earlier ones stay");
    n_bad = 0;
    for (int i = 0; i < N_LATE; i++)
        n_bad += pgas_call((me + i) % n_ranks, late[i], NULL, 0, NULL) != PGAS_OK;
    n_bad += pgas_quiesce() != PGAS_OK;
    int sum = 0;
    for (int i = 0; i < N_LATE; i++)
        sum += ran[i];
    int64_t mine = sum, all = 0;
    pgas_allreduce(NULL, &mine, &all, 1, PGAS_I64, PGAS_ADD);
    spmd_ok(n_bad == 0 && all == (int64_t)n_ranks * N_LATE, "and they run");
}

static void nothing_new(void)
{
    spmd_ok(pgas_handlers_agree() == PGAS_OK && pgas_handlers_agree() == PGAS_OK,
            "agreeing on nothing is agreed on");
}

static void missing_on_one_rank(void)
{
    static uint64_t runs;
    extra = 77;
    if (me != n_ranks - 1)
        pgas_handler_register("late.extra", on_count, &runs, NULL, &extra);
    pgas_handler_register("late.common", on_count, &runs, NULL, &again);
    said_begin();
    pgas_status_t status = pgas_handlers_agree();
    int ranks = said_by("handler 'late.extra' is registered on rank 0 but missing on rank ");
    spmd_ok(status == PGAS_ERR_MISMATCH && ranks == 1,
            "a handler that is missing on a rank: refused everywhere, named once");
    spmd_ok(again == 0 && pgas_call(me, again, NULL, 0, NULL) == PGAS_ERR_NOT_FOUND,
            "those of the round are forgotten");
    static pgas_handler_t first = 1, second = 1;
    int n_bad = pgas_handler_register("late.extra", on_count, &runs, NULL, &second) != PGAS_OK;
    n_bad += pgas_handler_register("late.common", on_count, &runs, NULL, &first) != PGAS_OK;
    n_bad += pgas_handlers_agree() != PGAS_OK || first == 0 || second == 0;
    n_bad += pgas_call(job_right(), first, NULL, 0, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && runs == 1, "and can be registered again");
}

/* The same number of handlers, but not the same ones. */
static void different_on_one_rank(void)
{
    static pgas_handler_t h;
    pgas_handler_register(me == 0 ? "late.zero" : "late.other", on_nothing, NULL, NULL, &h);
    said_begin();
    pgas_status_t status = pgas_handlers_agree();
    spmd_ok(said("but missing on rank") && status == PGAS_ERR_MISMATCH,
            "a handler in place of another is noticed");
}

static void names(void)
{
    static pgas_handler_t h = 5;
    char name[PGAS_HANDLER_NAME_MAX + 2];
    int n_bad = 0;
    memset(name, 'x', sizeof name);
    name[PGAS_HANDLER_NAME_MAX + 1] = '\0';
    n_bad += pgas_handler_register(name, on_nothing, NULL, NULL, &h) != PGAS_ERR_INVALID;
    n_bad += pgas_handler_register("", on_nothing, NULL, NULL, &h) != PGAS_ERR_INVALID;
    n_bad += pgas_handler_register(NULL, on_nothing, NULL, NULL, &h) != PGAS_ERR_INVALID;
    n_bad += pgas_handler_register("late.null", NULL, NULL, NULL, &h) != PGAS_ERR_INVALID;
    n_bad += pgas_handler_register("late.null", on_nothing, NULL, NULL, NULL) != PGAS_ERR_INVALID;
    n_bad +=
        pgas_handler_register("late.3", on_nothing, NULL, NULL, &h) != PGAS_ERR_EXISTS || h != 5;
    n_bad +=
        pgas_handler_register("late.3", on_count, &ran[3], NULL, &h) != PGAS_OK || h != late[3];
    name[PGAS_HANDLER_NAME_MAX] = '\0';
    n_bad += pgas_handler_register(name, on_nothing, NULL, NULL, &h) != PGAS_OK ||
             pgas_handlers_agree() != PGAS_OK || h == 0;
    spmd_is_int(
        n_bad, 0,
        "names: not empty, not too long, not another's; the same again is the same handler");
}

int main(int argc, char **argv)
{
    static uint64_t early_ran;
    pgas_handler_register("early", on_count, &early_ran, NULL, &early);
    job_begin(&argc, &argv, 8);
    any_order();
    nothing_new();
    if (n_ranks > 1) {
        missing_on_one_rank();
        different_on_one_rank();
    } else {
        spmd_skip(4, "needs two ranks");
    }
    names();
    return job_end();
}
