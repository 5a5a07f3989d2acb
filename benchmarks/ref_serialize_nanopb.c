/* nanopb for pgas_serialize. The structure has room for all elements, so nothing is allocated. */
#include "benchmarks/serialize.h"
#include "benchmarks/serialize.pb.h"

#include <pb_decode.h>
#include <pb_encode.h>
#include <string.h>

#define ARCHIVE_BYTES 32768

static serialize_Record source, loaded;
static uint8_t archive[ARCHIVE_BYTES];
static size_t archive_bytes;

static void nanopb_open(const serialize_record_t *record)
{
    source.numbers_count = SERIALIZE_NUMBERS;
    memcpy(source.numbers, record->number, sizeof record->number);
    source.texts_count = SERIALIZE_TEXTS;
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        source.texts[i].size = SERIALIZE_TEXT_BYTES;
        memcpy(source.texts[i].bytes, record->text[i], SERIALIZE_TEXT_BYTES);
    }
}

static inline void nanopb_change(int64_t first, char last)
{
    source.numbers[0] = first;
    source.texts[SERIALIZE_TEXTS - 1].bytes[SERIALIZE_TEXT_BYTES - 1] = (uint8_t)last;
}

static inline void nanopb_save(void)
{
    pb_ostream_t stream = pb_ostream_from_buffer(archive, ARCHIVE_BYTES);
    if (!pb_encode(&stream, serialize_Record_fields, &source))
        serialize_die("nanopb: the record is refused");
    archive_bytes = stream.bytes_written;
}

static inline void nanopb_load(void)
{
    pb_istream_t stream = pb_istream_from_buffer(archive, archive_bytes);
    if (!pb_decode(&stream, serialize_Record_fields, &loaded))
        serialize_die("nanopb: the archive is refused");
}

static inline bool nanopb_has(int64_t first, char last)
{
    return loaded.numbers_count == SERIALIZE_NUMBERS && loaded.texts_count == SERIALIZE_TEXTS &&
           loaded.numbers[0] == first &&
           loaded.texts[SERIALIZE_TEXTS - 1].bytes[SERIALIZE_TEXT_BYTES - 1] == (uint8_t)last;
}

static bool nanopb_read(serialize_record_t *record_p)
{
    if (loaded.numbers_count != SERIALIZE_NUMBERS || loaded.texts_count != SERIALIZE_TEXTS)
        return false;
    memcpy(record_p->number, loaded.numbers, sizeof record_p->number);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        if (loaded.texts[i].size != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], loaded.texts[i].bytes, SERIALIZE_TEXT_BYTES);
    }
    return true;
}

static size_t nanopb_bytes(void)
{
    return archive_bytes;
}

SERIALIZE_DEFINE(nanopb)
