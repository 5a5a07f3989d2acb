/* Public functions on pins, and walks, which pin one chunk after the other. */
#include "array/access.h"
#include "array/cache.h"
#include "array/own_pins.h"
#include "array/protocol.h"
#include "base/checks.h"
#include "call/progress.h"
#include "mem/thread.h"

/* ---- pins ---- */

/* Pins the chunk of element i. The caller has checked the arguments. */
static pgas_status_t pin_chunk(pgasi_array_t *a, uint64_t i, pgas_array_mode_t mode, pgas_op_t op,
                               pgas_array_pin_t *pin_p)
{
    if (pgasi_self.in_handler) /* unpin may have to serve */
        return PGAS_ERR_CONTEXT;
    pgas_status_t status = pgasi_array_own_pin_room();
    if (status != PGAS_OK)
        return status;
    pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
    status = mode == PGAS_ARRAY_OPERATE ? pgasi_array_check_op_at_home(a, &loc, op) : PGAS_OK;
    if (status != PGAS_OK)
        return status;
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_PIN,
                               .pin = (uint8_t)mode,
                               .op = mode == PGAS_ARRAY_OPERATE ? op : 0,
                               .chunk = loc.chunk,
                               .k = (uint32_t)(i & a->pub.mask),
                               .n = 1 };
    status = pgasi_array_do(a, &loc, &x);
    if (status != PGAS_OK)
        return status;
    pgasi_array_site_t site;
    if (!x.pinned && pgasi_array_site(a, &loc, &site)) {
        x.pinned = site.grant;
        x.out = pgasi_array_grant_data(&site);
    }
    pgasi_array_own_pin_add(x.pinned);
    char *data = (char *)x.out + (loc.first & a->pub.mask) * a->pub.elem_bytes;
    *pin_p = (pgas_array_pin_t){ .data = data,
                                 .first = loc.first,
                                 .n = loc.n,
                                 .array = &a->pub,
                                 .grant = x.pinned,
                                 .mode = mode };
    return PGAS_OK;
}

/* passed: as in pgasi_array_grant_unpin */
static pgas_status_t end_pin(pgas_array_pin_t *pin, bool passed)
{
    pgasi_array_grant_t *grant = pin->grant;
    bool recall;
    pgas_status_t status = pgasi_array_grant_unpin(grant, pin->mode, passed, &recall);
    if (status != PGAS_OK)
        return status;
    pin->grant = NULL;
    pgasi_array_pin_ended(pgasi_array_of(pin->array), pin->first, grant, recall);
    return PGAS_OK;
}

static pgas_status_t check_pin(const pgas_array_t *array, uint64_t i, pgas_array_mode_t mode,
                               pgas_op_t op)
{
    const pgas_op_def_t *def = NULL;
    pgas_status_t status = pgasi_array_check(array, i);
    if (status == PGAS_OK && (unsigned)mode > PGAS_ARRAY_OPERATE)
        status = PGAS_ERR_INVALID;
    if (status != PGAS_OK || mode != PGAS_ARRAY_OPERATE)
        return status;
    status = pgasi_array_check_op(array, op, &def);
    if (status == PGAS_OK && (def->operand_bytes != array->elem_bytes || def->merge))
        status = PGAS_ERR_MISMATCH;
    return status;
}

pgas_status_t pgas_array_pin(pgas_array_t *array, uint64_t i, pgas_array_mode_t mode, pgas_op_t op,
                             pgas_array_pin_t *pin_p)
{
    pgas_status_t status = pin_p ? check_pin(array, i, mode, op) : PGAS_ERR_INVALID;
    return status == PGAS_OK ? pin_chunk(pgasi_array_of(array), i, mode, op, pin_p) : status;
}

pgas_status_t pgas_array_unpin(pgas_array_pin_t *pin)
{
    if (!pin || !pin->grant)
        return PGAS_ERR_INVALID;
    pgas_status_t status = pgasi_array_check(pin->array, pin->first);
    return status == PGAS_OK ? end_pin(pin, false) : status;
}

/* ---- walks in runs ---- */

static bool has_line(const pgasi_array_t *a, uint64_t chunk)
{
    return __atomic_load_n(&a->line_of[chunk], __ATOMIC_RELAXED) != 0;
}

/* Requests the chunks from `first` on that the walk will need soon, up to a multiple of RUN_MAX.
 * So it requests long runs again after one was split. */
static void request_runs(pgasi_array_t *a, const pgas_array_walk_t *walk, uint64_t first)
{
    uint64_t block = walk->next >> a->map.shift, end = ((walk->end - 1) >> a->map.shift) + 1;
    uint64_t ahead = block + a->run_ahead + PGASI_ARRAY_RUN_MAX;
    end = PGASI_MIN(end, ahead - ahead % PGASI_ARRAY_RUN_MAX);
    if (first >= end || (has_line(a, first) && has_line(a, end - 1)))
        return;
    pgasi_path_state_t before = pgasi_serve_begin();
    pgasi_array_cache_request_runs(a, first, end);
    pgasi_array_poll();
    pgasi_serve_end(before);
}

static void set_piece(pgas_array_walk_t *walk, const pgasi_array_run_place_t *place)
{
    pgasi_array_t *a = pgasi_array_of(walk->pin.array);
    uint64_t first = walk->next & ~a->pub.mask;
    walk->pin.data = place->data;
    walk->pin.first = first;
    walk->pin.n = PGASI_MIN(first + a->pub.mask + 1, a->pub.n_elems) - first;
    walk->pin.grant = place->grant;
    walk->pin.mode = walk->mode;
}

/* Pins the next chunk in a run. @return PGAS_INPROGRESS: it is in none. */
static pgas_status_t enter_run(pgasi_array_t *a, pgas_array_walk_t *walk)
{
    pgasi_array_run_place_t place;
    uint64_t chunk = walk->next >> a->map.shift;
    walk->run = 0;
    if (a->peer[pgasi_array_home_of(&a->map, walk->next)].data || pgasi_self.in_handler)
        return PGAS_INPROGRESS;
    pgas_status_t status = pgasi_array_own_pin_room();
    for (bool asked = false; status == PGAS_OK;) {
        if (pgasi_array_run_pin(a, chunk, &walk->run, &place))
            break;
        if (walk->run) {
            status = pgasi_array_wait_for_run(a, walk->run, chunk);
        } else if (!asked) {
            request_runs(a, walk, chunk);
            asked = true;
        } else {
            status = PGAS_INPROGRESS;
        }
    }
    if (status != PGAS_OK) {
        walk->run = 0;
        return status;
    }
    pgasi_array_own_pin_add(place.grant);
    set_piece(walk, &place);
    request_runs(a, walk, chunk + 1);
    return PGAS_OK;
}

/* Leaves the current piece, and enters the next one if there is one in the same run.
 * @return PGAS_INPROGRESS: the chunk's grant has the pin. */
static pgas_status_t move_in_run(pgasi_array_t *a, pgas_array_walk_t *walk)
{
    pgasi_array_grant_t *grant = walk->pin.grant;
    pgasi_array_run_place_t place = { grant, NULL };
    pgas_status_t status = pgasi_array_own_pin_room();
    bool more = status == PGAS_OK && walk->next < walk->end;
    if (!pgasi_array_has_own_pin(grant))
        return PGAS_ERR_INVALID;
    if (!pgasi_array_run_move(a, walk->run, walk->first >> a->map.shift, more, &place)) {
        walk->run = 0;
        return PGAS_INPROGRESS;
    }
    walk->pinned = place.grant != NULL;
    if (walk->pinned) {
        pgasi_array_own_pin_move(grant, place.grant);
        set_piece(walk, &place);
    } else {
        pgasi_array_own_pin_remove(grant);
    }
    pgasi_array_pin_ended(a, walk->first, grant, false);
    return status;
}

/* ---- walks ---- */

/* Ends the pin of the current piece. */
static pgas_status_t leave_piece(pgas_array_walk_t *walk)
{
    pgasi_array_t *a = pgasi_array_of(walk->pin.array);
    pgas_status_t status = pgasi_array_check(walk->pin.array, walk->first);
    walk->pinned = false;
    if (status == PGAS_OK && walk->run)
        status = move_in_run(a, walk);
    else if (status == PGAS_OK)
        status = PGAS_INPROGRESS;
    return status == PGAS_INPROGRESS ? end_pin(&walk->pin, true) : status;
}

static pgas_status_t enter_piece(pgas_array_walk_t *walk)
{
    pgasi_array_t *a = pgasi_array_of(walk->pin.array);
    bool runs = walk->mode == PGAS_ARRAY_READ && a->run;
    pgas_status_t status = runs ? enter_run(a, walk) : PGAS_INPROGRESS;
    if (status == PGAS_INPROGRESS)
        status = pin_chunk(a, walk->next, walk->mode, walk->op, &walk->pin);
    walk->pinned = status == PGAS_OK;
    return status;
}

bool pgas_array_walk_next(pgas_array_walk_t *walk)
{
    if (!walk || walk->status != PGAS_OK)
        return false;
    pgas_array_t *array = walk->pin.array;
    bool more = walk->next < walk->end;
    if (walk->pinned)
        walk->status = leave_piece(walk);
    else if (more)
        walk->status = check_pin(array, walk->next, walk->mode, walk->op);
    if (walk->status == PGAS_OK && more && !walk->pinned)
        walk->status = enter_piece(walk);
    if (walk->status != PGAS_OK || !more)
        return false;
    walk->first = walk->next;
    walk->data = (char *)walk->pin.data + (walk->next - walk->pin.first) * array->elem_bytes;
    walk->n = PGASI_MIN(walk->pin.first + walk->pin.n, walk->end) - walk->next;
    walk->next += walk->n;
    return true;
}

pgas_status_t pgas_array_walk_end(pgas_array_walk_t *walk)
{
    if (!walk)
        return PGAS_ERR_INVALID;
    walk->end = walk->next;
    pgas_status_t status = walk->pinned ? leave_piece(walk) : PGAS_OK;
    walk->status = walk->status == PGAS_OK ? status : walk->status;
    return walk->status;
}
