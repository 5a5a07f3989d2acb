/* protobuf-c for pgas_serialize. Archives go to the same memory each time. */
#include "benchmarks/serialize.h"
#include "benchmarks/serialize.pb-c.h"

#include <string.h>

#define ARCHIVE_BYTES 32768

static Serialize__Record source = SERIALIZE__RECORD__INIT, *loaded;
static int64_t numbers[SERIALIZE_NUMBERS];
static ProtobufCBinaryData texts[SERIALIZE_TEXTS];
static serialize_record_t values;
static uint8_t archive[ARCHIVE_BYTES];
static size_t archive_bytes;

static void protobuf_c_open(const serialize_record_t *record)
{
    values = *record;
    memcpy(numbers, record->number, sizeof numbers);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++)
        texts[i] = (ProtobufCBinaryData){ SERIALIZE_TEXT_BYTES, (uint8_t *)(void *)values.text[i] };
    source.n_numbers = SERIALIZE_NUMBERS;
    source.numbers = numbers;
    source.n_texts = SERIALIZE_TEXTS;
    source.texts = texts;
    if (serialize__record__get_packed_size(&source) > ARCHIVE_BYTES)
        serialize_die("protobuf-c: the archive is too large");
}

static inline void protobuf_c_change(int64_t first, char last)
{
    numbers[0] = first;
    texts[SERIALIZE_TEXTS - 1].data[SERIALIZE_TEXT_BYTES - 1] = (uint8_t)last;
}

static inline void protobuf_c_save(void)
{
    archive_bytes = serialize__record__pack(&source, archive);
}

static inline void protobuf_c_load(void)
{
    if (loaded)
        serialize__record__free_unpacked(loaded, NULL);
    loaded = serialize__record__unpack(NULL, archive_bytes, archive);
    if (!loaded)
        serialize_die("protobuf-c: the archive is refused");
}

static inline bool protobuf_c_has(int64_t first, char last)
{
    return loaded->n_numbers == SERIALIZE_NUMBERS && loaded->n_texts == SERIALIZE_TEXTS &&
           loaded->numbers[0] == first &&
           loaded->texts[SERIALIZE_TEXTS - 1].data[SERIALIZE_TEXT_BYTES - 1] == (uint8_t)last;
}

static bool protobuf_c_read(serialize_record_t *record_p)
{
    if (loaded->n_numbers != SERIALIZE_NUMBERS || loaded->n_texts != SERIALIZE_TEXTS)
        return false;
    memcpy(record_p->number, loaded->numbers, sizeof record_p->number);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        if (loaded->texts[i].len != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], loaded->texts[i].data, SERIALIZE_TEXT_BYTES);
    }
    return true;
}

static size_t protobuf_c_bytes(void)
{
    return archive_bytes;
}

SERIALIZE_DEFINE(protobuf_c)
