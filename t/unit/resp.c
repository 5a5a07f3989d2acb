/* Redis' protocol: the parser of requests and the writers of replies.
 *   what:   The parser gives the same requests however the bytes are cut into pieces. It stops with
 *           the texts of redis at wrong bytes and at limits. A long line or many strings cost no
 *           more when they arrive byte by byte. Writers give the forms of RESP2 and RESP3.
 *   source: tools/resp.h; the specification of RESP; texts of redis 7.0; seeded model test
 */
#include "tools/resp.h"
#include <limits.h>
#include <math.h>
#include "base/rng.h"
#include "t/tap.h"

static const resp_limits_t wide = { 1 << 20, 512 << 20, 1 << 30, false };

/* ---- requests as text ---- */

/* Adds "word|word|\n" for each request of the input, cut into pieces of so many bytes, or into one
 * if step is 0. A wrong request ends the text with "!" and the error. */
static void parse_all(const char *input, size_t n, size_t step, resp_limits_t limits, char *text)
{
    resp_parser_t parser = { .limits = limits };
    size_t begin = 0, end = 0, used = 0;
    char *moved = NULL;
    resp_result_t result = RESP_MORE;
    text[0] = '\0';
    while (result != RESP_ERROR && (end < n || result == RESP_REQUEST)) {
        if (result == RESP_MORE)
            end = step > 0 && n - end > step ? end + step : n;
        /* Each time the bytes are at another place, and nothing is behind them. */
        char *next = malloc(end - begin + 1);
        memcpy(next, input + begin, end - begin);
        result = resp_parse(&parser, next, end - begin, &used);
        free(moved);
        moved = next;
        if (result != RESP_REQUEST)
            continue;
        begin += used;
        for (size_t i = 0; i < parser.n_args; i++) {
            size_t at = strlen(text);
            memcpy(text + at, parser.args[i].data, parser.args[i].bytes);
            memcpy(text + at + parser.args[i].bytes, "|", 2);
        }
        strcat(text, "\n");
    }
    if (result == RESP_ERROR)
        sprintf(text + strlen(text), "!%s", parser.error);
    free(moved);
    resp_parser_fini(&parser);
}

static void gives(const char *input, const char *want, const char *name)
{
    static char whole[300000], pieces[300000];
    parse_all(input, strlen(input), 0, wide, whole);
    parse_all(input, strlen(input), 1, wide, pieces);
    if (is_str(whole, want, "%s", name) && strcmp(whole, pieces) != 0)
        bail("%s: byte by byte it is \"%s\"", name, pieces);
}

static void good_requests(void)
{
    gives("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", "GET|k|\n", "an array");
    gives("*1\r\n$0\r\n\r\n*2\r\n$2\r\n\r\n\r\n$1\r\n*\r\n", "|\n\r\n|*|\n",
          "empty strings, and strings with line ends");
    gives("*0\r\n*-1\r\n*-5\r\n*1\r\n$1\r\na\r\n", "\n\n\na|\n", "arrays without strings");
    gives("GET k\r\nset  a\t b \n\r\n  \n", "GET|k|\nset|a|b|\n\n\n", "inline commands");
    gives("set \"a b\\x41\\n\\\"\" 'c\\'d\\n' e\"f\"\r\n", "set|a bA\n\"|c'd\\n|ef|\n",
          "quotes and escapes of inline commands");
    gives("a \"\" ''\r\n", "a|||\n", "empty words");
    gives("PING\r\n*1\r\n$4\r\nPING\r\nPING\r\n", "PING|\nPING|\nPING|\n",
          "a pipeline of both kinds");
}

static void bad_requests(void)
{
    static const struct {
        const char *input, *error;
    } bad[] = {
        { "*abc\r\n", "invalid multibulk length" },
        { "*1\n", "invalid multibulk length" },
        { "*+1\r\n", "invalid multibulk length" },
        { "*01\r\n", "invalid multibulk length" },
        { "* 1\r\n", "invalid multibulk length" },
        { "*\r\n", "invalid multibulk length" },
        { "*1048577\r\n", "invalid multibulk length" },
        { "*99999999999999999999\r\n", "invalid multibulk length" },
        { "*1\r\nGET\r\n", "expected '$', got 'G'" },
        { "*1\r\n\r\n", "expected '$', got ' '" },
        { "*1\r\n$-1\r\n", "invalid bulk length" },
        { "*1\r\n$\r\n", "invalid bulk length" },
        { "*1\r\n$536870913\r\n", "invalid bulk length" },
        { "*1\r\n$1x\r\n", "invalid bulk length" },
        { "*1\r\n$1\r\nabc", "a string does not end with CRLF" },
        { "a \"b\r\n", "unbalanced quotes in request" },
        { "a 'b'c\r\n", "unbalanced quotes in request" },
    };
    char want[100];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        snprintf(want, sizeof want, "!Protocol error: %s", bad[i].error);
        gives(bad[i].input, want, bad[i].error);
    }
}

enum { N_BAD = 17, N_GOOD = 7 };

/* ---- limits ---- */

static void limits(void)
{
    static char input[200000], text[300000];
    resp_limits_t small = { 3, 5, 40, false }, stranger = wide;
    stranger.unauthenticated = true;
    parse_all("*4\r\n", 4, 0, small, text);
    is_str(text, "!Protocol error: invalid multibulk length", "too many strings");
    parse_all("*1\r\n$6\r\n", 8, 0, small, text);
    is_str(text, "!Protocol error: invalid bulk length", "too long a string");
    small.bulk_max = 30;
    parse_all("*2\r\n$20\r\n12345678901234567890\r\n$20\r\n", 36, 0, small, text);
    is_str(text, "!Protocol error: the request is too large", "too large a request");
    memset(input, 'a', sizeof input);
    parse_all(input, 65537, 0, wide, text);
    is_str(text, "!Protocol error: too big inline request", "a line without end");
    parse_all(input, 65536, 1000, wide, text);
    is_str(text, "", "which may have 65,536 bytes");
    input[0] = '*';
    parse_all(input, 65537, 1000, wide, text);
    is_str(text, "!Protocol error: too big mbulk count string", "a number without end");
    memcpy(input, "*1\r\n$", 5);
    parse_all(input, 65600, 1000, wide, text);
    is_str(text, "!Protocol error: too big bulk count string", "a length without end");
    parse_all("*11\r\n", 5, 0, stranger, text);
    is_str(text, "!Protocol error: unauthenticated multibulk length", "strangers: ten strings");
    parse_all("*1\r\n$16385\r\n", 12, 0, stranger, text);
    is_str(text, "!Protocol error: unauthenticated bulk length", "strangers: 16,384 bytes");
}

enum { N_LIMITS = 9 };

/* A request of many strings arrives byte by byte: each call must look at new bytes only. Parsing
 * from the start each time would take minutes. */
static void slow_sender(void)
{
    enum { N = 20000 };
    size_t n = 0, used = 0, more = 0;
    char *input = malloc(N * 8 + 32);
    resp_parser_t parser = { .limits = wide };
    n += (size_t)sprintf(input, "*%d\r\n", N);
    for (int i = 0; i < N; i++)
        n += (size_t)sprintf(input + n, "$1\r\n%c\r\n", 'a' + i % 26);
    for (size_t i = 1; i < n; i++)
        more += resp_parse(&parser, input, i, &used) == RESP_MORE;
    bool whole = resp_parse(&parser, input, n, &used) == RESP_REQUEST;
    ok(more == n - 1 && whole && used == n && parser.n_args == N, "%d strings byte by byte", N);
    ok(parser.args[N - 1].data == input + n - 3, "they point into the input");
    resp_parser_fini(&parser);
    free(input);
}

static void wants(void)
{
    size_t used;
    char input[] = "*2\r\n$3\r\nGET\r\n$1000\r\nabc";
    resp_parser_t parser = { .limits = wide };
    resp_parse(&parser, input, sizeof input - 1, &used);
    is_int(resp_wants(&parser), 20 + 1000 + 2, "the parser knows how long a request is at least");
    resp_parser_fini(&parser);
}

/* ---- random requests in random pieces ---- */

enum { N_REQUESTS = 500, WORDS_MAX = 5, WORD_MAX = 40 };

typedef struct {
    size_t n, at[WORDS_MAX], bytes[WORDS_MAX]; /* words in the input */
} model_t;

static size_t make_request(pgasi_rng_t *rng, char *input, size_t n, model_t *model)
{
    model->n = 1 + pgasi_rng_below(rng, WORDS_MAX);
    n += (size_t)sprintf(input + n, "*%zu\r\n", model->n);
    for (size_t i = 0; i < model->n; i++) {
        model->bytes[i] = pgasi_rng_below(rng, WORD_MAX);
        n += (size_t)sprintf(input + n, "$%zu\r\n", model->bytes[i]);
        model->at[i] = n;
        for (size_t k = 0; k < model->bytes[i]; k++)
            input[n++] = "*$\r\nabc 0"[pgasi_rng_below(rng, 9)];
        n += (size_t)sprintf(input + n, "\r\n");
    }
    return n;
}

static bool same_request(const resp_parser_t *parser, const char *input, const model_t *model)
{
    bool same = parser->n_args == model->n;
    for (size_t i = 0; same && i < model->n; i++)
        same = parser->args[i].data == input + model->at[i] &&
               parser->args[i].bytes == model->bytes[i];
    return same;
}

static void random_pieces(void)
{
    pgasi_rng_t rng;
    model_t *models = calloc(N_REQUESTS, sizeof *models);
    char *input = malloc(N_REQUESTS * WORDS_MAX * (WORD_MAX + 12));
    size_t n = 0, begin = 0, end = 0, used = 0, n_same = 0, n_requests = 0;
    resp_parser_t parser = { .limits = wide };
    pgasi_rng_seed(&rng, tap_seed(7));
    for (int i = 0; i < N_REQUESTS; i++)
        n = make_request(&rng, input, n, &models[i]);
    while (begin < n && n_requests < N_REQUESTS) {
        if (resp_parse(&parser, input + begin, end - begin, &used) == RESP_REQUEST) {
            n_same += same_request(&parser, input, &models[n_requests++]);
            begin += used;
        } else if (end == n) {
            break;
        } else {
            end += 1 + pgasi_rng_below(&rng, 60);
            end = end > n ? n : end;
        }
    }
    is_int(n_same, N_REQUESTS, "random requests in random pieces");
    models[0].bytes[0]++;
    begin = 0;
    resp_parse(&parser, input, n, &used);
    ok(!same_request(&parser, input, &models[0]), "the comparison can fail (broken on purpose)");
    resp_parser_fini(&parser);
    free(models);
    free(input);
}

/* ---- integers ---- */

static void integers(void)
{
    static const char *const good[] = {
        "0", "1", "-1", "10", "9223372036854775807", "-9223372036854775808"
    };
    static const int64_t values[] = { 0, 1, -1, 10, INT64_MAX, INT64_MIN };
    static const char *const bad[] = { "",
                                       "-",
                                       "-0",
                                       "00",
                                       "01",
                                       "+1",
                                       "1 ",
                                       " 1",
                                       "1x",
                                       "x",
                                       "1.0",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "99999999999999999999999" };
    int64_t value = 77;
    int n_good = 0, n_bad = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        n_good += resp_integer(good[i], strlen(good[i]), &value) && value == values[i];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        n_bad += !resp_integer(bad[i], strlen(bad[i]), &value);
    is_int(n_good, 6, "integers");
    is_int(n_bad, 14, "texts that are no integers");
}

/* ---- replies ---- */

static void write_all(resp_writer_t *w)
{
    resp_ok(w);
    resp_error(w, "ERR %s", "a\r\nb");
    resp_number(w, INT64_MIN);
    resp_number(w, 0);
    resp_bulk(w, "a\0b", 3);
    resp_bulk(w, "", 0);
    resp_text(w, "text");
    resp_null(w);
    resp_array(w, 2);
    resp_map(w, 3);
    resp_set(w, 4);
    resp_double(w, 1.5);
    resp_double(w, -INFINITY);
    resp_verbatim(w, "hi", 2);
}

static void written(int version, const char *want, size_t bytes)
{
    resp_writer_t w = { .version = version };
    write_all(&w);
    ok(!w.failed && w.buffer.end == bytes && memcmp(w.buffer.data, want, bytes) == 0,
       "replies of RESP%d", version);
    resp_buffer_fini(&w.buffer);
}

#define COMMON \
    "+OK\r\n-ERR a  b\r\n:-9223372036854775808\r\n:0\r\n$3\r\na\0b\r\n$0\r\n\r\n$4\r\ntext\r\n"

static void replies(void)
{
    static const char two[] =
        COMMON "$-1\r\n*2\r\n*6\r\n*4\r\n$3\r\n1.5\r\n$4\r\n-inf\r\n$2\r\nhi\r\n";
    static const char three[] = COMMON "_\r\n*2\r\n%3\r\n~4\r\n,1.5\r\n,-inf\r\n=6\r\ntxt:hi\r\n";
    written(2, two, sizeof two - 1);
    written(3, three, sizeof three - 1);
}

/* A string that is stored in place is the same as one that is copied, whatever was reserved. */
static void in_place(void)
{
    static const size_t sizes[] = { 0, 1, 9, 10, 99, 100, 16000, 70000 };
    enum { N = sizeof sizes / sizeof *sizes };
    resp_writer_t direct = { .version = 2 }, copied = { .version = 2 };
    char *value = malloc(70000);
    for (int i = 0; i < 70000; i++)
        value[i] = (char)i;
    for (int i = 0; i < N; i++) {
        for (int k = 0; k <= i; k++) {
            char *to = resp_bulk_begin(&direct, sizes[i]);
            memcpy(to, value, sizes[k]);
            resp_bulk_end(&direct, sizes[i], sizes[k]);
            resp_bulk(&copied, value, sizes[k]);
        }
    }
    ok(direct.buffer.end == copied.buffer.end &&
           memcmp(direct.buffer.data, copied.buffer.data, copied.buffer.end) == 0,
       "strings that are stored in the buffer directly");
    resp_buffer_fini(&direct.buffer);
    resp_buffer_fini(&copied.buffer);
    free(value);
}

/* Bytes come in at the end and leave at the front. */
static void buffers(void)
{
    resp_buffer_t buffer = { NULL, 0, 0, 0 };
    unsigned char in = 0, out = 0;
    bool same = true;
    for (int i = 0; i < 3000; i++) {
        size_t n = (size_t)i % 700 + 1;
        same = same && resp_reserve(&buffer, n);
        for (size_t k = 0; k < n; k++)
            buffer.data[buffer.end++] = (char)in++;
        for (size_t left = i % 1000 > 900 ? buffer.end - buffer.begin : n / 2; left > 0; left--)
            same = same && (unsigned char)buffer.data[buffer.begin++] == out++;
    }
    ok(same, "bytes leave a buffer as they came");
    ok(resp_buffers_bytes() == buffer.capacity, "memory of buffers is counted");
    resp_buffer_fini(&buffer);
    is_int(resp_buffers_bytes(), 0, "and given back");
    resp_pool_fini();
}

/* One writer takes what there is, in small steps. The other one has a small buffer. */
static void limit_of_buffers(void)
{
    enum { LIMIT = 1 << 20, STEP = 10000 };
    static const char value[STEP];
    resp_writer_t large = { .version = 2 }, small = { .version = 2 };
    size_t n = 0, most = 0;
    resp_limit_buffers(LIMIT);
    while (!large.failed && n < (size_t)LIMIT) {
        most = resp_buffers_bytes();
        resp_bulk(&large, value, STEP);
        n += STEP;
    }
    ok(large.failed && n > LIMIT - 2 * (size_t)STEP && most <= LIMIT,
       "a writer fails at the limit");
    is_int(resp_buffers_bytes(), 0, "and gives its buffer back");
    resp_buffer_t all = { NULL, 0, 0, 0 };
    bool reserved = resp_reserve(&all, LIMIT);
    resp_bulk(&small, value, STEP);
    ok(reserved && !small.failed, "small buffers are possible above the limit");
    resp_bulk(&small, value, STEP);
    ok(small.failed, "large ones are not");
    resp_buffer_fini(&all);
    resp_buffer_fini(&small.buffer);
    resp_limit_buffers(SIZE_MAX);
    resp_pool_fini();
}

int main(void)
{
    plan(N_GOOD + N_BAD + N_LIMITS + 2 + 1 + 2 + 2 + 2 + 1 + 3 + 4);
    good_requests();
    bad_requests();
    limits();
    slow_sender();
    wants();
    random_pieces();
    integers();
    replies();
    in_place();
    buffers();
    limit_of_buffers();
    return done();
}
