/** The provider "mlx5", on NVIDIA's cards from ConnectX-4 on. Commands of the card (prm.h) make its
 *  queue pairs, and raw.h writes and reads them. Domains, memory, completion queues and shared
 *  receive queues are those of libibverbs; mlx5dv_init_obj gives access to their rings. So
 *  registration, completion channels and the kernel's clean-up work as usual. provider_mlx5.c makes
 *  these, mlx5_qp.c queue pairs. */
#ifndef PGASI_VERBS_MLX5_H
#define PGASI_VERBS_MLX5_H

#include <infiniband/mlx5dv.h>
#include "verbs_backend/queue/mr.h"
#include "verbs_backend/queue/port.h"
#include "verbs_backend/queue/raw.h"

/* blocks or strides: the limit of a four-bit field and of 16-bit indices */
#define PGASI_MLX5_RING_LOG_MAX 15

/* the functions of libmlx5; see library.h */
#define PGASI_MLX5_FUNCTIONS(X) \
    X(mlx5dv_devx_alloc_uar)    \
    X(mlx5dv_devx_free_uar)     \
    X(mlx5dv_devx_general_cmd)  \
    X(mlx5dv_devx_obj_create)   \
    X(mlx5dv_devx_obj_destroy)  \
    X(mlx5dv_devx_obj_modify)   \
    X(mlx5dv_devx_umem_dereg)   \
    X(mlx5dv_devx_umem_reg)     \
    X(mlx5dv_init_obj)          \
    X(mlx5dv_is_supported)      \
    X(mlx5dv_open_device)

#define PGASI_MLX5_POINTER(name) __typeof__(&(name)) name;
typedef struct {
    PGASI_MLX5_FUNCTIONS(PGASI_MLX5_POINTER)
} pgasi_mlx5_lib_t;

extern pgasi_mlx5_lib_t pgasi_mlx5_lib;

typedef struct {
    pgasi_raw_dev_t raw;
    struct ibv_context *context;
    uint32_t pdn;
    struct mlx5dv_devx_uar *uar;
    pgasi_rdma_address_t at; /* of the port */
} pgasi_mlx5_dev_t;

typedef struct {
    pgasi_raw_cq_t raw;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel; /* NULL: no events */
    void *page;                       /* the page of doorbells */
    uint32_t n_events;                /* events that were taken from the channel */
    /* empty polls; after some of them the thread checks for events of the device */
    uint32_t n_empty;
} pgasi_mlx5_cq_t;

typedef struct {
    pgasi_raw_srq_t raw;
    struct ibv_srq *srq;
} pgasi_mlx5_srq_t;

static inline pgasi_mlx5_dev_t *pgasi_mlx5_dev(pgas_verbs_dev_t *dev)
{
    return (pgasi_mlx5_dev_t *)(void *)dev;
}
static inline pgasi_mlx5_cq_t *pgasi_mlx5_cq(pgas_verbs_cq_t *cq)
{
    return (pgasi_mlx5_cq_t *)(void *)cq;
}
static inline pgasi_mlx5_srq_t *pgasi_mlx5_srq(pgas_verbs_srq_t *srq)
{
    return (pgasi_mlx5_srq_t *)(void *)srq;
}

/* Before a doorbell: earlier stores to memory become visible first. After it: the doorbell leaves
 * now, instead of waiting in a write-combining buffer. */
static inline void pgasi_mlx5_order_stores(void)
{
#if defined __x86_64__
    __asm__ volatile("sfence" ::: "memory");
#elif defined __aarch64__
    __asm__ volatile("dsb st" ::: "memory");
#else
    __sync_synchronize();
#endif
}

/* functions of the ops table */
pgas_status_t pgasi_mlx5_qp_open(pgas_verbs_dev_t *dev, const pgas_verbs_qp_opts_t *opts,
                                 pgas_verbs_qp_t **qp_p);
void pgasi_mlx5_qp_close(pgas_verbs_qp_t *qp);
void pgasi_mlx5_qp_address(const pgas_verbs_qp_t *qp, pgas_verbs_address_t *address_p);
pgas_status_t pgasi_mlx5_qp_connect(pgas_verbs_qp_t *qp, const pgas_verbs_address_t *peer);
pgas_status_t pgasi_mlx5_qp_buffer(pgas_verbs_qp_t *qp, pgas_verbs_mem_t *mem_p,
                                   uint32_t *slot_bytes_p);

#endif
