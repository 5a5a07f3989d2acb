/* Growing vectors in registered memory: the part of PGAS_RMA_VECTOR that is not inline. */
#include <string.h>

#include "base/checks.h"
#include "mem/rma_object.h"

#define FIRST_BYTES 64 /* of the first push */

pgas_status_t pgas_rma_vector_grow(pgas_rma_vector_t *v, size_t n, size_t elem_bytes, bool for_push)
{
    if (!v || !elem_bytes)
        return PGAS_ERR_INVALID;
    if (n > SIZE_MAX / elem_bytes)
        return PGAS_ERR_NO_MEMORY;
    /* The only holder of an object may use all of its memory. */
    if (v->object && __atomic_load_n(&v->object->n_holders, __ATOMIC_ACQUIRE) == 1)
        v->room = v->object->bytes / elem_bytes;
    if (n <= v->room)
        return PGAS_OK;
    size_t want = n;
    if (for_push)
        want = PGASI_MAX(PGASI_MAX(n, FIRST_BYTES / elem_bytes),
                         v->n <= SIZE_MAX / 2 / elem_bytes ? 2 * v->n : n);
    pgas_rma_object_t *object;
    pgas_status_t status = pgas_rma_object_create(pgasi_rma_room(want * elem_bytes), &object);
    if (status != PGAS_OK)
        return status;
    if (v->n)
        memcpy(object->data, v->data, v->n * elem_bytes);
    (void)pgas_rma_object_destroy(v->object);
    v->object = object;
    v->data = object->data;
    v->room = object->bytes / elem_bytes;
    return PGAS_OK;
}

pgas_status_t pgas_rma_vector_adopt(pgas_rma_vector_t *v, pgas_rma_object_t *object, size_t n,
                                    size_t elem_bytes)
{
    if (!v || !elem_bytes || (!object && n))
        return PGAS_ERR_INVALID;
    if (object && n > object->bytes / elem_bytes)
        return PGAS_ERR_RANGE;
    (void)pgas_rma_vector_free(v);
    if (object)
        *v = (pgas_rma_vector_t){ object, object->data, n, n };
    return PGAS_OK;
}
