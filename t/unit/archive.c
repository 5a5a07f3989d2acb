/* what: Archives return the data that were written, in place. Small data are copied, large data are
 *       chunks, objects are shared. Bad arguments and damaged archives give a status, and the first
 *       error stays. Arenas give aligned memory.
 * source: pgas/archive.h */
#include <malloc.h>

#include "archive/archive.h"
#include "t/tap.h"

#define N_LARGE 1000

static double large[N_LARGE];

static pgas_archive_t fresh(size_t threshold)
{
    pgas_archive_t archive = PGAS_ARCHIVE_INIT;
    archive.threshold = threshold;
    return archive;
}

/* ---- round trips ---- */

static void write_all(pgas_archive_t *out, pgas_rma_object_t *object)
{
    int step = 7;
    short few[3] = { 1, -2, 3 };
    (void)pgas_archive_clear(out);
    (void)pgas_archive_put(out, &step, sizeof step);
    (void)pgas_archive_put_vector(out, few, 3, sizeof few[0]);
    (void)pgas_archive_put_vector(out, large, N_LARGE, sizeof large[0]);
    (void)pgas_archive_put_string(out, "name");
    (void)pgas_archive_put_string(out, "");
    (void)pgas_archive_put_string(out, NULL);
    (void)pgas_archive_put_vector(out, NULL, 0, 8);
    (void)pgas_archive_put_object(out, object, object->bytes);
    (void)pgas_archive_put_object(out, object, 10);
    (void)pgas_archive_put_object(out, object, 0);
    (void)pgas_archive_put_object(out, NULL, 0);
    (void)pgas_archive_put(out, &step, sizeof step);
}

/* Whether the next object has these first bytes. same: it is this object, not a copy */
static bool next_object_is(pgas_archive_t *in, const pgas_rma_object_t *want, size_t bytes,
                           bool same)
{
    pgas_rma_object_t *object;
    size_t n;
    if (pgas_archive_get_object(in, &object, &n) != PGAS_OK || n != bytes)
        return false;
    bool good =
        same == (object == want) && object->bytes >= n && !memcmp(object->data, want->data, n);
    return pgas_rma_object_destroy(object) == PGAS_OK && good;
}

static void read_all(pgas_archive_t *in, pgas_rma_object_t *want, bool is_packed)
{
    int step = 0;
    const void *data;
    const char *text;
    size_t n;
    const char *way = is_packed ? "packed" : "in the process";
    ok(pgas_archive_get(in, &step, sizeof step) == PGAS_OK && step == 7, "%s: a scalar", way);
    ok(pgas_archive_get_vector(in, sizeof(short), &data, &n) == PGAS_OK && n == 3 &&
           (uintptr_t)data % sizeof(short) == 0 && ((const short *)data)[1] == -2,
       "%s: a small vector", way);
    ok(pgas_archive_get_vector(in, sizeof(double), &data, &n) == PGAS_OK && n == N_LARGE &&
           (data == large) == !is_packed && (uintptr_t)data % 16 == 0 &&
           !memcmp(data, large, sizeof large),
       "%s: a large vector", way);
    ok(pgas_archive_get_string(in, &text) == PGAS_OK && !strcmp(text, "name"), "%s: a text", way);
    ok(pgas_archive_get_string(in, &text) == PGAS_OK && !strcmp(text, ""), "%s: an empty one", way);
    ok(pgas_archive_get_string(in, &text) == PGAS_OK && !text, "%s: no text", way);
    data = large;
    ok(pgas_archive_get_vector(in, 8, &data, &n) == PGAS_OK && n == 0 && !data, "%s: no elements",
       way);
    ok(next_object_is(in, want, want->bytes, !is_packed), "%s: a large object", way);
    ok(next_object_is(in, want, 10, false), "%s: a small part of an object is a copy", way);
    ok(next_object_is(in, want, 0, false), "%s: an empty part", way);
    pgas_rma_object_t *none = want;
    ok(pgas_archive_get_object(in, &none, &n) == PGAS_OK && !none && n == 0, "%s: no object", way);
    ok(pgas_archive_get(in, &step, sizeof step) == PGAS_OK && step == 7, "%s: the last one", way);
    ok(pgas_archive_get(in, &step, 1) == PGAS_ERR_FORMAT && in->status == PGAS_ERR_FORMAT,
       "%s: nothing is behind the end", way);
}

static void round_trip(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    pgas_rma_object_t *object;
    (void)pgas_rma_object_copy(large, sizeof large, &object);
    write_all(&out, object);
    is_int(out.status, PGAS_OK, "everything is written");
    is_int(pgas_archive_from(&out, &in), PGAS_OK, "and read");
    read_all(&in, object, false);
    is_int(pgas_archive_free(&in), PGAS_OK, "the reader ends");

    size_t bytes = pgas_archive_bytes(&out);
    char *packed = aligned_alloc(16, (bytes + 31) & ~(size_t)15);
    memset(packed, 0x5a, bytes + 1);
    is_int(pgas_archive_pack(&out, packed, bytes), PGAS_OK, "packed");
    ok(packed[bytes] == 0x5a, "no byte behind the end is touched");
    is_int(pgas_archive_from_bytes(packed, bytes, &in), PGAS_OK, "and unpacked");
    read_all(&in, object, true);
    (void)pgas_archive_free(&in);

    is_int(object->n_holders, 2, "the archive shares the object");
    (void)pgas_archive_free(&out);
    is_int(object->n_holders, 1, "until it is freed");
    (void)pgas_rma_object_destroy(object);
    free(packed);
}

static void nothing_at_all(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    int step;
    char room[24] __attribute__((aligned(16)));
    ok(pgas_archive_from(&out, &in) == PGAS_OK && pgas_archive_get(&in, &step, 0) == PGAS_OK &&
           pgas_archive_get(&in, &step, 1) == PGAS_ERR_FORMAT,
       "an archive without data can be read to its end");
    (void)pgas_archive_free(&in);
    is_int((int64_t)pgas_archive_bytes(&out), 32, "packed it is a head and alignment");
    is_int(pgas_archive_pack(&out, room, sizeof room), PGAS_ERR_RANGE, "less room is refused");
    ok(pgas_archive_put(&out, NULL, 0) == PGAS_OK && out.status == PGAS_OK, "no bytes are allowed");
    is_int(pgas_archive_free(&out), PGAS_OK, "and freed");
}

/* ---- what is a chunk ---- */

static size_t n_chunks(size_t threshold, size_t bytes)
{
    pgas_archive_t out = fresh(threshold);
    (void)pgas_archive_put_vector(&out, large, bytes, 1);
    (void)pgas_archive_put_vector(&out, large, bytes, 1); /* the second one: by the inline path */
    size_t n = out.n_chunks;
    (void)pgas_archive_free(&out);
    return n;
}

static void thresholds(void)
{
    is_int((int64_t)n_chunks(0, 4095), 0, "4095 bytes are copied");
    is_int((int64_t)n_chunks(0, 4096), 2, "4096 bytes are a chunk");
    is_int((int64_t)n_chunks(1, 1), 2, "a threshold of 1");
    is_int((int64_t)n_chunks(100, 99), 0, "below a threshold of 100");
    is_int((int64_t)n_chunks(100, 100), 2, "at a threshold of 100");
    is_int((int64_t)n_chunks(SIZE_MAX, sizeof large), 0, "without a threshold all is copied");

    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    (void)pgas_archive_put_vector(&out, large, 1, 8);
    (void)pgas_archive_clear(&out);
    out.threshold = 8;
    (void)pgas_archive_put_vector(&out, large, 1, 8);
    is_int((int64_t)out.n_chunks, 1, "a threshold may be set after clearing");
    (void)pgas_archive_free(&out);
    is_int((int64_t)out.threshold, 8, "and stays");
}

/* The record of the comparison of serializers: 1000 words of 64 bits, 100 texts of 86 bytes. */
static void record_is_small(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT;
    char text[86] = "";
    (void)pgas_archive_put_vector(&out, large, 1000, 8);
    (void)pgas_archive_put_count(&out, 100);
    for (int i = 0; i < 100; i++)
        (void)pgas_archive_put_vector(&out, text, sizeof text, 1);
    is_int((int64_t)pgasi_archive_stream_bytes(&out), 12 + 4 + 100 * 90,
           "a count takes 4 bytes, a chunk 12 of the stream");
    is_int((int64_t)pgas_archive_bytes(&out), 24 + 24 + 9024 + 8000,
           "packed, a head of 24 bytes and 24 for the chunk are added, and alignment");
    (void)pgas_archive_free(&out);
}

static void alignment(void)
{
    static const size_t sizes[] = { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 40, 48 };
    int n_aligned = 0, n_right = 0, n = 0;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(sizes); i++) {
        size_t align = sizes[i] & -sizes[i];
        for (int shift = 0; shift < 17; shift++) {
            pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
            const void *data = NULL;
            size_t n_elems = 0;
            char after = 'x', before[17];
            (void)pgas_archive_put(&out, large, (size_t)shift);
            (void)pgas_archive_put_vector(&out, large, 3, sizes[i]);
            (void)pgas_archive_put(&out, &after, 1);
            (void)pgas_archive_from(&out, &in);
            (void)pgas_archive_get(&in, before, (size_t)shift);
            (void)pgas_archive_get_vector(&in, sizes[i], &data, &n_elems);
            (void)pgas_archive_get(&in, &after, 1);
            n++;
            n_aligned += (uintptr_t)data % (align < 16 ? align : 16) == 0;
            n_right += in.status == PGAS_OK && n_elems == 3 && after == 'x' &&
                       !memcmp(data, large, 3 * sizes[i]);
            (void)pgas_archive_free(&in);
            (void)pgas_archive_free(&out);
        }
    }
    is_int(n_aligned, n, "elements are aligned wherever they begin");
    is_int(n_right, n, "and right");
}

static void growth_keeps_data(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    enum { N = 100000 };
    for (uint32_t i = 0; i < N; i++)
        (void)pgas_archive_put_vector(&out, &i, 1, sizeof i);
    const char *begin = out.begin;
    (void)pgas_archive_from(&out, &in);
    int n_right = 0;
    for (uint32_t i = 0; i < N; i++) {
        const void *data = NULL;
        size_t n = 0;
        n_right += pgas_archive_get_vector(&in, sizeof i, &data, &n) == PGAS_OK && n == 1 &&
                   *(const uint32_t *)data == i;
    }
    is_int(n_right, N, "the stream grows");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_clear(&out);
    for (uint32_t i = 0; i < N; i++)
        (void)pgas_archive_put_vector(&out, &i, 1, sizeof i);
    ok(out.begin == begin, "and keeps its memory when it is cleared");
    for (int i = 0; i < 100; i++)
        (void)pgas_archive_put_vector(&out, large, N_LARGE, 8);
    is_int((int64_t)out.n_chunks, 100, "so does the table of chunks");
    (void)pgas_archive_free(&out);
}

static pgas_status_t write_short(pgas_archive_t *out, int how)
{
    switch (how) {
    case 0:
        return pgas_archive_put_count(out, 5);
    case 1:
        return pgas_archive_put_string(out, "four");
    case 2:
        return pgas_archive_put(out, "word", 4);
    default: /* elements of 1, 2, 4, 8 and 16 bytes */
        return pgas_archive_put_vector(out, large, 1, (size_t)1 << (how - 3));
    }
}

static bool read_short(pgas_archive_t *in, int how)
{
    const void *data = NULL;
    const char *text = NULL;
    char word[4];
    size_t n = 0;
    switch (how) {
    case 0:
        return pgas_archive_get_count(in, 1, &n) == PGAS_OK && n == 5;
    case 1:
        return pgas_archive_get_string(in, &text) == PGAS_OK && !strcmp(text, "four");
    case 2:
        return pgas_archive_get(in, word, 4) == PGAS_OK && !memcmp(word, "word", 4);
    default:
        return pgas_archive_get_vector(in, (size_t)1 << (how - 3), &data, &n) == PGAS_OK &&
               n == 1 && !memcmp(data, large, (size_t)1 << (how - 3));
    }
}

/* A short value where n bytes of the room are left, then another one. */
static bool writes_at_end(size_t n, int how)
{
    static char filler[1 << 16];
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    (void)pgas_archive_put(&out, filler, 1);
    size_t before = out.room - 1 - n;
    (void)pgas_archive_put(&out, filler, before);
    bool good = true;
    for (int i = 0; i < 2; i++) {
        (void)write_short(&out, how);
        good = good && out.put_at <= out.put_end && out.put_end == out.begin + out.room;
    }
    (void)pgas_archive_put(&out, filler, 5); /* that a count of 5 is true */
    (void)pgas_archive_from(&out, &in);
    (void)pgas_archive_get(&in, filler, before + 1);
    good = good && read_short(&in, how) && read_short(&in, how);
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
    return good;
}

static void ends_of_memory(void)
{
    int n_good = 0;
    for (size_t n = 0; n < 64; n++)
        for (int how = 0; how < 8; how++)
            n_good += writes_at_end(n, how);
    is_int(n_good, 64 * 8, "writes stop at the end of the memory");
}

/* ---- errors ---- */

/* Counts calls that give this status, and leave it in the archive. */
#define GIVES(archive, call, want) ((call) == (want) && (archive).status == (want))

static void bad_arguments(void)
{
    pgas_archive_t none = PGAS_ARCHIVE_INIT;
    pgas_rma_object_t *object;
    const void *data;
    const char *text;
    size_t n;
    void *memory;
    volatile size_t too_many = SIZE_MAX / 4;
    (void)pgas_rma_object_copy(large, 100, &object);
    is_int(pgas_archive_put(NULL, &n, 1), PGAS_ERR_INVALID, "put: no archive");
    is_int(pgas_archive_put_vector(NULL, &n, 1, 1), PGAS_ERR_INVALID, "put_vector: no archive");
    is_int(pgas_archive_put_string(NULL, "a"), PGAS_ERR_INVALID, "put_string: no archive");
    is_int(pgas_archive_put_object(NULL, object, 1), PGAS_ERR_INVALID, "put_object: no archive");
    is_int(pgas_archive_get(NULL, &n, 1), PGAS_ERR_INVALID, "get: no archive");
    is_int(pgas_archive_get_vector(NULL, 1, &data, &n), PGAS_ERR_INVALID, "get_vector: none");
    is_int(pgas_archive_get_string(NULL, &text), PGAS_ERR_INVALID, "get_string: no archive");
    is_int(pgas_archive_get_object(NULL, &object, &n), PGAS_ERR_INVALID, "get_object: none");
    is_int(pgas_archive_fail(NULL, PGAS_ERR_IO), PGAS_ERR_INVALID, "fail: no archive");
    ok(pgas_archive_clear(NULL) == PGAS_ERR_INVALID && pgas_archive_free(NULL) == PGAS_ERR_INVALID,
       "clear and free: no archive");
    ok(pgas_archive_from(NULL, &none) == PGAS_ERR_INVALID &&
           pgas_archive_from(&none, NULL) == PGAS_ERR_INVALID,
       "from: nothing");
    ok(pgas_archive_bytes(NULL) == 0 && pgas_archive_pack(NULL, large, 100) == PGAS_ERR_INVALID &&
           pgas_archive_pack(&none, NULL, 100) == PGAS_ERR_INVALID &&
           pgas_archive_pack(&none, (char *)large + 8, 100) == PGAS_ERR_INVALID,
       "pack: nothing, or not aligned");
    ok(pgas_archive_from_bytes(NULL, 100, &none) == PGAS_ERR_INVALID &&
           pgas_archive_from_bytes((char *)large + 8, 100, &none) == PGAS_ERR_INVALID &&
           pgas_archive_from_bytes(large, 100, NULL) == PGAS_ERR_INVALID,
       "from_bytes: nothing, or not aligned");
    is_int(pgas_archive_alloc(NULL, 1, &memory), PGAS_ERR_INVALID, "alloc: no archive");

    int n_good = 0;
    pgas_archive_t a;
    a = fresh(0), n_good += GIVES(a, pgas_archive_put(&a, NULL, 1), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_put_vector(&a, NULL, 1, 1), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_put_vector(&a, large, 1, 0), PGAS_ERR_INVALID);
    a = fresh(0),
    n_good += GIVES(a, pgas_archive_put_vector(&a, large, too_many, 8), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_put_object(&a, object, 101), PGAS_ERR_RANGE);
    a = fresh(0), n_good += GIVES(a, pgas_archive_put_object(&a, NULL, 1), PGAS_ERR_RANGE);
    a = fresh(0), n_good += GIVES(a, pgas_archive_get(&a, &n, 1), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_get_vector(&a, 1, &data, &n), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_get_string(&a, &text), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_get_object(&a, &object, &n), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_get_count(&a, 1, &n), PGAS_ERR_INVALID);
    a = fresh(0), n_good += GIVES(a, pgas_archive_alloc(&a, 1, &memory), PGAS_ERR_INVALID);
    is_int(n_good, 12, "bad arguments, and reading what is being written");
    (void)pgas_rma_object_destroy(object);
}

static void readers_write_nothing(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, a, b;
    pgas_rma_object_t *object;
    int n_good = 0;
    (void)pgas_rma_object_copy(large, sizeof large, &object);
    (void)pgas_archive_put(&out, large, 100);
    char *copy = malloc(100);
    memcpy(copy, out.begin, 100);
    (void)pgas_archive_from(&out, &a),
        n_good += GIVES(a, pgas_archive_put(&a, "abc", 3), PGAS_ERR_INVALID);
    (void)pgas_archive_from(&out, &a),
        n_good += GIVES(a, pgas_archive_put_vector(&a, "abc", 3, 1), PGAS_ERR_INVALID);
    (void)pgas_archive_from(&out, &a),
        n_good += GIVES(a, pgas_archive_put_vector(&a, large, N_LARGE, 8), PGAS_ERR_INVALID);
    (void)pgas_archive_from(&out, &a),
        n_good += GIVES(a, pgas_archive_put_string(&a, "abc"), PGAS_ERR_INVALID);
    (void)pgas_archive_from(&out, &a),
        n_good += GIVES(a, pgas_archive_put_string(&a, NULL), PGAS_ERR_INVALID);
    (void)pgas_archive_from(&out, &a),
        n_good += GIVES(a, pgas_archive_put_object(&a, object, sizeof large), PGAS_ERR_INVALID);
    (void)pgas_archive_from(&out, &a),
        n_good += GIVES(a, pgas_archive_put_count(&a, 3), PGAS_ERR_INVALID);
    is_int(n_good, 7, "a reader is not written");
    ok(!memcmp(copy, out.begin, 100) && object->n_holders == 1, "and nothing has changed");
    (void)pgas_archive_from(&out, &a);
    ok(pgas_archive_from(&a, &b) == PGAS_ERR_INVALID && pgas_archive_bytes(&a) == 0 &&
           pgas_archive_pack(&a, large, sizeof large) == PGAS_ERR_INVALID,
       "a reader is not read from or packed");
    is_int(pgas_archive_clear(&a), PGAS_OK, "a reader can be cleared");
    ok(pgas_archive_put(&a, "abc", 3) == PGAS_OK && a.begin != out.begin, "then it writes its own");
    (void)pgas_archive_free(&a);
    (void)pgas_archive_free(&out);
    (void)pgas_rma_object_destroy(object);
    free(copy);
}

static void first_error_stays(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    char room[64] __attribute__((aligned(16)));
    int value = 5;
    const void *data = room;
    size_t n = 77;
    (void)pgas_archive_put(&out, &value, sizeof value);
    is_int(pgas_archive_fail(&out, PGAS_ERR_IO), PGAS_ERR_IO, "an error of the program");
    is_int(pgas_archive_fail(&out, PGAS_ERR_PEER), PGAS_ERR_IO, "is kept");
    is_int(pgas_archive_put(&out, &value, sizeof value), PGAS_ERR_IO, "and returned");
    is_int(pgas_archive_put_vector(&out, &value, 1, 4), PGAS_ERR_IO, "by put_vector, too");
    is_int(pgas_archive_put_vector(&out, large, N_LARGE, 8), PGAS_ERR_IO, "also of a chunk");
    is_int(pgas_archive_put_string(&out, "text"), PGAS_ERR_IO, "by put_string");
    is_int(pgas_archive_from(&out, &in), PGAS_ERR_IO, "a reader is not made");
    is_int(pgas_archive_pack(&out, room, sizeof room), PGAS_ERR_IO, "nor bytes");
    is_int((int64_t)pgasi_archive_stream_bytes(&out), sizeof value, "nothing was written");
    is_int(pgas_archive_clear(&out), PGAS_OK, "clearing forgets it");
    is_int(pgas_archive_fail(&out, PGAS_OK), PGAS_OK, "no error is none");

    (void)pgas_archive_put(&out, &value, sizeof value);
    (void)pgas_archive_from(&out, &in);
    value = 6;
    is_int(pgas_archive_get(&in, large, 5), PGAS_ERR_FORMAT, "more bytes than there are");
    is_int(pgas_archive_get(&in, &value, 4), PGAS_ERR_FORMAT, "then nothing can be read");
    is_int(pgas_archive_get(&in, &value, 0), PGAS_ERR_FORMAT, "not even 0 bytes");
    ok(pgas_archive_get_vector(&in, 1, &data, &n) == PGAS_ERR_FORMAT && data == room && n == 77 &&
           value == 6,
       "outputs stay as they were");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

static void nesting(void)
{
    pgas_archive_t a = PGAS_ARCHIVE_INIT;
    int n = 0;
    while (n < 1000 && pgas_archive_enter(&a) == PGAS_OK)
        n++;
    is_int(n, PGAS_ARCHIVE_DEPTH, "values may be so deep");
    is_int(a.status, PGAS_ERR_LIMIT, "and not deeper");
    (void)pgas_archive_clear(&a);
    for (n = 0; n < 1000 && pgas_archive_enter(&a) == PGAS_OK; n++)
        pgas_archive_leave(&a);
    is_int(n, 1000, "what was left does not count");
    (void)pgas_archive_free(&a);
}

/* ---- lies ---- */

/* Reads a stream with one chunk of 8 bytes. `how` says by which function. */
static pgas_status_t read_stream(const void *stream, size_t bytes, char how)
{
    pgas_archive_t in;
    pgas_archive_chunk_t chunk = { large, 8, NULL };
    const void *data;
    const char *text;
    size_t n;
    pgas_rma_object_t *object = NULL;
    pgasi_archive_read(&in, stream, bytes, &chunk, 1, 0);
    if (how == 's')
        (void)pgas_archive_get_string(&in, &text);
    else if (how == 'o')
        (void)pgas_archive_get_object(&in, &object, &n);
    else if (how == 'c')
        (void)pgas_archive_get_count(&in, 3, &n);
    else
        (void)pgas_archive_get_vector(&in, (size_t)(how - '0'), &data, &n);
    (void)pgas_rma_object_destroy(object);
    pgas_status_t status = in.status;
    (void)pgas_archive_free(&in);
    return status;
}

typedef struct {
    char how;
    bool is_good;
    uint32_t word[6];
    size_t bytes;
    const char *why;
} lie_t;

static void lies(void)
{
    static const lie_t lie[] = {
        { '1', true, { 4, 0 }, 8, "4 bytes" },
        { '1', false, { 5, 0 }, 8, "more bytes than there are" },
        { '4', false, { 2, 0 }, 8, "more elements" },
        { '8', false, { 1, 0, 0 }, 12, "no room for the elements behind alignment" },
        { '8', true, { 1, 0, 0, 0 }, 16, "room for them" },
        { '8', false, { 1 }, 4, "no room for the alignment" },
        { '8', false, { 0xfffffffb }, 4, "the greatest short count" },
        { '1', false, { 3 }, 3, "half a count" },
        { '1', true, { 0xfffffffc, 2, 0, 0x4142 }, 14, "a long form of a small count" },
        { '1', false, { 0xfffffffc, 3, 0, 0x4142 }, 14, "that lies" },
        { '8', false, { 0xfffffffc, 1, 1 << 29, 0, 0, 0 }, 24, "whose product is 8" },
        { '1', false, { 0xfffffffc, 0xffffffff, 0xffffffff }, 12, "the greatest long count" },
        { '1', false, { 0xfffffffc, 0 }, 8, "half a long count" },
        { '8', true, { 0xfffffffd, 1, 0 }, 12, "a chunk" },
        { '1', true, { 0xfffffffd, 8, 0 }, 12, "in other elements" },
        { '1', false, { 0xfffffffd, 7, 0 }, 12, "a chunk that is longer" },
        { '1', false, { 0xfffffffd, 9, 0 }, 12, "a chunk that is shorter" },
        { '1', false, { 0xfffffffd, 0, 0 }, 12, "a chunk of no elements" },
        { '8', false, { 0xfffffffd, 1, 1 << 29 }, 12, "a chunk whose product is 8" },
        { '1', false, { 0xfffffffe, 0, 0 }, 12, "a mark that is none" },
        { '1', false, { 0xffffffff }, 4, "a vector that is absent" },
        { 's', true, { 0xffffffff }, 4, "a text that is absent" },
        { 's', true, { 2, 0x0041 }, 6, "a text" },
        { 's', false, { 2, 0x4141 }, 6, "a text without end" },
        { 's', false, { 0 }, 4, "a text without bytes" },
        { 's', false, { 3, 0x0041 }, 6, "a text behind the end" },
        { 'o', true, { 0xffffffff }, 4, "an object that is absent" },
        { 'o', true, { 0xfffffffd, 8, 0 }, 12, "an object" },
        { 'o', false, { 0xfffffffd, 9, 0 }, 12, "a longer one" },
        { 'o', false, { 9, 0, 0 }, 12, "more bytes of an object than there are" },
        { 'c', true, { 2, 0, 0 }, 10, "two values of 3 bytes" },
        { 'c', false, { 2, 0, 0 }, 9, "too few bytes for them" },
        { 'c', false, { 0xffffffff }, 4, "values that are absent" },
        { 'c', false, { 0xfffffffd, 1, 0, 0 }, 16, "values in a chunk" },
        { 'c', true, { 0xfffffffc, 1, 0, 0 }, 16, "a long count of values" },
        { 'c', false, { 0xfffffffc, 0x55555556, 0x55555555, 0 }, 16, "whose product is 2" },
    };
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(lie); i++) {
        /* exact, so that sanitizers see a byte too many */
        char *stream = aligned_alloc(16, 16 + (lie[i].bytes & ~(size_t)15));
        memcpy(stream, lie[i].word, lie[i].bytes);
        is_int(read_stream(stream, lie[i].bytes, lie[i].how),
               lie[i].is_good ? PGAS_OK : PGAS_ERR_FORMAT, "%c: %s", lie[i].how, lie[i].why);
        free(stream);
    }
    uint32_t two[6] = { 0xfffffffd, 8, 0, 0xfffffffd, 8, 0 };
    pgas_archive_t in;
    pgas_archive_chunk_t chunk = { large, 8, NULL };
    const void *data;
    size_t n;
    pgasi_archive_read(&in, (char *)two, sizeof two, &chunk, 1, 0);
    is_int(pgas_archive_get_vector(&in, 1, &data, &n), PGAS_OK, "the first chunk");
    is_int(pgas_archive_get_vector(&in, 1, &data, &n), PGAS_ERR_FORMAT, "there is no second one");
}

/* ---- packed ---- */

static void damaged_bytes(void)
{
    pgas_archive_t out = fresh(16), in;
    (void)pgas_archive_put_string(&out, "some text");
    (void)pgas_archive_put_vector(&out, large, 3, 8);
    (void)pgas_archive_put_vector(&out, large, 5, 8);
    size_t bytes = pgas_archive_bytes(&out);
    char *packed = aligned_alloc(16, 16 + (bytes & ~(size_t)15));
    (void)pgas_archive_pack(&out, packed, bytes);

    int n_refused = 0;
    for (size_t n = 0; n < bytes; n++)
        n_refused += pgas_archive_from_bytes(packed, n, &in) == PGAS_ERR_FORMAT;
    is_int(n_refused, (int)bytes, "every shorter length is refused");
    is_int(pgas_archive_from_bytes(packed, bytes + 1, &in), PGAS_ERR_FORMAT, "and a longer one");

    /* Lengths may change within the zeros behind them: 4 bits of the stream's, and 3 of a chunk's,
     * which reading finds. The word that says whether a chunk was an object is 0 or 1. */
    int n_right = 0, n_accepted = 0;
    for (size_t bit = 0; bit < 8 * (24 + 2 * 24); bit++) {
        packed[bit / 8] ^= (char)(1 << bit % 8);
        pgas_status_t status = pgas_archive_from_bytes(packed, bytes, &in);
        bool is_machine = bit / 8 >= 4 && bit / 8 < 8; /* byte order, word size, form */
        n_accepted += status == PGAS_OK;
        n_right +=
            status == PGAS_OK || status == (is_machine ? PGAS_ERR_MISMATCH : PGAS_ERR_FORMAT);
        if (status == PGAS_OK)
            (void)pgas_archive_free(&in);
        packed[bit / 8] ^= (char)(1 << bit % 8);
    }
    is_int(n_right, 8 * (24 + 2 * 24), "every bit of the head and the table has its status");
    is_int(n_accepted, 4 + 3 + 2, "and few are accepted");
    is_int(pgas_archive_from_bytes(packed, bytes, &in), PGAS_OK, "undamaged it is read");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
    free(packed);
}

/* ---- memory ---- */

static void reader_memory(void)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    pgas_arena_t arena = PGAS_ARENA_INIT;
    void *memory;
    (void)pgas_archive_put(&out, large, 100);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_archive_alloc(&in, 1000, &memory) == PGAS_OK && in.arena.blocks,
       "memory comes from the archive");
    in.in_place = false;
    in.memory = &arena;
    ok(pgas_archive_alloc(&in, 1000, &memory) == PGAS_OK && arena.blocks, "or from an arena");
    memset(memory, 1, 1000);
    (void)pgas_arena_clear(&arena);
    ok(pgas_archive_alloc(&in, 1000, &memory) == PGAS_OK && *(char *)memory == 0 &&
           !memcmp(memory, (char *)memory + 1, 999),
       "it is zeroed");
    in.memory = NULL;
    ok(pgas_archive_alloc(&in, 0, &memory) == PGAS_OK && memory, "or from malloc");
    free(memory);
    is_int(pgas_archive_alloc(&in, (size_t)1 << 30, &memory), PGAS_ERR_FORMAT,
           "not too much for so few bytes");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
    (void)pgas_arena_free(&arena);
}

static void large_pieces(void)
{
    pgas_arena_t arena = PGAS_ARENA_INIT;
    enum { LARGE = 100000 };
    char *a = pgas_arena_alloc(&arena, 16);
    void *first = arena.blocks;
    char *b = pgas_arena_alloc(&arena, LARGE);
    char *c = pgas_arena_alloc(&arena, 16);
    memset(b, 1, LARGE);
    ok(c == a + 16 && arena.blocks == first, "behind a large piece, the block is used on");
    is_int(pgas_arena_clear(&arena), PGAS_OK, "clearing");
    void *kept = arena.blocks;
    char *d = pgas_arena_alloc(&arena, LARGE);
    ok(kept != first && arena.blocks == kept && d == b, "keeps the block of the large piece");
    (void)pgas_arena_free(&arena);

    a = pgas_arena_alloc(&arena, 16);
    pgas_arena_t other = PGAS_ARENA_INIT;
    b = pgas_arena_alloc(&other, 16);
    ok(a && b && a != b, "two arenas have two blocks");
    (void)pgas_arena_free(&arena);
    (void)pgas_arena_free(&other);
    c = pgas_arena_alloc(&arena, 16);
    ok(c == a || c == b, "a thread keeps a small block for the next arena");
    (void)pgas_arena_free(&arena);
}

static void arenas(void)
{
    pgas_arena_t arena = PGAS_ARENA_INIT;
    enum { N = 3000 };
    static unsigned char *piece[N];
    int n_aligned = 0, n_whole = 0;
    for (size_t i = 0; i < N; i++) {
        size_t bytes = i % 100 == 0 ? i * 40 : i % 70;
        piece[i] = pgas_arena_alloc(&arena, bytes);
        n_aligned += piece[i] && (uintptr_t)piece[i] % 16 == 0;
        memset(piece[i], (int)i & 0xff, bytes);
    }
    for (size_t i = 0; i < N; i++) {
        size_t bytes = i % 100 == 0 ? i * 40 : i % 70, n = 0;
        while (n < bytes && piece[i][n] == (i & 0xff))
            n++;
        n_whole += n == bytes;
    }
    is_int(n_aligned, N, "pieces are aligned");
    is_int(n_whole, N, "and do not overlap");
    ok(pgas_arena_alloc(&arena, 0) != pgas_arena_alloc(&arena, 0), "also those of 0 bytes");
    ok(!pgas_arena_alloc(&arena, SIZE_MAX) && !pgas_arena_alloc(&arena, SIZE_MAX - 15) &&
           !pgas_arena_alloc(&arena, PTRDIFF_MAX) && !pgas_arena_alloc(NULL, 1),
       "too much gives NULL");
    is_int(pgas_arena_clear(&arena), PGAS_OK, "it can be cleared");
    void *block = arena.blocks;
    for (int i = 0; i < 1000; i++)
        (void)pgas_arena_alloc(&arena, 100);
    ok(block && arena.blocks == block, "and used again with the largest block");
    ok(pgas_arena_free(&arena) == PGAS_OK && !arena.blocks && !arena.at, "freed it is empty");
    ok(pgas_arena_clear(&arena) == PGAS_OK && pgas_arena_clear(NULL) == PGAS_ERR_INVALID &&
           pgas_arena_free(NULL) == PGAS_ERR_INVALID,
       "an empty one can be cleared, NULL not");
}

/* ---- inside ---- */

static void moved(void)
{
    pgas_archive_t a = fresh(16), b = PGAS_ARCHIVE_INIT, in;
    pgas_rma_object_t *object;
    const void *data;
    size_t n;
    int value = 0;
    (void)pgas_rma_object_copy(large, 100, &object);
    for (int round = 1; round <= 3; round++) {
        (void)pgas_archive_put(&a, &round, sizeof round);
        (void)pgas_archive_put_object(&a, object, 100);
        pgasi_archive_move(&a, &b);
        ok(a.status == PGAS_OK && a.n_chunks == 0 && pgasi_archive_stream_bytes(&a) == 0 &&
               a.threshold == 16 && object->n_holders == 2,
           "a moved archive is empty");
        ok(pgas_archive_from(&b, &in) == PGAS_OK &&
               pgas_archive_get(&in, &value, sizeof value) == PGAS_OK && value == round &&
               pgas_archive_get_vector(&in, 1, &data, &n) == PGAS_OK && data == object->data,
           "the other one has its data");
        (void)pgas_archive_free(&in);
    }
    char *begin = a.begin;
    (void)pgas_archive_put(&a, &value, sizeof value);
    ok(begin && a.begin == begin, "and gave its memory for them");
    (void)pgas_archive_free(&a);
    (void)pgas_archive_free(&b);
    is_int(object->n_holders, 1, "nothing is kept");
    (void)pgas_rma_object_destroy(object);
}

static void moved_errors(void)
{
    pgas_archive_t a = PGAS_ARCHIVE_INIT, b = PGAS_ARCHIVE_INIT;
    (void)pgas_archive_put(&a, large, 8);
    (void)pgas_archive_fail(&a, PGAS_ERR_IO);
    pgasi_archive_move(&a, &b);
    ok(a.status == PGAS_OK && b.status == PGAS_ERR_IO, "errors are moved, too");
    (void)pgas_archive_free(&a);
    (void)pgas_archive_free(&b);
}

/* Uses of all kinds leave nothing behind. */
static void no_leaks(void)
{
    size_t before = 0, after = 0;
    pgas_rma_object_t *object;
    (void)pgas_rma_object_copy(large, sizeof large, &object);
    for (int i = 0; i < 300; i++) {
        pgas_archive_t out = PGAS_ARCHIVE_INIT, moved_to = PGAS_ARCHIVE_INIT, in;
        void *memory;
        char packed[96] __attribute__((aligned(16)));
        write_all(&out, object);
        (void)pgas_archive_from(&out, &in);
        (void)pgas_archive_alloc(&in, 50000, &memory);
        (void)pgas_archive_free(&in);
        pgasi_archive_move(&out, &moved_to);
        (void)pgas_archive_free(&moved_to);
        out.threshold = 1;
        (void)pgas_archive_put_vector(&out, large, 1, 8);
        (void)pgas_archive_pack(&out, packed, sizeof packed);
        (void)pgas_archive_from_bytes(packed, pgas_archive_bytes(&out), &in);
        (void)pgas_archive_free(&in);
        packed[24] ^= 1; /* refused */
        (void)pgas_archive_from_bytes(packed, pgas_archive_bytes(&out), &in);
        (void)pgas_archive_put(&out, NULL, 5);
        (void)pgas_archive_free(&out);
        after = mallinfo2().uordblks;
        before = i == 99 ? after : before; /* caches of objects are full */
    }
    ok(before == after || before == 0, "200 uses leave nothing behind");
    diag("%zu bytes, then %zu", before, after);
    is_int(object->n_holders, 1, "no share either");
    (void)pgas_rma_object_destroy(object);
}

static void owned(void)
{
    pgas_archive_t in;
    pgas_rma_object_t *object;
    (void)pgas_rma_object_copy(large, 100, &object);
    char *stream = calloc(1, 64);
    pgas_archive_chunk_t *chunk = calloc(2, sizeof *chunk);
    chunk[1] = (pgas_archive_chunk_t){ object->data, 100, pgas_rma_object_share(object) };
    pgasi_archive_read(&in, stream, 64, chunk, 2,
                       PGAS_ARCHIVE_OWNS_STREAM | PGAS_ARCHIVE_OWNS_TABLE |
                           PGAS_ARCHIVE_OWNS_OBJECTS);
    is_int(pgas_archive_free(&in), PGAS_OK, "a reader that owns memory");
    is_int(object->n_holders, 1, "gives its objects back"); /* the rest: sanitizers */
    (void)pgas_rma_object_destroy(object);
}

int main(void)
{
    for (int i = 0; i < N_LARGE; i++)
        large[i] = i + .5;
    plan(167);
    round_trip();
    nothing_at_all();
    thresholds();
    record_is_small();
    alignment();
    growth_keeps_data();
    ends_of_memory();
    bad_arguments();
    readers_write_nothing();
    first_error_stays();
    nesting();
    lies();
    damaged_bytes();
    reader_memory();
    arenas();
    large_pieces();
    moved();
    moved_errors();
    no_leaks();
    owned();
    return done();
}
