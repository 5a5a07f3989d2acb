/** Deaths of ranks, for all folders that wait for other ranks.
 *
 *  A folder adds a function. call/progress.c calls all of them, in no certain order, when a rank
 *  died and the job goes on (PGAS_ON_PEER_DEATH=continue). They end all waits for the rank. Any
 *  thread calls them. It serves (msg/serve.h), so no plain handler runs meanwhile. The list is here
 *  and not among the hooks of boot, because engines use only base and public headers. */
#ifndef PGASI_DEATHS_H
#define PGASI_DEATHS_H

typedef void (*pgasi_death_fn_t)(int rank);

/** Adds a function. One that was added before is not added again. */
void pgasi_deaths_add(pgasi_death_fn_t fn);
/** Calls the functions. */
void pgasi_deaths_report(int rank);

#endif
