/* Acknowledged broadcasts: the answers that a rank still expects, and the end. See bcast.h.
 *
 * Acknowledgements are sent up the tree. A root has PGAS_BROADCASTS_MAX slots for acknowledged
 * broadcasts. Every rank has an entry for each slot of each root, in memory that costs nothing
 * until it is used. So ranks inside the tree never run out of entries and never allocate, and a
 * root that is too fast waits. Children are removed from an entry atomically. An acknowledgement,
 * the death of a child and a message that cannot be sent may meet on different threads: one of them
 * counts. */
#include <string.h>

#include "base/checks.h"
#include "base/deaths.h"
#include "bcast/bcast.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "base/sync.h"
#include "mem/thread.h"
#include "msg/descriptor.h"
#include "msg/dispatch.h"
#include "msg/send_queue.h"

/* Travels up the tree; names the broadcast. */
typedef struct {
    uint32_t root, number;
    uint64_t error; /* as pgasi_error_pack; 0: none */
    uint32_t slot, unused;
} ack_t;

pgasi_bcast_stats_t pgasi_bcast_stats;

static struct {
    pgasi_bcast_entry_t *entry; /* [n_ranks][PGAS_BROADCASTS_MAX] by root */
    uint32_t slots_taken;       /* of this rank as root, a bit each; atomic */
} acks;

PGASI_STATIC_ASSERT(PGAS_BROADCASTS_MAX == 32, "slots_taken has 32 bits");

static inline pgasi_bcast_entry_t *entry_of(int root, uint32_t slot)
{
    return &acks.entry[(size_t)root * PGAS_BROADCASTS_MAX + slot];
}

/* ---- a broadcast begins ---- */

static void fill_entry(pgasi_bcast_entry_t *e, uint32_t number, int above,
                       const pgasi_bcast_plan_t *plan, pgasi_bcast_block_t *held)
{
    e->above = above;
    e->held = held;
    e->error = plan->error;
    e->handler = plan->handler;
    __atomic_store_n(&e->number, number, __ATOMIC_RELAXED);
    __atomic_store_n(&e->missing, plan->n + 1, __ATOMIC_RELAXED);
    for (int i = 0; i < PGASI_BCAST_CHILDREN_MAX; i++)
        __atomic_store_n(&e->child[i], i < plan->n ? plan->child[i].rank + 1 : 0, __ATOMIC_RELEASE);
}

static bool take_slot(uint8_t *slot_p)
{
    uint32_t taken = __atomic_load_n(&acks.slots_taken, __ATOMIC_ACQUIRE);
    while (~taken) {
        uint32_t slot = (uint32_t)__builtin_ctz(~taken);
        uint32_t with_it = taken | 1u << slot;
        if (__atomic_compare_exchange_n(&acks.slots_taken, &taken, with_it, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            *slot_p = (uint8_t)slot;
            return true;
        }
    }
    return false;
}

static void give_slot(uint32_t slot)
{
    __atomic_fetch_and(&acks.slots_taken, ~(1u << slot), __ATOMIC_RELEASE);
    pgasi_wake(pgasi_boot.node_rank);
}

static bool take_slot_or_wait(uint8_t *slot_p, pgas_full_t full)
{
    if (take_slot(slot_p))
        return true;
    if (full != PGAS_FULL_WAIT || pgasi_self.in_handler)
        return false;
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (!take_slot(slot_p))
        pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return true;
}

pgas_status_t pgasi_bcast_root(pgasi_bcast_head_t *h, const pgasi_bcast_plan_t *plan,
                               pgas_sync_t *sync, pgas_full_t full, pgasi_bcast_block_t *held,
                               pgasi_bcast_entry_t **entry_p)
{
    if (!take_slot_or_wait(&h->slot, full))
        return PGAS_ERR_AGAIN;
    pgasi_bcast_entry_t *e = entry_of(pgasi_boot.rank, h->slot);
    h->number = e->number + 1;
    h->flags |= PGASI_BCAST_ACK;
    e->sync = sync;
    e->slot = h->slot;
    fill_entry(e, h->number, -1, plan, held);
    *entry_p = e;
    return PGAS_OK;
}

void pgasi_bcast_undo(pgasi_bcast_entry_t *e)
{
    for (int i = 0; i < PGASI_BCAST_CHILDREN_MAX; i++)
        __atomic_store_n(&e->child[i], 0, __ATOMIC_RELAXED);
    give_slot(e->slot);
}

pgasi_bcast_entry_t *pgasi_bcast_enter(const pgasi_bcast_head_t *h, int above,
                                       const pgasi_bcast_plan_t *plan)
{
    if (!(h->flags & PGASI_BCAST_ACK))
        return NULL;
    pgasi_bcast_entry_t *e = entry_of(pgas_thread_rank(h->source), h->slot);
    e->slot = h->slot;
    fill_entry(e, h->number, above, plan, NULL);
    return e;
}

pgasi_bcast_entry_t *pgasi_bcast_known(const pgasi_bcast_head_t *h)
{
    return h->flags & PGASI_BCAST_ACK ? entry_of(pgas_thread_rank(h->source), h->slot) : NULL;
}

/* ---- the end of a broadcast at a rank ---- */

static void report_above(const pgasi_bcast_entry_t *e)
{
    uint32_t root = (uint32_t)((size_t)(e - acks.entry) / PGAS_BROADCASTS_MAX);
    ack_t ack = { root, e->number, e->error, e->slot, 0 };
    pgasi_bcast_count(&pgasi_bcast_stats.n_up);
    /* the rank may have died: then the status does not matter */
    pgasi_sendq_call(e->above, PGASI_DESC_BCAST_ACK, &ack, sizeof ack, NULL, PGASI_FULL_ANSWER);
}

static void end_at_root(const pgasi_bcast_entry_t *e)
{
    pgas_sync_t *sync = e->sync;
    uint64_t error = e->error;
    give_slot(e->slot);
    if (sync)
        pgasi_sync_lower(sync, pgasi_error_status(error), pgasi_error_rank(error),
                         PGAS_OPERATION_CALL, (uint16_t)(error >> 16));
}

static void part_done(pgasi_bcast_entry_t *e, uint64_t error)
{
    uint64_t none = 0;
    if (error)
        __atomic_compare_exchange_n(&e->error, &none, error, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED);
    if (__atomic_sub_fetch(&e->missing, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pgasi_bcast_block_t *held = e->held;
    e->held = NULL;
    pgasi_bcast_block_release(held);
    if (e->above < 0)
        end_at_root(e);
    else
        report_above(e);
}

static uint64_t error_of(const pgasi_bcast_entry_t *e, int rank, pgas_status_t status)
{
    return status == PGAS_OK ? 0 : pgasi_error_pack(status, rank, PGAS_OPERATION_CALL, e->handler);
}

void pgasi_bcast_part_done(pgasi_bcast_entry_t *e, pgas_status_t status)
{
    if (e)
        part_done(e, error_of(e, pgasi_boot.rank, status));
}

static void child_answered(pgasi_bcast_entry_t *e, int rank, uint64_t error)
{
    for (int i = 0; i < PGASI_BCAST_CHILDREN_MAX; i++) {
        int32_t want = rank + 1;
        if (__atomic_compare_exchange_n(&e->child[i], &want, 0, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            part_done(e, error);
            return;
        }
    }
}

void pgasi_bcast_child_done(pgasi_bcast_entry_t *e, int rank, pgas_status_t status)
{
    if (e)
        child_answered(e, rank, error_of(e, rank, status));
}

static void on_ack(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    (void)context;
    ack_t ack;
    if (bytes != sizeof ack)
        return;
    memcpy(&ack, args, sizeof ack);
    if (ack.root >= (uint32_t)pgasi_boot.n_ranks || ack.slot >= PGAS_BROADCASTS_MAX)
        return;
    pgasi_bcast_entry_t *e = entry_of((int)ack.root, ack.slot);
    if (__atomic_load_n(&e->number, __ATOMIC_RELAXED) == ack.number)
        child_answered(e, pgas_thread_rank(source), ack.error);
}

/* Ends with PGAS_ERR_PEER all answers that broadcasts still expect from a dead rank. */
static void end_for_dead(int rank)
{
    size_t n = acks.entry ? (size_t)pgasi_boot.n_ranks * PGAS_BROADCASTS_MAX : 0;
    for (size_t i = 0; i < n; i++)
        if (__atomic_load_n(&acks.entry[i].missing, __ATOMIC_ACQUIRE) > 0)
            pgasi_bcast_child_done(&acks.entry[i], rank, PGAS_ERR_PEER);
}

/* ---- start and stop ---- */

pgas_status_t pgasi_bcast_ack_start(void)
{
    size_t n = (size_t)pgasi_boot.n_ranks * PGAS_BROADCASTS_MAX;
    acks.entry = pgasi_lazy_alloc(n * sizeof *acks.entry);
    acks.slots_taken = 0;
    pgasi_bcast_stats = (pgasi_bcast_stats_t){ 0, 0 };
    pgasi_deaths_add(end_for_dead);
    pgasi_handler_set_internal(PGASI_DESC_BCAST_ACK, on_ack);
    return acks.entry ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_bcast_ack_stop(void)
{
    size_t n = (size_t)pgasi_boot.n_ranks * PGAS_BROADCASTS_MAX;
    pgasi_lazy_free(acks.entry, n * sizeof *acks.entry);
    acks.entry = NULL;
}
