/** How a call of 8 bytes enters a channel by plain stores: the inline part of pgas/call.h.
 *
 *  A channel is a ring of chunks in the receiver's memory, one channel for each (endpoint, sending
 *  rank, context). All ranks of a node map each other's chunks. The sender alone writes to a chunk;
 *  the receiver reads it. src/msg/channel.c and src/msg/recv_queue.c have the two sides.
 *
 *  A chunk consists of blocks of 256 bytes, and a block of four cache lines. A descriptor starts at
 *  a multiple of 16 bytes: a header of 8 bytes (src/msg/descriptor.h), then the arguments. Calls of
 *  8 bytes fill a line with four descriptors:
 *
 *      in the line  0        8        16       24       32       40       48       56       64
 *                   | header | word   | header | word   | header | word   | header | word   |
 *                   |<- descriptor -->|
 *
 *      chunk        | block: line line line line | block: line line line line | ...
 *                        ^ stored tail    ^ true tail (at most the same block)
 *
 *  Valid bits. A header is valid if it has the valid bit of the current phase: bit 63 in even
 *  phases, bit 53 in odd ones, never both. The phase of a chunk alternates with each use. A header
 *  that the previous use left behind is therefore not valid, and no chunk is ever cleared. The
 *  receiver polls one word, the header at which the next descriptor will appear.
 *
 *  Publication. The sender stores the arguments first and the header last, with release order. The
 *  receiver loads the header with acquire order. The header slot behind a published descriptor
 *  must not be valid. Either it cannot be (the window ends before memory where it could), or the
 *  sender stores 0 there before it stores the header.
 *
 *  Wakeup. After the header the sender loads the receiver's wakeup flag (window->sleepers). If a
 *  thread of the receiver sleeps, the sender wakes it. No fence instruction orders the store and
 *  the load. A thread that is about to sleep raises the flag, runs membarrier(2), and polls its
 *  channels once more instead. The inline path is closed where the kernel has no membarrier.
 *
 *  Streams. Processors fetch lines ahead of stores, but only while the stores in the store buffer
 *  go to consecutive lines. A store to any other line, such as the one that holds the tail,
 *  interrupts that. So a stream of calls stores almost nothing except to the chunk:
 *
 *  | the descriptor starts at  | a call of 8 bytes in a stream stores, in this order         |
 *  | byte 0 of a line          | tail := behind it; word; 0 to the next header; header;      |
 *  |                           | at byte 0 of a block also 0 to the block's other lines      |
 *  | byte 16 or 32 of a line   | word; 0 to the next header; header                          |
 *  | byte 48 of a line         | tail := the next line; word; header                         |
 *
 *  It follows that the stored tail is exact if it is at the start of a line. Otherwise the true
 *  tail is the end of the run of valid headers that starts there, and that run ends in the same
 *  block. pgas_call_tail walks it. The walk ends at a word that this thread itself has set to 0, so
 *  it never waits for a line. The stores of 0 to the other lines of a block request these lines
 *  together, instead of one after the other.
 *
 *  The first call since its thread made progress (recent is 0) stores the tail, the word and the
 *  header. It does not touch the header slot behind. The receiver polls that line, so each further
 *  store to it could wait for the line once more. The second such call (recent is 1) finds an exact
 *  tail. From the third on (recent is 2) the tail is walked. Progress settles the tail and resets
 *  recent.
 *
 *  Quiescence. The sum of sent positions must never be less than that of consumed ones. A call that
 *  stores the tail therefore stores it before the header. A thread that reads another thread's tail
 *  walks the headers, too (pgasi_channel_handed_over). */
#ifndef PGAS_DETAIL_CALL_H
#define PGAS_DETAIL_CALL_H

#include "pgas/call.h"

PGAS_BEGIN_DECLS

/* State of the running library. A thread may use its path if the epochs are equal. A start of the
 * library and a death change the epoch. */
typedef struct {
    uint64_t epoch;
    uint32_t n_ranks, n_handlers;
} pgas_call_run_t;
PGAS_API extern pgas_call_run_t pgas_call_run;

/* Where a thread's calls to one rank go. */
typedef struct {
    /* the stored tail in the receiver's chunk; the inline path may write below end */
    char *pos, *end;
    uint64_t phase; /* the valid bit of the current use of the chunk */
    const uint32_t
        *sleepers;   /* the receiver's wakeup flag: not 0 while one of its threads sleeps */
    uint64_t recent; /* short calls since the thread made progress: 0, 1, or 2 for more */
    char *sized_end; /* pgas_call_stream may write below it */
    uint64_t sized;  /* 1: this use of the chunk has calls of other sizes than 8 */
} pgas_call_window_t;

/* The state that a thread needs for the inline path. */
typedef struct {
    uint64_t epoch;             /* 0 in handlers: they have no inline path */
    pgas_call_window_t *window; /* by rank */
    uint64_t header;            /* of a call of 8 bytes of this thread, without phase and handler */
    pgas_call_window_t *used;   /* the last window whose recent became 1 or 2 */
    /* names the aggregators that may be used: those of a thread, PGAS_CALL_CONTEXT(slot), or those
     * of handlers, PGAS_CALL_HANDLERS; 0: none */
    uint64_t context;
} pgas_call_path_t;
#define PGAS_CALL_CONTEXT(slot) (UINT64_C(1) << 63 | ((uint64_t)(uint32_t)(slot) + 1) << 40)
#define PGAS_CALL_HANDLERS      (UINT64_C(0xFFFFFF) << 40)
#define PGAS_CALL_NOBODY        (UINT64_C(1) << 63)
PGAS_API extern __thread pgas_call_path_t pgas_call_path __attribute__((tls_model("initial-exec")));

#define PGAS_CALL_PHASE_EVEN  (UINT64_C(1) << 63)
#define PGAS_CALL_PHASE_ODD   (UINT64_C(1) << 53)
#define PGAS_CALL_BLOCK       256
#define PGAS_CALL_ROOM(bytes) (((size_t)(bytes) + 8 + 15) & ~(size_t)15)
#define PGAS_CALL_STREAM_MAX  256

/* Wakes the sleeping threads of a rank. */
PGAS_API void pgas_call_wake(int rank);
/* Requests the lines of the block at pos, except the first, by a store of 0 to each. */
PGAS_API void pgas_call_fetch(char *pos);
/* Every case that is not inline, with the same results. */
PGAS_API pgas_status_t pgas_call_far(int rank, pgas_handler_t handler, const void *args,
                                     size_t bytes, pgas_sync_t *executed);
/* A call of 8 .. PGAS_CALL_STREAM_MAX bytes, a multiple of 8, that is part of a stream: true if it
 * was made. It is no inline function, because it would take its caller's registers. It saves few
 * registers on the stack, because these stores would be among the stores to the chunk. */
PGAS_API bool pgas_call_stream(int rank, pgas_handler_t handler, const void *args, size_t bytes);

/* The true tail, from the stored one. usual: the header that most descriptors of the stream have,
 * of usual_room bytes each. Comparing with it first makes the address of the next load independent
 * of the value of this one, so that the loads overlap. */
PGAS_INLINE char *pgas_call_tail(char *pos, uint64_t phase, uint64_t usual, size_t usual_room)
{
    if ((uintptr_t)pos % 64 == 0)
        return pos;
    for (;;) {
        uint64_t header;
        while ((header = __atomic_load_n((uint64_t *)(void *)pos, __ATOMIC_RELAXED)) == usual)
            pos += usual_room;
        if ((header & (PGAS_CALL_PHASE_EVEN | PGAS_CALL_PHASE_ODD)) != phase)
            return pos;
        pos += PGAS_CALL_ROOM((header >> 16 & 0xFFFFFF) + (header >> 49 & 8));
    }
}

/* A call of 8 bytes within the node, if the chunk has room. The head of this file explains each
 * store. */
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

PGAS_INLINE pgas_status_t pgas_call(int rank, pgas_handler_t handler, const void *args,
                                    size_t bytes, pgas_sync_t *executed)
{
    if (__builtin_constant_p(bytes == 8 && !executed) && bytes == 8 && !executed && args) {
        uint64_t word, copy; /* the copy leaves word, and what args points to, in a register */
        memcpy(&word, args, 8);
        if (PGAS_LIKELY(pgas_call_inline(rank, handler, word)))
            return PGAS_OK;
        copy = word;
        return pgas_call_far(rank, handler, &copy, 8, executed);
    }
    if (bytes % 8 == 0 && bytes - 8 <= PGAS_CALL_STREAM_MAX - 8 && !executed && args &&
        pgas_call_stream(rank, handler, args, bytes))
        return PGAS_OK;
    return pgas_call_far(rank, handler, args, bytes, executed);
}

PGAS_INLINE pgas_target_t pgas_target_make(int rank, int slot, pgas_team_t *team)
{
    pgas_target_t target;
    target.rank = rank;
    target.slot = slot;
    target.team = team;
    return target;
}

PGAS_INLINE pgas_target_t pgas_on_rank(int rank)
{
    return pgas_target_make(rank, PGAS_SLOT_ANY, NULL);
}

PGAS_INLINE pgas_target_t pgas_on_service(int rank)
{
    return pgas_target_make(rank, PGAS_SLOT_SERVICE, NULL);
}

PGAS_INLINE pgas_target_t pgas_on_thread(pgas_thread_t thread)
{
    return pgas_target_make(pgas_thread_rank(thread), pgas_thread_slot(thread), NULL);
}

PGAS_INLINE pgas_target_t pgas_on_team(pgas_team_t *team)
{
    return pgas_target_make(0, PGAS_TARGET_TEAM, team);
}

PGAS_INLINE pgas_target_t pgas_on_team_threads(pgas_team_t *team)
{
    return pgas_target_make(0, PGAS_TARGET_TEAM_THREADS, team);
}

PGAS_INLINE pgas_status_t pgas_call_return_nb(int rank, pgas_handler_t handler, const void *args,
                                              size_t bytes, void *result, size_t result_bytes,
                                              pgas_sync_t *sync)
{
    pgas_call_opts_t opts = PGAS_CALL_OPTS_INIT;
    opts.sync = sync;
    opts.result = result;
    opts.result_bytes = result_bytes;
    return pgas_call_to(pgas_on_rank(rank), handler, args, bytes, &opts);
}

static inline pgas_status_t pgas_quiesce(void)
{
    return pgas_quiesce_work(NULL);
}

PGAS_END_DECLS
#endif
