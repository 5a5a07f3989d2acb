/* kvsd_loop: rounds of the server. A round takes what has arrived, and serves it in batches. A
 * batch takes requests of each client until one of them must run alone behind the batch. */
#include <errno.h>
#include <pgas/call.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "kvsd.h"

enum {
    N_EVENTS = 512,
    N_BATCHES = 16,        /* of a round */
    CLIENT_REQUESTS = 256, /* of a batch */
    OUTPUT_STEP = 262144,  /* bytes that are sent before the client's input is done */
    WAIT_MS = 100,         /* without events; the service thread serves calls of other ranks */
    CHECK_MS = 1000,
    SWEEP_MS = 100,      /* between sweeps */
    SWEEP_BUCKETS = 2048 /* of a sweep */
};

/* ---- requests that are not commands ---- */

static void bad_protocol(kvsd_client_t *client, resp_arg_t *args, size_t n)
{
    (void)args;
    (void)n;
    resp_error(&client->out, "ERR %s", client->parser.error);
    client->closing = true;
}

/* The text names the arguments, as redis does: the first 128 bytes. */
static void unknown_command(kvsd_client_t *client, resp_arg_t *args, size_t n)
{
    char words[140] = "";
    size_t used = 0;
    for (size_t i = 1; i < n && used < 128; i++) {
        size_t room = 128 - used, bytes = args[i].bytes < room ? args[i].bytes : room;
        used += (size_t)snprintf(words + used, sizeof words - used, "'%.*s' ", (int)bytes,
                                 args[i].data);
    }
    size_t bytes = args[0].bytes < 128 ? args[0].bytes : 128;
    resp_error(&client->out, "ERR unknown command '%.*s', with args beginning with: %s", (int)bytes,
               args[0].data, words);
}

static const kvsd_command_t protocol_error = {
    .name = "", .flags = CMD_NO_AUTH, .arity = -1, .run = bad_protocol
};
static const kvsd_command_t no_command = {
    .name = "", .flags = CMD_NO_AUTH, .arity = -1, .run = unknown_command
};

/* ---- one request ---- */

/* Parses the next request into client->held. @return false if it is not complete */
static bool next_request(kvsd_client_t *client)
{
    resp_buffer_t *in = &client->in;
    resp_parser_t *parser = &client->parser;
    for (;;) {
        size_t used = 0;
        if (in->begin == in->end)
            return false;
        resp_result_t result = resp_parse(parser, in->data + in->begin, in->end - in->begin, &used);
        if (result == RESP_MORE)
            return false;
        if (result == RESP_REQUEST && parser->n_args == 0) {
            in->begin += used;
            continue;
        }
        client->held = &protocol_error;
        client->held_bytes = in->end - in->begin;
        if (result == RESP_REQUEST) {
            const kvsd_command_t *command = kvsd_find_command(&parser->args[0]);
            client->held = command ? command : &no_command;
            client->held_bytes = used;
        }
        return true;
    }
}

/* The requests above have no name, and any number of words. */
static bool right_arity(const kvsd_command_t *command, size_t n)
{
    if (*command->name == '\0')
        return true;
    return command->arity >= 0 ? n == (size_t)command->arity : n >= (size_t)-command->arity;
}

static bool is_allowed(const kvsd_client_t *client)
{
    const kvsd_command_t *command = client->held;
    return right_arity(command, client->parser.n_args) &&
           (client->authenticated || (command->flags & CMD_NO_AUTH));
}

static void run_alone(kvsd_client_t *client)
{
    const kvsd_command_t *command = client->held;
    resp_parser_t *parser = &client->parser;
    if (!right_arity(command, parser->n_args))
        resp_error(&client->out, "ERR wrong number of arguments for '%s' command", command->name);
    else if (!is_allowed(client))
        resp_error(&client->out, "NOAUTH Authentication required.");
    else if (command->run)
        command->run(client, parser->args, parser->n_args);
    else
        kvsd_status_error(client, PGAS_ERR_INTERNAL);
}

/* Appends the request to the batch. @return whether it can be part of it */
static bool add_to_batch(kvsd_client_t *client)
{
    kvsd_batch_t *batch = &client->server->batch;
    const kvsd_command_t *command = client->held;
    size_t first = batch->n_items;
    batch->number = 0;
    if (!command->add || !is_allowed(client) ||
        !command->add(client, client->parser.args, client->parser.n_args))
        return false;
    batch->pending[batch->n_pending++] = (kvsd_pending_t){
        .client = client,
        .command = command,
        .first = (uint32_t)first,
        .n = (uint32_t)(batch->n_items - first),
        .number = batch->number,
    };
    client->n_pending++;
    return true;
}

/* Carries out the held request, or makes it part of the batch. @return false if it waits for the
 * end of the batch */
static bool execute(kvsd_client_t *client)
{
    const kvsd_command_t *command = client->held;
    if (!add_to_batch(client)) {
        if (client->n_pending > 0)
            return false;
        run_alone(client);
    }
    client->in.begin += client->held_bytes;
    client->held = NULL;
    client->last = command;
    client->server->counts.commands++;
    return true;
}

/* ---- batches ---- */

/* Takes requests of a client. @return whether it has more for the next batch */
static bool gather(kvsd_client_t *client)
{
    for (int i = 0; i < CLIENT_REQUESTS && kvsd_batch_has_room(&client->server->batch); i++) {
        if (!kvsd_serves(client) || (!client->held && !next_request(client)))
            return false;
        if (!execute(client))
            return true;
    }
    return true;
}

static void finish(kvsd_client_t *client, bool has_more)
{
    size_t unsent = client->out.buffer.end - client->out.buffer.begin;
    if (client->in.begin == client->in.end)
        resp_buffer_fini(&client->in);
    if (!has_more || unsent > OUTPUT_STEP || client->out.failed)
        kvsd_send(client);
}

/* Serves the clients that are ready, as far as the batch has room. Clients that it does not reach
 * come first next time. */
static void serve_batch(kvsd_server_t *server)
{
    kvsd_client_t **served = server->ready, **next = server->later;
    int n = server->n_ready, n_served = 0, n_next = 0;
    bool has_more[N_EVENTS];
    while (n_served < n && n_served < N_EVENTS && kvsd_batch_has_room(&server->batch)) {
        has_more[n_served] = gather(served[n_served]);
        n_served++;
    }
    kvsd_batch_run(server, &server->batch);
    kvsd_batch_reply(server);
    for (int i = n_served; i < n; i++)
        next[n_next++] = served[i];
    server->ready = next;
    server->later = served;
    server->n_ready = n_next;
    for (int i = 0; i < n_served; i++) {
        served[i]->ready = false;
        if (has_more[i])
            kvsd_make_ready(served[i]);
        finish(served[i], has_more[i]);
    }
}

/* ---- rounds ---- */

static void take_event(kvsd_server_t *server, const struct epoll_event *event)
{
    kvsd_client_t *client = event->data.ptr;
    if (event->data.ptr == &server->listen_fd) {
        kvsd_accept(server);
    } else if (event->data.ptr == &server->wakeup_fd) {
        uint64_t count;
        ssize_t n = read(server->wakeup_fd, &count, sizeof count);
        (void)n;
    } else if (!client->dead) {
        bool ended = event->events & (EPOLLHUP | EPOLLERR);
        if (ended && !kvsd_serves(client))
            kvsd_mark_dead(client);
        if (event->events & EPOLLOUT)
            kvsd_send(client);
        if ((event->events & EPOLLIN) || ended)
            kvsd_read(client);
    }
}

/* Whether work is due that is done at *next_ms_p, and then every interval_ms. A clock that was set
 * back does not stop the work. */
static bool is_due(const kvsd_server_t *server, int64_t *next_ms_p, int64_t interval_ms)
{
    if (server->now_ms < *next_ms_p && server->now_ms >= *next_ms_p - interval_ms)
        return false;
    *next_ms_p = server->now_ms + interval_ms;
    return true;
}

/* Deletes expired keys that no client reads or writes. */
static void sweep(kvsd_server_t *server)
{
    pgas_status_t status =
        pgas_kvs_scan(server->kvs, -1, &server->sweep_cursor, SWEEP_BUCKETS, NULL, NULL);
    (void)status; /* the next write gets the error, too */
}

static pgas_status_t serve_round(kvsd_server_t *server)
{
    struct epoll_event events[N_EVENTS];
    int n = epoll_wait(server->epoll_fd, events, N_EVENTS, server->n_ready > 0 ? 0 : WAIT_MS);
    if (n < 0 && errno != EINTR)
        return PGAS_ERR_IO;
    server->now_ms = kvsd_clock_ms();
    for (int i = 0; i < n; i++)
        take_event(server, &events[i]);
    for (int i = 0; i < N_BATCHES && server->n_ready > 0; i++)
        serve_batch(server);
    pgas_progress();
    if (is_due(server, &server->next_check_ms, CHECK_MS))
        kvsd_check_clients(server);
    if (is_due(server, &server->next_sweep_ms, SWEEP_MS))
        sweep(server);
    kvsd_close_dead(server);
    return PGAS_OK;
}

pgas_status_t kvsd_serve(kvsd_server_t *server)
{
    pgas_status_t status = PGAS_OK;
    while (status == PGAS_OK && kvsd_job_step(server))
        status = serve_round(server);
    return status;
}
