/** One-sided operations inside the library: requests, and paths that several files share. */
#ifndef PGASI_RMA_H
#define PGASI_RMA_H

#include "mem/ctx.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "pgas/atomic.h"
#include "pgas/rma.h"

/** The contents of a pgas_req_t. Inline functions of the program use the first two words. */
typedef struct {
    int32_t pending; /* parts that are not locally complete */
    int32_t status;  /* first error */
    uint64_t
        number; /* of the last part among the context's operations to peer; 0: nothing to flush */
    pgasi_tp_comp_t comp;
    int32_t peer;
    int32_t ctx;
} pgasi_req_t;
PGASI_STATIC_ASSERT(sizeof(pgasi_req_t) <= sizeof(pgas_req_t), "pgas_req_t is too small");
PGASI_STATIC_ASSERT(offsetof(pgasi_req_t, number) == offsetof(pgas_req_t, number),
                    "pgas_req_t has other first words");

static inline pgasi_req_t *pgasi_req(pgas_req_t *req)
{
    return (pgasi_req_t *)(void *)req;
}

/** One part has completed; runs inside progress of its context. */
void pgasi_req_part_done(pgasi_tp_comp_t *comp, pgas_status_t status);

static inline void pgasi_req_begin(pgasi_req_t *req)
{
    req->comp.fn = pgasi_req_part_done;
    req->pending = 0;
    req->status = PGAS_OK;
    req->peer = 0;
    req->ctx = pgasi_self.ctx ? pgasi_self.ctx->index : 0;
    req->number = 0;
}

/** @return the number of parts that are not locally complete */
static inline int32_t pgasi_req_pending(const pgasi_req_t *req)
{
    return __atomic_load_n(&req->pending, __ATOMIC_ACQUIRE);
}

/** One operation on global memory. */
typedef enum { PGASI_RMA_PUT, PGASI_RMA_GET, PGASI_RMA_AMO } pgasi_rma_kind_t;
typedef struct pgasi_rma {
    pgasi_rma_kind_t kind;
    pgas_gptr_t ptr;
    void *buffer; /* source of a put, destination of a get, old value of an atomic or NULL */
    size_t bytes;
    pgasi_amo_t op;
    uint64_t operand, compare;
} pgasi_rma_t;

/** Chooses how an operation reaches its target, and carries it out: by loads and stores, by the
 *  owner's service thread, or through the transport. */
pgas_status_t pgasi_rma_start(const pgasi_rma_t *rma, pgasi_req_t *req);
pgas_status_t pgasi_req_wait(pgasi_req_t *req);

/** Polls once, with progress, whether the operations of a context up to a number are visible at a
 *  rank (rank -1: everywhere, counted over all peers). It starts a flush if none is in flight, and
 *  does not wait. The context is open and locked.
 *  @return PGAS_OK              they are visible
 *          PGAS_INPROGRESS      not yet
 *          PGAS_ERR_NO_MEMORY   no memory for a flush
 *          other                the status of a flush that failed, once */
pgas_status_t pgasi_ctx_flush_look(pgasi_ctx_t *ctx, int rank, uint64_t number);

/** Carries an operation out on plain memory, which the caller has checked. */
void pgasi_rma_apply(const pgasi_rma_t *rma, void *address);

#endif
