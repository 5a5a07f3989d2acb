/* resp: the parser of requests. It stores offsets while a request is incomplete, because its bytes
 * may move when further ones arrive, and pointers when it is complete. */
#include "resp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNAUTHENTICATED_ARGS = 10, UNAUTHENTICATED_BULK = 16384, ARGS_KEPT = 64 };

static resp_result_t fail(resp_parser_t *parser, const char *what, const char *more)
{
    snprintf(parser->error, sizeof parser->error, "%s%s", what, more);
    return RESP_ERROR;
}

static resp_result_t refuse(resp_parser_t *parser, const char *what)
{
    return fail(parser, "Protocol error: ", what);
}

static bool add_arg(resp_parser_t *parser, char *data, size_t bytes)
{
    if (parser->n_args == parser->capacity) {
        size_t capacity = parser->capacity > 0 ? 2 * parser->capacity : 8;
        resp_arg_t *args = realloc(parser->args, capacity * sizeof *args);
        if (!args)
            return false;
        parser->args = args;
        parser->capacity = capacity;
    }
    parser->args[parser->n_args++] = (resp_arg_t){ data, bytes };
    return true;
}

/* Begins a new request. */
static void reset(resp_parser_t *parser)
{
    if (parser->capacity > ARGS_KEPT) {
        free(parser->args);
        parser->args = NULL;
        parser->capacity = 0;
    }
    parser->n_args = 0;
    parser->n_left = 0;
    parser->at = 0;
    parser->searched = 0;
    parser->in_array = false;
    parser->in_bulk = false;
}

void resp_parser_fini(resp_parser_t *parser)
{
    free(parser->args);
    *parser = (resp_parser_t){ .limits = parser->limits };
}

/* ---- numbers ---- */

bool resp_integer(const char *data, size_t bytes, int64_t *value_p)
{
    bool negative = bytes > 0 && data[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX, value = 0;
    size_t i = negative;
    if (bytes == 1 && data[0] == '0') {
        *value_p = 0;
        return true;
    }
    if (i == bytes || bytes > 20 || data[i] < '1' || data[i] > '9')
        return false;
    for (; i < bytes; i++) {
        unsigned digit = (unsigned)(data[i] - '0');
        if (digit > 9 || value > (limit - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *value_p = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* ---- lines ---- */

/* Finds the end of the line at `at`. @return RESP_REQUEST if it is there */
static resp_result_t find_line(resp_parser_t *parser, const char *data, size_t bytes,
                               const char *name, size_t *end_p)
{
    size_t from = parser->searched > parser->at ? parser->searched : parser->at;
    const char *end = bytes > from ? memchr(data + from, '\n', bytes - from) : NULL;
    size_t length = (end ? (size_t)(end - data) : bytes) - parser->at;
    if (length > RESP_LINE_MAX)
        return fail(parser, "Protocol error: too big ", name);
    if (!end) {
        parser->searched = bytes;
        return RESP_MORE;
    }
    *end_p = (size_t)(end - data);
    return RESP_REQUEST;
}

/* Reads the number of a line such as "$12\r\n". */
static bool line_number(const resp_parser_t *parser, const char *data, size_t end, int64_t *value_p)
{
    size_t first = parser->at + 1;
    return end > first && data[end - 1] == '\r' &&
           resp_integer(data + first, end - 1 - first, value_p);
}

/* The common case: a line of one mark and up to 8 digits that is there. @return whether it is, and
 * then it is parsed. Otherwise find_line decides. */
static bool quick_number(resp_parser_t *parser, const char *data, size_t bytes, int64_t *value_p)
{
    if (bytes - parser->at < 4)
        return false;
    const char *at = data + parser->at + 1, *end = data + bytes;
    const char *first = at, *stop = end - at > 10 ? at + 8 : end - 2;
    int64_t value = 0;
    for (; at < stop && *at >= '0' && *at <= '9'; at++)
        value = 10 * value + (*at - '0');
    bool is_number = at > first && (*first != '0' || at == first + 1);
    if (!is_number || end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return false;
    *value_p = value;
    parser->at = (size_t)(at - data) + 2;
    return true;
}

/* Reads the line of a number at `at`. name and wrong are texts of errors. */
static resp_result_t parse_number(resp_parser_t *parser, const char *data, size_t bytes,
                                  const char *name, const char *wrong, int64_t *value_p)
{
    size_t end = 0;
    if (quick_number(parser, data, bytes, value_p))
        return RESP_REQUEST;
    resp_result_t result = find_line(parser, data, bytes, name, &end);
    if (result != RESP_REQUEST)
        return result;
    if (!line_number(parser, data, end, value_p))
        return refuse(parser, wrong);
    parser->at = end + 1;
    return RESP_REQUEST;
}

/* ---- arrays ---- */

static resp_result_t parse_count(resp_parser_t *parser, const char *data, size_t bytes)
{
    static const char wrong[] = "invalid multibulk length";
    int64_t n;
    resp_result_t result = parse_number(parser, data, bytes, "mbulk count string", wrong, &n);
    if (result != RESP_REQUEST)
        return result;
    if (n > (int64_t)parser->limits.args_max)
        return refuse(parser, wrong);
    if (n > UNAUTHENTICATED_ARGS && parser->limits.unauthenticated)
        return refuse(parser, "unauthenticated multibulk length");
    parser->n_left = n > 0 ? (size_t)n : 0;
    parser->in_array = true;
    return RESP_REQUEST;
}

static resp_result_t parse_bulk_size(resp_parser_t *parser, const char *data, size_t bytes)
{
    static const char wrong[] = "invalid bulk length";
    int64_t n;
    if (parser->at < bytes && data[parser->at] != '$') {
        char c = data[parser->at] >= ' ' ? data[parser->at] : ' ';
        return fail(parser, "Protocol error: expected '$', got ", (char[]){ '\'', c, '\'', '\0' });
    }
    resp_result_t result = parse_number(parser, data, bytes, "bulk count string", wrong, &n);
    if (result != RESP_REQUEST)
        return result;
    if (n < 0 || n > (int64_t)parser->limits.bulk_max)
        return refuse(parser, wrong);
    if (n > UNAUTHENTICATED_BULK && parser->limits.unauthenticated)
        return refuse(parser, "unauthenticated bulk length");
    parser->bulk = (size_t)n;
    parser->in_bulk = true;
    if (resp_wants(parser) > parser->limits.request_max)
        return refuse(parser, "the request is too large");
    return RESP_REQUEST;
}

/* Takes the string at `at`, which is stored as an offset. */
static resp_result_t parse_bulk(resp_parser_t *parser, const char *data, size_t bytes)
{
    size_t end = parser->at + parser->bulk;
    if (bytes < end + 2)
        return RESP_MORE;
    if (data[end] != '\r' || data[end + 1] != '\n')
        return refuse(parser, "a string does not end with CRLF");
    if (!add_arg(parser, (char *)(uintptr_t)parser->at, parser->bulk))
        return fail(parser, "out of memory", "");
    parser->at = end + 2;
    parser->in_bulk = false;
    parser->n_left--;
    return RESP_REQUEST;
}

static resp_result_t parse_array(resp_parser_t *parser, char *data, size_t bytes)
{
    resp_result_t result = RESP_REQUEST;
    if (!parser->in_array)
        result = parse_count(parser, data, bytes);
    while (result == RESP_REQUEST && parser->n_left > 0)
        result = parser->in_bulk ? parse_bulk(parser, data, bytes)
                                 : parse_bulk_size(parser, data, bytes);
    for (size_t i = 0; i < parser->n_args && result == RESP_REQUEST; i++)
        parser->args[i].data = data + (uintptr_t)parser->args[i].data;
    return result;
}

/* ---- inline commands ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the escape behind a backslash at *from_p, and moves behind it. */
static char unescape(const char **from_p, const char *end)
{
    static const char names[] = "nrtba", meanings[] = "\n\r\t\b\a";
    const char *from = *from_p + 1;
    if (end - from >= 3 && *from == 'x' && hex_digit(from[1]) >= 0 && hex_digit(from[2]) >= 0) {
        *from_p = from + 3;
        return (char)(16 * hex_digit(from[1]) + hex_digit(from[2]));
    }
    const char *name = *from != '\0' ? strchr(names, *from) : NULL;
    *from_p = from + 1;
    return name ? meanings[name - names] : *from;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

/* Moves the word at *from_p to `to`, without its quotes. @return its bytes, or SIZE_MAX if a quote
 * is not closed, or is closed before another letter */
static size_t take_word(const char **from_p, const char *end, char *to)
{
    const char *from = *from_p;
    char quote = 0, *begin = to;
    for (;;) {
        if (from == end || (!quote && is_blank(*from)))
            break;
        if (quote == '"' && *from == '\\' && end - from > 1) {
            *to++ = unescape(&from, end);
        } else if (quote == '\'' && *from == '\\' && end - from > 1 && from[1] == '\'') {
            *to++ = '\'';
            from += 2;
        } else if (quote && *from == quote) {
            quote = 0;
            if (++from < end && !is_blank(*from))
                return SIZE_MAX;
            break;
        } else if (!quote && (*from == '"' || *from == '\'')) {
            quote = *from++;
        } else {
            *to++ = *from++;
        }
    }
    *from_p = from;
    return quote ? SIZE_MAX : (size_t)(to - begin);
}

bool resp_split(resp_parser_t *parser, char *data, size_t bytes)
{
    const char *from = data, *end = data + bytes;
    for (;;) {
        while (from < end && is_blank(*from))
            from++;
        if (from == end)
            return true;
        char *word = data + (from - data);
        size_t n = take_word(&from, end, word);
        if (n == SIZE_MAX || !add_arg(parser, word, n))
            return false;
    }
}

static resp_result_t parse_inline(resp_parser_t *parser, char *data, size_t bytes)
{
    size_t end = 0;
    resp_result_t result = find_line(parser, data, bytes, "inline request", &end);
    if (result != RESP_REQUEST)
        return result;
    parser->at = end + 1;
    if (!resp_split(parser, data, end))
        return refuse(parser, "unbalanced quotes in request");
    return RESP_REQUEST;
}

/* ---- requests ---- */

resp_result_t resp_parse(resp_parser_t *parser, char *data, size_t bytes, size_t *used_p)
{
    if (parser->at == 0 && parser->searched == 0)
        reset(parser);
    if (bytes == 0)
        return RESP_MORE;
    resp_result_t result =
        data[0] == '*' ? parse_array(parser, data, bytes) : parse_inline(parser, data, bytes);
    if (result == RESP_REQUEST) {
        *used_p = parser->at;
        parser->at = 0;
        parser->searched = 0;
    }
    return result;
}

size_t resp_wants(const resp_parser_t *parser)
{
    return parser->at + (parser->in_bulk ? parser->bulk + 2 : 1);
}
