/* Redis' protocol, RESP: an incremental parser of requests, and writers of replies.
 *
 *      resp_parser_t parser = { .limits = limits };
 *      switch (resp_parse(&parser, input, n_bytes, &n_used)) {
 *      case RESP_MORE:     append further bytes to the input, and call it again
 *      case RESP_REQUEST:  parser.args[0 .. parser.n_args - 1] point into the input
 *      case RESP_ERROR:    send parser.error, and close the connection
 *      }
 *
 *  A request is an array of bulk strings, or a line of words (an inline command, as a person types
 *  it). The parser copies nothing and reads each byte of a line once, however the request is cut
 *  into pieces. Texts of errors are those of redis 7.0.
 *  source: the specification of RESP2 and RESP3 */
#ifndef TOOLS_RESP_H
#define TOOLS_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- requests ---- */

typedef struct {
    char *data; /* not terminated */
    size_t bytes;
} resp_arg_t;

enum { RESP_LINE_MAX = 65536 }; /* bytes of an inline command, or of a number */

typedef struct {
    size_t args_max;      /* strings of a request */
    size_t bulk_max;      /* bytes of a string */
    size_t request_max;   /* bytes of a request */
    bool unauthenticated; /* also the smaller limits of clients that gave no password */
} resp_limits_t;

typedef enum { RESP_MORE, RESP_REQUEST, RESP_ERROR } resp_result_t;

typedef struct {
    resp_limits_t limits;
    resp_arg_t *args; /* of the last request; the parser owns the array */
    size_t n_args;    /* 0: an empty request, which has no reply */
    char error[64];
    /* How far it is in a request. Offsets count from the request's first byte. */
    size_t capacity; /* of args */
    size_t n_left;   /* strings that are missing */
    size_t at;       /* the first byte that is not parsed */
    size_t searched; /* no line ends before this offset */
    size_t bulk;     /* bytes of the string at `at`, if in_bulk */
    bool in_array, in_bulk;
} resp_parser_t;

/* Parses the request at `data`. Each call gets the whole request from its first byte on, which may
 * be at another address than before. The parser changes inline commands in place.
 * @param used_p  gets the bytes of the request, for RESP_REQUEST
 * @return RESP_ERROR also without memory */
resp_result_t resp_parse(resp_parser_t *parser, char *data, size_t bytes, size_t *used_p);

/* @return the bytes that the request has at least, as far as it is parsed */
size_t resp_wants(const resp_parser_t *parser);

/* Frees what the parser owns. It can be used again. */
void resp_parser_fini(resp_parser_t *parser);

/* Splits a line into words: in place, with quotes and escapes as in redis-cli.
 * @return false if quotes are not balanced, or without memory */
bool resp_split(resp_parser_t *parser, char *data, size_t bytes);

/* @return whether the whole text is an integer as redis writes it: no blank, no plus sign, no
 * leading zero */
bool resp_integer(const char *data, size_t bytes, int64_t *value_p);

/* ---- replies ---- */

/* Bytes that wait: data[begin .. end - 1]. */
typedef struct {
    char *data;
    size_t begin, end, capacity;
} resp_buffer_t;

enum { RESP_BUFFER_BYTES = 16384 }; /* of buffers in the pool */

/* Makes room for so many bytes at the end. It moves the bytes to the front, or takes a larger
 * buffer. @return false without memory or above the limit, and the buffer is unchanged */
bool resp_reserve(resp_buffer_t *buffer, size_t bytes);

/* Gives the memory back: to the pool, if it has the usual size. */
void resp_buffer_fini(resp_buffer_t *buffer);

/* Limits the memory of all buffers. Buffers of RESP_BUFFER_BYTES are possible above the limit, too.
 * Without a call there is no limit. */
void resp_limit_buffers(size_t bytes);

/* @return the memory of all buffers, apart from the pool */
size_t resp_buffers_bytes(void);

/* Frees the pool. */
void resp_pool_fini(void);

/* Where replies go. Without memory, or above the limit of all buffers, a writer sets `failed` and
 * frees the buffer. Later writers do nothing. */
typedef struct {
    resp_buffer_t buffer;
    int version; /* 2 or 3 */
    bool failed;
} resp_writer_t;

void resp_raw(resp_writer_t *w, const void *data, size_t bytes);
void resp_line(resp_writer_t *w, char type, const char *text); /* "+OK", "-ERR text" */
void resp_ok(resp_writer_t *w);
void resp_number(resp_writer_t *w, int64_t value);
void resp_bulk(resp_writer_t *w, const void *data, size_t bytes);
void resp_text(resp_writer_t *w, const char *text);                   /* a bulk string */
void resp_verbatim(resp_writer_t *w, const char *text, size_t bytes); /* RESP2: a bulk string */
void resp_double(resp_writer_t *w, double value);                     /* RESP2: a bulk string */
void resp_null(resp_writer_t *w);
void resp_array(resp_writer_t *w, size_t n);
void resp_map(resp_writer_t *w, size_t n); /* RESP2: 2n elements */
void resp_set(resp_writer_t *w, size_t n); /* RESP2: an array */

/* An error. The text begins with its code, such as "ERR"; line ends in it become blanks. */
__attribute__((format(printf, 2, 3))) void resp_error(resp_writer_t *w, const char *format, ...);

/* A bulk string in two steps, so that its bytes can be stored in the buffer directly. begin
 * returns room for `bytes` or NULL; end adds the string of `bytes` bytes, at most as many. */
char *resp_bulk_begin(resp_writer_t *w, size_t bytes);
void resp_bulk_end(resp_writer_t *w, size_t reserved, size_t bytes);

#endif
