/** What the library is, how it is set up and what it has done, as text for people. */
#ifndef PGAS_INFO_H
#define PGAS_INFO_H

#include <stdint.h>
#include <stdio.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Prints version, build, transports, parameters (value, default, origin, unit, doc), the progress rule per class of
 *  operation and the bytes per rank, in 80 columns. Any rank; PGAS_INFO=1 makes pgas_init call it on rank 0. Before pgas_init: what
 *  can be said without a job, and of the processes that a launcher started only the first prints. The log warns about PGAS_
 *  variables that the library does not know.
 *  @return PGAS_OK, PGAS_ERR_INVALID (null, or a variable of the environment is wrong), PGAS_ERR_IO, PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_info_print(FILE *out);

/** Prints value, default, origin, unit and doc of one parameter, like pgas_info_print.
 *  @param name with or without PGAS_
 *  @return PGAS_OK, PGAS_ERR_INVALID (null, or a variable of the environment is wrong), PGAS_ERR_NOT_FOUND (no such parameter;
 *          the log names the nearest), PGAS_ERR_IO, PGAS_ERR_NO_MEMORY. */
PGAS_API pgas_status_t pgas_info_print_var(FILE *out, const char *name);

/** Tells which of its processes a launcher made this one. It works before pgas_init, so that a program can answer --help
 *  once without starting MPI.
 *  @return the rank that the launcher set; 0 without a launcher, or with one that the library does not know. */
PGAS_API int pgas_launcher_rank(void);

/** Prints this rank's counters: calls, bytes, publishes by reason, waits. PGAS_STATS=1 does so at pgas_finalize. */
PGAS_API pgas_status_t pgas_stats_print(FILE *out);

/** Shows on standard error how far a long phase is, for people, as PGAS_PROGRESS says: a bar on a terminal, elsewhere (and so
 *  under most launchers) a line every PGAS_PROGRESS_MS with percent, rate and remaining time. The names of phases and the
 *  form of lines may change. Not to be confused with pgas_progress, which serves peers.
 *  Shape:  any rank, one thread at a time; rank 0 shows. Also before pgas_init.
 *  Units:  done of total steps, bytes or whatever is counted; total 0: unknown.
 *  Done:   a phase begins with a name that differs from the last call's, or when done decreases. It ends when done reaches
 *          total, or with phase NULL.
 *  Cost:   two microseconds a call. While a phase lasts, SIGINT and SIGTERM have a handler: it prints one line that says how
 *          far the phase was, and then has the signal do what it would have done (where it is not ignored).
 *  @param note  a few words behind the numbers, or NULL. */
PGAS_API void pgas_progress_show(const char *phase, uint64_t done, uint64_t total, const char *note);

PGAS_END_DECLS
#endif
