/* hex: walks over a text in SGF. ( opens a tree, which begins with a node; further trees follow the
 * nodes of a tree; the main line ends at the first ). */
#include <ctype.h>
#include <stdarg.h>
#include "sgf.h"

#define DEPTH_MAX 1000

bool sgf_wrong(sgf_t *sgf, const char *format, ...)
{
    va_list list;
    int n = snprintf(sgf->why, MESSAGE_MAX, "%.120s:%d: ", sgf->name, sgf->line);
    va_start(list, format);
    vsnprintf(sgf->why + n, MESSAGE_MAX - (size_t)n, format, list);
    va_end(list);
    return false;
}

/* The next character after white space; -1: the end. */
static int look(sgf_t *sgf)
{
    for (; sgf->pos < sgf->end && isspace((unsigned char)*sgf->pos); sgf->pos++)
        sgf->line += *sgf->pos == '\n';
    return sgf->pos < sgf->end ? (unsigned char)*sgf->pos : -1;
}

/* [text], \ escapes. A text that does not fit is cut off: no value that matters is that long. */
static bool read_value(sgf_t *sgf, char *text, size_t room)
{
    size_t n = 0;
    for (sgf->pos++; sgf->pos < sgf->end && *sgf->pos != ']'; sgf->pos++) {
        sgf->pos += *sgf->pos == '\\' && sgf->pos + 1 < sgf->end;
        sgf->line += *sgf->pos == '\n';
        if (n + 1 < room)
            text[n++] = (char)(isprint((unsigned char)*sgf->pos) ? *sgf->pos : '?');
    }
    text[n] = '\0';
    if (sgf->pos >= sgf->end)
        return sgf_wrong(sgf, "a value has no end");
    sgf->pos++;
    return true;
}

static bool read_property(sgf_t *sgf)
{
    char ident[9], value[32];
    size_t length = 0;
    for (; sgf->pos < sgf->end && *sgf->pos >= 'A' && *sgf->pos <= 'Z'; sgf->pos++)
        if (length < sizeof ident - 1)
            ident[length++] = *sgf->pos;
    ident[length] = '\0';
    if (look(sgf) != '[')
        return sgf_wrong(sgf, "%s has no value", ident);
    for (int n = 0; look(sgf) == '['; n++)
        if (!read_value(sgf, value, sizeof value) ||
            (!sgf->ended && !sgf_value(sgf, ident, value, n)))
            return false;
    return true;
}

static bool read_node(sgf_t *sgf)
{
    for (sgf->pos++; isupper(look(sgf));)
        if (!read_property(sgf))
            return false;
    return sgf->ended || sgf_node(sgf);
}

bool sgf_walk(sgf_t *sgf)
{
    int depth = 0, former = 0, c;
    for (; (c = look(sgf)) >= 0; former = c) {
        if (former && depth == 0)
            return sgf_wrong(sgf,
                             c == '(' ? "more than one game" : "something stands behind the game");
        if (!former && c != '(')
            return sgf_wrong(sgf, "this is not SGF: it does not begin with (");
        if (former == '(' && c != ';')
            return sgf_wrong(sgf, "behind ( there is no node");
        if (c == ';' && former != ')') {
            if (!read_node(sgf))
                return false;
            continue;
        }
        if (c != '(' && c != ')')
            return sgf_wrong(sgf,
                             c == ';' ? "a node stands behind )" : "something that is no property");
        depth += c == '(' ? 1 : -1;
        sgf->ended |= c == ')';
        sgf->pos++;
        if (depth > DEPTH_MAX)
            return sgf_wrong(sgf, "too many trees in each other");
    }
    if (!former)
        return sgf_wrong(sgf, "nothing in it");
    return depth == 0 || sgf_wrong(sgf, "the game has no end");
}
