/* what: The allocators of registered memory give blocks that are disjoint, aligned and reachable
 *       and keep their contents. They place blocks where a naive model does, grow as configured and
 *       never above their limit, and take back all blocks. They reuse memory in bulk by completion
 *       numbers, and refuse impossible requests with a message.
 * log:  exceeds the allocator's limit of
 * log:  units of .* bytes \(PGAS_POOL_UNIT\) exceed the limit
 * log:  a super-chunk of .* bytes does not fit
 * log:  no live block of pgas_alloc_on
 * log:  pgas_alloc_on of .* bytes in zone 0 does not fit
 * source: pgas/mem.h; seeded model tests */
#include "base/checks.h"
#include "base/rng.h"
#include "mem/block.h"
#include "mem/regmem.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define UNIT     4096
#define LIVE_MAX 400

/* ---- one face for the four ---- */

typedef enum { SUPER, CIRCULAR, LINEAR, GENERAL, N_KINDS } kind_t;
static const char *const names[N_KINDS] = { "super", "circular", "linear", "general" };

/* made on purpose between the allocator and the model */
typedef enum { RIGHT, OVERLAPS, FORGETS, MISALIGNS } mistake_t;

typedef struct {
    kind_t kind;
    mistake_t mistake;
    void *object;
    pgas_block_t last;
} subject_t;

static pgas_status_t create(subject_t *s, const pgas_pool_opts_t *opts)
{
    switch (s->kind) {
    case SUPER:
        return pgasi_super_create(opts, (pgasi_super_t **)&s->object);
    case CIRCULAR:
        return pgasi_circular_create(opts, (pgasi_circular_t **)&s->object);
    case LINEAR:
        return pgasi_linear_create(opts, (pgasi_linear_t **)&s->object);
    default:
        return pgasi_general_create(opts, (pgasi_general_t **)&s->object);
    }
}

static pgas_status_t acquire_from(const subject_t *s, size_t bytes, pgas_block_t *block_p)
{
    switch (s->kind) {
    case SUPER:
        return pgasi_super_acquire(s->object, bytes, block_p);
    case CIRCULAR:
        return pgasi_circular_acquire(s->object, bytes, block_p);
    case LINEAR:
        return pgasi_linear_acquire(s->object, bytes, block_p);
    default:
        return pgasi_general_acquire(s->object, bytes, block_p);
    }
}

static pgas_status_t acquire(subject_t *s, size_t bytes, pgas_block_t *block_p)
{
    pgas_status_t status = acquire_from(s, bytes, block_p);
    if (status != PGAS_OK)
        return status;
    if (s->mistake == OVERLAPS && s->last.address && block_p->bytes <= s->last.bytes) {
        block_p->address = s->last.address;
        block_p->ptr = s->last.ptr;
    } else if (s->mistake == MISALIGNS) {
        block_p->address = (char *)block_p->address + 8;
        block_p->ptr += 8;
    }
    s->last = *block_p;
    return status;
}

static pgas_status_t release(subject_t *s, const pgas_block_t *block)
{
    if (s->mistake == FORGETS)
        return PGAS_OK;
    switch (s->kind) {
    case SUPER:
        return pgasi_super_release(s->object, block);
    case CIRCULAR:
        return pgasi_circular_release(s->object, block);
    case LINEAR:
        return pgasi_linear_release(s->object, block);
    default:
        return pgasi_general_release(s->object, block);
    }
}

static pgas_status_t retire(subject_t *s, const pgas_block_t *block, uint64_t number)
{
    return s->kind == CIRCULAR ? pgasi_circular_retire(s->object, block, number)
                               : pgasi_linear_retire(s->object, block, number);
}

static void complete(subject_t *s, uint64_t number)
{
    if (s->kind == CIRCULAR)
        pgasi_circular_complete(s->object, number);
    else
        pgasi_linear_complete(s->object, number);
}

static void trim(subject_t *s)
{
    if (s->kind == SUPER)
        pgasi_super_trim(s->object);
    else if (s->kind == CIRCULAR)
        pgasi_circular_trim(s->object);
    else if (s->kind == LINEAR)
        pgasi_linear_trim(s->object);
    else
        pgasi_general_trim(s->object);
}

static pgas_pool_info_t info(const subject_t *s)
{
    pgas_pool_info_t i = { 0 };
    if (s->kind == SUPER)
        pgasi_super_info(s->object, &i);
    else if (s->kind == CIRCULAR)
        pgasi_circular_info(s->object, &i);
    else if (s->kind == LINEAR)
        pgasi_linear_info(s->object, &i);
    else
        pgasi_general_info(s->object, &i);
    return i;
}

static void destroy(subject_t *s)
{
    if (s->kind == SUPER)
        pgasi_super_destroy(s->object);
    else if (s->kind == CIRCULAR)
        pgasi_circular_destroy(s->object);
    else if (s->kind == LINEAR)
        pgasi_linear_destroy(s->object);
    else
        pgasi_general_destroy(s->object);
    s->object = NULL;
}

/* ---- random steps; the model is a list of blocks with marks ---- */

typedef struct {
    pgas_block_t block;
    unsigned char mark;
    bool retired;
    uint64_t number;
} live_t;

typedef struct {
    subject_t s;
    live_t live[LIVE_MAX];
    int n_live, n_bad, n_again;
    size_t alignment, max_bytes, used;
    uint64_t number, completed;
} run_t;

static bool overlap(const pgas_block_t *a, const pgas_block_t *b)
{
    return a->ptr < b->ptr + b->bytes && b->ptr < a->ptr + a->bytes;
}

static bool is_marked(const live_t *l)
{
    const unsigned char *at = l->block.address;
    for (size_t i = 0; i < l->block.bytes; i++)
        if (at[i] != l->mark)
            return false;
    return true;
}

static bool is_good(const run_t *run, const pgas_block_t *b, size_t bytes)
{
    bool good = b->bytes == bytes && (uintptr_t)b->address % run->alignment == 0 &&
                pgas_gptr_of(b->address) == b->ptr && pgas_gptr_local(b->ptr, bytes) == b->address;
    for (int i = 0; i < run->n_live; i++)
        good = good && !overlap(b, &run->live[i].block);
    return good;
}

static void step_acquire(run_t *run, pgasi_rng_t *rng)
{
    uint64_t dice = pgasi_rng_below(rng, 50);
    size_t limit = dice < 10 ? UNIT : 300;
    if (dice == 0)
        limit = 5 * UNIT;
    size_t bytes = 1 + pgasi_rng_below(rng, limit);
    pgas_block_t block;
    if (run->n_live == LIVE_MAX)
        return;
    pgas_status_t status = acquire(&run->s, bytes, &block);
    if (status == PGAS_OK) {
        if (!is_good(run, &block, bytes)) {
            run->n_bad++;
            return;
        }
        live_t *l = &run->live[run->n_live++];
        *l = (live_t){ block, (unsigned char)pgasi_rng_u64(rng), false, 0 };
        memset(block.address, l->mark, bytes);
        return;
    }
    run->n_again++;
    pgas_pool_info_t i = info(&run->s); /* it has grown as far as it may, and something is out */
    run->n_bad += status != PGAS_ERR_AGAIN || run->n_live == 0 ||
                  i.bytes + PGASI_ALIGN_UP(bytes, UNIT) <= i.max_bytes;
}

static void forget(run_t *run, int which)
{
    run->n_bad += !is_marked(&run->live[which]);
    run->live[which] = run->live[--run->n_live];
}

static void step_give_back(run_t *run, pgasi_rng_t *rng)
{
    int which = run->n_live ? (int)pgasi_rng_below(rng, (uint64_t)run->n_live) : -1;
    if (which < 0 || run->live[which].retired)
        return;
    live_t *l = &run->live[which];
    if ((run->s.kind == CIRCULAR || run->s.kind == LINEAR) && pgasi_rng_below(rng, 3)) {
        l->retired = true;
        l->number = ++run->number;
        run->n_bad += retire(&run->s, &l->block, l->number) != PGAS_OK;
        return;
    }
    run->n_bad += !is_marked(l);
    pgas_block_t block = l->block;
    run->live[which] = run->live[--run->n_live];
    memset(block.address, 0xEE, block.bytes);
    run->n_bad += release(&run->s, &block) != PGAS_OK;
}

/* Retired blocks are the network's until their number is complete: they must keep their contents
 * until then. */
static void step_complete(run_t *run, uint64_t number)
{
    run->completed = PGASI_MAX(run->completed, number);
    for (int i = run->n_live - 1; i >= 0; i--)
        if (run->live[i].retired && run->live[i].number <= run->completed)
            forget(run, i);
    if (run->s.kind == CIRCULAR || run->s.kind == LINEAR)
        complete(&run->s, number);
}

static void check_numbers(run_t *run)
{
    pgas_pool_info_t i = info(&run->s);
    pgas_heap_info_t heap = { .size = sizeof heap };
    size_t sum = 0;
    pgas_heap_info(&heap);
    for (int k = 0; k < run->n_live; k++)
        sum += run->live[k].block.bytes;
    run->n_bad += i.bytes > i.max_bytes || i.max_bytes != run->max_bytes ||
                  i.high_bytes < i.bytes || i.high_bytes > i.max_bytes || i.used_bytes < sum ||
                  i.used_bytes > i.bytes || i.n_blocks < (size_t)run->n_live ||
                  heap.local_bytes != i.bytes;
    if (run->s.kind == SUPER || run->s.kind == GENERAL)
        run->n_bad += i.n_blocks != (size_t)run->n_live;
}

static void all_comes_back(run_t *run)
{
    for (int i = run->n_live - 1; i >= 0; i--)
        if (!run->live[i].retired)
            run->n_bad += release(&run->s, &run->live[i].block) != PGAS_OK;
    step_complete(run, run->number);
    run->n_live = 0;
    pgas_pool_info_t i = info(&run->s);
    run->n_bad += i.used_bytes != 0 || i.n_blocks != 0;
    trim(&run->s);
    i = info(&run->s);
    run->n_bad += i.bytes != 0 || i.n_chunks != 0;
    pgas_block_t all; /* and in one piece */
    run->n_bad +=
        acquire(&run->s, run->max_bytes, &all) != PGAS_OK || release(&run->s, &all) != PGAS_OK;
}

/* How many promises were broken. */
static int random_steps(kind_t kind, uint64_t seed, mistake_t mistake, int *n_again_p)
{
    static run_t run;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    int n_bad = 0;
    for (int round = 0; round < 8; round++) {
        pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
        size_t max_units = 8 + pgasi_rng_below(&rng, 30);
        opts.unit_bytes = UNIT;
        opts.max_bytes = max_units * UNIT + pgasi_rng_below(&rng, UNIT);
        opts.growth = round % 2 ? PGAS_GROWTH_LINEAR : PGAS_GROWTH_EXPONENTIAL;
        opts.grow_units = (uint32_t)pgasi_rng_below(&rng, 5);
        opts.alignment = round < 4 ? 0 : (size_t)1 << pgasi_rng_below(&rng, 11);
        memset(&run, 0, sizeof run);
        run.s = (subject_t){ .kind = kind, .mistake = mistake };
        run.alignment = opts.alignment ? opts.alignment : 64;
        run.max_bytes = max_units * UNIT;
        if (create(&run.s, &opts) != PGAS_OK)
            return 1000000;
        for (int i = 0; i < 3000; i++) {
            uint64_t dice = pgasi_rng_below(&rng, 100);
            if (dice < (i / 300 % 2 ? 35u : 60u))
                step_acquire(&run, &rng);
            else if (dice < 97)
                step_give_back(&run, &rng);
            else
                step_complete(&run, pgasi_rng_below(&rng, run.number + 1));
            if (i % 50 == 0)
                check_numbers(&run);
        }
        all_comes_back(&run);
        destroy(&run.s);
        n_bad += run.n_bad;
        if (n_again_p)
            *n_again_p += run.n_again;
    }
    return n_bad;
}

static void models(uint64_t seed)
{
    for (kind_t kind = 0; kind < N_KINDS; kind++) {
        int n_again = 0;
        is_int(random_steps(kind, seed + kind, RIGHT, &n_again), 0,
               "%s: 24000 random steps, limits and contents kept", names[kind]);
        ok(n_again > 0, "%s: and the limit was met (%d times)", names[kind], n_again);
    }
    ok(random_steps(GENERAL, seed, OVERLAPS, NULL) > 0, "blocks that overlap are noticed");
    ok(random_steps(CIRCULAR, seed, FORGETS, NULL) > 0, "blocks that do not come back are noticed");
    ok(random_steps(LINEAR, seed, MISALIGNS, NULL) > 0, "blocks at odd addresses are noticed");
}

/* ---- where blocks are: a naive model of one super-chunk ---- */

#define GRAINS 256 /* of 64 bytes (units: of 4096) */

typedef struct {
    int owner[GRAINS]; /* 0: free */
    int at[LIVE_MAX], n[LIVE_MAX];
    bool done[LIVE_MAX];
    int first, last, head; /* of blocks in order; of the ring */
} naive_t;

static bool is_free(const naive_t *m, int at, int n)
{
    for (int i = at; i < at + n; i++)
        if (i >= GRAINS || m->owner[i])
            return false;
    return true;
}

static int free_run(const naive_t *m, int at)
{
    int n = 0;
    while (at + n < GRAINS && !m->owner[at + n])
        n++;
    return n;
}

static int first_fit(const naive_t *m, int n)
{
    for (int at = 0; at + n <= GRAINS; at++)
        if (is_free(m, at, n))
            return at;
    return -1;
}

static int best_fit(const naive_t *m, int n)
{
    int best = -1, best_run = GRAINS + 1;
    for (int at = 0; at < GRAINS; at++) {
        int run = at && !m->owner[at - 1] ? 0 : free_run(m, at);
        if (run >= n && run < best_run) {
            best = at;
            best_run = run;
        }
    }
    return best;
}

static int next_in_ring(naive_t *m, int n)
{
    if (m->first == m->last)
        m->head = 0;
    bool wraps = m->head + n > GRAINS || (m->head < GRAINS && !is_free(m, m->head, n));
    int at = wraps && m->first != m->last && m->at[m->first] < m->head ? 0 : m->head;
    return is_free(m, at, n) && at + n <= GRAINS ? at : -1;
}

static void mark(naive_t *m, int i, int owner)
{
    for (int k = m->at[i]; k < m->at[i] + m->n[i]; k++)
        m->owner[k] = owner;
}

static int choose(naive_t *m, kind_t kind, int n, bool wrong)
{
    if (kind == CIRCULAR)
        return wrong ? first_fit(m, n) : next_in_ring(m, n);
    return (kind == SUPER) != wrong ? first_fit(m, n) : best_fit(m, n);
}

/* The first step at which the model differs, or -1. */
static int same_places(kind_t kind, uint64_t seed, bool wrong)
{
    static naive_t m;
    static pgas_block_t blocks[LIVE_MAX];
    size_t grain = kind == SUPER ? UNIT : 64;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    subject_t s = { .kind = kind };
    pgas_block_t block;
    pgasi_rng_t rng;
    pgasi_rng_seed(&rng, seed);
    opts.unit_bytes = UNIT;
    opts.max_bytes = GRAINS * grain;
    opts.grow_units = (uint32_t)(opts.max_bytes / UNIT);
    if (create(&s, &opts) != PGAS_OK || acquire(&s, opts.max_bytes, &block) != PGAS_OK)
        return 0;
    char *base = block.address;
    release(&s, &block);
    int differs = -1;
    for (int round = 0; round < 40 && differs < 0; round++) {
        memset(&m, 0, sizeof m);
        for (int i = 0; i < 300 && differs < 0; i++) {
            if (pgasi_rng_below(&rng, 100) < 52) {
                int n = 1 + (int)pgasi_rng_below(&rng, pgasi_rng_below(&rng, 8) ? 12 : 120),
                    at = choose(&m, kind, n, wrong);
                pgas_status_t status = acquire(&s, (size_t)n * grain, &block);
                if (at < 0 ? status != PGAS_ERR_AGAIN
                           : status != PGAS_OK || block.address != base + (size_t)at * grain) {
                    differs = round * 300 + i;
                } else if (status == PGAS_OK) {
                    int k = m.last++;
                    m.at[k] = at;
                    m.n[k] = n;
                    m.done[k] = false;
                    m.head = at + n;
                    blocks[k] = block;
                    mark(&m, k, k + 1);
                }
            } else if (m.last > m.first) {
                int k = m.first +
                        (int)pgasi_rng_below(&rng, PGASI_MIN((uint64_t)(m.last - m.first), 6));
                if (!m.done[k]) {
                    m.done[k] = true;
                    release(&s, &blocks[k]);
                    if (kind != CIRCULAR)
                        mark(&m, k, 0);
                }
                for (; m.first < m.last && m.done[m.first]; m.first++)
                    if (kind == CIRCULAR)
                        mark(&m, m.first, 0);
            }
        }
        for (int k = m.first; k < m.last; k++)
            if (!m.done[k])
                release(&s, &blocks[k]);
    }
    destroy(&s);
    return differs;
}

static void places(uint64_t seed)
{
    is_int(same_places(SUPER, seed, false), -1, "super: runs of units are where the first fit is");
    ok(same_places(SUPER, seed, true) >= 0, "which is not where a model by best fit looks");
    is_int(same_places(CIRCULAR, seed, false), -1,
           "circular: blocks are where a ring has them, refused when it has no room");
    ok(same_places(CIRCULAR, seed, true) >= 0, "which is not where the first fit is");
    is_int(same_places(GENERAL, seed, false), -1,
           "general: blocks are at the best fit, and neighbours join");
    ok(same_places(GENERAL, seed, true) >= 0, "which is not where the first fit is");
}

/* ---- promises one by one ---- */

/* Sizes of the super-chunks, one after the other, in units, as digits of a number. */
static int growth_of(pgas_growth_t growth, uint32_t grow_units, size_t max_units)
{
    pgasi_super_t *super;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.unit_bytes = UNIT;
    opts.max_bytes = max_units * UNIT;
    opts.growth = growth;
    opts.grow_units = grow_units;
    int digits = 0;
    size_t before = 0, chunks = 0;
    pgas_block_t block;
    pgas_pool_info_t i;
    pgasi_super_create(&opts, &super);
    while (pgasi_super_acquire(super, 1, &block) == PGAS_OK) {
        pgasi_super_info(super, &i);
        if (i.n_chunks != chunks)
            digits = digits * 10 + (int)((i.bytes - before) / UNIT);
        before = i.bytes;
        chunks = i.n_chunks;
    }
    pgasi_super_destroy(super);
    return digits;
}

static void growth(void)
{
    is_int(growth_of(PGAS_GROWTH_EXPONENTIAL, 0, 16), 11248,
           "exponential: each super-chunk as large as all before");
    is_int(growth_of(PGAS_GROWTH_EXPONENTIAL, 3, 14), 3362, "from 3 units on, up to the limit");
    is_int(growth_of(PGAS_GROWTH_LINEAR, 2, 9), 22221, "linear: 2 units each, up to the limit");
    is_int(growth_of(PGAS_GROWTH_LINEAR, 0, 4), 1111, "or one");
    is_int(growth_of(PGAS_GROWTH_DEFAULT, 0, 4), 112, "PGAS_POOL_GROWTH is exponential");
}

static void bulk(kind_t kind)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    subject_t s = { .kind = kind };
    pgas_block_t b[64], more;
    opts.unit_bytes = UNIT;
    opts.max_bytes = 4 * UNIT;
    create(&s, &opts);
    int n_bad = 0;
    for (int i = 0; i < 64; i++)
        n_bad += acquire(&s, 256, &b[i]) != PGAS_OK;
    for (int i = 0; i < 64; i++)
        n_bad += retire(&s, &b[i], (uint64_t)(i + 1)) != PGAS_OK;
    n_bad += acquire(&s, 256, &more) != PGAS_ERR_AGAIN;
    complete(&s, 15);
    complete(&s, 3);
    size_t after_15 = info(&s).n_blocks;
    complete(&s, 48);
    size_t after_48 = info(&s).n_blocks;
    /* one of four units each is complete with 16 blocks */
    is_int(after_15 * 100 + after_48, kind == CIRCULAR ? 4916 : 6416,
           "%s: all blocks up to a number come free at once", names[kind]);
    n_bad += retire(&s, &b[20], 60) != PGAS_ERR_INVALID || release(&s, &b[20]) != PGAS_ERR_INVALID;
    n_bad +=
        acquire(&s, 256, &more) != PGAS_OK || retire(&s, &more, UINT64_MAX) != PGAS_ERR_INVALID;
    n_bad += retire(&s, &more, 48) != PGAS_OK; /* complete already */
    complete(&s, UINT64_MAX - 1);
    n_bad += info(&s).n_blocks != 0;
    is_int(n_bad, 0, "%s: a block is retired once, and refused without room", names[kind]);
    destroy(&s);
}

static void one_that_stays(void)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_block_t stays, b;
    int n[2] = { 0, 0 };
    opts.unit_bytes = UNIT;
    opts.max_bytes = 4 * UNIT;
    for (kind_t kind = CIRCULAR; kind <= LINEAR; kind++) {
        subject_t s = { .kind = kind };
        create(&s, &opts);
        acquire(&s, 64, &stays);
        while (n[kind - CIRCULAR] < 1000 && acquire(&s, 1024, &b) == PGAS_OK) {
            release(&s, &b);
            n[kind - CIRCULAR]++;
        }
        destroy(&s);
    }
    ok(n[0] >= 12 && n[0] < 16,
       "circular: a block that is not released keeps later ones from reuse");
    is_int(n[1], 1000, "linear: it does not");
}

static void large_blocks(void)
{
    const size_t gib = (size_t)1 << 30;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    opts.unit_bytes = 2 << 20;
    opts.max_bytes = 7 * gib;
    opts.owner = "large";
    for (kind_t kind = 0; kind < N_KINDS; kind++) {
        subject_t s = { .kind = kind };
        pgas_block_t small, large;
        int n_bad = create(&s, &opts) != PGAS_OK || acquire(&s, 100, &small) != PGAS_OK;
        n_bad += acquire(&s, 3 * gib + 5, &large) != PGAS_OK;
        if (!n_bad) {
            char *a = large.address;
            for (size_t at = 0; at < large.bytes; at += gib / 2 + 4099)
                a[at] = (char)(at >> 20);
            a[large.bytes - 1] = 77;
            for (size_t at = 0; at < large.bytes; at += gib / 2 + 4099)
                n_bad += a[at] != (char)(at >> 20);
            n_bad += a[large.bytes - 1] != 77 || pgas_gptr_of(a + 3 * gib) != large.ptr + 3 * gib;
            n_bad += pgas_gptr_local(large.ptr + 3 * gib, 5) != a + 3 * gib;
            n_bad += release(&s, &small) != PGAS_OK || release(&s, &large) != PGAS_OK ||
                     info(&s).used_bytes != 0;
        }
        is_int(n_bad, 0, "%s: a block of 3 GiB", names[kind]);
        destroy(&s);
    }
}

static void refusals(void)
{
    for (kind_t kind = 0; kind < N_KINDS; kind++) {
        pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
        subject_t s = { .kind = kind };
        pgas_block_t b = { 0 }, old;
        int n_bad = 0;
        opts.size = 4;
        n_bad += create(&s, &opts) != PGAS_ERR_INVALID;
        opts.size = sizeof opts;
        opts.alignment = 48;
        n_bad += create(&s, &opts) != PGAS_ERR_INVALID;
        opts.alignment = 8192;
        n_bad += create(&s, &opts) != PGAS_ERR_INVALID;
        opts.alignment = 0;
        opts.growth = (pgas_growth_t)7;
        n_bad += create(&s, &opts) != PGAS_ERR_INVALID;
        opts.growth = PGAS_GROWTH_DEFAULT;
        opts.zone = -7;
        n_bad += create(&s, &opts) != PGAS_ERR_INVALID;
        opts.zone = PGAS_ZONE(1);
        n_bad += create(&s, &opts) != PGAS_ERR_NOT_FOUND;
        opts.zone = PGAS_ZONE(0);
        opts.unit_bytes = 4 * UNIT;
        opts.max_bytes = UNIT;
        n_bad += create(&s, &opts) != PGAS_ERR_LIMIT || s.object;
        opts.max_bytes = 8 * UNIT;
        n_bad += create(&s, &opts) != PGAS_OK;
        n_bad += acquire(&s, 0, &b) != PGAS_ERR_INVALID ||
                 acquire(&s, 8 * UNIT + 1, &b) != PGAS_ERR_LIMIT;
        n_bad += acquire(&s, SIZE_MAX, &b) != PGAS_ERR_LIMIT || b.address;
        n_bad += acquire(&s, 100, &b) != PGAS_OK;
        old = b;
        b.ptr += 64;
        b.ticket += 5;
        n_bad += release(&s, &b) != PGAS_ERR_INVALID || pgas_free_on(old.ptr) != PGAS_ERR_INVALID;
        n_bad += release(&s, &old) != PGAS_OK || release(&s, &old) != PGAS_ERR_INVALID;
        destroy(&s);
        opts.owner = "too much";
        opts.unit_bytes = 0;
        opts.max_bytes = (size_t)1 << 42;
        n_bad +=
            create(&s, &opts) != PGAS_OK || acquire(&s, (size_t)1 << 41, &b) != PGAS_ERR_NO_MEMORY;
        n_bad +=
            acquire(&s, 64, &b) != PGAS_OK || acquire(&s, (size_t)1 << 41, &old) != PGAS_ERR_AGAIN;
        destroy(&s);
        is_int(n_bad, 0, "%s: refusals", names[kind]);
    }
    pgasi_super_destroy(NULL);
    pgasi_circular_destroy(NULL);
    pgasi_linear_destroy(NULL);
    pgasi_general_destroy(NULL);
    ok(pgasi_super_create(NULL, NULL) == PGAS_ERR_INVALID &&
           pgasi_circular_create(NULL, NULL) == PGAS_ERR_INVALID &&
           pgasi_linear_create(NULL, NULL) == PGAS_ERR_INVALID &&
           pgasi_general_create(NULL, NULL) == PGAS_ERR_INVALID,
       "nowhere to put it");
}

static uint64_t owner_bytes(const char *name, uint64_t *high_p, uint64_t *max_p)
{
    pgas_mem_owner_t owners[PGASI_REG_OWNERS_MAX];
    int n = pgasi_regmem_owners(owners, PGASI_REG_OWNERS_MAX);
    for (int i = 0; i < n; i++) {
        if (strcmp(owners[i].name, name) == 0) {
            *high_p = owners[i].high_bytes;
            *max_p = owners[i].max_bytes;
            return owners[i].bytes;
        }
    }
    return UINT64_MAX;
}

static void owners(void)
{
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    subject_t s[2] = { { .kind = SUPER }, { .kind = GENERAL } };
    pgas_block_t b;
    uint64_t high = 0, max = 0;
    opts.owner = "tester";
    opts.unit_bytes = UNIT;
    opts.max_bytes = 10 * UNIT;
    for (int i = 0; i < 2; i++) {
        create(&s[i], &opts);
        acquire(&s[i], 3 * UNIT, &b);
    }
    ok(owner_bytes("tester", &high, &max) == 6 * UNIT && high == 6 * UNIT && max == 20 * UNIT,
       "bytes, high water and limit of two allocators of one owner");
    destroy(&s[0]);
    ok(owner_bytes("tester", &high, &max) == 3 * UNIT && high == 6 * UNIT && max == 10 * UNIT,
       "and when one is gone");
    ok(owner_bytes("nobody", &high, &max) == UINT64_MAX, "who never had any is not there");
    destroy(&s[1]);
}

static void zones(void)
{
    pgas_gptr_t a = PGAS_NULL, b = PGAS_NULL, c = PGAS_NULL;
    uint64_t high = 0, max = 0;
    pgasi_block_zone_always = true;
    int n_bad = pgas_n_zones() != 1 || pgasi_block_alloc(PGAS_ZONE(0), 1000, &a) != PGAS_OK;
    n_bad += pgasi_block_alloc(PGAS_ZONE_OWN, 5000000, &b) != PGAS_OK ||
             pgasi_block_alloc(PGAS_ZONE_NONE, 1, &c) != PGAS_OK;
    memset(pgas_gptr_local(a, 1000), 1, 1000);
    memset(pgas_gptr_local(b, 5000000), 2, 5000000);
    n_bad += *(char *)pgas_gptr_local(a + 999, 1) != 1 || a % 64 || b % 64 || c % 64;
    n_bad += owner_bytes("zones", &high, &max) < 5001000 ||
             owner_bytes("pgas_alloc_on", &high, &max) < 1 ||
             pgasi_block_free(PGAS_NULL) != PGAS_OK;
    n_bad += pgasi_block_free(a) != PGAS_OK || pgasi_block_free(b) != PGAS_OK ||
             pgasi_block_free(c) != PGAS_OK;
    is_int(n_bad, 0, "blocks of the rank's zones");
    pgas_gptr_t none = 1;
    n_bad = pgasi_block_free(b) != PGAS_ERR_INVALID ||
            pgasi_block_free(pgas_gptr_make(1, 1 << 30)) != PGAS_ERR_INVALID;
    n_bad += pgasi_block_alloc(PGAS_ZONE(1), 8, &none) != PGAS_ERR_NOT_FOUND;
    n_bad += pgasi_block_alloc(-2, 8, &none) != PGAS_ERR_INVALID ||
             pgasi_block_alloc(0, 8, NULL) != PGAS_ERR_INVALID;
    n_bad += pgasi_block_alloc(0, (size_t)17 << 30, &none) != PGAS_ERR_NO_MEMORY || none != 1;
    n_bad += pgasi_block_alloc(0, 64, &a) != PGAS_OK ||
             pgasi_block_alloc(0, (size_t)16 << 30, &none) != PGAS_ERR_NO_MEMORY;
    n_bad += pgasi_block_alloc(0, 0, &none) != PGAS_OK || none != PGAS_NULL;
    pgasi_block_zone_always = false;
    is_int(n_bad + (pgasi_block_free(a) != PGAS_OK), 0, "and refusals");
}

int main(void)
{
    plan(46);
    uint64_t seed = tap_seed(20240109);
    ok(lone_init(1, "HEAP_SIZE=16G SERVICE_THREADS=0 MEMORY_LIMIT=1T") == PGAS_OK, "init");
    models(seed);
    places(seed);
    growth();
    bulk(CIRCULAR);
    bulk(LINEAR);
    one_that_stays();
    large_blocks();
    refusals();
    owners();
    zones();
    pgasi_general_t *left = NULL;
    pgas_block_t b;
    ok(pgasi_general_create(NULL, &left) == PGAS_OK &&
           pgasi_general_acquire(left, 100, &b) == PGAS_OK,
       "one is left over");
    is_int(pgas_finalize(), PGAS_OK, "which finalize frees");
    pgasi_super_t *super;
    is_int(pgasi_super_create(NULL, &super), PGAS_ERR_NOT_INIT, "and then there is no library");
    return done();
}
