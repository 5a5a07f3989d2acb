/* Where elements are. Pure arithmetic, and a binary search among the offsets. */
#include "array/map.h"

#include "base/checks.h"

void pgasi_array_even_offsets(uint64_t n_elems, uint32_t shift, int n_ranks, uint64_t *offsets)
{
    uint64_t n_blocks = (n_elems >> shift) + ((n_elems & ((UINT64_C(1) << shift) - 1)) != 0);
    uint64_t each = n_blocks / (uint64_t)n_ranks, rest = n_blocks % (uint64_t)n_ranks;
    for (int r = 0; r <= n_ranks; r++) {
        uint64_t block = each * (uint64_t)r + PGASI_MIN((uint64_t)r, rest);
        offsets[r] = PGASI_MIN(block << shift, n_elems);
    }
}

int pgasi_array_home_of(const pgasi_array_map_t *map, uint64_t i)
{
    /* the last rank that begins at or before i and is not empty */
    int low = 0, high = map->n_ranks - 1;
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (map->offsets[middle] <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static inline uint64_t block_mask(const pgasi_array_map_t *map)
{
    return (UINT64_C(1) << map->shift) - 1;
}

static bool has_head(const pgasi_array_map_t *map, int rank)
{
    uint64_t begin = map->offsets[rank];
    return (begin & block_mask(map)) && begin < map->offsets[rank + 1];
}

/* The first whole block, and the block after the last whole one. */
static uint64_t first_block(const pgasi_array_map_t *map, int rank)
{
    return (map->offsets[rank] + block_mask(map)) >> map->shift;
}

static uint64_t end_block(const pgasi_array_map_t *map, int rank)
{
    uint64_t end = map->offsets[rank + 1], begin = first_block(map, rank);
    uint64_t block = end == map->n_elems ? map->n_blocks : end >> map->shift;
    return PGASI_MAX(block, begin);
}

static bool has_tail(const pgasi_array_map_t *map, int rank)
{
    uint64_t begin = map->offsets[rank], end = map->offsets[rank + 1];
    if (begin == end || end == map->n_elems || !(end & block_mask(map)))
        return false;
    /* all of it is the piece at the beginning */
    return !(has_head(map, rank) && begin >> map->shift == end >> map->shift);
}

uint64_t pgasi_array_n_home(const pgasi_array_map_t *map, int rank)
{
    if (map->offsets[rank] == map->offsets[rank + 1])
        return 0;
    return has_head(map, rank) + (end_block(map, rank) - first_block(map, rank)) +
           has_tail(map, rank);
}

static pgasi_array_location_t piece(const pgasi_array_map_t *map, int r, bool tail, uint64_t begin,
                                    uint64_t end)
{
    return (pgasi_array_location_t){ .chunk = map->n_blocks + 2 * (uint64_t)r + tail,
                                     .first = begin,
                                     .n = end - begin,
                                     .home = r,
                                     .index = tail ? pgasi_array_n_home(map, r) - 1 : 0,
                                     .cut = true };
}

static pgasi_array_location_t head_of(const pgasi_array_map_t *map, int r)
{
    uint64_t begin = map->offsets[r], end = ((begin >> map->shift) + 1) << map->shift;
    return piece(map, r, false, begin, PGASI_MIN(end, map->offsets[r + 1]));
}

static pgasi_array_location_t tail_of(const pgasi_array_map_t *map, int r)
{
    uint64_t end = map->offsets[r + 1];
    return piece(map, r, true, end & ~block_mask(map), end);
}

static pgasi_array_location_t block_of(const pgasi_array_map_t *map, int r, uint64_t block,
                                       uint64_t index)
{
    uint64_t begin = block << map->shift;
    uint64_t end = PGASI_MIN(begin + block_mask(map) + 1, map->n_elems);
    return (pgasi_array_location_t){
        .chunk = block, .first = begin, .n = end - begin, .home = r, .index = index, .cut = false
    };
}

/* Inline in the two functions that every miss calls. */
PGAS_INLINE pgasi_array_location_t locate(const pgasi_array_map_t *map, uint64_t i)
{
    int r = pgasi_array_home_of(map, i);
    uint64_t block = i >> map->shift;
    if (map->whole)
        return block_of(map, r, block, block - (map->offsets[r] >> map->shift));
    if (block < first_block(map, r))
        return head_of(map, r);
    if (block >= end_block(map, r))
        return tail_of(map, r);
    return block_of(map, r, block, has_head(map, r) + block - first_block(map, r));
}

pgasi_array_location_t pgasi_array_locate(const pgasi_array_map_t *map, uint64_t i)
{
    return locate(map, i);
}

pgasi_array_location_t pgasi_array_locate_index(const pgasi_array_map_t *map, int rank,
                                                uint64_t index)
{
    bool head = has_head(map, rank);
    uint64_t i = head && index == 0 ? map->offsets[rank]
                                    : (first_block(map, rank) + index - head) << map->shift;
    return pgasi_array_locate(map, i);
}

bool pgasi_array_is_whole(const pgasi_array_map_t *map)
{
    for (int r = 0; r < map->n_ranks; r++)
        if ((map->offsets[r] & block_mask(map)) && map->offsets[r] != map->n_elems)
            return false;
    return true;
}

bool pgasi_array_locate_chunk(const pgasi_array_map_t *map, uint64_t chunk,
                              pgasi_array_location_t *loc_p)
{
    if (chunk >= pgasi_array_n_chunks(map))
        return false;
    if (chunk < map->n_blocks) {
        *loc_p = locate(map, chunk << map->shift);
        return loc_p->chunk == chunk;
    }
    int r = (int)((chunk - map->n_blocks) / 2);
    bool tail = (chunk - map->n_blocks) % 2;
    if (!(tail ? has_tail(map, r) : has_head(map, r)))
        return false;
    *loc_p = tail ? tail_of(map, r) : head_of(map, r);
    return true;
}
