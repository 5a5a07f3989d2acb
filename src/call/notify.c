/* Written completions: see notify.h.
 *
 * A completion takes an atomic addition on the completion record, one on the counter, and a second
 * one on the record: two cache lines of the owner. By message it would take a descriptor in the
 * owner's ring and its execution. The table of records is sparse memory: the records of counters
 * that were never used take no memory. */
#include "call/notify.h"

#include <stdlib.h>

#include "base/param.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/segment.h"

static struct {
    pgasi_shm_t shm;
    void **of; /* [node_size]: the table of each rank of the node */
} records;

pgas_status_t pgasi_notify_start(uint32_t n)
{
    records.of = calloc((size_t)pgasi_boot.node_size, sizeof *records.of);
    pgas_status_t status = pgasi_boot_agree(records.of ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK)
        status = pgasi_shm_create_each(n * sizeof(pgasi_completion_record_t), false, &records.shm,
                                       records.of);
    if (status != PGAS_OK)
        records.shm.base = NULL;
    return status;
}

void pgasi_notify_stop(void)
{
    if (records.shm.base)
        pgasi_shm_release_each(&records.shm, records.of);
    records.shm = (pgasi_shm_t){ NULL, 0, 0 };
    free(records.of);
    records.of = NULL;
}

static pgasi_completion_record_t *completion_at(int node_rank, uint32_t token)
{
    return (pgasi_completion_record_t *)records.of[node_rank] + (token >> 16);
}

pgasi_completion_record_t *pgasi_completion_of(uint32_t token)
{
    return records.shm.base ? completion_at(pgasi_boot.node_rank, token) : NULL;
}

/* ---- the owner of the counter ---- */

static bool is_in_heap(const pgas_sync_t *sync)
{
    const pgasi_segment_t *heap = &pgasi_segments[0];
    uintptr_t at = (uintptr_t)sync, base = (uintptr_t)heap->address;
    return at >= base && at - base <= heap->bytes - sizeof *sync && at % sizeof sync->count == 0;
}

bool pgasi_notify_open(uint32_t token, const pgas_sync_t *sync)
{
    if (pgasi_param.on_peer_death != PGASI_ON_PEER_DEATH_ABORT || !is_in_heap(sync))
        return false;
    pgasi_completion_record_t *completion = pgasi_completion_of(token);
    __atomic_store_n(&completion->counter, pgas_gptr_of((const void *)sync), __ATOMIC_RELAXED);
    __atomic_store_n(&completion->state, (uint64_t)token << 32, __ATOMIC_RELEASE);
    return true;
}

void pgasi_notify_close(uint32_t token)
{
    pgasi_completion_record_t *completion = pgasi_completion_of(token);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    if (__atomic_load_n(&completion->state, __ATOMIC_RELAXED) == 0)
        return;
    __atomic_fetch_and(&completion->state, UINT32_MAX, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&completion->state, __ATOMIC_ACQUIRE) != 0)
        pgasi_wait_step_quiet(&w);
    pgasi_wait_end(&w);
}

/* ---- the rank that ran the call ---- */

static bool enter(pgasi_completion_record_t *completion, uint32_t token)
{
    uint64_t state = __atomic_load_n(&completion->state, __ATOMIC_RELAXED);
    while (state >> 32 == token)
        if (__atomic_compare_exchange_n(&completion->state, &state, state + 1, true,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return true;
    return false;
}

bool pgasi_notify_write(int rank, uint32_t token, pgas_status_t status, uint32_t handler)
{
    int owner = pgasi_boot.local_of[rank];
    if (owner < 0)
        return false;
    pgasi_completion_record_t *completion = completion_at(owner, token);
    if (!enter(completion, token))
        return true; /* The counter has ended. */
    pgasi_where_t where = PGASI_WHERE_FAR;
    void *address = NULL;
    pgas_gptr_t at = __atomic_load_n(&completion->counter, __ATOMIC_RELAXED);
    bool reached = pgasi_resolve(at, sizeof(pgas_sync_t), &where, &address) == PGAS_OK &&
                   where == PGASI_WHERE_HERE;
    if (reached) {
        pgas_sync_t *sync = address;
        if (status != PGAS_OK)
            pgasi_sync_note(sync, completion, status, pgasi_boot.rank, handler);
        bool over = __atomic_sub_fetch(&sync->count, 1, __ATOMIC_ACQ_REL) <= 0;
        __atomic_sub_fetch(&completion->state, 1, __ATOMIC_RELEASE);
        if (over)
            pgasi_wake(owner);
    } else {
        __atomic_sub_fetch(&completion->state, 1, __ATOMIC_RELEASE);
    }
    return reached;
}
