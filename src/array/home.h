/** The home's side of the protocol. The callers of all functions are serving (msg/serve.h). */
#ifndef PGASI_ARRAY_HOME_H
#define PGASI_ARRAY_HOME_H

#include <stdbool.h>
#include <stdint.h>
#include "array/descriptor.h"

typedef struct pgasi_array pgasi_array_t;
struct pgasi_array_batches;

#define PGASI_ARRAY_CONTRIBUTION_ALIGN 16 /* as malloc gives */

/** Applies of one message that wait. The reply is sent when all are done. */
typedef struct {
    int source; /* team rank */
    uint32_t token, n_pending;
    uint64_t chunk; /* of the message */
    pgas_status_t status;
} pgasi_array_group_t;

/** A request for a chunk, in the order of arrival. */
typedef struct pgasi_array_request {
    _Alignas(PGASI_ARRAY_CONTRIBUTION_ALIGN) struct pgasi_array_request *next;
    uint8_t event;
    int source; /* team rank */
    uint32_t line, op;
    bool large;                 /* more values follow it than all requests have room for */
    bool pull;                  /* the source uses the elements where they are */
    pgasi_array_access_t *own;  /* of a thread of this rank; NULL with FETCH_* and UPGRADE */
    pgasi_array_access_t x;     /* of another rank, its values follow */
    pgasi_array_group_t *group; /* NULL: its reply is its own */
} pgasi_array_request_t;

/** The values that one cache has combined for a chunk, until they are merged into the elements. */
typedef struct pgasi_array_contribution {
    struct pgasi_array_contribution *next;
    uint32_t op;
    int source;
    bool whole;         /* its answer has arrived; before that, pieces may be missing */
    const char *values; /* room, or the message that is being handled */
    _Alignas(PGASI_ARRAY_CONTRIBUTION_ALIGN) char room[];
} pgasi_array_contribution_t;

/** A directory entry: the home's state of a chunk. */
typedef struct {
    uint64_t members; /* sharers or operators: a bit each (coarse from 65 ranks on) */
    pgasi_array_request_t *first, *last;
    pgasi_array_contribution_t *contributions;
    uint32_t pending, next_closing;
    uint32_t op;
    int32_t owner; /* in state D */
    uint8_t state;
    /* the level that is requested of threads here, and pgasi_array_closed_t */
    uint8_t level, closed;
    bool dispatching;
} pgasi_array_dir_t;

void pgasi_array_home_start(pgasi_array_t *a);
void pgasi_array_home_stop(pgasi_array_t *a);

/** A zeroed request with room for bytes after it; NULL: no memory. */
pgasi_array_request_t *pgasi_array_home_new_request(pgasi_array_t *a, size_t bytes);
/** A request arrives; the home owns it from now on. */
void pgasi_array_home_request(pgasi_array_t *a, uint64_t index, pgasi_array_request_t *request);
/** The same for an access of a thread of this rank. */
pgas_status_t pgasi_array_home_access(pgasi_array_t *a, uint64_t index, pgasi_array_access_t *x);
/** Carries an apply of another rank out at once. @return PGAS_INPROGRESS: it has to be a request */
pgas_status_t pgasi_array_home_try_apply(pgasi_array_t *a, uint64_t index, pgasi_array_access_t *x);
/** One of the applies of a message is done. */
void pgasi_array_home_group_done(pgasi_array_t *a, pgasi_array_group_t *group,
                                 pgas_status_t status);
/** An answer arrives: ACK, WB, WB_KEEP, WB_O. */
void pgasi_array_home_answer(pgasi_array_t *a, uint64_t index, pgasi_array_event_t event,
                             int source);
/** Elements that a cache writes back arrive, a piece of them or all. */
void pgasi_array_home_elements(pgasi_array_t *a, uint64_t index, uint64_t offset, const void *data,
                               size_t bytes);
/** A contribution arrives in one piece, with the answer WB_O in the same message. */
void pgasi_array_home_contribution(pgasi_array_t *a, uint64_t index, int source, uint32_t op,
                                   const void *data, size_t bytes);
/** The same for a contribution in the source's line, which the home maps. WB_ACK is sent when the
 *  home has read it. */
void pgasi_array_home_contribution_in_line(pgasi_array_t *a, uint64_t index, int source,
                                           uint32_t op, const void *data, size_t bytes);
/** Combines n sparse contributions into elements of this rank. They need no alignment.
 *  @return false: an element does not exist, or its chunk is not Operated by the operator. */
bool pgasi_array_home_batch(pgasi_array_t *a, const void *entries, size_t n);
/** The same for those that a thread of this rank has recorded for it. */
void pgasi_array_home_combine_own(pgasi_array_t *a, struct pgasi_array_batches *batches);
/** A pin ended that a request may wait for. */
void pgasi_array_home_unpinned(pgasi_array_t *a, uint64_t index);
/** After a barrier: continues with the chunks that all threads have left. */
void pgasi_array_home_poll(pgasi_array_t *a);
/** No thread waits for the access any more. */
void pgasi_array_home_forget(pgasi_array_t *a, const pgasi_array_access_t *x);
/** Whether no request waits, and no chunk is in transition. */
bool pgasi_array_home_is_quiet(const pgasi_array_t *a);

#endif
