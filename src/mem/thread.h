/** Threads of this rank: their slots and contexts, and what the calling thread may do at the
 *  moment. */
#ifndef PGASI_THREAD_H
#define PGASI_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/runtime.h"
#include "pgas/status.h"

struct pgasi_ctx;

typedef struct {
    uint64_t epoch; /* epoch of the attach; 0: not attached */
    int slot;
    int n_attached;            /* nested attaches */
    struct pgasi_ctx *ctx;     /* through which it issues outside of handlers */
    struct pgasi_sendq *sendq; /* of its own context, once there is one; NULL on a shared context */
    bool in_task;              /* it runs a handler that may wait */
    /* depth of handlers on this thread's stack; it then issues through handler_ctx */
    int in_handler;
    int ep; /* endpoint at which calls for this thread arrive; 0: none */
    struct pgasi_ctx *handler_ctx;
    struct pgasi_ctx *ep_ctx; /* for handlers that run for this thread alone */
} pgasi_thread_t;

/** The calling thread's record; all zero until it attaches. */
extern __thread pgasi_thread_t pgasi_self __attribute__((tls_model("initial-exec")));

#define PGASI_SLOT_NONE 4094

/** Changes at init and at finalize. A thread that attached before the change has the old epoch, and
 *  counts as not attached. */
extern uint64_t pgasi_epoch;

static inline bool pgasi_thread_attached(void)
{
    return pgasi_self.epoch == pgasi_epoch;
}

/** True between init and finalize. Every public function reads it first. */
extern bool pgasi_running;
extern bool pgasi_leaving; /* pgas_finalize has begun: peers may leave */

/** start attaches the initialising thread as slot 0. stop detaches all threads. */
pgas_status_t pgasi_thread_start(void);
void pgasi_thread_stop(void);

/** Returns the context through which the calling thread issues calls at the moment. */
static inline struct pgasi_ctx *pgasi_thread_ctx(void)
{
    return pgasi_self.in_handler ? pgasi_self.handler_ctx : pgasi_self.ctx;
}

/** Attaches a thread of the library: as pgas_thread_attach, with the highest free slot. */
pgas_status_t pgasi_thread_attach_high(void);

/** Detaches such a thread: as pgas_thread_detach. */
pgas_status_t pgasi_thread_detach(void);

/** The job ends: from now on no thread of the program attaches or detaches. The function waits for
 *  threads that are doing so. */
void pgasi_thread_close_gate(void);

/** Takes a free slot, so that no thread gets it. @return false: the slot is not free */
bool pgasi_slot_reserve(int slot);
void pgasi_slot_release(int slot);
/** Stores the slots of the program's threads that are attached now, ascending, without those of
 *  handler threads and consumers. @return their number, at most room */
int pgasi_thread_slots(uint16_t *slots_p, int room);

/** Whether a thread with this slot is attached. *zone_p: the NUMA zone in which it attached, by
 *  hwloc's logical number; -1: unknown, or the machine has only one. */
bool pgasi_thread_zone(int slot, int *zone_p);

/** Makes the calling thread a service thread: slot PGAS_SLOT_SERVICE, context 0. */
void pgasi_thread_be_service(void);

/** Whether the caller may issue operations.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT  the library is not running
 *          PGAS_ERR_CONTEXT   the thread is not attached */
static inline pgas_status_t pgasi_thread_check(void)
{
    if (PGAS_LIKELY(pgasi_thread_attached()))
        return PGAS_OK;
    return pgasi_running ? PGAS_ERR_CONTEXT : PGAS_ERR_NOT_INIT;
}

/** Whether the caller may also wait. @return as pgasi_thread_check; PGAS_ERR_CONTEXT also in a
 *  handler */
static inline pgas_status_t pgasi_thread_check_wait(void)
{
    pgas_status_t status = pgasi_thread_check();
    return status == PGAS_OK && pgasi_self.in_handler ? PGAS_ERR_CONTEXT : status;
}

#endif
