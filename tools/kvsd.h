/* pgas_kvsd: a server for clients of Redis over pgas/kvs.h. Every rank has a port, and serves all
 * keys.
 *
 *  One thread of each rank serves its clients in rounds (kvsd_loop.c). A round waits in epoll,
 *  reads what has arrived, and parses requests. Requests on single keys become items of one
 *  pgas_kvs_run, for all clients of the round together (kvsd_batch.c). Other requests run alone.
 *  Replies go to the client's output buffer, and one write per client sends them.
 *
 *  kvsd_table.c lists the commands. Each one has up to three functions:
 *      add    appends items to the batch, if the request can be part of one
 *      reply  makes the reply from these items
 *      run    carries the request out alone, when the client waits for no earlier reply */
#ifndef TOOLS_KVSD_H
#define TOOLS_KVSD_H

#include <pgas/kvs.h>
#include <pgas/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include "resp.h"

#define KVSD_REDIS_VERSION "7.0.15" /* clients choose features by it */

/* ---- options ---- */

enum { PASSWORD_MAX = 512 };

typedef struct {
    int port; /* of rank 0 */
    const char *bind;
    char password[PASSWORD_MAX]; /* of password_bytes; filled with zeros */
    size_t password_bytes;       /* 0: none */
    uint64_t memory;             /* bytes of each rank's part of the store */
    uint64_t n_keys;
    bool evict;
    const char *dir;
    pgas_kvs_durability_t durability;
    int n_clients_max;    /* of each rank */
    uint64_t request_max; /* bytes of a request */
    uint64_t output_max;  /* bytes of replies that a client has not read */
    uint64_t buffers_max; /* bytes of all buffers of a rank */
    int slow_s;           /* a client that reads nothing so long is cut off */
    int timeout_s;        /* an idle client is cut off; 0: never */
    bool quiet;
} kvsd_options_t;

/* Reads the command line. It ends the program at --help and at errors. */
void kvsd_parse_options(int argc, char **argv, kvsd_options_t *opts);

/* ---- the server and its clients ---- */

typedef struct kvsd_command kvsd_command_t;
typedef struct kvsd_server kvsd_server_t;

typedef struct {
    kvsd_server_t *server;
    int fd;
    int index; /* in server->clients */
    uint64_t id;
    uint32_t events; /* that epoll watches */
    resp_parser_t parser;
    resp_buffer_t in;
    resp_writer_t out;
    const kvsd_command_t *held; /* the command of parser.args, which waits for a batch's end */
    size_t held_bytes;
    uint32_t n_pending;   /* requests in the batch */
    uint64_t read_set[4]; /* hash bits of keys that this batch reads for the client */
    bool reads_again;     /* a value of this batch was read again, so later ones are, too */
    bool ready;           /* in server->ready */
    bool authenticated;
    bool at_end;                          /* the client sends no more */
    bool closing;                         /* it is closed when the output is sent */
    bool dead;                            /* it is closed at the end of the round */
    uint64_t save_number;                 /* it waits for this snapshot; 0: for none */
    int64_t since_ms, active_ms, sent_ms; /* connected; last request; output last moved */
    const kvsd_command_t *last;
    char *name; /* NULL: none */
    char address[64], local[64];
} kvsd_client_t;

typedef struct {
    kvsd_client_t *client;
    const kvsd_command_t *command;
    uint32_t first, n; /* items */
    int64_t number;    /* for the command's own use */
} kvsd_pending_t;

enum { BATCH_ITEMS = 4096, BATCH_KEYS = 512 /* of one request */ };

typedef struct {
    pgas_kvs_item_t *items; /* [BATCH_ITEMS] */
    kvsd_pending_t *pending;
    size_t n_items, n_pending;
    char *values; /* where GET stores values */
    size_t values_used;
    size_t value_bytes; /* the capacity of each GET */
    size_t largest;     /* value that was read lately */
    int n_runs;         /* since the capacity was chosen */
    int64_t number;     /* goes to the next kvsd_pending_t */
} kvsd_batch_t;

typedef struct {
    uint64_t connections, refused, commands, hits, misses, slow, bytes_in, bytes_out;
} kvsd_counts_t;

struct kvsd_server {
    kvsd_options_t opts;
    pgas_kvs_t *kvs;
    int epoll_fd, listen_fd, spare_fd, wakeup_fd;
    char address[64]; /* where it listens */
    kvsd_client_t **clients;
    int n_clients, n_slots;
    kvsd_client_t **ready; /* clients whose input is not parsed to the end */
    kvsd_client_t **later; /* room to make the next list */
    int n_ready, n_dead;
    uint64_t next_id;
    int64_t now_ms, start_ms, next_check_ms, next_sweep_ms;
    uint64_t sweep_cursor;    /* of pgas_kvs_scan */
    kvsd_batch_t batch, side; /* side: of requests with many keys, which run alone */
    kvsd_counts_t counts;
};

/* ---- commands ---- */

enum {
    CMD_WRITE = 1,
    CMD_READONLY = 2,
    CMD_FAST = 4,
    CMD_NO_AUTH = 8,
    CMD_ADMIN = 16,
    CMD_NOSCRIPT = 32,
    CMD_LOADING = 64,
    CMD_STALE = 128,
    CMD_DENYOOM = 256
};

typedef bool (*kvsd_add_fn_t)(kvsd_client_t *client, resp_arg_t *args, size_t n);
typedef void (*kvsd_reply_fn_t)(kvsd_client_t *client, const kvsd_pending_t *pending);
typedef void (*kvsd_run_fn_t)(kvsd_client_t *client, resp_arg_t *args, size_t n);

struct kvsd_command {
    const char *name; /* small letters */
    int arity;        /* words, with the name; negative: at least so many */
    unsigned flags;
    int first_key, last_key, key_step;
    kvsd_add_fn_t add;
    kvsd_reply_fn_t reply;
    kvsd_run_fn_t run;
    const char *group, *summary;
};

#define KVSD_RUN(name)   void name(kvsd_client_t *client, resp_arg_t *args, size_t n)
#define KVSD_ADD(name)   bool name(kvsd_client_t *client, resp_arg_t *args, size_t n)
#define KVSD_REPLY(name) void name(kvsd_client_t *client, const kvsd_pending_t *pending)

/* kvsd_table.c */
const kvsd_command_t *kvsd_find_command(const resp_arg_t *name);
void kvsd_table_init(void);
KVSD_RUN(kvsd_command);

/* kvsd_strings.c: commands that are items of a batch */
KVSD_ADD(kvsd_add_get);
KVSD_REPLY(kvsd_reply_get);
KVSD_ADD(kvsd_add_getrange);
KVSD_REPLY(kvsd_reply_getrange);
KVSD_RUN(kvsd_getrange);
KVSD_ADD(kvsd_add_set);
KVSD_REPLY(kvsd_reply_set);
KVSD_ADD(kvsd_add_setnx);
KVSD_REPLY(kvsd_reply_setnx);
KVSD_ADD(kvsd_add_setex);
KVSD_RUN(kvsd_setex);
KVSD_ADD(kvsd_add_mget);
KVSD_REPLY(kvsd_reply_mget);
KVSD_RUN(kvsd_mget);
KVSD_ADD(kvsd_add_mset);
KVSD_REPLY(kvsd_reply_mset);
KVSD_RUN(kvsd_mset);
KVSD_ADD(kvsd_add_del);
KVSD_ADD(kvsd_add_exists);
KVSD_REPLY(kvsd_reply_count);
KVSD_RUN(kvsd_del);
KVSD_RUN(kvsd_exists);
KVSD_ADD(kvsd_add_look);
KVSD_REPLY(kvsd_reply_strlen);
KVSD_REPLY(kvsd_reply_type);
KVSD_REPLY(kvsd_reply_ttl);
KVSD_REPLY(kvsd_reply_pttl);
KVSD_REPLY(kvsd_reply_expiretime);
KVSD_REPLY(kvsd_reply_pexpiretime);

/* kvsd_change.c: commands that change a value */
KVSD_RUN(kvsd_set);
KVSD_RUN(kvsd_getset);
KVSD_RUN(kvsd_getdel);
KVSD_RUN(kvsd_getex);
KVSD_RUN(kvsd_incr);
KVSD_RUN(kvsd_decr);
KVSD_RUN(kvsd_incrby);
KVSD_RUN(kvsd_decrby);
KVSD_RUN(kvsd_append);
KVSD_RUN(kvsd_setrange);
KVSD_RUN(kvsd_expire);
KVSD_RUN(kvsd_pexpire);
KVSD_RUN(kvsd_expireat);
KVSD_RUN(kvsd_pexpireat);
KVSD_RUN(kvsd_persist);

/* kvsd_keys.c: commands on all keys */
KVSD_RUN(kvsd_scan);
KVSD_RUN(kvsd_keys);
KVSD_RUN(kvsd_dbsize);
KVSD_RUN(kvsd_flushall);

/* kvsd_connection.c */
KVSD_RUN(kvsd_ping);
KVSD_RUN(kvsd_echo);
KVSD_RUN(kvsd_hello);
KVSD_RUN(kvsd_auth);
KVSD_RUN(kvsd_select);
KVSD_RUN(kvsd_quit);
KVSD_RUN(kvsd_reset);
KVSD_RUN(kvsd_client);

/* kvsd_admin.c */
KVSD_RUN(kvsd_info);
KVSD_RUN(kvsd_config);
KVSD_RUN(kvsd_save);
KVSD_RUN(kvsd_bgsave);
KVSD_RUN(kvsd_lastsave);
KVSD_RUN(kvsd_time);
KVSD_RUN(kvsd_shutdown);
KVSD_RUN(kvsd_stranger);

/* ---- options of SET and GETEX ---- */

typedef struct {
    bool nx, xx, get, keep, persist, has_time;
    int64_t expires_ms; /* since 1970 */
} kvsd_set_opts_t;

/* Reads the options of SET. @return false: one is wrong */
bool kvsd_set_opts(kvsd_client_t *client, const resp_arg_t *args, size_t n, kvsd_set_opts_t *opts);

/* Converts a time to milliseconds since 1970. base_ms 0: the time is absolute.
 * @return false if it is not possible */
bool kvsd_expiry(int64_t value, bool seconds, int64_t base_ms, int64_t *expires_ms_p);

/* ---- helpers ---- */

bool kvsd_word(const resp_arg_t *arg, const char *word); /* compares without case */
bool kvsd_number(kvsd_client_t *client, const resp_arg_t *arg, int64_t *value_p); /* or an error */
void kvsd_syntax_error(kvsd_client_t *client);
void kvsd_status_error(kvsd_client_t *client, pgas_status_t status);
void kvsd_unknown_subcommand(kvsd_client_t *client, const char *command, const resp_arg_t *word);
bool kvsd_subcommand_arity(kvsd_client_t *client, const char *name, bool good);

/* Milliseconds since 1970. */
static inline int64_t kvsd_clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* kvsd_glob.c */
bool kvsd_match(const char *pattern, size_t pattern_bytes, const char *text, size_t bytes);

/* ---- batches (kvsd_batch.c) ---- */

bool kvsd_batch_init(kvsd_batch_t *batch);
void kvsd_batch_fini(kvsd_batch_t *batch);
bool kvsd_batch_has_room(const kvsd_batch_t *batch);

/* Append an item and return it. read stores the value; look reads size, version and time. */
pgas_kvs_item_t *kvsd_item_read(kvsd_batch_t *batch, const resp_arg_t *key);
pgas_kvs_item_t *kvsd_item_look(kvsd_batch_t *batch, const resp_arg_t *key);
pgas_kvs_item_t *kvsd_item_put(kvsd_batch_t *batch, const resp_arg_t *key, const resp_arg_t *value);
pgas_kvs_item_t *kvsd_item_delete(kvsd_batch_t *batch, const resp_arg_t *key);

void kvsd_batch_clear(kvsd_batch_t *batch);

/* Runs the items. */
void kvsd_batch_run(kvsd_server_t *server, kvsd_batch_t *batch);

/* Writes the replies of server->batch, and empties it. */
void kvsd_batch_reply(kvsd_server_t *server);

/* Notes that the batch reads the key for the client; and whether it may read it. */
void kvsd_mark_read(kvsd_client_t *client, const resp_arg_t *key);
bool kvsd_is_read(const kvsd_client_t *client, const resp_arg_t *key);

/* Whether the item found a key. It reads the item again if the client's order needs it; then only
 * size, version and time are right. KVSD_FAILED: the client has got an error as its reply. */
typedef enum { KVSD_ABSENT, KVSD_FOUND, KVSD_FAILED } kvsd_found_t;
kvsd_found_t kvsd_found(kvsd_client_t *client, pgas_kvs_item_t *item);

/* Reads a value into memory that the caller frees; NULL if there is no such key.
 * @param bytes_p  in: the size that is expected
 * @return false: the client has got an error as its reply */
bool kvsd_take_value(kvsd_client_t *client, const void *key, size_t key_bytes, char **value_p,
                     size_t *bytes_p);

/* Replies with the item's value, or null. */
void kvsd_reply_value(kvsd_client_t *client, pgas_kvs_item_t *item);

/* ---- clients (kvsd_clients.c) ---- */

void kvsd_accept(kvsd_server_t *server);
void kvsd_read(kvsd_client_t *client);
void kvsd_send(kvsd_client_t *client);
void kvsd_make_ready(kvsd_client_t *client);
void kvsd_watch(kvsd_client_t *client); /* tells epoll which events it needs */
void kvsd_mark_dead(kvsd_client_t *client);
void kvsd_close(kvsd_client_t *client);
void kvsd_close_dead(kvsd_server_t *server);
void kvsd_check_clients(kvsd_server_t *server); /* once a second: slow and idle ones */
void kvsd_close_all(kvsd_server_t *server);
bool kvsd_serves(const kvsd_client_t *client); /* its requests may run now */

/* ---- the job (kvsd_job.c): what all ranks do together ---- */

/* Catches signals. @return false without a wakeup descriptor */
bool kvsd_job_init(kvsd_server_t *server);
void kvsd_job_fini(kvsd_server_t *server);

/* Asks for a snapshot. @return its number, or 0 */
uint64_t kvsd_job_ask_save(void);
void kvsd_job_ask_stop(bool with_snapshot);

/* Starts snapshots that rank 0 has numbered, and wakes clients that wait for one.
 * @return false when all ranks end */
bool kvsd_job_step(kvsd_server_t *server);

/* After the last step: makes the snapshots that are missing.
 * @return whether a last one is wanted */
bool kvsd_job_end(kvsd_server_t *server);

typedef struct {
    uint64_t n_asked, n_done; /* snapshots */
    bool running;
    pgas_status_t last_status;
    int64_t last_s; /* seconds since 1970 of the last good one */
} kvsd_save_info_t;
kvsd_save_info_t kvsd_job_saves(void);

/* ---- the loop (kvsd_loop.c) ---- */

pgas_status_t kvsd_serve(kvsd_server_t *server);

#endif
