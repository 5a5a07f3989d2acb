/* what: Every element is in the chunk that its index leads to, for even shares, shares that cut
 *       blocks, and ranks without elements. The look-up of chunks in order finds the same places
 *       as the look-up of each.
 * source: src/array/map.h; the model is a search among the offsets */
#include "array/map.h"
#include "base/rng.h"
#include "t/tap.h"

enum { N_MAPS = 300, RANKS_MAX = 6, SHIFT_MAX = 4, ELEMS_MAX = 200 };

typedef struct {
    pgasi_array_map_t map;
    uint64_t offsets[RANKS_MAX + 1];
} drawn_t;

static void sort(uint64_t *x, int n)
{
    for (int j = 1; j < n; j++)
        for (int k = j; k > 0 && x[k - 1] > x[k]; k--) {
            uint64_t was = x[k];
            x[k] = x[k - 1];
            x[k - 1] = was;
        }
}

static void draw(pgasi_rng_t *rng, drawn_t *d)
{
    pgasi_array_map_t *map = &d->map;
    *map = (pgasi_array_map_t){ .n_elems = pgasi_rng_below(rng, ELEMS_MAX),
                                .shift = (uint32_t)pgasi_rng_below(rng, SHIFT_MAX + 1),
                                .n_ranks = 1 + (int)pgasi_rng_below(rng, RANKS_MAX),
                                .offsets = d->offsets };
    uint64_t size = UINT64_C(1) << map->shift;
    map->n_blocks = (map->n_elems + size - 1) / size;
    d->offsets[0] = 0;
    d->offsets[map->n_ranks] = map->n_elems;
    for (int r = 1; r < map->n_ranks; r++)
        d->offsets[r] = pgasi_rng_below(rng, map->n_elems + 1);
    sort(d->offsets, map->n_ranks + 1);
    if (pgasi_rng_below(rng, 2))
        pgasi_array_even_offsets(map->n_elems, map->shift, map->n_ranks, d->offsets);
    map->whole = pgasi_array_is_whole(map);
}

static bool is_same(const pgasi_array_location_t *a, const pgasi_array_location_t *b)
{
    return a->chunk == b->chunk && a->first == b->first && a->n == b->n && a->home == b->home &&
           a->index == b->index && a->cut == b->cut;
}

/* Elements that their chunk does not contain, or that have another home. */
static int wrong_elements(const pgasi_array_map_t *map)
{
    int n = 0;
    for (uint64_t i = 0; i < map->n_elems; i++) {
        pgasi_array_location_t by_element = pgasi_array_locate(map, i), by_chunk, by_index;
        int home = 0;
        while (map->offsets[home + 1] <= i)
            home++;
        by_index = pgasi_array_locate_index(map, home, by_element.index);
        bool good = by_element.home == home && i - by_element.first < by_element.n &&
                    pgasi_array_locate_chunk(map, by_element.chunk, &by_chunk) &&
                    is_same(&by_element, &by_chunk) && is_same(&by_element, &by_index);
        n += !good;
    }
    return n;
}

/* Chunks in order, of which some are left out, that are not where each look-up finds them. */
static int wrong_in_order(const pgasi_array_map_t *map, pgasi_rng_t *rng, bool breaks)
{
    pgasi_array_location_t next = { .cut = true }, each;
    int n = 0;
    for (uint64_t chunk = 0; chunk < pgasi_array_n_chunks(map); chunk++) {
        if (pgasi_rng_below(rng, 8) == 0)
            continue;
        bool found = pgasi_array_locate_next(map, chunk, &next);
        bool exists = pgasi_array_locate_chunk(map, chunk, &each);
        n += found != exists || (found && !is_same(&next, &each));
        next.index += breaks;
    }
    return n;
}

int main(void)
{
    uint64_t seed = tap_seed(5);
    int n_elements = 0, n_chunks = 0, n_broken = 0;
    pgasi_rng_t rng;
    plan(3);
    pgasi_rng_seed(&rng, seed);
    for (int k = 0; k < N_MAPS; k++) {
        drawn_t d;
        draw(&rng, &d);
        n_elements += wrong_elements(&d.map);
        n_chunks += wrong_in_order(&d.map, &rng, false);
        n_broken += wrong_in_order(&d.map, &rng, true);
    }
    is_int(n_elements, 0, "elements are in the chunks that their index leads to");
    is_int(n_chunks, 0, "chunks in order are where each is found");
    ok(n_broken > 0, "a wrong index would be noticed");
    return done();
}
