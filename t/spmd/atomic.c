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
            n_bad += pgas_fetch_op_u64(p->at[0], PGAS_ADD, 1, &old64) != PGAS_OK;
        sum += old64;
        n_bad += pgas_fetch_op_u32(pgas_gptr_add(p->at[i % n_ranks], 12), PGAS_ADD, 3, &old32) !=
                     PGAS_OK ||
                 old32 % 3 != 0;
        n_bad += pgas_update_u64(pgas_gptr_add(p->at[i % n_ranks], 16), PGAS_ADD, 5) != PGAS_OK;
        n_bad += pgas_update_u32(pgas_gptr_add(p->at[i % n_ranks], 24), PGAS_ADD, 7) != PGAS_OK;
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
            n_bad += pgas_fetch_op_u64(w, PGAS_OR, mine, &old) != PGAS_OK || (old & mine);
            n_bad += pgas_fetch_op_u64(w, PGAS_XOR, mine, &old) != PGAS_OK || !(old & mine);
            n_bad += pgas_update_u64(w, PGAS_OR, mine) != PGAS_OK || pgas_flush(r) != PGAS_OK;
            n_bad += pgas_fetch_op_u64(w, PGAS_AND, ~mine, &old) != PGAS_OK || !(old & mine);
            n_bad += pgas_update_u64(w, PGAS_XOR, mine) != PGAS_OK || pgas_fence() != PGAS_OK;
            n_bad += pgas_update_u64(w, PGAS_AND, ~mine) != PGAS_OK || pgas_fence() != PGAS_OK;
            n_bad += pgas_update_u64(pgas_gptr_add(w, 8), PGAS_OR, mine) != PGAS_OK;
            n_bad += pgas_update_u32(pgas_gptr_add(w, 16), PGAS_OR, (uint32_t)1 << me) != PGAS_OK;
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
        n_bad += pgas_flush(0) != PGAS_OK ||
                 pgas_fetch_op_u64(lock, PGAS_SWAP, 0, &old) != PGAS_OK || old != (uint64_t)me + 1;
    }
    pgas_barrier(NULL);
    spmd_ok(n_bad == 0 && (me != 0 || *(uint64_t *)word_of(p, 72) == (uint64_t)n_ranks * ROUNDS),
            "%s: compare and swap makes a lock", p->name);
    uint32_t old32 = 0;
    n_bad = 0;
    pgas_gptr_t small = pgas_gptr_add(p->at[me], 84);
    n_bad += pgas_compare_swap_u32(small, 1, 5, &old32) != PGAS_OK || old32 != 0;
    n_bad += pgas_compare_swap_u32(small, 0, 5, &old32) != PGAS_OK || old32 != 0;
    n_bad += pgas_fetch_op_u32(small, PGAS_SWAP, 6, &old32) != PGAS_OK || old32 != 5;
    n_bad += pgas_fetch_op_u32(small, PGAS_XOR, 2, &old32) != PGAS_OK || old32 != 6;
    n_bad += pgas_fetch_op_u32(small, PGAS_OR, 3, &old32) != PGAS_OK || old32 != 4;
    n_bad += pgas_fetch_op_u32(small, PGAS_AND, 1, &old32) != PGAS_OK || old32 != 7;
    n_bad += *(uint32_t *)word_of(p, 84) != 1 || *(uint32_t *)word_of(p, 80) != 0 ||
             *(uint32_t *)word_of(p, 88) != 0;
    spmd_is_int(n_bad, 0, "%s: every form in 32 bits", p->name);
}

static void many_at_once(const place_t *p)
{
    enum { AT_ONCE = 60 };
    pgas_sync_t done = PGAS_SYNC_INIT;
    uint64_t old[AT_ONCE], one = 1, sum = 0, total = 0;
    int n_bad = 0;
    clear(p);
    for (int i = 0; i < AT_ONCE; i++)
        n_bad += pgas_fetch_op_nb(p->at[0], PGAS_OP(PGAS_ADD, PGAS_U64), &one, &old[i], &done) !=
                 PGAS_OK;
    n_bad += pgas_sync_wait(&done, -1) != PGAS_OK;
    for (int i = 0; i < AT_ONCE; i++)
        sum += old[i];
    pgas_allreduce(NULL, &sum, &total, 1, PGAS_U64, PGAS_ADD);
    uint64_t all = (uint64_t)n_ranks * AT_ONCE;
    spmd_ok(n_bad == 0 && total == all * (all - 1) / 2, "%s: many in the air at once", p->name);
}

static void refusals(const place_t *p)
{
    uint64_t old = 77;
    uint32_t old32 = 77;
    pgas_gptr_t w = p->at[job_right()];
    spmd_ok(pgas_fetch_op_u64(pgas_gptr_add(w, 4), PGAS_ADD, 1, &old) == PGAS_ERR_INVALID &&
                pgas_fetch_op_u32(pgas_gptr_add(w, 2), PGAS_ADD, 1, &old32) == PGAS_ERR_INVALID &&
                pgas_update_u64(pgas_gptr_add(w, 1), PGAS_ADD, 1) == PGAS_ERR_INVALID &&
                pgas_compare_swap_u64(w, 1, 0, NULL) == PGAS_ERR_INVALID &&
                pgas_fetch_op_u64(w, 17, 1, &old) == PGAS_ERR_INVALID &&
                pgas_update_u64(w, 0, 1) == PGAS_ERR_INVALID &&
                pgas_fetch_op_u64(w, 0x90, 1, &old) == PGAS_ERR_INVALID &&
                pgas_fetch_op_nb(w, 0x90 | PGAS_U64, &old, &old, NULL) == PGAS_ERR_INVALID &&
                pgas_fetch_op_nb(w, PGAS_ADD, &old, NULL, NULL) == PGAS_ERR_INVALID &&
                pgas_fetch_op_nb(w, PGAS_OP(PGAS_ADD, PGAS_U64), NULL, &old, NULL) ==
                    PGAS_ERR_INVALID &&
                pgas_compare_swap_nb(w, PGAS_U64, &old, &old, NULL, NULL) == PGAS_ERR_INVALID &&
                pgas_fetch_op_u64(PGAS_NULL, PGAS_ADD, 1, &old) == PGAS_ERR_RANGE &&
                pgas_fetch_op_u64(pgas_gptr_make(n_ranks, pgas_gptr_offset(w)), PGAS_ADD, 1,
                                  &old) == PGAS_ERR_RANGE &&
                old == 77 && old32 == 77,
            "%s: misaligned, missing and foreign words are refused", p->name);
    float f = 1;
    spmd_ok(pgas_update_u64(w, PGAS_PROD, 2) == PGAS_ERR_UNSUPPORTED &&
                pgas_fetch_op_f32(w, PGAS_XOR, 2, &f) == PGAS_ERR_UNSUPPORTED &&
                pgas_update_f64(w, PGAS_AND, 2) == PGAS_ERR_UNSUPPORTED &&
                pgas_update_u32(w, 0x1230, 2) == PGAS_ERR_UNSUPPORTED &&
                pgas_fetch_op_nb(w, PGAS_OP(PGAS_ADD, PGAS_U8), &f, NULL, NULL) ==
                    PGAS_ERR_UNSUPPORTED &&
                pgas_compare_swap_nb(w, PGAS_I16, &f, &f, &f, NULL) == PGAS_ERR_UNSUPPORTED,
            "%s: operators and types that atomics do not offer", p->name);
}

/* All ranks at once. The sums are exact in binary, the extremes are those of all ranks. */
static void numbers(const place_t *p)
{
    int n_bad = 0, n_all = n_ranks * N;
    clear(p);
    for (int r = 0; r < n_ranks; r++) {
        for (int i = 0; i < N / n_ranks; i++) {
            int mine = me * N + i;
            double old = -1;
            float small = -1;
            pgas_gptr_t w = p->at[r];
            n_bad += pgas_update_f64(w, PGAS_ADD, 0.25) != PGAS_OK;
            n_bad += pgas_fetch_op_f64(w, PGAS_ADD, -0.125, &old) != PGAS_OK || old < 0;
            n_bad += pgas_update_f32(pgas_gptr_add(w, 8), PGAS_ADD, 0.5f) != PGAS_OK;
            n_bad +=
                pgas_fetch_op_f32(pgas_gptr_add(w, 12), PGAS_MAX, (float)mine, &small) != PGAS_OK ||
                small < 0;
            n_bad += pgas_update_f64(pgas_gptr_add(w, 16), PGAS_MIN, -(double)mine) != PGAS_OK;
            n_bad += pgas_update_i64(pgas_gptr_add(w, 24), PGAS_MIN, -mine) != PGAS_OK;
            n_bad += pgas_update_i32(pgas_gptr_add(w, 32), PGAS_MAX, mine) != PGAS_OK;
            n_bad +=
                pgas_update_u64(pgas_gptr_add(w, 40), PGAS_MAX, (uint64_t)mine << 33) != PGAS_OK;
            n_bad += pgas_update_i32(pgas_gptr_add(w, 36), PGAS_ADD, -3) != PGAS_OK;
        }
    }
    n_bad += pgas_flush_all() != PGAS_OK;
    pgas_barrier(NULL);
    int each = N / n_ranks, most = n_all - N + each - 1;
    double sum = *(double *)word_of(p, 0), least = *(double *)word_of(p, 16);
    float half = *(float *)word_of(p, 8), greatest = *(float *)word_of(p, 12);
    n_bad += sum * 8 < each * n_ranks || sum * 8 > each * n_ranks;
    n_bad += half * 2 < (float)(each * n_ranks) || half * 2 > (float)(each * n_ranks);
    n_bad += greatest < (float)most || greatest > (float)most || least < -most || least > -most;
    n_bad += *(int64_t *)word_of(p, 24) != -most || *(int32_t *)word_of(p, 32) != most ||
             *(uint64_t *)word_of(p, 40) != (uint64_t)most << 33 ||
             *(int32_t *)word_of(p, 36) != -3 * each * n_ranks;
    spmd_is_int(n_bad, 0, "%s: sums of floating-point numbers, minima and maxima of all ranks",
                p->name);
}

int main(int argc, char **argv)
{
    static place_t heap = { .name = "heap" }, attached = { .name = "attached" };
    job_begin(&argc, &argv, 19);
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
        numbers(p);
        refusals(p);
    }
    pgas_barrier(NULL);
    pgas_mem_detach(user);
    free(user_words);
    return job_end();
}
