/* Runs the handler of a broadcast at a rank: at once, on a handler thread, or once on each thread.
 * See bcast.h. */
#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/hash.h"
#include "bcast/bcast.h"
#include "boot/boot.h"
#include "call/buffers.h"
#include "call/handler.h"
#include "call/task.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/recv_queue.h"
#include "msg/send_queue.h"

/* All runs of one broadcast at this rank share this, if one of them ends later. */
typedef struct {
    int n; /* runs that have not ended */
    pgasi_bcast_run_t run;
    pgasi_bcast_entry_t *entry;
} shared_t;

/* Precedes the arguments of a handler that may wait. */
typedef struct {
    shared_t *shared;
    uint64_t handler;
} task_t;

static pgasi_buffer_here_t *nth_buffer(void *buffers, size_t i)
{
    return &((pgasi_buffer_here_t *)buffers)[i];
}

/* Returns the number of buffers. 0 also if sizes that arrived are malformed. */
static size_t find_buffers(const pgasi_bcast_run_t *run, pgasi_buffer_here_t *b)
{
    if (!run->data)
        return 0;
    char *at = (char *)(uintptr_t)run->data;
    uint64_t left = run->data_bytes, n = 0, bytes;
    if (!run->packed) {
        b[0] = (pgasi_buffer_here_t){ at, left, false, run->fixed, false };
        return 1;
    }
    if (left >= sizeof n)
        memcpy(&n, at, sizeof n);
    if (n == 0 || n > PGAS_BUFFERS_MAX || left < (n + 1) * sizeof n)
        return 0;
    const char *sizes = at + sizeof n;
    at += (n + 1) * sizeof n;
    left -= (n + 1) * sizeof n;
    for (size_t i = 0; i < n; i++) {
        memcpy(&bytes, sizes + i * sizeof bytes, sizeof bytes);
        if (bytes > left || PGASI_ALIGN_UP(bytes, 8) > left)
            return 0;
        b[i] = (pgasi_buffer_here_t){ at, bytes, false, false, false };
        at += PGASI_ALIGN_UP(bytes, 8);
        left -= PGASI_ALIGN_UP(bytes, 8);
    }
    return (size_t)n;
}

static pgas_status_t run_now(uint16_t handler, const void *args, size_t bytes, pgas_thread_t source,
                             const pgasi_bcast_run_t *run)
{
    pgasi_buffer_here_t b[PGAS_BUFFERS_MAX];
    size_t n = find_buffers(run, b);
    pgasi_buffers_t before = pgasi_buffers_enter(n ? b : NULL, n, nth_buffer);
    pgas_status_t status = pgasi_handler_run_one(handler, args, bytes, source);
    pgasi_buffers_leave(before);
    return status;
}

/* Copies both to one block. NULL: no memory. */
static char *join(const void *head, size_t head_bytes, const void *args, size_t bytes)
{
    char *both = malloc(head_bytes + bytes);
    if (both)
        memcpy(both, head, head_bytes);
    if (both && bytes)
        memcpy(both + head_bytes, args, bytes);
    return both;
}

static void run_ended(const pgasi_bcast_run_t *run, pgasi_bcast_entry_t *entry,
                      pgas_status_t status)
{
    pgasi_bcast_part_done(entry, status);
    pgasi_bcast_block_release(run->block);
}

static void shared_run_ended(shared_t *s, pgas_status_t status)
{
    pgasi_bcast_part_done(s->entry, status);
    if (__atomic_sub_fetch(&s->n, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pgasi_bcast_block_release(s->run.block);
    free(s);
}

static void run_waiting(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    task_t t;
    memcpy(&t, args, sizeof t);
    args = (const char *)args + sizeof t;
    shared_run_ended(t.shared,
                     run_now((uint16_t)t.handler, args, bytes - sizeof t, source, &t.shared->run));
}

/* Runs the handler as its calls run: on a handler thread, in the order of arrival. */
static void submit(shared_t *s, uint16_t handler, const void *args, size_t bytes,
                   pgas_thread_t source, bool spawn)
{
    static const pgasi_handler_entry_t entry = { run_waiting, NULL, NULL, true };
    char *both = join(&(task_t){ s, handler }, sizeof(task_t), args, bytes);
    if (both)
        pgasi_task_call(&(pgasi_task_call_t){ &entry, source, handler, spawn, 0 }, both,
                        sizeof(task_t) + bytes);
    else
        shared_run_ended(s, PGAS_ERR_NO_MEMORY);
    free(both);
}

static bool blocks(uint16_t handler)
{
    return pgasi_handler_known(handler) && pgasi_handlers[handler].blocks;
}

bool pgasi_bcast_is_async(const pgasi_bcast_head_t *h)
{
    return (h->flags & (PGASI_BCAST_THREADS | PGASI_BCAST_SPAWN)) || blocks(h->handler);
}

/* Precedes the arguments of a call to one thread of this rank, and says where it reports. */
typedef struct {
    shared_t *shared;
    uint64_t proof; /* that this process made `shared` */
    pgas_thread_t source;
    uint16_t handler, unused;
} for_thread_t;

PGASI_STATIC_ASSERT(sizeof(for_thread_t) <= PGASI_BCAST_THREAD_BYTES, "pgas/call.h says 24");

static uint64_t proof_of(const shared_t *s)
{
    return pgasi_hash_u64((uintptr_t)s ^ pgasi_boot.job_key);
}

static bool read_for_thread(for_thread_t *f, const void *args, size_t bytes, pgas_thread_t source)
{
    if (bytes < sizeof *f || pgas_thread_rank(source) != pgasi_boot.rank)
        return false;
    memcpy(f, args, sizeof *f);
    return f->proof == proof_of(f->shared);
}

static void on_thread(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    for_thread_t f;
    if (!read_for_thread(&f, args, bytes, source))
        return;
    args = (const char *)args + sizeof f;
    bytes -= sizeof f;
    if (blocks(f.handler))
        submit(f.shared, f.handler, args, bytes, f.source, false);
    else
        shared_run_ended(f.shared, run_now(f.handler, args, bytes, f.source, &f.shared->run));
}

/* The thread left before the call ran. */
static bool on_thread_left(const void *args, size_t bytes, pgas_thread_t source)
{
    for_thread_t f;
    if (read_for_thread(&f, args, bytes, source))
        shared_run_ended(f.shared, PGAS_ERR_PEER);
    return true;
}

static void call_thread(int slot, const for_thread_t *f, const void *args, size_t bytes)
{
    int ep = pgasi_ep_of_slot(slot);
    pgas_status_t status = PGAS_ERR_LIMIT;
    if (ep >= 0)
        status = pgasi_sendq_call_pair(pgasi_boot.rank, ep, false, PGASI_DESC_BCAST_THREAD, f,
                                       sizeof *f, args, bytes, PGASI_FULL_ANSWER);
    if (status != PGAS_OK)
        shared_run_ended(f->shared, status);
}

static void run_on_threads(const pgasi_bcast_head_t *h, const void *args, size_t bytes, shared_t *s)
{
    uint16_t slots[PGAS_THREADS_MAX];
    int n = pgasi_thread_slots(slots, PGAS_THREADS_MAX);
    s->n += n; /* one more keeps s until all threads are called */
    if (s->entry)
        __atomic_add_fetch(&s->entry->missing, n, __ATOMIC_RELAXED);
    for_thread_t f = { s, proof_of(s), h->source, h->handler, 0 };
    for (int i = 0; i < n; i++)
        call_thread(slots[i], &f, args, bytes);
    shared_run_ended(s, PGAS_OK);
}

void pgasi_bcast_run(const pgasi_bcast_head_t *h, const void *args, size_t bytes,
                     pgasi_bcast_entry_t *entry, const pgasi_bcast_run_t *run)
{
    if (h->flags & PGASI_BCAST_REMOTE) { /* the root waits for the arrival only */
        pgasi_bcast_part_done(entry, PGAS_OK);
        entry = NULL;
    }
    if (PGAS_LIKELY(!pgasi_bcast_is_async(h))) {
        run_ended(run, entry, run_now(h->handler, args, bytes, h->source, run));
        return;
    }
    shared_t *s = malloc(sizeof *s);
    if (!s) {
        run_ended(run, entry, PGAS_ERR_NO_MEMORY);
        return;
    }
    *s = (shared_t){ 1, *run, entry };
    if (h->flags & PGASI_BCAST_THREADS)
        run_on_threads(h, args, bytes, s);
    else
        submit(s, h->handler, args, bytes, h->source, h->flags & PGASI_BCAST_SPAWN);
}

void pgasi_bcast_run_start(void)
{
    pgasi_handler_set_internal(PGASI_DESC_BCAST_THREAD, on_thread);
    pgasi_handler_set_refused(PGASI_DESC_BCAST_THREAD, on_thread_left);
}
