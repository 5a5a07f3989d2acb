/* Bulk messages at their target: memory, parts, running, and the handlers' view. See bulk.h. */
#include "bulk/bulk.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/log.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/handler.h"
#include "call/sync.h"
#include "call/task.h"
#include "mem/rma.h"
#include "mem/rma_object.h"
#include "mem/thread.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"
#include "msg/serve.h"

static pgasi_buffer_here_t *part_here(void *bulk, size_t i)
{
    return &((pgasi_bulk_t *)bulk)->part[i].here;
}

pgasi_bulk_t *pgasi_bulk_running(void)
{
    return pgasi_buffers_owner(part_here);
}

/* ---- memory and parts ---- */

void pgasi_bulk_init(pgasi_bulk_t *p, const char *block, pgas_thread_t source)
{
    memset(p, 0, sizeof *p);
    memcpy(&p->head, block, sizeof p->head);
    p->source = source;
    p->n_parts = p->head.n_parts;
    p->n_in[PGASI_PART_NEW] = p->n_parts;
    memset(p->part, 0, p->n_parts * sizeof p->part[0]);
}

static size_t bulk_bytes(size_t n_parts, bool archive)
{
    size_t chunk = archive ? sizeof(pgas_archive_chunk_t) : 0;
    return sizeof(pgasi_bulk_t) + n_parts * (sizeof(pgasi_part_t) + chunk);
}

pgasi_bulk_t *pgasi_bulk_new(const char *head, pgas_thread_t source)
{
    pgasi_bulk_head_t h;
    memcpy(&h, head, sizeof h);
    pgasi_bulk_t *p = malloc(bulk_bytes(h.n_parts, h.flags & PGASI_BULK_ARCHIVE));
    if (p)
        pgasi_bulk_init(p, head, source);
    return p;
}

/* A pushed buffer is in a segment of this rank. */
static pgas_status_t place_pushed(pgasi_part_t *part, const pgasi_bulk_part_t *w)
{
    pgasi_where_t where = PGASI_WHERE_FAR;
    void *address = NULL;
    pgas_status_t status = w->bytes ? pgasi_resolve(w->ptr, w->bytes, &where, &address) : PGAS_OK;
    part->here.address = address;
    part->here.fixed = true;
    pgasi_part_set(part, PGASI_PART_DONE);
    return status;
}

void pgasi_bulk_place_parts(pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++) {
        const pgasi_bulk_part_t *w = pgasi_bulk_part(p, i);
        p->part[i].here.bytes = w->bytes;
        p->part[i].bulk = p;
        if (w->mode == PGAS_BUFFER_PUSH && p->status == PGAS_OK)
            p->status = place_pushed(&p->part[i], w);
        else if (w->mode == PGAS_BUFFER_COPY)
            pgasi_part_set(&p->part[i], PGASI_PART_DONE);
    }
}

void pgasi_bulk_place_copies(pgasi_bulk_t *p)
{
    char *at = p->block + p->head.head_bytes;
    for (size_t i = 0; i < p->n_parts; i++) {
        if (pgasi_bulk_part(p, i)->mode != PGAS_BUFFER_COPY)
            continue;
        p->part[i].here.address = at;
        at += PGASI_ALIGN_UP(p->part[i].here.bytes, 8);
    }
}

bool pgasi_bulk_has_pulls(const pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++)
        if (pgasi_bulk_part(p, i)->mode == PGAS_BUFFER_PULL)
            return true;
    return false;
}

void pgasi_bulk_free_parts(pgasi_bulk_t *p)
{
    for (size_t i = 0; i < p->n_parts; i++) {
        pgas_rma_object_destroy(p->part[i].object);
        if (p->part[i].here.own)
            free(p->part[i].here.address);
    }
}

void pgasi_bulk_destroy(pgasi_bulk_t *p)
{
    pgasi_bulk_free_parts(p);
    if (p->own_block)
        free(p->block);
    free(p);
}

/* ---- running ---- */

/* No counter waits for the call. A thread that has left is an ordinary event, logged once. */
static __attribute__((noinline, cold)) void report_lost(const pgasi_bulk_t *p)
{
    if (p->status != PGAS_ERR_PEER || pgasi_first_dropped())
        PGASI_ERROR("call", "a call with buffers from rank %d is lost: %s",
                    pgas_thread_rank(p->source), pgas_status_text(p->status));
}

static void place_args(pgasi_bulk_t *p)
{
    const pgasi_bulk_head_t *h = &p->head;
    p->args = p->block ? p->block + h->args_at : NULL;
    p->args_bytes = h->args_bytes;
    if (h->flags & PGASI_BULK_STREAM && p->status == PGAS_OK) {
        p->args = p->part[p->n_parts - 1].here.address;
        p->args_bytes = p->part[p->n_parts - 1].here.bytes;
    }
}

static void count_archive(const pgasi_bulk_t *p)
{
    uint64_t bytes = p->head.args_bytes;
    for (size_t i = 0; i < p->n_parts; i++)
        bytes += p->part[i].here.bytes;
    pgasi_rma_counts_t *counts = pgasi_rma_counts();
    pgasi_rma_count(&counts->n_calls_received, 1);
    pgasi_rma_count(&counts->bytes_received, bytes);
    pgasi_rma_count(&counts->n_chunks_received,
                    p->n_parts - (p->head.flags & PGASI_BULK_STREAM ? 1 : 0));
}

/* Runs the call, or reports to its counter why it does not run. A reply runs in every case, because
 * its handler reports the status. */
void pgasi_bulk_run(pgasi_bulk_t *p)
{
    const pgasi_bulk_head_t *h = &p->head;
    pgas_status_t status = p->status;
    uint64_t wire = status == PGAS_OK ? h->wire : h->wire & ~PGASI_WIRE_ARRIVED;
    pgasi_call_t outer = pgasi_call_begin(p->source, h->handler, wire);
    place_args(p);
    if (status == PGAS_OK || h->handler == PGASI_DESC_ARGS_REPLY) {
        if (h->flags & PGASI_BULK_ARCHIVE)
            count_archive(p);
        pgasi_buffers_t before = pgasi_buffers_enter(p, p->n_parts, part_here);
        status = pgasi_handler_run_here(h->handler, p->args, p->args_bytes, p->source);
        pgasi_buffers_leave(before);
    } else if (!h->wire) {
        report_lost(p);
    }
    pgasi_call_end(outer, status);
}

void pgasi_bulk_release(pgasi_bulk_t *p)
{
    bool pulled = p->number != 0;
    if (p->held)
        __atomic_fetch_sub(p->account, p->held, __ATOMIC_RELAXED);
    pgasi_bulk_destroy(p);
    if (pulled && !pgasi_is_serving())
        pgasi_bulk_wake_poll();
}

static void run_as_task(void *arg)
{
    pgasi_bulk_run(arg);
    pgasi_bulk_release(arg);
}

void pgasi_bulk_finish(pgasi_bulk_t *p)
{
    if (p->status == PGAS_OK && (p->head.spawn || pgasi_handler_blocks(p->head.handler))) {
        p->head.wire = pgasi_call_arrived(p->source, p->head.handler, p->head.wire);
        pgas_status_t status = pgasi_task_submit_call(run_as_task, p, p->head.spawn);
        if (status == PGAS_OK) /* the task may have freed p already */
            return;
        p->status = status;
    }
    pgasi_bulk_run(p);
    pgasi_bulk_release(p);
}

void pgasi_bulk_refuse(const char *block, pgas_thread_t source, pgas_status_t status)
{
    pgasi_bulk_t p;
    memset(&p, 0, sizeof p);
    memcpy(&p.head, block, sizeof p.head);
    p.source = source;
    p.status = status;
    pgasi_bulk_free_t f = { p.head.offer, status };
    if (p.head.offer)
        pgasi_sendq_answer(pgas_thread_rank(source), PGASI_DESC_BUFFER_FREE, &f, sizeof f, NULL, 0);
    pgasi_bulk_run(&p);
}

void pgasi_bulk_wake_poll(void)
{
    pgasi_bulk_want_poll();
    pgasi_wake(pgasi_boot.node_rank);
}
