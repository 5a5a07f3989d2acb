/** Handler threads: where handlers that may wait run, and what else must not hold up whoever
 *  serves.
 *
 *  They are attached threads like the program's own, with slots from the upper end, made when there
 *  is work and none of them is idle, up to PGAS_HANDLER_THREADS. Handlers that may wait run one at
 *  a time: each passes a run token on while it waits. So they start in the order in which their calls
 *  came. */
#ifndef PGASI_TASK_H
#define PGASI_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "call/handler.h"
#include "pgas/status.h"

pgas_status_t pgasi_tasks_start(void);
void pgasi_tasks_stop(void); /* after quiescence */

/** Runs fn(arg) on a handler thread, without the run token. Any thread, also in handlers. */
pgas_status_t pgasi_task_submit(void (*fn)(void *arg), void *arg);
/** The same in the place of a call of a handler that may wait: with the run token, in the order of
 *  those calls. */
pgas_status_t pgasi_task_submit_call(void (*fn)(void *arg), void *arg);

/** Runs a call of a handler that may wait, with copied arguments, and answers then (wire: as in
 *  sync.h; 0: nobody waits). spawn: without the run token, on a thread of its own. */
typedef struct {
    const pgasi_handler_entry_t *entry;
    pgas_thread_t source;
    uint32_t handler;
    bool spawn;
    uint64_t wire;
} pgasi_task_call_t;
void pgasi_task_call(const pgasi_task_call_t *call, const void *args, size_t bytes);

/** What has been submitted and has not ended, for quiescence. */
uint64_t pgasi_tasks_pending(void);
/** The most handler threads that there were at one time. */
int pgasi_tasks_threads(void);

#endif
