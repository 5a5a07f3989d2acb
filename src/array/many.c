/* Many elements by index: get_many, set_many, update_many.
 *
 * The indices are taken in blocks. One announcement in the thread's slot covers all
 * elements of a block that mapping entries allow. First the function computes and prefetches their
 * addresses, then it loads, stores or combines the elements. So misses of the processor's caches
 * overlap, and the slot costs little. All other accesses are collected. They are passed to the
 * protocol before the thread waits for the first, so requests to all homes overlap and travel
 * together. */
#include <stdlib.h>
#include <string.h>

#include "array/access.h"
#include "array/protocol.h"
#include "array/record.h"
#include "array/words.h"
#include "base/checks.h"
#include "base/op.h"

#define CACHED (512 * 1024) /* bytes of arrays that are in the caches of a processor */
#define BLOCK  64           /* elements of one announcement */
#define MISSES 512 /* accesses passed to the protocol at once: a round trip serves so many */

/* The operation on each element. */
typedef struct {
    pgasi_array_kind_t kind;
    pgas_op_t op;
    const pgas_op_def_t *def; /* of op */
    size_t value_bytes;       /* from one value to the next */
    char *to;
    const char *from;
} work_t;

/* Accesses that mapping entries do not allow. Allocated for the first one. */
typedef struct {
    size_t n;
    pgasi_array_location_t loc[MISSES];
    pgasi_array_access_t x[MISSES];
} misses_t;

static pgas_status_t check(pgas_array_t *array, const uint64_t *index, size_t n, const void *values)
{
    pgas_status_t status = pgasi_array_check(array, 0);
    if (status == PGAS_ERR_RANGE && n == 0)
        status = PGAS_OK; /* an array of no elements */
    if (status != PGAS_OK || n == 0)
        return status;
    if (!index || !values)
        return PGAS_ERR_INVALID;
    uint64_t n_bad = 0;
    for (size_t k = 0; k < n; k++)
        n_bad += index[k] >= array->n_elems;
    return n_bad ? PGAS_ERR_RANGE : PGAS_OK;
}

/* ---- by mapping entries ---- */

/* Rights of a mapping entry that allow the accesses: by plain loads and stores, or by atomic
 * instructions. */
typedef struct {
    uint64_t own[2];             /* equal to one of these */
    uint64_t readers;            /* or with this bit: every thread of this rank may */
    uint64_t change, combine_op; /* with this bit, or equal to this: by atomic instructions */
} rights_t;

#define NO_RIGHTS UINT64_MAX

static rights_t rights_of(const pgas_array_t *array, const work_t *w)
{
    rights_t r = { { pgas_array_path.data, pgas_array_path.data }, 0, 0, NO_RIGHTS };
    bool wide = pgasi_array_of_const(array)->wide, some = pgas_array_path.read != 0;
    if (w->kind == PGASI_ARRAY_GET) {
        r.readers = pgas_array_path.read;
        return r;
    }
    r.change = some && !wide ? PGAS_ARRAY_RIGHT_CHANGE : 0;
    if (w->kind == PGASI_ARRAY_APPLY && !w->def->merge && some) {
        r.own[1] = (uint64_t)w->op << 32 | pgas_array_path.operate;
        r.combine_op = wide ? NO_RIGHTS : (uint64_t)w->op << 32 | PGAS_ARRAY_RIGHT_COMBINE;
    }
    return r;
}

/* Elements of a block: `at` those for plain instructions, `atomic_at` those for atomic ones. Their
 * numbers in the block are in `which`, by_atomics, and others for all others. */
typedef struct {
    size_t n, n_atomics, n_others;
    void *at[BLOCK], *atomic_at[BLOCK];
    uint8_t which[BLOCK], by_atomics[BLOCK], others[BLOCK];
} block_t;

/* Computes where the elements are, and prefetches them. */
PGAS_INLINE void sort_out(const pgas_array_t *array, const uint64_t *index, size_t n,
                          const rights_t *r, size_t elem, uint32_t shift, block_t *b)
{
    const pgas_array_mapping_t *table = array->table;
    b->n = b->n_atomics = b->n_others = 0;
    for (size_t k = 0; k < n; k++) {
        const pgas_array_mapping_t *mapping = &table[index[k] >> shift];
        uint64_t rights = pgas_array_rights(mapping);
        /* an integer sum: a mapping without rights may have no base */
        uintptr_t base = (uintptr_t)__atomic_load_n(&mapping->base, __ATOMIC_RELAXED);
        void *at = (void *)(base + index[k] * elem);
        if (PGAS_LIKELY(rights == r->own[0] || rights == r->own[1] || (rights & r->readers))) {
            __builtin_prefetch(at);
            b->which[b->n] = (uint8_t)k;
            b->at[b->n++] = at;
        } else if ((rights & r->change) || rights == r->combine_op) {
            __builtin_prefetch(at);
            b->by_atomics[b->n_atomics] = (uint8_t)k;
            b->atomic_at[b->n_atomics++] = at;
        } else {
            b->others[b->n_others++] = (uint8_t)k;
        }
    }
}

/* ---- the accesses of a block ---- */

static void get_block(const work_t *work, size_t elem, const block_t *b, size_t done)
{
    char *to = work->to + done * elem;
    switch (elem) {
#define GET(word)                                                               \
    case sizeof(word):                                                          \
        for (size_t k = 0; k < b->n; k++) {                                     \
            word w = __atomic_load_n((const word *)b->at[k], __ATOMIC_ACQUIRE); \
            memcpy(to + b->which[k] * sizeof w, &w, sizeof w);                  \
        }                                                                       \
        break;
        GET(uint8_t)
        GET(uint16_t)
        GET(uint32_t)
        GET(uint64_t)
#undef GET
    default:
        for (size_t k = 0; k < b->n; k++)
            memcpy(to + b->which[k] * elem, b->at[k], elem);
    }
}

/* A fence follows the stores that other threads may see at once. */
static void set_block(const work_t *work, size_t elem, const block_t *b, size_t done)
{
    const char *from = work->from + done * elem;
    switch (elem) {
#define STORE(word, n, place, at)                             \
    for (size_t k = 0; k < n; k++) {                          \
        word w;                                               \
        memcpy(&w, from + place[k] * sizeof w, sizeof w);     \
        __atomic_store_n((word *)at[k], w, __ATOMIC_RELAXED); \
    }
#define SET(word)                                              \
    case sizeof(word):                                         \
        STORE(word, b->n, b->which, b->at)                     \
        STORE(word, b->n_atomics, b->by_atomics, b->atomic_at) \
        break;
        SET(uint8_t)
        SET(uint16_t)
        SET(uint32_t)
        SET(uint64_t)
#undef SET
#undef STORE
    default:
        for (size_t k = 0; k < b->n; k++)
            memcpy(b->at[k], from + b->which[k] * elem, elem);
    }
    if (b->n_atomics)
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void apply_block(const work_t *work, size_t elem, const block_t *b, size_t n, size_t done)
{
    const char *from = work->from + done * work->value_bytes;
    if (b->n == n)
        pgasi_op_merge_at(work->def, b->at, from, n);
    for (size_t k = 0; k < b->n && b->n < n; k++)
        pgasi_op_merge_at(work->def, &b->at[k], from + b->which[k] * work->value_bytes, 1);
    for (size_t k = 0; k < b->n_atomics; k++)
        pgasi_array_combine_word(b->atomic_at[k], elem, work->op,
                                 work->def->merge ? work->def->merge : work->def->combine,
                                 from + b->by_atomics[k] * work->value_bytes);
}

/* Reads a block if all threads of this rank may read all of it, without looking at rights. Elements
 * of small arrays are in the processor's caches, so they are not prefetched.
 * @return false: some may not be read so, or elements are not words. */
PGAS_INLINE bool get_readable(const pgas_array_t *array, const uint64_t *index, size_t n, void *to,
                              size_t elem)
{
    uintptr_t base[BLOCK], all = 1; /* read once: a thread that withdraws them waits for this one */
    for (size_t k = 0; k < n; k++) {
        base[k] = pgas_array_readable(array, index[k]);
        all &= base[k];
    }
    if (!all)
        return false;
    for (size_t k = 0; k < n && array->n_elems * elem > CACHED; k++)
        __builtin_prefetch((const char *)base[k] - 1 + index[k] * elem);
    for (size_t k = 0; k < n; k++)
        pgasi_array_load_words((char *)to + k * elem, (const char *)base[k] - 1 + index[k] * elem,
                               elem, 1);
    return true;
}

static bool get_all(const pgas_array_t *array, const uint64_t *index, size_t n, const work_t *work,
                    size_t done)
{
    void *to = work->to + done * array->elem_bytes;
    if (array->limit[3])
        return get_readable(array, index, n, to, 8);
    return array->limit[2] ? get_readable(array, index, n, to, 4) : false;
}

/* Accesses the elements of a block that mapping entries allow, and leaves b->others. */
static void do_mapped(const pgas_array_t *array, const uint64_t *index, size_t n,
                      const work_t *work, size_t done, block_t *b)
{
    rights_t r = rights_of(array, work);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    if (work->kind == PGASI_ARRAY_GET && pgas_array_path.reader &&
        get_all(array, index, n, work, done)) {
        pgas_array_leave(slot);
        b->n_others = 0;
        return;
    }
    if (array->elem_bytes == 8 && array->shift == PGAS_ARRAY_SUBBLOCK_SHIFT)
        sort_out(array, index, n, &r, 8, PGAS_ARRAY_SUBBLOCK_SHIFT, b);
    else
        sort_out(array, index, n, &r, array->elem_bytes, array->shift, b);
    if (work->kind == PGASI_ARRAY_GET)
        get_block(work, array->elem_bytes, b, done);
    else if (work->kind == PGASI_ARRAY_SET)
        set_block(work, array->elem_bytes, b, done);
    else
        apply_block(work, array->elem_bytes, b, n, done);
    pgas_array_leave(slot);
}

/* ---- all others ---- */

static void add_miss(pgas_array_t *array, uint64_t i, const work_t *work, size_t at, misses_t *m)
{
    pgasi_array_location_t loc = pgasi_array_locate(&pgasi_array_of(array)->map, i);
    m->loc[m->n] = loc;
    m->x[m->n++] = (pgasi_array_access_t){ .kind = (uint8_t)work->kind,
                                           .once = true,
                                           .op = work->op,
                                           .k = (uint32_t)(i & array->mask),
                                           .n = 1,
                                           .chunk = loc.chunk,
                                           .in = work->from ? work->from + at : NULL,
                                           .out = work->to ? work->to + at : NULL };
}

static pgas_status_t do_misses(pgas_array_t *array, misses_t *m)
{
    size_t n = m ? m->n : 0;
    if (n == 0)
        return PGAS_OK;
    m->n = 0;
    return pgasi_array_do_all(pgasi_array_of(array), m->loc, m->x, n);
}

static misses_t *new_misses(void)
{
    misses_t *m = malloc(sizeof *m);
    if (m)
        m->n = 0;
    return m;
}

/* Records the operands of b->others for cold chunks. */
static pgas_status_t record(pgas_array_t *array, const uint64_t *index, const work_t *work,
                            size_t done, block_t *b)
{
    return pgasi_array_sparse_add_some(pgasi_array_of(array), index + done, work->op,
                                       work->def->operand_bytes,
                                       work->from + done * work->value_bytes, b->others,
                                       &b->n_others);
}

static void take_all(block_t *b, size_t n)
{
    b->n_others = n;
    for (size_t k = 0; k < n; k++)
        b->others[k] = (uint8_t)k;
}

static pgas_status_t do_many(pgas_array_t *array, const uint64_t *index, size_t n,
                             const work_t *work)
{
    misses_t *misses = NULL;
    block_t block;
    pgas_status_t status = PGAS_OK;
    bool all_cold = false; /* all chunks of the block before: then mapping entries hardly help */
    for (size_t done = 0; done < n && status == PGAS_OK; done += BLOCK) {
        size_t some = PGASI_MIN(n - done, (size_t)BLOCK);
        if (all_cold)
            take_all(&block, some);
        else
            do_mapped(array, index + done, some, work, done, &block);
        if (work->kind == PGASI_ARRAY_APPLY && block.n_others) {
            all_cold = block.n_others == some;
            status = record(array, index, work, done, &block);
            all_cold = all_cold && block.n_others == 0;
        }
        if (block.n_others && !misses && !(misses = new_misses()))
            return PGAS_ERR_NO_MEMORY;
        for (size_t k = 0; k < block.n_others; k++) {
            size_t at = done + block.others[k];
            add_miss(array, index[at], work, at * work->value_bytes, misses);
        }
        if (misses && misses->n > MISSES - BLOCK)
            status = do_misses(array, misses);
    }
    if (status == PGAS_OK)
        status = do_misses(array, misses);
    free(misses);
    return status;
}

/* ---- public functions ---- */

pgas_status_t pgas_array_get_many(pgas_array_t *array, const uint64_t *index, size_t n, void *to)
{
    pgas_status_t status = check(array, index, n, to);
    if (status != PGAS_OK || n == 0)
        return status;
    return do_many(array, index, n,
                   &(work_t){
                       .kind = PGASI_ARRAY_GET, .value_bytes = array->elem_bytes, .to = to });
}

pgas_status_t pgas_array_set_many(pgas_array_t *array, const uint64_t *index, size_t n,
                                  const void *from)
{
    pgas_status_t status = check(array, index, n, from);
    if (status != PGAS_OK || n == 0)
        return status;
    return do_many(array, index, n,
                   &(work_t){
                       .kind = PGASI_ARRAY_SET, .value_bytes = array->elem_bytes, .from = from });
}

/* The home refuses operators that it does not know. */
static pgas_status_t check_op_at_homes(pgas_array_t *array, const uint64_t *index, size_t n,
                                       pgas_op_t op)
{
    pgasi_array_t *a = pgasi_array_of(array);
    pgas_status_t status = PGAS_OK;
    for (size_t k = 0; k < n && status == PGAS_OK; k++) {
        pgasi_array_location_t loc = pgasi_array_locate(&a->map, index[k]);
        status = pgasi_array_check_op_at_home(a, &loc, op);
    }
    return status;
}

pgas_status_t pgas_array_update_many(pgas_array_t *array, const uint64_t *index, size_t n,
                                     pgas_op_t op, const void *operands)
{
    const pgas_op_def_t *def = NULL;
    pgas_status_t status = check(array, index, n, operands);
    if (status == PGAS_OK)
        status = pgasi_array_check_op(array, op, &def);
    if (status == PGAS_OK && def->operand_bytes > PGASI_ARRAY_CALL_BYTES)
        status = check_op_at_homes(array, index, n, op);
    if (status != PGAS_OK || n == 0)
        return status;
    return do_many(array, index, n,
                   &(work_t){ .kind = PGASI_ARRAY_APPLY,
                              .op = op,
                              .def = def,
                              .value_bytes = def->operand_bytes,
                              .from = operands });
}
