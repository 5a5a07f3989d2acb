/* what: Decompression may get any bytes. It ends with a status, and a refusal has a reason. Cutting
 *       the bytes into pieces makes no difference.
 * source: public headers; libFuzzer
 * Input: a byte that says where to cut, then a byte that says how it is compressed. */
#include <stdlib.h>
#include <string.h>
#include "base/checks.h"
#include "base/hash.h"
#include "graph/unpack.h"
#include "t/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

#define OUT_MAX (1u << 20) /* a few bytes can become very many */

/* Returns a sum of the result and its length. */
static uint64_t unpack(pgasi_pack_t kind, const uint8_t *data, size_t n_bytes, size_t step,
                       size_t room, pgasi_graph_error_t *error)
{
    pgasi_unpack_t unpack;
    uint64_t sum = 0;
    size_t at = 0, n_out = 0, used = 0, given = 1;
    char *out = (char *)malloc(room);
    pgas_status_t status = pgasi_unpack_init(&unpack, kind, error);
    while (status == PGAS_OK && n_out < OUT_MAX && (at < n_bytes || given > 0)) {
        size_t n = n_bytes - at < step ? n_bytes - at : step;
        char *in = (char *)malloc(n + (n == 0));
        memcpy(in, data + at, n);
        status = pgasi_unpack_run(&unpack, in, n, &used, out, room, &given, error);
        free(in);
        if (status != PGAS_OK)
            break;
        require(used <= n && given <= room, "it stays in its bounds");
        require(used + given > 0 || n == 0, "it goes on");
        for (size_t i = 0; i < given; i++)
            sum = sum * 31 + (uint8_t)out[i];
        at += used;
        n_out += given;
    }
    if (status == PGAS_OK && n_out < OUT_MAX)
        pgasi_unpack_finish(&unpack, error);
    pgasi_unpack_fini(&unpack);
    free(out);
    return n_out < OUT_MAX && status == PGAS_OK ? sum + n_out : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    pgasi_graph_error_t a = { .status = PGAS_OK }, b = { .status = PGAS_OK };
    if (n_bytes < 2)
        return 0;
    pgasi_pack_t kind = data[1] % 2 ? PGASI_PACK_GZIP : PGASI_PACK_ZSTD;
    size_t step = 1 + data[0];
    uint64_t sum_a = unpack(kind, data + 2, n_bytes - 2, n_bytes, 65536, &a);
    uint64_t sum_b = unpack(kind, data + 2, n_bytes - 2, step, 1 + step * 3, &b);
    require((a.status == PGAS_OK) == (a.text[0] == '\0'), "a refusal has a reason");
    if (a.status == PGAS_OK && b.status == PGAS_OK)
        require(sum_a == sum_b || sum_a == 0 || sum_b == 0, "cuts make no difference");
    return 0;
}
