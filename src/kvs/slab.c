/* Slabs. Classes grow by 8 bytes up to 128, then by an eighth of a power of two, so a block wastes
 * at most an eighth. A store of 10^6 keys with 80 bytes each takes 96 bytes a key here.
 *
 * A slab is in its class's list while it has a free block. When all its blocks are free, its pages
 * become free, unless it is the only slab in the list. Slabs are taken from the lowest free pages,
 * runs from the highest ones, so that they do not fragment each other. */
#include "kvs/slab.h"

#include <string.h>
#include "base/checks.h"
#include "base/spin.h"

#define N_SPINS        64
#define LINEAR_MAX     128u
#define LEAST          32u
#define LINEAR_CLASSES ((LINEAR_MAX - LEAST) / 8 + 1)
#define PAGES_PER_SLAB 8u

PGASI_STATIC_ASSERT(sizeof(pgasi_slab_class_t) == PGASI_CACHELINE, "a class is a cache line");
PGASI_STATIC_ASSERT(LINEAR_CLASSES + 8 * 8 == PGASI_SLAB_CLASSES, "up to 32 KiB");
PGASI_STATIC_ASSERT(LEAST + 8 * PGASI_SLAB_CLASS_64 == 64, "its name");

uint32_t pgasi_slab_class(size_t bytes)
{
    if (bytes <= LINEAR_MAX)
        return bytes <= LEAST ? 0 : (uint32_t)((bytes - LEAST + 7) / 8);
    if (bytes > PGASI_SLAB_BLOCK_MAX)
        return PGASI_SLAB_RUN;
    uint32_t last = (uint32_t)bytes - 1;
    uint32_t log2 = 31 - (uint32_t)__builtin_clz(last); /* 7 .. 14 */
    return LINEAR_CLASSES + (log2 - 7) * 8 + ((last >> (log2 - 3)) & 7);
}

uint32_t pgasi_slab_class_bytes(uint32_t class_number)
{
    if (class_number < LINEAR_CLASSES)
        return LEAST + 8 * class_number;
    uint32_t step = class_number - LINEAR_CLASSES;
    return (9 + step % 8) << (4 + step / 8);
}

/* ---- pages ---- */

static uint8_t *bitmap_of(char *base, const pgasi_slabs_t *slabs)
{
    return (uint8_t *)(base + slabs->bitmap);
}

static pgasi_slab_t *slab_at(char *base, const pgasi_slabs_t *slabs, uint32_t number)
{
    return (pgasi_slab_t *)(void *)(base + slabs->slabs) + number;
}

/* @return false: it is taken, perhaps by a process that died */
static bool lock(const pgasi_slabs_t *slabs, int *word)
{
    for (uint32_t n = 0; !pgasi_spin_try(word); n++)
        if (n < N_SPINS)
            pgasi_cpu_relax();
        else if (pgasi_slabs_are_broken(slabs))
            return false;
        else
            sched_yield();
    return true;
}

/* Takes a whole slab. Returns its number + 1. A byte of the bitmap has the pages of a slab. */
static uint32_t take_slab(char *base, pgasi_slabs_t *slabs)
{
    uint8_t *bitmap = bitmap_of(base, slabs);
    uint32_t n = (uint32_t)(slabs->n_pages / PAGES_PER_SLAB), found = 0;
    if (!lock(slabs, &slabs->lock))
        return 0;
    uint32_t i = slabs->low;
    while (i < n && bitmap[i] != 0)
        i++;
    slabs->low = i;
    if (i < n) {
        bitmap[i] = 0xff;
        slabs->n_pages_used += PAGES_PER_SLAB;
        found = i + 1;
    }
    pgasi_spin_unlock(&slabs->lock);
    return found;
}

static bool is_used(const uint8_t *bitmap, uint64_t page)
{
    return bitmap[page / 8] >> (page % 8) & 1;
}

static void mark(char *base, pgasi_slabs_t *slabs, uint64_t page, uint64_t n, bool used)
{
    uint8_t *bitmap = bitmap_of(base, slabs);
    for (uint64_t i = page; i < page + n; i++)
        bitmap[i / 8] =
            (uint8_t)(used ? bitmap[i / 8] | 1u << (i % 8) : bitmap[i / 8] & ~(1u << (i % 8)));
    slabs->n_pages_used += used ? n : -n;
}

/* Returns 1 + the first page of the highest free run of n pages, or 0. */
static uint64_t find_run(const uint8_t *bitmap, uint64_t n_pages, uint64_t n)
{
    uint64_t free = 0;
    for (uint64_t page = n_pages; page-- > 0;) {
        if (page % 8 == 7 && bitmap[page / 8] == 0xff) {
            free = 0;
            page -= 7;
            continue;
        }
        free = is_used(bitmap, page) ? 0 : free + 1;
        if (free == n)
            return page + 1;
    }
    return 0;
}

static uint64_t take_run(char *base, pgasi_slabs_t *slabs, size_t bytes)
{
    uint64_t n = PGASI_DIV_UP(bytes, (uint64_t)1 << PGASI_SLAB_PAGE_SHIFT);
    if (n > slabs->n_pages)
        return 0;
    if (!lock(slabs, &slabs->lock))
        return 0;
    uint64_t page = find_run(bitmap_of(base, slabs), slabs->n_pages, n);
    if (page > 0) {
        mark(base, slabs, page - 1, n, true);
        slabs->n_run_bytes += bytes;
    }
    pgasi_spin_unlock(&slabs->lock);
    return page > 0 ? (slabs->first + ((page - 1) << PGASI_SLAB_PAGE_SHIFT)) / 8 : 0;
}

static void give_pages(char *base, pgasi_slabs_t *slabs, uint64_t page, uint64_t n, size_t run)
{
    if (!lock(slabs, &slabs->lock))
        return;
    mark(base, slabs, page, n, false);
    slabs->n_run_bytes -= run;
    slabs->low = PGASI_MIN(slabs->low, (uint32_t)(page / PAGES_PER_SLAB));
    pgasi_spin_unlock(&slabs->lock);
}

static void give_run(char *base, pgasi_slabs_t *slabs, uint64_t block, size_t bytes)
{
    uint64_t page = (block * 8 - slabs->first) >> PGASI_SLAB_PAGE_SHIFT;
    give_pages(base, slabs, page, PGASI_DIV_UP(bytes, (uint64_t)1 << PGASI_SLAB_PAGE_SHIFT), bytes);
}

/* ---- lists of partial slabs; the caller holds the lock of the class ---- */

static void list_add(char *base, const pgasi_slabs_t *slabs, pgasi_slab_class_t *c, uint32_t number)
{
    pgasi_slab_t *slab = slab_at(base, slabs, number);
    slab->prev = 0;
    slab->next = c->partial;
    if (c->partial)
        slab_at(base, slabs, c->partial - 1)->prev = number + 1;
    c->partial = number + 1;
}

static void list_remove(char *base, const pgasi_slabs_t *slabs, pgasi_slab_class_t *c,
                        uint32_t number)
{
    const pgasi_slab_t *slab = slab_at(base, slabs, number);
    if (slab->prev)
        slab_at(base, slabs, slab->prev - 1)->next = slab->next;
    else
        c->partial = slab->next;
    if (slab->next)
        slab_at(base, slabs, slab->next - 1)->prev = slab->prev;
}

static bool add_slab(char *base, pgasi_slabs_t *slabs, pgasi_slab_class_t *c, uint32_t class_number)
{
    uint32_t number = take_slab(base, slabs);
    if (number == 0)
        return false;
    pgasi_slab_t *slab = slab_at(base, slabs, number - 1);
    *slab = (pgasi_slab_t){ .class_number = class_number };
    list_add(base, slabs, c, number - 1);
    c->n_slabs++;
    return true;
}

/* Returns a slab without blocks + 1, or 0. The caller holds the lock of the class. */
static uint32_t find_empty(char *base, const pgasi_slabs_t *slabs, const pgasi_slab_class_t *c)
{
    uint32_t number = c->partial;
    while (number && slab_at(base, slabs, number - 1)->n_used > 0)
        number = slab_at(base, slabs, number - 1)->next;
    return number;
}

/* Frees the pages of the empty slab that each class may keep. The caller holds no lock. */
static bool give_empty_slabs(char *base, pgasi_slabs_t *slabs)
{
    bool given = false;
    for (uint32_t i = 0; i < PGASI_SLAB_CLASSES; i++) {
        pgasi_slab_class_t *c = &slabs->classes[i];
        if (!lock(slabs, &c->lock))
            return false;
        uint32_t number = find_empty(base, slabs, c);
        if (number) {
            list_remove(base, slabs, c, number - 1);
            c->n_slabs--;
        }
        pgasi_spin_unlock(&c->lock);
        if (number)
            give_pages(base, slabs, (uint64_t)(number - 1) * PAGES_PER_SLAB, PAGES_PER_SLAB, 0);
        given |= number != 0;
    }
    return given;
}

/* ---- blocks ---- */

static char *slab_start(char *base, const pgasi_slabs_t *slabs, uint32_t number)
{
    return base + slabs->first + ((uint64_t)number << PGASI_SLAB_SHIFT);
}

/* Readers that do not lock may still look at a block that was freed, so its words are stored by
 * atomic stores. */
static uint64_t try_alloc(char *base, pgasi_slabs_t *slabs, uint32_t number, size_t bytes)
{
    if (number == PGASI_SLAB_RUN)
        return take_run(base, slabs, bytes);
    pgasi_slab_class_t *c = &slabs->classes[number];
    uint32_t block_bytes = pgasi_slab_class_bytes(number), block;
    char *at = NULL;
    if (!lock(slabs, &c->lock))
        return 0;
    if (c->partial || add_slab(base, slabs, c, number)) {
        uint32_t first = c->partial - 1;
        pgasi_slab_t *slab = slab_at(base, slabs, first);
        if (slab->free) {
            block = slab->free - 1;
            at = slab_start(base, slabs, first) + (size_t)block * block_bytes;
            slab->free = (uint32_t)__atomic_load_n((uint64_t *)(void *)at, __ATOMIC_RELAXED);
        } else {
            block = slab->n_fresh++;
            at = slab_start(base, slabs, first) + (size_t)block * block_bytes;
        }
        slab->n_used++;
        c->n_blocks++;
        if (!slab->free && slab->n_fresh == PGASI_SLAB_BYTES / block_bytes)
            list_remove(base, slabs, c, first);
    }
    pgasi_spin_unlock(&c->lock);
    return at ? (uint64_t)(at - base) / 8 : 0;
}

uint64_t pgasi_slab_alloc(char *base, pgasi_slabs_t *slabs, size_t bytes)
{
    uint32_t number = pgasi_slab_class(bytes);
    uint64_t block = try_alloc(base, slabs, number, bytes);
    if (PGAS_UNLIKELY(!block) && give_empty_slabs(base, slabs))
        block = try_alloc(base, slabs, number, bytes);
    return block;
}

void pgasi_slab_free(char *base, pgasi_slabs_t *slabs, uint64_t block, size_t bytes)
{
    uint32_t class_number = pgasi_slab_class(bytes);
    if (class_number == PGASI_SLAB_RUN) {
        give_run(base, slabs, block, bytes);
        return;
    }
    pgasi_slab_class_t *c = &slabs->classes[class_number];
    uint32_t block_bytes = pgasi_slab_class_bytes(class_number);
    uint64_t at = block * 8 - slabs->first;
    uint32_t number = (uint32_t)(at >> PGASI_SLAB_SHIFT);
    pgasi_slab_t *slab = slab_at(base, slabs, number);
    if (!lock(slabs, &c->lock))
        return;
    PGASI_ASSERT(slab->class_number == class_number && slab->n_used > 0);
    bool was_full = !slab->free && slab->n_fresh == PGASI_SLAB_BYTES / block_bytes;
    __atomic_store_n((uint64_t *)(void *)(base + block * 8), slab->free, __ATOMIC_RELAXED);
    slab->free = (uint32_t)((at & (PGASI_SLAB_BYTES - 1)) / block_bytes) + 1;
    slab->n_used--;
    c->n_blocks--;
    if (was_full)
        list_add(base, slabs, c, number);
    bool gives = slab->n_used == 0 && (slab->next || slab->prev);
    if (gives) {
        list_remove(base, slabs, c, number);
        c->n_slabs--;
    }
    pgasi_spin_unlock(&c->lock);
    if (gives)
        give_pages(base, slabs, (uint64_t)number * PAGES_PER_SLAB, PAGES_PER_SLAB, 0);
}

void pgasi_slab_use(const pgasi_slabs_t *slabs, uint64_t *taken_p, uint64_t *used_p)
{
    uint64_t used = __atomic_load_n(&slabs->n_run_bytes, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < PGASI_SLAB_CLASSES; i++)
        used += __atomic_load_n(&slabs->classes[i].n_blocks, __ATOMIC_RELAXED) *
                pgasi_slab_class_bytes(i);
    *taken_p = __atomic_load_n(&slabs->n_pages_used, __ATOMIC_RELAXED) << PGASI_SLAB_PAGE_SHIFT;
    *used_p = used;
}

/* The bitmap and the list of slabs are in front of the first slab. */
bool pgasi_slabs_init(char *base, pgasi_slabs_t *slabs, uint64_t from, uint64_t end)
{
    uint64_t per_slab = 1 + sizeof(pgasi_slab_t);
    uint64_t first = 0, n = end > from ? (end - from) / (PGASI_SLAB_BYTES + per_slab) : 0;
    for (; n > 0; n--) {
        first = PGASI_ALIGN_UP(from + PGASI_ALIGN_UP(n, 64) + n * sizeof(pgasi_slab_t),
                               (uint64_t)PGASI_SLAB_BYTES);
        if (first + (n << PGASI_SLAB_SHIFT) <= end)
            break;
    }
    if (n == 0)
        return false;
    slabs->n_pages = n * PAGES_PER_SLAB;
    slabs->first = first;
    slabs->bitmap = from;
    slabs->slabs = from + PGASI_ALIGN_UP(n, 64);
    memset(base + from, 0, n);
    return true;
}
