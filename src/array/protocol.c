/* How a thread enters the protocol after a miss, and how it returns.
 *
 * A thread that misses takes the receive lock, so that it runs the protocol for its rank, and
 * enqueues its access. The thread that makes the chunk usable carries the access out before it does
 * anything else with the chunk. So each access is done in its turn, even if many other threads
 * access the chunk. */
#include "array/protocol.h"

#include <time.h>

#include "array/own_pins.h"
#include "array/policy.h"
#include "array/registry.h"
#include "array/wire.h"
#include "base/checks.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "mem/thread.h"

#define NAP_NS 10000

pgas_status_t pgasi_array_may_wait(const pgasi_array_t *a)
{
    pgas_status_t status = pgasi_thread_check_wait();
    return status == PGAS_OK && pgasi_boot_some_dead() && pgasi_array_is_broken(a) ? PGAS_ERR_PEER
                                                                                   : status;
}

/* @return an error: neither side has accepted the access. */
static pgas_status_t begin(pgasi_array_t *a, const pgasi_array_location_t *loc,
                           pgasi_array_access_t *x, bool sequential)
{
    if (loc->home == a->rank)
        return pgasi_array_home_access(a, loc->index, x);
    if (a->node_rank[loc->home] >= 0) {
        if (x->kind == PGASI_ARRAY_APPLY && pgasi_array_cache_await(a, loc, x))
            return PGAS_OK;
        return pgasi_array_send_op(a, a->global[loc->home], x);
    }
    return pgasi_array_cache_access(a, loc, x, sequential);
}

void pgasi_array_miss(pgasi_array_t *a, const pgasi_array_location_t *loc, pgasi_array_access_t *x,
                      bool sequential)
{
    pgasi_array_own_pins_note(x);
    pgas_status_t status = begin(a, loc, x, sequential);
    if (status != PGAS_OK)
        pgasi_array_done(x, status);
}

static void forget(pgasi_array_t *a, pgasi_array_access_t *x)
{
    pgasi_array_token_forget(x);
    pgasi_array_home_forget(a, x);
    pgasi_array_cache_forget(a, x);
}

pgas_status_t pgasi_array_wait(pgasi_array_t *a, pgasi_array_access_t *x)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (!pgasi_array_is_done(x)) {
        if (PGAS_UNLIKELY(pgasi_boot_some_dead()) && pgasi_array_is_broken(a)) {
            pgasi_path_state_t before = pgasi_serve_begin();
            if (!pgasi_array_is_done(x)) {
                forget(a, x);
                pgasi_array_done(x, PGAS_ERR_PEER);
            }
            pgasi_serve_end(before);
        } else {
            pgasi_wait_step(&w);
        }
    }
    pgasi_wait_end(&w);
    return x->status;
}

pgas_status_t pgasi_array_wait_for_run(pgasi_array_t *a, uint32_t run, uint64_t chunk)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status = pgasi_array_may_wait(a);
    pgasi_array_note(&a->info.misses, 1);
    while (status == PGAS_OK && pgasi_array_run_is_coming(a, run, chunk)) {
        pgasi_wait_step(&w);
        if (PGAS_UNLIKELY(pgasi_boot_some_dead()) && pgasi_array_is_broken(a))
            status = PGAS_ERR_PEER;
    }
    pgasi_wait_end(&w);
    return status;
}

pgas_status_t pgasi_array_check_op_at_home(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                           pgas_op_t op)
{
    if (a->node_rank[loc->home] >= 0 || pgasi_array_home_knows(a, loc->home, op))
        return PGAS_OK;
    pgas_status_t status = pgasi_array_may_wait(a);
    if (status != PGAS_OK)
        return status;
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_ASK,
                               .op = op,
                               .k = (uint32_t)(loc->first & a->pub.mask),
                               .n = 1,
                               .chunk = loc->chunk };
    pgasi_path_state_t before = pgasi_serve_begin();
    status = pgasi_array_send_op(a, a->global[loc->home], &x);
    pgasi_serve_end(before);
    return status == PGAS_OK ? pgasi_array_wait(a, &x) : status;
}

/* Reports the end of a pin to the side that may wait for it. The caller is serving. */
static void report_unpinned(pgasi_array_t *a, const pgasi_array_location_t *loc,
                            pgasi_array_grant_t *grant)
{
    if (loc->home == a->rank)
        pgasi_array_home_unpinned(a, loc->index);
    else if (a->node_rank[loc->home] >= 0)
        pgasi_array_send_unpinned(a, a->global[loc->home], loc->chunk);
    else
        pgasi_array_cache_unpinned(a, grant);
}

void pgasi_array_pin_ended(pgasi_array_t *a, uint64_t i, pgasi_array_grant_t *grant, bool recall)
{
    /* the pin ends before want_line is read; pgasi_array_cache_keep_free has the matching fence */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!recall && !__atomic_load_n(&a->want_line.first, __ATOMIC_RELAXED))
        return;
    pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
    pgasi_path_state_t before = pgasi_serve_begin();
    report_unpinned(a, &loc, grant);
    pgasi_array_cache_keep_free(a);
    pgasi_array_poll();
    pgasi_serve_end(before);
}

/* ---- rounds of progress ---- */

/* A service thread may have taken the processor from the very thread that it waits for, in the
 * middle of an access. A yield would not give it back before some milliseconds. */
static void let_others_leave(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

void pgasi_array_poll(void)
{
    if (!pgasi_hooks_poll_is_wanted(PGASI_LAYER_ARRAY))
        return;
    bool fence = pgasi_array_poll_is_due(), counted = false;
    uint32_t n_closing = 0;
    if (fence)
        pgasi_wait_heavy_barrier();
    for (uint32_t id = 1; id < pgasi_array_ids_end(); id++) {
        pgasi_array_t *a = pgasi_array_find(id);
        if (!a || !a->n_closing)
            continue;
        if (fence && !counted)
            pgasi_array_note(&a->info.barriers, 1);
        counted = true;
        pgasi_array_home_poll(a);
        pgasi_array_cache_poll(a);
        n_closing += a->n_closing;
    }
    if (n_closing == 0)
        pgasi_array_poll_stop();
    else if (!pgasi_thread_attached())
        let_others_leave();
}

int pgasi_array_poll_in_progress(void)
{
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_array_poll();
    pgasi_handlers_leave(before);
    return 1;
}
