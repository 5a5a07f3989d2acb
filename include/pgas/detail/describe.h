/** What the macros of pgas/describe.h expand to.
 *
 *  FIELDS(F) is expanded once for each function, with an F that turns one field into a statement.
 *  F looks up the field's kind (PGAS_KIND_..), so that only one pass reports a kind that does not
 *  exist, and calls the macro of this pass and kind, for example PGAS_SAVE_VECTOR_FIELD.
 *
 *  In the stream a value begins with its fixed part: all fields whose size is a constant, without
 *  gaps, so that one comparison with the rest of the stream serves them all. Then follow the other
 *  fields in order. A flat structure is its fixed part, as it is in memory. An optional value is a
 *  vector of at most one element.
 *
 *  Functions whose names begin with pgas_value_ work on a value without the checksum in front.
 *  In them ar_ is the archive and v_ the value. to_ and at_ are the place of the next byte in the
 *  stream. They are passed on and returned, so that they stay in a register: the archive's own
 *  put_at and get_at would be stored and loaded again for each field. NULL is an error, which is in
 *  the archive. The functions set put_at or get_at before they call others. */
#ifndef PGAS_DETAIL_DESCRIBE_H
#define PGAS_DETAIL_DESCRIBE_H

#include <stdlib.h>
#include <string.h>
#include "pgas/describe.h"
#include "pgas/detail/describe_kinds.h"

PGAS_BEGIN_DECLS

/* ---- in the library ---- */

/* Logs the names of a value that was found and of the one that was expected. */
PGAS_API pgas_status_t pgas_describe_mismatch(pgas_archive_t *archive, uint64_t found,
                                              uint64_t expected, const char *name);
/* Returns zeroed memory for n elements, n > 0: from the arena of view or load, or from malloc. */
PGAS_API pgas_status_t pgas_describe_alloc(pgas_archive_t *archive, size_t n, size_t elem_bytes,
                                           void **memory_p);

/* The checksum of a description: of kinds, names of types and members, sizes. */
typedef struct pgas_sum {
    const char *name;
    const struct pgas_sum *above;
} pgas_sum_t;
PGAS_API uint64_t pgas_describe_mix(uint64_t sum, const char *kind, const char *text,
                                    uint64_t number);
/* Returns true if this name is being summed already, because the description contains itself. */
PGAS_API bool pgas_describe_is_inside(const pgas_sum_t *here);

/* kind: c character, i signed, u unsigned, f floating-point, b bool, x bytes */
typedef enum { PGAS_PRINT_ONE, PGAS_PRINT_MANY, PGAS_PRINT_OPTIONAL } pgas_print_form_t;
PGAS_API void pgas_describe_print_elems(FILE *out, int depth, const char *member, char kind,
                                        size_t elem_bytes, const void *data, size_t n,
                                        pgas_print_form_t form);
PGAS_API void pgas_describe_print_text(FILE *out, int depth, const char *member, const char *text);
PGAS_API void pgas_describe_print_object(FILE *out, int depth, const char *member,
                                         const pgas_rma_object_t *object);
PGAS_API void pgas_describe_print_name(FILE *out, int depth, const char *member, const char *name);
PGAS_API void pgas_describe_print_index(FILE *out, int depth, size_t index);
/* Prints the number of values. @return the number of values to print */
PGAS_API size_t pgas_describe_print_count(FILE *out, int depth, const char *member,
                                          const char *name, size_t n);

/* The bytes of a value in an archive. */
typedef struct {
    size_t stream, chunks;
} pgas_sizer_t;
/* Begins an archive at the sizer's alignment. The end adds the archive's bytes to the sizer. */
PGAS_API void pgas_describe_scratch_begin(const pgas_sizer_t *sizer, pgas_archive_t *scratch_p);
PGAS_API void pgas_describe_scratch_end(pgas_sizer_t *sizer, pgas_archive_t *scratch);

/* ---- saving ---- */

/* Writes the checksum and the name in front of a root. The length of the name is a constant. */
PGAS_INLINE char *pgas_describe_put_root(pgas_archive_t *archive, uint64_t sum, const char *name,
                                         size_t name_bytes)
{
    uint32_t word = (uint32_t)name_bytes;
    char *to = pgas_archive_reserve(archive, sizeof sum + sizeof word + name_bytes);
    if (PGAS_UNLIKELY(!to))
        return NULL;
    memcpy(to, &sum, sizeof sum);
    memcpy(to + sizeof sum, &word, sizeof word);
    memcpy(to + sizeof sum + sizeof word, name, name_bytes);
    return to + sizeof sum + sizeof word + name_bytes;
}

PGAS_INLINE char *pgas_describe_reserve(pgas_archive_t *archive, char *to, size_t bytes)
{
    archive->put_at = to;
    return pgas_archive_reserve(archive, bytes);
}

/* Returns the address behind the written bytes, or NULL after an error. */
PGAS_INLINE char *pgas_describe_written(const pgas_archive_t *archive, pgas_status_t status)
{
    return PGAS_LIKELY(status == PGAS_OK) ? archive->put_at : NULL;
}

PGAS_INLINE char *pgas_describe_put_vector(pgas_archive_t *archive, char *to, const void *data,
                                           size_t n, size_t elem_bytes)
{
    archive->put_at = to;
    return pgas_describe_written(archive, pgas_archive_put_vector(archive, data, n, elem_bytes));
}

PGAS_INLINE char *pgas_describe_put_string(pgas_archive_t *archive, char *to, const char *text)
{
    archive->put_at = to;
    return pgas_describe_written(archive, pgas_archive_put_string(archive, text));
}

PGAS_INLINE char *pgas_describe_put_object(pgas_archive_t *archive, char *to,
                                           pgas_rma_object_t *object, size_t bytes)
{
    archive->put_at = to;
    return pgas_describe_written(archive, pgas_archive_put_object(archive, object, bytes));
}

/* Writes the number of described values, and enters a level of nesting. */
PGAS_INLINE char *pgas_describe_put_count(pgas_archive_t *archive, char *to, const void *data,
                                          size_t n)
{
    archive->put_at = to;
    if (PGAS_UNLIKELY(!data && n))
        (void)pgas_archive_fail(archive, PGAS_ERR_INVALID);
    if (PGAS_UNLIKELY(pgas_archive_enter(archive) != PGAS_OK))
        return NULL;
    return pgas_describe_written(archive, pgas_archive_put_count(archive, n));
}

/* ---- reading ---- */

PGAS_INLINE const char *pgas_describe_get_root(pgas_archive_t *archive, uint64_t sum,
                                               const char *name, size_t name_bytes)
{
    uint64_t found;
    if (PGAS_UNLIKELY(pgas_archive_get(archive, &found, sizeof found) != PGAS_OK))
        return NULL;
    if (PGAS_UNLIKELY(found != sum)) {
        (void)pgas_describe_mismatch(archive, found, sum, name);
        return NULL;
    }
    if (PGAS_UNLIKELY(!pgas_archive_consume(archive, sizeof(uint32_t) + name_bytes)))
        return NULL;
    return archive->get_at;
}

/* The mode of reading: as views, loaded into an arena, or loaded by malloc. The functions below set
 * the mode and restore the former one. */
typedef struct {
    pgas_arena_t *memory;
    bool in_place;
} pgas_describe_way_t;

PGAS_INLINE pgas_describe_way_t pgas_describe_set_way(pgas_archive_t *archive, pgas_arena_t *memory,
                                                      bool in_place)
{
    pgas_describe_way_t former;
    former.memory = archive->memory;
    former.in_place = archive->in_place;
    archive->memory = memory;
    archive->in_place = in_place;
    return former;
}

/* Copies bytes that are in the archive. */
PGAS_INLINE pgas_status_t pgas_describe_copy(pgas_archive_t *archive, const void *data,
                                             size_t bytes, void **copy_p)
{
    void *copy = archive->memory ? pgas_arena_alloc(archive->memory, bytes) : malloc(bytes);
    if (PGAS_UNLIKELY(!copy))
        return pgas_archive_fail(archive, PGAS_ERR_NO_MEMORY);
    pgas_archive_copy((char *)copy, (const char *)data, bytes);
    *copy_p = copy;
    return PGAS_OK;
}

PGAS_INLINE const char *pgas_describe_consume(pgas_archive_t *archive, const char *at, size_t bytes)
{
    archive->get_at = at;
    return pgas_archive_consume(archive, bytes);
}

/* Returns the address behind the bytes that were read, or NULL after an error. */
PGAS_INLINE const char *pgas_describe_was_read(const pgas_archive_t *archive, pgas_status_t status)
{
    return PGAS_LIKELY(status == PGAS_OK) ? archive->get_at : NULL;
}

/* Reads at most `most` elements. After an error the outputs are unchanged. */
PGAS_INLINE const char *pgas_describe_get_vector(pgas_archive_t *archive, const char *at,
                                                 size_t elem_bytes, size_t most, void **data_p,
                                                 size_t *n_p)
{
    const void *data = NULL;
    size_t n = 0;
    pgas_status_t status;
    archive->get_at = at;
    status = pgas_archive_get_vector(archive, elem_bytes, &data, &n);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return NULL;
    at = archive->get_at;
    if (PGAS_UNLIKELY(n > most)) {
        (void)pgas_archive_fail(archive, PGAS_ERR_FORMAT);
        return NULL;
    }
    if (!archive->in_place && n) {
        if (PGAS_UNLIKELY(pgas_describe_copy(archive, data, n * elem_bytes, data_p) != PGAS_OK))
            return NULL;
    } else
        *data_p = (void *)(uintptr_t)data;
    *n_p = n;
    return at;
}

PGAS_INLINE const char *pgas_describe_get_string(pgas_archive_t *archive, const char *at,
                                                 char **text_p)
{
    const char *text = NULL, *end;
    void *copy = NULL;
    pgas_status_t status;
    archive->get_at = at;
    status = pgas_archive_get_string(archive, &text);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return NULL;
    end = archive->get_at;
    if (!archive->in_place && text) {
        /* pgas_archive_put_string writes no chunks. A string in a chunk must end in 0, too. */
        size_t bytes = PGAS_LIKELY(text == at + 4) ? (size_t)(end - text) : strlen(text) + 1;
        if (PGAS_UNLIKELY(pgas_describe_copy(archive, text, bytes, &copy) != PGAS_OK))
            return NULL;
        text = (const char *)copy;
    }
    *text_p = (char *)(uintptr_t)text;
    return end;
}

/* Reads the number of described values, and allocates zeroed memory for them. */
PGAS_INLINE const char *pgas_describe_get_count(pgas_archive_t *archive, const char *at,
                                                size_t least_bytes, size_t elem_bytes, size_t most,
                                                void **data_p, size_t *n_p)
{
    size_t n = 0;
    pgas_status_t status;
    archive->get_at = at;
    status = pgas_archive_enter(archive);
    if (PGAS_LIKELY(status == PGAS_OK))
        status = pgas_archive_get_count(archive, least_bytes, &n);
    if (PGAS_UNLIKELY(n > most))
        status = pgas_archive_fail(archive, PGAS_ERR_FORMAT);
    if (PGAS_LIKELY(status == PGAS_OK) && n)
        status = pgas_describe_alloc(archive, n, elem_bytes, data_p);
    if (PGAS_LIKELY(status == PGAS_OK))
        *n_p = n;
    return pgas_describe_was_read(archive, status);
}

PGAS_INLINE const char *pgas_describe_get_object(pgas_archive_t *archive, const char *at,
                                                 pgas_rma_object_t **object_p)
{
    size_t bytes = 0;
    archive->get_at = at;
    return pgas_describe_was_read(archive, pgas_archive_get_object(archive, object_p, &bytes));
}

PGAS_INLINE const char *pgas_describe_get_rma_vector(pgas_archive_t *archive, const char *at,
                                                     size_t elem_bytes, pgas_rma_vector_t *vector)
{
    pgas_rma_object_t *object = NULL;
    size_t bytes = 0;
    pgas_status_t status;
    archive->get_at = at;
    status = pgas_archive_get_object(archive, &object, &bytes);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return NULL;
    status = bytes % elem_bytes
                 ? PGAS_ERR_FORMAT
                 : pgas_rma_vector_adopt(vector, object, bytes / elem_bytes, elem_bytes);
    if (PGAS_LIKELY(status == PGAS_OK))
        return archive->get_at;
    (void)pgas_rma_object_destroy(object);
    (void)pgas_archive_fail(archive, PGAS_ERR_FORMAT);
    return NULL;
}

/* ---- sizes and equality ---- */

PGAS_INLINE void pgas_sizer_add_count(pgas_sizer_t *sizer, size_t n)
{
    sizer->stream += n > PGAS_ARCHIVE_INLINE_MAX ? 12 : 4;
}

PGAS_INLINE void pgas_sizer_add_vector(pgas_sizer_t *sizer, size_t n, size_t elem_bytes)
{
    if (n * elem_bytes >= PGAS_ARCHIVE_THRESHOLD) {
        sizer->stream += 12;
        sizer->chunks += n * elem_bytes;
        return;
    }
    sizer->stream += 4;
    if (n)
        sizer->stream += -sizer->stream & (pgas_archive_align(elem_bytes) - 1);
    sizer->stream += n * elem_bytes;
}

PGAS_INLINE void pgas_sizer_add_text(pgas_sizer_t *sizer, const char *text)
{
    size_t bytes = text ? strlen(text) + 1 : 0;
    pgas_sizer_add_count(sizer, bytes);
    sizer->stream += bytes;
}

PGAS_INLINE bool pgas_describe_are_equal(const void *a, const void *b, size_t bytes)
{
    return !bytes || a == b || !memcmp(a, b, bytes);
}

PGAS_INLINE bool pgas_describe_are_equal_texts(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

PGAS_INLINE bool pgas_describe_are_equal_optionals(const void *a, const void *b, size_t bytes)
{
    return a && b ? !memcmp(a, b, bytes) : a == b;
}

PGAS_INLINE bool pgas_describe_are_equal_objects(const pgas_rma_object_t *a,
                                                 const pgas_rma_object_t *b)
{
    if (!a || !b)
        return a == b;
    return a->bytes == b->bytes && pgas_describe_are_equal(a->data, b->data, a->bytes);
}

PGAS_END_DECLS

/* ---- functions ---- */

/* Each function of a macro begins with this. The compiler decides which functions are inlined. */
#define PGAS_DESCRIBED static inline PGAS_UNUSED

#define PGAS_DESCRIBE_DECLARE(name, FIELDS) \
    typedef struct name##_t name##_t;       \
    struct name##_t {                       \
        FIELDS(PGAS_FIELD_MEMBERS)          \
    };

#define PGAS_DESCRIBE_KINDS(name, FIELDS) \
    struct pgas_kinds_of_##name {         \
        char pgas_none;                   \
        FIELDS(PGAS_FIELD_KIND)           \
    };

/* Functions of a described structure or a PGAS_OWN type. They are declared before their definition,
 * because a structure may contain itself. pgas_values_ functions handle n values, and pgas_vector_
 * functions also their number. */
#define PGAS_DESCRIBE_PROTOTYPES(name)                                                          \
    PGAS_DESCRIBED char *pgas_value_save_##name(pgas_archive_t *ar_, char *to_,                 \
                                                const name##_t *v_);                            \
    PGAS_DESCRIBED const char *pgas_value_read_##name(pgas_archive_t *ar_, const char *at_,     \
                                                      name##_t *v_);                            \
    PGAS_DESCRIBED void pgas_value_size_##name(pgas_sizer_t *sizer_, const name##_t *v_);       \
    PGAS_DESCRIBED void pgas_value_clear_##name(name##_t *v_);                                  \
    PGAS_DESCRIBED void pgas_value_free_##name(name##_t *v_);                                   \
    PGAS_DESCRIBED void pgas_value_drop_##name(name##_t *v_);                                   \
    PGAS_DESCRIBED bool pgas_equal_##name(const name##_t *v_, const name##_t *w_);              \
    PGAS_DESCRIBED void pgas_value_print_##name(FILE *out_, int depth_, const name##_t *v_);    \
    PGAS_DESCRIBED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_);                    \
    PGAS_DESCRIBED char *pgas_values_save_##name(pgas_archive_t *ar_, char *to_,                \
                                                 const name##_t *v_, size_t n_)                 \
    {                                                                                           \
        size_t i_;                                                                              \
        for (i_ = 0; i_ < n_ && to_; i_++)                                                      \
            to_ = pgas_value_save_##name(ar_, to_, &v_[i_]);                                    \
        return to_;                                                                             \
    }                                                                                           \
    PGAS_DESCRIBED const char *pgas_values_read_##name(pgas_archive_t *ar_, const char *at_,    \
                                                       name##_t *v_, size_t n_)                 \
    {                                                                                           \
        size_t i_;                                                                              \
        for (i_ = 0; i_ < n_ && at_; i_++)                                                      \
            at_ = pgas_value_read_##name(ar_, at_, &v_[i_]);                                    \
        return at_;                                                                             \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_values_size_##name(pgas_sizer_t *sizer_, const name##_t *v_,       \
                                                size_t n_)                                      \
    {                                                                                           \
        size_t i_;                                                                              \
        for (i_ = 0; i_ < n_; i_++)                                                             \
            pgas_value_size_##name(sizer_, &v_[i_]);                                            \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_values_free_##name(name##_t *v_, size_t n_)                        \
    {                                                                                           \
        size_t i_;                                                                              \
        for (i_ = 0; i_ < n_; i_++)                                                             \
            pgas_value_free_##name(&v_[i_]);                                                    \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_values_drop_##name(name##_t *v_, size_t n_)                        \
    {                                                                                           \
        size_t i_;                                                                              \
        for (i_ = 0; i_ < n_; i_++)                                                             \
            pgas_value_drop_##name(&v_[i_]);                                                    \
    }                                                                                           \
    PGAS_DESCRIBED bool pgas_values_equal_##name(const name##_t *v_, const name##_t *w_,        \
                                                 size_t n_)                                     \
    {                                                                                           \
        size_t i_;                                                                              \
        for (i_ = 0; i_ < n_; i_++)                                                             \
            if (!pgas_equal_##name(&v_[i_], &w_[i_]))                                           \
                return false;                                                                   \
        return true;                                                                            \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_values_print_##name(FILE *out_, int depth_, const char *member_,   \
                                                 const name##_t *v_, size_t n_)                 \
    {                                                                                           \
        size_t i_, shown_ = pgas_describe_print_count(out_, depth_, member_, #name, n_);        \
        for (i_ = 0; i_ < shown_; i_++) {                                                       \
            pgas_describe_print_index(out_, depth_ + 1, i_);                                    \
            pgas_value_print_##name(out_, depth_ + 2, &v_[i_]);                                 \
        }                                                                                       \
    }                                                                                           \
    PGAS_DESCRIBED char *pgas_vector_save_##name(pgas_archive_t *ar_, char *to_,                \
                                                 const name##_t *v_, size_t n_)                 \
    {                                                                                           \
        if (pgas_is_flat_##name)                                                                \
            return pgas_describe_put_vector(ar_, to_, v_, n_, sizeof(name##_t));                \
        to_ = pgas_describe_put_count(ar_, to_, v_, n_);                                        \
        if (PGAS_LIKELY(to_ != NULL))                                                           \
            to_ = pgas_values_save_##name(ar_, to_, v_, n_);                                    \
        pgas_archive_leave(ar_);                                                                \
        return to_;                                                                             \
    }                                                                                           \
    PGAS_DESCRIBED const char *pgas_vector_read_##name(pgas_archive_t *ar_, const char *at_,    \
                                                       size_t most_, name##_t **data_p_,        \
                                                       size_t *n_p_)                            \
    {                                                                                           \
        void *data_ = NULL;                                                                     \
        if (pgas_is_flat_##name)                                                                \
            at_ = pgas_describe_get_vector(ar_, at_, sizeof(name##_t), most_, &data_, n_p_);    \
        else                                                                                    \
            at_ = pgas_describe_get_count(ar_, at_, pgas_least_##name, sizeof(name##_t), most_, \
                                          &data_, n_p_);                                        \
        *data_p_ = PGAS_CAST(name##_t *, data_);                                                \
        if (!pgas_is_flat_##name) {                                                             \
            if (PGAS_LIKELY(at_ != NULL))                                                       \
                at_ = pgas_values_read_##name(ar_, at_, *data_p_, *n_p_);                       \
            pgas_archive_leave(ar_);                                                            \
        }                                                                                       \
        return at_;                                                                             \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_vector_size_##name(pgas_sizer_t *sizer_, const name##_t *v_,       \
                                                size_t n_)                                      \
    {                                                                                           \
        if (pgas_is_flat_##name)                                                                \
            pgas_sizer_add_vector(sizer_, n_, sizeof(name##_t));                                \
        else {                                                                                  \
            pgas_sizer_add_count(sizer_, n_);                                                   \
            pgas_values_size_##name(sizer_, v_, n_);                                            \
        }                                                                                       \
    }

/* The functions for programs. */
#define PGAS_DESCRIBE_ROOT(name)                                                              \
    PGAS_DESCRIBED uint64_t pgas_checksum_##name(void)                                        \
    {                                                                                         \
        static uint64_t known_;                                                               \
        uint64_t sum_ = __atomic_load_n(&known_, __ATOMIC_RELAXED);                           \
        if (PGAS_UNLIKELY(!sum_)) {                                                           \
            sum_ = pgas_value_sum_##name(NULL);                                               \
            __atomic_store_n(&known_, sum_, __ATOMIC_RELAXED);                                \
        }                                                                                     \
        return sum_;                                                                          \
    }                                                                                         \
    PGAS_DESCRIBED pgas_status_t pgas_save_##name(pgas_archive_t *ar_, const name##_t *v_)    \
    {                                                                                         \
        char *to_;                                                                            \
        if (PGAS_UNLIKELY(!ar_ || !v_))                                                       \
            return (void)pgas_archive_fail(ar_, PGAS_ERR_INVALID), PGAS_ERR_INVALID;          \
        to_ = pgas_describe_put_root(ar_, pgas_checksum_##name(), #name, sizeof #name - 1);   \
        if (PGAS_LIKELY(to_ != NULL))                                                         \
            to_ = pgas_value_save_##name(ar_, to_, v_);                                       \
        if (PGAS_UNLIKELY(!to_))                                                              \
            return ar_->status;                                                               \
        ar_->put_at = to_;                                                                    \
        return PGAS_OK;                                                                       \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_free_##name(name##_t *v_)                                        \
    {                                                                                         \
        if (!v_)                                                                              \
            return;                                                                           \
        pgas_value_free_##name(v_);                                                           \
        pgas_value_clear_##name(v_);                                                          \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_drop_##name(name##_t *v_)                                        \
    {                                                                                         \
        if (!v_)                                                                              \
            return;                                                                           \
        pgas_value_drop_##name(v_);                                                           \
        pgas_value_clear_##name(v_);                                                          \
    }                                                                                         \
    PGAS_DESCRIBED pgas_status_t pgas_value_root_##name(pgas_archive_t *ar_, name##_t *v_,    \
                                                        pgas_arena_t *arena_, bool in_place_) \
    {                                                                                         \
        const char *at_;                                                                      \
        pgas_describe_way_t former_;                                                          \
        if (PGAS_UNLIKELY(!ar_ || !v_))                                                       \
            return (void)pgas_archive_fail(ar_, PGAS_ERR_INVALID), PGAS_ERR_INVALID;          \
        pgas_value_clear_##name(v_);                                                          \
        former_ = pgas_describe_set_way(ar_, arena_, in_place_);                              \
        at_ = pgas_describe_get_root(ar_, pgas_checksum_##name(), #name, sizeof #name - 1);   \
        if (PGAS_LIKELY(at_ != NULL))                                                         \
            at_ = pgas_value_read_##name(ar_, at_, v_);                                       \
        (void)pgas_describe_set_way(ar_, former_.memory, former_.in_place);                   \
        if (PGAS_LIKELY(at_ != NULL)) {                                                       \
            ar_->get_at = at_;                                                                \
            return PGAS_OK;                                                                   \
        }                                                                                     \
        if (in_place_ || arena_)                                                              \
            pgas_drop_##name(v_);                                                             \
        else                                                                                  \
            pgas_free_##name(v_);                                                             \
        return ar_->status;                                                                   \
    }                                                                                         \
    PGAS_DESCRIBED pgas_status_t pgas_load_##name(pgas_archive_t *ar_, pgas_arena_t *arena_,  \
                                                  name##_t *v_)                               \
    {                                                                                         \
        return pgas_value_root_##name(ar_, v_, arena_, false);                                \
    }                                                                                         \
    PGAS_DESCRIBED pgas_status_t pgas_view_##name(pgas_archive_t *ar_, name##_t *v_)          \
    {                                                                                         \
        return pgas_value_root_##name(ar_, v_, NULL, true);                                   \
    }                                                                                         \
    PGAS_DESCRIBED size_t pgas_size_##name(const name##_t *v_)                                \
    {                                                                                         \
        pgas_sizer_t sizer_ = { sizeof(uint64_t) + sizeof(uint32_t) + sizeof #name - 1, 0 };  \
        if (!v_)                                                                              \
            return 0;                                                                         \
        pgas_value_size_##name(&sizer_, v_);                                                  \
        return sizer_.stream + sizer_.chunks;                                                 \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_print_##name(FILE *out_, const name##_t *v_)                     \
    {                                                                                         \
        if (!out_ || !v_)                                                                     \
            return;                                                                           \
        pgas_describe_print_name(out_, 0, NULL, #name);                                       \
        pgas_value_print_##name(out_, 1, v_);                                                 \
    }

#define PGAS_DESCRIBE_FUNCTIONS(name, FIELDS)                                                  \
    enum {                                                                                     \
        pgas_fixed_##name = 0 FIELDS(PGAS_FIELD_FIXED),                                        \
        pgas_is_flat_##name =                                                                  \
            (1 FIELDS(PGAS_FIELD_FLAT)) && pgas_fixed_##name == sizeof(name##_t),              \
        pgas_behind_##name = 0 FIELDS(PGAS_FIELD_LEAST),                                       \
        pgas_least_##name = pgas_fixed_##name + pgas_behind_##name                             \
    };                                                                                         \
    PGAS_DESCRIBE_PROTOTYPES(name)                                                             \
    PGAS_DESCRIBED char *pgas_value_save_##name(pgas_archive_t *ar_, char *to_,                \
                                                const name##_t *v_)                            \
    {                                                                                          \
        FIELDS(PGAS_FIELD_CHECK)                                                               \
        if (pgas_fixed_##name > 0) {                                                           \
            to_ = pgas_describe_reserve(ar_, to_, pgas_fixed_##name);                          \
            if (PGAS_UNLIKELY(!to_))                                                           \
                return NULL;                                                                   \
        }                                                                                      \
        if (pgas_is_flat_##name) {                                                             \
            memcpy(to_, v_, sizeof(name##_t));                                                 \
            return to_ + sizeof(name##_t);                                                     \
        }                                                                                      \
        FIELDS(PGAS_FIELD_PUT)                                                                 \
        FIELDS(PGAS_FIELD_SAVE)                                                                \
        return to_;                                                                            \
    }                                                                                          \
    PGAS_DESCRIBED const char *pgas_value_read_##name(pgas_archive_t *ar_, const char *at_,    \
                                                      name##_t *v_)                            \
    {                                                                                          \
        if (pgas_fixed_##name > 0) {                                                           \
            at_ = pgas_describe_consume(ar_, at_, pgas_fixed_##name);                          \
            if (PGAS_UNLIKELY(!at_))                                                           \
                return NULL;                                                                   \
        }                                                                                      \
        if (pgas_is_flat_##name) {                                                             \
            memcpy(v_, at_, sizeof(name##_t));                                                 \
            return at_ + sizeof(name##_t);                                                     \
        }                                                                                      \
        FIELDS(PGAS_FIELD_TAKE)                                                                \
        FIELDS(PGAS_FIELD_READ)                                                                \
        return at_;                                                                            \
    }                                                                                          \
    PGAS_DESCRIBED void pgas_value_size_##name(pgas_sizer_t *sizer_, const name##_t *v_)       \
    {                                                                                          \
        (void)v_;                                                                              \
        sizer_->stream += pgas_fixed_##name;                                                   \
        FIELDS(PGAS_FIELD_SIZE)                                                                \
    }                                                                                          \
    PGAS_DESCRIBED void pgas_value_clear_##name(name##_t *v_){ FIELDS(                         \
        PGAS_FIELD_CLEAR) } PGAS_DESCRIBED void pgas_value_free_##name(name##_t *v_)           \
    {                                                                                          \
        (void)v_;                                                                              \
        FIELDS(PGAS_FIELD_FREE)                                                                \
    }                                                                                          \
    PGAS_DESCRIBED void pgas_value_drop_##name(name##_t *v_)                                   \
    {                                                                                          \
        (void)v_;                                                                              \
        FIELDS(PGAS_FIELD_DROP)                                                                \
    }                                                                                          \
    PGAS_DESCRIBED bool pgas_equal_##name(const name##_t *v_, const name##_t *w_)              \
    {                                                                                          \
        FIELDS(PGAS_FIELD_EQUAL)                                                               \
        return true;                                                                           \
    }                                                                                          \
    PGAS_DESCRIBED void pgas_value_print_##name(FILE *out_, int depth_, const name##_t *v_){   \
        FIELDS(PGAS_FIELD_PRINT)                                                               \
    } PGAS_DESCRIBED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_)                  \
    {                                                                                          \
        pgas_sum_t here_ = { #name, above_ };                                                  \
        uint64_t sum_ =                                                                        \
            pgas_describe_mix(0, "struct", #name, pgas_is_flat_##name ? sizeof(name##_t) : 0); \
        if (pgas_describe_is_inside(&here_))                                                   \
            return sum_;                                                                       \
        FIELDS(PGAS_FIELD_SUM)                                                                 \
        return sum_;                                                                           \
    }                                                                                          \
    PGAS_DESCRIBE_ROOT(name)

/* ---- unions: a case for each pass ---- */

#define PGAS_CASE_MEMBERS(value, kind, ...)   \
    __extension__ struct {                    \
        PGAS_FIELD_MEMBERS(kind, __VA_ARGS__) \
    };

#define PGAS_CASE_SAVE(value, kind, ...)                         \
    case (value): {                                              \
        enum { fixed_ = 0 PGAS_FIELD_FIXED(kind, __VA_ARGS__) }; \
        PGAS_FIELD_CHECK(kind, __VA_ARGS__)                      \
        if (fixed_ > 0) {                                        \
            to_ = pgas_describe_reserve(ar_, to_, fixed_);       \
            if (PGAS_UNLIKELY(!to_))                             \
                return NULL;                                     \
        }                                                        \
        PGAS_FIELD_PUT(kind, __VA_ARGS__)                        \
        PGAS_FIELD_SAVE(kind, __VA_ARGS__)                       \
    } break;

#define PGAS_CASE_READ(value, kind, ...)                         \
    case (value): {                                              \
        enum { fixed_ = 0 PGAS_FIELD_FIXED(kind, __VA_ARGS__) }; \
        if (fixed_ > 0) {                                        \
            at_ = pgas_describe_consume(ar_, at_, fixed_);       \
            if (PGAS_UNLIKELY(!at_))                             \
                return NULL;                                     \
        }                                                        \
        PGAS_FIELD_TAKE(kind, __VA_ARGS__)                       \
        PGAS_FIELD_READ(kind, __VA_ARGS__)                       \
    } break;

#define PGAS_CASE_SIZE(value, kind, ...)                         \
    case (value): {                                              \
        sizer_->stream += 0 PGAS_FIELD_FIXED(kind, __VA_ARGS__); \
        PGAS_FIELD_SIZE(kind, __VA_ARGS__)                       \
    } break;

#define PGAS_CASE_FREE(value, kind, ...)   \
    case (value): {                        \
        PGAS_FIELD_FREE(kind, __VA_ARGS__) \
    } break;

#define PGAS_CASE_DROP(value, kind, ...)   \
    case (value): {                        \
        PGAS_FIELD_DROP(kind, __VA_ARGS__) \
    } break;

#define PGAS_CASE_EQUAL(value, kind, ...)   \
    case (value): {                         \
        PGAS_FIELD_EQUAL(kind, __VA_ARGS__) \
    } break;

#define PGAS_CASE_PRINT(value, kind, ...)   \
    case (value): {                         \
        PGAS_FIELD_PRINT(kind, __VA_ARGS__) \
    } break;

#define PGAS_CASE_SUM(value, kind, ...)                                                         \
    sum_ = pgas_describe_mix(sum_, "case", "", PGAS_CAST(uint64_t, PGAS_CAST(int64_t, value))); \
    PGAS_GO(PGAS_SUM_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), #__VA_ARGS__, __VA_ARGS__)

#define PGAS_DESCRIBE_UNION(name, CASES)                                                      \
    __extension__ typedef union {                                                             \
        CASES(PGAS_CASE_MEMBERS)                                                              \
    } name##_t;                                                                               \
    PGAS_DESCRIBED char *pgas_value_save_##name(pgas_archive_t *ar_, char *to_, int64_t tag_, \
                                                const name##_t *v_)                           \
    {                                                                                         \
        switch (tag_) {                                                                       \
            CASES(PGAS_CASE_SAVE)                                                             \
        default:                                                                              \
            break;                                                                            \
        }                                                                                     \
        return to_;                                                                           \
    }                                                                                         \
    PGAS_DESCRIBED const char *pgas_value_read_##name(pgas_archive_t *ar_, const char *at_,   \
                                                      int64_t tag_, name##_t *v_)             \
    {                                                                                         \
        switch (tag_) {                                                                       \
            CASES(PGAS_CASE_READ)                                                             \
        default:                                                                              \
            break;                                                                            \
        }                                                                                     \
        return at_;                                                                           \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_value_size_##name(pgas_sizer_t *sizer_, int64_t tag_,            \
                                               const name##_t *v_)                            \
    {                                                                                         \
        (void)v_;                                                                             \
        switch (tag_) {                                                                       \
            CASES(PGAS_CASE_SIZE)                                                             \
        default:                                                                              \
            break;                                                                            \
        }                                                                                     \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_value_clear_##name(name##_t *v_)                                 \
    {                                                                                         \
        memset(v_, 0, sizeof *v_);                                                            \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_value_free_##name(int64_t tag_, name##_t *v_)                    \
    {                                                                                         \
        (void)v_;                                                                             \
        switch (tag_) {                                                                       \
            CASES(PGAS_CASE_FREE)                                                             \
        default:                                                                              \
            break;                                                                            \
        }                                                                                     \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_value_drop_##name(int64_t tag_, name##_t *v_)                    \
    {                                                                                         \
        (void)v_;                                                                             \
        switch (tag_) {                                                                       \
            CASES(PGAS_CASE_DROP)                                                             \
        default:                                                                              \
            break;                                                                            \
        }                                                                                     \
    }                                                                                         \
    PGAS_DESCRIBED bool pgas_value_equal_##name(int64_t tag_, const name##_t *v_,             \
                                                const name##_t *w_)                           \
    {                                                                                         \
        switch (tag_) {                                                                       \
            CASES(PGAS_CASE_EQUAL)                                                            \
        default:                                                                              \
            break;                                                                            \
        }                                                                                     \
        return true;                                                                          \
    }                                                                                         \
    PGAS_DESCRIBED void pgas_value_print_##name(FILE *out_, int depth_, int64_t tag_,         \
                                                const name##_t *v_)                           \
    {                                                                                         \
        switch (tag_) {                                                                       \
            CASES(PGAS_CASE_PRINT)                                                            \
        default:                                                                              \
            break;                                                                            \
        }                                                                                     \
    }                                                                                         \
    PGAS_DESCRIBED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_)                   \
    {                                                                                         \
        pgas_sum_t here_ = { #name, above_ };                                                 \
        uint64_t sum_ = pgas_describe_mix(0, "union", #name, 0);                              \
        if (pgas_describe_is_inside(&here_))                                                  \
            return sum_;                                                                      \
        CASES(PGAS_CASE_SUM)                                                                  \
        return sum_;                                                                          \
    }

/* ---- own functions ---- */

#define PGAS_DESCRIBE_OWN(name, version)                                                        \
    enum { pgas_is_flat_##name = 0, pgas_least_##name = 1 };                                    \
    PGAS_DESCRIBE_PROTOTYPES(name)                                                              \
    PGAS_DESCRIBED char *pgas_value_save_##name(pgas_archive_t *ar_, char *to_,                 \
                                                const name##_t *v_)                             \
    {                                                                                           \
        ar_->put_at = to_;                                                                      \
        return pgas_describe_written(ar_, pgas_archive_fail(ar_, name##_save(ar_, v_)));        \
    }                                                                                           \
    PGAS_DESCRIBED const char *pgas_value_read_##name(pgas_archive_t *ar_, const char *at_,     \
                                                      name##_t *v_)                             \
    {                                                                                           \
        ar_->get_at = at_;                                                                      \
        return pgas_describe_was_read(ar_, pgas_archive_fail(ar_, name##_load(ar_, v_)));       \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_value_size_##name(pgas_sizer_t *sizer_, const name##_t *v_)        \
    {                                                                                           \
        pgas_archive_t scratch_;                                                                \
        pgas_describe_scratch_begin(sizer_, &scratch_);                                         \
        (void)name##_save(&scratch_, v_);                                                       \
        pgas_describe_scratch_end(sizer_, &scratch_);                                           \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_value_clear_##name(name##_t *v_)                                   \
    {                                                                                           \
        memset(PGAS_CAST(void *, v_), 0, sizeof *v_);                                           \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_value_free_##name(name##_t *v_)                                    \
    {                                                                                           \
        name##_free(v_);                                                                        \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_value_drop_##name(name##_t *v_)                                    \
    {                                                                                           \
        (void)v_;                                                                               \
    }                                                                                           \
    PGAS_DESCRIBED bool pgas_equal_##name(const name##_t *v_, const name##_t *w_)               \
    {                                                                                           \
        return name##_equal(v_, w_);                                                            \
    }                                                                                           \
    PGAS_DESCRIBED void pgas_value_print_##name(FILE *out_, int depth_, const name##_t *v_)     \
    {                                                                                           \
        pgas_describe_print_elems(out_, depth_, "own", 'x', sizeof *v_, v_, 1, PGAS_PRINT_ONE); \
    }                                                                                           \
    PGAS_DESCRIBED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_)                     \
    {                                                                                           \
        (void)above_;                                                                           \
        return pgas_describe_mix(0, "own", #name, PGAS_CAST(uint64_t, version));                \
    }                                                                                           \
    PGAS_DESCRIBE_ROOT(name)

#endif
