/* How threads record sparse contributions: in their batches, by samples that say which chunks are
 * to have a cache line, and by full batches that show a walk. */
#include "array/record.h"

#include <stdlib.h>
#include <string.h>

#include "array/protocol.h"
#include "array/registry.h"
#include "array/sparse.h"
#include "base/checks.h"
#include "base/spin.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "mem/thread.h"

#define FLIGHT_MAX 32  /* batches to one home that have not arrived */
#define SAMPLE     32  /* one operand of so many is counted for its chunk */
#define HOT        32u /* samples of a chunk that gets a line although another one loses it */
#define WARM       4u  /* samples of one that gets a line that is free */

/* The thread becomes known to threads that serve. */
static pgasi_array_batches_t *new_thread(pgasi_array_t *a, uint32_t slot)
{
    pgasi_array_sparse_t *s = a->sparse;
    pgasi_array_batches_t *t =
        aligned_alloc(64, PGASI_ALIGN_UP(sizeof *t + (size_t)a->n_ranks * sizeof t->of_home[0],
                                         (size_t)64));
    if (!t)
        return NULL;
    memset(t, 0, sizeof *t + (size_t)a->n_ranks * sizeof t->of_home[0]);
    pgasi_path_state_t before = pgasi_serve_begin();
    s->thread[slot] = t;
    s->n_threads = PGASI_MAX(s->n_threads, slot + 1);
    pgasi_serve_end(before);
    return t;
}

/* The batches of the calling thread; NULL: it has none. */
static pgasi_array_batches_t *my_batches(pgasi_array_t *a)
{
    if (!pgas_array_path.read || pgasi_self.in_handler)
        return NULL;
    uint32_t slot = (uint32_t)(pgas_array_path.data >> 8) - 1;
    pgasi_array_batches_t *t = a->sparse->thread[slot];
    return PGAS_LIKELY(t != NULL) ? t : new_thread(a, slot);
}

/* Whether the operands of a batch are for elements in order. The caller is serving. */
static bool is_walk(const pgasi_array_batch_t *b)
{
    uint32_t n = b ? b->n : 0;
    return n > 2 && b->entry[n / 2].element - b->entry[0].element == n / 2 &&
           b->entry[n - 1].element - b->entry[0].element == n - 1;
}

/* The batch of the calling thread is full, before an operand for element i. Sends it, and waits
 * while too many are under way. A walk through chunks that earlier applies have made sparse
 * continues in cache lines, which cost a small part of 16 bytes for each operand. */
static pgas_status_t make_room(pgasi_array_t *a, pgasi_array_batches_t *t, int home, uint64_t i,
                               pgas_op_t op)
{
    pgasi_path_state_t before = pgasi_serve_begin();
    if (home == a->rank) {
        pgasi_array_home_combine_own(a, t);
    } else {
        bool walks = is_walk(t->of_home[home]);
        pgasi_array_sparse_send(a, t, home);
        if (walks)
            pgasi_array_cache_prefetch(a, i >> a->map.shift, (uint64_t)a->prefetch,
                                       PGASI_ARRAY_NEED_O, op, NULL);
    }
    pgasi_array_poll();
    pgasi_serve_end(before);
    pgas_progress(); /* batches of other ranks have arrived meanwhile */
    const uint32_t *flight = &a->sparse->flight[home];
    pgasi_wait_t w = PGASI_WAIT_INIT;
    pgas_status_t status = PGAS_OK;
    while (__atomic_load_n(flight, __ATOMIC_RELAXED) >= FLIGHT_MAX && status == PGAS_OK)
        if (PGAS_UNLIKELY(pgasi_boot_some_dead()) && pgasi_array_is_broken(a))
            status = PGAS_ERR_PEER;
        else
            pgasi_wait_step(&w);
    pgasi_wait_end(&w);
    return status;
}

/* ---- samples ---- */

static void halve(pgasi_array_t *a)
{
    uint16_t *samples = a->sparse->samples;
    for (uint64_t block = 0; block < a->map.n_blocks; block++)
        __atomic_store_n(&samples[block],
                         (uint16_t)(__atomic_load_n(&samples[block], __ATOMIC_RELAXED) / 2),
                         __ATOMIC_RELAXED);
}

/* Counts an operand for its chunk. A lost count does not matter. @return true: the chunk is to have
 * a line. */
static bool sample(pgasi_array_t *a, uint64_t block)
{
    pgasi_array_sparse_t *s = a->sparse;
    uint32_t n = __atomic_add_fetch(&s->n_samples, 1, __ATOMIC_RELAXED);
    if (n % PGASI_MAX(8 * (uint64_t)a->n_lines, a->map.n_blocks / 16) == 0)
        halve(a);
    uint16_t *at = &s->samples[block],
             count = (uint16_t)(__atomic_load_n(at, __ATOMIC_RELAXED) + 1);
    bool is_free = __atomic_load_n(&a->n_free, __ATOMIC_RELAXED) > a->n_high;
    bool hot = count >= (is_free ? WARM : HOT);
    __atomic_store_n(at, hot ? 0 : count, __ATOMIC_RELAXED);
    return hot;
}

static void fetch(pgasi_array_t *a, uint64_t block, uint32_t op)
{
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_cache_prefetch(a, block, 1, PGASI_ARRAY_NEED_O, op, NULL);
    pgasi_array_poll();
    pgasi_serve_end(before);
}

/* ---- recording ---- */

typedef enum { ADDED, NOT_GRANTED, FULL, ADDED_TO_HOT } added_t;

/* What the loop over many operands reads, in registers. */
typedef struct {
    pgasi_array_t *array;
    pgasi_array_batches_t *batches;
    const uint64_t *grant;
    uint64_t op;  /* in the upper half */
    size_t bytes; /* of an operand */
    uint32_t shift, batch_max;
} recorder_t;

PGAS_INLINE recorder_t recorder_of(pgasi_array_t *a, pgasi_array_batches_t *t, uint32_t op,
                                   size_t bytes)
{
    return (recorder_t){ .array = a,
                         .batches = t,
                         .grant = a->sparse->grant,
                         .op = (uint64_t)op << 32,
                         .bytes = bytes,
                         .shift = a->map.shift,
                         .batch_max = a->sparse->batch_max };
}

/* The home of an element in whose chunk operands may be recorded, or -1. */
PGAS_INLINE int home_of(const recorder_t *r, uint64_t i)
{
    uint64_t grant = __atomic_load_n(&r->grant[i >> r->shift], __ATOMIC_RELAXED) - r->op;
    /* otherwise it has another operator, or no home + 1 */
    return PGAS_LIKELY(grant - 1 < PGASI_ARRAY_SPARSE_ASKED - 1) ? (int)grant - 1 : -1;
}

PGAS_INLINE void append(const recorder_t *r, pgasi_array_batch_t *b, uint64_t i,
                        const void *operand)
{
    pgasi_array_sparse_entry_t *entry = &b->entry[b->n++];
    entry->element = (uint32_t)(i - b->first);
    entry->op = (uint32_t)(r->op >> 32);
    if (PGAS_LIKELY(r->bytes == sizeof entry->operand))
        memcpy(entry->operand, operand, sizeof entry->operand);
    else
        memcpy(entry->operand, operand, r->bytes);
}

/* The common case of add, for most operands. @return false: it is not that, and nothing is done.
 * Batches locked. */
PGAS_INLINE bool add_plain(const recorder_t *r, uint64_t i, const void *operand)
{
    int home = home_of(r, i);
    pgasi_array_batch_t *b = PGAS_LIKELY(home >= 0) ? r->batches->of_home[home] : NULL;
    if (PGAS_UNLIKELY(!b) || PGAS_UNLIKELY(b->n == r->batch_max) || b->n % SAMPLE == 0)
        return false;
    append(r, b, i, operand);
    return true;
}

static pgasi_array_batch_t *new_batch(const recorder_t *r, int home)
{
    pgasi_array_batch_t *b = malloc(sizeof *b);
    if (b)
        *b = (pgasi_array_batch_t){ .first = r->array->map.offsets[home] };
    r->batches->of_home[home] = b;
    return b;
}

/* Batches locked. On FULL *home_p is set. */
static added_t add(const recorder_t *r, uint64_t i, const void *operand, int *home_p)
{
    int home = home_of(r, i);
    pgasi_array_batch_t *b = home >= 0 ? r->batches->of_home[home] : NULL;
    if (home < 0 || (!b && !(b = new_batch(r, home))))
        return NOT_GRANTED;
    *home_p = home;
    if (b->n == r->batch_max)
        return FULL;
    bool counts = b->n % SAMPLE == 0; /* also if a batch is shorter than that */
    append(r, b, i, operand);
    return counts && sample(r->array, i >> r->shift) ? ADDED_TO_HOT : ADDED;
}

pgas_status_t pgasi_array_sparse_add(pgasi_array_t *a, uint64_t i, pgas_op_t op, size_t bytes,
                                     const void *operand)
{
    pgasi_array_batches_t *t = a->sparse ? my_batches(a) : NULL;
    if (!t)
        return PGAS_INPROGRESS;
    recorder_t r = recorder_of(a, t, op, bytes);
    if (home_of(&r, i) < 0) /* also loads the word before the lock, for which later loads wait */
        return PGAS_INPROGRESS;
    pgasi_spin_lock(&t->lock, PGASI_ARRAY_SPARSE_SPINS);
    bool plain = add_plain(&r, i, operand);
    for (pgas_status_t status = PGAS_OK; PGAS_UNLIKELY(!plain) && status == PGAS_OK;) {
        int home = 0;
        added_t added = add(&r, i, operand, &home);
        pgasi_spin_unlock(&t->lock);
        if (added == NOT_GRANTED)
            return PGAS_INPROGRESS;
        if (added == ADDED_TO_HOT)
            fetch(a, i >> a->map.shift, op);
        if (added != FULL)
            return PGAS_OK;
        status = make_room(a, t, home, i, op);
        if (status != PGAS_OK)
            return status;
        pgasi_spin_lock(&t->lock, PGASI_ARRAY_SPARSE_SPINS);
    }
    pgasi_spin_unlock(&t->lock);
    return PGAS_OK;
}

/* One operand that is not plain. Batches locked, also on return. @return false: it is not recorded,
 * and it is tried again if *full_p. */
static bool add_one(const recorder_t *r, uint64_t i, const void *operand, bool *full_p,
                    pgas_status_t *status_p)
{
    int home = 0;
    added_t added = add(r, i, operand, &home);
    *full_p = added == FULL;
    if (added != FULL && added != ADDED_TO_HOT)
        return added == ADDED;
    uint32_t op = (uint32_t)(r->op >> 32);
    pgasi_spin_unlock(&r->batches->lock);
    if (added == FULL)
        *status_p = make_room(r->array, r->batches, home, i, op);
    else
        fetch(r->array, i >> r->shift, op);
    pgasi_spin_lock(&r->batches->lock, PGASI_ARRAY_SPARSE_SPINS);
    return added != FULL;
}

pgas_status_t pgasi_array_sparse_add_some(pgasi_array_t *a, const uint64_t *index, pgas_op_t op,
                                          size_t bytes, const char *operands, uint8_t *which,
                                          size_t *n_p)
{
    pgasi_array_batches_t *t = a->sparse && *n_p ? my_batches(a) : NULL;
    size_t n = *n_p, n_left = 0;
    pgas_status_t status = PGAS_OK;
    if (!t)
        return PGAS_OK;
    recorder_t r = recorder_of(a, t, op, bytes);
    pgasi_spin_lock(&t->lock, PGASI_ARRAY_SPARSE_SPINS);
    for (size_t k = 0; k < n; k++) {
        uint64_t i = index[which[k]];
        const char *operand = operands + which[k] * bytes;
        bool full = false, added = PGAS_LIKELY(add_plain(&r, i, operand));
        while (PGAS_UNLIKELY(!added) && status == PGAS_OK) {
            added = add_one(&r, i, operand, &full, &status);
            if (!added && !full)
                break;
        }
        if (!added)
            which[n_left++] = which[k];
    }
    pgasi_spin_unlock(&t->lock);
    *n_p = n_left;
    return status;
}
