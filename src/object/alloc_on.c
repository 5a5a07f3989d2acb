/* Memory of other ranks: a call asks the owner to allocate or to free, and the owner's service
 * answers. */
#include <string.h>

#include "boot/boot.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "object/owner.h"
#include "call/sync.h"
#include "mem/alloc_zone.h"
#include "mem/thread.h"
#include "pgas/mem.h"

typedef struct {
    uint64_t bytes; /* to allocate; 0: to free ptr */
    uint64_t ptr;
    uint64_t slot;
} request_t;

typedef struct {
    int64_t status;
    uint64_t ptr;
} answer_t;

static void on_alloc(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    request_t r;
    answer_t a = { PGAS_ERR_INVALID, PGAS_NULL };
    if (bytes == sizeof r) {
        memcpy(&r, args, sizeof r);
        a.status = r.bytes ? pgasi_alloc_zone((int)(r.slot & PGAS_SLOT_SERVICE), r.bytes, &a.ptr)
                           : pgasi_free_zone(r.ptr);
    }
    pgasi_reply(&a, sizeof a);
}

static pgas_status_t ask(int rank, const request_t *r, answer_t *a_p)
{
    pgas_status_t status = pgasi_ask(rank, PGASI_DESC_ALLOC, r, sizeof *r, a_p, sizeof *a_p);
    return status == PGAS_OK ? (pgas_status_t)a_p->status : status;
}

pgas_status_t pgas_alloc_on(pgas_thread_t where, size_t bytes, pgas_gptr_t *ptr_p)
{
    int rank = pgas_thread_rank(where), slot = pgas_thread_slot(where);
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!ptr_p)
        return PGAS_ERR_INVALID;
    if (rank >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (rank == pgasi_boot.rank)
        return pgasi_alloc_zone(slot, bytes, ptr_p);
    request_t r = { bytes, PGAS_NULL, (uint64_t)slot };
    answer_t a;
    if (bytes)
        status = ask(rank, &r, &a);
    if (status == PGAS_OK)
        *ptr_p = bytes ? a.ptr : PGAS_NULL;
    return status;
}

pgas_status_t pgas_free_on(pgas_gptr_t ptr)
{
    int rank = pgas_gptr_rank(ptr);
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK || !ptr)
        return status;
    if (rank >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (rank == pgasi_boot.rank)
        return pgasi_free_zone(ptr);
    request_t r = { 0, ptr, 0 };
    answer_t a;
    if (pgasi_self.in_handler)
        return pgasi_sendq_call(rank, PGASI_DESC_ALLOC, &r, sizeof r, NULL, PGAS_FULL_WAIT);
    return ask(rank, &r, &a);
}

void pgasi_alloc_on_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_ALLOC, on_alloc);
}
