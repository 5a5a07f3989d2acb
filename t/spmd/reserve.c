/* Heaps that nodes of one host share are reserved, not written.
 *   what:   Init takes no memory for an untouched heap, whichever transport carries the data. A
 *           peer's heap is loaded and stored directly nevertheless, however little room /dev/shm
 *           has.
 *   np:     2
 *   nodes:  1
 *   tls:    posix sysv,cma
 *   env:    PGAS_HEAP_SIZE=256M PGAS_TRANSPORT=ucx
 *   turn:   alone
 *   source: pgas/init.h; statvfs of /dev/shm, /proc/self/status
 * t/spmd/limits.t runs this with larger heaps where /dev/shm is small. */
#include <inttypes.h>
#include <sys/statvfs.h>
#include "base/param.h"
#include "mem/ctx.h"
#include "mem/thread.h"
#include "t/spmd/job.h"

/* Bytes that all processes have in /dev/shm. */
static uint64_t used_bytes(void)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) != 0)
        return 0;
    return (uint64_t)(fs.f_blocks - fs.f_bfree) * fs.f_frsize;
}

/* Bytes of shared memory that this process has touched. */
static uint64_t touched_bytes(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        (void)sscanf(line, "RssShmem: %" SCNu64, &kib);
    if (file)
        fclose(file);
    return kib << 10;
}

/* Other tests use /dev/shm too, a little of it. */
static void nothing_is_written(uint64_t used_before, uint64_t touched_before)
{
    uint64_t used = used_bytes(), touched = touched_bytes();
    bool lean = used < used_before + pgasi_param.heap_size / 2;
    spmd_ok(lean, "init writes no heap into /dev/shm");
    if (!lean)
        printf("# %" PRIu64 " bytes before, %" PRIu64 " after\n", used_before, used);
    spmd_ok(touched < touched_before + pgasi_param.heap_size / 2, "init touches no heap");
}

static void heaps_are_mapped(void)
{
    int peer = 1 - pgas_rank();
    uint64_t value = 40 + (uint64_t)pgas_rank(), seen = 0;
    pgas_gptr_t word = PGAS_NULL;
    spmd_ok(pgas_alloc(sizeof value, &word) == PGAS_OK, "alloc");
    pgas_gptr_t there = pgas_gptr_make(peer, pgas_gptr_offset(word));
    spmd_ok(pgas_put(there, &value, sizeof value) == PGAS_OK && pgas_flush_all() == PGAS_OK &&
                pgas_barrier(NULL) == PGAS_OK && pgas_get(&seen, word, sizeof seen) == PGAS_OK &&
                seen == 40 + (uint64_t)peer,
            "put and get between the nodes");
    spmd_ok(pgasi_ctxs[0]->has_direct || pgasi_self.ctx->has_direct,
            "the peer's heap is loaded and stored directly");
}

int main(int argc, char **argv)
{
    spmd_begin(&argc, &argv, MPI_THREAD_SERIALIZED);
    spmd_plan(7);
    uint64_t used = used_bytes(), touched = touched_bytes();
    spmd_ok(pgas_init(NULL, NULL) == PGAS_OK, "init");
    nothing_is_written(used, touched);
    heaps_are_mapped();
    spmd_ok(pgas_finalize() == PGAS_OK, "finalize");
    return spmd_end();
}
