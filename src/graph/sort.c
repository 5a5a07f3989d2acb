/* Radix sort from the lowest digit: 11 bits at a time for many values, 8 bits for some, whose
 * counters stay in the first cache; insertion for a few. The rows of a graph are 10 to 1000 values
 * long on average, so that the counters cost as much as the values. */
#include "graph/sort.h"

#include <string.h>

#define FEW       24   /* values for which insertion is faster */
#define SOME      4000 /* for which digits of 8 bits are faster */
#define RADIX_MAX (1u << 11)

/* Turns the number of each digit into the first place of each digit. */
static void make_places(uint64_t *n_of, uint32_t radix)
{
    uint64_t place = 0;
    for (uint32_t digit = 0; digit < radix; digit++) {
        uint64_t n = n_of[digit];
        n_of[digit] = place;
        place += n;
    }
}

pgasi_keyed_t *pgasi_sort_keyed(pgasi_keyed_t *keyed, pgasi_keyed_t *scratch, uint64_t n,
                                uint64_t limit)
{
    int bits = n <= SOME ? 8 : 11;
    uint32_t radix = 1u << bits;
    uint64_t place[RADIX_MAX];
    for (int shift = 0; shift < 64 && (limit - 1) >> shift != 0; shift += bits) {
        memset(place, 0, radix * sizeof *place);
        for (uint64_t i = 0; i < n; i++)
            place[keyed[i].key >> shift & (radix - 1)]++;
        make_places(place, radix);
        for (uint64_t i = 0; i < n; i++)
            scratch[place[keyed[i].key >> shift & (radix - 1)]++] = keyed[i];
        pgasi_keyed_t *sorted = scratch;
        scratch = keyed;
        keyed = sorted;
    }
    return keyed;
}

static void insert_all(uint32_t *values, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++) {
        uint32_t value = values[i];
        uint64_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

void pgasi_sort_u32(uint32_t *values, uint32_t *scratch, uint64_t n, uint64_t limit)
{
    uint32_t *from = values, *to = scratch;
    int bits = n <= SOME ? 8 : 11;
    uint32_t radix = 1u << bits;
    uint64_t place[RADIX_MAX];
    if (n <= FEW) {
        insert_all(values, n);
        return;
    }
    for (int shift = 0; shift < 32 && (limit - 1) >> shift != 0; shift += bits) {
        memset(place, 0, radix * sizeof *place);
        for (uint64_t i = 0; i < n; i++)
            place[from[i] >> shift & (radix - 1)]++;
        make_places(place, radix);
        for (uint64_t i = 0; i < n; i++)
            to[place[from[i] >> shift & (radix - 1)]++] = from[i];
        uint32_t *sorted = to;
        to = from;
        from = sorted;
    }
    if (from != values)
        memcpy(values, from, n * sizeof *values);
}
