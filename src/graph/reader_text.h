/** Parts of the readers: words, numbers and refusals. */
#ifndef PGASI_GRAPH_READER_TEXT_H
#define PGASI_GRAPH_READER_TEXT_H

#include <string.h>
#include "graph/reader.h"

typedef struct {
    const char *at;
    const char *end;
} pgasi_text_t;

static inline bool pgasi_text_empty(pgasi_text_t text)
{
    return text.at == text.end;
}

static inline bool pgasi_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline bool pgasi_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/** Whether the text is one or more digits. */
bool pgasi_text_digits(pgasi_text_t text);

/** Compares without regard to case. */
bool pgasi_text_is(pgasi_text_t text, const char *what);

/** Takes the next word of a line. It is empty at the end of the line. */
pgasi_text_t pgasi_text_word(pgasi_text_t *line);

/** The same for a line in which one comma may separate words. is_first: no comma may precede the
 *  word. */
pgasi_text_t pgasi_text_field(pgasi_text_t *line, bool is_first);

/** Refuses the current line. The text of the error shows the beginning of the wrong part. */
pgas_status_t pgasi_reader_refuse(pgasi_reader_t *reader, pgas_status_t status, const char *reason,
                                  pgasi_text_t what);

/** Parses a whole number of 0 .. 2^63-1, or refuses the line. */
pgas_status_t pgasi_reader_number(pgasi_reader_t *reader, pgasi_text_t word, uint64_t *value_p);

/** Parses a finite number, or refuses the line. */
pgas_status_t pgasi_reader_weight(pgasi_reader_t *reader, pgasi_text_t word, double *value_p);

/** Whether the word is a finite number, of at most 63 characters. */
bool pgasi_text_real(pgasi_text_t word, double *value_p);

/** Calls ops->edge. An error of the receiver gets the number of the line. */
static inline pgas_status_t pgasi_reader_edge(pgasi_reader_t *reader, uint64_t from, uint64_t to,
                                              double weight)
{
    reader->count.n_entries++;
    return reader->ops->edge(reader->arg, from, to, weight);
}

/* ---- numbers in the common path ---- */

#define PGASI_DIGITS_AHEAD 24 /* bytes that pgasi_take_digits may read */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
/** Takes up to eight digits from eight bytes. Returns how many. The first digit is in the lowest
 *  byte, so the digits move to the highest bytes, and zeros replace the missing digits before them.
 *  Three multiplications join neighbours: 2, 4, then 8 digits. */
static inline unsigned pgasi_eight_digits(const char *at, uint64_t *value_p)
{
    uint64_t x;
    memcpy(&x, at, 8);
    x ^= UINT64_C(0x3030303030303030); /* digits become 0 .. 9 */
    uint64_t others = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);
    unsigned n = others ? (unsigned)__builtin_ctzll(others) / 8 : 8;
    if (n == 0)
        return 0;
    x <<= 8 * (8 - n);
    x = x * 10 + (x >> 8);
    *value_p = (((x & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x000f424000000064)) +
                (((x >> 16) & UINT64_C(0x000000ff000000ff)) * UINT64_C(0x0000271000000001))) >>
               32;
    return n;
}
#else
static inline unsigned pgasi_eight_digits(const char *at, uint64_t *value_p)
{
    unsigned n = 0;
    uint64_t value = 0;
    for (; n < 8 && pgasi_is_digit(at[n]); n++)
        value = value * 10 + (uint64_t)(at[n] - '0');
    *value_p = value;
    return n;
}
#endif

/** Takes a number of 1 .. 16 digits. PGASI_DIGITS_AHEAD bytes must be readable.
 *  @return its length. 0: there is no digit, or there are more of them. */
static inline unsigned pgasi_take_digits(const char *at, uint64_t *value_p)
{
    static const uint64_t power[9] = {
        1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000
    };
    uint64_t more;
    unsigned n = pgasi_eight_digits(at, value_p);
    if (n < 8)
        return n;
    unsigned n_more = pgasi_eight_digits(at + 8, &more);
    if (n_more == 0)
        return n;
    *value_p = *value_p * power[n_more] + more;
    return n_more == 8 && pgasi_is_digit(at[16]) ? 0 : n + n_more;
}

/* ---- the two kinds of readers ---- */

/** Reads whole lines in the common form, and stops before the first one that has another form, or
 *  near the end. @return the byte at which it stopped. An error is in reader->error. */
const char *pgasi_reader_fast_lines(pgasi_reader_t *reader, const char *at, const char *end);

/** Reads a line without its end. n_lines includes it. */
pgas_status_t pgasi_reader_line(pgasi_reader_t *reader, pgasi_text_t line);

/** Reads bytes of a text of words. Stores how many it took: all, unless header_only. */
pgas_status_t pgasi_reader_feed_words(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                      bool header_only, size_t *used_p);
pgas_status_t pgasi_reader_finish_words(pgasi_reader_t *reader);

static inline bool pgasi_reader_in_header(const pgasi_reader_t *reader)
{
    return reader->state != PGASI_READER_ENTRIES;
}

#endif
