/* All arrays of this process. The team agrees on an array's number, which is unique on each of
 * its ranks. A message names its array by the number. */
#include "array/registry.h"

#include <inttypes.h>

#include "base/checks.h"
#include "base/log.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "call/progress.h"
#include "pgas/coll.h"

#define IDS       65536
#define IDS_ROUND 512 /* numbers are taken from this range first */

static struct {
    pgasi_array_t *array[IDS]; /* by number */
    uint32_t next;             /* where the search for a free number begins */
    uint32_t end;              /* numbers that have been used are below it */
    bool unfenced;             /* a chunk began to close since the last barrier */
} all;

pgasi_array_t *pgasi_array_find(uint32_t id)
{
    return id < IDS ? __atomic_load_n(&all.array[id], __ATOMIC_ACQUIRE) : NULL;
}

uint32_t pgasi_array_ids_end(void)
{
    return all.end;
}

void pgasi_array_ids_reset(void)
{
    for (uint32_t id = 1; id < all.end; id++)
        all.array[id] = NULL;
    all.next = all.end = 1;
}

void pgasi_array_add(pgasi_array_t *a)
{
    all.end = PGASI_MAX(all.end, a->id + 1);
    __atomic_store_n(&all.array[a->id], a, __ATOMIC_RELEASE);
}

void pgasi_array_remove(const pgasi_array_t *a)
{
    __atomic_store_n(&all.array[a->id], NULL, __ATOMIC_RELEASE);
}

/* The first free number from `from` on, else from 1 on; IDS: none is free. */
static uint32_t free_id(uint32_t from)
{
    for (uint32_t id = from; id < IDS; id++)
        if (!all.array[id])
            return id;
    for (uint32_t id = 1; id < IDS; id++)
        if (!all.array[id])
            return id;
    return IDS;
}

/* Each round takes the greatest proposal, until no rank uses it. Numbers cycle within the
 * table's first page, so a number is not reused soon, and the table does not grow with every new
 * array. */
static pgas_status_t agree(pgas_team_t *team, uint32_t *id_p)
{
    uint32_t from = all.next;
    for (int rounds = 0; rounds < IDS; rounds++) {
        uint32_t mine = free_id(from), greatest;
        pgas_status_t status = pgas_allreduce(team, &mine, &greatest, 1, PGAS_U32, PGAS_MAX);
        if (status != PGAS_OK)
            return status;
        if (greatest >= IDS)
            return PGAS_ERR_LIMIT;
        uint32_t taken = all.array[greatest] != NULL, any;
        status = pgas_allreduce(team, &taken, &any, 1, PGAS_U32, PGAS_MAX);
        if (status != PGAS_OK)
            return status;
        if (!any) {
            *id_p = greatest;
            all.next = greatest + 1 < IDS_ROUND ? greatest + 1 : 1;
            return PGAS_OK;
        }
        from = greatest + 1 < IDS ? greatest + 1 : 1;
    }
    return PGAS_ERR_LIMIT;
}

pgas_status_t pgasi_array_agree_on_id(pgas_team_t *team, uint32_t *id_p)
{
    pgas_status_t status = agree(team, id_p);
    if (status == PGAS_ERR_LIMIT)
        PGASI_ERROR("array", "%d arrays are live: there are no more numbers", IDS - 1);
    return status;
}

bool pgasi_array_is_broken(const pgasi_array_t *a)
{
    for (int r = 0; r < a->n_ranks; r++)
        if (pgasi_boot_is_dead(a->global[r]))
            return true;
    return false;
}

_Noreturn void pgasi_array_broken(const pgasi_array_t *a, const char *where, uint64_t chunk,
                                  int state, int event)
{
    PGASI_ERROR("array",
                "array %" PRIu32 ", %s chunk %" PRIu64
                ": state %s, event %s: this cannot happen, please report",
                a->id, where, chunk, pgasi_array_state_name((pgasi_array_state_t)state),
                pgasi_array_event_name((pgasi_array_event_t)event));
    pgasi_boot_abort(1);
}

void pgasi_array_second_thread(void)
{
    pgasi_path_state_t before = pgasi_serve_begin();
    for (uint32_t id = 1; id < all.end; id++) {
        pgasi_array_t *a = all.array[id];
        for (uint64_t c = 0; a && c <= a->map.n_elems >> a->pub.shift; c++)
            __atomic_store_n(&a->peer[a->rank].readable[c], 0, __ATOMIC_RELEASE);
    }
    pgasi_serve_end(before);
}

/* ---- rounds of progress ---- */

void pgasi_array_poll_soon(void)
{
    all.unfenced = true;
    pgasi_hooks_want_poll(PGASI_LAYER_ARRAY, true);
}

bool pgasi_array_poll_is_due(void)
{
    bool due = all.unfenced;
    all.unfenced = false;
    return due;
}

void pgasi_array_poll_stop(void)
{
    if (!all.unfenced)
        pgasi_hooks_want_poll(PGASI_LAYER_ARRAY, false);
}
