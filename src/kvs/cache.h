/** A rank's copies of keys of other nodes.
 *
 *  The copies are in a ring: a new one is written behind the last one, over the oldest ones. A
 *  table finds them by hash. A copy is valid while the stamp of its bucket is the one that it was
 *  stored with. Any thread looks up without a lock. One thread at a time stores. */
#ifndef PGASI_KVS_CACHE_H
#define PGASI_KVS_CACHE_H

#include "kvs/part.h"

typedef struct pgasi_kvs_cache pgasi_kvs_cache_t;

/** @return NULL: no memory */
pgasi_kvs_cache_t *pgasi_kvs_cache_create(size_t bytes);
void pgasi_kvs_cache_destroy(pgasi_kvs_cache_t *cache);

/** GET of an item: sets value, value_bytes, version and expires_ms.
 *  @return PGAS_OK, PGAS_ERR_RANGE; PGAS_INPROGRESS: there is no valid copy */
pgas_status_t pgasi_kvs_cache_get(pgasi_kvs_cache_t *cache, const pgasi_key_t *key, uint64_t stamp,
                                  pgas_kvs_item_t *item);

/** Stores a copy of an item's value. It stores nothing if the value is large, or if another thread
 *  stores. A full ring also refuses a key that comes for the first time. */
void pgasi_kvs_cache_put(pgasi_kvs_cache_t *cache, const pgasi_key_t *key, uint64_t stamp,
                         const pgas_kvs_item_t *item);

#endif
