/** Text for terminals. */
#ifndef PGASI_FOLD_H
#define PGASI_FOLD_H

#include <stdio.h>

#define PGASI_FOLD_COLUMNS 80

/** Write a text and break its long lines at blanks. What follows goes below the last column of the line, where that leaves
 *  enough room, otherwise behind the line's own indentation and four blanks. Words are never cut. Columns are bytes. */
void pgasi_fold(FILE *out, const char *text);

#endif
