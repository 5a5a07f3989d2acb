/* Accesses. A thread first tries the grant of the chunk. If the grant does not permit the
 * access, the thread passes it to the protocol and waits with progress. This file detects walks in
 * order, and requests the next chunks before their use. */
#include "array/access.h"

#include "base/op.h"
#include "array/join.h"
#include "array/own_pins.h"
#include "array/protocol.h"
#include "array/slots.h"
#include "array/wire.h"
#include "base/checks.h"
#include "boot/boot.h"
#include "call/progress.h"
#include "mem/thread.h"

/* ---- the grant of a chunk ---- */

static bool site_of_line(pgasi_array_t *a, const pgasi_array_location_t *loc,
                         pgasi_array_site_t *site_p)
{
    uint32_t number = __atomic_load_n(&a->line_of[loc->chunk], __ATOMIC_ACQUIRE);
    if (!number)
        return false;
    *site_p = pgasi_array_site_of_line(a, number - 1, loc->chunk);
    return true;
}

bool pgasi_array_site(pgasi_array_t *a, const pgasi_array_location_t *loc,
                      pgasi_array_site_t *site_p)
{
    if (a->peer[loc->home].data) {
        *site_p = pgasi_array_site_at_home(a, loc->home, loc->index, loc->chunk);
        return true;
    }
    return site_of_line(a, loc, site_p);
}

/* A chunk of a run gets a line of its own, whose grant may permit the access. If another thread has
 * split the run since the first try, the grant may have a pin of this thread by now.
 * @return false: the first try was right. */
static bool leave_run(pgasi_array_t *a, uint64_t chunk)
{
    if (!a->run || !pgasi_array_is_in_run(a, chunk))
        return a->run && pgasi_array_own_pins.n;
    bool served = pgasi_is_serving(); /* in a plain handler */
    pgasi_path_state_t before;
    if (!served)
        before = pgasi_serve_begin();
    pgasi_array_run_split(a, chunk);
    if (!served)
        pgasi_serve_end(before);
    return true;
}

/* @return PGAS_INPROGRESS: no grant permits it. */
static pgas_status_t try_grants(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                pgasi_array_access_t *x)
{
    pgasi_array_site_t site;
    pgas_status_t status = PGAS_INPROGRESS;
    bool applies = x->kind == PGASI_ARRAY_APPLY && a->n_near_max && loc->home != a->rank;
    if (applies && a->peer[loc->home].data && site_of_line(a, loc, &site))
        status = pgasi_array_grant_try(&site, x, true);
    if (status == PGAS_INPROGRESS && pgasi_array_site(a, loc, &site)) {
        status = pgasi_array_grant_try(&site, x, true);
        if (applies && status == PGAS_OK && x->operated)
            pgasi_array_join_operated(a, loc, x->op);
    }
    return status;
}

static pgas_status_t try_here(pgasi_array_t *a, const pgasi_array_location_t *loc,
                              pgasi_array_access_t *x)
{
    pgas_status_t status = try_grants(a, loc, x);
    return status == PGAS_INPROGRESS && leave_run(a, loc->chunk) ? try_grants(a, loc, x) : status;
}

pgas_status_t pgasi_array_try(pgasi_array_t *a, const pgasi_array_location_t *loc,
                              pgasi_array_access_t *x)
{
    pgas_status_t status = try_here(a, loc, x);
    return status == PGAS_INPROGRESS ? PGAS_ERR_AGAIN : status;
}

/* ---- walks in order ---- */

/* The calling thread's last access, to detect walks. */
static __thread struct {
    uint64_t last, ahead; /* ahead: the last chunk that was requested */
    uint32_t array, streak;
} walk __attribute__((tls_model("initial-exec")));

static bool note_walk(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    if (walk.array != a->id || (loc->chunk != walk.last && loc->chunk != walk.last + 1)) {
        walk.array = a->id;
        walk.streak = 0;
        walk.ahead = loc->chunk;
    } else if (loc->chunk == walk.last + 1) {
        walk.streak++;
    }
    walk.last = loc->chunk;
    return walk.streak > 0;
}

/* Requests the next chunks when half of those requested have been used. The caller is serving. */
static void read_ahead(pgasi_array_t *a, const pgasi_array_location_t *loc,
                       const pgasi_array_access_t *x)
{
    uint64_t from = PGASI_MAX(walk.ahead, loc->chunk) + 1, to = loc->chunk + (uint64_t)a->prefetch;
    walk.ahead = to;
    if (from <= to)
        pgasi_array_cache_prefetch(a, from, to - from + 1, pgasi_array_need(x), x->op, NULL);
}

static bool wants_ahead(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    return walk.streak > 0 && a->prefetch && !loc->cut &&
           loc->chunk + (uint64_t)a->prefetch / 2 >= walk.ahead;
}

/* ---- accesses ---- */

/* For an access that neither one call nor a cache line can carry: pins the chunk and works on it
 * here. */
static pgas_status_t do_pinned(pgasi_array_t *a, const pgasi_array_location_t *loc,
                               pgasi_array_access_t *x)
{
    pgasi_array_site_t site;
    bool reads = pgasi_array_need(x) == PGASI_ARRAY_NEED_R, recall;
    pgas_array_mode_t mode = reads ? PGAS_ARRAY_READ : PGAS_ARRAY_WRITE;
    pgasi_array_access_t pin = {
        .kind = PGASI_ARRAY_PIN, .pin = (uint8_t)mode, .chunk = x->chunk, .k = x->k, .n = 1
    };
    pgas_status_t status = pgasi_array_own_pin_room();
    if (status == PGAS_OK)
        status = pgasi_array_do(a, loc, &pin);
    if (status != PGAS_OK)
        return status;
    pgasi_array_site(a, loc, &site);
    pgasi_array_own_pin_add(site.grant);
    status = pgasi_array_grant_try(&site, x, true);
    pgasi_array_grant_unpin(site.grant, mode, false, &recall);
    pgasi_array_pin_ended(a, loc->first, site.grant, recall);
    return status;
}

static bool is_too_large(const pgasi_array_t *a, const pgasi_array_location_t *loc,
                         const pgasi_array_access_t *x)
{
    size_t in = pgasi_array_in_bytes(x, a->pub.elem_bytes);
    if (loc->home == a->rank ||
        PGASI_MAX(in, pgasi_array_out_bytes(x, a->pub.elem_bytes)) <= PGASI_ARRAY_CALL_BYTES)
        return false;
    return a->node_rank[loc->home] >= 0 || (x->kind == PGASI_ARRAY_APPLY && in > a->pub.elem_bytes);
}

/* By the protocol: the grant does not permit the access. */
static pgas_status_t miss(pgasi_array_t *a, const pgasi_array_location_t *loc,
                          pgasi_array_access_t *x, bool sequential, bool ahead)
{
    pgas_status_t status = pgasi_array_may_wait(a);
    if (status != PGAS_OK)
        return status;
    if (is_too_large(a, loc, x))
        return do_pinned(a, loc, x);
    pgasi_array_note(&a->info.misses, 1);
    x->done = 0;

    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_miss(a, loc, x, sequential);
    if (ahead)
        read_ahead(a, loc, x);
    pgasi_array_poll();
    pgasi_serve_end(before);
    return pgasi_array_wait(a, x);
}

pgas_status_t pgasi_array_do(pgasi_array_t *a, const pgasi_array_location_t *loc,
                             pgasi_array_access_t *x)
{
    bool far = a->node_rank[loc->home] < 0;
    bool sequential = far && note_walk(a, loc);
    bool ahead = sequential && wants_ahead(a, loc) && !pgasi_self.in_handler;

    pgas_status_t status = try_here(a, loc, x);
    if (status == PGAS_INPROGRESS)
        return miss(a, loc, x, sequential, ahead);
    if (PGAS_LIKELY(!ahead))
        return status;

    pgasi_path_state_t before = pgasi_serve_begin();
    read_ahead(a, loc, x);
    pgasi_array_poll();
    pgasi_serve_end(before);
    return status;
}

pgas_status_t pgasi_array_do_all(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                 pgasi_array_access_t *x, size_t n)
{
    size_t n_missed = 0;
    pgas_status_t first = PGAS_OK;
    for (size_t j = 0; j < n; j++) {
        x[j].done = 1;
        x[j].status = try_here(a, &loc[j], &x[j]);
        n_missed += x[j].status == PGAS_INPROGRESS;
    }
    pgas_status_t status = n_missed ? pgasi_array_may_wait(a) : PGAS_OK;
    if (status != PGAS_OK)
        return status;
    if (n_missed) {
        pgasi_array_note(&a->info.misses, n_missed);
        pgasi_path_state_t before = pgasi_serve_begin();
        pgasi_array_list_begin();
        for (size_t j = 0; j < n; j++) {
            if (x[j].status != PGAS_INPROGRESS || is_too_large(a, &loc[j], &x[j]))
                continue;
            x[j].done = 0;
            pgasi_array_miss(a, &loc[j], &x[j], false);
        }
        pgasi_array_list_end();
        pgasi_array_poll();
        pgasi_serve_end(before);
    }
    for (size_t j = 0; j < n; j++) {
        status = pgasi_array_wait(a, &x[j]);
        if (status == PGAS_INPROGRESS) /* it was too large to begin with the others */
            status = do_pinned(a, &loc[j], &x[j]);
        first = first == PGAS_OK ? status : first;
    }
    return first;
}

/* ---- checks ---- */

/* Ends the access that an inline function began, and registers the thread. */
static inline void enter(void)
{
    if (PGAS_LIKELY(pgasi_array_thread_known()))
        pgas_array_leave(pgas_array_path.slot);
    else
        pgasi_array_thread_start();
}

pgas_status_t pgasi_array_check(const pgas_array_t *array, uint64_t i)
{
    if (PGAS_UNLIKELY(!array))
        return PGAS_ERR_INVALID;
    if (PGAS_UNLIKELY(!pgasi_thread_attached()))
        return pgasi_running ? PGAS_ERR_CONTEXT : PGAS_ERR_NOT_INIT;
    if (PGAS_UNLIKELY(array->epoch != pgasi_epoch))
        return PGAS_ERR_INVALID;
    enter();
    return PGAS_UNLIKELY(i >= array->n_elems) ? PGAS_ERR_RANGE : PGAS_OK;
}

pgas_status_t pgasi_array_check_op(const pgas_array_t *array, pgas_op_t op,
                                   const pgas_op_def_t **def_p)
{
    *def_p = pgasi_op_find(op);
    if (!*def_p)
        return pgasi_op_is_built_in(op) ? PGAS_ERR_UNSUPPORTED : PGAS_ERR_NOT_FOUND;
    return (*def_p)->elem_bytes == array->elem_bytes ? PGAS_OK : PGAS_ERR_MISMATCH;
}
