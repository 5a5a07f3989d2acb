/* Public functions on one element. */
#include <string.h>

#include "array/access.h"
#include "array/op.h"
#include "array/protocol.h"
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
    return bytes == array->elem_bytes && value ? PGAS_OK : PGAS_ERR_INVALID;
}

/* Whether a single load reads an element, and chunks are not smaller than sub-blocks. */
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

/* ---- by mapping entries for atomic instructions ---- */

static bool set_shared(const pgas_array_t *array, uint64_t i, const void *value)
{
    const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    bool may = (pgas_array_rights(mapping) & PGAS_ARRAY_CHANGE) && pgas_array_path.read;
    if (may)
        pgasi_array_store_words(mapping->base + i * array->elem_bytes, value, array->elem_bytes, 1);
    pgas_array_leave(slot);
    return may;
}

static bool apply_shared(const pgas_array_t *array, uint64_t i, pgas_array_op_t op,
                         const pgas_array_op_def_t *def, const void *operand)
{
    const pgas_array_mapping_t *mapping = pgas_array_mapping(array, i);
    uint32_t *slot = pgas_array_enter(pgas_array_path.slot);
    uint64_t rights = pgas_array_rights(mapping);
    bool combines = (rights & PGAS_ARRAY_COMBINE) && rights >> 32 == op && !def->merge;
    bool may = ((rights & PGAS_ARRAY_CHANGE) || combines) && pgas_array_path.read;
    if (may)
        pgasi_array_change_word(mapping->base + i * array->elem_bytes, array->elem_bytes,
                                def->merge ? def->merge : def->combine, operand, NULL);
    pgas_array_leave(slot);
    return may;
}

/* ---- set and apply ---- */

pgas_status_t pgas_array_set_sized(pgas_array_t *array, uint64_t i, size_t bytes, const void *value)
{
    pgas_status_t status = check_sized(array, i, bytes, value);
    if (status != PGAS_OK || (has_words(array) && set_shared(array, i, value)))
        return status;
    return access_one(array, i, &(pgasi_array_access_t){ .kind = PGASI_ARRAY_SET, .in = value });
}

pgas_status_t pgas_array_apply_sized(pgas_array_t *array, uint64_t i, size_t bytes,
                                     pgas_array_op_t op, const void *operand)
{
    const pgas_array_op_def_t *def;
    pgas_status_t status = check_sized(array, i, bytes, operand);
    if (status == PGAS_OK)
        status = pgasi_array_check_op(array, op, &def);
    if (status != PGAS_OK || (has_words(array) && apply_shared(array, i, op, def, operand)))
        return status;
    pgasi_array_t *a = pgasi_array_of(array);
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

/* ---- any size ---- */

/* For elements that no single load reads. If a mapping entry allows the access, the thread is
 * alone, or all threads only read. */
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
