/* Words and numbers of graph texts, for lines that are not in the common form. Numbers do not
 * depend on the locale. */
#include "graph/reader_text.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

pgas_status_t pgasi_reader_refuse(pgasi_reader_t *reader, pgas_status_t status, const char *reason,
                                  pgasi_text_t what)
{
    char shown[32];
    size_t n = (size_t)(what.end - what.at), n_shown = n < 24 ? n : 24;
    for (size_t i = 0; i < n_shown; i++)
        shown[i] = isprint((unsigned char)what.at[i]) ? what.at[i] : '?';
    memcpy(shown + n_shown, n > n_shown ? "..." : "", n > n_shown ? 4 : 1);
    return pgasi_graph_error_set(&reader->error, status, reader->count.n_lines, "%s: '%s'", reason,
                                 shown);
}

/* ---- words ---- */

pgasi_text_t pgasi_text_word(pgasi_text_t *line)
{
    pgasi_text_t word;
    while (line->at < line->end && pgasi_is_blank(*line->at))
        line->at++;
    word.at = line->at;
    while (line->at < line->end && !pgasi_is_blank(*line->at))
        line->at++;
    word.end = line->at;
    return word;
}

pgasi_text_t pgasi_text_field(pgasi_text_t *line, bool is_first)
{
    pgasi_text_t word;
    bool comma = is_first;
    while (line->at < line->end && (pgasi_is_blank(*line->at) || (*line->at == ',' && !comma))) {
        comma = comma || *line->at == ',';
        line->at++;
    }
    word.at = line->at;
    while (line->at < line->end && !pgasi_is_blank(*line->at) && *line->at != ',')
        line->at++;
    word.end = line->at;
    return word;
}

bool pgasi_text_digits(pgasi_text_t text)
{
    const char *at = text.at;
    while (at < text.end && pgasi_is_digit(*at))
        at++;
    return at == text.end && !pgasi_text_empty(text);
}

bool pgasi_text_is(pgasi_text_t text, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(text.end - text.at) == n && strncasecmp(text.at, what, n) == 0;
}

/* ---- numbers ---- */

pgas_status_t pgasi_reader_number(pgasi_reader_t *reader, pgasi_text_t word, uint64_t *value_p)
{
    uint64_t value = 0;
    pgasi_text_t digits = word;
    bool negative = !pgasi_text_empty(word) && *word.at == '-';
    digits.at += negative || (!pgasi_text_empty(word) && *word.at == '+');
    if (!pgasi_text_digits(digits)) {
        return pgasi_reader_refuse(reader, PGAS_ERR_FORMAT,
                                   pgasi_text_empty(word) ? "a number is missing"
                                                          : "not a whole number",
                                   word);
    }
    for (const char *at = digits.at; at < digits.end; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > ((uint64_t)PGASI_READER_ID_MAX - digit) / 10)
            return pgasi_reader_refuse(reader, PGAS_ERR_RANGE, "a number above 2^63-1", word);
        value = value * 10 + digit;
    }
    if (negative && value != 0)
        return pgasi_reader_refuse(reader, PGAS_ERR_RANGE, "a negative number", word);
    *value_p = value;
    return PGAS_OK;
}

/* Whether the word has only characters of decimal numbers: no nan, no inf, no hexadecimal. */
static bool is_decimal(pgasi_text_t word)
{
    for (const char *at = word.at; at < word.end; at++)
        if (!pgasi_is_digit(*at) && !strchr("+-.eE", *at))
            return false;
    return true;
}

/* glibc has this locale ready, so nothing is allocated. */
static locale_t c_locale(void)
{
    static locale_t locale;
    if (!locale)
        locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return locale;
}

static bool parse_real(pgasi_text_t word, double *value_p)
{
    char copy[64], *end;
    size_t n = (size_t)(word.end - word.at);
    if (n == 0 || n >= sizeof copy || !is_decimal(word))
        return false;
    memcpy(copy, word.at, n);
    copy[n] = '\0';
    *value_p = strtod_l(copy, &end, c_locale());
    return end == copy + n;
}

bool pgasi_text_real(pgasi_text_t word, double *value_p)
{
    return parse_real(word, value_p) && isfinite(*value_p);
}

pgas_status_t pgasi_reader_weight(pgasi_reader_t *reader, pgasi_text_t word, double *value_p)
{
    if (!parse_real(word, value_p)) {
        return pgasi_reader_refuse(reader, PGAS_ERR_FORMAT,
                                   pgasi_text_empty(word) ? "the weight is missing"
                                                          : "the weight is not a number",
                                   word);
    }
    return isfinite(*value_p)
               ? PGAS_OK
               : pgasi_reader_refuse(reader, PGAS_ERR_RANGE, "the weight is too great", word);
}
