/* The public calls and their short paths.
 *
 * A call is written straight into the channel, or into a message of its own, if four conditions
 * hold. Its thread has a context of its own; the thread is outside of handlers; no counter waits
 * for the call; it can be sent at once. On the node this short path takes no lock. Calls of 8 bytes
 * (pgas/detail/call.h) and streams of calls of one size rarely even store the tail. All other calls
 * and all errors take the long path of target.c. */
#include "msg/send.h"

#include <string.h>

#include "boot/boot.h"
#include "call/call.h"
#include "mem/ahead.h"
#include "mem/thread.h"

#define DIRECT_MAX 1024 /* the greatest size of a call that takes the short path on the node */

static __attribute__((noinline)) pgas_status_t
call(int rank, pgas_handler_t handler, const void *args, size_t bytes, pgas_sync_t *executed)
{
    const pgas_call_opts_t o = { .sync = executed };
    pgasi_call_to_t c = { .rank = rank, .ep = PGASI_EP_ANY, .handler = handler, .o = &o };
    pgas_status_t status = pgasi_call_check(rank, handler, args, bytes);
    return status == PGAS_OK ? pgasi_call_send(&c, handler, args, bytes) : status;
}

/* ---- the short paths ---- */

static __attribute__((noinline, cold)) void shut_windows(pgasi_sendq_t *sq, uint64_t epoch)
{
    sq->epoch = epoch;
    pgasi_ctx_lock(sq->ctx);
    for (int i = 0; i < sq->n_known; i++)
        if (pgasi_boot_is_dead(sq->out[sq->known[i]].rank))
            pgasi_send_shut(sq, sq->known[i]);
    pgasi_ctx_unlock(sq->ctx);
}

/* Opens the inline parts to the calling thread, which owns this send queue. Ranks that have died
 * stay closed. */
static inline void set_path(pgasi_sendq_t *sq)
{
    uint64_t epoch = __atomic_load_n(&pgas_call_run.epoch, __ATOMIC_ACQUIRE);
    if (PGAS_UNLIKELY(sq->epoch != epoch))
        shut_windows(sq, epoch);
    pgas_call_path = (pgas_call_path_t){ epoch, sq->window, sq->header, NULL, sq->context };
}

void pgasi_call_path_open(void)
{
    if (pgasi_self.sendq && !pgasi_self.in_handler)
        set_path(pgasi_self.sendq);
}

/* If no progress is made meanwhile, the second call after this one is part of a stream (see
 * pgas_call_stream). */
static inline void note_sized(pgas_call_window_t *w)
{
    if (w->recent > 1 && w->sized)
        return;
    w->recent += w->recent < 2;
    w->sized = 1;
    pgas_call_path.used = w;
}

/* Raises the counter for a call. @return the token that names it; 0: the call needs a record */
static inline uint64_t raise_counter(pgasi_ahead_t *a, pgas_sync_t *sync)
{
    uint64_t token = 0;
    if (pgasi_ahead_use(a, sync))
        return a->token;
    if ((token = pgasi_sync_name(sync)) != 0)
        pgasi_ahead_raise(a, sync, token);
    return token;
}

/* The usual case, without a wait: own context, same node, room in the chunk. From then on the
 * inline part may send calls of 8 bytes. */
static inline __attribute__((always_inline)) bool
call_direct(int rank, pgas_handler_t handler, const void *args, size_t bytes, pgas_sync_t *executed)
{
    pgasi_sendq_t *sq = pgasi_self.sendq;
    if (!sq || bytes > DIRECT_MAX || !args || !pgasi_thread_attached() ||
        (uint32_t)rank >= sq->n_ranks || handler - 1u >= pgasi_n_handlers || pgasi_self.in_handler)
        return false;
    if (PGAS_UNLIKELY(pgas_call_path.epoch != pgas_call_run.epoch))
        set_path(sq);
    out_t *out = &sq->out[rank];
    if (!out->end)
        return false;
    if (out->w->recent > 1)
        settle(out);
    size_t head = executed ? 16 : 8, room = PGASI_ALIGN_UP(head + bytes, PGASI_RING_UNIT);
    if (room > PGASI_RING_UNIT && bytes % 8 == 0 && bytes <= PGAS_CALL_STREAM_MAX)
        note_sized(out->w);
    char *desc = out->w->pos;
    if (out->end - desc < (ptrdiff_t)room || bytes > pgasi_param.call_max)
        return false;
    if (executed) {
        uint64_t token = raise_counter(&sq->ctx->ahead, executed);
        if (PGAS_UNLIKELY(!token))
            return false;
        memcpy(desc + 8, &token, sizeof token);
    }
    copy_args(desc + head, args, bytes);
    clear_valid(out, desc + room);
    if (room > PGASI_RING_UNIT)
        out->dirty_to = (uint32_t)(desc + room - out->chunk);
    /* This comes first, as in make_valid(). */
    __atomic_store_n(&out->w->pos, desc + room, __ATOMIC_RELAXED);
    uint64_t header = (sq->header ^ UINT64_C(8) << PGASI_DESC_BYTES_SHIFT) |
                      (uint64_t)bytes << PGASI_DESC_BYTES_SHIFT | (executed ? PGASI_DESC_TOKEN : 0);
    __atomic_store_n((uint64_t *)(void *)desc, header | out->w->phase | handler, __ATOMIC_RELEASE);
    pgasi_wake_at(out->wakeup, out->wakeup_number);
    return true;
}

/* The short path to other nodes. */
static inline bool call_far(int rank, pgas_handler_t handler, const void *args, size_t bytes)
{
    pgasi_sendq_t *sq = pgasi_self.sendq;
    if (!sq || bytes != 8 || !args || (uint32_t)rank >= sq->n_ranks ||
        handler - 1u >= pgasi_n_handlers || pgasi_self.in_handler || !pgasi_thread_attached())
        return false;
    pgasi_ctx_lock(sq->ctx);
    pgas_status_t status;
    buffer_t *buffer = far_buffer(sq, &sq->out[rank], 16);
    if (!buffer) {
        pgasi_ctx_unlock(sq->ctx);
        return false;
    }
    *(uint64_t *)(void *)buffer->data = PGASI_DESC_VALID | sq->header | handler;
    memcpy(buffer->data + 8, args, 8);
    status = pgasi_far_send(sq, &sq->out[rank], buffer, 16);
    pgasi_ctx_unlock(sq->ctx);
    return status == PGAS_OK;
}

bool pgasi_sendq_call_short(const pgasi_sendq_t *sq, int rank, pgas_handler_t handler,
                            const void *args, size_t bytes)
{
    return sq == pgasi_self.sendq &&
           (call_direct(rank, handler, args, bytes, NULL) || call_far(rank, handler, args, bytes));
}

/* A store to each line fetches it; the value is no valid bit. A store that waits for a line delays
 * the stores behind it. For waiting stores to consecutive lines, however, the processor requests
 * all lines at once. */
static inline void fetch_lines(char *line, int n)
{
    for (int i = 0; i < n; i++)
        __atomic_store_n((uint64_t *)(void *)(line + 64 * i), 0, __ATOMIC_RELAXED);
}

void pgas_call_fetch(char *pos)
{
    fetch_lines(pos + 64, PGAS_CALL_BLOCK / 64 - 1);
}

/* A call in a stream stores to the chunk and to almost nothing else, for the reason that
 * pgas_call_inline gives. The tail is stored when the call leaves a block, or where the stored tail
 * would otherwise seem exact. In between, the true tail is where the valid headers end.
 *
 * The cache line with the header is stored last. The receiver polls this line and would otherwise
 * take it away in the middle of the call. When a small call leaves a block, it fetches some lines
 * behind it. */
bool pgas_call_stream(int rank, pgas_handler_t handler, const void *args, size_t bytes)
{
    if (pgas_call_path.epoch != pgas_call_run.epoch || (uint32_t)rank >= pgas_call_run.n_ranks ||
        handler - 1u >= pgas_call_run.n_handlers)
        return false;
    pgas_call_window_t *w = &pgas_call_path.window[rank];
    size_t room = PGAS_CALL_ROOM(bytes);
    uint64_t header =
        (pgas_call_path.header ^ UINT64_C(8) << 16) | (uint64_t)bytes << 16 | handler | w->phase;
    if (w->recent < 2 || !w->sized)
        return false;
    char *pos = pgas_call_tail(w->pos, w->phase, header, room);
    if (w->sized_end - pos < (ptrdiff_t)room)
        return false;
    __atomic_store_n((uint64_t *)(void *)(pos + room), 0, __ATOMIC_RELAXED);
    bool leaves = ((uintptr_t)w->pos ^ (uintptr_t)(pos + room)) >= PGAS_CALL_BLOCK;
    if ((uintptr_t)w->pos % 64 == 0 || leaves)
        /* This comes before the descriptor is valid, as in make_valid(). */
        __atomic_store_n(&w->pos, pos + room, __ATOMIC_RELEASE);
    for (size_t i = bytes; i > 0; i -= 8) {
        uint64_t word;
        memcpy(&word, (const char *)args + i - 8, 8);
        __atomic_store_n((uint64_t *)(void *)(pos + i), word, __ATOMIC_RELAXED);
    }
    __atomic_store_n((uint64_t *)(void *)pos, header, __ATOMIC_RELEASE);
    if (leaves && room <= PGAS_CALL_BLOCK / 2 && w->sized_end - pos > PGAS_CALL_BLOCK + 64)
        fetch_lines(pos + room + 64 - (uintptr_t)(pos + room) % 64, PGAS_CALL_BLOCK / 64 - 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(__atomic_load_n(w->sleepers, __ATOMIC_RELAXED)))
        pgas_call_wake(rank);
    return true;
}

void pgas_call_wake(int rank)
{
    int node_rank = pgasi_boot.local_of[rank];
    pgasi_wake_slow(node_rank >= 0 ? node_rank : pgasi_boot.node_size + rank);
}

/* ---- public functions ---- */

static __attribute__((noinline)) pgas_status_t call_counted(int rank, pgas_handler_t handler,
                                                            const void *args, size_t bytes,
                                                            pgas_sync_t *executed)
{
    if (PGAS_LIKELY(call_direct(rank, handler, args, bytes, executed)))
        return PGAS_OK;
    return call(rank, handler, args, bytes, executed);
}

/* A call of 8 bytes with a counter, in a stream: stored as by pgas_call_stream. Beside the chunk it
 * stores only the number of raises that are left. */
static __attribute__((noinline)) pgas_status_t call_in_series(int rank, pgas_handler_t handler,
                                                              const void *args, size_t bytes,
                                                              pgas_sync_t *executed)
{
    enum { ROOM = 32 };
    if (pgas_call_path.epoch != pgas_call_run.epoch || (uint32_t)rank >= pgas_call_run.n_ranks ||
        handler - 1u >= pgas_call_run.n_handlers || bytes != 8 || !args)
        return call_counted(rank, handler, args, bytes, executed);
    pgas_call_window_t *w = &pgas_call_path.window[rank];
    pgasi_ahead_t *ahead = &pgasi_self.ctx->ahead;
    uint64_t phase = w->phase, header = pgas_call_path.header | handler | phase | PGASI_DESC_TOKEN;
    char *stored = w->pos, *pos = stored;
    if (w->recent > 1 && w->sized)
        pos = pgas_call_tail(stored, phase, header, ROOM);
    if (w->recent < 2 || !w->sized || w->sized_end - pos < ROOM ||
        !pgasi_ahead_use(ahead, executed))
        return call_counted(rank, handler, args, bytes, executed);
    __atomic_store_n((uint64_t *)(void *)(pos + ROOM), 0, __ATOMIC_RELAXED);
    bool leaves = ((uintptr_t)stored ^ (uintptr_t)(pos + ROOM)) >= PGAS_CALL_BLOCK;
    if ((uintptr_t)stored % 64 == 0 || leaves)
        __atomic_store_n(&w->pos, pos + ROOM, __ATOMIC_RELEASE);
    memcpy(pos + 16, args, 8);
    __atomic_store_n((uint64_t *)(void *)(pos + 8), ahead->token, __ATOMIC_RELAXED);
    __atomic_store_n((uint64_t *)(void *)pos, header, __ATOMIC_RELEASE);
    if (leaves && w->sized_end - pos > PGAS_CALL_BLOCK + 64)
        fetch_lines(pos + ROOM + 64 - (uintptr_t)(pos + ROOM) % 64, PGAS_CALL_BLOCK / 64 - 1);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (PGAS_UNLIKELY(__atomic_load_n(w->sleepers, __ATOMIC_RELAXED)))
        pgas_call_wake(rank);
    return PGAS_OK;
}

static __attribute__((noinline)) pgas_status_t call_uncounted(int rank, pgas_handler_t handler,
                                                              const void *args, size_t bytes)
{
    if (PGAS_LIKELY(call_direct(rank, handler, args, bytes, NULL)) ||
        call_far(rank, handler, args, bytes))
        return PGAS_OK;
    return call(rank, handler, args, bytes, NULL);
}

/* It saves no registers: see pgas_call_stream in pgas/detail/call.h. */
pgas_status_t pgas_call_far(int rank, pgas_handler_t handler, const void *args, size_t bytes,
                            pgas_sync_t *executed)
{
    return executed ? call_in_series(rank, handler, args, bytes, executed)
                    : call_uncounted(rank, handler, args, bytes);
}
