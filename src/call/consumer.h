/** Consumer threads when a thread leaves, and at the end of the job. */
#ifndef PGASI_CONSUMER_H
#define PGASI_CONSUMER_H

#include <stdbool.h>

/** True if the slot has consumer threads: its calls still run when its thread leaves. */
bool pgasi_consumers_run(int slot);
/** Stops the consumer threads that the program has left running. To be called after quiescence. */
void pgasi_consumers_stop_all(void);

#endif
