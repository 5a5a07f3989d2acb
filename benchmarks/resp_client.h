/** A client that loads servers of Redis' protocol (RESP2): one thread, many connections, pipelines.
 *
 *  Keys are "key:" and twelve digits, as redis-benchmark's. A value begins with the digits of its
 *  key, and every value that is read is compared with them. Each connection sends a batch of
 *  commands and waits for all replies, then it sends the next batch. */
#ifndef RESP_CLIENT_H
#define RESP_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include "benchmarks/ycsb.h"

#define RESP_PIPELINE_MAX 1024
#define RESP_CONNS_MAX    10000
#define RESP_VALUE_MAX    (1u << 20)

typedef struct {
    int port, n_servers; /* connection i is to port + i % n_servers of this host */
    int n_conns, pipeline;
    size_t value_bytes;
} resp_opts_t;

typedef struct {
    double seconds;
    uint64_t n_ops;     /* a modification counts once, though it is two commands */
    uint64_t n_missing; /* reads of keys that the server does not have */
    /* percentiles of the time from a batch until its last reply, in microseconds; each command
     * counts */
    double p50, p99, p999;
} resp_result_t;

typedef struct resp_client resp_client_t;

/** Connects. @return NULL, or what is wrong; the text is valid until the next call */
const char *resp_open(const resp_opts_t *opts, resp_client_t **client_p);
void resp_close(resp_client_t *client);

/** Sets the keys 0 .. n_keys - 1. @return as resp_open */
const char *resp_fill(resp_client_t *client, uint64_t n_keys);

/** Carries out the list again and again, until there were n_ops operations or the time is over.
 *  The list has no scans. @return as resp_open */
const char *resp_run(resp_client_t *client, const ycsb_entry_t *list, uint64_t n_list,
                     uint64_t n_ops, double seconds, resp_result_t *result_p);

#endif
