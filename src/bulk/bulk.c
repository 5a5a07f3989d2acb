/* Bulk messages arrive: put together, checked, run. See bulk.h.
 *
 * What comes in one descriptor is run where it lies, without an allocation. What comes in pieces
 * gets its head in one block and each copied buffer in memory of its own, which a handler may keep;
 * pieces of one bulk message come in order and to one endpoint, those of several bulk messages of a
 * rank may alternate. Endpoints receive at the same time: the list of bulk messages has a lock, and
 * the thread that adds a piece has the bulk message to itself. Nothing in a bulk message is
 * believed before check_head has seen it. */
#include "bulk/bulk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "msg/descriptor.h"
#include "call/sync.h"
#include "call/task.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pgasi_bulk_t *partial; /* that have begun to arrive; under the lock */
/* bytes in own memory of copied buffers that arrive or are being used; atomic */
static uint64_t copies_held;

/* The call whose handler the thread runs, and how deep. */
typedef struct {
    pgasi_bulk_t *bulk;
    int depth;
} running_t;
static __thread running_t running __attribute__((tls_model("initial-exec")));

/* Those that run while a handler waits have their own buffers, or none. */
static inline pgasi_bulk_t *bulk_at_hand(void)
{
    return running.bulk && running.depth == pgasi_self.in_handler ? running.bulk : NULL;
}

static void report(int rank, const char *what)
{
    if (pgasi_first_dropped())
        PGASI_ERROR("call", "a call with buffers from rank %d %s: dropped", rank, what);
}

/* ---- checks ---- */

static bool check_key(uint64_t at_8, const pgasi_bulk_head_t *h)
{
    return !at_8 || (at_8 * 8 <= h->head_bytes &&
                     h->head_bytes - at_8 * 8 >= offsetof(pgasi_segment_wire_t, key));
}

static bool check_part(const pgasi_bulk_part_t *w, const pgasi_bulk_head_t *h, pgas_thread_t source)
{
    int rank = w->mode == PGAS_BUFFER_PULL ? pgas_thread_rank(source) : pgasi_boot.rank;
    if (w->mode > PGAS_BUFFER_PULL || w->bytes > UINT64_MAX / PGAS_BUFFERS_MAX / 2)
        return false;
    if (w->mode != PGAS_BUFFER_COPY && w->ptr && w->bytes && pgas_gptr_rank(w->ptr) != rank)
        return false;
    return check_key(w->key_at_8, h);
}

/* Sizes and places of a head of head_bytes bytes in a stream of `total`. */
static bool check_head(const char *block, uint64_t total, pgas_thread_t source)
{
    pgasi_bulk_head_t h;
    memcpy(&h, block, sizeof h);
    size_t parts_end = sizeof h + h.n_parts * sizeof(pgasi_bulk_part_t);
    if (h.n_parts > PGAS_BUFFERS_MAX || h.head_bytes > total || h.head_bytes % 8 || h.args_at % 8 ||
        h.args_at < parts_end || h.args_at > h.head_bytes ||
        h.args_bytes > h.head_bytes - h.args_at || h.ep >= (uint32_t)pgasi_n_eps ||
        !check_key(h.reply_key_at_8, &h) ||
        (h.reply_ptr && pgas_gptr_rank(h.reply_ptr) != pgas_thread_rank(source)))
        return false;
    uint64_t copied = 0;
    for (size_t i = 0; i < h.n_parts; i++) {
        pgasi_bulk_part_t w;
        memcpy(&w, block + sizeof h + i * sizeof w, sizeof w);
        if (!check_part(&w, &h, source))
            return false;
        copied += w.mode == PGAS_BUFFER_COPY ? PGASI_ALIGN_UP(w.bytes, 8) : 0;
    }
    return copied == total - h.head_bytes;
}

static bool has_pulls(const pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++)
        if (pgasi_bulk_wire(p, i)->mode == PGAS_BUFFER_PULL)
            return true;
    return false;
}

/* ---- parts ---- */

static size_t parcel_bytes(size_t n_parts)
{
    return sizeof(pgasi_bulk_t) + n_parts * sizeof(pgasi_part_t);
}

static void init_bulk(pgasi_bulk_t *p, const char *block, pgas_thread_t source)
{
    memset(p, 0, sizeof *p);
    memcpy(&p->head, block, sizeof p->head);
    p->source = source;
    p->n_parts = p->head.n_parts;
    memset(p->part, 0, p->n_parts * sizeof p->part[0]);
}

/* A pushed buffer stands in a segment of this rank. */
static pgas_status_t place_pushed(pgasi_part_t *part, const pgasi_bulk_part_t *w)
{
    pgasi_where_t where = PGASI_WHERE_FAR;
    void *address = NULL;
    pgas_status_t status = w->bytes ? pgasi_resolve(w->ptr, w->bytes, &where, &address) : PGAS_OK;
    part->address = address;
    part->state = PGASI_PART_DONE;
    return status;
}

/* Knows what does not travel; copies are up to the caller. */
static void place_parts(pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++) {
        const pgasi_bulk_part_t *w = pgasi_bulk_wire(p, i);
        p->part[i].bytes = w->bytes;
        p->part[i].bulk = p;
        if (w->mode == PGAS_BUFFER_PUSH && p->status == PGAS_OK)
            p->status = place_pushed(&p->part[i], w);
        else if (w->mode == PGAS_BUFFER_COPY)
            p->part[i].state = PGASI_PART_DONE;
    }
}

/* Copied buffers that lie behind the head. */
static void place_copies(pgasi_bulk_t *p)
{
    char *at = p->block + p->head.head_bytes;
    for (size_t i = 0; i < p->n_parts; i++) {
        if (pgasi_bulk_wire(p, i)->mode != PGAS_BUFFER_COPY)
            continue;
        p->part[i].address = at;
        at += PGASI_ALIGN_UP(p->part[i].bytes, 8);
    }
}

void pgasi_bulk_destroy(pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->part[i].own)
            free(p->part[i].address);
    if (p->own_block)
        free(p->block);
    free(p);
}

/* ---- running ---- */

/* Nobody waits for it: a thread that has left is an ordinary thing, told once. */
static __attribute__((noinline, cold)) void report_lost(const pgasi_bulk_t *p)
{
    if (p->status != PGAS_ERR_PEER || pgasi_first_dropped())
        PGASI_ERROR("call", "a call with buffers from rank %d is lost: %s",
                    pgas_thread_rank(p->source), pgas_status_text(p->status));
}

/* Runs the call, or tells its counter why not. */
static void run(pgasi_bulk_t *p)
{
    const pgasi_bulk_head_t *h = &p->head;
    pgas_status_t status = p->status;
    uint64_t wire = status == PGAS_OK ? h->wire : h->wire & ~PGASI_WIRE_ARRIVED;
    pgasi_call_t outer = pgasi_call_begin(p->source, h->handler, wire);
    if (status == PGAS_OK) {
        running_t before = running;
        running = (running_t){ p, pgasi_self.in_handler };
        status =
            pgasi_handler_run_here(h->handler, p->block + h->args_at, h->args_bytes, p->source);
        running = before;
    } else if (!h->wire) {
        report_lost(p);
    }
    pgasi_call_end(outer, status);
}

static void release(pgasi_bulk_t *p)
{
    bool pulled = p->number != 0;
    if (p->held)
        __atomic_fetch_sub(p->account, p->held, __ATOMIC_RELAXED);
    pgasi_bulk_destroy(p);
    if (pulled && !pgasi_bulk_in_inbox())
        pgasi_pulls_released();
}

static void run_as_task(void *arg)
{
    run(arg);
    release(arg);
}

void pgasi_bulk_finish(pgasi_bulk_t *p)
{
    if (p->status == PGAS_OK && pgasi_handler_blocks(p->head.handler)) {
        p->head.wire = pgasi_call_arrived(p->source, p->head.handler, p->head.wire);
        pgas_status_t status = pgasi_task_submit_call(run_as_task, p);
        if (status == PGAS_OK) /* it may be gone already */
            return;
        p->status = status;
    }
    run(p);
    release(p);
}

/* It came in one piece and needs nothing more: runs where it lies. */
static void run_in_place(const char *block, pgas_thread_t source)
{
    _Alignas(16) char room[sizeof(pgasi_bulk_t) + PGAS_BUFFERS_MAX * sizeof(pgasi_part_t)];
    pgasi_bulk_t *p = (pgasi_bulk_t *)(void *)room;
    init_bulk(p, block, source);
    p->block = (char *)(uintptr_t)block;
    place_parts(p);
    place_copies(p);
    run(p);
}

/* It does not run at all: tells whom it can. */
static void refuse(const char *block, pgas_thread_t source, pgas_status_t status)
{
    pgasi_bulk_t p;
    memset(&p, 0, sizeof p);
    memcpy(&p.head, block, sizeof p.head);
    p.source = source;
    p.status = status;
    pgasi_bulk_free_t f = { p.head.open, p.head.local, status, 0 };
    if (p.head.open)
        pgasi_sendq_answer(pgas_thread_rank(source), PGASI_DESC_BUFFER_FREE, &f, sizeof f, NULL, 0);
    run(&p);
}

static bool block_has_pulls(const char *block)
{
    pgasi_bulk_t p;
    memcpy(&p.head, block, sizeof p.head);
    p.block = (char *)(uintptr_t)block;
    p.n_parts = p.head.n_parts;
    return has_pulls(&p);
}

static uint16_t handler_of(const char *block)
{
    uint16_t handler;
    memcpy(&handler, block + offsetof(pgasi_bulk_head_t, handler), sizeof handler);
    return handler;
}

static void whole_arrived(const char *stream, uint64_t total, pgas_thread_t source, bool left)
{
    if (total < sizeof(pgasi_bulk_head_t) || !check_head(stream, total, source)) {
        report(pgas_thread_rank(source), "is malformed");
        return;
    }
    if (left) {
        refuse(stream, source, PGAS_ERR_PEER);
        return;
    }
    bool pulls = block_has_pulls(stream);
    if (!pulls && !pgasi_handler_blocks(handler_of(stream))) {
        run_in_place(stream, source);
        return;
    }
    pgasi_bulk_t *p = malloc(parcel_bytes((uint8_t)stream[offsetof(pgasi_bulk_head_t, n_parts)]));
    char *block = malloc(total);
    if (!p || !block) {
        free(p);
        free(block);
        refuse(stream, source, PGAS_ERR_NO_MEMORY);
        return;
    }
    memcpy(block, stream, total);
    init_bulk(p, block, source);
    p->block = block;
    p->own_block = true;
    place_parts(p);
    place_copies(p);
    if (pulls)
        pgasi_pull_begin(p);
    else
        pgasi_bulk_finish(p);
}

/* ---- pieces ---- */

/* Bytes on the account of copies. */
static bool hold_copies(pgasi_bulk_t *p, uint64_t need)
{
    uint64_t held = __atomic_load_n(&copies_held, __ATOMIC_RELAXED);
    do {
        if (need > pgasi_param.buffer_limit - PGASI_MIN(held, pgasi_param.buffer_limit))
            return false;
    } while (!__atomic_compare_exchange_n(&copies_held, &held, held + need, true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    p->held = need;
    p->account = &copies_held;
    return true;
}

static void let_go_of_copies(pgasi_bulk_t *p)
{
    if (p->held)
        __atomic_fetch_sub(&copies_held, p->held, __ATOMIC_RELAXED);
    p->held = 0;
}

/* The head is complete: memory for what follows. */
static void open_copies(pgasi_bulk_t *p)
{
    if (!check_head(p->block, p->total, p->source)) {
        report(pgas_thread_rank(p->source), "is malformed");
        p->dropped = true;
        p->n_parts = 0; /* none of which is known */
        return;
    }
    place_parts(p);
    if (p->status == PGAS_OK && !hold_copies(p, p->total - p->head.head_bytes))
        p->status = PGAS_ERR_NO_MEMORY;
    for (size_t i = 0; i < p->n_parts && p->status == PGAS_OK; i++) {
        pgasi_part_t *part = &p->part[i];
        if (pgasi_bulk_wire(p, i)->mode != PGAS_BUFFER_COPY || !part->bytes)
            continue;
        part->address = malloc(part->bytes);
        part->own = part->address != NULL;
        if (!part->own)
            p->status = PGAS_ERR_NO_MEMORY;
    }
    if (p->status != PGAS_OK)
        let_go_of_copies(p);
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

/* Bytes from the present place of the stream on, as far as they belong to one buffer and its
 * pad. */
static uint64_t feed_copy(pgasi_bulk_t *p, const char *data, uint64_t bytes)
{
    uint64_t begin = p->head.head_bytes;
    size_t i = 0;
    for (;; i++) {
        uint64_t room = pgasi_bulk_wire(p, i)->mode == PGAS_BUFFER_COPY
                            ? PGASI_ALIGN_UP(p->part[i].bytes, 8)
                            : 0;
        if (p->arrived < begin + room)
            break;
        begin += room;
    }
    pgasi_part_t *part = &p->part[i];
    uint64_t inside = p->arrived - begin;
    uint64_t n = PGASI_MIN(bytes, PGASI_ALIGN_UP(part->bytes, 8) - inside);
    if (inside < part->bytes)
        memcpy(part->address + inside, data, PGASI_MIN(n, part->bytes - inside));
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

/* Lock held. Where the bulk message stands in the list; at its end if it is not there. */
static pgasi_bulk_t **find_partial(int rank, uint64_t id)
{
    pgasi_bulk_t **at = &partial;
    while (*at && ((*at)->id != id || pgas_thread_rank((*at)->source) != rank))
        at = &(*at)->next;
    return at;
}

static size_t head_bytes_max(void)
{
    const size_t part = sizeof(pgasi_bulk_part_t) + sizeof(pgasi_segment_wire_t) + 8;
    return sizeof(pgasi_bulk_head_t) + PGAS_BUFFERS_MAX * part + sizeof(pgasi_segment_wire_t) +
           pgasi_param.call_max + 8;
}

static pgasi_bulk_t *open_partial(const pgasi_bulk_piece_t *piece, const char *data, size_t bytes,
                                  pgas_thread_t source)
{
    pgasi_bulk_head_t h;
    if (piece->offset != 0 || bytes < sizeof h)
        return NULL;
    memcpy(&h, data, sizeof h);
    if (h.n_parts > PGAS_BUFFERS_MAX || h.head_bytes < sizeof h ||
        h.head_bytes > head_bytes_max() || h.head_bytes > piece->total)
        return NULL;
    pgasi_bulk_t *p = malloc(parcel_bytes(h.n_parts));
    if (!p)
        return NULL;
    init_bulk(p, data, source);
    p->id = piece->id;
    p->total = piece->total;
    p->block = malloc(h.head_bytes);
    p->own_block = p->block != NULL;
    p->status = p->block ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    return p;
}

/* Takes up the bulk message that a piece belongs to, or a new one: the thread has it to itself
 * until done_with. */
static pgasi_bulk_t *parcel_of(const pgasi_bulk_piece_t *piece, const char *data, size_t bytes,
                               pgas_thread_t source)
{
    pthread_mutex_lock(&lock);
    pgasi_bulk_t **at = find_partial(pgas_thread_rank(source), piece->id), *p = *at;
    if (!p && (p = open_partial(piece, data, bytes, source))) {
        p->next = partial;
        partial = p;
    }
    if (p && (p->feeding || piece->total != p->total || piece->offset != p->arrived))
        p = NULL;
    else if (p)
        p->feeding = true;
    pthread_mutex_unlock(&lock);
    return p;
}

/* Puts the bulk message back, or takes it out of the list if it is complete: then true. */
static bool done_with(pgasi_bulk_t *p)
{
    pthread_mutex_lock(&lock);
    p->feeding = false;
    bool complete = p->arrived == p->total, leaves = complete || p->doomed;
    p->dropped |= p->doomed;
    if (leaves)
        *find_partial(pgas_thread_rank(p->source), p->id) = p->next;
    pthread_mutex_unlock(&lock);
    return leaves;
}

/* All pieces are there, or it was given up. */
static void complete_partial(pgasi_bulk_t *p)
{
    if (p->dropped) {
        release(p);
    } else if (p->status != PGAS_OK) {
        refuse((const char *)&p->head, p->source, p->status);
        release(p);
    } else if (has_pulls(p)) {
        let_go_of_copies(p); /* what is held from here on is bounded by the pulls */
        pgasi_pull_begin(p);
    } else {
        pgasi_bulk_finish(p);
    }
}

/* left: at an endpoint that no thread answers to any more. */
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
    pgasi_bulk_t *p = parcel_of(&piece, data, bytes, source);
    if (!p) {
        report(rank, "has a piece that does not belong to it, or finds no memory");
        return;
    }
    if (left && p->status == PGAS_OK)
        p->status = PGAS_ERR_PEER;
    feed(p, data, bytes);
    if (done_with(p))
        complete_partial(p);
}

static void on_parcel(const void *args, size_t bytes, pgas_thread_t source, void *context)
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

/* ---- what handlers see ---- */

const pgasi_bulk_t *pgasi_bulk_running(void)
{
    return bulk_at_hand();
}

size_t pgas_buffer_count(void)
{
    const pgasi_bulk_t *p = bulk_at_hand();
    return p ? p->n_parts : 0;
}

pgas_status_t pgas_buffer_get(size_t i, void **address_p, size_t *bytes_p)
{
    const pgasi_bulk_t *p = bulk_at_hand();
    if (!p || i >= p->n_parts)
        return PGAS_ERR_RANGE;
    if (!address_p || !bytes_p)
        return PGAS_ERR_INVALID;
    *address_p = p->part[i].address;
    *bytes_p = p->part[i].bytes;
    return PGAS_OK;
}

pgas_status_t pgas_buffer_take(size_t i, void **address_p)
{
    pgasi_bulk_t *p = bulk_at_hand();
    if (!p || i >= p->n_parts)
        return PGAS_ERR_RANGE;
    pgasi_part_t *part = &p->part[i];
    if (!address_p || part->taken || pgasi_bulk_wire(p, i)->mode == PGAS_BUFFER_PUSH)
        return PGAS_ERR_INVALID;
    if (!part->own) {
        char *memory = malloc(part->bytes ? part->bytes : 1);
        if (!memory)
            return PGAS_ERR_NO_MEMORY;
        if (part->bytes)
            memcpy(memory, part->address, part->bytes);
        part->address = memory;
    }
    part->own = false;
    part->taken = true;
    *address_p = part->address;
    return PGAS_OK;
}

/* ---- start and stop ---- */

/* Takes out of the list what a rank had begun to send, of any rank if it is -1; what is being fed
 * goes after that. */
static void drop_partials(int rank)
{
    pgasi_bulk_t *gone = NULL;
    pthread_mutex_lock(&lock);
    for (pgasi_bulk_t **at = &partial; *at;) {
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
    pthread_mutex_unlock(&lock);
    while (gone) {
        pgasi_bulk_t *p = gone;
        gone = p->next;
        release(p);
    }
}

/* Forgets what a dead rank had begun to send, or asked for. */
static void forget_dead(int rank)
{
    drop_partials(rank);
    pgasi_recv_lock();
    pgasi_replies_peer_died(rank);
    pgasi_pulls_peer_died(rank);
    pgasi_buffers_peer_died(rank);
    pgasi_recv_unlock();
}

pgas_status_t pgasi_bulks_start(void)
{
    partial = NULL;
    copies_held = 0;
    pgasi_handler_set_internal(PGASI_DESC_BULK, on_parcel);
    pgasi_handler_set_internal(PGASI_DESC_BULK_READY, on_ready);
    pgasi_handler_set_refused(PGASI_DESC_BULK, refuse_piece);
    pgasi_handler_set_refused(PGASI_DESC_BULK_READY, refuse_ready);
    pgasi_hooks.death_settled[PGASI_LAYER_BULK] = forget_dead;
    pgasi_pulls_start();
    return PGAS_OK;
}

void pgasi_bulks_stop(void)
{
    drop_partials(-1);
    pgasi_replies_stop();
    pgasi_pulls_stop();
}
