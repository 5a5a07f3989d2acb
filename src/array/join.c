/* Samples of applies to chunks of the node's other ranks. Counts are halved from time to time, so
 * that only chunks which many of the applies go to reach the limit. If chunks joined here and
 * there, the processor could not predict the way of an apply, and misses of its caches would not
 * overlap. Threads count without a lock; a lost count does not matter. */
#include "array/join.h"

#include "array/policy.h"
#include "array/protocol.h"
#include "array/wire.h"
#include "base/checks.h"
#include "base/op.h"
#include "pgas/runtime.h"

#define ENOUGH     16 /* samples; up to 64 times as many if joins end soon */
#define NEIGHBOURS 32 /* chunks on both sides that join, too, with half as many */

static uint16_t *count_of(const pgasi_array_t *a, uint64_t chunk)
{
    return &a->joins[chunk];
}

static uint16_t get(const uint16_t *count)
{
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static void set(uint16_t *count, unsigned value)
{
    __atomic_store_n(count, (uint16_t)value, __ATOMIC_RELAXED);
}

static bool is_near(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    return loc->home != a->rank && a->node_rank[loc->home] >= 0 && !loc->cut;
}

/* The requests of neighbours travel together, and the home's barrier is for all of them. */
static void join_with_neighbours(pgasi_array_t *a, const pgasi_array_location_t *loc, pgas_op_t op)
{
    uint64_t from = loc->chunk - PGASI_MIN(loc->chunk, NEIGHBOURS),
             end = PGASI_MIN(loc->chunk + NEIGHBOURS + 1, a->map.n_blocks);
    pgasi_array_cache_join(a, loc, op);
    for (uint64_t chunk = from; chunk < end; chunk++) {
        pgasi_array_location_t other;
        if (get(count_of(a, chunk)) < ENOUGH / 2 ||
            !pgasi_array_locate_chunk(&a->map, chunk, &other) || !is_near(a, &other))
            continue;
        set(count_of(a, chunk), 0);
        pgasi_array_cache_join(a, &other, op);
    }
}

static void join(pgasi_array_t *a, const pgasi_array_location_t *loc, pgas_op_t op)
{
    bool possible = pgasi_op_is_built_in(op) && !pgasi_array_is_too_large_for_line(a, op) &&
                    !pgasi_self.in_handler && pgasi_array_may_wait(a) == PGAS_OK &&
                    __atomic_load_n(&a->n_near, __ATOMIC_RELAXED) < a->n_near_max;
    if (!possible || __atomic_load_n(&a->line_of[loc->chunk], __ATOMIC_RELAXED))
        return;
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_list_begin();
    join_with_neighbours(a, loc, op);
    pgasi_array_list_end();
    pgasi_serve_end(before);
}

static void halve(pgasi_array_t *a)
{
    for (uint64_t chunk = 0; chunk < a->map.n_blocks; chunk++)
        set(count_of(a, chunk), get(count_of(a, chunk)) / 2);
}

void pgasi_array_join_sample(pgas_array_t *array, uint64_t i, pgas_op_t op)
{
    pgasi_array_t *a = pgasi_array_of(array);
    pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
    if (!a->n_near_max || !is_near(a, &loc))
        return;
    uint16_t *count = count_of(a, loc.chunk);
    uint32_t n = __atomic_add_fetch(&a->n_samples, 1, __ATOMIC_RELAXED);
    if (n % PGASI_MAX(ENOUGH / 2 * a->n_near_max, a->map.n_blocks / 16) == 0)
        halve(a);
    set(count, get(count) + 1u);
    if (get(count) < ENOUGH << __atomic_load_n(&a->join_shift, __ATOMIC_RELAXED))
        return;
    set(count, 0);
    join(a, &loc, op);
}

void pgasi_array_join_operated(pgasi_array_t *a, const pgasi_array_location_t *loc, pgas_op_t op)
{
    if (!is_near(a, loc))
        return;
    if (__atomic_load_n(&a->line_of[loc->chunk], __ATOMIC_RELAXED))
        pgas_progress(); /* the grant has arrived, or will soon */
    else
        join(a, loc, op);
}
