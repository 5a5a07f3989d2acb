/* The form BINARY: its header, its sections and its sums. This file uses no ranks and no log. */
#include "graph/binary.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/hash.h"
#include "base/op.h"

/* ---- sections ---- */

/* Adds a section. @return false: it would end behind max_bytes */
static bool add_section(uint64_t n, uint64_t elem_bytes, uint64_t max_bytes, uint64_t *at_p,
                        uint64_t *end_p)
{
    uint64_t at = (*end_p + 63) / 64 * 64;
    *at_p = at;
    if (n == 0 || elem_bytes == 0)
        return true;
    if (at > max_bytes || n > (max_bytes - at) / elem_bytes)
        return false;
    *end_p = at + n * elem_bytes;
    return true;
}

bool pgasi_binary_map(const pgasi_binary_header_t *header, uint64_t max_bytes,
                      pgasi_binary_map_t *map_p)
{
    uint64_t n = header->n_vertices, end = sizeof *header;
    size_t weight_bytes = pgasi_type_bytes((pgas_type_t)header->weight_type);
    size_t label_bytes = header->flags & PGASI_BINARY_LABELS ? sizeof(uint64_t) : 0;
    size_t name_bytes = header->flags & PGASI_BINARY_NAMES ? sizeof(uint64_t) : 0;
    pgasi_binary_map_t map;
    if (n >= UINT32_MAX || !add_section(n + 1, sizeof(uint64_t), max_bytes, &map.begin, &end) ||
        !add_section(header->n_edges, sizeof(uint32_t), max_bytes, &map.end, &end) ||
        !add_section(header->n_edges, weight_bytes, max_bytes, &map.weight, &end) ||
        !add_section(n, label_bytes, max_bytes, &map.label, &end) ||
        !add_section(n, name_bytes, max_bytes, &map.name, &end) ||
        !add_section(header->text_bytes, 1, max_bytes, &map.text, &end))
        return false;
    map.file_bytes = end;
    *map_p = map;
    return true;
}

/* ---- sums ---- */

uint64_t pgasi_binary_sum(uint64_t offset, const void *bytes, size_t n_bytes)
{
    uint64_t sum = 0, factor = 2 * (offset / sizeof(uint32_t)) + 1;
    const char *at = bytes;
    for (size_t i = 0; i < n_bytes / sizeof(uint32_t); i++) {
        uint32_t word;
        memcpy(&word, at + i * sizeof word, sizeof word);
        sum += word * (factor + 2 * i);
    }
    return sum;
}

uint64_t pgasi_binary_sum_text(uint64_t offset, const void *bytes, size_t n_bytes)
{
    uint64_t sum = 0;
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n_bytes; i++)
        sum += at[i] * (2 * (offset + i) + 1);
    return sum;
}

uint64_t pgasi_binary_header_sum(const pgasi_binary_header_t *header)
{
    return pgasi_hash_bytes(header, offsetof(pgasi_binary_header_t, header_sum), 0);
}

/* ---- the header ---- */

static bool known_type(uint32_t type)
{
    return type == PGAS_TYPE_NONE || type == PGAS_U32 || type == PGAS_F32 || type == PGAS_F64;
}

pgas_status_t pgasi_binary_check(const pgasi_binary_header_t *header, uint64_t file_bytes,
                                 pgasi_binary_map_t *map_p, pgasi_graph_error_t *error_p)
{
    const char *reason = NULL;
    if (memcmp(header->magic, PGASI_BINARY_MAGIC, sizeof header->magic) != 0)
        reason = "is not a graph that pgas_graph_write wrote: its first bytes are others";
    else if (header->order != PGASI_BINARY_ORDER)
        reason = "was written on a machine with another byte order: write it here";
    else if (header->version != PGASI_BINARY_VERSION)
        reason = "was written by another version of this library: write it again";
    else if (header->header_sum != pgasi_binary_header_sum(header))
        reason = "is corrupt: the checksum of its header does not match";
    else if (header->n_vertices == 0 || !known_type(header->weight_type))
        reason = "is corrupt: it has no vertices, or weights of an unknown type";
    else if (!pgasi_binary_map(header, file_bytes, map_p) || map_p->file_bytes != file_bytes)
        reason = "is truncated, or has bytes behind its end";
    return reason ? pgasi_graph_error_set(error_p, PGAS_ERR_FORMAT, 0, "%s", reason) : PGAS_OK;
}

/* ---- files ---- */

pgas_status_t pgasi_binary_pread(int fd, uint64_t offset, void *bytes, size_t n_bytes)
{
    size_t n = 0;
    while (n < n_bytes) {
        ssize_t got = pread(fd, (char *)bytes + n, n_bytes - n, (off_t)(offset + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = 0;
        if (got <= 0)
            return PGAS_ERR_IO;
        n += (size_t)got;
    }
    return PGAS_OK;
}

pgas_status_t pgasi_binary_pwrite(int fd, uint64_t offset, const void *bytes, size_t n_bytes)
{
    size_t n = 0;
    while (n < n_bytes) {
        ssize_t put = pwrite(fd, (const char *)bytes + n, n_bytes - n, (off_t)(offset + n));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return PGAS_ERR_IO;
        n += (size_t)put;
    }
    return PGAS_OK;
}
