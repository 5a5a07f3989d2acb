/* Many elements anywhere in one call: see many.h.
 *
 * Elements that this process maps are handled in blocks. The addresses of a block are computed, and
 * their cache lines requested, before the elements of the block in front of it are used. So some
 * hundred requests to memory overlap, where a loop over pgas_get_u64 has some ten. */
#include "many/many.h"

#include <string.h>

#include "base/checks.h"
#include "base/op.h"
#include "boot/boot.h"
#include "mem/thread.h"

#define PLACES_MAX (UINT64_C(1) << 31) /* elements of one round: their places have 32 bits */

/* Computes the addresses of n elements and requests their lines. An element that this process does
 * not map has the address NULL.
 * @return whether all elements have addresses */
static inline __attribute__((always_inline)) bool locate(const pgas_gptr_t *ptrs, size_t n,
                                                         size_t elem_bytes, bool writes, void **at)
{
    bool all = true;
    for (size_t i = 0; i < n; i++) {
        void *here = pgas_gptr_local(ptrs[i], elem_bytes);
        at[i] = here;
        all = all && here;
        if (writes)
            __builtin_prefetch(here, 1);
        else
            __builtin_prefetch(here, 0);
    }
    return all;
}

static bool locate_block(const pgas_gptr_t *ptrs, size_t n, const pgasi_many_t *m, void **at)
{
    bool writes = m->kind == PGASI_MANY_PUT;
    if (m->elem_bytes == 8 && !writes)
        return locate(ptrs, n, 8, false, at);
    return locate(ptrs, n, m->elem_bytes, writes, at);
}

/* Copies elements of the caller from `first` on, which are at at[]. */
static inline void copy(const pgasi_many_t *m, void *const *at, size_t first, size_t n)
{
    size_t skip = first * m->elem_bytes;
    if (m->kind == PGASI_MANY_GET)
        pgasi_many_load(m->to + skip, at, m->elem_bytes, n);
    else
        pgasi_many_store(at, m->from + skip, m->elem_bytes, n);
}

/* Copies a block some of whose elements are not mapped. */
static pgas_status_t copy_mixed(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, void *const *at,
                                size_t first, size_t n)
{
    pgas_status_t status = PGAS_OK;
    for (size_t i = 0; i < n && status == PGAS_OK; i++)
        if (at[i])
            copy(far->m, &at[i], first + i, 1);
        else
            status = pgasi_many_far_add(far, ptrs[i], first + i, far->shift, far->m->elem_bytes,
                                        far->m->kind, far->m->from);
    return status;
}

static pgas_status_t copy_all(pgasi_many_far_t *far, const pgas_gptr_t *ptrs, size_t n)
{
    void *at[2][PGASI_MANY_BLOCK];
    pgas_status_t status = PGAS_OK;
    size_t here = PGASI_MIN(n, PGASI_MANY_BLOCK), next;
    bool all = locate_block(ptrs, here, far->m, at[0]), next_all;
    for (size_t first = 0, k = 0; here > 0 && status == PGAS_OK; k ^= 1) {
        next = PGASI_MIN(n - first - here, PGASI_MANY_BLOCK);
        next_all = locate_block(ptrs + first + here, next, far->m, at[k ^ 1]);
        if (PGAS_LIKELY(all))
            copy(far->m, at[k], first, here);
        else
            status = copy_mixed(far, ptrs + first, at[k], first, here);
        first += here;
        here = next;
        all = next_all;
    }
    return status;
}

/* ---- public ---- */

static pgas_status_t run(pgasi_many_t *m, const pgas_gptr_t *ptrs, size_t n)
{
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK && (m->elem_bytes == 0 || (n > 0 && !ptrs)))
        status = PGAS_ERR_INVALID;
    for (size_t done = 0, here; done < n && status == PGAS_OK; done += here) {
        pgasi_many_far_t far;
        here = PGASI_MIN(n - done, PLACES_MAX);
        pgasi_many_far_begin(&far, m, here);
        status = m->kind == PGASI_MANY_UPDATE ? pgasi_many_update(&far, ptrs + done, here)
                                              : copy_all(&far, ptrs + done, here);
        pgas_status_t rest = pgasi_many_far_end(&far);
        status = status == PGAS_OK ? rest : status;
        m->to = m->to ? m->to + here * m->elem_bytes : NULL;
        m->from = m->from ? m->from + here * m->elem_bytes : NULL;
    }
    return status;
}

pgas_status_t pgas_get_many(void *dst, const pgas_gptr_t *ptrs, size_t elem_bytes, size_t n,
                            pgas_sync_t *sync)
{
    pgasi_many_t m = { .kind = PGASI_MANY_GET, .elem_bytes = elem_bytes, .to = dst, .sync = sync };
    return sync && (dst || n == 0) ? run(&m, ptrs, n) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_put_many(const pgas_gptr_t *ptrs, const void *src, size_t elem_bytes, size_t n,
                            pgas_sync_t *sync)
{
    pgasi_many_t m = {
        .kind = PGASI_MANY_PUT, .elem_bytes = elem_bytes, .from = src, .sync = sync
    };
    return src || n == 0 ? run(&m, ptrs, n) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_update_many(const pgas_gptr_t *ptrs, pgas_op_t op, pgas_type_t type,
                               const void *values, size_t n)
{
    pgasi_many_t m = { .kind = PGASI_MANY_UPDATE,
                       .op = op,
                       .type = type,
                       .elem_bytes = pgasi_type_bytes(type),
                       .from = values };
    return pgasi_many_apply_of(op, type) ? run(&m, ptrs, n) : PGAS_ERR_UNSUPPORTED;
}
