/* Put with signal, and waiting for a word to change. */
#include "base/clock.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "mem/rma.h"
#include "pgas/atomic.h"

pgas_status_t pgas_put_signal(pgas_gptr_t dst, const void *src, size_t bytes, pgas_gptr_t signal,
                              uint64_t value, pgas_op_t op)
{
    pgasi_where_t where;
    void *address;
    if (op != PGAS_SWAP && op != PGAS_ADD)
        return PGAS_ERR_UNSUPPORTED;
    if (pgas_gptr_offset(signal) % sizeof value || pgas_gptr_rank(signal) != pgas_gptr_rank(dst))
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_resolve(signal, sizeof value, &where, &address);
    if (status == PGAS_OK)
        status = pgas_put(dst, src, bytes);
    if (status != PGAS_OK)
        return status;
    if (where == PGASI_WHERE_HERE) {
        if (op == PGAS_SWAP)
            __atomic_store_n((uint64_t *)address, value, __ATOMIC_RELEASE);
        else
            __atomic_fetch_add((uint64_t *)address, value, __ATOMIC_SEQ_CST);
        pgasi_wake(pgasi_boot.local_of[pgas_gptr_rank(signal)]);
        return PGAS_OK;
    }
    status = pgas_fence();
    if (status != PGAS_OK)
        return status;
    return op == PGAS_SWAP ? pgas_put_scalar_far(signal, value, sizeof value)
                           : pgas_fetch_op_far(signal, value, NULL, PGAS_ADD, PGAS_U64);
}

static bool holds(uint64_t is, pgas_compare_t compare, uint64_t value)
{
    switch (compare) {
    case PGAS_EQ:
        return is == value;
    case PGAS_NE:
        return is != value;
    case PGAS_LT:
        return is < value;
    case PGAS_LE:
        return is <= value;
    case PGAS_GT:
        return is > value;
    case PGAS_GE:
        return is >= value;
    }
    return false;
}

/* Compares once. @return PGAS_INPROGRESS: the comparison is false */
static inline pgas_status_t look(const uint64_t *signal, pgas_compare_t compare, uint64_t value,
                                 uint64_t *value_p)
{
    uint64_t is = __atomic_load_n(signal, __ATOMIC_ACQUIRE);
    if (!holds(is, compare, value))
        return PGAS_INPROGRESS;
    if (value_p)
        *value_p = is;
    return PGAS_OK;
}

pgas_status_t pgas_signal_wait(const uint64_t *signal, pgas_compare_t compare, uint64_t value,
                               int64_t timeout_us, uint64_t *value_p)
{
    pgas_status_t status = timeout_us ? pgasi_thread_check_wait() : pgasi_thread_check();
    if (status != PGAS_OK)
        return status;
    if (!signal || compare > PGAS_GE)
        return PGAS_ERR_INVALID;
    status = look(signal, compare, value, value_p);
    if (status == PGAS_OK || !timeout_us)
        return status == PGAS_OK ? PGAS_OK : PGAS_ERR_TIMEOUT;
    uint64_t limit = pgasi_limit_ns(timeout_us);
    pgasi_wait_t w = PGASI_WAIT_INIT;
    do {
        pgasi_wait_step(&w);
        status = look(signal, compare, value, value_p);
    } while (status == PGAS_INPROGRESS && !pgasi_wait_is_over(limit));
    pgasi_wait_end(&w);
    return status == PGAS_INPROGRESS ? PGAS_ERR_TIMEOUT : status;
}
