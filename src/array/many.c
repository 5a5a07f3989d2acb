/* Many elements by index: get_many, set_many, update_many. All accesses of a batch are passed to
 * the protocol before the thread waits for the first. */
#include <string.h>

#include "array/access.h"
#include "base/op.h"
#include "array/protocol.h"
#include "base/checks.h"

#define BATCH 128

/* What is done to each element. */
typedef struct {
    pgasi_array_kind_t kind;
    pgas_op_t op;
    size_t value_bytes; /* from one value to the next */
    char *to;
    const char *from;
} work_t;

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

static pgas_status_t do_batch(pgas_array_t *array, const uint64_t *index, size_t n,
                              const work_t *work)
{
    pgasi_array_t *a = pgasi_array_of(array);
    pgasi_array_location_t loc[BATCH];
    pgasi_array_access_t x[BATCH];
    for (size_t k = 0; k < n; k++) {
        size_t at = k * work->value_bytes;
        loc[k] = pgasi_array_locate(&a->map, index[k]);
        x[k] = (pgasi_array_access_t){ .kind = (uint8_t)work->kind,
                                       .op = work->op,
                                       .k = (uint32_t)(index[k] & array->mask),
                                       .n = 1,
                                       .chunk = loc[k].chunk,
                                       .in = work->from ? work->from + at : NULL,
                                       .out = work->to ? work->to + at : NULL };
    }
    return pgasi_array_do_all(a, loc, x, n);
}

static pgas_status_t do_many(pgas_array_t *array, const uint64_t *index, size_t n, work_t work)
{
    pgas_status_t status = PGAS_OK;
    for (size_t done = 0; done < n && status == PGAS_OK; done += BATCH) {
        size_t some = PGASI_MIN(n - done, (size_t)BATCH);
        status = do_batch(array, index + done, some, &work);
        if (work.to)
            work.to += some * work.value_bytes;
        if (work.from)
            work.from += some * work.value_bytes;
    }
    return status;
}

pgas_status_t pgas_array_get_many(pgas_array_t *array, const uint64_t *index, size_t n, void *to)
{
    pgas_status_t status = check(array, index, n, to);
    return status == PGAS_OK
               ? do_many(array, index, n,
                         (work_t){
                             .kind = PGASI_ARRAY_GET, .value_bytes = array->elem_bytes, .to = to })
               : status;
}

pgas_status_t pgas_array_set_many(pgas_array_t *array, const uint64_t *index, size_t n,
                                  const void *from)
{
    pgas_status_t status = check(array, index, n, from);
    return status == PGAS_OK ? do_many(array, index, n,
                                       (work_t){ .kind = PGASI_ARRAY_SET,
                                                 .value_bytes = array->elem_bytes,
                                                 .from = from })
                             : status;
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
    return status == PGAS_OK ? do_many(array, index, n,
                                       (work_t){ .kind = PGASI_ARRAY_APPLY,
                                                 .op = op,
                                                 .value_bytes = def->operand_bytes,
                                                 .from = operands })
                             : status;
}
