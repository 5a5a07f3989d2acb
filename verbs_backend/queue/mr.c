/* Memory that libibverbs registers. Memory that was mapped here is unmapped with its
 * registration. */
#include "verbs_backend/queue/mr.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/log.h"

typedef struct {
    struct ibv_mr *mr;
    bool mapped; /* mapped here */
} region_t;

unsigned pgasi_rdma_access(uint32_t access)
{
    return (access & PGAS_VERBS_LOCAL_WRITE ? IBV_ACCESS_LOCAL_WRITE : 0) |
           (access & PGAS_VERBS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
           (access & PGAS_VERBS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (access & PGAS_VERBS_REMOTE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

struct ibv_mr *pgasi_rdma_register(const pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                   uint32_t access)
{
    struct ibv_mr *mr = pgasi_verbs_lib.ibv_reg_mr_iova2(dev->pd, addr, bytes, (uintptr_t)addr,
                                                         pgasi_rdma_access(access));
    if (!mr) {
        int error = errno;
        PGASI_WARN("verbs", "%s: cannot register %zu bytes: %s%s", dev->info.name, bytes,
                   strerror(error),
                   error == ENOMEM ? "; raise the limit of locked memory, ulimit -l" : "");
        errno = error;
    }
    return mr;
}

/* With ENOMEM there is memory in most cases, but it may not be locked. */
pgas_status_t pgasi_rdma_register_status(int error)
{
    if (error == ENOMEM)
        return PGAS_ERR_LIMIT;
    return error == EINVAL || error == EFAULT ? PGAS_ERR_INVALID : PGAS_ERR_IO;
}

void pgasi_rdma_describe(const struct ibv_mr *mr, void *inside, pgas_verbs_mem_t *mem_p)
{
    *mem_p = (pgas_verbs_mem_t){
        .addr = mr->addr, .bytes = mr->length, .lkey = mr->lkey, .rkey = mr->rkey, .inside = inside
    };
}

static pgas_status_t make_region(const pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                 uint32_t access, bool mapped, pgas_verbs_mem_t *mem_p)
{
    region_t *region = malloc(sizeof *region);
    if (!region)
        return PGAS_ERR_NO_MEMORY;
    *region = (region_t){ .mr = pgasi_rdma_register(dev, addr, bytes, access), .mapped = mapped };
    if (!region->mr) {
        pgas_status_t status = pgasi_rdma_register_status(errno);
        free(region);
        return status;
    }
    pgasi_rdma_describe(region->mr, region, mem_p);
    return PGAS_OK;
}

pgas_status_t pgasi_rdma_mem_register(pgas_verbs_dev_t *dev, void *addr, size_t bytes,
                                      uint32_t access, pgas_verbs_mem_t *mem_p)
{
    return make_region(dev, addr, bytes, access, false, mem_p);
}

pgas_status_t pgasi_rdma_mem_alloc(pgas_verbs_dev_t *dev, size_t bytes, uint32_t access,
                                   pgas_verbs_mem_t *mem_p)
{
    void *addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (addr == MAP_FAILED)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = make_region(dev, addr, bytes, access, true, mem_p);
    if (status != PGAS_OK)
        munmap(addr, bytes);
    return status;
}

void pgasi_rdma_mem_release(pgas_verbs_dev_t *dev, pgas_verbs_mem_t *mem)
{
    region_t *region = mem->inside;
    int error = pgasi_verbs_lib.ibv_dereg_mr(region->mr);
    if (error != 0)
        PGASI_WARN("verbs", "%s: cannot release %zu bytes of memory: %s", dev->info.name,
                   mem->bytes, strerror(error));
    else if (region->mapped)
        munmap(mem->addr, mem->bytes);
    free(region);
}
