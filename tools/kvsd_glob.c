/* kvsd_glob: patterns of SCAN and KEYS. The match notes the place of a star. After a difference it
 * continues there with one more byte, so the time is at most the product of the lengths. */
#include "kvsd.h"

typedef struct {
    const char *at, *end;
} text_t;

/* Matches c with the set behind "[", and moves behind "]". As in redis, a set without "]" ends with
 * the pattern. */
static bool in_set(text_t *pattern, char c)
{
    const char *p = pattern->at;
    bool negated = p < pattern->end && *p == '^', found = false;
    p += negated;
    for (; p < pattern->end && *p != ']'; p++) {
        if (*p == '\\' && pattern->end - p >= 2) {
            p++;
            found = found || *p == c;
        } else if (pattern->end - p >= 3 && p[1] == '-') {
            unsigned char low = (unsigned char)p[0], high = (unsigned char)p[2];
            unsigned char byte = (unsigned char)c;
            found =
                found || (low <= high ? low <= byte && byte <= high : high <= byte && byte <= low);
            p += 2;
        } else {
            found = found || *p == c;
        }
    }
    pattern->at = p < pattern->end ? p + 1 : p;
    return found != negated;
}

/* Matches one byte with one element that is no star, and moves behind it. */
static bool match_one(text_t *pattern, char c)
{
    char p = *pattern->at++;
    if (p == '?')
        return true;
    if (p == '[')
        return in_set(pattern, c);
    if (p == '\\' && pattern->at < pattern->end)
        p = *pattern->at++;
    return p == c;
}

bool kvsd_match(const char *pattern_data, size_t pattern_bytes, const char *data, size_t bytes)
{
    text_t pattern = { pattern_data, pattern_data + pattern_bytes }, text = { data, data + bytes };
    const char *star = NULL, *star_text = NULL;
    for (;;) {
        if (pattern.at < pattern.end && *pattern.at == '*') {
            star = ++pattern.at;
            star_text = text.at;
            continue;
        }
        if (text.at == text.end)
            return pattern.at == pattern.end;
        if (pattern.at < pattern.end && match_one(&pattern, *text.at)) {
            text.at++;
            continue;
        }
        if (!star)
            return false;
        pattern.at = star;
        text.at = ++star_text;
    }
}
