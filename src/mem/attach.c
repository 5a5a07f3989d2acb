/* Memory that the program attaches: it becomes a segment, which peers reach by its key. */
#include "mem/segment.h"

#include <pthread.h>
#include <string.h>

#include "base/bitmap.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "mem/thread.h"
#include "pgas/mem.h"

#define ATTACH_ALIGN 8 /* alignment of the largest word */

static struct {
    pthread_mutex_t lock;
    uint64_t next_slot;
    uint64_t bytes, high;
    /* Slots that are attached, or were attached while a peer got their key: a key reaches the old
     * memory for as long as it exists. */
    uint64_t slots_taken[PGASI_SLOTS_PER_RANK / 64];
} attached = { .lock = PTHREAD_MUTEX_INITIALIZER };

void pgasi_attach_start(void)
{
    attached.next_slot = 0;
    attached.bytes = attached.high = 0;
    memset(attached.slots_taken, 0, sizeof attached.slots_taken);
}

static uint64_t slots_of(uint64_t inside, uint64_t bytes)
{
    return PGASI_DIV_UP(inside + bytes, PGASI_SLOT_BYTES);
}

/* Finds the lowest run of `need` free slots from `slot` on; 0: there is none. */
static uint64_t find_slots_from(uint64_t slot, uint64_t need)
{
    while (slot + need <= PGASI_SLOTS_PER_RANK) {
        slot = pgasi_bitmap_find_clear(attached.slots_taken, PGASI_SLOTS_PER_RANK, slot);
        uint64_t end = pgasi_bitmap_find_set(attached.slots_taken, PGASI_SLOTS_PER_RANK, slot);
        if (end - slot >= need)
            return slot;
        slot = end;
    }
    return 0;
}

/* Slots are taken in turn, and a slot is used again only after all others, so that an outdated
 * pointer is probably refused. */
static uint64_t find_slots(uint64_t need)
{
    uint64_t first = 1 + PGASI_DIV_UP(pgasi_segments[0].bytes, PGASI_SLOT_BYTES);
    uint64_t slot = find_slots_from(PGASI_MAX(first, attached.next_slot), need);
    return slot ? slot : find_slots_from(first, need);
}

static void mark_slots(uint64_t slot, uint64_t n, bool taken)
{
    for (uint64_t i = slot; i < slot + n; i++)
        if (taken)
            pgasi_bitmap_set(attached.slots_taken, i);
        else
            pgasi_bitmap_clear(attached.slots_taken, i);
}

static pgas_status_t attach_locked(char *address, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgasi_segment_t *s = NULL;
    for (int i = 1; i < pgasi_n_segments && !s; i++)
        if (!pgasi_segments[i].bytes)
            s = &pgasi_segments[i];
    if (!s) {
        PGASI_ERROR("mem", "cannot attach %zu bytes: PGAS_SEGMENTS=%d segments are attached", bytes,
                    pgasi_param.segments);
        return PGAS_ERR_LIMIT;
    }
    /* Pointer and address are aligned alike, because operations on words check the pointer. */
    uint64_t inside = (uintptr_t)address % ATTACH_ALIGN, n_slots = slots_of(inside, bytes),
             slot = find_slots(n_slots);
    if (!slot) {
        PGASI_ERROR("mem",
                    "cannot attach %zu bytes: fewer than %llu GiB of global pointers are left that "
                    "no peer has used; attach once and detach late",
                    bytes, (unsigned long long)n_slots);
        return PGAS_ERR_LIMIT;
    }
    if (pgasi_tp) {
        pgas_status_t status = pgasi_tp->ops->mem_register(pgasi_tp, address, bytes, &s->mem);
        if (status != PGAS_OK)
            return status;
    }
    s->key_is_known = false;
    mark_slots(slot, n_slots, true);
    attached.next_slot = slot + n_slots;
    attached.bytes += bytes;
    attached.high = PGASI_MAX(attached.high, attached.bytes);
    pgasi_segment_set(s, slot * PGASI_SLOT_BYTES + inside, bytes, address);
    *ptr_p = pgas_gptr_make(pgasi_boot.rank, s->offset);
    return PGAS_OK;
}

pgas_status_t pgas_mem_attach(void *address, size_t bytes, pgas_gptr_t *ptr_p)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!address || !bytes || !ptr_p || bytes > PGAS_OFFSET_MAX)
        return PGAS_ERR_INVALID;
    pthread_mutex_lock(&attached.lock);
    status = attach_locked(address, bytes, ptr_p);
    pthread_mutex_unlock(&attached.lock);
    return status;
}

static void detach_locked(pgasi_segment_t *s)
{
    uint64_t slot = s->offset / PGASI_SLOT_BYTES, bytes = s->bytes,
             n_slots = slots_of(s->offset % PGASI_SLOT_BYTES, bytes);
    pgasi_segment_set(s, 0, 0, NULL);
    if (s->mem)
        pgasi_tp->ops->mem_release(pgasi_tp, s->mem);
    s->mem = NULL;
    if (!s->key_is_known)
        mark_slots(slot, n_slots, false);
    attached.bytes -= bytes;
}

pgas_status_t pgas_mem_detach(pgas_gptr_t ptr)
{
    pgas_status_t status = pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (pgas_gptr_rank(ptr) != pgasi_boot.rank)
        return PGAS_ERR_INVALID;
    status = PGAS_ERR_INVALID;
    pthread_mutex_lock(&attached.lock);
    for (int i = 1; i < pgasi_n_segments; i++) {
        pgasi_segment_t *s = &pgasi_segments[i];
        if (s->bytes && s->offset == pgas_gptr_offset(ptr)) {
            detach_locked(s);
            status = PGAS_OK;
            break;
        }
    }
    pthread_mutex_unlock(&attached.lock);
    return status;
}

void pgasi_segments_attached(uint64_t *bytes_p, uint64_t *high_p)
{
    pthread_mutex_lock(&attached.lock);
    *bytes_p = attached.bytes;
    *high_p = attached.high;
    pthread_mutex_unlock(&attached.lock);
}

/* Finds the segment that has the byte at offset; NULL: none. */
static pgasi_segment_t *find(uint64_t offset)
{
    for (int i = 0; i < pgasi_n_segments; i++) {
        pgasi_segment_t *s = &pgasi_segments[i];
        if (s->bytes && offset >= s->offset && offset - s->offset < s->bytes)
            return s;
    }
    return NULL;
}

/* The lock is held, so that the described segment is attached, and detach knows that a peer has its
 * key. */
pgas_status_t pgasi_segment_describe(uint64_t offset, pgasi_segment_wire_t *wire_p)
{
    pgas_status_t status = PGAS_ERR_RANGE;
    pthread_mutex_lock(&attached.lock);
    pgasi_segment_t *s = find(offset);
    if (s && s->mem) {
        size_t key_bytes = PGASI_TP_KEY_MAX;
        status = pgasi_tp->ops->key_pack(pgasi_tp, s->mem, wire_p->key, &key_bytes);
        wire_p->offset = s->offset;
        wire_p->bytes = s->bytes;
        wire_p->address = (uint64_t)(uintptr_t)s->address;
        wire_p->key_bytes = (uint32_t)key_bytes;
        s->key_is_known = true;
    }
    pthread_mutex_unlock(&attached.lock);
    return status;
}
