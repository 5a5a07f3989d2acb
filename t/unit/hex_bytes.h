/** Bytes that a test names by their digits. */
#ifndef T_HEX_BYTES_H
#define T_HEX_BYTES_H

#include <stdio.h>

/* Blanks in the text are skipped. @return how many bytes */
static inline size_t from_hex(const char *text, unsigned char *out)
{
    size_t n = 0;
    for (; *text != '\0'; text++) {
        if (*text == ' ')
            continue;
        unsigned byte = 0;
        sscanf(text, "%2x", &byte);
        out[n++] = (unsigned char)byte;
        text++;
    }
    return n;
}

#endif
