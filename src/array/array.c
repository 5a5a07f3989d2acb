/* Arrays as a whole: create, destroy, and queries.
 *
 * A rank's part of an array is in memory of its own heap, which its node maps and its transport has
 * registered. It consists of elements, grants, the table of mapping entries, its summary for reads,
 * and cache lines. Other ranks of the node withdraw entries in the table. */
#include "array/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "array/lock.h"
#include "array/options.h"
#include "array/protocol.h"
#include "array/registry.h"
#include "array/slots.h"
#include "array/sparse.h"
#include "array/wire.h"
#include "base/checks.h"
#include "base/info_fill.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "mem/thread.h"
#include "pgas/coll.h"
#include "pgas/mem.h"

#define FILTER_MIN 16
#define NEAR_BYTES ((size_t)1 << 20) /* of lines for chunks of this node's other ranks */

static uint64_t started_epoch;

/* ---- start ---- */

static void free_array(pgasi_array_t *a)
{
    if (!a)
        return;
    pgasi_array_home_stop(a);
    pgasi_array_sparse_stop(a);
    pgasi_array_runs_stop(a);
    free(a->global);
    free(a->node_rank);
    free(a->map.offsets);
    free(a->peer);
    free(a->line);
    free(a->line_of);
    free(a->home_offset);
    free(a->line_offset);
    free(a->grant_offset);
    free(a->reads_lines);
    free(a->filter);
    free(a->knows);
    free(a->heat);
    free(a->joins);
    free(a);
}

/* Runs once a job, and frees the memory that an earlier job has left. */
static pgas_status_t start(void)
{
    if (started_epoch == pgasi_epoch)
        return PGAS_OK;
    for (uint32_t id = 1; id < pgasi_array_ids_end(); id++)
        free_array(pgasi_array_find(id));
    pgasi_array_ids_reset();
    pgas_status_t status = pgasi_array_slots_start();
    if (status == PGAS_OK)
        status = pgasi_array_send_start();
    if (status == PGAS_OK)
        pgasi_array_receive_start();
    if (status == PGAS_OK)
        status = pgasi_array_locks_start();
    if (status != PGAS_OK)
        return status;
    pgasi_hooks.poll[PGASI_LAYER_ARRAY] = pgasi_array_poll_in_progress;
    started_epoch = pgasi_epoch;
    return PGAS_OK;
}

/* ---- memory ---- */

static pgas_status_t take(pgasi_array_t *a, int which, uint64_t bytes, bool zero, void **address_p)
{
    *address_p = NULL;
    if (!bytes)
        return PGAS_OK;
    pgas_status_t status = pgas_alloc_on(pgas_rank(), PGAS_ZONE_NONE, bytes, &a->memory[which]);
    if (status != PGAS_OK)
        return status;
    a->heap_bytes += bytes;
    *address_p = pgas_gptr_local(a->memory[which], 1);
    if (zero)
        memset(*address_p, 0, bytes);
    return PGAS_OK;
}

static void *lines_of(uint64_t n, size_t bytes)
{
    return calloc(n ? n : 1, bytes);
}

/* The numbers of chunks whose homes are other ranks: on this node, and on others. */
static void count_chunks(const pgasi_array_t *a, uint64_t *near_p, uint64_t *far_p)
{
    *near_p = *far_p = 0;
    for (int r = 0; r < a->n_ranks; r++)
        if (r != a->rank)
            *(a->node_rank[r] < 0 ? far_p : near_p) += pgasi_array_n_home(&a->map, r);
}

static void size_cache(pgasi_array_t *a, const pgas_array_opts_t *o)
{
    uint64_t far, near, chunk_bytes = (a->pub.mask + 1) * a->pub.elem_bytes;
    count_chunks(a, &near, &far);
    /* without a service thread, an apply would wait for a home that computes */
    bool joins = !a->wide && !a->guard_all && pgasi_param.service_threads;
    near = joins ? PGASI_MIN(near, NEAR_BYTES / a->stride) : 0;
    uint64_t lines =
        o->cache_bytes ? o->cache_bytes / chunk_bytes : pgasi_param.array_cache / a->stride;
    lines = PGASI_MIN(PGASI_MAX(lines, 1), PGASI_MIN(far + near, (uint64_t)1 << 30));
    a->n_lines = (uint32_t)lines;
    a->n_near_max = (uint32_t)PGASI_MIN(near, far ? lines / 4 : lines);
    a->fits = lines >= far + a->n_near_max;
    a->n_low = a->fits ? 0 : (uint32_t)PGASI_MAX(lines * (uint64_t)o->low_percent / 100, 1);
    a->n_high = a->fits ? 0 : (uint32_t)PGASI_MAX(lines * (uint64_t)o->high_percent / 100, 1);
    a->prefetch = o->prefetch;
    a->filter_mask = FILTER_MIN - 1;
    while (a->filter_mask + 1 < lines && a->filter_mask + 1 < 1u << 24)
        a->filter_mask = 2 * a->filter_mask + 1;
}

static pgas_status_t take_private(pgasi_array_t *a)
{
    size_t n = (size_t)a->n_ranks;
    a->peer = calloc(n, sizeof *a->peer);
    a->home_offset = calloc(n, sizeof *a->home_offset);
    a->line_offset = calloc(n, sizeof *a->line_offset);
    a->grant_offset = calloc(n, sizeof *a->grant_offset);
    a->reads_lines = calloc(n, sizeof *a->reads_lines);
    a->dir = calloc(a->n_home ? a->n_home : 1, sizeof *a->dir);
    a->line = lines_of(a->n_lines, sizeof *a->line);
    a->line_of = lines_of(pgasi_array_n_chunks(&a->map), sizeof *a->line_of);
    a->knows = calloc(n, sizeof *a->knows);
    a->filter = calloc((size_t)a->filter_mask + 1, sizeof *a->filter);
    a->heat = calloc((size_t)a->filter_mask + 1, sizeof *a->heat);
    a->joins = calloc(a->n_near_max ? a->map.n_blocks : 1, sizeof *a->joins);
    bool ok = a->peer && a->home_offset && a->line_offset && a->grant_offset && a->reads_lines &&
              a->knows && a->dir && a->line && a->line_of && a->filter && a->heat && a->joins;
    pgas_status_t status = ok ? pgasi_array_runs_start(a) : PGAS_ERR_NO_MEMORY;
    return status == PGAS_OK ? pgasi_array_sparse_start(a) : status;
}

static pgas_status_t take_shared(pgasi_array_t *a)
{
    pgasi_array_peer_t *me = &a->peer[a->rank];
    uint64_t n_mappings = (a->map.n_elems >> a->pub.shift) + 1;
    void *at;
    pgas_status_t status =
        take(a, PGASI_ARRAY_DATA, PGASI_MAX(a->n_home, 1) * a->stride, true, &at);
    me->data = at;
    if (status == PGAS_OK)
        status =
            take(a, PGASI_ARRAY_GRANTS, PGASI_MAX(a->n_home, 1) * sizeof *me->grants, true, &at);
    me->grants = at;
    if (status == PGAS_OK)
        status = take(a, PGASI_ARRAY_TABLE, n_mappings * sizeof *me->table, true, &at);
    me->table = at;
    if (status == PGAS_OK)
        status = take(a, PGASI_ARRAY_READABLE, n_mappings * sizeof *me->readable, true, &at);
    me->readable = at;
    if (status == PGAS_OK)
        status = take(a, PGASI_ARRAY_LINES, (uint64_t)a->n_lines * a->stride, false, &at);
    a->line_data = at;
    if (status == PGAS_ERR_NO_MEMORY)
        PGASI_ERROR("array",
                    "an array of %" PRIu64 " elements of %" PRIu32 " bytes needs %" PRIu64
                    " bytes of this rank's heap, and more: raise PGAS_HEAP_SIZE",
                    a->map.n_elems, a->pub.elem_bytes,
                    a->n_home * (a->stride + sizeof *me->grants) + n_mappings * 24 +
                        (uint64_t)a->n_lines * a->stride);
    return status;
}

static void give_back(pgasi_array_t *a)
{
    for (int b = 0; b < PGASI_ARRAY_N_MEMORIES; b++)
        if (a->memory[b])
            pgas_free_on(a->memory[b]);
}

/* ---- create ---- */

typedef struct {
    pgas_gptr_t block[PGASI_ARRAY_N_MEMORIES], slots;
    int64_t status;
} shared_t;

/* Records where the memory of the other ranks is. */
static void learn(pgasi_array_t *a, const shared_t *all)
{
    for (int r = 0; r < a->n_ranks; r++) {
        pgasi_array_peer_t *peer = &a->peer[r];
        a->home_offset[r] = pgas_gptr_offset(all[r].block[PGASI_ARRAY_DATA]);
        a->line_offset[r] = pgas_gptr_offset(all[r].block[PGASI_ARRAY_LINES]);
        a->grant_offset[r] = pgas_gptr_offset(all[r].block[PGASI_ARRAY_GRANTS]);
        if (a->node_rank[r] < 0 || r == a->rank)
            continue;
        peer->data = pgas_gptr_local(all[r].block[PGASI_ARRAY_DATA], 1);
        peer->grants = pgas_gptr_local(all[r].block[PGASI_ARRAY_GRANTS], 1);
        peer->table = pgas_gptr_local(all[r].block[PGASI_ARRAY_TABLE], 1);
        peer->readable = pgas_gptr_local(all[r].block[PGASI_ARRAY_READABLE], 1);
        pgasi_array_slots_learn(a->node_rank[r], pgas_gptr_local(all[r].slots, 1));
    }
}

static pgas_status_t exchange(pgasi_array_t *a, pgas_status_t mine)
{
    shared_t *all = calloc((size_t)a->n_ranks, sizeof *all);
    shared_t me = { .slots = pgas_gptr_of(pgasi_array_slots_own()),
                    .status = all ? mine : PGAS_ERR_NO_MEMORY };
    memcpy(me.block, a->memory, sizeof me.block);
    if (!all)
        return PGAS_ERR_NO_MEMORY;
    pgas_status_t status = pgas_allgather(a->team, &me, all, sizeof me);
    for (int r = 0; r < a->n_ranks && status == PGAS_OK; r++)
        status = (pgas_status_t)all[r].status;
    if (status == PGAS_OK)
        learn(a, all);
    free(all);
    return status;
}

static pgas_status_t make_map(pgasi_array_t *a, const pgas_array_opts_t *o, uint64_t n_elems)
{
    int n = a->n_ranks;
    a->global = calloc((size_t)n, sizeof *a->global);
    a->node_rank = calloc((size_t)n, sizeof *a->node_rank);
    a->map.offsets = calloc((size_t)n + 1, sizeof *a->map.offsets);
    if (!a->global || !a->node_rank || !a->map.offsets)
        return PGAS_ERR_NO_MEMORY;
    for (int r = 0; r < n; r++) {
        a->global[r] = pgas_team_to_global(a->team, r);
        a->node_rank[r] = pgasi_boot.local_of[a->global[r]];
    }
    a->map.n_elems = n_elems;
    a->map.shift = pgasi_log2_up(o->chunk_elems);
    a->map.n_ranks = n;
    a->map.n_blocks = (n_elems >> a->map.shift) + ((n_elems & (o->chunk_elems - 1)) != 0);
    if (o->offsets)
        memcpy(a->map.offsets, o->offsets, ((size_t)n + 1) * sizeof *a->map.offsets);
    else
        pgasi_array_even_offsets(n_elems, a->map.shift, n, a->map.offsets);
    a->map.whole = pgasi_array_is_whole(&a->map);
    a->n_home = pgasi_array_n_home(&a->map, a->rank);
    return PGAS_OK;
}

static void make_open(pgasi_array_t *a, size_t elem_bytes, uint64_t n_elems)
{
    pgas_array_t *open = &a->pub;
    a->wide = elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4 && elem_bytes != 8;
    if (!a->wide && a->map.shift >= PGAS_ARRAY_SUBBLOCK_SHIFT)
        open->limit[pgasi_log2_up(elem_bytes)] = n_elems;
    open->epoch = pgasi_epoch;
    open->shift = PGASI_MIN(a->map.shift, PGAS_ARRAY_SUBBLOCK_SHIFT);
    open->mask = (UINT64_C(1) << a->map.shift) - 1;
    open->elem_bytes = (uint32_t)elem_bytes;
    open->n_elems = n_elems;
    a->stride = PGASI_ALIGN_UP(((size_t)1 << a->map.shift) * elem_bytes, 64);
    a->guard_all =
        pgasi_wait_light_is_fence || pgasi_param.array_access == PGASI_ARRAY_ACCESS_GUARDED;
}

static pgas_status_t fill_in(pgasi_array_t *a, const pgas_array_opts_t *o, size_t elem_bytes,
                             uint64_t n_elems)
{
    pgas_status_t status = make_map(a, o, n_elems);
    if (status != PGAS_OK)
        return status;
    make_open(a, elem_bytes, n_elems);
    size_cache(a, o);
    status = take_private(a);
    if (status == PGAS_OK)
        status = take_shared(a);
    if (status != PGAS_OK)
        return status;
    a->pub.table = a->peer[a->rank].table;
    a->pub.readable = a->peer[a->rank].readable;
    pgasi_array_home_start(a);
    pgasi_array_cache_start(a);
    return PGAS_OK;
}

static pgas_status_t create_agreed(pgas_team_t *team, const pgas_array_opts_t *o, size_t elem_bytes,
                                   uint64_t n_elems, pgas_array_t **array_p)
{
    uint32_t id;
    pgas_status_t status = pgasi_array_agree_on_id(team, &id);
    if (status != PGAS_OK)
        return status;
    pgasi_array_t *a = calloc(1, sizeof *a), none = { 0 };
    pgasi_array_t *at = a ? a : &none;
    at->id = id;
    at->team = team;
    at->n_ranks = pgas_team_size(team);
    at->rank = pgas_team_rank(team);
    status = exchange(at, a ? fill_in(a, o, elem_bytes, n_elems) : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK) {
        pgasi_array_add(a);
        status = pgas_barrier(team); /* before any rank sends */
        *array_p = &a->pub;
        return status;
    }
    give_back(at);
    free_array(a);
    return status;
}

pgas_status_t pgas_array_create(pgas_team_t *team, size_t elem_bytes, uint64_t n_elems,
                                const pgas_array_opts_t *opts, pgas_array_t **array_p)
{
    pgas_array_opts_t o = PGAS_ARRAY_OPTS_INIT;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    team = team ? team : pgasi_team_world();
    status = PGAS_ERR_INVALID;
    if (array_p)
        status = pgasi_array_read_opts(&o, opts, elem_bytes, n_elems, pgas_team_size(team));
    if (status == PGAS_OK)
        status = start();
    status = pgasi_array_agree_on_opts(team, &o, elem_bytes, n_elems, status);
    return status == PGAS_OK ? create_agreed(team, &o, elem_bytes, n_elems, array_p) : status;
}

/* ---- destroy ---- */

static pgas_status_t check_idle(pgasi_array_t *a)
{
    uint64_t element = 0;
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_runs_split_all(a); /* so that pins of walks are in the grants */
    pgasi_serve_end(before);
    for (uint64_t j = 0; j < a->n_home + a->n_lines; j++) {
        const pgasi_array_grant_t *grant =
            j < a->n_home ? &a->peer[a->rank].grants[j] : &a->line[j - a->n_home].grant;
        pgasi_array_location_t loc;
        if (!pgasi_array_grant_is_pinned(grant) ||
            !pgasi_array_locate_chunk(&a->map, grant->now.chunk, &loc))
            continue;
        PGASI_ERROR("array", "pgas_array_destroy: the chunk of element %" PRIu64 " is pinned",
                    loc.first);
        return PGAS_ERR_BUSY;
    }
    if (pgasi_array_locks_held(a->id, &element)) {
        PGASI_ERROR("array", "pgas_array_destroy: element %" PRIu64 " is locked", element);
        return PGAS_ERR_BUSY;
    }
    return PGAS_OK;
}

/* Waits until is_settled returns true and no chunk is closing. */
static void settle(pgasi_array_t *a, bool (*is_settled)(pgasi_array_t *a))
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    for (;;) {
        pgasi_path_state_t before = pgasi_serve_begin();
        bool settled = is_settled(a);
        pgasi_array_poll();
        settled = settled && a->n_closing == 0;
        pgasi_serve_end(before);
        if (settled || (pgasi_boot_some_dead() && pgasi_array_is_broken(a)))
            break;
        pgasi_wait_step(&w);
    }
    pgasi_wait_end(&w);
}

static bool home_is_settled(pgasi_array_t *a)
{
    return pgasi_array_home_is_quiet(a);
}

pgas_status_t pgas_array_destroy(pgas_array_t *array)
{
    pgas_status_t status = array ? pgasi_thread_check_wait() : PGAS_OK;
    if (status != PGAS_OK || !array)
        return status;
    pgasi_array_t *a = pgasi_array_of(array);
    if (array->epoch != pgasi_epoch)
        return PGAS_ERR_INVALID;
    /* check_idle also sees the pins of other ranks of this node, so those ranks must have
     * entered */
    status = pgas_barrier(a->team);
    if (status != PGAS_OK)
        return status;
    int32_t mine = check_idle(a), worst;
    status = pgas_allreduce(a->team, &mine, &worst, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK)
        status = (pgas_status_t)worst;
    if (status != PGAS_OK)
        return status;
    pgasi_array_locks_end(a);
    settle(a, pgasi_array_cache_empty);
    status = pgas_barrier(a->team);
    settle(a, home_is_settled);
    if (status == PGAS_OK)
        status = pgas_barrier(a->team);
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_remove(a);
    pgasi_serve_end(before);
    if (status == PGAS_OK) /* otherwise a rank that does not know it yet may still write there */
        give_back(a);
    free_array(a);
    return status;
}

/* ---- questions ---- */

int pgas_array_home(const pgas_array_t *array, uint64_t i)
{
    return array && i < array->n_elems ? pgasi_array_home_of(&pgasi_array_of_const(array)->map, i)
                                       : -1;
}

pgas_status_t pgas_array_range(const pgas_array_t *array, int rank, uint64_t *first_p,
                               uint64_t *n_p)
{
    if (!array || !first_p || !n_p)
        return PGAS_ERR_INVALID;
    const pgasi_array_t *a = pgasi_array_of_const(array);
    rank = rank == -1 ? a->rank : rank;
    if (rank < 0 || rank >= a->n_ranks)
        return PGAS_ERR_RANGE;
    *first_p = a->map.offsets[rank];
    *n_p = a->map.offsets[rank + 1] - a->map.offsets[rank];
    return PGAS_OK;
}

pgas_status_t pgas_array_info(const pgas_array_t *array, pgas_array_info_t *info_p)
{
    if (!array)
        return PGAS_ERR_INVALID;
    const pgasi_array_t *a = pgasi_array_of_const(array);
    pgas_array_info_t info = { 0 };
    const char *from = (const char *)&a->info;
    for (size_t j = offsetof(pgas_array_info_t, misses); j < sizeof info; j += sizeof(uint64_t)) {
        uint64_t count =
            __atomic_load_n((const uint64_t *)(const void *)(from + j), __ATOMIC_RELAXED);
        memcpy((char *)&info + j, &count, sizeof count);
    }
    info.n_elems = array->n_elems;
    info.elem_bytes = array->elem_bytes;
    info.chunk_elems = array->mask + 1;
    info.n_lines = a->n_lines;
    info.n_free = a->n_free;
    info.bytes = a->heap_bytes;
    return pgasi_info_fill(info_p, &info, sizeof info);
}
