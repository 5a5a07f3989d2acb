/* Collectives between nodes: non-blocking MPI calls, and a loop that tests them and serves peers
 * meanwhile.
 *
 * All data travel as bytes. This library combines them, in its own order (MPICH 4.0.2 compares
 * MPI_UINT32_T as signed). Pieces keep every count below 2^31: a block longer than a piece is sent
 * piece by piece. A piece of each block is then one element of a type whose extent is the whole
 * block. */
#include "boot/internal.h"

#include <limits.h>

size_t pgasi_between_piece_bytes = (size_t)1 << 30;

/* Tests until the request is done, with progress. A request that a dead member leaves open is given
 * up. */
pgas_status_t pgasi_between_wait(pgas_team_t *team, int rc, MPI_Request *request, const char *what)
{
    int done = 0;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (rc == MPI_SUCCESS) {
        pgasi_mpi_lock();
        rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        pgasi_mpi_unlock();
        if (rc != MPI_SUCCESS || done)
            break;
        if (pgasi_team_is_broken(team)) {
            pgasi_wait_end(&w);
            return PGAS_ERR_PEER;
        }
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return pgasi_mpi_status(rc, what);
}

/* START(call): issues a non-blocking call under the lock and waits for it. */
#define START(team, what, call)                                \
    do {                                                       \
        MPI_Request request = MPI_REQUEST_NULL;                \
        pgasi_mpi_lock();                                      \
        int rc = (call);                                       \
        pgasi_mpi_unlock();                                    \
        return pgasi_between_wait((team), rc, &request, what); \
    } while (0)

pgas_status_t pgasi_between_barrier(pgas_team_t *team, MPI_Comm comm)
{
    START(team, "MPI_Ibarrier", MPI_Ibarrier(comm, &request));
}

static pgas_status_t broadcast_piece(pgas_team_t *team, MPI_Comm comm, char *at, int n, int root)
{
    START(team, "MPI_Ibcast", MPI_Ibcast(at, n, MPI_BYTE, root, comm, &request));
}

pgas_status_t pgasi_between_broadcast(pgas_team_t *team, MPI_Comm comm, void *buffer, size_t bytes,
                                      int root)
{
    for (size_t done = 0; done < bytes; done += pgasi_between_piece_bytes) {
        int n = (int)PGASI_MIN(pgasi_between_piece_bytes, bytes - done);
        pgas_status_t status = broadcast_piece(team, comm, (char *)buffer + done, n, root);
        if (status != PGAS_OK)
            return status;
    }
    return PGAS_OK;
}

/* Transfers one piece of each block. `block` is the type of a piece with the extent of a block. */
typedef struct {
    pgas_team_t *team;
    MPI_Comm comm;
    const char *src;
    char *dst;
    int n_bytes;
    MPI_Datatype block;
    int root;
} piece_t;

static pgas_status_t gather_piece(const piece_t *p)
{
    START(p->team, "MPI_Igather",
          MPI_Igather(p->src, p->n_bytes, MPI_BYTE, p->dst, 1, p->block, p->root, p->comm,
                      &request));
}

static pgas_status_t allgather_piece(const piece_t *p)
{
    START(p->team, "MPI_Iallgather",
          MPI_Iallgather(p->src, p->n_bytes, MPI_BYTE, p->dst, 1, p->block, p->comm, &request));
}

static pgas_status_t alltoall_piece(const piece_t *p)
{
    START(p->team, "MPI_Ialltoall",
          MPI_Ialltoall(p->src, 1, p->block, p->dst, 1, p->block, p->comm, &request));
}

/* The same for blocks that fit into one piece: plain bytes, which MPI transfers faster. */
static pgas_status_t gather_whole(const piece_t *p)
{
    START(p->team, "MPI_Igather",
          MPI_Igather(p->src, p->n_bytes, MPI_BYTE, p->dst, p->n_bytes, MPI_BYTE, p->root, p->comm,
                      &request));
}

static pgas_status_t allgather_whole(const piece_t *p)
{
    START(p->team, "MPI_Iallgather",
          MPI_Iallgather(p->src, p->n_bytes, MPI_BYTE, p->dst, p->n_bytes, MPI_BYTE, p->comm,
                         &request));
}

static pgas_status_t alltoall_whole(const piece_t *p)
{
    START(p->team, "MPI_Ialltoall",
          MPI_Ialltoall(p->src, p->n_bytes, MPI_BYTE, p->dst, p->n_bytes, MPI_BYTE, p->comm,
                        &request));
}

static pgas_status_t make_block_type(size_t piece, size_t block, MPI_Datatype *type_p)
{
    MPI_Datatype bytes;
    pgasi_mpi_lock();
    int rc = MPI_Type_contiguous((int)piece, MPI_BYTE, &bytes);
    if (rc == MPI_SUCCESS) {
        rc = MPI_Type_create_resized(bytes, 0, (MPI_Aint)block, type_p);
        MPI_Type_free(&bytes);
    }
    if (rc == MPI_SUCCESS)
        rc = MPI_Type_commit(type_p);
    pgasi_mpi_unlock();
    return pgasi_mpi_status(rc, "making a block type");
}

typedef pgas_status_t (*piece_fn_t)(const piece_t *piece);

/* All blocks together stay below 2^31 bytes as well, because some MPIs add them up in an int. */
static pgas_status_t by_pieces(piece_t *p, size_t bytes, piece_fn_t whole, piece_fn_t piece)
{
    size_t limit = PGASI_MAX(pgasi_between_piece_bytes / (size_t)p->team->size, 1);
    if (bytes <= limit) {
        p->n_bytes = (int)bytes;
        return whole(p);
    }
    pgas_status_t status = PGAS_OK;
    const char *src = p->src;
    char *dst = p->dst;
    for (size_t done = 0; done < bytes && status == PGAS_OK; done += limit) {
        size_t n = PGASI_MIN(limit, bytes - done);
        p->src = src + done;
        p->dst = dst != NULL ? dst + done : NULL;
        p->n_bytes = (int)n;
        status = make_block_type(n, bytes, &p->block);
        if (status != PGAS_OK)
            return status;
        status = piece(p);
        pgasi_mpi_lock();
        MPI_Type_free(&p->block);
        pgasi_mpi_unlock();
    }
    return status;
}

pgas_status_t pgasi_between_gather(pgas_team_t *team, MPI_Comm comm, const void *src, void *dst,
                                   size_t bytes, int root)
{
    piece_t p = { team, comm, src, dst, 0, MPI_BYTE, root };
    return by_pieces(&p, bytes, gather_whole, gather_piece);
}

pgas_status_t pgasi_between_allgather(pgas_team_t *team, MPI_Comm comm, const void *src, void *dst,
                                      size_t bytes)
{
    piece_t p = { team, comm, src, dst, 0, MPI_BYTE, 0 };
    return by_pieces(&p, bytes, allgather_whole, allgather_piece);
}

pgas_status_t pgasi_between_alltoall(pgas_team_t *team, MPI_Comm comm, const void *src, void *dst,
                                     size_t bytes)
{
    piece_t p = { team, comm, src, dst, 0, MPI_BYTE, 0 };
    return by_pieces(&p, bytes, alltoall_whole, alltoall_piece);
}

/* ---- chains ---- */

/* no tag of coll_nb.c */
#define CHAIN_TAG 30000

/* The scratch memory of the team holds the pieces: received ones, then those to send. */
static unsigned char *place(const pgasi_chain_t *chain, size_t number, bool to_send)
{
    size_t slot = number % PGASI_CHAIN_DEPTH + (to_send ? PGASI_CHAIN_DEPTH : 0);
    return chain->team->scratch + slot * PGASI_CHAIN_PIECE;
}

/* Keeps receives for the next pieces open. */
static pgas_status_t ask(pgasi_chain_t *chain)
{
    const pgas_team_t *team = chain->team;
    int rc = MPI_SUCCESS;
    while (rc == MPI_SUCCESS && team->rank > 0 &&
           chain->n_asked < chain->n_received + PGASI_CHAIN_DEPTH &&
           chain->n_asked * chain->piece_bytes < chain->bytes) {
        MPI_Request *request = &chain->receives[chain->n_asked % PGASI_CHAIN_DEPTH];
        pgasi_mpi_lock();
        rc = MPI_Irecv(place(chain, chain->n_asked, false), (int)chain->piece_bytes, MPI_BYTE,
                       team->rank - 1, CHAIN_TAG, team->comm, request);
        pgasi_mpi_unlock();
        chain->n_asked++;
    }
    return pgasi_mpi_status(rc, "MPI_Irecv");
}

pgas_status_t pgasi_chain_begin(pgasi_chain_t *chain, pgas_team_t *team, size_t bytes,
                                size_t piece_bytes)
{
    *chain = (pgasi_chain_t){ .team = team, .bytes = bytes, .piece_bytes = piece_bytes };
    for (int i = 0; i < PGASI_CHAIN_DEPTH; i++)
        chain->receives[i] = chain->sends[i] = MPI_REQUEST_NULL;
    return ask(chain);
}

void *pgasi_chain_room(pgasi_chain_t *chain)
{
    chain->status =
        pgasi_between_wait(chain->team, MPI_SUCCESS,
                           &chain->sends[chain->n_sent % PGASI_CHAIN_DEPTH], "MPI_Isend");
    return chain->status == PGAS_OK ? place(chain, chain->n_sent, true) : NULL;
}

/* The piece before the current one is not needed any more, so its memory takes a further one. */
pgas_status_t pgasi_chain_receive(pgasi_chain_t *chain, const void **piece_p)
{
    *piece_p = NULL;
    if (chain->team->rank == 0)
        return PGAS_OK;
    pgas_status_t status = ask(chain);
    if (status == PGAS_OK)
        status = pgasi_between_wait(chain->team, MPI_SUCCESS,
                                    &chain->receives[chain->n_received % PGASI_CHAIN_DEPTH],
                                    "MPI_Irecv");
    if (status == PGAS_OK)
        *piece_p = place(chain, chain->n_received++, false);
    return status;
}

pgas_status_t pgasi_chain_send(pgasi_chain_t *chain, size_t bytes)
{
    const pgas_team_t *team = chain->team;
    if (team->rank + 1 == team->size)
        return PGAS_OK;
    pgasi_mpi_lock();
    int rc = MPI_Isend(place(chain, chain->n_sent, true), (int)bytes, MPI_BYTE, team->rank + 1,
                       CHAIN_TAG, team->comm, &chain->sends[chain->n_sent % PGASI_CHAIN_DEPTH]);
    pgasi_mpi_unlock();
    chain->n_sent++;
    return pgasi_mpi_status(rc, "MPI_Isend");
}

pgas_status_t pgasi_chain_end(pgasi_chain_t *chain, pgas_status_t status)
{
    for (int i = 0; status == PGAS_OK && i < PGASI_CHAIN_DEPTH; i++)
        status = pgasi_between_wait(chain->team, MPI_SUCCESS, &chain->sends[i], "MPI_Isend");
    return status;
}
