/* Records of the store's files as bytes. See record.h. */
#include "kvs/record.h"
#include <string.h>
#include "base/checks.h"
#include "pgas/kvs.h"

#define HEAD_BYTES 12
#define EXPIRES    (UINT32_C(1) << 30)
#define DELETED    (UINT32_C(1) << 31)

PGASI_STATIC_ASSERT(PGAS_KVS_KEY_MAX == 65536, "key_bytes - 1 has 16 bits");
PGASI_STATIC_ASSERT(PGAS_KVS_VALUE_MAX < EXPIRES, "value_bytes has 30 bits");

size_t pgasi_kvs_record_bytes(const pgasi_kvs_record_t *record)
{
    return HEAD_BYTES + (record->expires_ms != 0 ? sizeof record->expires_ms : 0) +
           record->key_bytes + record->value_bytes;
}

unsigned char *pgasi_kvs_record_encode(const pgasi_kvs_record_t *record, unsigned char *at)
{
    uint64_t first = record->version << 16 | (uint64_t)(record->key_bytes - 1);
    uint32_t second = (uint32_t)record->value_bytes | (record->expires_ms != 0 ? EXPIRES : 0) |
                      (record->deleted ? DELETED : 0);
    memcpy(at, &first, sizeof first);
    memcpy(at + sizeof first, &second, sizeof second);
    at += HEAD_BYTES;
    if (record->expires_ms != 0) {
        memcpy(at, &record->expires_ms, sizeof record->expires_ms);
        at += sizeof record->expires_ms;
    }
    memcpy(at, record->key, record->key_bytes);
    at += record->key_bytes;
    if (record->value_bytes > 0)
        memcpy(at, record->value, record->value_bytes);
    return at + record->value_bytes;
}

size_t pgasi_kvs_record_decode(const unsigned char *at, size_t n, pgasi_kvs_record_t *record)
{
    uint64_t first;
    uint32_t second;
    if (n < HEAD_BYTES)
        return 0;
    memcpy(&first, at, sizeof first);
    memcpy(&second, at + sizeof first, sizeof second);
    size_t head_bytes = HEAD_BYTES;
    record->expires_ms = 0;
    if (second & EXPIRES) {
        if (n < HEAD_BYTES + sizeof record->expires_ms)
            return 0;
        memcpy(&record->expires_ms, at + HEAD_BYTES, sizeof record->expires_ms);
        head_bytes += sizeof record->expires_ms;
        if (record->expires_ms == 0)
            return 0;
    }
    record->version = first >> 16;
    record->key_bytes = (size_t)(first & 0xffff) + 1;
    record->value_bytes = second & (EXPIRES - 1);
    record->deleted = (second & DELETED) != 0;
    record->key = at + head_bytes;
    record->value = at + head_bytes + record->key_bytes;
    bool good = record->value_bytes <= PGAS_KVS_VALUE_MAX &&
                !(record->deleted && record->value_bytes > 0) &&
                n - head_bytes >= record->key_bytes + record->value_bytes;
    return good ? head_bytes + record->key_bytes + record->value_bytes : 0;
}
