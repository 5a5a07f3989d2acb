/** Short forms for tests of queue pairs. */
#ifndef T_QUEUE_PAIRS_H
#define T_QUEUE_PAIRS_H

#include "pgas/verbs.h"

/** The address is zero, which is none, if that fails. */
static inline void qp_address(const pgas_verbs_qp_t *qp, pgas_verbs_address_t *address_p)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    pgas_verbs_qp_info(qp, &info);
    *address_p = info.address;
}

/** @return PGAS_ERR_UNSUPPORTED  the queue pair does not reveal its ring */
static inline pgas_status_t qp_slots(const pgas_verbs_qp_t *qp, pgas_verbs_mem_t *slots_p,
                                     uint32_t *slot_bytes_p)
{
    pgas_verbs_qp_info_t info = { .size = sizeof info };
    pgas_status_t status = pgas_verbs_qp_info(qp, &info);
    if (status != PGAS_OK || !info.slots.addr)
        return status != PGAS_OK ? status : PGAS_ERR_UNSUPPORTED;
    *slots_p = info.slots;
    *slot_bytes_p = info.slot_bytes;
    return PGAS_OK;
}

/** Posts one request without ringing. */
static inline pgas_status_t qp_write(pgas_verbs_qp_t *qp, const pgas_verbs_request_t *request,
                                     uint32_t *n_p)
{
    pgas_verbs_request_t copy = *request;
    copy.flags |= PGAS_VERBS_MORE;
    return pgas_verbs_qp_post(qp, &copy, 1, n_p);
}

#endif
