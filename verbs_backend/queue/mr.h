/** Registered memory of libibverbs, for the providers verbs and mlx5. The log reports failures with
 *  the device's name. */
#ifndef PGASI_VERBS_MR_H
#define PGASI_VERBS_MR_H

#include "verbs_backend/queue/device.h"
#include "verbs_backend/queue/library.h"

/** Converts PGAS_VERBS_ bits to those of libibverbs. */
unsigned pgasi_rdma_access(uint32_t access);

/** @return NULL: errno says why, see pgasi_rdma_register_status */
struct ibv_mr *pgasi_rdma_register(const pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                   uint32_t access);
pgas_status_t pgasi_rdma_register_status(int error);
void pgasi_rdma_describe(const struct ibv_mr *mr, void *inside, pgas_verbs_mem_t *mem_p);

/* mem_register, mem_alloc and mem_release of the ops table */
pgas_status_t pgasi_rdma_mem_register(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                      uint32_t access, pgas_verbs_mem_t *mem_p);
pgas_status_t pgasi_rdma_mem_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                   pgas_verbs_mem_t *mem_p);
void pgasi_rdma_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem);

#endif
