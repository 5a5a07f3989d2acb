/** Numbers with units, for people. */
#ifndef PGASI_NUMBER_H
#define PGASI_NUMBER_H

#include <stdint.h>

#define PGASI_NUMBER_BYTES 24

/** Formats a number of bytes as "1.5 GiB". @return text */
const char *pgasi_number_bytes(uint64_t bytes, char text[static PGASI_NUMBER_BYTES]);

/** Formats 1234567 as "1.23 M". @return text */
const char *pgasi_number_count(double count, char text[static PGASI_NUMBER_BYTES]);

#endif
