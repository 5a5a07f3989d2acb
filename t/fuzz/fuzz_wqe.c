/* what: whatever stands in a send queue, the decoder reads inside of the ring alone, and what it takes is whole
 * source: verbs_backend/wqe.h; libFuzzer
 * Input: a byte for the ring's length, two for the block, then the ring. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "verbs_backend/wqe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void require(bool good, const char *promise)
{
    if (!good) {
        fprintf(stderr, "fuzz_wqe: broken promise: %s\n", promise);
        abort();
    }
}

static void read_payload(const unsigned char *ring, size_t ring_bytes, uint32_t block, const pgasi_wqe_t *wqe)
{
    size_t bytes = (size_t)wqe->segments * PGASI_WQE_SEGMENT;
    require(wqe->segments > 0 && bytes <= ring_bytes, "an entry fits into its ring");
    require((size_t)wqe->data_at + wqe->n_data <= wqe->segments, "data segments are the entry's");
    require(!wqe->is_inline || wqe->inline_at + (size_t)wqe->inline_bytes <= bytes, "inline data are the entry's");
    for (unsigned k = 0; k < wqe->n_data; k++)
        require(pgasi_wqe_data(ring, ring_bytes, block, wqe, k).bytes - 1 < PGASI_WQE_INLINE, "a span has 1 byte to 2 GiB");
    if (wqe->is_inline) {
        unsigned char *copy = malloc(wqe->inline_bytes + 1u);
        pgasi_wqe_copy_out(ring, ring_bytes, (size_t)block * PGASI_WQE_BB + wqe->inline_at, copy, wqe->inline_bytes);
        free(copy);
    }
}

static void decode(const uint8_t *data, size_t n_bytes)
{
    size_t ring_bytes = (size_t)PGASI_WQE_BB << data[0] % 6;
    uint32_t block = (uint32_t)data[1] | (uint32_t)data[2] << 28;
    unsigned char *ring = calloc(1, ring_bytes); /* exact, so that the sanitizer sees the byte behind */
    pgasi_wqe_t wqe;
    n_bytes -= 3;
    memcpy(ring, data + 3, n_bytes < ring_bytes ? n_bytes : ring_bytes);
    if (pgasi_wqe_decode(ring, ring_bytes, block, &wqe))
        read_payload(ring, ring_bytes, block, &wqe);
    free(ring);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    if (n_bytes > 3)
        decode(data, n_bytes);
    return 0;
}
