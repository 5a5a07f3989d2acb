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
 *  In them ar_ is the archive, v_ the value, to_ and at_ the place in the fixed part. */
#ifndef PGAS_DETAIL_DESCRIBE_H
#define PGAS_DETAIL_DESCRIBE_H

#include <stdlib.h>
#include <string.h>
#include "pgas/describe.h"

PGAS_BEGIN_DECLS

/* ---- in the library ---- */

/* Logs the names of a value that was found and of the one that was expected. */
PGAS_API pgas_status_t pgas_describe_mismatch(pgas_archive_t *archive, uint64_t found,
                                              uint64_t expected, const char *name);
/* Gives zeroed memory for n elements, n > 0: from the arena of view or load, or from malloc. */
PGAS_API pgas_status_t pgas_describe_alloc(pgas_archive_t *archive, size_t n, size_t elem_bytes,
                                           void **memory_p);

/* The checksum of a description: of kinds, names of types and members, sizes. */
typedef struct pgas_sum {
    const char *name;
    const struct pgas_sum *above;
} pgas_sum_t;
PGAS_API uint64_t pgas_describe_mix(uint64_t sum, const char *kind, const char *text,
                                    uint64_t number);
/* Whether the description of this name is being summed already: it contains itself. */
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
/* Prints the number of values. @return how many of them are printed */
PGAS_API size_t pgas_describe_print_count(FILE *out, int depth, const char *member,
                                          const char *name, size_t n);

/* The bytes that a value has in an archive. */
typedef struct {
    size_t stream, chunks;
} pgas_sizer_t;
/* An archive that begins at the sizer's alignment, and its end: its bytes are added. */
PGAS_API void pgas_describe_scratch_begin(const pgas_sizer_t *sizer, pgas_archive_t *scratch_p);
PGAS_API void pgas_describe_scratch_end(pgas_sizer_t *sizer, pgas_archive_t *scratch);

/* ---- saving ---- */

/* What a root has in front: the checksum and the name, whose bytes are a constant. */
PGAS_INLINE pgas_status_t pgas_describe_put_root(pgas_archive_t *archive, uint64_t sum,
                                                 const char *name, size_t name_bytes)
{
    uint32_t word = (uint32_t)name_bytes;
    char *to;
    if (PGAS_UNLIKELY(!archive))
        return PGAS_ERR_INVALID;
    to = pgas_archive_reserve(archive, sizeof sum + sizeof word + name_bytes);
    if (PGAS_UNLIKELY(!to))
        return archive->status;
    memcpy(to, &sum, sizeof sum);
    memcpy(to + sizeof sum, &word, sizeof word);
    memcpy(to + sizeof sum + sizeof word, name, name_bytes);
    return PGAS_OK;
}

PGAS_INLINE void pgas_describe_put_object(pgas_archive_t *archive, pgas_rma_object_t *object)
{
    (void)pgas_archive_put_object(archive, object, object ? object->bytes : 0);
}

/* ---- reading ---- */

PGAS_INLINE pgas_status_t pgas_describe_get_root(pgas_archive_t *archive, uint64_t sum,
                                                 const char *name, size_t name_bytes)
{
    uint64_t found;
    pgas_status_t status = pgas_archive_get(archive, &found, sizeof found);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(found != sum))
        return pgas_describe_mismatch(archive, found, sum, name);
    if (PGAS_UNLIKELY(!pgas_archive_consume(archive, sizeof(uint32_t) + name_bytes)))
        return archive->status;
    return PGAS_OK;
}

/* How values are read: as views, or loaded into an arena, or by malloc. The functions below set it
 * and give the former way back. */
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

/* A copy of bytes that were found in the archive. */
PGAS_INLINE pgas_status_t pgas_describe_copy(pgas_archive_t *archive, const void *data,
                                             size_t bytes, void **copy_p)
{
    void *copy = archive->memory ? pgas_arena_alloc(archive->memory, bytes) : malloc(bytes);
    if (PGAS_UNLIKELY(!copy))
        return pgas_archive_fail(archive, PGAS_ERR_NO_MEMORY);
    memcpy(copy, data, bytes);
    *copy_p = copy;
    return PGAS_OK;
}

/* At most so many elements. After an error the outputs are unchanged. */
PGAS_INLINE pgas_status_t pgas_describe_get_vector(pgas_archive_t *archive, size_t elem_bytes,
                                                   size_t most, void **data_p, size_t *n_p)
{
    const void *data = NULL;
    size_t n = 0;
    pgas_status_t status = pgas_archive_get_vector(archive, elem_bytes, &data, &n);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(n > most))
        return pgas_archive_fail(archive, PGAS_ERR_FORMAT);
    if (!archive->in_place && n) {
        status = pgas_describe_copy(archive, data, n * elem_bytes, data_p);
        if (PGAS_UNLIKELY(status != PGAS_OK))
            return status;
    } else
        *data_p = (void *)data;
    *n_p = n;
    return PGAS_OK;
}

PGAS_INLINE pgas_status_t pgas_describe_get_string(pgas_archive_t *archive, char **text_p)
{
    const char *text = NULL;
    void *copy = NULL;
    pgas_status_t status = pgas_archive_get_string(archive, &text);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (!archive->in_place && text) {
        status = pgas_describe_copy(archive, text, strlen(text) + 1, &copy);
        text = (const char *)copy;
    }
    *text_p = (char *)text;
    return status;
}

/* The number of described values, and zeroed memory for them; otherwise as before. */
PGAS_INLINE pgas_status_t pgas_describe_get_values(pgas_archive_t *archive, size_t least_bytes,
                                                   size_t elem_bytes, size_t most, void **data_p,
                                                   size_t *n_p)
{
    size_t n = 0;
    pgas_status_t status = pgas_archive_get_count(archive, least_bytes, &n);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    if (PGAS_UNLIKELY(n > most))
        return pgas_archive_fail(archive, PGAS_ERR_FORMAT);
    if (n)
        status = pgas_describe_alloc(archive, n, elem_bytes, data_p);
    if (PGAS_LIKELY(status == PGAS_OK))
        *n_p = n;
    return status;
}

PGAS_INLINE pgas_status_t pgas_describe_get_rma_vector(pgas_archive_t *archive, size_t elem_bytes,
                                                       pgas_rma_vector_t *vector)
{
    pgas_rma_object_t *object = NULL;
    size_t bytes = 0;
    pgas_status_t status = pgas_archive_get_object(archive, &object, &bytes);
    if (PGAS_UNLIKELY(status != PGAS_OK))
        return status;
    status = bytes % elem_bytes
                 ? PGAS_ERR_FORMAT
                 : pgas_rma_vector_adopt(vector, object, bytes / elem_bytes, elem_bytes);
    if (PGAS_LIKELY(status == PGAS_OK))
        return PGAS_OK;
    (void)pgas_rma_object_destroy(object);
    return pgas_archive_fail(archive, PGAS_ERR_FORMAT);
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

/* ---- types ---- */

/* The kind of a type for printing: c, i, u, f, b or x, as above. */
#ifdef __cplusplus
template <typename type> struct pgas_elem_kind {
    enum { value = __is_enum(type) ? 'i' : 'x' };
};
#define PGAS_ELEM_KIND_IS(type, kind)         \
    template <> struct pgas_elem_kind<type> { \
        enum { value = kind };                \
    };
PGAS_ELEM_KIND_IS(char, 'c')
PGAS_ELEM_KIND_IS(bool, 'b')
PGAS_ELEM_KIND_IS(float, 'f')
PGAS_ELEM_KIND_IS(double, 'f')
PGAS_ELEM_KIND_IS(long double, 'f')
PGAS_ELEM_KIND_IS(signed char, 'i')
PGAS_ELEM_KIND_IS(short, 'i')
PGAS_ELEM_KIND_IS(int, 'i')
PGAS_ELEM_KIND_IS(long, 'i')
PGAS_ELEM_KIND_IS(long long, 'i')
PGAS_ELEM_KIND_IS(unsigned char, 'u')
PGAS_ELEM_KIND_IS(unsigned short, 'u')
PGAS_ELEM_KIND_IS(unsigned, 'u')
PGAS_ELEM_KIND_IS(unsigned long, 'u')
PGAS_ELEM_KIND_IS(unsigned long long, 'u')
#undef PGAS_ELEM_KIND_IS
#define PGAS_ELEM_KIND(...) static_cast<char>(pgas_elem_kind<__VA_ARGS__>::value)
#else
#define PGAS_IS_ONE_OF(type, a, b, c, d, e)                                            \
    (__builtin_types_compatible_p(type, a) || __builtin_types_compatible_p(type, b) || \
     __builtin_types_compatible_p(type, c) || __builtin_types_compatible_p(type, d) || \
     __builtin_types_compatible_p(type, e))
#define PGAS_ELEM_KIND(type)                                                              \
    "xcbfiu"[__builtin_types_compatible_p(type, char) * 1 +                               \
             __builtin_types_compatible_p(type, _Bool) * 2 +                              \
             PGAS_IS_ONE_OF(type, float, double, long double, float, float) * 3 +         \
             PGAS_IS_ONE_OF(type, signed char, short, int, long, long long) * 4 +         \
             PGAS_IS_ONE_OF(type, unsigned char, unsigned short, unsigned, unsigned long, \
                            unsigned long long) *                                         \
                 5]
#endif

/* A constant condition inside a function. what is what the compiler shows. */
#define PGAS_DESCRIBE_CHECK(condition, what) typedef char PGAS_UNUSED what[(condition) ? 1 : -1];

/* ---- kinds of fields ---- */

#define PGAS_KIND_SCALAR          ~, SCALAR_FIELD
#define PGAS_KIND_ARRAY           ~, ARRAY_FIELD
#define PGAS_KIND_STRING          ~, STRING_FIELD
#define PGAS_KIND_VECTOR          ~, VECTOR_FIELD
#define PGAS_KIND_OPTIONAL        ~, OPTIONAL_FIELD
#define PGAS_KIND_STRUCT          ~, STRUCT_FIELD
#define PGAS_KIND_STRUCT_ARRAY    ~, STRUCT_ARRAY_FIELD
#define PGAS_KIND_STRUCT_VECTOR   ~, STRUCT_VECTOR_FIELD
#define PGAS_KIND_STRUCT_OPTIONAL ~, STRUCT_OPTIONAL_FIELD
#define PGAS_KIND_UNION           ~, UNION_FIELD
#define PGAS_KIND_OBJECT          ~, OBJECT_FIELD
#define PGAS_KIND_RMA_VECTOR      ~, RMA_VECTOR_FIELD

/* The second of its arguments: the kind, or NO_FIELD for one that is not defined above. */
#define PGAS_PICK(...)             PGAS_PICK_2(__VA_ARGS__)
#define PGAS_PICK_2(a, b, ...)     b
#define PGAS_GO(pass, kind, ...)   PGAS_GO_2(pass, kind, __VA_ARGS__)
#define PGAS_GO_2(pass, kind, ...) pass##kind(__VA_ARGS__)

#define PGAS_FIELD_MEMBERS(kind, ...)                                \
    PGAS_GO(PGAS_MEMBERS_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), \
            pgas_there_is_no_kind_of_field_##kind, __VA_ARGS__)
#define PGAS_FIELD_KIND(kind, ...)                                \
    PGAS_GO(PGAS_KIND_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), \
            pgas_there_is_no_kind_of_field_##kind, __VA_ARGS__)
#define PGAS_FIELD_FLAT(kind, ...) \
    PGAS_GO(PGAS_FLAT_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_FIXED(kind, ...) \
    PGAS_GO(PGAS_FIXED_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_LEAST(kind, ...) \
    PGAS_GO(PGAS_LEAST_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_CHECK(kind, ...) \
    PGAS_GO(PGAS_CHECK_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_PUT(kind, ...) \
    PGAS_GO(PGAS_PUT_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_TAKE(kind, ...) \
    PGAS_GO(PGAS_TAKE_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_SAVE(kind, ...) \
    PGAS_GO(PGAS_SAVE_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_READ(kind, ...) \
    PGAS_GO(PGAS_READ_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_SIZE(kind, ...) \
    PGAS_GO(PGAS_SIZE_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_CLEAR(kind, ...) \
    PGAS_GO(PGAS_CLEAR_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_FREE(kind, ...) \
    PGAS_GO(PGAS_FREE_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_DROP(kind, ...) \
    PGAS_GO(PGAS_DROP_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_EQUAL(kind, ...) \
    PGAS_GO(PGAS_EQUAL_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_PRINT(kind, ...) \
    PGAS_GO(PGAS_PRINT_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), __VA_ARGS__)
#define PGAS_FIELD_SUM(kind, ...) \
    PGAS_GO(PGAS_SUM_, PGAS_PICK(PGAS_KIND_##kind, NO_FIELD, ~), #__VA_ARGS__, __VA_ARGS__)

#define PGAS_DESCRIBE_TRY(call)                \
    {                                          \
        pgas_status_t status_ = call;          \
        if (PGAS_UNLIKELY(status_ != PGAS_OK)) \
            return status_;                    \
    }
#define PGAS_COUNT_MAX(count) PGAS_CAST(size_t, PGAS_CAST(__typeof__(count), -1))

/* What a field declares; also the one place that reports a kind that does not exist. */
#define PGAS_MEMBERS_SCALAR_FIELD(error, type, member)         type member;
#define PGAS_MEMBERS_ARRAY_FIELD(error, type, member, n_elems) type member[n_elems];
#define PGAS_MEMBERS_STRING_FIELD(error, member)               char *member;
#define PGAS_MEMBERS_VECTOR_FIELD(error, type, member, count) \
    type *member;                                             \
    size_t count;
#define PGAS_MEMBERS_OPTIONAL_FIELD(error, type, member)              type *member;
#define PGAS_MEMBERS_STRUCT_FIELD(error, name, member)                name##_t member;
#define PGAS_MEMBERS_STRUCT_ARRAY_FIELD(error, name, member, n_elems) name##_t member[n_elems];
#define PGAS_MEMBERS_STRUCT_VECTOR_FIELD(error, name, member, count) \
    name##_t *member;                                                \
    size_t count;
#define PGAS_MEMBERS_STRUCT_OPTIONAL_FIELD(error, name, member) name##_t *member;
#define PGAS_MEMBERS_UNION_FIELD(error, name, member, tag)      name##_t member;
#define PGAS_MEMBERS_OBJECT_FIELD(error, member)                pgas_rma_object_t *member;
#define PGAS_MEMBERS_RMA_VECTOR_FIELD(error, name, member)      name##_t member;
#define PGAS_MEMBERS_NO_FIELD(error, ...)                       error pgas_error;

/* Reports only a kind that does not exist, as the pass MEMBERS does. */
#define PGAS_KIND_SCALAR_FIELD(...)
#define PGAS_KIND_ARRAY_FIELD(...)
#define PGAS_KIND_STRING_FIELD(...)
#define PGAS_KIND_VECTOR_FIELD(...)
#define PGAS_KIND_OPTIONAL_FIELD(...)
#define PGAS_KIND_STRUCT_FIELD(...)
#define PGAS_KIND_STRUCT_ARRAY_FIELD(...)
#define PGAS_KIND_STRUCT_VECTOR_FIELD(...)
#define PGAS_KIND_STRUCT_OPTIONAL_FIELD(...)
#define PGAS_KIND_UNION_FIELD(...)
#define PGAS_KIND_OBJECT_FIELD(...)
#define PGAS_KIND_RMA_VECTOR_FIELD(...)
#define PGAS_KIND_NO_FIELD(error, ...) error pgas_error;

/* Whether a field is copied as bytes. */
#define PGAS_FLAT_SCALAR_FIELD(type, member)                &&1
#define PGAS_FLAT_ARRAY_FIELD(type, member, n_elems)        &&1
#define PGAS_FLAT_STRING_FIELD(member)                      &&0
#define PGAS_FLAT_VECTOR_FIELD(type, member, count)         &&0
#define PGAS_FLAT_OPTIONAL_FIELD(type, member)              &&0
#define PGAS_FLAT_STRUCT_FIELD(name, member)                &&pgas_is_flat_##name
#define PGAS_FLAT_STRUCT_ARRAY_FIELD(name, member, n_elems) &&pgas_is_flat_##name
#define PGAS_FLAT_STRUCT_VECTOR_FIELD(name, member, count)  &&0
#define PGAS_FLAT_STRUCT_OPTIONAL_FIELD(name, member)       &&0
#define PGAS_FLAT_UNION_FIELD(name, member, tag)            &&0
#define PGAS_FLAT_OBJECT_FIELD(member)                      &&0
#define PGAS_FLAT_RMA_VECTOR_FIELD(name, member)            &&0
#define PGAS_FLAT_NO_FIELD(...)

/* Its bytes in the fixed part. */
#define PGAS_FIXED_SCALAR_FIELD(type, member)         +sizeof(type)
#define PGAS_FIXED_ARRAY_FIELD(type, member, n_elems) +(n_elems) * sizeof(type)
#define PGAS_FIXED_STRING_FIELD(...)
#define PGAS_FIXED_VECTOR_FIELD(...)
#define PGAS_FIXED_OPTIONAL_FIELD(...)
#define PGAS_FIXED_STRUCT_FIELD(name, member) +(pgas_is_flat_##name ? sizeof(name##_t) : 0)
#define PGAS_FIXED_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    +(pgas_is_flat_##name ? (n_elems) * sizeof(name##_t) : 0)
#define PGAS_FIXED_STRUCT_VECTOR_FIELD(...)
#define PGAS_FIXED_STRUCT_OPTIONAL_FIELD(...)
#define PGAS_FIXED_UNION_FIELD(...)
#define PGAS_FIXED_OBJECT_FIELD(...)
#define PGAS_FIXED_RMA_VECTOR_FIELD(...)
#define PGAS_FIXED_NO_FIELD(...)

/* The least number of bytes that it has behind the fixed part. */
#define PGAS_LEAST_SCALAR_FIELD(...)
#define PGAS_LEAST_ARRAY_FIELD(...)
#define PGAS_LEAST_STRING_FIELD(member)              +4
#define PGAS_LEAST_VECTOR_FIELD(type, member, count) +4
#define PGAS_LEAST_OPTIONAL_FIELD(type, member)      +4
#define PGAS_LEAST_STRUCT_FIELD(name, member)        +(pgas_is_flat_##name ? 0 : 0 + pgas_least_##name)
#define PGAS_LEAST_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    +(pgas_is_flat_##name ? 0 : (n_elems)*pgas_least_##name)
#define PGAS_LEAST_STRUCT_VECTOR_FIELD(name, member, count) +4
#define PGAS_LEAST_STRUCT_OPTIONAL_FIELD(name, member)      +4
#define PGAS_LEAST_UNION_FIELD(...)
#define PGAS_LEAST_OBJECT_FIELD(member)           +4
#define PGAS_LEAST_RMA_VECTOR_FIELD(name, member) +4
#define PGAS_LEAST_NO_FIELD(...)

/* What is wrong with a description. */
#define PGAS_CHECK_SCALAR_FIELD(type, member) \
    PGAS_DESCRIBE_CHECK(sizeof v_->member == sizeof(type), pgas_##member##_has_another_size)
#define PGAS_CHECK_ARRAY_FIELD(type, member, n_elems)                  \
    PGAS_DESCRIBE_CHECK(sizeof v_->member == (n_elems) * sizeof(type), \
                        pgas_##member##_has_another_size)
#define PGAS_CHECK_STRING_FIELD(...)
#define PGAS_CHECK_VECTOR_FIELD(type, member, count)                 \
    PGAS_DESCRIBE_CHECK(__alignof__(type) <= PGAS_ARCHIVE_ALIGN_MAX, \
                        pgas_##member##_needs_more_alignment_than_16)
#define PGAS_CHECK_OPTIONAL_FIELD(type, member)                      \
    PGAS_DESCRIBE_CHECK(__alignof__(type) <= PGAS_ARCHIVE_ALIGN_MAX, \
                        pgas_##member##_needs_more_alignment_than_16)
#define PGAS_CHECK_STRUCT_FIELD(...)
#define PGAS_CHECK_STRUCT_ARRAY_FIELD(name, member, n_elems)               \
    PGAS_DESCRIBE_CHECK(sizeof v_->member == (n_elems) * sizeof(name##_t), \
                        pgas_##member##_has_another_size)
#define PGAS_CHECK_STRUCT_VECTOR_FIELD(name, member, count)              \
    PGAS_DESCRIBE_CHECK(__alignof__(name##_t) <= PGAS_ARCHIVE_ALIGN_MAX, \
                        pgas_##member##_needs_more_alignment_than_16)
#define PGAS_CHECK_STRUCT_OPTIONAL_FIELD(name, member)                   \
    PGAS_DESCRIBE_CHECK(__alignof__(name##_t) <= PGAS_ARCHIVE_ALIGN_MAX, \
                        pgas_##member##_needs_more_alignment_than_16)
#define PGAS_CHECK_UNION_FIELD(...)
#define PGAS_CHECK_OBJECT_FIELD(...)
#define PGAS_CHECK_RMA_VECTOR_FIELD(...)
#define PGAS_CHECK_NO_FIELD(...)

/* The fixed part: writing. */
#define PGAS_PUT_SCALAR_FIELD(type, member) \
    {                                       \
        const type *from_ = &v_->member;    \
        memcpy(to_, from_, sizeof(type));   \
        to_ += sizeof(type);                \
    }
#define PGAS_PUT_ARRAY_FIELD(type, member, n_elems)   \
    {                                                 \
        const type *from_ = v_->member;               \
        memcpy(to_, from_, (n_elems) * sizeof(type)); \
        to_ += (n_elems) * sizeof(type);              \
    }
#define PGAS_PUT_STRING_FIELD(...)
#define PGAS_PUT_VECTOR_FIELD(...)
#define PGAS_PUT_OPTIONAL_FIELD(...)
#define PGAS_PUT_STRUCT_FIELD(name, member)   \
    if (pgas_is_flat_##name) {                \
        const name##_t *from_ = &v_->member;  \
        memcpy(to_, from_, sizeof(name##_t)); \
        to_ += sizeof(name##_t);              \
    }
#define PGAS_PUT_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    if (pgas_is_flat_##name) {                             \
        const name##_t *from_ = v_->member;                \
        memcpy(to_, from_, (n_elems) * sizeof(name##_t));  \
        to_ += (n_elems) * sizeof(name##_t);               \
    }
#define PGAS_PUT_STRUCT_VECTOR_FIELD(...)
#define PGAS_PUT_STRUCT_OPTIONAL_FIELD(...)
#define PGAS_PUT_UNION_FIELD(...)
#define PGAS_PUT_OBJECT_FIELD(...)
#define PGAS_PUT_RMA_VECTOR_FIELD(...)
#define PGAS_PUT_NO_FIELD(...)

/* The fixed part: reading. */
#define PGAS_TAKE_SCALAR_FIELD(type, member) \
    memcpy(&v_->member, at_, sizeof(type));  \
    at_ += sizeof(type);
#define PGAS_TAKE_ARRAY_FIELD(type, member, n_elems)   \
    memcpy(v_->member, at_, (n_elems) * sizeof(type)); \
    at_ += (n_elems) * sizeof(type);
#define PGAS_TAKE_STRING_FIELD(...)
#define PGAS_TAKE_VECTOR_FIELD(...)
#define PGAS_TAKE_OPTIONAL_FIELD(...)
#define PGAS_TAKE_STRUCT_FIELD(name, member)        \
    if (pgas_is_flat_##name) {                      \
        memcpy(&v_->member, at_, sizeof(name##_t)); \
        at_ += sizeof(name##_t);                    \
    }
#define PGAS_TAKE_STRUCT_ARRAY_FIELD(name, member, n_elems)    \
    if (pgas_is_flat_##name) {                                 \
        memcpy(v_->member, at_, (n_elems) * sizeof(name##_t)); \
        at_ += (n_elems) * sizeof(name##_t);                   \
    }
#define PGAS_TAKE_STRUCT_VECTOR_FIELD(...)
#define PGAS_TAKE_STRUCT_OPTIONAL_FIELD(...)
#define PGAS_TAKE_UNION_FIELD(...)
#define PGAS_TAKE_OBJECT_FIELD(...)
#define PGAS_TAKE_RMA_VECTOR_FIELD(...)
#define PGAS_TAKE_NO_FIELD(...)

/* The other fields: writing. An error stays in the archive, so that it shows at the end. */
#define PGAS_SAVE_SCALAR_FIELD(...)
#define PGAS_SAVE_ARRAY_FIELD(...)
#define PGAS_SAVE_STRING_FIELD(member) (void)pgas_archive_put_string(ar_, v_->member);
#define PGAS_SAVE_VECTOR_FIELD(type, member, count)                                            \
    {                                                                                          \
        const type *from_ = v_->member;                                                        \
        (void)pgas_archive_put_vector(ar_, from_, PGAS_CAST(size_t, v_->count), sizeof(type)); \
    }
#define PGAS_SAVE_OPTIONAL_FIELD(type, member)                                  \
    {                                                                           \
        const type *from_ = v_->member;                                         \
        (void)pgas_archive_put_vector(ar_, from_, from_ ? 1 : 0, sizeof(type)); \
    }
#define PGAS_SAVE_STRUCT_FIELD(name, member)                                         \
    if (!pgas_is_flat_##name && pgas_value_save_##name(ar_, &v_->member) != PGAS_OK) \
        return ar_->status;
#define PGAS_SAVE_STRUCT_ARRAY_FIELD(name, member, n_elems)                                   \
    if (!pgas_is_flat_##name && pgas_values_save_##name(ar_, v_->member, n_elems) != PGAS_OK) \
        return ar_->status;
#define PGAS_SAVE_STRUCT_VECTOR_FIELD(name, member, count)                                 \
    if (pgas_vector_save_##name(ar_, v_->member, PGAS_CAST(size_t, v_->count)) != PGAS_OK) \
        return ar_->status;
#define PGAS_SAVE_STRUCT_OPTIONAL_FIELD(name, member)                            \
    if (pgas_vector_save_##name(ar_, v_->member, v_->member ? 1 : 0) != PGAS_OK) \
        return ar_->status;
#define PGAS_SAVE_UNION_FIELD(name, member, tag)                                          \
    if (pgas_value_save_##name(ar_, PGAS_CAST(int64_t, v_->tag), &v_->member) != PGAS_OK) \
        return ar_->status;
#define PGAS_SAVE_OBJECT_FIELD(member) pgas_describe_put_object(ar_, v_->member);
#define PGAS_SAVE_RMA_VECTOR_FIELD(name, member)                 \
    (void)pgas_archive_put_object(ar_, v_->member.vector.object, \
                                  v_->member.vector.n * sizeof(*name##_data(&v_->member)));
#define PGAS_SAVE_NO_FIELD(...)

/* The other fields: reading. Memory that was allocated is in the value at once, so that it can be freed. */
#define PGAS_READ_SCALAR_FIELD(...)
#define PGAS_READ_ARRAY_FIELD(...)
#define PGAS_READ_STRING_FIELD(member) PGAS_DESCRIBE_TRY(pgas_describe_get_string(ar_, &v_->member))
#define PGAS_READ_VECTOR_FIELD(type, member, count)                                              \
    {                                                                                            \
        void *data_ = NULL;                                                                      \
        size_t n_ = 0;                                                                           \
        PGAS_DESCRIBE_TRY(                                                                       \
            pgas_describe_get_vector(ar_, sizeof(type), PGAS_COUNT_MAX(v_->count), &data_, &n_)) \
        v_->member = PGAS_CAST(type *, data_);                                                   \
        v_->count = PGAS_CAST(__typeof__(v_->count), n_);                                        \
    }
#define PGAS_READ_OPTIONAL_FIELD(type, member)                                         \
    {                                                                                  \
        void *data_ = NULL;                                                            \
        size_t n_ = 0;                                                                 \
        PGAS_DESCRIBE_TRY(pgas_describe_get_vector(ar_, sizeof(type), 1, &data_, &n_)) \
        v_->member = PGAS_CAST(type *, data_);                                         \
    }
#define PGAS_READ_STRUCT_FIELD(name, member) \
    if (!pgas_is_flat_##name)                \
    PGAS_DESCRIBE_TRY(pgas_value_read_##name(ar_, &v_->member))
#define PGAS_READ_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    if (!pgas_is_flat_##name)                               \
    PGAS_DESCRIBE_TRY(pgas_values_read_##name(ar_, v_->member, n_elems))
#define PGAS_READ_STRUCT_VECTOR_FIELD(name, member, count)                             \
    {                                                                                  \
        size_t n_ = 0;                                                                 \
        pgas_status_t status_ =                                                        \
            pgas_vector_read_##name(ar_, PGAS_COUNT_MAX(v_->count), &v_->member, &n_); \
        v_->count = PGAS_CAST(__typeof__(v_->count), n_);                              \
        if (PGAS_UNLIKELY(status_ != PGAS_OK))                                         \
            return status_;                                                            \
    }
#define PGAS_READ_STRUCT_OPTIONAL_FIELD(name, member)                        \
    {                                                                        \
        size_t n_ = 0;                                                       \
        PGAS_DESCRIBE_TRY(pgas_vector_read_##name(ar_, 1, &v_->member, &n_)) \
    }
#define PGAS_READ_UNION_FIELD(name, member, tag) \
    PGAS_DESCRIBE_TRY(pgas_value_read_##name(ar_, PGAS_CAST(int64_t, v_->tag), &v_->member))
#define PGAS_READ_OBJECT_FIELD(member)                                        \
    {                                                                         \
        size_t bytes_ = 0;                                                    \
        PGAS_DESCRIBE_TRY(pgas_archive_get_object(ar_, &v_->member, &bytes_)) \
    }
#define PGAS_READ_RMA_VECTOR_FIELD(name, member) \
    PGAS_DESCRIBE_TRY(                           \
        pgas_describe_get_rma_vector(ar_, sizeof(*name##_data(&v_->member)), &v_->member.vector))
#define PGAS_READ_NO_FIELD(...)

/* Bytes behind the fixed part. */
#define PGAS_SIZE_SCALAR_FIELD(...)
#define PGAS_SIZE_ARRAY_FIELD(...)
#define PGAS_SIZE_STRING_FIELD(member) pgas_sizer_add_text(sizer_, v_->member);
#define PGAS_SIZE_VECTOR_FIELD(type, member, count) \
    pgas_sizer_add_vector(sizer_, PGAS_CAST(size_t, v_->count), sizeof(type));
#define PGAS_SIZE_OPTIONAL_FIELD(type, member) \
    pgas_sizer_add_vector(sizer_, v_->member ? 1 : 0, sizeof(type));
#define PGAS_SIZE_STRUCT_FIELD(name, member) \
    if (!pgas_is_flat_##name)                \
        pgas_value_size_##name(sizer_, &v_->member);
#define PGAS_SIZE_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    if (!pgas_is_flat_##name)                               \
        pgas_values_size_##name(sizer_, v_->member, n_elems);
#define PGAS_SIZE_STRUCT_VECTOR_FIELD(name, member, count) \
    pgas_vector_size_##name(sizer_, v_->member, PGAS_CAST(size_t, v_->count));
#define PGAS_SIZE_STRUCT_OPTIONAL_FIELD(name, member) \
    pgas_vector_size_##name(sizer_, v_->member, v_->member ? 1 : 0);
#define PGAS_SIZE_UNION_FIELD(name, member, tag) \
    pgas_value_size_##name(sizer_, PGAS_CAST(int64_t, v_->tag), &v_->member);
#define PGAS_SIZE_OBJECT_FIELD(member) \
    pgas_sizer_add_vector(sizer_, v_->member ? v_->member->bytes : 0, 1);
#define PGAS_SIZE_RMA_VECTOR_FIELD(name, member) \
    pgas_sizer_add_vector(sizer_, v_->member.vector.n * sizeof(*name##_data(&v_->member)), 1);
#define PGAS_SIZE_NO_FIELD(...)

/* An empty value. */
#define PGAS_CLEAR_SCALAR_FIELD(type, member)         memset(&v_->member, 0, sizeof v_->member);
#define PGAS_CLEAR_ARRAY_FIELD(type, member, n_elems) memset(v_->member, 0, sizeof v_->member);
#define PGAS_CLEAR_STRING_FIELD(member)               v_->member = NULL;
#define PGAS_CLEAR_VECTOR_FIELD(type, member, count) \
    v_->member = NULL;                               \
    v_->count = 0;
#define PGAS_CLEAR_OPTIONAL_FIELD(type, member) v_->member = NULL;
#define PGAS_CLEAR_STRUCT_FIELD(name, member)   pgas_value_clear_##name(&v_->member);
#define PGAS_CLEAR_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    {                                                        \
        size_t i_;                                           \
        for (i_ = 0; i_ < (n_elems); i_++)                   \
            pgas_value_clear_##name(&v_->member[i_]);        \
    }
#define PGAS_CLEAR_STRUCT_VECTOR_FIELD(name, member, count) \
    v_->member = NULL;                                      \
    v_->count = 0;
#define PGAS_CLEAR_STRUCT_OPTIONAL_FIELD(name, member) v_->member = NULL;
#define PGAS_CLEAR_UNION_FIELD(name, member, tag)      pgas_value_clear_##name(&v_->member);
#define PGAS_CLEAR_OBJECT_FIELD(member)                v_->member = NULL;
#define PGAS_CLEAR_RMA_VECTOR_FIELD(name, member)      memset(&v_->member, 0, sizeof v_->member);
#define PGAS_CLEAR_NO_FIELD(...)

/* Memory of malloc, and holders of objects. */
#define PGAS_FREE_SCALAR_FIELD(...)
#define PGAS_FREE_ARRAY_FIELD(...)
#define PGAS_FREE_STRING_FIELD(member)              free(v_->member);
#define PGAS_FREE_VECTOR_FIELD(type, member, count) free(v_->member);
#define PGAS_FREE_OPTIONAL_FIELD(type, member)      free(v_->member);
#define PGAS_FREE_STRUCT_FIELD(name, member)        pgas_value_free_##name(&v_->member);
#define PGAS_FREE_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    pgas_values_free_##name(v_->member, n_elems);
#define PGAS_FREE_STRUCT_VECTOR_FIELD(name, member, count)             \
    pgas_values_free_##name(v_->member, PGAS_CAST(size_t, v_->count)); \
    free(v_->member);
#define PGAS_FREE_STRUCT_OPTIONAL_FIELD(name, member)        \
    pgas_values_free_##name(v_->member, v_->member ? 1 : 0); \
    free(v_->member);
#define PGAS_FREE_UNION_FIELD(name, member, tag) \
    pgas_value_free_##name(PGAS_CAST(int64_t, v_->tag), &v_->member);
#define PGAS_FREE_OBJECT_FIELD(member)           (void)pgas_rma_object_destroy(v_->member);
#define PGAS_FREE_RMA_VECTOR_FIELD(name, member) name##_free(&v_->member);
#define PGAS_FREE_NO_FIELD(...)

/* Holders of objects only. */
#define PGAS_DROP_SCALAR_FIELD(...)
#define PGAS_DROP_ARRAY_FIELD(...)
#define PGAS_DROP_STRING_FIELD(...)
#define PGAS_DROP_VECTOR_FIELD(...)
#define PGAS_DROP_OPTIONAL_FIELD(...)
#define PGAS_DROP_STRUCT_FIELD(name, member) pgas_value_drop_##name(&v_->member);
#define PGAS_DROP_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    pgas_values_drop_##name(v_->member, n_elems);
#define PGAS_DROP_STRUCT_VECTOR_FIELD(name, member, count) \
    pgas_values_drop_##name(v_->member, PGAS_CAST(size_t, v_->count));
#define PGAS_DROP_STRUCT_OPTIONAL_FIELD(name, member) \
    pgas_values_drop_##name(v_->member, v_->member ? 1 : 0);
#define PGAS_DROP_UNION_FIELD(name, member, tag) \
    pgas_value_drop_##name(PGAS_CAST(int64_t, v_->tag), &v_->member);
#define PGAS_DROP_OBJECT_FIELD(member)           (void)pgas_rma_object_destroy(v_->member);
#define PGAS_DROP_RMA_VECTOR_FIELD(name, member) name##_free(&v_->member);
#define PGAS_DROP_NO_FIELD(...)

/* Whether a field of v_ and w_ is the same. */
#define PGAS_EQUAL_SCALAR_FIELD(type, member)           \
    if (memcmp(&v_->member, &w_->member, sizeof(type))) \
        return false;
#define PGAS_EQUAL_ARRAY_FIELD(type, member, n_elems)             \
    if (memcmp(v_->member, w_->member, (n_elems) * sizeof(type))) \
        return false;
#define PGAS_EQUAL_STRING_FIELD(member)                         \
    if (!pgas_describe_are_equal_texts(v_->member, w_->member)) \
        return false;
#define PGAS_EQUAL_VECTOR_FIELD(type, member, count)                           \
    if (v_->count != w_->count ||                                              \
        !pgas_describe_are_equal(v_->member, w_->member,                       \
                                 PGAS_CAST(size_t, v_->count) * sizeof(type))) \
        return false;
#define PGAS_EQUAL_OPTIONAL_FIELD(type, member)                                   \
    if (!pgas_describe_are_equal_optionals(v_->member, w_->member, sizeof(type))) \
        return false;
#define PGAS_EQUAL_STRUCT_FIELD(name, member)         \
    if (!pgas_equal_##name(&v_->member, &w_->member)) \
        return false;
#define PGAS_EQUAL_STRUCT_ARRAY_FIELD(name, member, n_elems)        \
    if (!pgas_values_equal_##name(v_->member, w_->member, n_elems)) \
        return false;
#define PGAS_EQUAL_STRUCT_VECTOR_FIELD(name, member, count)                              \
    if (v_->count != w_->count ||                                                        \
        !pgas_values_equal_##name(v_->member, w_->member, PGAS_CAST(size_t, v_->count))) \
        return false;
#define PGAS_EQUAL_STRUCT_OPTIONAL_FIELD(name, member)                         \
    if (!v_->member != !w_->member ||                                          \
        !pgas_values_equal_##name(v_->member, w_->member, v_->member ? 1 : 0)) \
        return false;
#define PGAS_EQUAL_UNION_FIELD(name, member, tag)                                        \
    if (v_->tag != w_->tag ||                                                            \
        !pgas_value_equal_##name(PGAS_CAST(int64_t, v_->tag), &v_->member, &w_->member)) \
        return false;
#define PGAS_EQUAL_OBJECT_FIELD(member)                           \
    if (!pgas_describe_are_equal_objects(v_->member, w_->member)) \
        return false;
#define PGAS_EQUAL_RMA_VECTOR_FIELD(name, member)                                          \
    if (v_->member.vector.n != w_->member.vector.n ||                                      \
        !pgas_describe_are_equal(v_->member.vector.data, w_->member.vector.data,           \
                                 v_->member.vector.n * sizeof(*name##_data(&v_->member)))) \
        return false;
#define PGAS_EQUAL_NO_FIELD(...)

/* A line for each field. */
#define PGAS_PRINT_SCALAR_FIELD(type, member)                                            \
    pgas_describe_print_elems(out_, depth_, #member, PGAS_ELEM_KIND(type), sizeof(type), \
                              &v_->member, 1, PGAS_PRINT_ONE);
#define PGAS_PRINT_ARRAY_FIELD(type, member, n_elems)                                    \
    pgas_describe_print_elems(out_, depth_, #member, PGAS_ELEM_KIND(type), sizeof(type), \
                              v_->member, n_elems, PGAS_PRINT_MANY);
#define PGAS_PRINT_STRING_FIELD(member) pgas_describe_print_text(out_, depth_, #member, v_->member);
#define PGAS_PRINT_VECTOR_FIELD(type, member, count)                                     \
    pgas_describe_print_elems(out_, depth_, #member, PGAS_ELEM_KIND(type), sizeof(type), \
                              v_->member, PGAS_CAST(size_t, v_->count), PGAS_PRINT_MANY);
#define PGAS_PRINT_OPTIONAL_FIELD(type, member)                                          \
    pgas_describe_print_elems(out_, depth_, #member, PGAS_ELEM_KIND(type), sizeof(type), \
                              v_->member, v_->member ? 1 : 0, PGAS_PRINT_OPTIONAL);
#define PGAS_PRINT_STRUCT_FIELD(name, member)               \
    pgas_describe_print_name(out_, depth_, #member, #name); \
    pgas_value_print_##name(out_, depth_ + 1, &v_->member);
#define PGAS_PRINT_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    pgas_values_print_##name(out_, depth_, #member, v_->member, n_elems);
#define PGAS_PRINT_STRUCT_VECTOR_FIELD(name, member, count) \
    pgas_values_print_##name(out_, depth_, #member, v_->member, PGAS_CAST(size_t, v_->count));
#define PGAS_PRINT_STRUCT_OPTIONAL_FIELD(name, member) \
    pgas_values_print_##name(out_, depth_, #member, v_->member, v_->member ? 1 : 0);
#define PGAS_PRINT_UNION_FIELD(name, member, tag)           \
    pgas_describe_print_name(out_, depth_, #member, #name); \
    pgas_value_print_##name(out_, depth_ + 1, PGAS_CAST(int64_t, v_->tag), &v_->member);
#define PGAS_PRINT_OBJECT_FIELD(member) \
    pgas_describe_print_object(out_, depth_, #member, v_->member);
#define PGAS_PRINT_RMA_VECTOR_FIELD(name, member)                                        \
    pgas_describe_print_elems(out_, depth_, #member,                                     \
                              PGAS_ELEM_KIND(__typeof__(*name##_data(&v_->member))),     \
                              sizeof(*name##_data(&v_->member)), v_->member.vector.data, \
                              v_->member.vector.n, PGAS_PRINT_MANY);
#define PGAS_PRINT_NO_FIELD(...)

/* The checksum: text is the list of arguments as the program wrote it. */
#define PGAS_SUM_SCALAR_FIELD(text, type, member) \
    sum_ = pgas_describe_mix(sum_, "SCALAR", text, sizeof(type));
#define PGAS_SUM_ARRAY_FIELD(text, type, member, n_elems) \
    sum_ = pgas_describe_mix(sum_, "ARRAY", text, (n_elems) * sizeof(type));
#define PGAS_SUM_STRING_FIELD(text, member) sum_ = pgas_describe_mix(sum_, "STRING", text, 0);
#define PGAS_SUM_VECTOR_FIELD(text, type, member, count) \
    sum_ = pgas_describe_mix(sum_, "VECTOR", text, sizeof(type));
#define PGAS_SUM_OPTIONAL_FIELD(text, type, member) \
    sum_ = pgas_describe_mix(sum_, "OPTIONAL", text, sizeof(type));
#define PGAS_SUM_STRUCT_FIELD(text, name, member) \
    sum_ = pgas_describe_mix(sum_, "STRUCT", text, pgas_value_sum_##name(&here_) + (0));
#define PGAS_SUM_STRUCT_ARRAY_FIELD(text, name, member, n_elems) \
    sum_ = pgas_describe_mix(sum_, "STRUCT_ARRAY", text, pgas_value_sum_##name(&here_) + (n_elems));
#define PGAS_SUM_STRUCT_VECTOR_FIELD(text, name, member, count) \
    sum_ = pgas_describe_mix(sum_, "STRUCT_VECTOR", text, pgas_value_sum_##name(&here_) + (0));
#define PGAS_SUM_STRUCT_OPTIONAL_FIELD(text, name, member) \
    sum_ = pgas_describe_mix(sum_, "STRUCT_OPTIONAL", text, pgas_value_sum_##name(&here_) + (0));
#define PGAS_SUM_UNION_FIELD(text, name, member, tag) \
    sum_ = pgas_describe_mix(sum_, "UNION", text, pgas_value_sum_##name(&here_) + (0));
#define PGAS_SUM_OBJECT_FIELD(text, member) sum_ = pgas_describe_mix(sum_, "OBJECT", text, 0);
#define PGAS_SUM_RMA_VECTOR_FIELD(text, name, member)  \
    sum_ = pgas_describe_mix(sum_, "RMA_VECTOR", text, \
                             sizeof(*name##_data(PGAS_CAST(name##_t *, NULL))));
#define PGAS_SUM_NO_FIELD(...)

/* ---- functions ---- */

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

/* Functions of a described structure or an own type that others use, before their definitions: a
 * structure may contain itself. pgas_values_: of n of them. pgas_vector_: with their number. */
#define PGAS_DESCRIBE_PROTOTYPES(name)                                                             \
    static inline PGAS_UNUSED pgas_status_t pgas_value_save_##name(pgas_archive_t *ar_,            \
                                                                   const name##_t *v_);            \
    static inline PGAS_UNUSED pgas_status_t pgas_value_read_##name(pgas_archive_t *ar_,            \
                                                                   name##_t *v_);                  \
    static PGAS_UNUSED void pgas_value_size_##name(pgas_sizer_t *sizer_, const name##_t *v_);      \
    static inline PGAS_UNUSED void pgas_value_clear_##name(name##_t *v_);                          \
    static PGAS_UNUSED void pgas_value_free_##name(name##_t *v_);                                  \
    static PGAS_UNUSED void pgas_value_drop_##name(name##_t *v_);                                  \
    static PGAS_UNUSED bool pgas_equal_##name(const name##_t *v_, const name##_t *w_);             \
    static PGAS_UNUSED void pgas_value_print_##name(FILE *out_, int depth_, const name##_t *v_);   \
    static PGAS_UNUSED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_);                   \
    static inline PGAS_UNUSED pgas_status_t pgas_values_save_##name(pgas_archive_t *ar_,           \
                                                                    const name##_t *v_, size_t n_) \
    {                                                                                              \
        size_t i_;                                                                                 \
        for (i_ = 0; i_ < n_; i_++)                                                                \
            PGAS_DESCRIBE_TRY(pgas_value_save_##name(ar_, &v_[i_]))                                \
        return PGAS_OK;                                                                            \
    }                                                                                              \
    static inline PGAS_UNUSED pgas_status_t pgas_values_read_##name(pgas_archive_t *ar_,           \
                                                                    name##_t *v_, size_t n_)       \
    {                                                                                              \
        size_t i_;                                                                                 \
        for (i_ = 0; i_ < n_; i_++)                                                                \
            PGAS_DESCRIBE_TRY(pgas_value_read_##name(ar_, &v_[i_]))                                \
        return PGAS_OK;                                                                            \
    }                                                                                              \
    static PGAS_UNUSED void pgas_values_size_##name(pgas_sizer_t *sizer_, const name##_t *v_,      \
                                                    size_t n_)                                     \
    {                                                                                              \
        size_t i_;                                                                                 \
        for (i_ = 0; i_ < n_; i_++)                                                                \
            pgas_value_size_##name(sizer_, &v_[i_]);                                               \
    }                                                                                              \
    static PGAS_UNUSED void pgas_values_free_##name(name##_t *v_, size_t n_)                       \
    {                                                                                              \
        size_t i_;                                                                                 \
        for (i_ = 0; i_ < n_; i_++)                                                                \
            pgas_value_free_##name(&v_[i_]);                                                       \
    }                                                                                              \
    static PGAS_UNUSED void pgas_values_drop_##name(name##_t *v_, size_t n_)                       \
    {                                                                                              \
        size_t i_;                                                                                 \
        for (i_ = 0; i_ < n_; i_++)                                                                \
            pgas_value_drop_##name(&v_[i_]);                                                       \
    }                                                                                              \
    static PGAS_UNUSED bool pgas_values_equal_##name(const name##_t *v_, const name##_t *w_,       \
                                                     size_t n_)                                    \
    {                                                                                              \
        size_t i_;                                                                                 \
        for (i_ = 0; i_ < n_; i_++)                                                                \
            if (!pgas_equal_##name(&v_[i_], &w_[i_]))                                              \
                return false;                                                                      \
        return true;                                                                               \
    }                                                                                              \
    static PGAS_UNUSED void pgas_values_print_##name(FILE *out_, int depth_, const char *member_,  \
                                                     const name##_t *v_, size_t n_)                \
    {                                                                                              \
        size_t i_, shown_ = pgas_describe_print_count(out_, depth_, member_, #name, n_);           \
        for (i_ = 0; i_ < shown_; i_++) {                                                          \
            pgas_describe_print_index(out_, depth_ + 1, i_);                                       \
            pgas_value_print_##name(out_, depth_ + 2, &v_[i_]);                                    \
        }                                                                                          \
    }                                                                                              \
    static inline PGAS_UNUSED pgas_status_t pgas_vector_save_##name(pgas_archive_t *ar_,           \
                                                                    const name##_t *v_, size_t n_) \
    {                                                                                              \
        if (pgas_is_flat_##name)                                                                   \
            return pgas_archive_put_vector(ar_, v_, n_, sizeof(name##_t));                         \
        if (PGAS_UNLIKELY(!v_ && n_))                                                              \
            return pgas_archive_fail(ar_, PGAS_ERR_INVALID);                                       \
        PGAS_DESCRIBE_TRY(pgas_archive_enter(ar_))                                                 \
        PGAS_DESCRIBE_TRY(pgas_archive_put_count(ar_, n_))                                         \
        PGAS_DESCRIBE_TRY(pgas_values_save_##name(ar_, v_, n_))                                    \
        pgas_archive_leave(ar_);                                                                   \
        return PGAS_OK;                                                                            \
    }                                                                                              \
    static inline PGAS_UNUSED pgas_status_t pgas_vector_read_##name(pgas_archive_t *ar_,           \
                                                                    size_t most_,                  \
                                                                    name##_t **data_p_,            \
                                                                    size_t *n_p_)                  \
    {                                                                                              \
        void *data_ = NULL;                                                                        \
        if (pgas_is_flat_##name) {                                                                 \
            PGAS_DESCRIBE_TRY(                                                                     \
                pgas_describe_get_vector(ar_, sizeof(name##_t), most_, &data_, n_p_))              \
            *data_p_ = PGAS_CAST(name##_t *, data_);                                               \
            return PGAS_OK;                                                                        \
        }                                                                                          \
        PGAS_DESCRIBE_TRY(pgas_archive_enter(ar_))                                                 \
        PGAS_DESCRIBE_TRY(pgas_describe_get_values(ar_, pgas_least_##name, sizeof(name##_t),       \
                                                   most_, &data_, n_p_))                           \
        *data_p_ = PGAS_CAST(name##_t *, data_);                                                   \
        PGAS_DESCRIBE_TRY(pgas_values_read_##name(ar_, *data_p_, *n_p_))                           \
        pgas_archive_leave(ar_);                                                                   \
        return PGAS_OK;                                                                            \
    }                                                                                              \
    static PGAS_UNUSED void pgas_vector_size_##name(pgas_sizer_t *sizer_, const name##_t *v_,      \
                                                    size_t n_)                                     \
    {                                                                                              \
        if (pgas_is_flat_##name)                                                                   \
            pgas_sizer_add_vector(sizer_, n_, sizeof(name##_t));                                   \
        else {                                                                                     \
            pgas_sizer_add_count(sizer_, n_);                                                      \
            pgas_values_size_##name(sizer_, v_, n_);                                               \
        }                                                                                          \
    }

/* The functions for programs. */
#define PGAS_DESCRIBE_ROOT(name)                                                                 \
    static PGAS_UNUSED uint64_t pgas_checksum_##name(void)                                       \
    {                                                                                            \
        static uint64_t known_;                                                                  \
        uint64_t sum_ = __atomic_load_n(&known_, __ATOMIC_RELAXED);                              \
        if (PGAS_UNLIKELY(!sum_)) {                                                              \
            sum_ = pgas_value_sum_##name(NULL);                                                  \
            __atomic_store_n(&known_, sum_, __ATOMIC_RELAXED);                                   \
        }                                                                                        \
        return sum_;                                                                             \
    }                                                                                            \
    static PGAS_UNUSED pgas_status_t pgas_save_##name(pgas_archive_t *ar_, const name##_t *v_)   \
    {                                                                                            \
        if (PGAS_UNLIKELY(!v_))                                                                  \
            return pgas_archive_fail(ar_, PGAS_ERR_INVALID);                                     \
        PGAS_DESCRIBE_TRY(                                                                       \
            pgas_describe_put_root(ar_, pgas_checksum_##name(), #name, sizeof #name - 1))        \
        return pgas_value_save_##name(ar_, v_);                                                  \
    }                                                                                            \
    static PGAS_UNUSED void pgas_free_##name(name##_t *v_)                                       \
    {                                                                                            \
        if (!v_)                                                                                 \
            return;                                                                              \
        pgas_value_free_##name(v_);                                                              \
        pgas_value_clear_##name(v_);                                                             \
    }                                                                                            \
    static PGAS_UNUSED void pgas_drop_##name(name##_t *v_)                                       \
    {                                                                                            \
        if (!v_)                                                                                 \
            return;                                                                              \
        pgas_value_drop_##name(v_);                                                              \
        pgas_value_clear_##name(v_);                                                             \
    }                                                                                            \
    static inline PGAS_UNUSED pgas_status_t pgas_value_root_##name(pgas_archive_t *ar_,          \
                                                                   name##_t *v_,                 \
                                                                   pgas_arena_t *arena_,         \
                                                                   bool in_place_)               \
    {                                                                                            \
        pgas_status_t status_;                                                                   \
        pgas_describe_way_t former_;                                                             \
        if (PGAS_UNLIKELY(!ar_ || !v_))                                                          \
            return (void)pgas_archive_fail(ar_, PGAS_ERR_INVALID), PGAS_ERR_INVALID;             \
        pgas_value_clear_##name(v_);                                                             \
        former_ = pgas_describe_set_way(ar_, arena_, in_place_);                                 \
        status_ = pgas_describe_get_root(ar_, pgas_checksum_##name(), #name, sizeof #name - 1);  \
        if (PGAS_LIKELY(status_ == PGAS_OK))                                                     \
            status_ = pgas_value_read_##name(ar_, v_);                                           \
        (void)pgas_describe_set_way(ar_, former_.memory, former_.in_place);                      \
        if (PGAS_LIKELY(status_ == PGAS_OK))                                                     \
            return PGAS_OK;                                                                      \
        if (in_place_ || arena_)                                                                 \
            pgas_drop_##name(v_);                                                                \
        else                                                                                     \
            pgas_free_##name(v_);                                                                \
        return status_;                                                                          \
    }                                                                                            \
    static PGAS_UNUSED pgas_status_t pgas_load_##name(pgas_archive_t *ar_, pgas_arena_t *arena_, \
                                                      name##_t *v_)                              \
    {                                                                                            \
        return pgas_value_root_##name(ar_, v_, arena_, false);                                   \
    }                                                                                            \
    static PGAS_UNUSED pgas_status_t pgas_view_##name(pgas_archive_t *ar_, name##_t *v_)         \
    {                                                                                            \
        return pgas_value_root_##name(ar_, v_, NULL, true);                                      \
    }                                                                                            \
    static PGAS_UNUSED size_t pgas_size_##name(const name##_t *v_)                               \
    {                                                                                            \
        pgas_sizer_t sizer_ = { sizeof(uint64_t) + sizeof(uint32_t) + sizeof #name - 1, 0 };     \
        if (!v_)                                                                                 \
            return 0;                                                                            \
        pgas_value_size_##name(&sizer_, v_);                                                     \
        return sizer_.stream + sizer_.chunks;                                                    \
    }                                                                                            \
    static PGAS_UNUSED void pgas_print_##name(FILE *out_, const name##_t *v_)                    \
    {                                                                                            \
        if (!out_ || !v_)                                                                        \
            return;                                                                              \
        pgas_describe_print_name(out_, 0, NULL, #name);                                          \
        pgas_value_print_##name(out_, 1, v_);                                                    \
    }

#define PGAS_DESCRIBE_FUNCTIONS(name, FIELDS)                                                   \
    enum {                                                                                      \
        pgas_fixed_##name = 0 FIELDS(PGAS_FIELD_FIXED),                                         \
        pgas_is_flat_##name =                                                                   \
            (1 FIELDS(PGAS_FIELD_FLAT)) && pgas_fixed_##name == sizeof(name##_t),               \
        pgas_behind_##name = 0 FIELDS(PGAS_FIELD_LEAST),                                        \
        pgas_least_##name = pgas_fixed_##name + pgas_behind_##name                              \
    };                                                                                          \
    PGAS_DESCRIBE_PROTOTYPES(name)                                                              \
    static inline PGAS_UNUSED pgas_status_t pgas_value_save_##name(pgas_archive_t *ar_,         \
                                                                   const name##_t *v_)          \
    {                                                                                           \
        FIELDS(PGAS_FIELD_CHECK)                                                                \
        if (pgas_is_flat_##name)                                                                \
            return pgas_archive_put(ar_, v_, sizeof(name##_t));                                 \
        if (pgas_fixed_##name > 0) {                                                            \
            char *to_ = pgas_archive_reserve(ar_, pgas_fixed_##name);                           \
            if (PGAS_UNLIKELY(!to_))                                                            \
                return ar_->status;                                                             \
            FIELDS(PGAS_FIELD_PUT)                                                              \
            (void)to_;                                                                          \
        }                                                                                       \
        FIELDS(PGAS_FIELD_SAVE)                                                                 \
        return ar_->status;                                                                     \
    }                                                                                           \
    static inline PGAS_UNUSED pgas_status_t pgas_value_read_##name(pgas_archive_t *ar_,         \
                                                                   name##_t *v_)                \
    {                                                                                           \
        if (pgas_is_flat_##name)                                                                \
            return pgas_archive_get(ar_, v_, sizeof(name##_t));                                 \
        if (pgas_fixed_##name > 0) {                                                            \
            const char *at_ = pgas_archive_consume(ar_, pgas_fixed_##name);                     \
            if (PGAS_UNLIKELY(!at_))                                                            \
                return ar_->status;                                                             \
            FIELDS(PGAS_FIELD_TAKE)                                                             \
            (void)at_;                                                                          \
        }                                                                                       \
        FIELDS(PGAS_FIELD_READ)                                                                 \
        return PGAS_OK;                                                                         \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_size_##name(pgas_sizer_t *sizer_, const name##_t *v_)    \
    {                                                                                           \
        (void)v_;                                                                               \
        sizer_->stream += pgas_fixed_##name;                                                    \
        FIELDS(PGAS_FIELD_SIZE)                                                                 \
    }                                                                                           \
    static inline PGAS_UNUSED void pgas_value_clear_##name(name##_t *v_)                        \
    {                                                                                           \
        FIELDS(PGAS_FIELD_CLEAR)                                                                \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_free_##name(name##_t *v_)                                \
    {                                                                                           \
        (void)v_;                                                                               \
        FIELDS(PGAS_FIELD_FREE)                                                                 \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_drop_##name(name##_t *v_)                                \
    {                                                                                           \
        (void)v_;                                                                               \
        FIELDS(PGAS_FIELD_DROP)                                                                 \
    }                                                                                           \
    static PGAS_UNUSED bool pgas_equal_##name(const name##_t *v_, const name##_t *w_)           \
    {                                                                                           \
        FIELDS(PGAS_FIELD_EQUAL)                                                                \
        return true;                                                                            \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_print_##name(FILE *out_, int depth_, const name##_t *v_) \
    {                                                                                           \
        FIELDS(PGAS_FIELD_PRINT)                                                                \
    }                                                                                           \
    static PGAS_UNUSED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_)                 \
    {                                                                                           \
        pgas_sum_t here_ = { #name, above_ };                                                   \
        uint64_t sum_ =                                                                         \
            pgas_describe_mix(0, "struct", #name, pgas_is_flat_##name ? sizeof(name##_t) : 0);  \
        if (pgas_describe_is_inside(&here_))                                                    \
            return sum_;                                                                        \
        FIELDS(PGAS_FIELD_SUM)                                                                  \
        return sum_;                                                                            \
    }                                                                                           \
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
            char *to_ = pgas_archive_reserve(ar_, fixed_);       \
            if (PGAS_UNLIKELY(!to_))                             \
                return ar_->status;                              \
            PGAS_FIELD_PUT(kind, __VA_ARGS__)                    \
            (void)to_;                                           \
        }                                                        \
        PGAS_FIELD_SAVE(kind, __VA_ARGS__)                       \
    } break;
#define PGAS_CASE_READ(value, kind, ...)                         \
    case (value): {                                              \
        enum { fixed_ = 0 PGAS_FIELD_FIXED(kind, __VA_ARGS__) }; \
        if (fixed_ > 0) {                                        \
            const char *at_ = pgas_archive_consume(ar_, fixed_); \
            if (PGAS_UNLIKELY(!at_))                             \
                return ar_->status;                              \
            PGAS_FIELD_TAKE(kind, __VA_ARGS__)                   \
            (void)at_;                                           \
        }                                                        \
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

#define PGAS_DESCRIBE_UNION(name, CASES)                                                       \
    __extension__ typedef union {                                                              \
        CASES(PGAS_CASE_MEMBERS)                                                               \
    } name##_t;                                                                                \
    static inline PGAS_UNUSED pgas_status_t pgas_value_save_##name(pgas_archive_t *ar_,        \
                                                                   int64_t tag_,               \
                                                                   const name##_t *v_)         \
    {                                                                                          \
        switch (tag_) {                                                                        \
            CASES(PGAS_CASE_SAVE)                                                              \
        default:                                                                               \
            break;                                                                             \
        }                                                                                      \
        return ar_->status;                                                                    \
    }                                                                                          \
    static inline PGAS_UNUSED pgas_status_t pgas_value_read_##name(pgas_archive_t *ar_,        \
                                                                   int64_t tag_, name##_t *v_) \
    {                                                                                          \
        switch (tag_) {                                                                        \
            CASES(PGAS_CASE_READ)                                                              \
        default:                                                                               \
            break;                                                                             \
        }                                                                                      \
        return PGAS_OK;                                                                        \
    }                                                                                          \
    static PGAS_UNUSED void pgas_value_size_##name(pgas_sizer_t *sizer_, int64_t tag_,         \
                                                   const name##_t *v_)                         \
    {                                                                                          \
        (void)v_;                                                                              \
        switch (tag_) {                                                                        \
            CASES(PGAS_CASE_SIZE)                                                              \
        default:                                                                               \
            break;                                                                             \
        }                                                                                      \
    }                                                                                          \
    static inline PGAS_UNUSED void pgas_value_clear_##name(name##_t *v_)                       \
    {                                                                                          \
        memset(v_, 0, sizeof *v_);                                                             \
    }                                                                                          \
    static PGAS_UNUSED void pgas_value_free_##name(int64_t tag_, name##_t *v_)                 \
    {                                                                                          \
        (void)v_;                                                                              \
        switch (tag_) {                                                                        \
            CASES(PGAS_CASE_FREE)                                                              \
        default:                                                                               \
            break;                                                                             \
        }                                                                                      \
    }                                                                                          \
    static PGAS_UNUSED void pgas_value_drop_##name(int64_t tag_, name##_t *v_)                 \
    {                                                                                          \
        (void)v_;                                                                              \
        switch (tag_) {                                                                        \
            CASES(PGAS_CASE_DROP)                                                              \
        default:                                                                               \
            break;                                                                             \
        }                                                                                      \
    }                                                                                          \
    static PGAS_UNUSED bool pgas_value_equal_##name(int64_t tag_, const name##_t *v_,          \
                                                    const name##_t *w_)                        \
    {                                                                                          \
        switch (tag_) {                                                                        \
            CASES(PGAS_CASE_EQUAL)                                                             \
        default:                                                                               \
            break;                                                                             \
        }                                                                                      \
        return true;                                                                           \
    }                                                                                          \
    static PGAS_UNUSED void pgas_value_print_##name(FILE *out_, int depth_, int64_t tag_,      \
                                                    const name##_t *v_)                        \
    {                                                                                          \
        switch (tag_) {                                                                        \
            CASES(PGAS_CASE_PRINT)                                                             \
        default:                                                                               \
            break;                                                                             \
        }                                                                                      \
    }                                                                                          \
    static PGAS_UNUSED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_)                \
    {                                                                                          \
        pgas_sum_t here_ = { #name, above_ };                                                  \
        uint64_t sum_ = pgas_describe_mix(0, "union", #name, 0);                               \
        if (pgas_describe_is_inside(&here_))                                                   \
            return sum_;                                                                       \
        CASES(PGAS_CASE_SUM)                                                                   \
        return sum_;                                                                           \
    }

/* ---- own functions ---- */

#define PGAS_DESCRIBE_OWN(name, version)                                                        \
    enum { pgas_is_flat_##name = 0, pgas_least_##name = 1 };                                    \
    PGAS_DESCRIBE_PROTOTYPES(name)                                                              \
    static inline PGAS_UNUSED pgas_status_t pgas_value_save_##name(pgas_archive_t *ar_,         \
                                                                   const name##_t *v_)          \
    {                                                                                           \
        return pgas_archive_fail(ar_, name##_save(ar_, v_));                                    \
    }                                                                                           \
    static inline PGAS_UNUSED pgas_status_t pgas_value_read_##name(pgas_archive_t *ar_,         \
                                                                   name##_t *v_)                \
    {                                                                                           \
        return pgas_archive_fail(ar_, name##_load(ar_, v_));                                    \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_size_##name(pgas_sizer_t *sizer_, const name##_t *v_)    \
    {                                                                                           \
        pgas_archive_t scratch_;                                                                \
        pgas_describe_scratch_begin(sizer_, &scratch_);                                         \
        (void)name##_save(&scratch_, v_);                                                       \
        pgas_describe_scratch_end(sizer_, &scratch_);                                           \
    }                                                                                           \
    static inline PGAS_UNUSED void pgas_value_clear_##name(name##_t *v_)                        \
    {                                                                                           \
        memset(PGAS_CAST(void *, v_), 0, sizeof *v_);                                           \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_free_##name(name##_t *v_)                                \
    {                                                                                           \
        name##_free(v_);                                                                        \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_drop_##name(name##_t *v_)                                \
    {                                                                                           \
        (void)v_;                                                                               \
    }                                                                                           \
    static PGAS_UNUSED bool pgas_equal_##name(const name##_t *v_, const name##_t *w_)           \
    {                                                                                           \
        return name##_equal(v_, w_);                                                            \
    }                                                                                           \
    static PGAS_UNUSED void pgas_value_print_##name(FILE *out_, int depth_, const name##_t *v_) \
    {                                                                                           \
        pgas_describe_print_elems(out_, depth_, "own", 'x', sizeof *v_, v_, 1, PGAS_PRINT_ONE); \
    }                                                                                           \
    static PGAS_UNUSED uint64_t pgas_value_sum_##name(const pgas_sum_t *above_)                 \
    {                                                                                           \
        (void)above_;                                                                           \
        return pgas_describe_mix(0, "own", #name, PGAS_CAST(uint64_t, version));                \
    }                                                                                           \
    PGAS_DESCRIBE_ROOT(name)

#endif
