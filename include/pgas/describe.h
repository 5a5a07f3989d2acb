/** A description is a list of the fields of a C structure. Macros make functions of it that save,
 *  load, measure, free, compare and print values.
 *
 *      #define BODY_FIELDS(F)                  \
 *          F(SCALAR, int64_t, id)              \
 *          F(ARRAY, double, position, 3)       \
 *          F(STRING, name)                     \
 *          F(VECTOR, double, history, n_history)
 *      PGAS_STRUCT(body, BODY_FIELDS)          defines body_t and the functions
 *
 *      pgas_save_body(&archive, &sun);
 *      pgas_load_body(&archive, NULL, &copy);  memory of malloc
 *      pgas_free_body(&copy);
 *
 *  These are the fields, and the members that they declare:
 *  | field                                   | members                       | value             |
 *  | F(SCALAR, type, member)                 | type member                   | its bytes         |
 *  | F(ARRAY, type, member, n)               | type member[n]                | their bytes       |
 *  | F(STRING, member)                       | char *member                  | string, or NULL   |
 *  | F(VECTOR, type, member, count)          | type *member; size_t count    | count elements    |
 *  | F(OPTIONAL, type, member)               | type *member                  | one, or NULL      |
 *  | F(STRUCT, name, member)                 | name_t member                 | described         |
 *  | F(STRUCT_ARRAY, name, member, n)        | name_t member[n]              | n described       |
 *  | F(STRUCT_VECTOR, name, member, count)   | name_t *member; size_t count  | count described   |
 *  | F(STRUCT_OPTIONAL, name, member)        | name_t *member                | one, or NULL      |
 *  | F(UNION, name, member, tag)             | name_t member                 | the tag's case    |
 *  | F(OBJECT, member)                       | pgas_rma_object_t *member     | shared, or NULL   |
 *  | F(RMA_VECTOR, name, member)             | name_t member                 | shared            |
 *  In SCALAR, ARRAY, VECTOR and OPTIONAL, type is one word. It names a type that is copied as
 *  bytes: a number, an enumeration, or a structure without pointers. `VECTOR, char` or `VECTOR,
 *  uint8_t` is a counted string or opaque bytes. A tag is an integer SCALAR in front of its union.
 *
 *  A structure without padding whose fields are all copied as bytes is copied as one block. So is a
 *  vector of such structures. The constant pgas_is_flat_NAME is true for them.
 *
 *  PGAS_STRUCT(name, FIELDS) defines these, as static functions:
 *      pgas_status_t pgas_save_NAME(pgas_archive_t *archive, const NAME_t *value);
 *      pgas_status_t pgas_load_NAME(pgas_archive_t *archive, pgas_arena_t *arena, NAME_t *value_p);
 *          Memory comes from the arena. If arena is NULL, it comes from malloc, and pgas_free_NAME
 *          frees it. After an error *value_p is empty.
 *      pgas_status_t pgas_view_NAME(pgas_archive_t *archive, NAME_t *value_p);
 *          Vectors and strings of the value point into the archive. They are valid until it is
 *          freed.
 *      void pgas_drop_NAME(NAME_t *value);
 *          Releases the objects and RMA vectors of a value that was viewed or loaded into an arena.
 *          The program calls it before it frees the archive or clears the arena.
 *      void pgas_free_NAME(NAME_t *value);    frees a value of malloc, which is then empty
 *      size_t pgas_size_NAME(const NAME_t *value);       bytes of the stream and chunks,
 *          with the default threshold, if the value is the first one of its archive
 *      bool pgas_equal_NAME(const NAME_t *a, const NAME_t *b);   numbers by their bytes
 *      void pgas_print_NAME(FILE *out, const NAME_t *value);     one line for each field
 *      uint64_t pgas_checksum_NAME(void);                of the description
 *  pgas_save_NAME writes the checksum and the name first. To read a value of another description
 *  returns PGAS_ERR_MISMATCH, and the log names both descriptions.
 *
 *  Statuses are those of pgas/archive.h. A structure may contain itself by STRUCT_VECTOR or
 *  STRUCT_OPTIONAL, at most PGAS_ARCHIVE_DEPTH deep. Two pointers to one value are saved as two
 *  values.
 *
 *  Source: boost.serialization and HPX serialize(ar, version), as X-macros instead of templates. */
#ifndef PGAS_DESCRIBE_H
#define PGAS_DESCRIBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "pgas/archive.h"

#include "pgas/detail/describe.h"

/** Defines NAME_t and its functions. */
#define PGAS_STRUCT(name, FIELDS)       \
    PGAS_DESCRIBE_DECLARE(name, FIELDS) \
    PGAS_DESCRIBE_FUNCTIONS(name, FIELDS)
/** Defines only the functions, for a NAME_t that the program has defined. Its members have the
 *  types of the table; counts may have any unsigned type. Loading does not change members that are
 *  not listed. */
#define PGAS_DESCRIBE(name, FIELDS) \
    PGAS_DESCRIBE_KINDS(name, FIELDS) PGAS_DESCRIBE_FUNCTIONS(name, FIELDS)

/** Defines a union NAME_t and its functions. CASES(C) lists C(tag value, field..), for example
 *  C(1, SCALAR, double, radius) C(2, STRUCT, box, box). A tag value without a case has no data. */
#define PGAS_UNION(name, CASES) PGAS_DESCRIBE_UNION(name, CASES)

/** Declares NAME_t as a described name. The program writes its functions:
 *      pgas_status_t NAME_save(pgas_archive_t *archive, const NAME_t *value);
 *          It writes at least one byte. Memory that it passes to pgas_archive_put_vector must exist
 *          as long as the archive is used. pgas_archive_put copies memory that ends earlier.
 *      pgas_status_t NAME_load(pgas_archive_t *archive, NAME_t *value);
 *          *value is zero at first. It allocates by pgas_archive_alloc, and checks what it reads.
 *      void NAME_free(NAME_t *value);
 *          It frees what came from malloc, also of zeros and after an error of NAME_load. Views and
 *          values in an arena never call it, so NAME_load must not keep objects.
 *      bool NAME_equal(const NAME_t *a, const NAME_t *b);
 *  version is an integer of the program. It is in the checksum: change it with the format. */
#define PGAS_OWN(name, version) PGAS_DESCRIBE_OWN(name, version)

#endif
