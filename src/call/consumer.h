/** Consumer threads at the end of the job. */
#ifndef PGASI_CONSUMER_H
#define PGASI_CONSUMER_H

/** Stops those that the program has left running; after quiescence. */
void pgasi_consumers_stop_all(void);

#endif
