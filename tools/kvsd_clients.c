/* kvsd_clients: connections. A client that is not served is not read either, so that TCP slows its
 * sender down. A client with replies in its buffer that reads nothing for a while is cut off. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include "kvsd.h"

enum {
    ACCEPTS = 64,        /* of one round */
    STRANGER_MS = 30000, /* a client without password may stay so long */
    INPUT_STEP = 65536,  /* bytes by which a large input grows at least */
    TURN_MAX = 4 << 20,  /* bytes that a client may move before others have their turn */
    FREE_LEAST = 1024    /* bytes that a read should have */
};

static size_t unsent(const kvsd_client_t *client)
{
    return client->out.buffer.end - client->out.buffer.begin;
}

bool kvsd_serves(const kvsd_client_t *client)
{
    return !client->dead && !client->closing && !client->out.failed && client->save_number == 0 &&
           unsent(client) < client->server->opts.output_max;
}

void kvsd_make_ready(kvsd_client_t *client)
{
    if (client->ready || !kvsd_serves(client))
        return;
    client->ready = true;
    client->server->ready[client->server->n_ready++] = client;
}

void kvsd_mark_dead(kvsd_client_t *client)
{
    client->server->n_dead += !client->dead;
    client->dead = true;
}

void kvsd_watch(kvsd_client_t *client)
{
    uint32_t events = unsent(client) > 0 ? EPOLLOUT : 0;
    if (kvsd_serves(client) && !client->at_end)
        events |= EPOLLIN;
    if (events == client->events || client->dead)
        return;
    struct epoll_event event = { .events = events, .data.ptr = client };
    if (epoll_ctl(client->server->epoll_fd, EPOLL_CTL_MOD, client->fd, &event) != 0)
        kvsd_mark_dead(client);
    client->events = events;
}

/* ---- arrivals ---- */

/* Writes ADDRESS:PORT. */
static void name_socket(const struct sockaddr_storage *address, char *text, size_t bytes)
{
    char host[INET6_ADDRSTRLEN] = "?";
    unsigned port = 0;
    const void *from = address;
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = from;
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof host);
        port = ntohs(six->sin6_port);
        snprintf(text, bytes, "[%s]:%u", host, port);
        return;
    }
    const struct sockaddr_in *four = from;
    inet_ntop(AF_INET, &four->sin_addr, host, sizeof host);
    port = ntohs(four->sin_port);
    snprintf(text, bytes, "%s:%u", host, port);
}

/* Makes the lists large enough for one more client. */
static bool add_slot(kvsd_server_t *server)
{
    if (server->n_clients < server->n_slots)
        return true;
    int n = server->n_slots > 0 ? 2 * server->n_slots : 64;
    kvsd_client_t **clients = realloc(server->clients, (size_t)n * sizeof *clients);
    if (clients)
        server->clients = clients;
    kvsd_client_t **ready = realloc(server->ready, (size_t)n * sizeof *ready);
    if (ready)
        server->ready = ready;
    kvsd_client_t **later = realloc(server->later, (size_t)n * sizeof *later);
    if (later)
        server->later = later;
    if (!clients || !ready || !later)
        return false;
    server->n_slots = n;
    return true;
}

static void set_limits(kvsd_client_t *client)
{
    const kvsd_options_t *opts = &client->server->opts;
    client->authenticated = opts->password_bytes == 0;
    client->parser.limits = (resp_limits_t){
        .args_max = 1 << 20,
        .bulk_max = PGAS_KVS_VALUE_MAX,
        .request_max = opts->request_max,
        .unauthenticated = !client->authenticated,
    };
}

static kvsd_client_t *new_client(kvsd_server_t *server, int fd,
                                 const struct sockaddr_storage *address)
{
    kvsd_client_t *client = add_slot(server) ? calloc(1, sizeof *client) : NULL;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = client };
    if (!client || epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        free(client);
        return NULL;
    }
    *client = (kvsd_client_t){ .server = server, .fd = fd, .events = EPOLLIN, .out.version = 2 };
    client->id = ++server->next_id;
    client->since_ms = client->active_ms = client->sent_ms = server->now_ms;
    name_socket(address, client->address, sizeof client->address);
    set_limits(client);
    client->index = server->n_clients;
    server->clients[server->n_clients++] = client;
    return client;
}

static void greet(kvsd_server_t *server, int fd, const struct sockaddr_storage *address)
{
    static const char full[] = "-ERR max number of clients reached\r\n";
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (server->n_clients < server->opts.n_clients_max && new_client(server, fd, address)) {
        server->counts.connections++;
        return;
    }
    server->counts.refused++;
    ssize_t n = send(fd, full, sizeof full - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)n;
    close(fd);
}

/* Without file descriptors the listening socket would stay readable for ever. The spare descriptor
 * accepts the connection, so that it can be closed. */
static void turn_away(kvsd_server_t *server)
{
    close(server->spare_fd);
    int fd = accept(server->listen_fd, NULL, NULL);
    if (fd >= 0)
        close(fd);
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->counts.refused++;
}

void kvsd_accept(kvsd_server_t *server)
{
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
        socklen_t bytes = sizeof address;
        int fd = accept4(server->listen_fd, (struct sockaddr *)&address, &bytes,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            greet(server, fd, &address);
        else if (errno == EMFILE || errno == ENFILE)
            turn_away(server);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* ---- input ---- */

/* Makes room for what comes next. The buffer of a large request doubles as its bytes arrive, not
 * when the client announces them. */
static bool make_room(kvsd_client_t *client)
{
    resp_buffer_t *in = &client->in;
    size_t n = in->end - in->begin, wants = resp_wants(&client->parser);
    if (in->data && in->capacity - in->end >= FREE_LEAST)
        return true;
    if (n > client->server->opts.request_max)
        return false;
    size_t step = n > INPUT_STEP ? n : INPUT_STEP;
    if (n == 0)
        step = FREE_LEAST;
    else if (wants > n && wants - n < step)
        step = wants - n > FREE_LEAST ? wants - n : FREE_LEAST;
    return resp_reserve(in, step);
}

void kvsd_read(kvsd_client_t *client)
{
    resp_buffer_t *in = &client->in;
    if (client->ready || client->held || client->dead || client->at_end)
        return; /* epoll reports it again */
    if (!make_room(client)) {
        kvsd_mark_dead(client);
        return;
    }
    size_t room = in->capacity - in->end;
    ssize_t n = recv(client->fd, in->data + in->end, room < TURN_MAX ? room : TURN_MAX, 0);
    if (n > 0) {
        in->end += (size_t)n;
        client->server->counts.bytes_in += (uint64_t)n;
        client->active_ms = client->server->now_ms;
        kvsd_make_ready(client);
    } else if (n == 0) {
        client->at_end = true;
        client->closing = true;
        kvsd_send(client);
    } else if (errno != EAGAIN && errno != EINTR) {
        kvsd_mark_dead(client);
    }
}

/* ---- output ---- */

void kvsd_send(kvsd_client_t *client)
{
    resp_buffer_t *out = &client->out.buffer;
    bool served = kvsd_serves(client);
    size_t n_sent = 0;
    if (!(client->events & EPOLLOUT))
        client->sent_ms = client->server->now_ms; /* nothing was waiting */
    while (out->begin < out->end && !client->dead && n_sent < TURN_MAX) {
        size_t bytes = out->end - out->begin < TURN_MAX ? out->end - out->begin : TURN_MAX;
        ssize_t n = send(client->fd, out->data + out->begin, bytes, MSG_NOSIGNAL);
        if (n >= 0) {
            n_sent += (size_t)n;
            out->begin += (size_t)n;
            client->server->counts.bytes_out += (uint64_t)n;
            client->sent_ms = client->server->now_ms;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            kvsd_mark_dead(client);
        }
    }
    if (out->begin == out->end) {
        resp_buffer_fini(out);
        if (client->closing)
            kvsd_mark_dead(client);
    }
    if (client->out.failed)
        kvsd_mark_dead(client);
    if (!served && client->in.end > client->in.begin)
        kvsd_make_ready(client);
    kvsd_watch(client);
}

/* ---- ends ---- */

static void leave_ready(kvsd_server_t *server, const kvsd_client_t *client)
{
    int n = 0;
    for (int i = 0; i < server->n_ready; i++)
        if (server->ready[i] != client)
            server->ready[n++] = server->ready[i];
    server->n_ready = n;
}

void kvsd_close(kvsd_client_t *client)
{
    kvsd_server_t *server = client->server;
    if (client->ready)
        leave_ready(server, client);
    server->n_dead -= client->dead;
    server->clients[client->index] = server->clients[--server->n_clients];
    server->clients[client->index]->index = client->index;
    close(client->fd);
    resp_parser_fini(&client->parser);
    resp_buffer_fini(&client->in);
    resp_buffer_fini(&client->out.buffer);
    free(client->name);
    free(client);
}

void kvsd_close_dead(kvsd_server_t *server)
{
    for (int i = server->n_clients - 1; i >= 0 && server->n_dead > 0; i--)
        if (server->clients[i]->dead)
            kvsd_close(server->clients[i]);
}

void kvsd_close_all(kvsd_server_t *server)
{
    while (server->n_clients > 0)
        kvsd_close(server->clients[server->n_clients - 1]);
    free(server->clients);
    free(server->ready);
    free(server->later);
}

static void cut_off(kvsd_client_t *client, const char *why)
{
    if (!client->server->opts.quiet)
        fprintf(stderr, "pgas_kvsd: rank %d: client %s %s, and is cut off\n", pgas_rank(),
                client->address, why);
    client->server->counts.slow++;
    kvsd_mark_dead(client);
}

void kvsd_check_clients(kvsd_server_t *server)
{
    const kvsd_options_t *opts = &server->opts;
    for (int i = 0; i < server->n_clients; i++) {
        kvsd_client_t *client = server->clients[i];
        int64_t idle_ms = server->now_ms - client->active_ms;
        if (unsent(client) > 0 && server->now_ms - client->sent_ms > 1000 * (int64_t)opts->slow_s)
            cut_off(client, "does not read its replies");
        else if (opts->timeout_s > 0 && idle_ms > 1000 * (int64_t)opts->timeout_s)
            kvsd_mark_dead(client);
        else if (!client->authenticated && server->now_ms - client->since_ms > STRANGER_MS)
            kvsd_mark_dead(client);
    }
}
