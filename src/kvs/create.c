/* Stores: options, memory, the end. */
#include <inttypes.h>
#include <stdlib.h>
#include "base/hash.h"
#include "kvs/cache.h"
#include "kvs/kvs.h"
#include "kvs/stamps.h"
#include "pgas/coll.h"
#include "pgas/mem.h"

#define BYTES_LEAST   (UINT64_C(1) << 20)
#define BYTES_MOST    (UINT64_C(1) << 60) /* more than any heap; sums do not wrap around */
#define KEYS_DEFAULT  (UINT64_C(1) << 20)
#define KEYS_MOST     (UINT64_C(1) << 50)
#define FILL_PERCENT  72 /* of a bucket's entries: one bucket of 12 then overflows */
#define PART_ALIGNED  4096
#define CACHE_DEFAULT (UINT64_C(16) << 20)

static pgas_kvs_t *stores[PGASI_KVS_MAX];

void pgasi_kvs_set(int id, pgas_kvs_t *kvs)
{
    __atomic_store_n(&stores[id], kvs, __ATOMIC_RELEASE);
}

pgas_kvs_t *pgasi_kvs_of(uint64_t id)
{
    return id < PGASI_KVS_MAX ? __atomic_load_n(&stores[id], __ATOMIC_ACQUIRE) : NULL;
}

pgas_status_t pgasi_kvs_agree(pgas_team_t *team, pgas_status_t mine)
{
    int64_t least = mine;
    pgas_status_t status = pgas_allreduce(team, &least, &least, 1, PGAS_I64, PGAS_MIN);
    return status != PGAS_OK ? status : (pgas_status_t)least;
}

/* ---- options ---- */

typedef struct {
    uint64_t n_keys, bytes, evict, durability, dir;
} plan_t;

/* All ranks must have the same options. The minimum of a number and of its complement are the least
 * and the greatest. */
static pgas_status_t compare(pgas_team_t *team, const plan_t *plan)
{
    static const char *const names[] = { "n_keys", "bytes", "evict", "durability", "dir" };
    uint64_t given[] = { plan->n_keys, plan->bytes, plan->evict, plan->durability, plan->dir };
    enum { N = PGASI_ARRAY_LENGTH(given) };
    uint64_t all[2 * N];
    for (int i = 0; i < N; i++) {
        all[2 * i] = given[i];
        all[2 * i + 1] = ~given[i];
    }
    pgas_status_t status = pgas_allreduce(team, all, all, 2 * N, PGAS_U64, PGAS_MIN);
    for (int i = 0; i < N && status == PGAS_OK; i++) {
        if (all[2 * i] == ~all[2 * i + 1])
            continue;
        status = PGAS_ERR_MISMATCH;
        if (pgas_team_rank(team) == 0)
            PGASI_ERROR("kvs", "pgas_kvs_create: %s differs between ranks", names[i]);
    }
    return status;
}

/* Half of the largest free block, the least of all ranks. */
static pgas_status_t default_bytes(pgas_team_t *team, uint64_t *bytes_p)
{
    pgas_heap_info_t heap = { .size = sizeof heap };
    pgas_status_t status = pgasi_kvs_agree(team, pgas_heap_info(&heap));
    uint64_t bytes = PGASI_ALIGN_DOWN(heap.largest_free / 2, (uint64_t)PART_ALIGNED);
    if (status == PGAS_OK)
        status = pgas_allreduce(team, &bytes, &bytes, 1, PGAS_U64, PGAS_MIN);
    *bytes_p = PGASI_MAX(bytes, BYTES_LEAST);
    return status;
}

static pgas_status_t make_plan(pgas_team_t *team, const pgas_kvs_opts_t *opts, plan_t *plan)
{
    static const pgas_kvs_opts_t defaults = PGAS_KVS_OPTS_INIT;
    const pgas_kvs_opts_t *o = opts ? opts : &defaults;
    *plan = (plan_t){ .n_keys = o->n_keys ? o->n_keys : KEYS_DEFAULT,
                      .bytes = PGASI_ALIGN_UP(PGASI_MIN((uint64_t)o->bytes, BYTES_MOST),
                                              (uint64_t)PART_ALIGNED),
                      .evict = o->evict,
                      .durability = (uint64_t)o->durability,
                      .dir = o->dir ? pgasi_hash_text(o->dir) : 0 };
    pgas_status_t status = compare(team, plan);
    if (status == PGAS_OK && plan->bytes == 0)
        status = default_bytes(team, &plan->bytes);
    if (status == PGAS_OK && plan->bytes < BYTES_LEAST)
        status = PGAS_ERR_RANGE;
    return status;
}

/* ---- memory ---- */

static uint64_t buckets_of(const plan_t *plan, int n_ranks)
{
    uint64_t keys = PGASI_DIV_UP(PGASI_MIN(plan->n_keys, KEYS_MOST), (uint64_t)n_ranks);
    uint64_t n = PGASI_DIV_UP(keys * 100, (uint64_t)PGASI_BUCKET_ENTRIES * FILL_PERCENT);
    return PGASI_ALIGN_UP(PGASI_MAX(n, 1), (uint64_t)PGASI_STAMPS_CHUNK);
}

static char *part_base(const pgas_kvs_t *kvs, int rank, uint64_t bytes)
{
    char *at =
        (char *)pgas_gptr_local(pgas_gptr_at(kvs->memory, kvs->ranks[rank]), bytes + PART_ALIGNED);
    return at ? at + PGASI_ALIGN_UP(pgas_gptr_offset(kvs->memory), PART_ALIGNED) -
                    pgas_gptr_offset(kvs->memory)
              : NULL;
}

pgas_gptr_t pgasi_kvs_word(const pgas_kvs_t *kvs, int home, size_t offset)
{
    uint64_t at = PGASI_ALIGN_UP(pgas_gptr_offset(kvs->memory), PART_ALIGNED) + offset;
    return pgas_gptr_make(kvs->ranks[home], at);
}

static pgas_status_t lay_out(pgas_kvs_t *kvs, const plan_t *plan)
{
    pgas_status_t status = pgas_team_alloc(kvs->team, plan->bytes + PART_ALIGNED, &kvs->memory);
    if (status != PGAS_OK)
        return status;
    if (!pgasi_part_init(part_base(kvs, kvs->rank, plan->bytes), plan->bytes, kvs->n_buckets,
                         plan->evict)) {
        status = PGAS_ERR_RANGE;
        if (kvs->rank == 0)
            PGASI_ERROR("kvs",
                        "%" PRIu64 " bytes a rank are too few for a table of %" PRIu64
                        " keys; raise bytes, or lower n_keys",
                        plan->bytes, plan->n_keys);
    }
    status = pgasi_kvs_agree(kvs->team, status);
    for (int i = 0; i < kvs->n && status == PGAS_OK; i++) {
        char *base = part_base(kvs, i, plan->bytes);
        if (base)
            pgasi_part_open(base, &kvs->parts[i]);
        kvs->has_far |= !base;
    }
    return status;
}

/* Several nodes: stamps, and a cache unless cache_bytes is 1. All ranks have stamps, also a rank
 * whose node has all parts. */
static pgas_status_t add_cache(pgas_kvs_t *kvs, uint64_t cache_bytes)
{
    int64_t any_far = kvs->has_far;
    pgas_status_t status = pgas_allreduce(kvs->team, &any_far, &any_far, 1, PGAS_I64, PGAS_MAX);
    if (status != PGAS_OK || !any_far)
        return status;
    status = pgasi_stamps_create(kvs->team, kvs->n_buckets, &kvs->stamps);
    if (status == PGAS_OK && cache_bytes != 1 && kvs->has_far) {
        kvs->cache = pgasi_kvs_cache_create(cache_bytes ? cache_bytes : CACHE_DEFAULT);
        status = kvs->cache ? PGAS_OK : PGAS_ERR_NO_MEMORY;
    }
    return pgasi_kvs_agree(kvs->team, status);
}

static pgas_kvs_t *new_store(pgas_team_t *team, const plan_t *plan)
{
    pgas_kvs_t *kvs = calloc(1, sizeof *kvs);
    if (!kvs)
        return NULL;
    kvs->team = team;
    kvs->n = pgas_team_size(team);
    kvs->rank = pgas_team_rank(team);
    kvs->evict = plan->evict;
    kvs->n_buckets = buckets_of(plan, kvs->n);
    kvs->parts = calloc((size_t)kvs->n, sizeof *kvs->parts);
    kvs->ranks = calloc((size_t)kvs->n, sizeof *kvs->ranks);
    kvs->lost = calloc((size_t)kvs->n, sizeof *kvs->lost);
    for (int i = 0; i < kvs->n && kvs->ranks; i++)
        kvs->ranks[i] = pgas_team_to_global(team, i);
    return kvs;
}

static void free_store(pgas_kvs_t *kvs)
{
    if (!kvs)
        return;
    pgasi_kvs_cache_destroy(kvs->cache);
    free(kvs->parts);
    free(kvs->ranks);
    free(kvs->lost);
    free(kvs);
}

/* The number must be free on all ranks of the team. */
static pgas_status_t agree_on_id(pgas_kvs_t *kvs)
{
    uint64_t used[PGASI_KVS_MAX];
    for (int i = 0; i < PGASI_KVS_MAX; i++)
        used[i] = stores[i] != NULL;
    pgas_status_t status = pgas_allreduce(kvs->team, used, used, PGASI_KVS_MAX, PGAS_U64, PGAS_MAX);
    for (int i = 0; i < PGASI_KVS_MAX && status == PGAS_OK; i++) {
        if (!used[i]) {
            kvs->id = i;
            return PGAS_OK;
        }
    }
    return status == PGAS_OK ? PGAS_ERR_LIMIT : status;
}

/* Records are restored first. Then changes are logged. */
static pgas_status_t open_dir(pgas_kvs_t *kvs, const pgas_kvs_opts_t *opts)
{
    pgas_status_t status = pgasi_kvs_durable_open(kvs, opts->dir, opts->durability, &kvs->durable);
    if (status != PGAS_OK)
        pgas_kvs_destroy(kvs);
    return status;
}

pgas_status_t pgas_kvs_create(pgas_team_t *team, const pgas_kvs_opts_t *opts, pgas_kvs_t **kvs_p)
{
    plan_t plan;
    pgas_kvs_t *kvs = NULL;
    pgas_status_t status = pgas_initialized() ? PGAS_OK : PGAS_ERR_NOT_INIT;
    if (status != PGAS_OK)
        return status;
    if (!kvs_p || !PGASI_OPTS_SANE(opts, sizeof *opts) ||
        (opts && (unsigned)opts->durability > PGAS_KVS_SYNC_ALWAYS))
        status = PGAS_ERR_INVALID;
    status = pgasi_kvs_agree(team, status);
    if (status == PGAS_OK)
        status = make_plan(team, opts, &plan);
    if (status == PGAS_OK) {
        kvs = new_store(team, &plan);
        bool made = kvs && kvs->parts && kvs->ranks && kvs->lost;
        status = pgasi_kvs_agree(team, made ? PGAS_OK : PGAS_ERR_NO_MEMORY);
    }
    if (status == PGAS_OK)
        status = agree_on_id(kvs);
    if (status != PGAS_OK) {
        free_store(kvs);
        return status;
    }
    status = lay_out(kvs, &plan);
    if (status == PGAS_OK)
        status = add_cache(kvs, opts ? opts->cache_bytes : 0);
    if (status != PGAS_OK) {
        pgasi_stamps_destroy(kvs->stamps);
        if (kvs->memory != PGAS_NULL)
            pgas_team_free(team, kvs->memory);
        free_store(kvs);
        return status;
    }
    pgasi_kvs_set(kvs->id, kvs);
    if (opts && opts->dir)
        status = open_dir(kvs, opts);
    if (status != PGAS_OK)
        return status;
    *kvs_p = kvs;
    return pgas_barrier(team); /* all have their logs before any rank sends a write */
}

pgas_status_t pgas_kvs_destroy(pgas_kvs_t *kvs)
{
    if (!kvs)
        return PGAS_OK;
    pgas_status_t status = pgas_barrier(kvs->team);
    if (status != PGAS_OK) { /* after a death, handlers may still use the memory and the log */
        pgasi_kvs_set(kvs->id, NULL);
        (void)pgasi_kvs_commit(kvs);
        return status;
    }
    pgas_status_t closed = pgasi_kvs_durable_close(kvs->durable);
    status = pgasi_stamps_destroy(kvs->stamps);
    if (status == PGAS_OK)
        status = pgas_team_free(kvs->team, kvs->memory);
    if (status == PGAS_OK)
        status = closed;
    pgasi_kvs_set(kvs->id, NULL);
    free_store(kvs);
    return status;
}

pgas_status_t pgas_kvs_info(pgas_kvs_t *kvs, pgas_kvs_info_t *info_p)
{
    if (!kvs || !info_p || info_p->size < sizeof *info_p)
        return PGAS_ERR_INVALID;
    const pgasi_part_head_t *head = kvs->parts[kvs->rank].head;
    *info_p =
        (pgas_kvs_info_t){ .size = info_p->size,
                           .n_keys = pgasi_load(&head->n_keys),
                           .n_buckets = kvs->n_buckets,
                           .n_overflow = pgasi_load(&head->n_overflow),
                           .bytes = head->bytes,
                           .data_bytes = pgasi_load(&head->data_bytes),
                           .evicted = pgasi_load(&head->n_evicted),
                           .cache_hits = pgasi_load(&kvs->cache_hits),
                           .calls = pgasi_load(&kvs->calls),
                           .log_bytes = kvs->durable ? pgasi_kvs_durable_bytes(kvs->durable) : 0 };
    pgasi_slab_use(&head->slabs, &info_p->slab_bytes, &info_p->block_bytes);
    return PGAS_OK;
}
