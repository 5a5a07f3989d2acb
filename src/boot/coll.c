/* The public collectives: argument checks, and the paths of the data.
 *
 * A team on one node never calls MPI. Over several nodes barrier, broadcast, reduce and allreduce
 * have two levels: the board within the node, MPI among the leaders (member 0 of each node). They
 * proceed in chunks, so that memory stays bounded and the levels overlap. The leaders' reduction is
 * an allgather and a combination in the order of nodes. Above SMALL bytes in total each leader
 * combines one share, after an all-to-all (a reduce-scatter). Reductions by operators of the
 * program do the same over all ranks if their order differs from that of nodes. Scans pass pieces
 * from rank to rank. Gather, allgather and all-to-all over several nodes are MPI's, over all ranks;
 * blocks of any sizes are messages between ranks (coll_nb.c). */
#include "boot/internal.h"
#include "boot/hooks.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define SMALL ((size_t)64 << 10)

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

/* The ranks between which MPI carries a reduction: the leaders, or all members. */
typedef struct {
    pgas_team_t *team;
    MPI_Comm comm;
    int n, me;
    const pgas_op_def_t *def;
} among_t;

static among_t among_leaders(pgas_team_t *team, const pgas_op_def_t *def)
{
    return (among_t){ team, team->leaders, team->n_nodes, team->node_index, def };
}

static among_t among_all(pgas_team_t *team, const pgas_op_def_t *def)
{
    return (among_t){ team, team->comm, team->size, team->rank, def };
}

/* Whether the leaders may combine the results of their nodes. Operators of the program need the
 * order of ranks, so the ranks of each node must be consecutive. */
static bool by_leaders(const pgas_team_t *team, const pgas_op_def_t *def)
{
    return team->in_order || pgasi_op_commutes(def);
}

/* Grows the scratch memory, so that the shares of a chunk fit. Collective. */
static pgas_status_t reserve(pgas_team_t *team, const pgas_op_def_t *def)
{
    size_t bytes = PGASI_TEAM_CHUNK + (size_t)team->size * def->operand_bytes;
    if (PGAS_LIKELY(bytes <= team->scratch_bytes))
        return PGAS_OK;
    unsigned char *scratch = malloc(3 * bytes);
    int32_t worst = scratch ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgasi_coll_allreduce(team, &worst, &worst, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK)
        status = (pgas_status_t)worst;
    if (status != PGAS_OK) {
        free(scratch);
        return status;
    }
    free(team->scratch);
    team->scratch = scratch;
    team->scratch_bytes = bytes;
    return PGAS_OK;
}

/* Combines n blocks of n_elems, in order; the result is in blocks[0]. */
static void combine_blocks(unsigned char *blocks, int n, size_t n_elems, const pgas_op_def_t *def)
{
    for (int i = 1; i < n; i++)
        pgasi_op_combine_run(def, blocks, blocks + (size_t)i * n_elems * def->operand_bytes,
                             n_elems);
}

/* Gives each rank one share of everybody's n_elems: block r of `blocks` is from rank r. It returns
 * the number of elements of a share; the last ones may be identities. */
static pgas_status_t spread_shares(const among_t *g, const void *mine, size_t n_elems,
                                   unsigned char *padded, unsigned char *blocks, size_t *share_p)
{
    size_t n = (size_t)g->n, bytes = g->def->operand_bytes, share = PGASI_DIV_UP(n_elems, n);
    memcpy(padded, mine, n_elems * bytes);
    pgasi_op_fill_identity(g->def, padded + n_elems * bytes, share * n - n_elems);
    *share_p = share;
    return pgasi_between_alltoall(g->team, g->comm, padded, blocks, share * bytes);
}

/* Puts this rank's share of the combination at the start of the second scratch buffer. */
static pgas_status_t combine_share(const among_t *g, const void *mine, size_t n_elems,
                                   size_t *share_p)
{
    unsigned char *blocks = g->team->scratch + g->team->scratch_bytes;
    pgas_status_t status = spread_shares(g, mine, n_elems, g->team->scratch, blocks, share_p);
    if (status == PGAS_OK)
        combine_blocks(blocks, g->n, *share_p, g->def);
    return status;
}

/* Whether each rank combines the data of all, instead of one share of them. */
static bool is_small(const among_t *g, size_t bytes)
{
    return bytes * (size_t)g->n <= SMALL;
}

/* Replaces the data by their combination, in place. At most one chunk. */
static pgas_status_t allreduce_among(const among_t *g, void *data, size_t n_elems)
{
    unsigned char *blocks = g->team->scratch, *shares = blocks + g->team->scratch_bytes;
    size_t bytes = n_elems * g->def->operand_bytes, share = n_elems;
    pgas_status_t status;
    if (is_small(g, bytes)) {
        status = pgasi_between_allgather(g->team, g->comm, data, blocks, bytes);
        if (status == PGAS_OK)
            combine_blocks(blocks, g->n, n_elems, g->def);
    } else {
        status = combine_share(g, data, n_elems, &share);
        if (status == PGAS_OK)
            status = pgasi_between_allgather(g->team, g->comm, shares, blocks,
                                             share * g->def->operand_bytes);
    }
    if (status == PGAS_OK)
        memcpy(data, blocks, bytes);
    return status;
}

/* As above, but only the root gets the result, in dst. */
static pgas_status_t reduce_among(const among_t *g, const void *src, void *dst, size_t n_elems,
                                  int root)
{
    unsigned char *blocks = g->team->scratch, *shares = blocks + g->team->scratch_bytes;
    size_t bytes = n_elems * g->def->operand_bytes, share = n_elems;
    pgas_status_t status;
    if (is_small(g, bytes)) {
        status = pgasi_between_gather(g->team, g->comm, src, blocks, bytes, root);
        if (status == PGAS_OK && g->me == root)
            combine_blocks(blocks, g->n, n_elems, g->def);
    } else {
        status = combine_share(g, src, n_elems, &share);
        if (status == PGAS_OK)
            status = pgasi_between_gather(g->team, g->comm, shares, blocks,
                                          share * g->def->operand_bytes, root);
    }
    if (status == PGAS_OK && g->me == root)
        memcpy(dst, blocks, bytes);
    return status;
}

static pgas_status_t allreduce_chunk(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                     const pgas_op_def_t *def)
{
    if (!by_leaders(team, def)) {
        among_t all = among_all(team, def);
        if (dst != src)
            memcpy(dst, src, n_elems * def->operand_bytes);
        return allreduce_among(&all, dst, n_elems);
    }
    pgas_status_t status = pgasi_board_reduce(&team->board, src, dst, n_elems, def, 0);
    if (status == PGAS_OK && leads(team)) {
        among_t leaders = among_leaders(team, def);
        status = allreduce_among(&leaders, dst, n_elems);
    }
    return status != PGAS_OK
               ? status
               : pgasi_board_broadcast(&team->board, dst, n_elems * def->operand_bytes, 0);
}

/* The leader of the root's node makes the result, and passes it on if it is not the root. */
static pgas_status_t reduce_chunk(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                  const pgas_op_def_t *def, int root)
{
    if (!by_leaders(team, def)) {
        among_t all = among_all(team, def);
        return reduce_among(&all, src, dst, n_elems, root);
    }
    void *sum = team->rank == root ? dst : team->scratch + 2 * team->scratch_bytes;
    int root_node = team->node_index_of[root];
    pgas_status_t status =
        pgasi_board_reduce(&team->board, src, leads(team) ? sum : NULL, n_elems, def, 0);
    if (status == PGAS_OK && leads(team)) {
        among_t leaders = among_leaders(team, def);
        status = reduce_among(&leaders, sum, sum, n_elems, root_node);
    }
    if (status == PGAS_OK && root_node == team->node_index && team->local_of[root] != 0)
        status = pgasi_board_broadcast(&team->board, leads(team) || team->rank == root ? sum : NULL,
                                       n_elems * def->operand_bytes, 0);
    return status;
}

static size_t chunk_elems(const pgas_op_def_t *def)
{
    return PGASI_TEAM_CHUNK / def->operand_bytes;
}

static pgas_status_t coll_reduce(pgas_team_t *team, void *buffer, size_t n_elems,
                                 const pgas_op_def_t *def, int root)
{
    void *dst = team->rank == root ? buffer : NULL;
    if (team->n_nodes == 1)
        return pgasi_board_reduce(&team->board, buffer, dst, n_elems, def, root);
    pgas_status_t status = reserve(team, def);
    for (size_t done = 0; status == PGAS_OK && done < n_elems; done += chunk_elems(def)) {
        size_t at = done * def->operand_bytes;
        status = reduce_chunk(team, (const char *)buffer + at, dst ? (char *)dst + at : NULL,
                              PGASI_MIN(chunk_elems(def), n_elems - done), def, root);
    }
    return status;
}

static inline pgas_status_t coll_allreduce(pgas_team_t *team, const void *src, void *dst,
                                           size_t n_elems, const pgas_op_def_t *def)
{
    if (PGAS_LIKELY(team->n_nodes == 1))
        return pgasi_board_allreduce(&team->board, src, dst, n_elems, def);
    pgas_status_t status = reserve(team, def);
    for (size_t done = 0; status == PGAS_OK && done < n_elems; done += chunk_elems(def)) {
        size_t at = done * def->operand_bytes;
        status = allreduce_chunk(team, (const char *)src + at, (char *)dst + at,
                                 PGASI_MIN(chunk_elems(def), n_elems - done), def);
    }
    return status;
}

pgas_status_t pgasi_coll_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                                   pgas_type_t type, pgas_op_t op)
{
    return coll_allreduce(team, src, dst, n_elems, pgasi_op_find(PGAS_OP(op, type)));
}

/* ---- scans ---- */

/* A scan of each rank's own n_elems: the ranks before it, and itself if it is inclusive. Rank 0 of
 * an exclusive scan gets no data. */
typedef struct {
    pgas_team_t *team;
    const pgas_op_def_t *def;
    bool inclusive;
} scan_t;

/* Small data: each rank gets the data of all, and combines those of lower ranks in order. */
static pgas_status_t scan_small(const scan_t *s, const void *src, void *dst, size_t n_elems)
{
    size_t bytes = n_elems * s->def->operand_bytes;
    int n = s->team->rank + s->inclusive;
    pgas_status_t status =
        pgasi_between_allgather(s->team, s->team->comm, src, s->team->scratch, bytes);
    if (status == PGAS_OK && n > 0) {
        combine_blocks(s->team->scratch, n, n_elems, s->def);
        memcpy(dst, s->team->scratch, bytes);
    }
    return status;
}

/* Large data: along the chain of ranks, in pieces, so that all ranks work at one time. Rank r gets
 * the combination of the ranks before it, adds its own piece and passes it on. */
static pgas_status_t scan_piece(const scan_t *s, pgasi_chain_t *chain, const void *src, void *dst,
                                size_t n_elems)
{
    size_t bytes = n_elems * s->def->operand_bytes;
    unsigned char *sum = pgasi_chain_room(chain);
    const void *before;
    pgas_status_t status = pgasi_chain_receive(chain, &before);
    if (status != PGAS_OK || !sum)
        return status != PGAS_OK ? status : chain->status;
    if (before) {
        memcpy(sum, before, bytes);
        pgasi_op_combine_run(s->def, sum, src, n_elems);
    } else {
        memcpy(sum, src, bytes);
    }
    if (s->inclusive)
        memcpy(dst, sum, bytes);
    else if (before)
        memcpy(dst, before, bytes);
    return pgasi_chain_send(chain, bytes);
}

static pgas_status_t scan_large(const scan_t *s, const void *src, void *dst, size_t n_elems)
{
    pgasi_chain_t chain;
    size_t elem = s->def->operand_bytes, piece = PGASI_CHAIN_PIECE / elem;
    pgas_status_t status = pgasi_chain_begin(&chain, s->team, n_elems * elem, piece * elem);
    for (size_t done = 0; status == PGAS_OK && done < n_elems; done += piece)
        status = scan_piece(s, &chain, (const char *)src + done * elem, (char *)dst + done * elem,
                            PGASI_MIN(piece, n_elems - done));
    return pgasi_chain_end(&chain, status);
}

static pgas_status_t scan_far(const scan_t *s, const void *src, void *dst, size_t n_elems)
{
    return n_elems * s->def->operand_bytes * (size_t)s->team->size <= SMALL
               ? scan_small(s, src, dst, n_elems)
               : scan_large(s, src, dst, n_elems);
}

static pgas_status_t coll_scan(const scan_t *s, const void *src, void *dst, size_t n_elems)
{
    if (s->team->n_nodes == 1)
        return pgasi_board_scan(&s->team->board, src, dst, n_elems, s->def, s->inclusive);
    pgas_status_t status = scan_far(s, src, dst, n_elems);
    if (status == PGAS_OK && s->team->rank == 0 && !s->inclusive && n_elems > 0)
        pgasi_op_fill_neutral(s->def, dst, n_elems);
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

pgas_status_t pgasi_boot_enter(pgas_team_t *team)
{
    return enter_whole(&team);
}

static bool has_rank(const pgas_team_t *team, int rank)
{
    return rank >= 0 && rank < team->size;
}

/* The common part of reductions and scans. Without a type the size of the elements is unknown
 * before the operator has been found. */
static pgas_status_t check_elems(const void *src, size_t n_elems, pgas_type_t type, pgas_op_t op,
                                 const pgas_op_def_t **def_p)
{
    size_t bytes = pgasi_type_bytes(type);
    bool has_type = type != PGAS_TYPE_NONE || pgasi_op_is_built_in(op);
    if ((has_type && bytes == 0) || (n_elems > 0 && !src) ||
        n_elems > PTRDIFF_MAX / (bytes + !bytes))
        return PGAS_ERR_INVALID;
    const pgas_op_def_t *def = op % PGAS_ADD == 0 ? pgasi_op_find(PGAS_OP(op, type)) : NULL;
    if (!def || def->operand_bytes > PGASI_OP_ALIGN_MAX)
        return PGAS_ERR_UNSUPPORTED;
    if ((has_type && def->operand_bytes != bytes) || n_elems > PTRDIFF_MAX / def->operand_bytes)
        return PGAS_ERR_INVALID;
    *def_p = def;
    return PGAS_OK;
}

/* The same for a collective with a destination of its own. */
static pgas_status_t check_both(const void *src, const void *dst, size_t n_elems, pgas_type_t type,
                                pgas_op_t op, const pgas_op_def_t **def_p)
{
    pgas_status_t status = check_elems(src, n_elems, type, op, def_p);
    return status == PGAS_OK && n_elems > 0 && !dst ? PGAS_ERR_INVALID : status;
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

pgas_status_t pgas_reduce(pgas_team_t *team, void *buffer, size_t n_elems, pgas_type_t type,
                          pgas_op_t op, int root)
{
    const pgas_op_def_t *def;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_elems(buffer, n_elems, type, op, &def);
    if (status != PGAS_OK)
        return status;
    return has_rank(team, root) ? coll_reduce(team, buffer, n_elems, def, root) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_allreduce(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                             pgas_type_t type, pgas_op_t op)
{
    const pgas_op_def_t *def;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_both(src, dst, n_elems, type, op, &def);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    return coll_allreduce(team, src, dst, n_elems, def);
}

pgas_status_t pgas_scan(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                        pgas_type_t type, pgas_op_t op)
{
    const pgas_op_def_t *def;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_both(src, dst, n_elems, type, op, &def);
    if (status != PGAS_OK)
        return status;
    scan_t s = { team, def, true };
    return coll_scan(&s, src, dst, n_elems);
}

pgas_status_t pgas_exscan(pgas_team_t *team, const void *src, void *dst, size_t n_elems,
                          pgas_type_t type, pgas_op_t op)
{
    const pgas_op_def_t *def;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_both(src, dst, n_elems, type, op, &def);
    if (status != PGAS_OK)
        return status;
    scan_t s = { team, def, false };
    return coll_scan(&s, src, dst, n_elems);
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

/* ---- blocks of any sizes ---- */

/* The sum of n sizes; SIZE_MAX: too large, or there is no list. */
static size_t sum_of(const size_t *bytes_of, int n)
{
    size_t sum = 0;
    if (!bytes_of)
        return SIZE_MAX;
    for (int i = 0; i < n; i++)
        if (__builtin_add_overflow(sum, bytes_of[i], &sum))
            return SIZE_MAX;
    return sum;
}

static bool good_blocks(const void *at, const size_t *bytes_of, int n)
{
    size_t sum = sum_of(bytes_of, n);
    return sum < SIZE_MAX && (sum == 0 || at);
}

pgas_status_t pgas_gatherv(pgas_team_t *team, const void *src, size_t bytes, void *dst,
                           const size_t *bytes_of, int root)
{
    pgas_status_t status = enter_whole(&team);
    if (status != PGAS_OK)
        return status;
    bool receives = team->rank == root;
    if (!has_rank(team, root) || (bytes > 0 && !src) ||
        (receives && !good_blocks(dst, bytes_of, team->size)))
        return PGAS_ERR_INVALID;
    if (team->n_nodes == 1)
        return pgasi_board_gatherv(&team->board, src, bytes, dst, bytes_of, root);
    pgasi_blocks_t blocks = { src, NULL, bytes, root, dst, receives ? bytes_of : NULL };
    return pgasi_coll_exchange(team, &blocks);
}

pgas_status_t pgas_allgatherv(pgas_team_t *team, const void *src, size_t bytes, void *dst,
                              const size_t *bytes_of)
{
    pgas_status_t status = enter_whole(&team);
    if (status != PGAS_OK)
        return status;
    if ((bytes > 0 && !src) || !good_blocks(dst, bytes_of, team->size) ||
        bytes != bytes_of[team->rank])
        return PGAS_ERR_INVALID;
    if (team->n_nodes == 1)
        return pgasi_board_gatherv(&team->board, src, bytes, dst, bytes_of, -1);
    pgasi_blocks_t blocks = { src, NULL, bytes, -1, dst, bytes_of };
    return pgasi_coll_exchange(team, &blocks);
}

static pgas_status_t check_alltoallv(pgas_team_t **team_io, const pgasi_blocks_t *b)
{
    pgas_status_t status = enter_whole(team_io);
    if (status != PGAS_OK)
        return status;
    const pgas_team_t *team = *team_io;
    bool good = good_blocks(b->src, b->out, team->size) && good_blocks(b->dst, b->in, team->size) &&
                b->out[team->rank] == b->in[team->rank];
    return good ? PGAS_OK : PGAS_ERR_INVALID;
}

pgas_status_t pgas_alltoallv(pgas_team_t *team, const void *src, const size_t *src_bytes, void *dst,
                             const size_t *dst_bytes)
{
    pgasi_blocks_t blocks = { src, src_bytes, 0, -1, dst, dst_bytes };
    pgas_status_t status = check_alltoallv(&team, &blocks);
    if (status != PGAS_OK)
        return status;
    return team->n_nodes == 1 ? pgasi_board_alltoallv(&team->board, src, src_bytes, dst, dst_bytes)
                              : pgasi_coll_exchange(team, &blocks);
}

/* ---- collectives that proceed meanwhile ---- */

pgas_status_t pgasi_barrier_start(pgas_team_t *team, pgasi_coll_end_t end)
{
    pgas_status_t status = enter_whole(&team);
    return status == PGAS_OK ? pgasi_coll_barrier_nb(team, end) : status;
}

pgas_status_t pgasi_broadcast_start(pgas_team_t *team, void *buffer, size_t bytes, int root,
                                    pgasi_coll_end_t end)
{
    pgas_status_t status = enter_whole(&team);
    if (status != PGAS_OK)
        return status;
    if (!has_rank(team, root) || (bytes > 0 && !buffer))
        return PGAS_ERR_INVALID;
    return pgasi_coll_broadcast_nb(team, buffer, bytes, root, end);
}

pgas_status_t pgasi_allreduce_start(pgas_team_t *team, void *buffer, size_t n_elems,
                                    pgas_type_t type, pgas_op_t op, pgasi_coll_end_t end)
{
    const pgas_op_def_t *def;
    pgas_status_t status = enter_whole(&team);
    if (status == PGAS_OK)
        status = check_elems(buffer, n_elems, type, op, &def);
    return status == PGAS_OK ? pgasi_coll_allreduce_nb(team, buffer, n_elems, def, end) : status;
}

pgas_status_t pgasi_alltoallv_start(pgas_team_t *team, const void *src, const size_t *src_bytes,
                                    void *dst, const size_t *dst_bytes, pgasi_coll_end_t end)
{
    pgasi_blocks_t blocks = { src, src_bytes, 0, -1, dst, dst_bytes };
    pgas_status_t status = check_alltoallv(&team, &blocks);
    return status == PGAS_OK ? pgasi_coll_exchange_nb(team, &blocks, end) : status;
}
