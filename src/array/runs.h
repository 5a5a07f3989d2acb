/** Runs: chunks in order that a walk for reading has requested together. A run is one unit. Its
 *  lines become usable together, and are evicted together. Walks pin them by counters of the run.
 *  There is no step of the table and no grant for a single chunk. As soon as anything else happens
 *  to a chunk of a run, the run is split: from then on each chunk has a line of its own, in the
 *  same state and with the same pins. */
#ifndef PGASI_ARRAY_RUNS_H
#define PGASI_ARRAY_RUNS_H

#include <stdbool.h>
#include <stdint.h>
#include "pgas/array.h"
#include "pgas/status.h"

typedef struct pgasi_array pgasi_array_t;

#define PGASI_ARRAY_RUN_MAX 16 /* chunks of a run */

typedef enum {
    PGASI_ARRAY_RUN_NONE,
    PGASI_ARRAY_RUN_COMING,
    PGASI_ARRAY_RUN_HERE
} pgasi_array_run_state_t;

/** A run. Its lock guards it, and the field `run` of its lines. */
typedef struct {
    int lock;
    uint32_t state; /* pgasi_array_run_state_t */
    uint64_t first; /* chunk */
    uint32_t n, n_here;
    bool fresh; /* since it is here no walk has left its end, and no eviction has looked at it */
    uint32_t line[PGASI_ARRAY_RUN_MAX];
    uint32_t pins[PGASI_ARRAY_RUN_MAX]; /* of walks */
    uint32_t next_free;
} pgasi_array_run_t;

/** @return PGAS_ERR_NO_MEMORY */
pgas_status_t pgasi_array_runs_start(pgasi_array_t *a);
void pgasi_array_runs_stop(pgasi_array_t *a);

/* ---- walks; any thread ---- */

/** Where a walk is in a run. */
typedef struct {
    struct pgasi_array_grant *grant; /* names the pin among those of the thread */
    char *data;
} pgasi_array_run_place_t;

/** Pins a chunk of a run that is here. *run_p is the run's number + 1, also if it has not arrived;
 *  0: the chunk is in no run. */
bool pgasi_array_run_pin(pgasi_array_t *a, uint64_t chunk, uint32_t *run_p,
                         pgasi_array_run_place_t *place_p);
/** Ends the pin of a chunk, and pins the next one if it is in the run, too.
 *  @return false: the run was split, and the chunk's grant has the pin. */
bool pgasi_array_run_move(pgasi_array_t *a, uint32_t run, uint64_t chunk, bool more,
                          pgasi_array_run_place_t *place_p);
/** Whether the chunk is in that run, and the run has not arrived. */
bool pgasi_array_run_is_coming(pgasi_array_t *a, uint32_t run, uint64_t chunk);
/** Whether the chunk is in a run, as far as a thread can know that is not serving. */
bool pgasi_array_is_in_run(const pgasi_array_t *a, uint64_t chunk);

/* ---- the protocol; serving ---- */

/** Requests chunks first .. end - 1 that are in no line, in runs, as far as lines are free. */
void pgasi_array_runs_request(pgasi_array_t *a, uint64_t first, uint64_t end);
/** A chunk of the run has arrived. there: as in pgasi_array_cache_event. */
void pgasi_array_run_arrived(pgasi_array_t *a, uint32_t li, char *there);
/** If the chunk is in a run, each chunk of it has a line of its own from here on. */
void pgasi_array_run_split(pgasi_array_t *a, uint64_t chunk);
void pgasi_array_runs_split_all(pgasi_array_t *a);
/** Frees the lines of a run. @return how many; 0: it has not arrived, it gets a second chance, or a
 *  walk is there. In the last case, and if it is urgent, the run is split. */
uint32_t pgasi_array_run_free(pgasi_array_t *a, uint32_t run, bool urgent);

#endif
