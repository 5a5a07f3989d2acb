/** The functions of UCX that the backend calls. libucp is opened together with the transport, so a
 *  job on one node neither loads nor needs it. */
#ifndef PGASI_UCX_LIBRARY_H
#define PGASI_UCX_LIBRARY_H

#include <ucp/api/ucp.h>
#include "pgas/status.h"

#define PGASI_UCX_FUNCTIONS(X)        \
    X(ucp_am_data_release)            \
    X(ucp_am_recv_data_nbx)           \
    X(ucp_am_send_nbx)                \
    X(ucp_atomic_op_nbx)              \
    X(ucp_cleanup)                    \
    X(ucp_config_modify)              \
    X(ucp_config_print)               \
    X(ucp_config_read)                \
    X(ucp_config_release)             \
    X(ucp_context_print_info)         \
    X(ucp_ep_close_nbx)               \
    X(ucp_ep_create)                  \
    X(ucp_ep_flush_nbx)               \
    X(ucp_ep_rkey_unpack)             \
    X(ucp_get_nbx)                    \
    X(ucp_get_version_string)         \
    X(ucp_init_version)               \
    X(ucp_mem_map)                    \
    X(ucp_mem_unmap)                  \
    X(ucp_put_nbx)                    \
    X(ucp_request_free)               \
    X(ucp_rkey_buffer_release)        \
    X(ucp_rkey_destroy)               \
    X(ucp_rkey_pack)                  \
    X(ucp_worker_arm)                 \
    X(ucp_worker_create)              \
    X(ucp_worker_destroy)             \
    X(ucp_worker_fence)               \
    X(ucp_worker_get_address)         \
    X(ucp_worker_get_efd)             \
    X(ucp_worker_progress)            \
    X(ucp_worker_query)               \
    X(ucp_worker_release_address)     \
    X(ucp_worker_set_am_recv_handler) \
    X(ucp_worker_signal)              \
    X(ucs_status_string)

#define PGASI_UCX_POINTER(name) __typeof__(&(name)) name;
typedef struct {
    PGASI_UCX_FUNCTIONS(PGASI_UCX_POINTER)
} pgasi_ucx_lib_t;

extern pgasi_ucx_lib_t pgasi_ucx_lib;

/** Opens libucp at the first call. @return PGAS_OK; PGAS_ERR_NOT_FOUND: the log says why */
pgas_status_t pgasi_ucx_lib_open(void);

#endif
