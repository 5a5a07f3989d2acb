/* Memory of other ranks: a call asks the owner to allocate or to free, and the owner's service
 * answers. */
#include <limits.h>
#include <string.h>

#include "boot/boot.h"
#include "boot/hooks.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "object/owner.h"
#include "call/sync.h"
#include "mem/block.h"
#include "mem/thread.h"
#include "pgas/mem.h"

typedef struct {
    uint64_t bytes; /* to allocate; 0: to free ptr */
    uint64_t ptr;
    int64_t zone;
} request_t;

typedef struct {
    int64_t status;
    uint64_t ptr;
} answer_t;

/* For another rank, the own zone of this rank is that of its initialising thread. */
static int zone_for_peer(int64_t zone)
{
    int own = -1;
    if (zone != PGAS_ZONE_OWN)
        return zone < INT_MIN || zone > INT_MAX ? PGAS_ZONE_NONE - 1 : (int)zone;
    return pgasi_thread_zone(0, &own) && own >= 0 ? PGAS_ZONE(own) : PGAS_ZONE_NONE;
}

static void on_alloc(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)source;
    (void)context;
    request_t r;
    answer_t a = { PGAS_ERR_INVALID, PGAS_NULL };
    if (bytes == sizeof r) {
        memcpy(&r, args, sizeof r);
        a.status = r.bytes ? pgasi_block_alloc(zone_for_peer(r.zone), r.bytes, &a.ptr)
                           : pgasi_block_free(r.ptr);
    }
    pgasi_reply(&a, sizeof a);
}

static pgas_status_t ask(int rank, const request_t *r, answer_t *a_p)
{
    pgas_status_t status = pgasi_ask(rank, PGASI_DESC_ALLOC, r, sizeof *r, a_p, sizeof *a_p);
    return status == PGAS_OK ? (pgas_status_t)a_p->status : status;
}

pgas_status_t pgas_alloc_on(int rank, int zone, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!ptr_p || zone < PGAS_ZONE_NONE)
        return PGAS_ERR_INVALID;
    if (rank < 0 || rank >= pgasi_boot.n_ranks)
        return PGAS_ERR_RANGE;
    if (rank == pgasi_boot.rank)
        return pgasi_block_alloc(zone, bytes, ptr_p);
    request_t r = { bytes, PGAS_NULL, zone };
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
        return pgasi_block_free(ptr);
    request_t r = { 0, ptr, PGAS_ZONE_NONE };
    answer_t a;
    if (pgasi_self.in_handler)
        return pgasi_sendq_call(rank, PGASI_DESC_ALLOC, &r, sizeof r, NULL, PGAS_FULL_WAIT);
    return ask(rank, &r, &a);
}

void pgasi_alloc_on_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_ALLOC, on_alloc);
    pgasi_hooks.alloc_on = pgas_alloc_on;
    pgasi_hooks.free_on = pgas_free_on;
}
