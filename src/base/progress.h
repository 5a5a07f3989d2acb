/** Progress of a long phase as text. This header has the pure part, which formats the text;
 *  pgas_progress_show (pgas/info.h) prints it. */
#ifndef PGASI_PROGRESS_H
#define PGASI_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#define PGASI_PROGRESS_TEXT_BYTES 256

typedef struct {
    const char *phase, *note; /* note: may be NULL */
    uint64_t done, total;     /* total 0: unknown */
    uint64_t first;           /* value of done when the phase began */
    double seconds;           /* time since the phase began */
} pgasi_progress_t;

/** Formats "read: 45 %, 12.3 M/s, 4 s left; NOTE", or with an unknown total "read: 5.1 M, 12.3 M/s,
 *  4 s so far".
 *  @return text. */
const char *pgasi_progress_line(const pgasi_progress_t *p, char text[PGASI_PROGRESS_TEXT_BYTES]);

/** Formats "read [#####     ] 45 %, 4 s left; NOTE". @return text. */
const char *pgasi_progress_bar(const pgasi_progress_t *p, char text[PGASI_PROGRESS_TEXT_BYTES]);

/** Formats "interrupted in read at 45 % after 4 s". @return text. */
const char *pgasi_progress_epitaph(const pgasi_progress_t *p, char text[PGASI_PROGRESS_TEXT_BYTES]);

#endif
