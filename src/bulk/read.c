/* Reads: the target reads the buffers of one call, each in the shortest way.
 *
 *      memory of the rank itself, or a mapped segment  loads
 *      other memory on the node                        process_vm_readv, unless the kernel refuses
 *      a segment of another node                       one get on context 0; the key came with the
 *                                                      call
 *      all other memory                                the source sends pieces on demand
 *
 * The receive lock is held, except in two functions. read_as_helper runs on a handler thread and
 * uses only the parts that it reads. pgasi_read_all_near runs on the thread of an endpoint, for a
 * message that no other thread knows. */
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "bulk/bulk.h"
#include "call/sync.h"
#include "call/task.h"
#include "mem/ctx.h"
#include "mem/rma.h"
#include "mem/segment.h"
#include "msg/descriptor.h"
#include "msg/send_queue.h"
#include "pgas/rma.h"

#define ASK_BYTES ((uint64_t)64 << 10) /* bytes of one request; a buffer has two under way */

/* ---- loads, copies, gets ---- */

/* Any thread. A source checks reads of its memory itself, but reads of this rank's own memory are
 * checked here. */
static bool read_near(pgasi_part_t *part, const pgasi_bulk_part_t *w, int rank)
{
    const void *there = pgasi_reach_map(rank, w->ptr, w->bytes);
    const pgasi_bulk_t *p = part->bulk;
    if (!there && rank != pgasi_boot.rank)
        return pgasi_reach_copy(rank, part->here.address, w->address, w->bytes, false);
    if (!there && pgasi_offer_has(p->head.offer, (size_t)(part - p->part), w->address, w->bytes))
        there = (const void *)(uintptr_t)w->address;
    if (there)
        memcpy(part->here.address, there, w->bytes);
    return there;
}

static void got(pgasi_tp_comp_t *comp, pgas_status_t status)
{
    pgasi_part_t *part = PGASI_CONTAINER_OF(comp, pgasi_part_t, comp);
    pgasi_ctx_count(pgasi_ctxs[PGASI_CTX_SERVICE], -1);
    pgasi_part_set(part, PGASI_PART_DONE);
    if (status != PGAS_OK && part->bulk->status == PGAS_OK)
        part->bulk->status = status;
    pgasi_bulk_want_poll();
}

/* Reads a buffer of another node: from the mapped heap, or by one get on context 0.
 * @return PGAS_OK          the buffer has been read
 *         PGAS_INPROGRESS  the callback follows
 *         PGAS_ERR_AGAIN   the transport has no room
 *         otherwise        a get is not possible */
static pgas_status_t read_far(pgasi_part_t *part, const pgasi_bulk_part_t *w, int rank)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    pgasi_tp_key_t *key;
    uint64_t address, offset = pgas_gptr_offset(w->ptr);
    if (!pgasi_reach_learn(part->bulk, w->key_at_8, w->ptr, w->bytes))
        return PGAS_ERR_UNSUPPORTED;
    pgasi_ctx_peer_t *peer = &ctx->peer[rank];
    uint64_t inside = offset - PGASI_HEAP_OFFSET;
    if (peer->heap_bytes && w->bytes <= peer->heap_bytes && inside <= peer->heap_bytes - w->bytes) {
        memcpy(part->here.address, peer->heap + inside, w->bytes);
        return PGAS_OK;
    }
    if (pgasi_answers_from(rank))
        return PGAS_ERR_UNSUPPORTED;
    pgas_status_t status = pgasi_key_get(ctx, rank, offset, w->bytes, &key, &address);
    if (status != PGAS_OK)
        return status;
    part->comp = (pgasi_tp_comp_t){ .fn = got };
    pgasi_part_set(part,
                   PGASI_PART_GET); /* the callback, which runs in a later round, changes it */
    status =
        ctx->tp->ops->get(ctx->tp, rank, key, address, part->here.address, w->bytes, &part->comp);
    if (status == PGAS_INPROGRESS)
        pgasi_ctx_count(ctx, 1);
    return status;
}

/* ---- pieces on demand ---- */

static pgasi_part_t *first_asking(pgasi_bulk_t *p)
{
    if (!p->n_in[PGASI_PART_ASK])
        return NULL;
    while (p->part[p->ask_from].state != PGASI_PART_ASK)
        p->ask_from++;
    return &p->part[p->ask_from];
}

bool pgasi_read_asks(pgasi_bulk_t *p)
{
    return p->n_in[PGASI_PART_ASK] != 0;
}

/* Asks for a whole buffer at once: the source sends it no faster than the transport accepts it. */
static void ask_for_all(pgasi_bulk_t *p)
{
    uint32_t from = p->ask_from;
    p->ask_from = p->n_parts; /* parts that ask later make it smaller */
    for (uint32_t i = from; i < p->n_parts; i++) {
        pgasi_part_t *part = &p->part[i];
        pgasi_bulk_ask_t a = { 0, part->here.bytes, p->number, p->head.offer, i };
        if (part->state != PGASI_PART_ASK || part->asked)
            continue;
        part->asked = a.bytes;
        pgasi_sendq_answer(pgas_thread_rank(p->source), PGASI_DESC_BUFFER_READ, &a, sizeof a, NULL,
                           0);
    }
}

void pgasi_read_ask(pgasi_bulk_t *p)
{
    if (pgasi_answers_from(pgas_thread_rank(p->source))) {
        ask_for_all(p);
        return;
    }
    pgasi_part_t *part = first_asking(p);
    while (part && part->asked < part->here.bytes && part->asked < part->arrived + 2 * ASK_BYTES) {
        pgasi_bulk_ask_t a = { part->asked, PGASI_MIN(part->here.bytes - part->asked, ASK_BYTES),
                               p->number, p->head.offer, (uint32_t)(part - p->part) };
        pgasi_sendq_answer(pgas_thread_rank(p->source), PGASI_DESC_BUFFER_READ, &a, sizeof a, NULL,
                           0);
        part->asked += a.bytes;
    }
}

void pgasi_read_arrived(pgasi_bulk_t *p, const pgasi_bulk_data_t *d, const void *data, size_t bytes)
{
    if (d->part >= p->n_parts || p->part[d->part].state != PGASI_PART_ASK)
        return;
    pgasi_part_t *part = &p->part[d->part];
    if (d->status != PGAS_OK || d->offset != part->arrived ||
        bytes > part->here.bytes - part->arrived) {
        p->status = d->status != PGAS_OK ? (pgas_status_t)d->status : PGAS_ERR_INTERNAL;
        pgasi_part_set(part, PGASI_PART_DONE);
    } else {
        memcpy(part->here.address + part->arrived, data, bytes);
        part->arrived += bytes;
        if (part->arrived == part->here.bytes)
            pgasi_part_set(part, PGASI_PART_DONE);
        else
            pgasi_read_ask(p);
    }
    if (part->state == PGASI_PART_DONE)
        pgasi_bulk_want_poll();
}

/* ---- helpers ---- */

static pgas_status_t read_by_asking(pgasi_part_t *part, int rank)
{
    const pgasi_bulk_t *p = part->bulk;
    size_t piece_max = pgasi_bulk_piece_max(rank);
    pgas_status_t status = PGAS_OK;
    for (uint64_t done = 0; done < part->here.bytes && status == PGAS_OK;) {
        uint64_t bytes = PGASI_MIN(part->here.bytes - done, piece_max);
        pgasi_bulk_ask_t a = { done, bytes, 0, p->head.offer, (uint32_t)(part - p->part) };
        status =
            pgasi_ask(rank, PGASI_DESC_BUFFER_READ, &a, sizeof a, part->here.address + done, bytes);
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
        const pgasi_bulk_part_t *w = pgasi_bulk_part(p, i);
        /* the states of other parts change meanwhile, so they are not read */
        bool mine = w->mode == PGAS_BUFFER_PULL && w->helper && w->bytes;
        if (!mine || read_near(part, w, rank))
            continue;
        status = w->ptr ? pgas_get(part->here.address, w->ptr, w->bytes) : PGAS_ERR_UNSUPPORTED;
        if (status != PGAS_OK)
            status = read_by_asking(part, rank);
    }
    p->helper_status = status;
    __atomic_store_n(&p->helping, 0, __ATOMIC_RELEASE); /* from now on another thread may free p */
    pgasi_bulk_want_poll();
    pgasi_wake(pgasi_boot.node_rank);
}

/* ---- all buffers of a call ---- */

/* Allocates memory for a buffer. @return false: there is none */
static bool open_part(pgasi_part_t *part)
{
    if (part->bulk->head.flags & PGASI_BULK_ARCHIVE) {
        if (pgas_rma_object_create(part->here.bytes, &part->object) != PGAS_OK)
            return false;
        part->here.address = part->object->data;
        part->here.fixed = true;
        return true;
    }
    part->here.address = malloc(part->here.bytes);
    part->here.own = part->here.address != NULL;
    return part->here.own;
}

/* Frees the memory of a call that has not begun. */
static void close_parts(pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++) {
        pgasi_part_t *part = &p->part[i];
        pgas_rma_object_destroy(part->object);
        if (part->here.own)
            free(part->here.address);
        part->object = NULL;
        part->here.own = false;
    }
}

bool pgasi_read_all_near(pgasi_bulk_t *p)
{
    int rank = pgas_thread_rank(p->source);
    for (size_t i = 0; i < p->n_parts; i++) {
        pgasi_part_t *part = &p->part[i];
        const pgasi_bulk_part_t *w = pgasi_bulk_part(p, i);
        if (w->mode != PGAS_BUFFER_PULL || !w->bytes)
            continue;
        if (!open_part(part)) {
            p->status = PGAS_ERR_NO_MEMORY;
            return true;
        }
        if (!read_near(part, w, rank)) {
            close_parts(p);
            return false;
        }
    }
    return true;
}

/* Begins to read a buffer in the running thread, or repeats the attempt. */
static void read_part(pgasi_part_t *part)
{
    pgasi_bulk_t *p = part->bulk;
    const pgasi_bulk_part_t *w = pgasi_bulk_part(p, (size_t)(part - p->part));
    int rank = pgas_thread_rank(p->source);
    pgas_status_t status = read_near(part, w, rank) ? PGAS_OK : read_far(part, w, rank);
    uint32_t i = (uint32_t)(part - p->part);
    switch (status) {
    case PGAS_OK:
        pgasi_part_set(part, PGASI_PART_DONE);
        break;
    case PGAS_INPROGRESS:
        break;
    case PGAS_ERR_AGAIN:
        pgasi_part_set(part, PGASI_PART_RETRY);
        p->retry_from = PGASI_MIN(p->retry_from, i);
        break;
    default:
        pgasi_part_set(part, PGASI_PART_ASK);
        p->ask_from = PGASI_MIN(p->ask_from, i);
        break;
    }
}

void pgasi_read_begin(pgasi_bulk_t *p)
{
    bool help = false;
    for (size_t i = 0; i < p->n_parts && p->status == PGAS_OK; i++) {
        pgasi_part_t *part = &p->part[i];
        const pgasi_bulk_part_t *w = pgasi_bulk_part(p, i);
        if (w->mode != PGAS_BUFFER_PULL)
            continue;
        if (!part->here.bytes) {
            pgasi_part_set(part, PGASI_PART_DONE);
            continue;
        }
        if (!open_part(part))
            p->status = PGAS_ERR_NO_MEMORY;
        else if (w->helper)
            pgasi_part_set(part, PGASI_PART_HELPER);
        help = help || part->state == PGASI_PART_HELPER;
    }
    if (p->status != PGAS_OK)
        return;
    p->retry_from = p->ask_from = p->n_parts;
    p->helping = help;
    if (help && pgasi_task_submit(read_as_helper, p) != PGAS_OK) {
        p->helping = 0;
        p->helper_status = PGAS_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < p->n_parts; i++)
        if (p->part[i].state == PGASI_PART_NEW)
            read_part(&p->part[i]);
}

/* The handler thread has ended. It has read its parts, or this thread reads them. */
static void settle_helper(pgasi_bulk_t *p)
{
    if (!p->n_in[PGASI_PART_HELPER])
        return;
    for (size_t i = 0; i < p->n_parts; i++) {
        if (p->part[i].state != PGASI_PART_HELPER)
            continue;
        if (p->helper_status == PGAS_OK)
            pgasi_part_set(&p->part[i], PGASI_PART_DONE);
        else
            read_part(&p->part[i]);
    }
}

void pgasi_read_advance(pgasi_bulk_t *p)
{
    if (!__atomic_load_n(&p->helping, __ATOMIC_ACQUIRE))
        settle_helper(p);
    /* When one part finds no room in the transport, the parts behind it find none either. */
    uint32_t i = p->retry_from;
    p->retry_from = p->n_parts;
    for (; i < p->n_parts && p->n_in[PGASI_PART_RETRY] && p->retry_from == p->n_parts; i++)
        if (p->part[i].state == PGASI_PART_RETRY)
            read_part(&p->part[i]);
}

bool pgasi_read_is_over(const pgasi_bulk_t *p, bool *retry_p)
{
    bool given_up = p->status != PGAS_OK || p->dropped;
    if (__atomic_load_n(&p->helping, __ATOMIC_ACQUIRE))
        return false;
    if (given_up)
        return p->n_in[PGASI_PART_GET] == 0;
    *retry_p = *retry_p || p->n_in[PGASI_PART_RETRY];
    return p->n_in[PGASI_PART_DONE] == p->n_parts;
}
