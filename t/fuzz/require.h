/* The check of fuzz targets. abort() is what libFuzzer reports, with the input that led to it. */
#ifndef T_FUZZ_REQUIRE_H
#define T_FUZZ_REQUIRE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void require(bool good, const char *promise)
{
    if (!good) {
        fprintf(stderr, "broken promise: %s\n", promise);
        abort();
    }
}

#endif
