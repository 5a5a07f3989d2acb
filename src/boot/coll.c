/* The public collectives: argument checks, and the paths of the data.
 *
 * A team on one node never calls MPI. Over several nodes barrier, broadcast, reduce and allreduce
 * have two levels: the board within the node, MPI among the leaders (member 0 of each node). They
 * proceed in chunks, so that memory stays bounded and the levels overlap. The leaders' reduction is
 * an allgather and a combination in the order of nodes. Above SMALL bytes in total each leader
 * combines one share, after an all-to-all (a reduce-scatter). Exclusive scans do the same over all
 * ranks, whose order may differ from that of nodes. Gather, allgather and all-to-all over several
 * nodes are MPI's, over all ranks. */
#include "boot/internal.h"
#include "boot/hooks.h"

#include <string.h>

#include "base/log.h"

#define SMALL ((size_t)64 << 10)

typedef struct {
    pgas_type_t type;
    size_t bytes; /* of one share */
    pgasi_combine_fn_t combine;
} elem_t;

static bool leads(const pgas_team_t *team)
{
    return team->board.me == 0;
}

/* ---- barrier and broadcast ---- */

pgas_status_t pgasi_coll_barrier(pgas_team_t *team)
{
    if (PGAS_LIKELY(team->n_nodes == 1))
        return team->board.n == 1 ? PGAS_OK : pgasi_board_barrier(&team->board);
    pgas_status_t status = pgasi_board_arrive(&team->board);
    if (status == PGAS_OK && leads(team))
        status = pgasi_between_barrier(team, team->leaders);
    return status != PGAS_OK ? status : pgasi_board_release(&team->board);
}

/* On the root's node all members read from the root. On other nodes they read from their leader,
 * which has the data from the root's leader. */
static pgas_status_t broadcast_chunk(pgas_team_t *team, char *at, size_t bytes, int root)
{
    int root_node = team->node_index_of[root];
    bool here = root_node == team->node_index;
    pgas_status_t status =
        here ? pgasi_board_broadcast(&team->board, at, bytes, team->local_of[root]) : PGAS_OK;
    if (status == PGAS_OK && leads(team))
        status = pgasi_between_broadcast(team, team->leaders, at, bytes, root_node);
    if (status == PGAS_OK && !here)
        status = pgasi_board_broadcast(&team->board, at, bytes, 0);
    return status;
}

pgas_status_t pgasi_coll_broadcast(pgas_team_t *team, void *buffer, size_t bytes, int root)
{
    if (team->n_nodes == 1)
        return pgasi_board_broadcast(&team->board, buffer, bytes, root);
    pgas_status_t status = PGAS_OK;
    for (size_t done = 0; status == PGAS_OK && done < bytes; done += PGASI_TEAM_CHUNK)
        status = broadcast_chunk(team, (char *)buffer + done,
                                 PGASI_MIN(PGASI_TEAM_CHUNK, bytes - done), root);
    return status;
}

/* ---- reductions ---- */

/* Combines n blocks of n_elems, in order; the result is in blocks[0]. */
static void combine_blocks(unsigned char *blocks, int n, size_t n_elems, const elem_t *e)
{
    for (int i = 1; i < n; i++)
        e->combine(blocks, blocks + (size_t)i * n_elems * e->bytes, n_elems);
}

/* Puts this rank's share of the combination of all leaders' n_elems at the start of the second
 * scratch buffer. It returns the number of elements of a share (the last ones may be padding). */
static pgas_status_t combine_share(pgas_team_t *team, const void *mine, size_t n_elems,
                                   const elem_t *e, size_t *share_p)
{
    unsigned char *padded = team->scratch, *blocks = padded + team->scratch_bytes;
    size_t n = (size_t)team->n_nodes, share = PGASI_DIV_UP(n_elems, n);
    memcpy(padded, mine, n_elems * e->bytes);
    memset(padded + n_elems * e->bytes, 0, (share * n - n_elems) * e->bytes);
    pgas_status_t status =
        pgasi_between_alltoall(team, team->leaders, padded, blocks, share * e->bytes);
    if (status == PGAS_OK)
        combine_blocks(blocks, team->n_nodes, share, e);
    *share_p = share;
    return status;
}

/* Replaces the leaders' data by their combination, in place. Leaders only, at most one chunk. */
static pgas_status_t allreduce_leaders(pgas_team_t *team, void *data, size_t n_elems,
                                       const elem_t *e)
{
    unsigned char *blocks = team->scratch, *shares = blocks + team->scratch_bytes;
    size_t bytes = n_elems * e->bytes, share = n_elems;
    pgas_status_t status;
    if (bytes * (size_t)team->n_nodes <= SMALL) {
        status = pgasi_between_allgather(team, team->leaders, data, blocks, bytes);
        if (status == PGAS_OK)
            combine_blocks(blocks, team->n_nodes, n_elems, e);
    } else {
        status = combine_share(team, data, n_elems, e, &share);
        if (status == PGAS_OK)
            status = pgasi_between_allgather(team, team->leaders, shares, blocks, share * e->bytes);
    }
    if (status == PGAS_OK)
        memcpy(data, blocks, bytes);
    return status;
}

/* As above, but only the leader of root_node gets the result, in its data. Leaders only. */
static pgas_status_t reduce_leaders(pgas_team_t *team, void *data, size_t n_elems, const elem_t *e,
                                    int root_node)
{
    unsigned char *blocks = team->scratch, *shares = blocks + team->scratch_bytes;
    size_t bytes = n_elems * e->bytes, share = n_elems;
    bool at_root = team->node_index == root_node;
    pgas_status_t status;
    if (bytes * (size_t)team->n_nodes <= SMALL) {
        status = pgasi_between_gather(team, team->leaders, data, blocks, bytes, root_node);
        if (status == PGAS_OK && at_root)
            combine_blocks(blocks, team->n_nodes, n_elems, e);
    } else {
        status = combine_share(team, data, n_elems, e, &share);
        if (status == PGAS_OK)
            status = pgasi_between_gather(team, team->leaders, shares, blocks, share * e->bytes,
                                          root_node);
    }
    if (status == PGAS_OK && at_root)
        memcpy(data, blocks, bytes);
    return status;
}

static pgas_status_t allreduce_chunk(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                     const elem_t *e)
{
    pgas_status_t status =
        pgasi_board_reduce(&team->board, src, dst, n_elems, e->bytes, e->combine, 0);
    if (status == PGAS_OK && leads(team))
        status = allreduce_leaders(team, dst, n_elems, e);
    return status != PGAS_OK ? status
                             : pgasi_board_broadcast(&team->board, dst, n_elems * e->bytes, 0);
}

/* The leader of the root's node makes the result, and passes it on if it is not the root. */
static pgas_status_t reduce_chunk(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                  const elem_t *e, int root)
{
    void *sum = team->rank == root ? dst : team->scratch + 2 * team->scratch_bytes;
    int root_node = team->node_index_of[root];
    pgas_status_t status = pgasi_board_reduce(&team->board, src, leads(team) ? sum : NULL, n_elems,
                                              e->bytes, e->combine, 0);
    if (status == PGAS_OK && leads(team))
        status = reduce_leaders(team, sum, n_elems, e, root_node);
    if (status == PGAS_OK && root_node == team->node_index && team->local_of[root] != 0)
        status = pgasi_board_broadcast(&team->board, leads(team) || team->rank == root ? sum : NULL,
                                       n_elems * e->bytes, 0);
    return status;
}

static pgas_status_t coll_reduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                 const elem_t *e, int root)
{
    if (team->n_nodes == 1)
        return pgasi_board_reduce(&team->board, src, dst, n_elems, e->bytes, e->combine, root);
    size_t piece = PGASI_TEAM_CHUNK / e->bytes;
    pgas_status_t status = PGAS_OK;
    for (size_t done = 0; status == PGAS_OK && done < n_elems; done += piece) {
        size_t at = done * e->bytes;
        status =
            reduce_chunk(team, (const char *)src + at, team->rank == root ? (char *)dst + at : NULL,
                         PGASI_MIN(piece, n_elems - done), e, root);
    }
    return status;
}

pgas_status_t pgasi_coll_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op)
{
    elem_t e = { type, pgasi_type_bytes(type), pgasi_combine_of(type, op) };
    if (PGAS_LIKELY(team->n_nodes == 1 && team->board.n > 1))
        return pgasi_board_allreduce(&team->board, src, dst, n_elems, e.bytes, e.combine);
    if (team->size == 1) {
        if (n_elems > 0)
            memmove(dst, src, n_elems * e.bytes);
        return PGAS_OK;
    }
    size_t piece = PGASI_TEAM_CHUNK / e.bytes;
    pgas_status_t status = PGAS_OK;
    for (size_t done = 0; status == PGAS_OK && done < n_elems; done += piece) {
        size_t at = done * e.bytes;
        status = allreduce_chunk(team, (const char *)src + at, (char *)dst + at,
                                 PGASI_MIN(piece, n_elems - done), &e);
    }
    return status;
}

/* Small data: each rank gets the data of all, and combines those of lower ranks in order. */
static pgas_status_t exscan_small(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                  const elem_t *e)
{
    size_t bytes = n_elems * e->bytes;
    pgas_status_t status = pgasi_between_allgather(team, team->comm, src, team->scratch, bytes);
    if (status == PGAS_OK && team->rank > 0) {
        combine_blocks(team->scratch, team->rank, n_elems, e);
        memcpy(dst, team->scratch, bytes);
    }
    return status;
}

/* blocks[r] of n becomes the combination of blocks 0 .. r-1; blocks[0] becomes undefined. `sum` and
 * `block` are scratch memory. */
static void scan_blocks(unsigned char *blocks, int n, size_t n_elems, const elem_t *e,
                        unsigned char *sum, unsigned char *block)
{
    size_t bytes = n_elems * e->bytes;
    memcpy(sum, blocks, bytes);
    for (int i = 1; i < n; i++) {
        unsigned char *at = blocks + (size_t)i * bytes;
        memcpy(block, at, bytes);
        memcpy(at, sum, bytes);
        e->combine(sum, block, n_elems);
    }
}

/* Large data: an all-to-all gives each rank one share of all data. The rank scans its share, and a
 * second all-to-all returns the results. */
static pgas_status_t exscan_chunk(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                  const elem_t *e)
{
    unsigned char *padded = team->scratch, *blocks = padded + team->scratch_bytes,
                  *room = blocks + team->scratch_bytes;
    size_t n = (size_t)team->size, share = PGASI_DIV_UP(n_elems, n), bytes = n_elems * e->bytes;
    memcpy(padded, src, bytes);
    memset(padded + bytes, 0, share * n * e->bytes - bytes);
    pgas_status_t status =
        pgasi_between_alltoall(team, team->comm, padded, blocks, share * e->bytes);
    if (status != PGAS_OK)
        return status;
    scan_blocks(blocks, team->size, share, e, room, room + share * e->bytes);
    status = pgasi_between_alltoall(team, team->comm, blocks, padded, share * e->bytes);
    if (status == PGAS_OK)
        memcpy(dst, padded, bytes);
    return status;
}

static pgas_status_t exscan_large(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                  const elem_t *e)
{
    size_t piece = PGASI_TEAM_CHUNK / e->bytes;
    pgas_status_t status = PGAS_OK;
    for (size_t done = 0; status == PGAS_OK && done < n_elems; done += piece) {
        size_t at = done * e->bytes;
        status = exscan_chunk(team, (const char *)src + at, (char *)dst + at,
                              PGASI_MIN(piece, n_elems - done), e);
    }
    return status;
}

static pgas_status_t coll_exscan(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                 const elem_t *e, pgas_op_t op)
{
    pgas_status_t status;
    if (team->n_nodes == 1)
        status = pgasi_board_exscan(&team->board, src, dst, n_elems, e->bytes, e->combine);
    else if (n_elems * e->bytes * (size_t)team->size <= SMALL)
        status = exscan_small(team, src, dst, n_elems, e);
    else
        status = exscan_large(team, src, dst, n_elems, e);
    if (status == PGAS_OK && team->rank == 0)
        pgasi_fill_neutral(dst, n_elems, e->type, op);
    return status;
}

/* ---- blocks of bytes ---- */

pgas_status_t pgasi_coll_allgather(pgas_team_t *team, const void *src, void *dst, size_t bytes)
{
    return team->n_nodes == 1 ? pgasi_board_allgather(&team->board, src, dst, bytes)
                              : pgasi_between_allgather(team, team->comm, src, dst, bytes);
}

/* ---- the public functions ---- */

static inline pgas_status_t enter(pgas_team_t **team_io)
{
    pgas_team_t *team = *team_io != NULL ? *team_io : pgasi_team_world();
    if (PGAS_UNLIKELY(!pgasi_team_world()))
        return PGAS_ERR_NOT_INIT;
    if (PGAS_UNLIKELY(pgasi_boot.funneled) && !pgasi_launch_may_call())
        return PGAS_ERR_CONTEXT;
    *team_io = team;
    return pgasi_hooks.may_enter ? pgasi_hooks.may_enter() : PGAS_OK;
}

pgas_status_t pgasi_coll_enter(pgas_team_t **team_io)
{
    return enter(team_io);
}

/* A team whose last collective was given up starts no further one. A member that still waits in
 * that collective would receive the messages of the new one as its own. */
static inline pgas_status_t enter_whole(pgas_team_t **team_io)
{
    pgas_status_t status = enter(team_io);
    return status == PGAS_OK && PGAS_UNLIKELY((*team_io)->broken) ? PGAS_ERR_PEER : status;
}

pgas_status_t pgasi_boot_enter(void)
{
    pgas_team_t *world = NULL;
    return enter_whole(&world);
}

static bool has_rank(const pgas_team_t *team, int rank)
{
    return rank >= 0 && rank < team->size;
}

/* The common part of reductions. */
static pgas_status_t check_elems(const void *src, size_t n_elems, pgas_type_t type, pgas_op_t op,
                                 elem_t *e)
{
    *e = (elem_t){ type, pgasi_type_bytes(type), pgasi_combine_of(type, op) };
    if (e->bytes == 0 || (n_elems > 0 && !src) || n_elems > SIZE_MAX / e->bytes)
        return PGAS_ERR_INVALID;
    return e->combine ? PGAS_OK : PGAS_ERR_UNSUPPORTED;
}

pgas_status_t pgas_barrier(pgas_team_t *team)
{
    pgas_status_t status = enter_whole(&team);
    return PGAS_LIKELY(status == PGAS_OK) ? pgasi_coll_barrier(team) : status;
}

pgas_status_t pgas_broadcast(pgas_team_t *team, void *buffer, size_t bytes, int root)
{
    pgas_status_t status = enter_whole(&team);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (!has_rank(team, root) || (bytes > 0 && !buffer))
        return PGAS_ERR_INVALID;
    return pgasi_coll_broadcast(team, buffer, bytes, root);
}

pgas_status_t pgas_reduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                          pgas_type_t type, pgas_op_t op, int root)
{
    elem_t e;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_elems(src, n_elems, type, op, &e);
    if (status != PGAS_OK)
        return status;
    if (!has_rank(team, root) || (n_elems > 0 && team->rank == root && !dst))
        return PGAS_ERR_INVALID;
    return coll_reduce(team, src, dst, n_elems, &e, root);
}

pgas_status_t pgas_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                             pgas_type_t type, pgas_op_t op)
{
    elem_t e;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_elems(src, n_elems, type, op, &e);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(n_elems > 0 && !dst))
        return PGAS_ERR_INVALID;
    return pgasi_coll_allreduce(team, src, dst, n_elems, type, op);
}

pgas_status_t pgas_exscan(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                          pgas_type_t type, pgas_op_t op)
{
    elem_t e;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_elems(src, n_elems, type, op, &e);
    if (status != PGAS_OK)
        return status;
    return n_elems > 0 && !dst ? PGAS_ERR_INVALID : coll_exscan(team, src, dst, n_elems, &e, op);
}

pgas_status_t pgas_gather(pgas_team_t *team, const void *src, void *dst, size_t bytes, int root)
{
    pgas_status_t status = enter_whole(&team);
    if (status != PGAS_OK)
        return status;
    if (!has_rank(team, root) || (bytes > 0 && (!src || (team->rank == root && !dst))))
        return PGAS_ERR_INVALID;
    return team->n_nodes == 1 ? pgasi_board_gather(&team->board, src, dst, bytes, root)
                              : pgasi_between_gather(team, team->comm, src, dst, bytes, root);
}

pgas_status_t pgas_allgather(pgas_team_t *team, const void *src, void *dst, size_t bytes)
{
    pgas_status_t status = enter_whole(&team);
    if (status != PGAS_OK)
        return status;
    return bytes > 0 && (!src || !dst) ? PGAS_ERR_INVALID
                                       : pgasi_coll_allgather(team, src, dst, bytes);
}

pgas_status_t pgas_alltoall(pgas_team_t *team, const void *src, void *dst, size_t bytes)
{
    pgas_status_t status = enter_whole(&team);
    if (status != PGAS_OK)
        return status;
    if (bytes > 0 && (!src || !dst))
        return PGAS_ERR_INVALID;
    return team->n_nodes == 1 ? pgasi_board_alltoall(&team->board, src, dst, bytes)
                              : pgasi_between_alltoall(team, team->comm, src, dst, bytes);
}
