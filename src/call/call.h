/** Functions of this folder that the folders above use, and that belong to no other header. */
#ifndef PGASI_CALL_H
#define PGASI_CALL_H

#include <stdint.h>
#include "pgas/status.h"

/** Publishes the calls that the calling thread has gathered, and waits until all that it has issued
 *  has been sent. The thread may then stay away from the library, although no other thread makes
 *  progress on its context. It must not be called in a handler. */
pgas_status_t pgasi_call_complete(void);

/** Drops the call that the thread has begun with pgas_call_begin, if there is one. It is called
 *  when the thread leaves, or when its handler has ended. */
void pgasi_call_forget(void);

/** Opens the inline parts of pgas_call and pgas_agg_call to the calling thread. The thread must
 *  have a context and a send queue of its own; otherwise nothing happens. */
void pgasi_call_path_open(void);

/** Work that quiescence waits for and that no channel counts: calls whose buffers are being read,
 *  and replies that are being put. A reader reads `ended` first. */
typedef struct {
    uint64_t begun, ended;
} pgasi_quiesce_t;
extern pgasi_quiesce_t pgasi_quiesce;

#endif
