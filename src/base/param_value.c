/* Values of parameters: from text to a field of the type, and back.
 *
 * Both ways are pure. Parsing writes its output on success only. A value never depends on bytes
 * that the parser did not write (texts are filled up with zeros), so copies and checksums agree
 * between ranks. */
#include "base/param.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checks.h"
#include "base/log.h"

/* ---- from text ---- */

typedef pgas_status_t (*parse_fn_t)(const char *allowed, const char *text, void *field_p, char *why,
                                    size_t why_bytes);

static pgas_status_t refuse(const char *reason, const char *allowed, const char *unit, char *why,
                            size_t why_bytes)
{
    snprintf(why, why_bytes, "%s; allowed: %s%s", reason, allowed, unit);
    return PGAS_ERR_INVALID;
}

static pgas_status_t parse_bool(const char *allowed, const char *text, void *field_p, char *why,
                                size_t why_bytes)
{
    static const char *const words[][2] = {
        { "0", "1" }, { "no", "yes" }, { "off", "on" }, { "false", "true" }, { "n", "y" }
    };
    (void)allowed;
    for (size_t i = 0; i < PGASI_ARRAY_LENGTH(words); i++) {
        for (int value = 0; value < 2; value++) {
            if (strcasecmp(text, words[i][value]) == 0) {
                *(bool *)field_p = value != 0;
                return PGAS_OK;
            }
        }
    }
    return refuse("not a yes or no", "0, 1, no, yes, off, on, false, true", "", why, why_bytes);
}

/* Reads digits and moves *at_p behind them. It refuses an empty run and an overflow. */
static bool read_digits(const char **at_p, uint64_t *number_p)
{
    const char *at = *at_p;
    uint64_t number = 0;
    if (*at < '0' || *at > '9')
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *at_p = at;
    *number_p = number;
    return true;
}

static bool read_int(const char **at_p, int64_t *number_p)
{
    uint64_t magnitude;
    bool negative = **at_p == '-';
    const char *at = *at_p + (negative ? 1 : 0);
    if (!read_digits(&at, &magnitude) || magnitude > INT64_MAX)
        return false;
    *number_p = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    *at_p = at;
    return true;
}

/* Reads digits, then nothing, B, or one of K M G T with nothing, B or iB behind it. */
static bool read_size(const char **at_p, uint64_t *bytes_p)
{
    static const char suffixes[] = "KMGT";
    const char *at = *at_p;
    uint64_t number;
    if (!read_digits(&at, &number))
        return false;
    const char *suffix = *at == '\0' ? NULL : strchr(suffixes, *at & ~0x20);
    if (suffix) {
        int shift = 10 * (int)(suffix - suffixes + 1);
        if (number > UINT64_MAX >> shift)
            return false;
        number <<= shift;
        at++;
        at += at[0] == 'i' && (at[1] == 'B' || at[1] == 'b') ? 1 : 0;
    }
    at += *at == 'B' || *at == 'b' ? 1 : 0;
    *at_p = at;
    *bytes_p = number;
    return true;
}

static bool read_double(const char **at_p, double *number_p)
{
    char *end;
    if (strspn(*at_p, "+-.0123456789") == 0) /* no blanks, inf, nan */
        return false;
    double number = strtod(*at_p, &end);
    if (end == *at_p || !isfinite(number))
        return false;
    *at_p = end;
    *number_p = number;
    return true;
}

static bool skip(const char **at_p, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(*at_p, word, length) != 0)
        return false;
    *at_p += length;
    return true;
}

static pgas_status_t bad_list(const char *allowed, char *why, size_t why_bytes)
{
    snprintf(why, why_bytes, "param_vars.h: `%s' is no range", allowed);
    return PGAS_ERR_INTERNAL;
}

static pgas_status_t parse_int(const char *allowed, const char *text, void *field_p, char *why,
                               size_t why_bytes)
{
    const char *limits = allowed;
    int64_t min, max, value;
    if (!read_int(&limits, &min) || !skip(&limits, "..") || !read_int(&limits, &max) ||
        *limits != '\0' || min < INT_MIN || max > INT_MAX)
        return bad_list(allowed, why, why_bytes);
    if (!read_int(&text, &value) || *text != '\0')
        return refuse("not a whole number", allowed, "", why, why_bytes);
    if (value < min || value > max)
        return refuse("out of range", allowed, "", why, why_bytes);
    *(int *)field_p = (int)value;
    return PGAS_OK;
}

static pgas_status_t parse_size(const char *allowed, const char *text, void *field_p, char *why,
                                size_t why_bytes)
{
    static const char unit[] = " (bytes; K, M, G, T are powers of 1024)";
    const char *limits = allowed;
    uint64_t min, max, value;
    if (!read_size(&limits, &min) || !skip(&limits, "..") || !read_size(&limits, &max))
        return bad_list(allowed, why, why_bytes);
    bool power = skip(&limits, ", power of two");
    if (*limits != '\0')
        return bad_list(allowed, why, why_bytes);
    if (!read_size(&text, &value) || *text != '\0')
        return refuse("not a size", allowed, unit, why, why_bytes);
    if (value < min || value > max || value > SIZE_MAX)
        return refuse("out of range", allowed, unit, why, why_bytes);
    if (power && !PGASI_IS_POW2(value))
        return refuse("not a power of two", allowed, unit, why, why_bytes);
    *(size_t *)field_p = (size_t)value;
    return PGAS_OK;
}

static pgas_status_t parse_double(const char *allowed, const char *text, void *field_p, char *why,
                                  size_t why_bytes)
{
    char low[64];
    const char *low_at = low, *high_at = strstr(allowed, "..");
    double min, max, value;
    if (!high_at || (size_t)(high_at - allowed) >= sizeof low)
        return bad_list(allowed, why, why_bytes);
    /* strtod would read the first dot of the range */
    memcpy(low, allowed, (size_t)(high_at - allowed));
    low[high_at - allowed] = '\0';
    high_at += 2;
    if (!read_double(&low_at, &min) || *low_at != '\0' || !read_double(&high_at, &max) ||
        *high_at != '\0')
        return bad_list(allowed, why, why_bytes);
    if (!read_double(&text, &value) || *text != '\0')
        return refuse("not a number", allowed, "", why, why_bytes);
    if (value < min || value > max)
        return refuse("out of range", allowed, "", why, why_bytes);
    *(double *)field_p = value;
    return PGAS_OK;
}

static pgas_status_t parse_string(const char *allowed, const char *text, void *field_p, char *why,
                                  size_t why_bytes)
{
    size_t length = strlen(text);
    (void)allowed;
    if (length >= PGASI_PARAM_TEXT_BYTES)
        return refuse("too long", "up to 255 characters", "", why, why_bytes);
    memset(field_p, 0, PGASI_PARAM_TEXT_BYTES);
    memcpy(field_p, text, length);
    return PGAS_OK;
}

static pgas_status_t parse_log(const char *allowed, const char *text, void *field_p, char *why,
                               size_t why_bytes)
{
    pgas_status_t status = pgasi_log_check(text, why, why_bytes);
    return status != PGAS_OK ? status : parse_string(allowed, text, field_p, why, why_bytes);
}

static pgas_status_t parse_choice(const char *allowed, const char *text, void *field_p, char *why,
                                  size_t why_bytes)
{
    int index = 0;
    size_t text_length = strlen(text);
    for (const char *word = allowed;; word++, index++) {
        size_t length = strcspn(word, "|");
        if (length == text_length && length > 0 && strncasecmp(word, text, length) == 0) {
            *(int *)field_p = index;
            return PGAS_OK;
        }
        word += length;
        if (*word == '\0')
            return refuse("not one of the choices", allowed, "", why, why_bytes);
    }
}

pgas_status_t pgasi_param_parse_value(pgasi_param_type_t type, const char *allowed,
                                      const char *text, void *field_p, char *why, size_t why_bytes)
{
    static const parse_fn_t parsers[] = {
        [PGASI_PARAM_TYPE_BOOL] = parse_bool,     [PGASI_PARAM_TYPE_INT] = parse_int,
        [PGASI_PARAM_TYPE_SIZE] = parse_size,     [PGASI_PARAM_TYPE_DOUBLE] = parse_double,
        [PGASI_PARAM_TYPE_STRING] = parse_string, [PGASI_PARAM_TYPE_LOG] = parse_log,
        [PGASI_PARAM_TYPE_CHOICE] = parse_choice,
    };
    return parsers[type](allowed, text, field_p, why, why_bytes);
}

/* ---- to text ---- */

static void print_size(uint64_t bytes, char text[PGASI_PARAM_TEXT_BYTES])
{
    int power = 0;
    while (bytes != 0 && bytes % 1024 == 0 && power < 4) {
        bytes /= 1024;
        power++;
    }
    snprintf(text, PGASI_PARAM_TEXT_BYTES, "%llu%.*s", (unsigned long long)bytes, power > 0 ? 1 : 0,
             &" KMGT"[power]);
}

static void print_choice(int index, const char *allowed, char text[PGASI_PARAM_TEXT_BYTES])
{
    for (; index > 0; index--)
        allowed = strchr(allowed, '|') + 1;
    snprintf(text, PGASI_PARAM_TEXT_BYTES, "%.*s", (int)strcspn(allowed, "|"), allowed);
}

char *pgasi_param_format_value(pgasi_param_type_t type, const char *allowed, const void *field,
                               char text[PGASI_PARAM_TEXT_BYTES])
{
    switch (type) {
    case PGASI_PARAM_TYPE_BOOL:
        strcpy(text, *(const bool *)field ? "1" : "0");
        break;
    case PGASI_PARAM_TYPE_INT:
        snprintf(text, PGASI_PARAM_TEXT_BYTES, "%d", *(const int *)field);
        break;
    case PGASI_PARAM_TYPE_SIZE:
        print_size(*(const size_t *)field, text);
        break;
    case PGASI_PARAM_TYPE_DOUBLE:
        snprintf(text, PGASI_PARAM_TEXT_BYTES, "%.17g", *(const double *)field);
        break;
    case PGASI_PARAM_TYPE_CHOICE:
        print_choice(*(const int *)field, allowed, text);
        break;
    case PGASI_PARAM_TYPE_STRING:
    case PGASI_PARAM_TYPE_LOG:
        memcpy(text, field, PGASI_PARAM_TEXT_BYTES);
        break;
    }
    return text;
}
