/* store.h: access to the regions of a log: a group's replicas, or their files. */
#ifndef REPLOG_STORE_H
#define REPLOG_STORE_H

#include <pgas/group.h>
#include "recover.h"

typedef struct {
    pgas_group_t *group; /* NULL: files */
    replog_view_t view;
    pgas_status_t status;                            /* of the last read that failed */
    const unsigned char *files[REPLOG_REPLICAS_MAX]; /* mapped */
} replog_store_t;

typedef struct {
    const char *group, *key_file, *device; /* address of a replica; NULL: files */
    char *files;                           /* names between commas */
    uint32_t window;                       /* operations under way, 0: as the library does */
    bool polls;                            /* waits do not sleep */
} replog_store_opts_t;

/* Opens it, or ends the program with a message. */
void replog_store_open(const replog_store_opts_t *opts, replog_store_t *store);
void replog_store_close(replog_store_t *store);

/* The `read` of views; arg is a store. */
bool replog_read_file(void *arg, int replica, uint64_t offset, void *to, size_t bytes);
bool replog_read_group(void *arg, int replica, uint64_t offset, void *to, size_t bytes);

/* After PGAS_ERR_PEER: continues with the replicas that are left. Ends the program if none is. */
void replog_store_mend(replog_store_t *store);

/* Reads anew how many replicas there are: other clients may have changed that. */
void replog_store_refresh(replog_store_t *store);

/* Ends the program, with exit status 1. */
__attribute__((format(printf, 1, 2), noreturn)) void replog_fail(const char *format, ...);
/* Ends it if the status is an error. */
void replog_must(pgas_status_t status, const char *what);

/* Recovers, or ends the program with a message.
 * @return REPLOG_FOUND, REPLOG_NONE or REPLOG_DAMAGED */
replog_outcome_t replog_store_recover(replog_store_t *store, replog_state_t *state_p);

/* Reads the words, until they are those of one moment: writers may be at work.
 * @return whether there is a log */
bool replog_store_look(replog_store_t *store, replog_state_t *state_p);

#endif
