/* what: Vectors of more than 2^31 and 2^32 bytes and elements are chunks without a copy, are copied into streams and packed with
 *       64-bit lengths, and are read back.
 * needs: no-sanitizers
 * source: pgas/archive.h; memory that is mapped and never touched, so that it costs no pages */
#include <sys/mman.h>

#include "archive/archive.h"
#include "t/tap.h"

#define GIB ((size_t)1 << 30)

/* Zeros that take no memory while they are only read. NULL: the system refuses */
static char *map_zeros(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    (void)madvise(at, bytes, MADV_HUGEPAGE); /* fewer page faults */
    return at;
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

/* The memory that the system has for us, in bytes. */
static size_t free_memory(void)
{
    char line[200];
    size_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %zu", &kib) == 1)
            break;
    if (file)
        (void)fclose(file);
    return kib << 10;
}

/* So many elements, with a mark at their end, copied into the stream. */
static void large_stream(const char *zeros, size_t n)
{
    pgas_archive_t out = PGAS_ARCHIVE_INIT, in;
    const void *data = NULL;
    size_t n_read = 0;
    char end = 0;
    out.threshold = SIZE_MAX;
    (void)pgas_archive_put_vector(&out, zeros, n, 1);
    (void)pgas_archive_put(&out, "x", 1);
    ok(out.status == PGAS_OK && out.n_chunks == 0 && pgasi_archive_stream_bytes(&out) > n,
       "%zu bytes are copied into the stream", n);
    (void)pgas_archive_from(&out, &in);
    ok(pgas_archive_get_vector(&in, 1, &data, &n_read) == PGAS_OK && n_read == n &&
           pgas_archive_get(&in, &end, 1) == PGAS_OK && end == 'x',
       "and read, with what is behind them");
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
    /* The chunk is replaced by one without bytes, so that only the head and the table are copied. */
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
    plan(4 * 4 + 2 * 2 + 2);
    large_chunk(zeros, 2 * GIB + 5, 1);
    large_chunk(zeros, 4 * GIB - 1, 1);
    large_chunk(zeros, 5 * GIB, 1);
    large_chunk(zeros, 9 * GIB, 3 * GIB);
    large_packed(2 * GIB + 3);
    large_packed(5 * GIB + 3);
    size_t n = 4 * GIB + 1; /* a count of 64 bits in the stream */
    if (free_memory() > n + 2 * GIB)
        large_stream(zeros, n);
    else
        skip(2, "less than 6 GiB of memory are free");
    return done();
}
