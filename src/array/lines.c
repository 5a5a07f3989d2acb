/* Cache lines: taking them, giving them back, and where their elements are. */
#include "array/lines.h"

#include <string.h>

#include "array/array.h"
#include "array/policy.h"
#include "array/sparse.h"
#include "base/checks.h"
#include "base/clock.h"

#define JOIN_NS_MIN    (500 * UINT64_C(1000)) /* some ten times the cost of a join and its end */
#define JOIN_SHIFT_MAX 6u
#define NO_CHUNK       UINT64_MAX
#define RESERVED       16 /* one line of so many is for accesses that wait for it */

void pgasi_array_lines_start(pgasi_array_t *a)
{
    a->first_free = PGASI_ARRAY_NONE;
    for (uint32_t li = a->n_lines; li-- > 0;) {
        memset(&a->line[li], 0, sizeof a->line[li]);
        a->line[li].state = PGASI_C_I;
        a->line[li].next_free = a->first_free;
        a->first_free = li;
    }
    a->n_free = a->n_lines;
}

uint32_t pgasi_array_line_find(const pgasi_array_t *a, uint64_t chunk)
{
    return a->line_of[chunk] - 1; /* 0 gives PGASI_ARRAY_NONE */
}

uint32_t pgasi_array_lines_ahead(const pgasi_array_t *a)
{
    uint32_t reserved = a->fits ? 0 : PGASI_MAX(a->n_lines / RESERVED, 1u);
    return a->n_free - PGASI_MIN(reserved, a->n_free);
}

static bool is_near(const pgasi_array_t *a, const pgasi_array_cache_line_t *line)
{
    return a->n_near_max && a->node_rank[line->home] >= 0;
}

uint32_t pgasi_array_line_take(pgasi_array_t *a, const pgasi_array_location_t *loc, bool in_run)
{
    uint64_t chunk = loc->chunk;
    uint32_t li = a->first_free;
    if (li == PGASI_ARRAY_NONE)
        return li;
    if (a->sparse && chunk < a->map.n_blocks && pgasi_array_sparse_read(a->sparse, chunk))
        pgasi_array_sparse_end(a, chunk, false);
    pgasi_array_cache_line_t *line = &a->line[li];
    a->first_free = line->next_free;
    a->n_free--;
    line->home = loc->home;
    a->n_near += is_near(a, line);
    if (in_run)
        pgasi_array_grant_renew(&line->grant, NO_CHUNK, 0, PGASI_ARRAY_NOTHING);
    else
        pgasi_array_line_renew(a, li, chunk, PGASI_ARRAY_NOTHING);
    line->state = PGASI_C_I;
    line->leaving = false;
    line->data = pgasi_array_line_memory(a, li);
    line->waiting = (pgasi_array_queue_t){ NULL, NULL };
    __atomic_store_n(&a->line_of[chunk], li + 1, __ATOMIC_RELEASE);
    return li;
}

/* Contributions cost as much as many atomic instructions if reads end them soon. */
static void note_join_end(pgasi_array_t *a, const pgasi_array_cache_line_t *line)
{
    bool soon = pgasi_now_ns() - line->joined_ns < JOIN_NS_MIN;
    uint32_t shift =
        soon ? PGASI_MIN(a->join_shift + 1, JOIN_SHIFT_MAX) : a->join_shift - (a->join_shift > 0);
    __atomic_store_n(&a->join_shift, shift, __ATOMIC_RELAXED);
}

void pgasi_array_line_free(pgasi_array_t *a, uint32_t li, uint64_t chunk)
{
    pgasi_array_cache_line_t *line = &a->line[li];
    __atomic_store_n(&a->line_of[chunk], 0, __ATOMIC_RELEASE);
    if (line->grant.now.chunk == chunk)
        *pgasi_array_heat_of(a, chunk) = line->grant.now.heat;
    /* the grant permits nothing, and line_take renews it */
    line->next_free = a->first_free;
    a->first_free = li;
    a->n_free++;
    if (is_near(a, line)) {
        a->n_near--;
        note_join_end(a, line);
    }
}

void pgasi_array_line_renew(pgasi_array_t *a, uint32_t li, uint64_t chunk,
                            pgasi_array_permit_t permits)
{
    pgasi_array_grant_renew(&a->line[li].grant, chunk, *pgasi_array_heat_of(a, chunk), permits);
}

char *pgasi_array_line_memory(const pgasi_array_t *a, uint32_t li)
{
    return a->line_data + (uint64_t)li * a->stride;
}
