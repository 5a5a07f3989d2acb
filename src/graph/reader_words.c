/* The formats whose lines may have any length: METIS and ADJ. The reader reads word by word. A
 * place (pgasi_reader_place_t) determines the meaning of the next word. The reader copies only
 * words that span two pieces.
 *
 * Invariant: place is the place behind the last word or line end that was read; n_lines of the
 * place and of the counts are equal. */
#include <math.h>
#include "graph/reader_text.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static pgas_status_t refuse(pgasi_reader_t *reader, const char *reason, pgasi_text_t what)
{
    return pgasi_reader_refuse(reader, PGAS_ERR_FORMAT, reason, what);
}

/* ---- the header of METIS: vertices, edges, format, weights of a vertex ---- */

/* The format has up to three digits, 0 or 1, for sizes of vertices, weights of vertices, weights of
 * edges. The challenge of DIMACS 10 and GAP use the first one for "may have loops and multiple
 * edges", without sizes. So the reader ignores it. The number of neighbours shows whether that was
 * right. */
static pgas_status_t take_metis_format(pgasi_reader_t *reader, pgasi_text_t word)
{
    size_t n = (size_t)(word.end - word.at);
    bool digit[3] = { false, false, false };
    for (size_t i = 0; i < n; i++) {
        if (n > 3 || (word.at[i] != '0' && word.at[i] != '1'))
            return refuse(reader, "the format must be three digits 0 or 1", word);
        digit[3 - n + i] = word.at[i] == '1';
    }
    reader->header.has_sizes = digit[0];
    reader->header.n_skipped = digit[1];
    reader->header.has_weight = digit[2];
    return PGAS_OK;
}

static pgas_status_t take_metis_header(pgasi_reader_t *reader, pgasi_text_t word)
{
    pgasi_reader_header_t *header = &reader->header;
    uint64_t n_weights;
    pgas_status_t status;
    switch (reader->place.n_words) {
    case 0:
        return pgasi_reader_number(reader, word, &header->n_vertices);
    case 1:
        return pgasi_reader_number(reader, word, &header->n_entries);
    case 2:
        return take_metis_format(reader, word);
    case 3:
        status = pgasi_reader_number(reader, word, &n_weights);
        if (status == PGAS_OK && header->n_skipped != 0)
            header->n_skipped = n_weights;
        return status;
    default:
        return refuse(reader, "more than vertices, edges, format and number of weights", word);
    }
}

/* ---- entries ---- */

static pgas_status_t add_neighbour(pgasi_reader_t *reader, double weight)
{
    uint64_t from = reader->place.n_rows, to = reader->place.last - 1;
    reader->count.n_loops += from == to;
    return pgasi_reader_edge(reader, from, to, weight);
}

static pgas_status_t take_neighbour(pgasi_reader_t *reader, pgasi_text_t word)
{
    pgasi_reader_place_t *place = &reader->place;
    pgas_status_t status = pgasi_reader_number(reader, word, &place->last);
    if (status != PGAS_OK)
        return status;
    if (place->last == 0 || place->last > reader->header.n_vertices)
        return pgasi_reader_refuse(reader, PGAS_ERR_RANGE, "there is no such vertex", word);
    return reader->header.has_weight ? PGAS_OK : add_neighbour(reader, NAN);
}

static pgas_status_t take_metis(pgasi_reader_t *reader, pgasi_text_t word)
{
    const pgasi_reader_place_t *place = &reader->place;
    double weight;
    if (place->n_rows >= reader->header.n_vertices)
        return refuse(reader, "more lines than vertices", word);
    if (place->n_words < reader->header.n_skipped)
        return pgasi_reader_weight(reader, word, &weight);
    bool is_weight =
        reader->header.has_weight && (place->n_words - reader->header.n_skipped) % 2 == 1;
    if (!is_weight)
        return take_neighbour(reader, word);
    pgas_status_t status = pgasi_reader_weight(reader, word, &weight);
    return status == PGAS_OK ? add_neighbour(reader, weight) : status;
}

static pgas_status_t take_adj(pgasi_reader_t *reader, pgasi_text_t word)
{
    pgasi_reader_place_t *place = &reader->place;
    pgas_status_t status = pgasi_reader_number(reader, word, &place->last);
    if (status != PGAS_OK || place->n_words > 0) {
        return status == PGAS_OK ? pgasi_reader_edge(reader, place->first, place->last, NAN)
                                 : status;
    }
    place->first = place->last;
    reader->count.n_rows++;
    return reader->ops->vertex(reader->arg, place->first);
}

/* ---- words and line ends ---- */

static void begin_line(pgasi_reader_t *reader)
{
    if (!reader->place.in_line) {
        reader->place.in_line = 1;
        reader->place.n_lines++;
        reader->count.n_lines = reader->place.n_lines;
    }
}

/* An error of the receiver may have no text yet. */
static pgas_status_t settle(pgasi_reader_t *reader, pgas_status_t status)
{
    if (PGAS_LIKELY(status == PGAS_OK))
        return PGAS_OK;
    return pgasi_graph_error_set(&reader->error, status, reader->count.n_lines, "%s",
                                 pgas_status_text(status));
}

static void take_word(pgasi_reader_t *reader, pgasi_text_t word)
{
    pgasi_reader_place_t *place = &reader->place;
    pgas_status_t status;
    if (place->n_words == 0 && *word.at == '%' && reader->format == PGAS_GRAPH_METIS) {
        place->in_comment = 1;
        return;
    }
    if (reader->format == PGAS_GRAPH_ADJ)
        status = take_adj(reader, word);
    else
        status = pgasi_reader_in_header(reader) ? take_metis_header(reader, word)
                                                : take_metis(reader, word);
    place->n_words++;
    settle(reader, status);
}

static void end_metis_row(pgasi_reader_t *reader)
{
    pgasi_reader_place_t *place = &reader->place;
    const pgasi_reader_header_t *header = &reader->header;
    pgasi_text_t nothing = { "", "" };
    /* empty lines behind those of all vertices are harmless */
    if (place->n_rows < header->n_vertices) {
        if (place->n_words < header->n_skipped)
            refuse(reader, "a weight of the vertex is missing", nothing);
        else if (header->has_weight && (place->n_words - header->n_skipped) % 2 == 1)
            refuse(reader, "the weight is missing", nothing);
        reader->count.n_rows++;
        place->n_rows++;
    }
}

static void end_metis_header(pgasi_reader_t *reader)
{
    if (reader->place.n_words == 1) {
        refuse(reader, "a number is missing", (pgasi_text_t){ "", "" });
    } else if (reader->place.n_words > 1) {
        reader->header.line = reader->count.n_lines;
        reader->state = PGASI_READER_ENTRIES;
    }
}

static void end_line(pgasi_reader_t *reader)
{
    pgasi_reader_place_t *place = &reader->place;
    begin_line(reader);
    if (!place->in_comment && reader->format == PGAS_GRAPH_METIS) {
        if (pgasi_reader_in_header(reader))
            end_metis_header(reader);
        else
            end_metis_row(reader);
    }
    place->in_line = place->in_comment = place->n_words = 0;
}

/* A word whose end has not come yet. */
static void carry(pgasi_reader_t *reader, pgasi_text_t part)
{
    size_t n = (size_t)(part.end - part.at);
    if (n > PGASI_READER_LINE_MAX - reader->carry_bytes) {
        n = PGASI_READER_LINE_MAX - reader->carry_bytes;
        memcpy(reader->carry + reader->carry_bytes, part.at, n);
        refuse(reader, "not a whole number",
               (pgasi_text_t){ reader->carry, reader->carry + PGASI_READER_LINE_MAX });
        return;
    }
    memcpy(reader->carry + reader->carry_bytes, part.at, n);
    reader->carry_bytes += n;
}

static void end_carry(pgasi_reader_t *reader)
{
    pgasi_text_t word = { reader->carry, reader->carry + reader->carry_bytes };
    if (reader->carry_bytes > 0 && !reader->place.in_comment)
        take_word(reader, word);
    reader->carry_bytes = 0;
}

/* ---- the common form: neighbours without weights ---- */

/* Reads numbers with blanks between them. Stops before anything else, and near the end. */
static const char *take_fast(pgasi_reader_t *reader, const char *at, const char *end)
{
    pgasi_reader_place_t *place = &reader->place;
    bool is_metis = reader->format == PGAS_GRAPH_METIS;
    uint64_t value, limit = is_metis ? reader->header.n_vertices : UINT64_MAX;
    if (pgasi_reader_in_header(reader) || reader->header.has_weight || place->in_comment ||
        (is_metis && place->n_rows >= limit))
        return at;
    uint64_t n_first = is_metis ? reader->header.n_skipped : 1; /* words that are no neighbours */
    while (place->n_words >= n_first && end - at > PGASI_DIGITS_AHEAD + 1) {
        unsigned n = pgasi_take_digits(at, &value);
        if (n == 0 || (at[n] != ' ' && at[n] != '\n') || value - is_metis >= limit)
            break;
        begin_line(reader);
        place->last = value;
        pgas_status_t status = is_metis ? add_neighbour(reader, NAN)
                                        : pgasi_reader_edge(reader, place->first, value, NAN);
        place->n_words++;
        at += n + (at[n] == ' ');
        if (PGAS_UNLIKELY(settle(reader, status) != PGAS_OK))
            break;
    }
    return at;
}

/* Reads a word, a blank or a line end that is not in the common form. */
static const char *take_slow(pgasi_reader_t *reader, const char *at, const char *end)
{
    pgasi_text_t word = { at, at };
    if (*at == '\n') {
        end_line(reader);
        return at + 1;
    }
    begin_line(reader);
    if (reader->place.in_comment) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        return line_end ? line_end : end;
    }
    if (is_space(*at))
        return at + 1;
    while (word.end < end && *word.end != '\n' && !is_space(*word.end))
        word.end++;
    if (word.end == end)
        carry(reader, word);
    else
        take_word(reader, word);
    return word.end;
}

pgas_status_t pgasi_reader_feed_words(pgasi_reader_t *reader, const char *bytes, size_t n_bytes,
                                      bool header_only, size_t *used_p)
{
    const char *at = bytes, *end = bytes + n_bytes;
    if (reader->carry_bytes > 0) {
        while (at < end && *at != '\n' && !is_space(*at))
            at++;
        carry(reader, (pgasi_text_t){ bytes, at });
        if (at < end && reader->error.status == PGAS_OK)
            end_carry(reader);
    }
    while (at < end && reader->error.status == PGAS_OK &&
           !(header_only && !pgasi_reader_in_header(reader))) {
        at = take_fast(reader, at, end);
        if (reader->error.status == PGAS_OK)
            at = take_slow(reader, at, end);
    }
    *used_p = (size_t)(at - bytes);
    return reader->error.status;
}

pgas_status_t pgasi_reader_finish_words(pgasi_reader_t *reader)
{
    end_carry(reader);
    if (reader->place.in_line && reader->error.status == PGAS_OK)
        end_line(reader);
    return reader->error.status;
}

/* ---- places ---- */

/* Reads the words behind the last line end, as far as the meaning of later words needs them. */
static void skim_words(pgasi_reader_place_t *place, bool has_comments, pgasi_text_t text)
{
    for (const char *at = text.at; at < text.end && !place->in_comment;) {
        uint64_t value = 0;
        if (is_space(*at)) {
            at++;
            continue;
        }
        place->in_comment = has_comments && place->n_words == 0 && *at == '%';
        for (; at < text.end && !is_space(*at); at++)
            value = value * 10 + (uint64_t)(*at - '0');
        place->last = value;
        if (place->n_words++ == 0)
            place->first = value;
    }
}

static bool is_comment(pgasi_text_t line)
{
    while (line.at < line.end && is_space(*line.at))
        line.at++;
    return line.at < line.end && *line.at == '%';
}

void pgasi_reader_skim(pgas_graph_format_t format, pgasi_reader_place_t *place, const char *bytes,
                       size_t n_bytes)
{
    bool is_metis = format == PGAS_GRAPH_METIS;
    pgasi_text_t rest = { bytes, bytes + n_bytes };
    while (!pgasi_text_empty(rest)) {
        const char *line_end = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        pgasi_text_t line = { rest.at, line_end ? line_end : rest.end };
        place->n_lines += !place->in_line;
        place->in_line = !line_end;
        if (!line_end && pgasi_reader_by_words(format))
            skim_words(place, is_metis, line);
        if (line_end) {
            bool comment = place->in_comment || (place->n_words == 0 && is_comment(line));
            place->n_rows += is_metis && !comment;
            place->in_comment = place->n_words = 0;
        }
        rest.at = line_end ? line_end + 1 : rest.end;
    }
}
