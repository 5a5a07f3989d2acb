/** All arrays of this process, by number. */
#ifndef PGASI_ARRAY_REGISTRY_H
#define PGASI_ARRAY_REGISTRY_H

#include "array/array.h"

/** The live array with that number, or NULL. */
pgasi_array_t *pgasi_array_find(uint32_t id);
/** Numbers in use are below this. */
uint32_t pgasi_array_ids_end(void);
/** Forgets all numbers: at the start of a job. */
void pgasi_array_ids_reset(void);
/** Agrees with the team on a number that is free on all its ranks. Collective.
 *  @return PGAS_ERR_LIMIT: there is none. */
pgas_status_t pgasi_array_agree_on_id(pgas_team_t *team, uint32_t *id_p);
void pgasi_array_add(pgasi_array_t *a);
void pgasi_array_remove(const pgasi_array_t *a);

/** Whether a rank of the array's team has died. */
bool pgasi_array_is_broken(const pgasi_array_t *a);
/** Logs an event that cannot happen, with the chunk's state, and ends the job. */
_Noreturn void pgasi_array_broken(const pgasi_array_t *a, const char *where, uint64_t chunk,
                                  int state, int event);

/** A second thread of this rank begins to use arrays. Clears the summaries of all mapping tables,
 *  because they let threads read the chunks that the first thread owns. */
void pgasi_array_second_thread(void);

/** A chunk began to close: every round of progress calls pgasi_array_poll until none is closing. */
void pgasi_array_poll_soon(void);
/** Whether one began since the last call. */
bool pgasi_array_poll_is_due(void);
/** No chunk is closing any more. */
void pgasi_array_poll_stop(void);

#endif
