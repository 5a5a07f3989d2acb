/* Converts ucs_status_t to pgas_status_t. UCX has many codes for a dead peer; callers need one. */
#include "ucx_backend/ucx.h"

pgas_status_t pgasi_ucx_status(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return PGAS_OK;
    case UCS_INPROGRESS:
        return PGAS_INPROGRESS;
    case UCS_ERR_NO_RESOURCE:
        return PGAS_ERR_AGAIN;
    case UCS_ERR_BUSY:
        return PGAS_ERR_BUSY;
    case UCS_ERR_NO_MEMORY:
        return PGAS_ERR_NO_MEMORY;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return PGAS_ERR_INVALID;
    case UCS_ERR_BUFFER_TOO_SMALL:
    case UCS_ERR_MESSAGE_TRUNCATED:
    case UCS_ERR_EXCEEDS_LIMIT:
        return PGAS_ERR_LIMIT;
    case UCS_ERR_OUT_OF_RANGE:
        return PGAS_ERR_RANGE;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
        return PGAS_ERR_UNSUPPORTED;
    case UCS_ERR_TIMED_OUT:
        return PGAS_ERR_TIMEOUT;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CANCELED: /* UCX cancels the requests of a failed endpoint */
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
        return PGAS_ERR_PEER;
    default:
        return PGAS_ERR_TRANSPORT;
    }
}

/* With PGAS_ERR_AGAIN the caller would retry for ever, because progress does not help. */
static pgas_status_t setup_status(ucs_status_t status)
{
    return status == UCS_ERR_NO_RESOURCE ? PGAS_ERR_NO_MEMORY : pgasi_ucx_status(status);
}

pgas_status_t pgasi_ucx_failed(ucs_status_t status, const char *doing, const char *cure)
{
    PGASI_ERROR("ucx", "%s failed: %s%s%s", doing, pgasi_ucx_lib.ucs_status_string(status),
                !cure ? "" : "; ", !cure ? "" : cure);
    return setup_status(status);
}

pgas_status_t pgasi_ucx_failed_again(int *logged, ucs_status_t status, const char *doing,
                                     const char *cure)
{
    return __atomic_exchange_n(logged, 1, __ATOMIC_RELAXED) == 0
               ? pgasi_ucx_failed(status, doing, cure)
               : setup_status(status);
}
