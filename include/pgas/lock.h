/** Locks between threads of different ranks.
 *
 *      pgas_lock_t lock = 0;
 *      if (pgas_rank() == 0)
 *          pgas_lock_create(&lock);                          rank 0 is its owner
 *      pgas_broadcast(NULL, &lock, sizeof lock, 0);          its name is a number
 *      pgas_lock_acquire(lock, -1, NULL);
 *      update_shared_data();
 *      pgas_flush_all();                                     the next holder sees the changes
 *      pgas_lock_release(lock);
 *
 *  A lock is in its owner's memory. Threads of that node take a free lock by one atomic. Others
 *  ask the owner, and so do threads of the node if another one has the lock for some microseconds.
 *  They wait in a queue that nobody overtakes. With PGAS_ON_PEER_DEATH=continue, if the rank of the
 *  holder dies, the next thread gets it and is informed (broken_p). If the owner dies, it is lost.
 *
 *  Threads are attached; otherwise all functions return PGAS_ERR_CONTEXT. All may return
 *  PGAS_ERR_NOT_INIT, PGAS_ERR_NO_MEMORY, PGAS_ERR_PEER (the owner died), PGAS_ERR_INVALID (not the
 *  name of a lock), and all but release PGAS_ERR_NOT_FOUND (no such lock).
 *
 *  Source: queue locks (Mellor-Crummey and Scott 1991). Here the owner keeps the queue, so that the
 *  death of a waiting rank cannot break it. */
#ifndef PGAS_LOCK_H
#define PGAS_LOCK_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** The name of a lock, valid on all ranks; 0 is none. */
typedef uint64_t pgas_lock_t;

/** Creates a lock whose owner is the calling rank, also in handlers.
 *  @return PGAS_ERR_INVALID  lock_p is NULL
 *          PGAS_ERR_LIMIT    the calling rank owns 2^20 locks */
PGAS_API pgas_status_t pgas_lock_create(pgas_lock_t *lock_p);

/** Destroys a lock of the calling rank. Its name is never given to another lock. 0 is ignored.
 *  @return PGAS_ERR_BUSY   a thread has it, or its release has not arrived; nothing has happened
 *          PGAS_ERR_RANGE  another rank owns it */
PGAS_API pgas_status_t pgas_lock_destroy(pgas_lock_t lock);

/** Waits, with progress, until the calling thread has the lock.
 *  Shape:  any attached thread, and blocking handlers, which release it before they return.
 *  Units:  timeout_us negative: for ever; 0: it does not wait for another holder.
 *  Done:   operations that earlier holders completed remotely (pgas_flush) under the lock are
 *          visible. *broken_p (may be NULL) is true if the last holder died with the lock; the data
 *          that it protects may then be half changed.
 *  Cost:   for a free lock one atomic on the owner's node, except for the thread's first use of the
 *          lock, otherwise one round trip; for others one message after the release.
 *  @return PGAS_OK            the thread has the lock; with another status it does not
 *          PGAS_ERR_BUSY      timeout_us is 0, and another thread has the lock
 *          PGAS_ERR_TIMEOUT   the time is over; the request is cancelled
 *          PGAS_ERR_DEADLOCK  the thread already has the lock
 *          PGAS_ERR_CONTEXT   also in a plain handler */
PGAS_API pgas_status_t pgas_lock_acquire(pgas_lock_t lock, int64_t timeout_us, bool *broken_p);

/** Releases the lock to the next thread.
 *  Shape:  the thread that has it. Before the release it must flush (pgas_flush_all) the puts and
 *          atomics that the next holder shall see.
 *  Cost:   on the owner's node one atomic if nobody waits, otherwise one message, which is not
 *          waited for; none at the owner, which ignores a release by any other thread and logs it.
 *  @return PGAS_ERR_CONTEXT  also in a plain handler */
PGAS_API pgas_status_t pgas_lock_release(pgas_lock_t lock);

PGAS_END_DECLS
#endif
