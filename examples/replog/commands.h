/* commands.h: the commands of main.c. Each one returns the exit status of the program. */
#ifndef REPLOG_COMMANDS_H
#define REPLOG_COMMANDS_H

#include "writer.h"

/* Appends the lines of a file, and prints the sequence number of each when it is acknowledged. */
int replog_append(replog_store_t *store, const replog_lock_opts_t *lock, const char *file);

/* Prints records from a sequence number on. follow: it waits for further ones. */
int replog_tail(replog_store_t *store, uint64_t from, bool follow);

/* Checks all records of all replicas. */
int replog_verify(replog_store_t *store);

typedef struct {
    uint64_t n_records;
    uint32_t bytes, n_batch; /* of a record; records of a batch */
    uint32_t n_under_way;    /* batches */
} replog_bench_opts_t;
/* Appends records and prints how fast that was. */
int replog_bench(replog_store_t *store, const replog_lock_opts_t *lock,
                 const replog_bench_opts_t *opts);

#endif
