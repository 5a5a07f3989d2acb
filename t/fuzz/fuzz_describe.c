/* what: Any bytes may follow the checksum of a described value. Loading and viewing give a value
 *       that can be read, compared, saved and freed, or an error and an empty value.
 * source: pgas/describe.h; libFuzzer
 * Input: a byte that picks the type and the way, then the stream behind the checksum and the name.
 * */
#include "archive/archive.h"
#include "t/fuzz/require.h"
#include "t/unit/describe_types.h"

#define N_CHUNKS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static FILE *nowhere;

/* The bytes of stream and chunks. */
static size_t bytes_of(const pgas_archive_t *out)
{
    size_t bytes = pgasi_archive_stream_bytes(out);
    for (size_t i = 0; i < out->n_chunks; i++)
        bytes += out->chunk[i].bytes;
    return bytes;
}

/* Loads or views a value, and uses it. */
#define USE(name)                                                                                 \
    static void use_##name(pgas_archive_t *in, unsigned way)                                      \
    {                                                                                             \
        name##_t v, w;                                                                            \
        pgas_arena_t arena = PGAS_ARENA_INIT;                                                     \
        pgas_archive_t again = PGAS_ARCHIVE_INIT, reread;                                         \
        memset(&v, 0xab, sizeof v);                                                               \
        pgas_status_t status = way == 0   ? pgas_load_##name(in, NULL, &v)                        \
                               : way == 1 ? pgas_load_##name(in, &arena, &v)                      \
                                          : pgas_view_##name(in, &v);                             \
        require((status == PGAS_OK) == (in->status == PGAS_OK), "an error stays in the archive"); \
        if (status == PGAS_OK) {                                                                  \
            pgas_print_##name(nowhere, &v);                                                       \
            require(pgas_save_##name(&again, &v) == PGAS_OK, "what was read can be saved");       \
            require(pgas_archive_from(&again, &reread) == PGAS_OK &&                              \
                        pgas_view_##name(&reread, &w) == PGAS_OK && pgas_equal_##name(&v, &w),    \
                    "and is the same then");                                                      \
            pgas_drop_##name(&w);                                                                 \
            require(pgas_size_##name(&v) == bytes_of(&again), "and has a size");                  \
            (void)pgas_archive_free(&reread);                                                     \
            (void)pgas_archive_free(&again);                                                      \
        }                                                                                         \
        if (way == 0)                                                                             \
            pgas_free_##name(&v);                                                                 \
        else                                                                                      \
            pgas_drop_##name(&v);                                                                 \
        (void)pgas_arena_free(&arena);                                                            \
    }
USE(all)
USE(tree)
USE(word)

static const struct {
    const char *name;
    uint64_t (*checksum)(void);
    void (*use)(pgas_archive_t *in, unsigned way);
} type[] = { { "all", pgas_checksum_all, use_all },
             { "tree", pgas_checksum_tree, use_tree },
             { "word", pgas_checksum_word, use_word } };
#define N_TYPES (sizeof type / sizeof type[0])

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (!n_bytes)
        return 0;
    if (!nowhere && !(nowhere = fopen("/dev/null", "w")))
        return 0;
    unsigned how = data[0] % N_TYPES, way = data[0] / N_TYPES % 3;
    uint32_t length = (uint32_t)strlen(type[how].name);
    uint64_t sum = type[how].checksum();
    size_t head = sizeof sum + sizeof length + length, n = head + n_bytes - 1;
    char *bytes = NULL; /* exact, so that the sanitizer sees a byte too many */
    if (posix_memalign((void **)&bytes, 16, n))
        return 0;
    memcpy(bytes, &sum, sizeof sum);
    memcpy(bytes + sizeof sum, &length, sizeof length);
    memcpy(bytes + sizeof sum + sizeof length, type[how].name, length);
    memcpy(bytes + head, data + 1, n_bytes - 1);
    char content[N_CHUNKS][16] __attribute__((aligned(16))) = { "one", "two", "three" };
    pgas_archive_chunk_t chunk[N_CHUNKS];
    for (int i = 0; i < N_CHUNKS; i++)
        chunk[i] = (pgas_archive_chunk_t){ content[i], (size_t)(8 * i), NULL };
    pgas_archive_t in;
    pgasi_archive_read(&in, bytes, n, chunk, N_CHUNKS, 0);
    type[how].use(&in, way);
    (void)pgas_archive_free(&in);
    free(bytes);
    return 0;
}
