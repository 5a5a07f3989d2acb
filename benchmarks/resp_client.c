/* A client of servers that speak Redis' protocol, see resp_client.h.
 *
 * It must not be the limit of what it measures. Commands are made by copying a text and twelve
 * digits. A batch costs one write, and usually one read. Replies are parsed in the buffer of the
 * connection, without copies. The clock is read once for each batch. */
#include "benchmarks/resp_client.h"
#include "benchmarks/bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define DIGITS     12
#define TEXT_MAX   128 /* of a command without its value */
#define EVENTS     256
#define STEPS_BITS 6 /* a step of the histogram is at most 1/64 of the time */
#define STEPS      (64 << STEPS_BITS)

typedef struct {
    uint64_t key;
    ycsb_op_t op;
    bool sets; /* the command is SET */
} command_t;

typedef struct {
    int fd;
    bool waits; /* for room in the socket */
    char *out, *in;
    size_t out_begin, out_end, in_begin, in_end;
    int n_commands, n_replies; /* of the batch */
    int n_later;               /* commands of the next batch: the second halves of modifications */
    command_t *command, *later;
    uint64_t sent;
} conn_t;

struct resp_client {
    resp_opts_t opts;
    int epoll, n_busy; /* n_busy: connections that wait for replies */
    size_t out_bytes, in_bytes;
    conn_t *conn;
    char *value;
    char get_text[TEXT_MAX], set_text[TEXT_MAX];
    size_t get_bytes, set_bytes;   /* of the texts */
    size_t get_digits, set_digits; /* where the digits begin in them */
    const ycsb_entry_t *list;
    uint64_t n_list, at, n_left, n_ops, n_missing;
    uint64_t histogram[STEPS];
};

static char wrong[200];

static const char *say(const char *what)
{
    snprintf(wrong, sizeof wrong, "%s: %s", what, strerror(errno));
    return wrong;
}

/* ---- latencies ---- */

/* Steps of equal width between powers of two. */
static unsigned step_of(uint64_t ns)
{
    unsigned high;
    if (ns < (1u << STEPS_BITS))
        return (unsigned)ns;
    high = 63 - (unsigned)__builtin_clzll(ns);
    return (high - STEPS_BITS + 1) << STEPS_BITS |
           (unsigned)(ns >> (high - STEPS_BITS) & ((1u << STEPS_BITS) - 1));
}

static double middle_of(unsigned step)
{
    unsigned high = step >> STEPS_BITS;
    double within = step & ((1u << STEPS_BITS) - 1);
    if (high == 0)
        return within;
    return ((1u << STEPS_BITS) + within + 0.5) * (double)(UINT64_C(1) << (high - 1));
}

static double percentile(const resp_client_t *client, double part)
{
    uint64_t n = 0, sum = 0;
    unsigned step = 0;
    for (unsigned i = 0; i < STEPS; i++)
        n += client->histogram[i];
    while (step + 1 < STEPS && (double)(sum += client->histogram[step]) < (double)n * part)
        step++;
    return middle_of(step) / 1e3;
}

/* ---- commands ---- */

static void write_digits(char *at, uint64_t key)
{
    for (int i = DIGITS - 1; i >= 0; i--) {
        at[i] = (char)('0' + key % 10);
        key /= 10;
    }
}

static void make_texts(resp_client_t *client)
{
    static const char key[] = "$16\r\nkey:";
    int n = snprintf(client->get_text, TEXT_MAX, "*2\r\n$3\r\nGET\r\n%s", key);
    client->get_digits = (size_t)n;
    client->get_bytes =
        (size_t)(n + snprintf(client->get_text + n, TEXT_MAX - (size_t)n, "%012d\r\n", 0));
    n = snprintf(client->set_text, TEXT_MAX, "*3\r\n$3\r\nSET\r\n%s", key);
    client->set_digits = (size_t)n;
    client->set_bytes = (size_t)(n + snprintf(client->set_text + n, TEXT_MAX - (size_t)n,
                                              "%012d\r\n$%zu\r\n", 0, client->opts.value_bytes));
}

static size_t checked_bytes(const resp_client_t *client)
{
    return client->opts.value_bytes < DIGITS ? client->opts.value_bytes : DIGITS;
}

static void add_get(const resp_client_t *client, conn_t *conn, uint64_t key)
{
    char *at = conn->out + conn->out_end;
    memcpy(at, client->get_text, client->get_bytes);
    write_digits(at + client->get_digits, key);
    conn->out_end += client->get_bytes;
}

static void add_set(const resp_client_t *client, conn_t *conn, uint64_t key)
{
    char *at = conn->out + conn->out_end, digits[DIGITS];
    memcpy(at, client->set_text, client->set_bytes);
    write_digits(digits, key);
    memcpy(at + client->set_digits, digits, DIGITS);
    at += client->set_bytes;
    memcpy(at, client->value, client->opts.value_bytes + 2);
    memcpy(at, digits, checked_bytes(client));
    conn->out_end += client->set_bytes + client->opts.value_bytes + 2;
}

static void add(const resp_client_t *client, conn_t *conn, command_t command)
{
    if (command.sets)
        add_set(client, conn, command.key);
    else
        add_get(client, conn, command.key);
    conn->command[conn->n_commands++] = command;
}

/* Second halves of modifications first. */
static void fill_batch(resp_client_t *client, conn_t *conn)
{
    conn->n_commands = conn->n_replies = 0;
    conn->out_begin = conn->out_end = 0;
    for (int i = 0; i < conn->n_later; i++)
        add(client, conn, conn->later[i]);
    conn->n_later = 0;
    while (conn->n_commands < client->opts.pipeline && client->n_left > 0) {
        ycsb_entry_t entry = client->list[client->at];
        ycsb_op_t op = ycsb_op(entry);
        add(client, conn,
            (command_t){ ycsb_key(entry), op, op == YCSB_UPDATE || op == YCSB_INSERT });
        client->at = client->at + 1 == client->n_list ? 0 : client->at + 1;
        client->n_left--;
    }
}

/* ---- the network ---- */

static const char *watch(resp_client_t *client, conn_t *conn, bool waits)
{
    struct epoll_event event = { .events = EPOLLIN | (waits ? EPOLLOUT : 0u),
                                 .data = { .ptr = conn } };
    if (conn->waits == waits)
        return NULL;
    conn->waits = waits;
    return epoll_ctl(client->epoll, EPOLL_CTL_MOD, conn->fd, &event) ? say("epoll_ctl") : NULL;
}

static const char *flush(resp_client_t *client, conn_t *conn)
{
    while (conn->out_begin < conn->out_end) {
        ssize_t n = send(conn->fd, conn->out + conn->out_begin, conn->out_end - conn->out_begin,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            return watch(client, conn, true);
        if (n < 0)
            return say("send");
        conn->out_begin += (size_t)n;
    }
    return watch(client, conn, false);
}

/* Sends the next batch, unless there is nothing left. */
static const char *begin_batch(resp_client_t *client, conn_t *conn)
{
    fill_batch(client, conn);
    if (conn->n_commands == 0)
        return NULL;
    client->n_busy++;
    conn->sent = bench_now();
    return flush(client, conn);
}

static void end_batch(resp_client_t *client, conn_t *conn)
{
    client->histogram[step_of(bench_now() - conn->sent)] += (uint64_t)conn->n_commands;
    client->n_busy--;
}

/* ---- replies ---- */

/* The bytes of a reply's first line with its end; 0: it is not complete. */
static size_t line_bytes(const char *at, size_t n)
{
    const char *end = memchr(at, '\n', n);
    return end ? (size_t)(end - at) + 1 : 0;
}

static const char *refuse(const char *at, size_t line)
{
    snprintf(wrong, sizeof wrong, "the server answered: %.*s", (int)(line < 100 ? line - 1 : 100),
             at);
    wrong[strcspn(wrong, "\r\n")] = '\0';
    return wrong;
}

static const char *check_value(const resp_client_t *client, const command_t *command,
                               const char *value, size_t bytes)
{
    char digits[DIGITS];
    write_digits(digits, command->key);
    if (bytes == client->opts.value_bytes && memcmp(value, digits, checked_bytes(client)) == 0)
        return NULL;
    snprintf(wrong, sizeof wrong, "key %llu has a wrong value of %zu bytes",
             (unsigned long long)command->key, bytes);
    return wrong;
}

/* One reply to a command. *bytes_p: its length; 0: it is not complete. */
static const char *take_reply(resp_client_t *client, const command_t *command, const char *at,
                              size_t n, size_t *bytes_p)
{
    size_t line = line_bytes(at, n), bytes;
    *bytes_p = 0;
    if (line == 0)
        return NULL;
    if (command->sets) {
        *bytes_p = line;
        return *at == '+' ? NULL : refuse(at, line);
    }
    if ((*at == '$' && at[1] == '-') || *at == '_') {
        *bytes_p = line;
        client->n_missing++;
        return NULL;
    }
    if (*at != '$')
        return refuse(at, line);
    bytes = strtoul(at + 1, NULL, 10);
    if (n < line + bytes + 2)
        return NULL;
    *bytes_p = line + bytes + 2;
    return check_value(client, command, at + line, bytes);
}

static void end_command(resp_client_t *client, conn_t *conn, command_t command)
{
    if (command.op == YCSB_MODIFY && !command.sets) {
        command.sets = true;
        conn->later[conn->n_later++] = command;
    } else
        client->n_ops++;
}

static const char *take_replies(resp_client_t *client, conn_t *conn)
{
    while (conn->n_replies < conn->n_commands && conn->in_begin < conn->in_end) {
        const command_t *command = &conn->command[conn->n_replies];
        size_t bytes;
        const char *why = take_reply(client, command, conn->in + conn->in_begin,
                                     conn->in_end - conn->in_begin, &bytes);
        if (why || bytes == 0)
            return why;
        conn->in_begin += bytes;
        conn->n_replies++;
        end_command(client, conn, *command);
    }
    return NULL;
}

static const char *receive(resp_client_t *client, conn_t *conn)
{
    const char *why;
    ssize_t n;
    if (conn->in_begin > 0) {
        memmove(conn->in, conn->in + conn->in_begin, conn->in_end - conn->in_begin);
        conn->in_end -= conn->in_begin;
        conn->in_begin = 0;
    }
    n = recv(conn->fd, conn->in + conn->in_end, client->in_bytes - conn->in_end, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return NULL;
    if (n <= 0)
        return n == 0 ? "the server closed a connection" : say("recv");
    conn->in_end += (size_t)n;
    why = take_replies(client, conn);
    if (why || conn->n_replies < conn->n_commands || conn->n_commands == 0)
        return why;
    end_batch(client, conn);
    conn->n_commands = 0;
    return begin_batch(client, conn);
}

static const char *serve(resp_client_t *client, const struct epoll_event *event)
{
    conn_t *conn = event->data.ptr;
    const char *why = NULL;
    if (event->events & EPOLLOUT)
        why = flush(client, conn);
    if (!why && event->events & ~(uint32_t)EPOLLOUT)
        why = receive(client, conn);
    return why;
}

/* ---- runs ---- */

static const char *carry_out(resp_client_t *client, double seconds)
{
    struct epoll_event event[EVENTS];
    uint64_t begin = bench_now();
    const char *why = NULL;
    for (int i = 0; i < client->opts.n_conns && !why; i++)
        why = begin_batch(client, &client->conn[i]);
    while (!why && client->n_busy > 0) {
        int n = epoll_wait(client->epoll, event, EVENTS, 10000);
        if (n == 0)
            return "the server does not answer for ten seconds";
        if (n < 0 && errno != EINTR)
            return say("epoll_wait");
        for (int i = 0; i < n && !why; i++)
            why = serve(client, &event[i]);
        if (bench_since(begin) > seconds * 1e9)
            client->n_left = 0;
    }
    return why;
}

const char *resp_run(resp_client_t *client, const ycsb_entry_t *list, uint64_t n_list,
                     uint64_t n_ops, double seconds, resp_result_t *result_p)
{
    uint64_t begin = bench_now();
    const char *why;
    client->list = list;
    client->n_list = n_list;
    client->at = 0;
    client->n_left = n_ops;
    client->n_ops = client->n_missing = 0;
    memset(client->histogram, 0, sizeof client->histogram);
    why = carry_out(client, seconds);
    if (why)
        return why;
    *result_p = (resp_result_t){ .seconds = bench_since(begin) / 1e9,
                                 .n_ops = client->n_ops,
                                 .n_missing = client->n_missing,
                                 .p50 = percentile(client, 0.5),
                                 .p99 = percentile(client, 0.99),
                                 .p999 = percentile(client, 0.999) };
    return NULL;
}

const char *resp_fill(resp_client_t *client, uint64_t n_keys)
{
    ycsb_entry_t *list = malloc(n_keys * sizeof *list);
    resp_result_t result;
    const char *why;
    if (!list)
        return "out of memory";
    for (uint64_t i = 0; i < n_keys; i++)
        list[i] = (ycsb_entry_t)YCSB_INSERT << 56 | i;
    why = resp_run(client, list, n_keys, n_keys, 1e6, &result);
    free(list);
    return why;
}

/* ---- open and close ---- */

static const char *connect_to(resp_client_t *client, conn_t *conn, int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = conn } };
    int one = 1;
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        return say("socket");
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof address)) {
        snprintf(wrong, sizeof wrong, "port %d: %s", port, strerror(errno));
        return wrong;
    }
    (void)setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return epoll_ctl(client->epoll, EPOLL_CTL_ADD, conn->fd, &event) ? say("epoll_ctl") : NULL;
}

static const char *open_conn(resp_client_t *client, conn_t *conn, int port)
{
    size_t n = (size_t)client->opts.pipeline;
    conn->out = malloc(client->out_bytes);
    conn->in = malloc(client->in_bytes);
    conn->command = calloc(2 * n, sizeof *conn->command);
    conn->later = calloc(n, sizeof *conn->later);
    if (!conn->out || !conn->in || !conn->command || !conn->later)
        return "out of memory";
    return connect_to(client, conn, port);
}

const char *resp_open(const resp_opts_t *opts, resp_client_t **client_p)
{
    resp_client_t *client = calloc(1, sizeof *client);
    size_t n_conns = (size_t)opts->n_conns, each = TEXT_MAX + opts->value_bytes;
    const char *why = NULL;
    if (!client)
        return "out of memory";
    client->opts = *opts;
    client->out_bytes = (size_t)opts->pipeline * each;
    client->in_bytes = client->out_bytes + 4096;
    client->epoll = epoll_create1(EPOLL_CLOEXEC);
    client->conn = calloc(n_conns, sizeof *client->conn);
    client->value = malloc(opts->value_bytes + 2);
    for (size_t i = 0; client->conn && i < n_conns; i++)
        client->conn[i].fd = -1;
    if (!client->conn || !client->value || client->epoll < 0)
        why = "out of memory";
    for (int i = 0; !why && i < opts->n_conns; i++)
        why = open_conn(client, &client->conn[i], opts->port + i % opts->n_servers);
    if (why) {
        resp_close(client);
        return why;
    }
    memset(client->value, 'v', opts->value_bytes);
    memcpy(client->value + opts->value_bytes, "\r\n", 2);
    make_texts(client);
    *client_p = client;
    return NULL;
}

void resp_close(resp_client_t *client)
{
    if (!client)
        return;
    for (int i = 0; client->conn && i < client->opts.n_conns; i++) {
        conn_t *conn = &client->conn[i];
        if (conn->fd >= 0)
            close(conn->fd);
        free(conn->out);
        free(conn->in);
        free(conn->command);
        free(conn->later);
    }
    if (client->epoll >= 0)
        close(client->epoll);
    free(client->conn);
    free(client->value);
    free(client);
}
