/* Concurrent atomics.
 *   what:   Concurrent atomics of all ranks on one word lose no update, also together with the
 *           owner's own C11 atomics: on the heap and on attached memory, with 32 and 64 bits,
 *           fetching or not.
 *   np:     1 2 3 4 5 7
 *   nodes:  0 1 2 3
 *   tls:    posix sysv,cma tcp,self
 *   env:    PGAS_SERVICE_THREADS=1 | PGAS_FAULT=delay=3,reorder=3,again=2 | PGAS_SERVICE_THREADS=0
 *   source: pgas/atomic.h */
#include <stdatomic.h>
#include "t/spmd/job.h"

#define N 120

static uint64_t *user_words;

typedef struct {
    const char *name;
    pgas_gptr_t at[JOB_RANKS_MAX]; /* 256 bytes on each rank */
    unsigned char *own;
} place_t;

static void *word_of(const place_t *p, size_t offset)
{
    return p->own + offset;
}

static void clear(const place_t *p)
{
    pgas_barrier(NULL);
    memset(p->own, 0, 256);
    pgas_barrier(NULL);
}

/* Every number is drawn once, also by the owner with C11 atomics. */
static void counters(const place_t *p)
{
    uint64_t sum = 0, old64 = 0, total = 0;
    uint32_t old32 = 0;
    int n_bad = 0;
    clear(p);
    for (int i = 0; i < N; i++) {
        if (me == 0 && i % 2)
            old64 = atomic_fetch_add((_Atomic uint64_t *)word_of(p, 0), 1);
        else
            n_bad += pgas_fetch_add_u64(p->at[0], 1, &old64) != PGAS_OK;
        sum += old64;
        n_bad += pgas_fetch_add_u32(pgas_gptr_add(p->at[i % n_ranks], 12), 3, &old32) != PGAS_OK ||
                 old32 % 3 != 0;
        n_bad += pgas_atomic_add_u64(pgas_gptr_add(p->at[i % n_ranks], 16), 5) != PGAS_OK;
        n_bad += pgas_atomic_add_u32(pgas_gptr_add(p->at[i % n_ranks], 24), 7) != PGAS_OK;
    }
    n_bad += pgas_flush_all() != PGAS_OK;
    pgas_allreduce(NULL, &sum, &total, 1, PGAS_U64, PGAS_ADD);
    uint64_t all = (uint64_t)n_ranks * N, turns = 0;
    for (int i = 0; i < N; i++)
        turns += i % n_ranks == me;
    turns *= (uint64_t)n_ranks;
    spmd_ok(n_bad == 0 && total == all * (all - 1) / 2 &&
                (me != 0 || *(uint64_t *)word_of(p, 0) == all),
            "%s: a shared counter gives every number once", p->name);
    spmd_ok(*(uint32_t *)word_of(p, 12) == 3 * turns && *(uint64_t *)word_of(p, 16) == 5 * turns &&
                *(uint32_t *)word_of(p, 24) == 7 * turns && *(uint32_t *)word_of(p, 8) == 0 &&
                *(uint32_t *)word_of(p, 28) == 0,
            "%s: additions of all ranks arrive, neighbours stay", p->name);
}

/* Each rank sets, clears and turns over a bit of its own in words of all ranks. */
static void bits(const place_t *p)
{
    int n_bad = 0;
    clear(p);
    uint64_t mine = UINT64_C(1) << me << 20, old = 0;
    for (int round = 0; round < 6; round++) {
        for (int r = 0; r < n_ranks; r++) {
            pgas_gptr_t w = pgas_gptr_add(p->at[r], 32);
            n_bad += pgas_fetch_or_u64(w, mine, &old) != PGAS_OK || (old & mine);
            n_bad += pgas_fetch_xor_u64(w, mine, &old) != PGAS_OK || !(old & mine);
            n_bad += pgas_atomic_or_u64(w, mine) != PGAS_OK || pgas_flush(r) != PGAS_OK;
            n_bad += pgas_fetch_and_u64(w, ~mine, &old) != PGAS_OK || !(old & mine);
            n_bad += pgas_atomic_xor_u64(w, mine) != PGAS_OK || pgas_fence() != PGAS_OK;
            n_bad += pgas_atomic_and_u64(w, ~mine) != PGAS_OK || pgas_fence() != PGAS_OK;
            n_bad += pgas_atomic_or_u64(pgas_gptr_add(w, 8), mine) != PGAS_OK;
            n_bad += pgas_atomic_or_u32(pgas_gptr_add(w, 16), (uint32_t)1 << me) != PGAS_OK;
        }
    }
    n_bad += pgas_flush_all() != PGAS_OK;
    pgas_barrier(NULL);
    uint64_t all = ((UINT64_C(1) << n_ranks) - 1) << 20;
    spmd_ok(n_bad == 0 && *(uint64_t *)word_of(p, 32) == 0 && *(uint64_t *)word_of(p, 40) == all &&
                *(uint32_t *)word_of(p, 48) == all >> 20,
            "%s: and, or, xor of one's own bit are seen by oneself alone", p->name);
}

/* A lock by compare and swap around a plain update, given back by swap. */
static void a_lock(const place_t *p)
{
    enum { ROUNDS = 5 };
    int n_bad = 0;
    clear(p);
    pgas_gptr_t lock = pgas_gptr_add(p->at[0], 64), sum = pgas_gptr_add(p->at[0], 72);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t old = 1, value = 0;
        while (old != 0 && n_bad == 0) {
            n_bad += pgas_compare_swap_u64(lock, 0, (uint64_t)me + 1, &old) != PGAS_OK;
            if (old != 0)
                pgas_progress();
        }
        n_bad += pgas_get_u64(sum, &value) != PGAS_OK || pgas_put_u64(sum, value + 1) != PGAS_OK;
        n_bad += pgas_flush(0) != PGAS_OK || pgas_swap_u64(lock, 0, &old) != PGAS_OK ||
                 old != (uint64_t)me + 1;
    }
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && (me != 0 || *(uint64_t *)word_of(p, 72) == (uint64_t)n_ranks * ROUNDS),
            "%s: compare and swap makes a lock", p->name);
    uint32_t old32 = 0;
    n_bad = 0;
    pgas_gptr_t small = pgas_gptr_add(p->at[me], 84);
    n_bad += pgas_compare_swap_u32(small, 1, 5, &old32) != PGAS_OK || old32 != 0;
    n_bad += pgas_compare_swap_u32(small, 0, 5, &old32) != PGAS_OK || old32 != 0;
    n_bad += pgas_swap_u32(small, 6, &old32) != PGAS_OK || old32 != 5;
    n_bad += pgas_fetch_xor_u32(small, 2, &old32) != PGAS_OK || old32 != 6;
    n_bad += pgas_fetch_or_u32(small, 3, &old32) != PGAS_OK || old32 != 4;
    n_bad += pgas_fetch_and_u32(small, 1, &old32) != PGAS_OK || old32 != 7;
    n_bad += *(uint32_t *)word_of(p, 84) != 1 || *(uint32_t *)word_of(p, 80) != 0 ||
             *(uint32_t *)word_of(p, 88) != 0;
    spmd_is_int(n_bad, 0, "%s: every form in 32 bits", p->name);
}

static void many_at_once(const place_t *p)
{
    enum { AT_ONCE = 60 };
    pgas_req_t req[AT_ONCE];
    uint64_t old[AT_ONCE], sum = 0, total = 0;
    int n_bad = 0;
    clear(p);
    for (int i = 0; i < AT_ONCE; i++)
        n_bad += pgas_amo_u64_nb(p->at[0], PGAS_AMO_ADD, 1, 0, &old[i], &req[i]) != PGAS_OK;
    for (int i = AT_ONCE - 1; i >= 0; i--) {
        n_bad += pgas_wait_local(&req[i]) != PGAS_OK;
        sum += old[i];
    }
    pgas_allreduce(NULL, &sum, &total, 1, PGAS_U64, PGAS_ADD);
    uint64_t all = (uint64_t)n_ranks * AT_ONCE;
    spmd_ok(n_bad == 0 && total == all * (all - 1) / 2, "%s: many in the air at once", p->name);
}

static void refusals(const place_t *p)
{
    uint64_t old = 77;
    uint32_t old32 = 77;
    pgas_req_t req;
    pgas_gptr_t w = p->at[job_right()];
    spmd_ok(pgas_fetch_add_u64(pgas_gptr_add(w, 4), 1, &old) == PGAS_ERR_INVALID &&
                pgas_fetch_add_u32(pgas_gptr_add(w, 2), 1, &old32) == PGAS_ERR_INVALID &&
                pgas_atomic_add_u64(pgas_gptr_add(w, 1), 1) == PGAS_ERR_INVALID &&
                pgas_amo_u64(w, PGAS_AMO_SWAP, 1, 0, NULL) == PGAS_ERR_INVALID &&
                pgas_amo_u64(w, PGAS_AMO_CSWAP, 1, 0, NULL) == PGAS_ERR_INVALID &&
                pgas_amo_u64(w, (pgas_amo_t)17, 1, 0, &old) == PGAS_ERR_INVALID &&
                pgas_amo_u64_nb(w, PGAS_AMO_ADD, 1, 0, &old, NULL) == PGAS_ERR_INVALID &&
                pgas_amo_u32_nb(w, PGAS_AMO_SWAP, 1, 0, NULL, &req) == PGAS_ERR_INVALID &&
                pgas_fetch_add_u64(PGAS_NULL, 1, &old) == PGAS_ERR_RANGE &&
                pgas_fetch_add_u64(pgas_gptr_make(n_ranks, pgas_gptr_offset(w)), 1, &old) ==
                    PGAS_ERR_RANGE &&
                old == 77 && old32 == 77,
            "%s: misaligned, missing and foreign words are refused", p->name);
}

int main(int argc, char **argv)
{
    static place_t heap = { .name = "heap" }, attached = { .name = "attached" };
    job_begin(&argc, &argv, 15);
    pgas_gptr_t ptr = PGAS_NULL, user = PGAS_NULL;
    user_words = aligned_alloc(64, 256);
    bool good =
        pgas_alloc(256, &ptr) == PGAS_OK && pgas_mem_attach(user_words, 256, &user) == PGAS_OK;
    job_gather(ptr, heap.at);
    job_gather(user, attached.at);
    heap.own = pgas_gptr_local(ptr, 256);
    attached.own = (unsigned char *)user_words;
    spmd_ok(good, "memory");
    for (int i = 0; i < 2; i++) {
        const place_t *p = i == 0 ? &heap : &attached;
        counters(p);
        bits(p);
        a_lock(p);
        many_at_once(p);
        refusals(p);
    }
    pgas_barrier(NULL);
    pgas_mem_detach(user);
    free(user_words);
    return job_end();
}
