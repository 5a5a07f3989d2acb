/* The log: levels per module, one write(2) per line, fatal errors and backtraces.
 *
 * Shaped for few lines: debug volume is proportional to objects, so formatting may cost
 * microseconds. The test of a disabled level is one load and one branch in the caller
 * (pgasi_log_max_level).
 *
 * Invariants: levels change only in pgasi_log_setup, which runs while no other thread logs. A line
 * is built on the stack of the caller and never takes a lock or allocates. The signal handler uses
 * async-signal-safe calls only. */
#include "base/log.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>
#include "base/checks.h"

#define LINE_BYTES   4096 /* PIPE_BUF: the kernel does not split one write of it */
#define MODULE_BYTES 32
#define FRAMES_MAX   64

typedef struct {
    int default_level;
    int n_modules;
    struct {
        char name[MODULE_BYTES];
        int level;
    } module[PGASI_LOG_MODULES_MAX];
} levels_t;

int pgasi_log_max_level = PGASI_LOG_WARN;

static struct {
    levels_t levels;
    int rank, n_ranks; /* -1: not known yet */
    int fd;
    uint64_t counts[PGASI_LOG_N_LEVELS];
    void (*fatal_hook)(void);
    int backtrace_printed; /* one is enough: abort() after pgasi_fatal would print it again */
} state = {
    .levels.default_level = PGASI_LOG_WARN, .rank = -1, .n_ranks = -1, .fd = STDERR_FILENO
};
static const char *const level_names[PGASI_LOG_N_LEVELS] = { "error", "warn", "info", "debug",
                                                             "trace" };

/* ---- levels ---- */

static int level_by_name(const char *name, size_t length)
{
    for (int i = 0; i < PGASI_LOG_N_LEVELS; i++)
        if (strlen(level_names[i]) == length && strncasecmp(level_names[i], name, length) == 0)
            return i;
    return -1;
}

static pgas_status_t refuse(const char *item, size_t length, const char *reason, char *why,
                            size_t why_bytes)
{
    snprintf(why, why_bytes,
             "`%.*s' %s; allowed: level[,module=level]* with error, warn, info, debug, trace",
             (int)PGASI_MIN(length, 40), item, reason);
    return PGAS_ERR_INVALID;
}

static bool is_module_name(const char *name, size_t length)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return length > 0 && length < MODULE_BYTES && strspn(name, letters) >= length;
}

/* Parses one item: `level' (only the first item), or `module=level'. */
static pgas_status_t parse_item(const char *item, size_t length, bool first, levels_t *out,
                                char *why, size_t why_bytes)
{
    const char *equals = memchr(item, '=', length);
    if (!equals) {
        int level = level_by_name(item, length);
        if (level < 0)
            return refuse(item, length, "is not a level", why, why_bytes);
        if (!first)
            return refuse(item, length, "names no module", why, why_bytes);
        out->default_level = level;
        return PGAS_OK;
    }
    size_t name_length = (size_t)(equals - item);
    int level = level_by_name(equals + 1, length - name_length - 1);
    if (!is_module_name(item, name_length))
        return refuse(item, length, "has no proper module name", why, why_bytes);
    if (level < 0)
        return refuse(item, length, "does not end in a level", why, why_bytes);
    if (out->n_modules == PGASI_LOG_MODULES_MAX)
        return refuse(item, length, "is one module too many", why, why_bytes);
    memcpy(out->module[out->n_modules].name, item, name_length);
    out->module[out->n_modules].name[name_length] = '\0';
    out->module[out->n_modules].level = level;
    out->n_modules++;
    return PGAS_OK;
}

static pgas_status_t parse_spec(const char *spec, levels_t *out, char *why, size_t why_bytes)
{
    memset(out, 0, sizeof *out);
    out->default_level = PGASI_LOG_WARN;
    for (const char *item = spec;; item++) {
        size_t length = strcspn(item, ",");
        pgas_status_t status = parse_item(item, length, item == spec, out, why, why_bytes);
        if (status != PGAS_OK)
            return status;
        item += length;
        if (*item == '\0')
            return PGAS_OK;
    }
}

pgas_status_t pgasi_log_check(const char *spec, char *why, size_t why_bytes)
{
    levels_t ignored;
    return parse_spec(spec, &ignored, why, why_bytes);
}

pgas_status_t pgasi_log_setup(const char *spec, int rank, int n_ranks, char *why, size_t why_bytes)
{
    levels_t wanted;
    state.rank = rank;
    state.n_ranks = n_ranks;
    pgas_status_t status = parse_spec(spec, &wanted, why, why_bytes);
    if (status != PGAS_OK)
        return status;
    int max_level = wanted.default_level;
    for (int i = 0; i < wanted.n_modules; i++)
        max_level = PGASI_MAX(max_level, wanted.module[i].level);
    state.levels = wanted;
    __atomic_store_n(&pgasi_log_max_level, max_level, __ATOMIC_RELEASE);
    return PGAS_OK;
}

int pgasi_log_rank(void)
{
    return state.rank;
}

bool pgasi_log_enabled(pgasi_log_level_t level, const char *module)
{
    for (int i = state.levels.n_modules - 1; i >= 0; i--) /* the last item for a module applies */
        if (strcmp(state.levels.module[i].name, module) == 0)
            return (int)level <= state.levels.module[i].level;
    return (int)level <= state.levels.default_level;
}

/* ---- lines ---- */

/* @return false if a write fails; no other place is left to report that. */
static bool write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t done = write(fd, text, length);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        text += done;
        length -= (size_t)done;
    }
    return true;
}

/* A failed write raises SIGPIPE in the writing thread. The function consumes that signal, unless
 * one was already pending. */
void pgasi_log_write(int fd, const char *text, size_t length)
{
    sigset_t broken, former, waiting;
    struct timespec at_once = { 0, 0 };
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigemptyset(&waiting);
    pthread_sigmask(SIG_BLOCK, &broken, &former);
    sigpending(&waiting);
    if (!write_all(fd, text, length) && errno == EPIPE && !sigismember(&waiting, SIGPIPE)) {
        while (sigtimedwait(&broken, NULL, &at_once) < 0 && errno == EINTR) {
        }
    }
    pthread_sigmask(SIG_SETMASK, &former, NULL);
}

/* Turns the result of snprintf into the number of characters that are there. */
static size_t printed(int wanted, size_t room)
{
    return wanted < 0 ? 0 : PGASI_MIN((size_t)wanted, room - 1);
}

static size_t print_prefix(char *line, size_t room, pgasi_log_level_t level, const char *module)
{
    struct utsname host;
    if (uname(&host) != 0)
        strcpy(host.nodename, "?");
    int wanted =
        state.rank < 0
            ? snprintf(line, room, "-/- %s %s: %s: ", host.nodename, module, level_names[level])
            : snprintf(line, room, "%d/%d %s %s: %s: ", state.rank, state.n_ranks, host.nodename,
                       module, level_names[level]);
    return printed(wanted, room);
}

/* Makes one line of the text: line ends inside become blanks, one at the end is dropped, and a text
 * that was cut ends in dots. */
static void log_line_v(pgasi_log_level_t level, const char *module, const char *format,
                       va_list arguments)
{
    int saved_errno = errno;
    char line[LINE_BYTES];
    size_t room = sizeof line - 1; /* for the line end */
    size_t start = print_prefix(line, room, level, module);
    int wanted = vsnprintf(line + start, room - start, format, arguments);
    size_t length = start + printed(wanted, room - start);
    if (wanted >= 0 && (size_t)wanted >= room - start)
        memcpy(line + length - 3, "...", 3);
    while (length > start && line[length - 1] == '\n')
        length--;
    for (size_t i = start; i < length; i++)
        line[i] = line[i] == '\n' || line[i] == '\r' ? ' ' : line[i];
    line[length++] = '\n';
    __atomic_fetch_add(&state.counts[level], 1, __ATOMIC_RELAXED);
    pgasi_log_write(state.fd, line, length);
    errno = saved_errno;
}

void pgasi_log_line(pgasi_log_level_t level, const char *module, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line_v(level, module, format, arguments);
    va_end(arguments);
}

uint64_t pgasi_log_count(pgasi_log_level_t level)
{
    return __atomic_load_n(&state.counts[level], __ATOMIC_RELAXED);
}

int pgasi_log_set_fd(int fd)
{
    int former = state.fd;
    state.fd = fd;
    return former;
}

/* ---- fatal errors ---- */

typedef struct {
    void **frames;
    int n, n_max;
} trace_t;

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *arg)
{
    trace_t *trace = arg;
    void *at = (void *)(uintptr_t)_Unwind_GetIP(context);
    if (!at || trace->n == trace->n_max)
        return _URC_END_OF_STACK;
    if (trace->n >= 0)
        trace->frames[trace->n] = at;
    trace->n++;
    return _URC_NO_REASON;
}

int pgasi_backtrace(void **frames, int n_max)
{
    trace_t trace = { frames, -1, n_max }; /* the first frame is this function */
    _Unwind_Backtrace(note_frame, &trace);
    return PGASI_MAX(trace.n, 0);
}

static void print_backtrace(void)
{
    void *frames[FRAMES_MAX];
    if (__atomic_exchange_n(&state.backtrace_printed, 1, __ATOMIC_RELAXED) == 0)
        backtrace_symbols_fd(frames, pgasi_backtrace(frames, FRAMES_MAX), state.fd);
}

void pgasi_log_set_fatal_hook(void (*hook)(void))
{
    __atomic_store_n(&state.fatal_hook, hook, __ATOMIC_RELEASE);
}

void pgasi_fatal(const char *module, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line_v(PGASI_LOG_ERROR, module, format, arguments);
    va_end(arguments);
    print_backtrace();
    /* the hook runs once, even if it fails itself */
    void (*hook)(void) = __atomic_exchange_n(&state.fatal_hook, NULL, __ATOMIC_ACQ_REL);
    if (hook)
        hook();
    abort();
}

/* ---- signals ---- */

static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGABRT };
#define N_FATAL_SIGNALS ((int)PGASI_ARRAY_LENGTH(fatal_signals))
static struct {
    struct sigaction former_actions[N_FATAL_SIGNALS];
    bool installed[N_FATAL_SIGNALS];
} handlers;
/* so that a stack overflow is reported, too */
static char handler_stack[64 * 1024] PGASI_ALIGNED(64);

/* Appends to a line by async-signal-safe means only. */
static size_t append_text(char *line, size_t at, size_t room, const char *text)
{
    while (*text != '\0' && at < room)
        line[at++] = *text++;
    return at;
}

static size_t append_number(char *line, size_t at, size_t room, uint64_t number, unsigned base)
{
    char digits[24];
    size_t i = sizeof digits - 1;
    digits[i] = '\0';
    do {
        digits[--i] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number > 0);
    return append_text(line, at, room, digits + i);
}

static const char *signal_name(int number)
{
    if (number == SIGSEGV)
        return "SIGSEGV";
    return number == SIGBUS ? "SIGBUS" : "SIGABRT";
}

static void print_signal(int number, const siginfo_t *info)
{
    char line[512];
    const size_t room = sizeof line - 1;
    struct utsname host;
    size_t at = 0;
    if (state.rank < 0) {
        at = append_text(line, at, room, "-/- ");
    } else {
        at = append_number(line, at, room, (uint64_t)state.rank, 10);
        at = append_text(line, at, room, "/");
        at = append_number(line, at, room, (uint64_t)state.n_ranks, 10);
        at = append_text(line, at, room, " ");
    }
    at = append_text(line, at, room, uname(&host) == 0 ? host.nodename : "?");
    at = append_text(line, at, room, " signal: error: ");
    at = append_text(line, at, room, signal_name(number));
    if (info->si_code > 0) { /* the kernel sent it, so there is an address */
        at = append_text(line, at, room, " at address 0x");
        at = append_number(line, at, room, (uint64_t)(uintptr_t)info->si_addr, 16);
    } else {
        at = append_text(line, at, room, " sent by process ");
        at = append_number(line, at, room, (uint64_t)info->si_pid, 10);
    }
    line[at++] = '\n';
    __atomic_fetch_add(&state.counts[PGASI_LOG_ERROR], 1, __ATOMIC_RELAXED);
    pgasi_log_write(state.fd, line, at);
}

/* Passes a signal on to the handler that was installed before. The default action happens when our
 * handler returns. */
static void pass_on(int number, siginfo_t *info, void *context, const struct sigaction *former)
{
    bool has_info = (former->sa_flags & SA_SIGINFO) != 0;
    if (!has_info && (former->sa_handler == SIG_DFL || former->sa_handler == SIG_IGN)) {
        signal(number, SIG_DFL); /* a fault cannot be ignored: the kernel kills the process */
        if (info->si_code <= 0) {
            /* blocked until this function returns; a fault then happens again, with its true
             * address */
            raise(number);
        }
        return;
    }
    if ((former->sa_flags & (int)SA_RESETHAND) != 0)
        signal(number, SIG_DFL);
    if (has_info)
        former->sa_sigaction(number, info, context);
    else
        former->sa_handler(number);
}

static void on_fatal_signal(int number, siginfo_t *info, void *context)
{
    static int line_printed;
    int saved_errno = errno;
    const struct sigaction *former = NULL;
    for (int i = 0; i < N_FATAL_SIGNALS; i++)
        if (fatal_signals[i] == number)
            former = &handlers.former_actions[i];
    bool ignored =
        (former->sa_flags & SA_SIGINFO) == 0 && former->sa_handler == SIG_IGN && info->si_code <= 0;
    if (!ignored) {
        if (__atomic_exchange_n(&line_printed, 1, __ATOMIC_RELAXED) == 0 &&
            __atomic_load_n(&state.backtrace_printed, __ATOMIC_RELAXED) == 0) {
            print_signal(number, info);
            print_backtrace();
        }
        pass_on(number, info, context, former);
    }
    errno = saved_errno;
}

/* The handler of the calling thread gets a stack of its own, unless it has one. */
static void provide_stack(void)
{
    stack_t current;
    stack_t wanted = { .ss_sp = handler_stack, .ss_size = sizeof handler_stack };
    if (sigaltstack(NULL, &current) == 0 && (current.ss_flags & SS_DISABLE) != 0)
        sigaltstack(&wanted, NULL);
}

void pgasi_log_install_backtrace(void)
{
    provide_stack();
    for (int i = 0; i < N_FATAL_SIGNALS; i++) {
        if (handlers.installed[i])
            continue;
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = on_fatal_signal;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&ours.sa_mask);
        if (sigaction(fatal_signals[i], NULL, &handlers.former_actions[i]) == 0 &&
            sigaction(fatal_signals[i], &ours, NULL) == 0)
            handlers.installed[i] = true;
    }
}

void pgasi_log_remove_backtrace(void)
{
    for (int i = 0; i < N_FATAL_SIGNALS; i++) {
        struct sigaction current;
        if (handlers.installed[i] && sigaction(fatal_signals[i], NULL, &current) == 0 &&
            (current.sa_flags & SA_SIGINFO) != 0 && current.sa_sigaction == on_fatal_signal) {
            sigaction(fatal_signals[i], &handlers.former_actions[i], NULL);
            handlers.installed[i] = false;
        }
    }
}
