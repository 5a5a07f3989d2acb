/** Binary forms of graphs: the one of pgas_graph_write, and GAP's serialized graphs.
 *
 *  A file of the form BINARY is a header and sections. The rows of all vertices follow each other
 *  by number:
 *      begin   [n_vertices + 1] of 64 bits: the edges of vertex v are begin[v] .. begin[v + 1] - 1
 *      end     [n_edges] of 32 bits: vertex numbers. In a row, vertices with longer rows come
 *              first; of equal rows those with lower numbers. On one rank this is the order of
 *              ids, so a rank that reads the file need not sort
 *      weight  [n_edges] of weight_type
 *      label   [n_vertices] of 64 bits
 *      name    [n_vertices] of 64 bits: where each name ends in the text
 *      text    of all names
 *  All numbers have the byte order of the machine that wrote it. Sections begin at multiples of 64
 *  bytes; weight, label, name and text exist if the header says so. */
#ifndef PGASI_GRAPH_BINARY_H
#define PGASI_GRAPH_BINARY_H

#include "graph/build.h"
#include "graph/source.h"

#define PGASI_BINARY_VERSION 1
#define PGASI_BINARY_ORDER   0x01020304

enum { PGASI_BINARY_DIRECTED = 1, PGASI_BINARY_LABELS = 2, PGASI_BINARY_NAMES = 4 };

typedef struct {
    char magic[8]; /* PGASI_BINARY_MAGIC */
    uint32_t version, order;
    uint64_t n_vertices, n_edges;
    uint32_t flags, weight_type;
    uint64_t text_bytes;
    uint64_t contents_sum; /* of the sections, see pgasi_binary_sum */
    uint64_t header_sum;   /* of all before it */
} pgasi_binary_header_t;

/** Where the sections are. A section that does not exist has no bytes. */
typedef struct {
    uint64_t begin, end, weight, label, name, text; /* offsets */
    uint64_t file_bytes;
} pgasi_binary_map_t;

/** Finds the sections.
 *  @return false: the numbers of the header do not fit a file of max_bytes. */
bool pgasi_binary_map(const pgasi_binary_header_t *header, uint64_t max_bytes,
                      pgasi_binary_map_t *map_p);

/** Checks a header against the size of its file. @return PGAS_OK or the status of *error_p */
pgas_status_t pgasi_binary_check(const pgasi_binary_header_t *header, uint64_t file_bytes,
                                 pgasi_binary_map_t *map_p, pgasi_graph_error_t *error_p);

/** The sum of the header. */
uint64_t pgasi_binary_header_sum(const pgasi_binary_header_t *header);

/** A sum over bytes at an offset of the file, both multiples of 4. The sums of parts add up to the
 *  sum of the whole. A change of one word changes the sum. */
uint64_t pgasi_binary_sum(uint64_t offset, const void *bytes, size_t n_bytes);
/** The same for the text of names, at any offset. */
uint64_t pgasi_binary_sum_text(uint64_t offset, const void *bytes, size_t n_bytes);

/** Reads or writes all bytes at an offset.
 *  @return PGAS_OK, or PGAS_ERR_IO: errno is the reason, 0 at the end of the file */
pgas_status_t pgasi_binary_pread(int fd, uint64_t offset, void *bytes, size_t n_bytes);
pgas_status_t pgasi_binary_pwrite(int fd, uint64_t offset, const void *bytes, size_t n_bytes);

/** Reads a file of the form SG or BINARY. Collective; logs errors. */
pgas_status_t pgasi_binary_read(const pgasi_source_info_t *info, pgasi_build_t *build,
                                pgas_graph_t **graph_p);

#endif
