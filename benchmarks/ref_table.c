/* A bare hash table, see ref_table.h. Slots hold the key plus 1, so that 0 is an empty slot. Loops
 * are expanded for both sizes of values, so that values are copied by a few instructions. */
#include "benchmarks/ref_table.h"
#include "benchmarks/bench.h"

#include <stdlib.h>
#include <string.h>

struct ref_table {
    char *slots;
    uint64_t mask; /* the number of slots less 1 */
    int shift;     /* of a hash */
    size_t value_bytes, slot_bytes;
    uint64_t n_keys;
    bool owns;
};

static int slot_bits(uint64_t n_keys)
{
    int bits = 6;
    while (n_keys * 4 > (UINT64_C(3) << bits))
        bits++;
    return bits;
}

size_t ref_table_bytes(uint64_t n_keys, size_t value_bytes)
{
    return (sizeof(uint64_t) + value_bytes) << slot_bits(n_keys);
}

ref_table_t *ref_table_create(uint64_t n_keys, size_t value_bytes, void *memory)
{
    ref_table_t *table = calloc(1, sizeof *table);
    size_t bytes = ref_table_bytes(n_keys, value_bytes);
    if (!table)
        bench_die("out of memory");
    table->value_bytes = value_bytes;
    table->slot_bytes = sizeof(uint64_t) + value_bytes;
    table->mask = (UINT64_C(1) << slot_bits(n_keys)) - 1;
    table->shift = 64 - slot_bits(n_keys);
    table->owns = memory == NULL;
    table->slots = memory ? memset(memory, 0, bytes) : bench_table(bytes);
    return table;
}

void ref_table_destroy(ref_table_t *table)
{
    if (table && table->owns)
        free(table->slots);
    free(table);
}

/* A product and the xor of its halves mix all bits of a key into all bits of the hash. */
static inline uint64_t first_slot(const ref_table_t *table, uint64_t stored)
{
    bench_wide_t product = (bench_wide_t)stored * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t mixed = (uint64_t)(product >> 64) ^ (uint64_t)product;
    return (mixed * UINT64_C(0xd6e8feb86659fd93)) >> table->shift;
}

/* The slot of a key, or the empty one where it belongs. */
PGAS_INLINE char *find(const ref_table_t *table, uint64_t slot, uint64_t stored, size_t bytes)
{
    for (;; slot = (slot + 1) & table->mask) {
        char *at = table->slots + slot * (sizeof stored + bytes);
        uint64_t is;
        memcpy(&is, at, sizeof is);
        if (is == stored || is == 0)
            return at;
    }
}

PGAS_INLINE bool copy_value(const char *at, void *value, size_t bytes)
{
    uint64_t is;
    memcpy(&is, at, sizeof is);
    if (is != 0)
        memcpy(value, at + sizeof is, bytes);
    return is != 0;
}

PGAS_INLINE bool get(const ref_table_t *table, uint64_t key, void *value, size_t bytes)
{
    return copy_value(find(table, first_slot(table, key + 1), key + 1, bytes), value, bytes);
}

bool ref_table_get(const ref_table_t *table, uint64_t key, void *value)
{
    return table->value_bytes == 8 ? get(table, key, value, 8) : get(table, key, value, 64);
}

bool ref_table_put(ref_table_t *table, uint64_t key, const void *value)
{
    uint64_t stored = key + 1, is;
    char *at = find(table, first_slot(table, stored), stored, table->value_bytes);
    memcpy(&is, at, sizeof is);
    if (is == 0 && table->n_keys == table->mask)
        return false;
    table->n_keys += is == 0;
    memcpy(at, &stored, sizeof stored);
    if (table->value_bytes == 8)
        memcpy(at + sizeof stored, value, 8);
    else
        memcpy(at + sizeof stored, value, 64);
    return true;
}

/* ---- many keys ---- */

PGAS_INLINE void fetch(const ref_table_t *table, uint64_t slot, size_t bytes)
{
    const char *at = table->slots + slot * (sizeof slot + bytes);
    __builtin_prefetch(at);
    if (bytes > 8)
        __builtin_prefetch(at + bytes);
}

PGAS_INLINE uint64_t get_many(const ref_table_t *table, const uint64_t *key, uint64_t n,
                              char *values, size_t bytes)
{
    uint64_t slot[REF_TABLE_AHEAD], n_found = 0, ahead = n < REF_TABLE_AHEAD ? n : REF_TABLE_AHEAD;
    uint64_t in = 0; /* i modulo REF_TABLE_AHEAD */
    for (uint64_t i = 0; i < ahead; i++) {
        slot[i] = first_slot(table, key[i] + 1);
        fetch(table, slot[i], bytes);
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t here = slot[in];
        if (i + REF_TABLE_AHEAD < n) {
            slot[in] = first_slot(table, key[i + REF_TABLE_AHEAD] + 1);
            fetch(table, slot[in], bytes);
        }
        in = in + 1 == REF_TABLE_AHEAD ? 0 : in + 1;
        n_found += copy_value(find(table, here, key[i] + 1, bytes), values + i * bytes, bytes);
    }
    return n_found;
}

uint64_t ref_table_get_many(const ref_table_t *table, const uint64_t *key, uint64_t n, void *values)
{
    return table->value_bytes == 8 ? get_many(table, key, n, values, 8)
                                   : get_many(table, key, n, values, 64);
}

uint64_t ref_table_scan(const ref_table_t *table, uint64_t *cursor_p, uint64_t n, void *values)
{
    uint64_t slot = *cursor_p, n_found = 0;
    size_t bytes = table->value_bytes;
    for (; slot <= table->mask && n_found < n; slot++)
        n_found += copy_value(table->slots + slot * table->slot_bytes,
                              (char *)values + n_found * bytes, bytes);
    *cursor_p = slot > table->mask ? 0 : slot;
    return n_found;
}
