/* Mixed sections of an operation: see many.h.
 *
 * All elements of a section are gathered by rank, also those that this process maps. So no branch
 * of the loop depends on the rank, because ranks are often random. A full bucket becomes a message.
 * The elements of the node are carried out at the end of the section, before later elements, so
 * that elements of one rank keep their order. */
#include "many/many.h"

#include <stdlib.h>
#include <string.h>

#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "call/progress.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "pgas/rma.h"

#define BUCKETS_BYTES ((size_t)1 << 20)

typedef pgasi_many_bucket_t bucket_t;

static inline bucket_t *bucket_of(const pgasi_many_far_t *far, uint64_t rank)
{
    return (bucket_t *)(void *)(far->buckets + rank * far->bytes);
}

/* ---- full buckets ---- */

static pgas_status_t carry_out(const pgasi_many_far_t *far, int rank, const bucket_t *bucket)
{
    char *values = (char *)bucket + far->values_at;
    pgasi_many_t part = *far->m;
    if (part.kind == PGASI_MANY_GET)
        part.place = (const uint32_t *)(const void *)values;
    else if (part.step)
        part.from = values;
    return pgasi_many_carry_out(&part, rank, bucket->index, bucket->head.n);
}

static pgas_status_t send(const pgasi_many_far_t *far, int rank, bucket_t *bucket)
{
    const pgasi_many_t *m = far->m;
    char *values = (char *)bucket + far->values_at,
         *behind = (char *)&bucket->index[bucket->head.n];
    size_t bytes = bucket->head.has_values ? bucket->head.n * m->elem_bytes : 0;
    if (bytes && values != behind)
        memmove(behind, values, bytes);
    pgas_status_t status =
        pgasi_many_send(m, rank, bucket, (size_t)(behind - (char *)bucket) + bytes,
                        (const uint32_t *)(const void *)values);
    /* Ranks that use each other's elements fill each other's channels. Each drains its own between
     * two messages, while the messages are still in a cache. */
    pgasi_progress();
    return status;
}

static bool is_near(uint64_t rank)
{
    return pgas_gptr_is_local(pgas_gptr_make((int)rank, PGASI_HEAP_OFFSET));
}

static pgas_status_t empty(const pgasi_many_far_t *far, uint64_t rank, bool near)
{
    bucket_t *bucket = bucket_of(far, rank);
    pgas_status_t status = near ? carry_out(far, (int)rank, bucket) : send(far, (int)rank, bucket);
    bucket->head.n = 0;
    return status;
}

/* Empties the buckets of ranks whose heap this process maps, or of all. */
static pgas_status_t empty_all(const pgasi_many_far_t *far, bool all)
{
    pgas_status_t status = PGAS_OK;
    for (uint64_t rank = 0; rank < far->n_ranks && status == PGAS_OK; rank++) {
        if (bucket_of(far, rank)->head.n == 0)
            continue;
        bool near = is_near(rank);
        if (near || all)
            status = empty(far, rank, near);
    }
    return status;
}

/* ---- gathering ---- */

/* An element that does not fit a message. */
static pgas_status_t run_alone(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t i)
{
    const pgasi_many_t *m = far->m;
    if (m->near(m, ptrs, i, i + 1) > i)
        return PGAS_OK;
    far->must_flush = far->must_flush || m->kind == PGASI_MANY_PUT;
    return pgasi_many_transfer(m, ptrs[i], i);
}

/* shift and value_bytes are constants where that saves instructions. value_bytes 0: elements have
 * no values. Fields of *far are in variables, because the compiler would otherwise load them again
 * after each store to a bucket. */
PGAS_INLINE pgas_status_t gather(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t i,
                                 size_t end, unsigned shift, size_t value_bytes, bool places)
{
    const uint64_t limit = far->limit, n_ranks = far->n_ranks, mask = (UINT64_C(1) << shift) - 1;
    const uint32_t bytes = far->bytes, values_at = far->values_at, last = far->per_rank - 1;
    const char *from = far->m->from;
    char *buckets = far->buckets;
    pgas_status_t status = PGAS_OK;
    for (; i < end && status == PGAS_OK; i++) {
        uint64_t ptr = ptrs[i], rank = ptr >> PGAS_OFFSET_BITS;
        uint64_t inside = (ptr & PGAS_OFFSET_MAX) - PGASI_HEAP_OFFSET;
        if (PGAS_UNLIKELY(rank >= n_ranks || inside >= limit || (inside & mask))) {
            status = run_alone(far, ptrs, i);
            continue;
        }
        bucket_t *bucket = (bucket_t *)(void *)(buckets + rank * bytes);
        uint32_t held = bucket->head.n++;
        char *value = (char *)bucket + values_at + held * value_bytes;
        bucket->index[held] = (uint32_t)(inside >> shift);
        if (places)
            *(uint32_t *)(void *)value = (uint32_t)i;
        else if (value_bytes)
            memcpy(value, from + i * value_bytes, value_bytes);
        if (PGAS_UNLIKELY(held == last))
            status = empty(far, rank, is_near(rank));
    }
    return status;
}

static pgas_status_t gather_any(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t i,
                                size_t end)
{
    const pgasi_many_t *m = far->m;
    bool has_words = m->elem_bytes == sizeof(uint64_t);
    if (m->kind == PGASI_MANY_GET)
        return has_words ? gather(far, ptrs, i, end, 3, sizeof(uint32_t), true)
                         : gather(far, ptrs, i, end, far->shift, sizeof(uint32_t), true);
    if (m->step == 0)
        return gather(far, ptrs, i, end, far->shift, 0, false);
    return has_words ? gather(far, ptrs, i, end, 3, sizeof(uint64_t), false)
                     : gather(far, ptrs, i, end, far->shift, m->elem_bytes, false);
}

/* ---- of an operation ---- */

void pgasi_many_far_begin(pgasi_many_far_t *far, const pgasi_many_t *m, size_t n)
{
    uint32_t each = pgasi_many_per_message(m);
    size_t value_bytes = m->kind == PGASI_MANY_GET ? sizeof(uint32_t) : m->step;
    size_t n_ranks = (size_t)pgasi_boot.n_ranks;
    size_t room = PGASI_MAX(BUCKETS_BYTES / n_ranks / (sizeof(uint32_t) + value_bytes), 8);
    *far = (pgasi_many_far_t){ .m = m, .shift = (unsigned)__builtin_ctzll(m->elem_bytes) };
    if (each == 0)
        return;
    far->limit = PGASI_MIN(pgasi_param.heap_size, UINT64_C(1) << 32 << far->shift);
    far->per_rank = PGASI_MIN(each, (uint32_t)PGASI_MIN(room, n));
    far->values_at = (uint32_t)(sizeof(bucket_t) + far->per_rank * sizeof(uint32_t));
    far->bytes = (uint32_t)PGASI_ALIGN_UP(far->values_at + far->per_rank * value_bytes, 64);
}

/* Allocates the buckets. */
static pgas_status_t open_buckets(pgasi_many_far_t *far)
{
    const pgasi_many_t *m = far->m;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK || far->per_rank == 0)
        return status;
    far->buckets = malloc((size_t)pgasi_boot.n_ranks * far->bytes);
    if (!far->buckets)
        return PGAS_ERR_NO_MEMORY;
    far->n_ranks = (uint32_t)pgasi_boot.n_ranks;
    for (uint32_t rank = 0; rank < far->n_ranks; rank++)
        bucket_of(far, rank)->head =
            (pgasi_many_head_t){ .kind = (uint8_t)m->kind,
                                 .op = (uint8_t)m->op,
                                 .type = (uint8_t)m->type,
                                 .has_values = m->kind != PGASI_MANY_GET && m->step,
                                 .elem_bytes = (uint16_t)m->elem_bytes };
    return PGAS_OK;
}

pgas_status_t pgasi_many_far_run(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t i,
                                 size_t end)
{
    pgas_status_t status = far->n_ranks ? PGAS_OK : open_buckets(far);
    if (status == PGAS_OK)
        status = gather_any(far, ptrs, i, end);
    return status == PGAS_OK ? empty_all(far, false) : status;
}

pgas_status_t pgasi_many_far_end(pgasi_many_far_t *far)
{
    pgas_status_t status = empty_all(far, true);
    free(far->buckets);
    return far->must_flush && status == PGAS_OK ? pgas_flush_all() : status;
}
