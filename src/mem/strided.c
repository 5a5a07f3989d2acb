/* Strided transfers: many small parts under one request.
 *
 * On the node each part is a memory copy. Off the node all parts are issued before the first is
 * waited for. After an error the function waits for the parts in flight, because they use the
 * caller's buffer. */
#include <string.h>

#include "mem/rma.h"

static pgas_status_t finish(pgasi_req_t *req, pgas_status_t status)
{
    pgas_status_t waited = pgasi_req_wait(req);
    return status != PGAS_OK ? status : waited;
}

/* Both ends of n_parts parts at multiples of stride must be in the segment before any part
 * moves. */
static pgas_status_t check_span(pgas_gptr_t ptr, int64_t stride, size_t bytes, size_t n_parts)
{
    pgasi_where_t where;
    void *address;
    if (!n_parts)
        return pgasi_thread_check();
    int64_t span;
    if (n_parts > INT64_MAX || __builtin_mul_overflow(stride, (int64_t)(n_parts - 1), &span) ||
        span > (int64_t)PGAS_OFFSET_MAX || span < -(int64_t)pgas_gptr_offset(ptr))
        return PGAS_ERR_RANGE;
    pgas_status_t status = pgasi_resolve(ptr, bytes, &where, &address);
    if (status == PGAS_OK && pgas_gptr_offset(ptr) + (uint64_t)span > PGAS_OFFSET_MAX)
        status = PGAS_ERR_RANGE;
    return status == PGAS_OK ? pgasi_resolve(ptr + (uint64_t)span, bytes, &where, &address)
                             : status;
}

static pgas_status_t strided(pgasi_rma_kind_t kind, pgas_gptr_t ptr, int64_t ptr_stride,
                             char *buffer, int64_t buffer_stride, size_t block_bytes,
                             size_t n_blocks)
{
    pgas_status_t status = check_span(ptr, ptr_stride, block_bytes, n_blocks);
    if (status != PGAS_OK)
        return status;
    if (!block_bytes)
        return PGAS_OK;
    if (!buffer && n_blocks)
        return PGAS_ERR_INVALID;
    pgasi_req_t req;
    pgasi_req_begin(&req);
    for (size_t i = 0; i < n_blocks && status == PGAS_OK; i++) {
        pgasi_rma_t rma = { .kind = kind,
                            .ptr = ptr + (uint64_t)((int64_t)i * ptr_stride),
                            .buffer = buffer + (int64_t)i * buffer_stride,
                            .bytes = block_bytes };
        status = pgasi_rma_start(&rma, &req);
    }
    return finish(&req, status);
}

pgas_status_t pgas_put_strided(pgas_gptr_t dst, int64_t dst_stride, const void *src,
                               int64_t src_stride, size_t block_bytes, size_t n_blocks)
{
    return strided(PGASI_RMA_PUT, dst, dst_stride, (char *)(uintptr_t)src, src_stride, block_bytes,
                   n_blocks);
}

pgas_status_t pgas_get_strided(void *dst, int64_t dst_stride, pgas_gptr_t src, int64_t src_stride,
                               size_t block_bytes, size_t n_blocks)
{
    return strided(PGASI_RMA_GET, src, src_stride, dst, dst_stride, block_bytes, n_blocks);
}
