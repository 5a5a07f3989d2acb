/* The limits of pgas_serialize: two plain copies of the record, and code written by hand for this
 * one record. A string has a count of 32 bits. in_place: the numbers stay in their memory, and a
 * chunk of 24 bytes has their address; loaded strings point into the archive. packed: the archive
 * has all data, which are loaded into one piece of memory. Both check every count. */
#include "benchmarks/serialize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARCHIVE_BYTES 32768

void serialize_die(const char *what)
{
    fprintf(stderr, "pgas_serialize: %s\n", what);
    exit(1);
}

/* ---- memcpy ---- */

/* These are the addresses with the fastest copies: on an AMD EPYC the two copies take 330 ns. They
 * take 450 to 700 ns if a target is less than 1 KiB behind its source, modulo 4 KiB. */
#define PAGE_BYTES ((size_t)4096)
#define GAP_BYTES  1280

typedef struct {
    _Alignas(PAGE_BYTES) serialize_record_t record;
    _Alignas(PAGE_BYTES) char before_archive[GAP_BYTES];
    serialize_record_t archive;
    _Alignas(PAGE_BYTES) char before_copy[GAP_BYTES];
    serialize_record_t copy;
} plain_t;

static plain_t plain;

static void memcpy_open(const serialize_record_t *record)
{
    plain.record = *record;
}

static inline void memcpy_change(int64_t first, char last)
{
    plain.record.number[0] = first;
    plain.record.text[SERIALIZE_TEXTS - 1][SERIALIZE_TEXT_BYTES - 1] = last;
}

static inline void memcpy_save(void)
{
    memcpy(&plain.archive, &plain.record, sizeof plain.record);
}

static inline void memcpy_load(void)
{
    memcpy(&plain.copy, &plain.archive, sizeof plain.archive);
}

static inline bool memcpy_has(int64_t first, char last)
{
    return plain.copy.number[0] == first &&
           plain.copy.text[SERIALIZE_TEXTS - 1][SERIALIZE_TEXT_BYTES - 1] == last;
}

static bool memcpy_read(serialize_record_t *record_p)
{
    *record_p = plain.copy;
    return true;
}

static size_t memcpy_bytes(void)
{
    return sizeof plain.archive;
}

SERIALIZE_DEFINE(memcpy)

/* ---- by hand ---- */

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

typedef struct {
    const void *data;
    size_t bytes;
    void *owner;
} chunk_t;

static record_t source, loaded;
static chunk_t chunk;
static char archive[ARCHIVE_BYTES], arena[ARCHIVE_BYTES];
static char *archive_end;

static char *grab(size_t bytes)
{
    char *memory = malloc(bytes);
    if (!memory)
        serialize_die("out of memory");
    return memory;
}

static void open_source(const serialize_record_t *record)
{
    if (source.number)
        return;
    source = (record_t){ .number = (int64_t *)(void *)grab(sizeof record->number),
                         .n_numbers = SERIALIZE_NUMBERS,
                         .text = (text_t *)(void *)grab(SERIALIZE_TEXTS * sizeof(text_t)),
                         .n_texts = SERIALIZE_TEXTS };
    memcpy(source.number, record->number, sizeof record->number);
    for (size_t i = 0; i < SERIALIZE_TEXTS; i++) {
        source.text[i] = (text_t){ grab(SERIALIZE_TEXT_BYTES), SERIALIZE_TEXT_BYTES };
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

static inline char *write_count(char *at, size_t n)
{
    uint32_t count = (uint32_t)n;
    memcpy(at, &count, sizeof count);
    return at + sizeof count;
}

static inline char *write_texts(char *at)
{
    at = write_count(at, source.n_texts);
    for (size_t i = 0; i < source.n_texts; i++) {
        size_t n = source.text[i].n;
        if (n > (size_t)(archive + ARCHIVE_BYTES - at) - sizeof(uint32_t))
            serialize_die("the archive is full");
        at = write_count(at, n);
        memcpy(at, source.text[i].data, n);
        at += n;
    }
    return at;
}

static inline char *read_count(char *at, size_t each, size_t *n_p)
{
    uint32_t n;
    memcpy(&n, at, sizeof n);
    at += sizeof n;
    if (n > (size_t)(archive_end - at) / each)
        serialize_die("a count is wrong");
    *n_p = n;
    return at;
}

/* ---- the numbers in place, strings as views ---- */

static void limit_in_place_open(const serialize_record_t *record)
{
    open_source(record);
}

static inline void limit_in_place_change(int64_t first, char last)
{
    change_source(first, last);
}

static inline void limit_in_place_save(void)
{
    chunk = (chunk_t){ source.number, source.n_numbers * sizeof *source.number, NULL };
    archive_end = write_texts(archive);
}

static inline void limit_in_place_load(void)
{
    char *at = read_count(archive, sizeof(uint32_t), &loaded.n_texts);
    loaded.number = (int64_t *)chunk.data;
    loaded.n_numbers = chunk.bytes / sizeof *loaded.number;
    loaded.text = (text_t *)(void *)arena;
    for (size_t i = 0; i < loaded.n_texts; i++) {
        at = read_count(at, 1, &loaded.text[i].n);
        loaded.text[i].data = at;
        at += loaded.text[i].n;
    }
}

static inline bool limit_in_place_has(int64_t first, char last)
{
    return loaded_has(first, last);
}

static bool limit_in_place_read(serialize_record_t *record_p)
{
    return read_loaded(record_p);
}

static size_t limit_in_place_bytes(void)
{
    return (size_t)(archive_end - archive) + sizeof chunk;
}

SERIALIZE_DEFINE(limit_in_place)

/* ---- everything in the archive, loaded into one piece of memory ---- */

static void limit_packed_open(const serialize_record_t *record)
{
    open_source(record);
}

static inline void limit_packed_change(int64_t first, char last)
{
    change_source(first, last);
}

static inline void limit_packed_save(void)
{
    size_t bytes = source.n_numbers * sizeof *source.number;
    char *at = write_count(archive, source.n_numbers);
    if (bytes > (size_t)(archive + ARCHIVE_BYTES - at) - sizeof(uint32_t))
        serialize_die("the archive is full");
    memcpy(at, source.number, bytes);
    archive_end = write_texts(at + bytes);
}

static inline char *take(char **free_p, size_t bytes)
{
    char *memory = *free_p;
    if (bytes > (size_t)(arena + ARCHIVE_BYTES - memory))
        serialize_die("the arena is full");
    *free_p += bytes;
    return memory;
}

static inline void limit_packed_load(void)
{
    char *unused = arena, *at = read_count(archive, sizeof(int64_t), &loaded.n_numbers);
    size_t bytes = loaded.n_numbers * sizeof *loaded.number;
    loaded.number = (int64_t *)(void *)take(&unused, bytes);
    memcpy(loaded.number, at, bytes);
    at = read_count(at + bytes, sizeof(uint32_t), &loaded.n_texts);
    loaded.text = (text_t *)(void *)take(&unused, loaded.n_texts * sizeof *loaded.text);
    for (size_t i = 0; i < loaded.n_texts; i++) {
        text_t *text = &loaded.text[i];
        at = read_count(at, 1, &text->n);
        text->data = take(&unused, text->n);
        memcpy(text->data, at, text->n);
        at += text->n;
    }
}

static inline bool limit_packed_has(int64_t first, char last)
{
    return loaded_has(first, last);
}

static bool limit_packed_read(serialize_record_t *record_p)
{
    return read_loaded(record_p);
}

static size_t limit_packed_bytes(void)
{
    return (size_t)(archive_end - archive);
}

SERIALIZE_DEFINE(limit_packed)
