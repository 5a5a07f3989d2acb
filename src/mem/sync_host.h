/** Between start and stop, waits for counters make the job's progress (base/sync.h). */
#ifndef PGASI_SYNC_HOST_H
#define PGASI_SYNC_HOST_H

/** The hook progress is set, and the wakeup flags do not move any more until stop. */
void pgasi_sync_host_start(void);
void pgasi_sync_host_stop(void);

#endif
