/* Captures the library's log, so that a test itself checks expected lines.
 *
 *   said_begin(); ... something that is refused ... spmd_ok(said("PGAS_HEAP_SIZE"), "the refusal
 *   names the variable");      on any rank
 *
 * Between said_begin and said (or said_nothing) no line reaches stderr. Collective, and MPI must be
 * up. */
#ifndef T_SPMD_SAID_H
#define T_SPMD_SAID_H

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/log.h"
#include "t/spmd.h"

static int said_file = -1, said_former;
static char said_text[16384];

static inline void said_begin(void)
{
    said_file = memfd_create("log", MFD_CLOEXEC);
    said_former = pgasi_log_set_fd(said_file);
}

/* Ends the capture; the lines of this rank are in said_text. */
static inline void said_end(void)
{
    pgasi_log_set_fd(said_former);
    ssize_t n = pread(said_file, said_text, sizeof said_text - 1, 0);
    said_text[n > 0 ? n : 0] = '\0';
    close(said_file);
}

/* Ends the capture. @return the number of ranks whose log has the words in one line. Logs without
 * them go to stderr. */
static inline int said_by(const char *words)
{
    said_end();
    int here = strstr(said_text, words) != NULL, all = 0;
    if (!here && *said_text)
        fputs(said_text, stderr);
    MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

static inline bool said(const char *words)
{
    return said_by(words) > 0;
}

#endif
