/* msgpack-c for pgas_serialize: an array of numbers and an array of strings. A loaded record is a
 * tree of objects, whose strings point into the archive. */
#include "benchmarks/serialize.h"

#include <msgpack.h>
#include <string.h>

static serialize_record_t source;
static msgpack_sbuffer archive;
static msgpack_unpacked loaded;
static const msgpack_object *numbers, *texts;

static void msgpack_open(const serialize_record_t *record)
{
    source = *record;
    msgpack_sbuffer_init(&archive);
    msgpack_unpacked_init(&loaded);
}

static inline void msgpack_change(int64_t first, char last)
{
    source.number[0] = first;
    source.text[SERIALIZE_TEXTS - 1][SERIALIZE_TEXT_BYTES - 1] = last;
}

static inline void msgpack_save(void)
{
    msgpack_packer packer;
    msgpack_sbuffer_clear(&archive);
    msgpack_packer_init(&packer, &archive, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, 2);
    msgpack_pack_array(&packer, SERIALIZE_NUMBERS);
    for (size_t i = 0; i < SERIALIZE_NUMBERS; i++)
        msgpack_pack_int64(&packer, source.number[i]);
    msgpack_pack_array(&packer, SERIALIZE_TEXTS);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        msgpack_pack_bin(&packer, SERIALIZE_TEXT_BYTES);
        msgpack_pack_bin_body(&packer, source.text[i], SERIALIZE_TEXT_BYTES);
    }
}

static inline bool is_array(const msgpack_object *object, uint32_t n)
{
    return object->type == MSGPACK_OBJECT_ARRAY && object->via.array.size == n;
}

static inline void msgpack_load(void)
{
    size_t at = 0;
    const msgpack_object *parts;
    if (msgpack_unpack_next(&loaded, archive.data, archive.size, &at) != MSGPACK_UNPACK_SUCCESS ||
        !is_array(&loaded.data, 2))
        serialize_die("msgpack-c: the archive is refused");
    parts = loaded.data.via.array.ptr;
    if (!is_array(&parts[0], SERIALIZE_NUMBERS) || !is_array(&parts[1], SERIALIZE_TEXTS))
        serialize_die("msgpack-c: not this record");
    numbers = parts[0].via.array.ptr;
    texts = parts[1].via.array.ptr;
}

static inline bool msgpack_has(int64_t first, char last)
{
    return numbers[0].via.i64 == first &&
           texts[SERIALIZE_TEXTS - 1].via.bin.ptr[SERIALIZE_TEXT_BYTES - 1] == last;
}

static bool msgpack_read(serialize_record_t *record_p)
{
    for (size_t i = 0; i < SERIALIZE_NUMBERS; i++)
        record_p->number[i] = numbers[i].via.i64;
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        if (texts[i].type != MSGPACK_OBJECT_BIN || texts[i].via.bin.size != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], texts[i].via.bin.ptr, SERIALIZE_TEXT_BYTES);
    }
    return true;
}

static size_t msgpack_bytes(void)
{
    return archive.size;
}

SERIALIZE_DEFINE(msgpack)
