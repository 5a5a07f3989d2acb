/* kvsd_table: the commands, and the replies of COMMAND. */
#include <stdio.h>
#include <string.h>
#include "kvsd.h"

#define W CMD_WRITE
#define R CMD_READONLY
#define F CMD_FAST
#define O CMD_DENYOOM
#define N CMD_NOSCRIPT
#define A CMD_ADMIN
#define L (CMD_LOADING | CMD_STALE)
#define U CMD_NO_AUTH

static const kvsd_command_t commands[] = {
    /* name, arity, flags, keys, add, reply, run, group, summary */
    { "append", 3, W | F | O, 1, 1, 1, NULL, NULL, kvsd_append, "string",
      "Append a value to a key" },
    { "auth", -2, N | L | F | U, 0, 0, 0, NULL, NULL, kvsd_auth, "connection",
      "Authenticate to the server" },
    { "bgsave", -1, A | N, 0, 0, 0, NULL, NULL, kvsd_bgsave, "server",
      "Save a snapshot, and do not wait for it" },
    { "client", -2, N | L, 0, 0, 0, NULL, NULL, kvsd_client, "connection",
      "A container for client connection commands" },
    { "command", -1, L, 0, 0, 0, NULL, NULL, kvsd_command, "server",
      "Get array of Redis command details" },
    { "config", -2, A | N | L, 0, 0, 0, NULL, NULL, kvsd_config, "server",
      "A container for server configuration commands" },
    { "dbsize", 1, R | F, 0, 0, 0, NULL, NULL, kvsd_dbsize, "server", "Return the number of keys" },
    { "decr", 2, W | F | O, 1, 1, 1, NULL, NULL, kvsd_decr, "string",
      "Decrement the integer value of a key by one" },
    { "decrby", 3, W | F | O, 1, 1, 1, NULL, NULL, kvsd_decrby, "string",
      "Decrement the integer value of a key by the given number" },
    { "del", -2, W, 1, -1, 1, kvsd_add_del, kvsd_reply_count, kvsd_del, "generic", "Delete a key" },
    { "echo", 2, L | F, 0, 0, 0, NULL, NULL, kvsd_echo, "connection", "Echo the given string" },
    { "exists", -2, R | F, 1, -1, 1, kvsd_add_exists, kvsd_reply_count, kvsd_exists, "generic",
      "Determine if a key exists" },
    { "expire", -3, W | F, 1, 1, 1, NULL, NULL, kvsd_expire, "generic",
      "Set a key's time to live in seconds" },
    { "expireat", -3, W | F, 1, 1, 1, NULL, NULL, kvsd_expireat, "generic",
      "Set the expiration for a key as a UNIX timestamp" },
    { "expiretime", 2, R | F, 1, 1, 1, kvsd_add_look, kvsd_reply_expiretime, NULL, "generic",
      "Get the expiration Unix timestamp for a key" },
    { "flushall", -1, W, 0, 0, 0, NULL, NULL, kvsd_flushall, "server", "Remove all keys" },
    { "flushdb", -1, W, 0, 0, 0, NULL, NULL, kvsd_flushall, "server", "Remove all keys" },
    { "get", 2, R | F, 1, 1, 1, kvsd_add_get, kvsd_reply_get, NULL, "string",
      "Get the value of a key" },
    { "getdel", 2, W | F, 1, 1, 1, NULL, NULL, kvsd_getdel, "string",
      "Get the value of a key and delete the key" },
    { "getex", -2, W | F, 1, 1, 1, NULL, NULL, kvsd_getex, "string",
      "Get the value of a key and optionally set its expiration" },
    { "getrange", 4, R, 1, 1, 1, kvsd_add_getrange, kvsd_reply_getrange, kvsd_getrange, "string",
      "Get a substring of the string stored at a key" },
    { "getset", 3, W | F | O, 1, 1, 1, NULL, NULL, kvsd_getset, "string",
      "Set the string value of a key and return its old value" },
    { "hello", -1, N | L | F | U, 0, 0, 0, NULL, NULL, kvsd_hello, "connection",
      "Handshake with Redis" },
    { "host:", -1, L | U, 0, 0, 0, NULL, NULL, kvsd_stranger, "server", NULL },
    { "incr", 2, W | F | O, 1, 1, 1, NULL, NULL, kvsd_incr, "string",
      "Increment the integer value of a key by one" },
    { "incrby", 3, W | F | O, 1, 1, 1, NULL, NULL, kvsd_incrby, "string",
      "Increment the integer value of a key by the given amount" },
    { "info", -1, L, 0, 0, 0, NULL, NULL, kvsd_info, "server",
      "Get information and statistics about the server" },
    { "keys", 2, R, 0, 0, 0, NULL, NULL, kvsd_keys, "generic",
      "Find all keys matching the given pattern" },
    { "lastsave", 1, L | F, 0, 0, 0, NULL, NULL, kvsd_lastsave, "server",
      "Get the UNIX time stamp of the last successful snapshot" },
    { "mget", -2, R | F, 1, -1, 1, kvsd_add_mget, kvsd_reply_mget, kvsd_mget, "string",
      "Get the values of all the given keys" },
    { "mset", -3, W | O, 1, -1, 2, kvsd_add_mset, kvsd_reply_mset, kvsd_mset, "string",
      "Set multiple keys to multiple values" },
    { "persist", 2, W | F, 1, 1, 1, NULL, NULL, kvsd_persist, "generic",
      "Remove the expiration from a key" },
    { "pexpire", -3, W | F, 1, 1, 1, NULL, NULL, kvsd_pexpire, "generic",
      "Set a key's time to live in milliseconds" },
    { "pexpireat", -3, W | F, 1, 1, 1, NULL, NULL, kvsd_pexpireat, "generic",
      "Set the expiration for a key as a UNIX timestamp specified in milliseconds" },
    { "pexpiretime", 2, R | F, 1, 1, 1, kvsd_add_look, kvsd_reply_pexpiretime, NULL, "generic",
      "Get the expiration Unix timestamp for a key in milliseconds" },
    { "ping", -1, F, 0, 0, 0, NULL, NULL, kvsd_ping, "connection", "Ping the server" },
    { "post", -1, L | U, 0, 0, 0, NULL, NULL, kvsd_stranger, "server", NULL },
    { "psetex", 4, W | O, 1, 1, 1, kvsd_add_setex, kvsd_reply_set, kvsd_setex, "string",
      "Set the value and expiration in milliseconds of a key" },
    { "pttl", 2, R | F, 1, 1, 1, kvsd_add_look, kvsd_reply_pttl, NULL, "generic",
      "Get the time to live for a key in milliseconds" },
    { "quit", -1, N | L | F | U, 0, 0, 0, NULL, NULL, kvsd_quit, "connection",
      "Close the connection" },
    { "reset", 1, N | L | F | U, 0, 0, 0, NULL, NULL, kvsd_reset, "connection",
      "Reset the connection" },
    { "save", 1, A | N, 0, 0, 0, NULL, NULL, kvsd_save, "server", "Save a snapshot" },
    { "scan", -2, R, 0, 0, 0, NULL, NULL, kvsd_scan, "generic", "Incrementally iterate the keys" },
    { "select", 2, L | F, 0, 0, 0, NULL, NULL, kvsd_select, "connection",
      "Change the selected database for the current connection" },
    { "set", -3, W | O, 1, 1, 1, kvsd_add_set, kvsd_reply_set, kvsd_set, "string",
      "Set the string value of a key" },
    { "setex", 4, W | O, 1, 1, 1, kvsd_add_setex, kvsd_reply_set, kvsd_setex, "string",
      "Set the value and expiration of a key" },
    { "setnx", 3, W | F | O, 1, 1, 1, kvsd_add_setnx, kvsd_reply_setnx, NULL, "string",
      "Set the value of a key, only if the key does not exist" },
    { "setrange", 4, W | O, 1, 1, 1, NULL, NULL, kvsd_setrange, "string",
      "Overwrite part of a string at key starting at the specified offset" },
    { "shutdown", -1, A | N | L, 0, 0, 0, NULL, NULL, kvsd_shutdown, "server",
      "End the job, with a last snapshot if it has a directory" },
    { "strlen", 2, R | F, 1, 1, 1, kvsd_add_look, kvsd_reply_strlen, NULL, "string",
      "Get the length of the value stored in a key" },
    { "substr", 4, R, 1, 1, 1, kvsd_add_getrange, kvsd_reply_getrange, kvsd_getrange, "string",
      "Get a substring of the string stored at a key" },
    { "time", 1, L | F, 0, 0, 0, NULL, NULL, kvsd_time, "server", "Return the server time" },
    { "touch", -2, R | F, 1, -1, 1, kvsd_add_exists, kvsd_reply_count, kvsd_exists, "generic",
      "Count the keys that exist" },
    { "ttl", 2, R | F, 1, 1, 1, kvsd_add_look, kvsd_reply_ttl, NULL, "generic",
      "Get the time to live for a key in seconds" },
    { "type", 2, R | F, 1, 1, 1, kvsd_add_look, kvsd_reply_type, NULL, "generic",
      "Determine the type stored at key" },
    { "unlink", -2, W | F, 1, -1, 1, kvsd_add_del, kvsd_reply_count, kvsd_del, "generic",
      "Delete a key" },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands, N_SLOTS = 256, NAME_MAX_BYTES = 16 };

/* ---- finding a command ---- */

static unsigned char slots[N_SLOTS]; /* 1 + the command's place; 0: free */

static unsigned slot_of(const char *name, size_t bytes)
{
    unsigned hash = (unsigned)bytes;
    for (size_t i = 0; i < bytes; i++)
        hash = hash * 31 + (unsigned char)(name[i] | 32);
    return (hash ^ hash >> 8) % N_SLOTS;
}

void kvsd_table_init(void)
{
    for (int i = 0; i < N_COMMANDS; i++) {
        unsigned slot = slot_of(commands[i].name, strlen(commands[i].name));
        while (slots[slot] != 0)
            slot = (slot + 1) % N_SLOTS;
        slots[slot] = (unsigned char)(i + 1);
    }
}

const kvsd_command_t *kvsd_find_command(const resp_arg_t *name)
{
    if (name->bytes == 0 || name->bytes > NAME_MAX_BYTES)
        return NULL;
    for (unsigned slot = slot_of(name->data, name->bytes); slots[slot] != 0;
         slot = (slot + 1) % N_SLOTS) {
        const kvsd_command_t *command = &commands[slots[slot] - 1];
        if (kvsd_word(name, command->name))
            return command;
    }
    return NULL;
}

/* ---- COMMAND ---- */

static const struct {
    unsigned flag;
    const char *name, *category;
} flags[] = {
    { CMD_WRITE, "write", "@write" },   { CMD_READONLY, "readonly", "@read" },
    { CMD_DENYOOM, "denyoom", NULL },   { CMD_ADMIN, "admin", "@admin" },
    { CMD_NOSCRIPT, "noscript", NULL }, { CMD_LOADING, "loading", NULL },
    { CMD_STALE, "stale", NULL },       { CMD_FAST, "fast", "@fast" },
    { CMD_NO_AUTH, "no_auth", NULL },
};
enum { N_FLAGS = sizeof flags / sizeof *flags };

static void describe_flags(resp_writer_t *w, unsigned set)
{
    size_t n = 0;
    for (int i = 0; i < N_FLAGS; i++)
        n += (set & flags[i].flag) != 0;
    resp_set(w, n);
    for (int i = 0; i < N_FLAGS; i++)
        if (set & flags[i].flag)
            resp_line(w, '+', flags[i].name);
}

static void describe_categories(resp_writer_t *w, const kvsd_command_t *command)
{
    char group[32];
    size_t n = 1;
    snprintf(group, sizeof group, "@%s", command->group);
    for (int i = 0; i < N_FLAGS; i++)
        n += (command->flags & flags[i].flag) && flags[i].category;
    resp_set(w, n);
    resp_line(w, '+', group);
    for (int i = 0; i < N_FLAGS; i++)
        if ((command->flags & flags[i].flag) && flags[i].category)
            resp_line(w, '+', flags[i].category);
}

static void describe(resp_writer_t *w, const kvsd_command_t *command)
{
    resp_array(w, 10);
    resp_text(w, command->name);
    resp_number(w, command->arity);
    describe_flags(w, command->flags);
    resp_number(w, command->first_key);
    resp_number(w, command->last_key);
    resp_number(w, command->key_step);
    describe_categories(w, command);
    resp_array(w, 0); /* tips */
    resp_array(w, 0); /* key specifications */
    resp_array(w, 0); /* subcommands */
}

static void document(resp_writer_t *w, const kvsd_command_t *command)
{
    resp_text(w, command->name);
    resp_map(w, 3);
    resp_text(w, "summary");
    resp_text(w, command->summary);
    resp_text(w, "since");
    resp_text(w, "1.0.0");
    resp_text(w, "group");
    resp_text(w, command->group);
}

/* @return the number of commands that are not traps for browsers */
static size_t count_commands(void)
{
    size_t n = 0;
    for (int i = 0; i < N_COMMANDS; i++)
        n += commands[i].summary != NULL;
    return n;
}

/* COMMAND [INFO [NAME..]] */
static void command_info(resp_writer_t *w, const resp_arg_t *names, size_t n)
{
    resp_array(w, n > 0 ? n : count_commands());
    for (int i = 0; i < N_COMMANDS && n == 0; i++)
        if (commands[i].summary)
            describe(w, &commands[i]);
    for (size_t i = 0; i < n; i++) {
        const kvsd_command_t *command = kvsd_find_command(&names[i]);
        if (command && command->summary)
            describe(w, command);
        else if (w->version < 3)
            resp_raw(w, "*-1\r\n", 5);
        else
            resp_null(w);
    }
}

/* COMMAND DOCS [NAME..] */
static void command_docs(resp_writer_t *w, const resp_arg_t *names, size_t n)
{
    size_t n_known = n > 0 ? 0 : count_commands();
    for (size_t i = 0; i < n; i++) {
        const kvsd_command_t *command = kvsd_find_command(&names[i]);
        n_known += command && command->summary;
    }
    resp_map(w, n_known);
    for (int i = 0; i < N_COMMANDS && n == 0; i++)
        if (commands[i].summary)
            document(w, &commands[i]);
    for (size_t i = 0; i < n; i++) {
        const kvsd_command_t *command = kvsd_find_command(&names[i]);
        if (command && command->summary)
            document(w, command);
    }
}

static void command_list(resp_writer_t *w)
{
    resp_array(w, count_commands());
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].summary)
            resp_text(w, commands[i].name);
}

void kvsd_command(kvsd_client_t *client, resp_arg_t *args, size_t n)
{
    resp_writer_t *w = &client->out;
    if (n == 1)
        command_info(w, NULL, 0);
    else if (kvsd_word(&args[1], "info"))
        command_info(w, args + 2, n - 2);
    else if (kvsd_word(&args[1], "docs"))
        command_docs(w, args + 2, n - 2);
    else if (kvsd_word(&args[1], "list") && n == 2)
        command_list(w);
    else if (kvsd_word(&args[1], "count") && kvsd_subcommand_arity(client, "command|count", n == 2))
        resp_number(w, (int64_t)count_commands());
    else if (!kvsd_word(&args[1], "count"))
        kvsd_unknown_subcommand(client, "COMMAND", &args[1]);
}
