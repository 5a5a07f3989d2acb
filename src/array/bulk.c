/* Functions on ranges of elements: fill, load and store, prefetch, walks. A run of elements within
 * a chunk is one access of the grant, so an element costs a load and a store. */
#include "array/access.h"

#include <string.h>

#include "array/protocol.h"
#include "array/registry.h"
#include "array/slots.h"
#include "base/checks.h"
#include "boot/boot.h"
#include "call/progress.h"
#include "mem/thread.h"
#include "pgas/coll.h"

static bool is_inside(const pgas_array_t *array, uint64_t first, uint64_t n)
{
    return first <= array->n_elems && n <= array->n_elems - first;
}

/* The checks of every public function, for ranges that may be empty. */
static pgas_status_t check_range(const pgas_array_t *array, uint64_t first, uint64_t n,
                                 const void *buffer)
{
    pgas_status_t status = pgasi_array_check(array, n ? first : 0);
    if (status == PGAS_ERR_RANGE && array && n == 0 && first <= array->n_elems)
        status = PGAS_OK;
    if (status == PGAS_OK && n && !buffer)
        status = PGAS_ERR_INVALID;
    return status == PGAS_OK && !is_inside(array, first, n) ? PGAS_ERR_RANGE : status;
}

static pgas_status_t move(pgas_array_t *array, uint64_t first, uint64_t n, void *to,
                          const void *from)
{
    pgasi_array_t *a = pgasi_array_of(array);
    pgas_status_t status = PGAS_OK;
    for (uint64_t done = 0; done < n && status == PGAS_OK;) {
        pgasi_array_location_t loc = pgasi_array_locate(&a->map, first + done);
        uint64_t most = loc.first + loc.n - (first + done);
        pgasi_array_access_t x = { .kind = to ? PGASI_ARRAY_GET : PGASI_ARRAY_SET,
                                   .chunk = loc.chunk };
        x.k = (uint32_t)((first + done) & array->mask);
        x.n = (uint32_t)PGASI_MIN(most, n - done);
        if (to)
            x.out = (char *)to + done * array->elem_bytes;
        else
            x.in = (const char *)from + done * array->elem_bytes;
        status = pgasi_array_do(a, &loc, &x);
        size_t fit = PGASI_ARRAY_CALL_BYTES / array->elem_bytes;
        /* all cache lines are pinned: the home carries the access out, in parts */
        if (PGAS_UNLIKELY(status == PGAS_ERR_NO_MEMORY && x.n > fit && fit)) {
            x.n = (uint32_t)fit;
            status = pgasi_array_do(a, &loc, &x);
        }
        done += x.n;
    }
    return status;
}

pgas_status_t pgas_array_load(pgas_array_t *array, uint64_t first, uint64_t n, void *to)
{
    pgas_status_t status = check_range(array, first, n, to);
    return status == PGAS_OK && n ? move(array, first, n, to, NULL) : status;
}

pgas_status_t pgas_array_store(pgas_array_t *array, uint64_t first, uint64_t n, const void *from)
{
    pgas_status_t status = check_range(array, first, n, from);
    return status == PGAS_OK && n ? move(array, first, n, NULL, from) : status;
}

/* Stores as many copies at a time as fit into a small buffer. */
pgas_status_t pgas_array_fill(pgas_array_t *array, const void *value)
{
    if (!array)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_thread_check_wait();
    if (status != PGAS_OK)
        return status;
    if (array->epoch != pgasi_epoch)
        return PGAS_ERR_INVALID;
    pgasi_array_thread_start();
    pgasi_array_t *a = pgasi_array_of(array);
    char copies[4096];
    uint64_t first, n;
    size_t elem = array->elem_bytes, at_once = PGASI_MAX(sizeof copies / elem, 1);
    int32_t mine = value ? PGAS_OK : PGAS_ERR_INVALID, worst;
    pgas_array_range(array, -1, &first, &n);
    for (size_t j = 0; mine == PGAS_OK && elem <= sizeof copies && j < at_once; j++)
        memcpy(copies + j * elem, value, elem);
    /* operations that other ranks issued before this call precede its stores */
    status = pgas_barrier(a->team);
    for (uint64_t done = 0; mine == PGAS_OK && status == PGAS_OK && done < n; done += at_once)
        mine = pgas_array_store(array, first + done, PGASI_MIN(at_once, n - done),
                                elem <= sizeof copies ? copies : value);
    pgas_status_t agreed = pgas_allreduce(a->team, &mine, &worst, 1, PGAS_I32, PGAS_MIN);
    if (status == PGAS_OK)
        status = agreed;
    return status == PGAS_OK ? (pgas_status_t)worst : status;
}

/* ---- prefetch and walks ---- */

static pgas_status_t check_mode(const pgas_array_t *array, pgas_array_mode_t mode, pgas_op_t op)
{
    const pgas_op_def_t *def;
    if ((unsigned)mode > PGAS_ARRAY_OPERATE)
        return PGAS_ERR_INVALID;
    return mode == PGAS_ARRAY_OPERATE ? pgasi_array_check_op(array, op, &def) : PGAS_OK;
}

pgas_status_t pgas_array_prefetch(pgas_array_t *array, uint64_t first, uint64_t n,
                                  pgas_array_mode_t mode, pgas_op_t op, pgas_sync_t *sync)
{
    pgas_status_t status = check_range(array, first, n, array);
    if (status == PGAS_OK)
        status = check_mode(array, mode, op);
    if (status == PGAS_OK)
        status = pgasi_thread_check_wait();
    if (status != PGAS_OK || !n)
        return status;
    pgasi_array_t *a = pgasi_array_of(array);
    uint64_t from = first >> a->map.shift, to = (first + n - 1) >> a->map.shift;
    pgasi_path_state_t before = pgasi_serve_begin();
    /* if a rank of the team dies after this, its death ends the counter */
    if (pgasi_boot_some_dead() && pgasi_array_is_broken(a)) {
        status = PGAS_ERR_PEER;
    } else {
        pgasi_array_cache_prefetch(a, from, to - from + 1, (pgasi_array_need_t)mode, op, sync);
        pgasi_array_poll();
    }
    pgasi_serve_end(before);
    return status;
}

pgas_status_t pgas_array_walk_begin(pgas_array_t *array, uint64_t first, uint64_t n,
                                    pgas_array_mode_t mode, pgas_op_t op, pgas_array_walk_t *walk_p)
{
    if (!walk_p)
        return PGAS_ERR_INVALID;
    memset(walk_p, 0, sizeof *walk_p);
    pgas_status_t status = check_range(array, first, n, array);
    if (status == PGAS_OK)
        status = check_mode(array, mode, op);
    walk_p->status = status;
    walk_p->pin.array = array;
    walk_p->mode = mode;
    walk_p->op = op;
    walk_p->next = first;
    walk_p->end = status == PGAS_OK ? first + n : first;
    const pgasi_array_t *a = pgasi_array_of_const(array);
    bool runs = status == PGAS_OK && mode == PGAS_ARRAY_READ && a->run; /* it requests runs */
    uint64_t ahead = status == PGAS_OK && !runs ? (uint64_t)a->prefetch << a->map.shift : 0;
    if (n && ahead && !pgasi_self.in_handler)
        walk_p->status = pgas_array_prefetch(array, first, PGASI_MIN(n, ahead), mode, op, NULL);
    return status;
}
