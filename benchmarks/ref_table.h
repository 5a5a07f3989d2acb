/** A bare hash table: the limit for one thread that stores 8-byte keys and short values.
 *
 *  Open addressing with linear probing. A slot has a key and its value, so a key that is found
 *  costs one or two lines of memory. Nothing is locked, deleted or grown. It is fixed: never make
 *  it slower in order to look better. */
#ifndef REF_TABLE_H
#define REF_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REF_TABLE_AHEAD 20 /* slots of ref_table_get_many that are on their way from memory */

typedef struct ref_table ref_table_t;

/** value_bytes: 8 or 64. At most three quarters of the slots are full with n_keys keys. `memory`:
 *  ref_table_bytes(n_keys, value_bytes) bytes for the slots, which the caller frees; NULL: the
 *  table has its own, in huge pages.
 *  @return the table; the program ends when there is no memory */
ref_table_t *ref_table_create(uint64_t n_keys, size_t value_bytes, void *memory);
void ref_table_destroy(ref_table_t *table);
size_t ref_table_bytes(uint64_t n_keys, size_t value_bytes);

/** Keys are any numbers but UINT64_MAX. @return false: the table is full */
bool ref_table_put(ref_table_t *table, uint64_t key, const void *value);
/** Copies the value. @return false: there is no such key */
bool ref_table_get(const ref_table_t *table, uint64_t key, void *value);
/** Gets n keys, the values one after the other. @return how many exist */
uint64_t ref_table_get_many(const ref_table_t *table, const uint64_t *key, uint64_t n,
                            void *values);
/** Copies up to n values from slot *cursor_p on. @return how many. *cursor_p is 0 at the end */
uint64_t ref_table_scan(const ref_table_t *table, uint64_t *cursor_p, uint64_t n, void *values);

#endif
