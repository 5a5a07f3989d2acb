/** Records of archives that have been sent and that other ranks may still read. */
#ifndef PGASI_IN_FLIGHT_H
#define PGASI_IN_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include "bulk/bulk.h"
#include "pgas/archive.h"

typedef struct pgasi_in_flight {
    struct pgasi_in_flight *next;
    int home;               /* where it is kept for reuse; negative: malloc allocated it for once */
    pgas_archive_t archive; /* with what was written */
    pgas_buffer_t *buffers; /* [room]: what the target reads: chunks, and perhaps the stream */
    size_t room, n;
    bool pulls_stream;         /* the last buffer is the stream ... */
    pgas_rma_object_t *stream; /* ... or this copy of it; otherwise NULL */
    void (*done)(void *arg);
    void *arg;
} pgasi_in_flight_t;

/** Takes the contents of an archive, and describes them for a target of this rank.
 *  keep: memory of the program may be read in place. Otherwise it is copied now.
 *  @return PGAS_OK, PGAS_ERR_NO_MEMORY, PGAS_ERR_LIMIT; after an error the archive is as before */
pgas_status_t pgasi_in_flight_begin(pgas_archive_t *archive, int rank, bool keep,
                                    pgasi_in_flight_t **flight_p);
/** Moves the contents back to the archive, because the call was not sent. */
void pgasi_in_flight_undo(pgasi_in_flight_t *flight, pgas_archive_t *archive);
/** The number of archives of this rank that other ranks may still read; atomic. */
extern uint64_t pgasi_n_in_flight;
/** Destroys the shares of objects, and calls done. Any thread calls it when no rank reads the
 *  archive any more. */
void pgasi_in_flight_end(void *flight);

#endif
