/* Local clustering coefficients.
 *
 * Each triangle adds to its three vertices the number of directed edges between the two others.
 * This number is 1 or 2; in an undirected graph it is 2. Let u be a middle vertex, v a lower
 * neighbour, and w a marked upper neighbour of both (see oriented.h). A thread adds the numbers to
 *     v and u  by population counts of the marked bits of v's row, and of those of edges in both
 *              directions
 *     w        by counters of the thread, one for each marked bit. A block has SLICES words, in
 *              which bit i is a binary digit of counter i. So a few logical operations add to the
 *              counters of all bits of a word. A loop adds only the carries out of the slices.
 * At the end the owners combine the numbers of ghosts into their own. */
#include <string.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/machine.h"
#include "graph/oriented.h"
#include "pgas/coll.h"

#define AHEAD  8 /* rows that are prefetched */
#define SLICES 4 /* binary digits of a counter that are kept in slices */

/* Words of marks->extra for a block: the slices, and for each bit the sum of its carries. */
#define COUNTER_WORDS (SLICES + 32)

typedef struct {
    pgasi_oriented_t oriented;
    bool is_shared;    /* by several threads */
    uint64_t *numbers; /* by id: edges between neighbours; half of that in undirected graphs */
    double *values;
} lcc_t;

static inline void add(const lcc_t *l, uint32_t id, uint64_t n)
{
    if (!l->is_shared)
        l->numbers[id] += n;
    else if (n > 0)
        __atomic_fetch_add(&l->numbers[id], n, __ATOMIC_RELAXED);
}

/* Adds 1 << digit to the counters of bits. */
static inline __attribute__((always_inline)) void add_bits(uint32_t *counters, uint32_t bits,
                                                           uint32_t digit)
{
#pragma GCC unroll 4
    for (; digit < SLICES; digit++) {
        uint32_t carry = counters[digit] & bits;
        counters[digit] ^= bits;
        bits = carry;
    }
    for (; bits != 0; bits &= bits - 1)
        counters[SLICES + __builtin_ctz(bits)] += 1u << SLICES;
}

/* Returns the counter of a bit, and clears the sum of its carries. */
static inline uint64_t take_counter(uint32_t *counters, int bit)
{
    uint64_t n = counters[SLICES + bit];
    counters[SLICES + bit] = 0;
    for (int digit = 0; digit < SLICES; digit++)
        n += (uint64_t)(counters[digit] >> bit & 1) << digit;
    return n;
}

/* A word of v's row: sums[0] for v, sums[1] for u. Between v and u are kind + 1 edges. */
static inline __attribute__((always_inline)) void take_word(const pgasi_oriented_t *o,
                                                            pgasi_marks_t *marks, uint64_t e,
                                                            bool has_both, uint32_t kind,
                                                            uint64_t *sums)
{
    uint64_t block = o->up[e] >> 32;
    uint32_t hits = marks->any[block] & (uint32_t)o->up[e];
    uint64_t n = (uint64_t)__builtin_popcount(hits);
    sums[0] += n;
    sums[1] += n;
    if (has_both) {
        sums[0] += (uint64_t)__builtin_popcount(hits & marks->both[block]);
        sums[1] += (uint64_t)__builtin_popcount(hits & o->up_both[e]);
    }
    add_bits(marks->extra + block * COUNTER_WORDS, hits, kind);
}

/* Visits the lower neighbours of u of one kind. @return the number for u */
static inline __attribute__((always_inline)) uint64_t
take_kind(const lcc_t *l, pgasi_marks_t *marks, uint32_t u, bool has_both, uint32_t kind)
{
    const pgasi_oriented_t *o = &l->oriented;
    const uint64_t *row = o->down_begin + (uint64_t)u * (has_both ? 2 : 1) + kind;
    const uint64_t last = (uint64_t)(u >> PGASI_BLOCK_BITS) << 32;
    uint64_t for_u = 0;
    for (uint64_t d = row[0]; d < row[1]; d++) {
        uint64_t sums[2] = { 0, 0 }, e = o->up_begin[o->down[d]];
        if (d + 2 * AHEAD < row[1])
            __builtin_prefetch(&o->up_begin[o->down[d + 2 * AHEAD]]);
        if (d + AHEAD < row[1]) {
            __builtin_prefetch(&l->numbers[o->down[d + AHEAD]]);
            __builtin_prefetch(o->up + o->up_begin[o->down[d + AHEAD]]);
        }
        for (; o->up[e] < last; e++)
            take_word(o, marks, e, has_both, kind, sums);
        take_word(o, marks, e, has_both, kind, sums); /* the word of u */
        add(l, o->down[d], sums[0]);
        for_u += sums[1];
    }
    return for_u;
}

static inline __attribute__((always_inline)) void take_middle(const lcc_t *l, pgasi_marks_t *marks,
                                                              uint32_t u, bool has_both)
{
    const pgasi_oriented_t *o = &l->oriented;
    uint64_t for_u = take_kind(l, marks, u, has_both, 0);
    if (has_both)
        for_u += take_kind(l, marks, u, has_both, 1);
    add(l, o->id_at[u], for_u);
    if (for_u == 0)
        return;
    for (uint32_t i = 0; i < marks->n_blocks; i++) {
        uint32_t block = marks->block[i],
                 *counters = marks->extra + block * (uint64_t)COUNTER_WORDS;
        for (uint32_t bits = marks->any[block]; bits != 0; bits &= bits - 1) {
            int bit = __builtin_ctz(bits);
            uint32_t w = (block << PGASI_BLOCK_BITS) + (uint32_t)bit;
            add(l, o->id_at[w], take_counter(counters, bit));
        }
        memset(counters, 0, SLICES * sizeof *counters);
    }
}

static void visit(void *arg, pgasi_marks_t *marks, uint32_t u)
{
    const lcc_t *l = arg;
    if (l->oriented.up_both)
        take_middle(l, marks, u, true);
    else
        take_middle(l, marks, u, false);
}

#ifdef __x86_64__
/* Processors with AVX2 have the instruction popcnt. */
__attribute__((target("popcnt"))) static void visit_popcnt(void *arg, pgasi_marks_t *marks,
                                                           uint32_t u)
{
    const lcc_t *l = arg;
    if (l->oriented.up_both)
        take_middle(l, marks, u, true);
    else
        take_middle(l, marks, u, false);
}
#endif

static pgasi_middle_fn_t best_visit(void)
{
#ifdef __x86_64__
    if (pgasi_machine_has_avx2())
        return visit_popcnt;
#endif
    return visit;
}

/* ---- before and after ---- */

static pgas_status_t start(lcc_t *l, pgas_graph_run_t *run)
{
    uint64_t n_ids = (uint64_t)run->info.n_local + run->info.n_ghosts;
    l->is_shared = run->opts.n_threads > 1;
    l->numbers = pgasi_run_state(run, PGASI_ORIENTED_FREE_SLOT, sizeof *l->numbers);
    bool sane = l->values || run->info.n_local == 0;
    pgas_status_t status = sane ? PGAS_OK : PGAS_ERR_INVALID;
    status = pgasi_graph_agree(l->numbers ? status : PGAS_ERR_NO_MEMORY, NULL);
    if (status == PGAS_OK)
        memset(l->numbers, 0, n_ids * sizeof *l->numbers);
    return status;
}

static void deliver(const lcc_t *l, const pgas_graph_info_t *info)
{
    for (uint32_t id = 0; id < info->n_local; id++) {
        double n = l->oriented.degree[id], edges = (double)l->numbers[id];
        double pairs = n * (n - 1);
        edges *= info->directed ? 1 : 2;
        l->values[info->vertex[id] - info->first_vertex] = pairs > 0 ? edges / pairs : 0;
    }
}

pgas_status_t pgas_lcc(pgas_graph_t *graph, const pgas_graph_run_opts_t *opts, double *values,
                       pgas_graph_run_info_t *info_p)
{
    lcc_t l = { .values = values };
    pgas_graph_run_t *run;
    pgas_graph_run_info_t info = { .size = sizeof info };
    uint64_t begin_ns = pgasi_now_ns(), sum;
    pgas_status_t status = pgasi_run_begin(graph, opts, NULL, true, &run);
    if (status != PGAS_OK)
        return status;
    status = start(&l, run);
    if (status == PGAS_OK)
        status = pgasi_oriented_make(&l.oriented, run, true);
    if (status == PGAS_OK)
        status = pgasi_oriented_visit(&l.oriented, COUNTER_WORDS, "lcc", best_visit(), &l, &sum,
                                      &info.iterations);
    if (status == PGAS_OK)
        status = pgas_ghosts_combine(run, l.numbers, PGAS_U64, PGAS_ADD);
    if (status == PGAS_OK)
        deliver(&l, &run->info);
    info.n_found = graph->n_vertices;
    info.n_edges = graph->n_edges;
    return pgasi_run_end(run, status, begin_ns, &info, info_p);
}
