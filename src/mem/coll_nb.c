/* Collectives with a counter. src/boot carries them out; it is below the counters. */
#include "boot/boot.h"
#include "base/sync.h"
#include "pgas/coll.h"

static void lower(void *sync, pgas_status_t status)
{
    pgasi_sync_lower(sync, status, -1, PGAS_OPERATION_COLLECTIVE, 0);
}

static pgas_status_t refused(pgas_sync_t *sync, int64_t before, pgas_status_t status)
{
    if (status != PGAS_OK)
        pgasi_sync_refuse(sync, before);
    return status;
}

pgas_status_t pgas_barrier_nb(pgas_team_t *team, pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    int64_t before = pgasi_sync_raise(sync);
    return refused(sync, before, pgasi_barrier_start(team, (pgasi_coll_end_t){ lower, sync }));
}

pgas_status_t pgas_broadcast_nb(pgas_team_t *team, void *buffer, size_t bytes, int root,
                                pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    int64_t before = pgasi_sync_raise(sync);
    pgasi_coll_end_t end = { lower, sync };
    return refused(sync, before, pgasi_broadcast_start(team, buffer, bytes, root, end));
}

pgas_status_t pgas_allreduce_nb(pgas_team_t *team, void *buffer, size_t n_elems, pgas_type_t type,
                                pgas_op_t op, pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    int64_t before = pgasi_sync_raise(sync);
    pgasi_coll_end_t end = { lower, sync };
    return refused(sync, before, pgasi_allreduce_start(team, buffer, n_elems, type, op, end));
}

pgas_status_t pgas_alltoallv_nb(pgas_team_t *team, const void *src, const size_t *src_bytes,
                                void *dst, const size_t *dst_bytes, pgas_sync_t *sync)
{
    if (!sync)
        return PGAS_ERR_INVALID;
    int64_t before = pgasi_sync_raise(sync);
    pgasi_coll_end_t end = { lower, sync };
    return refused(sync, before, pgasi_alltoallv_start(team, src, src_bytes, dst, dst_bytes, end));
}
