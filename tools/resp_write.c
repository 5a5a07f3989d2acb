/* resp_write: buffers and the writers of replies. Idle clients own no buffer: buffers of the usual
 * size go to a pool, and the last one that came back is used first, because the processor's cache
 * has it. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "resp.h"

enum { POOL_MAX = 256 };

static char *pool[POOL_MAX];
static size_t n_pool, bytes_used, bytes_max = SIZE_MAX;

/* ---- buffers ---- */

static char *take(size_t *capacity_p)
{
    char *data;
    if (*capacity_p <= RESP_BUFFER_BYTES) {
        *capacity_p = RESP_BUFFER_BYTES;
        data = n_pool > 0 ? pool[--n_pool] : malloc(RESP_BUFFER_BYTES);
    } else {
        data = malloc(*capacity_p);
    }
    if (data)
        bytes_used += *capacity_p;
    return data;
}

static void give(char *data, size_t capacity)
{
    bytes_used -= capacity;
    if (capacity == RESP_BUFFER_BYTES && n_pool < POOL_MAX)
        pool[n_pool++] = data;
    else
        free(data);
}

/* Large buffers grow in place, or by moving pages. */
static bool grow(resp_buffer_t *buffer, size_t capacity)
{
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return false;
    bytes_used += capacity - buffer->capacity;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

/* Whether the buffer may have this capacity. Buffers of the usual size are always possible, so that
 * a client with a large buffer takes nothing from clients with small ones. */
static bool is_allowed(const resp_buffer_t *buffer, size_t capacity)
{
    size_t others = bytes_used - buffer->capacity;
    return capacity <= RESP_BUFFER_BYTES || (others <= bytes_max && capacity <= bytes_max - others);
}

bool resp_reserve(resp_buffer_t *buffer, size_t bytes)
{
    size_t n = buffer->end - buffer->begin;
    if (buffer->capacity - buffer->end >= bytes && buffer->data)
        return true;
    if (buffer->begin >= n && buffer->begin > 0 && buffer->capacity - n >= bytes) {
        memcpy(buffer->data, buffer->data + buffer->begin, n);
        buffer->begin = 0;
        buffer->end = n;
        return true;
    }
    size_t capacity = n + bytes > 2 * n ? n + bytes : 2 * n;
    if (!is_allowed(buffer, capacity))
        capacity = n + bytes;
    if (!is_allowed(buffer, capacity))
        return false;
    if (buffer->begin == 0 && buffer->capacity > RESP_BUFFER_BYTES)
        return grow(buffer, capacity);
    char *data = take(&capacity);
    if (!data)
        return false;
    if (n > 0)
        memcpy(data, buffer->data + buffer->begin, n);
    resp_buffer_fini(buffer);
    *buffer = (resp_buffer_t){ data, 0, n, capacity };
    return true;
}

void resp_buffer_fini(resp_buffer_t *buffer)
{
    if (buffer->data)
        give(buffer->data, buffer->capacity);
    *buffer = (resp_buffer_t){ NULL, 0, 0, 0 };
}

void resp_limit_buffers(size_t bytes)
{
    bytes_max = bytes;
}

size_t resp_buffers_bytes(void)
{
    return bytes_used;
}

void resp_pool_fini(void)
{
    while (n_pool > 0)
        free(pool[--n_pool]);
}

/* ---- parts of replies ---- */

/* @return where so many bytes can be stored, or NULL */
static char *room(resp_writer_t *w, size_t bytes)
{
    if (w->failed || !resp_reserve(&w->buffer, bytes)) {
        w->failed = true;
        resp_buffer_fini(&w->buffer);
        return NULL;
    }
    return w->buffer.data + w->buffer.end;
}

void resp_raw(resp_writer_t *w, const void *data, size_t bytes)
{
    char *to = room(w, bytes);
    if (!to)
        return;
    memcpy(to, data, bytes);
    w->buffer.end += bytes;
}

/* Stores a line such as ":-12\r\n". @return its bytes */
static size_t put_line(char *to, char type, int64_t value)
{
    char digits[20];
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    size_t n = 0, at = 0;
    do
        digits[n++] = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    to[at++] = type;
    if (value < 0)
        to[at++] = '-';
    while (n > 0)
        to[at++] = digits[--n];
    to[at++] = '\r';
    to[at++] = '\n';
    return at;
}

enum { LINE_MAX_BYTES = 24 }; /* of put_line */

static void count_line(resp_writer_t *w, char type, int64_t value)
{
    char *to = room(w, LINE_MAX_BYTES);
    if (to)
        w->buffer.end += put_line(to, type, value);
}

/* ---- replies ---- */

void resp_line(resp_writer_t *w, char type, const char *text)
{
    resp_raw(w, &type, 1);
    resp_raw(w, text, strlen(text));
    resp_raw(w, "\r\n", 2);
}

void resp_ok(resp_writer_t *w)
{
    resp_raw(w, "+OK\r\n", 5);
}

void resp_number(resp_writer_t *w, int64_t value)
{
    count_line(w, ':', value);
}

void resp_bulk(resp_writer_t *w, const void *data, size_t bytes)
{
    char *to = room(w, bytes + LINE_MAX_BYTES + 2);
    if (!to)
        return;
    char *from = to;
    to += put_line(to, '$', (int64_t)bytes);
    if (bytes > 0)
        memcpy(to, data, bytes);
    memcpy(to + bytes, "\r\n", 2);
    w->buffer.end += (size_t)(to - from) + bytes + 2;
}

void resp_text(resp_writer_t *w, const char *text)
{
    resp_bulk(w, text, strlen(text));
}

void resp_verbatim(resp_writer_t *w, const char *text, size_t bytes)
{
    if (w->version < 3) {
        resp_bulk(w, text, bytes);
        return;
    }
    count_line(w, '=', (int64_t)bytes + 4);
    resp_raw(w, "txt:", 4);
    resp_raw(w, text, bytes);
    resp_raw(w, "\r\n", 2);
}

void resp_double(resp_writer_t *w, double value)
{
    char text[40];
    if (isinf(value))
        snprintf(text, sizeof text, "%s", value > 0 ? "inf" : "-inf");
    else
        snprintf(text, sizeof text, "%.17g", value);
    if (w->version < 3)
        resp_text(w, text);
    else
        resp_line(w, ',', text);
}

void resp_null(resp_writer_t *w)
{
    if (w->version < 3)
        resp_raw(w, "$-1\r\n", 5);
    else
        resp_raw(w, "_\r\n", 3);
}

void resp_array(resp_writer_t *w, size_t n)
{
    count_line(w, '*', (int64_t)n);
}

void resp_map(resp_writer_t *w, size_t n)
{
    if (w->version < 3)
        count_line(w, '*', (int64_t)(2 * n));
    else
        count_line(w, '%', (int64_t)n);
}

void resp_set(resp_writer_t *w, size_t n)
{
    count_line(w, w->version < 3 ? '*' : '~', (int64_t)n);
}

void resp_error(resp_writer_t *w, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '\r' || *c == '\n')
            *c = ' ';
    resp_line(w, '-', text);
}

/* The bytes are stored behind the longest possible line, and move to the front if the line is
 * shorter. Large strings have long lines, and move little or not at all. */
static size_t line_bytes(size_t bytes)
{
    size_t n = 4; /* "$", a digit, "\r\n" */
    while ((bytes /= 10) > 0)
        n++;
    return n;
}

char *resp_bulk_begin(resp_writer_t *w, size_t bytes)
{
    char *to = room(w, bytes + LINE_MAX_BYTES + 2);
    return to ? to + line_bytes(bytes) : NULL;
}

void resp_bulk_end(resp_writer_t *w, size_t reserved, size_t bytes)
{
    char *to = w->buffer.data + w->buffer.end, *from = to + line_bytes(reserved);
    size_t n = line_bytes(bytes);
    if (to + n != from)
        memmove(to + n, from, bytes);
    put_line(to, '$', (int64_t)bytes);
    memcpy(to + n + bytes, "\r\n", 2);
    w->buffer.end += n + bytes + 2;
}
