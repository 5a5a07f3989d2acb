/* Batches: buffers gather calls, and runs of one kind share a header. A batch leaves when it is
 * full, when a caller requests it, when a single call must not overtake it, or when its time limit
 * is over.
 *
 * When a peer is full, closed batches wait in order for progress to send them. A caller waits for
 * them with progress. A handler must not wait, and continues to gather behind them. A single call
 * is written straight into the channel, or into one message, if nothing is before it. */
#include "msg/send.h"

#include "base/clock.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/thread.h"

#define OVERFLOWS_PER_TRY 4
#define SPINS_FOR_ROOM    512 /* some ten microseconds */

/* ---- publishing ---- */

/* Stores the number of calls in the header of the open run. */
static void close_run(pgas_agg_cursor_t *c, out_t *out)
{
    if (!c->kind)
        return;
    uint64_t header = *(uint64_t *)(void *)out->run;
    size_t more = (size_t)(c->pos - out->run - 8) / pgasi_desc_stride(header) - 1;
    header |= (uint64_t)more << PGASI_DESC_MORE_SHIFT;
    *(uint64_t *)(void *)out->run = header;
    out->batch->n_calls += (uint32_t)more;
    c->kind = 0;
    c->pos = out->run + pgasi_desc_room(header);
}

pgas_status_t pgasi_send_publish(pgasi_sendq_t *sq, out_t *out, buffer_t *batch)
{
    if (PGAS_UNLIKELY(pgasi_boot_is_dead(out->rank))) {
        buffer_release(batch);
        return PGAS_ERR_PEER;
    }
    if (PGAS_UNLIKELY(is_granted(out)))
        pgasi_far_channel_join(sq, out, out->ep * (int)sq->n_ranks + out->rank);
    return out->kind == OUT_NODE ? pgasi_channel_publish(out, batch)
                                 : pgasi_far_publish(sq, out, batch);
}

static inline void count_batch(pgasi_sendq_t *sq, const buffer_t *batch,
                               pgasi_publish_reason_t reason, int sign)
{
    sq->stats.published[reason] += (uint64_t)(int64_t)sign;
    sq->stats.calls += (uint64_t)((int64_t)sign * batch->n_calls);
    sq->stats.bytes += (uint64_t)sign * batch->used;
}

void pgasi_send_let_wait(pgasi_sendq_t *sq, out_t *out, buffer_t *batch)
{
    batch->next = NULL;
    *out->waiting_end = batch;
    out->waiting_end = &batch->next;
    sq->backlog_bytes += batch->used;
    sq->stats.backlog_high = PGASI_MAX(sq->stats.backlog_high, sq->backlog_bytes);
    sq->stats.n_queued++;
    pgasi_send_hold(sq, out);
}

/* Closes the open batch and sends it, or lets it wait in order. While others wait, only a full
 * batch is closed; progress publishes it behind them. AGAIN: progress continues it. */
static pgas_status_t publish(pgasi_sendq_t *sq, out_t *out, int dest, pgasi_publish_reason_t reason)
{
    buffer_t *batch = out->batch;
    if (!batch)
        return PGAS_OK;
    if (out->waiting && reason != PGASI_PUBLISH_FULL)
        return PGAS_ERR_AGAIN;
    close_run(&sq->cursor[dest], out);
    batch->used = (size_t)(sq->cursor[dest].pos - batch->data);
    count_batch(sq, batch, reason, 1);
    sq->stats.open--;
    out->batch = NULL;
    sq->cursor[dest] = (pgas_agg_cursor_t){ 0 };
    pgas_status_t status = out->waiting ? PGAS_ERR_AGAIN : pgasi_send_publish(sq, out, batch);
    if (status == PGAS_ERR_AGAIN)
        pgasi_send_let_wait(sq, out, batch);
    if (out->kind == OUT_NODE)
        update_window(out);
    return status;
}

/* Sends what waits, as far as there is room. */
static pgas_status_t send_waiting(pgasi_sendq_t *sq, out_t *out)
{
    if (pgasi_far_channel_send_rest(sq, out) == PGAS_ERR_AGAIN)
        return PGAS_ERR_AGAIN;
    while (out->waiting) {
        buffer_t *batch = out->waiting, *next = batch->next;
        size_t bytes = batch->used;
        pgas_status_t status = pgasi_send_publish(sq, out, batch);
        pgasi_send_check_lost(out->rank, status);
        if (status == PGAS_ERR_AGAIN) {
            close_window(out); /* earlier batches have moved the tail */
            return PGAS_ERR_AGAIN;
        }
        out->waiting = next;
        if (!next)
            out->waiting_end = &out->waiting;
        sq->backlog_bytes -= bytes;
    }
    if (out->kind == OUT_NODE)
        update_window(out);
    return PGAS_OK;
}

static bool open_batch(pgasi_sendq_t *sq, out_t *out, int dest, size_t room, bool beyond)
{
    out->batch = pgasi_send_buffer(sq, room, beyond);
    if (!out->batch)
        return false;
    out->batch->n_calls = 0;
    out->opened = sq->tick;
    sq->stats.open++;
    sq->stats.open_high = PGASI_MAX(sq->stats.open_high, sq->stats.open);
    close_window(out);
    sq->cursor[dest] =
        (pgas_agg_cursor_t){ .pos = out->batch->data,
                             .end = out->batch->data + PGASI_MAX(room, sq->publish_bytes) };
    if (!out->dirty) {
        out->dirty = true;
        sq->dirty[sq->n_dirty] = dest;
        __atomic_store_n(&sq->n_dirty, sq->n_dirty + 1, __ATOMIC_RELAXED);
    }
    return true;
}

/* ---- gathering ---- */

/* Starts a run with the descriptor just written. */
static void open_run(const pgasi_sendq_t *sq, pgas_agg_cursor_t *c, out_t *out, uint64_t header,
                     char *desc)
{
    size_t stride = pgasi_desc_stride(header);
    if (!stride || header & PGASI_DESC_TOKEN)
        return;
    char *last = desc + 8 + stride * (size_t)PGASI_DESC_MORE_MAX;
    out->run = desc;
    c->kind = pgas_agg_kind(sq->context, (pgas_handler_t)pgasi_desc_handler(header),
                            pgasi_desc_bytes(header));
    if (out->ep != PGASI_EP_ANY) /* its place is that of a rank which does not exist */
        c->kind = ~c->kind;
    c->pos = desc + 8 + stride;
    c->end = PGASI_MIN(c->end - stride, last);
}

/* A handler, or a caller with PGAS_FULL_QUEUE, may gather further batches behind those that wait.
 * Answers have no limit, because a thread waits for them. */
static inline bool may_queue(const pgasi_sendq_t *sq, size_t room, pgas_full_t full)
{
    return (pgasi_self.in_handler || full == PGAS_FULL_QUEUE) && full != PGAS_FULL_AGAIN &&
           (full == PGASI_FULL_ANSWER || sq->backlog_bytes + room <= sq->backlog_limit);
}

/* All buffers are in use: the open ones leave. Otherwise only their own thread would publish them,
 * which waits for a buffer. */
static __attribute__((noinline)) bool make_room(pgasi_sendq_t *sq)
{
    for (int i = 0; i < sq->n_dirty; i++)
        publish(sq, &sq->out[sq->dirty[i]], sq->dirty[i], PGASI_PUBLISH_ROOM);
    return sq->free_buffers;
}

static pgas_status_t append(pgasi_sendq_t *sq, out_t *out, int dest, const message_t *m,
                            pgas_full_t full)
{
    size_t room = pgasi_desc_room(m->header);
    pgas_agg_cursor_t *c = &sq->cursor[dest];
    if (c->kind) {
        size_t stride = pgasi_desc_stride(m->header);
        /* the run continues */
        if (*(uint64_t *)(void *)out->run == m->header && c->pos <= c->end) {
            write_body(c->pos - 8, m);
            c->pos += stride;
            return PGAS_OK;
        }
        close_run(c, out);
        c->end = out->batch->data + PGASI_MIN(out->batch->capacity, sq->publish_bytes);
    }
    if (!out->batch || (ptrdiff_t)room > c->end - c->pos) {
        pgas_status_t status = publish(sq, out, dest, PGASI_PUBLISH_FULL);
        if (status == PGAS_OK || status == PGAS_ERR_AGAIN) {
            bool beyond = may_queue(sq, room, full);
            bool opened = (!out->waiting || beyond) &&
                          (open_batch(sq, out, dest, room, beyond) ||
                           (make_room(sq) && open_batch(sq, out, dest, room, beyond)));
            status = opened ? PGAS_OK : PGAS_ERR_AGAIN;
        }
        if (status != PGAS_OK) {
            sq->stats.n_full += status == PGAS_ERR_AGAIN;
            return status;
        }
    }
    char *desc = c->pos;
    *(uint64_t *)(void *)desc = m->header;
    write_body(desc, m);
    out->batch->n_calls++;
    c->pos = desc + room;
    open_run(sq, c, out, m->header, desc);
    return PGAS_OK;
}

/* ---- calls by themselves ---- */

/* Writes a single call on the node: one descriptor, valid at once. */
static inline bool ring_direct(pgasi_sendq_t *sq, out_t *out, const message_t *m)
{
    size_t room = pgasi_desc_room(m->header);
    if (PGAS_UNLIKELY(!ring_room(out, room))) {
        sq->stats.n_full++;
        return false;
    }
    write_body(out->w->pos, m);
    make_valid(out, room, m->header);
    update_window(out);
    wake_receiver(out);
    return true;
}

/* The last batch found no room: its only call is not sent. */
static pgas_status_t take_back(pgasi_sendq_t *sq, out_t *out)
{
    buffer_t *batch = out->waiting;
    out->waiting = NULL;
    out->waiting_end = &out->waiting;
    sq->backlog_bytes -= batch->used;
    sq->stats.n_queued--;
    count_batch(sq, batch, PGASI_PUBLISH_ORDER, -1);
    buffer_release(batch);
    return PGAS_ERR_AGAIN;
}

/* Handlers may leave calls to progress. When an application thread returns from this function its
 * calls have been sent. The reason is that the thread may stay outside of the library for a long
 * time. */
static inline pgas_status_t send_now(pgasi_sendq_t *sq, out_t *out, int dest, const message_t *m,
                                     pgas_full_t full)
{
    size_t room = pgasi_desc_room(m->header);
    bool queue = may_queue(sq, room, full);
    pgas_status_t status =
        out->batch && !queue ? publish(sq, out, dest, PGASI_PUBLISH_ORDER) : PGAS_OK;
    if (status == PGAS_ERR_AGAIN)
        return status;
    buffer_t *buffer = out->kind >= OUT_FAR ? far_buffer(sq, out, room) : NULL;
    if (buffer) {
        *(uint64_t *)(void *)buffer->data = m->header;
        write_body(buffer->data, m);
        status = pgasi_far_send(sq, out, buffer, room);
        if (status != PGAS_ERR_AGAIN || !queue)
            return status;
    } else if (PGAS_LIKELY(is_direct(out))) {
        if (PGAS_LIKELY(ring_direct(sq, out, m)))
            return PGAS_OK;
        if (!queue)
            return PGAS_ERR_AGAIN;
    }
    status = append(sq, out, dest, m, full);
    if (status != PGAS_OK)
        return status;
    status = publish(sq, out, dest, PGASI_PUBLISH_ORDER);
    if (status != PGAS_ERR_AGAIN)
        return status;
    return queue ? PGAS_OK : take_back(sq, out);
}

static inline pgas_status_t send(pgasi_sendq_t *sq, int dest, const message_t *m, pgas_full_t full,
                                 bool now)
{
    out_t *out = out_of(sq, dest);
    return now ? send_now(sq, out, dest, m, full) : append(sq, out, dest, m, full);
}

/* The rank has died: closes the window and drops the open batch. Progress drops what waits. */
__attribute__((noinline, cold)) pgas_status_t pgasi_send_shut(pgasi_sendq_t *sq, int dest)
{
    out_t *out = out_of(sq, dest);
    out->dead = true;
    publish(sq, out, dest, PGASI_PUBLISH_ORDER);
    if (out->kind == OUT_NODE)
        update_window(out);
    return PGAS_ERR_PEER;
}

pgas_status_t pgasi_send_send(pgasi_sendq_t *sq, int dest, const message_t *m, pgas_full_t full,
                              bool now)
{
    int rank = dest % (int)sq->n_ranks;
    if (PGAS_UNLIKELY(pgasi_boot_is_dead(rank)))
        return pgasi_send_shut(sq, dest);
    if (PGAS_UNLIKELY(sq->out[dest].begun))
        return PGAS_ERR_BUSY;
    pgas_status_t status = send(sq, dest, m, full, now);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN) || full == PGAS_FULL_AGAIN ||
        full == PGAS_FULL_QUEUE || pgasi_self.in_handler)
        return status;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    uint64_t begin_ns = pgasi_now_ns();
    while (status == PGAS_ERR_AGAIN) {
        pgasi_ctx_unlock(sq->ctx);
        pgasi_wait_step(&w);
        pgasi_ctx_lock(sq->ctx);
        status = pgasi_boot_is_dead(rank) ? PGAS_ERR_PEER : send(sq, dest, m, full, now);
    }
    pgasi_ctx_unlock(sq->ctx);
    pgasi_wait_end(&w);
    pgasi_ctx_lock(sq->ctx);
    sq->stats.blocked_ns += pgasi_now_ns() - begin_ns;
    return status;
}

/* ---- for other files ---- */

int pgasi_sendq_progress(pgasi_sendq_t *sq)
{
    int n = 0;
    for (int i = 0; i < sq->n_held;) {
        int dest = sq->held[i];
        out_t *out = &sq->out[dest];
        pgas_status_t status = send_waiting(sq, out);
        if (status != PGAS_ERR_AGAIN)
            status = publish(sq, out, dest, PGASI_PUBLISH_ORDER);
        pgasi_send_check_lost(out->rank, status);
        if (status == PGAS_ERR_AGAIN || pgasi_far_channel_has_unsent(out)) {
            i++;
            continue;
        }
        n++;
        out->held = false;
        sq->held[i] = sq->held[sq->n_held - 1];
        pgasi_send_set_held(sq, sq->n_held - 1);
    }
    return n;
}

bool pgasi_sendq_held(const pgasi_sendq_t *sq)
{
    return __atomic_load_n(&sq->n_held, __ATOMIC_RELAXED) > 0;
}

pgas_status_t pgasi_sendq_append(pgasi_sendq_t *sq, int rank, uint32_t handler, const void *args,
                                 size_t bytes, pgas_full_t full)
{
    message_t m = {
        pgasi_desc_header(handler, bytes, pgasi_self.slot), NULL, NULL, args, 0, bytes
    };
    return pgasi_send_send(sq, rank, &m, full, false);
}

pgas_status_t pgasi_sendq_append_two(pgasi_sendq_t *sq, int rank, uint32_t handler,
                                     const void *head, size_t head_bytes, const void *data,
                                     size_t bytes, pgas_full_t full)
{
    message_t m = { pgasi_desc_header(handler, head_bytes + bytes, pgasi_self.slot),
                    NULL,
                    head,
                    data,
                    head_bytes,
                    bytes };
    return pgasi_send_send(sq, rank, &m, full, false);
}

/* An active receiver makes room within microseconds. Single calls behind a batch take the slower
 * path for one pass over the ring. So gathering begins a little later. */
static void wait_for_room(out_t *out, size_t room)
{
    int n = pgasi_boot.oversubscribed || pgasi_self.in_handler ? 0 : SPINS_FOR_ROOM;
    while (n-- > 0 && is_direct(out) && !ring_room(out, room))
        pgasi_cpu_relax();
}

/* Sends a message, or gathers it behind waiting batches. Every OVERFLOWS_PER_TRY calls, and when
 * the message would exceed the limit, it tries to send the waiting batches. */
static pgas_status_t send_or_gather(pgasi_sendq_t *sq, int dest, const message_t *m)
{
    out_t *out = out_of(sq, dest);
    wait_for_room(out, pgasi_desc_room(m->header));
    if (out->waiting && ++sq->n_overflows % OVERFLOWS_PER_TRY == 0)
        send_waiting(sq, out);
    pgas_status_t status = pgasi_send_send(sq, dest, m, PGAS_FULL_QUEUE, true);
    if (PGAS_LIKELY(status != PGAS_ERR_AGAIN))
        return status;
    send_waiting(sq, out);
    return pgasi_send_send(sq, dest, m, PGAS_FULL_QUEUE, true);
}

pgas_status_t pgasi_send_overflow(pgasi_sendq_t *sq, int dest, const message_t *m,
                                  size_t limit_bytes)
{
    size_t usual = sq->backlog_limit;
    sq->backlog_limit = limit_bytes;
    pgas_status_t status = send_or_gather(sq, dest, m);
    sq->backlog_limit = usual;
    return status;
}

pgas_status_t pgasi_sendq_overflow(pgasi_sendq_t *sq, int rank, uint32_t handler, const void *args,
                                   size_t bytes, size_t limit_bytes)
{
    message_t m = {
        pgasi_desc_header(handler, bytes, pgasi_self.slot), NULL, NULL, args, 0, bytes
    };
    return pgasi_send_overflow(sq, rank, &m, limit_bytes);
}

pgas_status_t pgasi_sendq_marker(pgasi_sendq_t *sq, int dest, uint64_t wire_token)
{
    message_t m = { pgasi_desc_header(PGASI_DESC_MARKER, 0, pgasi_self.slot) | PGASI_DESC_TOKEN,
                    &wire_token,
                    NULL,
                    NULL,
                    0,
                    0 };
    pgas_status_t status = pgasi_send_send(sq, dest, &m, PGASI_FULL_ANSWER, false);
    if (status == PGAS_OK)
        publish(sq, out_of(sq, dest), dest, PGASI_PUBLISH_EXPLICIT);
    return status;
}

pgas_status_t pgasi_sendq_publish(pgasi_sendq_t *sq, int dest, pgasi_publish_reason_t reason)
{
    return publish(sq, out_of(sq, dest), dest, reason);
}

pgas_status_t pgasi_sendq_flush(pgasi_sendq_t *sq, int dest)
{
    out_t *out = out_of(sq, dest);
    pgas_status_t status = publish(sq, out, dest, PGASI_PUBLISH_EXPLICIT);
    if ((!out->waiting && !pgasi_far_channel_has_unsent(out)) || pgasi_self.in_handler)
        return status == PGAS_ERR_AGAIN ? PGAS_OK : status;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    uint64_t begin_ns = pgasi_now_ns();
    while (out->waiting || out->batch || pgasi_far_channel_has_unsent(out)) {
        pgasi_ctx_unlock(sq->ctx);
        pgasi_wait_step(&w);
        pgasi_ctx_lock(sq->ctx);
    }
    pgasi_ctx_unlock(sq->ctx);
    pgasi_wait_end(&w);
    pgasi_ctx_lock(sq->ctx);
    sq->stats.blocked_ns += pgasi_now_ns() - begin_ns;
    return pgasi_boot_is_dead(out->rank) ? PGAS_ERR_PEER : PGAS_OK;
}

pgas_status_t pgasi_sendq_publish_all(pgasi_sendq_t *sq, pgasi_publish_reason_t reason)
{
    pgas_status_t first_error = PGAS_OK;
    for (int i = 0; i < sq->n_dirty; i++) {
        int dest = sq->dirty[i];
        pgas_status_t status = pgasi_sendq_publish(sq, dest, reason);
        if (status != PGAS_OK && status != PGAS_ERR_AGAIN && first_error == PGAS_OK)
            first_error = status;
        sq->out[dest].dirty = false;
    }
    __atomic_store_n(&sq->n_dirty, 0, __ATOMIC_RELEASE);
    sq->answered = false;
    sq->ticking = false;
    return first_error;
}

/* ---- the time limit ---- */

void pgasi_sendq_set_latency(pgasi_sendq_t *sq, uint64_t latency_ns)
{
    __atomic_store_n(&sq->latency_ns, PGASI_MIN(sq->latency_ns, latency_ns), __ATOMIC_RELAXED);
}

bool pgasi_sendq_timed(const pgasi_sendq_t *sq)
{
    return __atomic_load_n(&sq->n_dirty, __ATOMIC_RELAXED) > 0 &&
           __atomic_load_n(&sq->latency_ns, __ATOMIC_RELAXED) != UINT64_MAX;
}

/* A tick is half the limit, and a batch leaves with the second tick that it sees. So opening a
 * batch does not read the clock. */
int pgasi_sendq_look(pgasi_sendq_t *sq)
{
    uint64_t now = pgasi_now_ns(), step = sq->latency_ns / 2;
    if (!sq->ticking || now - sq->ticked_ns < step) {
        sq->ticked_ns = sq->ticking ? sq->ticked_ns : now;
        sq->ticking = true;
        return 0;
    }
    int n = 0;
    sq->tick += (now - sq->ticked_ns) / PGASI_MAX(step, 1);
    sq->ticked_ns = now;
    for (int i = 0; i < sq->n_dirty;) {
        int dest = sq->dirty[i];
        out_t *out = &sq->out[dest];
        if (out->batch && sq->tick - out->opened < 2) {
            i++;
            continue;
        }
        n += out->batch && publish(sq, out, dest, PGASI_PUBLISH_TIME) == PGAS_OK;
        out->dirty = false;
        sq->dirty[i] = sq->dirty[sq->n_dirty - 1];
        __atomic_store_n(&sq->n_dirty, sq->n_dirty - 1, __ATOMIC_RELEASE);
    }
    sq->ticking = sq->n_dirty > 0;
    return n;
}
