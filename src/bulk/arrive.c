/* Bulk messages arrive: this file checks them and assembles their pieces. See bulk.h.
 *
 * A message of one descriptor runs without a copy and without an allocation, if its pulled buffers
 * are within reach and its handler does not wait. For a message in pieces the head gets one block,
 * and each copied buffer gets memory of its own, which a handler may keep. The pieces of one
 * message arrive in order and at one endpoint; pieces of several messages of a rank may alternate.
 * Endpoints receive at the same time: the list of messages has a lock, and one thread at a time
 * adds a piece to a message. No size or address is used before pgasi_bulk_head_is_sane has checked
 * it. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "bulk/bulk.h"
#include "call/handler.h"
#include "msg/dispatch.h"

/* The size of a message with the most parts with which a message may run in place. */
#define IN_PLACE_BYTES      \
    (sizeof(pgasi_bulk_t) + \
     PGAS_BUFFERS_MAX * (sizeof(pgasi_part_t) + sizeof(pgas_archive_chunk_t)))

static struct {
    pthread_mutex_t lock;
    pgasi_bulk_t *partial; /* messages of which some pieces have arrived; under the lock */
    uint64_t copies_held;  /* bytes of copied buffers in memory of their own; atomic */
} arriving = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void report(int rank, const char *what)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "a call with buffers from rank %d %s: dropped", rank, what);
}

/* ---- in one piece ---- */

/* The handler needs a thread of its own. */
static bool is_task(const char *block)
{
    uint16_t handler;
    memcpy(&handler, block + offsetof(pgasi_bulk_head_t, handler), sizeof handler);
    return block[offsetof(pgasi_bulk_head_t, spawn)] || pgasi_handler_blocks(handler);
}

/* Returns true if the message must go through the list of pull.c. */
static bool waits_in_line(const pgasi_bulk_t *p)
{
    return pgasi_bulk_has_pulls(p) || (p->head.flags & (PGASI_BULK_ARCHIVE | PGASI_BULK_ORDERED) &&
                                       pgasi_pulls_are_before(&p->head));
}

/* Readers need the stream of an archive aligned to 16, but it may arrive at a multiple of 8. */
static __attribute__((noinline)) void run_aligned(pgasi_bulk_t *p)
{
    _Alignas(16) char block[PGASI_BULK_PIECE_MAX];
    p->block = memcpy(block, p->block, p->head.head_bytes);
    pgasi_bulk_run(p);
}

/* Runs a call that came in one piece, without copying it. First reads its pulled buffers, if the
 * thread can read all of them at once. @return false: it cannot, and nothing has happened */
static bool run_in_place(const char *block, pgas_thread_t source)
{
    _Alignas(16) char room[IN_PLACE_BYTES];
    pgasi_bulk_t *p = (pgasi_bulk_t *)(void *)room;
    pgasi_bulk_head_t h;
    memcpy(&h, block, sizeof h);
    bool unaligned = h.flags & PGASI_BULK_ARCHIVE && (uintptr_t)(block + h.args_at) % 16 != 0;
    if (h.n_parts > PGAS_BUFFERS_MAX || (unaligned && h.head_bytes > PGASI_BULK_PIECE_MAX))
        return false;
    pgasi_bulk_init(p, block, source);
    p->block = (char *)(uintptr_t)block;
    pgasi_bulk_place_parts(p);
    pgasi_bulk_place_copies(p);
    bool pulls = pgasi_bulk_has_pulls(p);
    if (!pulls && waits_in_line(p))
        return false;
    if (pulls && (p->status != PGAS_OK || !pgasi_pull_now(p)))
        return false;
    if (unaligned)
        run_aligned(p);
    else
        pgasi_bulk_run(p);
    pgasi_bulk_free_parts(p);
    if (pulls)
        pgasi_pull_release(p);
    return true;
}

static void whole_arrived(const char *stream, uint64_t total, pgas_thread_t source, bool left)
{
    if (total < sizeof(pgasi_bulk_head_t) || !pgasi_bulk_head_is_sane(stream, total, source)) {
        report(pgas_thread_rank(source), "is malformed");
        return;
    }
    if (left) {
        pgasi_bulk_refuse(stream, source, PGAS_ERR_PEER);
        return;
    }
    if (!is_task(stream) && run_in_place(stream, source))
        return;
    pgasi_bulk_t *p = pgasi_bulk_new(stream, source);
    char *block = malloc(total);
    if (!p || !block) {
        free(p);
        free(block);
        pgasi_bulk_refuse(stream, source, PGAS_ERR_NO_MEMORY);
        return;
    }
    memcpy(block, stream, total);
    p->block = block;
    p->own_block = true;
    pgasi_bulk_place_parts(p);
    pgasi_bulk_place_copies(p);
    if (waits_in_line(p))
        pgasi_pull_begin(p);
    else
        pgasi_bulk_finish(p);
}

/* ---- pieces ---- */

/* Counts bytes of copied buffers. @return false: they would exceed PGAS_BUFFER_LIMIT */
static bool hold_copies(pgasi_bulk_t *p, uint64_t need)
{
    uint64_t held = __atomic_load_n(&arriving.copies_held, __ATOMIC_RELAXED);
    do {
        if (need > pgasi_param.buffer_limit - PGASI_MIN(held, pgasi_param.buffer_limit))
            return false;
    } while (!__atomic_compare_exchange_n(&arriving.copies_held, &held, held + need, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    p->held = need;
    p->account = &arriving.copies_held;
    return true;
}

static void release_copies(pgasi_bulk_t *p)
{
    if (p->held)
        __atomic_fetch_sub(&arriving.copies_held, p->held, __ATOMIC_RELAXED);
    p->held = 0;
}

/* The head is complete: allocates memory for the copied buffers. */
static void open_copies(pgasi_bulk_t *p)
{
    if (!pgasi_bulk_head_is_sane(p->block, p->total, p->source)) {
        report(pgas_thread_rank(p->source), "is malformed");
        p->dropped = true;
        p->n_parts = 0; /* the descriptions of the parts are not valid */
        return;
    }
    pgasi_bulk_place_parts(p);
    if (p->status == PGAS_OK && !hold_copies(p, p->total - p->head.head_bytes))
        p->status = PGAS_ERR_NO_MEMORY;
    for (size_t i = 0; i < p->n_parts && p->status == PGAS_OK; i++) {
        pgasi_part_t *part = &p->part[i];
        if (pgasi_bulk_part(p, i)->mode != PGAS_BUFFER_COPY || !part->here.bytes)
            continue;
        part->here.address = malloc(part->here.bytes);
        part->here.own = part->here.address != NULL;
        if (!part->here.own)
            p->status = PGAS_ERR_NO_MEMORY;
    }
    if (p->status != PGAS_OK)
        release_copies(p);
}

static uint64_t feed_head(pgasi_bulk_t *p, const char *data, uint64_t bytes)
{
    uint64_t n = PGASI_MIN(bytes, p->head.head_bytes - p->arrived);
    memcpy(p->block + p->arrived, data, n);
    p->arrived += n;
    if (p->arrived == p->head.head_bytes)
        open_copies(p);
    return n;
}

/* Takes bytes of one buffer and of its padding. @return the number of bytes of the stream */
static uint64_t feed_copy(pgasi_bulk_t *p, const char *data, uint64_t bytes)
{
    uint64_t begin = p->head.head_bytes;
    size_t i = 0;
    for (;; i++) {
        uint64_t room = pgasi_bulk_part(p, i)->mode == PGAS_BUFFER_COPY
                            ? PGASI_ALIGN_UP(p->part[i].here.bytes, 8)
                            : 0;
        if (p->arrived < begin + room)
            break;
        begin += room;
    }
    pgasi_part_t *part = &p->part[i];
    uint64_t inside = p->arrived - begin;
    uint64_t n = PGASI_MIN(bytes, PGASI_ALIGN_UP(part->here.bytes, 8) - inside);
    if (inside < part->here.bytes)
        memcpy(part->here.address + inside, data, PGASI_MIN(n, part->here.bytes - inside));
    p->arrived += n;
    return n;
}

static void feed(pgasi_bulk_t *p, const char *data, uint64_t bytes)
{
    while (bytes) {
        uint64_t n = bytes;
        if (p->block && p->arrived < p->head.head_bytes)
            n = feed_head(p, data, bytes);
        else if (p->status == PGAS_OK && !p->dropped)
            n = feed_copy(p, data, bytes);
        else
            p->arrived += n;
        data += n;
        bytes -= n;
    }
}

/* The link to a message in the list, or the link at the end. Lock held. */
static pgasi_bulk_t **find_partial(int rank, uint64_t id)
{
    pgasi_bulk_t **at = &arriving.partial;
    while (*at && ((*at)->id != id || pgas_thread_rank((*at)->source) != rank))
        at = &(*at)->next;
    return at;
}

static pgasi_bulk_t *open_partial(const pgasi_bulk_piece_t *piece, const char *data, size_t bytes,
                                  pgas_thread_t source)
{
    pgasi_bulk_head_t h;
    if (piece->offset != 0 || bytes < sizeof h)
        return NULL;
    memcpy(&h, data, sizeof h);
    if (!pgasi_bulk_head_fits(&h) || h.head_bytes > piece->total)
        return NULL;
    pgasi_bulk_t *p = pgasi_bulk_new(data, source);
    if (!p)
        return NULL;
    p->id = piece->id;
    p->total = piece->total;
    p->block = malloc(h.head_bytes);
    p->own_block = p->block != NULL;
    p->status = p->block ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    return p;
}

/* Finds the message to which a piece belongs, or begins a new one. Until end_piece no other thread
 * uses it. NULL: the piece does not fit, or there is no memory. */
static pgasi_bulk_t *begin_piece(const pgasi_bulk_piece_t *piece, const char *data, size_t bytes,
                                 pgas_thread_t source)
{
    pthread_mutex_lock(&arriving.lock);
    pgasi_bulk_t **at = find_partial(pgas_thread_rank(source), piece->id), *p = *at;
    if (!p && (p = open_partial(piece, data, bytes, source))) {
        p->next = arriving.partial;
        arriving.partial = p;
    }
    if (p && (p->feeding || piece->total != p->total || piece->offset != p->arrived))
        p = NULL;
    else if (p)
        p->feeding = true;
    pthread_mutex_unlock(&arriving.lock);
    return p;
}

/* Ends the use of a message. True: it is complete, or must be dropped, and has left the list. */
static bool end_piece(pgasi_bulk_t *p)
{
    pthread_mutex_lock(&arriving.lock);
    p->feeding = false;
    bool complete = p->arrived == p->total, leaves = complete || p->doomed;
    p->dropped |= p->doomed;
    if (leaves)
        *find_partial(pgas_thread_rank(p->source), p->id) = p->next;
    pthread_mutex_unlock(&arriving.lock);
    return leaves;
}

/* All pieces have arrived, or the message must be dropped. */
static void complete_partial(pgasi_bulk_t *p)
{
    if (p->dropped) {
        pgasi_bulk_release(p);
    } else if (p->status != PGAS_OK) {
        pgasi_bulk_refuse((const char *)&p->head, p->source, p->status);
        pgasi_bulk_release(p);
    } else if (waits_in_line(p)) {
        release_copies(p); /* from here on the limit of pulls bounds the message */
        pgasi_pull_begin(p);
    } else {
        pgasi_bulk_finish(p);
    }
}

/* left: the thread of the endpoint has left. */
static void piece_arrived(const void *args, size_t bytes, pgas_thread_t source, bool left)
{
    pgasi_bulk_piece_t piece;
    int rank = pgas_thread_rank(source);
    memset(&piece, 0, sizeof piece);
    if (bytes > sizeof piece)
        memcpy(&piece, args, sizeof piece);
    const char *data = (const char *)args + sizeof piece;
    if (bytes <= sizeof piece || piece.offset > piece.total ||
        bytes - sizeof piece > piece.total - piece.offset) {
        report(rank, "is malformed");
        return;
    }
    bytes -= sizeof piece;
    if (bytes == piece.total) {
        whole_arrived(data, bytes, source, left);
        return;
    }
    pgasi_bulk_t *p = begin_piece(&piece, data, bytes, source);
    if (!p) {
        report(rank, "has an unexpected piece, or there is no memory for it");
        return;
    }
    if (left && p->status == PGAS_OK)
        p->status = PGAS_ERR_PEER;
    feed(p, data, bytes);
    if (end_piece(p))
        complete_partial(p);
}

static void on_piece(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    piece_arrived(args, bytes, source, false);
}

static void on_ready(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    pgasi_bulk_t *p = pgasi_pull_ready(args, bytes, source);
    if (p)
        pgasi_bulk_finish(p);
}

static bool refuse_piece(const void *args, size_t bytes, pgas_thread_t source)
{
    piece_arrived(args, bytes, source, true);
    return true;
}

static bool refuse_ready(const void *args, size_t bytes, pgas_thread_t source)
{
    pgasi_bulk_t *p = pgasi_pull_ready(args, bytes, source);
    if (!p)
        return false;
    p->status = PGAS_ERR_PEER;
    pgasi_bulk_finish(p);
    return true;
}

/* ---- deaths, start and stop ---- */

/* Removes the messages that a rank has begun to send; rank -1: all ranks. A message to which a
 * thread is adding a piece is released after that. */
static void drop_partials(int rank)
{
    pgasi_bulk_t *gone = NULL;
    pthread_mutex_lock(&arriving.lock);
    for (pgasi_bulk_t **at = &arriving.partial; *at;) {
        pgasi_bulk_t *p = *at;
        bool meant = rank < 0 || pgas_thread_rank(p->source) == rank;
        p->doomed |= meant;
        if (!meant || p->feeding) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = gone;
        gone = p;
    }
    pthread_mutex_unlock(&arriving.lock);
    while (gone) {
        pgasi_bulk_t *p = gone;
        gone = p->next;
        pgasi_bulk_release(p);
    }
}

void pgasi_arrive_peer_died(int rank)
{
    drop_partials(rank);
}

void pgasi_arrive_start(void)
{
    arriving.partial = NULL;
    arriving.copies_held = 0;
    pgasi_handler_set_internal(PGASI_DESC_BULK, on_piece);
    pgasi_handler_set_internal(PGASI_DESC_BULK_READY, on_ready);
    pgasi_handler_set_refused(PGASI_DESC_BULK, refuse_piece);
    pgasi_handler_set_refused(PGASI_DESC_BULK_READY, refuse_ready);
}

void pgasi_arrive_stop(void)
{
    drop_partials(-1);
}
