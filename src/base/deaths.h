/** Deaths of ranks, for all folders that wait for other ranks.
 *
 *  A folder adds a function when it starts. call/progress.c calls all of them, in the order in
 *  which they were added, when a rank died and the job goes on (PGAS_ON_PEER_DEATH=continue). They
 *  end what waits for the rank. Any thread, without locks. */
#ifndef PGASI_DEATHS_H
#define PGASI_DEATHS_H

typedef void (*pgasi_death_fn_t)(int rank);

/** Adds a function. One that was added before is not added again. */
void pgasi_deaths_add(pgasi_death_fn_t fn);
/** Calls the functions. */
void pgasi_deaths_tell(int rank);

#endif
