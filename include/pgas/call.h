/** Remote calls: handlers named by text, calls to ranks, replies, completion, aggregation,
 *  quiescence.
 *
 *  Who runs an incoming call: what is for a rank, any of its threads that is inside a blocking call
 *  or pgas_progress, else its service thread; what is for the service, that thread alone (without
 *  one, as for a rank); what is for a thread, that thread inside the library, or who stands in for
 *  it. Calls of one thread to one target run in the order issued, one at a time; handlers of one
 *  target never overlap, but they may run at the same time as the program's own threads and as
 *  handlers of other targets. Handlers registered as blocking run on handler threads, which are
 *  attached threads of the library: they start in the order issued and run one at a time; while one
 *  waits, others run. At most PGAS_HANDLER_THREADS wait or run at one time: further calls wait for
 *  one to end, and if that waits for them, for ever (all waiting is logged once). Calls whose turn
 *  has not come lie in memory of the target without limit: who sends many lets a counter tell.
 *
 *  What a handler may do:
 *  |                                                      | plain            | blocking |
 *  | pgas_call*, pgas_reply                               | yes, see below   | yes      |
 *  | pgas_call_buffer, but for pushes to other nodes      | yes, see below   | yes      |
 *  | pgas_agg_call with an aggregator for handlers        | if for a rank    | CONTEXT  |
 *  | pgas_call_broadcast                                  | yes, as calls    | yes      |
 *  | put, get, atomics within the node; pgas_alloc_local  | yes              | yes      |
 *  | put, get, atomics to other nodes or to attached      | PGAS_ERR_CONTEXT | yes      |
 *  | memory; flush                                        |                  |          |
 *  | pgas_sync_* but wait                                 | yes              | yes      |
 *  | pgas_call_broadcast_buffer, pgas_lock_*;             | PGAS_ERR_CONTEXT | yes      |
 *  | pgas_alloc_on, pgas_delegate elsewhere               |                  |          |
 *  | pgas_sync_wait                                       | PGAS_ERR_CONTEXT | yes      |
 *  | pgas_progress                                        | 0                | yes      |
 *  | pgas_thread_attach, pgas_thread_detach               | PGAS_ERR_CONTEXT | nest     |
 *  | collectives, pgas_quiesce, pgas_init, pgas_finalize  | PGAS_ERR_CONTEXT | CONTEXT  |
 *  In plain handlers, calls are queued when the peer is full, up to PGAS_BACKLOG_LIMIT; then they
 *  give PGAS_ERR_AGAIN. So does pgas_call_buffer with 256 open pulls.
 *
 *  When a rank has died and PGAS_ON_PEER_DEATH=continue lets the others go on, what it owes,
 *  completions and replies, falls with PGAS_ERR_PEER; calls to it give PGAS_ERR_PEER from the next
 *  one on that a thread makes after the death was noticed; calls under way or gathered for it are
 *  lost in silence; pgas_quiesce and every collective of a team with it give PGAS_ERR_PEER. A call
 *  either gives PGAS_ERR_PEER or lets its counter fall with it, never both.
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

/* What the inline part of pgas_call looks at; the library's. */
typedef struct {
    uint64_t epoch; /* as in the path of a thread that may use it */
    uint32_t n_ranks, n_handlers;
} pgas_call_run_t;
PGAS_API extern pgas_call_run_t pgas_call_run;
typedef struct {
    /* the tail in the peer's chunk, or before it in the same block; up to where inline calls may
     * go */
    char *pos, *end;
    uint64_t phase; /* the bit of a header that shows a record in this phase */
    const uint32_t *sleepers;
    /* short calls since the thread last made progress: 0, 1, more; with more the tail is not
     * exact */
    uint64_t recent;
    char *sized_end; /* up to where calls of other sizes may go */
    uint64_t sized;  /* 1: there are such in this chunk */
} pgas_call_window_t;
typedef struct {
    uint64_t epoch;             /* 0 in handlers, which have another way */
    pgas_call_window_t *window; /* by rank */
    uint64_t header;            /* of a call of 8 bytes of this thread, but for phase and handler */
    pgas_call_window_t *used;   /* the last window in which recent is not 0 */
    /* whose aggregators may be used: of PGAS_CALL_CONTEXT(the thread's slot), or of
     * PGAS_CALL_HANDLERS in handlers; 0: nobody's */
    uint64_t context;
} pgas_call_path_t;
#define PGAS_CALL_CONTEXT(slot) (UINT64_C(1) << 63 | ((uint64_t)(uint32_t)(slot) + 1) << 40)
#define PGAS_CALL_HANDLERS      (UINT64_C(0xFFFFFF) << 40)
#define PGAS_CALL_NOBODY        (UINT64_C(1) << 63)
PGAS_API extern __thread pgas_call_path_t pgas_call_path __attribute__((tls_model("initial-exec")));
#define PGAS_CALL_PHASE_EVEN (UINT64_C(1) << 63)
#define PGAS_CALL_PHASE_ODD  (UINT64_C(1) << 53)
PGAS_API void pgas_call_wake(int rank);
/* the lines of a block but its first, none of which holds anything yet */
PGAS_API void pgas_call_fetch(char *pos);
PGAS_API pgas_status_t pgas_call_far(int rank, pgas_handler_t handler, const void *args,
                                     size_t bytes, pgas_sync_t *executed);
PGAS_API pgas_status_t pgas_call_try_far(int rank, pgas_handler_t handler, const void *args,
                                         size_t bytes, pgas_sync_t *executed);

/* The tail of a window, from what is stored of it. That is exact where a line begins; else it is in
 * the block of the tail, and the marks of records stand between the two, most of them the one that
 * the caller is about to set. */
#define PGAS_CALL_BLOCK       256
#define PGAS_CALL_ROOM(bytes) (((size_t)(bytes) + 8 + 15) & ~(size_t)15)
PGAS_INLINE char *pgas_call_tail(char *pos, uint64_t phase, uint64_t usual, size_t usual_room)
{
    if ((uintptr_t)pos % 64 == 0)
        return pos;
    for (;;) {
        uint64_t header;
        while ((header = __atomic_load_n((uint64_t *)(void *)pos, __ATOMIC_RELAXED)) == usual)
            pos += usual_room; /* foretold, so that loads overlap */
        if ((header & (PGAS_CALL_PHASE_EVEN | PGAS_CALL_PHASE_ODD)) != phase)
            return pos;
        pos += PGAS_CALL_ROOM(header >> 16 & 0xFFFFFF);
    }
}

/* The usual case: 8 bytes, on the node, room in the chunk, nobody waits for it. In a stream a
 * processor fetches lines of the chunk ahead as far as stores to them follow each other, so little
 * else is stored: the tail is when a line begins and when it ends, in between it is where the marks
 * end, and each record clears the place of the next mark in its line. A call by itself, after
 * progress, does not look at the line, which the receiver has: it stores the tail as well. With the
 * first record of a block a stream fetches the other lines, which come at a time and not one after
 * the other. */
PGAS_INLINE bool pgas_call_inline(int rank, pgas_handler_t handler, uint64_t word)
{
    if (pgas_call_path.epoch != pgas_call_run.epoch || (uint32_t)rank >= pgas_call_run.n_ranks ||
        handler - 1u >= pgas_call_run.n_handlers)
        return false;
    pgas_call_window_t *w = &pgas_call_path.window[rank];
    char *pos = w->pos;
    uint64_t phase = w->phase, recent = w->recent, header = pgas_call_path.header | phase | handler;
    if (recent > 1)
        pos = pgas_call_tail(pos, phase, header, 16);
    if (PGAS_UNLIKELY(w->end - pos < 16))
        return false;
    if (recent == 0 || (uintptr_t)pos % 64 == 48 || (uintptr_t)pos % 64 == 0)
        __atomic_store_n(&w->pos, pos + 16, __ATOMIC_RELAXED);
    if (PGAS_UNLIKELY(recent < 2)) {
        w->recent = recent + 1;
        pgas_call_path.used = w;
    }
    __atomic_store_n((uint64_t *)(void *)(pos + 8), word, __ATOMIC_RELAXED);
    if (recent > 0 && (uintptr_t)pos % 64 != 48)
        __atomic_store_n((uint64_t *)(void *)(pos + 16), 0, __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)(void *)pos, header, __ATOMIC_RELEASE);
    if (PGAS_UNLIKELY((uintptr_t)pos % PGAS_CALL_BLOCK == 0) && recent > 1)
        pgas_call_fetch(pos);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(__atomic_load_n(w->sleepers, __ATOMIC_RELAXED)))
        pgas_call_wake(rank);
    return true;
}

/* The same for a few whole words in a stream: by a function that saves next to nothing on the
 * stack, for what it would store there takes room among the stores that wait for lines of the
 * chunk. (Inline it would crowd out its caller's registers.) */
#define PGAS_CALL_STREAM_MAX 256
PGAS_API bool pgas_call_stream(int rank, pgas_handler_t handler, const void *args, size_t bytes);

/* Inline if it can be, otherwise by the function. */
typedef pgas_status_t (*pgas_call_fn_t)(int rank, pgas_handler_t handler, const void *args,
                                        size_t bytes, pgas_sync_t *executed);
PGAS_INLINE pgas_status_t pgas_call_or(pgas_call_fn_t far, int rank, pgas_handler_t handler,
                                       const void *args, size_t bytes, pgas_sync_t *executed)
{
    if (__builtin_constant_p(bytes == 8 && !executed) && bytes == 8 && !executed && args) {
        uint64_t word, copy; /* the copy leaves word, and what args points to, in a register */
        memcpy(&word, args, 8);
        if (PGAS_LIKELY(pgas_call_inline(rank, handler, word)))
            return PGAS_OK;
        copy = word;
        return far(rank, handler, &copy, 8, executed);
    }
    if (bytes % 8 == 0 && bytes - 8 <= PGAS_CALL_STREAM_MAX - 8 && !executed && args &&
        pgas_call_stream(rank, handler, args, bytes))
        return PGAS_OK;
    return far(rank, handler, args, bytes, executed);
}

/** Runs handler(args) on a rank (also on the caller's own).
 *  Units:  bytes up to PGAS_CALL_MAX (default 8 KiB).
 *  Done:   args are copied on return. executed (may be NULL) falls by one when the handler has run.
 *          A full channel: waits with progress; inside a handler the call is queued instead.
 *  Cost:   on the node a copy into the receiver's memory and a release store; else the same, two
 *          puts, or one active message, as the channel is (pgas_channel_open). With executed the
 *          way back, and a few atomic additions that note which rank owes what (6 bytes per rank
 *          for each counter that is live at one time, allocated when it is first used so).
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT (the thread is not attached),
 *          PGAS_ERR_RANGE (no such rank), PGAS_ERR_NOT_FOUND (no such handler), PGAS_ERR_BUSY (see
 *          pgas_call_begin), PGAS_ERR_INVALID (no arguments; executed is no live counter),
 *          PGAS_ERR_LIMIT (bytes), PGAS_ERR_PEER (the rank died), PGAS_ERR_AGAIN (in a handler,
 *          queue full), PGAS_ERR_NO_MEMORY. */
PGAS_INLINE pgas_status_t pgas_call(int rank, pgas_handler_t handler, const void *args,
                                    size_t bytes, pgas_sync_t *executed)
{
    return pgas_call_or(pgas_call_far, rank, handler, args, bytes, executed);
}

/** As pgas_call, but PGAS_ERR_AGAIN instead of waiting; nothing has happened then. */
PGAS_INLINE pgas_status_t pgas_call_try(int rank, pgas_handler_t handler, const void *args,
                                        size_t bytes, pgas_sync_t *executed)
{
    return pgas_call_or(pgas_call_try_far, rank, handler, args, bytes, executed);
}

/** Which completion a counter tells of. */
typedef enum {
    PGAS_EXECUTED, /* the handler has run */
    /* the call has arrived at the target; it may not have run. On the node that is so once the call
     * has left; elsewhere the target tells before the handler runs, where what came before it in
     * the same message has run. A handler that the target does not know is told, where the target
     * tells; so is a thread that has left before. One that leaves between arrival and run drops the
     * call. */
    PGAS_REMOTE,
    /* the caller's buffers may be used again (arguments: on return, so that the counter has fallen
     * by then) */
    PGAS_LOCAL
} pgas_when_t;

/** What to do when there is no room. */
typedef enum {
    PGAS_FULL_WAIT,  /* wait with progress; in a handler: as PGAS_FULL_QUEUE */
    PGAS_FULL_AGAIN, /* give PGAS_ERR_AGAIN, nothing has happened */
    /* keep a copy behind those that wait, in order; up to PGAS_BACKLOG_LIMIT bytes a thread, then
     * PGAS_ERR_AGAIN. Sent by any progress of the thread; with PGAS_WAY_SEND, and of a thread
     * without a context of its own, by that of any thread and by the service thread. */
    PGAS_FULL_QUEUE
} pgas_full_t;

/** How it travels. */
typedef enum {
    PGAS_WAY_WRITE, /* through the thread's own channel into memory of the target */
    /* as a message, through what all threads of the rank share: nothing is set up for the thread */
    PGAS_WAY_SEND
} pgas_way_t;

/** Options; zero means default. */
typedef struct {
    size_t size;       /* as in pgas_init_opts_t */
    pgas_sync_t *sync; /* falls by one; may be NULL */
    pgas_when_t when;  /* on which completion */
    pgas_full_t full;
    pgas_way_t way;
} pgas_call_opts_t;
#define PGAS_CALL_OPTS_INIT                                                           \
    {                                                                                 \
        sizeof(pgas_call_opts_t), NULL, PGAS_EXECUTED, PGAS_FULL_WAIT, PGAS_WAY_WRITE \
    }

/** As pgas_call, with options (NULL: none), to a thread: (rank, slot) with a slot below PGAS_LANES;
 *  (rank, PGAS_SLOT_ANY) as pgas_call does; (rank, PGAS_SLOT_SERVICE).
 *  Shape:  any attached thread; with PGAS_WAY_SEND also one that is not attached, which others see
 *          as slot 4094.
 *  Done:   calls of one thread to one target in one way run in the order issued. What is for a
 *          thread runs when it is in the library, or by pgas_progress_for, or by consumer threads;
 *          calls to a slot that no thread has had yet wait for one. The counter falls by one if the
 *          call is accepted (PGAS_OK), and not otherwise; with PGAS_ERR_PEER if the target dies
 *          before it has answered, or if the thread has left by then (a call without a counter, or
 *          whose counter has fallen, is then dropped, counted, and the first such logged); with
 *          PGAS_ERR_NOT_FOUND if the target does not know the handler: pgas_sync_error names both.
 *  @return as pgas_call; PGAS_ERR_INVALID (options), PGAS_ERR_LIMIT (also: a slot from PGAS_LANES
 *  on). */
PGAS_API pgas_status_t pgas_call_to(pgas_thread_t target, pgas_handler_t handler, const void *args,
                                    size_t bytes, const pgas_call_opts_t *opts);

/** Begins a call whose arguments are built where they travel.
 *  Shape:  one at a time per thread; threads as with pgas_call_to: with PGAS_WAY_SEND also one that
 *          is not attached, which commits or abandons it before it ends. Until then the thread's
 *          other calls to the same target give PGAS_ERR_BUSY (not those that are sent), and its
 *          aggregators must not be used for that rank.
 *  Done:   *args_p: `bytes` bytes, aligned to 8, contents undefined, the caller's until commit. On
 *          the node they lie in the target's memory (a thread with a context of its own, outside of
 *          handlers, while the channel has room), between nodes in the message; otherwise, with
 *          PGAS_WAY_SEND always, in a block that commit copies.
 *  @return as pgas_call_to; PGAS_ERR_BUSY (the thread has begun one). */
PGAS_API pgas_status_t pgas_call_begin(pgas_thread_t target, pgas_handler_t handler, size_t bytes,
                                       const pgas_call_opts_t *opts, void **args_p);
/** Sends it. With an error, PGAS_ERR_AGAIN too, it is dropped. A thread that detaches or ends the
 *  job, and a blocking handler that returns, drops what it has begun. @return as pgas_call_to;
 *  PGAS_ERR_NOT_FOUND (the thread, attached or not, has begun none). */
PGAS_API pgas_status_t pgas_call_commit(void);
/** Drops it: nothing has happened. @return PGAS_OK, PGAS_ERR_NOT_FOUND. */
PGAS_API pgas_status_t pgas_call_abandon(void);

/** Sets the calling thread's channel to a target up ahead; else the first call does, to another
 *  node the sixteenth. No thread of the program there takes part (between nodes the service does,
 *  and is waited for). Between nodes PGAS_FAR_CALLS says whether there are channels (auto: where
 *  memory of this host can be mapped, or an adapter carries out puts), and PGAS_FAR_CHUNK_MEMORY
 *  how many; without one calls are messages.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_RANGE, PGAS_ERR_LIMIT (as
 *          pgas_call_to), PGAS_ERR_NO_MEMORY, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_channel_open(pgas_thread_t target);
/** Drains it: waits until all that the thread sent to the target has run (as messages: has left),
 *  reading how far the target is from its memory, and gives back the chunks that the channel took
 *  beyond its first, but the one in use. It opens again by itself.
 *  @return as open; PGAS_ERR_PEER, PGAS_ERR_BUSY (a call is being built in it). */
PGAS_API pgas_status_t pgas_channel_close(pgas_thread_t target);
typedef struct {
    bool open;
    bool stores, puts; /* into chunks in the target's memory; else messages, and zeros below */
    uint64_t chunk_bytes;
    int n_chunks;            /* of the channel now */
    uint64_t sent, consumed; /* positions, in bytes; a chunk that is left counts whole */
} pgas_channel_info_t;
/** Looks at it. @return as open; PGAS_ERR_INVALID (NULL). */
PGAS_API pgas_status_t pgas_channel_query(pgas_thread_t target, pgas_channel_info_t *info_p);

/** Starts a thread on a rank that runs handler(args) and ends; it is an attached thread, so the
 *  handler may do what threads may, except collectives (see the table).
 *  Done:   as pgas_call_to; executed: the handler has returned. pgas_quiesce and pgas_finalize wait
 *          for it.
 *  Cost:   a call, and a thread there; threads that have ended serve again, at most
 *          PGAS_HANDLER_THREADS at a time, further ones wait for one to end.
 *  @return as pgas_call_to; PGAS_ERR_LIMIT from PGAS_CALL_MAX - 7 bytes on. */
PGAS_API pgas_status_t pgas_spawn(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                                  const pgas_call_opts_t *opts);

/** Runs what has arrived for the thread of a slot of this rank, by whichever attached thread asks.
 *  Returns the number of calls: 0 also if another thread is running them, in a handler, and for
 *  slots that have no calls of their own. */
PGAS_API int pgas_progress_for(int slot);

/** Starts threads of the library that run the calls for a slot of this rank: one that a thread of
 *  the program has, or a free one, which then no thread gets. One of them at a time runs calls, in
 *  the order of each source.
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT (in a handler), PGAS_ERR_RANGE (no such
 *          slot), PGAS_ERR_LIMIT (a slot from PGAS_LANES on), PGAS_ERR_INVALID (n_threads: 1 to
 *          64), PGAS_ERR_EXISTS (it has some), PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_consumers_start(int slot, int n_threads);
/** Ends them when they have run what is there. A slot that no thread has then counts as left.
 *  @return as start; PGAS_ERR_NOT_FOUND (there are none). */
PGAS_API pgas_status_t pgas_consumers_stop(int slot);

/** As pgas_call, and what the handler gives to pgas_reply is stored at reply (exactly reply_bytes,
 *  up to PGAS_BUFFER_LIMIT and less than 4 GiB) before executed falls. executed NULL: waits for the
 *  reply (not in a handler: PGAS_ERR_CONTEXT). A handler that does not reply, or with another size,
 *  gives status PGAS_ERR_MISMATCH. A reply may have 0 bytes; then reply may be NULL. A reply above
 *  PGAS_CALL_MAX is written straight to its place: on the node by stores or process_vm_writev
 *  (PGAS_VM_READ), from elsewhere by a put if the place lies in a segment. Otherwise it comes in
 *  pieces. */
PGAS_API pgas_status_t pgas_call_return(int rank, pgas_handler_t handler, const void *args,
                                        size_t bytes, void *reply, size_t reply_bytes,
                                        pgas_sync_t *executed);

/** In a handler: the answer to the call being run; copied. Once per call; ignored if nobody asked
 *  (PGAS_OK). As large as the caller expects, or up to PGAS_CALL_MAX.
 *  @return PGAS_OK, PGAS_ERR_CONTEXT (not in a handler, or twice), PGAS_ERR_LIMIT. */
PGAS_API pgas_status_t pgas_reply(const void *data, size_t bytes);

/** Returns when all calls of all ranks, and the calls that those made, have run. Collective over
 *  all ranks; publishes the caller's aggregated calls first. Counted in waves of allreduces, not
 *  guessed (Mattern's four counters). It waits as long as calls wait: for a slot that no thread has
 *  had yet (after a second each rank that has such calls logs once how many there are and for which
 *  slot), for a thread that stays away from the library. (pgas_finalize runs the latter in its own
 *  thread, and refuses the former as for a thread that has left.)
 *  @return PGAS_OK, PGAS_ERR_NOT_INIT, PGAS_ERR_CONTEXT, PGAS_ERR_PEER. */
PGAS_API pgas_status_t pgas_quiesce(void);

/** Work of the program that quiescence waits for as it does for calls: queues of the rank, out of
 *  which calls come. */
typedef struct {
    /** Does some of it, gives how many things: 0 if there is nothing to do now. May make calls and
     *  progress, no collectives. */
    int (*run)(void *arg);
    void *arg;
    /* raised atomically by any thread, also in handlers: made before others can see it, ended when
     * the calls that came out of it have been issued; what other threads than the caller gather,
     * published */
    uint64_t made, ended;
} pgas_work_t;

/** As pgas_quiesce, and works meanwhile: returns when all calls have run and all work of all ranks
 *  has ended. Collective: with work on each rank, or NULL. run is called by the thread that calls
 *  this, again and again until nothing is under way anywhere; other threads may work at the same
 *  queues. @return as pgas_quiesce. */
PGAS_API pgas_status_t pgas_quiesce_work(pgas_work_t *work);

PGAS_END_DECLS
#endif
