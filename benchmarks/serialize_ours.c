/* Archives for pgas_serialize, by the functions of pgas/archive.h. */
#include "benchmarks/serialize.h"
#include "pgas/archive.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    char *data;
    size_t n;
} text_t;
typedef struct {
    int64_t *number;
    size_t n_numbers;
    text_t *text;
    size_t n_texts;
} record_t;

static record_t source, loaded;
static pgas_archive_t out = PGAS_ARCHIVE_INIT, in = PGAS_ARCHIVE_INIT;
static pgas_arena_t arena = PGAS_ARENA_INIT;

static void check(pgas_status_t status)
{
    if (status != PGAS_OK)
        serialize_die(pgas_status_text(status));
}
static void open_source(const serialize_record_t *record)
{
    if (source.number)
        return;
    source = (record_t){ .number = malloc(sizeof record->number),
                         .n_numbers = SERIALIZE_NUMBERS,
                         .text = malloc(SERIALIZE_TEXTS * sizeof(text_t)),
                         .n_texts = SERIALIZE_TEXTS };
    memcpy(source.number, record->number, sizeof record->number);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        source.text[i] = (text_t){ malloc(SERIALIZE_TEXT_BYTES), SERIALIZE_TEXT_BYTES };
        memcpy(source.text[i].data, record->text[i], SERIALIZE_TEXT_BYTES);
    }
}
static inline void change_source(int64_t first, char last)
{
    const text_t *end = &source.text[source.n_texts - 1];
    source.number[0] = first;
    end->data[end->n - 1] = last;
}

static inline bool loaded_has(int64_t first, char last)
{
    const text_t *end = &loaded.text[SERIALIZE_TEXTS - 1];
    return loaded.n_numbers == SERIALIZE_NUMBERS && loaded.n_texts == SERIALIZE_TEXTS &&
           loaded.number[0] == first && end->data[end->n - 1] == last;
}

static bool read_loaded(serialize_record_t *record_p)
{
    if (loaded.n_numbers != SERIALIZE_NUMBERS || loaded.n_texts != SERIALIZE_TEXTS)
        return false;
    memcpy(record_p->number, loaded.number, sizeof record_p->number);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        if (loaded.text[i].n != SERIALIZE_TEXT_BYTES)
            return false;
        memcpy(record_p->text[i], loaded.text[i].data, SERIALIZE_TEXT_BYTES);
    }
    return true;
}
static void save_to(pgas_archive_t *to)
{
    pgas_writer_t writer;
    pgas_writer_begin(&writer, to);
    pgas_writer_put_vector(&writer, source.number, source.n_numbers, sizeof *source.number);
    pgas_writer_put_count(&writer, source.n_texts);
    for (size_t i = 0, n = source.n_texts; i < n; i++)
        pgas_writer_put_vector(&writer, source.text[i].data, source.text[i].n, 1);
    pgas_writer_end(&writer);
}

static void view(void)
{
    void *memory;
    pgas_reader_t reader;
    const void *v;
    size_t n;
    pgas_reader_begin(&reader, &in);
    check(pgas_reader_get_vector(&reader, sizeof *loaded.number, &v, &n));
    loaded.number = (int64_t *)v;
    loaded.n_numbers = n;
    check(pgas_reader_get_count(&reader, 4, &n));
    check(pgas_archive_alloc(&in, n * sizeof(text_t), &memory));
    loaded.text = memory;
    loaded.n_texts = n;
    text_t *text = memory;
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        if (pgas_reader_get_vector(&reader, 1, &v, &n_bytes) != PGAS_OK)
            break;
        text[i] = (text_t){ (char *)v, n_bytes };
    }
    pgas_reader_end(&reader);
    check(in.status);
}

static void load(void)
{
    pgas_reader_t reader;
    const void *v;
    size_t n;
    pgas_reader_begin(&reader, &in);
    check(pgas_reader_get_vector(&reader, sizeof *loaded.number, &v, &n));
    loaded.n_numbers = n;
    loaded.number = pgas_arena_alloc(&arena, n * sizeof *loaded.number);
    memcpy(loaded.number, v, n * sizeof *loaded.number);
    check(pgas_reader_get_count(&reader, 4, &n));
    loaded.n_texts = n;
    text_t *text = loaded.text = pgas_arena_alloc(&arena, n * sizeof *text);
    for (size_t i = 0; i < n; i++) {
        size_t n_bytes;
        if (pgas_reader_get_vector(&reader, 1, &v, &n_bytes) != PGAS_OK)
            break;
        text[i] = (text_t){ pgas_arena_alloc(&arena, n_bytes), n_bytes };
        memcpy(text[i].data, v, n_bytes);
    }
    pgas_reader_end(&reader);
    check(in.status);
}

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
    pgas_archive_clear(&out);
    save_to(&out);
}
static inline void in_place_load(void)
{
    pgas_archive_free(&in);
    check(pgas_archive_from(&out, &in));
    view();
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
    return (size_t)(out.put_at - out.begin) + 24 * out.n_chunks;
}
SERIALIZE_DEFINE(in_place)

static pgas_archive_t pout = PGAS_ARCHIVE_INIT;
static void packed_open(const serialize_record_t *record)
{
    open_source(record);
    pout.threshold = SIZE_MAX;
}
static inline void packed_change(int64_t first, char last)
{
    change_source(first, last);
}
static inline void packed_save(void)
{
    pgas_archive_clear(&pout);
    save_to(&pout);
}
static inline void packed_load(void)
{
    pgas_archive_free(&in);
    check(pgas_archive_from(&pout, &in));
    pgas_arena_clear(&arena);
    load();
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
    return (size_t)(pout.put_at - pout.begin);
}
SERIALIZE_DEFINE(packed)
