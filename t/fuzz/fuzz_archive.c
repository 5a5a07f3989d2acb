/* what: Any bytes may be given to pgas_archive_from_bytes, and any bytes may be the stream of an
 *       archive that arrives. Readers give values within the bytes, or one error that stays, and
 *       take no more memory than the bytes can need.
 * source: pgas/archive.h; libFuzzer
 * Input: a byte that picks packed bytes or a stream and chunks, the number of calls, a byte for
 *        each call that says what to read, then the bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "archive/archive.h"
#include "t/fuzz/require.h"

#define N_CHUNKS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static unsigned touched; /* so that reads of the values are not left out */

static void touch(const void *at, size_t bytes)
{
    const unsigned char *byte = at;
    for (size_t i = 0; i < bytes; i++)
        touched += byte[i];
}

static void check_string(pgas_archive_t *in)
{
    const char *text;
    if (pgas_archive_get_string(in, &text) == PGAS_OK && text)
        touch(text, strlen(text) + 1);
}

static void check_object(pgas_archive_t *in)
{
    pgas_rma_object_t *object;
    size_t n;
    if (pgas_archive_get_object(in, &object, &n) != PGAS_OK)
        return;
    require(object ? n <= object->bytes : n == 0, "an object has its bytes");
    if (object)
        touch(object->data, n);
    (void)pgas_rma_object_destroy(object);
}

static void check_vector(pgas_archive_t *in, size_t elem_bytes)
{
    const void *at;
    size_t n;
    if (pgas_archive_get_vector(in, elem_bytes, &at, &n) != PGAS_OK)
        return;
    require((n == 0) == !at, "no elements have no address");
    touch(at, n * elem_bytes);
}

static void check_count(pgas_archive_t *in, size_t least_bytes)
{
    size_t n;
    void *memory;
    if (pgas_archive_get_count(in, least_bytes, &n) != PGAS_OK)
        return;
    require(n <= (size_t)(in->get_end - in->get_at) / least_bytes, "a count fits the rest");
    require(pgas_archive_alloc(in, n * 64, &memory) == PGAS_OK, "its values have memory");
    memset(memory, 1, n * 64);
}

/* Any number of bytes up to 2^64 - 1, to be refused if it is too much. */
static void check_alloc(pgas_archive_t *in, unsigned bits)
{
    void *memory;
    size_t bytes = SIZE_MAX >> (bits % 64);
    if (pgas_archive_alloc(in, bytes, &memory) == PGAS_OK)
        require(bytes < (size_t)1 << 32, "memory is limited");
}

static void read_one(pgas_archive_t *in, uint8_t how)
{
    static const size_t sizes[] = { 1, 2, 3, 4, 8, 16, 24, 1000, (size_t)1 << 31, SIZE_MAX / 2 };
    char bytes[64];
    switch (how % 8) {
    case 0:
        if (pgas_archive_get(in, bytes, how / 8) == PGAS_OK)
            touch(bytes, how / 8);
        break;
    case 1:
        check_string(in);
        break;
    case 2:
        check_object(in);
        break;
    case 3:
        check_count(in, sizes[how / 8 % 7]);
        break;
    case 4:
        check_alloc(in, how / 8 * 2);
        break;
    default:
        check_vector(in, sizes[how / 8 % (sizeof sizes / sizeof sizes[0])]);
    }
}

static void read_all(pgas_archive_t *in, const uint8_t *how, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pgas_status_t before = in->status;
        read_one(in, how[i]);
        require(before == PGAS_OK || in->status == before, "the first error stays");
        require(in->get_at >= in->begin && in->get_at <= in->get_end &&
                    in->next_chunk <= in->n_chunks,
                "readers stay within the archive");
    }
    require(pgas_archive_free(in) == PGAS_OK, "a reader ends");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    pgas_archive_t in;
    size_t n_calls;
    if (n_bytes < 2 || n_bytes < 2 + (n_calls = data[1] % 64))
        return 0;
    const uint8_t *how = data + 2;
    size_t n = n_bytes - 2 - n_calls;
    /* exact, so that the sanitizer sees a byte too many */
    char *bytes = NULL;
    if (posix_memalign((void **)&bytes, 16, n + (n == 0)))
        return 0;
    if (n)
        memcpy(bytes, how + n_calls, n);
    if (data[0] % 2 == 0) {
        if (pgas_archive_from_bytes(bytes, n, &in) == PGAS_OK)
            read_all(&in, how, n_calls);
    } else {
        char content[N_CHUNKS][8] = { "one", "two", "three" };
        pgas_archive_chunk_t chunk[N_CHUNKS];
        for (int i = 0; i < N_CHUNKS; i++)
            chunk[i] = (pgas_archive_chunk_t){ content[i], (size_t)(i * 4), NULL };
        pgasi_archive_read(&in, bytes, n, chunk, N_CHUNKS, 0);
        read_all(&in, how, n_calls);
    }
    free(bytes);
    return 0;
}
