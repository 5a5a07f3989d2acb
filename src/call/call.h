/** What the calls' files share with the folders above. */
#ifndef PGASI_CALL_H
#define PGASI_CALL_H

#include <stdint.h>
#include "pgas/status.h"

/** Publishes what the calling thread has gathered and waits until all that it has issued has left.
 *  The thread may then stay away from the library, although nobody else progresses its context. Not
 *  in a handler. */
pgas_status_t pgasi_call_complete(void);

/** Drops the call that the thread has begun (pgas_call_begin), if it has one. The thread leaves, or
 *  its handler has ended. */
void pgasi_call_forget(void);

/** Opens the inline parts of pgas_call and pgas_agg_call to the calling thread, if it has a context
 *  and send queue of its own. */
void pgasi_call_path_open(void);

/** Work that quiescence waits for and that no channel counts: calls whose buffers are being read,
 *  and replies that are being put. Readers read ended first. */
typedef struct {
    uint64_t begun, ended;
} pgasi_quiesce_t;
extern pgasi_quiesce_t pgasi_quiesce;

#endif
