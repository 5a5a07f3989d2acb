/* Keys of tests of key-value stores, a name and a number such as "many:17"; and single items. */
#ifndef T_SPMD_KVS_KEYS_H
#define T_SPMD_KVS_KEYS_H

#include "pgas/kvs.h"
#include "t/spmd/array_crew.h"

#define KEY_BYTES 24

/* Writes a key, and zeros behind it. */
static inline char *key_of(char key[32], const char *name, int number)
{
    memset(key, 0, 32);
    snprintf(key, KEY_BYTES, "%s:%d", name, number);
    return key;
}

/* The number of a key with this name; -1 if it has another name. */
static inline int number_of(const char *name, const pgas_kvs_item_t *item)
{
    const char *key = item->key;
    size_t n = strlen(name);
    if (item->key_bytes != KEY_BYTES || memcmp(key, name, n) != 0 || key[n] != ':')
        return -1;
    return atoi(key + n + 1);
}

static inline pgas_kvs_item_t item_of(const char *key, pgas_kvs_op_t op, void *value, size_t bytes)
{
    return (pgas_kvs_item_t){ .key = key,
                              .key_bytes = KEY_BYTES,
                              .op = op,
                              .value = value,
                              .value_bytes = bytes,
                              .capacity = bytes };
}

static inline pgas_status_t run_one(pgas_kvs_t *kvs, pgas_kvs_item_t *item)
{
    pgas_status_t status = pgas_kvs_run(kvs, item, 1, NULL);
    crew_judge(status == item->status, "the status of a run of one item");
    return status;
}

typedef struct {
    const char *key;
    bool found;
} wanted_key_t;

static inline bool is_wanted_key(const pgas_kvs_item_t *item, void *arg)
{
    wanted_key_t *wanted = arg;
    wanted->found = wanted->found || (item->key_bytes == KEY_BYTES &&
                                      memcmp(item->key, wanted->key, KEY_BYTES) == 0);
    return !wanted->found;
}

/* The rank whose part has the key; -1: none. */
static inline int home_of(pgas_kvs_t *kvs, const char *key)
{
    wanted_key_t wanted = { key, false };
    for (int r = 0; r < n_ranks; r++) {
        uint64_t cursor = 0;
        if (pgas_kvs_scan(kvs, r, &cursor, SIZE_MAX, is_wanted_key, &wanted) == PGAS_OK &&
            wanted.found)
            return r;
    }
    return -1;
}

#endif
