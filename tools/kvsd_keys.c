/* kvsd_keys: commands on all keys of all ranks. A cursor of SCAN is the cursor of pgas_kvs_scan
 * times the number of ranks, plus the rank; 0 begins and ends a scan. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kvsd.h"

typedef struct {
    const resp_arg_t *pattern; /* NULL: all */
    bool strings;              /* the type that the client wants is the only one */
    resp_writer_t found;       /* bulk strings */
    size_t n_found, n_visited;
} search_t;

static bool visit(const pgas_kvs_item_t *item, void *arg)
{
    search_t *search = arg;
    const resp_arg_t *pattern = search->pattern;
    search->n_visited++;
    if (search->strings &&
        (!pattern || kvsd_match(pattern->data, pattern->bytes, item->key, item->key_bytes))) {
        resp_bulk(&search->found, item->key, item->key_bytes);
        search->n_found++;
    }
    return !search->found.failed;
}

static void reply_found(kvsd_client_t *client, search_t *search)
{
    resp_writer_t *found = &search->found;
    client->out.failed = client->out.failed || found->failed;
    resp_array(&client->out, search->n_found);
    if (search->n_found > 0)
        resp_raw(&client->out, found->buffer.data, found->buffer.end);
}

/* ---- SCAN ---- */

/* Redis takes what strtoul takes, also a sign. */
static bool read_cursor(kvsd_client_t *client, const resp_arg_t *arg, uint64_t *cursor_p)
{
    char text[32] = "", *end = text;
    if (arg->bytes < sizeof text)
        memcpy(text, arg->data, arg->bytes);
    errno = arg->bytes < sizeof text ? 0 : ERANGE;
    *cursor_p = strtoull(text, &end, 10);
    bool good = errno == 0 && end == text + arg->bytes && !isspace((unsigned char)*text);
    if (!good)
        resp_error(&client->out, "ERR invalid cursor");
    return good;
}

/* @return false: the client has got an error as its reply */
static bool scan_opts(kvsd_client_t *client, const resp_arg_t *args, size_t n, search_t *search,
                      int64_t *count_p)
{
    for (size_t i = 2; i < n; i += 2) {
        bool has_value = i + 1 < n;
        if (has_value && kvsd_word(&args[i], "count")) {
            if (!kvsd_number(client, &args[i + 1], count_p))
                return false;
            has_value = *count_p >= 1;
        } else if (has_value && kvsd_word(&args[i], "match")) {
            search->pattern = &args[i + 1];
        } else if (has_value && kvsd_word(&args[i], "type")) {
            search->strings = kvsd_word(&args[i + 1], "string");
        } else {
            has_value = false;
        }
        if (!has_value) {
            kvsd_syntax_error(client);
            return false;
        }
    }
    return true;
}

KVSD_RUN(kvsd_scan)
{
    search_t search = { .strings = true, .found = { .version = 2 } };
    uint64_t n_ranks = (uint64_t)pgas_n_ranks(), cursor;
    int64_t count = 10;
    char text[24];
    pgas_status_t status = PGAS_OK;
    if (!read_cursor(client, &args[1], &cursor) || !scan_opts(client, args, n, &search, &count))
        return;
    uint64_t rank = cursor % n_ranks, at = cursor / n_ranks;
    while (rank < n_ranks && status == PGAS_OK && search.n_visited < (uint64_t)count &&
           !search.found.failed) {
        status = pgas_kvs_scan(client->server->kvs, (int)rank, &at,
                               (size_t)count - search.n_visited, visit, &search);
        rank += at == 0;
    }
    if (status == PGAS_ERR_RANGE) { /* the cursor is behind the end */
        rank = n_ranks;
        status = PGAS_OK;
    }
    if (status == PGAS_OK) {
        uint64_t next = rank < n_ranks ? at * n_ranks + rank : 0;
        snprintf(text, sizeof text, "%" PRIu64, next);
        resp_array(&client->out, 2);
        resp_text(&client->out, text);
        reply_found(client, &search);
    } else {
        kvsd_status_error(client, status);
    }
    resp_buffer_fini(&search.found.buffer);
}

/* ---- the others ---- */

KVSD_RUN(kvsd_keys)
{
    search_t search = { .pattern = &args[1], .strings = true, .found = { .version = 2 } };
    pgas_status_t status = PGAS_OK;
    (void)n;
    for (int rank = 0; rank < pgas_n_ranks() && status == PGAS_OK; rank++) {
        uint64_t at = 0;
        do
            status = pgas_kvs_scan(client->server->kvs, rank, &at, SIZE_MAX, visit, &search);
        while (status == PGAS_OK && at != 0 && !search.found.failed);
    }
    if (status == PGAS_OK)
        reply_found(client, &search);
    else
        kvsd_status_error(client, status);
    resp_buffer_fini(&search.found.buffer);
}

KVSD_RUN(kvsd_dbsize)
{
    uint64_t n_keys = 0;
    (void)args;
    (void)n;
    pgas_status_t status = pgas_kvs_count(client->server->kvs, &n_keys);
    if (status == PGAS_OK)
        resp_number(&client->out, (int64_t)n_keys);
    else
        kvsd_status_error(client, status);
}

KVSD_RUN(kvsd_flushall)
{
    bool good = n == 1 || (n == 2 && (kvsd_word(&args[1], "sync") || kvsd_word(&args[1], "async")));
    pgas_status_t status = good ? pgas_kvs_clear(client->server->kvs) : PGAS_OK;
    if (!good)
        kvsd_syntax_error(client);
    else if (status == PGAS_OK)
        resp_ok(&client->out);
    else
        kvsd_status_error(client, status);
}
