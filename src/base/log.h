/** The log: one line on stderr for each thing that a user or an engineer must know, and the end of
 *  the process after a fatal error.
 *
 *  A line is `rank/size host module: level: text`; before ranks are known it begins with `-/-
 *  host`. Each line is one write(2), so lines of several ranks do not mix. The first detector of an
 *  error logs it, once. PGAS_LOG=level[,module=level]* selects lines; levels are error, warn, info,
 *  debug, trace; the default is warn. A disabled line costs one load and one branch, and its
 *  arguments are not evaluated. */
#ifndef PGASI_LOG_H
#define PGASI_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "pgas/status.h"

typedef enum {
    PGASI_LOG_ERROR,
    PGASI_LOG_WARN,
    PGASI_LOG_INFO,
    PGASI_LOG_DEBUG,
    PGASI_LOG_TRACE,
    PGASI_LOG_N_LEVELS
} pgasi_log_level_t;

#define PGASI_LOG_DEFAULT     "warn"
#define PGASI_LOG_MODULES_MAX 16 /* module=level items in one PGAS_LOG */

/* The most detailed level of any module, for the inline test. Only log.c writes it. */
extern int pgasi_log_max_level;

/** Checks a PGAS_LOG text without using it.
 *  @return PGAS_OK
 *          PGAS_ERR_INVALID  why holds the reason and the allowed values */
pgas_status_t pgasi_log_check(const char *spec, char *why, size_t why_bytes);

/** Uses a PGAS_LOG text, and stores the rank and the number of ranks. Call it again when ranks
 *  become known (rank -1: not yet).
 *  Shape:  one thread, while no other thread logs.
 *  @return as pgasi_log_check; on refusal the levels are unchanged, but rank and size are stored */
pgas_status_t pgasi_log_setup(const char *spec, int rank, int n_ranks, char *why, size_t why_bytes);

/** The rank of the last pgasi_log_setup; -1: not known yet. */
int pgasi_log_rank(void);

/** Whether a module logs at a level: the exact test, after the inline one. */
bool pgasi_log_enabled(pgasi_log_level_t level, const char *module);

/** Formats and writes one line at any level. It keeps errno. Text beyond 4 KiB is cut and ends in
 *  "...". */
void pgasi_log_line(pgasi_log_level_t level, const char *module, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The number of lines written so far at a level (tests fail on unexpected warnings). */
uint64_t pgasi_log_count(pgasi_log_level_t level);

/** Sends lines to another descriptor (tests). @return the former one */
int pgasi_log_set_fd(int fd);
/** Writes a whole text; if a write fails, it drops the rest. A closed pipe raises no SIGPIPE. */
void pgasi_log_write(int fd, const char *text, size_t length);

#define PGASI_LOG_AT(level, module, ...)                          \
    do {                                                          \
        if (PGAS_UNLIKELY((int)(level) <= pgasi_log_max_level) && \
            pgasi_log_enabled((level), (module)))                 \
            pgasi_log_line((level), (module), __VA_ARGS__);       \
    } while (0)

#define PGASI_ERROR(module, ...) PGASI_LOG_AT(PGASI_LOG_ERROR, module, __VA_ARGS__)
#define PGASI_WARN(module, ...)  PGASI_LOG_AT(PGASI_LOG_WARN, module, __VA_ARGS__)
#define PGASI_INFO(module, ...)  PGASI_LOG_AT(PGASI_LOG_INFO, module, __VA_ARGS__)
#define PGASI_DEBUG(module, ...) PGASI_LOG_AT(PGASI_LOG_DEBUG, module, __VA_ARGS__)
#define PGASI_TRACE(module, ...) PGASI_LOG_AT(PGASI_LOG_TRACE, module, __VA_ARGS__)

/** Warns the first time only: `static int warned; pgasi_warn_once(&warned, "mem", "no huge pages
 *  ...");` Any thread may call it. */
#define pgasi_warn_once(flag, module, ...)                         \
    do {                                                           \
        if (__atomic_load_n((flag), __ATOMIC_RELAXED) == 0 &&      \
            __atomic_exchange_n((flag), 1, __ATOMIC_RELAXED) == 0) \
            PGASI_WARN(module, __VA_ARGS__);                       \
    } while (0)

/** Prints an error line and a backtrace, calls the hook, and aborts. It is for errors that no
 *  caller can handle. */
void pgasi_fatal(const char *module, const char *format, ...)
    __attribute__((noreturn, cold, format(printf, 2, 3)));

/** Sets the function that pgasi_fatal calls before abort() (boot: MPI_Abort). NULL: none. */
void pgasi_log_set_fatal_hook(void (*hook)(void));

/** Stores the return addresses of the calling thread's frames, from the caller on. Signal handlers
 *  may call it: unlike backtrace(3) it loads no library, and libgcc's unwinder is linked in.
 *  @return the number of frames, at most n_max */
int pgasi_backtrace(void **frames, int n_max);

/** From now on SIGSEGV, SIGBUS and SIGABRT print one line and a backtrace before their former
 *  effect. The former handler is called, or the default action happens: no signal is hidden, and
 *  the core dump shows the place of the fault. Only the first signal prints. A second call has no
 *  effect. */
void pgasi_log_install_backtrace(void);

/** Restores the former handlers where those of the log are still installed. */
void pgasi_log_remove_backtrace(void);

#endif
