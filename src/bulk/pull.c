/* Pulls: the target reads the buffers of a call, each on the shortest way to it.
 *
 *      own rank, or a segment that is mapped here       loads
 *      other memory on the node                         process_vm_readv, unless refused
 *      a segment of another node                        one get on context 0, whose key came with
 *                                                       the call
 *      all else                                         the source sends pieces of what it is asked
 *                                                       for
 *
 * Calls stand in one list in the order they came. Reads of several overlap; a call runs when its
 * own are complete and no earlier call of its thread to its endpoint is left. With a helper the
 * same is done by a thread that may wait. Everything here happens under the receive lock but for
 * read_as_helper, which touches nothing but its parts, and for two lists with a lock of their own:
 * calls that come from other endpoints, and those that go back there when all is read. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/checks.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"
#include "bulk/bulk.h"
#include "msg/descriptor.h"
#include "call/call.h"
#include "call/sync.h"
#include "call/task.h"
#include "mem/rma.h"

#define ASK_BYTES  ((uint64_t)64 << 10) /* of one request; two are under way for a buffer */
#define ASKING_MAX 8                    /* calls whose buffers come in pieces at one time */

static pgasi_bulk_t *pending, **pending_end = &pending;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pgasi_bulk_t *come, **come_end = &come; /* from other endpoints; under the lock */
static pgasi_bulk_t *read_for_eps;             /* under the lock */
static uint64_t pulls_held;                    /* bytes of buffers read or being read; atomic */
static uint64_t held_high;
static uint64_t last_number; /* of a bulk message */
static int n_asking;
static bool vm_refused;

void pgasi_pulls_call(void)
{
    pgasi_hooks_want_poll(PGASI_LAYER_BULK, true);
}

uint64_t pgasi_pulls_high(void)
{
    return held_high;
}

/* ---- memory within reach ---- */

bool pgasi_vm_copy(int rank, void *here, uint64_t there, uint64_t bytes, bool write)
{
    int local = pgasi_boot.local_of[rank];
    if (local < 0 || !pgasi_param.vm_read || __atomic_load_n(&vm_refused, __ATOMIC_RELAXED))
        return false;
    for (uint64_t done = 0; done < bytes;) {
        struct iovec mine = { (char *)here + done, bytes - done };
        struct iovec peers = { (char *)(uintptr_t)there + done, bytes - done };
        ssize_t n = write ? process_vm_writev(pgasi_boot.node_pids[local], &mine, 1, &peers, 1, 0)
                          : process_vm_readv(pgasi_boot.node_pids[local], &mine, 1, &peers, 1, 0);
        if (n <= 0) {
            if (n < 0 && (errno == EPERM || errno == ENOSYS))
                __atomic_store_n(&vm_refused, true, __ATOMIC_RELAXED);
            return false;
        }
        done += (uint64_t)n;
    }
    return true;
}

void *pgasi_bulk_reach(int rank, pgas_gptr_t ptr, uint64_t bytes)
{
    pgasi_where_t where;
    void *there;
    bool mapped = ptr && pgas_gptr_rank(ptr) == rank &&
                  pgasi_resolve(ptr, bytes, &where, &there) == PGAS_OK && where == PGASI_WHERE_HERE;
    return mapped ? there : NULL;
}

/* Any thread. What others may read of this rank is checked where they ask; what it reads of itself
 * is checked here. */
static bool read_near(pgasi_part_t *part, const pgasi_bulk_part_t *w, int rank)
{
    const void *there = pgasi_bulk_reach(rank, w->ptr, w->bytes);
    const pgasi_bulk_t *p = part->bulk;
    if (!there && rank != pgasi_boot.rank)
        return pgasi_vm_copy(rank, part->address, w->address, w->bytes, false);
    if (!there &&
        pgasi_buffer_is_offered(p->head.open, (size_t)(part - p->part), w->address, w->bytes))
        there = (const void *)(uintptr_t)w->address;
    if (there)
        memcpy(part->address, there, w->bytes);
    return there;
}

/* ---- gets ---- */

static void got(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_part_t *part = PGASI_CONTAINER_OF(comp, pgasi_part_t, comp);
    pgasi_ctx_count(pgasi_ctxs[PGASI_CTX_SERVICE], -1);
    part->state = PGASI_PART_DONE;
    if (status != PGAS_OK && part->bulk->status == PGAS_OK)
        part->bulk->status = status;
    pgasi_pulls_call();
}

bool pgasi_bulk_learn(const pgasi_bulk_t *p, uint64_t key_at_8, pgas_gptr_t ptr, uint64_t bytes)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    pgasi_segment_wire_t wire;
    if (!key_at_8 || !ptr || !ctx->tp)
        return false;
    memset(&wire, 0, sizeof wire);
    memcpy(&wire, p->block + key_at_8 * 8,
           PGASI_MIN(p->head.head_bytes - key_at_8 * 8, sizeof wire));
    uint64_t inside = pgas_gptr_offset(ptr) - wire.offset;
    bool sane =
        wire.key_bytes <= sizeof wire.key && inside <= wire.bytes && bytes <= wire.bytes - inside;
    return sane && pgasi_key_learn(ctx, pgas_thread_rank(p->source), &wire) == PGAS_OK;
}

/* PGAS_OK: done; INPROGRESS; AGAIN; anything else: not in this way. */
static pgas_status_t read_far(pgasi_part_t *part, const pgasi_bulk_part_t *w, int rank)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    pgasi_tp_key_t *key;
    uint64_t address, offset = pgas_gptr_offset(w->ptr);
    if (!pgasi_bulk_learn(part->bulk, w->key_at_8, w->ptr, w->bytes))
        return PGAS_ERR_UNSUPPORTED;
    pgasi_ctx_peer_t *peer = &ctx->peer[rank];
    uint64_t inside = offset - PGASI_HEAP_OFFSET;
    if (peer->heap_bytes && w->bytes <= peer->heap_bytes && inside <= peer->heap_bytes - w->bytes) {
        memcpy(part->address, peer->heap + inside, w->bytes);
        return PGAS_OK;
    }
    pgas_status_t status = pgasi_key_get(ctx, rank, offset, w->bytes, &key, &address);
    if (status != PGAS_OK)
        return status;
    part->comp.fn = got;
    part->state = PGASI_PART_GET; /* before its callback, which comes in progress */
    status = ctx->tp->ops->get(ctx->tp, rank, key, address, part->address, w->bytes, &part->comp);
    if (status == PGAS_INPROGRESS)
        pgasi_ctx_count(ctx, 1);
    return status;
}

/* ---- pieces on demand ---- */

static pgasi_part_t *first_asking(pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->part[i].state == PGASI_PART_ASK)
            return &p->part[i];
    return NULL;
}

static void ask(pgasi_bulk_t *p)
{
    pgasi_part_t *part = first_asking(p);
    while (part && part->asked < part->bytes && part->asked < part->arrived + 2 * ASK_BYTES) {
        pgasi_bulk_ask_t a = { part->asked, PGASI_MIN(part->bytes - part->asked, ASK_BYTES),
                               p->number, p->head.open, (uint32_t)(part - p->part) };
        pgasi_sendq_answer(pgas_thread_rank(p->source), PGASI_DESC_BUFFER_READ, &a, sizeof a, NULL,
                           0);
        part->asked += a.bytes;
    }
}

static pgasi_bulk_t *find_pending(uint64_t number, int rank)
{
    pgasi_bulk_t *p = pending;
    while (p && p->number != number)
        p = p->next;
    return p && pgas_thread_rank(p->source) == rank ? p : NULL;
}

static void on_data(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgasi_bulk_data_t d;
    (void)context;
    if (bytes < sizeof d)
        return;
    memcpy(&d, args, sizeof d);
    bytes -= sizeof d;
    pgasi_bulk_t *p = find_pending(d.number, pgas_thread_rank(source));
    if (!p || d.part >= p->n_parts || p->part[d.part].state != PGASI_PART_ASK)
        return;
    pgasi_part_t *part = &p->part[d.part];
    if (d.status != PGAS_OK || d.offset != part->arrived || bytes > part->bytes - part->arrived) {
        p->status = d.status != PGAS_OK ? (pgas_status_t)d.status : PGAS_ERR_INTERNAL;
        part->state = PGASI_PART_DONE;
    } else {
        memcpy(part->address + part->arrived, (const char *)args + sizeof d, bytes);
        part->arrived += bytes;
        if (part->arrived == part->bytes)
            part->state = PGASI_PART_DONE;
        else
            ask(p);
    }
    if (part->state == PGASI_PART_DONE)
        pgasi_pulls_call();
}

/* ---- helpers ---- */

static pgas_status_t read_by_asking(pgasi_part_t *part, int rank)
{
    const pgasi_bulk_t *p = part->bulk;
    size_t piece_max = pgasi_bulk_piece_max(rank);
    pgas_status_t status = PGAS_OK;
    for (uint64_t done = 0; done < part->bytes && status == PGAS_OK;) {
        uint64_t bytes = PGASI_MIN(part->bytes - done, piece_max);
        pgasi_bulk_ask_t a = { done, bytes, 0, p->head.open, (uint32_t)(part - p->part) };
        status = pgasi_ask(rank, PGASI_DESC_BUFFER_READ, &a, sizeof a, part->address + done, bytes);
        done += bytes;
    }
    return status;
}

static void read_as_helper(void *arg)
{
    pgasi_bulk_t *p = arg;
    int rank = pgas_thread_rank(p->source);
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < p->n_parts && status == PGAS_OK; i++) {
        pgasi_part_t *part = &p->part[i];
        const pgasi_bulk_part_t *w = pgasi_bulk_wire(p, i);
        /* other parts change meanwhile */
        bool mine = w->mode == PGAS_BUFFER_PULL && w->helper && w->bytes;
        if (!mine || read_near(part, w, rank))
            continue;
        status = w->ptr ? pgas_get(part->address, w->ptr, w->bytes) : PGAS_ERR_UNSUPPORTED;
        if (status != PGAS_OK)
            status = read_by_asking(part, rank);
    }
    p->helper_status = status;
    __atomic_store_n(&p->helping, 0, __ATOMIC_RELEASE); /* it may be gone from now on */
    pgasi_pulls_call();
    pgasi_bell_ring(pgasi_boot.node_rank);
}

/* ---- one call ---- */

/* Begins to read a buffer in the running thread, or tries again. */
static void read_part(pgasi_part_t *part)
{
    pgasi_bulk_t *p = part->bulk;
    const pgasi_bulk_part_t *w = pgasi_bulk_wire(p, (size_t)(part - p->part));
    int rank = pgas_thread_rank(p->source);
    pgas_status_t status = read_near(part, w, rank) ? PGAS_OK : read_far(part, w, rank);
    switch (status) {
    case PGAS_OK:
        part->state = PGASI_PART_DONE;
        break;
    case PGAS_INPROGRESS:
        break;
    case PGAS_ERR_AGAIN:
        part->state = PGASI_PART_RETRY;
        break;
    default:
        part->state = PGASI_PART_ASK;
        break;
    }
}

static uint64_t need_of(const pgasi_bulk_t *p)
{
    uint64_t need = 0;
    for (size_t i = 0; i < p->n_parts; i++)
        need += pgasi_bulk_wire(p, i)->mode == PGAS_BUFFER_PULL ? p->part[i].bytes : 0;
    return need;
}

static void begin_parts(pgasi_bulk_t *p)
{
    bool help = false;
    for (size_t i = 0; i < p->n_parts && p->status == PGAS_OK; i++) {
        pgasi_part_t *part = &p->part[i];
        const pgasi_bulk_part_t *w = pgasi_bulk_wire(p, i);
        if (w->mode != PGAS_BUFFER_PULL)
            continue;
        if (!part->bytes) {
            part->state = PGASI_PART_DONE;
            continue;
        }
        part->address = malloc(part->bytes);
        part->own = part->address != NULL;
        if (!part->own)
            p->status = PGAS_ERR_NO_MEMORY;
        else if (w->helper)
            part->state = PGASI_PART_HELPER;
        help = help || part->state == PGASI_PART_HELPER;
    }
    if (p->status != PGAS_OK)
        return;
    p->helping = help;
    if (help && pgasi_task_submit(read_as_helper, p) != PGAS_OK) {
        p->helping = 0;
        p->helper_status = PGAS_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->part[i].state == PGASI_PART_NEW)
            read_part(&p->part[i]);
}

static bool begin(pgasi_bulk_t *p)
{
    uint64_t need = need_of(p);
    /* which its source should have seen */
    if (need > PGASI_ALIGN_UP(pgasi_param.buffer_limit, 8)) {
        p->status = PGAS_ERR_LIMIT;
        need = 0;
    }
    uint64_t held = __atomic_load_n(&pulls_held, __ATOMIC_RELAXED);
    if (held && need > pgasi_param.buffer_limit - PGASI_MIN(held, pgasi_param.buffer_limit))
        return false;
    p->begun = true;
    p->held = need;
    p->account = &pulls_held;
    held = __atomic_add_fetch(&pulls_held, need, __ATOMIC_RELAXED); /* it grows only here */
    held_high = PGASI_MAX(held_high, held);
    if (!p->dropped && p->status == PGAS_OK)
        begin_parts(p);
    return true;
}

/* What a helper has left behind: its parts are read, or still to be read, by the running thread. */
static void settle_helper(pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++) {
        if (p->part[i].state != PGASI_PART_HELPER)
            continue;
        if (p->helper_status == PGAS_OK)
            p->part[i].state = PGASI_PART_DONE;
        else
            read_part(&p->part[i]);
    }
}

/* True if all that was begun has ended: the bulk message may run, or go. */
static bool is_quiet(const pgasi_bulk_t *p, bool *retry_p)
{
    bool quiet = true;
    if (__atomic_load_n(&p->helping, __ATOMIC_ACQUIRE))
        return false;
    for (size_t i = 0; i < p->n_parts; i++) {
        pgasi_part_state_t state = p->part[i].state;
        bool given_up = (p->status != PGAS_OK || p->dropped) && state != PGASI_PART_GET;
        quiet = quiet && (state == PGASI_PART_DONE || given_up);
        *retry_p = *retry_p || (state == PGASI_PART_RETRY && !given_up);
    }
    return quiet;
}

static void advance(pgasi_bulk_t *p)
{
    if (p->dropped || p->status != PGAS_OK)
        return;
    if (!__atomic_load_n(&p->helping, __ATOMIC_ACQUIRE))
        settle_helper(p);
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->part[i].state == PGASI_PART_RETRY)
            read_part(&p->part[i]);
    if (!p->asking && n_asking < ASKING_MAX && first_asking(p)) {
        p->asking = true;
        n_asking++;
    }
    if (p->asking)
        ask(p);
}

static void tell_source(pgasi_bulk_t *p)
{
    pgasi_bulk_free_t f = { p->head.open, p->head.local, p->status, 0 };
    p->told = true;
    if (p->asking) {
        n_asking--;
        pgasi_pulls_call(); /* an earlier one may wait for that */
    }
    p->asking = false;
    if (!p->dropped)
        pgasi_sendq_answer(pgas_thread_rank(p->source), PGASI_DESC_BUFFER_FREE, &f, sizeof f, NULL,
                           0);
}

/* ---- all of them ---- */

static bool is_first_of_its_thread(const pgasi_bulk_t *p)
{
    const pgasi_bulk_t *earlier = pending;
    while (earlier != p && (earlier->source != p->source || earlier->head.ep != p->head.ep))
        earlier = earlier->next;
    return earlier == p;
}

/* Tells the endpoint of the call that it is ready. Its counter may fall with its arrival now. */
static void hand_to_ep(pgasi_bulk_t *p)
{
    struct {
        uint64_t header;
        pgasi_bulk_ready_t ready;
    } desc = { pgasi_desc_header(PGASI_DESC_BULK_READY, sizeof desc.ready,
                                 pgas_thread_slot(p->source)),
               { p->number } };
    int ep = (int)p->head.ep, rank = pgas_thread_rank(p->source);
    if (p->status == PGAS_OK)
        p->head.wire = pgasi_call_arrived(p->source, p->head.handler, p->head.wire);
    /* which the endpoint counts as consumed */
    __atomic_fetch_add(&pgasi_quiesce.begun, sizeof desc, __ATOMIC_RELEASE);
    pthread_mutex_lock(&lock);
    p->next = read_for_eps;
    read_for_eps = p;
    pthread_mutex_unlock(&lock);
    if (pgasi_ep_put(ep, rank, &desc, sizeof desc) != PGAS_OK)
        pgasi_fatal("call", "no memory for a call with buffers");
    pgasi_bell_ring(pgasi_boot.node_rank);
    if (ep == PGASI_EP_SERVICE)
        pgasi_bell_ring_service(pgasi_boot.node_rank);
}

pgasi_bulk_t *pgasi_pull_ready(const void *args, size_t bytes, pgas_thread_t source)
{
    pgasi_bulk_ready_t r;
    if (bytes != sizeof r)
        return NULL;
    memcpy(&r, args, sizeof r);
    pthread_mutex_lock(&lock);
    pgasi_bulk_t **at = &read_for_eps, *p;
    while (*at && ((*at)->number != r.number || (*at)->source != source))
        at = &(*at)->next;
    p = *at;
    if (p)
        *at = p->next;
    pthread_mutex_unlock(&lock);
    return p;
}

static void finish(pgasi_bulk_t **at)
{
    pgasi_bulk_t *p = *at;
    *at = p->next;
    if (pending_end == &p->next)
        pending_end = at;
    if (p->dropped) {
        __atomic_fetch_sub(&pulls_held, p->held, __ATOMIC_RELAXED);
        pgasi_bulk_destroy(p);
    } else if (p->head.ep == PGASI_EP_ANY) {
        pgasi_bulk_finish(p);
    } else {
        hand_to_ep(p);
    }
    __atomic_store_n(&pgasi_quiesce.ended, pgasi_quiesce.ended + 1, __ATOMIC_RELEASE);
}

/* One pass; true if another may find more to do, which is so when memory has become free. */
static bool pass(int *n_p, bool *retry_p)
{
    bool room = true, freed = false;
    for (pgasi_bulk_t **at = &pending; *at;) {
        pgasi_bulk_t *p = *at;
        if (!p->begun)
            room = room && begin(p);
        if (p->begun && !p->told) {
            advance(p);
            if (is_quiet(p, retry_p))
                tell_source(p);
        }
        if (!p->told || !is_first_of_its_thread(p)) {
            at = &p->next;
            continue;
        }
        finish(at);
        freed = true;
        ++*n_p;
    }
    return freed && !room;
}

static void append(pgasi_bulk_t *p)
{
    p->number = ++last_number;
    p->next = NULL;
    *pending_end = p;
    pending_end = &p->next;
}

/* What has come from other endpoints. */
static void take_up(void)
{
    if (!__atomic_load_n(&come, __ATOMIC_RELAXED))
        return;
    pthread_mutex_lock(&lock);
    pgasi_bulk_t *p = come;
    __atomic_store_n(&come, NULL, __ATOMIC_RELAXED);
    come_end = &come;
    pthread_mutex_unlock(&lock);
    while (p) {
        pgasi_bulk_t *next = p->next;
        append(p);
        p = next;
    }
}

static int progress_in_handlers(void)
{
    int n = 0;
    bool retry = false;
    pgasi_hooks_want_poll(PGASI_LAYER_BULK, false);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    take_up();
    while (pass(&n, &retry)) {
    }
    retry |= pgasi_replies_progress();
    if (retry)
        pgasi_pulls_call();
    return n + retry; /* a service thread does not sleep over what must be tried again */
}

static int progress(void)
{
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    int n = progress_in_handlers();
    pgasi_handlers_leave(before);
    return n;
}

void pgasi_pulls_released(void)
{
    pgasi_pulls_call();
    pgasi_bell_ring(pgasi_boot.node_rank);
}

void pgasi_pull_begin(pgasi_bulk_t *p)
{
    __atomic_fetch_add(&pgasi_quiesce.begun, 1, __ATOMIC_RELEASE);
    if (pgasi_bulk_in_inbox()) {
        append(p);
        progress_in_handlers();
        return;
    }
    pthread_mutex_lock(&lock);
    p->next = NULL;
    __atomic_store_n(come_end, p, __ATOMIC_RELAXED);
    come_end = &p->next;
    pthread_mutex_unlock(&lock);
    pgasi_pulls_released(); /* there is something to do */
}

void pgasi_pulls_peer_died(int rank)
{
    take_up();
    for (pgasi_bulk_t *p = pending; p; p = p->next)
        if (pgas_thread_rank(p->source) == rank)
            p->dropped = true;
    if (pending)
        pgasi_pulls_call();
}

void pgasi_pulls_start(void)
{
    pending = come = read_for_eps = NULL;
    pending_end = &pending;
    come_end = &come;
    pulls_held = held_high = 0;
    n_asking = 0;
    vm_refused = false;
    pgasi_hooks.poll[PGASI_LAYER_BULK] = progress;
    pgasi_handler_set_internal(PGASI_DESC_BUFFER_DATA, on_data);
}

static void destroy_all(pgasi_bulk_t **list)
{
    while (*list) {
        pgasi_bulk_t *p = *list;
        *list = p->next;
        pgasi_bulk_destroy(p);
    }
}

/* After the contexts: nothing is being read any more. */
void pgasi_pulls_stop(void)
{
    destroy_all(&pending);
    destroy_all(&come);
    destroy_all(&read_for_eps);
    pending_end = &pending;
    come_end = &come;
}
