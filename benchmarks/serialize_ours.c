/* Archives for pgas_serialize. A description of the record makes all functions. There are two
 * serializers. in_place: the numbers exceed the threshold, so the archive has a pointer to them.
 * The loaded record is a view. packed: the archive has all data. The loaded record is a copy in one
 * arena. Both reuse their archives and arenas. */
#include "benchmarks/serialize.h"
#include "pgas/describe.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_FIELDS(F) F(VECTOR, char, data, n)
PGAS_STRUCT(text, TEXT_FIELDS)

#define RECORD_FIELDS(F)                   \
    F(VECTOR, int64_t, numbers, n_numbers) \
    F(STRUCT_VECTOR, text, texts, n_texts)
PGAS_STRUCT(record, RECORD_FIELDS)

static record_t source, loaded;

/* ---- the record ---- */

static void check(pgas_status_t status, const char *what)
{
    if (status != PGAS_OK)
        serialize_die(what);
}

static void *grab(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        serialize_die("out of memory");
    return memory;
}

static void open_source(const serialize_record_t *record)
{
    if (source.numbers)
        return;
    source = (record_t){ .numbers = grab(sizeof record->number),
                         .n_numbers = SERIALIZE_NUMBERS,
                         .texts = grab(SERIALIZE_TEXTS * sizeof(text_t)),
                         .n_texts = SERIALIZE_TEXTS };
    memcpy(source.numbers, record->number, sizeof record->number);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        source.texts[i] = (text_t){ grab(SERIALIZE_TEXT_BYTES), SERIALIZE_TEXT_BYTES };
        memcpy(source.texts[i].data, record->text[i], SERIALIZE_TEXT_BYTES);
    }
}

static inline void change_source(int64_t first, char last)
{
    const text_t *end = &source.texts[source.n_texts - 1];
    source.numbers[0] = first;
    end->data[end->n - 1] = last;
}

static inline bool loaded_has(int64_t first, char last)
{
    const text_t *end = &loaded.texts[SERIALIZE_TEXTS - 1];
    return loaded.n_numbers == SERIALIZE_NUMBERS && loaded.n_texts == SERIALIZE_TEXTS &&
           loaded.numbers[0] == first && end->data[end->n - 1] == last;
}

static bool read_loaded(serialize_record_t *record_p)
{
    if (loaded.n_numbers != SERIALIZE_NUMBERS || loaded.n_texts != SERIALIZE_TEXTS)
        return false;
    memcpy(record_p->number, loaded.numbers, sizeof record_p->number);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        if (loaded.texts[i].n != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], loaded.texts[i].data, SERIALIZE_TEXT_BYTES);
    }
    return true;
}

/* The bytes that pgas_archive_pack adds to the chunks' own. */
static size_t bytes_without_chunks(const pgas_archive_t *written)
{
    size_t bytes = pgas_archive_bytes(written);
    for (size_t i = 0; i < written->n_chunks; i++)
        bytes -= written->chunk[i].bytes;
    return bytes;
}

/* ---- numbers in place, strings as views ---- */

static pgas_archive_t out = PGAS_ARCHIVE_INIT, in = PGAS_ARCHIVE_INIT;

static void in_place_open(const serialize_record_t *record)
{
    open_source(record);
}

static inline void in_place_change(int64_t first, char last)
{
    change_source(first, last);
}

static inline void in_place_save(void)
{
    (void)pgas_archive_clear(&out);
    check(pgas_save_record(&out, &source), "pgas_save_record");
}

static inline void in_place_load(void)
{
    (void)pgas_archive_free(&in);
    check(pgas_archive_from(&out, &in), "pgas_archive_from");
    check(pgas_view_record(&in, &loaded), "pgas_view_record");
}

static inline bool in_place_has(int64_t first, char last)
{
    return loaded_has(first, last);
}

static bool in_place_read(serialize_record_t *record_p)
{
    return read_loaded(record_p);
}

static size_t in_place_bytes(void)
{
    return bytes_without_chunks(&out);
}

SERIALIZE_DEFINE(in_place)

/* ---- everything in the archive, loaded into one arena ---- */

static pgas_archive_t packed_out = { .threshold = SIZE_MAX }, packed_in = PGAS_ARCHIVE_INIT;
static pgas_arena_t arena = PGAS_ARENA_INIT;

static void packed_open(const serialize_record_t *record)
{
    open_source(record);
}

static inline void packed_change(int64_t first, char last)
{
    change_source(first, last);
}

static inline void packed_save(void)
{
    (void)pgas_archive_clear(&packed_out);
    check(pgas_save_record(&packed_out, &source), "pgas_save_record");
}

static inline void packed_load(void)
{
    (void)pgas_archive_free(&packed_in);
    (void)pgas_arena_clear(&arena);
    check(pgas_archive_from(&packed_out, &packed_in), "pgas_archive_from");
    check(pgas_load_record(&packed_in, &arena, &loaded), "pgas_load_record");
}

static inline bool packed_has(int64_t first, char last)
{
    return loaded_has(first, last);
}

static bool packed_read(serialize_record_t *record_p)
{
    return read_loaded(record_p);
}

static size_t packed_bytes(void)
{
    return bytes_without_chunks(&packed_out);
}

SERIALIZE_DEFINE(packed)
