/* One connection that speaks Redis' protocol as raw bytes, for tests that compare servers.
 *
 *   wire_t w;
 *   wire_open(&w, 7400);
 *   wire_command(&w, args, n);                  appends to the buffer
 *   wire_send(&w);
 *   text_t reply = wire_reply(&w);              valid until the next call; n 0: the server closed
 *   wire_close(&w);
 *
 * A server that does not answer within ten seconds ends the program with status 2. */
#ifndef T_SPMD_REDIS_WIRE_H
#define T_SPMD_REDIS_WIRE_H

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define WIRE_TIMEOUT_MS 10000

typedef struct {
    const char *bytes;
    size_t n;
} text_t;

typedef struct {
    char *bytes;
    size_t n, room;
} buffer_t;

typedef struct {
    int port, fd;
    buffer_t out, in;
    size_t used; /* bytes of `in` that earlier replies had */
} wire_t;

static inline void buffer_add(buffer_t *b, const void *bytes, size_t n)
{
    if (b->n + n > b->room) {
        b->room = 2 * (b->n + n) + 256;
        b->bytes = realloc(b->bytes, b->room);
        if (!b->bytes)
            abort();
    }
    if (n > 0)
        memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
}

/* Prints bytes as redis-cli does, at most 300 of them. */
static inline void print_text(const char *before, const char *bytes, size_t n)
{
    printf("%s\"", before);
    for (size_t i = 0; i < n && i < 300; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (c == '\r' || c == '\n')
            printf("\\%c", c == '\r' ? 'r' : 'n');
        else if (c < 32 || c > 126 || c == '"' || c == '\\')
            printf("\\x%02x", c);
        else
            putchar(c);
    }
    printf("\"%s", n > 300 ? "..." : "");
}

static inline void wire_die(const wire_t *w, const char *what)
{
    printf("port %d: %s (%s)\n", w->port, what, strerror(errno));
    exit(2);
}

static inline void wire_open(wire_t *w, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    *w = (wire_t){ .port = port, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    if (w->fd < 0 || connect(w->fd, (struct sockaddr *)&address, sizeof address) != 0)
        wire_die(w, "no connection");
}

static inline void wire_close(wire_t *w)
{
    close(w->fd);
    free(w->out.bytes);
    free(w->in.bytes);
    w->out = w->in = (buffer_t){ .n = 0 };
    w->used = 0;
}

static inline void wire_command(wire_t *w, const text_t *args, size_t n)
{
    char head[32];
    buffer_add(&w->out, head, (size_t)sprintf(head, "*%zu\r\n", n));
    for (size_t i = 0; i < n; i++) {
        buffer_add(&w->out, head, (size_t)sprintf(head, "$%zu\r\n", args[i].n));
        buffer_add(&w->out, args[i].bytes, args[i].n);
        buffer_add(&w->out, "\r\n", 2);
    }
}

/* Receives what there is. @return false if the server has closed the connection */
static inline bool wire_receive(wire_t *w)
{
    static char bytes[65536];
    struct pollfd ready = { w->fd, POLLIN, 0 };
    if (poll(&ready, 1, WIRE_TIMEOUT_MS) != 1)
        wire_die(w, "no answer");
    ssize_t n = recv(w->fd, bytes, sizeof bytes, 0);
    if (n > 0)
        buffer_add(&w->in, bytes, (size_t)n);
    return n > 0;
}

/* Sends all. The server's answers are received meanwhile, because it may not read on before. */
static inline void wire_send(wire_t *w)
{
    size_t sent = 0;
    while (sent < w->out.n) {
        struct pollfd ready = { w->fd, POLLIN | POLLOUT, 0 };
        if (poll(&ready, 1, WIRE_TIMEOUT_MS) != 1)
            wire_die(w, "takes no bytes");
        if (ready.revents & POLLIN && !wire_receive(w))
            break;
        if (!(ready.revents & POLLOUT))
            continue;
        ssize_t n = send(w->fd, w->out.bytes + sent, w->out.n - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN)
            break;
        sent += n > 0 ? (size_t)n : 0;
    }
    w->out.n = 0;
}

/* The bytes of the reply at the start of the text; 0: not complete. */
static inline size_t reply_length(const char *text, size_t n)
{
    const char *end = n > 0 ? memchr(text, '\n', n) : NULL;
    if (!end)
        return 0;
    size_t length = (size_t)(end - text) + 1;
    long count = strtol(text + 1, NULL, 10);
    if (strchr("$=!", *text))
        return count < 0 ? length
                         : (length + (size_t)count + 2 <= n) * (length + (size_t)count + 2);
    if (!strchr("*~>%|", *text))
        return length;
    if (*text == '%' || *text == '|')
        count *= 2;
    count += *text == '|'; /* an attribute stands before a reply */
    for (long i = 0; i < count; i++) {
        size_t item = reply_length(text + length, n - length);
        if (item == 0)
            return 0;
        length += item;
    }
    return length;
}

/* The next reply. @return n 0: the server has closed the connection */
static inline text_t wire_reply(wire_t *w)
{
    size_t n = reply_length(w->in.bytes + w->used, w->in.n - w->used);
    if (n == 0 && w->used > 0) {
        w->in.n -= w->used;
        memmove(w->in.bytes, w->in.bytes + w->used, w->in.n);
        w->used = 0;
    }
    while (n == 0 && wire_receive(w))
        n = reply_length(w->in.bytes, w->in.n);
    w->used += n;
    return (text_t){ w->in.bytes + w->used - n, n };
}

#endif
