/* what: Vectors of more than 2^31 and 2^32 bytes and elements have 64-bit counts and lengths as
 *       chunks, in streams and packed, and are read back.
 * needs: no-sanitizers
 * source: pgas/archive.h; memory that is mapped and never touched, so that it costs no pages */
#include <sys/mman.h>

#include "archive/archive.h"
#include "t/tap.h"

#define GIB ((size_t)1 << 30)

/* Zeros that take no memory while nobody touches them. NULL: the system refuses */
static char *map_zeros(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static void large_chunk(const char *zeros, size_t bytes, size_t elem_bytes)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    const void *data = NULL;
    size_t n = 0;
    char end = 0;
    (void)pgas_archive_put_vector(&out, zeros, bytes / elem_bytes, elem_bytes);
    (void)pgas_archive_put(&out, "x", 1);
    ok(out.status == PGAS_OK && out.n_chunks == 1 && out.chunk[0].bytes == bytes,
       "%zu bytes are one chunk", bytes);
    is_int((int64_t)pgas_archive_bytes(&out), (int64_t)(48 + 16 + bytes), "and packed bytes");
    (void)pgas_archive_from(&out, &in);
    ok(pgas_archive_get_vector(&in, elem_bytes, &data, &n) == PGAS_OK && data == zeros &&
           n == bytes / elem_bytes,
       "%zu elements are read in place", bytes / elem_bytes);
    ok(pgas_archive_get(&in, &end, 1) == PGAS_OK && end == 'x', "and what is behind them");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

/* A stream with so many bytes in one vector, as pgas_archive_put_vector writes it. They are not
 * copied, so that their pages are never touched. */
static void large_stream(size_t bytes)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    const void *data = NULL;
    size_t n = 0;
    int last = 7;
    (void)pgas_archive_put_count(&out, bytes);
    if (!pgas_archive_reserve(&out, bytes)) {
        skip(3, "the system gives no 5 GiB");
        return;
    }
    (void)pgas_archive_put_vector(&out, &last, 1, sizeof last);
    is_int((int64_t)pgasi_archive_stream_bytes(&out), (int64_t)((12 + bytes + 4 + 7) / 4 * 4),
           "%zu bytes are in the stream", bytes);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_archive_get_vector(&in, 1, &data, &n) == PGAS_OK && n == bytes &&
           (const char *)data == out.begin + 12,
       "and read in place");
    ok(pgas_archive_get_vector(&in, 4, &data, &n) == PGAS_OK && n == 1 && *(const int *)data == 7 &&
           (uintptr_t)data % 4 == 0,
       "with what is behind them");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
}

/* The packed form has no limit of 32 bits: only its head is written, in memory of zeros. */
static void large_packed(size_t bytes)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    const void *data = NULL;
    size_t n = 0;
    static const char few[64];
    (void)pgas_archive_put_vector(&out, few, bytes, 1);
    size_t all = pgas_archive_bytes(&out);
    char *packed =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    /* One of 1 byte replaces the chunk, so that only the head and the table are copied. */
    pgas_archive_t head = out;
    pgas_archive_chunk_t none = { few, 1, NULL };
    head.chunk = &none;
    bool packs = packed != MAP_FAILED && pgas_archive_pack(&head, packed, all) == PGAS_OK;
    if (packs)
        memcpy(packed + 24 + 8, &bytes, sizeof bytes); /* the entry's length */
    ok(packs && pgas_archive_from_bytes(packed, all, &in) == PGAS_OK, "%zu bytes: packed", all);
    ok(pgas_archive_get_vector(&in, 1, &data, &n) == PGAS_OK && n == bytes &&
           (const char *)data + n == packed + all,
       "and read");
    (void)pgas_archive_free(&in);
    (void)pgas_archive_free(&out);
    (void)munmap(packed, all);
}

int main(void)
{
    char *zeros = map_zeros(9 * GIB);
    if (!zeros)
        skip_all("the system maps no 9 GiB");
    plan(4 * 4 + 2 * 2 + 3);
    large_chunk(zeros, 2 * GIB + 5, 1);
    large_chunk(zeros, 4 * GIB - 1, 1);
    large_chunk(zeros, 5 * GIB, 1);
    large_chunk(zeros, 9 * GIB, 3 * GIB);
    large_packed(2 * GIB + 3);
    large_packed(5 * GIB + 3);
    large_stream(5 * GIB + 1);
    return done();
}
