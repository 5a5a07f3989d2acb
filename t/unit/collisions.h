/** Hashes that are equal, of which 64 bits leave none to chance. */
#ifndef T_COLLISIONS_H
#define T_COLLISIONS_H

#include <stdint.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Equal pairs; sorts. */
static int collisions(uint64_t *hashes, int n)
{
    int found = 0;
    qsort(hashes, (size_t)n, sizeof *hashes, by_value);
    for (int i = 1; i < n; i++)
        found += hashes[i] == hashes[i - 1];
    return found;
}

#endif
