/* Transfers that do not fit 31 bits.
 *   what:   One put or get may have twice 2^31 - 1 bytes, on one rank and between nodes. A heap of
 *           several GiB is one contiguous block.
 *   np:     2
 *   nodes:  0 1
 *   tls:    sysv,cma
 *   env:    PGAS_HEAP_SIZE=6G PGAS_HUGEPAGES=no PGAS_MEMORY_LIMIT=1T
 *   source: pgas/rma.h; public headers
 * Both sides of the large transfers are a ladder: steps of 8 MiB. Most of them are the same memory,
 * mapped again and again. The first and last ones and those about 2^31 are memory of their own.
 * Shifted or missing data are detected, and little memory is touched. The same holds for the
 * heap. */
#include <sys/mman.h>
#include <unistd.h>
#include "t/spmd/job.h"

#define RUNG    ((size_t)8 << 20)
#define N_RUNGS 513
#define LADDER  (N_RUNGS * RUNG)
#define GIB     (UINT64_C(1) << 30)
#define TWICE   (2 * (size_t)INT32_MAX)
#define SKEW    3

/* Rungs with memory of their own; the others share one. */
static bool is_apart(size_t rung)
{
    return rung == 0 || rung == 255 || rung == 256 || rung >= 511;
}

static unsigned char *ladder_create(void)
{
    int fd = memfd_create("rung", MFD_CLOEXEC);
    unsigned char *base = mmap(NULL, LADDER, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool good = fd >= 0 && ftruncate(fd, (off_t)RUNG) == 0 && base != MAP_FAILED;
    for (size_t i = 0; i < N_RUNGS && good; i++) {
        if (!is_apart(i))
            good = mmap(base + i * RUNG, RUNG, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                        0) != MAP_FAILED;
    }
    close(fd);
    return good ? base : NULL;
}

/* The value at index i of a rung. */
static uint64_t word_of(size_t rung, size_t i, uint64_t salt)
{
    return (i + salt + (is_apart(rung) ? rung << 32 : 0)) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Writes, or compares, every rung; the shared one once. Zeros with salt 0. */
static bool ladder_fill(unsigned char *ladder, uint64_t salt)
{
    for (size_t rung = 0; rung < N_RUNGS; rung++) {
        uint64_t *words = (uint64_t *)(void *)(ladder + rung * RUNG);
        for (size_t i = 0; i < RUNG / 8 && (rung < 2 || is_apart(rung)); i++)
            words[i] = salt ? word_of(rung, i, salt) : 0;
    }
    return true;
}

/* True if [SKEW, SKEW + bytes) is the pattern and the bytes around it are zero, as far as these are
 * apart. */
static bool ladder_holds(const unsigned char *ladder, size_t bytes, uint64_t salt)
{
    for (size_t rung = 0; rung < N_RUNGS; rung++) {
        const unsigned char *at = ladder + rung * RUNG;
        if (rung >= 2 && !is_apart(rung))
            continue;
        for (size_t i = 0; i < RUNG / 8; i++) {
            uint64_t want = word_of(rung, i, salt), is;
            size_t begin = rung * RUNG + i * 8;
            memcpy(&is, at + i * 8, 8);
            if (is == want && begin >= SKEW && begin + 8 <= SKEW + bytes)
                continue;
            for (size_t b = 0; b < 8; b++) {
                bool inside = begin + b >= SKEW && begin + b < SKEW + bytes;
                if ((unsigned char)(is >> 8 * b) != (inside ? (unsigned char)(want >> 8 * b) : 0))
                    return false;
            }
        }
    }
    return true;
}

static unsigned char *here, *there; /* ordinary and attached memory */
/* the attached ladder of the rank that rank 0 talks to, SKEW bytes on */
static pgas_gptr_t target;
static int target_rank;

static void one_put(size_t bytes, const char *text)
{
    pgas_status_t status = PGAS_OK;
    ladder_fill(there, 0);
    pgas_barrier(NULL);
    if (me == 0) {
        ladder_fill(here, 1);
        status = pgas_put(target, here + SKEW, bytes);
        if (status == PGAS_OK)
            status = pgas_flush(target_rank);
    }
    pgas_barrier(NULL);
    spmd_ok(status == PGAS_OK && (me != target_rank || ladder_holds(there, bytes, 1)),
            "a put of %s bytes", text);
}

static void one_get(size_t bytes, const char *text)
{
    pgas_status_t status = PGAS_OK;
    ladder_fill(there, 2);
    pgas_barrier(NULL);
    if (me == 0) {
        pgas_sync_t done = PGAS_SYNC_INIT;
        ladder_fill(here, 0);
        status = pgas_get_nb(here + SKEW, target, bytes, &done);
        if (status == PGAS_OK)
            status = pgas_sync_wait(&done, -1);
    }
    spmd_ok(status == PGAS_OK && (me != 0 || ladder_holds(here, bytes, 2)), "a get of %s bytes",
            text);
}

static void large_transfers(void)
{
    pgas_gptr_t mine = PGAS_NULL, all[JOB_RANKS_MAX];
    here = ladder_create();
    there = ladder_create();
    spmd_ok(here && there && pgas_mem_attach(there, LADDER, &mine) == PGAS_OK,
            "4 GiB of attached memory");
    job_gather(mine, all);
    target_rank = pgas_n_nodes() > 1 ? 1 : 0;
    target = pgas_gptr_add(all[target_rank], SKEW);
    one_put(TWICE, "2 (2^31 - 1)");
    one_get(TWICE, "2 (2^31 - 1)");
    here[RUNG * 255 + 77] ^= 1;
    spmd_ok(me != 0 || !ladder_holds(here, TWICE, 2), "one wrong bit is noticed");
    pgas_barrier(NULL);
    spmd_ok(pgas_mem_detach(mine) == PGAS_OK, "detach");
    munmap(here, LADDER);
    munmap(there, LADDER);
}

static void far_places_of_the_heap(pgas_gptr_t block)
{
    uint64_t rows[3] = { 11, 22, 33 }, back[3] = { 0, 0, 0 };
    int64_t stride = (INT64_C(1) << 31) + 8;
    pgas_gptr_t far = pgas_gptr_at(block, 1 - me);
    int n_bad =
        pgas_put_strided(far, stride, rows, 8, 8, 3) != PGAS_OK || pgas_flush_all() != PGAS_OK;
    n_bad += pgas_get_strided(back, 8, far, stride, 8, 3) != PGAS_OK ||
             memcmp(rows, back, sizeof rows) != 0;
    pgas_barrier(NULL);
    for (int i = 0; i < 3; i++)
        n_bad += *(uint64_t *)pgas_gptr_local(pgas_gptr_add(block, i * stride), 8) != rows[i];
    pgas_barrier(NULL);
    pgas_gptr_t ptrs[2] = { far, pgas_gptr_add(far, INT64_C(5) << 30) };
    uint64_t two[2] = { 7, 8 }, two_back[2] = { 0, 0 };
    pgas_sync_t done = PGAS_SYNC_INIT;
    n_bad +=
        pgas_put_many(ptrs, two, 8, 2, &done) != PGAS_OK || pgas_sync_wait(&done, -1) != PGAS_OK;
    n_bad += pgas_get_many(two_back, ptrs, 8, 2, &done) != PGAS_OK ||
             pgas_sync_wait(&done, -1) != PGAS_OK || memcmp(two, two_back, sizeof two) != 0;
    spmd_is_int(n_bad, 0, "strides and elements beyond 2^31 bytes");
    pgas_barrier(NULL);
}

/* Spans across the borders between GiB. */
static void across_borders(pgas_gptr_t block)
{
    enum { BYTES = 70000 };
    unsigned char *data = job_alloc(BYTES), *back = job_alloc(BYTES);
    pgas_gptr_t far = pgas_gptr_at(block, 1 - me);
    uint64_t first = GIB - pgas_gptr_offset(block) % GIB;
    int n_bad = 0;
    for (int i = 0; i < 5; i++) {
        int64_t offset = (int64_t)(first + (uint64_t)i * GIB) - BYTES / 2;
        for (int k = 0; k < BYTES; k++)
            data[k] = (unsigned char)(k * 7 + i + me);
        memset(back, 0, BYTES);
        n_bad += pgas_put(pgas_gptr_add(far, offset), data, BYTES) != PGAS_OK ||
                 pgas_flush_all() != PGAS_OK;
        n_bad += pgas_get(back, pgas_gptr_add(far, offset), BYTES) != PGAS_OK ||
                 memcmp(data, back, BYTES) != 0;
        n_bad += pgas_gptr_local(pgas_gptr_add(block, offset), BYTES) !=
                 (char *)pgas_gptr_local(block, 1) + offset;
    }
    spmd_is_int(n_bad, 0, "transfers across every GiB");
    free(data);
    free(back);
    pgas_barrier(NULL);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 9);
    pgas_gptr_t block = PGAS_NULL;
    spmd_ok(pgas_alloc(((size_t)5 << 30) + 4096, &block) == PGAS_OK, "a block of 5 GiB");
    far_places_of_the_heap(block);
    across_borders(block);
    spmd_ok(pgas_free(block) == PGAS_OK, "free");
    large_transfers();
    return job_end();
}
