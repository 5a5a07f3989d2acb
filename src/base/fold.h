/** Text for terminals. */
#ifndef PGASI_FOLD_H
#define PGASI_FOLD_H

#include <stdio.h>

#define PGASI_FOLD_COLUMNS 80

/** Writes a text and breaks its long lines at blanks. Continuation lines begin below the line's
 *  last column if enough room is left there, otherwise at the line's own indentation plus four
 *  blanks. A word is never cut. A column is a byte. */
void pgasi_fold(FILE *out, const char *text);

#endif
