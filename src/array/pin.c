/* Public functions on pins. */
#include "array/access.h"
#include "array/own_pins.h"
#include "array/protocol.h"
#include "mem/thread.h"

pgas_status_t pgas_array_pin(pgas_array_t *array, uint64_t i, pgas_array_mode_t mode, pgas_op_t op,
                             pgas_array_pin_t *pin_p)
{
    const pgas_op_def_t *def = NULL;
    pgas_status_t status = pgasi_array_check(array, i);
    if (status == PGAS_OK && (!pin_p || (unsigned)mode > PGAS_ARRAY_OPERATE))
        status = PGAS_ERR_INVALID;
    if (status == PGAS_OK && pgasi_self.in_handler) /* unpin may have to serve */
        status = PGAS_ERR_CONTEXT;
    if (status == PGAS_OK && mode == PGAS_ARRAY_OPERATE) {
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
    status = mode == PGAS_ARRAY_OPERATE ? pgasi_array_check_op_at_home(a, &loc, op) : PGAS_OK;
    if (status != PGAS_OK)
        return status;
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_PIN,
                               .pin = (uint8_t)mode,
                               .op = mode == PGAS_ARRAY_OPERATE ? op : 0,
                               .chunk = loc.chunk,
                               .k = (uint32_t)(i & array->mask),
                               .n = 1 };
    status = pgasi_array_do(a, &loc, &x);
    if (status != PGAS_OK)
        return status;
    pgasi_array_site_t site;
    pgasi_array_site(a, &loc, &site); /* the pin keeps the cache line */
    pgasi_array_own_pin_add(site.grant);
    char *data = site.data + (loc.first & array->mask) * array->elem_bytes;
    *pin_p = (pgas_array_pin_t){ .data = data,
                                 .first = loc.first,
                                 .n = loc.n,
                                 .array = array,
                                 .grant = site.grant,
                                 .mode = mode };
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
    pgasi_array_grant_t *grant = pin->grant;
    pin->grant = NULL;
    pgasi_array_pin_ended(pgasi_array_of(pin->array), pin->first, grant, recall);
    return PGAS_OK;
}
