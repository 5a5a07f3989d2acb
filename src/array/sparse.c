/* Sparse contributions: updates at random of arrays much larger than the cache.
 *
 * Each thread has a batch for every home. Its lock is taken by its thread for each apply, and by
 * the thread that serves when it sends what the thread has recorded. So only a recall makes a
 * thread wait. An update costs 16 bytes in a message of up to 256, and no round trip.
 *
 * Invariants:
 *  - a chunk with a cache line has no sparse grant. A line ends it before the line's first request;
 *  - the thread that ends a grant first changes the grant's word, and then empties the batches
 *    under their locks. A thread reads the word under its batches' lock. So an operand that is
 *    recorded after that finds no grant;
 *  - the home lists this rank as an operator as long as it may have recorded something. The rank
 *    may end its grant without a message, because it answers a later recall as without a copy.
 *
 * Which chunks. The home's threads leave a chunk when it is granted, and a read recalls it. That
 * pays off if many operands come in between. So operands earn credit, and recalls cost it. Without
 * credit the rank asks for no chunk for a while, and then for few at first. A chunk that gets a
 * large part of the operands, by samples, gets a cache line (record.c). */
#include "array/sparse.h"

#include <stdlib.h>
#include <string.h>

#include "array/policy.h"
#include "base/checks.h"
#include "base/clock.h"
#include "base/op.h"
#include "base/param.h"

#define COST        8 /* operands that pay for a recall */
#define CREDIT_MAX  (INT64_C(1) << 14)
#define PAUSE_NS    (1000 * UINT64_C(1000))     /* without credit; the first time, ... */
#define PAUSE_MAX   (4 * 1000 * UINT64_C(1000)) /* ... and at most */
#define AROUND_LOG2 5u /* of the chunks that are requested together, at most */

/* ---- start and end ---- */

pgas_status_t pgasi_array_sparse_start(pgasi_array_t *a)
{
    bool far = false;
    for (int r = 0; r < a->n_ranks; r++)
        far = far || (a->node_rank[r] < 0 && pgasi_array_n_home(&a->map, r));
    if (!far || a->wide)
        return PGAS_OK;
    pgasi_array_sparse_t *s = calloc(1, sizeof *s);
    if (!s)
        return PGAS_ERR_NO_MEMORY;
    a->sparse = s;
    s->grant = calloc(a->map.n_blocks, sizeof *s->grant);
    s->samples = calloc(a->map.n_blocks, sizeof *s->samples);
    s->flight = calloc((size_t)a->n_ranks, sizeof *s->flight);
    s->spare = malloc(sizeof *s->spare);
    s->pause_ns = PAUSE_NS;
    s->batch_max = (uint32_t)PGASI_MIN(PGASI_ARRAY_CALL_BYTES / sizeof s->spare->entry[0],
                                       (size_t)PGASI_ARRAY_SPARSE_MAX);
    return s->grant && s->samples && s->flight && s->spare ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

void pgasi_array_sparse_stop(pgasi_array_t *a)
{
    pgasi_array_sparse_t *s = a->sparse;
    if (!s)
        return;
    for (uint32_t t = 0; t < s->n_threads; t++) {
        for (int home = 0; s->thread[t] && home < a->n_ranks; home++)
            free(s->thread[t]->of_home[home]);
        free(s->thread[t]);
    }
    free(s->grant);
    free(s->samples);
    free(s->flight);
    free(s->spare);
    free(s);
    a->sparse = NULL;
}

/* ---- batches ---- */

const pgasi_array_batch_t *pgasi_array_sparse_take(pgasi_array_t *a, pgasi_array_batches_t *t,
                                                   int home)
{
    pgasi_array_sparse_t *s = a->sparse;
    pgasi_spin_lock(&t->lock, PGASI_ARRAY_SPARSE_SPINS);
    pgasi_array_batch_t *full = t->of_home[home];
    if (full && full->n) {
        t->of_home[home] = s->spare;
        s->spare->n = 0;
        s->spare->first = full->first;
        s->spare = full;
    }
    pgasi_spin_unlock(&t->lock);
    return full == s->spare ? full : NULL;
}

void pgasi_array_sparse_send(pgasi_array_t *a, pgasi_array_batches_t *t, int home)
{
    pgasi_array_sparse_t *s = a->sparse;
    const pgasi_array_batch_t *full = pgasi_array_sparse_take(a, t, home);
    if (!full)
        return;
    s->flight[home]++;
    s->n_flight++;
    s->credit = PGASI_MIN(s->credit + full->n, CREDIT_MAX);
    pgasi_array_count(&a->info.remote_ops, full->n);
    pgasi_array_send_sparse(a, home, full->entry, full->n);
}

static void send_batches(pgasi_array_t *a, int home)
{
    for (uint32_t j = 0; j < a->sparse->n_threads; j++)
        if (a->sparse->thread[j])
            pgasi_array_sparse_send(a, a->sparse->thread[j], home);
}

/* ---- grants ---- */

static void write_grant(pgasi_array_sparse_t *s, uint64_t block, uint64_t grant)
{
    __atomic_store_n(&s->grant[block], grant, __ATOMIC_RELAXED);
}

bool pgasi_array_sparse_suits(const pgasi_array_t *a, const pgasi_array_location_t *loc,
                              const pgasi_array_access_t *x)
{
    const pgas_op_def_t *def = pgasi_op_find(x->op);
    return a->sparse && !a->fits && x->kind == PGASI_ARRAY_APPLY && !loc->cut &&
           a->node_rank[loc->home] < 0 && def &&
           def->operand_bytes <= PGASI_MIN((size_t)a->pub.elem_bytes, (size_t)8) &&
           a->map.offsets[loc->home + 1] - a->map.offsets[loc->home] <= UINT32_MAX;
}

static bool is_cold(const pgasi_array_t *a, uint64_t block)
{
    return !pgasi_array_sparse_read(a->sparse, block) && !a->line_of[block];
}

/* A power of two; 0: none. */
static uint64_t how_many(pgasi_array_sparse_t *s)
{
    if (pgasi_now_ns() < s->pause_until_ns)
        return 0;
    uint32_t log2 = s->around_log2;
    s->around_log2 = PGASI_MIN(log2 + 1, AROUND_LOG2);
    return UINT64_C(1) << log2;
}

/* The home recalls a chunk. */
static void pay(pgasi_array_sparse_t *s)
{
    if (s->credit >= CREDIT_MAX / 2)
        s->pause_ns = PAUSE_NS;
    s->credit -= COST;
    if (s->credit >= 0)
        return;
    s->credit = 0;
    s->around_log2 = 0;
    s->pause_until_ns = pgasi_now_ns() + s->pause_ns;
    s->pause_ns = PGASI_MIN(2 * s->pause_ns, PAUSE_MAX);
}

void pgasi_array_sparse_ask(pgasi_array_t *a, const pgasi_array_location_t *loc, uint32_t op)
{
    pgasi_array_sparse_t *s = a->sparse;
    uint64_t n = is_cold(a, loc->chunk) ? how_many(s) : 0, first = loc->chunk & ~(n - 1);
    pgasi_array_list_begin();
    for (uint64_t block = first; block < first + n && block < a->map.n_blocks; block++) {
        pgasi_array_location_t other;
        if (!is_cold(a, block) || !pgasi_array_locate_chunk(&a->map, block, &other) ||
            other.home != loc->home)
            continue;
        s->n_asked++;
        write_grant(s, block, (uint64_t)op << 32 | PGASI_ARRAY_SPARSE_ASKED);
        pgasi_array_send_request(a, loc->home, block, PGASI_E_FETCH_O, PGASI_ARRAY_NONE, op);
    }
    pgasi_array_list_end();
}

void pgasi_array_sparse_granted(pgasi_array_t *a, uint64_t chunk, int home)
{
    pgasi_array_sparse_t *s = a->sparse;
    if (!s || chunk >= a->map.n_blocks)
        return;
    s->n_asked -= s->n_asked > 0;
    uint64_t grant = pgasi_array_sparse_read(s, chunk);
    if (grant & PGASI_ARRAY_SPARSE_ASKED) /* otherwise the chunk has got a line since */
        write_grant(s, chunk, (grant & ~PGASI_ARRAY_SPARSE_ASKED) | (uint64_t)(home + 1));
}

void pgasi_array_sparse_begin_own(pgasi_array_t *a, uint64_t block, uint32_t op)
{
    if (a->sparse && block < a->map.n_blocks)
        write_grant(a->sparse, block, (uint64_t)op << 32 | (uint64_t)(a->rank + 1));
}

bool pgasi_array_sparse_end_own(pgasi_array_t *a, uint64_t block)
{
    if (!a->sparse || block >= a->map.n_blocks || !pgasi_array_sparse_read(a->sparse, block))
        return false;
    write_grant(a->sparse, block, 0);
    return true;
}

void pgasi_array_sparse_end(pgasi_array_t *a, uint64_t chunk, bool recall)
{
    pgasi_array_sparse_t *s = a->sparse;
    uint64_t grant = s && chunk < a->map.n_blocks ? pgasi_array_sparse_read(s, chunk) : 0;
    /* a recall is older than the grant that is still awaited */
    if (!grant || (recall && (grant & PGASI_ARRAY_SPARSE_ASKED)))
        return;
    write_grant(s, chunk, 0);
    if (!(grant & PGASI_ARRAY_SPARSE_ASKED))
        send_batches(a, (int)(grant & (PGASI_ARRAY_SPARSE_ASKED - 1)) - 1);
    if (recall)
        pay(s);
}

void pgasi_array_sparse_arrived(pgasi_array_t *a, int home)
{
    pgasi_array_sparse_t *s = a->sparse;
    if (!s || !s->flight[home])
        return;
    __atomic_store_n(&s->flight[home], s->flight[home] - 1, __ATOMIC_RELAXED);
    s->n_flight--;
}

bool pgasi_array_sparse_empty(pgasi_array_t *a)
{
    for (int home = 0; a->sparse && home < a->n_ranks; home++)
        if (home != a->rank)
            send_batches(a, home);
    return pgasi_array_sparse_n_moving(a) == 0;
}

uint64_t pgasi_array_sparse_n_moving(const pgasi_array_t *a)
{
    return a->sparse ? a->sparse->n_flight + a->sparse->n_asked : 0;
}

bool pgasi_array_sparse_operates(const pgasi_array_t *a, uint64_t block, uint32_t *op_p)
{
    uint64_t grant = a->sparse ? pgasi_array_sparse_read(a->sparse, block) : 0;
    *op_p = (uint32_t)(grant >> 32);
    uint64_t home = grant & (PGASI_ARRAY_SPARSE_ASKED - 1);
    return home && home != (uint64_t)a->rank + 1;
}
