/** How an array's elements are divided into chunks, and chunks among ranks. Pure arithmetic. */
#ifndef PGASI_ARRAY_MAP_H
#define PGASI_ARRAY_MAP_H

#include <stdbool.h>
#include <stdint.h>

/** Elements are in blocks of 2^shift elements. A block that belongs to one rank is a chunk, and has
 *  the block's number. A block with a border between ranks inside is cut into pieces, and each
 *  piece is a chunk of its own. The piece at the beginning of rank r's elements is chunk n_blocks +
 *  2 r. The piece at their end is chunk n_blocks + 2 r + 1. */
typedef struct {
    uint64_t n_elems, n_blocks;
    uint32_t shift;
    int n_ranks;
    bool whole;        /* no block is cut */
    uint64_t *offsets; /* [n_ranks + 1] */
} pgasi_array_map_t;

/** Where a chunk is. */
typedef struct {
    uint64_t chunk, first, n; /* its number; its elements */
    int home;                 /* team rank */
    uint64_t index;           /* among the chunks of its home */
    bool cut;                 /* it is a piece of a block */
} pgasi_array_location_t;

/** Sets offsets so that ranks get even shares of whole blocks. */
void pgasi_array_even_offsets(uint64_t n_elems, uint32_t shift, int n_ranks, uint64_t *offsets);

/** The team rank that is the home of element i. */
int pgasi_array_home_of(const pgasi_array_map_t *map, uint64_t i);

/** The chunk of element i, which exists. */
pgasi_array_location_t pgasi_array_locate(const pgasi_array_map_t *map, uint64_t i);

/** The chunk with a number; false if there is none. */
bool pgasi_array_locate_chunk(const pgasi_array_map_t *map, uint64_t chunk,
                              pgasi_array_location_t *loc_p);

/** The same for chunks in order: *loc_p is where an earlier one is, or `cut` is true. */
static inline bool pgasi_array_locate_next(const pgasi_array_map_t *map, uint64_t chunk,
                                           pgasi_array_location_t *loc_p)
{
    uint64_t size = UINT64_C(1) << map->shift;
    if (loc_p->cut || loc_p->chunk + 1 != chunk ||
        loc_p->first + 2 * size > map->offsets[loc_p->home + 1])
        return pgasi_array_locate_chunk(map, chunk, loc_p);
    loc_p->chunk = chunk;
    loc_p->first += size;
    loc_p->index++;
    return true;
}

/** The chunk with an index among those of a rank. */
pgasi_array_location_t pgasi_array_locate_index(const pgasi_array_map_t *map, int rank,
                                                uint64_t index);

/** Whether no block is cut. */
bool pgasi_array_is_whole(const pgasi_array_map_t *map);

/** How many chunks a rank is the home of. */
uint64_t pgasi_array_n_home(const pgasi_array_map_t *map, int rank);

/** Chunk numbers are below this. */
static inline uint64_t pgasi_array_n_chunks(const pgasi_array_map_t *map)
{
    return map->n_blocks + 2 * (uint64_t)map->n_ranks;
}

#endif
