/* lock.h: one writer at a time. A word of each replica holds 0 or the writer; a writer has the lock
 * when it has the words of all replicas. */
#ifndef REPLOG_LOCK_H
#define REPLOG_LOCK_H

#include "store.h"

typedef struct {
    int64_t wait_us; /* for another writer */
    bool take_over;  /* takes the lock also from writers of other hosts, which the user knows to
                        be dead */
} replog_lock_opts_t;

/* Takes the lock, or ends the program with a message that names the holder. */
void replog_lock(replog_store_t *store, const replog_lock_opts_t *opts);
void replog_unlock(replog_store_t *store);

#endif
