/** The kinds of fields of pgas/describe.h: for each pass and kind, the code of one field.
 *
 *  A pass is one expansion of the list of fields, for one function or constant. PGAS_FIELD_pass
 *  looks up the kind, so that only one pass reports a kind that does not exist, and expands to the
 *  macro of this pass and kind, for example PGAS_SAVE_VECTOR_FIELD. pgas/detail/describe.h
 *  explains the names that end in an underscore. */
#ifndef PGAS_DETAIL_DESCRIBE_KINDS_H
#define PGAS_DETAIL_DESCRIBE_KINDS_H

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

/* Checks a constant condition inside a function. The compiler's message shows `what`. */
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

/* Expands to its second argument: the kind, or NO_FIELD for a kind that is not defined above. */
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

#define PGAS_COUNT_MAX(count) PGAS_CAST(size_t, PGAS_CAST(__typeof__(count), -1))

/* The members of a field. Only this pass and KIND report a kind that does not exist. */
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

/* This pass only reports a kind that does not exist, as the pass MEMBERS does. */
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

/* 1 if a field is copied as bytes, otherwise 0. */
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
#define PGAS_LEAST_STRUCT_FIELD(name, member)        +(pgas_is_flat_##name ? 0 : +pgas_least_##name)
#define PGAS_LEAST_STRUCT_ARRAY_FIELD(name, member, n_elems) \
    +(pgas_is_flat_##name ? 0 : (n_elems)*pgas_least_##name)
#define PGAS_LEAST_STRUCT_VECTOR_FIELD(name, member, count) +4
#define PGAS_LEAST_STRUCT_OPTIONAL_FIELD(name, member)      +4
#define PGAS_LEAST_UNION_FIELD(...)
#define PGAS_LEAST_OBJECT_FIELD(member)           +4
#define PGAS_LEAST_RMA_VECTOR_FIELD(name, member) +4
#define PGAS_LEAST_NO_FIELD(...)

/* Checks of a description. */
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

/* The other fields: writing. */
#define PGAS_SAVE_SCALAR_FIELD(...)
#define PGAS_SAVE_ARRAY_FIELD(...)
#define PGAS_SAVE_STRING_FIELD(member)                    \
    to_ = pgas_describe_put_string(ar_, to_, v_->member); \
    if (PGAS_UNLIKELY(!to_))                              \
        return NULL;
#define PGAS_SAVE_VECTOR_FIELD(type, member, count)                                                \
    {                                                                                              \
        const type *from_ = v_->member;                                                            \
        to_ =                                                                                      \
            pgas_describe_put_vector(ar_, to_, from_, PGAS_CAST(size_t, v_->count), sizeof(type)); \
        if (PGAS_UNLIKELY(!to_))                                                                   \
            return NULL;                                                                           \
    }
#define PGAS_SAVE_OPTIONAL_FIELD(type, member)                                        \
    {                                                                                 \
        const type *from_ = v_->member;                                               \
        to_ = pgas_describe_put_vector(ar_, to_, from_, from_ ? 1 : 0, sizeof(type)); \
        if (PGAS_UNLIKELY(!to_))                                                      \
            return NULL;                                                              \
    }
#define PGAS_SAVE_STRUCT_FIELD(name, member)                 \
    if (!pgas_is_flat_##name) {                              \
        to_ = pgas_value_save_##name(ar_, to_, &v_->member); \
        if (PGAS_UNLIKELY(!to_))                             \
            return NULL;                                     \
    }
#define PGAS_SAVE_STRUCT_ARRAY_FIELD(name, member, n_elems)           \
    if (!pgas_is_flat_##name) {                                       \
        to_ = pgas_values_save_##name(ar_, to_, v_->member, n_elems); \
        if (PGAS_UNLIKELY(!to_))                                      \
            return NULL;                                              \
    }
#define PGAS_SAVE_STRUCT_VECTOR_FIELD(name, member, count)                             \
    to_ = pgas_vector_save_##name(ar_, to_, v_->member, PGAS_CAST(size_t, v_->count)); \
    if (PGAS_UNLIKELY(!to_))                                                           \
        return NULL;
#define PGAS_SAVE_STRUCT_OPTIONAL_FIELD(name, member)                        \
    to_ = pgas_vector_save_##name(ar_, to_, v_->member, v_->member ? 1 : 0); \
    if (PGAS_UNLIKELY(!to_))                                                 \
        return NULL;
#define PGAS_SAVE_UNION_FIELD(name, member, tag)                                      \
    to_ = pgas_value_save_##name(ar_, to_, PGAS_CAST(int64_t, v_->tag), &v_->member); \
    if (PGAS_UNLIKELY(!to_))                                                          \
        return NULL;
#define PGAS_SAVE_OBJECT_FIELD(member)                                                        \
    to_ = pgas_describe_put_object(ar_, to_, v_->member, v_->member ? v_->member->bytes : 0); \
    if (PGAS_UNLIKELY(!to_))                                                                  \
        return NULL;
#define PGAS_SAVE_RMA_VECTOR_FIELD(name, member)                                             \
    to_ = pgas_describe_put_object(ar_, to_, v_->member.vector.object,                       \
                                   v_->member.vector.n * sizeof(*name##_data(&v_->member))); \
    if (PGAS_UNLIKELY(!to_))                                                                 \
        return NULL;
#define PGAS_SAVE_NO_FIELD(...)

/* The other fields: reading. The value has allocated memory at once, so that it can be freed after
 * an error. */
#define PGAS_READ_SCALAR_FIELD(...)
#define PGAS_READ_ARRAY_FIELD(...)
#define PGAS_READ_STRING_FIELD(member)                     \
    at_ = pgas_describe_get_string(ar_, at_, &v_->member); \
    if (PGAS_UNLIKELY(!at_))                               \
        return NULL;
#define PGAS_READ_VECTOR_FIELD(type, member, count)                                               \
    {                                                                                             \
        void *data_ = NULL;                                                                       \
        size_t n_ = 0;                                                                            \
        at_ = pgas_describe_get_vector(ar_, at_, sizeof(type), PGAS_COUNT_MAX(v_->count), &data_, \
                                       &n_);                                                      \
        if (PGAS_UNLIKELY(!at_))                                                                  \
            return NULL;                                                                          \
        v_->member = PGAS_CAST(type *, data_);                                                    \
        v_->count = PGAS_CAST(__typeof__(v_->count), n_);                                         \
    }
#define PGAS_READ_OPTIONAL_FIELD(type, member)                                  \
    {                                                                           \
        void *data_ = NULL;                                                     \
        size_t n_ = 0;                                                          \
        at_ = pgas_describe_get_vector(ar_, at_, sizeof(type), 1, &data_, &n_); \
        if (PGAS_UNLIKELY(!at_))                                                \
            return NULL;                                                        \
        v_->member = PGAS_CAST(type *, data_);                                  \
    }
#define PGAS_READ_STRUCT_FIELD(name, member)                 \
    if (!pgas_is_flat_##name) {                              \
        at_ = pgas_value_read_##name(ar_, at_, &v_->member); \
        if (PGAS_UNLIKELY(!at_))                             \
            return NULL;                                     \
    }
#define PGAS_READ_STRUCT_ARRAY_FIELD(name, member, n_elems)           \
    if (!pgas_is_flat_##name) {                                       \
        at_ = pgas_values_read_##name(ar_, at_, v_->member, n_elems); \
        if (PGAS_UNLIKELY(!at_))                                      \
            return NULL;                                              \
    }
#define PGAS_READ_STRUCT_VECTOR_FIELD(name, member, count)                               \
    {                                                                                    \
        name##_t *data_ = NULL;                                                          \
        size_t n_ = 0;                                                                   \
        at_ = pgas_vector_read_##name(ar_, at_, PGAS_COUNT_MAX(v_->count), &data_, &n_); \
        v_->member = data_;                                                              \
        v_->count = PGAS_CAST(__typeof__(v_->count), n_);                                \
        if (PGAS_UNLIKELY(!at_))                                                         \
            return NULL;                                                                 \
    }
#define PGAS_READ_STRUCT_OPTIONAL_FIELD(name, member)            \
    {                                                            \
        name##_t *data_ = NULL;                                  \
        size_t n_ = 0;                                           \
        at_ = pgas_vector_read_##name(ar_, at_, 1, &data_, &n_); \
        v_->member = data_;                                      \
        if (PGAS_UNLIKELY(!at_))                                 \
            return NULL;                                         \
    }
#define PGAS_READ_UNION_FIELD(name, member, tag)                                      \
    at_ = pgas_value_read_##name(ar_, at_, PGAS_CAST(int64_t, v_->tag), &v_->member); \
    if (PGAS_UNLIKELY(!at_))                                                          \
        return NULL;
#define PGAS_READ_OBJECT_FIELD(member)                     \
    at_ = pgas_describe_get_object(ar_, at_, &v_->member); \
    if (PGAS_UNLIKELY(!at_))                               \
        return NULL;
#define PGAS_READ_RMA_VECTOR_FIELD(name, member)                                    \
    at_ = pgas_describe_get_rma_vector(ar_, at_, sizeof(*name##_data(&v_->member)), \
                                       &v_->member.vector);                         \
    if (PGAS_UNLIKELY(!at_))                                                        \
        return NULL;
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

/* Compares a field of v_ and w_. */
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

/* The checksum. text is the list of arguments as the program has written it. */
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

#endif
