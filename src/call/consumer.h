/** Consumer threads at the end of the job. */
#ifndef PGASI_CONSUMER_H
#define PGASI_CONSUMER_H

#include <stdbool.h>

/** A slot has some: its calls still run when its thread leaves. */
bool pgasi_consumers_run(int slot);
/** Stops those that the program has left running; after quiescence. */
void pgasi_consumers_stop_all(void);

#endif
