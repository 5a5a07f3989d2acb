/* Buffers for teams: see pgas/call.h.
 *
 * The message travels down the tree as in call.c. It says where the buffer is:
 *
 *      PUSH    in the receiver's heap
 *      PULL    at the rank above
 *      SCATTER the pieces of the ranks: at the rank above, or in the message itself
 *
 * Pieces are in the order of positions, so the pieces of a child's range are contiguous. A rank
 * first obtains the buffer, then sends to its children, then runs its handler, which may write to
 * the buffer. A handler makes only short transfers that do not wait. A task makes the others, and
 * then sends the message to its own rank. */
#include "bcast/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "boot/boot.h"
#include "call/task.h"
#include "mem/segment.h"
#include "base/sync.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "pgas/mem.h"
#include "pgas/rma.h"

#define IN_HANDLER_MAX ((size_t)1 << 20) /* bytes that a handler transfers itself */

/* Whether the sizes that arrived add up to `bytes`. */
static bool sizes_are_sane(const uint64_t *sizes, size_t n, uint64_t bytes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (sizes[i] > bytes - sum || pgasi_bcast_padded(sizes[i]) > bytes - sum)
            return false;
        sum += pgasi_bcast_padded(sizes[i]);
    }
    return sum == bytes;
}

static void give_up(const pgasi_bcast_plan_t *plan, pgasi_bcast_entry_t *entry,
                    pgas_status_t status)
{
    for (int i = 0; i < plan->n; i++)
        pgasi_bcast_child_done(entry, plan->child[i].rank, status);
    pgasi_bcast_part_done(entry, status);
}

/* ---- running ---- */

/* block: contains the data, and is kept until the last run has ended; or NULL. */
static void run(const pgasi_bcast_buffer_head_t *head, const void *args, pgasi_bcast_entry_t *entry,
                const void *data, size_t bytes, pgasi_bcast_block_t *block)
{
    pgasi_bcast_run_t r = { pgasi_bcast_block_keep(block), bytes ? data : "", bytes,
                            head->way == PGAS_BUFFER_PUSH, head->flags & PGASI_BCAST_PACKED };
    pgasi_bcast_run(&head->h, args, head->args_bytes, entry, &r);
}

/* Runs the handler. The buffer is in the heap (PUSH), or the entry holds it. */
static void run_self(const pgasi_bcast_buffer_head_t *head, const void *args)
{
    pgasi_bcast_entry_t *entry = pgasi_bcast_known(&head->h);
    pgasi_bcast_block_t *b = entry && head->way != PGAS_BUFFER_PUSH ? entry->held : NULL;
    if (head->way == PGAS_BUFFER_PUSH) {
        run(head, args, entry, pgas_gptr_local(pgas_gptr_at(head->at, pgasi_boot.rank), 1),
            head->bytes, NULL);
    } else if (b && head->way == PGAS_BUFFER_PULL) {
        run(head, args, entry, b->memory, head->bytes, b);
    } else if (b) {
        size_t n = pgasi_bcast_range(&head->h);
        run(head, args, entry, b->memory + n * sizeof(uint64_t),
            *(const uint64_t *)(const void *)b->memory, b);
    }
}

/* ---- a rank below the root ---- */

/* Where this rank has the buffer. */
static pgasi_bcast_data_t have_of(const pgasi_bcast_buffer_head_t *head,
                                  const pgasi_bcast_block_t *b)
{
    pgasi_bcast_data_t have = { NULL, NULL, PGAS_NULL, PGAS_NULL };
    if (head->way == PGAS_BUFFER_PUSH) {
        have.data = pgas_gptr_local(pgas_gptr_at(head->at, pgasi_boot.rank), 1);
    } else if (head->way == PGAS_BUFFER_PULL) {
        have.data = b->memory;
        have.ptr = b->ptr;
    } else {
        size_t sizes_bytes = pgasi_bcast_range(&head->h) * sizeof(uint64_t);
        have.sizes = (const uint64_t *)(const void *)b->memory;
        have.data = b->memory + sizes_bytes;
        have.sizes_ptr = b->ptr;
        have.ptr = pgas_gptr_add(b->ptr, (int64_t)sizes_bytes);
    }
    return have;
}

/* Reads the buffer or the pieces from the rank above into a block. */
static pgas_status_t fetch(const pgasi_bcast_buffer_head_t *head, pgasi_bcast_block_t **block_p)
{
    bool each = head->way == PGAS_BUFFER_SCATTER;
    size_t sizes_bytes = each ? pgasi_bcast_range(&head->h) * sizeof(uint64_t) : 0;
    pgasi_bcast_block_t *b = pgasi_bcast_block_new(sizes_bytes + head->bytes, true);
    if (!b)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = each ? pgas_get(b->memory, head->at, sizes_bytes) : PGAS_OK;
    if (status == PGAS_OK && head->bytes)
        status = pgas_get(b->memory + sizes_bytes, each ? head->pieces : head->at, head->bytes);
    if (status == PGAS_OK && each &&
        !sizes_are_sane((const uint64_t *)(const void *)b->memory, pgasi_bcast_range(&head->h),
                        head->bytes))
        status = PGAS_ERR_INTERNAL;
    if (status == PGAS_OK)
        *block_p = b;
    else
        pgasi_bcast_block_release(b);
    return status;
}

static bool is_near(uint64_t ptr, size_t bytes)
{
    return bytes <= IN_HANDLER_MAX && pgas_gptr_local(ptr, bytes);
}

/* Whether a handler may make the transfers: they are loads and stores, and short. */
static bool is_quick(const pgasi_bcast_buffer_head_t *head, const pgasi_bcast_plan_t *plan)
{
    bool quick = true;
    if (head->way == PGAS_BUFFER_PULL)
        return !head->bytes || is_near(head->at, head->bytes);
    if (head->way == PGAS_BUFFER_SCATTER)
        return is_near(head->at, pgasi_bcast_range(&head->h) * sizeof(uint64_t)) &&
               (!head->bytes || is_near(head->pieces, head->bytes));
    for (int i = 0; i < plan->n && quick; i++)
        quick = !head->bytes || is_near(pgas_gptr_at(head->at, plan->child[i].rank), head->bytes);
    return quick;
}

/* Obtains the buffer and sends to the children. False: the error is stored in the entry. */
static bool pass_on(const pgasi_bcast_buffer_head_t *head, const pgasi_bcast_plan_t *plan,
                    const void *args, pgasi_bcast_entry_t *entry)
{
    pgasi_bcast_block_t *b = NULL;
    if (head->way != PGAS_BUFFER_PUSH) {
        pgas_status_t status = entry ? fetch(head, &b) : PGAS_ERR_INTERNAL;
        if (status != PGAS_OK) {
            give_up(plan, entry, status);
            return false;
        }
        entry->held = b;
    }
    pgasi_bcast_data_t have = have_of(head, b);
    pgasi_bcast_buffer_forward(head, plan, &have, args, entry);
    return true;
}

typedef struct {
    pgasi_bcast_buffer_head_t head;
    pgasi_bcast_plan_t plan;
    pgasi_bcast_entry_t *entry;
    _Alignas(8) char args[];
} task_t;

static void run_task(void *arg)
{
    task_t *t = arg;
    if (pass_on(&t->head, &t->plan, t->args, t->entry)) {
        t->head.h.flags |= PGASI_BCAST_SELF;
        pgas_status_t status =
            pgasi_bcast_buffer_send(pgasi_boot.rank, &t->head, t->args, NULL, 0, NULL);
        if (status != PGAS_OK)
            pgasi_bcast_part_done(t->entry, status);
    }
    free(t);
}

static void submit(const pgasi_bcast_buffer_head_t *head, const pgasi_bcast_plan_t *plan,
                   const void *args, pgasi_bcast_entry_t *entry)
{
    task_t *t = malloc(sizeof *t + head->args_bytes);
    if (t) {
        t->head = *head;
        t->plan = *plan;
        t->entry = entry;
        if (head->args_bytes)
            memcpy(t->args, args, head->args_bytes);
        if (pgasi_task_submit(run_task, t) == PGAS_OK)
            return;
    }
    free(t);
    give_up(plan, entry, PGAS_ERR_NO_MEMORY);
}

/* SCATTER, with the pieces in the message: children get their part of the message. */
static void pass_message_on(const pgasi_bcast_buffer_head_t *head, const pgasi_bcast_plan_t *plan,
                            const char *args, pgasi_bcast_entry_t *entry)
{
    const uint64_t *sizes =
        (const uint64_t *)(const void *)(args + pgasi_bcast_padded(head->args_bytes));
    size_t n = pgasi_bcast_range(&head->h);
    pgasi_bcast_data_t have = { (const char *)(sizes + n), sizes, PGAS_NULL, PGAS_NULL };
    pgasi_bcast_buffer_forward(head, plan, &have, args, entry);
    if (!pgasi_bcast_is_async(&head->h)) {
        run(head, args, entry, have.data, sizes[0], NULL);
        return;
    }
    pgasi_bcast_block_t *b = pgasi_bcast_block_new(sizes[0], false);
    if (!b) {
        pgasi_bcast_part_done(entry, PGAS_ERR_NO_MEMORY);
        return;
    }
    memcpy(b->memory, have.data, sizes[0]);
    run(head, args, entry, b->memory, sizes[0], b);
    pgasi_bcast_block_release(b);
}

static bool is_sane(const pgasi_bcast_buffer_head_t *head, const char *args, size_t bytes)
{
    if (!pgasi_bcast_is_sane(&head->h) || head->way > PGAS_BUFFER_SCATTER ||
        head->way == PGAS_BUFFER_COPY || head->args_bytes > bytes)
        return false;
    if (head->way == PGAS_BUFFER_PUSH) {
        uint64_t inside = pgas_gptr_offset(head->at) - PGASI_HEAP_OFFSET,
                 heap = pgasi_segments[0].bytes;
        return inside <= heap && head->bytes <= heap - inside && !head->flags;
    }
    if (!(head->h.flags & PGASI_BCAST_ACK) ||
        (head->flags & PGASI_BCAST_IN_MESSAGE && head->way != PGAS_BUFFER_SCATTER) ||
        (head->flags & PGASI_BCAST_PACKED && head->way != PGAS_BUFFER_PULL))
        return false;
    if (!(head->flags & PGASI_BCAST_IN_MESSAGE))
        return head->bytes <= pgasi_segments[0].bytes || head->way == PGAS_BUFFER_PULL;
    size_t n = pgasi_bcast_range(&head->h), sizes_at = pgasi_bcast_padded(head->args_bytes);
    const void *sizes = args + sizes_at;
    return head->bytes <= bytes && sizes_at + n * sizeof(uint64_t) + head->bytes == bytes &&
           sizes_are_sane(sizes, n, head->bytes);
}

static void on_buffer(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    pgasi_bcast_buffer_head_t head;
    pgasi_bcast_plan_t plan;
    const char *rest = (const char *)args + sizeof head;
    if (bytes >= sizeof head)
        memcpy(&head, args, sizeof head);
    if (bytes < sizeof head || !is_sane(&head, rest, bytes - sizeof head)) {
        pgasi_bcast_drop(source);
        return;
    }
    if (head.h.flags & PGASI_BCAST_SELF) {
        head.h.flags &= (uint8_t)~PGASI_BCAST_SELF;
        if (pgas_thread_rank(source) == pgasi_boot.rank)
            run_self(&head, rest);
        return;
    }
    pgas_status_t status = pgasi_bcast_plan(&head.h, &plan);
    pgasi_bcast_entry_t *entry = pgasi_bcast_enter(&head.h, pgas_thread_rank(source), &plan);
    if (status != PGAS_OK)
        pgasi_bcast_part_done(entry, status);
    else if (head.flags & PGASI_BCAST_IN_MESSAGE)
        pass_message_on(&head, &plan, rest, entry);
    else if (!is_quick(&head, &plan))
        submit(&head, &plan, rest, entry);
    else if (pass_on(&head, &plan, rest, entry))
        run_self(&head, rest);
}

/* ---- the root ---- */

/* Copies the caller's pieces, which are in the order of team ranks, to a block, in the order of
 * positions. NULL: no memory; pieces larger than the heap never fit. */
static pgasi_bcast_block_t *pack(const pgas_buffer_t *buffer, const pgasi_bcast_head_t *h,
                                 uint64_t *bytes_p)
{
    size_t n = pgasi_bcast_range(h);
    int *member_of = malloc(n * sizeof *member_of);
    uint64_t sum = 0, *at = malloc(n * sizeof *at), from = 0, heap = pgasi_segments[0].bytes;
    bool fits = at && member_of;
    for (size_t r = 0; fits && r < n; r++) {
        uint64_t bytes = buffer->bytes_of ? buffer->bytes_of[r] : buffer->bytes;
        at[r] = from;
        fits = bytes <= heap - from;
        from += bytes;
        sum += pgasi_bcast_padded(bytes);
    }
    pgasi_bcast_block_t *b = fits ? pgasi_bcast_block_new(n * sizeof(uint64_t) + sum, true) : NULL;
    if (b) {
        uint64_t *sizes = (uint64_t *)(void *)b->memory;
        char *to = b->memory + n * sizeof *sizes;
        pgasi_bcast_members(h, member_of);
        for (size_t position = 0; position < n; position++) {
            int r = member_of[position];
            sizes[position] = buffer->bytes_of ? buffer->bytes_of[r] : buffer->bytes;
            if (sizes[position])
                memcpy(to, (const char *)buffer->address + at[r], sizes[position]);
            to += pgasi_bcast_padded(sizes[position]);
        }
    }
    free(at);
    free(member_of);
    *bytes_p = sum;
    return b;
}

/* The block that children read: the caller's memory if it stays valid and they reach it, otherwise
 * a copy. */
static pgasi_bcast_block_t *source_block(const pgas_buffer_t *buffer, const pgas_call_opts_t *o)
{
    bool stays = buffer->mode == PGAS_BUFFER_PULL && o->sync && o->when != PGAS_LOCAL && !o->local;
    pgas_gptr_t ptr = stays ? pgas_gptr_of(buffer->address) : PGAS_NULL;
    if (ptr)
        return pgasi_bcast_block_of_user(buffer->address, ptr);
    pgasi_bcast_block_t *b = pgasi_bcast_block_new(buffer->bytes, true);
    if (b && buffer->bytes)
        memcpy(b->memory, buffer->address, buffer->bytes);
    return b;
}

/* Copies several buffers to one block. */
static pgasi_bcast_block_t *pack_several(const pgas_buffer_t *buffer, uint64_t n, uint64_t *bytes_p)
{
    uint64_t sum = (n + 1) * sizeof n;
    for (size_t i = 0; i < n; i++)
        sum += pgasi_bcast_padded(buffer[i].bytes);
    pgasi_bcast_block_t *b = pgasi_bcast_block_new(sum, true);
    if (!b)
        return NULL;
    char *to = b->memory + (n + 1) * sizeof n;
    memcpy(b->memory, &n, sizeof n);
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = buffer[i].bytes;
        memcpy(b->memory + (i + 1) * sizeof n, &bytes, sizeof bytes);
        if (bytes)
            memcpy(to, buffer[i].address, bytes);
        to += pgasi_bcast_padded(bytes);
    }
    *bytes_p = sum;
    return b;
}

static pgas_status_t check_buffer(const pgas_buffer_t *buffer)
{
    if (!buffer || (unsigned)buffer->mode > PGAS_BUFFER_SCATTER ||
        (!buffer->address && (buffer->bytes || buffer->bytes_of)))
        return PGAS_ERR_INVALID;
    if (buffer->mode != PGAS_BUFFER_PUSH)
        return PGAS_OK;
    uint64_t offset = pgas_gptr_offset(buffer->target), heap = pgasi_segments[0].bytes;
    bool inside = buffer->target && offset >= PGASI_HEAP_OFFSET &&
                  offset - PGASI_HEAP_OFFSET <= heap &&
                  buffer->bytes <= heap - (offset - PGASI_HEAP_OFFSET);
    return inside ? PGAS_OK : PGAS_ERR_RANGE;
}

/* Fills in the head. *block_p NULL: the broadcast needs no memory. */
static pgas_status_t prepare(pgasi_bcast_buffer_head_t *head, const pgas_buffer_t *buffer,
                             const pgas_call_opts_t *o, pgasi_bcast_block_t **block_p)
{
    bool scatter = buffer->mode == PGAS_BUFFER_SCATTER;
    if (o->n_buffers > 1) {
        head->way = PGAS_BUFFER_PULL;
        head->flags = PGASI_BCAST_PACKED;
        *block_p = pack_several(buffer, o->n_buffers, &head->bytes);
        return *block_p ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    }
    head->way = (uint16_t)(buffer->mode == PGAS_BUFFER_COPY ? PGAS_BUFFER_PULL : buffer->mode);
    head->bytes = buffer->bytes;
    head->at = buffer->target;
    *block_p = NULL;
    if (buffer->mode == PGAS_BUFFER_PUSH) {
        pgas_gptr_t mine = pgas_gptr_at(buffer->target, pgasi_boot.rank);
        if (buffer->bytes)
            memmove(pgas_gptr_local(mine, 1), buffer->address, buffer->bytes);
        return PGAS_OK;
    }
    *block_p = scatter ? pack(buffer, &head->h, &head->bytes) : source_block(buffer, o);
    return *block_p ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

/* sync: the counter that waits, or NULL. */
static pgas_status_t start(pgasi_bcast_buffer_head_t *head, const void *args,
                           const pgas_buffer_t *buffer, const pgas_call_opts_t *o,
                           pgas_sync_t *sync)
{
    pgasi_bcast_entry_t *entry = NULL;
    pgasi_bcast_plan_t plan;
    pgasi_bcast_block_t *b;
    pgas_status_t status = pgasi_bcast_plan(&head->h, &plan);
    if (status == PGAS_OK)
        status = prepare(head, buffer, o, &b);
    if (status != PGAS_OK)
        return status;
    if (sync || b || pgasi_bcast_is_turn())
        status = pgasi_bcast_root(&head->h, &plan, sync, o->full, b, &entry);
    if (status != PGAS_OK) {
        pgasi_bcast_block_release(b);
        return status;
    }
    pgasi_bcast_data_t have = have_of(head, b);
    pgas_status_t sent = pgasi_bcast_buffer_forward(head, &plan, &have, args, entry);
    head->h.flags |= PGASI_BCAST_SELF;
    if (b && !b->ours) /* the caller's memory must stay until our own handler has read it */
        head->h.flags &= (uint8_t)~PGASI_BCAST_REMOTE;
    status = pgasi_bcast_buffer_send(pgasi_boot.rank, head, args, NULL, 0, NULL);
    if (status != PGAS_OK)
        pgasi_bcast_part_done(entry, status);
    if (sync)
        return PGAS_OK;
    return sent != PGAS_OK ? sent : status;
}

pgas_status_t pgasi_bcast_buffer(const pgasi_call_to_t *c, pgas_sync_t *sync)
{
    pgas_status_t status = check_buffer(c->o->buffers);
    for (size_t i = 1; i < c->o->n_buffers && status == PGAS_OK; i++)
        status = check_buffer(&c->o->buffers[i]);
    if (status == PGAS_OK)
        status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    pgasi_bcast_buffer_head_t head;
    memset(&head, 0, sizeof head);
    pgasi_bcast_begin(&head.h, c);
    head.args_bytes = (uint32_t)c->bytes;
    return start(&head, c->args, c->o->buffers, c->o, sync);
}

void pgasi_bcast_buffer_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_BCAST_BUFFER, on_buffer);
}
