/** Remote calls: a rank runs a registered C function (a handler) of another rank.
 *
 *      static pgas_handler_t add;                         registered by name, see pgas/handler.h
 *      int64_t amount = 5;
 *      pgas_call(7, add, &amount, sizeof amount, NULL);   rank 7 runs add; no thread waits for it
 *
 *      pgas_sync_t done;
 *      pgas_sync_init(&done, 1);
 *      pgas_call(7, add, &amount, sizeof amount, &done);
 *      pgas_sync_wait(&done, -1);                         add has run on rank 7
 *
 *      pgas_quiesce();                                    all calls of all ranks have run
 *
 *  pgas/handler.h gives calls whose arguments the compiler checks. pgas/agg.h gathers many small
 *  calls, pgas/buffer.h sends large arguments, pgas/broadcast.h calls all ranks.
 *
 *  Which thread runs an incoming call:
 *  | target                           | the call runs on                                      |
 *  | a rank                           | any thread of the rank that is inside a blocking call |
 *  |                                  | or pgas_progress, otherwise its service thread        |
 *  | its service (PGAS_SLOT_SERVICE)  | the service thread; if there is none, as for a rank   |
 *  | one thread (pgas_call_to)        | that thread while it is inside the library, a thread  |
 *  |                                  | that calls pgas_progress_for, or a consumer thread    |
 *
 *  Order. Calls of one thread to one target run in the order issued, one at a time. Handlers of one
 *  target never overlap. They may overlap with the program's own threads and with handlers of other
 *  targets.
 *
 *  Blocking handlers. A handler that is registered as blocking runs on a handler thread, an
 *  attached thread of the library. Blocking handlers start in the order issued. One of them runs at
 *  a time; while one waits, another runs. At most PGAS_HANDLER_THREADS of a rank wait or run at one
 *  time; further calls wait until one ends. If the handlers that wait need those further calls, the
 *  wait never ends; the log says once that all handler threads wait. Calls that wait for their turn
 *  occupy memory of the target, without a limit. A program that issues many such calls should
 *  therefore wait for a counter now and then.
 *
 *  What a handler may do:
 *  | function                                             | plain handler    | blocking handler |
 *  | pgas_call*, pgas_reply                               | yes, see below   | yes              |
 *  | pgas_call_buffer, except pushes to other nodes       | yes, see below   | yes              |
 *  | pgas_agg_call with an aggregator for handlers        | target is a rank | PGAS_ERR_CONTEXT |
 *  | pgas_call_broadcast                                  | yes, as calls    | yes              |
 *  | put, get, atomics within the node; pgas_alloc_on     | yes              | yes              |
 *  | put, get, atomics to other nodes or to memory that   | PGAS_ERR_CONTEXT | yes              |
 *  | another rank attached; flush                         |                  |                  |
 *  | pgas_sync_*, except pgas_sync_wait                   | yes              | yes              |
 *  | pgas_call_broadcast_buffer, pgas_lock_*;             | PGAS_ERR_CONTEXT | yes              |
 *  | pgas_alloc_on and pgas_object_call on another rank   |                  |                  |
 *  | pgas_sync_wait                                       | PGAS_ERR_CONTEXT | yes              |
 *  | pgas_progress                                        | returns 0        | yes              |
 *  | pgas_thread_attach, pgas_thread_detach               | PGAS_ERR_CONTEXT | yes, they nest   |
 *  | collectives, pgas_quiesce, pgas_init, pgas_finalize  | PGAS_ERR_CONTEXT | PGAS_ERR_CONTEXT |
 *  A plain handler does not wait for room at a peer: the library queues its calls, up to
 *  PGAS_BACKLOG_LIMIT bytes, then they return PGAS_ERR_AGAIN. pgas_call_buffer in a plain handler
 *  also returns PGAS_ERR_AGAIN while the rank has 256 open pulls.
 *
 *  Deaths, if PGAS_ON_PEER_DEATH=continue lets the job continue. Counters and replies that wait for
 *  a dead rank decrement with PGAS_ERR_PEER. Once a thread's rank has noticed the death, further
 *  calls to the dead rank return PGAS_ERR_PEER. Calls without a counter that are outstanding or
 *  collected in batches are lost silently. pgas_quiesce and every collective of a team with the
 *  dead rank return PGAS_ERR_PEER. A call either returns PGAS_ERR_PEER or decrements its counter
 *  with PGAS_ERR_PEER, never both.
 *
 *  Source: Seriema (send-based calls, aggregation in the style "trad"). */
#ifndef PGAS_CALL_H
#define PGAS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/handler.h"
#include "pgas/runtime.h"
#include "pgas/status.h"
#include "pgas/sync.h"

PGAS_BEGIN_DECLS

/** Runs handler(args) on a rank, which may be the caller's own.
 *  Shape:  any attached thread; handlers as in the table above.
 *  Units:  bytes up to PGAS_CALL_MAX (default 8 KiB).
 *  Done:   on return args are copied. *executed (may be NULL) decrements by one when the handler
 *          has run. If the target has no room, the call waits, with progress; inside a handler it
 *          is queued instead.
 *  Cost:   on the node a copy into the receiver's memory and a release store. Between nodes the
 *          same, two puts, or one active message; pgas_channel_query reports which. With executed
 *          an answer comes back, and a few atomic additions count the completions that each rank
 *          still has to report. That count takes 6 bytes per rank for each counter that is live at
 *          one time, allocated when the counter is first used so.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT   the library is not initialised
 *          PGAS_ERR_CONTEXT    the thread is not attached
 *          PGAS_ERR_RANGE      no such rank
 *          PGAS_ERR_NOT_FOUND  no such handler
 *          PGAS_ERR_BUSY       the thread is building a call to the target (pgas_call_begin)
 *          PGAS_ERR_INVALID    args is NULL with a size, or executed is not a live counter
 *          PGAS_ERR_LIMIT      bytes exceeds PGAS_CALL_MAX
 *          PGAS_ERR_PEER       the rank died
 *          PGAS_ERR_AGAIN      in a handler: the queue is full
 *          PGAS_ERR_NO_MEMORY
 *          With an error the call is not accepted and the counter is unchanged. */
PGAS_INLINE pgas_status_t pgas_call(int rank, pgas_handler_t handler, const void *args,
                                    size_t bytes, pgas_sync_t *executed);

/** As pgas_call, but returns PGAS_ERR_AGAIN instead of waiting for room. */
PGAS_INLINE pgas_status_t pgas_call_try(int rank, pgas_handler_t handler, const void *args,
                                        size_t bytes, pgas_sync_t *executed);

/* ---- options, targets ---- */

/** The completion that decrements a counter. */
typedef enum {
    PGAS_EXECUTED, /* the handler has run */
    /* The call has arrived at the target; the handler may not have run. On the node a call arrives
     * when it leaves the caller. On other nodes the target answers before it runs the handler, and
     * after it has run the calls that preceded it in the same message. The answer reports an
     * unknown handler, and a thread that has already left. If the thread leaves between arrival and
     * execution, the call is dropped silently. */
    PGAS_REMOTE,
    /* The caller's buffers may be reused. For arguments that is on return, so that the counter has
     * already decremented then. */
    PGAS_LOCAL
} pgas_when_t;

/** The behaviour of a call while the target has no room. */
typedef enum {
    PGAS_FULL_WAIT,  /* it waits, with progress; in a handler: as PGAS_FULL_QUEUE */
    PGAS_FULL_AGAIN, /* it returns PGAS_ERR_AGAIN, and nothing has happened */
    /* The library keeps a copy behind earlier waiting calls, in order, up to PGAS_BACKLOG_LIMIT
     * bytes of each thread; then the call returns PGAS_ERR_AGAIN. Any progress of the thread sends
     * the copies. With PGAS_WAY_SEND, or if the thread shares a context, progress of any thread of
     * the rank and the service thread send them. */
    PGAS_FULL_QUEUE
} pgas_full_t;

/** How a call travels. */
typedef enum {
    PGAS_WAY_WRITE, /* through the thread's own channel into memory of the target */
    PGAS_WAY_SEND   /* as a message of a context that the threads share; nothing is set up */
} pgas_way_t;

/** Options; zero means default. */
typedef struct {
    size_t size;       /* as in pgas_init_opts_t */
    pgas_sync_t *sync; /* decrements by one on completion; may be NULL */
    pgas_when_t when;  /* the completion that decrements it */
    pgas_full_t full;
    pgas_way_t way;
} pgas_call_opts_t;
#define PGAS_CALL_OPTS_INIT                                                           \
    {                                                                                 \
        sizeof(pgas_call_opts_t), NULL, PGAS_EXECUTED, PGAS_FULL_WAIT, PGAS_WAY_WRITE \
    }

/** As pgas_call, with options (NULL: defaults) and to a thread.
 *  Shape:  any attached thread; with PGAS_WAY_SEND also a thread that is not attached, which
 *          appears as slot 4094. target is (rank, slot) with a slot below PGAS_LANES, (rank,
 *          PGAS_SLOT_SERVICE), or (rank, PGAS_SLOT_ANY), which is as pgas_call.
 *  Done:   calls of one thread to one target in one way run in the order issued. A call to a thread
 *          runs as the table at the head of this file says. A call to a slot that no thread has had
 *          yet waits for one. If the call is accepted (PGAS_OK), the counter decrements by one,
 *          with one of these statuses in pgas_sync_error:
 *              PGAS_OK             the requested completion has been reached
 *              PGAS_ERR_PEER       the target died before it answered, or the thread has left
 *              PGAS_ERR_NOT_FOUND  the target does not know the handler
 *          A call without a counter, or one whose counter has already decremented, is dropped if
 *          the thread has left. Such calls are counted, and the first one is logged.
 *  @return as pgas_call;
 *          PGAS_ERR_INVALID  also for invalid options
 *          PGAS_ERR_LIMIT    also for slots from PGAS_LANES on */
PGAS_API pgas_status_t pgas_call_to(pgas_thread_t target, pgas_handler_t handler, const void *args,
                                    size_t bytes, const pgas_call_opts_t *opts);

/** Starts a thread on a rank that runs handler(args) and ends. The thread is attached, so the
 *  handler may do all that threads may do, except collectives.
 *  Done:   as pgas_call_to. PGAS_EXECUTED means that the handler has returned. pgas_quiesce and
 *          pgas_finalize wait for it.
 *  Cost:   a call, and a thread at the target. Threads are reused. At most PGAS_HANDLER_THREADS run
 *          at a time; further calls wait until one ends.
 *  @return as pgas_call_to; PGAS_ERR_LIMIT if bytes exceeds PGAS_CALL_MAX - 8. */
PGAS_API pgas_status_t pgas_spawn(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                  const pgas_call_opts_t *opts);

/* ---- replies ---- */

/** As pgas_call, and stores at reply what the handler gives to pgas_reply.
 *  Shape:  executed NULL: the call waits for the reply. A handler must give a counter.
 *  Units:  reply_bytes up to PGAS_BUFFER_LIMIT and less than 4 GiB. It may be 0; then reply may be
 *          NULL.
 *  Done:   reply is complete before *executed decrements. A handler that gives no reply, or one of
 *          another size, completes the call with PGAS_ERR_MISMATCH.
 *  Owns:   reply must stay until then.
 *  Cost:   as pgas_call. A reply larger than PGAS_CALL_MAX is written directly to its place, on the
 *          node by stores or process_vm_writev (PGAS_VM_READ). From another node it is put if the
 *          place is inside a segment. Otherwise it comes in pieces.
 *  @return as pgas_call;
 *          PGAS_ERR_CONTEXT   also in a handler if executed is NULL
 *          PGAS_ERR_INVALID   also if reply is NULL and reply_bytes is not 0
 *          PGAS_ERR_LIMIT     also if reply_bytes is too large
 *          PGAS_ERR_MISMATCH  executed is NULL and the reply has another size */
PGAS_API pgas_status_t pgas_call_return(int rank, pgas_handler_t handler, const void *args,
                                        size_t bytes, void *reply, size_t reply_bytes,
                                        pgas_sync_t *executed);

/** In a handler: replies to the call that is running. At most once for each call. If the caller
 *  does not expect a reply, it is ignored.
 *  Units:  bytes up to PGAS_CALL_MAX, or what the caller expects if that is more.
 *  Owns:   data is copied.
 *  @return PGAS_OK
 *          PGAS_ERR_CONTEXT  not in a handler, or the second reply
 *          PGAS_ERR_LIMIT    too large */
PGAS_API pgas_status_t pgas_reply(const void *data, size_t bytes);

/* ---- in place ---- */

/** Begins a call whose arguments the program writes directly into the channel or message.
 *  Shape:  threads as with pgas_call_to, one call at a time per thread. A thread that is not
 *          attached (PGAS_WAY_SEND) must commit or abandon the call before it ends. Until then the
 *          thread's other calls to the same target return PGAS_ERR_BUSY, except those by
 *          PGAS_WAY_SEND. Its aggregators must not be used for that rank.
 *  Done:   *args_p has `bytes` bytes, aligned to 8, contents undefined. It belongs to the caller
 *          until commit.
 *  Cost:   on the node *args_p is in the target's memory, under three conditions: the thread has a
 *          context of its own, it runs no handler, and the channel has room. Between nodes *args_p
 *          is in the message. Otherwise, and with PGAS_WAY_SEND always, it is a block that commit
 *          copies.
 *  @return as pgas_call_to; PGAS_ERR_BUSY also if the thread has already begun a call. */
PGAS_API pgas_status_t pgas_call_begin(pgas_thread_t target, pgas_handler_t handler, size_t bytes,
                                       const pgas_call_opts_t *opts, void **args_p);

/** Sends the call that the thread has begun. With any error, including PGAS_ERR_AGAIN, the call is
 *  dropped. The library also drops it if the thread detaches or ends the job, or if the blocking
 *  handler that began it returns.
 *  @return as pgas_call_to; PGAS_ERR_NOT_FOUND also if the thread, attached or not, has begun
 *          none. */
PGAS_API pgas_status_t pgas_call_commit(void);

/** Drops the call that the thread has begun. Nothing has happened then.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_FOUND  the thread has begun none */
PGAS_API pgas_status_t pgas_call_abandon(void);

/* ---- channels ---- */

/** Sets up the calling thread's channel to a target. Without this the first call does so; to
 *  another node the sixteenth call does.
 *  Shape:  no thread of the program takes part at the target. Between nodes its service does, and
 *          the call waits for it. PGAS_FAR_CALLS says whether there are channels between nodes.
 *          auto means: where memory of this host can be mapped, or an adapter carries out puts.
 *          PGAS_FAR_CHUNK_MEMORY limits their number. Where there is no channel, calls are
 *          messages.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_RANGE, PGAS_ERR_LIMIT  as pgas_call_to
 *          PGAS_ERR_NO_MEMORY
 *          PGAS_ERR_PEER  the target died */
PGAS_API pgas_status_t pgas_channel_open(pgas_thread_t target);

/** Drains the channel: waits until all calls that the thread sent through it have run. (Calls that
 *  travel as messages have only left.) Gives back the chunks that the channel took beyond its first
 *  ones, except the chunk in use. The next call opens the channel again.
 *  Cost:   the thread reads the target's position from the target's memory.
 *  @return as pgas_channel_open;
 *          PGAS_ERR_BUSY  the thread is building a call in the channel */
PGAS_API pgas_status_t pgas_channel_close(pgas_thread_t target);

typedef struct {
    bool open;
    /* calls are stored, or put, into chunks in the target's memory; if neither, calls are messages
     * and the fields below are 0 */
    bool stores, puts;
    uint64_t chunk_bytes;
    int n_chunks;            /* of the channel now */
    uint64_t sent, consumed; /* positions in bytes; a chunk that was left counts as a whole */
} pgas_channel_info_t;
/** Describes the channel. @return as pgas_channel_open; PGAS_ERR_INVALID if info_p is NULL. */
PGAS_API pgas_status_t pgas_channel_query(pgas_thread_t target, pgas_channel_info_t *info_p);

/* ---- threads that run calls for others ---- */

/** Runs the calls that have arrived for the thread of a slot of this rank, as its proxy.
 *  Shape:  any attached thread.
 *  @return the number of calls; 0 also if another thread is running them, in a handler, and for
 *          slots that have no calls of their own. */
PGAS_API int pgas_progress_for(int slot);

/** Starts library threads that run the calls for a slot of this rank. The slot belongs to a thread
 *  of the program, or is free; a free slot is then not given to any thread. One of the library
 *  threads at a time runs calls, in the order of each source.
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT
 *          PGAS_ERR_CONTEXT    in a handler
 *          PGAS_ERR_RANGE      no such slot
 *          PGAS_ERR_LIMIT      the slot is not below PGAS_LANES
 *          PGAS_ERR_INVALID    n_threads is not 1 .. 64
 *          PGAS_ERR_EXISTS     the slot has such threads
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_consumers_start(int slot, int n_threads);

/** Ends these threads after they have run the calls that are there. If no thread of the program has
 *  the slot, its thread counts as one that has left.
 *  @return as pgas_consumers_start; PGAS_ERR_NOT_FOUND if the slot has no such threads. */
PGAS_API pgas_status_t pgas_consumers_stop(int slot);

/* ---- quiescence ---- */

/** Returns when all calls of all ranks, and the calls that those calls made, have run.
 *  Shape:  collective over all ranks. It first sends the caller's aggregated calls.
 *  Done:   it waits as long as any call waits. A call to a slot that no thread has had yet is one
 *          case. After one second each rank with such calls logs their number and their slots,
 *          once. A call to a thread that stays outside of the library is another. (pgas_finalize
 *          runs the latter calls in its own thread, and refuses the former ones as if the thread
 *          had left.)
 *  Cost:   waves of allreduces that count calls (Mattern's four-counter method).
 *  @return PGAS_OK
 *          PGAS_ERR_NOT_INIT
 *          PGAS_ERR_CONTEXT  as for collectives
 *          PGAS_ERR_PEER     a rank died */
PGAS_API pgas_status_t pgas_quiesce(void);

/** Work of the program that quiescence waits for as it waits for calls: queues of the rank from
 *  which calls come. */
typedef struct {
    /** Does some work.
     *  Shape:  it may make calls and progress, but no collectives.
     *  @return the number of pieces of work done; 0 if there is nothing to do now. */
    int (*run)(void *arg);
    void *arg;
    /* Any thread, also in handlers, adds to these two atomically. It adds to made before other
     * threads can see the work. It adds to ended when the calls that the work caused have been
     * issued. Calls that a thread other than the caller has aggregated must have been flushed by
     * then. */
    uint64_t made, ended;
} pgas_work_t;

/** As pgas_quiesce, and runs work meanwhile: returns when all calls have run and all work of all
 *  ranks has ended.
 *  Shape:  collective over all ranks, each with its work or NULL. The calling thread calls
 *          work->run repeatedly until nothing is pending on any rank. Other threads may work at the
 *          same queues.
 *  @return as pgas_quiesce. */
PGAS_API pgas_status_t pgas_quiesce_work(pgas_work_t *work);

PGAS_END_DECLS

#include "pgas/detail/call.h"
#endif
