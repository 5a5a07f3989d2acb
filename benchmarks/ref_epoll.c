/* A bare server: the limit for one thread that serves Redis' protocol by epoll.
 *
 * It knows GET and SET of the keys "key:" and twelve digits, and PING. Values have a fixed size and
 * are in an array by the number of their key. It checks what it must to stay in its memory, and
 * nothing else. It is fixed: never make it slower in order to look better.
 *
 * usage: ref_epoll PORT [KEYS [BYTES]] */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "examples/usage.h"

#define KEY_BYTES 16
#define IN_BYTES  (1u << 16)
#define OUT_BYTES (1u << 17)
#define EVENTS    256

typedef struct {
    int fd;
    size_t n_in;
    char in[IN_BYTES];
} conn_t;

static size_t n_keys = 1000000, value_bytes = 64, reply_bytes;
static char *replies; /* whole replies to GET, one for each key */
static char out[OUT_BYTES];
static size_t n_out;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void reply(const char *text, size_t n)
{
    memcpy(out + n_out, text, n);
    n_out += n;
}

/* The reply of the key at `at`; NULL: it is none of ours. */
static char *reply_of(const char *at)
{
    uint64_t key = 0;
    for (int i = 4; i < KEY_BYTES; i++)
        key = key * 10 + (uint64_t)(at[i] - '0');
    return key < n_keys ? replies + key * reply_bytes : NULL;
}

/* A number and the end of its line; NULL: the line is not complete. */
static const char *take_number(const char *at, const char *end, size_t *n_p)
{
    size_t n = 0;
    for (; at < end && *at != '\r'; at++)
        n = n * 10 + (size_t)(*at - '0');
    *n_p = n;
    return at + 2 <= end ? at + 2 : NULL;
}

/* A command's words. @return its end; NULL: it is not complete, or not a command */
static const char *take_command(const char *at, const char *end, const char **word, size_t *bytes,
                                size_t *n_p)
{
    if (at == end || *at != '*' || !(at = take_number(at + 1, end, n_p)) || *n_p > 3)
        return NULL;
    for (size_t i = 0; i < *n_p; i++) {
        if (at == end || *at != '$' || !(at = take_number(at + 1, end, &bytes[i])))
            return NULL;
        word[i] = at;
        if (bytes[i] > IN_BYTES || (size_t)(end - at) < bytes[i] + 2)
            return NULL;
        at += bytes[i] + 2;
    }
    return at;
}

static void run(const char *const *word, const size_t *bytes, size_t n)
{
    char *entry = n >= 2 && bytes[1] == KEY_BYTES ? reply_of(word[1]) : NULL;
    if (n == 2 && entry) {
        if (*entry)
            reply(entry, reply_bytes);
        else
            reply("$-1\r\n", 5);
    } else if (n == 3 && entry && bytes[2] == value_bytes) {
        int head = snprintf(entry, 24, "$%zu\r\n", value_bytes);
        memcpy(entry + head, word[2], value_bytes + 2);
        reply("+OK\r\n", 5);
    } else if (n == 1)
        reply("+PONG\r\n", 7);
    else
        reply("-ERR\r\n", 6);
}

static bool send_all(int fd)
{
    for (size_t at = 0; at < n_out;) {
        ssize_t n = send(fd, out + at, n_out - at, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    n_out = 0;
    return true;
}

/* @return false: the connection has ended */
static bool serve(conn_t *conn)
{
    ssize_t got = recv(conn->fd, conn->in + conn->n_in, IN_BYTES - conn->n_in, 0);
    const char *at = conn->in, *end, *next, *word[3];
    size_t bytes[3], n;
    if (got <= 0)
        return false;
    end = conn->in + conn->n_in + got;
    while ((next = take_command(at, end, word, bytes, &n))) {
        if (n_out + reply_bytes + 64 > OUT_BYTES && !send_all(conn->fd))
            return false;
        run(word, bytes, n);
        at = next;
    }
    conn->n_in = (size_t)(end - at);
    if (at != conn->in)
        memmove(conn->in, at, conn->n_in);
    return send_all(conn->fd) && conn->n_in < IN_BYTES;
}

static void welcome(int epoll, int listener)
{
    struct epoll_event event = { .events = EPOLLIN };
    conn_t *conn = malloc(sizeof *conn);
    int one = 1;
    if (!conn)
        die("malloc");
    conn->n_in = 0;
    conn->fd = accept(listener, NULL, NULL);
    if (conn->fd < 0)
        die("accept");
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    event.data.ptr = conn;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, conn->fd, &event))
        die("epoll_ctl");
}

static int listen_at(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1024))
        die("bind");
    return listener;
}

int main(int argc, char **argv)
{
    struct epoll_event event = { .events = EPOLLIN }, ready[EVENTS];
    static const char usage[] = "ref_epoll PORT [KEYS [BYTES]]\n";
    int listener, epoll = epoll_create1(0);
    usage_check(0, argc, argv, usage, 3);
    if (argc < 2)
        usage_exit(0, usage, "missing", "PORT");
    n_keys = argc > 2 ? strtoul(argv[2], NULL, 10) : n_keys;
    value_bytes = argc > 3 ? strtoul(argv[3], NULL, 10) : value_bytes;
    reply_bytes = (size_t)snprintf(out, sizeof out, "$%zu\r\n", value_bytes) + value_bytes + 2;
    replies = reply_bytes < IN_BYTES / 2 ? calloc(n_keys, reply_bytes) : NULL;
    if (!replies)
        die("calloc");
    listener = listen_at(atoi(argv[1]));
    (void)epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int n = epoll_wait(epoll, ready, EVENTS, -1);
        for (int i = 0; i < n; i++) {
            conn_t *conn = ready[i].data.ptr;
            if (!conn)
                welcome(epoll, listener);
            else if (!serve(conn)) {
                close(conn->fd);
                free(conn);
            }
        }
    }
}
