/** Remote calls: a rank, a thread, a service or a team runs a registered C function (a handler).
 *
 *      pgas_call(7, add, &amount, sizeof amount, NULL);          rank 7 runs add; no thread waits
 *      pgas_call(7, add, &amount, sizeof amount, &done);         `done` counts it until it has run
 *      pgas_call_return(7, count, &key, sizeof key, &n, sizeof n);            waits for a result
 *      pgas_call_to(pgas_on_team(NULL), stop, NULL, 0, NULL);                 every rank runs stop
 *      pgas_quiesce();                                        all calls of all ranks have run
 *
 *  pgas/handler.h makes handlers and typed calls. pgas/agg.h gathers many small calls.
 *
 *  Which thread runs an incoming call:
 *  | target           | the call runs on                                                      |
 *  | pgas_on_rank     | any thread of the rank that is inside a blocking call or              |
 *  |                  | pgas_progress, otherwise its service thread                           |
 *  | pgas_on_service  | the service thread; if there is none, as for a rank                   |
 *  | pgas_on_thread   | that thread while it is inside the library, a thread that calls       |
 *  |                  | pgas_progress_for, or a consumer thread                               |
 *  | pgas_on_team     | on every rank of the team once, as for a rank                         |
 *  | pgas_on_team_    | on every rank of the team once on each thread of the program that is  |
 *  | threads          | attached when the call reaches the rank                               |
 *
 *  Order. Calls of one thread to one target in one way run in the order issued, one at a time.
 *  Handlers of one target never overlap. They may overlap with the program's own threads and with
 *  handlers of other targets. Broadcasts (calls to teams) of one thread to one team run in the
 *  order issued on each rank. Broadcasts with buffers keep no order, nor do broadcasts and other
 *  calls.
 *
 *  Blocking handlers run on a handler thread, an attached thread of the library. They start in the
 *  order issued. One of them runs at a time; while one waits, another runs. At most
 *  PGAS_HANDLER_THREADS of a rank wait or run at one time; further calls occupy memory until one
 *  ends. If the handlers that wait need those calls, the wait never ends; the log says so once.
 *  Buffers of a call that waits count towards PGAS_BUFFER_LIMIT. If ranks wait for each other with
 *  that many, the wait never ends, either.
 *
 *  What a handler may do:
 *  | function                                             | plain handler    | blocking handler |
 *  | pgas_call, pgas_call_to, pgas_call_return_nb,        | yes, see below   | yes              |
 *  | pgas_reply; without pushes to other nodes, and       |                  |                  |
 *  | without buffers to a team                            |                  |                  |
 *  | these pushes and buffers; pgas_call_return           | PGAS_ERR_CONTEXT | yes              |
 *  | pgas_agg_call with an aggregator for handlers        | target is a rank | PGAS_ERR_CONTEXT |
 *  | put, get, atomics within the node; pgas_alloc_on     | yes              | yes              |
 *  | put, get, atomics to other nodes or to memory that   | PGAS_ERR_CONTEXT | yes              |
 *  | another rank attached; flush; locks; allocation and  |                  |                  |
 *  | objects on another rank; waits for a counter         |                  |                  |
 *  | pgas_progress                                        | returns 0        | yes              |
 *  | pgas_thread_attach, pgas_thread_detach               | PGAS_ERR_CONTEXT | yes, they nest   |
 *  | collectives, pgas_quiesce, pgas_init, pgas_finalize  | PGAS_ERR_CONTEXT | PGAS_ERR_CONTEXT |
 *  A plain handler does not wait for room at a peer: the library queues its calls, up to
 *  PGAS_BACKLOG_LIMIT bytes, then they return PGAS_ERR_AGAIN.
 *
 *  Statuses of every call. With an error the call is not accepted, and counters are unchanged.
 *      PGAS_ERR_CONTEXT      the thread is not attached, or the table above forbids the call
 *      PGAS_ERR_RANGE        no such rank, or a push to an address that is not at the target
 *      PGAS_ERR_NOT_FOUND    no such handler
 *      PGAS_ERR_BUSY         the thread is building a call to the target (pgas_call_begin)
 *      PGAS_ERR_INVALID      NULL with a size, an unknown option, or two that exclude each other
 *      PGAS_ERR_UNSUPPORTED  the target cannot have this option
 *      PGAS_ERR_LIMIT        bytes exceeds PGAS_CALL_MAX, or another limit below is exceeded
 *      PGAS_ERR_AGAIN        there is no room, and the options or the handler do not allow to wait
 *      PGAS_ERR_PEER (the rank died), PGAS_ERR_TRANSPORT (no connection to it), PGAS_ERR_NO_MEMORY
 *  Errors of accepted calls, which the counter reports:
 *      PGAS_ERR_PEER         the target died before it answered, or the thread has left
 *      PGAS_ERR_NOT_FOUND    the target does not know the handler
 *      PGAS_ERR_MISMATCH     the handler gave no result, or one of another size
 *      PGAS_ERR_NO_MEMORY    the target had no memory for a buffer; the handler did not run
 *  Calls without a counter to a dead rank, or to a thread that has left, are dropped. Such calls to
 *  threads are counted, and the first one is logged. Deaths: PGAS_ON_PEER_DEATH.
 *
 *  Source: Seriema (calls in both ways, buffers, broadcasts, synchronizers). */
#ifndef PGAS_CALL_H
#define PGAS_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "pgas/gptr.h"
#include "pgas/handler.h"
#include "pgas/runtime.h"
#include "pgas/status.h"
#include "pgas/sync.h"
#include "pgas/team.h"

PGAS_BEGIN_DECLS

/** Runs handler(args) on a rank, which may be the caller's own.
 *  Units:  bytes up to PGAS_CALL_MAX (default 8 KiB).
 *  Done:   on return args are copied. *executed (may be NULL) completes when the handler has run.
 *          If the target has no room, the call waits, with progress.
 *  Cost:   on the node a copy into the receiver's memory and a release store. Between nodes the
 *          same, two puts, or one active message; pgas_channel_info reports which. */
PGAS_INLINE pgas_status_t pgas_call(int rank, pgas_handler_t handler, const void *args,
                                    size_t bytes, pgas_sync_t *executed);

/* ---- targets ---- */

/** Where a call runs. The functions below make it; the table above says what each one means. */
typedef struct {
    int rank;
    int slot; /* negative: the team */
    pgas_team_t *team;
} pgas_target_t;
#define PGAS_TARGET_TEAM         (-1)
#define PGAS_TARGET_TEAM_THREADS (-2)

PGAS_INLINE pgas_target_t pgas_on_rank(int rank);
PGAS_INLINE pgas_target_t pgas_on_service(int rank);
/** The slot is below PGAS_LANES, otherwise calls return PGAS_ERR_LIMIT. A call to a slot that no
 *  thread has had yet waits for one. */
PGAS_INLINE pgas_target_t pgas_on_thread(pgas_thread_t thread);
/** The caller is a member of the team; NULL: all ranks. The team must stay until the broadcasts to
 *  it have ended. */
PGAS_INLINE pgas_target_t pgas_on_team(pgas_team_t *team);
PGAS_INLINE pgas_target_t pgas_on_team_threads(pgas_team_t *team);

/* ---- options ---- */

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
    /* As a message of a context that the threads share; nothing is set up. The thread need not be
     * attached; then it appears as slot 4094. */
    PGAS_WAY_SEND
} pgas_way_t;

/** How a buffer gets to the target. */
typedef enum {
    PGAS_BUFFER_COPY, /* it travels with the call; reusable on return */
    /* The caller writes it to an address of the target; reusable on return. At a team each rank
     * writes it to the same place of the symmetric heap of its children in the tree. */
    PGAS_BUFFER_PUSH,
    PGAS_BUFFER_PULL,   /* the target reads it when it is ready; unchanged until local completion */
    PGAS_BUFFER_SCATTER /* teams only: each rank gets a piece of its own; reusable on return */
} pgas_buffer_mode_t;

/** A buffer. Fields that do not apply to its mode are ignored. */
typedef struct {
    pgas_buffer_mode_t mode;
    const void *address; /* may be NULL if bytes is 0 */
    size_t bytes;        /* SCATTER: of every piece, if bytes_of is NULL */
    pgas_gptr_t target;  /* PUSH: the destination, at the target; at a team for any rank */
    bool helper;         /* PULL: a thread of its own reads it, not the one that serves the rank */
    const size_t *bytes_of; /* SCATTER: bytes of each rank's piece; the pieces follow each other */
} pgas_buffer_t;

/** The most buffers of one call. */
#define PGAS_BUFFERS_MAX 64
/** The most acknowledged broadcasts of one rank at one time; further ones wait. */
#define PGAS_BROADCASTS_MAX 32

/** Options; zero means default. PGAS_CALL_OPTS(.sync = &done, .full = PGAS_FULL_AGAIN) makes a
 *  pointer to options in C. */
typedef struct {
    size_t size;       /* as in pgas_init_opts_t */
    pgas_sync_t *sync; /* completes as `when` says; may be NULL */
    pgas_when_t when;
    pgas_full_t full;
    pgas_way_t way;
    bool spawn; /* a thread of its own runs the handler: it starts for it, is attached, and ends */
    const pgas_buffer_t *buffers; /* they travel with the call */
    size_t n_buffers;
    pgas_sync_t *local; /* a second counter: completes when the buffers may be reused */
    void *result;       /* NULL: none; otherwise what the handler gives to pgas_reply */
    size_t result_bytes;
} pgas_call_opts_t;
#define PGAS_CALL_OPTS_INIT                                                                        \
    {                                                                                              \
        sizeof(pgas_call_opts_t), NULL, PGAS_EXECUTED, PGAS_FULL_WAIT, PGAS_WAY_WRITE, 0, NULL, 0, \
            NULL, NULL, 0                                                                          \
    }
#define PGAS_CALL_OPTS(...) \
    (&(const pgas_call_opts_t){ .size = sizeof(pgas_call_opts_t), __VA_ARGS__ })

/** Runs handler(args) at a target. opts NULL: defaults.
 *  Shape:  spawn: on ranks and teams. result: not for teams (PGAS_ERR_UNSUPPORTED); it needs sync
 *          and PGAS_EXECUTED (otherwise PGAS_ERR_INVALID). SCATTER: teams only (PGAS_ERR_INVALID).
 *          A team takes one buffer, or several to copy or pull (PGAS_ERR_UNSUPPORTED). local and a
 *          sync with PGAS_LOCAL exclude each other (PGAS_ERR_INVALID).
 *  Units:  bytes up to PGAS_CALL_MAX; 8 less with spawn, 24 less for threads of a team, 64 less
 *          with a buffer for a team. Buffers to copy, and those to pull, up to PGAS_BUFFER_LIMIT
 *          bytes in sum; for teams as large as the heaps. result_bytes up to PGAS_BUFFER_LIMIT and
 *          less than 4 GiB.
 *  Done:   on return args are copied. The handler runs once at each place when all buffers are
 *          there. The result is complete before sync reports. Calls with a pulled buffer run in the
 *          order issued among themselves; other calls may overtake them. Pieces of a call after the
 *          first wait for room in spite of PGAS_FULL_AGAIN. A rank may have 256 open pulls, further
 *          ones wait.
 *          At a team sync completes once, with the first error among ranks. A rank that is known to
 *          be dead is skipped, and the ranks below it run. Ranks below one that dies meanwhile may
 *          not have run. Threads in slots from PGAS_LANES on do not run it (PGAS_ERR_LIMIT). The
 *          way applies to the caller's messages.
 *  Owns:   result, and pulled buffers until local completion. At a team a pulled buffer is read in
 *          place if peers reach it (pgas_gptr_of), sync waits for more than PGAS_LOCAL, and there
 *          is no local; otherwise it is copied to the heap, and may be reused on return.
 *  Cost:   plain calls as pgas_call. copy: as pgas_call, if the sum is below 16 KiB and below a
 *          quarter of a chunk; otherwise a message for each such piece, and an allocation for each
 *          buffer. push: a put, and to other nodes a flush. pull: as copy up to 1 KiB; otherwise
 *          an allocation and a copy, between nodes one get from a segment or pieces on demand.
 *          Teams: a binomial tree, nodes grouped; no rank sends more than ceil(log2 N) messages.
 *          Without a counter every eighth broadcast is acknowledged.
 *          Large results are written directly to their place where the target reaches it. */
PGAS_API pgas_status_t pgas_call_to(pgas_target_t target, pgas_handler_t handler, const void *args,
                                    size_t bytes, const pgas_call_opts_t *opts);

/* ---- results ---- */

/** As pgas_call; waits until the handler has run, and stores its reply at result. */
PGAS_API pgas_status_t pgas_call_return(int rank, pgas_handler_t handler, const void *args,
                                        size_t bytes, void *result, size_t result_bytes);

/** As pgas_call_return, without waiting: the result is complete when sync reports. */
PGAS_INLINE pgas_status_t pgas_call_return_nb(int rank, pgas_handler_t handler, const void *args,
                                              size_t bytes, void *result, size_t result_bytes,
                                              pgas_sync_t *sync);

/** In a handler: replies to the call that is running, at most once. data is copied. If the caller
 *  wants no result, the reply is ignored.
 *  @return PGAS_ERR_CONTEXT  not in a handler, or the second reply
 *          PGAS_ERR_INVALID  data is NULL with a size
 *          PGAS_ERR_LIMIT    more than PGAS_CALL_MAX bytes, and than the caller wants */
PGAS_API pgas_status_t pgas_reply(const void *data, size_t bytes);

/* ---- buffers, in the handler ---- */

/** Returns the number of buffers of the call that is running. It is 0 outside of handlers. */
PGAS_API size_t pgas_buffer_count(void);

/** Gives buffer i, in the caller's order.
 *  Owns:   valid until the handler returns; aligned to 8. It may be written, except a copy or pull
 *          of a call to a team, which other ranks may be reading. A pushed buffer is where it was
 *          pushed to.
 *  @return PGAS_ERR_RANGE    no such buffer
 *          PGAS_ERR_INVALID  NULL */
PGAS_API pgas_status_t pgas_buffer_get(size_t i, void **address_p, size_t *bytes_p);

/** Takes a buffer that was not pushed: it remains valid, and the program frees it by free() of the
 *  C library. Memory of the library is handed over; a buffer that came in one piece is copied.
 *  @return as pgas_buffer_get; PGAS_ERR_INVALID also for a pushed buffer, and one taken before;
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_buffer_take(size_t i, void **address_p);

/* ---- in place ---- */

/** Begins a call to a rank, thread or service. The program writes its arguments directly into the
 *  channel or message. Each thread builds one call at a time. Teams, spawn, buffers and results
 *  give PGAS_ERR_UNSUPPORTED. A thread that is not attached must commit or abandon before it ends.
 *  Until then the thread's other calls to the target return PGAS_ERR_BUSY, except those by
 *  PGAS_WAY_SEND; its aggregators must not be used for that rank.
 *  Done:   *args_p has `bytes` bytes, aligned to 8, contents undefined.
 *  Cost:   on the node *args_p is in the target's memory, between nodes in the message. commit
 *          copies it in four cases: with PGAS_WAY_SEND, in a handler, on a thread without a context
 *          of its own, and while the channel has no room. */
PGAS_API pgas_status_t pgas_call_begin(pgas_target_t target, pgas_handler_t handler, size_t bytes,
                                       const pgas_call_opts_t *opts, void **args_p);

/** Sends the call that the thread has begun. With any error, including PGAS_ERR_AGAIN, it is
 *  dropped. It is also dropped when the thread detaches, or the handler that began it returns.
 *  @return as pgas_call_to; PGAS_ERR_NOT_FOUND also if the thread has begun none. */
PGAS_API pgas_status_t pgas_call_commit(void);

/** Drops the call that the thread has begun. @return as pgas_call_commit */
PGAS_API pgas_status_t pgas_call_abandon(void);

/* ---- channels ---- */

/** Sets up the calling thread's channel to a rank, thread or service. Without this the first call
 *  does so; to another node the sixteenth call. PGAS_FAR_CALLS says whether there are channels
 *  between nodes, PGAS_FAR_CHUNK_MEMORY limits their number. Otherwise calls are messages. */
PGAS_API pgas_status_t pgas_channel_open(pgas_target_t target);

/** Waits until all calls that the thread sent through the channel have run; of messages, until they
 *  have left. It then gives back the chunks that the channel took beyond its first ones, except the
 *  one in use. The next call opens the channel again. */
PGAS_API pgas_status_t pgas_channel_close(pgas_target_t target);

typedef struct {
    size_t size; /* set by the caller */
    bool open;
    /* calls are stored, or put, into chunks in the target's memory; if neither, calls are messages
     * and the fields below are 0 */
    bool stores, puts;
    uint64_t chunk_bytes;
    int n_chunks;            /* of the channel now */
    uint64_t sent, consumed; /* positions in bytes; a chunk that was left counts as a whole */
} pgas_channel_info_t;
PGAS_API pgas_status_t pgas_channel_info(pgas_target_t target, pgas_channel_info_t *info_p);

/* ---- threads that run calls for others ---- */

/** Runs the calls that have arrived for the thread of a slot of this rank, as its proxy, on any
 *  attached thread.
 *  @return the number of calls. It is 0 also in a handler, if another thread is running them, and
 *          for slots that have no calls of their own. */
PGAS_API int pgas_progress_for(int slot);

/** Starts library threads that run the calls for a slot of this rank, one of them at a time, in the
 *  order of each source. A free slot is then not given to any thread of the program.
 *  @return PGAS_ERR_CONTEXT    in a handler
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

/** Returns when all calls of all ranks, and the calls that those calls made, have run. It sends the
 *  caller's aggregated calls first. Collective over all ranks.
 *  Done:   it waits as long as any call waits: for a thread that stays outside of the library, or
 *          for a slot that no thread has had yet (logged once after a second). pgas_finalize runs
 *          the former in its own thread, and refuses the latter.
 *  Cost:   waves of allreduces that count calls (Mattern's four-counter method).
 *  @return PGAS_ERR_CONTEXT  as for collectives
 *          PGAS_ERR_PEER     a rank died */
static inline pgas_status_t pgas_quiesce(void);

/** Work of the program that quiescence waits for: queues of the rank from which calls come. */
typedef struct {
    /* Does some work, which may make calls and progress. Returns the number of pieces done; 0:
     * there is nothing to do now. */
    int (*run)(void *arg);
    void *arg;
    /* Any thread, also in handlers, adds to these two atomically. It adds to made before other
     * threads can see the work. It adds to ended when it has issued and flushed the calls that the
     * work caused. */
    uint64_t made, ended;
} pgas_work_t;

/** As pgas_quiesce; the calling thread calls work->run meanwhile, until all work of all ranks has
 *  ended. Each rank has its work, or NULL. Other threads may work at the same queues. */
PGAS_API pgas_status_t pgas_quiesce_work(pgas_work_t *work);

PGAS_END_DECLS

#include "pgas/detail/call.h"
#endif
