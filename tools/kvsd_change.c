/* kvsd_change: commands that read a value and write a new one. pgas_kvs_update makes them atomic.
 * It may call a function several times, so functions only store what the reply needs. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kvsd.h"

/* One change of a key: what the function gets, and what it found. */
typedef struct {
    kvsd_client_t *client;
    const resp_arg_t *value;
    kvsd_set_opts_t opts;
    int64_t number; /* summand or offset */
    int64_t reply;
    bool gt, lt;
    bool written;
    const char *error; /* NULL: none */
    const char *time_error;
    char *memory; /* of the old value, or of a new one; freed at the end */
    size_t memory_bytes;
    bool found;
    char digits[24];
} change_t;

static const char not_integer[] = "ERR value is not an integer or out of range";
static const char too_long[] = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

/* The function ends the update without a write. */
#define NO_WRITE PGAS_ERR_BUSY

static pgas_status_t refuse(change_t *change, const char *error)
{
    change->error = error;
    return NO_WRITE;
}

/* Updates the key. @return false: the client has got an error as its reply */
static bool update(change_t *change, const resp_arg_t *key, size_t spare_bytes,
                   pgas_kvs_update_fn_t fn)
{
    kvsd_client_t *client = change->client;
    pgas_status_t status =
        pgas_kvs_update(client->server->kvs, key->data, key->bytes, spare_bytes, fn, change);
    change->written = status == PGAS_OK;
    if (change->error)
        resp_error(&client->out, "%s", change->error);
    else if (status != PGAS_OK && NO_WRITE != status)
        kvsd_status_error(client, status);
    else
        return true;
    return false;
}

/* Copies the old value, which the reply will have. */
static bool keep_old(change_t *change, const pgas_kvs_item_t *item)
{
    free(change->memory);
    change->found = item->value != NULL || item->version != 0;
    change->memory_bytes = item->value_bytes;
    change->memory = malloc(item->value_bytes + 1);
    if (change->memory && item->value_bytes > 0)
        memcpy(change->memory, item->value, item->value_bytes);
    return change->memory != NULL;
}

static void reply_old(change_t *change)
{
    if (change->found)
        resp_bulk(&change->client->out, change->memory, change->memory_bytes);
    else
        resp_null(&change->client->out);
}

static bool is_present(const pgas_kvs_item_t *item)
{
    return item->version != 0;
}

/* ---- times ---- */

bool kvsd_expiry(int64_t value, bool seconds, int64_t base_ms, int64_t *expires_ms_p)
{
    if (seconds && (value > INT64_MAX / 1000 || value < INT64_MIN / 1000))
        return false;
    value *= seconds ? 1000 : 1;
    if (value > INT64_MAX - base_ms)
        return false;
    *expires_ms_p = value + base_ms;
    return true;
}

/* The options EX, PX, EXAT and PXAT. */
typedef struct {
    const resp_arg_t *value; /* NULL: none */
    bool seconds, absolute;
} time_opt_t;

/* @return whether the word is such an option */
static bool is_time(const resp_arg_t *word, time_opt_t *time)
{
    time->absolute = kvsd_word(word, "exat") || kvsd_word(word, "pxat");
    time->seconds = kvsd_word(word, "ex") || kvsd_word(word, "exat");
    return time->absolute || time->seconds || kvsd_word(word, "px");
}

/* @return false if the option is unknown here, or excludes an earlier one */
static bool set_flag(const resp_arg_t *word, bool of_getex, kvsd_set_opts_t *opts)
{
    if (of_getex) {
        opts->persist = true;
        return kvsd_word(word, "persist") && !opts->has_time;
    }
    if (kvsd_word(word, "nx"))
        opts->nx = true;
    else if (kvsd_word(word, "xx"))
        opts->xx = true;
    else if (kvsd_word(word, "get"))
        opts->get = true;
    else if (kvsd_word(word, "keepttl") && !opts->has_time)
        opts->keep = true;
    else
        return false;
    return !(opts->nx && opts->xx);
}

/* Reads the options, but not the number of the time. @return false at a wrong one */
static bool read_flags(const resp_arg_t *args, size_t n, bool of_getex, kvsd_set_opts_t *opts,
                       time_opt_t *time)
{
    for (size_t i = of_getex ? 2 : 3; i < n; i++) {
        time_opt_t found;
        if (!is_time(&args[i], &found)) {
            if (!set_flag(&args[i], of_getex, opts))
                return false;
            continue;
        }
        /* An option may be there twice, with the same name; then the last one counts. */
        bool differs =
            opts->has_time && (found.seconds != time->seconds || found.absolute != time->absolute);
        if (differs || opts->keep || opts->persist || ++i == n)
            return false;
        opts->has_time = true;
        *time = found;
        time->value = &args[i];
    }
    return true;
}

/* Reads the number of the time. @return NULL, or the error */
static const char *read_time(const kvsd_client_t *client, const time_opt_t *time,
                             kvsd_set_opts_t *opts)
{
    int64_t value, base_ms = time->absolute ? 0 : client->server->now_ms;
    if (!time->value)
        return NULL;
    if (!resp_integer(time->value->data, time->value->bytes, &value))
        return not_integer;
    if (value <= 0 || !kvsd_expiry(value, time->seconds, base_ms, &opts->expires_ms))
        return "ERR invalid expire time in ";
    return NULL;
}

static void reply_time_error(kvsd_client_t *client, const char *error, const char *name)
{
    if (error == not_integer)
        resp_error(&client->out, "%s", error);
    else
        resp_error(&client->out, "%s'%s' command", error, name);
}

bool kvsd_set_opts(kvsd_client_t *client, const resp_arg_t *args, size_t n, kvsd_set_opts_t *opts)
{
    time_opt_t time = { .value = NULL };
    return read_flags(args, n, false, opts, &time) && !read_time(client, &time, opts);
}

/* ---- SET with GET, GETSET, GETDEL, GETEX ---- */

static pgas_status_t set_value(pgas_kvs_item_t *item, void *arg)
{
    change_t *change = arg;
    const kvsd_set_opts_t *opts = &change->opts;
    if (opts->get && !keep_old(change, item))
        return PGAS_ERR_NO_MEMORY;
    if ((opts->nx && is_present(item)) || (opts->xx && !is_present(item)))
        return NO_WRITE;
    item->value = change->value->data;
    item->value_bytes = change->value->bytes;
    if (!opts->keep)
        item->expires_ms = opts->expires_ms;
    return PGAS_OK;
}

KVSD_RUN(kvsd_set)
{
    change_t change = { .client = client, .value = &args[2] };
    time_opt_t time = { .value = NULL };
    const char *error;
    if (!read_flags(args, n, false, &change.opts, &time)) {
        kvsd_syntax_error(client);
    } else if ((error = read_time(client, &time, &change.opts)) != NULL) {
        reply_time_error(client, error, "set");
    } else if (update(&change, &args[1], 0, set_value)) {
        if (change.opts.get)
            reply_old(&change);
        else if (change.written)
            resp_ok(&client->out);
        else
            resp_null(&client->out);
    }
    free(change.memory);
}

KVSD_RUN(kvsd_getset)
{
    change_t change = { .client = client, .value = &args[2], .opts = { .get = true } };
    (void)n;
    if (update(&change, &args[1], 0, set_value))
        reply_old(&change);
    free(change.memory);
}

static pgas_status_t delete_value(pgas_kvs_item_t *item, void *arg)
{
    if (!keep_old(arg, item))
        return PGAS_ERR_NO_MEMORY;
    item->op = PGAS_KVS_DELETE;
    return is_present(item) ? PGAS_OK : NO_WRITE;
}

KVSD_RUN(kvsd_getdel)
{
    change_t change = { .client = client };
    (void)n;
    if (update(&change, &args[1], 0, delete_value))
        reply_old(&change);
    free(change.memory);
}

static pgas_status_t set_time(pgas_kvs_item_t *item, void *arg)
{
    change_t *change = arg;
    if (!keep_old(change, item))
        return PGAS_ERR_NO_MEMORY;
    if (is_present(item) && change->time_error)
        return refuse(change, change->time_error);
    if (!is_present(item) || (!change->opts.has_time && !change->opts.persist))
        return NO_WRITE;
    item->expires_ms = change->opts.expires_ms;
    if (change->opts.has_time && item->expires_ms <= change->client->server->now_ms)
        item->op = PGAS_KVS_DELETE;
    return PGAS_OK;
}

/* A wrong time is an error only if the key exists. */
KVSD_RUN(kvsd_getex)
{
    change_t change = { .client = client };
    time_opt_t time = { .value = NULL };
    if (!read_flags(args, n, true, &change.opts, &time)) {
        kvsd_syntax_error(client);
        return;
    }
    change.time_error = read_time(client, &time, &change.opts);
    if (change.time_error && change.time_error != not_integer)
        change.time_error = "ERR invalid expire time in 'getex' command";
    if (update(&change, &args[1], 0, set_time))
        reply_old(&change);
    free(change.memory);
}

/* ---- INCR and DECR ---- */

static pgas_status_t add_number(pgas_kvs_item_t *item, void *arg)
{
    change_t *change = arg;
    int64_t value = 0, sum;
    if (is_present(item) && !resp_integer(item->value, item->value_bytes, &value))
        return refuse(change, not_integer);
    if (__builtin_add_overflow(value, change->number, &sum))
        return refuse(change, "ERR increment or decrement would overflow");
    change->reply = sum;
    item->value_bytes =
        (size_t)snprintf(change->digits, sizeof change->digits, "%lld", (long long)sum);
    item->value = change->digits;
    return PGAS_OK;
}

static void add_to_key(kvsd_client_t *client, const resp_arg_t *key, int64_t summand)
{
    change_t change = { .client = client, .number = summand };
    if (update(&change, key, 0, add_number))
        resp_number(&client->out, change.reply);
}

KVSD_RUN(kvsd_incr)
{
    (void)n;
    add_to_key(client, &args[1], 1);
}

KVSD_RUN(kvsd_decr)
{
    (void)n;
    add_to_key(client, &args[1], -1);
}

KVSD_RUN(kvsd_incrby)
{
    int64_t summand;
    (void)n;
    if (kvsd_number(client, &args[2], &summand))
        add_to_key(client, &args[1], summand);
}

KVSD_RUN(kvsd_decrby)
{
    int64_t summand;
    (void)n;
    if (!kvsd_number(client, &args[2], &summand))
        return;
    if (summand == INT64_MIN)
        resp_error(&client->out, "ERR decrement would overflow");
    else
        add_to_key(client, &args[1], -summand);
}

/* ---- APPEND and SETRANGE ---- */

static pgas_status_t append_value(pgas_kvs_item_t *item, void *arg)
{
    change_t *change = arg;
    const resp_arg_t *value = change->value;
    if (!is_present(item)) {
        item->value = value->data;
        item->value_bytes = value->bytes;
    } else {
        if (item->value_bytes + value->bytes > PGAS_KVS_VALUE_MAX)
            return refuse(change, too_long);
        if (value->bytes > 0)
            memcpy((char *)item->value + item->value_bytes, value->data, value->bytes);
        item->value_bytes += value->bytes;
    }
    change->reply = (int64_t)item->value_bytes;
    return PGAS_OK;
}

KVSD_RUN(kvsd_append)
{
    change_t change = { .client = client, .value = &args[2] };
    (void)n;
    if (update(&change, &args[1], args[2].bytes, append_value))
        resp_number(&client->out, change.reply);
}

static pgas_status_t set_range(pgas_kvs_item_t *item, void *arg)
{
    change_t *change = arg;
    size_t offset = (size_t)change->number, end = offset + change->value->bytes;
    char *value = item->value;
    change->reply = is_present(item) ? (int64_t)item->value_bytes : 0;
    if (change->value->bytes == 0)
        return NO_WRITE;
    if (end > PGAS_KVS_VALUE_MAX)
        return refuse(change, too_long);
    if (!is_present(item)) {
        if (!change->memory)
            change->memory = malloc(end);
        value = change->memory;
        item->value_bytes = 0;
    }
    if (!value)
        return PGAS_ERR_NO_MEMORY;
    if (offset > item->value_bytes)
        memset(value + item->value_bytes, 0, offset - item->value_bytes);
    memcpy(value + offset, change->value->data, change->value->bytes);
    item->value = value;
    item->value_bytes = end > item->value_bytes ? end : item->value_bytes;
    change->reply = (int64_t)item->value_bytes;
    return PGAS_OK;
}

KVSD_RUN(kvsd_setrange)
{
    change_t change = { .client = client, .value = &args[3] };
    (void)n;
    if (!kvsd_number(client, &args[2], &change.number))
        return;
    if (change.number < 0) {
        resp_error(&client->out, "ERR offset is out of range");
        return;
    }
    size_t spare = args[3].bytes;
    if (spare > 0 && change.number > (int64_t)(PGAS_KVS_VALUE_MAX - spare)) {
        resp_error(&client->out, "%s", too_long);
        return;
    }
    if (spare > 0)
        spare += (size_t)change.number;
    if (update(&change, &args[1], spare, set_range))
        resp_number(&client->out, change.reply);
    free(change.memory);
}

/* ---- EXPIRE and PERSIST ---- */

static pgas_status_t change_time(pgas_kvs_item_t *item, void *arg)
{
    change_t *change = arg;
    int64_t time_ms = change->opts.expires_ms, old_ms = item->expires_ms;
    bool refused = (change->opts.nx && old_ms != 0) || (change->opts.xx && old_ms == 0) ||
                   (change->gt && (old_ms == 0 || time_ms <= old_ms)) ||
                   (change->lt && old_ms != 0 && time_ms >= old_ms);
    if (!is_present(item) || refused)
        return NO_WRITE;
    item->expires_ms = time_ms;
    if (time_ms <= change->client->server->now_ms)
        item->op = PGAS_KVS_DELETE;
    return PGAS_OK;
}

/* Reads NX, XX, GT and LT. @return false: the client has got an error as its reply */
static bool expire_opts(kvsd_client_t *client, const resp_arg_t *args, size_t n, change_t *change)
{
    for (size_t i = 3; i < n; i++) {
        if (kvsd_word(&args[i], "nx")) {
            change->opts.nx = true;
        } else if (kvsd_word(&args[i], "xx")) {
            change->opts.xx = true;
        } else if (kvsd_word(&args[i], "gt")) {
            change->gt = true;
        } else if (kvsd_word(&args[i], "lt")) {
            change->lt = true;
        } else {
            resp_error(&client->out, "ERR Unsupported option %.*s",
                       (int)(args[i].bytes < 128 ? args[i].bytes : 128), args[i].data);
            return false;
        }
    }
    if (change->opts.nx && (change->opts.xx || change->gt || change->lt))
        resp_error(&client->out,
                   "ERR NX and XX, GT or LT options at the same time are not compatible");
    else if (change->gt && change->lt)
        resp_error(&client->out, "ERR GT and LT options at the same time are not compatible");
    else
        return true;
    return false;
}

static void expire(kvsd_client_t *client, const resp_arg_t *args, size_t n, bool seconds,
                   int64_t base_ms, const char *name)
{
    change_t change = { .client = client };
    int64_t value;
    if (!expire_opts(client, args, n, &change) || !kvsd_number(client, &args[2], &value))
        return;
    if (!kvsd_expiry(value, seconds, base_ms, &change.opts.expires_ms))
        resp_error(&client->out, "ERR invalid expire time in '%s' command", name);
    else if (update(&change, &args[1], 0, change_time))
        resp_number(&client->out, change.written);
}

KVSD_RUN(kvsd_expire)
{
    expire(client, args, n, true, client->server->now_ms, "expire");
}

KVSD_RUN(kvsd_pexpire)
{
    expire(client, args, n, false, client->server->now_ms, "pexpire");
}

KVSD_RUN(kvsd_expireat)
{
    expire(client, args, n, true, 0, "expireat");
}

KVSD_RUN(kvsd_pexpireat)
{
    expire(client, args, n, false, 0, "pexpireat");
}

static pgas_status_t remove_time(pgas_kvs_item_t *item, void *arg)
{
    (void)arg;
    if (!is_present(item) || item->expires_ms == 0)
        return NO_WRITE;
    item->expires_ms = 0;
    return PGAS_OK;
}

KVSD_RUN(kvsd_persist)
{
    change_t change = { .client = client };
    (void)n;
    if (update(&change, &args[1], 0, remove_time))
        resp_number(&client->out, change.written);
}
