/** Handler threads run handlers that may wait, and other work that must not delay the thread that
 *  serves the rank.
 *
 *  Handler threads are attached like the program's own threads; they take slots from the upper end.
 *  A thread is started when there is work and no handler thread is idle, up to
 *  PGAS_HANDLER_THREADS.
 *
 *  Handlers that may wait run one at a time: the thread that runs one holds the run token. It gives
 *  the token to another thread while its handler waits. So these handlers start in the order in
 *  which their calls arrived. */
#ifndef PGASI_TASK_H
#define PGASI_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "msg/dispatch.h"
#include "pgas/status.h"

pgas_status_t pgasi_tasks_start(void);
void pgasi_tasks_stop(void); /* to be called after quiescence */

/** Runs fn(arg) on a handler thread, without the run token. Any thread may call it, also in
 *  handlers. */
pgas_status_t pgasi_task_submit(void (*fn)(void *arg), void *arg);
/** Runs fn(arg) as if it were a call of a handler that may wait: with the run token, in the order
 *  of those calls. spawn: as a spawned call, without the run token. */
pgas_status_t pgasi_task_submit_call(void (*fn)(void *arg), void *arg, bool spawn);

/** Copies the arguments, runs the handler on a handler thread, and then answers. wire is the call's
 *  token as in sync.h; 0: no thread waits. A spawned call runs without the run token, on a thread
 *  of its own. */
typedef struct {
    const pgasi_handler_entry_t *entry;
    pgas_thread_t source;
    uint32_t handler;
    bool spawn;
    uint64_t wire;
} pgasi_task_call_t;
void pgasi_task_call(const pgasi_task_call_t *call, const void *args, size_t bytes);

/** The number of tasks that have been submitted and have not ended. Quiescence reads it. */
uint64_t pgasi_tasks_pending(void);
/** The greatest number of handler threads since start. */
int pgasi_tasks_threads(void);

#endif
