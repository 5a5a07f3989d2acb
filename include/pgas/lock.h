/** Locks between threads of different ranks.
 *
 *  A lock lives at the rank that made it. Threads that want it stand in a queue there, first come,
 *  first served; whoever releases it hands it to the next. Its name may be sent to other ranks like
 *  any number.
 *
 *  With PGAS_ON_PEER_DEATH=continue the lock of a rank that died goes on to the next in the queue,
 *  who is told so; with the rank where it lives the lock is gone.
 *
 *  Source: queue locks (Mellor-Crummey and Scott 1991), with the queue kept by the owner, so that
 *  the death of a waiting rank cannot cut it. */
#ifndef PGAS_LOCK_H
#define PGAS_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The name of a lock, valid on all ranks; 0 is none. */
typedef uint64_t pgas_lock_t;

/** Makes a lock that lives at the calling rank. Any attached thread, also in handlers.
 *  Owns:   pgas_lock_destroy, else the end of the library.
 *  @return PGAS_OK, PGAS_ERR_INVALID (null), PGAS_ERR_NO_MEMORY, PGAS_ERR_LIMIT (2^20 locks live
 *          here), PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT (thread not attached). */
PGAS_API pgas_status_t pgas_lock_create(pgas_lock_t *lock_p);

/** Ends it; its name is never given to another. Any thread of the rank where it lives.
 *  @return PGAS_OK; PGAS_ERR_BUSY (somebody has it); PGAS_ERR_RANGE (it lives elsewhere);
 *  PGAS_ERR_NOT_FOUND. */
PGAS_API pgas_status_t pgas_lock_destroy(pgas_lock_t lock);

/** Waits, with progress, until the calling thread has the lock; timeout_us < 0: for ever.
 *  Shape:  any attached thread; in handlers only those that may block, which give it back before
 *          they return.
 *  Done:   what was done under the lock before, and completed remotely (pgas_flush), is visible.
 *          *broken_p (may be NULL) is true if the last who had it died with it: what it protects
 *          may be half done. At a time-out the request is taken back; if the lock arrives first
 *          after all, PGAS_OK.
 *  Cost:   one round trip if it is free, else half of one after the release. At the owner a queue
 *          entry for who waits.
 *  @return PGAS_OK; PGAS_ERR_TIMEOUT; PGAS_ERR_DEADLOCK (the thread has it); PGAS_ERR_NOT_FOUND (no
 *          such lock); PGAS_ERR_PEER (the rank where it lives died); PGAS_ERR_NO_MEMORY (there);
 *          PGAS_ERR_CONTEXT; PGAS_ERR_INVALID (no name of a lock). The thread has the lock with
 *          PGAS_OK alone. */
PGAS_API pgas_status_t pgas_lock_acquire(pgas_lock_t lock, int64_t timeout_us, bool *broken_p);

/** As pgas_lock_acquire, but PGAS_ERR_BUSY if somebody has it. Waits for the answer. */
PGAS_API pgas_status_t pgas_lock_try(pgas_lock_t lock, bool *broken_p);

/** Gives it to the next. By the thread that has it, which flushes first what it has put for others
 *  to see.
 *  Cost:   one message, not waited for. Whether the thread has the lock only the owner knows: if
 *          not, nothing happens but a line of its log, once.
 *  @return PGAS_OK, PGAS_ERR_INVALID (no name of a lock), PGAS_ERR_PEER, PGAS_ERR_CONTEXT (as
 *  above). */
PGAS_API pgas_status_t pgas_lock_release(pgas_lock_t lock);

PGAS_END_DECLS
#endif
