/** One-sided operations inside the library: requests, and the paths that other files share. */
#ifndef PGASI_RMA_H
#define PGASI_RMA_H

#include "mem/ctx.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "pgas/atomic.h"
#include "pgas/rma.h"

/** What stands in a pgas_req_t, whose inline users know the first two words. */
typedef struct {
    int32_t pending; /* parts not locally complete */
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

/** An operation through the transport: one part of req. Waits while the transport says AGAIN. */
typedef enum { PGASI_RMA_PUT, PGASI_RMA_GET, PGASI_RMA_AMO } pgasi_rma_kind_t;
typedef struct pgasi_rma {
    pgasi_rma_kind_t kind;
    pgas_gptr_t ptr;
    void *buffer; /* source of a put, destination of a get, old value of an atomic or NULL */
    size_t bytes;
    pgas_amo_t op;
    uint64_t operand, compare;
} pgasi_rma_t;
pgas_status_t pgasi_rma_far(const pgasi_rma_t *rma, pgasi_req_t *req);

/** Resolves and carries out: loads and stores, the owner's service, or the transport. */
pgas_status_t pgasi_rma_start(const pgasi_rma_t *rma, pgasi_req_t *req);
pgas_status_t pgasi_req_wait(pgasi_req_t *req);

/** One look, with progress, whether the operations of a context up to a number are visible at a
 *  rank (or, counted over all peers, everywhere: -1); starts a flush if none is under way, and does
 *  not wait. Context open and locked, its transport there.
 *  @return PGAS_OK, PGAS_INPROGRESS, PGAS_ERR_NO_MEMORY; what a flush failed with, once. */
pgas_status_t pgasi_ctx_flush_look(pgasi_ctx_t *ctx, int rank, uint64_t number);

/** Carries an operation out on plain memory (checked by the caller). */
void pgasi_rma_apply(const pgasi_rma_t *rma, void *address);

#endif
