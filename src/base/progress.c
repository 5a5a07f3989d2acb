/* Progress of long phases. Shaped for some thousand calls a second: a call that shows nothing reads
 * the clock and formats one line.
 *
 * Invariants: a phase is active from its first call until it is complete or another one begins. The
 * signal handler is installed exactly while a phase is active, and only for signals that are not
 * ignored. The handler reads nothing but `epitaph`. That pointer always refers to a complete line,
 * because calls write to two buffers in turn. */
#include "base/progress.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/checks.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/param.h"
#include "pgas/info.h"

#define BAR_WIDTH     40
#define BAR_DELAY_MS  1000u /* shorter phases have no bar */
#define BAR_STEP_MS   100u
#define MS            1000000u
#define PHASE_BYTES   32
#define CLEAR_LINE    "\r\033[K"
#define EPITAPH_BYTES (PGASI_PROGRESS_TEXT_BYTES + 16)

/* ---- texts ---- */

static double percent(const pgasi_progress_t *p)
{
    return p->done >= p->total ? 100 : 100 * (double)p->done / (double)p->total;
}

/* "45 %", "0.17 %", and never "100 %" before the end; "5.1 M" if the total is unknown */
static const char *share_text(const pgasi_progress_t *p, char text[static PGASI_NUMBER_BYTES])
{
    double value = percent(p);
    if (p->total == 0)
        return pgasi_number_count((double)p->done, text);
    if (value >= 10 || value < 0.01)
        snprintf(text, PGASI_NUMBER_BYTES, "%d %%", (int)value);
    else
        snprintf(text, PGASI_NUMBER_BYTES, "%.2g %%", value);
    return text;
}

static double rate(const pgasi_progress_t *p)
{
    return p->seconds > 0 && p->done > p->first ? (double)(p->done - p->first) / p->seconds : 0;
}

/* ", 4 s left"; the elapsed time if the remaining time is unknown */
static size_t add_time(const pgasi_progress_t *p, char *text, size_t room)
{
    double each = rate(p);
    bool known = p->total > p->done && each > 0;
    double seconds = known ? (double)(p->total - p->done) / each : p->seconds;
    const char *which = known ? "left" : "so far";
    if (p->total > 0 && p->done >= p->total)
        which = "in all";
    int n = snprintf(text, room, ", %.0f s %s", seconds, which);
    return PGASI_MIN((size_t)n, room - 1);
}

static void add_note(const pgasi_progress_t *p, char *text, size_t room)
{
    if (p->note && *p->note != '\0')
        snprintf(text, room, "; %s", p->note);
}

const char *pgasi_progress_line(const pgasi_progress_t *p, char text[PGASI_PROGRESS_TEXT_BYTES])
{
    const size_t room = PGASI_PROGRESS_TEXT_BYTES;
    char share[PGASI_NUMBER_BYTES], each[PGASI_NUMBER_BYTES];
    int n = snprintf(text, room, "%s: %s, %s/s", p->phase, share_text(p, share),
                     pgasi_number_count(rate(p), each));
    size_t at = PGASI_MIN((size_t)n, room - 1);
    at += add_time(p, text + at, room - at);
    add_note(p, text + at, room - at);
    return text;
}

const char *pgasi_progress_bar(const pgasi_progress_t *p, char text[PGASI_PROGRESS_TEXT_BYTES])
{
    const size_t room = PGASI_PROGRESS_TEXT_BYTES;
    char share[PGASI_NUMBER_BYTES];
    int width = (int)(BAR_WIDTH * percent(p) / 100);
    int n = p->total > 0
                ? snprintf(text, room, "%s [%-*.*s] %s", p->phase, BAR_WIDTH, width,
                           "########################################", share_text(p, share))
                : snprintf(text, room, "%s %s", p->phase, share_text(p, share));
    size_t at = PGASI_MIN((size_t)n, room - 1);
    at += add_time(p, text + at, room - at);
    add_note(p, text + at, room - at);
    return text;
}

const char *pgasi_progress_epitaph(const pgasi_progress_t *p, char text[PGASI_PROGRESS_TEXT_BYTES])
{
    char share[PGASI_NUMBER_BYTES];
    snprintf(text, PGASI_PROGRESS_TEXT_BYTES, "interrupted in %s at %s after %.0f s", p->phase,
             share_text(p, share), p->seconds);
    return text;
}

/* ---- signals ---- */

static const int stop_signals[] = { SIGINT, SIGTERM };
#define N_STOP_SIGNALS (int)PGASI_ARRAY_LENGTH(stop_signals)

static struct {
    struct sigaction former_actions[N_STOP_SIGNALS];
    bool installed[N_STOP_SIGNALS];
    char epitaphs[2][EPITAPH_BYTES];
    char *epitaph; /* one of the two, or NULL */
} handlers;

static void put(const char *text)
{
    pgasi_log_write(STDERR_FILENO, text, strlen(text));
}

/* Prints one line for any number of signals, and then raises the signal again for the former
 * handler. */
static void on_stop(int number)
{
    int saved_errno = errno;
    const char *text = __atomic_exchange_n(&handlers.epitaph, NULL, __ATOMIC_RELAXED);
    if (text)
        put(text);
    for (int i = 0; i < N_STOP_SIGNALS; i++)
        if (stop_signals[i] == number)
            sigaction(number, &handlers.former_actions[i], NULL);
    raise(number); /* blocked until this function returns */
    errno = saved_errno;
}

static bool is_ours(int number, struct sigaction *current)
{
    return sigaction(number, NULL, current) == 0 && (current->sa_flags & SA_SIGINFO) == 0 &&
           current->sa_handler == on_stop;
}

static void watch_signals(void)
{
    struct sigaction ours = { .sa_handler = on_stop }, current;
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < N_STOP_SIGNALS; i++) {
        if (is_ours(stop_signals[i], &current))
            continue;
        bool ignored = (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_IGN;
        handlers.former_actions[i] = current;
        /* interrupted system calls behave as before */
        ours.sa_flags = SA_ONSTACK | (current.sa_flags & SA_RESTART);
        handlers.installed[i] = !ignored && sigaction(stop_signals[i], &ours, NULL) == 0;
    }
}

static void leave_signals(void)
{
    struct sigaction current;
    for (int i = 0; i < N_STOP_SIGNALS; i++) {
        if (handlers.installed[i] && is_ours(stop_signals[i], &current))
            sigaction(stop_signals[i], &handlers.former_actions[i], NULL);
        handlers.installed[i] = false;
    }
}

/* ---- phases ---- */

static struct {
    char name[PHASE_BYTES]; /* empty: none is active */
    uint64_t first, last;
    uint64_t begin_ns, shown_ns;
    int mode; /* BAR, LINES or NO */
    bool shown;
} active;

/* Before pgas_init the global parameters are not loaded yet. */
static const pgasi_params_t *parameters(void)
{
    static pgasi_params_t own;
    static bool loaded;
    if (pgasi_log_rank() >= 0)
        return &pgasi_param;
    if (!loaded) {
        pgasi_param_origin_t origins[PGASI_PARAM_COUNT];
        char why[PGASI_PARAM_WHY_BYTES];
        pgasi_param_load(&own, origins, why, sizeof why);
        loaded = true;
    }
    return &own;
}

static void begin_phase(const char *phase, uint64_t done)
{
    int wanted = parameters()->progress;
    if (wanted == PGASI_PROGRESS_AUTO)
        wanted = isatty(STDERR_FILENO) ? PGASI_PROGRESS_BAR : PGASI_PROGRESS_LINES;
    snprintf(active.name, sizeof active.name, "%s", phase);
    active.first = active.last = done;
    active.begin_ns = active.shown_ns = pgasi_now_ns();
    active.mode = wanted;
    active.shown = false;
    if (wanted != PGASI_PROGRESS_NO)
        watch_signals();
}

static void end_phase(void)
{
    if (active.name[0] == '\0')
        return;
    if (active.shown && active.mode == PGASI_PROGRESS_BAR)
        put(CLEAR_LINE);
    active.name[0] = '\0';
    leave_signals();
    __atomic_store_n(&handlers.epitaph, NULL, __ATOMIC_RELAXED);
}

/* Prepares the line that the handler prints if a signal arrives before the next call. */
static void write_epitaph(const pgasi_progress_t *p)
{
    static int turn;
    char text[PGASI_PROGRESS_TEXT_BYTES];
    char *line = handlers.epitaphs[turn ^= 1];
    const char *before = active.shown && active.mode == PGASI_PROGRESS_BAR ? "\n" : "";
    snprintf(line, EPITAPH_BYTES, "%sprogress: %s\n", before, pgasi_progress_epitaph(p, text));
    __atomic_store_n(&handlers.epitaph, line, __ATOMIC_RELEASE);
}

static void show(const pgasi_progress_t *p, uint64_t now, bool complete)
{
    char text[PGASI_PROGRESS_TEXT_BYTES], line[PGASI_PROGRESS_TEXT_BYTES + 16];
    uint64_t interval_ms = (uint64_t)parameters()->progress_ms, delay_ms = interval_ms;
    bool is_bar = active.mode == PGASI_PROGRESS_BAR;
    if (is_bar) {
        delay_ms = PGASI_MIN(delay_ms, BAR_DELAY_MS);
        interval_ms = PGASI_MIN(interval_ms, BAR_STEP_MS);
    }
    bool due = now - active.shown_ns >= (active.shown ? interval_ms : delay_ms) * MS;
    if (complete ? !active.shown || is_bar : !due)
        return;
    if (is_bar)
        snprintf(line, sizeof line, CLEAR_LINE "%s", pgasi_progress_bar(p, text));
    else
        snprintf(line, sizeof line, "progress: %s\n", pgasi_progress_line(p, text));
    put(line);
    active.shown = true;
    active.shown_ns = now;
}

void pgas_progress_show(const char *phase, uint64_t done, uint64_t total, const char *note)
{
    if (pgasi_log_rank() > 0)
        return;
    if (!phase || *phase == '\0') {
        end_phase();
        return;
    }
    bool complete = total > 0 && done >= total;
    bool is_new = strncmp(active.name, phase, sizeof active.name - 1) != 0 || done < active.last;
    if (is_new) {
        end_phase();
        if (!complete)
            begin_phase(phase, done);
    }
    if (active.name[0] == '\0')
        return;
    uint64_t now = pgasi_now_ns();
    pgasi_progress_t p = {
        .phase = active.name, .note = note, .done = done, .total = total, .first = active.first
    };
    p.seconds = (double)(now - active.begin_ns) * 1e-9;
    active.last = done;
    if (active.mode != PGASI_PROGRESS_NO) {
        show(&p, now, complete);
        write_epitaph(&p);
    }
    if (complete)
        end_phase();
}
