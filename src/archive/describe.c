/* Functions that all described structures share: checksums, reading, sizes and printing. A checksum
 * is FNV-1a over the kinds, names and sizes of the fields. The preprocessor supplies their text. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "archive/archive.h"
#include "base/log.h"
#include "pgas/describe.h"

/* ---- checksums ---- */

#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

static uint64_t mix_byte(uint64_t sum, unsigned byte)
{
    return (sum ^ (byte & 255)) * FNV_PRIME;
}

/* The checksum skips spaces, because the program may write a field with or without them. */
static uint64_t mix_text(uint64_t sum, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isspace((unsigned char)text[i]))
            sum = mix_byte(sum, (unsigned char)text[i]);
    return mix_byte(sum, 0);
}

uint64_t pgas_describe_mix(uint64_t sum, const char *kind, const char *text, uint64_t number)
{
    size_t length = strlen(text);
    /* The length of an array may be any expression, so the checksum uses its value, `number`. */
    if (strstr(kind, "ARRAY")) {
        const char *comma = strchr(text, ',');
        comma = comma ? strchr(comma + 1, ',') : NULL;
        length = comma ? (size_t)(comma - text) : length;
    }
    sum = mix_text(mix_text(sum ? sum : FNV_BASIS, kind, strlen(kind)), text, length);
    for (int shift = 0; shift < 64; shift += 8)
        sum = mix_byte(sum, (unsigned)(number >> shift & 255));
    return sum ? sum : 1;
}

bool pgas_describe_is_inside(const pgas_sum_t *here)
{
    for (const pgas_sum_t *above = here->above; above; above = above->above)
        if (!strcmp(above->name, here->name))
            return true;
    return false;
}

/* ---- reading ---- */

#define NAME_MAX_SHOWN    60
#define MISMATCHES_LOGGED 32

pgas_status_t pgas_describe_mismatch(pgas_archive_t *archive, uint64_t found, uint64_t expected,
                                     const char *name)
{
    const void *text = NULL;
    size_t length = 0;
    pgas_status_t status = pgas_archive_get_vector(archive, 1, &text, &length);
    if (status != PGAS_OK)
        return status;
    char shown[NAME_MAX_SHOWN + 1];
    size_t n = PGASI_MIN(length, NAME_MAX_SHOWN);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = ((const unsigned char *)text)[i];
        shown[i] = (char)(isprint(c) ? c : '?');
    }
    shown[n] = '\0';
    static int n_logged; /* every value of a wrong program may differ */
    if (__atomic_fetch_add(&n_logged, 1, __ATOMIC_RELAXED) < MISMATCHES_LOGGED)
        PGASI_WARN("archive",
                   "the archive has a value of the type %s, checksum %016" PRIx64
                   ", and the program reads the type %s, checksum %016" PRIx64
                   ". The fields in both programs must be the same.",
                   n ? shown : "(no name)", found, name, expected);
    return pgas_archive_fail(archive, PGAS_ERR_MISMATCH);
}

pgas_status_t pgas_describe_alloc(pgas_archive_t *archive, size_t n, size_t elem_bytes,
                                  void **memory_p)
{
    if (n > PTRDIFF_MAX / elem_bytes)
        return pgas_archive_fail(archive, PGAS_ERR_FORMAT);
    return pgasi_archive_allocate(archive, n * elem_bytes, memory_p);
}

/* ---- sizes of values with functions of the program ---- */

void pgas_describe_scratch_begin(const pgas_sizer_t *sizer, pgas_archive_t *scratch_p)
{
    static const char zeros[PGAS_ARCHIVE_ALIGN_MAX];
    *scratch_p = (pgas_archive_t)PGAS_ARCHIVE_INIT;
    (void)pgas_archive_put(scratch_p, zeros, sizer->stream % sizeof zeros);
}

void pgas_describe_scratch_end(pgas_sizer_t *sizer, pgas_archive_t *scratch)
{
    sizer->stream += pgasi_archive_stream_bytes(scratch) - sizer->stream % PGAS_ARCHIVE_ALIGN_MAX;
    for (size_t i = 0; i < scratch->n_chunks; i++)
        sizer->chunks += scratch->chunk[i].bytes;
    (void)pgas_archive_free(scratch);
}

/* ---- printing ---- */

#define MOST_ELEMS  8
#define MOST_LETTER 60
#define MOST_BYTES  16

static void indent(FILE *out, int depth)
{
    (void)fprintf(out, "%*s", 4 * depth, "");
}

static void print_letters(FILE *out, const char *text, size_t length)
{
    (void)fputc('"', out);
    for (size_t i = 0; i < PGASI_MIN(length, MOST_LETTER); i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            (void)fprintf(out, "\\%c", c);
        else if (isprint(c))
            (void)fputc(c, out);
        else
            (void)fprintf(out, "\\x%02x", c);
    }
    (void)fputs(length > MOST_LETTER ? "\".." : "\"", out);
}

static void print_bytes(FILE *out, const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < PGASI_MIN(bytes, MOST_BYTES); i++)
        (void)fprintf(out, "%02x", data[i]);
    if (bytes > MOST_BYTES)
        (void)fputs("..", out);
}

static int64_t signed_of(const void *data, size_t bytes)
{
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (bytes) {
    case 1:
        return memcpy(&i8, data, bytes), i8;
    case 2:
        return memcpy(&i16, data, bytes), i16;
    case 4:
        return memcpy(&i32, data, bytes), i32;
    default:
        return memcpy(&i64, data, sizeof i64), i64;
    }
}

static void print_float(FILE *out, const void *data, size_t bytes)
{
    float f;
    double d;
    long double ld;
    if (bytes == sizeof f)
        (void)fprintf(out, "%.9g", (double)*(float *)memcpy(&f, data, sizeof f));
    else if (bytes == sizeof d)
        (void)fprintf(out, "%.17g", *(double *)memcpy(&d, data, sizeof d));
    else
        (void)fprintf(out, "%.21Lg", *(long double *)memcpy(&ld, data, sizeof ld));
}

static void print_elem(FILE *out, char kind, size_t bytes, const void *data)
{
    uint64_t mask = bytes < 8 ? ((uint64_t)1 << (8 * bytes)) - 1 : UINT64_MAX;
    if (kind == 'f')
        print_float(out, data, bytes);
    else if (kind == 'c')
        print_letters(out, data, 1);
    else if (kind == 'b')
        (void)fputs(*(const unsigned char *)data ? "true" : "false", out);
    else if (kind == 'i')
        (void)fprintf(out, "%" PRId64, signed_of(data, bytes));
    else if (kind == 'u')
        (void)fprintf(out, "%" PRIu64, (uint64_t)signed_of(data, bytes) & mask);
    else
        print_bytes(out, data, bytes);
}

void pgas_describe_print_elems(FILE *out, int depth, const char *member, char kind,
                               size_t elem_bytes, const void *data, size_t n,
                               pgas_print_form_t form)
{
    indent(out, depth);
    (void)fprintf(out, "%s:", member);
    if (form == PGAS_PRINT_MANY && n > MOST_ELEMS && kind != 'c')
        (void)fprintf(out, " %zu elements:", n);
    if (kind == 'c' && form == PGAS_PRINT_MANY) {
        (void)fputc(' ', out);
        print_letters(out, data, n);
    } else
        for (size_t i = 0; i < PGASI_MIN(n, MOST_ELEMS); i++) {
            (void)fputc(' ', out);
            print_elem(out, kind, elem_bytes, (const char *)data + i * elem_bytes);
        }
    if (!n && kind != 'c')
        (void)fputs(" none", out);
    (void)fputs(n > MOST_ELEMS && kind != 'c' ? " ..\n" : "\n", out);
}

void pgas_describe_print_text(FILE *out, int depth, const char *member, const char *text)
{
    if (text)
        pgas_describe_print_elems(out, depth, member, 'c', 1, text, strlen(text), PGAS_PRINT_MANY);
    else
        pgas_describe_print_elems(out, depth, member, 'x', 1, NULL, 0, PGAS_PRINT_OPTIONAL);
}

void pgas_describe_print_object(FILE *out, int depth, const char *member,
                                const pgas_rma_object_t *object)
{
    indent(out, depth);
    if (!object) {
        (void)fprintf(out, "%s: none\n", member);
        return;
    }
    (void)fprintf(out, "%s: %zu bytes: ", member, object->bytes);
    print_bytes(out, object->data, object->bytes);
    (void)fputc('\n', out);
}

void pgas_describe_print_name(FILE *out, int depth, const char *member, const char *name)
{
    indent(out, depth);
    if (member)
        (void)fprintf(out, "%s: %s\n", member, name);
    else
        (void)fprintf(out, "%s\n", name);
}

size_t pgas_describe_print_count(FILE *out, int depth, const char *member, const char *name,
                                 size_t n)
{
    indent(out, depth);
    (void)fprintf(out, "%s: %zu of %s%s\n", member, n, name, n > MOST_ELEMS ? ".." : "");
    return PGASI_MIN(n, MOST_ELEMS);
}

void pgas_describe_print_index(FILE *out, int depth, size_t index)
{
    indent(out, depth);
    (void)fprintf(out, "[%zu]\n", index);
}
