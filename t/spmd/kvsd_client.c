/* Clients of pgas_kvsd, well-behaved and others: the program of t/spmd/kvsd.t, no test by itself.
 * It prints one line at success, and otherwise a complaint and exits with 1.
 *   kvsd_client PORT script          sends each line of standard input, prints each reply in a line
 *   kvsd_client PORT bytes           sends a pipeline byte by byte
 *   kvsd_client PORT garbage N       N connections send random bytes
 *   kvsd_client PORT order SEED      a random pipeline on few keys, against a model
 *   kvsd_client PORT many N          N connections at one time
 *   kvsd_client PORT hold N          opens N connections with half a request, prints a line, waits
 *   kvsd_client PORT slow            reads no reply until the server cuts it off
 *   kvsd_client PORT expire N        sets N keys that expire at once, until the server counts none
 *   kvsd_client PORT flood           asks for replies above 16 MB, which harms no other client
 *   kvsd_client PORT refused N       opens connections until one is refused, N are not */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "base/rng.h"

enum { LIMIT_S = 60 };

static int port;

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    exit(1);
}

/* ---- connections ---- */

typedef struct {
    int fd;
    char data[65536];
    size_t begin, end;
} conn_t;

static conn_t *open_conn(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    struct timeval limit = { .tv_sec = LIMIT_S };
    conn_t *conn = calloc(1, sizeof *conn);
    if (!conn)
        fail("out of memory");
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    conn->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(conn->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail("connect: %s", strerror(errno));
    return conn;
}

static void close_conn(conn_t *conn)
{
    close(conn->fd);
    free(conn);
}

/* @return whether all bytes were sent */
static bool send_all(const conn_t *conn, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = send(conn->fd, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

static void send_text(const conn_t *conn, const char *text)
{
    if (!send_all(conn, text, strlen(text)))
        fail("send: %s", strerror(errno));
}

/* @return false at the end of the connection */
static bool fill(conn_t *conn)
{
    if (conn->begin == conn->end)
        conn->begin = conn->end = 0;
    ssize_t n = recv(conn->fd, conn->data + conn->end, sizeof conn->data - conn->end, 0);
    if (n < 0 && errno == EAGAIN)
        fail("no reply for %d s", LIMIT_S);
    if (n <= 0)
        return false;
    conn->end += (size_t)n;
    return true;
}

static bool read_bytes(conn_t *conn, char *to, size_t bytes)
{
    while (bytes > 0) {
        if (conn->begin == conn->end && !fill(conn))
            return false;
        size_t n = conn->end - conn->begin;
        n = n < bytes ? n : bytes;
        memcpy(to, conn->data + conn->begin, n);
        conn->begin += n;
        to += n;
        bytes -= n;
    }
    return true;
}

/* Reads a line without its end. */
static bool read_line(conn_t *conn, char *line, size_t room)
{
    size_t n = 0;
    for (;;) {
        if (n + 1 == room || !read_bytes(conn, line + n, 1))
            return false;
        if (line[n] == '\n')
            break;
        n++;
    }
    line[n > 0 ? n - 1 : 0] = '\0';
    return true;
}

/* Adds a reply to the text: a string as it is, an array as [a, b], null as (null).
 * @return false at the end of the connection */
static bool read_reply(conn_t *conn, char *text, size_t room)
{
    char line[512];
    if (!read_line(conn, line, sizeof line))
        return false;
    size_t at = strlen(text);
    long long n = atoll(line + 1);
    if (strchr("$=", line[0]) && n >= 0) {
        if (at + (size_t)n + 3 > room)
            fail("too large a reply: %s", line);
        bool good = read_bytes(conn, text + at, (size_t)n + 2);
        text[at + (size_t)n] = '\0';
        return good;
    }
    if (!strchr("*~%", line[0]) || n < 0) {
        bool null = n < 0 && strchr("$*", line[0]);
        snprintf(text + at, room - at, "%s",
                 null || line[0] == '_' ? "(null)" : line + (line[0] != '-'));
        return true;
    }
    strcat(text, "[");
    for (long long i = 0, total = line[0] == '%' ? 2 * n : n; i < total; i++) {
        strcat(text, i > 0 ? ", " : "");
        if (!read_reply(conn, text, room))
            return false;
    }
    strcat(text, "]");
    return true;
}

static char reply[1 << 21];

static const char *take(conn_t *conn)
{
    reply[0] = '\0';
    if (!read_reply(conn, reply, sizeof reply))
        fail("the connection ended");
    return reply;
}

static void expect(conn_t *conn, const char *want)
{
    if (strcmp(take(conn), want) != 0)
        fail("a reply is \"%.100s\", not \"%.100s\"", reply, want);
}

/* ---- the clients ---- */

static void script(void)
{
    conn_t *conn = open_conn();
    static char line[1 << 16];
    while (fgets(line, sizeof line, stdin)) {
        send_text(conn, line);
        reply[0] = '\0';
        puts(read_reply(conn, reply, sizeof reply) ? reply : "(end)");
    }
    close_conn(conn);
}

static void by_bytes(void)
{
    static const char requests[] = "*3\r\n$3\r\nSET\r\n$5\r\nbytes\r\n$4\r\n\r\n\r\n\r\n"
                                   "GET bytes\r\n*2\r\n$6\r\nSTRLEN\r\n$5\r\nbytes\r\nPING\r\n";
    conn_t *conn = open_conn();
    for (const char *at = requests; *at != '\0'; at++)
        if (!send_all(conn, at, 1))
            fail("send: %s", strerror(errno));
    expect(conn, "OK");
    expect(conn, "\r\n\r\n");
    expect(conn, "4");
    expect(conn, "PONG");
    close_conn(conn);
    puts("byte by byte");
}

/* Ends of connections are possible at any time, and replies are not read. */
static void garbage(int n)
{
    static const char *const begins[] = { "",
                                          "*",
                                          "*3\r\n$3\r\n",
                                          "*2\r\n$400000000\r\n",
                                          "*1000000\r\n$1\r\n",
                                          "GET \"",
                                          "*1\r\n$-5\r\n" };
    pgasi_rng_t rng;
    char data[5000];
    pgasi_rng_seed(&rng, 5);
    for (int i = 0; i < n; i++) {
        conn_t *conn = open_conn();
        const char *begin = begins[i % 7];
        size_t bytes = pgasi_rng_below(&rng, sizeof data);
        for (size_t k = 0; k < bytes; k++)
            data[k] = (char)pgasi_rng_u64(&rng);
        send_all(conn, begin, strlen(begin));
        send_all(conn, data, bytes);
        if (i % 3 == 0)
            shutdown(conn->fd, SHUT_WR);
        if (i % 3 == 0)
            fill(conn);
        close_conn(conn);
    }
    puts("garbage");
}

/* ---- a pipeline against a model ---- */

enum { N_KEYS = 5, N_ROUNDS = 60, DEPTH = 300, VALUE_MAX = 60000 };

typedef struct {
    char *value; /* of N_KEYS values; NULL: absent */
    size_t bytes;
} model_t;

static char *text_of(size_t bytes, unsigned letter)
{
    char *text = malloc(bytes + 1);
    memset(text, (int)('a' + letter % 26), bytes);
    text[bytes] = '\0';
    return text;
}

/* Adds a request to the pipeline, and its reply to the list. */
static size_t add_step(pgasi_rng_t *rng, model_t *keys, char *out, char **want)
{
    static const size_t sizes[] = { 0, 5, 127, 128, 129, 300, 5000, 16384, 16385, VALUE_MAX };
    char number[24];
    unsigned key = (unsigned)pgasi_rng_below(rng, N_KEYS);
    model_t *model = &keys[key];
    /* Large values are rare. */
    size_t bytes = sizes[pgasi_rng_below(rng, 1 + pgasi_rng_below(rng, 10))];
    uint64_t what = pgasi_rng_below(rng, 8);
    if (what < 3) {
        *want = model->value ? strdup(model->value) : strdup("(null)");
        return (size_t)sprintf(out, "*2\r\n$3\r\nGET\r\n$6\r\norder%u\r\n", key);
    }
    if (what < 5) {
        free(model->value);
        model->value = text_of(bytes, (unsigned)pgasi_rng_u64(rng));
        model->bytes = bytes;
        *want = strdup("OK");
        return (size_t)sprintf(out, "*3\r\n$3\r\nSET\r\n$6\r\norder%u\r\n$%zu\r\n%s\r\n", key,
                               bytes, model->value);
    }
    if (what == 5) {
        *want = strdup(model->value ? "1" : "0");
        free(model->value);
        *model = (model_t){ NULL, 0 };
        return (size_t)sprintf(out, "*2\r\n$3\r\nDEL\r\n$6\r\norder%u\r\n", key);
    }
    if (what == 6) {
        snprintf(number, sizeof number, "%zu", model->bytes);
        *want = strdup(number);
        return (size_t)sprintf(out, "*2\r\n$6\r\nSTRLEN\r\n$6\r\norder%u\r\n", key);
    }
    char *longer = malloc(model->bytes + 2);
    memcpy(longer, model->value ? model->value : "", model->bytes);
    memcpy(longer + model->bytes, "+", 2);
    free(model->value);
    model->value = longer;
    snprintf(number, sizeof number, "%zu", ++model->bytes);
    *want = strdup(number);
    return (size_t)sprintf(out, "*3\r\n$6\r\nAPPEND\r\n$6\r\norder%u\r\n$1\r\n+\r\n", key);
}

static void in_order(uint64_t seed)
{
    static char out[DEPTH * (VALUE_MAX + 100)];
    char *want[DEPTH];
    model_t keys[N_KEYS] = { { NULL, 0 } };
    pgasi_rng_t rng;
    conn_t *conn = open_conn();
    pgasi_rng_seed(&rng, seed);
    for (int key = 0; key < N_KEYS; key++) {
        snprintf(out, sizeof out, "DEL order%d\r\n", key);
        send_text(conn, out);
        take(conn);
    }
    for (int round = 0; round < N_ROUNDS; round++) {
        size_t n = 0, depth = 1 + pgasi_rng_below(&rng, DEPTH);
        for (size_t i = 0; i < depth; i++)
            n += add_step(&rng, keys, out + n, &want[i]);
        if (!send_all(conn, out, n))
            fail("send: %s", strerror(errno));
        for (size_t i = 0; i < depth; i++) {
            expect(conn, want[i]);
            free(want[i]);
        }
    }
    close_conn(conn);
    puts("in order");
}

/* ---- many connections ---- */

static void many(int n)
{
    conn_t **conns = calloc((size_t)n, sizeof *conns);
    char text[100];
    for (int i = 0; i < n; i++)
        conns[i] = open_conn();
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < n; i++) {
            snprintf(text, sizeof text, "SET many%d %d\r\nINCR many%d\r\nGET many%d\r\n", i, i, i,
                     i);
            send_text(conns[i], text);
        }
        for (int i = 0; i < n; i++) {
            snprintf(text, sizeof text, "%d", i + 1);
            expect(conns[i], "OK");
            expect(conns[i], text);
            expect(conns[i], text);
        }
    }
    for (int i = 0; i < n; i++)
        close_conn(conns[i]);
    free(conns);
    puts("many");
}

static void hold(int n)
{
    for (int i = 0; i < n; i++)
        send_text(open_conn(), "PING\r\n*3\r\n$3\r\nSET\r\n$4\r\nhold\r\n$100\r\nabc");
    puts("holding");
    fflush(stdout);
    pause();
}

/* Asks for more than the sockets hold, and reads nothing. */
static void slow(void)
{
    conn_t *conn = open_conn();
    char *value = text_of(1 << 20, 1);
    time_t begin = time(NULL);
    char head[64];
    snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$%d\r\n", 1 << 20);
    send_text(conn, head);
    send_text(conn, value);
    send_text(conn, "\r\n");
    expect(conn, "OK");
    free(value);
    for (int i = 0; i < 64; i++)
        send_all(conn, "GET slow\r\n", 10);
    /* Sends until the connection is reset. */
    while (send(conn->fd, "\r\n", 2, MSG_NOSIGNAL) > 0 && time(NULL) - begin < LIMIT_S)
        usleep(50000);
    if (time(NULL) - begin >= LIMIT_S)
        fail("it was not cut off");
    close_conn(conn);
    puts("cut off");
}

/* Reads the reply of an MGET. @return how many of the n values of so many bytes came */
static int read_values(conn_t *conn, int n, size_t bytes)
{
    static char value[65536];
    char line[64];
    int n_read = 0;
    if (!read_line(conn, line, sizeof line) || line[0] != '*')
        return 0;
    while (n_read < n && read_line(conn, line, sizeof line) && read_bytes(conn, value, bytes + 2))
        n_read++;
    return n_read;
}

static void send_mget(const conn_t *conn, int n)
{
    char line[64];
    size_t head = (size_t)snprintf(line, sizeof line, "*%d\r\n$4\r\nMGET\r\n", n + 1), bytes = 11;
    char *text = malloc(head + (size_t)n * bytes);
    if (!text)
        fail("out of memory");
    memcpy(text, line, head);
    for (int i = 0; i < n; i++)
        memcpy(text + head + (size_t)i * bytes, "$5\r\nflood\r\n", bytes);
    if (!send_all(conn, text, head + (size_t)n * bytes))
        fail("send: %s", strerror(errno));
    free(text);
}

/* Another client has sent half a request when the reply grows. */
static void expect_flood_ends(const char *request)
{
    enum { MANY_KEYS = 40000 };
    conn_t *conn = open_conn(), *other = open_conn();
    send_text(other, "PING\r\n");
    expect(other, "PONG");
    send_text(other, "PI");
    if (request)
        send_text(conn, request);
    else
        send_mget(conn, MANY_KEYS);
    if (read_values(conn, MANY_KEYS, 16000) == MANY_KEYS || (request && conn->end > 0))
        fail("a reply above the limit came");
    send_text(other, "NG\r\n");
    expect(other, "PONG");
    close_conn(conn);
    close_conn(other);
}

static void set(conn_t *conn, const char *key, const char *value)
{
    static char line[1 << 16];
    snprintf(line, sizeof line, "SET %s %s\r\n", key, value);
    send_text(conn, line);
    expect(conn, "OK");
}

/* 600 values let the server expect values of this size. */
static void flood(void)
{
    conn_t *conn = open_conn();
    char *value = text_of(16000, 1), *key = text_of(50000, 2);
    set(conn, "flood", value);
    for (int i = 0; i < 2; i++) {
        send_mget(conn, 600);
        if (read_values(conn, 600, 16000) != 600)
            fail("a reply below the limit did not come");
    }
    expect_flood_ends(NULL);
    for (int i = 0; i < 500; i++) {
        int n = snprintf(key, 8, "%d", i);
        key[n] = '-'; /* in place of the end */
        set(conn, key, "x");
    }
    expect_flood_ends("KEYS *\r\n");
    expect_flood_ends("SCAN 0 COUNT 100000\r\n");
    close_conn(conn);
    free(value);
    free(key);
    puts("no flood");
}

/* The keys have no room at the same time. Nobody reads them. */
static void expire(int n)
{
    enum { DEEP = 100 };
    static const char value[] = "0123456789012345678901234567890123456789";
    conn_t *conn = open_conn();
    char text[400];
    time_t begin = time(NULL);
    for (int i = 0; i < n; i++) {
        snprintf(text, sizeof text, "SET expire%d %s%s%s%s%s PX 1\r\n", i, value, value, value,
                 value, value);
        send_text(conn, text);
        for (int k = 0; k < DEEP && i % DEEP == DEEP - 1; k++)
            expect(conn, "OK");
    }
    do {
        if (time(NULL) - begin >= LIMIT_S)
            fail("after %d s there are %s keys", LIMIT_S, reply);
        send_text(conn, "DBSIZE\r\n");
    } while (strcmp(take(conn), "0") != 0);
    close_conn(conn);
    puts("expired");
}

static void refused(int n)
{
    conn_t **conns = calloc((size_t)n, sizeof *conns), *other;
    if (!conns || n < 1)
        fail("out of memory");
    for (int i = 0; i < n; i++) {
        conns[i] = open_conn();
        send_text(conns[i], "PING\r\n");
        expect(conns[i], "PONG");
    }
    other = open_conn();
    expect(other, "-ERR max number of clients reached");
    if (fill(other))
        fail("the refused connection stays open");
    close_conn(other);
    close_conn(conns[0]);
    usleep(200000);
    conns[0] = open_conn();
    send_text(conns[0], "PING\r\n");
    expect(conns[0], "PONG");
    for (int i = 0; i < n; i++)
        close_conn(conns[i]);
    free(conns);
    puts("refused");
}

int main(int argc, char **argv)
{
    if (argc < 3)
        fail("usage: kvsd_client PORT HOW [N]");
    const char *how = argv[2];
    int n = argc > 3 ? atoi(argv[3]) : 0;
    port = atoi(argv[1]);
    if (strcmp(how, "script") == 0)
        script();
    else if (strcmp(how, "bytes") == 0)
        by_bytes();
    else if (strcmp(how, "garbage") == 0)
        garbage(n);
    else if (strcmp(how, "order") == 0)
        in_order((uint64_t)n);
    else if (strcmp(how, "many") == 0)
        many(n);
    else if (strcmp(how, "hold") == 0)
        hold(n);
    else if (strcmp(how, "slow") == 0)
        slow();
    else if (strcmp(how, "flood") == 0)
        flood();
    else if (strcmp(how, "expire") == 0)
        expire(n);
    else if (strcmp(how, "refused") == 0)
        refused(n);
    else
        fail("no such client: %s", how);
    return 0;
}
