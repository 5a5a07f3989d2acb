/** Threads of this rank: slots, contexts, and what the calling thread may do at the moment. */
#ifndef PGASI_THREAD_H
#define PGASI_THREAD_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/runtime.h"
#include "pgas/status.h"

struct pgasi_ctx;

typedef struct {
    uint64_t epoch; /* in which it attached; 0: it has not */
    int slot;
    int n_attached;        /* nested attaches */
    struct pgasi_ctx *ctx; /* what it issues through outside of handlers */
    struct pgasi_sendq
        *sendq;     /* that of its own context, once it has one; NULL on a shared context */
    bool in_task;   /* it runs a handler that may wait */
    int in_handler; /* depth of handlers on this thread's stack: it then issues through: */
    int ep;         /* at which calls for this thread arrive; 0: none */
    struct pgasi_ctx *handler_ctx;
    struct pgasi_ctx *ep_ctx;  /* for handlers that run for this thread alone */
    struct pgasi_rings *rings; /* its allocators of registered memory; NULL until used */
} pgasi_thread_t;

/** The calling thread's record; zero until it attaches. */
extern __thread pgasi_thread_t pgasi_self __attribute__((tls_model("initial-exec")));

#define PGASI_SLOT_NONE 4094

/** Changes at init and at finalize. A thread that was attached before the change counts as not
 *  attached, by its old epoch. */
extern uint64_t pgasi_epoch;

static inline bool pgasi_thread_attached(void)
{
    return pgasi_self.epoch == pgasi_epoch;
}

/** True between init and finalize; every entry point looks here first. */
extern bool pgasi_running;

/** Attaches the initialising thread as slot 0 / forgets all threads. */
pgas_status_t pgasi_thread_start(void);
void pgasi_thread_stop(void);

/** What the calling thread issues calls through at the moment. */
static inline struct pgasi_ctx *pgasi_thread_ctx(void)
{
    return pgasi_self.in_handler ? pgasi_self.handler_ctx : pgasi_self.ctx;
}

/** As pgas_thread_attach, with the highest free slot: for threads of the library. */
pgas_status_t pgasi_thread_attach_high(void);

/** As pgas_thread_detach, for those. */
pgas_status_t pgasi_thread_detach(void);

/** The job ends: no thread of the program attaches or detaches from now on; waits for those that
 *  are about it. */
void pgasi_thread_close_gate(void);

/** Takes a slot that nobody has, so that no thread gets it; false if somebody has. */
bool pgasi_slot_reserve(int slot);
void pgasi_slot_release(int slot);
/** The slots of the program's threads that are attached now, ascending; not those of handler
 *  threads and consumers. Returns how many, at most room of them stored. */
int pgasi_thread_slots(uint16_t *slots_p, int room);

/** Whether a thread with this slot is attached; *zone_p: the NUMA zone where it attached, by
 *  hwloc's logical number, -1 if unknown or the machine has one only. */
bool pgasi_thread_zone(int slot, int *zone_p);

/** Gives a service thread its identity: slot PGAS_SLOT_SERVICE, context 0. */
void pgasi_thread_be_service(void);

/** OK if the caller may issue: library running, thread attached. */
static inline pgas_status_t pgasi_thread_check(void)
{
    if (PGAS_LIKELY(pgasi_thread_attached()))
        return PGAS_OK;
    return pgasi_running ? PGAS_ERR_CONTEXT : PGAS_ERR_NOT_INIT;
}

/** OK if the caller may also wait: not inside a handler. */
static inline pgas_status_t pgasi_thread_check_wait(void)
{
    pgas_status_t status = pgasi_thread_check();
    return status == PGAS_OK && pgasi_self.in_handler ? PGAS_ERR_CONTEXT : status;
}

#endif
