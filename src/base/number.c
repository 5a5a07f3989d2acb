/* Numbers with units: see number.h. */
#include "base/number.h"

#include <stdio.h>

#include "base/checks.h"

/* Divides by step until the value is below the limit, or the units end. @return the unit's index */
static size_t scale(double *value_io, double step, double limit, size_t n_units)
{
    size_t unit = 0;
    for (; *value_io >= limit && unit + 1 < n_units; unit++)
        *value_io /= step;
    return unit;
}

const char *pgasi_number_bytes(uint64_t bytes, char text[static PGASI_NUMBER_BYTES])
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    double value = (double)bytes;
    size_t unit = scale(&value, 1024, 1024, PGASI_ARRAY_LENGTH(units));
    snprintf(text, PGASI_NUMBER_BYTES, unit && value < 100 ? "%.1f %s" : "%.0f %s", value,
             units[unit]);
    return text;
}

const char *pgasi_number_count(double count, char text[static PGASI_NUMBER_BYTES])
{
    static const char *const units[] = { "", " k", " M", " G", " T", " P", " E" };
    /* printf rounds 999.5 to 1e+03 */
    size_t unit = scale(&count, 1000, 999.5, PGASI_ARRAY_LENGTH(units));
    snprintf(text, PGASI_NUMBER_BYTES, "%.3g%s", count, units[unit]);
    return text;
}
