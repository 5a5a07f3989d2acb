/* Collectives that proceed while the program does something else: a list of operations, each of
 * them in rounds of MPI requests. When all requests of a round are done, the operation's step
 * function starts the next round.
 *
 * Barrier and broadcast are one round of MPI's own. Reductions and exchanges send messages between
 * ranks. Ranks start the later rounds at different times, but MPI requires its own collectives of a
 * communicator in one order on all ranks. Tags come from the number of the operation, which all
 * ranks of the team count alike.
 *
 * Small reductions go up a binomial tree to rank 0 and down again. In large ones each rank combines
 * one share of the data. Both combine in the order of ranks, so all get the same bits, and
 * operators of the program need not commute.
 *
 * Threads inside the library test the requests (call/progress.c). One of them does so at a time. An
 * operation that a death ends leaves its memory to MPI, which may still write there. */
#include "boot/internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* MPICH declares how much of an array MPI_Testall writes. gcc takes MPI_STATUSES_IGNORE for an
 * array of 0 bytes. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

#define TREE_MAX  ((size_t)16 << 10) /* bytes of a reduction along the tree */
#define N_TAGS    8192
#define ROOM_STEP 16
#define OWN_ROOM  2 /* requests that need no memory of their own */

typedef struct op op_t;
/* Starts the next round. @return PGAS_INPROGRESS: there is one; PGAS_OK: the operation is done */
typedef pgas_status_t (*step_fn_t)(op_t *op);

struct op {
    op_t *next;
    pgas_team_t *team;
    step_fn_t step;
    pgasi_coll_end_t end;
    int tag;
    pgas_status_t status;
    MPI_Request *requests, own_requests[OWN_ROOM];
    int n_requests, room;
    /* reductions */
    const pgas_op_def_t *def;
    char *data;
    unsigned char *scratch; /* contributions of others */
    size_t n_elems;
    int mask, phase;
};

int pgasi_coll_n_pending;

static struct {
    pthread_mutex_t lock; /* taken before MPI's */
    op_t *first, **end;
} pending = { PTHREAD_MUTEX_INITIALIZER, NULL, &pending.first };

/* ---- rounds ---- */

static MPI_Request *new_request(op_t *op)
{
    if (op->n_requests == op->room) {
        int room = op->room + ROOM_STEP + op->room / 2;
        bool own = op->requests == op->own_requests;
        MPI_Request *requests = realloc(own ? NULL : op->requests, (size_t)room * sizeof *requests);
        if (!requests)
            return NULL;
        if (own)
            memcpy(requests, op->own_requests, sizeof op->own_requests);
        op->requests = requests;
        op->room = room;
    }
    op->requests[op->n_requests] = MPI_REQUEST_NULL;
    return &op->requests[op->n_requests++];
}

typedef enum { SEND, RECEIVE } direction_t;

/* Adds the messages of one block to the round. tag: 0 or 1, within the operation. */
static pgas_status_t transfer(op_t *op, direction_t direction, void *at, size_t bytes, int peer,
                              int tag)
{
    for (size_t done = 0; done < bytes; done += pgasi_between_piece_bytes) {
        MPI_Request *request = new_request(op);
        if (!request)
            return PGAS_ERR_NO_MEMORY;
        int n = (int)PGASI_MIN(pgasi_between_piece_bytes, bytes - done), rc;
        char *from = (char *)at + done;
        pgasi_mpi_lock();
        if (direction == SEND)
            rc = MPI_Isend(from, n, MPI_BYTE, peer, op->tag + tag, op->team->comm, request);
        else
            rc = MPI_Irecv(from, n, MPI_BYTE, peer, op->tag + tag, op->team->comm, request);
        pgasi_mpi_unlock();
        if (rc != MPI_SUCCESS)
            return pgasi_mpi_status(rc, direction == SEND ? "MPI_Isend" : "MPI_Irecv");
    }
    return PGAS_OK;
}

/* @return whether all requests of the round are done, or the operation has failed */
static bool round_is_over(op_t *op)
{
    int over = 1;
    if (op->n_requests > 0) {
        pgasi_mpi_lock();
        int rc = MPI_Testall(op->n_requests, op->requests, &over, MPI_STATUSES_IGNORE);
        pgasi_mpi_unlock();
        if (rc != MPI_SUCCESS) {
            op->status = pgasi_mpi_status(rc, "MPI_Testall");
            return true;
        }
    }
    if (!over && pgasi_team_is_broken(op->team))
        op->status = PGAS_ERR_PEER;
    if (over)
        op->n_requests = 0;
    return over || op->status != PGAS_INPROGRESS;
}

/* Continues an operation as far as it goes. @return true: it has ended, with op->status */
static bool advance(op_t *op)
{
    while (op->status == PGAS_INPROGRESS && round_is_over(op))
        if (op->status == PGAS_INPROGRESS)
            op->status = op->step(op);
    return op->status != PGAS_INPROGRESS;
}

static void finish(op_t *op)
{
    pgasi_coll_end_t end = op->end;
    pgas_status_t status = op->status;
    if (op->n_requests == 0)
        free(op->scratch);
    if (op->requests != op->own_requests)
        free(op->requests);
    free(op);
    end.fn(end.arg, status);
}

int pgasi_coll_progress(void)
{
    op_t *ended = NULL, **last = &ended;
    int n = 0;
    if (!pgasi_launch_may_call() || pthread_mutex_trylock(&pending.lock) != 0)
        return 0;
    for (op_t **at = &pending.first; *at;) {
        op_t *op = *at;
        if (!advance(op)) {
            at = &op->next;
            continue;
        }
        *at = op->next;
        if (!*at)
            pending.end = at;
        op->next = NULL;
        *last = op;
        last = &op->next;
        __atomic_fetch_sub(&op->team->n_pending, 1, __ATOMIC_RELEASE);
        n++;
    }
    __atomic_fetch_sub(&pgasi_coll_n_pending, n, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&pending.lock);
    while (ended) {
        op_t *op = ended;
        ended = op->next;
        finish(op);
    }
    return n;
}

void pgasi_coll_settle(const pgas_team_t *team)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (__atomic_load_n(team ? &team->n_pending : &pgasi_coll_n_pending, __ATOMIC_ACQUIRE) > 0) {
        pgasi_coll_progress();
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
}

/* Makes an operation; the caller starts its first round. */
static op_t *make(pgas_team_t *team, step_fn_t step, pgasi_coll_end_t end)
{
    op_t *op = malloc(sizeof *op);
    if (!op)
        return NULL;
    *op = (op_t){ .team = team,
                  .step = step,
                  .end = end,
                  .tag = 2 * (int)(team->n_started++ % N_TAGS),
                  .status = PGAS_INPROGRESS,
                  .requests = op->own_requests,
                  .room = OWN_ROOM };
    return op;
}

/* Ends make. An error after some of the messages have left cannot be undone: the operation ends
 * with it. */
static pgas_status_t start(op_t *op, pgas_status_t status)
{
    if (status != PGAS_OK && status != PGAS_INPROGRESS)
        op->status = status;
    if (advance(op)) {
        finish(op);
        return PGAS_OK;
    }
    pthread_mutex_lock(&pending.lock);
    *pending.end = op;
    pending.end = &op->next;
    __atomic_fetch_add(&op->team->n_pending, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&pgasi_coll_n_pending, 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&pending.lock);
    return PGAS_OK;
}

static pgas_status_t no_further_round(op_t *op)
{
    (void)op;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return PGAS_OK;
}

/* ---- barrier and broadcast ---- */

pgas_status_t pgasi_coll_barrier_nb(pgas_team_t *team, pgasi_coll_end_t end)
{
    op_t *op = make(team, no_further_round, end);
    MPI_Request *request = op ? new_request(op) : NULL;
    if (!request) {
        free(op);
        return PGAS_ERR_NO_MEMORY;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pgasi_mpi_lock();
    int rc = MPI_Ibarrier(team->comm, request);
    pgasi_mpi_unlock();
    return start(op, pgasi_mpi_status(rc, "MPI_Ibarrier"));
}

pgas_status_t pgasi_coll_broadcast_nb(pgas_team_t *team, void *buffer, size_t bytes, int root,
                                      pgasi_coll_end_t end)
{
    op_t *op = make(team, no_further_round, end);
    if (!op)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = PGAS_OK;
    for (size_t at = 0; status == PGAS_OK && at < bytes; at += pgasi_between_piece_bytes) {
        int n = (int)PGASI_MIN(pgasi_between_piece_bytes, bytes - at);
        MPI_Request *request = new_request(op);
        if (!request) {
            status = PGAS_ERR_NO_MEMORY;
            break;
        }
        pgasi_mpi_lock();
        int rc = MPI_Ibcast((char *)buffer + at, n, MPI_BYTE, root, team->comm, request);
        pgasi_mpi_unlock();
        status = pgasi_mpi_status(rc, "MPI_Ibcast");
    }
    return start(op, status);
}

/* ---- reductions ---- */

/* Up the tree: rank r combines the data of the ranks r .. r + mask - 1. A rank without that bit of
 * the mask receives from its next child, the other sends and waits for the result. */
static pgas_status_t tree_step(op_t *op)
{
    enum { RISE, COMBINE, SENT, FALL, LEAVE };
    size_t bytes = op->n_elems * op->def->operand_bytes;
    int me = op->team->rank, n = op->team->size;
    pgas_status_t status = PGAS_OK;
    if (op->phase == COMBINE) {
        pgasi_op_combine_run(op->def, op->data, op->scratch, op->n_elems);
        op->mask *= 2;
        op->phase = RISE;
    }
    if (op->phase == RISE) {
        while (!(me & op->mask) && op->mask < n && me + op->mask >= n)
            op->mask *= 2;
        if (op->mask >= n) {
            op->phase = FALL;
        } else if (me & op->mask) {
            op->phase = SENT;
            status = transfer(op, SEND, op->data, bytes, me - op->mask, 0);
            return status == PGAS_OK ? PGAS_INPROGRESS : status;
        } else {
            op->phase = COMBINE;
            status = transfer(op, RECEIVE, op->scratch, bytes, me + op->mask, 0);
            return status == PGAS_OK ? PGAS_INPROGRESS : status;
        }
    }
    if (op->phase == SENT) {
        op->phase = FALL;
        status = transfer(op, RECEIVE, op->data, bytes, me - op->mask, 1);
        return status == PGAS_OK ? PGAS_INPROGRESS : status;
    }
    if (op->phase == LEAVE)
        return PGAS_OK;
    op->phase = LEAVE;
    for (int mask = op->mask / 2; status == PGAS_OK && mask > 0; mask /= 2)
        if (me + mask < n)
            status = transfer(op, SEND, op->data, bytes, me + mask, 1);
    return status == PGAS_OK ? PGAS_INPROGRESS : status;
}

/* The share of a rank: its first element, and how many. */
static size_t share_of(const op_t *op, int rank, size_t *n_p)
{
    size_t share = PGASI_DIV_UP(op->n_elems, (size_t)op->team->size),
           begin = PGASI_MIN(share * (size_t)rank, op->n_elems);
    *n_p = PGASI_MIN(share, op->n_elems - begin);
    return begin;
}

/* Combines the contributions to the own share into the first block. */
static void combine_own_share(op_t *op, size_t begin, size_t n)
{
    size_t bytes = op->def->operand_bytes;
    unsigned char *blocks = op->scratch;
    memcpy(blocks + (size_t)op->team->rank * n * bytes, op->data + begin * bytes, n * bytes);
    for (int r = 1; r < op->team->size; r++)
        pgasi_op_combine_run(op->def, blocks, blocks + (size_t)r * n * bytes, n);
    memcpy(op->data + begin * bytes, blocks, n * bytes);
}

/* Each rank gets all contributions to its share, combines them, and sends the result to all. */
static pgas_status_t shares_step(op_t *op)
{
    size_t bytes = op->def->operand_bytes, mine, own = share_of(op, op->team->rank, &mine);
    pgas_status_t status = PGAS_OK;
    if (op->phase == 2)
        return PGAS_OK;
    if (op->phase == 1)
        combine_own_share(op, own, mine);
    for (int r = 0; status == PGAS_OK && r < op->team->size; r++) {
        size_t n, begin = share_of(op, r, &n);
        char *there = op->data + begin * bytes, *here = op->data + own * bytes;
        if (r == op->team->rank)
            continue;
        if (op->phase == 0) {
            status =
                transfer(op, RECEIVE, op->scratch + (size_t)r * mine * bytes, mine * bytes, r, 0);
            if (status == PGAS_OK)
                status = transfer(op, SEND, there, n * bytes, r, 0);
        } else {
            status = transfer(op, RECEIVE, there, n * bytes, r, 1);
            if (status == PGAS_OK)
                status = transfer(op, SEND, here, mine * bytes, r, 1);
        }
    }
    op->phase++;
    return status == PGAS_OK ? PGAS_INPROGRESS : status;
}

pgas_status_t pgasi_coll_allreduce_nb(pgas_team_t *team, void *buffer, size_t n_elems,
                                      const pgas_op_def_t *def, pgasi_coll_end_t end)
{
    size_t bytes = n_elems * def->operand_bytes, share = PGASI_DIV_UP(n_elems, (size_t)team->size);
    bool by_tree = bytes <= TREE_MAX;
    unsigned char *scratch =
        malloc(1 + (by_tree ? bytes : share * (size_t)team->size * def->operand_bytes));
    op_t *op = scratch ? make(team, by_tree ? tree_step : shares_step, end) : NULL;
    if (!op) {
        free(scratch);
        return PGAS_ERR_NO_MEMORY;
    }
    op->def = def;
    op->data = buffer;
    op->scratch = scratch;
    op->n_elems = n_elems;
    op->mask = 1;
    return start(op, PGAS_OK);
}

/* ---- blocks of any sizes ---- */

static size_t out_bytes(const pgasi_blocks_t *b, int rank)
{
    if (b->out)
        return b->out[rank];
    return b->root < 0 || b->root == rank ? b->out_all : 0;
}

pgas_status_t pgasi_coll_exchange_nb(pgas_team_t *team, const pgasi_blocks_t *b,
                                     pgasi_coll_end_t end)
{
    op_t *op = make(team, no_further_round, end);
    if (!op)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = PGAS_OK;
    char *from = (char *)(uintptr_t)b->src, *to = b->dst;
    for (int r = 0; r < team->size && status == PGAS_OK; r++) {
        size_t in = b->in ? b->in[r] : 0, out = out_bytes(b, r), own = PGASI_MIN(in, out);
        if (r != team->rank) {
            status = transfer(op, RECEIVE, to, in, r, 0);
            if (status == PGAS_OK)
                status = transfer(op, SEND, from, out, r, 0);
        } else if (own > 0) {
            memmove(to, from, own);
        }
        if (in > 0)
            to += in;
        if (b->out && out > 0)
            from += out;
    }
    return start(op, status);
}

static void note_end(void *arg, pgas_status_t status)
{
    __atomic_store_n((int *)arg, (int)status, __ATOMIC_RELEASE);
}

pgas_status_t pgasi_coll_exchange(pgas_team_t *team, const pgasi_blocks_t *blocks)
{
    int result = PGAS_INPROGRESS;
    pgas_status_t status =
        pgasi_coll_exchange_nb(team, blocks, (pgasi_coll_end_t){ note_end, &result });
    if (status != PGAS_OK)
        return status;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (__atomic_load_n(&result, __ATOMIC_ACQUIRE) == PGAS_INPROGRESS) {
        pgasi_coll_progress();
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
    return (pgas_status_t)result;
}
