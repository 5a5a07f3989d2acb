/* Checks whether the recorded operations on one key are linearizable: is there an order of all of
 * them in which each operation comes between its begin and its end, and each result is that of a
 * plain table? Histories of several keys are checked one by one, because a store is linearizable if
 * each key is.
 *
 *   history_op_t op = { .kind = HISTORY_PUT, .value = 7, .begin = clock() };
 *   ... the operation ...
 *   op.end = clock(); op.outcome = HISTORY_DONE; op.version = item.version;
 *   ... of all threads, in any order ...
 *   history_report_t report;
 *   if (history_check(ops, n, NULL, &report) != HISTORY_GOOD) ...
 *
 * Times are any numbers that the clock of all threads gives. If one operation ends at the time at
 * which another one begins, both orders are allowed.
 *
 * Versions. A write gives the key a new version. An operation that reports a version saw the key
 * with this version, or made it. 0 stands for a version that was not reported.
 *
 * Source: Wing and Gong (1993), Testing and Verifying Concurrent Objects; Lowe (2017), Testing for
 * Linearizability, for the memory of configurations; Horn and Kroening (2015), Faster
 * Linearizability Checking via P-Compositionality, for histories of single keys. */
#ifndef T_HISTORY_H
#define T_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { HISTORY_GET, HISTORY_PUT, HISTORY_DELETE, HISTORY_ADD } history_kind_t;

/* The condition of a PUT or DELETE. */
typedef enum {
    HISTORY_ALWAYS,
    HISTORY_IF_ABSENT,
    HISTORY_IF_PRESENT,
    HISTORY_IF_VERSION
} history_condition_t;

typedef enum {
    HISTORY_DONE,
    HISTORY_NOT_FOUND,
    HISTORY_EXISTS,
    HISTORY_MISMATCH
} history_outcome_t;

typedef struct {
    uint64_t begin, end;
    int64_t value;     /* PUT: written; GET: read; ADD: the summand */
    int64_t before;    /* ADD: the sum before; an absent key counts as 0 */
    uint64_t expected; /* IF_VERSION: the version that the key must have */
    uint64_t version;  /* of the key after the operation; 0: not reported */
    int thread;        /* for reports only */
    history_kind_t kind;
    history_condition_t condition;
    history_outcome_t outcome;
} history_op_t;

/* A key: absent with version 0, or present. A present key with version 0 has a version that no
 * operation has reported yet. */
typedef struct {
    int64_t value;
    uint64_t version;
    bool present;
} history_state_t;

typedef enum {
    HISTORY_GOOD,
    HISTORY_BAD,    /* there is no such order, or two writes gave the same version */
    HISTORY_TOO_BIG /* HISTORY_CONFIGURATIONS_MAX did not suffice */
} history_verdict_t;

#define HISTORY_CONFIGURATIONS_MAX 8000000

typedef struct {
    size_t n_configurations; /* different ones that the search has seen */
    size_t n_ordered;        /* the most operations that it could put in an order */
    size_t stuck[2];         /* BAD: operations that did not fit then, or that share a version */
} history_report_t;

/* Searches for an order. The key is in the state *first before it (NULL: absent). report_p may be
 * NULL. */
history_verdict_t history_check(const history_op_t *ops, size_t n, const history_state_t *first,
                                history_report_t *report_p);

/* Carries out one operation on a plain key. @return false if the operation cannot have this result
 * there; then *state is unchanged. */
bool history_step(history_state_t *state, const history_op_t *op);

/* Writes one operation as text, such as "thread 3: put 17 if-version 4 -> done, version 9". */
void history_print(const history_op_t *op, char *text, size_t bytes);

#endif
