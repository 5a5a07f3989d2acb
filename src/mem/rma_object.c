/* Objects of pgas/rma_object.h: counted memory of the heap, of malloc, or of the program.
 * rma_blocks.c supplies the memory of the heap and the records. */
#include "mem/rma_object.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "boot/boot.h"
#include "mem/regmem.h"
#include "mem/segment.h"
#include "mem/thread.h"

#define ALIGN ((size_t)64)

static bool has_warned;

/* ---- beginning ---- */

static pgas_rma_object_t *begin(pgasi_rma_object_t *object, size_t bytes)
{
    pgasi_rma_counts_t *counts = pgasi_rma_counts();
    object->of.bytes = bytes;
    object->of.n_holders = 1;
    pgasi_rma_count(&counts->n_objects, 1);
    if (object->of.kind == PGASI_MEMORY_REGISTERED)
        pgasi_rma_count(&counts->object_bytes, object->room);
    return &object->of;
}

static pgasi_rma_object_t *make_record(void *data, uint32_t kind)
{
    pgasi_rma_object_t *object = pgasi_rma_record_take();
    if (object)
        *object = (pgasi_rma_object_t){ .of = { .data = data, .kind = kind } };
    return object;
}

/* Makes an object with memory of malloc instead of memory of the heap. */
static pgasi_rma_object_t *make_plain(size_t bytes)
{
    if (bytes > PGAS_OFFSET_MAX)
        return NULL;
    void *data = aligned_alloc(ALIGN, PGASI_ALIGN_UP(PGASI_MAX(bytes, 1), ALIGN));
    pgasi_rma_object_t *object = data ? make_record(data, PGASI_MEMORY_PLAIN) : NULL;
    if (!object) {
        free(data);
        return NULL;
    }
    if (!pgasi_running)
        return object;
    PGASI_RMA_COUNT(n_unregistered, 1);
    if (!__atomic_exchange_n(&has_warned, true, __ATOMIC_RELAXED))
        PGASI_WARN("mem",
                   "no room in the heap for an object of %zu bytes: its memory is not registered, "
                   "and transfers are slower; raise PGAS_HEAP_SIZE",
                   bytes);
    return object;
}

pgas_status_t pgas_rma_object_create(size_t bytes, pgas_rma_object_t **object_p)
{
    if (PGAS_UNLIKELY(!object_p))
        return PGAS_ERR_INVALID;
    pgasi_rma_object_t *object = pgasi_rma_block_take(bytes);
    if (PGAS_UNLIKELY(!object) && !(object = make_plain(bytes)))
        return PGAS_ERR_NO_MEMORY;
    *object_p = begin(object, bytes);
    return PGAS_OK;
}

pgas_status_t pgas_rma_object_copy(const void *data, size_t bytes, pgas_rma_object_t **object_p)
{
    if (!data && bytes)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgas_rma_object_create(bytes, object_p);
    if (status == PGAS_OK && bytes)
        memcpy((*object_p)->data, data, bytes);
    return status;
}

/* @return PGAS_NULL: not all bytes are in the heap, or there is no heap */
static pgas_gptr_t find_in_heap(const char *data, size_t bytes)
{
    if (!pgasi_running)
        return PGAS_NULL;
    const pgasi_segment_t *heap = &pgasi_segments[0];
    uintptr_t offset = (uintptr_t)data - (uintptr_t)heap->address;
    return offset < heap->bytes && bytes <= heap->bytes - offset
               ? pgas_gptr_make(pgasi_boot.rank, PGASI_HEAP_OFFSET + offset)
               : PGAS_NULL;
}

pgas_status_t pgas_rma_object_reference(void *data, size_t bytes, pgas_release_fn_t release,
                                        void *arg, pgas_rma_object_t **object_p)
{
    if (!object_p || (!data && bytes))
        return PGAS_ERR_INVALID;
    pgasi_rma_object_t *object = make_record(data, PGASI_MEMORY_REFERENCE);
    if (!object)
        return PGAS_ERR_NO_MEMORY;
    object->of.ptr = find_in_heap(data, bytes);
    object->release = release;
    object->arg = arg;
    *object_p = begin(object, bytes);
    return PGAS_OK;
}

pgas_status_t pgas_rma_object_take(void *data, size_t bytes, pgas_rma_object_t **object_p)
{
    if (!object_p || (!data && bytes))
        return PGAS_ERR_INVALID;
    pgasi_rma_object_t *object = make_record(data, PGASI_MEMORY_TAKEN);
    if (!object)
        return PGAS_ERR_NO_MEMORY;
    *object_p = begin(object, bytes);
    return PGAS_OK;
}

/* ---- the end ---- */

static void end_other(pgasi_rma_object_t *object)
{
    pgas_rma_object_t of = object->of;
    pgas_release_fn_t release = object->release;
    void *arg = object->arg;
    object->of.kind = PGASI_MEMORY_ENDED;
    object->room = 0;
    pgasi_rma_record_give(object);
    if (of.kind != PGASI_MEMORY_REFERENCE)
        free(of.data);
    else if (release)
        release(of.data, of.bytes, arg);
}

static inline void end(pgasi_rma_object_t *object)
{
    pgasi_rma_counts_t *counts = pgasi_rma_counts();
    pgasi_rma_count(&counts->n_objects, (uint64_t)-1);
    if (PGAS_UNLIKELY(object->of.kind != PGASI_MEMORY_REGISTERED)) {
        end_other(object);
        return;
    }
    pgasi_rma_count(&counts->object_bytes, -(uint64_t)object->room);
    pgasi_rma_block_give(object);
}

pgas_status_t pgas_rma_object_destroy(pgas_rma_object_t *object)
{
    if (!object)
        return PGAS_OK;
    /* With one holder no other thread changes the count, so no atomic subtraction is necessary. */
    int n = __atomic_load_n(&object->n_holders, __ATOMIC_ACQUIRE);
    if (n > 1)
        n = __atomic_fetch_sub(&object->n_holders, 1, __ATOMIC_ACQ_REL);
    if (PGAS_UNLIKELY(n < 1))
        return PGAS_ERR_INVALID;
    if (n > 1)
        return PGAS_OK;
    __atomic_store_n(&object->n_holders, 0, __ATOMIC_RELAXED);
    end((pgasi_rma_object_t *)object);
    return PGAS_OK;
}

/* ---- the report ---- */

pgas_status_t pgas_rma_info(pgas_rma_info_t *info_p)
{
    pgasi_rma_counts_t sum;
    uint64_t bytes, high;
    pgasi_rma_sum(&sum, &bytes, &high);
    pgas_rma_info_t info = {
        .size = sizeof info,
        .n_calls_sent = sum.n_calls_sent,
        .n_calls_received = sum.n_calls_received,
        .bytes_sent = sum.bytes_sent,
        .bytes_received = sum.bytes_received,
        .serialize_us = sum.serialize_ns / 1000,
        .n_registered_sent = sum.n_registered_sent,
        .n_pointers_sent = sum.n_pointers_sent,
        .n_chunks_received = sum.n_chunks_received,
        .n_registrations = sum.n_registrations,
        .n_unregistered = sum.n_unregistered,
        .n_objects = sum.n_objects,
        .object_bytes = sum.object_bytes,
        .pool_bytes = bytes,
        .pool_high_bytes = high,
    };
    return pgasi_info_fill(info_p, &info, sizeof info);
}
