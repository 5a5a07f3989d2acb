/** Registered memory of libibverbs, for the providers verbs and mlx5. Failures are logged with the
 *  device's name. */
#ifndef PGASI_VERBS_MR_H
#define PGASI_VERBS_MR_H

#include <infiniband/verbs.h>
#include "pgas/verbs.h"

/** PGAS_VERBS_ bits as those of libibverbs. */
unsigned pgasi_rdma_access(uint32_t access);

/** @return NULL, and errno, which pgasi_rdma_register_status makes a status of */
struct ibv_mr *pgasi_rdma_register(struct ibv_pd *pd, const char *name, void *addr, size_t bytes,
                                   uint32_t access);
pgas_status_t pgasi_rdma_register_status(int error);
void pgasi_rdma_describe(const struct ibv_mr *mr, void *inside, pgas_verbs_mem_t *mem_p);

/* what the table's mem_register, mem_alloc and mem_release do */
pgas_status_t pgasi_rdma_mem_register(struct ibv_pd *pd, const char *name, void *addr, size_t bytes,
                                      uint32_t access, pgas_verbs_mem_t *mem_p);
pgas_status_t pgasi_rdma_mem_alloc(struct ibv_pd *pd, const char *name, size_t bytes,
                                   uint32_t access, pgas_verbs_mem_t *mem_p);
void pgasi_rdma_mem_release(const char *name, pgas_verbs_mem_t *mem);

#endif
