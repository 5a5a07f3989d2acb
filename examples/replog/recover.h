/* recover.h: finds the log in replicas that differ. No I/O of its own, and nothing is written.
 *
 *  A writer sends a batch of records, then a compare-and-swap that moves the commit word behind
 *  them. Each replica executes both in this order. So on every replica all records below its commit
 *  word are whole, whenever its process was killed. An acknowledged record is below the commit
 *  words of all replicas of the group of that time.
 *
 *  Rules:
 *  1. Writers: the log is the one with the greatest commit word whose last record is whole. Records
 *     below it that other replicas lack, or have otherwise, are sent again to all. Records
 *     behind it on any replica were never acknowledged; the next records overwrite them.
 *  2. Readers: among the replicas that have the term and the mark of that log, the least end.
 *     Everything below it is on all of these. A reader beside a writer therefore shows no record
 *     that may yet be lost.
 *
 *  A replica with a lower term missed the last changes: its process had died, and its file came
 *  back later. It may have records that never became part of the log. The rules find the place
 *  where it begins to differ: the last common record, by term and sequence number. */
#ifndef REPLOG_RECOVER_H
#define REPLOG_RECOVER_H

#include "format.h"

#define REPLOG_REPLICAS_MAX 64

/* Access to the regions of all replicas. */
typedef struct {
    void *arg;
    int n;
    uint64_t region_bytes;
    /* @return whether the bytes could be read */
    bool (*read)(void *arg, int replica, uint64_t offset, void *to, size_t bytes);
} replog_view_t;

typedef struct {
    replog_kind_t kind;
    uint64_t lock;
    uint64_t commit; /* its commit word; 0 if it has no log */
    uint64_t mark;
    uint64_t agreed; /* its bytes below this position are those of the log */
} replog_replica_t;

typedef enum {
    REPLOG_FOUND,
    REPLOG_NONE,    /* no replica has a log: all are blank */
    REPLOG_FOREIGN, /* the region of replica `culprit` has other contents, or another version */
    REPLOG_DAMAGED, /* no replica's last record is whole */
    REPLOG_UNREAD   /* a read of replica `culprit` failed */
} replog_outcome_t;

typedef struct {
    int best;      /* the replica whose log it is */
    uint32_t term; /* its term and end, and the number of its last record, 0: none */
    uint64_t end, last_seq;
    uint32_t greatest_term; /* of all replicas: a writer takes a greater one */
    uint64_t shown;         /* rule 2: the end of the log for readers */
    uint64_t least;         /* the least of all `agreed` */
    int culprit;
    replog_replica_t replicas[REPLOG_REPLICAS_MAX];
} replog_state_t;

replog_outcome_t replog_recover(const replog_view_t *view, replog_state_t *state_p);

/* The words only: heads, locks, commits and rule 2; `agreed` and last_seq stay 0. */
replog_outcome_t replog_look(const replog_view_t *view, replog_state_t *state_p);

/* Whether replica i has the term and the mark of the log. */
bool replog_is_current(const replog_view_t *view, const replog_state_t *state, int i);

/* ---- for recover.c: parts of replog_look ---- */

/* Takes the log of a replica as the log. */
void replog_choose(replog_state_t *state, int best);
/* Applies rule 2. */
void replog_find_shown(const replog_view_t *view, replog_state_t *state);

#endif
