/* Memory of other ranks.
 *   what:   A thread of any rank can allocate a block on any rank. No other allocation overlaps it
 *           until it is freed, by any rank or by a handler. Errors at the other rank are reported
 *           to the caller. The same holds for the allocators of NUMA zones, which this test also
 *           uses on machines with one zone (t/spmd/zones.c checks the zones of pages).
 *   np:     1 2 3 4
 *   nodes:  0 1 2
 *   tls:    posix tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_SERVICE_THREADS=0
 *   log:    does not fit
 *   log:    exceeds the allocator's limit
 *   log:    no live block
 *   source: pgas/mem.h
 */
#include "base/rng.h"
#include "mem/block.h"
#include "mem/regmem.h"
#include "mem/thread.h"
#include "t/spmd/job.h"

#define N_LIVE  20
#define N_STEPS 300

static pgas_handler_t freer, asker;
static pgas_status_t in_handler[3];

/* Without super-chunks in which nothing is. */
static size_t local_bytes(void)
{
    pgas_heap_info_t info = { .size = sizeof info };
    pgasi_blocks_trim();
    return pgas_heap_info(&info) == PGAS_OK ? info.local_bytes : 1;
}

static void on_free(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_gptr_t ptr;
    (void)bytes;
    (void)source;
    (void)context;
    memcpy(&ptr, args, sizeof ptr);
    in_handler[0] = pgas_free_on(ptr);
}

/* A handler gets memory of its own rank. For memory of another rank it would have to wait. */
static void on_ask(const void *args, size_t bytes, pgas_thread_t source, void *context)
{
    pgas_gptr_t ptr = PGAS_NULL;
    (void)args;
    (void)bytes;
    (void)source;
    (void)context;
    in_handler[1] = pgas_alloc_on(me, PGAS_ZONE_OWN, 100, &ptr);
    if (in_handler[1] == PGAS_OK)
        in_handler[1] = pgas_free_on(ptr);
    in_handler[2] =
        n_ranks == 1 ? PGAS_ERR_CONTEXT : pgas_alloc_on(job_right(), PGAS_ZONE_NONE, 100, &ptr);
}

typedef struct {
    pgas_gptr_t ptr;
    size_t bytes;
    unsigned char value;
} block_t;

static int n_different(const block_t *b)
{
    unsigned char *copy = job_alloc(b->bytes);
    int n = pgas_get(copy, b->ptr, b->bytes) != PGAS_OK;
    for (size_t i = 0; i < b->bytes; i++)
        n += copy[i] != b->value;
    free(copy);
    return n;
}

static int take(block_t *b, pgasi_rng_t *rng)
{
    int rank = (int)pgasi_rng_below(rng, (uint64_t)n_ranks),
        zone = (int)pgasi_rng_below(rng, 3) + PGAS_ZONE_NONE; /* none, own, zone 0 */
    b->bytes = 1 + (size_t)pgasi_rng_below(rng, 20000);
    b->value = (unsigned char)pgasi_rng_u64(rng);
    if (pgas_alloc_on(rank, zone, b->bytes, &b->ptr) != PGAS_OK || pgas_gptr_rank(b->ptr) != rank)
        return 1;
    unsigned char *data = job_alloc(b->bytes);
    memset(data, b->value, b->bytes);
    int bad = pgas_put(b->ptr, data, b->bytes) != PGAS_OK || pgas_flush(rank) != PGAS_OK;
    free(data);
    return bad + (pgas_gptr_offset(b->ptr) % 64 != 0);
}

static void random_blocks(uint64_t seed)
{
    block_t live[N_LIVE] = { { 0, 0, 0 } };
    pgasi_rng_t rng;
    int n_bad = 0;
    size_t before = local_bytes();
    pgasi_rng_seed(&rng, seed + (uint64_t)me);
    pgas_barrier(NULL);
    for (int i = 0; i < N_STEPS; i++) {
        block_t *b = &live[pgasi_rng_below(&rng, N_LIVE)];
        if (b->ptr) {
            n_bad += n_different(b) != 0 || pgas_free_on(b->ptr) != PGAS_OK;
            b->ptr = PGAS_NULL;
        } else {
            n_bad += take(b, &rng);
        }
    }
    for (int i = 0; i < N_LIVE; i++) {
        n_bad += live[i].ptr && n_different(&live[i]) != 0;
        if (i % 2)
            n_bad += pgas_free_on(live[i].ptr) != PGAS_OK;
        else if (live[i].ptr) /* by a handler of another rank */
            n_bad +=
                pgas_call(job_right(), freer, &live[i].ptr, sizeof live[i].ptr, NULL) != PGAS_OK;
    }
    n_bad += pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && in_handler[0] == PGAS_OK,
            "%s: blocks here and there do not overlap others, and any rank frees them",
            pgasi_block_zone_always ? "from zones" : "from heaps");
    spmd_ok(local_bytes() == before, "and all of it comes back");
    block_t one;
    n_bad = take(&one, &rng);
    one.value++;
    spmd_ok(n_bad == 0 && n_different(&one) > 0 && pgas_free_on(one.ptr) == PGAS_OK,
            "a changed block is noticed");
}

static void refusals(void)
{
    pgas_gptr_t ptr = 77, mine = PGAS_NULL, symmetric = PGAS_NULL;
    int right = job_right(), n_bad = 0;
    int ranks[2] = { me, right };
    for (int i = 0; i < 2; i++) {
        n_bad += pgas_alloc_on(ranks[i], PGAS_ZONE_NONE, 8, NULL) != PGAS_ERR_INVALID;
        n_bad += pgas_alloc_on(ranks[i], PGAS_ZONE_NONE - 1, 8, &ptr) != PGAS_ERR_INVALID;
        n_bad += pgas_alloc_on(ranks[i], PGAS_ZONE(pgas_n_zones()), 8, &ptr) != PGAS_ERR_NOT_FOUND;
        n_bad += pgas_alloc_on(ranks[i], PGAS_ZONE(1 << 20), 8, &ptr) != PGAS_ERR_NOT_FOUND;
        for (int zone = PGAS_ZONE_NONE; zone <= PGAS_ZONE(0); zone++)
            n_bad += pgas_alloc_on(ranks[i], zone, (size_t)1 << 40, &ptr) != PGAS_ERR_NO_MEMORY;
    }
    n_bad += pgas_alloc_on(n_ranks, PGAS_ZONE_NONE, 8, &ptr) != PGAS_ERR_RANGE;
    n_bad += pgas_alloc_on(-1, PGAS_ZONE_NONE, 8, &ptr) != PGAS_ERR_RANGE || ptr != 77;
    n_bad += pgas_alloc_on(right, PGAS_ZONE_NONE, 0, &ptr) != PGAS_OK || ptr != PGAS_NULL;
    n_bad += pgas_free_on(PGAS_NULL) != PGAS_OK;
    n_bad += pgas_free_on(pgas_gptr_make(n_ranks, UINT64_C(1) << 30)) != PGAS_ERR_RANGE;
    n_bad += pgas_alloc_on(right, PGAS_ZONE_OWN, 8, &mine) != PGAS_OK;
    n_bad += pgas_free_on(mine) != PGAS_OK || pgas_free_on(mine) != PGAS_ERR_INVALID;
    n_bad += pgas_alloc(64, &symmetric) != PGAS_OK;
    n_bad += pgas_free_on(pgas_gptr_at(symmetric, right)) != PGAS_ERR_INVALID ||
             pgas_free(symmetric) != PGAS_OK;
    spmd_is_int(n_bad, 0, "errors there are reported here, and only success gives a pointer");
    n_bad = pgas_call(right, asker, NULL, 0, NULL) != PGAS_OK || pgas_quiesce() != PGAS_OK;
    spmd_ok(n_bad == 0 && in_handler[1] == PGAS_OK && in_handler[2] == PGAS_ERR_CONTEXT,
            "handlers get memory of their own rank, and may not wait for that of others");
}

/* What is no block of pgas_alloc_on: attached memory, the middle of a block, a super-chunk of a
 * zone and nothing at all. */
static void strangers(void)
{
    static _Alignas(64) char own[64];
    pgas_gptr_t block = PGAS_NULL, in_zone = PGAS_NULL, attached = PGAS_NULL, all[4][JOB_RANKS_MAX];
    int n_bad = pgas_alloc_on(me, PGAS_ZONE_NONE, 200, &block) != PGAS_OK ||
                pgas_alloc_on(me, PGAS_ZONE_OWN, 200, &in_zone) != PGAS_OK ||
                pgas_mem_attach(own, sizeof own, &attached) != PGAS_OK;
    n_bad += pgas_gptr_offset(block) % 64 || pgas_gptr_offset(in_zone) % 64;
    job_gather(pgas_gptr_add(block, 64), all[0]);
    job_gather(pgas_gptr_add(in_zone, 64), all[1]);
    job_gather(attached, all[2]);
    job_gather(pgas_gptr_make(me, 64), all[3]);
    for (int i = 0; i < 4; i++)
        n_bad += pgas_free_on(all[i][me]) != PGAS_ERR_INVALID ||
                 pgas_free_on(all[i][job_right()]) != PGAS_ERR_INVALID;
    pgas_barrier(NULL);
    n_bad += pgas_free_on(block) != PGAS_OK || pgas_free_on(in_zone) != PGAS_OK ||
             pgas_mem_detach(attached) != PGAS_OK;
    spmd_is_int(n_bad, 0, "what is not a block is not freed");
    pgas_barrier(NULL);
}

static void slots(void)
{
    uint16_t slot[PGAS_THREADS_MAX];
    int zone = -2, n = pgasi_thread_slots(slot, PGAS_THREADS_MAX);
    spmd_ok(n == 1 && slot[0] == 0 && pgasi_thread_slots(slot, 0) == 0, "one thread is attached");
    spmd_ok(pgasi_thread_zone(0, &zone) && zone >= -1 && !pgasi_thread_zone(1, &zone) &&
                !pgasi_thread_zone(-1, &zone) && !pgasi_thread_zone(PGAS_THREADS_MAX, &zone),
            "and has a zone, others have none");
}

int main(int argc, char **argv)
{
    pgas_handler_register("t.free", on_free, NULL, NULL, &freer);
    pgas_handler_register("t.ask", on_ask, NULL, NULL, &asker);
    job_begin(&argc, &argv, 13);
    slots();
    random_blocks(spmd_seed(3));
    refusals();
    pgasi_block_zone_always = true;
    random_blocks(spmd_seed(3));
    refusals();
    strangers();
    return job_end();
}
