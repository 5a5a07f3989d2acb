/* libcbor for pgas_serialize: an array of numbers and an array of strings. Its encoder writes into
 * the archive directly. A loaded record is a tree of items. */
#include "benchmarks/serialize.h"

#include <cbor.h>
#include <string.h>

#define ARCHIVE_BYTES 32768

static serialize_record_t source;
static unsigned char archive[ARCHIVE_BYTES];
static size_t archive_bytes;
static cbor_item_t *loaded, **numbers, **texts;

static void libcbor_open(const serialize_record_t *record)
{
    source = *record;
}

static inline void libcbor_change(int64_t first, char last)
{
    source.number[0] = first;
    source.text[SERIALIZE_TEXTS - 1][SERIALIZE_TEXT_BYTES - 1] = last;
}

/* CBOR has -1 - n for a negative number. */
static inline size_t write_number(int64_t number, unsigned char *at, size_t left)
{
    return number < 0 ? cbor_encode_negint((uint64_t)~number, at, left)
                      : cbor_encode_uint((uint64_t)number, at, left);
}

static inline int64_t read_number(const cbor_item_t *item)
{
    uint64_t word = cbor_get_int(item);
    return (int64_t)(cbor_isa_negint(item) ? ~word : word);
}

static inline void libcbor_save(void)
{
    unsigned char *at = archive, *end = archive + ARCHIVE_BYTES;
    at += cbor_encode_array_start(2, at, (size_t)(end - at));
    at += cbor_encode_array_start(SERIALIZE_NUMBERS, at, (size_t)(end - at));
    for (size_t i = 0; i < SERIALIZE_NUMBERS; i++)
        at += write_number(source.number[i], at, (size_t)(end - at));
    at += cbor_encode_array_start(SERIALIZE_TEXTS, at, (size_t)(end - at));
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        at += cbor_encode_bytestring_start(SERIALIZE_TEXT_BYTES, at, (size_t)(end - at));
        if ((size_t)(end - at) < SERIALIZE_TEXT_BYTES)
            serialize_die("libcbor: the archive is full");
        memcpy(at, source.text[i], SERIALIZE_TEXT_BYTES);
        at += SERIALIZE_TEXT_BYTES;
    }
    archive_bytes = (size_t)(at - archive);
}

static inline bool is_array(const cbor_item_t *item, size_t n)
{
    return cbor_isa_array(item) && cbor_array_size(item) == n;
}

static inline void libcbor_load(void)
{
    struct cbor_load_result result;
    cbor_item_t **parts;
    if (loaded)
        cbor_decref(&loaded);
    loaded = cbor_load(archive, archive_bytes, &result);
    if (!loaded || !is_array(loaded, 2))
        serialize_die("libcbor: the archive is refused");
    parts = cbor_array_handle(loaded);
    if (!is_array(parts[0], SERIALIZE_NUMBERS) || !is_array(parts[1], SERIALIZE_TEXTS))
        serialize_die("libcbor: not this record");
    numbers = cbor_array_handle(parts[0]);
    texts = cbor_array_handle(parts[1]);
}

static inline bool libcbor_has(int64_t first, char last)
{
    return read_number(numbers[0]) == first &&
           cbor_bytestring_handle(texts[SERIALIZE_TEXTS - 1])[SERIALIZE_TEXT_BYTES - 1] ==
               (unsigned char)last;
}

static bool libcbor_read(serialize_record_t *record_p)
{
    for (size_t i = 0; i < SERIALIZE_NUMBERS; i++)
        record_p->number[i] = read_number(numbers[i]);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        if (!cbor_isa_bytestring(texts[i]) ||
            cbor_bytestring_length(texts[i]) != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], cbor_bytestring_handle(texts[i]), SERIALIZE_TEXT_BYTES);
    }
    return true;
}

static size_t libcbor_bytes(void)
{
    return archive_bytes;
}

SERIALIZE_DEFINE(libcbor)
