/* Many elements anywhere in one call: see many.h. */
#include "many/many.h"

#include "base/checks.h"
#include "boot/boot.h"
#include "mem/thread.h"

#define PLACES_MAX (UINT64_C(1) << 31) /* elements of one round: their places have 32 bits */
/* elements that are gathered before elements are again expected to be near */
#define SECTION 1024

static pgas_status_t run_round(pgasi_many_t *m, const pgas_gptr_t *ptrs, size_t n)
{
    pgasi_many_far_t far;
    pgas_status_t status = PGAS_OK;
    pgasi_many_far_begin(&far, m, n);
    for (size_t i = m->near(m, ptrs, 0, n), end; i < n && status == PGAS_OK;) {
        if (m->kind != PGASI_MANY_UPDATE && pgas_gptr_local(ptrs[i], m->elem_bytes)) {
            /* It is not aligned. The others, too, may be copied as bytes. */
            pgasi_many_allow_unaligned(m);
        } else {
            end = PGASI_MIN(i + SECTION, n);
            status = pgasi_many_far_run(&far, ptrs, i, end);
            i = end;
        }
        if (status == PGAS_OK)
            i = m->near(m, ptrs, i, n);
    }
    pgas_status_t rest = pgasi_many_far_end(&far);
    return status == PGAS_OK ? rest : status;
}

/* ---- public ---- */

static pgas_status_t run(pgasi_many_t *m, const pgas_gptr_t *ptrs, size_t n)
{
    pgas_status_t status = pgasi_thread_check();
    if (status == PGAS_OK && (m->elem_bytes == 0 || (n > 0 && !ptrs)))
        status = PGAS_ERR_INVALID;
    for (size_t done = 0, here; done < n && status == PGAS_OK; done += here) {
        here = PGASI_MIN(n - done, PLACES_MAX);
        status = run_round(m, ptrs + done, here);
        m->to = m->to ? m->to + here * m->elem_bytes : NULL;
        m->from = m->from ? m->from + here * m->step : NULL;
    }
    return status;
}

pgas_status_t pgas_get_many(void *dst, const pgas_gptr_t *ptrs, size_t elem_bytes, size_t n,
                            pgas_sync_t *sync)
{
    pgasi_many_t m;
    pgasi_many_init(&m, PGASI_MANY_GET, 0, PGAS_TYPE_NONE, elem_bytes, NULL);
    m.to = dst;
    m.sync = sync;
    return sync && (dst || n == 0) ? run(&m, ptrs, n) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_put_many(const pgas_gptr_t *ptrs, const void *src, size_t elem_bytes, size_t n,
                            pgas_sync_t *sync)
{
    pgasi_many_t m;
    pgasi_many_init(&m, PGASI_MANY_PUT, 0, PGAS_TYPE_NONE, elem_bytes, src);
    m.sync = sync;
    return src || n == 0 ? run(&m, ptrs, n) : PGAS_ERR_INVALID;
}

pgas_status_t pgas_update_many(const pgas_gptr_t *ptrs, pgas_op_t op, pgas_type_t type,
                               const void *values, size_t n)
{
    pgasi_many_t m;
    return pgasi_many_init(&m, PGASI_MANY_UPDATE, op, type, 0, values) ? run(&m, ptrs, n)
                                                                       : PGAS_ERR_UNSUPPORTED;
}
