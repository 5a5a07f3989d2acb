/* what: Registered objects release memory of every source once. Blocks are reused, and sizes waste
 *       little. Without room in the heap objects take other memory. Other requests get memory that
 *       objects no longer use. Objects work before and after a job. Random vectors that share
 *       memory equal plain arrays.
 * needs: tsan-ok
 * log: no room in the heap for an object
 * log: pgas_alloc_on of [0-9]+ bytes does not fit
 * source: pgas/rma_object.h; seeded model test */
#include "base/checks.h"
#include "base/rng.h"
#include "mem/rma_object.h"
#include "mem/segment.h"
#include "pgas/mem.h"
#include "t/tap.h"
#include "t/unit/lone.h"

#define HEAP ((size_t)8 << 20)

static pgas_rma_info_t info(void)
{
    pgas_rma_info_t i = { .size = sizeof i };
    (void)pgas_rma_info(&i);
    return i;
}

static pgas_rma_object_t *create(size_t bytes)
{
    pgas_rma_object_t *object = NULL;
    (void)pgas_rma_object_create(bytes, &object);
    return object;
}

/* ---- where the memory comes from ---- */

static struct {
    int n;
    void *data, *arg;
    size_t bytes;
} released;

static void on_release(void *data, size_t bytes, void *arg)
{
    released.n++;
    released.data = data;
    released.bytes = bytes;
    released.arg = arg;
}

static int use_sources(bool registered)
{
    char text[100] = "some text";
    pgas_rma_object_t *o[5] = { NULL };
    int n_bad = pgas_rma_object_create(5000, &o[0]) != PGAS_OK;
    n_bad += pgas_rma_object_copy(text, sizeof text, &o[1]) != PGAS_OK;
    n_bad += pgas_rma_object_reference(text, sizeof text, on_release, &n_bad, &o[2]) != PGAS_OK;
    n_bad += pgas_rma_object_take(strdup(text), sizeof text, &o[3]) != PGAS_OK;
    n_bad += pgas_rma_object_reference(text, 0, NULL, NULL, &o[4]) != PGAS_OK;
    n_bad += strcmp(o[1]->data, text) != 0 || strcmp(o[3]->data, text) != 0 || o[2]->data != text;
    for (int i = 0; i < 5; i++) {
        n_bad += o[i]->n_holders != 1 || (o[i]->ptr != PGAS_NULL) != (registered && i < 2);
        n_bad += i < 2 && (uintptr_t)o[i]->data % 64 != 0;
        n_bad += i < 2 && registered && pgas_gptr_local(o[i]->ptr, o[i]->bytes) != o[i]->data;
    }
    memset(&released, 0, sizeof released);
    n_bad += info().n_objects != 5;
    n_bad += pgas_rma_object_share(o[2]) != o[2] || pgas_rma_object_destroy(o[2]) != PGAS_OK ||
             released.n;
    for (int i = 0; i < 5; i++)
        n_bad += pgas_rma_object_destroy(o[i]) != PGAS_OK;
    n_bad += released.n != 1 || released.data != text || released.bytes != sizeof text ||
             released.arg != &n_bad;
    return n_bad + (info().n_objects != 0 || info().object_bytes != 0);
}

/* Memory of the heap is registered, also if the program has allocated it. */
static int refer_to_heap(void)
{
    pgas_gptr_t block = PGAS_NULL, last = pgas_gptr_make(0, PGASI_HEAP_OFFSET + HEAP - 64);
    int n_bad = pgas_alloc_on(0, PGAS_ZONE_NONE, 1000, &block) != PGAS_OK;
    char *data = pgas_gptr_local(block, 1000), *end = (char *)pgas_gptr_local(last, 64) + 64;
    struct {
        char *data;
        size_t bytes;
        pgas_gptr_t ptr;
    } cases[] = { { data, 1000, block },        { data + 10, 20, block + 10 },
                  { end - 64, 64, last },       { end - 64, 65, PGAS_NULL },
                  { end, 1, PGAS_NULL },        { (char *)&block, 1, PGAS_NULL },
                  { data, SIZE_MAX, PGAS_NULL } };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(cases); i++) {
        pgas_rma_object_t *o = NULL;
        n_bad +=
            pgas_rma_object_reference(cases[i].data, cases[i].bytes, NULL, NULL, &o) != PGAS_OK ||
            o->ptr != cases[i].ptr || pgas_rma_object_destroy(o) != PGAS_OK;
    }
    return n_bad + (pgas_free_on(block) != PGAS_OK);
}

static int refuse(void)
{
    char byte = 0;
    pgas_rma_object_t *o = NULL;
    pgas_rma_info_t small = { .size = 0 };
    int n_bad = pgas_rma_object_create(1, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_rma_object_copy(NULL, 1, &o) != PGAS_ERR_INVALID || o;
    n_bad += pgas_rma_object_copy(&byte, 1, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_rma_object_reference(NULL, 1, NULL, NULL, &o) != PGAS_ERR_INVALID || o;
    n_bad += pgas_rma_object_reference(&byte, 1, NULL, NULL, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_rma_object_take(NULL, 1, &o) != PGAS_ERR_INVALID || o;
    n_bad += pgas_rma_object_take(&byte, 1, NULL) != PGAS_ERR_INVALID;
    n_bad += pgas_rma_object_create(SIZE_MAX, &o) != PGAS_ERR_NO_MEMORY || o;
    n_bad += pgas_rma_object_create(SIZE_MAX / 2, &o) != PGAS_ERR_NO_MEMORY || o;
    n_bad += pgas_rma_object_destroy(NULL) != PGAS_OK || pgas_rma_object_share(NULL);
    n_bad += pgas_rma_info(NULL) != PGAS_ERR_INVALID || pgas_rma_info(&small) != PGAS_ERR_INVALID;
    o = create(100);
    n_bad += pgas_rma_object_destroy(o) != PGAS_OK;
    n_bad += pgas_rma_object_destroy(o) != PGAS_ERR_INVALID; /* its record is kept */
    n_bad += pgas_rma_object_create(0, &o) != PGAS_OK || !o->data || o->bytes != 0;
    return n_bad + (pgas_rma_object_destroy(o) != PGAS_OK || info().n_objects != 0);
}

/* ---- sizes and reuse ---- */

static int count_bad_rooms(uint64_t seed, size_t (*room_of)(size_t))
{
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < 100000; i++) {
        size_t bytes = pgasi_rng_u64(&rng) >> (21 + pgasi_rng_below(&rng, 43));
        bytes += i % 3 == 0 ? 1 : 0;
        size_t room = room_of(bytes);
        n_bad += room < bytes || room % 64 != 0 || room - bytes > bytes / 4 + 64 ||
                 room_of(room) != room || room_of(room + 1) <= room;
    }
    return n_bad;
}

static size_t power_of_two(size_t bytes)
{
    size_t room = 64;
    while (room < bytes)
        room *= 2;
    return room;
}

static int reuse(void)
{
    pgas_rma_object_t *a = create(3000), *b = create(3000), *c = create(100000);
    void *data[3] = { a->data, b->data, c->data };
    uint64_t taken = info().pool_bytes;
    int n_bad = 0;
    pgas_rma_object_destroy(a);
    pgas_rma_object_destroy(b);
    pgas_rma_object_destroy(c);
    for (int i = 0; i < 1000; i++) {
        pgas_rma_object_t *large = create(100000), *last = create(2900), *first = create(3010);
        n_bad += large->data != data[2] || last->data != data[1] || first->data != data[0];
        n_bad += last->bytes != 2900 || first->bytes != 3010;
        pgas_rma_object_destroy(first);
        pgas_rma_object_destroy(large);
        pgas_rma_object_destroy(last);
    }
    return n_bad + (info().pool_bytes != taken || info().object_bytes != 0);
}

/* Large and many objects leave the lists of the thread, and come back from the common ones. */
static int use_common_lists(void)
{
    enum { N = 500 };
    pgas_rma_object_t *o[N];
    int n_bad = 0;
    uint64_t taken = 0;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < N; i++)
            o[i] = create(i % 100 == 0 ? (size_t)1200 << 10 : 4000);
        for (int i = 0; i < N; i++)
            memset(o[i]->data, i, o[i]->bytes);
        for (int i = 0; i < N; i++) {
            unsigned char *at = o[i]->data;
            n_bad += !o[i]->ptr && i % 100;
            n_bad += at[0] != i % 256 || at[o[i]->bytes - 1] != i % 256;
            pgas_rma_object_destroy(o[i]);
        }
        n_bad += round > 0 && info().pool_bytes > taken;
        taken = info().pool_bytes;
    }
    return n_bad + (info().object_bytes != 0);
}

/* ---- no room in the heap ---- */

static int fill_heap(void)
{
    enum { N = 2000 };
    pgas_rma_object_t *o[N];
    int n_bad = 0, n_registered = 0;
    uint64_t before = info().n_unregistered;
    for (int i = 0; i < N; i++) {
        o[i] = create(10000);
        n_registered += o[i]->ptr != PGAS_NULL;
        memset(o[i]->data, i, o[i]->bytes);
    }
    n_bad += n_registered < (int)(HEAP / 10240 / 2) || n_registered > (int)(HEAP / 10000);
    n_bad += info().n_unregistered - before != (uint64_t)(N - n_registered);
    for (int i = 0; i < N; i++) {
        n_bad += ((unsigned char *)o[i]->data)[9999] != i % 256;
        pgas_rma_object_destroy(o[i]);
    }
    pgas_rma_object_t *all = create(HEAP * 3 / 4), *more = create(HEAP + 1);
    n_bad += !all->ptr;                /* what was kept in small blocks */
    n_bad += more->ptr || !more->data; /* more than there is */
    n_bad += info().pool_bytes < HEAP * 3 / 4 || info().pool_high_bytes < info().pool_bytes;
    pgas_rma_object_destroy(all);
    pgas_rma_object_destroy(more);
    return n_bad + (info().object_bytes != 0);
}

static int give_to_others(void)
{
    pgas_gptr_t ptr = PGAS_NULL;
    pgas_pool_opts_t opts = PGAS_POOL_OPTS_INIT;
    pgas_pool_t *pool;
    pgas_block_t block;
    int n_bad = 0;
    size_t most = HEAP - ((size_t)1 << 20);
    for (int i = 0; i < 3; i++) {
        pgas_rma_object_t *all = create(HEAP * 3 / 4);
        n_bad += !all->ptr || pgas_alloc_on(0, PGAS_ZONE_NONE, most, &ptr) != PGAS_ERR_NO_MEMORY;
        pgas_rma_object_destroy(all);
        if (i == 0)
            n_bad += pgas_alloc_on(0, PGAS_ZONE_NONE, most, &ptr) != PGAS_OK ||
                     pgas_free_on(ptr) != PGAS_OK;
        if (i == 1)
            n_bad += pgas_alloc(most, &ptr) != PGAS_OK || pgas_free(ptr) != PGAS_OK;
    }
    opts.max_bytes = most;
    n_bad += pgas_pool_create(&opts, &pool) != PGAS_OK ||
             pgas_pool_acquire(pool, most, 0, &block) != PGAS_OK ||
             pgas_pool_destroy(pool) != PGAS_OK;
    return n_bad;
}

/* ---- vectors ---- */

PGAS_RMA_VECTOR(words, uint32_t)

#define VECTORS 6
#define MOST    3000

/* What a vector should contain, and the number of elements up to which it may have elements in
 * common with others. */
typedef struct {
    words_t v;
    uint32_t want[MOST];
    size_t n, common;
} pair_t;

static pair_t pairs[VECTORS];
static bool shares_too_much;

static void share(const pair_t *from, pair_t *to)
{
    size_t room = from->v.vector.room;
    words_share(&from->v, &to->v);
    if (shares_too_much)
        to->v.vector.room = room;
}

/* Element i has changed. Those that see the same memory see it, unless i is new. */
static void note(pair_t *p, size_t i, uint32_t value)
{
    for (pair_t *q = pairs; q < pairs + VECTORS; q++)
        if (q == p || (words_data(&q->v) == words_data(&p->v) && i < q->n && i < p->common))
            q->want[i] = value;
}

static int append(pair_t *p, uint32_t value)
{
    const uint32_t *before = words_data(&p->v);
    if (p->n == MOST)
        return 0;
    int n_bad = words_push(&p->v, value) != PGAS_OK;
    if (words_data(&p->v) != before)
        p->common = 0;
    note(p, p->n++, value);
    return n_bad;
}

static int resize(pair_t *p, size_t n, uint32_t value)
{
    const uint32_t *before = words_data(&p->v);
    size_t old = p->n;
    int n_bad = words_resize(&p->v, n) != PGAS_OK;
    if (words_data(&p->v) != before)
        p->common = 0;
    p->n = n;
    for (size_t i = old; i < n; i++) {
        words_data(&p->v)[i] = value;
        note(p, i, value);
    }
    return n_bad;
}

static int step(pgasi_rng_t *rng)
{
    pair_t *p = &pairs[pgasi_rng_below(rng, VECTORS)], *q = &pairs[pgasi_rng_below(rng, VECTORS)];
    uint32_t value = (uint32_t)pgasi_rng_u64(rng);
    switch (pgasi_rng_below(rng, 12)) {
    case 0:
        share(&p->v == &q->v ? q : p, q);
        memcpy(q->want, p->want, sizeof q->want);
        q->n = p->n;
        if (p != q) {
            q->common = p->n;
            p->common = PGASI_MAX(p->common, p->n);
        }
        return 0;
    case 1:
        words_take(&p->v, &q->v);
        if (p == q)
            return 0;
        memcpy(q->want, p->want, sizeof q->want);
        q->n = p->n;
        q->common = p->common;
        p->n = p->common = 0;
        return words_data(&p->v) || words_size(&p->v);
    case 2:
        words_free(&p->v);
        p->n = p->common = 0;
        return words_data(&p->v) || words_size(&p->v);
    case 3:
        return resize(p, pgasi_rng_below(rng, MOST), value);
    case 4:
    case 5:
        if (!p->n)
            return 0;
        p->common = p->common ? p->common : p->n;
        size_t i = pgasi_rng_below(rng, p->n);
        words_data(&p->v)[i] = value;
        note(p, i, value);
        return 0;
    default:
        for (uint64_t k = pgasi_rng_below(rng, 40); k > 0; k--)
            if (append(p, value + (uint32_t)k))
                return 1;
        return 0;
    }
}

static int count_differences(void)
{
    int n_bad = 0;
    for (const pair_t *p = pairs; p < pairs + VECTORS; p++)
        n_bad += words_size(&p->v) != p->n ||
                 (p->n && memcmp(words_data(&p->v), p->want, p->n * sizeof *p->want) != 0);
    return n_bad;
}

static int model_vectors(uint64_t seed, int n_steps)
{
    pgasi_rng_t rng;
    int n_bad = 0;
    pgasi_rng_seed(&rng, seed);
    for (int i = 0; i < n_steps && !n_bad; i++) {
        n_bad += step(&rng);
        n_bad += count_differences();
        if (n_bad && !shares_too_much)
            diag("step %d", i);
    }
    for (pair_t *p = pairs; p < pairs + VECTORS; p++)
        words_free(&p->v);
    memset(pairs, 0, sizeof pairs);
    return n_bad;
}

typedef struct {
    char c[24];
} odd;
PGAS_RMA_VECTOR(odds, odd)

static int bound_vectors(void)
{
    odds_t v = { { NULL, NULL, 0, 0 } }, w = { { NULL, NULL, 0, 0 } };
    pgas_rma_object_t *object = create(240);
    int n_bad = odds_resize(&v, SIZE_MAX / 8) != PGAS_ERR_NO_MEMORY ||
                odds_resize(&v, SIZE_MAX / 24) != PGAS_ERR_NO_MEMORY || odds_size(&v) != 0;
    n_bad += odds_resize(&v, 7) != PGAS_OK || odds_size(&v) != 7;
    memset(odds_data(&v), 1, 7 * sizeof(odd));
    odds_share(&v, &w);
    n_bad += odds_data(&w) != odds_data(&v) || info().n_objects != 2;
    n_bad += odds_resize(&w, SIZE_MAX / 8) != PGAS_ERR_NO_MEMORY || odds_size(&w) != 7;
    n_bad += odds_resize(&w, 8) != PGAS_OK || odds_data(&w) == odds_data(&v) ||
             odds_data(&w)[6].c[23] != 1;
    n_bad += odds_adopt(&v, object, 11) != PGAS_ERR_RANGE || odds_size(&v) != 7;
    n_bad += pgas_rma_vector_adopt(&v.vector, NULL, 1, sizeof(odd)) != PGAS_ERR_INVALID;
    n_bad +=
        odds_adopt(&v, object, 9) != PGAS_OK || odds_data(&v) != object->data || odds_size(&v) != 9;
    n_bad += odds_push(&v, odds_data(&w)[0]) != PGAS_OK || odds_data(&v) != object->data;
    n_bad += odds_push(&v, odds_data(&w)[0]) != PGAS_OK || odds_size(&v) != 11;
    n_bad += pgas_rma_vector_adopt(&v.vector, NULL, 0, sizeof(odd)) != PGAS_OK || odds_data(&v);
    odds_free(&w);
    odds_free(&w);
    return n_bad + (info().n_objects != 0);
}

/* ---- the end of the heap ---- */

#define N_AFTER 60

/* Objects of a new heap do not overlap: none has memory of the former one. */
static int create_apart(void)
{
    pgas_rma_object_t *o[N_AFTER];
    int n_bad = 0;
    for (int i = 0; i < N_AFTER; i++)
        o[i] = create(500 + 200 * (size_t)(i % 2));
    for (int i = 0; i < N_AFTER; i++) {
        n_bad += pgas_gptr_local(o[i]->ptr, o[i]->bytes) != o[i]->data;
        for (int k = 0; k < i; k++)
            n_bad += (o[i]->ptr > o[k]->ptr ? o[i]->ptr - o[k]->ptr : o[k]->ptr - o[i]->ptr) < 500;
    }
    for (int i = 0; i < N_AFTER; i++)
        n_bad += pgas_rma_object_destroy(o[i]) != PGAS_OK;
    return n_bad;
}

static int outlive(void)
{
    pgas_rma_object_t *a = create(500), *b = create((size_t)2 << 20), *c, *d = create(500);
    char text[] = "kept";
    int n_bad = pgas_rma_object_reference(text, sizeof text, on_release, NULL, &c) != PGAS_OK;
    pgas_rma_object_destroy(create(700)); /* kept by the thread */
    n_bad += pgas_finalize() != PGAS_OK;
    n_bad += info().n_objects != 4 || info().pool_bytes != 0 || a->bytes != 500;
    memset(&released, 0, sizeof released);
    n_bad += pgas_rma_object_destroy(a) != PGAS_OK || pgas_rma_object_destroy(c) != PGAS_OK ||
             released.n != 1;
    n_bad += lone_init(1, "HEAP_SIZE=8M SERVICE_THREADS=0") != PGAS_OK;
    n_bad += pgas_rma_object_destroy(b) != PGAS_OK || pgas_rma_object_destroy(d) != PGAS_OK;
    n_bad += create_apart();
    return n_bad + (info().n_objects != 0 || info().object_bytes != 0);
}

/* The heap is not touched but for some pages. */
static int use_large(void)
{
    size_t bytes = ((size_t)5 << 30) + 100, n = ((size_t)1 << 31) + 10;
    pgas_rma_object_t *o = create(bytes);
    words_t v = { { NULL, NULL, 0, 0 } }, w = { { NULL, NULL, 0, 0 } };
    char *data = o->data;
    int n_bad = o->bytes != bytes || !o->ptr;
    data[0] = data[bytes - 1] = 1;
    n_bad += pgas_gptr_local(o->ptr + bytes - 1, 1) != data + bytes - 1;
    n_bad += pgas_rma_object_destroy(o) != PGAS_OK;
    n_bad += words_resize(&v, n) != PGAS_OK || words_size(&v) != n || !v.vector.object->ptr;
    words_data(&v)[n - 1] = 7;
    words_share(&v, &w);
    words_free(&v);
    n_bad += words_size(&w) != n || words_data(&w)[n - 1] != 7;
    n_bad += words_push(&w, 8) != PGAS_OK || words_data(&w)[n] != 8;
    words_free(&w);
    return n_bad + (info().object_bytes != 0 || info().pool_high_bytes < 4 * n);
}

static int find_owner(void)
{
    pgas_mem_owner_t owners[PGAS_MEM_OWNERS_MAX];
    int n = 0, n_found = 0;
    (void)pgas_mem_owners(owners, PGAS_MEM_OWNERS_MAX, &n);
    for (int i = 0; i < n; i++)
        n_found += strcmp(owners[i].name, "objects") == 0 && owners[i].max_bytes == HEAP &&
                   owners[i].bytes == info().pool_bytes && owners[i].bytes > 0;
    return n_found;
}

/* What a vector appends after it was shortened is not in vectors that share its memory. */
static int shorten_shared(void)
{
    words_t a = { 0 }, b = { 0 };
    int n_bad = words_resize(&a, 100) != PGAS_OK;
    for (uint32_t i = 0; i < 100; i++)
        words_data(&a)[i] = i;
    words_share(&a, &b);
    n_bad += words_resize(&a, 10) != PGAS_OK || words_push(&a, 1000) != PGAS_OK;
    n_bad += words_data(&a)[10] != 1000 || words_data(&a)[9] != 9 || words_data(&b)[10] != 10;
    words_share(&b, &a);
    n_bad += words_resize(&b, 20) != PGAS_OK || words_resize(&b, 30) != PGAS_OK;
    n_bad += words_data(&b) == words_data(&a) || words_data(&a)[29] != 29;
    words_free(&b);
    n_bad += words_resize(&a, 0) != PGAS_OK || words_push(&a, 7) != PGAS_OK;
    n_bad += words_data(&a)[0] != 7;
    words_free(&a);
    n_bad += words_resize(NULL, 1) != PGAS_ERR_INVALID || words_push(NULL, 1) != PGAS_ERR_INVALID;
    return n_bad;
}

int main(void)
{
    plan(23);
    uint64_t seed = tap_seed(20240501);
    is_int(use_sources(false), 0, "objects without a job");
    is_int(refuse(), 0, "and what is refused");
    is_int(count_bad_rooms(seed, pgasi_rma_room), 0, "sizes waste at most a quarter");
    ok(count_bad_rooms(seed, power_of_two) > 0, "powers of two waste more, which is noticed");
    ok(lone_init(1, "HEAP_SIZE=8M SERVICE_THREADS=0") == PGAS_OK, "init");
    is_int(use_sources(true), 0, "copies and new objects are registered memory");
    is_int(refer_to_heap(), 0, "so are references to memory of the heap");
    is_int(find_owner(), 1, "pgas_mem_owners lists it");
    is_int(refuse(), 0, "the same is refused");
    is_int(reuse(), 0,
           "the block that was given back last is given out first, also for other sizes");
    is_int(use_common_lists(), 0, "many and large objects");
    is_int(fill_heap(), 0, "without room in the heap objects have other memory, as counted");
    is_int(give_to_others(), 0, "other requests get what objects no longer use");
    is_int(model_vectors(seed, 20000), 0, "vectors equal plain arrays");
    shares_too_much = true;
    ok(model_vectors(seed, 20000) > 0, "two vectors that append at one address are noticed");
    is_int(shorten_shared(), 0, "a vector that is shortened and grows leaves others alone");
    is_int(bound_vectors(), 0, "vectors at the limits of sizes and objects");
    is_int(outlive(), 0, "objects may be destroyed after their heap");
    is_int((int)info().n_objects, 0, "none is left");
    is_int(pgas_finalize(), PGAS_OK, "finalize");
    ok(lone_init(1, "HEAP_SIZE=16G SERVICE_THREADS=0 MEMORY_LIMIT=1T") == PGAS_OK, "a large heap");
    is_int(use_large(), 0, "objects of more than 4 GiB, vectors of more than 2^31 elements");
    is_int(pgas_finalize(), PGAS_OK, "the end");
    return done();
}
