/** The library's configuration and statistics as text for people.
 *
 *      pgas_info_print(stdout, NULL);                      parameters, transports, memory, rules
 *      for (i = 0; i < n; i++, work(i))
 *          pgas_progress_show("read", i, n, NULL);         a progress bar on standard error */
#ifndef PGAS_INFO_H
#define PGAS_INFO_H

#include <stdint.h>
#include <stdio.h>
#include "pgas/status.h"

PGAS_BEGIN_DECLS

/** Prints the running library in 80 columns: version, build, transports, parameters (value,
 *  default, origin, unit, doc), progress rules, and the bytes per rank. With a name, with or
 *  without PGAS_, it prints that parameter alone.
 *  Shape:  any rank. With PGAS_INFO=1 pgas_init calls it on rank 0. Before pgas_init it omits
 *          everything that depends on the job; then it prints all on the launcher's rank 0 alone,
 *          and the log warns about PGAS_ variables that the library does not know.
 *  @return PGAS_ERR_INVALID    out is NULL, or a variable of the environment is wrong
 *          PGAS_ERR_NOT_FOUND  no such parameter; the log names the nearest one
 *          PGAS_ERR_IO         writing failed
 *          PGAS_ERR_NO_MEMORY */
PGAS_API pgas_status_t pgas_info_print(FILE *out, const char *name);

/** Returns the rank that the launcher gave this process, or 0 if there is no known launcher. It
 *  works before pgas_init, so that only one process of a job answers --help. */
PGAS_API int pgas_launcher_rank(void);

/** Prints this rank's counters: calls, bytes, sent batches by reason, waits. With PGAS_STATS=1
 *  pgas_finalize calls it.
 *  @return PGAS_ERR_INVALID  out is NULL */
PGAS_API pgas_status_t pgas_stats_print(FILE *out);

/** Shows the progress of a long phase on standard error. PGAS_PROGRESS selects the form: a bar, or
 *  a line every PGAS_PROGRESS_MS. It does not serve peers; pgas_progress does.
 *  Shape:  any rank, one thread at a time; only rank 0 prints. It works before pgas_init, too.
 *  Units:  done and total count steps, bytes or anything else; total 0 means unknown.
 *  Done:   a phase begins when the name differs from the last call's, or when done decreases. It
 *          ends when done reaches total, or with phase NULL.
 *  Cost:   two microseconds a call. During a phase the library handles SIGINT and SIGTERM unless
 *          they are ignored: it prints a last line and raises the signal again.
 *  @param note  a few words that follow the numbers, or NULL. */
PGAS_API void pgas_progress_show(const char *phase, uint64_t done, uint64_t total,
                                 const char *note);

PGAS_END_DECLS
#endif
