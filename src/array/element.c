/* Public functions on one element. */
#include <string.h>

#include "array/access.h"
#include "array/join.h"
#include "base/op.h"
#include "array/protocol.h"
#include "array/record.h"
#include "array/words.h"

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
    return (!bytes || bytes == array->elem_bytes) && value ? PGAS_OK : PGAS_ERR_INVALID;
}

/* ---- by mapping entries ---- */

static const pgas_array_mapping_t *mapping_of(const pgas_array_t *array, uint64_t i)
{
    return &array->table[i >> array->shift];
}

static char *mapped_at(const pgas_array_t *array, const pgas_array_mapping_t *mapping, uint64_t i)
{
    return __atomic_load_n(&mapping->base, __ATOMIC_RELAXED) + i * array->elem_bytes;
}

/* Elements of any size: of wide ones no thread writes while an entry allows another to read. */
static bool get_mapped(const pgas_array_t *array, uint64_t i, void *value_p)
{
    const pgas_array_mapping_t *mapping = mapping_of(array, i);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    uint64_t rights = pgas_array_rights(mapping);
    bool may = (rights & pgas_array_path.read) || rights == pgas_array_path.data;
    if (may)
        pgasi_array_load_words(value_p, mapped_at(array, mapping, i), array->elem_bytes, 1);
    pgas_array_leave(slot);
    return may;
}

/* By an owner with plain stores, by other threads with atomic instructions. */
static bool set_mapped(const pgas_array_t *array, uint64_t i, const void *value)
{
    const pgas_array_mapping_t *mapping = mapping_of(array, i);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    uint64_t rights = pgas_array_rights(mapping);
    bool owns = rights == pgas_array_path.data;
    bool may = owns || ((rights & PGAS_ARRAY_RIGHT_CHANGE) && pgas_array_path.read);
    if (owns)
        memcpy(mapped_at(array, mapping, i), value, array->elem_bytes);
    else if (may)
        pgasi_array_store_words(mapped_at(array, mapping, i), value, array->elem_bytes, 1);
    pgas_array_leave(slot);
    return may;
}

/* By atomic instructions: other threads use the chunk, too. The slot may be taken already. */
static bool apply_shared(const pgas_array_t *array, uint64_t i, pgas_op_t op,
                         const pgas_op_def_t *def, const void *operand)
{
    const pgas_array_mapping_t *mapping = mapping_of(array, i);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    uint64_t rights = pgas_array_rights(mapping);
    bool combines = (rights & PGAS_ARRAY_RIGHT_COMBINE) && rights >> 32 == op && !def->merge;
    bool may = ((rights & PGAS_ARRAY_RIGHT_CHANGE) || combines) && pgas_array_path.read;
    if (may)
        pgasi_array_combine_word(mapped_at(array, mapping, i), array->elem_bytes, op,
                                 def->merge ? def->merge : def->combine, operand);
    pgas_array_leave(slot);
    return may;
}

/* The same for the typed functions, without the checks that they need not make. */
static inline bool apply_typed(pgas_array_t *array, uint64_t i, size_t bytes, pgas_op_t op,
                               const void *operand)
{
    pgasi_array_t *a = pgasi_array_of(array);
    const pgas_op_def_t *def = pgasi_op_find(op);
    if (!bytes || i >= array->limit[__builtin_ctzl(bytes)] || !def || def->elem_bytes != bytes)
        return false;
    pgas_array_leave(pgas_array_path.slot); /* the thread may wait */
    if (pgasi_array_sparse_add(a, i, op, def->operand_bytes, operand) == PGAS_OK)
        return true;
    if (!apply_shared(array, i, op, def, operand))
        return false;
    if (pgas_array_path.sample-- <= 1) {
        pgas_array_path.sample = PGASI_ARRAY_SAMPLE;
        pgasi_array_join_sample(array, i, op);
    }
    return true;
}

/* ---- get, set and apply ---- */

pgas_status_t pgas_array_get_sized(pgas_array_t *array, uint64_t i, size_t bytes, void *value_p)
{
    pgas_status_t status = check_sized(array, i, bytes, value_p);
    if (status != PGAS_OK || get_mapped(array, i, value_p))
        return status;
    return access_one(array, i, &(pgasi_array_access_t){ .kind = PGASI_ARRAY_GET, .out = value_p });
}

pgas_status_t pgas_array_try_get(pgas_array_t *array, uint64_t i, void *value_p)
{
    pgas_status_t status = check_sized(array, i, 0, value_p);
    if (status != PGAS_OK || get_mapped(array, i, value_p))
        return status;
    pgasi_array_t *a = pgasi_array_of(array);
    pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
    pgasi_array_access_t x = { .kind = PGASI_ARRAY_GET,
                               .out = value_p,
                               .chunk = loc.chunk,
                               .k = (uint32_t)(i & array->mask),
                               .n = 1 };
    return pgasi_array_try(a, &loc, &x);
}

pgas_status_t pgas_array_set_sized(pgas_array_t *array, uint64_t i, size_t bytes, const void *value)
{
    pgas_status_t status = check_sized(array, i, bytes, value);
    if (status != PGAS_OK || set_mapped(array, i, value))
        return status;
    return access_one(array, i, &(pgasi_array_access_t){ .kind = PGASI_ARRAY_SET, .in = value });
}

pgas_status_t pgas_array_apply_sized(pgas_array_t *array, uint64_t i, size_t bytes, pgas_op_t op,
                                     const void *operand)
{
    const pgas_op_def_t *def;
    if (apply_typed(array, i, bytes, op, operand))
        return PGAS_OK;
    pgas_status_t status = check_sized(array, i, bytes, operand);
    if (status == PGAS_OK)
        status = pgasi_array_check_op(array, op, &def);
    pgasi_array_t *a = pgasi_array_of(array);
    if (status != PGAS_OK || (!a->wide && apply_shared(array, i, op, def, operand)))
        return status;
    status = pgasi_array_sparse_add(a, i, op, def->operand_bytes, operand);
    if (status != PGAS_INPROGRESS)
        return status;
    /* smaller applies are sent to the home, and the home refuses an unknown operator */
    if (PGAS_UNLIKELY(def->operand_bytes > PGASI_ARRAY_CALL_BYTES)) {
        pgasi_array_location_t loc = pgasi_array_locate(&a->map, i);
        status = pgasi_array_check_op_at_home(a, &loc, op);
        if (status != PGAS_OK)
            return status;
    }
    return access_one(array, i,
                      &(pgasi_array_access_t){
                          .kind = PGASI_ARRAY_APPLY, .op = op, .in = operand });
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

pgas_status_t pgas_array_fetch_op(pgas_array_t *array, uint64_t i, pgas_op_t op,
                                  const void *operand, void *old_p)
{
    const pgas_op_def_t *def;
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
