/* Slots of attached threads and the contexts behind them.
 *
 * Attaching is rare (once per thread or parallel region), so it takes a lock. Issuing reads only a
 * thread-local record. The lowest free slot is assigned, so that OpenMP regions of the same width
 * reuse the same contexts. */
#include "mem/thread.h"

#include <pthread.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "mem/ctx.h"

__thread pgasi_thread_t pgasi_self;
bool pgasi_running;
bool pgasi_leaving;
uint64_t pgasi_epoch = 2;

static struct {
    bool closed;   /* the job ends */
    int n_passing; /* threads that are attaching or detaching */
} gate;

static struct {
    pthread_mutex_t lock;
    uint64_t used[(PGAS_THREADS_MAX + 63) / 64];
    uint64_t of_program[(PGAS_THREADS_MAX + 63) / 64]; /* while their calls are accepted */
    /* of the used ones, when they attached; -1: unknown, or there is only one zone */
    int16_t zone_of[PGAS_THREADS_MAX];
    int n_zones;
} slots = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int take_slot(bool highest)
{
    pthread_mutex_lock(&slots.lock);
    int slot = -1;
    for (int k = 0; k < PGAS_THREADS_MAX && slot < 0; k++) {
        int i = highest ? PGAS_THREADS_MAX - 1 - k : k;
        if (!pgasi_bitmap_test(slots.used, (size_t)i)) {
            pgasi_bitmap_set(slots.used, (size_t)i);
            slot = i;
        }
    }
    pthread_mutex_unlock(&slots.lock);
    return slot;
}

static void mark_program(int slot, bool on)
{
    pthread_mutex_lock(&slots.lock);
    if (on)
        pgasi_bitmap_set(slots.of_program, (size_t)slot);
    else
        pgasi_bitmap_clear(slots.of_program, (size_t)slot);
    pthread_mutex_unlock(&slots.lock);
}

void pgasi_slot_release(int slot)
{
    pthread_mutex_lock(&slots.lock);
    pgasi_bitmap_clear(slots.used, (size_t)slot);
    pthread_mutex_unlock(&slots.lock);
}

int pgasi_thread_slots(uint16_t *slots_p, int room)
{
    int n = 0;
    pthread_mutex_lock(&slots.lock);
    size_t at = pgasi_bitmap_find_set(slots.of_program, PGAS_THREADS_MAX, 0);
    for (; at < PGAS_THREADS_MAX && n < room;
         at = pgasi_bitmap_find_set(slots.of_program, PGAS_THREADS_MAX, at + 1))
        slots_p[n++] = (uint16_t)at;
    pthread_mutex_unlock(&slots.lock);
    return n;
}

bool pgasi_thread_zone(int slot, int *zone_p)
{
    if (slot < 0 || slot >= PGAS_THREADS_MAX)
        return false;
    pthread_mutex_lock(&slots.lock);
    bool attached = pgasi_bitmap_test(slots.used, (size_t)slot);
    if (attached)
        *zone_p = slots.zone_of[slot];
    pthread_mutex_unlock(&slots.lock);
    return attached;
}

/* Stores the zone in which the calling thread runs, after it was bound. */
static void note_zone(int slot)
{
    int zone = slots.n_zones > 1 ? pgasi_place_own_zone() : -1;
    pthread_mutex_lock(&slots.lock);
    slots.zone_of[slot] = (int16_t)zone;
    pthread_mutex_unlock(&slots.lock);
}

bool pgasi_slot_reserve(int slot)
{
    pthread_mutex_lock(&slots.lock);
    bool is_free = !pgasi_bitmap_test(slots.used, (size_t)slot);
    pgasi_bitmap_set(slots.used, (size_t)slot);
    pthread_mutex_unlock(&slots.lock);
    return is_free;
}

static pgas_status_t attach(bool highest)
{
    int slot = take_slot(highest);
    if (slot < 0)
        return PGAS_ERR_LIMIT;
    struct pgasi_ctx *ctx = NULL;
    pgas_status_t status = pgasi_ctx_of_slot(slot, &ctx);
    if (status != PGAS_OK) {
        pgasi_slot_release(slot);
        return status;
    }
    pgasi_self = (pgasi_thread_t){ .epoch = pgasi_epoch,
                                   .slot = slot,
                                   .n_attached = 1,
                                   .ctx = ctx,
                                   .ep_ctx = ctx,
                                   .sendq = ctx->shared ? NULL : ctx->sendq };
    pgasi_place_bind(slot);
    note_zone(slot);
    pgasi_hooks_thread_attached();
    mark_program(slot, !highest);
    return PGAS_OK;
}

/* The gate: attaching and detaching threads are counted, and the end of the job closes it. */
static bool enter_gate(void)
{
    __atomic_fetch_add(&gate.n_passing, 1, __ATOMIC_SEQ_CST);
    if (PGAS_LIKELY(!__atomic_load_n(&gate.closed, __ATOMIC_SEQ_CST)))
        return true;
    __atomic_fetch_sub(&gate.n_passing, 1, __ATOMIC_RELEASE);
    return false;
}

/* The thread touches nothing of the library after it has left the gate, not even a wakeup flag: the
 * thread that closes the gate polls. */
static void leave_gate(void)
{
    __atomic_fetch_sub(&gate.n_passing, 1, __ATOMIC_RELEASE);
}

void pgasi_thread_close_gate(void)
{
    __atomic_store_n(&gate.closed, true, __ATOMIC_SEQ_CST);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (__atomic_load_n(&gate.n_passing, __ATOMIC_ACQUIRE) > 0)
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
}

pgas_status_t pgas_thread_attach(void)
{
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    if (!pgasi_thread_attached()) {
        if (!enter_gate())
            return PGAS_ERR_NOT_INIT;
        pgas_status_t status = attach(false);
        leave_gate();
        return status;
    }
    if (pgasi_self.in_handler) /* the thread counts its own attaches, not those of its handlers */
        return PGAS_ERR_CONTEXT;
    pgasi_self.n_attached++;
    return PGAS_OK;
}

pgas_status_t pgasi_thread_attach_high(void)
{
    return attach(true);
}

pgas_status_t pgasi_thread_detach(void)
{
    mark_program(pgasi_self.slot, false);
    pgas_status_t status = pgasi_hooks_thread_detaching();
    pgasi_slot_release(pgasi_self.slot);
    memset(&pgasi_self, 0, sizeof pgasi_self);
    return status;
}

pgas_status_t pgas_thread_detach(void)
{
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    bool stays = pgasi_self.in_task || pgasi_self.slot == 0 || pgasi_self.slot == PGAS_SLOT_SERVICE;
    if (stays && pgasi_self.n_attached == 1)
        return PGAS_ERR_CONTEXT;
    if (pgasi_self.n_attached > 1) {
        pgasi_self.n_attached--;
        return PGAS_OK;
    }
    if (!enter_gate())
        return PGAS_ERR_NOT_INIT;
    status = pgasi_thread_detach();
    leave_gate();
    return status;
}

pgas_thread_t pgas_thread_self(void)
{
    return pgas_thread_make(pgasi_running ? pgasi_boot.rank : 0,
                            pgasi_thread_attached() ? pgasi_self.slot : PGASI_SLOT_NONE);
}

pgas_status_t pgas_thread_info(pgas_thread_info_t *info_p)
{
    pgas_thread_info_t info = { .size = sizeof info };
    if (!pgasi_running)
        return PGAS_ERR_NOT_INIT;
    pgas_status_t status = pgasi_place_query(&info.cpu, &info.numa, &info.bound);
    return status == PGAS_OK ? pgasi_info_fill(info_p, &info, sizeof info) : status;
}

pgas_status_t pgasi_thread_start(void)
{
    memset(slots.used, 0, sizeof slots.used);
    memset(slots.of_program, 0, sizeof slots.of_program);
    gate.closed = false;
    slots.n_zones = pgasi_place_n_zones();
    __atomic_store_n(&pgasi_epoch, pgasi_epoch + 1, __ATOMIC_RELEASE);
    return attach(false);
}

void pgasi_thread_stop(void)
{
    __atomic_store_n(&pgasi_epoch, pgasi_epoch + 1, __ATOMIC_RELEASE);
    memset(&pgasi_self, 0, sizeof pgasi_self);
}

void pgasi_thread_be_service(void)
{
    pgasi_self = (pgasi_thread_t){ .epoch = pgasi_epoch,
                                   .slot = PGAS_SLOT_SERVICE,
                                   .n_attached = 1,
                                   .ctx = pgasi_ctxs[PGASI_CTX_SERVICE],
                                   .ep_ctx = pgasi_ctxs[PGASI_CTX_SHARED] };
}
