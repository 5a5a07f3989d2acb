/* The symmetric heap and attached memory.
 *   what:   Blocks of pgas_alloc have one offset on all ranks, those of pgas_alloc_on have any.
 *           No blocks overlap, and all keep their contents. The numbers of pgas_heap_info are
 *           consistent. Exhaustion is refused, on all ranks if all take part. Memory can be
 *           attached and detached.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_HEAP_SIZE=1M | PGAS_HEAP_SIZE=900001 PGAS_SERVICE_THREADS=0
 *   log:    PGAS_HEAP_SIZE=.*raise PGAS_HEAP_SIZE
 *   log:    cannot attach .* bytes: (PGAS_SEGMENTS=|fewer than .* GiB of global)
 *   source: pgas/mem.h; seeded model test
 */
#include <sys/mman.h>
#include "base/checks.h"
#include "base/param.h"
#include "base/rng.h"
#include "t/spmd/job.h"

#define N_BLOCKS 40
#define STEPS    700

typedef struct {
    pgas_gptr_t ptr;
    size_t bytes;
    unsigned char mark;
    bool local;
} block_t;

static bool overlap(const block_t *a, const block_t *b)
{
    uint64_t from_a = pgas_gptr_offset(a->ptr), from_b = pgas_gptr_offset(b->ptr);
    return a->ptr && b->ptr && a != b && from_a < from_b + b->bytes && from_b < from_a + a->bytes;
}

static bool is_marked(const block_t *b)
{
    const unsigned char *at = pgas_gptr_local(b->ptr, b->bytes);
    for (size_t i = 0; at && i < b->bytes; i += b->bytes / 7 + 1)
        if (at[i] != b->mark)
            return false;
    return at && at[b->bytes - 1] == b->mark;
}

/* True if pgas_heap_info agrees with the blocks that live. */
static bool numbers_add_up(const block_t *blocks)
{
    pgas_heap_info_t info = { .size = sizeof info };
    size_t symmetric = 0, local = 0;
    for (int i = 0; i < N_BLOCKS; i++) {
        size_t bytes = blocks[i].ptr ? blocks[i].bytes : 0;
        *(blocks[i].local ? &local : &symmetric) += bytes;
    }
    return pgas_heap_info(&info) == PGAS_OK && info.heap_bytes >= pgasi_param.heap_size &&
           info.heap_bytes < pgasi_param.heap_size + 65536 && info.symmetric_bytes == symmetric &&
           info.local_bytes == local && info.largest_free <= info.heap_bytes - symmetric - local &&
           info.page_bytes >= 4096;
}

static int check_new(const block_t *blocks, block_t *b)
{
    int n_bad = pgas_gptr_offset(b->ptr) % 64 != 0 || pgas_gptr_rank(b->ptr) != me;
    for (int i = 0; i < N_BLOCKS; i++)
        n_bad += overlap(b, &blocks[i]);
    if (pgas_gptr_local(b->ptr, b->bytes))
        memset(pgas_gptr_local(b->ptr, b->bytes), b->mark, b->bytes);
    else
        n_bad++;
    return n_bad;
}

/* One step that all ranks make alike, except for what pgas_alloc_on does with sizes of its
 * own. */
static int step(block_t *blocks, pgasi_rng_t *common, pgasi_rng_t *own, int number)
{
    block_t *b = &blocks[pgasi_rng_below(common, N_BLOCKS)];
    bool local = pgasi_rng_below(common, 3) == 0;
    size_t limit = pgasi_rng_below(common, 10) == 0 ? 300000 : 5000;
    size_t bytes = 1 + (size_t)pgasi_rng_below(common, limit),
           own_bytes = 1 + (size_t)pgasi_rng_below(own, limit / 4);
    bool live = b->ptr != PGAS_NULL, is_local = b->local;
    int n_bad = 0;
    if (live) {
        n_bad += !is_marked(b);
        n_bad += (is_local ? pgas_free_on(b->ptr) : pgas_free(b->ptr)) != PGAS_OK;
        b->ptr = PGAS_NULL;
        return n_bad;
    }
    *b = (block_t){ PGAS_NULL, local ? own_bytes : bytes, (unsigned char)(number + me), local };
    pgas_status_t status = local ? pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, b->bytes, &b->ptr)
                                 : pgas_alloc(b->bytes, &b->ptr);
    if (status == PGAS_OK)
        return check_new(blocks, b);
    /* Slots are chosen in common: a refusal on one rank must not put the others out of step. */
    b->ptr = PGAS_NULL;
    return status != PGAS_ERR_NO_MEMORY;
}

/* Whether block i lives is the same everywhere: ranks whose own allocation failed give the others a
 * hint. */
static void agree_on_live(block_t *blocks)
{
    int32_t live[N_BLOCKS], all[N_BLOCKS];
    for (int i = 0; i < N_BLOCKS; i++)
        live[i] = blocks[i].ptr != PGAS_NULL;
    pgas_allreduce(NULL, live, all, N_BLOCKS, PGAS_I32, PGAS_MIN);
    for (int i = 0; i < N_BLOCKS; i++) {
        if (!all[i] && blocks[i].ptr) {
            pgas_free_on(blocks[i].ptr);
            blocks[i].ptr = PGAS_NULL;
        }
    }
}

static void model(uint64_t seed)
{
    static block_t blocks[N_BLOCKS];
    pgasi_rng_t common, own;
    int n_bad = 0, n_offsets = 0;
    pgasi_rng_seed(&common, seed);
    pgasi_rng_seed(&own, seed + 1 + (uint64_t)me);
    for (int i = 0; i < STEPS; i++) {
        n_bad += step(blocks, &common, &own, i);
        agree_on_live(blocks);
        if (i % 50 == 0)
            n_bad += !numbers_add_up(blocks);
    }
    for (int i = 0; i < N_BLOCKS; i++) {
        uint64_t offset = pgas_gptr_offset(blocks[i].ptr), least = 0, most = 0;
        pgas_allreduce(NULL, &offset, &least, 1, PGAS_U64, PGAS_MIN);
        pgas_allreduce(NULL, &offset, &most, 1, PGAS_U64, PGAS_MAX);
        n_offsets += !blocks[i].local && least != most;
        n_bad += blocks[i].ptr && !is_marked(&blocks[i]);
    }
    spmd_is_int(n_bad, 0, "blocks are aligned, apart, keep their contents and are counted");
    spmd_is_int(n_offsets, 0, "symmetric blocks have the same offset on all ranks");
    block_t twin = blocks[0];
    for (int i = 0; i < N_BLOCKS && !twin.ptr; i++)
        twin = blocks[i];
    n_bad = 0;
    for (int i = 0; i < N_BLOCKS; i++)
        n_bad += overlap(&twin, &blocks[i]);
    spmd_ok(n_bad == 1, "a block that overlaps another is noticed");
    n_bad = 0;
    for (int i = 0; i < N_BLOCKS; i++) {
        if (blocks[i].ptr)
            n_bad += (blocks[i].local ? pgas_free_on(blocks[i].ptr) : pgas_free(blocks[i].ptr)) !=
                     PGAS_OK;
    }
    memset(blocks, 0, sizeof blocks);
    spmd_ok(n_bad == 0 && numbers_add_up(blocks), "all is free again");
}

static void the_whole_heap(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    pgas_gptr_t all = PGAS_NULL, more = PGAS_NULL;
    int n_bad = pgas_heap_info(&info) != PGAS_OK || pgas_heap_info(NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_alloc(info.heap_bytes, &all) != PGAS_OK;
    n_bad += pgas_alloc(1, &more) != PGAS_ERR_NO_MEMORY ||
             pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 1, &more) != PGAS_ERR_NO_MEMORY;
    n_bad += more != PGAS_NULL;
    unsigned char last = 9, back = 0;
    pgas_gptr_t end = pgas_gptr_add(pgas_gptr_at(all, job_right()), (int64_t)info.heap_bytes - 1);
    n_bad += pgas_put(end, &last, 1) != PGAS_OK || pgas_flush_all() != PGAS_OK;
    n_bad += pgas_get(&back, end, 1) != PGAS_OK || back != 9;
    n_bad += pgas_put(end, "ab", 2) != PGAS_ERR_RANGE ||
             pgas_put(pgas_gptr_add(end, 1), "a", 1) != PGAS_ERR_RANGE;
    n_bad += pgas_free(all) != PGAS_OK;
    n_bad += pgas_heap_info(&info) != PGAS_OK ||
             pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, info.largest_free, &all) != PGAS_OK;
    n_bad += pgas_free_on(all) != PGAS_OK;
    n_bad +=
        pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, info.heap_bytes + 1, &all) != PGAS_ERR_NO_MEMORY;
    spmd_is_int(n_bad, 0, "the heap can be had to its last byte, and no further");
}

/* One rank's own blocks leave no room there: all ranks get the same status, and no memory is lost.
 * */
static void exhausted_on_one_rank(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    pgas_gptr_t mine = PGAS_NULL, block = PGAS_NULL;
    int n_bad = pgas_heap_info(&info) != PGAS_OK;
    if (me == n_ranks - 1)
        n_bad += pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, info.heap_bytes / 2, &mine) != PGAS_OK;
    n_bad +=
        pgas_alloc(info.heap_bytes / 4 * 3, &block) != PGAS_ERR_NO_MEMORY || block != PGAS_NULL;
    n_bad += pgas_alloc(info.heap_bytes / 4, &block) != PGAS_OK || pgas_free(block) != PGAS_OK;
    n_bad += pgas_free_on(mine) != PGAS_OK;
    n_bad += pgas_alloc(info.heap_bytes / 4 * 3, &block) != PGAS_OK || pgas_free(block) != PGAS_OK;
    spmd_is_int(n_bad, 0, "exhausted on one rank: every rank gets the status, and can continue");
}

static void nothing_is_null(void)
{
    pgas_gptr_t ptr = 1;
    spmd_ok(pgas_alloc(0, &ptr) == PGAS_OK && ptr == PGAS_NULL && pgas_free(PGAS_NULL) == PGAS_OK &&
                pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, 0, &ptr) == PGAS_OK &&
                ptr == PGAS_NULL && pgas_free_on(PGAS_NULL) == PGAS_OK,
            "zero bytes are null, and null is freed");
}

/* Attached memory takes the address of detached memory. Peers must not reach the old memory by
 * cached keys. */
static void attached_memory_comes_and_goes(void)
{
    enum { BYTES = 4096 };
    unsigned char *first = aligned_alloc(4096, BYTES), *second = aligned_alloc(4096, BYTES),
                  value = 0;
    pgas_gptr_t ptr = PGAS_NULL, all[JOB_RANKS_MAX];
    int n_bad = 0;
    memset(first, 1, BYTES);
    memset(second, 2, BYTES);
    n_bad += pgas_mem_attach(first, BYTES, &ptr) != PGAS_OK;
    job_gather(ptr, all);
    n_bad += pgas_get(&value, pgas_gptr_add(all[job_right()], 100), 1) != PGAS_OK || value != 1;
    pgas_barrier(NULL);
    n_bad += pgas_mem_detach(ptr) != PGAS_OK || pgas_mem_attach(second, BYTES, &ptr) != PGAS_OK;
    job_gather(ptr, all);
    n_bad += pgas_get(&value, pgas_gptr_add(all[job_right()], 100), 1) != PGAS_OK || value != 2;
    value = 3;
    n_bad += pgas_put(pgas_gptr_add(all[job_right()], 100), &value, 1) != PGAS_OK ||
             pgas_flush_all() != PGAS_OK;
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && second[100] == 3 && first[100] == 1,
            "memory attached in place of other memory is the one reached");
    pgas_barrier(NULL);
    n_bad = pgas_mem_detach(pgas_gptr_add(ptr, 64)) != PGAS_ERR_INVALID ||
            pgas_mem_detach(ptr) != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += job_right() == me ? 0 : pgas_mem_detach(all[job_right()]) != PGAS_ERR_INVALID;
    spmd_is_int(n_bad, 0, "detach wants the start of a segment of one's own");
    free(first);
    free(second);
}

/* Words are where the pointer says: a pointer to misaligned memory is misaligned, and the first
 * aligned word is found. */
static void attached_memory_is_aligned_as_it_is(void)
{
    static _Alignas(64) unsigned char raw[256];
    int n_bad = 0;
    for (int shift = 0; shift <= 13; shift++) {
        pgas_gptr_t ptr = PGAS_NULL, all[JOB_RANKS_MAX];
        uint64_t old = 0, word = 0;
        int up = (8 - shift % 8) % 8;
        memset(raw, 0, sizeof raw);
        n_bad += pgas_mem_attach(raw + shift, 64, &ptr) != PGAS_OK ||
                 pgas_gptr_of(raw + shift + 3) != ptr + 3;
        job_gather(ptr, all);
        pgas_gptr_t there = all[job_right()], aligned = pgas_gptr_add(there, up);
        n_bad += there % 8 != (uint64_t)shift % 8;
        if (shift % 8) {
            n_bad += pgas_fetch_op_u64(there, PGAS_ADD, 1, &old) != PGAS_ERR_INVALID;
            n_bad += pgas_put_u64(there, 1) != PGAS_ERR_INVALID ||
                     pgas_get_u64(there, &old) != PGAS_ERR_INVALID;
        }
        n_bad += pgas_fetch_op_u64(aligned, PGAS_ADD, 5, &old) != PGAS_OK || old != 0;
        n_bad += pgas_put(pgas_gptr_add(there, 63), "z", 1) != PGAS_OK ||
                 pgas_put(pgas_gptr_add(there, 64), "z", 1) == PGAS_OK;
        n_bad += pgas_put(pgas_gptr_add(there, -1), "z", 1) != PGAS_ERR_RANGE ||
                 pgas_flush_all() != PGAS_OK;
        pgas_barrier(NULL);
        memcpy(&word, raw + shift + up, sizeof word);
        n_bad +=
            word != 5 || raw[shift + 63] != 'z' || raw[shift + 64] || (shift && raw[shift - 1]);
        n_bad += pgas_mem_detach(ptr) != PGAS_OK;
        pgas_barrier(NULL);
    }
    spmd_is_int(n_bad, 0,
                "a pointer to attached memory is aligned as the memory is; no byte before or "
                "behind it is reached");
}

static void attached_segments_have_a_limit(void)
{
    static unsigned char memory[64];
    pgas_gptr_t ptr[4097];
    int n = 0, n_bad = 0;
    pgas_status_t status = PGAS_OK;
    while (n < 4097 && (status = pgas_mem_attach(memory, sizeof memory, &ptr[n])) == PGAS_OK)
        n++;
    n_bad += status != PGAS_ERR_LIMIT || n != pgasi_param.segments;
    n_bad += pgas_mem_attach(NULL, 8, &ptr[0]) != PGAS_ERR_INVALID ||
             pgas_mem_attach(memory, 0, &ptr[0]) != PGAS_ERR_INVALID;
    n_bad += pgas_mem_attach(memory, 8, NULL) != PGAS_ERR_INVALID;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            n_bad += ptr[i] == ptr[k];
        n_bad += pgas_mem_detach(ptr[i]) != PGAS_OK;
    }
    spmd_is_int(n_bad, 0, "PGAS_SEGMENTS segments at a time");
}

/* Every global pointer of the rank goes to memory that is detached again. Peers on other nodes have
 * used it and keep its key: new memory in its place would make their puts land in the old. */
static void pointers_that_peers_remember_do_not_come_again(void)
{
    enum { BYTES = 4096 };
    job_stop(); /* a new start gives all of them back */
    job_start(NULL);
    size_t heap_slots = (pgasi_param.heap_size + (1u << 30) - 1) >> 30, bytes = (16383 - heap_slots)
                                                                                << 30;
    unsigned char *all = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                              -1, 0),
                  value = 1;
    unsigned char *other = aligned_alloc(4096, BYTES);
    pgas_gptr_t first = PGAS_NULL, second = PGAS_NULL, of[JOB_RANKS_MAX];
    bool space = all != MAP_FAILED && mprotect(all, BYTES, PROT_READ | PROT_WRITE) == 0;
    space = space && pgas_mem_attach(all, bytes, &first) == PGAS_OK;
    if (job_any(!space)) {
        spmd_skip(1, "no 16 TiB of addresses can be had or registered");
        return;
    }
    int left = (me + n_ranks - 1) % n_ranks, n_bad = 0;
    bool told = pgas_node_of(left) != pgas_node();
    job_gather(first, of);
    n_bad += pgas_put(of[job_right()], &value, 1) != PGAS_OK || pgas_flush_all() != PGAS_OK;
    pgas_barrier(NULL);
    n_bad += all[0] != 1 || pgas_mem_detach(first) != PGAS_OK;
    pgas_status_t status = pgas_mem_attach(other, BYTES, &second);
    n_bad += told ? status != PGAS_ERR_LIMIT || second != PGAS_NULL
                  : status != PGAS_OK || pgas_mem_detach(second) != PGAS_OK;
    spmd_is_int(n_bad, 0,
                "global pointers that other nodes remember are not given out again, others are");
    munmap(all, bytes);
    free(other);
}

int main(int argc, char **argv)
{
    job_begin(&argc, &argv, 14);
    uint64_t seed = spmd_seed(99);
    nothing_is_null();
    model(seed);
    the_whole_heap();
    exhausted_on_one_rank();
    attached_memory_comes_and_goes();
    attached_memory_is_aligned_as_it_is();
    attached_segments_have_a_limit();
    pointers_that_peers_remember_do_not_come_again();
    return job_end();
}
