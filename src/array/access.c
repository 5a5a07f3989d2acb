/* What threads do: first by the hold that they find, then through the protocol, waiting with
 * progress.
 *
 * A thread that misses takes the inbox lock, so that it runs the protocol for its rank, and leaves
 * its access behind: whoever makes the chunk usable carries it out before anything else happens to
 * the chunk. So an access that has waited its turn is done, however many others want the chunk. */
#include "array/array.h"

#include <string.h>

#include "array/op.h"
#include "array/slots.h"
#include "base/checks.h"
#include "boot/boot.h"
#include "boot/wait.h"
#include "call/progress.h"
#include "mem/thread.h"

/* ---- where ---- */

bool pgasi_array_site(pgasi_array_t *a, const pgasi_array_location_t *loc,
                      pgasi_array_site_t *site_p)
{
    const pgasi_array_peer_t *peer = &a->peer[loc->home];
    if (peer->data) {
        *site_p = (pgasi_array_site_t){ a,
                                        &peer->grants[loc->index],
                                        peer->data + loc->index * a->stride,
                                        loc->chunk,
                                        true,
                                        loc->cut };
        return true;
    }
    uint32_t number = __atomic_load_n(&a->line_of[loc->chunk], __ATOMIC_ACQUIRE);
    if (!number)
        return false;
    *site_p = (pgasi_array_site_t){ a,
                                    &a->line[number - 1].grant,
                                    a->line_data + (number - 1) * (uint64_t)a->stride,
                                    loc->chunk,
                                    false,
                                    loc->cut };
    return true;
}

/* ---- walks in order ---- */

/* Of the calling thread: in which array it was last, and where. */
static __thread struct {
    uint64_t last, ahead; /* ahead: the last chunk asked for */
    uint32_t array, streak;
} walk __attribute__((tls_model("initial-exec")));

static bool note_walk(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    if (walk.array != a->id || (loc->chunk != walk.last && loc->chunk != walk.last + 1)) {
        walk.array = a->id;
        walk.streak = 0;
        walk.ahead = loc->chunk;
    } else if (loc->chunk == walk.last + 1) {
        walk.streak++;
    }
    walk.last = loc->chunk;
    return walk.streak > 0;
}

/* Asks for the next chunks once half of those asked for have been used. Serving. */
static void read_ahead(pgasi_array_t *a, const pgasi_array_location_t *loc,
                       const pgasi_array_access_t *x)
{
    uint64_t from = PGASI_MAX(walk.ahead, loc->chunk) + 1, to = loc->chunk + (uint64_t)a->prefetch;
    walk.ahead = to;
    if (from <= to)
        pgasi_array_cache_prefetch(a, from, to - from + 1, pgasi_array_need(x), x->op);
}

static bool wants_ahead(const pgasi_array_t *a, const pgasi_array_location_t *loc)
{
    return walk.streak > 0 && a->prefetch && !loc->cut &&
           loc->chunk + (uint64_t)a->prefetch / 2 >= walk.ahead;
}

/* ---- misses ---- */

void pgasi_array_done(pgasi_array_access_t *x, pgas_status_t status)
{
    x->status = status;
    __atomic_store_n(&x->done, 1, __ATOMIC_RELEASE);
    pgasi_bell_ring(pgasi_boot.node_rank);
}

static void begin_access(pgasi_array_t *a, const pgasi_array_location_t *loc,
                         pgasi_array_access_t *x, bool sequential)
{
    pgas_status_t status = PGAS_OK;
    pgasi_array_own_pins_note(x);
    if (loc->home == a->rank)
        status = pgasi_array_home_own(a, loc->index, x);
    else if (a->node_rank[loc->home] >= 0)
        status = pgasi_array_send_op(a, a->global[loc->home], x);
    else
        pgasi_array_cache_need(a, loc, x, sequential);
    if (status != PGAS_OK)
        pgasi_array_done(x, status);
}

void pgasi_array_forget(pgasi_array_t *a, pgasi_array_access_t *x)
{
    pgasi_array_wire_forget(x);
    pgasi_array_home_forget(a, x);
    pgasi_array_cache_forget(a, x);
}

static bool is_done(const pgasi_array_access_t *x)
{
    return __atomic_load_n(&x->done, __ATOMIC_ACQUIRE) != 0;
}

static pgas_status_t wait_for(pgasi_array_t *a, pgasi_array_access_t *x)
{
    pgasi_wait_t w = PGASI_WAIT_INIT;
    while (!is_done(x)) {
        if (PGAS_UNLIKELY(pgasi_boot_some_dead()) && pgasi_array_is_broken(a)) {
            pgasi_path_state_t before = pgasi_serve_begin();
            if (!is_done(x)) {
                pgasi_array_forget(a, x);
                pgasi_array_done(x, PGAS_ERR_PEER);
            }
            pgasi_serve_end(before);
        } else {
            pgasi_wait_step(&w);
        }
    }
    pgasi_wait_end(&w);
    return x->status;
}

static pgas_status_t may_wait(const pgasi_array_t *a)
{
    pgas_status_t status = pgasi_thread_check_wait();
    return status == PGAS_OK && pgasi_boot_some_dead() && pgasi_array_is_broken(a) ? PGAS_ERR_PEER
                                                                                   : status;
}

/* A pin has ended that somebody may wait for. Serving. */
static void tell_unpinned(pgasi_array_t *a, const pgasi_array_location_t *loc,
                          pgasi_array_grant_t *grant)
{
    if (loc->home == a->rank)
        pgasi_array_home_unpinned(a, loc->index);
    else if (a->node_rank[loc->home] >= 0)
        pgasi_array_send_unpinned(a, a->global[loc->home], loc->chunk);
    else
        pgasi_array_cache_unpinned(a, grant);
}

/* By the thread that had it. */
static void end_pin(pgasi_array_t *a, const pgasi_array_location_t *loc, pgasi_array_grant_t *grant,
                    bool recall)
{
    /* the pin is gone before we look whether somebody waits for its line */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (!recall && !__atomic_load_n(&a->want_line, __ATOMIC_RELAXED))
        return;
    pgasi_path_state_t before = pgasi_serve_begin();
    tell_unpinned(a, loc, grant);
    pgasi_array_cache_look(a);
    pgasi_array_poll();
    pgasi_serve_end(before);
}

/* More than a call carries, and than a line has room for: done here under a pin. */
static pgas_status_t do_pinned(pgasi_array_t *a, const pgasi_array_location_t *loc,
                               pgasi_array_access_t *x)
{
    pgasi_array_site_t site;
    bool reads = pgasi_array_need(x) == PGASI_ARRAY_NEED_R, recall;
    pgas_array_pin_mode_t mode = reads ? PGAS_ARRAY_PIN_READ : PGAS_ARRAY_PIN_WRITE;
    pgasi_array_access_t pin = {
        .kind = PGASI_ARRAY_PIN, .pin = (uint8_t)mode, .chunk = x->chunk, .k = x->k, .n = 1
    };
    pgas_status_t status = pgasi_array_own_pin_room();
    if (status == PGAS_OK)
        status = pgasi_array_do(a, loc, &pin);
    if (status != PGAS_OK)
        return status;
    pgasi_array_site(a, loc, &site);
    pgasi_array_own_pin_add(site.grant);
    status = pgasi_array_grant_try(&site, x, true);
    pgasi_array_grant_unpin(site.grant, mode, &recall);
    end_pin(a, loc, site.grant, recall);
    return status;
}

static bool is_too_large(const pgasi_array_t *a, const pgasi_array_location_t *loc,
                         const pgasi_array_access_t *x)
{
    size_t in = pgasi_array_in_bytes(a, x);
    if (loc->home == a->rank ||
        PGASI_MAX(in, pgasi_array_out_bytes(a, x)) <= PGASI_ARRAY_CALL_BYTES)
        return false;
    return a->node_rank[loc->home] >= 0 ||
           (x->kind == PGASI_ARRAY_APPLY && in > a->open.elem_bytes);
}

pgas_status_t pgasi_array_do(pgasi_array_t *a, const pgasi_array_location_t *loc,
                             pgasi_array_access_t *x)
{
    pgasi_array_site_t site;
    bool far = a->node_rank[loc->home] < 0;
    bool sequential = far && note_walk(a, loc),
         ahead = sequential && wants_ahead(a, loc) && !pgasi_self.in_handler;
    pgas_status_t status =
        pgasi_array_site(a, loc, &site) ? pgasi_array_grant_try(&site, x, true) : PGAS_INPROGRESS;
    if (PGAS_LIKELY(status != PGAS_INPROGRESS && !ahead))
        return status;
    bool missed = status == PGAS_INPROGRESS;
    if (missed) {
        status = may_wait(a);
        if (status != PGAS_OK)
            return status;
        if (is_too_large(a, loc, x))
            return do_pinned(a, loc, x);
        pgasi_array_note(&a->info.misses, 1);
        x->done = 0;
    }
    pgasi_path_state_t before = pgasi_serve_begin();
    if (missed)
        begin_access(a, loc, x, sequential);
    if (ahead)
        read_ahead(a, loc, x);
    pgasi_array_poll();
    pgasi_serve_end(before);
    return missed ? wait_for(a, x) : status;
}

pgas_status_t pgasi_array_do_all(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                 pgasi_array_access_t *x, size_t n)
{
    pgasi_array_site_t site;
    size_t n_missed = 0;
    pgas_status_t first = PGAS_OK;
    for (size_t j = 0; j < n; j++) {
        x[j].done = 1;
        x[j].status = pgasi_array_site(a, &loc[j], &site)
                          ? pgasi_array_grant_try(&site, &x[j], true)
                          : PGAS_INPROGRESS;
        n_missed += x[j].status == PGAS_INPROGRESS;
    }
    pgas_status_t status = n_missed ? may_wait(a) : PGAS_OK;
    if (status != PGAS_OK)
        return status;
    if (n_missed) {
        pgasi_array_note(&a->info.misses, n_missed);
        pgasi_path_state_t before = pgasi_serve_begin();
        for (size_t j = 0; j < n; j++) {
            if (x[j].status != PGAS_INPROGRESS || is_too_large(a, &loc[j], &x[j]))
                continue;
            x[j].done = 0;
            begin_access(a, &loc[j], &x[j], false);
        }
        pgasi_array_poll();
        pgasi_serve_end(before);
    }
    for (size_t j = 0; j < n; j++) {
        status = wait_for(a, &x[j]);
        if (status == PGAS_INPROGRESS) /* too large to have been begun with the others */
            status = do_pinned(a, &loc[j], &x[j]);
        first = first == PGAS_OK ? status : first;
    }
    return first;
}

/* ---- the public forms ---- */

/* Leaves the access as which the inline way began, and makes the thread known. */
static inline void enter(void)
{
    if (PGAS_LIKELY(pgasi_array_thread_known()))
        pgas_array_leave(pgas_array_path.slot);
    else
        pgasi_array_thread_start();
}

pgas_status_t pgasi_array_check(const pgas_array_t *array, uint64_t i)
{
    if (PGAS_UNLIKELY(!array))
        return PGAS_ERR_INVALID;
    if (PGAS_UNLIKELY(!pgasi_thread_attached()))
        return pgasi_running ? PGAS_ERR_CONTEXT : PGAS_ERR_NOT_INIT;
    if (PGAS_UNLIKELY(array->epoch != pgasi_epoch))
        return PGAS_ERR_INVALID;
    enter();
    return PGAS_UNLIKELY(i >= array->n_elems) ? PGAS_ERR_RANGE : PGAS_OK;
}

static pgas_status_t access_one(pgas_array_t *array, uint64_t i, pgasi_array_access_t *x)
{
    pgasi_array_t *a = pgasi_array_of(array);
    pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
    x->chunk = loc.chunk;
    x->k = (uint32_t)(i & array->mask);
    x->n = 1;
    return pgasi_array_do(a, &loc, x);
}

static pgas_status_t check_sized(const pgas_array_t *array, uint64_t i, size_t bytes,
                                 const void *value)
{
    pgas_status_t status = pgasi_array_check(array, i);
    if (status != PGAS_OK)
        return status;
    return bytes == array->elem_bytes && value ? PGAS_OK : PGAS_ERR_INVALID;
}

/* Elements that are read by one load, in chunks that are not smaller than cells. */
static bool has_words(const pgas_array_t *array)
{
    const pgasi_array_t *a = pgasi_array_of_const(array);
    return !a->wide && a->map.shift >= PGAS_ARRAY_SUBBLOCK_SHIFT;
}

pgas_status_t pgas_array_get_sized(pgas_array_t *array, uint64_t i, size_t bytes, void *value_p)
{
    pgas_status_t status = check_sized(array, i, bytes, value_p);
    return status == PGAS_OK
               ? access_one(array, i,
                            &(pgasi_array_access_t){ .kind = PGASI_ARRAY_GET, .out = value_p })
               : status;
}

pgas_status_t pgas_array_set_sized(pgas_array_t *array, uint64_t i, size_t bytes, const void *value)
{
    pgas_status_t status = check_sized(array, i, bytes, value);
    if (status != PGAS_OK || (has_words(array) && pgasi_array_set_shared(array, i, value)))
        return status;
    return access_one(array, i, &(pgasi_array_access_t){ .kind = PGASI_ARRAY_SET, .in = value });
}

pgas_status_t pgasi_array_check_op(const pgas_array_t *array, pgas_array_op_t op,
                                   const pgas_array_op_def_t **def_p)
{
    *def_p = pgasi_array_op_find(op);
    if (!*def_p)
        return PGAS_ERR_NOT_FOUND;
    return (*def_p)->elem_bytes == array->elem_bytes ? PGAS_OK : PGAS_ERR_MISMATCH;
}

/* Of an element whose home is on another node. Operands are kept in a line only if the home can
 * bring them into the elements. */
static pgas_status_t check_op_there(pgasi_array_t *a, const pgasi_array_location_t *loc,
                                    pgas_array_op_t op)
{
    if (a->node_rank[loc->home] >= 0 || pgasi_array_home_knows(a, loc->home, op))
        return PGAS_OK;
    pgas_status_t status = may_wait(a);
    if (status != PGAS_OK)
        return status;
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_ASK,
                               .op = op,
                               .k = (uint32_t)(loc->first & a->open.mask),
                               .n = 1,
                               .chunk = loc->chunk };
    pgasi_path_state_t before = pgasi_serve_begin();
    status = pgasi_array_send_op(a, a->global[loc->home], &x);
    pgasi_serve_end(before);
    return status == PGAS_OK ? wait_for(a, &x) : status;
}

pgas_status_t pgas_array_apply_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                     pgas_array_op_t op, const void *operand)
{
    const pgas_array_op_def_t *def;
    pgas_status_t status = check_sized(array, i, bytes, operand);
    if (status == PGAS_OK)
        status = pgasi_array_check_op(array, op, &def);
    if (status != PGAS_OK ||
        (has_words(array) && pgasi_array_apply_shared(array, i, op, def, operand)))
        return status;
    pgasi_array_t *a = pgasi_array_of(array);
    /* others are sent to the home at first, which says so */
    if (PGAS_UNLIKELY(def->operand_bytes > PGASI_ARRAY_CALL_BYTES)) {
        pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
        status = check_op_there(a, &loc, op);
        if (status != PGAS_OK)
            return status;
    }
    return access_one(array, i,
                      &(pgasi_array_access_t){
                          .kind = PGASI_ARRAY_APPLY, .op = op, .in = operand });
}

/* Elements that no single load reads: those whom an entry lets in are alone, or all of them
 * read. */
static const pgas_array_mapping_t *enter_wide(const pgas_array_t *array, uint64_t i,
                                              uint64_t *rights_p)
{
    if (PGAS_UNLIKELY(i >= array->n_elems))
        return NULL;
    pgas_array_enter(pgas_array_path.slot);
    const pgas_array_mapping_t *mapping = &array->table[i >> array->shift];
    *rights_p = pgas_array_rights(mapping);
    return mapping;
}

pgas_status_t pgas_array_get(pgas_array_t *array, uint64_t i, void *value_p)
{
    if (PGAS_UNLIKELY(!array || !value_p))
        return PGAS_ERR_INVALID;
    switch (array->elem_bytes) {
    case 1:
        return pgas_array_get_u8(array, i, value_p);
    case 2:
        return pgas_array_get_u16(array, i, value_p);
    case 4:
        return pgas_array_get_u32(array, i, value_p);
    case 8:
        return pgas_array_get_u64(array, i, value_p);
    default:
        break;
    }
    uint64_t rights = 0;
    const pgas_array_mapping_t *mapping = enter_wide(array, i, &rights);
    if (!mapping || (!(rights & pgas_array_path.read) && rights != pgas_array_path.data))
        return pgas_array_get_sized(array, i, array->elem_bytes, value_p);
    memcpy(value_p, __atomic_load_n(&mapping->base, __ATOMIC_RELAXED) + i * array->elem_bytes,
           array->elem_bytes);
    pgas_array_leave(pgas_array_path.slot);
    return PGAS_OK;
}

pgas_status_t pgas_array_set(pgas_array_t *array, uint64_t i, const void *value)
{
    if (PGAS_UNLIKELY(!array || !value))
        return PGAS_ERR_INVALID;
    switch (array->elem_bytes) {
#define SET(bytes, tag, word)                     \
    case bytes: {                                 \
        word w;                                   \
        memcpy(&w, value, sizeof w);              \
        return pgas_array_set_##tag(array, i, w); \
    }
        SET(1, u8, uint8_t)
        SET(2, u16, uint16_t)
        SET(4, u32, uint32_t)
        SET(8, u64, uint64_t)
#undef SET
    default:
        break;
    }
    uint64_t rights = 0;
    const pgas_array_mapping_t *mapping = enter_wide(array, i, &rights);
    if (!mapping || rights != pgas_array_path.data)
        return pgas_array_set_sized(array, i, array->elem_bytes, value);
    memcpy(__atomic_load_n(&mapping->base, __ATOMIC_RELAXED) + i * array->elem_bytes, value,
           array->elem_bytes);
    pgas_array_leave(pgas_array_path.slot);
    return PGAS_OK;
}

pgas_status_t pgas_array_apply(pgas_array_t *array, uint64_t i, pgas_array_op_t op,
                               const void *operand)
{
    return pgas_array_apply_sized(array, i, array ? array->elem_bytes : 0, op, operand);
}

pgas_status_t pgas_array_compare_swap(pgas_array_t *array, uint64_t i, const void *expected,
                                      const void *desired, void *old_p)
{
    pgas_status_t status = pgasi_array_check(array, i);
    if (status != PGAS_OK)
        return status;
    if (!expected || !desired || !old_p)
        return PGAS_ERR_INVALID;
    if (array->elem_bytes > PGASI_ARRAY_VALUE_MAX)
        return PGAS_ERR_LIMIT;
    char old[PGASI_ARRAY_VALUE_MAX]; /* *old_p may be *expected */
    status = access_one(array, i,
                        &(pgasi_array_access_t){
                            .kind = PGASI_ARRAY_CAS, .in = desired, .in2 = expected, .out = old });
    if (status == PGAS_OK)
        memcpy(old_p, old, array->elem_bytes);
    return status;
}

pgas_status_t pgas_array_fetch_op(pgas_array_t *array, uint64_t i, pgas_array_op_t op,
                                  const void *operand, void *old_p)
{
    const pgas_array_op_def_t *def;
    pgas_status_t status = pgasi_array_check(array, i);
    if (status == PGAS_OK && !(operand && old_p))
        status = PGAS_ERR_INVALID;
    if (status == PGAS_OK)
        status = pgasi_array_check_op(array, op, &def);
    if (status == PGAS_OK &&
        (array->elem_bytes > PGASI_ARRAY_VALUE_MAX || def->operand_bytes > PGASI_ARRAY_VALUE_MAX))
        status = PGAS_ERR_LIMIT;
    if (status != PGAS_OK)
        return status;
    char old[PGASI_ARRAY_VALUE_MAX];
    status = access_one(array, i,
                        &(pgasi_array_access_t){
                            .kind = PGASI_ARRAY_FETCH, .op = op, .in = operand, .out = old });
    if (status == PGAS_OK)
        memcpy(old_p, old, array->elem_bytes);
    return status;
}

/* ---- pins ---- */

pgas_status_t pgas_array_pin(pgas_array_t *array, uint64_t i, pgas_array_pin_mode_t mode,
                             pgas_array_op_t op, pgas_array_pin_t *pin_p)
{
    const pgas_array_op_def_t *def = NULL;
    pgas_status_t status = pgasi_array_check(array, i);
    if (status == PGAS_OK && (!pin_p || (unsigned)mode > PGAS_ARRAY_PIN_OPERATE))
        status = PGAS_ERR_INVALID;
    if (status == PGAS_OK && pgasi_self.in_handler) /* unpin may have to serve */
        status = PGAS_ERR_CONTEXT;
    if (status == PGAS_OK && mode == PGAS_ARRAY_PIN_OPERATE) {
        status = pgasi_array_check_op(array, op, &def);
        if (status == PGAS_OK && (def->operand_bytes != array->elem_bytes || def->merge))
            status = PGAS_ERR_MISMATCH;
    }
    if (status == PGAS_OK)
        status = pgasi_array_own_pin_room();
    if (status != PGAS_OK)
        return status;
    pgasi_array_t *a = pgasi_array_of(array);
    pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
    status = mode == PGAS_ARRAY_PIN_OPERATE ? check_op_there(a, &loc, op) : PGAS_OK;
    if (status != PGAS_OK)
        return status;
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_PIN,
                               .pin = (uint8_t)mode,
                               .op = mode == PGAS_ARRAY_PIN_OPERATE ? op : 0,
                               .chunk = loc.chunk,
                               .k = (uint32_t)(i & array->mask),
                               .n = 1 };
    status = pgasi_array_do(a, &loc, &x);
    if (status != PGAS_OK)
        return status;
    pgasi_array_site_t site;
    pgasi_array_site(a, &loc, &site); /* the pin keeps it */
    pgasi_array_own_pin_add(site.grant);
    char *data = site.data + (loc.first & array->mask) * array->elem_bytes;
    *pin_p = (pgas_array_pin_t){ data, loc.first, loc.n, array, site.grant, mode };
    return PGAS_OK;
}

pgas_status_t pgas_array_unpin(pgas_array_pin_t *pin)
{
    if (!pin || !pin->grant)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_array_check(pin->array, pin->first);
    bool recall = false;
    if (status == PGAS_OK)
        status = pgasi_array_grant_unpin(pin->grant, pin->mode, &recall);
    if (status != PGAS_OK)
        return status;
    pgasi_array_t *a = pgasi_array_of(pin->array);
    pgasi_array_location_t loc = pgasi_array_locate(&a->map, pin->first);
    pgasi_array_grant_t *grant = pin->grant;
    pin->grant = NULL;
    end_pin(a, &loc, grant, recall);
    return PGAS_OK;
}
