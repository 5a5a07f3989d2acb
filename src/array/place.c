/* Where elements lie. Pure arithmetic but for a binary search among the offsets. */
#include "array/array.h"

#include "base/checks.h"

void pgasi_array_even_offsets(uint64_t n_elems, uint32_t shift, int n_ranks, uint64_t *offsets)
{
    uint64_t n_cells = (n_elems >> shift) + ((n_elems & ((UINT64_C(1) << shift) - 1)) != 0);
    uint64_t each = n_cells / (uint64_t)n_ranks, rest = n_cells % (uint64_t)n_ranks;
    for (int r = 0; r <= n_ranks; r++) {
        uint64_t cell = each * (uint64_t)r + PGASI_MIN((uint64_t)r, rest);
        offsets[r] = PGASI_MIN(cell << shift, n_elems);
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

static inline uint64_t cell_mask(const pgasi_array_map_t *map)
{
    return (UINT64_C(1) << map->shift) - 1;
}

static bool has_head(const pgasi_array_map_t *map, int rank)
{
    uint64_t begin = map->offsets[rank];
    return (begin & cell_mask(map)) && begin < map->offsets[rank + 1];
}

/* First whole cell, and the first behind the last whole one. */
static uint64_t first_cell(const pgasi_array_map_t *map, int rank)
{
    return (map->offsets[rank] + cell_mask(map)) >> map->shift;
}

static uint64_t end_cell(const pgasi_array_map_t *map, int rank)
{
    uint64_t end = map->offsets[rank + 1], begin = first_cell(map, rank);
    uint64_t cell = end == map->n_elems ? map->n_cells : end >> map->shift;
    return PGASI_MAX(cell, begin);
}

static bool has_tail(const pgasi_array_map_t *map, int rank)
{
    uint64_t begin = map->offsets[rank], end = map->offsets[rank + 1];
    if (begin == end || end == map->n_elems || !(end & cell_mask(map)))
        return false;
    /* all of it is the piece at the beginning */
    return !(has_head(map, rank) && begin >> map->shift == end >> map->shift);
}

uint64_t pgasi_array_n_home(const pgasi_array_map_t *map, int rank)
{
    if (map->offsets[rank] == map->offsets[rank + 1])
        return 0;
    return has_head(map, rank) + (end_cell(map, rank) - first_cell(map, rank)) +
           has_tail(map, rank);
}

static pgasi_array_place_t head_of(const pgasi_array_map_t *map, int r)
{
    uint64_t begin = map->offsets[r], end = ((begin >> map->shift) + 1) << map->shift;
    end = PGASI_MIN(end, map->offsets[r + 1]);
    return (pgasi_array_place_t){ map->n_cells + 2 * (uint64_t)r, begin, end - begin, r, 0, true };
}

static pgasi_array_place_t tail_of(const pgasi_array_map_t *map, int r)
{
    uint64_t end = map->offsets[r + 1], begin = end & ~cell_mask(map);
    uint64_t index = pgasi_array_n_home(map, r) - 1;
    return (pgasi_array_place_t){
        map->n_cells + 2 * (uint64_t)r + 1, begin, end - begin, r, index, true
    };
}

static pgasi_array_place_t cell_of(const pgasi_array_map_t *map, int r, uint64_t cell)
{
    uint64_t begin = cell << map->shift, end = PGASI_MIN(begin + cell_mask(map) + 1, map->n_elems);
    return (pgasi_array_place_t){
        cell, begin, end - begin, r, has_head(map, r) + cell - first_cell(map, r), false
    };
}

pgasi_array_place_t pgasi_array_place(const pgasi_array_map_t *map, uint64_t i)
{
    int r = pgasi_array_home_of(map, i);
    uint64_t cell = i >> map->shift;
    if (map->whole) {
        uint64_t begin = cell << map->shift,
                 end = PGASI_MIN(begin + cell_mask(map) + 1, map->n_elems);
        return (pgasi_array_place_t){
            cell, begin, end - begin, r, cell - (map->offsets[r] >> map->shift), false
        };
    }
    if (cell < first_cell(map, r))
        return head_of(map, r);
    return cell < end_cell(map, r) ? cell_of(map, r, cell) : tail_of(map, r);
}

pgasi_array_place_t pgasi_array_place_of_index(const pgasi_array_map_t *map, int rank,
                                               uint64_t index)
{
    bool head = has_head(map, rank);
    uint64_t i = head && index == 0 ? map->offsets[rank]
                                    : (first_cell(map, rank) + index - head) << map->shift;
    return pgasi_array_place(map, i);
}

bool pgasi_array_is_whole(const pgasi_array_map_t *map)
{
    for (int r = 0; r < map->n_ranks; r++)
        if ((map->offsets[r] & cell_mask(map)) && map->offsets[r] != map->n_elems)
            return false;
    return true;
}

bool pgasi_array_place_of_chunk(const pgasi_array_map_t *map, uint64_t chunk,
                                pgasi_array_place_t *place_p)
{
    if (chunk >= pgasi_array_n_chunks(map))
        return false;
    if (chunk < map->n_cells) {
        *place_p = pgasi_array_place(map, chunk << map->shift);
        return place_p->chunk == chunk;
    }
    int r = (int)((chunk - map->n_cells) / 2);
    bool tail = (chunk - map->n_cells) % 2;
    if (!(tail ? has_tail(map, r) : has_head(map, r)))
        return false;
    *place_p = tail ? tail_of(map, r) : head_of(map, r);
    return true;
}
