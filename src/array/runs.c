/* Runs. The thread that serves makes, splits and frees them; walks pin their chunks. Both do it
 * under the run's lock.
 *
 * The grants of a run's lines name no chunk. So a thread that finds one of these lines by any other
 * access is sent to the protocol, and that splits the run. A pin of a walk keeps the line, in the
 * run or, after a split, by its grant. */
#include "array/runs.h"

#include <stdlib.h>

#include "array/array.h"
#include "array/wire.h"
#include "base/checks.h"
#include "base/spin.h"

#define LINES_PER_RUN 4 /* there is a run for so many lines; most have more */
#define RUNS_IN_CACHE 4 /* a cache that has no room for so many has none */
#define RUNS_IN_USE   2 /* the same for those lines that the eviction does not keep free */
#define SPINS         100

pgas_status_t pgasi_array_runs_start(pgasi_array_t *a)
{
    uint32_t used = a->n_lines - PGASI_MIN(a->n_high, a->n_lines);
    if (a->prefetch < PGASI_ARRAY_RUN_MAX || a->n_lines < RUNS_IN_CACHE * PGASI_ARRAY_RUN_MAX ||
        used < RUNS_IN_USE * PGASI_ARRAY_RUN_MAX)
        return PGAS_OK;
    a->run_ahead = PGASI_MIN((uint32_t)a->prefetch, used - PGASI_ARRAY_RUN_MAX);
    a->n_runs = a->n_lines / LINES_PER_RUN;
    a->run = calloc(a->n_runs, sizeof *a->run);
    if (!a->run)
        return PGAS_ERR_NO_MEMORY;
    for (uint32_t j = 0; j < a->n_runs; j++)
        a->run[j].next_free = j + 1 < a->n_runs ? j + 2 : 0;
    a->first_free_run = 1;
    return PGAS_OK;
}

void pgasi_array_runs_stop(pgasi_array_t *a)
{
    free(a->run);
    a->run = NULL;
}

static pgasi_array_run_t *lock(pgasi_array_t *a, uint32_t run)
{
    pgasi_array_run_t *r = &a->run[run - 1];
    pgasi_spin_lock(&r->lock, SPINS);
    return r;
}

static void unlock(pgasi_array_run_t *r)
{
    pgasi_spin_unlock(&r->lock);
}

static uint32_t run_of_line(const pgasi_array_cache_line_t *line)
{
    return __atomic_load_n(&line->run, __ATOMIC_ACQUIRE);
}

static void set_run(pgasi_array_cache_line_t *line, uint32_t run)
{
    __atomic_store_n(&line->run, run, __ATOMIC_RELEASE);
}

/* The number + 1 of a chunk's run, or 0, as far as a thread can know that has no lock. */
static uint32_t run_of(const pgasi_array_t *a, uint64_t chunk)
{
    uint32_t number = __atomic_load_n(&a->line_of[chunk], __ATOMIC_ACQUIRE);
    return number ? run_of_line(&a->line[number - 1]) : 0;
}

/* ---- walks ---- */

/* Locks the run of a chunk. NULL: the chunk is in none. */
static pgasi_array_run_t *lock_run_of(pgasi_array_t *a, uint64_t chunk, uint32_t *run_p)
{
    *run_p = run_of(a, chunk);
    if (!*run_p)
        return NULL;
    pgasi_array_run_t *r = lock(a, *run_p);
    if (r->state != PGASI_ARRAY_RUN_NONE && chunk - r->first < r->n)
        return r;
    unlock(r); /* it was split or freed in between */
    *run_p = 0;
    return NULL;
}

static pgasi_array_run_place_t pin(const pgasi_array_t *a, pgasi_array_run_t *r, uint64_t k)
{
    uint32_t li = r->line[k];
    r->pins[k]++;
    return (pgasi_array_run_place_t){ &a->line[li].grant, a->line[li].data };
}

bool pgasi_array_run_pin(pgasi_array_t *a, uint64_t chunk, uint32_t *run_p,
                         pgasi_array_run_place_t *place_p)
{
    pgasi_array_run_t *r = lock_run_of(a, chunk, run_p);
    bool here = r && r->state == PGASI_ARRAY_RUN_HERE;
    if (here)
        *place_p = pin(a, r, chunk - r->first);
    if (r)
        unlock(r);
    return here;
}

bool pgasi_array_run_move(pgasi_array_t *a, uint32_t run, uint64_t chunk, bool more,
                          pgasi_array_run_place_t *place_p)
{
    pgasi_array_cache_line_t *line = (pgasi_array_cache_line_t *)(void *)place_p->grant;
    pgasi_array_run_t *r = lock(a, run);
    bool whole = run_of_line(line) == run;
    if (whole) {
        uint64_t k = chunk - r->first;
        r->pins[k]--;
        bool last = k + 1 == r->n;
        if (last)
            r->fresh = false; /* the walk does not come back */
        *place_p = more && !last ? pin(a, r, k + 1) : (pgasi_array_run_place_t){ NULL, NULL };
    }
    unlock(r);
    return whole;
}

bool pgasi_array_run_is_coming(pgasi_array_t *a, uint32_t run, uint64_t chunk)
{
    pgasi_array_run_t *r = lock(a, run);
    bool coming = r->state == PGASI_ARRAY_RUN_COMING && chunk - r->first < r->n;
    unlock(r);
    return coming;
}

bool pgasi_array_is_in_run(const pgasi_array_t *a, uint64_t chunk)
{
    return run_of(a, chunk) != 0;
}

/* ---- the protocol ---- */

/* Requests up to RUN_MAX chunks from *first_p on whose home is that of the first, and sets *first_p
 * to the next. @return false: lines or runs are used up. */
static bool request(pgasi_array_t *a, uint64_t *first_p, uint64_t end, pgasi_array_location_t loc)
{
    uint64_t first = *first_p, n = 0;
    uint32_t run = a->first_free_run;
    uint32_t room = pgasi_array_lines_ahead(a);
    if (!run || !room)
        return false;
    pgasi_array_run_t *r = lock(a, run);
    int home = loc.home;
    end = PGASI_MIN(end, first + PGASI_MIN(room, PGASI_ARRAY_RUN_MAX));
    while (first + n < end && !a->line_of[first + n] &&
           (n == 0 || (pgasi_array_locate_next(&a->map, first + n, &loc) && loc.home == home))) {
        uint32_t li = pgasi_array_line_take(a, &loc, true);
        a->line[li].state = PGASI_C_IS;
        set_run(&a->line[li], run);
        r->line[n] = li;
        r->pins[n++] = 0;
    }
    a->first_free_run = r->next_free;
    r->state = PGASI_ARRAY_RUN_COMING;
    r->first = first;
    r->n = (uint32_t)n;
    r->n_here = 0;
    r->fresh = true;
    unlock(r);
    for (uint64_t k = 0; k < n; k++)
        pgasi_array_send_request(a, home, first + k, PGASI_E_FETCH_R, r->line[k], 0);
    pgasi_array_count(&a->info.prefetches, n);
    *first_p = first + n;
    return true;
}

void pgasi_array_runs_request(pgasi_array_t *a, uint64_t first, uint64_t end)
{
    pgasi_array_location_t loc = { .cut = true };
    end = PGASI_MIN(end, a->map.n_blocks);
    pgasi_array_list_begin();
    while (first < end) {
        bool far = !a->line_of[first] && pgasi_array_locate_chunk(&a->map, first, &loc) &&
                   a->node_rank[loc.home] < 0;
        if (!far)
            first++;
        else if (!request(a, &first, end, loc))
            break;
    }
    pgasi_array_list_end();
}

void pgasi_array_run_arrived(pgasi_array_t *a, uint32_t li, char *there)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    pgasi_array_run_t *r = &a->run[line->run - 1];
    if (there)
        line->data = there;
    line->state = PGASI_C_S;
    if (++r->n_here < r->n)
        return;
    lock(a, line->run);
    r->state = PGASI_ARRAY_RUN_HERE;
    unlock(r);
}

static void give_run_back(pgasi_array_t *a, uint32_t run)
{
    pgasi_array_run_t *r = &a->run[run - 1];
    r->state = PGASI_ARRAY_RUN_NONE;
    r->next_free = a->first_free_run;
    a->first_free_run = run;
}

/* Under the run's lock. */
static void split(pgasi_array_t *a, uint32_t run)
{
    pgasi_array_run_t *r = &a->run[run - 1];
    for (uint32_t k = 0; k < r->n; k++) {
        uint32_t li = r->line[k];
        pgasi_array_cache_line_t *line = &a->line[li];
        line->grant.pins_read = r->pins[k];
        pgasi_array_line_renew(a, li, r->first + k,
                               line->state == PGASI_C_S ? PGASI_ARRAY_READS : PGASI_ARRAY_NOTHING);
        __atomic_store_n(&line->grant.touched, r->fresh, __ATOMIC_RELAXED);
        set_run(line, 0); /* last: a thread that finds no run finds the grant */
    }
    give_run_back(a, run);
}

void pgasi_array_run_split(pgasi_array_t *a, uint64_t chunk)
{
    uint32_t run = run_of(a, chunk);
    if (!run)
        return;
    pgasi_array_run_t *r = lock(a, run);
    split(a, run);
    unlock(r);
}

void pgasi_array_runs_split_all(pgasi_array_t *a)
{
    for (uint32_t j = 0; j < a->n_runs; j++)
        if (a->run[j].state != PGASI_ARRAY_RUN_NONE)
            pgasi_array_run_split(a, a->run[j].first);
}

static bool is_pinned(const pgasi_array_run_t *r)
{
    uint32_t pins = 0;
    for (uint32_t k = 0; k < r->n; k++)
        pins += r->pins[k];
    return pins != 0;
}

uint32_t pgasi_array_run_free(pgasi_array_t *a, uint32_t run, bool urgent)
{
    pgasi_array_run_t *r = lock(a, run);
    bool here = r->state == PGASI_ARRAY_RUN_HERE, pinned = is_pinned(r);
    uint32_t n = here && !pinned && !r->fresh ? r->n : 0;
    if (here)
        r->fresh = false;
    for (uint32_t k = 0; k < n; k++) {
        set_run(&a->line[r->line[k]], 0);
        a->line[r->line[k]].state = PGASI_C_I;
        pgasi_array_line_free(a, r->line[k], r->first + k);
    }
    if (n)
        give_run_back(a, run);
    else if (pinned && urgent)
        split(a, run);
    unlock(r);
    return n;
}
