/* what: A header of the form BINARY may be any bytes. It is accepted only if the sections that it
 *       describes are inside the file, and cover it.
 * source: src/graph/binary.h; public headers; libFuzzer
 * Input: the header, then the size of the file. The checksum of the header is made good. */
#include <string.h>
#include "graph/binary.h"
#include "t/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    pgasi_graph_error_t error = { .status = PGAS_OK };
    pgasi_binary_header_t header;
    pgasi_binary_map_t map = { .begin = 0 };
    uint64_t size;
    if (n_bytes < sizeof header + sizeof size)
        return 0;
    memcpy(&header, data, sizeof header);
    memcpy(&size, data + sizeof header, sizeof size);
    if (data[0] % 2) { /* most bytes of the header are good */
        memcpy(header.magic, PGASI_BINARY_MAGIC, sizeof header.magic);
        header.version = PGASI_BINARY_VERSION;
        header.order = PGASI_BINARY_ORDER;
    }
    header.header_sum = pgasi_binary_header_sum(&header);
    if (data[0] & 2 && pgasi_binary_map(&header, INT64_MAX, &map))
        size = map.file_bytes;
    pgas_status_t status = pgasi_binary_check(&header, size, &map, &error);
    require((status == PGAS_OK) == (error.text[0] == '\0'), "a refusal has a reason");
    if (status != PGAS_OK)
        return 0;
    uint64_t n = header.n_vertices, m = header.n_edges;
    require(n > 0 && n < UINT32_MAX && map.begin >= sizeof header && map.file_bytes == size,
            "the header is before the sections");
    require(n < size / 8 && map.begin <= size - 8 * (n + 1), "the begins are in the file");
    require(m <= size / 4 && (m == 0 || map.end <= size - 4 * m), "the ends are in the file");
    require(!(header.flags & PGASI_BINARY_LABELS) || map.label <= size - 8 * n, "the labels are");
    require(!(header.flags & PGASI_BINARY_NAMES) || map.name <= size - 8 * n, "the names are");
    require(header.text_bytes <= size &&
                (header.text_bytes == 0 || map.text <= size - header.text_bytes),
            "the text is");
    return 0;
}
