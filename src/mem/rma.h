/** One-sided operations inside the library: operations, requests and records of completion. */
#ifndef PGASI_RMA_H
#define PGASI_RMA_H

#include "mem/atomic.h"
#include "mem/ctx.h"
#include "mem/segment.h"
#include "base/sync.h"
#include "mem/thread.h"
#include "pgas/atomic.h"
#include "pgas/rma.h"

/** One operation on global memory. */
typedef enum { PGASI_RMA_PUT, PGASI_RMA_GET, PGASI_RMA_ATOMIC } pgasi_rma_kind_t;
typedef struct pgasi_rma {
    pgasi_rma_kind_t kind;
    pgas_gptr_t ptr;
    void *buffer; /* source of a put, destination of a get, old value of an atomic or NULL */
    size_t bytes;
    pgas_op_t op; /* of an atomic; it has passed pgasi_atomic_check, with its type */
    pgas_type_t type;
    uint64_t operand, compare;
} pgasi_rma_t;

/** Whether a flush completes the operation. */
static inline bool pgasi_rma_writes(const pgasi_rma_t *rma)
{
    return rma->kind == PGASI_RMA_PUT || (rma->kind == PGASI_RMA_ATOMIC && !rma->buffer);
}

/* ---- blocking operations ---- */

/** Counts the parts of a blocking operation that are not locally complete. */
typedef struct {
    int32_t pending;
    int32_t status; /* first error */
    pgasi_tp_comp_t comp;
    pgasi_ctx_t *ctx;
} pgasi_req_t;

/** One part has completed; runs inside progress of its context. */
void pgasi_req_part_done(pgasi_tp_comp_t *comp, pgas_status_t status);

static inline void pgasi_req_begin(pgasi_req_t *req)
{
    req->comp = (pgasi_tp_comp_t){ .fn = pgasi_req_part_done };
    req->pending = 0;
    req->status = PGAS_OK;
    req->ctx = pgasi_self.ctx;
}

/** @return the number of parts that are not locally complete */
static inline int32_t pgasi_req_pending(const pgasi_req_t *req)
{
    return __atomic_load_n(&req->pending, __ATOMIC_ACQUIRE);
}

/** Carries out an operation as one part of req: by loads and stores, by the owner's service thread,
 *  or through the transport. */
pgas_status_t pgasi_rma_start(const pgasi_rma_t *rma, pgasi_req_t *req);
pgas_status_t pgasi_req_wait(pgasi_req_t *req);

/* ---- non-blocking operations (nb.c) ---- */

/** An operation that completes later, of a context. It waits for its local completion, for a flush
 *  (remote completion), or for both. */
#define PGASI_NEEDS_LOCAL  1u
#define PGASI_NEEDS_REMOTE 2u
#define PGASI_NEEDS_ISSUE  4u /* it is being issued */
typedef struct pgasi_record {
    pgasi_tp_comp_t comp;
    pgasi_ctx_t *ctx;
    pgas_sync_t *sync;
    struct pgasi_record *next; /* free, or waiting for the same flush */
    uint64_t number;           /* among the context's operations to the rank */
    int rank;
    int32_t status; /* first error */
    uint16_t operation;
    uint16_t needs;
} pgasi_record_t;
#define PGASI_RECORDS_MAX 1024 /* of a context */

/** Issues one operation of a context; its completion goes to the function of comp.
 *  @return as the transport's functions */
typedef pgas_status_t (*pgasi_issue_fn_t)(pgasi_ctx_t *ctx, const pgasi_rma_t *rma,
                                          pgasi_tp_comp_t *comp);
/** Issues an operation once, with a record if it names a counter. Context open and locked.
 *  @return PGAS_OK         accepted: sync is raised, or the operation is complete
 *          PGAS_ERR_AGAIN  no record or no room in the transport; nothing has happened
 *          other           refused */
pgas_status_t pgasi_nb_issue(pgasi_ctx_t *ctx, const pgasi_rma_t *rma, pgas_when_t when,
                             pgas_sync_t *sync, pgasi_issue_fn_t issue);
/** Completes the records that a flush of a rank covers. number: the flush's. */
void pgasi_nb_flushed(pgasi_ctx_flush_t *flush, uint64_t number, pgas_status_t status);
/** Starts flushes that records wait for, and completes records that other flushes have covered. */
int pgasi_nb_progress(pgasi_ctx_t *ctx);
/** Waits until the operations without a counter that were issued before are complete. Context not
 *  locked. @return PGAS_ERR_PEER: it gave up */
pgas_status_t pgasi_nb_wait(pgasi_ctx_t *ctx);
/** @return the first error of operations without a counter, once */
pgas_status_t pgasi_nb_take_error(pgasi_ctx_t *ctx);
/** No operation is issued any more: flushes do not start. */
void pgasi_nb_close(pgasi_ctx_t *ctx);
void pgasi_nb_destroy(pgasi_ctx_t *ctx);
/** The most memory that a context uses for these operations. */
uint64_t pgasi_nb_bytes(void);

/* ---- flushes ---- */

/** Counts an operation that a flush completes. Context locked. @return its number */
static inline uint64_t pgasi_ctx_note_issued(pgasi_ctx_t *ctx, int rank)
{
    __atomic_store_n(&ctx->issued, ctx->issued + 1, __ATOMIC_RELAXED);
    return ++ctx->peer[rank].issued;
}

/** Returns the flush of a rank (-1: of all), made at first use; NULL: no memory. Context locked. */
pgasi_ctx_flush_t *pgasi_ctx_flush_of(pgasi_ctx_t *ctx, int rank);
/** Starts a flush that does not run. Context open and locked.
 *  @return PGAS_OK          it is complete
 *          PGAS_INPROGRESS  it runs, or the transport has no room now
 *          other            it failed */
pgas_status_t pgasi_ctx_flush_start(pgasi_ctx_flush_t *flush);

/** Polls once, with progress, whether the operations of a context up to a number are visible at a
 *  rank (rank -1: everywhere, counted over all peers). It starts a flush if none is in flight, and
 *  does not wait. The context is open and locked.
 *  @return PGAS_OK              they are visible
 *          PGAS_INPROGRESS      not yet
 *          PGAS_ERR_NO_MEMORY   no memory for a flush
 *          other                the status of a flush that failed, once */
pgas_status_t pgasi_ctx_flush_look(pgasi_ctx_t *ctx, int rank, uint64_t number);

/** An operation that does not pass through the transport follows: operations to the rank before the
 *  last fence become visible first. Waits. Context not locked. */
pgas_status_t pgasi_ctx_settle_fence(pgasi_ctx_t *ctx, int rank);

/** Carries an operation out on plain memory, which the caller has checked. */
void pgasi_rma_apply(const pgasi_rma_t *rma, void *address);

#endif
