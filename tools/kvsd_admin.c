/* kvsd_admin: INFO, CONFIG, snapshots and the end. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "kvsd.h"

/* ---- INFO ---- */

typedef struct {
    kvsd_client_t *client;
    char text[4096];
    size_t bytes;
} page_t;

__attribute__((format(printf, 2, 3))) static void add(page_t *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(page->text + page->bytes, sizeof page->text - page->bytes, format, args);
    va_end(args);
    page->bytes += (size_t)n;
    if (page->bytes > sizeof page->text - 1)
        page->bytes = sizeof page->text - 1;
}

static void info_server(page_t *page)
{
    const kvsd_server_t *server = page->client->server;
    int64_t uptime_s = (server->now_ms - server->start_ms) / 1000;
    add(page, "redis_version:%s\r\nredis_mode:standalone\r\n", KVSD_REDIS_VERSION);
    add(page, "pgas_version:%s\r\npgas_rank:%d\r\npgas_ranks:%d\r\npgas_nodes:%d\r\n",
        pgas_version(), pgas_rank(), pgas_n_ranks(), pgas_n_nodes());
    add(page, "arch_bits:%d\r\nprocess_id:%ld\r\ntcp_port:%d\r\n", (int)sizeof(void *) * 8,
        (long)getpid(), server->opts.port + pgas_rank());
    add(page, "uptime_in_seconds:%" PRId64 "\r\nuptime_in_days:%" PRId64 "\r\n", uptime_s,
        uptime_s / 86400);
}

static void info_clients(page_t *page)
{
    const kvsd_server_t *server = page->client->server;
    add(page, "connected_clients:%d\r\nmaxclients:%d\r\nblocked_clients:0\r\n", server->n_clients,
        server->opts.n_clients_max);
}

static void info_memory(page_t *page)
{
    const kvsd_server_t *server = page->client->server;
    pgas_kvs_info_t info = { .size = sizeof info };
    if (pgas_kvs_info(server->kvs, &info) != PGAS_OK)
        return;
    add(page, "used_memory:%" PRIu64 "\r\nmaxmemory:%" PRIu64 "\r\nmaxmemory_policy:%s\r\n",
        info.slab_bytes, info.bytes, server->opts.evict ? "allkeys-lru" : "noeviction");
    add(page, "used_memory_dataset:%" PRIu64 "\r\nused_memory_blocks:%" PRIu64 "\r\n",
        info.data_bytes, info.block_bytes);
    add(page, "buckets:%" PRIu64 "\r\noverflow_buckets:%" PRIu64 "\r\nclient_buffers:%zu\r\n",
        info.n_buckets, info.n_overflow, resp_buffers_bytes());
}

static void info_persistence(page_t *page)
{
    kvsd_save_info_t saves = kvsd_job_saves();
    const kvsd_server_t *server = page->client->server;
    add(page, "loading:0\r\nrdb_bgsave_in_progress:%d\r\nrdb_last_save_time:%" PRId64 "\r\n",
        saves.running, saves.last_s > 0 ? saves.last_s : server->start_ms / 1000);
    add(page, "rdb_last_bgsave_status:%s\r\naof_enabled:%d\r\n",
        saves.last_status == PGAS_OK ? "ok" : "err", server->opts.dir != NULL);
}

static void info_stats(page_t *page)
{
    const kvsd_server_t *server = page->client->server;
    const kvsd_counts_t *counts = &server->counts;
    pgas_kvs_info_t info = { .size = sizeof info };
    add(page, "total_connections_received:%" PRIu64 "\r\ntotal_commands_processed:%" PRIu64 "\r\n",
        counts->connections, counts->commands);
    add(page, "total_net_input_bytes:%" PRIu64 "\r\ntotal_net_output_bytes:%" PRIu64 "\r\n",
        counts->bytes_in, counts->bytes_out);
    add(page, "rejected_connections:%" PRIu64 "\r\nslow_connections:%" PRIu64 "\r\n",
        counts->refused, counts->slow);
    add(page, "keyspace_hits:%" PRIu64 "\r\nkeyspace_misses:%" PRIu64 "\r\n", counts->hits,
        counts->misses);
    if (pgas_kvs_info(server->kvs, &info) == PGAS_OK)
        add(page,
            "evicted_keys:%" PRIu64 "\r\npgas_cache_hits:%" PRIu64 "\r\npgas_calls:%" PRIu64 "\r\n",
            info.evicted, info.cache_hits, info.calls);
}

static void info_replication(page_t *page)
{
    add(page, "role:master\r\nconnected_slaves:0\r\n");
}

static void info_keyspace(page_t *page)
{
    uint64_t n_keys = 0;
    if (pgas_kvs_count(page->client->server->kvs, &n_keys) == PGAS_OK && n_keys > 0)
        add(page, "db0:keys=%" PRIu64 ",expires=0,avg_ttl=0\r\n", n_keys);
}

static const struct {
    const char *name, *title;
    void (*write)(page_t *page);
} sections[] = {
    { "server", "Server", info_server },       { "clients", "Clients", info_clients },
    { "memory", "Memory", info_memory },       { "persistence", "Persistence", info_persistence },
    { "stats", "Stats", info_stats },          { "replication", "Replication", info_replication },
    { "keyspace", "Keyspace", info_keyspace },
};
enum { N_SECTIONS = sizeof sections / sizeof *sections };

static bool wants_section(const resp_arg_t *args, size_t n, const char *name)
{
    bool wanted = n == 1;
    for (size_t i = 1; i < n && !wanted; i++)
        wanted = kvsd_word(&args[i], name) || kvsd_word(&args[i], "all") ||
                 kvsd_word(&args[i], "default") || kvsd_word(&args[i], "everything");
    return wanted;
}

KVSD_RUN(kvsd_info)
{
    page_t page = { .client = client };
    for (int i = 0; i < N_SECTIONS; i++) {
        if (!wants_section(args, n, sections[i].name))
            continue;
        add(&page, "%s# %s\r\n", page.bytes > 0 ? "\r\n" : "", sections[i].title);
        sections[i].write(&page);
    }
    resp_verbatim(&client->out, page.text, page.bytes);
}

/* ---- CONFIG ---- */

typedef struct {
    const char *name;
    char value[256];
} parameter_t;

enum { N_PARAMETERS = 13 };

static void list_parameters(const kvsd_server_t *server, parameter_t list[N_PARAMETERS])
{
    static const char *const names[N_PARAMETERS] = {
        "appendfsync",
        "appendonly",
        "bind",
        "client-query-buffer-limit",
        "databases",
        "dir",
        "maxclients",
        "maxmemory",
        "maxmemory-policy",
        "port",
        "proto-max-bulk-len",
        "save",
        "timeout",
    };
    const kvsd_options_t *opts = &server->opts;
    for (int i = 0; i < N_PARAMETERS; i++) {
        list[i].name = names[i];
        list[i].value[0] = '\0';
    }
    size_t room = sizeof list[0].value;
    snprintf(list[0].value, room, "%s",
             opts->durability == PGAS_KVS_SYNC_ALWAYS ? "always" : "everysec");
    snprintf(list[1].value, room, "%s", opts->dir ? "yes" : "no");
    snprintf(list[2].value, room, "%s", opts->bind);
    snprintf(list[3].value, room, "%" PRIu64, opts->request_max);
    snprintf(list[4].value, room, "1");
    snprintf(list[5].value, room, "%s", opts->dir ? opts->dir : "");
    snprintf(list[6].value, room, "%d", opts->n_clients_max);
    snprintf(list[7].value, room, "%" PRIu64, opts->memory);
    snprintf(list[8].value, room, "%s", opts->evict ? "allkeys-lru" : "noeviction");
    snprintf(list[9].value, room, "%d", opts->port + pgas_rank());
    snprintf(list[10].value, room, "%u", PGAS_KVS_VALUE_MAX);
    snprintf(list[12].value, room, "%d", opts->timeout_s);
}

/* CONFIG GET PATTERN.. */
static void config_get(kvsd_client_t *client, const resp_arg_t *args, size_t n)
{
    parameter_t list[N_PARAMETERS];
    bool wanted[N_PARAMETERS] = { false };
    size_t n_wanted = 0;
    list_parameters(client->server, list);
    for (int i = 0; i < N_PARAMETERS; i++) {
        for (size_t k = 2; k < n && !wanted[i]; k++)
            wanted[i] = kvsd_match(args[k].data, args[k].bytes, list[i].name, strlen(list[i].name));
        n_wanted += wanted[i];
    }
    resp_map(&client->out, n_wanted);
    for (int i = 0; i < N_PARAMETERS; i++) {
        if (wanted[i]) {
            resp_text(&client->out, list[i].name);
            resp_text(&client->out, list[i].value);
        }
    }
}

KVSD_RUN(kvsd_config)
{
    if (kvsd_word(&args[1], "get")) {
        if (kvsd_subcommand_arity(client, "config|get", n >= 3))
            config_get(client, args, n);
    } else if (kvsd_word(&args[1], "resetstat")) {
        if (!kvsd_subcommand_arity(client, "config|resetstat", n == 2))
            return;
        client->server->counts = (kvsd_counts_t){ .connections = 0 };
        resp_ok(&client->out);
    } else if (kvsd_word(&args[1], "set") || kvsd_word(&args[1], "rewrite")) {
        resp_error(&client->out, "ERR the configuration is the command line of pgas_kvsd");
    } else {
        kvsd_unknown_subcommand(client, "CONFIG", &args[1]);
    }
}

/* ---- snapshots ---- */

/* @return false: the client has got an error as its reply */
static bool can_save(kvsd_client_t *client)
{
    if (!client->server->opts.dir)
        resp_error(&client->out, "ERR the server was started without --dir");
    return client->server->opts.dir;
}

KVSD_RUN(kvsd_save)
{
    (void)args;
    (void)n;
    if (!can_save(client))
        return;
    client->save_number = kvsd_job_ask_save();
    if (client->save_number == 0)
        resp_error(&client->out, "ERR the server ends");
}

KVSD_RUN(kvsd_bgsave)
{
    if (n > 2 || (n == 2 && !kvsd_word(&args[1], "schedule")))
        kvsd_syntax_error(client);
    else if (!can_save(client))
        return;
    else if (kvsd_job_saves().running)
        resp_error(&client->out, "ERR Background save already in progress");
    else if (kvsd_job_ask_save() == 0)
        resp_error(&client->out, "ERR the server ends");
    else
        resp_line(&client->out, '+', "Background saving started");
}

KVSD_RUN(kvsd_lastsave)
{
    int64_t last_s = kvsd_job_saves().last_s;
    (void)args;
    (void)n;
    resp_number(&client->out, last_s > 0 ? last_s : client->server->start_ms / 1000);
}

/* ---- the others ---- */

KVSD_RUN(kvsd_time)
{
    char text[24];
    (void)args;
    (void)n;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    resp_array(&client->out, 2);
    snprintf(text, sizeof text, "%lld", (long long)now.tv_sec);
    resp_text(&client->out, text);
    snprintf(text, sizeof text, "%ld", now.tv_nsec / 1000);
    resp_text(&client->out, text);
}

/* As in redis, the connection ends without a reply. */
KVSD_RUN(kvsd_shutdown)
{
    bool without = n == 2 && kvsd_word(&args[1], "nosave");
    if (n > 2 || (n == 2 && !without && !kvsd_word(&args[1], "save"))) {
        kvsd_syntax_error(client);
        return;
    }
    kvsd_job_ask_stop(!without);
    client->closing = true;
}

/* A page of a stranger can make a browser connect. The browser begins with one of these words. */
KVSD_RUN(kvsd_stranger)
{
    (void)args;
    (void)n;
    kvsd_mark_dead(client);
}
