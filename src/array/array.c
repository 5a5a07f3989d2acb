/* Arrays as a whole: create, destroy, what is known of them.
 *
 * A rank's part of an array lies in blocks of its own heap, which its node maps and its transport
 * has registered: elements, grants, the table of entries (others of the node take entries away
 * there), operators by cell, lines. Numbers of arrays are agreed on by the team and unique on each
 * of its ranks. */
#include "array/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "array/lock.h"
#include "array/slots.h"
#include "base/checks.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/param.h"
#include "boot/boot.h"
#include "boot/hooks.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "mem/segment.h"
#include "mem/thread.h"
#include "pgas/coll.h"
#include "pgas/mem.h"

#define IDS             65536
#define CHUNK_ELEMS     512
#define CHUNK_ELEMS_MAX (UINT64_C(1) << 20)
#define CHUNK_BYTES_MAX ((size_t)16 << 20)
#define ELEM_BYTES_MAX  65536
#define LOW_PERCENT     30
#define HIGH_PERCENT    50
#define PREFETCH        32
#define PREFETCH_MAX    64
#define FILTER_MIN      16
#define IDS_ROUND       512 /* ids are taken from this range first */

static pgasi_array_t *arrays[IDS]; /* by number */
/* where to look for a free number; numbers ever used are below id_end */
static uint32_t next_id, id_end;
static uint64_t started_epoch;
static bool unfenced; /* something began to close since the last barrier */

pgasi_array_t *pgasi_array_find(uint32_t id)
{
    return id < IDS ? __atomic_load_n(&arrays[id], __ATOMIC_ACQUIRE) : NULL;
}

bool pgasi_array_is_broken(const pgasi_array_t *a)
{
    for (int r = 0; r < a->n_ranks; r++)
        if (pgasi_boot_is_dead(a->global[r]))
            return true;
    return false;
}

_Noreturn void pgasi_array_broken(const pgasi_array_t *a, const char *where, uint64_t chunk,
                                  int state, int event)
{
    PGASI_ERROR("array",
                "array %" PRIu32 ", %s chunk %" PRIu64
                ": state %s, event %s: this cannot happen, please report",
                a->id, where, chunk, pgasi_array_state_name((pgasi_array_state_t)state),
                pgasi_array_event_name((pgasi_array_event_t)event));
    pgasi_boot_abort(1);
}

/* ---- rounds of progress ---- */

static uint32_t n_closing(void)
{
    uint32_t n = 0;
    for (uint32_t id = 1; id < id_end; id++)
        n += arrays[id] ? arrays[id]->n_closing : 0;
    return n;
}

void pgasi_array_poll_soon(void)
{
    unfenced = true;
    pgasi_hooks_want_poll(PGASI_LAYER_ARRAY, true);
}

void pgasi_array_poll(void)
{
    if (!pgasi_hooks_poll_is_wanted(PGASI_LAYER_ARRAY))
        return;
    bool fence = unfenced, counted = false;
    unfenced = false;
    if (fence)
        pgasi_wait_heavy_barrier();
    for (uint32_t id = 1; id < id_end; id++) {
        pgasi_array_t *a = arrays[id];
        if (!a || !a->n_closing)
            continue;
        if (fence && !counted)
            pgasi_array_note(&a->info.barriers, 1);
        counted = true;
        pgasi_array_home_poll(a);
        pgasi_array_cache_poll(a);
    }
    if (!unfenced && n_closing() == 0)
        pgasi_hooks_want_poll(PGASI_LAYER_ARRAY, false);
}

static int poll_in_progress(void)
{
    pgasi_path_state_t before = pgasi_handlers_enter(true);
    pgasi_array_poll();
    pgasi_handlers_leave(before);
    return 1;
}

void pgasi_array_second_thread(void)
{
    pgasi_path_state_t before = pgasi_serve_begin();
    for (uint32_t id = 1; id < id_end; id++) {
        pgasi_array_t *a = arrays[id];
        for (uint64_t c = 0; a && c <= a->map.n_elems >> a->open.shift; c++)
            __atomic_store_n(&a->peer[a->rank].readable[c], 0, __ATOMIC_RELEASE);
    }
    pgasi_serve_end(before);
}

/* ---- begin ---- */

static void free_array(pgasi_array_t *a)
{
    if (!a)
        return;
    pgasi_array_home_stop(a);
    free(a->global);
    free(a->node_rank);
    free(a->map.offsets);
    free(a->peer);
    free(a->line);
    free(a->line_of);
    free(a->home_offset);
    free(a->filter);
    free(a->knows);
    free(a->heat);
    free(a);
}

/* Once a job: what an earlier one has left goes. */
static pgas_status_t start(void)
{
    if (started_epoch == pgasi_epoch)
        return PGAS_OK;
    for (uint32_t id = 1; id < id_end; id++) {
        free_array(arrays[id]);
        arrays[id] = NULL;
    }
    next_id = id_end = 1;
    pgas_status_t status = pgasi_array_slots_start();
    if (status == PGAS_OK)
        status = pgasi_array_wire_start();
    if (status == PGAS_OK)
        status = pgasi_array_locks_start();
    if (status != PGAS_OK)
        return status;
    pgasi_hooks.poll[PGASI_LAYER_ARRAY] = poll_in_progress;
    started_epoch = pgasi_epoch;
    return PGAS_OK;
}

/* What all must agree on. */
typedef struct {
    uint64_t elem_bytes, n_elems, chunk_elems, offsets, low, high;
    int64_t status;
    uint64_t id;
} params_t;

static pgas_status_t check_offsets(const uint64_t *offsets, int n, uint64_t n_elems)
{
    if (offsets[0] != 0 || offsets[n] != n_elems)
        return PGAS_ERR_INVALID;
    for (int r = 0; r < n; r++)
        if (offsets[r] > offsets[r + 1])
            return PGAS_ERR_INVALID;
    return PGAS_OK;
}

static pgas_status_t read_opts(pgas_array_opts_t *o, const pgas_array_opts_t *opts,
                               size_t elem_bytes, uint64_t n_elems, int n)
{
    *o = (pgas_array_opts_t)PGAS_ARRAY_OPTS_INIT;
    if (opts && opts->size != sizeof *o)
        return PGAS_ERR_INVALID;
    if (opts)
        *o = *opts;
    o->chunk_elems = o->chunk_elems ? o->chunk_elems : CHUNK_ELEMS;
    o->low_percent = o->low_percent ? o->low_percent : LOW_PERCENT;
    o->high_percent = o->high_percent ? o->high_percent : PGASI_MAX(HIGH_PERCENT, o->low_percent);
    o->prefetch = o->prefetch ? PGASI_MAX(o->prefetch, 0) : PREFETCH;
    if (!elem_bytes || elem_bytes > ELEM_BYTES_MAX || o->chunk_elems > CHUNK_ELEMS_MAX ||
        o->prefetch > PREFETCH_MAX || o->low_percent < 1 || o->high_percent < o->low_percent ||
        o->high_percent > 100 || n_elems > (UINT64_C(1) << 62) / ELEM_BYTES_MAX)
        return PGAS_ERR_INVALID;
    o->chunk_elems = (size_t)1 << pgasi_log2_up(o->chunk_elems);
    if (o->chunk_elems * elem_bytes > CHUNK_BYTES_MAX)
        return PGAS_ERR_LIMIT;
    return o->offsets ? check_offsets(o->offsets, n, n_elems) : PGAS_OK;
}

static pgas_status_t compare(const params_t *all, int n)
{
    static const char *const names[] = { "elem_bytes", "n_elems",     "chunk_elems",
                                         "offsets",    "low_percent", "high_percent" };
    pgas_status_t worst = PGAS_OK;
    for (int r = 0; r < n; r++)
        if (all[r].status < worst)
            worst = (pgas_status_t)all[r].status;
    for (int r = 1; r < n && worst == PGAS_OK; r++) {
        for (size_t f = 0; f < 6 && worst == PGAS_OK; f++) {
            const uint64_t *first = &all[0].elem_bytes, *other = &all[r].elem_bytes;
            if (first[f] == other[f])
                continue;
            worst = PGAS_ERR_MISMATCH;
            PGASI_ERROR("array",
                        "pgas_array_create: %s is %" PRIu64 " on the team's rank 0, %" PRIu64
                        " on its rank %d",
                        names[f], first[f], other[f], r);
        }
    }
    return worst;
}

/* Agrees on an id that is free on all ranks of the team: each round takes the greatest proposal,
 * until no rank uses it. Ids cycle within the table's first page. So an id is not reused soon, and
 * the table does not grow with every new array. */
static pgas_status_t agree_on_id(pgas_team_t *team, uint32_t *id_p)
{
    uint32_t from = next_id;
    for (int rounds = 0; rounds < IDS; rounds++) {
        uint32_t mine = from, greatest;
        while (mine < IDS && arrays[mine])
            mine++;
        if (mine == IDS)
            for (mine = 1; mine < IDS && arrays[mine]; mine++)
                ;
        pgas_status_t status = pgas_allreduce(team, &mine, &greatest, 1, PGAS_UINT32, PGAS_MAX);
        if (status != PGAS_OK)
            return status;
        if (greatest >= IDS)
            return PGAS_ERR_LIMIT;
        uint32_t taken = arrays[greatest] != NULL, any;
        status = pgas_allreduce(team, &taken, &any, 1, PGAS_UINT32, PGAS_MAX);
        if (status != PGAS_OK)
            return status;
        if (!any) {
            *id_p = greatest;
            next_id = greatest + 1 < IDS_ROUND ? greatest + 1 : 1;
            return PGAS_OK;
        }
        from = greatest + 1 < IDS ? greatest + 1 : 1;
    }
    return PGAS_ERR_LIMIT;
}

/* ---- memory ---- */

static pgas_status_t take(pgasi_array_t *a, int which, uint64_t bytes, bool zero, void **address_p)
{
    *address_p = NULL;
    if (!bytes)
        return PGAS_OK;
    pgas_status_t status = pgas_alloc_local(bytes, &a->block[which]);
    if (status != PGAS_OK)
        return status;
    a->heap_bytes += bytes;
    *address_p = pgas_gptr_local(a->block[which], 1);
    if (zero)
        memset(*address_p, 0, bytes);
    return PGAS_OK;
}

static void *lines_of(uint64_t n, size_t bytes)
{
    return calloc(n ? n : 1, bytes);
}

/* Chunks whose home is on another node. */
static uint64_t n_far_chunks(const pgasi_array_t *a)
{
    uint64_t n = 0;
    for (int r = 0; r < a->n_ranks; r++)
        n += a->node_rank[r] < 0 ? pgasi_array_n_home(&a->map, r) : 0;
    return n;
}

static void size_cache(pgasi_array_t *a, const pgas_array_opts_t *o)
{
    uint64_t far = n_far_chunks(a), chunk_bytes = (a->open.mask + 1) * a->open.elem_bytes;
    uint64_t lines =
        o->cache_bytes ? o->cache_bytes / chunk_bytes : pgasi_param.array_cache / a->stride;
    lines = PGASI_MIN(PGASI_MAX(lines, 1), PGASI_MIN(far, (uint64_t)1 << 30));
    a->n_lines = (uint32_t)lines;
    a->fits = lines >= far;
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
    a->dir = calloc(a->n_home ? a->n_home : 1, sizeof *a->dir);
    a->line = lines_of(a->n_lines, sizeof *a->line);
    a->line_of = lines_of(pgasi_array_n_chunks(&a->map), sizeof *a->line_of);
    a->knows = calloc(n, sizeof *a->knows);
    a->filter = calloc((size_t)a->filter_mask + 1, sizeof *a->filter);
    a->heat = calloc((size_t)a->filter_mask + 1, sizeof *a->heat);
    bool ok = a->peer && a->home_offset && a->knows && a->dir && a->line && a->line_of &&
              a->filter && a->heat;
    return ok ? PGAS_OK : PGAS_ERR_NO_MEMORY;
}

enum { BLOCK_DATA, BLOCK_GRANTS, BLOCK_TABLE, BLOCK_READABLE, BLOCK_LINES, N_BLOCKS };

static pgas_status_t take_shared(pgasi_array_t *a)
{
    pgasi_array_peer_t *me = &a->peer[a->rank];
    uint64_t n_mappings = (a->map.n_elems >> a->open.shift) + 1;
    void *at;
    pgas_status_t status = take(a, BLOCK_DATA, PGASI_MAX(a->n_home, 1) * a->stride, true, &at);
    me->data = at;
    if (status == PGAS_OK)
        status = take(a, BLOCK_GRANTS, PGASI_MAX(a->n_home, 1) * sizeof *me->grants, true, &at);
    me->grants = at;
    if (status == PGAS_OK)
        status = take(a, BLOCK_TABLE, n_mappings * sizeof *me->table, true, &at);
    me->table = at;
    if (status == PGAS_OK)
        status = take(a, BLOCK_READABLE, n_mappings * sizeof *me->readable, true, &at);
    me->readable = at;
    if (status == PGAS_OK)
        status = take(a, BLOCK_LINES, (uint64_t)a->n_lines * a->stride, false, &at);
    a->line_data = at;
    if (status == PGAS_ERR_NO_MEMORY)
        PGASI_ERROR("array",
                    "an array of %" PRIu64 " elements of %" PRIu32 " bytes needs %" PRIu64
                    " bytes of this rank's heap, and more: raise PGAS_HEAP_SIZE",
                    a->map.n_elems, a->open.elem_bytes,
                    a->n_home * (a->stride + sizeof *me->grants) + n_mappings * 24 +
                        (uint64_t)a->n_lines * a->stride);
    return status;
}

static void give_back(pgasi_array_t *a)
{
    for (int b = 0; b < N_BLOCKS; b++)
        if (a->block[b])
            pgas_free_local(a->block[b]);
}

/* ---- create ---- */

typedef struct {
    pgas_gptr_t block[N_BLOCKS], slots;
    int64_t status;
} told_t;

/* Where the others have their things. */
static void learn(pgasi_array_t *a, const told_t *all)
{
    for (int r = 0; r < a->n_ranks; r++) {
        pgasi_array_peer_t *peer = &a->peer[r];
        a->home_offset[r] = pgas_gptr_offset(all[r].block[BLOCK_DATA]);
        if (a->node_rank[r] < 0 || r == a->rank)
            continue;
        peer->data = pgas_gptr_local(all[r].block[BLOCK_DATA], 1);
        peer->grants = pgas_gptr_local(all[r].block[BLOCK_GRANTS], 1);
        peer->table = pgas_gptr_local(all[r].block[BLOCK_TABLE], 1);
        peer->readable = pgas_gptr_local(all[r].block[BLOCK_READABLE], 1);
        pgasi_array_slots_learn(a->node_rank[r], pgas_gptr_local(all[r].slots, 1));
    }
}

static pgas_status_t exchange(pgasi_array_t *a, pgas_status_t mine)
{
    told_t *all = calloc((size_t)a->n_ranks, sizeof *all);
    told_t me = { .slots = pgas_gptr_of(pgasi_array_slots_own()),
                  .status = all ? mine : PGAS_ERR_NO_MEMORY };
    memcpy(me.block, a->block, sizeof me.block);
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
    pgas_array_t *open = &a->open;
    a->wide = elem_bytes != 1 && elem_bytes != 2 && elem_bytes != 4 && elem_bytes != 8;
    if (!a->wide && a->map.shift >= PGAS_ARRAY_SUBBLOCK_SHIFT)
        open->limit[pgasi_log2_up(elem_bytes)] = n_elems;
    open->epoch = pgasi_epoch;
    open->shift = PGASI_MIN(a->map.shift, PGAS_ARRAY_SUBBLOCK_SHIFT);
    open->mask = (UINT64_C(1) << a->map.shift) - 1;
    open->elem_bytes = (uint32_t)elem_bytes;
    open->n_elems = n_elems;
    a->stride = PGASI_ALIGN_UP(((size_t)1 << a->map.shift) * elem_bytes, 64);
    a->guard_all = pgasi_wait_light_is_fence ||
                   pgasi_param.array_access == PGASI_ARRAY_ACCESS_GUARDED ||
                   (!a->wide && a->map.shift < PGAS_ARRAY_SUBBLOCK_SHIFT);
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
    a->open.table = a->peer[a->rank].table;
    a->open.readable = a->peer[a->rank].readable;
    pgasi_array_home_start(a);
    pgasi_array_cache_start(a);
    return PGAS_OK;
}

static pgas_status_t create_agreed(pgas_team_t *team, const pgas_array_opts_t *o, size_t elem_bytes,
                                   uint64_t n_elems, pgas_array_t **array_p)
{
    uint32_t id;
    pgas_status_t status = agree_on_id(team, &id);
    if (status != PGAS_OK) {
        if (status == PGAS_ERR_LIMIT)
            PGASI_ERROR("array", "%d arrays are live: there are no more numbers", IDS - 1);
        return status;
    }
    pgasi_array_t *a = calloc(1, sizeof *a), none = { 0 };
    pgasi_array_t *at = a ? a : &none;
    at->id = id;
    at->team = team;
    at->n_ranks = pgas_team_size(team);
    at->rank = pgas_team_rank(team);
    status = exchange(at, a ? fill_in(a, o, elem_bytes, n_elems) : PGAS_ERR_NO_MEMORY);
    if (status == PGAS_OK) {
        id_end = PGASI_MAX(id_end, id + 1);
        __atomic_store_n(&arrays[id], a, __ATOMIC_RELEASE);
        status = pgas_barrier(team); /* before anybody sends */
        *array_p = &a->open;
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
    int n = pgas_team_size(team);
    status = array_p ? read_opts(&o, opts, elem_bytes, n_elems, n) : PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        status = start();
    params_t mine = { .status = status }, *all = calloc((size_t)n, sizeof *all);
    if (status == PGAS_OK)
        mine = (params_t){ elem_bytes,
                           n_elems,
                           o.chunk_elems,
                           0,
                           (uint64_t)o.low_percent,
                           (uint64_t)o.high_percent,
                           PGAS_OK,
                           0 };
    if (status == PGAS_OK && o.offsets)
        mine.offsets = pgasi_hash_bytes(o.offsets, ((size_t)n + 1) * sizeof *o.offsets, 1);
    if (!all)
        return PGAS_ERR_NO_MEMORY;
    status = pgas_allgather(team, &mine, all, sizeof mine);
    if (status == PGAS_OK)
        status = compare(all, n);
    free(all);
    return status == PGAS_OK ? create_agreed(team, &o, elem_bytes, n_elems, array_p) : status;
}

/* ---- destroy ---- */

static pgas_status_t check_idle(pgasi_array_t *a)
{
    uint64_t element = 0;
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

bool pgasi_array_home_is_quiet(const pgasi_array_t *a)
{
    for (uint64_t j = 0; j < a->n_home; j++)
        if (pgasi_array_is_transit(a->dir[j].state) || a->dir[j].first)
            return false;
    return true;
}

/* Everything goes home. */
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
    if (!array)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    pgasi_array_t *a = pgasi_array_of(array);
    if (array->epoch != pgasi_epoch)
        return PGAS_ERR_INVALID;
    /* pins of this node's other ranks are seen too, so these must have come */
    status = pgas_barrier(a->team);
    if (status != PGAS_OK)
        return status;
    int32_t mine = check_idle(a), worst;
    status = pgas_allreduce(a->team, &mine, &worst, 1, PGAS_INT32, PGAS_MIN);
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
    __atomic_store_n(&arrays[a->id], NULL, __ATOMIC_RELEASE);
    pgasi_serve_end(before);
    give_back(a);
    free_array(a);
    return status;
}

/* ---- what is known ---- */

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

pgas_status_t pgas_array_share(const pgas_array_t *array, int part, int n_parts, uint64_t *first_p,
                               uint64_t *n_p)
{
    uint64_t first, n;
    pgas_status_t status = pgas_array_range(array, -1, &first, &n);
    if (status != PGAS_OK)
        return status;
    if (part < 0 || part >= n_parts || !first_p || !n_p)
        return PGAS_ERR_INVALID;
    uint32_t shift = pgasi_array_of_const(array)->map.shift;
    uint64_t cell = first >> shift, n_blocks = n ? ((first + n - 1) >> shift) - cell + 1 : 0;
    uint64_t low = cell + n_blocks * (uint64_t)part / (uint64_t)n_parts;
    uint64_t high = cell + n_blocks * ((uint64_t)part + 1) / (uint64_t)n_parts;
    uint64_t begin = PGASI_MIN(PGASI_MAX(low << shift, first), first + n);
    uint64_t end = PGASI_MAX(PGASI_MIN(high << shift, first + n), begin);
    *first_p = begin;
    *n_p = end - begin;
    return PGAS_OK;
}

pgas_status_t pgas_array_info(const pgas_array_t *array, pgas_array_info_t *info_p)
{
    if (!array || !info_p)
        return PGAS_ERR_INVALID;
    const pgasi_array_t *a = pgasi_array_of_const(array);
    const uint64_t *from = (const uint64_t *)&a->info;
    uint64_t *to = (uint64_t *)info_p;
    for (size_t j = 0; j < sizeof *info_p / sizeof *to; j++)
        to[j] = __atomic_load_n(&from[j], __ATOMIC_RELAXED);
    info_p->n_lines = a->n_lines;
    info_p->n_free = a->n_free;
    info_p->bytes = a->heap_bytes;
    return PGAS_OK;
}
