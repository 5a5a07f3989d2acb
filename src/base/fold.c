/* Wraps lines for reading on a terminal. Two blanks or more end a column. Everything but the output
 * is pure. */
#include "base/fold.h"

#include <string.h>

#define ROOM_MIN 24 /* least columns for the text of a continuation line */

/* Returns the column at which continuation lines begin. */
static int continuation(const char *line, int length)
{
    int indent = (int)strspn(line, " "), last = 0;
    for (int i = indent + 2; i < length; i++)
        if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ')
            last = i;
    return last > 0 && last <= PGASI_FOLD_COLUMNS - ROOM_MIN ? last : indent + 4;
}

/* Returns the length that fits. It ends at the last blank within the room, or at the first blank
 * after it. */
static int fitting(const char *text, int length, int from, int room)
{
    if (length <= room)
        return length;
    for (int i = room; i > from; i--)
        if (text[i] == ' ')
            return i;
    for (int i = room; i < length; i++)
        if (text[i] == ' ')
            return i;
    return length;
}

static void fold_line(FILE *out, const char *line, int length)
{
    int indent = continuation(line, length),
        done = fitting(line, length, indent, PGASI_FOLD_COLUMNS);
    fprintf(out, "%.*s\n", done, line);
    while (done < length) {
        done += (int)strspn(line + done, " ");
        int n = fitting(line + done, length - done, 0, PGASI_FOLD_COLUMNS - indent);
        fprintf(out, "%*s%.*s\n", indent, "", n, line + done);
        done += n;
    }
}

void pgasi_fold(FILE *out, const char *text)
{
    while (*text != '\0') {
        int length = (int)strcspn(text, "\n");
        fold_line(out, text, length);
        text += length + (text[length] == '\n');
    }
}
