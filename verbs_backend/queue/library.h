/** The functions of libibverbs that the providers verbs and mlx5 call. The library is opened when
 *  devices are listed first. */
#ifndef PGASI_VERBS_LIBRARY_H
#define PGASI_VERBS_LIBRARY_H

#include <infiniband/verbs.h>
#include <stdbool.h>

#define PGASI_VERBS_FUNCTIONS(X) \
    X(_ibv_query_gid_table)      \
    X(ibv_ack_async_event)       \
    X(ibv_ack_cq_events)         \
    X(ibv_alloc_pd)              \
    X(ibv_close_device)          \
    X(ibv_create_ah)             \
    X(ibv_create_comp_channel)   \
    X(ibv_create_cq)             \
    X(ibv_create_qp)             \
    X(ibv_create_srq)            \
    X(ibv_dealloc_pd)            \
    X(ibv_dereg_mr)              \
    X(ibv_destroy_ah)            \
    X(ibv_destroy_comp_channel)  \
    X(ibv_destroy_cq)            \
    X(ibv_destroy_qp)            \
    X(ibv_destroy_srq)           \
    X(ibv_free_device_list)      \
    X(ibv_get_async_event)       \
    X(ibv_get_cq_event)          \
    X(ibv_get_device_list)       \
    X(ibv_get_device_name)       \
    X(ibv_modify_qp)             \
    X(ibv_open_device)           \
    X(ibv_query_device)          \
    X(ibv_query_port)            \
    X(ibv_reg_mr_iova2)

#define PGASI_VERBS_POINTER(name) __typeof__(&(name)) name;
typedef struct {
    PGASI_VERBS_FUNCTIONS(PGASI_VERBS_POINTER)
} pgasi_verbs_lib_t;

extern pgasi_verbs_lib_t pgasi_verbs_lib;

/** Opens libibverbs at the first call. @return false: it does not exist here */
bool pgasi_verbs_lib_open(void);

#endif
