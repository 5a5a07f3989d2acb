/** One record of a log or of a snapshot: the state of a key after a write. Pure functions between
 *  records and bytes.
 *
 *      bytes   what
 *      8       version << 16 | (key_bytes - 1)
 *      4       value_bytes | expires << 30 | deleted << 31
 *      8       expires_ms, if `expires` is set
 *              the key, then the value
 *
 *  Words are in the byte order of the machine. Nothing is aligned. A record has no checksum; the
 *  block around it has one (block.h).
 *
 *  The state of a key is the record with the highest version, in whatever file it is. So the order
 *  of records does not matter. */
#ifndef PGASI_KVS_RECORD_H
#define PGASI_KVS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

#define PGASI_KVS_VERSION_MAX ((UINT64_C(1) << 48) - 1)

typedef struct {
    const void *key;
    size_t key_bytes; /* 1 to PGAS_KVS_KEY_MAX */
    const void *value;
    size_t value_bytes; /* 0 if deleted */
    uint64_t version;   /* at most PGASI_KVS_VERSION_MAX */
    int64_t expires_ms; /* 0: the key does not expire */
    bool deleted;
} pgasi_kvs_record_t;

/** Takes one record, which is valid until it returns. Another status than PGAS_OK ends the walk. */
typedef pgas_status_t (*pgasi_kvs_record_fn_t)(const pgasi_kvs_record_t *record, void *arg);

/** The number of bytes of an encoded record. */
size_t pgasi_kvs_record_bytes(const pgasi_kvs_record_t *record);

/** Encodes a record. @return the end of the bytes */
unsigned char *pgasi_kvs_record_encode(const pgasi_kvs_record_t *record, unsigned char *at);

/** Decodes the record at the begin of n bytes. Its key and value are pointers into them.
 *  @return the bytes of the record; 0: they are no record, *record is undefined */
size_t pgasi_kvs_record_decode(const unsigned char *at, size_t n, pgasi_kvs_record_t *record);

#endif
