/* Invariants of all ranks together, for tests, at a moment when no message is under way. */
#include "array/audit.h"

#include <stdlib.h>

#include "array/protocol.h"
#include "array/sparse.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "pgas/coll.h"

typedef struct {
    uint64_t chunk;
    uint32_t state, op;
} held_t;

static uint64_t n_moving(const pgasi_array_t *a)
{
    uint64_t n = a->n_closing + pgasi_array_sparse_n_moving(a);
    for (uint64_t j = 0; j < a->n_home; j++)
        n += pgasi_array_is_transit(a->dir[j].state) || a->dir[j].first;
    for (uint32_t li = 0; li < a->n_lines; li++) {
        uint8_t state = a->line[li].state;
        n += state != PGASI_C_I && state != PGASI_C_S && state != PGASI_C_D && state != PGASI_C_O;
    }
    return n;
}

/* Waits until no rank has an operation under way, in two checks in a row. Then no message is
 * between two ranks either. */
static pgas_status_t come_to_rest(pgasi_array_t *a)
{
    pgas_status_t status = PGAS_OK;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    for (int quiet = 0; quiet < 2 && status == PGAS_OK;) {
        pgasi_path_state_t before = pgasi_serve_begin();
        pgasi_array_poll();
        pgasi_array_runs_split_all(a);
        uint64_t mine = n_moving(a), all;
        pgasi_serve_end(before);
        status = pgas_allreduce(a->team, &mine, &all, 1, PGAS_U64, PGAS_ADD);
        quiet = all ? 0 : quiet + 1;
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return status;
}

/* Whether the home's directory entry allows what rank r has. */
static bool agrees(const pgasi_array_t *a, const pgasi_array_dir_t *dir, int r, const held_t *held)
{
    bool listed = (dir->members & pgasi_array_bit_of(a, r)) != 0;
    switch (held->state) {
    case PGASI_C_S:
        return dir->state == PGASI_H_S && listed;
    case PGASI_C_D:
        return dir->state == PGASI_H_D && dir->owner == r;
    default:
        return dir->state == PGASI_H_O && listed && dir->op == held->op;
    }
}

/* Compares the cache lines that rank r reports with what this home knows. *n_owned_p counts those
 * of this home that are Dirty. */
static uint64_t compare(const pgasi_array_t *a, int r, const held_t *held, uint64_t n,
                        uint64_t *n_owned_p)
{
    uint64_t wrong = 0;
    for (uint64_t j = 0; j < n; j++) {
        pgasi_array_location_t loc;
        if (!pgasi_array_locate_chunk(&a->map, held[j].chunk, &loc)) {
            wrong++;
            continue;
        }
        if (loc.home != a->rank)
            continue;
        *n_owned_p += held[j].state == PGASI_C_D;
        wrong += !agrees(a, &a->dir[loc.index], r, &held[j]);
    }
    return wrong;
}

static uint64_t list(const pgasi_array_t *a, held_t *held)
{
    uint64_t n = 0;
    for (uint32_t li = 0; li < a->n_lines; li++) {
        const pgasi_array_cache_line_t *line = &a->line[li];
        if (line->state != PGASI_C_I)
            held[n++] = (held_t){ line->grant.now.chunk, line->state, line->op };
    }
    for (uint64_t block = 0; block < a->map.n_blocks; block++) {
        uint32_t op;
        if (pgasi_array_sparse_operates(a, block, &op))
            held[n++] = (held_t){ block, PGASI_C_O, op };
    }
    return n;
}

pgas_status_t pgasi_array_audit(pgas_array_t *array, uint64_t *n_wrong_p)
{
    pgasi_array_t *a = pgasi_array_of(array);
    uint64_t wrong = 0, n_owned = 0, most, mine = a->n_lines + a->map.n_blocks;
    pgas_status_t status = come_to_rest(a);
    if (status == PGAS_OK)
        status = pgas_allreduce(a->team, &mine, &most, 1, PGAS_U64, PGAS_MAX);
    held_t *held = status == PGAS_OK ? calloc(most + 1, sizeof *held) : NULL;
    if (!held)
        return status == PGAS_OK ? PGAS_ERR_NO_MEMORY : status;
    for (int r = 0; r < a->n_ranks && status == PGAS_OK; r++) {
        uint64_t n = r == a->rank ? list(a, held) : 0;
        status = pgas_broadcast(a->team, &n, sizeof n, r);
        if (status == PGAS_OK && n)
            status = pgas_broadcast(a->team, held, n * sizeof *held, r);
        wrong += compare(a, r, held, n, &n_owned);
    }
    free(held);
    for (uint64_t j = 0; j < a->n_home; j++) {
        wrong += !pgasi_array_home_is_sound(a, j);
        /* each Dirty chunk has exactly one owner that reports it */
        n_owned -= a->dir[j].state == PGASI_H_D;
    }
    for (uint32_t li = 0; li < a->n_lines; li++)
        wrong += !pgasi_array_cache_line_is_sound(a, li);
    *n_wrong_p = wrong + (n_owned != 0);
    return status;
}
