/* Memory of other ranks that this rank reaches without their help. See bulk.h. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/checks.h"
#include "base/param.h"
#include "boot/boot.h"
#include "bulk/bulk.h"
#include "mem/ctx.h"
#include "mem/rma.h"
#include "mem/segment.h"

static bool vm_refused; /* the kernel does not let ranks read each other's memory; atomic */

bool pgasi_reach_may_copy(int rank)
{
    return pgasi_boot.local_of[rank] >= 0 && pgasi_param.vm_read &&
           !__atomic_load_n(&vm_refused, __ATOMIC_RELAXED);
}

bool pgasi_reach_copy(int rank, void *here, uint64_t there, uint64_t bytes, bool write)
{
    int local = pgasi_boot.local_of[rank];
    if (!pgasi_reach_may_copy(rank))
        return false;
    for (uint64_t done = 0; done < bytes;) {
        struct iovec mine = { (char *)here + done, bytes - done };
        struct iovec peers = { (char *)(uintptr_t)there + done, bytes - done };
        ssize_t n = write ? process_vm_writev(pgasi_boot.node_pids[local], &mine, 1, &peers, 1, 0)
                          : process_vm_readv(pgasi_boot.node_pids[local], &mine, 1, &peers, 1, 0);
        if (n <= 0) {
            if (n < 0 && (errno == EPERM || errno == ENOSYS))
                __atomic_store_n(&vm_refused, true, __ATOMIC_RELAXED);
            return false;
        }
        done += (uint64_t)n;
    }
    return true;
}

void *pgasi_reach_map(int rank, pgas_gptr_t ptr, uint64_t bytes)
{
    pgasi_where_t where;
    void *there;
    bool mapped = ptr && pgas_gptr_rank(ptr) == rank &&
                  pgasi_resolve(ptr, bytes, &where, &there) == PGAS_OK && where == PGASI_WHERE_HERE;
    return mapped ? there : NULL;
}

bool pgasi_reach_learn(const pgasi_bulk_t *p, uint64_t key_at_8, pgas_gptr_t ptr, uint64_t bytes)
{
    pgasi_ctx_t *ctx = pgasi_ctxs[PGASI_CTX_SERVICE];
    pgasi_segment_wire_t wire;
    if (!key_at_8 || !ptr || !ctx->tp)
        return false;
    memset(&wire, 0, sizeof wire);
    memcpy(&wire, p->block + key_at_8 * 8,
           PGASI_MIN(p->head.head_bytes - key_at_8 * 8, sizeof wire));
    uint64_t inside = pgas_gptr_offset(ptr) - wire.offset;
    bool sane =
        wire.key_bytes <= sizeof wire.key && inside <= wire.bytes && bytes <= wire.bytes - inside;
    return sane && pgasi_key_learn(ctx, pgas_thread_rank(p->source), &wire) == PGAS_OK;
}

void pgasi_reach_start(void)
{
    vm_refused = false;
}
