/* kvsd_connection: commands on the connection, and helpers of all commands. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "kvsd.h"

/* ---- helpers ---- */

bool kvsd_word(const resp_arg_t *arg, const char *word)
{
    size_t n = strlen(word);
    if (arg->bytes != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (tolower((unsigned char)arg->data[i]) != word[i])
            return false;
    return true;
}

bool kvsd_number(kvsd_client_t *client, const resp_arg_t *arg, int64_t *value_p)
{
    if (resp_integer(arg->data, arg->bytes, value_p))
        return true;
    resp_error(&client->out, "ERR value is not an integer or out of range");
    return false;
}

void kvsd_syntax_error(kvsd_client_t *client)
{
    resp_error(&client->out, "ERR syntax error");
}

void kvsd_status_error(kvsd_client_t *client, pgas_status_t status)
{
    resp_writer_t *w = &client->out;
    if (status == PGAS_ERR_NO_MEMORY)
        resp_error(w, "OOM command not allowed when used memory > 'maxmemory'.");
    else if (status == PGAS_ERR_LIMIT)
        resp_error(w, "ERR a key has 1 to %d bytes, a value at most %u", PGAS_KVS_KEY_MAX,
                   PGAS_KVS_VALUE_MAX);
    else if (status == PGAS_ERR_IO)
        resp_error(w, "MISCONF the log of writes cannot be written, see the server's log");
    else
        resp_error(w, "ERR %s", pgas_status_text(status));
}

void kvsd_unknown_subcommand(kvsd_client_t *client, const char *command, const resp_arg_t *word)
{
    resp_error(&client->out, "ERR unknown subcommand '%.*s'. Try %s HELP.",
               (int)(word->bytes < 128 ? word->bytes : 128), word->data, command);
}

bool kvsd_subcommand_arity(kvsd_client_t *client, const char *name, bool good)
{
    if (!good)
        resp_error(&client->out, "ERR wrong number of arguments for '%s' command", name);
    return good;
}

/* ---- PING, ECHO, SELECT, QUIT, RESET ---- */

KVSD_RUN(kvsd_ping)
{
    if (n == 1)
        resp_line(&client->out, '+', "PONG");
    else if (kvsd_subcommand_arity(client, "ping", n == 2))
        resp_bulk(&client->out, args[1].data, args[1].bytes);
}

KVSD_RUN(kvsd_echo)
{
    (void)n;
    resp_bulk(&client->out, args[1].data, args[1].bytes);
}

KVSD_RUN(kvsd_select)
{
    int64_t number;
    (void)n;
    if (!kvsd_number(client, &args[1], &number))
        return;
    if (number == 0)
        resp_ok(&client->out);
    else
        resp_error(&client->out, "ERR DB index is out of range");
}

KVSD_RUN(kvsd_quit)
{
    (void)args;
    (void)n;
    resp_ok(&client->out);
    client->closing = true;
}

static void set_name(kvsd_client_t *client, const resp_arg_t *name)
{
    free(client->name);
    client->name = name && name->bytes > 0 ? strndup(name->data, name->bytes) : NULL;
}

static void authenticate(kvsd_client_t *client, bool yes)
{
    client->authenticated = yes;
    client->parser.limits.unauthenticated = !yes;
}

KVSD_RUN(kvsd_reset)
{
    (void)args;
    (void)n;
    client->out.version = 2;
    set_name(client, NULL);
    authenticate(client, client->server->opts.password_bytes == 0);
    resp_line(&client->out, '+', "RESET");
}

/* ---- AUTH and HELLO ---- */

/* The time does not depend on where the texts differ, nor on their lengths. */
static bool same_password(const kvsd_options_t *opts, const resp_arg_t *given)
{
    char padded[PASSWORD_MAX] = { 0 };
    size_t n = given->bytes < PASSWORD_MAX ? given->bytes : PASSWORD_MAX;
    memcpy(padded, given->data, n);
    volatile unsigned char difference = given->bytes != opts->password_bytes;
    for (size_t i = 0; i < PASSWORD_MAX; i++)
        difference |= (unsigned char)(padded[i] ^ opts->password[i]);
    return difference == 0;
}

/* user NULL: the default one. @return false: the client has got an error as its reply */
static bool check_password(kvsd_client_t *client, const resp_arg_t *user,
                           const resp_arg_t *password)
{
    const kvsd_options_t *opts = &client->server->opts;
    bool is_default = !user || (user->bytes == 7 && memcmp(user->data, "default", 7) == 0);
    bool good = opts->password_bytes == 0 || same_password(opts, password);
    if (is_default && good) {
        authenticate(client, true);
        return true;
    }
    resp_error(&client->out, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
}

KVSD_RUN(kvsd_auth)
{
    if (n > 3)
        kvsd_syntax_error(client);
    else if (n == 2 && client->server->opts.password_bytes == 0)
        resp_error(&client->out,
                   "ERR AUTH <password> called without any password configured for the default "
                   "user. Are you sure your configuration is correct?");
    else if (check_password(client, n == 3 ? &args[1] : NULL, &args[n - 1]))
        resp_ok(&client->out);
}

static bool is_name(const resp_arg_t *name)
{
    for (size_t i = 0; i < name->bytes; i++)
        if (name->data[i] < '!' || name->data[i] > '~')
            return false;
    return true;
}

/* @return false: the client has got an error as its reply */
static bool check_name(kvsd_client_t *client, const resp_arg_t *name)
{
    bool good = is_name(name);
    if (!good)
        resp_error(&client->out,
                   "ERR Client names cannot contain spaces, newlines or special characters.");
    return good;
}

static void reply_hello(kvsd_client_t *client)
{
    resp_writer_t *w = &client->out;
    resp_map(w, 7);
    resp_text(w, "server");
    resp_text(w, "redis");
    resp_text(w, "version");
    resp_text(w, KVSD_REDIS_VERSION);
    resp_text(w, "proto");
    resp_number(w, w->version);
    resp_text(w, "id");
    resp_number(w, (int64_t)client->id);
    resp_text(w, "mode");
    resp_text(w, "standalone");
    resp_text(w, "role");
    resp_text(w, "master");
    resp_text(w, "modules");
    resp_array(w, 0);
}

/* HELLO's words behind the version. @return false: the client has got an error as its reply */
static bool hello_opts(kvsd_client_t *client, const resp_arg_t *args, size_t n,
                       const resp_arg_t **name_p, const resp_arg_t **user_p)
{
    for (size_t i = 2; i < n; i++) {
        if (kvsd_word(&args[i], "auth") && n - i > 2) {
            *user_p = &args[i + 1];
            i += 2;
        } else if (kvsd_word(&args[i], "setname") && n - i > 1) {
            *name_p = &args[++i];
            if (!check_name(client, *name_p))
                return false;
        } else {
            resp_error(&client->out, "ERR Syntax error in HELLO option '%.*s'",
                       (int)(args[i].bytes < 128 ? args[i].bytes : 128), args[i].data);
            return false;
        }
    }
    return true;
}

KVSD_RUN(kvsd_hello)
{
    const resp_arg_t *name = NULL, *user = NULL;
    int64_t version = client->out.version;
    if (n > 1 && !resp_integer(args[1].data, args[1].bytes, &version)) {
        resp_error(&client->out, "ERR Protocol version is not an integer or out of range");
        return;
    }
    if (version < 2 || version > 3) {
        resp_error(&client->out, "NOPROTO unsupported protocol version");
        return;
    }
    if (!hello_opts(client, args, n, &name, &user) ||
        (user && !check_password(client, user, user + 1)))
        return;
    if (!client->authenticated) {
        resp_error(&client->out,
                   "NOAUTH HELLO must be called with the client already authenticated, otherwise "
                   "the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the "
                   "client and select the RESP protocol version at the same time");
        return;
    }
    if (name)
        set_name(client, name);
    client->out.version = (int)version;
    reply_hello(client);
}

/* ---- CLIENT ---- */

static void list_client(const kvsd_client_t *client, resp_writer_t *text)
{
    char line[512];
    int64_t now_ms = client->server->now_ms;
    int n = snprintf(
        line, sizeof line,
        "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%.128s age=%" PRId64 " idle=%" PRId64
        " flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=%zu qbuf-free=%zu obl=%zu omem=%zu "
        "events=r%s cmd=%s user=default redir=-1 resp=%d\n",
        client->id, client->address, client->server->address, client->fd,
        client->name ? client->name : "", (now_ms - client->since_ms) / 1000,
        (now_ms - client->active_ms) / 1000, client->in.end - client->in.begin,
        client->in.capacity - client->in.end, client->out.buffer.end - client->out.buffer.begin,
        client->out.buffer.capacity, client->events & EPOLLOUT ? "w" : "",
        client->last ? client->last->name : "NULL", client->out.version);
    resp_raw(text, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

static void reply_list(kvsd_client_t *client, bool all)
{
    kvsd_server_t *server = client->server;
    resp_writer_t text = { .version = 2 };
    if (!all)
        list_client(client, &text);
    for (int i = 0; i < server->n_clients && all; i++)
        list_client(server->clients[i], &text);
    client->out.failed = client->out.failed || text.failed;
    resp_verbatim(&client->out, text.buffer.data, text.buffer.end);
    resp_buffer_fini(&text.buffer);
}

KVSD_RUN(kvsd_client)
{
    resp_writer_t *w = &client->out;
    const resp_arg_t *word = &args[1];
    if (kvsd_word(word, "id")) {
        if (kvsd_subcommand_arity(client, "client|id", n == 2))
            resp_number(w, (int64_t)client->id);
    } else if (kvsd_word(word, "getname")) {
        if (!kvsd_subcommand_arity(client, "client|getname", n == 2))
            return;
        if (client->name)
            resp_text(w, client->name);
        else
            resp_null(w);
    } else if (kvsd_word(word, "setname")) {
        if (!kvsd_subcommand_arity(client, "client|setname", n == 3) ||
            !check_name(client, &args[2]))
            return;
        set_name(client, &args[2]);
        resp_ok(w);
    } else if (kvsd_word(word, "list") && n == 2) {
        reply_list(client, true);
    } else if (kvsd_word(word, "info")) {
        if (kvsd_subcommand_arity(client, "client|info", n == 2))
            reply_list(client, false);
    } else if (kvsd_word(word, "list")) {
        kvsd_syntax_error(client);
    } else {
        kvsd_unknown_subcommand(client, "CLIENT", word);
    }
}
