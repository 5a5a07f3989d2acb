/** The inline part of pgas/rma_object.h, and the structure of its vectors. */
#ifndef PGAS_DETAIL_RMA_OBJECT_H
#define PGAS_DETAIL_RMA_OBJECT_H

#include <stdbool.h>
#include "pgas/rma_object.h"

PGAS_BEGIN_DECLS

static inline pgas_rma_object_t *pgas_rma_object_share(pgas_rma_object_t *object)
{
    if (object)
        __atomic_fetch_add(&object->n_holders, 1, __ATOMIC_RELAXED);
    return object;
}

/* What every NAME_t contains. Among the vectors of one object at most one has room > n, unless the
 * object has one holder. So two vectors never append at the same address. */
typedef struct {
    pgas_rma_object_t *object; /* NULL: nothing is allocated */
    void *data;                /* of the object */
    size_t n, room;            /* elements */
} pgas_rma_vector_t;

/* Makes room for n elements. for_push: it makes room for some more. */
PGAS_API pgas_status_t pgas_rma_vector_grow(pgas_rma_vector_t *vector, size_t n, size_t elem_bytes,
                                            bool for_push);
/* Frees the vector, which then has the first n elements of an object. The vector takes the caller's
 * reference. object NULL: an empty vector. @return PGAS_ERR_RANGE: the object has fewer elements */
PGAS_API pgas_status_t pgas_rma_vector_adopt(pgas_rma_vector_t *vector, pgas_rma_object_t *object,
                                             size_t n, size_t elem_bytes);

static inline pgas_status_t pgas_rma_vector_free(pgas_rma_vector_t *vector)
{
    static const pgas_rma_vector_t empty = { NULL, NULL, 0, 0 };
    pgas_rma_object_t *object = vector->object;
    *vector = empty;
    return pgas_rma_object_destroy(object);
}

/* Elements behind n may be those of other holders, so the vector gives up its room behind them. */
static inline void pgas_rma_vector_shrink(pgas_rma_vector_t *vector, size_t n)
{
    if (vector->object && __atomic_load_n(&vector->object->n_holders, __ATOMIC_ACQUIRE) != 1)
        vector->room = n;
}

static inline void pgas_rma_vector_take(pgas_rma_vector_t *from, pgas_rma_vector_t *to)
{
    if (from == to)
        return;
    (void)pgas_rma_vector_free(to);
    *to = *from;
    from->object = NULL;
    (void)pgas_rma_vector_free(from);
}

static inline void pgas_rma_vector_share(const pgas_rma_vector_t *from, pgas_rma_vector_t *to)
{
    if (from == to)
        return;
    (void)pgas_rma_object_share(from->object);
    (void)pgas_rma_vector_free(to);
    *to = *from;
    to->room = to->n;
}

PGAS_END_DECLS

#define PGAS_RMA_VECTOR_FUNCTIONS(name, type)                                                   \
    typedef struct {                                                                            \
        pgas_rma_vector_t vector;                                                               \
    } name##_t;                                                                                 \
    PGAS_HELPER pgas_status_t name##_resize(name##_t *v_, size_t n_)                            \
    {                                                                                           \
        if (PGAS_UNLIKELY(!v_))                                                                 \
            return PGAS_ERR_INVALID;                                                            \
        if (n_ < v_->vector.n)                                                                  \
            pgas_rma_vector_shrink(&v_->vector, n_);                                            \
        if (n_ > v_->vector.room) {                                                             \
            pgas_status_t status_ = pgas_rma_vector_grow(&v_->vector, n_, sizeof(type), 0);     \
            if (status_ != PGAS_OK)                                                             \
                return status_;                                                                 \
        }                                                                                       \
        v_->vector.n = n_;                                                                      \
        return PGAS_OK;                                                                         \
    }                                                                                           \
    PGAS_HELPER pgas_status_t name##_push(name##_t *v_, type element_)                          \
    {                                                                                           \
        size_t n_;                                                                              \
        if (PGAS_UNLIKELY(!v_))                                                                 \
            return PGAS_ERR_INVALID;                                                            \
        n_ = v_->vector.n;                                                                      \
        if (PGAS_UNLIKELY(n_ == v_->vector.room)) {                                             \
            pgas_status_t status_ = pgas_rma_vector_grow(&v_->vector, n_ + 1, sizeof(type), 1); \
            if (status_ != PGAS_OK)                                                             \
                return status_;                                                                 \
        }                                                                                       \
        PGAS_CAST(type *, v_->vector.data)[n_] = element_;                                      \
        v_->vector.n = n_ + 1;                                                                  \
        return PGAS_OK;                                                                         \
    }                                                                                           \
    PGAS_HELPER type *name##_data(const name##_t *v_)                                           \
    {                                                                                           \
        return PGAS_CAST(type *, v_->vector.data);                                              \
    }                                                                                           \
    PGAS_HELPER size_t name##_size(const name##_t *v_)                                          \
    {                                                                                           \
        return v_->vector.n;                                                                    \
    }                                                                                           \
    PGAS_HELPER void name##_share(const name##_t *from_, name##_t *to_)                         \
    {                                                                                           \
        pgas_rma_vector_share(&from_->vector, &to_->vector);                                    \
    }                                                                                           \
    PGAS_HELPER void name##_take(name##_t *from_, name##_t *to_)                                \
    {                                                                                           \
        pgas_rma_vector_take(&from_->vector, &to_->vector);                                     \
    }                                                                                           \
    PGAS_HELPER void name##_free(name##_t *v_)                                                  \
    {                                                                                           \
        (void)pgas_rma_vector_free(&v_->vector);                                                \
    }                                                                                           \
    PGAS_HELPER pgas_status_t name##_adopt(name##_t *v_, pgas_rma_object_t *object_, size_t n_) \
    {                                                                                           \
        return pgas_rma_vector_adopt(&v_->vector, object_, n_, sizeof(type));                   \
    }

#endif
