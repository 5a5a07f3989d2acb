/* Submitting operations. Each is cut into pieces. A piece is copied into the window, so that it can
 * be sent again after a failure, and the caller's bytes can be reused. Pieces are sent in
 * batches. */
#include <string.h>
#include "base/checks.h"
#include "group/client.h"

#define BATCH 32u /* pieces between two sends */

/* Pieces of an operation; none if it has no bytes. */
static uint64_t n_pieces_of(const pgas_group_t *g, const pgas_group_op_t *op)
{
    return op->kind == PGAS_GROUP_CAS ? 1 : PGASI_DIV_UP(op->bytes, g->piece_bytes);
}

/* Checks all operations. n_pieces_p: of all of them; n_ops_p: those that have pieces */
static pgas_status_t check(const pgas_group_t *g, const pgas_group_op_t *ops, size_t n,
                           uint64_t *n_pieces_p, int64_t *n_ops_p)
{
    *n_pieces_p = 0;
    *n_ops_p = 0;
    for (size_t i = 0; i < n; i++) {
        pgas_status_t status = pgasi_group_check(&ops[i], g->region_bytes, g->n);
        if (status != PGAS_OK)
            return status;
        uint64_t n_pieces = n_pieces_of(g, &ops[i]);
        *n_pieces_p += n_pieces;
        *n_ops_p += n_pieces > 0;
    }
    return PGAS_OK;
}

/* Whether the pieces may be submitted, with a wait if there is no room. */
static pgas_status_t admit(pgas_group_t *g, uint64_t n_pieces, bool waits)
{
    if (g->condition == PGASI_GROUP_BROKEN)
        return PGAS_ERR_PEER;
    if (n_pieces <= pgasi_group_window_room(&g->window))
        return PGAS_OK;
    if (waits)
        return pgasi_sync_check_wait();
    if (n_pieces > g->window.size)
        return PGAS_ERR_LIMIT;
    pgasi_group_progress(g);
    return n_pieces <= pgasi_group_window_room(&g->window) ? PGAS_OK : PGAS_ERR_AGAIN;
}

static void push(pgas_group_t *g, const pgas_group_op_t *op, uint64_t *done, pgas_sync_t *sync)
{
    pgasi_group_slot_t *slot = pgasi_group_window_push(&g->window);
    uint64_t bytes = pgasi_group_cut(op, *done, g->piece_bytes, &slot->piece);
    if (op->kind == PGAS_GROUP_WRITE)
        memcpy((char *)g->data_mem.addr + (size_t)(slot - g->window.slots) * g->piece_bytes,
               (const char *)op->u.data + *done, bytes);
    slot->n_old = PGASI_MIN(g->n, g->n_told);
    if (op->kind == PGAS_GROUP_CAS)
        slot->old = op->u.cas.old;
    *done += bytes;
    slot->is_last = op->kind == PGAS_GROUP_CAS || *done == op->bytes;
    slot->sync = slot->is_last ? sync : NULL;
}

static void send(pgas_group_t *g)
{
    if (g->condition == PGASI_GROUP_RUNS)
        g->carrier->send(g);
}

/* Pushes all operations. A wait ends when a quarter of the window is free, so that batches stay
 * large.
 * @param n_pushed_p  operations that are in the window with all their pieces */
static pgas_status_t push_all(pgas_group_t *g, const pgas_group_op_t *ops, size_t n,
                              uint64_t n_pieces, pgas_sync_t *sync, int64_t *n_pushed_p)
{
    const uint32_t quarter = PGASI_MAX(g->window.size / 4, 1u);
    uint32_t n_waiting = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t n_of_op = n_pieces_of(g, &ops[i]), done = 0;
        for (uint64_t k = 0; k < n_of_op; k++, n_pieces--) {
            if (pgasi_group_window_room(&g->window) == 0) {
                send(g);
                n_waiting = 0;
                pgas_status_t status =
                    pgasi_group_await_room(g, (uint32_t)PGASI_MIN(n_pieces, (uint64_t)quarter));
                if (status != PGAS_OK)
                    return status;
            }
            push(g, &ops[i], &done, sync);
            if (++n_waiting == BATCH) {
                send(g);
                n_waiting = 0;
            }
        }
        *n_pushed_p += n_of_op > 0;
        g->n_ops += n_of_op == 0;
    }
    send(g);
    return PGAS_OK;
}

/* With the turn and the lock. */
static pgas_status_t submit_locked(pgas_group_t *g, const pgas_group_op_t *ops, size_t n,
                                   pgas_sync_t *sync, bool waits)
{
    uint64_t n_pieces;
    int64_t n_ops, n_pushed = 0, before = 0;
    pgas_status_t status = check(g, ops, n, &n_pieces, &n_ops);
    if (status == PGAS_OK)
        status = admit(g, n_pieces, waits);
    if (status != PGAS_OK)
        return status;
    if (sync != NULL)
        before = __atomic_fetch_add(&sync->count, n_ops, __ATOMIC_RELAXED);
    status = push_all(g, ops, n, n_pieces, sync, &n_pushed);
    if (status == PGAS_OK || sync == NULL)
        return status;
    pgasi_group_unlock(g);
    for (int64_t i = n_pushed; i < n_ops; i++)
        pgasi_sync_refuse(sync, before + n_pushed);
    pgasi_group_lock(g);
    return status;
}

static pgas_status_t submit(pgas_group_t *g, const pgas_group_op_t *ops, size_t n,
                            pgas_sync_t *sync, bool waits)
{
    if (!g->is_client)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_group_take_turn(g);
    if (status != PGAS_OK)
        return waits ? status : PGAS_ERR_AGAIN;
    pgasi_group_lock(g);
    status = submit_locked(g, ops, n, sync, waits);
    pgasi_group_unlock(g);
    pgasi_group_give_turn(g);
    return status;
}

pgas_status_t pgas_group_submit(pgas_group_t *group, const pgas_group_op_t *ops, size_t n,
                                pgas_sync_t *sync)
{
    if (!group || (!ops && n > 0))
        return PGAS_ERR_INVALID;
    return submit(group, ops, n, sync, group->full == PGAS_GROUP_FULL_WAIT);
}

/* ---- single operations ---- */

static pgas_status_t run(pgas_group_t *group, const pgas_group_op_t *op)
{
    pgas_sync_t sync = PGAS_SYNC_INIT;
    if (!group)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_sync_check_wait();
    if (status == PGAS_OK)
        status = submit(group, op, 1, &sync, true);
    return status == PGAS_OK ? pgasi_sync_wait_own(&sync) : status;
}

pgas_status_t pgas_group_write(pgas_group_t *group, uint64_t offset, const void *data, size_t bytes)
{
    const pgas_group_op_t op = PGAS_GWRITE(offset, data, bytes);
    return run(group, &op);
}

pgas_status_t pgas_group_memcpy(pgas_group_t *group, uint64_t dst, uint64_t src, uint64_t bytes)
{
    const pgas_group_op_t op = PGAS_GMEMCPY(dst, src, bytes);
    return run(group, &op);
}

pgas_status_t pgas_group_cas(pgas_group_t *group, uint64_t offset, uint64_t expected,
                             uint64_t desired, uint64_t execute_map, uint64_t *old_p)
{
    const pgas_group_op_t op = PGAS_GCAS(offset, expected, desired, execute_map, old_p);
    return run(group, &op);
}

pgas_status_t pgas_group_flush(pgas_group_t *group, uint64_t offset, uint64_t bytes)
{
    const pgas_group_op_t op = PGAS_GFLUSH(offset, bytes);
    return run(group, &op);
}
