/* Slots: whether a thread is inside an access.
 *
 * Every thread has a slot in memory of its node. By a plain store to the slot the thread announces
 * that it is inside an access. A thread that withdraws mapping entries changes them, runs a barrier
 * on all processors, and waits until it has seen every slot empty once. A thread that enters later
 * sees the changed entry.
 *
 * The slot does not say which chunk the thread uses. That makes an access two instructions
 * shorter, and costs nothing, since an access is a few instructions long. Source: hazard
 * pointers (Michael 2004), asymmetric fences by membarrier(2). */
#include "array/slots.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "array/registry.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "mem/thread.h"
#include "pgas/mem.h"

#define LOOKS 64 /* reads of a slot in a row */

#define NO_RIGHTS UINT64_MAX /* equals the rights of no mapping entry */
static uint32_t nowhere;
#define NO_PATH                                               \
    {                                                         \
        &nowhere, NULL, 0, NO_RIGHTS, NO_RIGHTS, NO_RIGHTS, 1 \
    }
__thread pgas_array_path_t pgas_array_path __attribute__((tls_model("initial-exec"))) = NO_PATH;

#define N_SLOTS (PGAS_THREADS_MAX + 1)
typedef struct {
    _Alignas(64) uint32_t inside;
} slot_t;
typedef struct {
    _Alignas(64) uint32_t n_used; /* slots below it are in use */
    slot_t slot[N_SLOTS];
} slots_t;

static struct {
    slots_t **of; /* by node rank; NULL: the rank has made no array */
    slots_t *own;
    uint64_t epoch;
    bool is_shared; /* the first thread of this rank knows that it is not alone */
} slots;

static void forget_thread(void)
{
    pgas_array_path = (pgas_array_path_t)NO_PATH;
}

static pgas_status_t forget_at_detach(void)
{
    forget_thread();
    return PGAS_OK;
}

bool pgasi_array_thread_known(void)
{
    return pgas_array_path.read != 0;
}

/* Slots are in the rank's heap and live as long as the library runs, because threads keep the
 * addresses of theirs. */
pgas_status_t pgasi_array_slots_start(void)
{
    if (slots.epoch == pgasi_epoch)
        return PGAS_OK;
    pgas_gptr_t block;
    free(slots.of);
    slots.of = calloc((size_t)pgasi_boot.node_size, sizeof *slots.of);
    if (!slots.of)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, sizeof(slots_t), &block);
    if (status != PGAS_OK)
        return status;
    slots.own = pgas_gptr_local(block, sizeof(slots_t));
    memset(slots.own, 0, sizeof *slots.own);
    slots.of[pgasi_boot.node_rank] = slots.own;
    slots.is_shared = false;
    pgasi_hooks.thread_attached[PGASI_LAYER_ARRAY] = forget_thread; /* of an earlier job */
    pgasi_hooks.thread_detaching[PGASI_LAYER_ARRAY] = forget_at_detach;
    forget_thread();
    slots.epoch = pgasi_epoch;
    return PGAS_OK;
}

void *pgasi_array_slots_own(void)
{
    return slots.own;
}

void pgasi_array_slots_learn(int node_rank, void *of_rank)
{
    __atomic_store_n(&slots.of[node_rank], of_rank, __ATOMIC_RELEASE);
}

uint32_t pgasi_array_self(void)
{
    return pgas_array_path.read
               ? (uint32_t)pgasi_boot.node_rank << 12 | (uint32_t)(pgas_array_path.data >> 8)
               : 0;
}

bool pgasi_array_is_sole(void)
{
    return __atomic_load_n(&slots.own->n_used, __ATOMIC_SEQ_CST) == 1;
}

bool pgasi_array_is_alone(bool at_home)
{
    /* entries were withdrawn before: a thread that enters now does not find them */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return pgas_array_path.read && (!at_home || pgasi_boot.node_size == 1) &&
           __atomic_load_n(&slots.own->n_used, __ATOMIC_RELAXED) == 1;
}

/* Reads the slot several times, because a thread that makes one access after the other is
 * outside for a moment between them. */
static bool has_left(const uint32_t *inside)
{
    for (int n = 0; n < LOOKS; n++)
        if (!__atomic_load_n(inside, __ATOMIC_ACQUIRE))
            return true;
    return false;
}

bool pgasi_array_has_died(int node_rank)
{
    return PGAS_UNLIKELY(pgasi_boot_some_dead()) &&
           pgasi_boot_is_dead(pgasi_boot.node_members[node_rank]);
}

void pgasi_array_let_others_run(uint32_t n)
{
    if (n % LOOKS != 0)
        return;
    sched_yield();
    if (n % (LOOKS * LOOKS) == 0 && pgasi_hooks.look_around)
        pgasi_hooks.look_around();
}

static bool is_outside(int node_rank)
{
    slots_t *s = __atomic_load_n(&slots.of[node_rank], __ATOMIC_ACQUIRE);
    uint32_t n = s ? __atomic_load_n(&s->n_used, __ATOMIC_ACQUIRE) : 0;
    for (uint32_t i = 0; i < n; i++)
        if (!has_left(&s->slot[i].inside))
            return pgasi_array_has_died(node_rank);
    return true;
}

bool pgasi_array_all_left(bool at_home)
{
    if (!at_home)
        return is_outside(pgasi_boot.node_rank);
    for (int r = 0; r < pgasi_boot.node_size; r++)
        if (!is_outside(r))
            return false;
    return true;
}

/* While the rank has one thread, that thread stores to its exclusive chunks without fences. The
 * summary of its mapping entries allows reads of them. When this function returns, the first thread
 * has left every access that began in that mode. Every thread that arrives before it is finished
 * executes it, and no thread continues while another one is inside. */
static void end_time_alone(void)
{
    pgasi_array_second_thread();
    pgasi_wait_heavy_barrier();
    for (uint32_t looks = 1; !is_outside(pgasi_boot.node_rank); looks++)
        pgasi_array_let_others_run(looks);
    __atomic_store_n(&slots.is_shared, true, __ATOMIC_RELEASE);
}

void pgasi_array_thread_start(void)
{
    if (pgas_array_path.read || !pgasi_thread_attached() || pgasi_self.in_handler ||
        pgasi_self.slot >= PGAS_THREADS_MAX)
        return;
    uint32_t slot = (uint32_t)pgasi_self.slot,
             n = __atomic_load_n(&slots.own->n_used, __ATOMIC_RELAXED);
    while (n <= slot && !__atomic_compare_exchange_n(&slots.own->n_used, &n, slot + 1, false,
                                                     __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    if (slot > 0 && !__atomic_load_n(&slots.is_shared, __ATOMIC_ACQUIRE))
        end_time_alone();
    uint32_t *inside = &slots.own->slot[slot].inside;
    pgas_array_path =
        (pgas_array_path_t){ .slot = inside,
                             .reader = inside,
                             .read = PGAS_ARRAY_RIGHT_READ,
                             .data = (slot + 1) << 8 | PGAS_ARRAY_RIGHT_DATA,
                             .operate = (slot + 1) << 8 | PGAS_ARRAY_RIGHT_OPERATE,
                             .shared = PGAS_ARRAY_RIGHT_READ | PGAS_ARRAY_RIGHT_CHANGE,
                             .sample = 1 };
}
